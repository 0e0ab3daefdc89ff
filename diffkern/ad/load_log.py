"""The log of loaded values that the gradient needs and that a kernel overwrites.

Given a normalised function and the reverse sweep through it, :func:`overwritten_values` finds the loads whose values
the sweep needs and cannot get otherwise. :class:`Overwritten` has the functions that write these values to a log, read
them from there, and count them for each thread. Only values that the thread itself overwrites are logged: loads of
elements that another thread may write stay refused.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from diffkern.ad.adjoint import Swept
from diffkern.ad.atomic_log import counted
from diffkern.ad.log_index import Logged, Numbered, Sites, thread_number
from diffkern.analysis.blocks import is_simt
from diffkern.contracts.manifest import Log, Unproved
from diffkern.errors import AutodiffError
from diffkern.ir.nodes import Function, Op, Value, walk
from diffkern.ir.ops.memory import ELEMENT_LOADS
from diffkern.ir.ops.output import REPORTS
from diffkern.ir.types import FLOAT64, INT32, INT64, Array, Mat, Scalar, Vec
from diffkern.ir.views import Access
from diffkern.process.dataclass import dataclass

__all__ = ["Overwritten", "Reading", "overwritten_values"]


@dataclass(frozen=True, slots=True)
class Reading:
    """A function with a log that holds the values of some of its loads.

    Attributes
    ----------
    fn
        The function; the log is its last parameters.
    logged
        For each of these loads its value in the log.
    origin
        For each load the load of the original function that it is a copy of.
    """

    fn: Function
    logged: Mapping[Op, Value]
    origin: Mapping[Op, Op]


@dataclass(frozen=True, slots=True)
class Overwritten:
    """The loads of a normalised function whose values are logged."""

    base: Function
    sites: Sites

    def writing(self) -> Function:
        """Return a copy of the function that writes the values to a log, its last parameters."""
        return _LoadWriting(self.base, self.sites).function()

    def reading(self) -> Reading:
        """Return the copy whose adjoint reads the values from a log, and which reports nothing."""
        copy = _LoadReading(self.base, self.sites)
        return Reading(copy.function(), copy.logged, copy.origin)

    def counting(self, *, stamped: bool = False) -> tuple[Function, tuple[Unproved, ...]]:
        """Return the function that stores how many slots each thread takes to an array, its last parameter.

        It writes to arrays of the kernel, which have to be copies, where the number of slots depends on values that the
        thread itself has written there.

        Parameters
        ----------
        stamped : bool
            Whether it is for launches that are looked at, in which no two threads race.

        Returns
        -------
        Function
            The function.
        tuple of Unproved
            What a launch is looked at for, so that it is right.

        Raises
        ------
        AutodiffError
            If that is not known before the launch.
        """
        before, lost, _ = counted(self.base, self.sites)
        if lost is None:
            return before, ()
        _, lost, unproved = counted(self.base, self.sites, own=True, stamped=stamped)
        if lost is not None:
            first = self.first
            line = f" (line {lost.loc.line})" if lost.loc is not None else ""
            error = AutodiffError(
                f"the gradient needs {self.what}, and how often a thread comes there depends on other threads{line}",
                loc=first.loc,
                remedy="let the loop around it make a number of trips that does not depend on what the launch writes",
            )
            error.is_race = lost.is_race
            raise error
        return _executed(self.base, self.sites), unproved

    def log(self, active: Collection[int]) -> Log:
        """Return the description of the log, for the adjoint with respect to some parameters."""
        return Log(
            str(self.sites.type), self.sites.of(self.base.body), self.what, self.first.loc, tuple(sorted(active))
        )

    @property
    def first(self) -> Op:
        """The first of the loads."""
        return next(op for op in walk(self.base.body) if op in self.sites.ops)

    @property
    def what(self) -> str:
        """A description of the logged values, for messages."""
        return f"what {Access(self.first).array.name} held here before the kernel overwrote it"


def overwritten_values(base: Function, sweep: Callable[[Reading], Swept]) -> tuple[Overwritten, Swept]:
    """Find the loads of a normalised function whose values have to be logged, as few as possible.

    Parameters
    ----------
    base : Function
        The function.
    sweep : callable
        The reverse sweep through a copy of it, tidied up.

    Returns
    -------
    Overwritten
        The loads.
    Swept
        The function with its reverse sweep.

    Raises
    ------
    AutodiffError
        If what the sweep needs cannot be logged.
    """
    # Logging one load may remove the need for others, and a logged value may need another load, so the set grows from
    # what is lost in each sweep.
    chosen: set[Op] = set()
    together = is_simt(base, knowing=True)
    while True:
        ops = [op for op in walk(base.body) if op in chosen]
        found = Overwritten(base, Sites(base, ops, _common_type(ops), INT64))
        reading = found.reading()
        swept = sweep(reading)
        lost = swept.lost()
        for load, error in lost:
            if load is None or together or reading.origin[load] in chosen:
                raise error
        if not lost:
            return found, swept
        chosen.update(reading.origin[load] for load, _ in lost if load is not None)


class _LoadWriting(Logged):
    def site(self, op: Op) -> None:
        super().site(op)
        self.write(self.env[op.result])


class _LoadReading(Logged):
    def __init__(self, fn: Function, sites: Sites) -> None:
        super().__init__(fn, sites)
        self.logged: dict[Op, Value] = {}
        self.origin: dict[Op, Op] = {}

    def op(self, op: Op) -> None:
        # The copy replays a launch that has already happened, so prints and failed checks must not be reported twice.
        if op.name in REPORTS:
            return
        super().op(op)
        if op.name in ELEMENT_LOADS:
            self.origin[self.b.region.ops[-1]] = op

    def site(self, op: Op) -> None:
        assert isinstance(op.result.type, (Scalar, Vec, Mat))
        value = self.read(op.result.type)
        super().site(op)
        self.logged[self.b.region.ops[-1]] = value


class _Executed(Numbered):
    def op(self, op: Op) -> None:
        if op.name not in REPORTS:
            super().op(op)


def _executed(fn: Function, sites: Sites) -> Function:
    """Return the function as it is, followed by the count of its slots."""
    numbered, counts = _Executed(fn, sites), Value(Array(INT64, 1), "counts")
    body = numbered.body()
    numbered.b.op("store", counts, thread_number(numbered.b, fn), numbered.at, wrap=(False,))
    return replace(fn, name=f"{fn.name}_calls", params=(*fn.params, counts), body=body, updates=())


def _common_type(ops: Collection[Op]) -> Scalar:
    """Return the type of numbers that holds the values of all of some loads exactly."""
    # The original load stays in the copy: the dependence analysis still classifies it, and dead code elimination drops
    # it.
    types = {t.dtype if isinstance(t, (Vec, Mat)) else t for t in (op.result.type for op in ops)}
    scalars = [t for t in types if isinstance(t, Scalar)]
    floats = [t for t in scalars if t.is_float]
    if not floats:
        return INT64 if any(t.itemsize > INT32.itemsize for t in scalars) else INT32
    wide = next((op for op in ops if op.result.type == INT64 or str(op.result.type) == "uint64"), None)
    if wide is not None:
        raise AutodiffError(
            f"the gradient needs this integer of 64 bits of {Access(wide).array.name}, which the kernel overwrites, "
            "and floating-point values that it overwrites as well",
            loc=wide.loc,
            remedy=f"let {Access(wide).array.name} be an array of int32",
        )
    return floats[0] if len(scalars) == 1 else FLOAT64
