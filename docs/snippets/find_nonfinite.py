import numpy as np

import diffkern as dk
from diffkern.testing import find_nonfinite


@dk.kernel
def lengths(p: dk.array(dtype=dk.vec2), r: dk.array(dtype=float)):
    i = dk.tid()
    r[i] = dk.sqrt(dk.dot(p[i], p[i]))


if __name__ == "__main__":
    p = np.array([[3.0, 4.0], [0.0, 0.0]], np.float32)
    found = find_nonfinite(lengths, dim=2, inputs=[p], outputs=[np.zeros(2, np.float32)])
    print(f"line {found.loc.line}: {found.message}")
    print(found.kernel, found.is_adjoint, found.thread)
