"""What an interactive session and messages show of arrays."""

from __future__ import annotations

import numpy as np
import pytest

import diffkern as dk
from diffkern.errors import described


@dk.struct
class Ball:
    mass: dk.float32
    at: dk.vec3


@dk.struct
class Holder:
    held: dk.array(dtype=float)


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (lambda: dk.array([1.0, 2.5], dtype=float), "array([1. , 2.5], shape=(2,), dtype=float32)"),
        (lambda: dk.array([1], dtype=int), "array([1], shape=(1,), dtype=int32)"),
        (lambda: dk.array([True, False]), "array([ True, False], shape=(2,), dtype=bool)"),
        (lambda: dk.array([1 + 2j]), "array([1.+2.j], shape=(1,), dtype=complex128)"),
        (lambda: dk.array([1.5], dtype=dk.bfloat16), "array([1.5], shape=(1,), dtype=bfloat16)"),
        (lambda: dk.zeros(0), "array([], shape=(0,), dtype=float32)"),
        (lambda: dk.array([[1, 2, 3]], dtype=dk.vec3), "array([[1., 2., 3.]], shape=(1,), dtype=vec3)"),
        (lambda: dk.array([Ball(2.0, dk.vec3(1.0))]), "array([(2., [1., 1., 1.])], shape=(1,), dtype=Ball)"),
        (lambda: dk.array(np.arange(6))[::2], "array([0, 2, 4], shape=(3,), dtype=int64)"),
        (lambda: dk.ones(1, requires_grad=True), "array([1.], shape=(1,), dtype=float32, requires_grad=True)"),
        (lambda: dk.zeros(1, dtype=Holder), "array(shape=(1,), dtype=Holder)"),  # its elements are addresses
    ],
)
def test_arrays_are_shown(made, text):
    assert repr(made()) == text


def test_lines_of_many_axes():
    assert repr(dk.array([[1, 2], [3, 4]])) == "array([[1, 2],\n       [3, 4]],\n      shape=(2, 2), dtype=int64)"


@pytest.mark.parametrize("shape", [(5000,), (100, 70), (2, 3000), (20, 3, 40), (7, 8, 9, 10)])
def test_a_long_array_is_shortened_as_numpy_shortens_it(shape):
    data = np.arange(np.prod(shape)).reshape(shape)
    shown = np.array2string(data, separator=", ", prefix="array(")
    assert repr(dk.array(data)).startswith(f"array({shown},")


def test_the_options_of_numpy_count():
    with np.printoptions(threshold=4, edgeitems=1, precision=2):
        assert repr(dk.array([0.111, 1, 2, 3, 4.0])) == "array([0.11, ..., 4.  ], shape=(5,), dtype=float64)"


def test_in_text_values_alone():
    assert str(dk.zeros(2)) == "[0. 0.]"
    assert str(dk.array([1.5], dtype=dk.bfloat16)) == "[1.5]"
    assert float(dk.array([1.5], dtype=dk.bfloat16)) == 1.5


def test_messages_name_arrays_without_values():
    a = dk.zeros(3)
    assert described(a) == "array(shape=(3,), dtype=float32)"
    assert described([a, (1,)]) == "[array(shape=(3,), dtype=float32), (1,)]"
    with pytest.raises(ValueError, match=r"^array\(shape=\(3,\), dtype=float32\) has 3 elements; item"):
        a.item()


@pytest.mark.parametrize("shape", [10**6, (1000, 1000)])
@pytest.mark.parametrize("turned", [False, True])
def test_of_a_large_array_on_a_gpu_little_is_copied(driver, shape, turned):
    data = np.arange(10**6, dtype=np.float32).reshape(shape)
    a, expected = dk.array(data, device="cuda:0"), data
    if turned:
        a, expected = a.transpose(), data.T
    asked = []
    copy = driver.copy_to_host
    driver.copy_to_host = lambda goal, source, nbytes, stream: (
        asked.append(nbytes),
        copy(goal, source, nbytes, stream),
    )
    shown = np.array2string(expected, separator=", ", prefix="array(")
    text = repr(a)
    assert text.startswith(f"array({shown},")
    assert "device=cuda:0" in text
    assert 0 < sum(asked) < 1000


def test_while_work_is_captured_there_are_no_values(driver):
    a = dk.zeros(3, device="cuda:0")
    with dk.ScopedCapture("cuda:0"):
        assert repr(a) == "array(shape=(3,), dtype=float32)"
    assert repr(a) == "array([0., 0., 0.], shape=(3,), dtype=float32, device=cuda:0)"
