"""``with dk.no_grad():`` — what happens in the block is not recorded on a tape."""

from __future__ import annotations

from types import TracebackType

from diffkern.runtime.memory.scope import put
from diffkern.runtime.memory.state import Handler, current, handler_now

__all__ = ["no_grad"]


class no_grad:
    """Leave the current tape for a block: launches, copies and fills in it have no part in gradients.

    The contents of an array that has a part in them must not be changed in the block: :meth:`Tape.backward` refuses a
    gradient that would pass such a change. Other arrays count as constants on the tape after it.
    """

    def __enter__(self) -> no_grad:
        self._tape: Handler | None = handler_now()
        self._left: Handler | None = current.left
        # Inside of a custom operation nothing is recorded, and what it reads is looked at.
        if self._tape is not None and not self._tape.records:
            return self
        # The tape that was left is still told of operations: what they change, no gradient may pass.
        if self._tape is not None:
            put("left", self._tape)
        put("tape", None)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        put("tape", self._tape)
        put("left", self._left)
