"""dtypes, annotations, built-ins and funcs on the host."""

from __future__ import annotations

import math

import numpy as np
import pytest

import diffkern as dk
from diffkern.errors import KernelError
from diffkern.frontend import signature
from diffkern.ir.types import BOOL, FLOAT32, FLOAT64, INT32, INT64, UINT8, Array, Mat, Vec
from diffkern.lang import ArrayAnnotation, element_of_value, resolve_dtype
from diffkern.lang.intrinsics import lowering_key


@pytest.mark.parametrize(
    ("given", "want"),
    [
        (float, FLOAT32),
        (int, INT32),
        (bool, BOOL),
        (dk.float64, FLOAT64),
        (dk.bool_, BOOL),
        (np.float64, FLOAT64),
        (np.dtype("uint8"), UINT8),
        (np.bool_, BOOL),
        (dk.vec3, Vec(FLOAT32, 3)),
        (dk.vec2d, Vec(FLOAT64, 2)),
        (dk.vec3i, Vec(INT32, 3)),
        (dk.mat33, Mat(FLOAT32, 3, 3)),
        (INT64, INT64),
    ],
)
def test_resolve_dtype(given: object, want: object) -> None:
    assert resolve_dtype(given) == want


@pytest.mark.parametrize("given", ["float", None, str, 3, np.datetime64, list, np.zeros(2)])
def test_what_is_no_dtype(given: object) -> None:
    with pytest.raises(TypeError, match="is not an element type; use one of"):
        resolve_dtype(given)


def test_dtypes_make_numpy_scalars() -> None:
    assert isinstance(dk.float32(1), np.float32)
    assert isinstance(dk.uint8(3), np.uint8)
    assert (dk.float16(3).value, type(dk.float16(3).value)) == (3.0, float)
    assert isinstance(dk.int64(3), dk.int64)
    assert not isinstance(dk.int64(3), dk.int32)
    assert dk.float32.numpy == np.float32
    assert repr(dk.float32) == "float32"
    assert dk.vec3f == dk.vec3
    assert dk.vec3d != dk.vec3
    assert len({dk.vec3, dk.vec3f, dk.vec3d}) == 2


def test_bfloat16_rounds_to_even() -> None:
    assert dk.bfloat16(1.0) == 1.0
    assert dk.bfloat16(1.00390625) == 1.0  # halfway to 1.0078125
    assert dk.bfloat16(1.01171875) == 1.015625
    assert np.isnan(dk.bfloat16(math.nan))


def test_composites_on_the_host() -> None:
    v = dk.vec3(1, 2, 3)
    assert v.tolist() == [1.0, 2.0, 3.0]
    assert (v.x, v.y, v.z) == (1.0, 2.0, 3.0)
    assert v.dtype == np.float32
    assert dk.vec2().tolist() == [0.0, 0.0]
    assert dk.vec2d(1.5).tolist() == [1.5, 1.5]
    assert dk.mat22(1, 2, 3, 4).tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert dk.mat22(dk.vec2(1, 2), dk.vec2(3, 4)).tolist() == [[1.0, 2.0], [3.0, 4.0]]
    with pytest.raises(TypeError, match="vec3 has 3 components, not 2"):
        dk.vec3(1, 2)
    with pytest.raises(AttributeError, match="no attribute 'w'"):
        _ = v.w


@pytest.mark.parametrize(
    ("value", "want"),
    [
        (1, INT32),
        (1.0, FLOAT32),
        (True, BOOL),
        (np.float64(1), FLOAT64),
        (np.int64(1), INT64),
        (dk.vec3(1), Vec(FLOAT32, 3)),
        (dk.vec3(1) + np.ones(3), None),
        ("a", None),
        (np.zeros(3), None),
    ],
)
def test_element_of_value(value: object, want: object) -> None:
    assert element_of_value(value) == want


def test_built_ins_are_found_by_identity() -> None:
    assert lowering_key(dk.sin) == lowering_key(math.sin) == lowering_key(np.sin) == "sin"
    assert lowering_key(abs) == lowering_key(np.abs) == lowering_key(math.fabs) == "abs"
    assert lowering_key(lambda x: x) is None

    def sin(x: float) -> float:
        return x

    assert lowering_key(sin) is None
    assert lowering_key([]) is None


def test_built_ins_of_numbers_work_on_the_host() -> None:
    assert dk.sin(0.5) == math.sin(0.5)
    assert dk.clamp(3.0, 0.0, 1.0) == 1.0
    assert dk.round(2.5) == 3.0
    assert dk.rint(2.5) == 2.0
    assert dk.where(True, 1, 2) == 1
    assert dk.cbrt(-8.0) == pytest.approx(-2.0)


def test_built_ins_of_kernels_do_not() -> None:
    with pytest.raises(KernelError, match=r"dk\.tid can only be called inside a kernel") as caught:
        dk.tid()
    assert "@dk.kernel" in str(caught.value)


def test_funcs_run_on_the_host() -> None:
    @dk.func
    def f(x, k=2):
        """Doubles."""
        return x * k

    assert f(3) == 6
    assert f(3, k=3) == 9
    assert f.__name__ == "f"
    assert f.__doc__ == "Doubles."
    assert dk.func(f) is f
    with pytest.raises(TypeError, match="decorates a Python function"):
        dk.func(3)


def test_array_annotations() -> None:
    assert dk.array1d(dtype=float) == ArrayAnnotation(FLOAT32, 1)
    assert dk.array(dtype=dk.vec3, ndim=2) == ArrayAnnotation(Vec(FLOAT32, 3), 2)
    assert dk.array4d(dtype=dk.ANY) == ArrayAnnotation(None, 4)
    assert str(dk.array2d(dtype=int)) == "array2d<int32>"
    with pytest.raises(TypeError, match="1 to 4 axes"):
        dk.array(dtype=float, ndim=5)


def kernel(x: dk.array(dtype=float), n: int, a: float, free, v: dk.vec3, flag: bool = True):
    x[0] = a


X = Array(FLOAT32, 1, "A")


def test_signature() -> None:
    found = signature(kernel)
    assert [p.name for p in found.params] == ["x", "n", "a", "free", "v", "flag"]
    assert found.params[0].annotation == ArrayAnnotation(FLOAT32, 1)
    assert found.params[3].annotation is None
    assert found.params[5].has_default
    assert found.is_generic
    got = found.match([X, INT64, INT32, FLOAT64, Vec(FLOAT64, 3), BOOL])
    assert got == [X, INT32, FLOAT32, FLOAT64, Vec(FLOAT32, 3), BOOL]


@pytest.mark.parametrize(
    ("position", "given", "reason"),
    [
        (0, FLOAT32, "the parameter x of kernel takes array1d<float32>, not float32"),
        (0, Array(FLOAT64, 1), "the parameter x of kernel takes array1d<float32>, not an array of float64 with 1 axis"),
        (0, Array(FLOAT32, 2), "the parameter x of kernel"),
        (1, FLOAT32, "the parameter n of kernel takes int32, not float32"),
        (2, X, "the parameter a of kernel takes float32"),
        (4, Vec(FLOAT32, 2), "the parameter v of kernel"),
        (5, INT32, "the parameter flag of kernel"),
    ],
)
def test_arguments_that_do_not_fit_are_named(position: int, given: object, reason: str) -> None:
    types = [X, INT32, FLOAT32, FLOAT32, Vec(FLOAT32, 3), BOOL]
    types[position] = given
    with pytest.raises(dk.KernelTypeError) as caught:
        signature(kernel).match(types)
    assert reason in str(caught.value)


def test_wrong_number_of_arguments() -> None:
    with pytest.raises(dk.KernelTypeError, match="takes 6 arguments"):
        signature(kernel).match([X])


def test_annotations_that_mean_nothing() -> None:
    def bad(x: "list"): ...  # noqa: UP037

    def unknown(x: "nowhere.array()"): ...  # noqa: F821, UP037

    with pytest.raises(dk.KernelTypeError, match="the annotation of x in bad is no kernel type"):
        signature(bad)
    with pytest.raises(dk.KernelTypeError, match="cannot be evaluated"):
        signature(unknown)
