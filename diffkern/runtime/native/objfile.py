"""Reader of the symbol table of an object file: the names it defines and those it leaves undefined.

For the bytes of a relocatable object, ELF64, Mach-O 64 or COFF, as LLVM writes it, the reader gives its machine, the
external names it defines and those it refers to, named as in C. Everything the table points at is checked to lie inside
the bytes, so truncated or foreign bytes are refused here and never reach LLVM's loader, which would end the process.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from diffkern.errors import CompileError
from diffkern.process.dataclass import dataclass

__all__ = ["Extent", "ObjectLoadError", "ObjectSymbols", "read_functions", "read_symbols"]

# Machine codes of the three formats, by one common name.
_ELF_MACHINES = {62: "x86_64", 183: "aarch64", 243: "riscv64"}
_MACHO_MACHINES = {0x01000007: "x86_64", 0x0100000C: "aarch64"}
_COFF_MACHINES = {0x8664: "x86_64", 0xAA64: "aarch64"}


class ObjectLoadError(CompileError):
    """Object code cannot be loaded: not an object for this machine, or it needs names that nothing provides."""


@dataclass(frozen=True)
class ObjectSymbols:
    """The external names of an object.

    Parameters
    ----------
    machine : str
        ``x86_64``, ``aarch64`` or ``riscv64``.
    defined : frozenset of str
        Names that other objects can refer to.
    undefined : tuple of str
        Names the object needs from elsewhere, sorted, each once.
    """

    machine: str
    defined: frozenset[str]
    undefined: tuple[str, ...]


class Extent(NamedTuple):
    """The place of a function in an object: its section, the offset in it and its size, in bytes."""

    name: str
    section: int
    offset: int
    size: int


def read_functions(data: bytes) -> list[Extent]:
    """Return the places of the functions of an ELF object, including those that no other object can refer to.

    The list is empty for other formats, which do not say how long their functions are.
    """
    if data[:4] != b"\x7fELF":
        return []
    return [Extent(e.name, e.section, e.value, e.size) for e in _elf_entries(data) if e.info & 15 == 2 and e.section]


def read_symbols(data: bytes) -> ObjectSymbols:
    """Return the external symbols of an object.

    Parameters
    ----------
    data : bytes
        The object file.

    Raises
    ------
    ObjectLoadError
        If the bytes are not a complete relocatable object of a known format.
    """
    try:
        if data[:4] == b"\x7fELF":
            machine, symbols = _read_elf(data)
        elif data[:4] == b"\xcf\xfa\xed\xfe":
            machine, symbols = _read_macho(data)
        elif len(data) >= 20 and _u16(data, 0) in _COFF_MACHINES:
            machine, symbols = _read_coff(data)
        else:
            raise ObjectLoadError(
                f"not object code: {len(data)} bytes that begin with {data[:8]!r}",
                remedy="delete the cached artifact; it is built again at the next launch",
            )
    except (struct.error, _DamagedError) as error:
        raise ObjectLoadError(
            f"damaged object code ({len(data)} bytes): {error}",
            remedy="delete the cached artifact; it is built again at the next launch",
        ) from error
    defined = frozenset(name for name, is_defined in symbols if is_defined)
    undefined = {name for name, is_defined in symbols if not is_defined}
    return ObjectSymbols(machine, defined, tuple(sorted(undefined - defined)))


class _DamagedError(Exception):
    """A table of the file points outside the file."""


class _Entry(NamedTuple):
    """A line of ELF's symbol table."""

    name: str
    info: int
    section: int
    value: int
    size: int


def _read_elf(data: bytes) -> tuple[str, list[tuple[str, bool]]]:
    if data[4:6] != b"\x02\x01" or _u16(data, 16) != 1:
        raise _DamagedError("an ELF file, but not a 64-bit little-endian relocatable object")
    machine = _machine(_ELF_MACHINES, _u16(data, 18))
    return machine, [(e.name, e.section != 0) for e in _elf_entries(data) if e.info >> 4]  # those that are not local


def _elf_entries(data: bytes) -> list[_Entry]:
    """Return the symbols with a name."""
    table, count = _u64(data, 40), _u16(data, 60)
    if _u16(data, 58) != 64 or count == 0:
        raise _DamagedError("no section headers")
    headers = _part(data, table, count * 64, "section headers")
    sections = list(struct.iter_unpack("<IIQQQQIIQQ", headers))
    symbols: list[_Entry] = []
    for _, kind, _, _, offset, size, link, _, _, _ in sections:
        if kind == 8:  # NOBITS: zero-initialised, without bytes in the file
            continue
        # Read for the check alone: a section that ends behind the file must not reach the loader.
        content = _part(data, offset, size, "a section")
        if kind != 2:  # SYMTAB
            continue
        if link >= count or size % 24:
            raise _DamagedError("the symbol table is inconsistent")
        strings = _part(data, sections[link][4], sections[link][5], "the string table")
        for at, info, _, section, value, extent in struct.iter_unpack("<IBBHQQ", content):
            if at:
                symbols.append(_Entry(_string(strings, at), info, section, value, extent))
    return symbols


def _read_macho(data: bytes) -> tuple[str, list[tuple[str, bool]]]:
    _, cpu, _, kind, commands, commands_size, _, _ = struct.unpack_from("<8I", data, 0)
    if kind != 1:
        raise _DamagedError("a Mach-O file, but not a relocatable object")
    machine = _machine(_MACHO_MACHINES, cpu)
    _part(data, 32, commands_size, "load commands")
    symbols: list[tuple[str, bool]] = []
    at = 32
    for _ in range(commands):
        command, length = struct.unpack_from("<II", data, at)
        # A length of zero would make this loop run for ever on damaged bytes.
        if length < 8:
            raise _DamagedError("a load command without a length")
        if command == 0x19:  # LC_SEGMENT_64
            offset, size = struct.unpack_from("<QQ", data, at + 40)
            _part(data, offset, size, "a segment")
        elif command == 2:  # LC_SYMTAB
            table, count, text, text_size = struct.unpack_from("<IIII", data, at + 8)
            strings = _part(data, text, text_size, "the string table")
            entries = _part(data, table, count * 16, "the symbol table")
            for name_at, flags, _, _, value in struct.iter_unpack("<IBBHQ", entries):
                # External and no debugging entry. Kind 0 with a value is a common symbol: defined.
                if flags & 0xE0 == 0 and flags & 1:
                    name = _string(strings, name_at)
                    symbols.append((name.removeprefix("_"), bool(flags & 0x0E or value)))
        at += length
    return machine, symbols


def _read_coff(data: bytes) -> tuple[str, list[tuple[str, bool]]]:
    code, sections, _, table, count, optional, _ = struct.unpack_from("<HHIIIHH", data, 0)
    machine = _machine(_COFF_MACHINES, code)
    for k in range(sections):
        size, offset = struct.unpack_from("<II", data, 20 + optional + 40 * k + 16)
        if offset:
            _part(data, offset, size, "a section")
    entries = _part(data, table, count * 18, "the symbol table")
    strings_at = table + count * 18
    strings = _part(data, strings_at, struct.unpack_from("<I", data, strings_at)[0], "the string table")
    symbols: list[tuple[str, bool]] = []
    k = 0
    while k < count:
        short, value, section, _, storage, extra = struct.unpack_from("<8sIhHBB", entries, 18 * k)
        k += 1 + extra
        if storage not in (2, 105):  # external, weak external
            continue
        # Names of up to eight bytes stand in the entry; four zero bytes announce an offset into the string table.
        if short[:4] == b"\0\0\0\0":
            name = _string(strings, struct.unpack("<I", short[4:])[0])
        else:
            name = short.rstrip(b"\0").decode("utf-8", "replace")
        symbols.append((name, section != 0 or value != 0))
    return machine, symbols


def _machine(names: dict[int, str], code: int) -> str:
    if code not in names:
        raise _DamagedError(f"unknown machine code {code}")
    return names[code]


def _part(data: bytes, offset: int, size: int, what: str) -> bytes:
    if offset + size > len(data):
        raise _DamagedError(f"{what} should end at byte {offset + size}")
    return data[offset : offset + size]


def _string(strings: bytes, at: int) -> str:
    end = strings.find(b"\0", at)
    if at >= len(strings) or end < 0:
        raise _DamagedError("a symbol's name lies outside the string table")
    return strings[at:end].decode("utf-8", "replace")


def _u16(data: bytes, at: int) -> int:
    return int(struct.unpack_from("<H", data, at)[0])


def _u64(data: bytes, at: int) -> int:
    return int(struct.unpack_from("<Q", data, at)[0])
