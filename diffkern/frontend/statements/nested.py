"""Calls of functions that a kernel or func defines for itself.

The expression that stands for such a function gives the function as a term; a call of it gives its result, lowered at
the call. Variables of the function around it have the values that they have there at the call.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Sequence
from dataclasses import replace

from diffkern.errors import KernelTypeError
from diffkern.frontend.builtins import records
from diffkern.frontend.statements import inline, matching
from diffkern.frontend.syntax.local_functions import Local, LocalFunction
from diffkern.frontend.syntax.scope import NameScope
from diffkern.frontend.syntax.signature import parameter_type
from diffkern.frontend.terms import coerce
from diffkern.frontend.terms.context import Context
from diffkern.frontend.terms.narrow import held
from diffkern.frontend.terms.terms import Binding, Static, Term, Val, describe
from diffkern.ir.structs import Struct
from diffkern.ir.types import Mat, Scalar, Vec

__all__ = ["call", "function"]


def function(cx: Context, node: LocalFunction) -> Static:
    """Return a local function at its definition; its defaults have their values there."""
    args = node.definition.args
    positional = [*args.posonlyargs, *args.args]
    pairs = [*zip(positional[len(positional) - len(args.defaults) :], args.defaults, strict=True)]
    pairs += [(a, d) for a, d in zip(args.kwonlyargs, args.kw_defaults, strict=True) if d is not None]
    defaults = tuple((a.arg, cx.expr(default)) for a, default in pairs)
    # The same object for the same definition, so that a loop that is lowered again carries the same function.
    key = (*cx.call_path, cx.frame, node, defaults)
    known = cx.local_functions.setdefault(key, Local(node.definition, cx.frame, defaults))
    return Static(known, node.definition.name)


def call(cx: Context, local: Local, name: str, node: ast.Call, terms: Sequence[Term] | None = None) -> Term:
    """Lower a call by lowering the function's body here; its arguments are those of the call, or ``terms``."""
    around = local.frame
    # On the stack and not lowered to its end, the function is calling itself.
    if any(frame.local is local and not frame.lowered for frame in cx.stack):
        cx.type_error(node, f"{name} calls itself", "write a loop; recursion is not supported in kernels")
    given = _given(cx, local, name, node, terms)
    frame = inline.make_frame(cx, around.pyfunc, replace(around.source, node=local.definition), local)
    # Names that are not its own are looked up in the activation where it was defined.
    frame.around, frame.local, frame.scalar = around, local, around.scalar
    for parameter, term in given.items():
        frame.env[parameter] = Binding(term, around.source.loc(local.definition))
    return inline.activate(cx, frame, node)


def _given(cx: Context, local: Local, name: str, node: ast.Call, terms: Sequence[Term] | None) -> dict[str, Term]:
    """Return the term of each parameter, in the annotated type."""
    signature = _signature(local)
    positional, keywords = inline.arguments_of(cx, node, terms)
    try:
        bound = signature.bind(*positional, **keywords).arguments
    except TypeError as error:
        cx.type_error(node, f"{name}: {error}", f"its parameters are {', '.join(signature.parameters) or 'none'}")
    defaults = dict(local.defaults)
    given = {}
    for parameter, p in signature.parameters.items():
        term, where = bound[parameter] if parameter in bound else (defaults[parameter], node)
        given[parameter] = _as_annotated(cx, local, p, term, where)
    return given


def _signature(local: Local) -> inspect.Signature:
    args, has_default = local.definition.args, dict(local.defaults)
    kinds = inspect.Parameter
    groups = (
        (kinds.POSITIONAL_ONLY, args.posonlyargs),
        (kinds.POSITIONAL_OR_KEYWORD, args.args),
        (kinds.KEYWORD_ONLY, args.kwonlyargs),
    )
    return inspect.Signature([
        kinds(
            a.arg,
            kind,
            default=None if a.arg in has_default else kinds.empty,
            annotation=kinds.empty if a.annotation is None else ast.unparse(a.annotation),
        )
        for kind, group in groups
        for a in group
    ])  # fmt: skip


def _as_annotated(cx: Context, local: Local, p: inspect.Parameter, term: Term, where: ast.AST) -> Term:
    """Return an argument as its parameter takes it."""
    owner = local.definition.name
    try:
        want = parameter_type(p.annotation, NameScope(local.frame.pyfunc), p.name, owner)
    except TypeError as error:
        raise KernelTypeError(str(error), loc=cx.loc(where), remedy="use a dtype, or no annotation") from None
    what = f"the parameter {p.name} of {owner}"
    if want is None:
        return term
    if isinstance(want, (Scalar, Vec, Mat)):
        return Val(coerce.convert(cx, term, held(want), where, what))
    if isinstance(want, Struct):
        return records.convert(cx, term, want, where, what)
    if not matching.fits(want, term):
        cx.type_error(where, f"{what} takes {want}, not {describe(term)}", f"convert it, as in {want}(…)")
    return term
