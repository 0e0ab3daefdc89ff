"""Entering and leaving scopes in native code, as LLVM IR text that joins the thread pool's module.

In: a tuple, given once to ``dk_scope_setup``: what is current in a thread, the address of the number of things that
are, and the names of three attributes of a scope: what Python has to do before entering, what after leaving, and what
was current before. Out: the methods ``dk_scope_enter`` and ``dk_scope_leave``, and the built-in function
``dk_scope_put``. :mod:`diffkern.runtime.scope` says what they are for.
"""

from __future__ import annotations

__all__ = ["SCOPE_EXTERNAL_NAMES", "SCOPE_NAMES", "scope_ir"]

SCOPE_NAMES = ("dk_scope_setup", "dk_scope_put", "dk_scope_enter", "dk_scope_leave")

SCOPE_EXTERNAL_NAMES: frozenset[str] = frozenset("PyObject_SetAttr PyObject_CallNoArgs".split())
"""What the module needs from Python, besides the names of the replay's and the setter's module."""


def scope_ir() -> str:
    """Return the text; it uses declarations of the pool, the replay and the setter."""
    return _TEXT


_TEXT = r"""
declare i32 @PyObject_SetAttr(ptr, ptr, ptr)
declare ptr @PyObject_CallNoArgs(ptr)

@scopes = internal global ptr null

define void @dk_scope_setup(ptr %tuple) {
  call void @Py_IncRef(ptr %tuple)
  store ptr %tuple, ptr @scopes
  ret void
}

; Set an attribute of what is current, and count it. Returns 0, or -1 with an exception.
define internal i32 @dk_scope_set(ptr %name, ptr %value) uwtable {
entry:
  %scopes = load ptr, ptr @scopes
  %current = call ptr @PyTuple_GetItem(ptr %scopes, i64 0)
  %number = call ptr @PyTuple_GetItem(ptr %scopes, i64 1)
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

; A built-in function of a name and a value.
define ptr @dk_scope_put(ptr %self, ptr %args, i64 %nargs) uwtable {
entry:
  %name = load ptr, ptr %args
  %p.value = getelementptr ptr, ptr %args, i64 1
  %value = load ptr, ptr %p.value
  %failed = call i32 @dk_scope_set(ptr %name, ptr %value)
  %bad = icmp ne i32 %failed, 0
  br i1 %bad, label %fail, label %done
fail:
  ret ptr null
done:
  call void @Py_IncRef(ptr @_Py_NoneStruct)
  ret ptr @_Py_NoneStruct
}

; A method without arguments. Python returns a tuple: the name, the value, and what the block gets.
define ptr @dk_scope_enter(ptr %scope, ptr %args, i64 %nargs) uwtable {
entry:
  %scopes = load ptr, ptr @scopes
  %begin.name = call ptr @PyTuple_GetItem(ptr %scopes, i64 2)
  %begin = call ptr @PyObject_GetAttr(ptr %scope, ptr %begin.name)
  %no.begin = icmp eq ptr %begin, null
  br i1 %no.begin, label %fail, label %call
call:
  %begun = call ptr @PyObject_CallNoArgs(ptr %begin)
  call void @Py_DecRef(ptr %begin)
  %refused = icmp eq ptr %begun, null
  br i1 %refused, label %fail, label %note
fail:
  ret ptr null
note:
  %outer = call ptr @PyTuple_GetItem(ptr %scopes, i64 4)
  %current = call ptr @PyTuple_GetItem(ptr %scopes, i64 0)
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
  %failed = call i32 @dk_scope_set(ptr %name, ptr %value)
  call void @Py_IncRef(ptr %result)
  call void @Py_DecRef(ptr %begun)
  ret ptr %result
}

; A method with the arguments of an __exit__.
define ptr @dk_scope_leave(ptr %scope, ptr %args, i64 %nargs) uwtable {
entry:
  %scopes = load ptr, ptr @scopes
  %outer = call ptr @PyTuple_GetItem(ptr %scopes, i64 4)
  %link = call ptr @PyObject_GetAttr(ptr %scope, ptr %outer)
  %inside = icmp ne ptr %link, @_Py_NoneStruct
  br i1 %inside, label %restore, label %finish
restore:
  %name = call ptr @PyTuple_GetItem(ptr %link, i64 0)
  %before = call ptr @PyTuple_GetItem(ptr %link, i64 1)
  %chain = call ptr @PyTuple_GetItem(ptr %link, i64 2)
  %set = call i32 @PyObject_SetAttr(ptr %scope, ptr %outer, ptr %chain)
  %failed = call i32 @dk_scope_set(ptr %name, ptr %before)
  br label %finish
finish:
  call void @Py_DecRef(ptr %link)
  %end.name = call ptr @PyTuple_GetItem(ptr %scopes, i64 3)
  %end = call ptr @PyObject_GetAttr(ptr %scope, ptr %end.name)
  %no.end = icmp eq ptr %end, null
  br i1 %no.end, label %fail, label %call
fail:
  ret ptr null
call:
  %answer = call ptr @PyObject_Vectorcall(ptr %end, ptr %args, i64 %nargs, ptr null)
  call void @Py_DecRef(ptr %end)
  ret ptr %answer
}
"""
