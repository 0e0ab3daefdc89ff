"""Adjoints that are launched by hand and have run before: what is known of them stands in place of all checks.

What an adjoint does follows from its kernel's version, its dimensions, and the bytes that kernels take for its arrays
and gradients; numbers decide about nothing. All that changes between two launches with the same of these is looked at
each time. No memory is kept alive: a known adjoint holds programs, types and sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from operator import is_, itemgetter
from typing import Any

from diffkern.runtime.accumulate.accumulation import Atomic, Coloured, Plain, Private
from diffkern.runtime.accumulate.adjoint import AdjointLaunch
from diffkern.runtime.arrays.array import array
from diffkern.runtime.launch.arguments import Bound
from diffkern.runtime.launch.kernel_protocol import KernelProtocol
from diffkern.runtime.launch.kernel_version import KernelVersion
from diffkern.runtime.launch.packed import PackedLaunch
from diffkern.runtime.observe.config import config

__all__ = ["note_run", "run_known"]


class _KnownAdjoint:
    """A known adjoint, with all that a run of it takes.

    Attributes
    ----------
    executable, grid
        The program, and its threads.
    run
        Runs them on packed arguments; None until a program without copies or colours has run once more.
    given
        The bytes of the gradient that is given for each leaf, None without: those of one array, as long as they are
        the same object.
    defaults
        The leaves whose arrays' own gradients are taken, and the bytes of these.
    after
        Returns of the bytes of all gradients those that follow the arguments.
    wanted, without
        The leaves that have a gradient, and those that could have one.
    consumed
        Those whose gradients are zero afterwards.
    writes
        The arrays that the kernel itself writes.
    changes
        How often options of kernels had changed when the kernel was known to be differentiated.
    """

    __slots__ = (
        "after", "changes", "consumed", "defaults", "executable", "given", "grid", "run", "wanted", "without",
        "writes",
    )  # fmt: skip

    def __init__(self, adjoint: AdjointLaunch, given: list[bytes | None]) -> None:
        used, launch, cotangents = adjoint.accumulation, adjoint.launch, adjoint.cotangents
        self.run = used.runner(cotangents)
        self.executable, self.grid = used.executable, used.grid
        self.given = given
        self.defaults = [(k, ct._packed) for k, ct in cotangents.items() if given[k] is None]
        own = adjoint.executable.layout.cotangents or ()
        self.after: Callable[[Any], Any] = itemgetter(*own) if len(own) > 1 else _only(own[0])
        self.wanted = [*cotangents]
        self.without = [k for k, held in enumerate(launch.arrays) if held is not None and k not in cotangents]
        zero = adjoint.consumed()
        self.consumed = [k for k, ct in cotangents.items() if ct._memory in zero]
        self.writes = launch.executable.writes
        self.changes = -1

    def choose(self, arguments: bytes) -> Callable[[bytes], object]:
        """Take the program for these arguments."""
        self.run = partial(self.executable.chosen(arguments).run_chosen, self.grid)
        return self.run


def run_known(
    kernel: KernelProtocol,
    version: KernelVersion,
    dim: Any,
    bound: Bound,
    number_of_inputs: int,
    adj_inputs: Sequence[Any],
    adj_outputs: Sequence[Any],
) -> bool:
    """Run an adjoint that is known, where nothing observes launches; return False, and do nothing, for any other."""
    keys, parts, arrays = bound
    executable = version.programs.get(keys)
    if executable is None or not executable.by_hand or type(dim) is not int:
        return False
    if adj_inputs or adj_outputs:
        if len(adj_inputs) != number_of_inputs or number_of_inputs + len(adj_outputs) != len(arrays):
            return False
        cotangents = [*adj_inputs, *adj_outputs]
    else:
        cotangents = [None] * len(arrays)
    try:
        packed = [None if ct is None else ct._packed for ct in cotangents]
    except AttributeError:  # of another library
        return False
    known: _KnownAdjoint | None = executable.by_hand.get((executable.deciding(parts), dim, *packed))
    # Arrays never change their memory, type or device: the same bytes, as one object, are those of the same array.
    if known is None or not all(map(is_, packed, known.given)):
        return False
    if known.changes != config._changes:
        if not kernel.enable_backward:
            return False
        known.changes = config._changes
    for k, own in known.defaults:
        ct = cotangents[k] = arrays[k]._grad  # type: ignore[union-attr]  # as its bytes say
        if ct is None or ct._packed is not own:
            return False
        packed[k] = own
    for k in known.without:
        held: Any = arrays[k]
        if held._grad is not None or held._parent is not None:  # a gradient of a view is made when it is asked for
            return False
    for k in known.writes:
        if not arrays[k]._writable:  # type: ignore[union-attr]
            return False
    for k in known.wanted:
        cotangents[k]._memory.version += 1
    for k in known.consumed:
        memory = cotangents[k]._memory
        memory.zero_version = memory.version if memory._counter is None else memory.now
    parts += known.after(packed)
    try:
        (known.run or known.choose(b"".join(parts)))(b"".join(parts))
    except BaseException:
        for k in known.wanted:
            cotangents[k]._memory.zero_version = -1  # a failed run may have written anything
        raise
    return True


def _only(leaf: int) -> Callable[[list[bytes | None]], Any]:
    """Return what returns the bytes of one gradient in a tuple."""
    return lambda packed: (packed[leaf],)


def note_run(adjoint: AdjointLaunch, given: Sequence[array | None]) -> None:
    """Note an adjoint that has run by hand, with the gradients that were given, if what is known decides about others.

    Parameters
    ----------
    adjoint : AdjointLaunch
        The adjoint.
    given : sequence of array or None
        The gradient that was given for each leaf, None where the array's own counts.
    """
    launch, program, kernel = adjoint.launch, adjoint.executable, adjoint.launch.kernel
    if type(launch.dim) is not int or not adjoint.is_told or kernel.dialect.cotangents_stay:
        return
    used = adjoint.accumulation
    is_whole = type(used) in (Plain, Atomic) or (
        type(used) in (Coloured, Private) and used.runner(adjoint.cotangents) is not None
    )
    if program.races is not None or not is_whole or not _is_found(launch):
        return
    # The gradient of a view is made when it is asked for.
    if any(given[k] is None and launch.arrays[k]._grad is None for k in adjoint.cotangents):  # type: ignore[union-attr]
        return
    packed = [None if ct is None else ct._packed for ct in given]
    executable = launch.executable
    if len(executable.by_hand) >= _MOST:
        executable.by_hand.clear()
    executable.by_hand[(executable.deciding(launch.parts), launch.dim, *packed)] = _KnownAdjoint(adjoint, packed)


def _is_found(launch: PackedLaunch) -> bool:
    """Return whether a launch has one leaf for each argument, and runs the program that these types run."""
    is_plain = len(launch.arrays) == len(launch.keys) == len(launch.kernel.parameters)
    return is_plain and launch.generation.programs.get(launch.keys) is launch.executable


_MOST = 4096
