"""Complex numbers: values against NumPy, gradients against PyTorch and central differences, forms of arguments."""

from __future__ import annotations

import cmath

import numpy as np
import pytest
from conftest import require

import diffkern as dk

N = 24
WIDE = dk.array(dtype=dk.complex128)


def numbers(seed: int, n: int = N) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.normal(size=n) + 1j * rng.normal(size=n)


def arithmetic(z, w):
    return (z * w + 2j * z) / (w - 0.5) - 3.0 / z + w * 2.0 - z / 4.0 + 1.0


def powers(z, w):
    return z**3 - w**-2 + z**0 + z**w + z**0.5


def parts(z, w):
    u = z
    u.imag += w.real
    u.real = 2.0 * w.imag
    return dk.complex(u.real * u.imag, -z.imag) + dk.conj(w) * +z


def absolute(z, w):
    return dk.complex(abs(z) * dk.angle(w), abs(w - z))


def exponential(z, w):
    return dk.exp(z) * dk.log(w) + dk.pow(z, w)


def roots(z, w):
    return dk.sqrt(z) + dk.sqrt(-w * w.real)


def waves(z, w):
    return dk.sin(z) * dk.cos(w)


def chosen(z, w):
    r = z * w if z.real < w.real else 1.0
    for _ in range(3):
        r = r * r * 0.5 + dk.where(w.imag > 0.0, z, 0.5j)
    return r


FUNCTIONS = (arithmetic, powers, parts, absolute, exponential, roots, waves, chosen)
BY_NUMPY = {
    "arithmetic": arithmetic,
    "powers": powers,
    "absolute": lambda z, w: np.abs(z) * np.angle(w) + 1j * np.abs(w - z),
    "exponential": lambda z, w: np.exp(z) * np.log(w) + z**w,
    "roots": lambda z, w: np.sqrt(z) + np.sqrt(-w * w.real),
    "waves": lambda z, w: np.sin(z) * np.cos(w),
    "parts": lambda z, w: 2.0 * w.imag * (z.imag + w.real) - 1j * z.imag + np.conj(w) * z,
}


@dk.kernel
def every(z: WIDE, w: WIDE, out: dk.array2d(dtype=dk.complex128)):
    i = dk.tid()
    for k in range(dk.static(len(FUNCTIONS))):
        out[k, i] = dk.static(GIVEN[k])(z[i], w[i])


GIVEN = [dk.func(f) for f in FUNCTIONS]


def run(z: np.ndarray, w: np.ndarray) -> np.ndarray:
    out = dk.zeros((len(FUNCTIONS), len(z)), dtype=dk.complex128)
    dk.launch(every, len(z), [z, w], [out])
    return out.numpy()


def real_dot(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return a.real * b.real + a.imag * b.imag


def test_values_are_numpys():
    z, w = numbers(1), numbers(2)
    found = dict(zip([f.__name__ for f in FUNCTIONS], run(z, w), strict=True))
    for name, function in BY_NUMPY.items():
        np.testing.assert_allclose(found[name], function(z, w), rtol=1e-12, atol=1e-12, err_msg=name)


def test_gradients_by_central_differences():
    z, w, ct, dz, dw = (numbers(seed) for seed in range(5))
    az, aw = (dk.array(a, requires_grad=True) for a in (z, w))
    h = 1e-6
    slopes = (run(z + h * dz, w + h * dw) - run(z - h * dz, w - h * dw)) / (2 * h)
    for k, function in enumerate(FUNCTIONS):
        out = dk.zeros((len(FUNCTIONS), N), dtype=dk.complex128, requires_grad=True)
        with dk.Tape() as tape:
            dk.launch(every, N, [az, aw], [out])
        seed = np.zeros(out.shape, complex)
        seed[k] = ct
        tape.backward(grads={out: seed})
        by_sweep = real_dot(az.grad.numpy(), dz) + real_dot(aw.grad.numpy(), dw)
        np.testing.assert_allclose(by_sweep, real_dot(ct, slopes[k]), rtol=2e-6, atol=2e-6, err_msg=function.__name__)
        tape.zero()


def test_gradients_are_pytorchs():
    torch = require("torch")

    @dk.kernel
    def both(z: WIDE, w: WIDE, s: dk.complex128, out: WIDE, r: dk.array(dtype=dk.float64)):
        i = dk.tid()
        out[i] = z[i] * s / w[i] + dk.exp(w[i]) * dk.conj(z[i])
        r[i] = abs(z[i]) + dk.sqrt(w[i]).imag * dk.angle(z[i])

    function = dk.torch_function(both, num_outputs=2)
    given = [torch.tensor(numbers(k), requires_grad=True) for k in (1, 2)]
    s = torch.tensor(0.5 - 2j, dtype=torch.complex128, requires_grad=True)
    out, r = function(*given, s)
    z, w = given
    same, equal = z * s / w + torch.exp(w) * torch.conj(z), torch.abs(z) + torch.sqrt(w).imag * torch.angle(z)
    torch.testing.assert_close(out, same)
    torch.testing.assert_close(r, equal)
    found = torch.autograd.grad((out.abs() ** 2).sum() + r.sum(), (*given, s))
    wanted = torch.autograd.grad((same.abs() ** 2).sum() + equal.sum(), (*given, s))
    for a, b in zip(found, wanted, strict=True):
        torch.testing.assert_close(a.resolve_conj(), b.resolve_conj())


def test_jax_has_its_own_convention():
    jax = require("jax")
    jnp = jax.numpy

    @dk.kernel
    def scaled(z: dk.array(dtype=dk.complex64), s: dk.complex64, out: dk.array(dtype=dk.complex64)):
        i = dk.tid()
        out[i] = s * z[i] * z[i] + dk.conj(z[i]) * dk.exp(z[i])

    z = numbers(3).astype(np.complex64)
    ours, theirs = dk.jax_kernel(scaled), lambda z, s: s * z * z + jnp.conj(z) * jnp.exp(z)

    def loss(function):
        return lambda z, s: jnp.sum(jnp.real((1 + 2j) * function(z, s))) + jnp.sum(jnp.abs(function(z, s)) ** 2)

    found = jax.grad(loss(lambda z, s: ours(z, s)[0]), argnums=(0, 1))(z, 0.5 - 2j)
    wanted = jax.grad(loss(theirs), argnums=(0, 1))(z, 0.5 - 2j)
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-4)
    assert dk.from_jax(jnp.asarray(z)).dtype is dk.complex64
    assert dk.to_jax(dk.array(z)).dtype == jnp.complex64


def test_weak_literals_take_the_width_of_what_they_meet():
    @dk.kernel
    def escape(c: WIDE, steps: dk.array(dtype=int), out: WIDE, narrow: dk.array(dtype=dk.complex64)):
        i = dk.tid()
        z = 0j
        k = 0
        while k < 50 and abs(z) < 2.0:
            z = z * z + c[i]
            k += 1
        steps[i] = k
        out[i] = complex(0.1, 0.2) * 1j
        narrow[i] = complex(0.1, 0.2) + 3

    c = np.array([0.3 + 0.5j, -1.0, 2.0, 0.26])
    steps, out, narrow = dk.zeros(4, dtype=int), dk.zeros(4, dtype=complex), dk.zeros(4, dtype=dk.complex64)
    out = dk.zeros(4, dtype=np.complex128)
    dk.launch(escape, 4, [c], [steps, out, narrow])
    wanted = []
    for point in c:
        z, k = 0j, 0
        while k < 50 and abs(z) < 2.0:
            z, k = z * z + point, k + 1
        wanted.append(k)
    assert steps.list() == wanted
    assert out.list() == [complex(0.1, 0.2) * 1j] * 4
    assert narrow.numpy().dtype == np.complex64
    np.testing.assert_allclose(narrow.numpy(), 3.1 + 0.2j, rtol=1e-6)


def test_neither_quotients_nor_abs_overflow():
    @dk.kernel
    def extreme(z: WIDE, w: WIDE, out: WIDE, r: dk.array(dtype=dk.float64)):
        i = dk.tid()
        out[i] = z[i] / w[i]
        r[i] = abs(z[i])

    z = np.array([1e300 + 1e300j, 1e-300 + 2e-300j, 1.0 + 0j, complex("inf"), 1e200j])
    w = np.array([1e300 - 1e300j, 1e-300 - 2e-300j, 0j, 1.0, 1e-200])
    out, r = dk.zeros(5, dtype=dk.complex128), dk.zeros(5, dtype=dk.float64)
    dk.launch(extreme, 5, [z, w], [out, r])
    np.testing.assert_allclose(out.numpy()[:2], [1j, -0.6 + 0.8j], rtol=1e-14)
    assert np.isinf(out.numpy()[2].real)
    np.testing.assert_allclose(r.numpy(), np.abs(z), rtol=1e-14)


def test_abs_and_sqrt_have_derivative_0_at_0():
    @dk.kernel
    def kinks(z: WIDE, r: dk.array(dtype=dk.float64), out: WIDE):
        r[0] = abs(z[0])
        out[0] = dk.sqrt(z[0])

    z = dk.zeros(1, dtype=dk.complex128, requires_grad=True)
    r = dk.zeros(1, dtype=dk.float64, requires_grad=True)
    out = dk.zeros(1, dtype=dk.complex128, requires_grad=True)
    with dk.Tape() as tape:
        dk.launch(kinks, 1, [z], [r, out])
    tape.backward(grads={r: np.ones(1), out: np.ones(1, complex)})
    assert z.grad.list() == [0j]


@dk.struct
class Wave:
    amplitude: dk.complex64
    k: float


def test_structs_updates_shared_and_local_arrays():
    @dk.kernel
    def add(s: Wave, waves: dk.array(dtype=Wave), total: dk.array(dtype=dk.complex64)):
        i = dk.tid()
        shared = dk.shared_array(4, dtype=dk.complex64)
        shared[dk.thread_index()] = s.amplitude
        dk.syncthreads()
        total[0] += shared[dk.thread_index()] * 2j
        dk.atomic_add(total, 1, 1.0 + s.amplitude)
        waves[i].amplitude = s.amplitude * float(i)
        waves[i].amplitude.imag = 7.0

    @dk.kernel
    def keep(grid: dk.array2d(dtype=complex)):
        i = dk.tid()
        mine = dk.zeros(2, dtype=dk.complex64)
        mine[i % 2] = 2.0 + 1j
        if mine[0] + mine[1] == 2.0 + 1j and mine[0] != mine[1]:
            grid[i, 0] = 2.0

    s = Wave(1 + 2j, 0.5)
    waves, total, grid = dk.zeros(4, dtype=Wave), dk.zeros(2, dtype=dk.complex64), dk.zeros((4, 2), dtype=complex)
    dk.launch(add, 4, [s], [waves, total], block_dim=4)
    dk.launch(keep, 4, [], [grid])
    assert total.list() == [4 * (1 + 2j) * 2j, 4 * (2 + 2j)]
    assert waves[2].amplitude == 2 + 7j
    assert type(s.amplitude) is np.complex64
    assert grid.list() == [[2, 0]] * 4


def test_arrays_on_the_host():
    a = dk.array([1j, 2.0], dtype=complex)
    assert (a.dtype, a.dtype is dk.complex64, a.shape, a[0]) == (dk.complex64, True, (2,), 1j)
    a[1] = 3.0
    a += a
    assert a.list() == [2j, 6]
    assert np.asarray(a).dtype == np.complex64
    assert dk.full(2, 1 + 1j, dtype=dk.complex128).list() == [1 + 1j] * 2
    strided = np.arange(8.0).astype(complex).reshape(4, 2)[::2]
    assert dk.array(strided, copy=False).numpy().tolist() == strided.tolist()
    assert dk.array(dk.array(strided), dtype=dk.complex64).list() == strided.tolist()
    assert np.from_dlpack(a).dtype == np.complex64
    whole = dk.zeros((2, 2), dtype=dk.complex64)
    whole[1] = a
    whole.fill_(2j)
    assert whole.list() == [[2j, 2j]] * 2
    assert dk.dtype_to_numpy(dk.complex128) == np.complex128
    assert dk.dtype_from_numpy("complex64") is dk.complex64
    with pytest.raises(TypeError, match=r"complex numbers are not converted to float32; take their \.real or \.imag"):
        dk.array([1j], dtype=float)


def test_built_ins_and_funcs_from_python():
    z = 0.3 - 2j
    for name in ("exp", "log", "sqrt", "sin", "cos"):
        found = getattr(dk, name)(z)
        assert type(found) is complex
        assert cmath.isclose(found, getattr(cmath, name)(z), rel_tol=1e-14)
    assert dk.conj(np.complex64(z)) == np.conj(np.complex64(z))
    assert dk.angle(z) == cmath.phase(z)
    assert dk.func(lambda w: w * w + 1.0)(2j) == -3.0
    assert isinstance(dk.complex64(1, 2), dk.complex64)
    assert dk.complex128(np.float32(1.0)) == 1.0


def refused(function) -> str:
    kernel = dk.kernel(function)
    with pytest.raises(dk.KernelError) as caught:
        dk.launch(kernel, 1, [np.ones(1, complex)])
    return str(caught.value)


def test_what_has_no_meaning_is_refused_with_a_remedy():
    def order(z: WIDE):
        z[0] = 1.0 if z[0] < 1.0 else 0j

    def rounded(z: WIDE):
        z[0] = dk.floor(z[0])

    def indexed(z: WIDE):
        z[0] = z[0][1]

    def attribute(z: WIDE):
        z[0] = z[0].conjugate()

    def narrowed(z: WIDE):
        y = float(z[0])
        z[0] = y

    assert "compare abs(z), z.real or z.imag" in refused(order)
    assert "complex numbers have abs, angle, conj, cos, exp, log, pow, sin, sqrt" in refused(rounded)
    assert "its parts are z.real and z.imag" in refused(indexed)
    assert "write dk.conj(z)" in refused(attribute)
    assert "parts z.real and z.imag" in refused(narrowed)


def test_programs_for_a_gpu():
    program = dk.compile(every, [WIDE, WIDE, dk.array2d(dtype=dk.complex128)], target="sm_90")
    assert "st.global" in program.ptx
