"""A new operation is five places, as the documentation has them: a copy of the package gets one, and it works."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

from conftest import require

ROOT = Path(__file__).parents[3]
RECIPES = (ROOT / "docs" / "internals.rst").read_text(encoding="utf-8")


def recipe(start: str) -> str:
    """The code of a recipe in the documentation."""
    found = re.search(rf"^   {re.escape(start)}.*\n(    .*\n)*", RECIPES, re.MULTILINE)
    assert found is not None
    return textwrap.dedent(found[0])


PLACES = (
    ("ops/composite.py", "\nROWS: Final = (\n", "    {0}", "_built_in("),
    ("ad/rules/composite.py", "\nCOMPOSITE_RULES: dict[str, Rule] = {\n", '    "flip": _flip,\n', "def _flip"),
    ("lower/composites.py", "\n_RULES: Mapping[str, Rule] = {\n", '    "flip": _expand_flip,\n', "def _expand_flip"),
    (
        "frontend/library_vector.py",
        "\nTABLE: Final[Mapping[str, tuple[int | None, Handler]]] = {\n",
        "    {0}",
        '"flip": (1',
    ),
    ("lang/reference.py", '        "transpose": Entry(', "{0}", '"flip": Entry('),
)
"""Of each place the file, the table there, the line in it, and how the recipe begins in the documentation."""


def test_five_places_are_enough(tmp_path: Path) -> None:
    require("cuda.pathfinder")
    package = tmp_path / "diffkern"
    shutil.copytree(ROOT / "diffkern", package)
    for name, table, line, start in PLACES:
        path, code = package / name, recipe(start)
        source = path.read_text(encoding="utf-8")
        assert source.count(table) == 1
        function = f"\n{code}\n" if start.startswith("def") else ""
        entry = line.replace("{0}", code)
        made = entry + table if table.startswith(" ") else function + table + entry
        path.write_text(source.replace(table, made), encoding="utf-8")
    where = os.pathsep.join(map(str, (tmp_path, ROOT / "tests", ROOT / "tools")))
    done = subprocess.run(
        [sys.executable, str(Path(__file__).parent / "new_operation.py")],
        env={**os.environ, "PYTHONPATH": where, "NUMBA_ENABLE_CUDASIM": "1", "DIFFKERN_CACHE_DIR": str(tmp_path)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
