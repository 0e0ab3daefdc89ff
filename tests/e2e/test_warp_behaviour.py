"""What Warp's own programs count on: shapes behind the last axis, named operators, products that overwrite, lists."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import diffkern as dk
import diffkern.warp as wp
from diffkern.errors import KernelTypeError
from diffkern.transforms.mapping import executed

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


@pytest.mark.parametrize("dim", [0, (0,), (3, 0)])
def test_launches_without_threads_take_none_for_arrays_that_are_accessed(dim: Any) -> None:
    @wp.kernel
    def copy(count: wp.array[int], out: wp.array[float]):
        if wp.tid() < count[0]:
            out[wp.tid()] = 1.0

    wp.launch(copy, dim, inputs=[None], outputs=[None])
    with pytest.raises(KernelTypeError, match="count is None in this launch"):
        wp.launch(copy, 1, inputs=[None], outputs=[None])


def _launched(kernel: Any, dim: Any, args: list[Any], how: str) -> None:
    """Launch in one of the ways that there are."""
    if how == "plain":
        wp.launch(kernel, dim, inputs=args)
    elif how == "called":
        kernel[dim](*args)
    elif how == "blocks":
        wp.launch(kernel, dim, inputs=args, block_dim=32)
    elif how == "tiled":
        wp.launch_tiled(kernel, dim=dim, inputs=args, block_dim=32)
    elif how == "device":
        wp.launch(kernel, dim, inputs=args, device="cpu")
    elif how == "taped":
        with wp.Tape():
            wp.launch(kernel, dim, inputs=args)
    else:
        with wp.ScopedCapture() as capture:
            wp.launch(kernel, dim, inputs=args)
        wp.capture_launch(capture.graph)


WAYS = ["plain", "called", "blocks", "tiled", "device", "taped", "captured"]
NOTHING = [0, (0,), [2, 0], (0, 2**40), np.int64(0), np.array([3, 0])]


@pytest.mark.parametrize("how", WAYS)
@pytest.mark.parametrize("dim", NOTHING, ids=repr)
def test_kernels_are_not_compiled_for_launches_without_threads(dim: Any, how: str) -> None:
    def wrong(x: wp.array(dtype=float)):  # type: ignore[valid-type]
        x[wp.tid()] = there_is_no_such_name  # noqa: F821

    kernel, x = wp.kernel(wrong), wp.ones(3, dtype=float)
    for _ in range(2):
        _launched(kernel, dim, [x], how)
    assert not kernel.programs
    assert x.numpy().tolist() == [1.0, 1.0, 1.0]
    with pytest.raises(dk.KernelError, match="there_is_no_such_name"):
        _launched(kernel, 1, [x], how)


def test_kernels_of_the_native_dialect_are_compiled_for_them() -> None:
    @dk.kernel
    def wrong(x: dk.array[float]):
        x[dk.tid()] = there_is_no_such_name  # noqa: F821

    with pytest.raises(dk.KernelError, match="there_is_no_such_name"):
        dk.launch(wrong, 0, [dk.ones(3, dtype=float)])


@pytest.mark.parametrize("how", WAYS)
@pytest.mark.parametrize(
    ("args", "message"),
    [
        ([], "takes 2 arguments"),
        ([wp.ones(3, dtype=float)], "takes 2 arguments"),
        ([wp.ones(3, dtype=int), 1], "takes array1d<float32>, not array1d<int32>"),
        ([wp.ones((3, 2), dtype=float), 1], "takes array1d<float32>, not array2d<float32>"),
        ([wp.ones(3, dtype=float), "one"], "parameter 'n'"),
        ([1.0, 1], "parameter 'x'"),
    ],
    ids=["none", "one", "dtype", "ndim", "text", "number"],
)
def test_arguments_of_launches_without_threads_fit(args: list[Any], message: str, how: str) -> None:
    @wp.kernel
    def shifted(x: wp.array[float], n: int):
        x[wp.tid()] = float(n)

    for _ in range(2):  # the second launch knows what the first one has found
        with pytest.raises(dk.LaunchError, match=message):
            _launched(shifted, 0, args, how)
    assert not shifted.programs


@pytest.mark.parametrize("how", ["plain", "called", "blocks", "device", "taped", "captured"])
@pytest.mark.parametrize("dim", [(0, -1), (0,) * 5, 0.0, "0", (), (0, 2**62), False, None], ids=repr)
def test_what_is_no_dimension_is_an_error_beside_an_extent_of_zero(dim: Any, how: str) -> None:
    @wp.kernel
    def shifted(x: wp.array[float]):
        x[wp.tid()] = 2.0

    with pytest.raises(dk.LaunchError, match=r"dim|extent"):
        _launched(shifted, dim, [wp.ones(3, dtype=float)], how)


def test_launches_without_threads_leave_gradients_as_they_are() -> None:
    @wp.kernel
    def power(x: wp.array[float], n: float, y: wp.array[float]):
        i = wp.tid()
        y[i] += wp.pow(x[i], n)

    x = wp.array([1.0, 2.0, 3.0], dtype=float, requires_grad=True)
    y = wp.zeros(3, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(power, 0, inputs=[x, 3.0], outputs=[y])
        wp.launch(power, 3, inputs=[x, 2.0], outputs=[y])
        wp.launch(power, 0, inputs=[x, 4.0], outputs=[y])
    y.grad.fill_(1.0)
    tape.backward()
    assert y.numpy().tolist() == [1.0, 4.0, 9.0]
    assert x.grad.numpy().tolist() == [2.0, 4.0, 6.0]


def test_what_a_kernel_has_become_counts_for_launches_without_threads_too() -> None:
    """A captured name that is bound again makes another program, whose launches with threads see it."""

    def made(factor: float) -> Any:
        @wp.kernel
        def scaled(x: wp.array[float]):
            x[wp.tid()] *= wp.static(factor)

        return scaled

    x = wp.ones(2, dtype=float)
    for factor in (2.0, 3.0):
        kernel = made(factor)
        for dim in (0, 2, 0):
            wp.launch(kernel, dim, inputs=[x])
    assert x.numpy().tolist() == [6.0, 6.0]


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


@wp.kernel
def there_and_back(m: wp.array[wp.mat22], out: wp.array[wp.mat22]):
    i = wp.tid()
    out[i] = 2.0 * wp.untile(wp.tile(m[i]))


def test_tiles_of_matrices_are_taken_apart() -> None:
    m = wp.array(np.arange(8).reshape(2, 2, 2), dtype=wp.mat22, requires_grad=True)
    out = wp.zeros(2, dtype=wp.mat22, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(there_and_back, 2, inputs=[m], outputs=[out], block_dim=2)
    tape.backward(grads={out: m})
    np.testing.assert_array_equal(out.numpy(), 2 * m.numpy())
    np.testing.assert_array_equal(m.grad.numpy(), 2 * m.numpy())


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


class OtherTensor:
    """Numbers of another library, which NumPy can read."""

    def __init__(self, numbers: list[float]) -> None:
        self.numbers = np.array(numbers, np.float32)

    def __array__(self, dtype: object = None, copy: object = None) -> np.ndarray:
        return self.numbers


def test_tensors_of_whole_floats_are_integers() -> None:
    assert wp.array(OtherTensor([1.0, -2.0]), dtype=wp.int32).numpy().tolist() == [1, -2]
    for numbers, dtype in (([1.5], wp.int32), ([-1.0], wp.uint8), ([2.0**31], wp.int32)):
        with pytest.raises(TypeError, match="use astype"):
            wp.array(OtherTensor(numbers), dtype=dtype)


def test_rows_columns_and_keys_of_values() -> None:
    v, m = wp.vec3(1, 2, 3), wp.mat22(1, 2, 3, 4)
    m.set_row(1, (7, 8))
    m.set_col(0, (5, 6))
    assert (list(m.get_row(1)), list(m.get_col(-1))) == ([6, 8], [2, 8])
    for wrong in (lambda: m.get_row(2), lambda: m.set_col(-3, (0, 0))):
        with pytest.raises(IndexError, match=r"mat22 has 2 (row|column)s, and no (row 2|column -3)"):
            wrong()
    none, many = "None is no index", r"\d indices of a (vector|matrix)"
    for value, key, said in ((v, None, none), (m, None, none), (m, (0, 1, 1), many), (v, (0, 1), many)):
        with pytest.raises(KeyError, match=said):
            value[key]
        with pytest.raises(KeyError, match=said):
            value[key] = 0
    a = wp.array([[1, 2, 3], [4, 5, 6]], dtype=wp.vec3h)
    assert list(wp.vec3h.from_ptr(a.ptr + 6)) == [4, 5, 6]
    with pytest.raises(RuntimeError, match="nothing at the address 0"):
        wp.vec3.from_ptr(0)


def twice(x: wp.array[float]):
    i = wp.tid()
    x[i] = 2.0 * x[i]


def test_options_of_modules_are_options_of_a_module_of_its_own() -> None:
    for module in (None, "others"):
        with pytest.raises(ValueError, match='module="unique"'):
            wp.kernel(module=module, module_options={"fast_math": True})(twice)
    with pytest.raises(ValueError, match=r"no option 'fast_mth'; it has .*fast_math"):
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
        ("0, 10, 0, dtype=int", "does not advance by a step of 0"),
        ("5, 5, dtype=int", "from 5 to 5 by 1 has no elements"),
        ("5, 5, 1, 99, dtype=int", "start, stop and step by position, and 4 are given"),
        ("0, n, 1, dtype=int", "stop is not known when the kernel is compiled"),
        ("0, 6, dtype=wp.bool", "the elements of wp.tile_arange are numbers, not bool"),
        ("0.0, 3.5, dtype=int", r"stop=3.5 has a fractional part"),
        ("0, 1099511627776, dtype=int", "stop=1099511627776 is out of range of int32"),
        ("0.0, 1.0e300, dtype=float", "is out of range of float32"),
        ("0, 1180591620717411303424, dtype=float", "is an integer that is too large for a bound"),
        ("0.0, 1.0, 5.0e-324, dtype=wp.float64", "more elements than a tile can have"),
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


# -- operators of arrays, and maps -------------------------------------------------------------------------------------


def test_operators_of_arrays_follow_the_dialect_of_their_arrays() -> None:
    a, b = [7, -7], [2, 2]
    mine, warps = (of.array(a, dtype=int) / of.array(b, dtype=int) for of in (dk, wp))
    assert (mine.dtype, mine.numpy().tolist()) == (dk.float32, [3.5, -3.5])
    assert (warps.dtype, warps.numpy().tolist()) == (wp.int32, [3, -3])
    assert (wp.array(a, dtype=int) % 4).numpy().tolist() == [3, -3]
    assert (dk.array(a, dtype=int) % 4).numpy().tolist() == [3, 1]


def test_results_of_maps_operators_and_gradients_are_in_the_dialect() -> None:
    x = wp.array([1.0, 2.0], dtype=float, requires_grad=True)
    (made,) = {
        type(item) for of in (wp.map(lambda a: wp.vec3(a, a, a), x), -wp.ones(2, dtype=wp.vec3)) for item in of.list()
    }
    assert made is wp.vec3
    assert type(wp.ones(1, dtype=wp.vec3, requires_grad=True).grad.list()[0]) is wp.vec3


def test_maps_and_operators_of_indexed_arrays() -> None:
    a = wp.array(np.arange(6), dtype=float)
    seen = a[wp.array([1, 4], dtype=int)]
    assert wp.map(lambda x: 10.0 * x, seen).numpy().tolist() == [10, 40]
    assert wp.map(lambda x: x + 1.0, seen, out=seen) is seen
    seen *= 2.0
    assert (10.0 * seen).numpy().tolist() == [40, 100]
    assert a.numpy().tolist() == [0, 4, 2, 3, 10, 5]


def test_the_kernel_of_a_map_is_one_of_the_module() -> None:
    x, y = wp.array([1.0, 2.0, 3.0], dtype=float), wp.zeros(3, dtype=float)
    kernels = {wp.map(wp.sqrt, x, return_kernel=True) for _ in range(2)}
    (kernel,) = kernels
    assert isinstance(kernel, wp.Kernel)
    wp.launch(kernel, 3, inputs=[x], outputs=[y])
    np.testing.assert_allclose(y.numpy(), np.sqrt(x.numpy()))


# -- overloads of kernels ----------------------------------------------------------------------------------------------


def test_overloads_of_a_kernel() -> None:
    @wp.kernel(name="doubling")
    def double(x: wp.array[Any]):
        i = wp.tid()
        x[i] = x[i] + x[i]

    generic = double

    @wp.overload
    def double(x: wp.array[float]): ...

    assert double is generic
    whole = generic.add_overload([wp.array[int]])
    assert (whole is generic.add_overload({"x": wp.array[int]}), len(generic.overloads)) == (True, 2)
    x = wp.array([1, 2], dtype=int)
    wp.launch(whole, 2, inputs=[x])
    assert x.numpy().tolist() == [2, 4]
    with pytest.raises(TypeError, match="leave out its return annotation"):

        @wp.overload
        def double(x: wp.array[float]) -> float: ...

    other = wp.kernel(name="other", module=generic.module)(generic.func)
    with pytest.raises(dk.MisuseError, match="is the function of several kernels"):

        @wp.overload
        def double(x: wp.array[wp.vec2]): ...

    assert other.key == "other"


# -- return annotations ------------------------------------------------------------------------------------------------


@wp.func
def narrowed(x: int) -> wp.int16:
    return wp.int8(x)


@wp.func
def pair(x: int) -> int:
    return x, x * x


@wp.func
def mixed(x: int) -> tuple[int, int]:
    return x, 1.23


@wp.func
def short(x: int) -> tuple[int, int, int]:
    return x, x


@wp.func
def right(x: int, n: Number) -> tuple[float, wp.vec2, Number]:
    return float(x), wp.vec2(n.re, n.im), n


@pytest.mark.parametrize(
    ("called", "said"),
    [
        ("narrowed(1)", "narrowed says that it returns wp.int16, and it returns int8"),
        ("pair(1)", "pair says that it returns int, and it returns 2 values"),
        ("mixed(1)", r"says that it returns tuple\[int, int\], and it returns values of int32, float32"),
        ("short(1)", "short says that it returns 3 values, and it returns 2"),
    ],
)
def test_funcs_return_what_they_are_annotated_with(called: str, said: str) -> None:
    kernel = wp.kernel(executed(f"def calls(n: int):\n    x = {called}\n", "calls", globals() | {"__name__": "calls"}))
    with pytest.raises(KernelTypeError, match=said):
        wp.launch(kernel, 1, inputs=[1])


@wp.kernel
def calls_right(n: Number, out: wp.array[float]):
    x, v, m = right(2, n)
    out[0] = x + v[0] + m.im


def test_right_annotations_are_taken() -> None:
    out = wp.zeros(1, dtype=float)
    wp.launch(calls_right, 1, inputs=[Number(10.0, 100.0), out])
    assert out.numpy()[0] == 112


# -- memory ------------------------------------------------------------------------------------------------------------


def test_copies_of_parts_of_arrays_with_one_axis() -> None:
    a, b = wp.array(np.arange(4), dtype=float)[::2], wp.array(np.arange(8), dtype=float)[::2]
    wp.copy(b, a)
    assert b.numpy().tolist() == [0, 2, 4, 6]
    wp.copy(b[1:], a)
    assert b.numpy().tolist() == [0, 0, 2, 6]


def test_arrays_full_of_lists_and_arrays_of_components() -> None:
    for value, dtype in (([1, 2], wp.vec2i), ((1.0, 2.0, 3.0), wp.vec3), (np.eye(2), wp.mat22d)):
        a = wp.full(2, value)
        assert a.dtype == dtype
        np.testing.assert_array_equal(a.numpy()[1], value)
    assert (wp.vec3._wp_generic_type_str_, wp.mat22._wp_type_params_[:2]) == ("vec_t", [2, 2])
    assert (wp.quat._wp_generic_type_str_, wp.transform._wp_generic_type_str_) == ("quat_t", "transform_t")


def test_dlpack_takes_integers_of_one_width_for_each_other() -> None:
    flags = wp.array([True, False], dtype=wp.bool)
    seen = wp.from_dlpack(wp.to_dlpack(flags), dtype=wp.uint8)
    assert (seen.ptr, seen.numpy().tolist()) == (flags.ptr, [1, 0])
    assert wp.from_dlpack(wp.array([-1], dtype=wp.int32), dtype=wp.uint32).numpy().tolist() == [2**32 - 1]
    for wrong in (wp.int16, wp.uint64):
        with pytest.raises(TypeError, match="of type int32"):
            wp.from_dlpack(wp.array([-1], dtype=wp.int32), dtype=wrong)


@pytest.mark.parametrize("ranges", [(0, -1, 2), (0, 2, 5), (2, 1, 4)])
def test_segments_outside_of_what_is_sorted(ranges: tuple[int, ...]) -> None:
    keys, values = wp.array([4, 3, 2, 1] + [0] * 4, dtype=int), wp.array(np.arange(8), dtype=int)
    with pytest.raises(ValueError, match="Invalid segment range at index"):
        wp.utils.segmented_sort_pairs(keys, values, 4, wp.array(ranges, dtype=int))
    assert keys.numpy().tolist() == [4, 3, 2, 1, 0, 0, 0, 0]


def test_blocks_of_several_threads_on_the_cpu_are_warned_of() -> None:
    with pytest.warns(UserWarning, match="blocks on the CPU have one thread"):
        wp.config.enable_cpu_blocks = True
    wp.config.enable_cpu_blocks = False


# -- narrow floats -----------------------------------------------------------------------------------------------------


@wp.kernel
def squares_of_eigenvalues(m: wp.array[wp.mat33h], out: wp.array[wp.float16]):
    _q, d = wp.eig3(m[0])
    out[0] = wp.dot(d, d)


def test_the_gradient_of_eigenvalues_closer_than_one_over_the_greatest_number() -> None:
    m = wp.array([np.diag([0.0, 1e-5, 1.0])], dtype=wp.mat33h, requires_grad=True)
    out = wp.zeros(1, dtype=wp.float16, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(squares_of_eigenvalues, 1, inputs=[m], outputs=[out])
    tape.backward(grads={out: wp.ones(1, dtype=wp.float16)})
    np.testing.assert_allclose(m.grad.numpy()[0], np.diag([0.0, 2e-5, 2.0]), atol=1e-4)


@wp.func
def of_columns(a: wp.vec3, b: wp.vec3) -> wp.types.matrix((3, 2), float):
    return wp.types.matrix((3, 2), float)(a, b)


@dk.func
def native_of_rows(a: dk.vec2, b: dk.vec2) -> dk.mat22:
    return dk.mat22(a, b)


@wp.kernel
def matrices_of_columns(v: wp.array(dtype=wp.vec3), out: wp.array(dtype=float, ndim=2)):
    m = of_columns(v[0], v[1])
    for i in range(3):
        for j in range(2):
            out[i, j] = m[i, j]


@wp.kernel
def matrix_of_a_vector_and_numbers(out: wp.array(dtype=wp.mat22)):
    out[0] = wp.mat22(wp.vec2(1.0, 2.0), 3.0)


@wp.kernel
def matrices(out: wp.array(dtype=wp.mat22)):
    a, b = wp.vec2(1.0, 2.0), wp.vec2(3.0, 4.0)
    out[0] = native_of_rows(a, b)
    out[1] = wp.matrix_from_rows(a, b)
    out[2] = wp.matrix_from_cols(a, b)


def test_a_matrix_called_with_vectors_takes_columns_in_kernels():
    # Every release of Warp that took vectors in kernels took the columns; later ones refuse them.
    v = wp.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], dtype=wp.vec3, requires_grad=True)
    out = wp.zeros((3, 2), requires_grad=True)
    with (
        pytest.warns(DeprecationWarning, match="takes them as columns in a kernel; write matrix_from_cols"),
        wp.Tape() as tape,
    ):
        wp.launch(matrices_of_columns, 1, [v, out])
    assert out.numpy().tolist() == [[1, 4], [2, 5], [3, 6]]
    tape.backward(grads={out: wp.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])})
    assert v.grad.numpy().tolist() == [[1, 3, 5], [2, 4, 6]]
    with pytest.raises(wp.KernelTypeError, match=r"mat22 of vec2<float32> and others") as caught:
        wp.launch(matrix_of_a_vector_and_numbers, 1, [wp.zeros(1, dtype=wp.mat22)])
    assert "matrix_from_rows takes the rows, and matrix_from_cols the columns; give 4 numbers" in str(caught.value)


def test_matrices_of_vectors_say_which_way():
    out = wp.zeros(3, dtype=wp.mat22)
    wp.launch(matrices, 1, [out])
    assert out.numpy().tolist() == [[[1, 2], [3, 4]], [[1, 2], [3, 4]], [[1, 3], [2, 4]]]
    assert np.asarray(wp.mat22(wp.vec2(1.0, 2.0), wp.vec2(3.0, 4.0))).tolist() == [[1, 2], [3, 4]]
