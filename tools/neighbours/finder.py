"""The module finder that gives ``diffkern.warp`` to programs that import ``warp``, and nothing else."""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from typing import Any

__all__ = ["Finder", "install"]


class Finder(importlib.abc.MetaPathFinder):
    """Finds ``warp.X`` in ``diffkern.warp.X``; what is not there is not found, although Warp is installed."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        if name != "warp" and not name.startswith("warp."):
            return None
        try:
            ours = importlib.import_module(f"diffkern.{name}")
        except ModuleNotFoundError as error:
            # That of a module which diffkern's own imports in vain is another matter.
            if error.name is None or not f"diffkern.{name}".startswith(error.name):
                raise
            raise ModuleNotFoundError(f"diffkern.warp has no module {name!r}", name=name) from None
        return importlib.util.spec_from_loader(name, _Known(ours), is_package=hasattr(ours, "__path__"))


class _Known(importlib.abc.Loader):
    """Gives a module that is loaded already, and leaves it what it says of itself."""

    def __init__(self, module: Any) -> None:
        self.module, self.spec = module, module.__spec__

    def create_module(self, spec: Any) -> Any:
        return self.module

    def exec_module(self, module: Any) -> None:
        module.__spec__ = self.spec


def install() -> None:
    """Let ``import warp`` give ``diffkern.warp`` from here on."""
    if "warp" in sys.modules:
        raise RuntimeError("warp is imported already")
    sys.meta_path.insert(0, Finder())
    importlib.import_module("warp")
