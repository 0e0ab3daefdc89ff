"""``dk.record()``: replay, parameters, order, gradients, tables and traces of sequences."""

from __future__ import annotations

import json
import weakref

import numpy as np
import pytest

import diffkern as dk
from tests.unit.runtime.test_records import add_up, floats, gather, run_in_threads, scale, square_in_place


@pytest.fixture
def model():
    x, y, loss = floats(1, 2, 3, grad=True), dk.zeros(3), dk.zeros(1)
    with dk.record() as sequence:
        loss.zero_()
        scale[3](x, 2.0, y)
        dk.launch(add_up, 3, [y], [loss])
    return x, y, loss, sequence


def test_recording_runs_and_replaying_runs_again(model):
    x, y, loss, sequence = model  # noqa: RUF059
    assert loss.numpy()[0] == 28
    assert len(sequence) == 3
    x.fill_(1.0)
    assert sequence.replay() is None
    assert loss.numpy()[0] == 6
    sequence.replay(timed=True)
    assert loss.numpy()[0] == 6


def test_recording_without_running():
    y = dk.zeros(3)
    with dk.record(run=False) as sequence:
        scale[3](floats(1, 2, 3), 1.0, y)
    assert y.numpy().tolist() == [0, 0, 0]
    sequence.replay()
    assert y.numpy().tolist() == [1, 4, 9]


def test_an_empty_sequence_and_one_that_failed():
    with dk.record() as empty:
        pass
    empty.replay()
    assert len(empty) == 0
    failed = dk.record()
    with pytest.raises(dk.LaunchError), failed as sequence:
        scale[3](1.0)
    assert len(sequence) == 0
    with dk.record(), pytest.raises(RuntimeError, match="already"), dk.record():
        pass


def test_parts_and_single_launches(model):
    x, y, loss, sequence = model  # noqa: RUF059
    y.zero_()
    loss.zero_()
    sequence[2:].replay()
    assert loss.numpy()[0] == 0
    sequence[1].launch()
    sequence[2].launch()
    assert loss.numpy()[0] == 28
    assert [record.kernel for record in sequence] == [scale, add_up]
    with pytest.raises(dk.LaunchError, match="fill"):
        sequence[0]
    with pytest.raises(IndexError):
        sequence[3]


def test_parameters_by_name(model):
    x, y, loss, sequence = model  # noqa: RUF059
    part = sequence[:2]
    assert sequence.set_param("a", 1.0) == 1
    sequence.replay()
    assert loss.numpy()[0] == 14
    other = dk.zeros(3)
    assert sequence.set_param("y", other, kernel=scale) == 1
    sequence.set_params({"x": floats(1, 1, 1)}, kernel=scale)
    assert sequence.set_param("x", other, kernel=add_up) == 1
    part.replay()
    assert other.numpy().tolist() == [1, 1, 1]
    sequence.replay()
    assert loss.numpy()[0] == 3
    with pytest.raises(dk.LaunchError, match="no launch"):
        sequence.set_param("q", 1.0)
    with pytest.raises(dk.LaunchError, match="'x'"):
        sequence.set_param("x", 1.0)
    sequence.replay()
    assert loss.numpy()[0] == 3


def test_changes_of_form_through_one_launch(model):
    x, y, loss, sequence = model  # noqa: RUF059
    sequence[1].set_dim(1)
    sequence.replay()
    assert y.numpy().tolist() == [2, 8, 18]
    sequence[1].set_param_by_name("x", floats(5, 9, 6)[::2])
    sequence[1].set_dim(2)
    sequence.replay()
    assert y.numpy().tolist() == [50, 72, 18]
    assert loss.numpy()[0] == 140
    sequence[2].set_dim(0)
    sequence.replay()
    assert loss.numpy()[0] == 0


def test_order(model):
    x, y, loss, sequence = model  # noqa: RUF059
    assert sequence.dependencies() == [set(), set(), {0, 1}]
    swapped = sequence.reorder([1, 0, 2])
    swapped.replay()
    assert loss.numpy()[0] == 28
    with pytest.raises(ValueError, match=r"step 2 \(add_up\) must stay behind step 1 \(scale\)"):
        sequence.reorder([0, 2, 1])
    with pytest.raises(ValueError, match="each of the 3 steps once"):
        sequence.reorder([0, 1, 1])


def test_steps_on_interleaved_elements_may_change_places():
    """The order is judged as a graph judges it: by elements, not by the bytes between the first and the last."""
    x, y = floats(1, 2, 3, 4), dk.zeros(4)
    square = dk.zeros((2, 2))
    with dk.record() as sequence:
        scale[2](x[::2], 1.0, y[::2])
        scale[2](x[1::2], 2.0, y[1::2])
        square[:, 0].fill_(1.0)
        square[:, 1].fill_(2.0)
        scale[2](x[1::2], 3.0, y[1:3])
    assert sequence.dependencies() == [set(), set(), set(), set(), {0, 1}]
    y.zero_()
    square.zero_()
    sequence.reorder([3, 1, 0, 4, 2]).replay()
    assert y.numpy().tolist() == [1, 12, 48, 32]
    assert square.numpy().tolist() == [[1, 2], [1, 2]]
    with pytest.raises(ValueError, match=r"step 4 .* must stay behind step 1"):
        sequence.reorder([0, 4, 1, 2, 3])


def test_copies_fills_and_sums_of_all_kinds():
    a, b, c = floats(1, 2, 3, 4), dk.zeros(4), dk.zeros((4, 4), dtype=dk.float64)
    with dk.record() as sequence:
        dk.copy(b, a)
        b[1:3] = 7.0
        c.fill_(-0.0)
        c[::2].fill_(2.0)
        dk.copy(a[2:], a[:2])
        a.assign(np.array([9, 8, 7, 6], np.float32))
    a.assign(np.array([1, 2, 3, 4], np.float32))
    b.zero_()
    c.fill_(1.0)
    sequence.replay()
    assert b.numpy().tolist() == [1, 7, 7, 4]
    assert np.signbit(c.numpy()[1]).all()
    assert c.numpy().sum() == 16
    assert a.numpy().tolist() == [9, 8, 7, 6]


def test_constants_are_those_of_the_time_of_recording():
    values, a = np.ones(3, np.float32), dk.zeros(3)
    with dk.record() as sequence:
        a.assign(values)
    values[:] = 5
    a.zero_()
    sequence.replay()
    assert a.numpy().tolist() == [1, 1, 1]


# -- gradients -------------------------------------------------------------------------------------------------------


def test_forward_and_reverse_as_one(model):
    x, y, loss, sequence = model  # noqa: RUF059
    both = sequence.adjoint(loss)
    assert x.grad.numpy().tolist() == [0, 0, 0]
    for _ in range(3):
        both.replay()
        assert x.grad.numpy().tolist() == [4, 8, 12]
    both.set_param("a", 1.0)
    both.replay()
    assert loss.numpy()[0] == 14
    assert x.grad.numpy().tolist() == [2, 4, 6]
    both[1].set_param_by_name("a", 3.0)
    both.replay()
    assert x.grad.numpy().tolist() == [6, 12, 18]
    for change in (
        lambda: both.set_param("x", dk.zeros(3), kernel=scale),
        lambda: both[1].set_dim(2),
        lambda: both[1].set_param_by_name("x", dk.zeros(3)),
    ):
        with pytest.raises(dk.LaunchError, match="fixed"):
            change()
    with pytest.raises(dk.LaunchError, match="adjoints already"):
        both.adjoint(loss)


def test_gradients_add_up_without_zero_and_begin_with_seeds(model):
    x, y, loss, sequence = model
    adds = sequence.adjoint(loss, zero=False)
    adds.replay()
    adds.replay()
    assert x.grad.numpy().tolist() == [8, 16, 24]
    seeded = sequence[:2].adjoint(grads={y: np.array([1, 0, 0], np.float32)})
    seeded.replay()
    assert x.grad.numpy().tolist() == [4, 0, 0]


def test_gradients_that_results_hold():
    x, y = floats(1, 2, grad=True), dk.zeros(2, requires_grad=True)
    with dk.record() as sequence:
        scale[2](x, 1.0, y)
    both = sequence.adjoint()
    for seed in (1.0, 2.0):
        x.grad.zero_()
        y.grad.fill_(seed)
        both.replay()
        assert x.grad.numpy().tolist() == [2 * seed, 4 * seed]


def test_overwritten_contents_are_kept_at_each_replay():
    x, y, loss = floats(1, 2, grad=True), dk.zeros(2), dk.zeros(1)
    with dk.record(run=False) as sequence:
        loss.zero_()
        dk.copy(y, x)
        square_in_place[2](y)
        square_in_place[2](y)
        add_up[2](y, loss)
    both = sequence.adjoint(loss)
    for values in ([1, 2], [3, -1]):
        x.assign(np.array(values, np.float32))
        both.replay()
        assert x.grad.numpy().tolist() == [4 * v**3 for v in values]


def test_a_tape_inside_a_sequence(model):
    x, y, loss, _ = model
    with dk.record() as sequence:
        x.grad.zero_()
        with dk.Tape() as tape:
            loss.zero_()
            scale[3](x, 2.0, y)
            add_up[3](y, loss)
        tape.backward(loss)
    assert x.grad.numpy().tolist() == [4, 8, 12]
    x.assign(np.array([2, 2, 2], np.float32))
    sequence.replay()
    assert x.grad.numpy().tolist() == [8, 8, 8]
    sequence.set_param("a", 1.0)
    sequence.replay()
    assert x.grad.numpy().tolist() == [4, 4, 4]


def test_replaying_under_a_tape_records_there(model):
    x, y, loss, sequence = model  # noqa: RUF059
    with dk.Tape() as tape:
        sequence.replay()
    tape.backward(loss)
    assert x.grad.numpy().tolist() == [4, 8, 12]
    with dk.record() as nested:
        sequence.replay()
    assert len(nested) == 3
    nested.replay()
    assert loss.numpy()[0] == 28


def test_private_copies_split_the_native_call():
    n = 200_000
    x, index = dk.ones(16, requires_grad=True), dk.array(np.arange(n) % 16, dtype=int)
    y, loss = dk.zeros(n), dk.zeros(1)
    with dk.record() as sequence:
        loss.zero_()
        gather[n](x, index, y)
        add_up[n](y, loss)
    both = sequence.adjoint(loss)
    both.replay()
    both.replay(timed=True)
    assert loss.numpy()[0] == n
    assert x.grad.numpy().tolist() == [n / 16] * 16
    assert {row["native"] for row in both.table()} <= {True, False}
    assert all(row["seconds"] >= 0 for row in both.table())


# -- showing ---------------------------------------------------------------------------------------------------------


def test_table_json_and_trace(model, tmp_path):
    x, y, loss, sequence = model  # noqa: RUF059
    assert repr(sequence) == "<dk.Sequence of 3 steps>"
    assert "scale" in str(sequence)
    assert "a=2.0" in str(sequence)
    assert str(sequence).splitlines()[1].endswith("-")
    with pytest.raises(RuntimeError, match="timed=True"):
        sequence.chrome_trace()
    sequence.replay(timed=True)
    assert not str(sequence).splitlines()[1].endswith("-")
    steps = json.loads(sequence.to_json(tmp_path / "s.json"))["steps"]
    assert [step["step"] for step in steps] == ["fill", "scale", "add_up"]
    assert steps[2]["after"] == [0, 1]
    assert json.loads((tmp_path / "s.json").read_text())["steps"] == steps
    events = json.loads(sequence.chrome_trace(tmp_path / "t.json"))["traceEvents"]
    assert [event["name"] for event in events] == ["fill", "scale", "add_up"]
    assert events[0]["ts"] == 0
    assert all(event["ph"] == "X" and event["dur"] >= 0 for event in events)


def test_replays_from_many_threads_at_once():
    n, threads = 5000, 4
    models = []
    for k in range(threads):
        x, y, loss = dk.full(n, float(k)), dk.zeros(n), dk.zeros(1)
        with dk.record() as sequence:
            loss.zero_()
            scale[n](x, 2.0, y)
            add_up[n](y, loss)
        models.append((sequence, loss))
    run_in_threads(lambda k: [models[k][0].replay() for _ in range(100)], threads)
    assert [loss.numpy()[0] for _, loss in models] == [2.0 * n * k * k for k in range(threads)]


def test_everything_works_without_the_native_pool(monkeypatch):
    monkeypatch.setattr("diffkern.runtime.native.pool.functions", dict)
    x, y, loss = floats(1, 2, 3, grad=True), dk.zeros(3), dk.zeros(1)
    record = dk.launch(scale, 3, [x, 2.0], [y], record_cmd=True)
    record.launch()
    assert y.numpy().tolist() == [2, 8, 18]
    with dk.record() as sequence:
        loss.zero_()
        record.launch()
        add_up[3](y, loss)
    both = sequence.adjoint(loss)
    both.replay()
    both.set_param("a", 1.0)
    both.replay(timed=True)
    assert loss.numpy()[0] == 14
    assert x.grad.numpy().tolist() == [2, 4, 6]
    with dk.Tape() as tape:
        sequence.replay()
    for k in range(2, 5):
        tape.backward(loss)
        assert x.grad.numpy().tolist() == [2 + 4 * (k - 1), 4 + 8 * (k - 1), 6 + 12 * (k - 1)]


@dk.kernel(mode="debug")
def gather_checked(x: dk.array(dtype=float), index: dk.array(dtype=int), y: dk.array(dtype=float)):
    i = dk.tid()
    y[i] = x[index[i]]


def test_checked_programs_report_from_records_and_sequences():
    x, index, y = floats(1, 2, grad=True), dk.array([1, 0], dtype=int), dk.zeros(2, requires_grad=True)
    record = dk.launch(gather_checked, 2, [x, index], [y], record_cmd=True)
    with dk.record() as sequence:
        record.launch()
    assert y.numpy().tolist() == [2, 1]
    index.fill_(2)
    for run in (record.launch, sequence.replay):
        with pytest.raises(dk.LaunchError, match="out of bounds"):
            run()
    stream = dk.Stream()
    record.launch(stream)
    with pytest.raises(dk.LaunchError, match="out of bounds"):
        stream.synchronize()


def test_a_recorded_sweep_begins_with_what_the_array_of_its_seed_holds_when_it_is_replayed():
    x, y, seed = floats(1, 2, 3, grad=True), dk.zeros(3, requires_grad=True), dk.ones(3)
    with dk.record() as sequence:
        with dk.Tape() as tape:
            scale[3](x, 2.0, y)
        tape.zero()
        tape.backward(grads={y: seed})
    before = x.grad.numpy().copy()
    seed.fill_(3.0)
    sequence.replay()
    assert x.grad.numpy().tolist() == (3 * before).tolist()
    assert seed.numpy().tolist() == [3, 3, 3]


def test_a_recorded_seed_of_another_type_is_refused():
    x, y = floats(1, 2, 3, grad=True), dk.zeros(3, requires_grad=True)
    with dk.Tape() as tape:
        scale[3](x, 2.0, y)
    with dk.record():
        with pytest.raises(dk.LaunchError, match="as it is"):
            tape.backward(grads={y: dk.ones(3, dtype=dk.float64)})
        tape.backward(grads={y: np.ones(3)})


def test_a_sequence_with_a_released_record_is_not_replayed():
    n = 100_000
    x, y = dk.ones(n), dk.zeros(n)
    with dk.record() as sequence:
        scale[n](x, 2.0, y)
        scale[n](y, 2.0, x)
    part = sequence[:1]
    with sequence[0]:
        pass
    alive = weakref.ref(y)
    sequence[1].release()
    del x, y
    assert alive() is None
    for released in (sequence, part):
        for _ in range(2):
            with pytest.raises(dk.LaunchError, match="released"):
                released.replay()


@pytest.fixture
def both_ways():
    x, y = floats(1, 1, grad=True), dk.zeros(2, requires_grad=True)
    with dk.record() as forward:
        scale[2](x, 1.0, y)
    return x, y, forward.adjoint(grads={y: dk.ones(2)})


def test_sequences_recorded_from_each_other_have_parameters_of_their_own(both_ways):
    x, y, first = both_ways
    with dk.record() as second:
        first.replay()
    scale_of = {first: 1.0, second: 1.0}

    def check():
        for sequence, a in scale_of.items():
            sequence.replay()
            assert (y.numpy()[0], x.grad.numpy()[0]) == (a, 2 * a)
            with dk.record() as again:
                sequence.replay()
            assert (y.numpy()[0], x.grad.numpy()[0]) == (a, 2 * a)
            again.replay()
            assert (y.numpy()[0], x.grad.numpy()[0]) == (a, 2 * a)
            assert [row["parameters"]["a"] for row in sequence.table() if row["dim"]] == [str(a)] * 2

    check()
    for sequence, a in ((second, 3.0), (first, 5.0), (second, 7.0)):
        assert sequence.set_param("a", a) == 2
        scale_of[sequence] = a
        check()
    next(iter(second)).set_param_by_name("a", 9.0)  # of the launch, and so of its adjoint
    scale_of[second] = 9.0
    check()


def test_a_recorded_launch_with_a_gradient_keeps_its_arrays(both_ways):
    _, _, first = both_ways
    with dk.record() as second:
        first.replay()
    for sequence in (first, second):
        with pytest.raises(dk.LaunchError, match="fixed"):
            sequence[0].set_param_by_name("x", floats(2, 2, grad=True))
        with pytest.raises(dk.LaunchError, match="fixed"):
            sequence[0].set_dim(1)


def test_a_tape_takes_the_sums_of_a_replay():
    x, y, z, seed = floats(1, 2, grad=True), dk.zeros(2, requires_grad=True), dk.zeros(2), floats(3, 4, grad=True)
    with dk.record() as sequence:
        x.grad.zero_()
        with dk.Tape() as inner:
            y.assign(x)
        inner.backward(grads={y: seed})  # which adds to what there is
    with dk.Tape() as tape:
        sequence.replay()
        scale[2](x.grad, 1.0, z)
    tape.backward(grads={z: dk.ones(2)})
    assert seed.grad.numpy().tolist() == [6, 8]


@dk.kernel
def moved(x: dk.array(dtype=float), n: int, y: dk.array(dtype=float)):
    i = dk.tid()
    y[i + n] = x[i] * y[i + n]


@dk.kernel
def narrow(n: dk.int8, y: dk.array(dtype=float)):
    i = dk.tid()
    y[i] = y[i] + float(n)


def _state(sequence):
    return [(list(launch._record.launch.parts), launch._record._compiled.block[:]) for launch in sequence]


@pytest.mark.parametrize("change", ["set_param", "set_params"])
def test_a_refused_parameter_changes_no_launch(change):
    """The first launches would take the value; the last one does not."""
    x, y, z = floats(*range(8)), floats(*range(8)), floats(*range(8))
    with dk.record() as sequence:
        dk.launch(moved, 2, [x, 4, y])
        dk.launch(moved, 2, [x, 4, z])
        narrow[8](3, z)
    wrong = [
        ("n", 300, "int8"),
        ("y", floats(1, 2), "outside its shape"),
        ("y", y.reshape(2, 4), "axes|ndim|dimension"),
    ]
    for name, value, message in wrong:
        before = _state(sequence)
        given = [name, value] if change == "set_param" else [{"x": floats(*range(8)), name: value}]
        with pytest.raises((dk.LaunchError, TypeError, OverflowError), match=message):
            getattr(sequence, change)(*given)
        assert _state(sequence) == before
    sequence.set_params({"n": 2, "y": y})
    assert [launch.arrays["y"] is y for launch in sequence] == [True] * 3
    y.fill_(1.0)
    x.fill_(3.0)
    sequence.replay()
    assert y.list() == [3.0, 3.0, 11.0, 11.0, 3.0, 3.0, 3.0, 3.0]


def test_parameters_that_fit_together_alone_are_set_together():
    x, y, w, v = floats(1, 2, 3, 4), floats(1, 2, 3, 4), floats(*range(1, 7)), floats(*range(1, 7))
    with dk.record() as sequence:
        dk.launch(joined, 2, [x, y])
    with pytest.raises(dk.LaunchError, match="share memory"):
        sequence.set_param("y", x[1:])
    sequence.set_params({"x": w, "y": v})
    sequence.replay()
    assert v.list() == [2.0, 4.0, 3.0, 4.0, 5.0, 6.0]


@dk.kernel
def joined(x: dk.array(dtype=float), y: dk.array(dtype=float)):
    i = dk.tid()
    y[i] = 2.0 * x[i]


def test_a_number_that_lets_an_adjoint_race_changes_no_launch():
    x, y = floats(1, 2, 3, 4, 5, 6, 7, 8, grad=True), floats(*range(8), grad=True)
    with dk.record() as sequence:
        dk.launch(moved_in_place, 2, [y, 4])  # the threads of this one would not race
        dk.launch(moved_in_place, 4, [x, 4])
    adjoint = sequence.adjoint(grads={x: np.ones(8, np.float32), y: np.ones(8, np.float32)})
    before = _state(adjoint)
    with pytest.raises(dk.errors.AutodiffError, match="n=2"):
        adjoint.set_param("n", 2)
    assert _state(adjoint) == before


@dk.kernel
def moved_in_place(y: dk.array(dtype=float), n: int):
    i = dk.tid()
    y[n + i] = y[i] * y[n + i]
