"""Native functions of diffkern's own, from LLVM IR text to addresses.

In: the text of a module and the names of its functions. Out: their addresses, valid until the process ends. The object
code is kept where :func:`set_object_cache` says, so that a new process need not compile it (3 ms instead of 12).
"""

from __future__ import annotations

import hashlib
import platform
import sys
from collections.abc import Callable, Collection, Sequence

from diffkern.callers import warn
from diffkern.interrupts import interruptible
from diffkern.runtime.native.loader import ObjectLoadError, host_cpu, load_object, make_target_machine

__all__ = ["load_text", "set_object_cache"]

_Cache = tuple[Callable[[str], "bytes | None"], Callable[[str, bytes], None]]

_cache: _Cache | None = None


def set_object_cache(load: Callable[[str], bytes | None], store: Callable[[str, bytes], None]) -> None:
    """Give a place to keep object code in, to be called before the first use of native functions.

    Parameters
    ----------
    load : callable
        Returns the bytes stored under a key, a SHA-256 in hexadecimal, or None. The bytes are checked when loaded;
        bytes that do not fit are built anew.
    store : callable
        Stores bytes under a key.
    """
    global _cache
    _cache = (load, store)


def load_text(text: str, names: Sequence[str], allowed: Collection[str]) -> dict[str, int]:
    """Return the addresses of functions in the process.

    Parameters
    ----------
    text : str
        The module.
    names : sequence of str
        The functions.
    allowed : collection of str
        What the module may need from the C library and from Python.
    """
    if _cache is None:
        return load_object(interruptible(lambda: _compile(text)), names, allowed)
    load, store = _cache
    key = hashlib.sha256("\0".join((text, sys.platform, platform.machine(), *host_cpu())).encode()).hexdigest()
    cached = load(key)
    if cached is not None:
        try:
            return load_object(cached, names, allowed)
        except ObjectLoadError as error:
            warn(f"cached code of diffkern's run time is unusable and built anew: {error}", UserWarning)
    code = interruptible(lambda: _compile(text))
    addresses = load_object(code, names, allowed)
    store(key, code)
    return addresses


def _compile(text: str) -> bytes:
    import llvmlite.binding as llvm

    # Without optimization: a third of the time to compile, and a run spends nothing worth mentioning in this code.
    machine = make_target_machine(opt=0)
    module = llvm.parse_assembly(text)
    module.triple = machine.triple
    module.verify()
    return bytes(machine.emit_object(module))
