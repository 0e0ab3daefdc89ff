import diffkern as dk


# wrong
@dk.kernel
def blend(x: dk.array(dtype=dk.float32), w: dk.array(dtype=dk.float64), y: dk.array(dtype=dk.float32)):
    i = dk.tid()
    y[i] = x[i] * w[i]


dk.launch(blend, dim=3, inputs=[dk.ones(3), dk.ones(3, dtype=dk.float64)], outputs=[dk.zeros(3)])


# instead
@dk.kernel
def blend(x: dk.array(dtype=dk.float32), w: dk.array(dtype=dk.float64), y: dk.array(dtype=dk.float32)):
    i = dk.tid()
    y[i] = x[i] * float(w[i])


dk.launch(blend, dim=3, inputs=[dk.ones(3), dk.ones(3, dtype=dk.float64)], outputs=[dk.zeros(3)])
