"""Registers and instructions of the corpus, recorded under version control.

A change of the compiler that changes them must change the files too: run the tests with ``DIFFKERN_UPDATE_GOLDEN=1``
and look at the difference. Other versions of NVIDIA's and LLVM's compilers than those of the record give other numbers
without anybody's doing; these are compared with a margin.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from diffkern.cache.environment import distribution_versions
from diffkern.contracts.platforms import platform_named

from .programs import Program

DIRECTORY = Path(__file__).parent / "resources"
_INSTRUCTIONS, _REGISTERS = 1.25, 8  # margins with other compilers

Record = Mapping[str, Any]


def compilers() -> dict[str, str]:
    """The versions of those that make every program."""
    names = platform_named("sm_90").family.compilers[:3]
    return {name.replace("_", "-"): version for name, version in sorted(distribution_versions(names))}


def taken(programs: tuple[Program, ...]) -> dict[str, list[int]]:
    """Registers and instructions of each program."""
    return {p.name: [p.manifest.resources.registers, len(p.code.instructions)] for p in programs}


def check(arch: str, programs: tuple[Program, ...]) -> list[str]:
    """What differs from the record; with DIFFKERN_UPDATE_GOLDEN=1 the record is written anew."""
    path = DIRECTORY / f"{arch}.json"
    found = taken(programs)
    if os.environ.get("DIFFKERN_UPDATE_GOLDEN") == "1":
        path.parent.mkdir(exist_ok=True)
        path.write_text(as_text({"compilers": compilers(), "programs": found}))
        return []
    if not path.exists():
        return [f"{path} is missing; DIFFKERN_UPDATE_GOLDEN=1 writes it"]
    return list(compare(json.loads(path.read_text()), found, compilers()))


def compare(record: Record, found: Mapping[str, list[int]], compilers: Mapping[str, str]) -> Iterator[str]:
    """Yield each difference between a record and what was found."""
    recorded: Mapping[str, list[int]] = record["programs"]
    for name in sorted(recorded.keys() ^ found.keys()):
        yield f"{name}: only {'recorded' if name in recorded else 'found'}"
    # libNVVM has no part in these programs but for its mathematical library, whose functions are few and old.
    decisive = ("llvmlite", "nvidia-nvjitlink")
    exact = all(record["compilers"].get(name) == compilers.get(name) for name in decisive)
    for name in sorted(recorded.keys() & found.keys()):
        (registers, instructions), (registers_now, instructions_now) = recorded[name], found[name]
        if exact:
            differs = recorded[name] != found[name]
        else:
            differs = instructions_now > _INSTRUCTIONS * instructions + 16 or registers_now > registers + _REGISTERS
        if differs:
            yield (
                f"{name}: {registers} registers and {instructions} instructions are recorded, "
                f"{registers_now} and {instructions_now} found"
            )


def as_text(record: Record) -> str:
    """JSON with one line for each program."""
    lines = [f"  {json.dumps(name)}: {json.dumps(numbers)}" for name, numbers in sorted(record["programs"].items())]
    head = json.dumps(record["compilers"], sort_keys=True)
    return f'{{"compilers": {head},\n "programs": {{\n' + ",\n".join(lines) + "\n}}\n"
