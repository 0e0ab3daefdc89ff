"""Values that a kernel overwrites and its gradient needs: they are logged by launches on tapes, and only they."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from support.fake_driver.driver import fake_cuda

import diffkern as dk
from diffkern.compiler.compilation import Compilation
from diffkern.errors import LaunchError
from diffkern.ir.types import is_differentiable
from diffkern.testing import gradcheck

F = dk.float64
D1, D2 = dk.array(dtype=F), dk.array(dtype=F, ndim=2)
RNG = np.random.default_rng(7)


@dk.kernel
def relaxed(a: D2, x: D2, sweeps: int):
    """Gauss-Seidel: the same elements again and again."""
    r = dk.tid()
    for _ in range(sweeps):
        for i in range(x.shape[1]):
            s = F(0.0)
            for j in range(x.shape[1]):
                s += a[i, j] * x[r, j] * x[r, j]
            x[r, i] = 0.9 * x[r, i] + 0.1 * dk.sin(s)


@dk.kernel
def of_constant_size(x: D2):
    r = dk.tid()
    for _ in range(3):
        for i in range(40):
            x[r, i] = dk.sin(x[r, i]) * x[r, i + 1]


@dk.kernel
def insertion_sort(x: D2):
    """The test of an inner while loads what the loop overwrites."""
    r = dk.tid()
    for i in range(1, x.shape[1]):
        key = x[r, i]
        j = i - 1
        while j >= 0 and x[r, j] > key:
            x[r, j + 1] = x[r, j] * 1.1
            j -= 1
        x[r, j + 1] = key * key


@dk.kernel
def until_it_settles(x: D2):
    """How much is logged depends on what the launch computes."""
    r = dk.tid()
    worst = F(1.0)
    while worst > 0.05:
        worst = F(0.0)
        for i in range(x.shape[1]):
            change = 0.3 * x[r, i] * x[r, i]
            worst = dk.max(worst, dk.abs(change))
            x[r, i] = x[r, i] - change


@dk.kernel
def with_vectors(p: dk.array(dtype=dk.vec3d, ndim=2), n: int):
    r = dk.tid()
    for _ in range(n):
        for i in range(p.shape[1] - 1):
            p[r, i] = dk.cross(p[r, i], p[r, i + 1]) + 0.5 * p[r, i]


@dk.kernel
def through_branches(x: D2, where: dk.array(dtype=int), n: int):
    """Loads in branches of different sizes, and integers that are overwritten."""
    r = dk.tid()
    for k in range(n):
        if x[r, k % 3] > 0.5:
            for i in range(where[r]):
                x[r, i] = x[r, i] * x[r, i + 1]
        else:
            x[r, 0] = x[r, 0] * x[r, 1] + 0.1
        where[r] = (where[r] + 1) % 3


@dk.kernel
def through_uneven_branches(x: D2, n: int):
    """One branch logs less than the other one, and there is more to log behind them."""
    r = dk.tid()
    for k in range(n):
        i = k % 2  # elements of one place would be held in registers from trip to trip
        if x[r, i] > 0.8:
            x[r, i] = x[r, i] * x[r, i + 1]
        else:
            x[r, i] = x[r, i] * x[r, i] + x[r, i + 1] * x[r, i + 1]
            x[r, i + 1] = dk.sin(x[r, i + 1]) + 0.5
            x[r, i] = x[r, i] * x[r, i + 2] * x[r, i]
            x[r, i + 2] = x[r, i] * x[r, i + 2]
        x[r, i + 4] = dk.cos(x[r, i + 4] * x[r, i])


@dk.kernel
def at_indices_from_data(x: D2, order: dk.array(dtype=int)):
    r = dk.tid()
    for k in range(order.shape[0]):
        x[r, order[k]] = x[r, order[k]] * x[r, order[k]] * 0.9


@dk.kernel
def in_strides(ends: dk.array(dtype=int), scale: dk.array(dtype=F), x: dk.array(dtype=F)):
    """Threads of a block know how many there are, and have nothing to do with each other."""
    r, lane = dk.tid()
    for i in range(ends[r] + lane, ends[r + 1], dk.block_dim()):
        x[i] = scale[r] * x[i] * x[i]


def test_threads_that_know_the_size_of_their_block() -> None:
    rng = np.random.default_rng(13)
    ends, scale, start = np.array([0, 3, 3, 8], np.int32), rng.uniform(0.5, 1.5, 3), rng.uniform(0.5, 1.5, 8)
    s, x = dk.array(scale, dtype=F, requires_grad=True), dk.array(start, dtype=F, requires_grad=True)
    with dk.Tape() as tape:
        dk.launch(in_strides, (3, 2), inputs=[dk.array(ends), s, x], block_dim=2)
    weights = rng.normal(size=8)
    tape.backward(grads={x: weights})
    row = np.repeat(np.arange(3), np.diff(ends))
    np.testing.assert_allclose(x.grad.numpy(), weights * 2.0 * scale[row] * start, rtol=1e-12)
    np.testing.assert_allclose(s.grad.numpy(), np.bincount(row, weights * start**2, minlength=3), rtol=1e-12)


KERNELS: dict[str, tuple[Any, list[Any]]] = {
    "relaxed": (relaxed, [RNG.normal(size=(4, 4)), RNG.normal(size=(3, 4)), 3]),
    "constant": (of_constant_size, [RNG.uniform(0.5, 1.5, (3, 41))]),
    "insertion sort": (insertion_sort, [RNG.uniform(0.5, 1.5, (3, 6))]),
    "until it settles": (until_it_settles, [RNG.uniform(0.1, 0.9, (3, 4))]),
    "vectors": (with_vectors, [RNG.normal(size=(3, 4, 3)), 3]),
    "branches": (through_branches, [RNG.uniform(0.2, 1.2, (3, 4)), np.array([1, 2, 0]), 7]),
    "indices": (at_indices_from_data, [RNG.uniform(0.5, 1.5, (3, 4)), np.array([0, 2, 0, 1, 2, 2])]),
    "uneven branches": (through_uneven_branches, [RNG.uniform(0.5, 1.1, (3, 6)), 5]),
}


def made(name: str, requires_grad: bool = False) -> tuple[Any, list[Any]]:
    kernel, values = KERNELS[name]
    out: list[Any] = []
    for p, v in zip(kernel.parameters, values, strict=True):
        if not isinstance(v, np.ndarray):
            out.append(v)
        else:
            dtype = p.annotation.dtype
            out.append(dk.array(v, dtype=dtype, requires_grad=requires_grad and v.dtype.kind == "f"))
    return kernel, out


def is_logged(kernel: Any, args: list[Any]) -> bool:
    """Whether the adjoint reads values from a log of the launch."""
    types = kernel.argument_types(*args)
    active = frozenset(k for k, t in enumerate(types) if is_differentiable(t))
    made = Compilation(kernel.func, types, replace(kernel.variant, active=active))
    return made.derivative is not None and made.log is not None


@pytest.mark.parametrize("name", KERNELS)
def test_derivatives(name: str) -> None:
    kernel, args = made(name)
    assert is_logged(kernel, args)
    gradcheck(kernel, 3, args)


@pytest.mark.parametrize("name", ["constant", "branches", "vectors"])
def test_launches_on_a_gpu_have_logs(name: str) -> None:
    def gradient(device: str) -> Any:
        kernel, args = made(name, requires_grad=True)
        args = [a.to(device) if isinstance(a, dk.array) else a for a in args]
        (x,) = [a for a in args if isinstance(a, dk.array) and a.requires_grad][-1:]
        with dk.Tape() as tape:
            dk.launch(kernel, 3, args)
        tape.backward(grads={x: dk.ones(x.shape, dtype=x.dtype, device=device)})
        return x.grad.numpy()

    wanted = gradient("cpu")
    with fake_cuda(run="ptx"):
        np.testing.assert_allclose(gradient("cuda:0"), wanted, rtol=1e-9)


def loss_and_gradient(name: str, launches: int = 1) -> tuple[float, np.ndarray, Any]:
    kernel, args = made(name, requires_grad=True)
    (x,) = [a for a in args if isinstance(a, dk.array) and a.requires_grad][-1:]
    weights = np.random.default_rng(1).normal(size=x.numpy().shape)
    with dk.Tape() as tape:
        for _ in range(launches):
            kernel[3](*args)
    tape.backward(grads={x: dk.array(weights, dtype=x.dtype)})
    return float((weights * x.numpy()).sum()), x.grad.numpy().copy(), tape


def test_threads_of_two_axes_have_logs_of_their_own() -> None:
    @dk.kernel
    def squared(x: dk.array(dtype=F, ndim=3), n: int):
        i, j = dk.tid()
        for k in range(n):
            x[i, j, k % 2] = x[i, j, k % 2] * x[i, j, 1 - k % 2]
            x[i, j, 1 - k % 2] = dk.sin(x[i, j, 1 - k % 2] * x[i, j, k % 2])

    x = dk.array(np.random.default_rng(3).uniform(0.5, 1.5, (3, 2, 2)))
    assert is_logged(squared, [x, 3])
    gradcheck(squared, (3, 2), [x, 3])


@pytest.mark.parametrize("name", ["relaxed", "constant", "until it settles", "branches"])
def test_each_launch_on_a_tape_has_a_log_of_its_own(name: str) -> None:
    _, found, _ = loss_and_gradient(name, 2)
    kernel, values = KERNELS[name]
    position = [k for k, v in enumerate(values) if isinstance(v, np.ndarray) and v.dtype.kind == "f"][-1]
    direction, h = np.random.default_rng(2).normal(size=values[position].shape), 1e-6

    def loss(step: float) -> float:
        _, args = made(name)
        args[position] = dk.array(values[position] + step * direction)
        weights = np.random.default_rng(1).normal(size=direction.shape)
        for _ in range(2):
            kernel[3](*args)
        return float((weights * args[position].numpy()).sum())

    assert np.isclose((found * direction).sum(), (loss(h) - loss(-h)) / (2 * h), rtol=1e-6)


def test_the_arrays_hold_what_the_launch_has_left() -> None:
    kernel, args = made("relaxed")
    kernel[3](*args)
    kernel, taped = made("relaxed", requires_grad=True)
    with dk.Tape() as tape:
        kernel[3](*taped)
    assert taped[1].numpy().tobytes() == args[1].numpy().tobytes()
    tape.backward(grads={taped[1]: dk.ones((3, 4), dtype=F)})
    assert taped[1].numpy().tobytes() == args[1].numpy().tobytes()


def log_of(tape: Any) -> Any:
    (launch,) = tape.launches
    return launch.log


def test_only_what_the_gradient_needs_is_logged() -> None:
    _, _, tape = loss_and_gradient("constant")
    (log,) = log_of(tape)
    # Of three sweeps with two loads each, the first x[r, i] was there before the launch, the last x[r, i + 1] stays.
    assert log.shape == (3 * 40 * 4,)
    assert tape.memory() == log.numpy().nbytes + 3 * 41 * 8  # and a copy of x
    report = of_constant_size.adjoint_report()
    assert "logged by launches on tapes: what x held here before the kernel overwrote it" in report
    assert "160 for each thread, of type float64" in report
    _, _, tape = loss_and_gradient("until it settles")
    log, begins = log_of(tape)
    assert begins.shape == (3,)
    assert 0 < begins.numpy()[1] < log.shape[0]


@dk.kernel
def substituted(a: D2, x: D1):
    n = x.shape[0]
    for i in range(n):
        s = x[i]
        for j in range(i):
            s -= a[i, j] * x[j]
        x[i] = s / a[i, i]


@dk.kernel
def factorised(a: D2, low: D2):
    n = a.shape[0]
    for j in range(n):
        s = a[j, j]
        for k in range(j):
            s -= low[j, k] * low[j, k]
        low[j, j] = dk.sqrt(s)
        for i in range(j + 1, n):
            t = a[i, j]
            for k in range(j):
                t -= low[i, k] * low[j, k]
            low[i, j] = t / low[j, j]


@dk.kernel
def smoothed(x: D2):
    """Linear: nothing of it is needed."""
    r = dk.tid()
    for _ in range(x.shape[1]):
        for i in range(1, x.shape[1] - 1):
            x[r, i] = 0.5 * x[r, i] + 0.25 * (x[r, i - 1] + x[r, i + 1])


@pytest.mark.parametrize(
    ("kernel", "values"),
    [
        (substituted, [RNG.normal(size=(5, 5)) + 4.0 * np.eye(5), RNG.normal(size=5)]),
        (factorised, [np.eye(5) * 6.0 + 1.0, np.zeros((5, 5))]),
        (smoothed, [RNG.normal(size=(1, 6))]),
    ],
    ids=["substitution", "Cholesky", "linear"],
)
def test_tables_that_are_written_once_and_linear_updates_cost_nothing(kernel: Any, values: list[Any]) -> None:
    args = [dk.array(v, requires_grad=True) for v in values]
    with dk.Tape() as tape:
        kernel[1](*args)
    assert log_of(tape) is None
    gradcheck(kernel, 1, [dk.array(v) for v in values])


def test_numbers_of_other_types() -> None:
    @dk.kernel
    def narrow(x: dk.array(dtype=dk.float32, ndim=2), m: int):
        r = dk.tid()
        for _ in range(3):
            for i in range(m):
                x[r, i] = dk.sin(x[r, i]) * x[r, i + 1]

    start = RNG.uniform(0.5, 1.5, (3, 41))
    x = dk.array(start.astype(np.float32), requires_grad=True)
    y = dk.array(start, requires_grad=True)
    with dk.Tape() as tape:
        narrow[3](x, 40)
    assert log_of(tape)[0].dtype is dk.float32
    tape.backward(grads={x: dk.ones((3, 41), dtype=dk.float32)})
    with dk.Tape() as tape:
        of_constant_size[3](y)
    tape.backward(grads={y: dk.ones((3, 41), dtype=F)})
    np.testing.assert_allclose(x.grad.numpy(), y.grad.numpy(), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("mode", ["release", "debug"])
def test_a_sequence_replays_with_the_log(mode: str) -> None:
    kernel = dk.kernel(of_constant_size.func, mode=mode)
    x = dk.array(RNG.uniform(0.5, 1.5, (3, 41)), requires_grad=True)
    y, loss = dk.zeros((3, 41), dtype=F, requires_grad=True), dk.zeros(1, dtype=F, requires_grad=True)
    with dk.record() as forward:
        y.assign(x)
        loss.zero_()
        kernel[3](y)
        dk.launch(add_up, 3, [y, loss])
    both = forward.adjoint(loss=loss)
    for seed in (1, 2):
        start = np.random.default_rng(seed).uniform(0.5, 1.5, (3, 41))
        x.assign(start)
        both.replay()
        with dk.Tape() as tape:
            z = dk.array(start, requires_grad=True)
            total = dk.zeros(1, dtype=F, requires_grad=True)
            other = dk.clone(z)
            of_constant_size[3](other)
            dk.launch(add_up, 3, [other, total])
        tape.backward(loss=total)
        np.testing.assert_allclose(x.grad.numpy(), z.grad.numpy(), rtol=1e-12)


def recorded(kernel: Any, *more: Any) -> tuple[Any, dk.array]:
    """Forward and backward of a kernel that changes a copy of an array, recorded as they run."""
    x = dk.array(RNG.uniform(0.1, 0.9, (3, 4)), requires_grad=True)
    y, loss = dk.zeros((3, 4), dtype=F, requires_grad=True), dk.zeros(1, dtype=F, requires_grad=True)
    with dk.record() as both:
        loss.zero_()
        with dk.Tape() as tape:
            dk.copy(y, x)
            kernel[3](*more[:1], y, *more[1:])
            dk.launch(add_up, 3, [y, loss])
        tape.zero()
        tape.backward(loss)
    return both, x


def gradient(kernel: Any, start: np.ndarray, *more: Any) -> np.ndarray:
    x, loss = dk.array(start, requires_grad=True), dk.zeros(1, dtype=F, requires_grad=True)
    with dk.Tape() as tape:
        y = dk.clone(x)
        kernel[3](*more[:1], y, *more[1:])
        dk.launch(add_up, 3, [y, loss])
    tape.backward(loss)
    return x.grad.numpy()


def test_a_sequence_counts_before_each_launch() -> None:
    a = dk.array(RNG.normal(size=(4, 4)))
    both, x = recorded(relaxed, a, 5)
    for seed, sweeps in ((1, 5), (2, 3), (3, 4)):
        start = np.random.default_rng(seed).uniform(0.1, 0.9, (3, 4))
        x.assign(start)
        both.set_param("sweeps", sweeps)
        both.replay()
        np.testing.assert_allclose(x.grad.numpy(), gradient(relaxed, start, a, sweeps), rtol=1e-12)
    both.set_param("sweeps", 6)
    with pytest.raises(LaunchError, match="288 times, and the recorded sequence has room for 240") as caught:
        both.replay()
    assert caught.value.loc is not None
    both.set_param("sweeps", 5)
    both.replay()


@pytest.mark.parametrize("kernel", [of_constant_size, relaxed])
def test_a_sequence_runs_twice_on_a_tape(kernel: Any) -> None:
    """The tape keeps a log of each run, although the sequence has one for its own adjoint."""
    width, more = (41, ()) if kernel is of_constant_size else (4, (dk.array(RNG.normal(size=(4, 4))), 2))
    start = RNG.uniform(0.5, 1.5, (3, width))
    x, y = (dk.array(start, requires_grad=True) for _ in range(2))
    with dk.record(run=False) as once, dk.Tape():
        kernel[3](*more[:1], y, *more[1:])
    found = []
    for run in (once.replay, lambda: kernel[3](*more[:1], y, *more[1:])):
        with dk.Tape() as tape:
            dk.copy(y, x)
            run()
            run()
        tape.zero()
        tape.backward(grads={y: dk.ones((3, width), dtype=F)})
        found.append(x.grad.numpy().copy())
    np.testing.assert_allclose(*found, rtol=1e-13)


def test_numbers_decide_how_much_a_sequence_logs() -> None:
    both, x = recorded(until_it_settles)
    for top in (0.9, 0.3):
        start = np.random.default_rng(4).uniform(0.1, top, (3, 4))
        x.assign(start)
        both.replay()
        np.testing.assert_allclose(x.grad.numpy(), gradient(until_it_settles, start), rtol=1e-12)
    x.assign(np.full((3, 4), 1e-3))
    with dk.record(run=False) as forward:
        until_it_settles[3](x)
    with pytest.raises(LaunchError, match="depends on what arrays hold, which is not computed"):
        forward.adjoint()


@dk.kernel
def add_up(x: D2, s: D1):
    r = dk.tid()
    for i in range(4):
        dk.atomic_add(s, 0, x[r, i])


# -- what is refused -------------------------------------------------------------------------------------------------


def test_adjoints_without_a_log_are_refused() -> None:
    kernel, args = made("relaxed", requires_grad=True)
    with pytest.raises(LaunchError, match="what x held here before the kernel overwrote it") as caught:
        dk.launch(kernel, 3, args, adjoint=True)
    assert "dk.Tape" in str(caught.value.remedy)


@dk.kernel
def by_one_thread(x: D1, n: int):
    for _ in range(n):
        for i in range(x.shape[0] - 1):
            x[i] = x[i] * x[i + 1]


def test_threads_without_an_index_are_refused() -> None:
    x = dk.ones(4, dtype=F, requires_grad=True)
    with dk.Tape():
        by_one_thread[1](x, 3)
        with pytest.raises(LaunchError, match="several threads"):
            by_one_thread[2](x, 3)


@dk.kernel
def of_another_thread(x: D1, n: int):
    i = dk.tid()
    for _ in range(n):
        x[i] = x[i] * x[(i + 1) % x.shape[0]]


def test_what_another_thread_may_write_is_refused() -> None:
    x = dk.ones(4, dtype=F, requires_grad=True)
    with dk.Tape() as tape:
        of_another_thread[4](x, 3)
    with pytest.raises(dk.KernelError, match="thread") as caught:
        tape.backward(grads={x: dk.ones(4, dtype=F)})
    assert caught.value.loc.line == of_another_thread.func.__code__.co_firstlineno + 4


# -- programs for GPUs -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["constant", "until it settles"])
def test_programs_for_gpus(name: str) -> None:
    kernel, values = KERNELS[name]
    types = kernel.argument_types(*values)
    variant = replace(kernel.variant, target="sm_90")
    sized = name == "constant"
    for log in ("written",) if sized else ("written", "counted"):
        program = Compilation(kernel.func, types, replace(variant, log=log, log_for=frozenset({0}))).build("made")
        names = [p.name for p in program.manifest.params]
        assert names[1:] == (["counts"] if log == "counted" else ["log"] if sized else ["log", "begins"])
    adjoint = Compilation(kernel.func, types, replace(variant, active=frozenset({0}))).build("made_adjoint")
    assert [p.role for p in adjoint.manifest.params if p.role == "log"] == ["log"] * (1 if sized else 2)
    assert adjoint.manifest.log is not None
    assert adjoint.manifest.log.active == (0,)


@dk.kernel
def wide_integers(
    x: dk.array(dtype=dk.float64), k: dk.array(dtype=dk.int64), y: dk.array(dtype=dk.float64), sweeps: int
):
    for _ in range(sweeps):
        for j in range(k.shape[0]):
            y[0] += x[j] * dk.float64(k[j])
            k[j] = k[j] + k[(j + 1) % k.shape[0]]


@dk.kernel
def integers_beside_floats(
    x: dk.array(dtype=dk.float32), k: dk.array(dtype=dk.int32), y: dk.array(dtype=dk.float32), sweeps: int
):
    for _ in range(sweeps):
        for j in range(k.shape[0]):
            y[0] += dk.sin(x[j]) * dk.float32(k[j] - 16777216)
            x[j] = x[j] * dk.float32(0.5)
            k[j] = k[j] + 3


def test_integers_are_logged_with_all_their_bits() -> None:
    a, b = 5_000_000_000, 3_000_000_000
    x, y = dk.array([0.5, 0.25], requires_grad=True, dtype=F), dk.zeros(1, dtype=F, requires_grad=True)
    with dk.Tape() as tape:
        wide_integers[1](x, dk.array(np.array([a, b])), y, 2)
    tape.backward(grads={y: [1.0]})
    assert x.grad.numpy().tolist() == [a + (a + b), b + (b + a + b)]


def test_integers_beside_floats_are_logged_in_a_type_that_holds_both() -> None:
    x, k = dk.array(np.float32([0.5, 0.25]), requires_grad=True), dk.array(np.array([16777217, 16777219], np.int32))
    y = dk.zeros(1, dtype=dk.float32, requires_grad=True)
    with dk.Tape() as tape:
        integers_beside_floats[1](x, k, y, 3)
    tape.backward(grads={y: np.float32([1.0])})
    halves = 0.5 ** np.arange(3)
    wanted = [(np.cos(v * halves) * halves * (first + 3 * np.arange(3))).sum() for v, first in ((0.5, 1), (0.25, 3))]
    assert np.allclose(x.grad.numpy(), wanted, rtol=1e-6)
