"""``cuda.reduce``: a reduction of an array made of a function of two elements.

A :class:`Reduce` launches two kernels: 256 threads combine elements that are 256 apart, and one thread combines their
results.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from diffkern.cuda.arrays import on_device, to_device
from diffkern.cuda.devices import place
from diffkern.cuda.streams import native
from diffkern.kernels.kernel import Kernel
from diffkern.lang.func import Func, func
from diffkern.lang.intrinsics import INTRINSICS
from diffkern.runtime.arrays.array import array, new, wrap
from diffkern.runtime.memory.stream import ScopedStream

__all__ = ["Reduce", "reduce"]

_PARTS: Final = 256
_tid = INTRINSICS["tid"]


class Reduce:
    """A reduction; a decorator of a function of two elements that is associative and commutative.

    Parameters
    ----------
    functor : callable
        The function: a Python function, a lambda expression, or a device function.
    """

    def __init__(self, functor: Callable[..., Any]) -> None:
        # Numba's device functions and plain Python functions are taken as well as those of diffkern.
        made = functor if isinstance(functor, Func) else func(getattr(functor, "py_func", functor))
        # The kernels capture the function, so each reduction has its own.
        self._shares, self._rest = _kernels(made)

    def __call__(self, arr: Any, size: int | None = None, res: Any = None, init: Any = 0, stream: Any = 0) -> Any:
        """Reduce an array with one axis.

        Parameters
        ----------
        arr : array_like
            The array, of the host or of the device.
        size : int, optional
            Number of elements to reduce; all by default.
        res : DeviceArray, optional
            An array for the result, which becomes its first element.
        init : optional
            The initial value, 0 by default.
        stream : diffkern.cuda.streams.Stream, optional
            The stream.

        Returns
        -------
        scalar or None
            The result, None with `res`.
        """
        given = _on_device(arr)
        if given.ndim != 1:
            raise TypeError("only arrays with one axis are reduced")
        given = given if size is None else given[:size]
        # In the type of the elements, as the result is one of them.
        first = given._data.dtype.type(init)
        # Without elements the result is the initial value, and no kernel runs.
        if not given.size:
            return first
        with ScopedStream(native(stream)):
            device = given._memory.device
            # No more parts than elements: each thread starts from an element, as the function need not have a neutral
            # one.
            parts = new((min(given.size, _PARTS),), given._element, False, device)
            self._shares[parts.size](given, parts)
            result = new((1,), given._element, False, device) if res is None else res
            self._rest[1](parts, first, result)
            return result[0] if res is None else None

    def __repr__(self) -> str:
        return f"<cuda.reduce {self._rest}>"


def _on_device(arr: Any) -> array:
    if isinstance(arr, array):
        return arr
    if isinstance(arr, np.ndarray) and place().is_cpu:
        return on_device(wrap(arr))
    return to_device(arr)


def _kernels(combine: Func) -> tuple[Kernel, Kernel]:
    @Kernel
    def shares(given, parts):  # type: ignore[no-untyped-def]
        k = _tid()
        total = given[k]
        for i in range(k + parts.shape[0], given.shape[0], parts.shape[0]):
            # In the type of the elements: the function may compute in a wider one, and a loop variable keeps its type.
            total = given.dtype(combine(total, given[i]))
        parts[k] = total

    @Kernel
    def rest(parts, first, result):  # type: ignore[no-untyped-def]
        total = first
        for k in range(parts.shape[0]):
            total = parts.dtype(combine(total, parts[k]))
        result[_tid()] = total

    return shares, rest


reduce = Reduce
