"""What type checkers see of diffkern: a good program without a complaint, a wrong one with each error in its line."""

from __future__ import annotations

import ast
import contextlib
import inspect
import json
import re
import runpy
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from conftest import require

import diffkern as dk

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


NAMES = ("sample.py", "warp_sample.py", "cuda_sample.py", "misspelt.py")
Found = dict[str, list[int]]


def marked() -> Found:
    """The lines of each program that say that they are wrong."""
    texts = {name: (HERE / name).read_text(encoding="utf-8").splitlines() for name in NAMES}
    return {name: [n for n, line in enumerate(lines, 1) if line.endswith("# error")] for name, lines in texts.items()}


def by_file(found: Iterable[tuple[str, int]]) -> Found:
    errors: Found = {name: [] for name in NAMES}
    for name, line in sorted(found):
        errors[name].append(line)
    return errors


def run_checker(*arguments: str) -> str:
    """What a type checker prints about the programs; it ends with 0 or 1."""
    command = [sys.executable, "-m", *arguments, *(str(HERE / name) for name in NAMES)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return done.stdout


def test_mypy_finds_what_is_wrong_and_nothing_else():
    printed = run_checker("mypy")  # strict, as pyproject.toml has it, and with what the check of the package has kept
    found = re.findall(r"(\w+\.pyi?):(\d+): error", printed)
    assert by_file((name, int(line)) for name, line in found) == marked(), printed


def test_pyright_finds_what_is_wrong_and_nothing_else():
    require("basedpyright")
    printed = run_checker("basedpyright", "--outputjson", "--pythonpath", sys.executable)
    errors = [d for d in json.loads(printed)["generalDiagnostics"] if d["severity"] == "error"]
    found = ((Path(d["file"]).name, d["range"]["start"]["line"] + 1) for d in errors)
    assert by_file(found) == marked(), printed


def test_the_sample_runs(capsys):
    gradient = runpy.run_path(str(HERE / "sample.py"))["main"]()
    assert gradient.tolist() == [[-5, 0, 0], [5, -10, 0], [0, 10, 0]]
    assert capsys.readouterr().out.startswith("[6.25]")


def test_the_samples_of_the_other_apis_run():
    gradient = runpy.run_path(str(HERE / "warp_sample.py"))["main"]()
    np.testing.assert_allclose(gradient[0], np.array([1.5, 0.5, 0.5]) / np.sqrt(2.75), rtol=1e-6)
    assert runpy.run_path(str(HERE / "cuda_sample.py"))["main"]().tolist() == [140.0]


def test_calls_in_examples_fit_the_stub():
    """The arguments of each call of a built-in that an example shows are such as its declaration takes."""
    tree = ast.parse(Path(dk.__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    # The declarations as functions of Python, without their types.
    space: dict[str, Any] = {"Any": Any}
    for name, node in functions.items():
        exec(f"def {name}({ast.unparse(node.args)}): ...", space)
    checked = 0
    for name, node in functions.items():
        for call in calls_in(ast.get_docstring(node) or ""):
            assert isinstance(call.func, ast.Attribute)
            if call.func.attr in functions:
                given = [0] * len(call.args), dict.fromkeys((k.arg or "" for k in call.keywords), 0)
                inspect.signature(space[call.func.attr]).bind(*given[0], **given[1])
                checked += 1
    assert checked > 400, name


def calls_in(text: str) -> Iterable[ast.Call]:
    """The calls ``dk.name(…)`` of a text that are whole."""
    for found in re.finditer(r"dk\.\w+\(", text):
        depth, rest = 0, text[found.start() :]
        for k, letter in enumerate(rest):
            depth += (letter in "([{") - (letter in ")]}")
            if letter in ")]}" and not depth:
                with contextlib.suppress(SyntaxError):
                    call = ast.parse(rest[: k + 1], mode="eval").body
                    if isinstance(call, ast.Call) and "..." not in rest[: k + 1]:
                        yield call
                break


def test_the_stub_is_fresh():
    command = [sys.executable, "tools/typing_stub.py", "--check"]
    assert subprocess.run(command, cwd=ROOT, check=False).returncode == 0, "run: python tools/typing_stub.py"


def test_the_stub_has_every_public_name_once():
    tree = ast.parse((Path(dk.__file__).with_suffix(".pyi")).read_text(encoding="utf-8"))
    names: list[str] = []
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            names.append(node.name)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names.append(node.target.id)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("diffkern"):
            names.extend(alias.asname or alias.name for alias in node.names)
    assert len(names) == len(set(names))
    assert set(dk.__all__) <= set(names)


@pytest.mark.parametrize(
    ("subscripted", "called"),
    [
        (dk.array[float], dk.array(dtype=float)),
        (dk.array[dk.vec3, 2], dk.array(dtype=dk.vec3, ndim=2)),
        (dk.array[int, Literal[3]], dk.array(dtype=int, ndim=3)),
        (dk.array1d[dk.float64], dk.array(dtype=dk.float64)),
        (dk.array4d[dk.mat33], dk.array4d(dtype=dk.mat33)),
        (dk.array[dk.ANY], dk.array()),
    ],
)
def test_a_subscript_is_the_same_annotation_as_a_call(subscripted, called):
    assert subscripted == called
    assert hash(subscripted) == hash(called)


@pytest.mark.parametrize("axes", [0, 5, "2", Literal[7]])
def test_a_subscript_with_a_wrong_number_of_axes(axes):
    with pytest.raises(TypeError, match="1 to 4 axes"):
        dk.array[float, axes]


def test_a_subscript_of_three_things():
    with pytest.raises(TypeError, match="an element type and a number of axes"):
        dk.array[float, 1, 2]
