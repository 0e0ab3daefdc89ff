"""Random programs whose launches are remembered: each must do what it does where nothing is.

A program repeats a body of launches on a tape, and adjoints by hand, and changes something in between: arrays, their
gradients, numbers, dimensions, who else looks at them. It runs with all that is remembered and with nothing, and
contents, gradients and errors are compared. All numbers are small multiples of powers of two, so that no order of
additions rounds.

    python -m tests.support.remembered_programs --count 300 --seed 1 --device cuda:0
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import functools
import gc
import importlib
import json
import random
import re
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

import diffkern as dk
from diffkern.runtime.accumulate import by_hand
from diffkern.runtime.effects.known_sweeps import known_sweeps
from diffkern.runtime.effects.noted_launches import NotedLaunches
from diffkern.runtime.effects.usual_launch import UsualLaunches
from diffkern.runtime.launch.packed import PackedLaunch
from diffkern.runtime.records import other_launches as launching

from . import remembered_kernels

__all__ = ["check"]

NUMBERS = (0.5, 1.0, 2.0, -1.0, 0.25)
_made = functools.cache(remembered_kernels.make)


class World:
    """The arrays of a program, and what is done with them.

    Parameters
    ----------
    seed : int
        What all choices are drawn from.
    device : str
        Where the arrays are.
    """

    def __init__(self, seed: int, device: str) -> None:
        self.draw, self.device = random.Random(seed), device
        # What a GPU is filled with natively has 32 bits; the sums of many numbers are exact in 64.
        self.type = dk.float64 if device == "cpu" else dk.float32
        self.kernels = _made(self.type)
        self.n = self.draw.choice((1, 3, 5, 40_000) if device == "cpu" else (1, 3, 5))
        self.arrays = [self.made(k, self.n, self.draw.random() < 0.8) for k in range(self.draw.randint(2, 5))]
        self.losses = [self.made(k, 1, self.draw.random() < 0.9) for k in range(2)]
        at = np.arange(self.n, dtype=np.int32) * 7 % min(self.n, 3)
        self.at = dk.array(at, dtype=dk.int32, device=device)
        self.count = dk.zeros(1, dtype=dk.int32, device=device)
        self.dim: Any = self.n
        self.numbers = [self.draw.choice(NUMBERS) for _ in range(4)]
        self.body = [self.launch() for _ in range(self.draw.randint(1, 5))]
        self.inside: list[Callable[[], object]] = []
        self.around: Callable[[Callable[[], object]], object] = lambda run: run()
        self.kept: list[Any] = []
        self.tape = dk.Tape()
        self.is_new = self.draw.random() < 0.7
        self.goal, self.sweep = self.draw.choice("la"), self.draw.choice(("one", "one", "seed", "device", "twice"))
        self.ends = self.draw.choice(("zero", "zero", "zero", "reset", "nothing"))
        self.sets = self.n > 5 or self.draw.random() < 0.8

    def made(self, k: int, n: int, grad: bool = True) -> Any:
        """Return a new array."""
        values = (np.arange(n) * (k + 3) % 5 - 2.0) / 2
        return dk.array(values, dtype=self.type, device=self.device, requires_grad=grad)

    def launch(self) -> tuple[Any, list[tuple[str, int]], list[tuple[str, int]]]:
        """Draw a launch: its kernel, and what its arguments are, by position."""
        ((kernel, inputs, outputs),) = self.draw.choices(self.kernels, remembered_kernels.LIKELY)
        return kernel, *([(kind, self.draw.randrange(60)) for kind in kinds] for kinds in (inputs, outputs))

    def value(self, kind: str, k: int) -> Any:
        """Return an argument."""
        found: dict[str, list[Any]] = {
            "a": self.arrays, "l": self.losses, "i": [self.at], "n": [self.count], "s": self.numbers,
        }  # fmt: skip
        return found[kind][k % len(found[kind])]

    def run(self, launch: Any, **how: Any) -> None:
        """Run a launch of the body."""
        kernel, *rest = launch
        inputs, outputs = ([self.value(*one) for one in part] for part in rest)
        dk.launch(kernel, self.dim, inputs, outputs, **how)

    # -- a round -----------------------------------------------------------------------------------------------------

    def round(self) -> list[Any]:
        """Return all that a round tells: errors, contents and gradients."""
        if self.sets:  # so that numbers stay small, and versions change
            for k, held in enumerate((*self.arrays, *self.losses)):
                told(lambda held=held, k=k: held.assign((np.arange(held.size) * (k + 2) % 5 - 2.0) / 2))
        found = [told(lambda: self.around(part)) for part in (self.on_tape, self.by_hand)]
        return [*found, self.contents()]

    def on_tape(self) -> Any:
        """Record, go back, and clear."""
        tape = dk.Tape() if self.is_new else self.tape
        errors = []
        with tape:
            for k, launch in enumerate(self.body):
                errors.append(told(lambda launch=launch: self.run(launch)))
                if k == 0:
                    errors += [told(each) for each in self.inside]
        errors.append(told(lambda: self.backward(tape)))
        found = self.contents(), len(tape.launches)
        errors.append(told(tape.zero if self.ends == "zero" else tape.reset if self.ends == "reset" else lambda: None))
        if not self.is_new:
            tape.reset()
        return errors, found

    def backward(self, tape: dk.Tape) -> None:
        """Go back in one of the ways."""
        goal = self.losses[0] if self.goal == "l" else self.arrays[-1]
        if self.sweep == "seed":
            tape.backward(grads={goal: np.full(goal.size, 2.0)})
        elif self.sweep == "device":
            tape.backward(grads={goal: self.made(1, goal.size, False)})
        else:
            for _ in range(1 + (self.sweep == "twice")):
                tape.backward(goal if goal.size == 1 else None, None if goal.size == 1 else {goal: np.ones(goal.size)})

    def by_hand(self) -> Any:
        """Launch the adjoints of the body."""
        errors = []
        for _, _, outputs in self.body:
            for each in outputs:
                grad = self.value(*each).grad
                if grad is not None:
                    grad.fill_(1.0)
        for k, launch in enumerate(reversed(self.body)):
            given: dict[str, Any] = {}
            if k % 2:
                both = ([self.grad(*one) for one in part] for part in launch[1:])
                given = dict(zip(("adj_inputs", "adj_outputs"), both, strict=True))
            errors.append(told(lambda launch=launch, given=given: self.run(launch, adjoint=True, **given)))
        found = self.contents()
        for held in (*self.arrays, *self.losses):
            if held.grad is not None:
                held.grad.zero_()
        return errors, found

    def grad(self, kind: str, k: int) -> Any:
        """Return the gradient of an argument."""
        value = self.value(kind, k)
        return value.grad if isinstance(value, dk.array) else None

    def contents(self) -> list[Any]:
        """Return what all arrays and their gradients hold."""
        held = [x for a in (*self.arrays, *self.losses, self.count) for x in (a, a.grad)]
        return [None if x is None else (x.numpy() + 0).tobytes() for x in held]  # one zero, whatever the order

    # -- changes -----------------------------------------------------------------------------------------------------

    def pick(self) -> tuple[list[Any], int]:
        """Draw an array: the list that it is in, and its position."""
        of = self.draw.choice((self.arrays, self.arrays, self.losses))
        return of, self.draw.randrange(len(of))

    def replace(self) -> None:
        """Free an array, and make another one, perhaps at the same address."""
        of, k = self.pick()
        n, grad, of[k] = of[k].size, of[k].requires_grad, None
        gc.collect()
        of[k] = self.made(k + 1, n, grad)

    def swap(self) -> None:
        self.draw.shuffle(self.arrays)

    def change_number(self) -> None:
        self.numbers[self.draw.randrange(4)] = self.draw.choice(NUMBERS)

    def change_dim(self) -> None:
        self.dim = self.draw.choice((self.n, max(1, self.n - 1), 0, 1, (self.n,), self.n + 1))

    def change_body(self) -> None:
        self.body[self.draw.randrange(len(self.body))] = self.launch()

    def add(self) -> None:
        self.body.append(self.launch())

    def drop(self) -> None:
        if len(self.body) > 1:
            self.body.pop()

    def exchange_gradient(self) -> None:
        of, k = self.pick()
        told(lambda: setattr(of[k], "grad", self.made(k, of[k].size, False)))

    def share_gradient(self) -> None:
        if self.arrays[0].grad is not None:
            told(lambda: setattr(self.arrays[1], "grad", self.arrays[0].grad))

    def turn_gradient(self) -> None:
        of, k = self.pick()
        of[k].requires_grad = not of[k].requires_grad

    def alias(self) -> None:
        self.arrays[0] = self.draw.choice((self.arrays[1], self.arrays[1][:]))

    def overlap(self) -> None:
        whole = self.made(2, self.n + 1)
        self.arrays[0], self.arrays[1] = whole[:-1], whole[1:]

    def part(self) -> None:
        self.losses[0] = self.made(1, 3)[1:2]

    def lend(self) -> None:
        """Keep a view of NumPy, and write to it inside of each tape."""
        of, k = self.pick()
        view = of[k].numpy()
        self.kept.append(view)
        if self.device == "cpu" and self.draw.random() < 0.5:
            self.inside.append(lambda: view.fill(1.0))

    def forget(self) -> None:
        self.kept.clear()
        self.inside.clear()
        self.around = lambda run: run()

    def write_inside(self) -> None:
        """Write to an array inside of each tape, seen or unseen."""
        of, k = self.pick()

        def unseen() -> None:
            with dk.no_grad():
                of[k].fill_(0.5)

        self.inside.append(self.draw.choice((unseen, of[k].zero_, lambda: of[k].assign(self.arrays[-1]))))

    def read_inside(self) -> None:
        of, k = self.pick()
        self.inside.append(lambda: of[k].numpy().sum())

    def collect_inside(self) -> None:
        """Free an array that the tape has met, and make another one."""
        self.inside.append(self.replace)

    def nest(self) -> None:
        """Enter another tape, and take a gradient, inside of each tape."""

        def inner() -> None:
            with dk.Tape():
                self.run(self.body[0])

        def derive() -> object:
            return dk.grad(lambda x: (x * x).sum())(self.arrays[0]).numpy().tolist()

        self.inside.append(self.draw.choice((inner, derive)))

    def checkpoint(self) -> None:
        """Take the steps of a loop that is a roll-out inside of each tape."""
        state, loss = self.made(1, self.n), self.losses[1]

        def step(_: int) -> None:
            dk.launch(self.kernels[4][0], self.n, [0.5], [state])
            dk.launch(self.kernels[0][0], self.n, [state, 1.0], [loss])

        self.kept.append(state)
        self.inside.append(lambda: dk.checkpoint(step, 3, 2))

    def in_thread(self) -> None:
        def run(part: Callable[[], object]) -> object:
            found: list[object] = []
            thread = threading.Thread(target=lambda: found.append(told(part)))
            thread.start()
            thread.join()
            return found

        self.around = run

    def beside_thread(self) -> None:
        """Let another thread launch, with a tape of its own on other arrays, meanwhile."""
        own, loss = self.made(1, self.n), self.made(0, 1)

        def work() -> None:
            for _ in range(3):
                with dk.Tape() as tape:
                    dk.launch(self.kernels[0][0], self.n, [own, 0.5], [loss])
                tape.backward(loss)
                tape.zero()

        def run(part: Callable[[], object]) -> object:
            thread = threading.Thread(target=lambda: told(work))
            thread.start()
            try:
                return part()
            finally:
                thread.join()

        self.around = run

    def on_stream(self) -> None:
        stream = dk.Stream(self.device)

        def run(part: Callable[[], object]) -> object:
            with dk.ScopedStream(stream):
                return part()

        self.around = run

    def in_sequence(self) -> None:
        def run(part: Callable[[], object]) -> object:
            with dk.record() as sequence:
                found = part()
            sequence.replay()
            return found

        self.around = run

    def turn_option(self) -> None:
        dk.set_module_options({"enable_backward": self.draw.choice((False, None))}, module=remembered_kernels)

    def turn_deterministic(self) -> None:
        dk.set_module_options({"deterministic": self.draw.choice((True, None))}, module=remembered_kernels)

    def retain(self) -> None:
        self.arrays[-1].retain_grad = not self.arrays[-1].retain_grad

    def read_only(self) -> None:
        if self.device == "cpu":
            data = np.ones(self.n)
            data.flags.writeable = False
            self.arrays[self.draw.randrange(len(self.arrays))] = dk.array(data, dtype=self.type, copy=False)

    def another_tape(self) -> None:
        self.is_new = not self.is_new

    def another_sweep(self) -> None:
        self.goal, self.sweep = self.draw.choice("la"), self.draw.choice(("one", "seed", "device", "twice"))

    def another_end(self) -> None:
        self.ends = self.draw.choice(("zero", "reset", "nothing"))

    def change(self) -> str:
        """Change something; return its name."""
        name = self.draw.choice(CHANGES)
        told(getattr(self, name))
        return name


CHANGES = (
    "replace", "replace", "replace", "swap", "change_number", "change_number", "change_dim", "change_body", "add",
    "drop", "exchange_gradient", "exchange_gradient", "share_gradient", "turn_gradient", "alias", "overlap", "part",
    "lend", "forget", "forget", "forget", "write_inside", "read_inside", "collect_inside", "nest", "checkpoint",
    "in_thread", "beside_thread", "on_stream", "in_sequence", "turn_option", "turn_deterministic", "retain",
    "read_only", "another_tape", "another_sweep", "another_end",
)  # fmt: skip
USED = collections.Counter[str]()
"""How often what is remembered was used."""


def told(part: Callable[[], Any]) -> Any:
    """Return what a part returns, or the error that ends it, without addresses."""
    try:
        found = part()
        return None if isinstance(found, dk.array) else found
    except (dk.KernelError, RuntimeError, ValueError, TypeError, AttributeError) as error:
        return re.sub(r"0x[0-9a-f]+|\d{7,}", "…", f"{type(error).__name__}: {error}")


def _counting(name: str, function: Callable[..., bool]) -> Callable[..., bool]:
    def call(*args: Any) -> bool:
        found = function(*args)
        USED[name] += bool(found)
        return found

    return call


@contextlib.contextmanager
def _remembering(remembers: bool) -> Iterator[None]:
    """Run the block with all that is remembered, which is counted, or with nothing."""
    known_sweeps.clear()
    with contextlib.ExitStack() as stack:

        def put(of: Any, name: str, value: Any) -> None:
            stack.enter_context(mock.patch.object(of, name, value))

        if remembers:
            put(NotedLaunches, "note_launch", _counting("noted", NotedLaunches.note_launch))
            put(NotedLaunches, "_run_back", _counting("sweeps", NotedLaunches._run_back))
            put(launching, "run_known", _counting("by hand", by_hand.run_known))
        else:
            put(known_sweeps, "is_on", False)
            put(UsualLaunches, "_takes_usual", False)
            put(PackedLaunch, "_has_fitted", lambda *_: False)
            put(launching, "run_known", lambda *_: False)
        try:
            yield
        finally:
            dk.set_module_options({"enable_backward": None, "deterministic": None}, module=remembered_kernels)


def play(seed: int, device: str, remembers: bool) -> tuple[list[Any], list[str]]:
    """Return what the rounds of a program tell, and what was changed before each."""
    with _remembering(remembers):
        world = World(seed, device)
        found, changes = [], []
        for _ in range(world.draw.randint(3, 7)):
            # Three rounds make everything known; now and then a change follows on a change.
            for _ in range(world.draw.choice((1, 3, 4))):
                found.append(world.round())
                changes.append("")
            changes[-1] = world.change()
        found.append(world.round())
        vars(world).clear()  # streams last
        return found, changes


def check(seed: int, device: str) -> str:
    """Return how a program differs where nothing is remembered; empty if it does not."""
    one, changes = play(seed, device, True)
    other, _ = play(seed, device, False)
    for k, (a, b) in enumerate(zip(one, other, strict=True)):
        if a != b:
            return f"program {seed} differs in round {k}, after {[c for c in changes[:k] if c]}: {_first(a, b)}"
    return ""


def _first(a: Any, b: Any, at: tuple[int, ...] = ()) -> str:
    """Return where two results differ, and how."""
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)) and len(a) == len(b):
        for k, (x, y) in enumerate(zip(a, b, strict=True)):
            if x != y:
                return _first(x, y, (*at, k))
    shown = [np.frombuffer(x, np.uint8)[:40] if isinstance(x, bytes) else x for x in (a, b)]
    return f"{at}: {shown[0]!r} remembered, {shown[1]!r} looked at"


def main() -> int:
    """Check programs, and say which differ."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cpu", help="cpu, or cuda:0 for the fake driver")
    given = parser.parse_args()
    differ = 0
    with _driver(given.device):
        for k in range(given.count):
            if found := check(1000 * given.seed + k, given.device):
                differ += 1
                print(found, flush=True)
    used = {f"used: {name}": count for name, count in USED.items()}
    print("counts", json.dumps({"programs": given.count, "differ": differ, **used}))
    return int(differ > 0)


def _driver(device: str) -> Any:
    if device == "cpu":
        return contextlib.nullcontext()
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    driver: Any = importlib.import_module("support.fake_driver.driver")
    return driver.fake_cuda()


if __name__ == "__main__":
    sys.exit(main())
