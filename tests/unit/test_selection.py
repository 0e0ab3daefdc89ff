"""Cases that run by default: the table names tests that are there, and the choice does not depend on other cases."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.selection import THINNED, is_usual, one_in, thin_out

TESTS = Path(__file__).resolve().parents[1]


class Item:
    """A case of a test, as pytest has it."""

    def __init__(self, nodeid: str) -> None:
        self.nodeid = nodeid
        self.marked = False

    def add_marker(self, marker) -> None:
        self.marked = True


@pytest.mark.parametrize("test", THINNED)
def test_tests_of_the_table_are_there(test):
    file, _, name = test.partition("::")
    assert f"def {name}(" in (TESTS / file).read_text(encoding="utf-8")


def test_a_new_case_does_not_move_the_others():
    names = [f"case {k}" for k in range(100)]
    before = {name for name in one_in(3, names) if isinstance(name, str)}
    after = {name for name in one_in(3, ["another one", *names]) if isinstance(name, str)}
    assert before == after - {"another one"}
    assert 20 < len(before) < 50


def test_one_case_in_some_runs():
    test, every = next(iter(THINNED.items()))
    cases = [Item(f"tests/{test}[{k}]") for k in range(300)]
    others = [Item("tests/other.py::test_something[1]"), Item(f"tests/{test}")]
    thin_out([*cases, *others])
    assert not any(item.marked for item in others)
    assert [item.marked for item in cases] == [not is_usual(item.nodeid, every) for item in cases]


def test_of_each_test_one_case_runs():
    test, every = next(iter(THINNED.items()))
    names = (f"tests/{test}[{k}]" for k in range(100))
    cases = [Item(name) for name in names if not is_usual(name, every)]
    thin_out(cases)
    assert [item.marked for item in cases] == [False] + [True] * (len(cases) - 1)
