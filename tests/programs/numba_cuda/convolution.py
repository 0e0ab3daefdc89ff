"""A picture convolved with a small mask, padded with zeros; and a median of nine in a local array."""

import numpy as np
from numba import cuda, float32


@cuda.jit
def convolve(result, mask, image):
    i, j = cuda.grid(2)
    rows, cols = image.shape
    if i >= rows or j >= cols:
        return
    delta_rows = mask.shape[0] // 2
    delta_cols = mask.shape[1] // 2
    s = 0.0
    for k in range(mask.shape[0]):
        for l in range(mask.shape[1]):  # noqa: E741
            i_k = i - k + delta_rows
            j_l = j - l + delta_cols
            if (i_k >= 0) and (i_k < rows) and (j_l >= 0) and (j_l < cols):
                s += mask[k, l] * image[i_k, j_l]
    result[i, j] = s


@cuda.jit
def median(image, out):
    i, j = cuda.grid(2)
    if 0 < i < image.shape[0] - 1 and 0 < j < image.shape[1] - 1:
        window = cuda.local.array(9, dtype=float32)
        for k in range(9):
            window[k] = image[i + k // 3 - 1, j + k % 3 - 1]
        for k in range(1, 9):
            value = window[k]
            m = k - 1
            while m >= 0 and window[m] > value:
                window[m + 1] = window[m]
                m -= 1
            window[m + 1] = value
        out[i, j] = window[4]


def main():
    rng = np.random.default_rng(8)
    image = rng.random((14, 19)).astype(np.float32)
    mask = rng.random((5, 3)).astype(np.float32)
    mask /= mask.sum()
    result = np.empty_like(image)
    threads = (8, 8)
    blocks = ((14 + 7) // 8, (19 + 7) // 8)
    convolve[blocks, threads](result, mask, image)
    filtered = image.copy()
    median[blocks, threads](image, filtered)
    return result, filtered
