"""JAX's arrays, types and devices as diffkern's, and diffkern's as JAX's.

Each function takes an array, an element type or a device of one side and returns that of the other; arrays share their
memory.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from diffkern.ir.types import BFLOAT16, SCALARS, scalar_of
from diffkern.lang.dtypes import COMPOSITES, CompositeType, DType, dtype_to_numpy, resolve_dtype
from diffkern.lang.dtypes import SCALARS as NAMED
from diffkern.runtime.arrays.array import array
from diffkern.runtime.arrays.foreign import adopt_dlpack
from diffkern.runtime.memory.device import Device, get_device

__all__ = ["device_from_jax", "device_to_jax", "dtype_from_jax", "dtype_to_jax", "from_jax", "to_jax"]


def from_jax(a: Any, dtype: Any = None) -> array:
    """Return an array over the memory of a JAX array."""
    # The pointer may be to memory that a pending computation has yet to write.
    return adopt_dlpack(jax.block_until_ready(a), None if dtype is None else resolve_dtype(dtype))


def to_jax(a: array) -> Any:
    """Return a JAX array over the memory of an array."""
    return jnp.from_dlpack(a)


def dtype_from_jax(jax_dtype: Any) -> DType | CompositeType:
    """Return the scalar type for a type of JAX."""
    name = np.dtype(jax_dtype).name
    if name not in SCALARS and name not in COMPOSITES:
        raise TypeError(f"diffkern has no type for {name}; convert the array with .astype()")
    return NAMED[name] if name in SCALARS else COMPOSITES[name]


def dtype_to_jax(dtype: Any) -> Any:
    """Return JAX's type of an element type."""
    return jnp.bfloat16 if scalar_of(resolve_dtype(dtype)) == BFLOAT16 else dtype_to_numpy(dtype)


def device_from_jax(jax_device: Any) -> Device:
    """Return the device for a device of JAX."""
    platform = jax_device.platform
    if platform not in ("cpu", "gpu", "cuda"):
        raise ValueError(f"diffkern has no devices of JAX's platform {platform!r}")
    return get_device("cpu" if platform == "cpu" else f"cuda:{jax_device.local_hardware_id}")


def device_to_jax(device: Any = None) -> Any:
    """Return JAX's device for a device of diffkern."""
    wanted = get_device(device)
    for found in jax.local_devices(backend="cpu" if wanted.is_cpu else "cuda"):
        if wanted.is_cpu or found.local_hardware_id == wanted.ordinal:
            return found
    raise ValueError(f"JAX has no device for {wanted}")
