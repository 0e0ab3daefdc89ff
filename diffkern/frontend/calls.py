"""Calls: which object is called, and what that means.

In: a call of the syntax tree. Out: its result as a term. A built-in is found by the identity of the object, never by
its name; dtypes convert and construct; ``@dk.func`` functions are inlined (:mod:`inline`); anything else is refused.
"""

from __future__ import annotations

import ast
import inspect
from typing import Any, NoReturn

from diffkern.frontend import advice, coerce, fence, inline, library, records, tiles
from diffkern.frontend.context import Context
from diffkern.frontend.terms import Const, Static, Term, Tup, Val, describe
from diffkern.ir import types as T
from diffkern.ir.nodes import Value
from diffkern.lang import CompositeType, Func, definition_of, resolve_dtype
from diffkern.lang.intrinsics import lowering_key

__all__ = ["lower_call", "tid_call"]


def lower_call(cx: Context, node: ast.Call) -> Term:
    """Lower a call."""
    callee = cx.expr(node.func)
    if not isinstance(callee, Static):
        cx.type_error(node.func, f"{describe(callee)} is called", "only functions can be called")
    obj = callee.obj
    key = lowering_key(obj)
    if key is not None and tiles.is_function(key):
        return tiles.call(cx, key, callee.name, node)
    if key is not None:
        return library.lower_builtin(cx, key, callee.name, node)
    if isinstance(obj, Func):
        return inline.inline(cx, obj, node)
    definition = definition_of(obj)
    if definition is not None:
        return records.construct(cx, definition, callee.name, node)
    t = _called_dtype(obj)
    if t is not None and T.scalar_of(t) in T.STORAGE_ONLY:
        wide = "dk.float32" if isinstance(t, T.Scalar) else f"dk.{callee.name.rsplit('.', 1)[-1].removesuffix('h')}"
        cx.type_error(node, f"{callee.name} is a storage type", f"compute in {wide}; storing to such an array rounds")
    if isinstance(t, T.Scalar):
        return _cast(cx, t, callee.name, node)
    if t is not None:
        return _construct(cx, t, callee.name, node)
    _refuse(cx, obj, callee.name, node)


def tid_call(cx: Context, node: ast.expr) -> bool:
    """Whether an expression is a call of ``tid``, whose number of results depends on where it stands."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, (ast.Name, ast.Attribute)):
        return False
    callee = cx.expr(node.func)
    return isinstance(callee, Static) and lowering_key(callee.obj) == "tid"


def _called_dtype(obj: Any) -> T.Element | None:
    if isinstance(obj, CompositeType):
        return obj.ir
    try:
        return resolve_dtype(obj)
    except TypeError:
        return None


def _refuse(cx: Context, obj: Any, name: str, node: ast.Call) -> NoReturn:
    if obj is print:
        cx.syntax_error(node, *fence.PRINT)
    if type(obj).__name__ == "Kernel" and type(obj).__module__.startswith("diffkern"):
        cx.type_error(node.func, f"{name} is a kernel; a kernel cannot call another", "make the shared part a @dk.func")
    if (known := advice.for_call(obj)) is not None:
        cx.type_error(node, f"{name} {known[0]}", known[1])
    if inspect.isfunction(obj):
        cx.type_error(node.func, f"{name} is a plain Python function", "decorate it with @dk.func")
    module = getattr(obj, "__module__", None)
    cx.type_error(
        node,
        f"{name} ({type(obj).__name__}{f' of {module}' if module else ''}) cannot be called in a kernel",
        "use one of the kernel language's functions, or write it as a @dk.func",
    )


def _arguments(cx: Context, name: str, node: ast.Call) -> list[Term]:
    if node.keywords:
        cx.syntax_error(node, f"{name} takes no keyword arguments", "give the values in order")
    return [cx.expr(arg) for arg in node.args]


def _cast(cx: Context, to: T.Scalar, name: str, node: ast.Call) -> Term:
    args = _arguments(cx, name, node)
    if len(args) > 1:
        cx.type_error(node, f"{name} takes one value, not {len(args)}")
    if not args:
        return coerce.explicit_cast(cx, Const(0), to, node)
    return coerce.explicit_cast(cx, coerce.scalar_term(cx, args[0], node.args[0], f"the argument of {name}"), to, node)


def _construct(cx: Context, t: T.Composite, name: str, node: ast.Call) -> Term:
    """``vec3()``, ``vec3(s)``, ``vec3(a, b, c)``, ``vec3(v)``; a matrix also from its rows."""
    args = _arguments(cx, name, node)
    args = list(args[0].items) if len(args) == 1 and isinstance(args[0], Tup) else args
    if not args:
        return Val(cx.b.zero(t))
    first = args[0]
    if len(args) == 1 and isinstance(first, Val) and not isinstance(first.type, T.Scalar):
        if T.with_scalar(first.type, t.dtype) != t:
            cx.type_error(node, f"{name} of {first.type}", f"{name} has {t.size} components")
        return Val(cx.b.cast(first.value, t))
    if len(args) == 1 and coerce.is_number(first):
        component = _component(cx, first, t, node)
        return Val(cx.b.construct(t, [component] * t.size))
    if len(args) == t.size:
        return Val(
            cx.b.construct(t, [_component(cx, a, t, n) for a, n in zip(args, _nodes(node, t.size), strict=True)])
        )
    if isinstance(t, T.Mat) and len(args) == t.rows:
        rows = [coerce.convert(cx, a, T.Vec(t.dtype, t.cols), node, f"a row of {name}") for a in args]
        return Val(cx.b.construct(t, [c for row in rows for c in cx.b.components(row)]))
    cx.type_error(node, f"{name} has {t.size} components, not {len(args)}", _all_components(t, name, args))


def _all_components(t: T.Composite, name: str, args: list[Term]) -> str:
    """Say how a vector or matrix is made of what was given."""
    parts: list[str] = []
    for arg in args:
        if isinstance(arg, Val) and isinstance(arg.type, T.Vec):
            parts += [f"v[{k}]" for k in range(arg.type.length)]
        else:
            parts.append("s")
    if isinstance(t, T.Vec) and len(parts) == t.size:
        return f"take vectors apart, as in {name}({', '.join(parts)})"
    return f"give {t.size} numbers, or one for all" + (f", or {t.rows} rows" if isinstance(t, T.Mat) else "")


def _nodes(node: ast.Call, count: int) -> list[ast.expr]:
    return node.args if len(node.args) == count else [node] * count


def _component(cx: Context, term: Term, t: T.Composite, node: ast.AST) -> Value:
    """A component: as in a cast, a float of another width is converted, but a fraction is not dropped."""
    scalar = coerce.scalar_term(cx, term, node, f"a component of {t}")
    if isinstance(scalar, Val) and T.scalar_of(scalar.type).is_float and t.dtype.is_float:
        return coerce.to_scalar(cx, scalar, t.dtype, node)
    return coerce.convert(cx, scalar, t.dtype, node, f"a component of {t}")
