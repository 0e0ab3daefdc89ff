"""Output of the threads of a launch: from the buffer that ``diffkern.contracts.abi`` describes to the standard output.

From the manifest of a program that prints, and the words of its buffer after a launch, text is written to
``sys.stdout``, in the order of the threads and for each thread in the order in which it was printed.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import numpy as np

from diffkern.contracts import abi
from diffkern.contracts.manifest import Manifest
from diffkern.ir.ops.output import rendered
from diffkern.process.tracebacks import let_pass
from diffkern.runtime.native.output import showing
from diffkern.runtime.observe.config import config

__all__ = ["empty_buffer", "give_back", "show", "show_at"]

Words = np.ndarray[Any, np.dtype[np.int64]]

_STORED: Final = {"float16": np.float16, "float32": np.float32, "float64": np.float64, "bfloat16": np.float32}


_UNUSED: Final[list[Words]] = []
"""A buffer to which nothing was printed, and which the next launch may take: most launches print nothing."""


def empty_buffer() -> Words:
    """Return a buffer of the configured size."""
    with suppress(IndexError):  # another thread may have taken it
        words = _UNUSED.pop()
        if len(words) == abi.OUTPUT_TEXTS + config.output_bytes // 8:
            return words
    words = np.zeros(abi.OUTPUT_TEXTS + config.output_bytes // 8, np.int64)
    words[abi.OUTPUT_NEXT], words[abi.OUTPUT_WORDS] = abi.OUTPUT_TEXTS, len(words)
    return words


def show(manifest: Manifest, words: Words) -> None:
    """Write the contents of a buffer to the standard output, and how many texts did not fit."""
    if words[abi.OUTPUT_NEXT] == abi.OUTPUT_TEXTS:
        return
    lost = int(words[abi.OUTPUT_LOST])
    text = "".join(_texts(manifest, words))
    if lost:
        text += (
            f"diffkern: {lost} text{'s' * (lost > 1)} printed by {manifest.title or 'a kernel'} did not fit into "
            f"{8 * (len(words) - abi.OUTPUT_TEXTS)} bytes; dk.config.output_bytes = ... makes room\n"
        )
    if (out := sys.stdout) is None:  # of a process without a console: print() writes nothing either
        return
    try:
        out.write(text)
        out.flush()
    except Exception as error:
        raise let_pass(error) from None  # the user's stream has failed, and the launch has not


def show_at(manifest: Manifest, address: int) -> None:
    """Write the contents of the buffer at an address, as :func:`show`, in the midst of a native run."""
    count = ctypes.c_int64.from_address(address + 8 * abi.OUTPUT_WORDS).value
    showing.depth += 1
    try:
        show(manifest, np.ctypeslib.as_array((ctypes.c_int64 * count).from_address(address)))
    finally:
        showing.depth -= 1


def give_back(words: Words) -> None:
    """Let another launch have a buffer, if nothing was printed to it."""
    if words[abi.OUTPUT_NEXT] == abi.OUTPUT_TEXTS and not _UNUSED:
        _UNUSED.append(words)


def _texts(manifest: Manifest, words: Words) -> list[str]:
    """Return the texts in the order of the threads."""
    readers = [(output.text, [_reader(t) for t in output.types]) for output in manifest.outputs]
    found: list[tuple[int, str]] = []
    # The counter runs beyond the end where texts did not fit. The words that such a text reserved in front of the end
    # stay zero.
    place, end = abi.OUTPUT_TEXTS, min(int(words[abi.OUTPUT_NEXT]), len(words))
    while place + 1 < end and words[place]:
        text, types = readers[int(words[place]) - 1]
        thread, first = int(words[place + 1]), place + 2
        place = first + len(types)
        values = [read(words[k]) for k, read in zip(range(first, place), types, strict=True)]
        found.append((thread, rendered(text, values)))
    found.sort(key=lambda one: one[0])  # stable
    return [text for _, text in found]


def _reader(name: str) -> Callable[[Any], Any]:
    """Return a function that converts a word to a number of a type."""
    if name == "bool":
        return lambda word: np.bool_(word != 0)
    stored = _STORED.get(name)
    if stored is not None:
        # Threads store every float as float64, which holds all narrower ones exactly.
        return lambda word: stored(word.view(np.float64))
    integer = np.dtype(name).type
    return lambda word: integer(int(word) & (1 << 8 * integer().itemsize) - 1) if name[0] == "u" else integer(word)
