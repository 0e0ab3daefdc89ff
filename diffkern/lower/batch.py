"""An axis of examples: one launch of the batched kernel does the work of as many launches of the kernel.

:func:`with_examples` changes a kernel in place, given the parameters that differ from example to example, so that the
first axis of threads counts examples. An array that differs gets one more axis, in front; a value that differs becomes
an array of one axis, from which a thread reads its own. Threads of different examples share only memory that is never
written, which the leading index makes visible to every later pass. Everything else (thread indices, extents, blocks) is
as in a launch of one example.

A kernel that asks for all four axes has examples side by side along its first axis, and finds its own by division. In a
kernel whose threads cooperate the example is computed from the block, so that it is the same value for all of them.
"""

from __future__ import annotations

from collections.abc import Sequence

from diffkern.analysis.blocks import blockwise_op
from diffkern.contracts.options import VmapLayer
from diffkern.errors import KernelTypeError
from diffkern.ir.builder import Builder
from diffkern.ir.nodes import Function, Op, Region, Value, walk
from diffkern.ir.ops.memory import ACCESSES, ARRAY_EXTENTS, LAUNCH_INDICES, LOADS, PLACE_WRITES, THREAD_INDICES
from diffkern.ir.structs import Argument
from diffkern.ir.types import Array, Tile

__all__ = ["with_examples"]

MAX_AXES = 4


def with_examples(fn: Function, batch: VmapLayer, types: Sequence[Argument]) -> Function:
    """Add the axis, in place; `types` are those of the arguments with it.

    Raises
    ------
    KernelTypeError
        If there is no such form of the kernel.
    """
    return _Batched(fn, batch, types).function()


class _Batched:
    def __init__(self, fn: Function, batch: VmapLayer, types: Sequence[Argument]) -> None:
        self.fn, self.batch, self.types = fn, batch, types
        self.b = Builder(loc=fn.loc)
        self.b.threads = fn.threads
        self.folded = fn.tid_arity == MAX_AXES
        self.blockwise = blockwise_op(fn) is not None or fn.threads > 0
        self.arrays: set[Value] = set()

    def function(self) -> Function:
        fn, b = self.fn, self.b
        read: dict[Value, Value] = {}
        for k in self.batch.arguments:
            p, t = fn.params[k], self.types[k]
            assert isinstance(t, Array)
            if k in self.batch.values:
                read[p] = Value(t, p.name)
            else:
                p.type = t
                self.arrays.add(p)
        fn.params = tuple(read.get(p, p) for p in fn.params)
        # Any batched argument knows the number of examples: it is the extent of its leading axis.
        self.count = next(fn.params[k] for k in self.batch.arguments)
        self.axes = fn.tid_arity if self.folded else max(fn.tid_arity, 0 if self.batch.single else 1)
        # How many of the first axis belong to an example, where examples lie side by side along it.
        self.first = b.one("floordiv", *self._first()) if self.folded else None
        self.example = self._example()
        # The loaded value is the same in the whole block, which uniformity analysis cannot tell from the index alone.
        attrs = {"wrap": (False,), "common": True} if self.blockwise else {"wrap": (False,)}
        for p, held in read.items():
            b.region.ops.append(Op("load", (held, self.example), (p,), attrs, (), fn.loc))
        head = b.region.ops
        self.region(fn.body)
        fn.body.ops[:0] = head
        fn.tid_arity = self.axes + (not self.folded)
        return fn

    # -- which example -------------------------------------------------------------------------------------------------

    def _first(self) -> tuple[Value, Value]:
        """Return the extent of the first axis, and the number of examples."""
        return self.b.one("extent", axis=0), self.b.one("shape", self.count, axis=0)

    def _example(self) -> Value:
        b = self.b
        if self.first is not None:
            return b.one("floordiv", b.one("tid", axis=0), self.first)
        if self.blockwise:
            return b.one("floordiv", b.one("block_index"), self._blocks())
        return b.one("tid", axis=0)

    def _blocks(self) -> Value:
        """Return the number of blocks of an example."""
        b, threads = self.b, self.b.i32(1)
        for axis in range(self.axes):
            threads = b.mul(threads, b.one("extent", axis=axis + 1))
        return b.one("floordiv", threads, b.one("block_dim"))

    # -- what a thread does --------------------------------------------------------------------------------------------

    def region(self, region: Region) -> None:
        ops, outer = region.ops, self.b.region
        region.ops = []
        self.b.region = region
        for op in ops:
            for sub in op.regions:
                self.region(sub)
            with self.b.at(op.loc):
                self.op(op)
        self.b.region = outer

    def op(self, op: Op) -> None:
        """Emit an op in its form with examples."""
        b = self.b
        if op.name in LAUNCH_INDICES:
            self._of_thread(op)
        elif op.name == "block_index":
            b.region.ops.append(Op("mod", (b.one("block_index"), self._blocks()), op.results, {}, (), op.loc))
        elif op.name in ACCESSES and op.operands[0] in self.arrays:
            self._access(op)
        else:
            if op.name in ARRAY_EXTENTS and op.operands[0] in self.arrays:
                # The kernel counts the axes of an array of one example.
                op.attrs = {**op.attrs, "axis": op.attrs["axis"] + 1}
            # All examples would store to one object.
            elif any(v in self.arrays for v in op.operands) or self._hides_accesses(op) or op.name in PLACE_WRITES:
                raise self._refused(op)
            b.region.ops.append(op)

    def _of_thread(self, op: Op) -> None:
        b, axis = self.b, op.attrs["axis"]
        if self.first is None:
            op.attrs = {"axis": axis + 1}
        elif axis == 0 and op.name in THREAD_INDICES:
            op = Op("mod", (b.one("tid", axis=0), self.first), op.results, {}, (), op.loc)
        elif axis == 0:
            op = Op("floordiv", self._first(), op.results, {}, (), op.loc)
        b.region.ops.append(op)

    def _access(self, op: Op) -> None:
        b, array, rest = self.b, op.operands[0], op.operands[1:]
        # "alone" asks for launches of one thread, which a batch of several examples is not.
        attrs = {name: value for name, value in op.attrs.items() if name != "alone" or not self.batch.single}
        if not op.name.startswith("tile_"):
            # The example's index never counts from the end.
            op.attrs = {**attrs, "wrap": (False, *attrs["wrap"])}
            op.operands = (array, self.example, *rest)
            b.region.ops.append(op)
            return
        if "along" in attrs:
            attrs["along"] += 1
        tile = op.results[0].type if op.results else rest[-1].type
        assert isinstance(tile, Tile)
        # The accessed tile gets a leading axis of extent one, and is reshaped to and from the kernel's own shape.
        whole = (1, *tile.shape)
        if op.name in LOADS:
            found = b.one("tile_load", array, self.example, *rest, **{**attrs, "shape": whole})
        else:
            given = b.one("tile_reshape", rest[-1], shape=whole)
            made = b.op(op.name, array, self.example, *rest[:-1], given, **attrs)
            if not op.results:
                return
            (found,) = made
        b.region.ops.append(Op("tile_reshape", (found,), op.results, {"shape": tile.shape}, (), op.loc))

    def _hides_accesses(self, op: Op) -> bool:
        """Return whether an op has accesses in a body that is an attribute, where no index can be added."""
        body = op.attrs.get("body")
        return isinstance(body, Region) and any(
            inner.name == "block_index" or inner.name in LAUNCH_INDICES or any(v in self.arrays for v in inner.operands)
            for inner in walk(body)
        )

    def _refused(self, op: Op) -> KernelTypeError:
        return KernelTypeError(
            f"{op.name} has no form with an axis of examples",
            loc=op.loc,
            remedy="launch the kernel once for each example",
        )
