"""Enzyme's applications as ``benchmarks/outside`` has them: values of the originals, gradients of differences."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import require

import diffkern as dk

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def suite() -> Iterator[Any]:
    sys.path.insert(0, str(ROOT))
    yield lambda name: importlib.import_module(f"benchmarks.outside.enzyme.{name}")
    sys.path.remove(str(ROOT))


def test_lulesh_is_the_original(suite: Any) -> None:
    """The blast on five elements ends after as many cycles as the original, with its energy, and is symmetric."""
    lulesh = suite("lulesh")
    cycles, energy = lulesh.ORIGINAL[5]
    blast = lulesh.Blast(5)
    assert blast.run() == cycles
    found = blast.energy.numpy().reshape(5, 5, 5)
    assert found[0, 0, 0] == pytest.approx(energy, rel=1e-11)
    for axes in ((0, 2, 1), (2, 1, 0)):
        np.testing.assert_allclose(found, found.transpose(axes), rtol=1e-9, atol=1e-9)


@pytest.mark.full
def test_lulesh_has_the_gradient_of_differences(suite: Any) -> None:
    """So has the tape with few states, whose gradient is that of the record."""
    lulesh = suite("lulesh")
    blast = lulesh.build(lulesh.CHECKED)
    assert blast.check() < 1e-6
    # The check has moved the inputs in its last difference; the record is run with the same ones.
    blast.gradient()
    recorded = [array.grad.numpy().copy() for array in (blast.start_x, blast.start_energy)]
    blast.checkpointed(5)
    for array, expected in zip((blast.start_x, blast.start_energy), recorded, strict=True):
        np.testing.assert_allclose(array.grad.numpy(), expected, rtol=1e-9, atol=1e-9 * np.abs(expected).max())


def test_lbm_is_what_numpy_makes_of_it(suite: Any) -> None:
    """Two steps of collisions and shifts of whole arrays, on the cells that no edge of the grid has reached."""
    lbm = suite("lbm")
    program = lbm.Cavity((7, 6, 8), 2, dk.float64)
    random = np.random.default_rng(2)
    first = program.start.numpy() * random.uniform(0.9, 1.1, program.start.shape)
    program.start.assign(first)
    program.primal()
    flags, steps = lbm.cavity(7, 6, 8), np.array(lbm.DIRECTIONS)
    f, weights = first.copy(), np.array(lbm.WEIGHTS)[:, None, None, None]
    inner = np.s_[1:-1, 1:-1, 1:-1]
    for _ in range(2):
        density = np.where(flags == lbm.OBSTACLE, 1.0, f.sum(axis=0))
        density[density == 0.0] = 1.0
        flow = np.tensordot(steps.T, f, 1) / density
        flow[:, flags == lbm.MOVED] = np.array(lbm.LID)[:, None]
        along = np.tensordot(steps, flow, 1)
        balance = weights * density * (1.0 + 3.0 * along + 4.5 * along**2 - 1.5 * (flow**2).sum(axis=0))
        after = np.where(flags == lbm.OBSTACLE, f[list(lbm.OPPOSITE)], (1.0 - lbm.OMEGA) * f + lbm.OMEGA * balance)
        f = np.stack([np.roll(a, d[::-1], (0, 1, 2)) for a, d in zip(after, lbm.DIRECTIONS, strict=True)])
    found = program.grids[0].numpy()
    fluid = flags[inner] != lbm.OBSTACLE
    np.testing.assert_allclose(found[(slice(None), *inner)][:, fluid], f[(slice(None), *inner)][:, fluid], rtol=1e-12)


def test_lbm_has_the_gradient_of_differences(suite: Any) -> None:
    lbm = suite("lbm")
    assert lbm.build(lbm.CHECKED).check() < 1e-6


@pytest.mark.full
def test_kernels_are_counted(suite: Any) -> None:
    """Of one kernel, in both directions, for both architectures; every application names its kernels."""
    require("cuda.bindings.nvjitlink", "nvidia")
    counts, lulesh = suite("counts"), suite("lulesh")
    found = dict(counts.counted(lulesh.kernels.next_time))
    assert list(found) == [f"{arch} {way}" for arch in counts.ARCHITECTURES for way in ("forward", "adjoint")]
    assert all(int(text.split()[0]) > 0 for text in found.values())
    assert all(made.kernels() for made in suite("applications").APPLICATIONS.values())
