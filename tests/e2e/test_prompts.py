"""Kernels that are typed at a prompt, in processes of their own: Python's, ``python -c``, and IPython's."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from conftest import require

KERNEL = """
import diffkern as dk
@dk.kernel
def double(x: dk.array(dtype=float)):
    i = dk.tid()
    x[i] = 2.0 * x[i]

x = dk.ones(3)
dk.launch(double, 3, [x])
print("values", x)
"""
KEPT = sys.version_info >= (3, 13)


def run(*arguments, typed=""):
    return subprocess.run(
        [sys.executable, *arguments], input=typed, capture_output=True, text=True, timeout=180, check=False,
        env={**os.environ, "PYTHON_BASIC_REPL": "1"},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "typed", "said"),
    [
        (("-i",), KERNEL, "<stdin>:1: the source of double cannot be found"),
        (("-c", KERNEL), "", "<string>:3: the source of double cannot be found"),
    ],
    ids=["prompt", "command"],
)
def test_python_keeps_the_text_or_the_message_says_what_to_do(arguments, typed, said):
    done = run(*arguments, typed=typed)
    if KEPT:
        assert "values [2. 2. 2.]" in done.stdout, done.stderr
        return
    assert "values [2. 2. 2.]" not in done.stdout
    assert said in done.stderr
    assert "from version 3.13 on: until then " in done.stderr


@pytest.mark.parametrize("cells", [[KERNEL], KERNEL.split("\n\n"), KERNEL.replace("dk\n", "dk\n\n").split("\n\n")])
def test_at_the_prompt_of_ipython(tmp_path, cells):
    require("IPython")
    program = tmp_path / "session.py"
    program.write_text(
        "from IPython.core.interactiveshell import InteractiveShell\n"
        f"shell = InteractiveShell.instance()\nfor cell in {cells!r}:\n"
        "    shell.run_cell(cell, store_history=True).raise_error()\n"
    )
    done = run(program)
    assert "values [2. 2. 2.]" in done.stdout, done.stderr
