"""The named sets of operations hold what ``sets_of_operations.txt`` says.

Most are defined by what rows have in common. A new row that gets into one of them, or no longer does, is to be seen.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator

import diffkern.ir.ops as folder
from diffkern.ir.ops.table import all_ops

from .golden import check_golden


def _sets() -> Iterator[tuple[str, frozenset[str]]]:
    """Yield the sets that modules of the folder define, by the name of the set; imported ones once."""
    seen: set[str] = set()
    for found in sorted(info.name for info in pkgutil.iter_modules(folder.__path__)):
        for name, value in sorted(vars(importlib.import_module(f"{folder.__name__}.{found}")).items()):
            if name.isupper() and isinstance(value, frozenset) and value <= all_ops().keys() and name not in seen:
                seen.add(name)
                yield name, value


def test_sets_of_operations() -> None:
    lines = [f"{name}: {' '.join(sorted(names))}" for name, names in sorted(_sets())]
    assert len(lines) > 50
    check_golden("sets_of_operations", "\n".join(lines) + "\n")
