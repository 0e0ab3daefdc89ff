"""Components of vectors and matrices: ``v.x``, ``v[k]``, ``v[a:b]``, ``m[i, j]``, ``m[i]``, ``m[:, j]``, ``t.p``.

A composite value and a subscript give a component or a part; for assignments, the composite with it replaced.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Final, TypeAlias

from diffkern.frontend.builtins import complexes
from diffkern.frontend.syntax import advice
from diffkern.frontend.syntax.scope import suggest
from diffkern.frontend.terms import coerce
from diffkern.frontend.terms.context import Context
from diffkern.frontend.terms.terms import Const, Term, Tup, Val, describe
from diffkern.ir import types as T
from diffkern.ir.nodes import Value
from diffkern.ir.ops.scalar import LITERALS
from diffkern.process.dataclass import dataclass

__all__ = [
    "Selection",
    "attribute",
    "constant_slice",
    "extract",
    "insert",
    "select_attribute",
    "select_subscript",
    "subscript",
    "within",
    "wrapped",
]

_LETTERS: Final = {"x": 0, "y": 1, "z": 2, "w": 3}
_PARTS: Final = {"p": (range(3), T.Role.VECTOR), "q": (range(3, 7), T.Role.QUATERNION)}

Axis: TypeAlias = "int | Value | range"
"""The index along an axis: a component known now or at run time, or a slice, whose axis stays."""


@dataclass(frozen=True, slots=True)
class Selection:
    """The selected part of a composite, axis by axis: one component, a row, a column, a block.

    ``role`` is the role of a vector made from it.
    """

    of: T.Composite
    axes: tuple[Axis, ...]
    role: T.Role = T.Role.VECTOR

    @property
    def type(self) -> T.Element:
        """The type of the part."""
        # An axis of which one component is taken disappears, as in NumPy.
        lengths = [len(axis) for axis in self.axes if isinstance(axis, range)]
        if not lengths:
            return self.of.dtype
        if len(lengths) == 1:
            return T.Vec(self.of.dtype, lengths[0], self.role)
        # A matrix without rows has no columns either: there is one empty matrix type.
        rows, cols = lengths if all(lengths) else (0, 0)
        return T.Mat(self.of.dtype, rows, cols)


def select_attribute(cx: Context, t: T.Element, node: ast.Attribute) -> Selection:
    """Select ``v.x``; for a transform ``t.p`` and ``t.q``."""
    if isinstance(t, T.Vec) and t.role is T.Role.TRANSFORM:
        if node.attr in _PARTS:
            part, role = _PARTS[node.attr]
            return Selection(t, (part,), role)
        cx.type_error(node, f"{t} has no component {node.attr!r}", "it has p, a vector, and q, a quaternion")
    if T.is_complex(t):
        return _part(cx, t, node)
    if isinstance(t, T.Vec):
        letters = [name for name, k in _LETTERS.items() if k < t.length]
        if node.attr in letters:
            return Selection(t, (_LETTERS[node.attr],))
        cx.type_error(
            node, f"{t} has no component {node.attr!r}{suggest(node.attr, letters)}", f"it has {', '.join(letters)}"
        )
    cx.type_error(node, f"{t} has no attribute {node.attr!r}", advice.number_attribute(node.attr))


def _part(cx: Context, t: T.Element, node: ast.Attribute) -> Selection:
    """Select ``z.real`` and ``z.imag``."""
    assert isinstance(t, T.Vec)
    if node.attr not in complexes.PARTS:
        cx.type_error(
            node, f"{t} has no attribute {node.attr!r}", "it has real and imag; write dk.conj(z), abs(z), dk.angle(z)"
        )
    return Selection(t, (complexes.PARTS[node.attr],))


def select_subscript(cx: Context, t: T.Composite, node: ast.Subscript) -> Selection:
    """Select ``v[k]``, ``v[a:b:c]``, ``m[i, j]``, ``m[i]``, ``m[a:b, j]``."""
    if T.is_complex(t):
        cx.type_error(node, f"{t} is a number and cannot be indexed", "its parts are z.real and z.imag")
    entries = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    axes: list[Axis] = []
    for entry in entries:
        # Too many indices are an error below, so their extent does not matter.
        length = t.shape[min(len(axes), len(t.shape) - 1)]
        if isinstance(entry, ast.Slice):
            axes.append(_taken(cx, entry, length))
            continue
        term = cx.expr(entry)
        for item in term.items if isinstance(term, Tup) else (term,):
            length = t.shape[min(len(axes), len(t.shape) - 1)]
            axes.append(_component_index(cx, item, length, node))
    if len(axes) > len(t.shape):
        cx.type_error(node, f"{len(axes)} indices for {t}", "give one index for each axis, as in v[i] or m[i, j]")
    # Axes without an index are taken as a whole.
    return Selection(t, (*axes, *map(range, t.shape[len(axes) :])))


def _taken(cx: Context, node: ast.Slice, length: int) -> range:
    return range(length)[constant_slice(cx, node, "the components of a slice are known when the kernel is compiled")]


def constant_slice(cx: Context, node: ast.Slice, why: str) -> slice:
    """Return the bounds of a slice, which are constants."""
    bounds: list[int | None] = []
    for part in (node.lower, node.upper, node.step):
        term = None if part is None else cx.expr(part)
        if term is not None and not (isinstance(term, Const) and isinstance(term.value, int)):
            cx.type_error(node, why, "write numbers or constants as its bounds, or index single components in a loop")
        bounds.append(term.value if isinstance(term, Const) and isinstance(term.value, int) else None)
    if bounds[2] == 0:
        cx.type_error(node, "the step of a slice is 0", "write a step such as 1 or -1")
    return slice(*bounds)


def settled_index(cx: Context, term: Term) -> Term:
    """Return an index; a typed constant that was made just now, such as ``np.int32(1)``, becomes a literal."""
    # A constant index makes a component known now, which needs no test at run time.
    last = cx.b.region.ops[-1] if cx.b.region.ops else None
    if isinstance(term, Val) and last is not None and last.name in LITERALS and last.result is term.value:
        value = last.attrs["value"]
        return Const(value) if type(value) is int else term
    return term


def _component_index(cx: Context, term: Term, n: int, node: ast.AST) -> int | Value:
    term = settled_index(cx, term)
    if isinstance(term, Const) and isinstance(term.value, int) and not isinstance(term.value, bool):
        if not -n <= term.value < n:
            cx.type_error(node, f"component {term.value} of {n}", f"components count from 0 to {n - 1}")
        # Counted from the front from here on.
        return term.value % n
    if isinstance(term, Val) and isinstance(term.type, T.Scalar) and term.type.is_integer:
        return wrapped(cx, term, n, "a vector or matrix axis")
    cx.type_error(
        node, f"a component's index must be an integer, not {describe(term)}", "write an integer, as in v[0] or m[0, 1]"
    )


def wrapped(cx: Context, term: Val, n: int, what: str) -> Value:
    """Return an index at run time, of `n`; a negative one counts from the end. Debug programs report one
    out of bounds.
    """
    if cx.checked and not cx.in_map:
        _check(cx, term.value, n, what)
    index = cx.b.cast(term.value, T.INT32)
    # No selection is emitted for an index that is known not to be negative.
    if term.value in cx.nonneg:
        return index
    negative = cx.b.one("lt", index, cx.b.i32(0))
    return cx.b.select(negative, cx.b.add(index, cx.b.i32(n)), index)


def _check(cx: Context, index: Value, n: int, what: str) -> None:
    assert isinstance(index.type, T.Scalar)
    # The extent may not fit in the type of the index.
    v = cx.b.cast(index, T.INT32) if index.type.bits < 32 else index
    assert isinstance(v.type, T.Scalar)
    inside = cx.b.one("lt", v, cx.b.const(n, v.type))
    if v.type.kind is not T.Kind.UINT:
        inside = cx.b.one("and", cx.b.one("ge", v, cx.b.const(-n, v.type)), inside)
    cx.b.op("assertion", inside, text=f"an index is out of bounds for {what} of {n}")


def within(cx: Context, outer: Selection, inner: Selection) -> Selection:
    """Return a part of a part as a part of the whole: ``m[i][j]``, ``t.q.w``, without making the intermediate part."""
    rest = list(inner.axes)
    axes = tuple(_nested(cx, a, rest.pop(0)) if isinstance(a, range) else a for a in outer.axes)
    return Selection(outer.of, axes, inner.role)


def _nested(cx: Context, taken: range, index: Axis) -> Axis:
    if isinstance(index, range):
        # `range` slices itself; a stop of -1 would count from the end.
        return taken[index.start : index.stop if index.stop >= 0 else None : index.step]
    if isinstance(index, int):
        return taken[index]
    scaled = index if taken.step == 1 else cx.b.mul(index, cx.b.i32(taken.step))
    return scaled if taken.start == 0 else cx.b.add(scaled, cx.b.i32(taken.start))


def _flat(cx: Context, t: T.Composite, known: Sequence[int | Value]) -> int | Value:
    """Return the number of a component in memory order."""
    if not isinstance(t, T.Mat):
        return known[0]
    row, col = known
    if isinstance(row, int) and isinstance(col, int):
        return row * t.cols + col
    # What is known now is computed now.
    first = cx.b.i32(row * t.cols) if isinstance(row, int) else cx.b.mul(row, cx.b.i32(t.cols))
    return cx.b.add(first, cx.b.i32(col) if isinstance(col, int) else col)


def _each(part: Selection) -> list[tuple[int | Value, ...]]:
    """Return the components of a part, each by its indices."""
    found: list[tuple[int | Value, ...]] = [()]
    for axis in part.axes:
        found = [(*head, k) for head in found for k in (axis if isinstance(axis, range) else (axis,))]
    return found


def extract(cx: Context, a: Value, part: Selection) -> Value:
    """Return the selected component, or the part as a vector or matrix."""
    items = []
    for indices in _each(part):
        k = _flat(cx, part.of, indices)
        items.append(cx.b.extract(a, k) if isinstance(k, int) else cx.b.one("extract_dyn", a, k))
    return cx.b.construct(part.type, items)


def insert(cx: Context, a: Value, part: Selection, term: Term, node: ast.AST) -> Value:
    """Return the composite with the selected part replaced."""
    t = part.of
    what = f"a component of {t}" if isinstance(part.type, T.Scalar) else f"a part of {t}"
    if isinstance(t, T.Mat) and part.axes[1:] == (range(t.cols),):
        # For messages: a row is what users assign most.
        what = f"a row of {t}"
    new = coerce.convert(cx, term, part.type, node, what)
    for number, indices in enumerate(_each(part)):
        k = _flat(cx, t, indices)
        item = new if isinstance(new.type, T.Scalar) else cx.b.extract(new, number)
        a = cx.b.one("insert", a, item, index=k) if isinstance(k, int) else cx.b.one("insert_dyn", a, item, k)
    return a


def attribute(cx: Context, owner: Val, node: ast.Attribute) -> Val:
    """Return ``v.x`` as a value."""
    return Val(extract(cx, owner.value, select_attribute(cx, owner.type, node)))


def subscript(cx: Context, owner: Val, node: ast.Subscript) -> Val:
    """Return ``v[k]``, ``m[i, j]`` or a part as a value."""
    assert isinstance(owner.type, (T.Vec, T.Mat))
    return Val(extract(cx, owner.value, select_subscript(cx, owner.type, node)))
