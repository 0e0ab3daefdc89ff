"""The argument block of a program: the offset of each parameter, as :mod:`diffkern.contracts.abi` lays them out.

From a program's manifest follow the header in front of the packed parameters, the place of each parameter, and readers
for the numbers in a packed block.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Collection, Iterable, Sequence

from diffkern.contracts import abi
from diffkern.contracts.division import divider
from diffkern.contracts.manifest import Manifest
from diffkern.ir.types import parse_type

__all__ = [
    "Layout", "Reader", "address_of", "arguments_of", "gpu_header", "header", "pack_address", "pack_array", "tail_of",
    "with_bits", "with_partials", "with_status", "zeroed_bits",
]  # fmt: skip

Reader = Callable[[bytes | memoryview], tuple[int, ...]]
"""Reads numbers from what stands behind a header."""

_pack = struct.Struct(abi.HEADER_FORMAT).pack
_pack_gpu = struct.Struct(abi.GPU_HEADER_FORMAT).pack
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
    """Return the bytes of an array without its address: its shape and strides."""
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
        Address of the error record.
    """
    return _pack(status, *dims, chunk, 0)


def gpu_header(dims: Sequence[int], axes: int = 0, at_once: int = 0, status: int = 0) -> bytes:
    """Return the header of a launch on a GPU.

    Parameters
    ----------
    dims : sequence of int
        Four extents.
    axes : int, optional
        How many of them the kernel asks for; it repeats a thread along the others.
    at_once : int, optional
        Threads of the launch that the grid runs in one round; 0 if that is not known.
    status : int, optional
        Address of the error record.
    """
    # An empty launch does not run, and its other extents may be of any size.
    extents = dims[1:] if all(dims) else (1,) * (abi.MAX_DIMS - 1)
    multipliers, shifts = zip(*map(divider, extents), strict=True)
    is_one_round = at_once >= math.prod(dims[:axes]) and max(dims[axes:], default=1) == 1
    return _pack_gpu(status, *dims, *multipliers, *shifts, abi.ONE_ROUND if is_one_round else 0)


def zeroed_bits(zeroed: Sequence[int], known: Collection[int]) -> int:
    """Return the bits of a GPU's header for arrays that are known to be zero.

    Parameters
    ----------
    zeroed : sequence of int
        The parameters that a program has bits for.
    known : collection of int
        Those that are zero when the launch begins.
    """
    return sum([1 << k for k, index in enumerate(zeroed) if index in known])


def with_bits(head: bytes, bits: int) -> bytes:
    """Return the header of a launch on a GPU with more of its bits set."""
    return head[: abi.GPU_BITS] + bytes((head[abi.GPU_BITS] | bits,))


def with_status(block: bytes, status: int) -> bytes:
    """Return a block, or its header, with the address of another error record."""
    return _address.pack(status) + block[abi.DIMS :]


def with_partials(head: bytes, partials: int) -> bytes:
    """Return a header with the address of the buffer of partial sums."""
    return head[: abi.PARTIALS] + _address.pack(partials)


def arguments_of(block: bytes | bytearray) -> bytes:
    """Return a block without its header."""
    return bytes(block[abi.HEADER_SIZE :])


class Layout:
    """The places of a program's parameters in its argument block.

    Attributes
    ----------
    entries : tuple of (str, int)
        Role of each parameter, and the parameter of the kernel that it belongs to.
    fields : list of Field
        The place of each of them.
    offsets : dict
        The offsets of those that are the kernel's own parameters.
    size : int
        Bytes of the whole block.
    cotangents : tuple of int or None
        The kernel's parameters whose cotangents follow all its parameters; None if something else stands in between.
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
        """Return a reader of the extents of arrays, given in order, each with its number of axes."""
        # The extents follow the address, which takes eight bytes.
        return _reader([(self.fields[index].offset + 8, ndim) for index, ndim in arrays])

    def descriptions(self, arrays: Iterable[tuple[int, int]]) -> Reader:
        """Return a reader of addresses, extents and strides of arrays, given in order, each with its number of axes."""
        return _reader([(self.fields[index].offset, 1 + 2 * ndim) for index, ndim in arrays])


def _reader(places: Iterable[tuple[int, int]]) -> Reader:
    """Return a reader of int64 numbers from the arguments, given their offsets in the block and their counts."""
    # One format with padding for the gaps reads all numbers in one call, without slices.
    form, end = "=", abi.HEADER_SIZE
    for start, count in places:
        form += f"{start - end}x{count}q"
        end = start + 8 * count
    return struct.Struct(form).unpack_from
