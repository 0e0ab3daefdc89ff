"""``wp.func_native`` with an adjoint in C++: it replaces the derivative of the body, as in Warp."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import diffkern as dk
import diffkern.warp as wp
from diffkern.warp.snippets import NativeFunction


@wp.func_native("float sq = x * x;\nreturn sq;", "adj_x += 3 * x * adj_ret;")
def bent_square(x: float) -> float: ...


@wp.func_native(
    "out[tid] = a * x[tid] + y[tid];",
    """
    adj_a += x[tid] * adj_out[tid];
    adj_x[tid] += 2.0 * a * adj_out[tid];
    adj_y[tid] += adj_out[tid];
    adj_out[tid] = 0.0f;
    """,
)
def saxpy(a: wp.float32, x: wp.array[wp.float32], y: wp.array[wp.float32], out: wp.array[wp.float32], tid: int): ...


@wp.func_native("to = value * 2.0f;", "adj_value += 5.0f * adj_to; adj_to = 0.0f;")
def stored(to: wp.ref[wp.float32], value: wp.float32): ...


@wp.func_native("total = total + wp::dot(v, v);", "if (s > 0) { adj_v = adj_v + v * (4.0f * adj_total); }")
def added(total: wp.ref[wp.float32], v: wp.vec3, s: int): ...


@wp.kernel
def all_of_them(x: wp.array[float], y: wp.array[float], middle: wp.array[float], out: wp.array2d[float]):
    i = wp.tid()
    saxpy(bent_square(x[i]), x, y, middle, i)
    stored(out[i, 1], middle[i])


@wp.kernel
def of_vectors(v: wp.array[wp.vec3], first: wp.array[float], out: wp.array[float]):
    i = wp.tid()
    total = 2.0 * first[i]
    added(total, v[i], i)
    out[i] = 10.0 * total


def floats(*values: float) -> Any:
    return wp.array(list(values), dtype=float, requires_grad=True)


def test_an_adjoint_in_c_is_the_derivative() -> None:
    x, y, middle, out = floats(1, 2, 3), floats(4, 5, 6), floats(0, 0, 0), wp.zeros((3, 2), requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(all_of_them, 3, inputs=[x, y], outputs=[middle, out])
    np.testing.assert_allclose(middle.numpy(), [5, 13, 33])
    np.testing.assert_allclose(out.numpy()[:, 1], [10, 26, 66])
    tape.backward(grads={out: wp.array([[7.0, 1.0]] * 3, dtype=float)})
    at = np.array([1.0, 2.0, 3.0])
    np.testing.assert_allclose(x.grad.numpy(), 5 * (at * 3 * at + 2 * at**2))
    np.testing.assert_allclose(y.grad.numpy(), 5.0)
    np.testing.assert_allclose(middle.grad.numpy(), 0.0)
    np.testing.assert_allclose(out.grad.numpy(), [[7.0, 0.0]] * 3)


def test_cotangents_of_vectors_and_of_what_stays() -> None:
    v, first = wp.array([[1, 2, 3], [4, 5, 6]], dtype=wp.vec3, requires_grad=True), floats(0.5, 0.5)
    out = floats(0, 0)
    with wp.Tape() as tape:
        wp.launch(of_vectors, 2, inputs=[v, first, out])
    np.testing.assert_allclose(out.numpy(), [150, 780])
    tape.backward(grads={out: wp.array([1.0, 2.0], dtype=float)})
    np.testing.assert_allclose(v.grad.numpy(), [[0, 0, 0], [320, 400, 480]])
    np.testing.assert_allclose(first.grad.numpy(), [20, 40])


@pytest.mark.parametrize(
    ("body", "adjoint", "reason"),
    [
        ("x = y * 2.0f;", "adj_y += x * adj_x;", "its adjoint reads x, which it changes"),
        ("if (y > 0.0f) return; x = y;", "adj_y += adj_x;", "the body returns early"),
        ("x = y;", "if (y > 0.0f) return; adj_y += adj_x;", "the adjoint returns early"),
        ("x = y;", "adj_z += adj_x;", "the statement adj_z"),
    ],
)
def test_other_adjoints_are_refused(body: str, adjoint: str, reason: str) -> None:
    @wp.func_native(body, adjoint)
    def native(x: wp.ref[wp.float32], y: wp.float32): ...

    assert isinstance(native, NativeFunction)
    with pytest.raises(dk.MisuseError, match=reason):
        native(1.0, 2.0)


def test_names_of_cotangents_are_no_parameters() -> None:
    @wp.func_native("return adj_x;", "adj_x += adj_ret;")
    def native(adj_x: wp.float32) -> wp.float32: ...

    with pytest.raises(dk.MisuseError, match="a parameter adj_x: give that another name"):
        native(1.0)


def test_an_array_is_indexed_without_its_data() -> None:
    @wp.func_native("out[2 * i] = x[i] + x.data[0];")
    def spread(x: wp.array[wp.int32], out: wp.array[wp.int32], i: int): ...

    @wp.kernel
    def spread_all(x: wp.array[wp.int32], out: wp.array[wp.int32]):
        spread(x, out, wp.tid())

    out = wp.zeros(5, dtype=int)
    wp.launch(spread_all, 3, inputs=[wp.array([4, 5, 6], dtype=int), out])
    np.testing.assert_array_equal(out.numpy(), [8, 0, 9, 0, 10])
