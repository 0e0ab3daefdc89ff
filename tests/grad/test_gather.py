"""Sums over all pairs: adjoints in which each thread computes what others would add to its elements.

Such a gradient is compared with that of the program that scatters and with central differences, and where it would be
wrong, with as many threads as there are trips or with others, it must not be taken.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np
import pytest

import diffkern as dk
from diffkern.runtime.accumulate import adjoint_seeding
from diffkern.runtime.accumulate.adjoint import AdjointLaunch

D = dk.array(dtype=dk.float64)
D2 = dk.array2d(dtype=dk.float64)
V = dk.array(dtype=dk.vec3d)
F = dk.array(dtype=float)


@dk.kernel(fast_math=True)
def attraction(x: V, m: D, n: int, a: V):
    i = dk.tid()
    total = dk.vec3d(0.0, 0.0, 0.0)
    for j in range(n):
        d = x[j] - x[i]
        r = dk.sqrt(dk.dot(d, d) + dk.float64(0.1))
        total += d * (m[j] / (r * r * r))
    a[i] = total


@dk.kernel(fast_math=True)
def kernel_matrix(x: D, w: D, scale: dk.float64, y: D):
    i = dk.tid()
    s = dk.float64(0.0)
    for j in range(x.shape[0]):
        d = x[i] - x[j]
        s += w[j] * dk.exp(-scale * d * d)
    y[i] = s


@dk.kernel(fast_math=True)
def energy(x: D, q: D, n: int, e: D):
    i = dk.tid()
    s = dk.float64(0.0)
    for j in range(n):
        if i != j:
            s += q[i] * q[j] / dk.abs(x[i] - x[j])
    dk.atomic_add(e, 0, s)


@dk.kernel(fast_math=True)
def nearer(x: D, w: D, reach: dk.float64, n: int, y: D):
    i = dk.tid()
    s = dk.float64(0.0)
    for j in range(n):
        d = x[j] - x[i]
        if d * d < reach:
            s += dk.sin(d) * w[j]
            if j > i:
                s += w[j] * w[j] * x[i]
        else:
            s -= dk.float64(0.1) * d * w[i]
    y[i] = s


@dk.kernel(fast_math=True)
def one_sided(x: D, y: D, w: D, n: int, out: D):
    i = dk.tid()
    s = dk.float64(0.0)
    for j in range(n):
        s += dk.sin(x[i] * w[j]) * dk.cos(y[j])
    out[i] = s * x[i]


@dk.kernel(fast_math=True)
def guarded(x: D, n: int, y: D):
    i = dk.tid()
    if i < n:
        s = dk.float64(0.0)
        for j in range(n):
            s += dk.sin(x[i] - dk.float64(2.0) * x[j])
        y[i] = s


@dk.kernel(fast_math=True)
def leaving(x: D, n: int, y: D):
    i = dk.tid()
    if i >= n:
        return
    s = dk.float64(0.0)
    for j in range(n):
        s += x[i] * x[j] * x[j]
    y[i] = s


@dk.kernel(fast_math=True)
def columns(x: D2, n: int, y: D):
    i = dk.tid()
    s = dk.float64(0.0)
    for j in range(n):
        s += (x[j, 0] - x[i, 0]) * dk.cos(x[j, 1] * x[i, 2])
    y[i] = s


@dk.kernel(fast_math=True)
def two_loops(x: D, w: D, n: int, y: D):
    i = dk.tid()
    s = dk.float64(0.0)
    for j in range(n):
        s += dk.sin(x[j] - x[i])
    t = dk.float64(0.0)
    for k in range(n):
        t += w[k] * dk.cos(x[i] * x[k])
    y[i] = s + t


@dk.kernel(fast_math=True)
def weighed(x: D, kind: dk.array(dtype=int), n: int, y: D, z: D):
    i = dk.tid()
    c = dk.float64(1.0)
    if kind[i] > 0:
        c = x[i] * x[i]
    s = dk.float64(0.0)
    for j in range(n):
        s += c * x[j] * dk.float64(kind[j])
    y[i] = s
    z[i] = c


@dk.struct
class Star:
    position: dk.vec3d
    mass: dk.float64


@dk.kernel(fast_math=True)
def stars(s: dk.array(dtype=Star), n: int, a: V):
    i = dk.tid()
    total = dk.vec3d(0.0, 0.0, 0.0)
    for j in range(n):
        d = s[j].position - s[i].position
        total += d * (s[j].mass / (dk.dot(d, d) + dk.float64(0.2)))
    a[i] = total


@dk.kernel(fast_math=True)
def drifting(p: V, v: V, dt: dk.float64, n: int, a: V):
    i = dk.tid()
    q = p[i]
    f = dk.vec3d(0.0, 0.0, 0.0)
    for j in range(n):
        q += v[j] * dt  # what is carried is read in the same trip: v cannot be gathered, p can
        f += q - p[j]
    a[i] = f


@dk.kernel(fast_math=True)
def running(x: D, w: dk.array(dtype=int), z: D, n: int, y: D):
    i = dk.tid()
    c = x[i]
    s = dk.float64(0.0)
    for j in range(n):
        c += z[j]
        s += c * dk.float64(w[j])
        s += x[j] * x[j]
    y[i] = s


def uniform(seed: int, *shape: int, low: float = -1.0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(low, 1.0, shape)


N = 37
LINE = {
    "kernel_matrix": (kernel_matrix, [uniform(1, N), uniform(2, N), 1.3], [np.zeros(N)]),
    "one_sided": (one_sided, [uniform(1, N), uniform(2, N), uniform(3, N), N], [np.zeros(N)]),
    "guarded": (guarded, [uniform(1, N), N], [np.zeros(N)]),
    "leaving": (leaving, [uniform(1, N), N], [np.zeros(N)]),
    "nearer": (nearer, [uniform(1, N), uniform(2, N), 0.4, N], [np.zeros(N)]),
    "energy": (energy, [uniform(1, N), uniform(2, N), N], [np.zeros(1)]),
    "columns": (columns, [uniform(1, N, 4), N], [np.zeros(N)]),
    "two_loops": (two_loops, [uniform(1, N), uniform(2, N), N], [np.zeros(N)]),
    "weighed": (weighed, [uniform(1, N), (np.arange(N) % 3).astype(np.int32), N], [np.zeros(N), np.zeros(N)]),
    "attraction": (attraction, [uniform(1, N, 3), uniform(2, N, low=0.1), N], [np.zeros((N, 3))]),
    "drifting": (drifting, [uniform(1, N, 3), uniform(2, N, 3), 0.1, N], [np.zeros((N, 3))]),
    "running": (
        running, [uniform(1, N), (np.arange(N) % 3).astype(np.int32), uniform(2, N), N], [np.zeros(N)],
    ),
}  # fmt: skip


def argument(value: Any) -> Any:
    if not isinstance(value, np.ndarray):
        return value
    dtype = dk.vec3d if value.ndim == 2 and value.shape[1] == 3 else None
    return dk.array(value, dtype=dtype, requires_grad=value.dtype.kind == "f")


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Of each adjoint that has been made, whether it gathers."""
    found: list[bool] = []
    init = AdjointLaunch.__init__

    def noted(self: AdjointLaunch, *arguments: Any, **named: Any) -> None:
        init(self, *arguments, **named)
        found.append(self.gathers)

    monkeypatch.setattr(AdjointLaunch, "__init__", noted)
    return found


@contextmanager
def scattering(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patched:
        patched.setattr(AdjointLaunch, "may_gather", lambda self, part: False)
        yield


def gradients(kernel: Any, dim: Any, inputs: list[Any], outputs: list[Any], seed: int = 5) -> list[np.ndarray]:
    """The gradients of inputs, and of outputs as the adjoint leaves them."""
    ins, outs = [argument(v) for v in inputs], [argument(v) for v in outputs]
    with dk.Tape() as tape:
        dk.launch(kernel, dim=dim, inputs=ins, outputs=outs)
    rng = np.random.default_rng(seed)
    tape.backward(grads={o: rng.normal(size=o.numpy().shape) for o in outs})
    return [a.grad.numpy().copy() for a in (*ins, *outs) if isinstance(a, dk.array) and a.grad is not None]


def value(kernel: Any, dim: Any, inputs: list[Any], outputs: list[Any], seed: int = 5) -> float:
    ins, outs = [argument(v) for v in inputs], [argument(v) for v in outputs]
    dk.launch(kernel, dim=dim, inputs=ins, outputs=outs)
    rng = np.random.default_rng(seed)
    return sum(float((o.numpy() * rng.normal(size=o.numpy().shape)).sum()) for o in outs)


def with_count(inputs: list[Any], count: int) -> list[Any]:
    return [count if isinstance(v, int) else v for v in inputs]


@pytest.mark.parametrize("name", LINE)
def test_the_gradient_is_that_of_the_program_that_scatters(name: str, ran: list[bool], monkeypatch: Any) -> None:
    kernel, inputs, outputs = LINE[name]
    found = gradients(kernel, N, inputs, outputs)
    assert ran == [True]
    with scattering(monkeypatch):
        expected = gradients(kernel, N, inputs, outputs)
    assert ran == [True, False]
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-11 * np.abs(b).max(initial=1.0))


@pytest.mark.parametrize("name", LINE)
def test_the_gradient_is_that_of_differences(name: str, ran: list[bool]) -> None:
    kernel, inputs, outputs = LINE[name]
    found = gradients(kernel, N, inputs, outputs)
    assert ran == [True]
    floats = [k for k, v in enumerate(inputs) if isinstance(v, np.ndarray) and v.dtype.kind == "f"]
    for place, k in enumerate(floats):
        along, step = uniform(11, *inputs[k].shape), 1e-6
        ends = []
        for sign in (1.0, -1.0):
            moved = [v + sign * step * along if i == k else v for i, v in enumerate(inputs)]
            ends.append(value(kernel, N, moved, outputs))
        np.testing.assert_allclose((found[place] * along).sum(), (ends[0] - ends[1]) / (2 * step), rtol=2e-5, atol=1e-7)


@dk.kernel(fast_math=True)
def within(q: D, v: V, reach: dk.float64, n: int, a: V):
    i = dk.tid()
    total = dk.vec3d(0.0, 0.0, 0.0)
    for j in range(n):
        d = q[j] - q[i]
        if d * d < reach:
            total += v[j] * dk.sin(d)
    a[i] = total


def test_a_sum_of_which_a_component_is_zero(ran: list[bool], monkeypatch: pytest.MonkeyPatch) -> None:
    """Only what is zero as a whole adds nothing, where an element need not exist."""
    q, v = uniform(1, N), uniform(2, N, 3)

    def gradient() -> np.ndarray:
        made = [argument(a) for a in (q, v, 0.4, N, np.zeros((N, 3)))]
        with dk.Tape() as tape:
            dk.launch(within, dim=N, inputs=made)
        tape.backward(grads={made[-1]: np.tile([1.0, 0.0, -2.0], (N, 1))})
        return made[1].grad.numpy().copy()

    found = gradient()
    with scattering(monkeypatch):
        expected = gradient()
    assert ran == [True, False]
    d = q[None, :] - q[:, None]
    np.testing.assert_allclose(expected[:, 0], np.where(d * d < 0.4, np.sin(d), 0.0).sum(axis=0), rtol=1e-9)
    np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("name", [n for n in LINE if n != "kernel_matrix"])
@pytest.mark.parametrize(("count", "dim"), [(N - 5, N), (N, N - 5), (N - 5, N - 5), (1, 1), (1, N), (0, N), (N, 0)])
def test_only_as_many_threads_as_trips_gather(
    name: str, count: int, dim: int, ran: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel, inputs, outputs = LINE[name]
    inputs = with_count(inputs, count)
    found = gradients(kernel, dim, inputs, outputs)
    # A cotangent that other threads read is cleared as a whole.
    assert (True in ran) == (count == dim and name == "energy")
    with scattering(monkeypatch):
        expected = gradients(kernel, dim, inputs, outputs)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-11 * np.abs(b).max(initial=1.0))


# -- where it must not be taken --------------------------------------------------------------------------------------


@dk.kernel(fast_math=True)
def shifted(x: D, n: int, y: D):
    i = dk.tid()
    s = dk.float64(0.0)
    for j in range(n):
        s += x[i] * x[j + 1]
    y[i] = s


@dk.kernel(fast_math=True)
def earlier(x: D, n: int, y: D):
    i = dk.tid()
    s = dk.float64(0.0)
    for j in range(i):
        s += x[i] * x[j] * x[j]
    y[i] = s


@dk.kernel(fast_math=True)
def from_one(x: D, n: int, y: D):
    i = dk.tid()
    s = dk.float64(0.0)
    for j in range(1, n):
        s += dk.sin(x[i] * x[j])
    y[i] = s


@dk.kernel(fast_math=True)
def every_second(x: D, n: int, y: D):
    i = dk.tid()
    s = dk.float64(0.0)
    for j in range(0, n, 2):
        s += dk.sin(x[i] * x[j])
    y[i] = s


@dk.kernel(fast_math=True)
def recurrent(x: D, n: int, y: D):
    i = dk.tid()
    s = x[i]
    for j in range(n):
        s = dk.float64(0.5) * dk.sin(s) + x[j] * s
    y[i] = s


@dk.kernel(fast_math=True)
def in_place(x: D, v: D, n: int):
    i = dk.tid()
    s = dk.float64(0.0)
    for j in range(n):
        s += x[i] * x[j]
    v[i] = v[i] * s


@dk.kernel(fast_math=True)
def looked_up(x: D, k: dk.array(dtype=int), n: int, y: D):
    i = dk.tid()
    s = dk.float64(0.0)
    for j in range(n):
        s += x[i] * x[k[j]]
    y[i] = s


@dk.kernel(fast_math=True)
def inner(x: D, n: int, y: D):
    i = dk.tid()
    s = dk.float64(0.0)
    for j in range(n):
        t = x[i]
        for k in range(n):
            t = t * dk.cos(t)
        s += x[j] * t
    y[i] = s


@dk.kernel(fast_math=True)
def twice_outside(x: D, n: int, y: D):
    i = dk.tid()
    c = x[i]
    for k in range(n):
        c = c * dk.cos(c)
    s = dk.float64(0.0)
    for j in range(n):
        s += x[j] * c
    y[i] = s


@dk.kernel(fast_math=True)
def two_axes(x: D, n: int, y: D2):
    i, k = dk.tid()
    s = dk.float64(0.0)
    for j in range(n):
        s += x[i] * x[j]
    y[i, k] = s


@dk.kernel(fast_math=True)
def twice_as_many(x: D, n: int, y: D):
    i = dk.tid()
    s = dk.float64(0.0)
    for j in range(2 * n):
        s += dk.sin(x[i] * x[j])
    y[i] = s


@dk.kernel(fast_math=True)
def more_by_three(x: D, n: int, y: D):
    i = dk.tid()
    s = dk.float64(0.0)
    for j in range(n + 3):
        s += dk.sin(x[i] * x[j])
    y[i] = s


PERMUTED = np.random.default_rng(0).permutation(N).astype(np.int32)
OTHERS = {
    "shifted": (shifted, N, [uniform(1, N + 1), N], [np.zeros(N)]),
    "earlier": (earlier, N, [uniform(1, N), N], [np.zeros(N)]),
    "from_one": (from_one, N, [uniform(1, N), N], [np.zeros(N)]),
    "every_second": (every_second, N, [uniform(1, N), N], [np.zeros(N)]),
    "twice_as_many": (twice_as_many, N, [uniform(1, 2 * N), N], [np.zeros(N)]),
    "more_by_three": (more_by_three, N, [uniform(1, N + 3), N], [np.zeros(N)]),
    "recurrent": (recurrent, N, [uniform(1, N), N], [np.zeros(N)]),
    "in_place": (in_place, N, [uniform(1, N), uniform(2, N), N], []),
    "looked_up": (looked_up, N, [uniform(1, N), PERMUTED, N], [np.zeros(N)]),
    "inner": (inner, N, [uniform(1, N), N], [np.zeros(N)]),
    "twice_outside": (twice_outside, N, [uniform(1, N), N], [np.zeros(N)]),
    "two_axes": (two_axes, (N, 2), [uniform(1, N), N], [np.zeros((N, 2))]),
}


def adjoint(kernel: Any, dim: Any, inputs: list[Any], outputs: list[Any]) -> list[np.ndarray]:
    """The gradients of all arguments, on a tape: those of outputs are given, or of what is changed in place."""
    ins, outs = [argument(v) for v in inputs], [argument(v) for v in outputs]
    with dk.Tape() as tape:
        dk.launch(kernel, dim=dim, inputs=ins, outputs=outs)
    goals = outs or [ins[1]]
    rng = np.random.default_rng(7)
    tape.backward(grads={o: rng.normal(size=o.numpy().shape) for o in goals})
    return [a.grad.numpy().copy() for a in ins if isinstance(a, dk.array) and a.requires_grad]


@pytest.mark.parametrize("name", OTHERS)
def test_other_loops_scatter(name: str, ran: list[bool]) -> None:
    kernel, dim, inputs, outputs = OTHERS[name]
    found = adjoint(kernel, dim, inputs, outputs)
    assert True not in ran
    along, step = uniform(11, *inputs[0].shape), 1e-6
    ends = []
    for sign in (1.0, -1.0):
        ins = [argument(v) for v in (inputs[0] + sign * step * along, *inputs[1:])]
        outs = [argument(v) for v in outputs]
        dk.launch(kernel, dim=dim, inputs=ins, outputs=outs)
        goal = outs[0] if outs else ins[1]
        ends.append((goal.numpy() * np.random.default_rng(7).normal(size=goal.numpy().shape)).sum())
    np.testing.assert_allclose((found[0] * along).sum(), (ends[0] - ends[1]) / (2 * step), rtol=1e-4, atol=1e-6)


def test_one_array_for_two_parameters(ran: list[bool]) -> None:
    def both() -> np.ndarray:
        x, out = argument(uniform(1, N)), argument(np.zeros(N))
        with dk.Tape() as tape:
            one_sided[N](x, x, argument(uniform(3, N)), N, out)
        tape.backward(grads={out: uniform(4, N)})
        return x.grad.numpy().copy()

    found = both()
    assert ran == [False]
    x, y = argument(uniform(1, N)), argument(uniform(1, N))
    out = argument(np.zeros(N))
    with dk.Tape() as tape:
        one_sided[N](x, y, argument(uniform(3, N)), N, out)
    tape.backward(grads={out: uniform(4, N)})
    assert ran == [False, True]
    np.testing.assert_allclose(found, x.grad.numpy() + y.grad.numpy(), rtol=1e-11)


def test_gradients_of_fields(ran: list[bool], monkeypatch: pytest.MonkeyPatch) -> None:
    """Cotangents of fields, which lie between others, are sums of the same."""
    found = []
    for scatters in (False, True):
        s, a = dk.zeros(N, dtype=Star, requires_grad=True), argument(np.zeros((N, 3)))
        values = s.numpy()
        values["position"], values["mass"] = uniform(1, N, 3), uniform(2, N)
        with dk.Tape() as tape:
            stars[N](s, N, a)
        with scattering(monkeypatch) if scatters else nullcontext():
            tape.backward(grads={a: uniform(4, N, 3)})
        found.append(s.grad.numpy().copy())
    assert ran == [True, False]
    for name in ("position", "mass"):
        np.testing.assert_allclose(found[0][name], found[1][name], rtol=1e-10)
        assert np.abs(found[0][name]).max() > 0.1


def test_a_gradient_that_is_a_view_keeps_its_surroundings(ran: list[bool]) -> None:
    """The cotangent of the output is part of a larger array, or not contiguous."""
    x, w = argument(uniform(1, N)), argument(uniform(2, N))
    for step in (1, 2):
        y, whole = argument(np.zeros(N)), dk.array(np.ones(2 * N + 4))
        seed = whole[2 : 2 + step * N : step]
        launch = dk.launch(
            kernel_matrix, dim=N, inputs=[x, w, 1.3], outputs=[y], adj_inputs=[x.grad, w.grad, None],
            adj_outputs=[seed], adjoint=True,
        )  # fmt: skip
        assert launch is None
        expected = np.ones(2 * N + 4)
        expected[2 : 2 + step * N : step] = 0.0
        np.testing.assert_array_equal(whole.numpy(), expected)
    assert ran == [True, False]


@dk.kernel(fast_math=True)
def where_there_is(x: D, w: D, n: int, y: D):
    i = dk.tid()
    s = dk.float64(0.0)
    for j in range(n):
        if j < x.shape[0]:
            s += w[i] * x[j]
    y[i] = s


@dk.kernel(fast_math=True)
def where_there_is_a_column(x: D2, w: D, c: int, n: int, y: D):
    i = dk.tid()
    s = dk.float64(0.0)
    for j in range(n):
        if c < x.shape[1]:
            s += w[i] * x[j, c]
    y[i] = s


@pytest.mark.parametrize(
    ("kernel", "shape", "more"),
    [(where_there_is, (2,), []), (where_there_is_a_column, (N, 1), [1]), (where_there_is_a_column, (N, 1), [40])],
)
def test_elements_that_do_not_exist_are_left_alone(
    kernel: Any, shape: tuple[int, ...], more: list[int], ran: list[bool]
) -> None:
    """A thread whose element no trip reads adds nothing, not even zero, which would change -0 to 0."""
    size = int(np.prod(shape))
    whole = dk.array(np.full(size + 3000, -0.0))
    whole[:size].fill_(0.0)
    x, w = dk.array(uniform(1, *shape)), dk.array(uniform(2, N))
    y = dk.zeros(N, dtype=dk.float64)
    ct_x, ct_w, ct_y = whole[:size].reshape(shape), dk.zeros_like(w), dk.ones(N, dtype=dk.float64)
    dk.launch(
        kernel, dim=N, inputs=[x, w, *more, N], outputs=[y], adj_inputs=[ct_x, ct_w, *(None for _ in more), None],
        adj_outputs=[ct_y], adjoint=True,
    )  # fmt: skip
    assert ran == [True]
    np.testing.assert_array_equal(np.signbit(whole.numpy()[size:]), True)
    expected = np.full(2, w.numpy().sum()) if kernel is where_there_is else np.zeros(size)
    np.testing.assert_allclose(whole.numpy()[:size], expected, rtol=1e-12)


@dk.kernel(fast_math=True)
def by_side(x: D, w: D, z: D, n: int, y: D):
    i = dk.tid()
    s = dk.float64(0.0)
    for j in range(n):
        d = w[i] * x[j] - x[i] * w[j]  # zero for j = i, but for the rounding of fused products
        s += dk.where(d < dk.sin(x[j] - x[i]), z[i] - z[j], z[i])
    y[i] = s


def test_branches_that_rounding_decides_are_those_of_the_launch(ran: list[bool]) -> None:
    x, w, z = uniform(1, N), uniform(2, N), uniform(3, N)
    found = gradients(by_side, N, [x, w, z, N], [np.zeros(N)])
    assert ran == [False]
    along = uniform(11, N)
    ends = [value(by_side, N, [x, w, z + step * along, N], [np.zeros(N)]) for step in (0.5, -0.5)]
    np.testing.assert_allclose((found[2] * along).sum(), ends[0] - ends[1], rtol=1e-10)


def test_products_that_must_keep_their_order_scatter(ran: list[bool]) -> None:
    """Gathering is less work only where like terms of sums may be collected."""
    kernel = dk.kernel(kernel_matrix.func)
    gradients(kernel, N, [uniform(1, N), uniform(2, N), 1.3], [np.zeros(N)])
    gradients(dk.kernel(kernel.func, fast_math=True), N, [uniform(1, N), uniform(2, N), 1.3], [np.zeros(N)])
    assert ran == [False, True]


# -- records and sequences -------------------------------------------------------------------------------------------


def recorded(count: int) -> tuple[dk.Sequence, list[Any]]:
    x, w, out = argument(uniform(1, N)), argument(uniform(2, N)), argument(np.zeros(N))
    y = argument(uniform(3, N))
    seed = dk.array(uniform(4, N))
    with dk.record() as sequence:
        for a in (x, y, w):
            a.grad.zero_()
        with dk.Tape() as tape:
            one_sided[N](x, y, w, count, out)
        tape.backward(grads={out: seed})
    return sequence, [x, y, w, out]


def held(arrays: list[Any]) -> list[np.ndarray]:
    return [a.grad.numpy().copy() for a in arrays] + [arrays[-1].numpy().copy()]


@pytest.mark.parametrize("stores", [False, True])
def test_a_sequence_with_launch_and_adjoint_in_one_program(
    stores: bool, ran: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    if stores:
        monkeypatch.setattr(adjoint_seeding, "_WORK_PER_BYTE", np.inf)
    sequence, arrays = recorded(N)
    assert True in ran
    assert sum(form is not None and not len(form) for form in sequence._program.forms) == (3 if stores else 1)
    sequence.replay()
    sequence.replay()
    found = held(arrays)
    with scattering(monkeypatch):
        sequence, arrays = recorded(N)
    sequence.replay()
    for a, b in zip(found, held(arrays), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-12)


def test_the_number_of_trips_of_a_sequence_changes(ran: list[bool], monkeypatch: pytest.MonkeyPatch) -> None:
    sequence, arrays = recorded(N)
    for count in (N - 9, N, 3, N):
        sequence.set_param("n", count)
        sequence.replay()
        assert ran[-1] == (count == N)
        found = held(arrays)
        with scattering(monkeypatch):
            other, others = recorded(count)
            other.replay()
        for a, b in zip(found, held(others), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-12)
        ran.append(count == N)  # of the sequence, not of the other one


@pytest.mark.parametrize("counts", [(N, N - 9, N), (N - 9, N, 3)])
def test_the_number_of_trips_of_a_recorded_adjoint_changes(
    counts: tuple[int, ...], ran: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    x, y, w, out = argument(uniform(1, N)), argument(uniform(2, N)), argument(uniform(3, N)), argument(np.zeros(N))
    record = dk.launch(one_sided, dim=N, inputs=[x, y, w, counts[0]], outputs=[out], record_cmd=True, adjoint=True)
    for count in (*counts, *counts):
        record.set_param_by_name("n", count)
        for a in (x, y, w):
            a.grad.zero_()
        out.grad.assign(uniform(4, N))
        record.launch()
        found = [a.grad.numpy().copy() for a in (x, y, w, out)]
        with scattering(monkeypatch):
            others = [argument(uniform(k, N)) for k in (1, 2, 3)] + [argument(np.zeros(N))]
            others[3].grad.assign(uniform(4, N))
            dk.launch(
                one_sided, dim=N, inputs=[*others[:3], count], outputs=[others[3]], adj_inputs=[None] * 4,
                adj_outputs=[None], adjoint=True,
            )  # fmt: skip
        for a, b in zip(found, others, strict=True):
            np.testing.assert_allclose(a, b.grad.numpy(), rtol=1e-11, atol=1e-12)
