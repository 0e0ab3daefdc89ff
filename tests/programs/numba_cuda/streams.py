"""Work on several streams between page-locked memory and the device, timed by events."""

import numpy as np
from numba import cuda


@cuda.jit
def polish(x):
    i = cuda.grid(1)
    if i < x.size:
        x[i] = 0.5 * (x[i] + 2.0 / x[i])


def main():
    n, parts = 128, 4
    host = cuda.pinned_array(n, dtype=np.float32)
    host[:] = np.linspace(1, 3, n)
    result = np.zeros(n, dtype=np.float32)
    streams = [cuda.stream() for _ in range(parts)]
    start, end = cuda.event(), cuda.event()

    start.record()
    size = n // parts
    with cuda.pinned(result):
        for k, stream in enumerate(streams):
            part = slice(k * size, (k + 1) * size)
            d_part = cuda.to_device(host[part], stream=stream)
            for _ in range(3):
                polish[1, size, stream](d_part)
            d_part.copy_to_host(result[part], stream=stream)
        for stream in streams:
            stream.synchronize()
    end.record()
    end.synchronize()
    return result, np.array(np.isfinite(start.elapsed_time(end)))
