"""A sample of Warp's own unit tests, unedited, with ``diffkern.warp`` in the place of ``warp``.

``sample.txt`` lists tests that pass, by module; ``tools/warp_tests.py`` runs all of them.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections import defaultdict
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


def _tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("warp_tests", ROOT / "tools" / "warp_tests.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


tool = _tool()

if importlib.util.find_spec("warp") is None and os.environ.get("DIFFKERN_REQUIRE_ALL") != "1":
    pytest.skip("warp-lang is not installed", allow_module_level=True)

SAMPLE: dict[str, list[str]] = defaultdict(list)
for test in (Path(__file__).parent / "warp" / "sample.txt").read_text(encoding="utf-8").split():
    SAMPLE[".".join(test.split(".")[:-2])].append(test)


@pytest.mark.slow
@pytest.mark.parametrize("module", sorted(SAMPLE))
def test_they_pass(module: str) -> None:
    results = tool.in_processes(module, "diffkern", SAMPLE[module], 120.0)
    failed = {test: tool.outcome(results, module, test) for test in SAMPLE[module]}
    failed = {test: found for test, found in failed.items() if found["outcome"] != "passed"}
    assert not failed, "\n\n".join(f"{test}\n{found.get('trace') or found}" for test, found in failed.items())


def test_the_sample_is_large_enough_and_of_tests_that_pass_under_warp() -> None:
    tests = {test for of_module in SAMPLE.values() for test in of_module}
    assert len(tests) >= 400
    assert tests <= set(tool.passing())
