"""``warp._src.context``: kernels, modules, devices and graphs, and which built-in functions there are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from typing import Any, Final

import diffkern.warp as wp
from diffkern.lang.intrinsics import lowering_key
from diffkern.runtime.memory.allocations import tracker
from diffkern.runtime.memory.device import get_device
from diffkern.warp._src.core import Core
from diffkern.warp.modules import Module, registered

__all__ = ["Module", "builtin_functions", "runtime", "user_modules"]

user_modules: Final[MutableMapping[str, Module]] = registered
"""The modules that have kernels, by name."""


class _Builtins(Mapping[str, Any]):
    """The functions that kernels may call, by name."""

    def __getitem__(self, name: str) -> Any:
        found = getattr(wp, name, None)
        if found is None or lowering_key(found) is None:
            raise KeyError(name)
        return found

    def __iter__(self) -> Iterator[str]:
        return (name for name in wp.__all__ if lowering_key(getattr(wp, name)) is not None)

    def __len__(self) -> int:
        return sum(1 for _ in self)


builtin_functions: Final[Mapping[str, Any]] = _Builtins()
"""The functions that kernels may call, by name."""


def _is_graph_capture_allocation_supported(device: Any) -> bool:
    """Return whether arrays can be allocated while work for a device is being captured."""
    place = get_device(device)
    return place.is_cpu or place.is_mempool_supported


def alloc_tracker_report_text(sort_order: int, max_items: int) -> str:
    """Return which arrays were noted, the greatest first, or with 1 the oldest."""
    return tracker.report("chronological" if sort_order else "size", max_items)


class _Runtime:
    """The process-wide state that Warp keeps in its runtime object."""

    core: Final = Core()


runtime: Final = _Runtime()
"""Warp's process-wide state: here only its compiled library."""


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(wp, name)
