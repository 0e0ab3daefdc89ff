"""Memory of a block and of a thread, constants and atomics, in numba's spelling.

A call such as ``cuda.shared.array`` or ``cuda.atomic.add`` gives a view of memory of the block, or an atomic update.
Memory of a thread is an array of its own, or if that is large its part of an array of the block.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from diffkern.contracts.launch_layout import Layout
from diffkern.frontend.builtins import atomics, local
from diffkern.frontend.builtins.blocks import array_arguments, literal_shape, spans
from diffkern.frontend.numba.numba_grid import Call, layout_of, nonneg
from diffkern.frontend.syntax.plain import is_masked, native
from diffkern.frontend.terms import views
from diffkern.frontend.terms.context import Context
from diffkern.frontend.terms.terms import Const, Fixed, Static, Term, Tup, View, describe
from diffkern.ir import types as T
from diffkern.ir.nodes import Op, Value
from diffkern.lang import resolve_dtype

__all__ = ["CALLS", "constant_array", "new"]

_OWN: Final = 64
"""Numbers in an array of a thread that is no part of one of the block: so many may be kept across a barrier."""


def _array_arguments(cx: Context, name: str, node: ast.Call) -> tuple[tuple[int, ...], T.Scalar]:
    """Return the shape and the dtype of a call that makes an array."""
    given = array_arguments(cx, name, node, "alignment")
    if len(node.args) > 2 or "shape" not in given or "dtype" not in given:
        cx.type_error(node, f"{name} takes a shape and a dtype", f"write {name}(64, np.float32) or {name}((8, 8), …)")
    return literal_shape(cx, given["shape"], name, least=0, axes=3), _dtype(cx, given["dtype"])


def _dtype(cx: Context, node: ast.expr) -> T.Scalar:
    term = cx.expr(node)
    obj = term.obj if isinstance(term, Static) else None
    # In numba Python's types are those of 64 bits.
    wide = {float: T.FLOAT64, int: T.INT64}.get(obj) if isinstance(obj, type) else None
    try:
        found = wide or resolve_dtype(obj)
    except TypeError:
        cx.type_error(node, f"{describe(term)} is no dtype", "write np.float32, numba.float32, np.int32, …")
    if not isinstance(found, T.Scalar):
        cx.type_error(node, f"the elements are numbers, not {found}", "convert the data to a dtype such as float32")
    return found


def new(cx: Context, t: T.Scalar, shape: tuple[int, ...], node: ast.AST) -> Value:
    """Make memory of the block, at the kernel's beginning wherever it is asked for."""
    array = Value(T.Array(t, len(shape), T.SHARED))
    attrs = {"type": array.type, "shape": shape, "number": cx.new_uid()}
    # At the beginning: memory of a block exists for the whole kernel, also if it is asked for in a loop.
    cx.root.ops.insert(0, Op("shared_new", (), (array,), attrs, (), cx.loc(node)))
    return array


def _shared_array(cx: Context, name: str, node: ast.Call) -> Term:
    layout = layout_of(cx, name, node)
    shape, t = _array_arguments(cx, name, node)
    if 0 in shape:
        return _dynamic(cx, layout, shape, t, node)
    return View(new(cx, t, shape, node), spans(cx, shape))


def _dynamic(cx: Context, layout: Layout, shape: tuple[int, ...], t: T.Scalar, node: ast.Call) -> Term:
    """Return dynamic shared memory: as many elements as the launch has bytes for. All such arrays are
    the same memory.
    """
    if len(shape) != 1:
        cx.type_error(
            node, "dynamic shared memory has one axis", "write cuda.shared.array(0, dtype), and index by hand"
        )
    if not layout.shared:
        cx.type_error(
            node,
            "the launch has no dynamic shared memory",
            "give its bytes as the fourth entry: kernel[blocks, threads, stream, bytes](…)",
        )
    known = cx.dynamic
    if known is not None and known.type.dtype != t:  # type: ignore[union-attr]
        cx.type_error(
            node,
            f"dynamic shared memory is an array of {known.type.dtype} elsewhere, and of {t} here",  # type: ignore[union-attr]
            "take shared arrays with shapes of their own for one of them",
        )
    length = layout.shared // t.itemsize
    if known is None:
        known = cx.dynamic = new(cx, t, (length,), node)
    return View(known, spans(cx, (length,)))


def _local_array(cx: Context, name: str, node: ast.Call) -> Term:
    """Return memory of the thread: an array of its own, or if that is too large its part of an array of the block."""
    layout = layout_of(cx, name, node)
    shape, t = _array_arguments(cx, name, node)
    if 0 in shape:
        cx.type_error(node, "an array without elements", "give an extent of at least 1")
    if math.prod(shape) <= _OWN:
        return local.zeros(cx, t, shape, node)
    base = new(cx, t, (layout.block_dim, *shape), node)
    thread = nonneg(cx, cx.b.one("block_thread"))
    return View(base, (Fixed(thread, False), *spans(cx, shape)))


# -- atomics ------------------------------------------------------------------------------------------------------

_KINDS: Final = {"and_": "and", "or_": "or"}


def _atomic(cx: Context, name: str, node: ast.Call) -> Term:
    layout_of(cx, name, node)
    kind = name.rpartition(".")[2]
    kind = _KINDS.get(kind, kind)
    if node.keywords or len(node.args) != 3 + (kind == "cas"):
        values = "old, v" if kind == "cas" else "v"
        remedy = f"write {name}(a, i, {values}) or {name}(a, (i, j), {values})"
        cx.type_error(
            node, f"{name} takes an array, an index and {'two values' if kind == 'cas' else 'a value'}", remedy
        )
    array = atomics.array_argument(cx, name, node.args[0])
    return _updated(cx, kind, name, array, cx.expr(node.args[1]), node.args[2:], node)


def _compare_and_swap(cx: Context, name: str, node: ast.Call) -> Term:
    layout_of(cx, name, node)
    array = cx.expr(node.args[0]) if len(node.args) == 3 and not node.keywords else None
    if not isinstance(array, View) or len(array.spans) != 1:
        cx.type_error(
            node, f"{name} takes an array of one axis and two values", "write cuda.atomic.cas(a, i, old, value)"
        )
    return _updated(cx, "cas", name, array, Const(0), node.args[1:], node)


def _updated(
    cx: Context, kind: str, name: str, array: View, index: Term, values: Sequence[ast.expr], node: ast.Call
) -> Term:
    """Change an element atomically."""
    entries = list(index.items) if isinstance(index, Tup) else [index]
    for entry in entries:
        views.check_index(cx, entry, node)
    t = T.value_type(array.array.dtype)
    if kind == "cas" and not (isinstance(t, T.Scalar) and t.is_integer and t.bits >= 32):
        cx.type_error(node, f"{name} on elements of type {t}", "it takes integers of 32 or 64 bits")
    return atomics.updated(cx, kind, name, array, entries, [cx.expr(value) for value in values], node)


# -- arrays of constants ------------------------------------------------------------------------------------------

_MOST_CONSTANTS: Final = 1024 * 1024
"""Bytes that are still compiled in reasonable time."""


def constant_array(cx: Context, array: np.ndarray[Any, Any], name: str, node: ast.AST) -> Term:
    """Return a NumPy array from outside of the kernel: its present elements are part of the program."""
    if is_masked(array):
        remedy = f"write {name}.filled(0.0) or {name}.data outside of the kernel, and give that a name"
        cx.type_error(node, f"{name} is a masked array, whose mask kernels do not know", remedy)
    array = native(array)
    t = T.SCALARS.get(array.dtype.name)
    if t is None or t in T.STORAGE_ONLY or not 1 <= array.ndim <= 4:
        axes = "1 axis" if array.ndim == 1 else f"{array.ndim} axes"
        cx.type_error(node, f"{name} is an array of {array.dtype} with {axes}", "pass it as a parameter")
    if not 0 < array.nbytes <= _MOST_CONSTANTS:
        cx.type_error(
            node, f"{name} has {array.nbytes} bytes; constants have at most {_MOST_CONSTANTS}", "pass it as a parameter"
        )
    # By contents: two names of equal arrays are one constant of the program.
    key = f"{array.dtype}{array.shape}", array.tobytes()
    made = cx.constants.get(key)
    if made is None:
        made = cx.constants[key] = Value(T.Array(t, array.ndim, "C"), name.rpartition(".")[2])
        attrs = {"type": made.type, "shape": array.shape, "data": key[1]}
        cx.root.ops.insert(0, Op("constant_array", (), (made,), attrs, (), cx.loc(node)))
    return View(made, spans(cx, array.shape))


def _array_like(cx: Context, name: str, node: ast.Call) -> Term:
    layout_of(cx, name, node)
    term = cx.expr(node.args[0]) if len(node.args) == 1 and not node.keywords else None
    if not isinstance(term, View):
        given = "" if term is None else f", not {describe(term)}"
        cx.type_error(
            node,
            f"{name} takes an array from outside of the kernel{given}",
            "name an array of NumPy that is a global of the module",
        )
    return term


CALLS: Final[Mapping[str, Call]] = {
    "cuda.shared.array": _shared_array,
    "cuda.local.array": _local_array,
    "cuda.const.array_like": _array_like,
    "cuda.atomic.compare_and_swap": _compare_and_swap,
    **{f"cuda.atomic.{kind}": _atomic for kind in ("add", "sub", "min", "max", "exch", "and_", "or_", "xor")},
    **{f"cuda.atomic.{kind}": _atomic for kind in ("inc", "dec", "cas")},
}
