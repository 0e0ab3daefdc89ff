"""Runs the Python form of a function, thread by thread, and reports every element that a thread accesses.

It takes a function, its arguments as NumPy arrays and scalars (composite elements as trailing axes), and a launch size,
and changes the arrays in place. The source that runs is the readable one; it is registered with ``linecache``, so that
a debugger can step through it and a traceback shows its lines.

Threads run one after the other, so no update is ever lost: an observer, who is told of every access, finds the elements
in which threads of a parallel launch would race.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import linecache
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from diffkern.contracts.abi import MAX_DIMS
from diffkern.ir.nodes import Function
from diffkern.ir.types import BFLOAT16, Array, Element, Mat, Scalar, Type, Vec, is_complex, scalar_of, value_type
from diffkern.lang.values import CompositeValue
from diffkern.printing.prims import launched_over
from diffkern.printing.python import function_name, to_python
from diffkern.process.dataclass import dataclass

__all__ = ["ElementAccess", "Observer", "evaluator", "load_source", "run"]


@dataclass(frozen=True, slots=True)
class ElementAccess:
    """An access of one thread to one element.

    Attributes
    ----------
    thread : int
        Flattened thread index.
    param : str
        Name of the array parameter.
    index : tuple of int
        The element.
    kind : str
        ``"read"``, ``"write"``, ``"plain"`` (an accumulation), ``"atomic"`` or ``"reduce"``.
    address : int
        The element's address in memory: the same for two parameters that share a buffer.
    """

    thread: int
    param: str
    index: tuple[int, ...]
    kind: str
    address: int


Observer: TypeAlias = Callable[[ElementAccess], None]


def load_source(source: str, name: str) -> Callable[..., None]:
    """Execute generated source and return its function; its lines are visible to debuggers and tracebacks."""
    # The hash makes the name unique, as linecache keeps sources by file name.
    filename = f"<diffkern {name} {hashlib.sha256(source.encode()).hexdigest()[:12]}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    namespace: dict[str, Any] = {}
    exec(compile(source, filename, "exec"), namespace)
    function: Callable[..., None] = namespace[name]
    return function


def run(
    fn: Function,
    args: Sequence[Any],
    dim: int | Sequence[int],
    *,
    order: Sequence[int] | None = None,
    observer: Observer | None = None,
) -> None:
    """Run every thread of a launch in Python.

    Parameters
    ----------
    fn : Function
        A verified function.
    args : sequence
        One argument per parameter: NumPy arrays (changed in place), scalars, small arrays for composites. A bfloat16
        array is given as its uint16 bits.
    dim : int or sequence of int
        The launch's size, up to four axes.
    order : sequence of int, optional
        Flattened thread indices in the order in which they run; by default ascending.
    observer : callable, optional
        Called for every access to an array.

    Raises
    ------
    IndexError
        If a thread leaves an array.
    """
    dims = (dim,) if isinstance(dim, int) else tuple(dim)
    if len(dims) > MAX_DIMS:
        raise ValueError(f"a launch has at most {MAX_DIMS} axes, not {len(dims)}")
    function = load_source(to_python(fn), function_name(fn))
    watch = _Watch(observer)
    if len(args) != len(fn.params):
        raise ValueError(f"{fn.name} takes {len(fn.params)} arguments, not {len(args)}")
    values = [_argument(p.name, p.type, a, watch) for p, a in zip(fn.params, args, strict=True)]
    # Row-major, as launches number their threads.
    coordinates = list(itertools.product(*(range(d) for d in dims)))
    padding = (np.int32(0),) * (MAX_DIMS - len(dims))
    with np.errstate(all="ignore"), _weak_literals(), launched_over(dims):
        for t in range(len(coordinates)) if order is None else order:
            watch.thread = t
            function((*map(np.int32, coordinates[t]), *padding), *values)


def evaluator(fn: Function, source: str) -> Callable[..., Any]:
    """Return a callable that evaluates a function that asks for no thread.

    Parameters
    ----------
    fn : Function
        The function.
    source : str
        Its source as :func:`~diffkern.printing.functions.to_python_function` gives it.

    Returns
    -------
    callable
        Takes an argument per parameter as :func:`run` does, and gives scalars of NumPy and small arrays.
    """
    function = load_source(source, function_name(fn))
    # Complex numbers are pairs inside, and converted only for the caller.
    of_numbers = any(is_complex(v.type) for v in fn.body.yields)
    converters = [_converter(p.name, p.type) for p in fn.params]

    def evaluate(*args: Any) -> Any:
        values = [converter(a) for converter, a in zip(converters, args, strict=True)]
        if _IS_STRONG:
            with np.errstate(all="ignore"), _weak_literals():
                found = function(*values)
        else:
            with np.errstate(all="ignore"):
                found = function(*values)
        if not of_numbers:
            return found
        results = found if isinstance(found, tuple) else (found,)
        made = tuple(_as_result(v.type, r) for v, r in zip(fn.body.yields, results, strict=True))
        return made if isinstance(found, tuple) else made[0]

    return evaluate


def _as_result(t: Type, value: Any) -> Any:
    """Return a result in the host's form: complex numbers as NumPy's."""
    return value.view(np.dtype(str(t)))[0] if is_complex(t) else value


_IS_STRONG: Final = np.__version__.startswith("1.")
"""True where literals have types of their own."""


@contextlib.contextmanager
def _weak_literals() -> Iterator[None]:
    """Let a bare literal take the type of the other operand, which NumPy 1 does on request only."""
    if not _IS_STRONG:
        yield
        return
    before = np._get_promotion_state()  # type: ignore[attr-defined]
    np._set_promotion_state("weak")  # type: ignore[attr-defined]
    try:
        yield
    finally:
        np._set_promotion_state(before)  # type: ignore[attr-defined]


@dataclass(slots=True)
class _Watch:
    observer: Observer | None
    thread: int = 0


def _argument(name: str, t: Type, value: Any, watch: _Watch) -> Any:
    if isinstance(t, Array):
        return _View(name, t, value, watch)
    if not isinstance(t, (Scalar, Vec, Mat)):
        raise TypeError(f"{t} is not a parameter type")
    return _as_value(value, value_type(t))


def _converter(name: str, t: Type) -> Callable[[Any], Any]:
    """Return what :func:`_argument` does for a parameter that nobody watches."""
    if not isinstance(t, (Scalar, Vec, Mat)) or is_complex(t):
        return lambda value: _argument(name, t, value, _Watch(None))
    held = value_type(t)
    dtype = np.dtype(scalar_of(held).name)
    if isinstance(held, Scalar):
        return dtype.type
    shape = held.shape

    def components(value: Any) -> Any:
        # The view of a value of ours is at hand, where NumPy would ask for its array by a protocol.
        given = value.view(np.ndarray) if isinstance(value, CompositeValue) else value
        return np.array(given, dtype).reshape(shape)

    return components


def _as_value(value: Any, t: Element) -> Any:
    dtype = np.dtype(scalar_of(t).name)
    if isinstance(t, Scalar):
        return dtype.type(value)
    if is_complex(t) and np.ndim(value) == 0:
        value = (value.real, value.imag)
    return np.array(value, dtype).reshape(t.shape)


class _View:
    """An array for generated source: elements come out as values, and accesses are reported."""

    def __init__(self, name: str, t: Array, data: NDArray[Any], watch: _Watch) -> None:
        element = t.dtype.shape if isinstance(t.dtype, (Vec, Mat)) else ()
        if data.shape[t.ndim :] != element:
            raise ValueError(f"{name} has shape {data.shape}, not {t.ndim} axes of {t.dtype}")
        self._name, self._type, self._data, self._watch = name, t, data, watch
        self._value = value_type(t.dtype)
        self.shape = data.shape[: t.ndim]

    def __repr__(self) -> str:
        values = np.array2string(self._data, separator=", ", threshold=20, edgeitems=3)
        return f"{self._name}: {self._value}, shape {self.shape}, {values}"

    def __getitem__(self, index: Any) -> Any:
        self._report(index, "read")
        return self._load(index)

    def __setitem__(self, index: Any, value: Any) -> None:
        self._report(index, "write")
        self._store(index, value)

    def update(self, index: Any, value: Any, kind: str, combine: Callable[[Any, Any], Any]) -> Any:
        """Replace an element by ``combine(element, value)``; return the old one."""
        self._report(index, kind)
        old = self._load(index)
        self._store(index, combine(old, value))
        return old

    def zeros(self, shape: tuple[int, ...]) -> NDArray[Any]:
        """Return a tile of this array's elements, all 0."""
        t = self._value
        element = t.shape if isinstance(t, (Vec, Mat)) else ()
        return np.zeros((*shape, *element), np.dtype(scalar_of(t).name))

    def _load(self, index: Any) -> Any:
        # bfloat16 arrays are given as bits, as NumPy has no such type.
        raw = self._data[index]
        if scalar_of(self._type.dtype) == BFLOAT16:
            raw = (np.asarray(raw, np.uint32) << np.uint32(16)).view(np.float32)[()]
        return _as_value(raw, self._value)

    def _store(self, index: Any, value: Any) -> None:
        if scalar_of(self._type.dtype) == BFLOAT16:
            # Round to nearest, ties to even, and keep NaN a NaN.
            bits = np.asarray(value, np.float32).view(np.uint32)
            rounded = (bits + ((bits >> np.uint32(16)) & np.uint32(1)) + np.uint32(0x7FFF)) >> np.uint32(16)
            value = np.where(np.isnan(value), (bits >> np.uint32(16)) | np.uint32(0x40), rounded)
        self._data[index] = value

    def _report(self, index: Any, kind: str) -> None:
        place = tuple(int(k) for k in (index if isinstance(index, tuple) else (index,)))
        if len(place) != self._type.ndim:
            raise IndexError(f"{self._name} has {self._type.ndim} axes, not {len(place)}")
        if self._watch.observer is None:
            return
        # Counted from the front, so that two threads' accesses of one element compare equal.
        place = tuple(k + n if k < 0 else k for k, n in zip(place, self.shape, strict=True))
        offset = sum(k * s for k, s in zip(place, self._data.strides, strict=False))
        address = self._data.ctypes.data + offset
        self._watch.observer(ElementAccess(self._watch.thread, self._name, place, kind, address))
