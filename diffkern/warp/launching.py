"""``wp.launch``: launches that obey the settings of ``wp.config``; and ``wp.map``.

``wp.config.print_launches`` logs a line for each launch. With ``wp.config.verify_fp`` the floating-point arrays of a
launch are checked afterwards for NaN and infinity.
"""

from __future__ import annotations

import functools
import inspect
import sys
import weakref
from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np

from diffkern.errors import KernelError, KernelRuntimeError, KernelTypeError
from diffkern.kernels.kernel import Kernel as NativeKernel
from diffkern.lang.dialects import WARP
from diffkern.process.tracebacks import shorten
from diffkern.runtime.arrays.array import array
from diffkern.runtime.launch.grid_checks import AxesError
from diffkern.runtime.records.launch import launch as native_launch
from diffkern.runtime.records.launch import launch_tiled as native_launch_tiled
from diffkern.transforms.mapping import mapped
from diffkern.warp import config as _loaded  # noqa: F401  its settings are asked for at each launch
from diffkern.warp.axes import fitted
from diffkern.warp.declare import Kernel
from diffkern.warp.loggers import log_info

__all__ = ["launch", "launch_tiled", "map_arrays"]


def _observed(function: Callable[..., Any]) -> Callable[..., Any]:
    """Let launches be printed and what they wrote be looked at, where the settings ask for it."""
    signature: Final = inspect.signature(function)

    def run(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except AxesError as error:
            bound = _with_axes(signature.bind(*args, **kwargs), error)
            return function(*bound.args, **bound.kwargs)
        except KernelTypeError:
            # Warp does not compile a kernel for a launch without threads, whose arrays may be None.
            if not np.prod(signature.bind(*args, **kwargs).arguments["dim"]):
                return None
            raise

    @functools.wraps(function)
    def launched(*args: Any, **kwargs: Any) -> Any:
        # Looked up at each launch: the module's place is taken by an object with the settings as attributes.
        settings: Any = sys.modules["diffkern.warp.config"]
        if not (settings.print_launches or settings.verify_fp):
            # The usual path has no extra work: the arguments are not bound to names.
            try:
                return run(*args, **kwargs)
            except KernelError as error:
                shorten(error)
                raise
        given = signature.bind(*args, **kwargs).arguments
        kernel, arguments = given["kernel"], [*given.get("inputs", ()), *given.get("outputs", ())]
        if settings.print_launches:
            log_info(f"kernel: {kernel.name} module {kernel.module_name} inputs {arguments} dim {given['dim']}")
        # The arrays are looked at behind the launch, which waits for a GPU.
        result = run(*args, **kwargs)
        if settings.verify_fp:
            _verify(kernel, arguments)
        return result

    return launched


def _with_axes(bound: inspect.BoundArguments, error: AxesError) -> inspect.BoundArguments:
    """Return the arguments of a launch that was refused for its axes, with a kernel that has those of the launch."""
    given = bound.arguments
    # Warp allows a launch with other axes than the kernel has; a kernel for them is made where it is first needed.
    found = fitted(given["kernel"], given["dim"], error)
    if found is None:
        raise error
    given["kernel"], given["dim"] = found
    return bound


def _verify(kernel: Any, arguments: list[Any]) -> None:
    """Raise if an array of floats, or of structs with floats, holds a number that is not finite."""
    for parameter, value in zip(kernel.parameters, arguments, strict=False):
        for name, numbers in _floats(parameter.name, value.numpy()) if isinstance(value, array) else ():
            if not np.isfinite(numbers).all():
                where = tuple(int(k) for k in np.argwhere(~np.isfinite(numbers))[0])
                raise KernelRuntimeError(
                    f"after a launch of kernel {kernel.name!r} {name!r} has {numbers[where]} at {where}",
                    remedy="find the line with dk.detect_anomaly(), or set wp.config.verify_fp = False",
                )


def _floats(name: str, numbers: np.ndarray[Any, Any]) -> Iterator[tuple[str, np.ndarray[Any, Any]]]:
    """The arrays of floats that an array is or has in its fields, with their names."""
    for field in numbers.dtype.names or ():
        yield from _floats(f"{name}.{field}", numbers[field])
    if numbers.dtype.kind == "f":
        yield name, numbers


launch: Final = _observed(native_launch)
launch_tiled: Final = _observed(native_launch_tiled)


# -- functions of arrays -----------------------------------------------------------------------------------------------

_given: Final[weakref.WeakKeyDictionary[NativeKernel, Kernel]] = weakref.WeakKeyDictionary()
"""The kernels that programs have asked for, by those that are launched."""


def map_arrays(
    func: Callable[..., Any],
    *inputs: Any,
    out: Any = None,
    return_kernel: bool = False,
    block_dim: int | None = None,
    device: Any = None,
) -> Any:
    """Apply a function to the elements of arrays.

    Parameters
    ----------
    func : callable
        A built-in, a func, a Python function in the language of kernels, or a lambda.
    *inputs, out, return_kernel, block_dim, device
        As in :func:`diffkern.map`.

    Returns
    -------
    array, list of array, or Kernel
        The results: one array, or a list of several.
    """
    found = mapped(func, inputs, out, return_kernel, block_dim, device, WARP)
    if not return_kernel:
        return found
    # Programs expect a kernel of Warp's class, which has a module and overloads. It is made once for each native
    # kernel, so that its programs are kept.
    if found not in _given:
        _given[found] = Kernel(found.func)
    return _given[found]
