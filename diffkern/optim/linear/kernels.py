"""The kernels of the iterations: products with matrices, and vector updates fused with the inner products behind them.

A vector is cut into chunks, one thread each, which never cross from one system of a batch into another: ``lo``, ``hi``
and ``system`` hold where each begins and ends, and which system it belongs to. What lies in no chunk is left alone. A
thread writes its part of an inner product to ``parts[which, chunk]``; the kernels of one thread for each system add
these up in a fixed order, so that results do not depend on the number of threads.
"""

from __future__ import annotations

import functools
from typing import Any

from diffkern.kernels.kernel import Kernel
from diffkern.lang.func import func
from diffkern.lang.intrinsics import INTRINSICS

tid: Any = INTRINSICS["tid"]
transpose: Any = INTRINSICS["transpose"]
cw_mul: Any = INTRINSICS["cw_mul"]
where: Any = INTRINSICS["where"]
sqrt: Any = INTRINSICS["sqrt"]
# Loops over a chunk become vector code of their own, where sums may be reassociated.
_of_chunks = functools.partial(Kernel, enable_backward=False, fast_math=True, lanes=False)
_of_systems = functools.partial(Kernel, enable_backward=False)
_of_rows = functools.partial(Kernel, fast_math=True, lanes=False)

ACTIVE, ALPHA, BETA, RHO, OMEGA, CURVATURE = range(6)
"""Columns of the numbers of a system. CURVATURE becomes 1 where a product ``p . A p`` is not positive."""


# -- products with matrices --------------------------------------------------------------------------------------------


@_of_rows
def dense_product(a, x, y, z, alpha, beta):  # type: ignore[no-untyped-def]
    i = tid()
    s = a[i, 0] * x[0]
    for k in range(1, a.shape[1]):
        s += a[i, k] * x[k]
    # What y holds must not matter where it is multiplied by 0, be it NaN.
    if beta != 0.0:
        z[i] = alpha * s + beta * y[i]
    else:
        z[i] = alpha * s


@_of_rows
def dense_transposed_product(a, x, y, z, alpha, beta):  # type: ignore[no-untyped-def]
    i = tid()
    s = a[0, i] * x[0]
    for k in range(1, a.shape[0]):
        s += a[k, i] * x[k]
    if beta != 0.0:
        z[i] = alpha * s + beta * y[i]
    else:
        z[i] = alpha * s


@_of_rows
def dense_blocks_transposed_product(a, x, y, z, alpha, beta):  # type: ignore[no-untyped-def]
    i = tid()
    s = transpose(a[0, i]) * x[0]
    for k in range(1, a.shape[0]):
        s += transpose(a[k, i]) * x[k]
    if beta != 0.0:
        z[i] = alpha * s + beta * y[i]
    else:
        z[i] = alpha * s


@Kernel
def diagonal_product(a, x, y, z, alpha, beta):  # type: ignore[no-untyped-def]
    i = tid()
    if beta != 0.0:
        z[i] = alpha * (a[i] * x[i]) + beta * y[i]
    else:
        z[i] = alpha * (a[i] * x[i])


@Kernel
def diagonal_of_vectors_product(a, x, y, z, alpha, beta):  # type: ignore[no-untyped-def]
    i = tid()
    if beta != 0.0:
        z[i] = alpha * cw_mul(a[i], x[i]) + beta * y[i]
    else:
        z[i] = alpha * cw_mul(a[i], x[i])


@Kernel
def diagonal_of_blocks_transposed_product(a, x, y, z, alpha, beta):  # type: ignore[no-untyped-def]
    i = tid()
    if beta != 0.0:
        z[i] = alpha * (transpose(a[i]) * x[i]) + beta * y[i]
    else:
        z[i] = alpha * (transpose(a[i]) * x[i])


@Kernel
def scale_and_add(x, y, z, alpha, beta):  # type: ignore[no-untyped-def]
    i = tid()
    if beta != 0.0:
        z[i] = alpha * x[i] + beta * y[i]
    else:
        z[i] = alpha * x[i]


@_of_rows
def batched_product(a, x, z):  # type: ignore[no-untyped-def]
    b, i = tid()
    s = a[b, i, 0] * x[b, 0]
    for k in range(1, a.shape[2]):
        s += a[b, i, k] * x[b, k]
    z[b, i] = s


@_of_rows
def batched_transposed_product(a, x, z):  # type: ignore[no-untyped-def]
    b, i = tid()
    s = a[b, 0, i] * x[b, 0]
    for k in range(1, a.shape[1]):
        s += a[b, k, i] * x[b, k]
    z[b, i] = s


@_of_systems
def inverse_diagonal(a, out, absolute: int):  # type: ignore[no-untyped-def]
    """Invert the diagonal of a matrix; where that is zero, the preconditioner is the identity."""
    i = tid()
    d = a[i, i]
    if absolute != 0 and d < out.dtype(0.0):
        d = -d
    out[i] = where(d == out.dtype(0.0), out.dtype(1.0), out.dtype(1.0) / d)


@_of_systems
def inverse_components(a, out, absolute: int):  # type: ignore[no-untyped-def]
    i = tid()
    d = a[i]
    if absolute != 0 and d < out.dtype(0.0):
        d = -d
    out[i] = where(d == out.dtype(0.0), out.dtype(1.0), out.dtype(1.0) / d)


# -- all methods -------------------------------------------------------------------------------------------------------


@func
def total(parts, which, first, end):  # type: ignore[no-untyped-def]
    s = parts.dtype(0.0)
    for c in range(first, end):
        s += parts[which, c]
    return s


@func
def is_active(squares, tolerances, b):  # type: ignore[no-untyped-def]
    """Return 1 unless a system has converged; NaN has not."""
    return where(squares[b] <= tolerances[b], squares.dtype(0.0), squares.dtype(1.0))


@_of_chunks
def inner(lo, hi, a, b, parts, which: int):  # type: ignore[no-untyped-def]
    c = tid()
    s = parts.dtype(0.0)
    for k in range(lo[c], hi[c]):
        s += parts.dtype(a[k]) * parts.dtype(b[k])
    parts[which, c] = s


@_of_systems
def tolerance(first, parts, which: int, relative, absolute, least, tolerances):  # type: ignore[no-untyped-def]
    """Square of the residual norm that suffices, from that of the right-hand side."""
    b = tid()
    wanted = relative * total(parts, which, first[b], first[b + 1])
    # Comparisons with NaN are false, so that the tolerance stays a number.
    found = where(wanted > absolute, wanted, absolute)
    tolerances[b] = where(found > least, found, least)


@_of_systems
def residual_square(first, parts, squares):  # type: ignore[no-untyped-def]
    b = tid()
    squares[b] = total(parts, 0, first[b], first[b + 1])


@_of_systems
def count_cycle(squares, tolerances, progress, size: int, most: int):  # type: ignore[no-untyped-def]
    """Count the iterations of a cycle, and decide whether another follows."""
    done = progress[0] + size
    going = 0
    for b in range(squares.shape[0]):
        if not squares[b] <= tolerances[b]:
            going = 1
    progress[0] = done
    progress[1] = where(done < most, going, 0)


# -- conjugate gradients and conjugate residuals -----------------------------------------------------------------------


@_of_chunks
def start_direction(lo, hi, r, z, p, parts):  # type: ignore[no-untyped-def]
    c = tid()
    rr = parts.dtype(0.0)
    rz = parts.dtype(0.0)
    for k in range(lo[c], hi[c]):
        rk = parts.dtype(r[k])
        zk = parts.dtype(z[k])
        p[k] = p.dtype(zk)
        rr += rk * rk
        rz += rk * zk
    parts[0, c] = rr
    parts[1, c] = rz


@_of_systems
def start_numbers(first, parts, squares, numbers):  # type: ignore[no-untyped-def]
    b = tid()
    squares[b] = total(parts, 0, first[b], first[b + 1])
    numbers[b, RHO] = total(parts, 1, first[b], first[b + 1])


@_of_systems
def cg_step(first, parts, squares, tolerances, numbers):  # type: ignore[no-untyped-def]
    b = tid()
    curvature = total(parts, 0, first[b], first[b + 1])
    active = is_active(squares, tolerances, b)
    if active != 0.0 and curvature <= 0.0:
        numbers[b, CURVATURE] = numbers.dtype(1.0)
    numbers[b, ACTIVE] = active
    numbers[b, ALPHA] = where(active != 0.0, numbers[b, RHO] / curvature, numbers.dtype(0.0))


@_of_chunks
def move(lo, hi, system, numbers, p, q, x, r, parts):  # type: ignore[no-untyped-def]
    c = tid()
    alpha = numbers[system[c], ALPHA]
    s = parts.dtype(0.0)
    for k in range(lo[c], hi[c]):
        x[k] = x.dtype(parts.dtype(x[k]) + alpha * parts.dtype(p[k]))
        rk = parts.dtype(r[k]) - alpha * parts.dtype(q[k])
        r[k] = r.dtype(rk)
        s += rk * rk
    parts[0, c] = s


@_of_systems
def next_direction(first, parts, which: int, squares, numbers):  # type: ignore[no-untyped-def]
    b = tid()
    squares[b] = total(parts, 0, first[b], first[b + 1])
    rho = total(parts, which, first[b], first[b + 1])
    numbers[b, BETA] = where(numbers[b, ACTIVE] != 0.0, rho / numbers[b, RHO], numbers.dtype(0.0))
    numbers[b, RHO] = rho


@_of_chunks
def turn(lo, hi, system, numbers, z, p):  # type: ignore[no-untyped-def]
    c = tid()
    beta = numbers[system[c], BETA]
    for k in range(lo[c], hi[c]):
        p[k] = p.dtype(numbers.dtype(z[k]) + beta * numbers.dtype(p[k]))


@_of_systems
def cr_step(first, parts, squares, tolerances, numbers):  # type: ignore[no-untyped-def]
    b = tid()
    active = is_active(squares, tolerances, b)
    if active != 0.0 and numbers[b, RHO] <= 0.0:
        numbers[b, CURVATURE] = numbers.dtype(1.0)
    numbers[b, ACTIVE] = active
    length = total(parts, 0, first[b], first[b + 1])
    numbers[b, ALPHA] = where(active != 0.0, numbers[b, RHO] / length, numbers.dtype(0.0))


@_of_chunks
def subtract(lo, hi, system, numbers, y, z):  # type: ignore[no-untyped-def]
    c = tid()
    alpha = numbers[system[c], ALPHA]
    for k in range(lo[c], hi[c]):
        z[k] = z.dtype(numbers.dtype(z[k]) - alpha * numbers.dtype(y[k]))


@_of_chunks
def turn_both(lo, hi, system, numbers, z, az, p, q):  # type: ignore[no-untyped-def]
    c = tid()
    beta = numbers[system[c], BETA]
    for k in range(lo[c], hi[c]):
        p[k] = p.dtype(numbers.dtype(z[k]) + beta * numbers.dtype(p[k]))
        q[k] = q.dtype(numbers.dtype(az[k]) + beta * numbers.dtype(q[k]))


# -- the stabilized biconjugate gradients ------------------------------------------------------------------------------


@_of_systems
def bicgstab_step(first, parts, squares, tolerances, numbers):  # type: ignore[no-untyped-def]
    b = tid()
    active = is_active(squares, tolerances, b)
    numbers[b, ACTIVE] = active
    along = total(parts, 0, first[b], first[b + 1])
    numbers[b, ALPHA] = where(active != 0.0, numbers[b, RHO] / along, numbers.dtype(0.0))


@_of_chunks
def bicgstab_half(lo, hi, system, numbers, v, r, parts):  # type: ignore[no-untyped-def]
    c = tid()
    alpha = numbers[system[c], ALPHA]
    rr = parts.dtype(0.0)
    for k in range(lo[c], hi[c]):
        rk = parts.dtype(r[k]) - alpha * parts.dtype(v[k])
        r[k] = r.dtype(rk)
        rr += rk * rk
    parts[0, c] = rr


@_of_systems
def bicgstab_middle(first, parts, squares, tolerances, numbers):  # type: ignore[no-untyped-def]
    """Leave out the second half of a step of systems that the first half has solved."""
    b = tid()
    squares[b] = total(parts, 0, first[b], first[b + 1])
    numbers[b, ACTIVE] = numbers[b, ACTIVE] * is_active(squares, tolerances, b)


@_of_chunks
def two_inner(lo, hi, t, s, parts):  # type: ignore[no-untyped-def]
    c = tid()
    ts = parts.dtype(0.0)
    tt = parts.dtype(0.0)
    for k in range(lo[c], hi[c]):
        tk = parts.dtype(t[k])
        ts += tk * parts.dtype(s[k])
        tt += tk * tk
    parts[0, c] = ts
    parts[1, c] = tt


@_of_systems
def stabilize(first, parts, numbers):  # type: ignore[no-untyped-def]
    b = tid()
    ts = total(parts, 0, first[b], first[b + 1])
    tt = total(parts, 1, first[b], first[b + 1])
    numbers[b, OMEGA] = where(numbers[b, ACTIVE] != 0.0, ts / tt, numbers.dtype(0.0))


@_of_chunks
def bicgstab_move(lo, hi, system, numbers, y, z, t, r0, x, r, parts):  # type: ignore[no-untyped-def]
    c = tid()
    alpha = numbers[system[c], ALPHA]
    omega = numbers[system[c], OMEGA]
    rr = parts.dtype(0.0)
    rho = parts.dtype(0.0)
    for k in range(lo[c], hi[c]):
        x[k] = x.dtype(parts.dtype(x[k]) + alpha * parts.dtype(y[k]) + omega * parts.dtype(z[k]))
        rk = parts.dtype(r[k]) - omega * parts.dtype(t[k])
        r[k] = r.dtype(rk)
        rr += rk * rk
        rho += rk * parts.dtype(r0[k])
    parts[0, c] = rr
    parts[1, c] = rho


@_of_systems
def bicgstab_next(first, parts, squares, numbers):  # type: ignore[no-untyped-def]
    b = tid()
    squares[b] = total(parts, 0, first[b], first[b + 1])
    rho = total(parts, 1, first[b], first[b + 1])
    beta = rho / numbers[b, RHO] * numbers[b, ALPHA] / numbers[b, OMEGA]
    numbers[b, BETA] = where(numbers[b, ACTIVE] != 0.0, beta, numbers.dtype(0.0))
    numbers[b, RHO] = rho


@_of_chunks
def bicgstab_turn(lo, hi, system, numbers, r, v, p):  # type: ignore[no-untyped-def]
    c = tid()
    beta = numbers[system[c], BETA]
    omega = numbers[system[c], OMEGA]
    for k in range(lo[c], hi[c]):
        rest = numbers.dtype(p[k]) - omega * numbers.dtype(v[k])
        p[k] = p.dtype(numbers.dtype(r[k]) + beta * rest)


# -- GMRES -------------------------------------------------------------------------------------------------------------


@_of_systems
def gmres_start(first, parts, which: int, goal, numbers, column):  # type: ignore[no-untyped-def]
    b = tid()
    size = sqrt(total(parts, which, first[b], first[b + 1]))
    goal[b, 0] = size
    numbers[b, ALPHA] = where(size == 0.0, numbers.dtype(0.0), numbers.dtype(1.0) / size)
    if b == 0:
        column[0] = type(column[0])(0)


@_of_chunks
def gmres_first(lo, hi, system, numbers, r, v, basis):  # type: ignore[no-untyped-def]
    c = tid()
    scale = numbers[system[c], ALPHA]
    for k in range(lo[c], hi[c]):
        value = v.dtype(numbers.dtype(r[k]) * scale)
        v[k] = value
        basis[0, k] = value


@_of_chunks
def project(lo, hi, column, basis, w, parts):  # type: ignore[no-untyped-def]
    c = tid()
    for i in range(column[0] + type(column[0])(1)):
        s = parts.dtype(0.0)
        for k in range(lo[c], hi[c]):
            s += parts.dtype(basis[i, k]) * parts.dtype(w[k])
        parts[i, c] = s


@_of_systems
def gmres_coefficients(first, parts, column, along, hessenberg, again: int):  # type: ignore[no-untyped-def]
    b = tid()
    j = column[0]
    for i in range(j + type(j)(1)):
        h = total(parts, i, first[b], first[b + 1])
        along[b, i] = h
        if again != 0:
            hessenberg[b, i, j] += h
        else:
            hessenberg[b, i, j] = h


@_of_chunks
def orthogonalize(lo, hi, system, column, along, basis, w, parts, last: int):  # type: ignore[no-untyped-def]
    c = tid()
    b = system[c]
    for i in range(column[0] + type(column[0])(1)):
        h = along[b, i]
        for k in range(lo[c], hi[c]):
            w[k] = w.dtype(parts.dtype(w[k]) - h * parts.dtype(basis[i, k]))
    s = parts.dtype(0.0)
    for k in range(lo[c], hi[c]):
        s += parts.dtype(w[k]) * parts.dtype(w[k])
    parts[last, c] = s


@_of_systems
def rotate(first, parts, last: int, column, hessenberg, cosines, sines, goal, numbers, eps):  # type: ignore[no-untyped-def]
    """Bring the newest column of the Hessenberg matrix to triangular form by Givens rotations."""
    b = tid()
    j = column[0]
    one = type(j)(1)
    rest = total(parts, last, first[b], first[b + 1])
    size = rest
    for i in range(j + one):
        size += hessenberg[b, i, j] * hessenberg[b, i, j]
    below = sqrt(rest)
    # What is left of a vector within the subspace is rounding: no direction to go on with.
    if below <= eps * sqrt(size):
        below = numbers.dtype(0.0)
    numbers[b, ALPHA] = where(below == 0.0, numbers.dtype(0.0), numbers.dtype(1.0) / below)
    for i in range(j):
        upper = hessenberg[b, i, j]
        lower = hessenberg[b, i + one, j]
        hessenberg[b, i, j] = cosines[b, i] * upper + sines[b, i] * lower
        hessenberg[b, i + one, j] = cosines[b, i] * lower - sines[b, i] * upper
    diagonal = hessenberg[b, j, j]
    length = sqrt(diagonal * diagonal + below * below)
    cosine = where(length == 0.0, numbers.dtype(1.0), diagonal / length)
    sine = where(length == 0.0, numbers.dtype(0.0), below / length)
    cosines[b, j] = cosine
    sines[b, j] = sine
    hessenberg[b, j, j] = length
    g = goal[b, j]
    goal[b, j] = cosine * g
    goal[b, j + one] = -sine * g


@_of_chunks
def gmres_next(lo, hi, system, column, numbers, w, v, basis):  # type: ignore[no-untyped-def]
    c = tid()
    scale = numbers[system[c], ALPHA]
    j = column[0] + type(column[0])(1)
    for k in range(lo[c], hi[c]):
        value = v.dtype(numbers.dtype(w[k]) * scale)
        v[k] = value
        basis[j, k] = value


@_of_systems
def next_column(column):  # type: ignore[no-untyped-def]
    column[0] = column[0] + type(column[0])(1)


@_of_systems
def back_substitute(hessenberg, goal, along, count: int):  # type: ignore[no-untyped-def]
    b = tid()
    for back in range(count):
        i = count - 1 - back
        s = goal[b, i]
        for k in range(i + 1, count):
            s -= hessenberg[b, i, k] * along[b, k]
        pivot = hessenberg[b, i, i]
        along[b, i] = where(pivot == 0.0, goal.dtype(0.0), s / pivot)


@_of_chunks
def combine(lo, hi, system, along, basis, u, count: int):  # type: ignore[no-untyped-def]
    c = tid()
    b = system[c]
    for k in range(lo[c], hi[c]):
        u[k] = u.dtype(0.0)
    for i in range(count):
        y = along[b, i]
        for k in range(lo[c], hi[c]):
            u[k] = u.dtype(along.dtype(u[k]) + y * along.dtype(basis[i, k]))


@_of_chunks
def add(lo, hi, u, x):  # type: ignore[no-untyped-def]
    c = tid()
    for k in range(lo[c], hi[c]):
        x[k] += u[k]
