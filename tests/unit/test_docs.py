"""The programs in README and docs run and print what is shown beside them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import require

ROOT = Path(__file__).parents[2]
SNIPPETS = ROOT / "docs" / "snippets"


def run_file(path: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run([sys.executable, path], capture_output=True, text=True, env=environment, check=False)


@pytest.mark.parametrize("snippet", sorted(SNIPPETS.glob("*.py")), ids=lambda path: path.stem)
def test_snippet_prints_what_the_docs_show(snippet):
    done = run_file(snippet)
    shown = snippet.with_suffix(".txt").read_text(encoding="utf-8")
    assert done.returncode == 0, done.stderr
    assert done.stdout.rstrip() == shown.rstrip()


README_PROGRAMS = re.findall(
    r"```python\n(.+?)```\n+prints\n+```text\n(.+?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL
)


def check_readme_program(program: str, shown: str, path: Path) -> None:
    path.write_text(program, encoding="utf-8")
    done = run_file(path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.rstrip() == shown.rstrip()


def test_readme_example_prints_what_readme_shows(tmp_path):
    program, shown = README_PROGRAMS[0]
    check_readme_program(program, shown, tmp_path / "example.py")


def test_the_frameworks_example_goes_on_from_the_first(tmp_path):
    require("torch", "jax", "cuda.bindings", "nvidia.cu13")
    (first, before), (second, after) = README_PROGRAMS
    check_readme_program(f"{first}\n{second}", before + after, tmp_path / "example.py")


def test_generated_texts_are_current():
    command = [sys.executable, ROOT / "tools" / "docs_output.py", "--check"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, f"{done.stdout}{done.stderr}\nrun: python tools/docs_output.py"
