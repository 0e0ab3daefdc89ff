"""The tool that names the tests which a change can reach names those that read the change, and leaves others out."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
EVERYTHING = {str(path.relative_to(ROOT)) for path in (ROOT / "tests").rglob("test_*.py")}


@pytest.fixture(scope="module")
def affected():
    spec = importlib.util.spec_from_file_location("affected", ROOT / "tools" / "affected.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["affected"] = module
    spec.loader.exec_module(module)
    yield lambda *changed: set(module.affected(changed))
    del sys.modules["affected"]


@pytest.mark.parametrize(
    ("changed", "reached", "left_out"),
    [
        # through a public name
        ("diffkern/spatial/hash_grid.py", "tests/e2e/test_hash_grid.py", "tests/grad/test_corpus.py"),
        # through what the kernel class imports
        ("diffkern/ad/loops.py", "tests/grad/test_corpus.py", "tests/unit/cache/test_lock.py"),
        # through an import inside a function
        ("diffkern/interop/jax/ffi_api.py", "tests/interop/jax/test_kernel.py", "tests/grad/test_rules.py"),
        # through a module of the tests that imports another one
        ("tests/grad/kernels_loops.py", "tests/grad/test_corpus.py", "tests/e2e/test_tape.py"),
        ("tests/e2e/test_tape.py", "tests/e2e/test_tape.py", "tests/e2e/test_hash_grid.py"),
        ("docs/cpu.rst", "tests/unit/test_docs.py", "tests/e2e/test_tape.py"),
        # data beside tests
        ("tests/golden/ir/x.txt", "tests/golden/test_ir.py", "tests/e2e/test_tape.py"),
    ],
)
def test_what_a_change_reaches(affected, changed, reached, left_out):
    found = affected(changed)
    assert {reached, left_out} <= EVERYTHING
    assert reached in found
    assert left_out not in found


@pytest.mark.parametrize("changed", ["pyproject.toml", "tests/conftest.py", "something.new"])
def test_what_nobody_knows_reaches_everything(affected, changed):
    assert affected(changed) == EVERYTHING


def test_what_no_test_reads(affected):
    assert affected("CHANGELOG.md") == set()
