"""Hash grids beside what their documentation says, done by NumPy: what queries find, and in which order."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import diffkern as dk
from diffkern.spatial import hash_grid

DIMS = [(1, 1, 1), (2, 1, 3), (4, 4, 4), (5, 3, 2), (3, 8, 16), (33, 31, 32)]
WAYS = {
    "alone": (True, 1 << 15), "blocks": (True, 3), "counted": (False, 1)
}  # fmt: skip
"""How points are sorted: on a processor in one launch, by one thread, by several; and as on a GPU."""


@dk.kernel
def found(
    grid: dk.uint64, at: dk.array(dtype=dk.vec3), dist: float, group: int, out: dk.array2d(dtype=int),
    count: dk.array(dtype=int),
):  # fmt: skip
    i = dk.tid()
    n = 0
    if group < 0:
        for j in dk.hash_grid_query(grid, at[i], dist):
            if n < out.shape[1]:
                out[i, n] = j
            n += 1
    else:
        for j in dk.hash_grid_query(grid, at[i], dist, group):
            if n < out.shape[1]:
                out[i, n] = j
            n += 1
    count[i] = n


@dk.kernel
def spread(grid: dk.uint64, x: dk.array(dtype=dk.vec3), out: dk.array(dtype=float)):
    i = dk.tid()
    for j in dk.hash_grid_query(grid, x[i], 1.0):
        out[i] += dk.length_sq(x[i] - x[j])


@dk.kernel
def order(grid: dk.uint64, out: dk.array(dtype=int)):
    i = dk.tid()
    out[i] = dk.hash_grid_point_id(grid, i)


def cells_along(x: np.ndarray, inverse: np.float32) -> np.ndarray:
    """Cells before space is folded; what no int32 holds is in the last one, NaN in cell 0."""
    with np.errstate(all="ignore"):
        cells = np.floor(x.astype(np.float32) * inverse)
    return np.clip(np.nan_to_num(cells.astype(np.float64), nan=0.0), -(2**31), 2**31 - 1).astype(np.int64)


class Expected:
    """A hash grid in NumPy."""

    def __init__(self, dims: tuple[int, ...], points: np.ndarray, radius: float, groups: np.ndarray | None) -> None:
        self.dims, self.inverse, self.groups = dims, np.float32(1) / np.float32(radius), groups
        x, y, z = (cells_along(points[:, k], self.inverse) % dims[k] for k in range(3))
        self.cells = (z * dims[1] + y) * dims[0] + x
        keys = (np.arange(len(points)), *(() if groups is None else (groups,)), self.cells)
        self.ids = np.lexsort(keys)

    def query(self, at: np.ndarray, dist: float, group: int) -> list[int]:
        low, high = (cells_along(at + np.float32(s * dist), self.inverse) for s in (-1, 1))
        counts = [int(np.clip(b - a + 1, 0, d)) for a, b, d in zip(low, high, self.dims, strict=True)]
        along = [[(int(a) + k) % d for k in range(n)] for a, n, d in zip(low, counts, self.dims, strict=True)]
        result: list[int] = []
        for z, y, x in itertools.product(along[2], along[1], along[0]):
            cell = (z * self.dims[1] + y) * self.dims[0] + x
            result += [i for i in self.ids if self.cells[i] == cell and self.is_of(i, group)]
        return result

    def is_of(self, i: int, group: int) -> bool:
        return group < 0 or self.groups is None or self.groups[i] == group


def point_sets(radius: float) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(3)
    borders = np.array(list(itertools.product([-2.0, -1.0, -0.5, 0.0, 1.0, 3.0], repeat=3)), np.float32) * radius
    far = np.array([1e6, -1e6, 1e30, -1e30, np.inf, -np.inf, np.nan, 2**31, -(2**31), 0.0], np.float32)
    return {
        "none": np.zeros((0, 3), np.float32),
        "one": np.float32([[0.3, -0.3, 7.0]]),
        "borders": rng.permutation(borders)[:90],
        "beside borders": np.nextafter(borders[:60], np.float32(-100)),
        "duplicates": np.repeat(rng.normal(size=(5, 3)).astype(np.float32), 9, axis=0)[rng.permutation(45)],
        "one cell": rng.uniform(0.0, 0.9 * radius, (50, 3)).astype(np.float32),
        "far away": rng.choice(far, (40, 3)),
        "negative": rng.uniform(-9.0, -1.0, (60, 3)).astype(np.float32),
        "all over": rng.normal(scale=3.0, size=(80, 3)).astype(np.float32),
    }


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("dims", DIMS, ids=str)
def test_order_and_content_are_those_of_a_search_through_all(dims, way, monkeypatch):
    by_digits, block = WAYS[way]
    monkeypatch.setattr(hash_grid, "_BLOCK", block)
    rng = np.random.default_rng(4)
    for radius, grouped in ((0.5, False), (0.7, True)):
        grid = dk.HashGrid(*dims)
        grid._by_digits = by_digits
        for name, points in point_sets(radius).items():
            n = len(points)
            groups = rng.integers(0, 3, n).astype(np.int32) if grouped else None
            grid.build(dk.array(points, dtype=dk.vec3), radius, groups=None if groups is None else dk.array(groups))
            expected = Expected(dims, points, radius, groups)
            if n:
                ids = dk.zeros(n, dtype=int)
                dk.launch(order, n, [grid.id, ids])
                assert ids.numpy().tolist() == expected.ids.tolist(), name
            places = np.concatenate([points[:4], np.float32([[0, 0, 0], [radius, -radius, 0.1]])])
            for dist, group in itertools.product((0.0, radius, 2.5 * radius), (-1, 1) if grouped else (-1,)):
                out, count = dk.full((len(places), 99), -1, dtype=int), dk.zeros(len(places), dtype=int)
                dk.launch(found, len(places), [grid.id, dk.array(places, dtype=dk.vec3), dist, group, out, count])
                lists = [expected.query(at, dist, group) for at in places]
                assert count.numpy().tolist() == [len(one) for one in lists], (name, dist, group)
                for row, one in zip(out.numpy(), lists, strict=True):
                    assert row[: len(one)].tolist() == one[:99], (name, dist, group)


@pytest.mark.parametrize("n", [1, 2, 7, 300, 5000])
def test_any_number_of_blocks_gives_the_same_order(n, monkeypatch):
    points = np.random.default_rng(n).normal(size=(n, 3)).astype(np.float32)
    expected = Expected((9, 8, 7), points, 0.4, None).ids.tolist()
    for block, most in ((n, 1), (1, 2), (2, 5), (1, 32), (n // 3 + 1, 32)):
        monkeypatch.setattr(hash_grid, "_BLOCK", block)
        monkeypatch.setattr(hash_grid, "_MOST_BLOCKS", most)
        grid, ids = dk.HashGrid(9, 8, 7), dk.zeros(n, dtype=int)
        grid.build(dk.array(points, dtype=dk.vec3), 0.4)
        dk.launch(order, n, [grid.id, ids])
        assert ids.numpy().tolist() == expected


@pytest.mark.parametrize("dim", [32, 64])
def test_a_build_of_few_points_is_one_launch(dim, monkeypatch):
    """A sort by one thread, which writes cells that have another first place; all else depends on the points."""
    launched = []
    launch = hash_grid.launch
    monkeypatch.setattr(hash_grid, "launch", lambda kernel, **of: (launched.append(kernel.name), launch(kernel, **of)))
    monkeypatch.setattr(hash_grid, "submit", launched.append)
    grid = dk.HashGrid(dim, dim, dim, device="cpu")
    for points in (dk.zeros(10, dtype=dk.vec3), dk.zeros(500, dtype=dk.vec3)[::2]):
        launched.clear()
        grid.build(points, 1.0)
        assert launched == ["build_alone"]
    assert sum(a.size for a in grid._scratch) < 2000


def test_arrays_are_used_again_when_the_tape_is_gone():
    grid, x = dk.HashGrid(4, 4, 4), dk.array(np.zeros((3, 3), np.float32), dtype=dk.vec3, requires_grad=True)
    out = dk.zeros(3, requires_grad=True)
    contents = []
    for _ in range(3):
        with dk.Tape() as tape:
            for _ in range(2):
                grid.build(x, 1.0)
                contents.append(grid._next)
                dk.launch(spread, 3, [grid.id, x], [out])
        assert contents[-1] is not contents[-2], "the tape needs both"
        del tape
    assert len(set(map(id, contents))) == 4
    assert contents[1] is contents[2]
