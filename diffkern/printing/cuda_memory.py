"""Memory accesses of a numba-cuda kernel: subscripts, loads, stores, updates, local arrays and stacks.

Operations on memory become expressions and statements, given the expressions of their operands. numba counts a negative
signed subscript from the end, and widens integers of different signs; the printed source makes both unnecessary.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Sequence

from diffkern.analysis.cuda_plan import UpdateWay, cuda_plan
from diffkern.ir.nodes import Function, Op, Value, walk
from diffkern.ir.ops.block import BLOCK_INDICES
from diffkern.ir.ops.memory import EXTREMA, THREAD_INDICES, UPDATES
from diffkern.ir.ops.table import lookup
from diffkern.ir.types import (
    BFLOAT16,
    BOOL,
    INT32,
    INT64,
    STORAGE_ONLY,
    Array,
    Buffer,
    Element,
    Kind,
    Mat,
    Scalar,
    Stack,
    Tile,
    Type,
    Vec,
    scalar_of,
    value_type,
)
from diffkern.ir.views import Access, StackSlot
from diffkern.printing.expression import Expr
from diffkern.printing.python import Writer

__all__ = ["UNIT", "CudaMemoryWriter", "as_tuple", "size_of"]

UNIT = re.compile(r"\w+(\[[^][]*\]|\([^()]*\))?")
"""An expression that needs no parentheses: a name, or one with a subscript or arguments."""


class CudaMemoryWriter(Writer):
    """Writes operations on memory."""

    def __init__(self, fn: Function) -> None:
        super().__init__(fn)
        self.plan_of_updates = cuda_plan(fn)
        self.sums: dict[Op, list[str]] = {}
        self.stacks: dict[Value, list[str]] = {}
        self.producers = {r: op for op in walk(fn.body) for r in op.results}
        # Indices of threads are unsigned and 32 bits, which spares numba a test of the sign at each subscript.
        self.unsigned = {op.result for op in walk(fn.body) if op.name in THREAD_INDICES | BLOCK_INDICES}

    def element(self, t: Type, parts: Sequence[str], op: Op) -> Expr:
        """Return a scalar, or a composite as the tuple of its components."""
        if isinstance(t, Scalar):
            return Expr(parts[0], reads=self.reads(op))
        return Expr(as_tuple(parts), reads=self.reads(op), parts=tuple(parts))

    def components(self, v: Value) -> list[str]:
        e = self.typed(v)
        if isinstance(v.type, Scalar):
            return [e.text]
        return list(e.parts) or [f"{e.text}[{k}]" for k in range(size_of(v.type))]

    def index(self, v: Value, wrap: bool = False) -> str:
        """Return a subscript. numba counts negative signed ones from the end, as ``wrap`` allows."""
        e, t = self.exprs[v], v.type
        assert isinstance(t, Scalar)
        text = (e.bare or e).text if t in (INT32, INT64) else e.text
        unsigned = self.is_unsigned(v)
        # A subscript that may be negative must be signed for numba.
        if wrap and unsigned and e.bare is not None:
            return f"{self.prim('int64')}({text})"
        if wrap or unsigned or text.isdecimal():
            return text
        return f"{self.prim('at')}({text})"

    def is_unsigned(self, v: Value) -> bool:
        """Return whether numba takes the expression of an integer for an unsigned one."""
        assert isinstance(v.type, Scalar)
        if v in self.unsigned or v.type.kind is Kind.UINT:
            return True
        if self.exprs[v].bare is None or not lookup(self.producers[v].name).modular:
            return False
        return all(map(self.is_unsigned, self.producers[v].operands))

    def typed(self, v: Value) -> Expr:
        e = super().typed(v)
        # An index in a variable with other integers would make it wider.
        return Expr(f"{self.prim('int32')}({e.text})", reads=e.reads) if v in self.unsigned else e

    def component_places(self, place: str, t: Type) -> list[str]:
        if isinstance(t, Scalar):
            return [place]
        return [f"{place}, {k}" if place else str(k) for k in range(size_of(t))]

    def places(self, op: Op) -> list[str]:
        """Return the subscript for each component of an element."""
        array = Access(op).array.type
        assert isinstance(array, Array)
        subscripts = [self.index(v, wrap) for v, wrap in zip(Access(op).index, Access(op).wrap, strict=True)]
        found = self.component_places(", ".join(subscripts), array.dtype)
        # The atomic functions take the subscript as an argument, so several indices need a tuple.
        if op.name in UPDATES:
            return [f"({p})" if "," in p or not p else p for p in found]
        return [p or "()" for p in found]

    def pairs(self, op: Op, values: Sequence[str]) -> list[tuple[str, str]]:
        return list(zip(self.places(op), values, strict=True))

    def read(self, t: Array, item: str) -> str:
        s = scalar_of(t)
        if s == BFLOAT16:
            return f"{self.prim('from_bfloat16')}({item})"
        return f"{self.prim('float32')}({item})" if s in STORAGE_ONLY else item

    def kept(self, t: Array, value: str) -> str:
        """Return a value as it is stored."""
        return f"{self.prim('to_bfloat16')}({value})" if scalar_of(t) == BFLOAT16 else value

    def atomic(self, op: Op, place: str, value: str) -> str:
        return self.atomically(op.attrs.get("kind", "add"), Access(op).array, place, value)

    def atomically(self, kind: str, array: Value, place: str, value: str) -> str:
        """Return an atomic update of a number in an array."""
        name, s = self.exprs[array].text, scalar_of(array.type)
        if s == BFLOAT16:
            return f"{self.prim(f'atomic_{kind}_bfloat16')}({name}, {place}, {value})"
        # Types and kinds that numba-cuda has no atomic function for.
        if s.bits < 32 or kind in ("keep", "take") or (s.is_float and kind in EXTREMA):
            return f"{self.prim(f'atomic_{kind}')}({name}, {place}, {value})"
        if kind == "exch" and s.is_float:  # numba-cuda exchanges integers alone
            return f"{self.prim('exchange')}({name}, {place}, {value})"
        if kind == "sub" and s.is_float:  # the hardware adds; numba-cuda would compare and swap
            kind, value = "add", f"-{value}" if UNIT.fullmatch(value) else f"-({value})"
        method = f"{kind}_" if keyword.iskeyword(kind) else kind
        return f"cuda.atomic.{method}({name}, {place}, {value})"

    def compare_and_swap(self, op: Op, pair: Sequence[str]) -> str:
        array, (place,) = Access(op).array, self.places(op)
        name, s = self.exprs[array].text, scalar_of(array.type)
        if s.is_integer and s.bits >= 32:
            return f"cuda.atomic.cas({name}, {place}, {', '.join(pair)})"
        function = "atomic_cas_bfloat16" if s == BFLOAT16 else "atomic_cas"
        return f"{self.prim(function)}({name}, {place}, ({', '.join(pair)}))"

    def give(self, op: Op) -> None:
        """Give the components of an element back."""
        array, parts = Access(op).array, self.components(Access(op).value)
        # The operand has four groups: seen, state, numbers, tangents; the numbers are not needed here.
        name, size = self.exprs[array].text, len(parts) // 4
        function = self.prim("atomic_give_bfloat16" if scalar_of(array.type) == BFLOAT16 else "atomic_give")
        for place, seen, state, new in zip(self.places(op), parts, parts[size:], parts[3 * size :], strict=False):
            self.emit(f"{function}({name}, {place}, ({seen}, {state}, {new}))", op)

    def store(self, op: Op) -> None:
        t = Access(op).array.type
        assert isinstance(t, Array)
        array = self.exprs[Access(op).array].text
        only = op.attrs.get("only")
        for k, (place, value) in enumerate(self.pairs(op, self.components(Access(op).value))):
            if only is None or k in only:
                self.emit(f"{array}[{place}] = {self.kept(t, value)}", op)

    def accumulate(self, op: Op) -> None:
        self.update(op, "+")

    def update(self, op: Op, sign: str) -> None:
        """Change each component of an element in the form that the plan gives."""
        how = self.plan_of_updates.updates[op]
        value = Access(op).value
        negated = self.exprs[value].negated
        parts = self.components(value)
        # Each thread adds to its own variable; the block adds those up after the loop.
        if how is UpdateWay.SUM:
            for name, part in zip(self.sums[op], parts, strict=True):
                self.emit(f"{name} {sign}= {part}", op)
            return
        if op.attrs.get("kind") == "cas":
            self.emit(self.compare_and_swap(op, parts), op)
            return
        if how is UpdateWay.RED:
            for place, part in self.pairs(op, parts):
                self.emit(self.atomic(op, place, part), op)
            return
        # Adding the negative of a value prints as a subtraction.
        if negated is not None and isinstance(value.type, Scalar):
            sign, parts = "-", [negated]
        t = Access(op).array.type
        assert isinstance(t, Array)
        array = self.exprs[Access(op).array].text
        for place, part in self.pairs(op, parts):
            item = f"{array}[{place[1:-1] if place[0] == '(' and place != '()' else place}]"
            # Narrow numbers have no arithmetic of their own: read, add and store in float32.
            if scalar_of(t) in STORAGE_ONLY:
                self.emit(f"{item} = {self.kept(t, f'{self.read(t, item)} {sign} {part}')}", op)
            else:
                self.emit(f"{item} {sign}= {part}", op)

    def stack_new(self, op: Op) -> None:
        t: Stack = op.attrs["type"]
        base = op.result.name or "kept"
        names = []
        for field in t.fields:
            assert not isinstance(field, Tile)
            name = self.names.fresh(base)
            shape = str(t.slots) if isinstance(field, Scalar) else f"({t.slots}, {size_of(field)})"
            self.emit(f"{name} = cuda.local.array({shape}, {self.dtype(field)})", op)
            names.append(name)
        self.stacks[op.result] = names
        self.bind(op.result, names[0] if names else base)

    def buffer_new(self, op: Op) -> None:
        t: Buffer = op.attrs["type"]
        name = self.names.fresh(op.result.name or "own")
        shape = str(t.size) if isinstance(t.dtype, Scalar) else f"({t.size}, {size_of(t.dtype)})"
        self.emit(f"{name} = cuda.local.array({shape}, {self.dtype(t.dtype)})", op)
        self.bind(op.result, name)

    def buffer_set(self, op: Op) -> None:
        buffer, index, value = op.operands
        t = buffer.type
        assert isinstance(t, Buffer)
        places = self.component_places(self.index(index), t.dtype)
        for place, part in zip(places, self.components(value), strict=True):
            self.emit(f"{self.exprs[buffer].text}[{place}] = {self.rounded(t.dtype, part)}", op)

    def buffer_get(self, op: Op) -> Expr:
        buffer, index = op.operands
        t = buffer.type
        assert isinstance(t, Buffer)
        places = self.component_places(self.index(index), t.dtype)
        return self.element(op.result.type, [f"{self.exprs[buffer].text}[{place}]" for place in places], op)

    def rounded(self, t: Element, value: str) -> str:
        """Return a number as an element of 16 bits holds it, in float32."""
        s = scalar_of(t)
        if s == BFLOAT16:
            return f"{self.prim('from_bfloat16')}({self.prim('to_bfloat16')}({value}))"
        return f"{self.prim('float32')}({self.prim('float16')}({value}))" if s in STORAGE_ONLY else value

    def dtype(self, t: Element) -> str:
        s = scalar_of(value_type(t))
        return self.prim("bool_" if s == BOOL else s.name)

    def stack_set(self, op: Op) -> None:
        slot = self.index(StackSlot(op).slot)
        for name, v in zip(self.stacks[StackSlot(op).stack], StackSlot(op).values, strict=True):
            for place, part in zip(self.component_places(slot, v.type), self.components(v), strict=True):
                self.emit(f"{name}[{place}] = {part}", op)


def as_tuple(parts: Sequence[str]) -> str:
    """Return the components of a composite as one value."""
    return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"


def size_of(t: Type) -> int:
    """Return the number of components."""
    return t.size if isinstance(t, (Vec, Mat)) else 1
