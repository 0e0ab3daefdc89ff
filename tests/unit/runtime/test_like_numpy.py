"""Arrays on the host as NumPy's: comparisons, conditions, axes, means, extremes, texts; and what stays different."""

from __future__ import annotations

import operator
import re
import traceback
from pathlib import Path

import numpy as np
import pytest

import diffkern as dk
import diffkern.warp as wp
from diffkern import cuda
from diffkern.ir.types import FLOAT32, Array
from diffkern.printing.executor import _View, _Watch

A, B = np.array([1.0, 2.0, 3.0], np.float32), np.array([1.0, 5.0, 2.0], np.float32)
CUBE = np.random.default_rng(0).normal(size=(4, 5, 3))
PAGE = Path(__file__).parents[3] / "docs" / "host_arrays.rst"

# The attributes, methods and operators of an array in the array-API standard, version 2024.12.
STANDARD = """
    __abs__ __add__ __and__ __array_namespace__ __bool__ __complex__ __dlpack__ __dlpack_device__ __eq__ __float__
    __floordiv__ __ge__ __getitem__ __gt__ __index__ __int__ __invert__ __le__ __lshift__ __lt__ __matmul__ __mod__
    __mul__ __ne__ __neg__ __or__ __pos__ __pow__ __rshift__ __setitem__ __sub__ __truediv__ __xor__ to_device
    dtype device mT ndim shape size T
""".split()
ABSENT = {"__array_namespace__", "__lshift__", "__rshift__", "to_device"}


@pytest.fixture
def a():
    return dk.array(A)


# -- comparisons -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("compare", [operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge])
def test_comparisons_are_by_element(a, compare):
    for other, numbers in ((dk.array(B), B), (2.0, 2.0), (B, B)):
        found = compare(a, other)
        assert found.dtype == np.bool_
        np.testing.assert_array_equal(found.numpy(), compare(A, numbers))
    np.testing.assert_array_equal(compare(2.0, a).numpy(), compare(2.0, A))
    np.testing.assert_array_equal(compare(a, dk.array(np.arange(3))).numpy(), compare(A, np.arange(3)))


def test_what_is_compared(a):
    assert (a == [1, 2, 3]).all()
    assert (a[:, None] == a).numpy().tolist() == np.eye(3, dtype=bool).tolist()
    assert (dk.ones(2, dtype=dk.vec3) == dk.vec3(1, 1, 1)).tolist() == [True, True]
    assert a != None  # noqa: E711 - no array is None, by element or not
    assert not a == "text"
    assert (a[dk.array([0, 2], dtype=int)] == dk.array(A[[0, 2]])).all()  # seen through an index array
    with pytest.raises(ValueError, match="broadcast"):
        _ = a == dk.zeros(4)
    with pytest.raises(TypeError, match="not supported"):
        _ = a < "text"


def test_conditions_are_combined(a):
    np.testing.assert_array_equal(((a > 1.0) & (a < 3.0)).numpy(), (A > 1) & (A < 3))
    np.testing.assert_array_equal(((a > 2.0) | ~(a > 1.0)).numpy(), (A > 2) | ~(A > 1))
    np.testing.assert_array_equal(((a > 1.0) ^ (a > 2.0)).numpy(), (A > 1) ^ (A > 2))
    assert (abs(-a) == a).all()
    assert (~dk.array([0, 5])).tolist() == [-1, -6]


def test_an_array_is_a_condition_only_with_one_element(a):
    assert dk.ones(1)
    assert not dk.zeros((1, 1))
    for several in (a, a == a, dk.zeros(0)):
        with pytest.raises(dk.MisuseError, match="is no condition") as error:
            bool(several)
        assert ".all() or .any()" in error.value.remedy


def test_arrays_stay_keys(a):
    other = dk.array(A)
    known = {a: 1, other: 2}
    assert (known[a], known[other], len({a, other, a})) == (1, 2, 2)


def test_structs_are_compared_by_fields():
    @dk.struct
    class Point:
        at: dk.vec2

    points = dk.zeros(2, dtype=Point)
    with pytest.raises(dk.MisuseError, match="structs") as error:
        _ = points == points
    assert "field" in error.value.remedy
    assert (points.field("at") == points.field("at")).all()


def test_warps_arrays_are_told_apart_by_identity():
    x = wp.array(A, dtype=wp.float32)
    assert (x == wp.array(A, dtype=wp.float32)) is False
    assert (x == x) is True
    assert x
    assert x != dk.array(A)


def test_numbas_arrays_are_told_apart_by_identity():
    x = cuda.to_device(A)
    assert (x == cuda.to_device(A)) is False
    assert (x == x) is True
    assert x
    assert not cuda.to_device(A[:0])


def test_a_comparison_is_recorded(a):
    with dk.record(run=False) as sequence:
        a.fill_(2.0)
        equal = a == 2.0
        for read in (equal.all, equal.any, a.argmax, a.item, a.tolist, lambda: bool(a.sum()), lambda: f"{a.max():.1f}"):
            with pytest.raises((dk.LaunchError, ValueError)):
                read()
    sequence.replay()
    assert equal.all()


def test_no_gradient_passes_a_comparison():
    x = dk.array(A, requires_grad=True)
    with dk.Tape() as tape:
        chosen = x * (x > 1.5).astype(float)
        loss = chosen.sum()
    tape.backward(loss)
    assert x.grad.tolist() == [0.0, 1.0, 1.0]


# -- axes and numbers --------------------------------------------------------------------------------------------------


def test_new_axes():
    x = dk.array(CUBE[0], dtype=dk.float64, requires_grad=True)
    for index in (np.s_[:, None], np.s_[None], np.s_[..., None], np.s_[0, None], np.s_[:, None, 1:], np.s_[1, 2, None]):
        np.testing.assert_array_equal(x[index].numpy(), CUBE[0][index])
    with dk.Tape() as tape:
        loss = (x[:, None, 0] * dk.array([2.0, 3.0])).sum()
    tape.backward(loss)
    np.testing.assert_array_equal(x.grad.numpy(), [[5.0, 0.0, 0.0]] * 5)
    x[:, None] = 1.0
    assert (x == 1.0).all()
    with pytest.raises(ValueError, match="1 to 4 axes"):
        x[None, None, None]
    with pytest.raises(TypeError, match="not by"):
        x[dk.array([0]), None]


@pytest.mark.parametrize("axis", [None, 0, 1, -1])
@pytest.mark.parametrize("name", ["mean", "max", "min"])
def test_means_and_extremes(name, axis):
    x = dk.array(CUBE, dtype=dk.float64, requires_grad=True)
    with dk.Tape() as tape:
        found = getattr(x, name)(axis)
    want = np.atleast_1d(getattr(CUBE, name)(axis=axis))
    np.testing.assert_allclose(found.numpy(), want, rtol=1e-14)
    tape.backward(grads={found: dk.ones_like(found, requires_grad=False)})
    if name == "mean":
        spread = np.full(CUBE.shape, want.size / CUBE.size)
    else:
        spread = CUBE == getattr(CUBE, name)(axis=axis, keepdims=True)
    np.testing.assert_allclose(x.grad.numpy(), spread, rtol=1e-14)


def test_extremes_of_odd_numbers():
    assert np.isnan(dk.array([1.0, np.nan, 2.0]).max().item())
    assert np.isnan(dk.array([np.nan, 1.0]).min().item())
    many = np.random.default_rng(1).normal(size=3000)
    assert float(dk.array(many).max()) == many.max()
    assert dk.array([3, 200, 5], dtype=dk.uint8).max().item() == 200
    assert dk.array([1, 2]).mean().item() == 1.5
    assert np.isnan(dk.zeros(0).mean().item())
    assert dk.zeros((0, 3)).max(1).shape == (0,)
    for refused in (lambda: dk.zeros(0).max(), lambda: dk.zeros((0, 3)).min(0), lambda: dk.zeros(2, dtype=bool).max()):
        with pytest.raises(dk.LaunchError):
            refused()


def test_places_and_truth():
    x = dk.array(CUBE)
    assert (x.argmax(), x.argmin()) == (CUBE.argmax(), CUBE.argmin())
    assert dk.array([0.0, 1.0]).any()
    assert not dk.array([0, 1]).all()
    with pytest.raises(ValueError, match="no element"):
        dk.zeros(0).argmax()
    with pytest.raises(dk.LaunchError, match="arrays of numbers"):
        dk.zeros(2, dtype=dk.vec2).any()


def test_one_element_is_a_number(a):
    assert f"{a.mean():.3f} {a[:1]} {dk.array([7]):04d}" == "2.000 [1.] 0007"
    assert [10, 20][dk.array([1])] == 20
    assert complex(dk.full(1, 2.0)) == 2.0
    with pytest.raises(TypeError, match="is for one number"):
        format(a, ".3f")
    with pytest.raises(TypeError, match="an index is for arrays"):
        operator.index(dk.ones(1))


def test_facts(a):
    assert a.tolist() == a.list() == [1.0, 2.0, 3.0]
    assert wp.array([[1.0], [2.0]], dtype=wp.float32).tolist() == [[1.0], [2.0]]
    assert (a.nbytes, dk.zeros(2, dtype=dk.vec3).nbytes) == (12, 24)


@pytest.mark.parametrize("name", ["float32", "int64", "bool", "complex64"])
def test_types_by_name(name):
    made = dk.zeros(2, dtype=name)
    known = np.dtype(name)
    assert made.numpy().dtype == known
    if name != "complex64":
        assert made.dtype == known
        assert known == made.dtype
        assert made.dtype == known.type
        assert made.dtype == name
    assert made.dtype != np.float16
    assert dk.zeros(1, dtype="vec3").dtype == dk.vec3
    assert dk.bfloat16 != np.uint16  # which only its bits are


def test_a_list_of_floats_is_float64_and_the_message_says_what_to_write():
    @dk.kernel
    def double(x: dk.array[float]):
        i = dk.tid()
        x[i] = 2.0 * x[i]

    with pytest.raises(dk.LaunchError, match="array1d<float64>") as error:
        dk.launch(double, 2, inputs=[dk.array([1.0, 2.0])])
    assert "dtype=float" in error.value.remedy


def test_matplotlib_draws_an_array(a):
    axes = pytest.importorskip("matplotlib.figure").Figure().subplots()
    (line,) = axes.plot(a)
    np.testing.assert_array_equal(line.get_ydata(), A)


# -- the page ----------------------------------------------------------------------------------------------------------


def test_the_page_has_the_standards_names():
    rows = dict(re.findall(r"^   \* - ``(\w+)``\n     - (.+)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE))
    assert list(rows) == sorted(STANDARD, key=lambda name: (not name.startswith("__"), name.lower()))
    for name, said in rows.items():
        assert said.startswith("absent") == (name in ABSENT) == (not hasattr(dk.array, name)), name


# -- arrays in pdb -----------------------------------------------------------------------------------------------------


def test_an_array_of_readable_source_shows_itself():
    shown = repr(_View("x", Array(FLOAT32, 1), A, _Watch(None)))
    assert shown == "x: float32, shape (3,), [1., 2., 3.]"


# -- what mistakes are told --------------------------------------------------------------------------------------------


def test_a_class_that_is_no_struct():
    class Point:
        at: float

    with pytest.raises(TypeError, match=r"Point is not an element type: .* write @dk.struct above the class"):
        dk.zeros(2, dtype=Point)


def test_a_complex_number_stored_as_a_float():
    @dk.kernel
    def root(x: dk.array[float]):
        x[0] = x[0] ** 0.5j

    with pytest.raises(dk.KernelTypeError, match="is a complex number") as error:
        dk.launch(root, 1, inputs=[dk.ones(1)])
    assert "z.real" in error.value.remedy


def test_a_missing_gpu_is_told_in_the_programs_line():
    if dk.is_cuda_available():
        pytest.skip("there is one")
    with pytest.raises(dk.MisuseError, match="there is no device") as error:
        dk.zeros(3, device="cuda")
    assert len(traceback.extract_tb(error.value.__traceback__)) <= 2


def test_a_warning_names_the_programs_line():
    with pytest.warns(UserWarning, match="has no effect") as said:
        dk.zeros(3, dtype=int, requires_grad=True)
    assert said[0].filename == __file__


def test_means_of_halves_lie_within_their_range() -> None:
    a = dk.full(70000, 2.0, dtype=dk.float16, requires_grad=True)
    with dk.Tape() as tape:
        mean = a.mean()
    assert mean.dtype == dk.float16
    assert mean.item() == 2.0
    tape.backward(grads={mean: [700.0]})
    assert np.array_equal(a.grad.numpy(), np.full(70000, np.float16(0.01)))


def test_types_of_complex_numbers_equal_numpys() -> None:
    known = dk.zeros(1, dtype=dk.complex64).dtype
    assert known == np.complex64 == known
    assert known == np.dtype(np.complex64) == known
    assert known != np.complex128
    assert known not in (dk.complex128, dk.vec2)
    assert {known: 1}[dk.complex64] == 1


@pytest.mark.parametrize(
    "expression",
    [
        "x * (x > 0)",
        "(x > 0) * x",
        "x + True",
        "x == True",
        "(x > 0) == 1",
        "x * [True, False, True]",
        "x - [1.0, 2, 3]",
    ],
)
def test_bools_and_lists_beside_numbers(expression: str) -> None:
    held = np.float32([1.0, -2.0, 3.0])
    ours = eval(expression, {"x": dk.array(held)})
    theirs = eval(expression.replace("[", "np.array([").replace("]", "])"), {"x": held, "np": np})
    np.testing.assert_array_equal(ours.numpy(), theirs)


def test_a_mask_passes_gradients_of_what_it_keeps() -> None:
    x = dk.array([1.0, -2.0, 3.0], dtype=float, requires_grad=True)
    with dk.Tape() as tape:
        total = (x * x * (x > 0)).sum()
    tape.backward(total)
    assert x.grad.list() == [2.0, 0.0, 6.0]


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("x == ['a']", "== of an array and .'a'"), ("x + 'a'", r"\+ of an array and 'a'"),
        ("x * None", r"\* of an array and None"), ("x & 1", "^& of float32"), ("x.mean('a')", "no axis 'a'"),
        ("x.copy()", r"dk.clone\(x\)"), ("x.exp()", r"dk.map\(dk.exp, x\)"), ("x.clip(0.0, 1.0)", "dk.map.dk.clamp"),
        ("dk.softmax(x)", "page on tiles"), ("dk.sum(x)", r"x.sum\(\)"), ("dk.relu(x)", r"dk.max\(v, 0.0\)"),
        ("x.backward()", "tape.backward"), ("x.cpu()", r"x.numpy\(\)"), ("x[x > 0]", r"x.numpy\(\)\[mask\]"),
        ("dk.zeros(3, 4)", r"dk.zeros\(\(3, 4\)\)"), ("dk.optim.Adam(x)", r"write \[x\] for one"),
        ("scale[3](x, a=2.0)", "takes its arguments in order, not by name: a"),
        ("dk.launch(scale, x, [x, 2.0])", "dim must be an integer"), ("Sim().step[3](x)", "above @dk.kernel"),
        ("x.__cuda_array_interface__", "host memory"),
    ],
)  # fmt: skip
def test_what_is_said_of_mistakes(expression: str, said: str) -> None:
    @dk.kernel
    def scale(x: dk.array[float], a: float):
        x[dk.tid()] *= a

    class Sim:
        @dk.kernel
        def step(self, x: dk.array[float]):
            x[dk.tid()] *= 2.0

    with pytest.raises((dk.KernelError, TypeError, ValueError, AttributeError), match=said):
        eval(expression, {"x": dk.ones(3), "dk": dk, "scale": scale, "Sim": Sim})


def test_a_sweep_that_begins_with_nothing() -> None:
    x = dk.ones(3, requires_grad=True)
    with dk.Tape() as tape:
        y = x * x
    with pytest.raises(dk.LaunchError, match="all of them are zero"):
        tape.backward()
    y.grad.fill_(1.0)
    tape.backward()
    assert x.grad.list() == [2.0] * 3


@pytest.mark.parametrize("operator", "+ - * / // % ** < <= > >= == !=".split())
def test_what_stands_on_the_right_of_an_array_of_numpy(operator: str) -> None:
    held, other = np.float32([1.0, -2.0, 3.0]), np.float32([2.0, 2.0, 3.0])
    found = eval(f"held {operator} x", {"held": held, "x": dk.array(other)})
    assert isinstance(found, dk.array)
    np.testing.assert_allclose(found.numpy(), eval(f"held {operator} other", {"held": held, "other": other}), rtol=1e-6)


@pytest.mark.parametrize("operator", "&|^")
def test_bits_beside_an_array_of_numpy(operator: str) -> None:
    held, other = np.int32([1, 2, 3]), np.int32([2, 2, 5])
    found = eval(f"held {operator} x", {"held": held, "x": dk.array(other)})
    assert isinstance(found, dk.array)
    np.testing.assert_array_equal(found.numpy(), eval(f"held {operator} other", {"held": held, "other": other}))


@pytest.mark.parametrize(
    ("expression", "gradient"), [("a + x", [1, 1]), ("a - x", [-1, -1]), ("a * x", [5, 7]), ("a / x", [-5, -1.75])]
)
def test_gradients_pass_operators_of_numpys_arrays(expression: str, gradient: list[float]) -> None:
    x = dk.array([1.0, 2.0], dtype=float, requires_grad=True)
    with dk.Tape() as tape:
        total = eval(expression, {"a": np.float32([5.0, 7.0]), "x": x}).sum()
    tape.backward(total)
    assert x.grad.list() == gradient


def test_a_matrix_of_numpy_times_an_array() -> None:
    a = np.float32([[1.0, 2.0], [3.0, 4.0]])
    x = dk.array(np.float32([[1.0], [2.0]]), requires_grad=True)
    with dk.Tape() as tape:
        y = a @ x
        total = y.sum()
    tape.backward(total)
    np.testing.assert_array_equal(y.numpy(), a @ x.numpy())
    np.testing.assert_array_equal(x.grad.numpy(), [[4.0], [6.0]])


def test_what_stays_with_numpy() -> None:
    a, x = np.float32([5.0, 7.0]), dk.array([1.0, 2.0], dtype=float)
    assert type(np.exp(x)) is type(np.add(a, x, out=a)) is np.ndarray
    a += x
    assert type(a) is np.ndarray
    np.testing.assert_array_equal(a, [7.0, 11.0])
    # Of Warp's dialect, as in Warp.
    assert type(a + wp.array([1.0, 2.0], dtype=float)) is type(a < wp.array([1.0, 2.0], dtype=float)) is np.ndarray


@pytest.mark.parametrize("name", ["sum", "mean", "max", "min", "any", "all"])
def test_reductions_of_numpy(name: str) -> None:
    held = np.float32([[1.0, 5.0, 2.0], [0.0, 1.0, 3.0]])
    x, function = dk.array(held), getattr(np, name)
    np.testing.assert_allclose(function(x), function(held))
    assert type(function(x)) is type(getattr(x, name)())
    assert type(function(wp.array(held))) is type(function(held))
    with pytest.raises(dk.MisuseError, match=rf"np.{name} of .* does not take keepdims=True"):
        function(x, keepdims=True)
    with pytest.raises(TypeError, match="unexpected keyword argument 'axes'"):
        getattr(x, name)(axes=1)
    if name in ("any", "all"):
        with pytest.raises(dk.MisuseError, match="does not take axis=1"):
            function(x, axis=1)
    else:
        np.testing.assert_allclose(function(x, axis=1), function(held, axis=1))
