"""Functions of C's library and of Warp's C++ code that kernels do not have, for translated C++ snippets."""

from __future__ import annotations

from typing import Any

from diffkern import warp as wp
from diffkern.library import triangles

__all__ = ["intersect_ray_tri_woop", "next_after"]


@wp.func
def next_after(x: wp.float32, toward: wp.float32) -> wp.float32:
    """Return the next number of float32 behind x on the way to another one."""
    if wp.isnan(x) or wp.isnan(toward):
        return x + toward
    if x == toward:
        return toward
    if x == wp.float32(0.0):
        least = wp.cast(wp.uint32(1), wp.float32)
        return wp.where(toward > x, least, -least)  # type: ignore[no-any-return]
    bits = wp.cast(x, wp.int32)
    away = (x > wp.float32(0.0)) == (toward > x)
    return wp.cast(bits + wp.where(away, wp.int32(1), wp.int32(-1)), wp.float32)  # type: ignore[no-any-return]


@wp.func
def intersect_ray_tri_woop(
    p: wp.vec3,
    dir: wp.vec3,
    a: wp.vec3,
    b: wp.vec3,
    c: wp.vec3,
    t: wp.ref[wp.float32],
    u: wp.ref[wp.float32],
    v: wp.ref[wp.float32],
    sign: wp.ref[wp.float32],
) -> Any:
    """Return whether a ray hits a triangle; set the distance, two barycentric weights and the side by reference."""
    meets, place, first, second, side = triangles.hit(p, dir, a, b, c)
    meets = meets and place >= 0.0
    if meets:
        t, u, v, sign = place, first, second, side  # noqa: F841 -- variables of the caller
    return meets
