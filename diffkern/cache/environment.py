"""Facts about the installation for keys: versions of the compilers and diffkern's own compile-side sources.

The module search path gives version texts, and the package's directory a digest, each read once per process, without
importing what they describe.
"""

from __future__ import annotations

import functools
import hashlib
import os
import re
import sys

from diffkern.contracts.platforms import MATHDX

__all__ = ["compiler_digest", "distribution_versions", "has_mathdx"]

# Everything that has a say in the generated code. The run time, the cache and the command line have none.
_COMPILE_SIDE = (
    "compiler/adjoint_strategies.py",
    "compiler/compilation.py",
    "compiler/passes.py",
    "compiler/pipeline.py",
    "compiler/program.py",
    "process/dataclass.py",
    "process/llvm_modules.py",
    "types.py",
    "ad",
    "analysis",
    "contracts",
    "frontend",
    "ir",
    "lang",
    "library",
    "lower",
    "opt",
    "printing",
    "targets",
    "vecmath",
)
_DIST_INFO = re.compile(r"(?P<name>[A-Za-z0-9._]+)-(?P<version>[^-]+)\.(?:dist-info|egg-info)")


@functools.cache
def distribution_versions(names: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """Return the versions of installed distributions, from the names of their ``dist-info`` folders.

    Parameters
    ----------
    names : tuple of str
        Distributions, in lower case with underscores.

    Returns
    -------
    tuple of (str, str)
        Name and version, in the order of `names`; ``none`` where a distribution is not installed.
    """
    found: dict[str, str] = {}
    # importlib.metadata would read files of each distribution; the names of the folders tell enough.
    for directory in sys.path:
        try:
            entries = os.listdir(directory or ".")
        except OSError:  # zip files and folders that do not exist stand on the path legitimately
            continue
        for entry in entries:
            match = _DIST_INFO.fullmatch(entry)
            # The first place on the path is the one Python imports from.
            # Later places may hold other versions, which are not imported.
            if match and (name := match["name"].lower().replace(".", "_")) in names:
                found.setdefault(name, match["version"])
    return tuple((name, found.get(name, "none")) for name in names)


def has_mathdx() -> bool:
    """Return whether libmathdx is installed with a compiler that it works with: 0.4 does not with NVRTC 13.5."""
    library, compiler = (version for _, version in distribution_versions(MATHDX))
    if library == "none":
        return False
    # A compiler that the user has chosen is taken as it is, whatever its version.
    chosen = bool(os.environ.get("DIFFKERN_NVRTC"))
    return chosen or (compiler != "none" and (_numbers(library) >= (0, 5) or _numbers(compiler) < (13, 5)))


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2] if part.isdigit())


@functools.cache
def compiler_digest() -> bytes:
    """Return a SHA-256 over diffkern's compile-side sources, so that an edited pass never finds an old artifact."""
    root = os.path.dirname(os.path.dirname(__file__))
    state = hashlib.sha256()
    for name in _COMPILE_SIDE:
        # The relative path and the length delimit each file, so that renaming or moving text between files shows.
        for path in _sources(root, name):
            # Files by the hundred in each new process: unbuffered, and by names, which are faster than path objects.
            with open(os.path.join(root, path), "rb", buffering=0) as file:
                data = file.read()
            state.update(path.encode() + b"\0")
            state.update(len(data).to_bytes(8, "little"))
            state.update(data)
    return state.digest()


def _sources(root: str, name: str) -> list[str]:
    """Return the sources in a folder of the package, or the one file, as sorted paths relative to the package."""
    found, folders = [], [name]
    while folders:
        folder = folders.pop()
        try:
            with os.scandir(os.path.join(root, folder)) as entries:
                for entry in entries:
                    if entry.name.endswith((".py", ".json")):
                        found.append(f"{folder}/{entry.name}")
                    elif entry.name != "__pycache__" and entry.is_dir():
                        folders.append(f"{folder}/{entry.name}")
        except NotADirectoryError:
            found.append(folder)
        except FileNotFoundError:  # a package without one of its folders
            pass
    return sorted(found)
