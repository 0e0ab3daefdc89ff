"""Sparse volumes: values beside dense arrays and dictionaries, files, allocation, and odd places."""

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import require

import diffkern as dk
import diffkern.warp as dw

V3, F, I = dk.array(dtype=dk.vec3), dk.array(dtype=float), dk.array(dtype=int)  # noqa: E741


@dk.kernel
def looked(volume: dk.uint64, x: V3, y: dk.array2d(dtype=float), n: I, world: V3):
    i = dk.tid()
    p = x[i]
    a, b, c = int(dk.floor(p[0])), int(dk.floor(p[1])), int(dk.floor(p[2]))
    g = dk.vec3(0.0)
    y[i, 0] = dk.volume_sample_f(volume, p, dk.Volume.LINEAR)
    y[i, 1] = dk.volume_sample(volume, p, dk.Volume.CLOSEST, dtype=float)
    y[i, 2] = dk.volume_lookup_f(volume, a, b, c)
    y[i, 3] = dk.volume_sample_grad_f(volume, p, dk.Volume.LINEAR, g)
    y[i, 4], y[i, 5], y[i, 6] = g[0], g[1], g[2]
    n[i] = dk.volume_lookup_index(volume, a, b, c)
    world[i] = dk.volume_index_to_world(volume, p)


@dk.kernel
def by_index(volume: dk.uint64, x: V3, values: F, y: F, n: I):
    i = dk.tid()
    y[i] = dk.volume_sample_index(volume, x[i], dk.Volume.LINEAR, values, -1.0)
    n[0] = dk.volume_voxel_count(volume)


@dk.kernel
def kept(numbers: dk.uint64, words: dk.uint64, longs: dk.uint64, doubles: dk.uint64, v3: dk.uint64, v4: dk.uint64,
         k: dk.array2d(dtype=dk.int64), z: dk.array2d(dtype=dk.float64)):  # fmt: skip
    i = dk.tid()
    dk.volume_store_i(numbers, i, 1, 2, i - 5)
    dk.volume_store(words, i, 1, 2, dk.uint32(i) + dk.uint32(4000000000))
    dk.volume_store(longs, i, 1, 2, dk.int64(i) * dk.int64(5000000000))
    dk.volume_store(doubles, i, 1, 2, dk.float64(i) / dk.float64(3.0))
    dk.volume_store(v3, i, 1, 2, dk.vec3d(dk.float64(i)))
    dk.volume_store(v4, i, 1, 2, dk.vec4f(float(i), 1.0, 2.0, 3.0))
    k[i, 0] = dk.int64(dk.volume_lookup_i(numbers, i, 1, 2))
    k[i, 1] = dk.int64(dk.volume_lookup(words, i, 1, 2, dtype=dk.uint32))
    k[i, 2] = dk.volume_lookup(longs, i, 1, 2, dtype=dk.int64)
    z[i, 0] = dk.volume_lookup(doubles, i, 1, 2, dtype=dk.float64)
    z[i, 1] = dk.volume_lookup(v3, i, 1, 2, dtype=dk.vec3d)[2]
    z[i, 2] = dk.float64(dk.volume_lookup(v4, i, 1, 2, dtype=dk.vec4f)[0])
    z[i, 3] = dk.volume_sample(doubles, dk.vec3(float(i) + 0.25, 1.0, 2.0), dk.Volume.LINEAR, dtype=dk.float64)
    # Another type gives zero.
    z[i, 4] = dk.float64(dk.volume_lookup_f(doubles, i, 1, 2))


@dk.kernel
def vectors(volume: dk.uint64, x: V3, stored: V3, sampled: V3, looked: V3):
    i = dk.tid()
    dk.volume_store_v(volume, i, 0, 0, x[i])
    looked[i] = dk.volume_lookup_v(volume, i, 0, 0)
    stored[i] = dk.volume_lookup(volume, i, 0, 0, dtype=dk.vec3)
    sampled[i] = dk.volume_sample_v(volume, dk.vec3(float(i), 0.0, 0.0), dk.Volume.LINEAR)


@dk.kernel
def sloped(volume: dk.uint64, index: dk.uint64, numbers: dk.uint64, x: V3, values: F, y: dk.array2d(dtype=float),
           slopes: V3, n: I):  # fmt: skip
    i = dk.tid()
    one, other = dk.vec3(0.0), dk.vec3(0.0)
    y[i, 0] = dk.volume_sample_grad(volume, x[i], dk.Volume.LINEAR, one, dtype=float)
    y[i, 1] = dk.volume_sample_grad_index(index, x[i], dk.Volume.LINEAR, values, 0.25, other)
    slopes[2 * i] = one
    slopes[2 * i + 1] = other
    n[i] = dk.volume_sample_i(numbers, x[i])


@dk.kernel
def turned(volume: dk.uint64, x: V3, y: V3):
    i = dk.tid()
    y[i] = dk.volume_world_to_index_dir(volume, dk.volume_index_to_world_dir(volume, x[i]))


def dense(shape: tuple[int, ...] = (9, 12, 17), seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def voxel(data: np.ndarray, at: np.ndarray, background: float) -> np.ndarray:
    inside = ((at >= 0) & (at < data.shape)).all(axis=-1)
    return np.where(inside, data[tuple(np.where(inside[..., None], at, 0).T)].T, background)


def linear(data: np.ndarray, x: np.ndarray, background: float) -> np.ndarray:
    low = np.floor(x).astype(int)
    t, total = x - low, np.zeros(len(x))
    for corner in itertools.product((0, 1), repeat=3):
        weight = np.prod(np.where(corner, t, 1.0 - t), axis=1)
        total += weight * voxel(data, low + np.array(corner), background)
    return total


def ran(volume: dk.Volume, x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    y, n, world = dk.zeros((len(x), 7)), dk.zeros(len(x), dtype=int), dk.zeros(len(x), dtype=dk.vec3)
    dk.launch(looked, len(x), [volume.id, dk.array(x.astype(np.float32), dtype=dk.vec3)], [y, n, world])
    return y.numpy(), n.numpy(), world.numpy()


def test_samples_are_those_of_a_dense_array():
    data = dense()
    volume = dk.Volume.load_from_numpy(data, (1.0, 2.0, 3.0), (0.5, 0.25, 2.0), bg_value=0.5)
    x = np.random.default_rng(1).uniform(-10, 26, (3000, 3)).astype(np.float32)
    y, n, world = ran(volume, x)
    wide = x.astype(float)
    np.testing.assert_allclose(y[:, 0], linear(data, wide, 0.5), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(y[:, 3], y[:, 0])
    np.testing.assert_array_equal(y[:, 1], voxel(data, np.rint(x).astype(int), 0.5))
    np.testing.assert_array_equal(y[:, 2], voxel(data, np.floor(x).astype(int), 0.5))
    voxels = {tuple(v): k for k, v in enumerate(volume.get_voxels().numpy().tolist())}
    assert n.tolist() == [voxels.get(tuple(v), -1) for v in np.floor(x).astype(int).tolist()]
    np.testing.assert_allclose(world, wide * [0.5, 0.25, 2.0] + [1, 2, 3], rtol=1e-5, atol=1e-5)
    for axis in range(3):
        step = 1e-5 * np.eye(3)[axis]
        inside = (np.floor(wide + step) == np.floor(wide - step)).all(axis=1)
        slope = (linear(data, wide + step, 0.5) - linear(data, wide - step, 0.5)) / 2e-5
        np.testing.assert_allclose(y[inside, 4 + axis], slope[inside], rtol=1e-3, atol=1e-3)


def test_odd_places_have_values():
    volume = dk.Volume.allocate([0, 0, 0], [0, 0, 0], 1.0, 2.5)
    x = np.float32(
        [[np.nan, 0, 0], [np.inf, 0, 0], [3e9, -3e9, 1e30], [-1, -1, -1], [2147483520.0, 0, 0], [7.5, 7.5, 7.5]]
    )
    y, n, _ = ran(volume, x)
    assert np.isnan(y[:2, 0]).all()
    np.testing.assert_array_equal(y[2:, 0], 2.5)
    np.testing.assert_array_equal(y[:, 2], 2.5)
    assert n.tolist() == [0, -1, -1, -1, -1, 511]


def test_an_empty_volume_has_the_background():
    volume = dk.Volume.allocate_by_tiles(dk.zeros((0, 3), dtype=int), 1.0, 4.0)
    assert volume.get_active_stats() == (0, 0, 0, 0)
    assert volume.get_tiles().shape == (0, 3)
    y, n, _ = ran(volume, np.zeros((1, 3)))
    assert y[0, :4].tolist() == [4.0] * 4
    assert n[0] == -1
    again = dk.Volume(volume.array())
    assert again.get_active_stats() == (0, 0, 0, 0)
    dense = dk.Volume.load_from_numpy(np.zeros((3, 0, 3, 3), np.float32), bg_value=(1.0, 2.0, 3.0))
    assert dense.get_tile_count() == 0
    assert dense.values.numpy().tolist() == [[1.0, 2.0, 3.0]]


def test_index_grids_whose_indices_are_out_of_range_are_errors():
    points = np.int32(np.random.default_rng(3).integers(0, 8, (60, 3)))
    raw = dk.Volume.allocate_by_voxels(dk.array(points, dtype=dk.vec3i), 1.0).array().numpy()
    # The bits of the voxels, the first index and the counts of a tile of 96 bytes; the number of voxels of the tree.
    for at, value in ((-80, 255), (-15, 16), (-16, 0), (-8, 255), (728, 0), (732, 255)):
        wrong = raw.copy()
        wrong[at] = value
        with pytest.raises(dk.LaunchError, match=r"contradict each other|indices of more than its voxels"):
            dk.Volume(dk.array(wrong))


def test_values_of_all_types_are_stored_and_read():
    made = [
        dk.Volume.allocate([0, 0, 0], [15, 7, 7], 1.0, bg)
        for bg in (0, dk.uint32(7), dk.int64(7), dk.float64(7.0), dk.vec3d(1.0, 2.0, 3.0), (1.0, 2.0, 3.0, 4.0))
    ]
    assert [v.dtype for v in made] == [dk.int32, dk.uint32, dk.int64, dk.float64, dk.vec3d, dk.vec4f]
    assert [v.get_grid_info().type_str for v in made] == ["int32", "uint32", "int64", "double", "Vec3d", "Vec4f"]
    k, z = dk.zeros((20, 3), dtype=dk.int64), dk.zeros((20, 5), dtype=dk.float64)
    dk.launch(kept, 20, [*(v.id for v in made)], [k, z])
    i = np.arange(20)
    inside = i < 16
    np.testing.assert_array_equal(k.numpy()[:, 0], np.where(inside, i - 5, 0))
    np.testing.assert_array_equal(k.numpy()[:, 1], np.where(inside, i + 4000000000, 7))
    np.testing.assert_array_equal(k.numpy()[:, 2], np.where(inside, i * 5000000000, 7))
    np.testing.assert_array_equal(z.numpy()[:, 0], np.where(inside, i / 3.0, 7.0))
    np.testing.assert_array_equal(z.numpy()[:, 1], np.where(inside, i, 3.0))
    np.testing.assert_array_equal(z.numpy()[:, 2], np.where(inside, i, 1.0))
    np.testing.assert_array_equal(z.numpy()[:, 4], 0.0)


@pytest.mark.parametrize("spread", [40, 30000])
def test_indices_of_active_voxels(spread):
    rng = np.random.default_rng(spread)
    points = rng.integers(-spread, spread, (500, 3)).astype(np.int32)
    volume = dk.Volume.allocate_by_voxels(dk.array(points, dtype=dk.vec3i), 1.0)
    voxels = volume.get_voxels().numpy()
    known = {tuple(v): k for k, v in enumerate(voxels.tolist())}
    assert volume.is_index
    assert volume.dtype is None
    assert set(known) == set(map(tuple, points.tolist()))
    assert volume.get_voxel_count() == len(known)
    values = rng.normal(size=len(known)).astype(np.float32)
    x = points[rng.integers(0, 500, 400)] + rng.uniform(-1, 1, (400, 3))
    y, n = dk.zeros(400), dk.zeros(1, dtype=int)
    dk.launch(by_index, 400, [volume.id, dk.array(np.float32(x), dtype=dk.vec3), dk.array(values)], [y, n])
    assert n.numpy()[0] == len(known)
    x = np.float32(x).astype(float)
    low, total = np.floor(x).astype(int), np.zeros(400)
    for corner in itertools.product((0, 1), repeat=3):
        weight = np.prod(np.where(corner, x - low, 1.0 - (x - low)), axis=1)
        total += weight * [values[known[v]] if v in known else -1.0 for v in map(tuple, (low + corner).tolist())]
    np.testing.assert_allclose(y.numpy(), total, rtol=1e-4, atol=1e-4)


def test_points_in_the_world_with_any_matrix():
    matrix = np.float32([[0.5, 0.25, 0.0], [-0.25, 0.5, 0.125], [0.0, 0.0, 2.0]])
    voxels = np.random.default_rng(3).integers(-50, 50, (200, 3)).astype(np.int32)
    points = (voxels @ matrix.T.astype(float) + [1, -2, 3]).astype(np.float32)
    volume = dk.Volume.allocate_by_voxels(
        dk.array(points, dtype=dk.vec3), transform=dk.mat33(matrix), translation=(1.0, -2.0, 3.0)
    )
    assert {*map(tuple, volume.get_voxels().numpy().tolist())} == {*map(tuple, voxels.tolist())}
    assert list(volume.get_grid_info().transform_matrix) != []
    for wrong in ({}, {"voxel_size": 1.0, "transform": dk.mat33(matrix)}, {"voxel_size": -1.0}, {"voxel_size": "1"}):
        with pytest.raises(dk.LaunchError, match=r"voxel size|transform"):
            dk.Volume.allocate_by_voxels(dk.array(points, dtype=dk.vec3), **wrong)


def test_files_are_read_and_written(tmp_path: Path):
    data = dense()
    volume = dk.Volume.load_from_numpy(data, bg_value=0.25)
    x = np.random.default_rng(1).uniform(-3, 20, (200, 3)).astype(np.float32)
    expected = ran(volume, x)
    for codec in ("none", "zip"):
        path = volume.save_to_nvdb(tmp_path / f"{codec}.nvdb", codec)
        with path.open("rb") as file:
            for given in (path, path.read_bytes(), np.fromfile(path, np.uint8), file):
                again = dk.Volume.load_from_nvdb(given)
        np.testing.assert_array_equal(again.array().numpy(), volume.array().numpy())
        for a, b in zip(ran(again, x), expected, strict=True):
            np.testing.assert_array_equal(a, b)
    # What was stored after loading is written.
    again.values.fill_(3.0)
    third = dk.Volume(again.array())
    assert (third.values.numpy() == 3.0).all()
    assert third.load_next_grid() is None
    # So is what NumPy has changed in the same memory.
    third.values.numpy()[:] = 5.0
    assert (dk.Volume(third.array()).values.numpy() == 5.0).all()
    with pytest.raises(dk.LaunchError, match=r"(?s)compressed by BLOSC.*help: install it"):
        volume.save_to_nvdb(tmp_path / "x.nvdb", "blosc")
    broken = bytearray(path.read_bytes())
    for wrong, match in (
        (b"", "does not begin"),
        (bytes(broken[:-40]), "cut off|contradict"),
        (b"x" * 99, "does not begin"),
    ):
        with pytest.raises(dk.LaunchError, match=match):
            dk.Volume.load_from_nvdb(wrong)
    raw = volume.array().numpy().copy()
    raw[672 + 24 : 672 + 32] = 255
    with pytest.raises(dk.LaunchError, match="contradict each other"):
        dk.Volume(dk.array(raw))


def test_volumes_are_rebuilt_within_their_room():
    points = dk.array(np.int32([[0, 0, 0], [20, 0, 0]]), dtype=dk.vec3i)
    status = dk.zeros(1, dtype=dk.uint32)
    volume = dk.Volume.allocate_by_tiles(points, 1.0, 1.5, rebuildable=True, max_tiles=2, status=status)
    assert (volume.get_rebuild_info(), status.numpy()[0]) == (("tiles", 1024, 2, 2, 2), 0)
    key = volume.id
    volume.rebuild(dk.array(np.int32([[-9, 0, 0]]), dtype=dk.vec3i), status)
    assert volume.get_active_stats() == (512, 1, 1, 1)
    assert volume.id == key
    assert volume.get_tiles().numpy()[0].tolist() == [-16, 0, 0]
    size = volume.array().size
    volume.rebuild(dk.array(np.int32([[0, 0, 0], [8, 0, 0], [16, 0, 0]]), dtype=dk.vec3i), status)
    assert status.numpy()[0] == dk.Volume.REBUILD_LEAF_CAPACITY_EXCEEDED | dk.Volume.REBUILD_VOXEL_CAPACITY_EXCEEDED
    assert volume.get_active_stats() == (512, 1, 1, 1)
    assert volume.array().size == size
    with pytest.raises(dk.LaunchError, match="cannot be built again"):
        dk.Volume.allocate([0, 0, 0], [1, 1, 1], 1.0).rebuild(points)
    with dk.record(), pytest.raises(dk.LaunchError, match="rebuilt while launches are recorded"):
        volume.rebuild(points)


@dk.kernel(mode="debug")
def checked(volume: dk.uint64, y: F):
    y[0] = dk.volume_lookup_f(volume, 0, 0, 0)


@dk.kernel
def moved(source: dk.uint64, goal: dk.uint64):
    i = dk.tid()
    dk.volume_store_f(goal, i, 0, 0, 2.0 * dk.volume_lookup_f(source, i, 0, 0))


def test_a_wrong_id_gives_zero_or_is_an_error():
    volume, y = dk.Volume.allocate([0, 0, 0], [1, 1, 1], 1.0, 3), dk.zeros(1)
    with pytest.raises(dk.LaunchError, match="the values of the Volume are of another type"):
        dk.launch(checked, 1, [volume.id, y])
    gone = dk.Volume.allocate([0, 0, 0], [1, 1, 1], 1.0, 3.0).id
    with pytest.raises(dk.LaunchError, match="that of no Volume, or of one that is gone"):
        dk.launch(checked, 1, [gone, y])
    own = dk.Volume.allocate([0, 0, 0], [1, 1, 1], 1.0, 3.0)
    with pytest.raises(dk.LaunchError, match="stores to a volume by one of its ids, and is given it by another"):
        dk.launch(moved, 1, [own.id, own.id])
    other = dk.Volume.allocate([0, 0, 0], [1, 1, 1], 1.0, 3.0)
    dk.launch(moved, 8, [own.id, other.id])
    assert other.values.numpy()[64] == 6.0
    for wrong, match in (
        (True, "the background of a Volume"),
        ("no", "the background of a Volume"),
        ((1.0, 2.0), "the background"),
    ):
        with pytest.raises(dk.LaunchError, match=match):
            dk.Volume.allocate([0, 0, 0], [1, 1, 1], 1.0, wrong)
    with pytest.raises(dk.LaunchError, match="have no gradient"):
        dk.Volume.allocate([0, 0, 0], [1, 1, 1], 1.0, None, requires_grad=True)


def test_recorded_launches_store_and_sample():
    volume, y = dk.Volume.allocate([0, 0, 0], [7, 0, 0], 1.0, 1.0), dk.Volume.allocate([0, 0, 0], [7, 0, 0], 1.0, 1.0)
    with dk.record() as sequence:
        dk.launch(moved, 8, [volume.id, y.id])
        dk.launch(moved, 8, [y.id, volume.id])
    for _ in range(3):
        sequence.replay()
    assert volume.values.numpy()[0] == 4.0 ** (3 if volume.values.numpy()[0] == 64.0 else 4)


def assets() -> list[Path]:
    folder = Path(require("warp").__file__).parent / "tests" / "assets"
    return sorted(folder.glob("*.nvdb"))


def test_files_of_warp_are_read_as_warp_reads_them(tmp_path: Path):
    wp = require("warp")
    wp.config.quiet = True
    for path in assets():
        theirs, ours = wp.Volume.load_from_nvdb(path.read_bytes(), device="cpu"), dk.Volume.load_from_nvdb(path)
        while theirs is not None:
            raw = theirs.array().numpy()
            np.testing.assert_array_equal(ours.array().numpy(), raw)
            np.testing.assert_array_equal(ours.get_tiles().numpy(), theirs.get_tiles().numpy())
            np.testing.assert_array_equal(ours.get_voxels().numpy(), theirs.get_voxels().numpy())
            assert ours.get_active_stats() == tuple(theirs.get_active_stats())
            a, b = ours.get_grid_info(), theirs.get_grid_info()
            assert (*a[:5], ours.get_voxel_size()) == (*b[:5], theirs.get_voxel_size())
            if not ours.is_index:
                # Written from the tables, it is what was read.
                ours.values.assign(ours.values.numpy())
                np.testing.assert_array_equal(ours.array().numpy(), raw)
            theirs, ours = theirs.load_next_grid(), ours.load_next_grid()


def test_grids_are_allocated_as_by_warp():
    wp = require("warp")
    wp.config.quiet = True
    points = np.random.default_rng(5).integers(-300, 5000, (40, 3)).astype(np.int32)
    given: list[tuple[Any, Any]] = [(1.5, 1.5), (7, 7), (None, None), (dw.vec3(1.0, 2.0, 3.0), wp.vec3(1.0, 2.0, 3.0))]
    for ours, theirs in given:
        a = dk.Volume.allocate_by_tiles(dk.array(points, dtype=dk.vec3i), (0.1, 0.2, 0.3), ours, (1.0, 2.0, 3.0))
        b = wp.Volume.allocate_by_tiles(
            wp.array(points, dtype=wp.vec3i, device="cpu"), (0.1, 0.2, 0.3), theirs, (1.0, 2.0, 3.0), device="cpu"
        )
        np.testing.assert_array_equal(a.array().numpy(), b.array().numpy())
    places = (points * 0.37).astype(np.float32)
    a = dk.Volume.allocate_by_voxels(dk.array(places, dtype=dk.vec3), 0.31, (1.0, 2.0, 3.0))
    b = wp.Volume.allocate_by_voxels(wp.array(places, dtype=wp.vec3, device="cpu"), 0.31, (1.0, 2.0, 3.0), device="cpu")
    np.testing.assert_array_equal(a.array().numpy(), b.array().numpy())


def test_volumes_of_vectors_are_stored_looked_up_and_sampled():
    volume = dk.Volume.allocate([0, 0, 0], [7, 7, 7], 1.0, dk.vec3(0.0))
    x = np.random.default_rng(3).normal(size=(8, 3)).astype(np.float32)
    found = [dk.zeros(8, dtype=dk.vec3) for _ in range(3)]
    dk.launch(vectors, 8, [volume.id, dk.array(x, dtype=dk.vec3)], found)
    for out in found:
        np.testing.assert_array_equal(out.numpy(), x)


def test_slopes_are_those_of_both_ways_to_sample():
    data = dense((8, 8, 8))
    volume = dk.Volume.load_from_numpy(data, bg_value=0.25)
    numbers = dk.Volume.load_from_numpy((100 * data).astype(np.int32), bg_value=-7)
    index = dk.Volume.allocate_by_voxels(volume.get_voxels(), 1.0)
    values = dk.array(data[tuple(index.get_voxels().numpy().T)])
    x = np.float32([[1.25, 2.5, 3.75], [5.5, 0.5, 4.125]])
    y, slopes, n = dk.zeros((2, 2)), dk.zeros(4, dtype=dk.vec3), dk.zeros(2, dtype=int)
    dk.launch(sloped, 2, [volume.id, index.id, numbers.id, dk.array(x, dtype=dk.vec3), values], [y, slopes, n])
    wide = x.astype(float)
    for k in range(2):
        np.testing.assert_allclose(y.numpy()[:, k], linear(data, wide, 0.25), rtol=1e-5)
        for axis in range(3):
            step = 1e-6 * np.eye(3)[axis]
            slope = (linear(data, wide + step, 0.25) - linear(data, wide - step, 0.25)) / 2e-6
            np.testing.assert_allclose(slopes.numpy()[k::2, axis], slope, rtol=1e-4, atol=1e-4)
    nearest = np.rint(wide + 1e-6).astype(int)
    np.testing.assert_array_equal(n.numpy(), (100 * data).astype(np.int32)[tuple(nearest.T)])


def test_directions_are_turned_back():
    matrix = np.float32([[0.5, 0.25, 0.0], [-0.25, 0.5, 0.125], [0.0, 0.0, 2.0]])
    volume = dk.Volume.allocate_by_voxels(dk.zeros(1, dtype=dk.vec3i), transform=dk.mat33(matrix))
    x = dk.array(np.float32([[1, 2, 3], [-4, 0.5, 0]]), dtype=dk.vec3)
    y = dk.zeros(2, dtype=dk.vec3)
    dk.launch(turned, 2, [volume.id, x], [y])
    np.testing.assert_allclose(y.numpy(), x.numpy(), rtol=1e-5)
