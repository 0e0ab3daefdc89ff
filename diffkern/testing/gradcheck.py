"""Gradient checks: derivatives of a kernel against central differences, and float32 against float64.

:func:`gradcheck` takes a kernel, launch dimensions and arguments; or a function that launches kernels, or a tape. It
returns a :class:`GradcheckReport`, or raises a :class:`GradientError` that names the worst element. The kernel is
lowered again with float64 instead of every narrower float (constants and functions included), so that a wrong
derivative cannot hide behind rounding; then

1. every element of every differentiable argument (or a random choice of them) is checked against central differences
   of a random projection of all arrays that the kernel writes, arrays that are read and written included;
2. along a random direction the two sides of ``<w, J t> = <J^T w, t>`` are compared, with another projection ``w``;
3. the gradient in the kernel's own types is compared with the one in float64;
4. forward mode is compared with central differences of every result along a random direction;
5. for second order the same is done to the gradient of the kernel in forward mode.

Launches of functions and tapes are checked so one by one; the whole function is compared with differences in the types
of its arrays.
"""

from __future__ import annotations

import contextlib
import ctypes
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal

import numpy as np

from diffkern.analysis.extents import certain_extents
from diffkern.compiler import pipeline
from diffkern.errors import AutodiffError, LaunchError, MisuseError
from diffkern.ir.clone import clone_function
from diffkern.ir.nodes import Function, walk
from diffkern.ir.ops.memory import PLACE_WRITES, WRITES
from diffkern.ir.types import Array, is_differentiable
from diffkern.kernels.kernel import Kernel
from diffkern.process.tracebacks import brief
from diffkern.runtime.effects.tape import Tape
from diffkern.runtime.launch.grid_checks import check_axes, check_extents, named
from diffkern.runtime.launch.kernel_protocol import check_kernel
from diffkern.runtime.launch.resources import present
from diffkern.testing.adjoints import Vjp, check_function, check_vjp, compare_precisions
from diffkern.testing.comparison import GradcheckReport, GradientError, KinkWarning, Tolerances
from diffkern.testing.configured import configured
from diffkern.testing.devices import compare_devices
from diffkern.testing.programs import CompiledFunction, leaf_values
from diffkern.testing.recorded import check_differences, launches_of
from diffkern.testing.tangents import check_forward, check_second

__all__ = [
    "GradcheckReport",
    "GradientError",
    "KinkWarning",
    "Tolerances",
    "Vjp",
    "check_function",
    "check_vjp",
    "compare_precisions",
    "gradcheck",
]

Mode = Literal["both", "reverse", "forward"]


@brief
def gradcheck(
    checked: Kernel | Tape | Callable[..., Any],
    dim: int | Sequence[int] | None = None,
    inputs: Sequence[Any] = (),
    outputs: Sequence[Any] = (),
    *,
    order: Literal[1, 2] = 1,
    mode: Mode = "both",
    eps: float = 1e-4,
    rtol: float = 1e-5,
    atol: float = 1e-8,
    rtol32: float = 1e-3,
    max_elements: int = 64,
    seed: int = 0,
    device: Any = None,
    block_dim: int | None = None,
) -> GradcheckReport:
    """Check the derivatives of a kernel, a function or a tape; the arguments are not changed.

    Parameters
    ----------
    checked : Kernel, callable or Tape
        A kernel, or ``kernel[blocks, threads]`` of ``cuda.jit``. Or a function of arrays that launches kernels and
        returns an array or several: each launch that changes arrays is checked by itself, and the whole function with
        differences in the types of its arrays. Or a tape, whose launches are checked one by one at the present
        contents of their arrays.
    dim : int or sequence of int, optional
        The launch's dimensions, for a kernel.
    inputs, outputs : sequence
        The arguments, as for a launch; for a function, the inputs. All that can have a gradient are checked, numbers,
        vectors and fields of structs passed by value included; arrays that the kernel writes count with the contents
        they have here.
    order : {1, 2}, optional
        2 to check second derivatives too: the gradient of the derivative along a random direction.
    mode : {"both", "reverse", "forward"}, optional
        Which modes are checked. With ``"both"`` a kernel that has no derivative in forward mode is checked in reverse
        mode alone.
    eps : float, optional
        Largest step of the differences, relative to the size of the changed number; smaller ones are tried near kinks.
    rtol, atol : float, optional
        Tolerances of the derivatives in float64 against the differences.
    rtol32 : float, optional
        How far the gradient in the kernel's own types may be from the one in float64, relative to the largest element.
    max_elements : int, optional
        Elements to compare one by one; a random choice of them if there are more.
    seed : int, optional
        The seed of the random projections, directions and choices.
    device : str or diffkern.Device, optional
        A GPU on which the kernel and its gradient are run as well: they have to agree with the CPU's within `rtol32`.
    block_dim : int, optional
        Threads of a block, which matters where they work together; the kernel's own number by default.

    Returns
    -------
    GradcheckReport

    Raises
    ------
    GradientError
        If a derivative is wrong; names the kernel, the worst elements and both values. Also if there was nothing to
        compare: no parameter with a gradient, no result, no thread, no launch, or every element at a kink.
    AutodiffError
        If the kernel cannot be differentiated.

    Warns
    -----
    KinkWarning
        If elements lie too near a kink or a jump to be compared.
    """
    if order not in (1, 2) or mode not in ("both", "reverse", "forward"):
        raise MisuseError(
            f"order is 1 or 2 and mode 'both', 'reverse' or 'forward', not {order!r} and {mode!r}",
            remedy="leave them out for order=1 in both modes",
        )
    tolerances = Tolerances(eps, rtol, atol, rtol32, max_elements, seed)
    checked, dim = configured(checked, dim)
    # The same checks for a kernel, for each launch of a tape, and for those of a function.
    check = _with_volumes_kept(partial(_check_lowered, order=order, mode=mode, tolerances=tolerances))
    if isinstance(checked, Kernel):
        return _check_kernel(checked, dim, inputs, outputs, check, device, block_dim, tolerances)
    given: object = checked
    if not isinstance(given, Tape) and not callable(given):
        check_kernel(given)  # is an error
    if dim is not None or outputs or device is not None or block_dim is not None:
        raise MisuseError(
            "dim, outputs, device and block_dim are of a kernel; a function has inputs, a tape nothing",
            remedy="write gradcheck(function, inputs=[x]), or gradcheck(tape)",
        )
    if isinstance(checked, Tape):
        return _check_launches("the tape", checked, check)
    # Differences of the whole compare what single launches do not show.
    launches = partial(_check_launches, check=check, within=True)
    with _volumes_kept():
        return check_differences(checked, inputs, order, mode, tolerances, launches)


def _check_kernel(
    kernel: Kernel,
    dim: int | Sequence[int] | None,
    inputs: Sequence[Any],
    outputs: Sequence[Any],
    check: Callable[..., GradcheckReport],
    device: Any,
    block_dim: int | None,
    tol: Tolerances,
) -> GradcheckReport:
    if dim is None:
        raise MisuseError(
            f"gradcheck of the kernel {kernel.name!r} needs the dimensions of its launch", remedy="pass dim"
        )
    given = (*inputs, *outputs)
    fn = pipeline.lower_kernel(kernel.func, kernel.argument_types(*given), kernel.variant)
    dims = tuple(dim) if isinstance(dim, Sequence) else (dim,)
    # Nothing compared would look like nothing wrong.
    if not math.prod(dims):
        raise GradientError(f"gradcheck of {kernel.name!r} compared nothing: dim={dim!r} runs no thread")
    args = [leaf for a, p in zip(given, kernel.parameters, strict=True) for leaf in leaf_values(a, p.annotation)]
    # The checks run the program without a launch, which would have refused dimensions that leave arrays.
    _check_grid(kernel.name, fn, dims, args)
    threads = block_dim or kernel.block_dim
    report = check(kernel, fn, dims, args, threads)
    if device is not None:
        found = compare_devices(kernel, dims, given, device, tol.rtol32, tol.seed, threads)
        if found is not None:
            raise GradientError(f"kernel {kernel.name!r}: {found}")
    return report


def _with_volumes_kept(check: Callable[..., GradcheckReport]) -> Callable[..., GradcheckReport]:
    """Return a check of a launch that leaves volumes as they are.

    A check runs the kernel with other arguments. Arrays are copies, but an id leads to the user's own volume.
    """

    def checked(kernel: Kernel, fn: Function, *given: Any) -> GradcheckReport:
        with _volumes_kept() if any(op.name in PLACE_WRITES for op in walk(fn.body)) else contextlib.nullcontext():
            return check(kernel, fn, *given)

    return checked


@contextlib.contextmanager
def _volumes_kept() -> Iterator[None]:
    stored = [held for one in present() if one.device.is_cpu for held in one.content.stored]
    kept = [(held, ctypes.string_at(held._range[0], held._range[1] - held._range[0])) for held in stored]
    try:
        yield
    finally:
        # In the memory itself: a tape that waits for its backward has seen no change.
        for held, content in kept:
            ctypes.memmove(held._range[0], content, len(content))


def _check_lowered(
    kernel: Kernel,
    fn: Function,
    dims: Sequence[int],
    args: Sequence[Any],
    block_dim: int,
    *,
    order: int,
    mode: Mode,
    tolerances: Tolerances,
) -> GradcheckReport:
    """Check the results of a launch of a kernel, in the modes and to the order asked for."""
    if not _leaves_numbers(fn):
        raise GradientError(f"gradcheck of {kernel.name!r} compared nothing: it changes no array of floats")
    engine = partial(CompiledFunction, block_dim=block_dim)
    # In forward mode alone, this is the report, beside the result of that mode.
    nothing = GradcheckReport(kernel.name, (), 0, None, (), math.nan, None)
    report = nothing
    if mode != "forward":
        report = check_function(fn, dims, args, engine=engine, variant=kernel.variant, tolerances=tolerances)
    try:
        count, worst = check_forward(fn, dims, args, engine, tolerances) if mode != "reverse" else (0, None)
    except AutodiffError:
        if mode == "forward":
            raise
        # Some kernels have a reverse mode only, which is no fault unless forward mode was asked for.
        count, worst = 0, None
    if mode == "forward" and not count:
        raise GradientError(f"gradcheck of {kernel.name!r} compared nothing: every result lies too near a kink or jump")
    second = check_second(fn, dims, args, engine, kernel.variant, tolerances) if order == 2 else None
    return replace(report, forward=count, forward_worst=worst, second=second)


def _check_launches(
    name: str, tape: Tape, check: Callable[..., GradcheckReport], within: bool = False
) -> GradcheckReport:
    """Check each launch on a tape by itself; within a function those that change arrays of floats."""
    reports: list[GradcheckReport] = []
    found = False
    # One after the other, so that an error names the launch that is wrong.
    for kernel, fn, *given in launches_of(tape):
        found = True
        # What stores to a volume alone changes nothing here: what comes of it is seen in the whole function.
        if not within or _leaves_numbers(fn):
            reports.append(check(kernel, fn, *given))
    if not found:
        raise GradientError(f"gradcheck of {name} compared nothing: no launch with a derivative is on it")
    checked = sum(report.checked for report in reports)
    return GradcheckReport(
        name, tuple(report.kernel for report in reports), checked, None, (), math.nan, None, launches=tuple(reports)
    )


def _check_grid(kernel: str, fn: Function, dims: Sequence[int], args: Sequence[Any]) -> None:
    """Refuse dimensions that a launch refuses."""
    shapes = {k: np.shape(a) for k, a in enumerate(args)}
    # On a copy, since passes change a function in place.
    entries = certain_extents(pipeline.optimise(clone_function(fn)))
    try:
        check_axes(fn.tid_arity, dims)
        check_extents(entries, fn.param_names, dims, shapes)
    except LaunchError as error:
        raise named(kernel, error) from None


def _leaves_numbers(fn: Function) -> bool:
    """Return whether a function changes an array that can have a gradient."""
    smooth = {p for p in fn.params if isinstance(p.type, Array) and is_differentiable(p.type)}
    return any(op.name in WRITES and op.operands[0] in smooth for op in walk(fn.body))
