"""Faults that change which operations run, or how adjoints accumulate, and no result."""

from __future__ import annotations

from diffkern.runtime.arrays import operation
from diffkern.runtime.effects import cotangents, operation_step, tape
from diffkern.runtime.launch import derivative

from .edits import Fault, edit

_TRACE = "tests/golden/test_traces.py::test_trace"

TRACES = [
    Fault("gradients that are zero are set to zero again",
          edit(tape, "Tape.zero", "is_replayed or not a._memory.is_zero or _is_captured(a)", "True"),
          (f"{_TRACE}[tapes_zero_and_reset]",)),
    Fault("a copy is taken back before the cotangent of its goal is cleared",
          edit(operation, "Copy.vjp", "Assign(ct_goal, 0), Add(ct_source, moved)",
               "Add(ct_source, moved), Assign(ct_goal, 0)"),
          (f"{_TRACE}[tapes_copies_and_fills]",)),
    Fault("steps that no gradient reaches have adjoints",
          edit(operation_step, "OperationStep.prepare", "if held._memory in live:", "if True:"),
          (f"{_TRACE}[tapes_copies_and_fills]",)),
    Fault("gradients are put aside in the order of a set",
          edit(tape, "Tape._sweep", "memory for memory in self._owners if memory in self._written",
               "memory for memory in reversed(self._owners) if memory in self._written"),
          (f"{_TRACE}[rollouts_one_slot]",)),
    Fault("a gradient is put aside without need",
          edit(cotangents, "may_differ_from_zero", "not grad._memory.is_zero", "True"),
          (f"{_TRACE}[tapes_in_place]",)),
    Fault("threads that race within bounds have copies",
          edit(derivative, "DerivativePlan.conflicts", 'all_general or c.kind == "general"',
               'all_general or c.kind != "own"'),
          ("tests/golden/test_choices.py::test_choices",)),
]  # fmt: skip
