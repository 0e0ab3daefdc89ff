"""Devices: names, the current one, and what is said where there is none."""

from __future__ import annotations

import pytest
from support.fake_driver.driver import fake_cuda

import diffkern as dk
from diffkern.runtime.cuda import devices
from diffkern.runtime.native.slow_path import slow_path_flags


@pytest.fixture
def no_driver():
    before = devices.use_driver(None)
    yield
    devices.use_driver(before)


def test_without_a_driver_everything_is_on_the_cpu(no_driver):
    assert dk.get_cuda_devices() == []
    assert dk.get_cuda_device_count() == 0
    assert not dk.is_cuda_available()
    assert dk.get_preferred_device() == "cpu"
    assert [str(d) for d in dk.get_devices()] == ["cpu"]
    assert dk.zeros(3).device == "cpu"
    with pytest.raises(ValueError, match="no device 'cuda:0': the driver was taken away"):
        dk.get_device("cuda:0")
    with pytest.raises(ValueError, match="no device 'cuda:0'"):
        dk.zeros(3, device="cuda")
    with pytest.raises(ValueError, match="no device 'cuda:0'"):
        dk.array([1.0], dtype=float, pinned=True)


def test_names(two_devices):
    first, second = dk.get_cuda_devices()
    assert dk.get_device("cuda:1") is second
    assert dk.get_device("cuda") is first
    assert dk.get_device(second) is second
    assert dk.get_device() == "cpu"
    assert [str(d) for d in dk.get_devices()] == ["cpu", "cuda:0", "cuda:1"]
    assert first == "cuda:0"
    assert first != second
    assert first != dk.get_device("cpu")
    assert dk.get_cuda_device(1) is second
    assert dk.get_preferred_device() is first
    for wrong in ("gpu", "cuda:x", "cuda:7", "cuda:-1"):
        with pytest.raises(ValueError, match="no device"):
            dk.get_device(wrong)
    with pytest.raises(ValueError, match=r"a device is a name .* not 3"):
        dk.get_device(3)


def test_attributes(driver):
    gpu = dk.get_device("cuda:0")
    assert (gpu.is_cpu, gpu.is_cuda, gpu.ordinal, gpu.arch, gpu.sm_count) == (False, True, 0, 90, 4)
    assert gpu.name == "fake GPU 0"
    assert gpu.total_memory == 1 << 30
    before = gpu.free_memory
    held = dk.zeros(1000, device=gpu)
    assert before - gpu.free_memory == held.size * 4
    assert gpu.is_uva
    assert not gpu.is_capturing
    assert gpu.uuid.startswith("GPU-")
    assert gpu.pci_bus_id == "00000000:00:00"
    assert gpu.null_stream.is_default
    assert gpu.stream is gpu.null_stream
    assert repr(gpu) == "dk.Device('cuda:0', 'fake GPU 0')"


def test_nothing_is_asked_of_the_driver_before_a_device_is_used(driver):
    dk.zeros(4)
    dk.get_device("cuda:0")
    assert driver.calls == []


def test_current_device(two_devices):
    with dk.ScopedDevice("cuda:1") as device:
        assert dk.get_device() is device
        assert dk.zeros(2).device == "cuda:1"
        assert dk.array([1.0], dtype=float).device == "cuda:1"
        assert dk.zeros(2, device="cpu").device == "cpu"
        assert dk.get_stream() is device.null_stream
        with dk.ScopedDevice("cpu"):
            assert dk.zeros(2).device == "cpu"
    dk.set_device("cuda:0")
    assert dk.full(3, 2.0).device == "cuda:0"
    assert dk.get_preferred_device() == "cuda:0"
    dk.set_device("cpu")
    assert dk.zeros(1).device == "cpu"


def test_peers(two_devices):
    assert dk.is_peer_access_supported("cuda:0", "cuda:1")
    assert not dk.is_peer_access_supported("cuda:0", "cpu")
    assert not dk.is_peer_access_enabled("cuda:0", "cuda:1")
    dk.set_peer_access_enabled("cuda:0", "cuda:1")
    assert dk.is_peer_access_enabled("cuda:0", "cuda:1")
    assert not dk.is_peer_access_enabled("cuda:1", "cuda:0")
    assert ("enable_peer", (1, 0)) in two_devices.calls
    with pytest.raises(ValueError, match="not taken back"):
        dk.set_peer_access_enabled("cuda:0", "cuda:1", False)
    with pytest.raises(ValueError, match="two CUDA devices"):
        dk.set_peer_access_enabled("cpu", "cuda:1")


def test_arrays_outlive_their_driver(driver):
    held = dk.zeros(5, device="cuda:0")
    gone = held.device
    devices.use_driver(None)
    count = len(driver.calls)
    del held
    assert len(driver.calls) == count
    with pytest.raises(ValueError, match="no longer in use"):
        dk.zeros(1, device=gone)


def test_reason_is_looked_up_once(monkeypatch):
    looked = []
    monkeypatch.setattr(devices, "find", lambda: looked.append(1) or "there is none today")
    monkeypatch.setattr(devices, "_looked", False)
    monkeypatch.setattr(devices, "_driver", None)
    monkeypatch.setattr(devices, "_reason", "")
    assert devices.active() is None
    assert devices.why_not() == "there is none today"
    assert looked == [1]


def test_attention_is_even_again():
    assert slow_path_flags.word[0] == 0
    with fake_cuda(devices=2):
        with dk.ScopedDevice("cuda:0"), dk.ScopedStream(dk.Stream("cuda:0")):
            assert slow_path_flags.word[0] != 0
        assert slow_path_flags.word[0] == 0
        dk.set_device("cuda:1")
        dk.set_device("cuda:0")
        dk.set_stream(dk.Stream("cuda:0"))
        dk.set_stream(dk.Stream("cuda:0"))
    assert slow_path_flags.word[0] == 0
