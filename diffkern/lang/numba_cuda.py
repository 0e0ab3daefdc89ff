"""The names of ``numba.cuda`` that a kernel may use: threads, blocks, memory of a block, atomics.

:data:`LANGUAGE` has one object for each name, which ``diffkern.cuda`` exports; :func:`ours` maps an object of numba to
its counterpart. Numba itself is never imported: its objects are known by module and name.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from types import FunctionType, ModuleType
from typing import Any, Final

from diffkern.errors import KernelError
from diffkern.lang.func import Func, function_of_dispatcher
from diffkern.lang.intrinsics import Intrinsic
from diffkern.process.tracebacks import brief

__all__ = ["LANGUAGE", "TOGETHER", "Special", "member", "ours"]


class Special:
    """A value that a kernel reads by name, without a call, such as ``cuda.threadIdx.x``.

    Attributes
    ----------
    name
        Its name.
    """

    def __init__(self, name: str) -> None:
        self.name: Final = name

    def __repr__(self) -> str:
        return f"<{self.name}>"


class CudaIntrinsic(Intrinsic):
    """A built-in function of numba's spelling; its name begins with ``cuda.``."""

    @property
    def __doc__(self) -> str:  # type: ignore[override]
        return f"{self.name}({self.signature})\n\n{self.summary}"

    @brief
    def __call__(self, *args: Any) -> Any:
        """Raise: it exists in kernels alone."""
        raise KernelError(
            f"{self.name} can only be called inside a kernel", remedy="call it from a function decorated with @cuda.jit"
        )

    def __repr__(self) -> str:
        return f"<{self.name}({self.signature})>"

    def __reduce__(self) -> tuple[Any, ...]:
        return _named, (self.name,)


def _named(name: str) -> CudaIntrinsic:
    # The path of names is walked as attributes are: namespaces hold classes, the language a mapping.
    found: Any = LANGUAGE
    for part in name.split(".")[1:]:
        found = found[part] if isinstance(found, Mapping) else getattr(found, part)
    assert isinstance(found, CudaIntrinsic)
    return found


_CALLS: Final[Mapping[str, tuple[str, str]]] = {
    "grid": ("ndim", "The thread's position in the whole grid: x, (x, y) or (x, y, z)."),
    "gridsize": ("ndim", "The number of threads of the whole grid along x, x and y, or x, y and z."),
    "syncthreads": ("", "Wait until all threads of the block are here; what they wrote is seen afterwards."),
    "shared.array": ("shape, dtype", "An array that the threads of a block share; shape 0 is dynamic shared memory."),
    "local.array": ("shape, dtype", "An array of the thread's own; its contents are undefined."),
    "atomic.add": ("array, index, value", "Add to an element at once; returns the old value."),
    "atomic.sub": ("array, index, value", "Subtract from an element at once; returns the old value."),
    "atomic.min": ("array, index, value", "Take the minimum with an element at once; returns the old value."),
    "atomic.max": ("array, index, value", "Take the maximum with an element at once; returns the old value."),
    "atomic.exch": ("array, index, value", "Replace an element at once; returns the old value."),
    "atomic.and_": ("array, index, value", "Combine the bits of an element by and at once; returns the old value."),
    "atomic.or_": ("array, index, value", "Combine the bits of an element by or at once; returns the old value."),
    "atomic.xor": ("array, index, value", "Combine the bits of an element by xor at once; returns the old value."),
    "atomic.inc": ("array, index, top", "Add 1 to an element, or make it 0 from the top on; returns the old value."),
    "atomic.dec": ("array, index, top", "Take 1 from an element; the top follows 0 and all above it. Returns the old."),
    "atomic.cas": ("array, index, old, value", "Replace an element if it is `old`; returns what it was."),
    "atomic.compare_and_swap": ("array, old, value", "Replace the first element if it is `old`; returns what it was."),
    "const.array_like": ("array", "A NumPy array from outside of the kernel, as part of the program."),
    "syncthreads_count": ("predicate", "A barrier; returns for how many threads of the block the predicate holds."),
    "syncthreads_and": ("predicate", "A barrier; returns 1 if the predicate holds for all threads of the block."),
    "syncthreads_or": ("predicate", "A barrier; returns 1 if the predicate holds for some thread of the block."),
    "syncwarp": ("mask=0xffffffff", "Wait until all threads of the warp are here."),
    "threadfence": ("", "Order the thread's accesses to memory for all threads."),
    "threadfence_block": ("", "Order the thread's accesses to memory for the threads of the block."),
    "shfl_sync": ("mask, value, lane", "The value that another lane of the warp has."),
    "shfl_up_sync": ("mask, value, delta", "The value of the lane `delta` below; the own one where there is none."),
    "shfl_down_sync": ("mask, value, delta", "The value of the lane `delta` above; the own one where there is none."),
    "shfl_xor_sync": ("mask, value, bits", "The value of the lane whose number differs in these bits."),
    "all_sync": ("mask, predicate", "Whether the predicate holds for all threads of the warp."),
    "any_sync": ("mask, predicate", "Whether the predicate holds for a thread of the warp."),
    "ballot_sync": ("mask, predicate", "For which lanes of the warp the predicate holds, as bits."),
    "fma": ("a, b, c", "a * b + c; rounded once where the processor has such an instruction."),
    "cbrt": ("x", "The cube root."),
    "popc": ("x", "The number of bits that are set."),
    "clz": ("x", "The number of zero bits above the highest one that is set."),
    "ffs": ("x", "The position of the lowest bit that is set, counted from 1; 0 if there is none."),
    "brev": ("x", "The bits in reverse order."),
    "selp": ("condition, a, b", "a where the condition holds, else b."),
}  # fmt: skip


def _namespace(name: str, members: Mapping[str, Any]) -> type:
    return type(name, (), {"__doc__": f"``cuda.{name}``", "__module__": "diffkern.cuda", **members})


def _language() -> dict[str, Any]:
    made: dict[str, Any] = {}
    inside: dict[str, dict[str, Any]] = {}
    # A dotted name is a member of a namespace, such as `cuda.atomic.add`.
    for name, (signature, doc) in _CALLS.items():
        intrinsic = CudaIntrinsic(f"cuda.{name}", signature, doc)
        space, _, last = name.rpartition(".")
        (inside.setdefault(space, {}) if space else made)[last] = intrinsic
    made.update({name: Special(f"cuda.{name}") for name in ("laneid", "warpsize")})
    for name in ("threadIdx", "blockIdx", "blockDim", "gridDim"):
        inside[name] = {axis: Special(f"cuda.{name}.{axis}") for axis in "xyz"}
    made.update({name: _namespace(name, members) for name, members in inside.items()})
    return made


LANGUAGE: Final[Mapping[str, Any]] = _language()
"""The language, by the name after ``cuda.``."""

_TOGETHER: Final = """
syncthreads syncthreads_count syncthreads_and syncthreads_or syncwarp shared.array local.array
shfl_sync shfl_up_sync shfl_down_sync shfl_xor_sync all_sync any_sync ballot_sync
"""
TOGETHER: Final = frozenset(f"cuda.{name}" for name in _TOGETHER.split())
"""Built-ins by which the threads of a block work together."""

_MODULES: Final = frozenset({"numba.cuda", "numba.cuda.simulator", "numba_cuda.numba.cuda"})


def _is_numba(obj: Any) -> bool:
    module = getattr(obj, "__module__", None)
    return isinstance(module, str) and module.partition(".")[0] in ("numba", "numba_cuda")


def member(owner: Any, name: str) -> Any:
    """Return the object of the language for a name of numba's module; None if the owner is something else."""
    if isinstance(owner, ModuleType) and owner.__name__ in _MODULES:
        return LANGUAGE.get(name)
    return None


def ours(obj: Any) -> Any:
    """Return the counterpart in the kernel language of an object of numba; any other object is returned unchanged.

    A function compiled by numba is mapped to the Python function that it was made of.
    """
    # Almost every object of a kernel is one of these, and none of them is numba's.
    if isinstance(obj, (FunctionType, ModuleType, str, int, float, tuple)):
        return obj
    # The attribute is asked for by identity with True: objects of users may answer any attribute.
    if getattr(obj, "is_numba_kernel", False) is True:
        return _func_of(obj.py_func)
    if not (_is_numba(obj) or _is_numba(type(obj))):
        return obj
    # Before callables in general: a dispatcher is callable, and stands for the function that it compiles.
    function = function_of_dispatcher(obj)
    if function is not None:
        return _func_of(function)
    if inspect.isclass(obj) or callable(obj):
        path = getattr(obj, "__qualname__", getattr(obj, "__name__", ""))
        if "cuda" in getattr(obj, "__module__", ""):
            found: Any = LANGUAGE.get(path.partition(".")[0])
            for part in path.split(".")[1:]:
                found = getattr(found, part, None)
            return obj if found is None else found
    return obj


_FUNC: Final = "__diffkern_func__"


def _func_of(function: FunctionType) -> Func:
    """Return the function of a dispatcher for use in kernels, one object for each."""
    found = function.__dict__.get(_FUNC)
    # functools.wraps copies the attribute to other functions, so it is checked whose func it is.
    if found is None or found.pyfunc is not function:
        found = function.__dict__[_FUNC] = Func(function)
    return found
