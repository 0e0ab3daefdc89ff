"""Textures: values beside Warp's and NumPy's, the classes on the host, structs and arrays of textures."""

import itertools

import numpy as np
import pytest
from conftest import require

import diffkern as dk
import diffkern.warp as dwp

SIZES = {1: (7,), 2: (5, 4), 3: (4, 3, 5)}
LINEAR, CLOSEST = dk.TextureFilterMode.LINEAR, dk.TextureFilterMode.CLOSEST
MODES = tuple(dk.TextureAddressMode)
TYPES = (np.float32, np.float16, np.uint8, np.uint16, np.int8, np.int16, np.int32, np.uint32)
TEXTURES = (dk.Texture1D, dk.Texture2D, dk.Texture3D)


@dk.kernel
def along_one(t: dk.Texture1D, x: dk.array2d(dtype=float), lod: dk.array(dtype=float), y: dk.array2d(dtype=float)):
    i = dk.tid()
    y[i, 0] = dk.texture_sample(t, x[i, 0], dtype=float, lod=lod[i])
    c = dk.texture_sample(t, x[i, 0], dk.vec4f, lod[i])
    for k in range(4):
        y[i, 1 + k] = c[k]


@dk.kernel
def along_two(t: dk.Texture2D, x: dk.array2d(dtype=float), lod: dk.array(dtype=float), y: dk.array2d(dtype=float)):
    i = dk.tid()
    u = dk.vec2(x[i, 0], x[i, 1])
    y[i, 0] = dk.texture_sample(t, x[i, 0], x[i, 1], dtype=float, lod=lod[i])
    c = dk.texture_sample(t, u, dtype=dk.vec4f, lod=lod[i])
    for k in range(4):
        y[i, 1 + k] = c[k]


@dk.kernel
def along_three(t: dk.Texture3D, x: dk.array2d(dtype=float), lod: dk.array(dtype=float), y: dk.array2d(dtype=float)):
    i = dk.tid()
    u = dk.vec3(x[i, 0], x[i, 1], x[i, 2])
    y[i, 0] = dk.texture_sample(t, x[i, 0], x[i, 1], x[i, 2], dtype=float, lod=lod[i])
    c = dk.texture_sample(t, u, dtype=dk.vec4f, lod=lod[i])
    for k in range(4):
        y[i, 1 + k] = c[k]


KERNELS = (along_one, along_two, along_three)


def numbers(rng: np.random.Generator, shape: tuple[int, ...], dtype: type) -> np.ndarray:
    if np.dtype(dtype).kind == "f":
        return rng.normal(size=shape).astype(dtype)
    return rng.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, shape, dtype, endpoint=True)


def coordinates(rng: np.random.Generator, size: tuple[int, ...], normalized: bool, count: int) -> np.ndarray:
    """Coordinates inside and far outside, on centres and borders of texels, infinite and NaN."""
    x = rng.uniform(-1.5, 2.5, (count, len(size)))
    few = count // 5
    x[:few] = rng.uniform(0, 1, (few, len(size)))
    x[few : 2 * few] = rng.integers(-8, 12, (few, len(size))) / (2 * np.array(size))
    x[2 * few : 3 * few] = rng.uniform(-1e5, 1e5, (few, len(size)))
    x = (x if normalized else x * size).astype(np.float32)
    special = np.float32([np.nan, np.inf, -np.inf, 3e38, -3e38, 0, -0.0, 1, -1, 2**31, -(2.0**31), 2**24])
    for axis in range(len(size)):
        x[-len(special) * (axis + 1) : count - len(special) * axis, axis] = special
    return x


def channels_of(dims: int, t: dk.Texture, x: np.ndarray, lod: np.ndarray) -> np.ndarray:
    y = dk.zeros((len(x), 5), device=t.device)
    given = [dk.array(a, dtype=float, device=t.device) for a in (x, lod)]
    dk.launch(KERNELS[dims - 1], len(x), inputs=[t, *given], outputs=[y], device=t.device)
    return y.numpy()


# -- the oracle --------------------------------------------------------------------------------------------------------


def texel_of(i: np.ndarray, n: int, mode: int) -> tuple[np.ndarray, np.ndarray]:
    """The texel that an index means, and whether there is one."""
    there = np.ones(i.shape, bool)
    if mode == dk.TextureAddressMode.WRAP:
        i = i % n
    elif mode == dk.TextureAddressMode.MIRROR:
        i = i % (2 * n)
        i = np.where(i < n, i, 2 * n - 1 - i)
    elif mode == dk.TextureAddressMode.BORDER:
        there = (i >= 0) & (i < n)
    return np.clip(i, 0, n - 1), there


def expected(data: np.ndarray, x: np.ndarray, linear: bool, modes: tuple[int, ...], normalized: bool) -> np.ndarray:
    """Samples of numbers of shape (..., height, width, channels), in float64."""
    dims = x.shape[1]
    out = np.zeros((len(x), data.shape[-1]))
    size = data.shape[:dims][::-1]
    p = x.astype(float) * (np.array(size) if normalized else 1) - (0.5 if linear else 0.0)
    cell = np.floor(p)
    for corner in itertools.product((0, 1), repeat=dims) if linear else [(0,) * dims]:
        weight, place = np.ones(len(x)), []
        for axis, bit in enumerate(corner):
            t = p[:, axis] - cell[:, axis] if linear else np.zeros(len(x))
            i, there = texel_of(cell[:, axis].astype(np.int64) + bit, size[axis], modes[axis])
            weight = weight * (t if bit else 1 - t) * there
            place.append(i)
        out += weight[:, None] * data[tuple(place[::-1])]
    return out


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_samples_are_those_of_numpy(dims):
    rng = np.random.default_rng(dims)
    for k, (linear, channels) in enumerate(itertools.product((True, False), (1, 2, 4))):
        data = rng.normal(size=(*SIZES[dims][::-1], channels)).astype(np.float32)
        for normalized in (True, False):
            modes = tuple(MODES[(k + axis + 2 * normalized) % 4] for axis in range(dims))
            x = rng.uniform(-0.9, 1.9, (400, dims)) * (1 if normalized else np.array(SIZES[dims]))
            # The texels of coordinates just at a border are decided by rounding.
            texels = x * (np.array(SIZES[dims]) if normalized else 1)
            x = x[np.all(np.abs(texels - np.round(texels)) > 1e-4, axis=1)].astype(np.float32)
            t = TEXTURES[dims - 1](
                data, filter_mode=LINEAR if linear else CLOSEST, address_mode=modes, normalized_coords=normalized
            )
            found = channels_of(dims, t, x, np.full(len(x), -1, np.float32))
            wanted = expected(data, x, linear, modes, normalized)
            wanted = np.concatenate([wanted, np.zeros((len(x), 4 - channels))], axis=1)
            np.testing.assert_allclose(found[:, 1:], wanted, rtol=1e-5, atol=2e-5)
            np.testing.assert_array_equal(found[:, 0], found[:, 1])


# -- beside Warp -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def theirs():
    """Kernels of Warp that sample a number, by the number of axes."""
    wp = require("warp")
    wp.config.quiet = True

    @wp.kernel
    def one(t: wp.Texture1D, x: wp.array2d(dtype=float), lod: wp.array(dtype=float), y: wp.array(dtype=float)):
        i = wp.tid()
        y[i] = wp.texture_sample(t, x[i, 0], dtype=float, lod=lod[i])

    @wp.kernel
    def two(t: wp.Texture2D, x: wp.array2d(dtype=float), lod: wp.array(dtype=float), y: wp.array(dtype=float)):
        i = wp.tid()
        y[i] = wp.texture_sample(t, x[i, 0], x[i, 1], dtype=float, lod=lod[i])

    @wp.kernel
    def three(t: wp.Texture3D, x: wp.array2d(dtype=float), lod: wp.array(dtype=float), y: wp.array(dtype=float)):
        i = wp.tid()
        y[i] = wp.texture_sample(t, x[i, 0], x[i, 1], x[i, 2], dtype=float, lod=lod[i])

    return wp, (one, two, three)


def is_tie(x: np.ndarray, size: tuple[int, ...], normalized: bool, levels: int) -> np.ndarray:
    """Whether coordinates are so near to a border of texels that rounding decides."""
    found = np.zeros(len(x), bool)
    for level in range(levels):
        n = np.maximum(np.array(size) >> level, 1)
        p = np.nan_to_num(x.astype(float), posinf=0, neginf=0) * (n if normalized else n / np.array(size))
        found |= np.any(np.abs(p - np.round(p)) < 1e-6 * np.maximum(np.abs(p), 1), axis=1)
    return found


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_samples_are_those_of_warp(theirs, dims):
    wp, kernels = theirs
    rng = np.random.default_rng(10 + dims)
    count = 2000
    for dtype, mode, normalized in itertools.product(TYPES, MODES, (True, False)):
        linear = dtype not in (np.int32, np.uint32) and bool(rng.integers(4))
        levels = int(rng.integers(3))
        size = SIZES[dims] if rng.integers(5) else (1,) * dims
        levels = 1 if max(size) == 1 else levels
        data = numbers(rng, size[::-1], dtype)
        blends = int(linear and rng.integers(3) > 0)
        options = {
            "filter_mode": int(linear), "address_mode": int(mode), "normalized_coords": normalized,
            "num_mip_levels": levels, "mip_filter_mode": blends,
        }  # fmt: skip
        x = coordinates(rng, size, normalized, count)
        lod = rng.uniform(-1, 4, count).astype(np.float32)
        lod[:200] = np.round(2 * lod[:200]) / 2
        y = wp.zeros(count, dtype=float, device="cpu")
        made = getattr(wp, f"Texture{dims}D")(data, device="cpu", **options)
        given = [wp.array(a, dtype=float, device="cpu") for a in (x, lod)]
        wp.launch(kernels[dims - 1], count, inputs=[made, *given], outputs=[y], device="cpu")
        t = TEXTURES[dims - 1](data, **options)
        found, wanted = channels_of(dims, t, x, lod)[:, 0].astype(float), y.numpy().astype(float)
        assert (t.num_mip_levels, t.dtype.numpy) == (made.num_mip_levels, np.dtype(dtype))
        scale = np.abs(data.astype(float)).max() if dtype in (np.float32, np.float16, np.int32, np.uint32) else 1.0
        # A coordinate far away is rounded to a part of a texel, here and there in different steps.
        far = np.max(np.abs(np.nan_to_num(x, posinf=0, neginf=0)) * (size if normalized else 1), axis=1)
        # Mip levels of float16 are not rounded to float16 here.
        rounded = 1e-3 if dtype == np.float16 and t.is_mipmapped else 4e-6
        close = np.abs(found - wanted) <= scale * (rounded + (8e-7 * far if linear else 0))
        close |= np.isnan(found) & np.isnan(wanted)
        if not linear:
            close |= is_tie(x, size, normalized, t.num_mip_levels)
            # Which texel NaN and infinities mean there is not defined.
            if mode in (dk.TextureAddressMode.WRAP, dk.TextureAddressMode.MIRROR):
                close |= ~np.isfinite(x).all(axis=1)
        assert close.all(), (
            options,
            dtype,
            size,
            x[~close][:3],
            lod[~close][:3],
            found[~close][:3],
            wanted[~close][:3],
        )


# -- details -----------------------------------------------------------------------------------------------------------


def test_texels_that_are_infinite_or_nan_reach_their_neighbours_alone():
    x = np.float32([[0.5], [1.0], [1.5], [2.5], [3.5]])
    lod = np.full(5, -1, np.float32)
    for value in (np.inf, -np.inf, np.nan):
        t = dk.Texture1D(np.float32([value, 1, 2, 3]), normalized_coords=False)
        found = channels_of(1, t, x, lod)[:, 0]
        np.testing.assert_array_equal(found[:2], [np.float32(value)] * 2)
        np.testing.assert_array_equal(found[2:], [1, 2, 3])


def test_large_texels_lose_no_digits():
    t = dk.Texture2D(np.full((3, 5), 1e8, np.float32) + 8 * np.arange(5, dtype=np.float32), normalized_coords=False)
    x = np.float32([[1.5, 1.3], [2.5, 0.7], [1.5, 1.9]])
    np.testing.assert_array_equal(channels_of(2, t, x, np.full(3, -1, np.float32))[:, 0], [1e8 + 8, 1e8 + 16, 1e8 + 8])
    extremes = dk.Texture1D(np.float32([-3e38, 3e38]), normalized_coords=False)
    found = channels_of(1, extremes, np.float32([[0.5], [1.0], [1.25]]), np.full(3, -1, np.float32))[:, 0]
    np.testing.assert_allclose(found, [-3e38, 0.0, 1.5e38], rtol=1e-6)


@pytest.mark.parametrize("dtype", TYPES)
def test_contents_are_copied_in_and_out(dtype):
    rng = np.random.default_rng(5)
    for cls, shape in ((dk.Texture1D, (6,)), (dk.Texture2D, (3, 2, 4)), (dk.Texture3D, (2, 3, 4, 2))):
        data = numbers(rng, shape, dtype)
        t = cls(data)
        data_before, data[...] = data.copy(), 0
        back = np.ones_like(data)
        t.copy_to(back)
        np.testing.assert_array_equal(back, data_before)
        held = dk.array(numbers(rng, shape, dtype))
        t.copy_from(held)
        out, other = dk.zeros(shape, dtype=dtype), cls(data)
        t.copy_to(other)
        other.copy_to(out)
        np.testing.assert_array_equal(out.numpy(), held.numpy())
        assert t.texels.shape == shape
        assert t.num_channels == (1, 4, 2)[t.ndim - 1]


def test_arrays_of_vectors_and_views_are_data():
    rng = np.random.default_rng(6)
    values = rng.normal(size=(3, 8, 4)).astype(np.float32)
    whole = dk.array(values, dtype=dk.vec4)
    for data in (whole, whole[:, ::2], values[:, ::2]):
        t = dk.Texture2D(data)
        wanted = values if data is whole else values[:, ::2]
        np.testing.assert_array_equal(t.texels.numpy(), wanted)
        assert (t.width, t.height, t.depth, t.num_channels) == (wanted.shape[1], 3, 1, 4)
    out = dk.zeros((3, 4), dtype=dk.vec4)
    t.copy_to(out)
    np.testing.assert_array_equal(out.numpy(), values[:, ::2])


@dk.struct
class Scenery:
    picture: dk.Texture2D
    scale: float


@dk.kernel
def seen(scenery: Scenery, x: dk.array(dtype=dk.vec2), y: dk.array(dtype=float)):
    i = dk.tid()
    width = float(scenery.picture.width * 10 + scenery.picture.height)
    y[i] = scenery.scale * dk.texture_sample(scenery.picture, x[i], dtype=float) + width


@dk.kernel
def of_several(pictures: dk.array(dtype=dk.Texture2D), x: dk.array(dtype=dk.vec2), y: dk.array(dtype=float)):
    i = dk.tid()
    y[i] = dk.texture_sample(pictures[i], x[i], dtype=float)


def test_textures_in_structs_and_arrays():
    scenery, y = Scenery(), dk.zeros(2)
    x = dk.array(np.float32([[0.5, 0.5], [0.0, 0.0]]), dtype=dk.vec2)
    dk.launch(seen, 2, inputs=[scenery, x], outputs=[y])
    np.testing.assert_array_equal(y.numpy(), [0, 0])
    assert repr(scenery) == "Scenery(picture=Texture2D(), scale=0.0)"
    scenery.picture, scenery.scale = dk.Texture2D(np.float32([[1, 2], [3, 6]])), 2.0
    dk.launch(seen, 2, inputs=[scenery, x], outputs=[y])
    np.testing.assert_array_equal(y.numpy(), [28, 24])
    pictures = [scenery.picture, dk.Texture2D(np.float32([[7]]))]
    dk.launch(of_several, 2, inputs=[dk.array(pictures, dtype=dk.Texture2D), x], outputs=[y])
    np.testing.assert_array_equal(y.numpy(), [3, 7])
    with pytest.raises(TypeError, match="takes a Texture2D"):
        scenery.picture = dk.Texture1D(np.float32([1]))


def test_a_texture_that_is_gone_is_noticed():
    pictures = dk.array([dk.Texture2D(np.float32([[1]]))] * 2, dtype=dk.Texture2D)
    x, y = dk.zeros(2, dtype=dk.vec2), dk.ones(2)
    dk.launch(of_several, 2, inputs=[pictures, x], outputs=[y])
    np.testing.assert_array_equal(y.numpy(), [0, 0])
    checked = dk.kernel(mode="debug")(of_several.func)
    with pytest.raises(dk.KernelRuntimeError, match="that of no texture, or of one that is gone"):
        dk.launch(checked, 2, inputs=[pictures, x], outputs=[y])


def test_warps_names_are_these():
    assert dwp.Texture3D is dk.Texture3D
    assert [mode.name for mode in dwp.TextureAddressMode] == ["WRAP", "CLAMP", "MIRROR", "BORDER"]
    t = dk.Texture3D(width=2, height=3, depth=4, num_channels=2, dtype=int)
    assert (t.width, t.height, t.depth, t.ndim, t.dtype) == (2, 3, 4, 3, dk.int32)
    assert (t.filter_mode, t.address_mode_w, t.is_mipmapped) == (CLOSEST, dk.TextureAddressMode.CLAMP, False)
    assert repr(t) == "Texture3D(2 x 3 x 4, 2 x int32, device='cpu')"


ONE = np.ones(4, np.float32)
REFUSED = {
    "without a number of axes": lambda: dk.Texture(ONE),
    "pass an array of shape": lambda: dk.Texture2D(ONE),
    "pass a NumPy array": lambda: dk.Texture1D([1.0]),
    "a texture of float64": lambda: dk.Texture1D(np.ones(3)),
    "a texture of no type": lambda: dk.Texture1D(width=3, num_channels=1),
    "with the width 0": lambda: dk.Texture1D(num_channels=1, dtype=float),
    "with 3 channels": lambda: dk.Texture1D(np.ones((2, 3), np.float32)),
    "4 mip levels": lambda: dk.Texture1D(ONE, num_mip_levels=4),
    "-1 mip levels": lambda: dk.Texture1D(ONE, num_mip_levels=-1),
    "mip levels of a texture without data": lambda: dk.Texture1D(
        width=4, num_channels=1, dtype=float, num_mip_levels=2
    ),
    "filter_mode=2": lambda: dk.Texture1D(ONE, filter_mode=2),
    "mip_filter_mode='x'": lambda: dk.Texture1D(ONE, mip_filter_mode="x"),
    "the address mode 4": lambda: dk.Texture1D(ONE, address_mode_u=4),
    "its filter_mode cannot be LINEAR": lambda: dk.Texture1D(np.ones(4, np.int32), filter_mode=LINEAR),
    "texels of uint8 have no gradient": lambda: dk.Texture1D(np.ones(4, np.uint8), requires_grad=True),
    "is not wrapped as a texture": lambda: dk.Texture1D(ONE, cuda_array=1),
    "has the shape": lambda: dk.Texture1D(ONE).copy_from(np.ones(3, np.float32)),
    "has numbers of int32": lambda: dk.Texture1D(ONE).copy_to(np.ones(4, np.int32)),
    "is not copied from": lambda: dk.Texture1D(ONE, num_mip_levels=0).copy_from(ONE),
    "the destination of a copy is": lambda: dk.Texture1D(ONE).copy_to(3),
    "has no cuda_texture": lambda: dk.Texture1D(ONE).cuda_texture,
}


@pytest.mark.parametrize("said", REFUSED)
def test_what_no_texture_can_be(said):
    with pytest.raises(dk.LaunchError, match=said.replace("(", r"\(")):
        REFUSED[said]()


def test_kernels_refuse_other_types_and_the_constructor():
    @dk.kernel
    def of_three(t: dk.Texture1D, y: dk.array(dtype=dk.vec3)):
        y[0] = dk.texture_sample(t, 0.5, dtype=dk.vec3)

    @dk.kernel
    def made(y: dk.array(dtype=float)):
        t = dk.Texture1D(1)  # noqa: F841

    t = dk.Texture1D(ONE)
    with pytest.raises(dk.KernelTypeError, match="texture_sample"):
        dk.launch(of_three, 1, inputs=[t, dk.zeros(1, dtype=dk.vec3)])
    with pytest.raises(dk.KernelError, match=r"(?s)is made on the host.*pass it as a parameter"):
        dk.launch(made, 1, inputs=[dk.zeros(1)])
    with pytest.raises(dk.LaunchError, match="takes Texture1D, not Texture2D"):
        dk.launch(of_three, 1, inputs=[dk.Texture2D(np.float32([[1]])), dk.zeros(1, dtype=dk.vec3)])
