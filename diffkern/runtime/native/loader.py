"""Load object code into the process with llvmlite alone.

In: the bytes of a relocatable object and the names of the functions wanted from it. Out: their addresses, valid until
the process ends. MCJIT binds a name it cannot find to address zero without a word, so every name an object leaves open
is first checked against a list of C and mathematics functions, and must really resolve. llvmlite is imported by the
first call, not by this module; numba never.
"""

from __future__ import annotations

import ctypes
import os
import platform
import sys
import threading
from collections.abc import Collection, Sequence
from typing import Any

from diffkern.forks import free_in_child
from diffkern.runtime.native.objfile import ObjectLoadError, read_symbols

__all__ = ["LIBRARY_NAMES", "ObjectLoadError", "host_cpu", "load_object", "make_target_machine", "undefined_symbols"]

_MATH = (
    "acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh erf erfc exp exp10 exp2 expm1 fabs fdim floor "
    "fma fmax fmin fmod frexp hypot ldexp lgamma llrint llround log log10 log1p log2 logb lrint lround modf nearbyint "
    "nextafter pow remainder rint round roundeven sin sincos sinh sqrt tan tanh tgamma trunc"
).split()

LIBRARY_NAMES: frozenset[str] = frozenset(
    [name + width for name in _MATH for width in ("", "f")]
    + ["malloc", "free", "memcpy", "memmove", "memset", "memcmp", "bzero", "__bzero"]
    # What LLVM calls by itself where the processor has no instruction: powi, half precision, 128-bit integers.
    + ["__powisf2", "__powidf2", "__extendhfsf2", "__truncsfhf2", "__truncdfhf2", "__truncsfbf2", "__truncdfbf2"]
    + ["__gnu_h2f_ieee", "__gnu_f2h_ieee", "__divti3", "__modti3", "__udivti3", "__umodti3", "__multi3"]
    # The platforms' own: sin and cos together on macOS, marks of the Windows ABI.
    + ["__sincos_stret", "__sincosf_stret", "_fltused", "__chkstk"]
)
"""Names an object may leave open: libm, the memory functions of libc, and LLVM's own helpers. Being on the list is not
enough; a name must also resolve in the running process."""

_lock = threading.RLock()
_forking = threading.local()
_PATIENCE_S = 10.0  # how long a fork waits for another thread that loads
_shared: _Engine | None = None
_private: list[_Engine] = []
_resolved: set[str] = set()
# Storage for a name of the Windows ABI that stands for no code.
_fltused = ctypes.c_int(0x9875)


def load_object(object_bytes: bytes, symbols: Sequence[str], allow: Collection[str] = LIBRARY_NAMES) -> dict[str, int]:
    """Load an object and return the addresses of some of its functions.

    The code stays loaded until the process ends. Objects that define a common name do not see each other.

    Parameters
    ----------
    object_bytes : bytes
        A relocatable object for this machine.
    symbols : sequence of str
        Functions whose addresses are wanted, spelled as in C.
    allow : collection of str, optional
        Names the object may leave open; :data:`LIBRARY_NAMES` by default.

    Returns
    -------
    dict of str to int
        The address of each function in `symbols`.

    Raises
    ------
    ObjectLoadError
        If the bytes are damaged or for another machine, a wanted function is not in them, or a name they leave open is
        not in `allow` or not found in the process. Nothing is loaded then.
    """
    global _shared
    table = read_symbols(object_bytes)
    if table.machine != _host_machine():
        raise ObjectLoadError(
            f"object code for {table.machine} cannot be loaded on {_host_machine()}",
            remedy="use a cache directory per machine, or delete the cached artifact",
        )
    if missing := [name for name in symbols if name not in table.defined]:
        raise ObjectLoadError(f"the object does not define {_listed(missing)}")
    if refused := [name for name in table.undefined if name not in allow]:
        raise ObjectLoadError(
            f"the object needs {_listed(refused)}, which only a compiler's run time provides",
            remedy="the kernel uses an operation that has no stand-alone code; use another one",
        )
    with _lock:
        if _shared is None:
            _shared = _Engine()
        unresolved = [name for name in table.undefined if name not in _resolved and not _resolve(name)]
        if unresolved:
            raise ObjectLoadError(
                f"the object needs {_listed(unresolved)}, which this process does not have",
                remedy="use another operation; the C library of this system lacks this one",
            )
        _resolved.update(table.undefined)
        # One engine for all objects is ten times faster than one each. But in one engine a name has one meaning, and
        # open names are looked up among the objects before the process: whoever repeats a name gets an engine alone.
        engine = _shared
        if not (engine.defined.isdisjoint(table.defined) and LIBRARY_NAMES.isdisjoint(table.defined)):
            engine = _Engine()
            _private.append(engine)
        addresses = engine.add(object_bytes, table.defined, symbols)
    if null := [name for name, address in addresses.items() if not address]:
        raise ObjectLoadError(f"{_listed(null)} could not be loaded")
    return addresses


def undefined_symbols(object_bytes: bytes) -> list[str]:
    """Return the names an object needs from elsewhere, sorted, spelled as in C.

    Raises
    ------
    ObjectLoadError
        If the bytes are not a complete ELF64, Mach-O 64 or COFF object.
    """
    return list(read_symbols(object_bytes).undefined)


def make_target_machine(opt: int = 2) -> Any:
    """Return a new ``llvmlite.binding.TargetMachine`` for this processor, whose code can be loaded into the process.

    Parameters
    ----------
    opt : int, optional
        LLVM's optimization level of code generation, 0 to 3.
    """
    llvm = _binding()
    cpu, features = host_cpu()
    target = llvm.Target.from_triple(llvm.get_process_triple())
    return target.create_target_machine(cpu=cpu, features=features, opt=opt, jit=True)


def host_cpu() -> tuple[str, str]:
    """Return LLVM's name of this processor and its features as ``+a,-b,…`` sorted by name.

    The features are empty where LLVM cannot tell them.
    """
    llvm = _binding()
    name = str(llvm.get_host_cpu_name())
    try:
        features = llvm.get_host_cpu_features()
    except RuntimeError:  # LLVM has no detection for this host; the name alone then decides
        return name, ""
    return name, ",".join(f"{'+' if on else '-'}{feature}" for feature, on in sorted(features.items()))


class _Engine:
    """An MCJIT engine that only takes objects, and the names they define."""

    def __init__(self) -> None:
        llvm = _binding()
        # An engine cannot be made without a module and a target machine; neither compiles anything here.
        target = llvm.Target.from_triple(llvm.get_process_triple())
        machine = target.create_target_machine(opt=0, jit=True)
        self._engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
        self.defined: set[str] = set()

    def add(self, object_bytes: bytes, defined: Collection[str], symbols: Sequence[str]) -> dict[str, int]:
        """Load an object and return the addresses of `symbols`."""
        self._engine.add_object_file(_binding().ObjectFileRef.from_data(object_bytes))
        self._engine.finalize_object()
        self.defined.update(defined)
        return {name: int(self._engine.get_function_address(name)) for name in symbols}


def _binding() -> Any:
    global _llvm
    if _llvm is None:
        import llvmlite.binding

        # llvmlite takes a lock of its own around each call, for as long as a whole compilation.
        own = getattr(getattr(llvmlite.binding.ffi.lib, "_lock", None), "_lock", None)
        if own is not None:
            free_in_child(own)
        llvmlite.binding.initialize_native_target()
        llvmlite.binding.initialize_native_asmprinter()
        if sys.platform == "win32":
            llvmlite.binding.add_symbol("_fltused", ctypes.addressof(_fltused))
        _llvm = llvmlite.binding
    return _llvm


_llvm: Any = None


def _resolve(name: str) -> bool:
    """Make sure that LLVM finds `name` in the process; return whether it does."""
    llvm = _binding()
    if llvm.address_of_symbol(name):
        return True
    # LLVM looks into fewer libraries than the dynamic linker on some systems; what the linker finds is told to it.
    library = ctypes.CDLL("ucrtbase" if sys.platform == "win32" else None)
    try:
        address = ctypes.cast(getattr(library, name), ctypes.c_void_p).value
    except AttributeError:
        return False
    if address:
        llvm.add_symbol(name, address)
    return bool(address)


def _host_machine() -> str:
    name = platform.machine().lower()
    return {"amd64": "x86_64", "x64": "x86_64", "arm64": "aarch64"}.get(name, name)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")


def _before_fork() -> None:
    # Nobody loads while the process forks: the child would find LLVM's memory in the middle of a change.
    _forking.holds = _lock.acquire(timeout=_PATIENCE_S)


def _after_fork() -> None:
    if _forking.holds:
        _lock.release()


def _after_fork_in_child() -> None:
    if _forking.holds:
        _lock.release()
    else:
        _lock._at_fork_reinit()  # type: ignore[attr-defined]  # what Python's own modules use


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork_in_child)
