"""Fold the entries of ``changelog.d`` into ``CHANGELOG.md``, under the version of ``diffkern/_version.py``.

``towncrier`` writes a section of its own for each call. If the section of the version is there already, its entries are
added to it here, below the last entry under their heading. ``--draft`` prints the new section and writes nothing.
"""

from __future__ import annotations

import argparse
import datetime as dt
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CHANGELOG = ROOT / "CHANGELOG.md"
FRAGMENTS = ROOT / "changelog.d"
MARK = "<!-- entries of changelog.d go below this line -->\n"
KINDS = {kind.lower(): kind for kind in ("Added", "Changed", "Deprecated", "Removed", "Fixed")}
"""Kinds of entries and their headings, in the order of a section."""

Entries = dict[str, list[str]]


def read(folder: Path = FRAGMENTS) -> Entries:
    """Return the waiting entries by heading, each in one line, in the order of their files."""
    found: Entries = {}
    for path in sorted(folder.glob("*.*.md")):
        kind = path.name.split(".")[1]
        if kind not in KINDS:
            raise SystemExit(f"{path.name}: no kind {kind}; changelog.d/README.md lists them")
        found.setdefault(KINDS[kind], []).append(" ".join(path.read_text(encoding="utf-8").split()))
    return {heading: found[heading] for heading in KINDS.values() if heading in found}


def fold(text: str, version: str, date: str, entries: Entries) -> str:
    """Return the changelog with entries added to the section of a version, which begins if it is not there.

    Parameters
    ----------
    text : str
        The changelog.
    version, date : str
        Of the release. A section that is there keeps its date.
    entries : dict of str to list of str
        Entries by heading.

    Returns
    -------
    str
        The new changelog.
    """
    if not entries:
        return text
    above, mark, below = text.partition(MARK)
    if not mark:
        raise SystemExit(f"{CHANGELOG.name} lacks the line {MARK.strip()}")
    sections = re.split(r"^(?=## )", below, flags=re.MULTILINE)
    at = next((k for k, section in enumerate(sections) if section.startswith(f"## {version} ")), None)
    if at is None:
        sections.insert(1, f"## {version} ({date})\n\n")
        at = 1
    for heading, told in entries.items():
        sections[at] = _added(sections[at], heading, told)
    return above + mark + "".join(sections)


def _added(section: str, heading: str, told: list[str]) -> str:
    """Add entries at the end of the part of a section below a heading, in a group of their own if it has groups."""
    bullets = "\n".join(f"- {entry}" for entry in told)
    parts = re.split(r"^(?=### )", section, flags=re.MULTILINE)
    for k, part in enumerate(parts):
        if part.startswith(f"### {heading}\n"):
            group = "\n\nBesides:\n\n" if re.search(r"^[^-#\n].*:$", part, re.MULTILINE) else "\n"
            parts[k] = part.rstrip() + ("\n" if "\nBesides:\n" in part else group) + bullets + "\n\n"
            return "".join(parts)
    order = list(KINDS.values())
    before = (k for k, part in enumerate(parts) if (m := re.match(r"### (\w+)", part)) and _later(order, m[1], heading))
    parts.insert(next(before, len(parts)), f"### {heading}\n\n{bullets}\n\n")
    return "".join(parts)


def _later(order: list[str], one: str, other: str) -> bool:
    return one in order and order.index(one) > order.index(other)


def main(argv: list[str] | None = None) -> int:
    """Fold, and remove the files that were folded."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draft", action="store_true", help="print what would be written")
    parser.add_argument("--date", help="date of a new section, today by default")
    options = parser.parse_args(argv)
    namespace: dict[str, str] = {}
    exec((ROOT / "diffkern" / "_version.py").read_text(encoding="utf-8"), namespace)
    version = namespace["__version__"]
    if options.draft:
        return subprocess.run(
            [sys.executable, "-m", "towncrier", "build", "--draft", "--version", version], cwd=ROOT, check=False
        ).returncode
    entries = read()
    date = options.date or dt.datetime.now(dt.timezone.utc).date().isoformat()
    text = fold(CHANGELOG.read_text(encoding="utf-8"), version, date, entries)
    CHANGELOG.write_text(text, encoding="utf-8")
    for path in FRAGMENTS.glob("*.*.md"):
        path.unlink()
    print(f"{sum(map(len, entries.values()))} entries under {version}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
