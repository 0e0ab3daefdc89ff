"""The kernel that computes a mip level of a texture from the one before it."""

from __future__ import annotations

from typing import Any

from diffkern.kernels.kernel import Kernel
from diffkern.lang.intrinsics import INTRINSICS
from diffkern.library.language import float32, float64, min  # noqa: A004

__all__ = ["halved"]

tid: Any = INTRINSICS["tid"]


@Kernel
def halved(texels, width, height, depth, channels, level):  # type: ignore[no-untyped-def]
    """Write the mean of two texels along each axis; along an axis with one texel it is taken twice."""
    t = tid()
    half_width, half_height = width // 2 if width > 1 else 1, height // 2 if height > 1 else 1
    channel, row = t % channels, t // channels
    i, row = row % half_width, row // half_width
    j, k = row % half_height, row // half_height
    total = float64(0.0)
    for corner in range(8):
        x = min(2 * i + (corner & 1), width - 1)
        y = min(2 * j + ((corner >> 1) & 1), height - 1)
        z = min(2 * k + (corner >> 2), depth - 1)
        total += float64(texels[((z * height + y) * width + x) * channels + channel])
    level[t] = float32(total * float64(0.125))
