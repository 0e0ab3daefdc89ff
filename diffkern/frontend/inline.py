"""Activations: the kernel's own, and one for each call of a ``@dk.func``, which is inlined where it is called.

In: a function and the terms of its arguments. Out: the term it returns; its ops stand in the caller's region and carry
positions in the func's own file.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from diffkern.errors import KernelTypeError
from diffkern.frontend import fence, records
from diffkern.frontend.captured import static_term
from diffkern.frontend.context import RETURN, RETURNED, Cascade, Context, Frame
from diffkern.frontend.flow import Liveness, falls_off
from diffkern.frontend.numba_loops import without_waiting_tests
from diffkern.frontend.scope import Scope
from diffkern.frontend.signature import parameter_type
from diffkern.frontend.source import Source, get_source
from diffkern.frontend.terms import Binding, Const, RecView, Static, Term, Val, View, describe
from diffkern.ir.types import Tile
from diffkern.lang import ArrayAnnotation, Func

__all__ = ["inline", "make_frame", "returned", "run"]


def make_frame(cx: Context, pyfunc: Callable[..., Any], source: Source) -> Frame:
    """An activation of a function, without its arguments.

    Raises
    ------
    Cascade
        If the fence refuses parts of the function; what it refuses is added to ``cx.errors``.
    """
    refused = fence.check(source)
    if refused:
        cx.errors.extend(refused)
        raise Cascade
    if cx.layout is not None:
        source = without_waiting_tests(source)
    body = source.node.body
    variables = set(inspect.signature(pyfunc).parameters)
    returns_value = False
    for stmt in body:
        for node in ast.walk(stmt):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                variables.add(node.id)
            elif isinstance(node, ast.Return) and node.value is not None and not _is_none(node.value):
                returns_value = True
    frame = Frame(pyfunc, source, Scope(pyfunc), frozenset(variables), Liveness(body), returns_value=returns_value)
    frame.env[RETURNED] = Binding(Const(False), None)
    return frame


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def run(cx: Context) -> None:
    """Lower the body of the innermost frame."""
    cx.block(cx.frame.source.node.body, True, True)


def inline(cx: Context, func: Func, node: ast.Call, terms: Sequence[Term] | None = None) -> Term:
    """Lower a call of a func by lowering its body here; its arguments are those of the call, or ``terms``."""
    if any(frame.pyfunc is func.pyfunc for frame in cx.stack):
        cx.type_error(node, f"{func.name} calls itself", "write a loop; recursion is not supported in kernels")
    source = get_source(func.pyfunc)
    given = _arguments(cx, func, node, terms)
    frame = make_frame(cx, func.pyfunc, source)
    frame.tile_parameters = frozenset(
        name for name, term in given.items() if isinstance(term, Val) and isinstance(term.value.type, Tile)
    )
    path, loc = cx.call_path, cx.b.loc
    for name, term in given.items():
        frame.env[name] = Binding(term, source.loc(source.node))
    cx.stack.append(frame)
    cx.call_path = (*path, node)
    try:
        return returned(cx)
    finally:
        cx.stack.pop()
        cx.call_path, cx.b.loc = path, loc


def returned(cx: Context) -> Term:
    """Lower the body of the innermost frame, a func's; returns what it gives back, which is None if nothing."""
    frame = cx.frame
    name, body = frame.pyfunc.__name__, frame.source.node.body
    if frame.returns_value and falls_off(body):
        cx.type_error(body[-1], f"{name} ends without a value on some path", "end every path with return ...")
    run(cx)
    if not frame.returns_value:
        return Static(None, f"{name}(...)")
    result = frame.env.get(RETURN)
    if result is None or result.term is None:
        raise Cascade  # an error in the func has been recorded
    return result.term


def _arguments(cx: Context, func: Func, node: ast.Call, terms: Sequence[Term] | None) -> Mapping[str, Term]:
    """The term of each parameter: from the call, or its default; annotated ones in the annotated type."""
    signature = inspect.signature(func.pyfunc)
    keywords: dict[str, tuple[Term, ast.expr]] = {}
    if terms is None:
        positional: list[tuple[Term, ast.expr]] = [(cx.expr(arg), arg) for arg in node.args]
        keywords = {k.arg: (cx.expr(k.value), k.value) for k in node.keywords if k.arg is not None}
    else:
        positional = [(term, node) for term in terms]
    try:
        bound = signature.bind(*positional, **keywords)
    except TypeError as error:
        cx.type_error(node, f"{func.name}: {error}", f"its parameters are {func.name}{_names(signature)}")
    scope = Scope(func.pyfunc)
    given: dict[str, Term] = {}
    for name, parameter in signature.parameters.items():
        if name in bound.arguments:
            term, where = bound.arguments[name]
        else:
            term, where = static_term(cx, parameter.default, name, node), node
        given[name] = _as_annotated(cx, func, name, parameter.annotation, scope, term, where)
    return given


def _names(signature: inspect.Signature) -> str:
    return "(" + ", ".join(signature.parameters) + ")"


def _as_annotated(
    cx: Context, func: Func, name: str, annotation: Any, scope: Scope, term: Term, node: ast.expr
) -> Term:
    try:
        want = parameter_type(annotation, scope, name, func.name)
    except TypeError as error:
        raise KernelTypeError(
            str(error), loc=cx.loc(node), remedy="use a dtype, dk.array(...), or no annotation"
        ) from error
    if want is None:
        return term
    what = f"the parameter {name} of {func.name}"
    if isinstance(want, ArrayAnnotation):
        if isinstance(term, RecView):
            fits = term.ndim == want.ndim and want.dtype in (None, term.struct)
        else:
            fits = isinstance(term, View) and len(term.spans) == want.ndim and want.dtype in (None, term.array.dtype)
        if not fits:
            cx.type_error(node, f"{what} takes {want}, not {describe(term)}")
        return term
    return records.convert(cx, term, want, node, what)
