"""A program of NPBench and a simulator of DiffTaichi as ``benchmarks/outside`` has them: they import and are right."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import diffkern as dk

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def _benchmarks_are_found() -> Iterator[None]:
    sys.path.insert(0, str(ROOT))
    yield
    sys.path.remove(str(ROOT))


def test_a_program_of_npbench() -> None:
    """The means of a histogram are NumPy's, and their sum grows by a share of each number."""
    port = importlib.import_module("benchmarks.outside.npbench.ports_all").PORTS["azimint_hist"]
    rng = np.random.default_rng(3)
    data, radius, bins = rng.normal(size=40), rng.uniform(size=40), 3
    given = dk.array(data, requires_grad=True)
    with dk.Tape() as tape:
        (found,) = port.run(given, dk.array(radius), bins)
    counts, edges = np.histogram(radius, bins)
    sums = np.histogram(radius, bins, weights=data)[0]
    np.testing.assert_allclose(found.numpy(), sums / counts, rtol=1e-13)
    tape.backward(grads={found: dk.ones(bins, dtype=dk.float64)})
    own = np.clip(np.searchsorted(edges, radius, side="right") - 1, 0, bins - 1)
    np.testing.assert_allclose(given.grad.numpy(), 1.0 / counts[own], rtol=1e-13)


def test_a_simulator_of_difftaichi() -> None:
    """Three springs: the gradient of a short run is that of differences."""
    simulations = importlib.import_module("benchmarks.outside.difftaichi.simulators").SIMULATIONS
    made = simulations["mass_spring_simple"]("float64", 12)
    with dk.Tape() as tape:
        made.forward()
    tape.backward(made.loss)
    slope = made.gradients()
    for name, array in made.parameters.items():
        before = array.numpy().copy()
        ends = []
        for step in (1e-5, -1e-5):
            moved = before.copy()
            moved.reshape(-1)[0] += step
            array.assign(moved)
            made.forward()
            ends.append(float(made.loss.numpy()[0]))
        array.assign(before)
        assert (ends[0] - ends[1]) / 2e-5 == pytest.approx(slope[name].reshape(-1)[0], rel=1e-6, abs=1e-12)


def test_a_gradient_by_the_number_of_steps() -> None:
    """The three springs' gradient after four and twelve steps grows, and is that of differences."""
    simulations = importlib.import_module("benchmarks.outside.difftaichi.simulators").SIMULATIONS
    report = importlib.import_module("benchmarks.outside.difftaichi.horizons").report
    few, many = report(simulations["mass_spring_simple"], (4, 12)).rows
    assert (few.steps, many.steps) == (4, 12)
    assert many.norm > few.norm > 0.0
    assert few.cosine == pytest.approx(1.0, abs=1e-6)
    assert many.cosine == pytest.approx(1.0, abs=1e-6)


def test_changes_of_a_published_program_have_to_find_their_text() -> None:
    """What is changed on both sides is said in words of the published text; a text that is gone is an error."""
    changed = importlib.import_module("benchmarks.outside.difftaichi.published").changed
    assert changed("with ti.ad.Tape(loss): steps = 512", {"steps = 512": "steps = 64"}).endswith("steps = 64")
    with pytest.raises(ValueError, match="has no 'steps = 8'"):
        changed("steps = 512", {"steps = 8": "steps = 4"})
    without_tape = "for i in range(2):\n    ti.ad.clear_all_gradients()\n    forward()\n    backward()\n"
    timed = "    BEGIN(); ti.ad.clear_all_gradients()\n    forward()\n    backward(); END(loss)\n"
    assert changed(without_tape, {}).endswith(timed)
