"""Kernels of preconditioners with factors: their setup in double precision, and the products with them.

Matrices are in compressed rows of numbers, with ascending columns. Each thread of a setup has a row of the work arrays
for itself.
"""

from __future__ import annotations

import functools
from typing import Any

from diffkern.kernels.kernel import Kernel
from diffkern.lang.dtypes import SCALARS
from diffkern.lang.func import func
from diffkern.lang.intrinsics import INTRINSICS

tid: Any = INTRINSICS["tid"]
lower_bound: Any = INTRINSICS["lower_bound"]
sqrt: Any = INTRINSICS["sqrt"]
abs: Any = INTRINSICS["abs"]  # noqa: A001
float64: Any = SCALARS["float64"]
_plain = functools.partial(Kernel, enable_backward=False, race_free=True)


@func
def _entry(offsets: Any, columns: Any, values: Any, row: Any, column: Any) -> Any:
    """An entry, 0 where none is stored."""
    place = lower_bound(columns, offsets[row], offsets[row + 1], column)
    found = float64(0.0)
    if place < offsets[row + 1] and columns[place] == column:
        found = values[place]
    return found


# -- factorised sparse approximate inverse -----------------------------------------------------------------------------


@_plain
def grow_rows(  # type: ignore[no-untyped-def]
    first: int, offsets, columns, values, scale, step: int, tolerance: Any, floor: Any,
    pattern, best, scores, factor, z, v, w, sizes, rejected,
):  # fmt: skip
    """Choose the support of rows of the factor, and solve for their numbers.

    With A scaled to a diagonal of ones, z solves ``A[S, S] z = e`` with the row itself as the first member of S, which
    grows by the neighbours with the largest residuals. ``factor`` is the Cholesky factor of ``A[S, S]``, ``v`` solves
    with it forwards.
    """
    t = tid()
    i = first + t
    pattern[t, 0] = i
    factor[t, 0, 0] = 1.0
    z[t, 0] = 1.0
    v[t, 0] = 1.0
    size = 1
    going = pattern.shape[1] > 1
    while going:
        for k in range(step):
            best[t, k] = -1
            scores[t, k] = 0.0
        for p in range(size):
            row = pattern[t, p]
            for e in range(offsets[row], offsets[row + 1]):
                c = columns[e]
                known = c >= i
                for q in range(size):
                    known = known or pattern[t, q] == c
                for q in range(step):
                    known = known or best[t, q] == c
                if not known:
                    residual = float64(0.0)
                    for q in range(size):
                        j = pattern[t, q]
                        residual += _entry(offsets, columns, values, c, j) * scale[c] * scale[j] * z[t, q]
                    # Inserted in order: by size, of equal ones by column.
                    s, c_in = abs(residual), c
                    for k in range(step):
                        if s > scores[t, k] or (s == scores[t, k] and s > 0.0 and c_in < best[t, k]):
                            s_out, c_out = scores[t, k], best[t, k]
                            scores[t, k] = s
                            best[t, k] = c_in
                            s, c_in = s_out, c_out
        before = z[t, 0]
        old_size = size
        for k in range(step):
            c = best[t, k]
            if c >= 0 and size < pattern.shape[1] and rejected[t] == 0:
                pivot = float64(1.0)
                for p in range(size):
                    j = pattern[t, p]
                    a = _entry(offsets, columns, values, c, j) * scale[c] * scale[j]
                    for q in range(p):
                        a -= factor[t, p, q] * w[t, q]
                    w[t, p] = a / factor[t, p, p]
                    pivot -= w[t, p] * w[t, p]
                # A pivot of NaN is none either.
                if pivot > floor:
                    pattern[t, size] = c
                    rest = float64(0.0)
                    for p in range(size):
                        factor[t, size, p] = w[t, p]
                        rest -= w[t, p] * v[t, p]
                    factor[t, size, size] = sqrt(pivot)
                    v[t, size] = rest / sqrt(pivot)
                    size += 1
                else:
                    rejected[t] = 1
        for back in range(size):
            p = size - 1 - back
            a = v[t, p]
            for q in range(p + 1, size):
                a -= factor[t, q, p] * z[t, q]
            z[t, p] = a / factor[t, p, p]
        going = size > old_size and size < pattern.shape[1] and rejected[t] == 0
        if tolerance > 0.0 and 1.0 - before / z[t, 0] <= tolerance:
            going = False
    sizes[t] = size


# -- incomplete Cholesky factors ---------------------------------------------------------------------------------------


@_plain
def incomplete_cholesky(offsets, columns, values, shift: Any, factor, failed):  # type: ignore[no-untyped-def]
    """Compute the factor with the pattern of a lower triangle, whose diagonal is multiplied by ``1 + shift`` first."""
    n = offsets.shape[0] - 1
    going = 1
    i = 0
    while going == 1 and i < n:
        last = offsets[i + 1] - 1
        for e in range(offsets[i], last):
            k = columns[e]
            s = values[e]
            # The common columns of both rows, which are in order.
            p, q = offsets[i], offsets[k]
            while p < e and q < offsets[k + 1] - 1:
                if columns[p] == columns[q]:
                    s -= factor[p] * factor[q]
                    p += 1
                    q += 1
                elif columns[p] < columns[q]:
                    p += 1
                else:
                    q += 1
            factor[e] = s / factor[offsets[k + 1] - 1]
        pivot = values[last] * (1.0 + shift)
        for e in range(offsets[i], last):
            pivot -= factor[e] * factor[e]
        # Much smaller than the entry it is made of, it is rounding.
        if pivot > 1e-14 * values[last]:
            factor[last] = sqrt(pivot)
        else:
            failed[0] = 1
            going = 0
        i += 1


@_plain
def solve_with_factor(offsets, columns, factor, x, y, z, t, alpha, beta):  # type: ignore[no-untyped-def]
    """Store ``alpha * (L L^T)^-1 x + beta * y``, with one thread."""
    n = offsets.shape[0] - 1
    for i in range(n):
        s = t.dtype(x[i])
        last = offsets[i + 1] - 1
        for e in range(offsets[i], last):
            s -= factor[e] * t[columns[e]]
        t[i] = s / factor[last]
    for back in range(n):
        i = n - 1 - back
        last = offsets[i + 1] - 1
        s = t[i] / factor[last]
        t[i] = s
        for e in range(offsets[i], last):
            t[columns[e]] = t[columns[e]] - factor[e] * s
    for i in range(n):
        s = t.dtype(0.0)
        if alpha != 0.0:
            s = alpha * t[i]
        if beta != 0.0:
            s += beta * t.dtype(y[i])
        z[i] = z.dtype(s)


# -- products ----------------------------------------------------------------------------------------------------------


@_plain
def factor_times(offsets, columns, values, x, t):  # type: ignore[no-untyped-def]
    i = tid()
    s = t.dtype(0.0)
    for e in range(offsets[i], offsets[i + 1]):
        s += t.dtype(values[e]) * t.dtype(x[columns[e]])
    t[i] = s


@_plain
def factor_times_and_add(offsets, columns, values, t, y, z, alpha, beta):  # type: ignore[no-untyped-def]
    i = tid()
    s = t.dtype(0.0)
    # What x held must not matter where it is multiplied by 0.
    if alpha != 0.0:
        for e in range(offsets[i], offsets[i + 1]):
            s += t.dtype(values[e]) * t[columns[e]]
        s = alpha * s
    if beta != 0.0:
        s += beta * t.dtype(y[i])
    z[i] = z.dtype(s)
