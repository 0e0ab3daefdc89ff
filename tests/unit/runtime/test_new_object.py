"""A new object that kernels know by an id is four files, as the documentation says: a copy of the package gets one."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).parents[3]
DOCS = (ROOT / "docs" / "recipes_runtime.rst").read_text(encoding="utf-8")
RECIPE = DOCS[DOCS.index("**An object**") :]
PARTS = [textwrap.dedent(part) for part in re.findall(r"code-block:: \w+\n\n((?:(?:   .*)?\n)+)", RECIPE)]


def insert(path: Path, behind: str, text: str) -> None:
    source = path.read_text(encoding="utf-8")
    assert source.count(behind) == 1, behind
    path.write_text(source.replace(behind, behind + text), encoding="utf-8")


def kinds(folder: Path) -> dict[str, int]:
    """Return the kinds by their names: what functions in the kernel language ask descriptors for."""
    texts = {path: path.read_text(encoding="utf-8") for path in (folder / "library").glob("*.py")}
    named = {name for text in texts.values() for name in re.findall(r"descriptor_of\(\w+, ([A-Z_]+)\)", text)}
    both = "\n".join([*texts.values(), (folder / "lang/queries.py").read_text(encoding="utf-8")])
    found = re.findall(r"^([A-Z_]+): Final = (\d+)$", both, re.MULTILINE)
    return {name: int(number) for name, number in found if name in named}


def test_each_object_has_a_kind_of_its_own() -> None:
    found = kinds(ROOT / "diffkern")
    assert {"BVH", "HASH_GRID", "MESH", "TEXTURE", "VOLUME"} <= found.keys()
    assert len(set(found.values())) == len(found)
    assert set(found.values()) <= set(range(1, 7)), "the recipe of a new object takes 7"


def test_four_files_are_enough(tmp_path: Path) -> None:
    package = tmp_path / "diffkern"
    shutil.copytree(ROOT / "diffkern", package)
    functions, name, host, public = PARTS
    (package / "library/curves.py").write_text(functions, encoding="utf-8")
    library = package / "lang/library.py"
    insert(library, "_MODULES: Final[Mapping[str, str]] = {\n", textwrap.indent(name, "    "))
    insert(library, '(Subject.QUERIES, "', "curves ")
    (package / "spatial/curve.py").write_text(host, encoding="utf-8")
    insert(package / "__init__.py", "_MODULES: Final[Mapping[str, str]] = {\n", textwrap.indent(public, "    "))
    where = os.pathsep.join(map(str, (tmp_path, ROOT / "tools", ROOT / "docs" / "_ext")))
    done = subprocess.run(
        [sys.executable, str(Path(__file__).parent / "curves.py")],
        env={**os.environ, "PYTHONPATH": where, "DIFFKERN_CACHE_DIR": str(tmp_path / "cache")},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
