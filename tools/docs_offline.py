"""Check that built documentation is complete offline: no page takes a script, style, font or picture from the network.

    python tools/docs_offline.py docs/_build/html

Links that a reader follows may lead anywhere. The exit status is 1 if anything is found.
"""

from __future__ import annotations

import re
import sys
from html.parser import HTMLParser
from pathlib import Path

LOADS = {"script": "src", "img": "src", "iframe": "src", "source": "src", "video": "src", "object": "data"}
OUTSIDE = re.compile(r"^(https?:)?//")
IN_STYLES = re.compile(r"""url\(\s*["']?((?:https?:)?//[^)"']+)|@import\s+["']((?:https?:)?//[^"']+)""")


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        # Of the kinds of <link>, canonical addresses and neighbouring pages are named and not loaded.
        loaded = {"stylesheet", "icon", "preload"} & set((given.get("rel") or "").split())
        name = "href" if tag == "link" and loaded else LOADS.get(tag)
        if name and OUTSIDE.match(given.get(name) or ""):
            self.found.append(str(given[name]))


def loaded_from_outside(path: Path) -> list[str]:
    """Return the addresses outside of the documentation that a page or style sheet loads."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".css":
        return ["".join(found) for found in IN_STYLES.findall(text)]
    page = _Page()
    page.feed(text)
    return page.found


def main() -> int:
    root = Path(sys.argv[1])
    files = [path for path in sorted(root.rglob("*")) if path.suffix in (".html", ".css")]
    if not files:
        raise SystemExit(f"{root} has no built pages")
    found = [f"{path.relative_to(root)}: {address}" for path in files for address in loaded_from_outside(path)]
    print("\n".join(found) or f"{len(files)} files load nothing from the network")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
