"""``wp.ScopedCapture`` and ``wp.capture_begin``, with the arguments that Warp has besides.

In: what programs for Warp pass. Out: a capture as of :mod:`diffkern`. Programs are compiled where a launch is captured,
so nothing has to be loaded before.
"""

from __future__ import annotations

from typing import Any

from diffkern.errors import MisuseError
from diffkern.runtime.graph import ScopedCapture as NativeCapture
from diffkern.runtime.graph import capture_begin as native_begin
from diffkern.runtime.stream import Stream

__all__ = ["ScopedCapture", "capture_begin"]


class ScopedCapture(NativeCapture):
    """Captures what happens to arrays in a ``with`` block; afterwards ``graph`` holds it.

    Parameters
    ----------
    device, stream : optional
        As in :func:`diffkern.capture_begin`.
    force_module_load : bool, optional
        Accepted: programs are compiled where a launch is captured.
    external : bool, optional
        Only False.
    apic : bool, optional
        Accepted: a graph is always recorded by diffkern itself.
    capture_mode : optional
        Accepted.

    Raises
    ------
    MisuseError
        If another library is to capture.
    """

    def __init__(
        self,
        device: Any = None,
        stream: Stream | None = None,
        force_module_load: bool | None = None,
        external: bool = False,
        apic: bool = False,
        capture_mode: Any = None,
    ) -> None:
        _check(external)
        super().__init__(device, stream)


def capture_begin(
    device: Any = None,
    stream: Stream | None = None,
    force_module_load: bool | None = None,
    external: bool = False,
    apic: bool = False,
    capture_mode: Any = None,
) -> None:
    """Capture all operations on arrays from now on into a graph, instead of running them.

    Parameters
    ----------
    device, stream, force_module_load, external, apic, capture_mode : optional
        As in :class:`ScopedCapture`.

    Raises
    ------
    MisuseError
        If another library is to capture.
    """
    _check(external)
    native_begin(device, stream)


def _check(external: bool) -> None:
    if external:
        raise MisuseError(
            "a capture that another library has begun cannot be taken over", remedy="capture with ScopedCapture alone"
        )
