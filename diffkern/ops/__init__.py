"""The operation table: one row per operation (signature, effects, differentiability, Python spelling)."""

from diffkern.ops import block, composite, memory, scalar
from diffkern.ops.table import Diff, Effect, OpDef, TypeRuleError, all_ops, lookup

__all__ = ["Diff", "Effect", "OpDef", "TypeRuleError", "all_ops", "block", "composite", "lookup", "memory", "scalar"]
