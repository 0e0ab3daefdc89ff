"""The processor that numba compiles for, without importing numba if it is certain to be the one that LLVM finds.

The result is the triple, name and features of that processor. Importing numba takes up to a second, and Ctrl-C in the
middle leaves it half imported, which cannot be repaired while the process lives. Interrupts come to the main thread
alone: numba is imported in a thread of its own, which goes on if the main thread is told to stop waiting here.
"""

from __future__ import annotations

import os
import sys
import threading
from typing import NamedTuple

from llvmlite import binding as llvm

from diffkern.process.forks import free_in_child
from diffkern.process.interrupts import give_back, wait

__all__ = ["NumbaTarget", "numba_target"]


class NumbaTarget(NamedTuple):
    """The answer."""

    triple: str
    cpu: str
    features: str


_SETTINGS = ("NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES", "NUMBA_ENABLE_AVX")
_SETTINGS_FILE = ".numba_config.yaml"
_BASELINES = ("nocona", "x86-64")
"""LLVM's names of processors that it does not know better; numba does not use AVX on one of them."""

_found: list[NumbaTarget] = []
_lock = free_in_child(threading.Lock())


def numba_target() -> NumbaTarget:
    """Return the answer, waiting for numba to be imported the first time if it has to be asked."""
    if not _found and not _is_set():
        found = _of_llvm()
        if not _may_lose_avx(found):
            return found
    if not _found:
        give_back()  # an earlier interrupt may have kept this thread from it
        # A lock rather than join(): waiting for it can be interrupted, and the thread goes on importing.
        finished = threading.Lock()
        failed: list[BaseException] = []

        def ask() -> None:
            try:
                with _lock:  # an earlier call that was interrupted may be at it still
                    if not _found:
                        _found.append(_ask())
            except BaseException as error:
                failed.append(error)
            finally:
                finished.release()

        finished.acquire()
        threading.Thread(target=ask, name="diffkern import", daemon=True).start()
        wait(finished)
        if failed:
            raise failed[0]
    return _found[0]


def _is_set() -> bool:
    """Return whether numba may have been told to compile for another processor than this one."""
    # A program that has imported numba may have set numba.config.
    return "numba" in sys.modules or os.path.exists(_SETTINGS_FILE) or any(name in os.environ for name in _SETTINGS)


def _of_llvm() -> NumbaTarget:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    name = llvm.get_host_cpu_name()
    try:
        features = llvm.get_host_cpu_features().flatten()
    except RuntimeError:  # LLVM cannot tell those of this processor
        features = ""
    return NumbaTarget(llvm.get_process_triple(), name, features)


def _may_lose_avx(found: NumbaTarget) -> bool:
    """Return whether numba may switch AVX off: it does so on some processors, all of which are older than AVX2."""
    has = found.features.split(",")
    return "+avx" in has and ("+avx2" not in has or found.cpu in _BASELINES)


def _ask() -> NumbaTarget:
    from numba.core.compiler_lock import global_compiler_lock
    from numba.core.registry import cpu_target

    free_in_child(global_compiler_lock._lock)  # numba takes it around each call of LLVM, too
    return NumbaTarget(*cpu_target.target_context.codegen().magic_tuple())
