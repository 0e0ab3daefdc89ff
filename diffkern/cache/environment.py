"""Facts about the installation for keys: versions of the compilers and diffkern's own compile-side sources.

The module search path gives version texts, and the package's directory a digest, each read once per process, without
importing what they describe.
"""

from __future__ import annotations

import functools
import hashlib
import math
import os
import re
import sys
import time
from collections.abc import Callable, Sequence

from diffkern.contracts.platforms import MATHDX

__all__ = ["compiler_digest", "distribution_versions", "has_mathdx", "set_memory"]

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
    files = [file for name in _COMPILE_SIDE for file in _sources(root, name)]
    if _memory is None or not _is_settled(files):
        return _digest_of(root, files)
    # A file that changes has another time of its last change, which no program can set.
    facts = [(path, s.st_size, s.st_mtime_ns, s.st_ctime_ns, s.st_ino, s.st_dev) for path, s in files]
    state = hashlib.sha256(repr((root, facts)).encode()).digest()
    find, keep = _memory
    known = find(state)
    if known is None:
        known = _digest_of(root, files)
        keep(state, known)
    return known


def _digest_of(root: str, files: Sequence[tuple[str, os.stat_result]]) -> bytes:
    state = hashlib.sha256()
    # The relative path and the length delimit each file, so that renaming or moving text between files shows.
    for path, _ in files:
        # Files by the hundred: unbuffered, and by names, which are faster than path objects.
        with open(os.path.join(root, path), "rb", buffering=0) as file:
            data = file.read()
        state.update(path.encode() + b"\0")
        state.update(len(data).to_bytes(8, "little"))
        state.update(data)
    return state.digest()


def _sources(root: str, name: str) -> list[tuple[str, os.stat_result]]:
    """Return the sources in a folder of the package, or the one file, as sorted paths relative to the package."""
    found, folders = [], [name]
    while folders:
        folder = folders.pop()
        try:
            entries = os.scandir(os.path.join(root, folder))
        except NotADirectoryError:
            found.append((folder, os.stat(os.path.join(root, folder))))
            continue
        except FileNotFoundError:  # a package without one of its folders
            continue
        with entries:
            for entry in entries:
                if entry.name.endswith((".py", ".json")):
                    try:
                        found.append((f"{folder}/{entry.name}", entry.stat()))
                    except FileNotFoundError:  # a link to nothing, such as an editor's lock, or a file that just went
                        continue
                elif entry.name != "__pycache__" and entry.is_dir():
                    folders.append(f"{folder}/{entry.name}")
    return sorted(found)


def _is_settled(files: Sequence[tuple[str, os.stat_result]]) -> bool:
    """Return whether a later change of a file must show in its times, which have steps; not so on Windows."""
    last = max((max(s.st_mtime, s.st_ctime) for _, s in files), default=math.inf)
    return os.name == "posix" and last + _STEP_S < time.time()


_STEP_S = 3.0  # at least the steps of times in any file system


def set_memory(find: Callable[[bytes], bytes | None], keep: Callable[[bytes, bytes], None]) -> None:
    """Set a place for the digest of sources, to be called before it is asked for.

    Parameters
    ----------
    find : callable
        Returns the digest kept for a state of the files, a SHA-256; None if there is none.
    keep : callable
        Keeps that.
    """
    global _memory
    _memory = (find, keep)


_memory: tuple[Callable[[bytes], bytes | None], Callable[[bytes, bytes], None]] | None = None
