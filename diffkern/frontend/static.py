"""Static expressions: what Python evaluates where a function is defined.

In: a function's syntax tree. Out: the tree with a :class:`Given` in the place of each call of ``dk.static``, and the
results, kept with the function. An expression that needs the variable of a loop, or a name that is not defined yet,
is a :class:`Later`: it is evaluated while the function is lowered, over what its other names meant at the definition.
"""

from __future__ import annotations

import ast
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import CodeType
from typing import Any

from diffkern.errors import KernelTypeError, Loc
from diffkern.frontend.scope import MISSING, Scope, static_attribute
from diffkern.lang.static import keep_results, kept_results, static

__all__ = ["Given", "Later", "Sized", "failure", "replace_statics", "variables_of_statics"]


class Given(ast.expr):
    """The place of a static expression: the number of its result."""

    _fields = ()
    index: int


@dataclass(frozen=True)
class Sized:
    """Stands for a variable of which an expression may know nothing but the length."""

    length: int

    def __len__(self) -> int:
        return self.length


@dataclass(eq=False)
class Later:
    """A static expression that cannot be evaluated at the definition.

    Attributes
    ----------
    expression
        Its syntax tree.
    code
        The same, compiled.
    known
        What its names meant at the definition.
    variables
        Its names that are variables of the function.
    token
        A name that no other expression has, in any process.
    """

    expression: ast.expr
    code: CodeType
    known: Mapping[str, Any]
    variables: frozenset[str]
    scope: Scope
    token: str = field(default_factory=lambda: uuid.uuid4().hex)
    _values: dict[tuple[Any, ...], Any] = field(default_factory=dict)

    def over(self, known: Mapping[str, Any]) -> Later:
        """The same expression over other meanings of its names."""
        return Later(self.expression, self.code, known, self.variables, self.scope)

    def value(self, of_variables: Mapping[str, Any]) -> Any:
        """The result for given values of the variables; each is evaluated once.

        Raises
        ------
        Exception
            Whatever evaluating it raises.
        """
        key = tuple((name, type(v), repr(v)) for name, v in sorted(of_variables.items()))
        if key not in self._values:
            names = {name for name in _names(self.expression) if name not in of_variables and name not in self.known}
            late = {name: obj for name in names if (obj := self.scope.found(name)) is not MISSING}
            self._values[key] = eval(self.code, {**late, **self.known, **of_variables})
        return self._values[key]


def replace_statics(definition: ast.FunctionDef, pyfunc: Callable[..., Any], locate: Callable[[ast.AST], Loc]) -> None:
    """Put the places of results where static expressions stand, in place, and keep the results with the function.

    Raises
    ------
    KernelTypeError
        If an expression cannot be evaluated.
    """
    scope = Scope(pyfunc)
    variables = _variables(definition, scope)
    if all(name != "static" and scope.found(name) is not static for name in _loaded(definition)):
        return
    results = kept_results(pyfunc)
    finder = _Finder(scope, variables, locate, results)
    for stmt in definition.body:
        finder.visit(stmt)
    if results is None and finder.found:
        keep_results(pyfunc, finder.found)


def _loaded(definition: ast.FunctionDef) -> set[str]:
    """Names and attributes that a function mentions."""
    found = {node.id for node in ast.walk(definition) if isinstance(node, ast.Name)}
    return found | {node.attr for node in ast.walk(definition) if isinstance(node, ast.Attribute)}


def _is_static(node: ast.AST, scope: Scope) -> bool:
    if not isinstance(node, ast.Call):
        return False
    names: list[str] = []
    inner = node.func
    while isinstance(inner, ast.Attribute):
        names.append(inner.attr)
        inner = inner.value
    if not isinstance(inner, ast.Name):
        return False
    obj = scope.lookup(inner.id)
    for name in reversed(names):
        obj = static_attribute(obj, name)
    return obj is static


def _variables(definition: ast.FunctionDef, scope: Scope) -> frozenset[str]:
    """The variables of a function, without those of static expressions themselves."""
    arguments = definition.args
    found = {a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)}
    pending: list[ast.AST] = list(definition.body)
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        if not _is_static(node, scope):
            pending += ast.iter_child_nodes(node)
    return frozenset(found)


class _Finder(ast.NodeTransformer):
    """Replaces calls of ``static``; in an expression that is one already, inner ones are plain calls."""

    def __init__(
        self, scope: Scope, variables: frozenset[str], locate: Callable[[ast.AST], Loc], results: list[Any] | None
    ) -> None:
        self.scope, self.variables, self.locate, self.results = scope, variables, locate, results
        self.found: list[Any] = []

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if not _is_static(node, self.scope):
            return self.generic_visit(node)
        if len(node.args) != 1 or node.keywords or isinstance(node.args[0], ast.Starred):
            raise KernelTypeError(
                "static takes one expression", loc=self.locate(node), remedy="write static((a, b)) for a tuple"
            )
        index = len(self.found)
        self.found.append(self._result(node) if self.results is None else self.results[index])
        given = ast.copy_location(Given(), node)
        given.index = index
        return given

    def _result(self, node: ast.Call) -> Any:
        expression = node.args[0]
        own = _bound(expression)
        names = _names(expression) - own
        known = {name: self.scope.found(name) for name in names - self.variables}
        present = {name: obj for name, obj in known.items() if obj is not MISSING}
        whole = ast.fix_missing_locations(ast.Expression(expression))
        code = compile(whole, self.locate(node).file, "eval", dont_inherit=True)
        later = Later(expression, code, present, names & self.variables, self.scope)
        if later.variables or len(present) < len(known):
            return later
        try:
            return eval(code, dict(present))
        except NameError:  # what it calls is not defined completely yet
            return later
        except Exception as error:
            raise failure(error, self.locate(node)) from error


def failure(error: Exception, loc: Loc) -> KernelTypeError:
    """The error for a static expression that cannot be evaluated."""
    return KernelTypeError(
        f"static(...) cannot be evaluated: {type(error).__name__}: {error}",
        loc=loc,
        remedy="it is a Python expression of what is known where the function is defined: globals, closure variables, "
        "variables of loops with constant bounds",
    )


def _names(node: ast.AST) -> frozenset[str]:
    return frozenset(n.id for n in ast.walk(node) if isinstance(n, ast.Name))


def _bound(node: ast.AST) -> frozenset[str]:
    """Names that an expression sets itself: in comprehensions and lambdas."""
    stored = {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    return frozenset(stored | {n.arg for n in ast.walk(node) if isinstance(n, ast.arg)})


def variables_of_statics(pyfunc: Callable[..., Any]) -> frozenset[str]:
    """Variables of a function that its static expressions use."""
    results = kept_results(pyfunc) or ()
    return frozenset(name for found in results if isinstance(found, Later) for name in found.variables)
