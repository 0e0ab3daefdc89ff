"""Derivatives of samples of volumes with respect to places and values, through stores, beside differences."""

import itertools
from typing import Any

import numpy as np
import pytest
from conftest import require
from support.fake_driver.driver import fake_cuda
from test_volumes import dense, linear

import diffkern as dk

V3, F, Z = dk.array(dtype=dk.vec3), dk.array(dtype=float), dk.array(dtype=dk.float64)
N = 200
BACKGROUND = 0.5


@dk.kernel
def sampled(volume: dk.uint64, x: V3, y: F):
    i = dk.tid()
    s = dk.volume_sample_f(volume, x[i], dk.Volume.LINEAR)
    y[i] = s * s


@dk.kernel
def sloped(volume: dk.uint64, x: V3, y: F):
    i = dk.tid()
    g = dk.vec3(0.0)
    s = dk.volume_sample_grad_f(volume, x[i], dk.Volume.LINEAR, g)
    y[i] = s + g[0] * g[1] + g[2]


@dk.kernel
def doubled(volume: dk.uint64, x: V3, y: Z):
    i = dk.tid()
    s = dk.volume_sample(volume, x[i], dk.Volume.LINEAR, dtype=dk.vec3d)
    y[i] = s[0] * s[1] + s[2]


@dk.kernel
def by_index(volume: dk.uint64, x: V3, values: Z, outside: Z, y: Z):
    i = dk.tid()
    y[i] = dk.volume_sample_index(volume, x[i], dk.Volume.LINEAR, values, outside[0])


@dk.kernel
def stored(volume: dk.uint64, p: F):
    i = dk.tid()
    dk.volume_store_f(volume, i, i, i, p[i] * p[i])


@dk.kernel
def squared(volume: dk.uint64):
    i = dk.tid()
    dk.volume_store_f(volume, i, i, i, dk.volume_lookup_f(volume, i, i, i) ** 2.0)


@dk.kernel
def moved(source: dk.uint64, goal: dk.uint64):
    i = dk.tid()
    dk.volume_store_f(goal, i, i, i, dk.sin(dk.volume_lookup_f(source, i, i, i)))


@dk.kernel
def doubled_ahead(volume: dk.uint64):
    i = dk.tid()
    dk.volume_store_f(volume, i + 1, 0, 0, 2.0 * dk.volume_lookup_f(volume, i, 0, 0))


@dk.kernel
def counted(volume: dk.uint64):
    i = dk.tid()
    dk.volume_store_f(volume, i, i, i, float(i))


@dk.kernel
def sines(volume: dk.uint64, y: F):
    i = dk.tid()
    y[i] = dk.sin(dk.volume_lookup_f(volume, i, i, i))


@dk.kernel
def mapped(volume: dk.uint64, x: V3, y: F):
    i = dk.tid()
    p = dk.volume_world_to_index(volume, x[i]) + dk.volume_index_to_world_dir(volume, x[i])
    y[i] = p[0] + 2.0 * p[1] + 3.0 * p[2]


@dk.kernel
def add_up(y: F, total: F):
    i = dk.tid()
    dk.atomic_add(total, 0, y[i])


def summed(y: dk.array) -> dk.array:
    total = dk.zeros(1, requires_grad=True)
    dk.launch(add_up, y.size, [y], [total])
    return total


def places(n: int = N, low: float = -2.0, high: float = 14.0) -> np.ndarray:
    rng = np.random.default_rng(7)
    return (rng.integers(low, high, (n, 3)) + rng.uniform(0.1, 0.9, (n, 3))).astype(np.float32)


def ones(y: dk.array) -> dict[dk.array, Any]:
    return {y: dk.ones_like(y)}


def numbered(volume: dk.Volume) -> dict[tuple[int, ...], int]:
    return {tuple(v): k for k, v in enumerate(volume.get_voxels().numpy().tolist())}


def slot(volume: dk.Volume, at: tuple[int, ...]) -> int:
    return numbered(volume)[at]


def test_derivatives_with_respect_to_places_and_values():
    data, at = dense((9, 9, 12)), places()
    volume = dk.Volume.load_from_numpy(data, bg_value=BACKGROUND, requires_grad=True)
    x, y = dk.array(at, dtype=dk.vec3, requires_grad=True), dk.zeros(N, requires_grad=True)
    with dk.Tape() as tape:
        dk.launch(sampled, N, [volume.id, x], [y])
    tape.backward(grads=ones(y))
    wide, h = at.astype(float), 1e-6

    def total(data: np.ndarray, x: np.ndarray, background: float = BACKGROUND) -> float:
        return float((linear(data, x, background) ** 2).sum())

    for k in range(12):
        for axis in range(3):
            e = np.zeros_like(wide)
            e[k, axis] = h
            slope = (total(data, wide + e) - total(data, wide - e)) / (2 * h)
            np.testing.assert_allclose(x.grad.numpy()[k, axis], slope, rtol=1e-3, atol=1e-3)
    # Each corner of a cell gets its weight; the last element is the background.
    low = np.floor(wide).astype(int)
    slots, expected = numbered(volume), np.zeros(volume.values.size)
    for corner in itertools.product((0, 1), repeat=3):
        weight = np.prod(np.where(corner, wide - low, 1.0 - (wide - low)), axis=1)
        where = [slots.get(v, -1) for v in map(tuple, (low + corner).tolist())]
        np.add.at(expected, where, 2 * linear(data, wide, BACKGROUND) * weight)
    np.testing.assert_allclose(volume.values.grad.numpy(), expected, rtol=1e-3, atol=1e-3)


def test_forward_mode_and_second_derivatives_of_places():
    data, at = dense((9, 9, 12)), places()
    volume = dk.Volume.load_from_numpy(data, bg_value=BACKGROUND)
    along = np.random.default_rng(9).normal(size=at.shape).astype(np.float32)
    x, v = dk.array(at, dtype=dk.vec3), dk.array(along, dtype=dk.vec3)

    def launched(x: dk.array, requires_grad: bool = True) -> dk.array:
        y = dk.zeros(N, requires_grad=requires_grad)
        dk.launch(sampled, N, [volume.id, x], [y])
        return y

    _, slopes = dk.jvp(lambda x: launched(x, False), [x], [v])
    wide, h = at.astype(float), 1e-4
    low, middle, high = (linear(data, wide + s * along, BACKGROUND) ** 2 for s in (-h, 0.0, h))
    np.testing.assert_allclose(slopes.numpy(), (high - low) / (2 * h), rtol=1e-3, atol=1e-3)
    second = (dk.hvp(lambda x: summed(launched(x)), [x], [v])[0].numpy() * along).sum()
    np.testing.assert_allclose(second, ((high + low - 2 * middle) / h**2).sum(), rtol=2e-3, atol=2e-2)


def test_slopes_are_differentiated():
    data, at = dense((9, 9, 12)), places()
    volume = dk.Volume.load_from_numpy(data, bg_value=BACKGROUND, requires_grad=True)
    x, y = dk.array(at, dtype=dk.vec3, requires_grad=True), dk.zeros(N, requires_grad=True)
    with dk.Tape() as tape:
        dk.launch(sloped, N, [volume.id, x], [y])
    tape.backward(grads=ones(y))

    def total(data: np.ndarray, x: np.ndarray) -> np.ndarray:
        steps = 1e-4 * np.eye(3)
        ends = [[linear(data, x + s * e, BACKGROUND) for s in (1, -1)] for e in steps]
        g = [(high - low) / 2e-4 for high, low in ends]
        return linear(data, x, BACKGROUND) + g[0] * g[1] + g[2]

    wide, h = at.astype(float), 1e-4
    for axis in range(3):
        e = h * np.eye(3)[axis]
        slope = (total(data, wide + e) - total(data, wide - e)) / (2 * h)
        np.testing.assert_allclose(x.grad.numpy()[:, axis], slope, rtol=5e-3, atol=5e-3)
    e = np.zeros(data.shape)
    e[3, 4, 5] = h
    slope = (total(data + e, wide) - total(data - e, wide)).sum() / (2 * h)
    np.testing.assert_allclose(volume.values.grad.numpy()[slot(volume, (3, 4, 5))], slope, rtol=1e-3, atol=1e-3)


def test_values_in_double_precision_and_arrays_by_index():
    rng, at = np.random.default_rng(2), places(N, 0, 7)
    volume = dk.Volume.allocate([0, 0, 0], [7, 7, 7], 1.0, dk.vec3d(0.0, 0.0, 0.0), requires_grad=True)
    start = rng.normal(size=volume.values.numpy().shape)
    x, y = dk.array(at, dtype=dk.vec3, requires_grad=True), dk.zeros(N, dtype=dk.float64, requires_grad=True)

    def run(values: np.ndarray, x: Any, y: dk.array) -> float:
        volume.values.assign(values)
        dk.launch(doubled, N, [volume.id, x], [y])
        return float(y.numpy().sum())

    volume.values.assign(start)
    with dk.Tape() as tape:
        dk.launch(doubled, N, [volume.id, x], [y])
    tape.backward(grads=ones(y))
    found = volume.values.grad.numpy().copy()
    for k, c in ((0, 0), (100, 1), (300, 2), (511, 1)):
        e = np.zeros_like(start)
        e[k, c] = 1e-6
        slope = (run(start + e, x, y) - run(start - e, x, y)) / 2e-6
        np.testing.assert_allclose(found[k, c], slope, rtol=1e-6, atol=1e-6)

    index = dk.Volume.allocate_by_voxels(dk.array(np.int32(rng.integers(0, 8, (300, 3))), dtype=dk.vec3i), 1.0)
    n = index.get_voxel_count()
    held, outside = (
        dk.array(rng.normal(size=n), requires_grad=True),
        dk.array([0.75], dtype=dk.float64, requires_grad=True),
    )
    y.zero_()
    with dk.Tape() as tape:
        dk.launch(by_index, N, [index.id, x, held, outside], [y])
    tape.backward(grads=ones(y))
    # It is linear in both.
    np.testing.assert_allclose(held.grad.numpy() @ held.numpy() + 0.75 * outside.grad.numpy()[0], y.numpy().sum())


def test_stores_between_launches_keep_what_the_tape_needs():
    data, at, p0 = dense((9, 9, 9)), places(N, 0, 4), np.float32([0.5, -1.0, 1.5, 2.0])

    def run(data: np.ndarray, p0: np.ndarray, tape: Any = None) -> tuple[Any, ...]:
        volume = dk.Volume.load_from_numpy(data.astype(np.float32), bg_value=BACKGROUND, requires_grad=True)
        before = volume.values
        x, p = dk.array(at, dtype=dk.vec3, requires_grad=True), dk.array(np.float32(p0), requires_grad=True)
        y, z = dk.zeros(N, requires_grad=True), dk.zeros(N, requires_grad=True)
        with tape or dk.Tape():
            dk.launch(sampled, N, [volume.id, x], [y])
            dk.launch(stored, 4, [volume.id, p])
            dk.launch(sampled, N, [volume.id, x], [z])
            dk.launch(stored, 2, [volume.id, p])
        return volume, before, x, p, y, z

    tape = dk.Tape()
    volume, before, _x, p, y, z = run(data, p0, tape)
    assert volume.values is not before
    where = [slot(volume, at) for at in ((1, 1, 1), (2, 3, 2), (0, 0, 0))]
    del volume
    tape.backward(grads={y: dk.ones_like(y), z: dk.ones_like(z)})
    own, wide = p0.astype(float), at.astype(float)

    def total(data: np.ndarray, p: np.ndarray) -> float:
        changed = data.astype(float).copy()
        changed[range(4), range(4), range(4)] = p**2
        return float((linear(data, wide, BACKGROUND) ** 2 + linear(changed, wide, BACKGROUND) ** 2).sum())

    for k in range(4):
        e = 1e-6 * np.eye(4)[k]
        np.testing.assert_allclose(
            p.grad.numpy()[k], (total(data, own + e) - total(data, own - e)) / 2e-6, rtol=1e-3, atol=1e-3
        )
    for k, place in zip(where, ((1, 1, 1), (2, 3, 2), (0, 0, 0)), strict=True):
        e = np.zeros(data.shape)
        e[place] = 1e-6
        slope = (total(data + e, own) - total(data - e, own)) / 2e-6
        np.testing.assert_allclose(before.grad.numpy()[k], slope, rtol=1e-3, atol=1e-3)


def test_volumes_are_computed_from_each_other():
    first = dk.Volume.load_from_numpy(dense((8, 8, 8)), bg_value=0.0, requires_grad=True)
    other = dk.Volume.allocate([0, 0, 0], [7, 7, 7], 1.0, 0.0)
    x, y = dk.array(np.float32([[1, 1, 1], [2, 2, 2]]), dtype=dk.vec3), dk.zeros(2, requires_grad=True)
    with dk.Tape() as tape:
        dk.launch(moved, 8, [first.id, other.id])
        dk.launch(sampled, 2, [other.id, x], [y])
    tape.backward(grads=ones(y))
    values = first.values.numpy()[[73, 146]]
    np.testing.assert_allclose(first.values.grad.numpy()[[73, 146]], 2 * np.sin(values) * np.cos(values), rtol=1e-5)
    assert np.count_nonzero(first.values.grad.numpy()) == 2


def test_stores_in_forward_mode_clear_tangents_and_their_cotangents():
    volume = dk.Volume.load_from_numpy(dense((8, 8, 8)), bg_value=0.0, requires_grad=True)
    before, diagonal = volume.values, [73 * k for k in range(8)]
    x = before.numpy()[diagonal].astype(float)
    y, z = (dk.zeros(8, requires_grad=True) for _ in range(2))
    with dk.Tape() as tape, dk.Tangents({volume.values: np.ones(before.size, np.float32)}) as tangents:
        dk.launch(sines, 8, [volume.id, y])
        slope = tangents[y]
        dk.launch(counted, 3, [volume.id])
        dk.launch(sines, 8, [volume.id, z])
        curve = tangents[z]
    assert volume.values is not before
    rest = np.arange(8) >= 3
    np.testing.assert_allclose(slope.numpy(), np.cos(x), rtol=1e-5)
    np.testing.assert_allclose(curve.numpy(), np.cos(x) * rest, rtol=1e-5, atol=1e-7)
    tape.backward(grads={a: dk.ones(8) for a in (y, slope, z, curve)})
    expected = (np.cos(x) - np.sin(x)) * (1 + rest)
    np.testing.assert_allclose(before.grad.numpy()[diagonal], expected, rtol=1e-4, atol=1e-6)


def test_stores_take_a_gradient_that_is_not_contiguous():
    volume = dk.Volume.allocate([0, 0, 0], [7, 7, 7], 1.0, 0.0)
    volume.values.requires_grad = True
    volume.values.grad = dk.zeros((volume.values.size, 2))[:, 0]
    p, y = dk.array(np.float32([1, 2, 3]), requires_grad=True), dk.zeros(8, requires_grad=True)
    with dk.Tape() as tape:
        dk.launch(stored, 3, [volume.id, p])
        dk.launch(sines, 8, [volume.id, y])
    tape.backward(grads=ones(y))
    q = p.numpy().astype(float)
    np.testing.assert_allclose(p.grad.numpy(), 2 * q * np.cos(q * q), rtol=1e-5)
    before = volume.values
    np.testing.assert_allclose(before.grad.numpy()[[73 * k for k in range(8)]], [0] * 3 + [1] * 5)
    # While the tape needs these values a store makes others, which have a gradient as well.
    dk.launch(counted, 3, [volume.id])
    assert volume.values is not before
    assert volume.values.requires_grad


def test_where_no_derivative_goes_there_is_an_error():
    volume = dk.Volume.load_from_numpy(dense((8, 8, 8)), bg_value=0.0, requires_grad=True)
    x, y = dk.array(places(8), dtype=dk.vec3, requires_grad=True), dk.zeros(8, requires_grad=True)
    before = volume.values.numpy()[73]
    with dk.Tape() as tape:
        dk.launch(squared, 8, [volume.id])
        dk.launch(sampled, 8, [volume.id, x], [y])
    assert volume.values.numpy()[73] == before**2
    with pytest.raises(dk.AutodiffError, match=r"(?s)a value of a volume that the kernel also stores to.*help: "):
        tape.backward(grads=ones(y))
    # A thread may read what another one has stored.
    with dk.Tape() as tape:
        dk.launch(doubled_ahead, 7, [volume.id])
        dk.launch(sampled, 8, [volume.id, x], [y])
    with pytest.raises(dk.AutodiffError, match="a value of a volume that the kernel also stores to"):
        tape.backward(grads=ones(y))
    plain, p = dk.Volume.allocate([0, 0, 0], [7, 7, 7], 1.0, 0.0), dk.ones(4)
    with pytest.raises(dk.AutodiffError, match="a value with a tangent is stored to a volume"):
        dk.jvp(lambda p: dk.launch(stored, 4, [plain.id, p]) or p, [p], [dk.ones_like(p)])
    p.requires_grad = True
    with pytest.raises(dk.LaunchError, match="stores to a volume by its id, and outside of a tape no derivative"):
        dk.launch(stored, 4, [plain.id, p], adjoint=True)
    with dk.Tape() as tape:
        dk.launch(sampled, 8, [volume.id, x], [y])
    volume.values.fill_(0.0)
    with pytest.raises(dk.LaunchError, match=r"(?s)the values of a volume, was changed after launch"):
        tape.backward(grads=ones(y))


def test_maps_have_the_derivative_of_any_matrix():
    matrix = np.float32([[0.5, 0.25, 0.0], [-0.25, 0.5, 0.125], [0.0, 0.0, 2.0]])
    volume = dk.Volume.allocate_by_voxels(dk.zeros(1, dtype=dk.vec3i), transform=dk.mat33(matrix))
    x, y = dk.array(places(3), dtype=dk.vec3, requires_grad=True), dk.zeros(3, requires_grad=True)
    with dk.Tape() as tape:
        dk.launch(mapped, 3, [volume.id, x], [y])
    tape.backward(grads=ones(y))
    slope = (np.linalg.inv(matrix) + matrix).T @ [1, 2, 3]
    np.testing.assert_allclose(x.grad.numpy(), np.tile(slope, (3, 1)), rtol=1e-5)


def test_a_gpu_has_the_samples_stores_and_gradients_of_the_cpu():
    data, at = dense((8, 8, 12)), places(32)

    def results(device: str) -> list[np.ndarray]:
        volume = dk.Volume.load_from_numpy(data, bg_value=BACKGROUND, requires_grad=True, device=device)
        before = volume.values
        x = dk.array(at, dtype=dk.vec3, requires_grad=True, device=device)
        p = dk.array(np.float32([1, 2, 3]), requires_grad=True, device=device)
        y, z = (dk.zeros(32, requires_grad=True, device=device) for _ in range(2))
        with dk.Tape() as tape:
            dk.launch(sampled, 32, [volume.id, x], [y], device=device)
            dk.launch(stored, 3, [volume.id, p], device=device)
            dk.launch(sloped, 32, [volume.id, x], [z], device=device)
        tape.backward(grads={y: dk.ones(32, device=device), z: dk.ones(32, device=device)})
        return [held.numpy() for held in (y, z, x.grad, p.grad, before.grad)]

    wanted = results("cpu")
    with fake_cuda(run="ptx"):
        found = results("cuda:0")
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)


def test_gradients_are_those_of_warp():
    wp = require("warp")
    wp.config.quiet = True

    @wp.kernel
    def theirs(volume: wp.uint64, x: wp.array(dtype=wp.vec3), y: wp.array(dtype=float)):
        i = wp.tid()
        g = wp.vec3(0.0, 0.0, 0.0)
        s = wp.volume_sample_grad_f(volume, x[i], wp.Volume.LINEAR, g)
        y[i] = s + g[0] * g[1] + g[2]

    data, at = dense((9, 9, 12)), places(2000)
    found = []
    own = dk.Volume.load_from_numpy(data, bg_value=BACKGROUND, device="cpu").array().numpy()
    for module, kernel in ((wp, theirs), (dk, sloped)):
        volume = module.Volume(module.array(own, device="cpu"))
        x = module.array(at, dtype=module.vec3, requires_grad=True, device="cpu")
        y = module.zeros(2000, dtype=float, requires_grad=True, device="cpu")
        tape = module.Tape()
        with tape:
            module.launch(kernel, 2000, inputs=[volume.id, x], outputs=[y], device="cpu")
        tape.backward(grads={y: module.array(np.ones(2000, np.float32), dtype=float, device="cpu")})
        found.append((y.numpy(), x.grad.numpy()))
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)
