"""The example of hash grids: water flows as in the experiment; a gradient through steps that build the grid."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

from conftest import require

EXAMPLE = Path(__file__).parents[2] / "examples" / "dam_break.py"


def test_the_dam_breaks_as_it_did(tmp_path, capsys):
    require("matplotlib")
    spec = importlib.util.spec_from_file_location("dam_break", EXAMPLE)
    dam_break = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(dam_break)
    figure = tmp_path / "dam.png"
    assert dam_break.main(["--columns", "8", "--steps", "5", "--out", str(figure)]) == 0
    shown = capsys.readouterr().out
    assert float(re.search(r"Front: off by ([\d.]+) %", shown)[1]) < 10.0
    assert float(re.search(r"off by (\S+) of differences", shown)[1]) < 1e-6
    assert figure.read_bytes().startswith(b"\x89PNG")
