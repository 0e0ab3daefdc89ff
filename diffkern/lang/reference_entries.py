"""Entries of the reference for built-in functions that do not follow from a row of the table of operations.

Each states what the function takes, returns and has for a derivative, with an example that runs as a line of a kernel.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final

from diffkern.ops.row import FIRST, TAKEN, Entry

__all__ = ["BY_FAMILY", "ENTRIES", "NONE", "PRELUDE", "STEP", "Family"]


class Family(enum.Enum):
    """The subject of a built-in function: one page of the reference each, with its title."""

    SCALARS = "Scalar mathematics"
    INTEGERS = "Integers, bits and logic"
    COMPOSITES = "Vectors and matrices"
    ROTATIONS = "Quaternions and transforms"
    COMPLEX = "Complex numbers"
    RANDOM = "Random numbers and noise"
    THREADS = "Threads and blocks"
    ATOMICS = "Atomic updates"
    TILES = "Tiles"
    QUERIES = "Geometry queries and search"
    REPORTS = "Printing and checks"


PRELUDE: Final = """\
@dk.kernel
def example(
    x: dk.array(dtype=float), y: dk.array(dtype=float),
    p: dk.array(dtype=int), q: dk.array(dtype=int),
    w: dk.array(dtype=dk.vec3), e: dk.array(dtype=dk.mat33),
    a: dk.array2d(dtype=float), b: dk.array2d(dtype=float), c: dk.array2d(dtype=float),
    grid: dk.uint64, tree: dk.uint64, mesh: dk.uint64,
):
    i = dk.tid()
    u = w[i] + dk.vec3(1.0, 2.0, 3.0)
    v = dk.vec3(0.5, x[i], 2.0)
    m = dk.matrix_from_rows(u, v, dk.vec3(0.0, 1.0, 4.0))
    k = dk.transpose(m)
"""
"""The code in front of examples that are lines of a kernel."""


STEP = "0 everywhere."
"""The derivative of what is constant between jumps."""
NONE = "None: no floats come back."
"""The derivative of what returns none."""
_OLD = "The old value."
_ATOMIC = "arr : array; i, ... : int; value : float, int, vector or matrix"
_SILENT = "None: adjoints print nothing."
_PAIR = "a, b : number, vector or matrix, both of one type"
_OF_COMPONENTS = "Each component has its part of a cotangent."
_ATOMIC_CAS = "arr : array of numbers; i, ... : int; compare, value : float or int"
_ATOMIC_BITS = "arr : array of integers, vectors or matrices of them; i, ... : int; value : of the elements' type"
_WINNER = "Each component of the cotangent of the element goes to the value that supplied it."
_ATOMIC_TIE = "Of threads with the same number one has the cotangent; none, if it was there before."
_UNTAKEN = "What is not chosen has exactly 0, also where it is infinite or NaN."
_TILE = "A tile."
_PASSED = "Cotangents go where the elements came from."
_IN_PLACE = "As that of the function that makes a new tile."
_LOAD = "dk.tile_load(a, shape=(4, 4))"


def _scalars() -> dict[str, Entry]:
    return {
        "sign": Entry("x : float or int, or a vector or matrix", "Of its type.", "0.", "y[i] = dk.sign(x[i])",
            "0 at x = 0 as well, where the value is 1."),
        "cast": Entry(
            "x : number, vector, matrix or struct; dtype : type of as many bytes", "A value of the type dtype.",
            "None: bits are no number that changes smoothly.", "q[i] = dk.cast(x[i], dk.int32)"),
        "stop_gradient": Entry("x : number, vector, matrix, quaternion or struct", "x.", "0.",
            "y[i] = dk.stop_gradient(x[i]) * x[i]"),
        "nonzero": Entry("x : float or int", "Of its type.", "0.", "y[i] = dk.nonzero(x[i])", "0 at x = 0 as well."),
        "step": Entry("x : float or int", "Of its type.", "0.", "y[i] = dk.step(x[i])", "0 at x = 0 as well."),
        "frac": Entry("x : float", "float", "1.", "y[i] = dk.frac(x[i])",
            "1 at integers as well, where the value jumps."),
        "degrees": Entry("x : float", "float", "180 / pi.", "y[i] = dk.degrees(x[i])"),
        "radians": Entry("x : float", "float", "pi / 180.", "y[i] = dk.radians(x[i])"),
        "pos": Entry("x : number, vector, matrix or quaternion", "x.", "1.", "y[i] = dk.pos(x[i])"),
        "clamp": Entry("x, low, high : float or int, or vectors or matrices", "Of their type.",
            "1 with respect to the one that comes back, 0 with respect to the others.",
            "y[i] = dk.clamp(x[i], 0.0, 1.0)", "At a bound x comes back."),
        "lerp": Entry("a, b : float, vector or matrix; t : float", "Of the type of a and b.", "1 - t, t and b - a.",
            "y[i] = dk.lerp(x[i], 1.0, 0.25)"),
        "smoothstep": Entry("a, b, x : float", "float",
            "6 * t * (1 - t) / (b - a) with respect to x, for t the place of x between the bounds.",
            "y[i] = dk.smoothstep(0.0, 1.0, x[i])", "0 at the bounds and outside of them."),
        "where": Entry("cond : bool; value_if_true, value_if_false : number, vector, matrix, quaternion or struct",
            "Of the type of the two.", "1 with respect to the chosen one, exactly 0 with respect to the other.",
            "y[i] = dk.where(x[i] > 0.5, x[i], 0.0)", _UNTAKEN),
        "select": Entry("cond : bool; value_if_false, value_if_true : number, vector, matrix, quaternion or struct",
            "Of the type of the two.", "1 with respect to the chosen one, exactly 0 with respect to the other.",
            "y[i] = dk.select(x[i] > 0.5, 0.0, x[i])", _UNTAKEN),
    }  # fmt: skip


def _composites() -> dict[str, Entry]:
    return {
        "vector": Entry(
            "x, ... : all components, numbers or vectors, or one for all; length : int, a literal, optional; "
            "dtype : scalar type, optional", "A vector; without components, zeros.", _OF_COMPONENTS,
            "w[i] = dk.vector(x[i], 1.0, 2.0)"),
        "matrix": Entry(
            "x, ... : all components, the rows, or one number for all; shape : tuple of two ints, literals; "
            "dtype : scalar type, optional", "A matrix; without components, zeros.", _OF_COMPONENTS,
            "e[i] = dk.matrix(u, v, u, shape=(3, 3))"),
        "matrix_from_rows": Entry("r0, r1, ... : vector of floats, all of one length", "A matrix.",
            "Each row has its part of a cotangent.", "e[i] = dk.matrix_from_rows(u, v, u)"),
        "matrix_from_cols": Entry("c0, c1, ... : vector of floats, all of one length", "A matrix.",
            "Each column has its part of a cotangent.", "e[i] = dk.matrix_from_cols(u, v, u)"),
        "identity": Entry("n : int, a literal; dtype : type of float, optional", "A square matrix.",
            "None: it is constant.", "e[i] = dk.identity(n=3, dtype=dk.float32)"),
        "diag": Entry("vec : vector of floats", "A square matrix.", "The diagonal of a cotangent.",
            "e[i] = dk.diag(u)"),
        "get_diag": Entry("mat : square matrix of floats", "A vector.", "A cotangent goes to the diagonal.",
            "w[i] = dk.get_diag(m)"),
        "skew": Entry("vec : vector of three floats", "A matrix of three rows and columns.",
            "Differences of opposite components of a cotangent.", "e[i] = dk.skew(u)"),
        "ddot": Entry("a, b : matrix of floats, of one shape", "float", "b and a.", "y[i] = dk.ddot(m, k)"),
        "argmin": Entry("a : vector of numbers", "uint32: the first of equals; NaN is skipped.", NONE,
            "q[i] = int(dk.argmin(u))"),
        "argmax": Entry("a : vector of numbers", "uint32: the first of equals; NaN is skipped.", NONE,
            "q[i] = int(dk.argmax(u))"),
    }  # fmt: skip


def _rotations() -> dict[str, Entry]:
    return {
        "quaternion": Entry(
            "x, ... : four numbers, or a vector of three and a number; dtype : type of floats, optional",
            "A quaternion.", _OF_COMPONENTS, "y[i] = dk.quaternion(u, x[i]).w"),
        "transformation": Entry(
            "p : vector of three floats; q : quaternion, optional; dtype : type of floats, optional",
            "A transform.", _OF_COMPONENTS, "w[i] = dk.transformation(u).p"),
    }  # fmt: skip


def _complexes() -> dict[str, Entry]:
    return {
        "complex": Entry("re : float; im : float, optional", "A complex number, as wide as its parts.", _OF_COMPONENTS,
            "y[i] = dk.abs(dk.complex(x[i], 2.0))"),
    }  # fmt: skip


def _threads() -> dict[str, Entry]:
    return {
        "tid": Entry("", "int, or as many as are unpacked.", NONE, "j = dk.tid()"),
        "shared_array": Entry("shape : int or tuple of int, literals; dtype : type of number, optional",
            "An array of the block.", "Elements carry their cotangents.",
            "s = dk.shared_array(shape=4, dtype=dk.float32)"),
        "syncthreads": Entry("", "", "None; the adjoint waits in its place.", "dk.syncthreads()"),
        "block_dim": Entry("", "int", NONE, "q[i] = dk.block_dim()"),
        "thread_index": Entry("", "int", NONE, "q[i] = dk.thread_index()"),
        "block_index": Entry("", "int", NONE, "q[i] = dk.block_index()"),
    }  # fmt: skip


def _atomics() -> dict[str, Entry]:
    return {
        "atomic_add": Entry(_ATOMIC, _OLD,
            "With respect to value, the cotangent of the element; the old value has none.",
            "dk.atomic_add(y, 0, x[i])"),
        "atomic_sub": Entry(_ATOMIC, _OLD,
            "With respect to value, the negative cotangent of the element; the old value has none.",
            "dk.atomic_sub(y, 0, x[i])"),
        "atomic_min": Entry(_ATOMIC, _OLD, _WINNER, "dk.atomic_min(y, 0, x[i])", _ATOMIC_TIE),
        "atomic_max": Entry(_ATOMIC, _OLD, _WINNER, "dk.atomic_max(y, 0, x[i])", _ATOMIC_TIE),
        "atomic_exch": Entry(_ATOMIC, _OLD,
            "None: a kernel that exchanges floats is refused when it is differentiated.", "dk.atomic_exch(q, 0, p[i])"),
        "atomic_cas": Entry(_ATOMIC_CAS, _OLD,
            "None: a kernel that replaces floats is refused when it is differentiated.",
            "dk.atomic_cas(q, 0, 0, p[i])"),
        "atomic_and": Entry(_ATOMIC_BITS, _OLD, NONE, "dk.atomic_and(q, 0, p[i])"),
        "atomic_or": Entry(_ATOMIC_BITS, _OLD, NONE, "dk.atomic_or(q, 0, p[i])"),
        "atomic_xor": Entry(_ATOMIC_BITS, _OLD, NONE, "dk.atomic_xor(q, 0, p[i])"),
    }  # fmt: skip


def _reports() -> dict[str, Entry]:
    return {
        "printf": Entry("text : str, constant; values : number, one for each field", "", _SILENT,
            'dk.printf("x[%d] = %g\\n", i, x[i])'),
        "expect_eq": Entry(_PAIR, "", _SILENT, "dk.expect_eq(p[i], p[i])"),
        "expect_neq": Entry(_PAIR, "", _SILENT, "dk.expect_neq(p[i], p[i] + 1)"),
        "expect_near": Entry(f"{_PAIR}; tolerance : float, optional", "", _SILENT,
            "dk.expect_near(x[i], x[i], 1e-3)"),
    }  # fmt: skip


def _tiles() -> dict[str, Entry]:
    # Most entries of tiles share their parameters and the first lines of their examples.
    made = "shape : int or tuple of int, literals; dtype : type of number, optional; storage : str, optional"
    array = "a : array; {}offset : tuple of int, optional; bounds_check, aligned : bool, optional"
    tile, two = "a : tile", "a, b : tile, of one shape"
    factor, half = "tile, a triangle", "fill_mode : 'lower' or 'upper', optional"
    load, zero = f"s = {_LOAD}", "None: it is constant."
    store = "dk.tile_store(c, {})"
    spd = f"{load}; s = dk.tile_matmul(dk.tile_transpose(s), s)"
    spd += "; s = dk.tile_diag_add(s, dk.tile_ones(shape=4, dtype=float))"
    line = "r = dk.tile_load(x, shape=4)"
    drawn = "shape : int or tuple of int, literals; rng : uint32; min, max : {}, optional; storage : str, optional"
    numbers, along = (
        "indices : tile of int of one axis",
        "offset : tuple of int, optional; axis : int, literal, optional",
    )
    backwards = "dk.tile_arange(3, -1, -1)"
    at = "a : tile; i, ... : int; value : {}"
    bits = "t = dk.tile_arange(4); dk.tile_bit_{}_inplace(t, 1, 3); q[i] = dk.tile_extract(t, 1)"
    stack = "s = dk.tile_stack(8, float)"
    solve = f"{spd}; {line}; l = dk.tile_cholesky(s); dk.tile_store(y, {{}})"
    inplace = f"{spd}; {line}; l = dk.tile_cholesky(s); {{}}; dk.tile_store(y, r)"
    return {
        "tile": Entry("x : number, vector or matrix; preserve_type : bool, optional",
            "A tile whose last axis is the block's threads.", _PASSED, "s = dk.tile(x[i])"),
        "untile": Entry("a : tile whose last axis is the block's threads", "A number or vector.", _PASSED,
            "y[i] = dk.untile(dk.tile(x[i]))"),
        "tile_from_thread": Entry(
            "shape : int or tuple of int, literals; value : number, vector or matrix; thread_idx : int; "
            "storage : str, optional", _TILE, "The thread takes the sum of the cotangents.",
            store.format("dk.tile_from_thread((4, 4), x[i], 0)")),
        "tile_randi": Entry(drawn.format("int"), "A tile of int32.", NONE,
            "s = dk.tile_randi(4, dk.rand_init(7, i), 0, 10)"),
        "tile_randf": Entry(drawn.format("float"), "A tile of float32.",
            "1 - r and r with respect to min and max, for the draws r of [0, 1).",
            "dk.tile_store(y, dk.tile_randf(4, dk.rand_init(7, i), 0.0, x[0]))"),
        "tile_zeros": Entry(made, _TILE, zero, store.format("dk.tile_zeros(shape=(4, 4), dtype=float)")),
        "tile_empty": Entry(made, _TILE, zero, store.format("dk.tile_empty(shape=(4, 4), dtype=float)")),
        "tile_ones": Entry(made, _TILE, zero, store.format("dk.tile_ones(shape=(4, 4), dtype=float)")),
        "tile_full": Entry(made.replace("; dtype", "; value : number; dtype"), _TILE,
            "With respect to value, the sum of the cotangents.",
            store.format("dk.tile_full(shape=(4, 4), value=x[0], dtype=float)")),
        "tile_arange": Entry("start, stop, step : number; dtype : type of number, optional; storage : str, optional",
            _TILE, zero, "dk.tile_store(y, dk.tile_arange(4, dtype=float))"),
        "tile_load": Entry(
            array.format("shape : int or tuple of int, literals; ").replace("; b", "; storage : str, optional; b"),
            _TILE, _PASSED, f"{load}; {store.format('s')}"),
        "tile_store": Entry(array.format("t : tile; "), "", "The tile takes the cotangents of what it overwrites.",
            f"{load}; {store.format('s')}"),
        "tile_atomic_add": Entry(array.format("t : tile; "), "A tile of the old elements.",
            "The tile takes the cotangents of the elements; the old ones have none.",
            f"{load}; dk.tile_atomic_add(c, s)"),
        "tile_load_indexed": Entry(
            f"a : array; {numbers}; shape : int or tuple of int, literals; {along}; storage : str, optional", _TILE,
            "Cotangents are added where the elements stand.",
            f"{line}; dk.tile_store(y, dk.tile_load_indexed(x, {backwards}, shape=4))"),
        "tile_store_indexed": Entry(f"a : array; {numbers}; t : tile; {along}", "",
            "The tile takes the cotangents of what it overwrites.",
            f"{line}; dk.tile_store_indexed(y, {backwards}, r)"),
        "tile_atomic_add_indexed": Entry(f"a : array; {numbers}; t : tile; {along}", "A tile of the old elements.",
            "The tile takes the cotangents of the elements; the old ones have none.",
            f"{line}; dk.tile_atomic_add_indexed(y, {backwards}, r)"),
        "tile_slice_indexed": Entry("t : tile; indices : tile of int of one axis, for the first axis of t", _TILE,
            "Cotangents are added where the elements stood.",
            f"{line}; k = {backwards}; dk.tile_store(y, r[k])"),
        "tile_scatter_add": Entry(at.format("number, vector or matrix; has_value : bool; atomic : bool, optional"), "",
            "value takes the cotangent of its element, if has_value.",
            f"{line}; dk.tile_scatter_add(r, 0, x[i], True); dk.tile_store(y, r)"),
        "tile_scatter_masked": Entry(at.format("number, vector or matrix; has_value : bool"), "",
            "value takes the cotangent of its element, if has_value; what was overwritten has none.",
            f"{line}; dk.tile_scatter_masked(r, 0, x[i], i < 4); dk.tile_store(y, r)"),
        "tile_bit_and_inplace": Entry(at.format("int"), "", NONE, bits.format("and")),
        "tile_bit_or_inplace": Entry(at.format("int"), "", NONE, bits.format("or")),
        "tile_bit_xor_inplace": Entry(at.format("int"), "", NONE, bits.format("xor")),
        "tile_stack": Entry("capacity : int, literal; dtype : type", "A stack.", zero, stack),
        "tile_stack_push": Entry("s : stack; value : element; has_value : bool", "An int32.",
            "Items carry their cotangents.", f"{stack}; q[i] = dk.tile_stack_push(s, x[i], True)"),
        "tile_stack_pop": Entry("s : stack", "A tuple of an element and an int32.", "Items carry their cotangents.",
            f"{stack}; dk.tile_stack_push(s, x[i], True); item, place = dk.tile_stack_pop(s)"),
        "tile_stack_clear": Entry("s : stack", "", NONE, f"{stack}; dk.tile_stack_clear(s)"),
        "tile_stack_count": Entry("s : stack", "An int32.", NONE, f"{stack}; q[i] = dk.tile_stack_count(s)"),
        "tile_view": Entry("t : tile; offset : tuple of int; shape : tuple of int, literals, optional", _TILE, _PASSED,
            f"{load}; {store.format('dk.tile_view(s, offset=(0, 0), shape=(2, 2))')}"),
        "tile_assign": Entry("dst, src : tile; offset : tuple of int, optional", "", _PASSED,
            f"{load}; z = dk.tile_zeros(shape=(4, 4), dtype=float); dk.tile_assign(z, s, offset=(0, 0)); "
            f"{store.format('z')}"),
        "tile_extract": Entry("t : tile; i, ... : int", "A number.", _PASSED,
            f"{load}; y[i] = dk.tile_extract(s, 1, 2)"),
        "tile_transpose": Entry("a : tile of two axes", _TILE, _PASSED,
            f"{load}; {store.format('dk.tile_transpose(s)')}"),
        "tile_broadcast": Entry("a : tile; shape : tuple of int, literals", _TILE,
            "The sum of the cotangents of its copies.",
            f"{line}; {store.format('dk.tile_broadcast(r, shape=(4, 4))')}"),
        "tile_reshape": Entry("t : tile; shape : tuple of int, literals", _TILE, _PASSED,
            f"{load}; t = dk.tile_reshape(s, shape=(2, 8))"),
        "tile_squeeze": Entry("t : tile; axis : int or tuple of int, optional", _TILE, _PASSED,
            "t = dk.tile_squeeze(dk.tile_load(a, shape=(1, 4)))"),
        "tile_astype": Entry("t : tile; dtype : type of number", _TILE, "1, between floats.",
            f"{load}; t = dk.tile_astype(s, dtype=dk.float64)"),
        "tile_map": Entry("op : function of numbers; a, b, ... : tile, of one shape", _TILE,
            "That of the function, element by element.", f"{load}; {store.format('dk.tile_map(dk.sin, s)')}"),
        "tile_dot": Entry(two, "A tile of shape (1,).", "b and a.",
            f"{load}; y[i] = dk.tile_extract(dk.tile_dot(s, s), 0)"),
        "tile_axpy": Entry("alpha : number; src, dest : tile, of one shape", "", "As that of dest + alpha * src.",
            f"{load}; t = dk.tile_zeros(shape=(4, 4), dtype=float); dk.tile_axpy(2.0, s, t); {store.format('t')}"),
        "tile_add_inplace": Entry(two, "", _IN_PLACE,
            f"{load}; t = dk.tile_ones(shape=(4, 4), dtype=float); dk.tile_add_inplace(t, s); {store.format('t')}"),
        "tile_sub_inplace": Entry(two, "", _IN_PLACE,
            f"{load}; t = dk.tile_ones(shape=(4, 4), dtype=float); dk.tile_sub_inplace(t, s); {store.format('t')}"),
        "tile_sum": Entry(f"{tile}; axis : int, optional", _TILE, "1 for each element.",
            f"{load}; y[i] = dk.tile_extract(dk.tile_sum(s), 0)"),
        "tile_min": Entry(f"{tile}; axis : int, optional", _TILE, TAKEN,
            f"{load}; y[i] = dk.tile_extract(dk.tile_min(s), 0)", FIRST),
        "tile_max": Entry(f"{tile}; axis : int, optional", _TILE, TAKEN,
            f"{load}; y[i] = dk.tile_extract(dk.tile_max(s), 0)", FIRST),
        "tile_reduce": Entry(f"op : function of two numbers; {tile}; axis : int, optional", _TILE,
            "That of the function, along the chain of its calls.",
            f"{load}; y[i] = dk.tile_extract(dk.tile_reduce(dk.max, s), 0)"),
        "tile_argmin": Entry(tile, "A tile of one int32.", NONE,
            f"{load}; q[i] = dk.tile_extract(dk.tile_argmin(s), 0)"),
        "tile_argmax": Entry(tile, "A tile of one int32.", NONE,
            f"{load}; q[i] = dk.tile_extract(dk.tile_argmax(s), 0)"),
        "tile_scan_inclusive": Entry(tile, _TILE, "The sum of the later cotangents, its own included.",
            f"{line}; dk.tile_store(y, dk.tile_scan_inclusive(r))"),
        "tile_scan_exclusive": Entry(tile, _TILE, "The sum of the later cotangents.",
            f"{line}; dk.tile_store(y, dk.tile_scan_exclusive(r))"),
        "tile_scan_max_inclusive": Entry(tile, _TILE, "A cotangent goes to the element that is the extremum.",
            f"{line}; dk.tile_store(y, dk.tile_scan_max_inclusive(r))", FIRST),
        "tile_scan_min_inclusive": Entry(tile, _TILE, "A cotangent goes to the element that is the extremum.",
            f"{line}; dk.tile_store(y, dk.tile_scan_min_inclusive(r))", FIRST),
        "tile_fft": Entry("inout : tile of vec2 or vec2d, of any length", "", "tile_ifft of a cotangent.",
            "t = dk.tile_zeros(shape=8, dtype=dk.vec2); t[0] = dk.vec2(x[i], 0.0); dk.tile_fft(t)"),
        "tile_ifft": Entry("inout : tile of vec2 or vec2d, of any length", "", "tile_fft of a cotangent.",
            "t = dk.tile_zeros(shape=8, dtype=dk.vec2); t[0] = dk.vec2(x[i], 0.0); dk.tile_ifft(t)"),
        "tile_sort": Entry("keys, values : tile of one axis, of one length", "",
            "Cotangents go back where the elements stood.",
            f"{line}; t = dk.tile_arange(4, dtype=int); dk.tile_sort(r, t); dk.tile_store(y, r)"),
        "tile_matmul": Entry(
            "a, b : tile of two axes; out : tile, optional; alpha, beta : number, optional; precision : str, optional",
            "A tile; with out, nothing.", "alpha * C b^T and alpha * a^T C for a cotangent C.",
            f"{load}; {store.format('dk.tile_matmul(s, s)')}"),
        "tile_diag_add": Entry("a : tile, square; d : tile of one axis", _TILE, "1; for d the diagonal of a cotangent.",
            f"{load}; {store.format('dk.tile_diag_add(s, dk.tile_load(x, shape=4))')}"),
        "tile_cholesky": Entry(f"A : tile, symmetric and positive definite; {half}", "A tile, a triangle.",
            "A symmetric matrix, from two triangular solves.", f"{spd}; {store.format('dk.tile_cholesky(s)')}"),
        "tile_cholesky_solve": Entry(f"L : {factor}; y : tile of one or two axes; {half}", _TILE,
            "Solves with the same factor; of the factor, an outer product.",
            solve.format("dk.tile_cholesky_solve(l, r)")),
        "tile_lower_solve": Entry(f"L : {factor}; y : tile of one or two axes", _TILE,
            "A solve with the transposed factor; of the factor, an outer product.",
            solve.format("dk.tile_lower_solve(l, r)")),
        "tile_upper_solve": Entry(f"U : {factor}; z : tile of one or two axes", _TILE,
            "A solve with the transposed factor; of the factor, an outer product.",
            solve.format("dk.tile_upper_solve(dk.tile_transpose(l), r)")),
        "tile_cholesky_inplace": Entry(f"A : tile, symmetric and positive definite; {half}", "", _IN_PLACE,
            f"{spd}; dk.tile_cholesky_inplace(s); {store.format('s')}"),
        "tile_cholesky_solve_inplace": Entry(f"L : {factor}; y : tile of one or two axes; {half}", "", _IN_PLACE,
            inplace.format("dk.tile_cholesky_solve_inplace(l, r)")),
        "tile_lower_solve_inplace": Entry(f"L : {factor}; y : tile of one or two axes", "", _IN_PLACE,
            inplace.format("dk.tile_lower_solve_inplace(l, r)")),
        "tile_upper_solve_inplace": Entry(f"U : {factor}; z : tile of one or two axes", "", _IN_PLACE,
            inplace.format("dk.tile_upper_solve_inplace(dk.tile_transpose(l), r)")),
    }  # fmt: skip


BY_FAMILY: Final[Mapping[Family, Mapping[str, Entry]]] = {
    Family.SCALARS: _scalars(),
    Family.COMPOSITES: _composites(),
    Family.ROTATIONS: _rotations(),
    Family.COMPLEX: _complexes(),
    Family.THREADS: _threads(),
    Family.ATOMICS: _atomics(),
    Family.TILES: _tiles(),
    Family.REPORTS: _reports(),
}

ENTRIES: Final[Mapping[str, Entry]] = {name: entry for entries in BY_FAMILY.values() for name, entry in entries.items()}
"""By name, those that do not follow from a row of the table of operations."""
