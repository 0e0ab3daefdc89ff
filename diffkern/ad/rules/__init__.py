"""Derivative rules: for every differentiable operation the adjoint of its operands, as IR.

A rule receives the op's operand values, its result, the result's cotangent and which operands are active, and returns
one cotangent per operand (None for an inactive one). Scalar rules are formulas (``scalar.py``), checked against SymPy
in the tests; composite rules are vector calculus (``composite.py``), checked against their scalar expansion.
"""

from __future__ import annotations

from diffkern.ad.rules.composite import COMPOSITE_RULES
from diffkern.ad.rules.rule import Rule, RuleArguments
from diffkern.ad.rules.scalar import SCALAR_RULES
from diffkern.ad.rules.tile import TILE_RULES

RULES: dict[str, Rule] = {**SCALAR_RULES, **COMPOSITE_RULES, **TILE_RULES}

__all__ = ["RULES", "Rule", "RuleArguments"]
