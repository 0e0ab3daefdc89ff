"""``dk.Launch``: what a record runs, how it is changed, what it refuses, what it keeps alive."""

from __future__ import annotations

import ctypes
import gc
import threading
import weakref

import numpy as np
import pytest

import diffkern as dk


@dk.kernel
def scale(x: dk.array(dtype=float), a: float, y: dk.array(dtype=float)):
    i = dk.tid()
    y[i] = a * x[i] * x[i]


@dk.kernel
def add_up(x: dk.array(dtype=float), total: dk.array(dtype=float)):
    i = dk.tid()
    dk.atomic_add(total, 0, x[i])


@dk.kernel
def shift(x: dk.array(dtype=dk.vec3), by: dk.vec3, n: int, y: dk.array(dtype=dk.vec3)):
    i = dk.tid()
    y[i] = x[i] + float(n) * by


@dk.kernel
def square_in_place(y: dk.array(dtype=float)):
    i = dk.tid()
    y[i] = y[i] * y[i]


@dk.kernel
def plus(x, y: dk.array(dtype=float)):
    i = dk.tid()
    y[i] = y[i] + float(x)


def floats(*values, grad=False):
    return dk.array(np.array(values, dtype=np.float32), requires_grad=grad)


@pytest.fixture
def xy():
    return floats(1, 2, 3, grad=True), dk.zeros(3, requires_grad=True)


def test_recording_runs_nothing_and_launching_runs_each_time(xy):
    x, y = xy
    record = dk.launch(scale, 3, [x, 2.0], [y], record_cmd=True)
    assert isinstance(record, dk.Launch)
    assert y.numpy().tolist() == [0, 0, 0]
    assert record.launch() is None
    assert y.numpy().tolist() == [2, 8, 18]
    x.fill_(1.0)
    record.launch()
    assert y.numpy().tolist() == [2, 2, 2]
    assert record.kernel is scale
    assert record.dim == (3,)
    assert not record.is_adjoint
    assert "scale" in repr(record)
    assert set(record.arrays) == {"x", "y"}


def test_every_setter(xy):
    x, y = xy
    other = floats(10, 20, 30)
    record = dk.launch(scale, 3, [x, 2.0], [y], record_cmd=True)
    record.set_param_at_index(1, 3.0)
    record.launch()
    assert y.numpy().tolist() == [3, 12, 27]
    record.set_param_at_index(0, other)
    record.set_param_by_name("a", 1)
    record.launch()
    assert y.numpy().tolist() == [100, 400, 900]
    record.set_param_at_index_from_ctype(1, ctypes.c_float(0.5))
    record.launch()
    assert y.numpy().tolist() == [50, 200, 450]
    record.set_param_by_name_from_ctype("a", ctypes.c_float(0.25))
    record.launch()
    assert y.numpy().tolist() == [25, 100, 225]
    z = dk.zeros(3)
    record.set_params([x, 1.0, z])
    record.launch()
    assert z.numpy().tolist() == [1, 4, 9]
    assert y.numpy().tolist() == [25, 100, 225]
    record.set_param_by_name("y", np_y := np.zeros(3, np.float32))
    record.set_dim(2)
    record.launch()
    assert np_y.tolist() == [1, 4, 0]
    record.set_dim([3])
    record.launch()
    assert np_y.tolist() == [1, 4, 9]


def test_composite_values():
    x, y = dk.zeros(2, dtype=dk.vec3), dk.zeros(2, dtype=dk.vec3)
    record = dk.launch(shift, 2, [x, dk.vec3(1.0, 2.0, 3.0), 2], [y], record_cmd=True)
    record.launch()
    assert y.numpy().tolist() == [[2, 4, 6]] * 2
    record.set_param_by_name("by", dk.vec3(1.0, 0.0, 0.0))
    record.set_param_by_name_from_ctype("n", ctypes.c_int(5))
    record.launch()
    assert y.numpy().tolist() == [[5, 0, 0]] * 2
    record.set_param_by_name_from_ctype("by", (ctypes.c_float * 3)(0, 1, 0))
    record.launch()
    assert y.numpy().tolist() == [[0, 5, 0]] * 2


def test_values_are_those_of_the_time_of_recording():
    x, y = dk.zeros(1, dtype=dk.vec3), dk.zeros(1, dtype=dk.vec3)
    by = np.array([1, 2, 3], np.float32)
    arguments = [x, by, 1]
    record = dk.launch(shift, 1, arguments, [y], record_cmd=True)
    by[0] = 100.0
    arguments[2] = 7
    record.launch()
    assert y.numpy().tolist() == [[1, 2, 3]]


def test_a_parameter_without_annotation_takes_another_type():
    y = dk.zeros(2)
    record = dk.launch(plus, 2, [1], [y], record_cmd=True)
    record.launch()
    record.set_param_at_index(0, 0.5)
    record.launch()
    assert y.numpy().tolist() == [1.5, 1.5]


def test_another_memory_layout(xy):
    x, y = xy
    record = dk.launch(scale, 3, [x, 1.0], [y], record_cmd=True)
    launch = record.launch
    record.set_param_by_name("x", floats(1, 9, 2, 9, 3)[::2])
    launch()
    assert y.numpy().tolist() == [1, 4, 9]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda r: r.set_param_at_index(3, 1.0), "parameters 0 to 2"),
        (lambda r: r.set_param_at_index(-1, 1.0), "parameters 0 to 2"),
        (lambda r: r.set_param_at_index("a", 1.0), "integer"),
        (lambda r: r.set_param_by_name("b", 1.0), "no parameter 'b'"),
        (lambda r: r.set_param_by_name_from_ctype("b", ctypes.c_float(1)), "no parameter 'b'"),
        (lambda r: r.set_param_at_index(1, "one"), "'a'"),
        (lambda r: r.set_param_at_index(1, 1e300), "'a'"),
        (lambda r: r.set_param_at_index(0, 1.0), "'x'"),
        (lambda r: r.set_param_at_index(0, None), "x is None"),
        (lambda r: r.set_param_at_index(0, dk.zeros(3, dtype=dk.float64)), "'x'"),
        (lambda r: r.set_param_at_index(0, dk.zeros((3, 3))), "'x'"),
        (lambda r: r.set_param_at_index(2, np.broadcast_to(np.float32(0), 3)), "read-only"),
        (lambda r: r.set_params([1.0]), "3 arguments"),
        (lambda r: r.set_param_at_index(0, dk.zeros(3), adjoint=True), "runs forward"),
        (lambda r: r.set_params(adj_values=[None] * 3), "runs forward"),
        (lambda r: r.set_dim(-1), "at least 0"),
        (lambda r: r.set_dim(2.5), "integer"),
        (lambda r: r.set_param_at_index_from_ctype(0, ctypes.c_float(1)), "keep it alive"),
        (lambda r: r.set_param_at_index_from_ctype(1, "x"), "ctypes"),
        (lambda r: r.launch(stream="s"), "dk.Stream"),
        (lambda r: r.launch(1, 2), "argument"),
        (lambda r: r.set_params_from_ctypes([ctypes.c_float(1)]), "3 arguments"),
    ],
)
def test_what_is_refused_changes_nothing(xy, change, message):
    x, y = xy
    record = dk.launch(scale, 3, [x, 2.0], [y], record_cmd=True)
    with pytest.raises((dk.LaunchError, dk.KernelError, TypeError, ValueError), match=message):
        change(record)
    record.launch()
    assert y.numpy().tolist() == [2, 8, 18]


def test_dim_zero_is_a_record_like_any_other(xy):
    x, y = xy
    record = dk.launch(scale, 0, [x, 2.0], [y], record_cmd=True)
    record.launch()
    record.set_param_by_name("a", 3.0)
    assert y.numpy().tolist() == [0, 0, 0]
    record.set_dim(3)
    record.launch()
    assert y.numpy().tolist() == [3, 12, 27]


def test_a_record_keeps_arrays_alive():
    y = dk.zeros(3)
    x = floats(1, 2, 3)
    alive = weakref.ref(x)
    record = dk.launch(scale, 3, [x, 1.0], [y], record_cmd=True)
    launch = record.launch
    del x
    gc.collect()
    assert alive() is not None
    new = floats(2, 2, 2)
    also = weakref.ref(new)
    record.set_param_by_name("x", new)
    del new, record
    gc.collect()
    assert alive() is None
    assert also() is not None
    launch()
    assert y.numpy().tolist() == [4, 4, 4]
    del launch
    assert also() is None


def test_release_lets_go_and_ends_the_record(xy):
    x, y = xy
    with dk.launch(scale, 3, [x, 2.0], [y], record_cmd=True) as record:
        record.launch()
    alive = weakref.ref(x)
    for use in (record.launch, lambda: record.set_param_at_index(1, 1.0), lambda: record.set_dim(1), record.adjoint):
        with pytest.raises(dk.LaunchError, match="released"):
            use()
    record.release()
    assert repr(record) == "<dk.Launch released>"
    del x, xy
    assert alive is not None


def test_many_threads_in_one_launch_and_partial_sums():
    n = 300_000
    x, total = dk.ones(n), dk.zeros(1)
    record = dk.launch(add_up, n, [x], [total], record_cmd=True)
    for _ in range(3):
        record.launch()
    assert total.numpy()[0] == 3 * n


# -- adjoints --------------------------------------------------------------------------------------------------------


def test_the_record_of_an_adjoint(xy):
    x, y = xy
    forward = dk.launch(scale, 3, [x, 2.0], [y], record_cmd=True)
    for record in (forward.adjoint(), dk.launch(scale, 3, [x, 2.0], [y], adjoint=True, record_cmd=True)):
        assert record.is_adjoint
        x.grad.zero_()
        y.grad.fill_(1.0)
        record.launch()
        assert x.grad.numpy().tolist() == [4, 8, 12]
        assert y.grad.numpy().tolist() == [0, 0, 0]
        record.set_param_by_name("a", 1.0)
        y.grad.fill_(1.0)
        record.launch()
        assert x.grad.numpy().tolist() == [6, 12, 18]


def test_gradients_given_and_set(xy):
    x, y = xy
    ct_x, ct_a, ct_y = dk.zeros(3), dk.zeros(1), dk.ones(3)
    record = dk.launch(
        scale, 3, [x, 2.0], [y], adj_inputs=[ct_x, ct_a], adj_outputs=[ct_y], adjoint=True, record_cmd=True
    )
    record.launch()
    assert ct_x.numpy().tolist() == [4, 8, 12]
    assert ct_a.numpy().tolist() == [14]
    other = dk.zeros(3)
    ct_y.fill_(1.0)
    record.set_param_at_index(0, other, adjoint=True)
    record.launch()
    assert other.numpy().tolist() == [4, 8, 12]
    assert ct_x.numpy().tolist() == [4, 8, 12]
    record.set_param_by_name("x", None, adjoint=True)
    ct_y.fill_(1.0)
    record.launch()
    assert x.grad.numpy().tolist() == [4, 8, 12]
    with pytest.raises(dk.LaunchError, match="shape"):
        record.set_param_by_name("x", dk.zeros(2), adjoint=True)
    with pytest.raises(dk.LaunchError, match="shape"):
        record.set_param_by_name("y", dk.zeros(2))
    x2, ct_x2, y2, ct_y2 = floats(1, 2), dk.zeros(2), dk.zeros(2), dk.ones(2)
    record.set_dim(2)
    record.set_params([x2, 1.0, y2], [ct_x2, ct_a, ct_y2])
    record.launch()
    assert ct_x2.numpy().tolist() == [2, 4]
    assert "adj_x" in record.arrays


def test_by_name_gradients_of_a_forward_record(xy):
    x, y = xy
    ct_x = dk.zeros(3)
    record = dk.launch(scale, 3, [x, 2.0], [y], record_cmd=True)
    adjoint = record.adjoint({"x": ct_x})
    y.grad.fill_(1.0)
    adjoint.launch()
    assert ct_x.numpy().tolist() == [4, 8, 12]
    with pytest.raises(dk.LaunchError, match="no parameter"):
        record.adjoint({"q": ct_x})
    with pytest.raises(dk.LaunchError, match="adjoint already"):
        adjoint.adjoint()


def test_an_adjoint_that_needs_what_was_overwritten_is_refused():
    record = dk.launch(square_in_place, 2, [floats(1, 2, grad=True)], record_cmd=True)
    with pytest.raises(dk.LaunchError, match="held before"):
        record.adjoint()


def test_an_adjoint_without_gradients_is_refused():
    record = dk.launch(scale, 2, [dk.zeros(2), 1.0], [dk.zeros(2)], record_cmd=True)
    with pytest.raises(dk.LaunchError, match="no argument has a gradient"):
        record.adjoint()


def test_an_adjoint_with_private_copies_runs_too():
    n = 200_000
    x, index, y = dk.ones(16, requires_grad=True), dk.array(np.arange(n) % 16, dtype=int), dk.zeros(n)
    y.requires_grad = True
    record = dk.launch(gather, n, [x, index], [y], record_cmd=True)
    record.launch()
    adjoint = record.adjoint()
    for _ in range(2):
        y.grad.fill_(1.0)
        adjoint.launch()
    assert x.grad.numpy().tolist() == [2 * n / 16] * 16


@dk.kernel
def gather(x: dk.array(dtype=float), index: dk.array(dtype=int), y: dk.array(dtype=float)):
    i = dk.tid()
    y[i] = x[index[i]] + 0.0 * dk.sin(x[index[i]])


# -- tapes -----------------------------------------------------------------------------------------------------------


def test_a_record_launched_under_a_tape_is_recorded_there(xy):
    x, y = xy
    record = dk.launch(scale, 3, [x, 2.0], [y], record_cmd=True)
    with dk.Tape() as tape:
        record.launch()
    record.set_param_by_name("a", 100.0)
    record.set_param_by_name("x", dk.zeros(3))
    tape.backward(grads={y: np.ones(3, np.float32)})
    assert x.grad.numpy().tolist() == [4, 8, 12]


def test_a_record_that_changes_what_a_tape_needs_is_noticed(xy):
    x, y = xy
    disturb = dk.launch(square_in_place, 3, [x], record_cmd=True)
    with dk.Tape() as tape:
        dk.launch(scale, 3, [x, 2.0], [y])
    disturb.launch()
    with pytest.raises(dk.LaunchError, match="outside the tape"):
        tape.backward(grads={y: np.ones(3, np.float32)})


def test_a_record_ends_what_is_known_to_be_zero(xy):
    x, y = xy
    write = dk.launch(scale, 3, [floats(1, 1, 1), 5.0], [x.grad], record_cmd=True)
    with dk.Tape() as tape:
        dk.launch(scale, 3, [x, 2.0], [y])
    write.launch()
    tape.zero()
    assert x.grad.numpy().tolist() == [0, 0, 0]


# -- threads ---------------------------------------------------------------------------------------------------------


def test_launches_from_many_threads_at_once():
    n, threads, times = 20_000, 6, 40
    records, totals = [], []
    x = dk.ones(n)
    for _ in range(threads):
        totals.append(dk.zeros(1))
        records.append(dk.launch(add_up, n, [x], [totals[-1]], record_cmd=True))
    run_in_threads(lambda k: [records[k].launch() for _ in range(times)], threads)
    assert [t.numpy()[0] for t in totals] == [n * times] * threads


def test_one_record_from_many_threads_while_another_changes_it():
    x, ys = dk.ones(64), [dk.zeros(64) for _ in range(4)]
    record = dk.launch(scale, 64, [x, 2.0], [ys[0]], record_cmd=True)

    def work(k):
        for step in range(300):
            if k == 0:
                record.set_param_by_name("a", 2.0)
                record.set_param_by_name("y", ys[step % 4])
            else:
                record.launch()

    run_in_threads(work, 4)
    record.launch()
    assert {v for y in ys for v in y.numpy().tolist()} <= {0.0, 2.0}


def run_in_threads(work, count):
    errors = []

    def guarded(k):
        try:
            work(k)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(k,)) for k in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors


def _of_adjoints(x, y):
    yield dk.launch(scale, 3, [x, 2.0], [y], record_cmd=True).adjoint()
    yield dk.launch(scale, 3, [x, 2.0], [y], adjoint=True, record_cmd=True)


def test_an_array_without_a_gradient_does_not_take_the_place_of_one_with():
    x, y, bare, ct = floats(1, 2, 3, grad=True), floats(0, 0, 0, grad=True), dk.ones(3), dk.zeros(3)
    y.grad.fill_(1.0)
    for record in _of_adjoints(x, y):
        for change in (
            lambda r: r.set_param_at_index(0, bare),
            lambda r: r.set_param_by_name("y", bare),
            lambda r: r.set_params([bare, 2.0, y]),
            lambda r: r.set_params([bare, 2.0, y], [None, None, None]),
        ):
            before = record.arrays
            with pytest.raises(dk.LaunchError, match=r"parameter '[xy]'.*adds to its gradient, and the array has none"):
                change(record)
            assert [a._packed for a in record.arrays.values()] == [a._packed for a in before.values()]
        x.grad.zero_()
        record.launch()
        assert x.grad.list() != [0.0] * 3
        y.grad.fill_(1.0)
        record.set_params([bare, 2.0, y], [ct, None, None])
        record.set_param_at_index(0, floats(4, 5, 6, grad=True))  # with the gradient that was given by hand
        with pytest.raises(dk.LaunchError, match="the array has none"):
            record.set_params([bare, 2.0, y], [None, None, None])
        record.launch()
        assert ct.list() != [0.0] * 3
        ct.zero_()
        y.grad.fill_(1.0)


def test_of_an_adjoint_without_that_gradient_other_arrays_have_none_either():
    bare, y = dk.ones(3), floats(0, 0, 0, grad=True)
    a = dk.zeros(1)
    record = dk.launch(
        scale, 3, [bare, 2.0], [y], adj_inputs=[None, a], adj_outputs=[None], adjoint=True, record_cmd=True
    )
    record.set_param_at_index(0, dk.zeros(3))
    record.launch()
