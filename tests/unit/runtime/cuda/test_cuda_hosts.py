"""The benchmark of the host's part of launches runs, through the real bindings over a driver that costs nothing."""

from __future__ import annotations

import ctypes
import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import has_cuda_driver, require

from diffkern.runtime.cuda.bindings import _entry_points

ROOT = Path(__file__).parents[4]


@pytest.mark.skipif(sys.platform != "linux" or has_cuda_driver(), reason="the stub is for Linux without a driver")
@pytest.mark.skipif(platform.machine() not in ("x86_64", "aarch64"), reason="the stub has no code for this processor")
def test_the_benchmark_runs(tmp_path: Path) -> None:
    require("cuda.bindings.driver", "cuda.bindings.nvjitlink")
    out = tmp_path / "hosts.json"
    ran = subprocess.run(
        [sys.executable, ROOT / "benchmarks/cuda_hosts.py", "--quick", "--only", "3 arrays", "--json", str(out)],
        env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout + ran.stderr
    rows = json.loads(out.read_text())["rows"]
    names = " ".join(row["name"] for row in rows)
    cases = ("plain launch", "adjoint launch", "launches on a tape", "tape, launch, backward and zero", "record.launch")
    for case in (*cases, "sequence of 1000", "graph of 1000 launches"):
        assert case in names
    assert all(row["top_s"] > 0 for row in rows)


class Library:
    """Stands for the driver's library: it has every function, or all but one."""

    def __init__(self, without: str = "") -> None:
        self.without = without

    def __getattr__(self, name: str) -> Any:
        if name == self.without:
            raise AttributeError(name)
        return ctypes.CFUNCTYPE(ctypes.c_int)(lambda: 0)


def test_native_code_calls_the_library_if_it_has_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_PYTHON_CUDA_PER_THREAD_DEFAULT_STREAM", raising=False)
    found = _entry_points(Library())
    assert found is not None
    assert all(found)
    assert _entry_points(Library("cuGraphLaunch")) is None
    # The package then means another stream by 0 than the library's functions do.
    monkeypatch.setenv("CUDA_PYTHON_CUDA_PER_THREAD_DEFAULT_STREAM", "1")
    assert _entry_points(Library()) is None
