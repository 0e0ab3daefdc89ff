"""Calls of funcs for which the user has written a derivative (``@dk.func_grad``) or a replay (``@dk.func_replay``).

Such a func is lowered where it is called. What it returned then passes through a ``ruled`` op, in whose regions the
rules are lowered as funcs of the same arguments. In a derivative, ``dk.adjoint[x]`` is a variable ``ct_x``, 0 at
first, which is returned in the end; of an array it is the array of its cotangents.
"""

from __future__ import annotations

import ast
import copy
import dataclasses
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from diffkern.errors import KernelSyntaxError, Loc
from diffkern.frontend.statements import matching
from diffkern.frontend.syntax.flow import falls_off
from diffkern.frontend.syntax.scope import MISSING, NameScope
from diffkern.frontend.syntax.signature import parameter_type
from diffkern.frontend.syntax.source import Source, get_source
from diffkern.frontend.terms import coerce
from diffkern.frontend.terms.context import Cascade, Context
from diffkern.frontend.terms.terms import WEAK, Const, Poison, Rec, RecView, Term, Tup, Val, View, describe
from diffkern.ir import types as T
from diffkern.ir.nodes import Op, Region, Value, walk
from diffkern.ir.ops.memory import ACCESSES
from diffkern.ir.ops.rule import COTANGENT_ARRAYS
from diffkern.ir.ops.table import lookup
from diffkern.ir.structs import Struct
from diffkern.lang import ArrayAnnotation, Func
from diffkern.lang.annotations import TileAnnotation
from diffkern.lang.patterns import Pattern, TupleOf
from diffkern.lang.rules import Rule, RuleKind, adjoint
from diffkern.process.dataclass import dataclass

__all__ = ["Activation", "of_call", "ruled", "without_derivative"]

Activation = Callable[[Func, Source, Sequence[Term], Mapping[str, Term]], Term]
"""Lowers a func, whose source is given, for arguments and for variables that are set; returns what it returns."""


def of_call(cx: Context, func: Func, given: Mapping[str, Term]) -> dict[RuleKind, Rule]:
    """Return the rules that count in a call: where the derivative of an outer one does, inner derivatives do not."""
    found = {rule.kind: rule for rule in func.rules if _takes(rule, given)}
    if cx.ruled:
        found.pop(RuleKind.GRAD, None)
    return found


def _takes(rule: Rule, given: Mapping[str, Term]) -> bool:
    """Return whether a rule is for arguments of these types, as far as its annotations say."""
    pyfunc = rule.func.pyfunc
    for (name, parameter), term in zip(inspect.signature(pyfunc).parameters.items(), given.values(), strict=False):
        try:
            want = parameter_type(parameter.annotation, NameScope(pyfunc), name, rule.func.name)
        except TypeError:
            continue  # it is refused when the rule is lowered
        if isinstance(want, ArrayAnnotation):
            fits = isinstance(term, (View, RecView))
        elif isinstance(want, (Pattern, TupleOf, TileAnnotation)):
            fits = matching.fits(want, term)
        elif isinstance(want, Struct):
            fits = isinstance(term, Rec) and term.struct == want
        else:
            # A literal takes the type of its parameter, so it fits any number.
            typed = term.type if isinstance(term, Val) and term.type not in WEAK else None
            fits = want is None or typed is None or T.value_type(want) == typed
        if not fits:
            return False
    return True


def ruled(
    cx: Context,
    func: Func,
    rules: Mapping[RuleKind, Rule],
    given: Mapping[str, Term],
    node: ast.AST,
    lower: Callable[[], Term],
    activate: Activation,
) -> Term:
    """Lower a call of a func with rules.

    Parameters
    ----------
    cx, func, node
        The call.
    rules
        Those that count.
    given
        The func's arguments.
    lower
        Lowers the func itself, and returns what it returns.
    activate
        Lowers a rule.
    """
    if any(isinstance(leaf, View) and leaf.array.outer for term in given.values() for leaf in _leaves(term)):
        remedy = "read the elements, and pass them, or pass the array as a parameter of the kernel"
        cx.type_error(node, f"{func.name}, which has a derivative of its own, takes an array in an element", remedy)
    call = _Call(cx, func, given, node, activate)
    derivative, replay = rules.get(RuleKind.GRAD), rules.get(RuleKind.REPLAY)
    if derivative is None:
        result = lower()
    else:
        # The rule stands for all that is done inside, so the derivatives of inner calls do not count.
        with cx.without_derivatives():
            result = call.opaque(lower)
    # A replay yields all that the func returned, a derivative has cotangents of floating-point values alone.
    leaves = [leaf for leaf in _leaves(result) if replay is not None or _differentiable(leaf)]
    returned = [coerce.value(cx, leaf, node) for leaf in leaves]
    regions: list[Region] = []
    inputs: list[Value] = []
    if derivative is not None:
        region, inputs = call.derivative(derivative, result, returned)
        regions.append(region)
    if replay is not None:
        regions.append(call.replay(replay, result, returned))
    results = cx.b.op(
        "ruled", *returned, *inputs, regions=regions, names=[v.name for v in returned],
        results=len(returned), derivative=derivative is not None, replayed=replay is not None,
    )  # fmt: skip
    return _rebuilt(result, dict(zip(map(id, leaves), map(Val, results), strict=True)))


def without_derivative(cx: Context, term: Term, node: ast.AST) -> Term:
    """Return a value through which no derivative passes."""
    found: dict[int, Term] = {}
    for leaf in _leaves(term):
        if isinstance(leaf, Val) and _differentiable(leaf):
            # A derivative without ops yields no cotangents.
            region, value = Region(), coerce.value(cx, leaf, node)
            region.params = (Value(value.type),)
            made = cx.b.op("ruled", value, regions=[region], results=1, derivative=True, replayed=False)
            found[id(leaf)] = Val(made[0])
    return _rebuilt(term, found)


@dataclass(frozen=True)
class _Call:
    """A call of a func with rules."""

    cx: Context
    func: Func
    given: Mapping[str, Term]
    node: ast.AST
    activate: Activation

    def opaque(self, lower: Callable[[], Term]) -> Term:
        """Lower the func; no derivative passes through its accesses to memory."""
        region = self.cx.b.region
        start = len(region.ops)
        result = lower()
        for op in walk(Region(ops=region.ops[start:])):
            # Without this mark a load or store inside would be differentiated as well, and count twice.
            if op.name in ACCESSES:
                op.attrs = {**op.attrs, "opaque": True}
        for term in (result, *self.given.values()):
            self.check(term)
        return result

    def check(self, term: Term) -> None:
        """Refuse what a derivative written by the user has no place for."""
        for leaf in _leaves(term):
            shared = isinstance(leaf, View) and leaf.array.layout in (T.SHARED, T.OWN)
            if shared or (isinstance(leaf, Val) and isinstance(leaf.value.type, T.Tile)):
                self.cx.type_error(
                    self.node,
                    f"{self.func.name} has a derivative of its own, and {describe(leaf)} is passed",
                    "pass numbers, vectors and global arrays to it, or leave the derivative to diffkern",
                )

    def derivative(self, rule: Rule, result: Term, returned: Sequence[Value]) -> tuple[Region, list[Value]]:
        """Return the region of the derivative, and the arguments whose cotangents it yields."""
        cx, region = self.cx, Region()
        region.params = tuple(Value(v.type, f"ct_{v.name}" if v.name else "") for v in returned)
        source, named = _written_out(rule.func, self.given)
        # Cotangents of arrays are added up in memory, so only those of values are yielded.
        kept = [name for name in named if not _is_view(self.given[name])]
        inputs: list[Value] = []
        with cx.b.into(region), cx.without_derivatives():
            seeds = iter(region.params)
            outputs = result.items if isinstance(result, Tup) else _outputs(result)
            cotangents = [self.seed(output, seeds) for output in outputs]
            self.count(rule, len(cotangents))
            variables = {own: self.cotangent(name, where) for name, (own, where) in named.items()}
            term = self.activate(rule.func, source, [*self.given.values(), *cotangents], variables)
            if isinstance(term, Poison):
                # The error in the rule has been recorded.
                raise Cascade
            yields: list[Value] = []
            for name, ct in zip(kept, term.items if isinstance(term, Tup) else (), strict=True):
                self.collect(self.given[name], ct, inputs, yields)
            region.yields = tuple(yields)
        return self.without_effects(region, inputs, rule), inputs

    def count(self, rule: Rule, outputs: int) -> None:
        parameters = list(inspect.signature(rule.func.pyfunc).parameters)
        if len(parameters) != len(self.given) + outputs:
            self.cx.type_error(
                self.node,
                f"{rule.func.name} takes {len(parameters)} arguments, but {self.func.name} has {len(self.given)} and "
                f"returns {outputs} {'value' if outputs == 1 else 'values'} here",
                f"give it the parameters of {self.func.name}, then a cotangent for each result",
            )

    def seed(self, output: Term, seeds: Iterator[Value]) -> Term:
        """Return the cotangent of an output; 0 of one that has none."""
        found = {id(leaf): Val(next(seeds)) if _differentiable(leaf) else Const(0) for leaf in _leaves(output)}
        return _rebuilt(output, found)

    def cotangent(self, name: str, node: ast.AST) -> Term:
        """Return what ``adjoint[name]`` is at first."""
        cx, term = self.cx, self.given[name]
        if not any(_differentiable(leaf) or _is_view(leaf) for leaf in _leaves(term)):
            cx.type_error(
                node, f"{name} is {describe(term)}, which has no cotangent", "add to those of floating-point arguments"
            )
        return _zeros(cx, term)

    def collect(self, term: Term, ct: Term, inputs: list[Value], yields: list[Value]) -> None:
        """Add the values of an argument and their cotangents."""
        for leaf, found in zip(_leaves(term), _leaves(ct), strict=True):
            # Weak values come from literals alone, so nobody asks for their derivative.
            if isinstance(leaf, Val) and _differentiable(leaf) and leaf.type not in WEAK:
                inputs.append(leaf.value)
                yields.append(coerce.convert(self.cx, found, leaf.type, self.node, "the cotangent"))

    def without_effects(self, region: Region, inputs: Sequence[Value], rule: Rule) -> Region:
        """Return the region; of one that does more than derivatives do, another that is an error where it is
        differentiated.

        A kernel that is not differentiated does not care.
        """
        arrays = [op for op in walk(region) if op.name in COTANGENT_ARRAYS]
        cotangents = [op.result for op in arrays]
        for op in walk(region):
            changes = op.name in ACCESSES and not op.name.endswith("load") and op.operands[0] not in cotangents
            if changes or lookup(op.name).family in ("block", "warp"):
                refused = Region(region.params, arrays)
                with self.cx.b.into(refused):
                    what = f"{rule.func.name}{_where(op)} changes an array, or works with the threads of its block"
                    self.cx.b.op("refused", *cotangents, text=what)
                    refused.yields = tuple(self.cx.b.zero(v.type) for v in inputs)
                return refused
        return region

    def replay(self, rule: Rule, result: Term, returned: Sequence[Value]) -> Region:
        """Return the region of the replay, which yields what the func returned."""
        cx, region = self.cx, Region()
        with cx.b.into(region), cx.without_derivatives():
            term = self.activate(rule.func, get_source(rule.func.pyfunc), list(self.given.values()), {})
            found = [leaf for leaf in _leaves(term) if isinstance(leaf, (Const, Val))]
            if len(found) != len(returned) or isinstance(term, Tup) != isinstance(result, Tup):
                cx.type_error(
                    self.node,
                    f"{rule.func.name} returns {describe(term)}, but {self.func.name} returns {describe(result)}",
                    "return the same values",
                )
            what = f"what {rule.func.name} returns"
            pairs = zip(found, returned, strict=True)
            region.yields = tuple(coerce.convert(cx, v, r.type, self.node, what) for v, r in pairs)  # type: ignore[arg-type]
        return region


def _where(op: Op) -> str:
    return f" (line {op.loc.line})" if op.loc is not None else ""


# -- terms -------------------------------------------------------------------------------------------------------------


def _leaves(term: Term) -> Iterator[Any]:
    """Yield the parts of a term that are neither tuples nor structs."""
    if isinstance(term, (Tup, Rec)):
        for item in term.items:
            yield from _leaves(item)
    elif isinstance(term, Poison):
        raise Cascade
    elif isinstance(term, (Const, Val, View, RecView)):
        yield term


def _outputs(result: Term) -> tuple[Term, ...]:
    return (result,) if isinstance(result, (Const, Val, Rec)) else ()


def _differentiable(leaf: Term) -> bool:
    if isinstance(leaf, Const):
        return isinstance(leaf.value, float)
    return isinstance(leaf, Val) and T.is_differentiable(coerce.default(leaf.type))


def _is_view(term: Term) -> bool:
    return isinstance(term, (View, RecView))


def _rebuilt(term: Term, found: Mapping[int, Term]) -> Term:
    """Return a term with other leaves."""
    if isinstance(term, Tup):
        return Tup(tuple(_rebuilt(item, found) for item in term.items))
    if isinstance(term, Rec):
        return Rec(term.struct, tuple(_rebuilt(item, found) for item in term.items))
    return found.get(id(term), term)


def _zeros(cx: Context, term: Term) -> Term:
    """Return zero cotangents of a value; of an array the array of its cotangents."""
    match term:
        case Rec(struct, items):
            return Rec(struct, tuple(_zeros(cx, item) for item in items))
        case Tup(items):
            return Tup(tuple(_zeros(cx, item) for item in items))
        case RecView(struct, items):
            return RecView(struct, tuple(_zeros(cx, item) for item in items))  # type: ignore[misc]
        case View(base, axes):
            found = cx.b.one("cotangent_array", base, hint=f"ct_{base.name}")
            return View(found, axes, term.present)
        case Val(value) if value.type not in WEAK:
            return Val(cx.b.zero(value.type))
        case _:
            return Const(0.0)


# -- the source of a derivative ----------------------------------------------------------------------------------------


Named = dict[str, tuple[str, ast.AST]]
"""The arguments whose cotangents are named: the variable that stands for it, and the place where that is done first."""


def _written_out(rule: Func, given: Mapping[str, Term]) -> tuple[Source, Named]:
    """Return the source of a derivative with variables for cotangents, of which it returns those of values."""
    source = get_source(rule.pyfunc)
    parameters, inputs = list(inspect.signature(rule.pyfunc).parameters), list(given)
    visitor = _Variables(rule, source, parameters[: len(inputs)])
    # Parsed sources are shared between all lowerings of a function.
    node = visitor.visit(copy.deepcopy(source.node))
    # A rule may call its parameters otherwise than the func does; they are matched by place.
    named = {inputs[parameters.index(name)]: found for name, found in visitor.named.items()}
    kept = [own for name, (own, _) in named.items() if not _is_view(given[name])]
    if kept:
        _RuleReturns(rule, source, kept).visit(node)
        # A body that ends without a return gives its cotangents back there.
        if falls_off(node.body):
            node.body.append(ast.copy_location(_tuple_of(kept, node.body[-1]), node.body[-1]))
    return dataclasses.replace(source, node=node), named


def _tuple_of(names: Sequence[str], where: ast.AST) -> ast.Return:
    """Return variables, in a tuple even if there is one."""
    items: list[ast.expr] = [ast.copy_location(ast.Name(name, ast.Load()), where) for name in names]
    return ast.Return(ast.copy_location(ast.Tuple(items, ast.Load()), where))


class _RuleReturns(ast.NodeTransformer):
    """A transformer that lets each ``return`` of a derivative give back the cotangents."""

    def __init__(self, rule: Func, source: Source, names: Sequence[str]) -> None:
        self.rule, self.source, self.names = rule, source, names

    def visit_Return(self, node: ast.Return) -> ast.Return:
        return ast.copy_location(_tuple_of(self.names, node), node)


class _Variables(ast.NodeTransformer):
    """A transformer that replaces ``adjoint[x]`` by a variable."""

    def __init__(self, rule: Func, source: Source, inputs: Sequence[str]) -> None:
        self.rule, self.source, self.inputs = rule, source, inputs
        self.scope = NameScope(rule.pyfunc)
        names = (n for n in ast.walk(source.node) if isinstance(n, (ast.Name, ast.arg)))
        self.taken = {n.id if isinstance(n, ast.Name) else n.arg for n in names}
        self.named: Named = {}

    def variable(self, name: str, node: ast.AST) -> str:
        if name not in self.named:
            # The user's own variables may have such a name as well.
            own = f"ct_{name}"
            while own in self.taken:
                own += "_"
            self.taken.add(own)
            self.named[name] = own, node
        return self.named[name][0]

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        if self.found(node.value) is not adjoint:
            self.generic_visit(node)
            return node
        # ``adjoint[s.x[i]]`` is a part of the cotangent of ``s``: only the name at its root is replaced.
        root = target = node.slice
        while isinstance(root, (ast.Attribute, ast.Subscript)):
            root = root.value
        if not isinstance(root, ast.Name) or root.id not in self.inputs:
            raise _not_an_argument(self.rule, self.source.loc(node), self.inputs)
        root.id = self.variable(root.id, node)
        assert isinstance(target, (ast.Name, ast.Attribute, ast.Subscript))
        # As an assignment's target, the part of the cotangent is stored, not loaded.
        target.ctx = node.ctx
        return ast.copy_location(target, node)

    def found(self, node: ast.AST) -> Any:
        """Return the object from outside that an expression names."""
        if isinstance(node, ast.Attribute):
            owner = self.found(node.value)
            return MISSING if owner is MISSING else self.scope.attribute(owner, node.attr)
        return self.scope.lookup(node.id) if isinstance(node, ast.Name) else MISSING

    def visit_Return(self, node: ast.Return) -> ast.Return:
        if node.value is not None and not (isinstance(node.value, ast.Constant) and node.value.value is None):
            raise KernelSyntaxError(
                f"{self.rule.name} returns a value", loc=self.source.loc(node),
                remedy="add the cotangents of the arguments, as in dk.adjoint[x] += ...; it returns nothing",
            )  # fmt: skip
        return node


def _not_an_argument(rule: Func, loc: Loc, inputs: Sequence[str]) -> KernelSyntaxError:
    return KernelSyntaxError(
        f"dk.adjoint takes an argument of {rule.name}, or a part of one",
        loc=loc,
        remedy=f"name one of {', '.join(inputs)}",
    )
