"""The primitives that generated Python source calls: the pure Python and NumPy twin of every operation.

Scalars are NumPy scalars of the operation's exact type, vectors and matrices small NumPy arrays of one and two
dimensions, treated as values: nothing here changes an operand. Each function does what the LLVM form does, zero
divisors, NaN and overflow included; only transcendental functions may differ in the last bits. The caller silences
NumPy's warnings (``diffkern.printing.executor`` does).
"""

from __future__ import annotations

import builtins
import contextlib
import ctypes
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from diffkern.ir.ops.table import all_ops as _all_ops

bool_ = np.bool_
int8, int16, int32, int64 = np.int8, np.int16, np.int32, np.int64
uint8, uint16, uint32, uint64 = np.uint8, np.uint16, np.uint32, np.uint64
float32, float64 = np.float32, np.float64
inf, nan = math.inf, math.nan
_smaller, _larger = builtins.min, builtins.max

# What a row of the operation table says: NumPy's function, or one line.
globals().update({_name: _row.twin for _name, _row in _all_ops().items() if _row.twin is not None})


def min(a: Any, b: Any) -> Any:  # noqa: A001
    """Return the smaller; the first of equals; NaN if either is NaN."""
    return a if a <= b or a != a else b


def max(a: Any, b: Any) -> Any:  # noqa: A001
    """Return the larger; the first of equals; NaN if either is NaN."""
    return a if a >= b or a != a else b


def select(cond: Any, a: Any, b: Any) -> Any:
    """Return ``a`` if the condition holds, otherwise ``b``; both are already computed."""
    return a if cond else b


def cast(x: Any, to: type[Any]) -> Any:
    """Return a value as another scalar type, by component. Float to integer saturates and turns NaN into 0."""
    if isinstance(x, np.ndarray):
        return np.array([cast(c, to) for c in x.flat], to).reshape(x.shape)
    if issubclass(to, np.bool_):
        return np.bool_(x != 0)
    if issubclass(to, np.floating):
        return to(x)
    if isinstance(x, (float, np.floating)):
        info = np.iinfo(to)
        if np.isnan(x):
            return to(0)
        # int() cannot convert an infinity, so it is saturated beforehand.
        if np.isinf(x):
            return to(info.max if x > 0 else info.min)
        return to(builtins.max(info.min, builtins.min(info.max, int(x))))
    # Integers wrap to the width of the target.
    return np.array(int(x) & (2 ** (8 * np.dtype(to).itemsize) - 1), np.uint64).astype(to)[()]


def irange(lo: Any, hi: Any, step: Any = 1) -> Iterator[Any]:
    """Return the values of a ``for`` loop, typed like its bounds; none for a step of 0."""
    kind = next((type(v) for v in (lo, hi, step) if isinstance(v, np.integer)), np.int32)
    return (kind(k) for k in range(int(lo), int(hi), int(step))) if step != 0 else iter(())


def shape(x: Any, axis: int) -> Any:
    """Return the number of elements of an array along an axis."""
    return np.int32(x.shape[axis])


# -- composites --------------------------------------------------------------------------------------------------------


def vec(dtype: type[Any], *components: Any) -> Any:
    """Return a vector."""
    return np.array(components, dtype)


def mat(dtype: type[Any], rows: int, cols: int, *components: Any) -> Any:
    """Return a matrix from its components in row-major order."""
    return np.array(components, dtype).reshape(rows, cols)


def _component(v: Any, index: Any) -> int | None:
    """Return a run-time index as a position, negative ones counted from the end; None outside of the composite."""
    k = int(index)
    if -v.size <= k < v.size:
        return k % int(v.size)
    return None


def extract(v: Any, index: Any) -> Any:
    """Return one component, row-major; outside of the composite it is component 0."""
    return v.flat[_component(v, index) or 0]


def insert(v: Any, value: Any, index: Any) -> Any:
    """Return a copy with one component replaced, row-major; outside of the composite nothing is replaced."""
    out = v.copy()
    k = _component(v, index)
    if k is not None:
        out.flat[k] = value
    return out


def _sum(terms: Any) -> Any:
    """Return the sum in the order of the components, as the compiled code adds."""
    total = None
    for t in terms:
        total = t if total is None else total + t
    return total


def dot(a: Any, b: Any) -> Any:
    """Return the sum of products; for matrices the Frobenius product."""
    return _sum(x * y for x, y in zip(a.flat, b.flat, strict=True))


def length_sq(v: Any) -> Any:
    """Return the sum of squares."""
    return dot(v, v)


def length(v: Any) -> Any:
    """Return the Euclidean length; for a matrix the Frobenius norm."""
    return np.sqrt(dot(v, v))


def normalize(v: Any) -> Any:
    """Return the vector scaled to length 1; the zero vector stays zero."""
    norm = length(v)
    one = type(norm)(1)
    return v * (one / norm if norm > 0 else type(norm)(0))


def cross(a: Any, b: Any) -> Any:
    """Return the vector product."""
    return np.array([a[i] * b[j] - a[j] * b[i] for i, j in ((1, 2), (2, 0), (0, 1))], a.dtype)


def matmul(a: Any, b: Any) -> Any:
    """Return the matrix product."""
    return np.array([[dot(row, b[:, c]) for c in range(b.shape[1])] for row in a], a.dtype)


def matvec(m: Any, v: Any) -> Any:
    """Return the matrix times a column."""
    return np.array([dot(row, v) for row in m], v.dtype)


def vecmat(v: Any, m: Any) -> Any:
    """Return a row times the matrix."""
    return np.array([dot(v, m[:, c]) for c in range(m.shape[1])], v.dtype)


def quat_mul(a: Any, b: Any) -> Any:
    """Return the product of two quaternions (x, y, z, w)."""
    (ax, ay, az, aw), (bx, by, bz, bw) = a, b
    return np.array(
        [
            aw * bx + ax * bw + ay * bz - az * by,
            aw * by + ay * bw + az * bx - ax * bz,
            aw * bz + az * bw + ax * by - ay * bx,
            aw * bw - (ax * bx + ay * by + az * bz),
        ],
        a.dtype,
    )


def trace(m: Any) -> Any:
    """Return the sum of the diagonal."""
    return _sum(m[k, k] for k in range(m.shape[0]))


def _rows(m: Any) -> list[list[Any]]:
    return [[m[r, c] for c in range(m.shape[1])] for r in range(m.shape[0])]


def _expanded(rows: list[list[Any]]) -> Any:
    """Return the determinant of rows, by expansion along the first one."""
    # The last two levels are written out: most determinants are of few rows, and loops take longer than the products.
    if len(rows) == 2:
        (a, b), (c, d) = rows
        return a * d - b * c
    if len(rows) == 3:
        (a, b, c), (d, e, f), (g, h, i) = rows
        return a * (e * i - f * h) - b * (d * i - f * g) + c * (d * h - e * g)
    first, *others = rows
    if not others:
        return first[0]
    terms = (x * _expanded([row[:c] + row[c + 1 :] for row in others]) for c, x in enumerate(first))
    return _sum(-term if c % 2 else term for c, term in enumerate(terms))


def _minor(rows: list[list[Any]], row: int, col: int) -> Any:
    return _expanded([own[:col] + own[col + 1 :] for r, own in enumerate(rows) if r != row])


def determinant(m: Any) -> Any:
    """Return the determinant, by expansion along the first row."""
    return _expanded(_rows(m))


def inverse(m: Any) -> Any:
    """Return the cofactors over the determinant; the zero matrix for a singular one."""
    n, rows = m.shape[0], _rows(m)
    cofactors = np.array(
        [[1]] if n == 1 else [[_minor(rows, r, c) * (-1) ** (r + c) for c in range(n)] for r in range(n)]
    )
    cofactors = cofactors.astype(m.dtype)
    det = _sum(m[0, c] * cofactors[0, c] for c in range(n))
    return cofactors.T * (type(det)(1) / det if det != 0 else type(det)(0))


# -- memory ------------------------------------------------------------------------------------------------------------


def _atomic(array: Any, index: Any, value: Any, kind: str, combine: Callable[[Any, Any], Any]) -> Any:
    # An array under observation reports the update as one access.
    update = getattr(array, "update", None)
    if update is not None:
        return update(index, value, kind, combine)
    old = np.copy(array[index])[()]
    array[index] = combine(old, value)
    return old


def _each(choose: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Return a combination that chooses between scalars, for each component of a composite."""

    def combine(old: Any, new: Any) -> Any:
        if not isinstance(old, np.ndarray):
            return choose(old, type(old)(new))
        pairs = zip(old.flat, np.asarray(new, old.dtype).flat, strict=True)
        return np.array([choose(x, y) for x, y in pairs], old.dtype).reshape(old.shape)

    return combine


def _atomic_of(combine: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def atomic(array: Any, index: Any, value: Any) -> Any:
        """Change an element that other threads may change too; return the old one."""
        return _atomic(array, index, value, "atomic", combine)

    return atomic


atomic_add = _atomic_of(lambda old, new: old + new)
atomic_sub = _atomic_of(lambda old, new: old - new)
atomic_min = _atomic_of(_each(lambda old, new: old if old <= new or old != old else new))
atomic_max = _atomic_of(_each(lambda old, new: old if old >= new or old != old else new))
atomic_fmin = _atomic_of(_each(lambda old, new: new if new < old or old != old else old))
atomic_fmax = _atomic_of(_each(lambda old, new: new if new > old or old != old else old))
atomic_exch = _atomic_of(lambda old, new: new)
atomic_and = _atomic_of(lambda old, new: old & new)
atomic_or = _atomic_of(lambda old, new: old | new)
atomic_xor = _atomic_of(lambda old, new: old ^ new)
atomic_inc = _atomic_of(lambda old, top: type(old)(0) if old >= top else type(old)(old + 1))
atomic_dec = _atomic_of(lambda old, top: type(old)(top) if old == 0 or old > top else type(old)(old - 1))
atomic_keep = _atomic_of(_each(lambda old, flag: old if flag != 0 else type(old)(0)))
atomic_cas = _atomic_of(lambda old, pair: type(old)(pair[1]) if old == pair[0] else old)
atomic_take = _atomic_of(lambda old, wanted: old)  # threads run one after the other here: nobody holds anything


def _given(old: Any, given: Any) -> Any:
    """Return an element after "give", from the four groups of the operand.

    For each component these are what take returned, a state (0, 1 or 2), a number, and the value that it gets in state
    2.
    """
    size = np.size(old)
    # The third group is the number of the update, which is not needed to give the element back.
    seen, state, _, new = (given[k * size : (k + 1) * size] for k in range(4))
    parts = [
        n if how == 2 else s if how == 1 else o for o, s, how, n in zip(np.ravel(old), seen, state, new, strict=True)
    ]
    return np.array(parts, np.asarray(old).dtype).reshape(np.shape(old))[()]


atomic_give = _atomic_of(_given)


def accumulate(array: Any, index: Any, value: Any, mode: str = "plain") -> None:
    """Add to an element of a cotangent.

    ``mode`` says how the compiled code does it: ``"atomic"`` where another thread may add to the element at the same
    time, ``"reduce"`` where all threads add to one element, which is summed per chunk first.
    """
    _atomic(array, index, value, mode, lambda old, new: old + new)


def _together(*_: Any) -> Any:
    """Refuse an operation that only threads that run side by side can do."""
    raise RuntimeError(
        "threads of a block work together here, and this source runs one thread after the other: "
        "print the kernel with target='cuda' and run it in numba's CUDA simulator"
    )


block_dim = thread_index = block_index = shared_array = syncthreads = _together


def constant_array(elements: Sequence[float], shape: tuple[int, ...], dtype: str) -> Any:
    """Return an array that is part of the program."""
    return np.array([float(x) for x in elements] if dtype.startswith("float") else elements, dtype).reshape(shape)


def _peek(dtype: str) -> Callable[[Any, Any], Any]:
    number = np.dtype(dtype)

    def peek(address: Any, index: Any) -> Any:
        """Return an element of the memory that begins at an address."""
        place = int(address) + int(index) * number.itemsize
        return np.frombuffer(ctypes.string_at(place, number.itemsize), number)[0]

    return peek


def deposit(address: Any, index: Any, value: Any) -> None:
    """Add to a float32 of the memory that begins at an address; nothing at the address 0."""
    if address:
        ctypes.c_float.from_address(int(address) + 4 * int(index)).value += float(value)


def deposit_float64(address: Any, index: Any, value: Any) -> None:
    """Add to a float64 of the memory that begins at an address; nothing at the address 0."""
    if address:
        ctypes.c_double.from_address(int(address) + 8 * int(index)).value += float(value)


def _poke(dtype: str) -> Callable[[Any, Any, Any], None]:
    number = np.dtype(dtype)

    def poke(address: Any, index: Any, value: Any) -> None:
        """Write an element of the memory that begins at an address."""
        ctypes.memmove(int(address) + int(index) * number.itemsize, number.type(value).tobytes(), number.itemsize)

    return poke


def _withdraw(dtype: str) -> Callable[[Any, Any], Any]:
    peek, poke, zero = _peek(dtype), _poke(dtype), np.dtype(dtype).type(0)

    def withdraw(address: Any, index: Any) -> Any:
        """Return an element of memory, and set it to zero; zero at the address 0."""
        found = peek(address, index) if address else zero
        if address:
            poke(address, index, zero)
        return found

    return withdraw


poke_int32, poke_int64, poke_uint32 = map(_poke, ("int32", "int64", "uint32"))
poke_float32, poke_float64 = map(_poke, ("float32", "float64"))
withdraw_float32, withdraw_float64 = map(_withdraw, ("float32", "float64"))
peek_bool, peek_float32, peek_float64 = map(_peek, ("bool", "float32", "float64"))
peek_int8, peek_int16, peek_int32, peek_int64 = map(_peek, ("int8", "int16", "int32", "int64"))
peek_uint8, peek_uint16, peek_uint32, peek_uint64 = map(_peek, ("uint8", "uint16", "uint32", "uint64"))

_extents: list[tuple[int, ...]] = []


@contextlib.contextmanager
def launched_over(dims: tuple[int, ...]) -> Iterator[None]:
    """Let :func:`extent` give the extents of a launch for the duration of a ``with`` block."""
    _extents.append(dims)
    try:
        yield
    finally:
        _extents.pop()


def extent(axis: int) -> Any:
    """Return the extent of the launch along an axis."""
    if not _extents:
        raise RuntimeError("the source asks for an extent of its launch: run it under launched_over(dims)")
    return np.int32(_extents[-1][axis])


class Stack:
    """Slots that keep the carried values of a loop for the reverse sweep."""

    def __init__(self, slots: int) -> None:
        self._slots: list[tuple[Any, ...]] = [()] * slots

    def set(self, slot: Any, *values: Any) -> None:
        """Fill a slot."""
        if slot < 0:
            raise IndexError(f"slot {slot} of a loop stack")
        self._slots[slot] = values

    def get(self, slot: Any, field: int) -> Any:
        """Return one value of a slot."""
        if slot < 0:
            raise IndexError(f"slot {slot} of a loop stack")
        return self._slots[slot][field]


def next_checkpoint(cur: Any, it: Any, free: Any) -> Any:
    """Return the next snapshot's position from iteration ``cur`` to ``it``; after ``it`` if no slot is free."""
    kind = next((type(v) for v in (cur, it) if isinstance(v, np.integer)), np.int32)
    return kind(schedule(int(cur), int(it), int(free)))


def schedule(cur: Any, it: Any, free: Any) -> Any:
    """Return the next snapshot's position from iteration ``cur`` to ``it``, for plain integers."""
    # The algorithm's source stands in diffkern.targets.emit.checkpoint, which is the same in LLVM's language.
    if free <= 0:
        return it + 1
    # Limited to 32 bits as in the compiled code, so that both give the same schedule.
    n, s = _smaller(it - cur + 1, 2147483647), _larger(free, 1)
    if s >= n:
        return cur + 1
    if s == 1:
        return cur + n - 1
    before, r = 1, 1  # before: steps within reach with r - 1 sweeps
    reach = s + 1
    while reach < n:
        before, r = reach, r + 1
        reach = before * (s + r) // r
    others = before * s // (s + r - 1)
    return cur + _larger(1, _smaller(_smaller(before, n - others), n - 1))
