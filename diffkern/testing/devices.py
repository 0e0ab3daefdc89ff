"""A kernel and its gradient on two devices: the contents of arrays afterwards have to agree.

:func:`compare_devices` takes a kernel and arguments on any device and returns a description of the first difference, or
None. The gradient is that of a random weighting of all results.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from diffkern.errors import KernelError
from diffkern.ir.structs import Struct
from diffkern.kernels.kernel import Kernel
from diffkern.lang.annotations import ArrayAnnotation
from diffkern.runtime.arrays.array import array, wrap
from diffkern.runtime.effects.tape import Tape
from diffkern.runtime.launch.plain_launch import run
from diffkern.runtime.launch.schedule import Blocks
from diffkern.runtime.memory.device import get_device

__all__ = ["compare_devices"]


def compare_devices(
    kernel: Kernel,
    dim: tuple[int, ...],
    args: Sequence[Any],
    device: Any,
    rtol: float,
    seed: int = 0,
    block_dim: int = 256,
) -> str | None:
    """Return a description of the difference between the CPU and a device, or None if there is none.

    Parameters
    ----------
    kernel : Kernel
        The kernel.
    dim : tuple of int
        The launch's dimensions.
    args : sequence
        Arguments: numbers, vectors and arrays (no structs that hold arrays).
    device : str or diffkern.Device
        The device.
    rtol : float
        The tolerance of a value, relative to the largest of its array.
    seed : int, optional
        The seed of the weights.
    block_dim : int, optional
        Threads of a block.
    """
    here, there = (_run(kernel, dim, args, place, seed, block_dim) for place in ("cpu", device))
    for name, expected in here.items():
        # Relative to the largest value: threads add in another order on a GPU, which rounds small sums of large terms
        # differently.
        size = float(np.max(np.abs(expected), initial=0.0, where=np.isfinite(expected)))
        if not np.allclose(there[name], expected, rtol=rtol, atol=rtol * size, equal_nan=True):
            worst = float(np.nanmax(np.abs(there[name] - expected)))
            return (
                f"{name} on {get_device(device)} differs from the CPU's by {worst:.3g}, its largest value is {size:.3g}"
            )
    return None


def _run(
    kernel: Kernel, dim: tuple[int, ...], args: Sequence[Any], device: Any, seed: int, block_dim: int
) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    given: list[Any] = []
    for parameter, value in zip(kernel.parameters, args, strict=True):
        annotation = parameter.annotation
        if isinstance(value, np.ndarray) and (annotation is None or isinstance(annotation, ArrayAnnotation)):
            value = wrap(value, annotation.element if isinstance(annotation, ArrayAnnotation) else None)
        elif isinstance(annotation, Struct):
            raise KernelError(
                f"parameter {parameter.name!r} is a struct, which is not compared between devices",
                remedy="write a kernel around it that takes the fields as parameters",
            )
        if isinstance(value, array):
            smooth = value._smooth
            # Moving an array to a device makes a new one, without the user's flag.
            value = array(value, device=device)
            value.requires_grad = smooth
        given.append(value)
    with Tape() as tape:
        run(kernel, dim, given, blocks=Blocks(block_dim))
    arrays = {p.name: a for p, a in zip(kernel.parameters, given, strict=True) if isinstance(a, array)}
    found: dict[str, Any] = {}
    for name, a in arrays.items():
        contents = a.numpy()
        if contents.dtype.names is None:
            found[f"array {name!r}"] = contents.astype(np.float64)
        if a.grad is not None and contents.dtype.kind == "f":
            # The weights are drawn in the order of the parameters, with one seed: they are the same on both devices.
            a.grad.assign(rng.normal(size=contents.shape).astype(contents.dtype))
    tape.backward()
    for name, a in arrays.items():
        if a.grad is not None and a.grad.numpy().dtype.kind == "f":
            found[f"the gradient of {name!r}"] = a.grad.numpy().astype(np.float64)
    return found
