"""The archive that a GPU machine without a network can run.

In: a clone and either this environment's packages or pip. Out: ``gpu_day.tar.xz`` with three things: ``site``, the
packages as ``pip install --target`` would unpack them; ``project``, the files of the clone; ``packed.json``, what they
are. Nothing has to be compiled or installed on the other side: both folders go on ``PYTHONPATH``.
"""

from __future__ import annotations

import importlib.metadata
import json
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

__all__ = ["FROM", "needed", "pack", "unpack"]

FROM = ("environment", "pip")
"""Where packages come from: copied from this environment, or downloaded for another one."""

PROJECT = "diffkern"
EXTRAS = ("cuda", "tiles")
TESTING = ("pytest", "hypothesis")
_FOLDERS = ("diffkern", "tests", "benchmarks", "tools", "examples", "kernels")
_FILES = ("pyproject.toml", "README.md", "LICENSE")
_LINUX = ("2_34", "2_31", "2_28", "2_27", "2_24", "2_17", "2_5", "2014", "2010", "1")
_WITHOUT = ("__pycache__", ".pyc")


def requirements() -> list[str]:
    """Return what the project and its tests on a GPU ask for.

    Raises
    ------
    SystemExit
        If the project is not installed, so that nobody knows.
    """
    return [str(one) for one in _stated(PROJECT, EXTRAS, "; run: pip install -e .")] + list(TESTING)


def _stated(name: str, extras: Iterable[str], remedy: str) -> list[Requirement]:
    """Return what an installed distribution asks for on this machine, without the conditions."""
    try:
        stated = importlib.metadata.requires(name) or []
    except importlib.metadata.PackageNotFoundError:
        sys.exit(f"{name} is not installed{remedy}")
    environments = [{"extra": extra} for extra in ("", *extras)]
    found = []
    for one in map(Requirement, stated):
        if one.marker is None or any(map(one.marker.evaluate, environments)):
            one.marker = None
            found.append(one)
    return found


def pack(
    project: Path,
    archive: Path,
    source: str = FROM[0],
    python: str | None = None,
    machine: str | None = None,
    add: Sequence[str] = (),
    wanted: Sequence[str] | None = None,
) -> dict[str, Any]:
    """Write the archive; return what is in it, as ``packed.json`` says.

    Parameters
    ----------
    project : Path
        The clone.
    archive : Path
        Where to; its name ends in ``.tar.xz``, ``.tar.gz`` or ``.tar``.
    source : str
        Of :data:`FROM`.
    python, machine : str, optional
        Of the GPU machine, for pip: ``3.12``, ``x86_64``; those of this one by default.
    add : sequence of str
        Packages to bring along besides.
    wanted : sequence of str, optional
        Requirements in place of :func:`requirements`.
    """
    python, machine = python or f"{sys.version_info.major}.{sys.version_info.minor}", machine or platform.machine()
    asked = [*(requirements() if wanted is None else wanted), *add]
    with tempfile.TemporaryDirectory(prefix="gpu_day-") as folder:
        site = Path(folder) / "site"
        site.mkdir()
        if source == "pip":
            packages = _downloaded(asked, site, python, machine)
        else:
            packages = {name: _copied(name, site) for name in needed(asked)}
        facts = {"python": python, "machine": machine, "packages": packages, "commit": _commit(project)}
        (Path(folder) / "packed.json").write_text(json.dumps(facts, indent=1, sort_keys=True))
        kind: Any = {".xz": "w:xz", ".gz": "w:gz"}.get(archive.suffix, "w")
        options = {"preset": 1} if kind == "w:xz" else {}
        with tarfile.open(archive, kind, **options) as out:
            out.add(Path(folder) / "packed.json", "packed.json")
            out.add(site, "site", filter=_wanted)
            for name in (*_FOLDERS, *_FILES):
                if (project / name).exists():
                    out.add(project / name, f"project/{name}", filter=_wanted)
    return facts


def unpack(archive: Path, folder: Path) -> Path:
    """Unpack an archive into a new folder; return where the project is."""
    folder.mkdir(parents=True)
    with tarfile.open(archive) as source:
        source.extractall(folder, filter="data")
    return folder / "project"


def needed(asked: Iterable[str]) -> list[str]:
    """Return the distributions of this environment that some requirements need, with all that those need.

    Raises
    ------
    SystemExit
        If one is not installed.
    """
    found: set[tuple[str, ...]] = set()
    waiting = [(Requirement(text), "") for text in asked]
    while waiting:
        requirement, by = waiting.pop()
        step = (canonicalize_name(requirement.name), *sorted(requirement.extras))
        if step not in found and step[0] != PROJECT:
            found.add(step)
            remedy = f"{by}: install it, or pack with --from pip"
            waiting += [(one, f", and {step[0]} needs it") for one in _stated(step[0], step[1:], remedy)]
    return sorted({name for name, *_ in found})


def _copied(name: str, site: Path) -> str:
    """Copy a distribution's files; return its version."""
    distribution = importlib.metadata.distribution(name)
    for file in distribution.files or ():
        place = Path(str(file.locate()))
        # Scripts lie outside of the folder of packages.
        if file.parts[0] != ".." and place.is_file() and not place.name.endswith(_WITHOUT):
            goal = site.joinpath(*file.parts)
            goal.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(place, goal)
    return distribution.version


def _downloaded(asked: Sequence[str], site: Path, python: str, machine: str) -> dict[str, str]:
    """Let pip download wheels for a machine, and unpack them; return their versions."""
    with tempfile.TemporaryDirectory(prefix="gpu_day-") as folder:
        platforms = [f"--platform={name}" for name in _platforms(machine)]
        options = ["--only-binary=:all:", f"--python-version={python}", "--implementation=cp", *platforms]
        subprocess.run([sys.executable, "-m", "pip", "download", "-q", "-d", folder, *options, *asked], check=True)
        found = {}
        for wheel in sorted(Path(folder).glob("*.whl")):
            with zipfile.ZipFile(wheel) as source:
                source.extractall(site)
            name, version = wheel.name.split("-")[:2]
            found[str(canonicalize_name(name))] = version
        return found


def _platforms(machine: str) -> Iterator[str]:
    for tag in _LINUX:
        yield f"manylinux_{tag}_{machine}" if "_" in tag else f"manylinux{tag}_{machine}"


def _wanted(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    return None if entry.name.endswith(_WITHOUT) or "/.venv" in entry.name else entry


def _commit(project: Path) -> str:
    command = ["git", "-C", str(project), "describe", "--always", "--dirty"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip()
