"""Matching of arguments and parameters: overload resolution, and the binding of type variables.

Annotations (:func:`~diffkern.frontend.syntax.signature.parameter_type`) and terms give how well they fit.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

from diffkern.frontend.builtins.folded import folded
from diffkern.frontend.syntax.scope import NameScope
from diffkern.frontend.syntax.signature import Annotation, parameter_type
from diffkern.frontend.terms import coerce, narrow
from diffkern.frontend.terms.context import Context
from diffkern.frontend.terms.terms import WEAK, Const, Rec, RecView, Static, Term, TileStruct, Tup, Val, View, describe
from diffkern.frontend.tiles.tile_terms import is_tile
from diffkern.ir import types as T
from diffkern.ir.structs import Stored, Struct
from diffkern.lang import ArrayAnnotation, Func
from diffkern.lang.annotations import TileAnnotation
from diffkern.lang.patterns import Pattern, TupleOf

__all__ = ["Given", "Variables", "chosen", "fits", "fitting", "unify", "user_operator"]


Given: TypeAlias = tuple[Term, ast.AST]
Variables: TypeAlias = dict[object, Stored]
"""The types that the type variables of a signature are bound to in a call."""

_EXACT, _USUAL, _LITERAL, _GENERIC = 4, 3, 2, 1
"""The quality of a match: the exact type; a literal of its usual type, or of another one; any type."""


def chosen(cx: Context, func: Func, positional: Sequence[Given], keywords: Mapping[str, Given], node: ast.AST) -> Func:
    """Return the overload of a func whose parameters fit best: exact types first, then those that literals take."""
    best: tuple[int, Func] | None = None
    for candidate in func.overloads:
        score = _score(candidate, positional, keywords)
        # Of equally good ones the first counts, as the user has ordered them.
        if score is not None and (best is None or score > best[0]):
            best = score, candidate
    if best is None:
        given = ", ".join(describe(term) for term, _ in (*positional, *keywords.values())) or "nothing"
        forms = " or ".join(f"{func.name}{_form(candidate)}" for candidate in func.overloads)
        cx.type_error(node, f"no overload of {func.name} takes {given}", f"call it as {forms}")
    return best[1]


def fitting(func: Func, positional: Sequence[Given]) -> Func | None:
    """Return the overload of a func whose parameters have the arguments' types, None if there is none."""
    scores = [(_score(candidate, positional, {}), candidate) for candidate in func.overloads]
    found = [(score, candidate) for score, candidate in scores if score is not None]
    return max(found, key=lambda pair: pair[0])[1] if found else None


def _form(func: Func) -> str:
    scope = NameScope(func.pyfunc)
    parts = []
    for name, p in inspect.signature(func.pyfunc).parameters.items():
        try:
            want = parameter_type(p.annotation, scope, name, func.name)
        except TypeError:
            want = None
        parts.append(name if want is None else f"{name}: {want.name if isinstance(want, Struct) else want}")
    return f"({', '.join(parts)})"


def _score(func: Func, positional: Sequence[Given], keywords: Mapping[str, Given]) -> int | None:
    """Return how well arguments fit a func's parameters, None if they do not."""
    signature, scope = inspect.signature(func.pyfunc), NameScope(func.pyfunc)
    try:
        bound = signature.bind(*positional, **keywords).arguments
    except TypeError:
        return None
    total, variables = 0, Variables()
    for name, (term, _) in bound.items():
        want = parameter_type(signature.parameters[name].annotation, scope, name, func.name)
        # Parameters fit each for itself, and their type variables together.
        score = _fit(want, term)
        if score is None or unify(want, term, variables) is not None:
            return None
        total += score
    return total


def fits(want: Annotation, term: Term) -> bool:
    """Return whether a term has the annotated type, without a conversion."""
    return _fit(want, term) is not None


def _fit(want: Annotation, term: Term) -> int | None:
    match want:
        case None:
            return _GENERIC
        case ArrayAnnotation():
            # An annotation of exactly these elements is better than one of any.
            return (_GENERIC if want.element is None else _EXACT) if _fits_array(want, term) else None
        case TileAnnotation():
            tile = term.value.type if isinstance(term, Val) else None
            return _EXACT if isinstance(tile, T.Tile) and want.accepts(tile) else None
        case TupleOf():
            return _fit_tuple(want, term)
        case Struct():
            return _EXACT if isinstance(term, Rec) and term.struct == want else None
        case Pattern():
            t = _element_of(term)
            return _GENERIC if t is not None and want.accepts(t) else None
    return _fit_element(want, term)


def _fit_tuple(want: TupleOf, term: Term) -> int | None:
    if not isinstance(term, Tup) or (len(term.items) != len(want.items) and not want.variadic):
        return None
    wanted = want.items * len(term.items) if want.variadic else want.items
    scores = [_fit(item, part) for item, part in zip(wanted, term.items, strict=False)]
    known = [score for score in scores if score is not None]
    # A tuple fits as well as its worst item.
    return min(known, default=_EXACT) if len(known) == len(scores) else None


def _fit_element(want: T.Element, term: Term) -> int | None:
    """Score a number, vector or matrix: of exactly that type, or a literal that can take it."""
    if isinstance(term, Val) and term.type not in WEAK:
        exact = term.type == narrow.held(want)
        return _EXACT if exact else _USUAL if term.type == T.value_type(want) else None
    if not isinstance(term, (Const, Val)) or not isinstance(want, T.Scalar):
        return None
    usual = coerce.default_type(term) if isinstance(term, Const) else _element_of(term)
    if usual == want:
        return _USUAL
    assert isinstance(usual, T.Scalar)
    # A bool is no number, and a float literal no integer.
    # Of two literals' types, one of the same kind of number is better than one that makes an integer a float.
    literal = T.BOOL not in (usual, want) and (want.is_float or usual.is_integer)
    return _LITERAL + (usual.is_float == want.is_float) - 1 if literal else None


def _element_of(term: Term) -> Stored | None:
    """Return the type of a value; that of a literal is its default."""
    match term:
        case Const():
            return coerce.default_type(term)
        case Val() if isinstance(term.value.type, (T.Scalar, T.Vec, T.Mat)):
            t = term.value.type
            usual = T.FLOAT32 if T.scalar_of(t).is_float else T.INT32
            return usual if t in WEAK else narrow.stored(t)
        case Rec(struct):
            return struct
    return None


def _fits_array(want: ArrayAnnotation, term: Term) -> bool:
    """Return whether a term is an array as annotated; None stands for any."""
    if isinstance(term, Static) and term.obj is None:
        return True
    if (rows := folded(term)) is not None:
        return len(rows.extents) == want.ndim and want.element in (None, rows.dtype) and want.takes(rows.dtype)
    if isinstance(term, RecView):
        return term.ndim == want.ndim and want.element in (None, term.struct) and want.takes(term.struct)
    if not isinstance(term, View) or len(term.spans) != want.ndim:
        return False
    return want.element in (None, term.array.dtype) and want.takes(term.array.dtype)


def unify(want: Annotation, term: Term, variables: Variables) -> str | None:
    """Bind type variables; return the error text if one stands for two types."""
    if isinstance(want, TupleOf) and isinstance(term, Tup):
        wanted = want.items * len(term.items) if want.variadic else want.items
        found = (unify(item, part, variables) for item, part in zip(wanted, term.items, strict=False))
        return next((wrong for wrong in found if wrong is not None), None)
    pattern = want.kinds if isinstance(want, ArrayAnnotation) else want
    if not isinstance(pattern, Pattern) or pattern.variable is None:
        return None
    t: Stored | None
    if isinstance(term, View):
        t = term.array.dtype
    else:
        t = term.struct if isinstance(term, RecView) else _element_of(term)
    # A variable in a vector of any length stands for its component's type.
    if isinstance(t, (T.Vec, T.Mat)) and pattern.shape:
        t = t.dtype
    if t is None or isinstance(term, Const):  # a literal gives way
        return None
    known = variables.setdefault(pattern.variable, t)
    return None if known == t else f"{pattern.variable.__name__} is {known} and {t}"


# -- operators that a program defines by funcs of their names ----------------------------------------------------------
# ``add`` for ``+``, as programs for Warp have them: an operator calls that func if its operands fit the parameters.

_NAMES: Final[Mapping[str, str]] = {
    "add": "add", "sub": "sub", "mul": "mul", "matmul": "mul", "div": "div", "floordiv": "floordiv", "mod": "mod",
    "pow": "pow", "and": "bit_and", "or": "bit_or", "xor": "bit_xor", "shl": "lshift", "shr": "rshift",
}  # fmt: skip
"""Warp's names of the operators."""


def user_operator(cx: Context, op: str, left: Term, right: Term, node: ast.AST) -> Func | None:
    """Return the func of the program that an operator calls, or None where it is the built-in one.

    A func of that name which is being lowered itself means the built-in operator: ``add`` may add its fields.
    """
    # Literals are folded, and no user function is meant by ``1 + 2``.
    if not cx.dialect.named_operators or (isinstance(left, Const) and isinstance(right, Const)):
        return None
    named = cx.frame.scope.of_program(_NAMES[op])
    if not isinstance(named, Func) or not (_is_operand(left) and _is_operand(right)):
        return None
    found = fitting(named, ((left, node), (right, node)))
    # On the stack, it is being lowered itself.
    if found is None or any(frame.pyfunc is found.pyfunc for frame in cx.stack):
        return None
    return found


def _is_operand(term: Term) -> bool:
    if isinstance(term, Rec):
        # Tiles have operators of their own.
        return not isinstance(term.struct, TileStruct)
    return isinstance(term, (Const, Val)) and not is_tile(term)
