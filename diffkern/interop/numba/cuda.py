"""Calls from functions that ``numba.cuda.jit`` compiles: readable source of the function, compiled as a device function.

It is printed for the architecture that is compiled for, and NVVM inlines it. What ``fastmath`` says in the caller holds
in it. In numba's CUDA simulator nothing is compiled: functions there call diffkern's as Python does.
"""

from __future__ import annotations

import functools
import sys
from typing import Any

from numba import cuda
from numba.cuda import types
from numba.cuda.core import errors
from numba.cuda.core.caching import NullCache
from numba.cuda.core.imputils import lower_constant
from numba.cuda.core.targetconfig import ConfigStack
from numba.cuda.dispatcher import CUDADispatcher
from numba.cuda.extending import lower_getattr_generic, models, register_model, typeof_impl
from numba.cuda.typing import signature
from numba.cuda.typing.templates import AttributeTemplate, infer_getattr

from diffkern.interop.numba.calls import Call, Library, callable_type, called_of
from diffkern.kernel import Kernel
from diffkern.lang import Func
from diffkern.lang.called import Called
from diffkern.printing.executor import load_source
from diffkern.printing.python import function_name

__all__ = ["register"]
