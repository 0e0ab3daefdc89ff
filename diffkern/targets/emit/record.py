"""Where the threads of a program report, and which thread it is whose code is emitted.

In: the header of the argument block. Out: what :mod:`checks` and :mod:`output` share.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["Record"]


@dataclass(slots=True)
class Record:
    """The record of a launch, as ``diffkern.abi`` describes it.

    Attributes
    ----------
    pointer
        Where it is.
    thread
        Flattened index of the thread, a 64-bit value.
    """

    pointer: Any
    thread: Any = None
