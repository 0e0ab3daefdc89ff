"""The one target that XLA knows, and the native table in which its handler finds the descriptions of calls.

In: calls with their programs. Out: calls that XLA can run. The target is registered once in a process; a call is
entered once, under its key, and stays: nothing grows with the number of executions, tracings or compilations.
"""

from __future__ import annotations

import ctypes
import hashlib
import threading
from array import array as words
from collections.abc import Mapping
from typing import Any

from diffkern.cache.manifest import Entry
from diffkern.interop.jax import layout
from diffkern.interop.jax.call import Call
from diffkern.interop.jax.table import Description
from diffkern.runtime.native import pool
from diffkern.runtime.native.loader import ObjectLoadError, host_cpu, load_object, make_target_machine
from diffkern.runtime.program import Executable
from diffkern.specialize import current_store

__all__ = ["TARGET", "count", "enter", "key_words", "start"]

TARGET = "diffkern_call_1"
"""The name of the custom call target; the number is the version of the attribute and of what calls mean."""

_HANDLER, _REGISTRY = "dk_xla_handler", "dk_xla_registry"
_ALLOWED = frozenset("malloc calloc free snprintf memcpy memset bzero __bzero".split())
_FIRST_SLOTS = 64

_lock = threading.RLock()
_descriptions: dict[str, Description] = {}
_tables: list[words[int]] = []
_registry: Any = None


def start() -> None:
    """Register the target with XLA, if that has not happened yet."""
    global _registry
    with _lock:
        if _registry is None:
            import jax

            addresses = _load_handler()
            _registry = ctypes.c_int64.from_address(addresses[_REGISTRY])
            _grow(_FIRST_SLOTS)
            jax.ffi.register_ffi_target(TARGET, _capsule(addresses[_HANDLER]), platform="cpu")


def enter(call: Call, programs: Mapping[str, Executable]) -> str:
    """Enter a call whose programs are in memory, and return its key."""
    name = call.key
    if name not in _descriptions:
        with _lock:
            start()
            if name not in _descriptions:
                made = Description(call, programs, pool.functions().get("dk_pool_run", 0))
                if 2 * (len(_descriptions) + 1) > _slots():
                    _grow(2 * _slots())
                _insert(name, made.address)
                _descriptions[name] = made
    return name


def count() -> int:
    """Return how many calls there are."""
    return len(_descriptions)


def key_words(name: str) -> tuple[int, int]:
    """Return the two words of a key that stand in the attribute of a custom call."""
    digest = bytes.fromhex(name)
    return int.from_bytes(digest[:8], "little", signed=True), int.from_bytes(digest[8:16], "little", signed=True)


def _slots() -> int:
    return _tables[-1][0] + 1


def _grow(slots: int) -> None:
    """Begin a larger table. Handlers may still look into the old ones, which together are no larger than this."""
    _tables.append(words("q", bytes(8 * (1 + slots * layout.SLOT_WORDS))))
    _tables[-1][0] = slots - 1
    for name, held in _descriptions.items():
        _insert(name, held.address)
    _registry.value = _tables[-1].buffer_info()[0]


def _insert(name: str, address: int) -> None:
    first, second = key_words(name)
    table = _tables[-1]
    mask = table[0]
    at = first & mask
    while table[1 + at * layout.SLOT_WORDS + 2]:
        at = (at + 1) & mask
    place = 1 + at * layout.SLOT_WORDS
    table[place], table[place + 1] = first, second
    # Last: a slot with an address is complete.
    table[place + 2] = address


def _load_handler() -> dict[str, int]:
    """Load the handler's code, from the cache if it is there."""
    from diffkern.interop.jax.handler import handler_ir

    text = handler_ir()
    name = hashlib.sha256("\0".join((text, *host_cpu())).encode()).hexdigest()
    store, symbols = current_store(), (_HANDLER, _REGISTRY)
    cached = store.get(name)
    if cached is not None:
        try:
            return load_object(cached.object_code, symbols, _ALLOWED)
        except ObjectLoadError:  # damaged: it is made anew
            pass
    code = _compile(text)
    addresses = load_object(code, symbols, _ALLOWED)
    store.put(name, Entry(code, program={"what": "handler of JAX calls"}))
    return addresses


def _compile(text: str) -> bytes:
    import llvmlite.binding as llvm

    machine = make_target_machine(opt=2)
    module = llvm.parse_assembly(text)
    module.triple, module.data_layout = machine.triple, str(machine.target_data)
    module.verify()
    options = llvm.create_pipeline_tuning_options(speed_level=2)
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
    return bytes(machine.emit_object(module))


def _capsule(address: int) -> Any:
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    return new(address, None, None)
