"""Derivatives of funcs in kernels: ``dk.grad(f)(x)``, ``dk.vjp(f)(x, ct)``, ``dk.jvp(f)(x, t)``.

A call of a derivative gives its results. The func is lowered for its arguments as a function of its own, which is
differentiated; the resulting function is inlined at the call, so that the result is a computation like any other. The
differentiation is in a later layer than the frontend, so the module that loads the compiler sets it.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from diffkern.frontend.statements import inline
from diffkern.frontend.terms import coerce
from diffkern.frontend.terms.context import Context
from diffkern.frontend.terms.terms import Const, Term, Tup, Val, describe
from diffkern.frontend.terms.weak import resolve_weak
from diffkern.ir import types as T
from diffkern.ir.clone import Cloner, free_values
from diffkern.ir.nodes import Function, Region, Value
from diffkern.lang.called import Called, RequestedForm
from diffkern.process.late import FUNC_DERIVATIVE, FUNC_TANGENTS

__all__ = ["call"]


def call(cx: Context, called: Called, name: str, node: ast.Call) -> Term:
    """Lower a call of a derivative."""
    if called.form not in (RequestedForm.GRAD, RequestedForm.VJP, RequestedForm.JVP):
        cx.type_error(node, f"{name} cannot be called in a kernel", "call the func itself")
    if node.keywords:
        cx.syntax_error(node, f"{name} takes no keyword arguments", "give the values in order")
    terms = [cx.expr(arg) for arg in node.args]
    return _DerivedCall(cx, called, name, node).lower(terms)


class _DerivedCall:
    """A call of a derivative; ``owner`` is the name of the differentiated func or derivative."""

    def __init__(self, cx: Context, called: Called, name: str, node: ast.Call) -> None:
        self.cx, self.called, self.name, self.node = cx, called, name, node
        self.owner = called.owner.name if isinstance(called.owner, Called) else called.pyfunc.__name__

    def lower(self, terms: Sequence[Term]) -> Term:
        cx, form, count = self.cx, self.called.form, self.arity(terms)
        fn, given, result = self.function(terms[:count])
        # Parameters that stand for themselves come from outside of the func: they are not its arguments.
        active = [k for k, v in enumerate(given) if v is not fn.params[k] and T.is_differentiable(v.type)]
        smooth = [y.type for y in fn.body.yields if T.is_differentiable(y.type)]
        if not active or not smooth:
            missing = "no floating-point argument by value" if not active else "no floating-point result"
            cx.type_error(
                self.node,
                f"{self.name}: {self.owner} has {missing}",
                "differentiate a func of floats that returns floats",
            )
        if form is RequestedForm.GRAD and (len(fn.body.yields) != 1 or not isinstance(smooth[0], T.Scalar)):
            cx.type_error(
                self.node,
                f"{self.name}: a gradient is that of one number, and {self.owner} returns {describe(result)}",
                "use dk.vjp, with a cotangent for each result",
            )
        wanted = {
            RequestedForm.GRAD: [],
            RequestedForm.VJP: smooth,
            RequestedForm.JVP: [given[k].type for k in active],
        }[form]
        more = self.checked(terms[count:], wanted)
        if form is RequestedForm.JVP:
            found = self.inlined(FUNC_TANGENTS(fn, active), [*given, *more])
            n = len(fn.body.yields)
            return Tup((self.returned(result, found[:n]), _together(found[n:])))
        adjoint, n = FUNC_DERIVATIVE(fn, active), len(fn.body.yields)
        seeds = more or [cx.b.full(t, 1.0) for t in smooth]
        found = self.inlined(adjoint, [*given, *seeds])
        partials = _together(found[n:])
        return partials if form is RequestedForm.GRAD else Tup((self.returned(result, found[:n]), partials))

    def arity(self, terms: Sequence[Term]) -> int:
        """Return how many of the arguments belong to the differentiated function."""
        of = self.called.owner
        if not isinstance(of, Called):
            return self.called.pyfunc.__code__.co_argcount
        inner = _DerivedCall(self.cx, of, of.name, self.node)
        count = inner.arity(terms)
        # A gradient takes nothing else; the others take cotangents or tangents behind the arguments.
        if of.form is RequestedForm.GRAD or count > len(terms):
            return count
        fn, given, _ = inner.function(terms[:count])
        if of.form is RequestedForm.JVP:
            return count + sum(v is not fn.params[k] and T.is_differentiable(v.type) for k, v in enumerate(given))
        return count + sum(T.is_differentiable(y.type) for y in fn.body.yields)

    def result(self, inside: Sequence[Term]) -> Term:
        """Return the differentiated function's result, for arguments."""
        of = self.called.owner
        if isinstance(of, Called):
            return _DerivedCall(self.cx, of, of.name, self.node).lower(inside)
        return inline.inline(self.cx, of, self.node, inside)

    def function(self, terms: Sequence[Term]) -> tuple[Function, list[Value], Term]:
        """Return the func as a function of its arguments by value, these arguments, and its result.

        Arrays, and other values that it takes from here, are parameters that stand for themselves.
        """
        cx, region = self.cx, Region()
        given: dict[Value, Value] = {}

        def parameter(term: Term) -> Term:
            if not isinstance(term, (Const, Val)):
                return term
            value = coerce.value(cx, term, self.node)
            # A fresh value: inside of the function the argument is a parameter, even if it occurs twice in the call.
            fresh = Value(value.type, value.name)
            given[fresh] = value
            return Val(fresh)

        inside = [parameter(term) for term in terms]
        updates = len(cx.updates)
        with cx.b.into(region):
            result = self.result(inside)
            region.yields = tuple(coerce.value(cx, leaf, self.node) for leaf in self.leaves(result))
        # The adjoint would have to undo the write; a value that is returned has none of that.
        if len(cx.updates) > updates:
            cx.type_error(self.node, f"{self.name}: {self.owner} writes to an array", "return the value")
        # The function is differentiated now, before the weak types of the kernel around it are resolved.
        resolve_weak(region)
        given.update((v, v) for v in free_values(region) if v not in given)
        fn = Function(self.owner, tuple(given), region, loc=cx.loc(self.node))
        return fn, list(given.values()), result

    def leaves(self, result: Term) -> list[Const | Val]:
        found: list[Const | Val] = []
        for item in result.items if isinstance(result, Tup) else (result,):
            if isinstance(item, Tup):
                found += self.leaves(item)
                continue
            if not isinstance(item, (Const, Val)):
                self.cx.type_error(
                    self.node,
                    f"{self.name}: {self.owner} returns {describe(item)}",
                    "derivatives are of numbers, vectors and matrices",
                )
            found.append(item)
        return found

    def checked(self, given: Sequence[Term], types: Sequence[T.Type]) -> list[Value]:
        """Return cotangents or tangents as values of their types."""
        if len(given) != len(types):
            kind = "tangent" if self.called.form is RequestedForm.JVP else "cotangent"
            self.cx.type_error(
                self.node,
                f"{self.name} takes the arguments of {self.owner}"
                + (f" and {len(types)} more, a {kind} each; it was given {len(given)}" if types else ""),
                f"give a {kind} for each, 0.0 for what does not vary" if types else "leave the others out",
            )
        what = f"an argument of {self.name}"
        pairs = zip(given, types, strict=True)
        return [coerce.convert(self.cx, term, t, self.node, what) for term, t in pairs]  # type: ignore[arg-type]

    def inlined(self, derivative: Function, given: Sequence[Value]) -> tuple[Value, ...]:
        """Copy a derivative into the current region."""
        return Cloner(self.cx.b, dict(zip(derivative.params, given, strict=True))).inline(
            Region((), derivative.body.ops, derivative.body.yields), ()
        )

    def returned(self, result: Term, found: Sequence[Value]) -> Term:
        """Return values in the structure of a result."""
        rest = iter(found)

        def like(item: Term) -> Term:
            return Tup(tuple(map(like, item.items))) if isinstance(item, Tup) else Val(next(rest))

        return like(result)


def _together(found: Sequence[Value]) -> Term:
    return Val(found[0]) if len(found) == 1 else Tup(tuple(map(Val, found)))
