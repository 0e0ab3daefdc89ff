"""The model of many processors in ``benchmarks/scaling``: diffkern's own decisions, and a simulation of the pool."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import diffkern as dk
from diffkern.runtime.launch import schedule
from diffkern.runtime.native import pool


@pytest.fixture(scope="module")
def scaling() -> Iterator[SimpleNamespace]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(Path(__file__).parents[2]))
        names = "launches", "machine", "model", "simulate", "workload_kernels"
        yield SimpleNamespace(**{name: importlib.import_module(f"benchmarks.scaling.{name}") for name in names})


def machine(scaling: SimpleNamespace, processors: int, nodes: int = 1, **more: float):
    """A machine whose memory takes no time, unless more is said."""
    curve = scaling.machine.Curve
    free = curve((1.0,), (0.0,))
    numbers = dict.fromkeys(
        ("chunk", "launch", "call", "wake", "signal", "lock", "handover", "line", "page", "large_page", "bins"), 0.0
    )
    numbers |= {"node_bandwidth": 1e12, "own_bandwidth": 1e12, "remote": 1.0} | more
    return scaling.machine.Machine("made up", processors, nodes, free, free, free, 4.0, **numbers)


@pytest.mark.parametrize("processors", [1, 2, 64])
def test_work_is_divided_where_nothing_else_takes_time(scaling: SimpleNamespace, processors: int) -> None:
    job = scaling.simulate.Job(256, 1e-6, 0.0)
    found = scaling.simulate.simulated(job, machine(scaling, processors), scaling.simulate.Pool())
    assert found.seconds == pytest.approx(256e-6 / processors)
    assert found.busy == pytest.approx(1.0)


def test_the_memory_of_one_node_is_shared(scaling: SimpleNamespace) -> None:
    job = scaling.simulate.Job(256, 0.0, 1e6)
    made = machine(scaling, 64, 4, node_bandwidth=1e11)
    pool_of = scaling.simulate.Pool
    one, own = (scaling.simulate.simulated(job, made, p).seconds for p in (pool_of(one_node=True), pool_of(local=True)))
    assert own == pytest.approx(256e6 / 4e11, rel=0.3)
    assert one > 3 * own


def test_sleeping_for_the_mutex_makes_workers_come_one_by_one(scaling: SimpleNamespace) -> None:
    job, made = scaling.simulate.Job(256, 1e-5, 0.0), machine(scaling, 64, lock=1e-7, line=1e-7, handover=1e-5)
    spinning = scaling.simulate.Pool()
    sleeping = replace(spinning, spins=False, leaves_locked=True)
    quick, slow = (scaling.simulate.simulated(job, made, p).seconds for p in (spinning, sleeping))
    assert quick < 1e-4
    assert slow > 63 * 1e-5


def test_woken_workers_wake_others(scaling: SimpleNamespace) -> None:
    job, made = scaling.simulate.Job(256, 1e-4, 0.0), machine(scaling, 128, signal=5e-6, wake=1e-5)
    asleep = scaling.simulate.Pool(asleep=True)
    tree, line = (scaling.simulate.simulated(job, made, p) for p in (asleep, replace(asleep, woken=0)))
    assert tree.last_arrival < line.last_arrival / 3


def test_plans_are_those_of_the_run_time_and_leave_nothing(scaling: SimpleNamespace) -> None:
    n, bins = 1 << 18, 512
    x = dk.array(np.linspace(0.0, 0.99, n, dtype=np.float32))
    launches, before = scaling.launches, (schedule.processors, pool.num_threads)
    launch = launches.Launch("counts", scaling.workload_kernels.histogram, n, (x, bins, dk.zeros(bins)))
    program = launch.operation().executable
    for processors in (2, 64):
        plan = launches.planned(launch, processors)
        with launches.as_processors(processors):
            found = schedule.cut_groups((n,), program.cost, program.lane_counts, bins)
        assert found is not None
        assert (plan.way, plan.count, plan.copied) == ("private", found.chunks, 4 * bins)
    assert (schedule.processors, pool.num_threads) == before
    assert not program._grouped
    more = launches.grown(launch, 64, 64)
    assert (more.way, more.n) == ("private", 64 * n)


def test_a_prediction_adds_up(scaling: SimpleNamespace) -> None:
    model = scaling.model
    traffic = scaling.launches.Traffic(1000, 1000, 0)
    plan = scaling.launches.Plan("plain", 1000, 10, 100, 1, 0, 0, None, None, b"")
    costs = model.Costs(1e-6, 1e-6, traffic)
    assert model.predicted(costs, plan, machine(scaling, 1)).seconds == pytest.approx(1e-3)
    assert model.predicted(costs, plan, machine(scaling, 2)).seconds == pytest.approx(5e-4)
    # 100 chunks on 64 processors: two rounds.
    assert model.predicted(costs, plan, machine(scaling, 64)).seconds == pytest.approx(2e-5)
    coloured = replace(plan, colours=2)
    assert model.predicted(costs, coloured, machine(scaling, 64)).seconds == pytest.approx(2e-5)
    quick = model.Costs(1e-8, 1e-8, traffic)  # over before another thread could help
    assert model.predicted(quick, plan, machine(scaling, 64)).seconds == pytest.approx(1e-5)
