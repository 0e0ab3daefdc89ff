"""Runs a function of the IR compiled and in Python, on the same arguments."""

from __future__ import annotations

import ctypes
import itertools
import struct
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from compiling import compile_function

from diffkern.contracts import abi
from diffkern.ir.builder import Builder
from diffkern.ir.nodes import Function, Value
from diffkern.ir.types import INT32, Array, Scalar, Type, scalar_of, value_type
from diffkern.ir.verify import verify
from diffkern.printing.executor import run
from diffkern.runtime.native.loader import load_object

_serial = itertools.count()
_ENTRY = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)


def kernel(params: dict[str, Type], body: Callable[..., None], *, tid: int = 1, name: str = "k") -> Function:
    """A function whose body is built by ``body(builder, *params)``; checked by the verifier."""
    values = tuple(Value(t, n) for n, t in params.items())
    b = Builder()
    body(b, *values)
    fn = Function(name, values, b.region, tid_arity=tid)
    verify(fn)
    return fn


def tids(b: Builder, n: int = 1) -> list[Value]:
    """The components of the thread index."""
    return [b.one("tid", axis=k, hint="ijkl"[k]) for k in range(n)]


def load(b: Builder, array: Value, *index: Value, wrap: bool = False) -> Value:
    return b.one("load", array, *index, wrap=(wrap,) * len(index))


def store(b: Builder, array: Value, *index_and_value: Value, wrap: bool = False) -> None:
    b.op("store", array, *index_and_value, wrap=(wrap,) * (len(index_and_value) - 1))


def i32(b: Builder, k: int) -> Value:
    return b.const(k, INT32)


def pack(fn: Function, args: Sequence[Any], dims: tuple[int, ...], chunk: int, partials: int) -> bytes:
    """The argument block of a launch."""
    out = struct.pack(abi.HEADER_FORMAT, 0, *(*dims, 1, 1, 1, 1)[:4], chunk, partials)
    for p, a in zip(fn.params, args, strict=True):
        if isinstance(p.type, Array):
            n = p.type.ndim
            out += struct.pack(f"{1 + 2 * n}q", a.ctypes.data, *a.shape[:n], *a.strides[:n])
        else:
            t = abi.passed_type(p.type)
            raw = np.asarray(a, np.dtype(scalar_of(t).name)).tobytes()
            out += raw + bytes(-len(raw) % 8)
    return out


class Compiled:
    """A compiled function, loaded."""

    def __init__(self, fn: Function, **options: Any) -> None:
        self.fn = fn
        symbol = f"test_{fn.name}_{next(_serial)}"
        self.object = compile_function(fn, symbol, **options)
        addresses = load_object(self.object.code, self.object.symbols)
        self.entries = [_ENTRY(addresses[s]) for s in self.object.symbols]

    def __call__(self, args: Sequence[Any], dim: int | tuple[int, ...], *, chunk: int | None = None) -> None:
        dims = (dim,) if isinstance(dim, int) else dim
        total = int(np.prod(dims))
        chunk = chunk or max(total, 1)
        chunks = -(-total // chunk)
        partials = np.full(max(1, chunks * self.object.sites), np.nan)
        block = ctypes.create_string_buffer(pack(self.fn, args, dims, chunk, partials.ctypes.data))
        for lo in range(0, total, chunk):
            self.entries[0](ctypes.addressof(block), lo, min(lo + chunk, total))
        if len(self.entries) > 1 and chunks:
            self.entries[1](ctypes.addressof(block), 0, chunks)

    def no_threads(self, args: Sequence[Any], dims: tuple[int, ...], at: int) -> None:
        """Run a chunk that begins and ends at one thread."""
        block = ctypes.create_string_buffer(pack(self.fn, args, dims, 1, 0))
        self.entries[0](ctypes.addressof(block), at, at)


def both(
    fn: Function, args: Sequence[Any], dim: int | tuple[int, ...], *, chunk: int | None = None, **options: Any
) -> tuple[list[Any], list[Any]]:
    """Copies of the arguments after the compiled and after the Python run."""
    compiled, python = ([a.copy() if isinstance(a, np.ndarray) else a for a in args] for _ in range(2))
    Compiled(fn, **options)(compiled, dim, chunk=chunk)
    run(fn, python, dim)
    return compiled, python


def agree(
    fn: Function,
    args: Sequence[Any],
    dim: int | tuple[int, ...],
    *,
    chunk: int | None = None,
    ulp: int = 0,
    **options: Any,
) -> list[Any]:
    """Check that both runs leave the same arrays; returns them."""
    compiled, python = both(fn, args, dim, chunk=chunk, **options)
    for p, a, b in zip(fn.params, compiled, python, strict=True):
        if isinstance(a, np.ndarray):
            same(a, b, ulp, p.name)
    return compiled


def same(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any], ulp: int, what: str = "") -> None:
    """NaN in the same places, and otherwise equal to within some units in the last place."""
    if a.dtype.kind != "f":
        np.testing.assert_array_equal(a, b, err_msg=what)
        return
    np.testing.assert_array_equal(np.isnan(a), np.isnan(b), err_msg=what)
    finite = np.isfinite(b)
    np.testing.assert_array_equal(a[~finite & ~np.isnan(b)], b[~finite & ~np.isnan(b)], err_msg=what)
    if ulp == 0:
        np.testing.assert_array_equal(a[finite], b[finite], err_msg=what)
    else:
        tiny = np.finfo(a.dtype).smallest_normal
        np.testing.assert_array_less(
            np.abs(a[finite] - b[finite]), ulp * np.maximum(np.spacing(np.abs(b[finite])), tiny), err_msg=what
        )


def numpy_type(t: Type) -> Any:
    """NumPy's dtype for a scalar type's values."""
    assert isinstance(t, Scalar)
    return np.dtype(scalar_of(value_type(t)).name)
