"""``warp._src.thirdparty.appdirs``: where a program keeps its cache, by the conventions of the system.

Warp's package ``thirdparty`` has no other module that packages use: this one is both.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

__all__ = ["user_cache_dir"]

__path__: list[str] = []  # a package, for import statements that go through it
appdirs = sys.modules[f"{__name__}.appdirs"] = sys.modules[__name__]


def user_cache_dir(
    appname: str | None = None,
    appauthor: str | bool | None = None,
    version: str | None = None,
    opinion: bool = True,
) -> str:
    """Return the folder of the user's caches, or a program's own in it.

    Parameters
    ----------
    appname : str, optional
        The program.
    appauthor : str or False, optional
        Who has made it: a folder above it on Windows, by default of the program's name; none if False.
    version : str, optional
        A folder below it.
    opinion : bool, optional
        On Windows, whether the folder ``Cache`` below it is meant.
    """
    path = _base()
    if appname is not None:
        author = appname if appauthor is None else appauthor
        if sys.platform == "win32" and isinstance(author, str):
            path /= author
        path /= appname
        if sys.platform == "win32" and opinion:
            path /= "Cache"
        if version is not None:
            path /= version
    return os.fspath(path)


def _base() -> Path:
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
