"""The layout of stamps: one row of 64-bit integers for each element of an array, and how accesses are numbered.

This module defines the columns of a row. A program writes them (:mod:`diffkern.ad.stamps`), and the run time reads them
(:mod:`diffkern.runtime.launch.stamps`).
"""

from __future__ import annotations

from typing import Final

__all__ = [
    "BLOCK", "EARLY", "FIELDS", "LATEST", "LEAST", "READ", "SITES", "SOURCE", "STORED", "UPDATED", "VALUE",
]  # fmt: skip

# All columns but LATEST are updated with an atomic maximum, so that rows can start as zeros. A minimum is kept as the
# maximum of `LEAST - number`, in the column behind its maximum.
STORED: Final = 0
"""Of an element: the greatest store; the one behind it has the least, as what is missing to LEAST."""
READ: Final = 2
"""The same of loads."""
VALUE: Final = 4
"""The same of the values that are stored."""
EARLY: Final = 6
"""The greatest load by a thread that was not the latest to store there."""
UPDATED: Final = 7
"""The same of atomic updates as of stores."""
LATEST: Final = 9
"""The thread that was the latest to store there, from 1 on."""
SOURCE: Final = 10
"""The same of the ways in which the values that are stored are computed, as of the values."""
FIELDS: Final = 12
LEAST: Final = 1 << 62
SITES: Final = 1 << 12
"""The number of an access is that of the thread times this, and that of the place in the source, from 1 on."""
BLOCK: Final = 1 << 11
"""The stride of block numbers in the numbers of threads, where threads are numbered within their block."""
