"""The manifest of an artifact: what stands in ``manifest.json`` beside the object code.

In: the program's own facts, the key's ingredients in clear, the files. Out: JSON text, and back again. A manifest that
does not name its own key, the right format, and the right digest of every file is no manifest.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from diffkern.cache.key import digest

__all__ = ["FILES", "FORMAT", "Entry", "InvalidEntryError", "decode", "encode"]

FORMAT = 2
OBJECT_FILE = "kernel.o"
SOURCE_FILE = "source.py"
FILES = (OBJECT_FILE, SOURCE_FILE)


class InvalidEntryError(Exception):
    """A cache entry is incomplete, damaged, or not one of diffkern's."""


@dataclass(frozen=True)
class Entry:
    """One artifact.

    Parameters
    ----------
    object_code : bytes
        The relocatable object.
    symbols : tuple of str
        The functions it exports.
    source : str
        The readable source it was made from.
    program : mapping
        Facts about the program that the launch path needs; JSON values.
    ingredients : mapping of str to str
        What went into the key, readable.
    """

    object_code: bytes
    symbols: tuple[str, ...] = ()
    source: str = ""
    program: Mapping[str, Any] = field(default_factory=dict)
    ingredients: Mapping[str, str] = field(default_factory=dict)

    def files(self) -> dict[str, bytes]:
        """Return the files beside the manifest and their contents."""
        return {OBJECT_FILE: self.object_code, SOURCE_FILE: self.source.encode()}


def encode(key: str, entry: Entry) -> bytes:
    """Return the text of the manifest of `entry`."""
    content = {
        "format": FORMAT,
        "key": key,
        "ingredients": dict(entry.ingredients),
        "symbols": list(entry.symbols),
        "program": dict(entry.program),
        "sha256": {name: digest(data) for name, data in entry.files().items()},
    }
    return (json.dumps(content, indent=1) + "\n").encode()


def decode(key: str, text: bytes, files: Mapping[str, bytes]) -> Entry:
    """Return the entry that a manifest and its files describe.

    Raises
    ------
    InvalidEntryError
        If anything is missing or does not fit.
    """
    try:
        content = json.loads(text)
        if content["format"] != FORMAT or content["key"] != key:
            raise InvalidEntryError("the manifest is of another format or belongs to another key")
        for name in FILES:
            if content["sha256"][name] != digest(files[name]):
                raise InvalidEntryError(f"{name} does not have the digest that the manifest states")
        return Entry(
            object_code=files[OBJECT_FILE],
            symbols=tuple(content["symbols"]),
            source=files[SOURCE_FILE].decode(),
            program=content["program"],
            ingredients=content["ingredients"],
        )
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidEntryError(f"the manifest is damaged: {type(error).__name__}: {error}") from error
