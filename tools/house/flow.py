"""How a value is handed on: from a parameter of one function by the arguments of calls to others.

The value goes with what is made of it by unpacking, joining and looping, and with what functions return of it. It ends
where it is only looked at: an attribute of an element, a length, a comparison. It also ends in an object that is made
with it, unless these are followed too. A call of a method hands on its arguments, not the object itself.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from house.index import NONE, Class, Function, Index, Kinds
from house.sources import Module

_PASSING = frozenset({
    "list", "tuple", "dict", "set", "frozenset", "zip", "enumerate", "reversed", "sorted", "iter", "next", "map",
    "filter", "chain", "cast", "replace", "partial", "copy", "get", "values", "items", "pop",
})  # fmt: skip
"""Functions and methods that return what they are given, or parts of it."""


@dataclass(frozen=True)
class Hand:
    """One handing on: a function that passes the value to another one."""

    caller: Function
    callee: Function
    line: int


class Flow:
    """Where a value goes from a parameter of a function.

    Parameters
    ----------
    index : Index
        What the names of the package mean.
    start : Function
        Where it begins.
    parameter : str
        Which it is there.
    with_objects : bool, optional
        Whether objects that are made with the value are the value too.

    Attributes
    ----------
    hands : list of Hand
        Each pair of functions once.
    """

    def __init__(self, index: Index, start: Function, parameter: str, with_objects: bool = False) -> None:
        self.index, self.with_objects = index, with_objects
        self.returns: set[Function] = set()
        self._given: defaultdict[Function, set[str]] = defaultdict(set)
        self._callers: defaultdict[Function, set[Function]] = defaultdict(set)
        self._hands: dict[tuple[Function, Function], Hand] = {}
        self._given[start].add(parameter)
        self._left = [start]
        while self._left:
            self._look_at(self._left.pop())
        self.hands = sorted(self._hands.values(), key=lambda one: (one.caller.label, one.callee.label))

    def _look_at(self, function: Function) -> None:
        body = _Body(self, function, self._given[function])
        if body.returns and function not in self.returns:
            self.returns.add(function)
            self._left += sorted(self._callers[function], key=lambda caller: caller.label)
        for callee, names, line in body.calls:
            self._callers[callee].add(function)
            self._hands.setdefault((function, callee), Hand(function, callee, line))
            if not names <= self._given[callee]:
                self._given[callee] |= names
                self._left.append(callee)


class _Body:
    """What one function does with the value that some of its parameters are."""

    def __init__(self, flow: Flow, function: Function, given: set[str]) -> None:
        self.flow, self.function, self.index = flow, function, flow.index
        self.module: Module = function.module
        self.held = set(given)
        self.kinds: dict[str, Kinds] = {}
        self.returns = False
        self.calls: list[tuple[Function, set[str], int]] = []
        for parameter in function.parameters:
            self.kinds[parameter.arg] = self.index.annotated(self.module, parameter.annotation)
        if function.owner is not None and function.is_bound and function.parameters:
            self.kinds[function.parameters[0].arg] = Kinds(frozenset({function.owner}))
        nodes = list(_inside(function.node))
        for _ in range(3):  # until names that are assigned further down are known
            for node in nodes:
                self._assign(node)
        for node in nodes:
            if isinstance(node, ast.Call):
                self._call(node)
            elif isinstance(node, (ast.Return, ast.Yield, ast.YieldFrom)) and node.value is not None:
                self.returns = self.returns or self.is_value(node.value)

    # -- values ------------------------------------------------------------------------------------------------------

    def is_value(self, node: ast.expr) -> bool:
        """Whether an expression is the value, holds it, or is an object that does."""
        if isinstance(node, ast.Name):
            return node.id in self.held
        if isinstance(node, ast.Call):
            return self._is_result(node)
        if isinstance(node, ast.Subscript):
            return self.is_value(node.value)
        if isinstance(node, ast.IfExp):
            return self.is_value(node.body) or self.is_value(node.orelse)
        if isinstance(node, (ast.ListComp, ast.SetComp, ast.GeneratorExp)):
            return self.is_value(node.elt)
        if isinstance(node, ast.DictComp):
            return self.is_value(node.value)
        if isinstance(node, ast.Dict):
            return any(map(self.is_value, node.values))
        if isinstance(node, (ast.Tuple, ast.List, ast.Set, ast.BoolOp)):
            return any(map(self.is_value, node.values if isinstance(node, ast.BoolOp) else node.elts))
        if isinstance(node, (ast.Starred, ast.NamedExpr, ast.Await)):
            return self.is_value(node.value)
        return isinstance(node, ast.BinOp) and (self.is_value(node.left) or self.is_value(node.right))

    def _is_result(self, call: ast.Call) -> bool:
        """Whether the result of a call is the value."""
        passes = any(self.is_value(arg) for arg in call.args) or any(self.is_value(k.value) for k in call.keywords)
        if isinstance(made := self.index.meaning(self.module, call.func), Class):
            return passes and (self.flow.with_objects or _is_record(made))
        if found := self._reached(call):
            return passes and any(function in self.flow.returns for function in found)
        if isinstance(call.func, ast.Attribute):
            return call.func.attr in _PASSING and (passes or self.is_value(call.func.value))
        return isinstance(call.func, ast.Name) and call.func.id in _PASSING and passes

    def kinds_of(self, node: ast.expr) -> Kinds:
        """Return the kinds of an expression."""
        if isinstance(node, ast.Name):
            return self.kinds.get(node.id) or self.index.value_kinds(self.module, node.id)
        if isinstance(node, ast.Attribute):
            found = NONE
            for one in self.kinds_of(node.value).own:
                found |= self.index.attribute(one, node.attr)
            return found
        if isinstance(node, ast.Subscript):
            return Kinds(self.kinds_of(node.value).elements)
        if isinstance(node, ast.IfExp):
            return self.kinds_of(node.body) | self.kinds_of(node.orelse)
        if isinstance(node, ast.BoolOp):
            found = NONE
            for value in node.values:
                found |= self.kinds_of(value)
            return found
        if isinstance(node, ast.Call):
            made = self.index.meaning(self.module, node.func)
            if isinstance(made, Class):
                return Kinds(frozenset({made}))
            found = NONE
            for function in self._reached(node):
                found |= self.index.annotated(function.module, function.node.returns)
            return found
        return NONE

    def _assign(self, node: ast.AST) -> None:
        if isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.NamedExpr)) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in targets:
                self._bind(target, node.value)
        elif isinstance(node, (ast.For, ast.comprehension)):
            self._bind(node.target, node.iter, element=True)
        elif isinstance(node, ast.With):
            for item in node.items:
                if item.optional_vars is not None:
                    self._bind(item.optional_vars, item.context_expr)

    def _bind(self, target: ast.expr, value: ast.expr, element: bool = False) -> None:
        is_value = self.is_value(value)
        if isinstance(target, (ast.Tuple, ast.List)):
            pairs = value.elts if isinstance(value, ast.Tuple) and len(value.elts) == len(target.elts) else None
            for k, one in enumerate(target.elts):
                self._bind(one, value if pairs is None else pairs[k], element)
        elif isinstance(target, ast.Starred):
            self._bind(target.value, value, element)
        elif isinstance(target, ast.Name):
            if is_value:
                self.held.add(target.id)
            kinds = self.kinds_of(value)
            kinds = Kinds(kinds.elements) if element else kinds
            if kinds != NONE:
                self.kinds[target.id] = self.kinds.get(target.id, NONE) | kinds
        elif is_value and isinstance(target, ast.Subscript):
            self._bind(target.value, value)

    # -- calls -------------------------------------------------------------------------------------------------------

    def _reached(self, call: ast.Call) -> list[Function]:
        """Return the functions that a call may reach."""
        func = call.func
        found = self.index.meaning(self.module, func)
        if isinstance(found, Function):
            return [found]
        if isinstance(found, Class):
            made = found.method("__init__") or found.method("__new__")
            return [] if made is None else [made]
        if isinstance(func, ast.Name) and func.id == "cls" and self.function.owner is not None:
            made = self.function.owner.method("__init__")
            return [] if made is None else [made]
        if not isinstance(func, ast.Attribute):
            return []
        if isinstance(func.value, ast.Call) and isinstance(func.value.func, ast.Name) and func.value.func.id == "super":
            owner = self.function.owner
            above = [] if owner is None else [m for base in owner.bases if (m := base.method(func.attr)) is not None]
            return above[:1]
        kinds = self.kinds_of(func.value)
        return self.index.methods(kinds, func.attr) if kinds.own else self.index.only_method(func.attr)

    def _call(self, call: ast.Call) -> None:
        by_name = {k.arg: k.value for k in call.keywords if self.is_value(k.value)}
        places = [k for k, arg in enumerate(call.args) if self.is_value(arg)]
        if not by_name and not places:
            return
        target = call.args[0] if getattr(call.func, "id", "") == "partial" and call.args else None
        if target is not None:  # a function with some of its arguments, which somebody calls later
            call = ast.copy_location(ast.Call(target, call.args[1:], call.keywords), call)
            places = [k - 1 for k in places if k]
        for callee in self._reached(call):
            names = {name for name in by_name if name is not None}
            if None in by_name:
                names |= {one.arg for one in callee.node.args.kwonlyargs}
            is_bound = callee.is_bound and self._by_object(call, callee)
            parameters = callee.parameters[1:] if is_bound else callee.parameters
            starred = next((k for k, arg in enumerate(call.args) if isinstance(arg, ast.Starred)), len(call.args))
            for place in places:
                if place < min(len(parameters), starred + 1):
                    names.add(parameters[place].arg)
                elif callee.node.args.vararg is not None:
                    names.add(callee.node.args.vararg.arg)
            if names:
                self.calls.append((callee, names, call.lineno))

    def _by_object(self, call: ast.Call, callee: Function) -> bool:
        """Whether the first parameter of a method is not among the arguments of a call."""
        if isinstance(call.func, ast.Attribute) and isinstance(self.index.meaning(self.module, call.func.value), Class):
            return callee.name in ("__init__", "__new__") or "classmethod" in map(
                ast.unparse, callee.node.decorator_list
            )
        return True


def _is_record(made: Class) -> bool:
    """Whether a class is what it is made with: a dataclass, a named tuple."""
    decorators = {ast.unparse(d).partition("(")[0].rpartition(".")[2] for d in made.node.decorator_list}
    return "dataclass" in decorators or any(ast.unparse(base) == "NamedTuple" for base in made.node.bases)


def _inside(function: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a function, those of functions in it too."""
    for node in ast.iter_child_nodes(function):
        yield node
        yield from _inside(node)
