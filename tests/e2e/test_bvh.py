"""Trees of boxes: which boxes queries find, beside a search through all by NumPy."""

from __future__ import annotations

import gc
import itertools
from typing import Any

import numpy as np
import pytest

import diffkern as dk

AT = 30


@dk.kernel
def boxes(tree: dk.uint64, low: dk.array(dtype=dk.vec3), high: dk.array(dtype=dk.vec3), out: dk.array2d(dtype=int)):
    i = dk.tid()
    query = dk.bvh_query_aabb(tree, low[i], high[i])
    j = 0
    while dk.bvh_query_next(query, j):
        out[i, j] += 1
    for k in dk.bvh_query_aabb(tree, low[i], high[i]):
        out[i, k] += 10


@dk.kernel
def spheres(tree: dk.uint64, x: dk.array(dtype=dk.vec3), radius: float, out: dk.array2d(dtype=int)):
    i = dk.tid()
    for j in dk.bvh_query_sphere(tree, x[i], radius):
        out[i, j] += 1


@dk.kernel
def rays(
    tree: dk.uint64, x: dk.array(dtype=dk.vec3), d: dk.array(dtype=dk.vec3), radius: float, far: float,
    out: dk.array2d(dtype=int),
):  # fmt: skip
    i = dk.tid()
    query, j = dk.bvh_query_capsule(tree, x[i], d[i], radius), 0
    if radius == 0.0:
        query = dk.bvh_query_ray(tree, x[i], d[i])
    while dk.bvh_query_next(query, j, far):
        out[i, j] += 1


@dk.kernel
def groups_of(tree: dk.uint64, out: dk.array2d(dtype=int)):
    g = dk.tid()
    root = dk.bvh_get_group_root(tree, g)
    far = dk.vec3(1e6, 1e6, 1e6)
    if root >= 0:
        for j in dk.bvh_query_aabb(tree, -far, far, root):
            out[g, j] += 1


def vectors(a: np.ndarray) -> dk.array:
    return dk.array(a, dtype=dk.vec3)


def case(n: int, seed: int = 0) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(seed)
    low = rng.normal(size=(n, 3)).astype(np.float32)
    high = (low + rng.uniform(0.0, 0.6, (n, 3))).astype(np.float32)
    x = rng.normal(size=(AT, 3)).astype(np.float32)
    d = rng.normal(size=(AT, 3)).astype(np.float32)
    d[:4, 0], d[4:6, :2] = 0.0, 0.0
    return low, high, x, d


def overlap(low: np.ndarray, high: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return ((low[None] <= b[:, None]) & (high[None] >= a[:, None])).all(axis=-1)


def along(low: np.ndarray, high: np.ndarray, x: np.ndarray, d: np.ndarray, radius: float, far: float) -> np.ndarray:
    with np.errstate(divide="ignore", invalid="ignore"):
        a = (low[None].astype(float) - radius - x[:, None]) / d[:, None]
        b = (high[None].astype(float) + radius - x[:, None]) / d[:, None]
    near, end = np.fmin(a, b).max(axis=-1).clip(0.0), np.fmax(a, b).min(axis=-1)
    return (near <= end) & (near <= far)


def check_all(tree: dk.Bvh, low: np.ndarray, high: np.ndarray, x: np.ndarray, d: np.ndarray) -> None:
    def found(kernel: Any, *given: Any) -> np.ndarray:
        out = dk.zeros((AT, len(low)), dtype=int)
        dk.launch(kernel, AT, [tree.id, *given, out])
        return out.numpy()

    top = (x + np.abs(d) * 0.3).astype(np.float32)
    assert (found(boxes, vectors(x), vectors(top)) == 11 * overlap(low, high, x, top)).all()
    gap = np.maximum(0.0, np.maximum(low[None] - x[:, None], x[:, None] - high[None]))
    assert (found(spheres, vectors(x), 0.7) == ((gap**2).sum(axis=-1) <= np.float32(0.7) ** 2)).all()
    for radius, far in ((0.0, 1.5), (0.2, 1.0), (0.0, np.inf)):
        result = found(rays, vectors(x), vectors(d), radius, far)
        assert (result == along(low, high, x, d, radius, far)).all(), (radius, far)


@pytest.mark.parametrize("n", [1, 2, 300])
def test_queries_find_what_a_search_through_all_finds(n):
    low, high, x, d = case(n)
    of = np.random.default_rng(1).integers(-1, 4, n).astype(np.int32)
    for constructor, leaf_size, groups in (
        (None, 1, None), ("sah", 4, of), ("median", 1, of), ("lbvh", 3, None), ("cubql", 1, of), ("median", 2, None),
    ):  # fmt: skip
        given = None if groups is None else dk.array(groups)
        tree = dk.Bvh(vectors(low), vectors(high), constructor, groups=given, leaf_size=leaf_size)
        check_all(tree, low, high, x, d)
        out = dk.zeros((5, n), dtype=int)
        dk.launch(groups_of, 5, [tree.id, out])
        expected = np.zeros((5, n)) if groups is None else groups[None] == np.arange(5)[:, None]
        assert (out.numpy() == expected).all()


@pytest.mark.parametrize("leaf_size", [1, 4])
def test_refit_and_rebuild_follow_the_boxes(leaf_size):
    low, high, x, d = case(80)
    lowers, uppers = vectors(low), vectors(high)
    tree = dk.Bvh(lowers, uppers, leaf_size=leaf_size)
    there = tree.id
    low, high, _, _ = case(80, seed=5)
    lowers.assign(low)
    uppers.assign(high)
    tree.refit()
    check_all(tree, low, high, x, d)
    tree.rebuild("median")
    check_all(tree, low, high, x, d)
    assert tree.id == there


def test_rays_along_faces_edges_and_corners_of_boxes():
    """Everything lies on a lattice, so that starts and rays are on borders of boxes, and arithmetic is exact."""
    rng = np.random.default_rng(3)
    low = rng.integers(-2, 3, (60, 3)).astype(np.float32)
    high = low + rng.integers(0, 3, (60, 3)).astype(np.float32)
    ways = np.array([w for w in itertools.product((-1.0, 0.0, 1.0), repeat=3) if any(w)], np.float32)
    d = np.repeat(ways, 20, axis=0)
    d[::7] *= np.float32(-1e-30)  # whose reciprocals are large
    d[d == 0.0] = rng.choice([0.0, -0.0, 1e-42], (d == 0.0).sum())  # of which the last one has none
    x = rng.integers(-3, 4, d.shape).astype(np.float32)
    tree = dk.Bvh(vectors(low), vectors(high))
    for radius in (0.0, 1.0):
        out = dk.zeros((len(x), 60), dtype=int)
        dk.launch(rays, len(x), [tree.id, vectors(x), vectors(d), radius, np.inf, out])
        exact = np.where(np.abs(d) < 1e-38, 0.0, d).astype(float)
        expected = closed(low - radius, high + radius, x, exact)
        assert 0.04 < expected.mean() < 0.5
        assert (out.numpy() == expected).all()


def closed(low: np.ndarray, high: np.ndarray, x: np.ndarray, d: np.ndarray) -> np.ndarray:
    """Which boxes, with their borders, rays meet."""
    near, end = np.zeros((len(x), len(low))), np.full((len(x), len(low)), np.inf)
    for c in range(3):
        below, above, along = low[None, :, c] - x[:, None, c], high[None, :, c] - x[:, None, c], d[:, None, c]
        still = np.broadcast_to(along == 0.0, below.shape)
        with np.errstate(divide="ignore", invalid="ignore"):
            a, b = below / along, above / along
        a, b = np.minimum(a, b), np.maximum(a, b)
        outside = still & ((below > 0.0) | (above < 0.0))
        near = np.where(still, near, np.maximum(near, a))
        end = np.where(outside, -1.0, np.where(still, end, np.minimum(end, b)))
    return near <= end


def test_boxes_without_an_inside_or_a_number():
    low, high, x, d = case(40)
    low[3, 1], high[7], low[9], high[9] = np.nan, np.nan, np.inf, -np.inf
    low[11], high[11] = -np.inf, np.inf
    low[13:25], high[13:25] = low[13], low[13]
    tree = dk.Bvh(vectors(low), vectors(high))
    with np.errstate(invalid="ignore"):
        out = dk.zeros((AT, 40), dtype=int)
        top = (x + np.abs(d) * 0.3).astype(np.float32)
        dk.launch(boxes, AT, [tree.id, vectors(x), vectors(top), out])
        assert (out.numpy() == 11 * overlap(low, high, x, top)).all()
    for kernel, given in ((spheres, [0.7]), (rays, [vectors(d[4:].repeat(2, 0)[:AT]), 0.0, np.inf])):
        out = dk.zeros((AT, 40), dtype=int)
        dk.launch(kernel, AT, [tree.id, vectors(x), *given, out])
        assert not out.numpy()[:, [3, 7]].any()
        assert out.numpy()[:, 11].all()


@dk.kernel
def spheres_of_an_array(trees: dk.array(dtype=dk.uint64), out: dk.array(dtype=int)):
    for _ in dk.bvh_query_sphere(trees[0], dk.vec3(0.0, 0.0, 0.0), 100.0):
        out[0] += 1


def count(tree: int, n: int = 3) -> int:
    out = dk.zeros((1, n), dtype=int)
    dk.launch(spheres, 1, [tree, dk.zeros(1, dtype=dk.vec3), 100.0, out])
    return int(out.numpy().sum())


def test_a_tree_without_boxes_and_what_is_no_tree_find_nothing():
    empty = dk.Bvh(dk.zeros(0, dtype=dk.vec3), dk.zeros(0, dtype=dk.vec3))
    empty.refit()
    empty.rebuild()
    assert count(empty.id) == 0
    tree = dk.Bvh(dk.zeros(3, dtype=dk.vec3), dk.zeros(3, dtype=dk.vec3))
    assert count(tree.id) == 3
    gone, grid = tree.id, dk.HashGrid(2, 2, 2)
    assert [count(wrong) for wrong in (0, grid.id)] == [0] * 2
    wrong = [12345, gone ^ (1 << 48), gone]
    del tree
    gc.collect()
    for number in wrong:
        with pytest.raises(dk.LaunchError, match=r"(?s)'spheres' is given the id .* no object with it.*help: keep the"):
            count(number)
    # What launches cannot see finds nothing.
    out = dk.zeros(1, dtype=int)
    dk.launch(spheres_of_an_array, 1, [dk.array([gone], dtype=dk.uint64), out])
    assert out.numpy()[0] == 0


def test_debug_programs_say_what_is_no_tree():
    @dk.kernel(mode="debug")
    def kernel(tree: dk.uint64, root: int, out: dk.array(dtype=int)):
        for _ in dk.bvh_query_sphere(tree, dk.vec3(0.0, 0.0, 0.0), 1.0, root):
            out[0] += 1

    tree, out = dk.Bvh(dk.zeros(3, dtype=dk.vec3), dk.zeros(3, dtype=dk.vec3)), dk.zeros(1, dtype=int)
    dk.launch(kernel, 1, [tree.id, -1, out])
    assert out.numpy()[0] == 3
    with pytest.raises(dk.KernelRuntimeError, match="the id is that of no Bvh"):
        dk.launch(kernel, 1, [7, -1, out])
    with pytest.raises(dk.KernelRuntimeError, match="the Bvh has no node of that number"):
        dk.launch(kernel, 1, [tree.id, 99, out])


def test_what_does_not_fit_is_refused():
    x = dk.zeros(3, dtype=dk.vec3)
    for match, call in (
        ("2 upper corners for 3", lambda: dk.Bvh(x, dk.zeros(2, dtype=dk.vec3))),
        ("2 groups for 3", lambda: dk.Bvh(x, x, groups=dk.zeros(2, dtype=int))),
        ("vec3<float32> along one axis", lambda: dk.Bvh(dk.zeros(3, dtype=dk.vec3d), x)),
        ("are an array", lambda: dk.Bvh(np.zeros((3, 3)), x)),
        ("no constructor 'octree'", lambda: dk.Bvh(x, x, "octree")),
        ("at least one box", lambda: dk.Bvh(x, x, leaf_size=0)),
    ):
        with pytest.raises(dk.LaunchError, match=match):
            call()


def test_boxes_that_take_the_place_of_others_are_checked():
    low, high, x, d = case(40)
    tree = dk.Bvh(vectors(low), vectors(high), groups=dk.zeros(40, dtype=int))
    for name, match in (("lowers", "2 lower corners for 40"), ("uppers", "2 upper corners for 40"), ("groups", "2 gr")):
        held = getattr(tree, name)
        setattr(tree, name, held[:2])
        for build in (tree.refit, tree.rebuild):
            with pytest.raises(dk.LaunchError, match=match):
                build()
        setattr(tree, name, held)
    tree.lowers = vectors(np.repeat(low, 2, axis=0) - 1)[::2]
    tree.refit()
    check_all(tree, low - 1, high, x, d)


# -- loops and gradients -----------------------------------------------------------------------------------------------


@dk.func
def first_two(query: dk.BvhQuery, x: dk.array(dtype=float)):
    s, n = 0.0, 0
    for j in query:
        if j % 5 == 3:
            continue
        s = 1.5 * s + x[j] * x[j]
        n += 1
        if n == 2:
            break
    else:
        s += 7.0
    return s


@dk.kernel
def by_for(tree: dk.uint64, at: dk.array(dtype=dk.vec3), x: dk.array(dtype=float), y: dk.array(dtype=float)):
    i = dk.tid()
    y[i] = first_two(dk.bvh_query_sphere(tree, at[i], 0.5 + 0.1 * dk.abs(x[i])), x)
    for j in dk.bvh_query_aabb(tree, at[i], at[i]):
        for k in dk.bvh_query_aabb(tree, at[j], at[j]):
            y[i] += x[j] * x[k]


@dk.kernel
def by_while(tree: dk.uint64, at: dk.array(dtype=dk.vec3), x: dk.array(dtype=float), y: dk.array(dtype=float)):
    i = dk.tid()
    s, n, j = 0.0, 0, 0
    query = dk.bvh_query_sphere(tree, at[i], 0.5 + 0.1 * dk.abs(x[i]))
    left = False
    while not left and dk.bvh_query_next(query, j):
        if j % 5 != 3:
            s = 1.5 * s + x[j] * x[j]
            n += 1
            left = n == 2
    y[i] = s if left else s + 7.0
    outer = dk.bvh_query_aabb(tree, at[i], at[i])
    while dk.bvh_query_next(outer, j):
        inner, k = dk.bvh_query_aabb(tree, at[j], at[j]), 0
        while dk.bvh_query_next(inner, k):
            y[i] += x[j] * x[k]


def test_both_kinds_of_loops_have_the_same_values_and_gradients():
    low, high, _, _ = case(40)
    tree, found = dk.Bvh(vectors(low), vectors(high)), []
    numbers = np.random.default_rng(2).normal(size=40).astype(np.float32)
    for kernel in (by_for, by_while):
        x, y = dk.array(numbers, requires_grad=True), dk.zeros(40, requires_grad=True)
        with dk.Tape() as tape:
            dk.launch(kernel, 40, [tree.id, vectors(low), x], [y])
        tree.rebuild()
        tape.backward(grads={y: dk.ones(40)})
        found.append((y.numpy(), x.grad.numpy()))
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)
    assert (found[0][1] != 0).sum() > 20


def test_a_tape_has_the_tree_of_its_time():
    low, high, _, _ = case(40)
    gradients = []
    for change in ("nothing", "refit", "rebuild"):
        lowers, uppers = vectors(low), vectors(high)
        tree = dk.Bvh(lowers, uppers)
        x, y = dk.ones(40, requires_grad=True), dk.zeros(40, requires_grad=True)
        with dk.Tape() as tape:
            dk.launch(by_for, 40, [tree.id, vectors(low), x], [y])
        lowers.assign(low + 100.0)
        uppers.assign(high + 100.0)
        if change != "nothing":
            getattr(tree, change)()
        tape.backward(grads={y: dk.ones(40)})
        gradients.append(x.grad.numpy().copy())
    np.testing.assert_array_equal(gradients[0], gradients[1])
    np.testing.assert_array_equal(gradients[0], gradients[2])
    assert gradients[0].any()


def test_a_captured_tree_is_kept_beside_another_one_that_is_an_argument():
    corners = np.float32([[0, 0, 0], [5, 0, 0]])
    tree, other = (dk.Bvh(vectors(corners), vectors(corners + 1)) for _ in range(2))
    captured = tree.id

    @dk.kernel
    def summed(other: dk.uint64, x: dk.array(dtype=float), y: dk.array(dtype=float)):
        at = dk.vec3(0.2, 0.2, 0.2)
        for j in dk.bvh_query_aabb(dk.uint64(captured), at, at):
            y[0] += x[0] * x[0] * float(j + 1)

    x, y = dk.full(1, 3.0, requires_grad=True), dk.zeros(1, requires_grad=True)
    with dk.Tape() as tape:
        dk.launch(summed, 1, [other.id, x], [y])
    tree.lowers.assign(corners[::-1].copy())
    tree.uppers.assign(corners[::-1] + 1)
    tree.refit()
    tape.backward(grads={y: dk.ones(1)})
    assert x.grad.numpy()[0] == 6.0
