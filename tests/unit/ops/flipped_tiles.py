"""What an operation on tiles can do; run by ``test_new_tile_operation`` with a package that has ``tile_flip``."""

from __future__ import annotations

import numpy as np

import diffkern as dk
from diffkern.printing import tile_prims
from diffkern.testing import gradcheck


@dk.kernel
def turned(x: dk.array(dtype=float, ndim=2), w: dk.array(dtype=float, ndim=2), y: dk.array(dtype=float, ndim=2)):
    s = dk.tile_load(x, shape=(5, 3))
    # The operand is used again, and the result is read elsewhere than where it is written.
    t = dk.tile_flip(s * s) * dk.tile_load(w, shape=(5, 3)) + dk.tile_flip(dk.tile_flip(s))
    dk.tile_store(y, t)


@dk.kernel
def vectors(x: dk.array(dtype=dk.vec3), y: dk.array(dtype=dk.vec3)):
    dk.tile_store(y, dk.tile_flip(dk.tile_load(x, shape=7)))


def main() -> None:
    rng = np.random.default_rng(0)
    x, w = (rng.normal(size=(5, 3)).astype(np.float32) for _ in range(2))
    y = np.zeros((5, 3), np.float32)
    dk.launch_tiled(turned, dim=[1], inputs=[x, w], outputs=[y], block_dim=32)
    np.testing.assert_allclose(y, (x * x)[::-1] * w + x, rtol=1e-6)
    report = gradcheck(turned, 1, [x, w, np.zeros_like(y)])
    assert not report.kinks, report
    v, out = rng.normal(size=(7, 3)).astype(np.float32), dk.zeros(7, dtype=dk.vec3)
    dk.launch_tiled(vectors, dim=[1], inputs=[v], outputs=[out], block_dim=32)
    assert (out.numpy() == v[::-1]).all()
    for adjoint in (False, True):
        assert ".entry" in dk.compile(turned, target="sm_90", adjoint=adjoint).ptx
        source = turned.adjoint_source() if adjoint else turned.source()
        assert "tile_flip(" in source
    assert (tile_prims.tile_flip(x) == x[::-1]).all()
    assert "The tile, the last row first." in dk.tile_flip.__doc__


main()
