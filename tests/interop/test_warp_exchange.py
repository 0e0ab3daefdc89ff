"""Exchange with PyTorch and JAX by Warp's names: the order of the parameters, and what the additional ones do."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest
from conftest import require

import diffkern as dk
import diffkern.warp as wp
from diffkern.errors import MisuseError


@wp.kernel
def squares(x: wp.array(dtype=float), scale: float, y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = scale * x[i] * x[i]


@wp.kernel
def lengths(v: wp.array(dtype=wp.vec3), out: wp.array(dtype=float)):
    i = wp.tid()
    out[i] = wp.dot(v[i], v[i])


@wp.kernel
def doubled(x: wp.array(dtype=float), total: wp.array(dtype=float)):
    i = wp.tid()
    x[i] = 2.0 * x[i]
    total[i] = x[i] + 1.0


@wp.kernel(enable_backward=False)
def threads(x: wp.array(dtype=float), out: wp.array(dtype=wp.int32)):
    out[wp.tid()] = wp.block_dim()


@dk.kernel
def threads_of_native(x: dk.array(dtype=float), out: dk.array(dtype=dk.int32)):
    out[dk.tid()] = dk.block_dim()


@wp.kernel
def totals(x: wp.array2d(dtype=float), out: wp.array(dtype=float)):
    i = wp.tid()
    for k in range(x.shape[1]):
        out[i] += x[i, k]


def twice(x: wp.array(dtype=float), scale: float, y: wp.array(dtype=float)):
    between = wp.zeros(x.shape, float)
    wp.launch(squares, x.shape, inputs=[x, scale, between])
    wp.launch(squares, x.shape, inputs=[between, 1.0, y])


# -- PyTorch -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("return_ctype", [False, True])
def test_a_tensor_is_an_array_over_its_memory(return_ctype: bool) -> None:
    torch = require("torch")
    t = torch.arange(1.0, 5.0)
    x = wp.from_torch(t, wp.float32, True, None, return_ctype, True)
    assert (x.array if return_ctype else x).retain_grad
    y = wp.zeros(4, dtype=float)
    wp.launch(squares, 4, inputs=[x, 0.5], outputs=[y])
    assert y.numpy().tolist() == [0.5, 2, 4.5, 8]
    t[0] = 4.0
    wp.launch(squares, 4, inputs=[x, 0.5], outputs=[y])
    assert y.numpy()[0] == 8


def test_a_tensor_as_a_structure_of_c_is_an_argument() -> None:
    torch = require("torch")
    for _ in range(2):  # of a kind that was not seen before, and again
        t = torch.arange(6.0).reshape(2, 3)
        v = wp.from_torch(t, wp.vec3, return_ctype=True)
        assert isinstance(v, ctypes.Structure)
        assert isinstance(v, wp._src.types.array_t)
        assert not isinstance(v, wp.array)
        assert (v.data, v.grad, v.ndim, v.shape[0], v.strides[0]) == (t.data_ptr(), 0, 1, 2, 12)
        del t  # which the structure keeps alive
        out = torch.zeros(2)
        for _ in range(2):
            wp.launch(lengths, 2, inputs=[v], outputs=[wp.from_torch(out, return_ctype=True)])
        assert out.tolist() == [5, 50]
    again = wp.launch(lengths, 2, inputs=[v, wp.zeros(2, dtype=float).__ctype__()], record_cmd=True)
    again.set_param_at_index(1, wp.from_torch(out.zero_(), return_ctype=True))
    again.launch()
    assert out.tolist() == [5, 50]
    with pytest.raises(dk.LaunchError, match="'v': takes array1d<vec3<float32>>, not array1d<float32>"):
        wp.launch(lengths, 2, inputs=[wp.from_torch(out, return_ctype=True)], outputs=[out])


def test_the_gradient_of_a_tensor_as_a_structure() -> None:
    torch = require("torch")
    leaf, out = torch.ones(3, requires_grad=True), wp.zeros(3, dtype=float, requires_grad=True)
    wp.from_torch(torch.ones(3))  # so that the kind of tensor is known
    x = wp.from_torch(leaf, return_ctype=True)
    assert x.grad == leaf.grad.data_ptr()
    with wp.Tape() as tape:
        wp.launch(squares, 3, inputs=[x, 0.5], outputs=[out.__ctype__()])
    tape.backward(grads={out: wp.array([1.0, 2.0, 3.0], dtype=float)})
    assert leaf.grad.tolist() == [1, 2, 3]


def test_gradients_that_are_given_are_structures_of_c_too() -> None:
    torch = require("torch")
    v, out = torch.arange(6.0).reshape(2, 3), torch.zeros(2)
    dv, dout = torch.zeros(2, 3), torch.tensor([1.0, 2.0])
    # A tensor without a type of elements is taken as vectors, as the parameter has them.
    for kind in ({"dtype": wp.vec3}, {}):
        given = [wp.from_torch(v, **kind, return_ctype=True)], [wp.from_torch(out, return_ctype=True)]
        adjoints = [wp.from_torch(dv.zero_(), **kind, return_ctype=True)], [wp.from_torch(dout, return_ctype=True)]
        wp.launch(lengths, 2, *given, adj_inputs=adjoints[0], adj_outputs=adjoints[1], adjoint=True)
        assert dv.tolist() == (2.0 * v * dout[:, None]).tolist()
    x, dx = wp.array([2.0, 3.0], dtype=float), wp.zeros(2, dtype=float)
    y, dy = wp.zeros(2, dtype=float), wp.array([1.0, 1.0], dtype=float)
    wp.launch(squares, 2, [x, 0.5], [y], adj_inputs=[dx.__ctype__(), None], adj_outputs=[dy.__ctype__()], adjoint=True)
    assert dx.numpy().tolist() == [2.0, 3.0]
    with pytest.raises(dk.LaunchError, match=r"'v': its gradient must have shape \(2,\) and type vec3<float32>, not"):
        wp.launch(
            lengths, 2, *given, adj_inputs=[wp.from_torch(out, return_ctype=True)], adj_outputs=[dout], adjoint=True
        )


def test_the_gradient_of_a_tensor_and_one_that_is_given() -> None:
    torch = require("torch")
    leaf = torch.ones(2, 3, requires_grad=True)
    given = torch.zeros(2, 3)
    for v, grad in [
        (wp.from_torch(leaf, dtype=wp.vec3), lambda: leaf.grad),
        (wp.from_torch(torch.ones(2, 3), wp.vec3, grad=given), lambda: given),
        (wp.from_torch(torch.ones(2, 3), wp.vec3, True), None),
    ]:
        with wp.Tape() as tape:
            out = wp.zeros(2, dtype=float, requires_grad=True)
            wp.launch(lengths, 2, inputs=[v], outputs=[out])
        tape.backward(grads={out: wp.array([1.0, 2.0], dtype=float)})
        expected = [[2.0] * 3, [4.0] * 3]
        assert v.grad.numpy().tolist() == expected
        assert grad is None or grad().tolist() == expected
    assert wp.from_torch(torch.ones(2)).grad is None


def test_integers_that_do_not_fit_wrap_around() -> None:
    torch = require("torch")
    t = torch.zeros(2, dtype=torch.int32)
    wp.from_torch(t).fill_(2**32 + 5)
    assert t.tolist() == [5, 5]


def test_what_is_no_tensor() -> None:
    require("torch")
    with pytest.raises((TypeError, MisuseError), match="tensor"):
        wp.from_torch([1.0, 2.0])


# -- JAX ---------------------------------------------------------------------------------------------------------------


def test_kernels_in_jax() -> None:
    jax = require("jax")
    x = jax.numpy.arange(1.0, 5.0)
    f = wp.jax_kernel(squares, 1, None, None, None, None, wp.JaxModulePreloadMode.ALL_DEVICES, True, True)
    assert jax.jit(f)(x, 2.0)[0].tolist() == [2, 8, 18, 32]
    assert jax.grad(lambda x: f(x, 2.0)[0].sum())(x).tolist() == [4, 8, 12, 16]
    several = jax.vmap(lambda x: f(x, 1.0)[0])(jax.numpy.stack([x, 2 * x]))
    assert several.tolist() == [[1, 4, 9, 16], [4, 16, 36, 64]]


def test_dimensions_and_results_in_place() -> None:
    jax = require("jax")
    x = jax.numpy.arange(1.0, 5.0)
    part = wp.jax_kernel(squares, 1, "broadcast_all", 2, {"y": 3})
    assert part(x, 1.0)[0].shape == (3,)
    assert part(x, 1.0)[0][:2].tolist() == [1, 4]
    changed = wp.jax_kernel(doubled, num_outputs=2, in_out_argnames=["x"])
    assert [found.tolist() for found in changed(x)] == [[2, 4, 6, 8], [3, 5, 7, 9]]


@pytest.mark.parametrize("kernel", [threads, threads_of_native], ids=["warp", "native"])
@pytest.mark.parametrize("block_dim", [None, 32, 256])
def test_threads_of_a_block(kernel: Any, block_dim: int | None) -> None:
    jax = require("jax")
    f = wp.jax_kernel(kernel, block_dim=block_dim)
    assert f(jax.numpy.ones(512))[0].tolist() == [block_dim or 256] * 512
    assert kernel.block_dim == 256  # which is the kernel of others as well


@pytest.mark.parametrize("block_dim", [0, -1, 1.5, 10**6])
def test_no_such_block(block_dim: Any) -> None:
    require("jax")
    with pytest.raises((ValueError, MisuseError), match="block_dim"):
        wp.jax_kernel(squares, block_dim=block_dim)


def test_options_of_a_kernel_stay_with_other_blocks() -> None:
    jax = require("jax")
    f = wp.jax_kernel(threads, block_dim=64)
    made = f.kernel
    assert (made.key, made.module, made.enable_backward) == (threads.key, threads.module, False)
    assert made.options.block_dim == 64
    assert threads.module.kernels[threads.key] is threads
    g = wp.jax_kernel(squares, enable_backward=False)
    with pytest.raises(dk.KernelError, match="not differentiated"):
        jax.grad(lambda x: g(x, 1.0)[0].sum())(jax.numpy.ones(2))


@pytest.mark.parametrize("graph_mode", wp.JaxCallableGraphMode)
def test_functions_in_jax(graph_mode: Any) -> None:
    jax = require("jax")
    x = jax.numpy.arange(1.0, 4.0)
    f = wp.jax_callable(twice, 1, graph_mode, None, None, None, ["x"], ["y"], 2, wp.JaxModulePreloadMode.NONE, False)
    assert jax.jit(f)(x, 1.0)[0].tolist() == [1, 16, 81]
    assert jax.grad(lambda x: f(x, 1.0)[0].sum())(x).tolist() == [4, 32, 108]
    wp.clear_jax_callable_graph_cache(f)
    wp.clear_jax_callable_graph_cache()
    assert f(x, 1.0)[0].tolist() == [1, 16, 81]
    assert (f.graph_cache_max, f.graph_cache_size) == (2, 0)


def test_a_function_that_is_made_for_each_call_is_the_same() -> None:
    jax = require("jax")
    x = jax.numpy.ones((2, 3))
    rows = wp.jax_kernel(totals, launch_dims=lambda x: x.shape[:1], output_dims=[2])
    assert wp.jax_kernel(squares, output_dims={"y": 3}) is wp.jax_kernel(squares, output_dims={"y": 3})
    assert wp.jax_callable(twice) is wp.jax_callable(twice, graph_cache_max=3)
    assert wp.jax_callable(twice).graph_cache_max is None
    for other in ({}, {"output_dims": {"y": 4}}, {"output_dims": 3}, {"output_dims": 3, "block_dim": 32}):
        assert wp.jax_kernel(squares, **other) is not wp.jax_kernel(squares, output_dims={"y": 3})
    assert rows(x)[0].tolist() == [3, 3]
    assert wp.jax_kernel(totals, launch_dims=lambda x: 1, output_dims=[2])(x)[0].tolist() == [3, 0]
    same = rows(x, launch_dims=None, output_dims=None, vmap_method=None)[0]
    assert same.tolist() == [3, 3]


def change(x: wp.array(dtype=float), total: wp.array(dtype=float)):
    wp.launch(doubled, x.shape, inputs=[x, total])


def test_functions_that_change_an_argument() -> None:
    jax = require("jax")
    f = wp.jax_callable(change, num_outputs=2, in_out_argnames=["x"])
    assert [found.tolist() for found in f(jax.numpy.arange(1.0, 4.0))] == [[2, 4, 6], [3, 5, 7]]


def test_a_function_without_a_derivative() -> None:
    jax = require("jax")
    f = wp.jax_callable(twice, enable_backward=False)
    with pytest.raises(ValueError, match="cannot be differentiated"):
        jax.grad(lambda x: f(x, 1.0)[0].sum())(jax.numpy.ones(2))
