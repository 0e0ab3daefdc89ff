"""Run the programs of the gallery at full size, and keep what the documentation shows of them.

In: ``examples``, and the table in ``docs/_ext/gallery.py``. Out, in ``docs/gallery``: a figure and a thumbnail of each
program, and ``results.json`` with what it printed, without times by the clock, and the processor time it took, with the
day and the processor. ``python tools/gallery.py`` runs all,
``python tools/gallery.py heat fluid`` some. The exit status is 1 if a program fails, or says that a gradient is wrong.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import platform
import re
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image

ROOT = Path(__file__).resolve().parents[1]
GALLERY = ROOT / "docs" / "gallery"
sys.path.insert(0, str(ROOT / "docs" / "_ext"))

from gallery import PROGRAMS, Program  # noqa: E402

THUMBNAIL, WIDTH = (400, 250), 1100  # pixels
# A page has one time, of the processor: that by the clock says more about what else the machine did.
CLOCK = re.compile(r"(?: in|,)? \(?\d+(?:\.\d+)? s\)?(?=[;,]|$)")


def run(name: str, program: Program) -> dict[str, object] | None:
    """Run a program elsewhere and keep its figure; None if it failed."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with tempfile.TemporaryDirectory() as place:
        figure = Path(place) / f"{name}.{'gif' if program.animated else 'png'}"
        command = [sys.executable, str(ROOT / "examples" / f"{name}.py"), "--out", figure.name]
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "MPLBACKEND": "agg"}
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, cwd=place, env=environment, check=False)
        if done.returncode != 0 or not figure.is_file():
            return None
        keep(name, program, figure)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    printed = [CLOCK.sub("", line) for line in done.stdout.rstrip().splitlines()]
    when = dt.datetime.now(dt.timezone.utc).date().isoformat()
    return {"processor_seconds": round(seconds), "measured": when, "processor": processor(), "printed": printed}


def processor() -> str:
    """Return the name of the processor, as Linux has it."""
    information = Path("/proc/cpuinfo")
    text = information.read_text(encoding="utf-8") if information.is_file() else ""
    named = re.search(r"^model name\s*: (.+)$", text, re.MULTILINE)
    return named[1] if named else platform.processor() or platform.machine()


def keep(name: str, program: Program, file: Path) -> None:
    """Write the figure and its thumbnail."""
    with Image.open(file) as opened:
        if program.animated:
            opened.seek(opened.n_frames - 1)
            (GALLERY / file.name).write_bytes(file.read_bytes())
        image = opened.convert("RGB")
    image.thumbnail((WIDTH, 10 * WIDTH), Image.Resampling.LANCZOS)
    image.save(GALLERY / f"{name}.jpg", quality=82, optimize=True)
    thumbnail(name, program)


def thumbnail(name: str, program: Program) -> None:
    """Cut out of a figure the part that is its thumbnail."""
    with Image.open(GALLERY / f"{name}.jpg") as image:
        left, top, right, bottom = program.part
        box = (left * image.width, top * image.height, right * image.width, bottom * image.height)
        part = image.crop(tuple(map(int, box)))
    part.thumbnail(THUMBNAIL, Image.Resampling.LANCZOS)
    paper = Image.new("RGB", THUMBNAIL, "white")
    paper.paste(part, ((THUMBNAIL[0] - part.width) // 2, (THUMBNAIL[1] - part.height) // 2))
    paper.save(GALLERY / f"{name}_thumbnail.jpg", quality=80, optimize=True)


def main(arguments: list[str] | None = None) -> int:
    """Run programs; returns how many failed, at most 1."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="programs to run; all if there is none")
    parser.add_argument("--thumbnails", action="store_true", help="run nothing: cut the thumbnails out of the figures")
    options = parser.parse_args(arguments)
    names = options.names or list(PROGRAMS)
    if unknown := [name for name in names if name not in PROGRAMS]:
        parser.error(f"no program of the gallery: {', '.join(unknown)}; there are {', '.join(PROGRAMS)}")
    if options.thumbnails:
        for name in names:
            thumbnail(name, PROGRAMS[name])
        return 0
    failed, file = [], GALLERY / "results.json"
    for name in names:
        print(f"--- {name}", flush=True)
        if (result := run(name, PROGRAMS[name])) is None:
            failed.append(name)
            continue
        kept = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
        kept[name] = result
        ordered = {key: kept[key] for key in PROGRAMS if key in kept}
        file.write_text(json.dumps(ordered, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        print(f"{result['processor_seconds']} s of processor time", flush=True)
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return min(len(failed), 1)


if __name__ == "__main__":
    raise SystemExit(main())
