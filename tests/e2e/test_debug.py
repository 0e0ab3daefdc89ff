"""Debug programs: mistakes are found while the kernel runs, reported with their place, and do no harm."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from debug_funcs import neighbour

import diffkern as dk
from diffkern.runtime.launch.reporting import ReportingExecutable

ROOT = Path(__file__).parents[2]


@dk.kernel
def gather(x: dk.array(dtype=float), index: dk.array(dtype=int), y: dk.array(dtype=float)):
    i = dk.tid()
    y[i] = 2.0 * x[index[i]]


@dk.kernel
def scatter(index: dk.array(dtype=int), y: dk.array(dtype=float)):
    i = dk.tid()
    y[index[i]] = dk.float32(i)


@dk.kernel
def scatter_add(index: dk.array(dtype=int), y: dk.array(dtype=float)):
    i = dk.tid()
    dk.atomic_add(y, index[i], 1.0)


@dk.kernel
def scatter_remainder(y: dk.array(dtype=float)):
    i = dk.tid()
    if i % 1000 == 5:
        dk.atomic_add(y, i % 1000 + 4, 1.0)


@dk.kernel
def scatter_row(y: dk.array(dtype=float)):
    i, _j = dk.tid()
    if i % 1000 == 5:
        dk.atomic_add(y, i % 1000 + 4, 1.0)


@dk.kernel
def grid(x: dk.array2d(dtype=float), shift: int, y: dk.array2d(dtype=float)):
    i, j = dk.tid()
    y[i, j] = x[i, j + shift]


@dk.kernel
def grid_store(y: dk.array2d(dtype=float), shift: int):
    i, j = dk.tid()
    y[i + shift, j] = 1.0


@dk.kernel
def uses_func(x: dk.array(dtype=float), y: dk.array(dtype=float)):
    i = dk.tid()
    y[i] = neighbour(x, i)


@dk.kernel
def two_sites(y: dk.array(dtype=float)):
    i = dk.tid()
    y[i] = 1.0
    y[i + 1] = 2.0


@dk.kernel
def scatter_in_grid(rows: dk.array(dtype=int), columns: dk.array(dtype=int), y: dk.array2d(dtype=float)):
    i = dk.tid()
    y[rows[i], columns[i]] = dk.float32(i)


@dk.kernel
def stores_twice(at: dk.array(dtype=int), y: dk.array(dtype=float)):
    i = dk.tid()
    for k in range(at.shape[0]):
        y[i + at[k]] = dk.float32(k)


@dk.kernel
def two_mistakes(y: dk.array(dtype=float)):
    i = dk.tid()
    y[i + 5] = 1.0
    y[i + 7] = 2.0


@dk.kernel
def no_axes(y: dk.array(dtype=float)):
    y[0] = 1.0


@dk.kernel
def one_axis(y: dk.array(dtype=float)):
    i = dk.tid()
    y[i] = 1.0


@dk.kernel
def quotients(a: dk.array(dtype=int), b: dk.array(dtype=int), q: dk.array(dtype=int), r: dk.array(dtype=int)):
    i = dk.tid()
    q[i] = a[i] // b[i]
    r[i] = a[i] % b[i]


@dk.kernel
def guarded(b: dk.array(dtype=int), y: dk.array(dtype=float)):
    i = dk.tid()
    if b[i] != 0 and 12 // b[i] > 3:
        y[i] = 2.0 * y[i]


@dk.kernel
def steps(step: int, y: dk.array(dtype=float)):
    i = dk.tid()
    for k in range(0, 4, step):
        y[i] += dk.float32(k)


@dk.kernel
def steps_with_break(step: int, y: dk.array(dtype=float)):
    i = dk.tid()
    for k in range(0, 4, step):
        if k > 2:
            break
        y[i] += dk.float32(k)


@dk.kernel
def follow(following: dk.array(dtype=int), y: dk.array(dtype=float)):
    i = dk.tid()
    k = i
    while following[k] != -100:
        k = following[k]
    y[i] = dk.float32(k)


@dk.kernel
def total(x: dk.array(dtype=float), where: int, loss: dk.array(dtype=float)):
    i = dk.tid()
    dk.atomic_add(loss, where, x[i] * x[i])


@dk.kernel(mode="debug")
def always_checked(x: dk.array(dtype=float)):
    i = dk.tid()
    x[i + 1] = 1.0


@dk.kernel
def composite(x: dk.array(dtype=dk.vec3), y: dk.array(dtype=dk.vec3)):
    i = dk.tid()
    y[i] = 2.0 * x[i + 1]


@pytest.fixture(autouse=True)
def debug():
    before = dk.config.mode
    dk.config.mode = "debug"
    yield
    dk.config.mode = before


def ints(*values):
    return dk.array(np.array(values, dtype=np.int32))


def floats(*values, grad=False):
    return dk.array(np.array(values, dtype=np.float32), requires_grad=grad)


def message(kernel, dim, *args):
    """The text of the error that a launch raises."""
    with pytest.raises(dk.KernelRuntimeError) as caught:
        kernel[dim](*args)
    return str(caught.value)


def line_of(kernel, text):
    """Line number of the kernel's line that contains a text."""
    first = kernel.func.__code__.co_firstlineno
    lines = Path(__file__).read_text().splitlines()
    return next(k for k in range(first, len(lines)) if text in lines[k - 1])


# -- indices -----------------------------------------------------------------------------------------------------------


def test_read_through_an_index_array_names_place_thread_array_index_and_shape():
    y = dk.zeros(4)
    text = message(gather, 4, floats(1, 2, 3), ints(0, -3, 7, 2), y)
    first, line, caret, remedy = text.splitlines()
    assert first.endswith(
        f"test_debug.py:{line_of(gather, 'x[index[i]]')}: kernel 'gather', thread 2: "
        "index 7 is out of bounds for axis 0 of array 'x' with shape (3,)"
    )
    assert line.strip() == "y[i] = 2.0 * x[index[i]]"
    assert caret.index("^") == line.index("x[index")
    assert caret.count("^") == len("x[index[i]]")
    assert remedy == "help: indices of that axis go from -3 to 2"
    np.testing.assert_array_equal(y.numpy(), [2, 2, 0, 0])  # no thread begins after it; negative indices count back


def test_negative_index_wraps_once():
    assert "index -4 is out of bounds for axis 0 of array 'x' with shape (3,)" in message(
        gather, 1, floats(1, 2, 3), ints(-4), dk.zeros(1)
    )


def test_write_outside_is_not_done():
    memory = np.zeros(8, np.float32)
    text = message(scatter, 3, ints(0, 1, 4), dk.array(memory[2:6], copy=False))
    assert "thread 2: index 4 is out of bounds for axis 0 of array 'y' with shape (4,)" in text
    np.testing.assert_array_equal(memory, [0, 0, 0, 1, 0, 0, 0, 0])


def test_atomic_outside_is_not_done():
    memory = np.zeros(8, np.float32)
    text = message(scatter_add, 3, ints(0, 1, 4), dk.array(memory[2:6], copy=False))
    assert "thread 2: index 4 is out of bounds for axis 0 of array 'y' with shape (4,)" in text
    np.testing.assert_array_equal(memory, [0, 0, 1, 1, 0, 0, 0, 0])


def test_atomic_at_one_address_for_all():
    loss = dk.zeros(1)
    assert "index 1 is out of bounds for axis 0 of array 'loss'" in message(total, 3, floats(1, 2, 3), 1, loss)
    total[3](floats(1, 2, 3), 0, loss)
    assert loss.numpy()[0] == 14


def test_two_axes():
    x, y = dk.zeros((3, 4)), dk.zeros((3, 4))
    text = message(grid, (3, 4), x, 1, y)
    assert "index 4 is out of bounds for axis 1 of array 'x' with shape (3, 4) (index (" in text
    assert "thread (" in text
    assert "index 3 is out of bounds for axis 0 of array 'y' with shape (3, 4)" in message(grid_store, (1, 1), y, 3)
    assert "index 3 is out of bounds for axis 0" in message(grid_store, (3, 4), y, 1)
    grid[3, 4](x, -4, y)


def test_a_view_that_is_not_contiguous():
    x = dk.array(np.arange(12, dtype=np.float32).reshape(3, 4))[:, ::2]
    y = dk.zeros((3, 2))
    grid[3, 2](x, 0, y)
    np.testing.assert_array_equal(y.numpy(), [[0, 2], [4, 6], [8, 10]])
    assert "index 2 is out of bounds for axis 1 of array 'x' with shape (3, 2)" in message(grid, (3, 2), x, 1, y)


def test_an_empty_array():
    assert "has no elements" in message(one_axis, 1, dk.zeros(0))


def test_composite_elements():
    x, y = dk.ones(2, dtype=dk.vec3), dk.zeros(2, dtype=dk.vec3)
    assert "thread 1: index 2 is out of bounds" in message(composite, 2, x, y)
    np.testing.assert_array_equal(y.numpy(), [[2, 2, 2], [0, 0, 0]])


def test_in_a_func_of_another_file():
    text = message(uses_func, 3, dk.zeros(3), dk.zeros(3))
    assert "debug_funcs.py:" in text
    assert "kernel 'uses_func', thread 2: index 3 is out of bounds for axis 0 of array 'x'" in text
    assert "    return x[i + 1]" in text


def test_the_first_error_is_told():
    assert "index 5 is out of bounds" in message(two_mistakes, 1, dk.zeros(4))


def test_one_bad_thread_of_a_million():
    n = 1_000_000
    index = np.arange(n, dtype=np.int32)
    index[777_777] = n
    x, y = dk.ones(n), dk.zeros(n)
    assert "thread 777777: index 1000000 is out of bounds" in message(gather, n, x, dk.array(index), y)
    result = y.numpy()
    assert result[777_776] == 2
    assert not result[777_777:777_780].any()  # no thread begins after it


def test_a_launch_of_a_thousand_million_threads_ends_at_the_first_error():
    assert "index 9 is out of bounds" in message(scatter_remainder, 1 << 30, dk.zeros(4))
    assert "index 9 is out of bounds" in message(scatter_row, (1 << 15, 1 << 15), dk.zeros(4))


def test_a_loop_that_waits_for_a_skipped_access_ends():
    assert "out of bounds for axis 0 of array 'following'" in message(follow, 2, ints(1, 50, 0), dk.zeros(2))


def test_the_next_launch_starts_afresh():
    message(gather, 1, floats(1), ints(3), dk.zeros(1))
    gather[1](floats(1), ints(0), dk.zeros(1))


# -- two threads that store to one element -----------------------------------------------------------------------------


def test_two_threads_store_to_one_element():
    text = message(scatter, 3, ints(2, 0, 2), dk.zeros(3))
    assert "thread 2: thread 0 has stored to the same element, index 2 of array 'y' with shape (3,)" in text
    assert "dk.atomic_add" in text
    scatter[3](ints(2, 0, 1), dk.zeros(3))
    scatter_add[3](ints(2, 0, 2), dk.zeros(3))


def test_a_negative_index_names_the_same_element():
    assert "has stored to the same element" in message(scatter, 2, ints(2, -1), dk.zeros(3))


def test_a_negative_index_leaves_its_stamp_on_the_element_that_it_names():
    rows, columns, y = ints(1, 1), ints(2, -1), dk.zeros((2, 3))
    assert "has stored to the same element" in message(scatter_in_grid, 2, rows, columns, y)
    scatter_in_grid[2](ints(0, 1), columns, y)  # y[1, -1] is not y[0, 2]


def test_a_thread_may_store_twice():
    y = dk.zeros(3)
    stores_twice[3](ints(0, 0, 0), y)
    np.testing.assert_array_equal(y.numpy(), [2, 2, 2])


def test_two_stores_that_are_one_to_one_each():
    assert "has stored to the same element" in message(two_sites, 4, dk.zeros(8))
    two_sites[1](dk.zeros(8))


def test_more_axes_than_the_kernel_asks_for():
    with pytest.raises(dk.LaunchError, match=r"dim=\(3, 2\) is a grid of 2 axes"):
        one_axis[3, 2](dk.zeros(3))
    text = message(no_axes, (3, 2), dk.zeros(3))
    assert "thread (0, 1): thread (0, 0) has stored to the same element, index 0" in text
    no_axes[1, 1](dk.zeros(3))


def test_many_threads_two_of_which_meet():
    n = 1_000_000
    index = np.arange(n, dtype=np.int32)
    index[900_000] = 5
    text = message(scatter, n, dk.array(index), dk.zeros(n))
    assert "index 5 of array 'y'" in text
    assert "thread 5" in text
    assert "thread 900000" in text


# -- integers ----------------------------------------------------------------------------------------------------------


def test_integer_division_by_zero():
    q, r = ints(9, 9, 9), ints(9, 9, 9)
    text = message(quotients, 3, ints(7, 7, 7), ints(2, 0, 3), q, r)
    assert f":{line_of(quotients, '//')}: kernel 'quotients', thread 1: an integer is divided by zero" in text
    np.testing.assert_array_equal(q.numpy(), [3, 0, 9])
    np.testing.assert_array_equal(r.numpy(), [1, 0, 9])


def test_a_division_that_is_not_reached_is_no_mistake():
    y = floats(1, 1, 1)
    y.requires_grad = True
    with dk.Tape() as tape:
        guarded[3](ints(0, 2, 6), y)
    tape.backward(grads={y: np.ones(3, np.float32)})
    np.testing.assert_array_equal(y.numpy(), [1, 2, 1])
    np.testing.assert_array_equal(y.grad.numpy(), [1, 2, 1])


@pytest.mark.parametrize("kernel", [steps, steps_with_break], ids=["plain", "break"])
def test_zero_step(kernel):
    text = message(kernel, 2, 0, dk.zeros(2))
    assert f":{line_of(kernel, 'range(')}: " in text
    assert "the step of range is zero" in text
    y = dk.zeros(2)
    kernel[2](2, y)
    np.testing.assert_array_equal(y.numpy(), [2, 2])


# -- adjoints ----------------------------------------------------------------------------------------------------------


def test_adjoint_launch():
    x, y = floats(1, 2, 3, grad=True), dk.zeros(2, requires_grad=True)
    y.grad.fill_(1.0)
    with pytest.raises(dk.KernelRuntimeError) as caught:
        dk.launch(gather, dim=2, inputs=[x, ints(1, 5)], outputs=[y], adjoint=True)
    assert "adjoint of kernel 'gather', thread 1: index 5 is out of bounds for axis 0 of the gradient of 'x'" in str(
        caught.value
    )
    assert "y[i] = 2.0 * x[index[i]]" in str(caught.value)
    np.testing.assert_array_equal(x.grad.numpy(), [0, 2, 0])


def test_adjoint_of_a_million_threads_with_private_gradients():
    n = 1_000_000
    x, y = floats(1, 2, 3, grad=True), dk.zeros(n, requires_grad=True)
    index = np.arange(n, dtype=np.int32) % 3
    y.grad.fill_(1.0)
    dk.launch(gather, dim=n, inputs=[x, dk.array(index)], outputs=[y], adjoint=True)
    np.testing.assert_array_equal(x.grad.numpy(), 2.0 * np.bincount(index))
    index[123_456] = 3
    with pytest.raises(dk.KernelRuntimeError, match="thread 123456: index 3 is out of bounds"):
        dk.launch(gather, dim=n, inputs=[x, dk.array(index)], outputs=[y], adjoint=True)


def test_under_a_tape_a_failed_launch_is_not_recorded():
    x, y, z = floats(1, 2, 3, grad=True), dk.zeros(3), dk.zeros(3)
    with dk.Tape() as tape:
        gather[3](x, ints(0, 1, 2), y)
        with pytest.raises(dk.KernelRuntimeError):
            gather[3](x, ints(0, 1, 3), z)
    tape.backward(grads={y: np.ones(3, np.float32)})
    np.testing.assert_array_equal(x.grad.numpy(), [2, 2, 2])


def test_a_tape_keeps_what_a_failed_launch_overwrites():
    x, y, z = floats(1, 2, 3, grad=True), dk.zeros(3), dk.zeros(1)
    with dk.Tape() as tape:
        gather[3](x, ints(0, 1, 2), y)
        total[3](y, 0, z)
        with pytest.raises(dk.KernelRuntimeError):
            gather[3](x, ints(2, 1, 3), y)
    tape.backward(z)
    np.testing.assert_array_equal(x.grad.numpy(), [8, 16, 24])


def test_gradients_are_those_of_release_programs():
    values = np.linspace(-1, 2, 50, dtype=np.float32)
    found = []
    for mode in ("release", "debug"):
        dk.config.mode = mode
        x, loss = dk.array(values, requires_grad=True), dk.zeros(1)
        with dk.Tape() as tape:
            total[50](x, 0, loss)
        tape.backward(loss)
        found.append((loss.numpy(), x.grad.numpy()))
    # The loops of a debug program are not vectorised, so sums are rounded in another order.
    np.testing.assert_allclose(found[0][0], found[1][0], rtol=1e-6)
    np.testing.assert_array_equal(found[0][1], found[1][1])


# -- modes -------------------------------------------------------------------------------------------------------------


def test_mode_of_a_kernel_is_its_own():
    dk.config.mode = "release"
    assert "index 1 is out of bounds" in message(always_checked, 1, dk.zeros(1))


def test_changing_the_mode_changes_the_programs():
    y = floats(0, 0)
    for mode, kind in (("release", False), ("debug", True), ("release", False)):
        dk.config.mode = mode
        one_axis[2](y)
        (program,) = one_axis.programs.values()
        assert isinstance(program, ReportingExecutable) is kind


def test_release_programs_divide_by_zero_without_a_word():
    dk.config.mode = "release"
    q, r = ints(9), ints(9)
    quotients[1](ints(7), ints(0), q, r)
    assert (q.numpy()[0], r.numpy()[0]) == (0, 0)


def test_unknown_modes_are_refused():
    with pytest.raises(ValueError, match="mode is 'release', 'debug' or 'finite', not 'fast'"):
        dk.config.mode = "fast"
    with pytest.raises(ValueError, match="not 'fast'"):
        dk.kernel(mode="fast")(one_axis.func)


PROGRAM = """
import numpy as np
import diffkern as dk
{padding}
@dk.kernel
def shifted(x: dk.array(dtype=float)):
    i = dk.tid()
    x[i + 1] = 1.0

try:
    shifted[2](dk.zeros(2))
except dk.LaunchError as error:
    print(str(error).splitlines()[0])
"""


def test_mode_of_the_environment_and_lines_that_move_between_runs(tmp_path):
    environment = {**os.environ, "DIFFKERN_MODE": "debug", "PYTHONPATH": str(ROOT)}
    shown = []
    for padding in ("", "\n\n\n", ""):
        path = tmp_path / "program.py"
        path.write_text(PROGRAM.format(padding=padding))
        done = subprocess.run([sys.executable, path], env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        shown.append(int(done.stdout.split("program.py:")[1].split(":")[0]))
    assert shown == [8, 11, 8]


def test_a_wrong_mode_in_the_environment_is_an_error():
    environment = {**os.environ, "DIFFKERN_MODE": "slow", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", "import diffkern"], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    assert "mode is 'release', 'debug' or 'finite', not 'slow'" in done.stderr
