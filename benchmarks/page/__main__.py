"""Measure what the table for the CPU on the page on performance has, and write file and table.

    python -m benchmarks.page                             # all scripts, on a machine without other work
    python -m benchmarks.page --keep --only tiles adbench # these again; the others stay if the commit is the same
    python -m benchmarks.page --render                    # only the tables, from the files
    python -m benchmarks.page --check                     # whether the tables say what the files do

Each script runs in a process of its own. What is measured is written after each, so an interruption keeps it. A script
that fails is named with the reason, and the others go on.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib import metadata
from pathlib import Path

from . import figures as held
from . import render, runs, scripts
from .figures import Figures

ROOT = Path(__file__).parents[2]
TABLES = ROOT / "docs" / "generated"
DEVICES = ("cpu", "gpu")
COMMAND = "python -m benchmarks.page"
PACKAGES = ("warp-lang", "jax", "torch", "drjit", "scipy", "numpy", "numba", "llvmlite")
Print = Callable[[str], None]


def results_of(device: str) -> Path:
    """Return where the figures of a device are."""
    return held.RESULTS / f"{device}.json"


def table_of(device: str) -> Path:
    """Return where the table of a device is."""
    return TABLES / f"performance_{device}.inc"


def outdated(folder: Path = held.RESULTS, tables: Path = TABLES) -> list[Path]:
    """Return the tables that do not say what the files of figures do."""
    found = []
    for device in DEVICES:
        table = tables / f"performance_{device}.inc"
        wanted = render.text(held.read(folder / f"{device}.json"))
        if not table.is_file() or table.read_text(encoding="utf-8") != wanted:
            found.append(table)
    return found


def commit(root: Path = ROOT) -> str:
    """Return the commit that is checked out, with a plus sign if files differ from it that a run does not write."""
    name = _git(root, "rev-parse", "--short", "HEAD").strip()
    written = [*map(results_of, DEVICES), *map(table_of, DEVICES), ROOT / "docs" / "ratios.svg"]
    mine = {path.relative_to(ROOT).as_posix() for path in written}
    changed = [line[3:] for line in _git(root, "status", "--porcelain", "--untracked-files=all").splitlines()]
    return f"{name}+" if any(path not in mine for path in changed) else name


def _git(root: Path, *arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=True).stdout


def machine() -> str:
    """Describe what is measured on."""
    model = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        named = [line.split(":", 1)[1].strip() for line in info.read_text().splitlines() if "model name" in line]
        model = named[0] if named else model
    return f"{os.cpu_count()} processors of {model}, {platform.system()}, Python {platform.python_version()}"


def versions() -> dict[str, str]:
    """Return the versions of the packages that are installed."""
    found = {}
    for name in ("diffkern", *PACKAGES):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def begun(path: Path, *, keep: bool, at: str) -> Figures:
    """Return the figures that a run adds to.

    Raises
    ------
    ValueError
        If older ones are to be kept that were measured on another commit, machine or set of packages.
    """
    new = Figures("CPU", COMMAND, at, machine(), versions())
    if not keep or not path.exists():
        return new
    old = held.read(path)
    for name in ("commit", "machine", "versions"):
        if getattr(old, name) != getattr(new, name):
            raise ValueError(
                f"{path.name} cannot be kept: its {name} is {getattr(old, name)}, and now {getattr(new, name)}"
            )
    return replace(old, command=COMMAND)


def measure(
    figures: Figures, chosen: Sequence[scripts.Script], path: Path, *, quick: bool, say: Print = print
) -> Figures:
    """Run scripts, write the figures after each, and return them."""
    all_of = scripts.chosen()
    for script in chosen:
        part = runs.run(script, quick=quick)
        failed = f", {len(part.left_out)} left out" if part.left_out else ""
        took = f"{part.seconds:8.1f} s{part.processor:8.1f} s of processors"
        say(f"{script.name:<22}{took}{len(part.rows):5} rows{failed}, load {os.getloadavg()[0]:.1f}")
        for each in part.left_out:
            say(f"    {each.case}: {each.reason}")
        figures = figures.with_part(script.name, part)
        figures = replace(figures, missing=tuple(each.name for each in all_of if each.name not in figures.parts))
        held.write(figures, path)
    return figures


def rendered(device: str) -> None:
    """Write the table of a device."""
    table_of(device).write_text(render.text(held.read(results_of(device))), encoding="utf-8")


def drawn() -> None:
    """Draw the figure of ratios, where Matplotlib is installed."""
    done = subprocess.run([sys.executable, str(ROOT / "tools" / "ratios_figure.py")], check=False)
    if done.returncode:
        print("docs/ratios.svg was not drawn: python tools/ratios_figure.py says why", file=sys.stderr)


def options(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Return what the command line asks for."""
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog=COMMAND, description=__doc__, formatter_class=form)
    parser.add_argument("--only", nargs="+", default=[], metavar="SCRIPT", help="only these scripts")
    parser.add_argument("--keep", action="store_true", help="keep figures of other scripts, of the same commit")
    parser.add_argument("--quick", action="store_true", help="few readings: a look, not figures to quote")
    parser.add_argument("--changed", action="store_true", help="measure even if files differ from the commit")
    parser.add_argument("--render", action="store_true", help="only write the tables from the files")
    parser.add_argument("--check", action="store_true", help="only tell whether the tables are those of the files")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the command line asks for."""
    asked = options(arguments)
    if asked.check:
        for path in (old := outdated()):
            print(f"out of date: {path.relative_to(ROOT)}; run: {COMMAND} --render")
        return int(bool(old))
    if not asked.render:
        at = commit()
        if at.endswith("+") and not asked.changed:
            print("Files differ from the commit: commit them first, or say --changed.", file=sys.stderr)
            return 2
        try:
            wanted = scripts.chosen(asked.only)
            figures = begun(results_of("cpu"), keep=asked.keep, at=at)
        except ValueError as wrong:
            print(wrong, file=sys.stderr)
            return 2
        try:
            measure(figures, wanted, results_of("cpu"), quick=asked.quick)
        except KeyboardInterrupt:
            left = " ".join(held.read(results_of("cpu")).missing)
            print(f"\nInterrupted; go on with: {COMMAND} --keep --only {left or 'SCRIPT'}", file=sys.stderr)
    for device in DEVICES:
        rendered(device)
    drawn()
    return 0


if __name__ == "__main__":
    sys.exit(main())
