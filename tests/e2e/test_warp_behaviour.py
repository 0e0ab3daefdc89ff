"""What Warp's own programs count on: shapes behind the last axis, named operators, products that overwrite, lists."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import diffkern as dk
import diffkern.warp as wp
from diffkern.errors import KernelTypeError
from diffkern.mapping import executed

# -- shapes ------------------------------------------------------------------------------------------------------------


@wp.kernel
def four_extents(a: wp.array2d[int], out: wp.array[int]):
    shape = a.shape
    out[0] = a.shape[2]
    out[1] = shape[3]
    out[2] = a[0].shape[1]
    out[3] = shape[1]


@dk.kernel
def third_extent(a: dk.array2d[int], out: dk.array[int]):
    out[0] = a.shape[2]


def test_shapes_have_four_extents_in_warps_dialect_alone() -> None:
    a, out = wp.zeros((2, 5), dtype=int), wp.full(4, -1, dtype=int)
    wp.launch(four_extents, 1, inputs=[a, out])
    assert out.numpy().tolist() == [0, 0, 0, 5]
    with pytest.raises(KernelTypeError, match="index 2 of a tuple of 2"):
        dk.launch(third_extent, 1, [dk.zeros((2, 5), dtype=int), dk.zeros(1, dtype=int)])


# -- operators ---------------------------------------------------------------------------------------------------------


@wp.struct
class Number:
    re: float
    im: float


@wp.func
def add(a: Number, b: Number) -> Number:
    return Number(a.re + b.re, a.im + b.im)


@wp.func
def mul(a: Number, b: Number) -> Number:
    return Number(a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re)


@wp.kernel
def of_numbers(x: wp.array[float], out: wp.array[float]):
    i = wp.tid()
    a, b = Number(x[i], 2.0), Number(3.0, 4.0)
    c = a * b + a
    c += b
    out[i] = c.re * c.im + x[i]


def test_funcs_named_as_operators_are_operators_of_their_types() -> None:
    x = wp.array([1.0, 2.0], dtype=float, requires_grad=True)
    out = wp.zeros(2, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(of_numbers, 2, inputs=[x], outputs=[out])
    tape.backward(grads={out: wp.ones_like(out)})

    def of(x: Any) -> Any:
        a, b = complex(x, 2.0), 3.0 + 4.0j
        c = a * b + a + b
        return c.real * c.imag + x

    step = 1e-5
    np.testing.assert_allclose(out.numpy(), [of(1.0), of(2.0)])
    np.testing.assert_allclose(x.grad.numpy(), [(of(v + step) - of(v - step)) / (2 * step) for v in (1.0, 2.0)], 1e-5)


@wp.func
def sub(a: wp.vec2, b: wp.vec2) -> wp.vec2:
    return wp.vec2(a[1], b[0])


def subtract(v: wp.array[wp.vec2], x: wp.array[float]):
    v[0] -= v[1]
    x[0] = x[0] - x[1]


@pytest.mark.parametrize(("of", "expected"), [(wp, [2, 3]), (dk, [-2, -2])], ids=["warp", "native"])
def test_operators_of_other_types_and_of_the_native_dialect_stay(of: Any, expected: list[int]) -> None:
    v, x = wp.array([[1, 2], [3, 4]], dtype=wp.vec2), wp.array([5, 7], dtype=float)
    of.launch(of.kernel(subtract), 1, inputs=[v, x])
    assert (v.numpy()[0].tolist(), x.numpy()[0]) == (expected, -2)


# -- products of tiles -------------------------------------------------------------------------------------------------


@wp.kernel
def product(
    a: wp.array2d[float], b: wp.array2d[float], c: wp.array2d[float], beta: wp.array[float], out: wp.array2d[float]
):
    held = wp.tile_load(c, shape=(4, 4))
    wp.tile_matmul(wp.tile_load(a, shape=(4, 2)), wp.tile_load(b, shape=(2, 4)), held, alpha=1.0, beta=beta[0])
    wp.tile_store(out, held)


@pytest.mark.parametrize("beta", [0.0, 2.0])
@pytest.mark.parametrize("held", [np.inf, np.nan, 3.0])
def test_a_product_with_beta_zero_reads_nothing_that_is_not_finite(beta: float, held: float) -> None:
    given = [np.ones((4, 2)), np.ones((2, 4)), np.full((4, 4), held), [beta]]
    a, b, c, factor = (wp.array(values, dtype=float, requires_grad=True) for values in given)
    out = wp.zeros((4, 4), dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch_tiled(product, dim=[1], inputs=[a, b, c, factor], outputs=[out], block_dim=32)
    tape.backward(grads={out: wp.ones_like(out)})
    is_read = beta != 0 or np.isfinite(held)
    np.testing.assert_array_equal(out.numpy(), np.full((4, 4), 2 + beta * held if is_read else 2, np.float32))
    np.testing.assert_array_equal(a.grad.numpy(), np.full((4, 2), 4))
    np.testing.assert_array_equal(c.grad.numpy(), np.full((4, 4), beta))
    np.testing.assert_array_equal(factor.grad.numpy(), [np.float32(16 * held if is_read else 0)])


# -- values on the host ------------------------------------------------------------------------------------------------


def test_lists_of_whole_floats_are_integers() -> None:
    assert wp.array([1.0, 2.0, 3], dtype=int).numpy().tolist() == [1, 2, 3]
    assert wp.array([[1.0, 2, -3]], dtype=wp.vec3i).numpy().tolist() == [[1, 2, -3]]
    assert wp.array(np.array([2.0**63]), dtype=wp.uint64).numpy().tolist() == [2**63]
    for values in ([1.5], [256.0], [-1.0], [np.nan], [np.inf]):
        for data in (values, np.array(values)):
            with pytest.raises(TypeError, match="float64 are not converted to uint8"):
                wp.array(data, dtype=wp.uint8)
    with pytest.raises(TypeError, match="float64 are not converted to int64"):
        wp.array([2.0**63], dtype=wp.int64)


def test_rows_columns_and_keys_of_values() -> None:
    v, m = wp.vec3(1, 2, 3), wp.mat22(1, 2, 3, 4)
    m.set_row(1, (7, 8))
    m.set_col(0, (5, 6))
    assert (list(m.get_row(1)), list(m.get_col(-1))) == ([6, 8], [2, 8])
    for wrong in (lambda: m.get_row(2), lambda: m.set_col(-3, (0, 0))):
        with pytest.raises(IndexError, match=r"mat22 has 2 (row|column)s: Invalid"):
            wrong()
    for value, key in ((v, None), (m, None), (m, (0, 1, 1)), (v, (0, 1))):
        with pytest.raises(KeyError, match="Invalid key"):
            value[key]
        with pytest.raises(KeyError, match="Invalid key"):
            value[key] = 0
    a = wp.array([[1, 2, 3], [4, 5, 6]], dtype=wp.vec3h)
    assert list(wp.vec3h.from_ptr(a.ptr + 6)) == [4, 5, 6]
    with pytest.raises(RuntimeError, match="NULL pointer"):
        wp.vec3.from_ptr(0)


def twice(x: wp.array[float]):
    i = wp.tid()
    x[i] = 2.0 * x[i]


def test_options_of_modules_are_options_of_a_module_of_its_own() -> None:
    for module in (None, "others"):
        with pytest.raises(ValueError, match='module="unique"'):
            wp.kernel(module=module, module_options={"fast_math": True})(twice)
    with pytest.raises(ValueError, match=r"fast_mth.*Valid options: .*fast_math"):
        wp.kernel(module="unique", module_options={"fast_mth": True})(twice)
    with pytest.raises(ValueError, match="not -1"):
        wp.kernel(module="unique", module_options={"deterministic_max_records": -1})(twice)
    with pytest.raises(TypeError, match="not True"):
        wp.set_module_options({"deterministic_max_records": True})
    kernel = wp.kernel(module="unique", module_options={"deterministic_max_records": 2})(twice)
    assert kernel.module.options["deterministic_max_records"] == 2


# -- ranges ------------------------------------------------------------------------------------------------------------

START, STOP, STEP = wp.constant(wp.int64(1)), wp.constant(wp.int64(2**53 + 1)), wp.constant(wp.int64(2**52))
ROUNDED = wp.constant(wp.int64(2**54 + 3 * 2**30 - 1))


@wp.kernel(enable_backward=False)
def ranges(long: wp.array[wp.int64], a: wp.array[float], b: wp.array[float], c: wp.array[float]):
    wp.tile_store(long, wp.tile_arange(START, STOP, STEP, dtype=wp.int64))
    wp.tile_store(a, wp.tile_arange(0.0, 3.0000001, 0.99999999, dtype=float))
    wp.tile_store(b, wp.tile_arange(0.0, 0.3, 0.1, dtype=float))
    wp.tile_store(c, wp.tile_arange(2**54, ROUNDED, 2**31, dtype=float))


def test_ranges_are_counted_as_the_type_of_their_elements_has_the_bounds() -> None:
    long = wp.full(4, -1, dtype=wp.int64)
    a, b, c = (wp.full(5, -1.0, dtype=float) for _ in range(3))
    wp.launch_tiled(ranges, dim=[1], inputs=[], outputs=[long, a, b, c], block_dim=32)
    assert long.numpy().tolist() == [1, 1 + 2**52, -1, -1]
    np.testing.assert_array_equal(a.numpy(), [0, 1, 2, -1, -1])
    np.testing.assert_array_equal(b.numpy(), np.float32([0, 0.1, 0.2, -1, -1]))
    np.testing.assert_array_equal(c.numpy(), np.float32([2**54, -1, -1, -1, -1]))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("0, 10, 0, dtype=int", "the step cannot be zero"),
        ("5, 5, dtype=int", "non-empty range"),
        ("5, 5, 1, 99, dtype=int", "at most 3 positional arguments, got 4"),
        ("0, n, 1, dtype=int", "compile time constants, but stop is not"),
        ("0, 6, dtype=wp.bool", "requires a numeric scalar dtype"),
        ("0.0, 3.5, dtype=int", r"stop=3.5 has a fractional part"),
        ("0, 1099511627776, dtype=int", "stop=1099511627776 is out of range of int32"),
        ("0.0, 1.0e300, dtype=float", "is out of range of float32"),
        ("0, 1180591620717411303424, dtype=float", "too wide to use as an integer bound"),
        ("0.0, 1.0, 5.0e-324, dtype=wp.float64", "more elements than can be counted"),
    ],
)
def test_ranges_that_there_are_not(text: str, said: str) -> None:
    source = f"def ranged(n: int):\n    t = wp.tile_arange({text})\n"
    kernel = wp.kernel(executed(source, "ranged", {"wp": wp}))
    with pytest.raises(KernelTypeError, match=said):
        wp.launch_tiled(kernel, dim=[1], inputs=[10], block_dim=32)


# -- indexed arrays ----------------------------------------------------------------------------------------------------


def test_indexed_arrays_are_copied_and_filled_as_arrays() -> None:
    a = wp.array(np.arange(6), dtype=wp.uint8)
    seen = a[wp.array([4, 1], dtype=int)]
    assert type(wp.clone(seen)) == wp.array  # noqa: E721 - as programs for Warp compare it
    assert wp.clone(seen).numpy().tolist() == [4, 1]
    seen.fill_(257)
    assert a.numpy().tolist() == [0, 1, 2, 3, 1, 5]
    structs = wp.array([Number(1.0, 2.0), Number(3.0, 4.0)], dtype=Number)
    structs[wp.array([1], dtype=int)].zero_()
    assert [(s.re, s.im) for s in structs.list()] == [(1, 2), (0, 0)]
