"""Build the documentation of several versions side by side, each page with a menu of the others.

    python tools/docs_versions.py site                # each tag vX.Y.Z that is not there yet, and the current commit
    python tools/docs_versions.py site v0.2.0 main    # those alone

In: commits of this repository, and a folder. Out, in the folder: the documentation of a tag vX.Y.Z in X.Y.Z, that of
another commit in a folder of its name (that of the commit checked out in ``main``), ``versions.js`` with the versions
and their pages, which the menu reads, and ``index.html``, which leads to the newest release. Nothing is taken from the
network: the folder works from a disk as well as from a server. Warnings are errors, as everywhere.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

RELEASE = re.compile(r"v(\d+)\.(\d+)\.(\d+)")
CURRENT = "main"
ROOT = Path(__file__).resolve().parents[1]
_INDEX = """<!DOCTYPE html>
<html lang="en">
<head><meta charset="utf-8"><title>{name}</title><meta http-equiv="refresh" content="0; url={name}/index.html"></head>
<body><a href="{name}/index.html">{name}</a></body>
</html>
"""


def releases(root: Path) -> list[str]:
    """Return the tags of releases, newest first."""
    tags = _git(root, "tag", "--list").split()
    return sorted(filter(RELEASE.fullmatch, tags), key=_number, reverse=True)


def _number(tag: str) -> tuple[int, ...]:
    return tuple(map(int, tag.removeprefix("v").split(".")))


def folder_of(commit: str) -> str:
    """Return the name of a version: that of a tag without its v, for the commit checked out "main"."""
    return commit.removeprefix("v") if RELEASE.fullmatch(commit) else commit.replace("/", "-")


def build(root: Path, site: Path, commit: str) -> None:
    """Build the documentation of a commit, with the package of that commit."""
    wanted = "HEAD" if commit == CURRENT else commit
    with tempfile.TemporaryDirectory(prefix="diffkern-docs-") as place:
        tree = Path(place) / "tree"
        _git(root, "worktree", "add", "--quiet", "--detach", str(tree), wanted)
        try:
            name = folder_of(commit)
            options = ["-q", "-W", "--keep-going", "-b", "html", "-A", f"in_versions={name}", "-d", f"{place}/trees"]
            command = [sys.executable, "-m", "sphinx", *options, tree / "docs", site / name]
            subprocess.run(command, check=True, env={**os.environ, "PYTHONPATH": str(tree)})
        finally:
            _git(root, "worktree", "remove", "--force", str(tree))


def write_list(site: Path) -> list[str]:
    """Write what the menu reads, and the page that leads to the newest release; return the versions, newest first."""
    built = [path.parent.name for path in site.glob("*/objects.inv")]
    numbered = sorted((name for name in built if RELEASE.fullmatch(f"v{name}")), key=_number, reverse=True)
    names = numbered + sorted(set(built) - set(numbered))
    pages = {
        name: sorted(path.relative_to(site / name).as_posix() for path in (site / name).rglob("*.html"))
        for name in names
    }
    versions = [{"name": name, "pages": pages[name]} for name in names]
    (site / "versions.js").write_text(f"var DIFFKERN_VERSIONS = {json.dumps(versions)};\n", encoding="utf-8")
    (site / "index.html").write_text(_INDEX.format(name=names[0]), encoding="utf-8")
    return names


def _git(root: Path, *arguments: str) -> str:
    return subprocess.run(["git", "-C", root, *arguments], check=True, stdout=subprocess.PIPE, text=True).stdout


def main(arguments: Sequence[str] | None = None, root: Path = ROOT) -> int:
    """Build versions and write the list of all that are in the folder."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("site", type=Path, help="the folder")
    parser.add_argument("commits", nargs="*", metavar="COMMIT", help=f"tags, branches or {CURRENT}")
    options = parser.parse_args(arguments)
    site = options.site.resolve()
    missing = [tag for tag in releases(root) if not (site / folder_of(tag) / "objects.inv").is_file()]
    for commit in options.commits or [*missing, CURRENT]:
        print(f"building {folder_of(commit)}", flush=True)
        build(root, site, commit)
    print(f"{site / 'index.html'}: {', '.join(write_list(site))}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
