"""Trajectories in one array: what a tape keeps of them, and that their gradients are right.

Random programs are compared with central differences; what tapes keep is counted.
"""

from __future__ import annotations

import numpy as np
import pytest
from support.trajectories import OPERATIONS, Program, program

import diffkern as dk
from diffkern.errors import LaunchError
from diffkern.runtime.arrays import operation
from diffkern.runtime.effects import kept


def ones(p: Program) -> np.ndarray:
    return np.ones(p.m)


def seeds(p: Program, x, y, steps=slice(None)):
    """The gradients to begin with, of arrays that occur in some steps."""
    occurs = any(name in OPERATIONS for name, _ in p.steps[steps])
    return {x: p.weights, y: ones(p)} if occurs else {x: p.weights}


def check(found, wanted, what):
    np.testing.assert_allclose(found, wanted, rtol=2e-6, atol=2e-8, err_msg=str(what))


def check_tapes(p: Program) -> None:
    """Two tapes, one after the other, on one array."""
    half = len(p.steps) // 2
    x, values = p.array(p.start, requires_grad=True), p.start
    for steps in (slice(0, half), slice(half, None)):
        y = p.beside(requires_grad=True)
        with dk.Tape() as tape:
            for step in p.steps[steps]:
                p.do(x, y, step)
        tape.zero()
        tape.backward(grads=seeds(p, x, y, steps))
        check(x.grad.numpy(), p.gradient(values, steps), (p, "tape"))
        assert tape.memory() <= p.most_kept, p
        values, first = np.array(x.numpy()), x.grad.numpy().copy()
        tape.zero()
        tape.backward(grads=seeds(p, x, y, steps))  # the second time it may be one native call
        assert np.array_equal(x.grad.numpy(), first)


def check_sequences(p: Program) -> None:
    """The adjoint of a sequence, replayed from other values than it was recorded with."""
    x, y = p.array(p.start, requires_grad=True), p.beside(requires_grad=True)
    with dk.record(run=False) as sequence:
        for step in p.steps:
            p.do(x, y, step)
    both = sequence.adjoint(grads=seeds(p, x, y))
    for values in (p.start, p.start[..., ::-1] * 0.9):
        dk.copy(x, p.array(np.ascontiguousarray(values)))
        dk.copy(y, p.beside())
        both.replay()
        check(x.grad.numpy(), p.gradient(np.ascontiguousarray(values)), (p, "sequence"))


def check_functions(p: Program) -> None:
    """Forward mode, a tape that is differentiated, and products with second derivatives."""
    weights = dk.array(p.weights)

    def loss(x):
        own, y = dk.zeros_like(x), p.beside()
        dk.copy(own, x)
        for step in p.steps:
            p.do(own, y, step)
        total = dk.zeros(1, dtype=dk.float64)
        dk.launch(KERNELS[own.ndim], dim=own.shape, inputs=[own, weights, total])
        dk.launch(weighted1, dim=p.m, inputs=[y, dk.array(ones(p)), total])
        return total

    x, v = dk.array(p.start), np.random.default_rng(5).uniform(-1, 1, p.start.shape)
    gradient = p.gradient(p.start)
    check(dk.grad(loss)(x).numpy(), gradient, (p, "grad"))
    _, tangent = dk.jvp(loss, [x], [dk.array(v)])
    check(tangent.numpy()[0], (gradient * v).sum(), (p, "jvp"))
    (product,) = dk.hvp(loss, [x], [dk.array(v)])
    h = 1e-5
    slopes = {s: np.array(dk.grad(loss)(dk.array(p.start + s * h * v)).numpy()) for s in (-2, -1, 1, 2)}
    wanted = (8 * (slopes[1] - slopes[-1]) - (slopes[2] - slopes[-2])) / (12 * h)
    np.testing.assert_allclose(product.numpy(), wanted, rtol=1e-5, atol=1e-7)
    if any(name in ("loop", "back") for name, _ in p.steps):
        return  # what these log cannot be logged again by a tape around
    own = dk.array(p.start, requires_grad=True)
    with dk.Tape() as tape:
        inner = dk.grad(loss)(own)
    tape.backward(grads={inner: v})
    np.testing.assert_allclose(own.grad.numpy(), product.numpy(), rtol=1e-9, atol=1e-10)


@dk.kernel
def weighted1(y: dk.array(dtype=dk.float64), w: dk.array(dtype=dk.float64), total: dk.array(dtype=dk.float64)):
    i = dk.tid()
    total[0] += y[i] * w[i]


@dk.kernel
def weighted2(y: dk.array2d(dtype=dk.float64), w: dk.array2d(dtype=dk.float64), total: dk.array(dtype=dk.float64)):
    i, j = dk.tid()
    total[0] += y[i, j] * w[i, j]


@dk.kernel
def weighted3(y: dk.array3d(dtype=dk.float64), w: dk.array3d(dtype=dk.float64), total: dk.array(dtype=dk.float64)):
    i, j, k = dk.tid()
    total[0] += y[i, j, k] * w[i, j, k]


KERNELS = {1: weighted1, 2: weighted2, 3: weighted3}
CHECKS = (check_tapes, check_sequences, check_functions)


@pytest.fixture(params=[False, True], ids=["settable", "settled"])
def settled(request, monkeypatch):
    """Whether sequences keep parts of arrays from the first copy on."""
    if request.param:
        monkeypatch.setattr(kept, "_MANY", 0)
        monkeypatch.setattr(kept, "_FEW_BYTES", 0)
    return request.param


@pytest.mark.parametrize("seed", range(24))
def test_random_programs_on_tapes(seed):
    check_tapes(program(seed))


@pytest.mark.parametrize("seed", range(24, 30))
def test_random_programs_in_sequences(seed, settled):
    check_sequences(program(seed, "rows"))


@pytest.mark.parametrize("seed", range(30, 34))
def test_random_programs_in_functions(seed):
    check_functions(program(seed, "rows"))


def test_a_tape_around_gradients_of_a_trajectory():
    def loss(x):
        y = dk.zeros((41, 8), dtype=dk.float32)
        dk.copy(y[0], x)
        for n in range(40):
            dk.launch(step, dim=8, inputs=[y, n])
        return y[40, :1]

    x = dk.array(start(8), requires_grad=True)
    with dk.Tape() as tape:
        inner = dk.grad(loss)(x)
    assert tape.memory() <= 2 * 41 * 8 * 4  # of the cotangents, a row for each step
    tape.backward(grads={inner: np.ones(8, np.float32)})
    (product,) = dk.hvp(loss, [dk.array(start(8))], [dk.ones(8)])
    assert np.allclose(x.grad.numpy(), product.numpy(), rtol=1e-4)


@pytest.mark.full
@pytest.mark.parametrize("first", range(100, 500, 20))
@pytest.mark.parametrize("check", CHECKS)
def test_many_random_programs(first, check, settled):
    for seed in range(first, first + 20):
        check(program(seed))


# -- what is kept ------------------------------------------------------------------------------------------------------


@dk.kernel
def step(x: dk.array2d(dtype=dk.float32), n: dk.int32):
    i = dk.tid()
    x[n + 1, i] = dk.sin(x[n, i]) * 1.1


@dk.kernel
def step_of_two(x: dk.array2d(dtype=dk.float32), n: dk.int32, y: dk.array2d(dtype=dk.float32)):
    i = dk.tid()
    y[n + 1, i] = dk.sin(x[n, i]) * 1.1


@dk.kernel
def step_of_rows(a: dk.array(dtype=dk.float32), b: dk.array(dtype=dk.float32)):
    i = dk.tid()
    b[i] = dk.sin(a[i]) * 1.1


@dk.kernel
def step_in_ring(x: dk.array2d(dtype=dk.float32), n: dk.int32):
    i = dk.tid()
    x[(n + 1) % 3, i] = dk.sin(x[n % 3, i]) * 1.1


@dk.kernel
def step_of_columns(x: dk.array2d(dtype=dk.float32), n: dk.int32):
    i = dk.tid()
    x[i, n + 1] = dk.sin(x[i, n]) * 1.1


@dk.kernel
def step_of_vectors(x: dk.array2d(dtype=dk.vec3f), n: dk.int32):
    i = dk.tid()
    x[n + 1, i] = x[n, i] * dk.length(x[n, i])


@dk.kernel
def step_looked_up(x: dk.array2d(dtype=dk.float32), at: dk.array(dtype=dk.int32), n: dk.int32):
    i = dk.tid()
    x[n + 1, i] = dk.sin(x[at[n], i]) * 1.1


@dk.kernel
def step_in_place(x: dk.array2d(dtype=dk.float32), n: dk.int32):
    i = dk.tid()
    x[n, i] = dk.sin(x[n, i]) * x[n, i]


@dk.struct
class Particle:
    place: dk.vec3f
    mass: dk.float32


@dk.kernel
def step_of_structs(x: dk.array2d(dtype=Particle), n: dk.int32):
    i = dk.tid()
    x[n + 1, i].place = x[n, i].place * x[n, i].mass


def start(*shape):
    return np.random.default_rng(3).uniform(0.2, 1, shape).astype(np.float32)


def by_rows(values, steps):
    """The gradient of the sum of the last row, with rows as arguments."""
    rows = [dk.array(values, requires_grad=True), *(dk.zeros(len(values), requires_grad=True) for _ in range(steps))]
    with dk.Tape() as tape:
        for n in range(steps):
            dk.launch(step_of_rows, dim=len(values), inputs=[rows[n], rows[n + 1]])
    tape.backward(grads={rows[-1]: np.ones(len(values), np.float32)})
    assert tape.memory() == 0
    return rows[0].grad.numpy()


def last_row(shape, at=-1):
    seeds = np.zeros(shape, np.float32)
    seeds[at] = 1
    return seeds


def test_a_trajectory_keeps_nothing():
    x = dk.array(start(1001, 64), requires_grad=True)
    with dk.Tape() as tape:
        for n in range(1000):
            dk.launch(step, dim=64, inputs=[x, n])
    assert tape.memory() == 0
    tape.backward(grads={x: last_row(x.shape)})
    assert np.array_equal(x.grad.numpy()[0], by_rows(start(1001, 64)[0], 1000))


def test_one_array_as_two_arguments():
    x = dk.array(start(41, 8), requires_grad=True)
    with dk.Tape() as tape:
        for n in range(40):
            dk.launch(step_of_two, dim=8, inputs=[x, n, x])
    assert tape.memory() == 0
    tape.backward(grads={x: last_row(x.shape)})
    assert np.array_equal(x.grad.numpy()[0], by_rows(start(41, 8)[0], 40))


@pytest.mark.parametrize("steps", [40, 400])
def test_a_ring_keeps_the_rows_that_it_overwrites(steps, work):
    x = dk.array(start(3, 8), requires_grad=True)
    with dk.Tape() as tape:
        for n in range(steps):
            dk.launch(step_in_ring, dim=8, inputs=[x, n])
    assert tape.memory() == (steps - 2) * 8 * 4  # the last two states are in the ring
    del work[:]
    tape.backward(grads={x: last_row(x.shape, steps % 3)})
    assert np.array_equal(x.grad.numpy()[0], by_rows(start(3, 8)[0], steps))
    assert sum(work) <= (steps + 6) * 8 * 4


@dk.kernel
def step_of_a_pair(x: dk.array2d(dtype=dk.float32), y: dk.array2d(dtype=dk.float32), n: dk.int32):
    i = dk.tid()
    a, b = x[n % 2, i], y[n % 2, i]
    x[(n + 1) % 2, i] = a * b
    y[(n + 1) % 2, i] = dk.sin(a) + b


def test_two_arrays_of_which_parts_are_kept():
    values = start(2, 4)
    pair = [dk.array(values[k : k + 1].repeat(2, 0), requires_grad=True) for k in (0, 1)]
    with dk.Tape() as tape:
        for n in range(6):
            dk.launch(step_of_a_pair, dim=4, inputs=[*pair, n])
    tape.backward(grads={pair[0]: last_row((2, 4), 0)})

    def loss(a, b):
        for _ in range(6):
            a, b = a * b, np.sin(a) + b
        return a.sum()

    wide, h = values.astype(np.float64), 1e-6
    for k, x in enumerate(pair):
        moved = [(loss(*(wide + d)) - loss(*(wide - d))) / (2 * h) for d in h * np.eye(8).reshape(8, 2, 4)[4 * k :][:4]]
        assert np.allclose(x.grad.numpy()[0], moved, rtol=1e-4)


@dk.kernel
def squares(x: dk.array2d(dtype=dk.float32), n: dk.int32, y: dk.array(dtype=dk.float32)):
    i = dk.tid()
    y[i] += x[n, i] * x[n, i]


@dk.kernel
def constants(x: dk.array2d(dtype=dk.float32), n: dk.int32, value: dk.float32):
    i = dk.tid()
    x[n, i] = value


@pytest.mark.parametrize("first", [7, 3])
def test_what_only_later_launches_overwrite(first):
    x, y = dk.array(start(8, 4), requires_grad=True), dk.zeros(4, requires_grad=True)
    with dk.Tape() as tape:
        for n in range(6):
            dk.launch(squares, dim=4, inputs=[x, n, y])
        dk.launch(constants, dim=4, inputs=[x, first, 5.0])
        assert tape.memory() == (0 if first == 7 else 4 * 4)  # which nobody has read
        for _ in range(3):
            dk.launch(constants, dim=4, inputs=[x, 3, 6.0])
        assert tape.memory() == 4 * 4
        x[4:].fill_(7.0)
        assert tape.memory() == 3 * 4 * 4
    tape.backward(grads={y: np.ones(4, np.float32)})
    assert np.array_equal(x.grad.numpy()[:6], 2 * start(8, 4)[:6])
    assert not x.grad.numpy()[6:].any()


def test_a_row_in_place():
    x = dk.array(start(8, 4), requires_grad=True)
    with dk.Tape() as tape:
        dk.launch(step_in_place, dim=4, inputs=[x, 5])
    assert tape.memory() == 4 * 4
    tape.backward(grads={x: np.ones((8, 4), np.float32)})
    v, wanted = start(8, 4)[5], np.ones((8, 4), np.float32)
    wanted[5] = np.cos(v) * v + np.sin(v)
    assert np.allclose(x.grad.numpy(), wanted, rtol=1e-6)


def test_columns():
    x = dk.array(np.ascontiguousarray(start(41, 8).T), requires_grad=True)
    with dk.Tape() as tape:
        for n in range(40):
            dk.launch(step_of_columns, dim=8, inputs=[x, n])
        dk.launch(step_of_columns, dim=8, inputs=[x, 4])  # overwrites what the sixth has read
    assert tape.memory() == 8 * 4
    tape.backward(grads={x: np.ascontiguousarray(last_row((41, 8)).T)})
    assert np.array_equal(x.grad.numpy()[:, 0], by_rows(start(41, 8)[0], 40))


def test_rows_of_vectors():
    x, one = dk.array(start(6, 4, 3), dtype=dk.vec3f, requires_grad=True), start(6, 4, 3)[0].astype(np.float64)
    with dk.Tape() as tape:
        for n in range(5):
            dk.launch(step_of_vectors, dim=4, inputs=[x, n])
        x[2].fill_(0.0)
    assert tape.memory() == 4 * 3 * 4
    tape.backward(grads={x: np.ones((6, 4, 3), np.float32) * (np.arange(6) == 5)[:, None, None]})

    def loss(v):
        for _ in range(5):
            v = v * np.linalg.norm(v, axis=-1, keepdims=True)
        return v.sum()

    h = 1e-5
    moved = [(loss(one + d) - loss(one - d)) / (2 * h) for d in np.eye(12).reshape(12, 4, 3) * h]
    assert np.allclose(x.grad.numpy()[0].reshape(-1), moved, rtol=1e-4)


def test_rows_of_structs():
    x = dk.zeros((6, 4), dtype=Particle, requires_grad=True)
    x.field("place")[0].fill_(1.0)
    x.field("mass").fill_(0.5)
    with dk.Tape() as tape:
        for n in range(5):
            dk.launch(step_of_structs, dim=4, inputs=[x, n])
        x.field("place")[2].fill_(0.0)
    assert 0 < tape.memory() <= 2 * x.numpy()[0].nbytes
    seeds = np.zeros((6, 4, 3), np.float32)
    seeds[5] = 1
    tape.backward(grads={x.field("place"): seeds})
    assert np.allclose(x.grad.field("place").numpy()[0], 0.5**5)
    assert np.allclose(x.grad.field("mass").numpy()[:5], 3 * 0.5**4)


@pytest.fixture
def work(monkeypatch):
    """The bytes of copies, fills and sums, as they are made."""
    found = []

    def counted(plain):
        return lambda self: (found.append(self.goal._data.nbytes), plain(self))[1]

    for kind in (operation.Copy, operation.Assign, operation.Add):
        monkeypatch.setattr(kind, "execute", counted(kind.execute))
    return found


def test_no_step_touches_the_whole_array(work):
    x = dk.array(start(501, 8), requires_grad=True)
    with dk.Tape() as tape:
        for n in range(500):
            dk.launch(step, dim=8, inputs=[x, n])
    assert not work
    tape.backward(grads={x: last_row(x.shape)})
    assert sum(work) <= 4 * x.numpy().nbytes  # to begin with


def test_an_array_given_to_numpy_is_no_exception():
    x = dk.array(start(21, 8), requires_grad=True)
    view = x.numpy()
    with dk.Tape() as tape:
        for n in range(20):
            dk.launch(step, dim=8, inputs=[x, n])
    view[3] = 0.5
    with pytest.raises(LaunchError, match="changed outside the tape"):
        tape.backward(grads={x: last_row(x.shape)})


# -- several tapes, and what others change -----------------------------------------------------------------------------


def test_two_tapes_are_taken_back_in_the_other_order():
    x = dk.array(start(41, 8), requires_grad=True)
    first, second = dk.Tape(), dk.Tape()
    for tape, steps in ((first, range(20)), (second, range(20, 40))):
        with tape:
            for n in steps:
                dk.launch(step, dim=8, inputs=[x, n])
    second.backward(grads={x: last_row(x.shape)})
    first.backward()
    assert np.array_equal(x.grad.numpy()[0], by_rows(start(41, 8)[0], 40))


def test_another_tape_overwrites_what_is_needed():
    x = dk.array(start(41, 8), requires_grad=True)
    first, second = dk.Tape(), dk.Tape()
    for tape, steps in ((first, range(20)), (second, range(20, 30)), (second, [11])):
        with tape:
            for n in steps:
                dk.launch(step, dim=8, inputs=[x, n])
    with pytest.raises(LaunchError, match=r"array 'x' of launch 12 .* was changed outside the tape"):
        first.backward(grads={x: last_row(x.shape)})


def test_a_change_outside_the_tape():
    x = dk.array(start(41, 8), requires_grad=True)
    with dk.Tape() as tape:
        for n in range(20):
            dk.launch(step, dim=8, inputs=[x, n])
    x[7].fill_(0.0)
    with pytest.raises(LaunchError, match="was changed outside the tape"):
        tape.backward(grads={x: last_row(x.shape)})


# -- sequences ---------------------------------------------------------------------------------------------------------


def adjoint_of(made, x, rows, seeds):
    with dk.record(run=False) as sequence:
        for n in rows:
            dk.launch(made, dim=x.shape[1], inputs=[x, n])
    return sequence, sequence.adjoint(grads={x: seeds})


def test_numbers_can_be_set_while_copies_are_few():
    x = dk.array(start(4, 8), requires_grad=True)
    _, both = adjoint_of(step_in_place, x, [0, 0], np.ones((4, 8), np.float32))
    for n in (0, 2):
        x.assign(start(4, 8))
        both.set_param("n", n)
        both.replay()
        v = start(4, 8).astype(np.float64)[n]
        w = np.sin(v) * v
        wanted = (np.cos(w) * w + np.sin(w)) * (np.cos(v) * v + np.sin(v))
        assert np.allclose(x.grad.numpy()[n], wanted, rtol=1e-4)
        assert (np.delete(x.grad.numpy(), n, 0) == 1).all()


def test_numbers_on_which_copies_depend_are_settled(settled):
    steps = 20 if settled else 150
    x = dk.array(start(steps + 1, 64), requires_grad=True)
    sequence, both = adjoint_of(step, x, range(steps), last_row(x.shape))
    if not settled:  # many whole copies, until they are too many
        sequence, both = adjoint_of(step, x, range(steps), last_row(x.shape))
    wanted = by_rows(start(steps + 1, 64)[0], steps)
    launches = [item.record.launch for item in both._program.items if item.record is not None]
    before = [launch.parts[1] for launch in launches]
    with pytest.raises(LaunchError, match="depends on 'n', which cannot be set"):
        both.set_param("n", 3)
    assert [launch.parts[1] for launch in launches] == before
    with dk.record(run=False) as again:
        both.replay()
    with pytest.raises(LaunchError, match="depends on 'n', which cannot be set"):
        again.set_param("n", 3)
    both.replay()
    assert np.array_equal(x.grad.numpy()[0], wanted)
    sequence.set_param("n", 3)  # the forward launches are as they were


def test_copies_of_large_arrays_are_of_rows_soon(monkeypatch):
    """A trajectory of a hundred megabytes is not copied sixteen times before its rows are."""
    monkeypatch.setattr(kept, "_MUCH_BYTES", 3 << 10)
    monkeypatch.setattr(kept, "_FEW_BYTES", 0)
    x, wholes = dk.array(start(6, 128), requires_grad=True), []
    monkeypatch.setattr(kept.KeptCopies, "whole", lambda self, a, act: wholes.append(a) or self._one(a, None, act))
    _, both = adjoint_of(step, x, range(5), last_row(x.shape))
    assert 0 < len(wholes) <= 3
    both.replay()
    assert np.array_equal(x.grad.numpy()[0], by_rows(start(6, 128)[0], 5))


# -- warnings ----------------------------------------------------------------------------------------------------------


def test_copies_in_excess_are_announced_once(monkeypatch):
    monkeypatch.setattr(kept, "_EXCESS_BYTES", 1 << 20)
    x, at = dk.array(start(101, 64), requires_grad=True), dk.array(np.arange(100, dtype=np.int32))
    line = step_looked_up.func.__code__.co_firstlineno
    message = rf"copies of 'x', an array of 0.0247 MB: .*'step_looked_up' \({__file__}:{line}\) .*dk.checkpoint"

    def record():
        with dk.Tape() as tape:
            for n in range(100):
                dk.launch(step_looked_up, dim=64, inputs=[x, at, n])
        return tape

    with pytest.warns(RuntimeWarning, match=message) as found:
        tape = record()
    assert len(found) == 1
    assert found[0].filename == __file__
    assert tape.memory() > 1 << 20


def test_states_are_not_announced(monkeypatch):
    monkeypatch.setattr(kept, "_EXCESS_BYTES", 0)
    monkeypatch.setattr(kept, "_EXCESS_TIMES", 1)
    x, y = dk.array(start(3, 64), requires_grad=True), dk.array(start(1, 64), requires_grad=True)
    with dk.Tape() as tape:
        for n in range(100):
            dk.launch(step_in_ring, dim=64, inputs=[x, n])
            dk.launch(step_in_place, dim=64, inputs=[y, 0])
    assert tape.memory() > 10 * x.numpy().nbytes
