"""The argument block: the one contract between generated code and the launch path.

A compiled kernel is ``void kernel(int64 block, int64 lo, int64 hi)``: it executes the threads ``lo <= t < hi`` of a
launch, where ``t`` is the flattened (row-major) thread index. ``block`` is the address of an argument block: a header
of int64 fields, then the parameters in order, each aligned to 8 bytes:

=========  ==========================================================================================
array      data pointer, ``shape[0..ndim)`` in elements, ``strides[0..ndim)`` in bytes (all int64)
scalar     its bytes at the start of an 8-byte slot (a bool is one byte; float16 and bfloat16 parameters
           are passed as float32)
composite  its components one after the other, row-major, padded to a multiple of 8 bytes
=========  ==========================================================================================

A kernel that accumulates to uniform addresses (mode ``reduce``) has ``sites`` partial sums: chunk ``c`` (``lo //
chunk``) writes its 8-byte partial of site ``s`` to ``partials[c * sites + s]``, and a second function ``void
finish(int64 block, int64 0, int64 chunks)`` adds them in the order of the chunks to their destinations. A chunk that
is executed writes all its sites; the destination's address is computed by ``finish`` from the block.

The status word is 0 on entry; a kernel that finds an error while running (debug bounds checks) stores a non-zero code.
"""

from __future__ import annotations

from dataclasses import dataclass

from diffkern.ir.types import FLOAT32, STORAGE_ONLY, Array, Mat, Scalar, Type, Vec

STATUS = 0  # address of an int64 status word
DIMS = 8  # four launch dimensions, unused ones 1
CHUNK = 40  # threads in a chunk
PARTIALS = 48  # address of the partial sums
HEADER_SIZE = 56
HEADER_FORMAT = "7q"  # status address, dim0..dim3, chunk, partials
MAX_DIMS = 4


@dataclass(frozen=True, slots=True)
class Field:
    """Where a parameter stands in the block: byte offset and size."""

    offset: int
    size: int


def passed_type(t: Type) -> Type:
    """The type in which a by-value parameter is passed: float16 and bfloat16 scalars travel as float32."""
    if isinstance(t, Scalar) and t in STORAGE_ONLY:
        return FLOAT32
    return t


def field_size(t: Type) -> int:
    """Bytes a parameter takes in the block."""
    if isinstance(t, Array):
        return 8 * (1 + 2 * t.ndim)
    if isinstance(t, Scalar):
        return 8
    if isinstance(t, (Vec, Mat)):
        return (t.itemsize + 7) // 8 * 8
    raise TypeError(f"{t} is not a parameter type")


def layout(types: list[Type]) -> tuple[list[Field], int]:
    """Fields of all parameters and the size of the whole block in bytes."""
    fields, offset = [], HEADER_SIZE
    for t in types:
        size = field_size(t)
        fields.append(Field(offset, size))
        offset += size
    return fields, offset
