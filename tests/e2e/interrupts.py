"""A process that interrupts itself at random moments, and looks each time whether the next launch works and is right.

``python interrupts.py COUNT SEED`` prints how many interrupts came while what was done. The interrupts are
KeyboardInterrupts from a timer's signal, so they come wherever Ctrl-C comes.
"""

import collections
import faulthandler
import os
import random
import signal
import sys
import tempfile
import time
import traceback

import numpy as np

import diffkern as dk
from diffkern.runtime.native.slow_path import slow_path_flags

N = 64


@dk.kernel
def scale(x: dk.array(dtype=float), k: float, y: dk.array(dtype=float)):
    i = dk.tid()
    y[i] = x[i] * k


@dk.kernel
def square(x: dk.array(dtype=float), y: dk.array(dtype=float)):
    i = dk.tid()
    y[i] = x[i] * x[i]


@dk.kernel
def total(x: dk.array(dtype=float), y: dk.array(dtype=float)):
    dk.atomic_add(y, 0, x[dk.tid()])


@dk.kernel
def slow(x: dk.array(dtype=float), rounds: int, y: dk.array(dtype=float)):
    i = dk.tid()
    s = x[i]
    for _ in range(rounds):
        s = s * 0.5 + dk.sin(s)
    y[i] = s


def full(value: float, grad: bool = False, n: int = N) -> dk.array:
    return dk.array(np.full(n, value, np.float32), requires_grad=grad)


class Storm:
    """What is interrupted, and what is looked at afterwards."""

    def __init__(self) -> None:
        self.stream = dk.Stream()
        self.cmd = dk.launch(scale, N, [full(2.0), 1.0], [full(0.0)], record_cmd=True)
        self.adjoint = dk.launch(scale, N, [full(2.0, True), 1.0], [full(0.0, True)], record_cmd=True).adjoint()
        self.modules = 0
        self.directory = tempfile.mkdtemp()
        self.long = full(1.0, n=20_000)

    def launches(self) -> None:
        x, y = full(2.0), full(0.0)
        for k in range(20):
            scale[N](x, float(k), y)
            dk.launch(square, N, [x], [y])
            dk.copy(y, x)
            x.fill_(2.0)

    def long_launches(self) -> None:
        slow[20_000](self.long, 600, self.long)

    def tapes(self) -> None:
        for _ in range(4):
            x, y, t = full(2.0, True), full(0.0, True), dk.zeros(1, requires_grad=True)
            with dk.Tape() as tape:
                scale[N](x, 3.0, y)
                square[N](y, x)
                total[N](x, t)
            tape.backward(t)
            tape.backward(t)
            tape.zero()

    def records(self) -> None:
        for k in range(4):
            self.cmd.set_param_at_index(1, float(k))
            self.cmd.launch()
            self.cmd.set_param_by_name("k", np.float32(k + 0.5))
            self.cmd.launch()
            self.cmd.set_dim(N // 2)
            self.cmd.set_dim(N)
            self.cmd.set_param_at_index(0, full(float(k)))
            self.cmd.launch()
            self.adjoint.set_param_at_index(1, float(k))
            self.adjoint.launch()
            self.adjoint.set_param_at_index(0, full(2.0, True))
            with dk.launch(square, N, [full(1.0)], [full(0.0)], record_cmd=True) as cmd:
                cmd.launch()

    def sequences(self) -> None:
        x, y = full(2.0), full(0.0)
        for _ in range(3):
            with dk.record() as sequence:
                scale[N](x, 2.0, y)
                square[N](y, x)
            sequence.set_param("k", 3.0)
            sequence.replay()
            sequence.replay(dk.Stream())
            sequence.set_param("k", 4.0)
            with dk.ScopedCapture() as capture:
                scale[N](x, 2.0, y)
            capture.graph.launch()

    def streams(self) -> None:
        x, y = full(2.0), full(0.0)
        for _ in range(5):
            dk.launch(scale, N, [x, 2.0], [y], stream=self.stream)
            event = self.stream.record_event()
            other = dk.Stream()
            other.wait_event(event)
            with dk.ScopedStream(other):
                square[N](x, y)
            event.synchronize()
            with dk.ScopedStream(self.stream, sync_exit=True):
                scale[N](x, 3.0, y)
            dk.synchronize()

    def compiles(self) -> None:
        self.modules += 1
        name = f"k{self.modules}"
        path = os.path.join(self.directory, f"{name}.py")
        text = (
            f"import diffkern as dk\n@dk.kernel\ndef {name}(x: dk.array(dtype=float), y: dk.array(dtype=float)):\n"
            f"    i = dk.tid()\n    y[i] = x[i] * dk.sin(x[i]) + {self.modules}.0\n"
        )
        with open(path, "w") as file:
            file.write(text)
        module = {"__name__": name, "__file__": path}
        exec(compile(text, path, "exec"), module)
        x, y = full(1.0, True), full(0.0, True)
        with dk.Tape() as tape:
            module[name][N](x, y)
        tape.backward(grads={y: full(1.0)})

    def check(self) -> None:
        """The next launch works and is right, in every way that there is to launch."""
        x, y, z = full(2.0, True), full(0.0, True), full(0.0, True)
        scale[N](x, 3.0, y)
        assert (y.numpy() == 6.0).all(), y.numpy()
        with dk.Tape() as tape:
            scale[N](x, 3.0, y)
            square[N](y, z)
        tape.backward(grads={z: full(1.0)})
        assert (x.grad.numpy() == 36.0).all(), x.grad.numpy()
        self.check_records(y)
        with dk.record() as sequence:
            scale[N](x, 4.0, y)
        sequence.set_param("k", 5.0)
        sequence.replay()
        assert (y.numpy() == 10.0).all(), y.numpy()
        with dk.ScopedCapture() as capture:
            scale[N](x, 6.0, y)
        capture.graph.launch()
        assert (y.numpy() == 12.0).all(), y.numpy()
        dk.launch(scale, N, [x, 7.0], [y], stream=self.stream)
        self.stream.record_event().synchronize()
        assert (y.numpy() == 14.0).all(), y.numpy()
        assert dk.get_stream().is_default
        with dk.ScopedStream(self.stream):
            scale[N](x, 8.0, y)
        dk.synchronize()
        assert (y.numpy() == 16.0).all(), y.numpy()
        assert slow_path_flags.word[0] == 0

    def check_records(self, y: dk.array) -> None:
        self.cmd.set_dim(N)
        for value in (5.0, 7.0):
            self.cmd.set_param_at_index(0, full(2.0))
            self.cmd.set_param_at_index(2, y)
            self.cmd.set_param_at_index(1, value)
            self.cmd.launch()
            assert (y.numpy() == 2 * value).all(), (value, y.numpy())
        self.cmd.set_dim(N // 2)
        y.fill_(0.0)
        self.cmd.launch()
        assert (y.numpy()[: N // 2] == 14.0).all()
        assert (y.numpy()[N // 2 :] == 0.0).all()
        goal, seed = full(2.0, True), full(0.0, True)
        seed.grad.fill_(1.0)
        self.adjoint.set_params([goal, 9.0, seed])
        self.adjoint.launch()
        assert (goal.grad.numpy() == 9.0).all(), goal.grad.numpy()


def interrupt(signum: int, frame: object) -> None:
    raise KeyboardInterrupt


def main(count: int, seed: int) -> None:
    signal.signal(signal.SIGALRM, interrupt)
    chance = random.Random(seed)
    storm = Storm()
    parts = [
        storm.launches, storm.long_launches, storm.tapes, storm.records, storm.sequences, storm.streams, storm.compiles,
    ]  # fmt: skip
    took = {}
    for part in parts:
        part()
        begun = time.perf_counter()
        part()
        took[part] = time.perf_counter() - begun
    storm.check()
    came: collections.Counter[str] = collections.Counter()
    while came.total() < count:
        part = chance.choice(parts)
        trace = ""
        try:
            signal.setitimer(signal.ITIMER_REAL, max(chance.random() * took[part], 2e-6))
            part()
            signal.setitimer(signal.ITIMER_REAL, 0)
        except KeyboardInterrupt:
            trace = traceback.format_exc()
        if not trace:
            continue
        came[part.__name__] += 1
        faulthandler.dump_traceback_later(120, exit=True)  # what hangs says where
        try:
            storm.check()
        except BaseException:
            print(f"after interrupt {came.total()}, in {part.__name__}:\n{trace}\nthe next launch:", file=sys.stderr)
            raise
        faulthandler.cancel_dump_traceback_later()
    print(dict(came))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
