"""miniBUDE, XSBench and RSBench of ``benchmarks/outside/enzyme``: values of the originals, gradients of differences."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import diffkern as dk

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def _benchmarks_are_found() -> Iterator[None]:
    sys.path.insert(0, str(ROOT))
    yield
    sys.path.remove(str(ROOT))


def part(name: str) -> Any:
    return importlib.import_module(f"benchmarks.outside.enzyme.{name}")


def test_energies_are_those_of_minibude() -> None:
    difference, _ = part("bude").validate(None)
    assert difference < 2e-6


def test_random_numbers_are_those_of_the_originals() -> None:
    """The generator jumps as many steps as it would make one by one."""
    neutrons = part("neutrons")
    states, state = neutrons.Draws(42).states(100), 42
    for found in states:
        state = (neutrons.FACTOR * state + 1) % 2**63
        assert int(found) == state

    @dk.kernel
    def jumped(states: dk.array[dk.uint64]):
        i = dk.tid()
        states[i] = neutrons.skipped(dk.uint64(42), dk.uint64(i + 1))

    made = dk.zeros(100, dtype=dk.uint64)
    jumped[100](made)
    np.testing.assert_array_equal(made.numpy(), states)


def test_lookups_are_interpolated_in_the_grid_of_each_nuclide() -> None:
    xsbench, neutrons = part("xsbench"), part("neutrons")
    program = xsbench.Lookups(30, points=24)
    program.primal()
    grid, _, _ = xsbench.tables(24)
    amounts = neutrons.concentrations(neutrons.Draws(1070 * 1070))
    draws, shares = neutrons.Draws(neutrons.LOOKUP_SEED).uniform(30, 2), neutrons.shares()
    for (energy, roll), found in zip(draws, program.sections.numpy(), strict=True):
        chosen = next((k for k in range(1, 12) if roll < shares[k]), 0)
        expected = np.zeros(5)
        for amount, nuclide in zip(amounts[chosen], neutrons.MATERIALS[chosen], strict=False):
            table = grid[nuclide]
            k = np.clip(np.searchsorted(table[:, 0], energy, "right") - 1, 0, 22)
            (e0, *low), (e1, *high) = table[k], table[k + 1]
            expected += amount * (np.array(high) - (e1 - energy) / (e1 - e0) * (np.array(high) - np.array(low)))
        np.testing.assert_allclose(found, expected, rtol=1e-9)
    assert program.check() < 1e-6


@pytest.mark.full
@pytest.mark.parametrize("name", ["xsbench", "rsbench"])
def test_checksums_are_those_of_the_originals(name: str) -> None:
    difference, _ = part(name).validate(None)
    assert difference == 0.0


@pytest.mark.full
@pytest.mark.parametrize("order", [1, 2])
def test_derivatives_of_energies(order: int) -> None:
    bude = part("bude")
    program = bude.Docking(bude.deck(8, 5, 40), dk.float64)
    kernel = bude.kernels(dk.float64).fasten
    report = dk.testing.gradcheck(kernel, 8, [*program.parameters], [program.energies], order=order)
    assert report.checked > 50
    assert report.forward > 0


@pytest.mark.full
@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("name", ["xsbench", "rsbench"])
def test_derivatives_of_lookups(name: str, order: int) -> None:
    module = part(name)
    program = module.Lookups(6, points=12) if name == "xsbench" else module.Broadening(6, average=100)
    kernel, dim, inputs, outputs = program.launch
    report = dk.testing.gradcheck(kernel, dim, inputs, outputs, order=order, max_elements=40)
    assert report.checked > 20
    assert report.forward > 0
