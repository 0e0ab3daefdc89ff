"""The CPU target: a function of the IR to object code.

Any function that the verifier accepts, with the symbol it is to have, becomes a
:class:`~diffkern.targets.target.CompiledKernel` whose functions follow ``diffkern.contracts.abi`` and need no symbols
from outside except functions of libm.
"""

from __future__ import annotations

from collections.abc import Sequence

from diffkern.ad.loops import StackBudget
from diffkern.analysis.blocks import is_simt
from diffkern.analysis.conflicts import finalize_blocks, use_atomics
from diffkern.analysis.coverage import store_sums
from diffkern.contracts.manifest import Conflict
from diffkern.ir.nodes import Function, Value
from diffkern.ir.passes import Pass
from diffkern.ir.stages import CPU, LOOPS, PROGRAM, SERIAL
from diffkern.lower.component_stores import store_components
from diffkern.lower.composites import expand_composites
from diffkern.lower.fission import to_blocks
from diffkern.lower.marks import mark_as_written
from diffkern.lower.pointed import arrays_at_addresses
from diffkern.lower.polygammas import expand_polygammas
from diffkern.lower.tiles.serial import lower_tiles
from diffkern.opt.branch_sums import sum_branches
from diffkern.opt.dce import eliminate
from diffkern.opt.fold import decide
from diffkern.opt.late_fields import load_fields_late
from diffkern.opt.root_orders import compare_operands_of_roots
from diffkern.opt.trip_loads import load_once
from diffkern.opt.trip_sums import sum_trips
from diffkern.printing.python import to_python
from diffkern.targets.cpu import object_code
from diffkern.targets.cpu.kernel import CpuModule, emit_kernel
from diffkern.targets.emit.checks import Checking
from diffkern.targets.target import USUAL, CompiledKernel, Settings, Target

__all__ = ["LOWERING", "CpuTarget", "target"]

STACK_BYTES = 32 * 1024
TILE_STACK_BYTES = 2 * 1024 * 1024
"""For loops that carry tiles."""
EVERY_STATE = 200
"""Operations of a loop's body up to which the adjoint goes back by segments, and has its iterations three times."""

_VECTORS = "vector.body:"
"""LLVM's label of a vectorised loop."""

TRIP_SUMS = Pass("trip-sums", SERIAL, SERIAL, sum_trips)
TRIP_LOADS = Pass("trip-loads", SERIAL, SERIAL, load_once)  # of what loops still add to
BRANCH_SUMS = Pass("branch-sums", SERIAL, SERIAL, sum_branches)  # what loops add behind them joins these
LATE_FIELDS = Pass("late-fields", SERIAL, SERIAL, load_fields_late)
_OF_LAUNCHES = (TRIP_SUMS, TRIP_LOADS, BRANCH_SUMS, LATE_FIELDS)
"""Passes that rely on what a launch ensures of the memory of its arrays."""
LOWERING = (
    Pass("tiles", PROGRAM, LOOPS, lower_tiles),
    Pass("decided", LOOPS, LOOPS, decide),
    Pass("blocks", LOOPS, SERIAL, to_blocks),
    *_OF_LAUNCHES,
    Pass("polygammas", SERIAL, SERIAL, expand_polygammas),
    Pass("component-stores", SERIAL, SERIAL, store_components),
    Pass("composites", SERIAL, CPU, expand_composites),
    Pass("root-orders", CPU, CPU, compare_operands_of_roots),  # behind composites, whose lengths are roots
    Pass("pointed", CPU, CPU, arrays_at_addresses),
    Pass("dce", CPU, CPU, eliminate),
    Pass("as-written", CPU, CPU, mark_as_written),
)


class CpuTarget(Target):
    """A processor: ``native``, ``x86-64-v2``, ``x86-64-v3``, ``x86-64-v4`` or ``aarch64``."""

    simt = False
    shared_bytes = None

    def stack_budget(self, given: int | None, slots: int | None) -> StackBudget:
        return StackBudget(given or STACK_BYTES, slots, given or TILE_STACK_BYTES, every=EVERY_STATE)

    def finalize(
        self, fn: Function, buffers: Sequence[Value], conflicts: Sequence[Conflict], accumulate: str
    ) -> tuple[Conflict, ...]:
        # The launch asks for atomics if buffers overlap or the analysis does not hold for its dimensions.
        if accumulate == "atomic":
            use_atomics(fn, buffers)
        elif is_simt(fn):
            return finalize_blocks(fn, buffers, conflicts)
        elif accumulate == "stored":
            store_sums(fn)
        # Each element is added to once and starts at zero, so the sum is the value itself.
        return tuple(conflicts)

    def lowering(self, settings: Settings) -> tuple[Pass, ...]:
        if settings.checking is Checking.NONE and settings.launched:
            return LOWERING
        # What is checked is each access where the program makes it.
        return tuple(p for p in LOWERING if p not in _OF_LAUNCHES)

    def emit(self, fn: Function, symbol: str, settings: Settings = USUAL) -> CpuModule:
        return emit_kernel(self.lowered(fn, settings), symbol, object_code.machine(self.name).isa, settings)

    def compile(self, fn: Function, symbol: str, settings: Settings = USUAL) -> CompiledKernel:
        kernel, machine = self.emit(fn, symbol, settings), object_code.machine(self.name)
        module = kernel.text, kernel.weight, machine, kernel.questions
        return CompiledKernel(
            object_code.object_code(object_code.optimise(*module), machine),
            kernel.symbols,
            lambda: object_code.optimised_text(*module),
            lambda: _commented(kernel.report) + object_code.assembly(object_code.optimised_text(*module), machine),
            kernel.sites,
            kernel.check_sites,
            kernel.stamped,
            (None,) * len(fn.params),
            outputs=kernel.outputs,
            updates=kernel.updates,
            added=kernel.added if settings.private_copies else (),
            faster=kernel.threads.faster if kernel.threads.lanes > 1 else 1.0,
            lane_counts=kernel.threads.groups,
        )

    def threads(self, fn: Function, settings: Settings) -> str:
        kernel, machine = self.emit(fn, "k", settings), object_code.machine(self.name)
        if kernel.threads.lanes > 1:
            # Without lanes, whether LLVM vectorises is known only from its output.
            return kernel.report
        text = object_code.optimised_text(kernel.text, kernel.weight, machine, kernel.questions)
        return f"{kernel.report}\n  LLVM makes vectors of {'a' if _VECTORS in text else 'no'} loop"

    def source(self, fn: Function, header: Sequence[str]) -> str:
        return to_python(fn, header=header)

    def warm_up(self) -> None:
        object_code.machine(self.name)


def _commented(text: str) -> str:
    return "".join(f"# {line}\n" for line in text.splitlines())


def target(name: str) -> CpuTarget:
    """Return the target of a name."""
    return CpuTarget(name)
