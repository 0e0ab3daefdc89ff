"""Jacobians as a picture: a matrix of matrices, outputs downwards and inputs to the right."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from diffkern.kernels.kernel import Kernel
from diffkern.runtime.arrays.array import array
from diffkern.warp.differenced import FunctionMetadata

__all__ = ["jacobian_plot"]


def jacobian_plot(
    jacobians: Mapping[tuple[int, int], array],
    kernel: Any,
    inputs: Sequence[Any] | None = None,
    show_plot: bool = True,
    show_colorbar: bool = True,
    scale_colors_per_submatrix: bool = False,
    title: str | None = None,
    colormap: str = "coolwarm",
    log_scale: bool = False,
) -> Any:
    """Draw Jacobians with matplotlib, which the extra ``[plot]`` installs.

    Parameters
    ----------
    jacobians : mapping
        By positions of input and output, arrays with two axes, as of :func:`jacobian`.
    kernel : Kernel, callable or FunctionMetadata
        The differentiated function, whose names label the axes.
    inputs : sequence, optional
        Its inputs: the parameters behind them are the outputs.
    show_plot : bool, optional
        Whether to open a window.
    show_colorbar : bool, optional
        Whether to show what the colours mean.
    scale_colors_per_submatrix : bool, optional
        Whether each matrix has a scale of its own.
    title : str, optional
        The title.
    colormap : str, optional
        Matplotlib's name of the colours.
    log_scale : bool, optional
        Whether the scale is logarithmic, of both signs.

    Returns
    -------
    matplotlib.figure.Figure
        The picture.

    Raises
    ------
    ImportError
        If there is no matplotlib.
    ValueError
        If there is no Jacobian, or of a kernel no inputs are given.
    """
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise ImportError("jacobian_plot draws with matplotlib: pip install diffkern[plot]") from None
    if not jacobians:
        raise ValueError("there is no Jacobian to draw")
    if isinstance(kernel, Kernel) and inputs is None:
        raise ValueError("inputs must be provided: the parameters behind them are the outputs")
    rows, columns = (sorted({pair[k] for pair in jacobians}) for k in (1, 0))
    # Read once: copying from a GPU waits for it.
    every = {pair: matrix.numpy().astype(float) for pair, matrix in jacobians.items()}
    heights = [next(m.shape[0] for pair, m in every.items() if pair[1] == k) for k in rows]
    widths = [next(m.shape[1] for pair, m in every.items() if pair[0] == i) for i in columns]
    figure, axes = plt.subplots(
        len(rows), len(columns), squeeze=False, layout="constrained", width_ratios=widths, height_ratios=heights
    )
    # One scale for all makes the matrices comparable.
    common = None if scale_colors_per_submatrix else _scale(list(every.values()), log_scale)
    in_names, out_names = _names(kernel, len(inputs or ()))
    for (i, k), matrix in every.items():
        place = axes[rows.index(k)][columns.index(i)]
        norm = common or _scale([matrix], log_scale)
        drawn = place.imshow(matrix, cmap=colormap, norm=norm, aspect="auto", interpolation="nearest")
        place.set_xlabel(_name(in_names, i, "input"))
        place.set_ylabel(_name(out_names, k, "output"))
        if show_colorbar and scale_colors_per_submatrix:
            figure.colorbar(drawn, ax=place)
    for place in axes.flat:
        place.set_axis_on() if place.has_data() else place.set_axis_off()
    if show_colorbar and not scale_colors_per_submatrix:
        figure.colorbar(drawn, ax=list(axes.flat))
    figure.suptitle(title or _title(kernel))
    if show_plot:
        plt.show()
    return figure


def _scale(matrices: Sequence[np.ndarray[Any, Any]], log_scale: bool) -> Any:
    """The scale of colours, with zero in the middle."""
    from matplotlib.colors import Normalize, SymLogNorm

    sizes = np.concatenate([np.abs(m[np.isfinite(m)]).reshape(-1) for m in matrices] + [np.zeros(1)])
    most = float(sizes.max()) or 1.0
    if not log_scale:
        return Normalize(-most, most)
    # The scale is linear below this, as a logarithm has no zero; not too small, or noise would take most of the
    # colours.
    least = float(sizes[sizes > 0].min()) if (sizes > 0).any() else most
    return SymLogNorm(max(least, 1e-6 * most), vmin=-most, vmax=most)


def _names(kernel: Any, count: int) -> tuple[list[str], list[str]]:
    """The names of inputs and outputs, as far as they are known."""
    if isinstance(kernel, FunctionMetadata):
        return kernel.input_labels or [], kernel.output_labels or []
    names = list(inspect.signature(getattr(kernel, "func", kernel)).parameters)
    return (names[:count], names[count:]) if count else (names, [])


def _name(names: Sequence[str], k: int, what: str) -> str:
    return names[k] if k < len(names) else f"{what}_{k}"


def _title(kernel: Any) -> str:
    name = kernel.key if isinstance(kernel, FunctionMetadata) else getattr(kernel, "__name__", None)
    return f"{name or 'unknown'} kernel Jacobian"
