"""Annotations that are text: what they mean, and which names that depends on.

A text is evaluated in the scope of the function that it annotates something in, as Python would do it there; the names
and chains of attributes that it reads are found without that.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from types import CodeType
from typing import Any, Final

from diffkern.frontend.syntax.scope import NameScope
from diffkern.frontend.syntax.survey import Path, chain_of
from diffkern.lang.annotations import Reference
from diffkern.lang.patterns import tuple_items
from diffkern.process.dataclass import dataclass

__all__ = ["AnnotationText", "evaluate_annotation", "read_annotation", "texts_in"]

# Of these, and of calls and subscripts of what a library has, names alone say what the result is.
_SYNTAX: Final = (
    ast.Expression, ast.Name, ast.Attribute, ast.Constant, ast.Call, ast.keyword, ast.Subscript, ast.Tuple, ast.List,
    ast.BinOp, ast.BitOr, ast.UnaryOp, ast.USub, ast.expr_context,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class AnnotationText:
    """A text as Python reads it.

    Attributes
    ----------
    code : code object
        Its code.
    paths : tuple of Path
        The names and chains of attributes that it reads, also in texts in it.
    called : tuple of Path
        Those that it calls or subscripts.
    is_plain : bool
        Whether it has no other operations than those.
    """

    code: CodeType
    paths: tuple[Path, ...]
    called: tuple[Path, ...]
    is_plain: bool


@functools.lru_cache(maxsize=2048)
def read_annotation(text: str) -> AnnotationText:
    """Return a text as Python reads it.

    Raises
    ------
    SyntaxError, ValueError
        If it is no expression.
    """
    tree = ast.parse(text.lstrip(" \t"), "<annotation>", "eval")
    paths: dict[Path, None] = {}
    called: dict[Path, None] = {}
    is_plain = True
    for node in ast.walk(tree):
        if isinstance(node, (ast.Name, ast.Attribute)):
            # Of ``a.b`` inside of ``a.b.c`` the walk meets both; the shorter one is taken out below.
            if path := chain_of(node):
                paths[path] = None
        elif isinstance(node, (ast.Call, ast.Subscript)):
            path = chain_of(node.func if isinstance(node, ast.Call) else node.value)
            called[path] = None
            is_plain &= bool(path)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            # A forward reference in a text, as in ``"dk.array['float']"``.
            inner = _inner(node.value)
            paths.update(dict.fromkeys(inner.paths if inner else ()))
            called.update(dict.fromkeys(inner.called if inner else ()))
            is_plain &= inner is None or inner.is_plain
        is_plain &= isinstance(node, _SYNTAX)
    longest = [p for p in paths if not any(p != other and p == other[: len(p)] for other in paths)]
    return AnnotationText(
        compile(tree, "<annotation>", "eval", dont_inherit=True), tuple(longest), tuple(called), is_plain
    )


def _inner(text: str) -> AnnotationText | None:
    """Return a text in a text as read; None if it is no expression, as a text that stands for itself."""
    try:
        return read_annotation(text)
    except (SyntaxError, ValueError):
        return None


def evaluate_annotation(annotation: Any, scope: NameScope) -> Any:
    """Return an annotation as an object; text is evaluated, also text in text.

    ``from __future__ import annotations`` turns annotations into text, and quotes around quoted ones.

    Raises
    ------
    Exception
        Whatever evaluating the text raises.
    """
    for _ in range(2):
        if isinstance(annotation, str):
            if annotation in scope.meant:
                return scope.meant[annotation]
            annotation = eval(read_annotation(annotation).code, scope.globals, scope.namespace())
    return annotation


def texts_in(annotation: Any) -> Iterator[str]:
    """Yield the texts that are to be evaluated for what a parameter's annotation means."""
    if isinstance(annotation, str):
        yield annotation
    elif isinstance(annotation, Reference):
        yield from texts_in(annotation.dtype)
    elif (items := tuple_items(annotation)) is not None:
        for item in items[0]:
            yield from texts_in(item)
