"""What programs for Warp do with names beside calling them: derive, annotate, set attributes, pickle, choose."""

from __future__ import annotations

import copy
import ctypes
import enum
import importlib
import importlib.metadata
import os
import pickle
import sys
import typing
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from conftest import require

import diffkern as dk
import diffkern.warp as wp
from diffkern.warp import coloring
from diffkern.warp.opaque import TYPES

# -- types of vectors --------------------------------------------------------------------------------------------------


class vec5(wp.types.vector(length=5, dtype=float)):
    """Five numbers."""


class Yield(wp.types.vector(length=6, dtype=wp.float32)):
    """Six numbers with a way of their own to be made."""

    count = 6

    @wp.func
    def of(a: float, b: float):
        return Yield(a, b, 0.0, 0.0, 0.0, b)

    def largest(self) -> float:
        return max(self)


@wp.kernel
def make_yields(a: wp.array[float], out: wp.array[Yield], bare: wp.array(dtype=wp.types.vector(6, float))):
    i = wp.tid()
    out[i] = Yield.of(a[i], 2.0) + bare[i]


def test_a_class_with_an_empty_body_names_the_type() -> None:
    assert vec5 is wp.types.vector(5, float)
    assert vec5(1.0)[4] == 1.0
    assert wp.zeros(2, dtype=vec5).dtype is vec5


def test_a_class_with_members_is_the_type_to_kernels() -> None:
    a = wp.array([1.0, 3.0], dtype=float)
    out = wp.zeros(2, dtype=Yield)
    wp.launch(make_yields, 2, inputs=[a, out, wp.ones(2, dtype=wp.spatial_vector)])
    np.testing.assert_array_equal(out.numpy()[1], [4, 3, 1, 1, 1, 3])
    assert out.dtype == Yield
    assert Yield == wp.spatial_vector
    assert wp.spatial_vector == Yield
    assert {wp.spatial_vector: 1}[Yield] == 1
    assert wp.vec3 != Yield


def test_values_of_a_derived_class() -> None:
    v = Yield(2.0)
    assert (v.largest(), type(v + v), v.count) == (2.0, Yield, 6)
    assert v == wp.spatial_vector(2.0)
    assert wp.spatial_vector(2.0) == v
    assert (v + wp.spatial_vector(1.0))[0] == 3.0
    assert type(pickle.loads(pickle.dumps(v))) is Yield
    assert pickle.loads(pickle.dumps(Yield)) is Yield
    assert type(copy.deepcopy(v)) is Yield


def test_bases_that_are_no_single_type() -> None:
    with pytest.raises(TypeError, match="cannot be derived"):
        type(wp.vec3)("Both", (wp.vec3, wp.vec2), {"k": 1})


def test_values_are_true() -> None:
    assert wp.vec3()
    assert wp.mat33()
    assert any(row for row in wp.mat33())


def test_values_over_buffers() -> None:
    memory = np.arange(7, dtype=np.float32)
    t = wp.transform.from_buffer(memory)
    memory[0], t[1] = 9.0, 5.0
    assert (t[0], memory[1]) == (9.0, 5.0)
    copied = wp.vec3.from_buffer_copy(memory, 4)
    memory[2] = -1.0
    assert list(copied) == [5.0, 2.0, 3.0]
    assert (wp.vec2 * 2).from_buffer_copy(memory) == [wp.vec2(9.0, 5.0), wp.vec2(-1.0, 3.0)]
    with pytest.raises(TypeError, match="from_buffer_copy"):
        wp.vec3.from_buffer(bytes(12))
    with pytest.raises(ValueError, match="buffer"):
        wp.vec3.from_buffer(memory[:2])


# -- annotations and arrays --------------------------------------------------------------------------------------------


def test_annotations_take_attributes() -> None:
    for a in (wp.array(dtype=float, ndim=1), wp.array[float]):
        a.note = ("nq",)
        again = pickle.loads(pickle.dumps(a))
        assert again == a == wp.array1d[float]
        assert hash(again) == hash(a)
        assert again.note == copy.copy(a).note == ("nq",)
        with pytest.raises(AttributeError):
            a.ndim = 2
    assert hash(wp.array(dtype=float)) == hash(wp.array[float])
    assert type(wp.array[float]).__name__ == "_ArrayAnnotation"


def test_what_is_made_without_data_counts_as_an_array_without_elements() -> None:
    a = wp.array(dtype=wp.vec3, ndim=2)
    assert isinstance(a, wp.array)
    assert not isinstance(wp.array[float], wp.array)
    assert (a.shape, a.size, len(a), a.ptr, a.requires_grad, bool(a)) == ((0, 0), 0, 0, None, False, False)
    assert a.numpy().shape == (0, 0, 3)
    assert copy.deepcopy(a) == a


def test_dtypes_of_annotations_are_public() -> None:
    assert wp.array[wp.vec2].dtype is wp.vec2
    assert wp.array(dtype=int).dtype is wp.int32
    assert wp.array[Holder].dtype is Holder
    assert wp.array[Any].dtype is Any
    assert wp.array[wp.Float].dtype is wp.Float


@wp.struct
class Holder:
    values: wp.array[float]
    n: int


@wp.kernel
def read_if_there(a: wp.array[float], h: Holder, out: wp.array[float]):
    out[0] = 5.0
    if a:
        out[0] = a[0]
    if h.values:
        out[0] = 7.0


def test_no_array_in_an_argument_and_a_field() -> None:
    out, h = wp.zeros(1), Holder()
    h.values = wp.array(dtype=float)
    assert h.values is None
    wp.launch(read_if_there, 1, inputs=[wp.array(dtype=float), h, out])
    assert out.numpy()[0] == 5.0
    with pytest.raises(dk.LaunchError, match=r"takes array1d<float32>, not array1d<int32>"):
        wp.launch(read_if_there, 1, inputs=[wp.array(dtype=int), h, out])
    with pytest.raises(dk.LaunchError, match=r"takes array1d<float32>, not array2d<float32>"):
        wp.launch(read_if_there, 1, inputs=[wp.array(dtype=float, ndim=2), h, out])
    with pytest.raises(TypeError, match="field values of Holder"):
        h.values = wp.array(dtype=wp.vec3)


def test_arrays_take_attributes() -> None:
    a = wp.ones(2)
    a.is_batched = [1]
    assert copy.copy(a).is_batched is a.is_batched
    assert copy.deepcopy(a).is_batched == [1]
    assert copy.deepcopy(a).is_batched is not a.is_batched
    assert pickle.loads(pickle.dumps(a)).is_batched == [1]


def test_alternatives_in_hints() -> None:
    hints = [wp.float32, wp.vec3, wp.array[float], wp.array2d, wp.tile[float, 4], wp.array(dtype=int), wp.Mesh]
    hints.append(wp.types.vector(length=Any, dtype=wp.Float))
    for hint in hints:
        assert None in [arg if arg is not type(None) else None for arg in typing.get_args(hint | None)]
        assert len(typing.get_args(None | hint)) == 2


def test_types_in_issubclass() -> None:
    floats, vectors = wp.float32 | wp.float64, wp.vec2i | wp.vec2
    assert issubclass(wp.float32, floats)
    assert not issubclass(wp.int32, floats)
    assert issubclass(wp.vec2, vectors)
    assert not issubclass(wp.int32, vectors)
    assert issubclass(wp.int32, wp.int32)
    assert not issubclass(wp.int32, float)
    assert isinstance(wp.float32(1.0), floats)
    assert not isinstance(wp.int32(1), floats)


def test_arrays_of_numpys_integers_wrap_around() -> None:
    big = np.array([1 << 40, 0xFFFFFFFF])
    assert wp.array(big, dtype=wp.int32).numpy().tolist() == [0, -1]
    assert wp.array(big[None], dtype=wp.vec2i).numpy().tolist() == [[0, -1]]
    assert wp.from_numpy(np.array([-1]), dtype=wp.uint16).numpy()[0] == 65535
    assert wp.full(1, -1, dtype=wp.uint32).numpy()[0] == 2**32 - 1
    assert wp.array1d(big, dtype=wp.int32).numpy()[1] == -1
    for values in ([1 << 40], [0xFFFFFFFF]):
        with pytest.raises(OverflowError):
            wp.array(values, dtype=wp.int32)
    with pytest.raises(OverflowError):
        dk.array(big, dtype=dk.int32)


def test_arrays_are_instances_of_one_class() -> None:
    a = wp.zeros(2)
    assert isinstance(a, wp.array)
    assert isinstance(a, dk.array)
    assert not isinstance(3, wp.array)
    assert issubclass(type(a), wp.array)
    assert issubclass(wp.array, dk.array)


def test_data_without_elements_fit_any_number_of_axes() -> None:
    assert wp.array([], dtype=wp.int32, ndim=2).shape == (0,)
    assert wp.array(np.zeros((0, 3)), dtype=wp.vec3, ndim=1).shape == (0,)
    with pytest.raises(ValueError, match="axes"):
        wp.array([1, 2], dtype=wp.int32, ndim=2)


def test_the_order_of_parameters_warp_dialect() -> None:
    for made in (
        wp.zeros(2, float, "cpu"), wp.empty(2, float, "cpu"), wp.ones(2, float, "cpu"), wp.full(2, 1.0, float, "cpu"),
        wp.from_numpy(np.ones(2), float, (2,), "cpu"), wp.array([1.0, 2.0], float, (2,), None, None, None, "cpu"),
    ):  # fmt: skip
        assert made.device.is_cpu
        assert not made.requires_grad
        assert made.shape == (2,)
        for alike in (wp.zeros_like, wp.empty_like, wp.ones_like, wp.clone):
            assert alike(made, "cpu", True).requires_grad
        assert wp.full_like(made, 2.0, "cpu", True).requires_grad
    assert wp.empty((3,), dtype=wp.vec3, ndim=1).shape == (3,)
    with pytest.raises(ValueError, match="not ndim=2"):
        wp.zeros(3, ndim=2)
    with pytest.raises(TypeError, match="a shape is"):
        wp.zeros()


# -- names of what is missing ------------------------------------------------------------------------------------------


@wp.struct
class Scene:
    picture: wp.Texture2D
    scale: float


@wp.kernel
def scaled(scene: Scene, pictures: wp.array[wp.Texture2D], out: wp.array[float]):
    out[0] = scene.scale * 2.0


@wp.kernel
def make_resource(out: wp.array[float]):
    t = wp.GLTextureResource(1)  # noqa: F841


def test_types_that_are_missing_can_be_named() -> None:
    scene, out = Scene(), wp.zeros(1)
    scene.scale = 3.0
    wp.launch(scaled, 1, inputs=[scene, None, out])
    assert out.numpy()[0] == 6.0
    assert not isinstance(out, (wp.Mesh, wp.fabricarray, wp.Volume, wp.RegisteredGLBuffer))
    assert wp.fabricarray[float] == wp.fabricarray(dtype=float) == wp.array[float]
    for name in TYPES:
        assert pickle.loads(pickle.dumps(getattr(wp, name))) is getattr(wp, name)


def test_types_that_are_missing_refuse_where_they_are_used() -> None:
    class Own(wp.RegisteredGLBuffer):
        pass

    for make in (wp.RegisteredGLBuffer, wp.GLTextureResource, wp.fem.Cells, Own):
        with pytest.raises(dk.MisuseError, match=r"(?s)diffkern makes no .*help: "):
            make(1)
    with pytest.raises(AttributeError, match="GLTextureResource has no attribute 'map': diffkern makes no GLTexture"):
        _ = wp.GLTextureResource.map
    with pytest.raises(dk.KernelError, match=r"(?s)GLTextureResource is not part of diffkern.*help: "):
        wp.launch(make_resource, 1, inputs=[wp.zeros(1)])


def test_modules_that_are_missing_have_the_names_of_warps() -> None:
    warp = require("warp")
    for name in ("fem", "fem.cache", "fem.linalg", "sparse", "optim.linear", "geometry"):
        theirs = importlib.import_module(f"{warp.__name__}.{name}")
        ours = importlib.import_module(f"diffkern.warp.{name}")
        public = {n for n in dir(theirs) if not n.startswith("_") and not isinstance(getattr(theirs, n), type(warp))}
        assert [n for n in sorted(public) if not hasattr(ours, n)] == []
        with pytest.raises(AttributeError):
            _ = ours.no_such_name


def test_files_of_examples_are_those_of_an_installed_warp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    warp = require("warp")
    theirs = Path(warp.__file__).parent / "examples"
    assert wp.examples.get_source_directory() == str(theirs.resolve())
    assert (Path(wp.examples.get_asset_directory()) / "square_cloth.usd").is_file()

    def none(name: str) -> Any:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "distribution", none)
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    with pytest.raises(dk.MisuseError, match=r"(?s)get_asset_directory\(\) finds no installed Warp.*install warp-lang"):
        wp.examples.get_asset_directory()
    # A checkout on the path, which no wheel has installed.
    (tmp_path / "warp" / "examples" / "assets").mkdir(parents=True)
    assert wp.examples.get_asset_directory() == str((tmp_path / "warp" / "examples" / "assets").resolve())


def test_integrands_are_declared_and_not_evaluated() -> None:
    @wp.fem.integrand
    def form(s: wp.fem.Sample, u: wp.fem.Field):
        return u(s)

    with pytest.raises(dk.MisuseError, match="the integrand form is not part of diffkern"):
        form(1)
    assert wp.fem.integrand(kernel_options={})(form.__call__) is not None


def test_kernels_of_factories_are_made_once() -> None:
    def make(n: int) -> tuple[Any, Any]:
        @wp.fem.cache.dynamic_func(suffix=n)
        def times(x: float):
            return x * float(n)

        @wp.fem.cache.dynamic_kernel(suffix=n, kernel_options={"enable_backward": False})
        def run(x: wp.array[float]):
            x[0] = times(x[0])

        return times, run

    assert make(2) == make(2)
    assert make(2)[1] is not make(3)[1]
    x = wp.ones(1)
    wp.launch(make(3)[1], 1, inputs=[x])
    assert x.numpy()[0] == 3.0
    assert not make(3)[1].enable_backward


# -- internal names ----------------------------------------------------------------------------------------------------


def test_names_of_warps_internal_package() -> None:
    types = importlib.import_module("diffkern.warp._src.types")
    context = importlib.import_module("diffkern.warp._src.context")
    assert types.vector is wp.types.vector
    assert types.array is wp.array
    assert types.Any is Any
    assert types.type_length(wp.mat33) == types.type_length(wp.vec3) == types.type_length([1, 2, 3]) == 3
    assert types.type_scalar_type(wp.vec3d) is wp.float64
    assert types.type_scalar_type(wp.int8) is wp.int8
    assert types.type_to_warp(float) is wp.float32
    assert types.type_to_warp(wp.vec3) is wp.vec3
    assert types.type_size_in_bytes(wp.mat22d) == 32
    assert "tile_load" in context.builtin_functions
    assert "mesh_get" in context.builtin_functions
    assert "volume_sample" in context.builtin_functions
    assert "dense_chol" not in context.builtin_functions
    assert context.user_modules[__name__] is wp.get_module(__name__)
    assert context.Graph is wp.Graph
    assert wp._src.utils.array_scan is wp.utils.array_scan
    with pytest.raises(AttributeError, match="compiled library"):
        _ = context.runtime.core.wp_mesh_create
    with pytest.raises(AttributeError, match="it has codegen, context"):
        _ = wp._src.render


@pytest.mark.parametrize(("name", "dtype"), [("float", wp.float32), ("double", wp.float64)])
@pytest.mark.parametrize("length", [1, 3])
def test_sums_over_memory_that_is_given_by_address(name: str, dtype: Any, length: int) -> None:
    core = importlib.import_module("diffkern.warp._src.context").runtime.core
    rng = np.random.default_rng(length)
    numbers = rng.integers(-9, 9, (2, 40, length)).astype(dtype.numpy)
    element = dtype if length == 1 else wp.types.vector(length, dtype)
    a, b = (wp.array(n if length > 1 else n[:, 0], dtype=element) for n in numbers)
    products, total = wp.zeros(4, dtype=dtype), wp.zeros(1, dtype=element)
    inner, whole = (getattr(core, f"wp_array_{kind}_{name}_host") for kind in ("inner", "sum"))
    step = a.strides[0]
    with wp.ScopedCapture("cpu") as capture:
        inner(a.ptr, b.ptr, products.ptr + 2 * products.strides[0], 20, 2 * step, step, length)
        whole(a.ptr, total.ptr, 20, 2 * step, length)
    b.fill_(2.0)
    wp.capture_launch(capture.graph)
    every_other = numbers[0, ::2]
    np.testing.assert_array_equal(products.numpy(), [0.0, 0.0, 2.0 * every_other.sum(), 0.0])
    np.testing.assert_array_equal(total.numpy().reshape(-1), every_other.sum(axis=0))


def test_built_in_functions_of_values_of_the_host() -> None:
    """As programs call them that spare themselves the search for an overload."""
    core = importlib.import_module("diffkern.warp._src.context").runtime.core
    a = wp.transform(wp.vec3(1.0, 2.0, 3.0), wp.quat_from_axis_angle(wp.vec3(0.0, 0.0, 1.0), 0.5))
    b = wp.transform(wp.vec3(0.5, -1.0, 2.0), wp.quat_from_axis_angle(wp.vec3(1.0, 0.0, 0.0), 0.3))
    product, point, rotation = wp.transform(), wp.vec3(), wp.quat()
    core.wp_builtin_mul_transformf_transformf(a, b, ctypes.byref(product))
    assert product == a * b
    core.wp_builtin_transform_inverse_transformf(product, ctypes.byref(product))
    assert product == wp.transform_inverse(a * b)
    core.wp_builtin_transform_point_transformf_vec3f(a, wp.vec3(1.0, 2.0, 3.0), ctypes.byref(point))
    assert point == wp.transform_point(a, wp.vec3(1.0, 2.0, 3.0))
    matrix = wp.transform_to_matrix(b)
    core.wp_builtin_quat_from_matrix_mat44f(matrix, ctypes.byref(rotation))
    np.testing.assert_allclose(rotation, b.q, rtol=1e-6)
    length = ctypes.c_float()
    core.wp_builtin_length_vec3f(wp.vec3(3.0, 0.0, 4.0), ctypes.byref(length))
    assert length.value == 5.0
    row = np.empty(7, np.float32)
    core.wp_builtin_transform_inverse_transformf(a, ctypes.byref(wp.transform.from_buffer(row)))
    np.testing.assert_array_equal(row, wp.transform_inverse(a))
    with pytest.raises(AttributeError, match="no built-in function"):
        _ = core.wp_builtin_nothing_vec3f


def test_hints_with_parameters() -> None:
    types = importlib.import_module("diffkern.warp._src.types")
    assert types.Vector[float, Literal[3]] is wp.vec3
    assert types.Matrix[wp.float64, 2, Literal[2]] is wp.mat22d
    assert types.Quaternion[float] is wp.quat
    assert types.Transformation[wp.float64] is wp.transformd
    assert str(types.Vector[Any, wp.Int]) == "vector<any, any>"
    with pytest.raises(TypeError, match="a type and a length"):
        types.Vector[float]


@pytest.mark.parametrize(
    ("platform", "expected"),
    [("linux", "/base/app/1.0"), ("darwin", "~/Library/Caches/app/1.0"), ("win32", "/base/author/app/Cache/1.0")],
)
def test_where_caches_are(platform: str, expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    appdirs = importlib.import_module("diffkern.warp._src.thirdparty.appdirs")
    monkeypatch.setattr(appdirs.sys, "platform", platform)
    monkeypatch.setenv("XDG_CACHE_HOME", "/base")
    monkeypatch.setenv("LOCALAPPDATA", "/base")
    found = appdirs.user_cache_dir("app", "author", "1.0")
    assert found.replace("\\", "/") == expected.replace("~", str(appdirs.Path.home()))


# -- options -----------------------------------------------------------------------------------------------------------


def count(x: wp.array[float]):
    x[0] += 1.0


def test_enumerations_as_options() -> None:
    mode = wp.DeterministicMode
    kernel = wp.kernel(count, module="unique", module_options={"deterministic": mode.RUN_TO_RUN, "fast_math": 1})
    assert kernel.options.deterministic is True
    assert kernel.options.fast_math is True
    assert kernel.module.options["deterministic"] is mode.RUN_TO_RUN
    kernel = wp.kernel(count, module="unique", module_options={"deterministic": mode.NOT_GUARANTEED})
    assert kernel.options.deterministic is False
    module = wp.Module("with enumerations")
    module.options["deterministic"] = mode.GPU_TO_GPU
    own = wp.Kernel(count, module=module)
    assert module.options["deterministic"] is mode.GPU_TO_GPU
    assert own.variant.deterministic
    module.options["deterministic"] = False
    assert module.options["deterministic"] is False
    assert not own.variant.deterministic
    wp.set_module_options({"enable_backward": np.bool_(False)}, module)
    assert not own.enable_backward


def test_enumerations_as_settings() -> None:
    try:
        wp.config.deterministic = wp.DeterministicMode.RUN_TO_RUN
        assert dk.config.deterministic is True
        assert wp.config.deterministic is wp.DeterministicMode.RUN_TO_RUN
        wp.config.verbose = 1
        assert dk.config.verbose is True
    finally:
        wp.config.deterministic = wp.DeterministicMode.NOT_GUARANTEED
        wp.config.verbose = 0
    assert dk.config.deterministic is False
    assert dk.config.verbose is False


def test_enumerations_have_warps_members() -> None:
    warp = require("warp")
    names = ("CaptureMode", "JaxCallableGraphMode", "JaxModulePreloadMode", "MemoryKind", "TextureAddressMode")
    for name in (*names, "TextureFilterMode", "TextureResourceFlags", "DeterministicMode"):
        ours, theirs = getattr(wp, name), getattr(warp, name)
        assert issubclass(ours, enum.IntEnum)
        assert {m.name: int(m) for m in ours} == {m.name: int(m) for m in theirs}
    for name in dir(warp):
        if name.startswith("TIMING_"):
            assert getattr(wp, name) == getattr(warp, name)
    assert wp.__version__ == warp.__version__


def test_parameters_of_kernels() -> None:
    @wp.kernel
    def generic(a: wp.array2d[Any], b: wp.array[float], c: float, d: Any):
        pass

    found = [(a.label, a.type) for a in generic.adj.args]
    assert found == [("a", wp.array2d[Any]), ("b", wp.array[float]), ("c", wp.float32), ("d", Any)]
    assert [wp.types.is_array(t) for _, t in found] == [True, True, False, False]
    assert generic.is_generic
    assert not wp.kernel(count).is_generic


@pytest.mark.parametrize("name", ["float16", "float32", "float64", "int8", "int32", "uint64"])
def test_the_type_of_a_scalar_is_equal_to_its_dtype(name: str) -> None:
    dtype = getattr(wp, name)
    found = type(dtype(1))
    assert found == dtype
    assert dtype == found
    assert {dtype: 1}[found] == 1
    assert found != wp.int16
    assert (found._length_, found._type_) == (1, dtype._type_)


def test_static_expressions_of_kernels_are_resolved() -> None:
    weights = (2.0, 3.0)

    @wp.kernel
    def weighted(x: wp.array[float]):
        for k in range(2):
            x[k] = x[k] * wp.static(weights[k])

    assert not weighted.adj.has_unresolved_static_expressions
    x = wp.ones(2, dtype=float, device="cpu")
    wp.launch(weighted, dim=1, inputs=[x], device="cpu")
    assert x.numpy().tolist() == [2.0, 3.0]


# -- kernels -----------------------------------------------------------------------------------------------------------


@wp.func
def nothing(x: Any):
    return x.dtype(0.0)


@wp.kernel
def with_names_of_python(a: wp.array[Any], n: wp.array[int], out: wp.array[float]):
    m = a[0]
    a[1] = m.dtype(3.0) + nothing(m)
    out[0] = wp.float(n[0]) + wp.float(wp.len(a)) + wp.float(wp.int(3.9))
    for _ in wp.range(3):
        out[1] += 1.0
    k = n[0].dtype(2.7)
    out[2] = float(k)


@pytest.mark.parametrize("dtype", [wp.float32, wp.float64, wp.float16])
def test_names_of_python_in_kernels(dtype: Any) -> None:
    a, out = wp.ones(2, dtype=dtype), wp.zeros(3)
    wp.launch(with_names_of_python, 1, inputs=[a, wp.array([5], dtype=int), out])
    assert a.numpy()[1] == 3.0
    np.testing.assert_array_equal(out.numpy(), [10.0, 3.0, 2.0])


# -- colours of graphs -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", list(wp.utils.GraphColoringAlgorithm))
def test_no_two_neighbours_have_one_color(algorithm: Any) -> None:
    rng = np.random.default_rng(3)
    for nodes, count in ((1, 0), (2, 1), (40, 90), (200, 900)):
        pairs = rng.integers(0, nodes, (count, 2)).astype(np.int32)
        pairs = pairs[pairs[:, 0] != pairs[:, 1]].reshape(-1, 2)
        edges, colors = wp.array(pairs, dtype=wp.int32, shape=pairs.shape), wp.empty(nodes, dtype=wp.int32)
        used = wp.utils.graph_coloring_assign(edges, colors, algorithm)
        before = colors.numpy().copy()
        assert set(before) == set(range(used))
        assert (before[pairs[:, 0]] != before[pairs[:, 1]]).all()
        ratio = wp.utils.graph_coloring_balance(edges, colors, used, 1.2)
        after = colors.numpy()
        assert (after[pairs[:, 0]] != after[pairs[:, 1]]).all()
        sizes = np.bincount(after, minlength=used)
        assert ratio == pytest.approx(sizes.max() / sizes.min())
        assert np.ptp(sizes) <= np.ptp(np.bincount(before, minlength=used))
        groups = wp.utils.graph_coloring_get_groups(colors, used, return_wp_array=False)
        assert sorted(np.concatenate(groups)) == list(range(nodes))
        assert [len(g) for g in wp.utils.graph_coloring_get_groups(colors, used)] == sizes.tolist()


def test_colors_by_cardinality_search_are_few() -> None:
    """A chordal graph, here a strip of triangles, gets as many colours as its largest clique has nodes."""
    number = np.random.default_rng(5).permutation(62)  # so that the order of the nodes says nothing
    pairs = [[number[k], number[k + step]] for k in range(60) for step in (1, 2)]
    colors = wp.empty(62, dtype=wp.int32)
    assert wp.utils.graph_coloring_assign(wp.array(np.array(pairs), dtype=wp.int32), colors) == 3
    star = wp.array([[0, k] for k in range(1, 9)], dtype=wp.int32)
    assert wp.utils.graph_coloring_assign(star, wp.empty(9, dtype=wp.int32)) == 2


def test_balance_ends_at_its_limit() -> None:
    edges, colors = wp.array([[0, 1]], dtype=wp.int32), wp.array([0, 1, *[0] * 30], dtype=wp.int32)
    with pytest.warns(UserWarning, match="ended after 2 moves"):
        wp.utils.graph_coloring_balance(edges, colors, 2, 1.0, max_iterations=2)
    assert np.bincount(colors.numpy()).tolist() == [29, 3]
    assert wp.utils.graph_coloring_balance(edges, colors, 2, 1.0) <= 18 / 14
    with pytest.raises(RuntimeError, match="pairs of nodes"):
        wp.utils.graph_coloring_assign(wp.zeros((2, 3), dtype=wp.int32), colors)
    with pytest.raises(RuntimeError, match=r"edge \(0, 99\)"):
        wp.utils.graph_coloring_assign(wp.array([[0, 99]], dtype=wp.int32), colors)
    with pytest.raises(RuntimeError, match="node_colors is an array of int32"):
        wp.utils.graph_coloring_assign(edges, wp.zeros(3))
    assert coloring.graph_coloring_get_groups(colors, 0) == ()


# -- output ------------------------------------------------------------------------------------------------------------


def test_output_is_taken_as_text(capfd: pytest.CaptureFixture[str]) -> None:
    capture = importlib.import_module("diffkern.warp.tests.unittest_utils").StdOutCapture()
    capture.begin()
    os.write(1, b"inside")
    assert capture.end() == "inside"
    assert capture.end() == ""
    assert "inside" not in capfd.readouterr().out


# -- classes derived from wp.array -------------------------------------------------------------------------------------


class Tagged(wp.array):
    """Arrays that are made with a keyword of their own."""

    count = 0

    def __init__(self, *args: Any, tag: str, **kwargs: Any) -> None:
        Tagged.count += 1
        self.tag = tag
        super().__init__(*args, **kwargs)

    def halves(self) -> Any:
        return self * 0.5


class Derived(Tagged):
    """A class derived from one that is."""


@wp.kernel
def doubled_elements(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    y[i] = 2.0 * x[i]


@wp.struct
class ArrayHolder:
    held: wp.array[float]


def test_instances_of_derived_classes_are_arrays() -> None:
    made = Tagged.count
    x, y = Derived([1.0, 2.0], tag="x", dtype=float, requires_grad=True), wp.zeros(2, dtype=float, requires_grad=True)
    assert isinstance(x, (wp.array, dk.array))
    assert isinstance(x, Tagged)
    assert not isinstance(y, Tagged)
    assert issubclass(Derived, Tagged)
    assert not issubclass(dk.array, Tagged)
    assert x.tag == "x"
    for source in (x, x[:]):
        with wp.Tape() as tape:
            wp.launch(doubled_elements, 2, inputs=[source], outputs=[y])
        tape.backward(grads={y: np.ones(2, np.float32)})
    assert y.list() == [2.0, 4.0]
    assert x.grad.list() == [4.0, 4.0]
    assert x.halves().list() == [0.5, 1.0]
    assert {type(a) for a in (x[:1], wp.clone(x), wp.empty_like(x), x.halves())} == {dk.array}
    holder = ArrayHolder()
    holder.held = x
    assert holder.held is x
    assert Tagged.count == made + 1


def test_copies_and_pickles_of_derived_arrays_are_not_made_again() -> None:
    x = Derived([1.0, 2.0], tag="x", dtype=float)
    made = Tagged.count
    for other in (copy.copy(x), pickle.loads(pickle.dumps(x))):
        assert type(other) is Derived
        assert other.tag == "x"
        assert other.list() == [1.0, 2.0]
    assert Tagged.count == made


def test_derived_arrays_have_elements() -> None:
    for given in ({"dtype": float}, {"shape": 2, "dtype": ArrayHolder}):
        with pytest.raises(TypeError, match="Tagged is made of"):
            Tagged(tag="x", **given)


@wp.kernel
def compare_bools(flags: wp.array[wp.bool], numbers: wp.array[int], o: wp.array2d[int], one: bool):
    i = wp.tid()
    if flags[i] == 0:
        o[i, 0] = 1
    if flags[i] != 1:
        o[i, 1] = 1
    if 1 == flags[i]:
        o[i, 2] = 1
    if flags[i] == 2:
        o[i, 3] = 1
    if flags[i] == numbers[i]:
        o[i, 4] = 1
    if flags[i] < 1:
        o[i, 5] = 1
    if flags[i] == 0.5 or flags[i] > one:
        o[i, 6] = 1
    if flags[i] >= 0.5:
        o[i, 7] = 1


def test_bools_are_compared_with_numbers_as_in_warp() -> None:
    o = wp.zeros((2, 8), dtype=int)
    wp.launch(compare_bools, 2, [wp.array([True, False], dtype=wp.bool), wp.array([1, 1], dtype=int), o, False])
    assert o.numpy().tolist() == [[0, 0, 1, 0, 1, 0, 1, 1], [1, 1, 0, 0, 0, 1, 0, 0]]


@dk.kernel
def compare_native(flag: bool, o: dk.array(dtype=int)):
    if flag == 0:
        o[0] = 1


def test_other_dialects_refuse_to_compare_bools_with_numbers() -> None:
    with pytest.raises(dk.KernelError, match="== of bool and the number 0"):
        dk.launch(compare_native, 1, [True, dk.zeros(1, dtype=int)])
