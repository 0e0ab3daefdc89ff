"""Derivatives of funcs called from Python, and threads of kernels called in numba's CUDA simulator.

Numbers, vectors and arrays are passed to the readable source of the derivative, and no compiler is involved. The
simulator runs kernels as Python code, and so everything they call.
"""

from __future__ import annotations

import inspect
import sys
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from diffkern.errors import KernelTypeError, MisuseError, described
from diffkern.lang.called import Called, RequestedForm
from diffkern.process.forks import free_in_child

if TYPE_CHECKING:
    from diffkern.lang.intrinsics import Intrinsic
    from diffkern.lang.library import Composed

__all__ = ["evaluate"]

# The simulator has no device, so any recent target's printed source will do.
_SIMULATED = "sm_90"

Made = Callable[..., Any]
_made: weakref.WeakKeyDictionary[Callable[..., Any], dict[Any, tuple[Any, Made]]] = weakref.WeakKeyDictionary()
_lock = free_in_child(threading.RLock())


def evaluate(called: Called | Composed | Intrinsic, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """Evaluate a call from Python.

    Parameters
    ----------
    called : Called, Composed or Intrinsic
        The callee: a form of a func or kernel, or a built-in function.
    args, kwargs
        Its arguments: numbers, vectors and matrices as tuples or values such as ``dk.vec3(…)``, NumPy arrays. A Python
        float counts as float64, an int as int64, unless the parameter's annotation says otherwise.

    Raises
    ------
    KernelError
        If they do not fit, or the function cannot be differentiated.
    MisuseError
        For a thread of a kernel, outside of numba's CUDA simulator.
    """
    if not isinstance(called, Called):
        from diffkern.host.built_in_calls import call

        return call(called, args, kwargs)
    # The forms of kernels are threads.
    if called.form.of_kernel:
        return _thread(called, args, kwargs)
    # A derivative of a derivative is itself written as a func, which is then evaluated like any other.
    if isinstance(called.owner, Called):
        from diffkern.lang.functions import calling

        func = calling(called, len(args))
        called = Called(func, func.pyfunc, RequestedForm.VALUE, "")
    given = _in_order(called, args, kwargs)
    types = tuple(_type_of(called, value) for value in given)
    # Evaluators are kept by types, as making one means lowering and printing.
    result = _function(called, types, _host_function)(*given)
    return _as_tuples(result) if any(isinstance(value, tuple) for value in given) else result


def _in_order(called: Called, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[Any, ...]:
    if not kwargs:
        return args
    if called.form is RequestedForm.VJP:
        raise KernelTypeError(f"{called.name} takes no keyword arguments", remedy="give the values in order")
    try:
        return inspect.signature(called.pyfunc).bind(*args, **kwargs).args
    except TypeError as error:
        raise KernelTypeError(
            f"{called.name}: {error}", remedy=f"its parameters are {inspect.signature(called.pyfunc)}"
        ) from error


def _type_of(called: Called, value: Any) -> Any:
    from diffkern.ir import types as T
    from diffkern.lang.dtypes import element_of_value
    from diffkern.lang.values import CompositeValue

    if isinstance(value, CompositeValue):
        return value.ir
    # Before int, as bool is derived from it; NumPy's scalars have their own types below.
    if isinstance(value, bool):
        return T.BOOL
    if isinstance(value, float) and not isinstance(value, np.generic):
        return T.FLOAT64
    if isinstance(value, complex) and not isinstance(value, np.generic):
        return T.complex_number(T.FLOAT64)
    if isinstance(value, int):
        return T.INT64
    if isinstance(value, tuple):
        array = np.asarray(value)
        if array.dtype.name in T.SCALARS and 2 <= array.shape[-1] <= 4 and array.ndim <= 2 and array.shape[0] <= 4:
            scalar = T.SCALARS[array.dtype.name]
            return T.Vec(scalar, array.shape[0]) if array.ndim == 1 else T.Mat(scalar, *array.shape)
    elif (scalar_type := element_of_value(value)) is not None:
        return scalar_type
    elif hasattr(value, "shape") and hasattr(value, "dtype") and np.dtype(value.dtype).name in T.SCALARS:
        return T.Array(T.SCALARS[np.dtype(value.dtype).name], len(value.shape), "A")
    raise KernelTypeError(
        f"{called.name} is called with {described(value)}",
        remedy="pass numbers, tuples of 2 to 4 numbers for vectors, and NumPy arrays",
    )


def _function(called: Called, types: Any, make: Callable[[Called, Any], Made]) -> Made:
    """Return the evaluator of a call for types of arguments, rebuilt if the function's meaning has changed."""
    from diffkern.frontend.syntax.canonical import fingerprint

    with _lock:
        # The function may capture globals that have changed since the evaluator was made.
        meaning = fingerprint(called.pyfunc)
        known = _made.setdefault(called.pyfunc, {})
        found = known.get((called.form, types))
        if found is None or found[0] != meaning:
            found = known[called.form, types] = meaning, make(called, types)
        return found[1]


def _host_function(called: Called, types: Sequence[Any]) -> Made:
    from diffkern.host.device_functions import device_function
    from diffkern.printing.executor import evaluator

    made = device_function(called.pyfunc, called.form, types)
    return evaluator(made.fn, made.python_source())


def _as_tuples(result: Any) -> Any:
    if isinstance(result, tuple):
        return tuple(_as_tuples(part) for part in result)
    if isinstance(result, np.ndarray):
        return tuple(_as_tuples(part) for part in result) if result.ndim > 1 else tuple(result)
    return result


# -- threads of kernels ------------------------------------------------------------------------------------------------


def _is_simulated() -> bool:
    """Return whether numba-cuda's simulator is enabled."""
    numba = sys.modules.get("numba")
    return numba is not None and bool(numba.config.ENABLE_CUDASIM)


def _thread(called: Called, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
    if not _is_simulated():
        raise MisuseError(
            f"{called.name} is one thread of a kernel, which a Numba program calls: Python launches the whole kernel",
            remedy="call it in a function decorated with numba.njit or numba.cuda.jit",
        )
    called.check()
    if kwargs or not args:
        raise KernelTypeError(
            f"{called.name} takes the thread's index and the arguments in order",
            remedy=f"write {called.name}(0, …), with the arguments of a launch behind the index",
        )
    tid, *given = args
    types = tuple(None if value is None else _type_of(called, value) for value in given)
    # The source depends on whether the index is a number or a tuple.
    key = ("tuple" if isinstance(tid, tuple) else "int", *types)
    _function(called, key, _simulated)(tid, *given)


def _simulated(called: Called, key: Sequence[Any]) -> Made:
    from diffkern.host.device_functions import device_function
    from diffkern.printing.executor import load_source
    from diffkern.printing.python import function_name

    made = device_function(called.pyfunc, called.form, key[1:], _SIMULATED)
    return load_source(made.cuda_source(_SIMULATED, key[0]), function_name(made.fn))
