"""Calls from functions that ``numba.cuda.jit`` compiles: the readable source, compiled as a device function.

It is compiled for the architecture that its caller is compiled for, and inlined. What ``fastmath`` says in the caller
holds in it. In numba's CUDA simulator nothing is compiled: functions there call diffkern's as Python does.
"""

from __future__ import annotations

import functools
import sys
from types import FrameType
from typing import Any

from numba import cuda
from numba.core.targetconfig import ConfigStack
from numba.cuda import models, types
from numba.cuda.core import errors
from numba.cuda.core.caching import NullCache
from numba.cuda.cudadecl import registry as declarations
from numba.cuda.cudaimpl import registry as implementations
from numba.cuda.dispatcher import CUDADispatcher
from numba.cuda.extending import core_models, typeof_impl  # type: ignore[attr-defined]
from numba.cuda.typing.templates import AttributeTemplate

from diffkern.interop.numba.calls import Call, Compiled, Library, callable_type, called_of
from diffkern.kernel import Kernel
from diffkern.lang import Func
from diffkern.lang.called import Called
from diffkern.printing.executor import load_source
from diffkern.printing.python import function_name
from diffkern.targets.numba_cuda import bindings

__all__ = ["register"]

TARGET = "sm_90"
"""Whose limits hold: those of a thread's memory, which are the same for all."""


@functools.cache
def register() -> None:
    """Register types, attributes and constants with numba-cuda; once for a process."""
    bindings.numba()
    called_type, kernel_type = callable_type(Library(types, errors, TARGET, _state), _compiled)
    typeof_impl.register(Func)(lambda func, c: called_type(func, called_of(func)))
    typeof_impl.register(Called)(lambda called, c: called_type(called.owner, called))
    typeof_impl.register(Kernel)(lambda kernel, c: kernel_type(kernel))
    for one in (called_type, kernel_type):
        models.register_model(one)(core_models.OpaqueModel)
        implementations.lower_constant(one)(lambda context, builder, t, value: context.get_dummy_value())
        implementations.lower_getattr_generic(one)(lambda context, builder, t, value, name: context.get_dummy_value())
        declarations.register_attr(_attributes(one, called_type))


def _attributes(owner: type, called_type: type) -> type:
    class Attributes(AttributeTemplate):  # type: ignore[misc]
        key = owner

        def generic_resolve(self, t: Any, attribute: str) -> Any:
            found = getattr(t.owner, attribute, None)
            return called_type(t.owner, found) if isinstance(found, Called) else None

    return Attributes


def _state() -> tuple[tuple[int, int], bool]:
    """The architecture that is compiled for, and whether ``fastmath`` holds."""
    flags = ConfigStack.top_or_none()
    return flags.compute_capability, bool(flags.fastmath)


def _compiled(call: Call) -> Compiled:
    """Compile the function of a call."""
    _refuse_cache(call)
    architecture, fast = _state()
    function = load_source(call.made.cuda_source(TARGET, call.tid), function_name(call.made.fn))
    device = cuda.jit(device=True, forceinline=True, fastmath=fast)(function)  # type: ignore[call-arg]
    with bindings.compiling_for(architecture):
        compiled = device.compile_device(call.arguments, call.result)
    return Compiled(compiled.signature, compiled.entry_point, device)  # numba-cuda forgets those of a dispatcher gone


def _refuse_cache(call: Call) -> None:
    """Refuse callers that numba-cuda keeps on disk: it would not notice that the function has changed."""
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        caller = frame.f_locals.get("self")
        if isinstance(caller, CUDADispatcher) and not isinstance(caller._cache, NullCache):
            raise errors.TypingError(
                f"{caller.py_func.__name__} is kept on disk (cache=True) and calls {call.called.name}, of which "
                "numba-cuda does not notice changes\nhelp: leave cache=True out"
            )
        frame = frame.f_back
