"""``wp.examples``: where the meshes and volumes of Warp's own examples are, which an installed wheel of Warp has."""

from __future__ import annotations

import importlib.metadata
import sys
from collections.abc import Iterator
from pathlib import Path

from diffkern.errors import MisuseError

__all__ = ["get_asset_directory", "get_source_directory"]

_DISTRIBUTION = "warp-lang"


def get_source_directory() -> str:
    """Return the folder of Warp's examples, in an installed Warp, which is not imported.

    Returns
    -------
    str
        An absolute path.

    Raises
    ------
    MisuseError
        If Warp is not installed.
    """
    return str(_folder("source"))


def get_asset_directory() -> str:
    """Return the folder with the files that Warp's examples read, in an installed Warp, which is not imported.

    Returns
    -------
    str
        An absolute path.

    Raises
    ------
    MisuseError
        If Warp is not installed, or without these files.
    """
    return str(_folder("asset", "assets"))


def _folder(kind: str, *below: str) -> Path:
    for site in _sites():
        found = site.joinpath("warp", "examples", *below)
        if found.is_dir():
            return found.resolve()
    raise MisuseError(
        f"get_{kind}_directory() finds no installed Warp: these files are Warp's, and diffkern has none of them",
        remedy=f"install {_DISTRIBUTION} beside diffkern, or give the path of the file that is to be read",
    )


def _sites() -> Iterator[Path]:
    """Yield the folders in which Warp may be installed, first that of its wheel."""
    try:
        yield Path(str(importlib.metadata.distribution(_DISTRIBUTION).locate_file("")))
    except importlib.metadata.PackageNotFoundError:
        pass
    # A copy that is not installed by a wheel, such as a checkout.
    yield from map(Path, sys.path)
