"""``vmap`` of calls: one launch with an axis of examples, or a call for each example if there is no such launch.

A function of tensors, or a gradient of one, and a batch give the results with the axis of the batch in front. The
launch is that of another function, whose kernel has the axis, so that its derivatives are found like any other's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch

from diffkern.errors import KernelError
from diffkern.interop.torch.call import home_of, is_value
from diffkern.interop.torch.observers import is_dispatched
from diffkern.ir.structs import Struct, null_of
from diffkern.ir.types import Array
from diffkern.kernels.derived_kernel import BatchedLaunch, batched_launch
from diffkern.lang.annotations import MAX_NDIM, ArrayAnnotation
from diffkern.runtime.arrays.convert import component_shape
from diffkern.runtime.arrays.type_keys import register_type

if TYPE_CHECKING:
    from diffkern.interop.torch.function import TorchFunction

__all__ = ["Axes", "loop_over_batch", "move_batch_axis", "together"]

Axes = Sequence[Any]
"""The batch axis of each argument; None for an argument that all examples share."""

_CACHED = 64
_CPU = torch.device("cpu")
_WORTH_A_CALL = 4096
"""Threads of an example on a processor that are worth a call, which adds up in registers and without atomics."""


def loop_over_batch(
    one: Callable[..., Any], size: int, axes: Axes, args: Sequence[Any]
) -> tuple[tuple[Any, ...], tuple[int | None, ...]]:
    """Call once for each example of a batch, and stack the results."""
    if size == 0:
        raise RuntimeError("dk.torch_function: vmap over an empty batch; there is no example that says a shape")
    rows = [
        one(*[a.select(d, i) if isinstance(d, int) else a for a, d in zip(args, axes, strict=True)])
        for i in range(size)
    ]
    stacked = [None if column[0] is None else torch.stack(list(column)) for column in zip(*rows, strict=True)]
    return tuple(stacked), tuple([None if s is None else 0 for s in stacked])


def move_batch_axis(size: int, axes: Axes, args: Sequence[Any], wanted: Sequence[int] = ()) -> list[Any]:
    """Return arguments with the axis of examples in front; `wanted` have it, though they are the same for all."""
    made = list(args)
    for k, (a, axis) in enumerate(zip(args, axes, strict=True)):
        if isinstance(axis, int):
            made[k] = a.movedim(axis, 0)
        elif k in wanted and isinstance(a, torch.Tensor):
            made[k] = a.unsqueeze(0).expand(size, *a.shape)
    return made


def together(
    function: TorchFunction, size: int, axes: Axes, args: Sequence[Any], wanted: Sequence[int] = ()
) -> tuple[TorchFunction, list[Any]] | None:
    """Return the function that makes one launch for a batch, and its arguments; None if there is none.

    Parameters
    ----------
    function : TorchFunction
        The function that would be called for each example.
    size : int
        How many examples there are.
    axes : sequence of int or None
        Which axis of each argument counts examples.
    args : sequence
        The arguments.
    wanted : sequence of int, optional
        Arguments that must have the axis, though they may be the same for all examples; those of a gradient.
    """
    spec = function.spec
    differ = {k for k, axis in enumerate(axes) if isinstance(axis, int)}
    # A gradient of an argument that all examples share would be summed by the launch; PyTorch wants one for each.
    differ |= {k for k in wanted if isinstance(args[k], torch.Tensor)}.union(spec.in_outs)
    if is_dispatched(args) or not all(isinstance(args[k], torch.Tensor) for k in differ):
        return None
    try:
        launch, outputs = _launch(function, size, sorted(differ.union(spec.outputs)), axes, args, bool(wanted))
    except (KernelError, TypeError):
        return None  # which calls of single examples explain
    if launch is None:
        return None
    key = launch.kernel, launch.dims, tuple(outputs.items())
    if len(function.batches) >= _CACHED:
        function.batches.clear()
    made = function.batches.get(key) or function.batches.setdefault(key, function.with_examples(launch, outputs))
    given = move_batch_axis(size, axes, args, sorted(differ))
    # A value becomes an array with one number per example, which is read without strides.
    parameters = function.kernel.parameters
    return made, [a.contiguous() if k in differ and not parameters[k].is_array else a for k, a in enumerate(given)]


def _launch(
    function: TorchFunction, size: int, differ: Sequence[int], axes: Axes, args: Sequence[Any], is_gradient: bool
) -> tuple[BatchedLaunch | None, dict[str, tuple[int, ...]]]:
    """Return the launch of a batch, and the shapes of its pure outputs by name."""
    kernel, spec = function.kernel, function.spec
    keys, shapes = [], {}
    for p, axis, a in zip(kernel.parameters, axes, args):  # noqa: B905 - outputs have no arguments
        annotation = p.annotation
        element = annotation.element if isinstance(annotation, ArrayAnnotation) else annotation
        if element is None or isinstance(element, Struct):
            return None, {}
        if isinstance(annotation, ArrayAnnotation):
            t = Array(element, annotation.ndim)
            shape = tuple(n for d, n in enumerate(a.shape) if d != axis) if isinstance(a, torch.Tensor) else ()
            inner = component_shape(element)
            if a is None:
                keys.append(register_type(null_of(t)))
                continue
            if len(shape) != t.ndim + len(inner) or t.ndim == MAX_NDIM or annotation.indexed:
                return None, {}
            shapes[p.index] = shape[: t.ndim]
            keys.append(register_type(t))
        else:
            keys.append(register_type(element))
        if not isinstance(a, torch.Tensor) and not is_value(p, a):
            return None, {}
    dims = spec.dims(shapes)
    made = spec.output_shapes(dims, shapes)
    if any(len(shape) == MAX_NDIM for shape in made.values()):
        return None, {}
    keys += [register_type(Array(spec.element(k), len(shape))) for k, shape in made.items()]
    program = kernel.forward(tuple(keys))
    # Sums over threads are in registers within an example, and would be atomic across examples.
    if math.prod(dims) >= _WORTH_A_CALL and (is_gradient or program.sites) and home_of(kernel.parameters, args) == _CPU:
        return None, {}
    launch = batched_launch(kernel, keys, program.manifest, dims, size, differ)
    if launch is not None:
        # Compiled here, where a failure still leads to calls for each example.
        launch.kernel.forward(launch.keys)
    return launch, {kernel.parameters[k].name: (size, *shape) for k, shape in made.items()}
