"""The entry of the frontend: a Python function and the types of its parameters become a function of the IR.

The user's function, fully typed, gives a verified-shape :class:`~diffkern.ir.nodes.Function`, or all errors found in it
together, each with its place and a remedy. A func that is lowered by itself, not at a call in a kernel, yields its
results.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from diffkern.contracts.launch_layout import Layout
from diffkern.errors import KernelError, KernelSyntaxError, KernelTypeError, raise_all
from diffkern.frontend.builtins import composed, records
from diffkern.frontend.numba import begin
from diffkern.frontend.statements import array_choices
from diffkern.frontend.statements.assign import assign
from diffkern.frontend.statements.expr import lower_expr
from diffkern.frontend.statements.inline import make_frame, returned, run, with_rules
from diffkern.frontend.statements.stmt import lower_block
from diffkern.frontend.syntax.desugar import LAMBDA
from diffkern.frontend.syntax.signature import SignatureParameter, signature
from diffkern.frontend.syntax.source import Source, get_source, too_deep
from diffkern.frontend.terms import coerce, narrow, views
from diffkern.frontend.terms.captured import static_term
from diffkern.frontend.terms.context import RETURNED, Cascade, Context
from diffkern.frontend.terms.terms import Binding, Const, Poison, Rec, Static, Term, Tup, Val, describe
from diffkern.frontend.terms.weak import resolve_weak
from diffkern.ir import types as T
from diffkern.ir.nodes import Function, Op, Update, Value, walk
from diffkern.ir.ops.row import Effect
from diffkern.ir.ops.table import lookup
from diffkern.ir.structs import Argument, Struct, fields_in_memory, flatten
from diffkern.lang import DType, Func
from diffkern.lang.dialects import dialect_of
from diffkern.lang.library import Composed

__all__ = ["lower", "lower_func", "lower_library", "returned_types"]


def lower(
    pyfunc: Callable[..., Any],
    arg_types: Sequence[Argument],
    name: str | None = None,
    block_dim: int = 1,
    layout: Layout | None = None,
    checked: bool = False,
    simt: bool = False,
    marked: bool = False,
) -> Function:
    """Lower a kernel.

    Parameters
    ----------
    pyfunc
        The Python function of the kernel.
    arg_types
        One type per parameter, as :meth:`Signature.match` gives them. A struct becomes an IR parameter for each field.
    name : str, optional
        The function's name in the IR; the Python name by default.
    block_dim : int, optional
        How many elements ``dk.tile(x)`` has: the threads of a block.
    layout : Layout, optional
        Of a kernel in numba's spelling, whose numbers have numba's types: for which launches it is.
    checked : bool, optional
        Whether threads report an index outside of an array of their own.
    simt : bool, optional
        Whether it is for a GPU.
    marked : bool, optional
        Whether the places that threads reach are marked, in funcs as well.

    Raises
    ------
    KernelError
        For one error, of the class that fits; for several, of a common class, with all of them in ``errors``.
    """
    source = get_source(pyfunc)
    if source.node.name == LAMBDA:
        loc = source.loc(source.node)
        raise KernelSyntaxError("a lambda cannot be compiled as a kernel", loc=loc, remedy="write it as a def")
    cx = Context(lower_expr, lower_block, assign)
    cx.block_dim = block_dim
    cx.layout, cx.checked, cx.simt, cx.is_marked = layout, checked, simt, marked
    parameters = list(inspect.signature(pyfunc).parameters)
    if len(parameters) != len(arg_types):
        raise KernelTypeError(
            f"{pyfunc.__name__} takes {len(parameters)} arguments, not {len(arg_types)}",
            remedy=f"pass {', '.join(parameters)}",
        )
    params: tuple[Value, ...] = ()
    try:
        params = _begin(cx, pyfunc, source, arg_types)
        if layout is not None:
            begin(cx, layout)
        run(cx)
    except Cascade:
        # A cascade follows an error that is recorded already; all of them are raised together below.
        pass
    except RecursionError as error:
        raise too_deep(pyfunc.__name__, source.loc(source.node)) from error
    _raise_errors(cx)
    _check_constants(cx)
    fn = _function(cx, name or pyfunc.__name__, params, source, _settled(cx, ())[0])
    fn.records = fields_in_memory(parameters, arg_types)
    return fn


def _check_constants(cx: Context) -> None:
    """Raise where an array from outside would be changed, whose elements are constants of the program."""
    arrays = {*cx.constants.values()}
    for op in walk(cx.b.region) if arrays else ():
        changed = arrays.intersection(op.operands) if lookup(op.name).effect in (Effect.WRITE, Effect.ATOMIC) else None
        if changed:
            name = next(iter(changed)).name
            raise KernelTypeError(
                f"{name} is an array outside the kernel, whose elements are constants in it",
                loc=op.loc,
                remedy="pass arrays that a kernel changes as parameters",
            )


def _raise_errors(cx: Context) -> None:
    """Raise the errors found; nothing may have been left out without an error."""
    raise_all(cx.errors)
    for loc in cx.skipped:
        raise KernelTypeError(
            "a variable in this statement has no one type", loc=loc, remedy="use a name for each type, not one for both"
        )


def lower_func(pyfunc: Callable[..., Any], arg_types: Sequence[Argument]) -> tuple[Function, bool]:
    """Lower a func by itself; return a function whose body yields the results, and whether they are a tuple.

    Parameters
    ----------
    pyfunc
        The Python function of the func.
    arg_types
        One type per parameter, from the first; the others have their defaults.

    Raises
    ------
    KernelError
        As :func:`lower`, and for results that are neither numbers nor vectors nor matrices.
    """
    source = get_source(pyfunc)
    cx = Context(lower_expr, lower_block, assign)
    params: tuple[Value, ...] = ()
    results: tuple[Value, ...] = ()
    together = False
    try:
        params, term = _called(cx, pyfunc, source, arg_types)
        together = isinstance(term, Tup)
        results = _results(cx, term, source, pyfunc.__name__)
    except Cascade:
        pass
    except RecursionError as error:
        raise too_deep(pyfunc.__name__, source.loc(source.node)) from error
    _raise_errors(cx)
    updates, results = _settled(cx, results)
    fn = _function(cx, pyfunc.__name__, params, source, updates)
    fn.body.yields = results
    return fn, together


def returned_types(pyfunc: Callable[..., Any], arg_types: Sequence[Argument]) -> tuple[T.Type | Struct, ...]:
    """Return the types of what a func returns, which may be structs as well.

    Parameters
    ----------
    pyfunc, arg_types
        As in :func:`lower_func`.

    Raises
    ------
    KernelError
        As :func:`lower_func`.
    """
    source = get_source(pyfunc)
    cx = Context(lower_expr, lower_block, assign)
    structs: dict[int, Struct] = {}
    values: tuple[Value, ...] = ()
    try:
        _, term = _called(cx, pyfunc, source, arg_types)
        parts = term.items if isinstance(term, Tup) else (term,)
        structs = {k: part.struct for k, part in enumerate(parts) if isinstance(part, Rec)}
        others = Tup(tuple(part for part in parts if not isinstance(part, Rec))) if structs else term
        values = _results(cx, others, source, pyfunc.__name__)
    except Cascade:
        pass
    _raise_errors(cx)
    numbers = iter([value.type for value in _settled(cx, values)[1]])
    return tuple(structs[k] if k in structs else next(numbers) for k in range(len(structs) + len(values)))


def _called(
    cx: Context, pyfunc: Callable[..., Any], source: Source, arg_types: Sequence[Argument]
) -> tuple[tuple[Value, ...], Term]:
    """Lower a func by itself; returns its parameters in the IR, and what it returns."""
    cx.of_func = True
    params = _begin(cx, pyfunc, source, arg_types)
    for name, p in list(inspect.signature(pyfunc).parameters.items())[len(arg_types) :]:
        default = static_term(cx, p.default, name, source.node)
        cx.frame.env[name] = Binding(default, source.loc(source.node))
    given = {name: binding.term for name, binding in cx.env.items() if binding.term is not None and name != RETURNED}
    return params, with_rules(cx, Func(pyfunc, dialect_of(pyfunc)), given, source.node, lambda: returned(cx))


def lower_library(
    function: Composed, arg_types: Sequence[T.Type | DType | type], keywords: Mapping[str, T.Type | DType | type]
) -> tuple[Function, bool]:
    """Lower a call of a library function by itself; return the same as :func:`lower_func`.

    Parameters
    ----------
    function
        The library function.
    arg_types, keywords
        The types of its arguments, in order and by name; an argument that is a type itself.

    Raises
    ------
    KernelError
        If they do not fit.
    """
    pyfunc = function.overloads[0].pyfunc
    source = get_source(pyfunc)
    cx = Context(lower_expr, lower_block, assign)
    cx.of_func = True
    # With another function than the library's: calling that one would look like a recursion.
    cx.stack.append(replace(make_frame(cx, pyfunc, source), pyfunc=lower_library))  # of the caller, who is none
    types = _named_types(function, arg_types, keywords)
    values = {
        name: Static(t, name) if isinstance(t, (DType, type)) else Value(_passed(t), name) for name, t in types.items()
    }
    params = tuple(v for v in values.values() if isinstance(v, Value))
    results: tuple[Value, ...] = ()
    together = False
    try:
        given = [_given(cx, v, types[name]) for name, v in values.items()]
        by_name = dict(zip(keywords, given[len(arg_types) :], strict=True))
        term = composed.called(cx, function, given[: len(arg_types)], by_name, source.node)
        together = isinstance(term, Tup)
        results = _results(cx, term, source, function.name)
    except Cascade:
        pass
    except KernelError as error:
        cx.errors.append(error)
    # Without positions, which would be in the library's source.
    raise_all([type(error)(error.message, remedy=error.remedy) for error in cx.errors])
    updates, results = _settled(cx, results)
    fn = _function(cx, function.name, params, source, updates)
    fn.body.yields = results
    return fn, together


def _named_types(
    function: Composed, arg_types: Sequence[T.Type | DType | type], keywords: Mapping[str, T.Type | DType | type]
) -> dict[str, T.Type | DType | type]:
    """Return the types of the arguments of a library function by the names of its parameters."""
    longest = max((list(o.signature.parameters) for o in function.overloads), key=len)
    names = [*longest[: len(arg_types)], *(f"p{k}" for k in range(len(longest), len(arg_types))), *keywords]
    return dict(zip(names, (*arg_types, *keywords.values()), strict=True))


def _passed(t: T.Type) -> T.Type:
    """The type that an argument of a library function is passed as: float32 for float16 and bfloat16."""
    return T.FLOAT32 if t in T.STORAGE_ONLY else t


def _given(cx: Context, value: Value | Static, t: T.Type | DType | type) -> Term:
    """An argument of a library function as a kernel has it."""
    if isinstance(value, Static):
        return value
    if isinstance(value.type, T.Array):
        return views.full_view(cx, value)
    assert isinstance(t, (T.Scalar, T.Vec, T.Mat))
    return Val(cx.b.cast(value, narrow.held(t)))


def _begin(cx: Context, pyfunc: Callable[..., Any], source: Source, arg_types: Sequence[Argument]) -> tuple[Value, ...]:
    """Begin the activation of the whole function; return its parameters in the IR."""
    frame = make_frame(cx, pyfunc, source)
    parameters = list(inspect.signature(pyfunc).parameters)[: len(arg_types)]
    params = tuple(Value(leaf.type, leaf.name) for leaf in flatten(parameters, arg_types))
    rest = iter(params)
    for parameter, t in zip(parameters, arg_types, strict=True):
        frame.env[parameter] = Binding(records.parameter(cx, t, rest), source.loc(source.node))
    cx.stack.append(frame)
    for declared in signature(pyfunc).params[: len(parameters)]:
        _narrow(cx, declared)
    return params


def _narrow(cx: Context, parameter: SignatureParameter) -> None:
    """Cast a parameter by value of float16 or bfloat16, which is passed as float32, to its narrow type."""
    binding, stated = cx.env[parameter.name], parameter.annotation
    if isinstance(stated, (T.Scalar, T.Vec, T.Mat)) and isinstance(binding.term, Val):
        given = binding.term.value
        cx.env[parameter.name] = Binding(Val(cx.b.cast(given, narrow.held(stated))), binding.loc)


def _results(cx: Context, term: Term, source: Source, name: str) -> tuple[Value, ...]:
    """Return the values that a func returns."""
    if isinstance(term, Static) and term.obj is None:
        return ()
    values = []
    for part in term.items if isinstance(term, Tup) else (term,):
        if isinstance(part, Poison):
            raise Cascade
        if not isinstance(part, (Const, Val)):
            cx.type_error(
                source.node,
                f"{name} returns {describe(part)} to a program that is no kernel",
                "return numbers, vectors and matrices, or a tuple of them",
            )
        values.append(coerce.own_value(cx, part, source.node))
    return tuple(values)


def _function(
    cx: Context, name: str, params: tuple[Value, ...], source: Source, updates: tuple[Update, ...]
) -> Function:
    return Function(
        name,
        params,
        cx.b.region,
        loc=source.loc(source.node),
        tid_arity=0 if cx.tid is None else cx.tid[0],
        source_lines=source.numbered_lines(),
        updates=updates,
    )


def _settled(cx: Context, results: tuple[Value, ...]) -> tuple[tuple[Update, ...], tuple[Value, ...]]:
    """Give the lowered ops their types; return the augmented assignments that are in them, and the final results."""
    # First, as it makes stores whose updates have to be found.
    array_choices.expand(cx)
    # Bodies that were lowered again have left updates whose stores are in no region.
    kept = set(walk(cx.b.region)) if cx.updates else set()
    updates = tuple(u for u in cx.updates if u.store in kept)
    # The preludes are put into the region for a moment, so that their values get their types like all others.
    beside = Op("updates", (), (), {}, tuple(u.prelude for u in updates), None)  # what an atomic update would need
    cx.b.region.ops.append(beside)
    cx.b.region.yields = results
    narrow.widen(cx.b.region)
    resolve_weak(cx.b.region, wide=cx.layout is not None)
    results, cx.b.region.yields = cx.b.region.yields, ()
    cx.b.region.ops.remove(beside)
    return updates, results
