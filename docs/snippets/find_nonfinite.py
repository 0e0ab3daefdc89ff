import numpy as np

import diffkern as dk
from diffkern.testing import find_nonfinite


@dk.kernel
def roots(x: dk.array(dtype=float), r: dk.array(dtype=float)):
    i = dk.tid()
    r[i] = dk.sqrt(x[i])


if __name__ == "__main__":
    x = np.array([4.0, 0.0], np.float32)
    found = find_nonfinite(roots, dim=2, inputs=[x], outputs=[np.zeros(2, np.float32)])
    print(f"line {found.loc.line}: {found.message}")
    print(found.kernel, found.is_adjoint, found.thread)
