"""Scans of tiles, of all types, lengths, special numbers and views, against NumPy; extrema along axes by gradients."""

import numpy as np
import pytest

import diffkern as dk

SHAPES = ((3, 11), (3, 3), (1, 1), (1, 7), (8, 1), (4, 16), (17, 9))
TYPES = ("float32", "float64", "float16", "int32", "int64", "uint8")
CASES = [((3, 11), dtype) for dtype in ("float32", "float16", "int32")]
REST = [(shape, dtype) for shape in SHAPES for dtype in TYPES if (shape, dtype) not in CASES]
CASES += [pytest.param(*case, marks=pytest.mark.full) for case in REST]


def scans(shape, dtype):
    rows, columns, number = *map(dk.constant, shape), getattr(dk, dtype)

    @dk.kernel(enable_backward=False)
    def scanned(x: dk.array3d(dtype=number), y: dk.array4d(dtype=number)):
        i = dk.tid()
        t = dk.tile_transpose(dk.tile_load(x[i], shape=(rows, columns)))
        dk.tile_store(y[i, 0], dk.tile_scan_inclusive(t))
        dk.tile_store(y[i, 1], dk.tile_scan_exclusive(t))
        dk.tile_store(y[i, 2], dk.tile_scan_max_inclusive(t))
        dk.tile_store(y[i, 3], dk.tile_scan_min_inclusive(t))

    return scanned


def numbers(shape, dtype):
    """Small whole numbers, whose sums are exact; of floats also infinities, NaN and zeros of both signs."""
    rng = np.random.default_rng(shape)
    found = [rng.integers(0 if dtype == "uint8" else -4, 5, shape) for _ in range(3)]
    if not dtype.startswith("float"):
        return np.array(found).astype(dtype)
    for special in (np.nan, np.inf, -np.inf, -0.0):
        row = found[0].astype(dtype)
        row.flat[rng.integers(row.size, size=2)] = special
        found.append(row)
    return np.array(found).astype(dtype)


@pytest.mark.parametrize(("shape", "dtype"), CASES)
def test_scans_of_transposed_tiles(shape, dtype):
    x = numbers(shape, dtype)
    y = np.zeros((len(x), 4, *shape[::-1]), dtype)
    dk.launch_tiled(scans(shape, dtype), dim=len(x), inputs=[x], outputs=[y], block_dim=32)
    flat, found = x.transpose(0, 2, 1).reshape(len(x), -1), y.reshape(len(x), 4, -1)
    with np.errstate(invalid="ignore"):
        sums = np.cumsum(flat, axis=1, dtype=dtype)
    before = np.concatenate([np.zeros((len(x), 1), dtype), sums[:, :-1]], axis=1)
    extrema = np.maximum.accumulate(flat, axis=1), np.minimum.accumulate(flat, axis=1)
    for scan, expected in zip(found.swapaxes(0, 1), (sums, before, *extrema), strict=True):
        np.testing.assert_array_equal(scan, expected)


def along_axes(shape):
    rows, columns = map(dk.constant, shape)

    @dk.kernel
    def extrema(x: dk.array3d(dtype=float), across: dk.array3d(dtype=float), down: dk.array3d(dtype=float)):
        i = dk.tid()
        t = dk.tile_load(x[i], shape=(rows, columns))
        dk.tile_store(across[i, 0], dk.tile_max(t, axis=1))
        dk.tile_store(across[i, 1], dk.tile_min(t * 2.0, axis=1))
        dk.tile_store(down[i, 0], dk.tile_max(t, axis=0))
        dk.tile_store(down[i, 1], dk.tile_min(dk.tile_transpose(t), axis=1))

    return extrema


@pytest.mark.parametrize(
    "shape", [(3, 34), *(pytest.param(s, marks=pytest.mark.full) for s in ((33, 40), (1, 5), (64, 3)))]
)
def test_the_first_extremum_along_an_axis_takes_the_cotangent(shape):
    rows, columns = shape
    x = numbers(shape, "float32")
    given = dk.array(x, dtype=float, requires_grad=True)
    outs = [dk.zeros((len(x), 2, n), dtype=float, requires_grad=True) for n in (rows, columns)]
    with dk.Tape() as tape:
        dk.launch_tiled(along_axes(shape), dim=len(x), inputs=[given], outputs=outs, block_dim=32)
    seeds = [np.arange(1.0, out.size + 1.0).reshape(out.shape).astype("f") for out in outs]
    tape.backward(grads={out: dk.array(s, dtype=float) for out, s in zip(outs, seeds, strict=True)})
    expected, i = np.zeros_like(x), np.arange(len(x))[:, None]
    np.add.at(expected, (i, np.arange(rows), x.argmax(axis=2)), seeds[0][:, 0])
    np.add.at(expected, (i, np.arange(rows), x.argmin(axis=2)), 2.0 * seeds[0][:, 1])
    np.add.at(expected, (i, x.argmax(axis=1), np.arange(columns)), seeds[1][:, 0])
    np.add.at(expected, (i, x.argmin(axis=1), np.arange(columns)), seeds[1][:, 1])
    np.testing.assert_array_equal(given.grad.numpy(), expected)
