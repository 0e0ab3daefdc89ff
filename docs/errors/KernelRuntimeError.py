import diffkern as dk

x, y = dk.ones(4), dk.zeros(3)
order = dk.array([0, 1, 4], dtype=int)


# wrong
@dk.kernel(mode="debug")
def gather(x: dk.array(dtype=float), order: dk.array(dtype=int), y: dk.array(dtype=float)):
    i = dk.tid()
    y[i] = x[order[i]]


dk.launch(gather, dim=3, inputs=[x, order], outputs=[y])


# instead
@dk.kernel(mode="debug")
def gather(x: dk.array(dtype=float), order: dk.array(dtype=int), y: dk.array(dtype=float)):
    i = dk.tid()
    k = order[i]
    if k >= 0 and k < x.shape[0]:
        y[i] = x[k]


dk.launch(gather, dim=3, inputs=[x, order], outputs=[y])
