"""Fills and launches that a sequence leaves out, and those that it must not: replays are what the launches are."""

from __future__ import annotations

import numpy as np
import pytest

import diffkern as dk
from diffkern.runtime import schedule
from diffkern.runtime import sequence as sequences

N = 50
A = dk.array(dtype=float)


@dk.kernel
def product(x: A, y: A, a: float, z: A):
    i = dk.tid()
    z[i] = dk.sin(a * x[i]) * y[i]


@dk.kernel
def neighbours(x: A, z: A):
    i = dk.tid()
    z[i] = x[i] * x[(i + 1) % x.shape[0]]


@dk.kernel
def in_place(x: A):
    i = dk.tid()
    x[i] = x[i] * x[i]


@dk.kernel
def some(x: A, z: A):
    i = dk.tid()
    if x[i] > 0.0:
        z[i] = x[i] * x[i]


@dk.struct
class Body:
    position: dk.vec3
    mass: float


@dk.kernel
def weigh(bodies: dk.array(dtype=Body), z: A):
    i = dk.tid()
    z[i] = bodies[i].mass * bodies[i].position[1]


def given(seed: int, n: int = N) -> dk.array:
    return dk.array(np.random.default_rng(seed).normal(size=n).astype(np.float32), requires_grad=True)


def left_out(sequence: dk.Sequence, kind: str = "memory") -> int:
    """How many operations of a sequence have nothing to do: fills and copies, or launches."""
    program = sequence._program
    pairs = zip(program.items, program.forms, strict=True)
    return sum(item.operation.kind == kind and form is not None and not len(form) for item, form in pairs)


def replayed(arrays, actions, expected_left_out, monkeypatch):
    """Record actions as they are folded and as they are not, replay both from the same numbers, and compare all."""
    found = []
    for is_folded in (True, False):
        with monkeypatch.context() as patched:
            if not is_folded:
                patched.setattr(sequences, "folded", lambda operations, forms: forms)
            held = arrays()
            with dk.record() as sequence:
                actions(*held)
        assert left_out(sequence) == (expected_left_out if is_folded else 0)
        start = [(a.numpy().copy(), a.grad.numpy().copy()) for a in arrays()]
        for again in range(2):
            for a, (values, _) in zip(held, start, strict=True):
                a.assign(values)
                a.grad.fill_(3.0 + again)  # what a fill of the sequence has to take away
            sequence.replay()
        found.append([(a.numpy().copy(), a.grad.numpy().copy()) for a in held])
    for one, other in zip(*found, strict=True):
        for a, b in zip(one, other, strict=True):
            np.testing.assert_array_equal(a, b)


def backward(tape, z, seed=9):
    tape.backward(grads={z: np.random.default_rng(seed).normal(size=z.shape).astype(np.float32)})


def test_sums_into_cleared_gradients_are_stored(monkeypatch):
    def actions(x, y, z):
        with dk.Tape() as tape:
            product[N](x, y, 1.5, z)
        tape.zero()
        backward(tape, z)

    replayed(lambda: [given(k) for k in range(3)], actions, 3, monkeypatch)  # of z the seed takes the place


def test_of_two_launches_the_first_stores(monkeypatch):
    def actions(x, y, z, w):
        with dk.Tape() as tape:
            product[N](x, y, 1.5, z)
            product[N](x, y, 0.5, w)
        tape.zero()
        tape.backward(grads={z: dk.ones(N), w: dk.ones(N)})

    replayed(lambda: [given(k) for k in range(4)], actions, 4, monkeypatch)


def test_gradients_that_are_kept_are_added_to(monkeypatch):
    def actions(x, y, z):
        with dk.Tape() as tape:
            product[N](x, y, 1.5, z)
        x.grad.zero_()
        z.grad.zero_()
        backward(tape, z)

    # y's gradient is not cleared, and one program stores to both or to none.
    replayed(lambda: [given(k) for k in range(3)], actions, 1, monkeypatch)


@pytest.mark.parametrize("value", [2.0, -0.0])
def test_fills_with_something_else_stay(value, monkeypatch):
    def actions(x, y, z):
        with dk.Tape() as tape:
            product[N](x, y, 1.5, z)
        z.grad.zero_()
        x.grad.fill_(value)
        y.grad.fill_(value)
        backward(tape, z)

    replayed(lambda: [given(k) for k in range(3)], actions, 3 if value == 0.0 else 1, monkeypatch)


def test_elements_without_a_thread_are_cleared(monkeypatch):
    def actions(x, y, z):
        with dk.Tape() as tape:
            product[N - 1](x, y, 1.5, z)
        tape.zero()
        backward(tape, z)

    replayed(lambda: [given(k) for k in range(3)], actions, 1, monkeypatch)


def test_parts_of_gradients_are_cleared(monkeypatch):
    def actions(x, y, z):
        with dk.Tape() as tape:
            product[N](x, y, 1.5, z)
        x.grad[: N // 2].zero_()
        y.grad[: N // 2].zero_()
        z.grad.zero_()
        backward(tape, z)

    replayed(lambda: [given(k) for k in range(3)], actions, 1, monkeypatch)


def test_a_thread_without_a_term_stores_zero(monkeypatch):
    def actions(x, z):
        with dk.Tape() as tape:
            some[N](x, z)
        tape.zero()
        backward(tape, z)

    replayed(lambda: [given(k) for k in range(2)], actions, 2, monkeypatch)


def test_sums_of_several_threads_are_sums(monkeypatch):
    def actions(x, z):
        with dk.Tape() as tape:
            neighbours[N](x, z)
        tape.zero()
        backward(tape, z)

    replayed(lambda: [given(k) for k in range(2)], actions, 1, monkeypatch)


def test_in_place(monkeypatch):
    def actions(x):
        with dk.Tape() as tape:
            in_place[N](x)
            in_place[N](x)
        tape.zero()
        backward(tape, x)

    replayed(lambda: [given(1)], actions, 1, monkeypatch)


def test_one_array_as_two_parameters(monkeypatch):
    def actions(x, z):
        with dk.Tape() as tape:
            product[N](x, x, 1.5, z)
        tape.zero()
        backward(tape, z)

    replayed(lambda: [given(k) for k in range(2)], actions, 1, monkeypatch)


def test_what_is_copied_or_launched_over_needs_no_fill(monkeypatch):
    def actions(x, y, z):
        z.zero_()
        product[N](x, y, 1.5, z)
        y.fill_(2.0)
        dk.copy(y, x)
        z.zero_()  # the next one reads what is left of it
        product[N - 1](x, y, 1.5, z)

    replayed(lambda: [given(k) for k in range(3)], actions, 2, monkeypatch)


def test_what_is_read_before_it_is_overwritten_is_filled(monkeypatch):
    def actions(x, y, z):
        x.fill_(0.25)
        product[N](x, y, 1.5, z)
        x.fill_(0.5)
        dk.copy(x[:10], x[10:20])
        x.zero_()

    replayed(lambda: [given(k) for k in range(3)], actions, 0, monkeypatch)


def test_parts_and_changes_of_a_sequence():
    x, y, z = (given(k) for k in range(3))
    with dk.record() as sequence:
        with dk.Tape() as tape:
            product[N](x, y, 1.5, z)
        tape.zero()
        backward(tape, z)
    sequence.replay()
    once = x.grad.numpy().copy()
    sequence[4:].replay()  # without the fills: the seed, and an adjoint that adds
    np.testing.assert_allclose(x.grad.numpy(), 2 * once, rtol=1e-6)
    # The part is gone, and its memory is somebody else's: what the whole points to must not have been replaced.
    others = [np.full(N, 7.0, np.float32) for _ in range(100)]
    sequence.set_param("a", 0.25)
    sequence.replay()
    slope = 0.25 * np.cos(0.25 * x.numpy()) / (1.5 * np.cos(1.5 * x.numpy()))
    np.testing.assert_allclose(x.grad.numpy(), once * slope, rtol=1e-4)
    sequence.replay(timed=True)
    np.testing.assert_allclose(x.grad.numpy(), once * slope, rtol=1e-4)
    assert len(others) == 100


def test_fields_of_structs(monkeypatch):
    def arrays():
        values = np.zeros(N, [("position", np.float32, 3), ("mass", np.float32)])
        rng = np.random.default_rng(3)
        values["position"], values["mass"] = rng.normal(size=(N, 3)), rng.normal(size=N)
        return [dk.array(values, dtype=Body, requires_grad=True), given(4)]

    def actions(bodies, z):
        with dk.Tape() as tape:
            weigh[N](bodies, z)
        tape.zero()
        backward(tape, z)

    found = []
    for is_folded in (True, False):
        with monkeypatch.context() as patched:
            if not is_folded:
                patched.setattr(sequences, "folded", lambda operations, forms: forms)
            bodies, z = arrays()
            with dk.record() as sequence:
                actions(bodies, z)
        sequence.replay()
        found.append(bodies.grad.numpy().copy())
    assert found[0].tobytes() == found[1].tobytes()
    assert not found[0]["position"][:, 0].any()


def test_debug_programs_are_as_they_are(monkeypatch):
    checked = dk.kernel(product.func, mode="debug")

    def actions(x, y, z):
        with dk.Tape() as tape:
            checked[N](x, y, 1.5, z)
        tape.zero()
        backward(tape, z)

    x, y, z = (given(k) for k in range(3))
    with dk.record() as sequence:
        actions(x, y, z)
    sequence.replay()
    first = x.grad.numpy().copy()
    sequence.replay()
    np.testing.assert_array_equal(x.grad.numpy(), first)


# -- launches that their adjoints do in passing ------------------------------------------------------------------------


@dk.kernel
def waves(x: A, z: A):
    i = dk.tid()
    z[i] = dk.sin(x[i]) * dk.exp(-x[i] * x[i])


@dk.kernel
def energy(x: A, total: A):
    i = dk.tid()
    dk.atomic_add(total, 0, dk.exp(x[i]) * dk.sin(x[i]))


@dk.kernel
def told(x: A, z: A):
    i = dk.tid()
    z[i] = dk.sin(x[i]) * dk.exp(-x[i] * x[i])
    if i == 0:
        print(z[i])


def launched(sequence: dk.Sequence) -> bool:
    """Whether all launches of a sequence run by themselves."""
    return left_out(sequence, "launch") == 0


def of_waves(between=lambda x, z, other: None, kernel=waves, n=N):
    """What records a launch, something, and the adjoint."""

    def actions(x, z, other):
        with dk.Tape() as tape:
            kernel[n](x, z)
        between(x, z, other)
        tape.zero()
        backward(tape, z)

    return actions


def both_ways(actions, is_launched, monkeypatch, fills=None, size=N):
    """Compare replays as :func:`replayed` does, and say whether the launches had to run by themselves."""
    arrays = lambda: [given(1), given(2, size), given(3)]  # noqa: E731
    with dk.record() as sequence:
        actions(*arrays())
    assert launched(sequence) == is_launched
    replayed(arrays, actions, left_out(sequence) if fills is None else fills, monkeypatch)


def test_an_adjoint_does_its_launch(monkeypatch):
    both_ways(of_waves(), False, monkeypatch, fills=2)


def test_sums_of_a_launch_in_its_adjoint(monkeypatch):
    def actions(x, total, other):
        total.zero_()
        with dk.Tape() as tape:
            energy[N](x, total)
        tape.zero()
        backward(tape, total)

    both_ways(actions, False, monkeypatch, size=1)


def test_many_chunks(monkeypatch):
    monkeypatch.setattr(schedule, "_CHUNK_WORK", 100.0)
    both_ways(of_waves(), False, monkeypatch)
    test_sums_of_a_launch_in_its_adjoint(monkeypatch)


def test_what_has_nothing_to_do_with_it_may_come_between(monkeypatch):
    both_ways(of_waves(lambda x, z, other: other.fill_(2.0)), False, monkeypatch)


@pytest.mark.parametrize(
    "between",
    [
        lambda x, z, other: dk.copy(other, z),
        lambda x, z, other: dk.copy(other[:10], z[40:]),
        lambda x, z, other: z.fill_(1.0),
        lambda x, z, other: waves[N](z, other),
    ],
)
def test_what_needs_the_launch_or_overwrites_its_results(between, monkeypatch):
    both_ways(of_waves(between), True, monkeypatch)


def test_memory_that_two_arrays_share():
    numbers = np.zeros(N + 5, np.float32)
    x, z, other = given(1), dk.array(numbers[:N], copy=False), dk.array(numbers[N - 1 :], copy=False)
    z.requires_grad = True
    with dk.record() as sequence:
        with dk.Tape() as tape:
            waves[N](x, z)
        tape.zero()
        other.fill_(0.25)  # its first element is the last one of z
        backward(tape, z)
    assert launched(sequence)
    sequence.replay()
    assert z.numpy()[-1] == 0.25 != z.numpy()[0]


def test_the_second_adjoint_of_a_launch_is_plain(monkeypatch):
    def actions(x, z, other):
        with dk.Tape() as tape:
            waves[N](x, z)
        tape.zero()
        backward(tape, z)
        backward(tape, z, seed=10)

    both_ways(actions, False, monkeypatch)


def test_of_a_chain_the_last_is_joined(monkeypatch):
    def actions(x, z, other):
        with dk.Tape() as tape:
            waves[N](x, z)
            waves[N](z, other)
        tape.zero()
        backward(tape, other)

    arrays = lambda: [given(1), given(2), given(3)]  # noqa: E731
    with dk.record() as sequence:
        actions(*arrays())
    assert left_out(sequence, "launch") == 1
    replayed(arrays, actions, left_out(sequence), monkeypatch)


@pytest.mark.parametrize(
    "kernel",
    [dk.kernel(waves.func, mode="debug"), dk.kernel(waves.func, deterministic=True), told],
    ids=["debug", "deterministic", "print"],
)
def test_launches_that_run_by_themselves(kernel, monkeypatch, capfd):
    both_ways(of_waves(kernel=kernel), True, monkeypatch)


def test_values_that_are_changed(monkeypatch):
    x, y, z = (given(k) for k in range(3))
    with dk.record() as sequence:
        with dk.Tape() as tape:
            product[N](x, y, 1.5, z)
        tape.zero()
        backward(tape, z)
    assert not launched(sequence)
    sequence.set_param("a", 0.25)
    sequence.replay()
    np.testing.assert_allclose(z.numpy(), np.sin(0.25 * x.numpy()) * y.numpy(), rtol=1e-5)
    forward, times = sequence[:3], sequence.replay(timed=True)
    z.zero_()
    forward.replay()  # the part has no adjoint
    np.testing.assert_allclose(z.numpy(), np.sin(0.25 * x.numpy()) * y.numpy(), rtol=1e-5)
    assert times is None
