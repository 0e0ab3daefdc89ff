"""The examples that a package brings, all of them: what each needs that is not run here, and how the others end.

    python tools/neighbours/survey.py 3600 --python .../bin/python   # an hour, the next call goes on
    python tools/neighbours/survey.py 0 --python .../bin/python --rst docs/generated/newton_examples.inc

An example is read before it is run: what it downloads, or ``warp.fem``, is a reason that becomes its row. The others
do a few frames without a viewer under Warp and under ``diffkern.warp``; those that stop or take too long under Warp are
rows with that reason. Those that differ are run under Warp once more, from states that are one unit in the last place
off: a difference that is not ten times as large as the one that makes is one of rounding. Compiled programs are kept
from example to example, so that no time is told.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from comparison import UNDER, differences
from conversation import Conversation, Ended
from environment import site_of
from tables import largest, list_table

__all__ = ["EXAMPLES", "main", "ran", "reason", "row"]

EXAMPLES = Path("newton/examples")
_PROGRAMS = Path(__file__).parent / "programs"
_REASONS = {
    r"ImplicitMPM|\bwarp\.fem\b": "``warp.fem``",
    r"\bdownload_(asset|external_git_folder)\b": "downloads a model",
    r"\bViewerFile\b|ViewerUSD": "a viewer",
}
"""What the text of an example has that is not run here: finite elements, a download, a window."""
_TOLERANCE = 1e-3
_ROUNDINGS = 10.0
"""How many times the difference that one unit in the last place makes is still one of rounding."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Read and run examples until the time is up, and print a row for each."""
    given = _parser().parse_args(arguments)
    python = given.python.absolute()
    site = site_of(python)
    known = json.loads(given.results.read_text(encoding="utf-8")) if given.results.exists() else {}
    end = time.monotonic() + given.seconds
    for path in sorted((site / EXAMPLES).rglob("example_*.py"), key=_turn):
        name = ".".join(path.relative_to(site / EXAMPLES).with_suffix("").parts)
        if not re.search(given.only, name) or (known.get(name) and not given.again):
            continue
        why = reason(path.read_text(encoding="utf-8"))
        if why is not None:
            known[name] = {"reason": why}
        elif time.monotonic() < end:
            known[name] = ran(python, name, given.frames, given.cache.absolute(), given.limit)
            print(f"{name}: {row(known[name])}", flush=True)
        else:
            known.setdefault(name, {})
        given.results.parent.mkdir(parents=True, exist_ok=True)
        given.results.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    if given.rst:
        rows = ((f"``{name}``", *row(found).split(": ", 1)) for name, found in sorted(known.items()))
        lines = list_table(("example", "result", "reason, or largest relative difference"), rows, (50, 16, 34))
        given.rst.write_text("\n".join(lines) + "\n", encoding="utf-8")
    for name, found in sorted(known.items()):
        print(f"{name:60} {row(found)}")
    print(dict(Counter(row(found).partition(":")[0] for found in known.values())))
    return 0


def _turn(path: Path) -> tuple[bool, Path]:
    """Those that differentiate come first."""
    return path.parent.name != "diffsim", path


def reason(text: str) -> str | None:
    """Return why an example is not run, by what its text has; None if it is."""
    return next((why for pattern, why in _REASONS.items() if re.search(pattern, text)), None)


def ran(python: Path, name: str, frames: int, cache: Path, limit: float) -> dict[str, Any]:
    """Run an example under both for some frames and return what came of it."""
    found: dict[str, Any] = {"frames": frames}
    with tempfile.TemporaryDirectory(prefix="neighbours-") as place:
        folder = Path(place)
        for under in UNDER:
            try:
                _written(python, name, under, frames, cache, limit, folder / f"{under}.npz")
            except Ended as error:
                return {**found, "stops": under, "error": str(error), "trace": error.trace[-2000:]}
        found["differences"] = differences(folder, UNDER[1], UNDER[0], "output")
        if not _is_within(largest(found["differences"]), _TOLERANCE):
            with suppress(Ended):
                _written(python, name, UNDER[0], frames, cache, limit, folder / "nudged.npz", "example.nudge()")
                found["nudged"] = differences(folder, "nudged", UNDER[0], "output")
        return found


def _written(
    python: Path, name: str, under: str, frames: int, cache: Path, limit: float, to: Path, first: str = "pass"
) -> None:
    program = to.with_name("program.py")
    program.write_text(
        f"import sys\nsys.path.append({str(_PROGRAMS)!r})\n"
        "from _newton import Example\n\n\n"
        f"def begin():\n    example = Example({name!r})\n    {first}\n    return example\n",
        encoding="utf-8",
    )
    with Conversation(python, under, "program", cache, limit) as process:
        process.tell({"do": "first", "with": {"path": str(program)}})
        process.tell({"do": "steps", "with": {"count": frames - 1}})
        process.tell({"do": "outputs", "with": {"to": str(to)}})


def _is_within(off: Any, bound: Any) -> bool:
    return isinstance(off, float) and isinstance(bound, float) and off <= bound


def row(found: Mapping[str, Any]) -> str:
    """Return how an example ended, in words."""
    if not found:
        return "not run: the time was up"
    if "reason" in found:
        return f"left out: {found['reason']}"
    if "stops" in found:
        told = re.sub(r"\S*/site-packages/", "", found["error"].replace("`", "'"))
        return f"stops under {'Warp' if found['stops'] == 'warp' else 'diffkern'}: {told}"
    off = largest(found["differences"])
    if isinstance(off, str) or off is None:
        return f"differs: {off or 'no outputs'}"
    told = f"{off:.1g} after {found['frames']} frames"
    if off <= _TOLERANCE:
        return f"agrees: {told}"
    alone = found.get("nudged", {})
    if not all(isinstance(alone.get(name), float) for name in found["differences"]):
        return f"differs: {told}"
    is_rounding = all(one <= max(_TOLERANCE, _ROUNDINGS * alone[name]) for name, one in found["differences"].items())
    return f"{'rounding' if is_rounding else 'differs'}: {told}, {largest(alone):.1g} under Warp alone"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="survey", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("seconds", type=float, help="after which no example is begun; 0 shows what is known")
    parser.add_argument("--python", type=Path, required=True, help="the Python of an environment with the package")
    parser.add_argument("--results", type=Path, default=Path(".neighbours/examples.json"), metavar="FILE")
    parser.add_argument("--cache", type=Path, default=Path(".neighbours/cache"), metavar="FOLDER")
    parser.add_argument("--only", default="", metavar="PATTERN", help="examples whose names it is found in")
    parser.add_argument("--again", action="store_true", help="run examples again whose results there are")
    parser.add_argument("--frames", type=int, default=3, help="how many are done")
    parser.add_argument("--rst", type=Path, metavar="FILE", help="where to write the table of the documentation")
    parser.add_argument("--limit", type=float, default=300.0, help="seconds of processor time that a request may take")
    return parser


if __name__ == "__main__":
    sys.exit(main())
