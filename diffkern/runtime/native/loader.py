"""Loader of object code into the process, by its own means or llvmlite's.

From the bytes of a relocatable object and the names of the wanted functions comes the :class:`Code`, which is in memory
as long as something refers to it; callers that keep an address have to keep the code. Every name that an object leaves
undefined is checked against a list of C and mathematics functions, and bound to what the process has under this name.
llvmlite is imported by the first call that needs it, for an object that :mod:`~diffkern.runtime.native.elf` does not
load and to learn about an unknown processor, and not by this module; numba never.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import os
import platform
import sys
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from diffkern.process.interrupts import interruptible, llvm_lock
from diffkern.runtime.native import perf_map
from diffkern.runtime.native.cpuid import identity
from diffkern.runtime.native.elf import place
from diffkern.runtime.native.objfile import ObjectLoadError, read_symbols

__all__ = [
    "LIBRARY_NAMES",
    "Code",
    "ObjectLoadError",
    "host_cpu",
    "load_code",
    "load_object",
    "make_target_machine",
    "set_memory",
    "undefined_symbols",
]

# Functions of one or two floats in POSIX's libm, any of which a row of the operation table may name, and LLVM's own.
_MATH = (
    "acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh erf erfc exp exp10 exp2 expm1 fabs fdim floor "
    "fma fmax fmin fmod frexp hypot j0 j1 ldexp lgamma llrint llround log log10 log1p log2 logb lrint lround modf "
    "nearbyint nextafter pow remainder rint round roundeven sin sincos sinh sqrt tan tanh tgamma trunc y0 y1"
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
_PATIENCE_S = 60.0  # how long a fork waits for another thread that loads or compiles
# LLVM keeps 8 kB of each library that a linker has linked, until that is gone. So a linker links a few, and goes with
# the last of them; to make one takes as long as to link three.
_LINKED_BY_ONE = 32
_linker: Any = None
_names = itertools.count()
_resolved: dict[str, int] = {}
# What stays loaded until the process ends.
_kept: list[Code] = []
# Storage for a name of the Windows ABI that stands for no code.
_fltused = ctypes.c_int(0x9875)


class Code:
    """An object in memory: the addresses of functions by name, valid as long as this is referenced."""

    __slots__ = ("__weakref__", "_addresses", "_tracker")

    def __init__(self, addresses: dict[str, int], tracker: Any) -> None:
        self._addresses = addresses
        self._tracker = tracker  # its end unloads the object

    def __getitem__(self, name: str) -> int:
        return self._addresses[name]

    def addresses(self) -> dict[str, int]:
        """Return the addresses of all functions that were wanted."""
        return dict(self._addresses)


def load_object(object_bytes: bytes, symbols: Sequence[str], allow: Collection[str] = LIBRARY_NAMES) -> dict[str, int]:
    """Load an object until the process ends, as :func:`load_code` does; return the addresses of some functions."""
    code = load_code(object_bytes, symbols, allow)
    _kept.append(code)
    return code.addresses()


def load_code(
    object_bytes: bytes, symbols: Sequence[str], allow: Collection[str] = LIBRARY_NAMES, title: str = ""
) -> Code:
    """Load an object. Objects that define a common name do not see each other.

    Parameters
    ----------
    object_bytes : bytes
        A relocatable object for this machine.
    symbols : sequence of str
        Functions whose addresses are wanted, named as in C.
    allow : collection of str, optional
        Names the object may leave undefined; :data:`LIBRARY_NAMES` by default.
    title : str, optional
        The name of the first function for profilers; its symbol by default.

    Raises
    ------
    ObjectLoadError
        If the bytes are damaged or for another machine, a wanted function is not in them, or a name they leave
        undefined
        is not in `allow` or not found in the process. Nothing is loaded then.
    """
    # The bytes may come from a damaged cache file. Everything is checked here, as LLVM ends the process for bad input.
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
    code = _bind(object_bytes, symbols, table.undefined)
    if null := [name for name in symbols if not code[name]]:
        raise ObjectLoadError(f"{_listed(null)} could not be loaded")
    if perf_map.is_enabled():
        perf_map.note(object_bytes, code.addresses(), title)
    return code


def _bind(object_bytes: bytes, symbols: Sequence[str], undefined: Collection[str]) -> Code:
    """Resolve the undefined names of the object, and load it."""
    if unresolved := [name for name in undefined if not _resolve(name)]:
        raise ObjectLoadError(
            f"the object needs {_listed(unresolved)}, which this process does not have",
            remedy="use another operation; the C library of this system lacks this one",
        )
    needs = {name: _resolved[name] for name in undefined}
    placed = place(object_bytes, symbols, needs)
    return interruptible(lambda: _link(object_bytes, symbols, needs)) if placed is None else Code(*placed)


def _link(object_bytes: bytes, symbols: Sequence[str], needs: Mapping[str, int]) -> Code:
    """Let LLVM load an object as a library of its own; `needs` are the addresses of its undefined names."""
    with _lock:
        return _linked(object_bytes, symbols, needs)


def _linked(object_bytes: bytes, symbols: Sequence[str], needs: Mapping[str, int]) -> Code:
    global _linker
    llvm = _binding()
    number = next(_names)
    if _linker is None or number % _LINKED_BY_ONE == 0:
        _linker = llvm.create_lljit_compiler(suppress_errors=True)
    library = llvm.JITLibraryBuilder().add_object_img(object_bytes)
    for name in symbols:
        library.export_symbol(name)
    for name, address in needs.items():
        library.import_symbol(name, address)
    try:
        tracker = library.link(_linker, f"object {number}")
    except RuntimeError as error:
        raise ObjectLoadError(f"the object could not be loaded: {error}") from error
    tracker.linker = _linker  # which is needed until the end of what it has linked
    return Code({name: int(tracker[name]) for name in symbols}, tracker)


def undefined_symbols(object_bytes: bytes) -> list[str]:
    """Return the names an object needs from elsewhere, sorted, named as in C.

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

    def made() -> Any:
        llvm = _binding()
        cpu, features = host_cpu()
        target = llvm.Target.from_triple(llvm.get_process_triple())
        return target.create_target_machine(cpu=cpu, features=features, opt=opt, jit=True)

    return interruptible(made)


@functools.cache
def host_cpu() -> tuple[str, str]:
    """Return LLVM's name of this processor and its features as ``+a,-b,…`` sorted by name.

    The features are empty where LLVM cannot determine them.
    """
    processor = None if _memory is None else identity()
    if _memory is None or processor is None:
        return interruptible(_ask_host_cpu)
    find, keep = _memory
    known = find(processor)
    if known is None:
        name, features = interruptible(_ask_host_cpu)
        keep(processor, f"{name} {features}".encode())
        return name, features
    name, _, features = known.decode().partition(" ")
    return name, features


def set_memory(find: Callable[[bytes], bytes | None], keep: Callable[[bytes, bytes], None]) -> None:
    """Set a place for what LLVM says of processors, to be called before it is asked.

    Parameters
    ----------
    find : callable
        Returns what is kept for a processor, without line breaks; None if there is nothing.
    keep : callable
        Keeps that.
    """
    global _memory
    _memory = (find, keep)


_memory: tuple[Callable[[bytes], bytes | None], Callable[[bytes, bytes], None]] | None = None


def _ask_host_cpu() -> tuple[str, str]:
    llvm = _binding()
    name = str(llvm.get_host_cpu_name())
    try:
        features = llvm.get_host_cpu_features()
    except RuntimeError:  # LLVM has no detection for this host; the name alone then decides
        return name, ""
    return name, ",".join(f"{'+' if on else '-'}{feature}" for feature, on in sorted(features.items()))


def _binding() -> Any:
    global _llvm
    if _llvm is None:
        import llvmlite.binding

        llvmlite.binding.initialize_native_target()
        llvmlite.binding.initialize_native_asmprinter()
        # The Windows ABI marks code that uses floating point by this name, which is no symbol of any library.
        if sys.platform == "win32":
            llvmlite.binding.add_symbol("_fltused", ctypes.addressof(_fltused))
        _llvm = llvmlite.binding
    return _llvm


_llvm: Any = None


def _resolve(name: str) -> bool:
    """Find the address of `name` in the process; return whether there is one."""
    if name not in _resolved:
        address = None if sys.platform == "win32" else _address_in_library(name)
        # LLVM knows names of its own besides. On some systems it looks into fewer libraries than the dynamic linker.
        address = address or interruptible(lambda: _binding().address_of_symbol(name)) or _address_in_library(name)
        if not address:
            return False
        _resolved[name] = int(address)
    return True


def _address_in_library(name: str) -> int | None:
    """Return the address of a name as the dynamic linker finds it."""
    try:
        return ctypes.cast(getattr(_library(), name), ctypes.c_void_p).value
    except AttributeError:
        return None


@functools.cache
def _library() -> ctypes.CDLL:
    return ctypes.CDLL("ucrtbase" if sys.platform == "win32" else None)


def _host_machine() -> str:
    name = platform.machine().lower()
    return {"amd64": "x86_64", "x64": "x86_64", "arm64": "aarch64"}.get(name, name)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")


def _before_fork() -> None:
    # No thread loads or compiles while the process forks: the child would find LLVM's memory in the middle of a change.
    _forking.held = {lock for lock in (_lock, llvm_lock()) if lock is not None and lock.acquire(timeout=_PATIENCE_S)}


def _after_fork() -> None:
    for lock in _forking.held:
        lock.release()


def _after_fork_in_child() -> None:
    for lock in (_lock, llvm_lock()):
        if lock in _forking.held:
            lock.release()
        # A lock that was not to be had belonged to a thread that does not exist in the child.
        elif lock is not None:
            lock._at_fork_reinit()  # type: ignore[union-attr]  # what Python's own modules use


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork_in_child)
