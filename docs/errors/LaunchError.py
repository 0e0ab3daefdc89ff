import numpy as np

import diffkern as dk


@dk.kernel
def double(x: dk.array(dtype=float), y: dk.array(dtype=float)):
    i = dk.tid()
    y[i] = 2.0 * x[i]


y = dk.zeros(3)

# wrong
dk.launch(double, dim=3, inputs=[np.ones(3)], outputs=[y])  # float64

# instead
dk.launch(double, dim=3, inputs=[np.ones(3, dtype=np.float32)], outputs=[y])
