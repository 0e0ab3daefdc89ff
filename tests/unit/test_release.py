"""What a release is made of agrees: versions, dependencies, the conda recipe, the citation, README on the index."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

import diffkern

if sys.version_info >= (3, 11):
    import tomllib
else:
    tomllib = pytest.importorskip("tomli")

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import release_check  # noqa: E402

SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = SETTINGS["project"]


def least(requirement: str) -> tuple[str, str]:
    """Return a package and its least version."""
    found = re.fullmatch(r"([\w-]+) ?(?:\[.*\])?>=([\d.]+)(,?<[\d.]+)?(;.*)?", requirement)
    assert found is not None, requirement
    return found[1], found[2]


def numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def test_least_versions_are_those_that_are_tested():
    pinned = re.findall(r"^([\w-]+)==([\d.]+)", (ROOT / "tests" / "minimum_versions.txt").read_text(), re.MULTILINE)
    for name, version in map(least, PROJECT["dependencies"]):
        tested = min(numbers(v) for package, v in pinned if package == name)
        assert tested[: len(numbers(version))] == numbers(version), name
    assert {name for name, _ in pinned} == {least(d)[0] for d in PROJECT["dependencies"]}


def test_an_upper_bound_has_a_reason_beside_it():
    lines = (ROOT / "pyproject.toml").read_text(encoding="utf-8").splitlines()
    for k, line in enumerate(lines):
        if re.search(r'"[\w-]+[^"]*<\d', line):
            assert lines[k - 1].lstrip().startswith("# "), line


def test_the_conda_recipe_has_the_same_dependencies():
    recipe = (ROOT / "tools" / "conda" / "meta.yaml").read_text(encoding="utf-8")
    run = recipe.partition("\n  run:\n")[2].partition("\n\n")[0]
    listed = dict(re.findall(r"- ([\w-]+) >=([\d.]+)", run))
    assert listed == dict(map(least, PROJECT["dependencies"]))
    host = recipe.partition("\n  host:\n")[2].partition("\n  run:")[0]
    assert dict(re.findall(r"- ([\w-]+) >=([\d.]+)", host)) == dict(map(least, SETTINGS["build-system"]["requires"]))
    assert f'set version = "{diffkern.__version__}"' in recipe
    (entry,) = PROJECT["scripts"].items()
    assert f"- {entry[0]} = {entry[1]}" in recipe
    assert PROJECT["urls"]["Repository"] in recipe


def test_the_citation_is_of_this_version():
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    date = re.search(rf"^## {re.escape(diffkern.__version__)} \((.*)\)$", (ROOT / "CHANGELOG.md").read_text(), re.M)
    assert date is not None
    assert f"version: {diffkern.__version__}\n" in citation
    assert f'date-released: "{date[1]}"' in citation


def test_links_of_readme_leave_the_index():
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    targets = release_check.inner_links(page)
    assert len(targets) > 20
    assert not [target for target in targets if not (ROOT / target.partition("#")[0]).exists()]
    for rule in SETTINGS["tool"]["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"]["substitutions"]:
        assert PROJECT["urls"]["Repository"] in rule["replacement"]
        page = re.sub(rule["pattern"], rule["replacement"], page)
    assert not release_check.inner_links(page)
    assert re.findall(r"!\[[^\]]*\]\(https://[^)]*/raw/v\$HFPR_VERSION/docs/flood.jpg\)", page)


def test_what_the_sdist_is_checked_for_is_here():
    held = SETTINGS["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
    for name in (*release_check.SHIPPED[1:], *release_check.TESTS):
        assert (ROOT / name).exists(), name
        assert f"/{name.partition('/')[0]}" in held


@pytest.mark.parametrize("python", ["3.10", "3.11", "3.12", "3.13", "3.14"])
def test_each_python_is_said_everywhere(python):
    assert f"Programming Language :: Python :: {python}" in PROJECT["classifiers"]
    said = (ROOT / "docs" / "compatibility.rst").read_text(encoding="utf-8")
    assert re.search(rf"Linux x86-64, Python .*{re.escape(python)}\b", said)
