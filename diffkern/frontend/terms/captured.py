"""Python objects from outside the kernel: the meaning of a captured name or attribute in it.

An object found by :mod:`scope` becomes a term. Numbers are constants (Python's weak, NumPy's strong), tuples are
unpacked, vectors made by ``dk.vec3(...)`` are constants too; data structures are refused.
"""

from __future__ import annotations

import ast
import enum
from typing import Any

import numpy as np

from diffkern.frontend.builtins import complexes
from diffkern.frontend.numba import constant_array, special
from diffkern.frontend.syntax.plain import enum_value, exact, overrides_items
from diffkern.frontend.terms import coerce, narrow
from diffkern.frontend.terms.context import Context
from diffkern.frontend.terms.terms import NARROW, Const, Rec, Static, Term, Tup, Val
from diffkern.ir import types as T
from diffkern.ir.structs import Struct, StructArray
from diffkern.lang import CompositeValue, Constant, definition_of, element_of_value
from diffkern.lang.numba_cuda import Special

__all__ = ["fixed_length", "host_value", "is_array", "is_known", "static_result", "static_term"]


def static_term(cx: Context, obj: Any, name: str, node: ast.AST) -> Term:
    """Return the term for a captured Python object: numbers are constants, tuples are unpacked."""
    # A subclass of a number computes by methods of its own; the kernel takes the number.
    obj = enum_value(obj) if isinstance(obj, enum.Enum) else exact(obj)
    # Before Python's numbers: NumPy's float64 is a subclass of float, and has a type of its own.
    if isinstance(obj, np.generic):
        return _numpy_scalar(cx, obj, name, node)
    if isinstance(obj, (bool, int, float)):
        return Const(obj)
    if isinstance(obj, complex):
        return complexes.literal(cx, obj)
    if isinstance(obj, tuple):
        _check_items(cx, obj, name, node)
        return Tup(tuple(static_term(cx, item, f"{name}[{k}]", node) for k, item in enumerate(obj)))
    # Before arrays: some values of the host are arrays of NumPy's.
    if isinstance(obj, CompositeValue):
        t = narrow.held(obj.ir)
        assert isinstance(t, (T.Vec, T.Mat))
        parts = [cx.b.const(number.item(), t.dtype) for number in obj.reshape(-1)]
        return Val(cx.b.construct(t, parts))
    if isinstance(obj, np.ndarray):
        return constant_array(cx, obj, name, node)
    if isinstance(obj, (list, dict, set, str)):
        cx.type_error(
            node,
            f"{name} is a {type(obj).__name__}",
            "tuples of numbers can be used from outside, and single values by names of their own; or pass an array",
        )
    if isinstance(obj, Special):
        return special(cx, obj.name, node)
    definition = definition_of(type(obj))
    if definition is not None:
        cx.type_error(node, f"{name} is a {definition.type.name} outside the kernel", "pass structs as parameters")
    return Static(obj, name)


def _check_items(cx: Context, obj: tuple[Any, ...], name: str, node: ast.AST) -> None:
    if overrides_items(obj):
        cx.type_error(
            node,
            f"{name} is a {type(obj).__name__}, whose class says by code of its own what its items are",
            f"write dk.static({name}), or give a name to tuple({name}) outside of the kernel",
        )


def static_result(cx: Context, obj: Any, node: ast.AST) -> Term:
    """Return the term for the result of a static expression: also strings, and lists and structs as values."""
    if isinstance(obj, str):
        return Static(exact(obj), repr(obj))
    # A range is the tuple of its numbers: ``for k in static(range(n))`` is a loop that is unrolled.
    if isinstance(obj, (tuple, range)):
        return Tup(tuple(static_result(cx, item, node) for item in obj))
    if isinstance(obj, Constant):
        return _struct(cx, obj, node)
    definition = definition_of(type(obj))
    if definition is not None:
        cx.type_error(
            node,
            f"static(...) is the struct {definition.type.name}, whose field {_array_in(definition.type)} is an array",
            "pass the struct as a parameter of the kernel",
        )
    is_value = isinstance(obj, (enum.Enum, np.ndarray)) or element_of_value(obj) is not None
    if not is_value and not callable(obj):
        what = "None" if obj is None else f"a {type(obj).__name__}"
        cx.type_error(
            node,
            f"static(...) is {what}, which a kernel cannot hold",
            "let it give a number, a vector, a matrix, a struct, a tuple of these, a string, a function or a type",
        )
    return static_term(cx, obj, "static(...)", node)


def _array_in(struct: Struct) -> str | None:
    """Return the path of the first field that is an array."""
    for name, t in struct.fields:
        if isinstance(t, (T.Array, StructArray)):
            return name
        inner = _array_in(t) if isinstance(t, Struct) else None
        if inner is not None:
            return f"{name}.{inner}"
    return None


def _struct(cx: Context, obj: Constant, node: ast.AST) -> Term:
    """Return an instance of a struct from the values of its fields."""
    items: list[Term] = []
    for (name, t), value in zip(obj.type.fields, obj.values, strict=True):
        if isinstance(value, Constant):
            items.append(_struct(cx, value, node))
        elif isinstance(t, T.Scalar):
            items.append(Val(coerce.convert(cx, static_term(cx, value, name, node), T.value_type(t), node, name)))
        else:
            assert isinstance(t, (T.Vec, T.Mat))
            wide = T.value_type(t)
            assert isinstance(wide, (T.Vec, T.Mat))
            numbers = [cx.b.const(number.item(), wide.dtype) for number in np.asarray(value).reshape(-1)]
            items.append(Val(cx.b.construct(wide, numbers)))
    return Rec(obj.type, tuple(items))


def is_known(term: Term) -> bool:
    """Return whether a term is a compile-time constant of Python."""
    if isinstance(term, Tup):
        return all(map(is_known, term.items))
    return isinstance(term, (Const, Static))


def fixed_length(term: Term) -> int | None:
    """Return ``len`` of a term, if it is known now and the term is no number."""
    if isinstance(term, Tup):
        return len(term.items)
    if isinstance(term, Val) and isinstance(term.value.type, (T.Vec, T.Mat, T.Tile)):
        return term.value.type.shape[0]
    return None


def host_value(term: Term) -> Any:
    """Return a term that is known now as a Python object."""
    if isinstance(term, Tup):
        return tuple(map(host_value, term.items))
    assert isinstance(term, (Const, Static))
    return term.value if isinstance(term, Const) else term.obj


def is_array(obj: Any) -> bool:
    """Return whether an object from outside the kernel holds an array of any library."""
    return hasattr(obj, "shape") and hasattr(obj, "dtype") and not isinstance(obj, type)


def _numpy_scalar(cx: Context, obj: np.generic[Any], name: str, node: ast.AST) -> Term:
    if isinstance(obj, np.bool_):
        return Const(bool(obj))
    t = T.SCALARS.get(obj.dtype.name)
    if isinstance(obj, np.complexfloating) and (found := element_of_value(obj)) is not None:
        parts = [cx.b.const(part.item(), T.scalar_of(found)) for part in (obj.real, obj.imag)]
        return Val(cx.b.construct(found, parts))
    if t is None:
        cx.type_error(node, f"{name} is a NumPy {obj.dtype}", "use a number of one of the kernel's types")
    out = cx.b.const(obj.item(), NARROW.get(t, t))
    if t.is_integer and obj.item() >= 0:
        cx.nonneg.add(out)
    return Val(out)
