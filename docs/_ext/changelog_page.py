"""The directive ``changelog``: ``CHANGELOG.md`` as a page whose links work, below what waits in ``changelog.d``."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sphinx.util.docutils import SphinxDirective

if TYPE_CHECKING:
    from docutils.nodes import Node
    from sphinx.application import Sphinx

ROOT = Path(__file__).resolve().parents[2]
# Of tools, a folder whose other modules have the names of some here.
_spec = importlib.util.spec_from_file_location("changelog", ROOT / "tools" / "changelog.py")
assert _spec is not None
assert _spec.loader is not None
_changelog = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_changelog)

_LINK = r"\[([^\]]+)\]\(([^)\s]+)\)"


def _link(match: re.Match[str]) -> str:
    """A link of Markdown in reStructuredText, whose links hold plain text."""
    text, target = " ".join(match[1].replace("`", "").split()), match[2]
    if page := re.fullmatch(r"docs/([\w/]+)\.rst", target):
        return f":doc:`{text} </{page[1]}>`"
    return f"`{text} <{target}>`__"


def inline(text: str) -> str:
    """Turn the marks within a line or a paragraph of Markdown into those of reStructuredText."""
    pieces = []
    # Bold text around links loses its stars: neither nests in the other.
    text = re.sub(r"\*\*((?:(?!\*\*).)*\]\((?:(?!\*\*).)*)\*\*", r"\1", text, flags=re.DOTALL)
    end = 0
    for match in re.finditer(rf"{_LINK}|`([^`]+)`", text):
        pieces.append(text[end : match.start()].replace("\\", "\\\\").replace("|", "\\|"))
        # A role ends before white space or punctuation alone; an escaped blank ends it anywhere.
        pieces.append((_link(match) if match[1] else f"``{match[3]}``") + "\\ ")
        end = match.end()
    return "".join([*pieces, text[end:]])


def lines(markdown: str) -> Iterator[str]:
    """Yield the lines of a page for the part of Markdown that the changelog is written in."""
    for line in inline(markdown).splitlines():
        heading = re.match(r"(#{2,3}) (.*)", line)
        if heading:
            yield from ("", heading[2], ("-" if heading[1] == "##" else "~") * len(heading[2]), "")
        else:
            yield re.sub(r"^   (?=\S)", "   ", line)


class Changelog(SphinxDirective):
    """What waits for the next release, then all releases."""

    def run(self) -> list[Node]:
        self.env.note_dependency(str(ROOT / "CHANGELOG.md"))
        text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
        intro, _, releases = text.partition(_changelog.MARK)
        waiting = _changelog.read()
        told = "".join(f"\n### {k}\n\n" + "".join(f"- {entry}\n" for entry in v) for k, v in waiting.items())
        page = intro.split("\n", 1)[1] + (f"\n## Next\n{told}" if told else "") + releases
        return self.parse_text_to_nodes("\n".join(lines(page)), allow_section_headings=True)


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directive."""
    app.add_directive("changelog", Changelog)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
