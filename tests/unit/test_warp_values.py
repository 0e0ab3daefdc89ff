"""Values that programs for Warp count on: of calls without arguments, lists, sums of parts, gradients given by hand."""

from __future__ import annotations

import importlib
import io
import sys
import warnings
from typing import Any

import numpy as np
import pytest

import diffkern as dk
import diffkern.warp as wp


@wp.struct
class Place:
    at: wp.transform
    turn: wp.quat
    id: int


@wp.kernel
def default_values(given: Place, out: wp.array[wp.transform]):
    made = Place()
    out[0] = given.at
    out[1] = made.at
    out[2] = wp.transform()


@wp.kernel
def double(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    y[i] = 2.0 * x[i]


@wp.kernel
def overwritten(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    y[i] = 2.0 * x[i]
    y[i] = 3.0 * x[i]


@wp.kernel
def in_place(x: wp.array[float]):
    i = wp.tid()
    x[i] = 2.0 * x[i]


@dk.kernel
def native_double(x: dk.array[float], y: dk.array[float]):
    i = dk.tid()
    y[i] = 2.0 * x[i]


def ones(n: int = 3) -> Any:
    return wp.ones(n, dtype=float)


# -- transforms of nothing ---------------------------------------------------------------------------------------------


def test_a_transform_of_nothing_is_the_identity_on_the_host_and_zeros_in_kernels_and_structs() -> None:
    for kind in (wp.transform, wp.transformd, wp.types.transformation(wp.float16), dk.transform):
        assert kind() == kind(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0)
        assert kind(0.0) == kind(*[0.0] * 7)
    assert wp.quat() == wp.quat(0.0, 0.0, 0.0, 0.0)
    assert wp.transform_point(wp.transform(), wp.vec3(1.0, 2.0, 3.0)) == wp.vec3(1.0, 2.0, 3.0)
    place = Place()
    assert place.at == wp.transform(0.0)
    out = wp.ones(3, dtype=wp.transform)
    wp.launch(default_values, 1, inputs=[place], outputs=[out])
    np.testing.assert_array_equal(out.numpy(), np.zeros((3, 7)))


# -- lists and sums ----------------------------------------------------------------------------------------------------


def test_lists_are_flat_and_have_values_of_the_element_type() -> None:
    assert wp.array([[1, 2], [3, 4]], dtype=int).list() == [1, 2, 3, 4]
    assert wp.array([[0.5, 2.0]], dtype=wp.bfloat16).list() == [0.5, 2.0]
    vectors = wp.array(np.arange(12.0).reshape(2, 2, 3), dtype=wp.vec3).list()
    assert vectors[3] == wp.vec3(9.0, 10.0, 11.0)
    assert [type(v) for v in vectors] == [wp.vec3] * 4
    (matrix,) = wp.array(np.eye(2)[None], dtype=wp.mat22).list()
    assert matrix[1, 1] == 1.0
    place = Place()
    place.id = 7
    assert [p.id for p in wp.array([place, Place()], dtype=Place).list()] == [7, 0]
    assert wp.zeros((0, 3), dtype=wp.vec3).list() == []
    assert dk.array([[1, 2], [3, 4]], dtype=int).list() == [[1, 2], [3, 4]]
    assert wp.array([[1, 2], [3, 4]], dtype=int)[1].item(0) == 3


@pytest.mark.parametrize("axis", [0, 1, 2, -1, -3])
def test_sums_of_the_first_elements_along_an_axis(axis: int) -> None:
    a, b = np.arange(24.0, dtype=np.float32).reshape(2, 3, 4), np.arange(24.0, 48.0, dtype=np.float32).reshape(2, 3, 4)
    for count in (0, 1, a.shape[axis]):
        part = np.arange(count)
        expected = a.take(part, axis).sum(axis=axis, keepdims=True)
        inner = (a * b).take(part, axis).sum(axis=axis, keepdims=True)
        np.testing.assert_array_equal(wp.utils.array_sum(wp.array(a), value_count=count, axis=axis).numpy(), expected)
        x, y = wp.array(a), wp.array(b)
        np.testing.assert_array_equal(wp.utils.array_inner(x, y, count=count, axis=axis).numpy(), inner)
    with pytest.raises(dk.LaunchError, match="extent"):
        wp.utils.array_sum(wp.array(a), value_count=9, axis=axis)


def test_a_sum_of_vectors_is_a_vector() -> None:
    assert wp.utils.array_sum(wp.array(np.ones((4, 3)), dtype=wp.vec3)) / 2.0 == wp.vec3(2.0)
    assert wp.utils.array_sum(wp.array([1.0, 2.0], dtype=wp.float64)) == 3.0


@pytest.mark.parametrize("annotation", [wp.array, wp.array1d, wp.array2d, wp.array3d, wp.array4d])
def test_annotations_count_as_instances_of_arrays(annotation: Any) -> None:
    made = annotation(dtype=wp.bool)
    assert isinstance(made, wp.array)
    assert made.dtype is wp.bool
    assert made.shape == (0,) * made.ndim
    made.note = "programs add attributes"


# -- numbers of NumPy --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [np.float32, np.float64, wp.float32], ids=str)
def test_gradients_flow_through_operators_with_numpys_numbers_on_the_left(kind: Any) -> None:
    x = wp.array([1.0, 2.0], dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        y = kind(3.0) * x
        z = kind(1.0) - y
    assert isinstance(z, wp.array)
    tape.backward(grads={z: np.ones(2, np.float32)})
    np.testing.assert_array_equal(z.numpy(), [-2.0, -5.0])
    np.testing.assert_array_equal(x.grad.numpy(), [-3.0, -3.0])


def test_functions_and_arrays_of_numpy_give_arrays_of_numpy() -> None:
    x = wp.array([1.0, 4.0], dtype=float)
    np.testing.assert_array_equal(np.sqrt(x), [1.0, 2.0])
    assert type(np.sqrt(x)) is type(np.ones(2) * x) is np.ndarray
    assert np.add.reduce(x) == 5.0
    np.testing.assert_array_equal(np.float32(1.0) == x, [True, False])


def test_bfloat16_elements_are_numbers_to_numpy() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    held = wp.array([1.0, -2.5], dtype=wp.bfloat16)
    assert held.numpy().dtype == ml_dtypes.bfloat16
    np.testing.assert_array_equal(held.numpy().astype(np.float32), [1.0, -2.5])
    held.numpy()[0] = 3.0  # over the same memory
    assert held.list() == wp.array(held.numpy()).list() == [3.0, -2.5]
    assert dk.array([1.0], dtype=dk.bfloat16).numpy().dtype == np.uint16


# -- adjoints by hand --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kernel", "slope"), [(double, 2.0), (overwritten, 3.0)])
@pytest.mark.parametrize("count", [1, 2])
def test_gradients_that_are_given_for_outputs_stay(kernel: Any, slope: float, count: int) -> None:
    """As functions for PyTorch that programs for Warp define take them from their caller."""
    base = np.arange(1.0, 7.0, dtype=np.float32)
    given, adj_x = wp.array(base, copy=False)[::2], wp.zeros(3, dtype=float)
    for _ in range(count):
        wp.launch(kernel, 3, [ones()], [ones()], adj_inputs=[adj_x], adj_outputs=[given], adjoint=True)
    np.testing.assert_array_equal(adj_x.numpy(), count * slope * base[::2])
    np.testing.assert_array_equal(base, np.arange(1.0, 7.0))


def test_gradients_of_arrays_themselves_and_of_what_is_read_are_taken() -> None:
    x, y = wp.ones(3, dtype=float, requires_grad=True), wp.ones(3, dtype=float, requires_grad=True)
    y.grad.fill_(1.0)
    wp.launch(double, 3, [x], [y], adj_inputs=[None], adj_outputs=[None], adjoint=True)
    np.testing.assert_array_equal(x.grad.numpy(), np.full(3, 2.0))
    np.testing.assert_array_equal(y.grad.numpy(), np.zeros(3))
    changed = ones()
    wp.launch(in_place, 3, [ones()], adj_inputs=[changed], adjoint=True)
    np.testing.assert_array_equal(changed.numpy(), np.full(3, 2.0))
    given = dk.ones(3)
    dk.launch(native_double, 3, [ones()], [ones()], adj_inputs=[ones()], adj_outputs=[given], adjoint=True)
    np.testing.assert_array_equal(given.numpy(), np.zeros(3))


# -- loggers -----------------------------------------------------------------------------------------------------------


class Collected:
    """A logger that keeps what it is told."""

    def __init__(self) -> None:
        self.told: list[tuple[str, str]] = []

    def debug(self, message: str) -> None:
        self.told.append(("debug", message))

    def info(self, message: str) -> None:
        self.told.append(("info", message))

    def warning(self, message: str, category: Any = None, stacklevel: int = 1) -> None:
        warnings.warn(message, category, stacklevel=stacklevel)

    def error(self, message: str) -> None:
        self.told.append(("error", message))


def test_launches_are_told_to_the_logger(monkeypatch: pytest.MonkeyPatch) -> None:
    logger = Collected()
    monkeypatch.setattr(wp.config, "print_launches", True)
    with wp.ScopedLogger(logger) as scope:
        assert scope.logger is wp.get_logger() is logger
        wp.launch(double, 3, [ones()], [ones()])
        with wp.ScopedLogLevel(wp.LOG_WARNING):
            wp.launch(double, 3, [ones()], [ones()])
    assert [(level, message.split(" module")[0]) for level, message in logger.told] == [("info", "kernel: double")]
    assert wp.get_logger() is not logger


def test_messages_by_level_and_once() -> None:
    module = importlib.import_module("diffkern.warp._src.logger")
    logger = Collected()
    assert isinstance(logger, wp.Logger)
    with wp.ScopedLogger(logger), warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for _ in range(2):
            module.log_debug("hidden")
            module.log_error("told")
            module.log_warning("two", UserWarning)
            module.log_warning("of this test", DeprecationWarning)
    assert logger.told == [("error", "told")] * 2
    assert [str(w.message) for w in seen] == ["two", "of this test", "two"]
    assert {w.filename for w in seen} == {__file__}


def test_the_logger_at_the_start_writes_to_the_standard_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    out, err = io.StringIO(), io.StringIO()
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", err)
    wp.set_logger(None)
    written = wp.get_logger()
    written.info("one")
    written.error("two")
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        written.warning("three", UserWarning)
        warnings.simplefilter("ignore")
        written.warning("four", UserWarning)
    assert out.getvalue() == "one\n"
    assert err.getvalue() == "diffkern error: two\ndiffkern UserWarning: three\n"


def test_what_is_no_logger() -> None:
    before = wp.get_logger()
    incomplete = Collected()
    incomplete.debug = None  # type: ignore[assignment, method-assign]
    for given in ("text", incomplete):
        with pytest.raises(TypeError, match="has no debug"):
            wp.set_logger(given)
    assert wp.get_logger() is before


# -- strides and copies ------------------------------------------------------------------------------------------------


def test_arrays_are_made_with_strides() -> None:
    held = wp.zeros((3, 4), dtype=wp.vec3, strides=(12, 36), requires_grad=True)
    assert (held.shape, held.strides, held.is_contiguous) == ((3, 4), (12, 36), False)
    values = np.arange(36.0, dtype=np.float32).reshape(3, 4, 3)
    wp.copy(held, wp.array(values, dtype=wp.vec3))
    np.testing.assert_array_equal(held.numpy(), values)
    assert held.grad.shape == (3, 4)
    assert wp.empty((2, 0), dtype=float, strides=(4, 4)).shape == (2, 0)
    for strides in ((12,), (12, 6), (12, -36)):
        with pytest.raises(ValueError, match="multiple of 12"):
            wp.zeros((3, 4), dtype=wp.vec3, strides=strides)


def test_indexed_arrays_are_copied_as_a_whole() -> None:
    base = wp.array(np.arange(10.0), dtype=float)
    seen = base[wp.array([1, 3], dtype=int)]
    out = wp.zeros(2, dtype=float)
    wp.copy(out, seen)
    assert out.list() == [1.0, 3.0]
    wp.copy(seen, wp.array([7.0, 8.0], dtype=float))
    assert base.list()[:4] == [0.0, 7.0, 2.0, 8.0]


def test_gradients_are_copied_outside_of_tapes() -> None:
    x, y = wp.ones(2, dtype=float, requires_grad=True), wp.zeros(2, dtype=float, requires_grad=True)
    x.grad.fill_(3.0)
    with wp.Tape():
        wp.copy(y, x)
    assert y.grad.list() == [0.0, 0.0]
    wp.copy(y, x)
    assert y.grad.list() == [3.0, 3.0]
    wp.copy(wp.zeros(2, dtype=float), x)


def test_built_ins_of_narrow_floats_are_called_from_python() -> None:
    axis, angle = wp.quat_to_axis_angle(wp.quath(1.0, 2.0, 3.0, 4.0))
    assert type(axis) is wp.vec3h
    assert isinstance(angle, wp.float16)
    np.testing.assert_allclose([*axis, angle], [0.26726124, 0.53452247, 0.80178368, 1.50408018], rtol=2e-3)
    turned = wp.quat_rpy(wp.float16(0.1), wp.float16(0.2), wp.float16(0.3))
    assert type(turned) is wp.quath
    np.testing.assert_allclose([*turned], [*wp.quat_rpy(0.1, 0.2, 0.3)], atol=1e-3)
    of_bits = wp.quat_rpy(wp.bfloat16(0.5), wp.bfloat16(0.25), wp.bfloat16(0.0))
    np.testing.assert_allclose([*of_bits], [*wp.quat_rpy(0.5, 0.25, 0.0)], atol=1e-2)
