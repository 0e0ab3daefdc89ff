"""Adjoints of loops that keep every state of a segment: which loops those are, and what they compute."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import diffkern as dk
from diffkern.compiler import pipeline
from diffkern.contracts.options import Variant
from diffkern.frontend.statements import lowering
from diffkern.ir.nodes import Function, Op, walk
from diffkern.ir.types import FLOAT64, INT32, Array
from diffkern.targets.cpu.compiler import EVERY_STATE

D1 = Array(FLOAT64, 1)


def adjoint(function: Any, slots: int | None = None, target: str = "native") -> Function:
    fn = pipeline.prepare(lowering.lower(function, [D1, D1, INT32]))
    return pipeline.differentiate(fn, (0, 1), Variant(target=target), slots).fn


def named(fn: Function, name: str) -> list[Op]:
    return [op for op in walk(fn.body) if op.name == name]


def over_segments(fn: Function) -> list[Op]:
    return [op for op in walk(fn.body) if op.attrs.get("once")]


def state(x, y, n):
    i = dk.tid()
    s = x[i]
    for _ in range(n):
        s = dk.sin(s)
    y[i] = s


def test_the_adjoint_of_an_iteration_is_there_once() -> None:
    fn = adjoint(state)
    (outer,) = over_segments(fn)
    assert len(named(fn, "cos")) == 1
    assert len(named(fn, "sin")) == 2  # to get to a segment, and to keep its states
    assert len(named(fn, "next_checkpoint")) == 2
    (later,) = (op for op in outer.regions[0].ops if op.attrs.get("rarely"))
    assert all(op in set(walk(later.regions[0])) for op in named(fn, "next_checkpoint"))


@pytest.mark.parametrize(("trips", "segments"), [(9, 0), (10, 0), (11, 1), (1000, 1)])
def test_loops_whose_states_certainly_fit_have_no_segments(trips: int, segments: int) -> None:
    def f(x, y, n):
        i = dk.tid()
        s = x[i]
        for _ in range(trips):
            s = dk.sin(s)
        y[i] = s

    fn = adjoint(f, slots=10)
    assert len(over_segments(fn)) == segments
    assert len(named(fn, "stack_new")) == 1 + segments


def longer(x, y, n):
    i = dk.tid()
    s = x[i]
    for _ in range(n):
        for _ in range(3):
            s = dk.sin(s) * 0.5 + dk.cos(s) * 0.25 + s * s * 0.125 - dk.exp(s) * 0.1
            s = dk.sin(s * s) * dk.cos(s) + dk.sin(s) * dk.exp(0.1 * s)
            s = dk.cos(s * s) * dk.sin(s) + dk.cos(s) * dk.exp(0.1 * s)
    y[i] = s


def around(x, y, n):
    i = dk.tid()
    s = x[i]
    for _ in range(n):
        for _ in range(n):
            s = dk.sin(s)
        s = dk.cos(s)
    y[i] = s


def test_long_bodies_and_loops_around_others_with_states_have_snapshots() -> None:
    fn = adjoint(longer)
    (stack,) = named(fn, "stack_new")
    assert stack.attrs["type"].fields[0] == INT32
    assert not over_segments(fn)
    assert len(list(walk(fn.body))) > EVERY_STATE
    assert len(over_segments(adjoint(around))) == 1  # the inner one
    assert not over_segments(adjoint(state, target="sm_90"))


@dk.kernel
def by_threads(x: dk.array(dtype=dk.float64), n: dk.array(dtype=int), y: dk.array(dtype=dk.float64), k: float):
    i = dk.tid()
    s = x[i]
    for j in range(n[i]):
        if j % 5 != 4:
            s = dk.sin(s * k) + 0.01 * x[j % 7]
    y[i] = s


@dk.kernel
def long_count(x: dk.array(dtype=dk.float64), n: dk.array(dtype=int), y: dk.array(dtype=dk.float64), k: float):
    i = dk.tid()
    s = x[i]
    for j in range(dk.int64(n[i]), dk.int64(-3), dk.int64(-2)):
        s = dk.sin(s * k) + 0.01 * dk.float64(j)
    y[i] = s


@dk.kernel
def until(x: dk.array(dtype=dk.float64), n: dk.array(dtype=int), y: dk.array(dtype=dk.float64), k: float):
    i = dk.tid()
    s = x[i]
    t = 0
    while t < n[i]:
        t += 1
        if t % 3 == 1:
            continue
        s = dk.sin(s * k) + 0.3 / dk.float64(t)
    y[i] = s


@dk.kernel
def short_counts(x: dk.array(dtype=dk.float64), n: dk.array(dtype=int), y: dk.array(dtype=dk.float64), k: float):
    i = dk.tid()
    s = x[i]
    for j in range(dk.int8(n[i] // 2)):
        s = dk.sin(s * k) + 0.01 * dk.float64(j)
    for j in range(dk.int16(n[i])):
        s = dk.cos(s * k) + 0.001 * dk.float64(j)
    y[i] = s


@dk.kernel
def nested(x: dk.array(dtype=dk.float64), n: dk.array(dtype=int), y: dk.array(dtype=dk.float64), k: float):
    i = dk.tid()
    s = x[i]
    for j in range(n[i] % 6):
        if j != 2:
            for _ in range(n[i] % 11 - j):
                s = dk.sin(s * k) + 0.01 * x[j]
        s = dk.cos(s)
    y[i] = s


@pytest.mark.parametrize("kernel", [by_threads, long_count, short_counts, until, nested], ids=lambda k: k.name)
def test_gradients_are_those_with_all_states_kept(kernel: Any) -> None:
    """Lanes end in different segments, with different snapshots on their stacks."""
    rng = np.random.default_rng(3)
    trips = np.array([0, 1, 2, 3, 4, 5, 100, 37, 64, 9, 16, 17, 8, 250, 250, 249, 7, 12, 0], np.int32)
    x, seed = rng.uniform(0.3, 1.2, len(trips)), rng.normal(size=len(trips))

    def gradient(**options: Any) -> np.ndarray:
        made = dk.kernel(kernel.func, **options)
        given = dk.array(x, requires_grad=True), dk.array(trips), dk.zeros(len(trips), dtype=dk.float64)
        with dk.Tape() as tape:
            made[len(trips)](*given, 0.9)
        tape.backward(grads={given[2]: dk.array(seed)})
        return given[0].grad.numpy()

    every = {lanes: gradient(lanes=lanes) for lanes in (False, True)}
    np.testing.assert_allclose(every[True], every[False], rtol=1e-12)
    for size, lanes in ((64, False), (8, True)):  # 8 or 4, and 2 states of a segment
        np.testing.assert_allclose(gradient(lanes=lanes, stack_bytes=size), every[lanes], rtol=1e-12)
