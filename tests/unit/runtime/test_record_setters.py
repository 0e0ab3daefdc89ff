"""Setting parameters of a record: the native path and the longer one, which must not be told apart by results."""

from __future__ import annotations

import gc
import threading
import weakref

import numpy as np
import pytest

import diffkern as dk
from diffkern.runtime.native.setter import Setter


@dk.kernel
def scale(x: dk.array(dtype=float), a: float, y: dk.array(dtype=float)):
    i = dk.tid()
    y[i] = a * x[i]


@dk.kernel
def both(x: dk.array(dtype=float), y: dk.array(dtype=float), z: dk.array(dtype=float)):
    i = dk.tid()
    y[i] = 2.0 * x[i]
    z[i] = 3.0 * x[i]


@dk.kernel
def spin(count: int, y: dk.array(dtype=float)):
    i = dk.tid()
    s = y[i]
    for _ in range(count):
        s = 0.5 * s + 1.0
    y[i] = s


def stored(scalar):
    """A kernel that stores a number of one type, and an array for it."""

    def keep(value, out):
        out[dk.tid()] = value

    keep.__annotations__ = {"value": scalar, "out": dk.array(dtype=scalar)}
    return dk.kernel(keep), dk.zeros(1, dtype=scalar)


def floats(*values, grad=False):
    return dk.array(np.array(values, dtype=np.float32), requires_grad=grad)


INTEGERS = [dk.int8, dk.int16, dk.int32, dk.int64, dk.uint8, dk.uint16, dk.uint32, dk.uint64]


@pytest.mark.parametrize("scalar", INTEGERS, ids=str)
def test_integers_to_their_limits(scalar):
    kernel, out = stored(scalar)
    record = dk.launch(kernel, 1, [1], [out], record_cmd=True)
    limits = np.iinfo(out.numpy().dtype)
    for value in (0, 1, int(limits.min), int(limits.max), np.int64(7), np.uint8(9)):
        record.set_param_at_index(0, value)
        record.launch()
        assert out.numpy()[0] == value
    for value in (int(limits.min) - 1, int(limits.max) + 1, 2**200, -(2**200), 1.0, np.float32(1.0), "1"):
        with pytest.raises((dk.LaunchError, TypeError), match="'value'"):
            record.set_param_at_index(0, value)
        record.launch()
        assert out.numpy()[0] == 9


@pytest.mark.parametrize("scalar", [dk.float32, dk.float64], ids=str)
def test_floats_of_every_width(scalar):
    kernel, out = stored(scalar)
    record = dk.launch(kernel, 1, [1.0], [out], record_cmd=True)
    for value in (
        0.1,
        -2.5,
        3,
        True,
        np.float32(0.1),
        np.float64(0.3),
        float("inf"),
        float("-inf"),
        float("nan"),
        -0.0,
    ):
        record.set_param_at_index(0, value)
        record.launch()
        found = out.numpy().tobytes()
        dk.launch(kernel, 1, [value], [out])
        assert found == out.numpy().tobytes()


@pytest.mark.parametrize(
    ("t", "value", "other"), [(dk.float16, 1.0, 0.1), (dk.vec2h, dk.vec2h(1.0, 2.0), dk.vec2h(0.1, -3.0))], ids=str
)
def test_halves_by_value(t, value, other):
    kernel, out = stored(t)
    record = dk.launch(kernel, 1, [value], [out], record_cmd=True)
    for number in (value, other):
        record.set_param_at_index(0, number)
        record.launch()
        assert np.array_equal(out.numpy()[0], np.asarray(number, np.float16))


def test_a_float_that_does_not_fit_and_one_that_just_does():
    kernel, out = stored(dk.float32)
    record = dk.launch(kernel, 1, [1.0], [out], record_cmd=True)
    largest = float(np.finfo(np.float32).max)
    record.set_param_at_index(0, largest)
    for value in (largest * 1.01, 10**400, 10**40, "x", None, 1j):
        with pytest.raises(dk.LaunchError, match="'value'"):
            record.set_param_at_index(0, value)
    record.launch()
    assert out.numpy()[0] == np.float32(largest)


def test_what_was_set_shows_everywhere_else():
    x, other, y = floats(1, 2, grad=True), floats(3, 4, grad=True), dk.zeros(2, requires_grad=True)
    record = dk.launch(scale, 2, [x, 1.0], [y], record_cmd=True)
    record.set_param_at_index(0, other)
    record.set_param_at_index(1, 5.0)
    record.set_param_at_index(1, 6.0)
    assert record.arrays["x"] is other
    adjoint = record.adjoint()
    y.grad.fill_(1.0)
    adjoint.launch()
    assert other.grad.numpy().tolist() == [6, 6]
    adjoint.set_param_at_index(1, 7)
    y.grad.fill_(1.0)
    adjoint.launch()
    assert other.grad.numpy().tolist() == [13, 13]
    with dk.Tape() as tape:
        record.launch()
    assert y.numpy().tolist() == [18, 24]
    other.grad.zero_()
    tape.backward(grads={y: floats(1, 10)})
    assert other.grad.numpy().tolist() == [6, 60]
    with dk.record() as sequence:
        record.launch()
    y.zero_()
    sequence.replay()
    assert y.numpy().tolist() == [18, 24]
    record.set_dim(1)
    y.zero_()
    record.launch()
    assert y.numpy().tolist() == [18, 0]
    record.set_param_at_index(1, 2.0)
    record.launch()
    assert y.numpy().tolist() == [6, 0]


def test_outputs_take_turns_and_the_tape_sees_each_change():
    x, y, z = floats(1, 2), dk.zeros(2), dk.zeros(2)
    spare = dk.zeros(2)
    record = dk.launch(both, 2, [x], [y, z], record_cmd=True)
    before = [a._memory.now for a in (y, z, spare)]
    record.launch()
    for goal in (spare, y, spare):
        record.set_param_at_index(1, goal)
        x.fill_(float(before[0] + 1))
        goal.zero_()
        z.zero_()
        changes = [a._memory.now for a in (goal, z)]
        record.launch()
        assert goal.numpy().tolist() == [2.0 * x.numpy()[0]] * 2
        assert z.numpy().tolist() == [3.0 * x.numpy()[0]] * 2
        assert all(a._memory.now > n for a, n in zip((goal, z), changes, strict=True))
    with pytest.raises(dk.LaunchError, match="read-only"):
        record.set_param_at_index(1, dk.array(np.broadcast_to(np.float32(0), 2), copy=False))
    same = y.numpy()
    record.set_param_at_index(1, same)
    record.launch()
    assert same.tolist() == [2.0 * x.numpy()[0]] * 2


def test_arrays_are_let_go_at_once_and_kept_as_long_as_needed():
    record = dk.launch(scale, 1, [floats(1), 1.0], [dk.zeros(1)], record_cmd=True)
    record.set_param_at_index(0, floats(2))
    first = floats(3)
    alive = weakref.ref(first)
    record.set_param_at_index(0, first)
    del first
    gc.collect()
    assert alive() is not None
    record.set_param_at_index(0, floats(4))
    assert alive() is None
    setter, last = record.set_param_at_index, floats(5)
    alive = weakref.ref(last)
    setter(0, last)
    del last, record
    assert alive() is not None
    setter(1, 2.0)
    setter(index=0, value=floats(6))
    assert alive() is None


def test_setting_waits_for_a_launch_in_progress():
    y = dk.zeros(1)
    record = dk.launch(spin, 1, [200_000_000], [y], record_cmd=True)
    record.set_param_at_index(0, 100_000_000)
    began = threading.Event()

    def work():
        began.set()
        record.launch()

    thread = threading.Thread(target=work)
    thread.start()
    began.wait()
    for count in (3, 4, 5):
        record.set_param_at_index(0, count)
    thread.join()
    y.zero_()
    record.launch()
    assert y.numpy()[0] == np.float32(2 - 2**-4)


def test_a_record_that_runs_nothing_or_was_released_goes_the_longer_way():
    x, y = floats(1, 2), dk.zeros(2)
    record = dk.launch(scale, 0, [x, 1.0], [y], record_cmd=True)
    record.set_param_at_index(1, 2.0)
    record.set_dim(2)
    record.launch()
    assert y.numpy().tolist() == [2, 4]
    record.set_param_at_index(1, 3.0)
    record.release()
    with pytest.raises(dk.LaunchError, match="released"):
        record.set_param_at_index(1, 2.0)


def test_arguments_of_the_setter():
    record = dk.launch(scale, 1, [floats(1), 1.0], [dk.zeros(1)], record_cmd=True)
    record.set_param_at_index(1, value=2.0)
    record.set_param_at_index(np.int64(1), 2.0)
    for index in (True, 2**70, -1):
        with pytest.raises((dk.LaunchError, TypeError)):
            record.set_param_at_index(index, "nothing")
    for wrong in ((), (1,), (1, 2.0, False, 4)):
        with pytest.raises(TypeError, match="argument"):
            record.set_param_at_index(*wrong)
    assert "value" in record.set_param_at_index.__doc__


def test_without_a_native_pool_the_longer_way_is_the_only_one(monkeypatch):
    monkeypatch.setattr("diffkern.runtime.native.pool.functions", dict)
    setter = Setter(1, dk.array)
    assert setter.call(print) is print
    x, y = floats(1, 2), dk.zeros(2)
    record = dk.launch(scale, 2, [x, 1.0], [y], record_cmd=True)
    record.set_param_at_index(1, 2.0)
    record.set_param_at_index(0, floats(5, 6))
    record.launch()
    assert y.numpy().tolist() == [10, 12]


# -- structs ---------------------------------------------------------------------------------------------------------


@dk.struct
class Inner:
    v: dk.vec3
    flag: bool


@dk.struct
class Settings:
    a: float
    n: dk.int16
    inner: Inner
    m: dk.mat22
    x: dk.array(dtype=float)


@dk.kernel
def use(s: Settings, z: dk.array(dtype=float), b: float, y: dk.array(dtype=float)):
    i = dk.tid()
    total = s.a * s.x[i] + float(s.n) + s.inner.v[1] + s.m[0, 1] + b * z[i]
    if s.inner.flag:
        total = -total
    y[i] = total


def expected(s, z, b):
    total = s.a * s.x.numpy() + s.n + s.inner.v[1] + s.m[0, 1] + b * z.numpy()
    return -total if s.inner.flag else total


def settings(x, a=2.0):
    return Settings(a, 3, Inner(dk.vec3(1.0, 4.0, 2.0), False), np.array([[1, 5], [6, 7]], np.float32, order="F"), x)


def test_structs_and_what_stands_beside_them():
    x, z, y = floats(1, 2, grad=True), floats(10, 20), dk.zeros(2, requires_grad=True)
    s = settings(x)
    record = dk.launch(use, 2, [s, z, 0.5], [y], record_cmd=True)
    b = 0.5
    for step in range(3):
        s.a, s.n, s.inner.flag = 3.0 + step, -step, step % 2 == 0
        s.inner.v = dk.vec3(0.0, 8.0 * step, 0.0)
        s.m[0, 1] = step
        record.set_param_at_index(0, s)
        record.set_param_at_index(2, b := b + 1)
        record.set_param_at_index(1, z := floats(step, 2))
        record.launch()
        np.testing.assert_allclose(y.numpy(), expected(s, z, b), rtol=1e-6)
    adjoint = record.adjoint()
    y.grad.fill_(1.0)
    adjoint.launch()
    assert x.grad.numpy().tolist() == [-5, -5]
    s.a, s.inner.flag = 7.0, False
    adjoint.set_param_by_name("s", s)
    x.grad.zero_()
    y.grad.fill_(1.0)
    adjoint.launch()
    assert x.grad.numpy().tolist() == [7, 7]


def test_a_struct_with_another_array_or_of_another_class():
    x, y = floats(1, 2), dk.zeros(2)
    record = dk.launch(use, 2, [settings(x), x, 1.0], [y], record_cmd=True)
    other = settings(floats(5, 9), a=1.0)
    for _ in range(2):
        record.set_param_at_index(0, other)
        record.launch()
        np.testing.assert_allclose(y.numpy(), expected(other, x, 1.0), rtol=1e-6)
    with pytest.raises(dk.KernelError, match="is None in this launch"):
        record.set_param_at_index(0, settings(None))
    for wrong in (Inner(), 1.0, None):
        with pytest.raises(dk.LaunchError, match="'s'"):
            record.set_param_at_index(0, wrong)
    record.launch()
    np.testing.assert_allclose(y.numpy(), expected(other, x, 1.0), rtol=1e-6)


@dk.struct
class Halves:
    h: dk.vec2h
    b: dk.bfloat16


@dk.kernel
def halves(s: Halves, y: dk.array(dtype=float)):
    y[dk.tid()] = float(s.h[0]) + float(s.h[1]) + float(s.b)


def test_fields_that_are_passed_in_another_type_than_held():
    y = dk.zeros(1)
    s = Halves(dk.vec2h(1.0, 2.0), 0.1)
    record = dk.launch(halves, 1, [s], [y], record_cmd=True)
    for value in (3.0, 4.0):
        s.h = dk.vec2h(value, 0.5)
        s.b = value / 3
        record.set_param_at_index(0, s)
        record.launch()
        found = y.numpy()[0]
        dk.launch(halves, 1, [s], [y])
        assert found == y.numpy()[0]


@dk.kernel
def doubled(x: dk.array(dtype=float, ndim=2), y: dk.array(dtype=float, ndim=2)):
    i, j = dk.tid()
    y[i, j] = 2.0 * x[i, j]


def test_launches_without_threads_have_extents_of_any_size():
    x, y = (dk.ones((1, 1), dtype=float, requires_grad=True) for _ in range(2))
    record = dk.launch(doubled, (1, 1), [x], [y], record_cmd=True)
    assert (record.bounds.shape, record.bounds.ndim, record.bounds.size) == ((1, 1), 2, 1)
    record.set_dim((0, 2**31 + 1))
    assert (record.bounds.shape, record.bounds.size) == ((0, 2**31 + 1), 0)
    record.launch()
    with dk.Tape() as tape:
        dk.launch(doubled, (2**40, 0), [x], [y])
    tape.backward(grads={y: dk.ones((1, 1), dtype=float)})
    np.testing.assert_array_equal([y.numpy(), x.grad.numpy()], [[[1.0]], [[0.0]]])
    for dim in ((1, 2**31), (-1, 0), (2**62, 0)):
        with pytest.raises(dk.LaunchError, match=r"2\*\*31|than can be counted"):
            record.set_dim(dim)
    assert record.bounds.shape == (0, 2**31 + 1)
