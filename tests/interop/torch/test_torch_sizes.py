"""Functions of tensors whose launches and outputs are sized from the arguments, or for one call."""

from __future__ import annotations

import pytest
from conftest import require

require("torch")

import torch
from torch._dynamo.testing import CompileCounterWithBackend
from torch.autograd import gradgradcheck
from torch.func import grad, hessian, jvp, vmap

import diffkern as dk

# PyTorch scripts its own decompositions, and says of itself that it should not.
pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")

f1 = dk.array(dtype=dk.float64)


@dk.kernel
def bins(x: f1, index: dk.array(dtype=int), n: int, sums: f1):
    i = dk.tid()
    dk.atomic_add(sums, index[i], x[i] * x[i] * x[i])


@dk.kernel
def lengths(v: dk.array(dtype=dk.vec3d), scale: dk.float64, squares: f1, ends: dk.array(dtype=dk.vec3d)):
    i = dk.tid()
    squares[i] = scale * dk.dot(v[i], v[i])
    ends[0] = v[0]


def in_torch(x, index, n):
    return torch.zeros(n, dtype=x.dtype).index_add(0, index.long(), x * x * x)


def case(size, n, seed=0):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(size, dtype=torch.float64, generator=generator)
    return x.requires_grad_(), torch.randint(n, (size,), dtype=torch.int32, generator=generator), n


by_argument = dk.torch_function(bins, output_dims=lambda x, index, n: n)


def test_outputs_of_another_size_in_each_call():
    for size, n in [(6, 3), (6, 5), (9, 5), (6, 3)]:
        args = case(size, n)
        results = [f(*args) for f in (by_argument, in_torch)]
        torch.testing.assert_close(*results)
        found, expected = [torch.autograd.grad(r.sin().sum(), args[0])[0] for r in results]
        torch.testing.assert_close(found, expected)


def test_sizes_of_a_call_and_of_the_function():
    x, index, _ = case(6, 2)
    f = dk.torch_function(bins, output_dims=2)
    assert f(x, index, 0).shape == (2,)
    assert f(x, index, 0, output_dims=4).shape == (4,)
    assert f(x, index, 0, output_dims={"sums": lambda x, index, n: x.shape}).shape == (6,)
    assert f(x, index, 0).shape == (2,)
    first = f(x, index, 0, launch_dims=lambda *args: 1)
    torch.testing.assert_close(first, in_torch(x[:1], index[:1], 2))
    g = dk.torch_function(bins, launch_dims=1, output_dims=lambda x, index, n: 2)
    torch.testing.assert_close(g(x, index, 0), first)
    torch.testing.assert_close(g(x, index, 0, launch_dims=6), f(x, index, 0))


def test_outputs_by_name_with_components():
    v = torch.arange(6.0, dtype=torch.float64).reshape(2, 3)
    f = dk.torch_function(lengths, 2, output_dims={"ends": lambda v, scale: (1, v.shape[1])})
    squares, ends = f(v, 2.0)
    assert squares.tolist() == [10, 100]
    assert ends.tolist() == [[0, 1, 2]]


@pytest.mark.parametrize(
    "transformed",
    [
        grad,
        pytest.param(hessian, marks=pytest.mark.full),
        lambda f: lambda x: jvp(f, (x,), (x.cos(),))[1],
        lambda f: lambda x: jvp(grad(f), (x,), (x,))[1],
    ],
    ids=["grad", "hessian", "jvp", "forward over reverse"],
)
def test_derivatives_of_calls_with_sizes(transformed):
    x, index, n = case(5, 3)
    found, expected = [
        transformed(lambda x, f=f: f(x, index, n).sin().sum())(x.detach()) for f in (by_argument, in_torch)
    ]
    torch.testing.assert_close(found, expected)


def test_second_derivatives_of_calls_with_sizes():
    x, index, n = case(5, 3)
    assert gradgradcheck(lambda x: by_argument(x, index, n), (x,))


def test_batches_of_calls_with_sizes():
    _, index, n = case(5, 3)
    xs = torch.randn(4, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    for transformed in (vmap, lambda f: vmap(grad(lambda x: f(x).sin().sum()))):
        found, expected = [transformed(lambda x, h=h: h(x, index, n))(xs) for h in (by_argument, in_torch)]
        torch.testing.assert_close(found, expected)


def test_compiled_once_for_all_sizes():
    counter = CompileCounterWithBackend("aot_eager")

    def called(x, index, n):
        return by_argument(x, index, n)

    compiled = torch.compile(called, backend=counter, fullgraph=True, dynamic=True)
    for size, n in [(6, 3), (9, 5), (8, 7)]:
        args = case(size, n)
        results = [f(*args) for f in (compiled, in_torch)]
        torch.testing.assert_close(*results)
        found, expected = [torch.autograd.grad(r.sin().sum(), args[0])[0] for r in results]
        torch.testing.assert_close(found, expected)
    assert counter.frame_count == 1


def test_sizes_in_graphs_that_are_kept():
    x, index, _ = case(6, 2)
    f = dk.torch_function(bins, output_dims=lambda x, index, n: x.shape[0] // 2)

    class Module(torch.nn.Module):
        def forward(self, x, index):
            return f(x, index, 0)

    extent = torch.export.Dim("extent", min=4)
    program = torch.export.export(Module(), (x, index), dynamic_shapes=({0: extent}, {0: extent}))
    longer = case(8, 2)[:2]
    torch.testing.assert_close(program.module()(*longer), f(*longer, 0))
    with pytest.warns(torch.jit.TracerWarning, match="Python integer"):
        traced = torch.jit.trace(Module(), (x.detach(), index))
    torch.testing.assert_close(traced(x, index), f(x, index, 0))


def test_sizes_that_are_none():
    x, index, _ = case(6, 2)
    for given, match in [
        (lambda *args: 1.5, "are integers, .* not 1.5"),
        (lambda *args: {"other": 1}, "names 'other', which is no pure output"),
        (lambda *args: (1, 2), "'sums' has 1 axes, its shape would be"),
        (lambda x, index, n: index.max() + 1, "are integers, not tensors"),
        (-1, "at least 0"),
    ]:
        with pytest.raises(dk.LaunchError, match=match):
            by_argument(x, index, 0, output_dims=given)


@dk.kernel
def of_columns(a: dk.array(dtype=dk.float64, ndim=2), b: dk.array(dtype=dk.float64, ndim=2)):
    i = dk.tid()
    for k in range(a.shape[0]):
        b[k, i] = a[k, i] * a[k, i]


def test_an_output_with_other_axes_than_the_launch_is_like_the_first_tensor():
    f = dk.torch_function(of_columns, launch_dims=lambda a: a.shape[1])
    x = torch.arange(6, dtype=torch.float64).reshape(2, 3).requires_grad_()
    torch.testing.assert_close(f(x), x * x)
    torch.testing.assert_close(torch.autograd.grad(f(x).sum(), x)[0], 2 * x)
    both = torch.stack([x, 3 * x])
    torch.testing.assert_close(vmap(f)(both), both * both)
    torch.testing.assert_close(f(x, output_dims=(2, 5))[:, :3], x * x)
