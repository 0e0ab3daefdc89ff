"""Partial derivatives written as formulas, turned into IR.

A formula is a Python expression in the operands ``x`` and ``y``, the result ``r``, numbers, ``+ - * / **2``, calls of
scalar operations, with their attributes by name, comparisons, and ``a if c else b``. The same text is read by SymPy in
the tests.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping

from diffkern.ir.builder import Builder
from diffkern.ir.nodes import Value
from diffkern.ir.types import Scalar
from diffkern.process.forks import cached_property

_BINARY: dict[type[ast.operator], str] = {ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div"}
_COMPARE: dict[type[ast.cmpop], str] = {
    ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge", ast.Eq: "eq", ast.NotEq: "ne",
}  # fmt: skip


class Formula:
    """A parsed formula."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tree = ast.parse(text, mode="eval").body

    def emit(self, b: Builder, env: Mapping[str, Value], type: Scalar) -> Value:
        """Append the ops that compute the formula; every number is a literal of ``type``."""
        return _FormulaEmitter(b, env, type).visit(self.tree)

    @cached_property
    def quotient(self) -> tuple[Formula, Formula] | None:
        """The numerator and denominator, where the formula is a quotient whose numerator is 1 or varies; else None."""
        tree = self.tree
        if not (isinstance(tree, ast.BinOp) and isinstance(tree.op, ast.Div)):
            return None
        parts = Formula(ast.unparse(tree.left)), Formula(ast.unparse(tree.right))
        return None if isinstance(tree.left, ast.Constant) and not parts[0].is_one else parts

    @property
    def is_one(self) -> bool:
        """True if the partial derivative is the constant 1."""
        return self.text == "1"


class _FormulaEmitter:
    def __init__(self, b: Builder, env: Mapping[str, Value], type: Scalar) -> None:
        self.b, self.env, self.type = b, env, type

    def visit(self, node: ast.expr) -> Value:
        match node:
            case ast.Name(id=name):
                return self.env[name]
            case ast.Constant(value=int() | float() as value):
                return self.b.const(float(value), self.type)
            # Before the general negation, so that -0.5 becomes one literal instead of an op.
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as value)):
                return self.b.const(-float(value), self.type)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return self.b.neg(self.visit(operand))
            case ast.BinOp(left=left, op=ast.Pow(), right=ast.Constant(value=2)):
                v = self.visit(left)
                return self.b.mul(v, v)
            case ast.BinOp(left=left, op=operator, right=right):
                return self.b.one(_BINARY[type(operator)], self.visit(left), self.visit(right))
            case ast.Compare(left=left, ops=[comparison], comparators=[right]):
                return self.b.one(_COMPARE[type(comparison)], self.visit(left), self.visit(right))
            case ast.IfExp(test=test, body=body, orelse=orelse):
                return self.b.select(self.visit(test), self.visit(body), self.visit(orelse))
            case ast.Call(func=ast.Name(id=name), args=args, keywords=keywords):
                attrs = {k.arg: ast.literal_eval(k.value) for k in keywords if k.arg is not None}
                return self.b.one(name, *(self.visit(a) for a in args), **attrs)
            case _:
                raise ValueError(f"no formula: {ast.unparse(node)}")
