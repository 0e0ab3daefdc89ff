"""How many numbers are alive at once, of small functions whose numbers can be counted by hand."""

from __future__ import annotations

from typing import Any

import pytest

import diffkern as dk
from diffkern.analysis.liveness import most_alive
from diffkern.frontend.statements import lowering
from diffkern.ir.types import FLOAT32, INT32, Array, Vec

F1, V1 = Array(FLOAT32, 1), Array(Vec(FLOAT32, 3), 1)


def chain(x, y):
    y[0] = dk.sin(dk.cos(dk.sin(x[0])))


def kept(x, y):
    a = dk.sin(x[0])
    b = dk.cos(x[1])
    c = dk.exp(x[2])
    y[0] = a
    y[1] = b
    y[2] = c


def branches(x, y):
    a = dk.sin(x[0])
    b = dk.cos(x[1])
    if a > b:
        r = dk.exp(b)
    else:
        r = dk.log(b)
    y[0] = r


def needed_in_each_trip(x, y, n):
    a = dk.sin(x[0])
    s = x[1]
    for _k in range(n):
        s = dk.cos(s * a)
    y[0] = s


def needed_before_the_loop(x, y, n):
    a = dk.sin(x[0])
    s = x[1] * a
    for _k in range(n):
        s = dk.cos(s)
    y[0] = s


def needed_behind_inner_loops(x, y, n):
    a = dk.sin(x[0])
    b = dk.cos(x[1])
    s = x[2]
    for _k in range(n):
        for _j in range(n):
            s = dk.cos(s * a)
        s = s + b
    y[0] = s


def vectors(x, y):
    y[0] = x[0] + x[1]


def floats(value: Any) -> bool:
    return value.type == FLOAT32 or isinstance(value.type, Vec)


@pytest.mark.parametrize(
    ("function", "types", "expected"),
    [
        (chain, (F1, F1), 1),
        (kept, (F1, F1), 3),
        (branches, (F1, F1), 2),
        (needed_in_each_trip, (F1, F1, INT32), 2),
        (needed_before_the_loop, (F1, F1, INT32), 2),
        (needed_behind_inner_loops, (F1, F1, INT32), 3),
        (vectors, (V1, V1), 6),
    ],
)
def test_most_alive(function, types, expected):
    assert most_alive(lowering.lower(function, types), floats) == expected
