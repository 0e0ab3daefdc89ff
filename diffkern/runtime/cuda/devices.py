"""The GPUs of this process.

There is one :class:`~diffkern.runtime.cuda.context.CudaDevice` for each GPU that the driver knows.
"""

from __future__ import annotations

import atexit
import gc
import os
import threading
import weakref
from typing import Protocol

from diffkern.errors import MisuseError
from diffkern.process.forks import free_in_child
from diffkern.runtime.cuda.bindings import find
from diffkern.runtime.cuda.context import CudaDevice
from diffkern.runtime.cuda.driver import Driver
from diffkern.runtime.memory.device import set_device
from diffkern.runtime.memory.scope import put

__all__ = ["active", "device", "devices", "replace", "use_driver", "used_devices", "watch", "why_not"]

_FORKED = "CUDA does not go through a fork; start the process with multiprocessing's 'spawn' or 'forkserver'"
_lock = free_in_child(threading.RLock())
_devices: list[CudaDevice] | None = None


class _HoldsPrograms(Protocol):
    def forget_programs(self) -> None: ...


_watching: weakref.WeakSet[_HoldsPrograms] = weakref.WeakSet()


def devices() -> list[CudaDevice]:
    """Return all GPUs; none without a driver."""
    global _devices
    if _devices is None:
        found = active()
        count = 0 if found is None else found.device_count()
        with _lock:
            if _devices is None:
                _devices = [] if found is None else [CudaDevice(found, k) for k in range(count)]
    return _devices


def device(ordinal: int) -> CudaDevice:
    """Return a GPU by its number.

    Raises
    ------
    ValueError
        If there is none; the text says why.
    """
    known = devices()
    if not known:
        raise MisuseError(f"there is no device 'cuda:{ordinal}': {why_not()}", remedy="take device='cpu'")
    if not 0 <= ordinal < len(known):
        raise MisuseError(
            f"there is no device 'cuda:{ordinal}'; the GPUs are cuda:0 to cuda:{len(known) - 1}",
            remedy="take one of dk.get_devices()",
        )
    if known[ordinal].closed:
        raise MisuseError(
            f"{known[ordinal]} was used before this process was forked: {_FORKED}",
            remedy='start processes with multiprocessing.get_context("spawn")',
        )
    return known[ordinal]


def used_devices() -> list[CudaDevice]:
    """Return the GPUs that were used."""
    return [d for d in _devices or () if d._context and not d.closed]


def watch(holder: _HoldsPrograms) -> None:
    """Make an object that holds programs forget them when another driver is used."""
    _watching.add(holder)


def use_driver(driver: Driver | None) -> Driver | None:
    """Use another driver, with devices of its own, and return the previous one; for tests."""
    global _devices
    # Arrays in cycles of references still belong to the old driver, and are freed there.
    gc.collect()
    _close()
    before = replace(driver)
    _devices = None
    for each in tuple(_watching):
        each.forget_programs()
    set_device("cpu")
    put("streams", None)
    return before


def _close() -> None:
    """Mark all devices as closed: what is freed from now on ends with the process, or with its driver."""
    for each in _devices or ():
        each.closed = True


def _after_fork() -> None:
    # The driver's contexts do not go through a fork, and what is freed in the child is the parent's.
    for each in _devices or ():
        each.closed = each.closed or bool(each._context)


atexit.register(_close)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


# -- the driver in use -------------------------------------------------------------------------------------------------
# The one CUDA driver that is in use, found when it is first asked for.


_driver: Driver | None = None
_looked = False
_reason = ""


def active() -> Driver | None:
    """Return the driver, looked for at the first call; None where there is none."""
    global _driver, _looked, _reason
    if not _looked:
        _looked = True
        found = find()
        if isinstance(found, str):
            _reason = found
        else:
            _driver = found
    return _driver


def why_not() -> str:
    """Return the reason why there is no driver, as the end of a sentence."""
    active()
    return _reason or "no CUDA device was found"


def replace(driver: Driver | None, reason: str = "the driver was taken away") -> Driver | None:
    """Use another driver from now on (None: none at all) and return the previous one."""
    global _driver, _looked, _reason
    before = _driver
    _driver, _looked, _reason = driver, True, reason
    return before
