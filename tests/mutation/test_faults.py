"""Would the tests notice? Faults are put into rules and passes, and a small part of the corpus must fail each time."""

from __future__ import annotations

import functools
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from grad.build import lower, values
from grad.corpus import CASES
from grad.kernels_refused import REFUSED
from support.clashes import ClashCollector, undeclared

from diffkern.analysis import conflicts
from diffkern.compiler import pipeline
from diffkern.errors import AutodiffError
from diffkern.frontend.statements import lowering
from diffkern.ir.clone import clone_function
from diffkern.ir.verify import InvalidIR
from diffkern.kernels.kernel import Kernel
from diffkern.opt.widen import widen
from diffkern.testing.differences import Differences
from diffkern.testing.gradcheck import Vjp
from diffkern.testing.programs import CompiledFunction, GridProgram, Interpreted, as_double

from .catalogue import TARGETED
from .edits import Fault
from .faults import FAULTS

SUBSET = """
    branches.if_else branches.if_in_loop_two_carried branches.root_before_the_choice branches.untaken_division
    branches.quotient_before_the_loop branches.overflow_before_the_choice
    composites.components composites.dot_cross composites.matrix_power composites.normalize_length
    functions.many_functions functions.mixed_precision functions.powers functions.ties_go_to_the_first
    loops.accumulator_read_and_carried loops.halve_until loops.nested_state loops.newton_sqrt loops.product
    loops.product_two_slots loops.running_max loops.runtime_step loops.static_inner_range loops.while_two_slots
    memory.broadcast_read memory.gather memory.multiply_in_place memory.recurrence_in_array memory.scatter_max
    memory.scatter_sub memory.stencil memory.store_under_condition memory.two_stores memory.update_twice
    memory.uniform_loss memory.maybe_the_same_element
""".split()
REFUSALS = ("neighbour_in_place", "overwritten_at_indices_from_data")
_PLUGINS = ("-p", "no:cacheprovider", "-p", "mutation.plugin")
NARROW = {"functions.mixed_precision"}  # in float64 alone there would be no casts


class NoticedError(Exception):
    """The subset fails."""


@dataclass(frozen=True)
class Prepared:
    """A case without any fault: its IR, its primal, a point, a projection, and the right gradients."""

    fn: Any
    primal: GridProgram
    point: list[Any]
    weights: dict[int, np.ndarray]
    gradients: dict[int, np.ndarray]


def _interpreted(vjp: Vjp, prepared_primal: GridProgram, collector: ClashCollector | None = None) -> Vjp:
    return vjp.running(lambda _: prepared_primal, lambda fn: Interpreted(fn, collector))


@functools.cache
def prepared(name: str) -> Prepared:
    """A case, and its gradients where they are known to be right."""
    case = CASES[name]
    fn = lower(case) if name in NARROW else widen(lower(case))
    vjp = Vjp(fn, Interpreted, **case.options)
    primal = CompiledFunction(pipeline.optimise(widen(clone_function(fn))))
    point = vjp.arguments([as_double(t, a) for t, a in zip(vjp.types, values(case), strict=True)])
    weights = vjp.weights(point, np.random.default_rng(5))
    run = CompiledFunction(pipeline.optimise(fn)) if name in NARROW else primal
    gradients = _interpreted(vjp, run).gradients(case.dim, point, weights)
    if case.numeric:
        doubles = [as_double(t, a) for t, a in zip(vjp.types, point, strict=True)]
        differences = Differences(primal, case.dim, doubles, weights, 1e-4)
        for i, gradient in gradients.items():
            direction = np.random.default_rng(i).uniform(-1.0, 1.0, np.shape(gradient))
            expected = differences.along({i: direction})
            assert not expected.kink
            np.testing.assert_allclose(np.sum(gradient * direction), expected.value, rtol=1e-4, atol=1e-6)
    return Prepared(fn, run, point, weights, gradients)


def run_subset() -> None:
    """Run the subset; raise :class:`NoticedError` at the first failure."""
    for name in SUBSET:
        case, good = CASES[name], prepared(name)
        collector = ClashCollector()
        try:
            vjp = Vjp(good.fn, Interpreted, **case.options)
            found = _interpreted(vjp, good.primal, collector).gradients(case.dim, good.point, good.weights)
        except (AutodiffError, InvalidIR, KeyError, IndexError, AssertionError) as error:
            raise NoticedError(f"{name}: {type(error).__name__}: {error}") from error
        for i, expected in good.gradients.items():
            if not np.allclose(found[i], expected, rtol=1e-6, atol=1e-8):
                raise NoticedError(f"{name}: gradient of {vjp.names[i]}")
        clashes = undeclared(collector, vjp.declared_conflicts(), case.dim)
        if clashes:
            raise NoticedError(f"{name}: {clashes[0]}")
        if name == "memory.gather":
            check_atomics(vjp, good, case.dim, name)
    for function, _, arguments in REFUSED:
        if function.__name__ in REFUSALS:
            fn = lowering.lower(function, Kernel(function).argument_types(*arguments.values()))
            try:
                pipeline.differentiate(pipeline.prepare(fn), range(len(fn.params)))
            except AutodiffError:
                continue
            raise NoticedError(f"{function.__name__} is not refused")


def check_atomics(vjp: Vjp, good: Prepared, dim: tuple[int, ...], name: str) -> None:
    """With atomic additions no two threads are in each other's way."""
    conflicts.use_atomics(vjp.adjoint.fn, vjp.adjoint.buffers)
    collector = ClashCollector()
    _interpreted(vjp, good.primal, collector).gradients(dim, good.point, good.weights)
    for clash in collector.clashes():
        raise NoticedError(f"{name}: {clash}")


def test_the_subset_passes_without_a_fault() -> None:
    run_subset()


@pytest.mark.parametrize("fault", FAULTS, ids=lambda f: f.name.replace(" ", "-"))
def test_the_subset_notices(fault: Fault, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in SUBSET:
        prepared(name)  # without the fault
    fault.apply(monkeypatch)
    with pytest.raises(NoticedError) as noticed:
        run_subset()
    print(noticed.value)


def test_every_fault_can_be_put_in() -> None:
    """Where code has changed, a fault may have lost its place; this says so at once."""
    for fault in (*FAULTS, *TARGETED):
        with pytest.MonkeyPatch.context() as patch:
            fault.apply(patch)


@pytest.mark.parametrize("fault", TARGETED, ids=lambda f: f.name.replace(" ", "-"))
def test_its_tests_notice(fault: Fault) -> None:
    tests = Path(__file__).parents[1]
    paths = os.pathsep.join([str(tests), *filter(None, [os.environ.get("PYTHONPATH")])])
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-x", "-q", "--full", *_PLUGINS, *fault.tests],
        cwd=tests.parent,
        env={**os.environ, "PYTHONPATH": paths, "DIFFKERN_FAULT": fault.name},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    # 1: a test has failed, or pytest did not get so far; negative: the process died. Others: there are no such tests,
    # or the fault cannot be put in.
    has_failed = run.returncode == 1 and re.search(r"\d+ (failed|error)", run.stdout) is not None
    assert has_failed or run.returncode < 0, run.stdout[-2000:] + run.stderr[-2000:]
