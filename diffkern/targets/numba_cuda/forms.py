"""The primitives of printed source in the forms of the hardware: numba's intrinsics and device functions.

For names of primitives, which the source imports or defines, :func:`forms` gives the functions that are compiled in
their place. They mean the same. Functions of numbers are emitted by the emitter for LLVM, so that both compilers give
the same results; operations of a whole warp or block use shuffles, which numba's simulator does not have and source
that is to run in it cannot express.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from llvmlite import ir

from diffkern.ir.nodes import Op, Value
from diffkern.ir.ops.scalar import BOUNDS, DIVISIONS
from diffkern.ir.ops.table import all_ops, lookup
from diffkern.ir.types import FLOAT32, FLOAT64
from diffkern.targets.cuda.math import CudaScalars
from diffkern.targets.cuda.registers import WARP
from diffkern.targets.emit.checkpoint import next_function

__all__ = ["forms", "product"]

_COMPOSED = frozenset({"sign", "hypot"}) | DIVISIONS | BOUNDS
"""Functions of numbers that are none of a library."""


@functools.lru_cache(maxsize=8)
def _functions() -> tuple[str, ...]:
    """Return the operations that are functions of one or two numbers of a kind and give one of that kind."""
    rows = all_ops().items()
    return tuple(name for name, row in rows if name in _COMPOSED or (row.library is not None and row.arity in (1, 2)))


def forms(found: Any, flags: tuple[str, ...], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the functions that are compiled in place of names.

    Parameters
    ----------
    found : Numba
        Numba-cuda, as :func:`diffkern.targets.numba_cuda.bindings.numba` returns it.
    flags : tuple of str
        LLVM's flags for floating point.
    given : mapping
        The objects that the names have in the source's module.
    """
    # Only names that the source uses are replaced, as each is compiled by numba.
    made = {name: _number(found, name, flags, given[name]) for name in _functions() if name in given}
    if "next_checkpoint" in given:
        made["next_checkpoint"] = _next_checkpoint(found)
    made |= {name: carry for name, carry in _carries(found).items() if name in given}
    return made | {name: stub for name, stub in _of_warps(found).items() if name in given}


def product(found: Any, symbol: str, wide: bool) -> Any:
    """Return a matrix product of tiles by a library: ``product(c, a, b, add)``, called by all threads of a block.

    Parameters
    ----------
    found : Numba
        As for :func:`forms`.
    symbol : str
        The library's function.
    wide : bool
        Whether the result has float64.
    """
    number = ir.DoubleType() if wide else ir.FloatType()
    anything = ir.IntType(8).as_pointer()

    def memory(builder: Any, value: Any) -> Any:
        with builder.goto_entry_block():
            place = builder.alloca(number)
        builder.store(value, place)
        return builder.bitcast(place, anything)

    def generate(context: Any, builder: Any, signature: Any, args: list[Any]) -> Any:
        *arrays, add = args
        c, a, b = (
            builder.bitcast(context.make_array(t)(context, builder, value).data, anything)
            for t, value in zip(signature.args, arrays, strict=False)
        )
        one, zero = ir.Constant(number, 1.0), ir.Constant(number, 0.0)
        kind = ir.FunctionType(ir.VoidType(), [anything] * 5)
        call = found.cgutils.get_or_insert_function(builder.module, kind, symbol)
        call.attributes.add("convergent")  # no compiler may move the call to where some threads are not
        places = [memory(builder, one), a, b, memory(builder, builder.select(add, one, zero)), c]
        builder.call(call, places, attrs=("convergent",))
        return context.get_dummy_value()

    def typed(context: Any, c: Any, a: Any, b: Any, add: Any) -> Any:
        return found.typing.signature(found.types.none, c, a, b, found.types.boolean), generate

    return found.extending.intrinsic(typed)


_numbers: dict[tuple[str, tuple[str, ...]], Any] = {}


def _number(found: Any, name: str, flags: tuple[str, ...], usual: Any) -> Any:
    """Return a function of floating-point numbers; for integers it is the usual one."""
    if (name, flags) in _numbers:
        return _numbers[name, flags]
    types, known = found.types, {found.types.float32: FLOAT32, found.types.float64: FLOAT64}

    def typed(*operands: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: list[Any]) -> Any:
            t = known[operands[0]]
            op = Op(name, tuple(Value(t) for _ in args), (Value(t),), {}, (), None)
            return CudaScalars(builder, builder.module, flags).emit(op, list(args))

        return found.typing.signature(operands[0], *operands), generate

    # Numba compares the names of parameters, and takes no variable number of them.
    if lookup(name).arity == 2:
        own2 = found.extending.intrinsic(lambda context, x, y: typed(x, y))

        def stub2(x: Any, y: Any) -> Any:
            raise NotImplementedError(name)

        def chosen2(x, y):  # type: ignore[no-untyped-def]
            return (lambda x, y: own2(x, y)) if isinstance(x, types.Float) else (lambda x, y: usual(x, y))  # noqa: PLW0108

        return _numbers.setdefault((name, flags), _overloaded(found, stub2, chosen2))
    own = found.extending.intrinsic(lambda context, x: typed(x))

    def stub(x: Any) -> Any:
        raise NotImplementedError(name)

    def chosen(x):  # type: ignore[no-untyped-def]
        return (lambda x: own(x)) if isinstance(x, types.Float) else (lambda x: usual(x))  # noqa: PLW0108

    return _numbers.setdefault((name, flags), _overloaded(found, stub, chosen))


@functools.lru_cache(maxsize=1)
def _carries(found: Any) -> dict[str, Any]:
    """Return what carries indices from axis to axis, with the multipliers behind the extents in place of divisions."""
    types = found.types

    def generate(context: Any, builder: Any, signature: Any, args: list[Any]) -> Any:
        # As diffkern.contracts.division says; the words have more bits than what is asked for.
        wide = ir.IntType(64)
        kinds = zip(args, signature.args, strict=True)
        number, multiplier, shift = [context.cast(builder, word, t, types.int64) for word, t in kinds]
        number, multiplier = [builder.and_(word, ir.Constant(wide, 2**32 - 1)) for word in (number, multiplier)]
        upper = builder.lshr(builder.mul(number, multiplier), ir.Constant(wide, 32))
        total = builder.lshr(builder.add(upper, number), builder.and_(shift, ir.Constant(wide, 31)))
        return builder.trunc(total, ir.IntType(32))

    def typed(context: Any, number: Any, multiplier: Any, shift: Any) -> Any:
        return found.typing.signature(types.uint32, number, multiplier, shift), generate

    quotient, index = found.extending.intrinsic(typed), types.uint32

    def carry_2(dim: Any, i: Any, j: Any) -> Any:
        j = index(j)
        more = quotient(j, dim[4], dim[5] >> 32)
        return index(i + more), index(j - more * dim[1])

    def carry_3(dim: Any, i: Any, j: Any, k: Any) -> Any:
        k = index(k)
        more = quotient(k, dim[4] >> 32, dim[5] >> 40)
        i, j = before(dim, i, j + more)
        return i, j, index(k - more * dim[2])

    def carry_4(dim: Any, i: Any, j: Any, k: Any, m: Any) -> Any:
        m = index(m)
        more = quotient(m, dim[5], dim[5] >> 48)
        i, j, k = before_last(dim, i, j, k + more)
        return i, j, k, index(m - more * dim[3])

    device = found.cuda.jit(device=True, forceinline=True)
    before = device(carry_2)
    before_last = device(carry_3)
    return {"carry_2": before, "carry_3": before_last, "carry_4": device(carry_4)}


@functools.lru_cache(maxsize=1)
def _next_checkpoint(found: Any) -> Any:
    """Return the schedule of snapshots, which stays out of line."""
    types = found.types

    def generate(context: Any, builder: Any, signature: Any, args: list[Any]) -> Any:
        wide = [context.cast(builder, a, t, types.int64) for a, t in zip(args, signature.args, strict=True)]
        return builder.call(next_function(builder.module), wide)

    def typed(context: Any, cur: Any, it: Any, free: Any) -> Any:
        return found.typing.signature(types.int64, cur, it, free), generate

    return found.extending.intrinsic(typed)


def _overloaded(found: Any, stub: Any, chosen: Any) -> Any:
    found.extending.overload(stub, target="cuda")(chosen)
    return stub


_EVERYONE = 0xFFFFFFFF


@functools.lru_cache(maxsize=1)
def _of_warps(found: Any) -> dict[str, Any]:
    """Return the operations that the threads of a block do together."""

    def block_sum(partials: Any, value: Any) -> Any:
        raise NotImplementedError("block_sum")

    def lane_left(partials: Any, value: Any, distance: Any) -> Any:
        raise NotImplementedError("lane_left")

    def summing(partials, value):  # type: ignore[no-untyped-def]
        return _block_sum(found, value)

    def exchanging(partials, value, distance):  # type: ignore[no-untyped-def]
        return _lane_left(found, value)

    return {
        "block_sum": _overloaded(found, block_sum, summing),
        "lane_left": _overloaded(found, lane_left, exchanging),
    }


def _word(found: Any, t: Any) -> Any:
    """Return the type as which a number goes to another lane."""
    if isinstance(t, found.types.Float):
        return t
    return found.types.int64 if t.bitwidth == 64 else found.types.int32


def _block_sum(found: Any, t: Any) -> Any:
    """Return the sum of a value over the threads of a block, in its first thread."""
    cuda, int32, word = found.cuda, found.types.int32, _word(found, t)
    inlined = cuda.jit(device=True, forceinline=True)

    def joined(value: Any, distance: Any, lane: Any, lanes: Any) -> Any:
        other = t(cuda.shfl_down_sync(_EVERYONE, word(value), distance))
        return t(value + other) if lane + distance < lanes else value

    join = inlined(joined)

    def warp_sum(value: Any, lane: Any, lanes: Any) -> Any:
        value = join(join(value, 16, lane, lanes), 8, lane, lanes)
        value = join(join(value, 4, lane, lanes), 2, lane, lanes)
        return join(value, 1, lane, lanes)

    of_warp = inlined(warp_sum)

    def block_sum(partials, value):  # type: ignore[no-untyped-def]
        sums = cuda.shared.array(WARP, t)
        me, threads = int32(cuda.threadIdx.x), int32(cuda.blockDim.x)
        lane = me & (WARP - 1)
        value = of_warp(value, lane, threads - (me & -WARP))
        if lane == 0:
            sums[me >> 5] = value
        cuda.syncthreads()
        value = of_warp(sums[lane], lane, (threads + WARP - 1) >> 5)
        # The next sum of the block writes to the same shared memory.
        cuda.syncthreads()
        return value

    return block_sum


def _lane_left(found: Any, t: Any) -> Any:
    """Return the value of the thread so many lanes before in its warp; its own if there is none."""
    cuda, word = found.cuda, _word(found, t)
    return lambda partials, value, distance: t(cuda.shfl_up_sync(_EVERYONE, word(value), distance))
