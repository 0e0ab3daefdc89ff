"""Two-way choices: the ``if`` op for conditional expressions, for short circuits and for statements.

In: a condition and what happens on each side. Out: one ``if`` op with the values that differ and are read later, or no
op where a side computes nothing.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from diffkern.errors import KernelTypeError
from diffkern.frontend import coerce, merge
from diffkern.frontend.context import RETURN, Context
from diffkern.frontend.terms import Binding, Const, Poison, Term, Val, View, describe
from diffkern.ir import types as T
from diffkern.ir.nodes import Op, Region, Value
from diffkern.ops import Effect, lookup

__all__ = ["choose", "logical", "merge_branches"]

_EAGER_OPS: Final = 8


def choose(
    cx: Context, cond: Term, then: Callable[[], Term], orelse: Callable[[], Term], node: ast.AST, what: str
) -> Term:
    """``a if cond else b``: only the chosen side is evaluated; sides that compute nothing make a ``select``."""
    test = coerce.as_bool(cx, cond, node)
    if isinstance(test, Const):
        return then() if test.value else orelse()
    regions = (Region(), Region())
    with cx.b.into(regions[0]):
        a = then()
    with cx.b.into(regions[1]):
        b = orelse()
    if merge.same_term(a, b):
        cx.b.region.ops.extend(regions[0].ops)
        return a
    shape = merge.join(merge.shape_of(a), merge.shape_of(b))
    if shape is None:
        cx.type_error(
            node,
            f"{what} is {describe(a)} on one side and {describe(b)} on the other",
            "convert one of them, as in float(i)",
        )
    trivial = not regions[0].ops and not regions[1].ops
    for region, term in zip(regions, (a, b), strict=True):
        with cx.b.into(cx.b.region if trivial else region):
            region.yields = tuple(merge.emit(cx, term, shape, node, what))
    if trivial:
        results = [cx.b.select(test.value, x, y) for x, y in zip(regions[0].yields, regions[1].yields, strict=True)]
    else:
        results = list(cx.b.if_(test.value, *regions))
    if cx.is_nonneg(a) and cx.is_nonneg(b):
        cx.nonneg.update(results)
    return merge.build(shape, iter(results))


def logical(cx: Context, op: str, a: Const | Val, right: Callable[[], Const | Val]) -> Const | Val:
    """``a and b`` or ``a or b`` (op ``and``, ``or``): b is evaluated only where it decides."""
    decided = op == "or"
    if isinstance(a, Const):
        return a if bool(a.value) is decided else right()
    region = Region()
    with cx.b.into(region):
        b = right()
    if isinstance(b, Const) and not region.ops:
        return Const(decided) if bool(b.value) is decided else a
    if _is_cheap(region.ops):
        cx.b.region.ops.extend(region.ops)
        if isinstance(b, Const):
            return Const(decided) if bool(b.value) is decided else a
        return Val(cx.b.one(op, a.value, b.value))
    other = Region()
    with cx.b.into(region):
        region.yields = (b.value if isinstance(b, Val) else cx.b.const(b.value, T.BOOL),)
    with cx.b.into(other):
        other.yields = (cx.b.const(decided, T.BOOL),)
    then, orelse = (other, region) if decided else (region, other)
    (out,) = cx.b.if_(a.value, then, orelse)
    return Val(out)


def _is_cheap(ops: Sequence[Op]) -> bool:
    """Whether ops may run although Python would skip them: no memory, no integer division, and few."""
    return len(ops) <= _EAGER_OPS and all(
        not op.regions and lookup(op.name).effect is Effect.PURE and op.name not in ("floordiv", "mod", "extract_dyn")
        for op in ops
    )


def merge_branches(
    cx: Context,
    cond: Value,
    sides: tuple[Region, Region],
    envs: tuple[dict[str, Binding], dict[str, Binding]],
    wanted: Iterable[str],
    node: ast.AST,
    describe_condition: str,
) -> None:
    """Append the ``if`` op of two lowered sides and bind the wanted variables to what they are after it.

    Parameters
    ----------
    cond
        The condition's value.
    sides, envs
        Region and variables of the side where it holds, and of the other.
    wanted
        Names that may be read later.
    node
        The statement, for positions.
    describe_condition
        How the condition is called in a message, as in ``the condition in line 7``.
    """
    keep = set(wanted)
    plans: list[tuple[str, merge.Shape, str | None]] = []
    negations: list[str] = []
    yields: tuple[list[Value], list[Value]] = ([], [])
    names: list[str] = []
    changed = [n for n in {**envs[0], **envs[1]} if envs[0].get(n) is not envs[1].get(n)]
    for name in changed:
        pair = (envs[0].get(name), envs[1].get(name))
        if name not in keep:
            cx.env.pop(name, None)
            continue
        terms = tuple(None if b is None else b.term for b in pair)
        unset = _unset(name, pair, describe_condition)
        if terms[0] is None and terms[1] is None:
            cx.env[name] = Binding(None, None, unset)
            continue
        if _is_flag_of(cond, terms):
            cx.env[name] = Binding(Val(cond), None)
            continue
        if _is_const(terms[0], False) and _is_const(terms[1], True):
            negations.append(name)
            continue
        shape = _joined_shape(cx, name, pair, node)
        for region, term, out in zip(sides, terms, yields, strict=True):
            with cx.b.into(region):
                what = f"the variable {name}"
                out += merge.zeros(cx, shape) if term is None else merge.emit(cx, term, shape, node, what)
        names += ["" if name.startswith("$") else name] * len(merge.leaves(shape))
        plans.append((name, shape, unset))
    sides[0].yields, sides[1].yields = tuple(yields[0]), tuple(yields[1])
    results: tuple[Value, ...] = ()
    if sides[0].ops or sides[1].ops or sides[0].yields:
        results = cx.b.if_(cond, *sides, names=names)
    rest = iter(results)
    for name, shape, unset in plans:
        term = merge.build(shape, rest)
        terms_known = [b.term for b in (envs[0].get(name), envs[1].get(name)) if b is not None and b.term is not None]
        if isinstance(term, Val) and all(cx.is_nonneg(t) for t in terms_known):
            cx.nonneg.add(term.value)
        cx.env[name] = Binding(term, cx.loc(node), unset)
    if negations:
        inverse = cx.b.one("not", cond)
        for name in negations:
            cx.env[name] = Binding(Val(inverse), None)


def _is_flag_of(cond: Value, terms: tuple[Term | None, ...]) -> bool:
    then, orelse = terms
    itself = Val(cond)
    return (_is_const(then, True) or then == itself) and (_is_const(orelse, False) or orelse == itself)


def _is_const(term: Term | None, value: bool) -> bool:
    return isinstance(term, Const) and term.value is value


def _unset(name: str, pair: tuple[Binding | None, Binding | None], condition: str) -> str | None:
    """Why a variable may not be set after a branch. A func's result is known to be set where it is read."""
    if name == RETURN:
        return None
    then, orelse = pair
    if then is None or then.term is None:
        return f"it is not set where {condition} holds" if orelse is not None and orelse.unset is None else _first(pair)
    if orelse is None or orelse.term is None:
        return f"it is not set where {condition} does not hold" if then.unset is None else then.unset
    return then.unset or orelse.unset


def _first(pair: tuple[Binding | None, Binding | None]) -> str:
    return next((b.unset for b in pair if b is not None and b.unset is not None), "no path sets it")


def _joined_shape(cx: Context, name: str, pair: tuple[Binding | None, Binding | None], node: ast.AST) -> merge.Shape:
    set_here = [b for b in pair if b is not None and b.term is not None]
    first = set_here[0]
    assert first.term is not None
    if len(set_here) == 1:
        return merge.shape_of(first.term)
    second = set_here[1]
    assert second.term is not None
    if merge.same_term(first.term, second.term):
        return merge.Same(first.term)
    shape = merge.join(merge.shape_of(first.term), merge.shape_of(second.term))
    if shape is None:
        error = conflict(cx, name, first, second, node)
        cx.errors.append(error)
        return merge.Same(Poison())
    return shape


def conflict(cx: Context, name: str, first: Binding, second: Binding, node: ast.AST) -> KernelTypeError:
    """The error for a variable that has two types that do not merge; it names both places."""
    assert first.term is not None
    assert second.term is not None
    loc = second.loc or cx.loc(node)
    if isinstance(first.term, View) and isinstance(second.term, View):
        return KernelTypeError(
            f"the variable {name} stands for different arrays on different paths",
            loc=loc,
            remedy="choose the element instead, as in where(c, a[i], b[i]), or use two names",
        )
    where = f" in line {first.loc.line}" if first.loc is not None else " before"
    label = "the result" if name == RETURN else f"the variable {name}"
    return KernelTypeError(
        f"{label} is {describe(second.term)} here and {describe(first.term)}{where}; one variable has one type",
        loc=loc,
        remedy="use two names, or convert one side, as in float(i)",
    )
