"""Instructions that a warp executes of a program, forward and adjoint, on average: ``executed.json``.

A change of the compiler that changes them must change the record too: ``DIFFKERN_UPDATE_GOLDEN=1`` writes what is
found, and the difference is then read like code. They are the PTX's, before NVIDIA's assembler; the counts of its
machine code, which say nothing of loops and branches, are in ``tests/sass``. Another LLVM than that of the record
gives other numbers without anybody's doing; these are compared with a margin.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from diffkern.cache.environment import distribution_versions

PATH = Path(__file__).parent / "executed.json"
_MARGIN = 1.25


def check(found: Mapping[str, float]) -> None:
    """Compare the counts of some programs with the record, or write them there."""
    record = json.loads(PATH.read_text()) if PATH.exists() else {"llvmlite": "", "programs": {}}
    if os.environ.get("DIFFKERN_UPDATE_GOLDEN") == "1":
        kept = record["programs"] if record["llvmlite"] == version() else {}
        lines = [f"  {json.dumps(name)}: {count}" for name, count in sorted({**kept, **found}.items())]
        PATH.write_text(f'{{"llvmlite": "{version()}", "programs": {{\n' + ",\n".join(lines) + "\n}}\n")
        return
    problems = list(compare(record["programs"], found, exact=record["llvmlite"] == version()))
    assert not problems, "\n".join(problems)


def version() -> str:
    """Of the LLVM that makes the programs."""
    return dict(distribution_versions(("llvmlite",)))["llvmlite"]


def compare(record: Mapping[str, float], found: Mapping[str, float], *, exact: bool) -> Iterator[str]:
    """Yield what differs; without `exact`, what is more than a quarter above the record."""
    for name, count in found.items():
        recorded = record.get(name)
        if recorded is None:
            yield f"{name}: not recorded, DIFFKERN_UPDATE_GOLDEN=1 does it"
        elif count != recorded if exact else count > _MARGIN * recorded:
            yield f"{name}: a warp executes {recorded} instructions by the record, and {count} now"
