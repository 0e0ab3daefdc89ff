"""Adjoints of a sequence, fitted to the fills and copies that set their cotangents just before.

The native form of an adjoint is exchanged for that of a program that does less. Where it adds once to each element of
cotangents that start at zero, it stores instead, and the fills are dropped. A cotangent that it reads once and sets to
zero is read from the source of the copy that set it; the copy then becomes a fill with zero, which is all that is left
of the two.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from diffkern.process.dataclass import dataclass
from diffkern.runtime.accumulate.adjoint import AdjointLaunch
from diffkern.runtime.accumulate.known_zeros import goals_of_threads, is_alone, meet
from diffkern.runtime.arrays.array import array
from diffkern.runtime.arrays.operation import Assign, Copy, Operation
from diffkern.runtime.launch.program import Executable
from diffkern.runtime.memory.memory import bytewise
from diffkern.runtime.native.replay import Step, Steps, replaced

__all__ = ["AdjointPlace", "Change", "as_run_by", "fit_adjoint", "is_same", "takes"]

_WORK_PER_BYTE = 6.0
"""An adjoint that does more than so much work for each byte that it would not have to move is not compiled again."""

Change = Assign | Copy


@dataclass(frozen=True)
class AdjointPlace:
    """An adjoint and its surroundings in a sequence.

    Attributes
    ----------
    operations
        Those of the sequence.
    index
        The position of the adjoint.
    changes
        Fills and copies in front of it, by position, whose goals nothing touches in between.
    joint
        Its program, if that runs the launch too.
    """

    operations: Sequence[Operation]
    index: int
    changes: Mapping[int, Change]
    joint: Executable | None

    @property
    def adjoint(self) -> AdjointLaunch:
        """The adjoint."""
        found = self.operations[self.index]
        assert isinstance(found, AdjointLaunch)
        return found

    def change_of(self, ct: array) -> int | None:
        """Return the position of the change that sets a cotangent as a whole, or None."""
        return next((index for index, change in self.changes.items() if is_same(ct, change.goal)), None)


@dataclass(frozen=True)
class _Taken:
    """The cotangents that an adjoint reads elsewhere: addresses by offset in its block, and the fills by position."""

    addresses: Mapping[int, int]
    fills: Mapping[int, Steps]


def is_same(one: array, other: array) -> bool:
    """Return whether two arrays are the same contiguous elements."""
    return one._range == other._range and one._type.layout == other._type.layout == "C"


def as_run_by(program: Executable, form: Steps) -> Steps:
    """Return the form of an adjoint with another program that has the same parameters."""
    step = form[0]
    assert isinstance(step, Step)
    # The argument block is the same one: parameters may be changed in it.
    # Partial sums need one slot per chunk and site, as many as the other program has sites.
    count = -(-step.n // step.chunk)
    partials, finish, chunks = (count * program.sites, program.finish, count) if program.sites else (0, 0, 0)
    return [
        step._replace(
            function=program.address, partials=partials, finish=finish, chunks=chunks, code=program.code,
            updates=program.updates,
        ),
        *form[1:],
    ]  # fmt: skip


def fit_adjoint(place: AdjointPlace, forms: list[Steps]) -> None:
    """Exchange the forms of an adjoint, and of the changes in front of it, for those of a program that does less."""
    adjoint, form = place.adjoint, forms[place.index]
    executable, active = adjoint.executable, frozenset(adjoint.cotangents)
    if len(form) != 1 + len(adjoint.accumulation.cleared) or executable.manifest.checks is not None:
        return  # nothing to run, or every access is looked at
    if adjoint.launch.adjoint(active, adjoint.form) is not executable:
        return  # with atomic additions
    spared, taken = _spared(place), _taken(place, forms)
    bytes_spared = sum(_itemsize(place.changes[k].goal) for k in spared)
    # What is taken is neither written and read in front of the adjoint nor written there.
    bytes_spared += 2 * sum(_itemsize(place.changes[k].goal) for k in taken.fills)
    # Compiling another program pays off where moving memory dominates. Of expensive adjoints the spared bytes are
    # little.
    if not bytes_spared or executable.cost > _WORK_PER_BYTE * bytes_spared:
        return
    fitted = adjoint.form._replace(
        accumulate="stored" if spared else "plain", joint=place.joint is not None, preserve_cotangents=bool(taken.fills)
    )
    program = adjoint.launch.adjoint(active, fitted)
    step, *behind = as_run_by(program, form)
    assert isinstance(step, Step)
    # The block stays the same one; the addresses to read from replace those in it at each run.
    forms[place.index] = [step._replace(replaced=replaced(taken.addresses) if taken.addresses else None), *behind]
    for k in spared:
        forms[k] = []
    for k, fill in taken.fills.items():
        forms[k] = fill


def _itemsize(ct: array) -> int:
    return ct._data.nbytes // max(ct.size, 1)


def takes(adjoint: AdjointLaunch) -> dict[int, array]:
    """Return the cotangents of which an adjoint reads each element once, and sets it to zero."""
    goals = goals_of_threads(adjoint, {p.of: p.taken for p in adjoint.executable.manifest.params})
    return {k: ct for k, ct in goals.items() if is_alone(adjoint, ct)}


def _spared(place: AdjointPlace) -> list[int]:
    """Return the fills that are redundant if the adjoint stores what it would add; empty if it cannot store."""
    adjoint = place.adjoint
    found = []
    # All or nothing: one program stores to every such cotangent, and so each has to be zero before.
    for k, ct in goals_of_threads(adjoint, {p.of: p.once for p in adjoint.executable.manifest.params}).items():
        fill = place.change_of(ct)
        # Chunks have no copies of it.
        if fill is None or k in adjoint.accumulation.private or not is_alone(adjoint, ct):
            return []
        change = place.changes[fill]
        if not isinstance(change, Assign) or change.values.dtype.names is not None or np.any(change.values):
            return []
        found.append(fill)
    return found


def _taken(place: AdjointPlace, forms: Sequence[Steps]) -> _Taken:
    """Return the addresses to read cotangents from and the fills that replace the changes; empty if not for all."""
    adjoint, nothing = place.adjoint, _Taken({}, {})
    params = adjoint.executable.manifest.params
    offsets = {p.of: field.offset for p, field in zip(params, adjoint.executable.layout.fields, strict=True) if p.taken}
    taken, addresses, fills = takes(adjoint), {}, {}
    for k, ct in taken.items():
        index = place.change_of(ct)
        if index is None or len(forms[index]) != 1:
            return nothing
        address = _source(place, index)
        fill = bytewise("dk_clear_bytes", ct._data.nbytes, ct._data.ctypes.data, 0)
        if address is None or fill is None:
            return nothing
        addresses[offsets[k]], fills[index] = address, fill
    return _Taken(addresses, fills) if len(taken) == len(offsets) else nothing


def _source(place: AdjointPlace, index: int) -> int | None:
    """Return the address from which the adjoint can read what a fill or a copy puts into a cotangent, or None."""
    change = place.changes[index]
    if isinstance(change, Assign):
        return None if change.as_copy() is None else change.values.ctypes.data
    source, written = change.source, list(place.adjoint.writes())
    # The source must still hold the same elements when the adjoint runs, and the launch may run as part of it.
    if place.joint is not None:
        written += place.adjoint.launch.writes()
    for operation in place.operations[index + 1 : place.index]:
        written += operation.writes()
    if source._type.layout != "C" or meet([source], written):
        return None
    return int(source._data.ctypes.data)
