"""Jobs of the thread pool, and how their chunks are drawn.

Functions run the chunks of a job in the calling thread, alone or beside others, and a table has the time that the
elements of a kernel took last. The clock decides who runs a chunk, and never which chunks there are: results do not
depend on it, but for the order of sums that are added atomically.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from diffkern.runtime.native.builder import Code, Module, Variable, Word
from diffkern.runtime.native.waking_ir import note_end

__all__ = [
    "BLOCKS",
    "CHUNK",
    "COUNT",
    "COUNTED",
    "CURSOR",
    "FINISHED",
    "FN",
    "JOB_BYTES",
    "LINK",
    "LOST",
    "OWNED",
    "RATES_BYTES",
    "REFS",
    "SHARE",
    "UPDATES",
    "WATCH_WORDS",
    "Looks",
    "add_draws",
    "add_interrupted",
    "expected",
    "fill",
    "in_python",
    "is_due",
    "learn",
    "learn_shared",
]  # fmt: skip

# A job: three cache lines, so that drawing chunks does not disturb those who read what the job is. Its count is how
# many chunks it has; of those left, one in so many is drawn at once; its link is the next job in the queue, guarded by
# the mutex; refs counts the workers that hold it, under the mutex; finished are the chunks that need not be waited for.
# Its cursor is the next chunk to draw. Updates is not 0 where several threads may take longer for an element than one.
FN, BLOCKS, STRIDE, N, CHUNK, FIRST, STEP, COUNT, SHARE, LINK, REFS, FINISHED, OWNED, UPDATES = range(0, 112, 8)
CURSOR, JOB_BYTES = 128, 192
_MOST_AT_ONCE = 64
# A watch for signals, of a thread whose lock of the interpreter is given back: the thread's state, to take the lock
# again; when to look next, 0 before the first look; and the word that counts this call of a plan as in progress, or 0.
DUE, COUNTED = 8, 16
WATCH_WORDS = 3
LOST = 2
"""The result of ``dk_interrupted`` in the child of a fork for a run that cannot be finished there."""
_LOOK_NS = 100_000_000
_QUICK_NS = 1_000_000
_BETWEEN_LOOKS = 4  # chunks at most, of one thread: a look at the clock takes a tenth of the time of a short chunk
_NEVER = 2**63 - 1
_RATES = 1024
RATES_BYTES = 8 * _RATES
_RATE_BITS = 10  # fractions of a nanosecond, of which there are 2**10 in one
_MOST = 2**30
_LONGEST = 2**50  # nanoseconds
_SELDOM = 32  # one in so many runs begins as a quick one, whatever is known: a power of 2
_PATIENCE = 8
_WAIT_NS = 20_000_000  # threads seldom wait longer for a processor
_LOST_MESSAGE = (
    "a signal handler forked the process during a launch, which this child cannot finish: other threads had a part in "
    "it, and the arrays that it writes are half done; fork between launches, or end the child within the handler"
)
ALONE, SHARED = "alone_rates", "shared_rates"
"""The time of an element for a thread alone on a job, and for all threads where they update shared elements."""


class Looks:
    """The times of looks at the clock, between pieces of work: more seldom while the work is quick."""

    def __init__(self, c: Code, least: int, most: int) -> None:
        self._code, self._least, self._most = c, least, most
        self._left, self._between, self._before = c.variable(least - 1), c.variable(least), c.variable(0)

    @contextlib.contextmanager
    def due(self) -> Iterator[Word]:
        """Surround the code that is run with the time at a look, and leaves if that ends the work."""
        c = self._code
        with c.either(c.compare("==", self._left.get(), 0)) as (now, later):
            with now:
                time = c.invoke("dk_now")
                yield time
                # A look that came soon after the one before was not needed: twice as many pieces until the next.
                quick = c.compare("<", c.sub(time, self._before.get()), _QUICK_NS)
                more = c.min(c.mul(self._between.get(), 2), self._most)
                self._between.set(c.choose(quick, more, self._least))
                self._left.set(c.sub(self._between.get(), 1))
                self._before.set(time)
            with later:
                self._left.set(c.sub(self._left.get(), 1))


def fill(c: Code, job: Word, values: list[Word], count: Word, share: Word) -> None:
    """Write a job; `values` are its fields up to its step."""
    for field, value in zip((FN, BLOCKS, STRIDE, N, CHUNK, FIRST, STEP), values, strict=True):
        c.store(value, job, field)
    for field, value in ((COUNT, count), (SHARE, share)):
        c.store(value, job, field)
    for field in (LINK, REFS, FINISHED, UPDATES, CURSOR):
        c.store(0, job, field)


def add_draws(m: Module, interrupted: Any) -> tuple[Any, Any]:
    """Add ``dk_draw`` and ``dk_draw_quickly``; return them."""
    return _draw(m, interrupted), _draw_quickly(m)


def _align_stack(c: Code) -> None:
    """Align the stack frames of kernels to cache lines, so that vectors kept there do not lie across two."""
    c.words(8)


def _run_chunk(c: Code, fields: list[Word], drawn: Word) -> None:
    fn, blocks, stride, n, chunk, first, step = fields
    own = c.add(first, c.mul(drawn, step))
    # The last chunk may be shorter.
    low = c.mul(own, chunk)
    c.call(fn, [c.add(blocks, c.mul(own, stride)), low, c.add(low, c.min(c.sub(n, low), chunk))])


def _draw(m: Module, interrupted: Any) -> Any:
    """``draw(job, watch)``: draw chunks of a job and run them until none is left.

    Many are drawn at once while many are left, and in the end one by one: so uneven chunks end at about the same time.
    Returns twice the number of chunks that nobody has to wait for, plus 1 if a signal handler has ended it.
    """
    made, c = m.routine("dk_draw", 2)
    job, watch = made.args
    _align_stack(c)
    *fields, count, share = c.loads(job, 9)
    cursor = c.add(job, CURSOR)
    looks, done = Looks(c, 1, 16), c.variable(0)
    with c.forever() as stop:
        # A plain look first: the atomic addition below would go on raising the cursor of a finished job.
        left = c.sub(count, c.atomic_load(cursor))
        stop(c.compare("<=", left, 0))
        several = c.max(c.min(c.div(left, share), _MOST_AT_ONCE), 1)
        drawn = c.variable(c.atomic("add", cursor, several))
        # Between the look and the addition other threads may have drawn the rest.
        stop(c.compare(">=", drawn.get(), count))
        end = c.min(c.add(drawn.get(), several), count)
        done.set(c.add(done.get(), c.sub(end, drawn.get())))
        with c.forever() as stop_these:
            _run_chunk(c, fields, drawn.get())
            drawn.set(c.add(drawn.get(), 1))
            are_left = c.any(c.compare("<", drawn.get(), end), c.compare("<", c.atomic_load(cursor), count))
            with c.when(c.all(c.compare("!=", watch, 0), are_left)), looks.due() as time:
                found = c.invoke(interrupted, watch, time, job)
                # The slot of a job that is lost may be another job's by now: nothing of it may be touched.
                with c.when(c.compare("==", found, LOST)):
                    c.leave(1)
                raised = c.compare("!=", found, 0)
                # Drawing all that is left keeps other threads from beginning more; those chunks count as finished,
                # unrun.
                with c.when(raised):
                    undrawn = c.max(c.sub(count, c.atomic("xchg", cursor, count)), 0)
                    c.leave(c.add(c.mul(c.add(done.get(), undrawn), 2), 1))
            stop_these(c.compare(">=", drawn.get(), end))
    c.leave(c.mul(done.get(), 2))
    return made


def _draw_quickly(m: Module) -> Any:
    """``draw_quickly(job, limit)``: run the chunks of a job that no other thread knows, as long as that is quick.

    That is for `limit` nanoseconds, and longer if the rest of the chunks is expected to take less than that. Returns
    whether all have run; the cursor says which are left.
    """
    made, c = m.routine("dk_draw_quickly", 2)
    job, limit = made.args
    _align_stack(c)
    *fields, count = c.loads(job, 8)
    start, drawn = c.invoke("dk_now"), c.variable(0)
    with c.forever() as stop:
        # Few chunks between the first looks at the clock, more later.
        some = c.add(c.min(c.b.lshr(drawn.get(), c.word(3)), _BETWEEN_LOOKS - 1), 1)
        with c.loop(c.min(c.add(drawn.get(), some), count), drawn.get()) as chunk:
            _run_chunk(c, fields, chunk)
        drawn.set(c.min(c.add(drawn.get(), some), count))
        elapsed = c.sub(c.invoke("dk_now"), start)
        left = c.sub(count, drawn.get())
        stop(c.compare("<=", left, 0))
        # Over the limit, the job is still finished alone if the rest is estimated to take less than waking others
        # would.
        with c.when(c.compare(">=", elapsed, limit)):
            rest = c.mul(c.div(c.min(elapsed, _MOST), drawn.get()), c.min(left, _MOST))
            stop(c.compare(">=", rest, limit))
    learn(c, ALONE, fields, elapsed, drawn.get())
    note_end(c, c.add(start, elapsed))
    c.store(drawn.get(), job, CURSOR)
    c.leave(c.choose(c.compare(">=", drawn.get(), count), 1, 0))
    return made


# -- how long kernels took ---------------------------------------------------------------------------------------------


def _elements(c: Code, fields: list[Word], count: Word) -> Word:
    """Return the number of elements in some chunks, bounded so that the next step does not overflow."""
    n, chunk = fields[3], fields[4]
    return c.max(c.min(c.mul(c.min(count, _MOST), c.min(chunk, _MOST)), c.min(n, _MOST)), 1)


def _rate(c: Code, table: str, fn: Word) -> tuple[Word, Word]:
    """Return the place of a kernel's time per element in a table, and the tag in the upper half of the word there."""
    # A hash of the function's address. The tag tells kernels apart that share a place: the later one replaces the
    # other.
    mixed = c.mul(c.b.lshr(fn, c.word(4)), 0x1E3779B97F4A7C15)
    place = c.mul(c.b.lshr(mixed, c.word(65 - _RATES.bit_length())), 8)
    return c.add(c.named(table), place), c.b.shl(mixed, c.word(32))


def _noted(c: Code, table: str, fn: Word) -> tuple[Any, Word]:
    """Return whether the time per element is known, and the time."""
    place, tag = _rate(c, table, fn)
    noted = c.atomic_load(place)
    is_known = c.all(c.compare("!=", noted, 0), c.compare("==", c.b.and_(noted, c.word(-1 << 32)), tag))
    return is_known, c.b.and_(noted, c.word(2**32 - 1))


def _note(c: Code, table: str, fn: Word, rate: Word) -> None:
    place, tag = _rate(c, table, fn)
    c.atomic_store(c.b.or_(rate, tag), place)


def learn(c: Code, table: str, fields: list[Word], elapsed: Word, chunks: Word) -> None:
    """Note the time that some chunks took.

    A short time counts at most twice as long as before: a thread may have waited for its processor meanwhile.
    """
    time = c.b.shl(c.min(elapsed, _LONGEST), c.word(_RATE_BITS))
    found = c.min(c.div(time, _elements(c, fields, chunks)), _MOST)
    is_known, before = _noted(c, table, fields[0])
    is_doubtful = c.all(is_known, c.compare("<", elapsed, _WAIT_NS))
    _note(c, table, fields[0], c.choose(is_doubtful, c.min(found, c.add(c.mul(before, 2), 1)), found))


def learn_shared(c: Code, job: Word, fields: list[Word], elapsed: Word, chunks: Word) -> None:
    """Note the time that some chunks took a thread that worked on a job beside others.

    Nothing is learned from a single chunk: it may have waited for those of other threads. So a kernel whose chunks do
    that is never begun by one thread alone.
    """
    with c.when(c.all(c.compare(">", chunks, 1), c.compare("==", c.load(job, UPDATES), 0))):
        learn(c, ALONE, fields, elapsed, chunks)


def expected(c: Code, fields: list[Word], count: Word) -> tuple[Any, Word]:
    """Return whether the time that a thread alone takes for a job is known, and the time."""
    is_known, rate = _noted(c, ALONE, fields[0])
    elements = _elements(c, fields, count)
    time = c.b.lshr(c.mul(c.add(rate, 1), elements), c.word(_RATE_BITS))
    return is_known, c.choose(c.compare("<", elements, _MOST), time, _LONGEST)


def is_due(c: Code, is_known: Any, lone: Word) -> Any:
    """Return whether to measure the time of a thread alone: now and then, and before a lone job is first shared."""
    # Counted roughly: two threads may count one run.
    count = c.add(c.atomic_load(c.named("runs")), 1)
    c.atomic_store(count, c.named("runs"))
    is_turn = c.compare("==", c.b.and_(count, c.word(_SELDOM - 1)), 0)
    return c.choose(is_known, is_turn, c.compare("!=", lone, 0))


def is_better_alone(c: Code, fields: list[Word]) -> Any:
    """Return whether a lone job, without atomic updates, takes one thread less time than several take with them."""
    (alone_is_known, alone), (shared_is_known, shared) = (_noted(c, t, fields[0]) for t in (ALONE, SHARED))
    return c.all(alone_is_known, shared_is_known, c.compare("<", alone, shared))


def doubt(c: Code, fields: list[Word]) -> None:
    """Lower the estimate for sharing a little, so that it is tried again some day."""
    _, rate = _noted(c, SHARED, fields[0])
    _note(c, SHARED, fields[0], c.sub(rate, c.b.lshr(rate, c.word(_PATIENCE))))


def add_interrupted(m: Module, slots_bytes: int) -> Any:
    """``interrupted(watch, time, job)``: let Python handle signals if it is time to; the job is 0 between two jobs.

    Returns not 0 if there is an exception, which is pending then: of a handler, or because a handler has forked, this
    is the child, and other threads had a part in the job. In the latter case the result is ``LOST``.
    """
    made, c = m.routine("dk_interrupted", 3)
    watch, time, job = made.args
    due = c.load(watch, DUE)
    with c.when(c.compare("<", time, due)):
        c.leave(0)
    later = c.add(time, _LOOK_NS)
    with c.when(c.compare("==", due, 0)):  # other threads than the main one never look again
        handles = c.compare("==", c.invoke("PyThread_get_thread_ident"), c.atomic_load(c.named("main")))
        c.store(c.choose(handles, later, _NEVER), watch, DUE)
        c.leave(0)
    c.store(later, watch, DUE)
    # Handlers run in Python, for which the interpreter's lock has to be taken, and is given back afterwards.
    with in_python(c, watch, job, slots_bytes) as raised:
        raised.set(c.invoke("PyErr_CheckSignals"))
    c.leave(raised.get())
    return made


@contextlib.contextmanager
def in_python(c: Code, watch: Word, job: Word, slots_bytes: int = 0) -> Iterator[Variable]:
    """Surround code that runs Python in the midst of a run; it may fork the process.

    Yields a variable, 0, that the code sets where there is an exception. `job` is 0 between two jobs.
    """
    # Only runs of the main thread are alone: these are those that it is in the middle of.
    is_main = c.compare("==", c.invoke("PyThread_get_thread_ident"), c.atomic_load(c.named("main")))
    lone = c.choose(is_main, c.atomic_load(c.named("sole")), 0)
    forks, raised = c.load(c.named("forks")), c.variable(0)
    c.invoke("dk_come_back", watch)
    yield raised
    with c.when(c.compare("!=", c.load(c.named("forks")), forks)):
        _go_on_in_child(c, watch, job, slots_bytes, lone, raised)
    c.store(c.invoke("PyEval_SaveThread"), watch)


def _go_on_in_child(c: Code, watch: Word, job: Word, slots_bytes: int, lone: Word, raised: Variable) -> None:
    """Count what goes on in the child of a fork, where nothing is counted; an error if it cannot be finished."""
    # The forking thread's own calls do not end with the fork, and subtract themselves from these counts when they do.
    counted = c.load(watch, COUNTED)
    with c.when(c.compare("!=", counted, 0)):
        c.atomic("add", counted, 1, "acquire")
    c.atomic("xchg", c.named("sole"), lone, "seq_cst")
    # Chunks that workers had begun are half done, and which these were is not known. And a run that is alone does not
    # update atomically, so that it must not go on beside threads that the handler has started.
    is_shared = c.b.icmp_unsigned("<", c.sub(job, c.named("jobs")), c.word(slots_bytes))
    others = c.compare("!=", c.atomic_load(c.named("others"), ordering="seq_cst"), 0)
    with c.when(c.any(is_shared, c.all(c.compare("!=", lone, 0), others))):
        with c.when(c.compare("==", raised.get(), 0)):
            message = c.address(c.module.string(_LOST_MESSAGE))
            c.invoke("PyErr_SetString", c.load(c.named("PyExc_RuntimeError")), message)
        raised.set(LOST)
