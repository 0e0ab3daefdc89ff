"""Names of Warp that diffkern does not have, and types that can be named but have no values here.

The latter are arrays of Fabric and textures of OpenGL.

The classes may stand in annotations, in fields of structs, in ``isinstance`` and as base classes. Constructing a value
raises an error that names a replacement. In kernels, those that Warp passes by value are structs that begin as zeros.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Mapping
from typing import Any, Final, NoReturn

from diffkern.errors import MisuseError
from diffkern.lang.annotations import ANY, array_annotation, subscripted
from diffkern.warp.declare import struct

__all__ = ["INSTEAD", "KINDS", "TYPES", "Missing", "MissingFunction", "missing", "missing_function", "named"]


FABRIC: Final = "copy the attributes into arrays of their own"
OPENGL: Final = "register the buffer with the CUDA driver, and wrap it by __cuda_array_interface__"


_ABSENT: Final = "is not part of diffkern"


class Missing(type):
    """The class of a type that can be named and has no values."""

    remedy: str

    def __call__(cls, *args: Any, **kwargs: Any) -> NoReturn:
        raise MisuseError(f"diffkern makes no {_named(cls)}", remedy=cls.remedy)

    def __getattr__(cls, name: str) -> NoReturn:
        said = f"{cls.__name__} has no attribute {name!r}"
        # Python itself looks for names with underscores, for example when it copies or inspects a class.
        if not name.startswith("_"):
            said += f": diffkern makes no {_named(cls)}; {cls.remedy}"
        raise AttributeError(said)


def _named(cls: type) -> str:
    """The type of Warp that a class is or is derived from."""
    # A class derived from a missing type has no remedy of its own.
    return next(base.__name__ for base in cls.__mro__ if "remedy" in vars(base))


class FabricArray(Missing):
    """The metaclass of arrays over memory of another library, which annotate like other arrays."""

    def __call__(cls, *args: Any, dtype: Any = ANY, ndim: int = 1, **kwargs: Any) -> Any:
        # `fabricarray(dtype=...)` is an annotation; anything else would make an array.
        if args or kwargs:
            return super().__call__(*args, **kwargs)
        return array_annotation(dtype, ndim)

    def __getitem__(cls, item: Any) -> Any:
        return subscripted(item)


class MissingFunction:
    """A function that can be named and not called.

    Parameters
    ----------
    name : str
        The name of the function.
    remedy : str
        The replacement.
    """

    def __init__(self, name: str, remedy: str) -> None:
        self.__name__ = name
        self.refused_in_kernels = (_ABSENT, remedy)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise MisuseError(f"{self.__name__} {self.refused_in_kernels[0]}", remedy=self.refused_in_kernels[1])

    def __repr__(self) -> str:
        return f"<{self.__name__}, which is not part of diffkern>"


def missing(name: str, remedy: str, fields: Mapping[str, Any] | None = None, of: type[Missing] = Missing) -> Any:
    """Return a type that can be named; with fields, to kernels it is a struct that has them.

    Parameters
    ----------
    name : str
        The type's name.
    remedy : str
        The replacement.
    fields : mapping, optional
        Types of fields by name.
    of : type, optional
        The metaclass of the type.
    """
    # The module of the caller counts, as for a class statement there.
    caller: Any = inspect.currentframe().f_back  # type: ignore[union-attr]
    body = {"__module__": caller.f_globals["__name__"], "__doc__": f"Not part of diffkern: {remedy}.", "remedy": remedy}
    body["refused_in_kernels"] = (_ABSENT, remedy)
    if fields is None:
        return of(name, (), body)
    return struct(of(name, (), body | {"__annotations__": dict(fields)}))


def missing_function(name: str, remedy: str) -> Callable[..., Any]:
    """Return a function that can be named."""
    return MissingFunction(name, remedy)


fabricarray = missing("fabricarray", FABRIC, of=FabricArray)
fabricarrayarray = missing("fabricarrayarray", FABRIC, of=FabricArray)
indexedfabricarray = missing("indexedfabricarray", FABRIC, of=FabricArray)
indexedfabricarrayarray = missing("indexedfabricarrayarray", FABRIC, of=FabricArray)

GLTextureResource = missing("GLTextureResource", OPENGL)
RegisteredGLBuffer = missing("RegisteredGLBuffer", OPENGL)

TYPES: Final[Mapping[str, str]] = {
    name: value.remedy for name, value in list(globals().items()) if isinstance(value, Missing)
}
"""The replacement for each type, by its name."""


# -- modules by name only ----------------------------------------------------------------------------------------------
# Modules of Warp that exist here by name only: ``warp.fem``, ``warp.optim.linear``, ``warp.render``, ….
#
# Programs may import such a module, annotate with its types and derive classes from them. Constructing or calling
# anything of it raises an error. A module's ``__getattr__`` returns the placeholders that are made here.


def named(module: str, classes: str, functions: str, remedy: str) -> Callable[[str], Any]:
    """Return what gets the names of a module that diffkern does not have.

    Parameters
    ----------
    module : str
        The module that shall have them.
    classes, functions : str
        Their names.
    remedy : str
        The replacement.
    """
    types, callables = frozenset(classes.split()), frozenset(functions.split())
    shown = module.partition(".")[2]

    @functools.cache
    def get(name: str) -> Any:
        if name in types:
            made = missing(name, remedy)
            made.__module__ = module
        elif name in callables:
            made = missing_function(f"{shown}.{name}", remedy)
        elif name == "__all__":
            made = sorted({*types, *callables})
        else:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        setattr(sys.modules[module], name, made)
        return made

    return get


# -- names that diffkern does not have ---------------------------------------------------------------------------------
# Each with its replacement: INSTEAD is quoted by the errors and listed in the documentation, KINDS tells functions from
# classes.


KINDS: Final[Mapping[str, str]] = {}
"""Features that diffkern does not have, by the prefix of their functions' names."""

_BY_REASON: Final[Mapping[str, str]] = {
    "pass the array itself and an index; kernels have no addresses": "address_of address view index indexref",
    "read and write elements by index, as in a[i] = x": (
        "load store array_store extract assign assign_copy assign_inplace add_inplace sub_inplace bit_and_inplace "
        "bit_or_inplace bit_xor_inplace transform_add_inplace transform_sub_inplace transform_set_rotation_copy "
        "transform_set_translation_copy"
    ),
    "write it as an expression: it stands for syntax": "iter_next slice tuple",
    "take tile_matmul, tile_cholesky and tile_cholesky_solve": (
        "dense_chol dense_chol_batched dense_gemm dense_gemm_batched dense_solve dense_solve_batched dense_subs"
    ),
    "exchange arrays by DLPack: from_dlpack(tensor)": (
        "device_from_paddle device_to_paddle dtype_from_paddle dtype_to_paddle from_paddle stream_from_paddle to_paddle"
    ),
    "share arrays between processes by multiprocessing's shared memory, wrapped with from_numpy": (
        "event_from_ipc_handle from_ipc_handle"
    ),
    "compile ahead with diffkern compile, and load with diffkern.load": (
        "compile_aot_module load_aot_module build_experimental ModuleBuildOptions"
    ),
    "record with diffkern.record, or capture with ScopedCapture": ("capture_load capture_load_from_bytes capture_save"),
    "memory comes from the CUDA driver's own pool; hand arrays of another allocator over with from_dlpack": (
        "Allocator CudaManagedAllocator ScopedAllocator get_device_allocator set_cuda_allocator set_device_allocator"
    ),
    "measure with ScopedTimer(synchronize=True) or events, and NVIDIA's profilers": (
        "TimingResult timing_begin timing_end timing_print"
    ),
    "register the buffer with the CUDA driver, and wrap it by __cuda_array_interface__": (
        "map_cuda_device unmap_cuda_device"
    ),
    "look at the compiled kernel: diffkern.compile(kernel, target=...) has registers, shared memory and code": (
        "get_cuda_kernel_properties get_cuda_max_cluster_dim get_cpu_kernel_cache_key"
    ),
}


def _names() -> dict[str, str]:
    return {name: remedy for remedy, names in _BY_REASON.items() for name in names.split()}


INSTEAD: Final[Mapping[str, str]] = _names()
"""The replacement for each missing name."""
