"""Entering and leaving scopes in native code, as LLVM IR text that joins the thread pool's module.

In: nothing. Out: the built-in functions ``dk_scope_put``, ``dk_scope_enter`` and ``dk_scope_leave``. Their ``self`` is
a tuple: what is current in a thread, the address of the number of things that are, and for the latter two the scope,
what Python has to do, and the attribute of the scope that holds what was current before.
:mod:`diffkern.runtime.scope` says what they are for.
"""

from __future__ import annotations

__all__ = ["SCOPE_EXTERNAL_NAMES", "SCOPE_NAMES", "scope_ir"]

SCOPE_NAMES = ("dk_scope_put", "dk_scope_enter", "dk_scope_leave")

SCOPE_EXTERNAL_NAMES: frozenset[str] = frozenset("PyObject_SetAttr PyObject_CallNoArgs".split())
"""What the module needs from Python, besides the names of the replay's and the setter's module."""


def scope_ir() -> str:
    """Return the text; it uses declarations of the pool, the replay and the setter."""
    return _TEXT


_TEXT = r"""
declare i32 @PyObject_SetAttr(ptr, ptr, ptr)
declare ptr @PyObject_CallNoArgs(ptr)

; Set an attribute of what is current, and count it. Returns 0, or -1 with an exception.
define internal i32 @dk_scope_set(ptr %self, ptr %name, ptr %value) uwtable {
entry:
  %current = call ptr @PyTuple_GetItem(ptr %self, i64 0)
  %number = call ptr @PyTuple_GetItem(ptr %self, i64 1)
  %count = call ptr @PyLong_AsVoidPtr(ptr %number)
  %before = call ptr @PyObject_GetAttr(ptr %current, ptr %name)
  %unknown = icmp eq ptr %before, null
  br i1 %unknown, label %fail, label %set
fail:
  ret i32 -1
set:
  %failed = call i32 @PyObject_SetAttr(ptr %current, ptr %name, ptr %value)
  %bad = icmp ne i32 %failed, 0
  br i1 %bad, label %done, label %add
add:
  %is = icmp ne ptr %value, @_Py_NoneStruct
  %was = icmp ne ptr %before, @_Py_NoneStruct
  %is.wide = zext i1 %is to i32
  %was.wide = zext i1 %was to i32
  %change = sub i32 %is.wide, %was.wide
  %old = atomicrmw add ptr %count, i32 %change monotonic
  br label %done
done:
  call void @Py_DecRef(ptr %before)
  ret i32 %failed
}

; Two arguments: a name and a value.
define ptr @dk_scope_put(ptr %self, ptr %args, i64 %nargs) uwtable {
entry:
  %name = load ptr, ptr %args
  %p.value = getelementptr ptr, ptr %args, i64 1
  %value = load ptr, ptr %p.value
  %failed = call i32 @dk_scope_set(ptr %self, ptr %name, ptr %value)
  %bad = icmp ne i32 %failed, 0
  br i1 %bad, label %fail, label %done
fail:
  ret ptr null
done:
  call void @Py_IncRef(ptr @_Py_NoneStruct)
  ret ptr @_Py_NoneStruct
}

; No arguments. Python returns a tuple: the name, the value, and what the block gets.
define ptr @dk_scope_enter(ptr %self, ptr %args, i64 %nargs) uwtable {
entry:
  %begin = call ptr @PyTuple_GetItem(ptr %self, i64 3)
  %begun = call ptr @PyObject_CallNoArgs(ptr %begin)
  %refused = icmp eq ptr %begun, null
  br i1 %refused, label %fail, label %note
fail:
  ret ptr null
note:
  %scope = call ptr @PyTuple_GetItem(ptr %self, i64 2)
  %outer = call ptr @PyTuple_GetItem(ptr %self, i64 4)
  %current = call ptr @PyTuple_GetItem(ptr %self, i64 0)
  %name = call ptr @PyTuple_GetItem(ptr %begun, i64 0)
  %value = call ptr @PyTuple_GetItem(ptr %begun, i64 1)
  %result = call ptr @PyTuple_GetItem(ptr %begun, i64 2)
  %before = call ptr @PyObject_GetAttr(ptr %current, ptr %name)
  %chain = call ptr @PyObject_GetAttr(ptr %scope, ptr %outer)
  %link = call ptr @PyTuple_New(i64 3)
  call void @Py_IncRef(ptr %name)
  %set.1 = call i32 @PyTuple_SetItem(ptr %link, i64 0, ptr %name)
  %set.2 = call i32 @PyTuple_SetItem(ptr %link, i64 1, ptr %before)
  %set.3 = call i32 @PyTuple_SetItem(ptr %link, i64 2, ptr %chain)
  %set.4 = call i32 @PyObject_SetAttr(ptr %scope, ptr %outer, ptr %link)
  call void @Py_DecRef(ptr %link)
  %failed = call i32 @dk_scope_set(ptr %self, ptr %name, ptr %value)
  call void @Py_IncRef(ptr %result)
  call void @Py_DecRef(ptr %begun)
  ret ptr %result
}

; The arguments of an __exit__.
define ptr @dk_scope_leave(ptr %self, ptr %args, i64 %nargs) uwtable {
entry:
  %scope = call ptr @PyTuple_GetItem(ptr %self, i64 2)
  %outer = call ptr @PyTuple_GetItem(ptr %self, i64 4)
  %link = call ptr @PyObject_GetAttr(ptr %scope, ptr %outer)
  %inside = icmp ne ptr %link, @_Py_NoneStruct
  br i1 %inside, label %restore, label %finish
restore:
  %name = call ptr @PyTuple_GetItem(ptr %link, i64 0)
  %before = call ptr @PyTuple_GetItem(ptr %link, i64 1)
  %chain = call ptr @PyTuple_GetItem(ptr %link, i64 2)
  %set = call i32 @PyObject_SetAttr(ptr %scope, ptr %outer, ptr %chain)
  %failed = call i32 @dk_scope_set(ptr %self, ptr %name, ptr %before)
  br label %finish
finish:
  call void @Py_DecRef(ptr %link)
  %end = call ptr @PyTuple_GetItem(ptr %self, i64 3)
  %answer = call ptr @PyObject_Vectorcall(ptr %end, ptr %args, i64 %nargs, ptr null)
  ret ptr %answer
}
"""
