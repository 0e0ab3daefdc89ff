"""The example of records: three ways of launching give the same parameters, which fit better than none."""

from __future__ import annotations

import importlib.util
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "examples" / "volatility.py"


def test_the_fit_with_records(capsys):
    spec = importlib.util.spec_from_file_location("volatility", EXAMPLE)
    volatility = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(volatility)
    assert volatility.main(["--steps", "1000"]) == 0
    shown = capsys.readouterr().out
    assert "The same parameters in all three" in shown
    assert "^GSPC" in shown
