"""Calls of built-in functions that are written in the kernel language (:mod:`diffkern.lang.library`).

A library function and the terms of its arguments give the result of the overload that fits them, inlined at the call.
In its body the types over the scalar type of the call have that type. Its ops and its errors have the position of the
call.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Mapping, Sequence
from typing import Any, Final, NoReturn, TypeAlias

from diffkern.errors import KernelError
from diffkern.frontend.builtins import complexes
from diffkern.frontend.statements import inline
from diffkern.frontend.syntax.source import get_source
from diffkern.frontend.terms import coerce
from diffkern.frontend.terms.captured import static_term
from diffkern.frontend.terms.context import Context
from diffkern.frontend.terms.terms import (
    NARROW,
    WEAK,
    WEAK_FLOAT,
    Binding,
    Const,
    Rec,
    Static,
    Term,
    Tup,
    Val,
    View,
    describe,
)
from diffkern.ir import types as T
from diffkern.lang import DType, definition_of, resolve_dtype
from diffkern.lang.annotations import ArrayOf
from diffkern.lang.dialects import Elements
from diffkern.lang.func import Func
from diffkern.lang.generic import DTYPE, Cast, Generic, OneOf
from diffkern.lang.library import COMPLEX, Composed, Overload
from diffkern.lang.structs import public_type

__all__ = ["apply", "call", "called", "inlined", "of_complex"]


Given: TypeAlias = "tuple[Term, ast.AST]"
"""An argument: its term and where it stands."""


def call(cx: Context, function: Composed, name: str, node: ast.Call) -> Term:
    """Lower a call."""
    positional: list[Given] = [(cx.expr(arg), arg) for arg in node.args]
    keywords: dict[str, Given] = {k.arg: (cx.expr(k.value), k.value) for k in node.keywords if k.arg is not None}
    return _call(cx, function, name, positional, keywords, node)


def apply(cx: Context, function: Composed, name: str, terms: Sequence[Term], node: ast.Call) -> Term:
    """Lower a call whose arguments are lowered already."""
    return _call(cx, function, name, [(term, node) for term in terms], {}, node)


def called(cx: Context, function: Composed, terms: Sequence[Term], keywords: Mapping[str, Term], node: ast.AST) -> Term:
    """Lower a call from Python; the new values of the caller's variables are returned first."""
    # Called by the compiler: no argument stands anywhere in the user's text.
    where = ast.Constant(None)
    by_name = {name: (term, where) for name, term in keywords.items()}
    overload, given = _chosen(cx, function, function.name, [(t, where) for t in terms], by_name, node)
    return _lowered(cx, overload, function.name, given, node)


def _call(
    cx: Context, function: Composed, name: str, positional: list[Given], keywords: dict[str, Given], node: ast.Call
) -> Term:
    overload, given = _chosen(cx, function, name, positional, keywords, node)
    inside = cx.frame.scalar is not None
    before = len(cx.errors)
    try:
        result = _lowered(cx, overload, name, given, node)
    except KernelError as error:
        # Only the outermost library function is named: those that it calls are no concern of the user.
        if not inside:
            _name_it(error, name)
        raise
    finally:
        for recorded in cx.errors[before:] if not inside else ():
            _name_it(recorded, name)
    return _set(cx, overload, name, given, result, node) if overload.sets else result


def _lowered(cx: Context, overload: Overload, name: str, given: Mapping[str, Given], node: ast.AST) -> Term:
    scalar = _scalar(cx, overload, name, given, node)
    terms = {p: _converted(cx, overload, name, p, item, scalar) for p, item in given.items()}
    return inlined(cx, overload, terms, scalar, node)


def _name_it(error: KernelError, name: str) -> None:
    for part in error.errors:
        # The message may have named it already.
        if name not in part.message:
            part.message = f"{name}: {part.message}"


def inlined(cx: Context, overload: Overload, terms: Mapping[str, Term], scalar: T.Scalar | None, node: ast.AST) -> Term:
    """Lower the body of an overload in an activation of its own."""
    # Inlining would not end.
    if any(frame.pyfunc is overload.pyfunc for frame in cx.stack):
        cx.type_error(
            node, f"{overload.pyfunc.__name__} calls itself", "write a loop; recursion is not supported in kernels"
        )
    at = cx.loc(node)
    frame = inline.make_frame(cx, overload.pyfunc, get_source(overload.pyfunc).at(at))
    # Without any float among the arguments, the body's literals are as elsewhere.
    frame.scalar = scalar or T.FLOAT32
    for name, term in terms.items():
        frame.env[name] = Binding(term, at)
    lower = functools.partial(inline.activate, cx, frame, node)
    return inline.with_rules(cx, Func(overload.pyfunc), terms, node, lower, frame.scalar)


# -- which overload, and over which scalar type ------------------------------------------------------------------------


def _chosen(
    cx: Context, function: Composed, name: str, positional: list[Given], keywords: Mapping[str, Given], node: ast.AST
) -> tuple[Overload, dict[str, Given]]:
    """Return the first overload whose parameters take the arguments, and the argument of each parameter."""
    for overload in function.overloads:
        try:
            bound = overload.signature.bind(*positional, **keywords).arguments
        except TypeError:
            continue
        given: dict[str, Given] = {}
        for parameter, p in overload.signature.parameters.items():
            if parameter in bound:
                given[parameter] = bound[parameter]
            else:
                # Defaults of the library are constants of Python.
                given[parameter] = static_term(cx, p.default, parameter, node), node
        if all(_fits(overload.signature.parameters[p].annotation, term) for p, (term, _) in given.items()):
            return overload, given
    _refuse(cx, function, name, [*positional, *keywords.values()], node)


def _fits(annotation: Any, term: Term) -> bool:
    if annotation is DTYPE:
        return _float_type(term) is not None
    if isinstance(annotation, OneOf):
        return _type_named(term) in annotation.types.values()
    if isinstance(annotation, Generic):
        if annotation.is_number:
            return coerce.is_number(term) and not _is_bool(term)
        return isinstance(term, Val) and annotation.accepts(term.type)
    if isinstance(annotation, Cast):
        return coerce.is_number(term) and not _is_bool(term) and (annotation.to.is_float or not _is_float(term))
    if isinstance(annotation, ArrayOf):
        # Elements are checked in the body.
        return isinstance(term, View) and len(term.spans) == annotation.ndim
    if annotation is int:
        return coerce.is_number(term) and not _is_float(term) and not _is_bool(term)
    if (definition := definition_of(annotation)) is not None:
        return isinstance(term, Rec) and term.struct == definition.type
    return not isinstance(annotation, DType) or _is_number_of(annotation.ir, term)


def _is_number_of(t: T.Scalar, term: Term) -> bool:
    """Return whether a term is a number of exactly this type; a literal's is its default type."""
    if isinstance(term, Const):
        return coerce.default_type(term) == t
    return isinstance(term, Val) and (coerce.default(term.type) if isinstance(term.type, T.Scalar) else None) == t


def _type_named(term: Term) -> T.Element | None:
    """Return the type that a term names, or None."""
    try:
        return resolve_dtype(term.obj) if isinstance(term, Static) else None
    except TypeError:
        return None


def _float_type(term: Term) -> T.Scalar | None:
    """Return the type of floats that a term names, or None."""
    found = _type_named(term)
    return found if isinstance(found, T.Scalar) and found.is_float else None


def _is_bool(term: Term) -> bool:
    return isinstance(term.value, bool) if isinstance(term, Const) else isinstance(term, Val) and term.type == T.BOOL


def _is_float(term: Term) -> bool:
    if isinstance(term, Const):
        return isinstance(term.value, float)
    return isinstance(term, Val) and T.scalar_of(term.type).is_float


def _refuse(cx: Context, function: Composed, name: str, given: Sequence[Given], node: ast.AST) -> NoReturn:
    forms = [f"{name}({', '.join(f'{p}: {k}' for p, k in o.takes().items())})" for o in function.overloads]
    counts = {len(o.signature.parameters) for o in function.overloads}
    stated = ", ".join(describe(term) for term, _ in given) or "nothing"
    remedy = f"call it as {' or '.join(forms)}"
    # Objects such as meshes come into a kernel as numbers, which no array or object stands for.
    if any("id" in o.signature.parameters for o in function.overloads):
        remedy += "; the id is that of an object made outside, as mesh.id, passed for a parameter annotated dk.uint64"
    if len(given) > max(counts):
        cx.type_error(node, f"{name} takes {max(counts)} arguments, not {len(given)}", remedy)
    if len(function.overloads) == 1:
        takes = zip(function.overloads[0].signature.parameters.items(), given, strict=False)
        for (parameter, p), (term, where) in takes:
            if isinstance(p.annotation, Generic) and not _fits(p.annotation, term):
                wants = function.overloads[0].takes()[parameter]
                cx.type_error(where, f"the parameter {parameter} of {name} takes {wants}, not {describe(term)}", remedy)
    cx.type_error(node, f"{name} of {stated}", remedy)


def _scalar(cx: Context, overload: Overload, name: str, given: Mapping[str, Given], node: ast.AST) -> T.Scalar | None:
    """Return the scalar type of a call: that of its vectors and matrices, else the widest of its numbers; None without
    any.
    """
    composite: dict[T.Scalar, str] = {}
    numbers: list[T.Scalar] = []
    for parameter, (term, _) in given.items():
        generic = overload.signature.parameters[parameter].annotation
        if not isinstance(generic, Generic):
            continue
        if generic is DTYPE:
            stated = _float_type(term)
            assert stated is not None
            composite[NARROW.get(stated, stated)] = parameter
        elif not generic.is_number:
            assert isinstance(term, Val)
            composite.setdefault(T.scalar_of(term.type), parameter)
        elif isinstance(term, Val):
            numbers.append(T.scalar_of(term.type))
        else:
            numbers.append(WEAK_FLOAT)
    if len(composite) > 1:
        (one, first), (other, second), *_ = composite.items()
        cx.type_error(
            node,
            f"{name} of {first} over {one} and {second} over {other}",
            "convert one of them, as all floats have one type",
        )
    # A vector decides, as it is not converted; numbers adapt to it.
    if composite:
        return next(iter(composite))
    strong = [t for t in numbers if t not in WEAK]
    if floats := [t for t in strong if t.is_float]:
        return max(floats, key=lambda t: t.bits)
    return (T.FLOAT32 if strong else WEAK_FLOAT) if numbers else None


def _converted(
    cx: Context, overload: Overload, name: str, parameter: str, item: Given, scalar: T.Scalar | None
) -> Term:
    """Return an argument as the body takes it: a number in the scalar type of the call."""
    annotation, (term, where) = overload.signature.parameters[parameter].annotation, item
    if isinstance(annotation, Cast):
        assert isinstance(term, (Const, Val))
        return _cast(cx, term, annotation.to, where)
    if isinstance(annotation, OneOf):
        # Under one name: the body compares the type with those of the language.
        named = _type_named(term)
        assert named is not None
        return Static(public_type(named), describe(term))
    if annotation is int and isinstance(term, Val):
        return Val(coerce.convert(cx, term, T.INT32, where, f"the parameter {parameter} of {name}"))
    if not isinstance(annotation, Generic) or not annotation.is_number:
        return term
    assert scalar is not None
    if isinstance(term, Const):
        return Const(float(term.value))
    if scalar == WEAK_FLOAT:
        assert isinstance(term, Val)
        return term if term.type == WEAK_FLOAT else Val(cx.b.cast(term.value, WEAK_FLOAT))
    return Val(coerce.convert(cx, term, scalar, where, f"the parameter {parameter} of {name}"))


def _cast(cx: Context, term: Const | Val, to: T.Scalar, where: ast.AST) -> Term:
    """Return a number as one of a type; integers wrap around, as values do."""
    if isinstance(term, Const) and to.kind is T.Kind.UINT:
        term = Const(int(term.value) % (1 << to.bits))
    return coerce.explicit_cast(cx, term, to, where)


# -- variables of the caller -------------------------------------------------------------------------------------------


def _is_copy(cx: Context, node: ast.AST) -> bool:
    """Return whether the change of an argument is lost: for a value without a name, in some dialects for an element."""
    if isinstance(node, (ast.Subscript, ast.Attribute)):
        return cx.dialect.elements is Elements.COPIED
    return not isinstance(node, ast.Name)


def _set(cx: Context, overload: Overload, name: str, given: Mapping[str, Given], result: Term, node: ast.AST) -> Term:
    """Assign the caller's variables the values to which the call changes them; return the rest of the result."""
    items = result.items if isinstance(result, Tup) else (result,)
    for parameter, item in zip(overload.sets, items, strict=False):
        _, where = given[parameter]
        if len(items) > len(overload.sets) and _is_copy(cx, where):
            continue
        if not isinstance(where, ast.Name) or where.id not in cx.frame.locals:
            remedy = f"assign it to a variable first, as in {parameter} = ...; {name}({parameter}, ...)"
            cx.type_error(where, f"{name} changes its argument {parameter}, which must be a variable", remedy)
        cx.bind(where.id, item, where)
    rest = items[len(overload.sets) :]
    if not rest:
        return Static(None, f"{name}(...)")
    return rest[0] if len(rest) == 1 else Tup(tuple(rest))


# -- functions of complex numbers --------------------------------------------------------------------------------------

_PLAIN: Final = frozenset({
    "add", "sub", "mul", "div", "neg", "pos", "isnan", "isinf", "isfinite", "stop_gradient", "lerp",
})  # fmt: skip


def of_complex(cx: Context, key: str, name: str, terms: Sequence[Term], node: ast.Call) -> Term | None:
    """Return the result of a call of a built-in, or None if it is lowered like one of other numbers and vectors.

    One of the arguments is complex. Operators define some results, and some functions work by component.
    """
    if not complexes.any_complex(terms) or key in _PLAIN:
        return None
    if key == "pow" and not all(map(complexes.is_complex, terms)):
        return None  # the operator makes complex numbers of both
    if key not in COMPLEX:
        known = ", ".join(sorted({*COMPLEX, "angle", "conj"}))
        cx.type_error(node, f"{name} of a complex number", f"complex numbers have {known}, and parts z.real and z.imag")
    return apply(cx, COMPLEX[key], key, terms, node)
