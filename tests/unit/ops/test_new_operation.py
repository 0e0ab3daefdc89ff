"""A new operation is four places, as the documentation has them: a copy of the package gets one, and it works."""

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
RECIPES = (ROOT / "docs" / "recipes_operations.rst").read_text(encoding="utf-8")


def recipe(start: str) -> str:
    """The code of a recipe in the documentation."""
    found = re.search(rf"^   {re.escape(start)}.*\n(    .*\n|   \),\n)*", RECIPES, re.MULTILINE)
    assert found is not None
    return textwrap.dedent(found[0])


def insert(path: Path, behind: str, text: str) -> None:
    source = path.read_text(encoding="utf-8")
    assert source.count(behind) == 1
    path.write_text(source.replace(behind, behind + text), encoding="utf-8")


def test_four_places_are_enough(tmp_path: Path) -> None:
    require("cuda.pathfinder")
    package = tmp_path / "diffkern"
    shutil.copytree(ROOT / "diffkern", package)
    insert(package / "ir/ops/composite.py", "\nROWS: Final = (\n", f"    {recipe('_built_in(')}")
    rules = package / "ad/rules/composite.py"
    insert(rules, "Cotangents = Sequence[Value | None]\n", f"\n\n{recipe('def _flip')}")
    insert(rules, "COMPOSITE_RULES: dict[str, Rule] = {\n", '    "flip": _flip,\n')
    lowering = package / "lower/composites.py"
    lowering.write_text(
        lowering.read_text(encoding="utf-8").replace(
            "_RULES: Mapping[str, Rule] = {\n",
            f'{recipe("def _expand_flip")}\n\n_RULES: Mapping[str, Rule] = {{\n    "flip": _expand_flip,\n',
        ),
        encoding="utf-8",
    )
    insert(
        package / "frontend/builtins/library_vector.py",
        "TABLE: Final[Mapping[str, tuple[int | None, Handler]]] = {\n",
        "    " + recipe('"flip":'),
    )
    where = os.pathsep.join(map(str, (tmp_path, ROOT / "tests", ROOT / "tools", ROOT / "docs" / "_ext")))
    done = subprocess.run(
        [sys.executable, str(Path(__file__).parent / "four_places.py")],
        env={**os.environ, "PYTHONPATH": where, "NUMBA_ENABLE_CUDASIM": "1", "DIFFKERN_CACHE_DIR": str(tmp_path)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
