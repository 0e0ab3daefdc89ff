"""Products of matrices and vectors."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call"

import diffkern as dk

from .ports import port

F = dk.float64


@port("gemm", "C", "A", "B")
def gemm(alpha, beta, C, A, B):
    return (dk.matmul(A, B, out=C, alpha=alpha, beta=beta),)


@port("k2mm", "A", "B", "C", "D")
def k2mm(alpha, beta, A, B, C, D):
    return (dk.matmul(A @ B, C, out=D, alpha=alpha, beta=beta),)


@port("k3mm", "A", "B", "C", "D")
def k3mm(A, B, C, D):
    return (A @ B @ C @ D,)


NARROW = (
    "three products of 3600 x 128 and 128 x 128 take 9.9 of 10.6 ms: NumPy's BLAS reaches two thirds of its speed in "
    "matrices so narrow"
)


@port("doitgen", "A", "C4", gradient=NARROW)
def doitgen(NR, NQ, NP, A, C4):
    rows = A.reshape((NR * NQ, NP))
    rows @= C4
    return (A,)


@dk.kernel(fast_math=True)
def rows_and_back(a, x, y):
    """y += a[i] (a[i] . x): a row is read once for both products."""
    i = dk.tid()
    s = F(0.0)
    for j in range(a.shape[1]):
        s += a[i, j] * x[j]
    for j in range(a.shape[1]):
        y[j] += s * a[i, j]


@port("atax", "A", "x")
def atax(A, x):
    y = dk.zeros_like(x)
    dk.launch(rows_and_back, dim=A.shape[0], inputs=[A, x], outputs=[y])
    return (y,)


@dk.kernel(fast_math=True)
def both_sides(a, left, right, down, across, scale_down: F, scale_across: F):
    """down += left a, across += a right: both products in one pass over the matrix."""
    i = dk.tid()
    s = F(0.0)
    lead = scale_down * left[i]
    for j in range(a.shape[1]):
        s += a[i, j] * right[j]
        down[j] += lead * a[i, j]
    across[i] += scale_across * s


@port("bicg", "A", "p", "r")
def bicg(A, p, r):
    down, across = dk.zeros_like(p), dk.zeros_like(r)
    dk.launch(both_sides, dim=A.shape[0], inputs=[A, r, p, down, across, 1.0, 1.0])
    return down, across


@port("mvt", "x1", "x2", "y_1", "y_2", "A")
def mvt(x1, x2, y_1, y_2, A):
    dk.launch(both_sides, dim=A.shape[0], inputs=[A, y_2, y_1, x2, x1, 1.0, 1.0])
    return x1, x2


@dk.kernel(fast_math=True)
def two_matrices(alpha: F, beta: F, a, b, x, y):
    i = dk.tid()
    s, t = F(0.0), F(0.0)
    for j in range(a.shape[1]):
        s += a[i, j] * x[j]
        t += b[i, j] * x[j]
    y[i] = alpha * s + beta * t


@port("gesummv", "A", "B", "x")
def gesummv(alpha, beta, A, B, x):
    y = dk.zeros_like(x)
    dk.launch(two_matrices, dim=A.shape[0], inputs=[alpha, beta, A, B, x], outputs=[y])
    return (y,)


@dk.kernel
def rank_two(a, u1, v1, u2, v2, y, x, beta: F):
    """a += u1 v1 + u2 v2, and x += beta y a while the row is at hand."""
    i = dk.tid()
    p, q, s = u1[i], u2[i], beta * y[i]
    for j in range(a.shape[1]):
        new = a[i, j] + p * v1[j] + q * v2[j]
        a[i, j] = new
        x[j] += s * new


@dk.kernel
def add_to(x, z):
    i = dk.tid()
    x[i] += z[i]


@dk.kernel(fast_math=True)
def add_product(a, x, w, alpha: F):
    i = dk.tid()
    s = F(0.0)
    for j in range(a.shape[1]):
        s += a[i, j] * x[j]
    w[i] += alpha * s


@port("gemver", "A", "u1", "v1", "u2", "v2", "w", "x", "y", "z")
def gemver(alpha, beta, A, u1, v1, u2, v2, w, x, y, z):
    n = A.shape[0]
    dk.launch(add_to, dim=n, inputs=[x, z])
    dk.launch(rank_two, dim=n, inputs=[A, u1, v1, u2, v2, y, x, beta])
    dk.launch(add_product, dim=n, inputs=[A, x, w, alpha])
    return A, w, x


@dk.kernel
def symmetric_update(c, a, alpha: F, beta: F):
    i = dk.tid()
    for j in range(i + 1):
        s = F(0.0)
        for k in range(a.shape[1]):
            s += a[i, k] * a[j, k]
        c[i, j] = beta * c[i, j] + alpha * s


@port("syrk", "C", "A")
def syrk(alpha, beta, C, A):
    dk.launch(symmetric_update, dim=A.shape[0], inputs=[C, A, alpha, beta])
    return (C,)


@dk.kernel
def symmetric_update_two(c, a, b, alpha: F, beta: F):
    i = dk.tid()
    for j in range(i + 1):
        s = F(0.0)
        for k in range(a.shape[1]):
            s += a[j, k] * b[i, k] + b[j, k] * a[i, k]
        c[i, j] = beta * c[i, j] + alpha * s


@port("syr2k", "C", "A", "B")
def syr2k(alpha, beta, C, A, B):
    dk.launch(symmetric_update_two, dim=A.shape[0], inputs=[C, A, B, alpha, beta])
    return (C,)


@dk.kernel
def triangular_rows(a, b, out, alpha: F):
    i, j = dk.tid()
    s = b[i, j]
    for k in range(i + 1, b.shape[0]):
        s += a[k, i] * b[k, j]
    out[i, j] = alpha * s


@port("trmm", "A", "B")
def trmm(alpha, A, B):
    out = dk.zeros_like(B)
    dk.launch(triangular_rows, dim=B.shape, inputs=[A, B], outputs=[out, alpha])
    dk.copy(B, out)
    return (B,)


@dk.kernel
def symmetric_rows(a, b, c, alpha: F, beta: F):
    """The lower triangle of a stands for both."""
    i, j = dk.tid()
    s = F(0.0)
    for k in range(i + 1):
        s += a[i, k] * b[k, j]
    for k in range(i + 1, a.shape[0]):
        s += a[k, i] * b[k, j]
    c[i, j] = beta * c[i, j] + alpha * s


@port("symm", "C", "A", "B")
def symm(alpha, beta, C, A, B):
    dk.launch(symmetric_rows, dim=C.shape, inputs=[A, B, C, alpha, beta])
    return (C,)


@dk.kernel
def sparse_rows(start, column, value, x, y):
    i = dk.tid()
    s = F(0.0)
    for k in range(start[i], start[i + 1]):
        s += value[k] * x[column[k]]
    y[i] = s


@port("spmv", "A_val", "x")
def spmv(A_row, A_col, A_val, x):
    y = dk.zeros(A_row.shape[0] - 1, dtype=A_val.dtype)
    dk.launch(sparse_rows, dim=y.shape[0], inputs=[A_row, A_col, A_val, x], outputs=[y])
    return (y,)
