"""The estimated work of a thread counts the trips of a loop where constants tell how many there are."""

from __future__ import annotations

import pytest

import diffkern as dk


@dk.kernel(enable_backward=False)
def fixed_trips(x: dk.array(dtype=float), y: dk.array(dtype=float)):
    i = dk.tid()
    v = x[i]
    for _ in range(100):
        for _ in range(3):
            v = dk.sin(v)
    y[i] = v


@dk.kernel(enable_backward=False)
def given_trips(x: dk.array(dtype=float), n: int, y: dk.array(dtype=float)):
    i = dk.tid()
    v = x[i]
    for _ in range(n):
        v = dk.sin(v)
    y[i] = v


@dk.kernel(enable_backward=False)
def one_trip(x: dk.array(dtype=float), y: dk.array(dtype=float)):
    i = dk.tid()
    y[i] = dk.sin(x[i])


def cost(kernel: dk.Kernel, *arguments: object) -> float:
    """The estimate for threads that run one by one."""
    from diffkern.analysis.work import thread_cost
    from diffkern.compiler.compilation import Compilation

    types = kernel.argument_types()
    return thread_cost(Compilation(kernel.func, types, kernel.variant).lowered())


def test_trips_of_constant_ranges_count() -> None:
    single = cost(one_trip)
    assert cost(fixed_trips) == pytest.approx(300 * single, rel=0.3)


def test_trips_that_a_launch_gives_count_as_sixteen() -> None:
    single = cost(one_trip)
    assert 10 * single < cost(given_trips) < 30 * single
