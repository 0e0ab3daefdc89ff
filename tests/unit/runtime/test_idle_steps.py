"""Steps of a sequence that change nothing while some memory is zero: replays do what all steps would do."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

import diffkern as dk
from diffkern.runtime.records import compiled_sequence, zero_fill_elision

N, STEPS = 37, 4
A = dk.array(dtype=float)


@dk.kernel
def spring_step(x: A, v: A, k: A, x_out: A, v_out: A):
    i = dk.tid()
    force = -0.1 * v[i]
    if i > 0:
        force += k[0] * (x[i - 1] - x[i])
    if i < x.shape[0] - 1:
        force += k[0] * (x[i + 1] - x[i])
    new = v[i] + 0.1 * force
    v_out[i] = new
    x_out[i] = x[i] + 0.1 * new


@dk.kernel
def scattered(j: dk.array(dtype=int), x: A, y: A):
    i = dk.tid()
    y[i] = x[i] * x[j[i]]


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    """Let replays look at what they find at zero, however small it is."""
    monkeypatch.setattr(zero_fill_elision, "_LEAST", 1)


class Rollout:
    """A chain of launches and the recorded sweep through them, with the arrays that they work on."""

    def __init__(self, way: str) -> None:
        rng = np.random.default_rng(5)
        made = lambda n: dk.array(rng.normal(size=n).astype(np.float32), requires_grad=True)  # noqa: E731
        self.x, self.v = [made(N) for _ in range(STEPS + 1)], [made(N) for _ in range(STEPS + 1)]
        self.k, self.y, self.seed = made(1), made(N), made(N)
        self.j = dk.array(rng.integers(0, N, N).astype(np.int32))
        if way == "adjoint":
            with dk.record() as forward:
                self.launch()
            self.sequence = forward.adjoint(grads={self.y: self.seed})
            return
        with dk.record(run=way != "unrun") as self.sequence:
            for a in (self.x[0], self.v[0], self.k):
                a.grad.zero_()
            with dk.Tape() as tape:
                self.launch()
            tape.backward(grads={self.y: self.seed})

    def launch(self) -> None:
        for t in range(STEPS):
            inputs = [self.x[t], self.v[t], self.k]
            dk.launch(spring_step, N, inputs, [self.x[t + 1], self.v[t + 1]])
        dk.launch(scattered, N, [self.j, self.x[-1]], [self.y])

    @property
    def arrays(self) -> list[dk.array]:
        return [*self.x, *self.v, self.k, self.y, self.seed]

    def state(self) -> list[bytes]:
        """The contents of all arrays and gradients; through lists, as a view would count as a use."""
        held = [(a, a.grad) for a in self.arrays]
        return [np.array(b.list(), np.float32).tobytes() for pair in held for b in pair]


def left_out(made: Rollout) -> Counter[str]:
    """The operations that the quicker plan leaves out, by kind."""
    program = made.sequence._program
    steps = program.quick._idle.steps
    return Counter(type(program.items[k].operation).__name__ for k in steps)


WAYS = ["adjoint", "run", "unrun"]


@pytest.fixture(scope="module", params=WAYS)
def pair(request):
    """The same roll-out, with and without steps left out."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(zero_fill_elision, "_LEAST", 1)
        made = Rollout(request.param)
        patched.setattr(compiled_sequence, "idle_steps", lambda operations, forms: None)
        return made, Rollout(request.param)


def test_what_is_kept_of_zeros_is_left_out(pair):
    made, whole = pair
    assert whole.sequence._program.quick is None
    found = left_out(made)
    # The gradients of all that is written, but for the result, are put aside and added back.
    assert found["Add"] == 2 * STEPS
    assert found["Copy"] >= 2 * STEPS
    assert found["Assign"]


def views(a: dk.array) -> None:
    view = a.numpy()
    view[3] = 2.0


CHANGES = [
    lambda r: None,
    lambda r: r.x[2].grad.fill_(0.5),
    lambda r: r.v[1].grad.fill_(-0.0),
    lambda r: r.v[3].grad[4:9].fill_(2.0),
    lambda r: r.x[1].grad.zero_(),
    lambda r: dk.copy(r.x[3].grad, r.seed),
    lambda r: views(r.v[2].grad),
    lambda r: r.x[2].grad.fill_(np.inf),
    lambda r: r.x[0].grad.fill_(3.0),
    lambda r: r.k.assign([0.75]),
    lambda r: r.sequence.replay(timed=True),
    lambda r: r.sequence.replay(stream=dk.Stream()) or dk.synchronize(),
    lambda r: r.y.grad.fill_(1.0),
    lambda r: [a.grad.zero_() for a in r.arrays] and None,
]


def test_replays_do_what_all_steps_do(pair):
    rng = np.random.default_rng(2)
    for number in [*range(len(CHANGES)), *rng.integers(0, len(CHANGES), 30)]:
        for made in pair:
            CHANGES[number](made)
        for _ in range(2):
            made, whole = pair
            made.sequence.replay()
            whole.sequence.replay()
            assert made.state() == whole.state()
        # What a change has left in a gradient may be kept by all later replays.
        for made in pair if number % 2 else ():
            CHANGES[-1](made)
    # Where nothing interferes any more, the quicker plan comes to run in the end.
    for made in pair:
        CHANGES[-1](made)
        for _ in range(130):
            made.sequence.replay()
    assert pair[0].state() == pair[1].state()
    assert all(memory.is_zero for memory in pair[0].sequence._program.quick._idle.zero)


def test_contents_are_looked_at():
    made = Rollout("run")
    quick = made.sequence._program.quick
    # What was recorded has run, and has added zeros to the gradients: by its versions nothing is known of them.
    assert not all(memory.is_zero for memory in quick._idle.zero)
    made.sequence.replay()
    assert all(memory.is_zero for memory in quick._idle.zero)
    made.x[2].grad.fill_(0.5)
    for _ in range(2):
        made.sequence.replay()
        assert made.x[2].grad.list()[3] == 0.5
    made.x[2].grad.zero_()
    for _ in range(8):
        made.sequence.replay()
    assert all(memory.is_zero for memory in quick._idle.zero)


def test_gradients_against_differences():
    made = Rollout("adjoint")
    for _ in range(3):
        made.sequence.replay()
    x = [np.array(a.list()) for a in (made.x[0], made.v[0])]
    j, k, seed = np.array(made.j.list()), made.k.list()[0], np.array(made.seed.list())

    def value(x0, v0):
        for _ in range(STEPS):
            force = -0.1 * v0
            force[1:] += k * (x0[:-1] - x0[1:])
            force[:-1] += k * (x0[1:] - x0[:-1])
            v0 = v0 + 0.1 * force
            x0 = x0 + 0.1 * v0
        return (seed * x0 * x0[j]).sum()

    for which, a in enumerate((made.x[0], made.v[0])):
        for n in range(0, N, 5):
            ends = []
            for sign in (1, -1):
                moved = [part.copy() for part in x]
                moved[which][n] += sign * 1e-5
                ends.append(value(*moved))
            assert a.grad.list()[n] == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=2e-4, abs=1e-4)


def test_zeros_that_are_copied_and_added():
    zero, one, out = dk.zeros(N, dtype=float), dk.ones(N, dtype=float), dk.zeros(N, dtype=float)
    part = dk.zeros(2 * N, dtype=float)
    with dk.record(run=False) as sequence:
        dk.copy(out, zero)  # idle
        dk.copy(part[:N], zero)  # idle
        dk.copy(part[N:], one)  # part is not zero any more
        dk.copy(out, part[:N])  # of which half would be, but nothing is known of halves
        out.zero_()  # not idle
        out.zero_()  # overwritten, or idle
    quick = sequence._program.quick
    for value in (0.0, 3.0, 0.0):
        zero.fill_(value)
        part.fill_(5.0)
        out.fill_(6.0)
        sequence.replay()
        assert out.list() == [0.0] * N
        assert part.list() == [value] * N + [1.0] * N
    if quick is not None:
        assert part._memory not in quick._idle.zero
