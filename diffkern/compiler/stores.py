"""The stores of artifacts: the cache directory, and directories of shipped programs."""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from diffkern.cache import environment
from diffkern.cache.environment import compiler_digest, distribution_versions
from diffkern.cache.key import key
from diffkern.cache.manifest import StoredArtifact
from diffkern.cache.notes import Notes, sweep_notes
from diffkern.cache.store import NoDirectoryError, Store, default_directory
from diffkern.lang.remembered import set_memory
from diffkern.process.forks import free_in_child
from diffkern.process.tracebacks import warn
from diffkern.runtime.native import assemble, loader
from diffkern.runtime.observe.config import config

if TYPE_CHECKING:
    from diffkern.cache.maintenance import Artifact

__all__ = [
    "add_directory",
    "cache_directory",
    "clear_kernel_cache",
    "clear_lto_cache",
    "current_store",
    "shipped_stores",
]

_store: Store | None = None
_directories: list[Store] = []
_lock = free_in_child(threading.Lock())


def cache_directory() -> Path:
    """Return the cache directory: ``dk.config.cache_dir``, else DIFFKERN_CACHE_DIR, else the platform's place.

    Raises
    ------
    NoDirectoryError
        If it would be in a home directory, and there is none.
    """
    return config.cache_dir or default_directory()


def current_store() -> Store:
    """Return the store of the cache directory; of memory alone, after a warning, where no directory can be named."""
    global _store
    directory, problem = None, ""
    try:
        directory = cache_directory()
    except NoDirectoryError as error:
        problem = str(error)
    with _lock:
        # The directory is asked for each time, as the program may set another one at any time.
        store = Store(directory) if _store is None or _store.directory != directory else _store
        is_new, _store = store is not _store, store
    if is_new and directory is None:
        warn(f"{problem}: set DIFFKERN_CACHE_DIR; artifacts are kept in memory")
    return store


def clear_kernel_cache() -> int:
    """Remove all artifacts from the cache directory, including the code of matrix products; return their number.

    Programs that are loaded stay loaded; kernels that are launched for the first time are compiled again.
    """
    from diffkern.cache.maintenance import remove

    count = remove(_kept())[0]
    directory = current_store().directory
    if directory is not None and current_store().is_safe():
        sweep_notes(directory, 0.0)
    return count


def clear_lto_cache() -> int:
    """Remove the code of matrix products from the cache directory; return the number of products."""
    from diffkern.cache.maintenance import remove

    return remove(a for a in _kept() if a.what == "matrix product")[0]


def _kept() -> list[Artifact]:
    """Return the artifacts in the cache directory; none, after a warning, if others can write to it."""
    from diffkern.cache.maintenance import artifacts

    store = current_store()
    return artifacts(store.directory) if store.directory is not None and store.is_safe() else []


def shipped_stores() -> Sequence[Store]:
    """Return the directories of shipped artifacts, in the order in which they were added."""
    return _directories


def add_directory(directory: Path) -> None:
    """Make programs be found in a directory of shipped artifacts, which is only read."""
    with _lock:
        # Loading a directory twice must not look everything up twice.
        if all(store.directory != directory for store in _directories):
            _directories.append(Store(directory))


def _load_own(name: str) -> bytes | None:
    entry = current_store().get(name)
    return None if entry is None else entry.object_code


def _store_own(name: str, code: bytes) -> None:
    current_store().put(name, StoredArtifact(code, facts={"what": "native code of the run time"}))


assemble.set_object_cache(_load_own, _store_own)


_known_notes: Notes | None = None


def _notes() -> Notes:
    global _known_notes
    store = current_store()
    # Notes live in the store's directory; another directory has other notes.
    if _known_notes is None or _known_notes.store is not store:
        _known_notes = Notes(store)
    return _known_notes


class _AboutTexts:
    """Facts that were found out about texts, in notes; another compiler or Python may find other facts."""

    def find(self, text: bytes, name: bytes) -> bytes | None:
        return _notes().find(_key_of(text), name)

    def keep(self, text: bytes, name: bytes, found: bytes) -> None:
        _notes().keep(_key_of(text), name, found)


@functools.cache
def _key_of(text: bytes) -> str:
    fields = [("what", b"notes"), ("text", text), ("python", sys.version.encode()), ("diffkern", compiler_digest())]
    return key(fields)


set_memory(_AboutTexts())


def _find_digest(state: bytes) -> bytes | None:
    found = _notes().find(_key_of_sources(state), b"digest")
    return None if found is None else bytes.fromhex(found.decode())


def _keep_digest(state: bytes, digest: bytes) -> None:
    _notes().keep(_key_of_sources(state), b"digest", digest.hex().encode())


def _key_of_sources(state: bytes) -> str:
    return key([("what", b"sources"), ("state", state)])


environment.set_memory(_find_digest, _keep_digest)


def _find_processor(processor: bytes) -> bytes | None:
    version = _llvm_version()
    return None if version is None else _notes().find(_key_of_processor(processor), version)


def _keep_processor(processor: bytes, found: bytes) -> None:
    if (version := _llvm_version()) is not None:
        _notes().keep(_key_of_processor(processor), version, found)


def _key_of_processor(processor: bytes) -> str:
    return key([("what", b"processor"), ("processor", processor)])


def _llvm_version() -> bytes | None:
    # Another LLVM may know a processor by another name: nothing is kept for one whose version cannot be told.
    ((_, version),) = distribution_versions(("llvmlite",))
    return None if version == "none" else version.encode()


loader.set_memory(_find_processor, _keep_processor)
