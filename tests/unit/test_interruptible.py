"""Ctrl-C ends a compile, although LLVM goes on for a while, and leaves nothing half done."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
import types
from collections.abc import Callable, Iterator
from pathlib import Path

import llvmlite.binding as llvm
import numpy as np
import pytest
from compiling import compile_function

import diffkern as dk
from diffkern.compiler import pipeline
from diffkern.compiler.compilation import Compilation
from diffkern.process.interrupts import interruptible
from diffkern.runtime.native import assemble
from diffkern.runtime.native.loader import host_cpu
from diffkern.targets.cpu import object_code as target
from diffkern.vecmath import approx

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")


class Work:
    """Something that takes as long as the test wants."""

    def __init__(self) -> None:
        self.began, self.released, self.ended = threading.Event(), threading.Event(), threading.Event()

    def __call__(self) -> int:
        self.began.set()
        assert self.released.wait(120)
        self.ended.set()
        return 7


@pytest.fixture
def work() -> Iterator[Work]:
    made = Work()
    yield made
    made.released.set()


def interrupt_when(event: threading.Event) -> threading.Thread:
    """Send this process an interrupt once something has begun."""

    def send() -> None:
        assert event.wait(120)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=send)
    thread.start()
    return thread


def test_the_result_and_the_error_are_those_of_the_work():
    def fails() -> None:
        raise KeyError("own")

    before = set(threading.enumerate())  # other tests' libraries may have threads of their own
    assert interruptible(lambda: 3) == 3
    with pytest.raises(KeyError, match="own"):
        interruptible(fails)
    assert set(threading.enumerate()) <= before


def test_the_work_is_done_where_no_thread_can_be_had(monkeypatch):
    def refused(thread: threading.Thread) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")

    monkeypatch.setattr(threading.Thread, "start", refused)
    assert interruptible(threading.current_thread) is threading.main_thread()


def test_other_threads_do_the_work_themselves():
    found: list[object] = []

    def outer() -> None:
        found.append(interruptible(threading.current_thread))

    thread = threading.Thread(target=outer)
    thread.start()
    thread.join()
    assert found == [thread]


def test_an_interrupt_does_not_wait_for_the_work(work):
    sender = interrupt_when(work.began)
    with pytest.raises(KeyboardInterrupt):
        interruptible(work)
    sender.join()
    assert not work.ended.is_set()
    work.released.set()
    assert work.ended.wait(120)


def take(event: threading.Event) -> threading.Thread:
    """Let another thread take an interrupt, which does not wake the main thread."""

    def send() -> None:
        assert event.wait(120)
        time.sleep(0.2)
        signal.pthread_kill(threading.get_ident(), signal.SIGINT)

    thread = threading.Thread(target=send)
    thread.start()
    return thread


@pytest.mark.parametrize("wait", ["compiler", "stream", "event"])
def test_an_interrupt_that_another_thread_takes_is_seen(work, wait):
    stream = dk.Stream()
    if wait != "compiler":
        stream.enqueue(work)
    calls = {
        "compiler": lambda: interruptible(work),
        "stream": stream.synchronize,
        "event": stream.record_event().synchronize,
    }
    sender = take(work.began)
    with pytest.raises(KeyboardInterrupt):
        calls[wait]()
    assert not work.ended.is_set()
    sender.join()
    work.released.set()
    assert work.ended.wait(120)
    stream.synchronize()


@dk.kernel
def scaled(x: dk.array(dtype=float), y: dk.array(dtype=float)):
    i = dk.tid()
    y[i] = x[i] * 3.0


@pytest.mark.parametrize("step", ["_run_passes", "_inline_masked"])
def test_an_interrupted_compile_leaves_nothing(work, step, monkeypatch, tmp_path):
    real: Callable[..., None] = getattr(target, step)
    monkeypatch.setattr(dk.config, "cache_dir", tmp_path)

    def waiting(*arguments: object, **options: object) -> None:
        work()
        real(*arguments, **options)

    x, y = dk.array(np.arange(5, dtype=np.float32)), dk.zeros(5)
    kernel = dk.kernel(scaled.func)
    with monkeypatch.context() as patch:
        patch.setattr(target, step, waiting)
        sender = interrupt_when(work.began)
        with pytest.raises(KeyboardInterrupt):
            dk.launch(kernel, 5, [x], [y])
        sender.join()
        assert not work.ended.is_set()
        assert not [path for path in tmp_path.rglob("*") if path.name.startswith("kernel")]
    work.released.set()
    dk.launch(kernel, 5, [x], [y])
    np.testing.assert_array_equal(y.numpy(), 3.0 * x.numpy())


def test_the_main_thread_runs_llvmlites_finalizers_alone(monkeypatch, tmp_path):
    """An interrupt in the middle of another function of llvmlite can end the process."""
    binding = os.path.dirname(llvm.__file__)
    called: set[str] = set()

    def calls(frame: types.FrameType, event: str, argument: object) -> None:
        function, caller = frame.f_code, frame
        while caller.f_back is not None and caller.f_code.co_name != "__del__":
            caller = caller.f_back
        if function.co_filename.startswith(binding) and caller.f_back is None:
            called.add(f"{function.co_filename}: {function.co_name}")

    @dk.kernel
    def waves(x: dk.array(dtype=float), y: dk.array(dtype=float)):
        i = dk.tid()
        y[i] = dk.sin(x[i]) * 23.0

    monkeypatch.setattr(dk.config, "cache_dir", tmp_path)
    monkeypatch.setattr(assemble, "_cache", None)
    for asked in (host_cpu, approx.host_has_fma, target.machine):
        asked.cache_clear()
    x, y = dk.zeros(4, requires_grad=True), dk.zeros(4, requires_grad=True)
    previous = sys.gettrace()
    sys.settrace(calls)
    try:
        with dk.Tape() as tape:
            waves[4](x, y)
        tape.backward(grads={y: np.ones(4, np.float32)})
        made = compile_function(pipeline.optimise(Compilation(waves.func, waves.argument_types()).forward), "waves")
        text, assembly = made.llvm_ir(), made.assembly()
        loaded = assemble.load_native(lambda: 'define i32 @"three"() { ret i32 3 }', (), ["three"], ())
    finally:
        sys.settrace(previous)
    assert called == set()
    assert loaded["three"] != 0
    assert text != assembly
    assert (x.grad.numpy() == 23.0).all()


BUILD = """
import os, time
import diffkern as dk
from diffkern.targets.cpu import object_code as target

@dk.kernel
def one(x: dk.array(dtype=float), y: dk.array(dtype=float)):
    i = dk.tid()
    y[i] = x[i] * 5.0

@dk.kernel
def two(x: dk.array(dtype=float), y: dk.array(dtype=float)):
    i = dk.tid()
    y[i] = x[i] * 6.0

parent = os.getpid()

def long(*arguments, **options):
    os.write(1, b"compiling\\n")
    time.sleep(1 if os.getpid() == parent else 3600)

target._run_passes = long
dk.compile(one, two, processes=2, progress=False)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="processes are forked on Linux")
def test_processes_that_compile_end_with_the_one_that_is_interrupted(tmp_path: Path):
    source = tmp_path / "building.py"
    source.write_text(BUILD)
    environment = {**os.environ, "DIFFKERN_CACHE_DIR": str(tmp_path / "cache")}
    with subprocess.Popen([sys.executable, str(source)], stdout=subprocess.PIPE, env=environment) as process:
        assert process.stdout is not None
        assert [process.stdout.readline() for _ in range(2)] == [b"compiling\n"] * 2
        process.send_signal(signal.SIGINT)
        assert process.stdout.read() == b""  # ends when the last process does
    assert process.returncode != 0
