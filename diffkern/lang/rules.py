"""``@dk.func_grad`` and ``@dk.func_replay``: functions that replace the derived adjoint of a func, or its replay.

The decorated Python function becomes a :class:`Rule` of the func, which the frontend lowers beside each call of it.
"""

from __future__ import annotations

import enum
import inspect
from collections.abc import Callable
from typing import Any, Final, NoReturn, TypeVar

from diffkern.errors import MisuseError
from diffkern.lang.dialects import dialect_of
from diffkern.lang.func import Func
from diffkern.process.dataclass import dataclass
from diffkern.process.tracebacks import Entrance, brief

__all__ = ["Rule", "RuleKind", "adjoint", "func_grad", "func_replay"]

F = TypeVar("F", bound=Callable[..., Any])


class RuleKind(enum.Enum):
    """The part of a func's differentiation that a function replaces."""

    GRAD = "func_grad"
    REPLAY = "func_replay"


@dataclass(frozen=True)
class Rule:
    """A function that differentiation uses instead of a func, or instead of a part of it.

    Attributes
    ----------
    kind
        Which part.
    func
        The function, which kernels do not call by itself.
    """

    kind: RuleKind
    func: Func


class FuncAdjoint:
    """The cotangents of a func's arguments, in its :func:`func_grad`: ``adjoint[x] += ...``."""

    def __getitem__(self, key: Any) -> NoReturn:
        raise MisuseError(
            "dk.adjoint has a meaning in functions decorated with @dk.func_grad alone",
            remedy="outside of kernels the cotangents of an array are array.grad",
        )

    def __setitem__(self, key: Any, value: Any) -> None:
        # An assignment is the same mistake as a read.
        self[key]

    def __repr__(self) -> str:
        return "dk.adjoint"

    def __reduce__(self) -> str:
        return "adjoint"


adjoint: Final = FuncAdjoint()


@brief
def func_grad(forward: Func) -> Callable[[F], F]:
    """Write the derivative of a func by hand: it replaces the derived one in every call of the func.

    The decorated function takes the arguments of the func, then a cotangent for each result. In it
    ``dk.adjoint[x] += v`` adds to the cotangent of the argument ``x``, or to that of a part of it, as in
    ``dk.adjoint[v][0] += ...`` and ``dk.adjoint[s.field] += ...``. For an argument that is an array,
    ``dk.adjoint[a][i] += v`` adds atomically to the cotangent of an element, and ``dk.adjoint[a][i]`` reads it; the
    derivative is responsible for all of the array's elements: where the func overwrites one, the derivative sets the
    element's cotangent to 0. Arguments that it does not name get 0. Funcs that it calls are not differentiated.

    Parameters
    ----------
    forward : Func
        The func.

    Returns
    -------
    callable
        The decorator. It returns the function itself.

    Raises
    ------
    MisuseError
        If `forward` is no func, or the function does not take its arguments.
    """
    return _decorator(forward, RuleKind.GRAD)


@brief
def func_replay(forward: Func) -> Callable[[F], F]:
    """Replace a func in the adjoint of a kernel, where the adjoint needs the func's results once more.

    The decorated function takes the arguments of the func and returns the func's result of the forward launch, for
    example from an array in which the func has kept it: the result of an atomic update cannot be rematerialized.
    The derivative of the func is unchanged.

    Parameters
    ----------
    forward : Func
        The func.

    Returns
    -------
    callable
        The decorator. It returns the function itself.

    Raises
    ------
    MisuseError
        If `forward` is no func, or the function does not take its arguments.
    """
    return _decorator(forward, RuleKind.REPLAY)


def _decorator(forward: Func, kind: RuleKind) -> Callable[[F], F]:
    name = f"@dk.{kind.value}"
    if not isinstance(forward, Func):
        raise MisuseError(f"{name} takes a func, not {forward!r}", remedy=f"write {name}(f) with f made by @dk.func")

    def decorate(function: F) -> F:
        with Entrance(name, function):
            # In the func's own dialect: a rule is a part of it.
            rule = Rule(kind, Func(function, dialect_of(forward.pyfunc)))
            _check(forward, rule)
        # A rule that is defined again replaces its earlier version, as in a notebook; one for other annotations is
        # added.
        forward.rules = (*(old for old in forward.rules if not _same(old, rule)), rule)
        return function

    return decorate


def _check(forward: Func, rule: Rule) -> None:
    """Refuse a function that cannot take the arguments of the func."""
    wanted = list(inspect.signature(forward.pyfunc).parameters)
    given = list(inspect.signature(rule.func.pyfunc).parameters)
    # The number of results is known only when the func has been lowered.
    fits = len(given) >= len(wanted) if rule.kind is RuleKind.GRAD else len(given) == len(wanted)
    if not fits:
        more = ", then a cotangent for each result" if rule.kind is RuleKind.GRAD else ""
        raise MisuseError(
            f"{rule.func.name} takes ({', '.join(given)}), but {forward.name} takes ({', '.join(wanted)})",
            remedy=f"give it the parameters of {forward.name}{more}",
        )


def _same(old: Rule, new: Rule) -> bool:
    """Return whether a rule replaces an earlier one: the same part of the func, for arguments annotated alike."""
    return old.kind is new.kind and _annotations(old) == _annotations(new)


def _annotations(rule: Rule) -> list[str]:
    # As text, since annotations may be texts that cannot be evaluated yet.
    return [str(p.annotation) for p in inspect.signature(rule.func.pyfunc).parameters.values()]
