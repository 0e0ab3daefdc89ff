"""Functions of the IR made executable, for tests: arguments are NumPy arrays and numbers, nothing is cached.

A program takes one argument per parameter (an array with the components of composites as its last axes; a number,
vector or matrix for a parameter by value) and changes the arrays in place. There are two ways to run a function, which
are checked against each other: :class:`CompiledFunction` (object code) and :class:`Interpreted` (generated Python).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from diffkern.analysis.blocks import is_simt
from diffkern.contracts.argument_block import header, pack_array, with_partials
from diffkern.ir.nodes import Function
from diffkern.ir.types import Array, Element, Scalar, Type, is_complex, scalar_of
from diffkern.lang.annotations import ArrayAnnotation
from diffkern.lang.dtypes import SCALARS
from diffkern.lang.structs import definition_of
from diffkern.printing import executor
from diffkern.runtime.arrays.array import array, wrap
from diffkern.runtime.arrays.complexes import parts
from diffkern.runtime.launch.schedule import check_whole_blocks
from diffkern.runtime.launch.value_bytes import pack_value
from diffkern.runtime.native import pool
from diffkern.runtime.native.loader import load_code
from diffkern.targets import target_named

__all__ = ["CompiledFunction", "GridProgram", "Interpreted", "as_argument", "as_double", "one_element", "zeros_for"]

_serial = itertools.count()


class GridProgram(Protocol):
    """A program that runs a function of the IR over a grid of threads."""

    def run(self, dim: Sequence[int], args: Sequence[Any], chunk: int | None = None) -> None:
        """Run all threads; arrays among `args` are changed in place."""


class CompiledFunction:
    """A function as object code.

    Parameters
    ----------
    fn
        The function; it is not changed.
    block_dim
        Threads of a block, where they work together; may be changed. Chunks are then numbers of blocks.
    """

    def __init__(self, fn: Function, block_dim: int = 256) -> None:
        self.block_dim = block_dim
        self._together = is_simt(fn)
        self._arity = fn.tid_arity
        symbol = f"testing_{next(_serial)}"
        code = target_named().compile(fn, symbol)
        self._code = load_code(code.code, code.symbols)
        self._addresses = [self._code[name] for name in code.symbols]
        self._sites = code.sites
        self.types = tuple(p.type for p in fn.params)

    def run(self, dim: Sequence[int], args: Sequence[Any], chunk: int | None = None) -> None:
        """Run all threads, in chunks of `chunk` (by default in one chunk, in order)."""
        n = int(np.prod(dim))
        dims = (*dim, 1, 1, 1)[:4]
        if self._together:
            check_whole_blocks(tuple(dim), self._arity, self.block_dim)
            # The unit of work of a program whose threads work together is a block.
            n, dims = n // self.block_dim, (*dims[:3], self.block_dim)
        if n == 0:
            return
        size = n if chunk is None else chunk
        chunks = -(-n // size)
        # Sums over all threads are made in two steps, so that they don't depend on the number of workers: a partial for
        # each chunk and site, then one finishing program for each site.
        partials = np.empty(chunks * max(self._sites, 1), np.int64)
        status = np.zeros(1, np.int64)
        head = with_partials(header(dims, size, status.ctypes.data), partials.ctypes.data)
        packed = b"".join(_pack(t, a) for t, a in zip(self.types, args, strict=True))
        block = np.frombuffer(head + packed, np.uint8)
        pool.run(self._addresses[0], block.ctypes.data, 0, n, size)
        for finish in self._addresses[1:]:
            pool.run(finish, block.ctypes.data, 0, chunks, chunks)


class Interpreted:
    """A function as the Python source that users read, run thread by thread.

    Parameters
    ----------
    fn
        The function; it is not changed.
    observer
        A callback that is told of every access to an array.
    """

    def __init__(self, fn: Function, observer: executor.Observer | None = None) -> None:
        self.fn = fn
        self.observer = observer

    def run(self, dim: Sequence[int], args: Sequence[Any], chunk: int | None = None) -> None:
        """Run all threads, one after the other."""
        executor.run(self.fn, args, tuple(dim), observer=self.observer)


def _pack(t: Type, value: Any) -> bytes:
    if isinstance(value, bytes):
        return value
    if not isinstance(t, Array):
        assert not _is_stack(t)
        return pack_value(t, value)  # type: ignore[arg-type]
    assert isinstance(value, np.ndarray)
    assert value.dtype == _numpy(t.dtype), (t, value.dtype)
    return pack_array[t.ndim](value.ctypes.data, *value.shape[: t.ndim], *value.strides[: t.ndim])


def _is_stack(t: Type) -> bool:
    return not isinstance(t, Array) and not hasattr(t, "itemsize")


def _numpy(t: Element) -> np.dtype[Any]:
    return SCALARS[scalar_of(t).name].numpy


def leaf_values(value: Any, annotation: Any) -> list[Any]:
    """Return the values in the IR of an argument, copied: itself, or a value for each field of a struct."""
    definition = definition_of(type(value))
    if definition is not None:
        return [leaf for name in definition.type.names for leaf in leaf_values(getattr(value, name), None)]
    if isinstance(value, np.ndarray) and isinstance(annotation, ArrayAnnotation) and value.dtype.names is not None:
        value = wrap(value, annotation.element)
    return [np.array(part._host()) for part in value._leaves()] if isinstance(value, array) else [value]


def as_argument(t: Type, value: Any) -> Any:
    """Return a copy of an argument in the type of a parameter, as :meth:`GridProgram.run` takes it."""
    element = t.dtype if isinstance(t, Array) else t
    # Complex numbers are pairs in the IR; an array of pairs has them already.
    if is_complex(element) and (np.iscomplexobj(value) or np.ndim(value) == 0):
        value = parts(np.asarray(value, np.complex128))
    if isinstance(t, Array):
        return np.array(value, dtype=_numpy(t.dtype), order="C")
    if isinstance(t, Scalar):
        return _numpy(t).type(value)
    assert not _is_stack(t)
    return np.array(value, dtype=SCALARS[scalar_of(t).name].numpy)


def as_double(t: Type, value: Any) -> Any:
    """Return an argument with float64 instead of narrower floats (bfloat16 is given as its bits); others unchanged."""
    scalar = scalar_of(t)
    if not scalar.is_float:
        return value
    numbers = np.asarray(value)
    if scalar.name == "bfloat16" and numbers.dtype == np.uint16:
        # The bits of a bfloat16 are the upper half of a float32's.
        numbers = (numbers.astype(np.uint32) << 16).view(np.float32)
    double = numbers.astype(np.float64)
    return double if isinstance(t, Array) or double.ndim else np.float64(double[()])


def one_element(t: Type, value: Any) -> np.ndarray[Any, Any]:
    """Return the one-element array that represents a parameter by value (its cotangent has this shape)."""
    return np.asarray(value)[None].copy()


def zeros_for(t: Type, value: Any) -> np.ndarray[Any, Any]:
    """Return a cotangent of zeros for an argument: of its shape, or of one element for a parameter by value."""
    return np.zeros_like(value) if isinstance(t, Array) else np.zeros_like(one_element(t, value))
