"""Arrays over parts of others in kernels (``wp.array(ptr=a.ptr + bytes, ...)``), and parts that a branch chooses."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
from support.fake_driver.driver import fake_cuda
from support.seeds import run_seed

import diffkern.warp as wp
from diffkern.errors import KernelTypeError

A = wp.array(dtype=float)
V = wp.array(dtype=wp.vec2)


@wp.func
def put(a: V, n: int, v: wp.vec2):
    a[n] = v
    return n + 1


@wp.kernel
def of_the_thread(x: V, o: wp.array2d[float]):
    i = wp.tid()
    b = wp.zeros(shape=(10,), dtype=wp.vec2f)
    a = wp.array(ptr=b.ptr + wp.uint64(5 * 8), shape=(5,), dtype=wp.vec2f)
    n = int(0)  # noqa: RUF046, UP018 -- a variable in Warp's dialect
    m = int(0)  # noqa: RUF046, UP018 -- a variable in Warp's dialect
    for e in range(3):
        n = put(a, n, x[i] * float(e + 1))
        m = put(b, m, -x[i])
    o[i, 0] = b[6][0]
    o[i, 1] = a[2][1]
    vertex = a
    face = wp.array(ptr=b.ptr, shape=(5,), dtype=wp.vec2)
    if i % 2 == 1:
        vertex = wp.array(ptr=b.ptr, shape=(5,), dtype=wp.vec2)
        face = a
    o[i, 2] = vertex[0][0]
    o[i, 3] = face[1][0]
    face[1] = wp.vec2(50.0, 60.0)
    o[i, 4] = b[1][0] + b[6][1]
    o[i, 5] = float(len(face))


def test_parts_of_an_array_of_the_thread() -> None:
    """The numbers are Warp's, whose gradients are zero here; these are right."""
    x = wp.array(np.array([[1.0, 2.0], [3.0, 4.0]]), dtype=wp.vec2, requires_grad=True)
    o = wp.zeros((2, 6), requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(of_the_thread, 2, [x, o])
    tape.backward(grads={o: wp.ones((2, 6))})
    assert o.numpy().tolist() == [[2.0, 6.0, 1.0, -1.0, 54.0, 5.0], [6.0, 12.0, -3.0, 6.0, 57.0, 5.0]]
    assert x.grad.numpy().tolist() == [[2.0, 5.0], [2.0, 3.0]]


@wp.func
def begins(a: A, k: int) -> wp.uint64:
    return a.ptr + wp.uint64(k) * wp.uint64(4)


@wp.kernel
def of_a_parameter(x: A, o: A, n: int):
    i = wp.tid()
    y = wp.array(ptr=begins(x, i), shape=(2,), dtype=float)
    z = wp.array(ptr=begins(o, n), shape=(n,), dtype=wp.float32)
    inner = wp.array(ptr=y.ptr + wp.uint64(4), shape=(1,), dtype=float)
    o[i] = y[0] * inner[0]
    z[i] = y[1]
    if i == 0:
        z = wp.array(ptr=begins(o, 8), shape=(2,), dtype=float)
        z[1] = float(len(inner)) + float(len(z))


def test_parts_of_a_parameter() -> None:
    x, o = wp.array(np.arange(1.0, 6.0), dtype=float, requires_grad=True), wp.zeros(10, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(of_a_parameter, 4, [x, o, 4])
    tape.backward(grads={o: wp.ones(10)})
    assert o.numpy().tolist() == [2.0, 6.0, 12.0, 20.0, 2.0, 3.0, 4.0, 5.0, 0.0, 3.0]
    assert x.grad.numpy().tolist() == [2.0, 5.0, 7.0, 9.0, 5.0]


@wp.kernel
def carried(x: A, o: A):
    window = x[0:2]
    for k in range(3):
        o[k] = window[0] + 10.0 * window[1]
        window = x[k + 1 : k + 3]


def test_a_loop_carries_a_part() -> None:
    x, o = wp.array(np.arange(1.0, 6.0), dtype=float, requires_grad=True), wp.zeros(3, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(carried, 1, [x, o])
    tape.backward(grads={o: wp.ones(3)})
    assert o.numpy().tolist() == [21.0, 32.0, 43.0]
    assert x.grad.numpy().tolist() == [1.0, 11.0, 11.0, 10.0, 0.0]


@wp.kernel
def a_part_or_all(x: A, o: A):
    i = wp.tid()
    b = wp.zeros(shape=4, dtype=float)
    for k in range(4):
        b[k] = x[k] * x[k]
    c = b[1:3]
    y = x
    if i == 0:
        c = b
        y = x[2:4]
    c[1] = 3.0 * c[1]
    o[2 * i] = float(len(c)) + c[1] + b[1]
    o[2 * i + 1] = float(len(y)) + y[1]


def test_all_of_an_array_or_a_part() -> None:
    x, o = wp.array(np.arange(1.0, 6.0), dtype=float, requires_grad=True), wp.zeros(4, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(a_part_or_all, 2, [x, o])
    tape.backward(grads={o: wp.ones(4)})
    assert o.numpy().tolist() == [4.0 + 12.0 + 12.0, 2.0 + 4.0, 2.0 + 27.0 + 4.0, 5.0 + 2.0]
    assert x.grad.numpy().tolist() == [0.0, 24.0 + 4.0 + 1.0, 18.0, 1.0, 0.0]


@wp.func_native("return (uint64_t)a.data;")
def address_in_c(a: wp.array[float]) -> wp.uint64: ...


@wp.func
def sum_of_squares(a: wp.array2d[float], k: int):
    total = float(0.0)  # noqa: UP018 -- a variable in Warp's dialect
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            total += a[i, j] * a[i][j]
    return total + float(k * a.ndim) + float(int(a.size))


@wp.kernel
def rows_of_a_parameter(x: A, o: A, n: int):
    i = wp.tid()
    y = wp.array(ptr=address_in_c(x) + wp.uint64(i) * wp.uint64(4), shape=(n, 2), dtype=float)
    z = wp.array(ptr=o.ptr, shape=(2, 2, n), dtype=float)
    z[i, 0, -1] = sum_of_squares(y, 10)
    z[i, 1, 0] = y[-1, 1] * y[0][-2]
    wp.atomic_add(z, i, 1, 1, y[1, 0])
    row = y[1]
    z[i, 0, 0] = float(len(row)) * row[1]


def test_parts_of_a_parameter_with_several_axes() -> None:
    x, o = wp.array(np.arange(1.0, 8.0), dtype=float, requires_grad=True), wp.zeros(12, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(rows_of_a_parameter, 2, [x, o, 3])
    weights = np.arange(1.0, 13.0)
    tape.backward(grads={o: wp.array(weights, dtype=float)})
    found, slope = np.zeros((2, 2, 3)), np.zeros(7)
    for i in range(2):
        y, w = x.numpy()[i : i + 6].reshape(3, 2), weights.reshape(2, 2, 3)[i]
        found[i] = [[2 * y[1, 1], 0.0, (y * y).sum() + 26.0], [y[2, 1] * y[0, 0], y[1, 0], 0.0]]
        of_y = 2 * y * w[0, 2]
        of_y[1] += w[1, 1], 2 * w[0, 0]
        of_y[2, 1] += w[1, 0] * y[0, 0]
        of_y[0, 0] += w[1, 0] * y[2, 1]
        slope[i : i + 6] += of_y.reshape(-1)
    np.testing.assert_allclose(o.numpy().reshape(2, 2, 3), found)
    np.testing.assert_allclose(x.grad.numpy(), slope)


@wp.kernel
def tiles_of_rows(x: A, o: A, p: A, n: int, m: int):
    w = wp.tid()
    a = wp.array(ptr=x.ptr + wp.uint64(w * n * m) * wp.uint64(4), shape=(n, m), dtype=float)
    b = wp.array(ptr=o.ptr + wp.uint64(w * n * m) * wp.uint64(4), shape=(m, n), dtype=float)
    for i in range(0, n, 4):
        for j in range(-1, m, 4):
            t = wp.tile_load(a, shape=(4, 4), offset=(i, j))
            wp.tile_store(b, wp.tile_transpose(t * t), offset=(j, i))
    c = wp.array(ptr=p.ptr, shape=(m, n), dtype=float)
    wp.tile_atomic_add(c, wp.tile_transpose(wp.tile_load(a, shape=(2, 2))), offset=(m - 1, 0))


@pytest.mark.parametrize(("device", "block_dim"), [("cpu", 1), ("cpu", 32), ("cuda:0", 64)])
def test_tiles_of_parts_with_two_axes(device: str, block_dim: int) -> None:
    n, m = 6, 5
    given = np.random.default_rng(run_seed()).normal(size=(2, n, m)).astype(np.float32)
    with fake_cuda() if device != "cpu" else nullcontext():
        x = wp.array(given.reshape(-1), dtype=float, requires_grad=True, device=device)
        o = wp.zeros(2 * n * m, dtype=float, requires_grad=True, device=device)
        p = wp.zeros(n * m, dtype=float, requires_grad=True, device=device)
        with wp.Tape() as tape:
            wp.launch_tiled(tiles_of_rows, dim=[2], inputs=[x, o, p, n, m], block_dim=block_dim, device=device)
        tape.backward(grads={a: wp.ones(a.shape, dtype=float, device=device) for a in (o, p)})
        found, slope = o.numpy().reshape(2, m, n), x.grad.numpy().reshape(2, n, m)
        total = p.numpy().reshape(m, n)
    of_x = 2 * given
    of_x[:, :2, 0] += 1.0
    np.testing.assert_allclose(found, given.transpose(0, 2, 1) ** 2, rtol=1e-6)
    np.testing.assert_allclose(slope, of_x, rtol=1e-6)
    np.testing.assert_allclose(total[m - 1, :2], given[:, :2, 0].sum(axis=0), rtol=1e-6)
    assert not total[: m - 1].any()
    assert not total[m - 1, 2:].any()


@wp.kernel
def a_slice_of_rows(x: A, o: A):
    y = wp.array(ptr=x.ptr, shape=(2, 2), dtype=float)
    o[0] = y[0, 0:1][0]


@wp.kernel
def a_row_is_assigned(x: A, o: A):
    y = wp.array(ptr=x.ptr, shape=(2, 2, 1), dtype=float)
    y[0][1][0] = 1.0


@wp.kernel
def a_tile_of_another_shape(x: A, o: A):
    y = wp.array(ptr=x.ptr, shape=(2, 2), dtype=float)
    wp.tile_store(o, wp.tile_load(y, shape=(4,)))


@wp.kernel
def rows_of_the_thread(x: A, o: A):
    b = wp.zeros(shape=(4,), dtype=float)
    y = wp.array(ptr=b.ptr, shape=(2, 2), dtype=float)
    wp.tile_atomic_add(o, wp.tile_load(y, shape=(2, 2)))


@wp.kernel
def an_address_of_rows(x: A, o: A):
    y = wp.array(ptr=x.ptr, shape=(2, 2), dtype=float)
    z = wp.array(ptr=y.ptr, shape=(2,), dtype=float)
    o[0] = z[0]


@wp.kernel
def too_many_indices(x: A, o: A):
    o[0] = wp.array(ptr=x.ptr, shape=(2, 2), dtype=float)[0, 0, 0]


@wp.kernel
def another_type(x: A, o: A):
    y = wp.array(ptr=x.ptr, shape=(2,), dtype=wp.vec2)
    o[0] = y[0][0]


@wp.kernel
def between_elements(x: A, o: A):
    y = wp.array(ptr=x.ptr + wp.uint64(2), shape=(2,), dtype=float)
    o[0] = y[0]


@wp.kernel
def a_number(x: A, o: A):
    y = wp.array(ptr=wp.uint64(64), shape=(2,), dtype=float)
    o[0] = y[0]


@wp.kernel
def multiplied(x: A, o: A):
    o[0] = float(x.ptr * wp.uint64(2))


@wp.func
def half(k: int):
    return k // 2


@wp.kernel
def what_a_func_returns(x: A, o: A):
    i = wp.tid()
    o[i] = wp.array(ptr=x.ptr + wp.uint64(half(i * 4)), shape=(1,), dtype=float)[0]


@wp.kernel
def rounded_bytes(x: A, o: A):
    i = wp.tid()
    o[i] = wp.array(ptr=x.ptr + wp.uint64(0.3 * float(i) * 4.0), shape=(1,), dtype=float)[0]


@pytest.mark.parametrize(
    ("kernel", "said"),
    [
        (a_slice_of_rows, "a slice of an array of an address with several axes"),
        (a_row_is_assigned, "rows of an array of an address are assigned"),
        (a_tile_of_another_shape, r"an array of an address with 2 axes, and a tile of shape \(4,\)"),
        (rows_of_the_thread, "an array of a thread"),
        (an_address_of_rows, "an array of an address with several axes has no 'ptr'"),
        (too_many_indices, "3 indices for an array with 2 axes"),
        (another_type, "elements of another type than float32"),
        (between_elements, "bytes of which nothing says that they are a multiple of 4"),
        (what_a_func_returns, "bytes of which nothing says that they are a multiple of 4"),
        (rounded_bytes, "bytes of which nothing says that they are a multiple of 4"),
        (a_number, "a number for an address"),
        (multiplied, "an address in a kernel is added to bytes alone"),
    ],
)
def test_what_is_refused(kernel: Any, said: str) -> None:
    with pytest.raises(KernelTypeError, match=said):
        wp.launch(kernel, 1, [wp.zeros(4), wp.zeros(4)])


@wp.struct
class Held:
    scale: float
    x: wp.array(dtype=float)
    m: wp.array2d(dtype=float)


@wp.kernel
def the_larger_one(s: wp.array(dtype=Held), o: A, n: wp.array(dtype=int)):
    i = wp.tid()
    a = s[i]
    b = s[i + 1]
    if b.scale > a.scale:
        a = b
    row = s[0].x
    for j in range(s.shape[0]):
        if s[j].scale == 3.0:
            row = s[j].x[1:]
    total = float(0.0)  # noqa: UP018 -- a variable in Warp's dialect
    for j in range(a.x.shape[0]):
        total += a.x[j] * a.scale + a.m[j, -1]
    o[i] = total * row[0]
    n[i] = 100 * len(a.x) + 10 * a.m.shape[1] + len(row)


def test_a_branch_chooses_an_element_with_its_arrays() -> None:
    held = []
    for k, scale in enumerate((1.0, 3.0, 2.0, 4.0)):
        one = Held()
        one.scale = scale
        one.x = wp.array(np.arange(1.0, k + 3) + 10 * k, dtype=float, requires_grad=True)
        one.m = wp.array(np.full((k + 2, k + 1), k + 1.0), dtype=float, requires_grad=True)
        held.append(one)
    o, n = wp.zeros(3, requires_grad=True), wp.zeros(3, dtype=int)
    with wp.Tape() as tape:
        wp.launch(the_larger_one, 3, [wp.array(held, dtype=Held), o, n])
    tape.backward(grads={o: wp.ones(3)})
    first, taken = held[1].x.numpy()[1], [held[k] for k in (1, 1, 3)]
    sums = [one.scale * one.x.numpy().sum() + one.m.numpy()[:, -1].sum() for one in taken]
    np.testing.assert_allclose(o.numpy(), np.multiply(first, sums), rtol=1e-6)
    assert n.numpy().tolist() == [322, 322, 542]
    of_x = [np.full(3, 2 * first * 3.0), np.full(5, first * 4.0)]
    of_x[0][1] += sum(sums)
    np.testing.assert_allclose(held[1].x.grad.numpy(), of_x[0], rtol=1e-6)
    np.testing.assert_allclose(held[3].x.grad.numpy(), of_x[1], rtol=1e-6)
    np.testing.assert_allclose(held[1].m.grad.numpy()[:, -1], 2 * first)
    assert not held[0].x.grad.numpy().any()
    assert not held[1].m.grad.numpy()[:, :-1].any()


@wp.kernel
def of_two_arrays(s: wp.array(dtype=Held), t: wp.array(dtype=Held), o: A):
    a = s[0]
    if o[0] > 0.0:
        a = t[0]
    o[0] = a.x[0]


def test_elements_of_two_arrays_are_not_chosen() -> None:
    with pytest.raises(KernelTypeError, match="the struct a holds different arrays on different paths"):
        wp.launch(of_two_arrays, 1, [wp.array([Held()], dtype=Held), wp.array([Held()], dtype=Held), wp.zeros(1)])
