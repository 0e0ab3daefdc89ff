"""Solvers that work in place, most of them by one thread, as their texts are."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call"

import diffkern as dk

from .ports import port


@dk.kernel
def cholesky_in_place(a):
    for i in range(a.shape[0]):
        for j in range(i):
            s = a[i, j]
            for k in range(j):
                s -= a[i, k] * a[j, k]
            a[i, j] = s / a[j, j]
        s = a[i, i]
        for k in range(i):
            s -= a[i, k] * a[i, k]
        a[i, i] = dk.sqrt(s)


@port("cholesky", "A")
def cholesky(A):
    dk.launch(cholesky_in_place, dim=1, inputs=[A])
    return (A,)


@dk.kernel
def lu_in_place(a):
    """Rows from rows above: the innermost loop runs along a row."""
    n = a.shape[0]
    for i in range(n):
        for k in range(i):
            a[i, k] /= a[k, k]
            for j in range(k + 1, n):
                a[i, j] -= a[i, k] * a[k, j]


@port("lu", "A")
def lu(A):
    dk.launch(lu_in_place, dim=1, inputs=[A])
    return (A,)


@dk.kernel
def substitute(a, b, x, y):
    n = a.shape[0]
    for i in range(n):
        s = b[i]
        for k in range(i):
            s -= a[i, k] * y[k]
        y[i] = s
    for i in range(n - 1, -1, -1):
        s = y[i]
        for k in range(i + 1, n):
            s -= a[i, k] * x[k]
        x[i] = s / a[i, i]


@port("ludcmp", "A", "b")
def ludcmp(A, b):
    x, y = dk.zeros_like(b), dk.zeros_like(b)
    dk.launch(lu_in_place, dim=1, inputs=[A])
    dk.launch(substitute, dim=1, inputs=[A, b], outputs=[x, y])
    return x, y, A


@dk.kernel(fast_math=True)
def forward_substitution(lower, x, b):
    for i in range(x.shape[0]):
        s = b[i]
        for k in range(i):
            s -= lower[i, k] * x[k]
        x[i] = s / lower[i, i]


@port("trisolv", "L", "b")
def trisolv(L, x, b):
    dk.launch(forward_substitution, dim=1, inputs=[L, x, b])
    return (x,)


@dk.kernel
def levinson(r, y):
    """Durbin's recursion: y grows by one element in each step, both halves of it are updated together."""
    alpha = -r[0]
    beta = r[0] * 0.0 + 1.0
    y[0] = -r[0]
    for k in range(1, r.shape[0]):
        beta *= 1.0 - alpha * alpha
        s = r[k]
        for i in range(k):
            s += r[k - 1 - i] * y[i]
        alpha = -s / beta
        for i in range(k // 2):
            low, high = y[i], y[k - 1 - i]
            y[i] = low + alpha * high
            y[k - 1 - i] = high + alpha * low
        if k % 2 == 1:
            y[k // 2] += alpha * y[k // 2]
        y[k] = alpha


@port("durbin", "r")
def durbin(r):
    y = dk.zeros_like(r)
    dk.launch(levinson, dim=1, inputs=[r], outputs=[y])
    return (y,)


@dk.kernel
def orthogonalize(a, q, r):
    """Modified Gram-Schmidt; the projections of one column on all others are taken row by row."""
    m, n = a.shape[0], a.shape[1]
    for k in range(n):
        s = a[0, k] * 0.0
        for i in range(m):
            s += a[i, k] * a[i, k]
        norm = dk.sqrt(s)
        r[k, k] = norm
        for i in range(m):
            q[i, k] = a[i, k] / norm
        for i in range(m):
            for j in range(k + 1, n):
                r[k, j] += q[i, k] * a[i, j]
        for i in range(m):
            for j in range(k + 1, n):
                a[i, j] -= q[i, k] * r[k, j]


@port("gramschmidt", "A")
def gramschmidt(A):
    q, r = dk.zeros_like(A), dk.zeros((A.shape[1], A.shape[1]), dtype=A.dtype)
    dk.launch(orthogonalize, dim=1, inputs=[A], outputs=[q, r])
    return q, r, A
