"""Linear algebra: factorisations, triangular solves, products, sparse matrices, in place and out of place."""

import numpy as np

import diffkern as dk

from .check import natural

F = dk.float64
f1 = dk.array(dtype=F)
f2 = dk.array(dtype=F, ndim=2)
f3 = dk.array(dtype=F, ndim=3)
i1 = dk.array(dtype=int)

RNG = np.random.default_rng(1)
N = 4


def spd(*batch: int, n: int = N) -> np.ndarray:
    """Symmetric positive definite matrices."""
    a = RNG.normal(size=(*batch, n, n))
    return a @ np.swapaxes(a, -1, -2) + n * np.eye(n)


def dominant(*batch: int, n: int = N) -> np.ndarray:
    """Matrices that need no pivots."""
    return RNG.normal(size=(*batch, n, n)) + 2 * n * np.eye(n)


def some(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape)


@natural(1, a=spd(), low=np.zeros((N, N)), n=N)
@dk.kernel
def cholesky(a: f2, low: f2, n: int):
    for j in range(n):
        s = a[j, j]
        for k in range(j):
            s -= low[j, k] * low[j, k]
        low[j, j] = dk.sqrt(s)
        for i in range(j + 1, n):
            t = a[i, j]
            for k in range(j):
                t -= low[i, k] * low[j, k]
            low[i, j] = t / low[j, j]


@natural(3, a=spd(3), n=N)
@dk.kernel
def cholesky_in_place(a: f3, n: int):
    b = dk.tid()
    for k in range(n):
        a[b, k, k] = dk.sqrt(a[b, k, k])
        for i in range(k + 1, n):
            a[b, i, k] = a[b, i, k] / a[b, k, k]
        for j in range(k + 1, n):
            for i in range(j, n):
                a[b, i, j] = a[b, i, j] - a[b, i, k] * a[b, j, k]


@natural(1, a=dominant(), n=N)
@dk.kernel
def lu_in_place(a: f2, n: int):
    for k in range(n):
        for i in range(k + 1, n):
            a[i, k] /= a[k, k]
            for j in range(k + 1, n):
                a[i, j] -= a[i, k] * a[k, j]


@natural(1, a=dominant(), low=np.zeros((N, N)), u=np.zeros((N, N)), n=N)
@dk.kernel
def lu_doolittle(a: f2, low: f2, u: f2, n: int):
    for i in range(n):
        for k in range(i, n):
            s = a[i, k]
            for j in range(i):
                s -= low[i, j] * u[j, k]
            u[i, k] = s
        low[i, i] = 1.0
        for k in range(i + 1, n):
            s = a[k, i]
            for j in range(i):
                s -= low[k, j] * u[j, i]
            low[k, i] = s / u[i, i]


@natural(1, low=dominant(), b=some(N), x=np.zeros(N), n=N)
@dk.kernel
def forward_substitution(low: f2, b: f1, x: f1, n: int):
    for i in range(n):
        s = b[i]
        for j in range(i):
            s -= low[i, j] * x[j]
        x[i] = s / low[i, i]


@natural(1, low=dominant(), x=some(N), n=N)
@dk.kernel
def forward_substitution_in_place(low: f2, x: f1, n: int):
    for i in range(n):
        for j in range(i):
            x[i] -= low[i, j] * x[j]
        x[i] /= low[i, i]


@natural(1, u=dominant(), b=some(N), x=np.zeros(N), n=N)
@dk.kernel
def back_substitution(u: f2, b: f1, x: f1, n: int):
    for i in range(n - 1, -1, -1):
        s = b[i]
        for j in range(i + 1, n):
            s -= u[i, j] * x[j]
        x[i] = s / u[i, i]


@natural(2, a=some(2, 6), b=some(2, 6) + 5.0, c=some(2, 6), d=some(2, 6), cp=np.zeros((2, 6)), dp=np.zeros((2, 6)),
         x=np.zeros((2, 6)), n=6)  # fmt: skip
@dk.kernel
def thomas(a: f2, b: f2, c: f2, d: f2, cp: f2, dp: f2, x: f2, n: int):
    r = dk.tid()
    cp[r, 0] = c[r, 0] / b[r, 0]
    dp[r, 0] = d[r, 0] / b[r, 0]
    for i in range(1, n):
        m = b[r, i] - a[r, i] * cp[r, i - 1]
        cp[r, i] = c[r, i] / m
        dp[r, i] = (d[r, i] - a[r, i] * dp[r, i - 1]) / m
    x[r, n - 1] = dp[r, n - 1]
    for i in range(n - 2, -1, -1):
        x[r, i] = dp[r, i] - cp[r, i] * x[r, i + 1]


@natural(1, a=some(6), b=some(6) + 5.0, c=some(6), d=some(6), n=6)
@dk.kernel
def thomas_in_place(a: f1, b: f1, c: f1, d: f1, n: int):
    for i in range(1, n):
        w = a[i] / b[i - 1]
        b[i] = b[i] - w * c[i - 1]
        d[i] = d[i] - w * d[i - 1]
    d[n - 1] = d[n - 1] / b[n - 1]
    for i in range(n - 2, -1, -1):
        d[i] = (d[i] - c[i] * d[i + 1]) / b[i]


@natural(1, a=dominant(), b=some(N), x=some(N), n=N, sweeps=3)
@dk.kernel
def gauss_seidel(a: f2, b: f1, x: f1, n: int, sweeps: int):
    for _ in range(sweeps):
        for i in range(n):
            s = b[i]
            for j in range(n):
                if j != i:
                    s -= a[i, j] * x[j]
            x[i] = s / a[i, i]


@natural(1, a=dominant(), b=some(N), x=np.zeros((4, N)), n=N, sweeps=3)
@dk.kernel
def gauss_seidel_history(a: f2, b: f1, x: f2, n: int, sweeps: int):
    for k in range(sweeps):
        for i in range(n):
            s = b[i]
            for j in range(i):
                s -= a[i, j] * x[k + 1, j]
            for j in range(i + 1, n):
                s -= a[i, j] * x[k, j]
            x[k + 1, i] = s / a[i, i]


@natural((3, 4), a=some(15), b=some(20), c=np.zeros(12), n=4, k=5)
@dk.kernel
def matmul_flat(a: f1, b: f1, c: f1, n: int, k: int):
    i, j = dk.tid()
    s = F(0.0)
    for q in range(k):
        s += a[i * k + q] * b[q * n + j]
    c[i * n + j] = s


@natural(3, a=some(15), b=some(20), c=some(12), n=4, k=5)
@dk.kernel
def matmul_flat_rows(a: f1, b: f1, c: f1, n: int, k: int):
    i = dk.tid()
    for j in range(n):
        c[i * n + j] = 0.0
        for q in range(k):
            c[i * n + j] += a[i * k + q] * b[q * n + j]


@natural((3, 4), a=some(3, 5), b=some(5, 4), c=some(3, 4), alpha=0.7, beta=-0.3)
@dk.kernel
def gemm(a: f2, b: f2, c: f2, alpha: F, beta: F):
    i, j = dk.tid()
    s = F(0.0)
    for k in range(a.shape[1]):
        s += a[i, k] * b[k, j]
    c[i, j] = alpha * s + beta * c[i, j]


@natural(1, a=some(5, 3) + np.eye(5, 3) * 3, q=np.zeros((5, 3)), r=np.zeros((3, 3)))
@dk.kernel
def gram_schmidt(a: f2, q: f2, r: f2):
    m, n = a.shape[0], a.shape[1]
    for j in range(n):
        for i in range(m):
            q[i, j] = a[i, j]
        for k in range(j):
            s = F(0.0)
            for i in range(m):
                s += q[i, k] * a[i, j]
            r[k, j] = s
            for i in range(m):
                q[i, j] -= s * q[i, k]
        norm = F(0.0)
        for i in range(m):
            norm += q[i, j] * q[i, j]
        r[j, j] = dk.sqrt(norm)
        for i in range(m):
            q[i, j] /= r[j, j]


@natural(1, a=dominant(), inv=np.eye(N), n=N)
@dk.kernel
def gauss_jordan(a: f2, inv: f2, n: int):
    for k in range(n):
        p = a[k, k]
        for j in range(n):
            a[k, j] = a[k, j] / p
            inv[k, j] = inv[k, j] / p
        for i in range(n):
            if i != k:
                f = a[i, k]
                for j in range(n):
                    a[i, j] = a[i, j] - f * a[k, j]
                    inv[i, j] = inv[i, j] - f * inv[k, j]


@natural(4, ptr=np.array([0, 2, 3, 5, 7]), col=np.array([0, 2, 1, 0, 3, 2, 3]), val=some(7), x=some(4), y=np.zeros(4))
@dk.kernel
def sparse_rows(ptr: i1, col: i1, val: f1, x: f1, y: f1):
    row = dk.tid()
    s = F(0.0)
    for k in range(ptr[row], ptr[row + 1]):
        s += val[k] * x[col[k]]
    y[row] = s


@natural(7, row=np.array([0, 0, 1, 2, 2, 3, 3]), col=np.array([0, 2, 1, 0, 3, 2, 3]), val=some(7), x=some(4),
         y=np.zeros(4))  # fmt: skip
@dk.kernel
def sparse_coordinates(row: i1, col: i1, val: f1, x: f1, y: f1):
    k = dk.tid()
    y[row[k]] += val[k] * x[col[k]]


@natural(1, a=spd(), b=some(N), x=np.zeros(N), r=np.zeros(N), p=np.zeros(N), ap=np.zeros(N), n=N, iterations=3)
@dk.kernel
def conjugate_gradients(a: f2, b: f1, x: f1, r: f1, p: f1, ap: f1, n: int, iterations: int):
    rr = F(0.0)
    for i in range(n):
        x[i] = 0.0
        r[i] = b[i]
        p[i] = b[i]
        rr += b[i] * b[i]
    for _ in range(iterations):
        pap = F(0.0)
        for i in range(n):
            s = F(0.0)
            for j in range(n):
                s += a[i, j] * p[j]
            ap[i] = s
            pap += p[i] * s
        alpha = rr / pap
        new = F(0.0)
        for i in range(n):
            x[i] += alpha * p[i]
            r[i] -= alpha * ap[i]
            new += r[i] * r[i]
        beta = new / rr
        rr = new
        for i in range(n):
            p[i] = r[i] + beta * p[i]


@natural(1, a=spd(), v=some(N), w=np.zeros(N), n=N, iterations=3)
@dk.kernel
def power_iteration(a: f2, v: f1, w: f1, n: int, iterations: int):
    for _ in range(iterations):
        norm = F(0.0)
        for i in range(n):
            w[i] = 0.0
            for j in range(n):
                w[i] += a[i, j] * v[j]
            norm += w[i] * w[i]
        norm = dk.sqrt(norm)
        for i in range(n):
            v[i] = w[i] / norm


@natural((3, 4), a=some(12), b=np.zeros(12), rows=3, cols=4)
@dk.kernel
def transpose_flat(a: f1, b: f1, rows: int, cols: int):
    i, j = dk.tid()
    b[j * rows + i] = a[i * cols + j] * a[i * cols + j]


@natural((3, 2), x=some(24), y=np.zeros(12), stride=4, off=1)
@dk.kernel
def strided_batch(x: f1, y: f1, stride: int, off: int):
    i, j = dk.tid()
    x[i * stride + j] = x[i * stride + j] * x[(i + 3) * stride + off]
