"""Variables of float16 and bfloat16 in loops and branches: numbers, vectors, matrices, quaternions alike."""

from __future__ import annotations

import numpy as np
import pytest

import diffkern as dk
import diffkern.warp as wp

H = dk.float16
KINDS = {
    "number": (H, ()),
    "vector": (dk.types.vector(2, H), (2,)),
    "matrix": (dk.types.matrix((2, 2), H), (2, 2)),
    "quaternion": (dk.types.quaternion(H), (4,)),
    "bfloat16": (dk.types.vector(2, dk.bfloat16), (2,)),
}


def steps(mod, element):
    """A kernel in which a variable begins as a half and becomes sums, differences and products of loaded elements."""
    one = mod.bfloat16 if element is KINDS["bfloat16"][0] else mod.float16

    @mod.kernel
    def run(a, out):
        s = out.dtype()
        for i in range(a.shape[0]):
            s += a[i]
        d = out.dtype()
        k = 0
        while k < a.shape[0]:
            d -= one(2.0) * a[k]
            k += 1
        b = out.dtype()
        if a.shape[0] > 1:
            b = a[1] * one(3.0)
        out[0] = s
        out[1] = d
        out[2] = b

    return run


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mod", [dk, wp], ids=["native", "warp"])
def test_variables_of_halves_meet_loaded_elements(mod, kind):
    element, shape = KINDS[kind]
    values = np.arange(3 * np.prod(shape, dtype=int)).reshape(3, *shape) * np.float32(0.25)
    a, out = mod.array(values, dtype=element, requires_grad=True), mod.zeros(3, dtype=element, requires_grad=True)
    with mod.Tape() as tape:
        mod.launch(steps(mod, element), dim=1, inputs=[a, out])

    def floats(held):
        found = held.numpy()
        # Of bfloat16 NumPy sees the bits, without another package.
        return (found.astype(np.uint32) << 16).view(np.float32) if found.dtype == np.uint16 else found.astype(float)

    total = values.sum(axis=0)
    np.testing.assert_array_equal(floats(out), [total, -2 * total, 3 * values[1]])
    seed = np.array([1.0, 0.5, 2.0], np.float32).reshape(3, *(1,) * len(shape)) * np.ones((3, *shape), np.float32)
    out.grad = mod.array(seed, dtype=element)
    tape.backward()
    expected = np.zeros((3, *shape))
    expected[1] = 6.0  # of the branch; the sum's 1 and the difference's -2 * 0.5 cancel
    np.testing.assert_array_equal(floats(a.grad), expected)


def test_a_vector_of_halves_does_not_become_one_of_another_length_or_width():
    @dk.kernel
    def lengths(a, b):
        s = a.dtype()
        if a.shape[0] > 1:
            s = b[0]
        b[0] = s

    @dk.kernel
    def widths(a, b):
        s = a.dtype()
        if a.shape[0] > 1:
            s = b[0]
        b[0] = s

    for kernel, length, out in ((lengths, 2, dk.vec3), (widths, 3, dk.vec3d)):
        with pytest.raises(dk.KernelTypeError, match="one variable has one type"):
            dk.launch(kernel, dim=1, inputs=[dk.zeros(2, dtype=dk.types.vector(length, H)), dk.zeros(1, dtype=out)])
