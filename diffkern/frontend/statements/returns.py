"""Checks that a func returns the types of its annotation, as programs for Warp require.

A func and the term of a call of it raise an error if the annotation names other types.
"""

from __future__ import annotations

import ast

from diffkern.frontend.statements import matching
from diffkern.frontend.syntax.scope import NameScope
from diffkern.frontend.syntax.signature import parameter_type
from diffkern.frontend.terms import coerce
from diffkern.frontend.terms.context import Context
from diffkern.frontend.terms.terms import Const, Rec, RecView, Term, Tup, Val, describe
from diffkern.ir import types as T
from diffkern.ir.structs import Struct
from diffkern.lang import Func
from diffkern.lang.dialects import dialect_of
from diffkern.lang.patterns import TupleOf

__all__ = ["check_returned"]

_KNOWN = (T.Scalar, T.Vec, T.Mat, Struct, TupleOf)


def check_returned(cx: Context, func: Func, term: Term, node: ast.AST) -> None:
    """Raise unless numbers, vectors, matrices, structs and tuples of them have the types of the annotation."""
    annotation = func.pyfunc.__annotations__.get("return")
    if annotation is None or not dialect_of(func.pyfunc).returns_as_annotated:
        return
    try:
        want = parameter_type(annotation, NameScope(func.pyfunc), "return", func.name)
    except TypeError:
        return
    if not isinstance(want, _KNOWN) or not isinstance(term, (Const, Val, Rec, RecView, Tup)):
        return
    said = f"{func.name} says that it returns"
    remedy = "correct the annotation, or convert what is returned"
    if isinstance(term, Tup):
        count = len(term.items)
        if not isinstance(want, TupleOf):
            cx.type_error(node, f"{said} {_shown(annotation)}, and it returns {count} values", remedy)
        if count != len(want.items) and not want.variadic:
            wanted = len(want.items)
            cx.type_error(node, f"{said} {wanted} values, and it returns {count}", remedy)
        # Arrays and tiles in a tuple are not compared.
        if not all(map(_is_known, term.items)) or matching.fits(want, term):
            return
        types = ", ".join(map(_type_of, term.items))
        text = f"{said} {_shown(annotation)}, and it returns values of {types}"
        cx.type_error(node, text, remedy)
    elif isinstance(want, TupleOf) or not _fits(want, term):
        text = f"{said} {_shown(annotation)}, and it returns {_type_of(term)}"
        cx.type_error(node, text, remedy)


def _is_known(term: Term) -> bool:
    return isinstance(term, (Const, Rec)) or (isinstance(term, Val) and isinstance(term.value.type, _KNOWN))


def _fits(want: T.Element | Struct, term: Term) -> bool:
    if isinstance(term, RecView):
        return term.struct == want
    if isinstance(term, Val) and not isinstance(term.value.type, _KNOWN):
        return True
    return matching.fits(want, term)


def _type_of(term: Term) -> str:
    if isinstance(term, (Rec, RecView)):
        return term.struct.name
    t = coerce.default_type(term) if isinstance(term, Const) else term.value.type if isinstance(term, Val) else None
    return describe(term) if t is None else str(t)


def _shown(annotation: object) -> str:
    is_plain = isinstance(annotation, type) and not hasattr(annotation, "__origin__")
    return str(getattr(annotation, "__name__", annotation) if is_plain else annotation)
