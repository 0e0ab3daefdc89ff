"""Programs that are long rather than deep: chains of elif, sums of many terms, many statements that leave."""

from __future__ import annotations

import linecache
import sys
from typing import Any

import numpy as np
import pytest

import diffkern as dk
from diffkern.frontend import fingerprint

HEAD = "def k(x: dk.array(dtype=float), c: dk.array(dtype=int), y: dk.array(dtype=float)):\n    i = dk.tid()\n"


def _kernel(body: str) -> Any:
    text = HEAD + body
    file = f"<long {hash(text)}>"
    linecache.cache[file] = (len(text), None, text.splitlines(True), file)
    names: dict[str, Any] = {"dk": dk}
    exec(compile(text, file, "exec"), names)
    return dk.kernel(names["k"])


def _run(kernel: Any, c: list[int], x: float = 0.5) -> tuple[list[float], list[float]]:
    n = len(c)
    xs = dk.array([x] * n, dtype=float, requires_grad=True)
    y = dk.zeros(n, dtype=float, requires_grad=True)
    with dk.Tape() as tape:
        dk.launch(kernel, dim=n, inputs=[xs, dk.array(c, dtype=int)], outputs=[y])
    tape.backward(grads={y: dk.ones(n, dtype=float)})
    return y.numpy().tolist(), xs.grad.numpy().tolist()


def _sources(kernel: Any) -> None:
    """All sources are Python that Python accepts."""
    for target in ("cpu", "cuda"):
        for text in (kernel.source(target=target), kernel.adjoint_source(target=target)):
            compile(text, "generated", "exec")


def _chain(count: int, statement: str, last: str) -> str:
    lines = [f"    {'el' if k else ''}if c[i] == {k}:\n        {statement.format(k)}\n" for k in range(count)]
    return "".join(lines) + last


def test_a_program_of_200_elifs_and_500_terms() -> None:
    terms = " + ".join(f"x[i] * {k}.0" for k in range(500))
    body = _chain(200, "v = x[i] * {}.0", "    else:\n        v = -x[i]\n") + f"    y[i] = v + {terms}\n"
    kernel = _kernel(body)
    _sources(kernel)
    assert fingerprint(kernel.func)
    total = 500 * 499 / 2
    y, g = _run(kernel, [0, 7, 16, 17, 150, 199, 200, -1])
    factors = [0.0, 7.0, 16.0, 17.0, 150.0, 199.0, -1.0, -1.0]
    assert g == [f + total for f in factors]
    np.testing.assert_allclose(y, [0.5 * (f + total) for f in factors], rtol=1e-5)


@pytest.mark.parametrize("count", [33, 100, 500])
def test_values_of_a_chain_that_has_no_else_keep_what_was_before(count: int) -> None:
    kernel = _kernel("    v = x[i]\n    w = 1.0\n" + _chain(count, "v = x[i] * {}.0", "") + "    y[i] = v * w\n")
    y, _ = _run(kernel, [0, 31, count - 1, count, -1])
    assert y == [0.0, 15.5, 0.5 * (count - 1), 0.5, 0.5]


@pytest.mark.parametrize("last", ["", "    else:\n        y[i] = -2.0\n        return\n"], ids=["open", "closed"])
def test_chains_whose_branches_leave(last: str) -> None:
    body = _chain(90, "y[i] = x[i] * {}.0\n        return", last) + "    y[i] = y[i] - x[i]\n"
    kernel = _kernel(body)
    _sources(kernel)
    y, g = _run(kernel, [3, 40, 89, 90])
    assert y == [1.5, 20.0, 44.5, -2.0 if last else -0.5]
    assert g == [3.0, 40.0, 89.0, 0.0 if last else -1.0]


@pytest.mark.parametrize("count", [70, pytest.param(200, marks=pytest.mark.full)])
@pytest.mark.parametrize("word", ["return", "continue", "break"])
def test_many_statements_that_leave(word: str, count: int) -> None:
    tests = "".join(
        f"        if c[i] == {k}:\n            s = s + x[i] * {k}.0\n            y[i] = s\n            {word}\n"
        for k in range(count)
    )
    kernel = _kernel(f"    s = 0.0\n    for j in range(2):\n{tests}        s = s + 1.0\n    y[i] = s\n")
    _sources(kernel)
    y, g = _run(kernel, [5, 30, count - 1, count])
    trips = 2 if word == "continue" else 1
    assert g == [5.0 * trips, 30.0 * trips, (count - 1.0) * trips, 0.0]
    assert y == [0.5 * g[0], 0.5 * g[1], 0.5 * g[2], 2.0]


def test_a_func_with_many_returns() -> None:
    text = (
        "def f(c: int, x: float):\n"
        + "".join(f"    if c == {k}:\n        return x * {k}.0\n" for k in range(150))
        + "    return -x\n"
    )
    file = "<a long func>"
    linecache.cache[file] = (len(text), None, text.splitlines(True), file)
    names: dict[str, Any] = {}
    exec(compile(text, file, "exec"), names)
    many = dk.func(names["f"])

    @dk.kernel
    def k(x: dk.array(dtype=float), c: dk.array(dtype=int), y: dk.array(dtype=float)):
        i = dk.tid()
        y[i] = many(c[i], x[i])

    assert _run(k, [2, 15, 16, 149, 150]) == ([1.0, 7.5, 8.0, 74.5, -0.5], [2.0, 15.0, 16.0, 149.0, -1.0])


def test_a_variable_that_one_branch_of_a_chain_does_not_set_is_refused() -> None:
    lines = _chain(100, "v = x[i]", "    else:\n        v = 0.0\n").replace("v = x[i]", "w = x[i]", 1)
    kernel = _kernel(lines + "    y[i] = v\n")
    with pytest.raises(dk.KernelTypeError, match="'v' may have no value here"):
        kernel.source()
    late = _chain(100, "v = x[i]", "    else:\n        pass\n")
    with pytest.raises(dk.KernelTypeError, match="'v' may have no value here"):
        _kernel(late + "    y[i] = v\n").source()
    inside = _chain(100, "v = x[i]", "    else:\n        y[i] = v\n")
    with pytest.raises(dk.KernelTypeError, match="'v' has no value here"):
        _kernel(inside).source()


def test_long_sequences_of_statements() -> None:
    kernel = _kernel(
        "    s = 0.0\n" + "".join(f"    s = s + x[i] * {k % 3}.0\n" for k in range(1000)) + "    y[i] = s\n"
    )
    _sources(kernel)
    assert _run(kernel, [0])[1] == [999.0]


@pytest.mark.parametrize(
    "value",
    [
        " else ".join(f"x[i] * {k}.0 if c[i] == {k}" for k in range(70)) + " else 0.0",
        "".join(f"dk.where(c[i] == {k}, x[i] * {k}.0, " for k in range(70)) + "0.0" + ")" * 70,
        "(x[i] + " * 120 + "1.0" + ")" * 120,
        "-" * 120 + "x[i]",
        "1.0 if " + " < ".join(["x[i]"] * 120) + " else 0.0",
        "dk.sin(" * 120 + "x[i]" + ")" * 120,
    ],
)
def test_what_is_nested_too_deep_is_refused_with_a_line(value: str) -> None:
    with pytest.raises(dk.KernelSyntaxError, match=r"nested more than (60|100) deep") as caught:
        _kernel(f"    y[i] = {value}\n").source()
    assert caught.value.loc is not None
    assert caught.value.loc.line == 3


@pytest.mark.parametrize(
    "value",
    [
        " else ".join(f"x[i] * {k}.0 if c[i] == {k}" for k in range(50)) + " else 0.0",
        "".join(f"dk.where(c[i] == {k}, x[i] * {k}.0, " for k in range(50)) + "0.0" + ")" * 50,
        "(x[i] + " * 90 + "1.0" + ")" * 90,
    ],
)
def test_what_is_nested_less_deep_compiles(value: str) -> None:
    kernel = _kernel(f"    y[i] = {value}\n")
    _sources(kernel)
    _run(kernel, [0, 3])


@pytest.mark.skipif(sys.version_info >= (3, 13), reason="its parser goes deeper, and so does the compiler")
def test_chains_beyond_pythons_own_limit_are_refused() -> None:
    with pytest.raises(dk.KernelSyntaxError, match="deeper than Python's limit"):
        _kernel("    y[i] = 0.0\n" + _chain(2500, "y[i] = x[i]", "")).source()
