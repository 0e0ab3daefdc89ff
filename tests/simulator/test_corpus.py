"""The corpus in numba's CUDA simulator, forward and adjoint, against the CPU: two blocks of three threads stride.

The simulator is chosen when numba is imported, so all cases that were selected run in one child process.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from block_corpus import BLOCKS
from conftest import require

from .block_fuzz import FUZZ
from .selection import ALONG, BLOCK_GRADIENTS, CORPUS, OF_THREADS, RANGES, UPDATES

require("numba.cuda")

ROOT = Path(__file__).parents[2]
NAMES = [*CORPUS, *sorted(BLOCKS), *FUZZ, OF_THREADS, *UPDATES, *BLOCK_GRADIENTS, *ALONG, *RANGES]


@pytest.fixture(scope="module")
def verdicts(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    names = [
        item.callspec.params["name"]
        for item in request.session.items
        if item.path == request.path and isinstance(item, pytest.Function) and item.get_closest_marker("skip") is None
    ]
    base = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        base = base.parent  # the workers of a run share one child process
    directory = base / "simulator"
    file = directory / "verdicts.json"
    try:
        directory.mkdir()
    except FileExistsError:
        _wait_for(file)
    else:
        _run(names, directory / "unfinished.json", file)
    found: dict[str, str] = json.loads(file.read_text(encoding="utf-8"))
    return found


def _run(names: list[str], unfinished: Path, file: Path) -> None:
    environment = {**os.environ, "NUMBA_ENABLE_CUDASIM": "1"}
    command = [sys.executable, "-W", "ignore", "-m", "simulator.child", str(unfinished), *names]
    ended = subprocess.run(command, cwd=ROOT / "tests", env=environment, capture_output=True, text=True, check=False)
    if ended.returncode != 0:
        unfinished.write_text(json.dumps(dict.fromkeys(names, ended.stderr)), encoding="utf-8")
    unfinished.rename(file)


def _wait_for(file: Path) -> None:
    for _ in range(1200):
        if file.exists():
            return
        time.sleep(0.5)
    raise TimeoutError("another process runs the simulator and does not come to an end")


@pytest.mark.parametrize("name", NAMES)
def test_agrees_with_the_cpu(name: str, verdicts: dict[str, str]) -> None:
    assert verdicts[name] == ""
