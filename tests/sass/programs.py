"""The corpus compiled for an architecture and disassembled."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from corpus import SAMPLES, Sample
from grad.build import values

from diffkern.compiler.compilation import Compilation
from diffkern.compiler.program import Program as CompiledProgram
from diffkern.contracts.manifest import Manifest
from diffkern.contracts.options import Variant
from diffkern.kernels.kernel import Kernel
from diffkern.targets.cuda import disassembler, sass

ARCHITECTURES = ("sm_75", "sm_80", "sm_90", "sm_100", "sm_120")
DIRECTIONS = ("forward", "adjoint")


@dataclass(frozen=True)
class Program:
    """A sample in one direction.

    Attributes
    ----------
    code
        The kernel with all functions it calls.
    manifest
        The program's facts: registers, memory, arrays read and written.
    """

    sample: Sample
    direction: str
    code: sass.MachineCode
    manifest: Manifest

    @property
    def name(self) -> str:
        return f"{self.sample.name} {self.direction}"


@functools.cache
def programs(arch: str) -> tuple[Program, ...]:
    """The whole corpus, forward and adjoint; arrays are taken not to overlap, as a launch finds out."""
    return read((sample, d, {"target": arch, "may_alias": False}) for sample in SAMPLES.values() for d in DIRECTIONS)


def read(wanted: Iterable[tuple[Sample, str, Mapping[str, Any]]]) -> tuple[Program, ...]:
    """Compile and disassemble; the adjoint is for all parameters that have gradients."""
    chosen = list(wanted)
    made = [_compile(*one) for one in chosen]
    codes = disassembler.codes([program.object_code for program in made])
    return tuple(
        Program(sample, direction, sass.join("kernel", code), program.manifest)
        for (sample, direction, _), program, code in zip(chosen, made, codes, strict=True)
    )


def _compile(sample: Sample, direction: str, options: Mapping[str, Any]) -> CompiledProgram:
    types = Kernel(sample.function).argument_types(*values(sample.case))
    active = None if direction == "forward" else frozenset(range(len(types)))
    return Compilation(sample.function, types, Variant(active=active, **options), **sample.options).build("kernel")
