"""Functions of C's library that Warp does not have, for bodies that were text in C++."""

from __future__ import annotations

from diffkern import warp as wp

__all__ = ["next_after"]


@wp.func  # type: ignore[untyped-decorator]
def next_after(x: wp.float32, toward: wp.float32) -> wp.float32:
    """Return the next number of float32 behind x on the way to another one."""
    if wp.isnan(x) or wp.isnan(toward):
        return x + toward
    if x == toward:
        return toward
    if x == wp.float32(0.0):
        least = wp.cast(wp.uint32(1), wp.float32)
        return wp.where(toward > x, least, -least)
    bits = wp.cast(x, wp.int32)
    away = (x > wp.float32(0.0)) == (toward > x)
    return wp.cast(bits + wp.where(away, wp.int32(1), wp.int32(-1)), wp.float32)
