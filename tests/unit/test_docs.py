"""The programs in README and docs run and print what is shown beside them."""

from __future__ import annotations

import contextlib
import importlib
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from conftest import require

import diffkern

ROOT = Path(__file__).parents[2]
# What the programs of a page take for granted stands in a file of its own; ``cleanup`` is an ExitStack.
PAGES = Path(__file__).parent / "doc_pages"
BLOCK = re.compile(r"^\.\. code-block:: python\n\n((?:(?: +.*)?\n)+)", re.MULTILINE)
PRINTED = re.compile(r"^\.\. code-block:: text\n   :class: printed\n\n((?:(?: +.*)?\n)+)", re.MULTILINE)
NEEDS = {
    "cuda_compilers": ("cuda.bindings", "nvidia.cu13", "numba_cuda"),
    "cuda_inspect": ("cuda.bindings", "nvidia.cu13"),
    "numba_inside": ("numba_cuda",),
    "jax": ("jax",),
    "torch": ("torch",),
    "tutorial": ("jax", "torch"),
    "door_jax": ("jax",),
    "door_torch": ("torch",),
    "dlpack": ("jax", "torch"),
    "host_arrays": ("matplotlib",),
}
SNIPPETS = ROOT / "docs" / "snippets"


def run_file(path: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run([sys.executable, path], capture_output=True, text=True, env=environment, check=False)


@pytest.mark.parametrize("snippet", sorted(SNIPPETS.glob("*.py")), ids=lambda path: path.stem)
def test_snippet_prints_what_the_docs_show(snippet):
    require(*NEEDS.get(snippet.stem, ()))
    done = run_file(snippet)
    shown = snippet.with_suffix(".txt").read_text(encoding="utf-8")
    assert done.returncode == 0, done.stderr
    assert done.stdout.rstrip() == shown.rstrip()


README_PROGRAMS = re.findall(
    r"```python\n(.+?)```\n+prints\n+```text\n(.+?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL
)


def test_readme_shows_the_programs_of_the_landing_page():
    doors = [SNIPPETS / f"door_{name}.py" for name in ("diffkern", "warp", "cuda")]  # which run, see above
    assert [program for program, _ in README_PROGRAMS] == [path.read_text(encoding="utf-8") for path in doors]
    assert [shown for _, shown in README_PROGRAMS] == [
        path.with_suffix(".txt").read_text(encoding="utf-8") for path in doors
    ]


def test_generated_texts_are_current():
    command = [sys.executable, ROOT / "tools" / "docs_output.py", "--check"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, f"{done.stdout}{done.stderr}\nrun: python tools/docs_output.py"


def has_name(path: str) -> bool:
    owner: object = diffkern
    for count, name in enumerate(names := path.split("."), start=1):
        if not hasattr(owner, name):
            try:
                importlib.import_module(".".join(["diffkern", *names[:count]]))
            except ModuleNotFoundError:
                return False
        owner = getattr(owner, name)
    return True


def test_names_on_the_pages_exist():
    pages = [
        *(ROOT / "docs").glob("*.rst"),
        *(ROOT / "docs" / "reference").glob("*.rst"),
        ROOT / "README.md",
        ROOT / "CHANGELOG.md",
        ROOT / "benchmarks" / "README.md",
    ]
    named = {
        (path.name, name)
        for path in pages
        for name in re.findall(
            r"(?<![\w./])(?:dk|diffkern)\.([a-z]\w*(?:\.[a-z]\w*)*)", path.read_text(encoding="utf-8"), re.I
        )
    }
    assert len(named) > 200
    # Made by recipes; in a module that a function of its name hides; a logger.
    made = {("recipes_operations.rst", name) for name in ("flip", "tile_flip")}
    made |= {("recipes_runtime.rst", name) for name in ("curve_value", "library.curves")}
    others = {*made, ("kernels.rst", "lang.func.Func"), ("tracing.rst", "launches")}
    assert not [(page, name) for page, name in sorted(named - others) if not has_name(name)]


def programs_of(page: Path) -> str:
    return "\n".join(textwrap.dedent(block) for block in BLOCK.findall(page.read_text(encoding="utf-8")))


# Pages with programs of other tools run in test_coming_from.py.
WITH_PROGRAMS = [page for page in sorted((ROOT / "docs").glob("*.rst")) if programs_of(page)]
PAGES_THAT_RUN = [page for page in WITH_PROGRAMS if not page.stem.startswith("coming_from_")]


# PyTorch scripts its own decompositions, and says of itself that it should not.
@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
@pytest.mark.parametrize("page", PAGES_THAT_RUN, ids=lambda page: page.stem)
def test_programs_of_a_page_run(page, tmp_path, monkeypatch, capsys):
    require(*NEEDS.get(page.stem, ()))
    monkeypatch.chdir(tmp_path)
    given, program = tmp_path / f"given_to_{page.stem}.py", tmp_path / f"{page.stem}.py"
    given.write_text((PAGES / program.name).read_text(encoding="utf-8"), encoding="utf-8")
    program.write_text(programs_of(page), encoding="utf-8")
    with contextlib.ExitStack() as cleanup:
        names = {"__name__": f"docs_{page.stem}", "cleanup": cleanup}
        for path in (given, program):
            exec(compile(path.read_text(encoding="utf-8"), path, "exec"), names)
    printed, at = capsys.readouterr().out.replace(f"{tmp_path}{os.sep}", ""), 0
    for block in PRINTED.findall(page.read_text(encoding="utf-8")):
        shown = textwrap.dedent(block).strip("\n")
        at = printed.find(shown, at) + len(shown)
        assert at >= len(shown), f"this is shown, and not printed at this place:\n{shown}\nprinted:\n{printed}"
