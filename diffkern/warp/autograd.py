"""Warp's gradient checks: Jacobians by reverse mode and by finite differences, and their comparison.

The function under test is a kernel with its launch, or a Python function of arrays that launches kernels and returns
arrays. The result is a matrix for each pair of an input and an output, keyed by their positions; its rows are the
components of the output. Everything runs on copies, so the arrays that were given stay unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from diffkern.kernels.kernel import Kernel
from diffkern.runtime.arrays.array import array
from diffkern.runtime.arrays.create import from_numpy
from diffkern.runtime.effects.tape import Tape
from diffkern.runtime.launch.packed import PackedLaunch
from diffkern.warp.differenced import FunctionMetadata, Mask, Run, TapedRun, units
from diffkern.warp.plots import jacobian_plot

__all__ = ["FunctionMetadata", "gradcheck", "gradcheck_tape", "jacobian", "jacobian_fd", "jacobian_plot"]

Function: TypeAlias = "Kernel | Callable[..., Any]"
Jacobians: TypeAlias = "dict[tuple[int, int], array]"


def jacobian(
    function: Function,
    dim: Any = None,
    inputs: Sequence[Any] | None = None,
    outputs: Sequence[Any] | None = None,
    input_output_mask: Mask = None,
    device: Any = None,
    max_blocks: int = 0,
    block_dim: int | None = None,
    max_outputs_per_var: int = -1,
    plot_jacobians: bool = False,
    metadata: FunctionMetadata | None = None,
    restore_inputs: bool = True,
) -> Jacobians:
    """Compute Jacobians by reverse mode, one sweep for each component of an output.

    Parameters
    ----------
    function : Kernel or callable
        A kernel, or a function of the inputs that launches kernels and returns its outputs.
    dim : int or sequence of int, optional
        The launch's dimensions, for a kernel.
    inputs, outputs : sequence
        The arguments of the kernel; those of the function are the inputs.
    input_output_mask : sequence of pair, optional
        The pairs that are wanted, each a position or a parameter's name; all by default.
    device, max_blocks, block_dim : optional
        As for the launch of the kernel.
    max_outputs_per_var : int, optional
        The number of components of each output that are computed, if positive; the rows of the others are NaN.
    plot_jacobians : bool, optional
        Whether to show them, as :func:`jacobian_plot` does.
    metadata : FunctionMetadata, optional
        Names for the picture.
    restore_inputs : bool, optional
        Inputs stay as they are in any case, as what runs are copies.

    Returns
    -------
    dict
        By positions of input and output, arrays with two axes.

    Raises
    ------
    ValueError
        If the kernel is not to be differentiated.
    """
    run = Run(function, dim, inputs or (), outputs or (), _options(device, max_blocks, block_dim))
    found = _jacobian(run, input_output_mask, max_outputs_per_var)
    if plot_jacobians:
        jacobian_plot(found, metadata or run.function, run.inputs)
    return found


def jacobian_fd(
    function: Function,
    dim: Any = None,
    inputs: Sequence[Any] | None = None,
    outputs: Sequence[Any] | None = None,
    input_output_mask: Mask = None,
    device: Any = None,
    max_blocks: int = 0,
    block_dim: int | None = None,
    max_inputs_per_var: int = -1,
    eps: float = 1e-4,
    plot_jacobians: bool = False,
    metadata: FunctionMetadata | None = None,
    restore_inputs: bool = True,
) -> Jacobians:
    """Compute Jacobians by central differences, two runs for each component of an input.

    Parameters
    ----------
    function, dim, inputs, outputs, input_output_mask, device, max_blocks, block_dim
        As of :func:`jacobian`.
    max_inputs_per_var : int, optional
        The number of components of each input that are perturbed, if positive; the columns of the others are NaN.
    eps : float, optional
        The size of the perturbation, to either side.
    plot_jacobians, metadata, restore_inputs : optional
        As of :func:`jacobian`.

    Returns
    -------
    dict
        As of :func:`jacobian`.
    """
    run = Run(function, dim, inputs or (), outputs or (), _options(device, max_blocks, block_dim))
    found = _jacobian_fd(run, input_output_mask, max_inputs_per_var, eps)
    if plot_jacobians:
        jacobian_plot(found, metadata or run.function, run.inputs)
    return found


def gradcheck(
    function: Function,
    dim: Any = None,
    inputs: Sequence[Any] | None = None,
    outputs: Sequence[Any] | None = None,
    *,
    eps: float = 1e-4,
    atol: float = 1e-3,
    rtol: float = 1e-2,
    raise_exception: bool = True,
    input_output_mask: Mask = None,
    device: Any = None,
    max_blocks: int = 0,
    block_dim: int | None = None,
    max_inputs_per_var: int = -1,
    max_outputs_per_var: int = -1,
    plot_relative_error: bool = False,
    plot_absolute_error: bool = False,
    show_summary: bool = True,
    restore_inputs: bool = True,
) -> bool:
    """Compare derivatives with differences.

    Parameters
    ----------
    function, dim, inputs, outputs, input_output_mask, device, max_blocks, block_dim, restore_inputs
        As of :func:`jacobian`.
    eps : float, optional
        As of :func:`jacobian_fd`.
    atol, rtol : float, optional
        The absolute tolerance, and the one relative to the difference quotient.
    raise_exception : bool, optional
        Whether a difference that is too large is an error.
    max_inputs_per_var, max_outputs_per_var : int, optional
        The number of components of each input and output that are compared, if positive.
    plot_relative_error, plot_absolute_error : bool, optional
        Whether to show the differences, as :func:`jacobian_plot` does.
    show_summary : bool, optional
        Whether to print the largest difference of each pair.

    Returns
    -------
    bool
        Whether all agree.

    Raises
    ------
    ValueError
        If they do not, with the worst component.
    """
    run = Run(function, dim, inputs or (), outputs or (), _options(device, max_blocks, block_dim))
    check = _Check(eps, atol, rtol, raise_exception, max_inputs_per_var, max_outputs_per_var, show_summary)
    good = check.run(run, input_output_mask)
    check.plot(run, plot_relative_error, plot_absolute_error)
    return good


def gradcheck_tape(
    tape: Tape,
    *,
    eps: float = 1e-4,
    atol: float = 1e-3,
    rtol: float = 1e-2,
    raise_exception: bool = True,
    input_output_masks: Mapping[str, Mask] | None = None,
    blacklist_kernels: Sequence[str] | None = None,
    whitelist_kernels: Sequence[str] | None = None,
    max_inputs_per_var: int = -1,
    max_outputs_per_var: int = -1,
    plot_relative_error: bool = False,
    plot_absolute_error: bool = False,
    show_summary: bool = True,
    reverse_launches: bool = False,
    skip_to_launch_index: int = 0,
) -> bool:
    """Compare derivatives with differences for each launch on a tape by itself, at what its arrays hold now.

    Functions that were recorded, kernels that are not differentiated and launches that write to fields of structs are
    left out.

    Parameters
    ----------
    tape : Tape
        The tape.
    eps, atol, rtol, raise_exception, max_inputs_per_var, max_outputs_per_var
        As of :func:`gradcheck`.
    input_output_masks : mapping, optional
        By the kernel's name, what :func:`gradcheck` takes as `input_output_mask`.
    blacklist_kernels, whitelist_kernels : sequence of str, optional
        Names of kernels that are left out, and of the only ones that are checked.
    plot_relative_error, plot_absolute_error, show_summary
        As of :func:`gradcheck`.
    reverse_launches : bool, optional
        Whether to begin with the last launch.
    skip_to_launch_index : int, optional
        The number of launches to skip, in this order.

    Returns
    -------
    bool
        Whether all agree.

    Raises
    ------
    ValueError
        If they do not, with the worst component.
    """
    launches = [launch for launch in tape.launches if isinstance(launch, PackedLaunch)]
    ordered = list(reversed(launches)) if reverse_launches else launches
    good = True
    for launch in ordered[skip_to_launch_index:]:
        name, run = launch.kernel.name, TapedRun(launch)
        if (
            name in (blacklist_kernels or ())
            or not run.can_run
            or (whitelist_kernels and name not in whitelist_kernels)
        ):
            continue
        if show_summary:
            print(f"launch of {name} over {launch.dims}")
        # A new check for each launch, as it holds the matrices of one.
        check = _Check(eps, atol, rtol, raise_exception, max_inputs_per_var, max_outputs_per_var, show_summary)
        good = check.run(run, (input_output_masks or {}).get(name)) and good
        check.plot(run, plot_relative_error, plot_absolute_error)
    return good


def _options(device: Any, max_blocks: int, block_dim: int | None) -> dict[str, Any]:
    """Return the keyword arguments of a kernel's launch other than its inputs and outputs."""
    return {"device": device, "max_blocks": max_blocks, "block_dim": block_dim}


def _jacobian(run: Run, mask: Mask, most: int) -> Jacobians:
    if isinstance(run.function, Kernel) and not run.function.enable_backward:
        raise ValueError(f"the kernel {run.function.name!r} is not differentiated, as enable_backward is off")
    # The copies have gradients of their own, so the originals stay as they are, including their gradients.
    given = run.copies()
    with Tape() as tape:
        results = run(given)
    pairs = run.pairs(given, results, mask)
    found = {(i, k): _unknown(given[i], results[k]) for i, k in pairs}
    # One sweep per component of an output serves all inputs, so outputs are the outer loop.
    for k in sorted({output for _, output in pairs}):
        for at, seed in enumerate(units(results[k], most)):
            # Gradients accumulate over sweeps, so each row begins at zero.
            tape.zero()
            tape.backward(grads={results[k]: seed})
            for i in (i for i, output in pairs if output == k):
                found[i, k][at] = given[i].grad.numpy().reshape(-1)
    return {pair: from_numpy(matrix) for pair, matrix in found.items()}


def _jacobian_fd(run: Run, mask: Mask, most: int, eps: float) -> Jacobians:
    given = run.copies()
    # A first run, for the shapes of the outputs: `given` stays at the point where the derivative is taken.
    results = run(run.copies())
    pairs = run.pairs(given, results, mask)
    found = {(i, k): _unknown(given[i], results[k], np.float32) for i, k in pairs}
    for i in sorted({i for i, _ in pairs}):
        wanted = [output for j, output in pairs if j == i]
        count = given[i].numpy().size
        for at in range(min(count, most) if most > 0 else count):
            # Each run has its own copies: a kernel may overwrite its inputs.
            low, high = (run.moved(i, at, by, wanted) for by in (-eps, eps))
            for k, a, b in zip(wanted, low, high, strict=True):
                found[i, k][:, at] = (b - a) / (2.0 * eps)
    return {pair: from_numpy(matrix) for pair, matrix in found.items()}


def _unknown(given: array, result: array, dtype: Any = None) -> np.ndarray[Any, Any]:
    """Return a Jacobian filled with NaN, which stands for components that are not computed."""
    a, b = given.numpy(), result.numpy()
    return np.full((b.size, a.size), np.nan, dtype or a.dtype)


class _Check:
    """A comparison of derivatives with finite differences, and its results."""

    def __init__(
        self, eps: float, atol: float, rtol: float, strict: bool, most_in: int, most_out: int, show: bool
    ) -> None:
        self.eps, self.atol, self.rtol, self.strict, self.show = eps, atol, rtol, strict, show
        self.most_in, self.most_out = most_in, most_out
        self.exact: Jacobians = {}
        self.differences: Jacobians = {}

    def run(self, run: Run, mask: Mask) -> bool:
        """Return whether all agree."""
        self.exact = _jacobian(run, mask, self.most_out)
        self.differences = _jacobian_fd(run, mask, self.most_in, self.eps)
        good = True
        for pair in self.exact:
            good = self.agrees(pair) and good
        return good

    def agrees(self, pair: tuple[int, int]) -> bool:
        """Return whether the matrices of a pair agree; a NaN does not."""
        # Beyond these the matrices hold NaN for components that were not computed; within them a NaN is a failure.
        rows, columns = (most if most > 0 else None for most in (self.most_out, self.most_in))
        a, b = (m[pair].numpy().astype(float)[:rows, :columns] for m in (self.exact, self.differences))
        if not a.size:
            return True
        # NaN compares as false, so it fails here, and counts as the worst component below.
        off = np.abs(a - b)
        good = bool(np.all(off <= self.atol + self.rtol * np.abs(b)))
        worst = np.unravel_index(int(np.argmax(np.nan_to_num(off, nan=np.inf))), off.shape)
        text = (
            f"input {pair[0]}, output {pair[1]}: component {worst[0]} of the output by component {worst[1]} of the "
            f"input is {a[worst]:.6g}, and {b[worst]:.6g} by differences"
        )
        if self.show:
            print(f"{'agrees' if good else 'DIFFERS'}: {text}")
        if not good and self.strict:
            raise ValueError(f"the derivative differs from differences: {text}")
        return good

    def plot(self, run: Run, relative: bool, absolute: bool) -> None:
        """Show the differences."""
        off = {pair: np.abs(m.numpy() - self.differences[pair].numpy()) for pair, m in self.exact.items()}
        if relative:
            parts = {pair: d / np.maximum(np.abs(self.differences[pair].numpy()), 1e-12) for pair, d in off.items()}
            named = {pair: from_numpy(part.astype(np.float32)) for pair, part in parts.items()}
            jacobian_plot(named, run.function, run.inputs, title=f"{run.name} kernel Jacobian relative error")
        if absolute:
            named = {pair: from_numpy(part.astype(np.float32)) for pair, part in off.items()}
            jacobian_plot(named, run.function, run.inputs, title=f"{run.name} kernel Jacobian absolute error")
