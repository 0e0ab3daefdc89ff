"""Constructors of vectors, matrices, quaternions and transforms, and the types that kernels make on the spot.

The type and the lowered arguments of a call give the value; for ``vector``, ``matrix`` and ``identity`` the arguments
of the call determine the type.
"""

from __future__ import annotations

import ast
import inspect
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from diffkern import types
from diffkern.frontend.builtins import complexes
from diffkern.frontend.terms import coerce, narrow
from diffkern.frontend.terms.context import Context
from diffkern.frontend.terms.terms import Const, Static, Term, Tup, Val, describe
from diffkern.ir import types as T
from diffkern.ir.nodes import Value
from diffkern.lang import resolve_dtype

__all__ = ["CALLS", "construct", "made_type", "maker", "of_type"]

Call: TypeAlias = Callable[[Context, str, ast.Call], Term]

_TYPE_MAKERS: Final[Mapping[Any, str]] = {
    types.vector: "vector",
    types.matrix: "matrix",
    types.quaternion: "quaternion",
    types.transformation: "transformation",
}


def maker(obj: Any) -> str | None:
    """Return the constructor that a function of ``dk.types`` is in a kernel if its value is wanted, or None."""
    return _TYPE_MAKERS.get(obj) if inspect.isfunction(obj) else None


def made_type(cx: Context, node: ast.expr) -> Static | None:
    """Return the type that a call of ``dk.types.vector`` or its like stands for, or None for any other expression."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, (ast.Name, ast.Attribute)):
        return None
    callee = cx.expr(node.func)
    if not isinstance(callee, Static) or maker(callee.obj) is None:
        return None
    args = [_known(cx, a) for a in node.args]
    named = {k.arg: _known(cx, k.value) for k in node.keywords if k.arg is not None}
    try:
        made = callee.obj(*args, **named)
    except (TypeError, ValueError) as error:
        cx.type_error(node, f"{callee.name}: {error}", "write dk.types.vector(length=3, dtype=float)")
    return Static(made, str(made))


def _known(cx: Context, node: ast.expr) -> Any:
    """Return an argument that is part of a type: a number, a tuple of numbers, a dtype."""
    return _python(cx, made_type(cx, node) or cx.expr(node), node)


def _python(cx: Context, term: Term, node: ast.expr) -> Any:
    if isinstance(term, Const):
        return term.value
    if isinstance(term, Static):
        return term.obj
    if isinstance(term, Tup):
        return tuple(_python(cx, item, node) for item in term.items)
    cx.type_error(node, f"{describe(term)} says what a type is", "sizes and dtypes are constants")


def construct(cx: Context, t: T.Composite, name: str, args: list[Term], node: ast.Call) -> Term:
    """Construct ``vec3()``, ``vec3(s)``, ``vec3(a, b, c)``, ``vec3(v)``, ``quat(v, w)``; a matrix also
    from its rows.
    """
    if T.is_complex(t):
        return complexes.construct(cx, t, name, args, node)
    # A tuple counts as its items, as in NumPy.
    args = list(args[0].items) if len(args) == 1 and isinstance(args[0], Tup) else args
    if not args:
        return Val(cx.b.zero(t))
    first = args[0]
    if len(args) == 1 and isinstance(first, Val) and not isinstance(first.type, T.Scalar):
        # The same shape over another scalar type is a cast.
        if T.with_scalar(first.type, t.dtype) == t:
            return Val(cx.b.cast(coerce.rounded(cx, first).value, t))
        if not (isinstance(t, T.Vec) and t.role is T.Role.TRANSFORM):
            cx.type_error(node, f"{name} of {first.type}", f"{name} has {t.size} components")
    # One number fills all components.
    if len(args) == 1 and coerce.is_number(first):
        component = _component(cx, first, t, node)
        return Val(cx.b.construct(t, [component] * t.size))
    if len(args) == t.size:
        return Val(
            cx.b.construct(t, [_component(cx, a, t, n) for a, n in zip(args, _nodes(node, t.size), strict=True)])
        )
    if isinstance(t, T.Mat) and len(args) == (t.rows if cx.dialect.matrices_of_rows else t.cols):
        return (_of_rows if cx.dialect.matrices_of_rows else _of_columns)(cx, t, name, args, node)
    parts = _joined(cx, t, args, node)
    if parts is None:
        given = sum(a.type.size if isinstance(a, Val) and isinstance(a.type, T.Vec) else 1 for a in args)
        cx.type_error(node, f"{name} has {t.size} components, not {given}", _all_components(cx, t))
    return Val(cx.b.construct(t, parts))


def _of_rows(cx: Context, t: T.Mat, name: str, args: list[Term], node: ast.Call) -> Term:
    """Construct a matrix from its rows."""
    rows = [coerce.convert(cx, a, T.Vec(t.dtype, t.cols), node, f"a row of {name}") for a in args]
    return Val(cx.b.construct(t, [c for row in rows for c in cx.b.components(row)]))


def _of_columns(cx: Context, t: T.Mat, name: str, args: list[Term], node: ast.Call) -> Term:
    """Construct a matrix from its columns, as kernels of older releases of Warp do."""
    column = T.Vec(t.dtype, t.rows)
    if any(not isinstance(a, Val) or a.type != column for a in args):
        remedy = f"matrix_from_rows takes the rows, and matrix_from_cols the columns; {_all_components(cx, t)}"
        cx.type_error(node, f"{name} of {describe(args[0])} and others", remedy)
    loc = cx.loc(node)
    message = f"{name} of vectors takes them as columns in a kernel; write matrix_from_cols, which says so"
    warnings.warn_explicit(message, DeprecationWarning, loc.file, loc.line)
    columns = [cx.b.components(coerce.value(cx, a, node)) for a in args]
    return Val(cx.b.construct(t, [columns[k][i] for i in range(t.rows) for k in range(t.cols)]))


def _joined(cx: Context, t: T.Composite, args: list[Term], node: ast.Call) -> list[Value] | None:
    """Return the components of a vector that is made of numbers and shorter vectors, or None if it is not."""
    if not isinstance(t, T.Vec):
        return None
    parts: list[Value] = []
    for arg in args:
        if isinstance(arg, Val) and isinstance(arg.type, T.Vec):
            parts += (_component(cx, Val(c), t, node) for c in cx.b.components(arg.value))
        elif coerce.is_number(arg):
            parts.append(_component(cx, arg, t, node))
        else:
            return None
    # A translation alone has the identity rotation, the quaternion (0, 0, 0, 1).
    if t.role is T.Role.TRANSFORM and len(args) == 1 and len(parts) == 3:
        parts += (cx.b.const(number, t.dtype) for number in (0.0, 0.0, 0.0, 1.0))
    return parts if len(parts) == t.size else None


def _all_components(cx: Context, t: T.Composite) -> str:
    """Return the remedy that says what a vector or matrix is made of."""
    if isinstance(t, T.Mat):
        rows = f", or {t.rows} rows" if cx.dialect.matrices_of_rows else ""
        return f"give {t.size} numbers, or one for all{rows}"
    return f"give {t.size} numbers, or one for all; vectors count with their components"


def _nodes(node: ast.Call, count: int) -> list[ast.expr]:
    return node.args if len(node.args) == count else [node] * count


def _component(cx: Context, term: Term, t: T.Composite, node: ast.AST) -> Value:
    """Return a component: as in a cast, a float of another width is converted, but a fraction is not dropped."""
    scalar = coerce.scalar_term(cx, term, node, f"a component of {t}")
    if isinstance(scalar, Val) and T.scalar_of(scalar.type).is_float and t.dtype.is_float:
        return coerce.to_scalar(cx, scalar, t.dtype, node)
    return coerce.convert(cx, scalar, t.dtype, node, f"a component of {t}")


# -- types that follow from the arguments ------------------------------------------------------------------------------


def _taken(cx: Context, name: str, node: ast.Call, options: Sequence[str]) -> tuple[list[Term], dict[str, Any]]:
    """Return the positional arguments of a call, and its keyword arguments, which are known now."""
    wrong = [k.arg for k in node.keywords if k.arg not in options]
    if wrong:
        cx.type_error(node, f"{name} takes no argument {wrong[0]!r}", f"it takes numbers, and {' and '.join(options)}")
    named = {str(k.arg): _known(cx, k.value) for k in node.keywords}
    return [cx.expr(arg) for arg in node.args], named


def _scalar(cx: Context, args: Sequence[Term], named: Mapping[str, Any], name: str, node: ast.Call) -> T.Scalar:
    """Return the type of the components: as it is stated, or the common type of the arguments."""
    if "dtype" in named:
        try:
            found = resolve_dtype(named["dtype"])
        except TypeError as error:
            cx.type_error(node, f"{name}: {error}", "state a type such as float or dk.float64")
        wide = narrow.held(found)
        if not isinstance(wide, T.Scalar):
            cx.type_error(
                node, f"{name} has scalars as components, not {found}", "state a scalar type, as in dtype=float"
            )
        return wide
    t: T.Scalar | None = None
    for arg in args:
        if not isinstance(arg, (Const, Val)):
            cx.type_error(node, f"{name} of {describe(arg)}", "it takes numbers, vectors and matrices")
        # Literals give way to numbers of a type, so `vector(1, x)` is of the type of `x`.
        own = coerce.weak_type(arg) if isinstance(arg, Const) else T.scalar_of(arg.type)
        known = own if t is None else _meeting(t, own)
        if known is None:
            cx.type_error(node, f"{name} of {t} and {own}", "state the dtype, as in dtype=float")
        t = known
    return T.FLOAT32 if t is None else coerce.default(t)


_PARTS: Final = {
    T.Role.TRANSFORM: ("p", "q"),
    T.Role.QUATERNION: ("x", "y", "z", "w"),
    T.Role.VECTOR: (),
    T.Role.COMPLEX: tuple(complexes.PARTS),
}


def of_type(cx: Context, t: T.Composite, name: str, node: ast.Call) -> Term:
    """Lower ``vec3(...)``: a call of a type, whose keyword arguments are parts of the value, or state
    the type again.
    """
    parts = _PARTS[t.role] if isinstance(t, T.Vec) else ()
    args = [cx.expr(arg) for arg in node.args]
    given = {k.arg: k.value for k in node.keywords}
    # A part by name follows those by position.
    args += [cx.expr(given.pop(part)) for part in parts[len(args) :] if part in given]
    if "dtype" in given:
        changed = T.with_scalar(t, _scalar(cx, (), {"dtype": _known(cx, given.pop("dtype"))}, name, node))
        assert isinstance(changed, (T.Vec, T.Mat))
        t = changed
    for key, extent in (("shape", t.shape), ("length", t.shape[0])):
        if key in given and _known(cx, given.pop(key)) != extent:
            cx.type_error(node, f"{name} with another {key}", f"its {key} is {extent}")
    if given:
        cx.type_error(node, f"{name} takes no argument {next(iter(given))!r}", "give the components in order")
    return construct(cx, t, name, args, node)


def _meeting(a: T.Scalar, b: T.Scalar) -> T.Scalar | None:
    """Return the type of components for numbers of two types."""
    joined = coerce.join(a, b)
    return joined if isinstance(joined, T.Scalar) else coerce.promote(a, b)


def _vector(cx: Context, name: str, node: ast.Call) -> Term:
    args, named = _taken(cx, name, node, ("length", "dtype"))
    # Vectors among the arguments count with their components.
    given = sum(a.type.size if isinstance(a, Val) and not isinstance(a.type, T.Scalar) else 1 for a in args)
    length = named.get("length", given)
    if not isinstance(length, int) or length < 1:
        cx.type_error(node, f"{name} with length {length}", "give its components, or a length of at least 1")
    return construct(cx, T.Vec(_scalar(cx, args, named, name, node), length), name, args, node)


def _matrix(cx: Context, name: str, node: ast.Call) -> Term:
    args, named = _taken(cx, name, node, ("shape", "dtype"))
    shape = named.get("shape")
    # Of a matrix, the shape need not be stated again.
    if shape is None and len(args) == 1 and isinstance(args[0], Val) and isinstance(args[0].type, T.Mat):
        shape = args[0].type.shape
    pair = isinstance(shape, tuple) and len(shape) == 2 and all(isinstance(n, int) and n > 0 for n in shape)
    if not pair or shape is None:
        cx.type_error(node, f"{name} needs a shape", "as in dk.matrix(1.0, 2.0, 3.0, 4.0, shape=(2, 2))")
    return construct(cx, T.Mat(_scalar(cx, args, named, name, node), *shape), name, args, node)


def _with_role(make: Callable[[T.Scalar], T.Vec]) -> Call:
    def call(cx: Context, name: str, node: ast.Call) -> Term:
        args, named = _taken(cx, name, node, ("dtype",))
        scalar = _scalar(cx, args, named, name, node)
        if not scalar.is_float and "dtype" in named:
            cx.type_error(node, f"{name} of {scalar}", "use a type of floats")
        # Integers as components become floats; an error is only a type of integers that is stated.
        return construct(cx, make(scalar if scalar.is_float else T.FLOAT32), name, args, node)

    return call


def _identity(cx: Context, name: str, node: ast.Call) -> Term:
    given = dict(zip(("n", "dtype"), node.args, strict=False))
    given.update({k.arg: k.value for k in node.keywords if k.arg is not None})
    if "n" not in given or not set(given) <= {"n", "dtype"} or len(node.args) > 2:
        cx.type_error(node, f"{name} takes n and dtype", "write dk.identity(n=3, dtype=float)")
    n = _known(cx, given["n"])
    if not isinstance(n, int) or isinstance(n, bool) or n < 1:
        cx.type_error(
            given["n"], "the size of an identity matrix is a constant of at least 1", "write a number, as in n=3"
        )
    named = {"dtype": _known(cx, given["dtype"])} if "dtype" in given else {}
    scalar = _scalar(cx, (), named, name, node)
    t = T.Mat(scalar, n, n)
    zero, one = cx.b.full(t.dtype, 0), cx.b.full(t.dtype, 1)
    return Val(cx.b.construct(t, [one if i == j else zero for i in range(n) for j in range(n)]))


CALLS: Final[Mapping[str, Call]] = {
    "vector": _vector,
    "matrix": _matrix,
    "quaternion": _with_role(T.quaternion),
    "transformation": _with_role(T.transform),
    "identity": _identity,
    "complex": complexes.made,
}
