"""Loads that LLVM 22 moves behind the stores that overwrite what they read.

In: an optimised module. Out: whether one of its masked loads may stand behind such a store.

The loop vectoriser makes masked loads of the loads in a branch, and a choice by the same mask where branches meet. The
pass ``instcombine`` makes one masked load of both, which gives the other value where the mask is off, and puts it where
the choice was: a thread that swaps an element under a condition reads what it has just written
(llvm/llvm-project#215453, mended after 22.1). Only that fold makes a masked load give anything but ``poison`` where the
mask is off; those of lanes give zeros, and are frozen, which keeps the fold away from them.
"""

from __future__ import annotations

import re
from typing import Any

__all__ = ["has_sunk_loads"]

_LOAD = "llvm.masked.load."
_LABEL = re.compile(r"^[\w.\"-]*vector\.body[\w.\"-]*:")
_LOADED = re.compile(r"^\s*(%[\w.\"-]+) = .*call .*@llvm\.masked\.load\..*[> ](\S+)\)(?:,|$| #)")
_STORES = re.compile(r"^\s*(?:store |.*call .*@llvm\.(?:masked\.(?:store|scatter)|mem(?:set|cpy|move))\.)")
_NOTHING = ("poison", "undef")


def has_sunk_loads(module: Any) -> bool:
    """Whether a masked load of a vectorised loop gives a chosen value, and stands behind a store of its iteration."""
    if not any(f.is_declaration and f.name.startswith(_LOAD) for f in module.functions):
        return False
    text = str(module)
    stored, suspects = False, []
    for line in text.splitlines():
        if line.startswith(("define ", "}")) or _LABEL.match(line):
            stored = False
        elif _STORES.match(line):
            stored = True
        elif stored and _LOAD in line:
            loaded = _LOADED.match(line)
            if loaded is None or loaded[2] not in _NOTHING:
                suspects.append("" if loaded is None else loaded[1])
    return any(not re.search(rf"= freeze <[^>]*> {re.escape(name)}(?![\w.])", text) for name in suspects)
