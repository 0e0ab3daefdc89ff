"""Dead code elimination marks what the analysis of liveness finds, at a cost that nesting does not multiply."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from passes_harness import D1, after, assert_same, lowered

import diffkern as dk
from diffkern.ir.nodes import walk
from diffkern.ir.types import INT32
from diffkern.opt.dce import Liveness, _Eliminator, eliminate

X = np.linspace(0.2, 1.9, 8)


def chains(x, y, n):
    i = dk.tid()
    a = x[i]
    b = a
    c = a
    d = a
    for k in range(n):
        for m in range(k):
            d = d + c  # one trip later it reaches c's users, and a only after three
            c = c * b
            b = b + a
            if b > 3.0:
                a = a * 0.5
                d = 0.0
    y[i] = b


def condition_in_a_loop(x, y, n):
    i = dk.tid()
    s = x[i]
    waste = s
    for k in range(n):
        count = 0
        lost = s
        while s < 9.0 and count < k:
            s = s * 1.5
            lost = lost + s
            count += 1
        waste = waste + lost
        if count > 2:
            s = s - 1.0
    y[i] = s


def effects_alone(x, y, n):
    i = dk.tid()
    s = x[i]
    t = s
    for k in range(n):
        for m in range(2):
            t = t + s
            if s > 1.0:
                y[i] = s
        s = s * 0.9


def nothing_needed(x, y, n):
    i = dk.tid()
    s = x[i]
    for k in range(n):
        while s < 4.0:
            s = s * 2.0
            if s > 3.0:
                s = s + 1.0


KERNELS = [chains, condition_in_a_loop, effects_alone, nothing_needed]


@pytest.mark.parametrize("kernel", KERNELS)
def test_marked_values_are_the_live_ones(kernel: Callable[..., Any]) -> None:
    fn = lowered(kernel, D1, D1, INT32)
    for _ in range(2):  # as it was written, and with nothing left to remove
        marked = _Eliminator(fn.body)
        assert marked.needed == Liveness().region(fn.body, set(fn.body.yields))
        cleared = after(fn, eliminate)
        assert_same(fn, cleared, (8,), [X, X.copy(), 4])
        fn = cleared
    assert len(list(walk(after(fn, eliminate).body))) == len(list(walk(fn.body)))


def nested(depth: int) -> str:
    """Return the text of a kernel of loops in loops."""
    lines = ["def f(x, y, n):", "    i = dk.tid()", "    a = x[i]", "    b = a", "    c = a"]
    lines += [f"{'    ' * (1 + k)}for k{k} in range(n):" for k in range(depth)]
    lines += [f"{'    ' * (1 + depth)}{line}" for line in ("c = c + b", "b = b + a", "a = a * 0.5")]
    return "\n".join([*lines, "    y[i] = c", ""])


@pytest.mark.parametrize("depth", [2, 8])
def test_a_value_is_followed_once(depth: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    path = tmp_path / f"nest{depth}.py"
    path.write_text("import diffkern as dk\n" + nested(depth))
    names: dict[str, Any] = {}
    exec(compile(path.read_text(), str(path), "exec"), names)
    fn = lowered(names["f"], D1, D1, INT32)
    followed = []
    follow = _Eliminator.follow
    monkeypatch.setattr(_Eliminator, "follow", lambda self, value: (followed.append(value), follow(self, value))[1])
    eliminate(fn)
    assert len(followed) == len(set(followed))
