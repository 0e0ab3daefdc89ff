"""A sample of Warp's examples, unedited: the same arrays under Warp and with ``diffkern.warp`` in its place.

``tools/warp_examples.py`` runs all of them.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


def _tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("warp_examples", ROOT / "tools" / "warp_examples.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


tool = _tool()

if importlib.util.find_spec("warp") is None and os.environ.get("DIFFKERN_REQUIRE_ALL") != "1":
    pytest.skip("warp-lang is not installed", allow_module_level=True)

SAMPLE = ("raymarch", "work_queue", "spin_lock", "tile_nbody", "graph_capture")


@pytest.mark.slow
@pytest.mark.parametrize("name", SAMPLE)
def test_the_same_arrays(name: str) -> None:
    outcome = tool.compare(next(e for e in tool.EXAMPLES if e.name == name))
    assert not outcome.died, outcome.died
    assert outcome.is_equal, (outcome.missing, outcome.arrays)


def test_arrays_that_differ_are_told() -> None:
    np = tool.np
    one = np.array([1.0, np.nan, 2.0, np.inf])
    assert tool.difference(one, one.copy(), unordered=False) == tool.Difference(0.0, 0, 4)
    assert tool.difference(one, one[::-1].copy(), unordered=True).beyond == 0
    assert tool.difference(one, np.array([1.0, 0.0, 2.0, 1.0]), unordered=False) == tool.Difference(np.inf, 2, 4)
    assert tool.difference(np.float32([0, 2e-4]), np.float32([0, 0]), unordered=False).beyond == 1
    assert tool.difference(np.float32([1]), np.float64([1]), unordered=False).worst is None
