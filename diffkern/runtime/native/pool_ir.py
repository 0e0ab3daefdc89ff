"""The native thread pool as LLVM IR text.

In: nothing but the platform. Out: a module for POSIX threads that exports ``dk_pool_reset``, ``dk_pool_configure``,
``dk_pool_run``, and ``dk_pool_call``, which is ``dk_pool_run`` in the form of a Python built-in function: a call costs
a tenth of one through ctypes. :mod:`diffkern.runtime.native.pool` says what they do for Python. How it works:

- A job is a range cut into chunks, a record on its submitter's stack, linked into one queue. Whoever works on it draws
  chunks from its cursor by an atomic addition, the submitter as well.
- A worker counts itself into ``refs`` while it holds a job, under the mutex and only while the job is in the queue. The
  submitter draws chunks until none is left, takes the job out of the queue, and waits for ``refs`` to become zero: then
  every chunk has run and nobody knows the record any more.
- A submitter waits only for workers inside chunks of its own job; a chunk that submits a job waits only for that. The
  waits form a tree, so nested calls cannot deadlock, and without workers everything still gets done.
- A run that Python's main thread submits looks for signals between two chunks, ten times in a second: it takes the
  interpreter's lock for that. If a handler raises (Ctrl-C), the job has no more chunks to draw; those that have begun
  are waited for, and the run ends with the exception.
- Waiting is a spin of ``spin_ns`` nanoseconds, then a condition variable: an idle pool uses no processor time.
"""

from __future__ import annotations

__all__ = ["EXTERNAL_NAMES", "MAX_WORKERS", "pool_ir"]

MAX_WORKERS = 1023

EXTERNAL_NAMES: frozenset[str] = frozenset(
    f"pthread_{name}"
    for name in (
        "mutex_init mutex_lock mutex_unlock cond_init cond_wait cond_signal cond_broadcast create attr_init "
        "attr_setstacksize attr_setdetachstate attr_destroy sigmask"
    ).split()
) | frozenset(
    "clock_gettime memset bzero __bzero sigfillset sigdelset "
    "PyLong_AsLongLong PyLong_FromLong PyErr_Occurred PyErr_SetString PyExc_TypeError "
    "PyEval_SaveThread PyEval_RestoreThread PyErr_CheckSignals PyThread_get_thread_ident".split()
)
"""What the module needs from the C library and from Python."""


def pool_ir(platform: str, machine: str) -> str:
    """Return the module's text.

    Parameters
    ----------
    platform : str
        ``sys.platform``: ``darwin``, or anything else for the constants of Linux.
    machine : str
        ``platform.machine()``, for the instruction that tells the processor that it is spinning.
    """
    mac = platform == "darwin"
    # Intrinsics rather than inline assembly, which would need LLVM's assembly parser set up.
    x86 = ("declare void @llvm.x86.sse2.pause()", "call void @llvm.x86.sse2.pause()")
    arm = ("declare void @llvm.aarch64.hint(i32)", "call void @llvm.aarch64.hint(i32 1)")
    none = ("; this processor has no pause", "; no pause")
    pause = {"x86_64": x86, "amd64": x86, "aarch64": arm, "arm64": arm}.get(machine.lower(), none)
    values = {
        "MAX_WORKERS": str(MAX_WORKERS),
        "CLOCK_MONOTONIC": "6" if mac else "1",
        "DETACHED": "2" if mac else "1",
        "SIG_SETMASK": "3" if mac else "2",
        "SIGBUS": "10" if mac else "7",
        "DECLARE_PAUSE": pause[0],
        "PAUSE": pause[1],
    }
    text = _TEXT
    for name, value in values.items():
        text = text.replace(f"${name}$", value)
    return text


_TEXT = r"""
; A job: three cache lines, so that drawing chunks does not disturb those who read what the job is.
;   0 fn  1 blocks  2 block_stride  3 n  4 chunk  5 first  6 step  7 count: how many chunks the job has
;   8 link: the next job in the queue, guarded by the mutex
;   9 refs: workers that hold the job; written under the mutex, read without
;  11 cursor: the next chunk to draw, 0 .. count
%Job = type { ptr, i64, i64, i64, i64, i64, i64, i64,  ptr, i64, [48 x i8],  i64 }

; Storage for a pthread_mutex_t or pthread_cond_t, larger than any platform's.
%Opaque = type [128 x i8]

@mutex = internal global %Opaque zeroinitializer, align 64
@work  = internal global %Opaque zeroinitializer, align 64  ; signalled for a new job or number of workers
@done  = internal global %Opaque zeroinitializer, align 64  ; signalled when a job's last worker leaves it

@ticket  = internal global i64 0, align 64                  ; rises whenever @work is signalled; spinners read it

@queue   = internal global ptr null, align 64               ; first job; this and the rest are guarded by the mutex
@idle    = internal global i64 0                            ; workers asleep on @work
@waiters = internal global i64 0                            ; submitters asleep on @done
@live    = internal global i64 0                            ; workers that exist
@alive   = internal global [$MAX_WORKERS$ x i8] zeroinitializer  ; by worker index

@workers = internal global i64 0, align 64                  ; workers that should exist; read without the mutex
@spin_ns = internal global i64 0                            ; likewise
@main    = internal global i64 0                            ; the thread of Python that handles signals

; A watch for signals, of a thread whose lock of the interpreter is given back:
;   0 the thread's state, to take the lock again   1 when to look next; 0 before the first look
%Watch = type { ptr, i64 }

declare i32 @pthread_mutex_init(ptr, ptr)
declare i32 @pthread_mutex_lock(ptr)
declare i32 @pthread_mutex_unlock(ptr)
declare i32 @pthread_cond_init(ptr, ptr)
declare i32 @pthread_cond_wait(ptr, ptr)
declare i32 @pthread_cond_signal(ptr)
declare i32 @pthread_cond_broadcast(ptr)
declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_attr_init(ptr)
declare i32 @pthread_attr_setstacksize(ptr, i64)
declare i32 @pthread_attr_setdetachstate(ptr, i32)
declare i32 @pthread_attr_destroy(ptr)
declare i32 @pthread_sigmask(i32, ptr, ptr)
declare i32 @sigfillset(ptr)
declare i32 @sigdelset(ptr, i32)
declare i32 @clock_gettime(i32, ptr)
declare i64 @PyLong_AsLongLong(ptr)
declare ptr @PyLong_FromLong(i64)
declare ptr @PyErr_Occurred()
declare void @PyErr_SetString(ptr, ptr)
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
declare i32 @PyErr_CheckSignals()
declare i64 @PyThread_get_thread_ident()
@PyExc_TypeError = external global ptr
@message = internal constant [24 x i8] c"expected seven integers\00"

declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
declare i64 @llvm.umin.i64(i64, i64)
$DECLARE_PAUSE$

; Make the state that of a pool without threads and jobs. Called once after loading, and in the child after a fork,
; where the workers are gone and the mutex may have been held by one of them. The number of workers wanted is kept.
define void @dk_pool_reset() {
  call void @llvm.memset.p0.i64(ptr @mutex, i8 0, i64 128, i1 false)
  call void @llvm.memset.p0.i64(ptr @work, i8 0, i64 128, i1 false)
  call void @llvm.memset.p0.i64(ptr @done, i8 0, i64 128, i1 false)
  call void @llvm.memset.p0.i64(ptr @alive, i8 0, i64 $MAX_WORKERS$, i1 false)
  %a = call i32 @pthread_mutex_init(ptr @mutex, ptr null)
  %b = call i32 @pthread_cond_init(ptr @work, ptr null)
  %c = call i32 @pthread_cond_init(ptr @done, ptr null)
  store ptr null, ptr @queue
  store i64 0, ptr @idle
  store i64 0, ptr @waiters
  store i64 0, ptr @live
  ret void
}

; Set how many workers there should be and how long waiting threads spin. Missing workers are made by the next job that
; can use them; surplus ones leave as soon as they look.
define void @dk_pool_configure(i64 %workers, i64 %spin_ns) {
  %l = call i32 @pthread_mutex_lock(ptr @mutex)
  store atomic i64 %workers, ptr @workers monotonic, align 8
  store atomic i64 %spin_ns, ptr @spin_ns monotonic, align 8
  %t = atomicrmw add ptr @ticket, i64 1 release
  %u = call i32 @pthread_mutex_unlock(ptr @mutex)
  %w = call i32 @pthread_cond_broadcast(ptr @work)
  ret void
}

; Say which thread of Python handles signals.
define void @dk_pool_watch(i64 %thread) {
  store atomic i64 %thread, ptr @main monotonic, align 8
  ret void
}

; For whoever is not Python.
define i32 @dk_pool_run(ptr %fn, i64 %blocks, i64 %stride, i64 %n, i64 %chunk, i64 %first, i64 %step) uwtable {
  %status = call i32 @run(ptr %fn, i64 %blocks, i64 %stride, i64 %n, i64 %chunk, i64 %first, i64 %step, ptr null)
  ret i32 %status
}

; Run chunks first, first+step, ... of the range [0, n) cut into chunks. Returns 0, or 1 if the numbers make no sense,
; or 2 if a handler of signals has raised an exception; %watch is null where nobody handles signals.
define internal i32 @run(ptr %fn, i64 %blocks, i64 %stride, i64 %n, i64 %chunk, i64 %first, i64 %step, ptr %watch)
    uwtable {
entry:
  %job = alloca %Job, align 64
  %n.ok = icmp sge i64 %n, 0
  %chunk.ok = icmp sgt i64 %chunk, 0
  %first.ok = icmp sge i64 %first, 0
  %step.ok = icmp sgt i64 %step, 0
  %ok.1 = and i1 %n.ok, %chunk.ok
  %ok.2 = and i1 %first.ok, %step.ok
  %ok = and i1 %ok.1, %ok.2
  br i1 %ok, label %size, label %invalid
invalid:
  ret i32 1

size:                                               ; most launches are one chunk, and quickly done
  %one = icmp sle i64 %n, %chunk
  br i1 %one, label %at.once, label %cut
at.once:
  %begins = icmp eq i64 %first, 0
  %threads = icmp ne i64 %n, 0
  %here = and i1 %begins, %threads
  br i1 %here, label %call, label %called
call:
  call void %fn(i64 %blocks, i64 0, i64 %n)
  br label %called
called:
  ret i32 0

cut:                                                ; total = ceil(n / chunk), without overflow
  %n.1 = add i64 %n, -1
  %quotient = sdiv i64 %n.1, %chunk
  %total = add i64 %quotient, 1
  %some = icmp slt i64 %first, %total
  br i1 %some, label %fill, label %finish

fill:                                               ; count = chunks from first in steps of step
  %last = add i64 %total, -1
  %span = sub i64 %last, %first
  %steps = udiv i64 %span, %step
  %count = add i64 %steps, 1
  store ptr %fn, ptr %job
  %p.blocks = getelementptr %Job, ptr %job, i32 0, i32 1
  store i64 %blocks, ptr %p.blocks
  %p.stride = getelementptr %Job, ptr %job, i32 0, i32 2
  store i64 %stride, ptr %p.stride
  %p.n = getelementptr %Job, ptr %job, i32 0, i32 3
  store i64 %n, ptr %p.n
  %p.chunk = getelementptr %Job, ptr %job, i32 0, i32 4
  store i64 %chunk, ptr %p.chunk
  %p.first = getelementptr %Job, ptr %job, i32 0, i32 5
  store i64 %first, ptr %p.first
  %p.step = getelementptr %Job, ptr %job, i32 0, i32 6
  store i64 %step, ptr %p.step
  %p.count = getelementptr %Job, ptr %job, i32 0, i32 7
  store i64 %count, ptr %p.count
  %p.link = getelementptr %Job, ptr %job, i32 0, i32 8
  store ptr null, ptr %p.link
  %p.refs = getelementptr %Job, ptr %job, i32 0, i32 9
  store i64 0, ptr %p.refs
  %p.cursor = getelementptr %Job, ptr %job, i32 0, i32 11
  store i64 0, ptr %p.cursor
  %workers = load atomic i64, ptr @workers monotonic, align 8
  %single = icmp eq i64 %count, 1
  %alone = icmp eq i64 %workers, 0
  %inline = or i1 %single, %alone
  br i1 %inline, label %run.inline, label %submit

run.inline:
  %stopped.alone = call i1 @draw(ptr %job, ptr %watch)
  br label %finish

submit:
  %lock.1 = call i32 @pthread_mutex_lock(ptr @mutex)
  %live = load i64, ptr @live
  %short = icmp slt i64 %live, %workers
  br i1 %short, label %hire, label %enqueue
hire:
  call void @start_workers(i64 %workers)
  br label %enqueue
enqueue:                                            ; append at the end: the oldest job is served first
  %slot = phi ptr [ @queue, %submit ], [ @queue, %hire ], [ %slot.next, %onward ]
  %there = load ptr, ptr %slot
  %free = icmp eq ptr %there, null
  br i1 %free, label %append, label %onward
onward:
  %slot.next = getelementptr %Job, ptr %there, i32 0, i32 8
  br label %enqueue
append:
  store ptr %job, ptr %slot
  %t = atomicrmw add ptr @ticket, i64 1 release
  %sleeping = load i64, ptr @idle
  %unlock.1 = call i32 @pthread_mutex_unlock(ptr @mutex)
  %others = add i64 %count, -1
  %wanted = call i64 @llvm.umin.i64(i64 %sleeping, i64 %others)
  br label %wake
wake:                                               ; outside the mutex, or the woken would queue up for it
  %left = phi i64 [ %wanted, %append ], [ %left.next, %wake.one ]
  %awake = icmp eq i64 %left, 0
  br i1 %awake, label %take.part, label %wake.one
wake.one:
  %s = call i32 @pthread_cond_signal(ptr @work)
  %left.next = add i64 %left, -1
  br label %wake

take.part:
  %stopped.here = call i1 @draw(ptr %job, ptr %watch)
  %lock.2 = call i32 @pthread_mutex_lock(ptr @mutex)
  br label %search
search:                                             ; take the job out: from here on no worker can find it
  %at = phi ptr [ @queue, %take.part ], [ %at.next, %search.on ]
  %candidate = load ptr, ptr %at
  %mine = icmp eq ptr %candidate, %job
  br i1 %mine, label %remove, label %search.on
search.on:
  %at.next = getelementptr %Job, ptr %candidate, i32 0, i32 8
  br label %search
remove:
  %behind = load ptr, ptr %p.link
  store ptr %behind, ptr %at
  %held = load i64, ptr %p.refs
  %unlock.2 = call i32 @pthread_mutex_unlock(ptr @mutex)
  %all.done = icmp eq i64 %held, 0
  br i1 %all.done, label %finish, label %wait

wait:
  %left.in.time = call i1 @spin(ptr %p.refs, i64 0, i1 true)
  br i1 %left.in.time, label %finish, label %sleep
sleep:
  %lock.3 = call i32 @pthread_mutex_lock(ptr @mutex)
  br label %check
check:
  %refs = load atomic i64, ptr %p.refs acquire, align 8
  %gone = icmp eq i64 %refs, 0
  br i1 %gone, label %leave, label %doze
doze:
  %waiters = load i64, ptr @waiters
  %waiters.more = add i64 %waiters, 1
  store i64 %waiters.more, ptr @waiters
  %slept = call i32 @pthread_cond_wait(ptr @done, ptr @mutex)
  %waiters.now = load i64, ptr @waiters
  %waiters.less = add i64 %waiters.now, -1
  store i64 %waiters.less, ptr @waiters
  br label %check
leave:
  %unlock.3 = call i32 @pthread_mutex_unlock(ptr @mutex)
  br label %finish

finish:
  %stopped = phi i1 [ false, %cut ], [ %stopped.alone, %run.inline ], [ %stopped.here, %remove ],
                    [ %stopped.here, %wait ], [ %stopped.here, %leave ]
  %answer = select i1 %stopped, i32 2, i32 0
  ret i32 %answer
}

; dk_pool_run as a built-in function of seven integers (METH_FASTCALL). Python's lock is released around the run.
; uwtable: at exit Python ends a thread that comes back from the run by unwinding its stack.
define ptr @dk_pool_call(ptr %self, ptr %arguments, i64 %given) uwtable {
entry:
  %seven = icmp eq i64 %given, 7
  br i1 %seven, label %convert, label %refuse
refuse:
  %type.error = load ptr, ptr @PyExc_TypeError
  call void @PyErr_SetString(ptr %type.error, ptr @message)
  ret ptr null
convert:
  %o.fn = load ptr, ptr %arguments
  %fn = call i64 @PyLong_AsLongLong(ptr %o.fn)
  %p.blocks = getelementptr ptr, ptr %arguments, i64 1
  %o.blocks = load ptr, ptr %p.blocks
  %blocks = call i64 @PyLong_AsLongLong(ptr %o.blocks)
  %p.stride = getelementptr ptr, ptr %arguments, i64 2
  %o.stride = load ptr, ptr %p.stride
  %stride = call i64 @PyLong_AsLongLong(ptr %o.stride)
  %p.n = getelementptr ptr, ptr %arguments, i64 3
  %o.n = load ptr, ptr %p.n
  %n = call i64 @PyLong_AsLongLong(ptr %o.n)
  %p.chunk = getelementptr ptr, ptr %arguments, i64 4
  %o.chunk = load ptr, ptr %p.chunk
  %chunk = call i64 @PyLong_AsLongLong(ptr %o.chunk)
  %p.first = getelementptr ptr, ptr %arguments, i64 5
  %o.first = load ptr, ptr %p.first
  %first = call i64 @PyLong_AsLongLong(ptr %o.first)
  %p.step = getelementptr ptr, ptr %arguments, i64 6
  %o.step = load ptr, ptr %p.step
  %step = call i64 @PyLong_AsLongLong(ptr %o.step)
  %error = call ptr @PyErr_Occurred()
  %fine = icmp eq ptr %error, null
  br i1 %fine, label %run, label %raise
raise:
  ret ptr null
run:
  %watch = alloca %Watch, align 8
  %kernel = inttoptr i64 %fn to ptr
  call void @let_python_run(ptr %watch)
  %status = call i32 @run(ptr %kernel, i64 %blocks, i64 %stride, i64 %n, i64 %chunk, i64 %first, i64 %step, ptr %watch)
  call void @come_back(ptr %watch)
  %interrupted = icmp eq i32 %status, 2
  br i1 %interrupted, label %raise, label %return
return:
  %wide = sext i32 %status to i64
  %result = call ptr @PyLong_FromLong(i64 %wide)
  ret ptr %result
}

; Give the interpreter's lock back, and take it again.
define internal void @let_python_run(ptr %watch) uwtable {
  %thread = call ptr @PyEval_SaveThread()
  store ptr %thread, ptr %watch
  %p.due = getelementptr %Watch, ptr %watch, i32 0, i32 1
  store i64 0, ptr %p.due
  ret void
}

define internal void @come_back(ptr %watch) uwtable {
  %thread = load ptr, ptr %watch
  call void @PyEval_RestoreThread(ptr %thread)
  ret void
}

; Let Python handle signals if it is time to. Returns whether a handler has raised an exception, which is pending then.
define internal i1 @interrupted(ptr %watch, i64 %time) uwtable {
entry:
  %p.due = getelementptr %Watch, ptr %watch, i32 0, i32 1
  %due = load i64, ptr %p.due
  %wait = icmp slt i64 %time, %due
  br i1 %wait, label %no, label %look
no:
  ret i1 false
look:
  %next = add i64 %time, 100000000
  %begun = icmp ne i64 %due, 0
  br i1 %begun, label %ask, label %begin
begin:                                              ; other threads than the main one never look again
  %thread = call i64 @PyThread_get_thread_ident()
  %handler = load atomic i64, ptr @main monotonic, align 8
  %handles = icmp eq i64 %thread, %handler
  %first = select i1 %handles, i64 %next, i64 9223372036854775807
  store i64 %first, ptr %p.due
  ret i1 false
ask:
  store i64 %next, ptr %p.due
  call void @come_back(ptr %watch)
  %raised = call i32 @PyErr_CheckSignals()
  %state = call ptr @PyEval_SaveThread()
  store ptr %state, ptr %watch
  %yes = icmp ne i32 %raised, 0
  ret i1 %yes
}

; How many pieces of work to do between two looks at the clock: more of quick ones, that %between took from %before on.
define internal i64 @until_next_look(i64 %between, i64 %before, i64 %time, i64 %least, i64 %most) {
  %spent = sub i64 %time, %before
  %quick = icmp slt i64 %spent, 1000000
  %twice = shl i64 %between, 1
  %more = call i64 @llvm.umin.i64(i64 %twice, i64 %most)
  %next = select i1 %quick, i64 %more, i64 %least
  ret i64 %next
}

; Draw chunks of a job and run them until none is left. Returns whether a handler of signals has ended it.
define internal i1 @draw(ptr %job, ptr %watch) uwtable {
entry:
  %fn = load ptr, ptr %job
  %p.blocks = getelementptr %Job, ptr %job, i32 0, i32 1
  %blocks = load i64, ptr %p.blocks
  %p.stride = getelementptr %Job, ptr %job, i32 0, i32 2
  %stride = load i64, ptr %p.stride
  %p.n = getelementptr %Job, ptr %job, i32 0, i32 3
  %n = load i64, ptr %p.n
  %p.chunk = getelementptr %Job, ptr %job, i32 0, i32 4
  %chunk = load i64, ptr %p.chunk
  %p.first = getelementptr %Job, ptr %job, i32 0, i32 5
  %first = load i64, ptr %p.first
  %p.step = getelementptr %Job, ptr %job, i32 0, i32 6
  %step = load i64, ptr %p.step
  %p.count = getelementptr %Job, ptr %job, i32 0, i32 7
  %count = load i64, ptr %p.count
  %cursor = getelementptr %Job, ptr %job, i32 0, i32 11
  br label %next
next:
  %skip = phi i64 [ 0, %entry ], [ 0, %run ], [ %skip, %more.left ], [ %skip.less, %skipped ], [ %skip.next, %listen ]
  %between = phi i64 [ 1, %entry ], [ 1, %run ], [ %between, %more.left ], [ %between, %skipped ],
                     [ %between.next, %listen ]
  %before = phi i64 [ 0, %entry ], [ 0, %run ], [ %before, %more.left ], [ %before, %skipped ], [ %time, %listen ]
  %k = atomicrmw add ptr %cursor, i64 1 monotonic
  %more = icmp slt i64 %k, %count
  br i1 %more, label %run, label %exhausted
run:
  %k.step = mul i64 %k, %step
  %c = add i64 %first, %k.step
  %lo = mul i64 %c, %chunk
  %rest = sub i64 %n, %lo
  %length = call i64 @llvm.umin.i64(i64 %rest, i64 %chunk)
  %hi = add i64 %lo, %length
  %offset = mul i64 %c, %stride
  %block = add i64 %blocks, %offset
  call void %fn(i64 %block, i64 %lo, i64 %hi)
  %watched = icmp ne ptr %watch, null
  br i1 %watched, label %more.left, label %next
more.left:
  %drawn = load atomic i64, ptr %cursor monotonic, align 8
  %left = icmp slt i64 %drawn, %count
  br i1 %left, label %due, label %next
due:
  %listens = icmp eq i64 %skip, 0
  br i1 %listens, label %listen, label %skipped
skipped:
  %skip.less = add i64 %skip, -1
  br label %next
listen:
  %time = call i64 @now()
  %raised = call i1 @interrupted(ptr %watch, i64 %time)
  %between.next = call i64 @until_next_look(i64 %between, i64 %before, i64 %time, i64 1, i64 16)
  %skip.next = add i64 %between.next, -1
  br i1 %raised, label %stop, label %next
stop:
  %at = atomicrmw xchg ptr %cursor, i64 %count monotonic
  ret i1 true
exhausted:
  ret i1 false
}

; What a worker does all its life. Its argument is its index.
define internal ptr @worker(ptr %argument) uwtable {
entry:
  %index = ptrtoint ptr %argument to i64
  %lock.1 = call i32 @pthread_mutex_lock(ptr @mutex)
  br label %look
look:                                               ; the mutex is held
  %workers = load atomic i64, ptr @workers monotonic, align 8
  %surplus = icmp sge i64 %index, %workers
  br i1 %surplus, label %quit, label %find
quit:
  %mark = getelementptr [$MAX_WORKERS$ x i8], ptr @alive, i64 0, i64 %index
  store i8 0, ptr %mark
  %live = load i64, ptr @live
  %live.less = add i64 %live, -1
  store i64 %live.less, ptr @live
  %unlock.1 = call i32 @pthread_mutex_unlock(ptr @mutex)
  ret ptr null

find:                                               ; the first job that has chunks left
  %at = phi ptr [ @queue, %look ], [ %at.next, %find.on ]
  %job = load ptr, ptr %at
  %none = icmp eq ptr %job, null
  br i1 %none, label %wait, label %inspect
inspect:
  %p.count = getelementptr %Job, ptr %job, i32 0, i32 7
  %count = load i64, ptr %p.count
  %p.cursor = getelementptr %Job, ptr %job, i32 0, i32 11
  %cursor = load atomic i64, ptr %p.cursor monotonic, align 8
  %open = icmp slt i64 %cursor, %count
  br i1 %open, label %hold, label %find.on
find.on:
  %at.next = getelementptr %Job, ptr %job, i32 0, i32 8
  br label %find

hold:
  %p.refs = getelementptr %Job, ptr %job, i32 0, i32 9
  %refs.1 = load i64, ptr %p.refs
  %refs.more = add i64 %refs.1, 1
  store atomic i64 %refs.more, ptr %p.refs monotonic, align 8
  %unlock.2 = call i32 @pthread_mutex_unlock(ptr @mutex)
  %done = call i1 @draw(ptr %job, ptr null)
  %lock.2 = call i32 @pthread_mutex_lock(ptr @mutex)
  %refs.2 = load i64, ptr %p.refs
  %refs.less = add i64 %refs.2, -1
  %waiters = load i64, ptr @waiters
  ; With this store the submitter may return: the job must not be touched any more.
  store atomic i64 %refs.less, ptr %p.refs release, align 8
  %last = icmp eq i64 %refs.less, 0
  %awaited = icmp ne i64 %waiters, 0
  %tell = and i1 %last, %awaited
  br i1 %tell, label %announce, label %look
announce:
  %b = call i32 @pthread_cond_broadcast(ptr @done)
  br label %look

wait:
  %seen = load atomic i64, ptr @ticket monotonic, align 8
  %unlock.3 = call i32 @pthread_mutex_unlock(ptr @mutex)
  %came = call i1 @spin(ptr @ticket, i64 %seen, i1 false)
  %lock.3 = call i32 @pthread_mutex_lock(ptr @mutex)
  %now = load atomic i64, ptr @ticket monotonic, align 8
  %same = icmp eq i64 %now, %seen
  br i1 %same, label %sleep, label %look
sleep:
  %idle = load i64, ptr @idle
  %idle.more = add i64 %idle, 1
  store i64 %idle.more, ptr @idle
  %slept = call i32 @pthread_cond_wait(ptr @work, ptr @mutex)
  %idle.now = load i64, ptr @idle
  %idle.less = add i64 %idle.now, -1
  store i64 %idle.less, ptr @idle
  br label %look
}

; Make the workers that are missing. The mutex is held. A thread that the system refuses is left out: the pool is right
; with any number of workers, and the next job tries again.
define internal void @start_workers(i64 %workers) {
entry:
  %attributes = alloca %Opaque, align 64
  %thread = alloca i64, align 8
  %blocked = alloca %Opaque, align 64
  %before = alloca %Opaque, align 64
  %a = call i32 @pthread_attr_init(ptr %attributes)
  ; 8 MiB, as a main thread has: others get half a MiB or less on macOS and musl, and kernels keep residuals there.
  %b = call i32 @pthread_attr_setstacksize(ptr %attributes, i64 8388608)
  %c = call i32 @pthread_attr_setdetachstate(ptr %attributes, i32 $DETACHED$)
  ; Signals are for Python's threads; those that tell of a fault in the code itself are for whoever runs it.
  %d = call i32 @sigfillset(ptr %blocked)
  %ill = call i32 @sigdelset(ptr %blocked, i32 4)
  %trap = call i32 @sigdelset(ptr %blocked, i32 5)
  %abrt = call i32 @sigdelset(ptr %blocked, i32 6)
  %bus = call i32 @sigdelset(ptr %blocked, i32 $SIGBUS$)
  %fpe = call i32 @sigdelset(ptr %blocked, i32 8)
  %segv = call i32 @sigdelset(ptr %blocked, i32 11)
  %e = call i32 @pthread_sigmask(i32 $SIG_SETMASK$, ptr %blocked, ptr %before)
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %i.next, %next ]
  %more = icmp slt i64 %i, %workers
  br i1 %more, label %examine, label %finish
examine:
  %mark = getelementptr [$MAX_WORKERS$ x i8], ptr @alive, i64 0, i64 %i
  %alive = load i8, ptr %mark
  %missing = icmp eq i8 %alive, 0
  br i1 %missing, label %create, label %next
create:
  %argument = inttoptr i64 %i to ptr
  %failed = call i32 @pthread_create(ptr %thread, ptr %attributes, ptr @worker, ptr %argument)
  %created = icmp eq i32 %failed, 0
  br i1 %created, label %count, label %finish
count:
  store i8 1, ptr %mark
  %live = load i64, ptr @live
  %live.more = add i64 %live, 1
  store i64 %live.more, ptr @live
  br label %next
next:
  %i.next = add i64 %i, 1
  br label %loop
finish:
  %f = call i32 @pthread_sigmask(i32 $SIG_SETMASK$, ptr %before, ptr null)
  %g = call i32 @pthread_attr_destroy(ptr %attributes)
  ret void
}

; Spin until (*p == value) is what is wanted, or spin_ns have passed. Returns whether it came true.
define internal i1 @spin(ptr %p, i64 %value, i1 %wanted) {
entry:
  %limit = load atomic i64, ptr @spin_ns monotonic, align 8
  %start = call i64 @now()
  br label %burst
burst:
  %i = phi i64 [ 0, %entry ], [ %i.next, %again ], [ 0, %clock ]
  %v = load atomic i64, ptr %p acquire, align 8
  %equal = icmp eq i64 %v, %value
  %true.now = icmp eq i1 %equal, %wanted
  br i1 %true.now, label %finish, label %rest
rest:
  $PAUSE$
  %i.next = add i64 %i, 1
  %asked.enough = icmp eq i64 %i.next, 16
  br i1 %asked.enough, label %clock, label %again
again:
  br label %burst
clock:
  %time = call i64 @now()
  %spent = sub i64 %time, %start
  %over = icmp sge i64 %spent, %limit
  br i1 %over, label %finish, label %burst
finish:
  %result = phi i1 [ true, %burst ], [ false, %clock ]
  ret i1 %result
}

; Nanoseconds of a clock that only goes forward.
define internal i64 @now() {
  %time = alloca { i64, i64 }, align 16
  %r = call i32 @clock_gettime(i32 $CLOCK_MONOTONIC$, ptr %time)
  %seconds = load i64, ptr %time
  %p.nanoseconds = getelementptr { i64, i64 }, ptr %time, i32 0, i32 1
  %nanoseconds = load i64, ptr %p.nanoseconds
  %scaled = mul i64 %seconds, 1000000000
  %sum = add i64 %scaled, %nanoseconds
  ret i64 %sum
}
"""
