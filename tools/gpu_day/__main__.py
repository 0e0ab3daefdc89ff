"""A day on a GPU machine in one command: pack what runs there, unpack it, run everything, collect one JSON file.

    python tools/gpu_day --out report.json             # here: pack from this environment, unpack, run
    python tools/gpu_day pack gpu_day.tar.xz           # here, for a machine without a network
    python project/tools/gpu_day run --out report.json # there, where ``tar xf gpu_day.tar.xz`` was done

In: a clone, and an environment with ``diffkern[cuda,tiles]``, pytest and hypothesis, or a network. Out: an archive with
``site`` (packages, unpacked), ``project`` (the clone's files) and ``packed.json``; and a report that is written anew
after each step, so that what an hour allowed is there when it ends. ``--fake`` rehearses all of it on the fake driver,
without a GPU.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from home import PROJECT
from packing import FROM, pack, unpack
from report import run
from steps import NAMES, Wish


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; return 0 if every step that ran did well."""
    given = _parser().parse_args(argv)
    if given.command == "pack":
        packed = pack(PROJECT, given.archive, given.source, given.python, given.machine, given.add, given.packages)
        print(f"{given.archive}: {given.archive.stat().st_size >> 20} MiB, {len(packed['packages'])} packages")
        return 0
    if given.command == "unpack":
        print(unpack(given.archive, given.folder))
        return 0
    if given.command == "run":
        return _run(PROJECT, given)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="gpu_day-") as folder:
        archive = Path(folder) / "gpu_day.tar"
        pack(PROJECT, archive, given.source, add=given.add, wanted=given.packages)
        there = unpack(archive, Path(folder) / "there")
        given.minutes -= (time.monotonic() - began) / 60
        return _run(there, given)


def _run(project: Path, given: argparse.Namespace) -> int:
    wish = Wish(given.fake, given.quick, given.tests, given.workers, given.seconds)
    return run(project, given.out, given.steps, wish, given.minutes)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="tools/gpu_day", description=(__doc__ or "").partition("\n")[0])
    _running(parser)
    _packing(parser)
    commands = parser.add_subparsers(dest="command", title="one step by itself")
    packing = commands.add_parser("pack", help="write the archive")
    packing.add_argument("archive", type=Path)
    packing.add_argument("--python", metavar="3.X", help="with --from pip: the Python of the GPU machine")
    packing.add_argument("--machine", metavar="NAME", help="with --from pip: x86_64 or aarch64")
    _packing(packing)
    unpacking = commands.add_parser("unpack", help="unpack the archive")
    unpacking.add_argument("archive", type=Path)
    unpacking.add_argument("folder", type=Path)
    _running(commands.add_parser("run", help="run the steps and write the report"))
    return parser


def _packing(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--from", dest="source", choices=FROM, default=FROM[0], help="where packages come from")
    parser.add_argument("--add", action="append", default=[], metavar="PACKAGE", help="another package to bring along")
    parser.add_argument(
        "--packages", type=lambda text: text.split(","), metavar="A,B", help="these packages and no others"
    )


def _running(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--out", type=Path, default=Path("gpu_day.json"), metavar="FILE", help="the report")
    parser.add_argument(
        "--steps", default=list(NAMES), type=_names, metavar="A,B", help=f"of {', '.join(NAMES)}; A+B: side by side"
    )
    parser.add_argument("--tests", default="", metavar="EXPRESSION", help="which tests of the suite, as pytest's -k")
    parser.add_argument("--minutes", type=float, default=15.0, help="shared out among the steps")
    parser.add_argument(
        "--workers", type=int, default=min(8, os.cpu_count() or 1), metavar="N", help="processes that run tests"
    )
    parser.add_argument("--seconds", type=float, default=45.0, help="after which no random program is begun")
    parser.add_argument("--quick", action="store_true", help="few repetitions in benchmarks")
    parser.add_argument("--fake", action="store_true", help="rehearse on the fake driver; needs no GPU")


def _names(text: str) -> list[str]:
    names = text.split(",")
    for name in (one for group in names for one in group.split("+")):
        if name not in NAMES:
            raise argparse.ArgumentTypeError(f"there is no step {name!r}; take of {', '.join(NAMES)}")
    return names


if __name__ == "__main__":
    sys.exit(main())
