"""The one CUDA driver that is in use, found when it is first asked for."""

from __future__ import annotations

from diffkern.runtime.cuda.bindings import find
from diffkern.runtime.cuda.driver import Driver

__all__ = ["active", "replace", "why_not"]

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
