"""Checks of debug programs as printed for numba-cuda, in its simulator: the tests of the CPU back end's checks.

The simulator is chosen when numba is imported, so :mod:`test_printed_checks` runs them in a process of their own.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))  # the CPU back end's tests are used here
import test_cpu_checks
from test_cpu_checks import *  # noqa: F403

from diffkern.contracts import abi
from diffkern.printing.checked import CheckedWriter
from diffkern.printing.executor import load_source
from diffkern.printing.python import function_name
from diffkern.targets import target_named
from diffkern.targets.emit.checks import Checking
from diffkern.targets.target import Settings


def run_in_simulator(fn, args, dims, checking=Checking.MEMORY, stamped=True):
    """Run all threads; returns the record."""
    low = target_named("sm_90", "numba").lowered(fn, Settings(checking=checking))
    writer = CheckedWriter(low, arithmetic=checking is Checking.ALL)
    kernel = load_source(writer.module(), function_name(low))
    position = {p: k for k, p in enumerate(low.params)}
    stamps = [np.zeros(args[position[p]].size, np.int64) for p in writer.stamps]
    record = np.zeros(abi.RECORD_STAMPS + len(stamps), np.int64)
    if stamped:
        record[abi.RECORD_STAMPS :] = [s.ctypes.data for s in stamps]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        kernel[2, 3]((*map(int, dims), 1, 1, 1)[:4], record, *args)
    return record


@pytest.fixture(autouse=True)
def _simulator_in_place_of_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(test_cpu_checks, "run", run_in_simulator)
