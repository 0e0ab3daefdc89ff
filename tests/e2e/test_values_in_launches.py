"""Launches take vectors, matrices and structs of the types of their parameters, and convert what is given otherwise."""

import itertools

import numpy as np
import pytest

import diffkern as dk
from diffkern.lang.dtypes import COMPOSITES


def kernel_of(t, struct):
    if not struct:

        @dk.kernel
        def passed(v: t, out: dk.array(dtype=t)):
            out[dk.tid()] = v

        return passed, lambda value: value

    Held = dk.struct(type(f"Held{t.__name__}", (), {"__annotations__": {"before": dk.int8, "v": t, "after": float}}))

    @dk.kernel
    def of_struct(s: Held, out: dk.array(dtype=t)):
        out[dk.tid()] = s.v

    def made(value):
        held = Held()
        held.before, held.v, held.after = 1, value, 2.0
        return held

    return of_struct, made


@pytest.mark.parametrize(
    "name", ["vec2", "vec3", "vec3d", "quat", "transform", "mat22", "mat33d", "vec3i", "vec3h", "vec2ub"]
)
@pytest.mark.parametrize("is_struct", [False, True], ids=["value", "struct"])
def test_launches_take_values_of_their_type_and_what_is_converted(name, is_struct):
    t = COMPOSITES[name]
    kernel, made = kernel_of(t, is_struct)
    numbers = np.arange(1, t.ir.size + 1).reshape(t.shape)
    for given, again in itertools.product((t(*numbers.ravel().tolist()), numbers.tolist()), range(2)):
        out = dk.zeros(2, dtype=t)
        kernel[2](made(given), out)
        np.testing.assert_array_equal(out.numpy(), [numbers, numbers], err_msg=str(again))


def test_structs_of_several_classes_in_turn():
    @dk.struct
    class FirstOfTwo:
        a: float
        v: dk.vec3

    @dk.struct
    class SecondOfTwo:
        v: dk.vec3
        n: int
        a: float

    @dk.kernel
    def weighed(s, out: dk.array[float]):
        out[0] = s.a * s.v[1]

    out = dk.zeros(1)
    for k in range(1, 7):
        s = (FirstOfTwo, SecondOfTwo)[k % 2]()
        s.a, s.v = float(k), dk.vec3(0.0, 2.0, 0.0)
        weighed[1](s, out)
        assert out.numpy()[0] == 2 * k
