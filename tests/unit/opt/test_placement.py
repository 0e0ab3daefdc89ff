"""What is the same for many threads is executed ahead of them, and only where each of them would execute it."""

from __future__ import annotations

import pytest

import diffkern as dk
from diffkern.compiler.compilation import Compilation
from diffkern.ir.nodes import Op
from diffkern.ir.ops.table import lookup
from diffkern.lower.composites import expand_composites
from diffkern.opt.hoist_uniform import Placement, place

F = dk.array(dtype=float)
F2 = dk.array2d(dtype=float)


def placed(kernel: dk.Kernel) -> Placement:
    return place(expand_composites(Compilation(kernel.func, kernel.argument_types()).forward))


def names(ops: list[Op]) -> list[str]:
    return [op.name for op in ops if op.name == "load" or op.regions or lookup(op.name).elementary]


@dk.kernel
def uniform(x: F, p: F, s: float, y: F):
    i = dk.tid()
    y[i] = x[i] * dk.pow(dk.exp(p[0]), p[1]) + dk.sin(s)


@dk.kernel
def indirect(x: F, p: F, k: dk.array(dtype=int), y: F):
    i = dk.tid()
    y[i] = x[i] * p[k[0]]


@dk.kernel
def whole_branch(x: F, p: F, y: F):
    i = dk.tid()
    a = 0.0
    if p[0] > 0.0:
        a = dk.log(p[1])
    for k in range(3):
        a += dk.sin(p[k])
    y[i] = x[i] * a


def test_what_comes_from_parameters_and_literals_is_moved():
    found = placed(uniform)
    assert names(found.chunk) == ["load", "exp", "load", "pow", "sin"]
    assert not found.row
    assert [p.name for p in found.reads] == ["p"]
    assert [p.name for p in found.writes] == ["y"]
    assert found.guarded


def test_a_moved_element_may_be_the_index_of_another():
    assert names(placed(indirect).chunk) == ["load", "load"]
    assert [p.name for p in placed(indirect).reads] == ["k", "p"]


def test_branches_and_loops_are_moved_as_a_whole():
    found = placed(whole_branch)
    assert names(found.chunk) == ["load", "if", "for"]
    assert not any(op.name in ("if", "for") for op in found.row)


@dk.kernel
def rows(x: F2, u: F, p: F, y: F2):
    i, j = dk.tid()
    y[i, j] = x[i, j] * dk.sin(dk.exp(u[i])) + dk.cos(p[0])


@dk.kernel
def slices(u: F2, y: dk.array3d(dtype=float)):
    i, j, k = dk.tid()
    y[i, j, k] = dk.exp(u[i, j])


def test_what_the_last_axis_does_not_change_is_moved_out_of_the_row():
    found = placed(rows)
    assert names(found.chunk) == ["load", "cos"]
    assert names(found.row) == ["load", "exp", "sin"]
    assert names(placed(slices).row) == ["load", "exp"]


@dk.kernel
def guarded(x: F, p: F, y: F):
    i = dk.tid()
    if x[i] > 0.0:
        y[i] = x[i] * dk.exp(p[0])


@dk.kernel
def no_trips(x: F, p: F, n: int, y: F):
    i = dk.tid()
    for _ in range(n):
        y[i] = x[i] * dk.exp(p[0])


@dk.kernel
def ended(x: F, p: F, y: F):
    i = dk.tid()
    if x[i] > 0.0:
        return
    y[i] = x[i] * dk.exp(p[0])


@dk.kernel
def written(x: F, y: F):
    i = dk.tid()
    y[i + 1] = x[i] * dk.exp(y[0])


@dk.kernel
def summed(x: F, p: F, y: F):
    i = dk.tid()
    dk.atomic_add(p, 0, x[i])
    y[i] = p[1]


@dk.kernel
def after_a_store(x: F, p: F, y: F):
    i = dk.tid()
    y[i] = x[i]
    x[i] = dk.exp(p[0])


@pytest.mark.parametrize("kernel", [guarded, no_trips, ended, written, summed, after_a_store], ids=lambda k: k.name)
def test_what_a_thread_may_not_read_or_may_find_changed_stays(kernel):
    assert not names(placed(kernel).chunk)
    assert not placed(kernel).reads


@dk.kernel
def scalars(x: F, s: float, y: F):
    i = dk.tid()
    if x[i] > 0.0:
        y[i] = x[i] * dk.exp(s)


def test_arithmetic_of_parameters_is_moved_out_of_branches():
    assert names(placed(scalars).chunk) == ["exp"]
    assert not placed(scalars).guarded


def test_loads_stay_on_demand():
    fn = expand_composites(Compilation(uniform.func, uniform.argument_types()).forward)
    assert names(place(fn, loads=False).chunk) == ["sin"]


@dk.kernel
def plain(x: F, s: float, y: F):
    i = dk.tid()
    y[i] = x[i] * s + 2.0


def test_nothing_is_moved_for_literals_alone():
    assert placed(plain) == Placement()
