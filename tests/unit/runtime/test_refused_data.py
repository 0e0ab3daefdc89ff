"""Data that would lose something on the way into an array or a launch: masks, width, extents."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

import diffkern as dk


@dk.kernel
def scale(x: dk.array(dtype=float), a: float, y: dk.array(dtype=float)):
    i = dk.tid()
    y[i] = a * x[i]


@dk.struct
class Pair:
    v: dk.vec2
    data: dk.array(dtype=dk.uint8)


def _masked():
    return np.ma.array(np.float32([1, 2]), mask=[False, True])


USES = {
    "array": dk.array,
    "array over it": lambda m: dk.array(m, copy=False),
    "in a list": lambda m: dk.array([m, m]),
    "a masked number in a list": lambda _: dk.array([1.0, np.ma.masked]),
    "from_numpy": dk.from_numpy,
    "assign": lambda m: dk.zeros(2).assign(m),
    "item": lambda m: dk.zeros(2).__setitem__(slice(None), m),
    "fill": lambda m: dk.zeros(2, dtype=dk.vec2).fill_(m),
    "field": lambda m: Pair(v=m),
    "gradient": lambda m: setattr(dk.zeros(2), "grad", m),
    "interface": lambda m: dk.launch(scale, dim=2, inputs=[_Described(), 1.0, dk.zeros(2)]),
}


class _Described:
    def __init__(self):
        self.kept = np.float32([1, 2])
        self.__array_interface__ = {**self.kept.__array_interface__, "mask": np.array([True, False])}


@pytest.mark.parametrize("use", USES)
def test_masked_arrays_are_refused(use):
    with pytest.raises((TypeError, dk.LaunchError), match="would lose its mask"):
        USES[use](_masked())


def test_masked_arguments_are_refused():
    y = dk.zeros(2)
    with pytest.raises(dk.LaunchError, match=r"parameter 'x': .*would lose its mask.*"):
        dk.launch(scale, dim=2, inputs=[_masked(), 1.0, y])
    with pytest.raises(dk.LaunchError, match=r"parameter 'a': .*would lose its mask"):
        dk.launch(scale, dim=2, inputs=[dk.zeros(2), np.ma.array(np.float32(1), mask=True), y])
    x = dk.zeros(2, requires_grad=True)
    with dk.Tape() as tape:
        dk.launch(scale, dim=2, inputs=[x, 1.0, y])
    with pytest.raises(TypeError, match="would lose its mask"):
        tape.backward(grads={y: _masked()})
    assert dk.array(_masked().filled(5.0)).list() == [1.0, 5.0]


@dk.kernel
def place(v: dk.vec2i, y: dk.array(dtype=int)):
    y[dk.tid()] = v[0]


def test_components_that_do_not_fit_are_refused():
    y = dk.zeros(1, dtype=int)
    place[1](np.array([7, 8]), y)
    assert y.list() == [7]
    for wrong in (np.array([2**40, 1]), np.array([0.5, 1.0]), [2**40, 1]):
        with pytest.raises(dk.LaunchError, match="parameter 'v': takes vec2<int32>, not"):
            place[1](wrong, y)


@dk.kernel
def several(a: float, d: dk.float64, n: int, v: dk.vec3, b: bool, y: dk.array(dtype=dk.float64)):
    y[dk.tid()] = dk.float64(a) + d + dk.float64(n) + dk.float64(v[0])


FITTING = [ctypes.c_float(1), ctypes.c_double(2), ctypes.c_int32(3), (ctypes.c_float * 3)(4, 5, 6), ctypes.c_bool(1)]


@pytest.fixture
def record():
    y = dk.zeros(1, dtype=dk.float64)
    made = dk.launch(several, dim=1, inputs=[0.0, 0.0, 0, dk.vec3(), False, y], record_cmd=True)
    return made, y


def test_values_of_ctypes_of_the_very_type(record):
    made, y = record
    for k, value in enumerate(FITTING):
        made.set_param_at_index_from_ctype(k, value)
    made.launch()
    assert y.list() == [10.0]


@pytest.mark.parametrize(
    ("index", "value"),
    [
        (0, ctypes.c_double(1)), (0, ctypes.c_int32(1)), (1, ctypes.c_float(1)), (2, ctypes.c_int64(1)),
        (2, ctypes.c_uint32(1)), (2, ctypes.c_float(1)), (2, ctypes.c_bool(1)), (3, (ctypes.c_double * 3)(1, 2, 3)),
        (3, (ctypes.c_int32 * 3)(1, 2, 3)), (3, (ctypes.c_float * 2)(1, 2)), (4, ctypes.c_int32(1)),
    ],
)  # fmt: skip
def test_values_of_ctypes_of_another_type_are_refused(record, index, value):
    made, y = record
    name = "adnvb"[index]
    with pytest.raises(dk.LaunchError, match=f"parameter '{name}': takes"):
        made.set_param_at_index_from_ctype(index, value)
    with pytest.raises(dk.LaunchError, match=f"parameter '{name}': takes"):
        made.set_param_by_name_from_ctype(name, value)
    made.launch()
    assert y.list() == [0.0]


@dk.kernel
def numbers(a: float, n: int):
    dk.tid()


def test_all_values_of_ctypes_or_none():
    made = dk.launch(numbers, dim=1, inputs=[1.0, 2], record_cmd=True)
    before = list(made._record.launch.parts)
    with pytest.raises(dk.LaunchError, match="parameter 'n'"):
        made.set_params_from_ctypes([ctypes.c_float(5.0), ctypes.c_float(6.0)])
    assert made._record.launch.parts == before


LONG = 2**31 + 5


@dk.kernel
def length(x: dk.array(dtype=dk.uint8), y: dk.array(dtype=int)):
    y[dk.tid()] = x.shape[0]


@dk.kernel
def last_row(x: dk.array(dtype=dk.uint8, ndim=2), y: dk.array(dtype=int)):
    y[dk.tid()] = len(x)


@dk.kernel
def element(x: dk.array(dtype=dk.uint8), y: dk.array(dtype=int)):
    y[dk.tid()] = int(x[7])


@dk.kernel
def held(p: Pair, y: dk.array(dtype=int)):
    y[dk.tid()] = p.data.shape[0]


def _long(*shape):
    return dk.array(np.broadcast_to(np.uint8(9), shape), copy=False)


def test_a_shape_that_int32_does_not_hold_is_refused():
    y = dk.zeros(1, dtype=int)
    with pytest.raises(dk.LaunchError, match=r"parameter 'x': the kernel reads its shape"):
        length[1](_long(LONG), y)
    with pytest.raises(dk.LaunchError, match=r"parameter 'x': the kernel reads its shape"):
        last_row[1](_long(3, LONG), y)
    with pytest.raises(dk.LaunchError, match=r"parameter 'p': the kernel reads its shape"):
        held[1](Pair(data=_long(LONG)), y)
    record = dk.launch(length, dim=1, inputs=[_long(4), y], record_cmd=True)
    with pytest.raises(dk.LaunchError, match=r"the kernel reads its shape"):
        record.set_param_at_index(0, _long(LONG))
    record.launch()
    assert y.list() == [4]
    length[1](_long(2**31 - 1), y)
    assert y.list() == [2**31 - 1]
    element[1](_long(LONG), y)
    assert y.list() == [9]
