"""Prepared launches in native code, as LLVM IR text that joins the thread pool's module.

In: plans, records of 64-bit words that Python fills. Out: ``dk_replay_call``, a Python built-in function that runs a
plan without any Python in between; ``dk_replay_run``, one that never turns to Python instead; and kernels with the
pool's signature for copies, fills and sums of contiguous memory. A built-in's ``self`` is a tuple (address of the plan,
Python function for all unusual cases, owner of the memory): CPython keeps it for as long as the built-in lives.
:mod:`diffkern.runtime.native.replay` fills the plans and says what the words are.
"""

from __future__ import annotations

import sys

__all__ = ["REPLAY_EXTERNAL_NAMES", "REPLAY_NAMES", "replay_ir"]

REPLAY_NAMES = ("dk_replay_call", "dk_replay_run", "dk_copy_bytes", "dk_clear_bytes", "dk_add_f32", "dk_add_f64")

REPLAY_EXTERNAL_NAMES: frozenset[str] = frozenset(
    "PyTuple_GetItem PyLong_AsVoidPtr PyObject_Vectorcall Py_IncRef _Py_NoneStruct memcpy memmove "
    "PyTuple_New PyTuple_SetItem PyTuple_Size PyDict_New PyDict_SetItem PyObject_Call Py_DecRef".split()
)
"""What the module needs from the C library and from Python."""


def replay_ir() -> str:
    """Return the text; it uses the pool's ``run``, ``interrupted`` and ``now``."""
    text = _TEXT + (_VECTORCALL if sys.version_info >= (3, 11) else _CALL)
    for name, scalar, size in (("f32", "float", "4"), ("f64", "double", "8")):
        text += _ADD.replace("$NAME$", name).replace("$SCALAR$", scalar).replace("$SIZE$", size)
    return text


_TEXT = r"""
; A plan:
;   0 flags: not 0 sends every call to Python   1 running: calls in progress   2 address of the process' attention word
;   3 number of counters   4 addresses of the counters: changes of the memory that the plan writes
;   5 number of steps   6 address of the steps   7 address where times are stored, one more than steps, or 0
%Plan = type { i64, i64, ptr, i64, ptr, i64, ptr, ptr }
; A step: 0 fn  1 block  2 bytes of the block  3 n  4 chunk  5 colours  6 partial sums  7 finish  8 chunks
%Step = type { ptr, ptr, i64, i64, i64, i64, i64, ptr, i64 }

declare ptr @PyTuple_GetItem(ptr, i64)
declare ptr @PyTuple_New(i64)
declare i32 @PyTuple_SetItem(ptr, i64, ptr)
declare ptr @PyLong_AsVoidPtr(ptr)
declare void @Py_IncRef(ptr)
declare void @Py_DecRef(ptr)
@_Py_NoneStruct = external global i8
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare void @llvm.memmove.p0.p0.i64(ptr, ptr, i64, i1)

; One step. A program with partial sums gets a copy of its block that names a place for them on this stack, so that any
; number of threads may run it at once.
define internal i32 @dk_step(ptr %s, ptr %watch) uwtable {
entry:
  %fn = load ptr, ptr %s
  %p.block = getelementptr %Step, ptr %s, i32 0, i32 1
  %block = load ptr, ptr %p.block
  %p.n = getelementptr %Step, ptr %s, i32 0, i32 3
  %n = load i64, ptr %p.n
  %p.chunk = getelementptr %Step, ptr %s, i32 0, i32 4
  %chunk = load i64, ptr %p.chunk
  %p.colours = getelementptr %Step, ptr %s, i32 0, i32 5
  %colours = load i64, ptr %p.colours
  %p.partials = getelementptr %Step, ptr %s, i32 0, i32 6
  %partials = load i64, ptr %p.partials
  %summing = icmp ne i64 %partials, 0
  br i1 %summing, label %private, label %go
private:
  %p.bytes = getelementptr %Step, ptr %s, i32 0, i32 2
  %bytes = load i64, ptr %p.bytes
  %sums.bytes = mul i64 %partials, 8
  %total = add i64 %bytes, %sums.bytes
  %copy = alloca i8, i64 %total, align 64
  call void @llvm.memcpy.p0.p0.i64(ptr %copy, ptr %block, i64 %bytes, i1 false)
  %sums = getelementptr i8, ptr %copy, i64 %bytes
  %p.sums = getelementptr i8, ptr %copy, i64 48
  store ptr %sums, ptr %p.sums
  br label %go
go:
  %used = phi ptr [ %block, %entry ], [ %copy, %private ]
  %address = ptrtoint ptr %used to i64
  br label %loop
loop:
  %colour = phi i64 [ 0, %go ], [ %colour.next, %loop ]
  %status = call i32 @run(ptr %fn, i64 %address, i64 0, i64 %n, i64 %chunk, i64 %colour, i64 %colours, ptr %watch)
  %colour.next = add i64 %colour, 1
  %left = icmp slt i64 %colour.next, %colours
  %undisturbed = icmp eq i32 %status, 0
  %more = and i1 %left, %undisturbed
  br i1 %more, label %loop, label %ran
ran:
  %complete = and i1 %summing, %undisturbed
  br i1 %complete, label %finish, label %done
finish:
  %p.finish = getelementptr %Step, ptr %s, i32 0, i32 7
  %end = load ptr, ptr %p.finish
  %p.chunks = getelementptr %Step, ptr %s, i32 0, i32 8
  %chunks = load i64, ptr %p.chunks
  call void %end(i64 %address, i64 0, i64 %chunks)
  br label %done
done:
  ret i32 %status
}

; All steps, one after the other. Returns 0, or another number if a handler of signals has raised an exception.
define internal i32 @steps(ptr %plan, ptr %watch) uwtable {
entry:
  %p.count = getelementptr %Plan, ptr %plan, i32 0, i32 5
  %count = load i64, ptr %p.count
  %p.steps = getelementptr %Plan, ptr %plan, i32 0, i32 6
  %steps = load ptr, ptr %p.steps
  %p.times = getelementptr %Plan, ptr %plan, i32 0, i32 7
  %times = load ptr, ptr %p.times
  %timed = icmp ne ptr %times, null
  br label %next
next:
  %i = phi i64 [ 0, %entry ], [ %i.next, %count.on ], [ %i.next, %listen ]
  %rest = phi i64 [ 15, %entry ], [ %rest.next, %count.on ], [ %again, %listen ]
  %between = phi i64 [ 16, %entry ], [ %between, %count.on ], [ %between.next, %listen ]
  %before = phi i64 [ 0, %entry ], [ %before, %count.on ], [ %time, %listen ]
  br i1 %timed, label %stamp, label %check
stamp:
  %t = call i64 @now()
  %p.t = getelementptr i64, ptr %times, i64 %i
  store i64 %t, ptr %p.t
  br label %check
check:
  %more = icmp slt i64 %i, %count
  br i1 %more, label %run, label %done
run:
  %step = getelementptr %Step, ptr %steps, i64 %i
  %status = call i32 @dk_step(ptr %step, ptr %watch)
  %i.next = add i64 %i, 1
  %ended = icmp ne i32 %status, 0
  br i1 %ended, label %stop, label %count.on
count.on:                                           ; a look at the clock after 16 steps, or more if they are quick
  %rest.next = add i64 %rest, -1
  %due = icmp eq i64 %rest, 0
  br i1 %due, label %listen, label %next
listen:
  %time = call i64 @now()
  %raised = call i1 @interrupted(ptr %watch, i64 %time)
  %between.next = call i64 @until_next_look(i64 %between, i64 %before, i64 %time, i64 16, i64 256)
  %again = add i64 %between.next, -1
  br i1 %raised, label %stop, label %next
stop:
  ret i32 2
done:
  ret i32 0
}

; A built-in function without arguments that runs the plan, whatever its flags.
define ptr @dk_replay_run(ptr %self, ptr %args, i64 %nargs) uwtable {
entry:
  %watch = alloca %Watch, align 8
  %number = call ptr @PyTuple_GetItem(ptr %self, i64 0)
  %plan = call ptr @PyLong_AsVoidPtr(ptr %number)
  call void @let_python_run(ptr %watch)
  %status = call i32 @steps(ptr %plan, ptr %watch)
  call void @come_back(ptr %watch)
  %fine = icmp eq i32 %status, 0
  br i1 %fine, label %done, label %raise
raise:
  ret ptr null
done:
  call void @Py_IncRef(ptr @_Py_NoneStruct)
  ret ptr @_Py_NoneStruct
}

; A method with METH_FASTCALL and METH_KEYWORDS.
define ptr @dk_replay_call(ptr %self, ptr %args, i64 %nargs, ptr %names) uwtable {
entry:
  %number = call ptr @PyTuple_GetItem(ptr %self, i64 0)
  %plan = call ptr @PyLong_AsVoidPtr(ptr %number)
  %flags = load atomic i64, ptr %plan monotonic, align 8
  %p.attention = getelementptr %Plan, ptr %plan, i32 0, i32 2
  %attention = load ptr, ptr %p.attention
  %busy = load atomic i64, ptr %attention monotonic, align 8
  %named = ptrtoint ptr %names to i64
  %either = or i64 %flags, %busy
  %given = or i64 %nargs, %named
  %unusual = or i64 %either, %given
  %usual = icmp eq i64 %unusual, 0
  br i1 %usual, label %start, label %python
python:
  %slow = call ptr @PyTuple_GetItem(ptr %self, i64 1)
  %answer = call ptr @PyObject_Vectorcall(ptr %slow, ptr %args, i64 %nargs, ptr %names)
  ret ptr %answer
start:
  %p.running = getelementptr %Plan, ptr %plan, i32 0, i32 1
  %before = atomicrmw add ptr %p.running, i64 1 acquire
  %p.counters = getelementptr %Plan, ptr %plan, i32 0, i32 3
  %counters = load i64, ptr %p.counters
  %p.where = getelementptr %Plan, ptr %plan, i32 0, i32 4
  %where = load ptr, ptr %p.where
  br label %count
count:
  %i = phi i64 [ 0, %start ], [ %i.next, %bump ]
  %more = icmp slt i64 %i, %counters
  br i1 %more, label %bump, label %run
bump:
  %p.counter = getelementptr ptr, ptr %where, i64 %i
  %counter = load ptr, ptr %p.counter
  %old = atomicrmw add ptr %counter, i64 1 monotonic
  %i.next = add i64 %i, 1
  br label %count
run:
  %watch = alloca %Watch, align 8
  call void @let_python_run(ptr %watch)
  %status = call i32 @steps(ptr %plan, ptr %watch)
  %after = atomicrmw sub ptr %p.running, i64 1 release
  call void @come_back(ptr %watch)
  %fine = icmp eq i32 %status, 0
  br i1 %fine, label %ran, label %raise
raise:
  ret ptr null
ran:
  call void @Py_IncRef(ptr @_Py_NoneStruct)
  ret ptr @_Py_NoneStruct
}

; Blocks of the following: destination, source. Their ranges count bytes, or elements.
define void @dk_copy_bytes(i64 %block, i64 %lo, i64 %hi) uwtable {
  %b = inttoptr i64 %block to ptr
  %goal = load ptr, ptr %b
  %p.source = getelementptr i64, ptr %b, i64 1
  %source = load ptr, ptr %p.source
  %to = getelementptr i8, ptr %goal, i64 %lo
  %from = getelementptr i8, ptr %source, i64 %lo
  %length = sub i64 %hi, %lo
  call void @llvm.memmove.p0.p0.i64(ptr %to, ptr %from, i64 %length, i1 false)
  ret void
}

define void @dk_clear_bytes(i64 %block, i64 %lo, i64 %hi) uwtable {
  %b = inttoptr i64 %block to ptr
  %goal = load ptr, ptr %b
  %to = getelementptr i8, ptr %goal, i64 %lo
  %length = sub i64 %hi, %lo
  call void @llvm.memset.p0.i64(ptr %to, i8 0, i64 %length, i1 false)
  ret void
}
"""

_ADD = r"""
define void @dk_add_$NAME$(i64 %block, i64 %lo, i64 %hi) uwtable {
entry:
  %b = inttoptr i64 %block to ptr
  %goal = load ptr, ptr %b
  %p.source = getelementptr i64, ptr %b, i64 1
  %source = load ptr, ptr %p.source
  br label %next
next:
  %i = phi i64 [ %lo, %entry ], [ %i.next, %add ]
  %more = icmp slt i64 %i, %hi
  br i1 %more, label %add, label %done
add:
  %to = getelementptr $SCALAR$, ptr %goal, i64 %i
  %from = getelementptr $SCALAR$, ptr %source, i64 %i
  %a = load $SCALAR$, ptr %to, align $SIZE$
  %c = load $SCALAR$, ptr %from, align $SIZE$
  %sum = fadd $SCALAR$ %a, %c
  store $SCALAR$ %sum, ptr %to, align $SIZE$
  %i.next = add i64 %i, 1
  br label %next
done:
  ret void
}
"""

_VECTORCALL = "declare ptr @PyObject_Vectorcall(ptr, ptr, i64, ptr)\n"

# Python 3.10 has it in its headers alone.
_CALL = r"""
declare i64 @PyTuple_Size(ptr)
declare ptr @PyDict_New()
declare i32 @PyDict_SetItem(ptr, ptr, ptr)
declare ptr @PyObject_Call(ptr, ptr, ptr)

define internal ptr @PyObject_Vectorcall(ptr %function, ptr %args, i64 %nargs, ptr %names) uwtable {
entry:
  %tuple = call ptr @PyTuple_New(i64 %nargs)
  %no.tuple = icmp eq ptr %tuple, null
  br i1 %no.tuple, label %fail, label %each
fail:
  ret ptr null
each:
  %i = phi i64 [ 0, %entry ], [ %i.next, %put ]
  %more = icmp slt i64 %i, %nargs
  br i1 %more, label %put, label %keywords
put:
  %p.arg = getelementptr ptr, ptr %args, i64 %i
  %arg = load ptr, ptr %p.arg
  call void @Py_IncRef(ptr %arg)
  %set = call i32 @PyTuple_SetItem(ptr %tuple, i64 %i, ptr %arg)
  %i.next = add i64 %i, 1
  br label %each
keywords:
  %named = icmp ne ptr %names, null
  br i1 %named, label %dict, label %call.plain
call.plain:
  %plain = call ptr @PyObject_Call(ptr %function, ptr %tuple, ptr null)
  call void @Py_DecRef(ptr %tuple)
  ret ptr %plain
dict:
  %map = call ptr @PyDict_New()
  %no.map = icmp eq ptr %map, null
  br i1 %no.map, label %drop, label %size
drop:
  call void @Py_DecRef(ptr %tuple)
  ret ptr null
size:
  %count = call i64 @PyTuple_Size(ptr %names)
  br label %name
name:
  %k = phi i64 [ 0, %size ], [ %k.next, %enter ]
  %left = icmp slt i64 %k, %count
  br i1 %left, label %enter, label %call.named
enter:
  %key = call ptr @PyTuple_GetItem(ptr %names, i64 %k)
  %at = add i64 %nargs, %k
  %p.value = getelementptr ptr, ptr %args, i64 %at
  %value = load ptr, ptr %p.value
  %entered = call i32 @PyDict_SetItem(ptr %map, ptr %key, ptr %value)
  %k.next = add i64 %k, 1
  br label %name
call.named:
  %answer = call ptr @PyObject_Call(ptr %function, ptr %tuple, ptr %map)
  call void @Py_DecRef(ptr %tuple)
  call void @Py_DecRef(ptr %map)
  ret ptr %answer
}
"""
