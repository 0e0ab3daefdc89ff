"""Launches that a tape puts off, and runs together with its sweep: nobody may see that they have not run yet.

The same programs run on tapes that remember nothing; all that is looked at in between, and all gradients, agree.
"""

from __future__ import annotations

import ctypes
import gc
import os
import pickle
import threading
import weakref

import numpy as np
import pytest

import diffkern as dk
from diffkern.runtime.effects import joint_sweeps
from diffkern.runtime.effects.known_sweeps import KnownSweep, known_sweeps
from diffkern.runtime.effects.usual_launch import UsualLaunches
from diffkern.runtime.launch.packed import PackedLaunch
from diffkern.runtime.memory.stream import postponed

N = 37


@dk.kernel
def wave(x: dk.array(dtype=float), w: dk.array(dtype=float), s: float, y: dk.array(dtype=float)):
    i = dk.tid()
    y[i] = dk.sin(s * x[i]) + w[i] * x[i]


@dk.kernel
def pairs(x: dk.array(dtype=float), w: dk.array(dtype=float), s: float, n: int, y: dk.array(dtype=float)):
    i = dk.tid()
    total = 0.0
    for j in range(n):
        total += w[j] * dk.sin(s * (x[j] - x[i]))
    y[i] = total


@dk.kernel
def summed(x: dk.array(dtype=float), k: dk.array(dtype=int), s: float, loss: dk.array(dtype=float)):
    i = dk.tid()
    dk.atomic_add(loss, 0, s * x[k[i]] * x[i])


@dk.kernel
def doubled(y: dk.array(dtype=float), z: dk.array(dtype=float)):
    i = dk.tid()
    z[i] = 2.0 * y[i]


@dk.kernel
def vectors(x: dk.array(dtype=dk.vec3d), w: dk.array(dtype=dk.float64), y: dk.array(dtype=dk.vec3d)):
    i = dk.tid()
    y[i] = w[i] * dk.cross(x[i], dk.vec3d(x[i][1], x[i][0], dk.float64(1.0)))


class World:
    """Arrays, and a program on them that is repeated."""

    def __init__(self, kind):
        rng = np.random.default_rng(3)
        self.kind, self.s, self.seen = kind, 0.7, []
        self.x, self.w = (dk.array(rng.uniform(0.5, 1.5, N).astype(np.float32), requires_grad=True) for _ in "xw")
        self.k = dk.array(rng.integers(0, N, N).astype(np.int32))
        self.y, self.z = (dk.zeros(N, dtype=float, requires_grad=True) for _ in "yz")
        self.loss = dk.zeros(1, dtype=float, requires_grad=True)
        self.seed = dk.array(rng.uniform(0.5, 1.5, N).astype(np.float32))
        self.result = self.loss if kind == "loss" else self.y

    def launch(self):
        if self.kind == "wave":
            dk.launch(wave, N, [self.x, self.w, self.s], [self.y])
        elif self.kind == "pairs":
            dk.launch(pairs, N, [self.x, self.w, self.s, N], [self.y])
        elif self.kind == "chain":
            dk.launch(wave, N, [self.x, self.w, self.s], [self.z])
            dk.launch(wave, N, [self.z, self.w, 0.5], [self.y])
        else:
            self.loss.zero_()
            dk.launch(summed, N, [self.x, self.k, self.s], [self.loss])

    def back(self, tape):
        tape.backward(**({"loss": self.loss} if self.kind == "loss" else {"grads": {self.y: self.seed}}))

    def look(self):
        held = (self.x, self.w, self.y, self.z, self.loss)
        self.seen += [a.numpy().copy() for a in held]
        self.seen += [None if a.grad is None else a.grad.numpy().copy() for a in held]

    def attempt(self, function):
        try:
            function()
        except dk.KernelError as error:
            self.seen.append(str(error))

    def repeat(self, change, when):
        """Run the program some times, with a change in one or two of them."""
        for turn in range(9):
            tape = dk.Tape()
            is_changed = turn in when
            if is_changed and change in BEFORE:
                self.attempt(lambda: BEFORE[change](self))
            with tape:
                self.attempt(self.launch)
            if is_changed and change in BETWEEN:
                self.attempt(lambda tape=tape: BETWEEN[change](self, tape))
            if is_changed and change == "no backward":
                continue
            self.attempt(lambda tape=tape: self.back(tape))
            if is_changed and change == "backward again":
                self.attempt(lambda tape=tape: self.back(tape))
            if turn % 2 or is_changed:
                self.look()
            if not (is_changed and change == "no zero"):
                tape.zero()
        self.look()
        return self.seen


def _other(function):
    thread = threading.Thread(target=function)
    thread.start()
    thread.join()


def _by_address(world, tape):
    values = (ctypes.c_float * world.result.size).from_address(world.result.ptr)
    world.seen.append(np.array(values))


def _on_stream(world, tape):
    stream = dk.Stream()
    dk.launch(doubled, world.result.size, [world.result], [world.z], stream=stream)
    stream.synchronize()


def _behind_event(world, tape):
    event, stream = dk.Event(), dk.Stream()
    dk.record_event(event)
    stream.wait_event(event)
    _on_stream(world, tape)


def _recorded(world, tape):
    with dk.record() as sequence:
        dk.launch(doubled, world.result.size, [world.result], [world.z])
    sequence.replay()


def _forked(world, tape):
    read, write = os.pipe()
    if not (child := os.fork()):
        os.write(write, world.result.numpy().tobytes())
        os._exit(0)
    os.waitpid(child, 0)
    world.seen.append(np.frombuffer(os.read(read, 1 << 16), np.float32))
    os.close(read)
    os.close(write)


def _seeded(world, values):
    if world.kind != "loss":
        world.seed = values


def _nested(world, tape):
    with dk.Tape() as other:
        dk.launch(doubled, world.result.size, [world.result], [world.z])
    other.backward(grads={world.z: np.ones(world.z.size, np.float32)})


BEFORE = {
    "number": lambda w: setattr(w, "s", 0.4),
    "nan": lambda w: w.x.assign(np.where(np.arange(N) == 5, np.nan, 1.0).astype(np.float32)),
    "gradient is there": lambda w: w.x.grad.fill_(0.25),
    "gradient is another": lambda w: setattr(w.x, "grad", dk.zeros(N, dtype=float)),
    "no gradient": lambda w: setattr(w.x, "requires_grad", False),
    "array is another": lambda w: setattr(w, "x", dk.array(w.x.numpy() * 0.5, requires_grad=True)),
    "one array twice": lambda w: setattr(w, "w", w.x),
    "view": lambda w: setattr(w, "x", dk.array(np.ones(2 * N, np.float32), requires_grad=True)[::2]),
    "seed of the host": lambda w: _seeded(w, np.linspace(0.0, 1.0, N).astype(np.float32)),
    "seed is the result": lambda w: _seeded(w, w.y),
    "seed is a part of the result": lambda w: _seeded(w, w.y[:]),
    "seed is a gradient": lambda w: _seeded(w, w.x.grad),
    "seed is an input": lambda w: _seeded(w, w.w),
    "seed is repeated": lambda w: _seeded(w, np.broadcast_to(np.float32(2.0), (N,))),
    "retained": lambda w: setattr(w.result, "retain_grad", True),
}
BETWEEN = {
    "numpy": lambda w, tape: w.seen.append(w.result.numpy().copy()),
    "kept view": lambda w, tape: w.seen.append(w.result.numpy()),
    "asarray": lambda w, tape: w.seen.append(np.array(w.result)),
    "dlpack": lambda w, tape: w.seen.append(np.from_dlpack(w.result).copy()),
    "text": lambda w, tape: w.seen.append(str(w.result)),
    "pickle": lambda w, tape: w.seen.append(pickle.loads(pickle.dumps(w.result)).numpy()),
    "address": _by_address,
    "copy": lambda w, tape: dk.copy(w.z if w.kind != "loss" else w.seed[:1], w.result),
    "clone": lambda w, tape: w.seen.append(dk.clone(w.result).numpy()),
    "launch": lambda w, tape: dk.launch(doubled, w.result.size, [w.result], [w.z]),
    "input assigned": lambda w, tape: w.x.assign(np.ones(N, np.float32)),
    "input filled": lambda w, tape: w.x.fill_(0.5),
    "input through numpy": lambda w, tape: w.x.numpy().__setitem__(3, 2.0),
    "result filled": lambda w, tape: w.result.fill_(0.5),
    "zero": lambda w, tape: tape.zero(),
    "reset": lambda w, tape: tape.reset(),
    "launches": lambda w, tape: w.seen.append(len(tape.launches)),
    "memory": lambda w, tape: w.seen.append(tape.memory()),
    "thread": lambda w, tape: _other(lambda: w.seen.append(w.result.numpy().copy())),
    "stream": _on_stream,
    "event": _behind_event,
    "record": _recorded,
    "fork": _forked,
    "tape": _nested,
    "synchronize": lambda w, tape: dk.synchronize(),
    "gradients": lambda w, tape: w.seen.append(len(tape.gradients)),
}
KINDS = ("wave", "pairs", "chain", "loss")
CHANGES = [*BEFORE, *BETWEEN, "no backward", "backward again", "no zero", "none"]


@pytest.fixture
def switch(monkeypatch):
    """Return what makes tapes remember, or not; launches of any size are put off."""
    fitted = PackedLaunch._has_fitted
    monkeypatch.setattr(joint_sweeps, "_LEAST_WORK", 0.0)

    def set_to(on):
        known_sweeps.clear()
        monkeypatch.setattr(known_sweeps, "is_on", on)
        monkeypatch.setattr(UsualLaunches, "_takes_usual", on)
        monkeypatch.setattr(PackedLaunch, "_has_fitted", fitted if on else lambda *_: False)

    yield set_to
    known_sweeps.clear()


@pytest.fixture
def joint(monkeypatch):
    """Return the number of sweeps that have run their launches as well, in a list of one."""
    count, run = [0], KnownSweep.run_joint

    def counted(self, *args):
        count[0] += 1
        return run(self, *args)

    monkeypatch.setattr(KnownSweep, "run_joint", counted)
    return count


def same(found, expected, name):
    assert len(found) == len(expected), name
    for one, other in zip(found, expected, strict=True):
        if isinstance(other, np.ndarray):
            np.testing.assert_allclose(one, other, rtol=2e-5, atol=2e-6, err_msg=name)
        else:
            assert one == other, name


def compare(kind, change, when, switch, joint):
    switch(False)
    expected = World(kind).repeat(change, when)
    switch(True)
    before = joint[0]
    same(World(kind).repeat(change, when), expected, f"{kind}: {change} at {when}")
    assert not postponed.work or change == "no backward"
    assert joint[0] > before, change


@pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")  # of JAX, where a test has loaded it
def test_nobody_sees_that_launches_were_put_off(switch, joint):
    for k, change in enumerate(CHANGES):
        compare(KINDS[k % len(KINDS)], change, (5,), switch, joint)


@pytest.mark.full
@pytest.mark.parametrize("kind", KINDS)
def test_nobody_sees_it_in_any_kind_of_program(kind, switch, joint):
    for change in CHANGES:
        for when in ((5,), (5, 6)):
            compare(kind, change, when, switch, joint)


def test_vectors_of_doubles(switch, joint):
    rng = np.random.default_rng(5)
    x, w = rng.uniform(0.5, 1.5, (N, 3)), rng.uniform(0.5, 1.5, N)
    switch(True)
    a, b = dk.array(x, dtype=dk.vec3d, requires_grad=True), dk.array(w, dtype=dk.float64, requires_grad=True)
    y, seed = dk.zeros(N, dtype=dk.vec3d, requires_grad=True), rng.uniform(-1, 1, (N, 3))
    for _ in range(6):
        with dk.Tape() as tape:
            dk.launch(vectors, N, [a, b], [y])
        tape.backward(grads={y: seed})
        found = y.numpy().copy(), a.grad.numpy().copy(), b.grad.numpy().copy()
        tape.zero()
    assert joint[0] > 0

    def value(at, by):
        other = np.stack([at[:, 1], at[:, 0], np.ones(N)], axis=1)
        return by[:, None] * np.cross(at, other)

    np.testing.assert_allclose(found[0], value(x, w), rtol=1e-12)
    for k in range(3):
        step = np.eye(3)[k] * 1e-6
        difference = (value(x + step, w) - value(x - step, w)) * seed
        np.testing.assert_allclose(found[1][:, k], difference.sum(1) / 2e-6, rtol=1e-7)
    np.testing.assert_allclose(found[2], (value(x, np.ones(N)) * seed).sum(1), rtol=1e-12)


def test_launches_that_are_looked_at_each_time_are_no_longer_put_off(switch, joint):
    switch(True)
    world = World("wave")
    for _ in range(12):
        with dk.Tape() as tape:
            world.launch()
        was_put_off = bool(postponed.work)
        world.y.numpy()
        world.back(tape)
        tape.zero()
    assert not was_put_off
    assert not joint[0]


def test_the_second_order_does_not_change(switch):
    rng = np.random.default_rng(7)
    x, v = (rng.uniform(0.5, 1.5, N).astype(np.float32) for _ in "xv")

    def gradient(a):
        y = dk.zeros(N, dtype=float, requires_grad=True)
        with dk.Tape() as tape:
            dk.launch(wave, N, [a, dk.array(np.ones(N, np.float32)), 0.7], [y])
        tape.backward(grads={y: np.ones(N, np.float32)})
        return a.grad

    switch(True)
    for _ in range(5):
        gradient(dk.array(x, requires_grad=True))
        a = dk.array(x, requires_grad=True)
        with dk.Tape() as outer:
            y = dk.zeros(N, dtype=float, requires_grad=True)
            dk.launch(wave, N, [a, dk.array(np.ones(N, np.float32)), 0.7], [y])
        outer.backward(grads={y: v})
        np.testing.assert_allclose(a.grad.numpy(), v * (0.7 * np.cos(0.7 * x) + 1.0), rtol=1e-5)


def test_arrays_end_with_their_tape_and_what_was_put_off(switch):
    switch(True)
    world = World("wave")
    for _ in range(6):
        with dk.Tape() as tape:
            world.launch()
        world.back(tape)
        tape.zero()
    with dk.Tape():
        world.launch()
    assert postponed.work
    reference = weakref.ref(world.y)
    del world, tape
    dk.synchronize()
    gc.collect()
    assert reference() is None
