def step(tid, x, y):
    # 10: i = dk.tid()
    i = tid[0]
    # 11: y[i] = 0.5 * x[i]
    y[i] = 0.5 * x[i]
