"""Random numbers and noise: the generator bit for bit, what is drawn with it, and derivatives."""

import math

import numpy as np
import pytest

import diffkern as dk
import diffkern.warp as wp
from diffkern.testing import gradcheck

N = 2000


# -- the generator, again in NumPy -------------------------------------------------------------------------------------


def advanced(s):
    mask = np.uint64(0xFFFFFFFF)
    b = (np.asarray(s, np.uint64) * np.uint64(747796405) + np.uint64(2891336453)) & mask
    c = (((b >> ((b >> np.uint64(28)) + np.uint64(4))) ^ b) * np.uint64(277803737)) & mask
    return (c >> np.uint64(22)) ^ c


class Generator:
    """The states of N threads with one seed."""

    def __init__(self, seed):
        self.state = advanced((seed + advanced(np.arange(N, dtype=np.uint64))) & np.uint64(0xFFFFFFFF))

    def integers(self):
        self.state = advanced(self.state)
        return self.state

    def unit(self):
        return (self.integers() >> np.uint64(8)).astype(np.float64) / 2.0**24


def sphere(cosine, part):
    angle, sine = 2.0 * np.pi * part, np.sqrt(1.0 - cosine**2)
    return np.stack([np.cos(angle) * sine, np.sin(angle) * sine, cosine], 1)


def ring(part):
    return np.stack([np.cos(2.0 * np.pi * part), np.sin(2.0 * np.pi * part)], 1)


def triangle(u, v):
    return np.stack([1.0 - np.sqrt(u), v * np.sqrt(u)], 1)


def normal(u, v):
    return np.sqrt(-2.0 * np.log(u + 5.96e-8)) * np.cos(2.0 * np.pi * v)


SAMPLES = {
    "randf": (1, lambda u: u),
    "randn": (2, normal),
    "sample_triangle": (2, triangle),
    "sample_unit_ring": (1, ring),
    "sample_unit_disk": (2, lambda u, v: np.sqrt(u)[:, None] * ring(v)),
    "sample_unit_sphere_surface": (2, lambda u, v: sphere(1.0 - 2.0 * u, v)),
    "sample_unit_sphere": (3, lambda u, v, w: np.cbrt(w)[:, None] * sphere(1.0 - 2.0 * u, v)),
    "sample_unit_hemisphere_surface": (2, lambda u, v: sphere(1.0 - u, v)),
    "sample_unit_hemisphere": (3, lambda u, v, w: np.cbrt(w)[:, None] * sphere(1.0 - u, v)),
    "sample_unit_square": (2, lambda u, v: np.stack([u, v], 1) - 0.5),
    "sample_unit_cube": (3, lambda u, v, w: np.stack([u, v, w], 1) - 0.5),
}


def drawing(function, dtype):
    @dk.kernel
    def kernel(y: dk.array(dtype=dtype), states: dk.array(dtype=dk.uint32)):
        i = dk.tid()
        state = dk.rand_init(42, i)
        y[i] = function(state)
        states[i] = state

    return kernel


@pytest.mark.parametrize("name", SAMPLES)
def test_samples(name):
    draws, formula = SAMPLES[name]
    g = Generator(42)
    expected = formula(*(g.unit() for _ in range(draws)))
    dtype = dk.float32 if expected.ndim == 1 else {2: dk.vec2, 3: dk.vec3}[expected.shape[1]]
    y, states = dk.zeros(N, dtype=dtype), dk.zeros(N, dtype=dk.uint32)
    dk.launch(drawing(getattr(dk, name), dtype), N, [y, states])
    assert (states.numpy() == g.state).all()
    np.testing.assert_allclose(y.numpy(), expected, atol=0.0 if name == "randf" else 1e-6)


@dk.kernel
def integers(y: dk.array(dtype=dk.int64, ndim=2)):
    i = dk.tid()
    state = dk.rand_init(7, i)
    y[i, 0] = dk.int64(dk.randi(state))
    y[i, 1] = dk.int64(dk.randi(state, -5, 20))
    y[i, 2] = dk.int64(dk.randu(state))
    y[i, 3] = dk.int64(dk.randu(state, 3, 4000000000))


def test_integers():
    g, y = Generator(7), dk.zeros((N, 4), dtype=dk.int64)
    dk.launch(integers, N, [y])
    a, b, c, d = (g.integers() for _ in range(4))
    expected = [a.astype(np.uint32).astype(np.int32), (b % np.uint64(25)).astype(np.int64) - 5]
    expected += [c, d % np.uint64(3999999997) + np.uint64(3)]
    assert (y.numpy() == np.stack([e.astype(np.int64) for e in expected], 1)).all()


def test_on_the_host_the_state_stays():
    s = dk.rand_init(42)
    assert (s, dk.rand_init(42, 7)) == (1223963391, 3115480925)
    assert (dk.randi(s), dk.randi(s, 0, 10), dk.randu(s)) == (-1509658557, 9, 2785308739)
    assert dk.randf(s) == pytest.approx(0.6485052, abs=1e-7)
    assert dk.randf(s, -1.0, 1.0) == pytest.approx(0.2970104, abs=1e-7)
    assert dk.randn(s) == pytest.approx(0.8478933, abs=1e-6)
    assert np.array(dk.sample_triangle(s)) == pytest.approx([0.1947018, 0.7508289], abs=1e-7)
    assert dk.poisson(s, 0.0) == 0


@dk.kernel
def counts(lam: float, y: dk.array(dtype=dk.uint32), states: dk.array(dtype=dk.uint32)):
    i = dk.tid()
    state = dk.rand_init(42, i)
    y[i] = dk.poisson(state, lam)
    states[i] = state


@pytest.mark.parametrize("lam", [0.0, 0.5, 9.0, 10.0, 40.0, 1000.0])
def test_poisson(lam):
    y, states = dk.zeros(20 * N, dtype=dk.uint32), dk.zeros(20 * N, dtype=dk.uint32)
    dk.launch(counts, 20 * N, [lam, y, states])
    found = y.numpy().astype(float)
    assert abs(found.mean() - lam) <= 5.0 * math.sqrt(lam / len(found))
    assert found.var() == pytest.approx(lam, rel=0.05)
    if lam == 0.0:
        assert (states.numpy()[:N] == Generator(42).state).all()
    elif lam < 10.0:
        g = Generator(42)
        product, expected = g.unit(), np.zeros(N)
        going = product > np.exp(-lam)
        while going.any():
            expected += going
            product = np.where(going, product * g.unit(), product)
            going = product > np.exp(-lam)
        assert (found[:N] == expected).mean() > 0.999  # float32 or float64 at the limit


@dk.kernel
def indices(cdf: dk.array(dtype=float), y: dk.array(dtype=int)):
    i = dk.tid()
    state = dk.rand_init(42, i)
    y[i] = dk.sample_cdf(state, cdf)


def test_sample_cdf():
    cdf = np.array([0.1, 0.1, 0.5, 0.9, 1.0], np.float32)
    y = dk.zeros(N, dtype=int)
    dk.launch(indices, N, [dk.array(cdf), y])
    assert (y.numpy() == np.searchsorted(cdf, Generator(42).unit())).all()


# -- noise -------------------------------------------------------------------------------------------------------------

NOISE = [
    (1.5, -0.1452278),
    ((1.5, 2.5), 0.1801271),
    ((1.5, 2.5, 0.25), -0.0201986),
    ((1.5, 2.5, 0.25, 0.75), 0.1694932),
]


def point(x):
    return x if isinstance(x, float) else {2: dk.vec2, 3: dk.vec3, 4: dk.vec4}[len(x)](*x)


@pytest.mark.parametrize(("x", "expected"), NOISE)
def test_noise(x, expected):
    assert dk.noise(dk.rand_init(42), point(x)) == pytest.approx(expected, abs=2e-7)


CURL = [
    ((1.5, 2.5), (), (-0.6299541, 0.3549333)),
    ((1.5, 2.5), (3, 1.7, 0.6), (-0.8911552, 1.2014040)),
    ((1.5, 2.5, 0.25), (), (1.2453740, -0.6967768, -0.0606736)),
    ((1.5, 2.5, 0.25), (3, 1.7, 0.6), (0.8533134, -0.9148880, 0.1917440)),
    ((1.5, 2.5, 0.25, 0.75), (2,), (-0.0255921, -1.0534996, 1.0652227)),
]
"""Warp's numbers."""


@pytest.mark.parametrize(("x", "octaves", "expected"), CURL)
def test_curlnoise(x, octaves, expected):
    found = np.array(dk.curlnoise(dk.rand_init(42), point(x), *octaves))
    assert found == pytest.approx(expected, abs=2e-6)


@dk.kernel
def all_of_them(x: dk.array(dtype=dk.vec4), y: dk.array(dtype=float, ndim=2)):
    i = dk.tid()
    p = x[i]
    state = dk.rand_init(42)
    y[i, 0] = dk.noise(state, p[0])
    y[i, 1] = dk.noise(state, dk.vec2(p[0], p[1]))
    y[i, 2] = dk.noise(state, dk.vec3(p[0], p[1], p[2]))
    y[i, 3] = dk.noise(state, p)
    y[i, 4] = dk.pnoise(state, p[0], 3)
    y[i, 5] = dk.pnoise(state, dk.vec2(p[0], p[1]), 3, 5)
    y[i, 6] = dk.pnoise(state, dk.vec3(p[0], p[1], p[2]), 3, 5, 7)
    y[i, 7] = dk.pnoise(state, p, 3, 5, 7, 11)


def test_periods():
    """Equal one period further, on the negative side too; without a period as far as the noise is not periodic."""
    rng = np.random.default_rng(1)
    x = rng.uniform(-20.0, 20.0, (200, 4)).round(3)
    shifted = x + np.array([3, 5, 7, 11]) * rng.integers(-3, 4, (200, 4))
    y, z = dk.zeros((200, 8)), dk.zeros((200, 8))
    dk.launch(all_of_them, 200, [dk.array(x.astype(np.float32), dtype=dk.vec4), y])
    dk.launch(all_of_them, 200, [dk.array(shifted.astype(np.float32), dtype=dk.vec4), z])
    np.testing.assert_allclose(y.numpy()[:, 4:], z.numpy()[:, 4:], atol=1e-4)
    assert abs(y.numpy()[:, :4] - z.numpy()[:, :4]).max() > 0.1


# -- derivatives -------------------------------------------------------------------------------------------------------


def of_points(dtype, value):
    @dk.kernel
    def kernel(x: dk.array(dtype=dtype), y: dk.array(dtype=dk.float64)):
        i = dk.tid()
        y[i] = value(x[i])

    return kernel


@dk.func
def noise_of(p):
    return dk.noise(dk.rand_init(3), p)


@dk.func
def periodic(p):
    return dk.pnoise(dk.rand_init(3), p, 2, 3)


@dk.func
def curl(p):
    return dk.dot(dk.curlnoise(dk.rand_init(3), p, 2), dk.vec3d(0.3, -0.7, 1.1))


@dk.func
def curl2(p):
    return dk.dot(dk.curlnoise(dk.rand_init(3), p, 2, lacunarity=1.7), dk.vec2d(0.3, -0.7))


@pytest.mark.parametrize(
    ("axes", "value"),
    [(1, noise_of), (2, noise_of), (3, noise_of), (4, noise_of), (2, periodic), (2, curl2), (3, curl)],
    ids=lambda v: getattr(v, "name", v),
)
def test_derivatives_of_noise(axes, value):
    dtype = {1: dk.float64, 2: dk.vec2d, 3: dk.vec3d, 4: dk.vec4d}[axes]
    x = np.random.default_rng(axes).uniform(-4.0, 4.0, (5, axes))
    x = dk.array(x[:, 0] if axes == 1 else x, dtype=dtype, requires_grad=True)
    gradcheck(of_points(dtype, value), 5, [x], [dk.zeros(5, dtype=dk.float64, requires_grad=True)])


@dk.kernel
def sums(low: dk.array(dtype=float), high: dk.array(dtype=float), y: dk.array(dtype=float)):
    i = dk.tid()
    state = dk.rand_init(5, i)
    total = 0.0
    for k in range(4):
        if dk.randf(state) > 0.3:
            total += dk.randf(state, low[i], high[i])
    y[i] = total * total


def test_states_are_replayed_in_the_adjoint():
    low = dk.array([0.5, 1.0, 2.0], dtype=float, requires_grad=True)
    high = dk.array([2.5, 4.0, 3.0], dtype=float, requires_grad=True)
    gradcheck(sums, 3, [low, high], [dk.zeros(3, dtype=float, requires_grad=True)])


def test_the_state_is_a_variable():
    @dk.kernel
    def kernel(states: dk.array(dtype=dk.uint32), y: dk.array(dtype=float)):
        i = dk.tid()
        y[i] = dk.randf(states[i])

    with pytest.raises(dk.KernelTypeError, match="changes its argument state, which must be a variable"):
        dk.launch(kernel, 1, [dk.zeros(1, dtype=dk.uint32), dk.zeros(1)])


def test_a_condition_of_a_loop_draws_at_each_trip():
    @dk.kernel
    def condition(x: dk.array(dtype=float), y: dk.array(dtype=float)):
        i = dk.tid()
        state = dk.rand_init(42, i)
        s = 0.0
        while dk.randf(state) < 0.9:
            s += x[i] * dk.randf(state)
            if s > 3.0:
                continue
            s *= 1.25
        else:
            s += 0.5
        y[i] = s

    @dk.kernel
    def written_out(x: dk.array(dtype=float), y: dk.array(dtype=float)):
        i = dk.tid()
        state = dk.rand_init(42, i)
        s = 0.0
        while True:
            if dk.randf(state) >= 0.9:
                break
            s += x[i] * dk.randf(state)
            if s > 3.0:
                continue
            s *= 1.25
        y[i] = s + 0.5

    found = []
    for kernel in (condition, written_out):
        x, y = dk.full(N, 0.7, requires_grad=True), dk.zeros(N, requires_grad=True)
        with dk.Tape() as tape:
            dk.launch(kernel, N, [x], [y])
        tape.backward(grads={y: np.ones(N, np.float32)})
        found.append((y.numpy(), x.grad.numpy()))
    assert (found[0][0] == found[1][0]).all()
    np.testing.assert_allclose(found[0][1], found[1][1], rtol=1e-6)
    assert len(set(found[0][1])) > N // 2


def test_a_condition_that_draws_beside_break_and_else():
    @dk.kernel
    def kernel(y: dk.array(dtype=float)):
        state = dk.rand_init(42)
        while dk.randf(state) < y[1]:
            if y[0] > 3.0:
                break
            y[0] += 1.0
        else:
            y[0] = -1.0

    for start, bound, wanted in ((0.0, 1.0, 4.0), (10.0, 1.0, 10.0), (0.0, 0.0, -1.0)):
        y = dk.array([start, bound], dtype=float)
        dk.launch(kernel, 1, [y])
        assert y.numpy()[0] == wanted


def test_values_that_nothing_holds_are_states_too():
    @dk.kernel
    def kernel(y: dk.array(dtype=float)):
        i = dk.tid()
        y[i] = dk.randf(dk.rand_init(42, i))

    y = dk.zeros(N)
    dk.launch(kernel, N, [y])
    assert (y.numpy() == Generator(42).unit()).all()


def test_elements_are_copied_in_programs_for_warp():
    @wp.kernel
    def kernel(states: wp.array(dtype=wp.uint32), y: wp.array(dtype=float)):
        i = wp.tid()
        y[i] = wp.randf(states[i])

    states, y = dk.full(3, dk.rand_init(42), dtype=dk.uint32), dk.zeros(3)
    dk.launch(kernel, 3, [states, y])
    assert (states.numpy() == dk.rand_init(42)).all()
    assert y.numpy() == pytest.approx(0.6485052)


def test_for_a_gpu():
    dk.compile(sums, target="sm_90")
    assert "3405138813" not in sums.source(target="cuda")  # the seed's state is the kernel's business


def test_draws_that_depend_on_conditions_in_expressions():
    @dk.kernel
    def by_expressions(x: dk.array(dtype=float), y: dk.array(dtype=float)):
        i = dk.tid()
        state = dk.rand_init(42, i)
        trials = 0.0
        while dk.randf(state) < 0.7 and trials < 20.0:
            trials += 1.0
        a = dk.randf(state) if trials > 1.0 else dk.randf(state) + dk.randf(state)
        b = dk.where(a > 0.5, x[i] * dk.randf(state), 0.0)
        both = trials > 0.0 and dk.randf(state) > 0.5
        y[i] = (a + b + trials + (1.0 if both else 0.0)) * x[i] + dk.randf(state)

    @dk.kernel
    def by_statements(x: dk.array(dtype=float), y: dk.array(dtype=float)):
        i = dk.tid()
        state = dk.rand_init(42, i)
        trials = 0.0
        while True:
            u = dk.randf(state)
            if u >= 0.7 or trials >= 20.0:
                break
            trials += 1.0
        a = dk.randf(state)
        if trials <= 1.0:
            a += dk.randf(state)
        b = 0.0
        if a > 0.5:
            b = x[i] * dk.randf(state)
        one = 0.0
        if trials > 0.0:
            if dk.randf(state) > 0.5:
                one = 1.0
        y[i] = (a + b + trials + one) * x[i] + dk.randf(state)

    found = []
    for kernel in (by_expressions, by_statements):
        x, y = (
            dk.array(np.linspace(-1.0, 2.0, 40, dtype=np.float32), requires_grad=True),
            dk.zeros(40, requires_grad=True),
        )
        with dk.Tape() as tape:
            dk.launch(kernel, 40, [x], [y])
        tape.backward(grads={y: np.ones(40, np.float32)})
        found.append((y.numpy(), x.grad.numpy()))
    np.testing.assert_array_equal(found[0][0], found[1][0])
    np.testing.assert_allclose(found[0][1], found[1][1], rtol=1e-6)
