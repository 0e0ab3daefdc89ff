"""The one target that XLA knows, and the native tables in which its handlers find the descriptions of calls.

Entering a call with its programs makes it one that XLA can run. For each platform the target is registered once in a
process; a call is entered once, under its key, and stays: nothing grows with the number of executions, tracings or
compilations.
"""

from __future__ import annotations

import ctypes
import threading
from array import array as words
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from diffkern.contracts import abi
from diffkern.interop.jax import layout
from diffkern.interop.jax.call import XlaCall
from diffkern.interop.jax.call_encoding import Code, Description
from diffkern.interop.jax.layout import HANDLER, REGISTRY
from diffkern.process.forks import free_in_child
from diffkern.runtime.launch import partition
from diffkern.runtime.native import pool
from diffkern.runtime.native.assemble import EXTERNAL_NAMES, load_native

__all__ = ["CPU", "TARGET", "Registry", "key_words", "load_handler"]

TARGET = "diffkern_call_1"
"""The name of the custom call target; the number is the version of the attribute and of what calls mean."""

_FIRST_SLOTS = 64


class Registry:
    """The calls that one platform's handler can find."""

    platform = "cpu"

    def __init__(self) -> None:
        self.lock = free_in_child(threading.RLock())
        self.descriptions: dict[str, Description] = {}
        self.tables: list[words[int]] = []
        self.pointer: Any = None

    def start(self) -> None:
        """Register the target with XLA, if that has not happened yet."""
        with self.lock:
            if self.pointer is None:
                import jax

                addresses = self.addresses()
                self.attach(addresses[REGISTRY])
                jax.ffi.register_ffi_target(TARGET, self.capsules(addresses[HANDLER]), platform=self.platform)

    def addresses(self) -> dict[str, int]:
        """Load the handler."""
        return load_handler(_handler, (HANDLER, REGISTRY))

    def capsules(self, handler: int) -> Any:
        """Return the handler in the form in which JAX takes it."""
        return capsule(handler)

    def attach(self, address: int) -> None:
        """Start an empty table, and give the handler its address."""
        # Handlers read the table without a lock, so entering is ordered: description, slot, and only then the address.
        self.pointer = ctypes.c_int64.from_address(address)
        self.grow(_FIRST_SLOTS)

    def enter(self, call: XlaCall, programs: Mapping[str, Code]) -> str:
        """Enter a call whose programs are in memory, and return its key."""
        name = call.key
        if name not in self.descriptions:
            with self.lock:
                self.start()
                if name not in self.descriptions:
                    made = Description(call, programs, pool.functions().get("dk_pool_run", 0))
                    # At most half full, which is what the handler's search relies on.
                    if 2 * (len(self.descriptions) + 1) > self.slots():
                        self.grow(2 * self.slots())
                    self.insert(name, made.address)
                    self.descriptions[name] = made
        return name

    def slots(self) -> int:
        """Return the size of the present table."""
        return self.tables[-1][0] + 1

    def grow(self, slots: int) -> None:
        """Start a larger table. Handlers may still read the old ones, which together are no larger than this."""
        self.tables.append(words("q", bytes(8 * (1 + slots * layout.SLOT_WORDS))))
        self.tables[-1][0] = slots - 1
        for name, held in self.descriptions.items():
            self.insert(name, held.address)
        # Published last, when the table is complete: a handler sees either the old or the new one.
        self.pointer.value = self.tables[-1].buffer_info()[0]

    def insert(self, name: str, address: int) -> None:
        """Enter a description into the present table."""
        first, second = key_words(name)
        table = self.tables[-1]
        mask = table[0]
        at = first & mask
        while table[1 + at * layout.SLOT_WORDS + 2]:
            at = (at + 1) & mask
        place = 1 + at * layout.SLOT_WORDS
        table[place], table[place + 1] = first, second
        # Last: a slot with an address is complete.
        table[place + 2] = address


CPU = Registry()


def _handler() -> str:
    from diffkern.interop.jax.handler import handler_ir  # here, because kept object code does without it

    return handler_ir()


def key_words(name: str) -> tuple[int, int]:
    """Return the two words of a key in the attribute of a custom call."""
    digest = bytes.fromhex(name)
    return int.from_bytes(digest[:8], "little", signed=True), int.from_bytes(digest[8:16], "little", signed=True)


def load_handler(make: Callable[[], str], symbols: tuple[str, ...]) -> dict[str, int]:
    """Load a handler's code, made by a function of this package; from the cache if it is there."""
    folder = Path(__file__).parent
    # Any of these files changes the handler's code, so all of them are part of its key in the cache.
    parts = ("cuda_handler", "handler", "copies", "frame", "layout", "ffi_api")
    sources = [folder / f"{part}.py" for part in parts] + [Path(abi.__file__), Path(partition.__file__)]
    return load_native(make, sources, symbols, EXTERNAL_NAMES | {"snprintf"}, level=2)


def capsule(address: int) -> Any:
    """Return an address as a ``PyCapsule``."""
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    return new(address, None, None)
