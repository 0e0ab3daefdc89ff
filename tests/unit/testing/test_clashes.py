"""The oracle for accumulation without atomics: which accesses of two threads are in each other's way."""

from __future__ import annotations

import pytest
from support.clashes import ClashCollector, undeclared

from diffkern.contracts.manifest import Conflict
from diffkern.printing.executor import ElementAccess


def _collect(*accesses: tuple[int, str, int]) -> ClashCollector:
    collector = ClashCollector()
    for thread, kind, element in accesses:
        collector(ElementAccess(thread, "ct_x", (element,), kind, 8 * element))
    return collector


@pytest.mark.parametrize(
    ("first", "second", "clash"),
    [
        ("read", "read", False),
        ("read", "plain", True),
        ("read", "write", True),
        ("read", "atomic", True),
        ("plain", "plain", True),
        ("plain", "atomic", True),
        ("write", "write", True),
        ("atomic", "atomic", False),
        ("reduce", "reduce", False),
        ("reduce", "plain", False),
        ("reduce", "atomic", False),
        ("reduce", "read", True),
        ("reduce", "write", True),
    ],
)
def test_two_threads(first: str, second: str, clash: bool) -> None:
    assert bool(list(_collect((0, first, 1), (1, second, 1)).clashes())) is clash
    assert not list(_collect((0, "plain", 1), (1, "plain", 2)).clashes())


def test_one_thread_is_in_its_own_way_only_with_partial_sums() -> None:
    assert not list(_collect((0, "plain", 1), (0, "write", 1)).clashes())
    assert list(_collect((0, "reduce", 1), (0, "write", 1)).clashes())


def test_a_read_and_a_write_in_a_row_are_one_addition() -> None:
    (clash,) = _collect((0, "read", 1), (0, "write", 1), (1, "plain", 1)).clashes()
    assert str(clash) == "ct_x[1]: plain by thread 0 (as ct_x), plain by thread 1"


def test_what_the_manifest_announces() -> None:
    collector = _collect((0, "plain", 1), (2, "plain", 1))

    def left(conflict: Conflict, dim: tuple[int, ...] = (4,)) -> int:
        return len(undeclared(collector, {"ct_x": conflict}, dim))

    assert left(Conflict("none")) == 1
    assert left(Conflict("general")) == 0
    assert left(Conflict("bounded", ((-2, 2),))) == 0
    assert left(Conflict("bounded", ((-1, 1),))) == 1
    assert left(Conflict("bounded", ((-1, 1), (0, 0))), (2, 2)) == 0
    assert left(Conflict("bounded", ((0, 0), (-1, 1))), (2, 2)) == 1
