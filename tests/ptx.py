"""What a PTX kernel of diffkern's does with its arrays: a small data-flow analysis, written apart from the compiler.

In: the text of a kernel and the types of its parameters. Out: :class:`Access` for each instruction on global memory:
how wide it is, to how many bytes its address is known to be aligned, and which array parameters it comes from.
Alignment is that of a power of two. It starts at the data pointers, whose alignment a launch checks, and at strides,
which are whole scalars; everything else that is loaded may be any number.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from diffkern.contracts import abi
from diffkern.ir.nodes import Function
from diffkern.ir.types import Array, scalar_of
from diffkern.targets.cuda.kernel import alignment

MOST = 4096
_LINE = re.compile(r"^\s*(?:@!?%p\d+\s+)?([a-z][\w.:]*)\s+([^;]*);")
_GLOBAL = re.compile(r"^(ld|st|red|atom)\b.*\.global\b")
_ADDRESS = re.compile(r"\[(%\w+)(?:\s*\+\s*(-?\d+))?\]")
_WIDTH = re.compile(r"(?:\.v(\d))?\.[busf](\d+)(?:x(\d))?$")
_TABLE = re.compile(r"^\s*(?:\.\w+ )*\.(?:global|const) \.align (\d+) \.b\d+ (\w+)\[", re.MULTILINE)
_FOLLOWED = ("mov", "cvt", "cvta", "neg", "add", "sub", "or", "selp", "and", "shl", "mul", "mad")
_PARAM = re.compile(r"\[\w+_param_0(?:\+(\d+))?\]")


@dataclass(frozen=True)
class Access:
    """An instruction on global memory."""

    opcode: str
    width: int
    aligned: int
    arrays: frozenset[int]

    @property
    def writes(self) -> bool:
        return not self.opcode.startswith("ld")


@dataclass(frozen=True)
class _Fact:
    """What is known of a register: its remainder by a power of two, and the arrays it may point into."""

    modulus: int = MOST
    rest: int = 0
    arrays: frozenset[int] = frozenset()

    @property
    def aligned(self) -> int:
        return min(self.modulus, _divisor(self.rest))

    def meet(self, other: _Fact) -> _Fact:
        modulus = math.gcd(self.modulus, other.modulus, self.rest - other.rest)
        return _Fact(modulus, self.rest % modulus, self.arrays | other.arrays)

    def plus(self, other: _Fact, sign: int = 1) -> _Fact:
        modulus = min(self.modulus, other.modulus)
        return _Fact(modulus, (self.rest + sign * other.rest) % modulus, self.arrays | other.arrays)

    def times(self, other: _Fact) -> _Fact:
        (m, r), (n, s) = (self.modulus, self.rest), (other.modulus, other.rest)
        modulus = math.gcd(MOST, m * n, m * s, n * r)
        return _Fact(modulus, r * s % modulus, self.arrays | other.arrays)


_ANY = _Fact(1)
TABLE = -1
"""Stands for a table of constants of the module, where an array's number would stand."""


def _divisor(number: int) -> int:
    return min(MOST, number & -number) if number else MOST


def _fields(fn: Function, tested: frozenset[int]) -> dict[int, _Fact]:
    """Facts about the words of the argument block that are not any number; `tested` arrays are known to be aligned."""
    known = {}
    fields, _ = abi.layout([p.type for p in fn.params])
    for k, (p, field) in enumerate(zip(fn.params, fields, strict=True)):
        if isinstance(p.type, Array):
            known[field.offset] = _Fact(16 if k in tested else alignment(p.type), 0, frozenset({k}))
            for axis in range(p.type.ndim):
                known[field.offset + 8 * (1 + p.type.ndim + axis)] = _Fact(scalar_of(p.type).itemsize)
    return known


class _Flow:
    def __init__(self, text: str, fn: Function, tested: frozenset[int] = frozenset()) -> None:
        # Functions that it calls have registers of the same names; they work on numbers alone.
        kernel = text.partition(".entry")[2].partition("\n}\n")[0]
        self.lines = [m.groups() for m in map(_LINE.match, kernel.splitlines()) if m]
        self.block = _fields(fn, tested)
        self.tables = {m[2]: _Fact(int(m[1]), 0, frozenset({TABLE})) for m in _TABLE.finditer(text)}
        self.facts: dict[str, _Fact] = {}

    def operand(self, text: str) -> _Fact:
        if text.startswith("%"):
            return self.facts.get(text, _Fact())
        if text in self.tables:
            return self.tables[text]
        try:
            return _Fact(MOST, int(text, 0) % MOST)
        except ValueError:
            return _ANY

    def run(self) -> None:
        changed = True
        while changed:
            changed = False
            for opcode, rest in self.lines:
                changed |= self.step(opcode, rest)

    def step(self, opcode: str, rest: str) -> bool:
        """Take one instruction in; whether that changed anything."""
        operands = [part.strip() for part in re.split(r",(?![^{]*})", rest)]
        targets = re.findall(r"%\w+", operands[0]) if not opcode.startswith(("st", "red", "bra", "bar")) else []
        changed = False
        for k, target in enumerate(targets):
            new = self.result(opcode, operands[1:], k)
            before = self.facts.get(target)
            after = new if before is None else before.meet(new)
            changed |= after != before
            self.facts[target] = after
        return changed

    def result(self, opcode: str, given: Sequence[str], k: int) -> _Fact:
        name = opcode.partition(".")[0]
        parameter = _PARAM.search(given[0]) if name == "ld" and ".param" in opcode else None
        if parameter is not None:
            return self.block.get(int(parameter[1] or 0) + 8 * k, _ANY) if "64" in opcode else _ANY
        if name not in _FOLLOWED or any(f".f{bits}" in opcode for bits in (16, 32, 64)) or ".hi" in opcode:
            return _ANY
        facts = [self.operand(g) for g in given]
        match name:
            case "add":
                return facts[0].plus(facts[1])
            case "sub":
                return facts[0].plus(facts[1], -1)
            case "neg":
                return _Fact().plus(facts[0], -1)
            case "selp":
                return facts[0].meet(facts[1])
            case "and" | "or":
                arrays = facts[0].arrays | facts[1].arrays
                choose = max if name == "and" else min
                return _Fact(choose(facts[0].aligned, facts[1].aligned), 0, arrays)
            case "shl":
                return facts[0].times(_Fact(MOST, 1 << int(given[1], 0))) if given[1].isdigit() else _ANY
            case "mul":
                return facts[0].times(facts[1])
            case "mad":
                return facts[0].times(facts[1]).plus(facts[2])
            case _:
                return facts[0]

    def tested(self) -> frozenset[int]:
        """The arrays of which the kernel tests whether they begin at a multiple of 16 bytes."""
        tests = (rest.split(",") for opcode, rest in self.lines if opcode.startswith("and.b"))
        return frozenset().union(*(self.operand(x.strip()).arrays for _, x, mask in tests if mask.strip() == "15"))

    def aligned(self, place: Any) -> int:
        return self.operand(place[1]).plus(_Fact(MOST, int(place[2] or 0) % MOST)).aligned


def accesses(text: str, fn: Function) -> Iterator[Access]:
    """The instructions of a kernel on global memory."""
    flow = _Flow(text, fn)
    flow.run()
    tested = _Flow(text, fn, flow.tested())
    tested.run()
    for opcode, rest in flow.lines:
        if not _GLOBAL.match(opcode):
            continue
        place = _ADDRESS.search(rest)
        width = _WIDTH.search(opcode)
        assert place is not None, (opcode, rest)
        assert width is not None, (opcode, rest)
        base = flow.operand(place[1])
        count, bits, packed = (int(part or 1) for part in width.groups())
        # Whether a wide access stands after the test is seen where the programs are executed.
        aligned = (flow if int(count or 1) == 1 else tested).aligned(place)
        yield Access(opcode, count * bits * packed // 8, aligned, base.arrays)


def problems(text: str, fn: Function) -> list[str]:
    """What is wrong with the accesses of a kernel whose array parameters do not overlap."""
    found = list(accesses(text, fn))
    written = frozenset().union(*(a.arrays for a in found if a.writes))
    out = []
    for access in found:
        names = ["a table" if k == TABLE else fn.params[k].name for k in sorted(access.arrays)]
        what = f"{access.opcode} of {', '.join(names) or 'no array'}"
        if not access.arrays:
            out.append(what)
        if access.aligned < access.width:
            out.append(f"{what}: {access.width} bytes at an address that is a multiple of {access.aligned}")
        if ".nc" in access.opcode and access.arrays & written:
            out.append(f"{what}, which the kernel writes")
        # Where nothing is said it is the device.
        if access.opcode.startswith(("red", "atom")) and re.search(r"\.(cta|cluster|sys)\b", access.opcode):
            out.append(f"{what}: not of the scope of a device")
    return out
