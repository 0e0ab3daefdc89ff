"""Python source → typed structured SSA IR.

``lower`` makes the IR of a kernel for given parameter types, ``signature`` reads its annotations, and
``fingerprint`` gives what the cache key needs to know about its source. A launch that finds its artifact in
the cache needs the last two alone, so ``lower`` is imported on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from diffkern.frontend.canonical import fingerprint
from diffkern.frontend.signature import Parameter, Signature, signature

if TYPE_CHECKING:
    from diffkern.frontend.lowering import lower

__all__ = ["Parameter", "Signature", "fingerprint", "lower", "signature"]


def __getattr__(name: str) -> Any:
    if name != "lower":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from diffkern.frontend.lowering import lower

    return lower
