import diffkern as dk

x, y = dk.array([1.0, -1.0], dtype=float), dk.zeros(2)


# wrong
@dk.kernel(mode="finite")
def root(x: dk.array(dtype=float), y: dk.array(dtype=float)):
    i = dk.tid()
    y[i] = dk.sqrt(x[i])


dk.launch(root, dim=2, inputs=[x], outputs=[y])


# instead
@dk.kernel(mode="finite")
def root(x: dk.array(dtype=float), y: dk.array(dtype=float)):
    i = dk.tid()
    y[i] = dk.sqrt(dk.max(x[i], 0.0))


dk.launch(root, dim=2, inputs=[x], outputs=[y])
