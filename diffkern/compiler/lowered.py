"""Kernels as lowered for their forward programs, kept until their adjoints are compiled; and what lowering takes.

A gradient asks for both programs of a kernel, and both begin with the same typed IR, which is kept once. It is found
again by the function itself, since messages have its lines, and by the fields of its key, since a global that it
captures may have changed.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Hashable, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from diffkern.contracts.options import Variant
from diffkern.errors import KernelError
from diffkern.frontend.syntax.canonical import Meaning, meaning_of
from diffkern.frontend.syntax.taken import TakenResults, recorded
from diffkern.ir.structs import Argument, declared
from diffkern.lang.structs import functions_of
from diffkern.process.forks import free_in_child

if TYPE_CHECKING:
    from diffkern.ir.nodes import Function

__all__ = ["keep", "take", "taken"]


_MOST: Final = 32
"""Kernels of which it is kept, and for how many types of arguments: the last of each."""

_Kept: TypeAlias = "dict[Hashable, Function]"
_kept: weakref.WeakKeyDictionary[Callable[..., Any], _Kept] = weakref.WeakKeyDictionary()
_lock = free_in_child(threading.Lock())


def keep(pyfunc: Callable[..., Any], depends: Hashable, fn: Function) -> None:
    """Keep the typed IR of a kernel, which must not be changed; ``depends`` is all that its lowering depends on."""
    with _lock:
        of_types = _kept.pop(pyfunc, {})
        of_types.pop(depends, None)
        of_types[depends] = fn
        # Removed and inserted again: dictionaries keep the order of insertion, and the oldest entries go first.
        _kept[pyfunc] = of_types
        for types in list(of_types)[:-_MOST]:
            del of_types[types]
        for kernel in list(_kept)[:-_MOST]:
            del _kept[kernel]


def take(pyfunc: Callable[..., Any], depends: Hashable) -> Function | None:
    """Remove and return the IR of a kernel; None if there is none."""
    with _lock:
        return _kept.get(pyfunc, {}).pop(depends, None)


# -- what lowering takes from outside ----------------------------------------------------------------------------------
# Values that a program takes from Python objects whose contents its fingerprint does not cover. They become fields of
# the key of a specialization's function, types and variant. Most kernels have none: the fingerprint covers all;
# the others are lowered to find it.


def taken(pyfunc: Callable[..., Any], types: Sequence[Argument], variant: Variant) -> TakenResults | None:
    """Return what lowering a kernel takes beyond its fingerprint; None if that covers everything."""
    meanings = [meaning_of(pyfunc), *(meaning_of(f.pyfunc) for t in types for _, f in functions_of(declared(t)))]
    if not any(meaning.is_opaque for meaning in meanings):
        return None
    depends = tuple(types), variant.as_lowered
    kept = meanings[0].taken
    found = kept.get(depends)
    # The attributes that an earlier lowering has read may have changed since.
    if found is None or not all(read.holds() for read in found.attributes):
        found = kept[depends] = _taken(pyfunc, types, variant, meanings)
    return found


def _taken(
    pyfunc: Callable[..., Any], types: Sequence[Argument], variant: Variant, meanings: Sequence[Meaning]
) -> TakenResults:
    from diffkern.frontend.statements.lowering import lower

    *_, own = accumulate(reversed(variant.layers), lambda given, layer: layer.own(given), initial=types)
    try:
        with recorded() as record:
            # Both sizes are lowered, as only the target says whether it counts.
            for block_dim in sorted({1, variant.block_dim or 1}):
                lower(pyfunc, own, block_dim=block_dim, layout=variant.layout, checked=variant.is_debug)
    except KernelError:  # who compiles it is told; there is nothing to be found under its key
        return TakenResults([("token", meaning.token.encode()) for meaning in meanings], [], [])
    return TakenResults.of(record)
