"""The programs in README and docs run and print what is shown beside them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

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


def test_readme_example_prints_what_readme_shows(tmp_path):
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    found = re.search(r"```python\n(.+?)```\n+prints\n+```text\n(.+?)```", text, re.DOTALL)
    assert found is not None
    program = tmp_path / "example.py"
    program.write_text(found[1], encoding="utf-8")
    done = run_file(program)
    assert done.returncode == 0, done.stderr
    assert done.stdout.rstrip() == found[2].rstrip()


def test_generated_texts_are_current():
    command = [sys.executable, ROOT / "tools" / "docs_output.py", "--check"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, f"{done.stdout}{done.stderr}\nrun: python tools/docs_output.py"
