"""Generated source that needs nothing of diffkern: the definitions that it would import are copied.

From modules of Python source, whose text is read and which are not imported, and names of theirs, :func:`copied`
returns the statements at their top level that define the names, and all that these use, in an order in which they run;
for functions of libdevice that are defined by their rows in the operation table alone, equivalent lines.

Copied statements must name what they use in the plain way: names of the same module, imports of other modules, and
``from diffkern.… import name`` without another name.
"""

from __future__ import annotations

import ast
import builtins
import functools
import importlib.util
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from diffkern.errors import CompileError
from diffkern.ir.ops.table import all_ops
from diffkern.process.dataclass import dataclass

__all__ = ["CopiedSource", "copied"]

_OWN = "diffkern."
_ANNOTATION = re.compile(r": Any(?=[,)=\s])| -> Any(?=:)")
_COMMENT = re.compile(r"  # (noqa|type:)[^#\n]*")


@dataclass(frozen=True)
class CopiedSource:
    """Copied statements.

    Attributes
    ----------
    imports : tuple of str
        The imports of other packages, sorted.
    definitions : tuple of str
        The rest. Adjacent lines form one entry.
    names : frozenset of str
        The names that all of them define.
    """

    imports: tuple[str, ...]
    definitions: tuple[str, ...]
    names: frozenset[str]


@dataclass(frozen=True)
class _Statement:
    """A statement at the top level of a module."""

    module: str
    line: int
    defines: tuple[str, ...]
    uses: frozenset[str]
    text: str
    is_import: bool


def copied(module: str, names: Iterable[str]) -> CopiedSource:
    """Return the statements that define names of a module.

    Parameters
    ----------
    module : str
        Its full name.
    names : iterable of str
        The names that are needed.

    Raises
    ------
    LookupError
        If it does not define one.
    CompileError
        If one is a function that only diffkern has.
    """
    names = frozenset(names)
    found: dict[_Statement, None] = {}
    # Functions of libdevice have no source to copy, so their defining lines are generated.
    more: list[str] = []
    for name in sorted(names):
        line, uses = (None, (name,)) if name in _statements(module) else _of_row(module, name)
        more += [] if line is None else [line]
        for used in uses:
            _collect(module, used, found)
    imports = sorted(s.text for s in found if s.is_import)
    # What is copied of another module comes before what needs it.
    rest = sorted((s for s in found if not s.is_import), key=lambda s: (s.module == module, s.module, s.line))
    definitions: list[str] = []
    for before, s in zip([None, *rest], rest, strict=False):
        joined = before is not None and "\n" not in s.text and "\n" not in before.text
        definitions[-1:] = [f"{definitions[-1]}\n{s.text}"] if joined else [*definitions[-1:], s.text]
    definitions += ["\n".join(more)] if more else []
    return CopiedSource(
        tuple(imports), tuple(definitions), frozenset(name for s in found for name in s.defines) | {*names}
    )


def _of_row(module: str, name: str) -> tuple[str, tuple[str, ...]]:
    """Return the line that defines a function of libdevice, and the names of the module that it uses."""
    row = all_ops().get(name)
    if row is None or row.library is None or not row.library.libdevice:
        raise LookupError(f"{module} defines no {name!r}")
    if not isinstance(row.twin, np.ufunc):
        raise CompileError(
            f"{name} has no form outside of diffkern: NumPy does not have it",
            remedy=f"define it in {module}, or do without it in what is exported",
        )
    factory = "elementary_of_two" if row.arity == 2 else "elementary"
    return f'{name} = {factory}("{row.library.libdevice}", np.{row.twin.__name__})', (factory, "np")


def _collect(module: str, name: str, found: dict[_Statement, None]) -> None:
    statement = _statements(module).get(name)
    if statement is None:
        # Built-in names need no definition; anything else would fail when the copy runs.
        if not hasattr(builtins, name):
            raise LookupError(f"{module} defines no {name!r}")
        return
    if statement in found:
        return
    # An import from diffkern itself is followed to where the name is defined.
    if statement.text.startswith(f"from {_OWN}"):
        _collect(statement.text.split()[1], name, found)
        return
    # Entered before its uses are followed, as functions may call each other.
    found[statement] = None
    for used in sorted(statement.uses):
        if used in _statements(module):
            _collect(module, used, found)


@functools.cache
def _statements(module: str) -> dict[str, _Statement]:
    """Return the statements of a module by the names that they define."""
    spec = importlib.util.find_spec(module)
    assert spec is not None
    assert spec.origin is not None
    source = Path(spec.origin).read_text(encoding="utf-8")
    lines = source.splitlines()
    out: dict[str, _Statement] = {}
    for node in ast.parse(source).body:
        for part in _split(node):
            defines = tuple(_defined(part))
            first = min([part.lineno, *(d.lineno for d in getattr(part, "decorator_list", ()))])
            text = "\n".join(lines[first - 1 : part.end_lineno]) if part is node else ast.unparse(part)
            is_import = isinstance(part, (ast.Import, ast.ImportFrom))
            # Every name counts as a use, local ones included: an unknown one is skipped later.
            uses = frozenset(n.id for n in ast.walk(part) if isinstance(n, ast.Name)) - {*defines, "Any"}
            statement = _Statement(module, part.lineno, defines, uses, _plain(text), is_import)
            out.update(dict.fromkeys(defines, statement))
    return out


def _split(node: ast.stmt) -> Iterator[ast.stmt]:
    """Iterate over a statement, or where it defines several names independently, over one for each."""
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        for alias in node.names:
            one = (
                ast.Import([alias])
                if isinstance(node, ast.Import)
                else ast.ImportFrom(node.module, [alias], node.level)
            )
            yield ast.copy_location(one, node)
        return
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Tuple) and isinstance(node.value, ast.Tuple):
        for target, value in zip(node.targets[0].elts, node.value.elts, strict=True):
            yield ast.copy_location(ast.Assign([target], value), node)
        return
    yield node


def _defined(node: ast.stmt) -> Iterator[str]:
    match node:
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.Import(names=names) | ast.ImportFrom(names=names):
            yield from (alias.asname or alias.name for alias in names)
        case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
            yield name
        case ast.If(body=body, orelse=orelse):
            for inner in (*body, *orelse):
                yield from _defined(inner)


def _plain(text: str) -> str:
    """Return the text without annotations, which numba does not read, and remarks for tools."""
    return _COMMENT.sub("", _ANNOTATION.sub("", text.replace(": Any = ", "=")))
