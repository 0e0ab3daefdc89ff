"""Every scalar and composite operation: the compiled code against its Python twin."""

from __future__ import annotations

import numpy as np
import pytest
from cpu_harness import agree, both, i32, kernel, load, numpy_type, store, tids

from diffkern.ir.ops.table import all_ops
from diffkern.ir.types import (
    BOOL,
    FLOAT32,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT64,
    UINT8,
    UINT16,
    UINT32,
    UINT64,
    Array,
    Kind,
    Mat,
    Scalar,
    Vec,
)

ROWS = all_ops().values()
BY_MPMATH = ("lgamma", "digamma", "polygamma")
"""Functions whose host's forms are less exact near their zeros: tests/e2e/test_gamma.py compares them with mpmath."""
UNARY_MATH = [row.name for row in ROWS if row.elementary and row.arity == 1 and row.name not in BY_MPMATH]
BINARY_MATH = [row.name for row in ROWS if row.elementary and row.arity == 2]
ROUNDING = ["floor", "ceil", "trunc", "round", "rint"]
COMPARISONS = [row.name for row in ROWS if row.mirrored]
FLOATS = [FLOAT32, FLOAT64]
INTS = [INT8, INT16, INT32, INT64, UINT8, UINT16, UINT32, UINT64]


def samples(t: Scalar, n: int, seed: int = 0) -> np.ndarray:
    """Random values of a type with its special ones mixed in."""
    rng = np.random.default_rng(seed)
    dtype = numpy_type(t)
    if t == BOOL:
        return rng.integers(0, 2, n).astype(bool)
    if t.is_float:
        out = (rng.standard_normal(n) * rng.choice([0.1, 1.0, 30.0], n)).astype(dtype)
        special = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, np.inf, -np.inf, np.nan, 1e9, -3e10]
    else:
        info = np.iinfo(dtype)
        out = rng.integers(info.min, info.max, n, dtype=dtype, endpoint=True)
        small = rng.integers(max(info.min, -9), 10, n).astype(dtype)
        out = np.where(rng.random(n) < 0.5, small, out)
        special = [0, 1, info.max, info.min, info.max - 1]
    where = rng.integers(0, n, 2 * len(special))
    out[where] = np.array(special * 2, dtype)
    return out


def elementwise(op, operand: Scalar, result: Scalar, arity: int, **attrs):
    names = ["a", "b", "c"][:arity]

    def body(b, *arrays):
        (i,) = tids(b)
        values = [load(b, x, i) for x in arrays[:-1]]
        store(b, arrays[-1], i, b.one(op, *values, **attrs))

    params = {n: Array(operand, 1) for n in names} | {"out": Array(result, 1)}
    return kernel(params, body, name=f"k_{op}")


def check(op, operand, result, arity, ulp=0, n=400, shape=lambda k, a: a, **attrs):
    fn = elementwise(op, operand, result, arity, **attrs)
    args = [shape(k, samples(operand, n, seed=k)) for k in range(arity)]
    return agree(fn, [*args, np.zeros(n, numpy_type(result))], n, ulp=ulp)


@pytest.mark.parametrize("t", FLOATS, ids=str)
@pytest.mark.parametrize("op", ["add", "sub", "mul", "div", "min", "max", "mod", "floordiv"])
def test_float_arithmetic(op, t):
    check(op, t, t, 2)


@pytest.mark.parametrize("t", FLOATS, ids=str)
@pytest.mark.parametrize("op", ["neg", "abs", "sign", *ROUNDING])
def test_float_unary(op, t):
    check(op, t, t, 1)


@pytest.mark.parametrize("t", FLOATS, ids=str)
@pytest.mark.parametrize("op", UNARY_MATH)
def test_unary_math(op, t):
    check(op, t, t, 1, ulp=6)


@pytest.mark.parametrize("t", FLOATS, ids=str)
@pytest.mark.parametrize("op", BINARY_MATH)
def test_binary_math(op, t):
    check(op, t, t, 2, ulp=6)


@pytest.mark.parametrize("t", FLOATS, ids=str)
def test_hypot_and_copysign(t):
    check("hypot", t, t, 2, ulp=6)
    check("copysign", t, t, 2)


ZEROS = np.array([0.0, -0.0])
SIGNED = [
    "neg",
    "abs",
    "sqrt",
    "cbrt",
    "sin",
    "tan",
    "asin",
    "atan",
    "sinh",
    "tanh",
    "asinh",
    "atanh",
    "expm1",
    "log1p",
]


@pytest.mark.parametrize("t", FLOATS, ids=str)
@pytest.mark.parametrize("op", [*SIGNED, *ROUNDING])
def test_sign_of_zero_of_a_function(op, t):
    _same_signs(op, t, [ZEROS])


@pytest.mark.parametrize("t", FLOATS, ids=str)
@pytest.mark.parametrize("op", ["add", "sub", "mul", "min", "max", "mod", "floordiv", "copysign", "atan2", "hypot"])
def test_sign_of_zero_of_two_operands(op, t):
    other = np.array([0.0, -0.0, 2.0, -2.0, 0.0, -0.0, 2.0, -2.0])
    _same_signs(op, t, [np.repeat(ZEROS, 4), other])
    _same_signs(op, t, [other, np.repeat(ZEROS, 4)])


def _same_signs(op, t, points):
    args = [p.astype(numpy_type(t)) for p in points]
    n = args[0].size
    compiled, python = both(elementwise(op, t, t, len(args)), [*args, np.zeros(n, numpy_type(t))], n)
    number = ~np.isnan(python[-1])
    np.testing.assert_array_equal(compiled[-1], python[-1])
    np.testing.assert_array_equal(np.signbit(compiled[-1][number]), np.signbit(python[-1][number]))


@pytest.mark.parametrize("t", FLOATS, ids=str)
@pytest.mark.parametrize("op", ["isnan", "isinf", "isfinite"])
def test_float_tests(op, t):
    check(op, t, BOOL, 1)


@pytest.mark.parametrize("t", [*FLOATS, *INTS, BOOL], ids=str)
def test_comparisons(t):
    for op in COMPARISONS:
        check(op, t, BOOL, 2)


@pytest.mark.parametrize("t", INTS, ids=str)
def test_integer_arithmetic(t):
    for op in ("add", "sub", "mul", "floordiv", "mod", "min", "max", "and", "or", "xor"):
        check(op, t, t, 2)
    for op in ("abs", "invert", *(("neg", "sign") if t.kind is Kind.INT else ())):
        check(op, t, t, 1)


@pytest.mark.parametrize("t", INTS, ids=str)
@pytest.mark.parametrize("op", ["shl", "shr"])
def test_shifts(op, t):
    dtype = numpy_type(t)
    counts = np.tile(np.array([0, 1, 3, t.bits - 1, t.bits, t.bits + 1, 100], dtype), 58)[:400]
    check(op, t, t, 2, shape=lambda k, a: counts if k else a)


def test_shift_by_a_negative_count_shifts_everything_out():
    counts = np.full(400, -1, np.int32)
    out = check("shl", INT32, INT32, 2, shape=lambda k, a: counts if k else a)[-1]
    assert not out.any()


def test_division_by_zero_and_overflow_do_not_trap():
    fn = elementwise("floordiv", INT32, INT32, 2)
    low = np.iinfo(np.int32).min
    a, b = np.array([7, -7, 0, low, low], np.int32), np.array([0, 0, 0, -1, 0], np.int32)
    out = agree(fn, [a, b, np.ones(5, np.int32)], 5)[-1]
    assert out.tolist() == [0, 0, 0, low, 0]


def test_bools():
    for op in ("and", "or", "xor"):
        check(op, BOOL, BOOL, 2)
    check("not", BOOL, BOOL, 1)


@pytest.mark.parametrize("to", [BOOL, *INTS, *FLOATS], ids=str)
def test_casts(to):
    for source in [BOOL, *INTS, *FLOATS]:
        if source != to:
            check("cast", source, to, 1, to=to)


def test_float_to_integer_saturates():
    fn = elementwise("cast", FLOAT32, INT8, 1, to=INT8)
    a = np.array([1e20, -1e20, np.nan, 127.9, -128.9, 3.99, -3.99], np.float32)
    assert agree(fn, [a, np.zeros(7, np.int8)], 7)[-1].tolist() == [127, -128, 0, 127, -128, 3, -3]


@pytest.mark.parametrize("op", ["min", "max"])
def test_min_and_max_pass_nan_on_and_prefer_the_first(op):
    fn = elementwise(op, FLOAT32, FLOAT32, 2)
    a = np.array([np.nan, 1.0, 0.0, -0.0], np.float32)
    b = np.array([1.0, np.nan, -0.0, 0.0], np.float32)
    out = agree(fn, [a, b, np.zeros(4, np.float32)], 4)[-1]
    assert np.isnan(out[:2]).all()
    assert np.signbit(out[2:]).tolist() == [False, True]


def test_select():
    def body(b, c, x, y, out):
        (i,) = tids(b)
        store(b, out, i, b.select(load(b, c, i), load(b, x, i), load(b, y, i)))

    fn = kernel({"c": Array(BOOL, 1), "x": Array(FLOAT32, 1), "y": Array(FLOAT32, 1), "out": Array(FLOAT32, 1)}, body)
    n = 100
    agree(fn, [samples(BOOL, n), samples(FLOAT32, n), samples(FLOAT32, n, 1), np.zeros(n, np.float32)], n)


def test_next_checkpoint():
    def body(b, n, s, out):
        (i,) = tids(b)
        store(b, out, i, b.one("next_checkpoint", b.i32(0), b.sub(load(b, n, i), b.i32(1)), load(b, s, i)))

    fn = kernel({"n": Array(INT32, 1), "s": Array(INT32, 1), "out": Array(INT32, 1)}, body)
    lengths = [1, 2, 3, 5, 10, 17, 100, 1000, 99_999, 100_000, 2**31 - 1]
    pairs = [(n, s) for n in lengths for s in (0, 1, 2, 3, 7, 83, 1000, 2**30)]
    n, s = (np.array(c, np.int32) for c in zip(*pairs, strict=True))
    out = agree(fn, [n, s, np.zeros(len(n), np.int32)], len(n))[-1]
    free = s > 0
    assert (out[~free] == n[~free]).all()  # no slot: the snapshot would lie behind the last iteration
    assert ((out >= 1) & (out <= np.maximum(n - 1, 1)))[free].all()


COMPOSITES = {
    "add": ([0, 0], 0), "sub": ([0, 0], 0), "neg": ([0], 0), "cw_mul": ([0, 0], 0), "cw_div": ([0, 0], 0),
    "scale": ([0, "s"], 0), "unscale": ([0, "s"], 0), "dot": ([0, 0], "s"), "length": ([0], "s"),
    "length_sq": ([0], "s"),
}  # fmt: skip


def composite_kernel(op, types, result):
    def body(b, *arrays):
        (i,) = tids(b)
        store(b, arrays[-1], i, b.one(op, *(load(b, x, i) for x in arrays[:-1])))

    params = {f"a{k}": Array(t, 1) for k, t in enumerate(types)} | {"out": Array(result, 1)}
    return kernel(params, body, name=f"k_{op}")


def composite_args(types, result, n=50):
    rng = np.random.default_rng(3)
    args = []
    for t in (*types, result):
        shape = t.shape if isinstance(t, (Vec, Mat)) else ()
        dtype = numpy_type(t if isinstance(t, Scalar) else t.dtype)
        args.append(rng.uniform(-2, 2, (n, *shape)).astype(dtype))
    return args


def check_composite(op, types, result, ulp=64):
    args = composite_args(types, result)
    fn = composite_kernel(op, types, result)
    args[0][:2] = 0  # zero vectors and singular matrices
    out = agree_loosely(fn, args)
    assert np.isfinite(out[2:]).all()
    return args, out


def agree_loosely(fn, args):
    from cpu_harness import both

    compiled, python = both(fn, args, len(args[0]))
    tolerance = 1e-4 if compiled[-1].dtype == np.float32 else 1e-11
    np.testing.assert_allclose(compiled[-1], python[-1], rtol=tolerance, atol=tolerance)
    return compiled[-1]


@pytest.mark.parametrize("t", FLOATS, ids=str)
@pytest.mark.parametrize("op", COMPOSITES)
def test_composite_arithmetic(op, t):
    for c in (Vec(t, 2), Vec(t, 3), Vec(t, 4), Mat(t, 2, 2), Mat(t, 3, 3)):
        operands, result = COMPOSITES[op]
        check_composite(op, [t if k == "s" else c for k in operands], t if result == "s" else c)


@pytest.mark.parametrize("t", FLOATS, ids=str)
def test_vector_operations(t):
    v = Vec(t, 3)
    _, out = check_composite("normalize", [v], v)
    assert not out[:2].any()
    check_composite("cross", [v, v], v)
    check_composite("outer", [v, Vec(t, 2)], Mat(t, 3, 2))


@pytest.mark.parametrize("t", FLOATS, ids=str)
@pytest.mark.parametrize("n", [2, 3, 4])
def test_matrix_operations(n, t):
    m, v = Mat(t, n, n), Vec(t, n)
    args, out = check_composite("determinant", [m], t)
    np.testing.assert_allclose(out, np.linalg.det(args[0]), rtol=1e-3, atol=1e-3)
    args, out = check_composite("inverse", [m], m)
    assert not out[:2].any()
    if t == FLOAT64:
        np.testing.assert_allclose(out[2:], np.linalg.inv(args[0][2:]), rtol=1e-8, atol=1e-8)
    check_composite("transpose", [Mat(t, n, 3)], Mat(t, 3, n))
    check_composite("trace", [m], t)
    check_composite("matmul", [m, Mat(t, n, 2)], Mat(t, n, 2))
    check_composite("matvec", [m, v], v)
    check_composite("vecmat", [v, m], v)


def test_composite_parts():
    v, m = Vec(FLOAT32, 3), Mat(FLOAT32, 2, 3)

    def body(b, x, k, out, mats):
        (i,) = tids(b)
        a = load(b, x, i)
        a = b.one("insert", a, b.extract(a, 2), index=0)
        d = b.one("extract_dyn", a, load(b, k, i))
        a = b.one("insert_dyn", a, b.mul(d, b.const(2.0, FLOAT32)), b.sub(load(b, k, i), i32(b, 1)))
        store(b, out, i, b.select(b.one("lt", d, b.const(0.0, FLOAT32)), b.neg(a), a))
        big = b.one("construct", *b.components(a), *b.components(a), type=m)
        store(b, mats, i, b.one("insert", big, b.extract(big, 5), index=1))

    params = {"x": Array(v, 1), "k": Array(INT32, 1), "out": Array(v, 1), "mats": Array(m, 1)}
    fn = kernel(params, body)
    x = np.random.default_rng(0).standard_normal((40, 3)).astype(np.float32)
    k = (np.arange(40) % 8 - 4).astype(np.int32)
    agree(fn, [x, k, np.zeros_like(x), np.zeros((40, 2, 3), np.float32)], 40)


def test_composite_cast():
    v, w = Vec(FLOAT32, 3), Vec(INT32, 3)

    def body(b, x, out):
        (i,) = tids(b)
        store(b, out, i, b.cast(load(b, x, i), w))

    x = np.random.default_rng(0).uniform(-9, 9, (40, 3)).astype(np.float32)
    agree(kernel({"x": Array(v, 1), "out": Array(w, 1)}, body), [x, np.zeros((40, 3), np.int32)], 40)
