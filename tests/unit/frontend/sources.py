"""Kernels from text, so that a test can say which characters of which line an error must point at."""

from __future__ import annotations

import itertools
import linecache
import textwrap
from collections.abc import Callable
from typing import Any

import numpy as np

import diffkern as dk
from diffkern.errors import KernelError
from diffkern.frontend.statements import lowering
from diffkern.ir.nodes import Function
from diffkern.ir.printer import to_text
from diffkern.ir.types import FLOAT32, FLOAT64, INT32, INT64, UINT8, Array, Mat, Type, Vec
from diffkern.ir.verify import verify

_COUNT = itertools.count()

PARAMETERS: dict[str, Type] = {
    "x": Array(FLOAT32, 1),
    "y": Array(FLOAT32, 1),
    "grid": Array(FLOAT32, 2),
    "d": Array(FLOAT64, 1),
    "index": Array(INT32, 1),
    "wide": Array(INT64, 1),
    "bytes8": Array(UINT8, 1),
    "v": Array(Vec(FLOAT32, 3), 1),
    "m": Array(Mat(FLOAT32, 3, 3), 1),
    "n": INT32,
    "a": FLOAT32,
}


def function_from(source: str, **names: Any) -> Callable[..., Any]:
    """The last function defined by a source text, with the given globals."""
    text = textwrap.dedent(source)
    file = f"<test {next(_COUNT)}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    namespace: dict[str, Any] = {"dk": dk, "np": np, **names}
    before = set(namespace)
    exec(compile(text, file, "exec"), namespace)
    return [value for name, value in namespace.items() if name not in before and callable(value)][-1]


def kernel_of(statements: str, **names: Any) -> Callable[..., Any]:
    """A kernel with the parameters above; the statements begin in line 3."""
    head = f"def kernel({', '.join(PARAMETERS)}):\n    i = dk.tid()\n"
    return function_from(head + textwrap.indent(textwrap.dedent(statements), "    ") + "\n", **names)


def lower(statements: str, **names: Any) -> Function:
    """The verified IR of such a kernel."""
    fn = lowering.lower(kernel_of(statements, **names), list(PARAMETERS.values()))
    verify(fn)
    return fn


def text_of(statements: str, **names: Any) -> str:
    """The IR of such a kernel as text."""
    return to_text(lower(statements, **names))


def mistakes(statements: str, **names: Any) -> tuple[KernelError, ...]:
    """The mistakes found in such a kernel."""
    try:
        lower(statements, **names)
    except KernelError as error:
        return error.errors
    return ()


def marked(error: KernelError) -> str:
    """The characters an error points at."""
    loc = error.loc
    assert loc is not None
    assert loc.end_line is not None
    end = loc.end_col if loc.end_line == loc.line else None
    return loc.text[loc.col : end]
