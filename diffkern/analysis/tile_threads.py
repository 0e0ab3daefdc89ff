"""Kernels in which the threads of a block hold numbers of their own beside the tiles they share.

In: a function with tiles. Out: how many threads a block has, if ``dk.tile(x)`` takes a number of each or ``dk.untile``
gives each one; and a check that the threads do the same to tiles: whole blocks come to every operation on tiles, with
the same numbers.
"""

from __future__ import annotations

from collections.abc import Sequence

from diffkern.errors import KernelTypeError
from diffkern.ir.clone import defined_in
from diffkern.ir.nodes import Function, Op, Region, Value, walk
from diffkern.ir.types import Tile
from diffkern.ops.row import Effect, Uniformity
from diffkern.ops.table import lookup

__all__ = ["check_threads", "threads_of"]


def threads_of(fn: Function) -> int:
    """The threads of a block that hold numbers of their own; 0 where a block is one thread to the kernel.

    ``Function.threads`` says it, where passes may have left out the ops that do.
    """
    ops = (op for op in walk(fn.body) if op.name in ("tile_fill", "tile_extract"))
    found = max((int(op.attrs.get("threads", 1)) for op in ops), default=1)
    return fn.threads or (found if found > 1 else 0)


def check_threads(fn: Function) -> None:
    """Check that threads are at one where they work on tiles.

    Raises
    ------
    KernelTypeError
        With the line where they are not.
    """
    _region(fn.body, _varying(fn), None)


def _region(region: Region, varying: set[Value], parting: Op | None) -> None:
    for op in region.ops:
        if lookup(op.name).family == "tile":
            _check(op, varying, parting)
        for sub in op.regions:
            _region(sub, varying, parting or (op if _parts(op, varying) else None))


def _check(op: Op, varying: set[Value], parting: Op | None) -> None:
    if parting is not None:
        where = f" in line {parting.loc.line}" if parting.loc is not None else ""
        what = "the condition" if parting.name == "if" else "the loop"
        raise KernelTypeError(
            f"some threads of a block may miss this work on a tile: {what}{where} depends on the thread",
            loc=op.loc,
            remedy="let all threads reach it",
        )
    own = (op.name == "tile_fill" and op.attrs.get("threads")) or op.name in ("tile_extract", "tile_add_at")
    if not own and any(v in varying and not isinstance(v.type, Tile) for v in op.operands):
        raise KernelTypeError(
            f"the threads of a block work on a tile together here, with numbers that differ between them ({op.name})",
            loc=op.loc,
            remedy="make a tile of the numbers with dk.tile(x), or take numbers that do not depend on dk.tid()",
        )


def _parts(op: Op, varying: set[Value]) -> bool:
    """Whether threads may go different ways."""
    if op.name == "if":
        return op.operands[0] in varying
    return any(v in varying for v in (op.operands[:3] if op.name == "for" else op.regions[0].yields))


def _varying(fn: Function) -> set[Value]:
    """Numbers that may differ between the threads of a block: the least set that is closed."""
    varying: set[Value] = set()

    def spread(targets: Sequence[Value], *sources: Value) -> None:
        if any(v in varying for v in sources):
            varying.update(v for v in targets if not isinstance(v.type, Tile))

    def visit(region: Region) -> None:
        for op in region.ops:
            row = lookup(op.name)
            own = row.uniformity is Uniformity.THREAD or row.effect is Effect.ATOMIC
            if own or (op.name in ("tile_extract", "tile_reduce") and ({"threads", "first", "share"} & set(op.attrs))):
                varying.update(op.results)
            elif not op.regions:
                spread(op.results, *op.operands)
            elif op.name == "if":
                for r, a, b in zip(op.results, op.regions[0].yields, op.regions[1].yields, strict=True):
                    spread([r], a, b, op.operands[0])
            else:
                loop(op)
            for sub in op.regions:
                visit(sub)

    def loop(op: Op) -> None:
        body = op.regions[-1]
        deciding = op.operands[:3] if op.name == "for" else op.regions[0].yields
        init = op.operands[3:] if op.name == "for" else op.operands
        params = body.params[1:] if op.name == "for" else body.params
        if op.name == "for":
            spread(body.params[:1], *deciding)
        also = [(p,) for p in op.regions[0].params] if op.name == "while" else [()] * len(params)
        for r, p, i, y, more in zip(op.results, params, init, body.yields, also, strict=True):
            spread([r, p, *more], i, y, r, *deciding)

    before = -1
    while before != len(varying):
        before = len(varying)
        visit(fn.body)
    assert varying <= {*fn.params, *defined_in(fn.body)}
    return varying
