"""Loops that change which array a variable stands for: swaps, rotations, choices; gradients, and what is refused.

Random programs (:mod:`tests.support.chosen_programs`) are compared with Python and central differences, a table of
programs with Warp.
"""

import linecache
from pathlib import Path

import numpy as np
import pytest
from conftest import require
from support import chosen_programs, lanes
from support.ptx.programs import vjp_of

import diffkern as dk
import diffkern.warp as wp
from diffkern.compiler import pipeline
from diffkern.errors import KernelTypeError
from diffkern.frontend.statements.lowering import lower
from diffkern.ir.nodes import walk
from diffkern.targets.cpu import kernel as cpu_kernel
from diffkern.testing.adjoints import Vjp

F = wp.float64
A = wp.array(dtype=F)
A2 = wp.array(dtype=F, ndim=2)


@pytest.mark.parametrize("number", [11, 234])
def test_random_programs(number):
    chosen_programs.check(number, second=False)


@pytest.mark.parametrize(("way", "number"), [("on", 205), ("off", 287)])
def test_random_programs_with_and_without_lanes(way, number, monkeypatch):
    monkeypatch.setenv(lanes.VARIABLE, way)
    monkeypatch.setattr(cpu_kernel.choice, "chosen", cpu_kernel.choice.chosen)
    lanes.force()
    chosen_programs.check(number, strided=True, second=False)


PROGRAMS = """
A1 = wp.array(dtype=wp.float64)
A2 = wp.array(dtype=wp.float64, ndim=2)


@wp.func
def clipped(p: A1, q: A1, n: int):
    for k in range(n):
        for j in range(4):
            q[j] = wp.float64(0.5) * p[j] * p[(j + 1) % 4] + wp.float64(k)
        tmp = p
        p = q
        q = tmp
    return p[0] + wp.float64(2.0) * q[3]


@wp.kernel
def swapped_in_a_func(x: A2, y: A2, z: A2, o: A1, n: int):
    i = wp.tid()
    o[i] = clipped(x[i], y[i], n)


@wp.kernel
def rotated(x: A2, y: A2, z: A2, o: A1, n: int):
    i = wp.tid()
    p = x[i]
    q = y[i]
    r = z[i]
    for k in range(n):
        r[k % 4] = wp.sin(p[k % 4]) * q[(k + 1) % 4]
        tmp = p
        p = q
        q = r
        r = tmp
    o[i] = p[0] * q[1] - r[2]


@wp.kernel
def kept_while_it_grows(x: A2, y: A2, z: A2, o: A1, n: int):
    i = wp.tid()
    best = x[i]
    k = int(0)
    while k < n:
        if y[i, k % 4] > best[k % 4]:
            best = y[i]
        best[k % 4] = best[k % 4] * best[3]
        k += 1
    o[i] = best[0] + best[1] * best[2]


@wp.kernel
def whole_arrays(x: A2, y: A2, z: A2, o: A1, n: int):
    i = wp.tid()
    a = x
    b = y
    for k in range(n):
        b[i, k % 4] = wp.cos(a[i, (k + 3) % 4])
        if k == 1:
            t = a
            a = b
            b = t
    o[i] = a[i, 0] * b[i, 1] + wp.float64(a.shape[0] * b.shape[1])
"""
NAMES = ["swapped_in_a_func", "rotated", "kept_while_it_grows", "whole_arrays"]


def programs(names, folder):
    """The kernels of the table, made with one module or the other; Warp reads their text from a file."""
    path = Path(folder) / f"swapped_{names.__name__.replace('.', '_')}.py"
    path.write_text(PROGRAMS, encoding="utf-8")
    linecache.checkcache(str(path))
    space = {"wp": names, "__name__": path.stem}
    exec(compile(PROGRAMS, str(path), "exec", dont_inherit=True), space)
    return space


def made(seed=3):
    rng = np.random.default_rng(seed)
    return [*(rng.uniform(0.2, 0.9, (3, 4)) for _ in range(3)), np.zeros(3)]


def test_values_are_those_of_warp(tmp_path, monkeypatch):
    warp = require("warp")
    monkeypatch.setattr(warp.config, "enable_backward", False)
    theirs, ours = (programs(names, tmp_path) for names in (warp, wp))
    for name in NAMES:
        for n in (0, 1, 2, 5):
            left = []
            for names, space in ((warp, theirs), (wp, ours)):
                arrays = [names.array(a, dtype=names.float64, device="cpu") for a in made()]
                names.launch(space[name], dim=3, inputs=[*arrays, n], device="cpu")
                left.append([a.numpy() for a in arrays])
            for a, b in zip(*left, strict=True):
                np.testing.assert_allclose(b, a, rtol=1e-14, err_msg=f"{name}, {n} trips")


def lowered(kernel, arguments):
    return lower(kernel.func, kernel.argument_types(*arguments))


@pytest.mark.parametrize("name", ["swapped_in_a_func", "rotated"])
def test_as_a_gpu_runs_it(name, tmp_path):
    kernel = programs(wp, tmp_path)[name]
    arguments = [*made(), 3]
    fn = lowered(kernel, arguments)
    here, there = Vjp(fn), vjp_of(lowered(kernel, arguments), seed=1)
    found, expected = ([a.copy() if isinstance(a, np.ndarray) else a for a in arguments] for _ in range(2))
    here.primal_program.run((3,), expected)
    there.primal_program.run((3,), found)
    weights = here.weights(arguments, np.random.default_rng(2))
    gradients = here.gradients((3,), arguments, weights)
    for a, b in zip(found[:4], expected[:4], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)
    for k, g in there.gradients((3,), arguments, weights).items():
        np.testing.assert_allclose(g, gradients[k], rtol=1e-12, atol=1e-14)
    assert any(g.any() for g in gradients.values())


def test_rows_that_change_places_are_still_one_threads_own():
    """The row's index is no number that a loop carries, so that no update of an element is atomic."""

    @wp.kernel
    def added(x: A2, y: A2, n: int):
        i = wp.tid()
        p = x[i]
        q = y[i]
        for k in range(n):
            p[k] += q[k]
            t = p
            p = q
            q = t

    arguments = [*made()[:2], 3]
    fn = pipeline.lower_kernel(added.func, added.argument_types(*arguments))
    assert not any(op.name == "atomic" for op in walk(fn.body))
    loops = [op for op in walk(fn.body) if op.name == "for"]
    assert [[v.type.name for v in op.results] for op in loops] == [["bool", "bool"]]


def test_derivatives_of_second_order(tmp_path):
    kernel, n = programs(wp, tmp_path)["rotated"], 4

    def loss(x, y, z):
        held, o = [wp.clone(a) for a in (x, y, z)], wp.zeros(3, dtype=F)
        wp.launch(kernel, 3, [*held, o, n])
        total = wp.zeros(1, dtype=F)
        wp.launch(chosen_programs.weigh, 3, [o, wp.array([1.0, -0.5, 0.25], dtype=F), total])
        return total

    values, along = made()[:3], [np.full((3, 4), v) for v in (0.7, -0.4, 1.1)]

    def gradient(step):
        arrays = tuple(wp.array(a + step * d, dtype=F, requires_grad=True) for a, d in zip(values, along, strict=True))
        return [g.numpy() for g in dk.vjp(loss, arrays, wp.ones(1, dtype=F))[1]]

    start, directions = (tuple(wp.array(a, dtype=F) for a in arrays) for arrays in (values, along))
    products = dk.hvp(loss, start, directions)
    for product, a, b in zip(products, gradient(1e-5), gradient(-1e-5), strict=True):
        np.testing.assert_allclose(product.numpy(), (a - b) / 2e-5, rtol=1e-6, atol=1e-8)
    assert np.abs(products[2].numpy()).max() > 0.01


@wp.kernel
def own_arrays(x: A, o: A, n: int):
    i = wp.tid()
    a = wp.zeros(shape=3, dtype=F)
    b = wp.zeros(shape=(2, 4), dtype=F)
    c = wp.zeros(shape=5, dtype=F)
    for j in range(3):
        a[j] = x[i] + F(j)
    p = a
    q = c
    for k in range(n):
        b[k % 2, 0] = p[0]
        for j in range(3):
            q[j] += wp.sin(p[j]) * x[i]
        if q[1] > F(0.1):
            t = p
            p = q
            q = t
        p[-1] = F(len(q)) * p[0]
    o[i] = p[0] * q[1] + p[len(p) - 1] + b[1, 0]


def by_hand(x, n):
    a, b, c = np.arange(3.0) + x, np.zeros((2, 4)), np.zeros(5)
    p, q = a, c
    for k in range(n):
        b[k % 2, 0] = p[0]
        q[:3] += np.sin(p[:3]) * x
        if q[1] > 0.1:
            p, q = q, p
        p[-1] = len(q) * p[0]
    return p[0] * q[1] + p[-1] + b[1, 0]


@pytest.mark.parametrize("n", [0, 1, 2, 5])
def test_arrays_of_the_thread(n):
    x = np.array([0.3, 0.7])

    def total(x):
        o = wp.zeros(2, dtype=F)
        wp.launch(own_arrays, 2, [x, o, n])
        return o

    start, along, e = wp.array(x, dtype=F, requires_grad=True), np.array([1.0, 1.0]), 1e-6
    np.testing.assert_allclose(total(start).numpy(), [by_hand(v, n) for v in x], rtol=1e-14)
    differences = [(by_hand(v + e, n) - by_hand(v - e, n)) / (2 * e) for v in x]
    backward = dk.vjp(total, (start,), wp.ones(2, dtype=F))[1][0].numpy()
    forward = dk.jvp(total, (start,), (wp.array(along, dtype=F),))[1].numpy()
    np.testing.assert_allclose(backward, differences, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(forward, differences, rtol=1e-7, atol=1e-9)


@wp.kernel
def set_in_the_loop(x: A, y: A, o: A):
    i = wp.tid()
    for k in range(i):
        if k == 1:
            z = x
        else:
            z = y
    if z:
        o[i] = z[i] * z[i]
    else:
        o[i] = F(-1.0)


def test_an_array_that_only_trips_set_is_null_before():
    x, y = (wp.array(v, dtype=F, requires_grad=True) for v in ([1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]))
    o = wp.zeros(4, dtype=F, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(set_in_the_loop, 4, [x, y, o])
    tape.backward(grads={o: wp.ones(4, dtype=F)})
    assert o.numpy().tolist() == [-1.0, 36.0, 9.0, 64.0]
    assert x.grad.numpy().tolist() == [0.0, 0.0, 6.0, 0.0]
    assert y.grad.numpy().tolist() == [0.0, 12.0, 0.0, 16.0]


@wp.kernel
def cut_in_each_trip(x: A, y: A, o: A):
    i = wp.tid()
    z = x
    for k in range(i):
        if k == 1:
            z = y
        z = z[1:]
    o[i] = z[0] * z[-1] + F(len(z))


def test_a_loop_cuts_the_array_that_it_carries():
    x, y = (wp.array(v, dtype=F, requires_grad=True) for v in ([1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0]))
    o = wp.zeros(4, dtype=F, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(cut_in_each_trip, 4, [x, y, o])
    tape.backward(grads={o: wp.ones(4, dtype=F)})
    assert o.numpy().tolist() == [1 * 4 + 4, 2 * 4 + 3, 6 * 7 + 2, 7 * 7 + 1]
    assert x.grad.numpy().tolist() == [4.0, 4.0, 0.0, 1.0 + 2.0]
    assert y.grad.numpy().tolist() == [0.0, 7.0, 6.0 + 14.0]


@wp.kernel
def other_elements(x: A, y: wp.array(dtype=float), o: A):
    z = x
    for k in range(3):
        o[k] += z[k]
        z = y


@wp.kernel
def other_axes(x: A, y: A2, o: A):
    z = x
    for k in range(3):
        o[k] += z[k]
        z = y


@wp.kernel
def made_in_a_trip(x: A, y: A, o: A):
    z = wp.zeros(shape=3, dtype=F)
    for k in range(3):
        o[k] += z[0]
        z = wp.zeros(shape=3, dtype=F)


@wp.kernel
def own_or_passed(x: A, y: A, o: A):
    z = wp.zeros(shape=3, dtype=F)
    for k in range(3):
        o[k] += z[k]
        z = x


@wp.kernel
def without_end(x: A, y: A, o: A):
    z = x
    for k in range(o.shape[0]):
        z = z[::2]
    o[0] = z[0]


@wp.kernel
def a_number(x: A, y: A, o: A):
    z = x
    for k in range(3):
        z = F(k)
    o[0] = z[0]


@pytest.mark.parametrize(
    ("kernel", "said"),
    [
        (other_elements, "z is an array of float32 with 1 axis here and an array of float64 with 1 axis in line"),
        (other_axes, "z is an array of float64 with 2 axes here and an array of float64 with 1 axis in line"),
        (made_in_a_trip, "z stands for an array of the thread, or a part of one, that one path alone makes"),
        (own_or_passed, "z stands for an array of the thread on one path and for another array on the other"),
        (without_end, "after this loop, a variable stands for more than 32 arrays or parts"),
        (a_number, "the variable z is float64 here and an array of float64 with 1 axis"),
    ],
)
def test_what_is_refused_has_a_line(kernel, said):
    y = {other_elements: wp.zeros(3), other_axes: wp.zeros((3, 3), dtype=F)}.get(kernel, wp.zeros(3, dtype=F))
    with pytest.raises(KernelTypeError, match=said) as caught:
        wp.launch(kernel, 1, [wp.zeros(3, dtype=F), y, wp.zeros(3, dtype=F)])
    assert f"{Path(__file__).name}:" in str(caught.value)


@wp.kernel
def left_by_an_inner_loop(x: A2, y: A2, c: wp.array(dtype=int), o: A, n: int):
    p = x
    q = y
    r = x[0]
    s = x[0, 0:]
    a = wp.zeros(shape=4, dtype=F)
    b = wp.zeros(shape=4, dtype=F)
    for k in range(n):
        for j in range(4):
            if c[j] > 3 + k:
                return
        if c[k] > 2:
            continue
        o[0] += p[0, 1] * r[1] + s[0] * s[-1] + F(len(s)) * a[0]
        b[0] = q[1, c[k]] * r[0]
        if c[k] != 1:
            t = p
            p = q
            q = t
        r = y[c[k + 1]]
        s = p[c[k], c[k] :]
        u = a
        a = b
        b = u
    o[0] += p[1, 1] * r[2] + s[1] * a[0] + b[0]


def left_by_hand(x, y, c, n):
    o, p, q, r, s, a, b = 0.0, x, y, x[0], x[0], [0.0], [0.0]
    for k in range(n):
        if max(c[:4]) > 3 + k:
            return o
        if c[k] > 2:
            continue
        o += p[0, 1] * r[1] + s[0] * s[-1] + len(s) * a[0]
        b[0] = q[1, c[k]] * r[0]
        p, q = (p, q) if c[k] == 1 else (q, p)
        r, s = y[c[k + 1]], p[c[k], c[k] :]
        a, b = b, a
    return o + p[1, 1] * r[2] + s[1] * a[0] + b[0]


@pytest.mark.parametrize("n", [0, 1, 3, 4])
@pytest.mark.parametrize("c", [[0, 1, 2, 1, 0], [2, 3, 1, 0, 1], [1, 5, 0, 2, 1]])
def test_a_return_in_an_inner_loop_leaves_the_arrays_of_the_other_paths(c, n):
    """What the outer loop carries to its next trip is chosen behind the inner loop, where it may have returned."""
    rng = np.random.default_rng(n)
    values, along, e = rng.uniform(0.2, 0.9, (2, 4, 4)), rng.normal(size=(2, 4, 4)), 1e-6

    def result(x, y):
        o = wp.zeros(1, dtype=F)
        wp.launch(left_by_an_inner_loop, 1, [x, y, wp.array(c, dtype=int), o, n])
        return o

    start = tuple(wp.array(a, dtype=F, requires_grad=True) for a in values)
    value, gradient = dk.vjp(result, start, wp.ones(1, dtype=F))
    np.testing.assert_allclose(value.numpy(), left_by_hand(*values, c, n), rtol=1e-13)
    ends = [left_by_hand(*(values + s * along), c, n) for s in (e, -e)]
    found = sum((g.numpy() * d).sum() for g, d in zip(gradient, along, strict=True))
    np.testing.assert_allclose(found, (ends[0] - ends[1]) / (2 * e), rtol=1e-6, atol=1e-8)


@wp.kernel
def row_of_the_trip_before(u: A, v: A, z: A2, c: wp.array(dtype=int), o: A, n: int):
    r = u
    t = v
    for k in range(n):
        row = c[k]
        o[0] += z[row, 1]
        for j in range(2 + k):
            w = r
            r = t
            t = w
        o[0] += r[0] * r[2] + F(10.0) * t[0]
        r = z[row]


@pytest.mark.parametrize("n", [0, 1, 2, 5])
def test_an_inner_loop_carries_the_row_of_the_trip_before(n):
    """The index of the row is that of the trip which has chosen it, not the present one of the same name."""
    u, v, z = (np.random.default_rng(5).uniform(0.2, 0.9, s) for s in (4, 4, (4, 4)))
    c, value, rows = [2, 0, 1, 3, 1], 0.0, [np.zeros(a.shape) for a in (u, v, z)]
    r, t = (u, rows[0]), (v, rows[1])
    for k in range(n):
        value += z[c[k], 1]
        rows[2][c[k], 1] += 1.0
        r, t = (t, r) if k % 2 else (r, t)
        value += r[0][0] * r[0][2] + 10.0 * t[0][0]
        r[1][0] += r[0][2]
        r[1][2] += r[0][0]
        t[1][0] += 10.0
        r = z[c[k]], rows[2][c[k]]

    def result(u, v, z):
        o = wp.zeros(1, dtype=F)
        wp.launch(row_of_the_trip_before, 1, [u, v, z, wp.array(c, dtype=int), o, n])
        return o

    start = tuple(wp.array(a, dtype=F, requires_grad=True) for a in (u, v, z))
    found, gradient = dk.vjp(result, start, wp.ones(1, dtype=F))
    np.testing.assert_allclose(found.numpy(), value, rtol=1e-13)
    for g, expected in zip(gradient, rows, strict=True):
        np.testing.assert_allclose(g.numpy(), expected, rtol=1e-13)
