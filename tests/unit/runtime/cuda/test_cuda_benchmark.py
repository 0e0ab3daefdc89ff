"""The set-up of the GPU benchmarks, at small sizes on the fake driver: every case runs and agrees with the CPU."""

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
    _forget()


@pytest.fixture
def tiles_gpu(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    import tiles_gpu

    yield tiles_gpu
    _forget()


def _forget() -> None:
    for name in ("tiles_gpu", "gpu", "gpu_kernels", "kernels", "harness"):
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
    separate = list(gpu.separate_times([own], sizes, "wave", 2))
    assert [(one.name, one.nbytes) for one in separate] == [("wave, forward", 12 * 64), ("wave, adjoint", 32 * 64)]
    assert all(one.host_s > 0 and one.device_s > 0 for one in separate)
    gpu.print_separate(separate, dk.get_device("cuda:0").memory_bandwidth)
    printed = capsys.readouterr().out
    assert "wave, forward" in printed
    assert "GB/s" in printed


def test_products_of_tiles(driver, tiles_gpu):
    for precision in tiles_gpu.PRECISIONS:
        (work,) = tiles_gpu.works(precision, 128, "cuda:0", peers=())
        work.run()
        a, b = tiles_gpu.factors(precision, 128)
        expected = a.astype(np.float64) @ b
        np.testing.assert_allclose(work.results()["c"], expected, atol=precision.rtol * np.abs(expected).max())


def test_table_of_products(driver, tiles_gpu, monkeypatch, capsys):
    monkeypatch.setattr(tiles_gpu, "optional", lambda name: None)
    rows = list(tiles_gpu.rows_of(tiles_gpu.PRECISIONS[0], 64, "cuda:0", 1))
    assert [row.top for row in rows] == ["diffkern"]
    tiles_gpu.print_rates(rows, 64)
    assert "64 x 64 x 64, float32        diffkern" in capsys.readouterr().out
