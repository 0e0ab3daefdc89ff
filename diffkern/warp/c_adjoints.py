"""Derivatives that are texts in C: the body of an adjoint in Python.

In: a function with parameters, the text of its body and that of its derivative. Out: the body of a function for
:func:`diffkern.func_grad`. What C calls ``adj_x`` is a variable where ``x`` is a number or a vector: it begins with
zero, or with the cotangent of what the body left in ``x`` where that is a variable of the caller.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any

from diffkern.lang.annotations import ArrayAnnotation, TileAnnotation
from diffkern.lang.references import Reference
from diffkern.warp.c_statements import COTANGENT
from diffkern.warp.c_text import translated
from diffkern.warp.c_types import SCALARS, OtherTextError, Typed

__all__ = ["adjoint", "references"]


def references(function: Callable[..., Any]) -> list[str]:
    """The parameters of a function that stand for variables of the caller which it may change."""
    annotations = inspect.get_annotations(function, eval_str=True)
    return [n for n, a in annotations.items() if n != "return" and isinstance(a, Reference) and a.is_changed]


def adjoint(
    function: Callable[..., Any],
    body: str,
    text: str,
    kinds: tuple[Mapping[str, str], str | None],
    gpu: bool,
    axes: Mapping[str, int],
) -> list[str]:
    """Return the body of a function's derivative in Python.

    Parameters
    ----------
    function : callable
        The function.
    body, text : str
        What it does, and what its derivative does.
    kinds : tuple
        The types of its parameters and of its result.
    gpu : bool
        Whether it is for a GPU.
    axes : mapping
        How many axes its arrays have.

    Raises
    ------
    OtherTextError
        The text is not of those that are translated.
    """
    changed = references(function)
    _check(body, text, changed, kinds[1])
    for name in inspect.signature(function).parameters:
        if name.startswith(("adj_", "ct_", "type_of_")):
            raise OtherTextError(f"it has an adjoint in C++ and a parameter {name}: give that another name", 1)
    arrays, variables = _cotangents(function, kinds[0], axes)
    more = arrays | variables
    if kinds[1] is not None:
        more["adj_ret"] = Typed("ct_ret", kinds[1])
    places = dict(axes) | dict.fromkeys(arrays, 1)
    begun = [
        f"{adj} = ct_{name}" if (name := adj.removeprefix("adj_")) in changed else f"{adj} = {_zero(name, typed.kind)}"
        for adj, typed in variables.items()
    ]
    lines = translated(text, dict(kinds[0]), gpu, places, None, more)
    return [*begun, *lines, *(f"wp.adjoint[{adj.removeprefix('adj_')}] += {adj}" for adj in variables)]


def _zero(name: str, kind: str) -> str:
    return f"wp.{kind}(0.0)" if kind in SCALARS else f"type_of_{name}()"


def _check(body: str, text: str, changed: list[str], result: str | None) -> None:
    """Refuse a derivative whose meaning would be another one here."""
    if changed and result is not None:
        raise OtherTextError("it returns a value, changes variables of the caller and has an adjoint in C++", 1)
    for where, said in ((body, "the body"), (text, "the adjoint")):
        if re.search(r"\breturn\b", where) and (changed or where is text):
            raise OtherTextError(f"{said} returns early, and there is an adjoint in C++", 1)
    for name in changed:
        if re.search(rf"(?<![\w.]){name}\b", text):
            raise OtherTextError(f"its adjoint reads {name}, which it changes", 1)


def _cotangents(
    function: Callable[..., Any], kinds: Mapping[str, str], axes: Mapping[str, int]
) -> tuple[dict[str, Typed], dict[str, Typed]]:
    """What the cotangents of arrays, and of numbers and vectors, are called in Python, by their names in C."""
    arrays: dict[str, Typed] = {}
    variables: dict[str, Typed] = {}
    annotations = inspect.get_annotations(function, eval_str=True)
    for name in inspect.signature(function).parameters:
        kind = kinds[name]
        if "float" not in kind:
            continue
        given = annotations.get(name)
        if isinstance(given, TileAnnotation):
            raise OtherTextError(f"it has an adjoint in C++, and {name} is a tile", 1)
        if not isinstance(getattr(given, "value_type", given), ArrayAnnotation):
            variables[f"adj_{name}"] = Typed(f"adj_{name}", kind)
        elif axes.get(name, 1) == 1:
            arrays[f"adj_{name}"] = Typed(f"{COTANGENT}{name}]", kind)
    return arrays, variables
