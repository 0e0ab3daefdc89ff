"""Forward mode through atomic minima and maxima: the tangent of the winner, whatever the threads do meanwhile."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import diffkern as dk
import diffkern.warp as wp
from diffkern.errors import AutodiffError
from diffkern.targets.cuda.device_library import HELD_BITS
from diffkern.targets.emit import memory

F64 = dk.float64
f1, i1 = dk.array(dtype=F64), dk.array(dtype=int)
RNG = np.random.default_rng(11)


@pytest.fixture(autouse=True)
def threads() -> Iterator[None]:
    before = dk.config.num_threads
    yield
    dk.config.num_threads = before


def doubles(values: object) -> dk.array:
    return dk.array(np.asarray(values, float), dtype=F64)


@dk.kernel
def least_square(x: f1, k: i1, y: f1):
    i = dk.tid()
    dk.atomic_min(y, k[i], x[i] * x[i])


def bins(x: dk.array, k: dk.array, n: int) -> dk.array:
    y = dk.full(n, 4.0, dtype=F64)
    dk.launch(least_square, x.shape[0], inputs=[x, k, y])
    return y


@pytest.mark.parametrize("n", [1, 7, 5000])
def test_the_winner_has_the_tangent(n: int) -> None:
    """Four workers on many threads; an element of a bin that nobody wins keeps its tangent."""
    dk.config.num_threads = 4
    x, t, k = RNG.normal(size=40_000), RNG.normal(size=40_000), RNG.integers(0, n, 40_000)
    first, t_first = np.full(n, 4.0), RNG.normal(size=n)
    y, t_y = doubles(first), doubles(t_first)
    bound = doubles(x), dk.array(k.astype(np.int32))
    least_square.jvp[40_000](*bound, y, doubles(t), t_y)
    expected, order = t_first.copy(), np.argsort(-x * x)
    winners = np.full(n, -1)
    winners[k[order]] = order
    won = (winners >= 0) & (x[winners] ** 2 < 4.0)
    expected[won] = (2.0 * x * t)[winners[won]]
    np.testing.assert_array_equal(t_y.numpy(), expected)
    np.testing.assert_array_equal(y.numpy()[won], (x * x)[winners[won]])


def test_many_against_one_element() -> None:
    """Numbers that fall and fall, so that every thread has the least one for a while."""
    dk.config.num_threads = 4
    x = np.linspace(1.9, 0.1, 20_000)
    k = dk.zeros(20_000, dtype=int)
    for seed in range(5):
        t = np.random.default_rng(seed).normal(size=20_000)
        _, change = dk.jvp(lambda x: bins(x, k, 1), (doubles(x),), (doubles(t),))
        assert change.numpy()[0] == 2.0 * x[-1] * t[-1]


def test_equal_numbers_have_one_winner_in_both_modes() -> None:
    """What was there before, or the thread that comes first; the other mode takes the same one."""
    x, t = np.array([3.0, -1.0, 1.0, 2.0, -2.0, 2.0]), np.arange(1.0, 7.0)
    k = dk.array(np.array([0, 0, 0, 1, 1, 1], np.int32))
    held = dk.array(x, dtype=F64, requires_grad=True)
    with dk.Tape() as tape:
        y = bins(held, k, 2)
        y.requires_grad = True
    tape.backward(grads={y: np.array([1.0, 10.0])})
    _, change = dk.jvp(lambda x: bins(x, k, 2), (doubles(x),), (doubles(t),))
    np.testing.assert_array_equal(change.numpy(), [-4.0, 0.0])  # 4 was there before
    assert held.grad.numpy() @ t == change.numpy() @ [1.0, 10.0]


def test_second_derivatives() -> None:
    k = dk.array(np.array([0, 0, 1, 1], np.int32))
    x, t = doubles([1.5, -0.5, 0.3, 0.7]), np.array([1.0, 2.0, 3.0, 4.0])

    @dk.kernel
    def cubes(y: f1, s: f1):
        i = dk.tid()
        dk.atomic_add(s, 0, y[i] * y[i] * y[i])

    def loss(x: dk.array) -> dk.array:
        s = dk.zeros(1, dtype=F64)
        dk.launch(cubes, 2, inputs=[bins(x, k, 2), s])
        return s

    wanted = np.array([0.0, 30 * 0.5**4, 30 * 0.3**4, 0.0])  # of x**6
    (product,) = dk.hvp(loss, (x,), (doubles(t),))
    np.testing.assert_allclose(product.numpy(), wanted * t, rtol=1e-13)
    _, product = dk.jvp(dk.grad(loss), (x,), (doubles(t),))
    np.testing.assert_allclose(product.numpy(), wanted * t, rtol=1e-13)
    _, twice = dk.jvp(lambda x: dk.jvp(loss, (x,), (doubles(t),))[1], (x,), (doubles(t),))
    np.testing.assert_allclose(twice.numpy(), [t @ (wanted * t)], rtol=1e-13)


@pytest.mark.parametrize("dtype", [dk.float32, dk.float16, dk.bfloat16])
def test_components_of_narrow_numbers(dtype: type) -> None:
    @dk.kernel
    def extremes(x: dk.array(dtype=float), m, v):
        i = dk.tid()
        s = x[i] * 1.1
        dk.atomic_max(m, i % 3, s)
        dk.atomic_min(v, 0, dk.vec2(s, -s))

    x, t = RNG.permutation(60).astype(np.float32) - 20.0, RNG.normal(size=60).astype(np.float32)
    m, v = dk.full(3, -100.0, dtype=dtype), dk.full(1, 100.0, dtype=dk.types.vector(2, dtype))
    t_m, t_v = dk.zeros(3, dtype=dtype), dk.zeros(1, dtype=dk.types.vector(2, dtype))
    extremes.jvp[60](dk.array(x), m, v, dk.array(t), t_m, t_v)

    def numbers(a: dk.array) -> np.ndarray:
        raw = a.numpy()
        return (raw.astype(np.uint32) << 16).view(np.float32) if dtype is dk.bfloat16 else raw.astype(np.float32)

    s, rtol = 1.1 * t, 1e-2 if dtype is not dk.float32 else 1e-6
    winners = [max(range(k, 60, 3), key=lambda i: x[i]) for k in range(3)]
    np.testing.assert_allclose(numbers(t_m), s[winners], rtol=rtol)
    np.testing.assert_allclose(numbers(t_v)[0], [s[x.argmin()], -s[x.argmax()]], rtol=rtol)


def test_a_number_that_is_none_is_passed_over_in_the_other_dialect() -> None:
    @wp.kernel
    def least(x: wp.array(dtype=wp.float64), y: wp.array(dtype=wp.float64)):
        wp.atomic_min(y, 0, x[wp.tid()])

    y, t_y = doubles([np.nan]), doubles([7.0])
    least.jvp[4](doubles([np.nan, 3.0, np.nan, 2.0]), y, doubles([1.0, 2.0, 3.0, 4.0]), t_y)
    assert (y.numpy()[0], t_y.numpy()[0]) == (2.0, 4.0)


def test_in_shared_memory() -> None:
    @dk.kernel
    def greatest_of_block(x: f1, y: f1):
        i, t = dk.tid(), dk.thread_index()
        h = dk.shared_array(1, dtype=F64)
        if t == 0:
            h[0] = 0.1
        dk.syncthreads()
        dk.atomic_max(h, 0, x[i] * x[i])
        dk.syncthreads()
        if t == 0:
            y[i // 8] = 2.0 * h[0]

    x, t = RNG.normal(size=(4, 8)), RNG.normal(size=(4, 8))
    t_y = dk.zeros(4, dtype=F64)
    arguments = [doubles(x.ravel()), dk.zeros(4, dtype=F64), doubles(t.ravel()), t_y]
    dk.launch(greatest_of_block.jvp, dim=32, inputs=arguments, block_dim=8)
    won = np.arange(4), np.abs(x).argmax(1)
    np.testing.assert_allclose(t_y.numpy(), 4.0 * x[won] * t[won], rtol=1e-14)


def test_what_it_returned_has_no_tangent() -> None:
    @dk.kernel
    def before(x: f1, y: f1, z: f1):
        z[0] = dk.atomic_min(y, 0, x[dk.tid()])

    with pytest.raises(
        AutodiffError, match="the value returned by atomic_min is used where tangents are wanted"
    ) as error:
        before.jvp[1](*(dk.zeros(1, dtype=F64) for _ in range(6)))
    assert error.value.loc.line == before.func.__code__.co_firstlineno + 2


@pytest.mark.parametrize("compiler", ["llvm", "numba"])
def test_for_a_gpu(compiler: str) -> None:
    assert dk.compile(least_square.jvp, target="sm_90", compiler=compiler).cubin


def test_both_compilers_hold_alike() -> None:
    assert {str(t): bits for t, bits in memory.HELD_BITS.items()} == HELD_BITS
