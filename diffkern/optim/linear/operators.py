"""Linear operators: what the solvers know of a matrix, its product with a vector."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from diffkern.errors import LaunchError, MisuseError, described
from diffkern.ir.structs import Struct
from diffkern.ir.types import INT32, Mat, Scalar, Vec, scalar_of
from diffkern.kernels.kernel import Kernel
from diffkern.lang.dtypes import SCALARS, composite_type
from diffkern.optim.lbfgs import components
from diffkern.optim.linear import kernels
from diffkern.runtime.arrays.array import array
from diffkern.runtime.arrays.array_copy import clone, copy
from diffkern.runtime.arrays.create import zeros_like
from diffkern.runtime.memory.device import get_device
from diffkern.runtime.memory.scope import read_by
from diffkern.runtime.records.launch import launch

__all__ = ["FunctionOperator", "LinearOperator", "aslinearoperator", "batches_of", "has_floats"]

Matvec = Callable[[array, array, array, Any, Any], None]


class LinearOperator:
    """A matrix, known by its products with vectors.

    Parameters
    ----------
    shape : tuple of int
        The number of rows and columns.
    dtype : type
        The type of the elements: a scalar type, or that of blocks.
    device
        The device of the vectors.
    matvec : callable
        ``matvec(x, y, z, alpha, beta)`` stores ``alpha * A @ x + beta * y`` in `z`, which may be `y`. With `beta` of
        0 it must not matter what `y` holds.
    batch_offsets : array, optional
        Of shape ``(B + 1,)`` and int32: the operator consists of B separate systems, of which each begins at the scalar
        unknown that is given here. Unknowns from the last offset on are left alone.
    max_batch_length : int, optional
        The largest number of scalar unknowns of a system. Kept for programs written for Warp.
    parameters : sequence of array, optional
        The arrays of floats that `matvec` reads and that derivatives may be taken for.
    rebuild : callable, optional
        Returns such an operator with other arrays in the place of `parameters`.
    transposed : callable, optional
        Returns the transposed operator; the default is derived from `matvec`, which then has to launch kernels.
    matrix : callable, optional
        Returns the matrix, as an array of NumPy or SciPy, for direct solvers.
    diagonal : callable, optional
        Returns the diagonal for preconditioners: an array with one axis, of numbers or square blocks.
    recordable : bool, optional
        Whether `matvec` does nothing but launch kernels on the arrays that it is given and on parameters, so that it
        may be recorded once and replayed.

    Attributes
    ----------
    shape, dtype, device, matvec, batch_offsets, max_batch_length
        As given.
    """

    def __init__(
        self,
        shape: tuple[int, ...],
        dtype: Any,
        device: Any,
        matvec: Matvec,
        batch_offsets: array | None = None,
        max_batch_length: int | None = None,
        *,
        parameters: Sequence[array] = (),
        rebuild: Callable[..., LinearOperator] | None = None,
        transposed: Callable[[], LinearOperator] | None = None,
        matrix: Callable[[], Any] | None = None,
        diagonal: Callable[[], array] | None = None,
        recordable: bool = False,
    ) -> None:
        _check_batches(batch_offsets, max_batch_length)
        self.shape = tuple(shape)
        self.dtype = dtype
        self.device = get_device(device)
        self.matvec = matvec
        self.batch_offsets = batch_offsets
        self.max_batch_length = max_batch_length
        self._parameters = tuple(parameters)
        self._rebuild = rebuild
        self._transposed = transposed
        self._matrix = matrix
        self._diagonal = diagonal
        self._recordable = recordable

    @property
    def scalar_type(self) -> Any:
        """The type of the components of the elements."""
        return getattr(self.dtype, "scalar", self.dtype)

    @property
    def batch_count(self) -> int:
        """The number of separate systems."""
        return 1 if self.batch_offsets is None else self.batch_offsets.size - 1

    def _with(self, parameters: Sequence[array]) -> LinearOperator:
        """Return the operator with other arrays in the place of its parameters."""
        if self._rebuild is None or all(a is b for a, b in zip(parameters, self._parameters, strict=True)):
            return self
        made = self._rebuild(*parameters)
        made.batch_offsets, made.max_batch_length = self.batch_offsets, self.max_batch_length
        return made

    def _times(self, x: array) -> array:
        """Return the product with a vector of a square operator, a new array like it."""
        made = zeros_like(x, requires_grad=False)
        self.matvec(x, zeros_like(made), made, 1.0, 0.0)
        return made

    def __repr__(self) -> str:
        return f"<LinearOperator of shape {self.shape} on {self.device}>"


class FunctionOperator(LinearOperator):
    """The operator of a function that returns a product as a new array.

    Parameters
    ----------
    function : callable
        ``function(x, *parameters)``, linear in x.
    shape, dtype, device, batch_offsets
        See :class:`LinearOperator`.
    parameters : sequence
        The other arguments of the function, of which arrays of floats have derivatives.
    transposed : callable, optional
        Returns the transposed operator, given `parameters`.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        shape: tuple[int, ...],
        dtype: Any,
        device: Any,
        parameters: Sequence[Any] = (),
        transposed: Callable[..., LinearOperator] | None = None,
        batch_offsets: array | None = None,
    ) -> None:
        smooth = [k for k, held in enumerate(parameters) if isinstance(held, array) and held._smooth]

        def rebuild(*given: array) -> LinearOperator:
            merged = list(parameters)
            for k, held in zip(smooth, given, strict=True):
                merged[k] = held
            return FunctionOperator(function, shape, dtype, device, merged, transposed, batch_offsets)

        def matvec(x: array, y: array, z: array, alpha: Any, beta: Any) -> None:
            product, y, z = (components(held) for held in (self._times(x).contiguous(), y, z))
            if product.size:
                launch(kernels.scale_and_add, product.size, [product, y, z, *factors(x, alpha, beta)])

        super().__init__(
            shape, dtype, device, matvec, batch_offsets,
            parameters=[parameters[k] for k in smooth], rebuild=rebuild,
            transposed=None if transposed is None else lambda: transposed(*parameters),
        )  # fmt: skip
        self._function, self._arguments = function, tuple(parameters)

    def _times(self, x: array) -> array:
        version = x._memory.now
        found = self._function(x, *self._arguments)
        if x._memory.now != version:
            raise LaunchError(
                f"the function of a linear operator writes to the vector, {described(x)}",
                remedy="write to an array that it makes, and return that",
            )
        if not isinstance(found, array) or not x._is_like(found):
            raise LaunchError(
                f"the function of a linear operator returned {described(found)} for {described(x)}",
                remedy="return a new array like the vector",
            )
        return found


def _check_batches(offsets: array | None, longest: int | None) -> None:
    if offsets is None:
        if longest is not None:
            raise ValueError("max_batch_length requires batch_offsets")
        return
    if not isinstance(offsets, array) or offsets.ndim != 1 or offsets.size < 1 or offsets._element != INT32:
        raise MisuseError(
            f"batch_offsets is an array of int32 with one axis, not {described(offsets)}",
            remedy="pass dk.array([0, n1, n1 + n2, ...], dtype=int)",
        )


def aslinearoperator(A: Any, batch_offsets: array | None = None, max_batch_length: int | None = None) -> LinearOperator:
    """Return a matrix as a linear operator.

    Parameters
    ----------
    A : array, LinearOperator or sparse matrix
        An array with two axes is a dense matrix; one with one axis holds the diagonal, of numbers, of vectors, which
        are multiplied by components, or of square blocks. An operator is returned as it is. Anything else has a method
        ``linear_operator()``.
    batch_offsets : array, optional
        See :class:`LinearOperator`.
    max_batch_length : int, optional
        The same.

    Returns
    -------
    LinearOperator
        The operator.

    Raises
    ------
    ValueError
        If `max_batch_length` is given without `batch_offsets`.
    MisuseError
        If `A` is no matrix.
    """
    if isinstance(A, LinearOperator):
        return A
    _check_batches(batch_offsets, max_batch_length)
    if isinstance(A, array) and A.ndim in (1, 2) and has_floats(A):
        made = (_diagonal if A.ndim == 1 else _dense)(A)
    elif callable(getattr(A, "linear_operator", None)):
        made = A.linear_operator()
    else:
        raise MisuseError(
            f"a linear operator is made of a matrix, not of {described(A)}",
            remedy="pass an array of floats with one or two axes, a sparse matrix, or a LinearOperator",
        )
    made.batch_offsets, made.max_batch_length = batch_offsets, max_batch_length
    return made


def batches_of(A: LinearOperator) -> Any:
    """Return the offsets of a batch as NumPy's; a recorded solve has the batches that there are when it is recorded."""
    assert A.batch_offsets is not None
    with read_by(None):
        return A.batch_offsets.numpy()


def has_floats(held: array) -> bool:
    """Return whether the elements of an array are floats, or vectors and matrices of floats."""
    element = held._element
    return not isinstance(element, Struct) and scalar_of(element).is_float


def factors(like: array, alpha: Any, beta: Any) -> list[Any]:
    """Return the factors of a product as numbers of the type of a vector's components."""
    scalar = np.dtype(SCALARS[scalar_of(like._element).name].numpy).type  # type: ignore[arg-type]
    return [scalar(alpha), scalar(beta)]


def _matvec(kernel: Kernel, a: array, rows: int) -> Matvec:
    element = a._element

    def matvec(x: array, y: array, z: array, alpha: Any, beta: Any) -> None:
        # Other forms of an array with strides are copies.
        whole = z if z.is_contiguous else clone(z)
        goal, z = z, whole
        if isinstance(element, (Mat, Vec)) and isinstance(x._element, Scalar):
            x, y, z = (of_vectors(held, element) for held in (x, y, z))
        elif isinstance(element, Scalar) and not isinstance(x._element, Scalar):
            x, y, z = (numbers_of_vectors(held) for held in (x, y, z))
        elif x.ndim > 1:
            x, y, z = (held.reshape(-1) for held in (x, y, z))
        if x.size:
            launch(kernel, rows, [a, x, y, z, *factors(x, alpha, beta)])
        elif rows:
            z.zero_()
        if whole is not goal:
            copy(goal, whole)

    return matvec


def numbers_of_vectors(x: array) -> array:
    """Return a vector as one of numbers with one axis, a view that has derivatives."""
    scalar = getattr(x.dtype, "scalar", None)
    made: array = (x if scalar is None else x.view(scalar)).reshape(-1)
    return made


def of_vectors(x: array, element: Mat | Vec) -> array:
    """Return a vector of numbers as one of vectors, as long as the elements of a matrix are."""
    length = element.shape[0]
    made: array = x.reshape((-1, length)).view(composite_type(Vec(element.dtype, length)))
    return made


def _dense(a: array, turned: bool = False) -> LinearOperator:
    blocks = not isinstance(a._element, Scalar)
    if turned:
        kernel = kernels.dense_blocks_transposed_product if blocks else kernels.dense_transposed_product
    else:
        kernel = kernels.dense_product
    rows, columns = a.shape[::-1] if turned else a.shape

    def matrix() -> Any:
        values = a.numpy()
        if blocks:
            n, m, r, c = values.shape
            values = values.transpose(0, 2, 1, 3).reshape(n * r, m * c)
        return values.T if turned else values

    return LinearOperator(
        (rows, columns), a.dtype, a.device, _matvec(kernel, a, rows),
        parameters=(a,), rebuild=lambda a: _dense(a, turned), transposed=lambda: _dense(a, not turned), matrix=matrix,
        recordable=True,
    )  # fmt: skip


def _diagonal(a: array, turned: bool = False) -> LinearOperator:
    element = a._element
    if isinstance(element, Scalar):
        kernel = kernels.diagonal_product
    elif isinstance(element, Vec):
        kernel = kernels.diagonal_of_vectors_product
    else:
        kernel = kernels.diagonal_of_blocks_transposed_product if turned else kernels.diagonal_product

    def matrix() -> Any:
        values = a.numpy()
        if values.ndim < 3:
            return np.diag(values.reshape(-1))
        n, r, c = values.shape
        whole = np.zeros((n, r, n, c), values.dtype)
        whole[np.arange(n), :, np.arange(n)] = values.transpose(0, 2, 1) if turned else values
        return whole.reshape(n * r, n * c)

    return LinearOperator(
        a.shape, a.dtype, a.device, _matvec(kernel, a, a.size),
        parameters=(a,), rebuild=lambda a: _diagonal(a, turned),
        transposed=lambda: _diagonal(a, not turned), matrix=matrix, recordable=True,
    )  # fmt: skip
