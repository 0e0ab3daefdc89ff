"""The part of a function's text that its key depends on, remembered for later processes, which need not parse it.

A Python function has an :class:`Outline`: its syntax tree as bytes and the names that it reads from outside. They
follow from the text of its file, the code that Python made of it (with which the text was compared), and the names that
stand for ``dk.static`` there: an outline is valid only if all three are the same. Static expressions are evaluated
again in each process, from their own texts.
"""

from __future__ import annotations

import ast
import hashlib
import json
import linecache
import weakref
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any, Final

from diffkern.errors import Loc
from diffkern.frontend.syntax.code import code_digest
from diffkern.frontend.syntax.encoding import encode_tree
from diffkern.frontend.syntax.scope import NameScope
from diffkern.frontend.syntax.source import Parsed, as_parsed, get_source, location, shown_path
from diffkern.frontend.syntax.static import Evaluator, names_of_static, variables_of_statics
from diffkern.frontend.syntax.survey import Path, captured_names
from diffkern.lang.remembered import memory
from diffkern.lang.static import keep_results, kept_results
from diffkern.lang.text import certain_text, is_changed
from diffkern.process.dataclass import dataclass

__all__ = ["Outline", "outline_of"]


@dataclass(frozen=True, slots=True)
class Outline:
    """The part of a function's text that its key depends on.

    Attributes
    ----------
    tree : bytes
        Its encoded syntax tree.
    captured : tuple of Path
        The names and chains of attributes that it reads from outside, in order.
    called : tuple of Path
        Those that it calls.
    of_static : tuple of Path
        Which of these stand for ``static``.
    statics : tuple of (int, int, int, int)
        The positions of such calls: first line and column, last line and column, as Python counts them.
    variables : tuple of str
        Its variables, if there are any.
    unrolled : tuple of str
        Those of them that static expressions use.
    annotations : tuple of (str, str)
        As of :class:`~diffkern.frontend.syntax.survey.Survey`.
    """

    tree: bytes
    captured: tuple[Path, ...]
    called: tuple[Path, ...]
    of_static: tuple[Path, ...]
    statics: tuple[tuple[int, int, int, int], ...]
    variables: tuple[str, ...]
    unrolled: tuple[str, ...]
    annotations: tuple[tuple[str, str], ...]

    def encoded(self) -> bytes:
        """Return it as bytes."""
        return json.dumps({**asdict(self), "tree": self.tree.decode("latin-1")}, separators=(",", ":")).encode()

    @classmethod
    def decoded(cls, data: bytes) -> Outline:
        """Return the outline from its bytes."""
        found = json.loads(data)
        tuples: dict[str, Any] = {name: tuple(map(tuple, found[name])) for name in _PATHS}
        tuples |= {name: tuple(found[name]) for name in ("variables", "unrolled")}
        return cls(tree=found["tree"].encode("latin-1"), **tuples)


_PATHS: Final = ("captured", "called", "of_static", "statics", "annotations")

_known: Final[weakref.WeakKeyDictionary[Any, tuple[Any, Outline]]] = weakref.WeakKeyDictionary()


def outline_of(pyfunc: Callable[..., Any]) -> Outline:
    """Return the outline of a function; its static expressions are evaluated by then.

    Raises
    ------
    KernelSyntaxError, KernelTypeError
        As :func:`~diffkern.frontend.syntax.source.get_source`.
    """
    code = pyfunc.__code__
    known = _known.get(pyfunc)
    if known is not None and known[0] is code:
        return known[1]
    found = _remembered(pyfunc) or _of_tree(pyfunc)
    _known[pyfunc] = code, found
    return found


def _of_tree(pyfunc: Callable[..., Any]) -> Outline:
    """Parse a function, and remember its outline."""
    definition = get_source(pyfunc).node
    parsed = as_parsed(pyfunc)
    outline = Outline(
        tree=encode_tree(definition),
        captured=tuple(captured_names(definition)),
        called=parsed.statics.called,
        of_static=tuple(sorted(parsed.statics.names)),
        statics=parsed.statics.places,
        variables=tuple(sorted(parsed.statics.variables)),
        unrolled=tuple(sorted(variables_of_statics(pyfunc))),
        annotations=parsed.survey.annotations,
    )
    lines = _lines(pyfunc)
    if lines is not None and lines is parsed.text and _is_remembered(parsed):
        memory().keep(_digest(lines), _name(pyfunc), outline.encoded())
    return outline


def _is_remembered(parsed: Parsed) -> bool:
    """Return whether the outline of a function is right wherever its text and its code are the same."""
    if "\f" in "".join(parsed.lines) or not parsed.like.is_exact:  # a form feed moves columns
        return False
    return not (parsed.like.owner and parsed.statics.places)  # the text of which has other names


def _remembered(pyfunc: Callable[..., Any]) -> Outline | None:
    """Return the outline found by an earlier process, if it is right here."""
    lines = _lines(pyfunc)
    found = None if lines is None else memory().find(_digest(lines), _name(pyfunc))
    if lines is None or found is None:
        return None
    outline, scope = Outline.decoded(found), NameScope(pyfunc)
    # Another module may have bound the name `static` to something else, with the same text.
    if names_of_static(outline.called, scope) != frozenset(outline.of_static):
        return None
    if outline.statics and kept_results(pyfunc) is None:
        keep_results(pyfunc, _evaluated(pyfunc, outline, scope, lines))
    # The results decide which loops are unrolled, and with that the tree.
    return outline if variables_of_statics(pyfunc) == frozenset(outline.unrolled) else None


def _evaluated(pyfunc: Callable[..., Any], outline: Outline, scope: NameScope, lines: Sequence[str]) -> list[Any]:
    """Return the results of the static expressions of a function, from their places in the file's text."""
    locate = partial(_location, shown_path(pyfunc.__code__.co_filename), lines)
    evaluator = Evaluator(scope, frozenset(outline.variables), locate)
    return [evaluator.result(_call_at(lines, place)) for place in outline.statics]


def _location(file: str, lines: Sequence[str], node: ast.AST) -> Loc:
    return location(file, lambda line: lines[line - 1].rstrip("\r\n"), node)


def _call_at(lines: Sequence[str], place: tuple[int, int, int, int]) -> ast.Call:
    """Parse the call at a place of a text; positions are those of the text."""
    line, column, end_line, end_column = place
    # In bytes: Python counts columns in UTF-8.
    part = "".join(lines[line - 1 : end_line]).encode()
    last = len("".join(lines[line - 1 : end_line - 1]).encode())
    text = part[column : last + end_column].decode()
    # In brackets, so that a call over several lines is one expression; they shift the first line by one column.
    call = ast.parse(f"({text})", mode="eval").body
    assert isinstance(call, ast.Call)
    for node in ast.walk(call):
        if isinstance(node, (ast.expr, ast.keyword)):
            node.col_offset += column - 1 if node.lineno == 1 else 0
            node.end_col_offset += column - 1 if node.end_lineno == 1 else 0  # type: ignore[operator]
            node.lineno += line - 1
            node.end_lineno += line - 1  # type: ignore[operator]
    return call


# -- the key of an outline ---------------------------------------------------------------------------------------------

_MOST: Final = 256
"""Texts of which the digest is kept."""

_digests: Final[dict[int, tuple[list[str], bytes]]] = {}


def _lines(pyfunc: Callable[..., Any]) -> list[str] | None:
    """Return the text of the file that a function is from; None if that is not certain, or it is no file."""
    entry = linecache.cache.get(pyfunc.__code__.co_filename)
    if entry is None or len(entry) < 4 or entry[1] is None:  # a cell of a notebook, a registered text
        return None
    return None if is_changed(pyfunc) else certain_text(pyfunc)


def _digest(lines: list[str]) -> bytes:
    """Return the digest of a file's text."""
    known = _digests.get(id(lines))
    # With the list itself: an address may belong to another text by now.
    if known is None or known[0] is not lines:
        while len(_digests) >= _MOST:
            _digests.pop(next(iter(_digests)), None)
        known = _digests[id(lines)] = lines, hashlib.sha256("".join(lines).encode(errors="surrogatepass")).digest()
    return known[1]


def _name(pyfunc: Callable[..., Any]) -> bytes:
    """Return the key of a function among those of its file."""
    code = pyfunc.__code__
    return hashlib.sha256(b"%d " % code.co_firstlineno + code_digest(code)).digest()
