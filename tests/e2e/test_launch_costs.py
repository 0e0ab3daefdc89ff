"""``benchmarks/launch_costs.py`` in short chains: cases compute what they are timed for, and the table is printed."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import diffkern as dk

FOLDER = Path(__file__).parents[2] / "benchmarks"
LINKS, CASES = 6, 10
pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason="the benchmarks are not beside the tests")


@pytest.fixture
def costs(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.syspath_prepend(str(FOLDER))
    import launch_costs

    monkeypatch.setattr(launch_costs, "LINKS", LINKS)
    monkeypatch.setattr(launch_costs, "QUICK_PAIRS", 1)
    yield launch_costs
    for name in ("launch_costs", "record_kernels", "harness"):
        sys.modules.pop(name, None)


def test_every_case_computes_what_it_is_timed_for(costs: Any) -> None:
    made = costs.works(dk, "diffkern", 5)
    assert len(made) == CASES
    chain = costs.Chain(dk, "diffkern", 5)
    first, factor = (array.numpy().astype(float) for array in (chain.states[0], chain.factor))
    states = {f"state {k}": first * (0.5 * factor) ** k for k in (1, LINKS // 2, LINKS)}
    last = states[f"state {LINKS}"]
    gradients = {"gradient": last / first, "of the factor": LINKS * last / factor}
    for name, work in made.items():
        work.prepare()
        work.run()
        found = work.results()
        expected = gradients if "gradient" in found else states
        assert found.keys() == expected.keys()
        for key, value in found.items():
            np.testing.assert_allclose(value, expected[key], rtol=1e-5, err_msg=f"{name}: {key}")


def test_the_table_without_a_peer(costs: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    out = tmp_path / "costs.json"
    monkeypatch.setattr(costs, "is_installed", lambda name: False)
    monkeypatch.setattr(sys, "argv", ["launch_costs.py", "--quick", "--json", str(out)])
    assert costs.main() == 0
    rows = json.loads(out.read_text(encoding="utf-8"))["rows"]
    assert len({row["name"] for row in rows}) == len(rows) == 2 * CASES
    assert all(row["top"] == "diffkern" and row["top_s"] > 0 for row in rows)
