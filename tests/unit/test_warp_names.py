"""``diffkern.warp``: its names, settings, modules and decorators."""

from __future__ import annotations

from types import ModuleType
from typing import Any, Literal

import numpy as np
import pytest
from conftest import require

import diffkern as dk
import diffkern.warp as wp
from diffkern.warp.loggers import _warnings_seen
from diffkern.warp.opaque import INSTEAD


def test_every_name_is_there() -> None:
    for name in wp.__all__:
        assert getattr(wp, name) is not None, name


def test_names_that_are_missing_say_what_to_take() -> None:
    there = set(wp.__all__)
    assert not there & set(INSTEAD)
    with pytest.raises(AttributeError, match=r"Warp has dense_solve, and diffkern does not; take tile_matmul"):
        _ = wp.dense_solve

    @wp.kernel
    def sampled(x: wp.array[float]):
        x[0] = wp.dense_chol(x, 1, 2, 3)

    with pytest.raises(wp.WarpCodegenError, match=r"(?s)no attribute 'dense_chol'.*help: take tile_matmul"):
        wp.launch(sampled, 1, inputs=[wp.zeros(1, dtype=float)])


def test_every_name_of_warp_is_there_or_says_what_to_take() -> None:
    warp = require("warp")
    public = [
        name for name in dir(warp) if not name.startswith("_") and not isinstance(getattr(warp, name), ModuleType)
    ]
    assert len(public) > 300
    assert [name for name in public if not hasattr(wp, name) and name not in INSTEAD] == []


@pytest.mark.filterwarnings("always::DeprecationWarning")
def test_older_names_of_types_warn(capsys: pytest.CaptureFixture[str]) -> None:
    for old, new in (("vec", "vector"), ("mat", "matrix")):
        _warnings_seen.clear()
        assert getattr(wp, old) is getattr(wp.types, new)
        assert f"wp.{old} is deprecated. Use wp.types.{new} instead." in capsys.readouterr().err
        assert old not in wp.__all__


def test_native_names_are_not_warps() -> None:
    for name in ("ANY", "record", "testing"):
        assert hasattr(dk, name)
        with pytest.raises(AttributeError):
            getattr(wp, name)


def test_errors_derive_from_pythons() -> None:
    assert issubclass(dk.KernelError, RuntimeError)
    assert issubclass(dk.KernelTypeError, TypeError)
    assert issubclass(dk.LaunchError, (TypeError, ValueError))
    assert wp.WarpCodegenTypeError is dk.KernelError


def test_annotations() -> None:
    assert wp.array[float] == wp.array(dtype=float) == wp.array1d[float]
    assert wp.array[wp.vec3, Literal[2]] == wp.array2d[wp.vec3] == wp.array(dtype=wp.vec3, ndim=2)
    assert repr(wp.array2d[float]) == "array2d[float32]"
    assert repr(wp.array[Any]) == "array1d[Any]"
    assert len({wp.array[float], wp.array(dtype=float), wp.array2d[float]}) == 2
    assert wp.array2d([[1.0, 2.0]], dtype=float).numpy().tolist() == [[1.0, 2.0]]
    with pytest.raises(ValueError, match="axes"):
        wp.array1d([[1.0, 2.0]], dtype=float)


@wp.func
def total(t: wp.tile[float, 4, -1]):
    return wp.tile_sum(t)


def test_tiles_as_parameters_of_funcs() -> None:
    def summed(x: wp.array2d[float], y: wp.array[float]):
        wp.tile_store(y, total(wp.tile_load(x, shape=(ROWS, 4))))

    x, y = wp.array(np.ones((4, 4)), dtype=float), wp.zeros(1, dtype=float)
    wp.launch_tiled(wp.kernel(summed), dim=[1], inputs=[x, y], block_dim=32)
    assert y.numpy()[0] == 16.0
    with pytest.raises(dk.KernelTypeError, match="parameters of funcs alone"):
        wp.kernel(tiled).argument_types()


ROWS = 4


def tiled(t: wp.tile[float, 4]):
    pass


def test_options_of_a_kernel() -> None:
    def f(x: wp.array[float]):
        x[0] = 1.0

    named = wp.kernel(name="other", module="unique", module_options={"enable_backward": False})(f)
    assert (named.key, named.enable_backward) == ("other", False)
    assert named.module is not wp.kernel(f).module
    assert wp.Kernel(func=f, key="k", module=wp.get_module("a name")).module is wp.get_module("a name")
    assert wp.kernel(f, launch_bounds=(64,), cuda_max_registers=32).options.max_registers == 32
    with pytest.raises(TypeError, match="nam"):
        wp.kernel(nam="f")


def test_options_of_modules() -> None:
    module = wp.Module("options")
    kernel = wp.Kernel(lambda_free, module=module)
    assert kernel.enable_backward
    wp.set_module_options({"enable_backward": False, "max_unroll": 3}, module)
    assert not kernel.enable_backward
    found = wp.get_module_options(module)
    assert (found["enable_backward"], found["max_unroll"], found["fast_math"]) == (False, 3, False)
    module.options["mode"] = "debug"
    assert kernel.variant.mode == "debug"
    with pytest.raises(ValueError, match="no option 'foo'"):
        wp.set_module_options({"foo": 1}, module)


def lambda_free(x: wp.array[float]):
    x[0] = 1.0


def test_modules_are_compiled_before_launches() -> None:
    module = wp.Module("loaded")
    good, bad = wp.Kernel(lambda_free, module=module), wp.Kernel(wrong, module=module)
    assert set(module.kernels.values()) == {good, bad}
    assert module.load("cpu") is module
    again = wp.Module("again")
    kept = wp.Kernel(wrong, module=again)
    with pytest.raises(dk.KernelError, match="missing"):
        wp.load_module(again)
    assert again.kernels["wrong"] is kept


def wrong(x: wp.array[float]):
    x[0] = missing  # noqa: F821


@wp.kernel
def scaled(x: wp.array[Any], s: Any):
    i = wp.tid()
    x[i] = x[i] * s


@wp.overload
def scaled(x: wp.array[wp.float64], s: wp.float64): ...  # noqa: F811


def test_overloads_of_a_generic_kernel() -> None:
    of_floats = wp.overload(scaled, [wp.array[float], float])
    by_name = wp.overload(scaled, {"x": wp.array[wp.float64]})
    x, y = wp.array([1.0, 2.0], dtype=float), wp.array([1.0, 2.0], dtype=wp.float64)
    wp.launch(of_floats, 2, inputs=[x, 3.0])
    wp.launch(by_name, 2, inputs=[y, wp.float64(3.0)])
    wp.launch(scaled, 2, inputs=[y, wp.float64(2.0)])
    assert x.numpy().tolist() == [3.0, 6.0]
    assert y.numpy().tolist() == [6.0, 12.0]
    with pytest.raises(dk.LaunchError):
        wp.launch(of_floats, 2, inputs=[y, 3.0])
    with pytest.raises(dk.MisuseError, match="no parameter 'z'"):
        wp.overload(scaled, {"z": float})


def test_settings() -> None:
    assert wp.config.mode == dk.config.mode
    for name in ("verify_fp", "print_launches", "max_unroll", "verify_autograd_array_access"):
        before = getattr(wp.config, name)
        setattr(wp.config, name, before)
    with pytest.raises(AttributeError, match="did you mean 'verify_fp'"):
        wp.config.verify_fx = True


def test_launches_are_printed_and_their_results_verified(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    x = wp.array([1.0, 2.0], dtype=float)
    monkeypatch.setattr(wp.config, "print_launches", True)
    wp.launch(scaled, dim=2, inputs=[x, 2.0])
    assert "kernel: scaled" in capsys.readouterr().out
    monkeypatch.setattr(wp.config, "print_launches", False)
    monkeypatch.setattr(wp.config, "verify_fp", True)
    wp.launch(scaled, dim=2, inputs=[x, 2.0])
    with pytest.raises(dk.KernelRuntimeError, match=r"'x' has inf at \(0,\)"):
        wp.launch(scaled, dim=2, inputs=[x, float("inf")])
    assert not capsys.readouterr().out


@wp.struct
class Pair:
    count: int
    v: wp.vec2


@wp.struct
class Nested:
    pair: Pair


@wp.kernel
def scaled_parts(a: wp.array[Nested], factor: float):
    i = wp.tid()
    a[i].pair.v[1] = factor * a[i].pair.v[1]


def test_results_in_structs_are_verified(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = wp.zeros(3, dtype=Nested)
    monkeypatch.setattr(wp.config, "verify_fp", True)
    wp.launch(scaled_parts, 3, inputs=[parts, 2.0])
    with pytest.raises(dk.KernelRuntimeError, match=r"'a.pair.v' has nan at \(0, 1\)"):
        wp.launch(scaled_parts, 3, inputs=[parts, float("nan")])


def test_structs_without_fields_and_with_methods_in_their_dialect() -> None:
    @wp.struct
    class Empty:
        pass

    assert "Empty" in repr(Empty())


def test_a_scoped_stream_of_none_does_nothing() -> None:
    with wp.ScopedStream(None):
        pass


def test_copysign_of_a_negative_zero() -> None:
    @wp.kernel
    def signs(y: wp.array[float]):
        y[0] = wp.copysign(1.0, -0.0)
        y[1] = wp.copysign(1.0, y[2])

    y = wp.array([0.0, 0.0, -0.0], dtype=float)
    wp.launch(signs, 1, inputs=[y])
    assert y.numpy()[:2].tolist() == [-1.0, -1.0]


def test_kinds_of_types() -> None:
    t = wp.types
    assert t.is_vector(wp.vec3(1.0, 2.0, 3.0))
    assert t.type_is_matrix(wp.mat33)
    assert t.types_equal(float, wp.float32)
    assert t.type_repr(wp.vec3) == "vec3f"
    assert t.type_repr(wp.array[float]) == "array(ndim=1, dtype=float32)"
    assert (t.type_size(wp.mat33), t.type_size_in_bytes(wp.mat33d)) == (9, 72)


def test_sizes_of_blocks_and_versions() -> None:
    assert wp.get_suggested_block_size(scaled, "cpu") == (1, 1)
    assert not wp.is_mempool_supported("cpu")
    assert wp.get_cuda_toolkit_version() is None
