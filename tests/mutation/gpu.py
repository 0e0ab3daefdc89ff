"""Faults that only a GPU would show, each with the tests that must notice it by executing the PTX."""

from __future__ import annotations

import dataclasses

from diffkern.runtime.cuda import allocation, preconditions
from diffkern.targets.cuda import body, compiler
from diffkern.targets.cuda import kernel as cuda_kernel
from diffkern.targets.emit import checkpoint

from .edits import Fault, constant, edit

_EXECUTED = "tests/e2e/test_executed_ptx.py"
_ODD = f"{_EXECUTED}::test_atomic_updates_stay_inside_odd_arrays"
_POINTED = "tests/unit/runtime/cuda/test_cuda_pointed.py"
_SCHEDULE = "tests/unit/targets/test_checkpoint_schedule.py"
_SWEEPS = f"{_SCHEDULE}::test_lengths_at_which_the_number_of_sweeps_changes"

TARGETED = [
    Fault("vectors of 24 bytes are read 16 bytes at a time",
          edit(cuda_kernel, "alignment", "math.gcd(t.dtype.itemsize, 16)", "16"),
          (f"{_EXECUTED}::test_vectors_of_24_bytes_are_not_read_16_bytes_at_a_time",)),
    Fault("the word around 16 bits is exchanged",
          constant(compiler, "_ISA", dataclasses.replace(compiler._ISA, exchange_bits=32, exchange=None)),
          (f"{_ODD}[float16-llvm]",)),
    Fault("pairs of halves are added to beyond the end of an array",
          edit(body, "CudaBody.add_halves", "i64(4)), end", "i64(2)), end"),
          (f"{_EXECUTED}::test_sums_of_halves_stay_inside_odd_arrays",)),
    Fault("memory on a GPU is not of whole words",
          edit(allocation, "AllocatingDevice._allocate", "-(-memory.nbytes // _WORD) * _WORD", "memory.nbytes"),
          (f"{_EXECUTED}::test_odd_arrays_in_memory_of_diffkern[int8]",)),
    Fault("elements that hold descriptors have the axes of the arrays in them",
          edit(preconditions, "ArrayRules.__init__", "t = t.held", "pass"),
          (f"{_POINTED}::test_elements_with_two_axes_and_records",)),
    Fault("descriptors are aligned as the numbers that they lead to",
          edit(cuda_kernel, "alignment", "t = t.held", "pass"),
          (f"{_POINTED}::test_descriptors_are_read_by_words",)),
    Fault("snapshots are as far apart as one sweep less reaches",
          edit(checkpoint, "_define_schedule", 'b.select(b.icmp_unsigned("<", before, rest), before, rest)', "before"),
          (f"{_SCHEDULE}::test_every_short_length",)),
    Fault("the steps that a sweep adds have 32 bits",
          edit(checkpoint, "_define_schedule", "b.mul(b.zext(quotient, I64), b.zext(s, I64))",
               "b.zext(b.mul(quotient, s), I64)"), (_SWEEPS,)),
    Fault("what is left of a quotient of steps is lost",
          edit(checkpoint, "_define_schedule", "b.udiv(b.mul(left, s), r)", "b.mul(b.udiv(left, r), s)"),
          (f"{_SCHEDULE}::test_every_short_length",)),
    Fault("threads of a block do not wait for each other on a GPU",
          edit(body, "CudaBody.barrier", "synchronize(self.builder)", "pass"),
          (f"{_EXECUTED}::test_a_missing_barrier_is_noticed",)),
    Fault("lanes beyond the end of a warp are summed",
          edit(cuda_kernel, "_Kernel.warp_sum", "b.select(present, total, value)", "total"),
          (f"{_EXECUTED}::test_interleaved_blocks_of_three[memory.uniform_loss]",)),
]  # fmt: skip
