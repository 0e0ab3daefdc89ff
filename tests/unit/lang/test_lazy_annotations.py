"""Annotations that Python evaluates when they are asked for: from version 3.14 on, and before it those in quotes.

The programs are executed without ``from __future__ import annotations``.
"""

from __future__ import annotations

import linecache
import sys
from typing import Any

import numpy as np
import pytest

import diffkern as dk

lazy = pytest.mark.skipif(sys.version_info < (3, 14), reason="Python evaluates annotations at once")


def run(name: str, text: str) -> dict[str, Any]:
    file = f"<{name}>"
    linecache.cache[file] = (len(text), None, text.splitlines(True), file)
    space: dict[str, Any] = {"dk": dk, "__name__": __name__}
    exec(compile(text, file, "exec", dont_inherit=True), space)
    return space


HALVED = """
T = float
@dk.kernel
def halved(x: dk.array(dtype=T), by: T):
    i = dk.tid()
    x[i] = x[i] / by
@dk.struct
class S:
    a: T
T = dk.float64
"""


def test_annotations_mean_what_they_meant_at_the_decorator():
    made = run("halved", HALVED)
    x = dk.ones(3, dtype=float)
    dk.launch(made["halved"], 3, [x, 2.0])
    np.testing.assert_array_equal(x.numpy(), np.full(3, 0.5, np.float32))
    assert made["halved"].func.__annotations__["by"] is float
    assert dk.zeros(1, dtype=made["S"]).numpy().dtype["a"] == np.float32


LATER = """
@dk.func
def twice(a: {quote}Later{quote}) -> {quote}Later{quote}:
    return a + a
@dk.kernel
def doubled(x: {quote}dk.array(dtype=Later){quote}):
    i = dk.tid()
    x[i] = twice(x[i])
Later = float
"""


@pytest.mark.parametrize("quote", ["'", pytest.param("", marks=lazy)], ids=["text", "lazy"])
def test_names_that_come_later(quote):
    x = dk.ones(3, dtype=float, requires_grad=True)
    made = run(f"later{quote}", LATER.format(quote=quote))
    dk.launch(made["doubled"], 3, [x])
    np.testing.assert_array_equal(x.numpy(), np.full(3, 2.0, np.float32))


FIELD = """
@dk.struct
class S:
    a: {quote}Nowhere{quote}
"""


@pytest.mark.parametrize("quote", ["'", pytest.param("", marks=lazy)], ids=["text", "lazy"])
def test_a_field_of_what_is_not_there_is_an_error_in_words(quote):
    with pytest.raises(dk.KernelTypeError, match="the annotation 'Nowhere' of the field a of S cannot be evaluated"):
        run(f"field{quote}", FIELD.format(quote=quote))


@pytest.mark.parametrize("quote", ["'", pytest.param("", marks=lazy)], ids=["text", "lazy"])
def test_a_parameter_of_what_is_not_there_is_an_error_in_words(quote):
    made = run(f"gone{quote}", LATER.format(quote=quote).replace("Later = float", ""))
    with pytest.raises(dk.KernelTypeError, match=r"dk.array\(dtype=Later\).* cannot be evaluated"):
        dk.launch(made["doubled"], 3, [dk.ones(3)])
