"""Products of sparse matrices with vectors and with one another."""

from __future__ import annotations

from typing import Any, Final

from diffkern.ir.types import INT64, UINT32, Mat, Scalar, Vec
from diffkern.kernels.kernel import Kernel
from diffkern.process.dataclass import dataclass
from diffkern.runtime.arrays.array import array, new
from diffkern.runtime.arrays.array_copy import clone, copy
from diffkern.runtime.arrays.create import empty_like
from diffkern.runtime.native.slow_path import slow_path_flags
from diffkern.runtime.records.launch import launch
from diffkern.sparse import pattern_kernels as kernels
from diffkern.sparse import row_kernels as rows_of
from diffkern.sparse import value_kernels as values_of
from diffkern.sparse.matrix import BsrMatrix, MatrixLike, as_factor, checked_factor, compact_matrix, empty_matrix, split
from diffkern.sparse.patterns import Contributions, checked, place, prefix_sums, set_pattern, target, total
from diffkern.sparse.repeated import note_product, repeated
from diffkern.sparse.serial import ALONE, BlockProducts, is_serial, multiplied, multiplied_at_once
from diffkern.sparse.storage import (
    as_parts,
    as_vectors,
    grown,
    integers,
    is_by_parts,
    new_values,
    numbers_of,
    vectors_as_parts,
)
from diffkern.sparse.sums import bsr_scale

__all__ = ["bsr_mm", "bsr_mm_work_arrays", "bsr_mv"]

_UNROLLED: Final = 36
"""The most numbers in blocks that one thread multiplies; those of larger blocks are threads of their own."""


def bsr_mv(
    A: MatrixLike,
    x: array,
    y: array | None = None,
    alpha: Any = 1.0,
    beta: Any = 0.0,
    transpose: bool = False,
    work_buffer: array | None = None,
    tile_size: int = 0,
) -> array:
    """Multiply a matrix and a vector: ``y := alpha * A @ x + beta * y``.

    Parameters
    ----------
    A : BsrMatrix or expression
        The matrix.
    x : array
        Vectors as long as a block has columns, or numbers.
    y : array, optional
        Vectors as long as a block has rows, or numbers; it takes the result. A new array without it. It may be `x`,
        which is copied then.
    alpha, beta : float, optional
        Factors. With ``beta=0`` the old numbers of `y` are not read, with ``alpha=0`` those of `x`.
    transpose : bool, optional
        Whether to multiply by the transposed matrix. Where more than two threads run, or on a tape, its sums may
        depend on the order of atomic additions.
    work_buffer : array, optional
        Takes the copy of `x` if that is `y`.
    tile_size : int, optional
        Accepted, with no effect.

    Returns
    -------
    array
        The result, `y`.

    Raises
    ------
    ValueError
        If types, extents or devices do not fit together.
    """
    if isinstance(A, BsrMatrix) and y is not None and repeated(A, x, y, alpha, beta, transpose):
        return y
    A, factor = split(A)
    alpha = alpha * factor
    values = A.values
    device = values._memory.device
    if x.device is not device or (y is not None and y.device is not device):
        raise ValueError(f"matrix and vectors must be on the same device, {device} here")
    if y is None:
        scalar = numbers_of(values)
        n, length = (A.ncol, A.block_shape[1]) if transpose else (A.nrow, A.block_shape[0])
        element: Any = scalar if length == 1 else Vec(scalar, length)
        y = new_values(n, element, values, bool(x.requires_grad or values.requires_grad))
        beta = 0.0
    elif y._memory is x._memory:
        x = _copied(x, work_buffer)
    product(A, x, y, y, alpha, beta, transpose)
    return y


def product(A: BsrMatrix, x: array, y: array, z: array, alpha: Any, beta: Any, transpose: bool) -> None:
    """Let z be ``alpha * A @ x + beta * y``, where z may be y, but not x.

    Raises
    ------
    ValueError
        If the vectors do not fit the matrix.
    """
    if y is z and repeated(A, x, z, alpha, beta, transpose):
        return
    values = A.values
    scale, scale_added = as_factor(alpha, A), as_factor(beta, A)
    blocks = isinstance(values._element, Mat)
    rows, columns = A.block_shape if blocks else (1, 1)
    into, out_of = (A.nrow, rows), (A.ncol, columns)
    if transpose:
        into, out_of = out_of, into
    given = _vectors(x, "x", *out_of, values)
    out = _vectors(z, "y", *into, values)
    added = out if y is z else _vectors(y, "y", *into, values)
    # A matrix without blocks is no special case: on a tape the result depends on x, with derivatives that are zero.
    is_zero = alpha == 0.0
    if transpose or is_zero:
        _scale_vector(added, scale_added, out)
        if is_zero:
            return
    if is_by_parts(values):
        _multiply_parts(A, given, scale, added, scale_added, out, transpose)
        return
    kernel, dim, inputs = _of_rows(A, [given, scale], transpose)
    if not transpose and beta != 0.0:
        kernel = values_of.add_product_blocks if blocks else values_of.add_product
        inputs += [scale_added, added]
    inputs.append(out)
    launch(kernel, dim=dim, inputs=inputs)
    if y is z:
        note_product(A, x, z, (alpha, beta, transpose), kernel, dim, inputs)


def _multiply_parts(A: BsrMatrix, x: array, scale: Any, y: array, scale_added: Any, z: array, transpose: bool) -> None:
    """Multiply blocks number by number."""
    rows, columns = A.block_shape
    numbers = [vectors_as_parts(held) for held in (x, y, z)]
    inputs = [*A._rows(), as_parts(A.values), numbers[0], scale]
    if transpose:  # what is added lies in z already
        launch(values_of.add_transposed_parts, dim=(A.nrow, columns), inputs=[*inputs, numbers[2]])
    else:
        launch(values_of.multiply_vector_parts, dim=(A.nrow, rows), inputs=[*inputs, *numbers[1:], scale_added])


def _of_rows(A: BsrMatrix, factors: list[Any], transpose: bool) -> tuple[Kernel, int, list[Any]]:
    """Return the kernel that multiplies a vector and adds nothing, its threads, and its inputs."""
    blocks, inputs = isinstance(A.values._element, Mat), [*A._rows(), A.values, *factors]
    if not transpose:
        return (values_of.multiply_vector_blocks if blocks else values_of.multiply_vector), A.nrow, inputs
    # Threads add atomically or to copies, which takes twice as much time.
    if not slow_path_flags.word[0] and is_serial(A, gain=2):
        inputs.append(A.nrow)
        return (rows_of.add_transposed_blocks_alone if blocks else rows_of.add_transposed_alone), 1, inputs
    return (values_of.add_transposed_blocks if blocks else values_of.add_transposed), A.nrow, inputs


def _vectors(given: array, name: str, count: int, length: int, values: array) -> array:
    """View an operand as the vectors that blocks multiply."""
    block = values._element
    # The usual case first: the rest takes longer than the product of a small matrix.
    if given._element is block and type(block) is Scalar and given._data.shape == (count,):
        return given
    try:
        found = as_vectors(given, length, count, isinstance(block, Mat))
        if numbers_of(found) != numbers_of(values):
            raise ValueError(f"its numbers are {found._element}, the matrix has {block}")
    except ValueError as error:
        raise ValueError(f"Incompatible {name!r} vector of a product with a sparse matrix: {error}") from None
    return found


def _copied(x: array, buffer: array | None) -> array:
    """Return a copy of a vector, in a buffer if one is given."""
    if buffer is None:
        buffer = empty_like(x)
    elif buffer._element != x._element:
        raise ValueError(f"the work buffer has elements {x._element}, as the vector, not {buffer._element}")
    elif buffer.size < x.size:
        raise ValueError(f"the work buffer has at least {x.size} elements, not {buffer.size}")
    else:
        buffer = buffer[: x.size]
    buffer.assign(x)
    return buffer


def _scale_vector(y: array, beta: Any, z: array) -> None:
    """Let z be ``beta * y``."""
    if beta == 0.0:
        z.zero_()
    elif beta != 1.0 or y is not z:
        launch(values_of.scale_values, dim=y.shape[0], inputs=[y, beta, z])


# -- matrices ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Pattern:
    """The common part of products of the same patterns.

    Attributes
    ----------
    products : BlockProducts
        The products of blocks that each block sums.
    extents : tuple of int
        Rows and columns of blocks of both factors.
    added : bool
        Whether blocks of the matrix that takes the product are among the products.
    offsets, columns : array of int32
        The pattern of the product; its own memory, so that nothing that is done with the product changes it.
    """

    products: BlockProducts
    extents: tuple[int, int, int]
    added: bool
    offsets: array
    columns: array

    def give(self, z: BsrMatrix) -> None:
        """Give a matrix the pattern."""
        n, nnz = z.nrow, self.columns.size
        z.offsets, z.columns = grown(z.offsets, n + 1), grown(z.columns, nnz)
        copy(z.offsets, self.offsets, count=n + 1)
        if nnz:
            copy(z.columns, self.columns, count=nnz)
        z.nnz, z.row_counts = nnz, None
        z._note_pattern()


class bsr_mm_work_arrays:
    """The pattern of a product that :func:`bsr_mm` has found, for the next one with the same patterns."""

    def __init__(self) -> None:
        self._found: _Pattern | None = None


def bsr_mm(
    x: MatrixLike,
    y: MatrixLike,
    z: BsrMatrix | None = None,
    alpha: Any = 1.0,
    beta: Any = 0.0,
    work_arrays: bsr_mm_work_arrays | None = None,
    reuse_topology: bool = False,
    tile_size: int = 0,
    max_new_nnz: int | None = None,
    topology: str | None = None,
) -> BsrMatrix:
    """Multiply two matrices: ``z := alpha * x @ y + beta * z``.

    The products of blocks are counted, and the host waits for the number, unless `reuse_topology` is set.

    Parameters
    ----------
    x, y : BsrMatrix or expression
        The factors.
    z : BsrMatrix, optional
        Takes the product; a new matrix without it. It may be one of the factors.
    alpha, beta : float, optional
        Numbers. With ``beta=0`` the blocks of `z` are dropped.
    work_arrays : bsr_mm_work_arrays, optional
        Keeps what was found about the pattern.
    reuse_topology : bool, optional
        Whether to take the pattern that `work_arrays` kept, since those of all matrices are the same as they were
        before that product.
    tile_size : int, optional
        Accepted, with no effect.
    max_new_nnz : int, optional
        The greatest number of blocks that the product may add to those of `z`; the others are left out, with a
        message.
    topology : str, optional
        ``"compact"``; ``"masked"`` leaves out what is not in the pattern of `z`; ``"padded"`` uses the room of its
        rows.

    Returns
    -------
    BsrMatrix
        The product, `z`.

    Raises
    ------
    ValueError
        If types, extents, devices or options do not fit together.
    """
    x, factor = split(x)
    y, factor2 = split(y)
    for number in (alpha, beta):
        checked_factor(number)
    alpha = alpha * factor * factor2
    topology = checked(topology)
    if topology != "compact" and reuse_topology:
        raise ValueError("reuse_topology is only supported with topology='compact'")
    if z is None:
        if topology != "compact":
            raise ValueError(f"topology={topology!r} is about the pattern of z: pass a matrix")
        is_plain = not reuse_topology and work_arrays is None and max_new_nnz is None and alpha != 0.0
        if is_plain and (made := _at_once(x, y, alpha)) is not None:
            return made
        z, beta = _empty_product(x, y), 0.0
    _check(x, y, z)
    if topology == "masked" and (z is x or z is y):
        raise ValueError("topology='masked' is not supported for a product that is one of its factors")
    if alpha == 0.0 or not x.nnz or not y.nnz:
        return bsr_scale(z, beta)
    old, extents = z.values, (x.nrow, x.ncol, y.ncol)
    if reuse_topology:
        if work_arrays is None or work_arrays._found is None:
            raise ValueError("reuse_topology needs the work_arrays of a product before")
        found = work_arrays._found
        if found.extents != extents:
            raise ValueError(f"the work_arrays are of a product of {found.extents} rows and columns, not {extents}")
        if found.added != (beta != 0.0):
            raise ValueError(f"the work_arrays are of a product with beta{'!' if found.added else '='}=0, not {beta}")
        products = found.products
        found.give(z)
    else:
        products = _product_pattern(x, y, z, beta != 0.0, max_new_nnz, topology)
        if work_arrays is not None:
            kept = [clone(z.offsets[: z.nrow + 1]), clone(z.columns[: products.count])]
            held = _Pattern(products, extents, beta != 0.0, *kept)
            work_arrays._found = held if topology == "compact" else None
    sources = (x.values, y.values, *((old,) if beta != 0.0 else ()))
    out = target(z, products.count, any(one.requires_grad for one in sources), *sources)
    _multiply(products, x, y, alpha, old, beta, out)
    z.values = out
    return z


def _at_once(x: BsrMatrix, y: BsrMatrix, alpha: Any) -> BsrMatrix | None:
    """Return the product of matrices of numbers, if nothing observes it."""
    of_both = x.values, y.values
    kinds = {one._element for one in of_both}
    if (
        slow_path_flags.word[0]
        or not is_serial(x, gain=2)
        or len(kinds) > 1
        or not isinstance(of_both[0]._element, Scalar)
    ):
        return None
    if x.ncol != y.nrow or x.device is not y.device or not (x.nnz and y.nnz):
        return None
    if (found := multiplied_at_once(x, y, as_factor(alpha, x))) is None:
        return None
    offsets, columns, values, count = found
    if any(one.requires_grad for one in of_both):
        values.requires_grad = True
    return compact_matrix(x.nrow, y.ncol, count, offsets, columns, values)


def _empty_product(x: BsrMatrix, y: BsrMatrix) -> BsrMatrix:
    shape = x.block_shape[0], y.block_shape[1]
    scalar = numbers_of(x.values)
    element = scalar if shape == (1, 1) else Mat(scalar, *shape)
    return empty_matrix(x.nrow, y.ncol, new_values(0, element, x.values, False))


def _check(x: BsrMatrix, y: BsrMatrix, z: BsrMatrix) -> None:
    if not x.device is y.device is z.device:
        raise ValueError(f"all matrices must be on the same device, not {x.device}, {y.device} and {z.device}")
    if not x.scalar_type is y.scalar_type is z.scalar_type:
        raise ValueError(f"blocks have the same numbers, not {x.scalar_type}, {y.scalar_type} and {z.scalar_type}")
    a, b, c = x.block_shape, y.block_shape, z.block_shape
    if (a[0], b[1]) != c or a[1] != b[0]:
        raise ValueError(f"Incompatible block sizes: {a} times {b} is no {c}")
    if (x.nrow, y.ncol) != (z.nrow, z.ncol) or x.ncol != y.nrow:
        raise ValueError(
            f"Incompatible number of rows/columns: {x.nrow} x {x.ncol} times {y.nrow} x {y.ncol} is no "
            f"{z.nrow} x {z.ncol}"
        )


def _product_pattern(
    x: BsrMatrix, y: BsrMatrix, z: BsrMatrix, added: bool, max_new_nnz: int | None, topology: str
) -> BlockProducts:
    """Give a matrix the pattern of a product, and find the products of blocks that each block sums."""
    is_plain = topology == "compact" and not added and max_new_nnz is None and is_serial(x, gain=2)
    if is_plain and (alone := multiplied(x, y)) is not None:
        offsets, columns, products = alone
        set_pattern(z, x.nrow, y.ncol, products.count, offsets, columns)
        return products
    n, extra = x.nrow, int(added)
    xs, xe, xc = x._rows()
    ys, ye, _ = y._rows()
    zs, ze, _ = z._rows()
    counts, starts = integers(n, z), integers(n + 1, z)
    launch(kernels.count_products, dim=n, inputs=[xs, xe, xc, ys, ye, zs, ze, extra, counts])
    prefix_sums(counts, starts, n)
    total_products = total(starts, n)
    room = max(total_products, 1)
    old_nnz = z.nnz_sync() if added and max_new_nnz is not None else z.nnz
    keys = new((room,), INT64, False, z.values._memory.device)
    left, right, new_left, new_right = (integers(room, z, element=UINT32) for _ in range(4))
    lists = [xs, xe, xc, ys, ye, y.columns, zs, ze, z.columns, extra, ALONE, starts, keys, left, right]
    launch(kernels.list_products, dim=n, inputs=lists)
    most = None if max_new_nnz is None else max_new_nnz + (old_nnz if added else 0)
    placed = place(Contributions(starts, keys, n), z, z.ncol, topology, most)
    launch(kernels.regroup, dim=total_products, inputs=[placed.order, left, right, new_left, new_right])
    return BlockProducts(placed.first, placed.last, new_left, new_right, placed.count)


def _multiply(products: BlockProducts, x: BsrMatrix, y: BsrMatrix, alpha: Any, z: array, beta: Any, out: array) -> None:
    """Add up products of blocks."""
    scale, scale_added = as_factor(alpha, x), as_factor(beta, x)
    where = [products.first, products.last, products.left, products.right, ALONE]
    kinds = {isinstance(one._element, Mat) for one in (x.values, y.values, out)}
    size = x.block_size * y.block_shape[1]
    if beta == 0.0 and len(kinds) == 1 and size <= _UNROLLED and not is_by_parts(out):
        kernel = values_of.multiply_blocks if kinds == {True} else values_of.multiply
        launch(kernel, dim=products.count, inputs=[*where, x.values, y.values, scale, out])
        return
    if not z.size or beta == 0.0:
        z = new_values(1, out._element, out, False)
        z.zero_()
    parts = as_parts(out)
    inputs = [*where, x.scalar_values, y.scalar_values, scale, as_parts(z), scale_added, parts]
    launch(values_of.multiply_parts, dim=(products.count, *parts.shape[1:]), inputs=inputs)
