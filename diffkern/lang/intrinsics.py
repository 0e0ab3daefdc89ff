"""The built-in functions of the kernel language, and the Python and NumPy functions that mean the same.

The module defines one :class:`Intrinsic` per built-in, under Warp's name, or the :class:`Composed` of a library
function, and :func:`lowering_key`, which decides by identity (never by name) whether a callable is a built-in and which
one. What each key lowers to is the frontend's business.
"""

from __future__ import annotations

import builtins
import math
import operator
from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any, Final, TypeVar

import numpy as np

from diffkern.errors import KernelError, KernelTypeError, described, is_of_user
from diffkern.lang import output
from diffkern.lang.annotations import TileAnnotation, tile_annotation
from diffkern.lang.called import evaluated
from diffkern.lang.library import COMPOSED, Composed
from diffkern.lang.reference import docstring, entry_of, family_of
from diffkern.lang.reference_entries import Family
from diffkern.lang.values import CompositeValue
from diffkern.ops import composite, scalar
from diffkern.ops.row import Entry, OpDef
from diffkern.process.tracebacks import brief

__all__ = ["INTERNAL", "INTRINSICS", "Intrinsic", "lowering_key"]


class Intrinsic:
    """A built-in function.

    Attributes
    ----------
    name
        Its public name, which is also the key by which the frontend finds its lowering.
    signature
        Its parameters, as shown in help and errors.
    summary
        What it does, in a sentence.
    """

    def __init__(
        self,
        name: str,
        signature: str,
        doc: str,
        host: Callable[..., Any] | None = None,
        row: OpDef | None = None,
        in_kernels_alone: bool = False,
    ) -> None:
        self.name: Final = name
        self.signature: Final = signature
        self.summary: Final = doc
        self.__name__ = name
        self._host: Final = host
        self._row: Final = row
        self._in_kernels_alone: Final = in_kernels_alone

    @property
    def __doc__(self) -> str:  # type: ignore[override]
        # Made when it is asked for: there are hundreds of built-ins, and most programs never look.
        return docstring(self.name, self.signature, self.summary, self._row, self._host)

    @property
    def signatures(self) -> tuple[str, ...]:
        """The spellings of a call of it."""
        return (self.signature,)

    @property
    def entry(self) -> Entry:
        """Its entry in the reference."""
        return entry_of(self.name, self.signature, self._row, self._host)

    @property
    def family(self) -> Family:
        """The family to which it belongs."""
        return family_of(self.name, self._row)

    @property
    def on_host(self) -> bool:
        """True if Python may call it, too."""
        return not self._in_kernels_alone

    @brief
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Evaluate on the host; built-ins that need threads or change memory exist in kernels alone."""
        # Python's numbers are computed with directly; everything else goes to the evaluator of the run time.
        if self._host is not None and (not kwargs or self._host.__module__ == output.__name__):
            # Operators, which values of every type know, and what prints. Values divide as Warp's do, kernels do not.
            of_values = self._host.__module__ in ("_operator", output.__name__) and self.name not in ("div", "mod")
            if of_values or not any(isinstance(a, (CompositeValue, complex, np.complexfloating)) for a in args):
                return self._evaluate(args, kwargs)
        if self._in_kernels_alone:
            raise KernelError(
                f"dk.{self.name} can only be called inside a kernel",
                remedy="call it from a function decorated with @dk.kernel or @dk.func",
            )
        return evaluated(self, args, kwargs)

    def _evaluate(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        assert self._host is not None
        try:
            return self._host(*args, **kwargs)
        except TypeError as error:
            # Only errors of the call itself are reworded: one from a user's own object keeps its traceback.
            if isinstance(error, KernelError) or is_of_user(error):
                raise
            given = ", ".join(map(described, args)) or "nothing"
            raise KernelTypeError(
                f"dk.{self.name} is called with {given}: {error}", remedy=f"call it as dk.{self.name}({self.signature})"
            ) from None

    def __repr__(self) -> str:
        return f"<dk.{self.name}({self.signature})>"

    def __reduce__(self) -> tuple[Any, ...]:
        return _named, (self.name,)


class _Tile(Intrinsic):
    # ``tile`` is also an annotation, ``tile[float, 4, 4]``. Its text is the entry of the reference.
    __doc__ = Intrinsic.__doc__

    def __getitem__(self, item: Any) -> TileAnnotation:
        return tile_annotation(item)


def _named(name: str) -> Intrinsic | Composed:
    return INTRINSICS[name]


def _sign(x: Any) -> Any:
    return -1.0 if x < 0 else 1.0


def _smoothstep(lo: float, hi: float, x: float) -> float:
    t = min(max((x - lo) / (hi - lo), 0.0), 1.0)
    return t * t * (3.0 - 2.0 * t)


_OTHERS: Final[Mapping[str, tuple[str, str, Callable[..., Any] | None]]] = {
    "tid": ("", "The thread's index: one value, or as many as are unpacked (at most 4).", None),
    "sign": ("x", "-1 where x < 0, else 1.", _sign),
    "cast": ("x, dtype", "The value of another type that has the same bits as x.", None),
    "stop_gradient": ("x", "x, as if it did not depend on anything.", lambda x: x),
    "nonzero": ("x", "1 where x is not zero, else 0.", lambda x: 1.0 if x != 0 else 0.0),
    "step": ("x", "1 where x < 0, else 0.", lambda x: 1.0 if x < 0 else 0.0),
    "frac": ("x", "x - trunc(x).", lambda x: x - float(np.trunc(x))),
    "degrees": ("x", "Radians to degrees.", math.degrees),
    "radians": ("x", "Degrees to radians.", math.radians),
    "pos": ("x", "x.", operator.pos),
    "clamp": ("x, low, high", "min(max(x, low), high).",
              lambda x, low, high: builtins.min(builtins.max(x, low), high)),
    "lerp": ("a, b, t", "a * (1 - t) + b * t.", lambda a, b, t: a * (1.0 - t) + b * t),
    "smoothstep": ("a, b, x", "A smooth step from 0 at a to 1 at b.", _smoothstep),
    "where": ("cond, value_if_true, value_if_false",
              "value_if_true where the condition holds, else value_if_false; only the chosen one is evaluated.",
              lambda c, a, b: a if c else b),
    "select": ("cond, value_if_false, value_if_true", "value_if_true where the condition holds, else value_if_false.",
               lambda c, a, b: b if c else a),
    "ddot": ("a, b", "The sum of the products of the components of two matrices.", None),
    "diag": ("vec", "The matrix with a vector as its diagonal.", None),
    "get_diag": ("mat", "The diagonal of a matrix.", None),
    "skew": ("vec", "The matrix whose product with w is cross(vec, w).", None),
    "argmin": ("a", "Where the smallest component of a vector stands.", None),
    "argmax": ("a", "Where the greatest component of a vector stands.", None),
    "identity": ("n, dtype=float", "The identity matrix.", None),
    "vector": ("x, ..., length=None, dtype=None", "The vector of the given components.", None),
    "matrix": ("x, ..., shape, dtype=None", "The matrix of the given components, row by row.", None),
    "quaternion": ("x, ..., dtype=None", "The quaternion of the given components x, y, z, w.", None),
    "transformation": ("p, q, dtype=None", "The transform of a translation and a rotation.", None),
    "complex": ("re, im=0.0", "The complex number of a real and an imaginary part.", builtins.complex),
    "matrix_from_rows": ("r0, r1, ...", "The matrix with the given rows.", None),
    "matrix_from_cols": ("c0, c1, ...", "The matrix with the given columns.", None),
    "atomic_add": ("arr, i, [j, ...] value", "Add to an element at once; returns the old value.", None),
    "atomic_sub": ("arr, i, [j, ...] value", "Subtract from an element at once; returns the old value.", None),
    "atomic_min": ("arr, i, [j, ...] value", "Take the minimum with an element at once; returns the old value.",
                   None),
    "atomic_max": ("arr, i, [j, ...] value", "Take the maximum with an element at once; returns the old value.",
                   None),
    "atomic_exch": ("arr, i, [j, ...] value", "Replace an element at once; returns the old value.", None),
    "printf": ("text, *values", "Print a text with values in its fields, as C's printf does.", output.printf),
    "expect_eq": ("a, b", "Print both where they are not equal.", output.expect_eq),
    "expect_neq": ("a, b", "Print both where they are equal.", output.expect_neq),
    "expect_near": ("a, b, tolerance=1e-6", "Print both where they are further apart than the tolerance.",
                    output.expect_near),
    "atomic_cas": ("arr, i, [j, ...] compare, value",
                   "Replace an element at once if it equals compare; returns the old value.", None),
    "atomic_and": ("arr, i, [j, ...] value", "Combine the bits of an element by and at once; returns the old value.",
                   None),
    "atomic_or": ("arr, i, [j, ...] value", "Combine the bits of an element by or at once; returns the old value.",
                  None),
    "atomic_xor": ("arr, i, [j, ...] value", "Combine the bits of an element by xor at once; returns the old value.",
                   None),
    "shared_array": ("shape, dtype=float", "An array that the threads of a block share; its contents are undefined.",
                     None),
    "syncthreads": ("", "Wait until all threads of the block are here; what they wrote is seen afterwards.", None),
    "block_dim": ("", "Number of threads of a block.", None),
    "thread_index": ("", "The thread's index in its block.", None),
    "block_index": ("", "Which block of the launch the thread belongs to.", None),
}  # fmt: skip
"""Built-ins that are several operations, or that look at how they are called."""

_OF_BLOCKS: Final = frozenset({"block_dim", "block_index", "shared_array", "syncthreads", "thread_index", "tid"})
"""Those that ask for threads."""

_TILES: Final[Mapping[str, tuple[str, str]]] = {
    "tile": ("x, preserve_type=False", "A tile of what the threads of the block hold; on the CPU a block is a thread."),
    "untile": ("a", "The element of a tile that belongs to this thread of the block."),
    "tile_from_thread": ("shape, value, thread_idx, storage='register'",
                         "A tile of what one thread of the block holds."),
    "tile_randi": ("shape, rng, [min, max], storage='register'",
                   "Random integers, each the first draw of a generator of its own; the state rng is not advanced."),
    "tile_randf": ("shape, rng, [min, max], storage='register'",
                   "Random numbers of [0, 1), or of [min, max), drawn as by tile_randi."),
    "tile_zeros": ("shape, dtype=float, storage='register'", "A tile of zeros."),
    "tile_empty": ("shape, dtype=float, storage='register'", "A tile of zeros."),
    "tile_ones": ("shape, dtype=float, storage='register'", "A tile of ones."),
    "tile_full": ("shape, value, dtype=None, storage='register'", "A tile of one value."),
    "tile_arange": ("[start,] stop, [step], dtype=None, storage='register'", "A tile of evenly spaced numbers."),
    "tile_load": ("a, shape, offset=None, storage='register', bounds_check=True, aligned=False",
                  "A tile of an array; what lies outside the array is 0."),
    "tile_store": ("a, t, offset=None, bounds_check=True, aligned=False",
                   "Write a tile to an array; what lies outside the array is left out."),
    "tile_atomic_add": ("a, t, offset=None, bounds_check=True, aligned=False",
                        "Add a tile to an array, each element at once; returns the old elements."),
    "tile_load_indexed": ("a, indices, shape, offset=None, axis=0, storage='register'",
                          "A tile of an array, along an axis of the elements that indices name; 0 outside the array."),
    "tile_store_indexed": ("a, indices, t, offset=None, axis=0",
                           "Write a tile to an array, along an axis where indices say, no two of them equal."),
    "tile_atomic_add_indexed": ("a, indices, t, offset=None, axis=0",
                                "Add a tile to an array, along an axis where indices say; returns the old elements."),
    "tile_slice_indexed": ("t, indices", "t[indices, :]: what a tile of indices takes along an axis of a tile."),
    "tile_scatter_add": ("a, i, [j, ...] value, has_value, atomic=True",
                         "Add what each thread has to the element of the tile a that the thread names."),
    "tile_scatter_masked": ("a, i, [j, ...] value, has_value",
                            "Write what each thread has to the element of the tile a that the thread names."),
    "tile_bit_and_inplace": ("a, i, [j, ...] value", "Combine the bits of an element of the tile a by and."),
    "tile_bit_or_inplace": ("a, i, [j, ...] value", "Combine the bits of an element of the tile a by or."),
    "tile_bit_xor_inplace": ("a, i, [j, ...] value", "Combine the bits of an element of the tile a by xor."),
    "tile_stack": ("capacity, dtype", "An empty stack that the threads of a block share."),
    "tile_stack_push": ("s, value, has_value", "Push what each thread has; returns the item's place, or -1 for none."),
    "tile_stack_pop": ("s", "Pop an item for each thread; returns it and its place, which is -1 where there is none."),
    "tile_stack_clear": ("s", "Make a stack empty."),
    "tile_stack_count": ("s", "How many items are on a stack."),
    "tile_view": ("t, offset, shape=None", "A part of a tile."),
    "tile_assign": ("dst, src, offset=None", "Replace a part of the tile dst by the tile src."),
    "tile_extract": ("t, i, ...", "An element of a tile."),
    "tile_transpose": ("a", "The transposed tile."),
    "tile_broadcast": ("a, shape", "The tile extended to a shape, as NumPy does."),
    "tile_reshape": ("t, shape", "The same elements in another shape."),
    "tile_squeeze": ("t, axis=None", "The tile without axes of extent 1."),
    "tile_astype": ("t, dtype", "The elements converted to another type of number."),
    "tile_map": ("op, a, [b, ...]", "A function of the elements of one or more tiles of one shape."),
    "tile_dot": ("a, b", "The sum of the products of the elements, as a tile of shape (1,)."),
    "tile_axpy": ("alpha, src, dest", "Add alpha * src to the tile dest."),
    "tile_add_inplace": ("a, b", "Add the tile b to the tile a."),
    "tile_sub_inplace": ("a, b", "Subtract the tile b from the tile a."),
    "tile_sum": ("a, axis=None", "The sum of the elements, of all as a tile of shape (1,)."),
    "tile_min": ("a, axis=None", "The smallest element, of all as a tile of shape (1,); of vectors each component's."),
    "tile_max": ("a, axis=None", "The greatest element, of all as a tile of shape (1,); of vectors each component's."),
    "tile_reduce": ("op, a, axis=None", "All elements combined by a function of two."),
    "tile_argmin": ("a", "Where the smallest element stands in row-major order, as a tile of shape (1,)."),
    "tile_argmax": ("a", "Where the greatest element stands in row-major order, as a tile of shape (1,)."),
    "tile_scan_inclusive": ("a", "The sums of the elements up to each one, in row-major order."),
    "tile_scan_exclusive": ("a", "The sums of the elements before each one, in row-major order."),
    "tile_scan_max_inclusive": ("a", "The greatest of the elements up to each one, in row-major order."),
    "tile_scan_min_inclusive": ("a", "The smallest of the elements up to each one, in row-major order."),
    "tile_fft": ("inout", "Make the rows of a tile of complex numbers, as vec2, their Fourier transforms."),
    "tile_ifft": ("inout", "The inverse of tile_fft, times the length of a row."),
    "tile_sort": ("keys, values", "Sort both tiles by the keys, ascending; equal keys keep their order."),
    "tile_matmul": ("a, b, [out], alpha=1.0, beta=1.0, precision='default'",
                    "The matrix product; with out, out = alpha * a @ b + beta * out."),
    "tile_diag_add": ("a, d", "The square tile a with the elements of d added to its diagonal."),
    "tile_cholesky": ("A, fill_mode='lower'", "The factor L with L @ L^T = A, or U with U^T @ U = A."),
    "tile_cholesky_solve": ("L, y, fill_mode='lower'", "The solution x of A x = y, for the factor of A."),
    "tile_lower_solve": ("L, y", "The solution z of L z = y for a lower triangle L."),
    "tile_upper_solve": ("U, z", "The solution x of U x = z for an upper triangle U."),
    "tile_cholesky_inplace": ("A, fill_mode='lower'", "Make the tile A its factor."),
    "tile_cholesky_solve_inplace": ("L, y, fill_mode='lower'", "Make the tile y the solution x of A x = y."),
    "tile_lower_solve_inplace": ("L, y", "Make the tile y the solution z of L z = y."),
    "tile_upper_solve_inplace": ("U, z", "Make the tile z the solution x of U x = z."),
}  # fmt: skip


def _make() -> dict[str, Intrinsic | Composed]:
    # Library functions first, of which only the names are known until they are called.
    table: dict[str, Intrinsic | Composed] = {**COMPOSED}
    for row in (*scalar.ROWS, *composite.ROWS):
        # Later tables override earlier ones: an operation of the table may have the name of a library function.
        if (b := row.built_in) is not None:
            name = b.name or row.name
            table[name] = Intrinsic(name, b.signature, b.doc, b.host, row)
    for name, (sig, doc, host) in _OTHERS.items():
        table[name] = Intrinsic(name, sig, doc, host, in_kernels_alone=name.startswith("atomic_") or name in _OF_BLOCKS)
    for name, (sig, doc) in _TILES.items():
        # Tiles are what the threads of a block share, so there are none on the host.
        table[name] = (_Tile if name == "tile" else Intrinsic)(name, sig, doc, in_kernels_alone=True)
    return table


INTRINSICS: Final[Mapping[str, Intrinsic | Composed]] = _make()


INTERNAL: Final[Mapping[str, Intrinsic]] = {
    f"peek_{t}": Intrinsic(f"peek_{t}", "address, index", f"An element of memory of {t}.", in_kernels_alone=True)
    for t in ("int32", "uint64", "float32", "float64")
} | {
    "fetch": Intrinsic(
        "fetch",
        "address, cotangents, index",
        "A float32 of memory, and where its cotangent goes.",
        in_kernels_alone=True,
    ),
    "own_zeros": Intrinsic("own_zeros", "shape, dtype", "An array of the thread's own.", in_kernels_alone=True),
    **{
        name: Intrinsic(name, signature, doc, in_kernels_alone=True)
        for name, signature, doc in (
            ("block_barrier", "", "The threads of the block that come here wait for each other, on a GPU."),
            ("warp_thread", "", "The thread's index in its block, on a GPU."),
            ("warp_shuffle", "mask, value, lane", "What another lane of the warp has as the value."),
            ("warp_ballot", "mask, condition", "For which lanes of the warp a condition holds, as bits."),
            ("warp_active", "", "Which lanes of the warp are here, as bits."),
            ("warp_barrier", "mask", "The lanes of the warp wait for each other."),
            ("warp_fence", "", "What was written is seen by other blocks before what is written next."),
        )
    },
}
"""Built-ins that only library functions call, by name: what no array of a launch stands for, at its address; and what
is a function of the run time elsewhere.
"""


def _foreign() -> dict[Any, str]:
    """Return the functions of Python and NumPy, by identity, with their keys. Keys with ``int_`` round to an integer,
    as Python's functions do.
    """
    table: dict[Any, str] = {
        builtins.abs: "abs", builtins.min: "min", builtins.max: "max", builtins.pow: "pow",
        builtins.round: "int_round", builtins.len: "len", builtins.breakpoint: "breakpoint",
        builtins.float: "float", builtins.int: "int", builtins.bool: "bool", builtins.complex: "complex",
        builtins.divmod: "divmod", math.frexp: "frexp", math.ldexp: "ldexp", np.frexp: "frexp", np.ldexp: "ldexp",
        np.sign: "sign_or_zero",
        builtins.range: "range", builtins.print: "print", math.pow: "pow", math.fabs: "abs",
        math.floor: "int_floor", math.ceil: "int_ceil", math.trunc: "int_trunc",
        math.degrees: "degrees", math.radians: "radians",
    }  # fmt: skip
    for row in scalar.ROWS:
        # Only functions of math and NumPy are taken: the host function of a row may be a private one of diffkern's,
        # whose name a user's function could not have.
        if row.built_in is not None and row.built_in.of_floats:
            # math.cbrt and math.exp2 came with Python 3.11.
            by_name = (getattr(module, row.name, None) for module in (math, np))
            same = {f for f in (row.built_in.host, row.twin, *by_name) if _is_library(f)}
            table.update((f, row.name) for f in same if f not in table)
    # Where NumPy has another name for the same function.
    renamed = {
        "absolute": "abs", "fabs": "abs", "minimum": "min", "maximum": "max", "power": "pow", "clip": "clamp",
        "where": "where", "degrees": "degrees", "rad2deg": "degrees", "radians": "radians", "deg2rad": "radians",
        "dot": "dot", "cross": "cross", "outer": "outer", "transpose": "transpose", "trace": "trace",
        "conj": "conj", "conjugate": "conj", "angle": "angle",
    }  # fmt: skip
    table.update({getattr(np, name): key for name, key in renamed.items()})
    return table


def _is_library(function: Any) -> bool:
    return isinstance(function, np.ufunc) or getattr(function, "__module__", None) == "math"


_F = TypeVar("_F", bound=Callable[..., Any])

_FOREIGN: Final[Mapping[Any, str]] = _foreign()


def in_kernels(key: str) -> Callable[[_F], _F]:
    """Mark a function of the host as a built-in where a kernel calls it."""

    def mark(function: _F) -> _F:
        function.__kernel_key__ = key  # type: ignore[attr-defined]
        return function

    return mark


def lowering_key(obj: Any) -> str | None:
    """Return the key of the built-in that a callable is, or None if it is not one."""
    if isinstance(obj, (Intrinsic, Composed)):
        return obj.name
    # Functions of Python are hashable, so the mark is looked up without the exception handling below.
    if isinstance(obj, FunctionType):
        # Only functions of the host that are marked so, such as those of diffkern's modules.
        return _FOREIGN.get(obj) or obj.__dict__.get("__kernel_key__")
    try:
        return _FOREIGN.get(obj)
    except Exception:  # cannot be hashed, or compared, so none of ours
        return None
