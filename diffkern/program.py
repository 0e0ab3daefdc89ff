"""A compiled program, and the manifest that tells the run time what it must know of it.

In: a function as it is compiled, and what the compiler reports. Out: :class:`~diffkern.manifest.Manifest` s.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from diffkern import abi
from diffkern.ad.adjoint import Adjoint
from diffkern.analysis.blocks import is_simt
from diffkern.analysis.cost import thread_cost
from diffkern.analysis.coverage import overwritten_whole
from diffkern.analysis.extents import certain_extents, update_by_all
from diffkern.analysis.writers import one_writer_each
from diffkern.ir.nodes import Function, Op, Value, walk
from diffkern.ir.structs import Argument, leaves
from diffkern.ir.types import SHARED, Array
from diffkern.manifest import Checks, Conflict, Manifest, Parameter, Shared, Site, Stamp
from diffkern.ops.memory import ATOMICS, LOADS, WRITES

__all__ = ["Program", "adjoint_manifest", "checks", "forward_manifest"]


@dataclass(frozen=True)
class Program:
    """Compiled code and what the run time must know to call it.

    Attributes
    ----------
    object_code
        A relocatable object that exports ``symbols``, or a cubin.
    symbols
        The kernel's symbol and, where there are uniform sums, ``<symbol>_finish``.
    source
        The readable Python form of the same IR.
    manifest
        Its facts.
    files
        What else came of it, by file name: ``kernel.ptx``; ``kernel.s`` with the option ``assembly``.
    """

    object_code: bytes
    symbols: tuple[str, ...]
    source: str
    manifest: Manifest
    files: Mapping[str, bytes] = field(default_factory=dict)


def forward_manifest(fn: Function, types: Sequence[Argument], forward: Function, is_debug: bool) -> Manifest:
    """The facts of a forward program.

    Parameters
    ----------
    fn
        The program's function.
    types
        Types of the kernel's arguments.
    forward
        The function before values became references.
    is_debug
        Whether the program looks at each access itself; a launch is not checked for them before it runs then.
    """
    common = update_by_all(forward)
    arguments, whole, read = _arguments(types), overwritten_whole(fn), _shapes_read(fn)
    return Manifest(
        tid_arity=fn.tid_arity,
        cost=float(thread_cost(fn)),
        params=tuple(
            Parameter(p.name, str(p.type), "param", k, arguments[k], whole=whole.get(k), shape_read=p in read)
            for k, p in enumerate(fn.params)
        ),
        **_accessed(fn),
        accesses=() if is_debug else certain_extents(forward),
        alone=None if common is None else common.operands[0].name,
        blockwise=is_simt(fn),
    )


def adjoint_manifest(
    fn: Function, types: Sequence[Argument], primal: Function, adjoint: Adjoint, conflicts: Sequence[Conflict]
) -> Manifest:
    """The facts of an adjoint program; there is a conflict for each cotangent."""
    arguments = _arguments(types)
    roles: list[tuple[Literal["param", "saved", "cotangent"], int, Conflict | None]] = [
        *(("param", k, None) for k in range(len(primal.params))),
        *(("saved", k, None) for k in adjoint.saved),
        *(("cotangent", k, conflict) for k, conflict in zip(adjoint.cotangents, conflicts, strict=True)),
    ]
    return Manifest(
        tid_arity=fn.tid_arity,
        cost=float(thread_cost(fn)),
        params=tuple(
            Parameter(p.name, str(p.type), role, of, arguments[of], conflict=conflict)
            for p, (role, of, conflict) in zip(fn.params, roles, strict=True)
        ),
        **_accessed(primal),
        post=tuple(k for k in adjoint.final if isinstance(fn.params[k].type, Array)),
        blockwise=is_simt(fn),
    )


def checks(fn: Function, kernel: str, sites: Iterable[Op], stamped: Iterable[Value]) -> Checks:
    """Where each check stands in the source, and the arrays in which the writing threads are noted."""
    position = {p: k for k, p in enumerate(fn.params)}
    fields, _ = abi.layout([p.type for p in fn.params])
    proved = one_writer_each(fn)
    return Checks(
        kernel,
        tuple(Site(op.loc, position.get(op.operands[0]) if op.operands else None, _shared_array(op)) for op in sites),
        tuple(Stamp(position[p], fields[position[p]].offset - abi.HEADER_SIZE, p in proved) for p in stamped),
    )


def _shared_array(op: Op) -> Shared | None:
    """Of an access to an array that a block shares: its name and number of axes."""
    t = op.operands[0].type if op.operands else None
    return Shared(op.operands[0].name, t.ndim) if isinstance(t, Array) and t.layout == SHARED else None


def _accessed(fn: Function) -> dict[str, Any]:
    position = {p: k for k, p in enumerate(fn.params)}
    reads, writes = set(), set()
    for op in walk(fn.body):
        if op.operands[:1] and op.operands[0] not in position:
            continue  # memory of a block
        if op.name in LOADS | ATOMICS:
            reads.add(position[op.operands[0]])
        if op.name in WRITES:
            writes.add(position[op.operands[0]])
    return {"reads": tuple(sorted(reads)), "writes": tuple(sorted(writes))}


def _arguments(types: Sequence[Argument]) -> list[int]:
    """For each IR parameter of a kernel the argument it is, or is a field of."""
    return [k for k, t in enumerate(types) for _ in leaves(t)]


def _shapes_read(fn: Function) -> set[Value]:
    """The values whose shape is read."""
    return {op.operands[0] for op in walk(fn.body) if op.name == "shape"}
