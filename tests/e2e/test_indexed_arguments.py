"""Arrays seen through index arrays: in kernels, their gradients, on the host."""

import numpy as np
import pytest

import diffkern as dk

F1 = dk.array(dtype=float)
F2 = dk.array(dtype=float, ndim=2)


@dk.kernel
def squares(a: dk.indexedarray(dtype=float, ndim=2), y: F2):
    i, j = dk.tid()
    y[i, j] = a[i, j] * a[i, j] + float(a.shape[0]) + float(a.size)


def _ints(*numbers: int) -> dk.array:
    return dk.array(numbers, dtype=int)


@pytest.mark.parametrize("axes", [(True, True), (True, False), (False, True), (False, False)])
def test_values_and_gradients_go_through_the_indices(axes: tuple[bool, bool]) -> None:
    values = np.random.default_rng(0).uniform(-1, 1, (4, 3)).astype(np.float32)
    data = dk.array(values, requires_grad=True)
    rows, columns = _ints(2, 0, 2), _ints(1, -1)
    view = dk.indexedarray(data, [rows if axes[0] else None, columns if axes[1] else None])
    places = np.ix_(rows.numpy() if axes[0] else range(4), columns.numpy() if axes[1] else range(3))
    assert view.shape == values[places].shape
    assert (view.ndim, view.size, len(view)) == (2, values[places].size, len(values[places]))
    np.testing.assert_array_equal(view.numpy(), values[places])
    y = dk.zeros(view.shape, requires_grad=True)
    with dk.Tape() as tape:
        dk.launch(squares, view.shape, [view, y])
    np.testing.assert_allclose(y.numpy(), values[places] ** 2 + view.shape[0] + view.size, rtol=1e-6)
    tape.backward(grads={y: np.ones(view.shape, np.float32)})
    expected = np.zeros_like(values)
    np.add.at(expected, places, 2 * values[places])
    np.testing.assert_allclose(data.grad.numpy(), expected, rtol=1e-6)


def test_elements_are_written_and_updated_through_the_indices() -> None:
    @dk.kernel
    def write(a: dk.indexedarray[dk.vec2], y: F1):
        i = dk.tid()
        a[i] = 2.0 * a[i]
        a[i][1] += 1.0
        dk.atomic_add(a, i, dk.vec2(0.5, 0.0))
        y[i] = a[i - 1][0]

    data = dk.ones(5, dtype=dk.vec2)
    y = dk.zeros(2)
    dk.launch(write, 2, [dk.indexedarray(data, [_ints(3, 1)]), y])
    expected = np.ones((5, 2), np.float32)
    expected[[3, 1]] = [2.5, 3.0]
    np.testing.assert_array_equal(data.numpy(), expected)


def test_slices_funcs_and_records() -> None:
    @dk.func
    def total(row: F1):
        s = 0.0
        for k in range(len(row)):
            s += row[k]
        return s

    @dk.kernel
    def sums(a, y: F1):
        i = dk.tid()
        y[i] = total(a[i]) + 10.0 * total(a[i, 1:]) + 100.0 * a[-1, -1]

    values = np.arange(12, dtype=np.float32).reshape(3, 4)
    data = dk.array(values)
    view = dk.indexedarray(data, [_ints(2, 1), _ints(0, 3, 1)])
    y = dk.zeros(2)
    record = dk.launch(sums, 2, [view, y], record_cmd=True)
    seen = values[np.ix_([2, 1], [0, 3, 1])]
    record.launch()
    np.testing.assert_array_equal(y.numpy(), seen.sum(1) + 10 * seen[:, 1:].sum(1) + 100 * seen[-1, -1])
    record.set_param_at_index(0, dk.indexedarray(data, [_ints(0, 0), _ints(0, 3, 1)]))
    record.launch()
    seen = values[np.ix_([0, 0], [0, 3, 1])]
    np.testing.assert_array_equal(y.numpy(), seen.sum(1) + 10 * seen[:, 1:].sum(1) + 100 * seen[-1, -1])


def test_filling_and_copying() -> None:
    data = dk.zeros((3, 3))
    view = dk.indexedarray(data, [None, _ints(2, 0)])
    view.fill_(4.0)
    np.testing.assert_array_equal(data.numpy(), np.float32([[4, 0, 4]] * 3))
    view.zero_()
    assert data.numpy().sum() == 0
    assert view.contiguous().shape == (3, 2)
    assert view.list() == [[0.0, 0.0]] * 3


def test_indexing_by_arrays_makes_one() -> None:
    values = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    data, some = dk.array(values), _ints(2, 0)
    np.testing.assert_array_equal(data[:, some].numpy(), values[:, [2, 0]])
    assert isinstance(data[_ints(1)], dk.indexedarray)


def test_what_is_refused() -> None:
    data = dk.zeros((3, 3))
    with pytest.raises(ValueError, match="int32 with one axis"):
        dk.indexedarray(data, [dk.zeros(2)])
    with pytest.raises(ValueError, match="3 index arrays"):
        dk.indexedarray(data, [None, None, None])
    with pytest.raises(dk.MisuseError, match="made of an array"):
        dk.indexedarray([1.0])
    with pytest.raises(dk.LaunchError, match="takes indexedarray2d"):
        dk.launch(squares, (3, 3), [data, data])


def test_the_type_of_a_parameter_is_known_from_its_annotation() -> None:
    assert str(squares.argument_types()[0]) == "indexedarray2d<float32,C,C.C>"
    dk.compile(squares)
