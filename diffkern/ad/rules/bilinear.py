"""Products of vectors, matrices and quaternions as sums of products of their components.

Where a tangent or a cotangent may be infinite, a factor that is exactly zero makes its own product zero, so that the
components are multiplied one by one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from diffkern.ad.rules.rule import RuleArguments, times
from diffkern.ir.builder import Builder
from diffkern.ir.nodes import Value
from diffkern.ir.types import Mat, Type, Vec

__all__ = ["FORMS", "cotangent", "product"]


class Term(NamedTuple):
    """A product in a component of the result: the components of both factors, and whether it is subtracted."""

    left: int
    right: int
    negative: bool = False


Form = list[list[Term]]
"""For each component of the result its terms."""


def product(
    b: Builder, name: str, change: Value, partial: Value, *, first: bool, result: Type, again: bool = True
) -> Value:
    """Return a product in which the change of a factor may be infinite where the other factor is exactly zero.

    Parameters
    ----------
    name
        The operation, one of :data:`FORMS`.
    change
        The tangent of a factor, or a cotangent.
    partial
        The value of the other factor.
    first
        Whether the change is that of the first factor.
    result
        The type of the product.
    again
        Whether the program is differentiated itself.
    """
    changes, partials = b.components(change), b.components(partial)
    pair = (change.type, partial.type) if first else (partial.type, change.type)
    form = FORMS[name](*pair)
    parts = []
    for terms in form:
        of_terms = [(t.left, t.right) if first else (t.right, t.left) for t in terms]
        products = [times(b, changes[c], partials[p], steep=True, again=again) for c, p in of_terms]
        parts.append(_sum(b, products, [t.negative for t in terms]))
    return b.construct(result, parts)


def cotangent(b: Builder, a: RuleArguments, k: int) -> Value:
    """Return the cotangent of a factor, where that of the product may be infinite and the other factor exactly zero."""
    factor, other = a.x[k], a.x[1 - k]
    seeds, partials = b.components(a.ct), b.components(other)
    own: list[list[tuple[int, int, bool]]] = [[] for _ in b.components(factor)]
    for row, terms in enumerate(FORMS[a.op.name](a.x[0].type, a.x[1].type)):
        for term in terms:
            mine, its = (term.left, term.right) if k == 0 else (term.right, term.left)
            own[mine].append((row, its, term.negative))
    parts = []
    for found in own:
        products = [times(b, seeds[row], partials[its], steep=True, again=a.again) for row, its, _ in found]
        parts.append(_sum(b, products, [negative for *_, negative in found]))
    return b.construct(factor.type, parts)


def _sum(b: Builder, products: list[Value], negative: list[bool]) -> Value:
    total = b.neg(products[0]) if negative[0] else products[0]
    for one, minus in zip(products[1:], negative[1:], strict=True):
        total = b.sub(total, one) if minus else b.add(total, one)
    return total


# -- the products ------------------------------------------------------------------------------------------------------


def _size(t: Type) -> int:
    assert isinstance(t, (Vec, Mat))
    return t.size


def _cw_mul(x: Type, y: Type) -> Form:
    return [[Term(k, k)] for k in range(_size(x))]


def _dot(x: Type, y: Type) -> Form:
    return [[Term(k, k) for k in range(_size(x))]]


def _cross(x: Type, y: Type) -> Form:
    return [[Term(i, j), Term(j, i, True)] for i, j in ((1, 2), (2, 0), (0, 1))]


def _outer(x: Type, y: Type) -> Form:
    return [[Term(i, j)] for i in range(_size(x)) for j in range(_size(y))]


def _matmul(x: Type, y: Type) -> Form:
    assert isinstance(x, Mat)
    assert isinstance(y, Mat)
    return _matrices(x.rows, x.cols, y.cols)


def _matvec(x: Type, y: Type) -> Form:
    assert isinstance(x, Mat)
    return _matrices(x.rows, x.cols, 1)


def _vecmat(x: Type, y: Type) -> Form:
    assert isinstance(y, Mat)
    return _matrices(1, y.rows, y.cols)


def _matrices(rows: int, inner: int, columns: int) -> Form:
    return [
        [Term(r * inner + k, k * columns + c) for k in range(inner)] for r in range(rows) for c in range(columns)
    ]  # fmt: skip


def _quat_mul(x: Type, y: Type) -> Form:
    """Return Hamilton's product of quaternions (x, y, z, w)."""
    x0, y0, z0, w0 = range(4)
    return [
        [Term(w0, x0), Term(x0, w0), Term(y0, z0), Term(z0, y0, True)],
        [Term(w0, y0), Term(y0, w0), Term(z0, x0), Term(x0, z0, True)],
        [Term(w0, z0), Term(z0, w0), Term(x0, y0), Term(y0, x0, True)],
        [Term(w0, w0), Term(x0, x0, True), Term(y0, y0, True), Term(z0, z0, True)],
    ]


FORMS: Final[dict[str, Callable[[Type, Type], Form]]] = {
    "cw_mul": _cw_mul,
    "dot": _dot,
    "cross": _cross,
    "outer": _outer,
    "matmul": _matmul,
    "matvec": _matvec,
    "vecmat": _vecmat,
    "quat_mul": _quat_mul,
}
"""The products of two composites; that of a composite and a number is :func:`.rule.scaled`."""
