"""Random sequences of launches, copies and fills on a few arrays: the tape's gradients against central differences.

The point is what happens between the launches: arrays overwritten while an earlier adjoint needs them, in place
updates, views, arrays without a gradient of their own in the middle, several seeds.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import diffkern as dk

N = 4
F64 = dk.array(dtype=dk.float64)


@dk.kernel
def product(x: F64, y: F64, z: F64):
    i = dk.tid()
    z[i] = x[i] * y[i]


@dk.kernel
def update(x: F64, z: F64):
    i = dk.tid()
    z[i] = z[i] * dk.cos(x[i])


@dk.kernel
def bend(z: F64):
    i = dk.tid()
    z[i] = dk.sin(z[i]) + 0.5 * z[i]


@dk.kernel
def add(x: F64, z: F64):
    i = dk.tid()
    dk.atomic_add(z, (i * 3) % 4, dk.sin(2.0 * x[i]))


@dk.kernel
def neighbours(x: F64, z: F64):
    i = dk.tid()
    if i > 0:
        z[i] = x[i] * x[i - 1]


@dataclass(frozen=True)
class Step:
    """One operation: its name and the arrays it takes, by position; the last is written."""

    name: str
    arrays: tuple[int, ...]


KERNELS = {"product": product, "update": update, "bend": bend, "add": add, "neighbours": neighbours}
ARITY = {"product": 3, "update": 2, "bend": 1, "add": 2, "neighbours": 2, "copy": 2, "fill": 1, "half": 1}


@st.composite
def programs(draw: st.DrawFn) -> list[Step]:
    steps = []
    for _ in range(draw(st.integers(1, 8))):
        name = draw(st.sampled_from(sorted(ARITY)))
        # The kernels' arrays are distinct from what they write; reading one array twice is allowed.
        goal = draw(st.integers(0, 2))
        others = [k for k in range(3) if k != goal]
        steps.append(Step(name, (*(draw(st.sampled_from(others)) for _ in range(ARITY[name] - 1)), goal)))
    return steps


def run_numpy(program: list[Step], start: np.ndarray) -> np.ndarray:
    """What the program means, in NumPy."""
    v = start.copy()
    for step in program:
        *xs, z = step.arrays
        if step.name == "product":
            v[z] = v[xs[0]] * v[xs[1]]
        elif step.name == "update":
            v[z] = v[z] * np.cos(v[xs[0]])
        elif step.name == "bend":
            v[z] = np.sin(v[z]) + 0.5 * v[z]
        elif step.name == "add":
            v[z][np.arange(N) * 3 % 4] += np.sin(2 * v[xs[0]])
        elif step.name == "neighbours":
            v[z][1:] = v[xs[0]][1:] * v[xs[0]][:-1]
        elif step.name == "copy":
            v[z] = v[xs[0]]
        elif step.name == "fill":
            v[z] = 0.25
        else:  # half of an array, through views of it
            v[z][2:] = v[z][:2] * v[z][:2]
    return v


def run_diffkern(program: list[Step], arrays: list[dk.array]) -> None:
    for step in program:
        chosen = [arrays[k] for k in step.arrays]
        if step.name == "copy":
            dk.copy(chosen[1], chosen[0])
        elif step.name == "fill":
            chosen[0].fill_(0.25)
        elif step.name == "half":
            product[2](chosen[0][:2], chosen[0][:2], chosen[0][2:])
        else:
            KERNELS[step.name][N](*chosen)


def central_differences(program: list[Step], start: np.ndarray, seeds: np.ndarray) -> np.ndarray:
    gradient = np.zeros_like(start)
    h = 1e-5
    for k in np.ndindex(start.shape):
        ends = []
        for sign in (1, -1):
            moved = start.copy()
            moved[k] += sign * h
            ends.append(np.sum(run_numpy(program, moved) * seeds))
        gradient[k] = (ends[0] - ends[1]) / (2 * h)
    return gradient


@given(programs(), st.integers(0, 2**32 - 1), st.integers(1, 7))
def test_gradients_of_random_programs(program, seed, with_gradient):
    rng = np.random.default_rng(seed)
    start = rng.uniform(0.5, 1.0, (3, N))
    owns = [bool(with_gradient >> k & 1) for k in range(3)]
    arrays = [dk.array(values, requires_grad=own) for values, own in zip(start, owns, strict=True)]
    seeds = rng.uniform(-1, 1, (3, N))
    with dk.Tape() as tape:
        run_diffkern(program, arrays)
    assert np.allclose([a.numpy() for a in arrays], run_numpy(program, start), rtol=1e-13)
    touched = {k for step in program for k in step.arrays}
    given_seeds = {a: seeds[k] for k, a in enumerate(arrays) if k in touched}
    for k in range(3):
        if k not in touched:
            seeds[k] = 0
    expected = central_differences(program, start, seeds)
    try:
        tape.backward(grads=given_seeds)
    except dk.LaunchError as error:
        assert "no array on this tape has a gradient" in str(error)  # noqa: PT017 - whether it is raised is the program's
        assert not any(expected[k].any() for k in touched if owns[k])
        return
    for k in touched:
        if owns[k]:
            assert np.allclose(arrays[k].grad.numpy(), expected[k], rtol=1e-6, atol=1e-7), f"array {k}"


@pytest.mark.parametrize("again", [1, 2])
def test_a_second_sweep_gives_the_same(again):
    program = [Step("product", (0, 1, 2)), Step("update", (2, 0)), Step("bend", (1,)), Step("add", (0, 1))]
    start = np.random.default_rng(0).uniform(0.5, 1.5, (3, N))
    arrays = [dk.array(values, requires_grad=True) for values in start]
    with dk.Tape() as tape:
        run_diffkern(program, arrays)
    seeds = np.ones((3, N))
    for _ in range(again):
        tape.zero()
        tape.backward(grads=dict(zip(arrays, seeds, strict=True)))
    expected = central_differences(program, start, seeds)
    assert np.allclose([a.grad.numpy() for a in arrays], expected, rtol=1e-6)
