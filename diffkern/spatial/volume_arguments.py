"""The arguments of sparse volumes: types of values, backgrounds, maps, points; and the coordinates of their voxels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from diffkern.errors import LaunchError, described
from diffkern.ir.types import FLOAT32, INT32, Element, Scalar, Vec, scalar_of
from diffkern.lang.dtypes import SCALARS, resolve_dtype
from diffkern.lang.structs import public_type
from diffkern.runtime.arrays.array import array, new
from diffkern.runtime.memory.device import Device
from diffkern.spatial.nanovdb import TYPE_NAMES, VALUE_TYPES, VoxelGrid
from diffkern.spatial.volume_tree import affine_map, rounded_voxels

__all__ = [
    "ELEMENTS", "OTHERS", "background_of", "capacities", "coordinates_of", "edges_of", "feature_type", "map_of",
    "scalar_named", "three", "values_of", "voxels_at", "voxels_of",
]  # fmt: skip


def scalar_named(name: str) -> Scalar:
    """Return a type of numbers."""
    found = resolve_dtype(SCALARS[name])
    assert isinstance(found, Scalar)
    return found


ELEMENTS: Final[dict[int, Element]] = {
    number: scalar_named(name) if n == 1 else Vec(scalar_named(name), n) for number, (name, n) in VALUE_TYPES.items()
}
OTHERS: Final[dict[str, tuple[str, int]]] = {
    "int16": ("int16", 1), "Half": ("float16", 1), "bool": ("bool", 1), "Vec3u8": ("uint8", 3),
    "Vec3u16": ("uint16", 3), "uint8": ("uint8", 1),
}  # fmt: skip
"""Types of values that can be named and not read by kernels."""


def values_of(grid: VoxelGrid, element: Element, device: Device) -> array:
    """Return the values of a grid: its own, or the background everywhere."""
    scalar, n = scalar_of(element), 1 if isinstance(element, Scalar) else element.size
    numbers = grid.values.view(SCALARS[scalar.name].numpy).reshape(-1, n)
    grid.values = None  # the array has them
    slots = 512 * grid.leaves + 1
    if len(numbers) == 1 < slots:
        made: array = new((slots,), element, False, device)
        made.fill_(numbers[0].item() if n == 1 else public_type(element)(*numbers[0].tolist()))
        return made
    whole: array = array(numbers[:, 0] if n == 1 else numbers, dtype=public_type(element), device=device)
    return whole


def voxels_of(grid: VoxelGrid) -> Any:
    """Return the coordinates of the voxels that have an index, in the order of the indices."""
    within = np.arange(512, dtype=np.int32)
    local = np.stack([within >> 6, (within >> 3) & 7, within & 7], axis=1)
    whole = (grid.origins[:, None, :] + local[None]).reshape(-1, 3)
    if grid.masks is None:
        return whole
    first = grid.masks[:, 8].astype(np.int64) - 1
    if not grid.numbered:
        index = (first[:, None] + np.arange(512)).reshape(-1)
        out = np.zeros((grid.indexable, 3), np.int32)
        fits = index < len(out)
        out[index[fits]] = whole[fits]
        return out
    bits = np.unpackbits(np.ascontiguousarray(grid.masks[:, :8]).view(np.uint8), axis=1, bitorder="little").astype(bool)
    index = (first[:, None] + np.cumsum(bits, axis=1) - 1)[bits]
    out = np.zeros((grid.indexable, 3), np.int32)
    out[index] = whole[bits.reshape(-1)]
    return out


def feature_type(name: str) -> Element:
    if name in TYPE_NAMES and (known := ELEMENTS.get(TYPE_NAMES.index(name))) is not None:
        return known
    found = OTHERS.get(name, ("uint8", 1))
    scalar = scalar_named(found[0])
    return scalar if found[1] == 1 else Vec(scalar, found[1])


def background_of(given: Any) -> tuple[int, Any]:
    """Return NanoVDB's number of the type of a background, and its bytes."""
    element: Element | None = None
    if type(given) in (int, float):
        element = INT32 if type(given) is int else FLOAT32
    else:
        try:
            element = resolve_dtype(type(given))
        except TypeError:
            if hasattr(given, "__len__") and len(given):
                element = Vec(FLOAT32, len(given))
    number = next((k for k, known in ELEMENTS.items() if known == element), None)
    if number is None:
        raise LaunchError(
            f"the background of a Volume is a number or a vector, not {described(given)}",
            remedy="pass a number of int32, uint32, int64, float32 or float64, or three or four numbers",
        )
    name, n = VALUE_TYPES[number]
    numbers = [given] if n == 1 else list(given)
    return number, np.array([getattr(v, "value", v) for v in numbers], SCALARS[name].numpy).view(np.uint8)


def edges_of(given: Any) -> tuple[float, float, float]:
    if isinstance(given, (int, float, np.floating, np.integer)):
        size: tuple[float, ...] = (float(given),) * 3
    elif isinstance(given, str) or not hasattr(given, "__len__"):
        raise LaunchError(f"a voxel size of {described(given)}", remedy="pass a number, or three")
    else:
        size = tuple(float(v) for v in given)
    if len(size) != 3 or not all(math.isfinite(v) and v > 0.0 for v in size):
        raise LaunchError(f"the voxel size {size}", remedy="pass a positive number, or three")
    return size[0], size[1], size[2]


def three(given: Any) -> list[float]:
    return [float(given[k]) for k in range(3)]


def map_of(voxel_size: Any, translation: Any, transform: Any) -> Any:
    """Return the map of a voxel size or a matrix."""
    if (voxel_size is None) == (transform is None):
        raise LaunchError(
            "a Volume has a voxel size or a transform, and one of them alone", remedy="pass voxel_size= or transform="
        )
    if transform is None:
        return affine_map(np.diag(edges_of(voxel_size)), three(translation))
    matrix = np.array(transform, np.float64).reshape(3, 3)
    if not np.isfinite(matrix).all() or np.linalg.det(matrix) == 0.0:
        raise LaunchError("the transform of a Volume has no inverse", remedy="pass a matrix that has one")
    return affine_map(matrix, three(translation))


def coordinates_of(given: Any, what: str, scalars: Sequence[Scalar]) -> Any:
    """Return the numbers of an array of points, n x 3."""
    names = " or ".join(map(str, scalars))
    if isinstance(given, array) and given.is_contiguous and isinstance(given._element, (Scalar, Vec)):
        shape = given._data.shape
        if scalar_of(given._element) in scalars and len(shape) == 2 and shape[1] == 3:
            return given.numpy().reshape(-1, 3)
    raise LaunchError(
        f"{what!r} is {described(given)}",
        remedy=f"pass a contiguous array of vectors of three numbers, or of shape (n, 3), of {names}",
    )


def voxels_at(given: Any, what: str, mask: array | None, place: Any) -> Any:
    """Return the voxels of points, without those that a mask leaves out."""
    found = coordinates_of(given, what, (INT32, FLOAT32))
    if found.dtype == np.float32:
        found = rounded_voxels(found, place)
    if mask is None:
        return found
    if not isinstance(mask, array) or mask._element != INT32 or mask.ndim != 1 or mask.size < len(found):
        raise LaunchError(
            f"a point_mask of {described(mask)}", remedy=f"pass an array of int32 with {len(found)} elements"
        )
    return found[mask.numpy()[: len(found)] != 0]


def capacities(given: Sequence[int | None], points: int, names: Sequence[str]) -> list[int]:
    """Return capacities; each is by default the one before it, the first the number of points."""
    found, usual = [], points
    for name, n in zip(names, given, strict=True):
        try:
            usual = int(usual if n is None else n)
        except (TypeError, ValueError):
            raise LaunchError(f"{name} of {described(n)}", remedy="pass an integer") from None
        if not 0 < usual < 2**32:
            raise LaunchError(f"{name} of {usual}", remedy="pass a positive number below 2**32")
        found.append(usual)
    return found
