"""Variables that stand for one array or another, as a branch decides: accesses, gradients, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import diffkern as dk
import diffkern.warp as wp
from diffkern.errors import KernelTypeError

A = wp.array(dtype=float)
A2 = wp.array(dtype=float, ndim=2)
X = np.arange(1.0, 5.0, dtype=np.float32)
Y = np.arange(10.0, 70.0, 10.0, dtype=np.float32)


def run(kernel: Any, x: Any = X, y: Any = Y, *more: Any) -> tuple[list[Any], Any, Any]:
    """What a kernel (x, y, o, …) leaves in its arrays, and the gradients of the sum of o for x and y."""
    arrays = [wp.array(v, dtype=float, requires_grad=True) for v in (x, y, np.zeros(4, np.float32))]
    with wp.Tape() as tape:
        wp.launch(kernel, 4, [*arrays, *more])
    tape.backward(grads={arrays[2]: wp.ones(4)})
    return [a.numpy().tolist() for a in arrays], arrays[0].grad.numpy(), arrays[1].grad.numpy()


@wp.func
def element_and_length(a: A, i: int):
    return a[i] * a[i] + float(a.shape[0])


@wp.kernel
def by_expression(x: A, y: A, o: A):
    i = wp.tid()
    z = x if i % 2 == 0 else y
    o[i] = element_and_length(z, i)


@wp.kernel
def by_statement(x: A, y: A, o: A):
    i = wp.tid()
    z = x
    if i % 2 == 1:
        z = y
    o[i] = element_and_length(z, i)


@wp.kernel
def in_a_call(x: A, y: A, o: A):
    i = wp.tid()
    o[i] = element_and_length(x if i % 2 == 0 else y, i)


@pytest.mark.parametrize("kernel", [by_expression, by_statement, in_a_call])
def test_elements_are_read_of_the_chosen_array(kernel: Any) -> None:
    (_, _, o), of_x, of_y = run(kernel)
    assert o == [1.0 + 4, 400.0 + 6, 9.0 + 4, 1600.0 + 6]
    assert of_x.tolist() == [2.0, 0.0, 6.0, 0.0]
    assert of_y.tolist() == [0.0, 40.0, 0.0, 80.0, 0.0, 0.0]


@wp.kernel
def written(x: A, y: A, o: A):
    i = wp.tid()
    if i < 2:
        z = x
    else:
        z = o
    if i % 2 == 0:
        z[i] = y[i] * y[i]
    else:
        z[i] = y[i + 2]
    o[i] = z[i] * 2.0


def test_elements_are_written_of_the_chosen_array() -> None:
    (x, _, o), of_x, of_y = run(written)
    assert x == [100.0, 40.0, 3.0, 4.0]
    assert o == [200.0, 80.0, 1800.0, 120.0]
    assert of_y.tolist() == [40.0, 0.0, 120.0, 2.0, 0.0, 2.0]
    assert of_x.tolist() == [0.0, 0.0, 0.0, 0.0]


@wp.kernel
def updated(x: A, y: A, o: A, p: A):
    i = wp.tid()
    z = o if i < 3 else p
    z[0] += x[i]
    wp.atomic_sub(z, 1, x[i] * y[i])


def test_updates_of_the_chosen_array_are_atomic() -> None:
    p = wp.zeros(4)
    (_, _, o), of_x, of_y = run(updated, X, Y, p)
    assert o == [6.0, -140.0, 0.0, 0.0]
    assert p.numpy().tolist() == [4.0, -160.0, 0.0, 0.0]
    assert of_x.tolist() == [-9.0, -19.0, -29.0, 0.0]
    assert of_y.tolist() == [-1.0, -2.0, -3.0, 0.0, 0.0, 0.0]
    total, other = wp.zeros(4), wp.zeros(4)
    many = wp.array(np.ones(20_000, np.float32), dtype=float)
    wp.launch(updated, 20_000, [many, many, total, other])
    assert total.numpy()[0] == 3.0
    assert other.numpy()[0] == 19_997.0


@wp.kernel
def rows(x: A2, y: A2, o: A):
    i = wp.tid()
    if i % 2 == 1:
        row = x[i]
    else:
        row = y[i + 1]
    o[i] = row[1] + float(len(row)) * row[0]


def test_rows_of_arrays() -> None:
    x, y = np.arange(12.0).reshape(4, 3), 100 + np.arange(10.0).reshape(5, 2)
    (_, _, o), of_x, of_y = run(rows, x, y)
    assert o == [y[1, 1] + 2 * y[1, 0], x[1, 1] + 3 * x[1, 0], y[3, 1] + 2 * y[3, 0], x[3, 1] + 3 * x[3, 0]]
    assert of_x[1].tolist() == of_x[3].tolist() == [3.0, 1.0, 0.0]
    assert of_y[1].tolist() == of_y[3].tolist() == [2.0, 1.0]
    assert of_x.sum() == 8.0
    assert of_y.sum() == 6.0


@wp.struct
class Held:
    v: A
    k: int


@wp.struct
class Body:
    mass: float
    at: wp.vec2


@wp.kernel
def of_structs(x: A, y: A, o: A, s: Held, t: Held, bodies: wp.array(dtype=Body), others: wp.array(dtype=Body)):
    i = wp.tid()
    u = s
    chosen = bodies
    if i % 2 == 1:
        u = t
        chosen = others
    o[i] = u.v[i] * x[i] + float(u.k) + chosen[i].mass * y[i] + chosen[i].at[1]


def test_arrays_in_structs_and_arrays_of_structs() -> None:
    s, t = Held(), Held()
    s.v, s.k, t.v, t.k = wp.array(X, requires_grad=True), 1, wp.array(10 * X, requires_grad=True), 2
    bodies, others = wp.zeros(4, dtype=Body), wp.zeros(4, dtype=Body)
    bodies.assign(np.array([(1.0, (0.0, 5.0))] * 4, dtype=Body.numpy_dtype()))
    others.assign(np.array([(2.0, (0.0, 7.0))] * 4, dtype=Body.numpy_dtype()))
    (_, _, o), of_x, of_y = run(of_structs, X, Y, s, t, bodies, others)
    assert o == [1 + 1 + 10 + 5, 40 + 2 + 40 + 7, 9 + 1 + 30 + 5, 160 + 2 + 80 + 7]
    assert of_x.tolist() == [1.0, 20.0, 3.0, 40.0]
    assert of_y.tolist() == [1.0, 2.0, 1.0, 2.0, 0.0, 0.0]
    assert s.v.grad.numpy().tolist() == [1.0, 0.0, 3.0, 0.0]
    assert t.v.grad.numpy().tolist() == [0.0, 2.0, 0.0, 4.0]


@wp.kernel
def several_ways(x: A, y: A, o: A):
    i = wp.tid()
    first = x if i % 2 == 0 else y
    second = first
    if i > 1:
        second = o
    for k in range(2):
        z = first if k == 0 else second
        if i < 2:
            o[i] += z[k + i]


def test_a_choice_among_chosen_arrays() -> None:
    (_, _, o), of_x, of_y = run(several_ways)
    assert o == [1.0 + 2.0, 20.0 + 30.0, 0.0, 0.0]
    assert of_x.tolist() == [1.0, 1.0, 0.0, 0.0]
    assert of_y.tolist() == [0.0, 1.0, 1.0, 0.0, 0.0, 0.0]


@wp.kernel
def tiles(x: A, y: A, o: A, c: int):
    z = x if c == 0 else y
    wp.tile_store(o, wp.tile_load(z, shape=4) * 2.0)


@pytest.mark.parametrize("c", [0, 1])
def test_tiles_of_the_chosen_array(c: int) -> None:
    x, y, o = (wp.array(v, requires_grad=True) for v in (X, 10 * X, np.zeros(4, np.float32)))
    with wp.Tape() as tape:
        wp.launch_tiled(tiles, dim=[1], inputs=[x, y, o, c], block_dim=4)
    tape.backward(grads={o: wp.ones(4)})
    assert o.numpy().tolist() == (2 * X * (10 if c else 1)).tolist()
    assert [x.grad.numpy()[0], y.grad.numpy()[0]] == ([0.0, 2.0] if c else [2.0, 0.0])


@wp.kernel
def one_or_none(x: A, y: A, o: A):
    i = wp.tid()
    if i % 2 == 0:
        z = x
    if i == 3:
        z = y
    o[i] = z[i]
    if z:
        o[i] += 100.0


def test_an_array_another_one_or_null(monkeypatch: pytest.MonkeyPatch) -> None:
    (_, _, o), of_x, of_y = run(one_or_none)
    assert o == [101.0, 0.0, 103.0, 140.0]
    assert of_x.tolist() == [1.0, 0.0, 1.0, 0.0]
    assert of_y.tolist() == [0.0, 0.0, 0.0, 1.0, 0.0, 0.0]
    monkeypatch.setattr(dk.config, "mode", "debug")
    assert run(by_statement)[0][2] == [1.0 + 4, 400.0 + 6, 9.0 + 4, 1600.0 + 6]


@wp.kernel
def carried(x: A, y: A, o: A):
    i = wp.tid()
    z = x
    for k in range(3):
        o[i] += z[k]
        if k == i:
            z = y


def test_a_loop_carries_the_chosen_array() -> None:
    (_, _, o), of_x, of_y = run(carried)
    assert o == [1.0 + 20 + 30, 1.0 + 2 + 30, 6.0, 6.0]
    assert of_x.tolist() == [4.0, 3.0, 2.0, 0.0]
    assert of_y.tolist() == [0.0, 1.0, 2.0, 0.0, 0.0, 0.0]


def test_gpus_take_the_same_kernels() -> None:
    assert "ld.global" in dk.compile(by_statement, target="sm_90").ptx


@wp.kernel
def of_other_axes(x: A, y: A2, o: A):
    i = wp.tid()
    z = x if i == 0 else y
    o[i] = z[i]


@dk.kernel
def native(x: dk.array(dtype=float), y: dk.array(dtype=float), o: dk.array(dtype=float)):
    i = dk.tid()
    z = x
    if i == 0:
        z = y
    o[i] = z[i]


@pytest.mark.parametrize(
    ("kernel", "said"),
    [
        (of_other_axes, "an array of float32 with 1 axis on one side and an array of float32 with 2 axes"),
        (native, "the variable z stands for different arrays on different paths"),
    ],
)
def test_what_is_refused(kernel: Any, said: str) -> None:
    y = wp.zeros((4, 4)) if kernel is of_other_axes else wp.array(Y)
    with pytest.raises(KernelTypeError, match=said):
        dk.launch(kernel, 4, [wp.array(X), y, wp.zeros(4)])
