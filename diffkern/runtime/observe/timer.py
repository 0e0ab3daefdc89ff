"""``dk.ScopedTimer``: the time that a block of a program takes.

Milliseconds of wall time are printed, stored in a dictionary, or passed to a function.
"""

from __future__ import annotations

import builtins
import contextlib
import importlib
import sys
import threading
import time
from collections.abc import Callable, MutableMapping
from typing import TYPE_CHECKING, Any

from diffkern.runtime.memory.device import is_cuda_available
from diffkern.runtime.memory.stream import synchronize

if TYPE_CHECKING:
    import cProfile

__all__ = ["ScopedTimer"]


class _Depth(threading.local):
    """The number of nested printing timers that are running in a thread."""

    value = -1


_depth = _Depth()


class ScopedTimer:
    """Time a block: ``with dk.ScopedTimer("step"): ...``.

    Parameters
    ----------
    name : str
        The name of the block.
    active : bool, optional
        False for a timer that does nothing.
    print : bool, optional
        Whether to print the name and the time at the end, indented by two spaces in another timer.
    detailed : bool, optional
        Whether to profile the block's Python functions too and print the most expensive ones.
    dict : mapping of str to list of float, optional
        A dictionary to append the time to, under the name.
    use_nvtx : bool, optional
        Whether the block is a range for NVIDIA's profilers instead, which takes the package ``nvtx``.
    color : str or int, optional
        Color of that range.
    synchronize : bool, optional
        Whether to wait for all devices before the clock starts and before it stops.
    cuda_filter : int, optional
        Single activities of a GPU are not timed: anything but 0 is refused where there is a GPU and the timer active.
        Without a GPU there are none.
    report_func : callable, optional
        Called with the timer's list of activities, which is empty, and the indentation, instead of printing.
    skip_tape : bool, optional
        Without effect: tapes do not record timers.

    Attributes
    ----------
    elapsed : float
        Milliseconds of the last block; 0 before its end.

    Raises
    ------
    ValueError
        For a `cuda_filter` where there is a GPU, when the block is entered.
    ImportError
        For `use_nvtx` without the package, when the block is entered.
    """

    def __init__(
        self,
        name: str,
        active: bool = True,
        print: bool = True,
        detailed: bool = False,
        dict: MutableMapping[str, list[float]] | None = None,
        use_nvtx: bool = False,
        color: str | int = "rapids",
        synchronize: bool = False,
        cuda_filter: int = 0,
        report_func: Callable[[list[Any], str], object] | None = None,
        skip_tape: bool = False,
    ) -> None:
        self.name, self.active, self.elapsed = name, active, 0.0
        self._prints, self._detailed, self._times = print, detailed, dict
        self._nvtx, self._color = use_nvtx, color
        self._synchronizes, self._report = synchronize, report_func
        self._filter = cuda_filter
        self._range: Any = None
        self._profile: cProfile.Profile | None = None
        self._begin = 0

    def __enter__(self) -> ScopedTimer:
        if not self.active:
            return self
        if self._filter and is_cuda_available():
            raise ValueError(
                "cuda_filter: single activities of a GPU are not timed; time blocks with synchronize=True or events"
            )
        if self._synchronizes:
            synchronize()
        if self._nvtx:
            self._range = _nvtx().start_range(self.name, color=self._color)
            return self
        _depth.value += self._prints
        if self._detailed:
            import cProfile

            self._profile = cProfile.Profile()
            self._profile.enable()
        # The clock starts last, after the profiler and the synchronization.
        self._begin = time.perf_counter_ns()
        return self

    def __exit__(self, *_: object) -> None:
        if not self.active:
            return
        if self._synchronizes:
            synchronize()
        if self._nvtx:
            _nvtx().end_range(self._range)
            return
        self.elapsed = (time.perf_counter_ns() - self._begin) / 1e6
        if self._profile is not None:
            self._profile.disable()
        if self._times is not None:
            self._times.setdefault(self.name, []).append(self.elapsed)
        try:
            self._say("  " * max(_depth.value, 0))
        finally:
            _depth.value -= self._prints

    def _say(self, indent: str) -> None:
        if self._profile is not None:
            import pstats

            with contextlib.suppress(TypeError):  # an empty profile
                pstats.Stats(self._profile, stream=sys.stdout).sort_stats("time").print_stats(30)
        if self._report is not None:
            self._report([], indent)
        elif self._prints:
            builtins.print(f"{indent}{self.name} took {self.elapsed:.2f} ms")


def _nvtx() -> Any:
    try:
        return importlib.import_module("nvtx")
    except ImportError as error:
        raise ImportError("use_nvtx=True needs the package nvtx: pip install nvtx") from error
