import diffkern as dk


# wrong
@dk.kernel
def total(x: dk.array(dtype=float), y: dk.array(dtype=float)):
    i = dk.tid()
    terms = [x[i], x[i + 1]]
    y[i] = terms[0] + terms[1]


dk.launch(total, dim=3, inputs=[dk.ones(4)], outputs=[dk.zeros(3)])


# instead
@dk.kernel
def total(x: dk.array(dtype=float), y: dk.array(dtype=float)):
    i = dk.tid()
    terms = dk.vec2(x[i], x[i + 1])
    y[i] = terms[0] + terms[1]


dk.launch(total, dim=3, inputs=[dk.ones(4)], outputs=[dk.zeros(3)])
