"""The operation table: one row per operation (signature, effects, differentiability, Python spelling)."""

from diffkern.ops import block, buffer, composite, memory, scalar, tile
from diffkern.ops.table import Diff, Effect, OpDef, TypeRuleError, all_ops, lookup

__all__ = [
    "Diff",
    "Effect",
    "OpDef",
    "TypeRuleError",
    "all_ops",
    "block",
    "buffer",
    "composite",
    "lookup",
    "memory",
    "scalar",
    "tile",
]
