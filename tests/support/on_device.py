"""Run tests of the CPU on another device: ``DIFFKERN_TEST_DEVICE=cuda:0 pytest -p support.on_device tests/e2e/...``.

Arrays that a test makes without a device are made there, and so its launches run there. It is for tests of values:
what a test says of lanes, threads or memory of the host does not hold elsewhere. ``DIFFKERN_TEST_DRIVER=ptx`` rehearses
it on the driver that executes PTX.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

import pytest

import diffkern as dk


@pytest.fixture(autouse=True)
def on_device() -> Iterator[None]:
    """Make the device the current one."""
    with contextlib.ExitStack() as stack:
        if os.environ.get("DIFFKERN_TEST_DRIVER") == "ptx":
            from .fake_driver.driver import fake_cuda

            stack.enter_context(fake_cuda(run="ptx"))
        stack.enter_context(dk.ScopedDevice(os.environ.get("DIFFKERN_TEST_DEVICE", "cuda:0")))
        yield
