"""Eigenvalues of small symmetric matrices of any size, for ``wp.fem.linalg.symmetric_eigenvalues_qr``.

Rotations of Jacobi make a matrix diagonal, whatever the tolerance that a program names: the last sweeps are those that
rounding leaves nothing to do. The derivative is written beside them, in terms of the eigenvectors.
"""

from __future__ import annotations

from typing import Any

from diffkern.lang.func import func
from diffkern.lang.rules import adjoint, func_grad
from diffkern.library.language import sqrt, transpose, where

__all__ = ["symmetric_eigenvalues_qr"]

# Jacobi's method converges quadratically; a fixed number of sweeps needs no test that would differ between threads.
_SWEEPS = 12


@func
def _over_gap(part: Any, gap: Any, scale: Any) -> Any:
    """part / gap; 0 where the gap is no more than rounding of numbers as large as the scale."""
    quotient = 0.0 * gap
    if scale + 0.125 * abs(gap) != scale:
        quotient = part / gap
    return quotient


@func
def _rotation(p: Any, q: Any, off: Any) -> Any:
    """Cosine, sine and tangent of the smaller angle that makes an element beside the diagonal zero."""
    ratio = (q - p) / (2.0 * off)
    t = where(ratio < 0.0, -1.0, 1.0) / (abs(ratio) + sqrt(ratio * ratio + 1.0))
    c = 1.0 / sqrt(t * t + 1.0)
    return c, t * c, t


@func
def _without(a: Any, rows: Any, i: Any, j: Any, n: Any) -> Any:
    """A symmetric matrix with zeros at (i, j) and (j, i), and the rows of eigenvectors, after a rotation."""
    off = a[i, j]
    if off != 0.0:
        c, s, t = _rotation(a[i, i], a[j, j], off)
        for k in range(n):
            x, y = a[i, k], a[j, k]
            if k != i and k != j:
                a[i, k], a[j, k] = c * x - s * y, s * x + c * y
                a[k, i], a[k, j] = a[i, k], a[j, k]
            u, v = rows[i, k], rows[j, k]
            rows[i, k], rows[j, k] = c * u - s * v, s * u + c * v
        a[i, i] -= t * off
        a[j, j] += t * off
        a[i, j], a[j, i] = 0.0 * off, 0.0 * off
    return a, rows


@func
def _largest(a: Any, n: Any) -> Any:
    found = abs(a[0, 0])
    for i in range(n):
        for j in range(n):
            found = max(found, abs(a[i, j]))
    return found


@func
def _decomposed(A: Any) -> Any:
    n = len(A)
    values, rows = 0.0 * A[0], 0.0 * A
    scale = _largest(A, n)
    scale = where(scale > 0.0, scale, scale + 1.0)
    a = (A + transpose(A)) * (0.5 / scale)
    for i in range(n):
        rows[i, i] = 1.0 + 0.0 * scale
    for _ in range(_SWEEPS):
        for i in range(n):
            for j in range(i + 1, n):
                a, rows = _without(a, rows, i, j, n)
    for i in range(n):
        values[i] = a[i, i] * scale
    return values, rows


# With A = P^T diag(d) P, the cotangent of A is P^T (diag(ct_d) + the antisymmetric part of P ct_P^T over the gaps of
# the eigenvalues) P. Of equal eigenvalues the eigenvectors are not unique, and these terms are left out.
@func_grad(_decomposed)
def _decomposed_adjoint(A: Any, ct_values: Any, ct_rows: Any) -> None:
    n = len(A)
    d, rows = _decomposed(A)
    turned, inner, scale = rows @ transpose(ct_rows), 0.0 * A, 0.0 * A[0, 0]
    for i in range(n):
        scale = max(scale, abs(d[i]))
    for i in range(n):
        inner[i, i] = ct_values[i]
        for j in range(i + 1, n):
            inner[i, j] = _over_gap(0.5 * (turned[i, j] - turned[j, i]), d[j] - d[i], scale)
            inner[j, i] = inner[i, j]
    adjoint[A] += transpose(rows) @ inner @ rows


@func
def symmetric_eigenvalues_qr(A: Any, tol: Any) -> Any:
    """The eigenvalues d, in no set order, and a matrix P with an eigenvector in each row: A = P^T diag(d) P."""
    values, rows = _decomposed(A)
    return values, rows
