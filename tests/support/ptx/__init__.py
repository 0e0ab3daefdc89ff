"""An interpreter of PTX: runs what the compilers for GPUs make of a kernel, with NumPy, where there is no GPU.

``parse`` reads a module; ``table`` has a row for each instruction, with what it computes in ``integers``, ``floats``,
``conversions`` and ``effects``; ``memory`` checks each access against its allocation and its alignment; ``warp``
steps 32 lanes, which part at branches and come together again; ``grid`` gives the warps of all blocks turns of random
length, so that a missing barrier or a missing atomic shows. ``programs``, which alone needs the compiler, runs
functions of the IR and kernels that way.

It follows the PTX ISA. What no compiler has been seen to make is not there: such an instruction raises
:class:`PtxFault` and is a row away. Approximate instructions give what is nearest to the exact result.
"""

from .faults import PtxFault, RaceFault
from .grid import Launch, launch
from .parse import parse

__all__ = ["Launch", "PtxFault", "RaceFault", "launch", "parse"]
