"""The corpus in numba's CUDA simulator, forward and adjoint, against the CPU: two blocks of three threads stride.

The simulator is chosen when numba is imported, so all cases run in one child process.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from block_corpus import BLOCKS
from conftest import require
from grad.corpus import CASES

from .block_fuzz import FUZZ

require("numba.cuda")

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    file = tmp_path_factory.mktemp("simulator") / "verdicts.json"
    environment = {**os.environ, "NUMBA_ENABLE_CUDASIM": "1"}
    command = [sys.executable, "-W", "ignore", "-m", "simulator.child", str(file)]
    ended = subprocess.run(command, cwd=ROOT / "tests", env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    found: dict[str, str] = json.loads(file.read_text(encoding="utf-8"))
    return found


@pytest.mark.xdist_group("simulator")
@pytest.mark.parametrize("name", [*(n for n in sorted(CASES) if not n.startswith("tiles.")), *sorted(BLOCKS), *FUZZ])
def test_agrees_with_the_cpu(name: str, verdicts: dict[str, str]) -> None:
    assert verdicts[name] == ""
