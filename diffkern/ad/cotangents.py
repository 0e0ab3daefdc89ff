"""The cotangents collected so far for the primal values of one scope of the reverse sweep.

A value used several times sums its contributions. Contributions to single components of a composite (from ``extract``)
are kept separate until the whole is asked for, so that no zero vectors are built and added.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from diffkern.ir.builder import Builder
from diffkern.ir.nodes import Value
from diffkern.ir.types import Array, Mat, Vec, value_type


class CotangentMap:
    """A map from primal values to the sum of their cotangents; a missing entry is exactly zero."""

    def __init__(self, builder: Builder) -> None:
        self.b = builder
        self._whole: dict[Value, Value] = {}
        self._parts: dict[Value, dict[int, Value]] = {}
        self._zeros: dict[Value, frozenset[int]] = {}  # of cotangents: the components that are exactly zero

    def add(self, v: Value, ct: Value) -> None:
        """Add a contribution to a value's cotangent."""
        known = self._whole.get(v)
        self._whole[v] = ct if known is None else self.b.add(known, ct)

    def add_component(self, v: Value, index: int, ct: Value) -> None:
        """Add a contribution to one component of a composite's cotangent."""
        parts = self._parts.setdefault(v, {})
        known = parts.get(index)
        parts[index] = ct if known is None else self.b.add(known, ct)

    def add_others(self, v: Value, index: int, ct: Value) -> None:
        """Add all components of a contribution but one to a composite's cotangent."""
        assert isinstance(v.type, (Vec, Mat))
        rest = self.b.one("insert", ct, self.b.const(0.0, v.type.dtype), index=index)
        # What the component gets from elsewhere needs no addition then.
        self._zeros[rest] = self._zeros.get(ct, frozenset()) | {index}
        self.add(v, rest)

    def add_at(self, v: Value, index: Sequence[Value], ct: Value) -> None:
        """Add a contribution to one element of a tile's cotangent."""
        known = self._whole.get(v)
        # All threads of a block hold the number that was read: each adds its own cotangent to the shared tile.
        each: dict[str, Any] = {"each": True} if self.b.threads and not v.type.own else {}  # type: ignore[union-attr]
        self._whole[v] = self.b.one("tile_add_at", known or self.b.zero(v.type), ct, *index, **each)

    def take(self, v: Value) -> Value | None:
        """Remove a value's cotangent from the map and return it; None if it is zero."""
        whole = self._whole.pop(v, None)
        parts = self._parts.pop(v, None)
        if parts is None:
            return whole
        assert isinstance(v.type, (Vec, Mat))
        # Missing components are exact zeros, so the vector is constructed instead of added to a vector of zeros.
        if whole is None and len(parts) < v.type.size:
            zero = self.b.const(0.0, v.type.dtype)
            return self.b.construct(v.type, [parts.get(k, zero) for k in range(v.type.size)])
        if whole is None:
            return self.b.construct(v.type, [parts[k] for k in range(v.type.size)])
        zeros = self._zeros.get(whole, frozenset())
        for k, ct in sorted(parts.items()):
            component = ct if k in zeros else self.b.add(self.b.extract(whole, k), ct)
            whole = self.b.one("insert", whole, component, index=k)
        return whole

    def remaining(self) -> list[Value]:
        """Return the values that still have a cotangent, in order of their first contribution."""
        return list(dict.fromkeys([*self._whole, *self._parts]))


def ct_name(v: Value) -> str:
    """Return the name of a value's cotangent."""
    return f"ct_{v.name}" if v.name else ""


def name_after(ct: Value, v: Value) -> None:
    """Name a cotangent after its value, unless it has a name."""
    if not ct.name and v.name:
        ct.name = ct_name(v)


def cotangent_type(p: Value) -> Array:
    """Return the type of a cotangent parameter: an array's own, or an array of one element for a by-value parameter."""
    if isinstance(p.type, Array):
        return p.type
    return Array(value_type(p.type), 1, "C")  # type: ignore[arg-type]
