"""Names of the host API that programs written for NVIDIA Warp take for granted."""

from __future__ import annotations

import math
import sys

import numpy as np
import pytest

import diffkern as dk
from diffkern.cache.maintenance import artifacts
from diffkern.cache.manifest import StoredArtifact
from diffkern.compiler.stores import current_store


@dk.kernel
def doubled(x: dk.array[float], y: dk.array[float]) -> None:
    i = dk.tid()
    y[i] = 2.0 * x[i]


@dk.kernel
def constants(y: dk.array[dk.float64]) -> None:
    y[0] = dk.PHI
    y[1] = dk.LOG2E
    y[2] = dk.log10e
    y[3] = dk.LN2
    y[4] = dk.ln10


def test_constants_in_kernels() -> None:
    y = dk.zeros(5, dtype=dk.float64)
    dk.launch(constants, dim=1, inputs=[y])
    expected = [(1 + math.sqrt(5)) / 2, 1 / math.log(2), 1 / math.log(10), math.log(2), math.log(10)]
    np.testing.assert_allclose(y.numpy(), expected, rtol=1e-15)
    assert dk.phi == dk.PHI
    assert dk.e == math.e
    assert dk.tau == dk.TAU


@pytest.mark.parametrize("name", ["bool", "int8", "uint16", "int64", "float16", "float32", "float64"])
def test_types_of_numpy_there_and_back(name: str) -> None:
    dtype = dk.dtype_from_numpy(np.dtype(name))
    assert dtype.name == name
    assert dk.dtype_to_numpy(dtype) == np.dtype(name)


def test_types_of_numpy() -> None:
    assert dk.dtype_from_numpy(np.float32) == dk.float32
    assert dk.dtype_to_numpy(dk.vec3d) == np.float64
    assert dk.dtype_to_numpy(int) == np.int32
    assert dk.dtype_from_numpy(np.complex64) == dk.complex64
    with pytest.raises(TypeError, match="no type for NumPy's"):
        dk.dtype_from_numpy(np.clongdouble)
    with pytest.raises(TypeError, match="not an element type"):
        dk.dtype_to_numpy("float")


def test_which_devices_there_are() -> None:
    assert dk.is_cpu_available()
    assert dk.is_device_available("cpu")
    assert dk.is_device_available(dk.get_device("cpu"))
    assert not dk.is_device_available("cuda:99")
    assert not dk.is_device_available("tpu")


class TestScopedTimer:
    def test_it_prints(self, capsys: pytest.CaptureFixture[str]) -> None:
        with dk.ScopedTimer("outer") as outer, dk.ScopedTimer("inner"):
            assert outer.elapsed == 0.0
        inner, last = capsys.readouterr().out.splitlines()
        assert inner.startswith("  inner took ")
        assert last.startswith("outer took ")
        assert last.endswith(" ms")
        assert outer.elapsed > 0.0

    def test_it_keeps_times(self, capsys: pytest.CaptureFixture[str]) -> None:
        times: dict[str, list[float]] = {}
        for _ in range(2):
            with dk.ScopedTimer("step", print=False, dict=times, synchronize=True) as timer:
                pass
        assert len(times["step"]) == 2
        assert times["step"][1] == timer.elapsed
        assert not capsys.readouterr().out

    def test_an_inactive_one_does_nothing(self, capsys: pytest.CaptureFixture[str]) -> None:
        times: dict[str, list[float]] = {}
        with dk.ScopedTimer("step", active=False, dict=times, detailed=True):
            pass
        assert not times
        assert not capsys.readouterr().out

    def test_it_profiles(self, capsys: pytest.CaptureFixture[str]) -> None:
        with dk.ScopedTimer("sorting", detailed=True):
            sorted(range(10))
        printed = capsys.readouterr().out
        assert "built-in method builtins.sorted" in printed
        assert "sorting took" in printed

    def test_it_reports_to_a_function(self, capsys: pytest.CaptureFixture[str]) -> None:
        reports: list[tuple[list[object], str]] = []
        with dk.ScopedTimer("a"), dk.ScopedTimer("b", report_func=lambda *r: reports.append(r)):
            pass
        assert reports == [([], "  ")]
        assert capsys.readouterr().out.startswith("a took")

    def test_an_error_passes_and_leaves_the_indentation(self, capsys: pytest.CaptureFixture[str]) -> None:
        with pytest.raises(KeyError), dk.ScopedTimer("a"):
            raise KeyError
        with dk.ScopedTimer("b"):
            pass
        assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["a", "b"]
        with dk.ScopedTimer("c"):
            pass
        assert capsys.readouterr().out.startswith("c ")

    def test_activities_of_a_gpu_concern_active_timers_with_a_gpu(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("diffkern.runtime.observe.timer.is_cuda_available", lambda: True)
        with dk.ScopedTimer("a", active=False, cuda_filter=1) as inactive:
            pass
        assert inactive.elapsed == 0
        monkeypatch.setattr("diffkern.runtime.observe.timer.is_cuda_available", lambda: False)
        reports: list[list[object]] = []
        with dk.ScopedTimer("a", cuda_filter=1, report_func=lambda found, _: reports.append(found)):
            pass
        assert reports == [[]]

    def test_what_there_is_not(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("diffkern.runtime.observe.timer.is_cuda_available", lambda: True)
        with pytest.raises(ValueError, match="activities of a GPU are not timed"), dk.ScopedTimer("a", cuda_filter=1):
            pass
        monkeypatch.setitem(sys.modules, "nvtx", None)
        with pytest.raises(ImportError, match="pip install nvtx"), dk.ScopedTimer("a", use_nvtx=True):
            pass


def test_clearing_the_cache(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dk.config, "cache_dir", tmp_path)
    x, y = dk.ones(3), dk.zeros(3)
    dk.launch(doubled, dim=3, inputs=[x, y])
    product = {"what": "matrix product", "title": "matrix product 2 x 2 x 2", "target": "sm_90"}
    current_store().put("ab" * 32, StoredArtifact(b"", ("mm",), facts=product, more={"kernel.ltoir": b"code"}))
    assert dk.clear_lto_cache() == 1
    assert dk.clear_lto_cache() == 0
    made = [a.title for a in artifacts(tmp_path)]
    assert any("doubled" in title for title in made)
    assert dk.clear_kernel_cache() == len(made), made
    assert not list(tmp_path.glob("??/*"))
    dk.launch(doubled, dim=3, inputs=[y, x])  # what is loaded stays loaded
    assert x.numpy().tolist() == [4.0, 4.0, 4.0]
