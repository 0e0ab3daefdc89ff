"""The corpus in replayed sequences: a launch and its adjoint as one program do what the two do one after the other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import diffkern as dk
from diffkern.ir.types import Array, Type, is_differentiable
from diffkern.runtime.accumulate import sequence_dce
from diffkern.runtime.accumulate.adjoint import AdjointLaunch
from diffkern.runtime.arrays.array import wrap
from diffkern.runtime.records import compiled_sequence
from diffkern.testing.gradcheck import Vjp

from .build import lower, values
from .corpus import CASES

NAMES = [name for name in sorted(CASES) if not CASES[name].options and name != "loops.long_contraction"]
USUAL = {"loops", "functions"}
"""Modules whose cases are always run; the others with ``--full``."""
JOINED = set((Path(__file__).parents[1] / "golden" / "joined.txt").read_text(encoding="utf-8").split())
"""The cases that become one program. Of the others threads read what other threads write, they work on tiles, or one
program would be more work than two."""


def _argument(t: Type, value: Any) -> Any:
    if not isinstance(t, Array):
        return value
    made = wrap(value.copy(), t.dtype)
    made.requires_grad = is_differentiable(t)
    return made


def _recorded(
    case: Any, vjp: Vjp, point: list[Any], weights: dict[int, Any], lanes: bool
) -> tuple[dk.Sequence, list[Any]]:
    """A sequence that launches the case and goes backwards, and its arguments."""
    arguments = [_argument(t, a) for t, a in zip(vjp.types, point, strict=True)]
    kernel = dk.kernel(case.function, lanes=lanes)
    seeds = {arguments[i]: w.astype(arguments[i].numpy().dtype) for i, w in weights.items()}
    with dk.record() as sequence:
        with dk.Tape() as tape:
            dk.launch(kernel, dim=case.dim, inputs=arguments)
        tape.zero()
        tape.backward(grads=seeds)
    return sequence, arguments


def _replayed(sequence: dk.Sequence, arguments: list[Any], point: list[Any]) -> list[np.ndarray]:
    """What arrays and gradients hold after two replays from the same numbers; the second finds other gradients."""
    for k in range(2):
        for a, value in zip(arguments, point, strict=True):
            if isinstance(a, dk.array):
                a.numpy()[...] = value.reshape(a.numpy().shape)
                if a.requires_grad and k == 0:
                    a.grad.fill_(0.5)
        sequence.replay()
    held = [a for a in arguments if isinstance(a, dk.array)]
    return [a.numpy().copy() for a in held] + [a.grad.numpy().copy() for a in held if a.requires_grad]


def _is_joinable(sequence: dk.Sequence) -> bool:
    operations = [item.operation for item in sequence._program.items]
    return any(isinstance(op, AdjointLaunch) and op.executable.manifest.joint is not None for op in operations)


@pytest.mark.parametrize("lanes", [True, False], ids=["lanes", "threads"])
@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n.partition(".")[0] in USUAL else pytest.mark.full) for n in NAMES]
)
def test_one_program_does_what_two_do(name: str, lanes: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    case = CASES[name]
    vjp = Vjp(lower(case))
    point = vjp.arguments(values(case))
    weights = vjp.weights(point, np.random.default_rng(3))
    monkeypatch.setattr(sequence_dce, "_LESS_WORK", np.inf)
    sequence, arguments = _recorded(case, vjp, point, weights, lanes)
    launch = [item.operation.kind for item in sequence._program.items].index("launch")
    is_joined = _is_joinable(sequence) and not sequence._program.forms[launch]
    # What threads in lanes cost depends on the processor.
    assert lanes or is_joined == (name in JOINED)
    if not is_joined:
        return
    found = _replayed(sequence, arguments, point)
    monkeypatch.setattr(compiled_sequence, "folded", lambda operations, forms: forms)
    expected = _replayed(*_recorded(case, vjp, point, weights, lanes), point)
    for a, b in zip(found, expected, strict=True):
        size = np.max(np.abs(b), initial=0.0, where=np.isfinite(b)) if b.dtype.kind == "f" else 0.0
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6 * size)
