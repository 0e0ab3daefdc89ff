"""Vector forms of the rare, out-of-line calls: one test for all lanes instead of one branch for each.

For a scalar function that the loop vectoriser may find under a condition, :func:`variants` defines functions of a
vector and a mask, for the numbers of lanes that processors have, and returns the attribute that tells the vectoriser
about them. A vector form tests whether any lane is active and calls a slow loop if so; inlined after vectorisation,
that test is all that a loop pays.

The vector forms are external, because nothing calls them before vectorisation; the caller that runs the passes makes
them internal afterwards and inlines them (``PREFIX`` marks them).
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

PREFIX = "dkm.masked."
"""Start of the names of the vector forms."""

_LANES = {"float": (4, 8, 16), "double": (2, 4, 8)}
_I32 = ir.IntType(32)


def variants(module: ir.Module, function: Any) -> str:
    """Define the vector forms of a scalar function of one argument; return the vectoriser's names for them."""
    scalar = function.function_type.return_type
    names = []
    for lanes in _LANES[str(scalar)]:
        name = f"{PREFIX}{function.name}.v{lanes}"
        _test(module, name, lanes, scalar, lane_by_lane(module, function, lanes))
        names.append(f"_ZGV_LLVM_M{lanes}v_{function.name}({name})")
    return ",".join(names)


def _signature(lanes: int, scalar: Any) -> Any:
    vector = ir.VectorType(scalar, lanes)
    return ir.FunctionType(vector, [vector, ir.VectorType(ir.IntType(1), lanes)])


def _test(module: ir.Module, name: str, lanes: int, scalar: Any, slow: Any) -> None:
    """Define the vector form: ``x`` where no lane is active (nearly always), else the call of the slow loop."""
    form = ir.Function(module, _signature(lanes, scalar), name)
    for item in ("alwaysinline", "nounwind", "readnone"):
        form.attributes.add(item)
    x, mask = form.args
    b = ir.IRBuilder(form.append_basic_block())
    bits = b.bitcast(mask, ir.IntType(lanes))
    some = b.icmp_unsigned("!=", bits, ir.Constant(bits.type, 0))
    before = b.block
    with b.if_then(some, likely=False):
        value = b.call(slow, [x, bits], cconv=slow.calling_convention)
        inside = b.block
    out: Any = b.phi(x.type)
    out.add_incoming(x, before)
    out.add_incoming(value, inside)
    b.ret(out)


def lane_by_lane(module: ir.Module, function: Any, lanes: int) -> Any:
    """Define a function of a vector and a mask's bits: the scalar one for each active lane, ``x`` in the others."""
    name = f"{PREFIX}{function.name}.v{lanes}.slow"
    found = module.globals.get(name)
    if found is not None:
        return found
    bits, vector = ir.IntType(lanes), ir.VectorType(function.function_type.return_type, lanes)
    slow = ir.Function(module, ir.FunctionType(vector, [vector, bits]), name)
    slow.linkage = "internal"
    slow.calling_convention = function.calling_convention
    for item in ("noinline", "nounwind", "readnone"):
        slow.attributes.add(item)
    x, given = slow.args
    b = ir.IRBuilder(slow.append_basic_block("entry"))
    entry = b.block
    head, active, done = (b.append_basic_block(n) for n in ("head", "active", "done"))
    b.branch(head)
    b.position_at_end(head)
    left: Any = b.phi(bits)
    values: Any = b.phi(x.type)
    b.cbranch(b.icmp_unsigned("!=", left, ir.Constant(bits, 0)), active, done)
    b.position_at_end(active)
    lane = b.cttz(left, ir.Constant(ir.IntType(1), 1))
    lane = b.zext(lane, _I32) if lanes < 32 else lane if lanes == 32 else b.trunc(lane, _I32)
    value = b.call(function, [b.extract_element(x, lane)], cconv=function.calling_convention)
    changed = b.insert_element(values, value, lane)
    fewer = b.and_(left, b.sub(left, ir.Constant(bits, 1)))
    b.branch(head)
    for phi, first, following in ((left, given, fewer), (values, x, changed)):
        phi.add_incoming(first, entry)
        phi.add_incoming(following, active)
    b.position_at_end(done)
    b.ret(values)
    return slow
