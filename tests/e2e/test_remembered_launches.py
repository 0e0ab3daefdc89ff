"""Launches that are remembered, with one thing changed in between: each must do what a launch that is looked at does.

The same rounds (a tape with a reverse sweep, and an adjoint by hand) run twice: once with all that is remembered, and
once with nothing. Values, gradients and errors are compared, on the CPU and on a driver that interprets the PTX.
"""

from __future__ import annotations

import contextlib
import gc
import sys
import threading

import numpy as np
import pytest
from support.fake_driver.driver import fake_cuda
from support.remembered_programs import check

import diffkern as dk
from diffkern.runtime.accumulate import by_hand
from diffkern.runtime.effects.known_sweeps import known_sweeps
from diffkern.runtime.effects.noted_launches import NotedLaunches
from diffkern.runtime.effects.usual_launch import UsualLaunches
from diffkern.runtime.launch.packed import PackedLaunch
from diffkern.runtime.launch.program import Executable
from diffkern.runtime.records import other_launches as launching

N = 4
factor = 2.0


@dk.kernel
def product(a: dk.array(dtype=float), b: dk.array(dtype=float), s: float, y: dk.array(dtype=float)):
    i = dk.tid()
    y[i] = factor * s * a[i] * b[i]


@dk.kernel
def total(a: dk.array(dtype=float), loss: dk.array(dtype=float)):
    i = dk.tid()
    dk.atomic_add(loss, 0, a[i] * a[i])


@dk.kernel
def picked(x: dk.array(dtype=dk.float64), at: dk.array(dtype=dk.int32), y: dk.array(dtype=dk.float64)):
    i = dk.tid()
    y[i] = x[at[i]] * x[at[i]]


@dk.kernel
def weighted(a: dk.array(dtype=float), s: float, y: dk.array(dtype=float), loss: dk.array(dtype=float)):
    i = dk.tid()
    y[i] += s * a[i]
    loss[0] += s * a[i] * a[i]


@dk.kernel
def first(a: dk.array(dtype=float), loss: dk.array(dtype=float)):
    i = dk.tid()
    loss[i] = a[i] * a[i]


class World:
    """The arrays of a program, and what it does in a round."""

    def __init__(self, device):
        self.device = device
        self.a, self.b = self.made(1.5), self.made(0.25)
        self.w = self.made(3.0, False)  # that has no gradient
        self.y, self.loss = self.made(0.0), self.made(0.0, n=1)
        self.s, self.dim, self.place = 0.5, N, contextlib.nullcontext
        self.between = self.last = self.before_backward = lambda: None
        self.grads = None
        self.kept = []

    def made(self, value, grad=True, n=N):
        data = np.full(n, value, np.float32) + np.arange(n, dtype=np.float32) / 8
        return dk.array(data, dtype=float, device=self.device, requires_grad=grad)

    def __call__(self):
        """Return all that a round computes, or the error that ends it."""
        self.loss.zero_()
        with self.place():
            told = [self.told(part) for part in (self.on_tape, self.by_hand)]
        held = (self.a, self.b, self.w, self.y, self.loss)
        found = [None if x is None else x.numpy().tolist() for each in held for x in (each, each.grad)]
        for each in held:
            if each.grad is not None:
                each.grad.zero_()
        return told, found

    def told(self, part):
        try:
            return part()
        except (dk.KernelError, RuntimeError, ValueError) as error:
            return str(error)

    def on_tape(self):
        with dk.Tape() as tape:
            dk.launch(product, self.dim, [self.a, self.b, self.s], [self.y])
            self.between()
            dk.launch(product, self.dim, [self.w, self.y, self.s], [self.b2()])
            dk.launch(first, 1, [self.y], [self.loss])
            self.last()
        self.before_backward()
        if self.grads is None:
            tape.backward(self.loss)
        else:
            tape.backward(grads={self.y: self.grads})
        found = [x.grad.numpy().tolist() for x in (self.a, self.b, self.y, self.loss) if x.grad is not None]
        tape.zero()
        zeros = [x.grad.numpy().tolist() for x in (self.a, self.b, self.y, self.loss) if x.grad is not None]
        return found, zeros, len(tape.launches)

    def b2(self):
        if not self.kept:
            self.kept.append(self.made(0.0))
        return self.kept[0]

    def by_hand(self):
        dk.launch(product, self.dim, [self.a, self.b, self.s], [self.y])
        if self.y.grad is not None:
            self.y.grad.fill_(1.0)
        dk.launch(product, self.dim, [self.a, self.b, self.s], [self.y], adjoint=True)
        given = [x.grad for x in (self.a, self.b)]
        if self.y.grad is not None:
            self.y.grad.fill_(2.0)
        dk.launch(
            product, self.dim, [self.a, self.b, self.s], [self.y], adjoint=True,
            adj_inputs=[*given, None], adj_outputs=[self.y.grad],
        )  # fmt: skip


def replaced(name):
    def change(world):
        setattr(world, name, None)
        gc.collect()
        setattr(world, name, world.made(0.75))

    return change


def another_gradient(world):
    world.a.grad = world.made(0.0, False)


def without_gradient(name):
    return lambda world: setattr(getattr(world, name), "requires_grad", False)


def with_gradient(world):
    world.w.requires_grad = True


def a_view(world):
    world.kept.append(world.b2())
    world.whole = dk.array(np.ones((2, N), np.float32), dtype=float, device=world.device, requires_grad=True)
    world.a = world.whole[1]


def overlapping(world):
    whole = dk.array(np.ones(2 * N, np.float32), dtype=float, device=world.device, requires_grad=True)
    world.a, world.b = whole[:N], whole[1 : N + 1]


def same(world):
    world.b = world.a


def in_place(world):
    world.y = world.a


def changed_outside(name):
    def change(world):
        def write():
            with dk.no_grad():
                getattr(world, name).fill_(7.0)

        world.between = write

    return change


def set_to(name, value):
    return lambda world: setattr(world, name, value(world) if callable(value) else value)


def before_backward(name):
    def change(world):
        world.before_backward = lambda: getattr(world, name).fill_(9.0)

    return change


def seed_in_gradient(world):
    world.y.grad.fill_(1.0)
    world.a.grad.fill_(1.0)
    world.before_backward = lambda: world.y.grad.fill_(1.0)


def of_host(world):
    world.grads = np.arange(N, dtype=np.float32)


def of_device(world):
    world.grads = world.made(2.0, False)


def module_option(world):
    dk.set_module_options({"enable_backward": False}, module=sys.modules[__name__])


def debug(world):
    dk.config.mode = "debug"


def captured(world):
    globals()["factor"] = 3.0


def on_a_stream(world):
    stream = dk.Stream(world.device)
    world.place = lambda: dk.ScopedStream(stream)


def in_a_sequence(world):
    world.place = dk.record


def in_a_thread(world):
    run = world.on_tape

    def elsewhere():
        found = []
        thread = threading.Thread(target=lambda: found.append(world.told(run)))
        thread.start()
        thread.join()
        return found

    world.on_tape = elsewhere


def beside_a_tape(world):
    """Another thread has a tape meanwhile."""
    run = world.on_tape

    def beside():
        inside, done = threading.Event(), threading.Event()

        def other():
            with dk.Tape():
                inside.set()
                done.wait()

        thread = threading.Thread(target=other)
        thread.start()
        inside.wait()
        try:
            return run()
        finally:
            done.set()
            thread.join()

    world.on_tape = beside


def moved(world):
    for name in ("a", "b", "w", "y", "loss"):
        setattr(world, name, getattr(world, name).to("cpu", requires_grad=name != "w"))
    world.kept, world.device = [], "cpu"


def retained(world):
    world.y.retain_grad = True


def twice(world):
    run = world.on_tape

    def both():
        with dk.Tape() as tape:
            dk.launch(product, world.dim, [world.a, world.b, world.s], [world.y])
            dk.launch(first, 1, [world.y], [world.loss])
        tape.backward(world.loss)
        tape.backward(world.loss)
        tape.reset()
        with tape:
            dk.launch(first, 1, [world.b], [world.loss])
        tape.backward(world.loss)
        return run(), world.a.grad.numpy().tolist(), world.b.grad.numpy().tolist()

    world.on_tape = both


def summed(world):
    world.last = lambda: dk.launch(total, world.dim, [world.a], [world.loss])


class Sums(World):
    """The same of kernels that add: into a loss, and into each element."""

    def on_tape(self):
        with dk.Tape() as tape:
            dk.launch(weighted, self.dim, [self.a, self.s], [self.y, self.loss])
            self.between()
            dk.launch(total, self.dim, [self.y], [self.loss])
            dk.launch(total, self.dim, [self.b], [self.loss])
            self.last()
        self.before_backward()
        tape.backward(self.loss if self.grads is None else None, None if self.grads is None else {self.y: self.grads})
        found = [x.grad.numpy().tolist() for x in (self.a, self.b, self.y, self.loss) if x.grad is not None]
        tape.zero()
        return found, self.loss.numpy().tolist(), len(tape.launches)

    def by_hand(self):
        dk.launch(weighted, self.dim, [self.a, self.s], [self.y, self.loss])
        for x in (self.y, self.loss):
            if x.grad is not None:
                x.grad.fill_(1.0)
        dk.launch(weighted, self.dim, [self.a, self.s], [self.y, self.loss], adjoint=True)
        dk.launch(
            total, self.dim, [self.y], [self.loss], adjoint=True, adj_inputs=[self.y.grad], adj_outputs=[self.loss.grad]
        )


def one_more(world):
    world.last = lambda: dk.launch(product, world.dim, [world.a, world.y, world.s], [world.b2()])


def lent(world):
    view = world.a.numpy()
    world.kept[1:] = [view]

    def write():
        if world.device == "cpu":
            view[...] = 5.0

    world.between = write


def without_writing(world):
    data = np.zeros(N, np.float32)
    data.flags.writeable = False
    if world.device == "cpu":
        world.y = dk.array(data, dtype=float, copy=False)


CHANGES = {
    "nothing": lambda world: None,
    "number": set_to("s", 0.75),
    "dim": set_to("dim", N - 1),
    "no threads": set_to("dim", 0),
    "a tuple": set_to("dim", (N,)),
    "contents": lambda world: world.a.assign(np.arange(N, dtype=np.float32)),
    "array": replaced("a"),
    "result": replaced("y"),
    "loss": lambda world: setattr(world, "loss", world.made(0.0, n=1)),
    "gradient": another_gradient,
    "no gradient": without_gradient("b"),
    "no gradient of the result": without_gradient("y"),
    "one more gradient": with_gradient,
    "view": a_view,
    "overlap": overlapping,
    "one array": same,
    "in place": in_place,
    "write between": changed_outside("a"),
    "write of the result between": changed_outside("y"),
    "write before the sweep": before_backward("a"),
    "write of the loss before the sweep": before_backward("loss"),
    "gradients that are not zero": seed_in_gradient,
    "seed of the host": of_host,
    "seed of the device": of_device,
    "module option": module_option,
    "mode": debug,
    "captured value": captured,
    "stream": on_a_stream,
    "sequence": in_a_sequence,
    "thread": in_a_thread,
    "another tape": beside_a_tape,
    "moved": moved,
    "retained": retained,
    "twice": twice,
    "lent": lent,
    "sum": summed,
    "one launch more": one_more,
    "read-only": without_writing,
}


@pytest.fixture
def settings():
    """Return what puts back what changes have set."""

    def put_back():
        globals()["factor"] = 2.0
        dk.config.mode = "release"
        dk.set_module_options({"enable_backward": None}, module=sys.modules[__name__])

    yield put_back
    put_back()


@contextlib.contextmanager
def devices(device):
    """Run the block where a device is, a GPU by a driver that interprets its programs."""
    with fake_cuda(run="ptx") if device != "cpu" else contextlib.nullcontext():
        yield


def rounds(device, change, remembers, monkeypatch, made=World):
    """Return what rounds before and after a change tell."""
    with monkeypatch.context() as patch:
        known_sweeps.clear()
        if not remembers:
            patch.setattr(known_sweeps, "is_on", False)
            patch.setattr(UsualLaunches, "_takes_usual", False)
            patch.setattr(PackedLaunch, "_has_fitted", lambda *_: False)
            patch.setattr(launching, "run_known", lambda *_: False)
        world = made(device)
        found = [world() for _ in range(3)]
        change(world)
        return [*found, *(world() for _ in range(3))]


ON_GPU = ("nothing", "number", "array", "gradient", "write before the sweep", "seed of the device", "stream", "moved")
"""What is interpreted each time; all of it is with --full."""
CASES = [
    pytest.param(device, change, marks=[] if device == "cpu" or change in ON_GPU else pytest.mark.full)
    for device in ("cpu", "cuda:0")
    for change in CHANGES
]


@pytest.mark.parametrize(("device", "change"), CASES)
def test_a_change_between_two_launches(device, change, monkeypatch, settings):
    with devices(device):
        remembered = rounds(device, CHANGES[change], True, monkeypatch)
        settings()
        assert remembered == rounds(device, CHANGES[change], False, monkeypatch)


SUMS_ON_CPU = (
    "number", "dim", "loss", "gradient", "no gradient of the result", "one array", "write between", "module option",
    "gradients that are not zero", "write of the loss before the sweep", "thread", "lent",
)  # fmt: skip
SUMS = [
    pytest.param(device, change, marks=[] if change in some else pytest.mark.full)
    for device, some in (("cpu", SUMS_ON_CPU), ("cuda:0", ()))
    for change in CHANGES
]


@pytest.mark.parametrize(("device", "change"), SUMS)
def test_a_change_between_two_sums(device, change, monkeypatch, settings):
    with devices(device):
        remembered = rounds(device, CHANGES[change], True, monkeypatch, Sums)
        settings()
        assert remembered == rounds(device, CHANGES[change], False, monkeypatch, Sums)


@pytest.mark.parametrize("device", ["cpu", "cuda:0"])
def test_sums_are_remembered(device, monkeypatch):
    with devices(device):
        assert counted(device, monkeypatch, Sums) == {"noted": 9, "by hand": 6, "sweeps": 3, "packed": 0}


@pytest.mark.parametrize("n", [40, 1 << 17])
def test_copies_of_chunks_are_remembered(n, monkeypatch):
    """An adjoint by hand whose chunks add to copies of their own, as it runs without what is known of it."""
    x = dk.array(np.arange(5.0), dtype=dk.float64, requires_grad=True)
    at = dk.array(np.arange(n, dtype=np.int32) % 5, dtype=dk.int32)
    y = dk.zeros(n, dtype=dk.float64, requires_grad=True)
    known = []
    monkeypatch.setattr(launching, "run_known", lambda *args: known.append(by_hand.run_known(*args)) or known[-1])
    dk.launch(picked, n, [x, at], [y])
    for k in range(3):
        y.grad.fill_(1.0)
        dk.launch(picked, n, [x, at], [y], adjoint=True)
        expected = 2 * np.arange(5.0) * np.bincount(np.arange(n) % 5)
        np.testing.assert_array_equal(x.grad.numpy(), (k + 1) * expected)
    assert known == [False, True, True]  # however many chunks there are


@pytest.mark.full
@pytest.mark.parametrize(("seed", "device"), [(0, "cpu"), (6, "cpu"), (11, "cuda:0")])
def test_random_programs(seed, device):
    """Those that ``python -m tests.support.remembered_programs`` makes, a few."""
    with fake_cuda() if device != "cpu" else contextlib.nullcontext():
        assert check(seed, device) == ""


@pytest.mark.parametrize("device", ["cpu", "cuda:0"])
def test_all_of_it_is_remembered(device, monkeypatch):
    """In a table where nothing changes no launch is looked at but the first ones."""
    with devices(device):
        assert counted(device, monkeypatch) == {"noted": 9, "by hand": 6, "sweeps": 3, "packed": 0}


def counted(device, monkeypatch, made=World):
    """Return how often what is remembered is used, and how many launches are looked at."""
    counts = {"noted": 0, "by hand": 0, "sweeps": 0, "packed": 0}

    def counting(name, function, of=bool):
        def call(*args):
            found = function(*args)
            counts[name] += of(found)
            return found

        return call

    monkeypatch.setattr(NotedLaunches, "note_launch", counting("noted", NotedLaunches.note_launch))
    monkeypatch.setattr(NotedLaunches, "_run_back", counting("sweeps", NotedLaunches._run_back))
    monkeypatch.setattr(launching, "run_known", counting("by hand", by_hand.run_known))
    monkeypatch.setattr(PackedLaunch, "__init__", counting("packed", PackedLaunch.__init__, lambda _: 1))
    world = made(device)
    for _ in range(4):
        world()
    counts.update(dict.fromkeys(counts, 0))
    world.s = 0.625  # numbers decide about nothing
    for _ in range(3):
        world()
    return counts


def test_memory_is_given_away_by_another_thread_between_two_launches():
    """The tape of this thread looks at what it has noted then, in the other thread."""
    world = World("cpu")
    for _ in range(4):
        world()

    def read():
        thread = threading.Thread(target=lambda: world.kept.append(world.a.numpy()))
        thread.start()
        thread.join()

    world.between = read
    read_then = world()
    world.between = lambda: None
    world.kept[1:] = []
    assert read_then == world()


def test_a_launch_that_fails_is_not_noted(monkeypatch):
    """As if it had not been launched; what it may have written is a change that the tape has not seen."""
    world = World("cpu")
    for _ in range(4):
        world()
    with dk.Tape() as tape:
        dk.launch(product, N, [world.a, world.b, 0.5], [world.y])
        assert tape._noted

        def fails(*_):
            raise ValueError("a driver's error")

        with monkeypatch.context() as patch:
            patch.setattr(Executable, "run_chosen", fails)
            with pytest.raises(dk.KernelError, match="a driver's error"):
                dk.launch(product, N, [world.w, world.y, 0.5], [world.b2()])
        dk.launch(first, 1, [world.y], [world.loss])
    tape.backward(world.loss)
    assert len(tape.launches) == 2
