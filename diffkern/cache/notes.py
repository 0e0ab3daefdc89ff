"""Notes about texts, in files that processes append to.

A note is found by the key of a text and a name. Each text has a file ``notes/<key>``, of which every line is a note
with its digest: whatever is damaged, or was cut off, is no note. Notes only save time: where they cannot be read or
written, nothing is reported.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from pathlib import Path

from diffkern.cache.key import digest
from diffkern.cache.place import Folder, check_links, opened
from diffkern.cache.store import Store

__all__ = ["FOLDER", "Notes", "sweep_notes"]

FOLDER = "notes"
_FILE = re.compile("[0-9a-f]{64}")
_TOUCH_AFTER_S = 3600.0


class Notes:
    """The notes in the directory of a store.

    Parameters
    ----------
    store : Store
        A store; notes of one in memory are in memory too.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self._read: dict[str, dict[bytes, bytes]] = {}

    def find(self, key: str, name: bytes) -> bytes | None:
        """Return the note of a name about the text with a key; None if there is none."""
        return self._of(key).get(name.hex().encode())

    def keep(self, key: str, name: bytes, note: bytes) -> None:
        """Store a note, which has no line breaks."""
        line = name.hex().encode() + b" " + note
        self._of(key)[name.hex().encode()] = note
        with contextlib.suppress(OSError):
            # The leading line break ends a line that a killed process may have left unfinished.
            self._append(key, b"\n" + digest(line).encode() + b" " + line + b"\n")

    def _of(self, key: str) -> dict[bytes, bytes]:
        known = self._read.get(key)
        if known is None:
            known = self._read[key] = dict(_notes(self._text(key)))
        return known

    def _text(self, key: str) -> bytes:
        directory = self.store.directory
        if directory is None or not self.store.is_safe():
            return b""
        try:
            with opened(directory, FOLDER) as folder:
                text, used = folder.read(key)
                # The time of last use, by which notes are swept, at most once an hour.
                if time.time() - used > _TOUCH_AFTER_S:
                    folder.touch(key)
                return text
        except OSError:  # there is none, or others can write to it
            return b""

    def _append(self, key: str, text: bytes) -> None:
        directory = self.store.directory
        if directory is None or not self.store.is_writable():
            return
        with contextlib.suppress(FileExistsError):
            os.mkdir(directory / FOLDER, 0o700)
        with opened(directory, FOLDER) as folder:
            folder.append(key, text)


def _notes(text: bytes) -> list[tuple[bytes, bytes]]:
    found = []
    for line in text.split(b"\n"):
        own, _, rest = line.partition(b" ")
        # Lines without their digest are skipped: those of an interrupted write, or of two that overlapped.
        if rest and digest(rest).encode() == own:
            name, _, note = rest.partition(b" ")
            found.append((name, note))
    return found


def sweep_notes(directory: Path, age: float, now: float | None = None) -> None:
    """Remove the notes in a cache directory that were not used for `age` seconds.

    Raises
    ------
    UnsafeError
        If others can write to the directory, or decide which it is.
    """
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        check_links(directory)
        with opened(directory) as root:
            with root.inner(FOLDER) as folder:
                _sweep(folder, (time.time() if now is None else now) - age)
            # With the last note; the directory is made again when it is needed.
            root.rmdir(FOLDER)


def _sweep(folder: Folder, before: float) -> None:
    for name in filter(_FILE.fullmatch, folder.names()):
        with contextlib.suppress(OSError):
            if folder.status(name).st_mtime <= before:
                folder.unlink(name)
