"""Loops at run time: ``for`` over a sequence and ``while``, with what they carry from one trip to the next.

A loop statement becomes one ``for`` or ``while`` op, or the trips of a loop that is unrolled one after the other
(:mod:`unrolled`). A ``for`` that may be left early (``break``, ``return``) becomes a ``while`` with a counter and
flags. The types of the carried variables are found by lowering the body with a guess and again if the body turned out
to need another type; that happens where a literal is combined with a number (``s = 0.0``).
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Final

from diffkern.errors import KernelTypeError
from diffkern.frontend.builtins import local
from diffkern.frontend.statements import branch, iterables, leaving, queries, ranges, unrolled
from diffkern.frontend.statements.unrolled import TakeItem
from diffkern.frontend.syntax.flow import assigned, changed_through_views, contains, is_endless, leaves
from diffkern.frontend.terms import coerce, merge
from diffkern.frontend.terms.context import RETURN, RETURNED, Context, LoopState
from diffkern.frontend.terms.terms import WEAK_INT, Binding, Const, Poison, Rec, Term, Val, mark
from diffkern.frontend.tiles import carried_views
from diffkern.frontend.tiles.tile_terms import holds_tiles, joined_views, shows_more
from diffkern.ir import types as T
from diffkern.ir.nodes import Region, Value
from diffkern.lang.queries import STEPPED
from diffkern.process.dataclass import dataclass

__all__ = ["lower_loop"]

_MAX_GUESSES: Final = 64
"""More than a body needs: in each one, a variable that stands for several arrays has at least one more of them."""


@dataclass(eq=False)
class _Plan:
    """The carried variables of a loop: shapes of variables by name, and flags."""

    stmt: ast.For | ast.While
    state: LoopState
    names: list[str]
    flags: list[str]
    entry: dict[str, Binding | None]
    shapes: dict[str, merge.Shape] = field(default_factory=dict)
    ends: dict[str, Term] = field(default_factory=dict)  # tiles at the end of a lowering before this one
    conflicts: list[KernelTypeError] = field(default_factory=list)
    placeholders: bool = False  # whether a variable may be set after the loop though it was not set before
    trips_surely: bool = False  # whether there is a trip in any case
    seen: dict[str, Term] = field(default_factory=dict)  # variables that the text before the loop sets
    beside: list[str] = field(default_factory=list)  # carried as tiles that share elements with one that is changed
    views: dict[str, str] = field(default_factory=dict)  # views that remain those of a carried tile, with that one


@dataclass(eq=False)
class _LoweredBody:
    """A lowered body: its region without yields, its parameters, and the variables at its end."""

    region: Region
    env: dict[str, Binding]


def lower_loop(cx: Context, stmt: ast.For | ast.While) -> None:
    """Lower a loop and its ``else``."""
    if isinstance(stmt, ast.While):
        _while(cx, _plan(cx, stmt), stmt)
        return
    if isinstance(stmt, queries.Stretch):
        _counted(cx, stmt, stmt.trips())
        return
    is_simple = isinstance(stmt.target, ast.Name) and ranges.is_range(cx, stmt.iter)
    if is_simple and not unrolled.is_wanted(cx, stmt):
        assert isinstance(stmt.iter, ast.Call)
        _counted(cx, stmt, ranges.trips_of(cx, stmt.iter))
    elif isinstance(stmt.target, ast.Name) and (trips := iterables.reversed_range(cx, stmt.iter)) is not None:
        _counted(cx, stmt, trips)
    else:
        items = iterables.items_or_query(cx, stmt.iter)
        if isinstance(items, Rec) and items.struct.name in STEPPED:
            loop = queries.loop_through(cx, stmt, items)
            _while(cx, _plan(cx, loop), loop)
        elif isinstance(items, Rec):
            _counted(cx, *queries.loop_over(cx, stmt, items))
        elif isinstance(items.count, int) and (items.unrolled or unrolled.is_wanted(cx, stmt)):
            unrolled.unroll(cx, stmt, items)
        else:
            _over_items(cx, stmt, items)


def _counted(cx: Context, stmt: ast.For, trips: ranges.Trips) -> None:
    plan = _plan(cx, stmt)
    plan.trips_surely = trips.known is not None and bool(range(*trips.known))
    plan.placeholders = plan.placeholders or plan.trips_surely
    (_counted_while if plan.flags else _for)(cx, plan, stmt, trips)


def _over_items(cx: Context, stmt: ast.For, items: iterables.Items) -> None:
    """Lower a loop at run time over a sequence: one over ``range`` that takes an item at the beginning of each trip."""
    count = items.count if isinstance(items.count, Value) else iterables.number(cx, items.count)
    t = count.type
    assert isinstance(t, T.Scalar)
    # The statement that was made for this loop before: what is recorded of a loop is found by its node.
    loop = cx.loops_made.get((*cx.call_path, stmt))
    if loop is None:
        loop = cx.loops_made[(*cx.call_path, stmt)] = _with_counter(cx, stmt)
    assert isinstance(loop, ast.For)
    cx.frame.liveness.stands_for(loop, stmt)
    take, counter = loop.body[0], _target_name(loop)
    assert isinstance(take, TakeItem)

    def item() -> Term:
        index = cx.env[counter].term
        assert isinstance(index, Val)
        return items.item(index)

    take.item = item
    known = (0, items.count, 1) if isinstance(items.count, int) else None
    _counted(cx, loop, ranges.Trips(cx.b.const(0, t), count, 1, t, nonneg=True, known=known))


def _with_counter(cx: Context, stmt: ast.For) -> ast.For:
    """Return the loop with a counter of its own as its variable, and a place where the item of the trip is taken."""
    take = ast.copy_location(TakeItem(stmt.target), stmt.target)
    counter = ast.copy_location(ast.Name(f"$at{cx.new_uid()}", ast.Store()), stmt.target)
    return ast.copy_location(ast.For(counter, stmt.iter, [take, *stmt.body], stmt.orelse), stmt)


def _plan(cx: Context, stmt: ast.For | ast.While) -> _Plan:
    uid = cx.new_uid()
    state = LoopState(stmt, f"$broken{uid}", f"$continued{uid}")
    # Only what is read in a later trip or behind the loop is carried.
    live = cx.frame.liveness.head(stmt) | cx.frame.liveness.after(stmt)
    has_break, returns = contains(stmt.body, (ast.Break,)), contains(stmt.body, (ast.Return,))
    names = [n for n in assigned([*_targets(stmt), *stmt.body], cx.changing) if n in live]
    # A tile that is changed through a view of it is assigned, although its name is not.
    views = (n for n in changed_through_views(stmt.body, cx.builtin) if n in live and n not in names)
    names += [n for n in views if n in cx.env and holds_tiles(cx.env[n].term)]
    beside = carried_views.sharing(cx, names, live)
    names += beside
    # Every array of the thread is carried at first; those that a body leaves alone are taken out afterwards.
    names += [n for n in local.names(cx.env) if ((*cx.call_path, stmt), n) not in cx.untouched]
    flags = [state.broken] if has_break else []
    if returns:
        flags.append(RETURNED)
        if cx.frame.returns_value:
            names.append(RETURN)
    plan = _Plan(stmt, state, [*names], flags, {n: cx.env.get(n) for n in names}, beside=beside)
    plan.names += [mark(name) for name in names if mark(name) in cx.env]
    plan.entry.update({name: cx.env[name] for name in plan.names[len(names) :]})
    # Where the loop may be left before it is exhausted, or never is, a variable may be set behind it that was not
    # before.
    plan.placeholders = has_break or is_endless(stmt) or cx.dialect.unset_is_zero
    plan.seen = dict(cx.frame.seen)
    for name, binding in plan.entry.items():
        if binding is not None and binding.term is not None:
            plan.shapes[name] = merge.shape_of(binding.term)
    if isinstance(stmt, ast.For) and _target_name(stmt) in names and _target_name(stmt) not in plan.shapes:
        plan.shapes[_target_name(stmt)] = merge.MergedValue(WEAK_INT)
    # Start with the shapes of the last lowering of this loop, so that an outer loop's fixpoint does not start over.
    for name in names:
        known = cx.shapes.get(((*cx.call_path, stmt), name))
        if known is not None:
            joined = merge.join(plan.shapes[name], known, merge.Joins.of(cx, ())) if name in plan.shapes else known
            plan.shapes[name] = joined if joined is not None else known
    # Where a trip may end early, a tile and its view may come from different places.
    if not contains(stmt.body, (ast.Break, ast.Continue, ast.Return)):
        plan.views = carried_views.kept(cx, plan.entry, names)
    return plan


def _targets(stmt: ast.For | ast.While) -> list[ast.expr]:
    return [stmt.target] if isinstance(stmt, ast.For) else []


def _target_name(stmt: ast.For) -> str:
    assert isinstance(stmt.target, ast.Name)
    return stmt.target.id


def _hint(stmt: ast.For) -> str:
    """Return the name of the loop variable in the IR; none for one that the frontend has made."""
    name = _target_name(stmt)
    return "" if name.startswith("$") else name


# -- the body and its fixpoint -----------------------------------------------------------------------------------------


def _parameters(cx: Context, plan: _Plan) -> tuple[dict[str, Term], list[Value]]:
    """Return fresh region parameters for the carried variables, as terms by name and in order."""
    params: list[Value] = []
    terms: dict[str, Term] = {}
    for name in plan.names:
        if name in plan.shapes:
            shape = plan.shapes[name]
            names = merge.hints(name, shape)
            new = [Value(leaf.type, hint) for leaf, hint in zip(merge.leaves(shape), names, strict=True)]
            params += new
            terms[name] = merge.build(shape, iter(new))
    _note_views(cx, plan, terms, plan.ends)
    return terms, params


def _note_views(cx: Context, plan: _Plan, terms: dict[str, Term], ends: Mapping[str, Term | None]) -> None:
    """Note which carried tiles are views, at the start of a trip or behind the loop."""
    carried_views.follow_their_tiles(cx, plan.views, plan.entry, terms)
    for name, term in terms.items():
        if name not in plan.views:
            joined_views(cx, term, [_term_of(plan.entry[name]), ends.get(name)])


def _term_of(binding: Binding | None) -> Term | None:
    return None if binding is None else binding.term


def _bound(cx: Context, plan: _Plan, terms: dict[str, Term]) -> dict[str, Binding]:
    """Return the variables at the start of a trip."""
    env = dict(cx.env)
    for name, term in terms.items():
        entry = plan.entry[name]
        unset = None if cx.frame.is_sure(name) else "no trip before has set it"
        if entry is not None and entry.term is not None:
            unset = entry.unset
        env[name] = Binding(term, entry.loc if entry is not None else None, unset)
    return env


def _body(cx: Context, plan: _Plan, start: Callable[[dict[str, Binding]], Sequence[Value]]) -> _LoweredBody:
    """Lower the body until the types of the carried values are stable; ``start`` adds parameters and binds the loop
    variable.
    """
    for guess in range(_MAX_GUESSES):
        mark, skipped = len(cx.errors), len(cx.skipped)
        terms, params = _parameters(cx, plan)
        env = _bound(cx, plan, terms)
        for flag in [*plan.flags, plan.state.continued]:
            env[flag] = Binding(Const(False), None)
        plan.state.set_at_breaks.clear()
        plan.state.set_at_continues.clear()
        # Each guess starts from the same state: a variable's last value is part of the errors and of unset variables.
        cx.frame.seen = dict(plan.seen)
        region = Region()
        with cx.b.into(region), cx.branch(env):
            first = start(env)
            region.params = (*first, *params)
            cx.frame.loops.append(plan.state)
            try:
                cx.block(plan.stmt.body, True, False)
            finally:
                cx.frame.loops.pop()
        leaving.end_of_trip(plan.state, env, plan.names)
        found = _shapes_after(cx, plan, env, region)
        # Only in the first guess: in later ones the fields of the shape are parameters, whose changes are seen.
        kept = _settled(plan, found, terms, env) if guess == 0 else found
        # An array of the thread that a trip leaves as it is need not be carried, which makes it a constant for the
        # body.
        for name in local.names(terms):
            end = env[name].term
            if end is not None and merge.same_term(terms[name], end):
                cx.untouched.add(((*cx.call_path, plan.stmt), name))
                plan.names.remove(name)
                del kept[name], plan.entry[name]
        for name in _missed(cx, plan, terms, env):
            kept[name] = _entry_shape(plan, name)
        # What is in error was not done: a tile may only seem to be left as it is.
        is_same = len(cx.errors) > mark or _leave_out(plan, terms, env, kept)
        # The shapes with which the body was lowered are the ones that it needs: the fixpoint.
        if kept == plan.shapes and not _become_views(cx, plan, terms, env) and _follow(cx, plan, env) and is_same:
            cx.errors.extend(plan.conflicts)
            return _LoweredBody(region, env)
        plan.shapes = kept
        for name, shape in found.items():
            if shape != merge.Same(Poison()) and merge.is_lasting(shape):
                cx.shapes[((*cx.call_path, plan.stmt), name)] = shape
        # Errors of a discarded guess are found again by the next one, if they are real.
        del cx.errors[mark:], cx.skipped[skipped:]
    raise AssertionError("the types of loop-carried variables do not converge")


def _entry_shape(plan: _Plan, name: str) -> merge.Shape:
    term = _term_of(plan.entry[name])
    assert term is not None
    return merge.shape_of(term)


def _missed(cx: Context, plan: _Plan, terms: Mapping[str, Term], env: dict[str, Binding]) -> list[str]:
    """Carry the arrays of the thread that a trip changes, although a lowering before this one left them as they were:
    it had not found yet that a variable may stand for them. Return their names.
    """
    found = []
    for name in local.names(cx.env):
        before, end = cx.env[name], env[name]
        if name in terms or before.term is None or end.term is None or merge.same_term(before.term, end.term):
            continue
        cx.untouched.discard(((*cx.call_path, plan.stmt), name))
        plan.names.append(name)
        plan.entry[name] = before
        found.append(name)
    return found


def _leave_out(plan: _Plan, terms: dict[str, Term], env: dict[str, Binding], shapes: dict[str, merge.Shape]) -> bool:
    """Carry no tile that shares elements with another one and that a trip leaves as it is; return whether none is."""
    ends = ((n, _term_of(env.get(n))) for n in plan.beside if n in plan.names)
    left = [n for n, end in ends if end is not None and merge.same_term(terms[n], end)]
    for name in left:
        plan.names.remove(name)
        plan.views.pop(name, None)
        del shapes[name], plan.entry[name]
    plan.views = {name: of for name, of in plan.views.items() if of not in left}
    return not left


def _follow(cx: Context, plan: _Plan, env: dict[str, Binding]) -> bool:
    """Return whether views are at the end of a trip what they were at its start; those that are not are so no more."""
    lost = [
        name for name, of in plan.views.items()
        if not carried_views.are_still(cx, name, of, _term_of(plan.entry[name]), env)
    ]  # fmt: skip
    for name in lost:
        del plan.views[name]
    return not lost


def _become_views(cx: Context, plan: _Plan, terms: dict[str, Term], env: dict[str, Binding]) -> bool:
    """Return whether tiles are views at the end of a trip that were not at its start; record which."""
    ends = {name: end for name in terms if (end := _term_of(env.get(name))) is not None}
    new = {name: end for name, end in ends.items() if shows_more(cx, end, terms[name])}
    plan.ends.update(new)
    return bool(new)


def _settled(
    plan: _Plan, found: dict[str, merge.Shape], terms: dict[str, Term], env: dict[str, Binding]
) -> dict[str, merge.Shape]:
    """Return the shapes without the fields of structs that do not change in the loop."""
    kept = dict(found)
    for name, shape in found.items():
        start, end, entry = terms.get(name), env.get(name), plan.entry[name]
        if not isinstance(shape, merge.Fields) or start is None or end is None or entry is None:
            continue
        if end.term is not None and entry.term is not None:
            kept[name] = merge.without_invariants(shape, start, end.term, entry.term)
    return kept


def _shapes_after(cx: Context, plan: _Plan, env: dict[str, Binding], region: Region) -> dict[str, merge.Shape]:
    found = dict(plan.shapes)
    for name in plan.names:
        end = env.get(name)
        if end is None or end.term is None:
            continue
        if name not in found:
            shape = _first_shape(cx, plan, name, end.term, region)
            found.update({} if shape is None else {name: shape})
            continue
        if found[name] == merge.Same(Poison()):
            continue  # its error has been recorded
        # What comes from the start and from the end of a trip must fit one shape, or the variable has two types.
        joined = merge.after_trip(found[name], end.term, merge.Joins.of(cx, (region,)))
        if joined is None or not merge.stands_outside(joined, region):
            entry = plan.entry[name]
            first = entry if entry is not None and entry.term is not None else Binding(merge.sample(found[name]), None)
            plan.conflicts.append(branch.conflict(cx, name, first, end, plan.stmt))
            joined = merge.Same(Poison())
        found[name] = joined
    return found


def _first_shape(cx: Context, plan: _Plan, name: str, end: Term, region: Region) -> merge.Shape | None:
    """Return the shape of a variable that was not set before the loop; None if it isn't carried, or an error has set
    it.
    """
    if (not plan.placeholders and name != RETURN) or isinstance(end, Poison):
        return None
    shape = merge.shape_of(end)
    if cx.frame.is_sure(name) or not cx.dialect.unset_is_zero:
        return shape
    how = merge.Joins.of(cx, (region,))
    return merge.with_null(shape, region, how=how, perhaps=not plan.trips_surely)


def _initial(cx: Context, plan: _Plan, default: Val | None) -> list[Value]:
    """Return the values of the carried variables before the first trip; ``default`` is for an unset loop variable."""
    out: list[Value] = []
    for name in plan.names:
        if name not in plan.shapes:
            continue
        entry, shape = plan.entry[name], plan.shapes[name]
        if entry is not None and entry.term is not None:
            out += merge.emit(cx, entry.term, shape, plan.stmt, f"the variable {name}")
        elif default is not None and isinstance(plan.stmt, ast.For) and name == _target_name(plan.stmt):
            out += merge.emit(cx, default, shape, plan.stmt, f"the variable {name}")
        else:
            out += merge.zeros(cx, shape)
    return out


def _yields(cx: Context, plan: _Plan, body: _LoweredBody) -> list[Value]:
    """Return the values at the end of the body, emitted in its region."""
    out: list[Value] = []
    with cx.b.into(body.region):
        for name in plan.names:
            if name in plan.shapes:
                end = body.env.get(name)
                term = end.term if end is not None else None
                shape = plan.shapes[name]
                what = f"the variable {name}"
                out += merge.zeros(cx, shape) if term is None else merge.emit(cx, term, shape, plan.stmt, what)
    return out


def _flag_yields(cx: Context, plan: _Plan, body: _LoweredBody) -> list[Value]:
    out = []
    with cx.b.into(body.region):
        for flag in plan.flags:
            binding = body.env.get(flag)
            term = binding.term if binding is not None else Const(False)
            out.append(cx.b.const(term.value, T.BOOL) if isinstance(term, Const) else _flag_value(term))
    return out


def _flag_value(term: Term | None) -> Value:
    assert isinstance(term, Val)
    return term.value


def _hints(plan: _Plan) -> list[str]:
    return [hint for name in plan.names if name in plan.shapes for hint in merge.hints(name, plan.shapes[name])]


# -- after the loop ----------------------------------------------------------------------------------------------------


def _finish(cx: Context, plan: _Plan, body: _LoweredBody, flags: Sequence[Value], results: Iterator[Value]) -> None:
    """Bind the carried variables and flags to the op's results, and lower the ``else``."""
    stmt = plan.stmt
    line = stmt.lineno
    terms = {name: merge.build(plan.shapes[name], results) for name in plan.names if name in plan.shapes}
    _note_views(cx, plan, terms, {name: _term_of(body.env.get(name)) for name in terms})
    # The variables behind the loop differ by the way it was left: exhausted, or by a break.
    exhausted, broken = dict(cx.env), dict(cx.env)
    breaks = plan.state.set_at_breaks
    for name in plan.names:
        entry, end = plan.entry[name], body.env.get(name)
        if name not in terms and isinstance(_term_of(end), Poison):
            terms[name] = Poison()
        loc = end.loc if end is not None and end.loc is not None else (entry.loc if entry is not None else None)
        at_end: str | None = f"the loop in line {line} may make no trip that sets it"
        if entry is not None and entry.term is not None:
            at_end = entry.unset
        # There is a first trip in any case, so what every trip sets is set.
        if at_end is not None and plan.trips_surely and end is not None and end.term is not None:
            at_end = end.unset
        if cx.frame.is_sure(name) or (isinstance(stmt, ast.For) and name == _target_name(stmt)):
            at_end = None
        set_at_all = cx.frame.is_sure(name) or all(name in known for known in breaks)
        at_break = None if set_at_all else f"a break of the loop in line {line} comes before it is set"
        exhausted[name] = Binding(terms.get(name), loc, at_end)
        broken[name] = Binding(terms.get(name), loc, at_break)
    # Both ways see the flags' final values.
    for flag, value in zip(plan.flags, flags, strict=True):
        exhausted[flag] = broken[flag] = Binding(Val(value), None)
    # Such a loop ends by a break only.
    if is_endless(stmt):
        cx.env.update(broken)
    elif not breaks:
        # Without a break the `else` is the statements that follow.
        cx.env.update(exhausted)
        cx.block(stmt.orelse, False, False)
    elif not stmt.orelse:
        # Both ways join: unset on either of them is unset.
        for name in plan.names:
            either = exhausted[name].unset or broken[name].unset
            exhausted[name] = Binding(exhausted[name].term, exhausted[name].loc, either)
        cx.env.update(exhausted)
    else:
        _else_after_break(cx, plan, flags[plan.flags.index(plan.state.broken)], exhausted, broken)


def _else_after_break(
    cx: Context, plan: _Plan, flag: Value, exhausted: dict[str, Binding], broken: dict[str, Binding]
) -> None:
    region = Region()
    exhausted[plan.state.broken] = Binding(Const(False), None)
    with cx.b.into(region), cx.branch(exhausted):
        cx.block(plan.stmt.orelse, False, False)
    liveness = cx.frame.liveness
    wanted = set(liveness.after(plan.stmt)) | {RETURN, RETURNED, *local.names(cx.env)}
    for outer in cx.frame.loops[-1:]:
        wanted |= liveness.after(outer.node) | liveness.head(outer.node) | {outer.broken, outer.continued}
    by_break = branch.BranchSide(Region(), broken, left=False)
    by_end = branch.BranchSide(region, exhausted, branch.has_left(cx, exhausted) or leaves(plan.stmt.orelse))
    label = f"a break of the loop in line {plan.stmt.lineno}"
    branch.merge_branches(cx, flag, by_break, by_end, wanted, plan.stmt, label)


# -- for --------------------------------------------------------------------------------------------------------------


def _loop_variable(
    cx: Context, plan: _Plan, stmt: ast.For, trips: ranges.Trips, index: Value, env: dict[str, Binding]
) -> None:
    if trips.nonneg:
        cx.nonneg.add(index)
    with cx.branch(env):
        cx.set_variable(_target_name(stmt), Binding(Val(index), cx.loc(stmt.target)))


def _for(cx: Context, plan: _Plan, stmt: ast.For, trips: ranges.Trips) -> None:
    def start(env: dict[str, Binding]) -> Sequence[Value]:
        index = Value(trips.type, _hint(stmt))
        _loop_variable(cx, plan, stmt, trips, index, env)
        return (index,)

    body = _body(cx, plan, start)
    init = _initial(cx, plan, Val(trips.lo))
    step = ranges.step_of(cx, trips)
    body.region.yields = tuple(_yields(cx, plan, body))
    results = cx.b.for_(trips.lo, trips.hi, step, init, body.region, _hints(plan))
    _finish(cx, plan, body, (), iter(results))


def _counted_while(cx: Context, plan: _Plan, stmt: ast.For, trips: ranges.Trips) -> None:
    """Lower a ``for`` that may be left early: a ``while`` that carries the index.

    If one more step may leave the index's type, so that a comparison with the stop would not end the loop, it also
    counts its trips.
    """
    t, name = trips.type, _hint(stmt)
    to = T.UINT64 if t.bits == 64 else T.UINT32
    # In an unsigned type of the same width, which holds every number of trips.
    total = None if ranges.stays_inside(trips) else ranges.count_of(cx, trips, to)

    def counters() -> list[Value]:
        return [Value(t, name), *(Value(to) for _ in range(total is not None))]

    made: list[Value] = []

    def start(env: dict[str, Binding]) -> Sequence[Value]:
        made[:] = counters()
        _loop_variable(cx, plan, stmt, trips, made[0], env)
        return (*made, *(Value(T.BOOL) for _ in plan.flags))

    body = _body(cx, plan, start)
    init = _initial(cx, plan, Val(trips.lo))
    with cx.b.into(body.region):
        steps = [ranges.step_of(cx, trips), *(cx.b.const(1, to) for _ in made[1:])]
        following = [cx.b.add(v, by) for v, by in zip(made, steps, strict=True)]
    flag_yields = _flag_yields(cx, plan, body)
    body.region.yields = (*following, *flag_yields, *_yields(cx, plan, body))

    cond, (index, *counted) = Region(), counters()
    _, params = _parameters(cx, plan)
    flags = [Value(T.BOOL) for _ in plan.flags]
    cond.params = (index, *counted, *flags, *params)
    with cx.b.into(cond):
        # By the count, where the index may wrap around behind the stop.
        if total is not None:
            test = cx.b.one("lt", counted[0], total)
        else:
            test = cx.b.one("gt" if isinstance(trips.step, int) and trips.step < 0 else "lt", index, trips.hi)
        cond.yields = (_unless(cx, flags, test),)
    zero = () if total is None else (cx.b.const(0, to),)
    start_values = [trips.lo, *zero, *(cx.b.const(False, T.BOOL) for _ in plan.flags), *init]
    n = len(made)
    results = cx.b.while_(start_values, cond, body.region, [*([""] * (n + len(flags))), *_hints(plan)])
    _finish(cx, plan, body, results[n : n + len(flags)], iter(results[n + len(flags) :]))


def _unless(cx: Context, flags: Sequence[Value], test: Value) -> Value:
    for flag in flags:
        test = cx.b.one("and", cx.b.one("not", flag), test)
    return test


# -- while -------------------------------------------------------------------------------------------------------------


def _while(cx: Context, plan: _Plan, stmt: ast.While) -> None:
    body = _body(cx, plan, lambda env: [Value(T.BOOL) for _ in plan.flags])
    init = _initial(cx, plan, None)
    flag_yields = _flag_yields(cx, plan, body)
    body.region.yields = (*flag_yields, *_yields(cx, plan, body))

    cond = Region()
    terms, params = _parameters(cx, plan)
    flags = [Value(T.BOOL) for _ in plan.flags]
    cond.params = (*flags, *params)
    seen, cx.frame.seen = cx.frame.seen, plan.seen
    # The condition runs once more than the body, so a change of a variable in it would be lost or doubled.
    with cx.b.into(cond), cx.branch(_bound(cx, plan, terms)), local.unchanged(cx):
        cond.yields = (_test(cx, stmt, flags),)
    cx.frame.seen = seen
    start_values = [*(cx.b.const(False, T.BOOL) for _ in plan.flags), *init]
    results = cx.b.while_(start_values, cond, body.region, [*([""] * len(flags)), *_hints(plan)])
    n = len(flags)
    _finish(cx, plan, body, results[:n], iter(results[n:]))


def _test(cx: Context, stmt: ast.While, flags: Sequence[Value]) -> Value:
    """Return the condition, which is not evaluated once the loop has been left."""

    def test() -> Const | Val:
        return coerce.as_bool(cx, cx.expr(stmt.test), stmt.test)

    if not flags:
        term = test()
    else:
        going = cx.b.one("not", flags[0])
        for flag in flags[1:]:
            going = cx.b.one("and", going, cx.b.one("not", flag))
        term = branch.logical(cx, "and", Val(going), test, stmt)
    return cx.b.const(term.value, T.BOOL) if isinstance(term, Const) else term.value
