"""The store: artifacts by key, in memory and in a directory that several processes share.

In: keys and entries. Out: entries whose digests were verified. An entry is a directory ``<key[:2]>/<key>/`` that
appears at once by a rename, so a reader never sees half of one. Whatever is damaged or foreign counts as missing and is
replaced. A directory that cannot be used costs one warning, and the process goes on with its own memory.
"""

from __future__ import annotations

import contextlib
import os
import stat
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

from diffkern.cache.lock import exclusive
from diffkern.cache.manifest import Entry, InvalidEntryError, decode, encode

__all__ = ["LOCK_TIMEOUT_S", "MANIFEST_FILE", "WORK_PREFIX", "Store", "default_directory", "entries", "remove_entry"]

MANIFEST_FILE = "manifest.json"
WORK_PREFIX = ".new-"
LOCKS = ".locks"

LOCK_TIMEOUT_S = 300.0
"""How long to wait for another process that builds the same artifact, before building it as well."""

_TOUCH_AFTER_S = 3600.0


def default_directory() -> Path:
    """Return the cache directory: DIFFKERN_CACHE_DIR, else the platform's place for caches. It need not exist."""
    chosen = os.environ.get("DIFFKERN_CACHE_DIR")
    if chosen:
        return Path(chosen).expanduser()
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or str(Path.home() / "AppData" / "Local")
        return Path(base) / "diffkern" / "cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "diffkern"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "diffkern"


def entries(directory: Path) -> Iterator[Path]:
    """Yield the directories of the artifacts in a cache directory, sorted by key."""
    for manifest in sorted(directory.glob(f"??/*/{MANIFEST_FILE}")):
        if not manifest.parent.name.startswith(WORK_PREFIX):  # another process is about to give it its name
            yield manifest.parent


def remove_entry(place: str | os.PathLike[str]) -> None:
    """Remove an artifact's directory, as far as that is possible."""
    # Not by shutil, whose import takes longer than loading ten kernels.
    with contextlib.suppress(OSError):
        for name in os.listdir(place):
            os.unlink(os.path.join(place, name))
        os.rmdir(place)


class Store:
    """Artifacts in a directory, and in memory where the directory cannot be used.

    Parameters
    ----------
    directory : Path, optional
        Where to keep them; :func:`default_directory` by default. Created at the first write, for its owner alone.
    """

    def __init__(self, directory: Path | None = None) -> None:
        self.directory = default_directory() if directory is None else directory
        self._memory: dict[str, Entry] = {}
        self._lock = threading.Lock()
        self._usable: bool | None = None
        self._warned = False

    def get(self, key: str) -> Entry | None:
        """Return the entry under `key`, or None if there is none that can be trusted."""
        entry = self._memory.get(key)
        if entry is not None or not self._is_safe():
            return entry
        place = self._place(key)
        try:
            manifest, used = _read_manifest(f"{place}/{MANIFEST_FILE}")
            entry = decode(key, manifest, lambda name: _read(f"{place}/{name}"))
        except OSError:  # not there, or a part of it is not: either way it has to be built
            return None
        except InvalidEntryError:
            return None
        if time.time() - used > _TOUCH_AFTER_S:
            with contextlib.suppress(OSError):  # a read-only directory has no record of use
                os.utime(f"{place}/{MANIFEST_FILE}")
        return entry

    def put(self, key: str, entry: Entry) -> None:
        """Keep `entry` under `key`, in place of whatever was there."""
        if not self._is_safe():
            self._memory[key] = entry
            return
        try:
            self._write(key, entry)
        except OSError as error:
            self._memory[key] = entry
            self._warn(f"cannot write to the artifact cache {self.directory}: {error}")

    @contextlib.contextmanager
    def building(self, key: str) -> Iterator[None]:
        """Keep other processes and threads from building the same artifact inside the context.

        Where that is not possible, or another holder takes longer than :data:`LOCK_TIMEOUT_S`, the context is entered
        all the same: the artifact is then built twice, which costs time and nothing else.
        """
        locks = self.directory / LOCKS
        usable = self._is_safe()
        if usable:
            try:
                self._make_directory()
                locks.mkdir(mode=0o700, exist_ok=True)
            except OSError:  # writing will say so
                usable = False
        if not usable:
            yield
            return
        with exclusive(str(locks / key), LOCK_TIMEOUT_S):
            yield

    def is_writable(self) -> bool:
        """Return whether artifacts can be kept on disk; makes the directory where it is missing."""
        if not self._is_safe():
            return False
        try:
            self._make_directory()
        except OSError:
            return False
        return os.access(self.directory, os.W_OK)

    def _place(self, key: str) -> str:
        return f"{self.directory}/{key[:2]}/{key}"

    def _make_directory(self) -> None:
        if self._usable:
            return
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Somebody else may have made it since it was found missing.
        if not self._is_safe():
            raise PermissionError("others can write to it")

    def _write(self, key: str, entry: Entry) -> None:
        self._make_directory()
        place = self._place(key)
        work = _new_directory(os.path.dirname(place))
        try:
            for name, data in (*entry.files().items(), (MANIFEST_FILE, encode(key, entry))):
                with open(f"{work}/{name}", "wb") as file:
                    file.write(data)
            try:
                os.replace(work, place)
            except OSError:
                # The key is taken. The same entry is as good as this one; anything else makes room.
                if self.get(key) != entry:
                    aside = f"{work}.old"
                    os.replace(place, aside)
                    os.replace(work, place)
                    remove_entry(aside)
        finally:
            remove_entry(work)

    def _is_safe(self) -> bool:
        """Whether the directory is one that only its owner, who is this user or root, can write to."""
        if self._usable is None:
            try:
                status = os.stat(self.directory)
            except FileNotFoundError:
                return True  # nothing to read; writing creates it with the right permissions
            except OSError as error:
                self._usable = False
                self._warn(f"cannot use the artifact cache {self.directory}: {error}")
                return False
            self._usable = stat.S_ISDIR(status.st_mode) and _is_private(status)
            if not stat.S_ISDIR(status.st_mode):
                self._warn(f"the artifact cache {self.directory} is not a directory")
            elif not self._usable:
                self._warn(
                    f"the artifact cache {self.directory} is not used, because others can write to it: make it yours "
                    f"(chmod go-w) or set DIFFKERN_CACHE_DIR"
                )
        return self._usable

    def _warn(self, message: str) -> None:
        with self._lock:
            first, self._warned = not self._warned, True
        if first:
            warnings.warn(f"{message}; artifacts are kept in memory", RuntimeWarning, stacklevel=4)


def _new_directory(parent: str) -> str:
    """Make a directory with a name that no other process has."""
    with contextlib.suppress(FileExistsError):
        os.mkdir(parent, 0o700)
    name = f"{parent}/{WORK_PREFIX}{os.urandom(8).hex()}"
    os.mkdir(name, 0o700)
    return name


def _read(path: str) -> bytes:
    with open(path, "rb", buffering=0) as file:
        return file.read()


def _read_manifest(path: str) -> tuple[bytes, float]:
    """Return the bytes and when the artifact was last used."""
    with open(path, "rb", buffering=0) as file:
        return file.read(), os.fstat(file.fileno()).st_mtime


def _is_private(status: os.stat_result) -> bool:
    if not hasattr(os, "getuid"):  # permissions of another kind, which the user's profile directory already has
        return True
    return status.st_uid in (0, os.getuid()) and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
