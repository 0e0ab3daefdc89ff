"""What the record of executed instructions lets through, and what it holds."""

from __future__ import annotations

import json

from . import executed_counts


def test_a_change_is_noticed():
    record = {"a forward": 24.5, "a adjoint": 80.0}
    assert list(executed_counts.compare(record, {"a forward": 24.5}, exact=True)) == []
    (said,) = executed_counts.compare(record, {"a forward": 24.5, "a adjoint": 79.5}, exact=True)
    assert said == "a adjoint: a warp executes 80.0 instructions by the record, and 79.5 now"
    assert list(executed_counts.compare(record, {"a adjoint": 99.0}, exact=False)) == []
    assert len(list(executed_counts.compare(record, {"a adjoint": 101.0}, exact=False))) == 1
    (said,) = executed_counts.compare(record, {"b forward": 1.0}, exact=True)
    assert said.startswith("b forward: not recorded")


def test_both_directions_are_recorded():
    names = json.loads(executed_counts.PATH.read_text())["programs"]
    assert len(names) >= 24
    assert {name.rpartition(" ")[0] + " adjoint" for name in names} <= set(names)
