"""Faults that are put into rules and passes on purpose: each must be noticed by a small part of the corpus."""

from __future__ import annotations

from diffkern.ad import activity, cotangents, extrema, loops, replay, reverse
from diffkern.ad.rules import RULES
from diffkern.ad.rules import composite as composite_rules
from diffkern.ad.rules import scalar as scalar_rules
from diffkern.analysis import conflicts, dependence, threads
from diffkern.ir import trip_count
from diffkern.opt import cse, dce, promote, sink, unroll

from .edits import Fault, edit, formula, rule_edit

FAULTS = [
    # derivative rules
    Fault("wrong sign in the rule of sin", formula("sin", "-cos(x)")),
    Fault("product rule drops a term", formula("mul", "y", "0")),
    Fault("quotient rule forgets the denominator", formula("div", "1/y", "-r")),
    Fault("power rule keeps the exponent", formula("pow", "y*pow(x, y)", "0 if x == 0 else r*log(x)")),
    Fault("max gives to the smaller operand", lambda p: p.setitem(RULES, "max", scalar_rules._choice("lt"))),
    Fault("ties go to the second operand", lambda p: p.setitem(RULES, "max", scalar_rules._choice("ge"))),
    Fault("sub forgets the sign", lambda p: p.setitem(RULES, "sub", lambda b, a: [a.ct, a.ct])),
    Fault("a cast ends the chain", lambda p: p.setitem(RULES, "cast", lambda b, a: [None])),
    Fault("cross product in the wrong order",
          rule_edit(composite_rules, "_cross", ("cross",), 'b.one("cross", y, a.ct)', 'b.one("cross", a.ct, y)')),
    Fault("outer product transposed in the rule of matvec",
          rule_edit(composite_rules, "_matvec", ("matvec",), 'b.one("outer", a.ct, v)', 'b.one("outer", v, a.ct)')),
    Fault("normalize without the projection",
          rule_edit(composite_rules, "_normalize", ("normalize",), "b.sub(a.ct, ", "b.add(a.ct, ")),
    Fault("component's cotangent goes to another component",
          edit(cotangents, "CotangentMap.add_component", "parts[index] =", "parts[(index + 1) % v.type.size] =")),
    Fault("a second contribution replaces the first",
          edit(cotangents, "CotangentMap.add", "ct if known is None else self.b.add(known, ct)", "ct")),
    # memory
    Fault("a store does not zero the cotangent",
          edit(reverse, "_Reverse.store", 'self.b.op("store", buffer, *index, zero, wrap=Access(op).wrap)', "pass")),
    Fault("a store's cotangent is not taken", edit(reverse, "_Reverse.store", "cts.add(value, ct)", "pass")),
    Fault("a gather's adjoint writes elsewhere",
          edit(reverse, "_Reverse.load", "[env[v] for v in Access(op).index]",
               "[self.b.i32(0) for v in Access(op).index]")),
    Fault("atomic_sub has the sign of atomic_add", edit(reverse, "_Reverse.atomic", 'kind == "add"', 'kind != "exch"')),
    Fault("every equal thread wins an atomic maximum", edit(extrema, "reverse_extremum", '"ne"', '"eq"')),
    Fault("an overwritten input is read after the launch",
          edit(replay, "Replay.load", "self.context.saved[Access(op).array]", "self.env[Access(op).array]")),
    Fault("a lost value is read all the same",
          edit(dependence, "_Classes.of", "LoadFact(LoadSource.UNKNOWN, writes[0],",
               "LoadFact(LoadSource.FINAL, None,")),
    Fault("an iteration's store is taken for an earlier one",
          edit(dependence, "_order", "before=d < 0, after=d > 0", "before=d > 0, after=d < 0")),
    # control flow
    Fault("the adjoint of an if takes the other branch",
          edit(reverse, "_Reverse.reverse_branch", "built[0][0], built[1][0]", "built[1][0], built[0][0]")),
    Fault("what only one branch contributes is lost",
          edit(reverse, "_Reverse.reverse_branch", "for _, found in built for v in found))",
               "for _, found in built[1:] for v in found))")),
    Fault("a loop keeps the last contribution to an outer value instead of the sum",
          edit(reverse, "_Reverse.carry_over", "self.b.add(so_far, ct)", "ct")),
    Fault("a loop's initial values get nothing",
          edit(reverse, "_Reverse.reverse_loop", "cts.add(shape.init[k], ct)", "pass")),
    Fault("the reversed loop counts one iteration too many",
          edit(loops, "for_shape", "index_of_trip(b, it,", "index_of_trip(b, b.add(it, b.const(1, it.type)),")),
    Fault("the reversed loop forgets the last iteration",
          edit(loops, "emit_reverse_loop", "b.sub(loop.trips, one)", "b.sub(b.sub(loop.trips, one), one)")),
    Fault("a loop with a step counts its trips wrongly",
          edit(trip_count, "trip_count", "numbers.whole(numbers.distance(low, high), size)",
               "numbers.distance(low, high)")),
    Fault("a while loop counts its condition instead of its trips",
          edit(replay, "Replay.counted_while", "(*self.values(loop.init), b.i32(0))",
               "(*self.values(loop.init), b.i32(1))")),
    Fault("state is restored from the wrong snapshot",
          edit(loops, "_advance_to", 'b.one("stack_get", stack, top, field=1 + j',
               'b.one("stack_get", stack, b.i32(0), field=1 + j')),
    Fault("a snapshot is never popped",
          edit(loops, "_with_stack", "b.select(done, b.sub(top_now, b.i32(1)), top_now)", "top_now")),
    Fault("what the state depends on is not stored",
          edit(loops, "_closure", "if wider == needed and more == arrays:", "if True:")),
    # analyses and passes
    Fault("neighbouring threads are taken for one",
          edit(threads, "Distance.same_thread", "self.axes[axis] == (0, 0) for axis in range(arity)",
               "True for axis in range(arity)")),
    Fault("a gather through data is taken for one-to-one",
          edit(conflicts, "_classify", 'return Conflict("general", private=private)', "continue")),
    Fault("additions that collide are not made atomic",
          edit(conflicts, "use_atomics", '"mode": "atomic"', '"mode": "plain"')),
    Fault("a store through another index changes nothing that is known",
          edit(promote, "_Promoter.forget", "del contents[known]", "pass")),
    Fault("loads are shared across stores",
          edit(cse, "eliminate_common", "written = written_arrays(fn.body) if loads else set()", "written = set()")),
    Fault("computations stay outside of the branches that use them",
          edit(sink, "_Sinker.sink_into", "if not any(map(self.is_risky, cone)):", "if True:")),
    Fault("the last trip of an unrolled loop is missing",
          edit(unroll, "_Unroller.expand", "for i in trips:", "for i in trips[:-1]:")),
    Fault("an if without live results loses its stores",
          edit(dce, "_Eliminator.enter", "has = True in effects", "has = is_loop(op) and True in effects")),
    Fault("activity does not reach the next iteration",
          edit(activity, "Activity._forward_loop", "if not self._vary(loop.carried, loop.yields):", "if True:")),
]  # fmt: skip
