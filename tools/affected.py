"""The files of tests that a change can reach: ``pytest $(python tools/affected.py BASE)``.

A test reaches the modules that it imports or names as ``dk.NAME``, what these import, and so on; a change of one of
them names the test. Imports inside functions count. Text and data count for the tests that read their folder.
"""

from __future__ import annotations

import argparse
import re
import subprocess
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import grimp

import diffkern

ROOT = Path(__file__).resolve().parents[1]
READS = {
    "docs": (
        "tests/unit/test_docs",
        "tests/unit/test_errors_page",
        "tests/unit/test_reference",
        "tests/unit/test_gallery",
    ),
    "examples": ("tests/e2e", "tests/interop", "tests/unit/test_docs"),
    "benchmarks": (
        "tests/interop/jax/test_adbench",
        "tests/unit/cli",
        "tests/unit/test_benchmarks_page",
        "tests/unit/test_docs_figures",
    ),
    "tools": ("tests/unit", "tests/programs", "tests/e2e/test_gpu_day"),
    "README.md": ("tests/unit/test_docs",),
    "CONTRIBUTING.md": ("tests/unit/test_contributing",),
}
"""What tests read beside modules: a folder or a file, and the beginnings of the names of these tests."""

HARMLESS = ("CHANGELOG.md", "LICENSE", ".gitignore", ".ci/")
"""No test reads these."""


def changed_files(base: str) -> list[str]:
    """The files that differ from the commit ``base``, new ones included."""
    differing = _git("diff", "--name-only", base)
    return sorted({*differing, *_git("ls-files", "--others", "--exclude-standard")})


def _git(*arguments: str) -> list[str]:
    run = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True)
    return run.stdout.splitlines()


def affected(changed: Iterable[str]) -> list[str]:
    """The files of tests that changes of the files ``changed`` can reach."""
    changed = [name for name in changed if not name.startswith(HARMLESS)]
    tests = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "tests").rglob("test_*.py"))
    modules = {_module(Path(name)) for name in changed if name.startswith("diffkern/") and name.endswith(".py")}
    importers = _importers(modules)
    sources = {name for name in changed if name.startswith("tests/") and name.endswith(".py")}
    others = [name for name in changed if not name.startswith("diffkern/") and name not in sources]
    readers = tuple(test for name in others for place, test in _readers(name) if name.startswith(place))
    if len({name for name in others if _readers(name)}) < len(others) or "tests/conftest.py" in sources:
        return tests
    return [
        test
        for test in tests
        if test.startswith(readers or ("\0",)) or sources & _test_sources(test) or importers & _names(test)
    ]


def _readers(name: str) -> list[tuple[str, str]]:
    """The readers of a file that is no module; data are read by the tests of the nearest folder that has any."""
    if name.startswith("tests/"):
        return [(name, str(next(p for p in Path(name).parents if any((ROOT / p).rglob("test_*.py")))))]
    return [(place, test) for place, tests in READS.items() if name.startswith(place) for test in tests]


def _module(path: Path) -> str:
    return ".".join(path.with_suffix("").parts).removesuffix(".__init__")


@cache
def _graph() -> grimp.ImportGraph:
    return grimp.build_graph("diffkern", cache_dir=None)


def _importers(modules: Iterable[str]) -> frozenset[str]:
    """Modules and all that import them."""
    graph = _graph()
    known = [module for module in modules if module in graph.modules]
    return frozenset(modules).union(*(graph.find_downstream_modules(module) for module in known))


@cache
def _test_sources(test: str) -> frozenset[str]:
    """A file of tests and the modules under ``tests`` that it imports, and so on."""
    found: set[str] = set()
    waiting = [test]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += _local_imports(name)
    return frozenset(found)


@cache
def _local_imports(name: str) -> tuple[str, ...]:
    """The files under ``tests`` that one of them imports."""
    return tuple(str(p.relative_to(ROOT)) for m in _imports(name) for p in _places(m) if p.exists())


def _places(module: str) -> tuple[Path, Path]:
    """Where a module of the tests may be."""
    path = ROOT / "tests" / Path(*module.removeprefix("tests.").split("."))
    return path.with_suffix(".py"), path / "__init__.py"


@cache
def _names(test: str) -> frozenset[str]:
    """The modules of diffkern that a file of tests names."""
    return frozenset(m for source in _test_sources(test) for m in _imports(source) if m.partition(".")[0] == "diffkern")


_IMPORT = re.compile(r"^[ \t]*(?:from[ ]+(\.*)([\w.]*)[ ]+)?import[ ]+(\([^)]*\)|[^\n#]*)", re.MULTILINE)
_ATTRIBUTE = re.compile(r"\b(\w+)\.(\w+)")


@cache
def _imports(name: str) -> frozenset[str]:
    """The names of modules that a source under ``tests`` may import: each part of a dotted name counts as one.

    It is read as text: an import in a string counts too, which names a test too many.
    """
    text = (ROOT / name).read_text(encoding="utf-8")
    return frozenset(_imported(text, Path(name)))


def _imported(text: str, path: Path) -> Iterator[str]:
    aliases = set()
    for dots, module, names in _IMPORT.findall(text):
        package = path.parent.parts[1 : len(path.parent.parts) - len(dots) + 1] if dots else ()
        base = ".".join((*package, *filter(None, [module])))
        for imported, _, alias in (part.strip().partition(" as ") for part in names.strip("()").split(",")):
            yield f"{base}.{imported}" if base else imported
            if base == "diffkern":
                yield _place(imported)
            elif imported == "diffkern":
                aliases.add(alias or imported)
        if base:
            yield base
    yield from (_place(attribute) for owner, attribute in _ATTRIBUTE.findall(text) if owner in aliases)


def _place(name: str) -> str:
    """The module of a public name."""
    if name in diffkern._PLACES:
        return diffkern._PLACES[name][0]
    return diffkern._PACKAGES.get(name, "diffkern")


def main() -> None:
    """Print the files of tests."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("base", help="a commit, as main or HEAD~1")
    print(*affected(changed_files(parser.parse_args().base)), sep="\n")


if __name__ == "__main__":
    main()
