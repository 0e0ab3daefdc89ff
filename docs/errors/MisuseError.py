import diffkern as dk


# wrong
def double(x: dk.array(dtype=float), y: dk.array(dtype=float)):
    i = dk.tid()
    y[i] = 2.0 * x[i]


dk.launch(double, dim=3, inputs=[dk.ones(3)], outputs=[dk.zeros(3)])


# instead
@dk.kernel
def double(x: dk.array(dtype=float), y: dk.array(dtype=float)):
    i = dk.tid()
    y[i] = 2.0 * x[i]


dk.launch(double, dim=3, inputs=[dk.ones(3)], outputs=[dk.zeros(3)])
