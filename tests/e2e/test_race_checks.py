"""Launches whose threads may race, as far as the kernel says: the launch's numbers decide about their gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from conftest import require

import diffkern as dk
from diffkern.errors import AutodiffError
from diffkern.shipping.export import export

F64 = dk.float64
f1 = dk.array(dtype=F64)
f2 = dk.array(dtype=F64, ndim=2)


@dk.kernel
def shift(x: f1, off: int):
    i = dk.tid()
    x[i] = x[i] * x[i + off]


@dk.kernel
def wave(p: f2, t: int, back: int):
    i = dk.tid()
    p[t, i] = 2.0 * p[t - back, (i + 1) % p.shape[1]]


@dk.kernel
def flat_rows(e: f1, n: int, m: int):
    k = dk.tid()
    i = k // m
    j = k % m
    if i + 1 < n:
        e[(i + 1) * m + j] = e[j] * e[i * m + j]


@dk.kernel
def checkerboard(u: f2, colour: int):
    i, j = dk.tid()
    if (i + j) % 2 == colour and i > 0 and j > 0 and i < u.shape[0] - 1 and j < u.shape[1] - 1:
        u[i, j] = u[i - 1, j] * u[i, j - 1] + 0.5 * u[i + 1, j] * u[i, j + 1]


@dk.kernel
def block_rows(x: f1, stride: int):
    b, k = dk.tid()
    total = F64(0.0)
    for j in range(stride):
        total += x[b * stride + j]
    x[64 + b * stride + k] = total * total


@dk.kernel
def scattered(p: f2, to: dk.array(dtype=int), t: int):
    i = dk.tid()
    dk.atomic_add(p[t], to[i], p[t - 1, i] * p[t - 1, i])


@dk.kernel
def triangle(a: f2, k: int):
    i, j = dk.tid()
    if i > k and j > k:
        a[i, j] = a[i, j] - a[i, k] * a[k, j]


TO = np.array([1, 1, 0, 3], np.int32)
FINE: list[tuple[Any, Any, tuple[int, ...], tuple[Any, ...]]] = [
    (shift, 4, (9,), (4,)),
    (shift, 4, (9,), (-5,)),
    (shift, 4, (9,), (0,)),
    (shift, 1, (9,), (0,)),
    (wave, 4, (3, 4), (1, 1)),
    (wave, 4, (3, 4), (1, 2)),
    (flat_rows, 3, (12,), (2, 3)),
    (checkerboard, (5, 5), (5, 5), (0,)),
    (checkerboard, (5, 5), (5, 5), (1,)),
    (block_rows, (4, 3), (80,), (3,)),
    (scattered, 4, (2, 4), (TO, 1)),
    (triangle, (4, 4), (4, 4), (1,)),
]
RACING: list[tuple[Any, Any, tuple[int, ...], tuple[Any, ...], str]] = [
    (shift, 4, (9,), (3,), r"thread 0 reads x\[3\] here, which thread 3 writes \(line \d+\) with off=3"),
    (shift, 4, (9,), (-7,), "with off=-7"),
    (wave, 4, (3, 4), (1, 3), r"thread 3 reads p\[1, 0\] here, which thread 0 writes"),
    (flat_rows, 9, (12,), (4, 3), "with n=4, m=3"),
    (flat_rows, 9, (12,), (4, 0), r"thread 8 reads e\[0\] here, which thread 0 writes"),
    (checkerboard, (5, 5), (5, 5), (2,), ""),
    (block_rows, (30, 3), (200,), (3,), r"thread \(\d+, \d+\) reads x\[\d+\]"),
    (scattered, 4, (1, 4), (TO, 0), "updates"),
]


def launched(case: tuple[Any, ...], x: Any) -> None:
    kernel, dim, _, arguments = case[:4]
    dk.launch(kernel, dim=dim, inputs=[x, *(dk.array(a) if isinstance(a, np.ndarray) else a for a in arguments)])


def names(cases: list[Any]) -> list[str]:
    return [f"{case[0].__name__}-{case[3][-1]}" for case in cases]


@pytest.mark.parametrize("case", FINE, ids=names(FINE))
def test_gradients(case: tuple[Any, ...]):
    """The product with a direction, against central differences."""
    rng = np.random.default_rng(3)
    start, way = rng.normal(size=(2, *case[2]))
    weights = rng.normal(size=case[2])

    def run(values: np.ndarray) -> np.ndarray:
        x = dk.array(values)
        launched(case, x)
        return x.numpy()

    x = dk.array(start, requires_grad=True)
    with dk.Tape() as tape:
        y = dk.clone(x)
        launched(case, y)
    tape.backward(grads={y: dk.array(weights)})
    slope = (run(start + 1e-6 * way) - run(start - 1e-6 * way)) / 2e-6
    np.testing.assert_allclose((x.grad.numpy() * way).sum(), (weights * slope).sum(), rtol=1e-6)


@pytest.mark.parametrize("case", [case for case in RACING if case[4]], ids=names([c for c in RACING if c[4]]))
def test_refused(case: tuple[Any, ...]):
    x = dk.array(np.ones(case[2]), requires_grad=True)
    with dk.Tape() as tape:
        launched(case, x)
    with pytest.raises(AutodiffError, match=case[4]) as error:
        tape.backward(grads={x: dk.array(np.ones(case[2]))})
    first = case[0].func.__code__.co_firstlineno
    assert error.value.loc is not None
    assert first < error.value.loc.line < first + 10
    assert error.value.remedy
    assert case[0].__name__ in str(error.value)


@dk.kernel
def doubled(x: f1, off: int):
    i = dk.tid()
    x[i] = 2.0 * x[i + off]


FIRST, LAST = np.array([0.0, 0, 0, 3, 3, 3, 1, 1, 1]), np.array([0.0, 0, 0, 1, 1, 1, 3, 3, 3])


def test_records():
    """A number that decides is looked at whenever it is changed."""
    ct = dk.array(np.ones(9))
    record = dk.launch(
        doubled, dim=3, inputs=[dk.array(np.arange(9.0)), 3], adj_inputs=[ct, None], adjoint=True, record_cmd=True
    )
    record.launch()
    np.testing.assert_array_equal(ct.numpy(), FIRST)
    record.set_param_at_index(1, 6)
    for value in (2, np.int32(2)):
        with pytest.raises(AutodiffError, match="with off=2"):
            record.set_param_at_index(1, value)
    ct.fill_(1.0)
    record.launch()
    np.testing.assert_array_equal(ct.numpy(), LAST)


def test_exports_do_not_check():
    with pytest.raises(AutodiffError, match="exported module does not check"):
        export(doubled, np.zeros(9), 3, adjoint=True)


def test_pytorch():
    torch = require("torch")
    function = dk.torch_function(doubled, launch_dims=3, in_out_argnames=["x"])
    x = torch.arange(9.0, dtype=torch.float64, requires_grad=True)
    for off, expected in ((3, FIRST), (6, LAST)):
        (gradient,) = torch.autograd.grad(function(x, off).sum(), x)
        np.testing.assert_array_equal(gradient.numpy(), expected)
    with pytest.raises(AutodiffError, match="with off=2"):
        torch.autograd.grad(function(x, 2).sum(), x)


def test_jax():
    jax = require("jax")

    @dk.kernel
    def by_shape(x: f2):
        i = dk.tid()
        n = x.shape[0]
        x[n // 2, i] = 2.0 * x[n - 1, (i + 1) % x.shape[1]]

    def gradient(kernel: Any, *given: Any) -> Any:
        function = dk.jax_kernel(kernel, launch_dims=3, in_out_argnames=["x"])
        return jax.jit(jax.grad(lambda x: function(x, *given)[0].sum()))

    with jax.enable_x64(True):
        expected = np.array([[1.0, 1, 1], [0, 0, 0], [3, 3, 3]])
        np.testing.assert_array_equal(gradient(by_shape)(jax.numpy.ones((3, 3))), expected)
        with pytest.raises(AutodiffError, match="thread 2 reads an element of x here that thread 0 writes"):
            gradient(by_shape)(jax.numpy.ones((1, 3)))
        with pytest.raises(AutodiffError, match="depends on 'off', whose value JAX does not know"):
            gradient(doubled, 3)(jax.numpy.arange(9.0))
