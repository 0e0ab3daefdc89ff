"""A call that another thread begins after a change has found that there is none: it is waited for as well."""

from __future__ import annotations

import operator
import sys

import numpy as np
import pytest

import diffkern as dk
from diffkern.runtime.native import replay
from diffkern.runtime.native.replay import Plan, done_while_idle
from diffkern.runtime.native.setter import put_while_idle
from diffkern.runtime.records.launch_record import LaunchRecord
from tests.unit.runtime.test_record_setters import floats, scale

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the native pool needs POSIX threads")

RUNNING = 1  # the word of a plan that counts calls in progress


@dk.struct
class Factors:
    first: float
    second: dk.vec2


@dk.kernel
def products(f: Factors, y: dk.array(dtype=float)):
    y[dk.tid()] = f.first * f.second[1]


@pytest.fixture
def change(monkeypatch):
    """A function that makes a change, of a prepared launch, while a call of a plan begins that it has not seen.

    That is, after it has looked for calls as often as it usually does.
    """

    def made(prepared, plan, change, usual):
        looks = []
        wait_idle = LaunchRecord._wait_idle
        block, parts, arrays = bytes(prepared._compiled.block), [*prepared.launch.parts], [*prepared.launch.arrays]

        def wait(self):
            if len(looks) == usual:
                # The change has looked once more, and not been made beside the call.
                assert prepared._compiled.block == block
                assert prepared._compiled.launch.parts == parts
                assert all(map(operator.is_, prepared._compiled.launch.arrays, arrays))
                plan.words[RUNNING] = 0
            wait_idle(self)
            looks.append(self)
            if len(looks) == usual:
                plan.words[RUNNING] = 1

        monkeypatch.setattr(LaunchRecord, "_wait_idle", wait)
        try:
            change()
        finally:
            plan.words[RUNNING] = 0
            monkeypatch.undo()
        assert len(looks) == usual + 1
        assert prepared._compiled.block != block

    return made


def test_an_array(change):
    y = dk.zeros(2)
    record = dk.launch(scale, 2, [floats(1, 2), 3.0], [y], record_cmd=True)
    prepared = record._record
    change(prepared, prepared.plan, lambda: prepared.set(0, floats(5, 6)), 2)
    record.launch()
    assert y.numpy().tolist() == [15, 18]
    z = dk.zeros(2)
    change(prepared, prepared.plan, lambda: prepared.set(2, z), 2)
    version = z._memory.counter.value
    record.launch()
    assert z.numpy().tolist() == [15, 18]
    assert z._memory.counter.value == version + 1


def test_a_number_of_numpy(change):
    y = dk.zeros(2)
    record = dk.launch(scale, 2, [floats(1, 2), 3.0], [y], record_cmd=True)
    record.set_param_at_index(1, 4.0)
    change(record._record, record._record.plan, lambda: record.set_param_at_index(1, np.float32(5)), 1)
    record.launch()
    assert y.numpy().tolist() == [5, 10]


def test_a_struct(change):
    y = dk.zeros(1)
    record = dk.launch(products, 1, [Factors(first=2.0, second=dk.vec2(3.0, 4.0))], [y], record_cmd=True)
    record.set_param_at_index(0, Factors(first=1.0, second=dk.vec2(3.0, 4.0)))
    new = Factors(first=5.0, second=dk.vec2(6.0, 7.0))
    change(record._record, record._record.plan, lambda: record.set_param_at_index(0, new), 1)
    record.launch()
    assert y.numpy().tolist() == [35]


@pytest.mark.parametrize("of_sequence", [False, True])
def test_a_value_of_a_sequence(change, of_sequence):
    x, y = floats(1, 2), dk.zeros(2)
    with dk.record() as steps:
        dk.launch(scale, 2, [x, 3.0], [y])
    prepared = steps[0]._record
    plan = steps._program.plan if of_sequence else prepared.plan
    change(prepared, plan, lambda: steps.set_param("a", 4.0), 2)
    steps.replay()
    assert y.numpy().tolist() == [4, 8]


def test_a_plan_takes_others_steps_after_calls_that_began_before_the_flag(monkeypatch):
    def steps(function):
        return [replay.Step(function, bytearray(8), 1, 1)]

    plan, other = Plan(steps(1), [], 0), Plan(steps(2), [], 0)
    held, place = plan._steps, plan.words[6]
    plan.words[RUNNING] = 1
    waits = []

    def sleep(_):
        # The call still runs the former steps: they are kept, and where they were.
        assert (plan.words[6], held[0]) == (place, 1)
        assert plan.flags
        assert any(held is kept for kept in plan._kept[-1])
        waits.append(plan)
        plan.words[RUNNING] = 0

    monkeypatch.setattr(replay.time, "sleep", sleep)
    plan.become(other)
    monkeypatch.undo()
    assert waits == [plan]
    assert (plan.words[6], plan.words[RUNNING], plan.flags) == (other.words[6], 0, 0)
    assert not any(held is kept for kept in plan._kept)


def test_nothing_is_done_beside_a_call():
    plans, done = [Plan([], [], 0) for _ in range(3)], []
    effects = map(done.append, (1, 2))
    plans[1].words[RUNNING] = 2
    assert not done_while_idle(plans, effects)
    assert done == []
    plans[1].words[RUNNING] = 0
    assert done_while_idle(plans, effects)
    assert done == [1, 2]


def test_nothing_is_written_beside_a_call():
    plan, block = Plan([], [], 0), bytearray(b"0123456789")
    put = put_while_idle(plan, block)
    plan.words[RUNNING] = 1
    assert not put(2, b"abc")
    assert block == b"0123456789"
    plan.words[RUNNING] = 0
    assert put(2, b"abc")
    assert block == b"01abc56789"
