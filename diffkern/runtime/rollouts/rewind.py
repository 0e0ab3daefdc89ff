"""A block whose changes of arrays can be taken back.

While the block runs, it stands in a tape's place: each array is copied before it is first overwritten. The copies put
all of them back, as often as is wanted, together with the states of the global random generators.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from diffkern.errors import LaunchError
from diffkern.runtime.arrays.array import array
from diffkern.runtime.arrays.operation import Operation, submit
from diffkern.runtime.effects.snapshots import Randomness, Spare, State
from diffkern.runtime.launch.packed import PackedLaunch
from diffkern.runtime.memory.memory import births
from diffkern.runtime.memory.scope import Scope
from diffkern.runtime.memory.stream import Stream

__all__ = ["Rewind"]


class Rewind(Scope):
    """Keeps what the operations of a block overwrite.

    Arrays that the block itself makes are not kept.
    """

    records = False
    """False: no derivative is taken of what is done in the block."""
    repeats = False
    """False: it is the caller who runs it again, without this object."""
    follower = None
    """There is no tape around it that it stands for."""

    def __init__(self) -> None:
        self._state = State(0, Spare(), randomness=Randomness())
        self._began = births()

    def _begin(self) -> tuple[str, Rewind, Rewind]:
        return "tape", self, self

    @property
    def arrays(self) -> list[array]:
        """The arrays that have been overwritten."""
        return self._state.arrays

    def keep(self, held: array) -> None:
        """Copy an array, unless the block has made it or has changed it before."""
        if held._memory.born < self._began:
            self._state.keep(held)

    def restore(self) -> None:
        """Put back what the arrays held, and the states of the generators."""
        self._state.restore()

    # -- in a tape's place --------------------------------------------------------------------------------------------

    def take(self, operation: Operation, stream: Stream | None = None) -> None:
        """Keep what an operation overwrites, and run it."""
        self.note_unrecorded(operation)
        submit(operation, stream)

    def note_unrecorded(self, operation: Operation) -> None:
        """Keep what an operation overwrites."""
        if isinstance(operation, PackedLaunch) and operation.executable.writes_elements:
            raise LaunchError(
                f"kernel {operation.kernel.name!r} writes to arrays in elements of an array, which are not put back",
                remedy="pass these arrays as parameters of their own",
            )
        for held in operation.writes():
            self.keep(held)

    def note_read(self, held: array) -> None:
        """The host may read what it likes."""

    def is_differentiated(self, held: array) -> bool:
        """Return False: no derivative is taken."""
        return False

    def check_not_read(self, found: Iterable[Any], what: str) -> None:
        """No derivative could miss what the host has read."""

    def begin_derivative(self, name: str | None) -> None:
        """No derivative begins."""

    def end_derivative(self) -> None:
        """No derivative ends."""

    def hide(self, began: int, ended: int, results: Collection[Any], name: str) -> None:
        """Nothing is hidden from a derivative."""

    def derive(self, found: Iterable[Any], sources: Iterable[Any]) -> None:
        """No array here is a derivative."""
