"""Values that a program takes from Python objects whose contents its fingerprint does not cover.

They become fields of the key of a specialization's function, types and variant. Most kernels have none: their
fingerprint covers everything. For the others the kernel is lowered to find its key.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any

from diffkern.contracts.options import Variant
from diffkern.errors import KernelError
from diffkern.frontend.syntax.canonical import Meaning, meaning_of
from diffkern.frontend.syntax.taken import TakenResults, recorded
from diffkern.ir.structs import Argument, declared
from diffkern.lang.structs import functions_of

__all__ = ["taken"]


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
