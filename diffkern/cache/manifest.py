"""The manifest of an artifact: the contents of ``manifest.json`` beside the object code.

The program's own manifest, the key's ingredients in clear and the files are encoded as JSON text, and decoded again.
The text ends with a digest of all that precedes it, and has one of every file, so that no bit of an artifact can change
unnoticed. A manifest that does not name its own key and the right format is no manifest either, nor is one that names
files that no artifact has.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any

from diffkern.cache.key import digest
from diffkern.contracts.manifest import Manifest, from_json, to_json
from diffkern.contracts.platforms import FAMILIES, Processor
from diffkern.process.dataclass import dataclass

__all__ = [
    "FILES",
    "FORMAT",
    "MANIFEST_FILE",
    "InvalidEntryError",
    "StoredArtifact",
    "decode",
    "encode",
    "names_key",
    "parse",
]

FORMAT = 4
MANIFEST_FILE = "manifest.json"
SOURCE_FILE = "source.py"
_OBJECTS = frozenset(family.platform.object_name for family in FAMILIES)
_MORE = ("kernel.ptx", "kernel.ltoir")
FILES = (*sorted(_OBJECTS), *_MORE, SOURCE_FILE, MANIFEST_FILE)
"""The files that artifacts have, the manifest last."""
_BEFORE_DIGEST = b',\n "digest": "'
_AFTER_DIGEST = b'"\n}\n'


class InvalidEntryError(Exception):
    """A cache entry is incomplete, damaged, or not one of diffkern's."""


@dataclass(frozen=True)
class StoredArtifact:
    """One artifact.

    Parameters
    ----------
    object_code : bytes
        The relocatable object, or the cubin.
    symbols : tuple of str
        The functions it exports.
    source : str
        The readable source it was made from.
    program : Manifest or None
        The program's manifest for the run time; None for artifacts that are no programs.
    ingredients : mapping of str to str
        The ingredients of the key, readable.
    object_name : str
        The file name of the object code: ``kernel.o`` or ``kernel.cubin``.
    more : mapping of str to bytes
        Other files that were made on the way and are kept: ``kernel.ptx``, ``kernel.ltoir``.
    facts : mapping
        For artifacts that are no programs: ``what`` it is, and further facts; JSON values.
    """

    object_code: bytes
    symbols: tuple[str, ...] = ()
    source: str = ""
    program: Manifest | None = None
    ingredients: Mapping[str, str] = field(default_factory=dict)
    object_name: str = Processor.object_name
    more: Mapping[str, bytes] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def manifest(self) -> Manifest:
        """The program's manifest for the run time.

        Raises
        ------
        ValueError
            If the artifact is no program.
        """
        if self.program is None:
            raise ValueError(f"a {self.facts.get('what', 'nameless artifact')} is no program")
        return self.program

    def files(self) -> dict[str, bytes]:
        """Return the files beside the manifest and their contents."""
        return {self.object_name: self.object_code, SOURCE_FILE: self.source.encode(), **self.more}


def encode(key: str, entry: StoredArtifact) -> bytes:
    """Return the text of the manifest of `entry`."""
    content = {
        "format": FORMAT,
        "key": key,
        "ingredients": dict(entry.ingredients),
        "symbols": list(entry.symbols),
        "program": to_json(entry.program),
        "facts": dict(entry.facts),
        # One digest per file: a reader can trust each file that it reads, and need not read the others.
        "sha256": {name: digest(data) for name, data in entry.files().items()},
    }
    # The digest is appended to the text it covers and stays within the JSON object.
    text = json.dumps(content, indent=1).removesuffix("\n}").encode()
    return text + _BEFORE_DIGEST + digest(text).encode() + _AFTER_DIGEST


def parse(text: bytes) -> dict[str, Any]:
    """Return the contents of a manifest, whichever artifact it belongs to.

    Raises
    ------
    InvalidEntryError
        If it is not exactly what :func:`encode` wrote.
    """
    # Checked before the text is parsed: nothing else has to expect damage then.
    covered, _, end = text.rpartition(_BEFORE_DIGEST)
    if end != digest(covered).encode() + _AFTER_DIGEST:
        raise InvalidEntryError("the manifest does not have the digest that it states")
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidEntryError(f"the manifest is not JSON: {error}") from error
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise InvalidEntryError("the manifest is of another format")
    return content


def names_key(text: bytes, key: str) -> bool:
    """Return whether a manifest names a key, although it may be damaged elsewhere or of another version's format."""
    return re.search(rb'"key"\s*:\s*"%b"' % key.encode(), text) is not None


def decode(key: str, text: bytes, read: Callable[[str], bytes]) -> StoredArtifact:
    """Return the entry that a manifest and its files describe.

    Parameters
    ----------
    key : str
        The key under which it was found.
    text : bytes
        The manifest.
    read : callable
        Returns the contents of a file beside it.

    Raises
    ------
    InvalidEntryError
        If anything does not fit.
    OSError
        If a file cannot be read.
    """
    try:
        content = parse(text)
        if content["key"] != key:
            raise InvalidEntryError("the manifest belongs to another key")
        object_name, files = _files(content["sha256"], read)
        return StoredArtifact(
            object_code=files[object_name],
            symbols=tuple(content["symbols"]),
            source=files[SOURCE_FILE].decode(),
            program=None if content["program"] is None else from_json(content["program"]),
            ingredients=content["ingredients"],
            object_name=object_name,
            more={name: data for name, data in files.items() if name in _MORE},
            facts=content["facts"],
        )
    # Whatever the damage, it is one error: callers treat the entry as missing.
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError) as error:
        raise InvalidEntryError(f"the manifest is damaged: {type(error).__name__}: {error}") from error


def _files(digests: dict[str, str], read: Callable[[str], bytes]) -> tuple[str, dict[str, bytes]]:
    """Return the name of the object's file, and the contents of all files of an entry, which have these digests."""
    # Exactly one object: which one, the family of the target decides.
    (object_name,) = (name for name in digests if name in _OBJECTS)
    # A name from the manifest is opened as a file: only known names are, or it could lead anywhere.
    if set(digests) != {object_name, SOURCE_FILE, *(name for name in digests if name in _MORE)}:
        raise InvalidEntryError("the manifest names files that no artifact has")
    files = {name: read(name) for name in digests}
    for name, data in files.items():
        if digests[name] != digest(data):
            raise InvalidEntryError(f"{name} does not have the digest that the manifest states")
    return object_name, files
