"""Python source → typed structured SSA IR.

``statements.lowering`` makes the IR of a kernel for given parameter types. A launch that finds its artifact in the
cache does not need it, but needs two functions of this module: ``signature`` reads a kernel's annotations, and
``fingerprint`` gives the part of the cache key that depends on its source.
"""

from __future__ import annotations

from diffkern.frontend.syntax.canonical import fingerprint
from diffkern.frontend.syntax.signature import Signature, SignatureParameter, signature

__all__ = ["Signature", "SignatureParameter", "fingerprint", "signature"]
