"""Observers of spans: the launch log, and ranges for NVIDIA's profilers.

The log has one line per launch, through Python's :mod:`logging`.

Spans become records of the logger ``diffkern.launches``, at level INFO, with the kernel, the dimensions, the device,
the time and the origin of the program, as text and as attributes.
"""

from __future__ import annotations

import importlib
import logging
from typing import Any

from diffkern.runtime.observe.spans import Span

__all__ = ["LaunchLog", "NvtxRanges"]


_LOGGER = logging.getLogger("diffkern.launches")


class LaunchLog:
    """The observer that writes the log."""

    synchronizes = True
    inspects = False

    def __init__(self) -> None:
        self._origins: dict[str, str] = {}
        if _LOGGER.level == logging.NOTSET:
            _LOGGER.setLevel(logging.INFO)
        if not _LOGGER.hasHandlers():  # without a handler the lines go to standard error
            _LOGGER.addHandler(logging.StreamHandler())

    def begin(self, span: Span) -> None:
        """Do nothing: a line is written when a launch has ended."""

    def end(self, span: Span) -> None:
        """Write the line of a launch; note the origin of a program."""
        if span.kind == "compile":
            # A program is compiled or loaded within its first launch, whose line comes later and takes the origin from
            # here.
            self._origins[span.facts["title"]] = f"compiled in {(span.end - span.begin) / 1e9:.2f} s"
        elif span.kind == "load" and "title" in span.facts:
            self._origins[span.facts["title"]] = "from the cache"
        elif span.kind in ("launch", "adjoint"):
            self._write(span)

    past = end

    def inspect(self, operation: Any) -> None:
        """Do nothing: spans say enough."""

    def _write(self, span: Span) -> None:
        origin = self._origins.pop(span.facts["title"], "in memory")
        milliseconds = (span.end - span.begin) / 1e6
        dim, device, error = span.facts["dim"], span.facts["device"], span.facts.get("error")
        known: dict[str, Any] = {
            "kernel": span.name, "dim": dim, "device": device, "milliseconds": milliseconds, "origin": origin,
        }  # fmt: skip
        failed = f", failed with {error}" if error else ""
        text = f"{span.name} dim={dim} on {device}: {milliseconds:.3f} ms, {origin}{failed}"
        _LOGGER.info("%s", text, extra=known)


# -- ranges for NVIDIA's profilers -------------------------------------------------------------------------------------


class NvtxRanges:
    """The observer that makes a range of each span.

    Raises
    ------
    ImportError
        Without the package.
    """

    # A range is about the time at which a launch is given to the GPU; profilers match it with the kernel's own time.
    synchronizes = False
    inspects = False

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

    def inspect(self, operation: Any) -> None:
        """Do nothing: spans say enough."""
