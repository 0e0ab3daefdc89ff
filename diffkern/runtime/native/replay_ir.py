"""Prepared launches in native code.

Plans are records of 64-bit words that Python fills. ``dk_replay_call`` is a Python built-in function that runs a
plan without any Python in between; ``dk_replay_run`` one that never turns to Python instead; and there are kernels with
the pool's signature for copies, fills and sums of contiguous memory. A built-in's ``self`` is a tuple (address of the
plan, Python function for all unusual cases, owner of the memory): CPython keeps it for as long as the built-in lives.
:mod:`diffkern.runtime.native.replay` fills the plans and describes the words.
"""

from __future__ import annotations

import sys
from typing import Any

from diffkern.contracts import abi
from diffkern.runtime.native.builder import DOUBLE, FLOAT, I64, VOID, Code, Module, Variable, Word
from diffkern.runtime.native.copies_ir import add_copied_runs
from diffkern.runtime.native.device_ir import PLAN_PORT, RAISED, do_steps
from diffkern.runtime.native.draw_ir import COUNTED, SHARED, WATCH_WORDS, Looks, in_python, is_better_alone, learn

__all__ = ["add_replay"]

# A plan: 0 flags, not 0 sends every call to Python, or to a device; 1 running: calls in progress; 2 address of the
# process' attention word; 3 number of counters; 4 addresses of the counters: changes of the memory that the plan
# writes; 5 number of steps; 6 address of the steps; 7 address where times are stored, one more than steps, or 0. Of
# steps on a device also: 8 address of its port; 9 a tuple of names for the port to note, or 0; 10 the address of a
# word, or 0, and 11 what has to stand there.
_FLAGS, _RUNNING, _ATTENTION, _COUNTERS, _WHERE, _COUNT, _STEPS, _TIMES = range(0, 64, 8)
_NAMES, _STAMP, _EXPECTED = 72, 80, 88
_IS_DEVICE = 32
# A port: how many streams wait for the next launch, and Python's function that takes names.
_FOLLOWERS, _NOTE = 80, 88
# A step: fn, block, bytes of the block, n, chunk, colours, partial sums, finish, chunks, what each chunk has a copy of,
# what is replaced in the block: 0 how many words; then for each its place in the block, and what stands there instead;
# what is done with what its threads print: 0 the address of the room's words (whether its buffer is claimed; the
# address of the buffer), 1 Python's function that shows a buffer.
# A branch is a step with 0 in place of fn, and the address of its own words in place of the block.
_STEP_WORDS = 12
_BLOCK, _SIZE, _N, _FINISH, _CHUNKS, _COPIED, _REPLACED, _OUTPUT = 8, 16, 24, 56, 64, 72, 80, 88


def add_replay(m: Module, device_steps: Any) -> None:
    """Add the functions; they call the pool's, and for steps on a device those of ``device_ir``."""
    if sys.version_info < (3, 11):
        _vectorcall(m)
    _clear(m)
    add_copied_runs(m)
    step = _step(m)
    _run_step(m, step)
    steps = _steps(m, step)
    _run(m, steps)
    _call(m, steps, _call_device(m, device_steps))
    _copy(m)
    _add(m, "dk_add_f32", FLOAT, 4)
    _add(m, "dk_add_f64", DOUBLE, 8)


def _step(m: Module) -> Any:
    """``step(address, watch)``: run one step; 0, or the status that ended it.

    A program with partial sums gets a copy of its block that names a place for them on this stack, so that any number
    of threads may run it at once. So does one with other words in place of some of its block's.
    """
    made, c = m.routine("dk_step", 2)
    step, watch = made.args
    fn, marked = c.loads(step, 2)
    with c.when(c.compare("==", fn, 0)):
        c.leave(c.invoke(_branch(m, made), marked, watch))
    with c.when(c.compare("!=", c.load(step, _OUTPUT), 0)):
        c.leave(c.invoke(_printing(m, made), step, watch))
    block, mark = c.b.and_(marked, c.word(~abi.ALONE)), c.b.and_(marked, c.word(abi.ALONE))
    n, chunk, colours, partials = c.loads(c.add(step, _N), 4)
    used, lone, replaced = c.variable(block), c.variable(0), c.load(step, _REPLACED)
    summing = c.compare("!=", partials, 0)
    with c.when(c.any(summing, c.compare("!=", replaced, 0))):
        size = c.load(step, _SIZE)
        # The copy of the block, and behind it the partial sums: both end with this call.
        copy = c.words(c.add(c.ceil_div(size, 8), partials))
        c.copy(copy, block, size)
        c.store(c.add(copy, size), copy, abi.PARTIALS)
        with c.when(c.compare("!=", replaced, 0)):
            _replace(c, copy, replaced)
        used.set(copy)
    status, copied = c.variable(0), c.load(step, _COPIED)
    with c.either(_is_copied(c, fn, copied, mark, lone)) as (on_copies, plainly):
        with on_copies:
            size, start = c.load(step, _SIZE), c.invoke("dk_now")
            status.set(c.invoke("dk_run_copied", fn, used.get(), size, n, chunk, colours, copied, mark, watch))
            # Runs on copies share the table of atomic runs: both are what several threads take where elements are
            # updated.
            learn(c, SHARED, [fn, block, size, n, chunk], c.sub(c.invoke("dk_now"), start), c.ceil_div(n, chunk))
        with plainly:
            _colours(c, status, fn, c.b.or_(used.get(), mark), n, chunk, colours, watch)
    with c.when(c.compare("!=", lone.get(), 0)):
        c.atomic("sub", c.named("sole"), 1, "release")
    # The partial sums of all chunks are there only when every chunk has ended without an error.
    with c.when(c.all(summing, c.compare("==", status.get(), 0))):
        c.call(c.load(step, _FINISH), [used.get(), c.word(0), c.load(step, _CHUNKS)])
    c.leave(status.get())
    return made


def _branch(m: Module, run: Any) -> Any:
    """``branch(words, watch)``: run the steps of one side, or those of a loop; 0, or the status that ended it.

    The words: address of the flag, an int32; whether it is a loop; number and address of the steps that run where it
    is not 0; the same of those where it is.
    """
    several, inner = m.routine("dk_side", 3)
    steps, count, watch = several.args
    inner.leave(do_steps(inner, steps, count, _STEP_WORDS, watch, lambda step, _: inner.invoke(run, step, watch)))

    made, c = m.routine("dk_branch", 2)
    words, watch = made.args
    flag, is_loop, on_true, if_true, on_false, if_false = c.loads(words, 6)
    with c.when(c.compare("==", is_loop, 0)):
        holds = c.compare("!=", c.load32(flag), 0)
        c.leave(c.invoke(several, c.choose(holds, if_true, if_false), c.choose(holds, on_true, on_false), watch))
    status, looks = c.variable(0), Looks(c, 16, 256)
    with c.forever() as stop:
        stop(c.compare("==", c.load32(flag), 0))
        status.set(c.invoke(several, if_true, on_true, watch))
        stop(c.compare("!=", status.get(), 0))
        with looks.due() as time, c.when(c.compare("!=", c.invoke("dk_interrupted", watch, time, 0), 0)):
            status.set(RAISED)
        stop(c.compare("!=", status.get(), 0))
    c.leave(status.get())
    return made


def _printing(m: Module, run: Any) -> Any:
    """``printing(step, watch)``: run a step whose threads print, and show what they have; 0, or a status.

    Python is asked only if there is something to show. What was printed in front of an exception is not shown.
    """
    made, c = m.routine("dk_printing", 2)
    step, watch = made.args
    room, show = c.loads(c.load(step, _OUTPUT), 2)
    claimed = c.compare("==", c.atomic("xchg", room, 1, "acquire"), 0)
    shared = c.atomic_load(room, 8)
    count = c.load(shared, 8 * abi.OUTPUT_WORDS)
    buffer = c.variable(shared)
    with c.when(c.b.not_(claimed)):
        buffer.set(c.invoke("calloc", count, 8))
        with c.when(c.compare("!=", buffer.get(), 0)):
            c.store(abi.OUTPUT_TEXTS, buffer.get(), 8 * abi.OUTPUT_NEXT)
            c.store(count, buffer.get(), 8 * abi.OUTPUT_WORDS)
    # Without memory for it nothing is printed: no reason to end what other threads wait for.
    status = c.variable(_run_with_record(c, run, step, watch, buffer.get()))
    with c.when(c.compare("!=", buffer.get(), 0)):
        end = c.load(buffer.get(), 8 * abi.OUTPUT_NEXT)
        with c.when(c.compare("!=", end, abi.OUTPUT_TEXTS)):
            with c.when(c.compare("==", status.get(), 0)):
                status.set(_show(c, show, buffer.get(), watch))
            texts = c.sub(c.min(end, count), abi.OUTPUT_TEXTS)
            c.clear(c.add(buffer.get(), 8 * abi.OUTPUT_TEXTS), c.mul(texts, 8))
            c.store(0, buffer.get(), 8 * abi.OUTPUT_LOST)
            c.store(abi.OUTPUT_TEXTS, buffer.get(), 8 * abi.OUTPUT_NEXT)
    with c.either(claimed) as (own, other):
        with own:
            c.atomic_store(0, room, "release")
        with other:
            c.invoke("free", buffer.get())
    c.leave(status.get())
    return made


def _run_with_record(c: Code, run: Any, step: Word, watch: Word, buffer: Word) -> Word:
    """Run a step with a record that names a buffer, on this stack as the copy of its block that names the record."""
    record = c.words(abi.RECORD_STAMPS)
    c.clear(record, 8 * abi.RECORD_STAMPS)
    c.store(buffer, record, 8 * abi.RECORD_OUTPUT)
    marked, size = c.load(step, _BLOCK), c.load(step, _SIZE)
    block = c.words(c.ceil_div(size, 8))
    c.copy(block, c.b.and_(marked, c.word(~abi.ALONE)), size)
    c.store(record, block, abi.STATUS)
    own = c.words(_STEP_WORDS)
    c.copy(own, step, 8 * _STEP_WORDS)
    c.store(c.b.or_(block, c.b.and_(marked, c.word(abi.ALONE))), own, _BLOCK)
    c.store(0, own, _OUTPUT)
    return c.invoke(run, own, watch)


def _show(c: Code, show: Word, buffer: Word, watch: Word) -> Word:
    """Call Python's function for a buffer; return 0, or the status after an exception."""
    status, arguments = c.variable(0), c.words(1)
    with in_python(c, watch, c.word(0)) as raised:
        number = c.invoke("PyLong_FromLong", buffer)
        c.store(number, arguments)
        answer = c.invoke("PyObject_Vectorcall", show, arguments, 1, 0)
        c.invoke("Py_DecRef", number)
        with c.either(c.compare("==", answer, 0)) as (failed, done):
            with failed:
                raised.set(1)
            with done:
                c.invoke("Py_DecRef", answer)
    with c.when(c.compare("!=", raised.get(), 0)):
        status.set(RAISED)
    return status.get()


def _replace(c: Code, block: Word, replaced: Word) -> None:
    """Write the words that replace those of a block."""
    with c.loop(c.load(replaced)) as k:
        place, value = c.loads(c.add(replaced, c.add(c.mul(k, 16), 8)), 2)
        c.store(value, c.add(block, place))


def _is_copied(c: Code, fn: Word, copied: Word, mark: Word, lone: Variable) -> Any:
    """Return whether chunks have copies.

    Those of a kernel with atomic updates do if the run is alone, noted in `lone`, and one thread is not quicker.
    """
    is_marked = c.compare("!=", mark, 0)
    with c.when(c.all(c.compare("!=", copied, 0), is_marked)):
        lone.set(c.invoke("dk_claim"))
    pays = c.all(c.compare("!=", lone.get(), 0), c.b.not_(is_better_alone(c, [fn])))
    return c.all(c.compare("!=", copied, 0), c.any(c.b.not_(is_marked), pays))


def _colours(c: Code, status: Variable, *run: Word) -> None:
    """Run the chunks of one colour after those of the other."""
    fn, block, n, chunk, colours, watch = run
    colour = c.variable(0)
    with c.forever() as stop:
        status.set(c.invoke("dk_pool_cut", fn, block, 0, n, chunk, colour.get(), colours, watch))
        colour.set(c.add(colour.get(), 1))
        stop(c.any(c.compare("!=", status.get(), 0), c.compare(">=", colour.get(), colours)))


def _run_step(m: Module, run: Any) -> None:
    """A built-in function of the address of a step, which it runs."""
    made, c = m.routine("dk_step_run", 3, is_exported=True)
    step = c.invoke("PyLong_AsLongLong", c.load(made.args[1]))
    watch = c.words(WATCH_WORDS)
    c.invoke("dk_let_python_run", watch)
    status = c.invoke(run, step, watch)
    c.invoke("dk_come_back", watch)
    _leave(c, status)


def _steps(m: Module, run: Any) -> Any:
    """``steps(plan, watch)``: run all steps; 0, or not 0 if a signal handler has raised an exception."""
    made, c = m.routine("dk_steps", 2)
    plan, watch = made.args
    count, steps, times = (c.load(plan, at) for at in (_COUNT, _STEPS, _TIMES))

    def note_time(done: Word) -> None:
        with c.when(c.compare("!=", times, 0)):
            c.store(c.invoke("dk_now"), times, c.mul(done, 8))

    c.leave(do_steps(c, steps, count, _STEP_WORDS, watch, lambda step, _: c.invoke(run, step, watch), note_time))
    return made


def _plan(c: Code, itself: Word) -> Word:
    return c.invoke("PyLong_AsVoidPtr", c.invoke("PyTuple_GetItem", itself, 0))


def _leave(c: Code, status: Word) -> None:
    """Return None, or raise the pending exception."""
    with c.when(c.compare("!=", status, 0)):
        c.leave(0)
    c.leave_none()


def _run(m: Module, steps: Any) -> None:
    """A built-in function without arguments that runs the plan, whatever its flags."""
    made, c = m.routine("dk_replay_run", 3, is_exported=True)
    plan, watch = _plan(c, made.args[0]), c.words(WATCH_WORDS)
    running = c.add(plan, _RUNNING)
    # A call in progress as any other: whoever changes a block waits for it.
    c.atomic("add", running, 1, "acquire")
    c.invoke("dk_let_python_run", watch)
    c.store(running, watch, COUNTED)
    status = c.invoke(steps, plan, watch)
    c.atomic("sub", running, 1, "release")
    c.invoke("dk_come_back", watch)
    _leave(c, status)


def _call_device(m: Module, steps: Any) -> Any:
    """``call_device(plan, itself)``: a call of a plan whose steps are on a device; Python's None, or 0.

    -1 if it is not for native code, and nothing was done.
    """
    made, c = m.routine("dk_call_device", 2)
    plan, itself = made.args
    port, stamp = c.load(plan, PLAN_PORT), c.load(plan, _STAMP)
    # Streams that wait for the next launch are told of it by Python.
    with c.when(c.compare("!=", c.load(port, _FOLLOWERS), 0)):
        c.leave(-1)
    with c.when(c.compare("!=", stamp, 0)), c.when(c.compare("!=", c.load(stamp), c.load(plan, _EXPECTED))):
        c.leave(-1)
    running = _begin(c, plan)
    watch = c.words(WATCH_WORDS)
    c.invoke("dk_let_python_run", watch)
    c.store(running, watch, COUNTED)
    status = c.invoke(steps, plan, 0, watch)
    c.atomic("sub", running, 1, "release")
    c.invoke("dk_come_back", watch)
    arguments = c.words(1)
    # A driver's error: Python makes the exception, from the number and the steps it still has.
    with c.when(c.compare(">", status, 0)):
        number = c.invoke("PyLong_FromLong", status)
        c.store(number, arguments)
        answer = c.invoke("PyObject_Vectorcall", c.invoke("PyTuple_GetItem", itself, 3), arguments, 1, 0)
        c.invoke("Py_DecRef", number)
        c.leave(answer)
    names = c.load(plan, _NAMES)
    with c.when(c.all(c.compare("==", status, 0), c.compare("!=", names, 0))):
        c.store(names, arguments)
        c.invoke("Py_DecRef", c.invoke("PyObject_Vectorcall", c.load(port, _NOTE), arguments, 1, 0))
    _leave(c, status)
    return made


def _begin(c: Code, plan: Word) -> Word:
    """Count a call and the changes that it makes; return the address where calls are counted."""
    running = c.add(plan, _RUNNING)
    # Counted before anything else is read: a thread that flags the plan afterwards waits for this call.
    c.atomic("add", running, 1, "acquire")
    where = c.load(plan, _WHERE)
    # Versions are raised before the steps run, so that a failed step also counts as a change.
    with c.loop(c.load(plan, _COUNTERS)) as k:
        c.atomic("add", c.load(where, c.mul(k, 8)), 1)
    return running


def _call(m: Module, steps: Any, call_device: Any) -> None:
    """A method with METH_FASTCALL and METH_KEYWORDS."""
    made, c = m.routine("dk_replay_call", 4, is_exported=True)
    itself, arguments, count, names = made.args
    plan = _plan(c, itself)
    # One test for the usual case: no flag, nothing current in the process, no pending work, no argument.
    state = c.b.or_(c.atomic_load(plan, _FLAGS), c.atomic_load(c.load(plan, _ATTENTION)))
    given = c.b.or_(count, names)
    with c.when(c.compare("!=", c.b.or_(state, given), 0)):
        # The only flag is that the steps are a device's.
        with c.when(c.compare("==", c.b.or_(c.b.xor(state, c.word(_IS_DEVICE)), given), 0)):
            answer = c.invoke(call_device, plan, itself)
            with c.when(c.compare("!=", answer, -1)):
                c.leave(answer)
        slow = c.invoke("PyTuple_GetItem", itself, 1)
        c.leave(c.invoke("PyObject_Vectorcall", slow, arguments, count, names))
    running = _begin(c, plan)
    watch = c.words(WATCH_WORDS)
    c.invoke("dk_let_python_run", watch)
    c.store(running, watch, COUNTED)
    status = c.invoke(steps, plan, watch)
    c.atomic("sub", running, 1, "release")
    c.invoke("dk_come_back", watch)
    _leave(c, status)


# Blocks of the following: destination, source. Their ranges count bytes, or elements.


def _copy(m: Module) -> None:
    made, c = m.function("dk_copy_bytes", VOID, [I64] * 3, is_exported=True)
    block, low, high = made.args
    target, source = c.loads(block, 2)
    c.copy(c.add(target, low), c.add(source, low), c.sub(high, low), overlapping=True)
    c.b.ret_void()


def _clear(m: Module) -> None:
    made, c = m.function("dk_clear_bytes", VOID, [I64] * 3, is_exported=True)
    block, low, high = made.args
    c.clear(c.add(c.load(block), low), c.sub(high, low))
    c.b.ret_void()


def _add(m: Module, name: str, kind: Any, size: int) -> None:
    made, c = m.function(name, VOID, [I64] * 3, is_exported=True)
    block, low, high = made.args
    target, source = c.loads(block, 2)
    to, start = (c.add(place, c.mul(low, size)) for place in (target, source))
    c.add_numbers(to, start, kind, size, c.sub(high, low))
    c.b.ret_void()


def _vectorcall(m: Module) -> None:
    """``PyObject_Vectorcall``, which Python 3.10 has in its headers alone."""
    made, c = m.routine("PyObject_Vectorcall", 4)
    function, arguments, count, names = made.args
    positional = c.invoke("PyTuple_New", count)
    with c.when(c.compare("==", positional, 0)):
        c.leave(0)
    with c.loop(count) as k:
        argument = c.load(arguments, c.mul(k, 8))
        c.invoke("Py_IncRef", argument)
        # Takes the reference over, hence the increment in front of it.
        c.invoke("PyTuple_SetItem", positional, k, argument)
    keywords = c.variable(0)
    with c.when(c.compare("!=", names, 0)):
        keywords.set(c.invoke("PyDict_New"))
        with c.when(c.compare("==", keywords.get(), 0)):
            c.invoke("Py_DecRef", positional)
            c.leave(0)
        with c.loop(c.invoke("PyTuple_Size", names)) as k:
            value = c.load(arguments, c.mul(c.add(k, count), 8))
            c.invoke("PyDict_SetItem", keywords.get(), c.invoke("PyTuple_GetItem", names, k), value)
    answer = c.invoke("PyObject_Call", function, positional, keywords.get())
    c.invoke("Py_DecRef", positional)
    with c.when(c.compare("!=", keywords.get(), 0)):
        c.invoke("Py_DecRef", keywords.get())
    c.leave(answer)
