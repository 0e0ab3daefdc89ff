"""Calls of a GPU's driver from native code.

A port is a record of 64-bit words with the driver's functions and the context that they are for; steps are launches,
fills, copies and graphs. ``dk_device_steps`` runs them, and so do the built-in functions ``dk_device_run``, given the
addresses of a plan and a stream, and ``dk_device_launch``, for a launch that was not prepared. The port's context is
current around the calls. :mod:`diffkern.runtime.native.device` fills the words and describes them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from diffkern.runtime.native.builder import I32, I64, Code, Module, Word
from diffkern.runtime.native.draw_ir import COUNTED, WATCH_WORDS, Looks

__all__ = ["PLAN_PORT", "RAISED", "add_device", "do_steps"]


RAISED = -1
"""The status after a handler of signals has raised an exception."""


def do_steps(
    c: Code,
    steps: Word,
    count: Word,
    words: int,
    watch: Word,
    do: Callable[[Word, Word], Word],
    before: Callable[[Word], Any] = lambda done: None,
) -> Word:
    """Run steps one after the other; return 0, or the status that ended them.

    Parameters
    ----------
    c : Code
        The code that the loop is appended to.
    steps, count : Word
        Address and number of the steps.
    words : int
        Length of a step.
    watch : Word
        The watch that knows whether a signal handler is due.
    do : callable
        Writes the code for a step, given its address and its number; returns the status, 0 for success.
    before : callable, optional
        Writes the code in front of each step, given its number, and behind the last one.
    """
    done, status = c.variable(0), c.variable(0)
    looks = Looks(c, 16, 256)
    with c.forever() as stop:
        before(done.get())
        stop(c.compare(">=", done.get(), count))
        status.set(do(c.add(steps, c.mul(done.get(), 8 * words)), done.get()))
        stop(c.compare("!=", status.get(), 0))
        done.set(c.add(done.get(), 1))
        with looks.due() as time, c.when(c.compare("!=", c.invoke("dk_interrupted", watch, time, 0), 0)):
            status.set(RAISED)
        stop(c.compare("!=", status.get(), 0))
    return status.get()


# What a plan says of steps on a device: calls in progress, how many steps there are, where they stand, the port.
_PLAN_RUNNING, _PLAN_COUNT, _PLAN_STEPS, PLAN_PORT = 8, 40, 48, 64
# A port: the context; whether it stays the current one where none was; the driver's functions.
_CONTEXT, _STAYS, _CURRENT, _SET, _LAUNCH, _FILL8, _FILL16, _FILL32, _COPY, _GRAPH = range(0, 80, 8)
# A step: what it is, and up to five words.
_STEP_WORDS = 6
_STEP_LAUNCH, _STEP_FILL8, _STEP_FILL16, _STEP_FILL32, _STEP_COPY, _STEP_GRAPH = range(6)
# What a status names as the call that failed, in bits 32 to 39; below stands the driver's code, above the step.
_CALL_CURRENT, _CALL_SET, _CALL_STEP = 1, 2, 3
_CONTENTS = bytes.__basicsize__ - 1
# cuLaunchKernel's names of what follows in the list of its last parameter: the parameters, and how many bytes.
_POINTER, _SIZE, _END = 1, 2, 0


def add_device(m: Module) -> Any:
    """Add the functions; return ``steps(plan, stream, watch)``."""
    enter, leave = _enter(m), _leave(m)
    launch = _launch(m)
    steps = _steps(m, enter, leave, _step(m, launch))
    _run(m, steps)
    _launch_at_once(m, enter, leave, launch)
    return steps


def _number(code: Any, c: Code) -> Word:
    """Return the driver's code as a word."""
    return c.b.zext(code, I64)


def _status(c: Code, code: Word, call: int) -> Word:
    """Return the status of a call that failed with a code; 0 if it did not."""
    return c.choose(c.compare("==", code, 0), 0, c.b.or_(code, c.word(call << 32)))


def _enter(m: Module) -> Any:
    """``enter(port, before)``: make the context current, and store the previous one if it has to come back."""
    made, c = m.routine("dk_device_enter", 2)
    port, before = made.args
    c.store(0, before)
    code = _number(c.call(c.load(port, _CURRENT), [before], I32), c)
    with c.when(c.compare("!=", code, 0)):
        c.leave(_status(c, code, _CALL_CURRENT))
    found, context = c.load(before), c.load(port, _CONTEXT)
    with c.when(c.compare("==", found, context)):
        # -1 tells `leave` that there is nothing to restore, as 0 is a valid "no context".
        c.store(-1, before)
        c.leave(0)
    code = _number(c.call(c.load(port, _SET), [context], I32), c)
    # Where no context was current, the port's may stay: the next call then finds it, and no switch is needed.
    stays = c.all(c.compare("==", found, 0), c.compare("!=", c.load(port, _STAYS), 0))
    c.store(c.choose(stays, -1, found), before)
    c.leave(_status(c, code, _CALL_SET))
    return made


def _leave(m: Module) -> Any:
    """``leave(port, before, status)``: restore the previous context; return the status of all."""
    made, c = m.routine("dk_device_leave", 3)
    port, before, status = made.args
    found = c.load(before)
    with c.when(c.compare("==", found, -1)):
        c.leave(status)
    code = _number(c.call(c.load(port, _SET), [found], I32), c)
    # An error of the work itself is the one to report.
    c.leave(c.choose(c.compare("!=", status, 0), status, _status(c, code, _CALL_SET)))
    return made


def _launch(m: Module) -> Any:
    """``launch(port, function, blocks, threads, shared, stream, extra)``: the driver's code."""
    made, c = m.routine("dk_device_kernel", 7)
    port, function, blocks, threads, shared, stream, extra = made.args
    one = I32(1)
    grid, block, dynamic = (c.b.trunc(x, I32) for x in (blocks, threads, shared))
    arguments = [function, grid, one, one, block, one, one, dynamic, stream, c.word(0), extra]
    c.leave(_number(c.call(c.load(port, _LAUNCH), arguments, I32), c))
    return made


def _step(m: Module, launch: Any) -> Any:
    """``step(port, step, stream)``: run one step; return the driver's code."""
    made, c = m.routine("dk_device_step", 3)
    port, step, stream = made.args
    kind, *facts = c.loads(step, _STEP_WORDS)
    with c.when(c.compare("==", kind, _STEP_LAUNCH)):
        function, blocks, threads, shared, extra = facts
        c.leave(c.invoke(launch, port, function, blocks, threads, shared, stream, extra))
    fills: Sequence[tuple[int, int]] = ((_STEP_FILL8, _FILL8), (_STEP_FILL16, _FILL16), (_STEP_FILL32, _FILL32))
    for known, place in fills:
        with c.when(c.compare("==", kind, known)):
            value = c.b.trunc(facts[1], I32)
            c.leave(_number(c.call(c.load(port, place), [facts[0], value, facts[2], stream], I32), c))
    with c.when(c.compare("==", kind, _STEP_COPY)):
        c.leave(_number(c.call(c.load(port, _COPY), [*facts[:3], stream], I32), c))
    c.leave(_number(c.call(c.load(port, _GRAPH), [facts[0], stream], I32), c))
    return made


def _within(c: Code, enter: Any, leave: Any, port: Word, work: Callable[[], Word]) -> None:
    """Run code in the context of a port, and leave the function with its status."""
    before = c.words(1)
    entered = c.invoke(enter, port, before)
    with c.when(c.compare("!=", entered, 0)):
        c.leave(entered)
    c.leave(c.invoke(leave, port, before, work()))


def _steps(m: Module, enter: Any, leave: Any, step: Any) -> Any:
    """``steps(plan, stream, watch)``: run all steps; 0, the failed status, or -1 if a signal handler has raised."""
    made, c = m.routine("dk_device_steps", 3)
    plan, stream, watch = made.args
    count, steps, port = (c.load(plan, at) for at in (_PLAN_COUNT, _PLAN_STEPS, PLAN_PORT))
    with c.when(c.compare("==", count, 0)):
        c.leave(0)

    def do(at: Word, number: Word) -> Word:
        # The number of the step goes to the bits above the call, so that Python finds its title.
        failed = _status(c, c.invoke(step, port, at, stream), _CALL_STEP)
        return c.choose(c.compare("==", failed, 0), 0, c.b.or_(failed, c.b.shl(number, c.word(40))))

    def work() -> Word:
        return do_steps(c, steps, count, _STEP_WORDS, watch, do)

    _within(c, enter, leave, port, work)
    return made


def _numbers(c: Code, arguments: Word, count: int) -> list[Word]:
    return [c.invoke("PyLong_AsVoidPtr", argument) for argument in c.loads(arguments, count)]


def _answer(c: Code, status: Word) -> None:
    """Return a status as a Python number, or raise the pending exception."""
    with c.when(c.compare("==", status, RAISED)):
        c.leave(0)
    c.leave(c.invoke("PyLong_FromLong", status))


def _run(m: Module, steps: Any) -> None:
    """A built-in function of the addresses of a plan and a stream (METH_FASTCALL); its result is a status."""
    made, c = m.routine("dk_device_run", 3, is_exported=True)
    plan, stream = _numbers(c, made.args[1], 2)
    running, watch = c.add(plan, _PLAN_RUNNING), c.words(WATCH_WORDS)
    # Counted in front of everything: a thread that changes the plan marks it stale and waits until no call is inside.
    c.atomic("add", running, 1, "acquire")
    # The driver may block, so that other Python threads run meanwhile.
    c.invoke("dk_let_python_run", watch)
    c.store(running, watch, COUNTED)
    status = c.invoke(steps, plan, stream, watch)
    c.atomic("sub", running, 1, "release")
    c.invoke("dk_come_back", watch)
    _answer(c, status)


def _launch_at_once(m: Module, enter: Any, leave: Any, launch: Any) -> None:
    """A built-in function of port, function, blocks, threads, shared bytes, stream and argument block, as bytes."""
    made, c = m.routine("dk_device_now", 4)
    port, numbers, block, size = made.args

    def work() -> Word:
        extra = c.words(6)
        counted = c.add(extra, 40)
        for k, value in enumerate((_POINTER, block, _SIZE, counted, _END, size)):
            c.store(value, extra, 8 * k)
        function, blocks, threads, shared, stream = c.loads(numbers, 5)
        return _status(c, c.invoke(launch, port, function, blocks, threads, shared, stream, extra), _CALL_STEP)

    _within(c, enter, leave, port, work)
    now = made
    # The numbers are read while the interpreter's lock is held; afterwards nothing of Python's may be touched.
    made, c = m.routine("dk_device_launch", 3, is_exported=True)
    port, *numbers = _numbers(c, made.args[1], 6)
    block = c.load(made.args[1], 48)
    kept, watch = c.words(5), c.words(WATCH_WORDS)
    for k, number in enumerate(numbers):
        c.store(number, kept, 8 * k)
    size = c.invoke("PyBytes_Size", block)
    c.invoke("dk_let_python_run", watch)
    status = c.invoke(now, port, kept, c.add(block, _CONTENTS), size)
    c.invoke("dk_come_back", watch)
    _answer(c, status)
