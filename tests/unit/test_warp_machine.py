"""What programs for Warp ask of the machine: memory pools, access among devices, versions, graphs as text."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.fake_driver.driver import FakeDriver, fake_cuda

import diffkern as dk
import diffkern.warp as wp

POOL_SIZES = [wp.get_mempool_release_threshold, wp.get_mempool_used_mem_current, wp.get_mempool_used_mem_high]


# -- the CPU -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ask", POOL_SIZES, ids=lambda f: f.__name__)
@pytest.mark.parametrize("device", [None, "cpu", wp.get_device("cpu")], ids=str)
def test_the_cpu_has_no_pool_to_ask(ask: Any, device: Any) -> None:
    with pytest.raises(ValueError, match="Memory pools are only supported on CUDA devices"):
        ask(device)


def test_the_cpu_takes_no_pool() -> None:
    for enable in (lambda: wp.set_mempool_enabled("cpu", True), lambda: wp.ScopedMempool("cpu", True).__enter__()):
        with pytest.raises(ValueError, match="Memory pools are only supported on CUDA devices"):
            enable()
    with pytest.raises(ValueError, match="Memory pools are only supported on CUDA devices"):
        wp.set_mempool_release_threshold("cpu", 0.5)
    wp.set_mempool_enabled("cpu", False)
    with wp.ScopedMempool("cpu", False), wp.ScopedMempool(None, enable=False):
        assert not wp.is_mempool_enabled("cpu")


def test_the_cpu_has_no_peers() -> None:
    for name in ("mempool_access", "peer_access"):
        assert not getattr(wp, f"is_{name}_supported")("cpu", "cpu")
        assert not getattr(wp, f"is_{name}_enabled")("cpu", "cpu")
        getattr(wp, f"set_{name}_enabled")("cpu", "cpu", False)
        with pytest.raises(ValueError, match="between two CUDA devices"):
            getattr(wp, f"set_{name}_enabled")("cpu", "cpu", True)
    with wp.ScopedPeerAccess("cpu", "cpu", False), wp.ScopedMempoolAccess("cpu", "cpu", False):
        pass
    with wp.ScopedCudaProfiler() as profiler:
        assert profiler.device == "cpu"


def test_the_cpu_answers_what_a_gpu_answers() -> None:
    cpu = dk.get_device("cpu")
    assert (cpu.sm_count, cpu.max_shared_memory_per_block, cpu.uuid, cpu.pci_bus_id) == (0, 0, None, None)
    assert (cpu.is_primary, cpu.is_mempool_supported, cpu.is_mempool_enabled) == (False, False, False)
    if sys.platform == "linux":
        assert 0 < cpu.free_memory <= cpu.total_memory


# -- GPUs --------------------------------------------------------------------------------------------------------------


def test_sizes_of_a_pool(driver: FakeDriver) -> None:
    gpu = wp.get_device("cuda:0")
    assert gpu.is_mempool_enabled
    assert gpu.is_primary
    before = wp.get_mempool_used_mem_current(gpu)
    held = wp.zeros(1000, dtype=float, device=gpu)
    assert wp.get_mempool_used_mem_current("cuda:0") == wp.get_mempool_used_mem_high(gpu) == before + 4000
    del held
    assert wp.get_mempool_used_mem_current(gpu) == before
    assert wp.get_mempool_used_mem_high(gpu) == before + 4000
    for threshold, kept in ((0.5, 1 << 29), (1.0, 1 << 30), (1, 1 << 30), (4096, 4096), (-3, 0), (0, 0)):
        wp.set_mempool_release_threshold(gpu, threshold)
        assert wp.get_mempool_release_threshold(gpu) == kept
    assert ("pool_keeps", (0, 4096)) in driver.calls


def test_a_gpu_keeps_its_pool(driver: FakeDriver) -> None:
    with wp.ScopedMempool("cuda:0", enable=False):
        assert wp.is_mempool_enabled("cuda:0")
        x = wp.ones(3, dtype=float, device="cuda:0")
    np.testing.assert_array_equal(x.numpy(), 1.0)


def test_pools_are_reached_with_peer_access(two_devices: FakeDriver) -> None:
    x, here = wp.zeros(3, dtype=float, device="cuda:0"), wp.zeros(3, dtype=float)
    assert wp.is_mempool_access_supported("cuda:0", "cuda:1")
    assert not wp.is_mempool_access_enabled("cuda:0", "cuda:1")
    assert [wp.can_access(d, x) for d in ("cpu", "cuda:0", "cuda:1")] == [False, True, False]
    assert [wp.can_access(d, here) for d in ("cpu", "cuda:0")] == [True, False]
    assert [wp.can_access(d, wp.zeros(3, dtype=float, pinned=True)) for d in ("cpu", "cuda:1")] == [True, True]
    wp.set_mempool_access_enabled("cuda:0", "cuda:1", False)
    with wp.ScopedMempoolAccess("cuda:0", "cuda:1", True):
        assert wp.is_mempool_access_enabled("cuda:0", "cuda:1")
    assert not wp.is_mempool_access_enabled("cuda:1", "cuda:0")
    assert wp.can_access("cuda:1", x)
    with pytest.raises(ValueError, match="not taken back"):
        wp.set_mempool_access_enabled("cuda:0", "cuda:1", False)
    with pytest.raises(TypeError, match="can_access takes an array, not int"):
        wp.can_access("cuda:0", 3)


def test_an_indexed_array_is_reached_with_its_indices(driver: FakeDriver) -> None:
    x = wp.zeros(3, dtype=float, device="cuda:0")
    part = wp.indexedarray(x, [wp.array([2, 0], dtype=int, device="cuda:0")])
    assert wp.can_access("cuda:0", part)
    assert not wp.can_access("cpu", part)


def test_a_profiler_collects_in_a_block() -> None:
    with fake_cuda() as driver:
        with wp.ScopedCudaProfiler("cuda:0"):
            assert ("profile", (True,)) in driver.calls
            assert ("profile", (False,)) not in driver.calls
        assert ("profile", (False,)) in driver.calls


# -- the rest ----------------------------------------------------------------------------------------------------------


def test_diagnostics(capsys: pytest.CaptureFixture[str]) -> None:
    with fake_cuda():
        info = wp.print_diagnostics()
    printed = capsys.readouterr().out
    assert info["numpy"] == np.__version__
    assert info["warp_python"] == wp.__version__
    assert [device["alias"] for device in info["devices"]] == ["cpu", "cuda:0"]
    assert info["devices"][1]["mempool_enabled"]
    assert info["nanovdb"] is None
    for text in ("NumPy:", np.__version__, "fake GPU 0", "Devices", f"ISA features:       {len(info['cpu_features'])}"):
        assert text in printed


@wp.kernel
def moved(a: wp.array[float], b: wp.array[float]):
    b[wp.tid()] = a[wp.tid()]


@pytest.mark.parametrize("verbose", [True, False])
@pytest.mark.parametrize("device", ["cpu", "cuda:0"])
def test_a_graph_as_text(tmp_path: Path, device: str, verbose: bool) -> None:
    with fake_cuda():
        a, b, c, d = (wp.zeros(3, dtype=float, device=device) for _ in range(4))
        with wp.ScopedCapture(device) as capture:
            wp.launch(moved, 3, inputs=[a, b], device=device)
            wp.launch(moved, 3, inputs=[a, c], device=device)
            wp.launch(moved, 3, inputs=[b, d], device=device)
            wp.copy(d, c)
        wp.capture_debug_dot_print(capture.graph, str(tmp_path / "graph.dot"), verbose)
    text = (tmp_path / "graph.dot").read_text(encoding="utf-8")
    assert text.startswith("digraph")
    assert re.findall(r"(\d) -> step(\d)", text) == [("0", "2"), ("1", "3"), ("2", "3")]
    assert ("reads" in text) is verbose
    assert text.count("moved") == 3


def test_levels_of_messages_in_a_block() -> None:
    before = wp.config.log_level
    with wp.ScopedLogLevel(wp.LOG_ERROR) as scope:
        assert scope.log_level == wp.config.log_level == wp.LOG_ERROR
    assert wp.config.log_level == before
    with pytest.raises(ZeroDivisionError), wp.ScopedLogLevel(wp.LOG_DEBUG):
        _ = 1 // 0
    assert wp.config.log_level == before


@pytest.mark.parametrize("of", [list, tuple, np.array, lambda t: wp.transform(*t)])
def test_a_transform_of_seven_numbers(of: Any) -> None:
    found = wp.transform_expand(of([1.0, 2.0, 3.0, 0.0, 0.6, 0.0, 0.8]))
    assert found == wp.transform(wp.vec3(1.0, 2.0, 3.0), wp.quat(0.0, 0.6, 0.0, 0.8))
    assert type(found) is wp.transform
    assert wp.utils.transform_expand is wp.transform_expand


def test_architectures_to_compile_for() -> None:
    found = wp.get_cuda_supported_archs()
    assert found == sorted(found)
    assert {75, 90, 120} <= set(found)
