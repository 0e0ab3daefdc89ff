"""A new object that kernels know by an id is five places, as the documentation says: a copy of the package gets one."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).parents[3]
DOCS = (ROOT / "docs" / "internals.rst").read_text(encoding="utf-8")
RECIPE = DOCS[DOCS.index("**An object**") : DOCS.index("**A pass**")]
PARTS = [textwrap.dedent(part) for part in re.findall(r"code-block:: \w+\n\n((?:(?:   .*)?\n)+)", RECIPE)]


def insert(path: Path, behind: str, text: str) -> None:
    source = path.read_text(encoding="utf-8")
    assert source.count(behind) == 1, behind
    path.write_text(source.replace(behind, behind + text), encoding="utf-8")


def test_five_places_are_enough(tmp_path: Path) -> None:
    package = tmp_path / "diffkern"
    shutil.copytree(ROOT / "diffkern", package)
    kind, functions, name, host, public = PARTS
    queries = package / "lang/queries.py"
    number = kind.split()[-1]
    assert not re.search(rf"^[A-Z_]+: Final = {number}$", queries.read_text(encoding="utf-8"), re.MULTILINE), (
        f"another object has the kind {number} of the recipe, which has to take another number"
    )
    insert(queries, 'is an int64 as well."""\n', f"\n{kind}")
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
