"""Short functions in C as Python: formulas, and on a GPU what threads do together.

The input is the text of a function's body, for a CPU or a GPU, and the number of axes of its arrays; the result is the
body in Python, or None for a text outside of the subset. The subset has the statements of
:mod:`diffkern.warp.c.c_statements`, arithmetic, casts, conditional expressions, elements of arrays, fields, calls of
Warp's built-in functions, and reinterpretation of a number's bits as another type.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from diffkern.warp.c.c_calls import type_of_warp
from diffkern.warp.c.c_expressions import TYPES, Expression
from diffkern.warp.c.c_gpu import WAITS, update_named
from diffkern.warp.c.c_statements import Statements
from diffkern.warp.c.c_types import OtherTextError, Typed

__all__ = ["body_of", "preprocessed", "translated"]

_GPU: Final = re.compile(r"defined\s*\(?\s*__CUDA_ARCH__\s*\)?|__CUDA_ARCH__")
_VECTORS: Final = ("vec2", "vec3", "vec4", "vec2i", "vec3i", "vec4i", "quat", "mat33")
_DECLARED: Final[Mapping[str, str]] = {
    **TYPES, **{f"wp::{name}": f"wp.{name}" for name in _VECTORS},
    **dict.fromkeys(("auto", "float2", "float3", "float4", "int2", "int3", "int4"), ""),
}  # fmt: skip
"""Types of variables: also those of vectors, and that of what they are set to."""


def preprocessed(text: str, gpu: bool) -> str:
    """Return a text as a compiler for a CPU or a GPU sees it: without comments, and with one branch of each ``#if``."""
    # Comments become white space with their newlines, so that errors name the right line.
    text = re.sub(r"/\*.*?\*/|//[^\n]*", lambda m: " " + "\n" * m[0].count("\n"), text, flags=re.DOTALL)
    kept: list[str] = []
    seen: list[bool] = []
    for number, line in enumerate(text.splitlines(), 1):
        found = re.match(r"\s*#\s*(\w+)(.*)", line)
        directive, rest = (f"#{found[1]}", found[2]) if found else ("", "")
        keeps = all(seen) and not directive
        if directive in ("#if", "#ifdef", "#ifndef"):
            # `__CUDA_ARCH__` is the only macro with a known value, alone or negated: any other condition is refused.
            known = _GPU.sub("", rest).strip(" ()")
            if known not in ("", "!") or _GPU.search(rest) is None:
                raise OtherTextError(f"of the condition {line.strip()} nothing is known here", number)
            seen.append(gpu is not (directive == "#ifndef" or known == "!"))
        elif directive == "#else" and seen:
            seen[-1] = not seen[-1]
        elif directive == "#endif" and seen:
            seen.pop()
        # Directives in a branch that is not taken do not matter, except for #elif, which may begin one that is.
        elif directive == "#elif" or (all(seen) and directive not in ("", "#pragma")):
            raise OtherTextError(f"the directive {directive} is not translated", number)
        kept.append(line if keeps else "")  # so that lines keep their numbers
    return "\n".join(kept)


def body_of(
    text: str,
    parameters: Mapping[str, str],
    gpu: bool,
    axes: Mapping[str, int] = MappingProxyType({}),
    result: str | None = "",
) -> list[str] | None:
    """Return the statements of a body in Python; None if it is outside of the subset that is translated.

    See :func:`translated`.
    """
    try:
        return translated(text, parameters, gpu, axes, result)
    except OtherTextError:
        return None


def translated(
    text: str,
    parameters: Mapping[str, str],
    gpu: bool,
    axes: Mapping[str, int] = MappingProxyType({}),
    result: str | None = "",
    more: Mapping[str, Typed] = MappingProxyType({}),
) -> list[str]:
    """Return the statements of a body in Python.

    Parameters
    ----------
    text : str
        The body.
    parameters : mapping
        The types of the function's parameters, as in :mod:`diffkern.warp.c.c_types`, those of elements for arrays;
        those of fields are there as ``s.x``.
    gpu : bool
        Whether it is for a GPU.
    axes : mapping
        How many axes arrays have, by the name of a parameter, or of it and a field as ``s.x``; others have one. In C an
        element is named by its place in memory, which is that of contiguous arrays here.
    result : str or None
        The type of what the function returns; None if it returns nothing.
    more : mapping
        Variables besides the parameters: what they are called in Python, and their types.

    Raises
    ------
    OtherTextError
        The text is not of those that are translated; it says the line and the reason.
    """

    def simple(statement: str) -> list[str]:
        if (wait := WAITS.get("".join(statement.split()))) is not None:
            return [wait] * gpu  # on a processor a block has one thread, and a warp as well
        if gpu and (update_named(name := statement.partition("(")[0].strip()) or name == "__syncwarp"):
            return [expression(statement, read.known).whole().code]
        raise OtherTextError(f"the statement {statement} is not translated")

    def expression(part: str, known: Mapping[str, Typed]) -> Expression:
        return Expression(part, known, axes, elements, gpu)

    # Shared by all expressions of the text: it collects the elements read so far.
    elements: set[str] = set()
    types = {name: type_of_warp(kind[3:]) if kind.startswith("wp.") else kind for name, kind in _DECLARED.items()}
    known = {name: Typed(name, kind) for name, kind in parameters.items()} | dict(more)
    if {"wp", "c_functions", "c_warps"} & set(known):
        raise OtherTextError("the parameters wp, c_functions and c_warps have names of modules here")
    # From here on the text is that of one target: its author may have written a branch for each.
    text = preprocessed(text, gpu)
    # `a[k]` of an array parameter means the element at a flat offset, as `a.data[k]` does.
    for name in axes:
        text = re.sub(rf"(?<![\w.]){re.escape(name)}(\s*\[)", rf"{name}.data\1", text)
    read = Statements(text, types, simple, expression, known, elements, result, gpu)
    try:
        return read.lines()
    except OtherTextError as caught:
        raise OtherTextError(caught.args[0] if caught.args else "it is not translated", read.line()) from None
