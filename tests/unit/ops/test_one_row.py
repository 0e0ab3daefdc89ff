"""A new scalar function is one row of the operation table: a copy of the package gets one, and everything works."""

from __future__ import annotations

import ctypes
import itertools
import json
import math
import os
import re
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from conftest import require

from diffkern.ir.ops.table import all_ops, lookup
from diffkern.printing import prims

ROOT = Path(__file__).parents[3]
RECIPES = (ROOT / "docs" / "recipes_operations.rst").read_text(encoding="utf-8")
CHECKS = re.findall(r"@check\ndef (\w+)", (Path(__file__).parent / "one_row.py").read_text(encoding="utf-8"))


def _recipe(start: str) -> str:
    """The code of a recipe in the documentation."""
    found = re.search(rf"^   {re.escape(start)}.*\n(    .*\n)*", RECIPES, re.MULTILINE)
    assert found is not None
    return textwrap.dedent(found[0])


def _insert(path: Path, before: str, text: str) -> None:
    source = path.read_text(encoding="utf-8")
    assert source.count(before) == 1
    path.write_text(source.replace(before, text), encoding="utf-8")


def _wrong(copy: Path, checks: Sequence[str], *, with_rule: bool) -> dict[str, str]:
    """What went wrong with each check, in a process whose package has the row of the recipe, and its rule if wanted."""
    if sys.platform != "linux" or not hasattr(ctypes.CDLL(None), "exp10"):
        pytest.skip("this C library has no exp10")
    shutil.copytree(ROOT / "diffkern", copy / "diffkern")
    table = "\nROWS: Final = (\n"
    _insert(copy / "diffkern/ir/ops/scalar.py", table, f"{table}    {_recipe('function(')}")
    if with_rule:
        rules, line = "\nSCALAR_RULES: dict[str, Rule] = {\n", '    "copysign": _copysign,\n'
        path = copy / "diffkern/ad/rules/scalar.py"
        _insert(path, rules, f"\n{_recipe('def _exp10')}\n{rules}")
        _insert(path, line, f'{line}    "exp10": _exp10,\n')
    where = os.pathsep.join(map(str, (copy, ROOT / "tests", ROOT / "tools", ROOT / "docs" / "_ext")))
    done = subprocess.run(
        [sys.executable, str(Path(__file__).parent / "one_row.py"), str(copy / "wrong.json"), *checks],
        env={**os.environ, "PYTHONPATH": where, "NUMBA_ENABLE_CUDASIM": "1", "DIFFKERN_CACHE_DIR": str(copy)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found: dict[str, str] = json.loads((copy / "wrong.json").read_text(encoding="utf-8"))
    return found


@pytest.fixture(scope="module")
def wrong(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return _wrong(tmp_path_factory.mktemp("row"), CHECKS, with_rule=False)


@pytest.mark.parametrize("name", CHECKS)
def test_one_row_is_enough(name: str, wrong: dict[str, str]) -> None:
    if name == "ptx":
        require("cuda.pathfinder")
    assert wrong[name] == ""


def test_one_rule_is_enough(tmp_path: Path) -> None:
    checks = ["rule_is_a_function", "adjoint_against_central_differences"]
    assert _wrong(tmp_path, checks, with_rule=True) == dict.fromkeys(checks, "")


FORMULAS = {name: row for name, row in all_ops().items() if row.partials}
NUMBERS = [-1e5, -1.0, -0.5, -1e-200, 0.0, 1e-200, 0.5, 1.0, 1e5]


def _partials(name: str, operands: Sequence[float]) -> list[float]:
    """The partial derivatives in float64, as generated Python computes them."""
    row = FORMULAS[name]
    values = [np.float64(v) for v in operands]
    env = {**vars(prims), **dict(zip("xy", values, strict=False))}
    with np.errstate(all="ignore"):
        env["r"] = eval(row.py.format("x", "y"), env)
        return [float(eval(text, env)) for text in row.partials]


@pytest.mark.parametrize("name", FORMULAS)
def test_rows_say_where_derivatives_are_not_finite(name: str) -> None:
    row = FORMULAS[name]
    for operands in row.singular.at if row.singular else ():
        assert not all(map(math.isfinite, _partials(name, operands))), operands
    if row.singular is None:
        for operands in itertools.product(NUMBERS, repeat=row.arity or 0):
            assert all(map(math.isfinite, _partials(name, operands))), operands


def test_rows_say_what_bounds_their_results() -> None:
    for name, row in all_ops().items():
        if row.least is not None and row.twin is not None:
            with np.errstate(all="ignore"):
                results = [row.twin(*map(np.float64, v)) for v in itertools.product(NUMBERS, repeat=row.arity or 0)]
            assert all(r >= row.least or r != r for r in results), name


def test_commutative_operations_fold_to_the_same_constant() -> None:
    for row in all_ops().values():
        if row.commutative:
            assert row.fold is not None
            assert all(row.fold(a, b) == row.fold(b, a) for a, b in itertools.product((0, 1, 5, 7), repeat=2))
        if row.neutral is not None and row.fold is not None:
            assert all(row.fold(a, row.neutral) == a for a in (-3, 0, 5))


def test_comparisons_agree_with_their_mirror_and_their_negation() -> None:
    for row in all_ops().values():
        if row.mirrored:
            mirrored, negated = lookup(row.mirrored).fold, lookup(row.negated).fold
            assert row.fold is not None
            assert mirrored is not None
            assert negated is not None
            for a, b in itertools.product((1, 2), repeat=2):
                assert row.fold(a, b) == mirrored(b, a) == (not negated(a, b))
