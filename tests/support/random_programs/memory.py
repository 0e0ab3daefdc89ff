"""The arrays of a random program and the parameters of its kernels.

Arrays belong to the program; a kernel has parameters, each with a kind and a role, and a launch binds arrays or views
of arrays to them. What a kernel may do with a parameter depends on its role alone, which keeps the threads of a launch
out of each other's way.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np

__all__ = ["COLUMNS", "KINDS", "Kind", "Parameter", "Role", "annotation", "struct_dtype"]

COLUMNS = 4
"""Columns of the arrays of two axes."""


@dataclass(frozen=True)
class Kind:
    """A kind of array: its elements (``"real"``, a composite of reals, a struct or an integer type) and its axes."""

    element: str
    ndim: int = 1
    components: tuple[int, ...] = ()


KINDS = {
    "line": Kind("real"),
    "grid": Kind("real", 2),
    "vec2": Kind("vec2", components=(2,)),
    "vec3": Kind("vec3", components=(3,)),
    "vec4": Kind("vec4", components=(4,)),
    "mat22": Kind("mat22", components=(2, 2)),
    "mat33": Kind("mat33", components=(3, 3)),
    "mat44": Kind("mat44", components=(4, 4)),
    "body": Kind("Body"),
    "few": Kind("real"),
    "one": Kind("real"),
    "int32": Kind("int32"),
    "int64": Kind("int64"),
    "int8": Kind("int8"),
    "uint8": Kind("uint8"),
    "int16": Kind("int16"),
    "uint16": Kind("uint16"),
    "uint32": Kind("uint32"),
    "perm": Kind("int32"),
}


class Role(Enum):
    """What a kernel does with an array."""

    READ = "read anywhere"
    OWN = "each thread reads and writes an element of its own"
    PLACE = "each thread writes one element, at an index from an array"
    SUM = "atomic additions"
    LEAST = "atomic minima"
    GREATEST = "atomic maxima"


@dataclass(frozen=True)
class Parameter:
    """An array parameter of a kernel."""

    name: str
    kind: str
    role: Role

    @property
    def written(self) -> bool:
        """Whether the kernel changes it."""
        return self.role is not Role.READ


def typed(element: str, real: str) -> str:
    """An element type as a kernel names it, for a program in ``float32`` or ``float64``."""
    if element == "real":
        return f"dk.{real}"
    if element.startswith(("vec", "mat")):
        return f"dk.{element}{'d' if real == 'float64' else ''}"
    return element if element == "Body" else f"dk.{element}"


def annotation(kind: str, real: str) -> str:
    """The annotation of an array parameter."""
    k = KINDS[kind]
    axes = f", ndim={k.ndim}" if k.ndim > 1 else ""
    return f"dk.array(dtype={typed(k.element, real)}{axes})"


def struct_dtype(real: str) -> np.dtype:
    """The memory of the struct ``Body`` of :mod:`.structs`."""
    return np.dtype(
        [("pos", real, (3,)), ("mass", real), ("tag", "int32"), ("vel", real, (2,))],
        align=True,
    )
