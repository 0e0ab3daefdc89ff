"""The modules of a package, parsed: names, files, trees, and which modules each imports, for types alone or not."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path


@dataclass(frozen=True)
class Import:
    """An import of one module by another."""

    importer: str
    imported: str
    line: int
    for_types: bool
    """Whether it stands under ``if TYPE_CHECKING``."""
    is_late: bool
    """Whether it stands in a function."""


@dataclass
class Module:
    """A module of the package."""

    name: str
    path: Path
    text: str
    is_package: bool
    names: dict[str, tuple[str, str | None]] = field(default_factory=dict)
    """What names mean that were imported, anywhere in it: a module, and a name in it or None for the module itself."""

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    @cached_property
    def lines(self) -> list[str]:
        return self.text.splitlines()

    @property
    def folder(self) -> str:
        """The package that the module is, or stands in."""
        return self.name if self.is_package else self.name.rpartition(".")[0]


class Package:
    """A package, read without importing it.

    Parameters
    ----------
    root : Path
        Its directory.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.modules: dict[str, Module] = {}
        for path in sorted(root.rglob("*.py")):
            parts = [root.name, *path.relative_to(root).with_suffix("").parts]
            is_package = parts[-1] == "__init__"
            name = ".".join(parts[:-1] if is_package else parts)
            self.modules[name] = Module(name, path, path.read_text(encoding="utf-8"), is_package)

    @cached_property
    def imports(self) -> list[Import]:
        """All imports of modules of the package by others, each statement once for each module."""
        return list(dict.fromkeys(one for module in self.modules.values() for one in self._of(module)))

    def _of(self, module: Module) -> Iterator[Import]:
        for_types = {
            id(inner)
            for node in ast.walk(module.tree)
            if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
            for statement in node.body
            for inner in ast.walk(statement)
        }
        late = {
            id(inner)
            for node in ast.walk(module.tree)
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
            for inner in ast.walk(node)
        }
        for node in ast.walk(module.tree):
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                for imported in self._targets(module, node):
                    if imported != module.name:
                        yield Import(module.name, imported, node.lineno, id(node) in for_types, id(node) in late)

    def _targets(self, module: Module, node: ast.Import | ast.ImportFrom) -> Iterator[str]:
        """Yield the modules that an import statement imports, and note what its names mean."""
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name in self.modules:
                    first = alias.name.partition(".")[0]
                    module.names[alias.asname or first] = (alias.name if alias.asname else first, None)
                    yield alias.name
            return
        base = node.module or ""
        if node.level:
            above = module.folder.split(".")
            base = ".".join([*above[: len(above) - node.level + 1], *([base] if base else [])])
        for alias in node.names:
            inner = f"{base}.{alias.name}"
            if inner in self.modules:
                module.names[alias.asname or alias.name] = (inner, None)
                yield inner
            elif base in self.modules:
                module.names[alias.asname or alias.name] = (base, alias.name)
                yield base

    def top(self, module: str) -> str:
        """Return the folder or file at the top to which a module belongs; the package's own file is one."""
        return module.partition(".")[2].partition(".")[0] or "__init__"
