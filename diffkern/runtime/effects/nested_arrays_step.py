"""Launches on a tape that read or write arrays in elements of arrays.

The adjoint of such a step finds copies of these arrays, as they were, and their cotangents through descriptors like
those that the launch found.
"""

from __future__ import annotations

from collections.abc import Mapping

from diffkern.errors import LaunchError
from diffkern.process.tracebacks import place_of
from diffkern.runtime.accumulate.adjoint import AdjointLaunch
from diffkern.runtime.arrays.array import array, new
from diffkern.runtime.arrays.operation import Copy, Operation, submit
from diffkern.runtime.effects.cotangents import Cotangents
from diffkern.runtime.effects.tape_steps import LaunchStep
from diffkern.runtime.launch.nested_arrays import Table, _overlap
from diffkern.runtime.launch.packed import PackedLaunch
from diffkern.runtime.launch.regions import Region
from diffkern.runtime.memory.memory import Memory

__all__ = ["PointedStep"]


class PointedStep(LaunchStep):
    """A launch that reads or writes arrays in elements.

    Attributes
    ----------
    tables
        By parameter, the arrays that its elements pointed to.
    """

    __slots__ = ("_kept", "tables")

    def __init__(self, launch: PackedLaunch, number: int, active: frozenset[int]) -> None:
        super().__init__(launch, number, active, keeps_inputs=False)
        self._kept: list[array] = []
        found = ((k, launch.arrays[k]) for k in launch.executable.manifest.pointing if k in launch.executable.uses)
        self.tables = {k: Table(holder) for k, holder in found if holder is not None}
        self._check_disjoint()

    def _check_disjoint(self) -> None:
        """Raise if an array is also a parameter, or in elements of two: its cotangent would be reached in two ways."""
        launch = self.launch
        seen = [a for k, a in enumerate(launch.arrays) if a is not None and k in self.active and k not in self.tables]
        for index, table in self.tables.items():
            own = [*table.distinct.values()]
            if index in self.active and any(_overlap(a, b) for a in own for b in seen):
                raise LaunchError(
                    f"kernel {launch.kernel.name!r} finds an array in elements of "
                    f"{launch.executable.name_of(index)!r} that shares memory with another array of the launch; such a "
                    "launch cannot be differentiated",
                    loc=place_of(launch.kernel.func),
                    remedy="pass arrays that do not overlap, for example dk.clone() of one of them",
                )
            seen += own

    def keep(self, when: str) -> None:
        """Keep what the adjoint reads of the arrays, ``before`` or ``after`` the launch."""
        program = self.program()
        if program is None:
            return
        wanted = program.derivative.before if when == "before" else program.derivative.after
        for index, table in self.tables.items():
            if when == "before" and index in wanted:
                self.take_copy(index, table.mapped(self._copied), before=True)
            elif when == "after":
                # Descriptors are copied even of arrays that are not: the program may exchange elements before the
                # reverse sweep.
                mapped = table.mapped(self._copied if index in wanted else self._own)
                self.take_copy(index, mapped, before=False)

    def _copied(self, held: array) -> array:
        made = new(held.shape, held._element, False, held._memory.device)
        submit(Copy(made, held))
        return self._own(made)

    def _own(self, held: array) -> array:
        self._kept.append(held)
        return held

    def told_by(self, owners: Mapping[Memory, array]) -> None:
        """Return None: what elements point to is looked up when the adjoint runs."""

    def read_after(self, index: int) -> Region:
        """Return that anything may be read: elements of other launches may point to it."""
        return None

    read_before = read_after

    def saves(self) -> tuple[int, ...]:
        """Return the parameters whose contents before the launch the adjoint needs, without those in elements."""
        return tuple(k for k in super().saves() if k not in self.tables)

    def prepare(self, cotangents: Cotangents) -> list[Operation]:
        launch, used = self.launch, self.launch.executable
        pointed = {k: t for k, t in self.tables.items() if k in self.active}
        direct = {k: a for k in self.active if (a := launch.arrays[k]) is not None and k not in self.tables}
        written = {a._memory for k, a in direct.items() if k in used.writes}
        written.update(held._memory for k, table in pointed.items() if k in used.writes for held in table.arrays)
        if cotangents.live.isdisjoint(written):
            return []
        program = self.program()
        if program is None:
            assert self._error is not None
            raise self._error
        self.check_lost()
        given = {k: cotangents.of(a) for k, a in direct.items()}
        inner: list[array] = []

        def cotangent(held: array) -> array:
            # Called once for each array, however many elements point to it: these then share one cotangent.
            inner.append(cotangents.of(held))
            return inner[-1]

        for k, table in pointed.items():
            given[k] = table.mapped(cotangent)
            cotangents.live.update(held._memory for held in table.arrays)
        cotangents.live.update(a._memory for a in direct.values())
        return [_Adjoint(launch, given, self, inner, cotangents)]


class _Adjoint(AdjointLaunch):
    """An adjoint with cotangents in elements."""

    in_elements = True

    def __init__(
        self,
        launch: PackedLaunch,
        given: dict[int, array],
        step: PointedStep,
        inner: list[array],
        cotangents: Cotangents,
    ) -> None:
        self._inner = inner
        rooms = cotangents.rooms.of_step()  # there are only copies of whole arrays
        saved, contents = rooms.filled(step.saved)[0], rooms.filled(step.contents)[0]
        super().__init__(launch, given, saved, contents, step.program())

    def reads(self) -> list[array]:
        """Return the arrays that are read."""
        return [*super().reads(), *self._inner]

    def writes(self) -> list[array]:
        """Return the cotangents, including those in elements."""
        return [*super().writes(), *self._inner]

    def steps(self) -> None:
        """Return None: it is not repeated, as elements may point to other arrays then."""
