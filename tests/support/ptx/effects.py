"""The rows of the table that read or change more than their operands: memory, other lanes, the place in the code.

Each function takes the opcode, the instruction and the program it stands in, and returns what executes it for the lanes
of a path.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from . import memory
from .faults import PtxFault
from .memory import WINDOWS
from .opcode import Effect, Opcode
from .operands import Reader, address, reader, writer
from .parse import Address, Instruction, Operand, Pair, Several, Symbol
from .races import Access
from .types import BITS, LANES, Lanes, Type, decoded, encoded, type_named

if TYPE_CHECKING:
    from .image import Program
    from .warp import Frame, Path

__all__ = ["ROWS", "mask_of"]

Execute = Callable[["Frame", "Path"], None]

_U32, _U64, _PRED = type_named("u32"), type_named("u64"), type_named("pred")


def _each(operand: Operand) -> tuple[Operand, ...]:
    return operand.parts if isinstance(operand, Several) else (operand,)


def _bits(size: int) -> Type:
    return type_named(f"b{8 * size}")


# -- moves -------------------------------------------------------------------------------------------------------------


def _move(op: Opcode, i: Instruction, program: Program) -> Execute:
    """Copy a value, take it apart, or put it together."""
    into, source = i.operands
    if isinstance(source, Several):
        return _packed(op, into, source.parts, program)
    read = reader(source, op.type, program)
    if isinstance(into, Several):
        part = _bits(op.type.size // len(into.parts))
        writes = [writer(one, part) for one in into.parts]

        def unpack(frame: Frame, path: Path) -> None:
            parts = np.ascontiguousarray(read(frame)).view(part.dtype).reshape(LANES, len(writes))
            for k, write in enumerate(writes):
                write(frame, path, np.ascontiguousarray(parts[:, k]))

        return unpack
    write = writer(into, op.type)
    return lambda frame, path: write(frame, path, read(frame))


def _packed(op: Opcode, into: Operand, parts: tuple[Operand, ...], program: Program) -> Execute:
    part = _bits(op.type.size // len(parts))
    reads, write = [reader(one, part, program) for one in parts], writer(into, _bits(op.type.size))

    def pack(frame: Frame, path: Path) -> None:
        together = np.stack([read(frame) for read in reads], axis=1)
        write(frame, path, together.view(BITS[op.type.size])[:, 0])

    return pack


def _convert_address(op: Opcode, i: Instruction, program: Program) -> Execute:
    """Between the addresses of a space and generic ones."""
    read, write = reader(i.operands[1], op.type, program), writer(i.operands[0], op.type)
    offset = np.uint64(WINDOWS.get(op.space, 0))
    if "to" in op.parts:
        return lambda frame, path: write(frame, path, read(frame) - offset)
    return lambda frame, path: write(frame, path, read(frame) + offset)


def _in_space(op: Opcode, i: Instruction, program: Program) -> Execute:
    read, write = reader(i.operands[1], _U64, program), writer(i.operands[0], _PRED)

    def test(frame: Frame, path: Path) -> None:
        upper = read(frame) >> np.uint64(40)
        inside = {name: upper == start >> 40 for name, start in WINDOWS.items()}
        elsewhere = ~(inside["shared"] | inside["local"])
        write(frame, path, inside.get(op.space, elsewhere))

    return test


# -- memory ------------------------------------------------------------------------------------------------------------


def _parameter(operand: Operand) -> tuple[str, int]:
    assert isinstance(operand, Address), operand
    assert isinstance(operand.base, Symbol), operand
    return operand.base.name, operand.offset


def _access(op: Opcode, i: Instruction, program: Program, does: str) -> Access:
    """What a memory access is for those who look for races."""
    orders = {"volatile", "relaxed", "acquire", "release", "acq_rel", "sc"} & set(op.parts)
    return Access(
        program.image.site(i, program.function.name),
        does,
        strong=bool(orders) or does == "updates",
        acquires=bool(orders & {"acquire", "acq_rel", "sc"}),
        releases=bool(orders & {"release", "acq_rel", "sc"}),
        constant="nc" in op.parts or op.name == "ldu",
        around=does == "updates" and ("cas" in op.parts or op.type.packed),
    )


def _load(op: Opcode, i: Instruction, program: Program) -> Execute:
    size, count = op.type.size, op.count
    writes = [writer(one, op.type) for one in _each(i.operands[0])]
    if len(writes) != count:
        raise PtxFault(f"{count} elements for {len(writes)} registers")
    read = _read_parameter(i.operands[1], size, count, program) if op.space == "param" else None
    if read is None:
        where, access = address(i.operands[1], program), _access(op, i, program, "reads")

        def read(frame: Frame, path: Path) -> list[Lanes]:
            return memory.load(frame.memory, op.space, where(frame), path.lanes, size, count, access)

    def execute(frame: Frame, path: Path) -> None:
        for write, values in zip(writes, read(frame, path), strict=True):
            write(frame, path, decoded(op.type, values))

    return execute


def _read_parameter(operand: Operand, size: int, count: int, program: Program) -> Callable[[Frame, Path], list[Lanes]]:
    place = _place_of_parameter(operand, program)

    def read(frame: Frame, path: Path) -> list[Lanes]:
        name, offset = place(frame, path)
        data = frame.parameters[name][:, offset : offset + size * count]
        if data.shape[1] != size * count:
            raise PtxFault(f"an access beyond the end of the parameter {name}")
        elements = np.ascontiguousarray(data).view(BITS[size])
        return [np.ascontiguousarray(elements[:, k]) for k in range(count)]

    return read


def _place_of_parameter(operand: Operand, program: Program) -> Callable[[Frame, Path], tuple[str, int]]:
    """Return what gives the parameter that is read, and the offset in it: by its name, or by an address."""
    if isinstance(operand, Address) and isinstance(operand.base, Symbol):
        named = _parameter(operand)
        return lambda frame, path: named
    where = address(operand, program)

    def find(frame: Frame, path: Path) -> tuple[str, int]:
        (at,) = {int(one) for one in where(frame)[path.lanes]}
        return program.parameter_at(at)

    return find


def _store(op: Opcode, i: Instruction, program: Program) -> Execute:
    reads = [reader(one, op.type, program) for one in _each(i.operands[1])]
    if len(reads) != op.count:
        raise PtxFault(f"{op.count} elements of {len(reads)} registers")
    if op.space == "param":
        return _write_parameter(op, i.operands[0], reads)
    where, access = address(i.operands[0], program), _access(op, i, program, "writes")

    def execute(frame: Frame, path: Path) -> None:
        values = [encoded(op.type, read(frame)) for read in reads]
        memory.store(frame.memory, op.space, where(frame), path.lanes, values, access)

    return execute


def _write_parameter(op: Opcode, operand: Operand, reads: list[Reader]) -> Execute:
    (name, offset), size = _parameter(operand), op.type.size

    def execute(frame: Frame, path: Path) -> None:
        data = frame.parameter(name)
        for k, read in enumerate(reads):
            at = offset + k * size
            data[path.lanes, at : at + size] = (
                encoded(op.type, read(frame)).view(np.uint8).reshape(LANES, size)[path.lanes]
            )

    return execute


_ATOMIC = "add|min|max|and|or|xor|exch|cas|inc|dec"


def _atomic(op: Opcode, i: Instruction, program: Program) -> Execute:
    """``red`` changes memory, ``atom`` also gives what was there."""
    if op.count > 1:
        return _vector_sum(op, i, program)
    old = writer(i.operands[0], op.type) if op.name == "atom" else None
    place, *given = i.operands[1:] if op.name == "atom" else i.operands
    where, reads = address(place, program), [reader(one, op.type, program) for one in given]
    change, access = _change(op), _access(op, i, program, "updates")

    def execute(frame: Frame, path: Path) -> None:
        values = [read(frame) for read in reads]

        def changed(found: Lanes, lanes: Any) -> Lanes:
            return encoded(op.type, change(decoded(op.type, found), *(v[lanes] for v in values)))

        found = memory.update(frame.memory, op.space, where(frame), path.lanes, op.type.size, changed, access)
        if old is not None:
            old(frame, path, decoded(op.type, found))

    return execute


def _vector_sum(op: Opcode, i: Instruction, program: Program) -> Execute:
    """Each element of a vector is changed by itself; the address is that of the whole."""
    place, given = i.operands
    where, reads = address(place, program), [reader(one, op.type, program) for one in _each(given)]
    if len(reads) != op.count:
        raise PtxFault(f"{op.count} elements of {len(reads)} registers")
    change, size, access = _change(op), op.type.size, _access(op, i, program, "updates")

    def execute(frame: Frame, path: Path) -> None:
        first = where(frame)
        for _ in frame.memory.parts(op.space, first, path.lanes, size * op.count):
            pass  # bounds and alignment of the whole
        for k, read in enumerate(reads):
            value = read(frame)

            def changed(found: Lanes, lanes: Any, value: Lanes = value) -> Lanes:
                return encoded(op.type, change(decoded(op.type, found), value[lanes]))

            memory.update(frame.memory, op.space, first + np.uint64(k * size), path.lanes, size, changed, access)

    return execute


def _change(op: Opcode) -> Callable[..., Lanes]:
    """What an atomic operation makes of what is in memory."""
    kind = next(part for part in _ATOMIC.split("|") if part in op.parts)
    if kind == "exch":
        return lambda found, new: new
    if kind == "cas":
        return lambda found, expected, new: np.where(found == expected, new, found)
    if kind == "inc":
        return lambda found, limit: np.where(found >= limit, found.dtype.type(0), found + found.dtype.type(1))
    if kind == "dec":
        return lambda found, limit: np.where((found == 0) | (found > limit), limit, found - found.dtype.type(1))
    from .table import row_of

    # A sum of float32 in global memory has no subnormal numbers.
    flush = (".ftz",) if (kind, op.type.name, op.space) == ("add", "f32", "global") else ()
    opcode = ".".join((kind, *(f.strip(".") for f in flush), op.type.name))
    row, spelled = row_of(opcode), Opcode(tuple(opcode.split(".")))
    return lambda found, value: row.compute(spelled, found, value)


# -- other lanes -------------------------------------------------------------------------------------------------------


def mask_of(lanes: Any) -> int:
    """The bits of some lanes."""
    return sum(1 << int(k) for k in lanes)


def _shuffle(op: Opcode, i: Instruction, program: Program) -> Execute:
    """Read another lane's register. A lane that does not take part gives garbage."""
    into, value, way, bound, _ = i.operands
    first, second = (into.first, into.second) if isinstance(into, Pair) else (into, Symbol("_"))
    write, write_there = writer(first, _U32), writer(second, _PRED)
    reads = [reader(one, _U32, program) for one in (value, way, bound)]
    mode, lane = op.written[2], np.arange(LANES)

    def execute(frame: Frame, path: Path) -> None:
        given, b, c = (read(frame) for read in reads)
        b, limit, segment = (b & 31).astype(np.int64), (c & 31).astype(np.int64), (c >> 8 & 31).astype(np.int64)
        least, most = lane & segment, lane & segment | limit & ~segment
        if mode == "up":
            source = lane - b
            there = source >= most
        else:
            source = {"down": lane + b, "bfly": lane ^ b, "idx": least | b & ~segment}[mode]
            there = source <= most
        source = np.where(there, source, lane) & 31
        garbage = there & ~path.mask[source]
        write(frame, path, np.where(garbage, np.uint32(0x7FC0DEAD), given[source]))
        write_there(frame, path, there)

    return execute


def _vote(op: Opcode, i: Instruction, program: Program) -> Execute:
    read = reader(i.operands[1], _PRED, program)
    ballot = "ballot" in op.parts
    write = writer(i.operands[0], type_named("b32") if ballot else _PRED)

    def execute(frame: Frame, path: Path) -> None:
        votes = read(frame)[path.lanes]
        if ballot:
            write(frame, path, np.full(LANES, mask_of(path.lanes[votes]), np.uint32))
            return
        result = {"all": votes.all(), "any": votes.any(), "uni": votes.all() or not votes.any()}[op.written[2]]
        write(frame, path, np.full(LANES, result))

    return execute


def _active(op: Opcode, i: Instruction, program: Program) -> Execute:
    write = writer(i.operands[0], _U32)
    return lambda frame, path: write(frame, path, np.full(LANES, mask_of(path.lanes), np.uint32))


def _barrier(op: Opcode, i: Instruction, program: Program) -> Execute:
    """Wait for the threads of the block, or for as many as the second operand says."""
    reads = [reader(one, _U32, program) for one in i.operands]

    def execute(frame: Frame, path: Path) -> None:
        number, *count = (int(read(frame)[path.lanes[0]]) for read in reads)
        frame.warp.wait(number, count[0] if count else None, i.text)

    return execute


def _meeting(op: Opcode, i: Instruction, program: Program) -> Execute:
    """Wait for other lanes: what the lanes of a mask have done is before what each of them does."""
    read = reader(i.operands[-1], _U32, program)

    def execute(frame: Frame, path: Path) -> None:
        watch = frame.memory.watch
        if watch is not None:
            masks = read(frame)[path.lanes]
            for mask in np.unique(masks):
                watch.meet(path.lanes[masks == mask])

    return execute


def _fence(op: Opcode, i: Instruction, program: Program) -> Execute:
    """Order memory: here each access is seen by all at once, so that only those who look for races know of it."""

    def execute(frame: Frame, path: Path) -> None:
        if frame.memory.watch is not None:
            frame.memory.watch.fence(path.lanes)

    return execute


def _nothing(op: Opcode, i: Instruction, program: Program) -> Execute:
    """What says how, not what."""
    return lambda frame, path: None


# -- the place in the code ---------------------------------------------------------------------------------------------


def _branch(op: Opcode, i: Instruction, program: Program) -> Execute:
    (label,) = i.operands
    assert isinstance(label, Symbol), i.text
    target = program.function.labels[label.name]
    return lambda frame, path: frame.go(path, target)


def _branch_by_table(op: Opcode, i: Instruction, program: Program) -> Execute:
    read = reader(i.operands[0], _U32, program)
    targets = [program.function.labels[name] for name in i.targets]

    def execute(frame: Frame, path: Path) -> None:
        chosen = read(frame)
        if chosen[path.lanes].max() >= len(targets):
            raise PtxFault("a branch beyond the end of its table")
        for k in np.unique(chosen[path.lanes]):
            frame.go(path.of(chosen == k), targets[int(k)])

    return execute


def _call(op: Opcode, i: Instruction, program: Program) -> Execute:
    operands = list(i.operands)
    results = [_name(one) for one in _each(operands.pop(0))] if isinstance(operands[0], Several) else []
    name = _name(operands[0])
    given = [_name(one) for one in _each(operands[1])] if len(operands) > 1 else []
    return lambda frame, path: frame.warp.call(frame, path, name, given, results)


def _name(operand: Operand) -> str:
    assert isinstance(operand, Symbol), operand
    return operand.name


def _return(op: Opcode, i: Instruction, program: Program) -> Execute:
    return lambda frame, path: frame.end(path)


def _exit(op: Opcode, i: Instruction, program: Program) -> Execute:
    if not program.function.is_entry:
        raise PtxFault("exit in a function")
    return _return(op, i, program)


def _trap(op: Opcode, i: Instruction, program: Program) -> Execute:
    def execute(frame: Frame, path: Path) -> None:
        raise PtxFault("trap")

    return execute


_KEPT = "{.L1__(evict_first|evict_last|evict_normal|evict_unchanged|no_allocate)}"
_CACHE = "{.(ca|cg|cs|cv|lu|wb|wt)}"
_WHERE = "{.(global|shared|shared__cta|local|const|param)}"

ROWS = [
    Effect("mov.(pred|<any>)", _move),
    Effect("cvta{.to}.(global|shared|local|const).u64", _convert_address),
    Effect("isspacep.(global|shared|local)", _in_space),
    Effect(f"ld{{.<order>}}{{.<scope>}}{_WHERE}{_CACHE}{{.nc}}{_KEPT}{{.(v2|v4|v8)}}.<memory>", _load),
    Effect("ldu.global{.(v2|v4)}.<memory>", _load),
    Effect(f"st{{.<order>}}{{.<scope>}}{_WHERE}{_CACHE}{_KEPT}{{.(v2|v4|v8)}}.<memory>", _store),
    Effect(f"(red|atom){{.<order>}}{{.<scope>}}{{.(global|shared|shared__cta)}}.({_ATOMIC}){{.noftz}}"
           ".(<memory>|<pair>)", _atomic),
    Effect("red{.<order>}{.<scope>}.global.add.(v2|v4).f32", _atomic),
    Effect("shfl.sync.(up|down|bfly|idx).b32", _shuffle, meets="mask"),
    Effect("vote.sync.((all|any|uni).pred|ballot.b32)", _vote, meets="mask"),
    Effect("activemask.b32", _active),
    Effect("bar.warp.sync", _meeting, meets="mask"),
    Effect("(bar.sync|barrier{.cta}.sync{.aligned})", _barrier, meets="warp"),
    Effect("(membar.(cta|gl|sys)|fence{.(acq_rel|sc|acquire|release)}.<scope>)", _fence),
    Effect("(griddepcontrol.(wait|launch_dependents)|nanosleep.u32|prefetch{.(global|local)}.(L1|L2))", _nothing),
    Effect("bra{.uni}", _branch),
    Effect("brx.idx{.uni}", _branch_by_table),
    Effect("call{.uni}", _call),
    Effect("ret{.uni}", _return),
    Effect("exit", _exit),
    Effect("trap", _trap),
]  # fmt: skip
