"""The example of PyTorch: its gradient is right and it finds the rain."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
from conftest import require

require("torch")

import torch

EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.mark.slow
def test_the_flood_in_pytorch(capsys, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(EXAMPLES)
    threads = torch.get_num_threads()
    spec = importlib.util.spec_from_file_location("flood_torch", EXAMPLES / "flood_torch.py")
    flood_torch = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(flood_torch)
    try:
        assert flood_torch.main(["--quick", "--out", str(tmp_path / "flood.png")]) == 0
    finally:
        torch.set_num_threads(threads)
    assert "norm; good" in capsys.readouterr().out
    assert (tmp_path / "flood.png").stat().st_size > 10_000
