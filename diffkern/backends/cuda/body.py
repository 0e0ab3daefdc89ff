"""The body of a thread on CUDA: what differs from the CPU's spelling.

In: as :mod:`diffkern.backends.llvm.function`, with arrays whose data pointers are in the global address space. Out: the
same, with atomic updates as the hardware has them: ``red`` where nothing asks for the old value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from diffkern.backends.cuda.registers import add_quietly
from diffkern.backends.llvm.function import BodyEmitter
from diffkern.backends.llvm.memory import atomic_element, component
from diffkern.backends.llvm.types import F32, F64, I32, I64, Builder
from diffkern.ir.nodes import Op
from diffkern.ir.types import STORAGE_ONLY, Element, scalar_of

_QUIET = (F32, F64, I32, I64)


@dataclass(slots=True)
class CudaBody(BodyEmitter):
    """Emits the ops of one thread for the CUDA target.

    Attributes
    ----------
    quiet
        Results of atomic ops that nothing uses, by identity of the op.
    """

    quiet: frozenset[int] = frozenset()

    def update(self, op: Op, t: Element, pointer: Any, kind: str, parts: Sequence[Any]) -> list[Any]:
        if op.name == "accumulate" or id(op) in self.quiet:
            return add_element(self.builder, t, pointer, kind, parts)
        return atomic(self.builder, t, pointer, kind, parts)


def atomic(b: Builder, t: Element, pointer: Any, kind: str, parts: Sequence[Any]) -> list[Any]:
    """An atomic update of the components of an element; returns the old ones."""
    if kind == "sub" and scalar_of(t).is_float and scalar_of(t) not in STORAGE_ONLY:
        kind, parts = "add", [b.fneg(v) for v in parts]  # the hardware has no subtraction
    return atomic_element(b, t, pointer, kind, parts)


def add_element(b: Builder, t: Element, pointer: Any, kind: str, parts: Sequence[Any]) -> list[Any]:
    """An atomic update whose results nothing uses."""
    s = scalar_of(t)
    if kind not in ("add", "sub") or s in STORAGE_ONLY or parts[0].type not in _QUIET:
        return atomic(b, t, pointer, kind, parts)
    for k, part in enumerate(parts):
        negated = part if kind == "add" else b.fneg(part) if s.is_float else b.neg(part)
        add_quietly(b, component(b, s, pointer, k), negated)
    return list(parts)
