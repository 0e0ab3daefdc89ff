"""``warp._src.codegen``: Warp's code generator, of which diffkern has nothing; the module can be imported."""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    raise AttributeError(
        f"{name} belongs to Warp's code generator, which is not part of diffkern; look at kernel.source()"
    )
