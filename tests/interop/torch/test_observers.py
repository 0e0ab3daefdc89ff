"""What looks on in PyTorch besides autograd: torch.jit.trace, and forward mode."""

from __future__ import annotations

import pytest
from conftest import require

require("torch")

import torch
from torch.autograd import forward_ad
from torch.fx.experimental.proxy_tensor import make_fx

import diffkern as dk

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning"),
]


@dk.kernel
def wave(x: dk.array(dtype=float), a: float, y: dk.array(dtype=float)):
    i = dk.tid()
    y[i] = dk.sin(a * x[i])


f = dk.torch_function(wave)


@pytest.mark.parametrize("graded", [False, True])
def test_a_trace_calls_the_kernel(graded):
    x = torch.arange(4.0)
    traced = torch.jit.trace(lambda x: 2.0 * f(x, 0.5), (x,))
    x = (x + 1.0).requires_grad_(graded)
    torch.testing.assert_close(traced(x), 2.0 * torch.sin(0.5 * x))
    if graded:
        traced(x).sum().backward()
        torch.testing.assert_close(x.grad, torch.cos(0.5 * x.detach()))


def test_a_launch_in_a_trace_is_refused():
    def launched(x):
        y = dk.zeros(4)
        wave[4](x, 0.5, y)
        return dk.to_torch(y)

    with pytest.raises(dk.LaunchError, match=r"torch\.jit\.trace .*cannot be seen"):
        torch.jit.trace(launched, (torch.arange(4.0),))
    with pytest.raises(TypeError, match=r"torch\.jit\.trace .*cannot be seen"):
        torch.jit.trace(lambda x: dk.to_torch(dk.from_torch(x)), (torch.arange(4.0),))


@pytest.mark.parametrize("graded", [False, True])
@pytest.mark.parametrize("recorded", [False, True])
def test_tangents_go_through(graded, recorded):
    with forward_ad.dual_level(), torch.set_grad_enabled(recorded):
        x = torch.arange(4.0).requires_grad_(graded)
        dual = forward_ad.make_dual(x, torch.ones(4))
        number = forward_ad.make_dual(torch.tensor(0.5), torch.tensor(1.0))
        changes = [forward_ad.unpack_dual(f(*args)).tangent for args in ((dual, 0.5), (x, number), (dual, number))]
        cosine = torch.cos(0.5 * x)
        for found, expected in zip(changes, (0.5 * cosine, x * cosine, (0.5 + x) * cosine), strict=True):
            torch.testing.assert_close(found, expected)
        assert forward_ad.unpack_dual(f(torch.arange(4.0), 0.5)).tangent is None


def test_tangents_of_arguments_of_launches_are_not_dropped():
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(torch.arange(4.0), torch.ones(4))
        with pytest.raises(RuntimeError, match="would be lost here"):
            wave[4](dual, 0.5, dk.zeros(4))
        with pytest.raises(RuntimeError, match="would be lost here"):
            dk.from_torch(dual)


@pytest.mark.parametrize("graded", [False, True])
def test_tangents_of_compiled_calls_are_not_dropped(graded):
    compiled = torch.compile(lambda x: f(x, 0.5) * 2.0, backend="aot_eager")
    x = torch.arange(4.0).requires_grad_(graded)
    torch.testing.assert_close(compiled(x), 2.0 * torch.sin(0.5 * x))
    with forward_ad.dual_level():
        torch.testing.assert_close(compiled(x), 2.0 * torch.sin(0.5 * x))
        with pytest.raises(RuntimeError, match=r"would be lost here|forward.mode AD"):
            compiled(forward_ad.make_dual(x, torch.ones(4)))


# -- torch.func inside of what traces ----------------------------------------------------------------------------------

TRANSFORMED = {
    "jvp": lambda f: lambda x: torch.func.jvp(lambda x: f(x, 0.5), (x,), (x,))[1],
    "jvp of vmap": lambda f: lambda x: torch.func.jvp(torch.func.vmap(lambda x: f(x, 0.5)), (x[None],), (x[None],))[1],
    "grad": lambda f: torch.func.grad(lambda x: f(x, 0.5).sum()),
    "hessian": lambda f: torch.func.hessian(lambda x: f(x, 0.5).sum()),
}


def sine(x, a):
    return torch.sin(a * x)


@pytest.mark.parametrize("name", TRANSFORMED)
def test_derivatives_inside_of_compiled_functions(name):
    torch._dynamo.reset()
    x = torch.arange(1.0, 4.0)
    of_kernel, of_torch = (TRANSFORMED[name](g) for g in (f, sine))
    torch.testing.assert_close(torch.compile(of_kernel, backend="aot_eager")(x), of_torch(x))
    torch._dynamo.reset()
    with pytest.raises(Exception, match="leave out fullgraph=True"):
        torch.compile(of_kernel, backend="aot_eager", fullgraph=True)(x)


@pytest.mark.parametrize("name", TRANSFORMED)
def test_derivatives_inside_of_traces(name):
    x = torch.arange(1.0, 4.0)
    of_kernel, of_torch = (TRANSFORMED[name](g) for g in (f, sine))
    if name != "jvp of vmap":  # which PyTorch itself cannot trace
        with pytest.raises(RuntimeError, match=r"differentiated by torch\.func inside .*torch\.jit\.trace"):
            torch.jit.trace(of_kernel, (x,))
    graph = make_fx(of_kernel)(x)
    torch.testing.assert_close(graph(2.0 * x), of_torch(2.0 * x))


@pytest.mark.parametrize("name", TRANSFORMED)
def test_derivatives_of_compiled_functions(name):
    torch._dynamo.reset()
    x = torch.arange(1.0, 4.0)
    of_compiled, of_torch = (TRANSFORMED[name](g) for g in (torch.compile(f, backend="aot_eager"), sine))
    torch.testing.assert_close(of_compiled(x), of_torch(x))


@pytest.mark.parametrize("name", TRANSFORMED)
@pytest.mark.parametrize("traced", [torch.jit.trace, lambda g, x: make_fx(g)(*x)], ids=["trace", "make_fx"])
def test_derivatives_of_graphs_are_refused(name, traced):
    """PyTorch has no rule for operators of others in torch.func, but for batches; tangents would be dropped."""
    x = torch.arange(1.0, 4.0)
    graph = traced(lambda x: f(x, 0.5), (x,))
    with pytest.raises(RuntimeError, match=r"which would be lost here|functorch transforms"):
        TRANSFORMED[name](lambda x, a: graph(x))(x)


def test_a_trace_is_differentiated_twice():
    traced = torch.jit.trace(lambda x: 2.0 * f(x, 0.5), (torch.arange(4.0),))
    x = torch.arange(1.0, 4.0).requires_grad_()
    (first,) = torch.autograd.grad(traced(x).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad((first * first).sum(), x)
    torch.testing.assert_close(second, -torch.cos(0.5 * x) * torch.sin(0.5 * x))
