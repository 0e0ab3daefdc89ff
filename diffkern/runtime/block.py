"""The argument block of a program: what stands where in it, as :mod:`diffkern.abi` lays it out.

In: a program's manifest, packed parameters. Out: the header that goes in front of them, where each of them stands, and
what reads a packed block again.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence

from diffkern import abi
from diffkern.ir.types import parse_type
from diffkern.manifest import Manifest

__all__ = [
    "Layout", "Reader", "address_of", "arguments_of", "header", "pack_address", "pack_array", "tail_of",
    "with_partials", "with_status",
]  # fmt: skip

Reader = Callable[[bytes | memoryview], tuple[int, ...]]
"""Reads numbers from what stands behind a header."""

_pack = struct.Struct(abi.HEADER_FORMAT).pack
_address = struct.Struct("q")

pack_address = _address.pack
"""The bytes of an address; in front of a tail they are those of an array."""
pack_array = tuple(struct.Struct(f"{1 + 2 * ndim}q").pack for ndim in range(abi.MAX_DIMS + 1))
"""By the number of axes, the bytes of an array: of its address, extents in elements, strides in bytes."""


def address_of(packed: bytes) -> int:
    """Return the address of an array from its bytes."""
    address: int = _address.unpack_from(packed)[0]
    return address


def tail_of(packed: bytes) -> bytes:
    """Return the bytes of an array behind the address: its shape and strides."""
    return packed[_address.size :]


def header(dims: Sequence[int], chunk: int = 0, status: int = 0) -> bytes:
    """Return the header of a launch.

    Parameters
    ----------
    dims : sequence of int
        Four extents.
    chunk : int, optional
        Threads of a chunk.
    status : int, optional
        Address of the record of errors.
    """
    return _pack(status, *dims, chunk, 0)


def with_status(block: bytes, status: int) -> bytes:
    """Return a block, or its header, with another record of errors."""
    return _address.pack(status) + block[abi.DIMS :]


def with_partials(head: bytes, partials: int) -> bytes:
    """Return a header with a place for partial sums."""
    return head[: abi.PARTIALS] + _address.pack(partials)


def arguments_of(block: bytes | bytearray) -> bytes:
    """Return what stands behind the header."""
    return bytes(block[abi.HEADER_SIZE :])


class Layout:
    """Where the parameters of a program stand in its block.

    Attributes
    ----------
    entries : tuple of (str, int)
        Role of each parameter, and the parameter of the kernel that it belongs to.
    fields : list of Field
        Where each of them stands.
    offsets : dict
        Where the parameters stand that are the kernel's own.
    size : int
        Bytes of the whole block.
    cotangents : tuple of int or None
        The kernel's parameters whose cotangents stand behind all its parameters; None if something stands in between.
    """

    __slots__ = ("cotangents", "entries", "fields", "offsets", "size")

    def __init__(self, manifest: Manifest) -> None:
        self.entries = tuple((p.role, p.of) for p in manifest.params)
        self.fields, self.size = abi.layout([parse_type(p.type) for p in manifest.params])
        own = zip(self.entries, self.fields, strict=True)
        own_count = sum(role == "param" for role, _ in self.entries)
        behind = self.entries[own_count:]
        are_next = all(role == "cotangent" for role, _ in behind)
        self.cotangents = tuple([of for _, of in behind]) if are_next else None
        self.offsets = {of: field.offset for (role, of), field in own if role == "param"}

    def shapes(self, arrays: Iterable[tuple[int, int]]) -> Reader:
        """Return what reads the extents of arrays, given in order, each with its number of axes."""
        return _reader([(self.fields[index].offset + 8, ndim) for index, ndim in arrays])

    def descriptions(self, arrays: Iterable[tuple[int, int]]) -> Reader:
        """Return what reads addresses, extents and strides of arrays, given in order, each with its number of axes."""
        return _reader([(self.fields[index].offset, 1 + 2 * ndim) for index, ndim in arrays])


def _reader(places: Iterable[tuple[int, int]]) -> Reader:
    """Return what reads int64 from arguments: for each place in the block so many."""
    form, end = "=", abi.HEADER_SIZE
    for start, count in places:
        form += f"{start - end}x{count}q"
        end = start + 8 * count
    return struct.Struct(form).unpack_from
