"""Content keys: the same program gives the same key in every process and on every machine.

A key is the SHA-256, in hexadecimal, of labelled fields of bytes. Nothing here reads the clock, an address or the order
of a hash table, so that a key depends on the fields alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

__all__ = ["digest", "key"]


def key(fields: Iterable[tuple[str, bytes]]) -> str:
    """Return the key of a sequence of labelled fields.

    Every label and value is hashed behind its length, so that no two different sequences hash the same bytes.

    Parameters
    ----------
    fields : iterable of (str, bytes)
        The ingredients, in a fixed order. A label may occur more than once.

    Returns
    -------
    str
        64 hexadecimal digits.
    """
    state = hashlib.sha256()
    for label, value in fields:
        name = label.encode()
        state.update(len(name).to_bytes(8, "little"))
        state.update(name)
        state.update(len(value).to_bytes(8, "little"))
        state.update(value)
    return state.hexdigest()


def digest(data: bytes) -> str:
    """Return the SHA-256 of `data` in hexadecimal."""
    return hashlib.sha256(data).hexdigest()
