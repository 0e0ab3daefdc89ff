"""Adjoints that are given as C++ text, translated to Python.

:func:`adjoint` takes a function with its parameters, the text of its body and that of its adjoint. It gives the body of
a function for :func:`diffkern.func_grad`. For a parameter ``x`` that is a scalar or a vector, ``adj_x`` in the text is
a local variable. It starts at zero or, where ``x`` is a variable of the caller, at the cotangent of the value that the
body left in ``x``.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any

from diffkern.lang.annotations import ArrayAnnotation, Reference, TileAnnotation
from diffkern.warp.c.c_statements import COTANGENT
from diffkern.warp.c.c_text import translated
from diffkern.warp.c.c_types import SCALARS, OtherTextError, Typed

__all__ = ["adjoint", "references"]


def references(function: Callable[..., Any]) -> list[str]:
    """Return the parameters of a function that are references to variables of the caller which it may change."""
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
        The C++ text of its body, and that of its adjoint.
    kinds : tuple
        The types of its parameters, and the type of its result or None.
    gpu : bool
        Whether the derivative is for a GPU.
    axes : mapping
        The number of axes of each of its arrays.

    Raises
    ------
    OtherTextError
        If the text is outside of the subset that is translated.
    """
    changed = references(function)
    _check(body, text, changed, kinds[1])
    # These prefixes name the generated variables of the adjoint, which such a parameter would shadow.
    for name in inspect.signature(function).parameters:
        if name.startswith(("adj_", "ct_", "type_of_")):
            raise OtherTextError(f"it has an adjoint in C++ and a parameter {name}: give that another name", 1)
    arrays, variables = _cotangents(function, kinds[0], axes)
    more = arrays | variables
    if kinds[1] is not None:
        more["adj_ret"] = Typed("ct_ret", kinds[1])
    # `wp.adjoint[a]` is indexed by a flat offset in the text, as its array has one axis.
    places = dict(axes) | dict.fromkeys(arrays, 1)
    # A variable of the caller already has a cotangent: that of its value after the call. The others are accumulated
    # from zero.
    begun = [
        f"{adj} = ct_{name}" if (name := adj.removeprefix("adj_")) in changed else f"{adj} = {_zero(name, typed.kind)}"
        for adj, typed in variables.items()
    ]
    # The adjoint returns nothing; its local sums are added to the cotangents of the parameters at the end.
    lines = translated(text, dict(kinds[0]), gpu, places, None, more)
    return [*begun, *lines, *(f"wp.adjoint[{adj.removeprefix('adj_')}] += {adj}" for adj in variables)]


def _zero(name: str, kind: str) -> str:
    return f"wp.{kind}(0.0)" if kind in SCALARS else f"type_of_{name}()"


def _check(body: str, text: str, changed: list[str], result: str | None) -> None:
    """Raise for an adjoint whose meaning would change in the translation."""
    if changed and result is not None:
        raise OtherTextError("it returns a value, changes variables of the caller and has an adjoint in C++", 1)
    for where, said in ((body, "the body"), (text, "the adjoint")):
        # An early return would skip the lines that are appended to the body: the returned values, or the sums.
        if re.search(r"\breturn\b", where) and (changed or where is text):
            raise OtherTextError(f"{said} returns early, and there is an adjoint in C++", 1)
    for name in changed:
        # In Warp's C++ the adjoint sees the value after the body, whereas here the parameter is the value before it.
        if re.search(rf"(?<![\w.]){name}\b", text):
            raise OtherTextError(f"its adjoint reads {name}, which it changes", 1)


def _cotangents(
    function: Callable[..., Any], kinds: Mapping[str, str], axes: Mapping[str, int]
) -> tuple[dict[str, Typed], dict[str, Typed]]:
    """Return the cotangents of arrays, and those of scalars and vectors, in Python, by their names in C."""
    arrays: dict[str, Typed] = {}
    variables: dict[str, Typed] = {}
    annotations = inspect.get_annotations(function, eval_str=True)
    for name in inspect.signature(function).parameters:
        kind = kinds[name]
        # Integers and unknown types have no cotangent.
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
