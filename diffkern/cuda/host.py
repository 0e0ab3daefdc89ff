"""The host side of ``numba.cuda``: arrays of the device, streams, events, devices."""

from __future__ import annotations

__all__: list[str] = []
