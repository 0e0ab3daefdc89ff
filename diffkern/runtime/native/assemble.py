"""Native functions of diffkern's own, from LLVM IR text to addresses.

The addresses are valid until the process ends. The object code is kept where :func:`set_object_cache` says, so that a
new process need neither make the text nor compile it, and does not import the modules that do. The table at the end has
what native code may call.
"""

from __future__ import annotations

import hashlib
import platform
import sys
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import Final

from diffkern.process import llvm_modules
from diffkern.process.interrupts import interruptible
from diffkern.process.tracebacks import warn
from diffkern.runtime.native.loader import ObjectLoadError, host_cpu, load_object, make_target_machine

__all__ = ["DATA", "EXTERNAL_NAMES", "SIGNATURES", "load_native", "set_object_cache"]


_Cache = tuple[Callable[[str], "bytes | None"], Callable[[str, bytes], None]]

_cache: _Cache | None = None
_HERE = Path(__file__).parent


def set_object_cache(load: Callable[[str], bytes | None], store: Callable[[str, bytes], None]) -> None:
    """Set a store for object code, to be called before the first use of native functions.

    Parameters
    ----------
    load : callable
        Returns the bytes stored under a key, a SHA-256 in hexadecimal, or None. The bytes are checked when loaded;
        bytes that do not fit are built again.
    store : callable
        Stores bytes under a key.
    """
    global _cache
    _cache = (load, store)


def load_native(
    make: Callable[[], str], sources: Iterable[Path], names: Sequence[str], allowed: Collection[str], level: int = 0
) -> dict[str, int]:
    """Return the addresses of functions in the process.

    Parameters
    ----------
    make : callable
        Returns the text of the module; called if no object code is kept for it.
    sources : iterable of Path
        The files on which the text depends, besides the structured builder, the platform and Python's version.
    names : sequence of str
        The functions.
    allowed : collection of str
        Names that the module may need from the C library and from Python.
    level : int, optional
        Optimization level. At 0 variables become registers: a third of the time to compile, and a run spends
        nothing worth mentioning in code like the thread pool's.
    """
    if _cache is None:
        return load_object(interruptible(lambda: _compile(make(), level)), names, allowed)
    load, store = _cache
    # The key is made of the files and not of the text: making the text is most of what the cache is to save.
    key = _key(sources, names)
    cached = load(key)
    if cached is not None:
        try:
            return load_object(cached, names, allowed)
        except ObjectLoadError as error:
            warn(f"cached code of diffkern's run time is unusable and built anew: {error}", UserWarning)
    code = interruptible(lambda: _compile(make(), level))
    addresses = load_object(code, names, allowed)
    # Stored only after it was loaded: what the loader refuses would be refused by every process.
    store(key, code)
    return addresses


def _key(sources: Iterable[Path], names: Sequence[str]) -> str:
    state = hashlib.sha256()
    # Name and length delimit each file, so that different files cannot add up to the same bytes.
    for path in (_HERE / "builder.py", Path(__file__), *sources):
        data = path.read_bytes()
        state.update(f"{path.name} {len(data)} ".encode() + data)
    version = ".".join(map(str, sys.version_info[:2]))
    state.update("\0".join((sys.platform, platform.machine(), version, *host_cpu(), *names)).encode())
    return state.hexdigest()


def _compile(text: str, level: int) -> bytes:
    import llvmlite.binding as llvm

    machine = make_target_machine(opt=level)
    module = llvm_modules.parse(text)
    module.triple, module.data_layout = machine.triple, str(machine.target_data)
    module.verify()
    passes = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=level))
    if level:
        llvm_modules.run_passes(passes.getModulePassManager(), module, passes)
    else:
        # The builder keeps variables in memory: without this pass the code would load and store them at each use.
        registers = llvm.create_new_module_pass_manager()
        registers.add_sroa_pass()
        llvm_modules.run_passes(registers, module, passes)
    return bytes(machine.emit_object(module))


# -- functions from outside --------------------------------------------------------------------------------------------

# The functions of the C library and of Python that native code calls, each with the type of its result, then those of
# its arguments: v nothing, p a pointer, w 64 bits, i 32 bits, f and d floating-point numbers, b one bit, c a byte.
SIGNATURES: Final[dict[str, str]] = {
    "pthread_mutex_init": "ipp", "pthread_mutex_lock": "ip", "pthread_mutex_trylock": "ip",
    "pthread_mutex_unlock": "ip",
    "pthread_cond_init": "ipp", "pthread_cond_wait": "ipp", "pthread_cond_signal": "ip", "pthread_cond_broadcast": "ip",
    "pthread_create": "ipppp", "pthread_attr_init": "ip", "pthread_attr_setstacksize": "ipw",
    "pthread_attr_setdetachstate": "ipi", "pthread_attr_destroy": "ip", "pthread_sigmask": "iipp",
    "sigfillset": "ip", "sigdelset": "ipi", "clock_gettime": "iip", "sched_getcpu": "i",
    "sched_getaffinity": "iiwp", "sched_setaffinity": "iiwp",
    "PyErr_CheckSignals": "i", "PyErr_Clear": "v", "PyErr_Occurred": "p", "PyErr_SetString": "vpp",
    "PyEval_RestoreThread": "vp", "PyEval_SaveThread": "p", "PyThread_get_thread_ident": "w",
    "PyLong_AsLongLong": "wp", "PyLong_AsLongLongAndOverflow": "wpp", "PyLong_AsDouble": "dp",
    "PyLong_AsVoidPtr": "pp", "PyLong_FromLong": "pw", "PyFloat_AsDouble": "dp",
    "PyTuple_New": "pw", "PyTuple_GetItem": "ppw", "PyTuple_SetItem": "ipwp", "PyTuple_Size": "wp",
    "PyList_SetItem": "ipwp", "PyDict_New": "p", "PyDict_SetItem": "ippp",
    "PyCapsule_IsValid": "ipp", "PyCapsule_GetPointer": "ppp", "PyErr_Fetch": "vppp", "PyErr_Restore": "vppp",
    "PyErr_GetRaisedException": "p", "PyErr_SetRaisedException": "vp", "Py_IsInitialized": "i",
    "PyGILState_Ensure": "i", "PyGILState_Release": "vi",
    "PyObject_GetAttr": "ppp", "PyObject_SetAttr": "ippp", "PyObject_Call": "pppp",
    "PyObject_CallNoArgs": "pp", "PyBytes_Size": "wp",
    "PyObject_Vectorcall": "pppwp", "Py_IncRef": "vp", "Py_DecRef": "vp",
    "malloc": "ww", "calloc": "www", "free": "vw", "memcmp": "ippw", "madvise": "ipwi",
    "llvm.memcpy.p0.p0.i64": "vppwb", "llvm.memmove.p0.p0.i64": "vppwb", "llvm.memset.p0.i64": "vpcwb",
    "llvm.prefetch.p0": "vpiii",
    "llvm.fabs.f32": "ff", "llvm.fabs.f64": "dd", "llvm.x86.sse2.pause": "v", "llvm.aarch64.hint": "vi",
}  # fmt: skip

DATA: Final = (
    "PyExc_RuntimeError",
    "PyExc_TypeError",
    "PyFloat_Type",
    "PyLong_Type",
    "_Py_NoneStruct",
    "_Py_TrueStruct",
)
"""Variables of Python, by their addresses."""

EXTERNAL_NAMES: Final[frozenset[str]] = frozenset(name for name in SIGNATURES if not name.startswith("llvm.")).union(
    DATA, "memcpy memmove memset bzero __bzero".split()
)
"""The symbols of the C library and of Python that native code may use."""
