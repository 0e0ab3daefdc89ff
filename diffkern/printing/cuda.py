"""A function of the IR as a numba-cuda kernel: the work of the threads of a grid.

The result is the source of a module that defines one kernel ``name(dim, *parameters)`` and runs as it is, in numba's
CUDA simulator too. It is printed from the IR from which the LLVM code for CUDA is made, and the decisions about shared
memory are those of :func:`diffkern.analysis.cuda_plan.cuda_plan`.

``dim`` holds the four extents of the launch. An array of vectors or matrices has one more axis, of the components in
row-major order; a vector or matrix by value is a tuple. A bfloat16 array is passed as its bits (uint16). Widths are
stated wherever numba would widen: ``int32(i + 1)``, ``float32(0.5)``.

The printed source is also what numba-cuda compiles, so it states facts that a compiler would have to prove: the index
of a thread is ``index(…)``, unsigned and of 32 bits, carried from axis to axis without a division of 64 bits; ``at(…)``
is a subscript that is known not to be negative.
"""

from __future__ import annotations

import math
import string
from collections.abc import Sequence

from diffkern.analysis.blocks import shared_size
from diffkern.analysis.cuda_plan import UpdateWay, dynamic_shared_bytes, summed_type
from diffkern.ir.nodes import Function, Op, Region, walk
from diffkern.ir.ops.block import SHARED_ARRAYS
from diffkern.ir.ops.memory import THREAD_INDICES
from diffkern.ir.ops.table import lookup
from diffkern.ir.types import (
    BFLOAT16,
    BOOL,
    FLOAT64,
    INT32,
    INT64,
    Array,
    Kind,
    Mat,
    Scalar,
    Vec,
    scalar_of,
)
from diffkern.ir.views import Access, For, StackSlot
from diffkern.printing import prims
from diffkern.printing.cuda_memory import UNIT, CudaMemoryWriter, as_tuple, size_of
from diffkern.printing.expression import ATOM, Expr, literal
from diffkern.printing.layout import Names
from diffkern.printing.python import contents_of, function_name, import_lines
from diffkern.printing.tiles import is_same_product, library_products

__all__ = ["LIBRARY", "MAX_THREADS", "CudaWriter", "to_cuda_python"]

LIBRARY = "diffkern.targets.cuda.device_library"
MAX_THREADS = 1024
"""Threads of the largest block: the size of the array in which a block adds up."""

_RESERVED = frozenset(n for n in vars(prims) if not n.startswith("_")) | {
    "cuda",
    "range",
    "block_sum",
    "lane_left",
    "at",
    "carry_2",
    "carry_3",
    "carry_4",
    "dim",
    "trip_count",
    "index",
}

_OF_WARPS = {
    "warp_shuffle": "shfl_sync", "warp_ballot": "ballot_sync", "warp_active": "activemask",
    "warp_barrier": "syncwarp", "warp_fence": "threadfence",
}  # fmt: skip

_BLOCK_SUM = '''\
@cuda.jit(device=True)
def block_sum(partials, value):
    """The sum of a value over the threads of a block."""
    me, n = cuda.threadIdx.x, cuda.blockDim.x
    partials[me] = value
    cuda.syncthreads()
    while n > 1:
        half = (n + 1) // 2
        if me < n - half:
            partials[me] += partials[me + half]
        cuda.syncthreads()
        n = half
    total = partials[0]
    cuda.syncthreads()
    return total
'''

_LANE_LEFT = '''\
@cuda.jit(device=True)
def lane_left(partials, value, distance):
    """The value of the thread that is so far before it in its warp; its own if there is none."""
    me = cuda.threadIdx.x
    partials[me] = value
    cuda.syncthreads()
    found = partials[me - distance] if me % 32 >= distance else value
    cuda.syncthreads()
    return found
'''


def to_cuda_python(fn: Function, *, header: Sequence[str] = ()) -> str:
    """Print a function as a numba-cuda kernel.

    Parameters
    ----------
    fn : Function
        A function in the form in which it is compiled for CUDA.
    header : sequence of str, optional
        Lines of a comment at the top.

    Returns
    -------
    str
        The source, ending in a newline.
    """
    return CudaWriter(fn).module(header)


class CudaWriter(CudaMemoryWriter):
    """Writes one kernel."""

    parameters: tuple[str, ...] = ()
    """The parameters between the extents of the launch and the kernel's own."""

    def __init__(self, fn: Function) -> None:
        super().__init__(fn)
        self.names = Names(_RESERVED | {function_name(fn)})
        self.partials: dict[Scalar, str] = {}
        self.contents: list[str] = []  # arrays that are part of the program
        self.axes: list[str] = []
        self.exchanges = [op for op in walk(fn.body) if op.name == "lane_left"]

    # -- the kernel --------------------------------------------------------------------------------------------------

    def module(self, header: Sequence[str] = ()) -> str:
        """Return the source of the module that defines the kernel."""
        # The body is written first: it determines the primitives to import and the constant arrays.
        body = self.function()
        lines = [f"# {line}".rstrip() for line in header]
        lines += [*(["import numpy as np"] if self.contents else []), "from numba import cuda", "", *self.imports()]
        lines += ["", *self.contents] if self.contents else []
        if self.plan_of_updates.sums:
            lines += ["", "", *_BLOCK_SUM.splitlines()]
        if self.exchanges:
            lines += ["", "", *_LANE_LEFT.splitlines()]
        return "\n".join([*lines, "", "", *body]) + "\n"

    def imports(self) -> list[str]:
        return [import_lines(LIBRARY, sorted(self.primitives))] if self.primitives else []

    def begin_thread(self) -> None:
        """Write the statements at the start of the loop over the threads."""

    def function(self) -> list[str]:
        parameters = ["dim", *self.parameters]
        for p in self.fn.params:
            name = self.names.fresh(p.name or "p")
            self.bind(p, name)
            parameters.append(name)
        head = f"def {function_name(self.fn)}({', '.join(parameters)}):"
        if self.fn.loc is not None:
            self.line = self.fn.loc.line
        for op in self.plan_of_updates.sums:
            self.start_sum(op)
        shared = [op for op in self.fn.body.ops if op.name in SHARED_ARRAYS]
        self.shared_arrays(shared)
        # The exchange of lanes goes through shared memory in this form, allocated before the loop.
        for op in self.exchanges:
            self.per_thread(scalar_of(op.result.type))
        # The names of the index are chosen before the body, which refers to them.
        onward = self.first_index()
        self.depth += 1
        self.begin_thread()
        self.depth -= 1
        self.nested(self.fn.body)
        if shared:
            self.emit("    cuda.syncthreads()  # before the next round writes to the shared arrays")
        self.emit(f"    {onward}")
        self.finish_sums()
        return ["@cuda.jit", head, *self.lines]

    def first_index(self) -> str:
        """Write the head of the loop over the threads of a launch; return the statement that advances to the next.

        There are four extents at most, and the components of an index are carried from axis to axis, so that nothing
        has more than 32 bits. A kernel that does not ask for its index counts its threads in 64.
        """
        # Blocks that work on tiles have one index each.
        first, step = ("cuda.blockIdx.x", "cuda.gridDim.x") if self.fn.tiled else ("cuda.grid(1)", "cuda.gridsize(1)")
        arity = self.fn.tid_arity
        # The variables of the index take the user's names, of the first op for each axis.
        asked = {op.attrs["axis"]: op for op in reversed(list(walk(self.fn.body))) if op.name in THREAD_INDICES}
        names = [self.names.fresh(asked[k].result.name if k in asked else "ijkl"[k]) for k in range(arity)]
        for k, op in asked.items():
            self.bind(op.result, names[k])
            # The loop goes on from them.
            self.plan.last_use[op.result, id(self.fn.body)] = len(self.fn.body.ops) + 1
        self.axes = names or [self.names.fresh("thread")]
        source = next(iter(asked.values()), None)
        left = ", ".join(self.axes)
        if arity == 0:
            total = " * ".join(f"dim[{k}]" for k in range(4))
            self.emit(f"{left} = {first}")
            self.emit(f"while {left} < {total}:")
            return f"{left} += {step}"
        if arity == 1:
            index = self.prim("index")
            self.emit(f"{left} = {index}({first})", source)
            self.emit(f"while {left} < dim[0]:")
            return f"{left} = {index}({left} + {step})"
        carry = self.prim(f"carry_{arity}")
        self.emit(f"{left} = {carry}(dim, {'0, ' * (arity - 1)}{first})", source)
        self.emit(f"while {names[0]} < dim[0]:")
        return f"{left} = {carry}(dim, {left} + {step})"

    @property
    def thread(self) -> str:
        """The number of a thread in the launch."""
        text = self.axes[0]
        for k, name in enumerate(self.axes[1:], 1):
            text = f"{text if k == 1 else f'({text})'} * dim[{k}] + {name}"
        return text

    def output(self, op: Op) -> None:
        """Write a print: numba puts spaces between the parts, and ends the line."""
        values, parts = iter(op.operands), []
        for said, field, _, _ in string.Formatter().parse(op.attrs["text"]):
            if said.strip():
                parts.append(repr(said.strip()))
            if field is not None:
                parts.append(self.typed(next(values)).text)
        self.emit(f"print({', '.join(parts)})", op)

    def shared_arrays(self, ops: Sequence[Op]) -> None:
        """Make the arrays of a block, each on its own or all in the memory that the launch requests."""
        # More than a block's static memory has to be one dynamic array, from which parts are taken.
        asked, offset = dynamic_shared_bytes(self.fn, self.plan_of_updates), 0
        memory = self.names.fresh("memory") if asked else ""
        if asked:
            self.emit(f"{memory} = cuda.shared.array(0, {self.prim('uint8')})  # the launch asks for {asked} bytes")
        for op in ops:
            t, shape = op.attrs["type"], list(op.attrs["shape"])
            if isinstance(t.dtype, (Vec, Mat)):
                shape.append(t.dtype.size)
            name = self.names.fresh(op.result.name or "shared")
            if asked:
                part = f"{self.prim('part_of')}({memory}, {offset}, {as_tuple(list(map(str, shape)))}"
                self.emit(f"{name} = {part}, {self.stored_dtype(t)})", op)
                offset += shared_size(op)
            else:
                extents = f"({', '.join(map(str, shape))})" if len(shape) > 1 else str(shape[0])
                self.emit(f"{name} = cuda.shared.array({extents}, {self.stored_dtype(t)})", op)
            self.bind(op.result, name)

    def stored_dtype(self, t: Array) -> str:
        """Return the scalar type of an array's elements in memory."""
        s = scalar_of(t)
        return self.prim("bool_" if s == BOOL else "uint16" if s == BFLOAT16 else s.name)

    def start_sum(self, op: Op) -> None:
        t = summed_type(op)
        array = self.exprs[Access(op).array].text
        self.sums[op] = [self.names.fresh(f"{array}_sum") for _ in range(size_of(t))]
        for name in self.sums[op]:
            # Each thread sums over all of its indices before the block does.
            self.emit(f"{name} = {self.constant(scalar_of(t), 0).text}")

    def finish_sums(self) -> None:
        """Add up over the block, then add to memory once."""
        for op in self.sums:
            self.per_thread(scalar_of(summed_type(op)))
        for op, sums in self.sums.items():
            # The loop over threads has ended: the address is computed once more.
            t = scalar_of(summed_type(op))
            for needed in self.plan_of_updates.address_ops(op):
                self.exprs[needed.result] = self.expression(needed)
            for place, name in zip(self.places(op), sums, strict=True):
                self.emit(f"{name} = block_sum({self.partials[t]}, {name})")
                # A sum of zero may mean that no thread came there, because the element does not exist.
                self.emit(f"if cuda.threadIdx.x == 0 and {name} != 0:")
                self.emit(f"    {self.atomically('add', Access(op).array, place, name)}")

    def per_thread(self, t: Scalar) -> None:
        """Make a shared array with an element for each thread, unless there is one."""
        if t not in self.partials:
            self.partials[t] = self.names.fresh("partials")
            self.emit(f"{self.partials[t]} = cuda.shared.array({MAX_THREADS}, {self.prim(t.name)})")

    # -- values ------------------------------------------------------------------------------------------------------

    def constant(self, t: Scalar, value: float) -> Expr:
        """Return a literal; only int32, int64 and float64 ones can be bare, which numba does not widen."""
        if t.is_float and not math.isfinite(value):
            self.prim("nan" if math.isnan(value) else "inf")
        e = literal(t, value)
        return e if t in (BOOL, INT32, INT64, FLOAT64) else Expr(f"{self.prim(t.name)}({e.text})")

    def wrapped(self, t: Scalar, e: Expr) -> Expr:
        """Return an integer expression that may be wider than its type, with a cast that makes it wrap around."""
        return Expr(f"{self.prim(t.name)}({e.text})", reads=e.reads, bare=e)

    def expression(self, op: Op) -> Expr:
        match op.name:
            case "const":
                return self.constant(op.attrs["type"], op.attrs["value"])
            case "tid":
                return Expr(self.axes[op.attrs["axis"]], reads=frozenset({self.axes[op.attrs["axis"]]}))
            case "constant_array":
                name = self.names.fresh(f"{op.result.name or 'constant'}_contents")
                elements, shape, dtype = contents_of(op)
                self.contents.append(f"{name} = np.array({elements}, {dtype}).reshape({shape})")
                return Expr(f"cuda.const.array_like({name})")
            case "extent":
                return self.wrapped(INT32, Expr(f"dim[{op.attrs['axis']}]"))
            case "block_dim":
                return self.wrapped(INT32, Expr("cuda.blockDim.x"))
            case "block_thread":
                return Expr(f"{self.prim('index')}(cuda.threadIdx.x)")
            case "block_index":
                number = f"({self.thread})" if len(self.axes) > 1 else self.thread
                return Expr(f"{self.prim('index')}({number} // cuda.blockDim.x)")
            case "shape":
                length = Expr(f"{self.exprs[op.operands[0]].text}.shape[{op.attrs['axis']}]", reads=self.reads(op))
                return self.wrapped(INT32, length)
            case "load":
                t = Access(op).array.type
                assert isinstance(t, Array)
                array = self.exprs[Access(op).array].text
                return self.element(op.result.type, [self.read(t, f"{array}[{p}]") for p in self.places(op)], op)
            case "atomic":
                value = self.components(Access(op).value)
                if op.attrs["kind"] == "cas":
                    return self.element(op.result.type, [self.compare_and_swap(op, value)], op)
                return self.element(op.result.type, [self.atomic(op, *pair) for pair in self.pairs(op, value)], op)
            case "buffer_get":
                return self.buffer_get(op)
            case "aligned":
                return self.constant(BOOL, True)  # elements are accessed one by one here
            case "lane_left":
                partials, distance = self.partials[scalar_of(op.result.type)], op.attrs["distance"]
                mine = self.components(op.operands[0])
                return self.element(op.result.type, [f"lane_left({partials}, {x}, {distance})" for x in mine], op)
            case "warp_thread":
                return Expr(f"{self.prim('index')}(cuda.threadIdx.x)")
            case "warp_shuffle" | "warp_ballot" | "warp_active":
                return Expr(f"{self.prim(scalar_of(op.result.type).name)}({self.of_warp(op)})", reads=self.reads(op))
            case "construct":
                parts = tuple(self.typed(v).text for v in op.operands)
                return Expr(as_tuple(parts), reads=self.reads(op), parts=parts)
            case "extract":
                e, k = self.exprs[op.operands[0]], op.attrs["index"]
                if not e.parts:
                    return Expr(f"{e.text}[{k}]", reads=e.reads)
                return Expr(e.parts[k], ATOM if UNIT.fullmatch(e.parts[k]) else 0, reads=e.reads)
            case "stack_get":
                name = self.stacks[StackSlot(op).stack][op.attrs["field"]]
                slot = self.index(StackSlot(op).slot)
                places = self.component_places(slot, op.result.type)
                return self.element(op.result.type, [f"{name}[{p}]" for p in places], op)
            case _:
                return super().expression(op)

    def of_warp(self, op: Op) -> str:
        """A call of what the lanes of a warp do together."""
        return f"cuda.{_OF_WARPS[op.name]}({', '.join(self.typed(v).text for v in op.operands)})"

    def formula(self, op: Op) -> Expr:
        t = op.result.type
        row = lookup(op.name)
        integer = isinstance(t, Scalar) and t.is_integer and t.bits < 64 and not row.chooses
        if not integer:
            e = super().formula(op)
            return Expr(e.text, e.precedence, e.literal, e.reads, e.update, e.negated)
        assert isinstance(t, Scalar)
        held = {v: self.exprs[v] for v in op.operands}
        # A sum wraps once at the end, so its operands need no casts of their own.
        if row.modular:
            self.exprs.update({v: e.bare or e for v, e in held.items()})
        e = super().formula(op)
        self.exprs.update(held)
        return self.wrapped(t, Expr(e.text, e.precedence, reads=e.reads))

    def cast(self, op: Op) -> Expr:
        (operand,) = op.operands
        to, source = scalar_of(op.attrs["to"]), scalar_of(operand.type)
        if to == BOOL:
            return Expr(f"{self.exprs[operand].within(5)} != 0", 4, reads=self.reads(op))
        # numba's own conversion is undefined for numbers out of range.
        if to.is_integer and source.is_float:
            return self.call(f"saturated_{to.name}", op, [self.typed(operand).text])
        return Expr(f"{self.prim(to.name)}({self.exprs[operand].text})", reads=self.reads(op))

    def op(self, op: Op, region: Region, position: int) -> None:
        match op.name:
            case "store":
                self.store(op)
            case "shared_new":
                pass  # made before the loop
            case "tid" if op.result in self.variable:
                pass  # the loop's
            case "barrier":
                self.emit("cuda.syncthreads()", op)
            case "warp_barrier" | "warp_fence":
                self.emit(self.of_warp(op), op)
            case "buffer_product":
                name = next(name for name, first in library_products(self.fn).items() if is_same_product(first, op))
                arrays = ", ".join(self.exprs[v].text for v in op.operands)
                self.emit(f"{name}({arrays}, {op.attrs['add']})", op)
            case "atomic" if op.attrs["kind"] == "give":
                self.give(op)
            case "atomic" if self.plan_of_updates.updates[op] is not UpdateWay.ATOMIC:
                self.update(op, "-" if op.attrs["kind"] == "sub" else "+")
            case "buffer_new":
                self.buffer_new(op)
            case "buffer_set":
                self.buffer_set(op)
            case "stack_new":
                self.stack_new(op)
            case "stack_set":
                self.stack_set(op)
            case _:
                super().op(op, region, position)

    # -- control flow ------------------------------------------------------------------------------------------------

    def loop_for(self, op: Op, region: Region, position: int) -> None:
        loop = For(op)
        # numba would divide, to know beforehand how many trips there are.
        ahead = bool(op.attrs.get("ahead")) and self.exprs[loop.step].literal is None
        if not ahead and self.numba_counts(loop):
            super().loop_for(op, region, position)
            return
        t = loop.start.type
        assert isinstance(t, Scalar)
        slots = self.loop_slots(op, region, position, loop.init, [loop.body])
        # The bounds are fixed before the loop: what they are computed from may change inside.
        end, step = (self.steady(self.exprs[v] if ahead else self.typed(v), slots) for v in (loop.stop, loop.step))
        mark = self.names.taken()
        index = self.names.fresh(loop.index.name or "k")
        self.emit(f"{index} = {self.prim(t.name)}({self.exprs[loop.start].text})", op)
        self.bind(loop.index, index)
        for p, name in zip(loop.carried, slots, strict=True):
            self.bind(p, name)
        self.plan.last_use[loop.index, id(loop.body)] = len(loop.body.ops) + 1  # the loop goes on from it
        if ahead:
            self.emit(f"while {index} < {end}:", op)
        else:
            self.emit(f"for _ in range({self.prim('trip_count')}({index}, {end}, {step})):", op)
        self.nested(loop.body, slots)
        self.emit(f"    {index} = {self.prim(t.name)}({index} + {step})")
        self.names.release(mark)
        for r, name in zip(op.results, slots, strict=True):
            self.bind(r, name)

    def numba_counts(self, loop: For) -> bool:
        """Return whether numba's range makes the right number of trips: it subtracts in 64 bits, signed."""
        t = loop.start.type
        assert isinstance(t, Scalar)
        if t.bits < 64:
            return True
        start, stop, step = (self.exprs[v].text if self.exprs[v].literal is not None else "" for v in loop.bounds)
        signed = t.kind is Kind.INT
        return (start == "0" and (signed or step == "1")) or (signed and stop.strip("()") == "-1")

    def steady(self, e: Expr, slots: Sequence[str]) -> str:
        """Return a number that a loop reads at each trip, and that does not change."""
        if e.literal is not None or (e.text.isidentifier() and e.text not in slots):
            return e.text
        name = self.names.fresh("end")
        self.emit(f"{name} = {e.text}")
        return name

    def bounds(self, op: Op) -> list[str]:
        lo, hi, step = (self.typed(v) if v.type != INT32 else self.exprs[v] for v in For(op).bounds)
        if step.text in ("1", "int64(1)", "uint32(1)", "uint64(1)"):
            return [lo.text, hi.text]
        if self.exprs[For(op).step].literal is not None:
            return [lo.text, hi.text, step.text]
        # A step of 0 makes no trip.
        return [lo.text, f"{hi.text} if {step.text} != 0 else {lo.text}", f"{step.text} if {step.text} != 0 else 1"]
