"""How launches are cut, and how accumulations are kept apart."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from diffkern.contracts.manifest import Conflict, Manifest, ProgramParameter
from diffkern.runtime.launch.derivative import DerivativePlan
from diffkern.runtime.launch.partition import MAX_CHUNKS, MAX_GROUPS
from diffkern.runtime.launch.schedule import Conflicts, cut, normalize_dim, plan_adjoint


@given(
    st.lists(st.integers(0, 3000), min_size=1, max_size=3),
    st.floats(0.1, 1e6),
    st.sampled_from([(), (4,), (64, 16)]),
    st.integers(1, 10_000),
)
def test_chunks_cover_the_range(dims, cost, together, at_least):
    c = cut(tuple(dims), cost, together, at_least)
    assert c.chunk >= 1
    assert c.chunks <= MAX_CHUNKS
    assert (c.chunks - 1) * c.chunk < max(c.n, 1)
    assert c.chunks * c.chunk >= c.n
    assert c.chunks <= 1 or c.chunk >= at_least
    assert c.chunks <= 1 or c.chunk % (together or (1,))[-1] == 0
    assert len(c.dims) == 4


def test_a_small_launch_is_one_chunk_and_a_dear_one_is_not():
    assert cut((100,), 10.0).chunks == 1
    assert cut((100,), 1e5).chunks == 100
    assert cut((10**6,), 10.0).chunks > 100


def test_chunks_are_whole_registers():
    assert [cut((n,), 1e5, (16, 4)).chunk for n in (3, 14, 100, 511, 512, 5000)] == [3, 4, 4, 4, 16, 32]
    assert cut((10**6,), 10.0, (64, 16)).chunk % 64 == 0
    assert cut((14,), 10.0, (16, 4)).chunks == 1


def manifest(arity, **conflicts):
    params = [
        ProgramParameter(
            f"ct_{name}", "array2d<float32,C>", "cotangent", int(name[1:]), int(name[1:]), conflict=conflict
        )
        for name, conflict in conflicts.items()
    ]
    return Manifest(arity, 1.0, tuple(params))


def test_conflicts_are_read_from_the_manifest():
    bounded = Conflict("bounded", ((-1, 1), (0, 2)))
    m = manifest(2, p0=bounded, p1=Conflict("none"), p2=Conflict("reduce"), p3=Conflict("general"))
    plan = DerivativePlan.of(m)
    assert plan.active == {0, 1, 2, 3}
    assert plan.conflicts((10, 10)) == Conflicts((3,), (1, 2), True)
    assert plan.conflicts((10, 10), all_general=True).general == (0, 1, 2, 3)
    # The third axis is one the kernel does not ask about: threads that differ in it alone have the same index.
    assert plan.conflicts((10, 10, 2)).general == (0, 1, 2, 3)
    assert plan.conflicts((10, 10, 1)).general == (3,)


def test_plain_accumulation_may_race_where_dims_are_not_known():
    near, uniform, anywhere = Conflict("bounded", ((-1, 1),)), Conflict("reduce"), Conflict("general")
    cases = [({"p0": near}, 1, False), ({"p0": near}, 2, True), ({"p0": uniform}, 2, False), ({}, 2, False)]
    cases += [({"p0": anywhere, "p1": uniform}, 1, True), ({"p0": near, "p1": uniform}, 1, False)]
    for conflicts, axes, races in cases:
        assert DerivativePlan.of(manifest(1, **conflicts)).may_race(axes) is races


def test_residuals_of_a_derivative():
    saved = (ProgramParameter(f"saved_{k}", "array1d<float32,C>", "saved", k, k) for k in (1, 3))
    plan = DerivativePlan.of(Manifest(1, 1.0, tuple(saved), post=(0, 3)))
    assert (plan.after, plan.before, plan.zeros((2, 3))) == ((0, 3), (1, 3), (3,))


def test_neighbours_run_in_two_colours():
    dims = (1000, 1000)
    plan = plan_adjoint(dims, 50.0, (), Conflicts((), (2, 2), True), {})
    assert plan.colours == 2
    assert plan.cut.chunk > 2 * 1000 + 2


def test_a_reach_as_long_as_the_launch_needs_atomics():
    assert plan_adjoint((1_000_000,), 50.0, (), Conflicts((), (999_999,), True), {}) is None


def test_small_buffers_are_copied_and_large_ones_are_not():
    dims, cost = (100_000,), 100.0
    general = Conflicts((1,), (0,), True)
    plan = plan_adjoint(dims, cost, (), general, {1: 100})
    assert plan.private == (1,)
    assert 2 <= plan.cut.chunks <= MAX_GROUPS
    assert plan_adjoint(dims, cost, (), general, {1: 10**8}) is None
    assert plan_adjoint(dims, cost, (), Conflicts((1,), (0,), False), {1: 100}) is None


def test_one_chunk_needs_nothing():
    assert plan_adjoint((10,), 1.0, (), Conflicts((0,), (5,), False), {0: 10**9}).private == ()


@pytest.mark.parametrize(("dim", "dims"), [(3, (3,)), ((2, 3), (2, 3)), ([4], (4,)), (np.array([4, 5]), (4, 5))])
def test_dimensions(dim, dims):
    assert normalize_dim(dim) == dims


@given(st.integers(1, 400), st.integers(1, 400), st.integers(0, 3), st.integers(0, 3), st.floats(1.0, 1e5))
def test_no_two_chunks_of_a_colour_collide(rows, columns, reach0, reach1, cost):
    plan = plan_adjoint((rows, columns), cost, (), Conflicts((), (reach0, reach1), True), {})
    if plan is None or plan.cut.chunks == 1:
        return
    furthest = min(reach0, rows - 1) * columns + min(reach1, columns - 1)
    gap = plan.cut.chunk if plan.colours == 2 else 0
    assert furthest <= gap
