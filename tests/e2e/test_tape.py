"""Tapes: several launches, overwrites between them, several outputs, repeated and refused backward passes."""

from __future__ import annotations

import ctypes
import gc
import threading
import weakref

import numpy as np
import pytest

import diffkern as dk


@dk.kernel
def product(x: dk.array(dtype=float), y: dk.array(dtype=float), z: dk.array(dtype=float)):
    i = dk.tid()
    z[i] = x[i] * y[i]


@dk.kernel
def square(x: dk.array(dtype=float), y: dk.array(dtype=float)):
    i = dk.tid()
    y[i] = x[i] * x[i]


@dk.kernel
def square_in_place(y: dk.array(dtype=float)):
    i = dk.tid()
    y[i] = y[i] * y[i]


@dk.kernel
def scale_in_place(x: dk.array(dtype=float), y: dk.array(dtype=float)):
    i = dk.tid()
    y[i] *= x[i]


@dk.kernel
def total(x: dk.array(dtype=float), s: dk.array(dtype=float)):
    i = dk.tid()
    dk.atomic_add(s, 0, x[i])


@dk.kernel
def weighted(x: dk.array(dtype=float), w: float, s: dk.array(dtype=float)):
    i = dk.tid()
    dk.atomic_add(s, 0, w * x[i])


@dk.kernel
def largest(x: dk.array(dtype=float), s: dk.array(dtype=float)):
    i = dk.tid()
    dk.atomic_max(s, 0, x[i])


@dk.kernel
def step(x: dk.array(dtype=float), v: dk.array(dtype=float), dt: float):
    i = dk.tid()
    v[i] = v[i] - dt * dk.sin(x[i])
    x[i] = x[i] + dt * v[i]


@dk.kernel
def which(x: dk.array(dtype=float), out: dk.array(dtype=int)):
    i = dk.tid()
    if x[i] > 0.0:
        out[i] = 1


@dk.kernel
def exchange(x: dk.array(dtype=float), y: dk.array(dtype=float)):
    i = dk.tid()
    y[i] = y[i] + x[i] * x[x.shape[0] - 1 - i]


def floats(*values, grad=True):
    return dk.array(np.array(values, dtype=np.float32), requires_grad=grad)


def grads(*arrays):
    return [a.grad.numpy().tolist() for a in arrays]


def test_a_chain_with_a_loss():
    x, y, loss = floats(1, 2, 3), dk.zeros(3, requires_grad=True), dk.zeros(1, requires_grad=True)
    with dk.Tape() as tape:
        square[3](x, y)
        total[3](y, loss)
    tape.backward(loss)
    assert loss.numpy()[0] == 14
    assert x.grad.numpy().tolist() == [2, 4, 6]


def test_arrays_between_need_no_gradient_of_their_own():
    x, y, loss = floats(1, 2, 3), dk.zeros(3), dk.zeros(1)
    with dk.Tape() as tape:
        square[3](x, y)
        total[3](y, loss)
    tape.backward(loss)
    assert x.grad.numpy().tolist() == [2, 4, 6]
    assert y.grad is None
    tape.backward(loss)
    assert x.grad.numpy().tolist() == [4, 8, 12]


def test_numpy_arrays_between():
    x, y, loss = floats(1, 2, 3), np.zeros(6, np.float32), dk.zeros(1, requires_grad=True)
    with dk.Tape() as tape:
        square[3](x, y[::2])
        total[3](y[::2], loss)
    tape.backward(loss)
    assert x.grad.numpy().tolist() == [2, 4, 6]


def test_several_outputs_with_seeds():
    x, y, z = floats(1, 2), dk.zeros(2, requires_grad=True), dk.zeros(2, requires_grad=True)
    with dk.Tape() as tape:
        square[2](x, y)
        product[2](x, y, z)
    tape.backward(grads={y: np.float32([1, 10]), z: floats(100, 1000)})
    assert x.grad.numpy().tolist() == [2 + 300, 40 + 12000]
    assert set(tape.gradients) == {x, y, z}


def test_gradients_can_be_set_on_the_arrays():
    x, y = floats(1, 2), dk.zeros(2, requires_grad=True)
    with dk.Tape() as tape:
        square[2](x, y)
    y.grad = np.float32([1, 10])
    tape.backward()
    assert x.grad.numpy().tolist() == [2, 40]


def test_repeated_backward_adds_up_and_zero_clears():
    x, y, loss = floats(1, 2, 3), dk.zeros(3, requires_grad=True), dk.zeros(1, requires_grad=True)
    with dk.Tape() as tape:
        square[3](x, y)
        total[3](y, loss)
    for k in (1, 2, 3):
        tape.backward(loss)
        assert x.grad.numpy().tolist() == [2 * k, 4 * k, 6 * k]
    tape.zero()
    assert not x.grad.numpy().any()
    assert not loss.grad.numpy().any()
    tape.backward(loss)
    assert x.grad.numpy().tolist() == [2, 4, 6]


def test_repeated_backward_through_an_accumulated_array():
    x, s, loss = floats(1, 2), dk.zeros(1, requires_grad=True), dk.zeros(1, requires_grad=True)
    with dk.Tape() as tape:
        total[2](x, s)
        square[1](s, loss)
    for k in (1, 2, 3):
        tape.backward(loss)
        assert x.grad.numpy().tolist() == [6 * k, 6 * k]
        assert s.grad.numpy().tolist() == [6 * k]


def test_reset_forgets():
    x, y = floats(1, 2), dk.zeros(2, requires_grad=True)
    tape = dk.Tape()
    with tape:
        square[2](x, y)
    tape.backward(grads={y: np.float32([1, 1])})
    tape.reset()
    assert not x.grad.numpy().any()
    assert tape.gradients == {}
    with pytest.raises(dk.LaunchError, match="does not occur"):
        tape.backward(grads={y: np.float32([1, 1])})


def test_in_place_square():
    y, loss = floats(3, 4), dk.zeros(1, requires_grad=True)
    with dk.Tape() as tape:
        square_in_place[2](y)
        square_in_place[2](y)
        total[2](y, loss)
    assert y.numpy().tolist() == [81, 256]
    tape.backward(loss)
    assert y.grad.numpy().tolist() == [4 * 27, 4 * 64]
    assert tape.memory() == 2 * 8


def test_an_in_place_product():
    x, y = floats(2, 3), floats(5, 7)
    with dk.Tape() as tape:
        scale_in_place[2](x, y)
    tape.backward(grads={y: np.float32([1, 1])})
    assert grads(x, y) == [[5, 7], [2, 3]]


def test_an_array_is_overwritten_after_it_was_read():
    x, y, s = floats(1, 2, 3), dk.zeros(3, requires_grad=True), dk.zeros(1, requires_grad=True)
    other = floats(5, 6, 7)
    with dk.Tape() as tape:
        square[3](x, y)
        product[3](x, y, other)
        square[3](other, x)  # x was needed by both
        total[3](x, s)
    before = x.numpy().copy()
    tape.backward(s)
    # s = sum((x * x²)²) = sum(x⁶)
    assert x.grad.numpy().tolist() == [6, 6 * 32, 6 * 243]
    assert np.array_equal(x.numpy(), before)
    assert other.grad.numpy().tolist() == [0, 0, 0]


def test_only_what_is_needed_is_copied():
    n = 1000
    x, y, s = dk.full(n, 2.0, requires_grad=True), dk.zeros(n, requires_grad=True), dk.zeros(1, requires_grad=True)
    with dk.Tape() as tape:
        for _ in range(10):
            square[n](x, y)  # y is overwritten, but only sums were made of it
            total[n](y, s)
    assert tape.memory() == 0
    tape.backward(s)
    assert (x.grad.numpy() == 40).all()


def test_a_state_that_is_stepped_in_place():
    n, steps, dt = 100, 20, 0.1
    start = np.linspace(-2, 2, n)

    def simulate(x0):
        x, v = x0.copy(), np.zeros(n)
        for _ in range(steps):
            v = v - dt * np.sin(x)
            x = x + dt * v
        return x

    x = dk.array(start, dtype=dk.float64, requires_grad=True)
    v = dk.zeros(n, dtype=dk.float64, requires_grad=True)

    @dk.kernel
    def step64(x: dk.array(dtype=dk.float64), v: dk.array(dtype=dk.float64), dt: dk.float64):
        i = dk.tid()
        v[i] = v[i] - dt * dk.sin(x[i])
        x[i] = x[i] + dt * v[i]

    with dk.Tape() as tape:
        for _ in range(steps):
            step64[n](x, v, dt)
    tape.backward(grads={x: np.ones(n)})
    h = 1e-6
    expected = (simulate(start + h) - simulate(start - h)) / (2 * h)
    assert np.allclose(x.grad.numpy(), expected, rtol=1e-7)


def test_fill_assign_and_copy_on_the_tape():
    x, y, z, s = floats(1, 2), floats(3, 4), dk.zeros(2, requires_grad=True), dk.zeros(1, requires_grad=True)
    with dk.Tape() as tape:
        product[2](x, y, z)
        total[2](z, s)
        s.zero_()  # what came before has no influence
        dk.copy(z, x)
        square_in_place[2](z)
        y.assign([10.0, 20.0])  # y was needed by the product
        product[2](z, y, z2 := dk.zeros(2, requires_grad=True))
        total[2](z2, s)
    tape.backward(s)
    assert s.numpy()[0] == 10 + 4 * 20
    assert x.grad.numpy().tolist() == [2 * 10, 4 * 20]
    assert y.grad.numpy().tolist() == [0, 0]


def test_clone_carries_gradients():
    x = floats(1, 2)
    with dk.Tape() as tape:
        y = dk.clone(x)
        square_in_place[2](y)
    tape.backward(grads={y: np.float32([1, 1])})
    assert x.grad.numpy().tolist() == [2, 4]
    assert x.numpy().tolist() == [1, 2]


def test_assigning_an_array_is_a_copy():
    x, y = floats(1, 2), floats(0, 0)
    with dk.Tape() as tape:
        y.assign(x)
        square_in_place[2](y)
    tape.backward(grads={y: np.float32([1, 1])})
    assert grads(x, y) == [[2, 4], [0, 0]]


def test_views_share_gradients():
    x = floats(1, 2, 3, 4)
    s = dk.zeros(1, requires_grad=True)
    with dk.Tape() as tape:
        square[2](x[:2], x[2:])
        total[4](x, s)
    tape.backward(s)
    assert x.grad.numpy().tolist() == [1 + 2, 1 + 4, 0, 0]


def test_a_trajectory_in_the_rows_of_one_array():
    n, steps = 8, 1500
    rows = dk.zeros((steps + 1, n), requires_grad=True)
    rows[0].fill_(1.0)
    half = dk.full(n, 0.999, requires_grad=True)
    with dk.Tape() as tape:
        for t in range(steps):
            product[n](rows[t], half, rows[t + 1])
        square_in_place[n](rows[steps // 2])  # needed by the step after it as well: one copy for both
    assert tape.memory() == 4 * n
    tape.backward(grads={rows[steps]: np.ones(n, np.float32)})
    assert np.allclose(half.grad.numpy(), steps * 0.999 ** (steps - 1), rtol=1e-4)
    assert np.allclose(rows.grad.numpy()[0], 0.999**steps, rtol=1e-4)


def test_overlapping_arguments_are_refused():
    x = floats(1, 2, 3)
    with pytest.raises(dk.LaunchError, match="'x' and 'y' share memory"):
        square[2](x[:2], x[1:])
    with dk.Tape(), pytest.raises(dk.LaunchError, match="'x' and 'y' share memory"):
        square[2](x[:2], x[1:])
    assert x.numpy().tolist() == [1, 2, 3]
    plain = floats(1, 2, 3, grad=False)
    with dk.Tape():
        square[3](plain, plain)


def test_one_array_for_two_parameters():
    x, z = floats(1, 2), dk.zeros(2, requires_grad=True)
    with dk.Tape() as tape:
        product[2](x, x, z)
    tape.backward(grads={z: np.float32([1, 1])})
    assert x.grad.numpy().tolist() == [2, 4]


def test_a_change_after_the_tape_is_noticed():
    x, y = floats(1, 2), dk.zeros(2, requires_grad=True)
    with dk.Tape() as tape:
        square[2](x, y)
    x.fill_(7.0)
    with pytest.raises(dk.LaunchError, match=r"'x' of launch 0 .*'square'"):
        tape.backward(grads={y: np.float32([1, 1])})
    assert not x.grad.numpy().any()
    assert not y.grad.numpy().any()


def test_a_change_by_an_unrecorded_launch_is_noticed():
    x, y, z = floats(1, 2), dk.zeros(2, requires_grad=True), dk.zeros(2, requires_grad=True)
    with dk.Tape() as tape:
        square[2](x, y)
        dk.launch(square, 2, [x], [y], record_tape=False)
        square[2](y, z)
    with pytest.raises(dk.LaunchError, match="changed"):
        tape.backward(grads={z: np.float32([1, 1])})


def test_a_change_of_what_no_gradient_needs_is_allowed():
    x, s = floats(1, 2), dk.zeros(1, requires_grad=True)
    with dk.Tape() as tape:
        total[2](x, s)
    x.fill_(0.0)
    s.zero_()
    tape.backward(s)
    assert x.grad.numpy().tolist() == [1, 1]


def test_a_result_may_be_changed_between_tapes():
    x, loss = floats(1, 2), dk.zeros(1, requires_grad=True)
    for k in range(3):
        loss.zero_()
        y = dk.zeros(2, requires_grad=True)
        with dk.Tape() as tape:
            square[2](x, y)
            total[2](y, loss)
        tape.backward(loss)
        assert np.allclose(x.grad.numpy(), 2 * x.numpy())
        x.assign(x.numpy() - 0.1 * x.grad.numpy())
        tape.zero()
        assert k or loss.numpy()[0] == 5


def test_scalars_and_argument_lists_are_remembered_by_value():
    x, s = floats(1, 2), dk.zeros(1, requires_grad=True)
    arguments = [x, 2.0]
    with dk.Tape() as tape:
        dk.launch(weighted, 2, arguments, [s])
        arguments[1] = 50.0
        arguments[0] = floats(7, 7)
    tape.backward(s)
    assert x.grad.numpy().tolist() == [2, 2]


def test_branches_of_the_tape_that_do_not_reach_the_loss_are_not_run():
    @dk.kernel
    def never(x: dk.array(dtype=float), y: dk.array(dtype=float)):
        i = dk.tid()
        y[i] = x[i]

    x, y, s = floats(1, 2), dk.zeros(2, requires_grad=True), dk.zeros(1, requires_grad=True)
    with dk.Tape() as tape:
        total[2](x, s)
        never[2](x, y)
    tape.backward(s)
    assert not never._adjoints


def test_integer_outputs_end_the_chain():
    x, out, s = floats(-1, 2), dk.zeros(2, dtype=int), dk.zeros(1, requires_grad=True)
    with dk.Tape() as tape:
        which[2](x, out)
        total[2](x, s)
    tape.backward(s)
    assert out.numpy().tolist() == [0, 1]
    assert x.grad.numpy().tolist() == [1, 1]


def test_the_largest():
    x, s = floats(1, 5, 3), dk.zeros(1, requires_grad=True)
    with dk.Tape() as tape:
        largest[3](x, s)
    tape.backward(s)
    assert x.grad.numpy().tolist() == [0, 1, 0]
    assert s.grad.numpy().tolist() == [0] or s.grad.numpy().tolist() == [1]


def test_dim_zero():
    x, s = floats(1, 2), dk.zeros(1, requires_grad=True)
    with dk.Tape() as tape:
        total[0](x, s)
    tape.backward(s)
    assert x.grad.numpy().tolist() == [0, 0]
    assert s.grad.numpy().tolist() == [1]


def test_a_loss_has_one_element():
    x, y = floats(1, 2), dk.zeros(2, requires_grad=True)
    with dk.Tape() as tape:
        square[2](x, y)
    with pytest.raises(dk.LaunchError, match="one number"):
        tape.backward(y)
    with pytest.raises(dk.LaunchError, match="shape"):
        tape.backward(grads={y: np.zeros(3, np.float32)})


def test_integers_and_strangers_have_no_seed():
    x, out = floats(1, 2), dk.zeros(2, dtype=int)
    with dk.Tape() as tape:
        which[2](x, out)
    with pytest.raises(dk.LaunchError, match="no gradient"):
        tape.backward(grads={out: np.ones(2)})
    with pytest.raises(dk.LaunchError, match="does not occur"):
        tape.backward(floats(1))


def test_half_precision_on_a_tape():
    @dk.kernel
    def generic(x, y):
        i = dk.tid()
        y[i] = 3.0 * x[i]

    for dtype in (dk.float16, dk.bfloat16):
        x = dk.array([1.0, 2.0], dtype=dtype, requires_grad=True)
        y, z = dk.zeros(2, dtype=dtype, requires_grad=True), dk.zeros(2, dtype=dtype, requires_grad=True)
        with dk.Tape() as tape:
            generic[2](x, y)
            dk.copy(z, y)
        for _ in range(2):
            tape.backward(grads={z: np.float32([1.0, 2.0])})
        assert np.array_equal(x.grad.numpy(), dk.array([6.0, 12.0], dtype=dtype).numpy())


def test_tapes_in_several_threads_do_not_see_each_other():
    wrong = []

    def work(k):
        x, s = floats(*range(k, k + 100)), dk.zeros(1, requires_grad=True)
        for _ in range(20):
            s.zero_()
            y = dk.zeros(100)
            with dk.Tape() as tape:
                square[100](x, y)
                total[100](y, s)
            tape.backward(s)
            if not np.array_equal(x.grad.numpy(), 2 * x.numpy()):
                wrong.append(k)
            tape.zero()

    threads = [threading.Thread(target=work, args=(k,)) for k in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_tapes_do_not_nest():
    with dk.Tape(), pytest.raises(RuntimeError, match="recording already"), dk.Tape():
        pass
    with dk.Tape():
        pass


def test_a_tape_keeps_its_arrays_alive_until_reset():
    x = floats(1, 2)
    y = dk.zeros(2, requires_grad=True)
    alive = weakref.ref(y)
    tape = dk.Tape()
    with tape:
        square[2](x, y)
    del y
    gc.collect()
    assert alive() is not None
    tape.reset()
    gc.collect()
    assert alive() is None


def test_a_tape_keeps_memory_of_others_alive_until_reset():
    """Else the next array might lie where one was freed, and be taken for it."""
    y, own = dk.zeros(400), np.ones(3, np.float32)  # without gradients: no step of the tape holds them
    alive = weakref.ref(own)
    tape = dk.Tape()
    with tape:
        square[3](own, y)
        del own
        gc.collect()
        assert alive() is not None
        for n in np.random.default_rng(3).integers(50, 400, 200):
            square[int(n)](np.ones(n, np.float32), y)
    tape.reset()
    gc.collect()
    assert alive() is None


@pytest.mark.parametrize("offsets", [(0, 8), (8, 0), (4, 8)])
def test_arrays_in_one_memory_that_numpy_does_not_know_of_are_refused(offsets):
    raw = ctypes.create_string_buffer(64)
    first, second = (np.frombuffer(raw, np.float32, 4, offset) for offset in offsets)
    apart, y = np.frombuffer(raw, np.float32, 2, 48), dk.zeros(4, requires_grad=True)
    with dk.Tape():
        square[2](apart, y)
        square[4](first, y)
        square[4](first, y)
        with pytest.raises(dk.LaunchError, match="lie over the same memory"):
            square[4](second, y)


def test_a_gradient_given_late_is_refused():
    x, y = floats(1, 2, grad=False), dk.zeros(2, requires_grad=True)
    with dk.Tape():
        square[2](x, y)
        x.requires_grad = True
        with pytest.raises(dk.LaunchError, match="with a gradient and without"):
            square[2](x, y)


def test_two_arrays_over_one_memory_are_refused():
    data = np.ones(2, np.float32)
    a = dk.array(data, copy=False, requires_grad=True)
    b = dk.array(data, copy=False, requires_grad=True)
    y = dk.zeros(2, requires_grad=True)
    with dk.Tape():
        square[2](a, y)
        with pytest.raises(dk.LaunchError, match="one block of memory"):
            square[2](b, y)


def test_memory_that_numpy_sees_twice_is_one_or_refused():
    data = bytearray(12)
    first, again = np.frombuffer(data, np.float32, 2), np.frombuffer(data, np.float32, 2)
    second = np.frombuffer(data, np.float32, 2, offset=4)
    y = dk.zeros(2, requires_grad=True)
    with dk.Tape():
        square[2](first, y)
        square[2](first[:], y)
        square[2](again, y)
        with pytest.raises(dk.LaunchError, match="same memory"):
            square[2](second, y)


def test_a_kernel_without_backward_on_the_way():
    @dk.kernel(enable_backward=False)
    def one_way(x: dk.array(dtype=float), y: dk.array(dtype=float)):
        i = dk.tid()
        y[i] = x[i]

    x, y = floats(1, 2), dk.zeros(2, requires_grad=True)
    with dk.Tape() as tape:
        one_way[2](x, y)
    with pytest.raises(dk.KernelError, match="enable_backward=False"):
        tape.backward(grads={y: np.float32([1, 1])})
