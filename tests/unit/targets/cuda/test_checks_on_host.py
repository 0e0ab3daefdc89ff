"""Checks of debug programs as emitted for CUDA, run on the host: the tests of the CPU back end's checks."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from on_host import HostCuda, test_cpu_checks
from test_cpu_checks import *  # noqa: F403

from diffkern.contracts import abi
from diffkern.targets.emit.checks import Checking


def run_for_cuda(fn, args, dims, checking=Checking.MEMORY, stamped=True):
    """Run all threads; returns the record."""
    code = HostCuda(fn, checking=checking)
    position = {p: k for k, p in enumerate(fn.params)}
    stamps = [np.zeros(args[position[p]].size, np.int64) for p in code.module.stamped]
    record = np.zeros(abi.RECORD_STAMPS + len(stamps), np.int64)
    if stamped:
        record[abi.RECORD_STAMPS :] = [s.ctypes.data for s in stamps]
    block = struct.pack(abi.HEADER_FORMAT, record.ctypes.data, *(*dims, 1, 1, 1)[:4], 0, 0)
    for a in args:
        block += struct.pack(f"{1 + 2 * a.ndim}q", a.ctypes.data, *a.shape, *a.strides)
    code.launch(block)
    return record


@pytest.fixture(autouse=True)
def _cuda_in_place_of_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(test_cpu_checks, "run", run_for_cuda)
