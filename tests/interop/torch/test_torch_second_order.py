"""Derivatives of any order in PyTorch: double backward, forward mode, torch.func, and what of it is refused."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from conftest import require

require("torch")

import torch
from torch.autograd import forward_ad, gradcheck, gradgradcheck
from torch.func import grad, hessian, jacfwd, jacrev, jvp, vjp, vmap

import diffkern as dk

# PyTorch scripts its own decompositions, and says of itself that it should not.
pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")

f1 = dk.array(dtype=dk.float64)
f2 = dk.array(dtype=dk.float64, ndim=2)
i1 = dk.array(dtype=int)
v1 = dk.array(dtype=dk.vec3d)


@dk.kernel
def wave(x: f1, a: dk.float64, y: f1):
    i = dk.tid()
    y[i] = dk.sin(a * x[i]) * x[i]


@dk.kernel
def untyped(x, a, y: f1):
    i = dk.tid()
    y[i] = a * x[i] * x[i] * x[i]


@dk.kernel
def stencil(x: f2, w: f1, y: f2):
    i, j = dk.tid()
    v = w[0] * x[i, j]
    if i > 0:
        v += w[1] * x[i - 1, j] * x[i, j]
    if j > 0:
        v += w[2] * x[i, j - 1] * x[i, j]
    y[i, j] = v


@dk.kernel
def gather(x: f1, index: i1, y: f1):
    i = dk.tid()
    y[i] = x[index[i]] * x[index[(i + 1) % 4]]


@dk.kernel
def bins(x: f1, counts: i1, sums: f1):
    i = dk.tid()
    dk.atomic_add(sums, i % 2, x[i] * x[i] * x[i])
    dk.atomic_add(counts, i % 2, 1)


@dk.kernel
def springs(x: v1, ends: dk.array(dtype=dk.vec2i), rest: dk.float64, energy: f1, force: v1):
    i = dk.tid()
    a, b = ends[i][0], ends[i][1]
    d = x[b] - x[a]
    stretch = dk.length(d) - rest
    pull = d * (stretch / dk.length(d))
    dk.atomic_add(force, a, pull)
    dk.atomic_sub(force, b, pull)
    dk.atomic_add(energy, 0, 0.5 * stretch * stretch)


@dk.kernel
def in_place(x: f1, s: f1, y: f1):
    i = dk.tid()
    s[i] = s[i] * s[i] * x[i]
    y[i] = s[i] * s[i]


@dk.kernel
def turn(p: v1, axis: dk.vec3d, q: v1, r: f1):
    i = dk.tid()
    q[i] = dk.cross(axis, p[i]) * dk.dot(p[i], p[i])
    r[i] = dk.length(p[i])


@dk.kernel
def logistic(x: f1, steps: int, rate: dk.float64, y: f1):
    i = dk.tid()
    v = x[i]
    for _ in range(steps):
        v = rate * v * (1.0 - v)
    y[i] = v


@dk.kernel
def newton(x: f1, y: f1):
    i = dk.tid()
    v = 1.0 + 0.5 * x[i]
    while dk.abs(v * v - x[i]) > 1e-3:
        v = 0.5 * (v + x[i] / v)
    y[i] = v


@dk.struct
class Body:
    at: dk.vec3d
    speed: dk.vec3d
    mass: dk.float64


@dk.func
def moved(b: Body, dt: dk.float64):
    b.speed = b.speed - b.at * (dt / b.mass)
    b.at = b.at + b.speed * dt
    return b


@dk.kernel
def orbit(x: v1, mass: f1, y: v1):
    i = dk.tid()
    b = Body(x[i], dk.vec3d(0.1, 0.2, 0.3), mass[i])
    for _ in range(3):
        b = moved(b, mass[i] * 0.3)
    y[i] = b.at * dk.dot(b.speed, b.speed)


@dk.kernel
def softmax(x: f2, y: f2):
    i = dk.tid()
    row = dk.tile_load(x[i], shape=4)
    e = dk.tile_map(dk.exp, row)
    dk.tile_store(y[i], e / dk.tile_sum(e)[0])


@dk.kernel
def product(a: f2, b: f2, c: f2):
    s = dk.tile_load(a, shape=(2, 3))
    t = dk.tile_load(b, shape=(3, 2))
    dk.tile_store(c, dk.tile_map(dk.sin, dk.tile_matmul(s, t)))


@dk.kernel
def bezier(p: f2, y: f1):
    i = dk.tid()
    q = dk.zeros(shape=4, dtype=dk.float64)
    for k in range(4):
        q[k] = p[i, k]
    t = q[0] * q[3]
    for n in range(1, 4):
        for k in range(4 - n):
            q[k] = q[k] * (1.0 - t) + q[k + 1] * t
    y[i] = q[0]


@dk.kernel(block_dim=4)
def neighbours(x: f1, y: f1):
    i = dk.tid()
    s = dk.shared_array(4, dk.float64)
    s[i] = x[i] * x[i]
    dk.syncthreads()
    y[i] = s[(i + 1) % 4] * x[i]


@dk.func
def cubed(x: dk.float64):
    return x * x * x


@dk.func_grad(cubed)
def cubed_grad(x: dk.float64, ct: dk.float64):
    dk.adjoint[x] += 3.0 * x * x * ct


@dk.kernel
def with_rule(x: f1, y: f1):
    i = dk.tid()
    y[i] = cubed(x[i]) * x[i]


@dk.kernel
def inverted(m: dk.array(dtype=dk.mat22d), w: f1, y: dk.array(dtype=dk.mat22d)):
    i = dk.tid()
    y[i] = dk.inverse(m[i]) * w[i]


@dk.kernel
def spectrum(z: dk.array(dtype=dk.complex128), y: dk.array(dtype=dk.complex128)):
    i = dk.tid()
    y[i] = z[i] * z[i] * dk.conj(z[i])


def tensor(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    generator = torch.Generator("cpu").manual_seed(seed)
    return (0.2 + torch.rand(shape, generator=generator, dtype=dtype)).requires_grad_()


@dataclass
class Case:
    """A kernel, its function's options, and its arguments."""

    kernel: dk.Kernel
    args: tuple[Any, ...]
    options: dict[str, Any] = field(default_factory=dict)


ENDS = torch.tensor([[0, 1], [1, 2], [2, 0]], dtype=torch.int32)
INDEX = torch.tensor([2, 0, 1, 2], dtype=torch.int32)
SQUARES = torch.tensor([[[2.0, 0.3], [0.4, 1.0]]], dtype=torch.float64, requires_grad=True)
CASES = {
    "wave": Case(wave, (tensor(3), tensor(seed=1))),
    "untyped": Case(untyped, (tensor(3), tensor(seed=1))),
    "stencil": Case(stencil, (tensor(2, 3), tensor(3, seed=1))),
    "gather": Case(gather, (tensor(3), INDEX), {"launch_dims": 4}),
    "atomics": Case(bins, (tensor(4),), {"num_outputs": 2, "output_dims": 2}),
    "springs": Case(
        springs,
        (tensor(3, 3), ENDS, tensor(seed=1)),
        {"num_outputs": 2, "launch_dims": 3, "output_dims": {"energy": 1, "force": 3}},
    ),
    "in_place": Case(in_place, (tensor(3), tensor(3, seed=1)), {"num_outputs": 2, "in_out_argnames": "s"}),
    "vectors": Case(turn, (tensor(2, 3), tensor(3, seed=1)), {"num_outputs": 2}),
    "loop": Case(logistic, (tensor(2), 4, tensor(seed=1))),
    "while": Case(newton, (tensor(3),)),
    "struct": Case(orbit, (tensor(2, 3), tensor(2, seed=1))),
    "tiles": Case(softmax, (tensor(2, 4),), {"launch_dims": 2, "output_dims": (2, 4)}),
    "matmul": Case(product, (tensor(2, 3), tensor(3, 2, seed=1)), {"launch_dims": 1, "output_dims": (2, 2)}),
    "own_array": Case(bezier, (tensor(2, 4),), {"launch_dims": 2}),
    "shared": Case(neighbours, (tensor(4),)),
    "rule": Case(with_rule, (tensor(3),)),
    "matrices": Case(inverted, (SQUARES, tensor(1, seed=1)), {"launch_dims": 1}),
    "complex": Case(spectrum, (tensor(2, dtype=torch.complex128),)),
}


@pytest.mark.parametrize("name", CASES)
def test_pytorchs_own_checks(name):
    """First and second derivatives in both modes, against differences."""
    case = CASES[name]
    f = dk.torch_function(case.kernel, **case.options)

    def smooth(*args: Any) -> Any:
        found = f(*args)
        results = found if isinstance(found, tuple) else (found,)
        return tuple(r for r in results if r.is_floating_point() or r.is_complex())

    assert gradcheck(smooth, case.args, check_forward_ad=True)
    assert gradgradcheck(smooth, case.args, check_fwd_over_rev=True)


# -- against formulas, and diffkern's own ------------------------------------------------------------------------------


@dk.kernel
def table(x: f1, w: f1, p: f2):
    """The adjoint reads what the kernel has written, so the results are kept."""
    i = dk.tid()
    p[i, 0] = x[i]
    for t in range(3):
        p[i, t + 1] = dk.sin(p[i, t]) * w[t] + p[i, t]


def in_torch(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    rows = [x]
    for t in range(3):
        rows.append(torch.sin(rows[-1]) * w[t] + rows[-1])
    return torch.stack(rows, 1)


of_table = dk.torch_function(table, output_dims=(3, 4))
X, W = tensor(3).detach(), tensor(3, seed=1).detach()
TWICE = {
    "hessian": lambda f: hessian(lambda x, w: (f(x, w) ** 2).sum(), argnums=(0, 1))(X, W),
    "rows of rows": lambda f: jacrev(jacrev(lambda x: (f(x, W) ** 2).sum()))(X),
    "columns of columns": lambda f: jacfwd(jacfwd(lambda x: f(x, W)))(X),
    "rows of columns": lambda f: jacrev(jacfwd(lambda w: (f(X, w) ** 2).sum()))(W),
    "third": lambda f: jacfwd(jacrev(jacfwd(lambda x: f(x, W).sum())))(X),
    "batched": lambda f: vmap(hessian(lambda x, w: (f(x, w) ** 2).sum()), in_dims=(0, None))(torch.stack([X, W]), W),
    "along": lambda f: jvp(grad(lambda x: (f(x, W) ** 3).sum()), (X,), (W,)),
    "pulled": lambda f: vjp(lambda x: jvp(lambda y: f(y, W), (x,), (W,))[1], X)[1](f(X, W)),
}


@pytest.mark.parametrize("name", TWICE)
def test_transformations_of_transformations(name):
    torch.testing.assert_close(TWICE[name](of_table), TWICE[name](in_torch))


def test_a_product_with_second_derivatives_is_that_of_diffkern():
    @dk.kernel
    def energy(x: f1, e: f1):
        i = dk.tid()
        dk.atomic_add(e, 0, dk.sin(x[i]) * x[(i + 1) % x.shape[0]] * x[i])

    def loss(x: dk.array) -> dk.array:
        e = dk.zeros(1, dtype=dk.float64)
        dk.launch(energy, dim=5, inputs=[x, e])
        return e

    values, direction = tensor(5), tensor(5, seed=1).detach()
    f = dk.torch_function(energy, output_dims=1)
    (first,) = torch.autograd.grad(f(values).sum(), values, create_graph=True)
    (product,) = torch.autograd.grad(first, values, direction)
    (own,) = dk.hvp(loss, (dk.array(values.detach().numpy()),), (dk.array(direction.numpy()),))
    np.testing.assert_allclose(product, own.numpy(), rtol=1e-14)
    of_functional = torch.autograd.functional.hvp(lambda x: f(x).sum(), values.detach(), direction)[1]
    torch.testing.assert_close(of_functional, product)


def test_a_gradient_depends_on_the_gradient_of_the_results():
    x, given, weights = tensor(5), tensor(5, seed=1), tensor(5, seed=2).detach()
    found = []
    for g in (lambda x: dk.torch_function(wave)(x, 0.7), lambda x: torch.sin(0.7 * x) * x):
        (first,) = torch.autograd.grad(g(x), x, given, create_graph=True)
        found.append(torch.autograd.grad(first, given, weights)[0])
    torch.testing.assert_close(*found)


def test_a_fourth_derivative():
    f = dk.torch_function(wave)
    found = expected = X
    for g in (lambda x: f(x, 0.7), lambda x: torch.sin(0.7 * x) * x):
        x = X.clone().requires_grad_()
        found, expected = g(x), found
        for _ in range(4):
            (found,) = torch.autograd.grad(found.sum(), x, create_graph=True)
    torch.testing.assert_close(found, expected)


# -- what is kept, and what is passed ----------------------------------------------------------------------------------


@dk.kernel
def partly(x: f1, b: f1, m: i1, axis: dk.vec3d, s: f1, a: dk.float64, y: f1):
    """Of the inputs only `x` and the numbers decide about the derivative."""
    i = dk.tid()
    s[i] += 2.0 * b[i] + x[i] * a
    y[i] = a * x[i] * x[i] * axis[1] + b[i] + dk.float64(m[i])


@pytest.mark.parametrize(
    ("number", "axis"),
    [
        (0.7, (0.1, 0.2, 0.3)),
        (torch.tensor(0.7, dtype=torch.float64), dk.vec3d(0.1, 0.2, 0.3)),
        (tensor(seed=3), tensor(3, seed=4)),
    ],
    ids=["numbers", "constants", "variables"],
)
def test_inputs_that_the_adjoint_does_not_read(number, axis):
    f = dk.torch_function(partly, num_outputs=2, in_out_argnames="s")
    given = tuple(a for a in (axis, number) if isinstance(a, torch.Tensor) and a.requires_grad)

    def called(x: torch.Tensor, b: torch.Tensor, s: torch.Tensor, *rest: torch.Tensor) -> Any:
        left = list(rest)
        own = [left.pop(0) if any(a is g for g in given) else a for a in (axis, number)]
        return f(x, b, torch.arange(3, dtype=torch.int32), own[0], s, own[1])

    args = (tensor(3), tensor(3, seed=1), tensor(3, seed=2), *given)
    assert gradcheck(called, args, check_forward_ad=True)
    assert gradgradcheck(called, args, check_fwd_over_rev=True)


def test_what_is_not_read_may_be_changed_before_the_second_derivative():
    f = dk.torch_function(partly, num_outputs=2, in_out_argnames="s")
    x, b, s = tensor(3), tensor(3).detach(), tensor(3).detach()
    _, y = f(x, b, torch.zeros(3, dtype=torch.int32), (0.0, 0.5, 0.0), s, 3.0)
    b.zero_()
    (first,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    torch.testing.assert_close(torch.autograd.grad(first.sum(), x)[0], torch.full((3,), 3.0, dtype=torch.float64))


def test_what_decides_on_accesses_is_kept():
    """Forward mode does again what no derivative depends on, and must find its way there."""

    @dk.kernel
    def counted(x: f1, cells: f1, b: f1, counts: i1, y: f1):
        i = dk.tid()
        v = cells[i]
        while v < 100.0:
            v = v * 2.0
        dk.atomic_add(counts, int(v) - 100, 1)
        y[i] = x[i] * x[i] + b[i]

    f = dk.torch_function(counted, num_outputs=2, output_dims={"counts": 101})
    x, cells, b = tensor(3), tensor(3).detach() + 90.0, tensor(3).detach()
    counts, y = f(x, cells, b)
    assert len(y.grad_fn.saved_tensors) == 2
    assert int(counts.sum()) == 3
    cotangent = torch.ones_like(x, requires_grad=True)
    (first,) = torch.autograd.grad(y, x, cotangent, create_graph=True)
    second, slope = torch.autograd.grad(first.sum(), (x, cotangent))
    torch.testing.assert_close(second, 2.0 * torch.ones_like(x))
    torch.testing.assert_close(slope, 2.0 * x)


def test_whole_numbers_and_missing_arrays():
    @dk.kernel
    def mixed(x: f1, w: f1, n, k: int, y: f1):
        i = dk.tid()
        v = x[i] * x[i] * dk.float64(n) * dk.float64(k)
        if w:
            v *= w[i]
        y[i] = v

    f = dk.torch_function(mixed)
    for n in (2, torch.tensor(2)):
        x = tensor(3)
        (first,) = torch.autograd.grad(f(x, None, n, 3).sum(), x, create_graph=True)
        torch.testing.assert_close(first, 12.0 * x)
        torch.testing.assert_close(torch.autograd.grad(first.sum(), x)[0], torch.full((3,), 12.0, dtype=torch.float64))
        torch.testing.assert_close(jvp(lambda x, n=n: f(x, None, n, 3), (X,), (W,))[1], 12.0 * X * W)


def test_batches_with_a_vector_of_numbers():
    f, axis = dk.torch_function(turn, num_outputs=2), torch.tensor([0.1, 0.2, 0.3], dtype=torch.float64)

    def turned(p: torch.Tensor) -> torch.Tensor:
        return torch.linalg.cross(axis.expand_as(p), p) * (p * p).sum(-1, keepdim=True)

    p = tensor(2, 3).detach()
    found = hessian(lambda p: f(p, (0.1, 0.2, 0.3))[0].sum())(p)
    torch.testing.assert_close(found, hessian(lambda p: turned(p).sum())(p))


def test_gradients_along_a_tangent_that_comes_later():
    f = dk.torch_function(wave)
    x = X.clone().requires_grad_()
    y = f(x, 0.7)
    with forward_ad.dual_level():
        (g,) = torch.autograd.grad(y, x, forward_ad.make_dual(torch.ones_like(x), W))
        found = forward_ad.unpack_dual(g).tangent
    torch.testing.assert_close(found, (torch.sin(0.7 * X) + 0.7 * X * torch.cos(0.7 * X)) * W)


def test_products_with_second_derivatives_without_a_graph():
    """Forward over reverse: the gradient is taken once, along a tangent."""
    f = dk.torch_function(wave)
    with forward_ad.dual_level():
        x = forward_ad.make_dual(X.clone().requires_grad_(), W)
        (g,) = torch.autograd.grad(f(x, 0.7).sum(), x)
        found = forward_ad.unpack_dual(g).tangent
    torch.testing.assert_close(found, (1.4 * torch.cos(0.7 * X) - 0.49 * X * torch.sin(0.7 * X)) * W)


# -- what is refused ---------------------------------------------------------------------------------------------------

FACTOR = 2.0


def test_second_derivatives_of_a_call_before_a_change(monkeypatch):
    @dk.kernel
    def scaled(x: f1, y: f1):
        i = dk.tid()
        y[i] = FACTOR * x[i] * x[i]

    f = dk.torch_function(scaled)
    x = tensor(3)
    y = f(x)
    monkeypatch.setitem(globals(), "FACTOR", 3.0)
    (first,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    torch.testing.assert_close(first, 4.0 * x)
    with pytest.raises(dk.LaunchError, match="'scaled' captures was changed after the call"):
        torch.autograd.grad(first.sum(), x)
    (first,) = torch.autograd.grad(f(x).sum(), x, create_graph=True)
    torch.testing.assert_close(torch.autograd.grad(first.sum(), x)[0], torch.full((3,), 6.0, dtype=torch.float64))


def test_forward_mode_that_there_is_not_says_where():
    @dk.kernel
    def latest(x: f1, y: f1):
        dk.atomic_exch(y, 0, x[dk.tid()])

    f = dk.torch_function(latest, output_dims=1)
    with pytest.raises(dk.AutodiffError, match=r"test_torch_second_order\.py.*(?s:.*)atomic_exch"):
        jvp(f, (X,), (W,))


def test_the_tangent_of_an_extremum():
    @dk.kernel
    def greatest(x: f1, y: f1):
        dk.atomic_max(y, 0, x[dk.tid()] * x[dk.tid()])

    f = dk.torch_function(greatest, output_dims=1)
    k = int(X.abs().argmax())
    y, t = jvp(f, (X,), (W,))
    torch.testing.assert_close((y[0], t[0]), (X[k] ** 2, 2.0 * X[k] * W[k]))


@pytest.mark.parametrize("order", [1, pytest.param(2, marks=pytest.mark.full)])
def test_a_product_of_a_vector_with_itself_after_a_root(order):
    @dk.kernel
    def rooted(x: dk.array(dtype=dk.vec2d), y: f1):
        i = dk.tid()
        d = x[i] * dk.sqrt(x[i][0])
        y[i] = dk.dot(d, d)

    f = dk.torch_function(rooted)
    a, b = 1.3, 0.7
    point, along = (torch.tensor([v], dtype=torch.float64) for v in ((a, b), (1.0, 0.0)))
    # d . d = a^3 + a b^2
    if order == 1:
        assert jvp(f, (point,), (along,))[1].tolist() == pytest.approx([3 * a**2 + b**2], rel=1e-14)
        return
    second = hessian(lambda x: f(x).sum())(point).reshape(2, 2)
    np.testing.assert_allclose(second.numpy(), [[6 * a, 2 * b], [2 * b, 2 * a]], rtol=1e-12)


def test_without_derivatives_there_are_none_in_either_mode():
    f = dk.torch_function(wave, enable_backward=False)
    with pytest.raises(RuntimeError, match="enable_backward=False"):
        jvp(lambda x: f(x, 0.7), (X,), (W,))
