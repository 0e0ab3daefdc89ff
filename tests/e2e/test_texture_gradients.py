"""Derivatives of samples of textures with respect to coordinates, levels and texels: beside formulas in float64."""

from typing import Any

import numpy as np
import pytest
from conftest import require
from support.fake_driver.driver import fake_cuda
from test_textures import MODES, SIZES, TEXTURES, expected

import diffkern as dk

N = 60
G = "cuda:0"


@dk.kernel
def line(t: dk.Texture1D, x: dk.array2d(dtype=float), y: dk.array2d(dtype=float)):
    i = dk.tid()
    s = dk.texture_sample(t, x[i, 0], dtype=dk.vec2f)
    y[i, 0], y[i, 1] = s[0] * s[1], s[0]


@dk.kernel
def plane(t: dk.Texture2D, x: dk.array2d(dtype=float), y: dk.array2d(dtype=float)):
    i = dk.tid()
    s = dk.texture_sample(t, x[i, 0], x[i, 1], dtype=dk.vec2f)
    y[i, 0], y[i, 1] = s[0] * s[1], s[0]


@dk.kernel
def space(t: dk.Texture3D, x: dk.array2d(dtype=float), y: dk.array2d(dtype=float)):
    i = dk.tid()
    s = dk.texture_sample(t, dk.vec3(x[i, 0], x[i, 1], x[i, 2]), dtype=dk.vec2f)
    y[i, 0], y[i, 1] = s[0] * s[1], s[0]


KERNELS = (line, plane, space)


def case(dims: int, k: int, normalized: bool) -> tuple[np.ndarray, np.ndarray, tuple[int, ...]]:
    """Texels, coordinates away from kinks, and address modes."""
    rng = np.random.default_rng(10 * dims + k)
    data = rng.normal(size=(*SIZES[dims][::-1], 2)).astype(np.float32)
    size = np.array(SIZES[dims])
    texels = rng.integers(-size, 2 * size, (N, dims)) + rng.uniform(0.1, 0.9, (N, dims)) - 0.5
    x = (texels / size if normalized else texels).astype(np.float32)
    return data, x, tuple(MODES[(k + axis) % 4] for axis in range(dims))


def measured(data: np.ndarray, x: np.ndarray, modes: tuple[int, ...], normalized: bool) -> np.ndarray:
    s = expected(data, x, True, modes, normalized)
    return np.stack([s[:, 0] * s[:, 1], s[:, 0]], axis=1)


def launched(dims: int, t: dk.Texture, x: dk.array, requires_grad: bool = True) -> dk.array:
    y = dk.zeros((N, 2), requires_grad=requires_grad)
    dk.launch(KERNELS[dims - 1], N, inputs=[t, x], outputs=[y])
    return y


@pytest.mark.parametrize("normalized", [True, False])
@pytest.mark.parametrize("dims", [1, 2, 3])
def test_derivatives_with_respect_to_coordinates_and_texels(dims, normalized):
    for k in range(4):
        data, at, modes = case(dims, k, normalized)
        rng = np.random.default_rng(k)
        x, weights = dk.array(at, requires_grad=True), rng.normal(size=(N, 2)).astype(np.float32)
        t = TEXTURES[dims - 1](data, address_mode=modes, normalized_coords=normalized, requires_grad=True)
        with dk.Tape() as tape:
            y = launched(dims, t, x)
        tape.backward(grads={y: dk.array(weights)})
        wide, data_wide = at.astype(float), data.astype(float)
        for gradient, which in ((x.grad, 0), (t.texels.grad, 1)):
            along = rng.normal(size=gradient.shape)
            sides = []
            for step in (1e-6, -1e-6):
                moved = wide + step * along if which == 0 else wide, data_wide + step * along if which else data_wide
                sides.append((measured(moved[1], moved[0], modes, normalized) * weights).sum())
            slope = (sides[0] - sides[1]) / 2e-6
            np.testing.assert_allclose((gradient.numpy() * along).sum(), slope, rtol=2e-4, atol=2e-3)


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_forward_mode_and_second_derivatives_of_coordinates(dims):
    for k in range(4):
        data, at, modes = case(dims, k, False)
        t = TEXTURES[dims - 1](data, address_mode=modes, normalized_coords=False)
        rng = np.random.default_rng(k + 20)
        along = rng.normal(size=at.shape).astype(np.float32)
        x, v = dk.array(at), dk.array(along)
        _, slopes = dk.jvp(lambda x, t=t: launched(dims, t, x, False), [x], [v])
        wide, h = at.astype(float), 1e-4
        low, middle, high = (measured(data.astype(float), wide + s * along, modes, False) for s in (-h, 0.0, h))
        np.testing.assert_allclose(slopes.numpy(), (high - low) / (2 * h), rtol=1e-3, atol=1e-3)

        def total(x: dk.array, t: dk.Texture = t) -> dk.array:
            return summed(launched(dims, t, x))

        curved = (dk.hvp(total, [x], [v])[0].numpy() * along).sum()
        np.testing.assert_allclose(curved, ((high + low - 2 * middle) / h**2).sum(), rtol=2e-3, atol=2e-2)


@dk.kernel
def add_up(y: dk.array2d(dtype=float), total: dk.array(dtype=float)):
    i = dk.tid()
    dk.atomic_add(total, 0, y[i, 0] + y[i, 1])


def summed(y: dk.array) -> dk.array:
    total = dk.zeros(1, requires_grad=True)
    dk.launch(add_up, N, inputs=[y, total])
    return total


@dk.kernel
def of_level(t: dk.Texture2D, x: dk.array2d(dtype=float), lod: dk.array(dtype=float), y: dk.array(dtype=float)):
    i = dk.tid()
    y[i] = dk.texture_sample(t, x[i, 0], x[i, 1], dtype=float, lod=lod[i])


def test_levels_have_a_derivative_and_so_have_the_texels_behind_them():
    rng = np.random.default_rng(4)
    data, at = rng.normal(size=(6, 8)).astype(np.float32), rng.uniform(0.1, 0.9, (N, 2)).astype(np.float32)
    levels = rng.uniform(-0.5, 3.5, N).astype(np.float32)
    levels[:3] = 0.0, 1.0, 3.0
    source = dk.array(data, requires_grad=True)
    x, lod = dk.array(at, requires_grad=True), dk.array(levels, requires_grad=True)
    y = dk.zeros(N, requires_grad=True)
    with dk.Tape() as tape:
        t = dk.Texture2D(source, num_mip_levels=0)
        dk.launch(of_level, N, inputs=[t, x, lod], outputs=[y])
    assert t.num_mip_levels == 4
    tape.backward(grads={y: dk.ones(N)})

    def value(data: np.ndarray, x: np.ndarray, lod: np.ndarray) -> float:
        mips = [data[..., None].astype(float)]
        for _ in range(3):
            m = mips[-1]
            m = m[: m.shape[0] // 2 * 2] if m.shape[0] > 1 else np.repeat(m, 2, 0)
            m = m[:, : m.shape[1] // 2 * 2] if m.shape[1] > 1 else np.repeat(m, 2, 1)
            mips.append((m[::2, ::2] + m[1::2, ::2] + m[::2, 1::2] + m[1::2, 1::2]) / 4)
        samples = np.stack([expected(m, x, True, (1, 1), True)[:, 0] for m in mips])
        lod = np.clip(lod, 0, 3)
        below = np.minimum(np.floor(lod).astype(int), 2)
        part = lod - below
        return float(((1 - part) * samples[below, range(N)] + part * samples[below + 1, range(N)]).sum())

    np.testing.assert_allclose(y.numpy().sum(), value(data, at, levels), rtol=1e-5)
    given = [a.astype(float) for a in (data, at, levels)]
    for which, gradient in enumerate((source.grad, x.grad, lod.grad)):
        along = rng.normal(size=gradient.shape)
        if which == 2:
            # At a whole level the derivative is that towards higher ones, and zero at the last one.
            np.testing.assert_allclose(gradient.numpy()[2], 0.0)
            sides = [value(data, at, given[2] + step * (np.arange(N) == 1)) for step in (1e-6, 0.0)]
            np.testing.assert_allclose(gradient.numpy()[1], (sides[0] - sides[1]) / 1e-6, rtol=1e-3, atol=1e-4)
            along[:3] = 0.0
        moved = [[a + s * along if k == which else a for k, a in enumerate(given)] for s in (1e-7, -1e-7)]
        slope = (value(*moved[0]) - value(*moved[1])) / 2e-7
        np.testing.assert_allclose((gradient.numpy() * along).sum(), slope, rtol=1e-3, atol=1e-3)


@dk.kernel
def stretched(by: dk.array(dtype=float), a: dk.array2d(dtype=float), b: dk.array2d(dtype=Any)):
    i, j = dk.tid()
    b[i, j] = type(b[i, j])(a[i, j] * by[0])


@pytest.mark.parametrize(("is_new", "levels", "dtype"), [(True, 1, float), (True, 2, dk.float16), (False, 1, float)])
def test_gradients_go_on_to_what_the_texels_were_computed_from(is_new, levels, dtype):
    rng = np.random.default_rng(14)
    data, at = rng.normal(size=(4, 5)).astype(np.float32), rng.uniform(0, 1, (N, 2)).astype(np.float32)
    by, x, lod = dk.array(np.float32([1.5]), requires_grad=True), dk.array(at), dk.full(N, 0.5)
    # Neither the array in between nor the texture asks for a gradient of its own.
    moved, y = dk.zeros((4, 5), dtype=dtype), dk.zeros(N, requires_grad=True)
    t = dk.Texture2D(np.zeros((4, 5), np.float32))
    with dk.Tape() as tape:
        dk.launch(stretched, (4, 5), inputs=[by, dk.array(data), moved])
        if is_new:
            t = dk.Texture2D(moved, num_mip_levels=levels)
        else:
            t.copy_from(moved)
        dk.launch(of_level, N, inputs=[t, x, lod], outputs=[y])
    tape.backward(grads={y: dk.ones(N)})
    assert not t.texels.requires_grad
    np.testing.assert_allclose(by.grad.numpy()[0], y.numpy().sum() / 1.5, rtol=1e-5 if dtype is float else 1e-2)


def test_an_optimizer_changes_the_texels_in_place():
    rng = np.random.default_rng(9)
    wanted = rng.normal(size=(4, 5)).astype(np.float32)
    at = dk.array(rng.uniform(0, 1, (N, 2)).astype(np.float32))
    target, y, lod = dk.zeros(N), dk.zeros(N, requires_grad=True), dk.full(N, -1.0)
    dk.launch(of_level, N, inputs=[dk.Texture2D(wanted), at, lod], outputs=[target])
    t = dk.Texture2D(np.zeros((4, 5), np.float32), requires_grad=True)
    losses = []
    for _ in range(300):
        with dk.Tape() as tape:
            dk.launch(of_level, N, inputs=[t, at, lod], outputs=[y])
        off = y.numpy() - target.numpy()
        tape.backward(grads={y: dk.array(off)})
        t.texels.assign(t.texels.numpy() - 0.3 * t.texels.grad.numpy())
        t.texels.grad.zero_()
        losses.append(float((off**2).sum()))
    assert losses[-1] < 1e-3 * losses[0]


def test_a_copy_on_a_tape_leaves_earlier_launches_their_texels():
    data, at, modes = case(2, 1, True)
    x = dk.array(at, requires_grad=True)
    t = dk.Texture2D(data, address_mode=modes, requires_grad=True)
    first, source = t.texels, dk.array(data[::-1].copy(), requires_grad=True)
    with dk.Tape() as tape:
        y = launched(2, t, x)
        t.copy_from(source)
        z = launched(2, t, x)
    tape.backward(grads={y: dk.ones((N, 2)), z: dk.full((N, 2), 2.0)})
    assert t.texels is not first
    for held, values, weight in ((first, data, 1.0), (source, data[::-1], 2.0)):
        alone = dk.Texture2D(values.copy(), address_mode=modes, requires_grad=True)
        with dk.Tape() as other:
            w = launched(2, alone, dk.array(at))
        other.backward(grads={w: dk.full((N, 2), weight)})
        np.testing.assert_allclose(held.grad.numpy(), alone.texels.grad.numpy(), rtol=1e-4, atol=1e-4)


def test_where_no_derivative_goes_to_the_texels_there_is_an_error():
    data, at, modes = case(2, 0, True)
    x = dk.array(at, requires_grad=True)
    t = dk.Texture2D(data, address_mode=modes, requires_grad=True)

    def refused(match: str, call: Any) -> None:
        with pytest.raises((dk.LaunchError, dk.AutodiffError), match=match):
            call()

    def of_texels(texels: dk.array) -> dk.array:
        return summed(launched(2, dk.Texture2D(texels), x))

    texels = dk.array(data)
    twice = "what a kernel finds by an id is differentiated twice in forward mode"
    refused(twice, lambda: dk.jvp(lambda u: dk.jvp(of_texels, [u], [texels])[1], [texels], [texels]))
    for outer in (dk.grad, lambda f: lambda u: dk.jvp(f, [u], [texels])):
        refused(
            "in a gradient that is differentiated", lambda o=outer: o(lambda u: dk.grad(of_texels)(u).sum())(texels)
        )
    with dk.Tape() as tape:
        y = launched(2, t, x)
    t.texels.fill_(0.0)
    refused(
        r"(?s)the texels of a texture, was changed after launch.*by copy_from\(\)",
        lambda: tape.backward(grads={y: dk.ones_like(y)}),
    )

    @dk.kernel(deterministic=True)
    def ordered(t: dk.Texture2D, y: dk.array2d(dtype=float)):
        y[dk.tid(), 0] = dk.texture_sample(t, 0.5, 0.5, dtype=float)

    with dk.Tape() as tape:
        dk.launch(ordered, 1, inputs=[t, y])
    refused("texels of a texture is added up in the order", lambda: tape.backward(grads={y: dk.ones_like(y)}))


def test_gradients_of_coordinates_are_those_of_warp():
    wp = require("warp")
    wp.config.quiet = True

    @wp.kernel
    def sampled(t: wp.Texture2D, x: wp.array2d(dtype=float), lod: wp.array(dtype=float), y: wp.array(dtype=float)):
        i = wp.tid()
        y[i] = wp.texture_sample(t, x[i, 0], x[i, 1], dtype=float, lod=lod[i])

    rng = np.random.default_rng(12)
    for k, mode in enumerate(MODES):
        data = (rng.normal(size=(4, 8)) + (1e8 if k == 1 else 0.0)).astype(np.float32)
        at = rng.uniform(-1, 2, (N, 2)).astype(np.float32)
        levels = rng.uniform(0, 3, N).astype(np.float32)
        found = []
        for module, kernel in ((wp, sampled), (dk, of_level)):
            t = module.Texture2D(data, address_mode=int(mode), num_mip_levels=3, device="cpu")
            x, lod = (module.array(a, dtype=float, requires_grad=True, device="cpu") for a in (at, levels))
            y = module.zeros(N, dtype=float, requires_grad=True, device="cpu")
            tape = module.Tape()
            with tape:
                module.launch(kernel, N, inputs=[t, x, lod], outputs=[y], device="cpu")
            tape.backward(grads={y: module.array(np.ones(N, np.float32), dtype=float, device="cpu")})
            found.append((x.grad.numpy(), lod.grad.numpy()))
        size = np.abs(data - data.mean()).max() if k == 1 else 1.0
        for a, b in zip(*found, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=2e-4 * size)


@pytest.mark.parametrize("linear", [True, False])
@pytest.mark.parametrize("dims", [1, 2, 3])
def test_texels_in_forward_mode_and_second_order(dims, linear):
    """Texels and coordinates move together; references are differences in double precision."""
    for k in range(4):
        data, at, modes = case(dims, k, k % 2 == 0)
        rng = np.random.default_rng(k + 40)
        moves = [rng.normal(size=held.shape).astype(np.float32) for held in (data, at)]
        moves[1] *= 0.1 if k % 2 == 0 else 1.0
        options = {"address_mode": modes, "normalized_coords": k % 2 == 0, "filter_mode": int(linear)}

        def results(texels: dk.array, x: dk.array, options: Any = options) -> dk.array:
            return launched(dims, TEXTURES[dims - 1](texels, **options), x, False)

        def value(
            step: float, data: Any = data, at: Any = at, modes: Any = modes, moves: Any = moves, k: int = k
        ) -> Any:
            moved = [a.astype(float) + step * b for a, b in zip((data, at), moves, strict=True)]
            s = expected(moved[0], moved[1], linear, modes, k % 2 == 0)
            return np.stack([s[:, 0] * s[:, 1], s[:, 0]], axis=1)

        given, along = [dk.array(data), dk.array(at)], [dk.array(move) for move in moves]
        h = 1e-5
        _, tangent = dk.jvp(results, given, along)
        np.testing.assert_allclose(tangent.numpy(), (value(h) - value(-h)) / (2 * h), rtol=2e-3, atol=2e-3)
        products = dk.hvp(lambda texels, x: summed(results(texels, x)), given, along)
        curved = sum((held.numpy() * move).sum() for held, move in zip(products, moves, strict=True))
        wanted = (value(1e-4) + value(-1e-4) - 2 * value(0.0)).sum() / 1e-8
        np.testing.assert_allclose(curved, wanted, rtol=2e-3, atol=2e-2)


def test_texels_of_mip_levels_in_forward_mode_and_second_order():
    """A sample is linear in the texels: its derivative along others is the sample of these."""
    rng = np.random.default_rng(14)
    data, move = (rng.normal(size=(6, 8)).astype(np.float32) for _ in range(2))
    x, lod = (
        dk.array(rng.uniform(*ends, shape).astype(np.float32)) for ends, shape in (((-1, 2), (N, 2)), ((-0.5, 3.5), N))
    )

    def squares(texels: dk.array) -> dk.array:
        t, y = dk.Texture2D(texels, num_mip_levels=0, address_mode=2), dk.zeros(N)
        dk.launch(of_level, N, inputs=[t, x, lod], outputs=[y])
        return y * y

    y, t_y = dk.jvp(squares, [dk.array(data)], [dk.array(move)])
    samples = []
    for texels in (data, move):
        t, s = dk.Texture2D(texels, num_mip_levels=0, address_mode=2), dk.zeros(N)
        dk.launch(of_level, N, inputs=[t, x, lod], outputs=[s])
        samples.append(s.numpy())
    np.testing.assert_allclose(y.numpy(), samples[0] ** 2, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(t_y.numpy(), 2.0 * samples[0] * samples[1], rtol=1e-4, atol=1e-5)
    (product,) = dk.hvp(lambda u: squares(u).sum(), [dk.array(data)], [dk.array(move)])
    np.testing.assert_allclose((product.numpy() * move).sum(), 2.0 * (samples[1] ** 2).sum(), rtol=1e-4)
    # Without a tangent of their own texels are constant, also where they have a gradient elsewhere.
    t, s = dk.Texture2D(data, requires_grad=True), dk.zeros(N)

    def by_level(lod: dk.array) -> dk.array:
        y = dk.zeros(N)
        dk.launch(of_level, N, inputs=[t, x, lod], outputs=[y])
        return y

    assert not dk.jvp(by_level, [lod], [dk.ones(N)])[1].numpy().any()
    words = t._resource._values.copy()
    assert not words[8::2].any()  # nothing is left of any derivative


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_a_gpu_has_the_samples_and_gradients_of_the_cpu(dims):
    data, at, modes = case(dims, dims, True)

    def results(device: str) -> list[np.ndarray]:
        t = TEXTURES[dims - 1](data, address_mode=modes, requires_grad=True, device=device)
        x = dk.array(at[:32], requires_grad=True, device=device)
        y = dk.zeros((32, 2), requires_grad=True, device=device)
        with dk.Tape() as tape:
            dk.launch(KERNELS[dims - 1], 32, inputs=[t, x], outputs=[y], device=device)
        tape.backward(grads={y: dk.ones((32, 2), device=device)})
        found = [y, x.grad, t.texels.grad]
        if dims == 2:
            given = [dk.array(data, device=device), dk.array(at[:32], device=device)]

            def squares(texels: dk.array, x: dk.array) -> dk.array:
                y = dk.zeros((32, 2), device=device)
                t = TEXTURES[dims - 1](texels, address_mode=modes)
                dk.launch(KERNELS[dims - 1], 32, inputs=[t, x], outputs=[y], device=device)
                return (y * y).sum()

            found += [dk.jvp(squares, given, given)[1], *dk.hvp(squares, given, given)]
        return [held.numpy() for held in found]

    wanted = results("cpu")
    with fake_cuda(run="ptx"):
        found = results(G)
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)
