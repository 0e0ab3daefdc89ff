"""Changing a parameter of a prepared launch in native code, as LLVM IR text that joins the thread pool's module.

In: tables that Python fills. Out: ``dk_set_param``, a Python built-in function of an index and a value. It writes
numbers, and arrays of the type that is there, into the argument block, and calls a Python function for everything else:
other values, a call in progress, a third argument. A built-in's ``self`` is a tuple (address of the table, Python
function, owner of the memory). :mod:`diffkern.runtime.native.setter` fills the tables and says what the words are.
"""

from __future__ import annotations

__all__ = ["SETTER_EXTERNAL_NAMES", "SETTER_NAMES", "setter_ir"]

SETTER_NAMES = ("dk_set_param",)

SETTER_EXTERNAL_NAMES: frozenset[str] = frozenset(
    "PyObject_GetAttr PyLong_Type PyFloat_Type PyLong_AsLongLongAndOverflow PyFloat_AsDouble "
    "PyLong_AsDouble PyList_SetItem PyErr_Clear _Py_TrueStruct memcmp".split()
)
"""What the module needs from Python, besides the names of the replay's module."""


def setter_ir() -> str:
    """Return the text; it uses declarations of the pool and of the replay."""
    return _TEXT.replace("$TYPE$", str(_TYPE_OFFSET)).replace("$CONTENTS$", str(_CONTENTS_OFFSET))


# Where CPython keeps the class of an object, the last word of its head, and the contents of a bytes object.
_TYPE_OFFSET = object.__basicsize__ - 8
_CONTENTS_OFFSET = bytes.__basicsize__ - 1

_TEXT = r"""
; A table:
;   0 flags: not 0 sends every call to Python   1 set to 1 by every change   2 address of the plan (its word 1: running)
;   3 number of slots   4 class of arrays   5 list of arrays   6 to 10 names of attributes: _key _packed _writable
;   _memory _where   11 address of the slots
%Table = type { i64, i64, ptr, i64, ptr, ptr, ptr, ptr, ptr, ptr, ptr, ptr }
; A slot: 0 kind (0 Python, 1 float32, 2 float64, 3 integer, 4 array that is read, 5 array that is written)
;   1 position in the list of arrays   2 where it stands in the block
;   3, 4, 5 of an integer the least and the greatest value and the mask of its width; of an array the key of its type,
;   the bytes that describe it, and where the plan has the address of its counter
%Slot = type { i64, i64, ptr, i64, i64, i64 }

declare ptr @PyObject_GetAttr(ptr, ptr)
declare i64 @PyLong_AsLongLongAndOverflow(ptr, ptr)
declare double @PyFloat_AsDouble(ptr)
declare double @PyLong_AsDouble(ptr)
declare i32 @memcmp(ptr, ptr, i64)
declare i32 @PyList_SetItem(ptr, i64, ptr)
declare void @PyErr_Clear()
@PyLong_Type = external global i8
@PyFloat_Type = external global i8
@_Py_TrueStruct = external global i8

; An attribute, or null, without an exception. The object keeps it, so the reference is given back at once.
define internal ptr @dk_attribute(ptr %o, ptr %name) uwtable {
  %value = call ptr @PyObject_GetAttr(ptr %o, ptr %name)
  %none = icmp eq ptr %value, null
  br i1 %none, label %clear, label %found
clear:
  call void @PyErr_Clear()
  ret ptr null
found:
  call void @Py_DecRef(ptr %value)
  ret ptr %value
}

; A method with METH_FASTCALL and METH_KEYWORDS.
define ptr @dk_set_param(ptr %self, ptr %args, i64 %nargs, ptr %names) uwtable {
entry:
  %overflow = alloca i32, align 4
  %number = call ptr @PyTuple_GetItem(ptr %self, i64 0)
  %table = call ptr @PyLong_AsVoidPtr(ptr %number)
  %flags = load atomic i64, ptr %table monotonic, align 8
  %named = ptrtoint ptr %names to i64
  %count.off = xor i64 %nargs, 2
  %either = or i64 %named, %count.off
  %any = or i64 %flags, %either
  %usual = icmp eq i64 %any, 0
  br i1 %usual, label %calls, label %python
calls:
  %p.plan = getelementptr %Table, ptr %table, i32 0, i32 2
  %plan = load ptr, ptr %p.plan
  %p.running = getelementptr i64, ptr %plan, i64 1
  %running = load atomic i64, ptr %p.running acquire, align 8
  %idle = icmp eq i64 %running, 0
  br i1 %idle, label %index, label %python
python:
  %slow = call ptr @PyTuple_GetItem(ptr %self, i64 1)
  %answer = call ptr @PyObject_Vectorcall(ptr %slow, ptr %args, i64 %nargs, ptr %names)
  ret ptr %answer

index:
  %o.index = load ptr, ptr %args
  %p.index.class = getelementptr i8, ptr %o.index, i64 $TYPE$
  %index.class = load ptr, ptr %p.index.class
  %index.fits = icmp eq ptr %index.class, @PyLong_Type
  br i1 %index.fits, label %position, label %python
position:                                           ; one that is too large for 64 bits comes back as -1
  %i = call i64 @PyLong_AsLongLongAndOverflow(ptr %o.index, ptr %overflow)
  %p.count = getelementptr %Table, ptr %table, i32 0, i32 3
  %count = load i64, ptr %p.count
  %inside = icmp ult i64 %i, %count
  br i1 %inside, label %look, label %python
look:
  %p.slots = getelementptr %Table, ptr %table, i32 0, i32 11
  %slots = load ptr, ptr %p.slots
  %slot = getelementptr %Slot, ptr %slots, i64 %i
  %kind = load i64, ptr %slot
  %p.goal = getelementptr %Slot, ptr %slot, i32 0, i32 2
  %goal = load ptr, ptr %p.goal
  %p.a = getelementptr %Slot, ptr %slot, i32 0, i32 3
  %a = load i64, ptr %p.a
  %p.b = getelementptr %Slot, ptr %slot, i32 0, i32 4
  %b = load i64, ptr %p.b
  %p.c = getelementptr %Slot, ptr %slot, i32 0, i32 5
  %c = load i64, ptr %p.c
  %p.value = getelementptr ptr, ptr %args, i64 1
  %value = load ptr, ptr %p.value
  %p.value.class = getelementptr i8, ptr %value, i64 $TYPE$
  %class = load ptr, ptr %p.value.class
  switch i64 %kind, label %python [ i64 1, label %float
                                    i64 2, label %float
                                    i64 3, label %integer
                                    i64 4, label %array
                                    i64 5, label %array ]

float:
  %is.float = icmp eq ptr %class, @PyFloat_Type
  br i1 %is.float, label %from.float, label %maybe.long
from.float:
  %x.1 = call double @PyFloat_AsDouble(ptr %value)
  br label %real
maybe.long:
  %is.long = icmp eq ptr %class, @PyLong_Type
  br i1 %is.long, label %from.long, label %python
from.long:
  %x.2 = call double @PyLong_AsDouble(ptr %value)
  %error = call ptr @PyErr_Occurred()
  %fine = icmp eq ptr %error, null
  br i1 %fine, label %real, label %forgive
forgive:
  call void @PyErr_Clear()
  br label %python
real:
  %x = phi double [ %x.1, %from.float ], [ %x.2, %from.long ]
  %wide = icmp eq i64 %kind, 2
  br i1 %wide, label %double, label %single
double:
  store double %x, ptr %goal
  br label %changed
single:                                             ; finite, and infinite in single precision: Python says so
  %y = fptrunc double %x to float
  %size.y = call float @llvm.fabs.f32(float %y)
  %size.x = call double @llvm.fabs.f64(double %x)
  %inf.y = fcmp oeq float %size.y, 0x7FF0000000000000
  %finite.x = fcmp olt double %size.x, 0x7FF0000000000000
  %too.large = and i1 %inf.y, %finite.x
  br i1 %too.large, label %python, label %store.single
store.single:
  %bits.y = bitcast float %y to i32
  %word.y = zext i32 %bits.y to i64
  store i64 %word.y, ptr %goal
  br label %changed

integer:
  %is.integer = icmp eq ptr %class, @PyLong_Type
  br i1 %is.integer, label %whole, label %python
whole:
  %n = call i64 @PyLong_AsLongLongAndOverflow(ptr %value, ptr %overflow)
  %over = load i32, ptr %overflow
  %no.overflow = icmp eq i32 %over, 0
  %above = icmp sge i64 %n, %a
  %below = icmp sle i64 %n, %b
  %between = and i1 %above, %below
  %takes = and i1 %between, %no.overflow
  br i1 %takes, label %store.integer, label %python
store.integer:
  %word.n = and i64 %n, %c
  store i64 %word.n, ptr %goal
  br label %changed

array:
  %p.class = getelementptr %Table, ptr %table, i32 0, i32 4
  %array.class = load ptr, ptr %p.class
  %is.array = icmp eq ptr %class, %array.class
  br i1 %is.array, label %type, label %python
type:
  %p.key.name = getelementptr %Table, ptr %table, i32 0, i32 6
  %key.name = load ptr, ptr %p.key.name
  %key = call ptr @dk_attribute(ptr %value, ptr %key.name)
  %key.bits = ptrtoint ptr %key to i64
  %same.type = icmp eq i64 %key.bits, %a
  br i1 %same.type, label %description, label %python
description:
  %p.packed.name = getelementptr %Table, ptr %table, i32 0, i32 7
  %packed.name = load ptr, ptr %p.packed.name
  %packed = call ptr @dk_attribute(ptr %value, ptr %packed.name)
  %has.packed = icmp ne ptr %packed, null
  br i1 %has.packed, label %access, label %python
access:                                             ; another shape may not fit the launch: Python looks at that
  %bytes = getelementptr i8, ptr %packed, i64 $CONTENTS$
  %both.bytes = sub i64 %b, 8
  %shape.bytes = lshr i64 %both.bytes, 1
  %new.shape = getelementptr i8, ptr %bytes, i64 8
  %old.shape = getelementptr i8, ptr %goal, i64 8
  %differs = call i32 @memcmp(ptr %new.shape, ptr %old.shape, i64 %shape.bytes)
  %same.shape = icmp eq i32 %differs, 0
  br i1 %same.shape, label %fits, label %python
fits:
  %written = icmp eq i64 %kind, 5
  br i1 %written, label %writable, label %take
writable:
  %p.writable.name = getelementptr %Table, ptr %table, i32 0, i32 8
  %writable.name = load ptr, ptr %p.writable.name
  %may.write = call ptr @dk_attribute(ptr %value, ptr %writable.name)
  %is.writable = icmp eq ptr %may.write, @_Py_TrueStruct
  br i1 %is.writable, label %memory, label %python
memory:
  %p.memory.name = getelementptr %Table, ptr %table, i32 0, i32 9
  %memory.name = load ptr, ptr %p.memory.name
  %memory.object = call ptr @dk_attribute(ptr %value, ptr %memory.name)
  %has.memory = icmp ne ptr %memory.object, null
  br i1 %has.memory, label %counter, label %python
counter:
  %p.where.name = getelementptr %Table, ptr %table, i32 0, i32 10
  %where.name = load ptr, ptr %p.where.name
  %where.object = call ptr @dk_attribute(ptr %memory.object, ptr %where.name)
  %has.where = icmp ne ptr %where.object, null
  br i1 %has.where, label %counted, label %python
counted:                                            ; 0 where nobody has asked for the counter yet
  %where = call ptr @PyLong_AsVoidPtr(ptr %where.object)
  %no.counter = icmp eq ptr %where, null
  br i1 %no.counter, label %python, label %count.there
count.there:
  %counter.goal = inttoptr i64 %c to ptr
  store ptr %where, ptr %counter.goal
  br label %take
take:
  call void @llvm.memcpy.p0.p0.i64(ptr %goal, ptr %bytes, i64 %b, i1 false)
  %p.list = getelementptr %Table, ptr %table, i32 0, i32 5
  %list = load ptr, ptr %p.list
  %p.leaf = getelementptr %Slot, ptr %slot, i32 0, i32 1
  %leaf = load i64, ptr %p.leaf
  %p.changed.1 = getelementptr %Table, ptr %table, i32 0, i32 1
  store i64 1, ptr %p.changed.1
  ; The last use of the table: what the list lets go of may end the record.
  call void @Py_IncRef(ptr %value)
  %set = call i32 @PyList_SetItem(ptr %list, i64 %leaf, ptr %value)
  br label %none

changed:
  %p.changed = getelementptr %Table, ptr %table, i32 0, i32 1
  store i64 1, ptr %p.changed
  br label %none
none:
  call void @Py_IncRef(ptr @_Py_NoneStruct)
  ret ptr @_Py_NoneStruct
}

declare float @llvm.fabs.f32(float)
declare double @llvm.fabs.f64(double)
"""
