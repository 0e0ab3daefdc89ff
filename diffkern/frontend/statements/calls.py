"""Calls: the called object, and the meaning of the call.

A call of the syntax tree gives its result as a term. A built-in is found by the identity of the object, never by
its name; dtypes convert and construct; ``@dk.func`` functions are inlined (:mod:`inline`); anything else is refused.
"""

from __future__ import annotations

import ast
import inspect
from typing import Any, NoReturn

from diffkern.frontend.builtins import composed, construct, derived, library, pointers, records
from diffkern.frontend.statements import arguments, inline, nested
from diffkern.frontend.syntax import advice
from diffkern.frontend.syntax.local_functions import Local
from diffkern.frontend.terms import coerce, narrow
from diffkern.frontend.terms.context import Context
from diffkern.frontend.terms.terms import WEAK, Const, Rec, Static, Term, Val, View, describe
from diffkern.frontend.tiles import tiles
from diffkern.ir import types as T
from diffkern.lang import CompositeType, Func, definition_of, resolve_dtype
from diffkern.lang.called import Called
from diffkern.lang.functions import FuncTransformation, as_func
from diffkern.lang.generic import Generic
from diffkern.lang.intrinsics import Intrinsic, lowering_key
from diffkern.lang.library import Composed
from diffkern.lang.structs import class_of

__all__ = ["lower_call", "tid_call"]


def lower_call(cx: Context, node: ast.Call) -> Term:
    """Lower a call."""
    # Types made on the spot first: as values their calls would be constructors.
    callee = construct.made_type(cx, node.func) or cx.expr(node.func)
    # From here on, no argument has a `*`.
    node = arguments.spread(cx, node)
    if not isinstance(callee, Static):
        cx.type_error(node.func, f"{describe(callee)} is called", "only functions can be called")
    obj = callee.obj
    if pointers.makes_array(obj, node):
        return pointers.of_address(cx, node)
    # Tiles before other built-ins, since functions such as `sum` have a meaning for both.
    key = lowering_key(obj)
    if key is not None and tiles.is_function(key):
        return tiles.call(cx, key, callee.name, node)
    if isinstance(obj, Composed):
        return composed.call(cx, obj, callee.name, node)
    if key is not None:
        return library.lower_builtin(cx, key, callee.name, node)
    if isinstance(obj, Func):
        return inline.inline(cx, obj, node)
    if isinstance(obj, Local):
        return nested.call(cx, obj, callee.name, node)
    if isinstance(obj, FuncTransformation):
        return _derivative(cx, obj, callee.name, node)
    if isinstance(obj, Called) and isinstance(obj.owner, (Func, Called)):
        return derived.call(cx, obj, callee.name, node)
    # A method: the instance is its first argument.
    if isinstance(obj, records.BoundMethod):
        return inline.inline(cx, obj.func, node, first=[obj.owner])
    if obj is type:
        return _type_of(cx, node)
    definition = definition_of(obj)
    if definition is not None and advice.refused(obj) is None:
        return records.construct(cx, definition, callee.name, node)
    return _of_type(cx, obj, callee.name, node)


def _of_type(cx: Context, obj: Any, name: str, node: ast.Call) -> Term:
    """Lower a call of a type: a constructor or a conversion; raise for anything else."""
    # In a library function `vec3` is over the scalar type of the call; elsewhere it is float32.
    t = obj.over(cx.frame.scalar) if isinstance(obj, Generic) and cx.frame.scalar else _called_dtype(obj)
    if (constructor := construct.maker(obj)) is not None:
        return construct.CALLS[constructor](cx, name, node)
    if t is not None:
        t = narrow.held(t)
    if isinstance(t, T.Scalar):
        return _cast(cx, t, name, node)
    if t is not None:
        return construct.of_type(cx, t, name, node)
    _refuse(cx, obj, name, node)


def _derivative(cx: Context, transformation: FuncTransformation, name: str, node: ast.Call) -> Term:
    """Lower ``dk.grad(f)``, which is then called."""
    terms = [] if node.keywords else [cx.expr(arg) for arg in node.args]
    of = terms[0] if len(terms) == 1 else None
    if not isinstance(of, Static) or not isinstance(of.obj, (Func, Composed, Intrinsic, Called)):
        cx.type_error(node, f"{name} takes one func", f"write {name}(f)(x) with f made by @dk.func, or a built-in")
    # Only funcs are differentiated, so a built-in is wrapped into one.
    function = of.obj if isinstance(of.obj, (Func, Called)) else as_func(of.obj, cx.dialect)
    return Static(transformation(function), f"{name}({of.name})")


def _type_of(cx: Context, node: ast.Call) -> Static:
    """Lower ``type(x)``: the constructor of values of that type."""
    if len(node.args) != 1 or node.keywords:
        cx.type_error(node, "type takes one value", "write type(x)")
    term, shown = cx.expr(node.args[0]), ast.unparse(node)
    if isinstance(term, Const):
        # A literal's type is Python's, whose call makes a number that is as weak.
        return Static(type(term.value), shown)
    if isinstance(term, Rec):
        return Static(class_of(term.struct), shown)
    if isinstance(term, View):
        return Static(T.Array(term.array.dtype, len(term.spans)), shown)
    if not isinstance(term, Val) or isinstance(term.value.type, T.Tile):
        remedy = "it takes a number, a vector, a matrix, a struct, or an array of numbers, vectors or matrices"
        cx.type_error(node, f"type of {describe(term)}", remedy)
    return Static(
        (float if T.scalar_of(term.type).is_float else int) if term.type in WEAK else narrow.stored(term.type), shown
    )


def tid_call(cx: Context, node: ast.expr) -> bool:
    """Return whether an expression is a call of ``tid``, whose number of results depends on the context."""
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
    # By name: importing the class here would close a circle of imports.
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
        cx.type_error(node, f"{name} takes one value, not {len(args)}", f"write {name}(x) for each value")
    if not args:
        # ``int()`` is 0, as in Python.
        return coerce.explicit_cast(cx, Const(0), to, node)
    return coerce.explicit_cast(cx, coerce.scalar_term(cx, args[0], node.args[0], f"the argument of {name}"), to, node)
