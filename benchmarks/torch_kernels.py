"""The kernel that is called from PyTorch, written once for both libraries.

In: a module with Warp's kernel language. Out: its kernel. The annotations are evaluated where a kernel is defined (no
``from __future__ import annotations`` here): they name the library through the parameter.
"""
# mypy: disable-error-code="valid-type, no-untyped-def, name-defined, misc, untyped-decorator"

from typing import Any


def make(w: Any) -> Any:
    """Return the kernel of one library."""

    @w.kernel
    def wave(x: w.array(dtype=float), a: float, y: w.array(dtype=float)):
        i = w.tid()
        y[i] = w.sin(a * x[i]) * x[i]

    return wave
