"""Reverse mode: from a kernel's IR to the IR of its adjoint.

Given a normalised function and the parameters whose gradients are wanted, the result (after tidying up) is a function
of the same thread grid with the parameters ``original..., saved..., cotangents...``. It adds to the cotangents of the
inputs their share of the cotangents of the outputs, and consumes (reads and zeroes) the cotangents of overwritten
elements.

The sweep visits each region's ops backwards. Statement forms that survive normalisation and are handled here: pure ops
(rule table), loads, stores, atomics, ``if``, ``for``, ``while``. Everything that cannot be proved right raises
:class:`AutodiffError` with the source line.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from diffkern.ad.activity import Activity, HiddenPaths
from diffkern.ad.adjoint import Swept
from diffkern.ad.block_replay import BlockReplay, LiveReplay
from diffkern.ad.blocks import BlockMemory, BlockPlan
from diffkern.ad.cotangents import CotangentMap, cotangent_type, ct_name, name_after
from diffkern.ad.extrema import check_extremum, reverse_extremum
from diffkern.ad.loops import LoopShape, ReverseLoop, StackBudget, emit_reverse_loop, for_shape, loop_depth, while_shape
from diffkern.ad.memory import check_memory, check_one_writer, check_stacks, stores_to, touches_cotangents
from diffkern.ad.replay import Replay, ReplayContext, changed_place
from diffkern.ad.rules import RULES, RuleArguments
from diffkern.ad.singular import Guards, kept_zero
from diffkern.ad.stamps import decided_by_order
from diffkern.ad.tables import cotangents_of
from diffkern.ad.tiles import (
    reverse_atomic,
    reverse_extract,
    reverse_load,
    reverse_map,
    reverse_sort,
    reverse_store,
)
from diffkern.analysis.blocks import is_simt
from diffkern.analysis.collisions import Collision, collisions
from diffkern.analysis.components import Component, Components
from diffkern.analysis.dependence import classify_loads
from diffkern.analysis.scopes import has_barrier
from diffkern.analysis.tile_threads import threads_of
from diffkern.contracts.manifest import TwoStores, Unproved
from diffkern.errors import AutodiffError
from diffkern.ir.builder import Builder
from diffkern.ir.clone import free_values
from diffkern.ir.nodes import Function, Op, Region, Value, walk
from diffkern.ir.ops.block import BARRIERS
from diffkern.ir.ops.composite import CONSTRUCTS
from diffkern.ir.ops.memory import ATOMICS, ELEMENT_STORES, EXTREMA, LOADS, ORDERED_READS, PLACE_WRITES, STORES
from diffkern.ir.ops.row import Diff
from diffkern.ir.ops.table import lookup
from diffkern.ir.types import Array, Scalar, Tile, is_differentiable, is_shared
from diffkern.ir.views import Access, If, Ruled, is_branch, literals, loop
from diffkern.opt.sink import guard_products

Env = dict[Value, Value]
_BY_TILES = {"tile_load": reverse_load, "tile_store": reverse_store, "tile_atomic": reverse_atomic}
_NOTHING: Mapping[Op, Value] = MappingProxyType({})
Normalise = Callable[[Function], Function]

MAP_LEVEL = 1000
"""Loop stacks in the function of a map have levels of their own: those of the loops around it are alive meanwhile."""


def reverse(
    fn: Function,
    active: Sequence[int],
    budget: StackBudget,
    normalise_map: Normalise,
    logged: Mapping[Op, Value] = _NOTHING,
    *,
    stamped: bool = False,
) -> Swept:
    """Differentiate a normalised function with respect to its parameters ``active``.

    Parameters
    ----------
    fn : Function
        The function, which is not changed.
    active : sequence of int
        Indices of parameters.
    budget : StackBudget
        The memory that its loops may take.
    normalise_map : callable
        Prepares the function of a map of tiles for differentiation, in place.
    logged : mapping, optional
        For each load whose value is in a log, the logged value.
    stamped : bool, optional
        Whether stamps of the launch have shown that no two threads race.

    Returns
    -------
    Swept
        The swept function. Tidy it up, then get its ``adjoint``.

    Raises
    ------
    AutodiffError
        If the gradient cannot be proved right; with the source line and a remedy.
    """
    return _Reverse(fn, sorted(active), budget, normalise_map, logged=logged, stamped=stamped).run()


def reverse_func(fn: Function, active: Sequence[int], budget: StackBudget, normalise_map: Normalise) -> Swept:
    """Differentiate a normalised function that yields its results and writes to no array.

    Parameters
    ----------
    fn, active, budget, normalise_map
        As in :func:`reverse`; the parameters ``active`` are by value.

    Returns
    -------
    Swept
        The swept function. Tidy it up; then its ``function`` maps parameters and a cotangent for each differentiable
        result to the results and the cotangents of the parameters ``active``.

    Raises
    ------
    AutodiffError
        As :func:`reverse`, and at the first write to an array.
    """
    return _Reverse(fn, sorted(active), budget, normalise_map, again=True).of_func()


class _Reverse:
    def __init__(
        self,
        fn: Function,
        active: list[int],
        budget: StackBudget,
        normalise_map: Normalise,
        level: int = 0,
        logged: Mapping[Op, Value] = _NOTHING,
        *,
        again: bool = False,
        stamped: bool = False,
    ) -> None:
        check_stacks(fn)
        self.again = again  # whether the program may be differentiated itself
        self.fn = fn
        self.normalise_map = normalise_map
        self.active_params = [fn.params[k] for k in active]
        self.cotangents = tuple(active)
        # Nested loops have their stacks at the same time, so the budget is divided among the levels.
        self.budget = budget.per_level(max(1, loop_depth(fn.body)))
        self.level = level
        self.b = Builder()
        # Shared memory and barriers make the order of accesses of different threads matter, which needs another replay.
        self.memory = BlockMemory(self.b, BlockPlan(fn)) if is_simt(fn) else None
        self.b.threads = threads_of(fn)
        self.guards = Guards(fn, each=again)
        self.params: Env = {p: Value(p.type, p.name) for p in fn.params}
        self.ct_params: Env = {p: Value(cotangent_type(p), f"ct_{p.name}") for p in self.active_params}
        self.roots = [*self.active_params, *self.active_shared()]
        self.activity = Activity(fn, self.roots)
        arrays = [p for p in fn.params if isinstance(p.type, Array)]
        # A copy of the entry contents is offered for every array; those that no load of the swept program uses are
        # dropped.
        self.saved: Env = {self.params[p]: Value(p.type, f"saved_{p.name}") for p in arrays}
        saved_of = {p: self.saved[self.params[p]] for p in arrays}
        self.context = ReplayContext(classify_loads(fn, stamped=stamped), saved_of, logged, buffers=self.ct_params)
        self.stamped = stamped
        self.collisions = self.find_collisions() if level == 0 and not again else []
        self.shared_stores = self.find_shared_stores() if stamped else set[Value]()
        self.constants = literals(fn.body)
        self.constructs = {op.result: op.operands for op in walk(fn.body) if op.name in CONSTRUCTS}
        # Extrema differentiated in forward mode before: the update and that of the tangent carry the same pair number.
        paired = [
            op
            for op in walk(fn.body)
            if "pair" in op.attrs and op.attrs["kind"] in EXTREMA and not op.attrs.get("opaque")
        ]
        self.extrema = {op.attrs["pair"]: op for op in paired}

    # -- whole function ----------------------------------------------------------------------------------------------

    def active_shared(self) -> list[Value]:
        """Return the shared arrays between active parameters; each gets an array of cotangents."""
        if self.memory is None or not self.memory.plan.shared:
            return []
        hidden = HiddenPaths(self.fn, self.active_params)
        loads = [op for op in self.memory.plan.place if op.name in LOADS | ATOMICS and is_shared(Access(op).array.type)]
        found = {Access(op).array for op in loads if hidden.through(op)}
        for op in self.memory.plan.shared:
            if op.result in found:
                ct = self.memory.array(op.result, f"ct_{op.result.name}", cotangent=True)
                self.memory.cotangents[op.result] = self.ct_params[op.result] = ct
        return list(self.memory.cotangents)

    def find_collisions(self) -> list[Collision]:
        """Stores of active values which two threads may make to one element."""

        def is_active(store: Op) -> bool:
            return Access(store).array in self.ct_params and self.activity.active(Access(store).value)

        return collisions(self.fn, is_active)

    def find_hidden(self) -> frozenset[int]:
        """The arrays of which stamps would not tell who stores to an element, among those for which one would ask."""
        params = self.fn.params
        asked = {Access(one.first).array for one in self.collisions}
        asked.update(params[pair.array] for fact in self.context.facts.values() for pair in fact.trusted)
        return frozenset(params.index(array) for array in (decided_by_order(self.fn, asked) if asked else ()))

    def find_shared_stores(self) -> set[Value]:
        """The arrays to whose elements several threads may store, the same value; not to components of them."""
        params = self.fn.params
        found = {params[pair.array] for f in self.context.facts.values() for pair in f.unproved}
        found |= {Access(one.first).array for one in self.collisions}
        stores = [op for op in walk(self.fn.body) if op.name in ELEMENT_STORES and Access(op).array in found]
        return found - {Access(op).array for op in stores if self.components.stored(op) is not None}

    @functools.cached_property
    def components(self) -> Components:
        """The components that stores set."""
        return Components(self.fn)

    def replay(self, env: Env) -> Replay:
        """Return a replay of the ops of a thread."""
        if self.memory is None:
            return Replay(self.b, env, self.context)
        return BlockReplay(self.b, env, self.context, self.memory)

    def replay_scope(self, env: Env, scope: Op | None) -> None:
        """Execute the kernel's body, or that of a loop around barriers, for the sweep that follows."""
        region = self.fn.body if scope is None else loop(scope).body
        if self.memory is None:
            Replay(self.b, env, self.context).ops(region.ops)
            return
        env.update(self.memory.instance(scope))
        LiveReplay(self.b, env, self.context, self.memory, sweep=True).ops(region.ops)

    def run(self) -> Swept:
        known = (self.fn, self.roots, self.ct_params, self.activity, self.context.facts)
        disjoint = check_memory(*known, stamped=self.stamped)
        env: Env = dict(self.params)
        self.replay_scope(env, None)
        # The primal's values are all in env by now: the sweep below goes backwards and only reads them.
        cts = CotangentMap(self.b)
        self.ops(self.fn.body.ops, env, cts, self.level)
        self.b.loc = self.fn.loc
        # Cotangents of arrays were accumulated where the loads are; those of by-value parameters are summed over
        # threads at the end.
        for p in self.active_params:
            if not isinstance(p.type, Array):
                ct = cts.take(p)
                if ct is not None:
                    self.b.op("accumulate", self.ct_params[p], self.b.i32(0), ct, wrap=(False,), mode="plain")
        params = [self.params[p] for p in self.fn.params]
        of_active = (self.ct_params[p] for p in self.active_params)  # those of shared arrays are no parameters
        everything = (*params, *self.saved.values(), *of_active)
        out = replace(self.fn, name=f"{self.fn.name}_adjoint", params=everything, body=self.b.region)
        prologue = [] if self.memory is None else self.memory.prologue()
        facts, useful = self.context.facts.items(), self.activity.useful
        # Facts matter for loads the sweep itself goes through, too: the place they accumulate to was read at the same
        # element.
        passed = [fact for op, fact in facts if op.result in useful and is_differentiable(op.result.type)]
        swept = Swept(out, params, self.saved, self.cotangents, self.context, passed, self.memory, prologue)
        index = self.fn.params.index
        stores = [
            TwoStores(index(Access(one.first).array), one.first.loc, one.second.loc, one.check)
            for one in self.collisions
        ]
        unproved = [self.unproved(*pair) for pair in disjoint]
        return replace(swept, disjoint=unproved, stores=stores, hidden=self.find_hidden())

    def unproved(self, update: Op, store: Op) -> Unproved:
        """Return the assumption that an update and a store never touch one element from two threads."""
        return Unproved(self.fn.params.index(Access(update).array), update.loc, store.loc)

    def elements(self) -> Region:
        """Return the adjoint of the function of a map: from parameters and cotangents of the yields to cotangents."""
        env: Env = dict(self.params)
        Replay(self.b, env, self.context).ops(self.fn.body.ops)
        cts = CotangentMap(self.b)
        seeds = [Value(y.type, ct_name(y)) for y in self.fn.body.yields]
        for y, seed in zip(self.fn.body.yields, seeds, strict=True):
            # A yield that is not active would make its cotangent pass through nothing: its seed is dropped.
            if self.activity.active(y):
                cts.add(y, seed)
        self.ops(self.fn.body.ops, env, cts, self.level)
        found = [cts.take(p) for p in self.active_params]
        region = self.b.region
        region.params = (*(self.params[p] for p in self.fn.params), *seeds)
        pairs = zip(self.active_params, found, strict=True)
        region.yields = tuple(ct if ct is not None else self.b.zero(p.type) for p, ct in pairs)
        return region

    def of_func(self) -> Swept:
        """Return the adjoint of a function that yields its results."""
        # An effect would be lost, as the function's adjoint has its results and cotangents as its only outputs.
        for op in walk(self.fn.body):
            if op.name in STORES | ATOMICS | PLACE_WRITES:
                to = "a volume" if op.name in PLACE_WRITES else Access(op).array.name
                raise AutodiffError(
                    f"{self.fn.name} writes to {to}, so its results are not all that it does",
                    loc=op.loc,
                    remedy="return the value, or make it a kernel and use the kernel's adjoint",
                )
        env: Env = dict(self.params)
        Replay(self.b, env, self.context).ops(self.fn.body.ops)
        cts, results = CotangentMap(self.b), self.fn.body.yields
        seeds = []
        for k, y in enumerate(results):
            if is_differentiable(y.type):
                seeds.append(Value(y.type, "ct" if len(results) == 1 else f"ct_{k}"))
                if self.activity.active(y):
                    cts.add(y, seeds[-1])
        self.ops(self.fn.body.ops, env, cts, self.level)
        found = [(p, cts.take(p)) for p in self.active_params]
        params = [self.params[p] for p in self.fn.params]
        out = replace(self.fn, name=f"{self.fn.name}_vjp", params=(*params, *seeds), body=self.b.region)
        out.body.yields = (*(env[y] for y in results), *(self.b.zero(p.type) if ct is None else ct for p, ct in found))
        return Swept(out, params, self.saved, self.cotangents, self.context, (), None, ())

    # -- regions -----------------------------------------------------------------------------------------------------

    def ops(self, ops: Sequence[Op], env: Env, cts: CotangentMap, level: int) -> None:
        """Sweep backwards through ops whose primal values are in ``env``."""
        for op in reversed(ops):
            with self.b.at(op.loc):
                self.op(op, env, cts, level)

    def op(self, op: Op, env: Env, cts: CotangentMap, level: int) -> None:
        special: dict[str, Callable[[Op, Env, CotangentMap], None]] = {
            "load": self.load, "store": self.store, "atomic": self.atomic, "fetch": self.fetch,
            "look": self.fetch, "poke": self.poke, "extract": self.extract, "insert": self.insert,
            "tile_map": self.tile_map,
            "tile_sort": lambda op, env, cts: reverse_sort(self.b, op, env, cts, self.activity),
            "tile_extract": lambda op, env, cts: reverse_extract(op, env, cts, self.activity),
        }  # fmt: skip
        if op.attrs.get("opaque"):
            return
        if op.name in special:
            special[op.name](op, env, cts)
        elif is_branch(op):
            self.branch(op, env, cts, level)
        elif op.name in _BY_TILES:
            _BY_TILES[op.name](self.b, op, env, cts, self.activity, self.ct_params)
        elif op.name == "for":
            self.loop(op, env, cts, level, for_shape(self.b, op, env, self.constants))
        elif op.name == "while":
            self.loop(op, env, cts, level, while_shape(op, env, self.context.counters[op]))
        elif op.name in BARRIERS:
            self.barrier()
        elif op.name == "ruled":
            self.ruled(Ruled(op), env, cts)
        elif lookup(op.name).diff is Diff.RULE:
            self.pure(op, env, cts)

    def extract(self, op: Op, env: Env, cts: CotangentMap) -> None:
        """Keep a component's cotangent by itself until the whole vector is asked for: no vector of zeros is made."""
        ct, (whole,) = cts.take(op.result), op.operands
        if ct is not None and self.activity.active(whole):
            cts.add_component(whole, op.attrs["index"], ct)

    def insert(self, op: Op, env: Env, cts: CotangentMap) -> None:
        """Part a vector's cotangent between what was inserted and the other components."""
        ct, (whole, component), index = cts.take(op.result), op.operands, op.attrs["index"]
        if ct is None:
            return
        if self.activity.active(component):
            cts.add(component, self.b.extract(ct, index))
        if self.activity.active(whole):
            cts.add_others(whole, index, ct)

    def pure(self, op: Op, env: Env, cts: CotangentMap) -> None:
        ct = cts.take(op.result)
        if ct is None:
            return
        want = [self.activity.active(v) for v in op.operands]
        if not any(want):
            return
        operands = [env[v] for v in op.operands]
        guarded = self.guards.needed(op)
        steep, norm = self.guards.steep_cotangent(op), self.guards.is_norm(op)
        facts = {"steep": steep, "norm": norm, "again": self.again}
        arguments = RuleArguments(op, operands, env[op.result], ct, want, self.guards.finite(op), **facts)
        # The rule sees recomputed primal values and returns one contribution per operand.
        found = RULES[op.name](self.b, arguments)
        for v, w, contribution in zip(op.operands, want, found, strict=True):
            if w and contribution is not None:
                # 0 * inf is NaN, but a cotangent of exactly zero must not contribute: select zero where the partial may
                # be infinite.
                if guarded:
                    contribution = kept_zero(self.b, op, ct, contribution, again=self.again)
                name_after(contribution, v)
                cts.add(v, contribution)

    def ruled(self, call: Ruled, env: Env, cts: CotangentMap) -> None:
        """Reverse a call of a func with a derivative, or a replay, of its own."""
        seeds = [cts.take(r) for r in call.op.results]
        if call.derivative is None:
            for v, seed in zip(call.returned, seeds, strict=True):
                if seed is not None and self.activity.active(v):
                    cts.add(v, seed)
            return
        # A derivative may add to the cotangents of arrays even when no result has a cotangent.
        if all(s is None for s in seeds) and not touches_cotangents(call, self.ct_params):
            return
        given = [self.b.zero(r.type) if s is None else s for r, s in zip(call.op.results, seeds, strict=True)]
        # A copy of the environment: the derivative's own values must not leak into the sweep.
        found = self.replay(dict(env)).inline(call.derivative, given)
        for v, ct in zip(call.inputs, found, strict=True):
            if self.activity.active(v):
                name_after(ct, v)
                cts.add(v, ct)

    # -- memory ------------------------------------------------------------------------------------------------------

    def barrier(self) -> None:
        """Emit a barrier between the accesses to shared cotangents before and after it."""
        # Without shared cotangents the sweep has nothing to order; the replay has emitted the primal's barrier.
        if self.memory is not None and self.memory.cotangents:
            self.b.op("barrier")

    def load(self, op: Op, env: Env, cts: CotangentMap) -> None:
        ct = cts.take(op.result)
        buffer = self.ct_params.get(Access(op).array)
        if ct is None or buffer is None:
            return
        index = [env[v] for v in Access(op).index]
        # Primal: v = array[i]. Adjoint: ct_array[i] += ct_v; whether that needs atomics is decided by the conflict
        # analysis.
        self.b.op("accumulate", buffer, *index, ct, wrap=Access(op).wrap, mode="plain")

    def fetch(self, op: Op, env: Env, cts: CotangentMap) -> None:
        ct = cts.take(op.result)
        if ct is not None:
            if op.name in ORDERED_READS:
                raise changed_place(op)  # other threads may store there before or after
            _, table, index = (env[v] for v in op.operands)
            # Primal: v = load through a stored address. Its cotangent is deposited at the buffer that its table names.
            self.b.op("deposit", cotangents_of(self.b, table), index, ct)

    def poke(self, op: Op, env: Env, cts: CotangentMap) -> None:
        """Take the cotangent of memory that was written, as of an array's element."""
        _, table, index, value = op.operands
        if is_differentiable(value.type):
            found = self.b.one("withdraw", cotangents_of(self.b, env[table]), env[index], type=value.type)
            if self.activity.active(value):
                cts.add(value, found)

    def store(self, op: Op, env: Env, cts: CotangentMap) -> None:
        """Take the element's cotangent and zero it: the store ended the life of the old content."""
        buffer = self.ct_params.get(Access(op).array)
        if buffer is None:
            return
        value = Access(op).value
        # Primal: array[i] = v. Adjoint: ct_v += ct_array[i]; ct_array[i] = 0, as the old content no longer influences
        # anything.
        index = [env[v] for v in Access(op).index]
        is_active = self.activity.active(value)
        is_shared = Access(op).array in self.shared_stores
        if is_active:
            check_one_writer(op, self.memory)
        parts = self.components.stored(op) if not is_shared and not isinstance(value.type, Scalar) else None
        if parts is not None:
            self.store_of_components(op, parts, env, cts)
            return
        if is_shared:
            # Threads that store the same value count as one writer: each exchange takes the sum accumulated so far.
            zero, facts = self.b.zero(value.type), {"kind": "exch", "wrap": Access(op).wrap}
            ct = self.b.one("atomic", buffer, *index, zero, hint=ct_name(value), **facts)
        elif is_active:
            ct = self.b.one("load", buffer, *index, wrap=Access(op).wrap, hint=ct_name(value))
        if is_active:
            cts.add(value, ct)
        # With an atomic exchange the element has been cleared already.
        if not is_shared:
            zero = self.b.zero(value.type)
            self.b.op("store", buffer, *index, zero, wrap=Access(op).wrap)

    def store_of_components(self, op: Op, parts: Mapping[Component, Value], env: Env, cts: CotangentMap) -> None:
        """Take and zero the cotangents of the components that a store sets; those of the others stay in the buffer.

        They belong to the old content, which other threads may share: to take the whole cotangent and add the rest back
        where the content was loaded would hide it from them in between.
        """
        buffer, index = self.ct_params[Access(op).array], [env[v] for v in Access(op).index]
        ct = self.b.one("load", buffer, *index, wrap=Access(op).wrap, hint=ct_name(Access(op).value))
        # The last insertion comes first. An earlier one into the same component, if the index of either is found at run
        # time, finds zero, as it should: its value was overwritten.
        for place, value in parts.items():
            assert isinstance(value.type, Scalar)
            zero = self.b.zero(value.type)
            if isinstance(place, int):
                component = self.b.one("extract", ct, index=place)
                ct = self.b.one("insert", ct, zero, index=place)
            else:
                component = self.b.one("extract_dyn", ct, env[place])
                ct = self.b.one("insert_dyn", ct, zero, env[place])
            if self.activity.active(value):
                cts.add(value, component)
        self.b.op("store", buffer, *index, ct, wrap=Access(op).wrap)

    def atomic(self, op: Op, env: Env, cts: CotangentMap) -> None:
        buffer = self.ct_params.get(Access(op).array)
        # The returned value depends on the order of the threads, so a function of it is not a function of the inputs.
        if cts.take(op.result) is not None:
            raise AutodiffError(
                f"the value returned by atomic_{op.attrs['kind'].removeprefix('f')} is used in a differentiated path",
                loc=op.loc,
                remedy="it depends on the order of threads and has no gradient; use the array in a later launch",
            )
        kind, value = op.attrs["kind"], Access(op).value
        if buffer is None or kind == "take" or op.attrs.get("opaque"):
            return
        if kind not in ("add", "sub", "give", *EXTREMA):
            raise AutodiffError(
                f"atomic_{kind} has no derivative", loc=op.loc,
                remedy="keep it out of differentiated arrays, or use atomic_add, atomic_min or atomic_max",
            )  # fmt: skip
        index = [env[v] for v in Access(op).index]
        wrap = Access(op).wrap
        active = self.activity.active(value)
        if kind == "give":
            self.given(op, env, cts, buffer, index)
            return
        if kind in EXTREMA:
            check_extremum(op)
            array = self.params[Access(op).array]
            # A constant may win too: the old content then gets nothing.
            ct = reverse_extremum(self.b, op, env[value], array, self.saved[array], buffer, index)
            if active:
                cts.add(value, ct)
            return
        if not active:
            return
        # Primal: array[i] += v. Adjoint: ct_v += ct_array[i]; the cotangent stays, since the old content has the same
        # one.
        ct = self.b.one("load", buffer, *index, wrap=wrap, hint=ct_name(value))
        cts.add(value, ct if kind == "add" else self.b.neg(ct))

    def given(self, op: Op, env: Env, cts: CotangentMap, buffer: Value, index: Sequence[Value]) -> None:
        """Pass the cotangent of the element's tangent to the tangent of an extremum's winner."""
        of, parts = self.extrema[op.attrs["pair"]], self.constructs[Access(op).value]
        check_extremum(of)
        array, size = self.params[Access(of).array], len(parts) // 4
        # The operand of "give" is a vector of four groups: seen, state, numbers, tangents; see forward_extremum.
        number = self.b.construct(Access(of).value.type, [env[v] for v in parts[2 * size : 3 * size]])
        ct = reverse_extremum(self.b, of, number, array, self.saved[array], buffer, index)
        for v, component in zip(parts[3 * size :], self.b.components(ct), strict=True):
            if self.activity.active(v):
                cts.add(v, component)

    # -- tiles -------------------------------------------------------------------------------------------------------

    def tile_map(self, op: Op, env: Env, cts: CotangentMap) -> None:
        def reverse_body(fn: Function, active: list[int]) -> Region:
            normal = self.normalise_map(fn)
            if op.attrs.get("guarded"):
                guard_products(normal)
            # The stacks of the map's loops get levels beyond those of the loops around the map.
            return _Reverse(normal, active, self.budget, self.normalise_map, MAP_LEVEL, again=self.again).elements()

        reverse_map(self.b, op, env, cts, self.activity, reverse_body)

    # -- control flow ------------------------------------------------------------------------------------------------

    def branch(self, op: Op, env: Env, cts: CotangentMap, level: int) -> None:
        seeds = [cts.take(r) for r in op.results]
        if all(s is None for s in seeds) and not stores_to(op, self.ct_params):
            if has_barrier(op):
                self.barrier()  # what stands before it and after it stays ordered
            return
        # A guarded part may compute NaN or infinities that a cotangent of exactly zero must not pick up.
        if self.may_be_skipped(op, seeds):
            self.unless_zero(op, seeds, cts, lambda inner: self.reverse_branch(op, env, inner, level, seeds))
        else:
            self.reverse_branch(op, env, cts, level, seeds)

    def may_be_skipped(self, op: Op, seeds: Sequence[Value | None]) -> bool:
        """Return whether a branch or loop that only computes results can be skipped for cotangents of exactly zero.

        It has to be skipped where an exact zero must stay one. If the program is differentiated itself, zeros are kept
        operation by operation instead: a skipped part has no derivative.
        """
        if self.again or not op.attrs.get("guarded") or has_barrier(op) or stores_to(op, self.ct_params):
            return False
        # Tiles cannot be compared with zero as a condition of one thread.
        values = [v for v in (*seeds, *free_values(Region(ops=[op]))) if v is not None]
        return any(s is not None for s in seeds) and not any(isinstance(v.type, Tile) for v in values)

    def unless_zero(
        self, op: Op, seeds: Sequence[Value | None], cts: CotangentMap, sweep: Callable[[CotangentMap], None]
    ) -> None:
        """Sweep through a part, skipping it at run time if all its initial cotangents are exactly zero."""
        b = self.b
        parts = [c for seed in seeds if seed is not None for c in b.components(seed)]
        zero = functools.reduce(lambda x, y: b.one("and", x, y), (b.one("eq", c, b.zero(c.type)) for c in parts))
        swept, left_out = Region(), Region()
        # A fresh map for the part: its sums must not be mixed with those around it, which exist in both arms.
        inner = CotangentMap(b)
        with b.into(swept):
            sweep(inner)
            found = {v: inner.take(v) for v in inner.remaining()}
            swept.yields = tuple(ct for ct in found.values() if ct is not None)
        with b.into(left_out):
            left_out.yields = tuple(b.zero(v.type) for v in found)
        for v, ct in zip(found, b.if_(zero, left_out, swept, [ct_name(v) for v in found]), strict=True):
            cts.add(v, ct)

    def reverse_branch(self, op: Op, env: Env, cts: CotangentMap, level: int, seeds: Sequence[Value | None]) -> None:
        """Sweep through a branch whose results have these cotangents."""
        # Each arm recomputes its own primal values first, and then sweeps back through them.
        built: list[tuple[Region, dict[Value, Value]]] = []
        for sub in op.regions:
            region = Region()
            with self.b.into(region):
                inner_env = dict(env)
                self.replay(inner_env).ops(sub.ops)
                inner = CotangentMap(self.b)
                for y, seed in zip(sub.yields, seeds, strict=True):
                    if seed is not None and self.activity.active(y):
                        inner.add(y, seed)
                self.ops(sub.ops, inner_env, inner, level)
                built.append((region, self.outgoing(sub, inner)))
        # Both arms yield cotangents for the same outer values; an arm that does not use one yields zero.
        targets = list(dict.fromkeys(v for _, found in built for v in found))
        for region, found in built:
            with self.b.into(region):
                region.yields = tuple(found[v] if v in found else self.b.zero(v.type) for v in targets)
        names = [ct_name(v) for v in targets]
        results = self.b.if_(env[If(op).condition], built[0][0], built[1][0], names)
        for v, ct in zip(targets, results, strict=True):
            cts.add(v, ct)

    def outgoing(self, region: Region, inner: CotangentMap) -> dict[Value, Value]:
        """Return the cotangents that a region contributes to values from outside of it."""
        free = set(free_values(region))
        out = {}
        for v in inner.remaining():
            if v in free and self.activity.active(v):
                ct = inner.take(v)
                assert ct is not None
                out[v] = ct
        return out

    def loop(self, op: Op, env: Env, cts: CotangentMap, level: int, shape: LoopShape) -> None:
        seeds = [cts.take(r) for r in op.results]
        if all(s is None for s in seeds) and not stores_to(op, self.ct_params):
            if has_barrier(op):
                self.barrier()
            return
        if self.may_be_skipped(op, seeds):
            self.unless_zero(op, seeds, cts, lambda inner: self.reverse_loop(op, env, inner, level, shape, seeds))
        else:
            self.reverse_loop(op, env, cts, level, shape, seeds)

    def reverse_loop(
        self, op: Op, env: Env, cts: CotangentMap, level: int, shape: LoopShape, seeds: Sequence[Value | None]
    ) -> None:
        """Sweep through a loop whose results have these cotangents."""
        b, body = self.b, loop(op).body
        memory = self.memory.loop(op) if self.memory is not None and has_barrier(op) else None
        # The chain is the carried state, whose cotangent goes from trip to trip; outside are free values, whose
        # cotangents sum up over the trips.
        chain = [k for k, p in enumerate(shape.params) if self.activity.active(p)]
        outside = [v for v in free_values(body) if self.activity.active(v)]
        entry = [seeds[k] or b.zero(shape.params[k].type) for k in chain]
        for v in outside:  # the trips add to the tile there is: to add one of their own costs what the whole tile does
            known = cts.take(v) if isinstance(v.type, Tile) else None
            entry.append(known or b.zero(v.type))
        names = [ct_name(shape.params[k]) for k in chain] + [ct_name(v) for v in outside]
        for k, (r, seed) in enumerate(zip(op.results, seeds, strict=True)):
            if seed is not None and k not in chain:
                raise AssertionError(f"{r!r} has a cotangent but its loop variable is not active")

        # Placeholders for the state before an iteration: emit_reverse_loop replaces them by loads from snapshots, and
        # learns from their uses which of them have to be stored.
        state = [Value(p.type, p.name) for p in shape.params]
        region = Region((Value(shape.counter, "it"), *(Value(v.type, n) for v, n in zip(entry, names, strict=True))))
        it, carried = region.params[0], region.params[1:]
        with b.into(region):
            inner_env = dict(env)
            inner_env.update(zip(body.params, shape.bind(it, state), strict=True))
            # An iteration of the adjoint first replays its primal iteration from that state.
            if memory is None:
                self.replay(inner_env).ops(body.ops)
            else:
                self.replay_scope(inner_env, op)
            inner = CotangentMap(b)
            for v, so_far in zip(outside, carried[len(chain) :], strict=True):
                if isinstance(v.type, Tile):  # the trips add to one tile, rather than each to a tile of zeros
                    inner.add(v, so_far)
            for k, ct in zip(chain, carried, strict=False):
                # At the end of a trip the carried cotangents belong to what the body yields.
                if self.activity.active(body.yields[k]):
                    inner.add(body.yields[k], ct)
            self.ops(body.ops, inner_env, inner, level + 1)
            region.yields = self.carry_over(shape, chain, outside, inner, carried)

        # A snapshot schedule also has to run iterations without sweeping through them.
        def advance(at: Value, now: Sequence[Value]) -> Sequence[Value]:
            if memory is None:
                return self.replay(dict(env)).inline(body, shape.bind(at, now))
            there = {**env, **memory.memory.instance(op)}
            return LiveReplay(b, there, self.context, memory.memory, sweep=False).inline(body, shape.bind(at, now))

        reversed_loop = ReverseLoop(
            shape.trips(), [env[v] for v in shape.init], region, state, advance, entry, names, level, memory
        )
        results = emit_reverse_loop(b, reversed_loop, self.budget)
        for k, ct in zip(chain, results, strict=False):
            # The cotangents left after iteration 0 belong to the initial state.
            if self.activity.active(shape.init[k]):
                cts.add(shape.init[k], ct)
        for v, ct in zip(outside, results[len(chain) :], strict=True):
            cts.add(v, ct)

    def carry_over(
        self, shape: LoopShape, chain: list[int], outside: list[Value], inner: CotangentMap, carried: Sequence[Value]
    ) -> tuple[Value, ...]:
        """Return the yields of the reversed loop: cotangents of the state before the iteration, and growing sums."""
        out = []
        for k in chain:
            ct = inner.take(shape.params[k])
            out.append(ct if ct is not None else self.b.zero(shape.params[k].type))
        for v, so_far in zip(outside, carried[len(chain) :], strict=True):
            ct = inner.take(v)
            out.append(so_far if ct is None else ct if isinstance(v.type, Tile) else self.b.add(so_far, ct))
        return tuple(out)
