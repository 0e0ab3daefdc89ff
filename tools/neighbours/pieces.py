"""The pieces of a run: each has a name, is done by itself, and returns what goes into its file of results."""

from __future__ import annotations

import ast
import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from comparison import compare
from conversation import replies_about
from packages import Package, modules_of

__all__ = ["Piece", "Setting", "constants", "pieces"]

_MODULES_OF_A_PIECE = 4
_KERNEL = re.compile(r"^\s*@(wp|warp)\.kernel\b", re.MULTILINE)


@dataclass(frozen=True)
class Setting:
    """What is run, where and how long.

    Attributes
    ----------
    packages : sequence of Package
        The packages.
    programs : Path
        The folder of their programs.
    python : Path
        The interpreter of the environment with the packages.
    site : Path
        The folder of its packages.
    cache : Path
        Where programs are kept between pieces.
    targets : tuple of str
        What kernels are compiled for.
    limit : float
        Seconds of processor time that one module, kernel or request may take.
    """

    packages: Sequence[Package]
    programs: Path
    python: Path
    site: Path
    cache: Path
    targets: tuple[str, ...]
    limit: float


@dataclass(frozen=True)
class Piece:
    """A piece, and what does it."""

    name: str
    do: Callable[[], Any]


def pieces(setting: Setting) -> Iterator[Piece]:
    """Yield all pieces, those that say most in the shortest time first."""
    for package in setting.packages:
        for under in ("warp", "diffkern"):
            yield Piece(f"imports-{package.distribution}-{under}", partial(_imports, setting, package, under))
    known = {package.distribution for package in setting.packages}
    programs = [path for path in sorted(setting.programs.glob("[!_]*.py")) if constants(path)["PACKAGE"] in known]
    for program in programs:
        yield Piece(f"program-{program.stem}", partial(_program, setting, program))
    for program in programs:
        yield Piece(f"launched-{program.stem}", partial(_launched, setting, program))
    for package in setting.packages:
        yield from _kernels(setting, package)


def constants(program: Path) -> dict[str, Any]:
    """Return the constants at the top of a program, which are read without running it."""
    found = {}
    for statement in ast.parse(program.read_text(encoding="utf-8")).body:
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            name = statement.targets[0].id
            if name.isupper():
                found[name] = ast.literal_eval(statement.value)
    return found


def _imports(setting: Setting, package: Package, under: str) -> Any:
    names = list(modules_of(package, setting.site))
    excluded = {name: why for name in names if (why := package.why_excluded(name)) is not None}
    wanted = [name for name in names if name not in excluded]
    found = replies_about(setting.python, under, "modules", setting.cache, setting.limit, {"names": wanted})
    failed = {reply["name"]: reply["error"] for reply in found if reply.get("error")}
    return {"modules": len(wanted), "imported": len(wanted) - len(failed), "failed": failed, "excluded": excluded}


def _program(setting: Setting, program: Path) -> Any:
    wish = constants(program)
    with tempfile.TemporaryDirectory(prefix="neighbours-") as folder:
        return compare(setting.python, program, wish, Path(folder), setting.limit)


def _launched(setting: Setting, program: Path) -> Any:
    module = next(p.module for p in setting.packages if p.distribution == constants(program)["PACKAGE"])
    request = {"program": str(program), "prefix": module, "targets": setting.targets, "names": [program.stem]}
    return {"kernels": replies_about(setting.python, "diffkern", "launched", setting.cache, setting.limit, request)}


def _kernels(setting: Setting, package: Package) -> Iterator[Piece]:
    names = [name for name in modules_of(package, setting.site) if package.why_excluded(name) is None]
    held = [name for name in names if _KERNEL.search(_path(setting.site, name).read_text(encoding="utf-8"))]
    for k in range(0, len(held), _MODULES_OF_A_PIECE):
        part = held[k : k + _MODULES_OF_A_PIECE]
        yield Piece(f"kernels-{package.distribution}-{k // _MODULES_OF_A_PIECE:03}", partial(_compiled, setting, part))


def _compiled(setting: Setting, modules: Sequence[str]) -> Any:
    request = {"names": list(modules), "targets": setting.targets}
    return {"kernels": replies_about(setting.python, "diffkern", "kernels", setting.cache, setting.limit, request)}


def _path(site: Path, module: str) -> Path:
    path = site.joinpath(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
