"""Built-in functions of complex numbers.

A built-in's key and the terms of its arguments, one of them complex, give its result: that of a function of the
library, or None if operators define it, or if it works by component.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Final

from diffkern.frontend.builtins import complexes, composed
from diffkern.frontend.terms.context import Context
from diffkern.frontend.terms.terms import Term
from diffkern.lang.library import COMPLEX

__all__ = ["lowered"]

_PLAIN: Final = frozenset({
    "add", "sub", "mul", "div", "neg", "pos", "isnan", "isinf", "isfinite", "stop_gradient", "lerp",
})  # fmt: skip


def lowered(cx: Context, key: str, name: str, terms: Sequence[Term], node: ast.Call) -> Term | None:
    """Return the result of a call, or None if it is lowered like one of other numbers and vectors."""
    if not complexes.any_complex(terms) or key in _PLAIN:
        return None
    if key == "pow" and not all(map(complexes.is_complex, terms)):
        return None  # the operator makes complex numbers of both
    if key not in COMPLEX:
        known = ", ".join(sorted({*COMPLEX, "angle", "conj"}))
        cx.type_error(node, f"{name} of a complex number", f"complex numbers have {known}, and parts z.real and z.imag")
    return composed.apply(cx, COMPLEX[key], key, terms, node)
