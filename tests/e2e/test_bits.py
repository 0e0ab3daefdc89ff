"""``dk.cast``: the same bits as another type, of numbers, vectors, matrices and structs."""

import itertools

import numpy as np
import pytest

import diffkern as dk

TYPES = ("int8", "uint8", "int16", "uint16", "float16", "int32", "uint32", "float32", "int64", "uint64", "float64")
PAIRS = [(a, b) for a, b in itertools.permutations(TYPES, 2) if np.dtype(a).itemsize == np.dtype(b).itemsize]


def made(source: str, to: str, count: int = 1) -> dk.Kernel:
    """A kernel that casts every element, or vectors of ``count``."""
    a, b = (getattr(dk, t) for t in (source, to))
    a, b = (a, b) if count == 1 else (dk.types.vector(count, a), dk.types.vector(count, b))

    @dk.kernel
    def casts(x: dk.array(dtype=a), y: dk.array(dtype=b)):
        i = dk.tid()
        y[i] = dk.cast(a(x[i]), b)

    return casts


@pytest.mark.parametrize(("source", "to"), PAIRS)
def test_numbers(source, to):
    numbers = np.array([0, 1, 2, 3, 60, 127]).astype(source)
    if np.dtype(source).kind != "u":
        numbers = np.append(numbers, [-1, -2]).astype(source)
    y = dk.zeros(len(numbers), dtype=getattr(dk, to))
    dk.launch(made(source, to), len(numbers), [dk.array(numbers)], [y])
    np.testing.assert_array_equal(y.numpy().view(source), numbers)


def test_the_bits_of_bfloat16():
    @dk.kernel
    def casts(x: dk.array(dtype=dk.bfloat16), y: dk.array(dtype=dk.uint16), z: dk.array(dtype=dk.float32)):
        i = dk.tid()
        y[i] = dk.cast(dk.bfloat16(x[i]), dk.uint16)
        z[i] = float(dk.cast(y[i], dk.bfloat16))

    x = dk.array(np.array([1.0, -2.5]), dtype=dk.bfloat16)
    y, z = dk.zeros(2, dtype=dk.uint16), dk.zeros(2)
    dk.launch(casts, 2, [x], [y, z])
    assert y.numpy().tolist() == [0x3F80, 0xC020]
    assert z.numpy().tolist() == [1.0, -2.5]


@dk.struct
class Mixed:
    a: dk.int8
    b: dk.float16
    c: dk.vec3
    d: dk.int64


@dk.struct
class Words:
    words: dk.types.vector(6, dk.uint32)


@dk.struct
class Pun:
    f: dk.float16
    i: dk.int16


def test_vectors_matrices_and_structs():
    vec6 = dk.types.vector(6, dk.uint32)

    @dk.kernel
    def casts(x: dk.array(dtype=dk.vec2), y: dk.array(dtype=dk.float64), q: dk.array(dtype=vec6)):
        p = Pun()
        p.f = 2.0
        p.i = dk.int16(123)
        y[0] = dk.cast(x[0], dk.float64)
        y[1] = dk.float64(dk.cast(y[0], dk.vec2).y)
        y[2] = dk.float64(dk.cast(p, dk.int32))
        y[3] = dk.float64(dk.cast(dk.cast(p, dk.int32), Pun).f)
        m = dk.mat22(1.0, 2.0, 3.0, 4.0)
        y[4] = dk.float64(dk.cast(dk.cast(m, dk.vec4ui), dk.vec4)[2])
        s = Mixed(dk.int8(-2), 1.5, dk.vec3(1.0, 2.0, 3.0), dk.int64(-5))
        q[0] = dk.cast(s, vec6)
        y[5] = dk.float64(dk.cast(q[0], Mixed).d)
        y[6] = dk.float64(dk.cast(q[0], Mixed).c.y)

    x = dk.array(np.array([[1.5, -2.0]], np.float32), dtype=dk.vec2)
    y, q = dk.zeros(7, dtype=dk.float64), dk.zeros(1, dtype=vec6)
    dk.launch(casts, 1, [x], [y, q])
    assert y.numpy()[0] == np.array([1.5, -2.0], np.float32).view(np.float64)[0]
    assert y.numpy()[1:].tolist() == [-2.0, 0x007B4000, 2.0, 3.0, -5.0, 2.0]
    words = np.array([0x3E0000FE, 0, 0, 0], np.uint32)
    words[1:] = np.array([1, 2, 3], np.float32).view(np.uint32)
    assert q.numpy()[0].tolist() == [*words.tolist(), 0xFFFFFFFB, 0xFFFFFFFF]


def test_sizes_are_compared():
    with pytest.raises(dk.KernelError, match=r"cast of float64 \(8 bytes\) to int32 \(4 bytes\)"):
        dk.launch(made("float64", "int32"), 1, [dk.zeros(1, dtype=dk.float64)], [dk.zeros(1, dtype=dk.int32)])


def test_bits_have_no_derivative():
    x, y = dk.ones(1, requires_grad=True), dk.zeros(1, requires_grad=True)

    @dk.kernel
    def casts(x: dk.array(dtype=float), y: dk.array(dtype=float)):
        i = dk.tid()
        y[i] = dk.cast(dk.cast(x[i], dk.int32), dk.float32) + 2.0 * x[i]

    with dk.Tape() as tape:
        dk.launch(casts, 1, [x], [y])
    tape.backward(grads={y: dk.ones(1)})
    assert (y.numpy()[0], x.grad.numpy()[0]) == (3.0, 2.0)


def test_calls_from_python():
    assert dk.cast(dk.float32(1.25), dk.int32) == 0x3FA00000
    assert dk.cast(dk.vec2(1.0, 2.0), dk.vec2i) == dk.vec2i(0x3F800000, 0x40000000)


@pytest.mark.parametrize("compiler", ["llvm", "numba"])
@pytest.mark.parametrize(("source", "to"), [("float32", "uint32"), ("int64", "float64"), ("float16", "int16")])
def test_cuda(source, to, compiler):
    assert ".visible .entry" in dk.compile(made(source, to, 3), target="sm_90", compiler=compiler).ptx
