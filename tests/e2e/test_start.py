"""A process whose programs are all in the cache parses no text and lowers no kernel, whatever the kernels look like."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import diffkern

PACKAGES = str(Path(diffkern.__file__).parents[1])

MODULE = """
import enum

import diffkern as dk

SCALE = 2.0


class Kind(enum.IntEnum):
    LOW = 3
    HIGH = 5


@dk.func
def weight(v: float):
    for w in (0.5, 1.5):
        v += w
    return v


def make(kinds, add):
    @dk.kernel
    def k(x: dk.array(dtype=float), y: dk.array(dtype=float)):
        i = dk.tid()
        s = SCALE * x[i]
        for j in range(dk.static(len(kinds))):
            s += float(dk.static(int(kinds[j][0]))) * dk.static(
                # several lines, and é in front of it
                add * 0.5 ** (1 + 1)
            )
            if dk.static(kinds[j][1] == Kind.HIGH):
                s += weight(x[i])
        y[i] = s

    return k
"""

PROGRAM = """
import ast, json, sys

import diffkern as dk

parsed, parse = [], ast.parse

def counted(text, *args, **kwargs):
    parsed.append(text.strip())
    return parse(text, *args, **kwargs)

ast.parse = counted
import module
from module import Kind, make

values = []
for kinds, add in [([(Kind.LOW, Kind.HIGH)], 4.0), ([(Kind.LOW, Kind.LOW), (Kind.HIGH, Kind.HIGH)], 8.0)]:
    x, y = dk.ones(1), dk.zeros(1)
    make(kinds, add)[1](x, y)
    values += y.numpy().tolist()
whole = [text for text in parsed if not text.startswith("(dk.static(")]
lowering = sorted(name for name in sys.modules if name in ("diffkern.frontend.statements.stmt", "numba"))
print(json.dumps({"values": values, "parsed": whole, "loaded": lowering}))
"""
VALUES = [2.0 + 3 * 1.0 + 3.0, 2.0 + (3 + 5) * 2.0 + 3.0]


@pytest.fixture
def place(tmp_path):
    (tmp_path / "module.py").write_text(MODULE)
    (tmp_path / "program.py").write_text(PROGRAM)
    return tmp_path


def run(place, **environment):
    env = {**os.environ, "DIFFKERN_CACHE_DIR": str(place / "cache"), "PYTHONPATH": PACKAGES, "DIFFKERN_VERBOSE": "1"}
    command = [sys.executable, "-B", "-W", "error", str(place / "program.py")]
    done = subprocess.run(command, env={**env, **environment}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return {**json.loads(done.stdout), "compiled": done.stderr.count("compiled")}


def test_a_second_process_parses_and_lowers_nothing(place):
    first, second = run(place), run(place, PYTHONHASHSEED="7")
    assert first["values"] == second["values"] == VALUES
    assert first["compiled"] == 2
    assert first["parsed"]
    assert second == {"values": VALUES, "parsed": [], "loaded": [], "compiled": 0}


def edit(place, old, new):
    text = (place / "module.py").read_text()
    assert old in text
    (place / "module.py").write_text(text.replace(old, new))


EDITS = [  # one after the other
    ("# several lines", "# some lines", VALUES, 0),
    ("SCALE = 2.0\n", "\n\nSCALE = 3.0\n", [9.0, 22.0], 2),
    ("(1 + 1)", "(0 + 1)", [12.0, 38.0], 2),
    ("class Kind(enum.IntEnum)", "class Kind(int, enum.Enum)", [12.0, 38.0], 2),
]
MORE_EDITS = [*EDITS, ("(0.5, 1.5)", "(0.5, 2.5)", [13.0, 39.0], 2), ("LOW = 3", "LOW = 4", [15.0, 43.0], 2)]


@pytest.mark.parametrize("edits", [EDITS, pytest.param(MORE_EDITS, marks=pytest.mark.full)], ids=["some", "more"])
def test_edits_count(place, edits):
    run(place)
    for old, new, values, compiled in edits:
        edit(place, old, new)
        found = run(place)
        assert found["values"] == values, new
        assert found["compiled"] == compiled, new


@pytest.mark.full
def test_another_meaning_of_a_called_name_counts(place):
    """The text is the same, but what it calls stands for ``static`` in one process, and for a func in the other."""
    edit(place, "import diffkern as dk\n", "import diffkern as dk\nimport meanings\n")
    edit(place, "SCALE * x[i]", "meanings.settled(SCALE) * x[i]")
    (place / "meanings.py").write_text("from diffkern import static as settled\n")
    assert run(place)["values"] == VALUES
    own = "import diffkern as dk\n\n@dk.func\ndef settled(v: float):\n    return 10.0 * v\n"
    (place / "meanings.py").write_text(own)
    for compiled in (2, 0):
        found = run(place)
        assert found["values"] == [value + 18.0 for value in VALUES]
        assert found["compiled"] == compiled
