"""Run published packages that depend on Warp under Warp and under ``diffkern.warp``: what works, as data and a table.

    python tools/neighbours 3600 --environment ~/neighbours    # makes the environment; an hour, then resumed
    python tools/neighbours 3600 --python .../bin/python       # with an environment that is there
    python tools/neighbours 600 --only program-mujoco          # pieces whose names begin so
    python tools/neighbours 0 --rst docs/generated/neighbours.inc   # the table of what is known
    python tools/neighbours 0 --json neighbours.json           # the data
    python tools/neighbours 3600 --package xlb --package aimnet   # packages that have environments of their own
    python tools/neighbours 600 --python .../bin/python --package skrl=skrl --programs FOLDER   # another package

A module finder gives ``diffkern.warp`` to whoever imports ``warp``; the packages themselves stay as they are published.
The pieces are imports of all modules, programs of ``programs/`` under both, kernels that these launch, and kernels at
the top of modules. Other packages are given by their names, ``DISTRIBUTION=MODULE``, and their programs by the folder;
they are written like those of ``programs/``. What a piece found stays in the folder of results; the next call goes on
with those that are left, and ``--targets cpu,sm_90`` adds what is missing to what is known of kernels. What is not
timed can be had first, by ``--only imports,kernels,launched``, and ``--only program`` later into the same folder.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from environment import make, site_of, versions
from merging import merged, missing_targets
from packages import MORE, PACKAGES, TESTS, USUAL, Package
from pieces import Setting, pieces
from tables import printed, rst

_PROGRAMS = Path(__file__).parent / "programs"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run pieces until the time is up; return 0 if there is something to show."""
    given = _parser().parse_args(arguments)
    given.results.mkdir(parents=True, exist_ok=True)
    if given.seconds > 0:
        end = time.monotonic() + given.seconds
        together: dict[str, list[Package]] = {}
        for package in _packages(given):
            together.setdefault(package.requirements, []).append(package)
        for requirements, packages in together.items():
            _run(given, packages, requirements, end)
    data = collected(given.results)
    print(printed(_packages(given), data))
    if given.json:
        given.json.write_text(json.dumps(data, indent=1), encoding="utf-8")
    if given.rst:
        given.rst.write_text(rst(_packages(given), data), encoding="utf-8")
    return 0 if data["pieces"] else 1


def _run(given: argparse.Namespace, packages: Sequence[Package], requirements: str, end: float) -> None:
    """Run the pieces of packages that share an environment."""
    own = "" if requirements == USUAL else packages[0].distribution
    python = (given.python or make(given.environment / own, requirements)).absolute()
    cache = (given.results / "cache").absolute()
    programs = given.programs or _PROGRAMS
    targets = tuple(given.targets.split(","))
    setting = Setting(packages, programs.absolute(), python, site_of(python), cache, targets, given.limit)
    left = 0
    for name in [piece.name for piece in pieces(setting) if piece.name.startswith(tuple(given.only.split(",")))]:
        place = given.results / f"{name}.json"
        again = not place.exists() or given.again or (given.refused and _has_refusals(place))
        wanted = targets if again else missing_targets(json.loads(place.read_text(encoding="utf-8")), targets)
        if not again and not wanted:
            continue
        if time.monotonic() >= end:
            left += 1
            continue
        begin = time.monotonic()
        piece = next(one for one in pieces(replace(setting, targets=wanted)) if one.name == name)
        found = {"date": dt.date.today().isoformat(), "found": piece.do()}
        if not again:
            found = merged(json.loads(place.read_text(encoding="utf-8")), found, wanted)
        place.write_text(json.dumps(found, indent=1), encoding="utf-8")
        print(f"{name}: {time.monotonic() - begin:.0f} s", flush=True)
    told = versions(python, ["warp-lang", *(package.distribution for package in packages), "mujoco", "torch", "numpy"])
    name = f"versions-{own}" if own else "versions"
    (given.results / f"{name}.json").write_text(json.dumps(told), encoding="utf-8")
    print(f"{left} pieces left")


def _packages(given: argparse.Namespace) -> Sequence[Package]:
    """Return the packages that are given, the usual ones if none is."""
    known = {package.distribution: package for package in (*PACKAGES, *MORE)}
    pairs = (text.partition("=") for text in given.package)
    return [known.get(name, Package(name, module or name, TESTS)) for name, _, module in pairs] or PACKAGES


def _has_refusals(place: Path) -> bool:
    """Whether a piece found kernels that are refused."""
    found = json.loads(place.read_text(encoding="utf-8"))["found"]
    kernels = found.get("kernels", ()) if isinstance(found, dict) else ()
    return any("error" in reply or any(_errors(reply)) for reply in kernels)


def _errors(reply: dict[str, Any]) -> Iterator[str | None]:
    for direction in ("forward", "adjoint"):
        yield from reply.get(direction, {}).values()


def collected(folder: Path) -> dict[str, Any]:
    """Return all that is known: versions, and the results of pieces by name."""
    data: dict[str, Any] = {"versions": {}, "environments": {}, "pieces": {}}
    for path in sorted(folder.glob("*.json")):
        value = json.loads(path.read_text(encoding="utf-8"))
        if path.stem == "versions":
            data["versions"] = value
        elif path.stem.startswith("versions-"):
            data["environments"][path.stem.removeprefix("versions-")] = value
        else:
            data["pieces"][path.stem] = value
    return data


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="tools/neighbours", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("seconds", type=float, help="after which no piece is begun; 0 shows what is known")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--environment", type=Path, default=Path(".neighbours/environment"), metavar="FOLDER",
                       help="where packages are installed, made if need be; some have folders in it")  # fmt: skip
    where.add_argument("--python", type=Path, help="the Python of an environment that has them")
    parser.add_argument("--package", action="append", default=[], metavar="DISTRIBUTION=MODULE",
                        help="a package to take instead of the usual ones; may be repeated")  # fmt: skip
    parser.add_argument("--programs", type=Path, metavar="FOLDER", help="programs for these packages")
    parser.add_argument("--results", type=Path, default=Path(".neighbours/results"), metavar="FOLDER")
    parser.add_argument(
        "--only", default="", metavar="A,B", help="pieces whose names begin so, as program-mujoco,imports"
    )
    parser.add_argument("--again", action="store_true", help="run pieces again whose results there are")
    parser.add_argument("--refused", action="store_true", help="run pieces again in which kernels are refused")
    parser.add_argument("--targets", default="cpu", metavar="A,B", help="what kernels are compiled for: cpu,sm_90")
    parser.add_argument(
        "--limit", type=float, default=300.0, help="seconds of processor time that a module, kernel or step may take"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="where to write all results")
    parser.add_argument("--rst", type=Path, metavar="FILE", help="where to write the tables of the documentation")
    return parser


if __name__ == "__main__":
    sys.exit(main())
