"""Kernels as JAX functions: values, gradients, and every transformation, against the same function in JAX."""

from __future__ import annotations

import functools
import inspect

import jax_kernels as k
import numpy as np
import pytest
from conftest import require

require("jax")

import jax
import jax.numpy as jnp

import diffkern as dk

wave = dk.jax_kernel(k.wave)
smooth = dk.jax_kernel(k.smooth)
heat = dk.jax_kernel(k.heat)
energy = dk.jax_kernel(k.energy, output_dims=1)
gather = dk.jax_kernel(k.gather, launch_dims=lambda x, at: at.shape)


def ramp(n, low=-1.0, high=2.0):
    return jnp.linspace(low, high, n, dtype=jnp.float32)


def wave_in_jax(x, y, a):
    return jnp.sin(a * x) * y


def smooth_in_jax(x):
    n = x.shape[0]
    left = x[jnp.maximum(jnp.arange(n) - 1, 0)]
    right = x[jnp.minimum(jnp.arange(n) + 1, n - 1)]
    return (left * x + right) / n


def heat_in_jax(x, c):
    inner = x[1:-1, 1:-1]
    new = inner + c * (x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:] - 4 * inner)
    return jnp.zeros_like(x).at[1:-1, 1:-1].set(new)


def close(a, b, tolerance=2e-5):
    for p, q in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        assert p.dtype == q.dtype
        np.testing.assert_allclose(np.asarray(p, np.float64), np.asarray(q, np.float64), tolerance, tolerance)


# -- values and gradients ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 7, 1000, 300_000])
def test_values(n):
    x, y = ramp(n), ramp(n, 1.0, 3.0)
    close(wave(x, y, 2.0)[0], wave_in_jax(x, y, 2.0))
    close(jax.jit(wave)(x, y, 2.0)[0], wave_in_jax(x, y, 2.0))


def test_sizes_as_static_arguments():
    x = ramp(6)
    f = jax.jit(wave, static_argnames=("launch_dims", "output_dims", "vmap_method"))
    assert f(x, x, 2.0, launch_dims=4)[0].shape == (4,)
    close(f(x, x, 2.0, launch_dims=(4,), output_dims=(6,))[0][:4], wave_in_jax(x, x, 2.0)[:4])
    assert [*inspect.signature(wave).parameters] == ["x", "y", "a", "launch_dims", "output_dims", "vmap_method"]


def test_outputs_sized_from_the_arguments():
    f = dk.jax_kernel(k.softmax, launch_dims=lambda x: x.shape[0], output_dims=lambda x: x.shape)
    for rows in (5, 3):
        x = jnp.sin(ramp(rows * 12)).reshape(rows, 12)
        close(jax.jit(f)(x)[0], jax.nn.softmax(x))
        close(jax.grad(lambda x: (f(x)[0] ** 2).sum())(x), jax.grad(lambda x: (jax.nn.softmax(x) ** 2).sum())(x))
    doubled = f(x, output_dims={"out": lambda x: (2 * x.shape[0], 12)})[0]
    close(doubled[:3], jax.nn.softmax(x))
    assert doubled.shape == (6, 12)


@pytest.mark.parametrize("n", [7, 100_000])
def test_gradients_of_arrays_and_numbers(n):
    x, y = ramp(n), ramp(n, 1.0, 3.0)
    ours = jax.grad(lambda x, y, a: jnp.mean(wave(x, y, a)[0] ** 2), argnums=(0, 1, 2))
    theirs = jax.grad(lambda x, y, a: jnp.mean(wave_in_jax(x, y, a) ** 2), argnums=(0, 1, 2))
    close(ours(x, y, 1.5), theirs(x, y, 1.5))
    close(jax.jit(ours)(x, y, 1.5), theirs(x, y, 1.5))


def test_gradient_for_one_argument_alone():
    x, y = ramp(100), ramp(100, 1.0, 3.0)
    text = jax.jit(jax.grad(lambda a: wave(x, y, a)[0].sum())).lower(1.5).as_text()
    close(jax.grad(lambda a: wave(x, y, a)[0].sum())(1.5), jax.grad(lambda a: wave_in_jax(x, y, a).sum())(1.5), 1e-4)
    adjoint = [line for line in text.splitlines() if "custom_call" in line][-1]
    # The cotangent of the number, and the one of the output, which is used up: none for the arrays.
    assert adjoint.count("tensor<1xf32>") == 1
    assert adjoint.split("->")[1].count("tensor<100xf32>") == 1


def test_the_adjoint_gets_what_it_reads_alone():
    """JAX keeps all inputs and outputs for it; XLA drops those that no custom call takes, in a scan as well."""
    x = jnp.zeros(1000)
    f = lambda x: heat(x.reshape(10, 100), 0.1)[0].reshape(-1)  # noqa: E731
    run = jax.grad(lambda x: jax.lax.scan(lambda x, _: (f(x), None), x, None, length=500)[0].sum())
    # The kernel is linear in the array, so no state is kept: 500 of them are 2 MB.
    assert jax.jit(run).lower(x).compile().memory_analysis().temp_size_in_bytes < 100_000


@pytest.mark.parametrize(("wanted", "between"), [("a", "y"), ("y", "a"), ("xy", "a"), ("xya", "y")])
def test_gradients_for_one_set_of_arguments_after_another(wanted, between):
    """The forward is traced once for each set; the backward must not be told of another set than its own."""
    f = dk.jax_kernel(k.wave)
    given = {"x": ramp(10), "y": ramp(10, 1.0, 3.0), "a": jnp.float32(1.5)}

    def gradients(f, names, outer=lambda f: f):
        loss = outer(lambda *xs: jnp.sum(f(**{**given, **dict(zip(names, xs, strict=True))}) ** 2))
        return jax.grad(loss, argnums=tuple(range(len(names))))(*(given[n] for n in names))

    def ours(x, y, a):
        return f(x, y, a)[0]

    for names in (wanted, between):
        close(gradients(ours, names), gradients(wave_in_jax, names), 1e-4)
    close(gradients(ours, wanted, jax.checkpoint), gradients(wave_in_jax, wanted), 1e-4)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: dk.zeros(3), "parameter 'x': takes JAX arrays and numbers, not a diffkern.array\n.*jax.dlpack"),
        (lambda: "three", "parameter 'x': takes array1d<float32>, not str 'three'"),
        (lambda: object, "parameter 'x': takes array1d<float32>, not the class object"),
    ],
)
def test_what_jax_does_not_take_is_refused_by_name(make, message):
    for call in (wave, jax.grad(lambda y, x: wave(x, y, 2.0)[0].sum())):
        args = (make(), ramp(3), 2.0) if call is wave else (ramp(3), make())
        with pytest.raises(dk.LaunchError, match=message):
            call(*args)


def test_a_kernel_of_tiles():
    f = dk.jax_kernel(k.softmax, launch_dims=lambda x: x.shape[0], output_dims=(5, 12))
    x = ramp(60).reshape(5, 12)
    close(f(x)[0], jax.nn.softmax(x, axis=1))
    close(jax.jit(f)(x)[0], jax.nn.softmax(x, axis=1))
    ours = jax.grad(lambda x: (f(x)[0] ** 2).sum())(x)
    close(ours, jax.grad(lambda x: (jax.nn.softmax(x, axis=1) ** 2).sum())(x))
    close(jax.vmap(f)(x[None])[0][0], jax.nn.softmax(x, axis=1))


def test_float64_against_differences():
    # JAX before 0.8, the newest for Python 3.10, has it in jax.experimental.
    with (jax.enable_x64 if hasattr(jax, "enable_x64") else jax.experimental.enable_x64)(True):
        f = dk.jax_kernel(k.wave64)
        x = jnp.linspace(-1.0, 2.0, 50)
        g, ga = jax.grad(lambda x, a: f(x, a)[0].sum(), argnums=(0, 1))(x, 1.3)
        step = 1e-6
        d = (f(x + step, 1.3)[0] - f(x - step, 1.3)[0]) / (2 * step)
        np.testing.assert_allclose(g, d, rtol=1e-8, atol=1e-8)
        da = (f(x, 1.3 + step)[0] - f(x, 1.3 - step)[0]).sum() / (2 * step)
        np.testing.assert_allclose(ga, da, rtol=1e-8)


def test_64_bit_types_need_to_be_enabled():
    with pytest.raises(dk.LaunchError, match="jax_enable_x64"):
        dk.jax_kernel(k.wave64)(np.linspace(0, 1, 5), 1.0)


def test_neighbours_and_elements_left_unwritten():
    x = jnp.sin(jnp.arange(30 * 41, dtype=jnp.float32)).reshape(30, 41)
    close(heat(x, 0.1)[0], heat_in_jax(x, 0.1))
    weights = jnp.cos(jnp.arange(30 * 41, dtype=jnp.float32)).reshape(30, 41)
    ours = jax.grad(lambda x, c: (weights * heat(x, c)[0] ** 2).sum(), argnums=(0, 1))
    theirs = jax.grad(lambda x, c: (weights * heat_in_jax(x, c) ** 2).sum(), argnums=(0, 1))
    close(ours(x, 0.1), theirs(x, 0.1))


@pytest.mark.parametrize("n", [10, 200_000])
def test_what_is_accumulated_begins_at_zero(n):
    x = ramp(n)
    for _ in range(3):
        close(energy(x)[0], 0.5 * (x * x).sum(keepdims=True), 1e-4)
    close(jax.grad(lambda x: energy(x)[0][0])(x), x)


@pytest.mark.parametrize("n", [50, 400_000])
def test_gathers_collide(n):
    x = ramp(40)
    at = (jnp.arange(n) * 7 % 40).astype(jnp.int32)
    close(gather(x, at)[0], x[at] ** 2)
    ours = jax.grad(lambda x: gather(x, at)[0].mean())(x)
    close(ours, jax.grad(lambda x: (x[at] ** 2).mean())(x), 1e-4)


def test_integers_have_no_gradient():
    x, at = ramp(5), jnp.array([4, 0, 0], jnp.int32)
    _, pull = jax.vjp(lambda x, at: gather(x, at)[0], x, at)
    ct_x, ct_at = pull(jnp.ones(3))
    close(ct_x, jnp.array([4 * x[0], 0, 0, 0, 2 * x[4]]))
    assert ct_at.dtype == jax.dtypes.float0


def test_in_out_arguments_are_returned_and_differentiable():
    f = dk.jax_kernel(k.square, in_out_argnames=["y"])
    y = ramp(1000)
    before = np.array(y)
    close(f(y)[0], y * y)
    np.testing.assert_array_equal(y, before)
    close(jax.grad(lambda y: f(f(y)[0])[0].sum())(y), 4 * y**3)


def test_in_out_with_outputs():
    f = dk.jax_kernel(k.decay, num_outputs=2, in_out_argnames="y")

    def in_jax(y, c):
        new = y * y * c
        return new, y + new

    y = ramp(500)
    close(f(y, 0.5), in_jax(y, 0.5))
    ours = jax.grad(lambda y, c: jnp.stack(f(y, c)).prod(0).sum(), argnums=(0, 1))
    theirs = jax.grad(lambda y, c: jnp.stack(in_jax(y, c)).prod(0).sum(), argnums=(0, 1))
    close(ours(y, 0.5), theirs(y, 0.5), 1e-4)
    # One result alone: the other one's cotangent is zero.
    close(jax.grad(lambda y: f(y, 0.5)[1].sum())(y), jax.grad(lambda y: in_jax(y, 0.5)[1].sum())(y))


def test_what_is_changed_is_apart_from_what_is_read():
    f = dk.jax_kernel(k.mirrored, in_out_argnames="y")
    for given in (jax.jit(lambda y: f(y, y)[0]), jax.jit(lambda y: f(y * 1.5, y * 1.5)[0], donate_argnums=0)):
        y = ramp(100_000)
        scale = np.asarray(given(jnp.ones(100_000)))[0] / 2
        expected = scale * (np.asarray(y) + np.asarray(y)[::-1])
        np.testing.assert_allclose(given(y), expected, rtol=1e-5, atol=1e-6)


def test_a_donated_argument_is_changed_in_place():
    f = jax.jit(dk.jax_kernel(k.square, in_out_argnames="y"), donate_argnums=0)
    y = ramp(100_000)
    expected, place = np.asarray(y) ** 2, y.unsafe_buffer_pointer()
    (out,) = f(y)
    assert out.unsafe_buffer_pointer() == place
    assert y.is_deleted()
    np.testing.assert_allclose(out, expected, rtol=1e-6)


def test_an_input_that_is_written_to():
    @dk.kernel
    def used_up(x: dk.array(dtype=float), y: dk.array(dtype=float)):
        i = dk.tid()
        y[i] = x[i] * x[i]
        x[i] = 0.0

    x = ramp(5)
    with pytest.raises(dk.LaunchError, match="'used_up': it writes to 'x', which is passed and not returned"):
        dk.jax_kernel(used_up)(x)
    rest, y = dk.jax_kernel(used_up, num_outputs=2, in_out_argnames="x")(x)
    close(y, x * x)
    close(rest, 0 * x)


def test_one_array_as_input_and_as_in_out():
    @dk.kernel
    def reverse(x: dk.array(dtype=float), y: dk.array(dtype=float)):
        i = dk.tid()
        y[i] = x[x.shape[0] - 1 - i] + y[i]

    f = dk.jax_kernel(reverse, in_out_argnames="y")
    x = ramp(50_000)
    expected = np.asarray(x[::-1] + x)
    for g in (f, jax.jit(f), lambda x, _: jax.jit(lambda x: f(x, x), donate_argnums=0)(jnp.array(x))):
        np.testing.assert_array_equal(g(x, x)[0], expected)


def test_vectors_and_values_by_vector():
    f = dk.jax_kernel(k.stretch, launch_dims=lambda x, edges, shift: edges.shape[:1])
    x = jnp.sin(jnp.arange(30, dtype=jnp.float32)).reshape(10, 3)
    edges = jnp.array([[0, 1], [2, 9], [9, 1], [4, 5]], jnp.int32)
    shift = jnp.array([0.5, 0.25, -1.0], jnp.float32)

    def in_jax(x, edges, shift):
        return jnp.linalg.norm(x[edges[:, 0]] - x[edges[:, 1]] + shift, axis=1)

    close(f(x, edges, shift)[0], in_jax(x, edges, shift))
    ours = jax.grad(lambda x, s: (f(x, edges, s)[0] ** 3).sum(), argnums=(0, 1))(x, shift)
    close(ours, jax.grad(lambda x, s: (in_jax(x, edges, s) ** 3).sum(), argnums=(0, 1))(x, shift))


def test_half_precision_booleans_and_integers():
    f = dk.jax_kernel(k.mixed)
    x = jnp.arange(8).astype(jnp.float16)
    flag = jnp.arange(8) % 2 == 0
    close(f(x, flag, 3)[0], jnp.where(flag, 3 * x, 0))
    close(jax.grad(lambda x: f(x, flag, 3)[0].astype(jnp.float32).sum())(x), jnp.where(flag, 3, 0).astype(jnp.float16))


def test_several_outputs_of_different_shapes():
    f = dk.jax_kernel(k.two, num_outputs=2, output_dims={"b": (6, 3)})
    x = ramp(6)
    a, b = f(x)
    close(a, jnp.exp(x))
    close(b, jnp.zeros((6, 3)).at[:, 1].set(x * x))
    close(jax.grad(lambda x: f(x)[1].sum())(x), 2 * x)


def test_unannotated_parameters():
    f = dk.jax_kernel(k.plain)
    x = ramp(9)
    close(f(x, 3.0)[0], 3 * x * x)
    close(jax.grad(lambda x, a: f(x, a)[0].sum(), argnums=1)(x, 3.0), (x * x).sum())


def test_dims_for_one_call():
    x = ramp(9)
    (out,) = dk.jax_kernel(k.plain)(x, 2.0, launch_dims=4, output_dims=6)
    close(out, jnp.concatenate([2 * x[:4] ** 2, jnp.zeros(2)]))


def test_empty_arrays():
    x = ramp(0)
    assert wave(x, x, 1.0)[0].shape == (0,)
    close(energy(x)[0], jnp.zeros(1))
    close(jax.grad(lambda a: wave(x, x, a)[0].sum())(1.0), jnp.zeros(()))


# -- transformations ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["sequential", "sequential_unrolled", "expand_dims", "broadcast_all"])
def test_vmap_of_a_kernel_that_reads_its_neighbours(method):
    f = dk.jax_kernel(k.smooth, vmap_method=method)
    xs = jnp.sin(jnp.arange(60, dtype=jnp.float32)).reshape(5, 12)
    close(jax.vmap(lambda x: f(x)[0])(xs), jax.vmap(smooth_in_jax)(xs))
    ours = jax.vmap(jax.grad(lambda x: (f(x)[0] ** 2).sum()))(xs)
    close(ours, jax.vmap(jax.grad(lambda x: (smooth_in_jax(x) ** 2).sum()))(xs))
    close(jax.grad(lambda xs: (jax.vmap(lambda x: f(x)[0])(xs) ** 2).sum())(xs), ours)


def test_vmap_over_some_arguments():
    x, ys, scales = ramp(20), jnp.ones((3, 20)) * jnp.arange(3.0)[:, None], jnp.arange(1.0, 4.0)
    f, g = (lambda x, y, a: wave(x, y, a)[0]), wave_in_jax
    for axes in ((None, 0, None), (None, None, 0), (None, 0, 0)):
        args = (x, ys if axes[1] == 0 else ys[0], scales if axes[2] == 0 else 2.0)
        close(jax.vmap(f, axes)(*args), jax.vmap(g, axes)(*args))
        close(jax.jit(jax.vmap(f, axes))(*args), jax.vmap(g, axes)(*args))
    close(
        jax.vmap(f, (None, 1, None), out_axes=1)(x, ys.T, 2.0), jax.vmap(g, (None, 1, None), out_axes=1)(x, ys.T, 2.0)
    )


def test_gradients_of_what_examples_share():
    x, ys = ramp(20), jnp.ones((3, 20)) * jnp.arange(1.0, 4.0)[:, None]

    def gradients(f):
        loss = lambda x, a: (jax.vmap(lambda y: f(x, y, a))(ys) ** 2).sum()  # noqa: E731
        return jax.grad(loss, (0, 1))(x, 2.0)

    close(gradients(lambda *z: wave(*z)[0]), gradients(wave_in_jax), 1e-4)


def test_batches_of_batches():
    x, ys, scales = ramp(6), jnp.sin(jnp.arange(4 * 6.0)).reshape(4, 6), jnp.arange(1.0, 3.0)

    def nest(f):
        inner = jax.vmap(f, (None, 0, None))
        return jax.vmap(inner, (None, None, 0))(x, ys, scales), jax.vmap(jax.vmap(f, (None, 0, None)), (None, 0, 0))(
            x, ys.reshape(2, 2, 6), scales
        )

    close(nest(lambda x, y, a: wave(x, y, a)[0]), nest(wave_in_jax))
    gradients = [
        nest(jax.grad(lambda x, y, a, f=f: (f(x, y, a) ** 2).sum())) for f in (lambda *z: wave(*z)[0], wave_in_jax)
    ]
    close(*gradients)


def test_vmap_of_what_accumulates_and_of_in_out():
    xs = jnp.sin(jnp.arange(50, dtype=jnp.float32)).reshape(10, 5)
    close(jax.vmap(lambda x: energy(x)[0])(xs), 0.5 * (xs * xs).sum(1, keepdims=True))
    f = dk.jax_kernel(k.decay, num_outputs=2, in_out_argnames="y")
    y, ks = ramp(5), jnp.arange(1.0, 4.0)
    new, trace = jax.vmap(f, (None, 0))(y, ks)
    close(new, y * y * ks[:, None])
    close(trace, y + y * y * ks[:, None])


def test_a_large_batch_of_large_launches():
    xs = jnp.sin(jnp.arange(6 * 90_000, dtype=jnp.float32)).reshape(6, 90_000)
    ours = jax.vmap(jax.grad(lambda x: (smooth(x)[0] ** 2).sum()))(xs)
    close(ours, jax.vmap(jax.grad(lambda x: (smooth_in_jax(x) ** 2).sum()))(xs))


def test_scan_and_checkpoint():
    x = jnp.sin(jnp.arange(20 * 21, dtype=jnp.float32)).reshape(20, 21)

    def run(f, x, c, remat):
        step = lambda x, _: (f(x, c), None)  # noqa: E731
        body = jax.checkpoint(step) if remat else step
        return (jax.lax.scan(body, x, None, length=10)[0] ** 2).sum()

    expected = jax.grad(functools.partial(run, heat_in_jax), argnums=(0, 1))(x, 0.1, False)
    for remat in (False, True):
        ours = jax.jit(jax.grad(functools.partial(run, lambda x, c: heat(x, c)[0]), argnums=(0, 1)), static_argnums=2)
        close(ours(x, 0.1, remat), expected, 1e-4)


def test_control_flow():
    x = ramp(30)
    f = jax.jit(lambda x, p: jax.lax.cond(p, lambda x: smooth(x)[0], lambda x: 2 * x, x))
    close(f(x, True), smooth_in_jax(x))
    close(f(x, False), 2 * x)
    out = jax.lax.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, smooth(s[1])[0]), (0, x))[1]
    close(out, smooth_in_jax(smooth_in_jax(smooth_in_jax(x))))


def test_an_array_passed_twice():
    f = dk.jax_kernel(k.wave)
    x = ramp(40)
    close(jax.grad(lambda x: f(x, x, 2.0)[0].sum())(x), jax.grad(lambda x: wave_in_jax(x, x, 2.0).sum())(x))


def test_calls_from_many_threads():
    from concurrent.futures import ThreadPoolExecutor

    x = jnp.sin(jnp.arange(60_000, dtype=jnp.float32))
    f = jax.jit(jax.value_and_grad(lambda x: (smooth(x)[0] ** 2).sum()))
    expected = jax.value_and_grad(lambda x: (smooth_in_jax(x) ** 2).sum())(x)
    f(x)
    with ThreadPoolExecutor(8) as threads:
        for got in threads.map(lambda _: jax.block_until_ready(f(x)), range(200)):
            close(got, expected, 1e-4)


# -- what is refused ---------------------------------------------------------------------------------------------------


def test_a_kernel_without_a_gradient():
    f = dk.jax_kernel(k.wave, enable_backward=False)
    x = ramp(4)
    close(f(x, x, 1.0)[0], wave_in_jax(x, x, 1.0))
    with pytest.raises(dk.AutodiffError, match="enable_backward"):
        jax.grad(lambda x: f(x, x, 1.0)[0].sum())(x)


def test_refused_derivative_names_the_line():
    @dk.kernel
    def race(x: dk.array(dtype=float), out: dk.array(dtype=float)):
        i = dk.tid()
        out[i] = x[i]
        out[i] += out[i + 1] * x[i]

    f = dk.jax_kernel(race, output_dims=5)
    with pytest.raises(dk.AutodiffError, match=r"test_kernel\.py:\d+"):
        jax.grad(lambda x: f(x)[0].sum())(ramp(4))


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((np.zeros(3, np.float64),), "takes 3 arguments"),
        ((np.zeros(3, np.int32), np.zeros(3, np.float32), 1.0), "JAX's array of int32"),
        ((np.zeros((3, 3), np.float32), np.zeros(3, np.float32), 1.0), r"shape \(3, 3\)"),
        ((np.zeros(3, np.float32), np.zeros(3, np.float32), np.zeros(3, np.float32)), "by value"),
    ],
)
def test_arguments_are_checked(args, message):
    with pytest.raises(dk.LaunchError, match=message):
        wave(*args)


def test_none_in_the_place_of_an_array():
    with pytest.raises(dk.KernelTypeError, match="x is None in this launch"):
        wave(None, np.zeros(3, np.float32), 1.0)


def test_launch_larger_than_the_output():
    with pytest.raises(dk.LaunchError, match="outside its shape"):
        wave(ramp(8), ramp(8), 1.0, output_dims=4)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_outputs": 0}, "num_outputs"),
        ({"num_outputs": 9}, "num_outputs"),
        ({"in_out_argnames": "z"}, "no parameter 'z'"),
        ({"in_out_argnames": "a", "num_outputs": 2}, "is not an array"),
        ({"num_outputs": 2}, "annotated"),
    ],
)
def test_parameters_are_checked(options, message):
    with pytest.raises(dk.LaunchError, match=message):
        dk.jax_kernel(k.wave, **options)


def test_unknown_vmap_method():
    with pytest.raises(ValueError, match="vmap_method"):
        dk.jax_kernel(k.wave, vmap_method="legacy_vectorized")


def test_debug_mode_reports_an_xla_error():
    @dk.kernel(mode="debug")
    def outside(x: dk.array2d(dtype=float), out: dk.array2d(dtype=float)):
        i, j = dk.tid()
        out[i, j] = x[i, j + 1]

    f = jax.jit(dk.jax_kernel(outside))
    with pytest.raises(Exception, match=r"thread \(0, 4\): index \(0, 5\) is out of bounds for array 'x' with shape"):
        jax.block_until_ready(f(jnp.zeros((1, 5))))
    # The executable goes on working.
    assert jax.jit(dk.jax_kernel(k.smooth))(ramp(4))[0].shape == (4,)


def test_debug_mode_finds_two_writers():
    @dk.kernel(mode="debug")
    def crowd(x: dk.array(dtype=float), out: dk.array(dtype=float)):
        i = dk.tid()
        out[i // 2] = x[i]

    with pytest.raises(Exception, match="has stored to the same element, index 0 of array 'out'"):
        jax.block_until_ready(dk.jax_kernel(crowd)(ramp(2)))


def launches(function, *args):
    """Return the dims of the launches of a compiled function, and whether the handler loops over a batch."""
    text = jax.jit(function).lower(*args).as_text()
    words = [part.partition(">")[0].rstrip("]").split(", ") for part in text.split("call = dense<[")[1:]]
    return [(tuple(map(int, w[4:])), int(w[3])) for w in words]


def test_a_batch_is_one_launch():
    xs = ramp(60).reshape(5, 12)
    for f in (lambda x: smooth(x)[0], jax.grad(lambda x: smooth(x)[0].sum())):
        assert set(launches(f, xs[0])) == {((12, 1, 1, 1), 0)}
    assert launches(jax.vmap(lambda x: smooth(x)[0]), xs) == [((5, 12, 1, 1), 0)]
    nested = jax.vmap(jax.vmap(lambda x, y: wave(x, y, 2.0)[0], (0, None)), (None, 0))
    assert launches(nested, xs, xs[:3]) == [((15, 12, 1, 1), 0)]
    along = jax.vmap(lambda x: jax.jvp(lambda x: wave(x, x, 2.0)[0], (x,), (x,))[1])
    assert launches(along, xs) == [((5, 12, 1, 1), 0)]
    pulled = jax.vmap(jax.grad(lambda x, y: (wave(x, y, 2.0)[0] ** 2).sum()), (0, None))
    assert launches(pulled, xs, xs[0]) == [((5, 12, 1, 1), 0)] * 2
    theirs = jax.vmap(jax.grad(lambda x, y: (wave_in_jax(x, y, 2.0) ** 2).sum()), (0, None))
    close(pulled(xs, xs[0]), theirs(xs, xs[0]))


def test_examples_that_add_up_are_launched_by_themselves():
    xs = ramp(60).reshape(5, 12)
    assert launches(jax.vmap(lambda x: energy(x)[0]), xs) == [((12, 1, 1, 1), 1)]
    few = xs[:, :3]
    assert launches(jax.vmap(lambda x: energy(x)[0]), few) == [((5, 3, 1, 1), 0)]
    close(jax.vmap(lambda x: energy(x)[0])(few), 0.5 * (few * few).sum(1, keepdims=True))


@dk.kernel
def four_axes(x: dk.array(dtype=float, ndim=4), w: float, out: dk.array(dtype=float, ndim=4)):
    i, j, k, m = dk.tid()
    out[i, j, k, m] = dk.sin(x[i, j, k, m]) * w + x[0, 0, 0, m] * float(x.shape[0])


def test_a_batch_of_launches_with_four_axes():
    f = dk.jax_kernel(four_axes)
    xs, w = ramp(3 * 24).reshape(3, 2, 3, 2, 2), ramp(3)

    def in_jax(x, w):
        return jnp.sin(x) * w + x[0, 0, 0] * x.shape[0]

    close(jax.vmap(lambda x, w: f(x, w)[0])(xs, w), jax.vmap(in_jax)(xs, w))
    assert launches(jax.vmap(lambda x, w: f(x, w)[0]), xs, w) == [((6, 3, 2, 2), 0)]
    for axes in ((0, 0), (0, None), (None, 0)):
        args = [v if axis == 0 else v[0] for v, axis in zip((xs, w), axes, strict=True)]
        ours = jax.vmap(jax.grad(lambda x, w: (f(x, w)[0] ** 2).sum(), (0, 1)), axes)(*args)
        close(ours, jax.vmap(jax.grad(lambda x, w: (in_jax(x, w) ** 2).sum(), (0, 1)), axes)(*args), 1e-4)


@dk.kernel
def columns(a: dk.array(dtype=float, ndim=2), b: dk.array(dtype=float, ndim=2)):
    i = dk.tid()
    for row in range(a.shape[0]):
        b[row, i] = a[row, i] * a[row, i]


def test_an_output_with_other_axes_than_the_launch_is_like_the_first_array():
    f = dk.jax_kernel(columns, launch_dims=lambda a: a.shape[1])
    x = jnp.arange(6, dtype=jnp.float32).reshape(2, 3)
    np.testing.assert_array_equal(f(x)[0], x * x)
    np.testing.assert_array_equal(jax.grad(lambda x: f(x)[0].sum())(x), 2 * x)
    both = jnp.stack([x, 3 * x])
    np.testing.assert_array_equal(jax.vmap(lambda x: f(x)[0])(both), both * both)
    with pytest.raises(dk.LaunchError, match="the output 'b' has 2 axes, its shape would be"):
        dk.jax_kernel(columns)(x, output_dims=3)
