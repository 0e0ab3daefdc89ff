"""Rows of the built-in functions that are several operations, or that look at how they are called; of none of tiles."""

from __future__ import annotations

import builtins
import math
import operator
from typing import Any, Final

import numpy as np

from diffkern.ir.ops.function import NONE, FunctionRow, Subject
from diffkern.lang import output

__all__ = ["ROWS"]

SCALARS, COMPOSITES, ROTATIONS, COMPLEX, THREADS, ATOMICS, REPORTS = (
    Subject.SCALARS, Subject.COMPOSITES, Subject.ROTATIONS, Subject.COMPLEX, Subject.THREADS, Subject.ATOMICS,
    Subject.REPORTS,
)  # fmt: skip

_OLD: Final = "The old value."
_ATOMIC: Final = "arr : array; i, [j, ...] : int; value : float, int, vector or matrix"
_ATOMIC_CAS: Final = "arr : array of numbers; i, [j, ...] : int; compare, value : float or int"
_ATOMIC_BITS: Final = (
    "arr : array of integers, vectors or matrices of them; i, [j, ...] : int; value : of the elements' type"
)
_SILENT: Final = "None: adjoints print nothing."
_PAIR: Final = "a, b : number, vector or matrix, both of one type"
_OF_COMPONENTS: Final = "Each component has its part of a cotangent."
_WINNER: Final = "Each component of the cotangent of the element goes to the value that supplied it."
_ATOMIC_TIE: Final = "Of threads with the same number one has the cotangent; none, if it was there before."
_UNTAKEN: Final = "What is not chosen has exactly 0, also where it is infinite or NaN."


def _sign(x: Any) -> Any:
    return -1.0 if x < 0 else 1.0


def _smoothstep(lo: float, hi: float, x: float) -> float:
    t = min(max((x - lo) / (hi - lo), 0.0), 1.0)
    return t * t * (3.0 - 2.0 * t)


ROWS: Final = (
    FunctionRow("tid", "", "The thread's index: one value, or as many as are unpacked (at most 4).",
        "int, or as many as are unpacked.", NONE, "j = dk.tid()", family=THREADS),
    FunctionRow("sign", "x : float or int, or a vector or matrix", "-1 where x < 0, else 1.", "Of its type.", "0.",
        "y[i] = dk.sign(x[i])", "0 at x = 0 as well, where the value is 1.", family=SCALARS, host=_sign),
    FunctionRow("cast", "x : number, vector, matrix or struct; dtype : type of as many bytes",
        "The value of another type that has the same bits as x.", "A value of the type dtype.",
        "None: bits are no number that changes smoothly.", "q[i] = dk.cast(x[i], dk.int32)", family=SCALARS),
    FunctionRow("stop_gradient", "x : number, vector, matrix, quaternion or struct",
        "x, as if it did not depend on anything.", "x.", "0.", "y[i] = dk.stop_gradient(x[i]) * x[i]",
        family=SCALARS, host=lambda x: x),
    FunctionRow("nonzero", "x : float or int", "1 where x is not zero, else 0.", "Of its type.", "0.",
        "y[i] = dk.nonzero(x[i])", "0 at x = 0 as well.", family=SCALARS, host=lambda x: 1.0 if x != 0 else 0.0),
    FunctionRow("step", "x : float or int", "1 where x < 0, else 0.", "Of its type.", "0.", "y[i] = dk.step(x[i])",
        "0 at x = 0 as well.", family=SCALARS, host=lambda x: 1.0 if x < 0 else 0.0),
    FunctionRow("frac", "x : float", "x - trunc(x).", "float", "1.", "y[i] = dk.frac(x[i])",
        "1 at integers as well, where the value jumps.", family=SCALARS, host=lambda x: x - float(np.trunc(x))),
    FunctionRow("degrees", "x : float", "Radians to degrees.", "float", "180 / pi.", "y[i] = dk.degrees(x[i])",
        family=SCALARS, host=math.degrees),
    FunctionRow("radians", "x : float", "Degrees to radians.", "float", "pi / 180.", "y[i] = dk.radians(x[i])",
        family=SCALARS, host=math.radians),
    FunctionRow("pos", "x : number, vector, matrix or quaternion", "x.", "x.", "1.", "y[i] = dk.pos(x[i])",
        family=SCALARS, host=operator.pos),
    FunctionRow("clamp", "x, low, high : float or int, or vectors or matrices", "min(max(x, low), high).",
        "Of their type.", "1 with respect to the one that comes back, 0 with respect to the others.",
        "y[i] = dk.clamp(x[i], 0.0, 1.0)", "At a bound x comes back.", family=SCALARS,
        host=lambda x, low, high: builtins.min(builtins.max(x, low), high)),
    FunctionRow("lerp", "a, b : float, vector or matrix; t : float", "a * (1 - t) + b * t.", "Of the type of a and b.",
        "1 - t, t and b - a.", "y[i] = dk.lerp(x[i], 1.0, 0.25)", family=SCALARS,
        host=lambda a, b, t: a * (1.0 - t) + b * t),
    FunctionRow("smoothstep", "a, b, x : float", "A smooth step from 0 at a to 1 at b.", "float",
        "6 * t * (1 - t) / (b - a) with respect to x, for t the place of x between the bounds.",
        "y[i] = dk.smoothstep(0.0, 1.0, x[i])", "0 at the bounds and outside of them.", family=SCALARS,
        host=_smoothstep),
    FunctionRow("where", "cond : bool; value_if_true, value_if_false : number, vector, matrix, quaternion or struct",
        "value_if_true where the condition holds, else value_if_false; only the chosen one is evaluated. Of a tile of "
        "conditions, element by element, with both evaluated; they may be tiles of its shape.",
        "Of the type of the two.", "1 with respect to the chosen one, exactly 0 with respect to the other.",
        "y[i] = dk.where(x[i] > 0.5, x[i], 0.0)", _UNTAKEN, family=SCALARS, host=lambda c, a, b: a if c else b),
    FunctionRow("select", "cond : bool; value_if_false, value_if_true : number, vector, matrix, quaternion or struct",
        "value_if_true where the condition holds, else value_if_false.", "Of the type of the two.",
        "1 with respect to the chosen one, exactly 0 with respect to the other.",
        "y[i] = dk.select(x[i] > 0.5, 0.0, x[i])", _UNTAKEN, family=SCALARS, host=lambda c, a, b: b if c else a),
    FunctionRow("ddot", "a, b : matrix of floats, of one shape",
        "The sum of the products of the components of two matrices.", "float", "b and a.", "y[i] = dk.ddot(m, k)",
        family=COMPOSITES),
    FunctionRow("diag", "vec : vector of floats", "The matrix with a vector as its diagonal.", "A square matrix.",
        "The diagonal of a cotangent.", "e[i] = dk.diag(u)", family=COMPOSITES),
    FunctionRow("get_diag", "mat : square matrix of floats", "The diagonal of a matrix.", "A vector.",
        "A cotangent goes to the diagonal.", "w[i] = dk.get_diag(m)", family=COMPOSITES),
    FunctionRow("skew", "vec : vector of three floats", "The matrix whose product with w is cross(vec, w).",
        "A matrix of three rows and columns.", "Differences of opposite components of a cotangent.",
        "e[i] = dk.skew(u)", family=COMPOSITES),
    FunctionRow("argmin", "a : vector of numbers", "Where the smallest component of a vector stands.",
        "uint32: the first of equals; NaN is skipped.", NONE, "q[i] = int(dk.argmin(u))", family=COMPOSITES),
    FunctionRow("argmax", "a : vector of numbers", "Where the greatest component of a vector stands.",
        "uint32: the first of equals; NaN is skipped.", NONE, "q[i] = int(dk.argmax(u))", family=COMPOSITES),
    FunctionRow("identity", "n : int, a literal; dtype=float : type of float", "The identity matrix.",
        "A square matrix.", "None: it is constant.", "e[i] = dk.identity(n=3, dtype=dk.float32)",
        family=COMPOSITES),
    FunctionRow("vector",
        "x, ... : all components, numbers or vectors, or one for all; length=None : int, a literal; dtype=None : "
        "scalar type", "The vector of the given components.", "A vector; without components, zeros.", _OF_COMPONENTS,
        "w[i] = dk.vector(x[i], 1.0, 2.0)", family=COMPOSITES),
    FunctionRow("matrix",
        "x, ... : all components, the rows, or one number for all; shape : tuple of two ints, literals; dtype=None : "
        "scalar type", "The matrix of the given components, row by row.", "A matrix; without components, zeros.",
        _OF_COMPONENTS, "e[i] = dk.matrix(u, v, u, shape=(3, 3))", family=COMPOSITES),
    FunctionRow("quaternion", "x, ... : four numbers, or a vector of three and a number; dtype=None : type of floats",
        "The quaternion of the given components x, y, z, w.", "A quaternion.", _OF_COMPONENTS,
        "y[i] = dk.quaternion(u, x[i]).w", family=ROTATIONS),
    FunctionRow("transformation", "p : vector of three floats; q : quaternion, optional; dtype=None : type of floats",
        "The transform of a translation and a rotation.", "A transform.", _OF_COMPONENTS,
        "w[i] = dk.transformation(u).p", family=ROTATIONS),
    FunctionRow("complex", "re : float; im=0.0 : float", "The complex number of a real and an imaginary part.",
        "A complex number, as wide as its parts.", _OF_COMPONENTS, "y[i] = dk.abs(dk.complex(x[i], 2.0))",
        family=COMPLEX, host=builtins.complex),
    FunctionRow("matrix_from_rows", "r0, r1, ... : vector of floats, all of one length",
        "The matrix with the given rows.", "A matrix.", "Each row has its part of a cotangent.",
        "e[i] = dk.matrix_from_rows(u, v, u)", family=COMPOSITES),
    FunctionRow("matrix_from_cols", "c0, c1, ... : vector of floats, all of one length",
        "The matrix with the given columns.", "A matrix.", "Each column has its part of a cotangent.",
        "e[i] = dk.matrix_from_cols(u, v, u)", family=COMPOSITES),
    FunctionRow("atomic_add", _ATOMIC, "Add to an element at once; returns the old value.", _OLD,
        "With respect to value, the cotangent of the element; the old value has none.", "dk.atomic_add(y, 0, x[i])",
        family=ATOMICS),
    FunctionRow("atomic_sub", _ATOMIC, "Subtract from an element at once; returns the old value.", _OLD,
        "With respect to value, the negative cotangent of the element; the old value has none.",
        "dk.atomic_sub(y, 0, x[i])", family=ATOMICS),
    FunctionRow("atomic_min", _ATOMIC, "Take the minimum with an element at once; returns the old value.", _OLD,
        _WINNER, "dk.atomic_min(y, 0, x[i])", _ATOMIC_TIE, family=ATOMICS),
    FunctionRow("atomic_max", _ATOMIC, "Take the maximum with an element at once; returns the old value.", _OLD,
        _WINNER, "dk.atomic_max(y, 0, x[i])", _ATOMIC_TIE, family=ATOMICS),
    FunctionRow("atomic_exch", _ATOMIC, "Replace an element at once; returns the old value.", _OLD,
        "None: a kernel that exchanges floats is refused when it is differentiated.", "dk.atomic_exch(q, 0, p[i])",
        family=ATOMICS),
    FunctionRow("printf", "text : str, constant; *values : number, one for each field",
        "Print a text with values in its fields, as C's printf does.", "", _SILENT,
        'dk.printf("x[%d] = %g\\n", i, x[i])', family=REPORTS, host=output.printf),
    FunctionRow("expect_eq", _PAIR, "Print both where they are not equal.", "", _SILENT, "dk.expect_eq(p[i], p[i])",
        family=REPORTS, host=output.expect_eq),
    FunctionRow("expect_neq", _PAIR, "Print both where they are equal.", "", _SILENT, "dk.expect_neq(p[i], p[i] + 1)",
        family=REPORTS, host=output.expect_neq),
    FunctionRow("expect_near", f"{_PAIR}; tolerance=1e-6 : float",
        "Print both where they are further apart than the tolerance.", "", _SILENT, "dk.expect_near(x[i], x[i], 1e-3)",
        family=REPORTS, host=output.expect_near),
    FunctionRow("atomic_cas", _ATOMIC_CAS, "Replace an element at once if it equals compare; returns the old value.",
        _OLD, "None: a kernel that replaces floats is refused when it is differentiated.",
        "dk.atomic_cas(q, 0, 0, p[i])", family=ATOMICS),
    FunctionRow("atomic_and", _ATOMIC_BITS, "Combine the bits of an element by and at once; returns the old value.",
        _OLD, NONE, "dk.atomic_and(q, 0, p[i])", family=ATOMICS),
    FunctionRow("atomic_or", _ATOMIC_BITS, "Combine the bits of an element by or at once; returns the old value.", _OLD,
        NONE, "dk.atomic_or(q, 0, p[i])", family=ATOMICS),
    FunctionRow("atomic_xor", _ATOMIC_BITS, "Combine the bits of an element by xor at once; returns the old value.",
        _OLD, NONE, "dk.atomic_xor(q, 0, p[i])", family=ATOMICS),
    FunctionRow("shared_array", "shape : int or tuple of int, literals; dtype=float : type of number",
        "An array that the threads of a block share; its contents are undefined.", "An array of the block.",
        "Elements carry their cotangents.", "s = dk.shared_array(shape=4, dtype=dk.float32)", family=THREADS),
    FunctionRow("syncthreads", "", "Wait until all threads of the block are here; what they wrote is seen afterwards.",
        "", "None; the adjoint waits in its place.", "dk.syncthreads()", family=THREADS),
    FunctionRow("block_dim", "", "Number of threads of a block.", "int", NONE, "q[i] = dk.block_dim()",
        family=THREADS),
    FunctionRow("thread_index", "", "The thread's index in its block.", "int", NONE, "q[i] = dk.thread_index()",
        family=THREADS),
    FunctionRow("block_index", "", "Which block of the launch the thread belongs to.", "int", NONE,
        "q[i] = dk.block_index()", family=THREADS),
)  # fmt: skip
