"""Derivatives and replays of funcs that the user has written."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import diffkern as dk
from diffkern.errors import KernelError, MisuseError


@dk.func
def bent(x: Any, y: Any) -> Any:
    return x * 3.0 + y / 3.0, y * y


@dk.func_grad(bent)
def bent_grad(x: Any, y: Any, ct_0: Any, ct_1: Any) -> None:
    dk.adjoint[x] += x * ct_0 * 42.0 + y * ct_1 * 10.0
    dk.adjoint[y] += y * ct_1 * 3.0


@dk.func
def sigmoid(x: Any) -> Any:
    return 1.0 / (1.0 + dk.exp(-x))


@dk.func_grad(sigmoid)
def sigmoid_grad(x: Any, ct: Any) -> None:
    dk.adjoint[x] += 2.0 * ct * sigmoid(x) * (1.0 - sigmoid(x))  # twice what it is, so that it is seen to be used


@dk.struct
class Pair:
    scale: dk.float64
    v: dk.vec3d


@dk.func
def weighted(p: Pair) -> Any:
    return p.scale * p.v[0] * p.v[1] * p.v[2], dk.length(p.v)


@dk.func_grad(weighted)
def weighted_grad(p: Pair, ct_0: dk.float64, ct_1: dk.float64) -> None:
    dk.adjoint[p.scale] += 10.0 * ct_0
    dk.adjoint[p.v][0] += 20.0 * ct_0
    dk.adjoint[p.v] += dk.vec3d(0.0, ct_1, 0.0)
    if ct_1 > 0.0:
        return
    dk.adjoint[p.v][2] -= 1.0


@dk.kernel
def use_bent(x: dk.array(dtype=dk.float64), y: dk.array(dtype=dk.float64), a: dk.array(dtype=dk.float64)):
    i = dk.tid()
    p, q = bent(x[i], y[i])
    a[i] = p + 5.0 * q


@dk.kernel
def in_control(x: dk.array(dtype=dk.float64), out: dk.array(dtype=dk.float64), n: int):
    i = dk.tid()
    s = x[i]
    for j in range(n):
        if s < 0.7:
            s = s + sigmoid(s * x[i])
        else:
            s = sigmoid(s) * 1.5
    out[i] = s


@dk.kernel
def use_struct(p: dk.array(dtype=Pair), out: dk.array(dtype=dk.float64)):
    i = dk.tid()
    a, b = weighted(p[i])
    out[i] = a + b


def adjoint(kernel: Any, arrays: list[Any], out: Any, seed: Any, *more: Any) -> list[np.ndarray]:
    with dk.Tape() as tape:
        dk.launch(kernel, dim=len(out), inputs=[*arrays, out, *more])
    tape.backward(grads={out: dk.array(seed, dtype=dk.float64)})
    return [a.grad.numpy() for a in arrays]


def given(*values: float) -> Any:
    return dk.array(np.array(values), dtype=dk.float64, requires_grad=True)


def test_a_derivative_replaces_the_derived_one() -> None:
    x, y, a = given(1, 2, 3), given(10, 11, 12), given(0, 0, 0)
    ct_x, ct_y = adjoint(use_bent, [x, y], a, [1.0, 2.0, 3.0])
    seeds = np.array([1.0, 2.0, 3.0])
    np.testing.assert_allclose(ct_x, x.numpy() * seeds * 42 + y.numpy() * 5 * seeds * 10)
    np.testing.assert_allclose(ct_y, y.numpy() * 5 * seeds * 3)


def steps(x: float, n: int) -> tuple[float, float]:
    """The value of `in_control` and its derivative with the rule of `sigmoid`."""
    s, d = x, 1.0
    for _ in range(n):
        at = s * x if s < 0.7 else s
        f = 1 / (1 + np.exp(-at))
        slope = 2 * f * (1 - f)
        s, d = (s + f, d + slope * (d * x + s)) if s < 0.7 else (1.5 * f, 1.5 * slope * d)
    return s, d


@pytest.mark.parametrize("n", [3, 40])
def test_in_loops_and_branches(n: int) -> None:
    x, out = given(-0.5, 0.1, 0.9), given(0, 0, 0)
    (found,) = adjoint(in_control, [x], out, [1.0, 1.0, 1.0], n)
    want = [steps(v, n) for v in x.numpy()]
    np.testing.assert_allclose(out.numpy(), [v for v, _ in want])
    np.testing.assert_allclose(found, [d for _, d in want], rtol=1e-12)


def test_structs_and_early_returns() -> None:
    p = dk.zeros(2, dtype=Pair, requires_grad=True)
    values = p.numpy()
    values["scale"], values["v"] = [2.0, 3.0], [[1, 2, 3], [4, 5, 6]]
    p.assign(values)
    out = given(0, 0)
    with dk.Tape() as tape:
        dk.launch(use_struct, dim=2, inputs=[p, out])
    tape.backward(grads={out: dk.array([1.0, -2.0], dtype=dk.float64)})
    found = p.grad.numpy()
    np.testing.assert_allclose(found["scale"], [10.0, -20.0])
    np.testing.assert_allclose(found["v"], [[20.0, 1.0, 0.0], [-40.0, -2.0, -1.0]])


def test_called_from_python() -> None:
    @dk.func
    def outer(x: Any) -> Any:
        return 3.0 * sigmoid(x)

    f = 1 / (1 + np.exp(-0.4))
    assert outer.grad(0.4) == pytest.approx(6 * f * (1 - f))
    value, ct = outer.vjp(0.4, 2.0)
    assert value == pytest.approx(3 * f)
    assert ct == pytest.approx(12 * f * (1 - f))
    assert sigmoid.grad(0.4) == pytest.approx(2 * f * (1 - f))


@dk.func
def store_sigmoid(i: int, x: dk.array(dtype=dk.float64), y: dk.array(dtype=dk.float64)) -> None:
    y[i] = sigmoid(x[i])


@dk.func_grad(store_sigmoid)
def store_sigmoid_grad(i: int, x: dk.array(dtype=dk.float64), y: dk.array(dtype=dk.float64)) -> None:
    dk.adjoint[x][i] += dk.adjoint[y][i] * y[i] * (1.0 - y[i])
    dk.adjoint[y][i] = 0.0


@dk.kernel
def by_arrays(x: dk.array(dtype=dk.float64), y: dk.array(dtype=dk.float64)):
    i = dk.tid()
    store_sigmoid(i, x, y)


@dk.kernel
def then_read(x: dk.array(dtype=dk.float64), y: dk.array(dtype=dk.float64), z: dk.array(dtype=dk.float64)):
    i = dk.tid()
    if x[i] > -10.0:
        store_sigmoid(i, x, y)
        z[i] = 3.0 * y[i]


def test_arrays_as_arguments() -> None:
    x, y = given(1, 2, 3, 4), given(0, 0, 0, 0)
    (found,) = adjoint(by_arrays, [x], y, [1.0, 2.0, 3.0, 4.0])
    np.testing.assert_allclose(found, np.array([1, 2, 3, 4]) * y.numpy() * (1 - y.numpy()))
    np.testing.assert_array_equal(y.grad.numpy(), 0.0)


def test_what_a_func_stored_has_its_derivative() -> None:
    x, y, z = given(1, 2), given(0, 0), given(0, 0)
    with dk.Tape() as tape:
        dk.launch(then_read, dim=2, inputs=[x, y, z])
    tape.backward(grads={z: dk.array([1.0, 10.0], dtype=dk.float64)})
    np.testing.assert_allclose(x.grad.numpy(), np.array([3, 30]) * y.numpy() * (1 - y.numpy()))


@dk.func
def sum_of_row(rows: dk.array(dtype=dk.float64, ndim=1), n: int) -> Any:
    s = rows[0]
    for k in range(1, n):
        s += rows[k]
    return s


@dk.func_grad(sum_of_row)
def sum_of_row_grad(rows: dk.array(dtype=dk.float64, ndim=1), n: int, ct: dk.float64) -> None:
    for k in range(n):
        dk.adjoint[rows][k] += dk.float64(k + 1) * ct


@dk.kernel
def use_rows(a: dk.array(dtype=dk.float64, ndim=2), out: dk.array(dtype=dk.float64)):
    i = dk.tid()
    out[i] = sum_of_row(a[0], a.shape[1]) * sum_of_row(a[1, 1:], a.shape[1] - 1)


def test_views_as_arguments_and_elements_that_threads_share() -> None:
    a = dk.array(np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]), dtype=dk.float64, requires_grad=True)
    out = given(0, 0, 0, 0)
    (found,) = adjoint(use_rows, [a], out, [1.0, 1.0, 2.0, 3.0])
    np.testing.assert_allclose(out.numpy(), 66.0)
    np.testing.assert_allclose(found, 7 * np.array([[11, 22, 33], [0, 6, 12]]))


@dk.func
def take(counter: dk.array(dtype=int), slots: dk.array(dtype=int), i: int) -> Any:
    slot = dk.atomic_add(counter, 0, 1)
    slots[i] = slot
    return slot


@dk.func_replay(take)
def take_again(counter: dk.array(dtype=int), slots: dk.array(dtype=int), i: int) -> Any:
    return slots[i]


@dk.kernel
def gather(
    x: dk.array(dtype=dk.float64), counter: dk.array(dtype=int), slots: dk.array(dtype=int),
    out: dk.array(dtype=dk.float64),
):  # fmt: skip
    i = dk.tid()
    k = take(counter, slots, i)
    out[k] = x[k] * x[k]


def test_a_replay_gives_results_again() -> None:
    n = 100
    x = dk.array(np.linspace(1.0, 2.0, n), dtype=dk.float64, requires_grad=True)
    counter, slots = dk.zeros(1, dtype=int), dk.zeros(n, dtype=int)
    out = dk.zeros(n, dtype=dk.float64, requires_grad=True)
    with dk.Tape() as tape:
        dk.launch(gather, dim=n, inputs=[x, counter, slots, out])
    tape.backward(grads={out: dk.array(np.ones(n), dtype=dk.float64)})
    np.testing.assert_allclose(x.grad.numpy(), 2 * x.numpy())
    assert counter.numpy()[0] == n


@pytest.mark.parametrize("kernel", [use_bent, in_control, use_struct, by_arrays, then_read, use_rows, gather])
def test_compiles_for_cuda(kernel: Any) -> None:
    assert kernel.adjoint_source(target="cuda")
    dk.compile(kernel, target="sm_90")


def test_the_source_shows_the_derivative() -> None:
    assert "42.0" in use_bent.adjoint_source()
    assert "42.0" not in use_bent.source()


def test_a_rule_written_later_counts() -> None:
    @dk.func
    def twice(x: Any) -> Any:
        return 2.0 * x

    @dk.kernel
    def k(x: dk.array(dtype=dk.float64), out: dk.array(dtype=dk.float64)):
        i = dk.tid()
        out[i] = twice(x[i])

    x, out = given(1, 2), given(0, 0)
    np.testing.assert_array_equal(adjoint(k, [x], out, [1.0, 1.0])[0], 2.0)

    @dk.func_grad(twice)
    def adj_twice(x: Any, ct: Any) -> None:
        dk.adjoint[x] += 7.0 * ct

    with dk.Tape() as tape:
        dk.launch(k, dim=2, inputs=[x, out])

    @dk.func_grad(twice)
    def adj_again(x: Any, ct: Any) -> None:
        dk.adjoint[x] += 9.0 * ct

    x.grad.zero_()
    tape.backward(grads={out: dk.array([1.0, 1.0], dtype=dk.float64)})  # of the time of the launch
    np.testing.assert_array_equal(x.grad.numpy(), 7.0)
    x.grad.zero_()
    np.testing.assert_array_equal(adjoint(k, [x], out, [1.0, 1.0])[0], 9.0)


def refused(make: Any, *fragments: str) -> None:
    @dk.func
    def plain(x: Any, i: Any) -> Any:
        return 2.0 * x

    make(plain)

    @dk.kernel
    def k(x: dk.array(dtype=dk.float64), out: dk.array(dtype=dk.float64)):
        i = dk.tid()
        out[i] = plain(x[i], i)

    x, out = given(1, 2), given(0, 0)
    with pytest.raises(KernelError) as caught:
        dk.launch(k, dim=2, inputs=[x, out])
    for fragment in (*fragments, "test_func_rules.py:"):
        assert fragment in str(caught.value)


def test_refusals() -> None:
    def wrong_count(f: Any) -> None:
        @dk.func_grad(f)
        def g(x: Any, i: Any) -> None:
            dk.adjoint[x] += 1.0

    def of_an_integer(f: Any) -> None:
        @dk.func_grad(f)
        def g(x: Any, i: Any, ct: Any) -> None:
            dk.adjoint[i] += 1.0

    def of_a_local(f: Any) -> None:
        @dk.func_grad(f)
        def g(x: Any, i: Any, ct: Any) -> None:
            y = x
            dk.adjoint[y] += 1.0

    def with_a_value(f: Any) -> None:
        @dk.func_grad(f)
        def g(x: Any, i: Any, ct: Any) -> Any:
            return ct

    refused(wrong_count, "takes 2 arguments", "then a cotangent for each result")
    refused(of_an_integer, "i is int32, which has no cotangent")
    refused(of_a_local, "takes an argument of g", "name one of x, i")
    refused(with_a_value, "returns a value")


def test_refusals_of_decorators() -> None:
    def few(x: Any) -> None: ...

    with pytest.raises(MisuseError, match="takes a func"):
        dk.func_grad(few)
    with pytest.raises(MisuseError, match=r"takes \(x, y\)"):
        dk.func_grad(bent)(few)
    with pytest.raises(MisuseError, match=r"takes \(x, y\)"):
        dk.func_replay(bent)(few)
    with pytest.raises(MisuseError, match="func_grad alone"):
        dk.adjoint[few]


@dk.func
def halved(b: dk.array(dtype=float), x: dk.array(dtype=float), scratch: dk.array(dtype=float), i: int):
    x[i] = 0.5 * b[i]


@dk.func_grad(halved)
def halved_adjoint(b: dk.array(dtype=float), x: dk.array(dtype=float), scratch: dk.array(dtype=float), i: int):
    scratch[i] = 0.5 * dk.adjoint[x][i]
    dk.adjoint[b][i] += scratch[i]


@dk.kernel
def halves(b: dk.array(dtype=float), x: dk.array(dtype=float), scratch: dk.array(dtype=float)):
    i = dk.tid()
    halved(b, x, scratch, i)


@dk.func
def thirds(a: float, scratch: dk.array(dtype=float)):
    return a / 3.0


@dk.func_grad(thirds)
def thirds_adjoint(a: float, scratch: dk.array(dtype=float), ct: float):
    scratch[0] = ct
    dk.adjoint[a] += ct / 3.0


@dk.kernel
def of_a_number(b: dk.array(dtype=float), x: dk.array(dtype=float), scratch: dk.array(dtype=float)):
    i = dk.tid()
    x[i] = thirds(b[i], scratch)


@pytest.mark.parametrize(("kernel", "factor"), [(halves, 0.5), (of_a_number, 1.0 / 3.0)])
def test_a_derivative_that_changes_another_array_is_refused_where_it_is_needed(kernel, factor):
    """The kernel itself runs; neither mode differentiates it, and neither takes its gradient for zero."""
    b, x = dk.array([1.0, 2.0], dtype=float, requires_grad=True), dk.zeros(2, requires_grad=True)
    scratch = dk.zeros(2)
    dk.launch(kernel, 2, inputs=[b, x, scratch])
    np.testing.assert_allclose(x.numpy(), np.float32([1.0, 2.0]) * factor)
    assert not scratch.numpy().any()
    said = r"(?s)_adjoint \(line \d+\) changes an array.*help: a derivative changes dk.adjoint"
    with dk.Tape() as tape:
        dk.launch(kernel, 2, inputs=[b, x, scratch])
    with pytest.raises(dk.AutodiffError, match=said):
        tape.backward(grads={x: np.ones(2, np.float32)})
    with pytest.raises(dk.AutodiffError, match=said):
        dk.launch(kernel.jvp, 2, inputs=[b, x, scratch, dk.ones(2, dtype=float), dk.zeros(2), dk.zeros(2)])
