"""Gradients that are given for the arguments of a launch: by position, by field of a struct, or the arrays' own."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from diffkern.errors import LaunchError, described
from diffkern.ir.structs import Leaf, Struct, StructArray, declared, holds_arrays
from diffkern.ir.types import Array, Element, is_differentiable, value_type
from diffkern.lang.annotations import ArrayAnnotation
from diffkern.lang.dtypes import element_of_value
from diffkern.runtime.arrays.array import _given, array, wrap
from diffkern.runtime.arrays.array_protocols import ArrayC
from diffkern.runtime.arrays.create import Untyped
from diffkern.runtime.arrays.structured import StructuredArray
from diffkern.runtime.arrays.type_keys import type_of_key
from diffkern.runtime.launch.kernel_protocol import KernelProtocol
from diffkern.runtime.launch.packed import PackedLaunch

__all__ = ["check_not_lost", "cotangent", "match_cotangents", "values_by_leaf", "with_default_gradients"]


def match_cotangents(
    launch: PackedLaunch, n_inputs: int, n_outputs: int, adj_inputs: Sequence[Any], adj_outputs: Sequence[Any]
) -> list[array | None]:
    """Return the checked gradient given by hand for each leaf, or None where none is given."""
    kernel = launch.kernel
    given = (
        *_padded(kernel, "adj_inputs", adj_inputs, "inputs", n_inputs),
        *_padded(kernel, "adj_outputs", adj_outputs, "outputs", n_outputs),
    )
    # The common case, one leaf per argument and gradients of exactly the expected type, takes no look-up of types.
    if len(launch.arrays) == len(given) == len(launch.keys):  # no structs
        for held, value in zip(launch.arrays, given, strict=True):
            if value is not None and not (type(value) is array and _is_usual(launch, held, value)):
                break
        else:
            return list(given)
    return [None if v is None else cotangent(launch, i, v) for i, v in enumerate(values_by_leaf(launch, given))]


def _is_usual(launch: PackedLaunch, held: array | None, given: array) -> bool:
    """Return whether a gradient fits its argument beyond doubt, so that no further check is needed."""
    return (
        held is not None
        and held._smooth
        and held._is_like(given)
        and given._writable
        and given._memory.device is launch.device
    )


def with_default_gradients(launch: PackedLaunch, given: Sequence[array | None]) -> dict[int, array]:
    """Return the cotangents of a launch: those given, and the arguments' own gradients.

    Raises
    ------
    LaunchError
        If there is none.
    """
    cotangents: dict[int, array] = {}
    for index, value in enumerate(given):
        if value is None:
            held = launch.arrays[index]
            own = None if held is None else held.grad
            value = None if own is None else cotangent(launch, index, own)
        if value is not None:
            cotangents[index] = value
    if not cotangents:
        raise LaunchError(
            f"kernel {launch.kernel.name!r}: no argument has a gradient, so there is nothing to differentiate for",
            remedy="pass adj_inputs and adj_outputs, or arrays made with requires_grad=True",
        )
    return cotangents


def check_not_lost(launch: PackedLaunch, before: Iterable[int], cotangents: Collection[int]) -> None:
    """Raise if a leaf that had a gradient has none now, as what the record adds to it would be lost."""
    for leaf in before:
        if leaf not in cotangents:
            raise LaunchError(
                f"kernel {launch.kernel.name!r}, parameter {launch.leaves[leaf].name!r}: this record of an adjoint "
                "adds to its gradient, and the array has none",
                remedy="make the array with requires_grad=True, or set it and its gradient together, with "
                "set_params(values, adj_values); for a launch without this gradient make another record",
            )


def _padded(kernel: KernelProtocol, label: str, values: Sequence[Any], of: str, count: int) -> Sequence[Any]:
    if len(values) not in (0, count):
        raise LaunchError(
            f"kernel {kernel.name!r}: {label} has {len(values)} entries for {count} {of}",
            remedy="give one entry for each argument, None where the argument's own gradient or none is meant",
        )
    return values or (None,) * count


def values_by_leaf(launch: PackedLaunch, given: Sequence[Any]) -> list[Any]:
    """Return the gradient of each leaf of a launch, from those given for each argument.

    For an array of structs that is an array of the same structs; for a struct by value an array of one struct, or a
    mapping from names of fields (with dots for those of nested structs) to arrays.
    """
    if all(value is None or type(value) is array for value in given) and not any(leaf.path for leaf in launch.leaves):
        return [given[leaf.argument] if leaf.argument < len(given) else None for leaf in launch.leaves]
    for argument, value in enumerate(given):
        if isinstance(value, Mapping):
            known = [".".join(leaf.path) for leaf in launch.leaves if leaf.argument == argument]
            unknown = [name for name in value if name not in known]
            if unknown:
                name = launch.kernel.parameters[argument].name
                raise LaunchError(
                    f"kernel {launch.kernel.name!r}, parameter {name!r}: a gradient is given for {unknown[0]!r}, which "
                    "is no field",
                    remedy=f"the fields are {', '.join(known)}",
                )
    out: list[Any] = []
    for leaf in launch.leaves:
        value = given[leaf.argument] if leaf.argument < len(given) else None  # it may be a parameter with a default
        out.append(_of_field(launch, leaf, value) if leaf.path and value is not None else value)
    # A number or vector in the place of the gradient of a value: there is nothing that it could be added to.
    pairs = zip(out, launch.arrays, strict=True)
    return [None if held is None and element_of_value(value) is not None else value for value, held in pairs]


def _of_field(launch: PackedLaunch, leaf: Leaf, value: Any) -> array | None:
    if isinstance(value, Mapping):
        found: array | None = value.get(".".join(leaf.path))
        return found
    if isinstance(value, np.ndarray) and value.dtype.names is not None:
        t = declared(type_of_key(launch.keys[leaf.argument]))
        if isinstance(t, Struct) and not holds_arrays(t):
            value = wrap(value, t)
        elif isinstance(t, StructArray):
            value = wrap(value, t.dtype)
    in_elements = isinstance(leaf.type, Array) and leaf.type.outer > 0
    if isinstance(value, StructuredArray) and is_differentiable(leaf.type) and not in_elements:
        return value.field(".".join(leaf.path))
    if isinstance(value, StructuredArray):
        return None
    raise LaunchError(
        f"kernel {launch.kernel.name!r}, parameter {launch.kernel.parameters[leaf.argument].name!r}: the gradient of a "
        f"struct cannot be {described(value)}",
        remedy="pass an array of structs (of one, for a struct by value), or a dict of arrays by names of fields",
    )


def _as_array(launch: PackedLaunch, index: int, given: Any) -> Any:
    """Return a gradient that is described in C as the array that its parameter takes; any other as it is."""
    if isinstance(given, ArrayC):
        given = given.array
    if type(given) is Untyped:
        annotation = launch.kernel.parameters[launch.leaves[index].argument].annotation
        if isinstance(annotation, ArrayAnnotation):
            given = given.taken_by(annotation)
    return given


def cotangent(launch: PackedLaunch, index: int, given: Any) -> array:
    """Return a gradient as an array, checked against the argument it belongs to."""
    held = launch.arrays[index]
    given = _as_array(launch, index, given)
    if isinstance(given, array) and _is_usual(launch, held, given):
        return given
    leaf = launch.leaves[index]
    where = f"kernel {launch.kernel.name!r}, parameter {leaf.name!r}"
    t = leaf.type
    if not is_differentiable(t):
        raise LaunchError(f"{where}: an argument of type {t} has no gradient", remedy="pass None in its place")
    element: Element = t.dtype if isinstance(t, Array) else value_type(t)  # type: ignore[arg-type]
    if isinstance(given, array):
        value: array = given
    elif isinstance(given, np.ndarray) or hasattr(given, "__cuda_array_interface__"):
        try:
            value = _given(given, element)
        except (TypeError, ValueError) as error:
            raise LaunchError(
                f"{where}: its gradient does not fit: {error}",
                remedy=f"pass an array of {element}, as dk.zeros makes it",
            ) from None
    else:
        raise LaunchError(
            f"{where}: its gradient must be an array, not {described(given)}",
            remedy="pass an array of one element for a value, or None",
        )
    # A value by value has a gradient of one element, to which all threads add.
    shape = (1,) if held is None else held.shape
    if value.shape != shape or value._element != element:
        raise LaunchError(
            f"{where}: its gradient must have shape {shape} and type {element}, not {described(value)}",
            remedy="make it with dk.zeros_like(argument), which has both",
        )
    if not value._writable:
        raise LaunchError(
            f"{where}: its gradient is read-only memory",
            remedy="pass a copy that may be written, as in dk.array(gradient)",
        )
    if value._memory.device is not launch.device:
        raise LaunchError(
            f"{where}: its gradient is on {value.device}, and the launch on {launch.device}",
            remedy="allocate it on the same device",
        )
    return value
