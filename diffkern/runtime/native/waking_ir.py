"""The estimate of whether sleeping workers are worth waking.

It says how long a job may take its submitter alone before workers are told of it.

Waking a thread takes 5 us on one machine and 100 us on another, where the processor it is to run on is halted; and
in a virtual machine the system often runs it on the submitter's own processor, where it is only in the way. So it is
measured: a worker that was woken sees how long ago that was and on which processor it runs. The estimate is one word
for all kernels. It goes up with workers that come late or are of no use. While it keeps workers asleep, it comes down
little by little, until waking is tried again: on average that costs a hundredth.

Letting workers take part that are awake costs little. So a wake-up is an investment in the jobs that follow too:
jobs without long pauses in between count together, and in a loop of them workers soon are awake and stay so.
"""

from __future__ import annotations

from typing import Any

from diffkern.runtime.native.builder import Code, Module, Word

__all__ = [
    "ARRIVAL",
    "FIRST_NS",
    "IDLE",
    "SIGNALLED",
    "WORTH_NS",
    "add_waking",
    "add_waking_words",
    "doubt_waking",
    "note_arrival",
    "note_end",
    "note_signal",
    "runs_at",
    "submitted_at",
]  # fmt: skip

ARRIVAL = "dk_pool_arrival"
"""The estimate in nanoseconds: how long a worker takes from the signal until it helps."""
IDLE = "dk_pool_idle"
"""The number of sleeping workers."""
SIGNALLED = "dk_pool_signalled"
"""When workers were last woken, 0 once one of them is awake; guarded by the mutex."""
WORTH_NS = 50_000
"""Work of less time than this is done by its submitter, whether workers are awake or not."""
_PAUSE_NS = 50_000  # about as long as workers stay awake without work
_MOST_COUNTED_NS = 2_000_000  # of the jobs before a pause
_FORGOTTEN = 8  # times the length of a pause: a moment's delay in a loop is no end of it
_TIMES = 3  # with work for three times the latency, two threads take two thirds of the time that one takes
FIRST_NS, MOST_NS = 50_000, 333_000
_MASK_BYTES = 128  # of a set of 1024 processors
_QUARTER, _LITTLE = 2, 6  # as powers of 2: the part of a new reading that counts, and how much the estimate comes down


def add_waking_words(m: Module) -> None:
    """Add the words of the estimate."""
    m.exported_word(ARRIVAL)
    m.exported_word(IDLE)
    m.exported_word(SIGNALLED)
    m.room("submitter_at", 8)  # the processor of the last submitter, guarded by the mutex
    m.room("ended", 8)  # when the last job ended
    m.room("busy_since", 8)  # when the first of the jobs began that count together


def add_waking(m: Module, platform: str) -> None:
    """Add ``dk_worth``, ``dk_processor`` and ``dk_move_away``.

    Parameters
    ----------
    m : Module
        The module.
    platform : str
        ``sys.platform``: only Linux tells on which processor a thread runs.
    """
    _processor(m, platform)
    _move_away(m, platform)
    _worth(m)


def _processor(m: Module, platform: str) -> None:
    """``processor()``: the number of the processor that this thread runs on; it may be on another one right after.

    -1 if it is not known.
    """
    _, c = m.routine("dk_processor", 0)
    if platform.startswith("linux"):
        number = c.invoke("sched_getcpu")
        # An int of -1, where the system does not say, comes as an unsigned number of 32 bits.
        c.leave(c.choose(c.compare("<", number, 1 << 31), number, -1))
    else:
        c.leave(-1)


def _move_away(m: Module, platform: str) -> None:
    """``move_away()``: move the calling thread to another processor, if it may run on one.

    It may run on all its processors again afterwards. Without that the system leaves it where the submitter runs, even
    beside an idle processor, for as long as both run but for short times.
    """
    _, c = m.routine("dk_move_away", 0)
    if platform.startswith("linux"):
        here, allowed = c.invoke("dk_processor"), c.words(_MASK_BYTES // 8)
        with c.when(c.b.icmp_unsigned(">=", here, c.word(8 * _MASK_BYTES))):
            c.leave(0)
        with c.when(c.compare("==", c.invoke("sched_getaffinity", 0, _MASK_BYTES, allowed), 0)):
            place = c.add(allowed, c.mul(c.b.lshr(here, c.word(6)), 8))
            before, own = c.load(place), c.b.shl(c.word(1), c.b.and_(here, c.word(63)))
            # Setting a mask without the present processor migrates the thread at once; the old mask is then set again.
            c.store(c.b.and_(before, c.b.not_(own)), place)
            with c.when(c.compare("==", c.invoke("sched_setaffinity", 0, _MASK_BYTES, allowed), 0)):
                c.store(before, place)
                c.invoke("sched_setaffinity", 0, _MASK_BYTES, allowed)
    c.leave(0)


def _worth(m: Module) -> None:
    """``worth()``: the nanoseconds of work up to which a new job is run by its submitter alone."""
    _, c = m.routine("dk_worth", 0)
    # Some worker is awake, which takes part without being woken.
    with c.when(c.compare("<", c.atomic_load(c.named(IDLE)), c.atomic_load(c.named("live")))):
        c.leave(WORTH_NS)
    now, since = c.invoke("dk_now"), c.named("busy_since")
    pause = c.sub(now, c.atomic_load(c.named("ended")))
    with c.when(c.compare(">=", pause, _PAUSE_NS)):
        counted = c.max(c.atomic_load(since), c.sub(now, _MOST_COUNTED_NS))
        forgotten = c.mul(c.min(pause, _MOST_COUNTED_NS), _FORGOTTEN)
        # A pause discounts the jobs before it by a multiple of its length, so that a short delay does not end a loop of
        # jobs.
        c.atomic_store(c.min(now, c.add(counted, forgotten)), since)
    arrival = c.min(c.atomic_load(c.named(ARRIVAL)), MOST_NS)
    invested = c.sub(now, c.atomic_load(since))
    c.leave(c.max(c.sub(c.mul(arrival, _TIMES), invested), WORTH_NS))


def doubt_waking(c: Code) -> None:
    """Lower the estimate of waking a little, so that it is tried again some day."""
    place = c.named(ARRIVAL)
    before = c.atomic_load(place)
    c.atomic_store(c.sub(before, c.b.lshr(before, c.word(_LITTLE))), place)


def note_end(c: Code, time: Word) -> None:
    """Note when a job has ended."""
    c.atomic_store(time, c.named("ended"))


def note_signal(c: Code, sleeping: Word) -> None:
    """Note where a job is submitted, and when, if sleeping workers are woken for it. The mutex is held."""
    c.store(c.invoke("dk_processor"), c.named("submitter_at"))
    with c.when(c.compare("!=", sleeping, 0)):
        c.store(c.invoke("dk_now"), c.named(SIGNALLED))


def submitted_at(c: Code) -> Word:
    """Return the processor of the last submitter. The mutex is held."""
    return c.load(c.named("submitter_at"))


def runs_at(c: Code, processor: Word) -> Any:
    """Return whether the calling thread is known to run on a processor."""
    here = c.invoke("dk_processor")
    return c.all(c.compare(">=", here, 0), c.compare("==", here, processor))


def note_arrival(c: Code) -> None:
    """Note when a worker that has slept is awake, if it is the first since the signal. The mutex is held."""
    signalled = c.named(SIGNALLED)
    time = c.load(signalled)
    with c.when(c.compare("!=", time, 0)):
        c.store(0, signalled)
        late = c.min(c.sub(c.invoke("dk_now"), time), MOST_NS)
        # On the submitter's processor a worker cannot help at all: as bad as the latest arrival.
        reading = c.choose(runs_at(c, submitted_at(c)), MOST_NS, late)
        before = c.atomic_load(c.named(ARRIVAL))
        # A moving average: one slow wake-up among quick ones must not decide.
        change = c.b.ashr(c.sub(reading, before), c.word(_QUARTER))
        c.atomic_store(c.add(before, change), c.named(ARRIVAL))
