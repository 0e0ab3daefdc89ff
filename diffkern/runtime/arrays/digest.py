"""Digests of the contents of arrays, to detect changes that were not announced.

A digest is bytes that are equal for equal contents of the same array, and practically never for others. It is only
meaningful within one process.
"""

from __future__ import annotations

import functools
import hashlib
import struct
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from diffkern.runtime.native import pool
from diffkern.runtime.native.assemble import EXTERNAL_NAMES, load_native
from diffkern.runtime.native.replay import address_of

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
    function = _kernel()
    if not function:
        return hashlib.blake2b(data.tobytes(), digest_size=16).digest()
    address = held._range[0] if data is held._data else data.ctypes.data
    # Each chunk has a digest of its own, so that the pool's threads need no order.
    found = bytearray(8 * -(-data.nbytes // _BYTES_PER_CHUNK))
    block = bytearray(_block(address, address_of(found), _BYTES_PER_CHUNK))
    pool.run(function, address_of(block), 0, data.nbytes, _BYTES_PER_CHUNK)
    return bytes(found)


@functools.cache
def _kernel() -> int:
    """Return the address of the kernel that makes digests, or 0 where the pool is not native."""
    if not pool.functions():
        return 0
    sources = [Path(__file__), Path(pool.__file__).with_name("digest_ir.py")]
    # Its loop is all that a digest takes time for: without optimization it takes more than twice as long.
    return load_native(_text, sources, ["dk_digest_bytes"], EXTERNAL_NAMES, level=2)["dk_digest_bytes"]


def _text() -> str:
    from diffkern.runtime.native.digest_ir import digest_ir  # here, because kept object code does without it

    return digest_ir()
