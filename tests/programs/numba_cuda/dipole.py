"""The field of charges: constant memory, keyword options, a device function that writes into a local array."""

import math

import numpy as np
from numba import cuda, float32, int32

CHARGES = np.array([[0.3, 0.5, 1.0], [0.7, 0.5, -1.0]], dtype=np.float32)
EPSILON = np.float32(1e-3)


@cuda.jit(device=True, fastmath=True)
def add_field(field, px, py, cx, cy, q):
    dx = px - cx
    dy = py - cy
    r2 = dx * dx + dy * dy + EPSILON
    scale = q / (r2 * math.sqrt(r2))
    field[0] += dx * scale
    field[1] += dy * scale


@cuda.jit(fastmath=False, debug=False)
def potential(field_x, field_y, sign):
    charges = cuda.const.array_like(CHARGES)
    col, row = cuda.grid(2)
    rows, cols = field_x.shape
    if row >= rows or col >= cols:
        return
    field = cuda.local.array(shape=2, dtype=float32)
    field[0] = 0
    field[1] = 0
    px = float32(col + 0.5) / float32(cols)
    py = float32(row + 0.5) / float32(rows)
    for c in range(charges.shape[0]):
        add_field(field, px, py, charges[c, 0], charges[c, 1], charges[c, 2])
    field_x[row, col] = field[0]
    field_y[row, col] = field[1]
    strong = int32(abs(field[0]) > abs(field[1]))
    sign[row, col] = strong if field[0] > 0 else -strong


def main():
    shape = (10, 13)
    field_x = cuda.device_array(shape, dtype=np.float32)
    field_y = cuda.device_array_like(field_x)
    sign = cuda.to_device(np.zeros(shape, dtype=np.int8))
    potential[(4, 3), (4, 4)](field_x, field_y, sign)
    return field_x.copy_to_host(), field_y.copy_to_host(), sign.copy_to_host()
