"""Two-way choices: the ``if`` op for conditional expressions, for short circuits and for statements.

A condition and the lowering of each side give one ``if`` op with the values that differ and are read later, or no op if
a side computes nothing.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NoReturn

from diffkern.errors import KernelTypeError
from diffkern.frontend.builtins import local
from diffkern.frontend.terms import coerce, merge
from diffkern.frontend.terms.context import RETURN, RETURNED, Context
from diffkern.frontend.terms.terms import Binding, Const, Poison, Rec, RecView, Term, Val, View, describe, marked
from diffkern.frontend.tiles.tile_terms import joined_views
from diffkern.ir import types as T
from diffkern.ir.nodes import Op, Region, Value
from diffkern.ir.ops.row import Effect
from diffkern.ir.ops.table import lookup
from diffkern.process.dataclass import dataclass

__all__ = ["BranchSide", "choose", "conflict", "has_left", "logical", "merge_branches"]

_EAGER_OPS: Final = 8


def choose(
    cx: Context, cond: Term, then: Callable[[], Term], orelse: Callable[[], Term], node: ast.AST, what: str
) -> Term:
    """Return ``a if cond else b``: only the chosen side is evaluated; sides that compute nothing make a ``select``."""
    test = coerce.as_bool(cx, cond, node)
    if isinstance(test, Const):
        return then() if test.value else orelse()
    regions, ends = (Region(), Region()), (dict(cx.env), dict(cx.env))
    with cx.b.into(regions[0]), cx.branch(ends[0]):
        a = then()
    with cx.b.into(regions[1]), cx.branch(ends[1]):
        b = orelse()
    if changed := _changed(cx, *ends):
        sides = (BranchSide(regions[0], ends[0], left=False), BranchSide(regions[1], ends[1], left=False))
        return _with_changes(cx, test.value, sides, (a, b), changed, node, what)
    # Both sides are the same term, which is then known whatever the condition is; its ops run on either path.
    if merge.same_term(a, b):
        cx.b.region.ops.extend(regions[0].ops)
        return a
    shape = merge.common(a, b, merge.Joins.of(cx, regions))
    if shape is None:
        _refuse_mixed(cx, a, b, node, what)
    trivial = not regions[0].ops and not regions[1].ops
    for region, term in zip(regions, (a, b), strict=True):
        with cx.b.into(cx.b.region if trivial else region):
            region.yields = tuple(merge.emit(cx, term, shape, node, what))
    # Values are selected by one instruction; a tile or an array is memory, which only a branch can choose.
    if trivial and not any(isinstance(v.type, (T.Array, T.Tile)) for v in regions[0].yields):
        results = [cx.b.select(test.value, x, y) for x, y in zip(regions[0].yields, regions[1].yields, strict=True)]
    else:
        results = list(cx.b.if_(test.value, *regions))
    if cx.is_nonneg(a) and cx.is_nonneg(b):
        cx.nonneg.update(results)
    return merge.build(shape, iter(results))


def _refuse_mixed(cx: Context, a: Term, b: Term, node: ast.AST, what: str) -> NoReturn:
    """Raise the error of two sides of a choice that have no common type."""
    if isinstance(a, Rec) and isinstance(b, Rec) and a.struct == b.struct:
        cx.type_error(node, f"{what} has a struct with different arrays on its sides", "choose single elements instead")
    remedy = "convert one of them, as in float(i)"
    if any(isinstance(x, Val) and isinstance(x.value.type, T.Tile) for x in (a, b)):
        remedy = "give tiles of one shape and dtype on both sides, as from dk.tile_full or dk.tile_astype"
    cx.type_error(node, f"{what} is {describe(a)} on one side and {describe(b)} on the other", remedy)


def _changed(cx: Context, *ends: Mapping[str, Binding]) -> list[str]:
    """Return variables set by the sides of a choice within an expression: by ``:=``, by a draw, in an own array."""
    names = dict.fromkeys(name for end in ends for name in end if end[name] is not cx.env.get(name))
    return [name for name in names if name in cx.env or name not in local.names(names)]


def _with_changes(
    cx: Context,
    cond: Value,
    sides: tuple[BranchSide, BranchSide],
    results: tuple[Term, Term],
    changed: Sequence[str],
    node: ast.AST,
    what: str,
) -> Term:
    """Lower a choice whose sides set variables: an ``if`` statement, whose result is one more variable."""
    if merge.common(*results, merge.Joins.of(cx, ())) is None:
        _refuse_mixed(cx, *results, node, what)
    # A name that no user can write.
    chosen = f"$chosen{cx.new_uid()}"
    for side, result in zip(sides, results, strict=True):
        side.env[chosen] = Binding(result, None)
    merge_branches(cx, cond, *sides, [*changed, chosen], node, what)
    term = cx.env.pop(chosen).term
    assert term is not None
    return term


def logical(cx: Context, op: str, a: Const | Val, right: Callable[[], Const | Val], node: ast.AST) -> Const | Val:
    """Lower ``a and b`` or ``a or b`` (op ``and``, ``or``): b is evaluated only where it decides."""
    decided = op == "or"
    if isinstance(a, Const):
        return a if bool(a.value) is decided else right()
    region, end = Region(), dict(cx.env)
    with cx.b.into(region), cx.branch(end):
        b = right()
    if changed := _changed(cx, end):
        evaluated, skipped = BranchSide(region, end, left=False), BranchSide(Region(), dict(cx.env), left=False)
        sides = (skipped, evaluated) if decided else (evaluated, skipped)
        results: tuple[Term, Term] = (Const(True), b) if decided else (b, Const(False))
        term = _with_changes(cx, a.value, sides, results, changed, node, "the condition")
        assert isinstance(term, (Const, Val))
        return term
    if isinstance(b, Const) and not region.ops:
        return Const(decided) if bool(b.value) is decided else a
    # A few pure operations on both paths are cheaper than a branch, and let loops be vectorized.
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
    """Return whether ops may run although Python would skip them: no memory, no integer division, and few."""
    return len(ops) <= _EAGER_OPS and all(
        not op.regions and row.effect is Effect.PURE and not row.divides and op.name != "extract_dyn"
        for op in ops
        for row in (lookup(op.name),)
    )


@dataclass(frozen=True, slots=True)
class BranchSide:
    """One lowered side of a branch.

    Attributes
    ----------
    region
        Its ops; yields are added when the sides are merged.
    env
        The variables at its end.
    left
        Whether control never reaches that end (it has left by ``return``, ``break`` or ``continue``), so that the
        variables that are set there don't matter.
    """

    region: Region
    env: dict[str, Binding]
    left: bool


def has_left(cx: Context, env: dict[str, Binding]) -> bool:
    """Return whether one of the flags of the frame is known to be set."""
    names = [RETURNED]
    if cx.frame.loops:
        names += [cx.frame.loops[-1].broken, cx.frame.loops[-1].continued]
    names += cx.frame.going_on[-1:]
    return any(name in env and _is_const(env[name].term, True) for name in names)


def merge_branches(
    cx: Context,
    cond: Value,
    then: BranchSide,
    orelse: BranchSide,
    wanted: Iterable[str],
    node: ast.AST,
    describe_condition: str,
) -> None:
    """Append the ``if`` op of two lowered sides and bind the wanted variables to their values after it.

    Parameters
    ----------
    cond
        The condition's value.
    then, orelse
        The side where it holds, and the other.
    wanted
        Names that may be read later.
    node
        The statement, for positions.
    describe_condition
        The name of the condition in messages, as in ``the condition in line 7``.
    """
    sides = (then, orelse)
    keep = set(wanted)
    plans: list[tuple[str, merge.Shape, str | None]] = []
    negations: list[str] = []
    yields: tuple[list[Value], list[Value]] = ([], [])
    names: list[str] = []
    changed = [n for n in {**then.env, **orelse.env} if then.env.get(n) is not orelse.env.get(n)]
    for name in changed:
        pair = _relevant(name, then, orelse)
        # Not read later: dropped here, so that neither branch yields it.
        if marked(name) not in keep:
            cx.env.pop(name, None)
            continue
        terms = tuple(None if b is None else b.term for b in pair)
        unset = None if cx.frame.is_sure(name) else _unset(name, sides, describe_condition)
        if terms[0] is None and terms[1] is None:
            cx.env[name] = Binding(None, None, unset)
            continue
        # A flag that is set exactly where the condition holds is the condition, which no branch needs to yield.
        if _is_flag_of(cond, terms):
            cx.env[name] = Binding(Val(cond), None)
            continue
        # The negated condition; emitted once, after the branch, for all such flags.
        if _is_const(terms[0], False) and _is_const(terms[1], True):
            negations.append(name)
            continue
        shape = _joined_shape(cx, name, pair, unset is not None, node, (then.region, orelse.region))
        if shape is None:
            cx.env[name] = Binding(None, None, unset)
            continue
        # Each side's value is converted in its own region, where it is visible.
        for side, term, out in zip(sides, terms, yields, strict=True):
            with cx.b.into(side.region):
                what = f"the variable {name}"
                out += merge.zeros(cx, shape) if term is None else merge.emit(cx, term, shape, node, what)
        names += merge.hints(name, shape)
        plans.append((name, shape, unset))
    then.region.yields, orelse.region.yields = tuple(yields[0]), tuple(yields[1])
    results: tuple[Value, ...] = ()
    if then.region.ops or orelse.region.ops or then.region.yields:
        results = cx.b.if_(cond, then.region, orelse.region, names=names)
    rest = iter(results)
    for name, shape, unset in plans:
        term = merge.build(shape, rest)
        known = [b.term for b in _relevant(name, then, orelse) if b is not None and b.term is not None]
        joined_views(cx, term, known)
        # Facts about a value that hold on both sides hold after the branch.
        if isinstance(term, Val) and all(cx.is_nonneg(t) for t in known):
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


def _relevant(name: str, then: BranchSide, orelse: BranchSide) -> tuple[Binding | None, Binding | None]:
    """Return a variable's bindings on both sides; a side that has returned counts only for the result and the flags."""
    pair = (then.env.get(name), orelse.env.get(name))
    # The result and the flags are set exactly by returning.
    if name.startswith("$"):
        return pair
    returned = [_is_const(side.env[RETURNED].term, True) if RETURNED in side.env else False for side in (then, orelse)]
    if returned[0] and pair[1] is not None:
        return None, pair[1]
    if returned[1] and pair[0] is not None:
        return pair[0], None
    return pair


def _unset(name: str, sides: tuple[BranchSide, BranchSide], condition: str) -> str | None:
    """Return why a variable may not be set after a branch."""
    reasons = [_unset_in(side.env.get(name)) for side in sides if not side.left]
    for side, word in zip(sides, ("holds", "does not hold"), strict=True):
        binding = side.env.get(name)
        if not side.left and (binding is None or binding.term is None) and any(reason is None for reason in reasons):
            return f"it is not set where {condition} {word}"
    return next((reason for reason in reasons if reason is not None), None)


def _unset_in(binding: Binding | None) -> str | None:
    if binding is None:
        return "no path sets it"
    return binding.unset or (None if binding.term is not None else "no path sets it")


def _joined_shape(
    cx: Context,
    name: str,
    pair: tuple[Binding | None, Binding | None],
    is_zero: bool,
    node: ast.AST,
    regions: tuple[Region, Region],
) -> merge.Shape | None:
    """Return the shape of a variable after a branch; None if it is set on one side, to a part of an array found there.

    On paths that do not set it, it is zero or null (``is_zero``), or it is not read.
    """
    set_here = [b for b in pair if b is not None and b.term is not None]
    first = set_here[0]
    assert first.term is not None
    if len(set_here) == 1:
        shape = merge.shape_of(first.term)
        how = merge.Joins.of(cx, regions)
        if not (is_zero and cx.dialect.unset_is_zero):
            return merge.of_one_path(shape, *regions, how=how)
        return merge.with_null(shape, *regions, how=how)
    second = set_here[1]
    assert second.term is not None
    joined = merge.common(first.term, second.term, merge.Joins.of(cx, regions))
    if joined is None or not merge.stands_outside(joined, *regions):
        error = conflict(cx, name, first, second, node)
        # Recorded, not raised: the variable is poisoned, so that later uses give no further errors while others are
        # found.
        cx.errors.append(error)
        return merge.Same(Poison())
    return joined


def conflict(cx: Context, name: str, first: Binding, second: Binding, node: ast.AST) -> KernelTypeError:
    """Return the error for a variable that has two types that do not merge; it names both places."""
    if first.loc is not None and second.loc is not None and first.loc.line > second.loc.line:
        first, second = second, first  # the message stands at the later place and names the earlier one
    assert first.term is not None
    assert second.term is not None
    loc = second.loc or cx.loc(node)
    arrays = (View, RecView)
    if isinstance(first.term, arrays) and isinstance(second.term, arrays):
        if cx.dialect.arrays_are_chosen and (why := _why_not_chosen(cx, name, first, second)) is not None:
            return KernelTypeError(why[0], loc=loc, remedy=why[1])
        return KernelTypeError(
            f"the variable {name} stands for different arrays on different paths",
            loc=loc,
            remedy="choose the element instead, as in where(c, a[i], b[i]), or use two names",
        )
    if isinstance(first.term, Rec) and isinstance(second.term, Rec) and first.term.struct == second.term.struct:
        return KernelTypeError(
            f"the struct {name} holds different arrays on different paths",
            loc=loc,
            remedy="choose the elements instead, as in where(c, s.a[i], t.a[i])",
        )
    where = f" in line {first.loc.line}" if first.loc is not None else " before"
    label = "the result" if name == RETURN else f"the variable {name}"
    return KernelTypeError(
        f"{label} is {describe(second.term)} here and {describe(first.term)}{where}; one variable has one type",
        loc=loc,
        remedy="use two names, or convert one side, as in float(i)",
    )


def _why_not_chosen(cx: Context, name: str, first: Binding, second: Binding) -> tuple[str, str] | None:
    """Return why a variable cannot stand for one array or the other, and what to do; None for arrays in elements."""
    assert first.term is not None
    assert second.term is not None
    one, other = describe(first.term), describe(second.term)
    where = f"in line {first.loc.line}" if first.loc is not None else "before"
    if one != other:
        what = f"the variable {name} is {other} here and {one} {where}"
        rule = "a variable that stands for several arrays has one type of elements and one number of axes"
        return f"{what}: {rule}", "use two names, or pass arrays of one type"
    views = (term.first if isinstance(term, RecView) else term for term in (first.term, second.term))
    are_local = {local.is_local(view) for view in views if isinstance(view, View)}
    if len(are_local) == 2:
        what = f"the variable {name} stands for an array of the thread on one path and for another array on the other"
        return what, "copy the elements to an array of the thread before"
    if True in are_local:
        what = f"the variable {name} stands for an array of the thread, or a part of one, that one path alone makes"
        return what, "make it before the branch or loop, with as many axes as the other one"
    return None
