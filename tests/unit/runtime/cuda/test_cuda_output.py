"""What kernels print on a GPU: into a buffer of the device, read after the launch."""

from __future__ import annotations

import numpy as np
import pytest
from support.fake_driver.driver import FakeDriver

import diffkern as dk


@dk.kernel
def shows(x: dk.array(dtype=float)):  # type: ignore[valid-type]
    i = dk.tid()
    for k in range(2):
        print("thread", i, k, x[i])
    x[i] = x[i] + 1.0


@dk.kernel(mode="debug")
def checks(x: dk.array(dtype=float)):  # type: ignore[valid-type]
    i = dk.tid()
    dk.printf("%g\n", x[i])
    assert x[i] < 2.0, "too large"


def test_texts_come_in_the_order_of_the_threads(driver: FakeDriver, capsys: pytest.CaptureFixture[str]) -> None:
    x = dk.array(np.arange(3.0, dtype=np.float32), device="cuda:0")
    dk.launch(shows, 3, [x])
    assert capsys.readouterr().out.splitlines() == [f"thread {i} {k} {float(i)}" for i in range(3) for k in range(2)]
    record = dk.launch(shows, 1, [x], record_cmd=True)
    assert record is not None
    record.launch()
    assert capsys.readouterr().out == "thread 0 0 1.0\nthread 0 1 1.0\n"


def test_what_finds_no_room_is_counted(
    driver: FakeDriver, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = dk.config.output_bytes
    dk.config.output_bytes = 5 * 8
    try:
        dk.launch(shows, 3, [dk.zeros(3, dtype=float, device="cuda:0")])
    finally:
        dk.config.output_bytes = before
    out = capsys.readouterr().out.splitlines()
    assert len(out) == 2
    assert "5 texts printed by" in out[1]


def test_debug_programs_print_and_assert(driver: FakeDriver, capsys: pytest.CaptureFixture[str]) -> None:
    x = dk.array(np.arange(3.0, dtype=np.float32), device="cuda:0")
    with pytest.raises(dk.KernelRuntimeError, match="thread 2: the assertion fails: too large"):
        dk.launch(checks, 3, [x])
    assert capsys.readouterr().out == "0\n1\n2\n"


def test_a_capture_of_what_prints_is_refused(driver: FakeDriver) -> None:
    x = dk.zeros(3, dtype=float, device="cuda:0")
    with pytest.raises(dk.LaunchError, match="prints"), dk.ScopedCapture("cuda:0"):
        dk.launch(shows, 3, [x])
