"""Links from the pages of source text back to the reference lead to an entry, or are left out.

Sphinx takes the name under which a module was first documented for all names in it. A class that stands under another
module's name has an anchor with that name.
"""

from __future__ import annotations

import re
from typing import Any

from sphinx.application import Sphinx

LINK = re.compile(r'<a class="viewcode-back" href="((?:\.\./)*)([\w/]+)\.html#([\w.]+)">\[docs\]</a>')


def mended(body: str, entries: set[tuple[str, str]]) -> str:
    """Return a page's text whose back links lead to entries, which are pairs of a page and an anchor."""

    def link(found: re.Match[str]) -> str:
        _, page, anchor = found.groups()
        if (page, anchor) in entries:
            return found[0]
        for parts in (2, 1):  # a method with its class, or a class alone
            tail = "." + ".".join(anchor.split(".")[-parts:])
            others = {name for on, name in entries if on == page and name.endswith(tail)}
            if len(others) == 1:
                return found[0].replace(f"#{anchor}", f"#{others.pop()}")
        return ""

    return LINK.sub(link, body)


def mend(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: object) -> None:
    """Mend the links of a page of source text, before it is written."""
    if page.startswith("_modules/") and "body" in context:
        objects = app.env.get_domain("py").get_objects()
        context["body"] = mended(context["body"], {(on, anchor) for _, _, _, on, anchor, _ in objects})


def setup(app: Sphinx) -> dict[str, Any]:
    """Mend the pages as they are written."""
    app.connect("html-page-context", mend)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
