"""A new dialect is a value and two decorators: the recipe in the documentation, as it stands there."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import diffkern as dk
from diffkern.testing import gradcheck

DOCS = (Path(__file__).parents[3] / "docs" / "recipes_targets.rst").read_text(encoding="utf-8")
RECIPE = DOCS[DOCS.index("**A dialect**") :]


@pytest.fixture(scope="module")
def dialect() -> dict[str, Any]:
    """What the recipe defines."""
    found = re.search(r"code-block:: python\n\n((?:   .*\n|\n)+)", RECIPE)
    assert found is not None
    space: dict[str, Any] = {}
    exec(textwrap.dedent(found[1]), space)
    return space


def half(n: int) -> int:
    return n / 2  # type: ignore[return-value]


def divide(n: dk.array(dtype=int), quotient: dk.array(dtype=float), rest: dk.array(dtype=int)):
    i = dk.tid()
    quotient[i] = float(n[i] / 2)
    rest[i] = n[i] % 4


NUMBERS = np.array([-7, -1, 3, 7], np.int32)


def run(kernel: Any) -> tuple[list[float], list[int]]:
    quotient, rest = dk.zeros(4, dtype=float), dk.zeros(4, dtype=int)
    dk.launch(kernel, dim=4, inputs=[dk.array(NUMBERS)], outputs=[quotient, rest])
    return quotient.numpy().tolist(), rest.numpy().tolist()


def test_the_same_text_means_what_the_dialect_says(dialect: dict[str, Any]) -> None:
    native = dk.kernel(divide)
    assert run(dialect["kernel"](divide)) == ([-3.0, 0.0, 1.0, 3.0], [-3, -1, 3, 3])
    assert run(native) == ([-3.5, -0.5, 1.5, 3.5], [1, 3, 3, 3])


def test_a_func_keeps_its_own_dialect(dialect: dict[str, Any]) -> None:
    theirs, ours = dialect["func"](half), dk.func(half)

    @dk.kernel
    def both(n: dk.array(dtype=int), quotient: dk.array(dtype=float), rest: dk.array(dtype=int)):
        i = dk.tid()
        quotient[i] = ours(n[i])
        rest[i] = theirs(n[i])

    assert run(both) == ([-3.5, -0.5, 1.5, 3.5], [-3, 0, 1, 3])


def test_its_kernels_are_differentiated(dialect: dict[str, Any]) -> None:
    @dialect["kernel"]
    def scaled(x: dk.array(dtype=float), n: int, y: dk.array(dtype=float)):
        i = dk.tid()
        y[i] = x[i] * x[i] * float(n / 2)

    x, y = dk.array([1.0, 2.0], dtype=float, requires_grad=True), dk.zeros(2, requires_grad=True)
    with dk.Tape() as tape:
        dk.launch(scaled, dim=2, inputs=[x, 7], outputs=[y])
    tape.backward(grads={y: dk.array(np.ones(2, np.float32))})
    assert x.grad.numpy().tolist() == [6.0, 12.0]
    gradcheck(scaled, 2, [np.float32([1.0, 2.0]), 7], [np.zeros(2, np.float32)])
