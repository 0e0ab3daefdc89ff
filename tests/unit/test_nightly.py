"""The command for long runs: its pieces cover the suite, its results are read right, and it goes on where it ended."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def nightly():
    spec = importlib.util.spec_from_file_location("nightly", ROOT / "tools" / "nightly.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["nightly"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["nightly"]


def test_each_file_of_tests_is_in_one_piece(nightly):
    whole = [p for p in nightly.pieces(1) if p.name.startswith(("full-", "faults-"))]
    files = [part for p in whole for part in p.command if part.startswith("tests/")]
    assert {files.count(f) for f in files} == {1, files.count("tests/mutation/test_faults.py")}
    assert sorted({*files}) == sorted(str(f.relative_to(ROOT)) for f in (ROOT / "tests").rglob("test_*.py"))
    assert all("--full" in p.command for p in whole)
    names = [p.name for p in nightly.pieces(1)]
    assert len(names) == len(set(names))


def test_each_part_of_the_seeded_faults_is_a_piece(nightly):
    parts = [p.command[p.command.index("--part") + 1] for p in nightly.pieces(1) if p.name.startswith("faults-")]
    assert parts == [f"{k}/{len(parts)}" for k in range(len(parts))]


def test_the_tests_for_a_gpu_run_on_executed_ptx(nightly):
    executed = [p for p in nightly.pieces(1) if p.name.startswith("executed-")]
    files = sorted(str(f.relative_to(ROOT)) for f in (ROOT / "tests" / "gpu").glob("test_*.py"))
    for compiler in ("llvm", "numba"):
        own = [p for p in executed if dict(p.settings)["DIFFKERN_CUDA_COMPILER"] == compiler]
        assert sorted(p.command[-1] for p in own) == files
    assert {dict(p.settings)["DIFFKERN_FAKE_GPU"] for p in executed} == {"ptx"}


def test_random_programs_of_pieces_differ(nightly):
    random = [p.command for p in nightly.pieces(7) if p.name.startswith("random-")]
    seeds = {command[command.index("--seed") + 1] for command in random}
    assert len(seeds) == len(random)
    assert sum(int(c[c.index("--count") + 1]) for c in random) == nightly.RANDOM_PROGRAMS


def test_results_are_read(nightly):
    text = "x\nFAILED tests/a.py::test_b - assert 1 == 2\n== 1 failed, 20 passed, 3 skipped in 4.5s ==\n"
    found = nightly.read_result(1, text, 1.0)
    assert found.counts == {"failed": 1, "passed": 20, "skipped": 3}
    assert found.failures == ["FAILED tests/a.py::test_b - assert 1 == 2"]
    found = nightly.read_result(1, 'program 7: wrong\n\ncounts {"programs": 3, "refused: loops": 1}\n', 1.0)
    assert found.counts == {"programs": 3, "refused: loops": 1}
    assert found.failures == ["program 7: wrong"]
    assert nightly.read_result(-11, "a\nb\n", 1.0).failures == ["a", "b"]
    assert not nightly.read_result(5, "no tests ran in 0.1s\n", 1.0).failed


def test_it_goes_on_where_it_ended(nightly, tmp_path, monkeypatch, capsys):
    """Pieces that are done do not run again; failed ones do with --again; what failed before still fails the call."""
    monkeypatch.setattr(nightly, "ROOT", tmp_path)
    monkeypatch.setattr(nightly, "tree", lambda: ("abc", 5))
    made = [
        nightly.Piece(f"full-{k}", (sys.executable, "-c", f"print('1 passed in 1s'); exit({k % 2})")) for k in range(3)
    ]
    monkeypatch.setattr(nightly, "pieces", lambda seed: iter(made))
    assert nightly.main(["0"]) == 0
    assert "3 pieces left" in capsys.readouterr().out
    assert nightly.main(["60"]) == 1
    assert "full: 3 pieces" in capsys.readouterr().out
    place = tmp_path / ".nightly" / "abc" / "full-1.json"
    assert json.loads(place.read_text())["status"] == 1
    made[1] = nightly.Piece("full-1", (sys.executable, "-c", "print('1 passed in 1s')"))
    assert nightly.main(["60"]) == 1
    assert nightly.main(["60", "--again"]) == 0
    assert "0 pieces left, 0 failed" in capsys.readouterr().out
