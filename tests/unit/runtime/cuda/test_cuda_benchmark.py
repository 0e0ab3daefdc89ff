"""The set-up of benchmarks/gpu.py, at small sizes on the fake driver: every case runs and agrees with the CPU."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import diffkern as dk

FOLDER = Path(__file__).parents[4] / "benchmarks"
pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason="the benchmarks are not beside the tests")


@pytest.fixture
def gpu(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    import gpu

    yield gpu
    for name in ("gpu", "gpu_kernels", "kernels", "harness"):
        sys.modules.pop(name, None)


def test_cases_run_and_agree(driver, gpu, monkeypatch):
    monkeypatch.setattr(gpu, "LAUNCHES", 3)
    sizes = gpu.Sizes(wave=300, bodies=20, mesh=5, grid=12, steps=3)
    here, there = (gpu.Side("diffkern", dk, device) for device in ("cpu", "cuda:0"))
    names = []
    for group in gpu.GROUPS:
        expected, found = dict(group(here, sizes)), dict(group(there, sizes))
        names += found
        for name in expected:
            for case in (expected[name], found[name]):
                case.work.prepare()
                case.work.run()
            for key, values in expected[name].work.results().items():
                got = found[name].work.results()[key]
                assert np.abs(values).max() > 0, name
                np.testing.assert_allclose(got, values, rtol=2e-3, atol=1e-5, err_msg=f"{name}: {key}")
    assert len(names) == len(set(names)) == 12


def test_table(driver, gpu, monkeypatch, capsys):
    monkeypatch.setattr(gpu, "LAUNCHES", 2)
    sizes = gpu.Sizes(wave=64, bodies=4, mesh=3, grid=8, steps=2)
    own, peer = gpu.Side("diffkern", dk, "cuda:0"), gpu.Side("peer", dk, "cpu")
    measured = list(gpu.rows_of(own, [peer], sizes, "wave", 1))
    assert [row.error for row, _ in measured] == [""] * 4
    gpu.print_bandwidth(measured, dk.get_device("cuda:0").memory_bandwidth)
    printed = capsys.readouterr().out
    assert "wave, forward" in printed
    assert "GB/s" in printed
