"""``dk.matmul`` and ``a @ b``: products of matrices and vectors in arrays, recorded by tapes.

On a CPU they are operations that NumPy's BLAS computes, on a GPU launches of kernels with tiles.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from diffkern.errors import MisuseError, described
from diffkern.ir.types import BFLOAT16, BOOL, FLOAT16, FLOAT32, FLOAT64, Scalar
from diffkern.process.tracebacks import brief
from diffkern.runtime.arrays.array import array, new
from diffkern.runtime.arrays.array_copy import clone, copy
from diffkern.runtime.arrays.foreign import adopt
from diffkern.runtime.arrays.matrix_product import MatrixProduct
from diffkern.runtime.arrays.operation import perform
from diffkern.runtime.records.launch import launch, launch_tiled
from diffkern.transforms import matmul_kernels as kernels

__all__ = ["matmul"]


@brief
def matmul(a: Any, b: Any, out: array | None = None, alpha: float = 1.0, beta: float = 0.0) -> array:
    """Multiply matrices: ``alpha * a @ b + beta * out``, as NumPy's ``matmul`` does; ``a @ b`` is the same.

    Tapes and derivatives of functions take it, in both modes and of any order, and recordings repeat it. On a CPU the
    BLAS of NumPy computes it, with its own threads; on a GPU it is a launch of a kernel of tiles.

    Parameters
    ----------
    a, b : array
        Matrices of the shapes (m, k) and (k, n), of one type of numbers. A vector is a row on the left and a column on
        the right, and the result lacks that axis. Leading axes are those of a batch: equal in both, or only one has
        them. Arrays of NumPy and of other libraries are taken as they are.
    out : array, optional
        What takes the result, of its shape and type; a new array without it.
    alpha, beta : float, optional
        Factors of the product and of what `out` holds, constants to derivatives.

    Returns
    -------
    array
        The result; of two vectors it has the shape (1,).

    Raises
    ------
    MisuseError
        If types or shapes do not fit, elements are no numbers, or `beta` is given without `out`.

    Notes
    -----
    Derivative: ``a.grad += alpha * out.grad @ b.T``, ``b.grad += alpha * a.T @ out.grad``, and ``out.grad`` is
    multiplied by `beta`. The contents of `a` and `b` are kept for it if they change later.

    Examples
    --------
    >>> import diffkern as dk
    >>> import numpy as np
    >>> a = dk.array(np.array([[1.0, 2.0], [3.0, 4.0]]), requires_grad=True)
    >>> x = dk.array(np.array([1.0, -1.0]), requires_grad=True)
    >>> with dk.Tape() as tape:
    ...     loss = (a @ x).sum()
    >>> tape.backward(loss)
    >>> a.grad.numpy()
    array([[ 1., -1.],
           [ 1., -1.]])
    >>> x.grad.numpy()
    array([4., 6.])
    """
    left, right = _operand(a, "left"), _operand(b, "right")
    element = _checked(left, right)
    factor, kept = _number(alpha, "alpha", element), _number(beta, "beta", element)
    shape = _result_shape(left, right)
    goal = _goal(out, shape, element, left, kept)
    # Over the memory of a factor a result would be written while that is read: it is made elsewhere.
    made = goal if goal._memory not in (left._memory, right._memory) else _elsewhere(goal, kept)
    adds = kept != 0
    if adds and kept != 1:
        made *= kept
    view = made
    if left.ndim == 1:
        left, view = left[None, :], view[..., None, :] if right.ndim > 1 else view
    if right.ndim == 1:
        right, view = right[:, None], view[..., None]
    if goal._memory.is_host:
        perform(MatrixProduct(view, left, right, factor, adds))
    else:
        _launched(view, left, right, factor, adds)
    if made is not goal:
        copy(goal, made)
    return goal


def _operand(value: Any, side: str) -> array:
    found = value if isinstance(value, array) else adopt(value, None) if hasattr(value, "dtype") else None
    if found is None:
        raise MisuseError(
            f"the {side} operand of a product of matrices is {described(value)}",
            remedy="multiply arrays; x * 2.0 multiplies the elements with a number",
        )
    return found


def _checked(left: array, right: array) -> Scalar:
    """Return the type of the elements of both."""
    for operand in (left, right):
        element = operand._element
        if not isinstance(element, Scalar) or element in (BFLOAT16, BOOL):
            raise MisuseError(
                f"matrices of {described(operand)} are not multiplied",
                remedy="elements are float16 to float64 or integers: x.astype(dk.float32) converts numbers, and "
                "dk.map(lambda a, b: a @ b, x, y) multiplies elements that are matrices",
            )
    if left._element != right._element:
        raise MisuseError(
            f"the product of {described(left)} and {described(right)} has factors of two types",
            remedy="convert one of them, as in x.astype(y.dtype)",
        )
    if left._memory.device is not right._memory.device:
        raise MisuseError(
            f"the factors {described(left)} and {described(right)} are on {left._memory.device} and "
            f"{right._memory.device}",
            remedy="copy one of them, as in x.to(y.device)",
        )
    return left._element  # type: ignore[return-value]  # it is a scalar


def _number(value: Any, name: str, element: Scalar) -> Any:
    """Return a factor as a number of the elements' type."""
    if not isinstance(value, (int, float, np.integer, np.floating)):
        raise MisuseError(
            f"{name} is {described(value)}",
            remedy="it is a number of Python: multiply by an array before or after the product",
        )
    if element.is_float:
        return float(value)
    if not math.isfinite(value) or value != int(value):
        raise MisuseError(
            f"{name}={value} beside elements of {element}", remedy="convert the arrays, as in x.astype(dk.float64)"
        )
    if not np.iinfo(element.name).min <= value <= np.iinfo(element.name).max:
        raise MisuseError(
            f"{name}={value} does not fit elements of {element}",
            remedy="take a smaller number, or arrays of a wider type, as in x.astype(dk.int64)",
        )
    return int(value)


def _result_shape(left: array, right: array) -> tuple[int, ...]:
    one, two = left.shape[:-2], right.shape[:-2]
    inner = left.shape[-1], right.shape[-1] if right.ndim == 1 else right.shape[-2]
    if inner[0] != inner[1]:
        raise MisuseError(
            f"matrices of the shapes {left.shape} and {right.shape} do not fit: {inner[0]} is not {inner[1]}",
            remedy="the last axis on the left is as long as the last but one on the right; x.T exchanges axes",
        )
    if one and two and one != two:
        raise MisuseError(
            f"the batches {one} and {two} of the shapes {left.shape} and {right.shape} differ",
            remedy="leading axes are equal, or only one of the factors has them",
        )
    rows = left.shape[-2:-1] if left.ndim > 1 else ()
    columns = right.shape[-1:] if right.ndim > 1 else ()
    return (one or two) + rows + columns or (1,)


def _goal(out: array | None, shape: tuple[int, ...], element: Scalar, like: array, kept: Any) -> array:
    """Return the array that takes the result."""
    if out is None:
        if kept:
            raise MisuseError(f"beta={kept} without out", remedy="pass the array that it multiplies as out")
        return new(shape, element, False, like._memory.device)
    if not isinstance(out, array) or out.shape != shape or out._element != element:
        raise MisuseError(
            f"out is {described(out)}, and the result has the shape {shape} and elements of {element}",
            remedy="pass an array of that shape and type, or none",
        )
    if out._memory.device is not like._memory.device:
        raise MisuseError(
            f"out is on {out._memory.device}, and the factors are on {like._memory.device}",
            remedy="make it with device=x.device",
        )
    out._check_writable()
    return out


def _elsewhere(goal: array, kept: Any) -> array:
    """Return an array like the goal, with its contents if they matter."""
    return clone(goal) if kept else new(goal.shape, goal._element, False, goal._memory.device)


def _launched(goal: array, left: array, right: array, factor: Any, adds: bool) -> None:
    """Launch a kernel: tiles of the result for blocks, or elements for threads."""
    batch = goal.shape[:-2]
    step_left, step_right = int(left.ndim > 2), int(right.ndim > 2)
    flat = [_flat(operand, math.prod(batch)) for operand in (left, right, goal)]
    dims = flat[2].shape
    # A number of Python would be a float32 or an int32; products of halves are summed in float32.
    exact = np.dtype("float32" if goal._element == FLOAT16 else str(goal._element)).type(factor)
    inputs = [*flat, step_left, step_right, exact]
    if goal._element in (FLOAT32, FLOAT64):
        tiles = [dims[0], *(-(-extent // kernels.TILE) for extent in dims[1:])]
        kernel = kernels.by_tiles_added if adds else kernels.by_tiles
        launch_tiled(kernel, dim=tiles, inputs=inputs, block_dim=kernels.BLOCK)
    else:
        launch(kernels.by_elements_added if adds else kernels.by_elements, dim=dims, inputs=inputs)
    if flat[2]._memory is not goal._memory:
        # Axes of a batch whose strides one axis cannot have were copied.
        copy(goal, flat[2].reshape(goal.shape))


def _flat(a: array, count: int) -> array:
    """Return matrices with one axis for the batch."""
    return a[None] if a.ndim == 2 else a if a.ndim == 3 else a.reshape((count, *a.shape[-2:]))
