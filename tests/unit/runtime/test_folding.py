"""Fills and launches that a sequence leaves out, and those that it must not: replays are what the launches are."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

import diffkern as dk
from diffkern.runtime.launch import schedule
from diffkern.runtime.records import compiled_sequence, zero_fill_elision

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
                patched.setattr(compiled_sequence, "folded", lambda operations, forms: forms)
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


def test_what_a_launch_changes_in_place_is_filled(monkeypatch):
    @dk.kernel
    def doubled(x: A):
        i = dk.tid()
        x[i] = 2.0 * x[i]

    def actions(x, y, z):
        x.fill_(0.25)
        doubled[N](x)

    replayed(lambda: [given(k) for k in range(3)], actions, 0, monkeypatch)


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
                patched.setattr(compiled_sequence, "folded", lambda operations, forms: forms)
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


@dk.kernel
def shifted(x: A, shift: A, z: A):
    i = dk.tid()
    z[i] = dk.sin(x[i]) * dk.exp(-x[i] * x[i]) + shift[i]


def test_what_overwrites_what_the_launch_reads(monkeypatch):
    def actions(x, z, other):
        with dk.Tape() as tape:
            shifted[N](x, other, z)
        other.fill_(2.0)
        tape.zero()
        backward(tape, z)

    both_ways(actions, True, monkeypatch)


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


# -- gradients that a sequence puts there for an adjoint to take -------------------------------------------------------


def fitted(sequence: dk.Sequence) -> int:
    """How many adjoints of a sequence read gradients elsewhere."""
    return sum(step.replaced is not None for form in sequence._program.forms for step in form or ())


def copied_seed(between=lambda x, z, seed: None, kernel=waves, n=N):
    """What records a launch, a copy to the gradient of its result, something, and the adjoint."""

    def actions(x, z, seed):
        with dk.Tape() as tape:
            kernel[n](x, z)
        tape.zero()
        dk.copy(z.grad, seed)
        between(x, z, seed)
        tape.backward()

    return actions


def seeded(actions, is_fitted, monkeypatch, arrays=lambda: [given(k) for k in (1, 2, 3)]):
    """Compare replays as :func:`replayed` does, and say whether the adjoint has to read the gradient itself."""
    with dk.record() as sequence:
        actions(*arrays())
    assert fitted(sequence) == is_fitted
    replayed(arrays, actions, left_out(sequence), monkeypatch)


def test_an_adjoint_reads_the_array_that_its_gradient_is_copied_from(monkeypatch):
    seeded(copied_seed(), 1, monkeypatch)


def test_an_adjoint_that_adds_reads_it_too(monkeypatch):
    def actions(x, z, seed):
        with dk.Tape() as tape:
            waves[N](x, z)
        dk.copy(z.grad, seed)
        tape.backward()

    seeded(actions, 1, monkeypatch)


def test_in_many_chunks(monkeypatch):
    monkeypatch.setattr(schedule, "_CHUNK_WORK", 100.0)
    seeded(copied_seed(), 1, monkeypatch)


@dk.kernel
def rows(x: dk.array2d(dtype=dk.vec3), z: dk.array2d(dtype=dk.vec3)):
    i, j = dk.tid()
    z[i, j] = x[i, j] * 2.0


def test_vectors_along_two_axes(monkeypatch):
    def arrays():
        rng = np.random.default_rng(5)
        return [dk.array(rng.normal(size=(5, 7, 3)), dtype=dk.vec3, requires_grad=True) for _ in range(3)]

    seeded(copied_seed(kernel=rows, n=(5, 7)), 1, monkeypatch, arrays)


def test_results_as_seeds(monkeypatch):
    def actions(x, z, other):
        with dk.Tape() as tape:
            waves[N](x, z)
        tape.zero()
        dk.copy(z.grad, z)
        tape.backward()

    seeded(actions, 1, monkeypatch)


@dk.kernel
def two_results(x: A, y: A, z: A):
    i = dk.tid()
    y[i] = x[i] * x[i]
    z[i] = dk.sin(x[i])


def test_two_results(monkeypatch):
    def actions(x, y, z):
        with dk.Tape() as tape:
            two_results[N](x, y, z)
        tape.zero()
        dk.copy(y.grad, x)
        dk.copy(z.grad, y)
        tape.backward()

    seeded(actions, 1, monkeypatch)


def test_one_of_two_results_begins_with_what_it_holds(monkeypatch):
    def actions(x, y, z):
        with dk.Tape() as tape:
            two_results[N](x, y, z)
        dk.copy(z.grad, x)
        tape.backward()

    seeded(actions, 0, monkeypatch)


def test_one_of_two_results_is_filled(monkeypatch):
    def actions(x, y, z):
        with dk.Tape() as tape:
            two_results[N](x, y, z)
        tape.zero()
        y.grad.fill_(0.5)
        dk.copy(z.grad, x)
        tape.backward()

    seeded(actions, 1, monkeypatch)


@pytest.mark.parametrize(
    "between",
    [
        lambda x, z, seed: seed.fill_(0.25),
        lambda x, z, seed: seed[3:5].fill_(0.25),
        lambda x, z, seed: waves[N](x, seed),
        lambda x, z, seed: z.grad[:5].fill_(1.0),
        lambda x, z, seed: dk.copy(x.grad, z.grad),
        lambda x, z, seed: waves[N](z.grad, z),
    ],
)
def test_seeds_that_change_and_gradients_that_are_looked_at(between, monkeypatch):
    seeded(copied_seed(between), 0, monkeypatch)


@pytest.mark.parametrize(
    "seed",
    [
        lambda x, z, other: dk.copy(z.grad[: N - 1], other[: N - 1]),
        lambda x, z, other: dk.copy(z.grad[::-1], other),
        lambda x, z, other: dk.copy(z.grad, other[::-1]),
        lambda x, z, other: dk.copy(z.grad, x.grad),  # to which the adjoint adds
        lambda x, z, other: dk.copy(z.grad[1:], z.grad[: N - 1]),
    ],
)
def test_seeds_that_are_not_whole_contiguous_or_apart(seed, monkeypatch):
    def actions(x, z, other):
        with dk.Tape() as tape:
            waves[N](x, z)
        seed(x, z, other)
        tape.backward()

    seeded(actions, 0, monkeypatch)


def test_seeds_for_some_of_the_elements(monkeypatch):
    seeded(copied_seed(n=N - 1), 0, monkeypatch)
    seeded(copied_seed(kernel=some), 0, monkeypatch)
    seeded(copied_seed(kernel=neighbours), 1, monkeypatch)  # of which it is the sums that cannot be stores


def test_several_adjoints_take_one_gradient(monkeypatch):
    def actions(x, z, seed):
        with dk.Tape() as tape:
            waves[N](x, z)
        tape.zero()
        for k in range(3):
            dk.copy(z.grad, seed)
            if k == 1:
                tape.backward()
            tape.backward()

    seeded(actions, 3, monkeypatch)


def test_seeds_that_overlap_the_gradient_partly():
    numbers = np.zeros(2 * N, np.float32)
    block = dk.array(numbers)
    x, z = given(1), given(2)
    z.grad = block[:N]
    with dk.record() as sequence:
        with dk.Tape() as tape:
            waves[N](x, z)
        dk.copy(z.grad, block[5 : N + 5])
        tape.backward()
    assert fitted(sequence) == 0


def test_foreign_memory_as_a_gradient_and_as_a_seed():
    numbers, x, z = np.ones(N, np.float32), given(1), given(2)
    seed = dk.array(numbers, copy=False)
    with dk.record() as sequence:
        copied_seed()(x, z, seed)
    assert fitted(sequence) == 1
    for value in (2.0, 3.0):
        numbers[:] = value
        sequence.replay()
        expected = value * np.exp(-(x.numpy() ** 2)) * (np.cos(x.numpy()) - 2 * x.numpy() * np.sin(x.numpy()))
        np.testing.assert_allclose(x.grad.numpy(), expected, rtol=1e-4, atol=1e-6)
        assert not z.grad.numpy().any()
        assert (numbers == value).all()
    z.grad = dk.array(np.zeros(N, np.float32), copy=False)
    with dk.record() as sequence:
        copied_seed()(x, z, seed)
    assert fitted(sequence) == 0


def slope(x: np.ndarray, a: float = 1.5) -> np.ndarray:
    return a * np.cos(a * x)


@pytest.fixture
def at_once(monkeypatch):
    """Let replays look at what they find at zero, however small it is."""
    monkeypatch.setattr(zero_fill_elision, "_LEAST", 1)


class Seeded:
    """A sequence with a launch, a copied seed and an adjoint, and what it works on."""

    def __init__(self) -> None:
        self.x, self.y, self.z, self.seed = given(1), dk.ones(N, dtype=float), given(2), given(3)
        self.y.requires_grad = True
        with dk.record(run=False) as self.sequence:
            with dk.Tape() as tape:
                product[N](self.x, self.y, 1.5, self.z)
            self.x.grad.zero_()
            self.y.grad.zero_()
            dk.copy(self.z.grad, self.seed)
            tape.backward()

    def replay(self, a: float = 1.5, **options) -> None:
        """Replay, and check gradients; that of the result is only looked at in its memory."""
        self.x.grad.fill_(7.0)
        seed = self.seed.list()
        self.sequence.replay(**options)
        x = np.array(self.x.list())
        np.testing.assert_allclose(
            self.x.grad.list(), slope(x, a) * seed * np.array(self.y.list()), rtol=1e-4, atol=1e-6
        )
        np.testing.assert_allclose(self.y.grad.list(), np.sin(a * x) * seed, rtol=1e-4, atol=1e-6)
        assert not np.any(self.z.grad.list())
        assert self.seed.list() == seed


def test_what_is_zero_is_not_set_to_zero(at_once, monkeypatch):
    made = Seeded()
    assert fitted(made.sequence) == 1
    z = made.z.grad._memory
    made.z.grad.fill_(2.0)
    made.replay()
    assert z.is_zero
    made.replay()
    assert z.is_zero
    calls = []
    monkeypatch.setattr(
        made.sequence._program.quick, "_idle", zero_fill_elision.IdleSteps(frozenset(), (), frozenset())
    )
    made.z.grad.fill_(2.0)
    made.sequence.replay()
    calls.append(made.z.grad.list()[0])
    assert calls == [2.0]  # it had not been asked


def test_gradients_that_others_write_between_replays(at_once):
    made = Seeded()
    made.replay()
    changes = [
        lambda: made.z.grad.numpy().fill(3.0),
        lambda: made.z.grad.fill_(4.0),
        lambda: made.z.grad[5:6].fill_(4.0),
        lambda: dk.copy(made.z.grad, made.x),
        lambda: waves[N](made.x, made.z.grad),
        lambda: np.from_dlpack(made.z.grad).__setitem__(0, 5.0),
        made.sequence[:0].replay,
    ]
    for change in changes:
        for _ in range(2):
            change()
            made.replay()
            made.replay()
    view = made.z.grad.numpy()
    for value in (1.0, 2.0, 0.0, 3.0):
        view[:] = value
        made.replay()
    view = view[3:4]
    for value in (1.0, 2.0):
        view[:] = value
        made.replay()
    del view
    made.replay()
    np.asarray(made.z.grad)
    assert made.z.grad.__array_interface__["shape"] == (N,)  # the address is known from now on
    made.replay()


def test_a_sequence_ends_with_its_last_user(at_once):
    made = Seeded()
    made.replay()
    assert made.sequence._program.quick is not None
    program = weakref.ref(made.sequence._program)
    gc.disable()
    try:
        made.sequence = None
        assert program() is None
    finally:
        gc.enable()


def test_records_and_other_sequences_between_replays(at_once):
    made = Seeded()
    record = dk.launch(waves, N, [made.x, made.z.grad], record_cmd=True)
    with dk.record(run=False) as other:
        made.z.grad.fill_(1.0)
    for action in (record.launch, other.replay, lambda: other.replay(stream=dk.Stream())):
        for _ in range(2):
            made.replay()
            action()
            dk.synchronize()
            made.replay()


def test_seeds_that_change_between_replays(at_once):
    made = Seeded()
    for k in range(3):
        made.replay()
        made.seed.assign(given(10 + k).numpy())
        made.x.assign(given(20 + k).numpy())
        made.replay()


def test_values_by_name(at_once):
    made = Seeded()
    for a in (1.5, 0.25, 2.0):
        made.sequence.set_param("a", a)
        made.replay(a)
        made.replay(a)
        made.replay(a, timed=True)
    made.sequence[0].set_param_by_name("a", 0.5)
    made.replay(0.5)


def test_parts_streams_and_other_ways_to_run(at_once):
    made = Seeded()
    made.replay()
    made.replay(timed=True)
    made.replay(stream=None)
    whole, text = made.sequence, str(made.sequence)
    assert text.splitlines()[4].split()[1] == "copy"
    stream = dk.Stream()
    whole.replay(stream=stream)
    stream.synchronize()
    made.replay()
    whole[3:4].replay()  # the copy alone
    assert made.z.grad.list() == made.seed.list()
    made.replay()
    whole[:4].replay()
    assert made.z.grad.list() == made.seed.list()
    made.x.grad.zero_()
    made.y.grad.zero_()
    whole[4:].replay()
    assert not np.any(made.z.grad.list())
    made.sequence = whole[:]
    made.replay()
    made.sequence = whole.reorder([0, 2, 1, 3, 4])
    made.replay()


def test_a_launch_that_comes_to_touch_the_gradient(at_once):
    made = Seeded()
    other, out = dk.ones(N, dtype=float), dk.zeros(N, dtype=float)
    with dk.record(run=False) as sequence:
        with dk.Tape() as tape:
            product[N](made.x, made.y, 1.5, made.z)
        dk.launch(waves, N, [made.x, other], record_tape=False)
        dk.copy(made.z.grad, made.seed)
        dk.launch(waves, N, [other, out], record_tape=False)
        tape.backward()
        dk.launch(waves, N, [made.x, other], record_tape=False)
    assert fitted(sequence) == 1
    sequence.replay()
    sequence[3].set_param_by_name("x", made.z.grad)  # it reads the gradient between copy and adjoint
    sequence.replay()
    assert fitted(sequence) == 0
    seed = made.seed.numpy()
    np.testing.assert_allclose(out.numpy(), np.sin(seed) * np.exp(-seed * seed), rtol=1e-5, atol=1e-6)
    assert not made.z.grad.numpy().any()
    sequence[3].set_param_by_name("x", other)
    sequence[5].set_param_by_name("z", made.z.grad)
    sequence.replay()
    sequence.replay()
    x = made.x.numpy()
    np.testing.assert_allclose(made.z.grad.numpy(), np.sin(x) * np.exp(-x * x), rtol=1e-5, atol=1e-6)


def test_arrays_that_come_to_be_read_between_fills():
    x, y, z = dk.ones(N, dtype=float), dk.ones(N, dtype=float), dk.zeros(N, dtype=float)
    with dk.record(run=False) as sequence:
        y.fill_(0.5)
        waves[N](x, z)
        y.fill_(0.25)
    assert left_out(sequence) == 1
    sequence[1].set_param_by_name("x", y)
    sequence.replay()
    np.testing.assert_allclose(z.numpy(), np.sin(0.5) * np.exp(-0.25), rtol=1e-5)


def same_bytes(a: dk.array) -> dk.array:
    """An array of memory that is foreign to diffkern, which is that of another array."""
    return dk.array(np.from_dlpack(a), copy=False)


def test_memory_that_comes_back_from_others_is_the_same_memory():
    """Between what is set and what reads it, and between two fills, something uses the same bytes by another name."""

    def run(is_whole):
        x, z, seed, out = given(1), given(2), dk.full(N, 1.0), dk.zeros(N, dtype=float)
        x.grad, z.grad = dk.zeros(N, dtype=float), dk.zeros(N, dtype=float)
        ct_x, ct_z = same_bytes(x.grad), same_bytes(z.grad)
        with dk.Tape() as tape:
            waves[N](x, z)
        with dk.record(run=False) as sequence:
            x.grad.zero_()
            dk.launch(waves, N, [seed, ct_x], record_tape=False)
            dk.copy(z.grad, seed)
            dk.launch(waves, N, [out, ct_z], record_tape=False)
            tape.backward()
            z.grad.fill_(3.0)
            dk.launch(waves, N, [ct_z, out], record_tape=False)
            z.grad.fill_(1.0)
        steps = [sequence] if is_whole else [sequence[k : k + 1] for k in range(len(sequence))]
        for step in steps:
            step.replay()
        return [a.numpy().copy() for a in (x.grad, z.grad, out)]

    for found, expected in zip(run(is_whole=True), run(is_whole=False), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_a_sequence_that_leaves_nothing_out_is_not_compiled_again():
    x, y, z = given(1), given(2), dk.zeros(N, dtype=float)
    with dk.record(run=False) as sequence:
        waves[N](x, z)
    sequence[0].set_param_by_name("x", y)
    assert not sequence._program.plan.flags
    sequence.replay()
    np.testing.assert_allclose(z.numpy(), np.sin(y.numpy()) * np.exp(-(y.numpy() ** 2)), rtol=1e-5, atol=1e-7)
