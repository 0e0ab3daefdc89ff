"""Launches as a user makes them: arguments, checks, dimensions."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import diffkern as dk


@dk.kernel
def scale(x: dk.array(dtype=float), a: float, y: dk.array(dtype=float)):
    i = dk.tid()
    y[i] = a * x[i]


@dk.kernel
def generic(x, a, y):
    i = dk.tid()
    y[i] = a * x[i]


@dk.kernel
def count(total: dk.array(dtype=float)):
    dk.atomic_add(total, 0, 1.0)


@dk.kernel
def index(out: dk.array(dtype=int, ndim=4)):
    i, j, k, m = dk.tid()
    out[i, j, k, m] = 1000 * i + 100 * j + 10 * k + m


@dk.kernel
def row_sums(x: dk.array2d(dtype=float), y: dk.array(dtype=float)):
    i = dk.tid()
    s = 0.0
    for j in range(x.shape[1]):
        s += x[i, j]
    y[i] = s


@dk.kernel
def shift(x: dk.array(dtype=dk.vec3), by: dk.vec3, y: dk.array(dtype=dk.vec3)):
    i = dk.tid()
    y[i] = x[i] + by


@dk.kernel
def integers(a: dk.int8, b: dk.uint32, c: bool, out: dk.array(dtype=dk.int64)):
    out[0] = dk.int64(a) + dk.int64(b)
    if c:
        out[0] = -out[0]


@dk.kernel
def with_default(x: dk.array(dtype=float), a: float = 3.0):
    i = dk.tid()
    x[i] = a * x[i]


def floats(*values):
    return dk.array(np.array(values, dtype=np.float32))


def test_both_call_shapes_and_any_split_of_the_arguments():
    x, y = floats(1, 2, 3), dk.zeros(3)
    dk.launch(scale, dim=3, inputs=[x, 2.0], outputs=[y])
    assert y.numpy().tolist() == [2, 4, 6]
    dk.launch(scale, 3, [x, 3.0, y])
    assert y.numpy().tolist() == [3, 6, 9]
    scale[3](x, 4.0, y)
    assert y.numpy().tolist() == [4, 8, 12]
    scale[(np.int64(2),)](x, 5.0, y)
    assert y.numpy().tolist() == [5, 10, 12]


def test_a_kernel_cannot_be_called_without_a_grid():
    with pytest.raises(TypeError, match=r"scale\[n\]"):
        scale(1, 2, 3)


def test_numpy_arrays_are_used_in_place():
    x, y = np.arange(4, dtype=np.float32), np.zeros(4, dtype=np.float32)
    scale[4](x, 2, y)
    assert y.tolist() == [0, 2, 4, 6]


@pytest.mark.parametrize("view", [np.s_[::2], np.s_[::-1], np.s_[1:7:3]])
def test_strided_arrays_are_used_in_place(view):
    base = np.arange(8, dtype=np.float32)
    out = np.zeros(8, dtype=np.float32)
    n = len(base[view])
    scale[n](base[view], 2.0, out[view])
    expected = np.zeros(8, dtype=np.float32)
    expected[view] = 2 * base[view]
    assert np.array_equal(out, expected)


def test_transposed_and_fortran_arrays():
    a = np.asfortranarray(np.arange(6, dtype=np.float32).reshape(2, 3))
    y = np.zeros(2, dtype=np.float32)
    row_sums[2](a, y)
    assert y.tolist() == a.sum(axis=1).tolist()
    y = np.zeros(3, dtype=np.float32)
    row_sums[3](a.T, y)
    assert y.tolist() == a.T.sum(axis=1).tolist()


def test_a_parameter_without_annotation_takes_the_type_of_the_argument():
    for dtype in (np.float32, np.float64, np.int32, np.int64):
        x, y = np.arange(4, dtype=dtype), np.zeros(4, dtype=dtype)
        generic[4](x, dtype(3), y)
        assert y.tolist() == [0, 3, 6, 9]
    assert len(generic.programs) >= 4


def test_composites_by_value_and_in_arrays():
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    y = dk.zeros(2, dtype=dk.vec3)
    shift[2](x, dk.vec3(1, 2, 3), y)
    assert np.array_equal(y.numpy(), x + [1, 2, 3])
    shift[2](x, (1.0, 0.0, -1.0), y)
    assert np.array_equal(y.numpy(), x + np.float32([1, 0, -1]))


def test_integers_of_all_widths():
    out = dk.zeros(1, dtype=dk.int64)
    integers[1](-128, 2**32 - 1, False, out)
    assert out.numpy()[0] == 2**32 - 1 - 128
    integers[1](np.int8(1), 2, True, out)
    assert out.numpy()[0] == -3


def test_default_values():
    x = floats(1, 2)
    with_default[2](x)
    assert x.numpy().tolist() == [3, 6]
    with_default[2](x, 2.0)
    assert x.numpy().tolist() == [6, 12]


def test_four_dimensions():
    out = dk.zeros((2, 3, 4, 5), dtype=int)
    index[(2, 3, 4, 5)](out)
    i, j, k, m = np.indices((2, 3, 4, 5))
    assert np.array_equal(out.numpy(), 1000 * i + 100 * j + 10 * k + m)
    index[[1, 1, 1, 1]](out)


@pytest.mark.parametrize("n", [0, 1, 63, 64, 65, 100_001])
def test_every_thread_runs_once(n):
    total = dk.zeros(1)
    count[n](total)
    assert total.numpy()[0] == n
    total = dk.zeros(1)
    count[(n, 3)](total)
    assert total.numpy()[0] == 3 * n


def test_dim_zero_runs_nothing_and_checks_everything():
    y = dk.zeros(3)
    scale[0](floats(1, 2, 3), 2.0, y)
    assert y.numpy().tolist() == [0, 0, 0]
    with pytest.raises(dk.LaunchError, match="'a'"):
        scale[0](floats(1, 2, 3), "two", y)


def test_a_single_argument_still_needs_a_list():
    for wrong in (floats(1, 2, 3), np.ones(3, np.float32), "xyz", None):
        with pytest.raises(dk.LaunchError, match="list of arguments"):
            dk.launch(scale, 3, inputs=wrong)


@pytest.mark.parametrize(
    "dim", [-1, (2, -1), 2**31, (), (1, 1, 1, 1, 1), 2.0, (2.0,), "3", None, ([1], 2), (2**30, 2**30, 2**30)]
)
def test_bad_dimensions(dim):
    with pytest.raises(dk.LaunchError, match="dim"):
        dk.launch(scale, dim, [floats(1), 1.0, dk.zeros(1)])


BAD = {
    "too few": ([floats(1), 1.0], "takes 3 arguments"),
    "too many": ([floats(1), 1.0, dk.zeros(1), 4], "takes 3 arguments"),
    "list": ([[1.0, 2.0], 1.0, dk.zeros(1)], "'x'"),
    "dtype": ([np.zeros(3), 1.0, dk.zeros(1)], "'x'.*float64"),
    "own dtype": ([dk.zeros(3, dtype=int), 1.0, dk.zeros(1)], "'x'.*int32"),
    "ndim": ([dk.zeros((3, 3)), 1.0, dk.zeros(1)], "'x'.*array2d"),
    "vector": ([dk.zeros(3, dtype=dk.vec3), 1.0, dk.zeros(1)], "'x'.*vec3"),
    "byte order": ([np.zeros(3, dtype=">f4"), 1.0, dk.zeros(1)], "'x'"),
    "array for a number": ([floats(1), floats(2), dk.zeros(1)], "'a'"),
    "numpy array for a number": ([floats(1), np.ones(1, np.float32), dk.zeros(1)], "'a'"),
    "string": ([floats(1), "1.0", dk.zeros(1)], "'a'"),
    "None for a number": ([floats(1), None, dk.zeros(1)], "'a'"),
    "number for an array": ([1.0, 1.0, dk.zeros(1)], "'x'"),
    "too large": ([floats(1), 1e300, dk.zeros(1)], "'a'.*does not fit"),
    "huge integer": ([floats(1), 10**400, dk.zeros(1)], "'a'"),
}


@pytest.mark.parametrize("name", BAD)
def test_arguments_are_checked_before_anything_runs(name):
    arguments, message = BAD[name]
    with pytest.raises(dk.LaunchError, match=message) as caught:
        scale[1](*arguments)
    assert "'scale'" in str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [((128, 1, False), "'a'"), ((1, -1, False), "'b'"), ((1, 2**32, False), "'b'"), ((1.5, 1, True), "'a'.*integer"),
     ((1, 1, 2), "'c'"), ((1, 1, 0.5), "'c'")],
)  # fmt: skip
def test_numbers_must_fit_their_parameter(arguments, message):
    with pytest.raises(dk.LaunchError, match=message):
        integers[1](*arguments, dk.zeros(1, dtype=dk.int64))


def test_an_untyped_integer_that_needs_more_than_32_bits():
    with pytest.raises(dk.LaunchError, match=r"'a'.*int32"):
        generic[1](np.zeros(1, np.int64), 2**31, np.zeros(1, np.int64))


def test_several_wrong_arguments_are_reported_together():
    with pytest.raises(dk.LaunchError) as caught:
        scale[1](dk.zeros(1, dtype=int), 1.0, dk.zeros(1, dtype=int))
    assert len(caught.value.errors) == 2


def test_read_only_arrays():
    x = np.ones(3, dtype=np.float32)
    x.flags.writeable = False
    y = dk.zeros(3)
    scale[3](x, 2.0, y)
    assert y.numpy().tolist() == [2, 2, 2]
    with pytest.raises(dk.LaunchError, match=r"'y'.*read-only"):
        scale[3](y, 2.0, x)


def test_components_must_lie_together():
    x = np.asfortranarray(np.zeros((4, 3), dtype=np.float32))
    with pytest.raises(dk.LaunchError, match=r"'x'.*components"):
        shift[4](x, dk.vec3(), dk.zeros(4, dtype=dk.vec3))
    with pytest.raises(dk.LaunchError, match=r"'x'.*components"):
        shift[4](np.zeros((4, 2), np.float32), dk.vec3(), dk.zeros(4, dtype=dk.vec3))


def test_misaligned_memory():
    raw = np.zeros(17, dtype=np.uint8)
    with pytest.raises(dk.LaunchError, match="aligned"):
        scale[4](raw[1:].view(np.float32), 1.0, dk.zeros(4))


def test_other_devices_do_not_exist():
    with pytest.raises(ValueError, match="cuda"):
        dk.launch(scale, 1, [floats(1), 1.0, dk.zeros(1)], device="cuda:0")


def test_the_same_array_twice():
    x = floats(1, 2, 3)
    scale[3](x, 2.0, x)
    assert x.numpy().tolist() == [2, 4, 6]


def test_adjoint_arguments_belong_to_the_adjoint():
    with pytest.raises(dk.LaunchError, match="adjoint=True"):
        dk.launch(scale, 1, [floats(1), 1.0], [dk.zeros(1)], adj_inputs=[None, None])


def test_many_python_threads_at_once():
    @dk.kernel
    def fresh(x: dk.array(dtype=float), y: dk.array(dtype=float)):
        i = dk.tid()
        y[i] = x[i] + 1.0

    failures = []

    def work(seed):
        x = dk.full(10_000, float(seed))
        y = dk.zeros(10_000)
        for _ in range(20):
            fresh[10_000](x, y)
            if not (y.numpy() == seed + 1).all():
                failures.append(seed)
            y.zero_()

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert len(fresh.programs) == 1


FACTOR = 2.0


class Settings:
    offset = 1.0


@dk.func
def shaped(v):
    return v + Settings.offset


def test_captured_values_that_change_are_noticed(monkeypatch):
    exponent = 1.0

    @dk.kernel
    def fresh(x: dk.array(dtype=float), y: dk.array(dtype=float)):
        i = dk.tid()
        y[i] = FACTOR * shaped(x[i]) * exponent

    x, y = floats(1, 2), dk.zeros(2)

    def result():
        fresh[2](x, y)
        return y.numpy().tolist()

    assert result() == [4, 6]
    monkeypatch.setitem(globals(), "FACTOR", 3.0)
    assert result() == [6, 9]
    monkeypatch.setitem(globals(), "FACTOR", 1.0 + 2.0)  # another object, the same number
    assert result() == [6, 9]
    assert fresh.generation() == 1
    monkeypatch.setattr(Settings, "offset", 0.0)
    assert result() == [3, 6]
    exponent = 10.0
    assert result() == [30, 60]
    monkeypatch.undo()
    assert result() == [40, 60]


def test_a_captured_value_that_changes_before_backward_is_that_of_the_launch(monkeypatch):
    @dk.kernel
    def fresh(x: dk.array(dtype=float), y: dk.array(dtype=float)):
        i = dk.tid()
        y[i] = FACTOR * x[i]

    x, y = dk.ones(2, requires_grad=True), dk.zeros(2, requires_grad=True)
    with dk.Tape() as tape:
        fresh[2](x, y)
    monkeypatch.setitem(globals(), "FACTOR", 5.0)
    tape.backward(grads={y: np.ones(2, np.float32)})
    assert x.grad.numpy().tolist() == [2, 2]
