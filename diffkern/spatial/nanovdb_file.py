"""Files in the format of NanoVDB: headers of the grids in them, and grids that may be compressed."""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from diffkern.errors import LaunchError, described

__all__ = ["read_file", "write_file"]

_MAGIC: Final = 0x304244566F6E614E
_MAGICS: Final = (_MAGIC, 0x324244566F6E614E)
_VERSION: Final = 32 << 21 | 3 << 10 | 3
_HEADER, _GRID_HEADER = 16, 176
_CODECS: Final = {"none": 0, "zip": 1, "blosc": 2}


def _blosc() -> Any:
    try:
        import blosc  # type: ignore[import-not-found]
    except ImportError:
        raise LaunchError(
            "the grid is compressed by BLOSC, and the package blosc is not installed",
            remedy='install it, or write the file with the codec "zip" or "none"',
        ) from None
    return blosc


def read_file(given: Any) -> Any:
    """Return the bytes of the grids of a file, one after the other.

    Parameters
    ----------
    given : file, bytes, numpy.ndarray or path
        The file, its contents, or where it lies.

    Raises
    ------
    LaunchError
        If it is no such file.
    """
    data = _contents(given)
    if len(data) < _HEADER or struct.unpack_from("<Q", data)[0] not in _MAGICS:
        raise LaunchError(
            "the file does not begin as those of NanoVDB do", remedy="pass a file in the format of NanoVDB"
        )
    _, version, count, codec = struct.unpack_from("<QIHH", data)
    if version >> 21 != 32:
        raise LaunchError("the file is of another version of NanoVDB than 32", remedy="write the file by NanoVDB 32")
    start, total = _HEADER, 0
    try:
        for _ in range(count):
            total += struct.unpack_from("<Q", data, start + 8)[0]
            start += _GRID_HEADER + struct.unpack_from("<I", data, start + 136)[0]
        found = data[start : start + total] if codec == 0 else _unpacked(data, start, start + total, codec)
    except (struct.error, zlib.error) as error:
        raise LaunchError(f"the NanoVDB file is cut off or broken: {error}", remedy="write it again") from None
    return np.frombuffer(bytes(found), np.uint8).copy()


def _contents(given: Any) -> bytes:
    if hasattr(given, "read"):
        return bytes(given.read())
    if isinstance(given, (str, os.PathLike)):
        with open(given, "rb") as file:
            return file.read()
    try:
        return memoryview(given).cast("B").tobytes()
    except TypeError:
        raise LaunchError(
            f"a NanoVDB file of {described(given)}", remedy="pass a file, its bytes, or its path"
        ) from None


def _unpacked(data: bytes, at: int, end: int, codec: int) -> bytes:
    if codec not in _CODECS.values():
        raise LaunchError(
            f"the file is compressed by an unknown codec, {codec}",
            remedy='write the file with the codec "zip" or "none"',
        )
    unpack = zlib.decompress if codec == 1 else _blosc().decompress
    out = bytearray()
    while at < end:
        (length,) = struct.unpack_from("<Q", data, at)
        out += unpack(data[at + 8 : at + 8 + length])
        at += 8 + length
    return bytes(out)


def write_file(path: Any, data: Any, codec: str) -> None:
    """Write the grids in some bytes to a file.

    Parameters
    ----------
    path : path
        Where to.
    data : numpy.ndarray
        Grids, one after the other.
    codec : str
        ``"none"``, ``"zip"`` or ``"blosc"``.
    """
    if codec not in _CODECS:
        raise LaunchError(f"there is no codec {codec!r}", remedy=f"pass one of {', '.join(_CODECS)}")
    number = _CODECS[codec]
    pack: Callable[[bytes], bytes] = bytes if number == 0 else zlib.compress if number == 1 else _blosc().compress
    count = struct.unpack_from("<I", data, 28)[0]
    headers, packed, at = [], [], 0
    for _ in range(count):
        if at >= data.size:
            break
        size = struct.unpack_from("<Q", data, at + 32)[0]
        raw = data[at : at + size].tobytes()
        contents = pack(raw)
        packed.append(contents if number == 0 else struct.pack("<Q", len(contents)) + contents)
        headers.append(_header(raw, len(contents), number))
        at += size
    with open(path, "wb") as file:
        file.write(struct.pack("<QIHH", _MAGIC, _VERSION, len(headers), number))
        for part in (*headers, *packed):
            file.write(part)


def _header(raw: bytes, length: int, codec: int) -> bytes:
    """Return the header of a grid in a file, with its name."""
    name = raw[40:296].split(b"\0")[0] + b"\0"
    out = bytearray(_GRID_HEADER)
    struct.pack_into("<QQ", out, 0, len(raw), length)
    struct.pack_into(
        "<QII",
        out,
        24,
        struct.unpack_from("<Q", raw, 728)[0],
        *struct.unpack_from("<I", raw, 636),
        *struct.unpack_from("<I", raw, 632),
    )
    out[40:88] = raw[560:608]
    out[112:136] = raw[608:632]
    struct.pack_into("<I", out, 136, len(name))
    out[140:156], out[156:168] = raw[704:716] + b"\0\0\0\0", raw[716:728]
    struct.pack_into("<HHI", out, 168, codec, 0, _VERSION)
    return bytes(out) + name
