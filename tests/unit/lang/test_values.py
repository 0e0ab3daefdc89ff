"""Vectors, matrices, quaternions and transforms on the host."""

import copy
import ctypes
import math

import numpy as np
import pytest

import diffkern as dk

V, W = dk.vec3(1.0, 2.0, 3.0), dk.vec3(4.0, 5.0, 6.0)
M = dk.mat33(*range(9))


def _n(value):
    return np.array(value)


@pytest.mark.parametrize(
    ("got", "want"),
    [
        (V + W, [5, 7, 9]), (V - W, [-3, -3, -3]), (-V, [-1, -2, -3]), (+V, [1, 2, 3]),
        (V * 2.0, [2, 4, 6]), (2 * V, [2, 4, 6]), (np.float64(2) * V, [2, 4, 6]), (V / 2, [0.5, 1, 1.5]),
        (6.0 / V, [6, 3, 2]), (np.float32(6) / V, [6, 3, 2]), (V % dk.vec3(2.0, 2.0, 2.0), [1, 0, 1]),
        (sum([V, W]), [5, 7, 9]), (M * V, _n(M) @ _n(V)), (M @ V, _n(M) @ _n(V)), (V * M, _n(V) @ _n(M)),
    ],
)  # fmt: skip
def test_operators_of_vectors(got, want):
    assert type(got) is dk.vec3
    assert got == tuple(want)


def test_operators_of_matrices():
    assert type(M * M) is type(M @ M) is dk.mat33
    assert M * M == _n(M) @ _n(M)
    assert M + M == 2 * M == M * 2.0
    assert (1.0 / (M + dk.mat33(1.0)))[0, 1] == 0.5
    wide = dk.types.matrix((2, 3), float)(1, 2, 3, 4, 5, 6)
    assert type(wide * V) is dk.vec2
    assert type(wide @ M) is dk.types.matrix((2, 3), float)
    with pytest.raises(TypeError, match="the inner sizes differ"):
        M @ wide


def test_integers_divide_towards_zero():
    a = dk.vec3i(7, 8, -9)
    assert a / 2 == (3, 4, -4)
    assert a % dk.vec3i(2, 3, 4) == (1, 2, -1)
    assert 20 / a == (2, 2, -2)
    assert (a & dk.vec3i(3)) == (3, 0, 3)
    assert (~a, a << 1) == ((-8, -9, 8), (14, 16, -18))
    with pytest.raises(TypeError, match="are integers"):
        a * 2.5


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda: V * W, "dk.cw_mul"),
        (lambda: V / W, "dk.cw_div"),
        (lambda: V + 1, r"vec3 \+ int has no meaning"),
        (lambda: V + (1, 2, 3), r"vec3 \+ tuple has no meaning; make it a vec3"),
        (lambda: V + dk.vec3d(1.0), r"vec3 \+ vec3d"),
        (lambda: dk.quat() * V, r"quat \* vec3"),
        (lambda: dk.vec3i(1.5, 2, 3), "are integers"),
        (lambda: dk.vec3("a", 1, 2), "are numbers"),
        (lambda: dk.quat(0.0, p=1), "has no component 'p'"),
    ],
)
def test_what_has_no_meaning(wrong, says):
    with pytest.raises(TypeError, match=says):
        wrong()


def test_equality_is_one_bool():
    assert (V == dk.vec3(1, 2, 3)) is True
    assert (V != W) is True
    assert (V == (1, 2, 3)) is True
    assert (V == [1, 2]) is False
    assert (V == dk.vec3d(1, 2, 3)) is False
    assert V in [W, V]
    assert (V == None) is False  # noqa: E711


def test_items_and_parts_are_copies():
    v, m = V.copy(), M.copy()
    assert (v[0], v[-1], type(v[0])) == (1.0, 3.0, float)
    assert type(dk.vec3d(1)[0]) is not float
    assert dk.vec3d(1)[0].value == 1.0
    assert (v[0:2], v[::2]) == (dk.vec2(1, 2), dk.vec2(1, 3))
    row = m[1]
    row[0] = 99
    assert m == M
    assert (m[1, 2], m[:, 1], m[0:2, 1:]) == (5.0, dk.vec3(1, 4, 7), dk.mat22(1, 2, 4, 5))
    assert (len(v), len(m), list(m)[2]) == (3, 3, dk.vec3(6, 7, 8))
    a, b, c = v
    assert (a, b, c) == (1, 2, 3)


def test_assignment():
    v, m = dk.vec3(), dk.mat33()
    v[0], v.y, v[2:] = 1, 2.0, (3.0,)
    v += V
    assert v == (2, 4, 6)
    m[0], m[1, 2], m[:, 0] = V, 7, (9, 8, 7)
    assert m == [[9, 2, 3], [8, 0, 7], [7, 0, 0]]
    for name in ("w", "xy", "q"):
        with pytest.raises(AttributeError, match=f"no attribute {name!r}"):
            setattr(v, name, 1)
    with pytest.raises(TypeError, match="are integers"):
        dk.vec2i()[0] = 0.5


def test_a_copy_is_another_value():
    v = V.copy()
    for other in (copy.copy(v), copy.deepcopy(v), +v, dk.vec3(v)):
        other.x = 5.0
    held = v
    held += W  # binds another value
    assert v == V


def test_quaternions():
    x, y = dk.quat(1.0, 0.0, 0.0, 0.0), dk.quat(0.0, 1.0, 0.0, 0.0)
    assert x * y == dk.quat(0, 0, 1, 0)
    assert dk.quat(dk.vec3(1, 2, 3), 4.0) * 2 == dk.quat(2, 4, 6, 8)
    assert dk.quat().w == 0.0
    assert type(dk.quat(1, 2, 3, 4)[:3]) is dk.vec3


def test_transforms():
    half = math.sqrt(0.5)
    turn = dk.transform(dk.vec3(1, 2, 3), dk.quat(0.0, 0.0, half, half))  # a quarter about z
    np.testing.assert_allclose(turn * dk.transform((1, 0, 0)), [1, 3, 3, 0, 0, half, half], atol=1e-6)
    assert turn.p == (1, 2, 3)
    assert type(turn.q) is dk.quat
    turn.p, turn.q = (0, 0, 1), (0, 0, 0, 1)
    assert turn == dk.transform(q=(0, 0, 0, 1), p=(0, 0, 1))
    assert turn * 2.0 == (0, 0, 2, 0, 0, 0, 2)


def test_they_are_arrays_of_numpy():
    assert isinstance(V, dk.vec3)
    assert np.array(V).dtype == np.float32
    assert type(np.sin(V)) is type(V.astype(float)) is type(V * np.ones(3)) is np.ndarray
    assert (V.sum(), V.tolist(), M.T.shape, float(V.max())) == (6.0, [1, 2, 3], (3, 3), 3.0)
    np.testing.assert_array_equal(np.array([V, W]), [[1, 2, 3], [4, 5, 6]])
    assert dk.array([V, W], dtype=dk.vec3).shape == (2,)


def test_how_they_are_shown():
    assert repr(V) == "vec3(1.0, 2.0, 3.0)"
    assert f"{V}" == str(V) == "[1.0, 2.0, 3.0]"
    assert str(dk.mat22(1, 2, 3, 4)) == "[[1.0, 2.0],\n [3.0, 4.0]]"


@dk.kernel
def scaled(a: dk.array(dtype=float)):
    a[dk.tid()] = _CAPTURED[0] * _HELD[1].y


_CAPTURED = dk.vec3(2.0, 0.0, 0.0)
_HELD = (1, dk.vec2(0.0, 1.0))


def test_a_kernel_notices_a_captured_vector_that_changes_in_place():
    a = dk.zeros(1)
    results = []
    try:
        for x, y in ((2.0, 1.0), (3.0, 1.0), (3.0, 5.0)):
            _CAPTURED.x, _HELD[1].y = x, y
            dk.launch(scaled, 1, [a])
            results.append(float(a.numpy()[0]))
    finally:
        _CAPTURED.x, _HELD[1].y = 2.0, 1.0
    assert results == [2.0, 3.0, 15.0]


@dk.struct
class Ball:
    pos: dk.vec3
    spin: dk.mat22


def test_fields_of_structs_are_values():
    ball = Ball(V, dk.mat22(1, 2, 3, 4))
    ball.pos.x = 7
    assert (ball.pos, V.x) == (dk.vec3(7, 2, 3), 1.0)
    assert type(ball.spin * dk.vec2(1, 1)) is dk.vec2
    held = dk.array([ball], dtype=Ball)
    assert type(held[0].pos) is type(dk.full(2, V)[1]) is dk.vec3


TYPES_IN_C = [dk.vec3, dk.vec2d, dk.quat, dk.transform, dk.mat22, dk.types.matrix((2, 3), dk.int32), dk.vec3ub]


@pytest.mark.parametrize("kind", TYPES_IN_C, ids=str)
def test_functions_of_c_take_values_by_reference(kind):
    value = kind(*range(1, kind.size + 1))
    numbers = np.arange(1, kind.size + 1, dtype=kind.numpy).reshape(kind.shape)
    assert ctypes.sizeof(value) == numbers.nbytes
    assert ctypes.string_at(ctypes.byref(value), numbers.nbytes) == bytes(value) == numbers.tobytes()
    doubled = 2 * numbers
    ctypes.memmove(ctypes.byref(value), doubled.ctypes.data, doubled.nbytes)
    np.testing.assert_array_equal(np.asarray(value), doubled)
    assert np.asarray(value).dtype == kind.numpy
    np.testing.assert_array_equal(np.array([value, value]), [doubled, doubled])


def test_half_precision_values_are_no_types_of_c():
    for kind in (dk.vec3h, dk.mat22h):
        value = kind(1.5)
        assert np.asarray(value).dtype == np.float16
        assert isinstance(value, np.ndarray)


def test_arrays_of_numpy_look_at_the_memory_of_a_value():
    value = dk.transform(dk.vec3(1.0, 2.0, 3.0), dk.quat_identity())
    np.asarray(value)[:2] = 7.0
    assert value.p == dk.vec3(7.0, 7.0, 3.0)


def test_jax_takes_values():
    jnp = pytest.importorskip("jax.numpy")
    np.testing.assert_array_equal(jnp.asarray(dk.vec3(1.0, 2.0, 3.0)), [1.0, 2.0, 3.0])
    assert jnp.asarray(dk.mat22(1.0, 2.0, 3.0, 4.0)).shape == (2, 2)


def test_values_have_the_other_operators_of_numpys_arrays():
    v, w = dk.vec3(3.5, -2.0, 7.0), dk.vec3(2.0, 3.0, -2.0)
    a, b = np.asarray(v), np.asarray(w)
    np.testing.assert_array_equal(v // w, a // b)
    np.testing.assert_array_equal(v**2, a**2)
    np.testing.assert_array_equal(2.0**w, 2.0**b)
    np.testing.assert_array_equal(7.0 // w, 7.0 // b)
    np.testing.assert_array_equal(abs(v), abs(a))
    np.testing.assert_array_equal(v < w, a < b)
    np.testing.assert_array_equal(v >= w, a >= b)
    np.testing.assert_array_equal(divmod(v, 2.0), divmod(a, 2.0))
    assert 7.0 in v
    assert 8.0 not in v
    v.label = "a"  # as values of Warp do
    assert v.label == "a"
