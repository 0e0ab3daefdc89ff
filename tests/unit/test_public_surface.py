"""What ``import diffkern`` gives, and what it must not load."""

from __future__ import annotations

import doctest
import enum
import inspect
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import diffkern
from diffkern.lang import COMPOSITES, public_names
from diffkern.lang.intrinsics import INTRINSICS

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


def functions() -> dict[str, Callable[..., object]]:
    """The public functions and classes that are no built-ins or types of the kernel language."""
    language = {*public_names(), *COMPOSITES, *INTRINSICS}
    found = {name: getattr(diffkern, name) for name in diffkern.__all__ if name not in language}
    return {name: value for name, value in found.items() if callable(value) and value.__module__ != "builtins"}


@pytest.mark.parametrize("name", sorted(functions()))
def test_docstrings_name_the_parameters_and_what_comes_back(name):
    function = functions()[name]
    if isinstance(function, type) and (issubclass(function, Exception) or function.__init__ is object.__init__):
        return
    if isinstance(function, type) and issubclass(function, enum.Enum):  # which has members instead
        return
    doc, signature = inspect.getdoc(function) or "", inspect.signature(function)
    if isinstance(function, type) and "Made by" in doc:
        return
    takes = doc.partition("Parameters\n---")[2].partition("\n\n")[0]
    named = [p.name for p in signature.parameters.values() if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    assert [p for p in named if not re.search(rf"(^|, )\**{p}( :|,|$)", takes, re.MULTILINE)] == []
    if signature.parameters and not isinstance(function, type) and signature.return_annotation not in ("None", None):
        assert "Returns\n---" in doc


@pytest.mark.parametrize("name", [name for name, value in functions().items() if ">>> " in (value.__doc__ or "")])
def test_examples_in_docstrings_run(name):
    test = doctest.DocTestFinder(recurse=False).find(functions()[name], name, globs={"dk": diffkern, "np": np})
    assert all(doctest.DocTestRunner().run(t).failed == 0 for t in test)
