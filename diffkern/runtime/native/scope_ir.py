"""Entering and leaving scopes in native code.

``dk_scope_setup`` takes a tuple once: what is current in a thread, the address of the number of current objects, the
names of three attributes of a scope (what Python has to do before entering, what after leaving, and what was current
before), and the name under which an object is current without being counted, interned as all of them are. The methods
``dk_scope_enter`` and ``dk_scope_leave``, and the built-in function ``dk_scope_put``, are described in
:mod:`diffkern.runtime.memory.scope`.
"""

from __future__ import annotations

from typing import Any

from diffkern.runtime.native.builder import I32, I64, VOID, Code, Module, Word

__all__ = ["add_scope"]

_CURRENT, _COUNT, _BEGIN, _END, _OUTER, _UNCOUNTED = range(6)


def add_scope(m: Module) -> None:
    """Add the functions."""
    m.room("scopes", 8)
    made, c = m.function("dk_scope_setup", VOID, [I64], is_exported=True)
    # Kept for ever: the methods may be called as long as the process lives.
    c.invoke("Py_IncRef", made.args[0])
    c.store(made.args[0], c.named("scopes"))
    c.b.ret_void()
    change = _set(m)
    _put(m, change)
    _enter(m, change)
    _leave(m, change)


def _item(c: Code, held: Word, k: int) -> Word:
    """Return an item of a tuple, which keeps it."""
    return c.invoke("PyTuple_GetItem", held, k)


def _of_setup(c: Code, k: int) -> Word:
    return _item(c, c.load(c.named("scopes")), k)


def _set(m: Module) -> Any:
    """``set(name, value)``: set an attribute of what is current, and count it; not 0 with an exception."""
    made, c = m.routine("dk_scope_set", 2)
    name, value = made.args
    current = _of_setup(c, _CURRENT)
    count = c.invoke("PyLong_AsVoidPtr", _of_setup(c, _COUNT))
    before = c.invoke("PyObject_GetAttr", current, name)
    with c.when(c.compare("==", before, 0)):
        c.leave(1)
    failed = c.invoke("PyObject_SetAttr", current, name, value)
    # Interned names are compared by identity.
    counted = c.compare("!=", name, _of_setup(c, _UNCOUNTED))
    with c.when(c.all(c.compare("==", failed, 0), counted)):
        none = c.named("_Py_NoneStruct")
        # The change of the count is -1, 0 or 1: what is current now, less what was before.
        added, gone = (c.b.zext(c.compare("!=", x, none), I32) for x in (value, before))
        c.b.atomic_rmw("add", c.pointer(count), c.b.sub(added, gone), "monotonic")
    c.invoke("Py_DecRef", before)
    c.leave(failed)
    return made


def _put(m: Module, change: Any) -> None:
    """A built-in function of a name and a value."""
    made, c = m.routine("dk_scope_put", 3, is_exported=True)
    failed = c.invoke(change, *c.loads(made.args[1], 2))
    with c.when(c.compare("!=", failed, 0)):
        c.leave(0)
    c.leave_none()


def _enter(m: Module, change: Any) -> None:
    """A method without arguments. Python returns a tuple: the name, the value, and the value for the block."""
    made, c = m.routine("dk_scope_enter", 3, is_exported=True)
    scope = made.args[0]
    begin = c.invoke("PyObject_GetAttr", scope, _of_setup(c, _BEGIN))
    with c.when(c.compare("==", begin, 0)):
        c.leave(0)
    begun = c.invoke("PyObject_CallNoArgs", begin)
    c.invoke("Py_DecRef", begin)
    with c.when(c.compare("==", begun, 0)):
        c.leave(0)
    name, value, result = (_item(c, begun, k) for k in range(3))
    outer = _of_setup(c, _OUTER)
    # The chain of what was current before is stored in the scope first; only then the new value becomes current. No
    # Python code runs in between, so that no interrupt can separate the two.
    before = c.invoke("PyObject_GetAttr", _of_setup(c, _CURRENT), name)
    chain = c.invoke("PyObject_GetAttr", scope, outer)
    link = c.invoke("PyTuple_New", 3)
    c.invoke("Py_IncRef", name)
    for k, item in enumerate((name, before, chain)):
        c.invoke("PyTuple_SetItem", link, k, item)
    c.invoke("PyObject_SetAttr", scope, outer, link)
    c.invoke("Py_DecRef", link)
    c.invoke(change, name, value)
    c.invoke("Py_IncRef", result)
    c.invoke("Py_DecRef", begun)
    c.leave(result)


def _leave(m: Module, change: Any) -> None:
    """A method with the arguments of an ``__exit__``."""
    made, c = m.routine("dk_scope_leave", 3, is_exported=True)
    scope, arguments, count = made.args
    outer = _of_setup(c, _OUTER)
    link = c.invoke("PyObject_GetAttr", scope, outer)
    # None if the block was never entered, or an interrupt came before that.
    with c.when(c.compare("!=", link, c.named("_Py_NoneStruct"))):
        name, before, chain = (_item(c, link, k) for k in range(3))
        c.invoke("PyObject_SetAttr", scope, outer, chain)
        c.invoke(change, name, before)
    c.invoke("Py_DecRef", link)
    end = c.invoke("PyObject_GetAttr", scope, _of_setup(c, _END))
    with c.when(c.compare("==", end, 0)):
        c.leave(0)
    answer = c.invoke("PyObject_Vectorcall", end, arguments, count, 0)
    c.invoke("Py_DecRef", end)
    c.leave(answer)
