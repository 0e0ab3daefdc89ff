"""Gradient noise on lattices of one to four axes (K. Perlin), periodic noise, and divergence-free fields made of it.

Each point of the lattice has a slope, drawn from a hash of its indices and the state; the noise at a point is the
values that the surrounding slopes give there, interpolated by a polynomial of degree five. The interpolated value is a
number, or a *jet*: the number and its derivatives with respect to the first three coordinates, as a vector.
"""

from __future__ import annotations

from diffkern.lang.func import func
from diffkern.lang.library import built_in
from diffkern.library.language import (
    Float,
    Int32,
    Uint32,
    cross,
    dot,
    floor,
    int32,
    normalize,
    randf,
    uint32,
    vec2,
    vec3,
    vec4,
    where,
)
from diffkern.library.random import advanced

__all__: list[str] = []

_FACTORS = (73856093, 19349663, 53471161, 10000019)
"""The factors of the indices along x, y, z and t in a hash."""


# -- the lattice -------------------------------------------------------------------------------------------------------


@func
def _lattice(x, period, factor):  # type: ignore[no-untyped-def]
    """Return hashes of the points below and above a coordinate, modulo a nonzero period, and the way between them."""
    below = floor(x)
    i = int32(below)
    j = i + 1
    # The indices repeat, while the place between two of them stays what it is.
    if period != 0:
        i %= period
        j %= period
    return (uint32(i) * uint32(factor), uint32(j) * uint32(factor)), x - below


@func
def _slope(h, d):  # type: ignore[no-untyped-def]
    """Return the slope drawn from a hash, with as many components as the offset `d` from the point."""
    # Each draw advances the hash, so that the components differ.
    u = randf(h) - 0.5
    v = randf(h) - 0.5
    if len(d) == 2:
        return normalize(vec2(u, v))
    w = randf(h) - 0.5
    if len(d) == 3:
        return normalize(vec3(u, v, w))
    return normalize(vec4(u, v, w, randf(h) - 0.5))


@func
def _value_at(h, d):  # type: ignore[no-untyped-def]
    """Return the value that the slope of a point with that hash gives at the offset `d` from it."""
    return dot(_slope(h, d), d)


@func
def _jet_at(h, d):  # type: ignore[no-untyped-def]
    """Return the same value as a jet."""
    g = _slope(h, d)
    if len(d) == 2:
        return vec3(dot(g, d), g[0], g[1])
    return vec4(dot(g, d), g[0], g[1], g[2])


@func
def _between(a, b, t, axis):  # type: ignore[no-untyped-def]
    """Return the value between a and b, t of the way along an axis."""
    # The first and second derivatives of this polynomial vanish at 0 and 1, which makes the noise smooth across cells.
    return (b - a) * (t * t * t * (t * (t * 6.0 - 15.0) + 10.0)) + a


@func
def _jet_between(a, b, t, axis):  # type: ignore[no-untyped-def]
    """Return the same for jets: the way itself has a derivative along the axis."""
    jet = _between(a, b, t, axis)
    # A jet has no derivative along the fourth axis.
    if axis < 3:
        jet[axis + 1] += (b[0] - a[0]) * (30.0 * t * t * (t * (t - 2.0) + 1.0))
    return jet


@func
def _line(at, between, x, h, d):  # type: ignore[no-untyped-def]
    """Interpolate between two points along x; `h` is the hash of the other axes, `x` the two hashes of this one."""
    e = d
    # The offset from the upper one of the two.
    e[0] -= 1.0
    return between(at(x[0] ^ h, d), at(x[1] ^ h, e), d[0], 0)


@func
def _face(at, between, x, y, h, d):  # type: ignore[no-untyped-def]
    """Interpolate between two lines along y."""
    e = d
    e[1] -= 1.0
    return between(_line(at, between, x, y[0] ^ h, d), _line(at, between, x, y[1] ^ h, e), d[1], 1)


@func
def _cell(at, between, x, y, z, h, d):  # type: ignore[no-untyped-def]
    """Interpolate between two faces along z."""
    e = d
    e[2] -= 1.0
    return between(_face(at, between, x, y, z[0] ^ h, d), _face(at, between, x, y, z[1] ^ h, e), d[2], 2)


@func
def _seeded(hashes, state):  # type: ignore[no-untyped-def]
    """Return the hashes of the last axis with the state added."""
    return hashes[0] + state, hashes[1] + state


@func
def _interpolated(at, between, state, p, periods):  # type: ignore[no-untyped-def]
    """Return the noise at a point of two, three or four coordinates, or its jet."""
    x, dx = _lattice(p[0], periods[0], _FACTORS[0])
    y, dy = _lattice(p[1], periods[1], _FACTORS[1])
    if len(p) == 2:
        return _face(at, between, x, _seeded(y, state), uint32(0), vec2(dx, dy))
    z, dz = _lattice(p[2], periods[2], _FACTORS[2])
    if len(p) == 3:
        return _cell(at, between, x, y, _seeded(z, state), uint32(0), vec3(dx, dy, dz))
    t, dt = _lattice(p[3], periods[3], _FACTORS[3])
    t = _seeded(t, state)
    below = _cell(at, between, x, y, z, t[0], vec4(dx, dy, dz, dt))
    above = _cell(at, between, x, y, z, t[1], vec4(dx, dy, dz, dt - 1.0))
    return between(below, above, dt, 3)


@func
def _on_line(state, x, period):  # type: ignore[no-untyped-def]
    hashes, t = _lattice(x, period, _FACTORS[0])
    below, above = _seeded(hashes, state)
    return _between(randf(below, -1.0, 1.0) * t, randf(above, -1.0, 1.0) * (t - 1.0), t, 0)


# -- noise -------------------------------------------------------------------------------------------------------------


@built_in()
def noise(state: Uint32, x: Float) -> Float:
    """Gradient noise at a point of one to four coordinates. The state chooses the field, and is not advanced.

    Derivative: that with respect to the coordinates, which is continuous.

    Example: state = dk.rand_init(42); y[i] = dk.noise(state, dk.vec2(x[i], 0.5))
    """
    return _on_line(state, x, 0)


@built_in("noise")
def _noise2(state: Uint32, xy: vec2) -> Float:
    return _interpolated(_value_at, _between, state, xy, (0, 0))


@built_in("noise")
def _noise3(state: Uint32, xyz: vec3) -> Float:
    return _interpolated(_value_at, _between, state, xyz, (0, 0, 0))


@built_in("noise")
def _noise4(state: Uint32, xyzt: vec4) -> Float:
    return _interpolated(_value_at, _between, state, xyzt, (0, 0, 0, 0))


@built_in()
def pnoise(state: Uint32, x: Float, px: Int32) -> Float:
    """Gradient noise that repeats: after px along x, and so on for each coordinate; a period of 0 does not repeat.

    Derivative: that with respect to the coordinates, which is continuous.

    Example: state = dk.rand_init(42); y[i] = dk.pnoise(state, dk.vec2(x[i], 0.5), 3, 5)
    """
    return _on_line(state, x, px)


@built_in("pnoise")
def _pnoise2(state: Uint32, xy: vec2, px: Int32, py: Int32) -> Float:
    return _interpolated(_value_at, _between, state, xy, (px, py))


@built_in("pnoise")
def _pnoise3(state: Uint32, xyz: vec3, px: Int32, py: Int32, pz: Int32) -> Float:
    return _interpolated(_value_at, _between, state, xyz, (px, py, pz))


@built_in("pnoise")
def _pnoise4(state: Uint32, xyzt: vec4, px: Int32, py: Int32, pz: Int32, pt: Int32) -> Float:
    return _interpolated(_value_at, _between, state, xyzt, (px, py, pz, pt))


@built_in()
def curlnoise(state: Uint32, xy: vec2, octaves: Uint32 = 1, lacunarity: Float = 2.0, gain: Float = 0.5) -> vec2:
    """A field without divergence at a point of two to four coordinates: the curl of one field of noise, or of three.

    Octave k has the frequency lacunarity ** k and the weight gain ** k. The fourth coordinate is time. The state
    chooses the field, and is not advanced.

    Derivative: that with respect to the coordinates, lacunarity and gain: second derivatives of the noise.

    Example: state = dk.rand_init(42); w[i] = dk.curlnoise(state, u, 2)
    """
    total = vec2(0.0, 0.0)
    frequency, weight = 1.0, 1.0
    for _ in range(int32(octaves)):
        jet = _interpolated(_jet_at, _jet_between, state, frequency * xy, (0, 0))
        # A gradient turned by a right angle has no divergence.
        total += weight * vec2(-jet[2], jet[1])
        frequency *= lacunarity
        weight *= gain
    return total


@built_in("curlnoise")
def _curlnoise3(state: Uint32, xyz: vec3, octaves: Uint32 = 1, lacunarity: Float = 2.0, gain: Float = 0.5) -> vec3:
    return _curl_of_three(state, xyz, octaves, lacunarity, gain)


@built_in("curlnoise")
def _curlnoise4(state: Uint32, xyzt: vec4, octaves: Uint32 = 1, lacunarity: Float = 2.0, gain: Float = 0.5) -> vec3:
    return _curl_of_three(state, xyzt, octaves, lacunarity, gain)


@func
def _curl_of_three(state, x, octaves, lacunarity, gain):  # type: ignore[no-untyped-def]
    """Return the curl of three fields, one along each axis; each octave continues with the state of the last."""
    total = vec3(0.0, 0.0, 0.0)
    frequency, weight = 1.0, 1.0
    for _ in range(int32(octaves)):
        for k in range(3):
            if k > 0:
                # Different constants make the three fields independent of each other.
                state = advanced(state + advanced(where(k == 1, uint32(10019689), uint32(13112221))))
            jet = _interpolated(_jet_at, _jet_between, state, frequency * x, (0, 0, 0, 0))
            axis = vec3(0.0, 0.0, 0.0)
            axis[k] = weight
            total += cross(vec3(jet[1], jet[2], jet[3]), axis)
        frequency *= lacunarity
        weight *= gain
    return total
