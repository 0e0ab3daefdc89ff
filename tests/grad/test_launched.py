"""The corpus as users run it: launched under a tape, in chunks of one thread, backward through the launch path.

The adjoint's accumulations then really meet: in two colours, in private copies or by atomics, as the plan has it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import diffkern as dk
from diffkern.ir.types import Array, Type, is_differentiable
from diffkern.runtime import schedule
from diffkern.runtime.array import wrap
from diffkern.testing.gradcheck import Vjp

from .build import lower, values
from .corpus import CASES

NAMES = [name for name in sorted(CASES) if not CASES[name].options and name != "loops.long_contraction"]


def _argument(t: Type, value: Any) -> Any:
    if not isinstance(t, Array):
        return value
    made = wrap(value.copy(), t.dtype)
    made.requires_grad = is_differentiable(t)
    return made


@pytest.mark.parametrize("name", NAMES)
def test_backward_through_a_launch(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedule, "_CHUNK_WORK", 1.0)
    case = CASES[name]
    vjp = Vjp(lower(case))
    point = vjp.arguments(values(case))
    weights = vjp.weights(point, np.random.default_rng(3))
    expected = vjp.gradients(case.dim, point, weights)

    arguments = [_argument(t, a) for t, a in zip(vjp.types, point, strict=True)]
    with dk.Tape() as tape:
        dk.launch(dk.kernel(case.function), dim=case.dim, inputs=arguments)
    for i, w in weights.items():
        arguments[i].grad.numpy()[...] = w
    tape.backward()
    for i in weights:
        size = np.max(np.abs(expected[i]), initial=0.0, where=np.isfinite(expected[i]))
        found = arguments[i].grad.numpy()
        np.testing.assert_allclose(found, expected[i], rtol=1e-4, atol=1e-5 * size, err_msg=vjp.names[i])
