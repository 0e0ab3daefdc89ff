"""The same launches on one tape after another: what is remembered of the earlier ones must not show.

Random programs are recorded several times with changes in between, and compared bit by bit with tapes that remember
nothing; tables go through all that one decision depends on.
"""

from __future__ import annotations

import gc
import itertools
import random
import threading
import weakref
from types import SimpleNamespace

import numpy as np
import pytest

import diffkern as dk
from diffkern.runtime.effects.known_sweeps import KnownSweep, known_sweeps
from diffkern.runtime.effects.tape_recording import TapeRecording
from diffkern.runtime.effects.usual_launch import UsualLaunches, active_among
from diffkern.runtime.launch.packed import PackedLaunch


@dk.kernel
def product(a: dk.array(dtype=float), b: dk.array(dtype=float), s: float, y: dk.array(dtype=float)):
    i = dk.tid()
    y[i] = s * a[i] * b[i]


@dk.kernel
def added(a: dk.array(dtype=float), s: float, y: dk.array(dtype=float)):
    i = dk.tid()
    y[i] += s * a[i] * a[i]


@dk.kernel
def in_place(x: dk.array(dtype=float)):
    i = dk.tid()
    x[i] = x[i] * x[i]


@dk.kernel
def total(a: dk.array(dtype=float), loss: dk.array(dtype=float)):
    i = dk.tid()
    dk.atomic_add(loss, 0, a[i] * a[i])


@dk.kernel
def gathered(a: dk.array(dtype=float), k: dk.array(dtype=int), y: dk.array(dtype=float)):
    i = dk.tid()
    y[i] = a[k[i]] * a[i]


@pytest.fixture
def switch(monkeypatch):
    """Return what makes tapes remember, or not."""
    fitted = PackedLaunch._has_fitted

    def set_to(on):
        known_sweeps.clear()
        monkeypatch.setattr(known_sweeps, "is_on", on)
        monkeypatch.setattr(UsualLaunches, "_takes_usual", on)
        monkeypatch.setattr(PackedLaunch, "_has_fitted", fitted if on else lambda *_: False)

    yield set_to
    known_sweeps.clear()


@pytest.fixture
def runs(monkeypatch):
    """Return the number of compiled sweeps that have run, in a list of one."""
    count, run = [0], KnownSweep.run

    def counted(self, *args):
        count[0] += 1
        return run(self, *args)

    monkeypatch.setattr(KnownSweep, "run", counted)
    known_sweeps.clear()
    return count


class Program:
    """A random program over a few arrays, recorded several times with changes in between."""

    def __init__(self, seed):
        self.draw, self.rng = random.Random(seed), np.random.default_rng(seed)
        self.n = self.draw.choice([1, 3, 5])
        self.arrays = [self.floats(self.n, self.draw.random() < 0.8) for _ in range(4)]
        self.table = self.floats((3, self.n), True)
        self.k = dk.array(self.rng.integers(0, self.n, self.n).astype(np.int32))
        self.loss = dk.zeros(1, dtype=float, requires_grad=self.draw.random() < 0.8)
        self.steps = [self.step() for _ in range(self.draw.randrange(1, 6))]
        self.steps.append([3, *self.step()[1:]])
        self.seen = []

    def floats(self, shape, grad):
        return dk.array(self.rng.uniform(0.5, 1.5, shape).astype(np.float32), requires_grad=grad)

    def step(self):
        kind = self.draw.choices(range(9), [8, 3, 1, 4, 3, 2, 1, 1, 0.3])[0]
        places = [self.draw.randrange(4) if self.draw.random() < 0.9 else -1 - self.draw.randrange(3) for _ in "abc"]
        return [kind, *places, self.draw.choice([0.5, 0.75])]

    def at(self, place):
        return self.arrays[place] if place >= 0 else self.table[-1 - place]

    def run(self, kind, a, b, c, s):
        a, b, c = map(self.at, (a, b, c))
        if kind == 0:
            dk.launch(product, self.n, [a, b, s], [c])
        elif kind == 1:
            dk.launch(added, self.n, [a, s], [c])
        elif kind == 2:
            dk.launch(in_place, self.n, [a])
        elif kind == 3:
            dk.launch(total, self.n, [a], [self.loss])
        elif kind == 4:
            dk.launch(gathered, self.n, [a, self.k], [c])
        elif kind == 5:
            dk.copy(c, a)
        elif kind == 6:
            c.zero_()
        elif kind == 7:
            self.loss.zero_()
        else:
            dk.launch(product, self.n, [a, b, s], [c], record_tape=False)

    def change(self):
        what, j = self.draw.randrange(11), self.draw.randrange(4)
        a, values = self.arrays[j], self.rng.uniform(0.5, 1.5, self.n).astype(np.float32)
        step = self.draw.randrange(len(self.steps))
        if what == 0:
            self.steps[step][4] = self.draw.choice([0.5, 0.75])
        elif what == 1:
            self.steps[step] = self.step()
        elif what == 2:
            self.arrays[j] = self.floats(self.n, a.requires_grad)
        elif what == 3:
            a.assign(values)
        elif what == 4:
            a.requires_grad = not a.requires_grad
        elif what == 5:
            self.k.assign(self.rng.integers(0, self.n, self.n).astype(np.int32))
        elif what == 6:
            self.loss = dk.zeros(1, dtype=float, requires_grad=True)
        elif what == 7:
            self.arrays[j], self.arrays[0] = self.arrays[0], a
        elif a.grad is None:
            a.numpy()[...] = values
        elif what == 8:
            a.grad = dk.zeros(self.n, dtype=float)
        elif what == 9:
            a.grad.fill_(0.25)
        else:
            a.retain_grad = True

    def look(self):
        dk.synchronize()  # launches may have been put off
        for a in (*self.arrays, self.table, self.loss):
            self.seen += [a._data.tobytes(), None if a.grad is None else a.grad._data.tobytes()]

    def attempt(self, function):
        try:
            function()
        except dk.KernelError as error:
            self.seen.append(str(error))
        self.look()

    def record(self, tape):
        with tape:
            for step in self.steps:
                self.run(*step)

    def seeds(self):
        which = self.draw.random()
        if which < 0.7:
            return {"loss": self.loss}
        last = np.arange(1, self.n + 1, dtype=np.float32)
        return {"grads": {self.arrays[3]: last if which < 0.9 else self.arrays[2]}}

    def outcome(self):
        tape, seeds = dk.Tape(), self.seeds()
        for _ in range(self.draw.randrange(2, 6)):
            if self.draw.random() < 0.25:
                self.change()
                seeds = self.seeds()
            if self.draw.random() < 0.5:
                self.loss.zero_()
            if self.draw.random() < 0.6:
                tape = dk.Tape()
            else:
                tape.reset()
            self.attempt(lambda tape=tape: self.record(tape))
            if self.draw.random() < 0.1:
                self.arrays[self.draw.randrange(4)].fill_(0.75)
            for _ in range(self.draw.choice([1, 1, 1, 2])):
                self.attempt(lambda tape=tape, seeds=seeds: tape.backward(**seeds))
            if self.draw.random() < 0.7:
                tape.zero()
            self.look()
        return self.seen


def compare(seeds, switch):
    for seed in seeds:
        switch(False)
        expected = Program(seed).outcome()
        switch(True)
        assert Program(seed).outcome() == expected, seed


def test_random_programs_do_the_same_on_tapes_that_remember(switch, runs):
    compare(range(40), switch)
    assert runs[0] > 10


@pytest.mark.full
def test_many_random_programs_do_the_same_on_tapes_that_remember(switch):
    compare(range(40, 2000), switch)


def test_what_is_differentiated_for_follows_from_the_pattern_alone():
    parts = ((0, 1), (1,)), ((0,), (1, 2)), ((0, 2), (2,)), ((), (0, 1)), ((0, 1, 2), ())
    for reads, writes in parts:
        executable = SimpleNamespace(reads=reads, writes=writes, by_id=False, uses=(0, 1, 2), changes=False)
        for kinds in itertools.product(range(4), repeat=3):  # None, integers, numbers, numbers with a gradient
            tape = TapeRecording()
            arrays = [None if kind == 0 else SimpleNamespace(_smooth=kind > 1, _memory=object()) for kind in kinds]
            tape._varied = {a._memory for a, kind in zip(arrays, kinds, strict=True) if kind == 3}
            pattern = sum({2: 1, 3: 3}.get(kind, 0) << 2 * k for k, kind in enumerate(kinds))
            launch = SimpleNamespace(executable=executable, arrays=arrays, merged={})
            assert active_among(executable, pattern) == tape._active(launch), (reads, writes, kinds)


def step_of(x, y, n=3, s=2.0):
    with dk.Tape() as tape:
        dk.launch(product, n, [x, x, s], [y])
    return tape


@pytest.mark.parametrize("change", ["nothing", "dim", "short", "read-only", "overlap", "one", "number"])
def test_launches_with_other_arguments_are_checked(change):
    whole = dk.array(np.arange(1, 8, dtype=np.float32), requires_grad=True)
    x, y = whole[:3], dk.zeros(3, dtype=float, requires_grad=True)
    for _ in range(3):
        step_of(x, y)
    n, s = 3, 2.0
    if change == "dim":
        n = 4
    elif change == "short":
        y = dk.zeros(2, dtype=float, requires_grad=True)
    elif change == "read-only":
        values = np.zeros(3, np.float32)
        values.flags.writeable = False
        y = dk.array(values, copy=False)
    elif change == "overlap":
        y = whole[1:4]
    elif change == "one":
        y = x
    elif change == "number":
        s = 3.0
    if change in ("dim", "short", "read-only", "overlap"):
        for _ in range(2):
            with pytest.raises(dk.LaunchError):
                step_of(x, y, n, s)
        return
    expected = s * x.numpy() ** 2
    step_of(x, y, n, s)
    assert y.numpy().tolist() == expected.tolist()


def train(x, y, loss):
    loss.zero_()
    with dk.Tape() as tape:
        dk.launch(product, 3, [x, x, 2.0], [y])
        dk.launch(total, 3, [y], [loss])
    tape.backward(loss)
    return tape


def made():
    x = dk.array(np.array([1, 2, 3], np.float32), requires_grad=True)
    return x, dk.zeros(3, dtype=float, requires_grad=True), dk.zeros(1, dtype=float, requires_grad=True)


def test_the_second_tape_is_compiled_and_all_later_ones_run_it(runs):
    x, y, loss = made()
    for k in range(5):
        tape = train(x, y, loss)
        assert x.grad.numpy().tolist() == [16, 128, 432]
        assert runs[0] == k
        tape.zero()
        assert x.grad.numpy().tolist() == [0, 0, 0]
    # It is for these arguments: contents may differ, and gradients that are left add up.
    x.fill_(1.0)
    for k in range(3):
        train(x, y, loss)
        assert x.grad.numpy().tolist() == [16 * (k + 1)] * 3


@pytest.mark.parametrize("change", ["left", "changed", "gradient", "retained", "disabled"])
def test_what_a_sweep_depends_on_besides_is_noticed(change, runs, monkeypatch):
    x, y, loss = made()
    for _ in range(3):
        train(x, y, loss).zero()
    if change == "left":
        y.grad.fill_(7.0)
    elif change == "gradient":
        x.grad, kept = dk.zeros(3, dtype=float), x.grad
    elif change == "retained":
        y.retain_grad = True
    before = runs[0]
    if change == "changed":
        with dk.Tape() as tape:
            dk.launch(product, 3, [x, x, 2.0], [y])
            dk.launch(total, 3, [y], [loss])
        x.fill_(5.0)
        with pytest.raises(dk.LaunchError, match="changed outside the tape"):
            tape.backward(loss)
    elif change == "disabled":
        monkeypatch.setattr(dk.config, "enable_backward", False)
        with pytest.raises(dk.KernelError, match="not differentiated"):
            train(x, y, loss)
    else:
        train(x, y, loss)
        assert x.grad.numpy().tolist() == [16, 128, 432]
        assert y.grad.numpy().tolist() == {"left": [7, 7, 7], "retained": [4, 16, 36]}.get(change, [0, 0, 0])
    if change == "gradient":
        assert kept.numpy().tolist() == [0, 0, 0]
    assert runs[0] == before


def test_arrays_end_with_their_last_user(runs):
    arrays = made()
    for _ in range(3):
        train(*arrays).zero()
    assert runs[0] == 2
    held = [weakref.ref(memory) for a in arrays for memory in (a._memory, a.grad._memory)]
    gc.disable()
    try:
        del arrays
        assert not any(reference() for reference in held)
        assert not known_sweeps._sweeps
    finally:
        gc.enable()


def test_threads_that_repeat_one_tape(runs):
    x, y, loss = made()
    lock, wrong = threading.Lock(), []

    def work():
        for _ in range(20):
            with lock:
                tape = train(x, y, loss)
                wrong.extend([] if x.grad.numpy().tolist() == [16, 128, 432] else [x.grad.numpy()])
                tape.zero()

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert runs[0] > 50
