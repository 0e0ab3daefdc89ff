"""Singular values, eigenvalues and QR of small matrices, with the derivatives of the matrices' factors.

Jacobi rotations make the columns of a matrix orthogonal (one-sided) or a symmetric matrix diagonal; eight sweeps are
enough for double precision. Derivatives are written beside them, in terms of the factors.
"""

from __future__ import annotations

from typing import Any

from diffkern.lang.func import func
from diffkern.lang.library import built_in
from diffkern.lang.rules import adjoint, func_grad
from diffkern.library.language import (
    Float,
    cross,
    dot,
    length,
    mat22,
    mat33,
    matrix_from_cols,
    sqrt,
    transpose,
    vec2,
    vec3,
    where,
)

__all__: list[str] = []


@func
def _over_gap(part: Any, gap: Any, scale: Any) -> Any:
    """Return part / gap; 0 where the gap is no more than the rounding error of numbers as large as the scale."""
    quotient = Float(0.0)
    # The sum is rounded to the scale itself where the gap is lost in rounding.
    if scale + 0.125 * abs(gap) != scale:
        quotient = part / gap
    return quotient


@func
def _tangent(difference: Any, twice: Any) -> Any:
    """Return the tangent of the smaller angle of a rotation that makes ``twice`` / 2 zero."""
    ratio = difference / twice
    # Of the two solutions the smaller one, in a form without cancellation.
    return where(ratio < 0.0, Float(-1.0), Float(1.0)) / (abs(ratio) + sqrt(ratio * ratio + 1.0))


# -- one-sided: A V = U diag(s) ----------------------------------------------------------------------------------------


@func
def _orthogonal(a: Any, b: Any, v: Any, w: Any) -> Any:
    """Rotate two columns until they are orthogonal, and those of V with them."""
    aa, bb, ab = dot(a, a), dot(b, b), dot(a, b)
    size = sqrt(aa * bb)
    # Columns that are orthogonal up to rounding stay as they are; a column of zeros would give 0 / 0.
    if size + 0.25 * abs(ab) != size:
        t = _tangent(bb - aa, 2.0 * ab)
        c = 1.0 / sqrt(t * t + 1.0)
        s = t * c
        a, b = a * c - b * s, a * s + b * c
        v, w = v * c - w * s, v * s + w * c
    return a, b, v, w


@func
def _longer_first(a: Any, b: Any, v: Any, w: Any) -> Any:
    """Order two columns with the longer one first; the determinant keeps its sign."""
    if dot(a, a) < dot(b, b):
        # With one sign changed, the exchange is a rotation.
        a, b = b, -a
        v, w = w, -v
    return a, b, v, w


@func
def _across(a: Any) -> Any:
    """Return a vector of length 1 that is orthogonal to one of length 1."""
    b = cross(a, vec3(1.0, 0.0, 0.0))
    # A cross product with an axis that is nearly along a would be short and inexact.
    if abs(a.x) > 0.5:
        b = cross(a, vec3(0.0, 1.0, 0.0))
    return b / length(b)


@func
def _rest(a: Any, b: Any) -> Any:
    """Return the part of b orthogonal to a, scaled to length 1; any orthogonal unit vector if there is no such part."""
    c = b - a * dot(a, b)
    n = length(c)
    if n > 0.0:
        c = c / n
        c = c - a * dot(a, c)  # of rounding, where b is nearly along a
        n = length(c)
    # The length is nearly 1 by now, unless all of b is along a.
    if n > 0.5:
        c = c / n
    else:
        c = _across(a)
    return c


@func
def _svd2(A: Any) -> Any:
    scale = max(abs(A[0, 0]), abs(A[0, 1]), abs(A[1, 0]), abs(A[1, 1]))
    # With components of at most 1, squares neither overflow nor, where it matters, vanish.
    scale = where(scale > 0.0, scale, Float(1.0))
    a, b = vec2(A[0, 0], A[1, 0]) / scale, vec2(A[0, 1], A[1, 1]) / scale
    v, w = vec2(1.0, 0.0), vec2(0.0, 1.0)
    for _ in range(4):
        a, b, v, w = _orthogonal(a, b, v, w)
    a, b, v, w = _longer_first(a, b, v, w)
    n = length(a)
    p = vec2(1.0, 0.0)
    if n > 0.0:
        p = a / n
    q = vec2(-p.y, p.x)
    m = dot(q, b)
    # A singular value is not negative; its column of U takes the sign.
    if m < 0.0:
        q, m = -q, -m
    return matrix_from_cols(p, q), vec2(n, m) * scale, matrix_from_cols(v, w)


@func_grad(_svd2)
def _svd2_adjoint(A: Any, ct_U: Any, ct_s: Any, ct_V: Any) -> None:
    U, s, V = _svd2(A)
    x, y = transpose(U) @ ct_U, transpose(V) @ ct_V
    m = mat22(ct_s.x, 0.0, 0.0, ct_s.y)
    m[0, 1], m[1, 0] = _coupled(x[0, 1] - x[1, 0], y[0, 1] - y[1, 0], s[0], s[1], s[0])
    adjoint[A] += U @ m @ transpose(V)


@func
def _coupled(x: Any, y: Any, s: Any, t: Any, scale: Any) -> Any:
    """Return two opposite components of a cotangent between the factors, for two singular values."""
    difference = _over_gap(0.5 * (x + y), t - s, scale)
    total = _over_gap(0.5 * (x - y), t + s, scale)
    return difference + total, difference - total


@built_in()
def svd2(A: mat22) -> tuple[mat22, vec2, mat22]:
    """U, s and V with A = U diag(s) V^T, s not negative and descending; svd2(A, U, s, V) sets variables.

    A column of U and the same column of V may both change their sign.

    Derivative: that of the factors.

    Kinks: parts that would be divided by the difference or the sum of two equal singular values are 0, which keeps
    correct everything that does not depend on the choice of equal columns.

    Example: U, s, V = dk.svd2(dk.mat22(u[0], u[1], x[i], 1.0)); y[i] = s[0]
    """
    U, s, V = _svd2(A)
    return U, s, V


@built_in("svd2", sets="U s V")
def _svd2_set(A: mat22, U: Any, s: Any, V: Any) -> tuple[mat22, vec2, mat22]:
    p, d, q = _svd2(A)
    return p, d, q


@func
def _column(m: Any, k: Any) -> Any:
    return vec3(m[0, k], m[1, k], m[2, k])


@func
def _largest(m: Any) -> Any:
    """Return the largest absolute value of a component; 1 if all are 0."""
    size = Float(0.0)
    for i in range(3):
        for j in range(3):
            size = max(size, abs(m[i, j]))
    return where(size > 0.0, size, Float(1.0))


@func
def _svd3(A: Any) -> Any:
    scale = _largest(A)
    a, b, c = _column(A, 0) / scale, _column(A, 1) / scale, _column(A, 2) / scale
    u, v, w = vec3(1.0, 0.0, 0.0), vec3(0.0, 1.0, 0.0), vec3(0.0, 0.0, 1.0)
    for _ in range(8):
        a, b, u, v = _orthogonal(a, b, u, v)
        a, c, u, w = _orthogonal(a, c, u, w)
        b, c, v, w = _orthogonal(b, c, v, w)
    a, b, u, v = _longer_first(a, b, u, v)
    a, c, u, w = _longer_first(a, c, u, w)
    b, c, v, w = _longer_first(b, c, v, w)
    n = length(a)
    p = vec3(1.0, 0.0, 0.0)
    if n > 0.0:
        p = a / n
    q = _rest(p, b)
    r = cross(p, q)
    # U is a rotation, so that the last value has the sign of the determinant.
    s = vec3(n, dot(q, b), dot(r, c)) * scale
    return matrix_from_cols(p, q, r), s, matrix_from_cols(u, v, w)


@func_grad(_svd3)
def _svd3_adjoint(A: Any, ct_U: Any, ct_s: Any, ct_V: Any) -> None:
    U, s, V = _svd3(A)
    x, y = transpose(U) @ ct_U, transpose(V) @ ct_V
    m = mat33(ct_s.x, 0.0, 0.0, 0.0, ct_s.y, 0.0, 0.0, 0.0, ct_s.z)
    m[0, 1], m[1, 0] = _coupled(x[0, 1] - x[1, 0], y[0, 1] - y[1, 0], s[0], s[1], s[0])
    m[0, 2], m[2, 0] = _coupled(x[0, 2] - x[2, 0], y[0, 2] - y[2, 0], s[0], s[2], s[0])
    m[1, 2], m[2, 1] = _coupled(x[1, 2] - x[2, 1], y[1, 2] - y[2, 1], s[1], s[2], s[0])
    adjoint[A] += U @ m @ transpose(V)


@built_in()
def svd3(A: mat33) -> tuple[mat33, vec3, mat33]:
    """U, s and V with A = U diag(s) V^T, both of determinant 1; svd3(A, U, s, V) sets variables.

    The absolute values of s descend, and the last has the sign of the determinant of A.

    Derivative: that of the factors.

    Kinks: parts that would be divided by a difference or a sum of two singular values that is 0 are 0, which keeps
    correct everything that does not depend on the choice of equal columns.

    Example: U, s, V = dk.svd3(m); w[i] = s
    """
    U, s, V = _svd3(A)
    return U, s, V


@built_in("svd3", sets="U s V")
def _svd3_set(A: mat33, U: Any, s: Any, V: Any) -> tuple[mat33, vec3, mat33]:
    p, d, q = _svd3(A)
    return p, d, q


# -- QR ----------------------------------------------------------------------------------------------------------------


@built_in()
def qr3(A: mat33) -> tuple[mat33, mat33]:
    """Q, a rotation, and R, an upper triangle, with A = Q R; qr3(A, Q, R) sets variables.

    The last element of the diagonal of R has the sign of the determinant of A, the others are not negative.

    Derivative: that of the orthogonalization of the columns, for A of full rank.

    Example: Q, R = dk.qr3(m); w[i] = dk.get_diag(R)
    """
    a, b, c = _column(A, 0), _column(A, 1), _column(A, 2)
    n = length(a)
    p = vec3(1.0, 0.0, 0.0)
    if n > 0.0:
        p = a / n
    q = _rest(p, b)
    r = cross(p, q)
    R = mat33(n, dot(p, b), dot(p, c), 0.0, dot(q, b), dot(q, c), 0.0, 0.0, dot(r, c))
    return matrix_from_cols(p, q, r), R


@built_in("qr3", sets="Q R")
def _qr3_set(A: mat33, Q: Any, R: Any) -> tuple[mat33, mat33]:
    q, r = qr3(A)
    return q, r


# -- two-sided: A = Q diag(d) Q^T --------------------------------------------------------------------------------------


@func
def _rotated(a: Any, q: Any, i: Any, j: Any) -> Any:
    """Rotate a symmetric matrix so that it has a zero at (i, j), and the columns of Q with it."""
    if a[i, j] != 0.0:
        t = _tangent(a[j, j] - a[i, i], 2.0 * a[i, j])
        c = 1.0 / sqrt(t * t + 1.0)
        s = t * c
        # The third index.
        k = 3 - i - j
        a[i, i] -= t * a[i, j]
        a[j, j] += t * a[i, j]
        x, y = a[i, k], a[j, k]
        a[i, k], a[j, k] = c * x - s * y, s * x + c * y
        a[k, i], a[k, j] = a[i, k], a[j, k]
        # They are 0 but for rounding, which would keep the sweeps from settling.
        a[i, j], a[j, i] = Float(0.0), Float(0.0)
        for r in range(3):
            x, y = q[r, i], q[r, j]
            q[r, i], q[r, j] = c * x - s * y, s * x + c * y
    return a, q


@func
def _smaller_first(d: Any, q: Any, i: Any, j: Any) -> Any:
    """Order two eigenvalues ascending, with their columns; the determinant keeps its sign."""
    if d[i] > d[j]:
        d[i], d[j] = d[j], d[i]
        for r in range(3):
            # With one sign changed, the exchange is a rotation.
            q[r, i], q[r, j] = q[r, j], -q[r, i]
    return d, q


@func
def _eig3(A: Any) -> Any:
    scale = _largest(A)
    a, q = (A + transpose(A)) * (0.5 / scale), mat33(1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0)
    for _ in range(8):
        a, q = _rotated(a, q, 0, 1)
        a, q = _rotated(a, q, 0, 2)
        a, q = _rotated(a, q, 1, 2)
    d = vec3(a[0, 0], a[1, 1], a[2, 2])
    d, q = _smaller_first(d, q, 0, 1)
    d, q = _smaller_first(d, q, 0, 2)
    d, q = _smaller_first(d, q, 1, 2)
    return q, d * scale


@func_grad(_eig3)
def _eig3_adjoint(A: Any, ct_Q: Any, ct_d: Any) -> None:
    Q, d = _eig3(A)
    x = transpose(Q) @ ct_Q
    scale = max(abs(d[0]), abs(d[2]))
    m = mat33(ct_d.x, 0.0, 0.0, 0.0, ct_d.y, 0.0, 0.0, 0.0, ct_d.z)
    m[0, 1] = _over_gap(0.5 * (x[0, 1] - x[1, 0]), d[1] - d[0], scale)
    m[0, 2] = _over_gap(0.5 * (x[0, 2] - x[2, 0]), d[2] - d[0], scale)
    m[1, 2] = _over_gap(0.5 * (x[1, 2] - x[2, 1]), d[2] - d[1], scale)
    m[1, 0], m[2, 0], m[2, 1] = m[0, 1], m[0, 2], m[1, 2]
    adjoint[A] += Q @ m @ transpose(Q)


@built_in()
def eig3(A: mat33) -> tuple[mat33, vec3]:
    """Q, of determinant 1, and d, ascending, with A = Q diag(d) Q^T for a symmetric A; eig3(A, Q, d) sets variables.

    Only the symmetric part of a matrix that is not symmetric is used.

    Derivative: Q (diag(ct_d) + F) Q^T, where F divides the antisymmetric part of Q^T ct_Q by differences of
    eigenvalues.

    Kinks: F is 0 where eigenvalues are equal.

    Example: Q, d = dk.eig3(m @ k); w[i] = d
    """
    Q, d = _eig3(A)
    return Q, d


@built_in("eig3", sets="Q d")
def _eig3_set(A: mat33, Q: Any, d: Any) -> tuple[mat33, vec3]:
    q, e = _eig3(A)
    return q, e
