"""Digests of the contents of arrays, to detect changes that were not announced.

A digest is bytes that are equal for equal contents of the same array, and practically never for others. It is only
meaningful within one process.
"""

from __future__ import annotations

import hashlib
import struct
from typing import TYPE_CHECKING, Any

import numpy as np

from diffkern.runtime.native import pool
from diffkern.runtime.native.replay import address_of, function_address

if TYPE_CHECKING:
    from diffkern.runtime.arrays.array import array

__all__ = ["digest"]

_SMALL = 1024  # bytes that are their own digest: making another takes longer than copying them
_BYTES_PER_CHUNK = 1 << 17
_block = struct.Struct("3q").pack


def digest(held: array) -> bytes:
    """Return the digest of the elements of an array, bit by bit. Work on the array must have ended."""
    data: np.ndarray[Any, Any] = held._memory.contents(held._data)
    if data.nbytes <= _SMALL:
        return data.tobytes()
    if not data.flags.c_contiguous:
        data = np.ascontiguousarray(data)
    # Where the pool is not native any digest will do: all digests of a process are of one kind.
    function = function_address("dk_digest_bytes")
    if not function:
        return hashlib.blake2b(data.tobytes(), digest_size=16).digest()
    address = held._range[0] if data is held._data else data.ctypes.data
    # Each chunk has a digest of its own, so that the pool's threads need no order.
    found = bytearray(8 * -(-data.nbytes // _BYTES_PER_CHUNK))
    block = bytearray(_block(address, address_of(found), _BYTES_PER_CHUNK))
    pool.run(function, address_of(block), 0, data.nbytes, _BYTES_PER_CHUNK)
    return bytes(found)
