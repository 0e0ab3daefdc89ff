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


TERMINAL = """
import os, pty, re, select, sys, time

pid, terminal = pty.fork()
if pid == 0:
    os.environ.update(TERM="xterm")
    os.execv(sys.executable, [sys.executable, "-q"])
shown, lines, end = b"", sys.stdin.read().splitlines() + ["exit()"], time.monotonic() + 150.0
while time.monotonic() < end:
    if select.select([terminal], [], [], 0.5)[0]:
        try:
            shown += os.read(terminal, 65536)
        except OSError:  # it has left
            break
    elif lines and re.search(rb"(>>>|[.][.][.]) [^\\r\\n]*$", shown):  # it is quiet, and waits for a line
        os.write(terminal, lines.pop(0).encode() + b"\\r")
print(re.sub(rb"\\x1b\\[[0-9;?]*[a-zA-Z]|\\x1b[=>]", b"", shown).decode())
"""


@pytest.mark.skipif(not KEPT or sys.platform == "win32", reason="the prompt with an editor came with Python 3.13")
def test_at_the_prompt_with_an_editor():
    environment = {name: value for name, value in os.environ.items() if name != "PYTHON_BASIC_REPL"}
    # It indents as the line before, and takes an empty line as the end of a block.
    typed = KERNEL.strip().replace("    x[i] =", "x[i] =").replace("]\n\n", "]\n\n\n")
    done = subprocess.run(
        [sys.executable, "-c", TERMINAL], input=typed, capture_output=True, text=True, timeout=180, check=False,
        env=environment,
    )  # fmt: skip
    assert "values [2. 2. 2.]" in done.stdout, done.stdout + done.stderr
