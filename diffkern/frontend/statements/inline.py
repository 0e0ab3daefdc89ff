"""Activations: the kernel's own, and one for each call of a ``@dk.func``, which is inlined at the call.

A function and the terms of its arguments give the term it returns; its ops are in the caller's region and carry
positions in the func's own file.
"""

from __future__ import annotations

import ast
import copy
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NoReturn

from diffkern.errors import KernelTypeError
from diffkern.frontend.builtins import local, records, rules
from diffkern.frontend.statements import matching, unset
from diffkern.frontend.statements.returns import check_returned
from diffkern.frontend.syntax import fence
from diffkern.frontend.syntax.flow import NameLiveness, falls_off
from diffkern.frontend.syntax.local_functions import captured, set_apart
from diffkern.frontend.syntax.loop_tests import without_changing_tests, without_waiting_tests
from diffkern.frontend.syntax.prune import pruned
from diffkern.frontend.syntax.scope import MISSING, NameScope
from diffkern.frontend.syntax.signature import Annotation, parameter_type, references, references_of
from diffkern.frontend.syntax.source import Source, get_source
from diffkern.frontend.syntax.survey import walk
from diffkern.frontend.terms import coerce, narrow
from diffkern.frontend.terms.captured import static_term
from diffkern.frontend.terms.context import RETURN, RETURNED, Activation, Cascade, Context, PreparedFunction
from diffkern.frontend.terms.terms import Binding, Const, Static, Term, Tup, Val, describe
from diffkern.frontend.tiles.tile_terms import holds_tiles
from diffkern.ir.types import Mat, Scalar, Vec
from diffkern.lang import ArrayAnnotation, Func
from diffkern.lang.annotations import TileAnnotation
from diffkern.lang.dialects import dialect_of
from diffkern.lang.patterns import Pattern, TupleOf
from diffkern.lang.static import kept_results

_PLACES = (ast.Name, ast.Subscript, ast.Attribute)
_DEEPEST = 16
"""Activations of a func inside each other, for other functions each time; more are taken for a recursion."""

__all__ = ["activate", "arguments_of", "giving_back", "inline", "make_frame", "returned", "run", "with_rules"]


def make_frame(cx: Context, pyfunc: Callable[..., Any], source: Source, local: object = None) -> Activation:
    """Return an activation of a function, or of one that it defines (``local``, whose source is given), without
    arguments.

    Raises
    ------
    Cascade
        If the fence refuses parts of the function; its errors are added to ``cx.errors``.
    """
    # A local function has no Python function of its own that would identify it.
    key = pyfunc if local is None else source.node
    # A func may be called at many places; checking and analyzing its tree is done once.
    known = cx.prepared.get(key)
    if known is None:
        known = cx.prepared[key] = _prepared(cx, pyfunc, source)
    source = replace(source, node=known.node)
    scope, dialect = NameScope(pyfunc), dialect_of(pyfunc)
    frame = Activation(pyfunc, source, scope, known.names, known.liveness, dialect, returns_value=known.returns_value)
    frame.env[RETURNED] = Binding(Const(False), None)
    if dialect.unset_is_zero:
        frame.env.update(unset.with_marks(cx, known.unset))
    return frame


def _prepared(cx: Context, pyfunc: Callable[..., Any], source: Source) -> PreparedFunction:
    """Return the common part of all activations of a function."""
    definition, scope = copy.copy(source.node), NameScope(pyfunc)
    if refs := references(pyfunc):
        # Before the names are collected: the new returns read the parameters.
        definition = giving_back(definition, list(refs))
    body, args = set_apart(definition.body), definition.args
    parameters = [a.arg for a in (*args.posonlyargs, *args.args, *args.kwonlyargs)]
    variables = set(parameters)
    variables.update(n.id for n in walk(*body) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))
    names = frozenset(variables)
    # Branches that are never taken go first, so that neither the fence nor the analyses look into them.
    definition.body = without_changing_tests(pruned(body, scope, names, kept_results(pyfunc) or ()), scope, names)
    source = replace(source, node=definition)
    refused = fence.check(source)
    if refused:
        cx.errors.extend(refused)
        raise Cascade
    if cx.layout is not None:
        source = without_waiting_tests(source)
    body = source.node.body
    returned = (n.value for n in walk(*body) if isinstance(n, ast.Return))
    returns_value = any(value is not None and not _is_none(value) for value in returned)
    perhaps = unset.maybe_unset(body, names, parameters) if cx.checked else frozenset()
    # A local function reads variables at its calls, which may be anywhere behind its definition: they stay live.
    return PreparedFunction(source.node, names, NameLiveness(body, captured(body)), returns_value, perhaps)


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def run(cx: Context) -> None:
    """Lower the body of the innermost frame."""
    _lower_body(cx, True)


def _lower_body(cx: Context, tail_function: bool) -> None:
    definition = cx.frame.source.node
    with cx.b.at(cx.loc(definition)):
        cx.mark("begin")
    cx.block(definition.body, True, tail_function)
    with cx.b.at(cx.loc(definition)):
        cx.mark("end")


def inline(
    cx: Context, func: Func, node: ast.expr, terms: Sequence[Term] | None = None, first: Sequence[Term] = ()
) -> Term:
    """Lower a call of a func by lowering its body here.

    Its arguments are those of the call, after the terms ``first``; or ``terms`` alone.
    """
    found = func.on(cx.simt)
    if isinstance(found, str):
        where = "GPUs" if cx.simt else "processors"
        what = f"{func.name} has a body in C++ for {where}, which is not compiled here ({found})"
        cx.type_error(node, what, "write it as a @wp.func")
    func = found
    places: dict[str, ast.expr] = {}
    if refs := references_of(func):
        positional, keywords = _with_places(cx, func, node, refs, places, is_method=bool(first) or terms is not None)
    else:
        positional, keywords = arguments_of(cx, node, terms)
    positional = [*((term, node) for term in first), *positional]
    if len(func.overloads) > 1:
        func = matching.chosen(cx, func, positional, keywords, node)
    if _never_ends(cx, func, [term for term, _ in (*positional, *keywords.values())]):
        cx.type_error(node, f"{func.name} calls itself", "write a loop; recursion is not supported in kernels")
    source = get_source(func.pyfunc)
    if cx.frame.scalar is not None or func.at_caller:  # a part of a library function
        source = source.at(cx.loc(node))
    given = _bound(cx, func, node, positional, keywords)
    if places:
        return _with_changes(cx, func, source, given, places, node)
    result = with_rules(cx, func, given, node, lambda: activate(cx, _frame(cx, func, source, given), node))
    check_returned(cx, func, result, node)
    return result


def _never_ends(cx: Context, func: Func, terms: Sequence[Term]) -> bool:
    """Return whether a func calls itself.

    It does not where it is called for other functions, as a search whose objective is the result of a search. A func
    that is lowered to its end may occur again: a derivative rule of it may call it.
    """
    active = [frame for frame in cx.stack if frame.pyfunc is func.pyfunc and not frame.lowered]
    return len(active) >= _DEEPEST or any(frame.functions == _functions(terms) for frame in active)


def _functions(terms: Iterable[Term]) -> tuple[object, ...]:
    return tuple(term.obj for term in terms if isinstance(term, Static) and callable(term.obj))


def _with_places(
    cx: Context, func: Func, node: ast.expr, refs: Mapping[str, int], places: dict[str, ast.expr], is_method: bool
) -> tuple[Sequence[matching.Given], Mapping[str, matching.Given]]:
    """Return the arguments of a call of a func that changes variables of the caller; record these variables by
    parameter.
    """
    if is_method or not isinstance(node, ast.Call) or cx.outside(node.func) is MISSING:
        cx.type_error(node, f"{func.name} changes variables of its caller", "call it by its own name in the kernel")

    def one(arg: ast.expr, name: str | None) -> matching.Given:
        if name is None:
            return cx.expr(arg), arg
        is_constant = isinstance(arg, ast.Name) and arg.id not in cx.frame.locals
        if is_constant or not isinstance(arg, _PLACES) or any(isinstance(part, ast.Call) for part in walk(arg)):
            cx.type_error(
                arg,
                f"{func.name} changes its argument {name}, which must be a variable, an element or a part of one, "
                "without a call in its index",
                f"assign it to a variable first, as in {name} = ...; {func.name}({name}, ...)",
            )
        # Two parameters for one variable: which of the two values it gets would depend on their order.
        if ast.dump(arg) in map(ast.dump, places.values()):
            cx.type_error(
                arg, f"{func.name} changes {ast.unparse(arg)} by two arguments", "pass variables of their own"
            )
        places[name] = arg
        return cx.expr(arg), arg

    by_place = {place: name for name, place in refs.items()}
    positional = [one(arg, by_place.get(k)) for k, arg in enumerate(node.args)]
    return positional, {k.arg: one(k.value, k.arg if k.arg in refs else None) for k in node.keywords if k.arg}


def _with_changes(
    cx: Context,
    func: Func,
    source: Source,
    given: Mapping[str, Term],
    places: Mapping[str, ast.expr],
    node: ast.expr,
) -> Term:
    """Lower a func that changes variables of the caller, and assign the final values of its parameters to them."""
    if func.rules:
        cx.type_error(
            node, f"{func.name} changes variables of its caller, and has a derivative of its own", "return the values"
        )
    result, scope = activate(cx, _frame(cx, func, source, given), node), NameScope(func.pyfunc)
    names = list(references(func.pyfunc))
    if not isinstance(result, Tup):
        raise Cascade  # an error in the func has been recorded
    parameters = inspect.signature(func.pyfunc).parameters
    own, last = result.items[: -len(names)], result.items[-len(names) :]
    for name, term in zip(names, last, strict=True):
        # A parameter that was not assigned has its argument still, and no store is emitted.
        if name in places and term is not given[name]:
            want = _annotation(cx, func, parameters[name], scope, node)
            changed = _as_annotated(cx, func, name, want, term, node, {})
            cx.assign(_stored(places[name]), changed, node)
    return own[0] if own else Static(None, f"{func.name}(...)")


def _stored(node: ast.expr) -> ast.expr:
    """Return a place of the caller as the target of an assignment."""
    made = copy.copy(node)
    made.ctx = ast.Store()  # type: ignore[attr-defined]
    return made


def with_rules(
    cx: Context,
    func: Func,
    given: Mapping[str, Term],
    node: ast.AST,
    lower: Callable[[], Term],
    scalar: Scalar | None = None,
) -> Term:
    """Lower a func for its arguments by a function that lowers its body, with the rules that its author has written.

    ``scalar`` is the scalar type of the call in the rules, if it is a built-in.
    """
    found = rules.of_call(cx, func, given) if func.rules else {}
    if not found:
        return lower()

    def rule(own: Func, source: Source, terms: Sequence[Term], variables: Mapping[str, Term]) -> Term:
        frame = _frame(cx, own, source, {**_bound(cx, own, node, [(term, node) for term in terms], {}), **variables})
        frame.locals |= variables.keys()
        frame.scalar = scalar or frame.scalar
        return activate(cx, frame, node)

    return rules.ruled(cx, func, found, given, node, lower, rule)


def _frame(cx: Context, func: Func, source: Source, given: Mapping[str, Term]) -> Activation:
    """Return the activation of a func for its arguments."""
    frame = make_frame(cx, func.pyfunc, source)
    frame.scalar = cx.frame.scalar
    frame.tile_parameters = frozenset(name for name, term in given.items() if holds_tiles(term))
    frame.functions = _functions(given.values())
    for name, term in given.items():
        frame.env[name] = Binding(term, source.loc(source.node))
    return frame


def activate(cx: Context, frame: Activation, node: ast.AST) -> Term:
    """Lower the body of a called function, in its activation; return its result."""
    path, loc, caller = cx.call_path, cx.b.loc, cx.env
    # Arrays of the thread are variables of the innermost frame: a callee changes them for its caller.
    frame.env.update({name: caller[name] for name in local.names(caller)})
    cx.stack.append(frame)
    cx.call_path = (*path, node)
    try:
        return returned(cx)
    finally:
        cx.stack.pop()
        cx.call_path, cx.b.loc = path, loc
        caller.update({name: frame.env[name] for name in local.names(frame.env)})


def returned(cx: Context) -> Term:
    """Lower the body of the innermost frame, a func's; return its result, which is None if there is none."""
    frame = cx.frame
    name, body = frame.source.node.name, frame.source.node.body
    frame.may_return_nothing = frame.returns_value and falls_off(body)
    if frame.may_return_nothing and not frame.dialect.unset_is_zero:
        _refuse_end(cx, name, body[-1])
    _lower_body(cx, not (frame.may_return_nothing and cx.checked))
    # From here on a rule of this func may call it, which is no recursion.
    frame.lowered = True
    if not frame.returns_value:
        return Static(None, f"{name}(...)")
    result = frame.env.get(RETURN)
    term = None if result is None else result.term
    if frame.may_return_nothing:
        term = unset.result(cx, term, body[-1])
        if isinstance(term, (Static, Tup)):
            _refuse_end(cx, name, body[-1])
    if term is None:
        raise Cascade  # an error in the func has been recorded
    return term


def _refuse_end(cx: Context, name: str, last: ast.stmt) -> NoReturn:
    cx.type_error(last, f"{name} ends without a value on some path", "end every path with return ...")


def arguments_of(
    cx: Context, node: ast.expr, terms: Sequence[Term] | None
) -> tuple[Sequence[matching.Given], Mapping[str, matching.Given]]:
    """Return the arguments of a call, by position and by name, each with its node."""
    if terms is not None:
        return [(term, node) for term in terms], {}
    assert isinstance(node, ast.Call)
    positional = [(cx.expr(arg), arg) for arg in node.args]
    return positional, {k.arg: (cx.expr(k.value), k.value) for k in node.keywords if k.arg is not None}


def _bound(
    cx: Context,
    func: Func,
    node: ast.AST,
    positional: Sequence[matching.Given],
    keywords: Mapping[str, matching.Given],
) -> Mapping[str, Term]:
    """Return the term of each parameter: a given one, or its default; annotated ones in the annotated type."""
    signature = inspect.signature(func.pyfunc)
    try:
        bound = signature.bind(*positional, **keywords)
    except TypeError as error:
        cx.type_error(node, f"{func.name}: {error}", f"its parameters are {func.name}{_names(signature)}")
    scope = NameScope(func.pyfunc)
    given: dict[str, Term] = {}
    variables: matching.Variables = {}
    for name, parameter in signature.parameters.items():
        if name in bound.arguments:
            term, where = bound.arguments[name]
        else:
            term, where = static_term(cx, parameter.default, name, node), node
        want = _annotation(cx, func, parameter, scope, where)
        given[name] = _as_annotated(cx, func, name, want, term, where, variables)
    return given


def _names(signature: inspect.Signature) -> str:
    return "(" + ", ".join(signature.parameters) + ")"


def _annotation(cx: Context, func: Func, parameter: inspect.Parameter, scope: NameScope, node: ast.AST) -> Annotation:
    """Return the meaning of a parameter's annotation."""
    try:
        return parameter_type(parameter.annotation, scope, parameter.name, func.name)
    except TypeError as error:
        raise KernelTypeError(
            str(error), loc=cx.loc(node), remedy="use a dtype, dk.array(...), or no annotation"
        ) from None


def _as_annotated(
    cx: Context, func: Func, name: str, want: Annotation, term: Term, node: ast.AST, variables: matching.Variables
) -> Term:
    """Return an argument as its parameter takes it."""
    what = f"the parameter {name} of {func.name}"
    wrong = matching.unify(want, term, variables)
    if wrong is not None:
        cx.type_error(node, f"{func.name}: {wrong}", "pass arguments of one type, or use different type variables")
    match want:
        case None:
            return term
        case TupleOf():
            if not isinstance(term, Tup) or (len(term.items) != len(want.items) and not want.variadic):
                cx.type_error(
                    node,
                    f"{what} takes {want}, not {describe(term)}",
                    "convert the argument, or annotate the parameter with its type",
                )
            wanted = want.items * len(term.items) if want.variadic else want.items
            parts = zip(wanted, term.items, strict=False)
            return Tup(tuple(_as_annotated(cx, func, name, item, part, node, variables) for item, part in parts))
        case Pattern() | ArrayAnnotation() | TileAnnotation():
            if not matching.fits(want, term):
                cx.type_error(
                    node,
                    f"{what} takes {want}, not {describe(term)}",
                    "convert the argument, or annotate the parameter with its type",
                )
            return term
        case Scalar() | Vec() | Mat():
            return Val(coerce.convert(cx, term, narrow.held(want), node, what))
    return records.convert(cx, term, want, node, what)


# -- funcs that change variables of their caller -----------------------------------------------------------------------
# Funcs that change variables of their caller, as funcs that return the new values of these variables.
#
# The definition of a func and the names of such parameters give a definition each of whose ``return`` statements
# returns the values of these parameters as well, after the result if there is one.


def giving_back(definition: ast.FunctionDef, names: Sequence[str]) -> ast.FunctionDef:
    """Return the definition of a func that returns the values of parameters too."""
    made = copy.copy(definition)
    visitor = _Returns(names)
    # On copies: the tree is shared by all activations, and the func may be called without references elsewhere.
    made.body = [visitor.visit(copy.deepcopy(stmt)) for stmt in definition.body]
    # Falling off the end is a return as well, and has to give the values back.
    if falls_off(made.body) and not visitor.has_values:
        last = ast.Return(None)
        ast.copy_location(last, made.body[-1])
        made.body.append(visitor.visit(last))
    return made


class _Returns(ast.NodeTransformer):
    def __init__(self, names: Sequence[str]) -> None:
        self.names, self.has_values = names, False

    def visit_Return(self, node: ast.Return) -> ast.Return:
        own = [] if node.value is None or _is_none(node.value) else [node.value]
        self.has_values = self.has_values or bool(own)
        node.value = ast.Tuple([*own, *(ast.Name(name, ast.Load()) for name in self.names)], ast.Load())
        for part in (node.value, *node.value.elts[len(own) :]):
            ast.copy_location(part, node)
        return node

    # A function inside of this one returns to it, not to the caller.
    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        return node

    def visit_Lambda(self, node: ast.Lambda) -> ast.Lambda:
        return node
