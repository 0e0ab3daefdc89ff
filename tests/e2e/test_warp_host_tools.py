"""``wp.autograd``: Jacobians, their check and pictures; other tools of the host under Warp's names."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from conftest import require

import diffkern.warp as wp
from diffkern.warp.autograd import (
    FunctionMetadata,
    gradcheck,
    gradcheck_tape,
    jacobian,
    jacobian_fd,
    jacobian_plot,
)


@wp.kernel
def mixed(a: wp.array(dtype=float), b: wp.array(dtype=wp.vec3), n: int, out1: wp.array(dtype=wp.vec2), out2: Any):
    i = wp.tid()
    out1[i] = wp.vec2(a[i] * wp.length(b[i]), -a[i] * b[i][1] * float(n))
    out2[i] = wp.dot(b[i], b[i])


@wp.func
def wrong(x: float):
    return x * x


@wp.func_grad(wrong)
def adj_wrong(x: float, ct: float):
    wp.adjoint[x] -= 2.0 * x * ct


@wp.kernel
def use_wrong(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = wrong(x[i])


@wp.kernel(enable_backward=False)
def never(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = 3.0 * x[i]


def given() -> tuple[list[Any], list[Any]]:
    a = wp.array(np.array([2.0, -1.0], dtype=np.float32), dtype=float, requires_grad=True)
    b = wp.array(np.array([[1, 2, 2], [3, 0, 4]], dtype=np.float32), dtype=wp.vec3, requires_grad=True)
    return [a, b, 3], [wp.zeros(2, dtype=wp.vec2, requires_grad=True), wp.zeros(2, dtype=float, requires_grad=True)]


def test_jacobians() -> None:
    inputs, outputs = given()
    exact = jacobian(mixed, 2, inputs, outputs)
    differences = jacobian_fd(mixed, 2, inputs, outputs, eps=1e-2)
    assert {pair: m.shape for pair, m in exact.items()} == {
        (0, 0): (4, 2), (1, 0): (4, 6), (0, 1): (2, 2), (1, 1): (2, 6)
    }  # fmt: skip
    np.testing.assert_allclose(exact[0, 0].numpy(), [[3, 0], [-6, 0], [0, 5], [0, 0]])
    np.testing.assert_allclose(exact[1, 1].numpy(), [[2, 4, 4, 0, 0, 0], [0, 0, 0, 6, 0, 8]])
    for pair, matrix in exact.items():
        np.testing.assert_allclose(matrix.numpy(), differences[pair].numpy(), atol=2e-3)
    np.testing.assert_array_equal(outputs[1].numpy(), 0.0)  # what was given stays as it is
    assert list(jacobian(mixed, 2, inputs, outputs, [("b", "out2"), (0, 1)])) == [(0, 1), (1, 1)]


def test_of_a_python_function() -> None:
    def pipeline(x: Any) -> Any:
        y, z = wp.zeros_like(x), wp.zeros_like(x)
        wp.launch(use_wrong, 2, inputs=[x], outputs=[y])
        wp.launch(use_wrong, 2, inputs=[y], outputs=[z])
        return y, z

    x = wp.array(np.array([1.0, 2.0], dtype=np.float32), dtype=float, requires_grad=True)
    np.testing.assert_allclose(jacobian(pipeline, inputs=[x])[0, 1].numpy(), [[4, 0], [0, 32]])
    np.testing.assert_allclose(jacobian_fd(pipeline, inputs=[x], eps=1e-2)[0, 1].numpy(), [[4, 0], [0, 32]], rtol=1e-3)


def test_check(capsys: pytest.CaptureFixture[str]) -> None:
    assert gradcheck(mixed, 2, *given(), eps=1e-2)
    assert capsys.readouterr().out.count("agrees: input") == 4
    x, y = wp.array([1.0, 2.0], dtype=float, requires_grad=True), wp.zeros(2, dtype=float, requires_grad=True)
    assert not gradcheck(use_wrong, 2, [x], [y], raise_exception=False, show_summary=False)
    with pytest.raises(ValueError, match="component 1 of the output by component 1 of the input is -4"):
        gradcheck(use_wrong, 2, [x], [y], eps=1e-2, show_summary=False)
    with pytest.raises(ValueError, match="enable_backward is off"):
        jacobian(never, 2, [x], [y])
    np.testing.assert_allclose(jacobian_fd(never, 2, [x], [y], eps=1e-2)[0, 0].numpy(), 3 * np.eye(2), rtol=1e-3)
    with pytest.raises(ValueError, match="pass dim"):
        jacobian(use_wrong, inputs=[x], outputs=[y])


def test_parts_of_jacobians() -> None:
    inputs, outputs = given()
    rows = jacobian(mixed, 2, inputs, outputs, max_outputs_per_var=1, block_dim=32)
    assert np.isnan(rows[0, 0].numpy()[1:]).all()
    np.testing.assert_allclose(rows[0, 0].numpy()[0], [3, 0])
    columns = jacobian_fd(mixed, 2, inputs, outputs, max_inputs_per_var=1, eps=1e-2)
    assert np.isnan(columns[1, 1].numpy()[:, 1:]).all()
    assert gradcheck(mixed, 2, inputs, outputs, eps=1e-2, max_inputs_per_var=2, max_outputs_per_var=3)


def test_check_of_a_tape(capsys: pytest.CaptureFixture[str]) -> None:
    inputs, outputs = given()
    with wp.Tape() as tape:
        wp.launch(mixed, 2, inputs=inputs, outputs=outputs)
        z = wp.zeros(2, dtype=float, requires_grad=True)
        wp.launch(use_wrong, 2, inputs=[outputs[1]], outputs=[z])
    before = [a.numpy().copy() for a in (*inputs[:2], *outputs, z)]
    options: dict[str, Any] = {"eps": 1e-2, "raise_exception": False}
    assert not gradcheck_tape(tape, **options)
    assert capsys.readouterr().out.count("launch of ") == 2
    assert gradcheck_tape(tape, blacklist_kernels=["use_wrong"], **options)
    assert gradcheck_tape(tape, whitelist_kernels=["mixed"], input_output_masks={"mixed": [("b", "out2")]}, **options)
    assert gradcheck_tape(tape, reverse_launches=True, skip_to_launch_index=1, **options)
    with pytest.raises(ValueError, match="differs"):
        gradcheck_tape(tape, eps=1e-2)
    for a, kept in zip((*inputs[:2], *outputs, z), before, strict=True):
        np.testing.assert_array_equal(a.numpy(), kept)


def test_pictures() -> None:
    matplotlib = require("matplotlib")
    matplotlib.use("agg", force=True)
    inputs, outputs = given()
    found = jacobian(mixed, 2, inputs, outputs)
    figure = jacobian_plot(found, mixed, inputs, show_plot=False, title="Mixed")
    labels = {(a.get_xlabel(), a.get_ylabel()) for a in figure.axes if a.get_xlabel()}
    assert labels == {("a", "out1"), ("b", "out1"), ("a", "out2"), ("b", "out2")}
    named = FunctionMetadata("f", ["one", "two"], ["first", "second"])
    figure = jacobian_plot(found, named, show_plot=False, scale_colors_per_submatrix=True, log_scale=True)
    assert figure.get_suptitle() == "f kernel Jacobian"
    with pytest.raises(ValueError, match="no Jacobian"):
        jacobian_plot({}, mixed)


def test_an_array_over_a_pointer_and_a_func_with_a_name() -> None:
    numbers = np.arange(6, dtype=np.float32)
    a = wp.from_ptr(numbers.ctypes.data, 6, shape=(2, 3))
    numbers[4] = 7.0
    assert a.numpy().tolist() == [[0, 1, 2], [3, 7, 5]]
    with pytest.raises(ValueError, match="more than 6 elements"):
        wp.from_ptr(numbers.ctypes.data, 6, shape=(3, 3))
    assert wp.func(lambda x: x, name="same").name == "same"
