"""Letting go of Python objects from native code, whatever the interpreter is doing.

In: the place of an owner in a structure that another library got. Out: C functions that give the owner's reference back
(a deleter), and the destructor of a capsule that nobody has consumed. They may come from any thread, with or without
the interpreter's lock, while an exception is on its way, and after the interpreter has gone: they run no Python of
their own, take no other lock, leave the exception as it was, and do nothing at all once there is no interpreter.
"""

from __future__ import annotations

import functools
import sys

from diffkern.runtime.native.assemble import load_text

__all__ = ["deleter", "destructor"]

_NAMES = frozenset(
    "Py_IsInitialized PyGILState_Ensure PyGILState_Release Py_DecRef PyCapsule_IsValid PyCapsule_GetPointer "
    "PyErr_Fetch PyErr_Restore PyErr_GetRaisedException PyErr_SetRaisedException".split()
)


@functools.cache
def deleter(offset: int) -> int:
    """Return the address of ``void f(void *managed)``, which lets go of the object whose address is at an offset."""
    name = f"dk_release_{offset}"
    return load_text(
        _RELEASE + _exceptions() + _DELETER.replace("$NAME$", name).replace("$OFFSET$", str(offset)), [name], _NAMES
    )[name]


@functools.cache
def destructor(name: str, offset: int) -> int:
    """Return the address of the destructor of capsules, which calls :func:`deleter` if they still have a name."""
    function = f"dk_destroy_{name}"
    text = _RELEASE + _exceptions() + _DESTRUCTOR
    for key, value in (("NAME", function), ("LENGTH", str(len(name) + 1)), ("TEXT", name), ("OFFSET", str(offset))):
        text = text.replace(f"${key}$", value)
    return load_text(text, [function], _NAMES)[function]


def _exceptions() -> str:
    return _RAISED if sys.version_info >= (3, 12) else _FETCHED


_RELEASE = r"""
declare i32 @Py_IsInitialized()
declare i32 @PyGILState_Ensure()
declare void @PyGILState_Release(i32)
declare void @Py_DecRef(ptr)

; uwtable: at exit Python ends a thread that asks for its lock by unwinding the stack.
define internal void @release(ptr %owner) uwtable {
entry:
  %alive = call i32 @Py_IsInitialized()
  %gone = icmp eq i32 %alive, 0
  br i1 %gone, label %done, label %enter
enter:
  %state = call i32 @PyGILState_Ensure()
  call void @let_go(ptr %owner)
  call void @PyGILState_Release(i32 %state)
  br label %done
done:
  ret void
}
"""

_RAISED = r"""
declare ptr @PyErr_GetRaisedException()
declare void @PyErr_SetRaisedException(ptr)

define internal void @let_go(ptr %owner) uwtable {
  %raised = call ptr @PyErr_GetRaisedException()
  call void @Py_DecRef(ptr %owner)
  call void @PyErr_SetRaisedException(ptr %raised)
  ret void
}
"""

_FETCHED = r"""
declare void @PyErr_Fetch(ptr, ptr, ptr)
declare void @PyErr_Restore(ptr, ptr, ptr)

define internal void @let_go(ptr %owner) uwtable {
  %p.type = alloca ptr
  %p.value = alloca ptr
  %p.traceback = alloca ptr
  call void @PyErr_Fetch(ptr %p.type, ptr %p.value, ptr %p.traceback)
  call void @Py_DecRef(ptr %owner)
  %type = load ptr, ptr %p.type
  %value = load ptr, ptr %p.value
  %traceback = load ptr, ptr %p.traceback
  call void @PyErr_Restore(ptr %type, ptr %value, ptr %traceback)
  ret void
}
"""

_DELETER = r"""
define void @$NAME$(ptr %managed) uwtable {
  %p.owner = getelementptr i8, ptr %managed, i64 $OFFSET$
  %owner = load ptr, ptr %p.owner
  call void @release(ptr %owner)
  ret void
}
"""

_DESTRUCTOR = r"""
declare i32 @PyCapsule_IsValid(ptr, ptr)
declare ptr @PyCapsule_GetPointer(ptr, ptr)
@name = internal constant [$LENGTH$ x i8] c"$TEXT$\00"

define void @$NAME$(ptr %capsule) uwtable {
entry:
  %valid = call i32 @PyCapsule_IsValid(ptr %capsule, ptr @name)
  %consumed = icmp eq i32 %valid, 0
  br i1 %consumed, label %done, label %own
own:
  %managed = call ptr @PyCapsule_GetPointer(ptr %capsule, ptr @name)
  %p.owner = getelementptr i8, ptr %managed, i64 $OFFSET$
  %owner = load ptr, ptr %p.owner
  call void @release(ptr %owner)
  br label %done
done:
  ret void
}
"""
