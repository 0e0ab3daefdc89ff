"""Launches whose arrays share memory: one array for several parameters is one array, all else is refused by name.

What a launch computes is compared with a loop in Python over its threads, on bytes that all arrays are views of.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.fake_driver.driver import fake_cuda

import diffkern as dk
import diffkern.warp as wp
from diffkern import cuda
from diffkern.errors import LaunchError
from diffkern.runtime.launch.shared_memory import check_shared

D = dk.array(dtype=dk.float64)
SHARED = r"'{}' and '{}' share memory and are not the same array, and the kernel writes to '{}'"


@dk.kernel
def shift(x: D, y: D):
    i = dk.tid()
    y[i] = x[i] + 1.0


@dk.kernel
def mixed(x: D, y: D, z: D):
    """Loads and stores in turn, so that a load sees what was stored by another name."""
    i = dk.tid()
    t = x[i]
    y[i] = 0.5 * t + z[i]
    for _ in range(2):
        z[i] = z[i] + x[i] * y[i]
    x[i] = t - y[i]


def mixed_thread(i, x, y, z):
    t = x[i]
    y[i] = 0.5 * t + z[i]
    for _ in range(2):
        z[i] = z[i] + x[i] * y[i]
    x[i] = t - y[i]


@dk.kernel
def heavy(x: D, y: D):
    i = dk.tid()
    s = x[i]
    for _ in range(40):
        s = 0.5 * s + 0.25
        y[i] = s
        s = s + 0.125 * x[i]
    y[i] = s - x[i]


def heavy_threads(x, y):
    """Of all threads at once, which touch elements of their own."""
    s = x.copy()
    for _ in range(40):
        s = 0.5 * s + 0.25
        y[:] = s
        s = s + 0.125 * x
    y[:] = s - x


# -- one array ---------------------------------------------------------------------------------------------------------

BINDINGS = [(0, 0, 1), (0, 1, 0), (0, 1, 1), (0, 0, 0), (0, 1, 2)]
VIEWS: dict[str, Callable[[Any, int], Any]] = {
    "whole": lambda a, n: a[:n], "part": lambda a, n: a[3 : n + 3], "strided": lambda a, n: a[: 2 * n : 2],
    "backwards": lambda a, n: a[n - 1 :: -1] if n < len(a) else a[::-1],
}  # fmt: skip


@pytest.mark.parametrize("lanes", [True, False])
@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
@pytest.mark.parametrize("binding", BINDINGS)
def test_one_array_for_several_parameters(binding, view, lanes):
    kernel = dk.kernel(lanes=lanes)(mixed.func)
    for n in (5, 1000):
        begin = np.random.default_rng(n).uniform(-1.0, 1.0, (3, 2 * n + 3))
        arrays, expected = [dk.array(row) for row in begin], begin.copy()
        given = [view(arrays[k], n) for k in range(3)]
        own = [view(expected[k], n) for k in range(3)]
        dk.launch(kernel, n, [given[k] for k in binding])
        for i in range(n):
            mixed_thread(i, *(own[k] for k in binding))
        for found, row in zip(arrays, expected, strict=True):
            np.testing.assert_allclose(found.numpy(), row, rtol=1e-12, atol=1e-15)


def test_many_heavy_threads_of_one_array():
    x, n = np.random.default_rng(0).uniform(-1.0, 1.0, 200_000), 200_000
    a, expected = dk.array(x), x.copy()
    before = dk.config.num_threads
    dk.config.num_threads = 2
    try:
        heavy[n](a, a)
    finally:
        dk.config.num_threads = before
    heavy_threads(expected, expected)
    np.testing.assert_allclose(a.numpy(), expected, rtol=1e-12)


# -- what is refused ---------------------------------------------------------------------------------------------------


def refused(first: str = "x", second: str = "y", written: str = "y") -> Any:
    return pytest.raises(LaunchError, match=SHARED.format(first, second, written))


def halves(n: int, device: str = "cpu") -> tuple[Any, Any]:
    whole = dk.zeros(n + 1, dtype=dk.float64, device=device)
    return whole[:n], whole[1:]


@pytest.mark.parametrize("n", [1, 5, 1000, 200_000])
def test_by_launches_at_once(n):
    x, y = halves(n)
    for launch in (
        lambda: dk.launch(shift, n, [x], [y]),
        lambda: shift[n](x, y),
        lambda: dk.launch(shift, n, [x, y], stream=dk.Stream()),
        lambda: dk.launch(shift, n, [x, y], record_tape=False),
        lambda: dk.launch(shift, n, [x, y], device="cpu"),
        lambda: dk.launch(shift, n, [x.numpy(), y.numpy()]),
        lambda: shift[n](y, x),
        lambda: shift.jvp[n](x, y, dk.zeros(n, dtype=dk.float64), dk.zeros(n, dtype=dk.float64)),
    ):
        if n == 1:
            launch()
            continue
        with refused():
            launch()
        assert not np.any(x.numpy())


def test_by_records_and_sequences():
    n, (x, y), free = 5, halves(5), dk.zeros(5, dtype=dk.float64)
    with refused():
        dk.launch(shift, n, [x, y], record_cmd=True)
    record = dk.launch(shift, n, [x, free], record_cmd=True)
    with dk.record() as sequence:
        shift[n](free, y)
        with refused():
            shift[n](x, y)
    for change in (
        lambda: record.set_param_at_index(1, y),
        lambda: record.set_param_by_name("y", y),
        lambda: record.set_params([y, x]),
        lambda: sequence[0].set_param_by_name("x", x),
        lambda: sequence.set_param("x", x),
        lambda: sequence.set_params({"x": x}),
    ):
        with refused():
            change()
    before = record.arrays["y"]._packed
    record.launch()
    sequence.replay()
    assert before == free._packed


def test_records_whose_arrays_are_exchanged_in_native_code():
    """Whole arrays are exchanged without Python; they may meet a view that the record has already."""
    a, b = dk.zeros(8, dtype=dk.float64), dk.zeros(8, dtype=dk.float64)
    record = dk.launch(shift, 4, [a, b], record_cmd=True)
    for first, second in ((b, b), (a, b), (b, a), (a, a)):  # also one by one, as two buffers are exchanged
        record.set_param_at_index(0, first)
        record.set_param_at_index(1, second)
        record.launch()
    record.set_param_at_index(0, a)
    record.set_param_at_index(1, b)
    flat = a.reshape(8)
    record.set_param_at_index(0, flat)
    record.set_param_at_index(1, a)  # the very same elements
    for view in (a[1:5], a.view(dk.int64).view(dk.float64)[4:], a[::-1]):
        other = dk.launch(shift, 4, [b, b], record_cmd=True)
        other.set_param_at_index(1, a)
        with refused():
            other.set_param_at_index(0, view)
        other.set_param_at_index(1, b)
        other.set_param_at_index(0, view)
        with refused():
            other.set_param_at_index(1, a)
        other.launch()


def test_by_adjoints():
    n, (x, y) = 4, halves(4)
    x.requires_grad = True
    with refused():
        dk.launch(shift, n, [x], [y], adjoint=True)
    free = dk.zeros(n, dtype=dk.float64, requires_grad=True)
    record = dk.launch(shift, n, [x], [free], record_cmd=True).adjoint()
    with refused():
        record.set_param_at_index(1, y)


DERIVATIVES: dict[str, Callable[[Any, Any], Any]] = {
    "grad": lambda f, x: dk.grad(f)(x),
    "vjp": lambda f, x: dk.vjp(f, (x,), [1.0]),
    "jvp": lambda f, x: dk.jvp(f, (x,), (np.ones(5),)),
    "hvp": lambda f, x: dk.hvp(f, (x,), (np.ones(5),)),
    "jacobian": dk.jacobian,
}


@pytest.mark.parametrize("derivative", DERIVATIVES.values(), ids=DERIVATIVES)
def test_by_derivatives(derivative):
    def function(x):
        work = dk.zeros(6, dtype=dk.float64)
        dk.copy(work[:5], x)
        shift[5](work[:5], work[1:])
        return work.sum()

    with refused():
        derivative(function, dk.array(np.ones(5)))


def test_on_a_tape_and_in_a_roll_out():
    x, y = halves(5)
    with dk.Tape(), refused():
        shift[5](x, y)
    with dk.Tape(), refused():
        dk.checkpoint(lambda _: shift[5](x, y), 2, 1)
    with dk.ScopedCapture() as capture, refused():
        shift[5](x, y)
    assert len(capture.graph.sequence) == 0


@dk.kernel
def tiled(x: D, y: D):
    i = dk.tid()
    dk.tile_store(y, 2.0 * dk.tile_load(x, shape=4, offset=4 * i), offset=4 * i)


def test_by_launches_of_tiles():
    whole = dk.zeros(12, dtype=dk.float64)
    with refused():
        dk.launch_tiled(tiled, [2], [whole[:8], whole[4:]], block_dim=32)
    dk.launch_tiled(tiled, [2], [whole[:8], whole[:8]], block_dim=32)


@cuda.jit
def shift_cuda(x, y):
    i = cuda.grid(1)
    if i < x.shape[0]:
        y[i] = x[i] + 1.0


@wp.kernel
def shift_warp(x: wp.array(dtype=wp.float64), y: wp.array(dtype=wp.float64)):
    i = wp.tid()
    y[i] = x[i] + wp.float64(1.0)


def test_by_other_dialects():
    x, y = halves(5)
    with refused():
        wp.launch(shift_warp, 5, inputs=[x], outputs=[y])
    whole = cuda.to_device(np.zeros(6))
    with refused():
        shift_cuda[1, 32](whole[:5], whole[1:])
    shift_cuda[1, 32](whole[:5], whole[:5])
    assert whole.copy_to_host().tolist() == [1.0] * 5 + [0.0]


def test_on_a_gpu():
    with fake_cuda():
        x, y = halves(5, "cuda:0")
        free = dk.zeros(5, dtype=dk.float64, device="cuda:0")
        with refused():
            shift[5](x, y)
        record = dk.launch(shift, 5, [x, free], record_cmd=True)
        with refused():
            record.set_param_at_index(1, y)
        shift[5](x, x)
        assert x.list() == [1.0] * 5


# -- which arrays share elements ---------------------------------------------------------------------------------------


def _views(rng: np.random.Generator, memory: np.ndarray[Any, Any], count: int) -> list[np.ndarray[Any, Any]]:
    """Parts of some bytes, as elements of several types, at many offsets, distances and directions."""
    found: list[np.ndarray[Any, Any]] = []
    while len(found) < count:
        dtype = np.dtype(rng.choice(["f4", "f8", "i4", "i8", "i2"]))
        elements = memory.view(dtype)
        first, step = int(rng.integers(0, 12)), int(rng.choice([1, 1, 2, 3, -1, -2]))
        view = elements[first::step] if step > 0 else elements[: first + 1 : step] if first else elements[::step]
        found.append(view[: int(rng.integers(1, 9))])
    return found


def test_what_is_refused_is_what_shares_an_element():
    """All pairs of views of one block of memory, against NumPy's exact answer."""
    rng = np.random.default_rng(7)
    memory = np.zeros(16, np.float64).view(np.uint8)
    shift[1](np.zeros(1), np.zeros(1))
    program = next(iter(shift.programs.values()))
    found = {True: 0, False: 0}
    for _ in range(400):
        x, y = _views(rng, memory, 2)
        same = x.dtype == y.dtype and x.__array_interface__ == y.__array_interface__
        is_wrong = bool(np.shares_memory(x, y)) and not same
        found[is_wrong] += 1
        arrays = [dk.array(part, copy=False) for part in (x, y)]
        if is_wrong:
            with refused():
                check_shared("any", program, arrays)
        else:
            check_shared("any", program, arrays)
    assert min(found.values()) > 20


@dk.struct
class Pair:
    a: dk.float64
    b: dk.float64


@dk.kernel
def fields(p: dk.array(dtype=Pair), y: D):
    i = dk.tid()
    y[i] = p[i].a + 1.0


def test_fields_and_rows():
    p = dk.zeros(4, dtype=Pair)
    fields[4](p, p.field("b"))
    assert p.numpy()["b"].tolist() == [1.0] * 4
    fields[4](p, p.field("a"))  # the very array of the field
    with refused("p.a", "y"):
        fields[2](p[:2], p.field("a")[1:3])
    rows = dk.zeros((4, 3), dtype=dk.float64)
    shift[3](rows[0], rows[1])
    shift[4](rows[:, 0], rows[:, 2])
    with refused():
        shift[3](rows[0], rows[:, 0])


def test_arrays_that_are_read_may_share():
    @dk.kernel
    def add(x: D, y: D, z: D):
        i = dk.tid()
        z[i] = x[i] + y[i]

    whole, out = dk.array(np.arange(6.0)), dk.zeros(5, dtype=dk.float64)
    add[5](whole[:5], whole[1:], out)
    assert out.list() == [1.0, 3.0, 5.0, 7.0, 9.0]
    with refused("x", "z", "z"):
        add[5](whole[:5], out, whole[1:])


def test_the_check_is_made_anew_for_other_arguments():
    whole, free = dk.zeros(9, dtype=dk.float64), dk.zeros(8, dtype=dk.float64)
    for _ in range(2):
        shift[8](whole[:8], free)
        with refused():
            shift[8](whole[:8], whole[1:])
        with refused():
            shift[8](whole[:8], whole[1:])
