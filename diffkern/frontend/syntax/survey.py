"""The kinds of nodes in a function's source, and the names that it calls.

:func:`survey_of` makes a :class:`Survey` of a parsed ``def`` in one pass over the tree. The tree walks defined here
take a third of the time of ``ast.walk``.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final

from diffkern.process.dataclass import dataclass

__all__ = ["Path", "Survey", "captured_names", "chain_of", "nodes", "parts_of", "survey_of", "walk"]

Path = tuple[str, ...]
"""A name and the attributes behind it."""


@dataclass(frozen=True)
class Survey:
    """The kinds of nodes, calls and annotations in the body of a function.

    Attributes
    ----------
    kinds : frozenset of type
        The types of its nodes.
    called : tuple of Path
        The names and chains of attributes that it calls, in the order in which they are met first.
    annotations : tuple of (str, str)
        The texts that are evaluated for what annotations in it mean: those of variables that are written as texts, and
        those of the parameters of functions that it defines, with the parameter's name.
    """

    kinds: frozenset[type[ast.AST]]
    called: tuple[Path, ...]
    annotations: tuple[tuple[str, str], ...]


_NO_NODES: Final = frozenset({"arg", "attr", "conversion", "ctx", "id", "kind", "level", "type_comment"})
"""Fields that hold no nodes in any class, or only what says whether a name is read or written."""


class _Fields(dict[type[ast.AST], tuple[str, ...]]):
    """The fields of each class of nodes that may hold nodes."""

    def __missing__(self, kind: type[ast.AST]) -> tuple[str, ...]:
        given = () if issubclass(kind, ast.Constant) else kind._fields
        found = self[kind] = tuple(name for name in given if name not in _NO_NODES)
        return found


_FIELDS: Final = _Fields()


def parts_of(node: ast.AST) -> list[ast.AST]:
    """Return the children of a node in order, without the nodes that say whether a name is read or written."""
    inside: list[ast.AST] = []
    for name in _FIELDS[type(node)]:
        value = getattr(node, name, None)
        if isinstance(value, ast.AST):
            inside.append(value)
        elif isinstance(value, list):
            inside += [item for item in value if isinstance(item, ast.AST)]
    return inside


def walk(*roots: ast.AST) -> list[ast.AST]:
    """Return the nodes of trees as ``ast.walk`` does, but without those that say whether a name is read or written."""
    found: list[ast.AST] = list(roots)
    for node in found:  # grows while it is walked
        for name in _FIELDS[type(node)]:
            value = getattr(node, name, None)
            if isinstance(value, ast.AST):
                found.append(value)
            elif isinstance(value, list):
                found += [item for item in value if isinstance(item, ast.AST)]
    return found


def nodes(*roots: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of trees, each before its children, without those that say whether a name is read or written."""
    pending: list[ast.AST] = list(reversed(roots))
    while pending:
        node = pending.pop()
        yield node
        inside = parts_of(node)
        inside.reverse()
        pending += inside


def survey_of(definition: ast.FunctionDef) -> Survey:
    """Return the survey of a function's body."""
    kinds: set[type[ast.AST]] = set()
    called: dict[Path, None] = {}
    annotations: list[tuple[str, str]] = []
    for node in nodes(*definition.body):
        kinds.add(type(node))
        if isinstance(node, ast.Call):
            if path := chain_of(node.func):
                called[path] = None
        elif isinstance(node, ast.AnnAssign):
            if isinstance(node.annotation, ast.Constant) and isinstance(node.annotation.value, str):
                annotations.append(("", node.annotation.value))
        elif isinstance(node, ast.arg) and node.annotation is not None:
            annotations.append((node.arg, ast.unparse(node.annotation)))
    return Survey(frozenset(kinds), tuple(called), tuple(annotations))


def chain_of(node: ast.AST) -> Path:
    """Return a name with the attributes behind it; an empty tuple for any other expression."""
    attributes: list[str] = []
    while isinstance(node, ast.Attribute):
        attributes.append(node.attr)
        node = node.value
    return (node.id, *reversed(attributes)) if isinstance(node, ast.Name) else ()


def captured_names(definition: ast.FunctionDef) -> list[Path]:
    """Return the names and attribute chains that the body reads from outside, in the order of the source."""
    arguments = definition.args
    local = {a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)}
    found: dict[Path, None] = {}
    for stmt in definition.body:
        _names(stmt, local, found)
    # What is stored anywhere in the body is local everywhere in it, as in Python.
    return [path for path in found if path[0] not in local]


def _names(node: ast.AST, stored: set[str], loaded: dict[Path, None]) -> None:
    """Add the names a node assigns and the chains it reads, in the order of the source."""
    # One pass without generators: this is half of the time of finding a compiled kernel.
    pending = [node]
    while pending:
        node = inner = pending.pop()
        attributes: list[str] = []
        while isinstance(inner, ast.Attribute):
            attributes.append(inner.attr)
            inner = inner.value
        if isinstance(inner, ast.Name):
            if isinstance(inner.ctx, ast.Load):
                loaded[(inner.id, *reversed(attributes))] = None
            elif isinstance(inner.ctx, ast.Store):
                # A chain is taken as a whole: its name is not met again by itself.
                stored.add(inner.id)
            continue
        found: list[ast.AST] = []
        for name in node._fields:
            value = getattr(node, name, None)
            if isinstance(value, ast.AST):
                found.append(value)
            elif isinstance(value, list):
                found += [item for item in value if isinstance(item, ast.AST)]
        found.reverse()
        pending += found
