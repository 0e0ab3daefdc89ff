"""Extrema of tiles and their positions: few elements one after the other, many side by side, with the same meaning."""

import numpy as np
import pytest

import diffkern as dk
import diffkern.warp as wp

LENGTHS = (5, 31, 32, 47, 80)
TYPES = {"float32": dk.float32, "float16": dk.float16, "int32": dk.int32, "uint32": dk.uint32}


def extrema(length, dtype):
    n, number = dk.constant(length), TYPES[dtype]

    @dk.kernel
    def found(x: dk.array2d(dtype=number), y: dk.array2d(dtype=number), at: dk.array2d(dtype=dk.int32)):
        i = dk.tid()
        t = dk.tile_load(x[i], shape=n)
        y[i, 0] = dk.tile_min(t)[0]
        y[i, 1] = dk.tile_max(t)[0]
        at[i, 0] = dk.tile_argmin(t)[0]
        at[i, 1] = dk.tile_argmax(t)[0]

    return found


def rows(length, dtype):
    """Numbers of which some are equal, with the extrema at every place; of floats also infinities and NaN."""
    rng = np.random.default_rng(length)
    base = rng.integers(2, 90, length)
    found = [base, np.full(length, 7)]
    for k in range(length):
        for value in (0, 99):
            row = base.copy()
            row[[k, (k * 7 + 3) % length]] = value
            found.append(row)
    if not dtype.startswith("float"):
        lowest, highest = np.iinfo(dtype).min, np.iinfo(dtype).max
        return np.array([*found, [lowest] * length, [highest] * length]).astype(dtype)
    for k in range(length):
        row = base.astype(dtype)
        row[[k, (k * 5 + 2) % length]] = np.nan
        found += [row, np.where(np.arange(length) == k, np.inf, base), np.where(row > 50, -np.inf, row)]
    return np.array([*found, *np.outer([np.inf, -np.inf, np.nan], np.ones(length))], dtype)


@pytest.mark.parametrize(
    ("length", "dtype"), [(n, "float32") for n in LENGTHS] + [(47, d) for d in TYPES if d != "float32"]
)
def test_extrema_and_the_first_of_them(length, dtype):
    """As NumPy has them: NaN is smaller and greater than all numbers."""
    x = rows(length, dtype)
    y, at = dk.zeros((len(x), 2), dtype=TYPES[dtype]), dk.zeros((len(x), 2), dtype=dk.int32)
    dk.launch_tiled(
        extrema(length, dtype), dim=len(x), inputs=[dk.array(x, dtype=TYPES[dtype])], outputs=[y, at], block_dim=32
    )
    np.testing.assert_array_equal(y.numpy(), np.stack([x.min(axis=1), x.max(axis=1)], axis=1))
    np.testing.assert_array_equal(at.numpy(), np.stack([x.argmin(axis=1), x.argmax(axis=1)], axis=1))


@dk.kernel
def along_axes(x: dk.array3d(dtype=float), rows: dk.array2d(dtype=float), columns: dk.array2d(dtype=float)):
    i = dk.tid()
    t = dk.tile_load(x[i], shape=(3, 37))
    dk.tile_store(rows[i], dk.tile_max(dk.tile_map(dk.abs, t), axis=1))
    dk.tile_store(columns[i], dk.tile_min(t, axis=0))


def test_extrema_along_axes_and_their_gradients():
    rng = np.random.default_rng(4)
    values = rng.permutation(4 * 3 * 37).reshape(4, 3, 37).astype(np.float32) - 200.5
    x = dk.array(values, requires_grad=True)
    r, c = (dk.zeros((4, n), dtype=float, requires_grad=True) for n in (3, 37))
    with dk.Tape() as tape:
        dk.launch_tiled(along_axes, dim=4, inputs=[x], outputs=[r, c], block_dim=32)
    np.testing.assert_array_equal(r.numpy(), np.abs(values).max(axis=2))
    np.testing.assert_array_equal(c.numpy(), values.min(axis=1))
    of_rows, of_columns = (rng.uniform(1.0, 2.0, a.shape).astype(np.float32) for a in (r, c))
    tape.backward(grads={r: dk.array(of_rows), c: dk.array(of_columns)})
    expected = np.zeros_like(values)
    for i in range(4):
        for j in range(3):
            k = np.abs(values[i, j]).argmax()
            expected[i, j, k] += of_rows[i, j] * np.sign(values[i, j, k])
        for k in range(37):
            expected[i, values[i, :, k].argmin(), k] += of_columns[i, k]
    np.testing.assert_allclose(x.grad.numpy(), expected, rtol=1e-6)


@dk.kernel
def of_vectors(x: dk.array2d(dtype=dk.vec3), y: dk.array2d(dtype=dk.vec3), rows: dk.array2d(dtype=dk.vec3)):
    i = dk.tid()
    t = dk.tile_load(x[i], shape=13)
    y[i, 0] = dk.tile_reduce(dk.min, t)[0]
    y[i, 1] = dk.tile_max(t)[0]
    dk.tile_store(rows[i], dk.tile_min(dk.tile_reshape(dk.tile_view(t, offset=0, shape=12), shape=(3, 4)), axis=1))


def test_extrema_of_vectors_are_those_of_each_component():
    """The cotangent of a component goes to the first of those that are equal."""
    rng = np.random.default_rng(6)
    values = rng.integers(0, 4, (3, 13, 3)).astype(np.float32)
    x = dk.array(values, dtype=dk.vec3, requires_grad=True)
    y, rows = (dk.zeros((3, n), dtype=dk.vec3, requires_grad=True) for n in (2, 3))
    with dk.Tape() as tape:
        dk.launch_tiled(of_vectors, dim=3, inputs=[x], outputs=[y, rows], block_dim=32)
    parts = values[:, :12].reshape(3, 3, 4, 3)
    np.testing.assert_array_equal(y.numpy(), np.stack([values.min(axis=1), values.max(axis=1)], axis=1))
    np.testing.assert_array_equal(rows.numpy(), parts.min(axis=2))
    of_y, of_rows = (rng.integers(1, 9, a.shape + (3,)).astype(np.float32) for a in (y, rows))
    tape.backward(grads={a: dk.array(g, dtype=dk.vec3) for a, g in ((y, of_y), (rows, of_rows))})
    expected = np.zeros_like(values)
    for i, c in np.ndindex(3, 3):
        expected[i, values[i, :, c].argmin(), c] += of_y[i, 0, c]
        expected[i, values[i, :, c].argmax(), c] += of_y[i, 1, c]
        for r in range(3):
            expected[i, 4 * r + parts[i, r, :, c].argmin(), c] += of_rows[i, r, c]
    np.testing.assert_array_equal(x.grad.numpy(), expected)


@pytest.mark.parametrize("dtype", [wp.mat22, wp.quat, wp.types.vector(length=2, dtype=wp.bool)], ids=str)
def test_what_is_not_compared_component_by_component(dtype):
    @wp.kernel
    def least(x: wp.array(dtype=dtype), y: wp.array(dtype=dtype)):
        wp.tile_store(y, wp.tile_min(wp.tile_load(x, shape=3)))

    with pytest.raises(dk.KernelTypeError, match="tile_min of a tile of"):
        wp.launch_tiled(least, dim=[1], inputs=[wp.zeros(3, dtype=dtype), wp.zeros(1, dtype=dtype)], block_dim=8)
