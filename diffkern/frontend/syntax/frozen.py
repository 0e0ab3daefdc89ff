"""A kernel's Python function as it was: the same code over the values that its names had at one time.

A function and a :class:`~diffkern.frontend.syntax.canonical.Meaning` of it give another function, whose globals and
closure variables are the values in the meaning, and likewise for the funcs it reaches. It compiles to the programs of
that time, whatever has happened to the names since.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from types import CellType, ModuleType
from typing import Any

from diffkern.errors import KernelError
from diffkern.frontend.syntax.canonical import Meaning
from diffkern.frontend.syntax.scope import MISSING, keep_meant
from diffkern.frontend.syntax.static import Later
from diffkern.frontend.syntax.taken import Read
from diffkern.lang import Func
from diffkern.lang.dialects import copied, dialect_of
from diffkern.lang.rules import Rule
from diffkern.lang.static import keep_results, kept_results
from diffkern.lang.structs import keep_methods

__all__ = ["frozen"]


class _Holder(ModuleType):
    """A stand-in for a module or a class of which a kernel reads some attributes."""


def frozen(pyfunc: Callable[..., Any], meaning: Meaning, reads: Iterable[Read] = ()) -> Callable[..., Any]:
    """Return a function that permanently means what a kernel's function meant.

    Raises
    ------
    KernelError
        If a name stands for something that is used both by itself and for its attributes, or an attribute of an object
        without a name has changed (``reads``).
    """
    for read in reads:
        if not read.holds():
            what = f"reads {read.name!r} of {getattr(read.owner, '__name__', read.owner)} by way of a variable"
            raise _forgotten(pyfunc, what)
    functions = [pyfunc, *meaning.reached]
    spaces: list[dict[str, Any]] = [{} for _ in functions]
    copies: list[Any] = []
    for guard in meaning.guards:
        if guard.obj is not MISSING:
            _enter(pyfunc, spaces[guard.function], guard.path[: guard.depth], guard.obj)
    for k, (function, space, types) in enumerate(zip(functions, spaces, meaning.annotations, strict=True)):
        copies.append(_copy(function, space, types))
        # An annotation that is text would be evaluated in the new globals, which lack the names that it uses.
        keep_meant(copies[-1], {guard.text: guard.obj for guard in meaning.texts if guard.function == k})
    # Funcs last: a copy calls copies, so all of them have to exist.
    funcs = _exchange_funcs(functions, spaces, copies, meaning.rules)
    made: Callable[..., Any] = copies[0]
    keep_methods(made, funcs)
    return made


def _enter(pyfunc: Callable[..., Any], space: dict[str, Any], path: Sequence[str], value: Any) -> None:
    """Make a chain of names lead to a value."""
    first, *rest = path
    if not rest:
        # A value and a stand-in cannot share a name: the code would see one of them in both roles.
        holder = space.setdefault(first, value)
        clash = isinstance(holder, _Holder)
    else:
        holder = space.setdefault(first, _Holder(first))
        clash = not isinstance(holder, _Holder)
        for name in rest[:-1]:
            inner = vars(holder).setdefault(name, _Holder(name)) if not clash else None
            clash = clash or not isinstance(inner, _Holder)
            holder = inner
        if not clash:
            vars(holder)[rest[-1]] = value
    if clash:
        raise _forgotten(pyfunc, f"uses {'.'.join(path)!r} both by itself and for its attributes")


def _forgotten(pyfunc: Callable[..., Any], what: str) -> KernelError:
    return KernelError(
        f"kernel {pyfunc.__name__!r} {what}, and what it "
        "captures has changed since it was launched, so its derivative is not known any more",
        remedy="change it after the gradient was computed, or pass it as an argument",
    )


def _copy(function: Any, space: dict[str, Any], types: dict[str, Any]) -> Any:
    """Return a function of the same code and parameters over other names."""
    code = function.__code__
    # A name that the meaning does not hold was unset or is not read; its cell stays empty.
    cells = [CellType(space[name]) if name in space else CellType() for name in code.co_freevars]
    made = copied(function, space, tuple(cells) or None)
    made.__annotations__ |= types
    return made


def _exchange_funcs(
    functions: Sequence[Any], spaces: Sequence[dict[str, Any]], copies: Sequence[Any], rules: Sequence[Sequence[Rule]]
) -> dict[Callable[..., Any], Func]:
    """Make the copies call each other where their originals did; return the copy of each as a func."""
    known = {id(function): Func(copy, dialect_of(copy)) for function, copy in zip(functions, copies, strict=True)}

    for function, found in zip(functions, rules, strict=True):
        if found:
            known[id(function)].rules = tuple(replace(rule, func=known[id(rule.func.pyfunc)]) for rule in found)

    def exchanged(value: Any) -> Any:
        # Named tuples and other subclasses are captured values, which hold no funcs that a kernel could call.
        if isinstance(value, (tuple, list)):
            return type(value)(map(exchanged, value)) if type(value) in (tuple, list) else value
        if isinstance(value, dict):
            return {key: exchanged(item) for key, item in value.items()}
        if isinstance(value, Later):
            return value.over(exchanged)
        if not isinstance(value, Func) or id(value.pyfunc) not in known:
            return value
        others = [known.get(id(other.pyfunc), other) for other in value.overloads[:-1]]
        made = known[id(value.pyfunc)]
        return Func(made.pyfunc, dialect_of(made.pyfunc), others) if others else made

    def exchange(space: dict[str, Any]) -> None:
        for name, value in list(space.items()):
            if isinstance(value, _Holder):
                exchange(vars(value))
            else:
                space[name] = exchanged(value)

    for space, copy in zip(spaces, copies, strict=True):
        exchange(space)
        for cell in copy.__closure__ or ():
            # An empty cell has no contents to be exchanged.
            if cell != CellType():
                cell.cell_contents = exchanged(cell.cell_contents)
        results = kept_results(copy)
        if results is not None:
            keep_results(copy, [exchanged(result) for result in results])
        copy.__defaults__ = tuple(map(exchanged, copy.__defaults__)) if copy.__defaults__ else copy.__defaults__
        if copy.__kwdefaults__:
            copy.__kwdefaults__ = {name: exchanged(value) for name, value in copy.__kwdefaults__.items()}
    return {function: known[id(function)] for function in functions}
