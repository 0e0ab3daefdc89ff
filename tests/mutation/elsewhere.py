"""Faults that the corpus does not show, each with the tests that must notice it.

They stand in guards of zero cotangents, analyses of indices, the frontend, the CPU's backend, the run time and the
cache. The tests named run in a process of their own, into which the fault is put before any of them is imported; one of
them has to fail.
"""

from __future__ import annotations

import math
from dataclasses import replace

from diffkern.ad import singular
from diffkern.analysis import affine
from diffkern.cache import environment, key, manifest, place
from diffkern.contracts import platforms
from diffkern.frontend.builtins import library
from diffkern.frontend.syntax import survey
from diffkern.opt import cse, promote, ranges
from diffkern.runtime.accumulate import copies
from diffkern.runtime.arrays import operation
from diffkern.runtime.effects import tape_needs
from diffkern.runtime.launch import partition
from diffkern.runtime.records import captured, compiled_launch, launch_record
from diffkern.targets.cpu import object_code
from diffkern.targets.cuda import kernel as cuda_kernel
from diffkern.targets.cuda import registers, toolchain
from diffkern.targets.emit import facts, loops, memory, scalars

from .arithmetic import ARITHMETIC
from .edits import Fault, constant, edit, entry

_INDICES = "tests/e2e/test_indices.py"
_ONE_AXIS = f"{_INDICES}::test_one_axis"
_ROWS = f"{_INDICES}::test_rows_columns_and_vectors"
_MEET = f"{_INDICES}::test_threads_meet_only_where_it_is_announced"
_TWO_NAMES = f"{_INDICES}::test_two_names_of_one_element"

_NATIVE = "tests/unit/runtime/cuda/test_cuda_native.py"
_PTX = "tests/unit/targets/cuda/test_ptx_invariants.py"
_KEY = "tests/unit/cache/test_key.py"
_CPU, _CUDA = platforms.FAMILIES

_ZERO = "tests/grad/test_singular.py::test_a_zero_cotangent_stays_zero"
_OVERFLOW = "tests/grad/test_singular.py::test_zero_times_a_derivative_that_overflows"

TARGETED = [
    Fault("loops with long bodies are unrolled, and short ones are not",
          edit(loops, "rolled_if_long", "size > longest", "size <= longest"),
          ("tests/unit/targets/test_long_loops.py::test_a_short_body_does_not",)),
    Fault("a pass over a syntax tree leaves out what stands in lists",
          edit(survey, "walk", "elif isinstance(value, list):", "elif name == 'values':"),
          ("tests/unit/frontend/test_tree_passes.py::test_several_trees",
           "tests/unit/frontend/test_tree_passes.py::test_nodes_are_those_that_python_finds")),
    Fault("a load that LLVM has moved behind a store of its iteration is taken for a right one",
          edit(object_code, "has_sunk_loads", "stored = True", "stored = False"),
          ("tests/unit/targets/test_sunk_loads.py::test_a_masked_load_that_gives_a_chosen_value_behind_a_store",)),
    # guards of zero cotangents
    Fault("a sum with one positive term is positive",
          edit(singular, "Guards._least", "least(a) if self._not_negative(b, depth) else 0.0", "least(a)"),
          (f"{_ZERO}[dk.sqrt(1.0 + a) at (-1.0, 1.0)-float32]",)),
    Fault("any product is not negative",
          edit(singular, "Guards._not_negative", "op.operands[0] is op.operands[1]", "True"),
          (f"{_ZERO}[dk.log(a * b + 1.0) at (1.0, -1.0)-float32]",)),
    Fault("a minimum is as far from zero as either number",
          edit(singular, "Guards._least", 'case "max"', 'case "max" | "min"'),
          (f"{_ZERO}[dk.log(dk.min(a, 0.5)) at (0.0, 1.0)-float32]",)),
    Fault("what is not negative is far from zero",
          edit(singular, "Guards._least", "max(lookup(name).least or 0.0, 0.0)", "(lookup(name).least is not None)"),
          (f"{_ZERO}[dk.sqrt(dk.exp(a)) at (-10000.0, 1.0)-float32]",)),
    Fault("a literal divides by what it is in the source",
          edit(singular, "Guards._literal", 'rounded(op.attrs["value"], v.type)', 'op.attrs["value"]'),
          (f"{_ZERO}[a / 1e-60 at (0.0, 1.0)-float32]",)),
    Fault("subnormal numbers are far from zero", edit(singular, "_normal", "2.0**-126", "0.0"), (_OVERFLOW,)),
    Fault("what is bounded away from zero has a finite inverse square",
          constant(singular, "_LARGEST", math.inf), (_OVERFLOW,)),
    # analyses
    Fault("a remainder of a negative divisor is never negative",
          edit(ranges, "Ranges.bound", "return 0 if b is not None and b >= 0 else None", "return 0"),
          (f"{_ONE_AXIS}[i % -3]",)),
    Fault("an absolute value is never negative",
          edit(ranges, "Ranges.bound", "least is not None and least > ~self.high_of_type(op.result)", "True"),
          (f"{_ONE_AXIS}[dk.abs(dk.int8(i))]",)),
    Fault("narrower integers keep their bounds",
          constant(ranges, "_keeps_value", lambda op: True), (f"{_ONE_AXIS}[dk.int8(i)]",)),
    Fault("a narrowing cast is affine",
          edit(affine, "widens", "and to.bits >= source.bits", ""), (f"{_MEET}[dk.int8(i)-guarded]",)),
    Fault("wrapped indices are distinct",
          edit(promote, "_Promoter.distinct", "a in self.wrapped or b in self.wrapped", "False"), (_TWO_NAMES,)),
    Fault("a difference is commutative",
          edit(cse, "eliminate_common", "if row.commutative:", 'if row.commutative or op.name == "sub":'),
          ("tests/unit/opt/test_order_of_operands.py",)),
    # frontend and backend
    Fault("degrees with a wrong factor", entry(library._TABLE, "degrees", library._TABLE["radians"]),
          ("tests/e2e/test_builtins.py::test_numbers[dk.degrees(a)-float32]",)),
    Fault("an index is not narrowed",
          edit(facts, "_exact", 'op.name in CASTS and _bits(result) < _bits(op.operands[0])', "False"),
          (f"{_ONE_AXIS}[dk.int32(w[i])]",)),
    Fault("negative indices do not wrap in strided arrays",
          edit(memory, "address", "if w else i for", 'if w and array.type.layout != "A" else i for'),
          (f"{_ONE_AXIS}[i - n]",)),
    Fault("the last index does not wrap",
          edit(memory, "address", "for i, n, w in zip(indices, array.shape, wrap, strict=True)",
               "for i, n, w in zip(indices, array.shape, (*wrap[:-1], False), strict=True)"),
          (f"{_ROWS}[i]",)),
    Fault("an atomic maximum is a minimum",
          edit(memory, "combination", '"<=" if kind == "min" else ">="', '"<="'), ("tests/e2e/test_extrema.py",)),
    Fault("a remainder keeps the sign of the dividend",
          edit(scalars, "_float_divmod", "b.select(fix, b.fadd(rest, y),", "b.select(fix, rest,"),
          ("tests/e2e/test_builtins.py::test_numbers[dk.mod(a, b)-float64]",)),
    # CUDA
    Fault("a component of a vector has the whole element's alignment",
          edit(memory, "tag",
               "math.gcd(array.align, array.offset + k * scalar_of(array.type.dtype).itemsize)", "array.align"),
          (f"{_PTX}::test_what_the_corpus_has_too_little_of",)),
    Fault("an array that is written by atomics alone is taken for constant",
          edit(cuda_kernel, "_Kernel.separate", 'op.name in ELEMENT_WRITES',
               'op.name in ("store", "accumulate")'),
          (f"{_PTX}::test_what_the_corpus_has_too_little_of",)),
    Fault("atomics are atomic within a block alone",
          constant(registers, "_PLACES", {k: v.replace("gpu", "cta") for k, v in registers._PLACES.items()}),
          (f"{_PTX}::test_a_case[memory.scatter_add]",)),
    Fault("exchanges are atomic within a block alone",
          edit(toolchain, "ptx", '"atom.relaxed.gpu.global.cas"', '"atom.relaxed.cta.global.cas"'),
          (f"{_PTX}::test_a_case[memory.scatter_max]",)),
    # run time
    Fault("work on a stream does not raise versions",
          edit(operation, "run", "operation.touch()\n        stream.enqueue", "stream.enqueue"),
          ("tests/unit/runtime/test_stream_versions.py",)),
    Fault("chunks of two colours are as short as others",
          edit(partition, "partition", "grain, c.add(distance, 1)", "grain, 1"),
          ("tests/unit/runtime/test_schedule.py",)),
    Fault("a private copy is not added",
          edit(copies, "Copies.add_up", "np.add.reduce(self._parts, axis=0)", "np.add.reduce(self._parts[1:], axis=0)"),
          ("tests/grad/test_launched.py::test_backward_through_a_launch[memory.gather]",
           f"{_ONE_AXIS}[i % -3]")),
    Fault("a tape does not keep what is overwritten",
          edit(tape_needs, "TapeNeeds._before_overwrite", "step.take_copy(", "(lambda *a, **k: None)("),
          ("tests/e2e/test_tape_programs.py",)),
    # launches in native code
    Fault("a graph does not hear of other numbers",
          edit(launch_record, "LaunchRecord._renew", "self._stamp.renew()", "pass"),
          (f"{_NATIVE}::test_graphs_follow_every_change_of_their_parameters",)),
    Fault("launches of a graph are no changes",
          edit(captured, "Captured._count_for", "memory.count_with(self._launches)", "pass"),
          (f"{_NATIVE}::test_versions_count_every_launch", f"{_NATIVE}::test_a_tape_notices_a_graph")),
    Fault("libraries that count changes are not told of a record's",
          edit(compiled_launch, "CompiledLaunch.__init__", "any(memory.is_counted for memory in written)", "False"),
          (f"{_NATIVE}::test_libraries_that_count_changes_are_told",)),
    # cache
    Fault("a key does not separate its fields",
          edit(key, "key", 'state.update(len(value).to_bytes(8, "little"))', "pass"),
          ("tests/unit/cache/test_key.py",)),
    Fault("the IR and its operations have no say in the key",
          constant(environment, "_COMPILE_SIDE", tuple(p for p in environment._COMPILE_SIDE if p != "ir")),
          (f"{_KEY}::test_every_module_that_compiles_counts",)),
    Fault("the processor that numba is told has no say in the key",
          constant(platforms, "FAMILIES", (replace(_CPU, settings=()), _CUDA)),
          (f"{_KEY}::test_what_the_environment_says_counts",)),
    Fault("the library that makes products has no say in the key",
          constant(platforms, "FAMILIES", (_CPU, replace(_CUDA, compilers=_CUDA.compilers[:3]))),
          (f"{_KEY}::test_versions_of_compilers_count",)),
    Fault("a manifest is believed whatever its digest",
          edit(manifest, "parse", "end != digest(covered).encode() + _AFTER_DIGEST", "False"),
          ("tests/unit/cache/test_store.py::test_no_flipped_bit_is_believed",)),
    Fault("what others can write to is loaded",
          edit(place, "is_private", "and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)", ""),
          ("tests/unit/cache/test_store.py::test_what_others_can_write_to_is_not_loaded",)),
    Fault("a damaged file is loaded",
          edit(manifest, "_files", "digests[name] != digest(data)", "False"), ("tests/unit/cache/test_store.py",)),
    *ARITHMETIC,
]  # fmt: skip
