"""A name that holds something else after a statement inside a loop is an error with its line, whatever it held before.

What is lowered in a loop is lowered again when a type turns out to be another one. An error of the first lowering must
not be lost by that, nor may the statements that need the name silently be left out.
"""

from __future__ import annotations

import pytest

import diffkern as dk

from .sources import mistakes


@dk.struct
class Held:
    xs: dk.array(dtype=float)


@dk.func
def twice(a: float):
    return 2.0 * a


HELD = {  # what a name holds, and what reads it
    "array": ("x", "name[j]"),
    "view": ("x[1:]", "name[j]"),
    "number": ("1.5", "name * 2.0"),
    "vector": ("dk.vec3(1.0, 2.0, 3.0)", "name[0]"),
    "func": ("twice", "name(1.0)"),
    "tuple": ("(1.0, 2.0)", "name[0]"),
    "struct": ("Held(x)", "name.xs[j]"),
    "array of a struct": ("Held(x).xs", "name[j]"),
}
REBOUND = {
    "for": ["for name in range(n):", "    pass"],
    "for of literals": ["for name in range(3):", "    pass"],
    "for over an array": ["for name in index:", "    pass"],
    "for with break": ["for name in range(n):", "    if name > 1:", "        break"],
    "for in for": ["for k in range(n):", "    for name in range(k):", "        pass"],
    "assignment": ["name = n"],
    "under a condition": ["if j > 1:", "    name = n"],
    "in a loop": ["for k in range(n):", "    name = k"],
    "in a while loop": ["while a > 0.0:", "    name = n", "    a = a - 1.0"],
}
AROUND = {
    "for": (["for j in range(n):"], 1),
    "while": (["j = 0", "while j < n:", "    j += 1"], 1),
    "two": (["for i in range(n):", "    for j in range(i):"], 2),
    "left": (["for j in range(n):", "    if j == 7:", "        break"], 1),
}


@pytest.mark.parametrize("around", AROUND)
@pytest.mark.parametrize("rebound", REBOUND)
@pytest.mark.parametrize("held", HELD)
def test_a_name_that_is_rebound_in_a_loop(held: str, rebound: str, around: str) -> None:
    first, reads = HELD[held]
    head, depth = AROUND[around]
    body = ["    " * depth + line for line in (f"y[0] = {reads}", *REBOUND[rebound])]
    found = mistakes("\n".join([f"name = {first}", *head, *body]) + "\n", Held=Held, twice=twice)
    assert found
    assert any("name" in e.message and e.loc is not None and "name" in e.loc.text for e in found), found
