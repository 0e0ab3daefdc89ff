"""Launches that are put together parameter by parameter, and checked when they are launched.

Each parameter of the kernel starts as zero (numbers, vectors, structs) or None (arrays), and is set by its index.
Nothing is packed before the launch, so that sizes may change one after the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from diffkern.contracts.extents import whole_number
from diffkern.errors import KernelError, LaunchError
from diffkern.ir.structs import Struct, StructArray, is_null
from diffkern.ir.types import Array, Scalar
from diffkern.lang.annotations import ArrayAnnotation
from diffkern.lang.dtypes import SCALARS, composite_type
from diffkern.lang.structs import class_of
from diffkern.process.tracebacks import brief
from diffkern.runtime.accumulate.adjoint import AdjointLaunch
from diffkern.runtime.accumulate.given_cotangents import (
    check_not_lost,
    cotangent,
    values_by_leaf,
    with_default_gradients,
)
from diffkern.runtime.arrays.type_keys import key_on, register_type, type_of_key
from diffkern.runtime.launch.arguments import bind
from diffkern.runtime.launch.kernel_protocol import KernelProtocol
from diffkern.runtime.launch.packed import PackedLaunch, dispatch
from diffkern.runtime.launch.schedule import Blocks
from diffkern.runtime.memory.device import Device
from diffkern.runtime.memory.stream import Stream

__all__ = ["OpenLaunch", "opened"]


class OpenLaunch:
    """A kernel, its arguments and gradients and the grid of a launch, all of which can still be set.

    Parameters
    ----------
    kernel : Kernel
        The kernel to launch.
    place : Device or None
        The device, if one was named.
    blocks : Blocks
        The blocks of a GPU.
    adjoint : bool
        Whether the adjoint runs.
    values : sequence, optional
        Arguments.
    stream : Stream, optional
        Default stream of the launches.
    """

    def __init__(
        self,
        kernel: KernelProtocol,
        place: Device | None,
        blocks: Blocks,
        adjoint: bool,
        values: Sequence[Any] | None = None,
        stream: Stream | None = None,
    ) -> None:
        self.kernel, self.place, self.blocks, self.adjoint, self.stream = kernel, place, blocks, adjoint, stream
        self.values = [_zero(p.annotation) for p in kernel.parameters] if values is None else list(values)
        self.gradients: list[Any] = [None] * len(kernel.parameters)
        self.dim: Any = 0
        self._differentiated: frozenset[int] = frozenset()  # the leaves that had gradients in the last launch

    @brief
    def set(self, index: int, value: Any, adjoint: bool = False) -> None:
        """Set a parameter or its gradient; for an adjoint, indices beyond the parameters denote the gradients too."""
        count = len(self.values)
        position = whole_number(index)
        if position is None:
            raise LaunchError(
                f"the index of a parameter is an integer, not {index!r}", remedy="count the parameters from 0"
            )
        if self.adjoint and count <= position < 2 * count:
            position, adjoint = position - count, True
        if not 0 <= position < count:
            raise LaunchError(
                f"kernel {self.kernel.name!r} has parameters 0 to {count - 1}, not {position}",
                remedy="count the parameters from 0",
            )
        if adjoint and not self.adjoint:
            raise self.kernel.parameters[position].error(
                "a launch of the kernel itself takes no gradients",
                "leave adjoint=True out, or make an adjoint's launch",
            )
        if adjoint:
            self.gradients[position] = value
        else:
            parameter = self.kernel.parameters[position]
            # A value that does not fit is reported where it is set, although it is only packed at the launch.
            if not (value is None and parameter.is_array):
                parameter.convert_leaves(value)  # says what is wrong
            self.values[position] = value

    def packed(self) -> PackedLaunch:
        """Return the checked launch of what is set now."""
        return PackedLaunch(self.kernel, self.dim, self.values, self.place, self.blocks)

    @brief
    def run(self, stream: Stream | None = None) -> None:
        """Launch the kernel or its adjoint."""
        packed = self.packed()
        if not self.adjoint:
            dispatch(packed, stream=stream or self.stream)
            return
        given = [
            None if value is None else cotangent(packed, leaf, value)
            for leaf, value in enumerate(values_by_leaf(packed, self.gradients))
        ]
        cotangents = with_default_gradients(packed, given)
        # An array may have been replaced since the last launch. Without a gradient, contributions would silently
        # vanish.
        check_not_lost(packed, self._differentiated, cotangents)
        AdjointLaunch(packed, cotangents, at_once=True).launch_by_hand(stream or self.stream)
        self._differentiated = frozenset(cotangents)


def opened(
    kernel: KernelProtocol, args: Sequence[Any], place: Device | None, blocks: Blocks, stream: Stream | None
) -> OpenLaunch | None:
    """Return a launch of which arrays are still to be set: None is given for them, and the kernel needs them.

    If none are missing it is None.

    Raises
    ------
    LaunchError, KernelError
        If another argument does not fit, or the kernel cannot be compiled with arrays in place of None either.
    """
    is_open = _is_open(kernel, args, blocks.block_dim)
    return OpenLaunch(kernel, place, blocks, False, args, stream) if is_open else None


def _is_open(kernel: KernelProtocol, args: Sequence[Any], block_dim: int | None) -> bool:
    """Return whether arrays are missing, as in :func:`opened`."""
    missing = [p for p, value in zip(kernel.parameters, args, strict=False) if value is None]
    if len(args) != len(kernel.parameters) or not missing:
        return False
    if any(_is_any_array(p.annotation) for p in missing):  # what is to be compiled is known with the arrays
        pairs = zip(kernel.parameters, args, strict=True)
        given = [(p, value) for p, value in pairs if not (value is None and _is_any_array(p.annotation))]
        bind(kernel.name, [p for p, _ in given], [value for _, value in given])  # says what is wrong
        return True
    keys, _, _ = bind(kernel.name, kernel.parameters, args)
    meant = kernel.current()
    # A kernel may test for None, and then compiles with it. If it does not, it is tried with arrays: an error that
    # persists has nothing to do with None and is the user's.
    try:
        kernel.forward(keys, block_dim, meant)
    except KernelError:
        kernel.forward(_with_arrays(keys), block_dim, meant)  # an error that has nothing to do with None
        return True
    return False


def _is_any_array(annotation: Any) -> bool:
    """Return whether a parameter takes arrays of several types."""
    return annotation is None or (isinstance(annotation, ArrayAnnotation) and annotation.element is None)


def _with_arrays(keys: Sequence[str]) -> tuple[str, ...]:
    """Return the types of arguments with arrays in place of None, on the device of the others."""
    alias = next((key.partition("@")[2] for key in keys if "@" in key), "")
    found: list[str] = []
    for key in keys:
        t = type_of_key(key)
        if isinstance(t, (Array, StructArray)) and is_null(t):
            key = register_type(replace(t, layout="C"))
            key = key_on(key, alias) if alias else key
        found.append(key)
    return tuple(found)


def _zero(annotation: Any) -> Any:
    if isinstance(annotation, ArrayAnnotation) or annotation is None:
        return None
    if isinstance(annotation, Struct):
        return class_of(annotation)()
    return SCALARS[annotation.name](0) if isinstance(annotation, Scalar) else composite_type(annotation)(0)
