"""Python objects from outside the kernel: what a captured name or attribute stands for in it.

In: an object found by :mod:`scope`. Out: a term. Numbers are constants (Python's weak, NumPy's strong), tuples are
taken apart, vectors made by ``dk.vec3(...)`` are constants too; data structures are refused.
"""

from __future__ import annotations

import ast
import enum
from typing import Any

import numpy as np

from diffkern.frontend import numba_cuda
from diffkern.frontend.context import Context
from diffkern.frontend.terms import Const, Static, Term, Tup, Val
from diffkern.ir import types as T
from diffkern.lang import CompositeValue, definition_of
from diffkern.lang.numba_cuda import Special

__all__ = ["static_term"]


def static_term(cx: Context, obj: Any, name: str, node: ast.AST) -> Term:
    """What a captured Python object stands for: numbers are constants, tuples are taken apart."""
    if isinstance(obj, enum.Enum) and not isinstance(obj, (int, float)):
        return static_term(cx, obj.value, name, node)
    if isinstance(obj, np.generic):
        return _numpy_scalar(cx, obj, name, node)
    if isinstance(obj, bool):
        return Const(obj)
    if isinstance(obj, (int, float)):
        return Const(int(obj) if isinstance(obj, int) else float(obj))
    if isinstance(obj, tuple):
        return Tup(tuple(static_term(cx, item, f"{name}[{k}]", node) for k, item in enumerate(obj)))
    if isinstance(obj, CompositeValue) and obj.composite is not None:
        t = obj.composite.ir
        parts = [cx.b.const(number.item(), t.dtype) for number in obj.reshape(-1)]
        return Val(cx.b.construct(t, parts))
    if isinstance(obj, np.ndarray) and cx.layout is not None:
        return numba_cuda.constant_array(cx, obj, name, node)
    if isinstance(obj, np.ndarray):
        cx.type_error(
            node,
            f"{name} is a NumPy array outside the kernel",
            "pass arrays as parameters; small constants as dk.vec3(...)",
        )
    if isinstance(obj, (list, dict, set, str)):
        cx.type_error(
            node,
            f"{name} is a {type(obj).__name__}",
            "tuples of numbers can be used from outside, and single values by names of their own; or pass an array",
        )
    if isinstance(obj, Special):
        return numba_cuda.special(cx, obj.name, node)
    definition = definition_of(type(obj))
    if definition is not None:
        cx.type_error(node, f"{name} is a {definition.type.name} outside the kernel", "pass structs as parameters")
    return Static(obj, name)


def is_array(obj: Any) -> bool:
    """Whether an object from outside the kernel holds an array, of whatever library."""
    return hasattr(obj, "shape") and hasattr(obj, "dtype") and not isinstance(obj, type)


def _numpy_scalar(cx: Context, obj: np.generic[Any], name: str, node: ast.AST) -> Term:
    if isinstance(obj, np.bool_):
        return Const(bool(obj))
    t = T.SCALARS.get(obj.dtype.name)
    if t is None:
        cx.type_error(node, f"{name} is a NumPy {obj.dtype}", "use a number of one of the kernel's types")
    out = cx.b.const(obj.item(), T.FLOAT32 if t in T.STORAGE_ONLY else t)
    if t.is_integer and obj.item() >= 0:
        cx.nonneg.add(out)
    return Val(out)
