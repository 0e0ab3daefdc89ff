"""The corpus as users run it: launched under a tape, in chunks of one thread, backward through the launch path.

The adjoint's accumulations then really meet: in two colours, in private copies or by atomics, as the plan has it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.lanes import narrow

import diffkern as dk
from diffkern.ir.types import Array, Type, is_differentiable
from diffkern.runtime.arrays.array import wrap
from diffkern.runtime.launch import schedule
from diffkern.targets.cpu import kernel as cpu_kernel
from diffkern.testing.gradcheck import Vjp

from .build import lower, values
from .corpus import CASES

SAMPLE = (
    "branches.while_in_for_in_if", "composites.n_body", "device.softmax_loss", "functions.powers", "loops.nested_state",
    "loops.symplectic_euler", "memory.matmul_loop", "branches.func_with_returns",
)  # fmt: skip
"""Kernels whose threads run in lanes and one by one in every run; ``--lanes`` does it to all kernels."""
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
    _check(name, dk.kernel(CASES[name].function))


@pytest.mark.parametrize("lanes", [True, False])
@pytest.mark.parametrize("name", SAMPLE)
def test_backward_with_lanes_and_without(name: str, lanes: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu_kernel.choice, "chosen", narrow)
    kernel = dk.kernel(CASES[name].function, lanes=lanes)
    _check(name, kernel)
    for adjoint in (False, True):
        assert ("do not run in lanes" not in kernel.report(adjoint=adjoint).splitlines()[0]) is lanes


def _check(name: str, kernel: Any) -> None:
    case = CASES[name]
    vjp = Vjp(lower(case))
    point = vjp.arguments(values(case))
    weights = vjp.weights(point, np.random.default_rng(3))
    expected = vjp.gradients(case.dim, point, weights)

    arguments = [_argument(t, a) for t, a in zip(vjp.types, point, strict=True)]
    with dk.Tape() as tape:
        kernel[case.dim](*arguments)  # threads, or blocks of tiles
    for i, w in weights.items():
        arguments[i].grad.numpy()[...] = w
    tape.backward()
    for i in weights:
        size = np.max(np.abs(expected[i]), initial=0.0, where=np.isfinite(expected[i]))
        found = arguments[i].grad.numpy()
        np.testing.assert_allclose(found, expected[i], rtol=1e-4, atol=1e-5 * size, err_msg=vjp.names[i])
