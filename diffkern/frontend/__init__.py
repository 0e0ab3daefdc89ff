"""Python source → typed structured SSA IR.

``lowering`` makes the IR of a kernel for given parameter types. A launch that finds its artifact in the cache does
without it and needs what stands here: ``signature`` reads a kernel's annotations, and ``fingerprint`` gives what the
cache key needs to know about its source.
"""

from __future__ import annotations

from diffkern.frontend.canonical import fingerprint
from diffkern.frontend.signature import Parameter, Signature, signature

__all__ = ["Parameter", "Signature", "fingerprint", "signature"]
