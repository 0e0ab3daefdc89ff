"""What ``import diffkern`` gives, and what it must not load."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import diffkern

ROOT = Path(__file__).parents[2]


def run_python(code: str) -> str:
    """Run code in a fresh interpreter and return what it prints."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_import_loads_no_compiler_and_no_framework():
    loaded = run_python("import sys, diffkern; print(*{name.partition('.')[0] for name in sys.modules})").split()
    heavy = {"numba", "llvmlite", "sympy", "scipy", "matplotlib", "jax", "torch", "cuda", "numba_cuda", "hypothesis"}
    assert heavy.isdisjoint(loaded)


def test_names_in_all_exist_and_are_sorted_out():
    assert len(set(diffkern.__all__)) == len(diffkern.__all__)
    missing = [name for name in diffkern.__all__ if not hasattr(diffkern, name)]
    assert not missing


def test_public_callables_have_docstrings():
    undocumented = [
        name
        for name in diffkern.__all__
        if callable(value := getattr(diffkern, name)) and not (value.__doc__ or "").strip()
    ]
    assert not undocumented


def test_version_is_one():
    assert diffkern.__version__ == run_python("from diffkern._version import __version__; print(__version__)")


@pytest.mark.parametrize("readme_marker", ["demo command", "test command"])
def test_readme_commands_can_be_extracted(readme_marker):
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    found = re.search(rf"<!-- {readme_marker} -->\n```sh\n(.+?)\n```", text, re.DOTALL)
    assert found is not None
    assert re.match(r"python3 -m venv \.venv && (\\\n\()?\.venv/bin/pip install -q ", found[1])
