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

The lowest bit of the address is 1 where no other thread works on the launch, and none updates the same elements for
another one: then atomic updates are plain ones. Only programs whose manifest says ``updates`` are told so.

A kernel of a GPU has neither chunks nor partial sums, and finds other fields in their place: what
:func:`diffkern.contracts.division.divider` gives for the extents but the first, three multipliers of 32 bits and three
shifts of 8, and a byte of bits. The highest one, its sign, is 1 where no thread of its grid has a second thread of the
launch to run; the others are the arrays of the program's manifest (``gpu.zeroed``), each 1 if all that the launch reads
of that array is zero when it begins, and need not be read.

A debug program, and one that prints, finds in the status the address of a record of int64 fields; others do not touch
it. All but the last two are 0 on entry, and the first thread that causes an error fills them in:

===========  ========================================================================================
code         one of the codes below; 0 as long as there was no error
site         number of the place in the source; the manifest has the positions
thread       flattened index of the thread
other        the other thread, of two that store to one element
index        four fields: the index as written, of an access
shape        four fields: the array's shape, of an access
output       address of the buffer for what threads print; 0 for none
stamps       for each array with plain stores the address of one int64 per element, which holds 1 + the
             flattened index of the thread that stored there, 0 for none; address 0 where nothing is to be checked
===========  ========================================================================================

The buffer is of int64 words: the next free word, how many words there are, how many texts found no room, then the
texts. Each is 1 + the number of the place in the program, the flattened index of the thread, and a word for each value:
an integer extended by its sign or by zeros, a float as the bits of a float64. The words behind the last text are 0.
"""

from __future__ import annotations

from diffkern.ir.types import FLOAT32, STORAGE_ONLY, Array, Mat, Scalar, Type, Vec
from diffkern.process.dataclass import dataclass

STATUS = 0  # address of the record of errors found while running
DIMS = 8  # four launch dimensions, unused ones 1
CHUNK = 40  # threads in a chunk
PARTIALS = 48  # address of the partial sums
MULTIPLIERS = CHUNK  # on a GPU, of three extents: 32 bits each
SHIFTS = 52  # on a GPU, of three extents: 8 bits each
GPU_BITS = 55  # on a GPU: 8 bits
ONE_ROUND = 128  # of them: each thread of the grid runs at most one of the launch
MOST_ZEROED = 7  # the other bits: arrays that are known to be zero
ALONE = 1  # in the address of the block
HEADER_SIZE = 56
HEADER_FORMAT = "7q"  # status address, dim0..dim3, chunk, partials
GPU_HEADER_FORMAT = "5q3I4B"  # status address, dim0..dim3, multipliers, shifts, bits
MAX_DIMS = 4
CUDA_GRID_THREADS = 2**31  # most threads of a grid on CUDA; a launch with more goes round in each of them

OUT_OF_BOUNDS = 1  # an index is outside its array
ZERO_DIVISION = 2  # an integer is divided by 0
ZERO_STEP = 3  # the step of a range is 0
TWO_WRITERS = 4  # two threads store to one element
ASSERTION = 5  # an assertion does not hold

# Fields of the record, counted in int64.
RECORD_CODE = 0
RECORD_SITE = 1
RECORD_THREAD = 2
RECORD_OTHER = 3
RECORD_INDEX = 4
RECORD_SHAPE = 8
RECORD_ERROR = 12  # how many of them describe an error
RECORD_OUTPUT = 12
RECORD_STAMPS = 13

# Words of the buffer for what threads print.
OUTPUT_NEXT = 0
OUTPUT_WORDS = 1
OUTPUT_LOST = 2
OUTPUT_TEXTS = 3


@dataclass(frozen=True, slots=True)
class Field:
    """The position of a parameter in the argument block: byte offset and size."""

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
        return 8 * (1 + 2 * (t.outer or t.ndim))
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
