"""The studies: predictions beside readings, decisions that change, scaling, the simulation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from .launches import Launch, Plan, grown, planned
from .machine import Machine
from .model import Costs, Prediction, costs_of, predicted, rounds_of
from .simulate import Job, Pool, simulated
from .timing import least, on_processors

__all__ = [
    "BEFORE",
    "Check",
    "Decision",
    "Known",
    "checks",
    "coarse",
    "decisions",
    "known",
    "of_pool",
    "of_touching",
    "scaling",
    "simulation",
]

BEFORE = Pool(spins=False, leaves_locked=True)
"""A pool whose threads sleep for the mutex at once, and count their chunks under it."""
_SETTLED = 0.25


@dataclass(frozen=True)
class Known:
    """A launch, and what its programs cost.

    Attributes
    ----------
    launch : Launch
        The launch.
    plans : dict
        How it runs, by the number of processors.
    costs : dict
        What it costs, by the number of processors.
    """

    launch: Launch
    plans: dict[int, Plan]
    costs: dict[int, Costs]

    def at(self, machine: Machine, like: int | None = None, **how: Any) -> Prediction:
        """Return the time on a machine; with the plan for another number of processors, if one is given."""
        of = machine.processors if like is None else like
        return predicted(self.costs[of], self.plans[of], machine, **how)


@dataclass(frozen=True)
class Check:
    """A prediction beside a reading, in seconds."""

    name: str
    processors: int
    measured: float
    predicted: float

    @property
    def error(self) -> float:
        """Return how far the prediction is off, as a part of the reading."""
        return self.predicted / self.measured - 1.0


@dataclass(frozen=True)
class Decision:
    """A decision that differs from that on two processors, with the predicted seconds of both."""

    name: str
    processors: int
    usual: str
    chosen: str
    usual_seconds: float
    chosen_seconds: float


def known(launch: Launch, processors: Sequence[int], rounds: int) -> Known:
    """Plan a launch for numbers of processors, and measure its chunks on one; programs are measured once."""
    plans, costs, of = {}, {}, {}
    for count in processors:
        plan = plans[count] = planned(launch, count)
        key = plan.executable.address
        if key not in of:
            with on_processors(1) as clock:
                of[key] = costs_of(launch, plan, rounds, clock)
        costs[count] = of[key]
    return Known(launch, plans, costs)


def checks(one: Known, machines: Sequence[Machine], rounds: int, patience: float) -> Iterator[Check]:
    """Yield predictions beside readings on this machine."""
    for machine in machines:
        with on_processors(machine.processors) as clock:
            plan = planned(one.launch, machine.processors)  # what was remembered for other processors is forgotten
            found = least({"it": one.launch.runner()}, rounds, clock, patience * machine.processors)["it"]
        yield Check(one.launch.name, machine.processors, found, one.at(machine).seconds)
        del plan


def decisions(one: Known, machines: Sequence[Machine]) -> Iterator[Decision]:
    """Yield the decisions that differ on larger machines."""
    usual = one.plans[2]
    for machine in machines:
        chosen = one.plans[machine.processors]
        if (chosen.way, chosen.count) != (usual.way, usual.count):
            seconds = [one.at(machine, like).seconds for like in (2, machine.processors)]
            yield Decision(one.launch.name, machine.processors, str(usual), str(chosen), *seconds)


def coarse(one: Known, machines: Sequence[Machine]) -> Iterator[Decision]:
    """Yield plans with fewer chunks than processors, beside the same with chunks of a few registers of threads."""
    for machine in machines:
        plan = one.plans[machine.processors]
        if plan.count >= machine.processors or plan.copies or plan.way == "sorted":
            continue
        least_threads = max(plan.executable.lane_counts, default=1)
        chunk = -(-plan.n // (4 * machine.processors) // least_threads) * least_threads or least_threads
        finer = replace(plan, chunk=chunk, count=-(-plan.n // chunk))
        seconds = predicted(one.costs[machine.processors], finer, machine).seconds
        chosen = one.at(machine).seconds
        yield Decision(one.launch.name, machine.processors, str(finer), str(plan), seconds, chosen)


def scaling(one: Known, machines: Sequence[Machine], *, is_weak: bool = False) -> list[float]:
    """Return the seconds on each machine; weakly, of a launch that has as many times as many threads."""
    if not is_weak:
        return [one.at(machine).seconds for machine in machines]
    found = []
    for machine in machines:
        times = machine.processors
        plan, costs = grown(one.launch, times, times), one.costs[1 if times == 1 else 2]
        t = costs.traffic
        traffic = replace(t, read=t.read * times, written=t.written * times, both=t.both * times)
        found.append(predicted(replace(costs, traffic=traffic), plan, machine).seconds)
    return found


def simulation(one: Known, machine: Machine, pool: Pool = Pool()) -> tuple[float, float]:  # noqa: B008 - frozen
    """Return the seconds of the threads of a launch by the simulation, and by the model."""
    plan, found = one.plans[machine.processors], one.at(machine)
    moved = one.costs[machine.processors].traffic.footprint / plan.count
    # Both take the same bandwidth: the model that of all nodes together.
    job = Job(-(-plan.count // plan.colours), found.computing / _share(plan, machine) / plan.count, moved)
    seconds = plan.colours * simulated(job, machine, pool).seconds
    return seconds, found.threads + found.sharing


def _share(plan: Plan, machine: Machine) -> float:
    return rounds_of(plan, min(machine.processors, -(-plan.count // plan.colours)))


def of_pool(machine: Machine, work: float) -> dict[str, float]:
    """Return the seconds of a run of 256 chunks that computes for so long in all, with variants of the pool."""
    job = Job(256, work / 256, 0.0)
    variants = {
        "awake": Pool(),
        "awake, before": BEFORE,
        "asleep": Pool(asleep=True),
        "asleep, before": replace(BEFORE, asleep=True),
        "asleep, one wakes all": Pool(asleep=True, woken=0),
        "asleep, each wakes four": Pool(asleep=True, woken=4),
    }
    return {name: simulated(job, machine, pool).seconds for name, pool in variants.items()}


def of_touching(machine: Machine, moved: float) -> dict[str, float]:
    """Return the seconds of a run of 256 chunks that moves a number of bytes, by where their pages are."""
    job = Job(256, moved / 256 / 90e9, moved / 256)
    variants = {"any node": Pool(), "one node": Pool(one_node=True), "own node": Pool(local=True)}
    return {name: simulated(job, machine, pool).seconds for name, pool in variants.items()}
