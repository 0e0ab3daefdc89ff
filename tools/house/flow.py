"""How a value is handed on: from a parameter of one function by the arguments of calls to others.

The value goes with what is made of it by unpacking, joining and looping, and with what functions return of it: of a
tuple with those of its parts that are the value. It ends where it is only looked at: an attribute of an element, a
length, a comparison, a key that is looked up. It also ends in an object that is made with it, unless these are followed
too. A call of a method hands on its arguments, not the object itself.
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
    "filter", "chain", "cast", "replace", "partial", "copy", "get", "values", "items", "pop", "asarray", "view",
})  # fmt: skip
"""Functions and methods that return what they are given, or parts of it."""
_LOOKED_UP = frozenset({"get", "pop"})
"""Those of them whose first argument is a key or a position."""
_ADDING = frozenset({"append", "appendleft", "extend", "insert", "add", "update", "setdefault"})
"""Methods whose object holds what they are given."""


@dataclass(frozen=True)
class Each:
    """What of every entry of a list, or anything else to loop over, is the value."""

    entry: Parts


Parts = bool | Each | tuple["Parts", ...]
"""What of an expression is the value: all or nothing; of a tuple of known length, or of a list, what of the entries."""
_DEEPEST = 3


def joined(a: Parts, b: Parts, depth: int = 0) -> Parts:
    """Return what is the value of something that is one or the other."""
    if not is_some(a) or not is_some(b):
        found = a if is_some(a) else b
        return found if depth < _DEEPEST else is_some(found)
    if depth < _DEEPEST and isinstance(a, tuple) and isinstance(b, tuple) and len(a) == len(b):
        return tuple(joined(x, y, depth + 1) for x, y in zip(a, b, strict=True))
    if depth < _DEEPEST and isinstance(a, (tuple, Each)) and isinstance(b, (tuple, Each)):
        return Each(joined(entry_of(a), entry_of(b), depth + 1))
    return True


def is_some(parts: Parts) -> bool:
    """Return whether anything of an expression is the value."""
    if isinstance(parts, Each):
        return is_some(parts.entry)
    return any(map(is_some, parts)) if isinstance(parts, tuple) else parts


def entry_of(parts: Parts) -> Parts:
    """Return what is the value of any entry of something."""
    if isinstance(parts, Each):
        return parts.entry
    found: Parts = False
    for one in parts if isinstance(parts, tuple) else (parts,):
        found = joined(found, one)
    return found


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
        self.returns: defaultdict[Function, Parts] = defaultdict(bool)
        self._given: defaultdict[Function, dict[str, Parts]] = defaultdict(dict)
        self._callers: defaultdict[Function, set[Function]] = defaultdict(set)
        self._hands: dict[tuple[Function, Function], Hand] = {}
        self._given[start][parameter] = True
        self._left = [start]
        while self._left:
            self._look_at(self._left.pop())
        self.hands = sorted(self._hands.values(), key=lambda one: (one.caller.label, one.callee.label))

    def _look_at(self, function: Function) -> None:
        body = _Body(self, function, self._given[function])
        if (returns := joined(self.returns[function], body.returns)) != self.returns[function]:
            self.returns[function] = returns
            self._left += sorted(self._callers[function], key=lambda caller: caller.label)
        for callee, names, line in body.calls:
            self._callers[callee].add(function)
            self._hands.setdefault((function, callee), Hand(function, callee, line))
            given = self._given[callee]
            more = {name: joined(given.get(name, False), parts) for name, parts in names.items()}
            if any(given.get(name, False) != parts for name, parts in more.items()):
                given.update(more)
                self._left.append(callee)


class _Body:
    """What one function does with the value that some of its parameters are."""

    def __init__(self, flow: Flow, function: Function, given: dict[str, Parts]) -> None:
        self.flow, self.function, self.index = flow, function, flow.index
        self.module: Module = function.module
        self.held: dict[str, Parts] = dict(given)
        self.kinds: dict[str, Kinds] = {}
        self.returns: Parts = False
        self.calls: list[tuple[Function, dict[str, Parts], int]] = []
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
                self.returns = joined(self.returns, self.parts(node.value))

    # -- values ------------------------------------------------------------------------------------------------------

    def is_value(self, node: ast.expr) -> bool:
        """Whether an expression is the value, holds it, or is an object that does."""
        return is_some(self.parts(node))

    def parts(self, node: ast.expr) -> Parts:
        """Return what of an expression is the value."""
        if isinstance(node, ast.Name):
            return self.held.get(node.id, False)
        if isinstance(node, ast.Call):
            return self._parts_of_result(node)
        if isinstance(node, ast.Subscript):
            return self._parts_of_entry(node)
        if isinstance(node, ast.IfExp):
            return joined(self.parts(node.body), self.parts(node.orelse))
        if isinstance(node, ast.Tuple) and not any(isinstance(one, ast.Starred) for one in node.elts):
            return tuple(map(self.parts, node.elts))
        if isinstance(node, (ast.ListComp, ast.SetComp, ast.GeneratorExp)):
            return Each(self.parts(node.elt))
        if isinstance(node, (ast.Tuple, ast.List, ast.Set)):
            return Each(self._any_of([one.value if isinstance(one, ast.Starred) else one for one in node.elts]))
        if isinstance(node, (ast.DictComp, ast.Dict)):
            return any(map(self.is_value, node.values if isinstance(node, ast.Dict) else [node.value]))
        if isinstance(node, (ast.NamedExpr, ast.Await)):
            return self.parts(node.value)
        if isinstance(node, ast.BinOp):
            return self._any_of([node.left, node.right])
        return self._any_of(node.values) if isinstance(node, ast.BoolOp) else False

    def _any_of(self, nodes: list[ast.expr]) -> Parts:
        found: Parts = False
        for node in nodes:
            found = joined(found, self.parts(node))
        return found

    def _parts_of_entry(self, node: ast.Subscript) -> Parts:
        """Return what is the value of an entry, of a tuple by its position."""
        parts, place = self.parts(node.value), node.slice
        if isinstance(place, ast.Slice) or isinstance(parts, bool):
            return parts
        k = place.value if isinstance(place, ast.Constant) else None
        if isinstance(parts, tuple) and isinstance(k, int) and k < len(parts):
            return parts[k]
        return entry_of(parts)

    def _parts_of_result(self, call: ast.Call) -> Parts:
        """Return what of the result of a call is the value."""
        looked_up = isinstance(call.func, ast.Attribute) and call.func.attr in _LOOKED_UP
        passes = any(self.is_value(arg) for arg in call.args[looked_up:])
        passes = passes or any(self.is_value(k.value) for k in call.keywords)
        if isinstance(made := self.index.meaning(self.module, call.func), Class):
            return passes and (self.flow.with_objects or _is_record(made))
        if found := self._reached(call):
            if not passes and not any(self.is_value(arg) for arg in call.args):
                return False
            returns: Parts = False
            for function in found:
                returns = joined(returns, self.flow.returns[function])
            return returns
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
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _ADDING:
            given = self._any_of(node.args)
            self._hold(node.func.value, given if node.func.attr == "extend" else Each(given), NONE)

    def _bind(self, target: ast.expr, value: ast.expr, element: bool = False) -> None:
        """Note what a target holds when it is set to a value, or with `element` to each of its entries."""
        if isinstance(target, (ast.Tuple, ast.List)):
            self._unpack(target.elts, value, element)
        elif isinstance(target, ast.Starred):
            self._bind(target.value, value, element)
        else:
            self._hold(target, *self._of(value, element))

    def _of(self, value: ast.expr, element: bool) -> tuple[Parts, Kinds]:
        """Return what of an expression, or of each entry of it, is the value, and the kinds."""
        parts, kinds = self.parts(value), self.kinds_of(value)
        return (entry_of(parts), Kinds(kinds.elements)) if element else (parts, kinds)

    def _unpack(self, targets: list[ast.expr], value: ast.expr, element: bool) -> None:
        pairs = _entries(value, element, len(targets))
        parts, kinds = self._of(value, element)
        whole = any(isinstance(one, ast.Starred) for one in targets)
        for k, one in enumerate(targets):
            if pairs is not None:
                if pairs[k] is not None:
                    self._bind(one, pairs[k], element)
                continue
            by_place = isinstance(parts, tuple) and len(parts) == len(targets) and not whole
            held = parts[k] if by_place else entry_of(parts)
            for inner, name in enumerate(one.elts) if isinstance(one, (ast.Tuple, ast.List)) else [(None, one)]:
                at = held[inner] if inner is not None and isinstance(held, tuple) and inner < len(held) else held
                self._hold(name.value if isinstance(name, ast.Starred) else name, at, kinds)

    def _hold(self, target: ast.expr, parts: Parts, kinds: Kinds) -> None:
        if isinstance(target, ast.Name):
            if is_some(parts):
                self.held[target.id] = joined(self.held.get(target.id, False), parts)
            if kinds != NONE:
                self.kinds[target.id] = self.kinds.get(target.id, NONE) | kinds
        elif isinstance(target, ast.Subscript) and is_some(parts):
            self._hold(target.value, Each(parts), NONE)

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
        by_name = {k.arg: parts for k in call.keywords if is_some(parts := self.parts(k.value))}
        places = {k: parts for k, arg in enumerate(call.args) if is_some(parts := self._argument(arg))}
        if not by_name and not places:
            return
        target = call.args[0] if getattr(call.func, "id", "") == "partial" and call.args else None
        if target is not None:  # a function with some of its arguments, which somebody calls later
            call = ast.copy_location(ast.Call(target, call.args[1:], call.keywords), call)
            places = {k - 1: parts for k, parts in places.items() if k}
        for callee in self._reached(call):
            names = {name: parts for name, parts in by_name.items() if name is not None}
            if None in by_name:
                names |= {one.arg: True for one in callee.node.args.kwonlyargs}
            is_bound = callee.is_bound and self._by_object(call, callee)
            parameters = callee.parameters[1:] if is_bound else callee.parameters
            starred = next((k for k, arg in enumerate(call.args) if isinstance(arg, ast.Starred)), len(call.args))
            for place, parts in places.items():
                if place < min(len(parameters), starred + 1):
                    names[parameters[place].arg] = parts
                elif (rest := callee.node.args.vararg) is not None:
                    names[rest.arg] = joined(names.get(rest.arg, False), Each(parts))
            if names:
                self.calls.append((callee, names, call.lineno))

    def _argument(self, node: ast.expr) -> Parts:
        return entry_of(self.parts(node.value)) if isinstance(node, ast.Starred) else self.parts(node)

    def _by_object(self, call: ast.Call, callee: Function) -> bool:
        """Whether the first parameter of a method is not among the arguments of a call."""
        if isinstance(call.func, ast.Attribute) and isinstance(self.index.meaning(self.module, call.func.value), Class):
            return callee.name in ("__init__", "__new__") or "classmethod" in map(
                ast.unparse, callee.node.decorator_list
            )
        return True


def _entries(value: ast.expr, element: bool, count: int) -> list[ast.expr | None] | None:
    """Return the expressions that targets are set to one by one, None for numbers; None if that is unknown."""
    if not element:
        return list(value.elts) if isinstance(value, ast.Tuple) and len(value.elts) == count else None
    if not isinstance(value, ast.Call) or not isinstance(value.func, ast.Name):
        return None
    if any(isinstance(one, ast.Starred) for one in value.args):
        return None
    if value.func.id == "zip" and len(value.args) == count:
        return list(value.args)
    return [None, value.args[0]] if value.func.id == "enumerate" and count == 2 and value.args else None


def _is_record(made: Class) -> bool:
    """Whether a class is what it is made with: a dataclass, a named tuple."""
    decorators = {ast.unparse(d).partition("(")[0].rpartition(".")[2] for d in made.node.decorator_list}
    return "dataclass" in decorators or any(ast.unparse(base) == "NamedTuple" for base in made.node.bases)


def _inside(function: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a function, those of functions in it too."""
    for node in ast.iter_child_nodes(function):
        yield node
        yield from _inside(node)
