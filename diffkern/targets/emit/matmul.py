"""Products of small matrices in memory, as one LLVM function per shape.

The result is computed in blocks of a few rows by two vectors of columns, which stay in registers while the loop runs
over the inner index: for each of its values the vectors of a row of B are loaded once and multiplied by one element of
A per row. Shapes are constants, so the remainders at the edges have code of their own: one shorter vector, or two that
overlap. After Goto and van de Geijn, "Anatomy of high-performance matrix multiplication" (2008), without packing: a
tile is in cache.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir

from diffkern.ir.types import Scalar
from diffkern.process.dataclass import dataclass
from diffkern.targets.emit.types import I32, I64, PTR, VOID, Builder, i64, value_type


@dataclass(frozen=True, slots=True)
class ProductShape:
    """A product ``c = a @ b``: rows, columns, inner size; whether a is stored transposed, and c is added to."""

    m: int
    n: int
    k: int
    trans_a: bool
    add: bool


def matmul_function(module: Any, dtype: Scalar, shape: ProductShape, flags: tuple[str, ...], vector_bytes: int) -> Any:
    """Return the function ``void(c, a, b)`` for a shape, made once per module."""
    letters = ("t" if shape.trans_a else "n") + ("a" if shape.add else "")
    name = f"matmul.{dtype}.{shape.m}x{shape.n}x{shape.k}.{letters}"
    known = module.globals.get(name)
    if known is not None:
        return known
    function = ir.Function(module, ir.FunctionType(VOID, [PTR, PTR, PTR]), name)
    function.linkage = "internal"
    function.attributes.add("nounwind")
    function.attributes.add("noinline")
    # The lowering never passes the result's memory as a factor.
    for argument in function.args:
        argument.add_attribute("noalias")
    _Emitter(ir.IRBuilder(function.append_basic_block("entry")), dtype, shape, flags, vector_bytes).emit(*function.args)
    return function


class _Emitter:
    def __init__(
        self, b: Builder, dtype: Scalar, shape: ProductShape, flags: tuple[str, ...], vector_bytes: int
    ) -> None:
        self.b, self.shape, self.flags = b, shape, flags
        self.t = value_type(dtype)
        self.itemsize = dtype.itemsize
        # Even a target without vectors gets two columns at a time, which hides latencies.
        lanes = max(2, vector_bytes // dtype.itemsize)
        # 16 vector registers hold 6 x 2 results, 2 vectors of b and an element of a; 32 hold 12 x 2 and the rest.
        self.rows = 12 if vector_bytes == 64 else 6
        self.lanes, self.columns = lanes, 2 * lanes

    def emit(self, c: Any, a: Any, b: Any) -> None:
        s = self.shape
        # Columns are the outer loop: the block of B stays in the first-level cache while all rows of A pass.
        full, rest = divmod(s.n, self.columns)
        if full:
            self.loop(full, lambda j: self.row_blocks(c, a, b, self.b.mul(j, i64(self.columns)), self.columns))
        if rest:
            self.row_blocks(c, a, b, i64(full * self.columns), rest)
        self.b.ret_void()

    def row_blocks(self, c: Any, a: Any, b: Any, j: Any, width: int) -> None:
        s = self.shape
        full, rest = divmod(s.m, self.rows)
        if full:
            self.loop(full, lambda i: self.block(c, a, b, self.b.mul(i, i64(self.rows)), j, self.rows, width))
        if rest:
            self.block(c, a, b, i64(full * self.rows), j, rest, width)

    def loop(self, count: int, body: Callable[[Any], None]) -> None:
        b = self.b
        if count == 1:
            body(i64(0))
            return
        before, head = b.block, b.append_basic_block("blocks")
        done = b.append_basic_block("done")
        b.branch(head)
        b.position_at_end(head)
        i = b.phi(I64)
        i.add_incoming(i64(0), before)
        body(i)
        following = b.add(i, i64(1), flags=("nuw", "nsw"))
        i.add_incoming(following, b.block)
        b.cbranch(b.icmp_unsigned("<", following, i64(count)), head, done)
        b.position_at_end(done)

    def block(self, c: Any, a: Any, b: Any, i: Any, j: Any, height: int, width: int) -> None:
        """Emit one block of the result: the loop over the inner index with the results in registers."""
        builder, s = self.b, self.shape
        width, parts = self.parts(width)
        vector = ir.VectorType(self.t, width) if width > 1 else self.t
        columns = [builder.add(j, i64(part), flags=("nuw", "nsw")) if part else j for part in parts]
        places = [
            self.at(c, builder.add(builder.mul(self.row(i, r), i64(s.n)), column))
            for r in range(height)
            for column in columns
        ]
        # An accumulating product starts from the old result; all of it is loaded before any is stored.
        start = [self.load(p, vector) if s.add else ir.Constant(vector, self.zeros(width)) for p in places]
        before, head = builder.block, builder.append_basic_block("inner")
        done = builder.append_basic_block("stored")
        builder.branch(head)
        builder.position_at_end(head)
        k = builder.phi(I64)
        sums = [builder.phi(vector) for _ in places]
        first_of_row = builder.mul(k, i64(s.n))
        row_of_b = [self.load(self.at(b, builder.add(first_of_row, column)), vector) for column in columns]
        results = []
        for r in range(height):
            row = self.row(i, r)
            # A transposed factor is read along its columns; one element per row of the block either way.
            if s.trans_a:
                place = builder.add(builder.mul(k, i64(s.m)), row)
            else:
                place = builder.add(builder.mul(row, i64(s.k)), k)
            factor = self.spread(builder.load(self.at(a, place), typ=self.t), width)
            for so_far, part_of_b in zip(sums[r * len(parts) :], row_of_b, strict=False):
                product = builder.fmul(factor, part_of_b, flags=self.flags)
                results.append(builder.fadd(so_far, product, flags=self.flags))
        following = builder.add(k, i64(1), flags=("nuw", "nsw"))
        k.add_incoming(i64(0), before)
        k.add_incoming(following, head)
        for phi, first, result in zip(sums, start, results, strict=True):
            phi.add_incoming(first, before)
            phi.add_incoming(result, head)
        builder.cbranch(builder.icmp_unsigned("<", following, i64(s.k)), head, done)
        builder.position_at_end(done)
        for p, result in zip(places, results, strict=True):
            stored = builder.store(result, p)
            stored.align = self.itemsize

    def parts(self, width: int) -> tuple[int, tuple[int, ...]]:
        """Return the length of the vectors that hold a row of a block, and the column at which each of them begins."""
        if self.lanes < width < self.columns:
            # LLVM keeps a vector between one and two registers long as single numbers in a loop, which are too many.
            # Columns that are in both vectors are computed twice, with the same result.
            return self.lanes, (0, width - self.lanes)
        return width, (0,)

    def row(self, i: Any, r: int) -> Any:
        return i if r == 0 else self.b.add(i, i64(r), flags=("nuw", "nsw"))

    def at(self, base: Any, index: Any) -> Any:
        return self.b.gep(base, [index], inbounds=True, source_etype=self.t)

    def load(self, pointer: Any, vector: Any) -> Any:
        out = self.b.load(pointer, typ=vector)
        out.align = self.itemsize
        return out

    def zeros(self, width: int) -> Any:
        return [0.0] * width if width > 1 else 0.0

    def spread(self, x: Any, width: int) -> Any:
        """Return a vector of the same number in all lanes."""
        if width == 1:
            return x
        vector = ir.VectorType(self.t, width)
        one = self.b.insert_element(ir.Constant(vector, ir.Undefined), x, ir.Constant(I32, 0))
        mask = ir.Constant(ir.VectorType(I32, width), [0] * width)
        return self.b.shuffle_vector(one, ir.Constant(vector, ir.Undefined), mask)
