"""Which components accesses touch, and which stores two threads may make to one element."""

from __future__ import annotations

from typing import Any

import pytest

import diffkern as dk
from diffkern.ad.stamps import decided_by_order
from diffkern.analysis.collisions import collisions, may_collide
from diffkern.analysis.components import Components
from diffkern.compiler import pipeline
from diffkern.compiler.compilation import Compilation
from diffkern.ir.nodes import Function, walk
from diffkern.ir.types import FLOAT64, INT32, Array, Vec

X, NUMBERS, V = Array(FLOAT64, 1), Array(INT32, 1), Array(Vec(FLOAT64, 3), 1)


def lowered(kernel: Any, *types: Any) -> Function:
    return pipeline.prepare(Compilation(kernel.func, types).primal)


def ops(fn: Function, name: str) -> list[Any]:
    return [op for op in walk(fn.body) if op.name == name]


@dk.kernel
def parts(v: dk.array(dtype=dk.vec3d), x: dk.array(dtype=dk.float64), at: dk.array(dtype=dk.int32)):
    i = dk.tid()
    v[at[i]][0] = x[i]


@dk.kernel
def two_parts(v: dk.array(dtype=dk.vec3d), x: dk.array(dtype=dk.float64), at: dk.array(dtype=dk.int32)):
    i = dk.tid()
    w = v[at[i]]
    w[0] = x[i]
    w[2] = 2.0
    v[at[i]] = w


@dk.kernel
def in_between(v: dk.array(dtype=dk.vec3d), x: dk.array(dtype=dk.float64), at: dk.array(dtype=dk.int32)):
    i = dk.tid()
    w = v[at[i]]
    v[at[i + 1]] = dk.vec3d(x[i])
    w[1] = x[i]
    v[at[i]] = w


@dk.kernel
def elsewhere(v: dk.array(dtype=dk.vec3d), x: dk.array(dtype=dk.float64), at: dk.array(dtype=dk.int32)):
    i = dk.tid()
    w = v[at[i]]
    w[1] = x[i]
    v[i] = w


@pytest.mark.parametrize(
    ("kernel", "wanted"),
    [(parts, [{0}]), (two_parts, [{0, 2}]), (in_between, [None, None]), (elsewhere, [None])],
)
def test_what_is_set(kernel: Any, wanted: Any) -> None:
    fn = lowered(kernel, V, X, NUMBERS)
    found = [Components(fn).stored(op) for op in ops(fn, "store")]
    assert [None if parts is None else set(parts) for parts in found] == wanted


@dk.kernel
def doubled(v: dk.array(dtype=dk.vec3d), x: dk.array(dtype=dk.float64), at: dk.array(dtype=dk.int32)):
    i = dk.tid()
    w = v[at[i]]
    w[0] = 2.0 * w[1]
    v[at[i]] = w


@pytest.mark.parametrize(("kernel", "wanted"), [(parts, ()), (doubled, (1,)), (elsewhere, None)])
def test_what_is_read(kernel: Any, wanted: Any) -> None:
    fn = lowered(kernel, V, X, NUMBERS)
    (load,) = (op for op in ops(fn, "load") if op.operands[0].name == "v")
    assert Components(fn).loaded(load) == wanted


@dk.kernel
def same_part(v: dk.array(dtype=dk.vec3d), x: dk.array(dtype=dk.float64), at: dk.array(dtype=dk.int32)):
    i = dk.tid()
    v[2 * i][0] = x[i]
    v[at[i]][0] = x[i]


@dk.kernel
def other_part(v: dk.array(dtype=dk.vec3d), x: dk.array(dtype=dk.float64), at: dk.array(dtype=dk.int32)):
    i = dk.tid()
    v[2 * i][0] = x[i]
    v[at[i]][1] = x[i]


@pytest.mark.parametrize(("kernel", "wanted"), [(parts, {(0, 0)}), (same_part, {(0, 1)}), (other_part, {(1, 1)})])
def test_pairs_of_stores(kernel: Any, wanted: set[tuple[int, int]]) -> None:
    """The first pair of an array that no numbers of a launch can settle stands for all."""
    fn = lowered(kernel, V, X, NUMBERS)
    stores = ops(fn, "store")
    found = collisions(fn, lambda _: True)
    assert {(stores.index(one.first), stores.index(one.second)) for one in found} == wanted
    assert all(one.check is None for one in found)
    assert collisions(fn, lambda _: False) == []


@dk.kernel
def flat(y: dk.array(dtype=dk.float64), x: dk.array(dtype=dk.float64), at: dk.array(dtype=dk.int32)):
    i, j = dk.tid()
    y[i * x.shape[0] + j] = x[j]


@dk.kernel
def own(y: dk.array(dtype=dk.float64), x: dk.array(dtype=dk.float64), at: dk.array(dtype=dk.int32)):
    i = dk.tid()
    for k in range(3):
        y[3 * i + k] = x[at[i]]


@dk.kernel
def whole_numbers(y: dk.array(dtype=dk.int32), x: dk.array(dtype=dk.float64), at: dk.array(dtype=dk.int32)):
    y[at[dk.tid()]] = 1


def test_numbers_of_a_launch_may_settle_it() -> None:
    (found,) = collisions(lowered(flat, X, X, NUMBERS), lambda _: True)
    assert found.check is not None


@pytest.mark.parametrize(
    ("kernel", "types", "wanted"),
    [
        (flat, (X, X, NUMBERS), True),
        (own, (X, X, NUMBERS), False),
        (whole_numbers, (NUMBERS, X, NUMBERS), False),
        (parts, (V, X, NUMBERS), True),
    ],
)
def test_kernels_that_scatter(kernel: Any, types: Any, wanted: bool) -> None:
    assert may_collide(lowered(kernel, *types)) is wanted


@dk.kernel
def counted(y: dk.array(dtype=dk.float64), x: dk.array(dtype=dk.float64), at: dk.array(dtype=dk.int32)):
    i = dk.tid()
    place = dk.atomic_add(at, 0, 1)
    y[place] = x[i]


def test_places_that_the_order_of_threads_decides() -> None:
    for kernel, wanted in ((counted, {"y"}), (own, set())):
        fn = lowered(kernel, X, X, NUMBERS)
        assert {array.name for array in decided_by_order(fn, fn.params[:1])} == wanted
