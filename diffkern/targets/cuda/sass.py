"""Machine code of NVIDIA GPUs (SASS), parsed for counting.

The text of the disassembler becomes a :class:`MachineCode` for each function: its instructions, their numbers by
mnemonic and by class, and its loops. Nothing here runs a tool; :mod:`diffkern.targets.cuda.disassembler` does.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from diffkern.process.dataclass import dataclass
from diffkern.process.forks import cached_property

__all__ = ["CLASSES", "Instruction", "Loop", "MachineCode", "join", "parse", "parse_raw"]

_SECTION = re.compile(r"^\s*\.section\s+\.text\.([^,\s]+)", re.MULTILINE)
_LABEL = re.compile(r"([.$\w]+):")
_INSTRUCTION = re.compile(r"\s*\{?\s*/\*([0-9a-f]{4,})\*/\s+(?:(@!?U?P[T0-9]+)\s+)?([A-Z][\w.]*)\s*(.*?)\s*;")
_TARGET = re.compile(r"`\(([.$\w]+)\)|\b(0x[0-9a-f]+)$")

CLASSES: Mapping[str, re.Pattern[str]] = {
    name: re.compile(pattern)
    for name, pattern in {
        "load": r"(LDG|LD)(\.|$)",
        "load128": r"(LDG|LD)\..*\b(128|ENL2\.256)\b",
        "load64": r"(LDG|LD)\..*\b64\b",
        "load_constant": r"LDG\..*\bCONSTANT\b",
        "store": r"(STG|ST)(\.|$)",
        "store128": r"(STG|ST)\..*\b(128|ENL2\.256)\b",
        "atomic": r"(RED|REDG|ATOM|ATOMG|UTMAREDG|UBLKRED)(\.|$)",
        "red": r"(RED|REDG|UTMAREDG|UBLKRED)(\.|$)",
        "atom": r"(ATOM|ATOMG)(\.|$)",
        "shared": r"(LDS|STS|ATOMS|LDSM|STSM)(\.|$)",
        "shared_atomic": r"ATOMS(\.|$)",
        "special": r"MUFU(\.|$)",
        "float64": r"D(ADD|MUL|FMA|SETP|MMA|MNMX)(\.|$)|MUFU\..*64H|(F2F|F2I|I2F|FRND)\..*\bF64\b",
        "local": r"(LDL|STL)(\.|$)",
        "tensor": r"(HMMA|IMMA|BMMA|DMMA|QMMA|OMMA|[HIQB]GMMA|UTC\w*MMA)(\.|$)",
        "shuffle": r"(SHFL|REDUX|CREDUX)(\.|$)",
        "barrier": r"(BAR|MEMBAR|SYNCS)(\.|$)",
        "branch": r"(BRA|BRX|JMP|JMX)(\.|$)",
        "call": r"CALL(\.|$)",
    }.items()
}
"""Classes of instructions by name; an instruction may belong to several, as a 128-bit load is a load too.

Of the atomic operations on global memory, ``red`` gives nothing back and ``atom`` the value before, for which the
thread waits.
"""


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction.

    Attributes
    ----------
    address : int
        Its offset in the function, in bytes.
    opcode : str
        The operation, with all modifiers: ``LDG.E.128``.
    operands : str
        The operands.
    guard : str
        The predicate under which it is executed, such as ``@!P0``; empty if always.
    target : int or None
        The target of a branch.
    """

    address: int
    opcode: str
    operands: str
    guard: str = ""
    target: int | None = None


@dataclass(frozen=True, slots=True)
class Loop:
    """Instructions from a branch's target to a branch back to it.

    Attributes
    ----------
    start, end : int
        Offsets of the first and of the last instruction.
    size : int
        The number of these instructions.
    innermost : bool
        Whether no other loop is inside.
    """

    start: int
    end: int
    size: int
    innermost: bool


@dataclass(frozen=True)
class MachineCode:
    """A function's machine code.

    Attributes
    ----------
    name : str
        The function.
    instructions : tuple of Instruction
        Without the padding at the end.
    """

    name: str
    instructions: tuple[Instruction, ...]

    @cached_property
    def mnemonics(self) -> dict[str, int]:
        """The number of instructions of each opcode with its modifiers, the most frequent first."""
        return dict(Counter(i.opcode for i in self.instructions).most_common())

    def count(self, class_name: str) -> int:
        """Return how many instructions belong to a class of :data:`CLASSES`."""
        return len(self.of_class(class_name))

    def of_class(self, class_name: str) -> list[Instruction]:
        """Return the instructions of a class of :data:`CLASSES`."""
        pattern = CLASSES[class_name]
        return [i for i in self.instructions if pattern.match(i.opcode)]

    @cached_property
    def loops(self) -> tuple[Loop, ...]:
        """The loops, by their start; branches back to one place are one loop."""
        ends: dict[int, int] = {}
        for i in self.instructions:
            # A branch backwards closes a loop; of several to one place the last one is its end.
            if i.target is not None and i.target <= i.address:
                ends[i.target] = max(ends.get(i.target, 0), i.address)
        spans = sorted(ends.items())
        return tuple(
            Loop(
                start,
                end,
                sum(start <= i.address <= end for i in self.instructions),
                not any((s, e) != (start, end) and start <= s and e <= end for s, e in spans),
            )
            for start, end in spans
        )

    def within(self, loop: Loop) -> MachineCode:
        """Return the instructions of a loop as code of its own."""
        return MachineCode(self.name, tuple(i for i in self.instructions if loop.start <= i.address <= loop.end))


def join(kernel: str, functions: Mapping[str, MachineCode]) -> MachineCode:
    """Return the code of a kernel with that of all other functions laid behind it: what its threads may execute."""
    instructions: list[Instruction] = []
    base = 0
    for name in sorted(functions, key=lambda name: name != kernel):
        for i in functions[name].instructions:
            target = None if i.target is None else i.target + base
            instructions.append(replace(i, address=i.address + base, target=target))
        # Instructions have 16 bytes; the next function follows directly.
        base = instructions[-1].address + 16 if instructions else 0
    return MachineCode(kernel, tuple(instructions))


def parse(text: str) -> dict[str, MachineCode]:
    """Return the code of each function in the disassembly of a cubin, by name."""
    found: dict[str, MachineCode] = {}
    pieces = _SECTION.split(text)
    # Before the first section stands what is no code; then name and text take turns.
    for name, body in zip(pieces[1::2], pieces[2::2], strict=True):
        found[name] = MachineCode(name, _without_padding(_instructions(body)))
    return found


def parse_raw(text: str, functions: Sequence[tuple[str, int]]) -> list[MachineCode]:
    """Return the code of functions that were laid end to end and disassembled as raw bytes.

    Parameters
    ----------
    text : str
        The disassembly.
    functions : sequence of (str, int)
        Name and size in bytes of each, in their order.
    """
    instructions = _instructions(text)
    # Addresses run on through all functions, so each is cut out by its size and renumbered from zero.
    found, base, at = [], 0, 0
    for name, size in functions:
        own = []
        while at < len(instructions) and instructions[at].address < base + size:
            i = instructions[at]
            target = None if i.target is None else i.target - base
            own.append(replace(i, address=i.address - base, target=target))
            at += 1
        found.append(MachineCode(name, _without_padding(own)))
        base += size
    return found


def _instructions(text: str) -> list[Instruction]:
    found: list[Instruction] = []
    labels: dict[str, int] = {}
    waiting: list[str] = []
    for line in text.splitlines():
        label = _LABEL.match(line)
        if label:
            waiting.append(label[1])
            continue
        match = _INSTRUCTION.match(line)
        if match:
            address = int(match[1], 16)
            # A label stands before the instruction whose address it names.
            labels.update((one, address) for one in waiting)
            waiting = []
            found.append(Instruction(address, match[3], match[4], match[2] or ""))
    return [replace(i, target=_target(i, labels)) if CLASSES["branch"].match(i.opcode) else i for i in found]


def _target(branch: Instruction, labels: Mapping[str, int]) -> int | None:
    match = _TARGET.search(branch.operands)
    if match is None:
        return None  # computed
    return labels.get(match[1]) if match[1] else int(match[2], 16)


def _without_padding(instructions: Iterable[Instruction]) -> tuple[Instruction, ...]:
    """Leave out the padding at the end of a function: empty instructions, and a branch to itself."""
    return tuple(i for i in instructions if i.opcode != "NOP" and i.target != i.address)
