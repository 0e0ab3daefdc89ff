"""Deterministic programs: what depends on the order of threads runs in order, everything else as before."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import diffkern as dk
from diffkern.compiler.compilation import Compilation
from diffkern.contracts.options import ATOMIC, PLAIN, Variant
from diffkern.errors import CompileError

f1 = dk.array(dtype=float)
i1 = dk.array(dtype=int)
N = 200_000


@pytest.fixture(autouse=True)
def deterministic() -> Iterator[None]:
    threads = dk.config.num_threads
    dk.config.deterministic = True
    yield
    dk.config.deterministic = False
    dk.config.num_threads = threads


@dk.kernel
def scatter(x: f1, k: i1, y: f1):
    i = dk.tid()
    dk.atomic_add(y, k[i], x[i])


@dk.kernel
def total(x: f1, y: f1):
    dk.atomic_add(y, 0, x[dk.tid()])


@dk.kernel
def squares(x: f1, y: f1):
    i = dk.tid()
    y[i] = x[i] * x[i]


@dk.kernel
def histogram(k: i1, y: i1):
    dk.atomic_add(y, k[dk.tid()], 1)


@dk.kernel
def listed(x: f1, count: i1, y: f1):
    i = dk.tid()
    if x[i] > 0.0:
        y[dk.atomic_add(count, 0, 1)] = x[i]


@dk.kernel
def largest(x: f1, k: i1, y: f1):
    i = dk.tid()
    dk.atomic_max(y, k[i], x[i])


@dk.kernel
def gather(x: f1, k: i1, y: f1):
    i = dk.tid()
    y[i] = x[k[i]] * x[k[i]]


def _program(kernel, *args):
    return kernel.forward(tuple(dk_array._key for dk_array in args))


def _args(kernel) -> list[dk.array]:
    return [dk.zeros(4, dtype=p.annotation.dtype) for p in kernel.parameters]


@pytest.mark.parametrize(
    ("kernel", "in_order"),
    [(scatter, True), (listed, True), (largest, True), (total, False), (squares, False), (histogram, False)],
)
def test_what_runs_in_order(kernel, in_order: bool) -> None:
    executable = _program(kernel, *_args(kernel))
    grid = executable.grid(10_000_000)
    assert (grid.count == 1) is in_order
    dk.config.deterministic = False
    assert _program(kernel, *_args(kernel)).grid(10_000_000).count > 1


def _bits(size: int) -> tuple[bytes, ...]:
    rng = np.random.default_rng(1)
    x, k = dk.array(rng.normal(size=N).astype(np.float32)), dk.array(rng.integers(0, size, N).astype(np.int32))
    y, t = dk.zeros(size, dtype=float), dk.zeros(1, dtype=float)
    dk.launch(scatter, dim=N, inputs=[x, k, y])
    dk.launch(total, dim=N, inputs=[x, t])
    count, z = dk.zeros(1, dtype=int), dk.zeros(N, dtype=float)
    dk.launch(listed, dim=N, inputs=[x, count, z])
    v = dk.array(rng.normal(size=size).astype(np.float32), requires_grad=True)
    w = dk.zeros(N, dtype=float, requires_grad=True)
    with dk.Tape() as tape:
        dk.launch(gather, dim=N, inputs=[v, k, w])
    tape.backward(grads={w: x})
    return tuple(a.numpy().tobytes() for a in (y, t, z, v.grad))


@pytest.mark.parametrize("size", [50, 100_000])
def test_the_same_bits_whatever_the_number_of_threads(size: int) -> None:
    """The gradient of a gather is added up in private copies, or with atomics where these would be too large."""
    found = set()
    for threads in (1, 2, 4, 4):
        dk.config.num_threads = threads
        found.add(_bits(size))
    assert len(found) == 1


def test_an_adjoint_with_atomics_runs_in_order() -> None:
    keys = tuple(a._key for a in _args(gather))
    plain, atomic = (gather.adjoint(keys, frozenset({0, 2}), form) for form in (PLAIN, ATOMIC))
    assert plain.cost > 0
    assert atomic.cost == 0
    assert atomic.grid(10_000_000).count == 1


@dk.kernel
def bounded(x: dk.array(dtype=int), k: dk.array(dtype=int), y: dk.array(dtype=int)):
    i = dk.tid()
    dk.atomic_max(y, k[i], x[i])
    dk.atomic_min(y, k[i], x[i] // 2)


@dk.kernel
def counted(x: dk.array(dtype=int), k: dk.array(dtype=int), y: dk.array(dtype=int)):
    i = dk.tid()
    dk.atomic_add(y, k[i], x[i])
    dk.atomic_sub(y, k[i], 1)


def test_updates_of_integers_that_do_not_commute_run_in_order() -> None:
    rng = np.random.default_rng(3)
    x, k = rng.integers(-1000, 1000, N).astype(np.int32), rng.integers(0, 5, N).astype(np.int32)
    expected = np.zeros(5, np.int32)
    for value, place in zip(x, k, strict=True):
        expected[place] = min(max(expected[place], value), value // 2)
    y = dk.zeros(5, dtype=int)
    dk.launch(bounded, dim=N, inputs=[x, k, y])
    np.testing.assert_array_equal(y.numpy(), expected)
    keys = tuple(dk.array(a)._key for a in (x, k, expected))
    assert bounded.forward(keys).cost == 0
    assert counted.forward(keys).cost > 0


def test_options_of_a_kernel_and_a_module() -> None:
    dk.config.deterministic = False
    assert dk.kernel(deterministic=True)(scatter.func).variant.deterministic
    dk.set_module_options({"deterministic": True})
    try:
        assert scatter.variant.deterministic
        assert not dk.kernel(deterministic=False)(scatter.func).variant.deterministic
    finally:
        dk.set_module_options({"deterministic": None})
    assert not scatter.variant.deterministic
    with pytest.raises(ValueError, match="deterministic is True or False, not 'yes'"):
        dk.config.deterministic = "yes"


@pytest.mark.parametrize(
    ("kernel", "active", "refused"),
    [
        (scatter, None, False),
        (total, None, False),
        (largest, None, False),
        (listed, None, True),
        (squares, None, False),
        (squares, frozenset({0, 1}), False),
        (histogram, None, False),
        (gather, None, False),
        (gather, frozenset({0, 2}), False),
    ],
)
def test_programs_for_a_gpu(kernel, active, refused: bool) -> None:
    variant = Variant(target="sm_90", active=active, deterministic=True)
    compilation = Compilation(kernel.func, kernel.argument_types(*_args(kernel)), variant)
    if not refused:
        compilation.build("program")
        return
    with pytest.raises(CompileError, match=r"test_deterministic.py:\d+: kernel .* is deterministic") as caught:
        compilation.build("program")
    assert "run it on the CPU" in str(caught.value)
