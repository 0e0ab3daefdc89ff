"""The table of functions of tiles: one row for each built-in, be it one operation of ``ops.tile`` or several.

The frontend binds the arguments of a call by its row; what the call becomes stands in ``diffkern/frontend/tiles``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from diffkern.ir.ops.function import NONE, StructFields, TileFunction
from diffkern.ir.ops.row import FIRST, TAKEN

__all__ = ["TILE_FUNCTIONS"]

_TILE: Final = "A tile."
_PASSED: Final = "Cotangents go where the elements came from."
_IN_PLACE: Final = "As that of the function that makes a new tile."
_SHAPE: Final = "shape : int or tuple of int, literals"
_OFFSET: Final = "offset=None : tuple of int"
_STORAGE: Final = "storage='register' : str"


def _rows() -> tuple[TileFunction, ...]:
    # Many rows share parameters and the first lines of their examples.
    moved, added, whole = StructFields.MOVED, StructFields.ADDED, StructFields.WHOLE
    summed, ordered = StructFields.SUMMED, StructFields.ORDERED
    made = f"{_SHAPE}; dtype=float : type of number; {_STORAGE}"
    drawn = f"{_SHAPE}; rng : uint32; [min, max] : {{}}; {_STORAGE}"
    unchecked = "bounds_check=True, aligned=False : bool"
    numbers, along = "indices : tile of int of one axis", f"{_OFFSET}; axis=0 : int, literal"
    at = "a! : tile; i, [j, ...] : int; value : {}"
    two, reduced = "a!, b : tile, of one shape", "a : tile; axis=None : int"
    factor, half = "tile, a triangle", "fill_mode='lower' : 'lower' or 'upper'"
    zero = "None: it is constant."
    load, line = "s = dk.tile_load(a, shape=(4, 4))", "r = dk.tile_load(x, shape=4)"
    store = "dk.tile_store(c, {})"
    spd = f"{load}; s = dk.tile_matmul(dk.tile_transpose(s), s)"
    spd += "; s = dk.tile_diag_add(s, dk.tile_ones(shape=4, dtype=float))"
    backwards = "dk.tile_arange(3, -1, -1)"
    bits = "t = dk.tile_arange(4); dk.tile_bit_{}_inplace(t, 1, 3); q[i] = dk.tile_extract(t, 1)"
    stack = "s = dk.tile_stack(8, float)"
    solve = f"{spd}; {line}; l = dk.tile_cholesky(s); dk.tile_store(y, {{}})"
    inplace = f"{spd}; {line}; l = dk.tile_cholesky(s); {{}}; dk.tile_store(y, r)"
    return (
        TileFunction("tile", "x : number, vector or matrix; preserve_type=False : bool",
            "A tile of what the threads of the block hold; on the CPU a block is a thread.",
            "A tile whose last axis is the block's threads.", _PASSED, "s = dk.tile(x[i])"),
        TileFunction("untile", "a : tile whose last axis is the block's threads",
            "The element of a tile that belongs to this thread of the block.", "A number or vector.", _PASSED,
            "y[i] = dk.untile(dk.tile(x[i]))"),
        TileFunction("tile_from_thread", f"{_SHAPE}; value : number, vector or matrix; thread_idx : int; {_STORAGE}",
            "A tile of what one thread of the block holds.", _TILE, "The thread takes the sum of the cotangents.",
            store.format("dk.tile_from_thread((4, 4), x[i], 0)"), structs=moved),
        TileFunction("tile_randi", drawn.format("int"),
            "Random integers, each the first draw of a generator of its own; the state rng is not advanced.",
            "A tile of int32.", NONE, "s = dk.tile_randi(4, dk.rand_init(7, i), 0, 10)"),
        TileFunction("tile_randf", drawn.format("float"),
            "Random numbers of [0, 1), or of [min, max), drawn as by tile_randi.", "A tile of float32.",
            "1 - r and r with respect to min and max, for the draws r of [0, 1).",
            "dk.tile_store(y, dk.tile_randf(4, dk.rand_init(7, i), 0.0, x[0]))"),
        TileFunction("tile_zeros", made, "A tile of zeros.", _TILE, zero,
            store.format("dk.tile_zeros(shape=(4, 4), dtype=float)"), structs=moved),
        TileFunction("tile_empty", made, "A tile of zeros.", _TILE, zero,
            store.format("dk.tile_empty(shape=(4, 4), dtype=float)"), structs=moved),
        TileFunction("tile_ones", made, "A tile of ones.", _TILE, zero,
            store.format("dk.tile_ones(shape=(4, 4), dtype=float)")),
        TileFunction("tile_full", f"{_SHAPE}; value : number; dtype=None : type of number; {_STORAGE}",
            "A tile of one value.", _TILE, "With respect to value, the sum of the cotangents.",
            store.format("dk.tile_full(shape=(4, 4), value=x[0], dtype=float)"), structs=moved),
        TileFunction("tile_arange", f"[start,] stop, [step] : number; dtype=None : type of number; {_STORAGE}",
            "A tile of evenly spaced numbers.", _TILE, zero, "dk.tile_store(y, dk.tile_arange(4, dtype=float))"),
        TileFunction("tile_load", f"a : array; {_SHAPE}; {_OFFSET}; {_STORAGE}; {unchecked}",
            "A tile of an array; what lies outside the array is 0.", _TILE, _PASSED, f"{load}; {store.format('s')}",
            structs=moved),
        TileFunction("tile_store", f"a : array; t : tile; {_OFFSET}; {unchecked}",
            "Write a tile to an array; what lies outside the array is left out.", "",
            "The tile takes the cotangents of what it overwrites.", f"{load}; {store.format('s')}",
            structs=moved, stores=True),
        TileFunction("tile_atomic_add", f"a : array; t : tile; {_OFFSET}; {unchecked}",
            "Add a tile to an array, each element at once; returns the old elements.", "A tile of the old elements.",
            "The tile takes the cotangents of the elements; the old ones have none.",
            f"{load}; dk.tile_atomic_add(c, s)", structs=added, stores=True),
        TileFunction("tile_load_indexed", f"a : array; {numbers}; {_SHAPE}; {along}; {_STORAGE}",
            "A tile of an array, along an axis of the elements that indices name; 0 outside the array.", _TILE,
            "Cotangents are added where the elements stand.",
            f"{line}; dk.tile_store(y, dk.tile_load_indexed(x, {backwards}, shape=4))", structs=moved),
        TileFunction("tile_store_indexed", f"a : array; {numbers}; t : tile; {along}",
            "Write a tile to an array, along an axis where indices say, no two of them equal.", "",
            "The tile takes the cotangents of what it overwrites.", f"{line}; dk.tile_store_indexed(y, {backwards}, r)",
            structs=moved, stores=True),
        TileFunction("tile_atomic_add_indexed", f"a : array; {numbers}; t : tile; {along}",
            "Add a tile to an array, along an axis where indices say; returns the old elements.",
            "A tile of the old elements.", "The tile takes the cotangents of the elements; the old ones have none.",
            f"{line}; dk.tile_atomic_add_indexed(y, {backwards}, r)", structs=added, stores=True),
        TileFunction("tile_slice_indexed", "t : tile; indices : tile of int of one axis, for the first axis of t",
            "t[indices, :]: what a tile of indices takes along an axis of a tile.", _TILE,
            "Cotangents are added where the elements stood.", f"{line}; k = {backwards}; dk.tile_store(y, r[k])",
            structs=moved),
        TileFunction("tile_scatter_add", at.format("number, vector or matrix; has_value : bool; atomic=True : bool"),
            "Add what each thread has to the element of the tile a that the thread names.", "",
            "value takes the cotangent of its element, if has_value.",
            f"{line}; dk.tile_scatter_add(r, 0, x[i], True); dk.tile_store(y, r)", structs=added),
        TileFunction("tile_scatter_masked", at.format("number, vector or matrix; has_value : bool"),
            "Write what each thread has to the element of the tile a that the thread names.", "",
            "value takes the cotangent of its element, if has_value; what was overwritten has none.",
            f"{line}; dk.tile_scatter_masked(r, 0, x[i], i < 4); dk.tile_store(y, r)", structs=moved),
        TileFunction("tile_bit_and_inplace", at.format("int"), "Combine the bits of an element of the tile a by and.",
            "", NONE, bits.format("and")),
        TileFunction("tile_bit_or_inplace", at.format("int"), "Combine the bits of an element of the tile a by or.", "",
            NONE, bits.format("or")),
        TileFunction("tile_bit_xor_inplace", at.format("int"), "Combine the bits of an element of the tile a by xor.",
            "", NONE, bits.format("xor")),
        TileFunction("tile_stack", "capacity : int, literal; dtype : type",
            "An empty stack that the threads of a block share.", "A stack.", zero, stack, structs=whole),
        TileFunction("tile_stack_push", "s : stack; value : element; has_value : bool",
            "Push what each thread has; returns the item's place, or -1 for none.", "An int32.",
            "Items carry their cotangents.", f"{stack}; q[i] = dk.tile_stack_push(s, x[i], True)",
            structs=whole),
        TileFunction("tile_stack_pop", "s : stack",
            "Pop an item for each thread; returns it and its place, which is -1 where there is none.",
            "A tuple of an element and an int32.", "Items carry their cotangents.",
            f"{stack}; dk.tile_stack_push(s, x[i], True); item, place = dk.tile_stack_pop(s)",
            structs=whole),
        TileFunction("tile_stack_clear", "s : stack", "Make a stack empty.", "", NONE,
            f"{stack}; dk.tile_stack_clear(s)", structs=whole),
        TileFunction("tile_stack_count", "s : stack", "How many items are on a stack.", "An int32.", NONE,
            f"{stack}; q[i] = dk.tile_stack_count(s)", structs=whole),
        TileFunction("tile_view", "t : tile; offset : tuple of int; shape=None : tuple of int, literals",
            "A part of a tile.", _TILE, _PASSED,
            f"{load}; {store.format('dk.tile_view(s, offset=(0, 0), shape=(2, 2))')}", structs=moved,
            is_view=True),
        TileFunction("tile_assign", f"dst!, src : tile; {_OFFSET}", "Replace a part of the tile dst by the tile src.",
            "", _PASSED,
            f"{load}; z = dk.tile_zeros(shape=(4, 4), dtype=float); dk.tile_assign(z, s, offset=(0, 0)); "
            f"{store.format('z')}", structs=moved),
        TileFunction("tile_extract", "t : tile; i, ... : int", "An element of a tile.", "A number.", _PASSED,
            f"{load}; y[i] = dk.tile_extract(s, 1, 2)", structs=moved),
        TileFunction("tile_transpose", "a : tile of two axes", "The transposed tile.", _TILE, _PASSED,
            f"{load}; {store.format('dk.tile_transpose(s)')}", structs=moved, is_view=True),
        TileFunction("tile_broadcast", "a : tile; shape : tuple of int, literals",
            "The tile extended to a shape, as NumPy does.", _TILE, "The sum of the cotangents of its copies.",
            f"{line}; {store.format('dk.tile_broadcast(r, shape=(4, 4))')}", structs=moved),
        TileFunction("tile_reshape", "t : tile; shape : tuple of int, literals", "The same elements in another shape.",
            _TILE, _PASSED, f"{load}; t = dk.tile_reshape(s, shape=(2, 8))", structs=moved, is_view=True),
        TileFunction("tile_squeeze", "t : tile; axis=None : int or tuple of int", "The tile without axes of extent 1.",
            _TILE, _PASSED, "t = dk.tile_squeeze(dk.tile_load(a, shape=(1, 4)))", structs=moved,
            is_view=True),
        TileFunction("tile_astype", "t : tile; dtype : type of number",
            "The elements converted to another type of number.", _TILE, "1, between floats.",
            f"{load}; t = dk.tile_astype(s, dtype=dk.float64)"),
        TileFunction("tile_map", "op : function of numbers; a, [b, ...] : tile, of one shape",
            "A function of the elements of one or more tiles of one shape.", _TILE,
            "That of the function, element by element.", f"{load}; {store.format('dk.tile_map(dk.sin, s)')}"),
        TileFunction("tile_dot", "a, b : tile, of one shape",
            "The sum of the products of the elements, as a tile of shape (1,).", "A tile of shape (1,).", "b and a.",
            f"{load}; y[i] = dk.tile_extract(dk.tile_dot(s, s), 0)"),
        TileFunction("tile_axpy", "alpha : number; src, dest! : tile, of one shape",
            "Add alpha * src to the tile dest.", "", "As that of dest + alpha * src.",
            f"{load}; t = dk.tile_zeros(shape=(4, 4), dtype=float); dk.tile_axpy(2.0, s, t); {store.format('t')}"),
        TileFunction("tile_add_inplace", two, "Add the tile b to the tile a.", "", _IN_PLACE,
            f"{load}; t = dk.tile_ones(shape=(4, 4), dtype=float); dk.tile_add_inplace(t, s); {store.format('t')}",
            structs=added),
        TileFunction("tile_sub_inplace", two, "Subtract the tile b from the tile a.", "", _IN_PLACE,
            f"{load}; t = dk.tile_ones(shape=(4, 4), dtype=float); dk.tile_sub_inplace(t, s); {store.format('t')}",
            structs=added),
        TileFunction("tile_sum", reduced, "The sum of the elements, of all as a tile of shape (1,).", _TILE,
            "1 for each element.", f"{load}; y[i] = dk.tile_extract(dk.tile_sum(s), 0)", structs=summed),
        TileFunction("tile_min", reduced,
            "The smallest element, of all as a tile of shape (1,); of vectors each component's.", _TILE, TAKEN,
            f"{load}; y[i] = dk.tile_extract(dk.tile_min(s), 0)", FIRST),
        TileFunction("tile_max", reduced,
            "The greatest element, of all as a tile of shape (1,); of vectors each component's.", _TILE, TAKEN,
            f"{load}; y[i] = dk.tile_extract(dk.tile_max(s), 0)", FIRST),
        TileFunction("tile_reduce", f"op : function of two numbers; {reduced}",
            "All elements combined by a function of two.", _TILE, "That of the function, along the chain of its calls.",
            f"{load}; y[i] = dk.tile_extract(dk.tile_reduce(dk.max, s), 0)"),
        TileFunction("tile_argmin", "a : tile",
            "Where the smallest element stands in row-major order, as a tile of shape (1,).", "A tile of one int32.",
            NONE, f"{load}; q[i] = dk.tile_extract(dk.tile_argmin(s), 0)"),
        TileFunction("tile_argmax", "a : tile",
            "Where the greatest element stands in row-major order, as a tile of shape (1,).", "A tile of one int32.",
            NONE, f"{load}; q[i] = dk.tile_extract(dk.tile_argmax(s), 0)"),
        TileFunction("tile_scan_inclusive", "a : tile", "The sums of the elements up to each one, in row-major order.",
            _TILE, "The sum of the later cotangents, its own included.",
            f"{line}; dk.tile_store(y, dk.tile_scan_inclusive(r))"),
        TileFunction("tile_scan_exclusive", "a : tile", "The sums of the elements before each one, in row-major order.",
            _TILE, "The sum of the later cotangents.", f"{line}; dk.tile_store(y, dk.tile_scan_exclusive(r))"),
        TileFunction("tile_scan_max_inclusive", "a : tile",
            "The greatest of the elements up to each one, in row-major order.", _TILE,
            "A cotangent goes to the element that is the extremum.",
            f"{line}; dk.tile_store(y, dk.tile_scan_max_inclusive(r))", FIRST),
        TileFunction("tile_scan_min_inclusive", "a : tile",
            "The smallest of the elements up to each one, in row-major order.", _TILE,
            "A cotangent goes to the element that is the extremum.",
            f"{line}; dk.tile_store(y, dk.tile_scan_min_inclusive(r))", FIRST),
        TileFunction("tile_fft", "inout! : tile of vec2 or vec2d, of any length",
            "Make the rows of a tile of complex numbers, as vec2, their Fourier transforms.", "",
            "tile_ifft of a cotangent.",
            "t = dk.tile_zeros(shape=8, dtype=dk.vec2); t[0] = dk.vec2(x[i], 0.0); dk.tile_fft(t)"),
        TileFunction("tile_ifft", "inout! : tile of vec2 or vec2d, of any length",
            "The inverse of tile_fft, times the length of a row.", "", "tile_fft of a cotangent.",
            "t = dk.tile_zeros(shape=8, dtype=dk.vec2); t[0] = dk.vec2(x[i], 0.0); dk.tile_ifft(t)"),
        TileFunction("tile_sort", "keys!, values! : tile of one axis, of one length",
            "Sort both tiles by the keys, ascending; equal keys keep their order.", "",
            "Cotangents go back where the elements stood.",
            f"{line}; t = dk.tile_arange(4, dtype=int); dk.tile_sort(r, t); dk.tile_store(y, r)", structs=ordered),
        TileFunction("tile_matmul",
            "a, b : tile of two axes; [out!] : tile; alpha=1.0, beta=1.0 : number; precision='default' : str",
            "The matrix product; with out, out = alpha * a @ b + beta * out.", "A tile; with out, nothing.",
            "alpha * C b^T and alpha * a^T C for a cotangent C.", f"{load}; {store.format('dk.tile_matmul(s, s)')}"),
        TileFunction("tile_diag_add", "a : tile, square; d : tile of one axis",
            "The square tile a with the elements of d added to its diagonal.", _TILE,
            "1; for d the diagonal of a cotangent.",
            f"{load}; {store.format('dk.tile_diag_add(s, dk.tile_load(x, shape=4))')}"),
        TileFunction("tile_cholesky", f"A : tile, symmetric and positive definite; {half}",
            "The factor L with L @ L^T = A, or U with U^T @ U = A.", "A tile, a triangle.",
            "A symmetric matrix, from two triangular solves.", f"{spd}; {store.format('dk.tile_cholesky(s)')}"),
        TileFunction("tile_cholesky_solve", f"L : {factor}; y : tile of one or two axes; {half}",
            "The solution x of A x = y, for the factor of A.", _TILE,
            "Solves with the same factor; of the factor, an outer product.",
            solve.format("dk.tile_cholesky_solve(l, r)")),
        TileFunction("tile_lower_solve", f"L : {factor}; y : tile of one or two axes",
            "The solution z of L z = y for a lower triangle L.", _TILE,
            "A solve with the transposed factor; of the factor, an outer product.",
            solve.format("dk.tile_lower_solve(l, r)")),
        TileFunction("tile_upper_solve", f"U : {factor}; z : tile of one or two axes",
            "The solution x of U x = z for an upper triangle U.", _TILE,
            "A solve with the transposed factor; of the factor, an outer product.",
            solve.format("dk.tile_upper_solve(dk.tile_transpose(l), r)")),
        TileFunction("tile_cholesky_inplace", f"A! : tile, symmetric and positive definite; {half}",
            "Make the tile A its factor.", "", _IN_PLACE, f"{spd}; dk.tile_cholesky_inplace(s); {store.format('s')}"),
        TileFunction("tile_cholesky_solve_inplace", f"L : {factor}; y! : tile of one or two axes; {half}",
            "Make the tile y the solution x of A x = y.", "", _IN_PLACE,
            inplace.format("dk.tile_cholesky_solve_inplace(l, r)")),
        TileFunction("tile_lower_solve_inplace", f"L : {factor}; y! : tile of one or two axes",
            "Make the tile y the solution z of L z = y.", "", _IN_PLACE,
            inplace.format("dk.tile_lower_solve_inplace(l, r)")),
        TileFunction("tile_upper_solve_inplace", f"U : {factor}; z! : tile of one or two axes",
            "Make the tile z the solution x of U x = z.", "", _IN_PLACE,
            inplace.format("dk.tile_upper_solve_inplace(dk.tile_transpose(l), r)")),
    )  # fmt: skip


TILE_FUNCTIONS: Final[Mapping[str, TileFunction]] = {row.name: row for row in _rows()}
"""By name."""
