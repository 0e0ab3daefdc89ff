"""Look after a cache directory: list, remove, copy.

In: a cache directory. Out: facts about its artifacts, or fewer or more of them. Only what the store recognises as its
own is touched; the directory may hold other files. A concurrent process that loses an artifact builds it again.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from diffkern.cache.manifest import InvalidEntryError, parse
from diffkern.cache.store import LOCK_PREFIX, MANIFEST_FILE, WORK_PREFIX, Store, entries, remove_entry

__all__ = ["Artifact", "artifacts", "copy_artifacts", "find", "prune", "publish", "remove", "sweep"]

_LEFTOVER_AGE_S = 3600.0


@dataclass(frozen=True)
class Artifact:
    """What the manifest of an artifact says; its other files are unverified.

    Attributes
    ----------
    key : str
        Its key.
    place : Path
        Its directory.
    size : int
        Bytes of its files.
    used : float
        When it was last used, to the hour, in seconds since 1970.
    title : str
        What it is.
    target : str
        What it is for.
    ingredients : mapping of str to str
        What went into the key.
    what : str
        Its kind if it is no program, such as ``"matrix product"``.
    """

    key: str
    place: Path
    size: int
    used: float
    title: str
    target: str
    ingredients: Mapping[str, str]
    what: str = ""


def artifacts(directory: Path) -> list[Artifact]:
    """Return the artifacts of a cache directory, by title; those whose manifest cannot be read are called damaged."""
    found = []
    for place in entries(directory):
        try:
            status = [file.stat() for file in place.iterdir()]
            used = (place / MANIFEST_FILE).stat().st_mtime
            content: Any = _content(place)
            size = sum(s.st_size for s in status)
        except OSError:  # removed by another process meanwhile
            continue
        facts = content.get("program") or content.get("facts", {})
        title = facts.get("title") or facts.get("what") or "damaged"
        target = facts.get("target", "native")
        ingredients, what = content.get("ingredients", {}), facts.get("what", "")
        found.append(Artifact(place.name, place, size, used, title, target, ingredients, what))
    return sorted(found, key=lambda a: (a.title, a.target, a.key))


def _content(place: Path) -> dict[str, Any]:
    try:
        content = parse((place / MANIFEST_FILE).read_bytes())
    except InvalidEntryError:
        return {}
    dicts = (content.get("program") or {}, content.get("facts"), content.get("ingredients"))
    return content if all(isinstance(one, dict) for one in dicts) else {}


def find(directory: Path, prefix: str) -> Artifact:
    """Return the artifact whose key begins with `prefix`.

    Raises
    ------
    LookupError
        If there is none, or more than one.
    """
    found = [a for a in artifacts(directory) if a.key.startswith(prefix.lower())]
    if not found:
        raise LookupError(f"no artifact's key begins with {prefix}")
    if len(found) > 1:
        raise LookupError(f"{prefix} begins the keys of {len(found)} artifacts; give more digits")
    return found[0]


def remove(found: Iterable[Artifact]) -> tuple[int, int]:
    """Remove artifacts; return how many, and their bytes."""
    count = size = 0
    for artifact in found:
        remove_entry(artifact.place)
        if not artifact.place.exists():
            count += 1
            size += artifact.size
    return count, size


def prune(directory: Path, size: int | None, age: float | None, now: float | None = None) -> tuple[int, int]:
    """Remove the artifacts not used for `age` seconds, then the least recently used until `size` bytes are left.

    Returns
    -------
    (int, int)
        How many were removed, and their bytes.
    """
    now = time.time() if now is None else now
    kept = sorted(artifacts(directory), key=lambda a: a.used)
    gone = [a for a in kept if age is not None and now - a.used > age]
    kept = kept[len(gone) :]
    total = sum(a.size for a in kept)
    for artifact in kept:
        if size is None or total <= size:
            break
        gone.append(artifact)
        total -= artifact.size
    sweep(directory, _LEFTOVER_AGE_S)
    return remove(gone)


def sweep(directory: Path, age: float) -> None:
    """Remove what processes left behind that were killed while they wrote, older than `age` seconds."""
    for leftover in (*directory.glob(f"??/{WORK_PREFIX}*"), *directory.glob(f"{LOCK_PREFIX}*")):
        try:
            old = time.time() - leftover.lstat().st_mtime > age
        except OSError:
            continue
        if old:
            remove_entry(leftover)


def copy_artifacts(source: Path, destination: Store, keys: Iterable[str] | None = None) -> tuple[int, int]:
    """Copy artifacts into a store, each verified on the way.

    Parameters
    ----------
    source : Path
        A cache directory.
    destination : Store
        Where to.
    keys : iterable of str, optional
        Which; all by default.

    Returns
    -------
    (int, int)
        How many were copied, and how many were left out because they are damaged.
    """
    store = Store(source)
    copied = damaged = 0
    for key in [place.name for place in entries(source)] if keys is None else keys:
        entry = store.get(key)
        if entry is None:
            damaged += 1
        else:
            destination.put(key, entry)
            copied += 1
    return copied, damaged


def publish(directory: Path, is_new: bool) -> None:
    """Let everybody read the artifacts of a directory, and the directory itself if it was made for them."""
    if is_new:
        os.chmod(directory, 0o755)
    for place in entries(directory):
        os.chmod(place.parent, 0o755)
        os.chmod(place, 0o755)
        for file in place.iterdir():
            os.chmod(file, 0o644)
