import diffkern as dk

x = dk.ones(4, requires_grad=True)
y = dk.zeros(4, requires_grad=True)


# wrong
@dk.kernel
def smooth(x: dk.array(dtype=float)):
    i = dk.tid()
    if i > 0:
        x[i] = 0.5 * (x[i] + x[i - 1])


with dk.Tape() as tape:
    dk.launch(smooth, dim=4, inputs=[x])
tape.backward(grads={x: dk.ones(4)})


# instead
@dk.kernel
def smooth(x: dk.array(dtype=float), y: dk.array(dtype=float)):
    i = dk.tid()
    y[i] = x[i]
    if i > 0:
        y[i] = 0.5 * (x[i] + x[i - 1])


with dk.Tape() as tape:
    dk.launch(smooth, dim=4, inputs=[x], outputs=[y])
tape.backward(grads={y: dk.ones(4)})
