"""The one owner of what is current in a thread of Python: the tape that records."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from diffkern.runtime.tape import Tape

__all__ = ["current"]


class _Current(threading.local):
    """State of each thread; a tape entered in one thread does not record what another launches."""

    tape: Tape | None = None


current = _Current()
