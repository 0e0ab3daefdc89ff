"""Sampling of textures: numbers in a regular grid along one, two or three axes, interpolated between their centres.

The grid cell of a coordinate has no derivative. From its texels on, a sample is a polynomial of the place in the cell
and of the texels, which is differentiated like any other formula. It is computed with the differences of the texels
from one of them, so that neither a sample nor its derivatives lose digits where all texels are large.
"""

from __future__ import annotations

from typing import Any, Final

from diffkern.lang.func import func
from diffkern.lang.library import built_in
from diffkern.lang.queries import TEXTURE
from diffkern.lang.textures import LEVELS_BIT, NORMALIZED_BIT, WHOLE_MIPS_BIT, TextureAddressMode
from diffkern.library.descriptors import descriptor_of
from diffkern.library.language import (
    Float,
    Float32,
    Texel,
    Texture1D,
    Texture2D,
    Texture3D,
    fetch,
    float32,
    floor,
    int32,
    isfinite,
    max,  # noqa: A004
    min,  # noqa: A004
    peek_uint64,
    stop_gradient,
    uint64,
    vec2,
    vec2f,
    vec3,
    vec4f,
)

__all__: list[str] = []

ID, OPTIONS, WIDTH, HEIGHT, DEPTH, CHANNELS, TEXELS = range(7)
"""The words of a descriptor: its id; how it is sampled (:mod:`diffkern.lang.textures`); sizes and channels. From
TEXELS on there are two for each mip level: where its texels begin, and where an adjoint adds their cotangents, or 0."""

WRAP: Final = int(TextureAddressMode.WRAP)
CLAMP: Final = int(TextureAddressMode.CLAMP)
MIRROR: Final = int(TextureAddressMode.MIRROR)
BORDER: Final = int(TextureAddressMode.BORDER)

_EXACT: Final = 4194304.0  # below it, products of whole periods are exact


@func
def descriptor(id):  # type: ignore[no-untyped-def]
    """Return the address of the descriptor; 0 if the id is not that of one."""
    place = descriptor_of(id, TEXTURE)
    # A struct that holds no texture has the id 0, which may be sampled.
    assert place != uint64(0) or id == uint64(0), "the id is that of no texture, or of one that is gone"
    return place


# -- along an axis -----------------------------------------------------------------------------------------------------


@func
def folded(x, period):  # type: ignore[no-untyped-def]
    """Return a coordinate that is at most half a period from those from 0 to the period, of which it is whole periods
    away.
    """
    # Nearer ones are left to the arithmetic of indices, since adding a period may round.
    if x < -0.5 * period or x >= 1.5 * period:
        if x > -_EXACT and x < _EXACT:
            x -= floor(x / period) * period
            # The quotient is rounded, so that it may be off by one.
            x = x + period if x < 0.0 else (x - period if x > period else x)
        else:
            x = x % period
    return x


@func
def located(x, size, ratio, n, mode, is_normalized, half):  # type: ignore[no-untyped-def]
    """Return a coordinate in texels of a mip level with n of them, as near to these as the address mode brings it."""
    if mode in (WRAP, MIRROR):
        # The period is 1 or 2 where coordinates are normalized, for which every float32 is folded exactly.
        extent = 1.0 if is_normalized else float32(size)
        x = folded(x, extent if mode == WRAP else 2.0 * extent) * ratio - half
    else:
        # Beyond these ends nothing changes any more. Comparisons in this form take NaN to the upper end.
        low = -1.0 if mode == CLAMP else -2.0
        high = float32(n) if mode == CLAMP else float32(n + 1)
        x = x * ratio - half
        x = x if x < high else high
        x = x if x > low else low
    return x


@func
def addressed(i, n, mode):  # type: ignore[no-untyped-def]
    """Return the texel that is read for one at most half a period away; -1 where there is a border."""
    if mode == BORDER:
        i = i if i < n else -1
    else:
        if mode == WRAP:
            i = i + n if i < 0 else (i - n if i >= n else i)
        elif mode == MIRROR:
            i = -1 - i if i < 0 else (i - 2 * n if i >= 2 * n else (2 * n - 1 - i if i >= n else i))
        i = max(min(i, n - 1), 0)
    return max(i, -1)


@func
def between(x, size, level, mode, is_normalized, is_linear):  # type: ignore[no-untyped-def]
    """Return the texels at both sides of a coordinate in a mip level, where it is between them, and their number."""
    n = max(size >> level, 1)
    ratio = float32(n) if is_normalized else (1.0 if level == 0 else float32(n) / float32(size))
    half = 0.5 if is_linear else 0.0
    place = x * ratio - half
    if place >= 0.0 and place < float32(n) - 2.0 * half:
        # Between texels that there are, whatever the address mode: nearly all samples.
        i = int32(place)
        other, part = i + 1, place - floor(place)
    else:
        place = located(x, size, ratio, n, mode, is_normalized, half)
        i = int32(floor(place))
        other, part = addressed(i + 1, n, mode), place - floor(place)
        i = addressed(i, n, mode)
    return i, other, part, n


# -- in a level --------------------------------------------------------------------------------------------------------


@func
def texel(values, cotangents, row, i, channels, channel):  # type: ignore[no-untyped-def]
    """Return a number of a texel, zero beyond a border; the row of texels is -1 there."""
    value = 0.0
    if row >= 0 and i >= 0:
        value = fetch(values, cotangents, (row + i) * channels + channel)
    return value


@func
def lerped(low, high, t):  # type: ignore[no-untyped-def]
    """Return what is between two values."""
    return low * (1.0 - t) + high * t


@func
def row_of(j, k, width, height):  # type: ignore[no-untyped-def]
    """Return the number of texels before a row; -1 beyond a border."""
    return (k * height + j) * width if j >= 0 and k >= 0 else -1


@func
def rows_of(j, other_j, k, other_k, width, height, axes):  # type: ignore[no-untyped-def]
    """Return the numbers of texels before the rows at both sides, in the near and in the far layer."""
    near, near_other, far, far_other = 0, 0, 0, 0
    if axes == 2:
        near, near_other = row_of(j, 0, width, height), row_of(other_j, 0, width, height)
    elif axes == 3:
        near, near_other = row_of(j, k, width, height), row_of(other_j, k, width, height)
        far, far_other = row_of(j, other_k, width, height), row_of(other_j, other_k, width, height)
    return near, near_other, far, far_other


@func
def shifted(values, cotangents, row, i, channels, channel, origin):  # type: ignore[no-untyped-def]
    """Return how far a number of a texel is above the origin, divided by four so that no difference overflows."""
    return 0.25 * texel(values, cotangents, row, i, channels, channel) - 0.25 * origin


@func
def along_row(values, cotangents, row, i, other_i, t, channels, channel, origin):  # type: ignore[no-untyped-def]
    """Return the interpolated difference from the origin in a row."""
    low = shifted(values, cotangents, row, i, channels, channel, origin)
    return lerped(low, shifted(values, cotangents, row, other_i, channels, channel, origin), t)


@func
def cell_of(place, level, axes, u, v, w):  # type: ignore[no-untyped-def]
    """Return the cell of coordinates in a mip level.

    That is, where the texels and cotangents begin; the columns at both sides; the rows at both sides, as numbers of
    texels before them, in the near and the far layer; where the coordinates are between these.
    """
    said = int32(peek_uint64(place, OPTIONS))
    is_normalized, is_linear = (said >> NORMALIZED_BIT) & 1 == 1, (said >> 6) & 1 == 1
    i, other_i, x, width = between(u, int32(peek_uint64(place, WIDTH)), level, said & 3, is_normalized, is_linear)
    j, other_j, y, height = 0, 0, 0.0, 1
    k, other_k, z = 0, 0, 0.0
    if axes > 1:
        size = int32(peek_uint64(place, HEIGHT))
        j, other_j, y, height = between(v, size, level, (said >> 2) & 3, is_normalized, is_linear)
    if axes > 2:
        size = int32(peek_uint64(place, DEPTH))
        k, other_k, z, _ = between(w, size, level, (said >> 4) & 3, is_normalized, is_linear)
    values, cotangents = peek_uint64(place, TEXELS + 2 * level), peek_uint64(place, TEXELS + 1 + 2 * level)
    near, near_other, far, far_other = rows_of(j, other_j, k, other_k, width, height, axes)
    return values, cotangents, i, other_i, near, near_other, far, far_other, x, y, z


@func
def origin_of(cell, channels, channel):  # type: ignore[no-untyped-def]
    """Return the number of one of the texels that are mixed, from which the others are measured."""
    value = stop_gradient(texel(cell[0], cell[1], cell[4], cell[2], channels, channel))
    return value if isfinite(value) else 0.0


@func
def mixed(cell, axes, is_linear, channels, channel, origin):  # type: ignore[no-untyped-def]
    """Return how far a sample of a mip level is above the origin, divided by four."""
    values, cotangents, i, other_i, near, near_other, far, far_other, x, y, z = cell
    if is_linear:
        value = along_row(values, cotangents, near, i, other_i, x, channels, channel, origin)
        if axes > 1:
            other = along_row(values, cotangents, near_other, i, other_i, x, channels, channel, origin)
            value = lerped(value, other, y)
        if axes > 2:
            low = along_row(values, cotangents, far, i, other_i, x, channels, channel, origin)
            other = along_row(values, cotangents, far_other, i, other_i, x, channels, channel, origin)
            value = lerped(value, lerped(low, other, y), z)
    else:
        value = shifted(values, cotangents, near, i, channels, channel, origin)
    return value


# -- all levels --------------------------------------------------------------------------------------------------------


@func
def sampled(dtype, id, axes, u, v, w, lod):  # type: ignore[no-untyped-def]
    """Return a sample of as many channels as the type has."""
    value = dtype(0.0)
    place = descriptor(id)
    if place != uint64(0):
        said, channels = int32(peek_uint64(place, OPTIONS)), int32(peek_uint64(place, CHANNELS))
        is_linear, last = (said >> 6) & 1 == 1, ((said >> LEVELS_BIT) & 255) - 1
        level, part = 0, 0.0
        # A level that is known to be negative comes first: with it the rest is not compiled.
        is_mipped = lod >= 0.0 and last > 0
        if is_mipped:
            lod = float32(lod)
            if (said >> WHOLE_MIPS_BIT) & 1 == 1:
                level = int32(min(floor(lod + 0.5), float32(last)))
            else:
                # At the last level and above there is nothing to blend with.
                level = int32(floor(lod)) if lod < float32(last) else last
                part = lod - floor(lod) if level < last else 0.0
        cell = cell_of(place, level, axes, u, v, w)
        blends = is_mipped and level < last and (said >> WHOLE_MIPS_BIT) & 1 == 0
        if blends:
            above = cell_of(place, level + 1, axes, u, v, w)
            value = blended(dtype, cell, above, part, axes, is_linear, channels)
        else:
            value = alone(dtype, cell, axes, is_linear, channels)
    return value


@func
def alone(dtype, cell, axes, is_linear, channels):  # type: ignore[no-untyped-def]
    """Return the channels of a sample of one mip level; zero for those that the texture does not have."""
    value = of_level(cell, axes, is_linear, channels, 0)
    if dtype == vec2f:
        second = 0.0
        if channels > 1:
            second = of_level(cell, axes, is_linear, channels, 1)
        value = vec2f(value, second)
    elif dtype == vec4f:
        second, third, fourth = 0.0, 0.0, 0.0
        if channels > 1:
            second = of_level(cell, axes, is_linear, channels, 1)
        if channels > 2:
            third = of_level(cell, axes, is_linear, channels, 2)
            fourth = of_level(cell, axes, is_linear, channels, 3)
        value = vec4f(value, second, third, fourth)
    return value


@func
def of_level(cell, axes, is_linear, channels, channel):  # type: ignore[no-untyped-def]
    """Return a channel of a sample of one mip level."""
    if is_linear:
        origin = origin_of(cell, channels, channel)
        value = 4.0 * (0.25 * origin + mixed(cell, axes, True, channels, channel, origin))
    else:
        value = texel(cell[0], cell[1], cell[4], cell[2], channels, channel)
    return value


@func
def of_levels(cell, above, part, axes, is_linear, channels, channel):  # type: ignore[no-untyped-def]
    """Return a channel of a sample between two mip levels."""
    value = 0.0
    if channel < channels:
        origin = origin_of(cell, channels, channel)
        low = mixed(cell, axes, is_linear, channels, channel, origin)
        high = mixed(above, axes, is_linear, channels, channel, origin)
        value = 4.0 * (0.25 * origin + lerped(low, high, part))
    return value


@func
def blended(dtype, cell, above, part, axes, is_linear, channels):  # type: ignore[no-untyped-def]
    """Return the channels of a sample between two mip levels."""
    value = of_levels(cell, above, part, axes, is_linear, channels, 0)
    if dtype == vec2f:
        value = vec2f(value, of_levels(cell, above, part, axes, is_linear, channels, 1))
    elif dtype == vec4f:
        second = of_levels(cell, above, part, axes, is_linear, channels, 1)
        third = of_levels(cell, above, part, axes, is_linear, channels, 2)
        value = vec4f(value, second, third, of_levels(cell, above, part, axes, is_linear, channels, 3))
    return value


@built_in()
def texture_sample(tex: Texture1D, uv: Float32, dtype: Texel, lod: Float = -1.0) -> Any:
    """The value of a texture at coordinates: a number for a Texture1D, a vec2 for a Texture2D, a vec3 for a Texture3D,
    or two or three numbers. The dtype, float, vec2f or vec4f, says how many channels are read; those that the texture
    does not have are zero. Texel i of n is at (i + 0.5) / n, and at i + 0.5 without normalized coordinates. A texture
    with mip levels is sampled at the level `lod`, a float.

    Derivative: with respect to the coordinates, the level and, on a tape, the texels (the texture's `texels`).

    Kinks: at centres of texels with linear filtering, and where the address mode sets in; the derivative is that of the
    cell found, towards larger coordinates. With closest filtering the derivative with respect to coordinates is zero.

    Example: u = dk.texture_sample(picture, dk.vec2(0.25, 0.5), dtype=float)
    """
    return sampled(dtype, tex.id, 1, uv, 0.0, 0.0, lod)


@built_in("texture_sample")
def _sample_2d(tex: Texture2D, uv: vec2, dtype: Texel, lod: Float = -1.0) -> Any:
    return sampled(dtype, tex.id, 2, float32(uv[0]), float32(uv[1]), 0.0, lod)


@built_in("texture_sample")
def _sample_2d_apart(tex: Texture2D, u: Float32, v: Float32, dtype: Texel, lod: Float = -1.0) -> Any:
    return sampled(dtype, tex.id, 2, u, v, 0.0, lod)


@built_in("texture_sample")
def _sample_3d(tex: Texture3D, uv: vec3, dtype: Texel, lod: Float = -1.0) -> Any:
    return sampled(dtype, tex.id, 3, float32(uv[0]), float32(uv[1]), float32(uv[2]), lod)


@built_in("texture_sample")
def _sample_3d_apart(tex: Texture3D, u: Float32, v: Float32, w: Float32, dtype: Texel, lod: Float = -1.0) -> Any:
    return sampled(dtype, tex.id, 3, u, v, w, lod)
