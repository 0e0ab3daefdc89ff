"""``dk.tune``: the options with which a launch is fastest, found by running it.

Options are tried one after the other, each from what was best before; all values of an option take turns, so that a
machine that slows down slows all of them. What was found is kept in the cache.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from diffkern.cuda.jit import CudaKernel
from diffkern.errors import MisuseError
from diffkern.kernels.derived_kernel import DerivedKernel
from diffkern.kernels.kernel import Kernel
from diffkern.process.dataclass import dataclass
from diffkern.process.tracebacks import brief
from diffkern.runtime.launch.kernel_protocol import check_kernel
from diffkern.runtime.memory.state import is_handled, is_postponed, is_recorded
from diffkern.runtime.records.launch import launch, launch_tiled
from diffkern.tuning.candidates import checked_candidates, usual_candidates
from diffkern.tuning.kept import KeptChoice
from diffkern.tuning.trial import FirstContents, Trial

__all__ = ["Tuned", "TuningRow", "tune"]

_FEWEST, _MOST = 3, 200
"""Readings of each candidate."""
_WORTHWHILE = 0.97
"""A candidate takes the place of the one before it if it needs at most this part of its time: less is noise."""


@dataclass(frozen=True, slots=True)
class TuningRow:
    """The reading of some options.

    Parameters
    ----------
    options : mapping
        The options that were varied, with their values.
    seconds : float
        The shortest time of a launch.
    launches : int
        The number of launches that were measured.
    """

    options: Mapping[str, Any]
    seconds: float
    launches: int


@dataclass(frozen=True, slots=True)
class Tuned:
    """The result of :func:`tune`.

    Parameters
    ----------
    kernel : Kernel
        The kernel with the options that were best: to be launched in place of the one that was given.
    options : mapping
        Those that differ from the options of the kernel that was given; empty if its own are best.
    rows : tuple of TuningRow
        What was read, the kernel's own options first; empty if the choice was known from the cache.
    """

    kernel: Kernel
    options: Mapping[str, Any]
    rows: tuple[TuningRow, ...] = ()

    @property
    def speedup(self) -> float:
        """The time with the kernel's own options over the best time; NaN if nothing was measured."""
        if not self.rows:
            return float("nan")
        chosen = next(row for row in self.rows if row.options == self.options)
        return self.rows[0].seconds / chosen.seconds

    def __str__(self) -> str:
        chosen = ", ".join(f"{name}={value!r}" for name, value in self.options.items()) or "its own options"
        lines = [f"{self.kernel.name}: {chosen}" + ("" if self.rows else ", as known from the cache")]
        for row in self.rows:
            told = ", ".join(f"{name}={value!r}" for name, value in row.options.items()) or "as it is"
            lines.append(f"  {row.seconds * 1e6:12.2f} us  {told}")
        return "\n".join(lines)


@brief
def tune(
    kernel: Kernel,
    dim: int | Sequence[int],
    inputs: Sequence[Any] = (),
    outputs: Sequence[Any] = (),
    *,
    options: Mapping[str, Sequence[Any]] | None = None,
    adjoint: bool = False,
    adj_inputs: Sequence[Any] | None = None,
    adj_outputs: Sequence[Any] | None = None,
    tiled: bool = False,
    device: Any = None,
    seconds: float = 1.0,
    again: bool = False,
) -> Tuned:
    """Return a kernel with the options that make a launch fastest here, found by running it on the arrays given.

    The arrays hold afterwards what they held before. Nothing is ever tuned without being asked for; what was found is
    kept in the cache, for this program, these dimensions and shapes, and machines of this kind, and the next call
    returns it at once.

    Parameters
    ----------
    kernel : Kernel
        The kernel.
    dim, inputs, outputs, device
        The launch, as for :func:`launch`.
    options : mapping of str to sequence, optional
        The values to try, by the names of options of :func:`kernel`: ``{"block_dim": (64, 128)}``. By default, on a
        processor, ``lanes``, and ``private_copies`` of adjoints; on a GPU ``max_registers``, and ``block_dim`` unless
        threads work together in blocks. Options that change results, such as ``fast_math``, are tried if named here.
    adjoint : bool, optional
        Whether it is the adjoint that is to be fast.
    adj_inputs, adj_outputs : sequence, optional
        Its gradients, as for :func:`launch`.
    tiled : bool, optional
        Whether it is a launch of :func:`launch_tiled`.
    seconds : float, optional
        The time for measuring, in seconds; compiling comes on top. Each candidate runs three times at least.
    again : bool, optional
        Whether to measure although a choice is known.

    Returns
    -------
    Tuned
        The kernel, its options, and what was read.

    Raises
    ------
    MisuseError
        On a tape or in a recording; for a kernel that prints or changes objects found by ids; for options that there
        are not.
    LaunchError
        If an argument does not fit, as for :func:`launch`.
    """
    _check(kernel)
    run = launch_tiled if tiled else launch
    given: dict[str, Any] = {"device": device, "adjoint": adjoint, "record_cmd": True, "record_tape": False}
    given |= {n: g for n, g in (("adj_inputs", adj_inputs), ("adj_outputs", adj_outputs)) if g is not None}

    def trial(of: Kernel) -> Trial:
        return Trial(of, run(of, dim, inputs, outputs, **given))

    first = trial(kernel)
    candidates = (
        usual_candidates(kernel, first.program, first.adds) if options is None else checked_candidates(kernel, options)
    )
    place = KeptChoice(kernel, first.launch, first.active, candidates)
    chosen = None if again else place.find()
    rows: tuple[TuningRow, ...] = ()
    if chosen is None:
        contents = FirstContents(first.changed)
        try:
            chosen, rows = _search(first, trial, candidates, contents, seconds)
        finally:
            contents.restore()
        place.keep(chosen)
    return Tuned(kernel.with_options(**chosen) if chosen else kernel, chosen, rows)


def _check(kernel: Any) -> None:
    check_kernel(kernel)
    if isinstance(kernel, DerivedKernel):
        raise MisuseError(
            f"{kernel.name} follows the kernel that it is derived from, with its options",
            remedy="tune that kernel, and derive this one from the result",
        )
    if isinstance(kernel, CudaKernel):
        raise MisuseError(
            f"{kernel.name}: the launches of a kernel of cuda.jit name their blocks", remedy="tune kernels of dk.kernel"
        )
    if is_handled() or is_recorded() or is_postponed():
        raise MisuseError(
            "tuning runs launches that no tape and no recording is to see", remedy="tune before the block begins"
        )


def _search(
    first: Trial,
    trial: Callable[[Kernel], Trial],
    candidates: Mapping[str, Sequence[Any]],
    contents: FirstContents,
    seconds: float,
) -> tuple[dict[str, Any], tuple[TuningRow, ...]]:
    """Return the options that are best, and all rows: one option after the other, each from what was best before."""
    chosen: dict[str, Any] = {}
    best = first
    rows: dict[tuple[tuple[str, Any], ...], Trial] = {(): first}
    share = seconds / max(len(candidates), 1)
    for name, values in candidates.items():
        # The kernel's own value, with which the best so far runs, comes first.
        tried: dict[Any, Trial] = {values[0]: best}
        for value in values[1:]:
            tried[value] = trial(best.kernel.with_options(**{name: value}))
        _measure(list(tried.values()), contents, share)
        value, found = min(tried.items(), key=lambda item: item[1].best)
        rows |= {(*chosen.items(), (name, value)): one for value, one in tried.items() if one is not best}
        if found is not best and found.best <= best.best * _WORTHWHILE:
            chosen[name], best = value, found
    return chosen, tuple(TuningRow(dict(told), one.best, len(one.seconds)) for told, one in rows.items())


def _measure(trials: Sequence[Trial], contents: FirstContents, seconds: float) -> None:
    """Let trials take turns until the time is over."""
    for one in trials:
        one.run(contents)  # loads code and wakes threads
        one.seconds.clear()
    end = time.perf_counter() + seconds
    for turn in range(_MOST):
        for one in trials:
            one.run(contents)
        if turn + 1 >= _FEWEST and time.perf_counter() >= end:
            break
