"""The primitives that generated CUDA source calls besides numba-cuda itself, in two forms.

In compiled kernels a primitive is a device function; in numba's CUDA simulator (``NUMBA_ENABLE_CUDASIM=1``) it works on
NumPy's scalars. Both follow the operation table: a zero divisor gives 0, a cast to an integer saturates, NaN is passed
on by ``min`` and ``max``.

``diffkern export`` copies the definitions that a kernel needs into a module of its own. So they are statements at the
top level that use numba-cuda, NumPy, one another, and functions that stand alone in ``diffkern.printing.prims``.
Generated source that is read but not run does not need this module.
"""

from __future__ import annotations

import builtins
import ctypes
import math
import operator
import threading
from typing import Any

import numpy as np
from numba import config, cuda

from diffkern.ir.ops.table import all_ops
from diffkern.printing.prims import schedule

SIMULATED = bool(config.ENABLE_CUDASIM)

if not SIMULATED:
    from numba.cuda import cgutils, libdevice, types
    from numba.cuda.extending import intrinsic, overload

bool_ = np.bool_
int8, int16, int32, int64 = np.int8, np.int16, np.int32, np.int64
uint8, uint16, uint32, uint64 = np.uint8, np.uint16, np.uint32, np.uint64
float16, float32, float64 = np.float16, np.float32, np.float64
inf, nan = math.inf, math.nan
abs = builtins.abs  # noqa: A001


def device(function: Any) -> Any:
    """Return a function that kernels can call."""
    return function if SIMULATED else cuda.jit(device=True)(function)


# -- numbers -----------------------------------------------------------------------------------------------------------


@device
def select(condition: Any, a: Any, b: Any) -> Any:
    """Return one of two values that are both computed."""
    return a if condition else b


@device
def min(a: Any, b: Any) -> Any:  # noqa: A001
    """Return the smaller; the first of equals; NaN if either is NaN."""
    return a if a <= b or a != a else b


@device
def max(a: Any, b: Any) -> Any:  # noqa: A001
    """Return the larger; the first of equals; NaN if either is NaN."""
    return a if a >= b or a != a else b


@device
def hypot(x: Any, y: Any) -> Any:
    """Return the length of a vector, without squares that overflow."""
    return math.hypot(x, y)


@device
def isnan(x: Any) -> Any:
    """Return whether a number is NaN."""
    return x != x


@device
def isinf(x: Any) -> Any:
    """Return whether a number is infinite."""
    return x == math.inf or x == -math.inf


@device
def isfinite(x: Any) -> Any:
    """Return whether a number is neither infinite nor NaN."""
    return x - x == 0


@device
def floordiv(a: Any, b: Any) -> Any:
    """Return the quotient rounded down; 0 if the divisor is 0."""
    return a // b if b != 0 else a * 0


@device
def mod(a: Any, b: Any) -> Any:
    """Return the remainder, with the sign of the divisor; 0 if that is 0."""
    return a % b if b != 0 else a * 0


@device
def truncdiv(a: Any, b: Any) -> Any:
    """Return the quotient rounded toward zero; 0 if the divisor is 0."""
    if b == 0:
        return a * 0
    down = a // b
    return down + 1 if down * b != a and (a < 0) != (b < 0) else down


if SIMULATED:

    def rem(a: Any, b: Any) -> Any:
        """Return the remainder, with the sign of the dividend; for integers 0 if the divisor is 0."""
        with np.errstate(all="ignore"):
            return np.fmod(a, b)

else:

    def rem(a: Any, b: Any) -> Any:
        """Return the remainder, with the sign of the dividend; for integers 0 if the divisor is 0."""
        raise NotImplementedError

    def rem_of(a: Any, b: Any) -> Any:
        if isinstance(a, types.Integer):
            return lambda a, b: a - truncdiv(a, b) * b
        rest = libdevice.fmodf if a == types.float32 else libdevice.fmod
        return lambda a, b: rest(a, b)  # noqa: PLW0108  # numba compiles it

    overload(rem, target="cuda")(lambda a, b: rem_of(a, b))  # noqa: PLW0108  # numba compares signatures


if SIMULATED:

    def sign(x: Any) -> Any:
        """Return 1, -1 or 0, as the number is; NaN stays NaN."""
        return x if x != x or x == 0 else type(x)(1 if x > 0 else -1)

else:

    def sign(x: Any) -> Any:
        """Return 1, -1 or 0, as the number is; NaN stays NaN."""
        raise NotImplementedError

    def sign_of(x: Any) -> Any:
        if isinstance(x, types.Integer):
            return lambda x: (x > 0) - (x < 0)
        one, signed = (np.float32(1), libdevice.copysignf) if x == types.float32 else (1.0, libdevice.copysign)
        return lambda x: x if x != x or x == 0 else signed(one, x)

    overload(sign, target="cuda")(lambda x: sign_of(x))  # noqa: PLW0108  # numba compares signatures


def saturating(to: Any) -> Any:
    """Return a cast of floats to integers: too large a number becomes the largest of them, NaN 0."""
    low, high = int(np.iinfo(to).min), int(np.iinfo(to).max)
    below, above = float(low), float(high)

    def saturated(x: Any) -> Any:
        if x != x:
            return to(0)
        if x <= below:
            return to(low)
        return to(high) if x >= above else to(x)

    return device(saturated)


saturated_int8 = saturating(np.int8)
saturated_int16 = saturating(np.int16)
saturated_int32 = saturating(np.int32)
saturated_int64 = saturating(np.int64)
saturated_uint8 = saturating(np.uint8)
saturated_uint16 = saturating(np.uint16)
saturated_uint32 = saturating(np.uint32)
saturated_uint64 = saturating(np.uint64)

if SIMULATED:

    def from_bfloat16(bits: Any) -> Any:
        """Return the number with these bits."""
        return (np.asarray(bits, np.uint32) << np.uint32(16)).view(np.float32)[()]

    def to_bfloat16(value: Any) -> Any:
        """Return the bits of a float32 rounded to the nearest bfloat16, ties to even; NaN stays NaN."""
        bits = np.asarray(value, np.float32).view(np.uint32)
        if np.isnan(value):
            return np.uint16((bits >> np.uint32(16)) | np.uint32(0x40))
        return np.uint16((bits + ((bits >> np.uint32(16)) & np.uint32(1)) + np.uint32(0x7FFF)) >> np.uint32(16))

else:

    @device
    def from_bfloat16(bits: Any) -> Any:
        """Return the number with these bits."""
        return libdevice.int_as_float(np.int32(np.int32(bits) << 16))

    @device
    def to_bfloat16(value: Any) -> Any:
        """Return the bits of a float32 rounded to the nearest bfloat16, ties to even; NaN stays NaN."""
        bits = np.uint32(libdevice.float_as_int(value))
        if value != value:
            return np.uint16((bits >> 16) | 0x40)
        return np.uint16((bits + ((bits >> 16) & 1) + 0x7FFF) >> 16)


if SIMULATED:

    def round_float16(value: Any) -> Any:
        """Return the number rounded to the nearest float16."""
        return np.float32(np.float16(value))


@device
def round_bfloat16(value: Any) -> Any:
    """Return the number rounded to the nearest bfloat16."""
    return from_bfloat16(to_bfloat16(value))


# -- elementary functions ----------------------------------------------------------------------------------------------


def elementary(name: Any, simulated: Any) -> Any:
    """Return the function of libdevice for the type of the argument."""
    if SIMULATED:
        return simulated
    single, double = getattr(libdevice, f"{name}f"), getattr(libdevice, name)

    def function(x: Any) -> Any:
        raise NotImplementedError(name)

    def chosen(x: Any) -> Any:
        of_type = single if x == types.float32 else double
        return lambda x: of_type(x)  # noqa: PLW0108

    overload(function, target="cuda")(lambda x: chosen(x))  # noqa: PLW0108
    return function


def elementary_of_two(name: Any, simulated: Any) -> Any:
    """Return the function of libdevice for the type of the arguments."""
    if SIMULATED:
        return simulated
    single, double = getattr(libdevice, f"{name}f"), getattr(libdevice, name)

    def function(x: Any, y: Any) -> Any:
        raise NotImplementedError(name)

    def chosen(x: Any) -> Any:
        of_type = single if x == types.float32 else double
        return lambda x, y: of_type(x, y)  # noqa: PLW0108

    overload(function, target="cuda")(lambda x, y: chosen(x))
    return function


def in_double(function: Any) -> Any:
    """Return a function in Python's floats, infinite where it overflows, NaN outside of its domain."""

    def call(x: Any) -> Any:
        try:
            return type(x)(function(float(x)))
        except ArithmeticError:
            return type(x)(math.inf)
        except ValueError:
            return type(x)(math.nan)

    return call


def gamma_in_double(x: Any) -> Any:
    """Return the gamma function: infinite at 0 with its sign, NaN at negative integers."""
    return np.copysign(type(x)(math.inf), x) if x == 0 else in_double(math.gamma)(x)


def lgamma_in_double(x: Any) -> Any:
    """Return the logarithm of its absolute value: infinite at 0 and at negative integers."""
    return type(x)(math.inf) if x <= 0 and x == np.floor(x) else in_double(math.lgamma)(x)


def half_away(x: Any) -> Any:
    """Return the nearest whole number, halves away from 0."""
    whole = np.trunc(x)
    return whole if np.abs(x - whole) < 0.5 else whole + np.copysign(type(x)(1), x)


rsqrt = elementary("rsqrt", lambda x: type(x)(1) / np.sqrt(x))
erf = elementary("erf", in_double(math.erf))
erfc = elementary("erfc", in_double(math.erfc))
gamma = elementary("tgamma", gamma_in_double)
lgamma = elementary("lgamma", lgamma_in_double)
round = elementary("round", half_away)  # noqa: A001

# All others are as their rows say. What is copied of them has lines like those above, with NumPy's function.
for _name, _row in all_ops().items():
    if _row.library is not None and _row.library.libdevice and _name not in globals():
        globals()[_name] = (elementary_of_two if _row.arity == 2 else elementary)(_row.library.libdevice, _row.twin)

# -- indices and loops -------------------------------------------------------------------------------------------------

index = np.int32 if SIMULATED else np.uint32
"""A component of a thread's index. NumPy's unsigned integers would wrap around in ``i - 1``, numba's do not."""

if SIMULATED:

    def at(place: Any) -> Any:
        """Return a subscript that is known not to be negative."""
        return place

else:

    def at(place: Any) -> Any:
        """Return a subscript that is known not to be negative: numba counts negative signed ones from the end."""
        raise NotImplementedError

    def unsigned(place: Any) -> Any:
        to = np.uint32 if place.bitwidth <= 32 else np.uint64
        return lambda place: to(place)  # noqa: PLW0108

    overload(at, target="cuda")(lambda place: unsigned(place))  # noqa: PLW0108

if SIMULATED:

    def irange(start: Any, stop: Any, step: Any = 1) -> Any:
        """Return the values of a loop, in the type of its bounds; none for a step of 0."""
        kind = next((type(v) for v in (start, stop, step) if isinstance(v, np.integer)), np.int32)
        return (kind(k) for k in range(int(start), int(stop), int(step))) if step != 0 else iter(())

    def trip_count(start: Any, stop: Any, step: Any) -> Any:
        """Return how many values a range has; 0 for a step of 0."""
        return len(range(int(start), int(stop), int(step))) if step != 0 else 0

else:

    def irange(start: Any, stop: Any, step: Any = 1) -> Any:
        """Return the values of a loop, in the type of its bounds: numba gives literals 64 bits."""
        raise NotImplementedError

    def range_of(*bounds: Any) -> Any:
        typed = [t for t in bounds if isinstance(t, types.Integer) and not isinstance(t, types.IntegerLiteral)]
        wide = any(t.bitwidth > 32 or (t.bitwidth == 32 and not t.signed) for t in typed)
        positive = any(t.bitwidth > 32 and not t.signed for t in typed)
        # numba subtracts the start from the stop: in 32 bits that wraps unless one of them is 0, or -1 behind it.
        start, stop = (getattr(t, "literal_value", None) for t in bounds[:2])
        wraps = any(t.bitwidth == 32 for t in typed) and start != 0 and stop != -1
        to = np.uint64 if positive else np.int64 if wide or wraps else np.int32
        return lambda start, stop, step=1: range(to(start), to(stop), to(step))

    overload(irange, target="cuda", prefer_literal=True)(lambda start, stop, step=1: range_of(start, stop, step))

    @device
    def trip_count(start: Any, stop: Any, step: Any) -> Any:
        """Return how many values a range of 64 bits has, without overflow; 0 for a step of 0."""
        count = np.uint64(0)
        if step > 0 and start < stop:
            count = (np.uint64(stop) - np.uint64(start) - np.uint64(1)) // np.uint64(step) + np.uint64(1)
        if step < 0 and stop < start:
            size = np.uint64(0) - np.uint64(step)
            count = (np.uint64(start) - np.uint64(stop) - np.uint64(1)) // size + np.uint64(1)
        return count


if SIMULATED:

    def part_of(memory: Any, offset: Any, shape: Any, dtype: Any) -> Any:
        """Return an array in the shared memory that a launch requests, from a byte on."""
        size = math.prod(shape) * np.dtype(dtype).itemsize
        return memory[offset : offset + size].view(dtype).reshape(shape)

else:

    @intrinsic
    def part_of(context: Any, memory: Any, offset: Any, shape: Any, dtype: Any) -> Any:
        """Return an array in the shared memory that a launch requests, from a byte on."""
        made = types.Array(dtype.dtype, len(shape), "C")

        def emit(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            extents = [
                context.cast(builder, n, t, types.intp)
                for n, t in zip(cgutils.unpack_tuple(builder, values[2]), signature.args[2], strict=True)
            ]
            size = context.get_abi_sizeof(context.get_data_type(made.dtype))
            strides = [context.get_constant(types.intp, size)]
            for n in extents[:0:-1]:
                strides.insert(0, builder.mul(strides[0], n))
            array = context.make_array(made)(context, builder)
            first = context.make_array(memory)(context, builder, values[0]).data
            data = builder.bitcast(builder.gep(first, [values[1]]), array.data.type)
            itemsize = context.get_constant(types.intp, size)
            context.populate_array(array, data=data, shape=extents, strides=strides, itemsize=itemsize, meminfo=None)
            return array._getvalue()

        return made(memory, offset, shape, dtype), emit


if SIMULATED:
    quotient = operator.floordiv
else:

    @intrinsic
    def quotient(context: Any, x: Any, y: Any) -> Any:
        """Return the quotient of unsigned integers, the second not 0; numba would test it each time."""

        def emit(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            return builder.udiv(*values)

        return x(x, x), emit


@device
def carry_2(dim: Any, i: Any, j: Any) -> Any:
    """Return an index whose last component may exceed its axis; the excess is carried to the left."""
    j = index(j)
    more = quotient(j, index(dim[1]))
    return index(i + more), index(j - more * dim[1])


@device
def carry_3(dim: Any, i: Any, j: Any, k: Any) -> Any:
    """Return an index whose last component may exceed its axis; the excess is carried to the left."""
    k = index(k)
    more = quotient(k, index(dim[2]))
    k = index(k - more * dim[2])
    j = index(j + more)
    more = quotient(j, index(dim[1]))
    return index(i + more), index(j - more * dim[1]), k


@device
def carry_4(dim: Any, i: Any, j: Any, k: Any, m: Any) -> Any:
    """Return an index whose last component may exceed its axis; the excess is carried to the left."""
    m = index(m)
    more = quotient(m, index(dim[3]))
    m = index(m - more * dim[3])
    k = index(k + more)
    more = quotient(k, index(dim[2]))
    k = index(k - more * dim[2])
    j = index(j + more)
    more = quotient(j, index(dim[1]))
    return index(i + more), index(j - more * dim[1]), k, m


next_checkpoint = device(schedule)

# -- memory ------------------------------------------------------------------------------------------------------------

updating = threading.Lock()
holding = threading.RLock()  # in the simulator one thread at a time holds elements
HELD_BITS = {"float16": 0x7D4B, "bfloat16": 0x7FA9, "float32": 0x7FA94D2B, "float64": 0x7FF4A94D2B5A6E97}

if SIMULATED:

    def peek(address: Any, index: Any, number: Any) -> Any:
        """Return an element of the memory that begins at an address."""
        size = np.dtype(number).itemsize
        return np.frombuffer(ctypes.string_at(int(address) + int(index) * size, size), number)[0]

    def add_at(address: Any, index: Any, value: Any, number: Any) -> None:
        """Add to a number of memory, one thread at a time."""
        held = ctypes.c_float if np.dtype(number).itemsize == 4 else ctypes.c_double
        with updating:
            held.from_address(int(address) + np.dtype(number).itemsize * int(index)).value += float(value)

    def poke(address: Any, index: Any, value: Any, number: Any) -> None:
        """Write an element of the memory that begins at an address."""
        size = np.dtype(number).itemsize
        ctypes.memmove(int(address) + int(index) * size, np.dtype(number).type(value).tobytes(), size)

else:

    @intrinsic
    def add_at(context: Any, address: Any, index: Any, value: Any, number: Any) -> Any:
        """Add to a number of memory, in one step."""

        def emit(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            start, position, given, _ = values
            wide = context.cast(builder, position, signature.args[1], types.int64)
            held = context.get_data_type(number.dtype)
            place = builder.add(start, builder.mul(wide, wide.type(context.get_abi_sizeof(held))))
            amount = context.cast(builder, given, signature.args[2], number.dtype)
            builder.atomic_rmw("fadd", builder.inttoptr(place, held.as_pointer()), amount, "monotonic")
            return context.get_dummy_value()

        return types.none(types.uint64, index, value, number), emit

    @intrinsic
    def poke(context: Any, address: Any, index: Any, value: Any, number: Any) -> Any:
        """Write an element of the memory that begins at an address."""

        def emit(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            start, position, given, _ = values
            wide = context.cast(builder, position, signature.args[1], types.int64)
            held = context.get_data_type(number.dtype)
            place = builder.add(start, builder.mul(wide, wide.type(context.get_abi_sizeof(held))))
            builder.store(
                context.cast(builder, given, signature.args[2], number.dtype),
                builder.inttoptr(place, held.as_pointer()),
            )
            return context.get_dummy_value()

        return types.none(types.uint64, index, value, number), emit

    @intrinsic
    def peek(context: Any, address: Any, index: Any, number: Any) -> Any:
        """Return an element of the memory that begins at an address."""

        def emit(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            start, position, _ = values
            wide = context.cast(builder, position, index, types.int64)
            held = context.get_data_type(number.dtype)
            size = context.get_abi_sizeof(held)
            place = builder.add(start, builder.mul(wide, wide.type(size)))
            loaded = builder.load(builder.inttoptr(place, held.as_pointer()))
            return context.data_model_manager[number.dtype].from_data(builder, loaded)

        return number.dtype(types.uint64, index, number), emit


@device
def deposit(address: Any, index: Any, value: Any) -> None:
    """Add to a float32 of the memory that begins at an address; nothing at the address 0."""
    if address != uint64(0):
        add_at(address, index, value, float32)


@device
def deposit_float64(address: Any, index: Any, value: Any) -> None:
    """Add to a float64 of the memory that begins at an address; nothing at the address 0."""
    if address != uint64(0):
        add_at(address, index, value, float64)


@device
def peek_bool(address: Any, index: Any) -> Any:
    """Return an element of the memory of bool that begins at an address."""
    return peek(address, index, np.bool_)


@device
def peek_int8(address: Any, index: Any) -> Any:
    """Return an element of the memory of int8 that begins at an address."""
    return peek(address, index, int8)


@device
def peek_int16(address: Any, index: Any) -> Any:
    """Return an element of the memory of int16 that begins at an address."""
    return peek(address, index, int16)


@device
def peek_int32(address: Any, index: Any) -> Any:
    """Return an element of the memory of int32 that begins at an address."""
    return peek(address, index, int32)


@device
def peek_int64(address: Any, index: Any) -> Any:
    """Return an element of the memory of int64 that begins at an address."""
    return peek(address, index, int64)


@device
def peek_uint8(address: Any, index: Any) -> Any:
    """Return an element of the memory of uint8 that begins at an address."""
    return peek(address, index, uint8)


@device
def peek_uint16(address: Any, index: Any) -> Any:
    """Return an element of the memory of uint16 that begins at an address."""
    return peek(address, index, uint16)


@device
def peek_uint32(address: Any, index: Any) -> Any:
    """Return an element of the memory of uint32 that begins at an address."""
    return peek(address, index, uint32)


@device
def peek_uint64(address: Any, index: Any) -> Any:
    """Return an element of the memory of uint64 that begins at an address."""
    return peek(address, index, uint64)


@device
def peek_float32(address: Any, index: Any) -> Any:
    """Return an element of the memory of float32 that begins at an address."""
    return peek(address, index, float32)


@device
def peek_float64(address: Any, index: Any) -> Any:
    """Return an element of the memory of float64 that begins at an address."""
    return peek(address, index, float64)


@device
def poke_int32(address: Any, index: Any, value: Any) -> None:
    """Write an element of the memory of int32 that begins at an address."""
    poke(address, index, value, int32)


@device
def poke_uint32(address: Any, index: Any, value: Any) -> None:
    """Write an element of the memory of uint32 that begins at an address."""
    poke(address, index, value, uint32)


@device
def poke_int64(address: Any, index: Any, value: Any) -> None:
    """Write an element of the memory of int64 that begins at an address."""
    poke(address, index, value, int64)


@device
def poke_float32(address: Any, index: Any, value: Any) -> None:
    """Write an element of the memory of float32 that begins at an address."""
    poke(address, index, value, float32)


@device
def poke_float64(address: Any, index: Any, value: Any) -> None:
    """Write an element of the memory of float64 that begins at an address."""
    poke(address, index, value, float64)


@device
def withdraw_float32(address: Any, index: Any) -> Any:
    """Return a float32 of memory, and set it to zero; zero at the address 0."""
    found = float32(0.0)
    if address != uint64(0):
        found = peek(address, index, float32)
        poke(address, index, float32(0.0), float32)
    return found


@device
def withdraw_float64(address: Any, index: Any) -> Any:
    """Return a float64 of memory, and set it to zero; zero at the address 0."""
    found = float64(0.0)
    if address != uint64(0):
        found = peek(address, index, float64)
        poke(address, index, float64(0.0), float64)
    return found


if SIMULATED:

    def exchange(array: Any, place: Any, value: Any) -> Any:
        """Replace an element at once and return the old one; the simulator's threads are threads of Python."""
        with updating:
            old = array[place]
            array[place] = value
        return old

else:

    def exchange(array: Any, place: Any, value: Any) -> Any:
        """Replace an element at once and return the old one; numba-cuda exchanges integers alone."""
        raise NotImplementedError

    def exchange_in(array: Any) -> Any:
        single = array.dtype == types.float32
        word = np.int32 if single else np.int64
        to_bits = libdevice.float_as_int if single else libdevice.double_as_longlong
        to_float = libdevice.int_as_float if single else libdevice.longlong_as_double
        return lambda array, place, value: to_float(cuda.atomic.exch(array.view(word), place, to_bits(value)))

    overload(exchange, target="cuda")(lambda array, place, value: exchange_in(array))


if not SIMULATED:
    from llvmlite import ir
    from numba.cuda.api_util import normalize_indices

    REGISTERS = {16: "h", 32: "r", 64: "l"}
    """The letters of registers in inline assembly, by their bits."""

    def element(context: Any, builder: Any, array: Any, place: Any, values: Any) -> Any:
        """Return a pointer to the bytes of an element."""
        _, indices = normalize_indices(context, builder, place, values[1], array, array.dtype)
        made = context.make_array(array)(context, builder, values[0])
        pointer = cgutils.get_item_pointer(context, builder, array, made, indices, wraparound=True)
        return builder.bitcast(pointer, ir.IntType(8).as_pointer())

    def word_around(context: Any, builder: Any, array: Any, place: Any, values: Any, word: Any) -> Any:
        """Return a pointer to the aligned word around an element, based on the array's, which is thereby written."""
        pointer = element(context, builder, array, place, values)
        address = builder.ptrtoint(pointer, ir.IntType(64))
        before = builder.and_(address, ir.IntType(64)(word.width // 8 - 1))
        return builder.bitcast(builder.gep(pointer, [builder.neg(before)]), word.as_pointer())

    @intrinsic
    def bits_before(context: Any, array: Any, place: Any) -> Any:
        """Return the position of an element of 8 bits in the aligned 16 bits around it."""

        def emit(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            address = builder.ptrtoint(element(context, builder, array, place, values), ir.IntType(16))
            return builder.shl(builder.and_(address, ir.IntType(16)(1)), ir.IntType(16)(3))

        return types.uint16(array, place), emit

    @intrinsic
    def load_word(context: Any, array: Any, place: Any, like: Any) -> Any:
        """Return the word around an element, of the type of ``like``."""

        def emit(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            word = values[2].type
            pointer = word_around(context, builder, array, place, values, word)
            # Volatile: a GPU may have an old value at hand, and nothing corrects it where nothing is replaced.
            text = f"ld.volatile.b{word.width} $0, [$1];"
            form, result = ir.FunctionType(word, [pointer.type]), REGISTERS[word.width]
            return builder.asm(form, text, f"={result},l,~{{memory}}", [pointer], True)

        return like(array, place, like), emit

    @intrinsic
    def swap_word(context: Any, array: Any, place: Any, expected: Any, wanted: Any) -> Any:
        """Replace the word around an element if it is the expected one; return the old word."""

        def emit(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            word = values[2].type
            pointer = word_around(context, builder, array, place, values, word)
            if word.width == 16:
                # LLVM has no instruction for it, and would take more of memory than the element.
                text = "atom.relaxed.gpu.cas.b16 $0, [$1], $2, $3;"
                form = ir.FunctionType(word, [pointer.type, word, word])
                return builder.asm(form, text, "=h,l,h,h,~{memory}", [pointer, values[2], values[3]], True)
            done = builder.cmpxchg(pointer, values[2], values[3], "monotonic", "monotonic")
            return builder.extract_value(done, 0)

        return expected(array, place, expected, wanted), emit

    @intrinsic
    def from_float16(context: Any, bits: Any) -> Any:
        """Return the number with these bits."""

        def emit(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            half = builder.bitcast(values[0], ir.HalfType())
            return builder.fpext(half, context.get_value_type(types.float32))

        return types.float32(types.uint16), emit

    @intrinsic
    def to_float16(context: Any, value: Any) -> Any:
        """Return the bits of a float32 rounded to the nearest float16."""

        def emit(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            half = builder.fptrunc(values[0], ir.HalfType())
            return builder.bitcast(half, context.get_value_type(types.uint16))

        return types.uint16(types.float32), emit

    @intrinsic
    def round_float16(context: Any, value: Any) -> Any:
        """Return a float32 rounded to the nearest float16."""

        def emit(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            half = builder.fptrunc(values[0], ir.HalfType())
            return builder.fpext(half, context.get_value_type(types.float32))

        return types.float32(types.float32), emit

    def form_of(array: Any, stored: Any) -> Any:
        """Return an element's form in memory: the type of its bits, and functions from these to the number and back."""
        t = stored or array.dtype.name
        if t == "bfloat16":
            return np.uint16, from_bfloat16, to_bfloat16
        if t == "float16":
            return np.uint16, device(lambda b: from_float16(b)), device(lambda x: to_float16(x))  # noqa: PLW0108
        if t == "float32":
            to_bits = device(lambda x: np.uint32(libdevice.float_as_int(x)))
            return np.uint32, device(lambda b: libdevice.int_as_float(np.int32(b))), to_bits
        if t == "float64":
            to_bits = device(lambda x: np.uint64(libdevice.double_as_longlong(x)))
            return np.uint64, device(lambda b: libdevice.longlong_as_double(np.int64(b))), to_bits
        if t == "bool":
            return np.uint8, device(lambda b: b != 0), device(lambda x: np.uint8(x))  # noqa: PLW0108
        number, bits = getattr(np, t), getattr(np, f"uint{array.dtype.bitwidth}")
        return bits, device(lambda b: number(b)), device(lambda x: bits(x))  # noqa: PLW0108

    def taking_whole(word: Any, number: Any, held: Any) -> Any:
        """Return a function that waits until nobody holds an element, holds it and returns its number."""

        def take(array: Any, place: Any, wanted: Any) -> Any:
            if wanted == 0:
                return number(word(0))
            while True:
                seen = load_word(array, place, word(0))
                if seen != held and swap_word(array, place, seen, held) == seen:
                    cuda.threadfence()
                    return number(seen)

        return take

    def swapping_whole(change: Any, word: Any, number: Any, bits: Any) -> Any:
        """Return an update that retries until no other thread wrote between read and write."""

        def update(array: Any, place: Any, value: Any) -> Any:
            seen = load_word(array, place, word(0))
            while True:
                old = number(seen)
                wanted = bits(change(old, value))
                if wanted == seen:
                    return old
                found = swap_word(array, place, seen, wanted)
                if found == seen:
                    return old
                seen = found

        return update

    def swapping_part(change: Any, part: Any, number: Any, bits: Any) -> Any:
        """Return the same for 8 bits, which no instruction exchanges: the 16 around them take part."""
        most = np.uint16(np.iinfo(part).max)
        everything = np.uint16(0xFFFF)

        def update(array: Any, place: Any, value: Any) -> Any:
            shift = bits_before(array, place)
            others = np.uint16(np.uint16(most << shift) ^ everything)
            seen = load_word(array, place, np.uint16(0))
            while True:
                old = number(part(seen >> shift))
                wanted = np.uint16((seen & others) | (np.uint16(bits(change(old, value))) << shift))
                if wanted == seen:
                    return old
                found = swap_word(array, place, seen, wanted)
                if found == seen:
                    return old
                seen = found

        return update


def swapping(change: Any, stored: Any = None) -> Any:
    """Return an atomic update of an element that returns the old value.

    numba-cuda has none of 8 and 16 bits, and its extrema of floats drop NaN and may return an earlier value.
    """
    if SIMULATED:

        def simulated(array: Any, place: Any, value: Any) -> Any:
            with updating:
                old = array[place]
                if stored == "bfloat16":
                    old = from_bfloat16(old)
                    array[place] = to_bfloat16(change(old, value))
                else:
                    old = np.float32(old) if isinstance(old, np.float16) else old
                    array[place] = change(old, value)
            return old

        return simulated

    def update(array: Any, place: Any, value: Any) -> Any:
        raise NotImplementedError

    def chosen(array: Any) -> Any:
        word, number, bits = form_of(array, stored)
        make = swapping_whole if np.dtype(word).itemsize >= 2 else swapping_part
        swapped = device(make(change, word, number, bits))
        return lambda array, place, value: swapped(array, place, value)  # noqa: PLW0108

    overload(update, target="cuda")(lambda array, place, value: chosen(array))
    return update


def taking(stored: Any = None) -> Any:
    """Return a function that waits until nobody holds an element, holds it and returns its number, if it is wanted."""
    if SIMULATED:

        def simulated(array: Any, place: Any, wanted: Any) -> Any:
            if wanted != 0:
                holding.acquire()
            old = array[place]
            if stored == "bfloat16":
                return from_bfloat16(old)
            return np.float32(old) if isinstance(old, np.float16) else old

        return simulated

    def take(array: Any, place: Any, wanted: Any) -> Any:
        raise NotImplementedError

    def chosen(array: Any) -> Any:
        word, number, _ = form_of(array, stored)
        held = np.dtype(word).type(HELD_BITS[stored or array.dtype.name])
        taken = device(taking_whole(word, number, held))
        return lambda array, place, wanted: taken(array, place, wanted)  # noqa: PLW0108

    overload(take, target="cuda")(lambda array, place, wanted: chosen(array))
    return take


def giving(exchange: Any) -> Any:
    """Return a function that gives a held element back, as the winner or as it was.

    It takes the old number, the state (0 not held, 1 unchanged, 2 won), and the winning number.
    """

    def give(array: Any, place: Any, given: Any) -> None:
        seen, state, new = given
        if state != 0:
            if not SIMULATED:
                cuda.threadfence()
            exchange(array, place, new if state == 2 else seen)
            if SIMULATED:
                holding.release()

    return device(give)


plus = device(lambda old, value: old + value)
minus = device(lambda old, value: old - value)
latter = device(lambda old, value: value)
both = device(lambda old, value: old & value)
either = device(lambda old, value: old | value)
differing = device(lambda old, value: old ^ value)
# The first two pass a NaN on; the others skip it, as C's fmin and fmax do.
least = device(lambda old, value: old if old <= value or old != old else value)
greatest = device(lambda old, value: old if old >= value or old != old else value)
least_number = device(lambda old, value: value if value < old or old != old else old)
greatest_number = device(lambda old, value: value if value > old or old != old else old)
replacing = device(lambda old, pair: pair[1] if old == pair[0] else old)
keeping = device(lambda old, flag: old if flag != 0 else flag)

atomic_add = swapping(plus)
atomic_sub = swapping(minus)
atomic_min = swapping(least)
atomic_max = swapping(greatest)
atomic_fmin = swapping(least_number)
atomic_fmax = swapping(greatest_number)
atomic_exch = swapping(latter)
atomic_and = swapping(both)
atomic_or = swapping(either)
atomic_xor = swapping(differing)
atomic_cas = swapping(replacing)
atomic_keep = swapping(keeping)
atomic_take = taking()
atomic_give = giving(atomic_exch)
atomic_take_bfloat16 = taking("bfloat16")
atomic_add_bfloat16 = swapping(plus, "bfloat16")
atomic_sub_bfloat16 = swapping(minus, "bfloat16")
atomic_min_bfloat16 = swapping(least, "bfloat16")
atomic_max_bfloat16 = swapping(greatest, "bfloat16")
atomic_fmin_bfloat16 = swapping(least_number, "bfloat16")
atomic_fmax_bfloat16 = swapping(greatest_number, "bfloat16")
atomic_exch_bfloat16 = swapping(latter, "bfloat16")
atomic_give_bfloat16 = giving(atomic_exch_bfloat16)
atomic_cas_bfloat16 = swapping(replacing, "bfloat16")
atomic_keep_bfloat16 = swapping(keeping, "bfloat16")


# -- bits of numbers ---------------------------------------------------------------------------------------------------

if SIMULATED:

    def bits_of_float16(value: Any) -> Any:
        """Return the bits of a float32 rounded to the nearest float16."""
        return np.float16(value).view(np.uint16)

    def float16_of_bits(bits: Any) -> Any:
        """Return the number with these bits."""
        return np.float32(np.uint16(bits).view(np.float16))

    def bits_of_float32(value: Any) -> Any:
        """Return the bits of a number."""
        return np.float32(value).view(np.uint32)

    def float32_of_bits(bits: Any) -> Any:
        """Return the number with these bits."""
        return np.uint32(bits).view(np.float32)

    def bits_of_float64(value: Any) -> Any:
        """Return the bits of a number."""
        return np.float64(value).view(np.uint64)

    def float64_of_bits(bits: Any) -> Any:
        """Return the number with these bits."""
        return np.uint64(bits).view(np.float64)

else:

    @device
    def bits_of_float16(value: Any) -> Any:
        """Return the bits of a float32 rounded to the nearest float16."""
        return to_float16(value)

    @device
    def float16_of_bits(bits: Any) -> Any:
        """Return the number with these bits."""
        return from_float16(np.uint16(bits))

    @device
    def bits_of_float32(value: Any) -> Any:
        """Return the bits of a number."""
        return np.uint32(libdevice.float_as_int(value))

    @device
    def float32_of_bits(bits: Any) -> Any:
        """Return the number with these bits."""
        return libdevice.int_as_float(np.int32(bits))

    @device
    def bits_of_float64(value: Any) -> Any:
        """Return the bits of a number."""
        return np.uint64(libdevice.double_as_longlong(value))

    @device
    def float64_of_bits(bits: Any) -> Any:
        """Return the number with these bits."""
        return libdevice.longlong_as_double(np.int64(bits))


@device
def bits_of_bfloat16(value: Any) -> Any:
    """Return the bits of a float32 rounded to the nearest bfloat16."""
    return to_bfloat16(value)


@device
def bfloat16_of_bits(bits: Any) -> Any:
    """Return the number with these bits."""
    return from_bfloat16(bits)
