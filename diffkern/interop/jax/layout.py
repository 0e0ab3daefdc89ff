"""The layout of a call's description, as native code reads it.

This module defines the positions of the fields, in bytes, of the records that
:mod:`~diffkern.interop.jax.call_encoding` writes and :mod:`~diffkern.interop.jax.handler` reads. All fields are 64-bit
words; an address is one within the process, and an offset counts bytes from the beginning of the description.

A call is a list of steps over buffers: the operands, then the results. A step copies an operand to a result, clears a
result, or launches a program.
"""

from __future__ import annotations

from typing import Final

# -- what a handler's module exports: itself, the registry's address, that of the driver's functions -------------------
HANDLER, REGISTRY, DRIVER = "dk_xla_handler", "dk_xla_registry", "dk_xla_driver"

# -- the attribute ``call`` of a custom call: an array of words --------------------------------------------------------
CALL_KEY: Final = 0  # two words
CALL_BATCHED: Final = 2  # bit k: operand k has a leading batch axis
CALL_FLAGS: Final = 3  # bit 0: there is a batch
CALL_DIMS: Final = 4  # four dims per launch; none where operands carry them
HAS_BATCH: Final = 1

# -- the registry: mask, then slots of (key, key, address of the description) ------------------------------------------
SLOT_WORDS: Final = 3

# -- a description -----------------------------------------------------------------------------------------------------
OPERANDS: Final = 0  # operands, without those that carry dims
RESULTS: Final = 8
LAUNCHES: Final = 16
STEPS: Final = 24  # number of steps
FIRST_STEP: Final = 32  # offset
BUFFERS: Final = 40  # offset of the buffers
NAME: Final = 48  # address of a C string
POOL: Final = 56  # address of the thread pool's entry, 0 without one
HEADER: Final = 64

# A buffer.
BUFFER_TYPE: Final = 0  # XLA_FFI_DataType
BUFFER_RANK: Final = 8
BUFFER_ITEM: Final = 16  # bytes of one scalar
BUFFER_BYTES: Final = 24

# A step.
STEP_KIND: Final = 0
STEP_BYTES: Final = 8  # to the next step
COPY, CLEAR, LAUNCH = 0, 1, 2
COPY_FROM: Final = 16
COPY_TO: Final = 24
CLEAR_BUFFER: Final = 16
CLEAR_AXES: Final = (
    24  # the launch overwrites all if its first dims are that many axes of the shape; 0 if it never does
)
CLEAR_LAUNCH: Final = 32

LAUNCH_INDEX: Final = 16
LAUNCH_PLAIN: Final = 24  # a program that accumulates plainly
LAUNCH_ATOMIC: Final = 80  # one that does so atomically, or zeros
LAUNCH_ARITY: Final = 136
LAUNCH_FLAGS: Final = 144
LAUNCH_REACH: Final = 152  # four words
LAUNCH_PARAMS: Final = 184
LAUNCH_BLOCK: Final = 192  # bytes of the argument block
LAUNCH_MESSAGES: Final = 200  # address of the messages of a debug program, 0 in release
LAUNCH_SITES: Final = 208
LAUNCH_STAMPS: Final = 216  # number of stamps; their parameters follow the parameters
LAUNCH_COST: Final = 224  # rough operations of a thread, in units of partition.COST_UNIT
LAUNCH_COTANGENTS: Final = 232  # number of cotangents in which threads might race
LAUNCH_COPIES: Final = 240  # distance from the beginning of the step to their entries, which follow the stamps
LAUNCH_THREADS: Final = 248  # threads of a block where these work together, else 0
LAUNCH_BYTES: Final = 256
IS_ADJOINT: Final = 1
IS_GENERAL: Final = 2

# A program.
PROGRAM_FUNCTION: Final = 0
PROGRAM_FINISH: Final = 8
PROGRAM_SUMS: Final = 16
PROGRAM_CHUNK: Final = 24  # threads that are worth a chunk
PROGRAM_LANES: Final = 32  # threads that run in a vector register
PROGRAM_GROUP: Final = 40  # threads that run in several
PROGRAM_CORES: Final = 48  # processors that the process may use
PROGRAM_WORDS: Final = 7
# A program on a GPU has other facts in the same places.
DEVICE_KERNEL: Final = 0  # a CUkernel, which is good for every device
DEVICE_BLOCKS: Final = 8  # most blocks of a grid
DEVICE_SHARED: Final = 16  # bytes of dynamic shared memory
DEVICE_THREADS: Final = 24  # threads of a block
DEVICE_SHARE: Final = 32  # how much of what is launched a block does: its threads, or 1 if blocks are launched

# -- the driver's functions, as addresses ------------------------------------------------------------------------------
DRIVER_LAUNCH: Final = 0  # cuLaunchKernel
DRIVER_CLEAR: Final = 8  # cuMemsetD8Async
DRIVER_COPY: Final = 16  # cuMemcpyAsync
DRIVER_FUNCTION: Final = 24  # cuKernelGetFunction

# A parameter of a launch.
PARAM_KIND: Final = 0
PARAM_BUFFER: Final = 8
PARAM_COUNT: Final = 16  # axes of an array, bytes of a value
PARAM_ITEM: Final = 24  # bytes of an element
PARAM_WORDS: Final = 32  # address of shape and strides of a view, or of the bytes of a constant
PARAM_START: Final = 40  # where a view begins in the buffer, in bytes
PARAM_BYTES: Final = 48
ARRAY, VALUE, VIEW, CONSTANT = 0, 1, 2, 3

# A cotangent in which threads might race.
COPY_BUFFER: Final = 0
COPY_OFFSET: Final = 8  # where the argument block has its address
COPY_ITEM: Final = 16  # bytes of a scalar
COPY_FLAGS: Final = 24
COPY_BYTES: Final = 32
RACES: Final = 1  # they do if each has an index of its own
COPYABLE: Final = 2  # a copy may stand in for it

# A message of a debug program: address of a format with up to twelve numbers, then which of the sixteen they are.
MESSAGE_FORMAT: Final = 0
MESSAGE_ORDER: Final = 8
MESSAGE_NUMBERS: Final = 12
MESSAGE_BYTES: Final = 8 + 8 * MESSAGE_NUMBERS
