"""Loader of ELF objects for x86-64 that needs no linker, and so no llvmlite.

An object is loaded by copying its sections, adding addresses and making the code executable. Its references are
addresses of 64 bits, or distances of 32 bits; what lies outside of the object may be farther off, and gets an entry
beside the code: a jump there and the address. What may be in an object besides (other relocations, constructors,
thread-local variables) is left to LLVM's linker. Tables for unwinding are not registered: no exception goes through
native code.
"""

from __future__ import annotations

import ctypes
import functools
import mmap
import platform
import struct
import sys
import weakref
from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

__all__ = ["Image", "executable", "is_possible", "place"]

# Types of sections, flags of them, and relocations, named as in the ELF specification and the psABI.
_PROGBITS, _SYMTAB, _RELA, _NOBITS, _REL, _UNWIND = 1, 2, 4, 8, 9, 0x70000001
_WRITE, _ALLOC, _EXECUTE, _TLS = 1, 2, 4, 0x400
_R_X86_64_64, _R_X86_64_PC32, _R_X86_64_PLT32 = 1, 2, 4
_OF_ENTRY = (9, 41, 42)
"""R_X86_64_GOTPCREL, R_X86_64_GOTPCRELX and R_X86_64_REX_GOTPCRELX: the distance of a place that holds the address."""
_PAGE: Final = mmap.PAGESIZE

# An entry: jmp *2(%rip), two bytes that are not reached, and the address.
_JUMP: Final = b"\xff\x25\x02\x00\x00\x00\xcc\xcc"
_ENTRY: Final = 16


class Image:
    """Memory with code, unmapped when nothing refers to this, but never while the process ends: threads may be in it.

    Parameters
    ----------
    base, size : int
        The mapped memory.
    """

    __slots__ = ("__weakref__", "base")

    def __init__(self, base: int, size: int) -> None:
        self.base = base
        weakref.finalize(self, _system().munmap, base, size).atexit = False


class _Section(NamedTuple):
    """A line of the table of sections."""

    name: int
    kind: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    align: int
    entry: int


class _Symbol(NamedTuple):
    """A line of the table of symbols; :mod:`~diffkern.runtime.native.objfile` reads those with a name."""

    name: int
    info: int
    other: int
    section: int
    value: int
    size: int


@functools.cache
def is_possible() -> bool:
    """Return whether this process can load objects here: on Linux with an x86-64 processor."""
    return sys.platform == "linux" and platform.machine() == "x86_64" and sys.maxsize > 2**32


def place(data: bytes, symbols: Sequence[str], needs: Mapping[str, int]) -> tuple[dict[str, int], Image] | None:
    """Load an object.

    Parameters
    ----------
    data : bytes
        An object that :func:`~diffkern.runtime.native.objfile.read_symbols` has accepted.
    symbols : sequence of str
        Functions that it defines.
    needs : mapping of str to int
        The addresses of the names that it leaves undefined.

    Returns
    -------
    tuple of (dict, Image), or None
        The addresses of the functions, and their memory; None for an object or a system that needs LLVM's linker.
    """
    if not is_possible() or data[:4] != b"\x7fELF":
        return None
    (table,), (count,) = struct.unpack_from("<Q", data, 40), struct.unpack_from("<H", data, 60)
    sections = [_Section(*line) for line in struct.iter_unpack("<IIQQQQIIQQ", data[table : table + 64 * count])]
    groups, names = _groups(sections), _symbols(data, sections)
    references = None if groups is None else _references(data, sections, {k for group in groups for k in group})
    if groups is None or names is None or references is None or any(r.symbol >= len(names) for r in references):
        return None
    outside = _outside(references, names)
    layout = _layout(sections, groups, _ENTRY * len(outside))
    base = None if layout is None else _mapped(layout.ends[-1])
    if layout is None or base is None:
        return None
    image = Image(base, layout.ends[-1])
    values = _values(names, layout.places, needs, base)
    entries = {symbol: base + layout.entries + _ENTRY * k for k, symbol in enumerate(outside)}
    content = _content(data, sections, layout)
    if not _refer(content, references, layout, names, values, entries, base):
        return None
    defined = {name: value for (name, line), value in zip(names, values, strict=True) if name and line.section}
    found = {name: defined.get(name) for name in symbols}
    ctypes.memmove(base, bytes(content), len(content))
    if None in found.values() or not _protect(base, layout.ends):
        return None
    return {name: int(address or 0) for name, address in found.items()}, image


class _Offsets(NamedTuple):
    """Offsets of the sections that are loaded and of the entries; where code, constants and variables end, in pages."""

    places: dict[int, int]
    entries: int
    ends: tuple[int, int, int]


class _Reference(NamedTuple):
    """A relocation: the section and the offset in it, the number of a symbol, the type and the addend."""

    section: int
    offset: int
    symbol: int
    kind: int
    addend: int


def _groups(sections: Sequence[_Section]) -> tuple[list[int], list[int], list[int]] | None:
    """Return the sections that are loaded: code, constants and variables."""
    groups: tuple[list[int], list[int], list[int]] = [], [], []
    for k, section in enumerate(sections):
        if section.flags & _ALLOC and section.size and section.kind != _UNWIND:
            writable, runs = section.flags & _WRITE, section.flags & _EXECUTE
            odd = section.kind not in (_PROGBITS, _NOBITS) or section.flags & _TLS or (writable and runs)
            if odd or section.align > _PAGE:
                return None
            groups[0 if runs else 2 if writable else 1].append(k)
    return groups


def _layout(sections: Sequence[_Section], groups: Sequence[Sequence[int]], entries: int) -> _Offsets | None:
    """Place sections, and entries of some size after the code; None if there is nothing."""
    places: dict[int, int] = {}
    ends, at, first = [], 0, 0
    for number, group in enumerate(groups):
        for k in group:
            align = max(sections[k].align, 1)
            at = places[k] = -(-at // align) * align
            at += sections[k].size
        if number == 0:
            first = -(-at // _ENTRY) * _ENTRY
            at = first + entries
        at = -(-at // _PAGE) * _PAGE
        ends.append(at)
    return _Offsets(places, first, (ends[0], ends[1], ends[2])) if at else None


def _content(data: bytes, sections: Sequence[_Section], layout: _Offsets) -> bytearray:
    """Return the sections in their places."""
    content = bytearray(layout.ends[-1])
    for k, at in layout.places.items():
        section = sections[k]
        if section.kind != _NOBITS:
            content[at : at + section.size] = data[section.offset : section.offset + section.size]
    return content


def _outside(references: Sequence[_Reference], names: Sequence[tuple[str, _Symbol]]) -> list[int]:
    """Return the symbols that need an entry: of which the place is asked for, or that are outside and may be far."""
    found = {
        each.symbol: None
        for each in references
        if each.kind in _OF_ENTRY or (each.kind != _R_X86_64_64 and not names[each.symbol][1].section)
    }
    return list(found)


def _refer(
    content: bytearray,
    references: Sequence[_Reference],
    layout: _Offsets,
    names: Sequence[tuple[str, _Symbol]],
    values: Sequence[int | None],
    entries: Mapping[int, int],
    base: int,
) -> bool:
    """Write the entries and the references; return whether all symbols have an address that can be written."""
    for symbol, entry in entries.items():
        if (address := values[symbol]) is None:
            return False
        content[entry - base : entry - base + _ENTRY] = _JUMP + struct.pack("<Q", address)
    for each in references:
        at = layout.places[each.section] + each.offset
        value = values[each.symbol]
        if each.kind in _OF_ENTRY:
            value = entries[each.symbol] + len(_JUMP)
        elif each.kind != _R_X86_64_64 and not names[each.symbol][1].section:
            value = entries[each.symbol]
        if value is None:
            return False
        if each.kind == _R_X86_64_64:
            struct.pack_into("<Q", content, at, (value + each.addend) % 2**64)
            continue
        distance = value + each.addend - (base + at)
        if not -(2**31) <= distance < 2**31:
            return False
        struct.pack_into("<i", content, at, distance)
    return True


def _symbols(data: bytes, sections: Sequence[_Section]) -> list[tuple[str, _Symbol]] | None:
    """Return the symbols in their order, with their names; None if there is not one table of them."""
    tables = [section for section in sections if section.kind == _SYMTAB]
    if len(tables) != 1:
        return None
    (table,) = tables
    strings = sections[table.link]
    found = []
    for line in struct.iter_unpack("<IBBHQQ", data[table.offset : table.offset + table.size]):
        symbol = _Symbol(*line)
        start = strings.offset + symbol.name
        found.append((data[start : data.index(b"\0", start)].decode("utf-8", "replace"), symbol))
    return found


def _references(data: bytes, sections: Sequence[_Section], loaded: Container[int]) -> list[_Reference] | None:
    """Return the references of the loaded sections; None if there are others than are known here."""
    found = []
    for section in sections:
        if section.kind == _REL and section.info in loaded:
            return None
        if section.kind != _RELA or section.info not in loaded:
            continue
        size = sections[section.info].size
        for offset, info, addend in _entries(data, section):
            kind = info & 0xFFFFFFFF
            width = 8 if kind == _R_X86_64_64 else 4
            is_known = kind in (_R_X86_64_64, _R_X86_64_PC32, _R_X86_64_PLT32, *_OF_ENTRY)
            if not is_known or offset + width > size or sections[section.info].kind == _NOBITS:
                return None
            found.append(_Reference(section.info, offset, info >> 32, kind, addend))
    return found


def _entries(data: bytes, section: _Section) -> Iterator[tuple[int, int, int]]:
    return struct.iter_unpack("<QQq", data[section.offset : section.offset + section.size // 24 * 24])


def _values(
    names: Sequence[tuple[str, _Symbol]], places: Mapping[int, int], needs: Mapping[str, int], base: int
) -> list[int | None]:
    """Return the address of each symbol; None for those without one, such as the names of source files."""
    return [
        needs.get(name) if not line.section else base + places[line.section] + line.value
        if line.section in places
        else None
        for name, line in names
    ]  # fmt: skip


# -- memory ------------------------------------------------------------------------------------------------------------


@functools.cache
def _system() -> Any:
    library = ctypes.CDLL(None)
    library.mmap.restype = ctypes.c_void_p
    library.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    library.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    library.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    return library


def _mapped(size: int) -> int | None:
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    base = _system().mmap(None, size, mmap.PROT_READ | mmap.PROT_WRITE, flags, -1, 0)
    return None if base in (None, ctypes.c_void_p(-1).value) else int(base)


def _protect(base: int, ends: tuple[int, int, int]) -> bool:
    """Make the first part executable and the second constant; return whether the system allows that."""
    code, constant, _ = ends
    ways = ((base, code, mmap.PROT_READ | mmap.PROT_EXEC), (base + code, constant - code, mmap.PROT_READ))
    return all(not size or _system().mprotect(at, size, way) == 0 for at, size, way in ways)


def executable(code: bytes) -> Image | None:
    """Return memory with machine code that refers to nothing, at its beginning; None where the system forbids that."""
    base = _mapped(_PAGE)
    if base is None:
        return None
    image = Image(base, _PAGE)
    ctypes.memmove(base, code, len(code))
    return image if _protect(base, (_PAGE, _PAGE, _PAGE)) else None
