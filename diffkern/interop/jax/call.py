"""The content of one custom call: its operands and results, and the launches, copies and clears in between.

A frozen :class:`XlaCall` holds programs and the binding of their parameters to buffers. Its content alone makes its
key, which is the same in every process and on every machine, so that an exported JAX program finds it again. Shapes and
launch dims are not part of it, except for views of buffers, which calls of several launches may have.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Final

from diffkern.cache.key import key
from diffkern.contracts import abi
from diffkern.ir.types import Array, Element, Mat, Vec, scalar_of
from diffkern.process.dataclass import dataclass

__all__ = ["BoundBuffer", "BufferCopy", "Clear", "ProgramLaunch", "XlaBuffer", "XlaCall", "buffer_of"]

# Part of the key: a process reads no call of another format.
FORMAT = 1


@dataclass(frozen=True)
class XlaBuffer:
    """An operand or a result: the name of its scalar type, its axes (those of composite elements included)."""

    dtype: str
    rank: int
    item: int


@dataclass(frozen=True)
class BoundBuffer:
    """A parameter of a program and the buffer that it is bound to.

    Attributes
    ----------
    kind : str
        ``array``, ``value``, ``view`` or ``constant``.
    buffer : int
        The buffer: operands first, then results.
    count : int
        Axes of an array, bytes of a value.
    item : int
        Bytes of an element of an array.
    start : int
        The offset of a view, in bytes.
    extents : tuple of int
        Shape and strides of a view.
    constant : str
        The bytes of a constant, in hexadecimal.
    """

    kind: str
    buffer: int
    count: int
    item: int = 0
    start: int = 0
    extents: tuple[int, ...] = ()
    constant: str = ""


@dataclass(frozen=True)
class BufferCopy:
    """A copy of one buffer's contents to a result; nothing happens if XLA gave them the same memory."""

    source: int
    target: int


@dataclass(frozen=True)
class Clear:
    """Zeros for a result, unless the launch overwrites it: its first `axes` dims are the result's (0: never)."""

    buffer: int
    axes: int
    launch: int


@dataclass(frozen=True)
class ProgramLaunch:
    """A launch of a program.

    Attributes
    ----------
    plain : str
        The program's identity.
    atomic : str
        The identity of the program that accumulates atomically, or nothing.
    dims : int
        Axes of the launch.
    params : tuple of Bound
        The program's parameters in order.
    """

    plain: str
    atomic: str
    dims: int
    params: tuple[BoundBuffer, ...]


@dataclass(frozen=True)
class XlaCall:
    """A custom call."""

    name: str
    operands: tuple[XlaBuffer, ...]
    results: tuple[XlaBuffer, ...]
    steps: tuple[BufferCopy | Clear | ProgramLaunch, ...]

    @property
    def launches(self) -> tuple[ProgramLaunch, ...]:
        """The launches in order."""
        return tuple(step for step in self.steps if isinstance(step, ProgramLaunch))

    @property
    def key(self) -> str:
        """The key: 64 hexadecimal digits."""
        # Sorted keys: the key must not depend on the order in which fields were written.
        return key([("diffkern call", json.dumps(self.to_json(), sort_keys=True).encode())])

    def to_json(self) -> dict[str, Any]:
        """Return the call as JSON values."""
        steps = [{"do": _WORDS[type(step)], **asdict(step)} for step in self.steps]
        buffers = {"operands": [asdict(b) for b in self.operands], "results": [asdict(b) for b in self.results]}
        return {"format": FORMAT, "name": self.name, **buffers, "steps": steps}

    @staticmethod
    def from_json(content: Mapping[str, Any]) -> XlaCall:
        """Return the call that JSON values describe.

        Raises
        ------
        KeyError, TypeError, ValueError
            If they describe none.
        """
        # An exported program may be older than this version.
        if content["format"] != FORMAT:
            raise ValueError(f"the call has format {content['format']}, not {FORMAT}")
        return XlaCall(
            content["name"],
            tuple(XlaBuffer(**b) for b in content["operands"]),
            tuple(XlaBuffer(**b) for b in content["results"]),
            tuple(_step(dict(step)) for step in content["steps"]),
        )


_WORDS: Final = {BufferCopy: "Copy", Clear: "Clear", ProgramLaunch: "Launch"}
"""The kinds of steps in exported programs, which later versions read."""


def _step(content: dict[str, Any]) -> BufferCopy | Clear | ProgramLaunch:
    kind = content.pop("do")
    if kind == "Launch":
        # JSON has lists for tuples, and a frozen call must stay hashable.
        params = [BoundBuffer(**{**p, "extents": tuple(p["extents"])}) for p in content.pop("params")]
        return ProgramLaunch(**content, params=tuple(params))
    if kind == "Copy":
        return BufferCopy(**content)
    if kind == "Clear":
        return Clear(**content)
    raise ValueError(f"a call has no step {kind!r}")


def buffer_of(t: Array | Element) -> XlaBuffer:
    """Return the buffer of a parameter: an array, or a value as it is passed."""
    # A value may be passed in a wider type than it has in the program.
    scalar = scalar_of(t if isinstance(t, Array) else abi.passed_type(t))
    element = t.dtype if isinstance(t, Array) else t
    rank = len(element.shape) if isinstance(element, (Vec, Mat)) else 0
    return XlaBuffer(scalar.name, rank + (t.ndim if isinstance(t, Array) else 0), scalar.itemsize)
