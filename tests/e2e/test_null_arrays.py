"""None in the place of an array, and parts of arrays under names of their own."""

import numpy as np
import pytest
from conftest import require

import diffkern as dk

F1 = dk.array(dtype=float)
F2 = dk.array(dtype=float, ndim=2)


@dk.struct
class Field:
    """An array that may be missing."""

    x: F1
    k: float


@dk.struct
class Pair:
    """An element of an array."""

    a: float
    b: float


@dk.func
def scale(w: F1, i: int):
    if w is None:
        return 2.0
    return w[i]


@dk.kernel
def weighted(x: F1, w: F1, flag: int, y: F1):
    i = dk.tid()
    s = dk.where(w, 0.5, 4.0)
    if w:
        s += w[i]
    if flag == 1:
        s += w[i]
    if not w:
        s += 10.0
    if w is not None:
        s -= 100.0
    y[i] = s * scale(w, i) * x[i] + float(w.size)


def test_a_launch_with_none_has_a_program_of_its_own() -> None:
    x, y = dk.full(3, 1.5, requires_grad=True), dk.zeros(3, requires_grad=True)
    with dk.Tape() as tape:
        dk.launch(weighted, 3, [x, None, 0, y])
    np.testing.assert_array_equal(y.numpy(), 14.0 * 2.0 * 1.5)
    tape.backward(grads={y: np.ones(3, np.float32)})
    np.testing.assert_array_equal(x.grad.numpy(), 28.0)
    w = dk.full(3, 3.0, requires_grad=True)
    with dk.Tape() as tape:
        dk.launch(weighted, 3, [x, w, 0, y])
    np.testing.assert_array_equal(y.numpy(), (0.5 + 3.0 - 100.0) * 3.0 * 1.5 + 3.0)
    tape.backward(grads={y: np.ones(3, np.float32)})
    np.testing.assert_allclose(w.grad.numpy(), 1.5 * (3.0 + (0.5 + 3.0 - 100.0)))


def test_what_no_constant_rules_out_is_zero_and_debug_names_it() -> None:
    x, y = dk.full(3, 1.5), dk.zeros(3)
    dk.launch(weighted, 3, [x, None, 1, y])
    np.testing.assert_array_equal(y.numpy(), 14.0 * 2.0 * 1.5)
    debug = dk.kernel(weighted.func, mode="debug")
    with pytest.raises(dk.KernelRuntimeError, match="array 'w' with shape"):
        dk.launch(debug, 3, [x, None, 1, y])


def test_a_record_takes_none_and_an_array_in_turn() -> None:
    x, w, y = dk.full(3, 1.0), dk.full(3, 3.0), dk.zeros(3)
    record = dk.launch(weighted, 3, [x, w, 0, y], record_cmd=True)
    for value, expected in ((None, 28.0), (w, -286.5), (None, 28.0)):
        record.set_param_at_index(1, value)
        record.launch()
        np.testing.assert_array_equal(y.numpy(), expected)


def test_fields_of_structs_may_be_none() -> None:
    @dk.kernel
    def fill(s: Field, y: F1):
        y[dk.tid()] = s.x[dk.tid()] * s.k if s.x else s.k

    y, s = dk.zeros(2), Field(k=2.0)
    for x, expected in ((None, 2.0), (dk.full(2, 3.0), 6.0)):
        s.x = x
        dk.launch(fill, 2, [s, y])
        np.testing.assert_array_equal(y.numpy(), expected)


def test_arrays_of_structs_may_be_none() -> None:
    @dk.kernel
    def fill(pairs: dk.array(dtype=Pair), y: F1):  # type: ignore[valid-type]
        i = dk.tid()
        y[i] = 1.0
        if pairs:
            y[i] = pairs[i].b

    y = dk.zeros(2)
    dk.launch(fill, 2, [None, y])
    assert y.numpy().tolist() == [1.0, 1.0]


def test_an_access_that_nothing_guards_is_refused() -> None:
    @dk.kernel
    def copy(x: F1, y: F1):
        y[dk.tid()] = x[dk.tid()]

    with pytest.raises(dk.KernelTypeError, match="x is None in this launch") as error:
        dk.launch(copy, 2, [None, dk.zeros(2)])
    assert "if x:" in str(error.value)


def test_is_compares_with_none_alone() -> None:
    @dk.kernel
    def same(x: F1, y: F1):
        if x is y:
            y[0] = 1.0

    with pytest.raises(dk.KernelSyntaxError, match="compares with None alone"):
        dk.launch(same, 1, [dk.zeros(1), dk.zeros(1)])


@dk.func
def total(row: F1):
    s = 0.0
    for k in range(len(row)):
        s += row[k]
    return s


@dk.kernel
def sums(a: F2, y: F1):
    i = dk.tid()
    row = a[i]
    part, tail = a[i, 1:3], row[2:]
    y[i] = total(row) + 100.0 * total(part) + 1000.0 * total(tail) + float(a.size)


def test_views_in_variables_and_arguments() -> None:
    values = np.arange(12, dtype=np.float32).reshape(3, 4)
    a, y = dk.array(values, requires_grad=True), dk.zeros(3, requires_grad=True)
    with dk.Tape() as tape:
        dk.launch(sums, 3, [a, y])
    expected = values.sum(1) + 100 * values[:, 1:3].sum(1) + 1000 * values[:, 2:].sum(1) + 12
    np.testing.assert_array_equal(y.numpy(), expected)
    tape.backward(grads={y: np.ones(3, np.float32)})
    np.testing.assert_array_equal(a.grad.numpy(), np.tile(np.float32([1, 101, 1101, 1001]), (3, 1)))


def test_tiles_of_slices() -> None:
    @dk.kernel
    def cut(a: F2, out: F2, start: int):
        i = dk.tid()
        inside = dk.tile_load(a[i, 1:3], shape=4)
        before = dk.tile_load(a[i, 1:], shape=4, offset=start)
        dk.tile_store(out[i], inside + before)
        dk.tile_store(out[3:], dk.tile_load(a[1:], shape=(2, 4)))

    values = np.arange(12, dtype=np.float32).reshape(3, 4)
    a, out = dk.array(values, requires_grad=True), dk.zeros((5, 4), requires_grad=True)
    with dk.Tape() as tape:
        dk.launch_tiled(cut, [3], [a, out, -1], block_dim=32)
    expected = np.pad(values[:, 1:3], ((0, 0), (0, 2))) + np.pad(values[:, 1:], ((0, 0), (1, 0)))
    np.testing.assert_array_equal(out.numpy(), np.concatenate([expected, values[1:]]))
    tape.backward(grads={out: np.ones((5, 4), np.float32)})
    assert a.grad.numpy()[0].tolist() == [0.0, 2.0, 2.0, 1.0]

    @dk.kernel
    def beyond(a: F2, out: F2):
        dk.tile_store(out[dk.tid(), 1:3], dk.tile_load(a[0], shape=4))

    out.zero_()
    a.grad.zero_()
    with dk.Tape() as tape:  # what stands out of the slice is not written
        dk.launch_tiled(beyond, [1], [a, out], block_dim=32)
    np.testing.assert_array_equal(out.numpy(), np.pad(values[:1, :2], ((0, 4), (1, 1))))
    tape.backward(grads={out: np.ones((5, 4), np.float32)})
    assert a.grad.numpy()[0].tolist() == [1.0, 1.0, 0.0, 0.0]


@dk.kernel
def perhaps_weighted(x: dk.array(dtype=float), w: dk.array(dtype=float), y: dk.array(dtype=float)):
    i = dk.tid()
    s = x[i] * x[i]
    if w:
        s = s * w[i]
    y[i] = s


def test_none_in_calls_from_pytorch():
    torch = require("torch")
    call = dk.torch_function(perhaps_weighted)
    x = torch.arange(3.0, requires_grad=True)
    y = call(x, None)
    y.sum().backward()
    assert (y.tolist(), x.grad.tolist()) == ([0, 1, 4], [0, 2, 4])
    assert call(x, torch.full((3,), 3.0)).tolist() == [0, 3, 12]
    with pytest.raises(dk.KernelError, match="x is None in this launch"):
        call(None, x)


def test_none_in_calls_from_jax():
    jax = require("jax")
    call, x = dk.jax_kernel(perhaps_weighted), jax.numpy.arange(3.0)
    assert call(x, None)[0].tolist() == [0, 1, 4]
    assert jax.grad(lambda v: call(v, None)[0].sum())(x).tolist() == [0, 2, 4]
    assert call(x, jax.numpy.full(3, 3.0))[0].tolist() == [0, 3, 12]
