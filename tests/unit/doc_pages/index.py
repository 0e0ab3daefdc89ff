import numpy as np

import diffkern as dk

m = 2
x = dk.array(np.float32([[0, 0, 0], [1, 0, 0], [1, 2, 0]]), dtype=dk.vec3, requires_grad=True)
edges = np.int32([[0, 1], [1, 2]])
rest = dk.array([0.5, 1.0], dtype=float, requires_grad=True)
energy = dk.zeros(1, dtype=float, requires_grad=True)
