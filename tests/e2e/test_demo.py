"""``diffkern demo``: the flood example runs, finds the rain, and draws it."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from diffkern.cli import demo

if TYPE_CHECKING:
    from collections.abc import Callable

EXAMPLE = Path(__file__).parents[2] / "examples" / "flood.py"


def test_quick_run_finds_the_rain(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib")
    pytest.importorskip("tqdm")
    figure = tmp_path / "flood.png"
    assert demo.main(["--quick", "--out", str(figure)]) == 0
    printed = capsys.readouterr()
    assert "Finding the rain" in printed.err, "the progress bar"
    assert figure.read_bytes().startswith(b"\x89PNG")
    assert figure.stat().st_size > 100_000
    assert str(figure) in printed.out
    assert _number(r"largest error ([\d.]+) % of the norm; good", printed.out) < 1.0
    assert _number(r"(\d+) times less", printed.out) >= 50.0
    start = _number(r"off by ([\d.]+) mm/h at the start", printed.out)
    assert _number(r"at the start, ([\d.]+) now", printed.out) < 0.2 * start


def _number(pattern: str, text: str) -> float:
    found = re.search(pattern, text)
    assert found is not None, f"{pattern!r} not in:\n{text}"
    return float(found.group(1))


def test_help(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib")
    pytest.importorskip("tqdm")
    with pytest.raises(SystemExit) as left:
        demo.main(["--help"])
    assert left.value.code == 0
    assert "--quick" in capsys.readouterr().out


@pytest.mark.parametrize("missing", [["matplotlib"], ["tqdm"], ["matplotlib", "tqdm"]])
def test_missing_extra_is_named(
    missing: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    find: Callable[..., object] = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None if name in missing else find(name, *rest))
    assert demo.main([]) == 2
    printed = capsys.readouterr().err
    assert 'pip install "diffkern[plot]"' in printed
    assert all(name in printed for name in missing)


def test_missing_file_is_an_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib")
    pytest.importorskip("tqdm")
    monkeypatch.setattr(demo, "_PLACES", (tmp_path / "a.py", tmp_path / "b.py"))
    assert demo.main([]) == 2
    assert "a.py" in capsys.readouterr().err


def test_example_stays_short_enough_to_read() -> None:
    assert len(EXAMPLE.read_text(encoding="utf-8").splitlines()) < 200
