"""Stages: what may occur in a function at each point of the pipeline. The verifier checks functions against this table.

Each row starts from the stage before it and names what is added and what is gone: operations by family or name, kinds
of types, marks that passes leave on operations, modes of accumulations, and facts about the whole function. A pass
(:mod:`diffkern.ir.passes`) names the stage that it takes and the one that it leaves.

::

    WRITTEN → PRIMAL → NORMAL → ADJOINT ┐          ┌ LOOPS → SERIAL → CPU
                   └────────────────────┴→ PROGRAM ┤
                                                   └ BLOCKS → CUDA
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from diffkern.ir.ops import block
from diffkern.ir.ops.buffer import NEW_BUFFERS, PLACES
from diffkern.ir.ops.composite import PARTS
from diffkern.ir.ops.output import REPORTS
from diffkern.ir.ops.row import Diff, Effect, Uniformity
from diffkern.ir.ops.table import all_ops
from diffkern.ir.types import Array, Buffer, Mat, Scalar, Stack, Tile, Type, Vec
from diffkern.process.dataclass import dataclass

__all__ = [
    "ADJOINT",
    "BLOCKS",
    "CPU",
    "CUDA",
    "EXPANDED",
    "LOOPS",
    "NORMAL",
    "PRIMAL",
    "PROGRAM",
    "SERIAL",
    "STAGED_FACTS",
    "STAGED_MARKS",
    "STAGES",
    "WRITTEN",
    "Stage",
]


@dataclass(frozen=True)
class Stage:
    """The set of what may occur in a function.

    Attributes
    ----------
    name
        The name of the stage in messages and in ``diffkern inspect``.
    holds
        What is true of every function in it, in one sentence.
    ops
        Names of operations.
    types
        Kinds of types that values and the fields of loop stacks have.
    marks
        Those of :data:`STAGED_MARKS` that operations may have as attributes.
    modes
        How accumulations may be made.
    facts
        Those of :data:`STAGED_FACTS` that the function may have.
    """

    name: str
    holds: str
    ops: frozenset[str]
    types: frozenset[type[Type]]
    marks: frozenset[str] = frozenset()
    modes: frozenset[str] = frozenset()
    facts: frozenset[str] = frozenset()

    def within(self, other: Stage) -> bool:
        """Return whether every function of this stage is also one of the other."""
        return (
            self.ops <= other.ops
            and self.types <= other.types
            and self.marks <= other.marks
            and self.modes <= other.modes
            and self.facts <= other.facts
        )

    def then(
        self,
        name: str,
        holds: str,
        *,
        ops: Collection[str] = (),
        gone: Collection[str] = (),
        types: Collection[type[Type]] = (),
        without: Collection[type[Type]] = (),
        marks: Collection[str] = (),
        modes: Collection[str] = (),
        facts: Collection[str] = (),
        done: Collection[str] = (),
    ) -> Stage:
        """Return the stage after this one: without operations `gone`, types `without` and facts `done`, with the others
        added.
        """
        return replace(
            self,
            name=name,
            holds=holds,
            # Removed before added: an operation may leave with its family and come back by name.
            ops=(self.ops - set(gone)) | set(ops),
            types=(self.types - set(without)) | set(types),
            marks=self.marks | set(marks),
            modes=self.modes | set(modes),
            facts=(self.facts - set(done)) | set(facts),
        )


def _family(name: str) -> frozenset[str]:
    return frozenset(row.name for row in all_ops().values() if row.family == name)


STAGED_MARKS = frozenset({"guarded", "replay", "ahead", "reassoc", "rolled", "as_written"})
"""Attributes by which one pass tells a later one something, and which no earlier stage has."""

STAGED_FACTS = frozenset({"updates", "threads", "unfused", "tiled", "blocks", "dynamic_shared"})
"""Fields of a function by which passes tell later ones something."""

_TILES, _COMPOSITES, _STACKS, _RULES, _WARPS = map(_family, ("tile", "composite", "stack", "rule", "warp"))
_INTERNAL = frozenset(row.name for row in all_ops().values() if row.diff is Diff.INTERNAL)
_WORK_OF_BLOCKS = frozenset(
    row.name
    for row in block.ROWS
    if row.effect is Effect.BARRIER or row.uniformity is Uniformity.THREAD or row.diff is Diff.INTERNAL
)
"""Operations of threads of a block that run as such."""
EXPANDED = frozenset(row.name for row in all_ops().values() if row.elementary and row.library is None)
"""Functions that no library has."""
_LOOP_STACKS = _STACKS | {"next_checkpoint"}
_OF_THREADS = NEW_BUFFERS | PLACES

WRITTEN = Stage(
    "written",
    "what the kernel says, typed; `a[i] += v` is a load, an operation and a store, noted beside the function; loop "
    "stacks are of derivatives that it calls",
    # Loop stacks occur before differentiation only because a kernel may call derivatives, which are already lowered to
    # sweeps.
    ops=frozenset(all_ops()) - _INTERNAL | _LOOP_STACKS,
    types=frozenset({Scalar, Vec, Mat, Array, Tile, Stack}),
    facts=frozenset({"updates"}),
)
PRIMAL = WRITTEN.then(
    "primal",
    "updates of elements that threads share are atomic, all others plain; barriers are reached by whole blocks; a "
    "factor of a tangent that may not be finite is marked",
    marks=("guarded",),
    facts=("threads", "unfused"),
    done=("updates",),
)
NORMAL = PRIMAL.then(
    "normal",
    "what differentiation takes: short loops are unrolled, equal indices are one value, memory is carried in values "
    "where that is possible, operations with a singular derivative stand in the branch that uses them, or are marked",
    marks=("guarded",),
)
ADJOINT = NORMAL.then(
    "adjoint",
    "the primal's replay and the reverse sweep, with loop stacks; every accumulation is plain",
    ops={"accumulate", "deposit", "tile_accumulate", "tile_scatter", "withdraw"},
    # The adjoint has been generated: funcs with rules are replaced by their derivatives, and reports belong to the
    # launch of the primal.
    gone=_RULES | REPORTS,
    marks=("replay",),
    modes=("plain",),
)
PROGRAM = ADJOINT.then(
    "program",
    "what is printed and what a target takes, forward or adjoint: how each accumulation is made is decided",
    # Reports are allowed again because PROGRAM also takes the primal, which has them.
    ops=REPORTS,
    modes=("atomic", "reduce"),
)
LOOPS = PROGRAM.then(
    "loops",
    "tiles are buffers of one thread, their operations loops",
    # The product of two tiles on one thread is loops; only blocks of threads multiply buffers in one operation.
    ops=_family("buffer") - {"buffer_product"},
    gone=_TILES,
    types=(Buffer,),
    without=(Tile,),
    marks=("reassoc", "rolled"),
    facts=("tiled",),
)
SERIAL = LOOPS.then(
    "serial",
    "a thread is a whole block where its threads worked together: no barrier is left",
    gone=_WORK_OF_BLOCKS | _WARPS,
    facts=("blocks",),
)
CPU = SERIAL.then(
    "cpu",
    "arithmetic is of scalars; vectors and matrices are only composed and decomposed; arithmetic that makes integers "
    "is marked",
    ops=("array_at",),
    # Composites survive as values in memory and at calls: only `construct` and `extract` remain of their operations.
    gone=_COMPOSITES - PARTS | EXPANDED,
    marks=("as_written",),
)
BLOCKS = PROGRAM.then(
    "blocks",
    "tiles are shared arrays, their operations the work of a block's threads, with barriers",
    ops=("buffer_product", "lane_left", "aligned", *_OF_THREADS),
    gone=_TILES,
    types=(Buffer,),
    without=(Tile,),
    marks=("reassoc", "ahead", "rolled"),
    facts=("tiled", "dynamic_shared"),
)
CUDA = BLOCKS.then(
    "cuda",
    "arithmetic is of scalars, and no operation is dead; vectors and matrices are only composed and decomposed; "
    "arithmetic that makes integers is marked",
    ops=("array_at",),
    gone=_COMPOSITES - PARTS | EXPANDED,
    marks=("as_written",),
)

STAGES = (WRITTEN, PRIMAL, NORMAL, ADJOINT, PROGRAM, LOOPS, SERIAL, CPU, BLOCKS, CUDA)
"""All stages, those that every program goes through first."""
