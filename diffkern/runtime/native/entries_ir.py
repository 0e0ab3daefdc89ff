"""The entry points of the thread pool: for native code, and for Python, whose lock is given back during a run.

They are ``dk_pool_run``, and ``dk_pool_call``, a built-in Python function.
"""

from __future__ import annotations

from typing import Any

from diffkern.runtime.native.builder import I32, I64, VOID, Module
from diffkern.runtime.native.draw_ir import COUNTED, DUE, WATCH_WORDS

__all__ = ["add_come_back", "add_leave_python", "add_native_entry", "add_python_entry"]


def add_native_entry(m: Module, run: Any) -> None:
    """Add the entry for callers other than Python."""
    made, c = m.function("dk_pool_run", I32, [I64] * 7, is_exported=True)
    c.leave(c.b.trunc(c.invoke(run, *made.args, 0), I32))


def add_python_entry(m: Module, run: Any, let_python_run: Any, come_back: Any) -> None:
    """Add ``dk_pool_run`` as a built-in function of seven integers (METH_FASTCALL), run without Python's lock."""
    made, c = m.routine("dk_pool_call", 3, is_exported=True)
    _, arguments, given = made.args
    with c.when(c.compare("!=", given, 7)):
        message = c.address(m.string("expected seven integers"))
        c.invoke("PyErr_SetString", c.load(c.named("PyExc_TypeError")), message)
        c.leave(0)
    numbers = [c.invoke("PyLong_AsLongLong", argument) for argument in c.loads(arguments, 7)]
    # One check for all seven conversions: an exception stays pending.
    with c.when(c.compare("!=", c.invoke("PyErr_Occurred"), 0)):
        c.leave(0)
    watch = c.words(WATCH_WORDS)
    c.invoke(let_python_run, watch)
    status = c.invoke(run, *numbers, watch)
    c.invoke(come_back, watch)
    with c.when(c.compare("==", status, 2)):
        c.leave(0)
    c.leave(c.invoke("PyLong_FromLong", status))


def add_leave_python(m: Module) -> Any:
    """``let_python_run(watch)``: give the interpreter's lock back."""
    made, c = m.function("dk_let_python_run", VOID, [I64])
    c.store(c.invoke("PyEval_SaveThread"), made.args[0])
    c.store(0, made.args[0], DUE)
    c.store(0, made.args[0], COUNTED)
    c.b.ret_void()
    return made


def add_come_back(m: Module) -> Any:
    """``come_back(watch)``: take the interpreter's lock again."""
    made, c = m.function("dk_come_back", VOID, [I64])
    c.invoke("PyEval_RestoreThread", c.load(made.args[0]))
    c.b.ret_void()
    return made
