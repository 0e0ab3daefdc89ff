"""Native code that gives back the reference of an owner; see :mod:`diffkern.runtime.native.release`."""

from __future__ import annotations

import sys
from typing import Any

from diffkern.runtime.native.builder import I64, VOID, Code, Module, Word

__all__ = ["deleter_ir", "destructor_ir"]


def deleter_ir(function: str, offset: int) -> str:
    """Return the text of a function that releases the object whose address is at an offset."""
    m = Module("diffkern.release")
    release = _release(m)
    made, c = m.function(function, VOID, [I64], is_exported=True)
    c.invoke(release, c.load(made.args[0], offset))
    c.b.ret_void()
    return str(m)


def destructor_ir(function: str, name: str, offset: int) -> str:
    """Return the text of a destructor of capsules, which releases the object if the capsule still has its name."""
    m = Module("diffkern.release")
    release = _release(m)
    made, c = m.function(function, VOID, [I64], is_exported=True)
    capsule, own_name = made.args[0], c.address(m.string(name))
    # A consumer renames the capsule and owns the reference from then on.
    with c.when(c.compare("!=", c.invoke("PyCapsule_IsValid", capsule, own_name), 0)):
        c.invoke(release, c.load(c.invoke("PyCapsule_GetPointer", capsule, own_name), offset))
    c.b.ret_void()
    return str(m)


def _release(m: Module) -> Any:
    made, c = m.function("release", VOID, [I64])
    with c.when(c.compare("!=", c.invoke("Py_IsInitialized"), 0)):
        state = c.invoke("PyGILState_Ensure")
        _let_go(c, made.args[0])
        c.invoke("PyGILState_Release", state)
    c.b.ret_void()
    return made


def _let_go(c: Code, owner: Word) -> None:
    """Give the reference back, and leave an exception on its way as it was."""
    if sys.version_info >= (3, 12):
        # The object's destructor may run Python, which must not start with an exception set.
        raised = c.invoke("PyErr_GetRaisedException")
        c.invoke("Py_DecRef", owner)
        c.invoke("PyErr_SetRaisedException", raised)
        return
    places = [c.words(1) for _ in range(3)]
    c.invoke("PyErr_Fetch", *places)
    c.invoke("Py_DecRef", owner)
    c.invoke("PyErr_Restore", *map(c.load, places))
