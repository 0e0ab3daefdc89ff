"""Static expressions: what Python evaluates where a function is defined.

In the syntax tree of a function, a :class:`Given` takes the place of each call of ``dk.static``; the results are kept
with the function. An expression that needs the variable of a loop, or a name that is not defined yet, is a
:class:`Later`: it is evaluated while the function is lowered, over what its other names meant at the definition.
"""

from __future__ import annotations

import ast
import copy
import enum
import inspect
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from types import BuiltinFunctionType, CodeType, ModuleType
from typing import Any, Final

from diffkern.errors import KernelTypeError, Loc
from diffkern.frontend.syntax.plain import settled, snapshot
from diffkern.frontend.syntax.scope import MISSING, NameScope
from diffkern.frontend.syntax.survey import Path, Survey, chain_of
from diffkern.lang.static import keep_results, kept_results, static
from diffkern.process.dataclass import dataclass

__all__ = [
    "Evaluator",
    "Given",
    "Later",
    "Sized",
    "Statics",
    "failure",
    "names_of_static",
    "replace_statics",
    "variables_of_statics",
]


class Given(ast.expr):
    """A place in the tree for a static expression: the number of its result."""

    _fields = ()
    index: int


@dataclass(frozen=True)
class Sized:
    """A variable of which an expression may know nothing but the length."""

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
    is_plain
        Whether text, names and variables say what the results are: ``known`` is a copy of plain data, and the
        expression computes with operators and a few functions of Python's own.
    """

    expression: ast.expr
    code: CodeType
    known: Mapping[str, Any]
    variables: frozenset[str]
    scope: NameScope
    is_plain: bool = False
    _values: dict[tuple[Any, ...], tuple[Any, Any]] = field(default_factory=dict)

    def over(self, exchanged: Callable[[Any], Any]) -> Later:
        """Return the same expression over other meanings of its names, with the results that are known already."""
        values = {key: (held, exchanged(found)) for key, (held, found) in self._values.items()}
        known = exchanged(dict(self.known))
        return Later(self.expression, self.code, known, self.variables, self.scope, self.is_plain, values)

    def value(self, of_variables: Mapping[str, Any]) -> Any:
        """Return the result for given values of the variables; each is evaluated once.

        Raises
        ------
        Exception
            Whatever evaluating it raises.
        """
        key = tuple((name, _mark(v)) for name, v in sorted(of_variables.items()))
        # The same expression is lowered again for each guess of a loop's types, and must always give the same object.
        if key not in self._values:
            names = {name for name in _names(self.expression) if name not in of_variables and name not in self.known}
            # Names that had no meaning at the definition are looked up now.
            late = {name: obj for name in names if (obj := self.scope.found(name)) is not MISSING}
            found = settled(eval(self.code, {**late, **self.known, **of_variables}))
            self._values[key] = of_variables, found  # what is marked by its address has to live on
        return self._values[key][1]


def _mark(value: Any) -> Any:
    """Return a mark that tells one value of a variable from others."""
    if isinstance(value, tuple):
        return tuple(map(_mark, value))
    # By type and text: ``1 == 1.0 == True``, and ``0.0 == -0.0``.
    if type(value) in (bool, int, float, str, Sized):
        return type(value), repr(value)
    return id(value)


@dataclass(frozen=True)
class Statics:
    """The places of a function's static expressions, and which names stand for ``static``.

    Attributes
    ----------
    called : tuple of Path
        The names and chains of attributes that the function calls.
    names : frozenset of Path
        Which of these stand for ``static``.
    places : tuple of (int, int, int, int)
        The calls: first line and column, last line and column, as Python counts them.
    variables : frozenset of str
        The function's variables, without those of static expressions; asked for if there are such expressions.
    """

    called: tuple[Path, ...]
    names: frozenset[Path] = frozenset()
    places: tuple[tuple[int, int, int, int], ...] = ()
    variables: frozenset[str] = frozenset()


def replace_statics(
    definition: ast.FunctionDef, pyfunc: Callable[..., Any], survey: Survey, locate: Callable[[ast.AST], Loc]
) -> Statics:
    """Put the places of results where static expressions stand, in place, and keep the results with the function.

    Returns where they were.

    Raises
    ------
    KernelTypeError
        If an expression cannot be evaluated.
    """
    scope = NameScope(pyfunc)
    static_names = names_of_static(survey.called, scope)
    if not static_names:
        return Statics(survey.called)
    # A function that is parsed again keeps the results of its definition.
    results = kept_results(pyfunc)
    variables = _variables(definition, static_names)
    finder = _Finder(static_names, Evaluator(scope, variables, locate), results)
    # The visitor goes into the body alone: decorators and defaults are evaluated by Python itself.
    for stmt in definition.body:
        finder.visit(stmt)
    if results is None and finder.found:
        keep_results(pyfunc, finder.found)
    return Statics(survey.called, static_names, tuple(finder.places), variables)


def names_of_static(called: Iterable[Path], scope: NameScope) -> frozenset[Path]:
    """Return which of the chains of names that a function calls stand for ``static``."""
    return frozenset(path for path in called if _stands_for_static(path, scope))


def _stands_for_static(path: Path, scope: NameScope) -> bool:
    obj = scope.lookup(path[0])
    for name in path[1:]:
        obj = scope.attribute(obj, name)
    return obj is static


def _variables(definition: ast.FunctionDef, static_names: frozenset[Path]) -> frozenset[str]:
    """Return the variables of a function, without those of static expressions themselves."""
    arguments = definition.args
    found = {a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)}
    pending: list[ast.AST] = list(definition.body)
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        if not (isinstance(node, ast.Call) and chain_of(node.func) in static_names):
            pending += ast.iter_child_nodes(node)
    return frozenset(found)


class _Finder(ast.NodeTransformer):
    """A transformer of calls of ``static``; in an expression that is one already, inner ones are plain calls."""

    def __init__(self, static_names: frozenset[Path], evaluator: Evaluator, results: list[Any] | None) -> None:
        self.static_names, self.evaluator, self.results = static_names, evaluator, results
        self.found: list[Any] = []
        self.places: list[tuple[int, int, int, int]] = []

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if chain_of(node.func) not in self.static_names:
            return self.generic_visit(node)
        index = len(self.found)
        self.places.append((node.lineno, node.col_offset, node.end_lineno or 0, node.end_col_offset or 0))
        self.found.append(self.evaluator.result(node) if self.results is None else self.results[index])
        given = ast.copy_location(Given(), node)
        given.index = index
        return given


class Evaluator:
    """Evaluation of calls of ``static`` in a function that has some variables."""

    def __init__(self, scope: NameScope, variables: frozenset[str], locate: Callable[[ast.AST], Loc]) -> None:
        self.scope, self.variables, self.locate = scope, variables, locate

    def result(self, node: ast.Call) -> Any:
        """Return what a call gives, or a :class:`Later`.

        Raises
        ------
        KernelTypeError
            If its expression cannot be evaluated.
        """
        if len(node.args) != 1 or node.keywords or isinstance(node.args[0], ast.Starred):
            raise KernelTypeError(
                "static takes one expression", loc=self.locate(node), remedy="write static((a, b)) for a tuple"
            )
        expression = node.args[0]
        # What a comprehension sets is no variable of the function.
        own = _bound(expression)
        names = _names(expression) - own
        known = {name: self.scope.found(name) for name in names - self.variables}
        present = {name: obj for name, obj in known.items() if obj is not MISSING}
        whole = ast.fix_missing_locations(ast.Expression(expression))
        code = compile(whole, self.locate(node).file, "eval", dont_inherit=True)
        later = Later(expression, code, present, names & self.variables, self.scope)
        # Where all names are known, only the variables of loops are awaited.
        if later.variables and len(present) == len(known):
            return _plain(later) or later
        if len(present) < len(known):
            return later
        try:
            return settled(eval(code, dict(present)))
        except NameError:  # what it calls is not defined completely yet
            return later
        except Exception as error:
            raise failure(error, self.locate(node)) from error


# Whose results depend on nothing but the arguments, which are data.
_FUNCTIONS: Final = (
    abs, bool, complex, divmod, float, int, len, max, min, pow, range, round, sum, tuple,
    *(f for f in vars(math).values() if isinstance(f, BuiltinFunctionType)),
)  # fmt: skip
_SYNTAX: Final = (
    ast.Name, ast.Constant, ast.Subscript, ast.Slice, ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.IfExp,
    ast.Tuple, ast.List, ast.Dict, ast.operator, ast.unaryop, ast.boolop, ast.cmpop, ast.expr_context,
)  # fmt: skip


def _plain(later: Later) -> Later | None:
    """Return the expression over a copy of what its names mean, None if these, or what it does with them, are no plain
    data.

    Chains of attributes of modules and classes are names in it.
    """
    found: dict[str, Any] = {}
    try:
        expression = _Plain(later, found).visit(copy.deepcopy(later.expression))
    except (TypeError, AttributeError):
        return None
    code = compile(ast.fix_missing_locations(ast.Expression(expression)), later.code.co_filename, "eval")
    return Later(expression, code, found, later.variables, later.scope, is_plain=True)


class _Plain(ast.NodeTransformer):
    """A transformer of names to names of copies; a TypeError says that something is no plain data."""

    def __init__(self, later: Later, found: dict[str, Any]) -> None:
        self.later, self.found = later, found

    def visit(self, node: ast.AST) -> Any:
        if isinstance(node, ast.Call):
            return self._call(node)
        if isinstance(node, (ast.Name, ast.Attribute)):
            return self._name(node)
        if not isinstance(node, _SYNTAX):
            raise TypeError(type(node).__name__)
        return self.generic_visit(node)

    def _call(self, node: ast.Call) -> ast.AST:
        called = self._object(node.func)
        if not any(called is function for function in _FUNCTIONS) or node.keywords:
            raise TypeError("a call")
        node.args = [self.visit(argument) for argument in node.args]
        node.func = self._named(node.func, called)
        return node

    def _name(self, node: ast.Name | ast.Attribute) -> ast.expr:
        if isinstance(node, ast.Name) and node.id in self.later.variables:
            return node
        return self._named(node, snapshot(self._object(node)))

    def _named(self, node: ast.expr, obj: Any) -> ast.expr:
        # A user's name has no ``$``, so that the copy cannot stand for another name.
        name = ast.unparse(node).replace(".", "$")
        self.found[name] = obj
        return ast.copy_location(ast.Name(name, ast.Load()), node)

    def _object(self, node: ast.expr) -> Any:
        """Return what a name or a chain of attributes of modules and classes stands for."""
        if isinstance(node, ast.Name) and node.id in self.later.known:
            return self.later.known[node.id]
        if not isinstance(node, ast.Attribute):
            raise TypeError("no name from outside")
        owner = self._object(node.value)
        if isinstance(owner, enum.EnumMeta) and node.attr in owner.__members__:
            return owner.__members__[node.attr]
        if type(owner) not in (ModuleType, type):  # which find attributes by code of their own
            raise TypeError("an attribute of an object")
        # Without a descriptor's code, which could give something else each time.
        return inspect.getattr_static(owner, node.attr)


def failure(error: Exception, loc: Loc) -> KernelTypeError:
    """Return the error for a static expression that cannot be evaluated."""
    return KernelTypeError(
        f"static(...) cannot be evaluated: {type(error).__name__}: {error}",
        loc=loc,
        remedy="it is a Python expression of what is known where the function is defined: globals, closure variables, "
        "variables of loops with constant bounds",
    )


def _names(node: ast.AST) -> frozenset[str]:
    return frozenset(n.id for n in ast.walk(node) if isinstance(n, ast.Name))


def _bound(node: ast.AST) -> frozenset[str]:
    """Return the names that an expression sets itself: in comprehensions and lambdas."""
    stored = {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    return frozenset(stored | {n.arg for n in ast.walk(node) if isinstance(n, ast.arg)})


def variables_of_statics(pyfunc: Callable[..., Any]) -> frozenset[str]:
    """Return the variables of a function that its static expressions use."""
    results = kept_results(pyfunc) or ()
    return frozenset(name for found in results if isinstance(found, Later) for name in found.variables)
