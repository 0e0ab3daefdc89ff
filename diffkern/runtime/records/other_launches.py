"""Launches that are not run at once as they are: adjoints, and what is recorded to be launched later."""

from __future__ import annotations

import collections
from collections.abc import Iterator, Sequence
from typing import Any

from diffkern.contracts.extents import several
from diffkern.errors import LaunchError, MisuseError
from diffkern.runtime.accumulate.adjoint import AdjointLaunch
from diffkern.runtime.accumulate.by_hand import note_run, run_known
from diffkern.runtime.accumulate.given_cotangents import match_cotangents, with_default_gradients
from diffkern.runtime.arrays.array import array, new
from diffkern.runtime.arrays.operation import Copy, submit
from diffkern.runtime.launch.arguments import bind
from diffkern.runtime.launch.kernel_protocol import KernelProtocol
from diffkern.runtime.launch.packed import PackedLaunch
from diffkern.runtime.launch.schedule import OF_THREADS, Blocks
from diffkern.runtime.memory.device import Device
from diffkern.runtime.memory.stream import Stream
from diffkern.runtime.native.slow_path import slow_path_flags
from diffkern.runtime.records.launch_record import LaunchRecord
from diffkern.runtime.records.open_launch import opened
from diffkern.runtime.records.record import Launch

__all__ = ["launch_or_record"]


def launch_or_record(
    kernel: KernelProtocol,
    dim: Any,
    args: Sequence[Any],
    number_of_inputs: int,
    adj_inputs: Sequence[Any],
    adj_outputs: Sequence[Any],
    adjoint: bool,
    record_cmd: bool,
    record_tape: bool,
    stream: Stream | None,
    place: Device | None = None,
    blocks: Blocks = OF_THREADS,
) -> Launch | None:
    """Run an adjoint, or record a launch or an adjoint."""
    if stream is not None and not isinstance(stream, Stream):
        raise MisuseError(
            f"stream must be a dk.Stream, not {stream!r}", remedy="make one with dk.Stream(), or leave it out"
        )
    # Arrays may still be None in a record that is completed by setting parameters.
    if record_cmd and not adjoint and (made := opened(kernel, args, place, blocks, stream)) is not None:
        made.dim = several(dim)
        return Launch._of(made)
    version = kernel.current()
    bound = bind(kernel.name, kernel.parameters, args)
    is_plain = stream is None and place is None and blocks is OF_THREADS
    if is_plain and not record_cmd and not slow_path_flags.word[0]:  # noqa: SIM102 - one question each
        if run_known(kernel, version, dim, bound, number_of_inputs, adj_inputs, adj_outputs):
            return None
    packed = PackedLaunch.of_bound(kernel, dim, bound, place, blocks, version)
    if not adjoint:
        if adj_inputs or adj_outputs:
            raise LaunchError(
                f"kernel {kernel.name!r}: adj_inputs and adj_outputs are for the adjoint",
                remedy="add adjoint=True, or leave them out",
            )
        return Launch(LaunchRecord(packed, None, None, stream, record_tape))
    given = match_cotangents(packed, number_of_inputs, len(args) - number_of_inputs, adj_inputs, adj_outputs)
    cotangents = with_default_gradients(packed, given)
    if record_cmd:
        return Launch(LaunchRecord(packed, AdjointLaunch(packed, cotangents), given, stream, record_tape))
    # Copies in their place are consumed instead, in a dialect whose users read these cotangents afterwards.
    if kernel.dialect.cotangents_stay:
        for index, ct in _left_alone(packed, given):
            cotangents[index] = new(ct.shape, ct._element, False, ct._memory.device)
            submit(Copy(cotangents[index], ct), stream)
    run = AdjointLaunch(packed, cotangents, at_once=True)
    run.launch_by_hand(stream)
    note_run(run, given)
    return None


def _left_alone(packed: PackedLaunch, given: Sequence[array | None]) -> Iterator[tuple[int, array]]:
    """Yield the given cotangents of arrays that a kernel writes and does not read, which nothing is added to."""
    executable = packed.executable
    shared = collections.Counter(ct._memory for ct in given if ct is not None)
    for index in {*executable.writes} - {*executable.reads}:
        ct = given[index]
        if ct is not None and shared[ct._memory] == 1:
            yield index, ct
