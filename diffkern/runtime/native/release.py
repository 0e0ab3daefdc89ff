"""Release of Python objects from native code, whatever the state of the interpreter.

For the offset of an owner in a structure that another library got, there are C functions that give the owner's
reference back (a deleter), and the destructor of a capsule that was not consumed. They may be called from any thread,
with or without the interpreter's lock, while an exception is on its way, and after the interpreter has gone: they
run no Python of their own, take no other lock, leave the exception as it was, and do nothing at all once there is no
interpreter.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from diffkern.runtime.native.assemble import EXTERNAL_NAMES, load_native

if TYPE_CHECKING:
    from diffkern.runtime.native.builder import Code, Module, Word

__all__ = ["deleter", "deleter_ir", "destructor", "destructor_ir"]


@functools.cache
def deleter(offset: int) -> int:
    """Return the address of ``void f(void *managed)``, which releases the object whose address is at an offset."""
    symbol = f"dk_release_{offset}"

    return _loaded(lambda: deleter_ir(symbol, offset), symbol)


@functools.cache
def destructor(name: str, offset: int) -> int:
    """Return the address of the destructor of capsules, which calls :func:`deleter` if they still have a name."""
    symbol = f"dk_destroy_{name}_{offset}"

    return _loaded(lambda: destructor_ir(symbol, name, offset), symbol)


def _loaded(make: Callable[[], str], symbol: str) -> int:
    return load_native(make, [Path(__file__)], [symbol], EXTERNAL_NAMES)[symbol]


# -- native code -------------------------------------------------------------------------------------------------------
# Its text is made where no object code is kept.


def deleter_ir(function: str, offset: int) -> str:
    """Return the text of a function that releases the object whose address is at an offset."""
    m, b = _module()
    release = _release(m, b)
    made, c = m.function(function, b.VOID, [b.I64], is_exported=True)
    c.invoke(release, c.load(made.args[0], offset))
    c.b.ret_void()
    return str(m)


def destructor_ir(function: str, name: str, offset: int) -> str:
    """Return the text of a destructor of capsules, which releases the object if the capsule still has its name."""
    m, b = _module()
    release = _release(m, b)
    made, c = m.function(function, b.VOID, [b.I64], is_exported=True)
    capsule, own_name = made.args[0], c.address(m.string(name))
    # A consumer renames the capsule and owns the reference from then on.
    with c.when(c.compare("!=", c.invoke("PyCapsule_IsValid", capsule, own_name), 0)):
        c.invoke(release, c.load(c.invoke("PyCapsule_GetPointer", capsule, own_name), offset))
    c.b.ret_void()
    return str(m)


def _module() -> tuple[Module, Any]:
    """Return an empty module, and the builder of native code, which kept object code does without."""
    from diffkern.runtime.native import builder

    return builder.Module("diffkern.release"), builder


def _release(m: Module, b: Any) -> Any:
    made, c = m.function("release", b.VOID, [b.I64])
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
