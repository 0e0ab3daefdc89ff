"""Sparse volumes: values at the voxels of a grid of which only some tiles of 8 x 8 x 8 voxels exist.

The tree has the levels of NanoVDB: a sorted list of root tiles (4096 voxels along an edge), nodes of 32³ entries,
nodes of 16³ entries, and tiles of 8³ voxels. An entry is the number of a node or tile if it is not negative; else its
complement is the *slot* of a value that holds for all its voxels. Slots count values: first those of the tiles, 512
each, then constant ones, last the background. The search of slots has no derivative; from the values on, a sample is a
polynomial of the place in a cell and of the values, which is differentiated like any other formula.
"""

from __future__ import annotations

from typing import Any

from diffkern.lang.func import func
from diffkern.lang.library import built_in
from diffkern.lang.queries import VOLUME
from diffkern.library.descriptors import descriptor_of
from diffkern.library.language import (
    Float,
    Int32,
    Voxel,
    VoxelNumber,
    array1d,
    bit_count,
    fetch,
    fetch_float64,
    fetch_int32,
    fetch_int64,
    fetch_uint32,
    float32,
    float64,
    floor,
    int32,
    int64,
    matrix_from_cols,
    peek_float32,
    peek_float64,
    peek_int32,
    peek_uint64,
    poke_float32,
    poke_float64,
    poke_int32,
    poke_int64,
    poke_uint32,
    uint32,
    uint64,
    vec3,
    vec3d,
    vec3f,
    vec4,
    vec4d,
    vec4f,
)
from diffkern.library.language import round as rounded

__all__: list[str] = []

(
    ID, TYPE, TILES, KEYS, ROOTS, UPPERS, LOWERS, VALUES, COTANGENTS, BACKGROUND, LEAVES, VOXELS, MASKS, NUMBERED,
    SINGLE, DOUBLE, WORDS,
) = range(17)  # fmt: skip
"""The words of a descriptor: its id; the type of the values; the number of root tiles, their sorted keys and entries;
where the entries of both levels of nodes begin; where the values begin, and their cotangents, or 0; the slot of the
background; numbers of tiles and of indexable voxels; where the masks of the tiles begin (0: every voxel of a tile has
an index), and whether only voxels that are set there have one; the map from indices to the world, as float32 and
float64: matrix, inverse, translation."""

MASK_WORDS = 10
"""The words of a tile among the masks: a bit for each voxel, the first index, and nine bits for each count of set bits
up to a word."""

FLOAT, DOUBLES, INT, LONG, VEC3F, VEC3D, UINT, VEC4F, VEC4D = 1, 2, 4, 5, 6, 7, 10, 17, 18
"""Types of values, by NanoVDB's numbers."""


@func
def descriptor(id):  # type: ignore[no-untyped-def]
    """Return the address of the descriptor; 0 if the id is not that of one."""
    place = descriptor_of(id, VOLUME)
    assert place != uint64(0), "the id is that of no Volume, or of one that is gone"
    return place


@func
def number_of(dtype):  # type: ignore[no-untyped-def]
    """Return the number of a type of values."""
    number = FLOAT
    if dtype == float64:
        number = DOUBLES
    elif dtype == int32:
        number = INT
    elif dtype == int64:
        number = LONG
    elif dtype == uint32:
        number = UINT
    elif dtype == vec3f:
        number = VEC3F
    elif dtype == vec3d:
        number = VEC3D
    elif dtype == vec4f:
        number = VEC4F
    elif dtype == vec4d:
        number = VEC4D
    return number


@func
def of_type(dtype, id):  # type: ignore[no-untyped-def]
    """Return the address of the descriptor; 0 if the volume has values of another type."""
    place = descriptor(id)
    if place != uint64(0):
        fits = int32(peek_uint64(place, TYPE)) == number_of(dtype)
        assert fits, "the values of the Volume are of another type"
        place = place if fits else uint64(0)
    return place


# -- the search --------------------------------------------------------------------------------------------------------


@func
def key_of(i, j, k):  # type: ignore[no-untyped-def]
    """Return the key of the root tile of a voxel."""
    x, y, z = uint64(uint32(i) >> uint32(12)), uint64(uint32(j) >> uint32(12)), uint64(uint32(k) >> uint32(12))
    return (x << uint64(42)) | (y << uint64(21)) | z


@func
def root_of(place, key):  # type: ignore[no-untyped-def]
    """Return the entry of the root tile with a key, that of the background if there is none."""
    keys, low, high = peek_uint64(place, KEYS), 0, int32(peek_uint64(place, TILES))
    entry = ~int32(peek_uint64(place, BACKGROUND))
    if high > 0:
        while high - low > 1:
            middle = (low + high) >> 1
            if peek_uint64(keys, middle) <= key:
                low = middle
            else:
                high = middle
        if peek_uint64(keys, low) == key:
            entry = peek_int32(peek_uint64(place, ROOTS), low)
    return entry


@func
def lower_of(place, i, j, k):  # type: ignore[no-untyped-def]
    """Return the entry in a node of 32³ entries where a voxel lies."""
    entry = root_of(place, key_of(i, j, k))
    if entry >= 0:
        within = ((((i >> 7) & 31) << 5 | ((j >> 7) & 31)) << 5) | ((k >> 7) & 31)
        entry = peek_int32(peek_uint64(place, UPPERS), (entry << 15) + within)
    return entry


@func
def leaf_in(place, lower, i, j, k):  # type: ignore[no-untyped-def]
    """Return the entry in a node of 16³ entries where a voxel lies; the node's own entry if that is a constant."""
    entry = lower
    if lower >= 0:
        within = ((((i >> 3) & 15) << 4 | ((j >> 3) & 15)) << 4) | ((k >> 3) & 15)
        entry = peek_int32(peek_uint64(place, LOWERS), (lower << 12) + within)
    return entry


@func
def within_leaf(i, j, k):  # type: ignore[no-untyped-def]
    """Return the number of a voxel in its tile."""
    return (((i & 7) << 3 | (j & 7)) << 3) | (k & 7)


@func
def slot_in(place, lower, i, j, k):  # type: ignore[no-untyped-def]
    """Return the slot of a voxel in a node of 16³ entries."""
    leaf = leaf_in(place, lower, i, j, k)
    return (leaf << 9) + within_leaf(i, j, k) if leaf >= 0 else ~leaf


@func
def slot_of(place, i, j, k):  # type: ignore[no-untyped-def]
    """Return the slot of a voxel."""
    return slot_in(place, lower_of(place, i, j, k), i, j, k)


@func
def nearest(x):  # type: ignore[no-untyped-def]
    """Return the voxel nearest to a coordinate; halves are away from zero, NaN is voxel 0."""
    return int32(rounded(x))


@func
def corners(place, i, j, k):  # type: ignore[no-untyped-def]
    """Return the slots of eight voxels, from the given one on; z runs fastest."""
    i1, j1, k1 = i + 1, j + 1, k + 1
    if (i & 7) < 7 and (j & 7) < 7 and (k & 7) < 7:
        # Within one tile, as most are: one search.
        leaf = leaf_in(place, lower_of(place, i, j, k), i, j, k)
        first = (leaf << 9) + within_leaf(i, j, k) if leaf >= 0 else ~leaf
        step = 1 if leaf >= 0 else 0
        a, b, c, d = first, first + step, first + 8 * step, first + 9 * step
        e, f, g, h = first + 64 * step, first + 65 * step, first + 72 * step, first + 73 * step
    else:
        near = lower_of(place, i, j, k)
        n1, n2, n3, n4, n5, n6, n7 = near, near, near, near, near, near, near
        if (i & 127) == 127 or (j & 127) == 127 or (k & 127) == 127:
            n1, n2, n3 = lower_of(place, i, j, k1), lower_of(place, i, j1, k), lower_of(place, i, j1, k1)
            n4, n5 = lower_of(place, i1, j, k), lower_of(place, i1, j, k1)
            n6, n7 = lower_of(place, i1, j1, k), lower_of(place, i1, j1, k1)
        a, b = slot_in(place, near, i, j, k), slot_in(place, n1, i, j, k1)
        c, d = slot_in(place, n2, i, j1, k), slot_in(place, n3, i, j1, k1)
        e, f = slot_in(place, n4, i1, j, k), slot_in(place, n5, i1, j, k1)
        g, h = slot_in(place, n6, i1, j1, k), slot_in(place, n7, i1, j1, k1)
    return a, b, c, d, e, f, g, h


@func
def index_of(place, slot):  # type: ignore[no-untyped-def]
    """Return the index of the voxel of a slot among those that have one; -1 if it has none."""
    index, masks = -1, peek_uint64(place, MASKS)
    if slot < int32(peek_uint64(place, LEAVES)) << 9:
        if masks == uint64(0):
            index = slot
        else:
            base, n = (slot >> 9) * MASK_WORDS, slot & 511
            first = int32(peek_uint64(masks, base + 8)) - 1
            if peek_uint64(place, NUMBERED) == uint64(0):
                index = first + n
            else:
                word, bit = n >> 6, uint64(1) << uint64(n & 63)
                mask = peek_uint64(masks, base + word)
                if mask & bit != uint64(0):
                    index = first + bit_count(mask & (bit - uint64(1)))
                    if word > 0:
                        counts = peek_uint64(masks, base + 9)
                        index += int32((counts >> uint64(9 * (word - 1))) & uint64(511))
    return index


# -- values ------------------------------------------------------------------------------------------------------------


@func
def number_at(dtype, values, cotangents, at):  # type: ignore[no-untyped-def]
    """Return a number of the values."""
    if dtype in (float64, vec3d, vec4d):
        number = fetch_float64(values, cotangents, at)
    elif dtype == int32:
        number = fetch_int32(values, cotangents, at)
    elif dtype == uint32:
        number = fetch_uint32(values, cotangents, at)
    elif dtype == int64:
        number = fetch_int64(values, cotangents, at)
    else:
        number = fetch(values, cotangents, at)
    return number


@func
def value_at(dtype, values, cotangents, slot):  # type: ignore[no-untyped-def]
    """Return the value of a slot."""
    if dtype in (vec3f, vec3d):
        at = 3 * slot
        x, y = number_at(dtype, values, cotangents, at), number_at(dtype, values, cotangents, at + 1)
        value = dtype(x, y, number_at(dtype, values, cotangents, at + 2))
    elif dtype in (vec4f, vec4d):
        at = 4 * slot
        x, y = number_at(dtype, values, cotangents, at), number_at(dtype, values, cotangents, at + 1)
        z, w = number_at(dtype, values, cotangents, at + 2), number_at(dtype, values, cotangents, at + 3)
        value = dtype(x, y, z, w)
    else:
        value = number_at(dtype, values, cotangents, slot)
    return value


@func
def cell_of(place, x, y, z):  # type: ignore[no-untyped-def]
    """Return the slots of the voxels around a place, and where it is between them."""
    low_x, low_y, low_z = floor(x), floor(y), floor(z)
    slots = corners(place, int32(low_x), int32(low_y), int32(low_z))
    return slots, x - low_x, y - low_y, z - low_z


@func
def between(low, high, t):  # type: ignore[no-untyped-def]
    """Return what is between two values; the slope is their difference, which keeps its digits if both are large."""
    return low + t * (high - low)


@func
def mixed(a, b, c, d, e, f, g, h, x, y, z):  # type: ignore[no-untyped-def]
    """Return the value between those of eight voxels."""
    near = between(between(a, e, x), between(c, g, x), y)
    far = between(between(b, f, x), between(d, h, x), y)
    return between(near, far, z)


@func
def slopes(a, b, c, d, e, f, g, h, x, y, z):  # type: ignore[no-untyped-def]
    """Return the value between those of eight voxels, and its derivatives along the axes."""
    low, high = between(a, e, x), between(c, g, x)
    far_low, far_high = between(b, f, x), between(d, h, x)
    near, far = between(low, high, y), between(far_low, far_high, y)
    along_x = between(between(e - a, g - c, y), between(f - b, h - d, y), z)
    return between(near, far, z), along_x, between(high - low, far_high - far_low, z), far - near


@func
def values_at(dtype, place, slots):  # type: ignore[no-untyped-def]
    """Return the values of eight slots."""
    a, b, c, d, e, f, g, h = slots
    values, ct = peek_uint64(place, VALUES), peek_uint64(place, COTANGENTS)
    a, b, c, d = (
        value_at(dtype, values, ct, a), value_at(dtype, values, ct, b), value_at(dtype, values, ct, c),
        value_at(dtype, values, ct, d),
    )  # fmt: skip
    e, f, g, h = (
        value_at(dtype, values, ct, e), value_at(dtype, values, ct, f), value_at(dtype, values, ct, g),
        value_at(dtype, values, ct, h),
    )  # fmt: skip
    return a, b, c, d, e, f, g, h


@func
def indexed(array, background, index):  # type: ignore[no-untyped-def]
    """Return an element, or the background for the index -1."""
    value = background
    if index >= 0:
        value = array[index]
    return value


@func
def elements_at(place, slots, array, background):  # type: ignore[no-untyped-def]
    """Return the elements of an array for eight slots."""
    a, b, c, d, e, f, g, h = slots
    return (
        indexed(array, background, index_of(place, a)), indexed(array, background, index_of(place, b)),
        indexed(array, background, index_of(place, c)), indexed(array, background, index_of(place, d)),
        indexed(array, background, index_of(place, e)), indexed(array, background, index_of(place, f)),
        indexed(array, background, index_of(place, g)), indexed(array, background, index_of(place, h)),
    )  # fmt: skip


@func
def part_of(value, t):  # type: ignore[no-untyped-def]
    """Return where a place is in its cell, as a number of the type of the values."""
    zero = float64(0.0)
    if type(value) is type(zero) or type(value) is type(vec3d(zero)) or type(value) is type(vec4d(zero)):
        part = float64(t)
    else:
        part = t
    return part


@func
def looked_up(dtype, id, i, j, k):  # type: ignore[no-untyped-def]
    """Return the value of a voxel."""
    value = dtype(0)
    place = of_type(dtype, id)
    if place != uint64(0):
        slot = slot_of(place, i, j, k)
        value = value_at(dtype, peek_uint64(place, VALUES), peek_uint64(place, COTANGENTS), slot)
    return value


@func
def is_whole(dtype):  # type: ignore[no-untyped-def]
    """Return whether a type is of integers, which are not interpolated."""
    return dtype in (int32, int64, uint32)


@func
def sampled(dtype, id, x, y, z, mode):  # type: ignore[no-untyped-def]
    """Return a sample."""
    value = dtype(0)
    if is_whole(dtype) or mode == 0:
        value = looked_up(dtype, id, nearest(x), nearest(y), nearest(z))
    elif mode == 1:
        place = of_type(dtype, id)
        if place != uint64(0):
            slots, u, v, w = cell_of(place, x, y, z)
            a, b, c, d, e, f, g, h = values_at(dtype, place, slots)
            value = mixed(a, b, c, d, e, f, g, h, part_of(a, u), part_of(a, v), part_of(a, w))
    return value


@func
def sampled_with_slopes(dtype, id, x, y, z, mode):  # type: ignore[no-untyped-def]
    """Return a sample and its derivatives along the axes."""
    value, along_x, along_y, along_z = dtype(0), dtype(0), dtype(0), dtype(0)
    if mode == 0:
        value = looked_up(dtype, id, nearest(x), nearest(y), nearest(z))
    elif mode == 1:
        place = of_type(dtype, id)
        if place != uint64(0):
            slots, u, v, w = cell_of(place, x, y, z)
            a, b, c, d, e, f, g, h = values_at(dtype, place, slots)
            value, along_x, along_y, along_z = slopes(
                a, b, c, d, e, f, g, h, part_of(a, u), part_of(a, v), part_of(a, w)
            )
    return value, along_x, along_y, along_z


@func
def joined(along_x, along_y, along_z):  # type: ignore[no-untyped-def]
    """Return the derivatives of a number as a vector, and those of a vector as a matrix with a column for each axis."""
    if type(along_x) is type(float32(0.0)):
        made = vec3f(along_x, along_y, along_z)
    elif type(along_x) is type(float64(0.0)):
        made = vec3d(along_x, along_y, along_z)
    else:
        made = matrix_from_cols(along_x, along_y, along_z)
    return made


# -- built-in functions ------------------------------------------------------------------------------------------------


@built_in()
def volume_sample(id: uint64, uvw: vec3, sampling_mode: Int32, dtype: Voxel) -> Any:
    """The value of a Volume at a place in index space, by the id of the volume. sampling_mode is Volume.CLOSEST or
    Volume.LINEAR; integers are of the closest voxel. The dtype is that of the volume; of another type zero comes back.

    Derivative: with respect to the place and, on a tape, the values of the volume.

    Kinks: at the voxels; the derivative there is that towards larger coordinates. That of the closest voxel with
    respect to the place is zero.

    Example: y[i] = dk.volume_sample(volume, dk.vec3(0.25, 0.5, 1.0), dk.Volume.LINEAR, dtype=float)
    """
    return sampled(dtype, id, float32(uvw[0]), float32(uvw[1]), float32(uvw[2]), sampling_mode)


@built_in()
def volume_sample_f(id: uint64, uvw: vec3, sampling_mode: Int32) -> float32:
    """The value of a Volume of float32 at a place in index space, as volume_sample.

    Derivative: with respect to the place and, on a tape, the values of the volume.

    Kinks: as of volume_sample.

    Example: y[i] = dk.volume_sample_f(volume, dk.vec3(0.25, 0.5, 1.0), dk.Volume.LINEAR)
    """
    return sampled(float32, id, float32(uvw[0]), float32(uvw[1]), float32(uvw[2]), sampling_mode)


@built_in()
def volume_sample_v(id: uint64, uvw: vec3, sampling_mode: Int32) -> vec3f:
    """The value of a Volume of vec3f at a place in index space, as volume_sample.

    Derivative: with respect to the place and, on a tape, the values of the volume.

    Kinks: as of volume_sample.

    Example: w[i] = dk.volume_sample_v(volume, dk.vec3(0.25, 0.5, 1.0), dk.Volume.LINEAR)
    """
    return sampled(vec3f, id, float32(uvw[0]), float32(uvw[1]), float32(uvw[2]), sampling_mode)


@built_in()
def volume_sample_i(id: uint64, uvw: vec3) -> int32:
    """The value of a Volume of int32 at the voxel closest to a place in index space.

    Derivative: none, it is an integer.

    Example: q[i] = dk.volume_sample_i(volume, dk.vec3(0.25, 0.5, 1.0))
    """
    return sampled(int32, id, float32(uvw[0]), float32(uvw[1]), float32(uvw[2]), 0)


@built_in()
def volume_sample_index(id: uint64, uvw: vec3, sampling_mode: Int32, voxel_data: array1d, background: Any) -> Any:
    """The value at a place in index space that an array has at the indices of a Volume's voxels (volume_lookup_index),
    and the background where there is no voxel.

    Derivative: with respect to the place, the array and the background.

    Kinks: as of volume_sample.

    Example: y[i] = dk.volume_sample_index(volume, dk.vec3(0.25, 0.5, 1.0), dk.Volume.LINEAR, x, 0.0)
    """
    outside = voxel_data.dtype(background)
    value = outside
    place = descriptor(id)
    x, y, z = float32(uvw[0]), float32(uvw[1]), float32(uvw[2])
    if place != uint64(0):
        if sampling_mode == 0:
            slot = slot_of(place, nearest(x), nearest(y), nearest(z))
            value = indexed(voxel_data, outside, index_of(place, slot))
        elif sampling_mode == 1:
            slots, u, v, w = cell_of(place, x, y, z)
            a, b, c, d, e, f, g, h = elements_at(place, slots, voxel_data, outside)
            value = mixed(a, b, c, d, e, f, g, h, part_of(a, u), part_of(a, v), part_of(a, w))
    return value


@built_in(sets="grad")
def volume_sample_grad(id: uint64, uvw: vec3, sampling_mode: Int32, grad: Any, dtype: VoxelNumber) -> Any:
    """The value of a Volume at a place in index space, as volume_sample; grad, a variable, is set to its derivative
    with respect to the place: a vector for a number, a matrix with a column for each axis for a vector.

    Derivative: of both, with respect to the place and, on a tape, the values of the volume.

    Kinks: as of volume_sample.

    Example: g = dk.vec3(0.0)
    y[i] = dk.volume_sample_grad(volume, dk.vec3(0.25, 0.5, 1.0), dk.Volume.LINEAR, g, dtype=float)
    """
    value, along_x, along_y, along_z = sampled_with_slopes(
        dtype, id, float32(uvw[0]), float32(uvw[1]), float32(uvw[2]), sampling_mode
    )
    return joined(along_x, along_y, along_z), value


@built_in(sets="grad")
def volume_sample_grad_f(id: uint64, uvw: vec3, sampling_mode: Int32, grad: Any) -> tuple[Any, float32]:
    """The value of a Volume of float32 at a place in index space; grad, a variable, is set to its derivative with
    respect to the place.

    Derivative: of both, with respect to the place and, on a tape, the values of the volume.

    Kinks: as of volume_sample.

    Example: g = dk.vec3(0.0)
    y[i] = dk.volume_sample_grad_f(volume, dk.vec3(0.25, 0.5, 1.0), dk.Volume.LINEAR, g)
    """
    value, along_x, along_y, along_z = sampled_with_slopes(
        float32, id, float32(uvw[0]), float32(uvw[1]), float32(uvw[2]), sampling_mode
    )
    return joined(along_x, along_y, along_z), value


@built_in(sets="grad")
def volume_sample_grad_index(
    id: uint64, uvw: vec3, sampling_mode: Int32, voxel_data: array1d, background: Any, grad: Any
) -> Any:
    """The value at a place in index space that an array has at the indices of a Volume's voxels, as
    volume_sample_index; grad, a variable, is set to its derivative with respect to the place.

    Derivative: of both, with respect to the place, the array and the background.

    Kinks: as of volume_sample.

    Example: g = dk.vec3(0.0)
    y[i] = dk.volume_sample_grad_index(volume, dk.vec3(0.25, 0.5, 1.0), dk.Volume.LINEAR, x, 0.0, g)
    """
    outside = voxel_data.dtype(background)
    value, along_x, along_y, along_z = outside, outside - outside, outside - outside, outside - outside
    place = descriptor(id)
    x, y, z = float32(uvw[0]), float32(uvw[1]), float32(uvw[2])
    if place != uint64(0):
        if sampling_mode == 0:
            slot = slot_of(place, nearest(x), nearest(y), nearest(z))
            value = indexed(voxel_data, outside, index_of(place, slot))
        elif sampling_mode == 1:
            slots, u, v, w = cell_of(place, x, y, z)
            a, b, c, d, e, f, g, h = elements_at(place, slots, voxel_data, outside)
            value, along_x, along_y, along_z = slopes(
                a, b, c, d, e, f, g, h, part_of(a, u), part_of(a, v), part_of(a, w)
            )
    return joined(along_x, along_y, along_z), value


@built_in()
def volume_lookup(id: uint64, i: Int32, j: Int32, k: Int32, dtype: Voxel) -> Any:
    """The value of a voxel of a Volume, by the id of the volume. The dtype is that of the volume; of another type zero
    comes back.

    Derivative: on a tape with respect to the values of the volume.

    Example: y[i] = dk.volume_lookup(volume, 1, 2, 3, dtype=float)
    """
    return looked_up(dtype, id, i, j, k)


@built_in()
def volume_lookup_f(id: uint64, i: Int32, j: Int32, k: Int32) -> float32:
    """The value of a voxel of a Volume of float32.

    Derivative: on a tape with respect to the values of the volume.

    Example: y[i] = dk.volume_lookup_f(volume, 1, 2, 3)
    """
    return looked_up(float32, id, i, j, k)


@built_in()
def volume_lookup_v(id: uint64, i: Int32, j: Int32, k: Int32) -> vec3f:
    """The value of a voxel of a Volume of vec3f.

    Derivative: on a tape with respect to the values of the volume.

    Example: w[i] = dk.volume_lookup_v(volume, 1, 2, 3)
    """
    return looked_up(vec3f, id, i, j, k)


@built_in()
def volume_lookup_i(id: uint64, i: Int32, j: Int32, k: Int32) -> int32:
    """The value of a voxel of a Volume of int32.

    Derivative: none, it is an integer.

    Example: q[i] = dk.volume_lookup_i(volume, 1, 2, 3)
    """
    return looked_up(int32, id, i, j, k)


@built_in()
def volume_lookup_index(id: uint64, i: Int32, j: Int32, k: Int32) -> int32:
    """The index of a voxel among those that a Volume has, in the order of get_voxels(); -1 if it has not got it.

    Derivative: none, it is an integer.

    Example: q[i] = dk.volume_lookup_index(volume, 1, 2, 3)
    """
    index, place = -1, descriptor(id)
    if place != uint64(0):
        index = index_of(place, slot_of(place, i, j, k))
    return index


@built_in()
def volume_voxel_count(id: uint64) -> int32:
    """The number of voxels of a Volume that have an index.

    Derivative: none, it is an integer.

    Example: q[i] = dk.volume_voxel_count(volume)
    """
    count, place = 0, descriptor(id)
    if place != uint64(0):
        count = int32(peek_uint64(place, VOXELS))
    return count


# -- stores ------------------------------------------------------------------------------------------------------------


@func
def tile_slot(dtype, id, i, j, k):  # type: ignore[no-untyped-def]
    """Return the descriptor and the slot of a voxel in a tile; the slot is -1 without one."""
    slot, place = -1, of_type(dtype, id)
    if place != uint64(0):
        leaf = leaf_in(place, lower_of(place, i, j, k), i, j, k)
        if leaf >= 0:
            slot = (leaf << 9) + within_leaf(i, j, k)
    return place, slot


@func
def stored(dtype, id, i, j, k, value):  # type: ignore[no-untyped-def]
    """Store a value to a voxel in a tile."""
    place, slot = tile_slot(dtype, id, i, j, k)
    if slot >= 0:
        values, ct = peek_uint64(place, VALUES), peek_uint64(place, COTANGENTS)
        if dtype == float64:
            poke_float64(values, ct, slot, value)
        elif dtype == int32:
            poke_int32(values, ct, slot, value)
        elif dtype == uint32:
            poke_uint32(values, ct, slot, value)
        elif dtype == int64:
            poke_int64(values, ct, slot, value)
        elif dtype == vec3d:
            poke_float64(values, ct, 3 * slot, value[0])
            poke_float64(values, ct, 3 * slot + 1, value[1])
            poke_float64(values, ct, 3 * slot + 2, value[2])
        elif dtype == vec3f:
            poke_float32(values, ct, 3 * slot, value[0])
            poke_float32(values, ct, 3 * slot + 1, value[1])
            poke_float32(values, ct, 3 * slot + 2, value[2])
        elif dtype == vec4d:
            poke_float64(values, ct, 4 * slot, value[0])
            poke_float64(values, ct, 4 * slot + 1, value[1])
            poke_float64(values, ct, 4 * slot + 2, value[2])
            poke_float64(values, ct, 4 * slot + 3, value[3])
        elif dtype == vec4f:
            poke_float32(values, ct, 4 * slot, value[0])
            poke_float32(values, ct, 4 * slot + 1, value[1])
            poke_float32(values, ct, 4 * slot + 2, value[2])
            poke_float32(values, ct, 4 * slot + 3, value[3])
        else:
            poke_float32(values, ct, slot, value)


@built_in()
def volume_store(id: uint64, i: Int32, j: Int32, k: Int32, value: int32) -> Any:
    """Store a value to a voxel of a Volume, if the tile of the voxel exists and values of the volume have the type of
    this one. Of several threads that store to one voxel, one decides its value.

    Derivative: on a tape, that of the voxel passes to the value.

    Example: dk.volume_store(volume, 1, 2, 3, 4.0)
    """
    stored(int32, id, i, j, k, value)


@built_in("volume_store")
def _store_unsigned(id: uint64, i: Int32, j: Int32, k: Int32, value: uint32) -> Any:
    stored(uint32, id, i, j, k, value)


@built_in("volume_store")
def _store_long(id: uint64, i: Int32, j: Int32, k: Int32, value: int64) -> Any:
    stored(int64, id, i, j, k, value)


@built_in("volume_store")
def _store_double(id: uint64, i: Int32, j: Int32, k: Int32, value: float64) -> Any:
    stored(float64, id, i, j, k, value)


@built_in("volume_store")
def _store_number(id: uint64, i: Int32, j: Int32, k: Int32, value: Float) -> Any:
    stored(float32, id, i, j, k, float32(value))


@built_in("volume_store")
def _store_vec3(id: uint64, i: Int32, j: Int32, k: Int32, value: vec3) -> Any:
    if type(value[0]) is type(float64(0.0)):
        stored(vec3d, id, i, j, k, value)
    else:
        stored(vec3f, id, i, j, k, value)


@built_in("volume_store")
def _store_vec4(id: uint64, i: Int32, j: Int32, k: Int32, value: vec4) -> Any:
    if type(value[0]) is type(float64(0.0)):
        stored(vec4d, id, i, j, k, value)
    else:
        stored(vec4f, id, i, j, k, value)


@built_in()
def volume_store_f(id: uint64, i: Int32, j: Int32, k: Int32, value: Float) -> Any:
    """Store a number to a voxel of a Volume of float32, as volume_store.

    Derivative: on a tape, that of the voxel passes to the value.

    Example: dk.volume_store_f(volume, 1, 2, 3, 4.0)
    """
    stored(float32, id, i, j, k, float32(value))


@built_in()
def volume_store_v(id: uint64, i: Int32, j: Int32, k: Int32, value: vec3) -> Any:
    """Store a vector to a voxel of a Volume of vec3f, as volume_store.

    Derivative: on a tape, that of the voxel passes to the value.

    Example: dk.volume_store_v(volume, 1, 2, 3, dk.vec3(1.0, 2.0, 3.0))
    """
    stored(vec3f, id, i, j, k, vec3f(float32(value[0]), float32(value[1]), float32(value[2])))


@built_in()
def volume_store_i(id: uint64, i: Int32, j: Int32, k: Int32, value: Int32) -> Any:
    """Store an integer to a voxel of a Volume of int32, as volume_store.

    Derivative: none, it is an integer.

    Example: dk.volume_store_i(volume, 1, 2, 3, 4)
    """
    stored(int32, id, i, j, k, value)


# -- places ------------------------------------------------------------------------------------------------------------


@func
def turned(place, first, v):  # type: ignore[no-untyped-def]
    """Return the product of one of the matrices and a vector of the same precision."""
    if type(v[0]) is type(float64(0.0)):
        m = peek_uint64(place, DOUBLE)
        x = peek_float64(m, first) * v[0] + peek_float64(m, first + 1) * v[1] + peek_float64(m, first + 2) * v[2]
        y = peek_float64(m, first + 3) * v[0] + peek_float64(m, first + 4) * v[1] + peek_float64(m, first + 5) * v[2]
        z = peek_float64(m, first + 6) * v[0] + peek_float64(m, first + 7) * v[1] + peek_float64(m, first + 8) * v[2]
        made = vec3d(x, y, z)
    else:
        n = peek_uint64(place, SINGLE)
        a, b, c = float32(v[0]), float32(v[1]), float32(v[2])
        p = peek_float32(n, first) * a + peek_float32(n, first + 1) * b + peek_float32(n, first + 2) * c
        q = peek_float32(n, first + 3) * a + peek_float32(n, first + 4) * b + peek_float32(n, first + 5) * c
        r = peek_float32(n, first + 6) * a + peek_float32(n, first + 7) * b + peek_float32(n, first + 8) * c
        made = vec3f(p, q, r)
    return made


@func
def shift(place, v):  # type: ignore[no-untyped-def]
    """Return the translation in the precision of a vector."""
    if type(v[0]) is type(float64(0.0)):
        m = peek_uint64(place, DOUBLE)
        made = vec3d(peek_float64(m, 18), peek_float64(m, 19), peek_float64(m, 20))
    else:
        n = peek_uint64(place, SINGLE)
        made = vec3f(peek_float32(n, 18), peek_float32(n, 19), peek_float32(n, 20))
    return made


@built_in()
def volume_index_to_world(id: uint64, uvw: vec3) -> vec3:
    """The place in the world of a place in the index space of a Volume.

    Derivative: that of the linear map.

    Example: w[i] = dk.volume_index_to_world(volume, u)
    """
    place, found = descriptor(id), uvw
    if place != uint64(0):
        found = turned(place, 0, uvw) + shift(place, uvw)
    return found


@built_in()
def volume_world_to_index(id: uint64, xyz: vec3) -> vec3:
    """The place in the index space of a Volume of a place in the world.

    Derivative: that of the linear map.

    Example: w[i] = dk.volume_world_to_index(volume, u)
    """
    place, found = descriptor(id), xyz
    if place != uint64(0):
        found = turned(place, 9, xyz - shift(place, xyz))
    return found


@built_in()
def volume_index_to_world_dir(id: uint64, uvw: vec3) -> vec3:
    """The direction in the world of a direction in the index space of a Volume.

    Derivative: that of the linear map.

    Example: w[i] = dk.volume_index_to_world_dir(volume, u)
    """
    place, found = descriptor(id), uvw
    if place != uint64(0):
        found = turned(place, 0, uvw)
    return found


@built_in()
def volume_world_to_index_dir(id: uint64, xyz: vec3) -> vec3:
    """The direction in the index space of a Volume of a direction in the world.

    Derivative: that of the linear map.

    Example: w[i] = dk.volume_world_to_index_dir(volume, u)
    """
    place, found = descriptor(id), xyz
    if place != uint64(0):
        found = turned(place, 9, xyz)
    return found
