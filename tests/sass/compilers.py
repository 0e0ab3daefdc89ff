"""The corpus by both compilers for CUDA, side by side."""

from __future__ import annotations

import math
import re
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from corpus import Sample
from grad.build import values

from diffkern.compiler.compilation import Compilation
from diffkern.compiler.program import Program
from diffkern.contracts.manifest import GpuResources
from diffkern.contracts.options import Variant
from diffkern.kernels.kernel import Kernel
from diffkern.targets.cuda import disassembler, sass
from diffkern.targets.cuda.cubin import resources

__all__ = ["Made", "Pair", "compare", "mean"]

_ATOMIC = re.compile(r"\b(atom|red)\.[\w.]*?\.?(shared|global)?[\w.:]*\.(add|min|max|exch|cas|and|or|xor|inc|dec)\.")
_WIDE = re.compile(r"v([24])\.")


@dataclass(frozen=True)
class Made:
    """A program by one of the compilers.

    Attributes
    ----------
    seconds
        Processor time that it took; LTO code that was made for another architecture is not made again.
    parameter_bytes
        What its kernel takes.
    """

    code: sass.MachineCode
    resources: GpuResources
    ptx: str
    seconds: float
    parameter_bytes: int

    @property
    def size(self) -> int:
        """How many instructions there are."""
        return len(self.code.instructions)

    @property
    def atomics(self) -> Counter[str]:
        """How many numbers atomics update, by kind: in PTX, where no loop has been unrolled by the assembler.

        Several neighbouring ones may be added by one instruction.
        """
        found: Counter[str] = Counter()
        for m in _ATOMIC.finditer(self.ptx):
            wide = _WIDE.match(self.ptx, m.end())
            found[f"{m[1]} {m[3]}"] += int(wide[1]) if wide else 1
        return found


@dataclass(frozen=True)
class Pair:
    """A sample in one direction for one architecture by both compilers."""

    sample: Sample
    direction: str
    arch: str
    llvm: Made
    numba: Made

    @property
    def name(self) -> str:
        """What it is."""
        return f"{self.sample.name} {self.direction}"

    @property
    def ratio(self) -> float:
        """Instructions by numba-cuda for each of LLVM's."""
        return self.numba.size / self.llvm.size


def compare(samples: Iterable[Sample], direction: str, architectures: Sequence[str]) -> list[Pair]:
    """Compile samples both ways for several architectures."""
    made = [one for sample in samples for one in _programs(sample, direction, architectures)]
    codes = disassembler.codes([program.object_code for *_, program in made])
    found = [
        Made(
            sass.join("kernel", code),
            program.manifest.resources,
            program.files["kernel.ptx"].decode(),
            seconds,
            resources(program.object_code)["kernel"].parameter_bytes,
        )
        for (_, _, seconds, program), code in zip(made, codes, strict=True)
    ]
    return [
        Pair(sample, direction, arch, llvm, numba)
        for (sample, arch, *_), llvm, numba in zip(made[::2], found[::2], found[1::2], strict=True)
    ]


def _programs(
    sample: Sample, direction: str, architectures: Sequence[str]
) -> Iterator[tuple[Sample, str, float, Program]]:
    types = Kernel(sample.function).argument_types(*values(sample.case))
    active = None if direction == "forward" else frozenset(range(len(types)))
    for arch in architectures:
        for compiler in ("llvm", "numba"):
            start = time.process_time()
            variant = Variant(active=active, target=arch, may_alias=False, compiler=compiler)
            program = Compilation(sample.function, types, variant, **sample.options).build("kernel")
            yield sample, arch, time.process_time() - start, program


def mean(pairs: Iterable[Pair]) -> float:
    """The geometric mean of their ratios."""
    logarithms = [math.log(pair.ratio) for pair in pairs]
    return math.exp(sum(logarithms) / len(logarithms))
