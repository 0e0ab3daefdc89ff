"""The contents of a cache directory that belong to diffkern: entries, remains of killed processes, and locks.

An entry is a directory ``<key[:2]>/<key>/`` whose manifest names that key. Whatever else lies there is somebody
else's and stays as it is: other files and directories, also those inside of an entry, and the targets of links.
Directories and files that a launch would not trust are left alone as well.

Another process may read, write or remove entries meanwhile. Everything is therefore done relative to directories that
are open, and in an order that leaves an entry or something that counts as missing.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
import time
from collections.abc import Callable, Iterator
from dataclasses import field
from pathlib import Path

from diffkern.cache.lock import exclusive
from diffkern.cache.manifest import FILES, MANIFEST_FILE, names_key
from diffkern.cache.place import Folder, UnsafeError, check_links, is_private, opened
from diffkern.process.dataclass import dataclass

__all__ = ["LOCK_PREFIX", "WORK_PREFIX", "Contents", "Found", "contents", "publish", "remove", "sweep", "work_name"]

WORK_PREFIX = ".new-"
LOCK_PREFIX = ".lock-"

_PARENT = re.compile("[0-9a-f]{2}")
_KEY = re.compile("[0-9a-f]{64}")
_OLD = ".old"
_WORK = re.compile(re.escape(WORK_PREFIX) + rf"[0-9a-f]{{16}}({re.escape(_OLD)})?")
_LOCK = re.compile(re.escape(LOCK_PREFIX) + "[0-9a-f]{64}")


def work_name() -> str:
    """Return a name that no other process has, for the directory of an entry while it is written."""
    return f"{WORK_PREFIX}{os.urandom(8).hex()}"


@dataclass(frozen=True)
class Found:
    """An entry: its key, its directory, its manifest, the bytes of its files, and the time of its last use."""

    key: str
    place: Path
    manifest: bytes
    size: int
    used: float


@dataclass(frozen=True)
class Contents:
    """The entries in a cache directory, and the errors for parts that launches refuse as others can write to them."""

    entries: list[Found] = field(default_factory=list)
    refused: list[UnsafeError] = field(default_factory=list)


def contents(directory: Path) -> Contents:
    """Return the contents of a cache directory; empty if there is none.

    Raises
    ------
    UnsafeError
        If others can write to the directory.
    """
    found = Contents()
    with contextlib.suppress(FileNotFoundError, NotADirectoryError), opened(directory) as root:
        for parent in _parents(root, found.refused):
            for key in _keys(parent):
                with _noting(found.refused), parent.inner(key) as folder:
                    entry = _entry(folder, key)
                    if entry is not None:
                        found.entries.append(entry)
    return found


def _parents(root: Folder, refused: list[UnsafeError]) -> Iterator[Folder]:
    """Yield the directories of the entries' directories."""
    for name in filter(_PARENT.fullmatch, root.names()):
        with _noting(refused), root.inner(name) as parent:
            yield parent


def _keys(parent: Folder) -> list[str]:
    begin = os.path.basename(parent.path)
    return [name for name in parent.names() if name.startswith(begin) and _KEY.fullmatch(name)]


@contextlib.contextmanager
def _noting(refused: list[UnsafeError]) -> Iterator[None]:
    """Skip something that is no directory, has been removed meanwhile, or is refused, which is noted."""
    try:
        yield
    except UnsafeError as error:
        refused.append(error)
    except OSError:
        pass


def _entry(folder: Folder, key: str) -> Found | None:
    """Return the entry in a directory, if there is one.

    Raises
    ------
    OSError
        If there is no manifest; :class:`UnsafeError` if others can write to the manifest or another of its files.
    """
    # Read first: without it this is not known to be diffkern's, and nothing else is looked at.
    manifest, used = folder.read(MANIFEST_FILE)
    if not names_key(manifest, key):
        return None
    size = 0
    for name in FILES:
        with contextlib.suppress(FileNotFoundError):
            status = folder.status(name)
            # A link is not followed, and is removed as such; whatever else others could have written to is refused.
            if not stat.S_ISLNK(status.st_mode) and not is_private(status):
                raise UnsafeError(f"{folder.path}/{name}")
            size += status.st_size
    return Found(key, Path(folder.path), manifest, size, used)


@contextlib.contextmanager
def _changed(directory: Path) -> Iterator[Folder]:
    """Open a cache directory to change its contents."""
    check_links(directory)
    with opened(directory) as root:
        yield root


def remove(place: Path) -> bool:
    """Remove the entry in a directory; return whether there was one, and is none any more.

    Raises
    ------
    UnsafeError
        If others can write to the cache directory, or decide which it is.
    """
    key, begin = place.name, place.parent.name
    with contextlib.suppress(FileNotFoundError), _changed(place.parent.parent) as root, _noting([]):
        with root.inner(begin) as parent:
            with parent.inner(key) as folder:
                # Checked again inside the open directory: between listing and removing, another process may have
                # changed it.
                if _entry(folder, key) is None:
                    return False
                # The directory is emptied before it is removed: a reader in between finds an entry without files, which
                # counts as missing.
                _empty(folder)
                gone = MANIFEST_FILE not in folder.names()
            parent.rmdir(key)
        root.rmdir(begin)  # with the last entry
        return gone
    return False


def _empty(folder: Folder) -> None:
    """Remove an artifact's files, the manifest last, which tells whose directory it is."""
    for name in FILES:
        folder.unlink(name)


def sweep(directory: Path, age: float) -> None:
    """Remove remains older than `age` seconds of processes that were killed while they wrote.

    Raises
    ------
    UnsafeError
        If others can write to the directory, or decide which it is.
    """
    with contextlib.suppress(FileNotFoundError, NotADirectoryError), _changed(directory) as root:
        for parent in _parents(root, []):
            for name in parent.names():
                # A process that is alive writes an entry within seconds; the age keeps its directory from being swept.
                if name.startswith(WORK_PREFIX) and _is_older(parent, name, age, stat.S_ISDIR):
                    _sweep_work(parent, name)
        for name in filter(_LOCK.fullmatch, root.names()):
            if _is_older(root, name, age, stat.S_ISREG):
                # Whoever holds it keeps it; it is removed by being given back.
                with exclusive(f"{root.path}/{name}", 0.0):
                    pass


def _is_older(folder: Folder, name: str, age: float, is_kind: Callable[[int], bool]) -> bool:
    try:
        status = folder.status(name)
    except OSError:
        return False
    return is_kind(status.st_mode) and is_private(status) and time.time() - status.st_mtime > age


def _sweep_work(parent: Folder, name: str) -> None:
    """Remove a directory that an entry was written to, if it is empty or has a name of diffkern's."""
    if _WORK.fullmatch(name):
        with _noting([]), parent.inner(name) as folder:
            if not name.endswith(_OLD) and set(folder.names()) <= set(FILES):
                # A process that still writes there must not give the entry its place without what is removed here.
                parent.rename(name, name + _OLD)
                name += _OLD
            _empty(folder)
    parent.rmdir(name)


def publish(directory: Path, is_new: bool) -> None:
    """Make the entries of a directory readable by everybody, and the directory itself if it was made for them.

    Raises
    ------
    UnsafeError
        If others can write to the directory, or decide which it is.
    """
    with _changed(directory) as root:
        if is_new:
            root.publish()
        for parent in _parents(root, []):
            of_entries = False
            for key in _keys(parent):
                with _noting([]), parent.inner(key) as folder:
                    if _entry(folder, key) is not None:
                        folder.publish(*FILES)
                        of_entries = True
            # The directories of two digits may hold files of others, and are only opened to everybody for entries.
            if of_entries:
                parent.publish()
