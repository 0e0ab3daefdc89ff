"""Calls from functions that ``numba.cuda.jit`` compiles: the readable source, compiled as a device function.

It is compiled for the architecture of its caller, and inlined. ``fastmath`` of the caller applies to it. In numba's
CUDA simulator nothing is compiled: functions there call diffkern's as Python does.
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
from numba.cuda.descriptor import cuda_target
from numba.cuda.dispatcher import CUDADispatcher
from numba.cuda.extending import core_models  # type: ignore[attr-defined]
from numba.cuda.typing.templates import AttributeTemplate

from diffkern.interop.numba.calls import (
    CompiledCall,
    NumbaLibrary,
    TypedCall,
    Types,
    attributes,
    make_types,
    numba_type,
)
from diffkern.lang.called import KnownToNumba
from diffkern.printing.executor import load_source
from diffkern.printing.python import function_name
from diffkern.targets.numba_cuda import bindings

__all__ = ["type_of"]

TARGET = "sm_90"
"""Whose limits hold: those of a thread's memory, which are the same for all."""


def type_of(known: KnownToNumba) -> Any:
    """Return numba-cuda's type of a func, a kernel, or a form of one."""
    return numba_type(_registered(), known)


@functools.cache
def _registered() -> Types:
    """Return the types, registered with numba-cuda with their attributes and constants; once for a process."""
    bindings.numba()
    made = make_types(NumbaLibrary(types, errors, TARGET, _state), _compiled)
    for one in made:
        models.register_model(one)(core_models.OpaqueModel)
        implementations.lower_constant(one)(lambda context, builder, t, value: context.get_dummy_value())
        implementations.lower_getattr_generic(one)(lambda context, builder, t, value, name: context.get_dummy_value())
        declarations.register_attr(attributes(AttributeTemplate, one, made))
    # A function is being compiled: what has been registered counts for it, too.
    cuda_target.typing_context.refresh()
    cuda_target.target_context.refresh()
    return made


def _state() -> tuple[tuple[int, int], bool]:
    """Return the architecture that is compiled for, and whether ``fastmath`` applies."""
    flags = ConfigStack.top_or_none()
    return flags.compute_capability, bool(flags.fastmath)


def _compiled(call: TypedCall) -> CompiledCall:
    """Compile the function of a call."""
    _refuse_cache(call)
    architecture, fast = _state()
    printed: Any = load_source(call.made.cuda_source(TARGET, call.tid), function_name(call.made.fn))
    device = cuda.jit(device=True, forceinline=True, fastmath=fast)(printed.py_func)  # type: ignore[call-arg]
    # numba-cuda would compile for the device at hand, which may be another one than the caller is compiled for.
    with bindings.compiling_for(architecture):
        compiled = device.compile_device(call.arguments, call.result)
    return CompiledCall(
        compiled.signature, compiled.entry_point, device
    )  # numba-cuda forgets those of a dispatcher gone


def _refuse_cache(call: TypedCall) -> None:
    """Refuse callers that numba-cuda keeps on disk: it would not notice that the function has changed."""
    frame: FrameType | None = sys._getframe()
    # The dispatcher of the caller is known to numba-cuda's compiler only as a local of its frames.
    while frame is not None:
        caller = frame.f_locals.get("self")
        if isinstance(caller, CUDADispatcher) and not isinstance(caller._cache, NullCache):
            raise errors.TypingError(
                f"{caller.py_func.__name__} is kept on disk (cache=True) and calls {call.called.name}, of which "
                "numba-cuda does not notice changes\nhelp: leave cache=True out"
            )
        frame = frame.f_back
