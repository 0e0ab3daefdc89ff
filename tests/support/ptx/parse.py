"""PTX's text to functions of instructions with resolved operands.

In: a module as a compiler writes it. Out: a :class:`Module`. Scopes are resolved: each declared register has a slot of
its own, so that the temporaries of inline assembly, which share their names, do not share their contents.
"""

from __future__ import annotations

import bisect
import re
from collections import ChainMap
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from .faults import PtxFault
from .types import Type, type_named

__all__ = [
    "Address",
    "Function",
    "Instruction",
    "Module",
    "Number",
    "Operand",
    "Pair",
    "Parameter",
    "Register",
    "Several",
    "Symbol",
    "Variable",
    "parse",
]

# -- operands ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Register:
    """A register, by its slot in the frame; ``negated`` is ``!%p``."""

    slot: int
    type: Type
    negated: bool = False


@dataclass(frozen=True)
class Number:
    """A literal: an integer, or the bits of a float with their size."""

    value: int
    float_size: int = 0


@dataclass(frozen=True)
class Symbol:
    """A variable, a function, a label, a special register, or ``_``."""

    name: str


@dataclass(frozen=True)
class Address:
    """``[base + offset]``."""

    base: Register | Symbol | Number
    offset: int


@dataclass(frozen=True)
class Several:
    """``{a, b}`` or ``(a, b)``."""

    parts: tuple[Operand, ...]


@dataclass(frozen=True)
class Pair:
    """``a|p``: a result and a predicate."""

    first: Operand
    second: Operand


Operand = Register | Number | Symbol | Address | Several | Pair

# -- modules -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Instruction:
    """An instruction: ``@guard opcode operands``.

    Attributes
    ----------
    line
        Where it stands in the module, from 1.
    source
        The file and the line it was made of, empty where the module does not say.
    """

    opcode: str
    operands: tuple[Operand, ...]
    guard: Register | None
    text: str
    targets: tuple[str, ...] = ()
    line: int = 0
    source: str = ""


@dataclass(frozen=True)
class Variable:
    """A variable outside registers; without a size the launch says how large it is."""

    name: str
    space: str
    size: int | None
    align: int
    content: bytes = b""


@dataclass(frozen=True)
class Parameter:
    """A parameter or a result of a function."""

    name: str
    size: int
    align: int


@dataclass
class Function:
    """A kernel or a function.

    Attributes
    ----------
    registers
        The type of the register in each slot.
    labels
        The number of the instruction behind each label.
    variables
        Its local variables; shared ones are the module's.
    limits
        Its directives: the most threads of a block, …
    """

    name: str
    is_entry: bool
    parameters: list[Parameter]
    results: list[Parameter]
    code: list[Instruction] = field(default_factory=list)
    registers: list[Type] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)
    variables: list[Variable] = field(default_factory=list)
    sizes: dict[str, int] = field(default_factory=dict)
    limits: dict[str, int] = field(default_factory=dict)


@dataclass
class Module:
    """What a text of PTX defines."""

    functions: dict[str, Function] = field(default_factory=dict)
    variables: list[Variable] = field(default_factory=list)


_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_PRAGMA = re.compile(r"\.pragma\s+\"[^\"]*\"\s*;")
_HEADING = re.compile(r"^\s*\.(?:version|target|address_size|file|loc)\b[^\n]*$", re.MULTILINE)
_FILE = re.compile(r'^\s*\.file\s+(\d+)\s+"([^"]*)"', re.MULTILINE)
_LOC = re.compile(r"\s*\.loc\s+(\d+)\s+(\d+)")
_TOKEN = re.compile(r"[{};]|[^{};]+")
_LABEL = re.compile(r"\s*([\w$.]+)\s*:(?!:)")
_LINKING = r"(?:\.(?:visible|extern|weak|common)\s+)*"
_FUNCTION = re.compile(rf"{_LINKING}\.(entry|func)\s*(\([^)]*\))?\s*([\w$.]+)\s*(\([^)]*\))?", re.DOTALL)
_LIMIT = re.compile(r"\.(maxntid|reqntid|minnctapersm|maxnreg)\s+(\d+)")
_DECLARED = re.compile(
    r"\.param\s+(?:\.align\s+(\d+)\s+)?\.(\w+)\s+"
    r"(?:\.ptr\s+(?:\.(?:global|shared|local|const)\s+)?(?:\.align\s+\d+\s+)?)?([\w$.]+)(?:\[(\d+)\])?"
)
_VARIABLE = re.compile(
    rf"{_LINKING}\.(shared|const|global|local)\s+(?:\.align\s+(\d+)\s+)?\.(\w+)\s+([\w$.]+)((?:\[\d*\])*)"
    r"\s*(?:=\s*(.*))?$",
    re.DOTALL,
)
_REGISTERS = re.compile(r"([%\w$]+)<(\d+)>")
_GUARD = re.compile(r"@(!?)([%\w$]+)\s+(.*)$", re.DOTALL)
_OPCODE = re.compile(r"([a-z][\w.:]*)\s*(.*)$", re.DOTALL)


def parse(text: str) -> Module:
    """Read a module.

    Raises
    ------
    PtxFault
        If there is something in it that the interpreter does not know.
    """
    lines = _Lines(text)
    for left_out in (_COMMENT, _PRAGMA, _HEADING):
        text = left_out.sub(lambda found: "\n" * found[0].count("\n"), text.rstrip("\0"))
    module = Module()
    reader: _Body | None = None
    for kind, part, line in _statements(text):
        if kind == "open" and part:
            reader = _Body(module, _heading(part), lines)
        elif reader is None:
            _declare(module, part)
        elif kind == "open":
            reader.open()
        elif kind == "close":
            reader = reader.close()
        else:
            reader.statement(part, line)
    return module


class _Lines:
    """Where ``.loc`` says that instructions come from."""

    def __init__(self, text: str) -> None:
        files = dict(_FILE.findall(text)) if ".loc" in text else {}
        self._begins: list[int] = []
        self._places: list[str] = []
        for number, line in enumerate(text.split("\n"), 1) if files else ():
            if found := _LOC.match(line):
                self._begins.append(number)
                self._places.append(f"{files.get(found[1], found[1])}:{found[2]}")

    def source(self, line: int) -> str:
        """The file and the line of the last ``.loc`` before a line of the module."""
        k = bisect.bisect_right(self._begins, line) - 1
        return self._places[k] if k >= 0 else ""


def _statements(text: str) -> Iterator[tuple[str, str, int]]:
    """Yield the kind, the text and the line of each statement, and of the braces of scopes (``open``, ``close``)."""
    current, depth = "", 0
    line = begin = 1
    for token in _TOKEN.findall(text):
        if not current.strip():
            begin = line + token[: len(token) - len(token.lstrip())].count("\n")
        line += token.count("\n")
        if token == "{":
            head = current.strip()
            if depth == 0 and (not head or _LABEL.fullmatch(head) or _FUNCTION.match(head)):
                if _LABEL.fullmatch(head):
                    yield "statement", head, begin
                    head = ""
                yield "open", head, begin
                current = ""
                continue
            depth += 1
        elif token == "}":
            if depth == 0:
                yield "close", "", line
                current = ""
                continue
            depth -= 1
        elif token == ";" and depth == 0:
            if current.strip():
                yield "statement", current.strip(), begin
            current = ""
            continue
        current += token


def _heading(text: str) -> Function:
    found = _FUNCTION.match(text)
    assert found is not None, text
    kind, results, name, parameters = found.groups()
    fn = Function(name, kind == "entry", _parameters(parameters), _parameters(results))
    fn.registers.append(type_named("pred"))  # the carry flag
    fn.sizes = {p.name: p.size for p in (*fn.parameters, *fn.results)}
    fn.limits = {name: int(value) for name, value in _LIMIT.findall(text[found.end() :])}
    return fn


def _parameters(text: str | None) -> list[Parameter]:
    return [_parameter(*groups) for groups in _DECLARED.findall(text or "")]


def _parameter(align: str, type_name: str, name: str, count: str) -> Parameter:
    size = type_named(type_name).size
    return Parameter(name, size * int(count or 1), int(align or size))


def _declare(module: Module, text: str) -> None:
    """Take a declaration outside functions."""
    if _FUNCTION.match(text):
        return  # a function that is defined elsewhere, or further down
    variable = _variable(text)
    if variable is None:
        raise PtxFault(f"an unknown declaration: {text}")
    module.variables.append(variable)


def _variable(text: str) -> Variable | None:
    found = _VARIABLE.match(text)
    if found is None:
        return None
    space, align, type_name, name, extents, content = found.groups()
    size = type_named(type_name).size
    counts = re.findall(r"\[(\d*)\]", extents)
    total: int | None = size
    for count in counts:
        total = total * int(count) if count and total is not None else None
    return Variable(name, space, total, int(align or size), _content(content, size, total or 0))


def _content(text: str | None, size: int, total: int) -> bytes:
    if text is None:
        return b""
    values = [_number(part).value for part in re.findall(r"[\w.+-]+", text)]
    written = b"".join((value & ((1 << 8 * size) - 1)).to_bytes(size, "little") for value in values)
    return written.ljust(total, b"\0")


def _number(text: str) -> Number:
    if text[:2] in ("0f", "0F"):
        return Number(int(text[2:], 16), 4)
    if text[:2] in ("0d", "0D"):
        return Number(int(text[2:], 16), 8)
    digits = text.rstrip("U")
    return Number(int(digits, 8) if re.fullmatch(r"-?0\d+", digits) else int(digits, 0))


class _Body:
    """Reads the statements of a function."""

    def __init__(self, module: Module, fn: Function, lines: _Lines) -> None:
        self.module, self.fn, self.lines = module, fn, lines
        self.scopes: ChainMap[str, int] = ChainMap()
        self.tables: dict[str, tuple[str, ...]] = {}
        self.label = ""

    def open(self) -> None:
        self.scopes = self.scopes.new_child()

    def close(self) -> _Body | None:
        """Leave a scope; None at the end of the function."""
        if len(self.scopes.maps) > 1:
            self.scopes = self.scopes.parents
            return self
        self.module.functions[self.fn.name] = self.fn
        self.fn.code = [self._with_targets(i) for i in self.fn.code]
        return None

    def _with_targets(self, i: Instruction) -> Instruction:
        """Give an indirect branch its table, which stands behind it or before."""
        if not i.opcode.startswith("brx"):
            return i
        table = i.operands[1]
        assert isinstance(table, Symbol)
        return replace(i, targets=self.tables[table.name])

    def statement(self, text: str, line: int) -> None:
        while found := _LABEL.match(text):
            self.label = found[1]
            self.fn.labels[self.label] = len(self.fn.code)
            rest = text[found.end() :].strip()
            line += text[: len(text) - len(rest)].count("\n")
            text = rest
        if text.startswith("."):
            self._directive(text)
        elif text:
            self.fn.code.append(self._instruction(text, line))

    def _directive(self, text: str) -> None:
        kind, _, rest = text.partition(" " if " " in text else "\t")
        if kind.strip() == ".reg":
            self._declare_registers(rest.strip())
        elif kind == ".param":
            found = _DECLARED.match(text)
            assert found is not None, text
            parameter = _parameter(*(g or "" for g in found.groups()))
            # Each call declares its own in braces, and LLVM calls those of all calls alike.
            self.fn.sizes[parameter.name] = max(parameter.size, self.fn.sizes.get(parameter.name, 0))
        elif kind.startswith(".branchtargets"):
            self.tables[self.label] = tuple(_split(text[len(".branchtargets") :]))
        elif (variable := _variable(text)) is not None:
            (self.fn.variables if variable.space == "local" else self.module.variables).append(variable)
        else:
            raise PtxFault(f"an unknown directive: {text}")

    def _declare_registers(self, text: str) -> None:
        type_name, names = text.lstrip(".").split(None, 1)
        t = type_named(type_name)
        for name in names.split(","):
            found = _REGISTERS.fullmatch(name.strip())
            each = [f"{found[1]}{k}" for k in range(int(found[2]))] if found else [name.strip()]
            for one in each:
                self.scopes[one] = len(self.fn.registers)
                self.fn.registers.append(t)

    def _instruction(self, text: str, line: int) -> Instruction:
        guard, rest = None, text
        if found := _GUARD.match(text):
            guard, rest = self._register(found[2], negated=bool(found[1])), found[3]
        found = _OPCODE.match(rest)
        if found is None:
            raise PtxFault(f"an unknown statement: {text}")
        operands = tuple(self._operand(part) for part in _split(found[2]))
        written = " ".join(text.split())
        return Instruction(
            found[1].replace("::", "__"), operands, guard, written, line=line, source=self.lines.source(line)
        )

    def _register(self, name: str, negated: bool = False) -> Register:
        slot = self.scopes[name]
        return Register(slot, self.fn.registers[slot], negated)

    def _operand(self, text: str) -> Operand:
        if text[0] in "{(":
            return Several(tuple(self._operand(part) for part in _split(text[1:-1])))
        if text[0] == "[":
            return self._address(text[1:-1].strip())
        if text[0] == "!":
            return self._register(text[1:].strip(), negated=True)
        if "|" in text:
            first, second = text.split("|")
            return Pair(self._operand(first.strip()), self._operand(second.strip()))
        if text in self.scopes:
            return self._register(text)
        return _number(text) if text[0].isdigit() or text[0] == "-" else Symbol(text)

    def _address(self, text: str) -> Address:
        base, _, offset = text.partition("+")
        operand = self._operand(base.strip())
        assert isinstance(operand, (Register, Symbol, Number)), text
        return Address(operand, int(offset or 0))


def _split(text: str) -> list[str]:
    """Split at the commas that are not inside brackets."""
    parts, depth, start = [], 0, 0
    for k, c in enumerate(text):
        if c in "{[(":
            depth += 1
        elif c in "}])":
            depth -= 1
        elif c == "," and depth == 0:
            parts.append(text[start:k])
            start = k + 1
    return [part.strip() for part in (*parts, text[start:]) if part.strip()]
