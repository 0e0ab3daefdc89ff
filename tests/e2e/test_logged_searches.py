"""Launches on tapes keep the integers that their adjoints would search for once more; nothing else changes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from support.fake_driver.driver import fake_cuda
from support.surfaces import sphere

import diffkern as dk
from tests.e2e.logged_search_kernels import KERNELS, REPEATING, SEARCHING

F = dk.float64
N, M = 9, 7
RNG = np.random.default_rng(5)
X, Y, W = RNG.normal(size=(N, 3)), RNG.normal(size=(M, 3)), RNG.normal(size=N)
DX, DY = RNG.normal(size=(N, 3)), RNG.normal(size=(M, 3))


def given(values: np.ndarray, device: str = "cpu", dtype: Any = F) -> Any:
    return dk.array(values, dtype=dtype, requires_grad=True, device=device)


@dk.kernel
def weighed(d: dk.array(dtype=F), w: dk.array(dtype=F), s: dk.array(dtype=F)):
    i = dk.tid()
    dk.atomic_add(s, 0, d[i] * d[i] * w[i])


def loss(kernel: Any, x: Any, y: Any) -> Any:
    d, s = dk.zeros(N, dtype=F), dk.zeros(1, dtype=F)
    kernel[N](x, y, d)
    weighed[N](d, dk.array(W), s)
    return s


def slots(tape: dk.Tape) -> int:
    """The integers that each thread of the first launch has kept."""
    log = tape.launches[0].logged
    return 0 if log is None else log.calls


def taped(kernel: Any, device: str = "cpu") -> tuple[list[np.ndarray], dk.Tape]:
    x, y, d = given(X, device), given(Y, device), given(np.zeros(N), device)
    with dk.Tape() as tape:
        kernel[N](x, y, d)
    tape.backward(grads={d: dk.array(W, device=device)})
    return [a.numpy() for a in (d, x.grad, y.grad)], tape


def twice(kernel: Any) -> Sequence[Any]:
    x, y, d = given(X), given(Y), given(np.zeros(N))
    with dk.Tape() as tape:
        kernel[N](x, y, d)
        kernel[M](y, x, d[:M])
    for _ in range(2):
        tape.backward(grads={d: W})
    return x.grad, y.grad


def recorded(kernel: Any) -> Sequence[Any]:
    """Each replay searches in what the arrays hold then."""
    x, y, d, found = given(X), given(Y), given(np.zeros(N)), []
    with dk.record() as sequence:
        with dk.Tape() as tape:
            kernel[N](x, y, d)
        tape.zero()
        tape.backward(grads={d: W})
    for values in (X, -X, X[::-1].copy()):
        x.assign(values)
        sequence.replay()
        found += [d.numpy(), x.grad.numpy(), y.grad.numpy()]
    return found


def adjoint_of_a_sequence(kernel: Any) -> Sequence[Any]:
    x, y, d, found = given(X), given(Y), given(np.zeros(N)), []
    with dk.record() as sequence:
        kernel[N](x, y, d)
    both = sequence.adjoint(grads={d: W})
    for values in (X, -X):
        x.assign(values)
        both.replay()
        found += [d.numpy(), x.grad.numpy(), y.grad.numpy()]
    return found


def rolled_out(kernel: Any) -> Sequence[Any]:
    """Steps that move the points, of which few states are kept."""
    x, y, d = given(X), given(Y), given(np.zeros(N))

    def step(k: int) -> None:
        kernel[N](x, y, d)
        moved[N](x, d)

    with dk.Tape() as tape:
        dk.checkpoint(step, 5, 2)
    tape.backward(grads={x: DX})
    return x, x.grad, y.grad


@dk.kernel
def moved(x: dk.array(dtype=F, ndim=2), d: dk.array(dtype=F)):
    i = dk.tid()
    x[i, 0] = x[i, 0] + 0.05 * dk.sin(d[i])
    x[i, 1] = x[i, 1] * 0.9


def inside(kernel: Any) -> Sequence[Any]:
    """A gradient in a tape, which has its own need of the launch."""
    x, y, s = given(X), given(Y), dk.zeros(1, dtype=F, requires_grad=True)
    with dk.Tape() as tape:
        g = dk.grad(lambda x: loss(kernel, x, y))(x)
        squared[N](g, s)
    tape.backward(s)
    return s, x.grad, y.grad


@dk.kernel
def squared(g: dk.array(dtype=F, ndim=2), s: dk.array(dtype=F)):
    i = dk.tid()
    dk.atomic_add(s, 0, g[i, 0] * g[i, 0] + g[i, 1] * g[i, 2])


DRIVERS: dict[str, Callable[[Any], Sequence[Any]]] = {
    "tape": lambda k: taped(k)[0],
    "two launches, swept twice": twice,
    "grad": lambda k: dk.grad(lambda x, y: loss(k, x, y))(given(X), given(Y)),
    "vjp for one of two": lambda k: dk.vjp(lambda y: loss(k, given(X), y), (given(Y),), given(np.ones(1)))[1],
    "jvp": lambda k: dk.jvp(lambda x, y: loss(k, x, y), (given(X), given(Y)), (given(DX), given(DY)))[1:],
    "hvp": lambda k: dk.hvp(lambda x, y: loss(k, x, y), (given(X), given(Y)), (given(DX), given(DY))),
    "gradient in a tape": inside,
    "record": recorded,
    "adjoint of a sequence": adjoint_of_a_sequence,
    "roll-out": rolled_out,
}


def numbers(found: Any) -> list[np.ndarray]:
    found = found if isinstance(found, (tuple, list)) else [found]
    return [np.asarray(a.numpy() if isinstance(a, dk.array) else a) for a in found]


@pytest.mark.parametrize("name", SEARCHING)
def test_derivatives(name: str) -> None:
    kernel = SEARCHING[name]
    found, tape = taped(kernel)
    assert slots(tape) == {f.__name__: n for f, n in KERNELS.items()}[name]

    def value(h: float) -> float:
        d = dk.zeros(N, dtype=F)
        kernel[N](dk.array(X + h * DX), dk.array(Y + h * DY), d)
        return float(W @ d.numpy())

    slope = (value(1e-6) - value(-1e-6)) / 2e-6
    assert (found[1] * DX).sum() + (found[2] * DY).sum() == pytest.approx(slope, rel=1e-6, abs=1e-8)


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("name", SEARCHING)
def test_nothing_else_changes(name: str, driver: str) -> None:
    """To the last bit."""
    found, wanted = (numbers(DRIVERS[driver](kernels[name])) for kernels in (SEARCHING, REPEATING))
    assert len(found) == len(wanted)
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(one, other)
        assert np.isfinite(one).all()
