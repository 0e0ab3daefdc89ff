"""Python source → typed structured SSA IR.

``lower`` makes the IR of a kernel for given parameter types, ``signature`` reads its annotations, and
``fingerprint`` gives what the cache key needs to know about its source.
"""

from __future__ import annotations

from diffkern.frontend.lower import lower
from diffkern.frontend.signature import Parameter, Signature, signature

__all__ = ["Parameter", "Signature", "lower", "signature"]
