"""``fuse_fp=False``: products and sums are rounded by themselves, forward, in derivatives and on GPUs."""

import numpy as np
import pytest
from conftest import require
from support.ptx.programs import ptx_of

import diffkern as dk
import diffkern.warp as wp
from diffkern.analysis.cuda_plan import finalize_updates
from diffkern.compiler.compilation import Compilation
from diffkern.contracts.options import Variant

N = 4000
random = np.random.default_rng(5)
A, B, C = random.normal(size=(3, N))


def sums(a, b, c, y):
    i = dk.tid()
    y[i] = a[i] * b[i] + c[i]


def made(dtype, **options):
    def kernel(a, b, c, y):
        i = dk.tid()
        y[i] = (a[i] * b[i] + c[i]) * a[i] - c[i] * c[i]

    kernel.__annotations__ = dict.fromkeys("abcy", dk.array(dtype=dtype))
    return dk.kernel(kernel, **options)


def expected(a, b, c):
    return (a * b + c) * a - c * c


@pytest.mark.parametrize("lanes", [None, False, True])
@pytest.mark.parametrize("dtype", [dk.float32, dk.float64])
def test_values_are_those_of_numpy(dtype, lanes):
    a, b, c = (v.astype(dtype.numpy) for v in (A, B, C))
    for fuse in (False, None):
        y = dk.zeros(N, dtype=dtype)
        made(dtype, fuse_fp=fuse, lanes=lanes)[N](*(dk.array(v, dtype=dtype) for v in (a, b, c)), y)
        assert (y.numpy() == expected(a, b, c)).all() == (fuse is False)


@pytest.mark.parametrize("lanes", [False, True])
def test_derivatives_too(lanes):
    a, b, c = (v.astype(np.float32) for v in (A, B, C))
    t = np.float32(1.5)
    kernel = made(dk.float32, fuse_fp=False, lanes=lanes)

    def function(*arrays):
        y = dk.zeros(N, dtype=dk.float32)
        kernel[N](*arrays, y)
        return y

    arrays = [dk.array(v, dtype=dk.float32) for v in (a, b, c)]
    ct_b = dk.vjp(function, arrays, dk.full(N, t, dtype=dk.float32))[1][1].numpy()
    np.testing.assert_array_equal(ct_b, t * a * a)
    tangent = dk.jvp(function, arrays, (None, None, dk.full(N, t, dtype=dk.float32)))[1].numpy()
    rounded_alone = [t * a - (t * c + t * c), t * a - (c * t + c * t), t * a - t * (c + c)]
    assert any((tangent == one).all() for one in rounded_alone)


def test_a_module_says_it():
    a, b, c = (v.astype(np.float32) for v in (A, B, C))
    kernel, own = made(dk.float32), made(dk.float32, fuse_fp=True)

    def is_numpys(one):
        y = dk.zeros(N, dtype=dk.float32)
        one[N](*(dk.array(v, dtype=dk.float32) for v in (a, b, c)), y)
        return (y.numpy() == expected(a, b, c)).all()

    assert not is_numpys(kernel)
    try:
        dk.set_module_options({"fuse_fp": False})
        assert is_numpys(kernel)
        assert not is_numpys(own)
    finally:
        dk.set_module_options({"fuse_fp": None})
    assert not is_numpys(kernel)


def test_warp_programs_say_it():
    @wp.kernel
    def of_module(
        a: wp.array(dtype=float), b: wp.array(dtype=float), c: wp.array(dtype=float), y: wp.array(dtype=float)
    ):
        i = wp.tid()
        y[i] = a[i] * b[i] + c[i]

    a, b, c = (v.astype(np.float32) for v in (A, B, C))
    found = []
    assert wp.get_module_options()["fuse_fp"] is True
    try:
        for fuse in (True, False):
            wp.set_module_options({"fuse_fp": fuse})
            y = wp.zeros(N, dtype=float)
            wp.launch(of_module, dim=N, inputs=[*(wp.array(v, dtype=float) for v in (a, b, c)), y])
            found.append((y.numpy() == a * b + c).all())
    finally:
        wp.set_module_options({"fuse_fp": True})
    assert found == [False, True]


@pytest.mark.parametrize("compiler", ["llvm", "numba"])
@pytest.mark.parametrize("fuse", [False, True])
def test_on_a_gpu(compiler, fuse):
    require("cuda.bindings.nvjitlink", "nvidia")
    array = dk.array(dtype=dk.float32)
    sums.__annotations__ = dict.fromkeys("abcy", array)
    kernel = dk.kernel(sums)
    if compiler == "llvm":
        assert ("fma.rn.f32" in dk.compile(kernel, target="sm_90", fuse_fp=fuse).ptx) == fuse
    compilation = Compilation(kernel.func, kernel.argument_types(), Variant(target="sm_90", compiler=compiler))
    fn = compilation.forward
    finalize_updates(fn, (), ())
    text, _ = ptx_of(fn, compiler, fuse_fp=fuse)
    assert ("fma.rn.f32" in text) == fuse
    if not fuse:  # without .rn the assembler would fuse them
        assert "mul.rn.f32" in text
        assert "add.rn.f32" in text
