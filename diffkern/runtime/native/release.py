"""Release of Python objects from native code, whatever the state of the interpreter.

For the offset of an owner in a structure that another library got, there are C functions that give the owner's
reference back (a deleter), and the destructor of a capsule that was not consumed. They may be called from any thread,
with or without the interpreter's lock, while an exception is on its way, and after the interpreter has gone: they
run no
Python of their own, take no other lock, leave the exception as it was, and do nothing at all once there is no
interpreter.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path

from diffkern.runtime.native.assemble import load_native
from diffkern.runtime.native.signatures import EXTERNAL_NAMES

__all__ = ["deleter", "destructor"]


@functools.cache
def deleter(offset: int) -> int:
    """Return the address of ``void f(void *managed)``, which releases the object whose address is at an offset."""
    symbol = f"dk_release_{offset}"

    def make() -> str:
        from diffkern.runtime.native.release_ir import deleter_ir  # here, because kept object code does without it

        return deleter_ir(symbol, offset)

    return _loaded(make, symbol)


@functools.cache
def destructor(name: str, offset: int) -> int:
    """Return the address of the destructor of capsules, which calls :func:`deleter` if they still have a name."""
    symbol = f"dk_destroy_{name}_{offset}"

    def make() -> str:
        from diffkern.runtime.native.release_ir import destructor_ir  # here, because kept object code does without it

        return destructor_ir(symbol, name, offset)

    return _loaded(make, symbol)


def _loaded(make: Callable[[], str], symbol: str) -> int:
    return load_native(make, [Path(__file__).with_name("release_ir.py")], [symbol], EXTERNAL_NAMES)[symbol]
