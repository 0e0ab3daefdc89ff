"""Expands the mathematics of vectors and matrices into scalar operations.

The result is an equivalent function in which the only operations on composites are ``construct`` and ``extract``; every
other operation computes scalars. Loads, stores, atomics, stacks and values carried by control flow keep their composite
types, so that memory is still moved one whole element at a time.

Each composite value of the old function is represented by the list of its components, all of them scalar values that
dominate every use of the old value. An ``extract`` therefore never costs anything, and a ``construct`` is emitted only
where a whole element is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

from diffkern.errors import CompileError
from diffkern.ir.builder import Builder
from diffkern.ir.nodes import Function, Op, Region, Value
from diffkern.ir.types import Mat, Scalar, Type, Vec
from diffkern.lower.component_stores import is_component

MAX_DETERMINANT: Final = 6
"""The most rows of a matrix that has a determinant and an inverse in a kernel."""

Components: TypeAlias = "list[Value]"
Rule: TypeAlias = Callable[[Builder, Op, "list[Components]"], "Components"]


def expand_composites(fn: Function) -> Function:
    """Expand the composite mathematics of a function in place, and return it.

    Raises
    ------
    CompileError
        For an inverse or determinant of a matrix larger than 6×6.
    """
    fn.body = _Expander(fn.params).function_body(fn)
    return fn


class _Expander:
    def __init__(self, params: Sequence[Value]) -> None:
        self.builder = Builder()
        self.values: dict[Value, Value] = {p: p for p in params}
        self.parts: dict[Value, Components] = {}

    def function_body(self, fn: Function) -> Region:
        region = Region()
        with self.builder.into(region):
            for p in fn.params:
                self.define(p, p)
            self.ops(fn.body)
            region.yields = tuple(self.whole(v) for v in fn.body.yields)
        return region

    # -- values ------------------------------------------------------------------------------------------------------

    def define(self, old: Value, new: Value) -> None:
        """Let ``new`` stand for ``old``; a composite is decomposed at once, where it dominates all its uses."""
        self.values[old] = new
        if isinstance(old.type, (Vec, Mat)):
            self.parts[old] = self.builder.components(new)

    def components(self, v: Value) -> Components:
        return self.parts[v] if isinstance(v.type, (Vec, Mat)) else [self.values[v]]

    def whole(self, v: Value) -> Value:
        known = self.values.get(v)
        return known if known is not None else self.builder.construct(v.type, self.parts[v])

    # -- ops ---------------------------------------------------------------------------------------------------------

    def region(self, old: Region) -> Region:
        new = Region(params=tuple(Value(p.type, p.name) for p in old.params))
        with self.builder.into(new):
            for a, b in zip(old.params, new.params, strict=True):
                self.define(a, b)
            self.ops(old)
            new.yields = tuple(self.whole(v) for v in old.yields)
        return new

    def ops(self, region: Region) -> None:
        for op in region.ops:
            with self.builder.at(op.loc):
                self.op(op)

    def op(self, op: Op) -> None:
        rule = _RULES.get(op.name)
        touches = any(isinstance(v.type, (Vec, Mat)) for v in (*op.operands, *op.results))
        if rule is not None and touches:
            parts = rule(self.builder, op, [self.components(v) for v in op.operands])
            if isinstance(op.result.type, (Vec, Mat)):
                # Only the components are recorded: the whole vector is constructed where one is needed.
                self.parts[op.result] = parts
            else:
                (self.values[op.result],) = parts
            return
        # Everything else moves or carries whole elements and keeps its composite operands.
        regions = tuple(self.region(r) for r in op.regions)
        results = tuple(Value(r.type, r.name) for r in op.results)
        operands = tuple(self.whole(v) for v in op.operands)
        self.builder.region.ops.append(Op(op.name, operands, results, op.attrs, regions, op.loc))
        for a, b in zip(op.results, results, strict=True):
            self.define(a, b)


# -- rules: components of the operands to components of the result -----------------------------------------------------


def _elementwise(name: str) -> Rule:
    def rule(b: Builder, op: Op, args: list[Components]) -> Components:
        return [b.one(name, *column) for column in zip(*args, strict=True)]

    return rule


def _scaled(name: str) -> Rule:
    def rule(b: Builder, op: Op, args: list[Components]) -> Components:
        ((s,),) = args[1:]
        return [b.one(name, a, s) for a in args[0]]

    return rule


def _select(b: Builder, op: Op, args: list[Components]) -> Components:
    ((cond,), left, right) = args
    return [b.select(cond, x, y) for x, y in zip(left, right, strict=True)]


def _cast(b: Builder, op: Op, args: list[Components]) -> Components:
    to = op.attrs["to"].dtype
    return [b.cast(a, to) for a in args[0]]


def _construct(b: Builder, op: Op, args: list[Components]) -> Components:
    return [a for (a,) in args]


def _extract(b: Builder, op: Op, args: list[Components]) -> Components:
    return [args[0][op.attrs["index"]]]


def _insert(b: Builder, op: Op, args: list[Components]) -> Components:
    parts = list(args[0])
    (parts[op.attrs["index"]],) = args[1]
    return parts


def _extract_dyn(b: Builder, op: Op, args: list[Components]) -> Components:
    parts, (index,) = args
    # Memory of registers has no addresses: a chain of selections picks the component.
    out = parts[0]
    for k in range(1, len(parts)):
        out = b.select(is_component(b, index, k, len(parts)), parts[k], out)
    if len(parts) > 1:
        # A mark on the last one, by which targets with a stack find the chain.
        b.region.ops[-1].attrs = {"picked": len(parts)}
    return [out]


def _insert_dyn(b: Builder, op: Op, args: list[Components]) -> Components:
    parts, (value,), (index,) = args
    return [b.select(is_component(b, index, k, len(parts)), value, p) for k, p in enumerate(parts)]


def _sum_of_products(b: Builder, left: Sequence[Value], right: Sequence[Value]) -> Value:
    total = b.mul(left[0], right[0])
    for x, y in zip(left[1:], right[1:], strict=True):
        total = b.add(total, b.mul(x, y))
    return total


def _dot(b: Builder, op: Op, args: list[Components]) -> Components:
    return [_sum_of_products(b, args[0], args[1])]


def _length_sq(b: Builder, op: Op, args: list[Components]) -> Components:
    return [_sum_of_products(b, args[0], args[0])]


def _length(b: Builder, op: Op, args: list[Components]) -> Components:
    return [b.one("sqrt", _sum_of_products(b, args[0], args[0]))]


def _reciprocal_or_zero(b: Builder, x: Value, nonzero: str) -> Value:
    t = x.type
    assert isinstance(t, Scalar)
    zero = b.const(0.0, t)
    return b.select(b.one(nonzero, x, zero), b.div(b.const(1.0, t), x), zero)


def _normalize(b: Builder, op: Op, args: list[Components]) -> Components:
    # The zero vector has no direction; its inverse length is taken as zero, so the result is the zero vector.
    norm = b.one("sqrt", _sum_of_products(b, args[0], args[0]))
    inverse = _reciprocal_or_zero(b, norm, "gt")
    return [b.mul(a, inverse) for a in args[0]]


def _cross(b: Builder, op: Op, args: list[Components]) -> Components:
    x, y = args
    return [b.sub(b.mul(x[i], y[j]), b.mul(x[j], y[i])) for i, j in ((1, 2), (2, 0), (0, 1))]


def _rows(parts: Components, t: Type) -> list[Components]:
    assert isinstance(t, Mat)
    return [parts[r * t.cols : (r + 1) * t.cols] for r in range(t.rows)]


def _columns(parts: Components, t: Type) -> list[Components]:
    assert isinstance(t, Mat)
    return [parts[c :: t.cols] for c in range(t.cols)]


def _matmul(b: Builder, op: Op, args: list[Components]) -> Components:
    rows, columns = _rows(args[0], op.operands[0].type), _columns(args[1], op.operands[1].type)
    return [_sum_of_products(b, row, column) for row in rows for column in columns]


def _matvec(b: Builder, op: Op, args: list[Components]) -> Components:
    return [_sum_of_products(b, row, args[1]) for row in _rows(args[0], op.operands[0].type)]


def _vecmat(b: Builder, op: Op, args: list[Components]) -> Components:
    return [_sum_of_products(b, args[0], column) for column in _columns(args[1], op.operands[1].type)]


def _quat_mul(b: Builder, op: Op, args: list[Components]) -> Components:
    """Expand Hamilton's product of quaternions (x, y, z, w)."""
    (ax, ay, az, aw), (bx, by, bz, bw) = args
    return [
        b.sub(_sum_of_products(b, (aw, ax, ay), (bx, bw, bz)), b.mul(az, by)),
        b.sub(_sum_of_products(b, (aw, ay, az), (by, bw, bx)), b.mul(ax, bz)),
        b.sub(_sum_of_products(b, (aw, az, ax), (bz, bw, by)), b.mul(ay, bx)),
        b.sub(b.mul(aw, bw), _sum_of_products(b, (ax, ay, az), (bx, by, bz))),
    ]


def _outer(b: Builder, op: Op, args: list[Components]) -> Components:
    return [b.mul(x, y) for x in args[0] for y in args[1]]


def _transpose(b: Builder, op: Op, args: list[Components]) -> Components:
    return [part for column in _columns(args[0], op.operands[0].type) for part in column]


def _trace(b: Builder, op: Op, args: list[Components]) -> Components:
    rows = _rows(args[0], op.operands[0].type)
    total = rows[0][0]
    for k in range(1, len(rows)):
        total = b.add(total, rows[k][k])
    return [total]


def _without(n: int, k: int) -> tuple[int, ...]:
    return tuple(c for c in range(n) if c != k)


class _Minors:
    """Determinants of parts of a matrix by expansion along their first row.

    Those of a large one share their own parts, so that n rows take about n * 2**n products.
    """

    def __init__(self, b: Builder, rows: Sequence[Components]) -> None:
        self.b, self.rows = b, rows
        self.known: dict[tuple[tuple[int, ...], tuple[int, ...]], Value] = {}

    def of(self, rows: tuple[int, ...], columns: tuple[int, ...]) -> Value:
        """Return the determinant of the submatrix with these rows and columns."""
        found = self.known.get((rows, columns))
        if found is None:
            found = self.known[rows, columns] = self._expanded(rows, columns)
        return found

    def _expanded(self, rows: tuple[int, ...], columns: tuple[int, ...]) -> Value:
        b, first = self.b, self.rows[rows[0]]
        if len(rows) == 1:
            return first[columns[0]]
        total = b.mul(first[columns[0]], self.of(rows[1:], columns[1:]))
        # Laplace expansion along the first row, with alternating signs.
        for k, c in enumerate(columns[1:], 1):
            term = b.mul(first[c], self.of(rows[1:], (*columns[:k], *columns[k + 1 :])))
            total = b.sub(total, term) if k % 2 else b.add(total, term)
        return total


def _small(op: Op) -> int:
    t = op.operands[0].type
    assert isinstance(t, Mat)
    if t.rows > MAX_DETERMINANT:
        raise CompileError(
            f"{op.name} of a {t.rows}×{t.cols} matrix is not supported",
            loc=op.loc,
            remedy=f"matrices up to {MAX_DETERMINANT}×{MAX_DETERMINANT} have one; factorise larger ones in a loop over "
            "an array, or as a tile with dk.tile_cholesky",
        )
    return t.rows


def _determinant(b: Builder, op: Op, args: list[Components]) -> Components:
    every = tuple(range(_small(op)))
    return [_Minors(b, _rows(args[0], op.operands[0].type)).of(every, every)]


def _inverse(b: Builder, op: Op, args: list[Components]) -> Components:
    """Expand cofactors over the determinant; a singular matrix gives the zero matrix."""
    n, rows = _small(op), _rows(args[0], op.operands[0].type)
    if n == 1:
        return [_reciprocal_or_zero(b, rows[0][0], "ne")]
    minors = _Minors(b, rows)
    cofactors: list[Components] = []
    for r in range(n):
        found = ((c, minors.of(_without(n, r), _without(n, c))) for c in range(n))
        cofactors.append([b.neg(m) if (r + c) % 2 else m for c, m in found])
    # The determinant is the first row times its cofactors, which are at hand already.
    scale = _reciprocal_or_zero(b, _sum_of_products(b, rows[0], cofactors[0]), "ne")
    # The adjugate is the transpose of the cofactor matrix.
    return [b.mul(cofactors[c][r], scale) for r in range(n) for c in range(n)]


_RULES: Mapping[str, Rule] = {
    "add": _elementwise("add"),
    "sub": _elementwise("sub"),
    "neg": _elementwise("neg"),
    "round_float16": _elementwise("round_float16"),
    "round_bfloat16": _elementwise("round_bfloat16"),
    "cw_mul": _elementwise("mul"),
    "cw_div": _elementwise("div"),
    "scale": _scaled("mul"),
    "unscale": _scaled("div"),
    "select": _select,
    "cast": _cast,
    "construct": _construct,
    "extract": _extract,
    "insert": _insert,
    "extract_dyn": _extract_dyn,
    "insert_dyn": _insert_dyn,
    "dot": _dot,
    "length_sq": _length_sq,
    "length": _length,
    "normalize": _normalize,
    "cross": _cross,
    "matmul": _matmul,
    "matvec": _matvec,
    "vecmat": _vecmat,
    "quat_mul": _quat_mul,
    "outer": _outer,
    "transpose": _transpose,
    "trace": _trace,
    "determinant": _determinant,
    "inverse": _inverse,
}
