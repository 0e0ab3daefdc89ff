"""A map of machine code for ``perf``: the addresses of functions.

For loaded objects, lines are written to ``/tmp/perf-PID.map``, where Linux's profiler looks for the names of code
that belongs to no file: address and size in hexadecimal, and a name. Off unless asked for, by ``dk.config.perf_map`` or
DIFFKERN_PERF_MAP=1. Python writes its own functions to the same file with ``-X perf``.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping

from diffkern.process.tracebacks import warn
from diffkern.runtime.native.objfile import read_functions

__all__ = ["enable", "is_enabled", "note"]

_FOLDER = "/tmp"  # perf knows no other
_CAUTION = sum(getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC"))
_enabled = os.environ.get("DIFFKERN_PERF_MAP", "").strip() not in ("", "0")
# What was written, for children of a fork: perf looks for the map of their own number.
_written: list[str] = []


def is_enabled() -> bool:
    """Return whether loaded functions are entered."""
    return _enabled


def enable(value: bool) -> None:
    """Start or stop entering loaded functions."""
    global _enabled
    _enabled = value


def note(object_bytes: bytes, addresses: Mapping[str, int], title: str) -> None:
    """Enter the functions of an object.

    Parameters
    ----------
    object_bytes : bytes
        The object.
    addresses : mapping of str to int
        Addresses of some of its functions, from which those of the others in the same sections follow.
    title : str
        The readable name of the first of these functions; "" for the symbols' own names.
    """
    functions = read_functions(object_bytes)
    # A section is loaded as a whole, so that one known address gives the section's base.
    begins = {f.section: addresses[f.name] - f.offset for f in functions if f.name in addresses}
    first = next(iter(addresses), "")
    lines = [
        f"{begins[f.section] + f.offset:x} {f.size:x} diffkern {f.name.replace(first, title, 1) if title else f.name}\n"
        for f in functions
        if f.section in begins and f.size
    ]
    _written.extend(lines)
    _append("".join(lines))


def _append(text: str) -> None:
    name = f"{_FOLDER}/perf-{os.getpid()}.map"
    try:
        # Anybody can put something there: neither a link is followed nor a pipe waited for.
        file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_APPEND | _CAUTION, 0o600)
        try:
            problem = _problem(os.fstat(file))
            if not problem:
                os.write(file, text.encode())
        finally:
            os.close(file)
    except OSError as error:
        problem = str(error.strerror)
    if problem:
        enable(False)
        warn(f"no map for perf: {name} cannot be written: {problem}", UserWarning)


def _problem(status: os.stat_result) -> str:
    """Return why the open file is not written to (not regular, another user's, several names); empty if it may be."""
    if not stat.S_ISREG(status.st_mode):
        return "it is no regular file"
    if hasattr(os, "geteuid") and status.st_uid != os.geteuid():
        return "it belongs to another user"
    return "" if status.st_nlink == 1 else "it has other names as well"


def _after_fork() -> None:
    if _enabled and _written:
        _append("".join(_written))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
