"""A new operation on tiles is four files, as the documentation says: a copy of the package gets one, and it works."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).parents[3]
DOCS = (ROOT / "docs" / "recipes_operations.rst").read_text(encoding="utf-8")
RECIPE = DOCS[DOCS.index("**An operation on tiles**") : DOCS.index("**A pass**")]
PARTS = [textwrap.dedent(part) for part in re.findall(r"code-block:: \w+\n\n((?:(?:   .*)?\n)+)", RECIPE)]


def insert(path: Path, behind: str, text: str) -> None:
    source = path.read_text(encoding="utf-8")
    assert source.count(behind) == 1, behind
    path.write_text(source.replace(behind, behind + text), encoding="utf-8")


def test_four_files_are_enough(tmp_path: Path) -> None:
    package = tmp_path / "diffkern"
    shutil.copytree(ROOT / "diffkern", package)
    row, function, rule, lowering = PARTS
    insert(package / "ir/ops/tile.py", "\nROWS = (\n", textwrap.indent(row, "    "))
    insert(package / "ir/ops/tile_functions.py", "    return (\n", textwrap.indent(function, "        "))
    insert(package / "ad/rules/tile.py", "Cotangents = Sequence[Value | None]\n", f"\n\n{rule}")
    insert(package / "ad/rules/tile.py", '    "tile_permute": _permute,\n', '    "tile_flip": _flip_tile,\n')
    insert(package / "lower/tiles/shapes.py", '"checked"]\n', f"\n\n{lowering}")
    insert(package / "lower/tiles/shapes.py", '    "tile_permute": _permute,\n', '    "tile_flip": _flip_tile,\n')
    done = subprocess.run(
        [sys.executable, str(Path(__file__).parent / "flipped_tiles.py")],
        env={**os.environ, "PYTHONPATH": str(tmp_path), "DIFFKERN_CACHE_DIR": str(tmp_path)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
