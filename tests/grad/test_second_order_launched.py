"""Second derivatives of launched kernels of the corpus, in the three orders that there are: all must agree.

The reverse mode of forward mode, which is tested against differences; the forward mode of reverse mode; and the reverse
mode of reverse mode, on tapes inside tapes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.selection import one_in

import diffkern as dk
from diffkern.ir.types import Array, is_differentiable
from diffkern.runtime.arrays.array import array, wrap
from diffkern.testing.gradcheck import Vjp

from .build import lower, values
from .corpus import CASES
from .test_forward import INFINITE

SKIPPED = {*INFINITE, "loops.long_contraction"}
NAMES = [name for name in sorted(CASES) if name not in SKIPPED and not CASES[name].options and CASES[name].numeric]


def dot(a: Any, b: Any) -> float:
    return sum(float(np.sum(x.numpy().astype(float) * y.numpy())) for x, y in zip(a, b, strict=True))


@pytest.mark.parametrize("name", one_in(24, NAMES))
def test_all_orders_agree(name: str) -> None:
    case = CASES[name]
    vjp, kernel = Vjp(lower(case)), dk.kernel(case.function)
    point = vjp.arguments(values(case))
    smooth = [k for k, t in enumerate(vjp.types) if isinstance(t, Array) and is_differentiable(t)]
    rng = np.random.default_rng(11)

    def drawn(like: array) -> array:
        made = dk.zeros_like(like)
        made.assign(rng.uniform(-1.0, 1.0, like.numpy().shape).astype(np.float32))
        return made

    def run(*given: array) -> tuple[array, ...]:
        arguments = [
            wrap(a.copy(), t.dtype) if isinstance(t, Array) else a for t, a in zip(vjp.types, point, strict=True)
        ]
        for k, held in zip(smooth, given, strict=True):
            arguments[k] = dk.clone(held)
        kernel[case.dim](*arguments)  # threads, or blocks of tiles
        return tuple(arguments[k] for k in smooth)

    given = [wrap(point[k].copy(), vjp.types[k].dtype) for k in smooth]
    w, t, u = ([drawn(held) for held in given] for _ in range(3))

    def gradients(*given: array) -> tuple[array, ...]:
        return dk.vjp(run, given, w)[1]

    expected = dot(dk.vjp(lambda *x: dk.jvp(run, x, u)[1], given, w)[1], t)
    of_reverse = dot(dk.jvp(gradients, given, t)[1], u)
    twice_reverse = dot(dk.vjp(gradients, given, u)[1], t)
    scale = 1e-3 * (abs(expected) + 1e-2)
    assert of_reverse == pytest.approx(expected, abs=scale)
    assert twice_reverse == pytest.approx(expected, abs=scale)
