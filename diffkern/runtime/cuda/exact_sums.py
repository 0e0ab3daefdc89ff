"""Launches of programs that add up floats exactly: memory for the rows of digits, and the kernels after the launch.

:mod:`diffkern.contracts.exact_sums` describes the rows. Their memory is allocated and cleared for each launch, and
freed in the order of its stream; each launch in a graph has its own as long as the graph.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from diffkern.cache.manifest import StoredArtifact
from diffkern.contracts import abi
from diffkern.contracts.argument_block import Layout
from diffkern.contracts.exact_sums import DIGITS, FINISH_THREADS, Digits, Finish, finish_symbol
from diffkern.errors import CudaError
from diffkern.ir.types import Array, parse_type, scalar_of
from diffkern.runtime.cuda.context import CudaDevice
from diffkern.runtime.cuda.memory import DeviceMemory, allocate

__all__ = ["ExactSums", "KernelLaunch"]

_WARP = 32
_MOST_COPIES = 32
_COPIES_BYTES = 1 << 20
"""Of all copies of the rows of an array; more elements are rarely met by many threads at a time."""
_MOST_BLOCKS = 1 << 16
_tail = struct.Struct("3q")


class KernelLaunch(NamedTuple):
    """A function, the blocks and threads of a launch, its shared memory and its argument block."""

    function: int
    blocks: int
    threads: int
    shared: int
    block: bytes


class _Summed(NamedTuple):
    """An array whose elements are added up."""

    ndim: int
    components: int
    itemsize: int
    digits: Digits
    finish: int


class ExactSums:
    """The exact sums of a program.

    Parameters
    ----------
    device : CudaDevice
        The device it runs on.
    entry : StoredArtifact
        Its artifact.
    layout : Layout
        The layout of its argument block.
    title : str
        The program's title, for messages.
    """

    __slots__ = ("_arrays", "_device", "_fields", "_title")

    def __init__(self, device: CudaDevice, entry: StoredArtifact, layout: Layout, title: str) -> None:
        self._device, self._title = device, title
        self._arrays: list[_Summed] = []
        for k in entry.manifest.exact:
            t = parse_type(entry.manifest.params[k].type)
            assert isinstance(t, Array)
            s = scalar_of(t.dtype)
            finish = device.function(entry, finish_symbol(entry.symbols[0], str(s)))
            components = t.dtype.itemsize // s.itemsize
            self._arrays.append(_Summed(t.ndim, components, s.itemsize, DIGITS[str(s)], finish))
        self._fields = layout.descriptions((k, a.ndim) for k, a in zip(entry.manifest.exact, self._arrays, strict=True))

    def around(self, main: KernelLaunch) -> tuple[list[KernelLaunch], DeviceMemory | None]:
        """Return a launch with the memory for its sums, the launches after it, and that memory.

        Raises
        ------
        CudaError
            If there is no room for it.
        """
        blocks, nbytes = self._blocks(main)
        memory = self._rows(nbytes) if nbytes else None
        first = 0 if memory is None else memory.address
        placed = [block._replace(rows=first + block.rows) for block in blocks]
        tail = b"".join(_tail.pack(block.rows, block.stride, block.copies - 1) for block in placed)
        launches = [main._replace(block=main.block + tail)]
        for array, block in zip(self._arrays, placed, strict=True):
            # Where one number is several elements, these take turns.
            is_spread = _is_spread(block.shape, block.strides, array.components * array.itemsize)
            threads = FINISH_THREADS if is_spread else 1
            if block.scalars:
                count = min(-(-block.scalars // threads), _MOST_BLOCKS) if is_spread else 1
                launches.append(KernelLaunch(array.finish, count, threads, 0, block.packed()))
        return launches, memory

    def _blocks(self, main: KernelLaunch) -> tuple[list[Finish], int]:
        """Return the blocks of the launches after it, with places of rows from 0 on, and the bytes of all rows."""
        numbers = self._fields(memoryview(main.block)[abi.HEADER_SIZE :])
        found, nbytes, at = [], 0, 0
        for array in self._arrays:
            address, *axes = numbers[at : at + 1 + 2 * array.ndim]
            at += 1 + 2 * array.ndim
            shape, strides = tuple(axes[: array.ndim]), tuple(axes[array.ndim :])
            count = math.prod(shape) * array.components
            stride = count * array.digits.nbytes
            copies = _copies(stride, main.blocks * main.threads)
            found.append(Finish(address, nbytes, count, copies, stride, array.components, shape, strides))
            nbytes += copies * stride
        return found, nbytes

    def _rows(self, nbytes: int) -> DeviceMemory:
        try:
            _, memory = allocate(self._device, (nbytes // 8,), np.dtype(np.int64), True)
        except CudaError as error:
            raise CudaError(
                f"{self._title} is deterministic, and its exact sums take {nbytes} bytes: {error.message}",
                remedy="add to smaller arrays, or leave deterministic out",
                call=error.call,
                code=error.code,
            ) from None
        self._device.keep(memory)
        return memory


def _copies(nbytes: int, threads: int) -> int:
    """Return the number of copies of rows: as many as there are warps, within limits."""
    copies = 1
    while copies < _MOST_COPIES and 2 * copies * nbytes <= _COPIES_BYTES and 2 * copies * _WARP <= threads:
        copies *= 2
    return copies


def _is_spread(shape: Sequence[int], strides: Sequence[int], itemsize: int) -> bool:
    """Return whether no two elements of an array share memory, as far as extents and strides tell."""
    reach = itemsize
    for stride, extent in sorted((abs(stride), extent) for stride, extent in zip(strides, shape, strict=True)):
        if extent > 1:
            if stride < reach:
                return False
            reach += stride * (extent - 1)
    return True
