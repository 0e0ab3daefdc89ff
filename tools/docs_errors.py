"""Run the programs of ``docs/errors``: one for each class of errors, with what raises it and what to write instead.

A program has three parts: what both need, behind ``# wrong`` what raises the error that the file is named after, and
behind ``# instead`` what runs. Messages count the lines of what the page shows.
"""

from __future__ import annotations

import linecache
import re
from pathlib import Path

__all__ = ["entry", "parts", "programs", "run", "shown"]

ROOT = Path(__file__).resolve().parents[1]
_MARK = re.compile(r"^# (wrong|instead)\n", re.MULTILINE)


def programs() -> list[Path]:
    """Return the programs."""
    return sorted((ROOT / "docs" / "errors").glob("*.py"))


def parts(path: Path) -> tuple[str, str, str]:
    """Return what both parts need, what is wrong and what to write instead."""
    common, first, wrong, second, instead = _MARK.split(path.read_text(encoding="utf-8"))
    assert (first, second) == ("wrong", "instead")
    return common, wrong, instead


def shown(path: Path, part: str) -> str:
    """Return a program with one of its parts, ``wrong`` or ``instead``."""
    common, wrong, instead = parts(path)
    return f"{common.strip()}\n\n\n{(wrong if part == 'wrong' else instead).strip()}\n"


def run(path: Path, part: str) -> None:
    """Run such a program."""
    text, name = shown(path, part), "example.py"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    exec(compile(text, name, "exec"), {"__name__": f"docs_errors_{path.stem}_{part}"})


def entry(path: Path) -> str:
    """Return a program as reStructuredText: what is wrong, the message, and what to write instead."""
    try:
        run(path, "wrong")
    except Exception as error:
        found, message = type(error).__name__, str(error)
    else:
        raise SystemExit(f"{path} raises nothing")
    if found != path.stem:
        raise SystemExit(f"{path} raises {found}: {message}")
    run(path, "instead")
    head = f".. autoclass:: diffkern.{found}\n   :members:\n   :show-inheritance:\n"
    return "\n".join(
        [
            f"{found}\n{'^' * len(found)}\n\n{head}",
            _block("python", shown(path, "wrong")),
            "raises\n",
            _block("text", f"{found}: {message}"),
            "Instead:\n",
            _block("python", parts(path)[2]),
        ]
    )


def _block(language: str, text: str) -> str:
    lines = "\n".join(f"   {line}".rstrip() for line in text.strip().splitlines())
    return f".. code-block:: {language}\n\n{lines}\n"
