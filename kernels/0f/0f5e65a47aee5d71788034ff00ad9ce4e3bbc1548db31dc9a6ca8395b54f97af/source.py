def step_adjoint(tid, x, y, ct_x, ct_y):
    # 10: i = dk.tid()
    i = tid[0]
    # 11: y[i] = 0.5 * x[i]
    t = ct_y[i]
    ct_y[i] = 0.0
    ct_x[i] += t * 0.5
