"""The objectives of ``benchmarks/adbench`` at small sizes: values, gradients and Jacobians are those of JAX."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import require

jax = require("jax")

FOLDER = Path(__file__).parents[3] / "benchmarks" / "adbench"
NAMES = ("case", "gmm", "bundle", "lstm", "hand", "jax_forms")
SIZES = {
    "gmm": [(3, 4, 21), (1, 2, 5)],
    "bundle": [(3, 5, 37)],
    "lstm": [(3, 40)],
    "hand": [(19, 11), (19, 11, True)],
}


@pytest.fixture(scope="module")
def modules() -> Iterator[dict[str, Any]]:
    """The benchmark's modules, which import one another by their bare names."""
    held = {name: sys.modules.pop(name, None) for name in NAMES}
    sys.path.insert(0, str(FOLDER))
    try:
        yield {name: importlib.import_module(name) for name in NAMES}
    finally:
        sys.path.remove(str(FOLDER))
        for name, before in held.items():
            sys.modules.pop(name, None)
            if before is not None:
                sys.modules[name] = before


@pytest.mark.parametrize(("name", "size"), [(name, size) for name, sizes in SIZES.items() for size in sizes])
def test_derivatives_are_those_of_jax(modules: dict[str, Any], name: str, size: tuple[Any, ...]) -> None:
    """To 1e-9 of the largest number, in double precision; a second run gives the same."""
    given = modules[name].data(*size, seed=7)
    with (jax.enable_x64 if hasattr(jax, "enable_x64") else jax.experimental.enable_x64)(True):
        other = getattr(modules["jax_forms"], name)(given)
        other.derivative()
        expected = other.results()
    own = modules[name].case(given)
    for _ in range(2):
        own.forward()
        own.derivative()
        assert modules["case"].difference(own.results(), expected) <= 1e-9


def test_a_camera_that_is_not_turned(modules: dict[str, Any]) -> None:
    """Where the rotation is zero the other branch is taken, in value and rows."""
    given = modules["bundle"].data(2, 3, 8, seed=1)
    given["cameras"][0, :3] = 0.0
    own = modules["bundle"].case(given)
    own.derivative()
    rows, small = own.results()["rows"].copy(), dict(given)
    for k in range(3):
        ends = []
        for step in (1e-6, -1e-6):
            small["cameras"] = given["cameras"].copy()
            small["cameras"][0, k] = step
            moved = modules["bundle"].case(small)
            moved.forward()
            ends.append(moved.results()["value"].copy())
        slope = (ends[0] - ends[1]) / 2e-6
        assert abs(slope[::2] - rows[::2, :, k]).max() <= 1e-7 * abs(rows).max()
