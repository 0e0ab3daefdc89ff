"""Instructions of kernels and their adjoints for GPUs: machine code where NVIDIA's tools are, PTX elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import diffkern as dk
from diffkern.errors import CompileError

ARCHITECTURES = ("sm_80", "sm_90")


def counted(kernel: Any) -> Iterator[tuple[str, str]]:
    """Yield the counts of a kernel or a tuple of a kernel and types: what was counted, and the figures."""
    kernel, *types = kernel if isinstance(kernel, tuple) else (kernel,)
    given = {"args": tuple(types)} if types else {}
    for arch in ARCHITECTURES:
        for direction in ("forward", "adjoint"):
            made = dk.compile(kernel, target=arch, adjoint=direction == "adjoint", may_alias=False, **given)
            yield f"{arch} {direction}", _figures(made)


def _figures(made: Any) -> str:
    try:
        found = made.instructions
        told = f"{sum(found.values())} SASS, {made.registers} registers"
        return f"{told}, {made.stack_bytes} bytes of stack" if made.stack_bytes else told
    except CompileError:
        # Without the disassembler. Lines that end in a semicolon and are no declarations are instructions.
        lines = (line.strip() for line in made.ptx.splitlines())
        return f"{sum(line.endswith(';') and not line.startswith('.') for line in lines)} PTX"
