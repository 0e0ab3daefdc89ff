"""The record in which the threads of a program report, and the thread whose code is being emitted.

It is found by the header of the argument block, and shared by :mod:`checks` and :mod:`output`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["Record"]


@dataclass(slots=True)
class Record:
    """The record of a launch, as ``diffkern.contracts.abi`` describes it.

    Attributes
    ----------
    pointer
        Its address.
    thread
        Flattened index of the thread, a 64-bit value.
    """

    pointer: Any
    thread: Any = None
