"""What is written through NumPy's view of an array counts: the run time assumes nothing about memory it gave away."""

from __future__ import annotations

import sys
import threading

import numpy as np
import pytest
from conftest import require

import diffkern as dk


@dk.kernel
def square(x: dk.array(dtype=float), y: dk.array(dtype=float)):
    i = dk.tid()
    y[i] = x[i] * x[i]


@pytest.fixture
def recorded():
    x = dk.array(np.float32([1, 2, 3]), requires_grad=True)
    y = dk.zeros(3, requires_grad=True)
    with dk.Tape() as tape:
        dk.launch(square, dim=3, inputs=[x], outputs=[y])
    return tape, x, y


def test_seed_written_through_numpy(recorded):
    tape, x, y = recorded
    y.grad.numpy()[:] = 1.0
    tape.backward()
    np.testing.assert_array_equal(x.grad.numpy(), [2, 4, 6])


def test_seed_in_memory_of_numpy(recorded):
    tape, x, y = recorded
    seed = np.zeros(3, np.float32)
    y.grad = seed
    y.grad.zero_()
    seed[:] = 1.0
    tape.backward()
    np.testing.assert_array_equal(x.grad.numpy(), [2, 4, 6])


def test_zero_clears_what_was_written_through_numpy(recorded):
    tape, x, _ = recorded
    np.asarray(x.grad)[:] = 100.0
    tape.zero()
    np.testing.assert_array_equal(x.grad.numpy(), 0)


ONES = np.ones(3, np.float32)


def _back(tape, x, y):
    tape.backward(grads={y: ONES})
    return x.grad.numpy().tolist()


VIEWS = {
    "numpy": lambda x: x.numpy(),
    "part": lambda x: x.numpy()[1:][::-1],
    "asarray": np.asarray,
    "interface": lambda x: np.asarray(type("Seen", (), {"__array_interface__": x.__array_interface__, "of": x})()),
    "dlpack": np.from_dlpack,
    "memoryview": lambda x: np.asarray(memoryview(x.numpy())),
    "of a view": lambda x: x[1:].numpy(),
}


def _read_only(view):
    return not view.flags.writeable


@pytest.mark.parametrize("way", VIEWS)
def test_write_after_the_tape_is_an_error(recorded, way):
    tape, x, y = recorded
    view = VIEWS[way](x)
    if _read_only(view):
        pytest.skip("NumPy got it as read-only")
    view[...] = 9.0
    with pytest.raises(dk.LaunchError, match=r"array 'x' of launch 0 .* was changed outside the tape"):
        _back(tape, x, y)
    assert x.grad.numpy().tolist() == [0, 0, 0]


@pytest.mark.parametrize("way", VIEWS)
def test_write_through_a_view_from_before_the_tape_is_an_error(way):
    x = dk.array(np.float32([1, 2, 3]), requires_grad=True)
    y = dk.zeros(3, requires_grad=True)
    view = VIEWS[way](x)
    with dk.Tape() as tape:
        dk.launch(square, dim=3, inputs=[x], outputs=[y])
    if _read_only(view):
        pytest.skip("NumPy got it as read-only")
    view[...] = 9.0
    with pytest.raises(dk.LaunchError, match="changed outside the tape"):
        _back(tape, x, y)


def test_write_to_an_array_of_numpy_is_an_error():
    data = np.float32([1, 2, 3])
    y = dk.zeros(3, requires_grad=True)
    x = dk.array(data, copy=False, requires_grad=True)
    with dk.Tape() as tape:
        dk.launch(square, dim=3, inputs=[x], outputs=[y])
    data *= -1.0
    with pytest.raises(dk.LaunchError, match="changed outside the tape"):
        _back(tape, x, y)


@pytest.mark.parametrize("write", ["in place", "data", "numpy"])
def test_write_to_a_tensor_of_torch_is_an_error(write):
    torch = require("torch")
    tensor = torch.tensor([1.0, 2.0, 3.0])
    x, y = dk.from_torch(tensor), dk.zeros(3, requires_grad=True)
    x.requires_grad = True
    with dk.Tape() as tape:
        dk.launch(square, dim=3, inputs=[x], outputs=[y])
    {"in place": tensor, "data": tensor.data, "numpy": tensor.numpy()}[write][0] = 9.0
    with pytest.raises(dk.LaunchError, match="changed outside the tape"):
        _back(tape, x, y)


def test_the_error_names_array_launch_and_line(recorded):
    tape, x, y = recorded
    x.numpy()[0] = 9.0
    with pytest.raises(dk.LaunchError, match=r"array 'x' of launch 0 on the tape \(kernel 'square'\)") as error:
        _back(tape, x, y)
    assert (error.value.loc.file, error.value.loc.line) == (__file__, square.func.__code__.co_firstlineno)


def test_looking_is_no_change(recorded):
    tape, x, y = recorded
    kept = x.numpy()
    print(x, y, x.numpy(), kept, np.asarray(y), x.list(), float(y.numpy().sum()))
    for times in range(1, 4):  # the later sweeps are one native call
        assert _back(tape, x, y) == [2 * times, 4 * times, 6 * times]
        print(x.grad.numpy(), x.numpy())
    kept[0] = 7.0
    with pytest.raises(dk.LaunchError, match="changed outside the tape"):
        _back(tape, x, y)


def test_write_between_sweeps_through_a_view_that_is_gone(recorded):
    tape, x, y = recorded
    for _ in range(3):
        _back(tape, x, y)
    x.numpy()[1] = 5.0
    with pytest.raises(dk.LaunchError, match="changed outside the tape"):
        _back(tape, x, y)


def test_results_may_be_written(recorded):
    tape, x, y = recorded
    y.numpy()[:] = 0.0
    assert _back(tape, x, y) == [2, 4, 6]


@dk.kernel
def double(x: dk.array(dtype=float), y: dk.array(dtype=float)):
    i = dk.tid()
    y[i] = 2.0 * x[i]


@pytest.mark.parametrize("written", [False, True])
@pytest.mark.parametrize("when", ["before", "between"])
@pytest.mark.parametrize("step", ["launch", "copy"])
def test_no_gradient_passes_what_was_written_between_launches(written, when, step):
    x, y, z = (dk.array(np.float32([1, 2, 3]), requires_grad=True) for _ in range(3))
    view = y.numpy() if when == "before" else None
    with dk.Tape() as tape:
        if step == "launch":
            dk.launch(double, dim=3, inputs=[x], outputs=[y])
        else:
            dk.copy(y, x)
        seen = y.numpy() if view is None else view
        print(seen)
        if written:
            seen[:] = 0.0
        del seen
        dk.launch(double, dim=3, inputs=[y], outputs=[z])
    if written:
        with pytest.raises(
            dk.LaunchError, match=r"before launch . of the tape \(double\) where the tape could not see"
        ):
            _back(tape, x, z)
    else:
        assert _back(tape, x, z) == ([4, 4, 4] if step == "launch" else [2, 2, 2])


def test_rows_that_the_tape_writes_are_its_own():
    states = dk.zeros((5, 3), requires_grad=True)
    view = states.numpy()
    view[0] = [1.0, 2.0, 3.0]
    with dk.Tape() as tape:
        for t in range(4):
            dk.launch(square, dim=3, inputs=[states[t]], outputs=[states[t + 1]])
    tape.backward(grads={states: np.eye(5, dtype=np.float32)[4][:, None] * ONES})
    x = np.float64([1, 2, 3])
    np.testing.assert_allclose(states.grad.numpy()[0], 16 * x**15)
    view[2, 1] += 1.0
    with pytest.raises(dk.LaunchError, match="changed outside the tape"):
        tape.backward(grads={states: np.ones((5, 3), np.float32)})


def test_a_numpy_view_that_comes_back_is_the_same_memory():
    x = dk.array(np.float32([1, 2, 3]), requires_grad=True)
    y = dk.zeros(3, requires_grad=True)
    with dk.Tape():
        dk.launch(square, dim=3, inputs=[x], outputs=[y])
        with pytest.raises(dk.LaunchError, match="with a gradient and without it"):
            dk.launch(square, dim=2, inputs=[dk.zeros(2)], outputs=[x.numpy()[:2]])


def test_memory_is_lent_as_long_as_a_view_lives():
    x = dk.zeros(4)
    assert x._memory.is_zero
    part = x.numpy()[1:3].reshape(2, 1)[:, 0]
    assert x._memory.is_exposed
    part[:] = 1.0
    del part
    assert not x._memory.is_exposed
    assert not x._memory.is_zero
    x.zero_()
    assert x._memory.is_zero


def test_structs_and_strided_arrays_are_lent():
    x = dk.zeros((4, 6), dtype=dk.vec3)
    view = x[::2, 1::2].numpy()
    view[...] = 2.0
    assert x.numpy().sum() == 2.0 * 2 * 3 * 3
    assert x.numpy()[::2, 1::2].min() == 2.0
    assert x[::-1].numpy().strides == x.numpy()[::-1].strides


def test_views_and_tapes_of_several_threads():
    errors = []

    def work(k):
        try:
            for _ in range(150):
                x = dk.array(np.float32([1, 2, 3 + k]), requires_grad=True)
                y = dk.zeros(3, requires_grad=True)
                with dk.Tape() as tape:
                    dk.launch(square, dim=3, inputs=[x], outputs=[y])
                assert x.numpy()[2] == 3 + k
                assert _back(tape, x, y) == [2, 4, 6 + 2 * k]
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert not errors


def test_a_view_made_while_a_sequence_is_recorded(recorded):
    tape, x, y = recorded
    with dk.record():
        view = x.numpy()
    view[:] = 100.0
    with pytest.raises(dk.LaunchError, match="was changed outside the tape"):
        tape.backward(grads={y: dk.ones_like(y)})


def test_a_tape_in_a_sequence_notices_what_a_view_writes_and_replays_take_it():
    x, y = dk.array(np.float32([1, 2, 3]), requires_grad=True), dk.zeros(3, requires_grad=True)
    view = x.numpy()
    with dk.record() as sequence:
        with dk.Tape() as tape:
            dk.launch(square, dim=3, inputs=[x], outputs=[y])
        tape.backward(grads={y: dk.ones_like(y)})
    view[:] = 10.0
    x.grad.zero_()
    sequence.replay()
    np.testing.assert_array_equal(x.grad.numpy(), [20, 20, 20])
    view[:] = 100.0
    with pytest.raises(dk.LaunchError, match="was changed"):
        tape.backward(grads={y: dk.ones_like(y)})
