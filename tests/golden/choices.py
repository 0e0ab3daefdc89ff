"""How adjoints accumulate: what launches, replays of sequences and calls from JAX decide, as text.

Nothing runs, so programs are not optimised. Threads run one by one, because how many there are in a vector register
depends on the processor, and with it what a chunk is worth.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import diffkern as dk
from diffkern.contracts.options import AdjointForm
from diffkern.interop.jax import programs as of_jax
from diffkern.ir.types import scalar_of
from diffkern.runtime.accumulate.accumulation import Atomic, Coloured, Gathered, Private, Sorted
from diffkern.runtime.accumulate.adjoint import AdjointLaunch
from diffkern.runtime.launch.derivative import DerivativePlan
from diffkern.runtime.launch.packed import PackedLaunch
from diffkern.runtime.launch.partition import INTEGERS, Partition, distance_of, partition
from diffkern.runtime.launch.program import Executable
from diffkern.runtime.launch.schedule import cost_units, grain_of

from .choice_kernels import Case

CORES = 8


def choices(name: str, case: Case) -> Iterator[str]:
    """Yield a line for each of a kernel's launches."""
    kernel = dk.kernel(case.function, lanes=False, **case.options)
    for dims in case.dims:
        shown = " x ".join(map(str, dims))
        found = (f"launch {_of_launch(kernel, dims, case)}", f"replay {_of_replay(kernel, dims, case)}",
                 f"JAX {_of_jax(kernel, dims, case)}")  # fmt: skip
        yield f"{name:<20}{shown:<12}{'; '.join(found)}"


def _packed(kernel: Any, dims: tuple[int, ...], case: Case) -> tuple[PackedLaunch, frozenset[int]]:
    """Return a launch, and the parameters with cotangents."""
    launch = PackedLaunch(kernel, dims, case.arguments(*dims))
    return launch, frozenset(k for k, held in enumerate(launch.arrays) if held is not None and held._smooth)


def _of_launch(kernel: Any, dims: tuple[int, ...], case: Case) -> str:
    launch, active = _packed(kernel, dims, case)
    plain = launch.adjoint(active)
    arrays = {k: held for k, held in enumerate(launch.arrays) if held is not None}
    saved = {k: dk.zeros_like(arrays[k]) for k in plain.derivative.before}
    adjoint = AdjointLaunch(launch, {k: arrays[k].grad for k in active}, saved, executable=plain)
    return _text(launch, adjoint, plain)


def _text(launch: PackedLaunch, adjoint: AdjointLaunch, plain: Executable) -> str:
    """Say how an adjoint accumulates."""
    found = adjoint.accumulation
    assert isinstance(found, (Atomic, Sorted, Gathered)) == (adjoint.executable is not plain)
    match found:
        case Gathered():
            return "gathered"
        case Atomic():
            return "atomic"
        case Sorted():
            return "sorted if indices stay, else atomic"
        case Private():
            return _how(found.colours, [launch.leaves[k].name for k in found.private])
    return _how(2 if isinstance(found, Coloured) else 1, [])


def _how(colours: int, private: list[str]) -> str:
    found = f"private {' '.join(private)}" if private else "plain"
    return f"{found}, coloured" if private and colours == 2 else "coloured" if colours == 2 else found


def _of_replay(kernel: Any, dims: tuple[int, ...], case: Case) -> str:
    """Say what the program of a sequence does that begins with zero gradients, launches, and goes backwards."""
    arguments = case.arguments(*dims)
    with dk.record(run=False) as sequence:
        with dk.Tape() as tape:
            dk.launch(kernel, dims, arguments)
        tape.zero()
        tape.backward(grads=_seeds(kernel, dims, arguments))
    program = sequence._program
    for item, form in zip(program.items, program.forms, strict=True):
        if isinstance(item.operation, AdjointLaunch):
            adjoint = item.operation
            plain = adjoint.launch.adjoint(frozenset(adjoint.cotangents))
            base = _text(adjoint.launch, adjoint, plain)
            if not form:
                return f"{base}, from Python"
            return ", ".join([base, *_said(_form_of(adjoint, form[0].function))])
    return "nothing"


def _seeds(kernel: Any, dims: tuple[int, ...], arguments: list[Any]) -> dict[Any, Any]:
    """Return the gradients of the arrays that a launch writes."""
    launch = PackedLaunch(kernel, dims, arguments)
    return {held: dk.zeros_like(held) for held in launch.writes() if held._smooth}


def _form_of(adjoint: AdjointLaunch, address: int) -> AdjointForm:
    """Return which of the programs of an adjoint has its code at an address."""
    known = adjoint.launch.generation.adjoints.items()
    return next(key[2] for key, program in known if program.address == address)


def _said(form: AdjointForm) -> list[str]:
    """Say what a program does besides."""
    said = {"fused": form.joint, "stores": form.accumulate == "stored", "keeps what it takes": form.preserve_cotangents}
    return [word for word, holds in said.items() if holds]


def _of_jax(kernel: Any, dims: tuple[int, ...], case: Case) -> str:
    """Say what the native code of a call would decide: the facts are those of its table."""
    launch, active = _packed(kernel, dims, case)
    found = of_jax.reverse(kernel, launch.generation, launch.keys, active, len(dims))
    executable = found.plain.code
    assert isinstance(executable, Executable)
    manifest = executable.manifest
    conflicts = DerivativePlan.of(manifest).conflicts((1,) * len(dims))
    everywhere = any(extent > 1 for extent in dims[manifest.tid_arity :])
    how = _decided(launch, executable, dims, conflicts, everywhere, found.atomic is not None)
    if how.is_atomic:
        return "atomic"
    racing = [k for k, c in executable.derivative.accumulations.items() if everywhere or c.kind == "general"]
    return _how(how.colours, [launch.leaves[k].name for k in racing] if how.groups else [])


def _decided(
    launch: PackedLaunch, executable: Executable, dims: tuple[int, ...], conflicts: Any, everywhere: bool, spare: bool
) -> Partition:
    general = everywhere or bool(conflicts.general)
    accumulations = executable.derivative.accumulations
    racing = {k: c for k, c in accumulations.items() if everywhere or c.kind == "general"}
    sizes = [1 if (held := launch.arrays[k]) is None else held._data.size for k in racing]
    n = 1
    for extent in dims:
        n *= extent
    distance = 0 if everywhere else distance_of(INTEGERS, (*dims, 1, 1, 1)[:4], (*conflicts.reach, 0, 0, 0)[:4])
    grain = grain_of(executable.cost, executable.lane_counts)
    # Sums of halves round at each step.
    copyable = all(c.private and _bits(launch, k) >= 32 for k, c in racing.items())
    return partition(
        INTEGERS, n, grain, n * cost_units(executable.manifest.cost), distance, int(general), sum(sizes),
        int(copyable), int(spare), CORES,
    )  # fmt: skip


def _bits(launch: PackedLaunch, index: int) -> int:
    """Return the bits of the numbers of a cotangent."""
    held = launch.arrays[index]
    return 32 if held is None else scalar_of(held._element).bits  # type: ignore[arg-type]  # of numbers
