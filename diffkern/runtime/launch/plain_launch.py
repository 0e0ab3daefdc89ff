"""The fast path of a launch that nothing keeps.

Where a tape, a sequence or a stream may take the launch it is packed and dispatched; the rest is written for little
overhead. A :class:`LaunchError` is raised before anything has run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from diffkern.errors import KernelRuntimeError, LaunchError
from diffkern.runtime.arrays.array import array
from diffkern.runtime.launch.arguments import Bound, bind
from diffkern.runtime.launch.kernel_protocol import KernelProtocol
from diffkern.runtime.launch.kernel_version import KernelVersion
from diffkern.runtime.launch.launch_checks import check_writable, grid_of
from diffkern.runtime.launch.nested_arrays import check_disjoint
from diffkern.runtime.launch.packed import PackedLaunch, dispatch
from diffkern.runtime.launch.program import Executable
from diffkern.runtime.launch.resources import check_places
from diffkern.runtime.launch.schedule import USUAL, Blocks, Grid, normalize_dim
from diffkern.runtime.launch.shared_memory import check_shared
from diffkern.runtime.memory.device import CPU, Device
from diffkern.runtime.memory.state import current
from diffkern.runtime.memory.stream import Stream
from diffkern.runtime.native.slow_path import slow_path_flags

__all__ = ["Prepared", "prepared", "run"]

_NO_PROGRAMS: Mapping[tuple[str, ...], Executable] = MappingProxyType({})


def run(
    kernel: KernelProtocol,
    dim: Any,
    args: Sequence[Any],
    record_tape: bool = True,
    place: Device | None = None,
    blocks: Blocks | None = None,
    stream: Stream | None = None,
    usual: Blocks = USUAL,
) -> None:
    """Launch with all arguments in one sequence, on a device if one was named.

    For a stream, or other blocks than the `usual` ones, `blocks` is given.
    """
    version = kernel.current()  # which nothing but a kernel has
    keys, parts, arrays = bound = bind(kernel.name, kernel.parameters, args)
    # One word says whether anything in the process may want to see launches.
    if slow_path_flags.word[0] or blocks is not None:
        is_alone = record_tape and place is None and blocks is None and slow_path_flags.reasons == 1
        if is_alone and _is_noted(kernel, dim, version, bound):
            return
        if not _is_none(kernel, dim):
            launch = PackedLaunch.of_bound(kernel, dim, bound, place, blocks or usual, version)
            dispatch(launch, record_tape, stream)
            return
        programs = _NO_PROGRAMS  # it only has its arguments checked
    else:
        programs = version.programs
    executable = programs.get(keys)
    if executable is None:
        if _is_none(kernel, dim):
            kernel.check_types(keys)
            return
        executable = kernel.forward(keys)
    # Arguments on another device are an error, which the general path reports.
    if place is not None and (executable.device is not place or (place is not CPU and not executable.writes)):
        dispatch(PackedLaunch.of_bound(kernel, dim, bound, place, usual, version), record_tape)
        return
    # A bool is an int by isinstance and not by type: True is no dimension.
    grid = executable.grids.get(dim) if type(dim) is int else None
    if grid is None:
        grid = grid_of(kernel, executable, dim, usual)
    arguments = b"".join(parts)
    if executable.by_id:
        check_places(kernel.name, executable, parts)
        check_disjoint(kernel.name, executable, arrays)
    extents = executable.extents
    if extents is not None:
        last = extents.last
        if last[1] != arguments or last[0] is not grid:
            extents.check(kernel.name, grid, arguments)
    if executable.may_share and executable.disjoint != arguments:
        # The check is about addresses, so that the same arguments need it only once.
        check_shared(kernel.name, executable, arrays)
        for one, other in executable.distinct:
            if parts[one] == parts[other]:  # perhaps one array, which takes another program
                dispatch(PackedLaunch.of_bound(kernel, dim, bound, place, usual, version), record_tape)
                return
        executable.disjoint = arguments
    writes = executable.writes
    # Without arrays it runs there; what it writes through elements is looked for.
    if (not writes and current.device is not None) or executable.writes_elements or executable.changes:
        dispatch(PackedLaunch.of_bound(kernel, dim, bound, place, usual, version), record_tape)
        return
    for index in writes:
        held = arrays[index]
        if held is not None:
            if not held._writable:
                check_writable(kernel, executable, arrays)
            # Raised before the run: a kernel that fails half-way has changed something too.
            held._memory.version += 1
    try:
        executable.run(grid, arguments)
    except LaunchError as error:
        if not isinstance(error, KernelRuntimeError):  # a GPU's program does not take the arguments: nothing has run
            for index in writes:
                held = arrays[index]
                if held is not None:
                    held._memory.version -= 1
        raise


def _is_noted(kernel: KernelProtocol, dim: Any, version: KernelVersion, bound: Bound) -> bool:
    """Return whether the tape of this thread, alone in the process, has run and noted a launch that it knows."""
    tape: Any = current.tape
    if getattr(tape, "_noted", None) is None:
        return False
    keys, parts, arrays = bound
    executable = version.programs.get(keys)
    return executable is not None and tape.note_launch(kernel, version, dim, keys, parts, arrays, executable)


def _is_none(kernel: KernelProtocol, dim: Any) -> bool:
    """Return whether a launch is none, by the kernel's dialect, because it has no threads."""
    if kernel.dialect.empty_launches_build:
        return False
    try:
        return 0 in normalize_dim(dim)
    except ValueError:  # it is no dimension, which the launch reports
        return False


class Prepared:
    """A launch that has run, for runs with the very same arguments where nothing observes launches.

    It holds addresses alone, and keeps no memory alive: who runs it has the arrays, and knows that each is what it
    was, by the identity of the bytes that kernels take for it.
    """

    __slots__ = ("_arguments", "_executable", "_grid", "_kernel", "_keys")

    def __init__(
        self, kernel: KernelProtocol, keys: tuple[str, ...], executable: Executable, grid: Grid, arguments: bytes
    ) -> None:
        self._kernel, self._keys, self._executable = kernel, keys, executable
        self._grid, self._arguments = grid, arguments

    def run(self, written: array) -> bool:
        """Run it, on the one array that it writes; False if the program is another one now, and nothing has run."""
        executable = self._executable
        if self._kernel.current().programs.get(self._keys) is not executable or not written._writable:
            return False
        written._memory.version += 1
        executable.run(self._grid, self._arguments)
        return True


def prepared(kernel: KernelProtocol, dim: int, args: Sequence[Any]) -> Prepared | None:
    """Return a launch that has run with these arguments for further runs; None if each has to be looked at.

    The checks that the launch has passed are about addresses, extents and numbers, which stay.
    """
    keys, parts, arrays = bind(kernel.name, kernel.parameters, args)
    executable = kernel.current().programs.get(keys)
    if executable is None or len(executable.writes) != 1 or arrays[executable.writes[0]] is None:
        return None
    if executable.by_id or executable.writes_elements or executable.changes or not executable.device.is_cpu:
        return None
    return Prepared(kernel, keys, executable, grid_of(kernel, executable, dim), b"".join(parts))
