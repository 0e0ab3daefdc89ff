"""The resources of the kernels in a cubin: registers, stack, shared memory, parameters. No tool of NVIDIA's is needed.

From the bytes of a cubin, an ELF file, :func:`resources` gives a :class:`Resources` for each kernel, from its
attributes in the sections ``.nv.info`` and ``.nv.info.KERNEL``, and from the sizes of its sections.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator

from diffkern.process.dataclass import dataclass

__all__ = ["Resources", "architecture", "code_sections", "declared_local_bytes", "resources"]

_EM_CUDA = 190
_SHT_SYMTAB = 2
# Attributes of NVIDIA's sections: one byte of format, one byte of meaning, two bytes of value or of length.
_SIZED = 4
_FRAME_SIZE = 0x11
_MIN_STACK_SIZE = 0x12
_PARAM_SIZE = 0x19
_REGCOUNT = 0x2F
# From this ABI version on, the architecture is the second byte of the flags, before it was the first.
_WIDE_FLAGS_ABI = 8
# Since this architecture each block's first kilobyte of shared memory is the system's.
_RESERVED_SINCE = 90
_RESERVED_BYTES = 1024

_LOCAL = re.compile(r"^\s*\.local\s+(?:\.align\s+\d+\s+)?\.[bsuf](\d+)\s+[$\w]+(?:\[(\d+)\])?\s*;", re.MULTILINE)

_section = struct.Struct("<IIQQQQIIQQ")
_symbol = struct.Struct("<IBBHQQ")


@dataclass(frozen=True, slots=True)
class Resources:
    """The resources of a kernel.

    Attributes
    ----------
    registers : int
        Registers of a thread.
    stack_bytes : int
        Local memory of a thread: arrays that are indexed at run time, and values that did not fit into registers.
    shared_bytes : int
        Static shared memory of a block, without what the system keeps for itself.
    parameter_bytes : int
        The parameters.
    code_bytes : int
        The instructions, with their padding.
    """

    registers: int
    stack_bytes: int
    shared_bytes: int
    parameter_bytes: int
    code_bytes: int


def architecture(cubin: bytes) -> str:
    """Return the architecture a cubin is for, such as ``sm_90``.

    Raises
    ------
    ValueError
        If it is not a cubin.
    """
    _check(cubin)
    return f"sm_{_number(cubin)}"


def resources(cubin: bytes) -> dict[str, Resources]:
    """Return the resources of each kernel of a cubin, by name.

    Raises
    ------
    ValueError
        If it is not a cubin.
    """
    _check(cubin)
    elf = _Elf(cubin)
    reserved = _RESERVED_BYTES if _number(cubin) >= _RESERVED_SINCE else 0
    symbols = elf.symbols()
    found: dict[int, dict[str, int]] = {}
    for kind, value in elf.attributes(".nv.info"):
        if kind in (_FRAME_SIZE, _MIN_STACK_SIZE, _REGCOUNT):
            symbol, number = struct.unpack("<II", value)
            found.setdefault(kind, {})[symbols[symbol]] = number
    prefix = ".nv.info."
    kernels = [name[len(prefix) :] for name in elf.sections if name.startswith(prefix)]
    return {name: _of_kernel(elf, name, found, reserved) for name in kernels}


def code_sections(cubin: bytes) -> dict[str, bytes]:
    """Return the machine code of each function of a cubin, by name.

    Raises
    ------
    ValueError
        If it is not a cubin.
    """
    _check(cubin)
    prefix = ".text."
    found = _Elf(cubin).sections.items()
    return {name[len(prefix) :]: cubin[h[4] : h[4] + h[5]] for name, h in found if name.startswith(prefix)}


def declared_local_bytes(ptx: str) -> int:
    """Return the bytes of local memory that PTX declares for a thread; what a cubin takes beyond that is spilled."""
    found = _LOCAL.findall(ptx)
    return sum(int(width) // 8 * int(count or 1) for width, count in found)


def _of_kernel(elf: _Elf, name: str, found: dict[int, dict[str, int]], reserved: int) -> Resources:
    parameters = 0
    for kind, value in elf.attributes(f".nv.info.{name}"):
        if kind == _PARAM_SIZE:
            parameters = struct.unpack("<H", value)[0]
    return Resources(
        registers=found.get(_REGCOUNT, {}).get(name, 0),
        stack_bytes=max(found.get(kind, {}).get(name, 0) for kind in (_FRAME_SIZE, _MIN_STACK_SIZE)),
        shared_bytes=max(0, elf.size(f".nv.shared.{name}") - reserved),
        parameter_bytes=parameters,
        code_bytes=elf.size(f".text.{name}"),
    )


def _number(cubin: bytes) -> int:
    flags: int = struct.unpack_from("<I", cubin, 0x30)[0]
    return (flags >> 8 if cubin[8] >= _WIDE_FLAGS_ABI else flags) & 0xFF


def _check(data: bytes) -> None:
    # 64 bits, little-endian, CUDA's machine number.
    if len(data) < 64 or data[:6] != b"\x7fELF\x02\x01" or struct.unpack_from("<H", data, 18)[0] != _EM_CUDA:
        raise ValueError("these bytes are not a cubin")


class _Elf:
    """The section table of an ELF file."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        # Offsets of the ELF header: the section table, then its entry size, count and the index of the section names.
        (start,) = struct.unpack_from("<Q", data, 0x28)
        size, count, names = struct.unpack_from("<3H", data, 0x3A)
        self._headers = [_section.unpack_from(data, start + k * size) for k in range(count)]
        strings = self._headers[names][4]
        self.sections = {self._string(strings + header[0]): header for header in self._headers}

    def size(self, section: str) -> int:
        """Return the bytes of a section, 0 if there is none."""
        return int(self.sections[section][5]) if section in self.sections else 0

    def symbols(self) -> list[str]:
        """Return the names of the symbols, in the order of the symbol table."""
        found = []
        for header in self._headers:
            if header[1] == _SHT_SYMTAB:
                start, size, strings = header[4], header[5], self._headers[header[6]][4]
                places = range(start, start + size, _symbol.size)
                found += [self._string(strings + _symbol.unpack_from(self._data, at)[0]) for at in places]
        return found

    def attributes(self, section: str) -> Iterator[tuple[int, bytes]]:
        """Yield meaning and value of each of NVIDIA's attributes in a section."""
        if section not in self.sections:
            return
        at = self.sections[section][4]
        end = at + self.size(section)
        while at < end:
            form, kind, number = struct.unpack_from("<BBH", self._data, at)
            at += 4
            if form == _SIZED:
                yield kind, self._data[at : at + number]
                at += number
            else:
                yield kind, self._data[at - 2 : at]

    def _string(self, at: int) -> str:
        return self._data[at : self._data.index(b"\0", at)].decode()
