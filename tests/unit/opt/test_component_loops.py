"""Loops whose index selects components become straight code with components known at compile time."""

from __future__ import annotations

import numpy as np
import pytest
from passes_harness import D1, after, assert_same, lowered, names

import diffkern as dk
from diffkern.ir.ops.composite import AT_RUN_TIME
from diffkern.ir.types import FLOAT64, INT32, Array, Mat
from diffkern.opt.fold import fold
from diffkern.opt.unroll import unroll, unroll_components
from diffkern.testing import gradcheck

Corners = dk.types.matrix((8, 3), dk.float64)
SIGNS = (1.0, -1.0, -1.0, 1.0, -1.0, 1.0, 1.0, -1.0)
N2 = Array(INT32, 2)
M83 = Array(Mat(FLOAT64, 8, 3), 1)
RNG = np.random.default_rng(4)


def corners(m, y):
    """Sum rows with signs, and change the rows by the sum: as much code as a loop of eight trips seldom has."""
    i = dk.tid()
    at = m[i]
    total = dk.vec3d()
    for c in range(8):
        total += SIGNS[c] * at[c]
    for c in range(8):
        at[c] += dk.dot(at[c], total) * SIGNS[c] * total
        at[c, 1] = at[c, 0] * total[2] - at[7 - c, 2]
    for c in range(8):
        y[i] += at[c, 0] * at[c, 1] + at[c, 2]


def elements(x, y):
    i = dk.tid()
    total = x[i]
    for k in range(8):
        total = dk.sin(total) * x[(i + k) % 5]
    y[i] = total


@pytest.mark.parametrize("by", [unroll, unroll_components])
def test_components_of_each_trip_are_known(by) -> None:
    fn = lowered(corners, M83, D1)
    made = after(fn, fold, by)
    assert AT_RUN_TIME.keys() <= set(names(fn))
    assert not {"for", *AT_RUN_TIME} & set(names(made))
    assert_same(fn, made, (5,), [RNG.normal(size=(5, 8, 3)), np.zeros(5)])


def test_other_loops_stay_before_code_is_made() -> None:
    fn = lowered(elements, D1, D1)
    assert "for" in names(after(fn, fold, unroll_components))
    assert "for" not in names(after(fn, fold, unroll))


@pytest.mark.parametrize(("place", "component"), [(0, 0), (2, 2), (-1, 2), (-3, 0)])
def test_constant_places_are_components(place: int, component: int) -> None:
    def chosen(x, y):
        i = dk.tid()
        v = dk.vec3d(x[i], 2.0 * x[i], 3.0 * x[i])
        for k in range(place, place + 1):
            v[k] += 1.0
            y[i] = v[k]

    fn = lowered(chosen, D1, D1)
    made = after(fn, fold, unroll)
    assert not AT_RUN_TIME.keys() & set(names(made))
    assert_same(fn, made, (4,), [np.arange(4.0), np.zeros(4)])
    y = dk.zeros(4, dtype=dk.float64)
    dk.launch(dk.kernel(chosen), 4, [dk.array(np.arange(4.0))], [y])
    np.testing.assert_array_equal(y.numpy(), (component + 1) * np.arange(4.0) + 1.0)


def test_places_outside_stay_what_they_are() -> None:
    def beyond(x, y):
        i = dk.tid()
        v = dk.vec3d(x[i], 2.0 * x[i], 3.0 * x[i])
        for k in range(2, 5):
            y[i] += v[k]

    fn = lowered(beyond, D1, D1)
    made = after(fn, fold, unroll)
    assert names(made).count("extract_dyn") == 2
    assert_same(fn, made, (4,), [np.arange(4.0), np.zeros(4)])


def test_the_adjoint_is_a_few_times_the_code() -> None:
    """An access at run time would be one selection per component, and its adjoint a sum of two matrices."""
    kernel = dk.kernel(corners)
    types = dk.array(dtype=Corners), dk.array(dtype=dk.float64)
    forward, adjoint = (
        sum(dk.compile(kernel, args=types, target="x86-64-v3", adjoint=adjoint, lanes=False).instructions.values())
        for adjoint in (False, True)
    )
    assert adjoint < 4 * forward


def test_gradients_of_component_loops() -> None:
    m = dk.array(RNG.normal(size=(3, 8, 3)), dtype=Corners, requires_grad=True)
    y = dk.zeros(3, dtype=dk.float64, requires_grad=True)
    gradcheck(dk.kernel(corners), dim=3, inputs=[m], outputs=[y])
