"""Ranges for NVIDIA's profilers: Nsight Systems shows launches by the names of kernels.

Spans become ranges of the package nvtx, in the domain ``diffkern``.
"""

from __future__ import annotations

import importlib
from typing import Any

from diffkern.runtime.observe.spans import Span

__all__ = ["NvtxRanges"]


class NvtxRanges:
    """The observer that makes a range of each span.

    Raises
    ------
    ImportError
        Without the package.
    """

    # A range is about the time at which a launch is given to the GPU; profilers match it with the kernel's own time.
    synchronizes = False

    def __init__(self) -> None:
        try:
            self._nvtx: Any = importlib.import_module("nvtx")
        except ImportError as error:
            raise ImportError("ranges for NVIDIA's profilers need the package nvtx: pip install nvtx") from error

    def begin(self, span: Span) -> None:
        """Begin a range."""
        self._nvtx.push_range(message=span.name, domain="diffkern", category=span.kind)

    def end(self, span: Span) -> None:
        """End the innermost range of the thread, which is this span's."""
        self._nvtx.pop_range(domain="diffkern")

    def past(self, span: Span) -> None:
        """Do nothing: a range has no times but those of its calls."""
