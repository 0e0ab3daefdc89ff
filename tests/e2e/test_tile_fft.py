"""Fourier transforms of tiles: of any length, in both precisions and directions, with gradients."""

import re

import numpy as np
import pytest

import diffkern as dk
from diffkern.lower.tiles.fft import _on_circle, factors

SIZES = {"float32": (2, 22, 60), "float64": (1, 5, 8, 37)}
MORE = {"float32": (1, 3, 4, 7, 8, 128), "float64": (2, 3, 4, 12, 60, 101, 256)}
CASES = [pytest.param(n, dtype) for dtype, lengths in SIZES.items() for n in lengths]
CASES += [pytest.param(n, dtype, marks=pytest.mark.full) for dtype, lengths in MORE.items() for n in lengths]
ROWS, BLOCKS = 2, 3
TYPES = {"float32": (dk.vec2, np.complex64), "float64": (dk.vec2d, np.complex128)}


def transforms(length: int, dtype: str):
    """A kernel of both transforms of rows of some length."""
    n, rows, number = dk.constant(length), dk.constant(ROWS), TYPES[dtype][0]

    @dk.kernel
    def both(x: dk.array2d(dtype=number), y: dk.array2d(dtype=number), z: dk.array2d(dtype=number)):
        i = dk.tid()
        t = dk.tile_load(x, shape=(rows, n), offset=(i * rows, 0))
        u = dk.tile_load(x, shape=(rows, n), offset=(i * rows, 0))
        dk.tile_fft(t)
        dk.tile_ifft(u)
        dk.tile_store(y, t, offset=(i * rows, 0))
        dk.tile_store(z, u, offset=(i * rows, 0))

    return both


def numbers(length: int, dtype: str, seed: int):
    rng = np.random.default_rng([length, seed])
    shape = (ROWS * BLOCKS, length)
    return (rng.normal(size=shape) + 1j * rng.normal(size=shape)).astype(TYPES[dtype][1])


def pairs(values, dtype: str, **options):
    return dk.array(values.view(dtype).reshape(*values.shape, 2), dtype=TYPES[dtype][0], **options)


def complexes(a, dtype: str):
    return np.ascontiguousarray(a.numpy().reshape(a.shape[0], -1)).view(TYPES[dtype][1])


@pytest.mark.parametrize(("length", "dtype"), CASES)
def test_transforms_and_gradients(length, dtype):
    """As accurate as a few roundings, also where large factors make long sums."""
    values, (left, right) = numbers(length, dtype, 0), (numbers(length, dtype, k) for k in (1, 2))
    x = pairs(values, dtype, requires_grad=True)
    y, z = (pairs(np.zeros_like(values), dtype, requires_grad=True) for _ in range(2))
    with dk.Tape() as tape:
        dk.launch_tiled(transforms(length, dtype), dim=BLOCKS, inputs=[x], outputs=[y, z], block_dim=32)
    tape.backward(grads={y: pairs(left, dtype), z: pairs(right, dtype)})
    v, w0, w1 = (a.astype(np.complex128) for a in (values, left, right))
    expected = np.fft.fft(v), length * np.fft.ifft(v), length * np.fft.ifft(w0) + np.fft.fft(w1)
    most = (3.0 + max(factors(length), default=1) / 16.0) * np.finfo(dtype).eps
    for found, right_one in zip((y, z, x.grad), expected, strict=True):
        error = np.linalg.norm(complexes(found, dtype) - right_one) / np.linalg.norm(right_one)
        assert error <= most


def hard_ones(n: int):
    """Rows whose largest errors differ: noise, large sums, single tones, flat spectra, many magnitudes, few digits."""
    rng, k = np.random.default_rng(n), np.arange(n)
    noise = rng.normal(size=(3, n)) + 1j * rng.normal(size=(3, n))
    tones = np.exp(2j * np.pi * k * (n // 3) / n), np.exp(1j * np.pi * k * k / n), (-1.0) ** k / 3.0
    spread = noise[0] * 10.0 ** rng.uniform(-6.0, 6.0, n)
    return np.stack([*noise, rng.uniform(size=n), *tones, spread, np.sign(noise[1].real) / 3.0]).astype(np.complex64)


FEW = (12, 31, 128, 1000)
LENGTHS = [
    *FEW,
    *(pytest.param(n, marks=pytest.mark.full) for n in (2, 3, 5, 7, 8, 16, 60, 243, 256, 625, 1024, 2048, 4096)),
]


@pytest.mark.parametrize("length", LENGTHS)
def test_an_error_is_that_of_one_rounding(length):
    """At most 0.51 ulp of the largest part of the result, whatever the input."""
    n = dk.constant(length)

    @dk.kernel(enable_backward=False)
    def transform(x: dk.array2d(dtype=dk.vec2), y: dk.array2d(dtype=dk.vec2)):
        i = dk.tid()
        t = dk.tile_load(x[i], shape=n)
        dk.tile_fft(t)
        dk.tile_store(y[i], t)

    values = hard_ones(length)
    y = pairs(np.zeros_like(values), "float32")
    dk.launch_tiled(transform, dim=len(values), inputs=[pairs(values, "float32")], outputs=[y], block_dim=32)
    expected, found = (
        a.view(np.float64) for a in (np.fft.fft(values.astype(complex)), complexes(y, "float32").astype(complex))
    )
    largest = np.abs(expected).max(axis=1).astype(np.float32)
    assert (np.abs(found - expected).max(axis=1) <= 0.51 * np.spacing(largest)).all()


def test_roots_are_exact_at_quarters_of_a_turn():
    assert [_on_circle(k, 8) for k in (0, 2, 4, 6)] == [(1, 0), (0, 1), (-1, 0), (0, -1)]
    for n in (3, 7, 12, 100, 1024):
        angles = 2.0 * np.pi * np.arange(n) / n
        found = np.array([_on_circle(k, n) for k in range(n)])
        assert np.abs(found - np.stack([np.cos(angles), np.sin(angles)], axis=1)).max() <= 2.0**-50


@pytest.mark.parametrize(("length", "roots"), [(64, 7 * 8), (22, 11 + 22)])
def test_a_kernel_of_float32_has_no_float64(length, roots):
    """On a GPU, neither arithmetic nor constants: the roots are in the program, in the type of the tile."""
    compiled = dk.compile(transforms(length, "float32"), target="sm_90")
    assert not re.search(r"\.f64|\.b64 %fd|cvt\.f64", compiled.ptx)
    (table,) = re.findall(r"\.global \.align 16 \.b8 \w+\[(\d+)\]", compiled.ptx)
    assert int(table) == 8 * roots
