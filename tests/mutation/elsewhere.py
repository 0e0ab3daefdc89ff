"""Faults outside of differentiation, each with the tests that must notice it.

They stand in analyses of indices, in the frontend, the CPU's backend, the run time and the cache. The tests named run
in a process of their own, into which the fault is put before any of them is imported; one of them has to fail.
"""

from __future__ import annotations

from diffkern.backends.llvm import facts, memory, scalars
from diffkern.cache import key, manifest
from diffkern.frontend import library
from diffkern.passes import affine, cse, promote, ranges
from diffkern.runtime import copies, operation, schedule, tape

from .edits import Fault, constant, edit, entry

_INDICES = "tests/e2e/test_indices.py"
_ONE_AXIS = f"{_INDICES}::test_one_axis"
_ROWS = f"{_INDICES}::test_rows_columns_and_vectors"
_MEET = f"{_INDICES}::test_threads_meet_only_where_it_is_announced"
_TWO_NAMES = f"{_INDICES}::test_two_names_of_one_element"

TARGETED = [
    # analyses
    Fault("a remainder of a negative divisor is never negative",
          edit(ranges, "_Ranges.bound", "return 0 if b is not None and b >= 0 else None", "return 0"),
          (f"{_ONE_AXIS}[i % -3]",)),
    Fault("an absolute value is never negative",
          edit(ranges, "_Ranges.bound", "least is not None and least > ~self.high_of_type(op.result)", "True"),
          (f"{_ONE_AXIS}[dk.abs(dk.int8(i))]",)),
    Fault("narrower integers keep their bounds",
          constant(ranges, "_keeps_value", lambda op: True), (f"{_ONE_AXIS}[dk.int8(i)]",)),
    Fault("a narrowing cast is affine",
          edit(affine, "_widens", "and to.bits >= source.bits", ""), (f"{_MEET}[dk.int8(i)-guarded]",)),
    Fault("wrapped indices are distinct",
          edit(promote, "_Promoter.distinct", "a in self.wrapped or b in self.wrapped", "False"), (_TWO_NAMES,)),
    Fault("a difference is commutative",
          constant(cse, "_COMMUTATIVE", cse._COMMUTATIVE | {"sub"}), ("tests/unit/passes/test_order_of_operands.py",)),
    # frontend and backend
    Fault("degrees with a wrong factor", entry(library._TABLE, "degrees", library._TABLE["radians"]),
          ("tests/e2e/test_builtins.py::test_numbers[dk.degrees(a)-float32]",)),
    Fault("an index is not narrowed",
          edit(facts, "_exact", 'op.name == "cast" and _bits(result) < _bits(op.operands[0])', "False"),
          (f"{_ONE_AXIS}[dk.int32(w[i])]",)),
    Fault("negative indices do not wrap in strided arrays",
          edit(memory, "address", "if w else i for", 'if w and array.type.layout != "A" else i for'),
          (f"{_ONE_AXIS}[i - n]",)),
    Fault("the last index does not wrap",
          edit(memory, "address", "for i, n, w in zip(indices, array.shape, wrap, strict=True)",
               "for i, n, w in zip(indices, array.shape, (*wrap[:-1], False), strict=True)"),
          (f"{_ROWS}[i]",)),
    Fault("an atomic maximum is a minimum",
          edit(memory, "_combination", '"<=" if kind == "min" else ">="', '"<="'), ("tests/e2e/test_extrema.py",)),
    Fault("a remainder keeps the sign of the dividend",
          edit(scalars, "_float_divmod", "b.select(fix, b.fadd(rest, y),", "b.select(fix, rest,"),
          ("tests/e2e/test_builtins.py::test_numbers[dk.mod(a, b)-float64]",)),
    # run time
    Fault("work on a stream does not raise versions",
          edit(operation, "perform", "operation.touch()\n        stream.enqueue", "stream.enqueue"),
          ("tests/unit/runtime/test_stream_versions.py",)),
    Fault("chunks of two colours are as short as others",
          edit(schedule, "plan_adjoint", "at_least=distance + 1", "at_least=1"),
          ("tests/unit/runtime/test_schedule.py",)),
    Fault("a private copy is not added",
          edit(copies, "Copies.add_up", "np.add.reduce(self._parts, axis=0)", "np.add.reduce(self._parts[1:], axis=0)"),
          ("tests/grad/test_launched.py::test_backward_through_a_launch[memory.gather]",
           f"{_ONE_AXIS}[i % -3]")),
    Fault("a tape does not keep what is overwritten",
          edit(tape, "Tape._before_overwrite", "need.step.contents[need.index] = self._snapshot(needed)", "pass"),
          ("tests/e2e/test_tape_programs.py",)),
    # cache
    Fault("a key does not separate its fields",
          edit(key, "key", 'state.update(len(value).to_bytes(8, "little"))', "pass"),
          ("tests/unit/cache/test_key.py",)),
    Fault("a damaged file is loaded",
          edit(manifest, "decode", "digests[name] != digest(data)", "False"), ("tests/unit/cache/test_store.py",)),
]  # fmt: skip
