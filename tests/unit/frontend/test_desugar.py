"""Loops over tuples that are written out, and lambda expressions as funcs."""

from __future__ import annotations

import ast

import numpy as np
import pytest

import diffkern as dk
from diffkern.frontend.syntax.desugar import as_definition, spell_out
from diffkern.frontend.syntax.survey import survey_of


def spelled(text: str) -> str:
    definition = ast.parse(text).body[0]
    assert isinstance(definition, ast.FunctionDef)
    spell_out(definition, survey_of(definition).kinds)
    for node in ast.walk(definition):
        assert all(hasattr(node, name) for name in node._attributes)
    return ast.unparse(definition).partition(":\n")[2]


def test_a_loop_over_a_tuple_chooses_its_elements() -> None:
    text = "def f(n):\n    for d in (-1, n, 2.5):\n        use(d)"
    assert spelled(text).split("\n") == [
        "    d_1 = n",
        "    for d_at in range(3):",
        "        d = -1 if d_at == 0 else d_1 if d_at == 1 else 2.5",
        "        use(d)",
    ]


def test_names_that_are_taken_are_left_alone() -> None:
    text = "def f(d_at):\n    for d in [d_at, 3]:\n        for d in (1, 2):\n            use(d)"
    assert spelled(text).split("\n") == [
        "    d_0 = d_at",
        "    for d_at_ in range(2):",
        "        d = d_0 if d_at_ == 0 else 3",
        "        for d_at__ in range(2):",
        "            d = 1 if d_at__ == 0 else 2",
        "            use(d)",
    ]


def test_other_loops_stay() -> None:
    for text in ("for d in ():\n        pass", "for d in (*x, 1):\n        pass", "for a, b in (x, y):\n        pass"):
        whole = f"def f(x, y):\n    {text}"
        assert spelled(whole) == ast.unparse(ast.parse(whole)).partition("\n")[2]


@dk.kernel
def neighbours(x: dk.array(dtype=float), y: dk.array(dtype=float), a: float):
    i = dk.tid()
    n = x.shape[0]
    total = 0.0
    for d in (-1, 0, 1):
        for w in (a, 2.0 * a):
            if i + d < 0 or i + d >= n:
                continue
            total += w * x[i + d] * x[i + d]
            a = 0.0
    for e in (1, 2, 3):
        if e == 3:
            break
        total += 1.0
    y[i] = total


def test_values_and_gradients() -> None:
    values = np.arange(1.0, 6.0, dtype=np.float32)
    x, y = dk.array(values, dtype=float, requires_grad=True), dk.zeros(5, dtype=float)
    with dk.Tape() as tape:
        neighbours[5](x, y, 0.5)
    tape.backward(grads={y: np.ones(5, np.float32)})
    square = values * values
    # `a` is 0 after the first neighbour that there is; the tuple was made of it before.
    first = np.array([square[0], *square[:-1]])
    np.testing.assert_allclose(y.numpy(), 1.5 * first + 2.0)
    np.testing.assert_allclose(x.grad.numpy(), [6.0, 6.0, 9.0, 12.0, 0.0])


def test_lambda_expressions_are_funcs() -> None:
    scale = 3.0
    pair = (dk.func(lambda v: v * v), dk.func(lambda v: scale * v))  # two in a line
    for f, expected in zip(pair, ([1.0, 4.0], [3.0, 6.0]), strict=True):

        @dk.kernel
        def apply(x, y):
            i = dk.tid()
            y[i] = f(x[i])

        x = dk.array([1.0, 2.0], dtype=float, requires_grad=True)
        y = dk.zeros(2, dtype=float)
        apply[2](x, y)
        assert y.list() == expected


def test_a_lambda_of_several_lines() -> None:
    f = dk.func(
        lambda a, b: (
            a  # the first
            if a > b
            else b
        )
    )

    @dk.kernel
    def larger(x: dk.array(dtype=float), y: dk.array(dtype=float)):
        i = dk.tid()
        y[i] = f(x[i], 1.5)

    x, y = dk.array([1.0, 2.0], dtype=float), dk.zeros(2, dtype=float)
    larger[2](x, y)
    assert y.list() == [1.5, 2.0]


def test_errors_in_a_lambda_have_its_place() -> None:
    f = dk.func(lambda a: missing(a))  # type: ignore[name-defined]  # noqa: F821, PLW0108

    @dk.kernel
    def uses(x: dk.array(dtype=float)):
        x[dk.tid()] = f(1.0)

    with pytest.raises(dk.KernelError, match=r"missing") as caught:
        uses[1](dk.zeros(1))
    assert "dk.func(lambda a: missing(a))" in str(caught.value)


def test_a_lambda_is_no_kernel() -> None:
    with pytest.raises(dk.KernelError, match="a lambda cannot be compiled as a kernel"):
        dk.kernel(lambda x: None)[1](dk.zeros(1))


def test_a_lambda_as_a_definition() -> None:
    found = ast.parse("f = lambda a, b=2: a + b").body[0]
    assert isinstance(found, ast.Assign)
    assert isinstance(found.value, ast.Lambda)
    made = as_definition(found.value)
    assert ast.unparse(made.body[0]) == "return a + b"
    assert [a.arg for a in made.args.args] == ["a", "b"]
