"""Functions that launch several kernels, as JAX functions, against the same in JAX."""

from __future__ import annotations

import jax_kernels as k
import numpy as np
import pytest
from conftest import require

require("jax")

import jax
import jax.numpy as jnp

import diffkern as dk

Floats = dk.array(dtype=float)
TABLE = dk.array(np.linspace(1.0, 2.0, 50), dtype=float)


def chain(x: Floats, a: float, out: Floats, total: Floats):
    middle = dk.zeros(x.shape, float)
    dk.launch(k.smooth, x.shape, inputs=[x], outputs=[middle])
    dk.launch(k.wave, x.shape, inputs=[middle, x, a], outputs=[out])
    dk.launch(k.energy, x.shape, inputs=[out], outputs=[total])


def smooth_in_jax(x):
    n = x.shape[0]
    return (x[jnp.maximum(jnp.arange(n) - 1, 0)] * x + x[jnp.minimum(jnp.arange(n) + 1, n - 1)]) / n


def chain_in_jax(x, a):
    out = jnp.sin(a * smooth_in_jax(x)) * x
    return out, 0.5 * (out * out).sum(keepdims=True)


def both(f):
    return lambda x, a: f(x, a)[0].sum() + f(x, a)[1][0]


def ramp(n, low=-1.0, high=2.0):
    return jnp.linspace(low, high, n, dtype=jnp.float32)


def close(a, b, tolerance=2e-5):
    for p, q in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        np.testing.assert_allclose(np.asarray(p), np.asarray(q), tolerance, tolerance)


chained = dk.jax_callable(chain, num_outputs=2, output_dims={"total": 1})


@pytest.mark.parametrize("n", [1, 50, 200_000])
def test_values_and_gradients(n):
    x = ramp(n)
    close(chained(x, 1.5), chain_in_jax(x, 1.5), 1e-4)
    ours = jax.jit(jax.value_and_grad(both(chained), argnums=(0, 1)))(x, 1.5)
    close(ours, jax.value_and_grad(both(chain_in_jax), argnums=(0, 1))(x, 1.5), 1e-3)


def test_one_custom_call_for_all_launches():
    text = jax.jit(chained).lower(ramp(9), 1.0).as_text()
    assert text.count("custom_call @") == 1


def test_vmap_and_scan():
    xs = jnp.stack([ramp(20), 2 * ramp(20), ramp(20, 0, 1)])
    close(jax.vmap(lambda x: chained(x, 2.0))(xs), jax.vmap(lambda x: chain_in_jax(x, 2.0))(xs))
    ours = jax.vmap(jax.grad(both(chained)), (0, None))(xs, 2.0)
    close(ours, jax.vmap(jax.grad(both(chain_in_jax)), (0, None))(xs, 2.0))

    def run(f):
        return lambda x: jax.lax.scan(lambda x, _: (f(x, 2.0)[0], None), x, None, length=3)[0].sum()

    close(jax.grad(run(chained))(ramp(20)), jax.grad(run(chain_in_jax))(ramp(20)))


def test_another_number_traces_nothing_again():
    f = dk.jax_callable(chain, num_outputs=2, output_dims={"total": 1})
    x = ramp(30)
    for a in (0.5, 1.5, -3.0):
        close(f(x, a), chain_in_jax(x, a))
    (compiled,) = f._compiled.values()
    assert compiled._cache_size() == 1


def test_in_out_copies_fills_and_constants():
    def work(y: Floats, trace: Floats, kept: Floats):
        dk.copy(kept, y)
        dk.launch(k.decay, y.shape, inputs=[y, 0.5], outputs=[trace])
        shift = dk.full(y.shape, 2.0, dtype=float)
        dk.launch(k.wave, y.shape, inputs=[y, shift, 1.0], outputs=[kept])
        dk.launch(k.wave, y.shape, inputs=[kept, TABLE, 1.0], outputs=[y])

    def in_jax(y):
        new = 0.5 * y * y
        kept = 2.0 * jnp.sin(new)
        return jnp.sin(kept) * jnp.linspace(1.0, 2.0, 50), y + new, kept

    f = dk.jax_callable(work, num_outputs=3, in_out_argnames="y")
    y = ramp(50)
    close(f(y), in_jax(y))
    close(y, ramp(50))
    loss = lambda f: lambda y: sum((i + 1) * (v**2).sum() for i, v in enumerate(f(y)))  # noqa: E731
    close(jax.grad(loss(f))(y), jax.grad(loss(in_jax))(y), 1e-4)


def test_parts_of_arrays():
    def halves(x: Floats, out: Floats):
        n = x.shape[0] // 2
        dk.launch(k.smooth, n, inputs=[x[:n]], outputs=[out[n:]])
        dk.launch(k.smooth, n, inputs=[x[::2]], outputs=[out[:n]])

    f = dk.jax_callable(halves)
    x = ramp(40)
    close(f(x)[0], jnp.concatenate([smooth_in_jax(x[::2]), smooth_in_jax(x[:20])]))
    with pytest.raises(dk.AutodiffError, match="whole arrays"):
        jax.grad(lambda x: f(x)[0].sum())(x)


def test_one_array_in_two_places_of_a_launch():
    @dk.kernel
    def squared_by_itself(a: Floats, b: Floats):
        i = dk.tid()
        b[i] = 2.0 * b[i]
        b[i] = b[i] * a[i]

    def in_place(x: Floats, out: Floats):
        dk.copy(out, x)
        dk.launch(squared_by_itself, x.shape, inputs=[out], outputs=[out])

    def apart(x: Floats, out: Floats):
        dk.copy(out, x)
        dk.launch(squared_by_itself, x.shape, inputs=[dk.clone(out)], outputs=[out])

    x = ramp(5)
    close(dk.jax_callable(in_place)(x)[0], 4 * x * x)
    with pytest.raises(dk.AutodiffError, match=r"one array as 'a' and 'b', and it is written to.*\n.*dk.clone"):
        jax.grad(lambda x: dk.jax_callable(in_place)(x)[0].sum())(x)
    close(jax.grad(lambda x: dk.jax_callable(apart)(x)[0].sum())(x), 4 * x)


def test_what_is_added_by_one_name_is_read_by_the_other():
    @dk.kernel
    def added_and_read(a: Floats, b: Floats, y: Floats):
        if dk.tid() == 0:
            a[2] += 1.0
            y[0] = b[2]

    def by_two_names(x: Floats, out: Floats, y: Floats):
        dk.copy(out, x)
        dk.launch(added_and_read, 4, inputs=[out, out], outputs=[y])

    f = dk.jax_callable(by_two_names, num_outputs=2, output_dims={"out": 3, "y": 1})
    close(f(ramp(3))[1], ramp(3)[2:] + 1.0)
    close(jax.vmap(f)(jnp.stack([ramp(3), 2.0 * ramp(3)]))[1][:, 0], jnp.array([1.0, 2.0]) * ramp(3)[2] + 1.0)


def test_dims_of_vectors_with_their_components_or_without():
    def work(x: dk.array(dtype=dk.vec2), out: dk.array(dtype=dk.vec2)):
        dk.launch(k.twice, x.shape[0], inputs=[x], outputs=[out])

    f = dk.jax_callable(work)
    x = jnp.arange(10.0).reshape(5, 2)
    for dims in (5, (5, 2), {"out": (5, 2)}):
        close(f(x, output_dims=dims)[0], 2.0 * x)
    with pytest.raises(dk.LaunchError, match=r"'out' has 1 axes, its shape would be \(5, 3\)"):
        f(x, output_dims=(5, 3))


def test_outputs_sized_from_the_arguments():
    f = dk.jax_callable(chain, num_outputs=2, output_dims={"total": lambda x, a: 1, "out": lambda x, a: x.shape})
    for n in (5, 7):
        close(jax.jit(f)(ramp(n), 0.5), chain_in_jax(ramp(n), 0.5))


def test_vectors():
    def work(x: dk.array(dtype=dk.vec3), edges: dk.array2d(dtype=int), out: Floats):
        dk.launch(k.stretch, edges.shape[0], inputs=[x, edges, dk.vec3(0.5, 0.0, 1.0)], outputs=[out])

    f = dk.jax_callable(work, output_dims=3)
    x = jnp.sin(jnp.arange(15.0)).reshape(5, 3)
    edges = jnp.array([[0, 1], [2, 4], [3, 0]], jnp.int32)
    shift = jnp.array([0.5, 0.0, 1.0])

    def in_jax(x):
        return jnp.linalg.norm(x[edges[:, 0]] - x[edges[:, 1]] + shift, axis=1)

    close(f(x, edges)[0], in_jax(x))
    close(jax.grad(lambda x: f(x, edges)[0].sum())(x), jax.grad(lambda x: in_jax(x).sum())(x))


@dk.kernel
def turn(p: dk.array(dtype=dk.vec3), m: dk.mat33, v: dk.vec3, a: float, out: dk.array(dtype=dk.vec3)):
    i = dk.tid()
    out[i] = dk.cross(m * p[i], v) * a


def turn_twice(p: dk.array(dtype=dk.vec3), m: dk.mat33, v: dk.vec3, a: float, out: dk.array(dtype=dk.vec3)):
    middle = dk.zeros(p.shape, dtype=dk.vec3)
    dk.launch(turn, p.shape, inputs=[p, m, v, a], outputs=[middle])
    dk.launch(turn, p.shape, inputs=[middle, m, v, 2.0], outputs=[out])


def test_vectors_and_matrices_by_value():
    def in_jax(p, m, v, a):
        return jnp.cross(jnp.cross(p @ m.T, v) * a @ m.T, v) * 2.0

    f = dk.jax_callable(turn_twice)
    values = np.linspace(-1.0, 1.5, 24, dtype=np.float32)
    given = values[:12].reshape(4, 3), values[12:21].reshape(3, 3), values[21:], np.float32(0.7)
    close(f(*given)[0], in_jax(*given))
    ours = jax.grad(lambda *x: (f(*x)[0] ** 2).sum(), argnums=(0, 1, 2, 3))(*given)
    close(ours, jax.grad(lambda *x: (in_jax(*x) ** 2).sum(), argnums=(0, 1, 2, 3))(*given))


def computes(x: Floats, a: float, out: Floats):
    dk.launch(k.wave, x.shape, inputs=[x, x, 2.0 * a], outputs=[out])


def chooses(x: Floats, n: int, out: Floats):
    dk.launch(k.smooth, n, inputs=[x], outputs=[out])


def writes_to_an_input(x: Floats, out: Floats):
    dk.launch(k.square, x.shape, inputs=[x])
    dk.launch(k.smooth, x.shape, inputs=[x], outputs=[out])


def fills_an_input(x: Floats, out: Floats):
    x.zero_()
    dk.launch(k.smooth, x.shape, inputs=[x], outputs=[out])


def writes_outside(x: Floats, out: Floats):
    dk.launch(k.square, 50, inputs=[TABLE])
    dk.launch(k.smooth, x.shape, inputs=[x], outputs=[out])


smoothed = dk.custom_operation(lambda x: x + x, vjp=lambda args, results, cotangents: cotangents)


def has_a_derivative_of_its_own(x: Floats, out: Floats):
    dk.copy(out, smoothed(x))


def takes_a_component(x: Floats, v: dk.vec3, out: Floats):
    dk.launch(k.wave, x.shape, inputs=[x, x, v[1]], outputs=[out])


@pytest.mark.parametrize(
    ("function", "more", "message"),
    [
        (computes, (1.0,), "computes with a number"),
        (takes_a_component, (np.ones(3, np.float32),), "computes with a number"),
        (chooses, (3,), "depends on a number"),
        (writes_outside, (), "not among its arguments"),
        (writes_to_an_input, (), "writes to 'x', which is passed and not returned"),
        (fills_an_input, (), "writes to 'x', which is passed and not returned"),
        (has_a_derivative_of_its_own, (), "cannot have an operation with a derivative of its own"),
    ],
)
def test_what_cannot_be_recorded_is_refused(function, more, message):
    with pytest.raises(dk.LaunchError, match=message):
        dk.jax_callable(function)(ramp(50), *more)


def test_inside_a_tape():
    with dk.Tape(), pytest.raises(dk.LaunchError, match="outside"):
        dk.jax_callable(chain, num_outputs=2, output_dims={"total": 1})(ramp(7), 1.0)


def test_symbolic_shapes_are_refused():
    from jax import export

    (n,) = export.symbolic_shape("n")
    f = jax.jit(lambda x: chained(x, 1.0))
    with pytest.raises(dk.LaunchError, match="symbolic"):
        export.export(f)(jax.ShapeDtypeStruct((n,), jnp.float32))


def test_a_kernel_is_no_function():
    with pytest.raises(TypeError, match="Python function"):
        dk.jax_callable(k.wave)


def test_without_gradient():
    f = dk.jax_callable(chain, num_outputs=2, output_dims={"total": 1}, enable_backward=False)
    x = ramp(9)
    close(f(x, 1.0), chain_in_jax(x, 1.0))
    with pytest.raises(ValueError, match="cannot be differentiated"):
        jax.grad(both(f))(x, 1.0)


@dk.kernel
def scaled(x: dk.array(dtype=float), a: float, out: dk.array(dtype=float)):
    i = dk.tid()
    out[i] = x[i] * a + float(x.shape[0])


def of_parts(x: dk.array(dtype=float), a: float, out: dk.array(dtype=float)):
    n = x.shape[0]
    middle = dk.zeros(n, float)
    dk.launch(scaled, n, inputs=[x, a], outputs=[middle])
    dk.launch(scaled, n // 2, inputs=[middle[::2], 3.0], outputs=[out[n // 2 :]])
    dk.launch(scaled, n // 2, inputs=[middle[: n // 2], 2.0], outputs=[out[: n // 2]])


def test_batches_of_parts_of_arrays():
    f = dk.jax_callable(of_parts)
    xs, a = jnp.asarray(np.random.default_rng(4).random((3, 8)), jnp.float32), jnp.arange(3.0)
    middle = np.asarray(xs) * np.asarray(a)[:, None] + 8.0
    expected = np.concatenate([middle[:, :4] * 2.0 + 4.0, middle[:, ::2] * 3.0 + 4.0], axis=1)
    np.testing.assert_allclose(jax.vmap(lambda x, a: f(x, a)[0])(xs, a), expected, rtol=1e-5)
