"""NVIDIA's mathematical library, function by function.

For names of its functions, :func:`functions` returns a module, as LLVM text, that has them and all that they call or
read, and nothing else. The library is read and split once in a process; extracting functions from it is cheap.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from pathlib import Path

from llvmlite import binding as llvm

from diffkern.errors import CompileError
from diffkern.process import wheels

INSTALL = 'run: pip install "diffkern[cuda]"'

_LABEL = re.compile(r"(?:define|declare)\b.*?(@[\w.$]+)\(|([@%][\w.$]+|!\d+) =|attributes (#\d+) =")
_REFERENCE = re.compile(r"@[\w.$]+|%struct\.[\w.$]+|[#!]\d+")
_FLUSHES = re.compile(r'^(@[\w.]+) = .* c"__CUDA_FTZ\\00"', re.MULTILINE)


def bitcode() -> bytes:
    """Return the library as it is installed.

    Raises
    ------
    CompileError
        If it is not installed.
    """
    found = wheels.find("libdevice.10.bc")
    if found is not None:
        return found.read_bytes()
    try:
        from cuda.pathfinder import BitcodeLibNotFoundError, find_bitcode_lib
    except ImportError as error:
        raise absent(error) from error
    try:
        return Path(find_bitcode_lib("device")).read_bytes()
    except BitcodeLibNotFoundError as error:
        raise absent(error) from error


def absent(error: Exception | None = None) -> CompileError:
    """Return the error to raise where a part of the CUDA compilers is missing."""
    return CompileError("the CUDA compilers are not installed" + (f": {error}" if error else ""), remedy=INSTALL)


@functools.cache
def load() -> dict[str, str]:
    """Return every function, table, group of attributes and node of metadata, by name.

    Raises
    ------
    CompileError
        If the library is not installed.
    """
    text = str(llvm.parse_bitcode(bitcode()))
    flushes = _FLUSHES.search(text)
    if flushes:
        # Subnormal numbers are kept: the answer is known here, so that the branches on it need no compiler.
        text = text.replace(f"call i32 @__nvvm_reflect(ptr {flushes[1]})", "add i32 0, 0 ;")
    found = {}
    # Functions end with a brace on a line of its own; everything else is one line.
    for piece in text.split("\ndefine "):
        body, end, rest = f"define {piece}".partition("\n}\n")
        parts = [body + end, *rest.split("\n")] if end else piece.split("\n")
        for part in parts:
            label = _LABEL.match(part)
            if label:
                found[label[1] or label[2] or label[3]] = part
    return found


@functools.lru_cache(maxsize=256)
def functions(names: tuple[str, ...], triple: str, data_layout: str) -> str:
    """Return a module with some of the library's functions and their dependencies.

    Raises
    ------
    CompileError
        If the library is not installed.
    """
    parts = load()
    wanted = _closure([f"@{name}" for name in names], parts)
    head = f'target triple = "{triple}"\ntarget datalayout = "{data_layout}"\n'
    return head + "\n".join(part for name, part in parts.items() if name in wanted)


def _closure(names: Iterable[str], parts: dict[str, str]) -> set[str]:
    found: set[str] = set()
    more = [name for name in names if name in parts]
    while more:
        name = more.pop()
        if name not in found:
            found.add(name)
            more += [other for other in _REFERENCE.findall(parts[name]) if other in parts and other not in found]
    return found
