"""The first place where a number becomes infinite or NaN, in a kernel, its adjoint, or the launches of a function.

The functions take a kernel with a launch, or a function without arguments, and return the first place, or None.
Launches run on one thread of the CPU, so that it is the same place each time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from diffkern.errors import MisuseError, NonFiniteError
from diffkern.kernels.kernel import Kernel
from diffkern.lang.annotations import ArrayAnnotation
from diffkern.process.tracebacks import brief
from diffkern.runtime.arrays.array import array, wrap
from diffkern.runtime.arrays.array_copy import clone
from diffkern.runtime.effects.tape import Tape
from diffkern.runtime.launch.plain_launch import run
from diffkern.runtime.launch.schedule import Blocks
from diffkern.runtime.observe.config import config, detect_anomaly

__all__ = ["assert_finite", "find_nonfinite"]


@brief
def find_nonfinite(
    checked: Kernel | Callable[[], Any],
    dim: int | Sequence[int] | None = None,
    inputs: Sequence[Any] = (),
    outputs: Sequence[Any] = (),
    *,
    adjoint: bool = True,
    block_dim: int | None = None,
) -> NonFiniteError | None:
    """Return the place where a number first becomes infinite or NaN, or None if all stay finite.

    Parameters
    ----------
    checked : Kernel or callable
        A kernel. Or a function without arguments, which launches kernels and takes gradients as it likes; kernels with
        a ``mode`` of their own are not examined there.
    dim : int or sequence of int, optional
        The launch's dimensions, for a kernel.
    inputs, outputs : sequence
        The kernel's arguments. They are not changed.
    adjoint : bool, optional
        Whether the kernel's adjoint is run as well, with a cotangent of ones for each array that it writes.
    block_dim : int, optional
        Threads of a block, where they work together; the kernel's own number by default.

    Returns
    -------
    NonFiniteError or None
        The error that would have been raised: it has the kernel, the thread, the line and the variable.
    """
    if isinstance(checked, Kernel):
        if dim is None:
            raise MisuseError(f"the kernel {checked.name!r} needs the dimensions of its launch", remedy="pass dim")
        return _found(lambda: _run(checked, dim, (*inputs, *outputs), adjoint, block_dim))
    if dim is not None or inputs or outputs or not callable(checked):
        raise MisuseError(
            "find_nonfinite is of a kernel with its launch, or of a function without arguments",
            remedy="write find_nonfinite(lambda: ...), or find_nonfinite(kernel, dim, inputs)",
        )
    return _found(checked)


@brief
def assert_finite(
    checked: Kernel | Callable[[], Any],
    dim: int | Sequence[int] | None = None,
    inputs: Sequence[Any] = (),
    outputs: Sequence[Any] = (),
    *,
    adjoint: bool = True,
    block_dim: int | None = None,
) -> None:
    """Raise if a number becomes infinite or NaN.

    Parameters
    ----------
    checked, dim, inputs, outputs, adjoint, block_dim
        As of :func:`find_nonfinite`.

    Raises
    ------
    AssertionError
        With the place, its line and the thread.
    """
    found = find_nonfinite(checked, dim, inputs, outputs, adjoint=adjoint, block_dim=block_dim)
    if found is not None:
        raise AssertionError(str(found)) from None


def _found(run: Callable[[], Any]) -> NonFiniteError | None:
    # With one thread the first place is the same in every run.
    threads = config.num_threads
    config.num_threads = 1
    try:
        # The run time's own check raises at the first place.
        with detect_anomaly():
            run()
    except NonFiniteError as error:
        return error
    finally:
        config.num_threads = threads
    return None


def _run(kernel: Kernel, dim: int | Sequence[int], args: Sequence[Any], adjoint: bool, block_dim: int | None) -> None:
    # The launch may write to any of them.
    given = [_copied(kernel, k, a) for k, a in enumerate(args)]
    if not adjoint:
        run(kernel, dim, given, record_tape=False, blocks=Blocks(block_dim))
        return
    with Tape() as tape:
        run(kernel, dim, given, blocks=Blocks(block_dim))
    # A kernel that writes no floats has no adjoint to run.
    written = [a for step in tape.launches for a in _written(step)]
    if written:
        # Cotangents of ones: the adjoint of a sum, which leaves no output out.
        tape.backward(grads={a: _ones(a) for a in written})


def _copied(kernel: Kernel, k: int, value: Any) -> Any:
    annotation = kernel.parameters[k].annotation
    if isinstance(value, np.ndarray) and (annotation is None or isinstance(annotation, ArrayAnnotation)):
        value = wrap(value, None if annotation is None else annotation.element)
    if isinstance(value, array):
        # On a copy: the arguments stay as they are.
        return clone(value, requires_grad=value._smooth)
    return value


def _written(step: Any) -> list[array]:
    """Return the differentiable arrays that a launch on a tape writes."""
    held = [step.arrays[k] for k in step.executable.writes]
    return [a for a in held if a is not None and a._smooth]


def _ones(a: array) -> array:
    ones = clone(a)
    ones.fill_(1)
    return ones
