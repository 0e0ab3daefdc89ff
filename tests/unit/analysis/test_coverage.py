"""Which arrays a launch over their own shape overwrites as a whole."""

from __future__ import annotations

from dataclasses import replace

import pytest

import diffkern as dk
from diffkern.analysis.coverage import added_once, keep_taken, overwritten_whole, store_sums, taken_once
from diffkern.compiler.compilation import Compilation
from diffkern.contracts.options import AdjointForm, Variant
from diffkern.ir.builder import Builder
from diffkern.ir.nodes import Function, Value, walk
from diffkern.ir.printer import to_text
from diffkern.ir.types import FLOAT32, parse_array_type

A1, A2 = dk.array(dtype=float), dk.array(dtype=float, ndim=2)


@dk.kernel
def plain(x: A1, y: A1):
    i = dk.tid()
    y[i] = 2.0 * x[i]


@dk.kernel
def two_axes(x: A2, y: A2):
    i, j = dk.tid()
    y[i, j] = x[j, i]


@dk.kernel
def swapped(x: A2, y: A2):
    i, j = dk.tid()
    y[j, i] = x[i, j]


@dk.kernel
def some(x: A1, y: A1):
    i = dk.tid()
    if x[i] > 0.0:
        y[i] = x[i]


@dk.kernel
def returns_early(x: A1, y: A1):
    i = dk.tid()
    if x[i] > 0.0:
        return
    y[i] = x[i]


@dk.kernel
def both_ways(x: A1, y: A1):
    i = dk.tid()
    y[i] = 0.0
    if x[i] > 0.0:
        y[i] = x[i]


@dk.kernel
def shifted(x: A1, y: A1):
    i = dk.tid()
    y[i + 1] = x[i]


@dk.kernel
def read_before(x: A1, y: A1):
    i = dk.tid()
    y[i] = y[i] + x[i]


@dk.kernel
def added(x: A1, y: A1):
    i = dk.tid()
    y[i] = x[i]
    dk.atomic_add(y, 0, x[i])


@dk.kernel
def one_of_two_axes(x: A1, y: A2):
    i = dk.tid()
    y[i, 0] = x[i]


@dk.kernel
def one_index_of_two(x: A1, y: A1):
    i, j = dk.tid()
    y[i] = x[i] * float(j)


@pytest.mark.parametrize(
    ("kernel", "expected"),
    [
        (plain, {1: 1}),
        (two_axes, {1: 2}),
        (swapped, {}),
        (some, {}),
        (returns_early, {}),
        (both_ways, {1: 1}),
        (shifted, {}),
        (read_before, {}),
        (added, {}),
        (one_of_two_axes, {}),
        (one_index_of_two, {}),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_overwritten_whole(kernel, expected):
    assert overwritten_whole(Compilation(kernel.func, kernel.argument_types()).forward) == expected


@dk.kernel
def product(x: A1, y: A1, z: A1):
    i = dk.tid()
    z[i] = x[i] * y[i] * x[i + 1]


@dk.kernel
def by_value(x: A1, a: float, y: A1):
    i = dk.tid()
    y[i] = a * x[i]


@pytest.mark.parametrize(
    ("kernel", "active", "expected"),
    [
        (plain, {0, 1}, {"ct_x"}),
        (two_axes, {0, 1}, set()),
        (swapped, {0, 1}, {"ct_x"}),
        (some, {0, 1}, {"ct_x"}),  # zero where the branch is not taken
        (product, {0, 1, 2}, {"ct_y"}),  # x is read at two places
        (by_value, {0, 1, 2}, {"ct_x"}),  # a has one cotangent for all threads
        (one_index_of_two, {0, 1}, set()),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_added_once(kernel, active, expected):
    compilation = Compilation(kernel.func, kernel.argument_types(), Variant(active=frozenset(active)))
    fn = compilation.adjoint.fn
    assert {fn.params[k].name for k in added_once(fn)} == expected
    sums = sum(op.name == "accumulate" for op in walk(fn.body))
    store_sums(fn)
    assert sums - sum(op.name == "accumulate" for op in walk(fn.body)) == len(expected)
    assert added_once(fn) == {}


@dk.kernel
def vectors(x: dk.array2d(dtype=dk.vec3), y: dk.array2d(dtype=dk.vec3)):
    i, j = dk.tid()
    y[i, j] = 2.0 * x[i, j]


@dk.kernel
def twice(x: A1, y: A1):
    i = dk.tid()
    y[i] = x[i]
    y[i] = x[i] * x[i]


@dk.kernel
def two_outputs(x: A1, y: A1, z: A1):
    i = dk.tid()
    y[i] = x[i] * x[i]
    z[i + 1] = x[i]


@dk.kernel
def updated(x: A1, y: A1):
    i = dk.tid()
    y[i] = y[i] * x[i]


@pytest.mark.parametrize(
    ("kernel", "active", "expected"),
    [
        (plain, {0, 1}, {"ct_y"}),
        (vectors, {0, 1}, {"ct_y"}),
        (two_axes, {0, 1}, {"ct_y"}),
        (swapped, {0, 1}, set()),
        (some, {0, 1}, set()),  # the branch may leave an element as it was
        (two_outputs, {0, 1, 2}, {"ct_y"}),
        (updated, {0, 1}, set()),
        (twice, {0, 1}, set()),
        (by_value, {0, 1, 2}, {"ct_y"}),
        (one_index_of_two, {0, 1}, set()),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
@pytest.mark.parametrize("joint", [False, True])
def test_taken_once(kernel, active, expected, joint):
    variant = Variant(active=frozenset(active), form=AdjointForm(joint=joint))
    compilation = Compilation(kernel.func, kernel.argument_types(), variant)
    fn = compilation.adjoint.fn
    assert {fn.params[k].name for k in taken_once(fn)} == expected
    stores = sum(op.name == "store" for op in walk(fn.body))
    keep_taken(fn)
    assert stores - sum(op.name == "store" for op in walk(fn.body)) == len(expected)
    assert taken_once(fn) == {}
    kept = Compilation(
        kernel.func, kernel.argument_types(), replace(variant, form=variant.form._replace(preserve_cotangents=True))
    ).adjoint.fn
    assert to_text(kept) == to_text(fn)


@pytest.mark.parametrize(
    ("ops", "expected"),
    [("lz", True), ("zl", False), ("lo", False), ("llz", False), ("lzz", False), ("z", False), ("l", False)],
)
def test_only_a_zero_behind_the_one_load_is_left_out(ops, expected):
    """``l`` loads the element, ``z`` sets it to zero, ``o`` to one."""
    x, b = Value(parse_array_type("array1d<float32,C>"), "x"), Builder()
    i = b.one("tid", axis=0)
    for op in ops:
        if op == "l":
            b.one("load", x, i, wrap=(False,))
        else:
            b.op("store", x, i, b.const(float(op == "o"), FLOAT32), wrap=(False,))
    assert bool(taken_once(Function("f", [x], b.region, tid_arity=1))) == expected
