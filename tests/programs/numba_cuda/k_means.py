"""K-means: each point finds its centre, atomics add up the points of each, the host divides."""

import math

import numpy as np
from numba import cuda


@cuda.jit(device=True)
def distance(points, i, centres, k):
    d = 0.0
    for axis in range(points.shape[1]):
        d += (points[i, axis] - centres[k, axis]) ** 2
    return math.sqrt(d)


@cuda.jit
def assign(points, centres, labels):
    i = cuda.grid(1)
    if i < points.shape[0]:
        best = 0
        nearest = distance(points, i, centres, 0)
        for k in range(1, centres.shape[0]):
            d = distance(points, i, centres, k)
            if d < nearest:
                nearest = d
                best = k
        labels[i] = best


@cuda.jit
def accumulate(points, labels, sums, counts):
    i = cuda.grid(1)
    if i < points.shape[0]:
        k = labels[i]
        for axis in range(points.shape[1]):
            cuda.atomic.add(sums, (k, axis), points[i, axis])
        cuda.atomic.add(counts, k, 1)


def main():
    rng = np.random.default_rng(11)
    middle = np.array([[0.0, 0.0], [4.0, 1.0], [1.0, 5.0]])
    points = (middle[rng.integers(0, 3, 150)] + 0.4 * rng.normal(size=(150, 2))).copy()
    centres = points[:3].copy()

    d_points = cuda.to_device(points)
    d_labels = cuda.device_array(len(points), dtype=np.int32)
    threads = 64
    blocks = math.ceil(len(points) / threads)
    for _ in range(4):
        assign[blocks, threads](d_points, centres, d_labels)
        d_sums = cuda.to_device(np.zeros_like(centres))
        d_counts = cuda.to_device(np.zeros(3, dtype=np.int64))
        accumulate[blocks, threads](d_points, d_labels, d_sums, d_counts)
        counts = d_counts.copy_to_host()
        centres = d_sums.copy_to_host() / np.maximum(counts, 1)[:, None]
    return centres, d_labels.copy_to_host(), counts
