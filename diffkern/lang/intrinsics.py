"""The built-in functions of the kernel language, and the Python and NumPy functions that mean the same.

The module defines one :class:`Intrinsic` per built-in, under Warp's name, or the :class:`Composed` of a library
function, and :func:`lowering_key`, which decides by identity (never by name) whether a callable is a built-in and which
one. What each key lowers to is the frontend's business.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any, Final, TypeVar

import numpy as np

from diffkern.errors import KernelError, KernelTypeError, described, is_of_user
from diffkern.ir.ops import composite, scalar
from diffkern.ir.ops.function import FunctionRow, Subject
from diffkern.ir.ops.row import Entry, OpDef
from diffkern.ir.ops.tile_functions import TILE_FUNCTIONS
from diffkern.lang import output
from diffkern.lang.annotations import TileAnnotation, tile_annotation
from diffkern.lang.called import evaluated
from diffkern.lang.function_rows import ROWS
from diffkern.lang.library import COMPOSED, Composed
from diffkern.lang.reference import described as documented
from diffkern.lang.reference import entry_of, family_of
from diffkern.lang.values import CompositeValue
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
        row: OpDef | FunctionRow | None = None,
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
        return documented(self.name, self.signature, self.summary, self.entry)

    @property
    def signatures(self) -> tuple[str, ...]:
        """The spellings of a call of it."""
        return (self.signature,)

    @property
    def entry(self) -> Entry:
        """Its entry in the reference."""
        return entry_of(self.name, self.signature, self._row, self._host)

    @property
    def family(self) -> Subject:
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
        except (TypeError, ValueError) as error:
            # Operators know arrays, and say themselves what is wrong with one; what prints takes anything.
            of_numbers = self._host.__module__ not in ("_operator", output.__name__)
            if of_numbers and any(map(_has_elements, args)) and not is_of_user(error):
                raise self._refused_arrays(args) from None
            # Only errors of the call itself are reworded: one from a user's own object keeps its traceback.
            if not isinstance(error, TypeError) or isinstance(error, KernelError) or is_of_user(error):
                raise
            given = ", ".join(map(described, args)) or "nothing"
            raise KernelTypeError(
                f"dk.{self.name} is called with {given}: {error}", remedy=f"call it as dk.{self.name}({self.signature})"
            ) from None

    def _refused_arrays(self, args: tuple[Any, ...]) -> KernelTypeError:
        """Return the error of a call with arrays."""
        names = [part.partition("=")[0].strip("[] ") for part in self.signature.split(",")][: len(args)]
        if len(names) < len(args) or not all(map(str.isidentifier, names)):
            names = [f"x{k}" for k in range(len(args))]
        # Maps are over arrays, and a list is none.
        mapped = ", ".join(f"np.array({n})" if isinstance(a, list) else n for n, a in zip(names, args, strict=True))
        remedy = f"for all elements: `dk.map(dk.{self.name}, {mapped})`"
        if isinstance(getattr(np, self.name, None), np.ufunc):
            remedy += f", or `np.{self.name}({', '.join(names)})`, which is NumPy's and passes no gradient"
        given = ", ".join(map(_briefly, args))
        return KernelTypeError(f"dk.{self.name} is called with {given}: it takes numbers and vectors", remedy=remedy)

    def __repr__(self) -> str:
        return f"<dk.{self.name}({self.signature})>"

    def __reduce__(self) -> tuple[Any, ...]:
        return _named, (self.name,)


class _Tile(Intrinsic):
    # ``tile`` is also an annotation, ``tile[float, 4, 4]``. Its text is the entry of the reference.
    __doc__ = Intrinsic.__doc__

    def __getitem__(self, item: Any) -> TileAnnotation:
        return tile_annotation(item)


def _has_elements(value: Any) -> bool:
    """Return whether an argument is an array of several numbers, or a list of them."""
    return isinstance(value, (list, np.ndarray)) or getattr(type(value), "_summary", None) is not None


def _briefly(value: Any) -> str:
    """Return an array for a message without its elements."""
    return f"a NumPy array of shape {value.shape}" if isinstance(value, np.ndarray) and value.ndim else described(value)


def _named(name: str) -> Intrinsic | Composed:
    return INTRINSICS[name]


def _make() -> dict[str, Intrinsic | Composed]:
    # Library functions first, of which only the names are known until they are called.
    table: dict[str, Intrinsic | Composed] = {**COMPOSED}
    for row in (*scalar.ROWS, *composite.ROWS):
        # Later tables override earlier ones: an operation of the table may have the name of a library function.
        if (b := row.built_in) is not None:
            name = b.name or row.name
            table[name] = Intrinsic(name, b.signature, b.doc, b.host, row)
    for made in (*ROWS, *TILE_FUNCTIONS.values()):
        kind = _Tile if made.name == "tile" else Intrinsic
        table[made.name] = kind(made.name, made.signature, made.doc, made.host, made, made.in_kernels_alone)
    return table


INTRINSICS: Final[Mapping[str, Intrinsic | Composed]] = _make()


INTERNAL: Final[Mapping[str, Intrinsic]] = {
    name: Intrinsic(name, signature, doc, in_kernels_alone=True)
    for name, signature, doc in (
        *(
            (f"peek_{t}", "address, index", f"An element of memory of {t}.")
            for t in ("int32", "uint64", "float32", "float64")
        ),
        ("fetch", "address, cotangents, index", "A float32 of memory, and where its cotangent goes."),
        *(
            (f"fetch_{t}", "address, cotangents, index", f"A number of memory of {t}, and where its cotangent goes.")
            for t in ("int32", "uint32", "int64", "float64")
        ),
        *(
            (f"poke_{t}", "address, cotangents, index, value", f"Write a number to memory of {t}.")
            for t in ("int32", "uint32", "int64", "float32", "float64")
        ),
        ("own_zeros", "shape, dtype", "An array of the thread's own."),
        ("block_barrier", "", "The threads of the block that come here wait for each other, on a GPU."),
        ("warp_thread", "", "The thread's index in its block, on a GPU."),
        ("warp_shuffle", "mask, value, lane", "What another lane of the warp has as the value."),
        ("warp_ballot", "mask, condition", "For which lanes of the warp a condition holds, as bits."),
        ("warp_active", "", "Which lanes of the warp are here, as bits."),
        ("warp_barrier", "mask", "The lanes of the warp wait for each other."),
        ("warp_fence", "", "What was written is seen by other blocks before what is written next."),
    )
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
