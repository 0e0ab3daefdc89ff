"""Aliases of what published packages take from ``warp._src``, Warp's internal package.

Each module has the names of one of Warp's; the objects are those of the public modules.
"""

from __future__ import annotations

import importlib
from typing import Any, Final

_MODULES: Final = frozenset({"codegen", "context", "logger", "thirdparty", "types", "utils"})


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}: it has {', '.join(sorted(_MODULES))}")
