"""From a Python function to its syntax tree, with positions as in the user's file.

In: a Python function. Out: a :class:`Source`: the ``def`` as an AST whose line numbers are those of the file, the
file's lines, and :meth:`Source.loc` for error messages and for the IR.
"""

from __future__ import annotations

import ast
import functools
import inspect
import linecache
import os
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from diffkern.errors import KernelSyntaxError, Loc

__all__ = ["Source", "get_source"]


@dataclass(frozen=True, eq=False)
class Source:
    """A function's syntax tree and text.

    Attributes
    ----------
    file
        Path as shown in messages.
    node
        The ``def``; its positions count lines from the start of the file and columns from the line's start.
    first_line
        The line of the first decorator, or of the ``def``.
    lines
        The lines of the function, from ``first_line`` on.
    """

    file: str
    node: ast.FunctionDef
    first_line: int
    lines: tuple[str, ...]

    def text(self, line: int) -> str:
        """A line of the function, by its number in the file."""
        k = line - self.first_line
        return self.lines[k] if 0 <= k < len(self.lines) else ""

    def loc(self, node: ast.AST) -> Loc:
        """The position of a node."""
        line = getattr(node, "lineno", self.node.lineno)
        end_line = getattr(node, "end_lineno", None)
        text = self.text(line)
        end_col = getattr(node, "end_col_offset", None)
        end_text = self.text(end_line) if end_line is not None else ""
        return Loc(
            self.file,
            line,
            _characters(text, getattr(node, "col_offset", 0)),
            end_line,
            None if end_col is None else _characters(end_text, end_col),
            text,
        )

    def numbered_lines(self) -> dict[int, str]:
        """Line number → text, for the whole function."""
        return {self.first_line + k: text for k, text in enumerate(self.lines)}


def _characters(text: str, offset: int) -> int:
    """AST columns count UTF-8 bytes; carets count characters."""
    if text.isascii():
        return offset
    return len(text.encode()[:offset].decode(errors="replace"))


def _shown_path(path: str) -> str:
    """The path relative to the current directory when it lies below it."""
    if path.startswith("<"):
        return path
    try:
        relative = os.path.relpath(path)
    except ValueError:  # another drive
        return path
    return path if relative.startswith("..") else relative


@functools.lru_cache(maxsize=1024)
def _parse(file: str, code: Any) -> tuple[ast.FunctionDef, int, tuple[str, ...]]:
    # Code objects are equal without regard to their files, so the file is an argument of its own.
    # linecache also serves IPython's cells and registered sources; stale entries would show lines that moved.
    linecache.checkcache(file)
    found = _quick(file, code)
    if found is None:
        raw, first_line = inspect.getsourcelines(code)
        tree = ast.parse(textwrap.dedent("".join(raw)))
    else:
        raw, first_line, tree = found
    indent = len(raw[0]) - len(raw[0].lstrip())
    definition = tree.body[0]
    if not isinstance(definition, ast.FunctionDef):
        raise SyntaxError(f"{type(definition).__name__} instead of a def")
    first_line = max(first_line, 1)
    for node in ast.walk(definition):
        if isinstance(node, (ast.stmt, ast.expr, ast.arg, ast.keyword)):
            node.lineno += first_line - 1
            node.col_offset += indent
            if node.end_lineno is not None and node.end_col_offset is not None:
                node.end_lineno += first_line - 1
                node.end_col_offset += indent
    return definition, first_line, tuple(line.rstrip("\r\n") for line in raw)


def _quick(file: str, code: Any) -> tuple[list[str], int, ast.Module] | None:
    """The lines of a def, found by their indentation; None where that is not enough.

    ``inspect`` asks all modules for their files and splits the text into tokens, which takes most of the time of
    finding a compiled kernel. A def that is cut in a bracket or a text does not parse, so what parses is whole.
    """
    lines = linecache.getlines(file)
    start = code.co_firstlineno - 1
    if not 0 <= start < len(lines):
        return None
    indent = len(lines[start]) - len(lines[start].lstrip())
    head = lines[start][:indent]
    seen_def, end = False, start
    for k in range(start, len(lines)):
        text = lines[k].strip()
        if not text or text[0] == "#":
            continue
        if not lines[k].startswith(head) or lines[k][indent] not in " \t)]}":
            if seen_def:
                break
            seen_def = lines[k].startswith(("def ", "async def "), indent)
        end = k + 1
    raw = lines[start:end]
    try:
        tree = ast.parse(textwrap.dedent("".join(raw)))
    except SyntaxError:  # a text with lines further left, or something else than a def
        return None
    whole = len(tree.body) == 1 and isinstance(tree.body[0], ast.FunctionDef) and tree.body[0].name == code.co_name
    return (raw, start + 1, tree) if whole else None


def get_source(pyfunc: Callable[..., Any]) -> Source:
    """The source of a function.

    Raises
    ------
    KernelSyntaxError
        If Python cannot find it, or if it is not a ``def``.
    """
    code = pyfunc.__code__
    loc = Loc(_shown_path(code.co_filename), code.co_firstlineno, 0)
    if code.co_name == "<lambda>":
        raise KernelSyntaxError("a lambda cannot be compiled", loc=loc, remedy="write it as a def")
    try:
        node, first_line, lines = _parse(code.co_filename, code)
    except (OSError, TypeError) as error:
        raise KernelSyntaxError(
            f"the source of {pyfunc.__name__} cannot be found ({error})",
            loc=loc,
            remedy="define it in a file or a notebook cell; for code made by exec, register the text with "
            "linecache.cache under the code's file name",
        ) from error
    except SyntaxError as error:
        raise KernelSyntaxError(
            f"{pyfunc.__name__} is not defined by a plain def ({error})", loc=loc, remedy="write it as a def"
        ) from error
    return Source(_shown_path(code.co_filename), node, first_line, lines)
