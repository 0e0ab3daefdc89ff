"""The thread pool: runs a compiled kernel on the chunks of a range, on all cores.

It takes the address of a function ``void kernel(int64 args, int64 lo, int64 hi)``, argument blocks, and the
partition of
the range. When :func:`run` returns, every chunk has run. The threads are native and never touch Python; the
interpreter's lock is released meanwhile. Any number of Python threads may call at once, chunk functions may call
themselves, and after a fork the child has a pool of its own. Nothing is loaded or started before the first run, and no
thread before the first run of more than one chunk.
"""

from __future__ import annotations

import ctypes
import os
import platform
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from diffkern.contracts.extents import whole_number
from diffkern.process.forks import free_in_child
from diffkern.process.tracebacks import warn
from diffkern.runtime.native.assemble import EXTERNAL_NAMES, load_native
from diffkern.runtime.native.processors import processors

__all__ = [
    "METH_FASTCALL", "METH_KEYWORDS", "built_in", "entry", "functions", "method", "method_of", "num_threads",
    "processors", "run", "set_num_threads", "shared_runs",
]  # fmt: skip

_ENVIRONMENT = "DIFFKERN_NUM_THREADS"
MAX_WORKERS = 1023
_MAX_THREADS = MAX_WORKERS + 1
# How long waiting threads spin before they sleep: about what waking a sleeper costs, so at most twice the best choice.
_SPIN_NS = 50_000

_BUILT_INS = (
    "dk_replay_call", "dk_replay_run", "dk_step_run", "dk_copy_bytes", "dk_clear_bytes", "dk_add_f32", "dk_add_f64",
    "dk_set_param", "dk_put_idle", "dk_scope_setup", "dk_scope_put", "dk_scope_enter", "dk_scope_leave",
    "dk_device_run", "dk_device_launch",
)  # fmt: skip

_SHARED = "dk_pool_shared"

# The modules that make the native code: kept object code depends on them.
PARTS = (
    "module", "waking", "waiting", "draw", "queue", "workers", "pool", "copies", "replay", "device",
    "setter", "scope",
)  # fmt: skip

_Entry = Callable[[int, int, int, int, int, int, int], int]


def run(fn: int, blocks: int, block_stride: int, n: int, chunk: int, first: int = 0, step: int = 1) -> None:
    """Run a kernel on chunks of ``[0, n)`` and wait until all are done.

    The range is cut into ``ceil(n / chunk)`` chunks. Of these, ``first``, ``first + step``, … are run, chunk ``c`` as
    ``fn(blocks + c * block_stride, c * chunk, min(n, (c + 1) * chunk))``, in any order and on any thread. One chunk
    alone runs in the calling thread.

    Parameters
    ----------
    fn : int
        Address of the kernel.
    blocks : int
        Address of the argument block, or of the first of them; 1 more for a kernel that can be told that its run is
        alone.
    block_stride : int
        Distance in bytes between the chunks' argument blocks; 0 if all use the same one.
    n : int
        Length of the range.
    chunk : int
        Length of a chunk; the last may be shorter.
    first, step : int, optional
        The chunks to run: all by default. Two runs with ``step=2``, ``first=0`` and then ``first=1``, never run two
        neighbours at once.

    Raises
    ------
    ValueError
        If `n` or `first` is negative, or `chunk` or `step` is not positive. Nothing has run then.
    BaseException
        An exception that a signal handler raises in the main thread, KeyboardInterrupt above all. Some chunks have run,
        and none runs any more.
    """
    if entry(fn, blocks, block_stride, n, chunk, first, step):
        raise ValueError(
            f"cannot cut a range of {n} into chunks of {chunk} and run them from chunk {first} in steps of {step}: "
            "n and first must be 0 or more, chunk and step 1 or more"
        )


def num_threads() -> int:
    """Return the number of threads that a run uses, including the calling one.

    That is what was last set, else the environment variable DIFFKERN_NUM_THREADS, else the number of processors this
    process may use: those it may run on, and no more than the quota of its control group pays for.
    """
    global _threads
    if _threads is None:
        _threads = _default_threads()
    return _threads


def set_num_threads(k: int) -> None:
    """Set the number of threads that a run uses, including the calling one. Runs in progress are not disturbed.

    Parameters
    ----------
    k : int
        1 to 1024; 1 runs everything in the calling thread.

    Raises
    ------
    ValueError
        If `k` is anything else.
    """
    global _threads
    threads = whole_number(k) or 0
    if not 1 <= threads <= _MAX_THREADS:
        raise ValueError(f"the number of threads must be an integer from 1 to {_MAX_THREADS}, not {k!r}")
    with _lock:
        _threads = threads
        _configure_pool()


def shared_runs() -> int:
    """Return the number of runs that workers were told of: those that the calling thread did not do by itself."""
    address = functions().get(_SHARED)
    return ctypes.c_int64.from_address(address).value if address else 0


def functions() -> dict[str, int]:
    """Return the addresses of ``dk_pool_run`` and the functions for prepared launches; none without a native pool."""
    _bring_up()
    return _functions


def _first_run(*arguments: int) -> int:
    """Stand in for `entry` until the first run: start the pool, replace `entry` by its own, and run."""
    _bring_up()
    return entry(*arguments)


def _bring_up() -> None:
    global entry
    with _lock:
        # Another thread may have started it while this one waited for the lock.
        if entry is _first_run:
            entry = _start()
            _configure_pool()


entry: _Entry = _first_run
"""The function that :func:`run` calls with seven numbers; its result is not 0 if they are invalid."""
_configure: Callable[[int, int], object] | None = None
_reset: Callable[[], object] | None = None
_watch: Callable[[int], object] | None = None
_threads: int | None = None
_functions: dict[str, int] = {}
# Guards the pool's coming up and its number of threads, never a run.
_lock = free_in_child(threading.Lock())


def _start() -> _Entry:
    global _configure, _reset, _watch
    if os.name == "nt":  # no POSIX threads
        from diffkern.runtime.native.python_pool import PythonPool  # here, because importing executors takes 6 ms

        pool = PythonPool()
        _configure, _reset = pool.configure, pool.reset
        return pool.run
    address = _load_native()
    long = ctypes.c_int64
    _configure = ctypes.CFUNCTYPE(None, long, long)(address["dk_pool_configure"])
    _reset = ctypes.CFUNCTYPE(None)(address["dk_pool_reset"])
    _reset()
    _watch = ctypes.CFUNCTYPE(None, long)(address["dk_pool_watch"])
    # Signals are handled by Python's main thread alone, so that only its runs look for them.
    _watch(threading.main_thread().ident or 0)
    _functions.update({name: address[name] for name in ("dk_pool_run", _SHARED, *_BUILT_INS)})
    made: _Entry = built_in(method(b"run", address["dk_pool_call"], METH_FASTCALL), None)
    return made


class _MethodDef(ctypes.Structure):
    """CPython's ``PyMethodDef``."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


METH_KEYWORDS = 0x02
METH_FASTCALL = 0x80
_new_function = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)(
    ("PyCFunction_NewEx", ctypes.pythonapi)
)
_new_method = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object, ctypes.c_void_p)(
    ("PyDescr_NewMethod", ctypes.pythonapi)
)
# CPython keeps a pointer to the definition for as long as a function lives. At the end of the process a function may
# outlive this module, so the definitions are never freed.
_definitions: dict[tuple[bytes, int], _MethodDef] = {}
ctypes.PYFUNCTYPE(None, ctypes.py_object)(("Py_IncRef", ctypes.pythonapi))(_definitions)


def method(name: bytes, address: int, flags: int, doc: bytes | None = None) -> _MethodDef:
    """Return CPython's description of a native method."""
    return _definitions.setdefault((name, address), _MethodDef(name, address, flags, doc))


def built_in(definition: _MethodDef, self: object) -> Callable[..., Any]:
    """Make a Python function of native code; `self` is its first argument, which it keeps alive."""
    made: Callable[..., Any] = _new_function(ctypes.addressof(definition), self, None)
    return made


def method_of(owner: type, definition: _MethodDef) -> Any:
    """Make a method of native code, to be put into a class: its first argument is the object."""
    return _new_method(owner, ctypes.addressof(definition))


def _load_native() -> dict[str, int]:
    folder = Path(__file__).parent
    names = ("dk_pool_reset", "dk_pool_configure", "dk_pool_watch", "dk_pool_call", "dk_pool_run", _SHARED, *_BUILT_INS)
    # The argument block's layout is compiled in, so that the object code depends on that file too.
    return load_native(
        _text,
        [folder.parents[1] / "contracts" / "abi.py", *(folder / f"{part}_ir.py" for part in PARTS)],
        names,
        EXTERNAL_NAMES,
    )


def _text() -> str:
    from diffkern.runtime.native.module_ir import runtime_ir  # here, because kept object code does without it

    return runtime_ir(MAX_WORKERS, sys.platform, platform.machine())


def _configure_pool() -> None:
    if _configure is not None:
        k = num_threads()
        # With more threads than processors a spinning thread keeps a working one from its processor.
        _configure(k - 1, _SPIN_NS if k <= processors() else 0)


def _default_threads() -> int:
    available = min(processors(), _MAX_THREADS)
    text = os.environ.get(_ENVIRONMENT, "").strip()
    if not text:
        return available
    if text.isascii() and text.isdigit() and 1 <= int(text) <= _MAX_THREADS:
        return int(text)
    warn(f"{_ENVIRONMENT}={text!r} is not a number from 1 to {_MAX_THREADS}; using {available} threads")
    return available


def _after_fork() -> None:
    # Only the forking thread lives on in the child: there are no workers.
    if _reset is not None:
        _reset()
    # In the child the forking thread is the main one.
    if _watch is not None:
        _watch(threading.get_ident())


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
