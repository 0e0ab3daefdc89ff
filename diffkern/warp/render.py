"""``wp.render``: the names of Warp's renderers, which diffkern does not have."""

from __future__ import annotations

from diffkern.warp.opaque import named

__getattr__ = named(
    __name__, "OpenGLRenderer UsdRenderer", "", "pass a.numpy() to a library that draws, such as Matplotlib"
)
