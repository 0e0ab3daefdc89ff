"""What must hold of a program's machine code: each rule gives the ways in which a program breaks it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from .programs import Program

Rule = Callable[[Program], Iterator[str]]


def width_of_floats(program: Program) -> Iterator[str]:
    """No float64 instruction in a float32 kernel, and some in a float64 one."""
    found = program.code.of_class("float64")
    if program.sample.real == "float32" and found:
        yield f"{len(found)} float64 instructions: {', '.join(sorted({i.opcode for i in found}))}"
    if program.sample.real != "float32" and not found:
        yield "no float64 instruction"


def local_memory(program: Program) -> Iterator[str]:
    """Nothing is spilled; local memory only where something is indexed at run time or a loop keeps states."""
    if program.manifest.resources.spill_bytes:
        yield f"{program.manifest.resources.spill_bytes} bytes spilled"
    if program.sample.indexed_locally:
        return
    if program.manifest.resources.stack_bytes or program.code.count("local"):
        yield f"{program.manifest.resources.stack_bytes} bytes of stack, {program.code.count('local')} accesses to it"


def atomics(program: Program) -> Iterator[str]:
    """Atomics where threads meet in one element, and nowhere else."""
    sample = program.sample
    wanted = sample.forward_atomic if program.direction == "forward" else bool(sample.shared) or sample.exchanges
    count = program.code.count("atomic")
    if count and not wanted:
        yield f"{count} atomics where no two threads meet"
    if wanted and not count:
        yield "no atomic where threads meet"


def atomics_that_wait(program: Program) -> Iterator[str]:
    """An atomic gives back the value before only in a loop of exchanges, or where the program reads it."""
    count = sum(".CAS" not in i.opcode for i in program.code.of_class("atom"))
    sample = program.sample
    if count and not (sample.exchanges and program.direction == "adjoint"):
        yield f"{count} atomics wait for a value that nobody reads"


def scopes(program: Program) -> Iterator[str]:
    """Atomics hold among all threads of the device: not of a block alone, and not of the whole machine."""
    found = [i.opcode for i in program.code.of_class("atomic") if ".GPU" not in i.opcode]
    if found:
        yield f"atomics of another scope than the device: {', '.join(sorted(set(found)))}"


def sums_before_atomics(program: Program) -> Iterator[str]:
    """What all threads add to one address is added up in the warp first, outside of loops."""
    arguments = program.sample.arguments()
    uniform = [name for name in program.sample.shared if not isinstance(arguments[name], np.ndarray)]
    if program.direction == "adjoint" and uniform and not program.code.count("shuffle"):
        yield f"the cotangent of {', '.join(sorted(uniform))} is added up without shuffles"
    if program.direction == "forward" and program.sample.sums and not program.code.count("shuffle"):
        yield "what all threads add to one element is added up without shuffles"


def wide_accesses(program: Program) -> Iterator[str]:
    """Vectors of four float32 are loaded and stored 128 bits at once."""
    if not program.sample.wide:
        return
    if not program.code.count("load128"):
        yield "no 128-bit load"
    stores_vectors = any(
        p.type.startswith("array1d<vec4") and k in program.manifest.writes
        for k, p in enumerate(program.manifest.params)
    )
    if program.direction == "forward" and stores_vectors and not program.code.count("store128"):
        yield "no 128-bit store"


def read_only_loads(program: Program) -> Iterator[str]:
    """Arrays that are only read, proved not to overlap, are loaded through the read-only path."""
    if program.direction == "forward" and read_only(program) and not program.code.count("load_constant"):
        yield "no load through the read-only path"


def read_only(program: Program) -> bool:
    """Whether some array is read and not written."""
    return bool(set(program.manifest.reads) - set(program.manifest.writes))


RULES: tuple[Rule, ...] = (
    width_of_floats,
    local_memory,
    atomics,
    atomics_that_wait,
    scopes,
    sums_before_atomics,
    wide_accesses,
    read_only_loads,
)


def broken(program: Program) -> list[str]:
    """All that is wrong with a program."""
    return [f"{program.name}: {text}" for rule in RULES for text in rule(program)]
