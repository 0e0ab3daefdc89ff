"""Division, square root, sine, cosine, tangent and atan2 in float32 for CUDA: no float64 instruction, no local memory.

Each is a function of an LLVM module, defined on first use. The approximate reciprocals of the hardware are corrected by
one step with fused multiply-add, so that exact quotients and roots come out exact; the compilers' own correctly rounded
forms take ten times the instructions. Errors in units in the last place: quotient and square root 0.5 (3 where the
dividend is below 2^-100), sine and cosine 2, tangent 3.5, atan2 3, over the whole range. Zeros, infinities and NaN as
in IEEE 754.

Sine and cosine: below 105615 the argument is reduced with pi/2 in three parts (Cody and Waite); above, by a product of
its 24 bits with the bits of 2/pi that matter (Payne and Hanek), in integers.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, TypeAlias

from llvmlite import ir

from diffkern.targets.cuda.registers import approximate, function
from diffkern.targets.emit.types import F32, I1, I32, I64, Builder, i32, i64
from diffkern.vecmath.coefficients import COS_F, SIN_F

_REDUCED = ir.LiteralStructType([F32, I32])

_PIO2 = (1.5707963705062866, -4.371138828673793e-08, -1.7151245100058819e-15)
_TWO_OVER_PI = 0.6366197723675814
_MEDIUM = 105615.0
_ROUNDER = 12582912.0  # adding it leaves the nearest integer in the low bits
_BITS = (0, 0x28BE60DB, 0x9391054A, 0x7F09D5F4, 0x7D4D3770, 0x36D8A566, 0x4F10E410, 0x7F9458EA)
"""The bits of 1/(2 pi), a zero word before them."""

Define: TypeAlias = Callable[[Builder, "list[Any]"], Any]


def f32(value: float) -> Any:
    return ir.Constant(F32, value)


def divide(b: Builder, x: Any, y: Any) -> Any:
    """Emit ``x / y``."""
    return b.call(_define(b.module, "dk_div_f32", F32, [F32, F32], _divide), [x, y])


def square_root(b: Builder, x: Any) -> Any:
    """Emit ``sqrt(x)``."""
    return b.call(_define(b.module, "dk_sqrt_f32", F32, [F32], _square_root), [x])


def sine(b: Builder, x: Any) -> Any:
    """Emit ``sin(x)``."""
    rest, quarter = _reduce(b, x)
    s, c = _sin_cos(b, rest)
    # An odd number of quarter turns exchanges sine and cosine; the second bit of the count is the sign.
    value = _signed(b, b.select(_odd(b, quarter), c, s), quarter)
    return b.select(b.fcmp_ordered("==", x, f32(0.0)), x, value)  # the reduction has lost the sign of -0


def cosine(b: Builder, x: Any) -> Any:
    """Emit ``cos(x)``."""
    rest, quarter = _reduce(b, x)
    s, c = _sin_cos(b, rest)
    # cos(x) = sin(x + pi/2): one quarter turn more decides about the sign.
    return _signed(b, b.select(_odd(b, quarter), s, c), b.add(quarter, i32(1)))


def tangent(b: Builder, x: Any) -> Any:
    """Emit ``tan(x)``."""
    rest, quarter = _reduce(b, x)
    s, c = _sin_cos(b, rest)
    odd = _odd(b, quarter)
    # After an odd number of quarter turns the tangent is the negative cotangent.
    value = divide(b, b.select(odd, b.fneg(c), s), b.select(odd, s, c))
    return b.select(b.fcmp_ordered("==", x, f32(0.0)), x, value)


def arctangent(b: Builder, y: Any, x: Any) -> Any:
    """Emit ``atan2(y, x)``, by libdevice's arctangent of a quotient up to 1."""
    ax, ay = _magnitude(b, x), _magnitude(b, y)
    steep = b.fcmp_ordered(">", ay, ax)
    # The quotient of the smaller by the larger coordinate is at most 1, where the arctangent is accurate.
    least, most = b.select(steep, ax, ay), b.select(steep, ay, ax)
    equal = b.fcmp_ordered("==", ax, ay)  # two infinities or two zeros among them
    ratio = b.select(equal, f32(1.0), divide(b, least, most))
    ratio = b.select(b.fcmp_ordered("==", most, f32(0.0)), f32(0.0), ratio)
    angle = _call(b, "__nv_atanf", ratio)
    angle = b.select(steep, b.fsub(f32(1.5707963267948966), angle), angle)
    left = b.icmp_signed("<", b.bitcast(x, I32), i32(0))  # -0 as well
    angle = b.select(left, b.fsub(f32(3.141592653589793), angle), angle)
    angle = _call(b, "llvm.copysign.f32", angle, y)
    unordered = b.fcmp_unordered("uno", x, y)
    return b.select(unordered, b.fadd(x, y), angle)


def _define(module: ir.Module, name: str, result: Any, args: list[Any], body: Define) -> Any:
    """Return a function of the module that depends on its arguments alone; equal calls merge before it is inlined."""
    known = module.globals.get(name)
    if known is not None:
        return known
    fn = ir.Function(module, ir.FunctionType(result, args), name)
    fn.linkage = "internal"
    for attribute in ("nounwind", "readnone", "inlinehint"):
        fn.attributes.add(attribute)
    b = ir.IRBuilder(fn.append_basic_block("entry"))
    b.ret(body(b, list(fn.args)))
    return fn


def _call(b: Builder, name: str, *args: Any) -> Any:
    return b.call(function(b.module, name, F32, [F32] * len(args)), args)


def fma(b: Builder, x: Any, y: Any, z: Any) -> Any:
    return _call(b, "llvm.fma.f32", x, y, z)


def _magnitude(b: Builder, x: Any) -> Any:
    return _call(b, "llvm.fabs.f32", x)


def _divide(b: Builder, args: list[Any]) -> Any:
    x, y = args
    size = _magnitude(b, y)
    huge, tiny = b.fcmp_ordered(">", size, f32(2.0**126)), b.fcmp_ordered("<", size, f32(2.0**-126))
    # The hardware's reciprocal neither takes nor gives subnormal numbers.
    scale = b.select(huge, f32(2.0**-24), b.select(tiny, f32(2.0**24), f32(1.0)))
    x, y = b.fmul(x, scale), b.fmul(y, scale)
    r = approximate(b, "rcp", y)
    q = b.fmul(x, r)
    # One Newton step: the remainder x - q y is exact with a fused multiply-add.
    better = fma(b, fma(b, b.fneg(q), y, x), r, q)
    # The step loses the sign of a zero, and makes a NaN of an infinity.
    sign = b.and_(b.bitcast(q, I32), i32(-0x80000000))
    kept = b.bitcast(b.or_(b.bitcast(better, I32), sign), F32)
    return b.select(b.fcmp_unordered("uno", better, better), q, kept)


def _square_root(b: Builder, args: list[Any]) -> Any:
    (x,) = args
    tiny = b.fcmp_ordered("<", x, f32(2.0**-100))
    # Scaled by an even power of two, whose root is exact.
    t = b.select(tiny, b.fmul(x, f32(2.0**64)), x)
    r = approximate(b, "rsqrt", t)
    # s = t / sqrt(t), corrected by half of its residual over the root.
    s = b.fmul(t, r)
    better = fma(b, fma(b, b.fneg(s), s, t), b.fmul(r, f32(0.5)), s)
    better = b.select(tiny, b.fmul(better, f32(2.0**-32)), better)
    itself = b.or_(b.fcmp_ordered("==", x, f32(0.0)), b.fcmp_ordered("==", x, f32(float("inf"))))
    return b.select(itself, x, better)


def _reduce(b: Builder, x: Any) -> tuple[Any, Any]:
    """Return the remainder of ``x`` in [-pi/4, pi/4] and an integer whose low two bits count quarter turns."""
    fn = _define(b.module, "dk_reduce_f32", _REDUCED, [F32], _reduction)
    made: list[tuple[Any, Any]] = fn.__dict__.setdefault("reductions", [])
    for argument, pair in made:
        # A sine and a cosine of one number share it. No compiler would notice once it is inlined: it has a branch.
        if argument is x and _dominates(pair.parent, b.block):
            break
    else:
        pair = b.call(fn, [x])
        made.append((x, pair))
    return b.extract_value(pair, 0), b.extract_value(pair, 1)


def _dominates(block: Any, other: Any) -> bool:
    """Return whether every path from the function's entry to the block being written leads through another one."""
    entry = block.function.entry_basic_block
    return block is other or (other in _reached(entry) and other not in _reached(entry, without=block))


def _reached(entry: Any, without: Any = None) -> set[Any]:
    seen: set[Any] = set()
    more = [entry]
    while more:
        block = more.pop()
        if block is not without and block not in seen:
            seen.add(block)
            more += [b for b in getattr(block.terminator, "operands", ()) if isinstance(b, ir.Block)]
    return seen


def _reduction(b: Builder, args: list[Any]) -> Any:
    (x,) = args
    # The rounder moves the nearest integer into the low bits, where it is read as the number of quarter turns.
    shifted = fma(b, x, f32(_TWO_OVER_PI), f32(_ROUNDER))
    n = b.fneg(b.fsub(shifted, f32(_ROUNDER)))
    rest = x
    # pi/2 in three parts: the product with the first one is exact, the others supply the lost digits.
    for part in _PIO2:
        rest = fma(b, n, f32(part), rest)
    quarter = b.bitcast(shifted, I32)
    before = b.block
    # Written as not-less, so that a NaN takes the long way and stays NaN.
    with b.if_then(b.not_(b.fcmp_ordered("<", _magnitude(b, x), f32(_MEDIUM))), likely=False):
        far_rest, far_quarter = _reduce_far(b, x)
        inside = b.block
    out = []
    for near, far in ((rest, far_rest), (quarter, far_quarter)):
        phi = b.phi(near.type)
        phi.add_incoming(near, before)
        phi.add_incoming(far, inside)
        out.append(phi)
    pair: Any = ir.Constant(_REDUCED, ir.Undefined)
    return b.insert_value(b.insert_value(pair, out[0], 0), out[1], 1)


def _reduce_far(b: Builder, x: Any) -> tuple[Any, Any]:
    bits = b.bitcast(x, I32)
    mantissa = b.or_(b.shl(bits, i32(8)), i32(-0x80000000))
    exponent = b.sub(b.and_(b.lshr(bits, i32(23)), i32(255)), i32(126))
    # Only the words of 2/pi around the exponent matter: higher ones give whole turns, lower ones are below the result.
    first = b.lshr(exponent, i32(5))
    words = [b.zext(_word(b, b.add(first, i32(k))), I64) for k in range(4)]
    count = b.zext(b.and_(exponent, i32(31)), I64)

    def shifted(high: Any, low: Any) -> Any:
        return b.lshr(b.shl(b.or_(b.shl(high, i64(32)), low), count), i64(32))

    high, middle, low = (shifted(a, c) for a, c in itertools.pairwise(words))
    # The product of mantissa and fraction, of which only the bits after whole turns are kept.
    wide = b.zext(mantissa, I64)
    product = b.add(b.mul(wide, middle), b.lshr(b.mul(wide, low), i64(32)))
    product = b.add(product, b.shl(b.mul(wide, high), i64(32)))
    # Fixed point with 62 bits behind the point: round to the nearest quarter turn.
    quarter = b.trunc(b.lshr(b.add(product, i64(1 << 61)), i64(62)), I32)
    rest = b.sub(product, b.shl(b.zext(quarter, I64), i64(62)))
    scaled = b.fmul(b.sitofp(rest, F32), f32(2.0**-62))
    fraction = fma(b, scaled, f32(_PIO2[0]), b.fmul(scaled, f32(_PIO2[1])))
    negative = b.icmp_signed("<", bits, i32(0))
    fraction = b.select(negative, b.fneg(fraction), fraction)
    quarter = b.select(negative, b.neg(quarter), quarter)
    finite = b.fcmp_ordered("<", _magnitude(b, x), f32(float("inf")))
    return b.select(finite, fraction, f32(float("nan"))), quarter


def _word(b: Builder, index: Any) -> Any:
    table = b.module.globals.get("dk_one_over_two_pi")
    if table is None:
        kind = ir.ArrayType(I32, len(_BITS))
        table = ir.GlobalVariable(b.module, kind, "dk_one_over_two_pi", addrspace=4)
        table.linkage = "internal"
        table.global_constant = True
        table.initializer = ir.Constant(kind, list(_BITS))
    return b.load(b.gep(table, [i32(0), index], inbounds=True))


def _polynomial(b: Builder, z: Any, coefficients: tuple[float, ...]) -> Any:
    total: Any = f32(coefficients[-1])
    for c in reversed(coefficients[:-1]):
        total = fma(b, total, z, f32(c))
    return total


def _sin_cos(b: Builder, r: Any) -> tuple[Any, Any]:
    z = b.fmul(r, r)
    # Odd and even polynomials in r, with the leading terms added last to keep their accuracy.
    s = fma(b, b.fmul(r, z), _polynomial(b, z, SIN_F), r)
    c = fma(b, fma(b, _polynomial(b, z, COS_F), z, f32(-0.5)), z, f32(1.0))
    return s, c


def _odd(b: Builder, quarter: Any) -> Any:
    return b.trunc(quarter, I1)


def _signed(b: Builder, value: Any, quarter: Any) -> Any:
    sign = b.shl(b.and_(quarter, i32(2)), i32(30))
    return b.bitcast(b.xor(b.bitcast(value, I32), sign), F32)
