"""Built-in functions called from Python on vectors and matrices."""

import numpy as np
import pytest

import diffkern as dk

V, W = dk.vec3(1.0, 2.0, 3.0), dk.vec3(4.0, 5.0, 6.0)
M = dk.mat33(2, 1, 0, 0, 1, 0, 0, 1, 3)
N = np.array(M)


@pytest.mark.parametrize(
    ("got", "want"),
    [
        (dk.dot(V, W), 32.0), (dk.cross(V, W), [-3, 6, -3]), (dk.normalize(V), np.array(V) / np.sqrt(14)),
        (dk.add(V, W), [5, 7, 9]), (dk.mul(M, V), N @ np.array(V)), (dk.min(V, dk.vec3(2)), [1, 2, 2]),
        (dk.inverse(M), np.linalg.inv(N)), (dk.determinant(M), 6.0), (dk.identity(n=3, dtype=float), np.eye(3)),
        (dk.outer(V, W), np.outer(V, W)), (dk.lerp(V, W, 0.5), [2.5, 3.5, 4.5]), (dk.norm_l1(-V), 6.0),
        (dk.clamp(V, dk.vec3(1.5), dk.vec3(2.5)), [1.5, 2, 2.5]), (dk.transpose(M), N.T), (dk.sign(-V), [-1] * 3),
    ],
)  # fmt: skip
def test_values(got, want):
    np.testing.assert_allclose(np.array(got), want, rtol=1e-6)


def test_types_of_results():
    assert type(dk.cross(V, W)) is dk.vec3
    assert type(dk.dot(V, W)) is float
    assert isinstance(dk.dot(dk.vec3d(V), dk.vec3d(W)), dk.float64)
    assert type(dk.normalize(dk.vec3h(1, 2, 3))) is dk.vec3h
    assert type(dk.matrix_from_rows(V, W)) is dk.types.matrix((2, 3), float)
    assert dk.cw_div(dk.vec3i(7, 8, -9), dk.vec3i(2, 2, 2)) == (3, 4, -4)


def test_a_func_runs_on_them():
    @dk.func
    def bounced(v: dk.vec3, n: dk.vec3):
        return v - 2.0 * dk.dot(v, n) * n

    assert bounced(V, dk.vec3(0.0, 0.0, 1.0)) == (1, 2, -3)


def test_what_is_refused():
    with pytest.raises(dk.KernelTypeError, match="dot of vec3<float32> and vec2<float32>"):
        dk.dot(V, dk.vec2())
    with pytest.raises(dk.KernelError, match="can only be called inside a kernel"):
        dk.atomic_add(V, 0, 1.0)
    with pytest.raises(dk.KernelTypeError, match="pass numbers, vectors such as"):
        dk.dot(V, None)
