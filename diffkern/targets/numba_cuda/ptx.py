"""Replaces ``atom`` by ``red`` in atomic operations whose old value is not read.

It changes PTX with one kernel. Numba's atomic functions return the old value, and the assembler waits for it even if no
instruction reads it.
"""

from __future__ import annotations

import re
from collections import Counter

__all__ = ["without_old_values"]

_ATOMIC = re.compile(
    r"^(\s*(?:@!?%p\d+ )?)atom((?:\.\w+)*\.(?:add|min|max|and|or|xor|inc|dec)\.\w+)\s+(%\w+), ", re.MULTILINE
)
_REGISTER = re.compile(r"%\w+")


def without_old_values(ptx: str) -> str:
    """Return the text with reductions where an old value is not read."""
    # A register that occurs only once in the text is written and never read.
    uses = Counter(_REGISTER.findall(ptx))

    def quiet(match: re.Match[str]) -> str:
        return f"{match[1]}red{match[2]} \t" if uses[match[3]] == 1 else match[0]

    return _ATOMIC.sub(quiet, ptx)
