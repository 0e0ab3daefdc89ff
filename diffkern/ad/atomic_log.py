"""The log of the results of atomic updates, for counters whose values become indices.

A kernel's function as it was lowered gives two programs: the forward program that writes the result of each call to a
log, and the function that reads it there, which is the one that is differentiated; both number the calls of a thread
alike. Where a loop makes a number of trips that only the launch knows, a third program counts the calls of each thread
beforehand, so that each thread has a segment of the log.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from diffkern.ad.log_index import Logged, Numbered, Sites, ops_of_thread, thread_number
from diffkern.ad.replay import Replay, ReplayContext, used_poisons
from diffkern.analysis.blocks import is_simt
from diffkern.analysis.dependence import LoadFact, LoadSource, classify_loads
from diffkern.analysis.sums import used_values
from diffkern.contracts.manifest import Log, Unproved
from diffkern.errors import AutodiffError
from diffkern.ir.builder import Builder
from diffkern.ir.clone import Cloner
from diffkern.ir.nodes import Function, Op, Value, walk
from diffkern.ir.ops.memory import ELEMENT_ATOMICS
from diffkern.ir.ops.tile import of_block
from diffkern.ir.types import INT32, INT64, Array, Scalar, is_shared
from diffkern.ir.views import Access
from diffkern.opt.dce import eliminate

__all__ = ["counted", "counting_calls", "log_of", "reading_log", "writing_log"]


def log_of(fn: Function) -> Log | None:
    """Return the description of the log of a kernel's calls, None if no calls are logged."""
    calls = _calls(fn)
    if not calls.ops:
        return None
    first = next(op for op in walk(fn.body) if op in calls.ops)
    return Log(str(calls.type), calls.of(fn.body), f"what atomic_{first.attrs['kind']} returned", first.loc)


def writing_log(fn: Function) -> Function:
    """Return a copy of a kernel that writes the results of its calls to a log, its last parameters."""
    return _Writing(fn, _calls(fn)).function()


def reading_log(fn: Function) -> Function:
    """Return a copy of a kernel that reads the results of its calls from a log, its last parameters."""
    return _Reading(fn, _calls(fn)).function()


def counting_calls(fn: Function) -> Function:
    """Return the function that stores the number of slots of each thread to an array, its last parameter.

    Raises
    ------
    AutodiffError
        If that is not known before the launch.
    """
    calls = _calls(fn)
    # Threads of a block exchange values through shared memory, which a replay of single threads does not have.
    if is_simt(fn):
        raise _unknown(calls, AutodiffError("the threads of a block work together", loc=fn.loc))
    made, lost, _ = counted(fn, calls)
    if lost is not None:
        raise _unknown(calls, lost)
    return made


def counted(
    fn: Function, sites: Sites, own: bool = False, *, stamped: bool = False
) -> tuple[Function, AutodiffError | None, tuple[Unproved, ...]]:
    """Count slots without the writes of a function.

    Parameters
    ----------
    fn, sites
        The function, and its ops that take slots.
    own
        Whether to believe what is read of arrays that the thread itself has written to.
    stamped
        Whether it is for launches that are looked at: what has been shown of them is believed as well.

    Returns
    -------
    Function
        Stores the number of slots of each thread to an array, its last parameter.
    AutodiffError or None
        What the number depends on, if that is not known so.
    tuple of Unproved
        What is to be looked at in a launch for that.
    """
    numbered = Numbered(fn, sites)
    named = replace(fn, body=numbered.body())
    b, counts = Builder(loc=fn.loc), Value(Array(sites.index, 1), "counts")
    context = ReplayContext(classify_loads(named, stamped=stamped), {p: p for p in fn.params})
    counter = _Counting(b, {}, context, own)
    counter.ops(named.body.ops)
    b.op("store", counts, thread_number(b, fn), counter.value(numbered.at), wrap=(False,))
    # Elimination comes before the check: only a poison that the count itself uses is an error.
    made = eliminate(replace(fn, name=f"{fn.name}_calls", params=(*fn.params, counts), body=b.region, updates=()))
    lost = used_poisons(made.body, context)
    believed = dict.fromkeys(pair for fact in counter.believed for pair in fact.unproved)
    return made, context.poison[lost[0]] if lost else None, tuple(believed)


def _calls(fn: Function) -> Sites:
    """Return the calls whose results are logged."""
    found, used = ops_of_thread(fn.body), used_values(fn)
    params = set(fn.params)
    # In kernels with tiles a whole block executes an op, and numbering by threads would not fit.
    by_blocks = any(of_block(op) for op in found)
    calls = [op for op in found if not by_blocks and _is_counter(op, params) and op.result in used]
    wide = any(op.result.type.itemsize > INT32.itemsize for op in calls)  # type: ignore[union-attr]
    return Sites(fn, calls, INT64 if wide else INT32)


class _Writing(Logged):
    def site(self, op: Op) -> None:
        super().site(op)
        # The forward program makes the update and logs its result.
        self.write(self.env[op.result])


class _Reading(Logged):
    def site(self, op: Op) -> None:
        super().site(op)
        assert isinstance(op.result.type, Scalar)
        # The program to be differentiated takes the logged result as a plain value; the update itself is still made and
        # is replayed like any other effect.
        self.env[op.result] = self.read(op.result.type)


class _Counting(Replay):
    """A replay before the launch: contents that the kernel changes are known as long as they are not changed yet."""

    def __init__(self, builder: Builder, env: dict[Value, Value], context: ReplayContext, own: bool) -> None:
        super().__init__(builder, env, context)
        self.own = own
        self.believed: list[LoadFact] = []

    def load(self, op: Op) -> None:
        fact = self.context.facts.get(op)
        # A value checked only at the launch, or raced for, is not certain before it.
        own = fact is not None and not fact.checks and fact.source is not LoadSource.RACING
        known = fact is None or (own and (self.own or fact.source is LoadSource.ENTRY))
        if known and not is_shared(Access(op).array.type):
            self.believed += [fact] if fact is not None else []
            Cloner.op(self, op)
            return
        error = AutodiffError(f"it depends on what the kernel writes to {Access(op).array.name}", loc=op.loc)
        error.is_race = fact is not None and (fact.source is LoadSource.RACING or bool(fact.checks))
        self.poisoned(op, error)


def _is_counter(op: Op, params: Collection[Value]) -> bool:
    """Return whether an op updates an integer of a parameter atomically."""
    if op.name not in ELEMENT_ATOMICS or Access(op).array not in params:
        return False
    return isinstance(op.result.type, Scalar) and op.result.type.is_integer


def _unknown(calls: Sites, why: AutodiffError) -> AutodiffError:
    first = next(iter(calls.ops))
    line = f" (line {why.loc.line})" if why.loc is not None else ""
    return AutodiffError(
        f"the gradient needs the values that atomic_{first.attrs['kind']} returned, and how often a thread calls it is "
        f"not known before the launch{line}",
        loc=first.loc,
        remedy="let the loop around it make a constant number of trips, with an if in place of break",
    )
