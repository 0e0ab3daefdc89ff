"""Aliases of what published packages take from ``warp._src``, Warp's internal package.

Each module has the names of one of Warp's; the objects are those of the public modules. A module of which nothing else
is to be said has no file: it stands in a table here, and is in ``sys.modules``, where ``import`` finds it.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any, Final

from diffkern.warp.namespaces import Alias

_FILES: Final = ("context", "thirdparty", "types")


def _codegen(name: str) -> Any:
    """Warp's code generator, of which diffkern has nothing; the module can be imported."""
    raise AttributeError(
        f"{name} belongs to Warp's code generator, which is not part of diffkern; look at kernel.source()"
    )


def _logger(name: str) -> Any:
    """Loggers, and what sends them messages."""
    return getattr(importlib.import_module("diffkern.warp.loggers"), name)


def _utils(name: str) -> Any:
    """The utilities of the public module."""
    if name == "map_cache":
        return importlib.import_module("diffkern.transforms.mapping").kernels
    return _check_p2p if name == "check_p2p" else getattr(importlib.import_module("diffkern.warp.utils"), name)


def _check_p2p() -> bool:
    """Return whether the machine allows GPUs to access the memory of each other."""
    return True


_ALIASES: Final[Mapping[str, Alias]] = {
    name: Alias(f"{__name__}.{name}", find)
    for name, find in (("codegen", _codegen), ("logger", _logger), ("utils", _utils))
}
globals().update(_ALIASES)


def __getattr__(name: str) -> Any:
    if name in _FILES:
        return importlib.import_module(f"{__name__}.{name}")
    known = ", ".join(sorted({*_FILES, *_ALIASES}))
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}: it has {known}")
