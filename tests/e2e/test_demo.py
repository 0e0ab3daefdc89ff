"""``diffkern demo``: the flood example runs, finds the rain, and draws it."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from conftest import require

from diffkern.cli import demo

if TYPE_CHECKING:
    from collections.abc import Callable

EXAMPLE = Path(__file__).parents[2] / "examples" / "flood.py"


def test_quick_run_finds_the_rain(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    require("matplotlib")
    require("tqdm")
    figure = tmp_path / "flood.png"
    assert demo.main(["--quick", "--out", str(figure)]) == 0
    printed = capsys.readouterr()
    assert "Finding the rain" in printed.err, "the progress bar"
    assert figure.read_bytes().startswith(b"\x89PNG")
    assert figure.stat().st_size > 100_000
    assert str(figure) in printed.out
    assert _number(r"largest error ([\d.]+) % of the norm; good", printed.out) < 1.0
    loss = r"Loss: ([\d.e-]+) -> ([\d.e-]+) in "
    assert _number(loss, printed.out) >= 50.0 * _number(loss, printed.out, 2)
    start = _number(r"off by ([\d.]+) mm/h at the start", printed.out)
    assert _number(r"at the start, ([\d.]+) now", printed.out) < 0.2 * start


def _number(pattern: str, text: str, group: int = 1) -> float:
    found = re.search(pattern, text)
    assert found is not None, f"{pattern!r} not in:\n{text}"
    return float(found.group(group))


def test_help(capsys: pytest.CaptureFixture[str]) -> None:
    require("matplotlib")
    require("tqdm")
    assert demo.main(["--help"]) == 0
    assert "--quick" in capsys.readouterr().out


def test_another_example_takes_its_own_options(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    require("matplotlib")
    before = sys.argv, sys.path[:]
    options = ["--bodies", "20", "--steps", "2", "--out", str(tmp_path / "few.png")]
    assert demo.main(["tile_nbody", *options]) == 0
    assert (tmp_path / "few.png").is_file()
    assert demo.main(["tile_nbody", "--what"]) == 2
    assert "--what" in capsys.readouterr().err
    assert (sys.argv, sys.path) == before


def test_the_list_has_every_example_and_its_first_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert demo.main(["--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == sorted(path.stem for path in EXAMPLE.parent.glob("*.py"))
    assert any("find the rain" in line for line in lines)


def test_an_unknown_name_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert demo.main(["floot"]) == 2
    assert "'floot'; there are beam, billiards, " in capsys.readouterr().err


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


def test_what_no_extra_installs_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    find: Callable[..., object] = importlib.util.find_spec
    absent = ["jax", "optax"]
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None if name in absent else find(name, *rest))
    assert demo.main(["sysid_jax"]) == 2
    assert 'pip install "diffkern[jax]" optax' in capsys.readouterr().err


def test_missing_file_is_an_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    require("matplotlib")
    require("tqdm")
    monkeypatch.setattr(demo, "_PLACES", (tmp_path / "first", tmp_path / "second"))
    assert demo.main([]) == 2
    assert "first" in capsys.readouterr().err


@pytest.mark.parametrize("path", sorted(EXAMPLE.parent.glob("*.py")), ids=lambda path: path.stem)
def test_examples_stay_short_enough_to_read(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) < 150
