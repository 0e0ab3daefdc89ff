"""Detects loads that LLVM 22 moves behind the stores that overwrite their element.

:func:`has_sunk_loads` tells whether a masked load of an optimised module may stand behind such a store.

The loop vectoriser turns the loads in a branch into masked loads, and selects by the same mask where branches meet. The
pass ``instcombine`` merges both into one masked load, which gives the other value where the mask is off, and puts it in
the place of the selection: a thread that swaps an element under a condition reads its own store
(llvm/llvm-project#215453, fixed after 22.1). Only that fold makes a masked load give anything but ``poison`` where the
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
    """Return whether a masked load of a vectorised loop gives a selected value and follows a store of its trip."""
    # Most modules have no masked load, and need not be printed.
    if not any(f.is_declaration and f.name.startswith(_LOAD) for f in module.functions):
        return False
    text = str(module)
    stored, suspects = False, []
    for line in text.splitlines():
        # A store counts within one vectorised iteration only.
        if line.startswith(("define ", "}")) or _LABEL.match(line):
            stored = False
        elif _STORES.match(line):
            stored = True
        elif stored and _LOAD in line:
            loaded = _LOADED.match(line)
            if loaded is None or loaded[2] not in _NOTHING:
                suspects.append("" if loaded is None else loaded[1])
    # A frozen load is one of the lanes' own, which the fold cannot have touched.
    return any(not re.search(rf"= freeze <[^>]*> {re.escape(name)}(?![\w.])", text) for name in suspects)
