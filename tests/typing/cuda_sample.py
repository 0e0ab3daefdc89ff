"""A program for numba.cuda whose types mypy --strict and pyright find nothing to say about; it is also run."""

from typing import Any

import numpy as np

from diffkern import cuda


@cuda.jit(device=True)
def squared(x: float) -> float:
    return x * x


@cuda.jit
def total(x: Any, out: Any) -> None:
    part = cuda.shared.array(4, cuda.float32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    part[t] = squared(x[i]) if i < x.size else 0.0
    cuda.syncthreads()
    if t == 0:
        for k in range(cuda.blockDim.x):
            cuda.atomic.add(out, 0, part[k])


def main() -> Any:
    x = cuda.to_device(np.arange(8, dtype=np.float32))
    out = cuda.to_device(np.zeros(1, np.float32))
    total[2, 4](x, out)
    cuda.synchronize()
    return out.copy_to_host()


if __name__ == "__main__":
    main()
