"""The store: artifacts by key, in memory and in a directory that several processes share.

Entries that are returned have verified digests. An entry is a directory ``<key[:2]>/<key>/`` that appears at once by a
rename, so that a reader never sees half of one. Damaged and foreign contents count as missing and are replaced. A
directory that cannot be used, or where others can write, costs one warning, and the process goes on with its own
memory.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import stat
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from diffkern.cache.entries import LOCK_PREFIX, work_name
from diffkern.cache.lock import exclusive
from diffkern.cache.manifest import FILES, MANIFEST_FILE, InvalidEntryError, StoredArtifact, decode, encode
from diffkern.cache.place import UnsafeError, is_private, opened
from diffkern.process.forks import free_in_child
from diffkern.process.tracebacks import warn

__all__ = [
    "LOCK_TIMEOUT_S",
    "NoDirectoryError",
    "Store",
    "absolute",
    "default_directory",
]

LOCK_TIMEOUT_S = 300.0
"""The time to wait for another process that builds the same artifact, before building it as well."""

_TOUCH_AFTER_S = 3600.0
_ATTEMPTS = 60  # of writing an entry, while other processes clear the directory or remove it
_OF_OTHERS = frozenset({errno.ENOENT, errno.EEXIST, errno.ENOTEMPTY, errno.EBUSY, errno.ESTALE})
"""Errors of renaming while other processes write the same entry, or remove the directory or a part of it."""


class NoDirectoryError(FileNotFoundError):
    """There is no place for a cache: the user has no home directory, or the one that is named does not exist."""


def default_directory() -> Path:
    """Return the cache directory: DIFFKERN_CACHE_DIR, else the platform's place for caches. It need not exist.

    Raises
    ------
    NoDirectoryError
        If it would be in a home directory, and there is none.
    """
    chosen = os.environ.get("DIFFKERN_CACHE_DIR")
    if chosen:
        return _resolved(chosen)
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or absolute("~") / "AppData" / "Local"
        return Path(base) / "diffkern" / "cache"
    if sys.platform == "darwin":
        return absolute("~/Library/Caches/diffkern")
    base = os.environ.get("XDG_CACHE_HOME", "")
    # The convention says of a relative path that it is to be ignored.
    return Path(base if os.path.isabs(base) else absolute("~/.cache")) / "diffkern"


@functools.cache
def _resolved(chosen: str) -> Path:
    """Return a directory from the environment, the same after a change of the working directory."""
    return absolute(chosen)


def absolute(path: str | os.PathLike[str]) -> Path:
    """Return an absolute path with its home directory, if it begins with one, expanded.

    Raises
    ------
    NoDirectoryError
        If there is no such home directory.
    """
    try:
        return Path(path).expanduser().absolute()
    except RuntimeError as error:
        raise NoDirectoryError(f"there is no home directory for {os.fspath(path)}") from error


class Store:
    """Artifacts in a directory, and in memory where the directory cannot be used.

    Parameters
    ----------
    directory : Path or None
        The directory; None for memory alone. Created at the first write, for its owner alone.
    """

    def __init__(self, directory: Path | None) -> None:
        self.directory = directory
        self._memory: dict[str, StoredArtifact] = {}
        self._lock = free_in_child(threading.Lock())
        self._usable: bool | None = None if directory is not None else False
        self._warned = False

    def get(self, key: str) -> StoredArtifact | None:
        """Return the entry under `key`, or None if there is none that can be trusted."""
        entry = self._memory.get(key)
        if entry is not None or not self.is_safe():
            return entry
        try:
            with opened(self._root, key[:2], key) as folder:
                manifest, used = folder.read(MANIFEST_FILE)
                entry = decode(key, manifest, lambda name: folder.read(name)[0])
                # The time of the manifest is that of the last use, by which entries are pruned. Not set at each use, as
                # it is a write.
                if time.time() - used > _TOUCH_AFTER_S:
                    folder.touch(MANIFEST_FILE)
        # An unsafe entry is reported, as the user can mend it; a damaged one is just built again.
        except UnsafeError as error:
            self._warn(f"{error}: make it yours (chmod go-w) or remove it; its program is compiled again")
            return None
        except OSError:  # not there, or a part of it is not: either way it has to be built
            return None
        except InvalidEntryError:
            return None
        return entry

    def put(self, key: str, entry: StoredArtifact) -> None:
        """Store `entry` under `key`, in place of any earlier content."""
        if not self.is_safe():
            # Without a directory the artifacts live as long as the process, so that nothing is compiled twice.
            self._memory[key] = entry
            return
        try:
            self._write(key, entry)
        except OSError as error:
            self._memory[key] = entry
            self._warn(f"cannot write to the artifact cache {self.directory}: {error}; artifacts are kept in memory")

    @contextlib.contextmanager
    def building(self, key: str) -> Iterator[None]:
        """Keep other processes and threads from building the same artifact inside the context.

        Where that is not possible, or another holder takes longer than :data:`LOCK_TIMEOUT_S`, the context is entered
        all the same: the artifact is then built twice, which costs time and nothing else.
        """
        usable = self.is_safe()
        if usable:
            try:
                self._make_directory()
            except OSError:  # writing will say so
                usable = False
        if not usable:
            yield
            return
        with exclusive(str(self._root / f"{LOCK_PREFIX}{key}"), LOCK_TIMEOUT_S):
            yield

    def is_writable(self) -> bool:
        """Return whether artifacts can be kept on disk; makes the directory where it is missing."""
        if not self.is_safe():
            return False
        try:
            self._make_directory()
        except OSError:
            return False
        return os.access(self._root, os.W_OK)

    @property
    def _root(self) -> Path:
        assert self.directory is not None
        return self.directory

    def _make_directory(self) -> None:
        self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Another process may have made it since it was found missing, or in place of one that was removed.
        self._usable = None
        if not self.is_safe():
            raise UnsafeError(str(self.directory))

    def _write(self, key: str, entry: StoredArtifact) -> None:
        for left in reversed(range(_ATTEMPTS)):
            self._make_directory()
            try:
                self._try_to_write(key, entry)
                return
            except OSError as error:
                if not left or error.errno not in _OF_OTHERS:
                    raise
                time.sleep(0.001)  # lets the others come to their end, instead of losing each race against them

    def _try_to_write(self, key: str, entry: StoredArtifact) -> None:
        parent = f"{self.directory}/{key[:2]}"
        with contextlib.suppress(FileExistsError):
            # For the owner alone, whatever the umask: others must not be able to add entries that are then run.
            os.mkdir(parent, 0o700)
        with opened(self._root, key[:2]):  # or others could exchange what is about to be written
            work, place = _new_directory(parent), f"{parent}/{key}"
        try:
            # The manifest is written last: a directory without it is no entry, whatever kills this process.
            for name, data in (*entry.files().items(), (MANIFEST_FILE, encode(key, entry))):
                _write_file(f"{work}/{name}", data)
            try:
                # From one moment to the next the whole entry is there.
                os.replace(work, place)
            except FileNotFoundError:
                raise
            except OSError:
                # The key is taken. The same entry is as good as this one; anything else makes room.
                # The new entry must be complete before the old one goes, so that a reader always finds one of them.
                if self.get(key) != entry:
                    aside = f"{work}.old"
                    with contextlib.suppress(FileNotFoundError):
                        os.replace(place, aside)
                    os.replace(work, place)
                    _remove_files(aside)
        finally:
            _remove_files(work)

    def is_safe(self) -> bool:
        """Return whether only this user or root can write to the directory, after a warning if not."""
        # Cached, as each look-up of a key would otherwise ask the file system.
        if self._usable is None:
            try:
                status = os.stat(self._root)
            except FileNotFoundError:
                return True  # nothing to read; writing creates it with the right permissions
            except OSError as error:
                self._usable = False
                self._warn(f"cannot use the artifact cache {self.directory}: {error}; artifacts are kept in memory")
                return False
            self._usable = stat.S_ISDIR(status.st_mode) and is_private(status)
            if not stat.S_ISDIR(status.st_mode):
                self._warn(f"the artifact cache {self.directory} is not a directory; artifacts are kept in memory")
            elif not self._usable:
                self._warn(
                    f"the artifact cache {self.directory} is not used, because others can write to it: make it yours "
                    f"(chmod go-w) or set DIFFKERN_CACHE_DIR; artifacts are kept in memory"
                )
        return self._usable

    def _warn(self, message: str) -> None:
        # One warning: each artifact would repeat it.
        with self._lock:
            first, self._warned = not self._warned, True
        if first:
            warn(message)


def _new_directory(parent: str) -> str:
    """Make a directory for an entry while it is written."""
    name = f"{parent}/{work_name()}"
    os.mkdir(name, 0o700)
    return name


def _remove_files(place: str) -> None:
    """Remove the files that an artifact has, and their directory, unless others are there; or a link in its place."""
    # Not by shutil, whose import takes longer than loading ten kernels.
    with contextlib.suppress(OSError):
        if os.path.islink(place) or not os.path.isdir(place):
            os.unlink(place)
            return
        for name in FILES:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(f"{place}/{name}")
        os.rmdir(place)


def _write_file(path: str, data: bytes) -> None:
    # Whatever the umask: others must not be able to write to it.
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o600)
    with open(descriptor, "wb") as file:
        file.write(data)
