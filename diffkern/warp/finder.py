"""Published packages that import ``warp`` run on :mod:`diffkern.warp` instead.

::

    from diffkern.warp import finder

    finder.install()
    import mujoco_warp  # whose "import warp" now gives diffkern.warp
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Sequence
from types import ModuleType

__all__ = ["Finder", "install"]


class Finder(importlib.abc.MetaPathFinder):
    """Finds ``warp.X`` in ``diffkern.warp.X``; what is not there is not found, although Warp may be installed."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return the spec of a module of Warp, None for any other module."""
        if fullname != "warp" and not fullname.startswith("warp."):
            return None
        name = f"diffkern.{fullname}"
        try:
            ours = importlib.import_module(name)
        except ModuleNotFoundError as error:
            # A module that diffkern's own cannot import is another matter.
            if error.name is None or not name.startswith(error.name):
                raise
            # A module that says what to take in its place has a text of its own.
            if not str(error).startswith("No module named"):
                raise ModuleNotFoundError(str(error), name=fullname) from None
            raise ModuleNotFoundError(f"diffkern.warp has no module {fullname!r}", name=fullname) from None
        # The same module object under both names, so that its classes are the same ones.
        return importlib.util.spec_from_loader(fullname, _Known(ours), is_package=hasattr(ours, "__path__"))


class _Known(importlib.abc.Loader):
    """Gives a module that is loaded already, and leaves it what it says of itself."""

    def __init__(self, module: ModuleType) -> None:
        self.module, self.spec = module, module.__spec__

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        return self.module

    def exec_module(self, module: ModuleType) -> None:
        # The import system has just set the spec of the name `warp`.
        module.__spec__ = self.spec


def install() -> None:
    """Let ``import warp`` give :mod:`diffkern.warp` from here on, in this process.

    Raises
    ------
    RuntimeError
        If Warp is imported already.
    """
    if any(isinstance(finder, Finder) for finder in sys.meta_path):
        return
    # Modules that hold the other package would keep using it, so that arrays of both kinds would meet.
    if "warp" in sys.modules:
        raise RuntimeError("warp is imported already: install the finder before the first import of it")
    # In front of the finder of installed packages, among which Warp may be.
    sys.meta_path.insert(0, Finder())
    importlib.import_module("warp")
