"""Which updates of a GPU launch are plain, summed over a block, or atomic."""

from __future__ import annotations

from typing import Any

import pytest

import diffkern as dk
from diffkern.analysis.cuda_plan import UpdateWay, cuda_plan, finalize_updates
from diffkern.compiler.compilation import Compilation
from diffkern.contracts.options import Variant
from diffkern.ir.nodes import Function

f1 = dk.array(dtype=float)


def adjoint(kernel: dk.Kernel, accumulate: str = "plain") -> Function:
    types = kernel.argument_types()
    d = Compilation(
        kernel.func, types, Variant(active=kernel.positions([p.name for p in kernel.parameters], types))
    ).adjoint
    finalize_updates(d.fn, d.buffers, d.conflicts, accumulate)
    return d.fn


def updates(fn: Function) -> dict[str, set[UpdateWay]]:
    plan = cuda_plan(fn)
    found: dict[str, set[UpdateWay]] = {}
    for op, how in plan.updates.items():
        found.setdefault(op.operands[0].name, set()).add(how)
    return found


@dk.kernel
def elementwise(x: f1, a: float, y: f1):
    i = dk.tid()
    y[i] = a * dk.sin(x[i])


@dk.kernel
def stencil(x: f1, y: f1):
    i = dk.tid()
    if i > 0:
        y[i] = x[i] * x[i - 1]


@dk.kernel
def first_and_own(x: f1, y: f1):
    i = dk.tid()
    y[i] = x[i] * x[0]


def test_own_elements_are_plain_and_uniform_ones_are_summed() -> None:
    fn = adjoint(elementwise)
    assert updates(fn) == {"ct_x": {UpdateWay.PLAIN}, "ct_a": {UpdateWay.SUM}}
    assert [op.operands[0].name for op in cuda_plan(fn).sums] == ["ct_a"]


def test_neighbours_meet() -> None:
    assert updates(adjoint(stencil)) == {"ct_x": {UpdateWay.RED}}


def test_a_buffer_with_a_sum_has_no_plain_updates() -> None:
    """A block that has ended adds its sum to ``ct_x[0]`` while thread 0 of another may still run."""
    assert updates(adjoint(first_and_own)) == {"ct_x": {UpdateWay.SUM, UpdateWay.RED}}


def test_overlapping_buffers_are_atomic_throughout() -> None:
    assert updates(adjoint(elementwise, "atomic"))["ct_x"] == {UpdateWay.RED}


@pytest.mark.parametrize(("uses_result", "expected"), [(True, UpdateWay.ATOMIC), (False, UpdateWay.RED)])
def test_an_atomic_whose_old_value_is_read(uses_result: bool, expected: UpdateWay) -> None:
    def reads(x: f1, k: dk.array(dtype=int), y: f1):  # type: ignore[valid-type]
        i = dk.tid()
        old = dk.atomic_add(y, k[i], x[i])
        if uses_result:
            x[i] = old

    kernel: Any = dk.kernel(reads)
    fn = Compilation(kernel.func, kernel.argument_types()).forward
    assert updates(fn) == {"y": {expected}}


def test_the_address_of_a_sum_is_computed_once_more() -> None:
    @dk.kernel
    def last(x: f1, y: f1):
        i = dk.tid()
        dk.atomic_add(y, y.shape[0] - 1, x[i])

    plan = cuda_plan(Compilation(last.func, last.argument_types()).forward)
    (op,) = plan.sums
    names = [needed.name for needed in plan.address_ops(op)]
    assert names[-1] == "sub"
    assert "shape" in names
    assert len(names) == 3
