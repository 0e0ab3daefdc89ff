"""``diffkern bench``: counts of bytes and operations, and the report."""

from __future__ import annotations

import json

import pytest

import diffkern as dk
from diffkern.analysis.work import Work
from diffkern.cli import bench
from diffkern.cli import command as cli


def counted(name: str, adjoint: bool = False) -> Work:
    (load,) = (w for w in bench._workloads(quick=True) if w.name == name)
    found = bench._work(load, adjoint)
    assert found is not None
    return found


def test_bytes_and_operations_are_those_of_the_formulas() -> None:
    n = 1 << 18
    # sin and exp count as their rows say, 10 each; a*x, -x, its product with x, y*exp and the sum are 5 more
    assert counted("elementwise") == Work(25 * n, 3 * 4 * n)
    assert counted("n-body") == Work(20 * 512 * 512, 512 * (12 + 4) + 512 * 12)
    assert counted("recurrence") == Work(64 * 3 * n / 4, 2 * 4 * n / 4)
    assert counted("heat").bytes == 2 * 4 * 512 * 512
    mesh = counted("mesh")
    points, faces = 128 * 128, 2 * 127 * 127
    assert mesh.bytes == points * 12 + faces * 12 + 2 * points * 4  # what is added to is read and written
    assert counted("n-body", adjoint=True).flops > 2 * counted("n-body").flops


def test_trips_that_depend_on_values_are_not_counted() -> None:
    (load,) = (w for w in bench._workloads(quick=True) if w.name == "recurrence")
    assert bench._work(load, adjoint=True) is None


def test_a_fraction_is_of_the_lower_ceiling() -> None:
    found = bench.Ceilings(bandwidth=10.0, flops=100.0)
    assert found.bound(Work(flops=100.0, bytes=1.0)) == 1.0
    assert found.bound(Work(flops=1.0, bytes=20.0)) == 2.0


def test_the_report(capsys: pytest.CaptureFixture[str]) -> None:
    before = dk.config.num_threads
    assert cli.main(["bench", "--quick", "--threads", "1", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert dk.config.num_threads == before
    assert found["ceilings"]["bandwidth"] > 1e8
    assert found["ceilings"]["flops"] > 1e8
    rows = {(row["workload"], row["direction"]): row for row in found["workloads"]}
    assert len(rows) == 10
    assert all(row["fraction"] > 0 for row in rows.values() if row["bytes"])
    assert rows["n-body", "forward"]["limit"] == "arithmetic"
    line = bench._line(bench.Measured("heat", "forward", 0.001, 2e6, 3e6, 0.5, "bandwidth"))
    assert line.split() == ["heat", "forward", "1.00", "2.0", "3.0", "2.0", "3.0", "50%", "of", "bandwidth"]
    beyond = bench._line(bench.Measured("heat", "forward", 0.001, 2e6, 3e6, 1.79, "bandwidth"))
    assert beyond.endswith("from caches, above the bandwidth")
    assert "trip counts depend on data" in bench._line(bench.Measured("recurrence", "adjoint", 0.001))
