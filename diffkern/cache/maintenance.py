"""Maintenance of a cache directory: list, remove, copy.

Only what belongs to diffkern is touched (:mod:`~diffkern.cache.entries`); the directory may hold other files. A
concurrent process that loses an artifact builds it again.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from diffkern.cache import entries
from diffkern.cache.entries import Contents, contents, sweep
from diffkern.cache.manifest import InvalidEntryError, parse
from diffkern.cache.notes import sweep_notes
from diffkern.cache.store import Store
from diffkern.process.dataclass import dataclass

__all__ = ["Artifact", "artifacts", "artifacts_of", "copy_artifacts", "find", "prune", "remove"]

_LEFTOVER_AGE_S = 3600.0


@dataclass(frozen=True)
class Artifact:
    """The manifest's facts about an artifact; its other files are unverified.

    Attributes
    ----------
    key : str
        Its key.
    place : Path
        Its directory.
    size : int
        Bytes of its files.
    used : float
        The time of its last use, to the hour, in seconds since 1970.
    title : str
        Its title.
    target : str
        Its target.
    ingredients : mapping of str to str
        The ingredients of the key.
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
    """Return the artifacts of a cache directory, by title; those whose manifest cannot be read are called damaged.

    Raises
    ------
    UnsafeError
        If others can write to the directory.
    """
    return artifacts_of(contents(directory))


def artifacts_of(found: Contents) -> list[Artifact]:
    """Return the artifacts among the known contents of a cache directory."""
    made = []
    for entry in found.entries:
        # Manifests of other versions may have anything in these places; a list of artifacts must not fail for that.
        content = _content(entry.manifest)
        facts = content.get("program") or content.get("facts", {})
        title = facts.get("title") or facts.get("what") or "damaged"
        target = facts.get("target", "native")
        ingredients, what = content.get("ingredients", {}), facts.get("what", "")
        made.append(Artifact(entry.key, entry.place, entry.size, entry.used, title, target, ingredients, what))
    return sorted(made, key=lambda a: (a.title, a.target, a.key))


def _content(manifest: bytes) -> dict[str, Any]:
    try:
        content = parse(manifest)
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
    # Digits of a key may be given as they are printed by other tools, in upper case.
    found = [a for a in artifacts(directory) if a.key.startswith(prefix.lower())]
    if not found:
        raise LookupError(f"no artifact's key begins with {prefix}")
    if len(found) > 1:
        raise LookupError(f"{prefix} begins the keys of {len(found)} artifacts; give more digits")
    return found[0]


def remove(found: Iterable[Artifact]) -> tuple[int, int]:
    """Remove artifacts; return their number and their bytes.

    Raises
    ------
    UnsafeError
        If others can write to their directory, or a link to it belongs to another user.
    """
    count = size = 0
    for artifact in found:
        if entries.remove(artifact.place):
            count += 1
            size += artifact.size
    return count, size


def prune(directory: Path, size: int | None, age: float | None) -> tuple[int, int]:
    """Remove artifacts and notes not used for `age` seconds, then the least recently used until `size` bytes are left.

    Returns
    -------
    (int, int)
        Number of artifacts removed, and their bytes.

    Raises
    ------
    UnsafeError
        As :func:`remove`.
    """
    now = time.time()
    # Oldest first: what is too old is a prefix, and the rest is removed in this order.
    kept = sorted(artifacts(directory), key=lambda a: a.used)
    gone = [a for a in kept if age is not None and now - a.used > age]
    kept = kept[len(gone) :]
    total = sum(a.size for a in kept)
    for artifact in kept:
        if size is None or total <= size:
            break
        gone.append(artifact)
        total -= artifact.size
    # Before the artifacts, so that directories become empty and can be removed with their last entry.
    sweep(directory, _LEFTOVER_AGE_S)
    if age is not None:
        sweep_notes(directory, age, now)
    return remove(gone)


def copy_artifacts(source: Path, destination: Store) -> tuple[int, int]:
    """Copy artifacts into a store, each verified on the way.

    Parameters
    ----------
    source : Path
        A cache directory.
    destination : Store
        The store.

    Returns
    -------
    (int, int)
        Number of artifacts copied, and number left out because they are damaged.
    """
    store = Store(source)
    copied = damaged = 0
    # Read through a store, which verifies every digest: damage is not passed on.
    for found in contents(source).entries:
        entry = store.get(found.key)
        if entry is None:
            damaged += 1
        else:
            destination.put(found.key, entry)
            copied += 1
    return copied, damaged
