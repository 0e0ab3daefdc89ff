"""A new target is a package and a line in a table: the recipe in the documentation, in a copy of the registry."""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import diffkern as dk
from diffkern.compiler import specialize
from diffkern.compiler.compilation import Compilation
from diffkern.contracts import platforms
from diffkern.contracts.options import Variant
from diffkern.targets import target_named

DOCS = (Path(__file__).parents[3] / "docs" / "recipes_targets.rst").read_text(encoding="utf-8")
RECIPE = DOCS[DOCS.index("**A target**") :]
LINE, PACKAGE = (
    textwrap.dedent(block) for block in re.findall(r"code-block:: python\n\n((?:   .*\n|\n)+)", RECIPE)[:2]
)


@dk.kernel
def damped(x: dk.array(dtype=float), v: dk.array(dtype=dk.vec3), y: dk.array(dtype=float)):
    i = dk.tid()
    y[i] = dk.length(v[i]) * dk.exp(-x[i])


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    (family,) = eval(LINE.strip().rstrip(",").join(("(", ",)")), vars(platforms))
    module = ModuleType(family.package)
    exec(PACKAGE, vars(module))
    monkeypatch.setitem(sys.modules, family.package, module)
    monkeypatch.setattr(platforms, "FAMILIES", (*platforms.FAMILIES, family))
    monkeypatch.setattr(specialize, "_entries", {})
    before, dk.config.cache_dir = dk.config.cache_dir, tmp_path
    yield
    dk.config.cache_dir = before


def test_its_source_is_printed() -> None:
    assert damped.source(target="text") == damped.source()  # type: ignore[arg-type]
    assert "ct_y" in damped.adjoint_source(target="text")  # type: ignore[arg-type]


def test_its_passes_are_those_it_says() -> None:
    fn = Compilation(damped.func, damped.argument_types(), Variant(target="text")).forward
    text = target_named("text").emit(fn, "damped").text
    assert "= length(" in target_named("text").source(fn, [])
    assert "= length(" not in text
    assert "sqrt(" in text


@pytest.mark.parametrize("adjoint", [False, True])
def test_its_programs_are_compiled_and_kept(adjoint: bool) -> None:
    made = dk.compile(damped, target="text", adjoint=adjoint)
    assert made.object_code.decode().startswith(f"# {made.symbol}")
    assert made.manifest.target == made.target == "text"
    specialize._entries.clear()
    assert dk.compile(damped, target="text", adjoint=adjoint).object_code == made.object_code


def test_its_key_is_its_own() -> None:
    fields = specialize._target_fields.__wrapped__
    assert ("target", b"text") in fields("text")
    assert fields("text") != fields("native")


def test_what_there_is_not_is_refused() -> None:
    with pytest.raises(dk.CompileError, match="no target 'texts'"):
        dk.compile(damped, target="texts")
    with pytest.raises(dk.MisuseError, match="'cpu' or 'cuda' or 'text', not 'texts'"):
        damped.source(target="texts")  # type: ignore[arg-type]
