"""Operators that a program defines by funcs of their names: ``add`` for ``+``, as programs for Warp have them.

An operator calls the func of that name in the scope if its operands fit the parameters.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Final

from diffkern.frontend.statements import matching
from diffkern.frontend.terms.context import Context
from diffkern.frontend.terms.terms import Const, Rec, Term, TileStruct, Val
from diffkern.frontend.tiles.tile_terms import is_tile
from diffkern.lang import Func

__all__ = ["user_operator"]

_NAMES: Final[Mapping[str, str]] = {
    "add": "add", "sub": "sub", "mul": "mul", "matmul": "mul", "div": "div", "floordiv": "floordiv", "mod": "mod",
    "pow": "pow", "and": "bit_and", "or": "bit_or", "xor": "bit_xor", "shl": "lshift", "shr": "rshift",
}  # fmt: skip
"""Warp's names of the operators."""


def user_operator(cx: Context, op: str, left: Term, right: Term, node: ast.AST) -> Func | None:
    """Return the func of the program that an operator calls, or None where it is the built-in one.

    A func of that name which is being lowered itself means the built-in operator: ``add`` may add its fields.
    """
    # Literals are folded, and no user function is meant by ``1 + 2``.
    if not cx.dialect.named_operators or (isinstance(left, Const) and isinstance(right, Const)):
        return None
    named = cx.frame.scope.of_program(_NAMES[op])
    if not isinstance(named, Func) or not (_is_operand(left) and _is_operand(right)):
        return None
    found = matching.fitting(named, ((left, node), (right, node)))
    # On the stack, it is being lowered itself.
    if found is None or any(frame.pyfunc is found.pyfunc for frame in cx.stack):
        return None
    return found


def _is_operand(term: Term) -> bool:
    if isinstance(term, Rec):
        # Tiles have operators of their own.
        return not isinstance(term.struct, TileStruct)
    return isinstance(term, (Const, Val)) and not is_tile(term)
