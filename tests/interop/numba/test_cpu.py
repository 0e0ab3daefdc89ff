"""Funcs, their derivatives and threads of kernels in functions that numba.njit compiles."""

from __future__ import annotations

import itertools
import subprocess
import sys
import textwrap

import numba
import numba_funcs as funcs
import numpy as np
import pytest
from numba import njit, prange
from numba.core.errors import NumbaWarning, TypingError
from numba_funcs import CASES
from test_host import differences

import diffkern as dk


def compiled(func, count, **options):
    """The value, the gradient, and both by vjp, of a func of so many arguments."""
    if count == 1:
        return njit(**options)(lambda x: (func(x), func.grad(x), func.vjp(x, 1.0)))
    if count == 2:
        return njit(**options)(lambda x, y: (func(x, y), func.grad(x, y), func.vjp(x, y, 1.0)))
    return njit(**options)(lambda x, y, z: (func(x, y, z), func.grad(x, y, z), func.vjp(x, y, z, 1.0)))


@pytest.mark.parametrize("name", CASES)
def test_gradients_are_central_differences(name):
    case = CASES[name]
    call = compiled(case.func, len(case.points[0]))
    for point in case.points:
        value, gradient, (again, partials) = call(*point)
        assert value == pytest.approx(case.python(*point), rel=1e-12)
        np.testing.assert_allclose(gradient, differences(case.python, point), rtol=2e-6, atol=1e-8)
        assert again == pytest.approx(value, rel=1e-12)
        assert partials == pytest.approx(gradient, rel=1e-12)


@pytest.mark.parametrize("name", CASES)
def test_float32_is_computed_in_float32(name):
    case = CASES[name]
    call = compiled(case.func, len(case.points[0]))
    for point in case.points:
        single = tuple(np.float32(x) if isinstance(x, float) else np.int32(x) for x in point)
        _, gradient, _ = call(*single)
        np.testing.assert_allclose(gradient, case.func.grad(*single), rtol=2e-4, atol=1e-5)
    wanted = numba.float64 if name == "annotated" else numba.float32
    found = call.overloads[call.signatures[-1]].signature.return_type[1]
    assert set(getattr(found, "types", [found])) == {wanted}


@dk.kernel
def relaxed(x: dk.array(dtype=dk.float64), y: dk.array(dtype=dk.float64), n: int):
    i = dk.tid()
    for _ in range(n):
        y[i] = 0.5 * y[i] + x[i]


def test_one_array_for_two_parameters():
    """A launch would notice; here each trip has to add to the element that the next one takes."""

    @njit
    def adjoint(u, n, ct):
        for i in range(u.size):
            relaxed.thread_adjoint(i, u, u, n, ct, ct, None)

    ct = np.ones(3)
    adjoint(np.ones(3), 4, ct)
    np.testing.assert_allclose(ct, 1.5**4, rtol=1e-14)


INTEGERS = (np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64)


@dk.func
def times(x, n, b):
    return x * float(n) if b else x + float(n)


@dk.func
def twice(n):
    return n + n


def test_all_numbers_are_arguments_and_results():
    both = njit(lambda x, n, b: (times.grad(x, n, b), twice(n)))
    for real, kind in zip(itertools.cycle((np.float32, np.float64)), INTEGERS, strict=False):
        assert both(real(2), kind(3), True) == (3.0, 6)
        assert both(real(2), kind(3), False) == (1.0, 6)
    assert njit(lambda n: (twice(n),))(np.int8(100)) == (np.int8(-56),)  # wraps in its own width


def test_vectors_and_matrices_are_tuples():
    p, q = (1.0, 2.0, 2.0), (0.0, 0.0, 0.0)
    assert njit(lambda p, q: funcs.distance.grad(q, p)[::-1])(p, q) == funcs.distance.grad(p, q)
    m, v = ((1.0, 2.0), (3.0, 4.0)), (1.0, -1.0)
    call = njit(lambda m, v: funcs.transformed.vjp(m, v, (0.0, 0.0), 1.0))
    assert call(m, v) == funcs.transformed.vjp(m, v, (0.0, 0.0), 1.0)


def test_several_results_defaults_and_nothing():
    assert njit(lambda x, y: funcs.two_results.vjp(x, y, 1.0, 10.0))(2.0, 4.0) == ((8.0, 0.5), (6.5, 0.75))
    assert njit(lambda x: (funcs.annotated.grad(x, 3), funcs.annotated(x, 3)))(2.0) == (9.0, 18.0)

    @dk.func
    def nothing(x):
        y = x  # noqa: F841

    assert njit(lambda: nothing(1.0))() is None


def test_arrays_are_data_of_a_func():
    call = njit(lambda t, x: funcs.interpolated.vjp(t, x, 1.0))
    table = np.array([1.0, 4.0, 2.0, 8.0], np.float32)
    assert call(table, np.float32(0.5)) == (2.5, 3.0)
    assert call(table[::2], np.float32(0.5)) == (1.5, 1.0)
    table.flags.writeable = False
    assert call(table, np.float32(1.5)) == (3.0, -2.0)


def test_numba_asks_only_when_it_meets_a_func(tmp_path):
    (tmp_path / "program.py").write_text(
        textwrap.dedent("""
        import sys, diffkern as dk
        assert "numba" not in sys.modules
        @dk.func
        def square(x):
            return x * x
        import numba
        assert "diffkern.interop.numba" not in sys.modules
        print(numba.njit(lambda x: square.grad(x))(3.0))
        """),
        encoding="utf-8",
    )
    ended = subprocess.run([sys.executable, "program.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (ended.stdout, ended.stderr) == ("6.0\n", "")


def test_a_func_is_an_argument():
    call = njit(lambda f, g, x: f(x) + g(x))
    assert call(funcs.of_one, funcs.of_one.grad, 2.0) == 8.0 + 12.0
    assert call(funcs.square, funcs.square.grad, 2.0) == 4.0 + 4.0


def test_parallel_loops_and_fastmath():
    @njit(parallel=True, fastmath=True)
    def slopes(x, out):
        total = 0.0
        for k in prange(x.size):
            value, (dx, _) = funcs.elementary.vjp(x[k], 1.5, 1.0)
            out[k] = dx
            total += value
        return total

    x = np.linspace(0.5, 2.0, 1001)
    out = np.empty_like(x)
    assert slopes(x, out) == pytest.approx(sum(funcs.elementary(t, 1.5) for t in x))
    np.testing.assert_allclose(out, [funcs.elementary.grad(t, 1.5)[0] for t in x], rtol=1e-9)


def test_fastmath_keeps_infinite_quotients():
    inverse_root = dk.func(lambda x: 1.0 / dk.sqrt(x))

    @njit(fastmath=True)
    def fill(x, out):
        for k in range(x.size):
            out[k] = inverse_root(x[k])

    x = np.array([0.0, np.inf, 4.0] * 11, np.float32)
    out = np.empty_like(x)
    fill(x, out)
    np.testing.assert_allclose(out, [np.inf, 0.0, 0.5] * 11)


def test_loops_over_elements_are_vectorised():
    @njit
    def slopes(x, out):
        for k in range(x.size):
            out[k] = funcs.nested.grad(x[k], np.float32(2.0))[0]

    x = np.linspace(0.5, 2.0, 64, dtype=np.float32)
    out = np.empty_like(x)
    slopes(x, out)
    np.testing.assert_allclose(out, [funcs.nested.grad(t, np.float32(2))[0] for t in x], rtol=1e-5)
    (text,) = slopes.inspect_llvm().values()
    assert " x float>" in text
    assert "call void @diffkern" not in text


# -- threads of kernels ------------------------------------------------------------------------------------------------


def test_threads_of_a_kernel_are_its_launch():
    @njit
    def forward(x, y, rate):
        for k in range(x.size):
            funcs.diffuse.thread(k, x, y, rate)

    @njit(parallel=True)
    def adjoint(x, y, rate, ct_x, ct_y, ct_rate):
        for k in prange(x.size):
            funcs.diffuse.thread_adjoint(k, x, y, rate, ct_x, ct_y, ct_rate)

    x = np.random.default_rng(3).normal(size=97).astype(np.float32)
    y, ct_x, ct_y, ct_rate = np.zeros_like(x), np.zeros_like(x), np.cos(np.arange(97, dtype=np.float32)), np.zeros(1)
    ct_rate = ct_rate.astype(np.float32)
    a, b = dk.array(x, requires_grad=True), dk.zeros(97, requires_grad=True)
    with dk.Tape() as tape:
        dk.launch(funcs.diffuse, dim=97, inputs=[a, b, 0.3])
    tape.backward(grads={b: dk.array(ct_y)})
    forward(x, y, np.float32(0.3))
    np.testing.assert_allclose(y, b.numpy(), rtol=1e-6)
    seed = ct_y.copy()
    adjoint(x, y, np.float32(0.3), ct_x, seed, ct_rate)
    np.testing.assert_allclose(ct_x, a.grad.numpy(), rtol=1e-5)
    h = 1e-3
    forward(x, ahead := np.zeros_like(x), np.float32(0.3 + h))
    forward(x, behind := np.zeros_like(x), np.float32(0.3 - h))
    assert ct_rate[0] == pytest.approx(ct_y.astype(float) @ (ahead.astype(float) - behind) / (2 * h), rel=1e-3)


def test_arrays_of_vectors_have_an_axis_of_components():
    @njit
    def both(p, edges, energy, ct_p, ct_energy):
        for k in range(len(edges)):
            funcs.stretch.thread(k, p, edges, energy)
        for k in range(len(edges)):
            funcs.stretch.thread_adjoint(k, p, edges, energy, ct_p, None, ct_energy)

    p = np.random.default_rng(5).normal(size=(6, 3)).astype(np.float32)
    edges = np.array([[0, 1], [1, 2], [2, 0], [3, 4], [4, 5]], np.int32)
    energy, ct_p, ct_energy = np.zeros(1, np.float32), np.zeros_like(p), np.ones(1, np.float32)
    both(p, edges, energy, ct_p, ct_energy)
    d = p[edges[:, 0]] - p[edges[:, 1]]
    length = np.linalg.norm(d, axis=1)
    assert energy[0] == pytest.approx(((length - 1) ** 2).sum(), rel=1e-5)
    wanted, pull = np.zeros_like(p), (2 * (length - 1) / length)[:, None] * d
    np.add.at(wanted, edges[:, 0], pull)
    np.add.at(wanted, edges[:, 1], -pull)
    np.testing.assert_allclose(ct_p, wanted, rtol=1e-4, atol=1e-6)
    with pytest.raises(ValueError, match=r"the last axes of an array of vec3<float32> have the extents \(3,\)"):
        both(p[:, :2].copy(), edges, energy, ct_p, ct_energy)


def test_an_index_has_as_many_axes_as_the_kernel_asks_for():
    @njit
    def both(x, y, z, ct_x, ct_z):
        for i in range(x.size):
            for j in range(y.size):
                funcs.outer.thread((i, j), x, y, z)
                funcs.outer.thread_adjoint((i, j), x, y, z, ct_x, None, ct_z)

    x, y = np.array([1, 2], np.float32), np.array([3, 4, 5], np.float32)
    z, ct_x, ct_z = np.zeros((2, 3), np.float32), np.zeros_like(x), np.ones((2, 3), np.float32)
    both(x, y, z, ct_x, ct_z)
    np.testing.assert_allclose(z, np.outer(x, y * y))
    np.testing.assert_allclose(ct_x, (y * y).sum())
    with pytest.raises(TypingError, match="given an index with 1 axis, and the kernel unpacks"):
        njit(lambda x, y, z: funcs.outer.thread(0, x, y, z))(x, y, z)


# -- what is refused ---------------------------------------------------------------------------------------------------


@dk.kernel
def in_place(y: dk.array(dtype=float)):
    i = dk.tid()
    y[i] = y[i] * y[i]


@dk.kernel
def together(y: dk.array(dtype=float)):
    i = dk.tid()
    shared = dk.shared_array(shape=256, dtype=float)
    shared[dk.thread_index()] = y[i]
    dk.syncthreads()
    y[i] = shared[0]


@dk.kernel(enable_backward=False)
def forward_only(x: dk.array(dtype=float), y: dk.array(dtype=float)):
    i = dk.tid()
    y[i] = x[i]


SINGLE = np.zeros(3, np.float32)


@pytest.mark.parametrize(
    ("call", "arguments", "message"),
    [
        (
            lambda x: funcs.product.grad(2.0 * x),
            (1.0,),
            r"numba_funcs.py:\d+: product takes 2 arguments \(x, y\), not 1",
        ),
        (lambda x: funcs.product(x, "a"), (1.0,), "the argument y of product is unicode_type in numba"),
        (lambda x: funcs.product(x, y=x), (1.0,), "give the arguments in order"),
        (lambda x: funcs.product(x, x + 1j), (1.0,), "is complex128 in numba"),
        (lambda x: funcs.distance(x, x), ((1.0, 2),), "2 to 4 numbers of one type"),
        (lambda x: funcs.branches.grad(x, x), (1,), "no floating-point argument"),
        (
            lambda x: funcs.annotated(1.0, x),
            (2.5,),
            r"numba_funcs.py:\d+: .* n of annotated takes int32, not float64",
        ),
        (lambda x: funcs.product.slope(2.0 * x), (1.0,), "Unknown attribute 'slope'"),
        (lambda y: funcs.diffuse(y, y), (SINGLE,), "diffuse is a kernel.*\nhelp: write diffuse.thread"),
        (lambda y: in_place.thread_adjoint(0, y, y), (SINGLE,), "needs what y held before the launch"),
        (lambda y: together.thread(0, y), (SINGLE,), "the threads of a block of together work together"),
        (lambda y: in_place.thread(0, y), (np.zeros(3),), "takes array.*not an array of float64"),
        (lambda y: in_place.thread(0.5, y), (SINGLE,), "the first argument of in_place.thread is float64"),
        (lambda y: forward_only.thread_adjoint(0, y, y, y, y), (SINGLE,), "enable_backward is off"),
        (lambda y: in_place.thread_adjoint(0, y), (SINGLE,), r"in_place.thread_adjoint\(i, y, ct_y\)"),
        (
            lambda y: funcs.diffuse.thread_adjoint(0, y, y, np.float32(1), y, y, np.float32(1)),
            (SINGLE,),
            "the cotangent of rate of diffuse is an array of float32 with one element",
        ),
    ],
)
def test_numba_says_what_diffkern_says(call, arguments, message):
    with pytest.raises(TypingError, match=message):
        njit(call)(*arguments)


def test_an_array_that_numba_will_not_write_is_refused():
    y = np.zeros(3, np.float32)
    y.flags.writeable = False
    with pytest.raises(TypingError, match=r"in_place.thread writes to y, and .* is read-only"):
        njit(lambda y: in_place.thread(0, y))(y)


def test_what_calls_a_func_is_not_kept_on_disk(tmp_path, monkeypatch):
    """numba would take it from there after the func has changed."""
    (tmp_path / "program.py").write_text(
        textwrap.dedent("""
        import numba
        from cached_funcs import f

        @numba.njit(cache=True)
        def inner(x):
            return f.grad(x)

        @numba.njit(cache=True)
        def outer(x):
            return inner(x) + 1.0
        """),
        encoding="utf-8",
    )
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "cache"))
    run = "import warnings; warnings.simplefilter('ignore'); import program; print(program.outer(3.0))"
    for text, wanted in (("x * x", "7.0"), ("x * x * x", "28.0")):
        source = f"import diffkern as dk\n\n@dk.func\ndef f(x):\n    return {text}\n"
        (tmp_path / "cached_funcs.py").write_text(source, encoding="utf-8")
        ended = subprocess.run(
            [sys.executable, "-B", "-c", run], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert ended.stdout.strip() == wanted, ended.stderr
    assert not list((tmp_path / "cache").rglob("*.nbc"))


def test_numba_warns_that_it_keeps_nothing():
    with pytest.warns(NumbaWarning, match="Cannot cache compiled function"):
        njit(cache=True)(lambda x: funcs.of_one.grad(x + x))(2.0)
