"""What an operation can do; run by ``test_new_operation`` with a package that has ``flip`` of the documentation."""

from __future__ import annotations

import numpy as np
import reference
import typing_stub
from support.simulated import Simulated

import diffkern as dk
from diffkern.analysis.cuda_plan import finalize_updates
from diffkern.compiler.compilation import Compilation
from diffkern.lang.intrinsics import INTRINSICS
from diffkern.testing import gradcheck
from diffkern.testing.gradcheck import Vjp
from diffkern.testing.programs import Interpreted


@dk.kernel
def weighed(x: dk.array(dtype=dk.vec3d), w: dk.array(dtype=dk.vec3d), y: dk.array(dtype=dk.float64)):
    i = dk.tid()
    y[i] = dk.dot(dk.flip(x[i]), w[i]) * dk.length(x[i])


@dk.kernel
def single(x: dk.array(dtype=dk.vec3), y: dk.array(dtype=dk.vec3)):
    i = dk.tid()
    y[i] = dk.flip(x[i])


def points() -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.normal(size=(4, 3)), rng.normal(size=(4, 3)), np.zeros(4)]


def agree(vjp: Vjp, way: type) -> None:
    """A way to run functions gives what compiled code gives."""
    weights = vjp.weights(points(), np.random.default_rng(0))
    expected = vjp.gradients((4,), points(), weights)
    for i, gradient in vjp.running(way, way).gradients((4,), points(), weights).items():
        np.testing.assert_allclose(gradient, expected[i], rtol=1e-12)


def main() -> None:
    x = points()[0].astype(np.float32)
    y = dk.zeros(4, dtype=dk.vec3)
    dk.launch(single, dim=4, inputs=[x], outputs=[y])
    assert (y.numpy() == x[:, ::-1]).all()
    report = gradcheck(weighed, 4, points())
    assert not report.kinks, report
    assert "flip(x[i])" in weighed.source()
    assert "import dot, flip" in weighed.adjoint_source()
    vjp = Vjp(Compilation(weighed.func, weighed.argument_types()).forward)
    agree(vjp, Interpreted)
    finalize_updates(vjp.adjoint.fn, vjp.adjoint.buffers, vjp.adjoint.conflicts)
    agree(vjp, Simulated)
    for adjoint in (False, True):
        assert ".entry" in dk.compile(single, target="sm_90", adjoint=adjoint).ptx
    assert "A cotangent is reversed." in dk.flip.__doc__
    assert ".. py:function:: flip(v)" in "\n".join(reference.entry(INTRINSICS["flip"]))
    assert "def flip(" in typing_stub.stub()


if __name__ == "__main__":
    main()
