"""A new way to accumulate is a class and a branch of ``choose``: the recipe in the documentation."""

from __future__ import annotations

import inspect
import re
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import diffkern as dk
from diffkern.runtime.accumulate import accumulation, adjoint

DOCS = (Path(__file__).parents[3] / "docs" / "recipes_runtime.rst").read_text(encoding="utf-8")
RECIPE = DOCS[DOCS.index("**An accumulation**") :]
BEFORE = "    # Its threads collide;"
SIZE = 1_000_000  # copies of so large a cotangent are not worth it for so few threads
N = 25_000


def block(language: str) -> str:
    found = re.search(rf"code-block:: {language}\n\n((?:   .*\n|\n)+)", RECIPE)
    assert found is not None
    return textwrap.dedent(found[1]).strip()


@pytest.fixture
def chosen(monkeypatch: Any) -> list[Any]:
    """The accumulations that are chosen, with those of the recipe among the choices."""
    space = dict(vars(accumulation))
    exec(block("python"), space)
    text = inspect.getsource(accumulation.choose)
    assert text.count(BEFORE) == 1
    exec("from __future__ import annotations\n" + text.replace(BEFORE, f"{_indented(block('text'))}\n{BEFORE}"), space)
    made: list[Any] = []

    def choose(*args: Any) -> Any:
        made.append(space["choose"](*args))
        return made[-1]

    monkeypatch.setattr(adjoint, "choose", choose)
    return made


def _indented(text: str) -> str:
    return textwrap.indent(text, "    ")


@dk.kernel
def products(x: dk.array[dk.float64], z: dk.array[dk.float64], at: dk.array[int], y: dk.array[dk.float64]):
    i = dk.tid()
    y[i] = x[at[i]] * z[at[i]]


def arguments(n: int) -> list[Any]:
    rng = np.random.default_rng(n)
    x, z = (dk.array(rng.uniform(1.0, 2.0, SIZE), dtype=dk.float64, requires_grad=True) for _ in range(2))
    at = dk.array(rng.integers(0, 7, n), dtype=int)  # many threads meet
    return [x, z, at, dk.zeros(n, dtype=dk.float64, requires_grad=True)]


def names(chosen: list[Any]) -> list[str]:
    return [type(one).__name__ for one in chosen]


def test_tapes_and_records_take_it(chosen: list[Any]) -> None:
    x, z, at, y = arguments(N)
    weights = np.random.default_rng(0).uniform(-1.0, 1.0, N)
    with dk.record() as sequence:
        with dk.Tape() as tape:
            dk.launch(products, N, [x, z, at], [y])
        tape.backward(grads={y: dk.array(weights, dtype=dk.float64)})
    assert set(names(chosen)) == {"InOneChunk"}
    assert chosen[0].grid.count == 1
    for held, other in ((x, z), (z, x)):
        wanted = np.zeros(SIZE)
        np.add.at(wanted, at.numpy(), other.numpy()[at.numpy()] * weights)
        np.testing.assert_allclose(held.grad.numpy(), wanted, rtol=1e-12)
    first = x.grad.numpy()
    for _ in range(2):
        x.grad.zero_()
        sequence.replay()
        np.testing.assert_array_equal(x.grad.numpy(), first)


@pytest.mark.parametrize(("n", "shared"), [(2 * N, False), (N, True)])
def test_large_launches_and_shared_cotangents_do_not(chosen: list[Any], n: int, shared: bool) -> None:
    x, z, at, y = arguments(n)
    given = [x.grad, x.grad if shared else z.grad, None]
    dk.launch(products, n, [x, z, at], [y], adj_inputs=given, adj_outputs=[y.grad], adjoint=True)
    assert len(chosen) == 1
    assert "InOneChunk" not in names(chosen)
