"""Exact sums of floats on a GPU: additions to rows of digits, and the kernel that rounds a row to the array's element.

The rows are described in :mod:`diffkern.contracts.exact_sums`. All additions to them are of integers, so the order of
threads has no say in what they hold, and the result is the exact sum, rounded once, on any GPU.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from llvmlite import ir

from diffkern.contracts.exact_sums import (
    DIGITS,
    FINISH_FIELDS,
    INFINITE,
    NEGATIVE,
    NOT_A_NUMBER,
    Digits,
    Finish,
    finish_symbol,
)
from diffkern.ir.types import BFLOAT16, FLOAT16, FLOAT32, FLOAT64, Scalar
from diffkern.targets.cuda.registers import WARP, special, update_quietly
from diffkern.targets.emit.frame import untyped
from diffkern.targets.emit.memory import element_size, wrap_index
from diffkern.targets.emit.types import F32, I8, I32, I64, VOID, Builder, from_memory, i32, i64, memory_type

__all__ = ["Rows", "add_exactly", "finish_kernel"]

_GLOBAL = 1
_WIDE = ir.IntType(128)
_AXES_FROM = Finish._fields.index("shape")
_PRECISION = {FLOAT16: (11, 5), BFLOAT16: (8, 8), FLOAT32: (24, 8), FLOAT64: (53, 11)}
"""Bits of a number's significand, the leading one counted, and of its exponent."""


class Rows:
    """The rows of one array, as a thread adds to them.

    Parameters
    ----------
    b
        A builder at the entry of the kernel.
    block
        The kernel's argument block.
    offset
        Where the three numbers about the rows are in it.
    s
        The scalar type of the array.
    """

    def __init__(self, b: Builder, block: Any, offset: int, s: Scalar) -> None:
        def at(k: int) -> Any:
            return b.gep(block, [i64(offset + 8 * k)], inbounds=True, source_etype=I8)

        first = b.load(at(0), typ=ir.PointerType(addrspace=_GLOBAL))
        stride, mask = b.load(at(1), typ=I64), b.load(at(2), typ=I64)
        thread = b.add(b.mul(special(b, "ctaid.x"), special(b, "ntid.x")), special(b, "tid.x"))
        copy = b.and_(b.zext(b.udiv(thread, i32(WARP)), I64), mask)
        self._first = b.gep(first, [b.mul(copy, stride)], source_etype=I8)
        self._digits = DIGITS[str(s)]

    def place(self, b: Builder, array: Any, indices: Sequence[Any], wrap: Sequence[bool], component: int) -> Any:
        """Return a pointer to the row of a component of an element."""
        flat: Any = i64(0)
        for index, extent, wraps in zip(indices, array.shape, wrap, strict=True):
            flat = b.add(b.mul(flat, extent), wrap_index(b, index, extent) if wraps else index)
        flat = b.add(b.mul(flat, i64(element_size(array.type.dtype))), i64(component))
        return b.gep(self._first, [b.mul(flat, i64(self._digits.nbytes))], source_etype=I8)


class _Float(NamedTuple):
    """A float in digits.

    Attributes
    ----------
    flag
        The bit for a value without digits; 0 for others.
    first, digits
        The number of the first digit, and the digits from there with the float's sign.
    """

    flag: Any
    first: Any
    digits: tuple[Any, ...]


def _split(b: Builder, value: Any, form: Digits) -> _Float:
    s = FLOAT32 if value.type == F32 else FLOAT64
    precision, exponent_bits = _PRECISION[s]
    raw = b.bitcast(value, ir.IntType(s.bits))
    bits = b.zext(raw, I64) if s.bits < 64 else raw
    top = (1 << exponent_bits) - 1
    exponent = b.and_(b.lshr(bits, i64(precision - 1)), i64(top))
    fraction = b.and_(bits, i64((1 << (precision - 1)) - 1))
    negative = b.icmp_unsigned("!=", b.lshr(bits, i64(s.bits - 1)), i64(0))
    is_number = b.icmp_unsigned("!=", exponent, i64(top))
    infinite = b.select(negative, i64(NEGATIVE), i64(INFINITE))
    other = b.select(b.icmp_unsigned("!=", fraction, i64(0)), i64(NOT_A_NUMBER), infinite)
    # Subnormal numbers have the exponent of the smallest normal ones, and no leading one.
    normal = b.icmp_unsigned("!=", exponent, i64(0))
    significand = b.select(normal, b.or_(fraction, i64(1 << (precision - 1))), fraction)
    significand = b.select(is_number, significand, i64(0))
    shift = b.trunc(b.select(normal, b.sub(exponent, i64(1)), i64(0)), I32)
    first = b.udiv(shift, i32(form.bits))
    left = b.zext(b.sub(shift, b.mul(first, i32(form.bits))), I64)
    parts = [b.and_(b.shl(significand, left), i64((1 << form.bits) - 1))]
    # The number of further digits that the significand may reach, moved by up to one bit less than a digit has.
    for k in range(1, -(-(precision - 1) // form.bits) + 1):
        part = b.lshr(significand, b.sub(i64(k * form.bits), left))
        parts.append(b.and_(part, i64((1 << form.bits) - 1)))
    signed = tuple(b.select(negative, b.neg(part), part) for part in parts)
    return _Float(b.select(is_number, i64(0), other), b.zext(first, I64), signed)


def add_exactly(b: Builder, s: Scalar, row: Any, value: Any) -> None:
    """Add a number to a row."""
    b.call(_adder(b.module, s, value.type), [row, value])


def _adder(module: Any, s: Scalar, kind: Any) -> Any:
    """Return the function that adds a number to a row."""
    form, name = DIGITS[str(s)], f"dk_exact_add_{'f32' if kind == F32 else 'f64'}"
    known = module.globals.get(name)
    if known is not None:
        return known
    fn = ir.Function(module, ir.FunctionType(VOID, [ir.PointerType(addrspace=_GLOBAL), kind]), name)
    fn.linkage = "internal"
    fn.attributes.add("nounwind")
    row, value = fn.args
    b = ir.IRBuilder(fn.append_basic_block("entry"))
    found = _split(b, value, form)
    with b.if_then(b.icmp_unsigned("!=", found.flag, i64(0)), likely=False):
        update_quietly(b, "or", _word(b, row, i64(form.length)), found.flag)
    place = _word(b, row, found.first)
    # Many floats are short: of a digit that is 0 nothing is added.
    for k, digit in enumerate(found.digits):
        with b.if_then(b.icmp_unsigned("!=", digit, i64(0))):
            update_quietly(b, "add", _word(b, place, i64(k)), digit)
    b.ret_void()
    return fn


def _word(b: Builder, row: Any, k: Any) -> Any:
    return b.gep(row, [k], source_etype=I64)


# -- after the launch --------------------------------------------------------------------------------------------------


def finish_kernel(module: Any, symbol: str, s: Scalar) -> str:
    """Emit the kernel that adds rows to the elements of an array, and clears them; return its name."""
    name = finish_symbol(symbol, str(s))
    fn = ir.Function(module, ir.FunctionType(VOID, [ir.PointerType(ir.ArrayType(I64, FINISH_FIELDS))]), name)
    fn.calling_convention = "ptx_kernel"
    fn.attributes.add("nounwind")
    (block,) = fn.args
    block.add_attribute("byval")
    block.attributes.align = 8
    _Finish(ir.IRBuilder(fn.append_basic_block("entry")), block, s).emit()
    return name


class _Finish:
    """The second kernel under construction; a thread is for a scalar of the array, and goes on by the size of the grid.

    Attributes
    ----------
    row
        The row of the first copy.
    carry
        A slot for what a digit hands to the next one.
    """

    row: Any

    def __init__(self, b: Builder, block: Any, s: Scalar) -> None:
        self.b, self.s, self.form = b, s, DIGITS[str(s)]
        self._block = block
        self.carry, self.seen, self.number, self.lowest, self.rest = (self.slot(t) for t in (I64, I64, _WIDE, I64, I64))
        self._counters = [self.slot(I64) for _ in range(3)]
        self.data, self.rows = (self._field(k, ir.PointerType(addrspace=_GLOBAL)) for k in range(2))
        self.scalars, self.copies, self.stride, self.components = (self._field(k) for k in range(2, _AXES_FROM))
        axes = [self._field(k) for k in range(_AXES_FROM, FINISH_FIELDS)]
        half = len(axes) // 2
        self.axes = list(zip(axes[:half], axes[half:], strict=True))

    def slot(self, kind: Any) -> Any:
        """Return memory for a variable."""
        return untyped(self.b.alloca(kind))

    def held(self, slot: Any) -> Any:
        """Return the integer in a slot."""
        return self.b.load(slot, typ=I64)

    def _field(self, k: int, kind: Any = I64) -> Any:
        """Return a number of the block; all are read at the entry."""
        return self.b.load(self.b.gep(self._block, [i64(8 * k)], inbounds=True, source_etype=I8), typ=kind)

    def emit(self) -> None:
        b = self.b
        thread, ntid = special(b, "tid.x"), special(b, "ntid.x")
        start = b.add(b.mul(b.zext(special(b, "ctaid.x"), I64), b.zext(ntid, I64)), b.zext(thread, I64))
        step = b.mul(b.zext(special(b, "nctaid.x"), I64), b.zext(ntid, I64))
        with self.loop(0, start, self.scalars, step) as i:
            self.row = b.gep(self.rows, [b.mul(i, i64(self.form.nbytes))], source_etype=I8)
            b.store(i64(0), self.seen)
            with self.each_copy() as row, self.loop(2, i64(0), i64(self.form.words), i64(1)) as k:
                b.store(b.or_(self.held(self.seen), self.get(row, k)), self.seen)
            # An element that nothing was added to stays as it is, to the last bit.
            with b.if_then(b.icmp_unsigned("!=", self.held(self.seen), i64(0))):
                self.element(i)
        b.ret_void()

    @contextlib.contextmanager
    def loop(self, level: int, first: Any, end: Any, step: Any, sign: str = "<") -> Iterator[Any]:
        """Emit a loop over integers at a level of nesting."""
        b, counter = self.b, self._counters[level]
        head, body, done = (b.append_basic_block(name) for name in ("head", "body", "done"))
        b.store(first, counter)
        b.branch(head)
        b.position_at_end(head)
        k = b.load(counter, typ=I64)
        b.cbranch(b.icmp_signed(sign, k, end), body, done)
        b.position_at_end(body)
        yield k
        b.store(b.add(k, step), counter)
        b.branch(head)
        b.position_at_end(done)

    @contextlib.contextmanager
    def each_copy(self) -> Iterator[Any]:
        """Emit a loop over the rows of the copies."""
        b = self.b
        with self.loop(1, i64(0), self.copies, i64(1)) as copy:
            yield b.gep(self.row, [b.mul(copy, self.stride)], source_etype=I8)

    def get(self, row: Any, k: Any) -> Any:
        return self.b.load(_word(self.b, row, k), typ=I64)

    def element(self, i: Any) -> None:
        """Add a row to the element, and clear it."""
        b, s = self.b, self.s
        place = self.place(i)
        old = from_memory(b, s, b.load(place, typ=memory_type(s)))
        added = _split(b, old, self.form)
        flags = b.or_(added.flag, self.flags())
        self.normalise(added)
        negative = b.icmp_signed("<", self.held(self.carry), i64(0))
        with b.if_then(negative):
            self.negate()
        rounded = self.rounded(negative)
        bits = ir.IntType(s.bits)
        word = b.trunc(self.special(flags, rounded), bits) if s.bits < 64 else self.special(flags, rounded)
        memory = memory_type(s)
        b.store(word if memory == bits else b.bitcast(word, memory), place)

    def place(self, i: Any) -> Any:
        """Return a pointer to a scalar of the array."""
        b = self.b
        rest = b.udiv(i, self.components)
        offset = b.mul(b.sub(i, b.mul(rest, self.components)), i64(self.s.itemsize))
        for extent, stride in reversed(self.axes):
            before = b.udiv(rest, extent)
            index = b.sub(rest, b.mul(before, extent))
            offset = b.add(offset, b.mul(index, stride))
            rest = before
        return b.gep(self.data, [offset], source_etype=I8)

    def flags(self) -> Any:
        """Return the last word of a row, and clear it."""
        b, last = self.b, i64(self.form.length)
        b.store(i64(0), self.seen)
        with self.each_copy() as row:
            b.store(b.or_(self.held(self.seen), self.get(row, last)), self.seen)
            b.store(i64(0), _word(b, row, last))
        return self.held(self.seen)

    def normalise(self, added: _Float) -> None:
        """Add up the copies, and the old element, in the first copy, whose digits become at least 0.

        The others are cleared. What is left beyond the last digit has the sign of the sum.
        """
        b, form = self.b, self.form
        b.store(i64(0), self.carry)
        with self.loop(2, i64(0), i64(form.length), i64(1)) as k:
            b.store(self.held(self.carry), self.seen)
            for offset, digit in enumerate(added.digits):
                mine = b.icmp_unsigned("==", k, b.add(added.first, i64(offset)))
                b.store(b.add(self.held(self.seen), b.select(mine, digit, i64(0))), self.seen)
            with self.each_copy() as row:
                b.store(b.add(self.held(self.seen), self.get(row, k)), self.seen)
                b.store(i64(0), _word(b, row, k))
            self.put(k, self.held(self.seen))

    def put(self, k: Any, total: Any) -> None:
        """Store a digit of a number, and hand the rest of it on."""
        b, form = self.b, self.form
        b.store(b.and_(total, i64((1 << form.bits) - 1)), _word(b, self.row, k))
        b.store(b.ashr(total, i64(form.bits)), self.carry)

    def negate(self) -> None:
        """Change the sign of a sum."""
        b, beyond = self.b, self.held(self.carry)
        b.store(i64(0), self.carry)
        with self.loop(2, i64(0), i64(self.form.length), i64(1)) as k:
            self.put(k, b.sub(self.held(self.carry), self.get(self.row, k)))
        b.store(b.sub(self.held(self.carry), beyond), self.carry)

    def leading(self) -> Any:
        """Leave the leading bits of a sum in `number`, and the place of the lowest in `lowest`; clear the row.

        Return whether there are others below that are not 0.
        """
        b, form = self.b, self.form
        b.store(b.zext(self.held(self.carry), _WIDE), self.number)
        b.store(i64(form.length * form.bits), self.lowest)
        b.store(i64(0), self.rest)
        room = ir.Constant(_WIDE, 1 << (127 - form.bits))
        with self.loop(2, i64(form.length - 1), i64(0), i64(-1), ">=") as k:
            digit, number = self.get(self.row, k), b.load(self.number, typ=_WIDE)
            b.store(i64(0), _word(b, self.row, k))
            fits = b.icmp_unsigned("<", number, room)
            longer = b.or_(b.shl(number, ir.Constant(_WIDE, form.bits)), b.zext(digit, _WIDE))
            b.store(b.select(fits, longer, number), self.number)
            lowest, rest = self.held(self.lowest), self.held(self.rest)
            b.store(b.select(fits, b.mul(k, i64(form.bits)), lowest), self.lowest)
            b.store(b.select(fits, rest, b.or_(rest, digit)), self.rest)
        return b.icmp_unsigned("!=", self.held(self.rest), i64(0))

    def rounded(self, negative: Any) -> Any:
        """Return the bits of a sum, rounded to the nearest float, of two to the even one."""
        b, (precision, _) = self.b, _PRECISION[self.s]
        # The sums' unit is the smallest float of the type in which they were added up; a narrower one has a coarser.
        coarser = _unit(self.s) - _unit(FLOAT64 if self.s == FLOAT64 else FLOAT32)
        below, number, lowest = self.leading(), b.load(self.number, typ=_WIDE), self.held(self.lowest)
        length = b.sub(i64(128), b.trunc(b.ctlz(number, ir.Constant(ir.IntType(1), 0)), I64))
        unit = b.sub(b.add(lowest, length), i64(precision))
        unit = b.select(b.icmp_signed(">", unit, i64(coarser)), unit, i64(coarser))
        shift = b.sub(unit, lowest)
        # To the left where all bits fit.
        left = b.icmp_signed("<=", shift, i64(0))
        right = b.zext(b.select(left, i64(0), shift), _WIDE)
        number = b.shl(number, b.zext(b.select(left, b.neg(shift), i64(0)), _WIDE))
        kept = b.lshr(number, right)
        lost = b.sub(number, b.shl(kept, right))
        half = b.lshr(b.shl(ir.Constant(_WIDE, 1), right), ir.Constant(_WIDE, 1))
        odd = b.icmp_unsigned("!=", b.and_(kept, ir.Constant(_WIDE, 1)), ir.Constant(_WIDE, 0))
        tied = b.and_(b.icmp_unsigned("==", lost, half), b.icmp_unsigned("!=", half, ir.Constant(_WIDE, 0)))
        up = b.or_(b.icmp_unsigned(">", lost, half), b.and_(tied, b.or_(below, odd)))
        significand = b.add(b.trunc(kept, I64), b.zext(up, I64))
        # The leading one of a normal number adds 1 to its exponent, and so does a significand that was rounded up to
        # the next power of two.
        bits = b.add(b.shl(b.sub(unit, i64(coarser)), i64(precision - 1)), significand)
        infinite = i64(_infinite(self.s))
        bits = b.select(b.icmp_unsigned("<", bits, infinite), bits, infinite)
        return b.or_(bits, b.select(negative, i64(_sign(self.s)), i64(0)))

    def special(self, flags: Any, bits: Any) -> Any:
        """Return the bits of a sum in which infinities and NaN may occur."""
        b, infinite = self.b, _infinite(self.s)
        negative = b.icmp_unsigned("==", flags, i64(NEGATIVE))
        one_sign = b.or_(negative, b.icmp_unsigned("==", flags, i64(INFINITE)))
        signed = b.select(negative, i64(infinite | _sign(self.s)), i64(infinite))
        quiet = infinite | 1 << (_PRECISION[self.s][0] - 2)
        found = b.select(one_sign, signed, i64(quiet))
        return b.select(b.icmp_unsigned("==", flags, i64(0)), bits, found)


def _infinite(s: Scalar) -> int:
    precision, exponent_bits = _PRECISION[s]
    return ((1 << exponent_bits) - 1) << (precision - 1)


def _sign(s: Scalar) -> int:
    """Return the bit of the sign, as a signed integer of 64 bits."""
    return 1 << (s.bits - 1) if s.bits < 64 else -(1 << 63)


def _unit(s: Scalar) -> int:
    """Return the exponent of the smallest positive float."""
    precision, exponent_bits = _PRECISION[s]
    return 3 - (1 << (exponent_bits - 1)) - precision
