"""Mesh axes inside ``shard_map``: those over which a value varies, and making several values vary over the same ones.

JAX's checks of replication want the operands of a call to agree, and the type of a result to say what it depends on.
The names of these things have changed between versions of JAX; where a version has none of them, nothing is needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
from jax.sharding import NamedSharding, PartitionSpec

__all__ = ["agree", "like", "spread", "type_of", "varying_axes"]


def type_of(x: Any) -> Any:
    """Return JAX's type of a value."""
    return jax.typeof(x) if hasattr(jax, "typeof") else getattr(x, "aval", None)


def like(t: Any, shape: Sequence[Any], dtype: Any) -> Any:
    """Return the type of an array that varies over the same axes as one of type `t`, and is not divided otherwise."""
    sharding = getattr(t, "sharding", None)
    if sharding is not None:
        sharding = NamedSharding(sharding.mesh, PartitionSpec())
    return t.update(shape=tuple(shape), dtype=dtype, weak_type=False, sharding=sharding)


def varying_axes(values: Sequence[Any]) -> tuple[str, ...]:
    """Return the mesh axes over which any of the values varies."""
    return tuple(sorted(frozenset().union(*map(_axes, values))))


def agree(values: Sequence[Any]) -> list[Any]:
    """Return the values, all varying over the same axes. The transpose of that sums over the devices."""
    axes = varying_axes(values)
    return [spread(x, axes) for x in values]


def spread(x: Any, axes: Sequence[str]) -> Any:
    """Return the value, varying over at least these axes."""
    missing = tuple(a for a in axes if a not in _axes(x))
    if not missing:
        return x
    # Newer versions of JAX have the general cast only.
    if hasattr(jax.lax, "pcast"):
        return jax.lax.pcast(x, missing, to="varying")
    return jax.lax.pvary(x, missing)


def _axes(x: Any) -> frozenset[str]:
    t = type_of(x)
    manual = getattr(t, "mat", None)
    found = getattr(t, "vma", frozenset()) if manual is None else manual.varying
    return frozenset(found)
