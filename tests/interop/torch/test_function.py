"""Kernels as functions of tensors: the same tests eagerly and compiled, against PyTorch's own operations."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from conftest import require

require("torch")

import torch
from torch._dynamo.testing import CompileCounterWithBackend
from torch_places import claim_cuda

import diffkern as dk
from diffkern.interop.torch import gradient, operator
from diffkern.interop.torch.call import Forward

pytestmark = [
    # PyTorch scripts its own decompositions, and says of itself that it should not.
    pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:Error detected in:UserWarning"),
]


@dk.kernel
def wave(x: dk.array(dtype=float), a: float, y: dk.array(dtype=float)):
    i = dk.tid()
    y[i] = dk.sin(a * x[i]) * x[i]


@dk.kernel
def wave64(x: dk.array(dtype=dk.float64), a: dk.float64, y: dk.array(dtype=dk.float64)):
    i = dk.tid()
    y[i] = dk.sin(a * x[i]) * x[i]


@dk.kernel
def stencil(
    x: dk.array(dtype=dk.float64, ndim=2), w: dk.array(dtype=dk.float64), y: dk.array(dtype=dk.float64, ndim=2)
):
    i, j = dk.tid()
    v = w[0] * x[i, j]
    if i > 0:
        v += w[1] * x[i - 1, j]
    if j > 0:
        v += w[2] * x[i, j - 1] * x[i, j]
    y[i, j] = v


@dk.kernel
def gather(x: dk.array(dtype=dk.float64), index: dk.array(dtype=int), y: dk.array(dtype=dk.float64)):
    i = dk.tid()
    y[i] = x[index[i]] * x[index[i]]


@dk.kernel
def in_place(x: dk.array(dtype=dk.float64), s: dk.array(dtype=dk.float64), y: dk.array(dtype=dk.float64)):
    i = dk.tid()
    s[i] = s[i] * s[i] * x[i]
    y[i] = s[i] * s[i]


@dk.kernel
def add_up(x: dk.array(dtype=dk.float64), counts: dk.array(dtype=int), sums: dk.array(dtype=dk.float64)):
    i = dk.tid()
    dk.atomic_add(sums, i % 3, x[i] * x[i])
    dk.atomic_add(counts, i % 3, 1)


@dk.kernel
def turn(p: dk.array(dtype=dk.vec3d), axis: dk.vec3d, q: dk.array(dtype=dk.vec3d), r: dk.array(dtype=dk.float64)):
    i = dk.tid()
    q[i] = dk.cross(axis, p[i])
    r[i] = dk.length(p[i])


@dk.kernel
def free(x, a, y: dk.array(dtype=dk.float64)):
    i = dk.tid()
    y[i] = a * x[i] * x[i]


def eager(f):
    return f


def compiled(f):
    torch._dynamo.reset()
    return torch.compile(f, backend="aot_eager", fullgraph=True)


@pytest.fixture(params=[eager, compiled, None], ids=["eager", "compiled", "fake_cuda"])
def how(request, monkeypatch):
    if request.param is None:
        driver = request.getfixturevalue("driver")
        claim_cuda(monkeypatch)
        yield eager
        monkeypatch.undo()
        assert any(name == "load_module" for name, _ in driver.calls)
        return
    yield request.param
    torch._dynamo.reset()


def scalar(value):
    return torch.tensor(value, dtype=torch.float64, requires_grad=True)


def same(f, g, *inputs, how=eager, atol=1e-10):
    """Compare values and gradients of two functions, the first run in some way."""
    mine, theirs = ([a.detach().clone().requires_grad_(a.requires_grad) if isinstance(a, torch.Tensor) else a
                     for a in inputs] for _ in range(2))  # fmt: skip
    results, wanted = how(f)(*mine), g(*theirs)
    results, wanted = (r if isinstance(r, tuple) else (r,) for r in (results, wanted))
    generator = torch.Generator("cpu").manual_seed(1)
    assert len(results) == len(wanted)
    loss = expected = 0.0
    for r, w in zip(results, wanted, strict=True):
        assert (r.shape, r.dtype) == (w.shape, w.dtype)
        torch.testing.assert_close(r, w, atol=atol, rtol=1e-5)
        if r.is_floating_point():
            weight = torch.randn(r.shape, generator=generator, dtype=r.dtype, device="cpu").to(r.device)
            loss, expected = loss + (weight * r).sum(), expected + (weight * w).sum()
    if any(isinstance(a, torch.Tensor) and a.requires_grad for a in inputs):
        loss.backward()
        expected.backward()
        for a, b in zip(mine, theirs, strict=True):
            if isinstance(a, torch.Tensor) and a.requires_grad:
                torch.testing.assert_close(a.grad, b.grad, atol=atol, rtol=1e-5)


def tensor(*shape, seed=0, grad=True):
    generator = torch.Generator("cpu").manual_seed(seed)
    t = torch.randn(shape, generator=generator, dtype=torch.float64, device="cpu")
    return t.to(torch.get_default_device()).requires_grad_(grad)


# -- values and gradients --------------------------------------------------------------------------------------------


def test_a_map(how):
    f = dk.torch_function(wave64)
    same(lambda x: f(x, 0.7), lambda x: torch.sin(0.7 * x) * x, tensor(50), how=how)


def test_a_scalar_tensor_has_a_gradient(how):
    f = dk.torch_function(wave64)
    same(
        f,
        lambda x, a: torch.sin(a * x) * x,
        tensor(50),
        scalar(0.7),
        how=how,
    )
    same(f, lambda x, a: torch.sin(a * x) * x, tensor(50, grad=False), scalar(0.7), how=how)


def test_neighbours_and_weights_in_two_dimensions(how):
    def reference(x, w):
        up = torch.nn.functional.pad(x, (0, 0, 1, 0))[:-1]
        left = torch.nn.functional.pad(x, (1, 0))[:, :-1]
        return w[0] * x + w[1] * up + w[2] * left * x

    f = dk.torch_function(stencil)
    same(f, reference, tensor(30, 40), tensor(3, seed=2), how=how)
    same(f, reference, tensor(300, 200), tensor(3, seed=2))


def test_gathers(how):
    index = (torch.arange(4000, dtype=torch.int32) * 7) % 10
    f = dk.torch_function(gather, launch_dims=4000)
    same(f, lambda x, i: x[i] ** 2, tensor(10), index, how=how)


@dk.kernel
def added_before(s: dk.array(dtype=dk.float64), x: dk.array(dtype=dk.float64), y: dk.array(dtype=dk.float64)):
    if dk.tid() == 0:
        s[2] += 1.0
        y[0] = x[2]


def test_one_tensor_that_is_changed_and_read():
    """What is changed is a copy, so that the other parameter has the tensor as it was."""
    f = dk.torch_function(added_before, num_outputs=2, in_out_argnames="s")
    x = tensor(3, grad=False)
    for _ in range(2):
        s, y = f(x, x, output_dims={"y": 1}, launch_dims=8)
        assert s.tolist() == [x[0].item(), x[1].item(), x[2].item() + 1.0]
        assert y.item() == x[2].item()


def test_arguments_that_are_changed(how):
    f = dk.torch_function(in_place, num_outputs=2, in_out_argnames=["s"])

    def reference(x, s):
        t = s * s * x
        return t, t * t

    x, s = tensor(20), tensor(20, seed=1)
    before = s.detach().clone()
    same(f, reference, x, s, how=how)
    assert torch.equal(s, before)


def test_a_changed_argument_that_is_not_contiguous(how):
    f = dk.torch_function(in_place, num_outputs=2, in_out_argnames="s")

    def reference(x, s):
        t = s[:, 0] ** 2 * x[::2]
        return t, t * t

    same(lambda x, s: f(x[::2], s[:, 0]), reference, tensor(20), tensor(10, 2), how=how)


def test_integers_have_no_gradient_and_outputs_begin_as_zeros(how):
    f = dk.torch_function(add_up, num_outputs=2, output_dims=3)

    def reference(x):
        sums = torch.stack([(x[k::3] ** 2).sum() for k in range(3)])
        return torch.tensor([len(x[k::3]) for k in range(3)], dtype=torch.int32), sums

    same(f, reference, tensor(31), how=how)
    counts, sums = f(tensor(31))
    assert not counts.requires_grad
    assert sums.requires_grad


def test_vectors_and_vectors_by_value(how):
    f = dk.torch_function(turn, num_outputs=2)

    def reference(p, axis):
        return torch.linalg.cross(axis.expand_as(p), p), torch.linalg.norm(p, dim=-1)

    same(f, reference, tensor(9, 3), tensor(3, seed=4), how=how)
    axis = torch.tensor([0.1, 0.2, 0.3], dtype=torch.float64)
    same(lambda p: f(p, (0.1, 0.2, 0.3)), lambda p: reference(p, axis), tensor(9, 3), how=how)


def test_kernels_without_annotations(how):
    f = dk.torch_function(free)
    a = torch.tensor(2.5, dtype=torch.float64, requires_grad=True)
    same(f, lambda x, a: a * x * x, tensor(8), a, how=how)


def test_strided_and_expanded_tensors(how):
    f = dk.torch_function(wave64)
    same(lambda x: f(x[:, 1], 0.7), lambda x: torch.sin(0.7 * x[:, 1]) * x[:, 1], tensor(6, 3), how=how)
    same(lambda x: f(x.expand(7), 0.7), lambda x: (torch.sin(0.7 * x) * x).expand(7), tensor(1), how=how)


def test_one_result_that_is_not_used(how):
    f = dk.torch_function(turn, num_outputs=2)
    same(lambda p: f(p, (0.1, 0.2, 0.3))[1], lambda p: torch.linalg.norm(p, dim=-1), tensor(9, 3), how=how)


def test_one_tensor_for_two_parameters(how):
    f = dk.torch_function(in_place, num_outputs=2, in_out_argnames="s")
    same(lambda x: f(x, x), lambda x: (x**3, x**6), tensor(12), how=how)


@dk.kernel
def steps(y: dk.array(dtype=dk.float64)):
    i = dk.tid()
    y[i] = 2.0 * dk.float64(i)


def test_a_kernel_of_outputs_alone(how):
    f = dk.torch_function(steps, launch_dims=4)
    same(lambda w: f() * w, lambda w: 2.0 * torch.arange(4, dtype=torch.float64) * w, tensor(4), how=how)


def test_an_empty_tensor(how):
    f = dk.torch_function(wave64)
    same(lambda x: f(x, 0.7), lambda x: torch.sin(x) * x, tensor(0), how=how)


@dk.kernel
def square_half(x: dk.array(dtype=dk.float16), y: dk.array(dtype=dk.float16)):
    i = dk.tid()
    y[i] = x[i] * x[i]


@dk.kernel
def square_bfloat(x: dk.array(dtype=dk.bfloat16), y: dk.array(dtype=dk.bfloat16)):
    i = dk.tid()
    y[i] = x[i] * x[i]


@pytest.mark.parametrize(
    ("dtype", "kernel"), [(torch.float16, square_half), (torch.bfloat16, square_bfloat)], ids=["float16", "bfloat16"]
)
def test_halves(dtype, kernel, how):
    f = dk.torch_function(kernel)
    same(f, lambda x: x * x, torch.tensor([1.0, 2.5, -3.0], dtype=dtype, requires_grad=True), how=how, atol=1e-2)


def test_dynamic_shapes_compile_once():
    f = dk.torch_function(wave64)
    torch._dynamo.reset()
    counter = CompileCounterWithBackend("aot_eager")
    g = torch.compile(lambda x: f(x, 0.7) * 2.0, backend=counter, fullgraph=True, dynamic=True)
    for n in (5, 9, 17):
        x = tensor(n)
        torch.testing.assert_close(g(x), 2.0 * torch.sin(0.7 * x) * x)
    assert counter.frame_count == 1


@pytest.mark.slow
def test_inductor():
    f = dk.torch_function(wave64)
    torch._dynamo.reset()
    same(
        torch.compile(lambda x: (f(x * 2.0, 0.7) + 1.0) * x),
        lambda x: (torch.sin(1.4 * x) * 2.0 * x + 1.0) * x,
        tensor(33),
    )


def test_export():
    class Module(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.f = dk.torch_function(wave64)

        def forward(self, x):
            return self.f(x, 0.7) + 1.0

    x = tensor(6, grad=False)
    program = torch.export.export(Module(), (x,))
    assert any("diffkern.wave64_" in str(node.target) for node in program.graph.nodes)
    torch.testing.assert_close(program.module()(x), torch.sin(0.7 * x) * x + 1.0)


def test_operators_pass_pytorchs_own_checks():
    f = dk.torch_function(in_place, num_outputs=2, in_out_argnames="s")
    operator = f._operator.__closure__
    call = next(cell.cell_contents for cell in operator if hasattr(cell.cell_contents, "_opoverload"))
    torch.library.opcheck(call, (tensor(4), tensor(4, seed=1)))


# -- what autograd does ----------------------------------------------------------------------------------------------


def test_gradcheck(how):
    f = dk.torch_function(in_place, num_outputs=2, in_out_argnames="s")
    assert torch.autograd.gradcheck(how(f), (tensor(5), tensor(5, seed=1)))


def test_a_second_backward_gives_the_same(how):
    f = how(dk.torch_function(in_place, num_outputs=2, in_out_argnames="s"))
    x, s = tensor(20), tensor(20, seed=1)
    y = f(x, s)[1].sum()
    first = torch.autograd.grad(y, (x, s), retain_graph=True)
    second = torch.autograd.grad(y, (x, s))
    for a, b in zip(first, second, strict=True):
        assert torch.equal(a, b)


def test_gradients_given_are_not_changed():
    f = dk.torch_function(wave64)
    x, given = tensor(4), torch.ones(4, dtype=torch.float64)
    torch.autograd.grad(f(x, 0.7), x, given)
    assert (given == 1.0).all()


def test_second_derivatives(how):
    f = how(dk.torch_function(wave64))
    x = tensor(4)
    (g,) = torch.autograd.grad(f(x, 0.7).sum(), x, create_graph=True)
    if how is compiled:
        with pytest.raises(RuntimeError, match=r"torch.compile .* double backward"):
            torch.autograd.grad(g.sum(), x)
        return
    (found,) = torch.autograd.grad(g.sum(), x)
    torch.testing.assert_close(found, 1.4 * torch.cos(0.7 * x) - 0.49 * x * torch.sin(0.7 * x))


def test_a_gradient_that_is_recorded_may_go_unused():
    f = dk.torch_function(wave64)
    x = tensor(4)
    y = f(x, 0.7).sum() + (x**3).sum()
    (g,) = torch.autograd.grad(y, x, create_graph=True)
    torch.testing.assert_close(g, torch.sin(0.7 * x) + 0.7 * x * torch.cos(0.7 * x) + 3 * x**2)


def test_changed_inputs_are_noticed():
    f = dk.torch_function(wave64)
    x = tensor(4)
    z = x * 1.0
    y = f(z, 0.7).sum()
    with torch.no_grad():
        z.add_(1.0)
    with pytest.raises(RuntimeError, match="inplace operation"):
        y.backward()


def test_no_grad_and_detached_inputs():
    f = dk.torch_function(wave64)
    with torch.no_grad():
        assert not f(tensor(4), 0.7).requires_grad
    assert not f(tensor(4, grad=False), 0.7).requires_grad
    with torch.inference_mode():
        assert f(tensor(4, grad=False), 0.7).is_inference()


def test_only_what_the_adjoint_reads_is_kept():
    @dk.kernel
    def scale(x: dk.array(dtype=dk.float64), y: dk.array(dtype=dk.float64)):
        i = dk.tid()
        y[i] = 3.0 * x[i]

    y = dk.torch_function(scale)(tensor(4))
    assert y.grad_fn.saved_tensors == ()
    y = dk.torch_function(wave64)(tensor(4), 0.7)
    assert len(y.grad_fn.saved_tensors) == 1


def test_without_backward_a_gradient_is_an_error(how):
    f = how(dk.torch_function(wave64, enable_backward=False))
    assert f(tensor(4, grad=False), 0.7).shape == (4,)
    with pytest.raises(RuntimeError, match="enable_backward=False"):
        f(tensor(4), 0.7).sum().backward()


def test_kernels_that_cannot_be_differentiated_say_where():
    @dk.kernel
    def exchange(x: dk.array(dtype=float), y: dk.array(dtype=float)):
        dk.atomic_exch(y, 0, x[dk.tid()])

    with pytest.raises(dk.KernelError, match=r"test_function\.py"):
        dk.torch_function(exchange)(torch.ones(3, requires_grad=True))


# -- torch.func ------------------------------------------------------------------------------------------------------


def reference(x):
    return torch.sin(0.7 * x) * x


def test_functional_gradients():
    f = dk.torch_function(wave64)
    x = tensor(6, grad=False)
    torch.testing.assert_close(
        torch.func.grad(lambda x: f(x, 0.7).sum())(x), torch.func.grad(lambda x: reference(x).sum())(x)
    )
    torch.testing.assert_close(torch.func.jacrev(lambda x: f(x, 0.7))(x), torch.func.jacrev(reference)(x))
    _, pull = torch.func.vjp(lambda x: f(x, 0.7), x)
    torch.testing.assert_close(pull(x)[0], torch.func.vjp(reference, x)[1](x)[0])


def test_batches():
    f = dk.torch_function(wave64)
    x = tensor(3, 6, grad=False)
    torch.testing.assert_close(torch.func.vmap(lambda x: f(x, 0.7))(x), reference(x))
    torch.testing.assert_close(torch.func.vmap(lambda x: f(x, 0.7), in_dims=1)(x), reference(x).T)
    per_example = torch.func.vmap(torch.func.grad(lambda x: f(x, 0.7).sum()))
    torch.testing.assert_close(per_example(x), torch.func.vmap(torch.func.grad(lambda x: reference(x).sum()))(x))
    nested = torch.func.vmap(torch.func.vmap(lambda x: f(x, 0.7)))
    torch.testing.assert_close(nested(x[None]), reference(x)[None])
    a = torch.tensor([0.1, 0.2, 0.3], dtype=torch.float64)
    torch.testing.assert_close(torch.func.vmap(f)(x, a), torch.sin(a[:, None] * x) * x)


def test_a_batch_where_the_kernel_reads_its_shape():
    """Each example is a launch of its own, so neighbours never reach into the next example."""

    @dk.kernel
    def shift(x: dk.array(dtype=dk.float64), y: dk.array(dtype=dk.float64)):
        i = dk.tid()
        y[i] = x[(i + 1) % x.shape[0]] * x[i]

    x = tensor(3, 5, grad=False)
    torch.testing.assert_close(torch.func.vmap(dk.torch_function(shift))(x), torch.roll(x, -1, dims=1) * x)


def test_gradients_in_batches():
    f = dk.torch_function(wave64)
    x = tensor(5)
    y = f(x, 0.7)
    with pytest.raises(RuntimeError, match="is_grads_batched"):
        torch.autograd.grad(y, x, torch.eye(5, dtype=torch.float64), is_grads_batched=True)
    rows = torch.func.vmap(lambda g: torch.autograd.grad(y, x, g, retain_graph=True)[0])(
        torch.eye(5, dtype=torch.float64)
    )
    torch.testing.assert_close(rows, torch.func.jacrev(reference)(x.detach()))


def test_an_empty_batch_is_refused():
    f = dk.torch_function(wave64)
    with pytest.raises(RuntimeError, match="empty batch"):
        torch.func.vmap(lambda x: f(x, 0.7))(tensor(0, 4, grad=False))


# -- types, autocast, threads, mistakes ------------------------------------------------------------------------------


def test_other_types_are_refused_before_anything_runs():
    f = dk.torch_function(wave)
    with pytest.raises(dk.LaunchError, match=r"parameter 'x'.*float64 is not float32"):
        f(tensor(3), 0.5)
    with pytest.raises(dk.LaunchError, match="parameter 'a'"):
        f(torch.ones(3), torch.ones(2))
    with pytest.raises(dk.LaunchError, match="parameter 'a'"):
        f(torch.ones(3), "a")
    with pytest.raises(dk.LaunchError, match=r"(?s)parameter 'x'.*torch.as_tensor"):
        f([1.0, 2.0], 0.5)
    with pytest.raises(dk.LaunchError, match=r"takes 2 arguments \(x, a\), not 3"):
        f(torch.ones(3), 0.5, torch.ones(3))


def test_autocast_brings_tensors_to_the_annotated_type(how):
    f = how(dk.torch_function(wave))
    x = torch.ones(3, dtype=torch.bfloat16, requires_grad=True)
    with torch.autocast("cuda" if x.is_cuda else "cpu", dtype=torch.bfloat16):
        y = f(x, 0.5)
    assert y.dtype == torch.float32
    y.sum().backward()
    assert x.grad.dtype == torch.bfloat16


COLUMNS = dk.constant(12)


@dk.kernel
def softmax(x: dk.array(dtype=float, ndim=2), out: dk.array(dtype=float, ndim=2)):
    i = dk.tid()
    row = dk.tile_load(x[i], shape=COLUMNS)
    e = dk.tile_map(dk.exp, row - dk.tile_max(row)[0])
    dk.tile_store(out[i], e / dk.tile_sum(e)[0])


def test_a_kernel_of_tiles(how):
    f = how(dk.torch_function(softmax, launch_dims=5, output_dims=(5, 12)))
    x = torch.linspace(-1.0, 2.0, 60).reshape(5, 12).requires_grad_()
    (f(x) ** 2).sum().backward()
    again = x.detach().clone().requires_grad_()
    wanted = torch.softmax(again, 1)
    (wanted**2).sum().backward()
    torch.testing.assert_close(f(x), wanted)
    torch.testing.assert_close(x.grad, again.grad)


def test_an_in_out_argument_without_annotation(how):
    @dk.kernel
    def square(s, y: dk.array(dtype=float)):
        i = dk.tid()
        y[i] = 3.0 * s[i]
        s[i] = s[i] * s[i]

    x = torch.tensor([1.0, 2.0], requires_grad=True)
    squared, tripled = how(dk.torch_function(square, num_outputs=2, in_out_argnames="s"))(x)
    assert squared.tolist() == [1.0, 4.0]
    (squared.sum() + tripled.sum()).backward()
    assert x.grad.tolist() == [5.0, 7.0]


def test_mistakes_in_the_description():
    with pytest.raises(dk.LaunchError, match="no parameter 'z'"):
        dk.torch_function(wave, in_out_argnames="z")
    with pytest.raises(dk.LaunchError, match="num_outputs=0"):
        dk.torch_function(wave, num_outputs=0)
    with pytest.raises(dk.LaunchError, match="has to be annotated"):
        dk.torch_function(wave, num_outputs=2)
    with pytest.raises(dk.LaunchError, match="no pure output"):
        dk.torch_function(wave, output_dims={"x": 3})
    with pytest.raises(dk.LaunchError, match="launch_dims"):
        dk.torch_function(wave, launch_dims=(1, 2, 3, 4, 5))
    with pytest.raises(dk.LaunchError, match="2 axes"):
        dk.torch_function(stencil, launch_dims=3)(tensor(3, 3), tensor(3))
    with pytest.raises(dk.LaunchError, match=r"(?s)parameter 's'.*in_out_argnames"):
        dk.torch_function(in_place)(tensor(3), tensor(3))

    @dk.kernel
    def constant(y: dk.array(dtype=float)):
        y[dk.tid()] = 1.0

    with pytest.raises(dk.LaunchError, match="launch dims are not known"):
        dk.torch_function(constant)()
    assert dk.torch_function(constant, launch_dims=np.int64(3))().tolist() == [1.0] * 3


def test_inside_a_tape_or_a_recording_it_is_refused():
    f = dk.torch_function(wave64)
    with dk.Tape(), pytest.raises(dk.LaunchError, match="outside of that block"):
        f(tensor(3), 0.5)
    with dk.record(), pytest.raises(dk.LaunchError, match="outside of that block"):
        f(tensor(3), 0.5)


SCALE = 2.0


def test_what_the_kernel_captures_may_change(monkeypatch):
    @dk.kernel
    def scaled(x: dk.array(dtype=dk.float64), y: dk.array(dtype=dk.float64)):
        i = dk.tid()
        y[i] = SCALE * x[i] * x[i]

    f = dk.torch_function(scaled)
    x = tensor(3)
    y = f(x)
    torch.testing.assert_close(y, 2.0 * x * x)
    monkeypatch.setitem(globals(), "SCALE", 3.0)
    torch.testing.assert_close(f(x), 3.0 * x * x)
    y.sum().backward()
    torch.testing.assert_close(x.grad, 4.0 * x.detach())


def test_a_backward_is_that_of_the_call_in_every_form(monkeypatch):
    """In torch.func's transformations and as the operator of traced graphs, too."""

    @dk.kernel
    def scaled(x: dk.array(dtype=dk.float64), y: dk.array(dtype=dk.float64)):
        i = dk.tid()
        y[i] = SCALE * x[i]

    f = dk.torch_function(scaled)
    x, one = tensor(3), torch.ones(3, dtype=torch.float64)
    _, pull = torch.func.vjp(f, x.detach())
    results = [f._operator((x,)) for _ in range(2)]
    monkeypatch.setitem(globals(), "SCALE", 3.0)
    assert pull(one)[0].tolist() == [2.0] * 3
    results.append(f._operator((x,)))
    found = [torch.autograd.grad(y.sum(), x, retain_graph=True)[0].tolist() for y in results]
    assert found == [[2.0] * 3, [2.0] * 3, [3.0] * 3]
    unknown = [results[0].clone()]
    registered = next(o for o in operator._operators.values() if o._function is f)
    with pytest.raises(dk.LaunchError, match="not known whether"):
        registered._run_backward([one], [1], unknown, [1], x.detach())


def test_functions_of_one_content_whose_kernels_come_to_differ():
    """Kernels of one text with variables of their own are one program for a while only."""

    def make():
        factor = 2.0

        @dk.kernel
        def closed(x: dk.array(dtype=dk.float64), y: dk.array(dtype=dk.float64)):
            i = dk.tid()
            y[i] = factor * x[i]

        def change(value):
            nonlocal factor
            factor = value

        return dk.torch_function(closed), change

    (first, change), (second, _) = make(), make()
    x = torch.ones(3, dtype=torch.float64)
    change(5.0)
    assert first._operator((x,)).tolist() == [5.0] * 3
    assert second._operator((x,)).tolist() == [2.0] * 3


def test_debug_mode_checks_calls(monkeypatch):
    @dk.kernel(mode="debug")
    def outside(x: dk.array(dtype=float), y: dk.array(dtype=float)):
        i = dk.tid()
        y[i] = x[i + 1]

    with pytest.raises(dk.KernelRuntimeError, match="out of bounds"):
        dk.torch_function(outside)(torch.ones(3, requires_grad=True))


def test_many_threads():
    f = dk.torch_function(wave64)
    errors = []

    def work(seed):
        try:
            for n in range(1, 20):
                same(lambda x: f(x, 0.7), reference, tensor(n, seed=seed))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not errors


def test_operators_do_not_accumulate():
    from diffkern.interop.torch import operator

    dk.torch_function(wave64)
    before = set(operator._operators)
    for _ in range(20):
        dk.torch_function(wave64)

        @dk.kernel
        def again(x: dk.array(dtype=dk.float64), y: dk.array(dtype=dk.float64)):
            y[dk.tid()] = x[dk.tid()]

        dk.torch_function(again)
    assert len(set(operator._operators) - before) == 1
    other = dk.torch_function(wave64, launch_dims=2)
    assert other(tensor(2), 1.0).shape == (2,)
    assert len(set(operator._operators) - before) == 2


def test_pending_work_on_streams_comes_first():
    x, y = torch.zeros(3, dtype=torch.float64), dk.torch_function(wave64)
    stream = dk.Stream()
    gate = threading.Event()
    stream.enqueue(gate.wait)
    stream.enqueue(lambda: x.fill_(2.0))
    threading.Timer(0.05, gate.set).start()
    torch.testing.assert_close(y(x, 0.7), reference(torch.full((3,), 2.0, dtype=torch.float64)))


def test_a_module_that_learns(how):
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.a = torch.nn.Parameter(torch.tensor(0.3, dtype=torch.float64))
            self.f = dk.torch_function(wave64)

        def forward(self, x):
            return self.f(x, self.a)

    model = Model()
    run = how(model)
    x = tensor(64, grad=False)
    goal = torch.sin(0.8 * x) * x
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    for _ in range(100):
        optimizer.zero_grad()
        loss = ((run(x) - goal) ** 2).mean()
        loss.backward()
        optimizer.step()
    assert abs(model.a.item() - 0.8) < 1e-2


# -- batches in one launch ---------------------------------------------------------------------------------------------


Doubles = dk.array(dtype=dk.float64)


@dk.kernel
def coupled(x: Doubles, y: Doubles, a: dk.float64, out: Doubles):
    i = dk.tid()
    n = x.shape[0]
    out[i] = dk.sin(a * x[i]) * y[i] * y[(i + 1) % n]


def in_torch(x, y, a):
    return torch.sin(a * x) * y * torch.roll(y, -1)


@pytest.fixture
def launches(monkeypatch):
    """The dims of the launches of functions of tensors."""
    made, run = [], Forward.run

    def noted(self, args):
        made.append(self.dims)
        return run(self, args)

    monkeypatch.setattr(Forward, "run", noted)
    return made


BATCHES = {
    "values": lambda f: f,
    "gradients": lambda f: torch.func.grad(lambda *z: (f(*z) ** 2).sum(), (0, 1, 2)),
    "tangents": lambda f: lambda x, y, a: torch.func.jvp(lambda x: f(x, y, a), (x,), (y,))[1],
    "hessians": lambda f: torch.func.hessian(lambda *z: (f(*z) ** 2).sum(), (0, 2)),
}


@pytest.mark.parametrize(
    ("name", "axes"),
    [
        ("values", (0, 0, 0)), ("values", (None, 1, 0)), ("gradients", (0, None, None)), ("gradients", (None, 1, 0)),
        ("tangents", (0, 0, 0)), ("hessians", (0, None, None)),
    ],
)  # fmt: skip
def test_a_batch_is_one_launch(launches, name, axes):
    f = dk.torch_function(coupled)
    x, y, a = torch.rand(3, 5, dtype=torch.float64), torch.rand(3, 5, dtype=torch.float64), torch.rand(3).double()
    args = [v if axis == 0 else v.T if axis == 1 else v[0] for v, axis in zip((x, y, a), axes, strict=True)]
    of = BATCHES[name]
    found = torch.func.vmap(of(f), axes)(*args)
    assert launches
    assert all(dims[0] == 3 and dims[-1] == 5 for dims in launches)
    torch.testing.assert_close(found, torch.func.vmap(of(in_torch), axes)(*args))


def test_batches_of_batches_are_one_launch(launches):
    f = dk.torch_function(coupled)
    x, y = torch.rand(2, 3, 5, dtype=torch.float64), torch.rand(3, 5, dtype=torch.float64)

    def of(f):
        return torch.func.vmap(torch.func.vmap(lambda x, y: f(x, y, 0.7)), (0, None))

    torch.testing.assert_close(of(f)(x, y), of(in_torch)(x, y))
    assert launches == [(2, 3, 5)]


def test_backward_through_a_batch_sums_what_its_examples_share(monkeypatch):
    def gradients(f):
        x, y, a = (torch.rand(n, dtype=torch.float64, generator=torch.Generator().manual_seed(1)) for n in (15, 5, 3))
        given = [x.reshape(3, 5).requires_grad_(), y.requires_grad_(), a.requires_grad_()]
        (torch.func.vmap(f, (0, None, 0))(*given) ** 2).sum().backward()
        return [v.grad for v in given]

    expected = gradients(in_torch)
    torch.testing.assert_close(gradients(dk.torch_function(coupled)), expected)
    whole = gradient.gradients_of

    def of_examples(wanted, tensors):
        if wanted.function.examples is not None:
            raise dk.AutodiffError("there is none of a batch")
        return whole(wanted, tensors)

    monkeypatch.setattr(gradient, "gradients_of", of_examples)
    torch.testing.assert_close(gradients(dk.torch_function(coupled)), expected)


def test_large_examples_that_add_up_are_calls(launches):
    @dk.kernel
    def total(x: dk.array(dtype=dk.float64), out: dk.array(dtype=dk.float64)):
        dk.atomic_add(out, 0, x[dk.tid()])

    f = dk.torch_function(total, output_dims=1)
    x = torch.rand(2, 5000, dtype=torch.float64)
    torch.testing.assert_close(torch.func.vmap(f)(x), x.sum(1, keepdim=True))
    torch.testing.assert_close(torch.func.vmap(f)(x[:, :100]), x[:, :100].sum(1, keepdim=True))
    assert launches == [(5000,), (5000,), (2, 100)]
