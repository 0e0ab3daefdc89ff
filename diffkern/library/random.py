"""Random numbers: the state of a generator is one unsigned integer, and each draw advances it.

The generator is PCG: a linear congruential step, whose output is permuted by its own upper bits and is the next state.
"""

from __future__ import annotations

import math

from diffkern.lang.func import func
from diffkern.lang.library import built_in
from diffkern.library.language import (
    Float32,
    Int32,
    Uint32,
    abs,  # noqa: A004
    acos,
    array1d,
    cos,
    exp,
    float32,
    floor,
    int32,
    log,
    lower_bound,
    sin,
    sqrt,
    uint32,
    vec2,
    vec3,
)

__all__: list[str] = []

_SMALLEST = 5.96e-8
"""Added to a number whose logarithm is taken: half of the distance between two that are drawn."""


@func
def advanced(state):  # type: ignore[no-untyped-def]
    """Return the state after one draw."""
    mixed = state * uint32(747796405) + uint32(2891336453)
    word = ((mixed >> ((mixed >> uint32(28)) + uint32(4))) ^ mixed) * uint32(277803737)
    return (word >> uint32(22)) ^ word


@func
def unit(state):  # type: ignore[no-untyped-def]
    """Return a number in [0, 1) made of the upper 24 bits of a state."""
    # A float32 holds 24 bits exactly, so that rounding never gives 1.
    return float32(state >> uint32(8)) * (1.0 / 16777216.0)


@built_in()
def rand_init(seed: Uint32) -> uint32:
    """A state made of a seed, and of an offset if there is one: each thread passes its index for draws of its own.

    Derivative: none, it is an integer.

    Example: state = dk.rand_init(42, i); y[i] = dk.randf(state)
    """
    return advanced(seed)


@built_in("rand_init")
def _rand_init_offset(seed: Uint32, offset: Uint32) -> uint32:
    return advanced(seed + advanced(offset))


@built_in(sets="state")
def randi(state: Uint32) -> tuple[uint32, int32]:
    """A random integer, any of its type, or of those from low to high - 1.

    Derivative: none, it is an integer.

    Example: state = dk.rand_init(42, i); q[i] = dk.randi(state, 0, 10)
    """
    state = advanced(state)
    return state, int32(state)


@built_in("randi", sets="state")
def _randi_between(state: Uint32, low: Int32, high: Int32) -> tuple[uint32, int32]:
    state = advanced(state)
    # In unsigned numbers, which wrap, since high - low may not fit into an int32.
    return state, int32(state % (uint32(high) - uint32(low)) + uint32(low))


@built_in(sets="state")
def randu(state: Uint32) -> tuple[uint32, uint32]:
    """A random unsigned integer, any of its type, or of those from low to high - 1.

    Derivative: none, it is an integer.

    Example: state = dk.rand_init(42, i); q[i] = int(dk.randu(state, 0, 10))
    """
    state = advanced(state)
    return state, state


@built_in("randu", sets="state")
def _randu_between(state: Uint32, low: Uint32, high: Uint32) -> tuple[uint32, uint32]:
    state = advanced(state)
    return state, state % (high - low) + low


@built_in(sets="state")
def randf(state: Uint32, low: Float32 = 0.0, high: Float32 = 1.0) -> tuple[uint32, float32]:
    """A random number of [low, high), evenly distributed.

    Derivative: 1 - r and r with respect to low and high, for the same draw r of [0, 1).

    Example: state = dk.rand_init(42, i); y[i] = dk.randf(state, -1.0, 1.0)
    """
    state = advanced(state)
    return state, (high - low) * unit(state) + low


@built_in(sets="state")
def randn(state: Uint32) -> tuple[uint32, float32]:
    """A random number, normally distributed with mean 0 and variance 1 (Box and Muller); two draws.

    Derivative: none, it depends on no float.

    Example: state = dk.rand_init(42, i); y[i] = x[i] + 0.1 * dk.randn(state)
    """
    u = randf(state)
    v = randf(state)
    # The draw u may be 0.
    return state, sqrt(-2.0 * log(u + _SMALLEST)) * cos(2.0 * math.pi * v)


@built_in(sets="state")
def sample_cdf(state: Uint32, cdf: array1d) -> tuple[uint32, int32]:
    """A random index, distributed by an array of cumulative probabilities: the first that reaches a draw from [0, 1).

    Derivative: none, it is an integer.

    Example: state = dk.rand_init(42, i); q[i] = dk.sample_cdf(state, x)
    """
    u = randf(state)
    return state, lower_bound(cdf, u)


@built_in(sets="state")
def sample_triangle(state: Uint32) -> tuple[uint32, vec2]:
    """The first two barycentric coordinates of a random point of a triangle.

    Derivative: none, it depends on no float.

    Example: state = dk.rand_init(42, i); y[i] = dk.sample_triangle(state).x
    """
    r = sqrt(randf(state))
    part = randf(state)
    # The root makes points even in area, as a triangle grows wider away from a vertex.
    return state, vec2(1.0 - r, part * r)


@built_in(sets="state")
def sample_unit_ring(state: Uint32) -> tuple[uint32, vec2]:
    """A random point of the unit circle.

    Derivative: none, it depends on no float.

    Example: state = dk.rand_init(42, i); y[i] = dk.sample_unit_ring(state).x
    """
    angle = 2.0 * math.pi * randf(state)
    return state, vec2(cos(angle), sin(angle))


@built_in(sets="state")
def sample_unit_disk(state: Uint32) -> tuple[uint32, vec2]:
    """A random point inside of the unit circle.

    Derivative: none, it depends on no float.

    Example: state = dk.rand_init(42, i); y[i] = dk.sample_unit_disk(state).x
    """
    r = sqrt(randf(state))
    point = sample_unit_ring(state)
    # The root of an even draw makes points even in area, as rings grow with their radius.
    return state, r * point


@func
def _on_sphere(cosine, part):  # type: ignore[no-untyped-def]
    """Return the point of the unit sphere whose polar angle has that cosine, a part of the way around."""
    angle, polar = 2.0 * math.pi * part, acos(cosine)
    return vec3(cos(angle) * sin(polar), sin(angle) * sin(polar), cos(polar))


@built_in(sets="state")
def sample_unit_sphere_surface(state: Uint32) -> tuple[uint32, vec3]:
    """A random point of the unit sphere.

    Derivative: none, it depends on no float.

    Example: state = dk.rand_init(42, i); w[i] = dk.sample_unit_sphere_surface(state)
    """
    # An even cosine makes points even in area, as zones of equal height of a sphere have equal areas.
    cosine = 1.0 - 2.0 * randf(state)
    part = randf(state)
    return state, _on_sphere(cosine, part)


@built_in(sets="state")
def sample_unit_sphere(state: Uint32) -> tuple[uint32, vec3]:
    """A random point inside of the unit sphere.

    Derivative: none, it depends on no float.

    Example: state = dk.rand_init(42, i); w[i] = dk.sample_unit_sphere(state)
    """
    point = sample_unit_sphere_surface(state)
    u = randf(state)
    return state, u ** (1.0 / 3.0) * point


@built_in(sets="state")
def sample_unit_hemisphere_surface(state: Uint32) -> tuple[uint32, vec3]:
    """A random point of the half of the unit sphere where z is positive.

    Derivative: none, it depends on no float.

    Example: state = dk.rand_init(42, i); w[i] = dk.sample_unit_hemisphere_surface(state)
    """
    cosine = 1.0 - randf(state)
    part = randf(state)
    return state, _on_sphere(cosine, part)


@built_in(sets="state")
def sample_unit_hemisphere(state: Uint32) -> tuple[uint32, vec3]:
    """A random point inside of the half of the unit sphere where z is positive.

    Derivative: none, it depends on no float.

    Example: state = dk.rand_init(42, i); w[i] = dk.sample_unit_hemisphere(state)
    """
    point = sample_unit_hemisphere_surface(state)
    u = randf(state)
    return state, u ** (1.0 / 3.0) * point


@built_in(sets="state")
def sample_unit_square(state: Uint32) -> tuple[uint32, vec2]:
    """A random point of the square of side 1 about the origin.

    Derivative: none, it depends on no float.

    Example: state = dk.rand_init(42, i); y[i] = dk.sample_unit_square(state).x
    """
    x = randf(state) - 0.5
    y = randf(state) - 0.5
    return state, vec2(x, y)


@built_in(sets="state")
def sample_unit_cube(state: Uint32) -> tuple[uint32, vec3]:
    """A random point of the cube of side 1 about the origin.

    Derivative: none, it depends on no float.

    Example: state = dk.rand_init(42, i); w[i] = dk.sample_unit_cube(state)
    """
    x = randf(state) - 0.5
    y = randf(state) - 0.5
    z = randf(state) - 0.5
    return state, vec3(x, y, z)


@built_in(sets="state")
def poisson(state: Uint32, lam: Float32) -> tuple[uint32, uint32]:
    """A random number of events where lam are expected: by factors below 10, by transformed rejection from there on.

    Derivative: none, it is an integer.

    Example: state = dk.rand_init(42, i); q[i] = int(dk.poisson(state, 4.0))
    """
    drawn = uint32(0)
    # Factors take lam + 1 draws on average, rejection a number that does not grow.
    if lam >= 10.0:
        state, drawn = _by_rejection(state, lam)
    elif lam > 0.0:
        state, drawn = _by_factors(state, lam)
    return state, drawn


@func
def _by_factors(state, lam):  # type: ignore[no-untyped-def]
    """Return the number of uniform factors whose product is still above exp(-lam)."""
    limit = exp(-lam)
    drawn = uint32(0)
    product = randf(state)
    while product > limit:
        product *= randf(state)
        drawn += uint32(1)
    return state, drawn


@func
def _by_rejection(state, lam):  # type: ignore[no-untyped-def]
    """Draw by transformed rejection with squeeze (W. Hörmann, 1993)."""
    b = 0.931 + 2.53 * sqrt(lam)
    a = -0.059 + 0.02483 * b
    alpha = 1.1239 + 1.1328 / (b - 3.4)
    edge = 0.9277 - 3.6224 / (b - 2.0)
    drawn = 0.0
    accepted = False
    while not accepted:
        u = randf(state) - 0.5
        v = randf(state)
        inner = 0.5 - abs(u)
        drawn = floor((2.0 * a / inner + b) * u + lam + 0.43)
        # The squeeze accepts most draws without a logarithm.
        if inner >= 0.07 and v <= edge:
            accepted = True
        elif drawn >= 0.0 and not (inner < 0.013 and v > inner):
            accepted = log(v * alpha / (a / (inner * inner) + b)) <= drawn * log(lam) - lam - _log_factorial(drawn)
    return state, uint32(drawn)


@func
def _log_factorial(n):  # type: ignore[no-untyped-def]
    """Return the logarithm of n!, by Stirling's series from 7 on."""
    x, below = n + 1.0, 1.0
    # Stirling's series is for large arguments; smaller ones are raised by factors.
    while x < 7.0:
        below *= x
        x += 1.0
    series = (1.0 / 12.0 - (1.0 / 360.0 - 1.0 / 1260.0 / (x * x)) / (x * x)) / x
    return series + 0.9189385332046727 + (x - 0.5) * log(x) - x - log(below)
