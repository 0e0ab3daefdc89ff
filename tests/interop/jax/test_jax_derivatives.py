"""Kernels under JAX's derivatives of both modes, to second order and beyond, and under what else transforms them."""

from __future__ import annotations

import itertools

import jax_kernels as k
import numpy as np
import pytest
import smooth_kernels as s
from conftest import require

require("jax")

import jax
import jax.ad_checkpoint
import jax.numpy as jnp
from jax.test_util import check_grads

import diffkern as dk


@pytest.fixture(autouse=True)
def _in_float64():
    # JAX before 0.8, the newest for Python 3.10, has it in jax.experimental.
    with (jax.enable_x64 if hasattr(jax, "enable_x64") else jax.experimental.enable_x64)(True):
        yield


def numbers(*shape, low=-1.2, high=1.5):
    """Numbers in no order, none near another one's kink."""
    flat = np.linspace(low, high, int(np.prod(shape)))
    return flat[np.argsort(np.cos(7.0 * np.arange(flat.size)))].reshape(shape)


x, y, table, points = numbers(5), numbers(5, low=0.2), numbers(5, 5), numbers(4, 3)
AT = np.array([3, 0, 0, 4, 1], np.int32)

# For each the function, and what it is differentiated for.
KERNELS = {
    "product": (dk.jax_kernel(s.product), (x, y, 0.7)),
    "iterated": (lambda x: dk.jax_kernel(s.iterated)(x, 4), (x,)),
    "until": (dk.jax_kernel(s.until), (x,)),
    "rows": (dk.jax_kernel(s.rows, launch_dims=5), (table, x)),
    "energy": (dk.jax_kernel(s.energy, output_dims=1), (x,)),
    "scatter": (lambda x: dk.jax_kernel(s.scatter)(x, AT), (x,)),
    "peaks": (lambda x: dk.jax_kernel(s.peaks)(x, AT), (x,)),
    "pairs": (dk.jax_kernel(s.pairs, launch_dims=(4, 4), output_dims=4), (points, 0.3)),
    "neighbours": (dk.jax_kernel(s.neighbours), (x,)),
    "decay": (dk.jax_kernel(s.decay, num_outputs=2, in_out_argnames="y"), (x, 0.7)),
    "bodies": (dk.jax_kernel(s.bodies), (points, y[:4])),
    "turned": (dk.jax_kernel(s.turned), (points, numbers(3, 3), numbers(3))),
    "softmax": (dk.jax_kernel(s.softmax, launch_dims=5, output_dims=(5, 5)), (table,)),
    "squared_tiles": (dk.jax_kernel(s.squared_tiles, launch_dims=1, output_dims=(4, 4)), (table[:4, :4],)),
    "block_products": (dk.jax_kernel(s.block_products), (numbers(8),)),
    "two": (dk.jax_kernel(s.two, num_outputs=2, output_dims={"b": 5}), (table,)),
    "pieces": (dk.jax_kernel(s.pieces), (x,)),
    "recurrence": (dk.jax_kernel(s.recurrence, launch_dims=5, output_dims=(5, 5)), (table,)),
}
USUAL = ("scatter", "decay", "recurrence")


@pytest.mark.parametrize("name", [n if n in USUAL else pytest.param(n, marks=pytest.mark.full) for n in KERNELS])
def test_second_order(name):
    function, args = KERNELS[name]
    check_grads(jax.jit(function), jax.tree.map(jnp.asarray, args), order=2, modes=["fwd", "rev"])


# -- transformations ---------------------------------------------------------------------------------------------------


def in_jax(x, y, a):
    return a * x * x * jnp.sin(y)


def ours(x, y, a):
    return KERNELS["product"][0](x, y, a)[0]


def close(a, b):
    for p, q in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        np.testing.assert_allclose(p, q, 1e-9, 1e-9)


def linearized(f, argnums):
    def run(*args):
        chosen = [args[k] for k in argnums]
        result, change = jax.linearize(lambda *z: f(*z, *args[len(argnums) :]), *chosen)
        return result, change(*chosen)

    return run


def scanned(f):
    return lambda x, y, a: jax.lax.scan(lambda x, _: (f(x, y, a), (x * y).sum()), x, None, length=3)[1].sum()


def batched(f):
    return lambda x, y, a: jax.vmap(jax.vmap(f, (0, None, None)), (None, None, 0))(jnp.stack([x, 2 * x]), y, a * x)


SHAPES = {
    "alone": lambda f: f,
    "jit": jax.jit,
    "scan": scanned,
    "checkpoint": lambda f: jax.checkpoint(scanned(f)),
    "vmap": batched,
}
DERIVATIVES = {
    "linearize": linearized,
    "jacfwd": jax.jacfwd,
    "jacrev": jax.jacrev,
    "hessian": jax.hessian,
    "reverse over reverse": lambda f, argnums: jax.jacrev(jax.jacrev(f, argnums), argnums),
    "reverse over forward": lambda f, argnums: jax.jacrev(jax.jacfwd(f, argnums), argnums),
}


USUAL_PAIRS = (("linearize", "vmap"), ("hessian", "scan"), ("jacrev", "checkpoint"), ("reverse over reverse", "alone"))


@pytest.mark.parametrize(
    ("derivative", "shape"),
    [
        pair if pair in USUAL_PAIRS else pytest.param(*pair, marks=pytest.mark.full)
        for pair in itertools.product(DERIVATIVES, SHAPES)
    ],
)
def test_derivatives_of_what_is_transformed(derivative, shape):
    args = jnp.asarray(x), jnp.asarray(y), jnp.asarray(0.7)
    inside, outside = SHAPES[shape], DERIVATIVES[derivative]
    close(jax.jit(outside(inside(ours), (0, 1)))(*args), outside(inside(in_jax), (0, 1))(*args))


@pytest.mark.parametrize("derivative", [pytest.param("linearize", marks=pytest.mark.full), "hessian"])
def test_batches_of_derivatives(derivative):
    args = jnp.asarray(x), jnp.stack([jnp.asarray(y), jnp.asarray(x)]), jnp.asarray(0.7)
    of, axes = DERIVATIVES[derivative], (None, 0, None)
    close(jax.jit(jax.vmap(of(ours, (0, 1)), axes))(*args), jax.vmap(of(in_jax, (0, 1)), axes)(*args))


def test_third_derivatives():
    def third(f):
        return jax.grad(lambda a: jax.jvp(jax.grad(lambda a: f(x, y, a**3).sum()), (a,), (1.0,))[1])

    close(jax.jit(third(ours))(0.7), third(in_jax)(0.7))


def calls(function, *args):
    """Return what the custom calls of a function run, by the number of their operands."""
    text = jax.jit(function).lower(*args).as_text()
    return sorted(
        line.partition("(")[2].partition(")")[0].count("%") for line in text.splitlines() if "@diffkern" in line
    )


def product(x, y):
    return ours(x, y, jnp.asarray(0.7))


def along(f):
    return lambda x, y: jax.jvp(f, (x, y), (y, x))


KERNEL, WITH_TANGENTS, ADJOINT = 3, 6, 4


@pytest.mark.parametrize(
    ("of", "expected"),
    [
        (along, [WITH_TANGENTS]),
        (lambda f: along(jax.checkpoint(jax.jit(f))), [WITH_TANGENTS]),
        (lambda f: along(lambda x, y: jax.lax.fori_loop(0, 3, lambda _, x: f(x, y), x)), [WITH_TANGENTS]),
        (jax.jacfwd, [WITH_TANGENTS]),
        (lambda f: lambda x, y: along(f)(x, y)[0], [KERNEL]),
        (lambda f: jax.grad(lambda x, y: f(x, y).sum(), (0, 1)), [KERNEL, ADJOINT]),
        (lambda f: jax.grad(lambda x, y: jax.checkpoint(f)(x, y).sum(), (0, 1)), [KERNEL, ADJOINT]),
    ],
)
def test_forward_mode_runs_the_kernel_with_tangents_alone_and_reverse_mode_no_tangents(of, expected):
    assert calls(of(product), jnp.asarray(x), jnp.asarray(y)) == expected


@pytest.mark.parametrize("policy", [None, jax.checkpoint_policies.everything_saveable])
def test_gradients_of_forward_mode_under_checkpoint(policy):
    def of(f):
        inside = jax.checkpoint(along(lambda x, y: f(f(x, y), y)), policy=policy)
        return jax.grad(lambda x, y: sum((z**2).sum() for z in inside(x, y)), (0, 1))

    args = jnp.asarray(x), jnp.asarray(y)
    close(of(product)(*args), of(lambda x, y: in_jax(x, y, 0.7))(*args))


def answering(answer):
    """A policy that gives an answer for kernels, and saves nothing else."""
    return lambda primitive, *_, **__: answer if primitive.name == "diffkern" else jax.ad_checkpoint.Recompute


def test_policies_that_answer_in_words():
    def under(answer):
        inside = jax.checkpoint(lambda x, y: product(jnp.sin(product(x, y)), y), policy=answering(answer))
        return len(calls(jax.grad(lambda x, y: inside(x, y).sum(), (0, 1)), jnp.asarray(x), jnp.asarray(y)))

    assert [under(True), under(False)] == [3, 4]
    assert [under(jax.ad_checkpoint.Saveable), under(jax.ad_checkpoint.Recompute)] == [3, 4]


def test_policies_that_offload_results_by_their_primitive_are_refused():
    policy = answering(jax.ad_checkpoint.Offloadable("device", "pinned_host"))
    inside = jax.checkpoint(lambda x: product(x, x), policy=policy)
    with pytest.raises(NotImplementedError, match=r"launch of product.*, whose results are kept or computed again"):
        jax.grad(lambda x: inside(x).sum())(jnp.asarray(x))


def test_forward_mode_of_what_is_empty():
    empty = jnp.zeros(0)
    assert jax.jacfwd(product)(empty, empty).shape == (0, 0)


# -- functions of several launches -------------------------------------------------------------------------------------


def chain(x: s.Floats, y: s.Floats, a: dk.float64, out: s.Floats, total: s.Floats):
    middle = dk.zeros(x.shape, dk.float64)
    dk.launch(s.neighbours, x.shape, inputs=[x], outputs=[middle])
    dk.launch(s.product, x.shape, inputs=[middle, y, a], outputs=[out])
    dk.launch(s.energy, x.shape, inputs=[out], outputs=[total])


chained = dk.jax_callable(chain, num_outputs=2, output_dims={"total": 1})


def chain_in_jax(x, y, a):
    n = x.shape[0]
    middle = x[jnp.maximum(jnp.arange(n) - 1, 0)] * x * x[jnp.minimum(jnp.arange(n) + 1, n - 1)] / n
    out = in_jax(middle, y, a)
    return out, (out**3).sum(keepdims=True)


def test_functions_of_several_launches():
    args = jnp.asarray(x), jnp.asarray(y), jnp.asarray(0.7)
    product = lambda f: lambda *z: jax.jvp(jax.grad(lambda x: f(x, *z[1:])[1].sum()), (z[0],), (z[1],))  # noqa: E731
    close(jax.jit(product(chained))(*args), jax.jit(product(chain_in_jax))(*args))


@pytest.mark.full
@pytest.mark.parametrize("derivative", ["linearize", "hessian", "reverse over reverse"])
def test_batches_of_functions_of_several_launches(derivative):
    args = jnp.asarray(x), jnp.asarray(y), jnp.asarray(0.7)
    of = DERIVATIVES[derivative]
    batch = jnp.stack([args[0], args[1]])
    close(
        jax.jit(jax.vmap(of(chained, (0, 1)), (0, None, None)))(batch, *args[1:]),
        jax.vmap(of(chain_in_jax, (0, 1)), (0, None, None))(batch, *args[1:]),
    )


# -- blocks of threads -------------------------------------------------------------------------------------------------


def test_threads_that_work_together():
    f = KERNELS["block_products"][0]

    def expected(x):
        return (jnp.sin(x).reshape(-1, 4) * (x**2).reshape(-1, 4).sum(1, keepdims=True)).reshape(-1)

    x = jnp.asarray(numbers(5, 4000))
    close(jax.jit(jax.vmap(lambda x: f(x)[0]))(x), jax.vmap(expected)(x))
    product = lambda f: lambda x: jax.jvp(jax.grad(lambda x: (f(x) ** 2).sum()), (x,), (x * x,))  # noqa: E731
    close(jax.jit(product(lambda x: f(x)[0]))(x[0]), jax.jit(product(expected))(x[0]))
    with pytest.raises(dk.LaunchError, match=r"blocks of 4, and dim=\(7,\) is not whole blocks"):
        f(x[0, :7])


def test_functions_that_launch_threads_that_work_together():
    def doubled(x: s.Floats, out: s.Floats):
        dk.launch(s.block_products, x.shape, inputs=[x], outputs=[out])

    def in_other_blocks(x: s.Floats, out: s.Floats):
        dk.launch(s.block_products, x.shape, inputs=[x], outputs=[out], block_dim=2)

    x = jnp.asarray(numbers(8))
    close(dk.jax_callable(doubled)(x), KERNELS["block_products"][0](x))
    with pytest.raises(dk.LaunchError, match="block_dim=2; calls from JAX have the kernel's own"):
        dk.jax_callable(in_other_blocks)(x)


@pytest.mark.parametrize("order", [1, pytest.param(2, marks=pytest.mark.full)])
def test_a_product_of_a_vector_with_itself_after_a_root(order):
    @dk.kernel
    def rooted(x: dk.array(dtype=dk.vec2d), out: s.Floats):
        i = dk.tid()
        d = x[i] * dk.sqrt(x[i][0])
        out[i] = dk.dot(d, d)

    f = dk.jax_kernel(rooted)
    a, b = 1.3, 0.7
    point, along = (jnp.asarray([v]) for v in ((a, b), (1.0, 0.0)))
    # d . d = a^3 + a b^2
    if order == 1:
        np.testing.assert_allclose(jax.jvp(lambda x: f(x)[0], (point,), (along,))[1], [3 * a**2 + b**2], rtol=1e-14)
        return
    second = jax.hessian(lambda x: f(x)[0].sum())(point)
    np.testing.assert_allclose(np.reshape(second, (2, 2)), [[6 * a, 2 * b], [2 * b, 2 * a]], rtol=1e-12)


# -- what is refused ---------------------------------------------------------------------------------------------------


def test_what_has_no_forward_mode_names_the_line():
    @dk.kernel
    def partial_sums(x: s.Floats, out: s.Floats):
        before = dk.atomic_add(out, 0, x[dk.tid()])
        out[1] = before * before

    f = dk.jax_kernel(partial_sums, output_dims=2)
    with pytest.raises(dk.AutodiffError, match=r"test_jax_derivatives\.py:\d+"):
        jax.jvp(lambda x: f(x)[0], (jnp.asarray(x),), (jnp.asarray(y),))


def test_a_kernel_without_derivatives():
    f = dk.jax_kernel(k.wave64, enable_backward=False)
    with pytest.raises(dk.AutodiffError, match="enable_backward"):
        jax.jvp(lambda x: f(x, 1.0)[0], (jnp.asarray(x),), (jnp.asarray(y),))
