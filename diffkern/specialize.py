"""From a kernel's specialization to code in memory: look in the cache, else compile, then load.

In: a Python function, argument types, a direction, options. Out: an :class:`Executable`. The compiler is imported only
when the cache has no artifact, so that a process whose kernels are all cached imports neither it nor numba.
"""

from __future__ import annotations

import json
import platform
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from diffkern.cache.environment import compiler_digest, distribution_versions
from diffkern.cache.key import key
from diffkern.cache.manifest import Entry
from diffkern.cache.store import Store, default_directory
from diffkern.ir.structs import Argument
from diffkern.runtime.config import config
from diffkern.runtime.native import pool
from diffkern.runtime.native.loader import ObjectLoadError, host_cpu, load_object
from diffkern.runtime.program import Executable

if TYPE_CHECKING:
    from diffkern.pipeline import Program

__all__ = ["Specialization", "load"]

# Both choose what code comes out: numba is named in the cache's key although it is not imported here.
_COMPILERS = ("llvmlite", "numba")

_loaded: dict[str, Executable] = {}
_store: Store | None = None
_lock = threading.Lock()


class Specialization:
    """One program of one kernel.

    Parameters
    ----------
    pyfunc : callable
        The kernel's Python function.
    types : tuple of Argument
        Types of its arguments.
    options : mapping
        The kernel's options.
    active : frozenset of int or None
        None for the forward; else the parameters to differentiate for.
    accumulate : {"plain", "atomic"}
        How the adjoint adds to cotangents.
    """

    def __init__(
        self,
        pyfunc: Callable[..., Any],
        types: tuple[Argument, ...],
        options: Mapping[str, Any],
        active: frozenset[int] | None = None,
        accumulate: Literal["plain", "atomic"] = "plain",
    ) -> None:
        self.pyfunc = pyfunc
        self.types = types
        self.options = options
        self.active = active
        self.accumulate = accumulate

    def fields(self) -> list[tuple[str, bytes]]:
        """Return everything that has a say in the code, in a fixed order."""
        from diffkern.frontend.canonical import fingerprint

        direction = "forward" if self.active is None else f"adjoint {sorted(self.active)} {self.accumulate}"
        fields = [("types", ", ".join(map(str, self.types)).encode()), ("direction", direction.encode())]
        fields.append(("options", json.dumps(dict(self.options), sort_keys=True).encode()))
        fields.extend(fingerprint(self.pyfunc))
        fields.extend(_target_fields())
        return fields

    def build(self, symbol: str) -> Program:
        """Compile."""
        from diffkern.pipeline import build_adjoint, build_forward

        if self.active is None:
            return build_forward(self.pyfunc, self.types, symbol, dict(self.options))
        return build_adjoint(self.pyfunc, self.types, self.active, self.accumulate, symbol, dict(self.options))


def load(specialization: Specialization) -> Executable:
    """Return a program in memory, from the cache if it is there.

    Raises
    ------
    KernelError
        If the kernel cannot be compiled or differentiated. Nothing is cached then.
    """
    fields = specialization.fields()
    name = key(fields)
    found = _loaded.get(name)
    if found is not None:
        return found
    store = _current_store()
    entry = store.get(name)
    executable = None if entry is None else _from_cache(entry)
    if executable is None:
        started = time.perf_counter()
        program = specialization.build("dk_" + name[:32])
        entry = Entry(program.object_code, program.symbols, program.source, program.manifest, _readable(fields))
        executable = _executable(entry)
        store.put(name, entry)
        if config.verbose:
            what = "forward" if specialization.active is None else "adjoint"
            took = time.perf_counter() - started
            print(f"diffkern: compiled {what} of {specialization.pyfunc.__qualname__} in {took:.2f} s", file=sys.stderr)
    with _lock:
        # Another thread may have loaded the same program meanwhile; one of them is enough.
        return _loaded.setdefault(name, executable)


def _from_cache(entry: Entry) -> Executable | None:
    """Load an artifact; None if it is not for this machine or not complete, so that it is built again."""
    try:
        return _executable(entry)
    except (ObjectLoadError, KeyError, TypeError, ValueError):
        return None


def _executable(entry: Entry) -> Executable:
    symbols: Sequence[str] = entry.symbols
    addresses = load_object(entry.object_code, symbols)
    finish = addresses[symbols[1]] if entry.program["sites"] else 0
    return Executable(addresses[symbols[0]], finish, entry.program)


def _target_fields() -> list[tuple[str, bytes]]:
    cpu, features = host_cpu()
    fields = [
        ("platform", f"{sys.platform} {platform.machine()} {sys.byteorder} {sys.maxsize.bit_length() + 1}".encode()),
        ("cpu", cpu.encode()),
        ("features", features.encode()),
        ("diffkern", compiler_digest()),
    ]
    return fields + [(name, version.encode()) for name, version in distribution_versions(_COMPILERS)]


def _readable(fields: Sequence[tuple[str, bytes]]) -> dict[str, str]:
    """Return the fields as text for the manifest; a repeated label gets a number."""
    shown: dict[str, str] = {}
    for label, value in fields:
        name, count = label, 1
        while name in shown:
            count += 1
            name = f"{label} {count}"
        try:
            shown[name] = value.decode()
        except UnicodeDecodeError:
            shown[name] = value.hex()
    return shown


def _current_store() -> Store:
    global _store
    directory = default_directory()
    with _lock:
        if _store is None or _store.directory != directory:
            _store = Store(directory)
        return _store


def _load_pool(name: str) -> bytes | None:
    entry = _current_store().get(name)
    return None if entry is None else entry.object_code


def _store_pool(name: str, code: bytes) -> None:
    _current_store().put(name, Entry(code, program={"what": "thread pool"}))


pool.set_object_cache(_load_pool, _store_pool)
