"""A compiled program, and the manifest that describes it to the run time.

A :class:`~diffkern.contracts.manifest.Manifest` is made of the function as it is compiled, and of the compiler's
report.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any, Literal

from diffkern.ad.adjoint import Adjoint
from diffkern.analysis.blocks import is_simt
from diffkern.analysis.boxes import boxes_of
from diffkern.analysis.collisions import may_collide
from diffkern.analysis.control_dependence import steering
from diffkern.analysis.coverage import added_once, overwritten_whole, taken_once
from diffkern.analysis.extents import certain_extents, update_by_all
from diffkern.analysis.ids import ids_behind, ids_of, kinds_of
from diffkern.analysis.sums import distinct_names, used_values
from diffkern.analysis.threads import one_writer_each
from diffkern.analysis.work import thread_cost
from diffkern.contracts import abi
from diffkern.contracts.manifest import (
    Checks,
    Conflict,
    Log,
    Manifest,
    OrderDependence,
    Output,
    ProgramParameter,
    Shared,
    Site,
    StampedParameter,
)
from diffkern.ir.nodes import Function, Op, Value, walk
from diffkern.ir.ops.memory import ACCESSES, ARRAY_EXTENTS, ATOMICS, LOADS, PLACE_WRITES, PLACES, WRITES
from diffkern.ir.structs import Argument, leaves
from diffkern.ir.types import HELD, SHARED, Array
from diffkern.process.dataclass import dataclass

__all__ = ["Program", "adjoint_manifest", "checks", "forward_manifest", "outputs"]


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
        The facts about it.
    files
        Further products by file name: ``kernel.ptx``; ``kernel.s`` with the option ``assembly``.
    """

    object_code: bytes
    symbols: tuple[str, ...]
    source: str
    manifest: Manifest
    files: Mapping[str, bytes] = field(default_factory=dict)


def forward_manifest(
    fn: Function,
    types: Sequence[Argument],
    forward: Function,
    is_debug: bool,
    log: Log | None = None,
    turn: OrderDependence | None = None,
    *,
    of_tangents: bool = False,
) -> Manifest:
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
        Whether the program looks at each access itself; a launch is not checked for them before it runs then. Nor is
        one with a log, which was checked as one without.
    log
        The layout of a log of its atomic updates.
    turn
        The first atomic update whose result the kernel uses.
    of_tangents
        Whether it is a kernel in forward mode.
    """
    # Facts about memory are taken from `forward`, in which values by reference are not arrays yet.
    common = update_by_all(forward)
    arguments, whole, read = _arguments(types), overwritten_whole(fn), _shapes_read(fn)
    own, outside, boxes = len(arguments), len(types), boxes_of(forward)
    # Handles and nested arrays are followed at launch, so the run time has to know which objects they may lead to.
    by_id = any(op.name in PLACES or _is_pointing(op) for op in walk(fn.body))
    changes = any(op.name in PLACE_WRITES for op in walk(forward.body))
    return Manifest(
        tid_arity=fn.tid_arity,
        cost=float(thread_cost(fn)),
        params=tuple(
            ProgramParameter(
                p.name,
                str(p.type),
                "param",
                k,
                arguments[k],
                fully_overwritten=whole.get(k),
                shape_read=p in read,
                read=boxes.read.get(k),
                written=boxes.written.get(k),
                stores=boxes.stores.get(k),
            )
            # What follows the kernel's own parameters is the log.
            if k < own
            else ProgramParameter(p.name, str(p.type), "log", k, outside)
            for k, p in enumerate(fn.params)
        ),
        **_accessed(fn, own),
        # A debug program finds out itself which access is out of bounds, and says where.
        accesses=() if is_debug or own < len(fn.params) else certain_extents(forward),
        alone=None if common is None else common.operands[0].name,
        distinct=distinct_names(forward, of_tangents=of_tangents),
        blockwise=is_simt(fn),
        log=log,
        turn=turn,
        by_id=by_id,
        ids=ids_of(forward) if by_id else None,
        kinds=kinds_of(forward) if by_id else (),
        changes=changes,
        changed=ids_behind(forward, PLACE_WRITES) if changes else None,
        # Of a program with a log it was known before.
        scatters=own == len(fn.params) and may_collide(forward),
    )


def adjoint_manifest(
    fn: Function,
    types: Sequence[Argument],
    primal: Function,
    adjoint: Adjoint,
    conflicts: Sequence[Conflict],
    log: Log | None,
) -> Manifest:
    """The facts of an adjoint program; there is a conflict for each cotangent, and `adjoint` has values as such."""
    arguments, own, steers = _arguments(types), len(primal.params), steering(primal)
    # The order of parameters is the ABI of adjoint programs: primal, log, saved values, cotangents.
    logged = range(own, len(fn.params) - len(adjoint.saved) - len(adjoint.cotangents))
    # The log is passed behind the last argument.
    arguments += [len(types)] * len(logged)
    whole = overwritten_whole(fn)
    # These proofs are about one thread for each index; threads of a block that cooperate break that.
    once, taken = ({}, {}) if is_simt(fn) else (added_once(fn), taken_once(fn))
    roles: list[tuple[Literal["param", "log", "saved", "cotangent"], int, Conflict | None]] = [
        *(("param", k, None) for k in range(own)),
        *(("log", k, None) for k in logged),
        *(("saved", k, None) for k in adjoint.saved),
        *(("cotangent", k, conflict) for k, conflict in zip(adjoint.cotangents, conflicts, strict=True)),
    ]
    read = boxes_of(adjoint.fn, {k: of for k, (_, of, _) in enumerate(roles)}).read
    return Manifest(
        tid_arity=fn.tid_arity,
        cost=float(thread_cost(fn)),
        params=tuple(
            ProgramParameter(
                p.name,
                str(p.type),
                role,
                of,
                arguments[of],
                # An adjoint writes to cotangents only, so nothing else can be overwritten.
                fully_overwritten=whole.get(k) if role == "cotangent" else None,
                once=once.get(k) if role == "cotangent" else None,
                taken=taken.get(k) if role == "cotangent" else None,
                conflict=conflict,
                read=read.get(k) if role in ("param", "saved") else None,
            )
            for k, (p, (role, of, conflict)) in enumerate(zip(fn.params, roles, strict=True))
        ),
        # Versions of arrays are compared by what the launch itself read and wrote, so this is about the primal.
        **_accessed(primal, own),
        post=tuple(k for k in adjoint.final if k < own and isinstance(fn.params[k].type, Array)),
        steering=tuple(k for k, p in enumerate(primal.params) if p in steers),
        races=adjoint.races,
        unproved=adjoint.unproved,
        trusted=adjoint.trusted,
        stores=adjoint.stores,
        blockwise=is_simt(fn),
        log=log,
    )


def checks(fn: Function, kernel: str, sites: Iterable[Op], stamped: Iterable[Value]) -> Checks:
    """Return the source positions of checks, and the arrays in which the writing threads are noted."""
    position = {p: k for k, p in enumerate(fn.params)}
    fields, _ = abi.layout([p.type for p in fn.params])
    proved = one_writer_each(fn)
    return Checks(
        kernel,
        tuple(
            Site(
                op.loc,
                _position(op, fn.params) if op.operands else None,
                _shared_array(op),
                op.attrs["text"] if op.name == "assertion" else None,
                bool(op.attrs.get("number")),
            )
            for op in sites
        ),
        tuple(
            StampedParameter(position[p], fields[position[p]].offset - abi.HEADER_SIZE, p in proved) for p in stamped
        ),
    )


def outputs(printed: Iterable[Op]) -> tuple[Output, ...]:
    """Return the text and the types of each op that prints."""
    return tuple(Output(op.attrs["text"], tuple(str(v.type) for v in op.operands)) for op in printed)


def _is_pointing(op: Op) -> bool:
    """Return whether an op accesses an array that is an element of an array."""
    t = op.operands[0].type if op.operands else None
    return isinstance(t, Array) and t.outer > 0 and op.name in ACCESSES


def _position(op: Op, params: Sequence[Value]) -> int | None:
    """Of an access to a parameter, or to the descriptors that it holds, which one it is."""
    array = op.operands[0]
    return next((k for k, p in enumerate(params) if p is array or _holds(p, array)), None)


def _holds(p: Value, array: Value) -> bool:
    return isinstance(p.type, Array) and p.type.outer > 0 and (p.name, p.type.held) == (array.name, array.type)


def _shared_array(op: Op) -> Shared | None:
    """Of an access to an array that is no parameter: its name and number of axes."""
    # Shared memory of a block, or memory of a thread that is kept in an array: neither is a parameter.
    t = op.operands[0].type if op.operands else None
    if not isinstance(t, Array) or t.layout not in (SHARED, HELD):
        return None
    return Shared(op.operands[0].name, t.ndim, t.layout == HELD)


def _accessed(fn: Function, own: int) -> dict[str, Any]:
    """Return the positions of the parameters, among the first `own`, that are read, written, and only updated."""
    position = {p: k for k, p in enumerate(fn.params[:own])}
    used = used_values(fn)
    reads, writes, known = set(), set(), set()
    for op in walk(fn.body):
        if op.operands[:1] and op.operands[0] not in position:
            continue  # memory of a block, or a log
        if op.name in LOADS | ATOMICS:
            reads.add(position[op.operands[0]])
            # An atomic update whose result is unused only adds to the array; what it held does not influence anything
            # else.
            if op.name in LOADS or not used.isdisjoint(op.results):
                known.add(position[op.operands[0]])
        if op.name in WRITES:
            writes.add(position[op.operands[0]])
    return {"reads": tuple(sorted(reads)), "writes": tuple(sorted(writes)), "updated": tuple(sorted(reads - known))}


def _arguments(types: Sequence[Argument]) -> list[int]:
    """For each IR parameter of a kernel the argument it is, or is a field of."""
    return [k for k, t in enumerate(types) for _ in leaves(t)]


def _shapes_read(fn: Function) -> set[Value]:
    """The values whose shape is read."""
    return {op.operands[0] for op in walk(fn.body) if op.name in ARRAY_EXTENTS}
