"""What numba-cuda makes of the printed CUDA source, counted beside what LLVM's back end makes of the same functions.

``python -m sass.numba_counts [--arch sm_90] [--only NAME…] [--write FILE.json]`` in ``tests`` prints a line for each
kernel of the corpus, forward and adjoint: instructions of both, their ratio, registers, local memory, float64
instructions that LLVM's program does not have, and atomics where they differ.
"""

from __future__ import annotations

import argparse
import json
import math
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from corpus import SAMPLES, Sample
from grad.build import values

from diffkern.compilation import Compilation
from diffkern.kernel import Kernel
from diffkern.manifest import GpuResources
from diffkern.options import Variant
from diffkern.targets.cuda import disassembler, sass

__all__ = ["Made", "Pair", "compare"]

COMPILERS = ("llvm", "numba")
_ATOMIC = re.compile(r"\b(atom|red)\.[\w.]*?\.?(shared|global)?[\w.:]*\.(add|min|max|exch|cas|and|or|xor|inc|dec)\.")


@dataclass(frozen=True)
class Made:
    """A program by one of the compilers."""

    code: sass.Code
    resources: GpuResources
    ptx: str

    @property
    def size(self) -> int:
        """How many instructions there are."""
        return len(self.code.instructions)

    @property
    def atomics(self) -> Counter[str]:
        """How many atomics of each kind: in PTX, where no loop has been unrolled by the assembler."""
        return Counter(f"{m[1]} {m[3]}" for m in _ATOMIC.finditer(self.ptx))


@dataclass(frozen=True)
class Pair:
    """A sample in one direction by both compilers."""

    name: str
    llvm: Made
    numba: Made

    @property
    def ratio(self) -> float:
        """Instructions by numba-cuda for each of LLVM's."""
        return self.numba.size / self.llvm.size


def compare(samples: Iterable[Sample], arch: str = "sm_90") -> list[Pair]:
    """Compile samples, forward and adjoint, both ways."""
    made = []
    for sample in samples:
        types = Kernel(sample.function).argument_types(*values(sample.case))
        for direction in ("forward", "adjoint"):
            active = None if direction == "forward" else frozenset(range(len(types)))
            for compiler in COMPILERS:
                variant = Variant(active=active, target=arch, may_alias=False, compiler=compiler)
                program = Compilation(sample.function, types, variant, **sample.options).build("kernel")
                made.append((f"{sample.name} {direction}", program))
    codes = disassembler.codes([program.object_code for _, program in made])
    found = [
        Made(sass.join("kernel", code), program.manifest.resources, program.files["kernel.ptx"].decode())
        for (_, program), code in zip(made, codes, strict=True)
    ]
    return [Pair(name, llvm, numba) for (name, _), llvm, numba in zip(made[::2], found[::2], found[1::2], strict=True)]


def _line(pair: Pair) -> str:
    a, b = pair.llvm, pair.numba
    wide = b.code.count("float64")
    notes = f"  {wide} float64" if wide and not a.code.count("float64") else ""
    if a.atomics != b.atomics:
        notes += f"  {dict(a.atomics)} / {dict(b.atomics)}"
    registers = f"{a.resources.registers:4}/{b.resources.registers:<4}"
    local = f"{a.resources.stack_bytes:6}/{b.resources.stack_bytes:<6}"
    return f"{pair.name:42}{a.size:6}{b.size:6}{pair.ratio:7.2f}  {registers}{local}{notes}"


def _mean(found: Iterable[Pair]) -> float:
    logarithms = [math.log(pair.ratio) for pair in found]
    return math.exp(sum(logarithms) / len(logarithms))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--arch", default="sm_90")
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--write", type=Path)
    options = parser.parse_args()
    found = compare([s for s in SAMPLES.values() if not options.only or s.name in options.only], options.arch)
    for pair in found:
        print(_line(pair))
    for direction in ("forward", "adjoint"):
        chosen = [pair for pair in found if pair.name.endswith(direction)]
        print(f"{direction}: {_mean(chosen):.3f} in the geometric mean, {max(p.ratio for p in chosen):.2f} at most")
    print(f"all {len(found)}: {_mean(found):.3f}")
    if options.write:
        rows = {pair.name: [pair.llvm.size, pair.numba.size] for pair in found}
        options.write.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
