"""Operators of arrays, views as other types, arrays over addresses, and dk.map."""

import numpy as np
import pytest

import diffkern as dk

A = np.array([1.0, 2.0, 4.0], np.float32)


def _a(**options):
    return dk.array(A, **options)


@pytest.mark.parametrize(
    ("got", "want"),
    [
        (lambda a: a + a, A + A), (lambda a: 2.0 * a - 1, 2 * A - 1), (lambda a: 1.0 / a, 1 / A), (lambda a: -a, -A),
        (lambda a: +a, A), (lambda a: a**2.0, A**2), (lambda a: a % 3.0, A % 3), (lambda a: a // 3.0, A // 3),
        (lambda a: a + dk.array(np.ones((2, 3), np.float32)), A + np.ones((2, 3))),
    ],
)  # fmt: skip
def test_operators(got, want):
    np.testing.assert_allclose(got(_a()).numpy(), want, rtol=1e-6)


def test_gradients_flow_through_operators():
    a = _a(requires_grad=True)
    with dk.Tape() as tape:
        b = a * a
        b += a
        b *= 3.0
    tape.backward(grads={b: dk.ones(3)})
    np.testing.assert_allclose(a.grad.numpy(), 3 * (2 * A + 1))


def test_vectors_and_integers():
    v = dk.array(np.arange(6, dtype=np.float32).reshape(2, 3), dtype=dk.vec3)
    np.testing.assert_allclose((v + v * 2.0).numpy(), 3 * np.arange(6).reshape(2, 3))
    assert (dk.array([1, 2]) * 2).dtype == dk.int64
    assert (dk.array(A.astype(np.float16)) * 2).dtype == dk.float16


def test_transposed_and_reshaped():
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    a = dk.array(values, requires_grad=True)
    np.testing.assert_array_equal(a.T.numpy(), values.T)
    cube = dk.zeros((2, 3, 4), dtype=dk.vec2)
    assert cube.transpose((1, 2, 0)).shape == (3, 4, 2)
    with pytest.raises(ValueError, match="are not"):
        cube.transpose((0, 0, 1))
    with dk.Tape() as tape:
        flat = a.T.reshape(-1)  # copies
        loss = flat * dk.array(np.arange(6, dtype=np.float32))
    tape.backward(grads={loss: dk.ones(6)})
    np.testing.assert_array_equal(a.grad.numpy(), np.arange(6).reshape(3, 2).T)


def test_views_as_another_type():
    a = _a()
    assert a.view(dk.int32).numpy().tolist() == A.view(np.int32).tolist()
    assert dk.zeros((2, 4), dtype=dk.vec4)[:, ::2].view(dk.quat).dtype == dk.quat
    assert dk.zeros(4, dtype=dk.vec2).view(dk.float64).shape == (4,)
    with pytest.raises(ValueError, match="not of the same size"):
        a.view(dk.float64)


def test_arrays_over_an_address():
    gone = []
    base = np.arange(6, dtype=np.float32)
    a = dk.array(ptr=base.ctypes.data, shape=(3,), strides=(8,), dtype=float, deleter=lambda *what: gone.append(what))
    a.fill_(7.0)
    assert base.tolist() == [7, 1, 7, 3, 7, 5]
    del a
    assert gone == [(base.ctypes.data, 20)]
    with pytest.raises(ValueError, match="take 24 bytes, and there are 20"):
        dk.array(ptr=base.ctypes.data, shape=6, dtype=float, capacity=20)


def test_what_c_programs_see():
    a = dk.zeros((2, 3), dtype=dk.vec3, requires_grad=True)
    c = a.__ctype__()
    assert (c.data, c.grad, c.ndim, c.shape[1], c.strides[0]) == (a.ptr, a.grad.ptr, 2, 3, 36)
    assert a.capacity == 72


def test_a_number_of_elements():
    assert dk.zeros(n=3).shape == dk.full(n=3, value=2).shape == dk.ones(n=3).shape == dk.empty(n=3).shape
    with pytest.raises(TypeError, match="in its place n= is the number of elements"):
        dk.zeros()


def test_integers_require_no_gradient():
    with pytest.warns(UserWarning, match="requires_grad has no effect"):
        assert not dk.zeros(3, dtype=int, requires_grad=True).requires_grad


# -- map ---------------------------------------------------------------------------------------------------------------


@dk.func
def both(x: float, y: float):
    return x + y, x * y


def squared(x):
    return x * x


def test_map_takes_functions_of_every_kind():
    a, factor = _a(), 3.0
    for function in (dk.sin, dk.sqrt, squared, lambda x: x * factor):
        np.testing.assert_allclose(dk.map(function, a).numpy(), [function(float(x)) for x in A], rtol=1e-6)
    total, product = dk.map(both, a, 2.0)
    assert (total.list(), product.list()) == ([3, 4, 6], [2, 4, 8])
    assert dk.map(dk.dot, dk.full(2, dk.vec3(1, 2, 3)), dk.vec3(1, 1, 1)).list() == [6, 6]


def test_map_broadcasts_and_writes():
    column, out = dk.array(A.reshape(3, 1)), dk.zeros((3, 3))
    assert dk.map(dk.add, column, _a(), out=out) is out
    np.testing.assert_array_equal(out.numpy(), A.reshape(3, 1) + A)
    with pytest.raises(ValueError, match="the results have shape"):
        dk.map(dk.add, column, _a(), out=dk.zeros(3))


def test_map_gives_its_kernel():
    kernel = dk.map(squared, _a(), return_kernel=True)
    y = dk.zeros(3)
    dk.launch(kernel, 3, [_a(), y])
    assert y.list() == [1, 4, 16]
    assert dk.map(squared, _a(), return_kernel=True) is kernel


def test_map_is_differentiated():
    a = _a(requires_grad=True)
    with dk.Tape() as tape:
        y = dk.map(lambda x, s: dk.exp(s * x), a, 0.5)
    assert y.requires_grad
    tape.backward(grads={y: dk.ones(3)})
    np.testing.assert_allclose(a.grad.numpy(), 0.5 * np.exp(0.5 * A), rtol=1e-5)


def test_what_map_refuses():
    with pytest.raises(dk.MisuseError, match="none are given"):
        dk.map(squared, 1.0)
    with pytest.raises(dk.MisuseError, match="not 3"):
        dk.map(3, _a())


# -- elements ----------------------------------------------------------------------------------------------------------


@dk.struct
class Ball:
    pos: dk.vec3
    mass: float


def test_numbers_become_components():
    flat = np.arange(12, dtype=np.float32)
    assert dk.array(flat, dtype=dk.vec3).shape == (4,)
    assert dk.array(flat.reshape(3, 4), dtype=dk.mat22).shape == (3,)
    assert dk.array(flat.reshape(4, 3, 1), dtype=dk.vec3).shape == (4,)
    assert dk.array([], dtype=dk.vec2).shape == (0,)
    with pytest.raises(ValueError, match="must be the components"):
        dk.array(flat[:5], dtype=dk.vec3)


def test_filled_with_components():
    m = dk.zeros(2, dtype=dk.mat22)
    m.fill_((1, 2, 3, 4))
    assert m[1] == dk.mat22(1, 2, 3, 4)
    flags = dk.zeros(2, dtype=bool)
    flags.fill_(17)
    assert flags.list() == [True, True]


def test_structs_and_numpy():
    ball = Ball(dk.vec3(1, 2, 3), 4.0)
    balls = np.zeros(2, Ball.numpy_dtype())
    balls[1] = ball.numpy_value()
    assert dk.array(balls, dtype=Ball)[1] == ball
    assert ball.to("cpu") == ball
    assert np.zeros(2, dk.float64).dtype == np.float64
