"""Which arrays are proved to have one storing thread per element."""

from __future__ import annotations

import pytest

import diffkern as dk
from diffkern.analysis.threads import one_writer_each
from diffkern.compiler.compilation import Compilation
from diffkern.ir.types import FLOAT32, INT32, Array


def own(y):
    i = dk.tid()
    y[i] = 1.0
    y[i] = 2.0


def shifted(y):
    i = dk.tid()
    y[i + 3] = 1.0


def strided(y):
    i = dk.tid()
    y[2 * i] = 1.0
    y[2 * i + 1] = 1.0


def neighbours(y):
    i = dk.tid()
    y[i] = 1.0
    y[i + 1] = 1.0


def folded(y):
    i = dk.tid()
    y[i // 2] = 1.0


def same_for_all(y):
    i = dk.tid()
    if i == 0:
        y[0] = 1.0


def one_component(y):
    i, j = dk.tid()
    y[i] = dk.float32(j)


def no_thread_index(y):
    y[0] = 1.0


@pytest.mark.parametrize(
    ("kernel", "proved"),
    [
        (own, True),
        (shifted, True),
        (strided, True),
        (neighbours, False),
        (folded, False),
        (same_for_all, False),
        (one_component, False),
        (no_thread_index, False),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_one_dimension(kernel, proved):
    fn = Compilation(kernel, [Array(FLOAT32, 1)]).forward
    assert (fn.params[0] in one_writer_each(fn)) is proved


def both_components(y, z):
    i, j = dk.tid()
    y[i, j] = 1.0
    z[j, i] = 1


def test_two_dimensions():
    fn = Compilation(both_components, [Array(FLOAT32, 2), Array(INT32, 2)]).forward
    assert one_writer_each(fn) == frozenset(fn.params)
