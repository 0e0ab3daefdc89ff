"""Functions and classes of a package: what names and annotations mean, and which functions a call may reach."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache, cached_property

from house.sources import Module, Package

_COMMON = frozenset(
    name for kind in (list, dict, set, str, bytes, tuple, int, float) for name in dir(kind) if not name.startswith("_")
) | {"run", "close", "write", "read", "start", "stop", "name", "result", "wait", "put", "send"}
"""Names of methods that say nothing about their object."""


@dataclass(eq=False)
class Function:
    """A function or a method."""

    module: Module
    name: str
    node: ast.FunctionDef | ast.AsyncFunctionDef
    owner: Class | None = None

    @cached_property
    def parameters(self) -> list[ast.arg]:
        """Those by position, then those by name."""
        args = self.node.args
        return [*args.posonlyargs, *args.args, *args.kwonlyargs]

    @property
    def is_bound(self) -> bool:
        """Whether calls by way of an object leave the first parameter out."""
        return self.owner is not None and not any(ast.unparse(d) == "staticmethod" for d in self.node.decorator_list)

    @property
    def label(self) -> str:
        inside = self.name if self.owner is None else f"{self.owner.name}.{self.name}"
        return f"{self.module.name}:{inside}"


@dataclass(eq=False)
class Class:
    """A class."""

    module: Module
    name: str
    node: ast.ClassDef
    methods: dict[str, Function] = field(default_factory=dict)
    bases: list[Class] = field(default_factory=list)
    derived: list[Class] = field(default_factory=list)

    @property
    def label(self) -> str:
        return f"{self.module.name}:{self.name}"

    def line(self) -> Iterator[Class]:
        """Yield the class and those above it."""
        yield self
        for base in self.bases:
            yield from base.line()

    def below(self) -> Iterator[Class]:
        """Yield the classes that are derived from it."""
        for other in self.derived:
            yield other
            yield from other.below()

    def method(self, name: str) -> Function | None:
        """Return the method that objects of the class have."""
        return next((found for one in self.line() if (found := one.methods.get(name)) is not None), None)


@dataclass(frozen=True)
class Kinds:
    """What classes a value may have, and its elements."""

    own: frozenset[Class] = frozenset()
    elements: frozenset[Class] = frozenset()

    def __or__(self, other: Kinds) -> Kinds:
        return Kinds(self.own | other.own, self.elements | other.elements)


NONE = Kinds()


class Index:
    """All functions and classes of a package."""

    def __init__(self, package: Package) -> None:
        self.package = package
        assert package.imports is not None  # which notes what names mean
        self.functions: dict[tuple[str, str], Function] = {}
        self.classes: dict[tuple[str, str], Class] = {}
        self._values: dict[tuple[str, str], ast.expr] = {}
        for module in package.modules.values():
            self._look_through(module)
        self._named: defaultdict[str, list[Function]] = defaultdict(list)
        for one in self.classes.values():
            for base in one.node.bases:
                named = base.value if isinstance(base, ast.Subscript) else base
                if isinstance(above := self.meaning(one.module, named), Class):
                    one.bases.append(above)
                    above.derived.append(one)
            for method in one.methods.values():
                self._named[method.name].append(method)
        self._fill_protocols()
        self.attribute = cache(self._attribute)

    def _look_through(self, module: Module) -> None:
        for node in module.tree.body:
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                self.functions[module.name, node.name] = Function(module, node.name, node)
            elif isinstance(node, ast.ClassDef):
                made = self.classes[module.name, node.name] = Class(module, node.name, node)
                for inner in node.body:
                    if isinstance(inner, (ast.FunctionDef, ast.AsyncFunctionDef)):
                        made.methods.setdefault(inner.name, Function(module, inner.name, inner, made))
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                self._values[module.name, node.target.id] = node.value if node.value is not None else node.annotation
            elif isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
                self._values[module.name, node.targets[0].id] = node.value

    def _fill_protocols(self) -> None:
        """Let classes that have all methods of a protocol be derived from it."""
        for one in list(self.classes.values()):
            is_protocol = any(ast.unparse(base).partition("[")[0].endswith("Protocol") for base in one.node.bases)
            wanted = {name for name in one.methods if not name.startswith("__")}
            for other in self.classes.values() if is_protocol and wanted else ():
                known = {name for above in other.line() for name in above.methods}
                if other is not one and other not in one.derived and wanted <= known:
                    one.derived.append(other)

    # -- names -------------------------------------------------------------------------------------------------------

    def meaning(self, module: Module, node: ast.expr) -> Function | Class | Module | None:
        """Return what a dotted name means in a module, if that is something of the package."""
        if isinstance(node, ast.Name):
            return self._named_in(module, node.id, frozenset())
        if isinstance(node, ast.Attribute):
            above = self.meaning(module, node.value)
            if isinstance(above, Module):
                inner = self.package.modules.get(f"{above.name}.{node.attr}")
                return inner if inner is not None else self._named_in(above, node.attr, frozenset())
            if isinstance(above, Class):
                return above.method(node.attr)
        return None

    def _named_in(self, module: Module, name: str, seen: frozenset[str]) -> Function | Class | Module | None:
        key = module.name, name
        if (found := self.functions.get(key) or self.classes.get(key)) is not None:
            return found
        if name not in module.names or module.name in seen:
            return None
        place, inside = module.names[name]
        of = self.package.modules[place]
        return of if inside is None else self._named_in(of, inside, seen | {module.name})

    def value_kinds(self, module: Module, name: str) -> Kinds:
        """Return the kinds of a variable of a module, of its own or imported."""
        value = self._values.get((module.name, name))
        if value is None and name in module.names:
            place, inside = module.names[name]
            if inside is not None and place != module.name:
                return self.value_kinds(self.package.modules[place], inside)
        if isinstance(value, ast.Call) and isinstance(made := self.meaning(module, value.func), Class):
            return Kinds(frozenset({made}))
        return NONE

    # -- kinds -------------------------------------------------------------------------------------------------------

    def annotated(self, module: Module, node: ast.expr | None) -> Kinds:
        """Return the kinds that an annotation names: of a union all, of a container those of its elements."""
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            return self.annotated(module, ast.parse(node.value, mode="eval").body)
        if isinstance(node, ast.BinOp):
            return self.annotated(module, node.left) | self.annotated(module, node.right)
        if isinstance(node, ast.Subscript):
            if ast.unparse(node.value).rpartition(".")[2] in ("Optional", "Final", "ClassVar", "Annotated", "Union"):
                return self.annotated(module, node.slice)
            inner = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
            elements = [self.annotated(module, one) for one in inner]
            return Kinds(elements=frozenset(kind for one in elements for kind in (*one.own, *one.elements)))
        if isinstance(node, (ast.Name, ast.Attribute)):
            found = self.meaning(module, node)
            if isinstance(found, Class):
                return Kinds(frozenset({found}))
            alias = self._values.get((module.name, node.id)) if isinstance(node, ast.Name) else None
            if isinstance(alias, (ast.Subscript, ast.BinOp, ast.Constant)):
                return self.annotated(module, alias)
        return NONE

    def _attribute(self, one: Class, name: str) -> Kinds:
        """Return the kinds of an attribute of objects of a class."""
        for above in one.line():
            method = above.methods.get(name)
            if method is not None:
                return self.annotated(method.module, method.node.returns)
            for node in ast.walk(above.node):
                if isinstance(node, ast.AnnAssign) and _is_attribute(node.target, name):
                    return self.annotated(above.module, node.annotation)
            for node in ast.walk(above.node):
                if isinstance(node, ast.Assign) and any(_is_attribute(target, name) for target in node.targets):
                    found = self._assigned(above, node.value)
                    if found != NONE:
                        return found
        return NONE

    def _assigned(self, one: Class, value: ast.expr) -> Kinds:
        if isinstance(value, ast.Call) and isinstance(made := self.meaning(one.module, value.func), Class):
            return Kinds(frozenset({made}))
        if isinstance(value, ast.Name):  # a parameter of the constructor
            for method in one.methods.values():
                for parameter in method.parameters:
                    if parameter.arg == value.id and parameter.annotation is not None:
                        return self.annotated(one.module, parameter.annotation)
        return NONE

    # -- calls -------------------------------------------------------------------------------------------------------

    def methods(self, kinds: Kinds, name: str) -> list[Function]:
        """Return the methods of a name that objects of some kinds may have, those of derived classes too."""
        found: dict[Function, None] = {}
        for one in kinds.own:
            for candidate in (one, *one.below()):
                if (method := candidate.method(name)) is not None:
                    found[method] = None
        return list(found)

    def only_method(self, name: str) -> list[Function]:
        """Return the methods of a name if one class and those derived from it alone have it."""
        found = self._named[name]
        if name in _COMMON or not found:
            return []
        owners = {method.owner for method in found}
        roots = [one for one in owners if one is not None and not any(a in owners for a in [*one.line()][1:])]
        return found if len(roots) == 1 else []


def _is_attribute(target: ast.expr, name: str) -> bool:
    if isinstance(target, ast.Attribute):
        return target.attr == name and isinstance(target.value, ast.Name) and target.value.id == "self"
    return isinstance(target, ast.Name) and target.id == name
