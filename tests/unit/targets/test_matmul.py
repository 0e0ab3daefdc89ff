"""Products of matrices in memory of all widths, for each length of vectors, beside NumPy's of integers."""

from __future__ import annotations

import ctypes
import re

import numpy as np
import pytest
from llvmlite import ir

from diffkern.ir.types import FLOAT32, FLOAT64, Scalar
from diffkern.runtime.native.loader import load_code
from diffkern.targets.cpu import object_code
from diffkern.targets.emit.matmul import ProductShape, matmul_function
from diffkern.targets.emit.types import PTR, VOID, TargetModule

_GUARD = 40
"""Elements behind a result, more than two vectors, that a product has to leave."""
_EACH = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)


def shapes(lanes: int) -> list[ProductShape]:
    """Each width up to three vectors and more, with heights and inner sizes that leave remainders too."""
    sizes = [(width, 1 + 5 * width % 14, 1 + width % 3) for width in range(1, 3 * lanes + 2)]
    found = [ProductShape(m, n, k, trans_a=bool(n % 2), add=bool(n // 2 % 2)) for n, m, k in sizes]
    # Those of two vectors that overlap in both ways.
    return found + [
        ProductShape(m, n, k, trans_a=not n % 2, add=not n // 2 % 2) for n, m, k in sizes[lanes : 2 * lanes - 1]
    ]


@pytest.mark.parametrize("vector_bytes", [16, 32, 64])
@pytest.mark.parametrize("dtype", [FLOAT32, FLOAT64], ids=str)
def test_products_of_all_widths(dtype: Scalar, vector_bytes: int) -> None:
    machine, lanes = object_code.machine(), vector_bytes // dtype.itemsize
    module, names = TargetModule("products", machine.isa), []
    for number, shape in enumerate(shapes(lanes)):
        made = matmul_function(module, dtype, shape, (), vector_bytes)
        names.append(f"product_{number}_{vector_bytes}_{dtype}")
        entry = ir.Function(module, ir.FunctionType(VOID, [PTR] * 3), names[-1])
        builder = ir.IRBuilder(entry.append_basic_block())
        builder.call(made, entry.args)
        builder.ret_void()
    lengths = {int(n) for n in re.findall(r"<(\d+) x (?:float|double)>", str(module))}
    assert not any(lanes < n < 2 * lanes for n in lengths)  # which LLVM would split into single numbers
    code = load_code(object_code.object_code(object_code.optimise(str(module), 1, machine), machine), names)

    random, kind = np.random.default_rng(7), np.float32 if dtype == FLOAT32 else np.float64
    for name, shape in zip(names, shapes(lanes), strict=True):
        # Integers, whose sums are exact in any order.
        a, b = (random.integers(-9, 9, size=size).astype(kind) for size in ((shape.m, shape.k), (shape.k, shape.n)))
        c = random.integers(-9, 9, size=shape.m * shape.n + _GUARD).astype(kind)
        expected = c.copy()
        result = expected[: shape.m * shape.n].reshape(shape.m, shape.n)
        result[:] = a @ b + (result if shape.add else 0)
        stored = np.ascontiguousarray(a.T if shape.trans_a else a)
        _EACH(code[name])(c.ctypes.data, stored.ctypes.data, b.ctypes.data)
        np.testing.assert_array_equal(c, expected, err_msg=str(shape))
