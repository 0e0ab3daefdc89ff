"""Stencils: fields over a grid that are swept many times."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call"

import diffkern as dk

from .ports import port

SCATTER = (
    "the adjoint of a loop in one thread adds to three neighbours in each trip: four stores of single numbers, a "
    "nanosecond in all, where a gather over the results would be vectors"
)


@dk.kernel
def jacobi_line(a, b, steps: int):
    """Both half steps of a line, by one thread: the line fits the first cache."""
    n = a.shape[0]
    for _ in range(1, steps):
        for i in range(1, n - 1):
            b[i] = 0.33333 * (a[i - 1] + a[i] + a[i + 1])
        for i in range(1, n - 1):
            a[i] = 0.33333 * (b[i - 1] + b[i] + b[i + 1])


@port("jacobi_1d", "A", "B", gradient=SCATTER)
def jacobi_1d(TSTEPS, A, B):
    dk.launch(jacobi_line, dim=1, inputs=[A, B, TSTEPS])
    return A, B


@dk.kernel
def jacobi_half(a, b):
    k, m = dk.tid()
    i, j = k + 1, m + 1
    b[i, j] = 0.2 * (a[i, j] + a[i, j - 1] + a[i, j + 1] + a[i + 1, j] + a[i - 1, j])


@port("jacobi_2d", "A", "B")
def jacobi_2d(TSTEPS, A, B):
    inner = (A.shape[0] - 2, A.shape[1] - 2)
    for _ in range(1, TSTEPS):
        dk.launch(jacobi_half, dim=inner, inputs=[A, B])
        dk.launch(jacobi_half, dim=inner, inputs=[B, A])
    return A, B


@dk.kernel
def heat_half(a, b):
    x, y, z = dk.tid()
    i, j, k = x + 1, y + 1, z + 1
    here = a[i, j, k]
    b[i, j, k] = (
        0.125 * (a[i + 1, j, k] - 2.0 * here + a[i - 1, j, k])
        + 0.125 * (a[i, j + 1, k] - 2.0 * here + a[i, j - 1, k])
        + 0.125 * (a[i, j, k + 1] - 2.0 * here + a[i, j, k - 1])
        + here
    )


@port("heat_3d", "A", "B")
def heat_3d(TSTEPS, A, B):
    inner = tuple(n - 2 for n in A.shape)
    for _ in range(1, TSTEPS):
        dk.launch(heat_half, dim=inner, inputs=[A, B])
        dk.launch(heat_half, dim=inner, inputs=[B, A])
    return A, B


@dk.kernel
def electric(ex, ey, hz, source, t: int):
    i, j = dk.tid()
    if i == 0:
        ey[i, j] = source[t]
    else:
        ey[i, j] -= 0.5 * (hz[i, j] - hz[i - 1, j])
    if j > 0:
        ex[i, j] -= 0.5 * (hz[i, j] - hz[i, j - 1])


@dk.kernel
def magnetic(ex, ey, hz):
    i, j = dk.tid()
    hz[i, j] -= 0.7 * (ex[i, j + 1] - ex[i, j] + ey[i + 1, j] - ey[i, j])


@port("fdtd_2d", "ex", "ey", "hz", "_fict_")
def fdtd_2d(TMAX, ex, ey, hz, _fict_):
    rows, columns = hz.shape
    for t in range(TMAX):
        dk.launch(electric, dim=(rows, columns), inputs=[ex, ey, hz, _fict_, t])
        dk.launch(magnetic, dim=(rows - 1, columns - 1), inputs=[ex, ey, hz])
    return ex, ey, hz


@dk.kernel
def seidel_sweeps(a, steps: int):
    """Sweeps in place by one thread: each element needs its left and upper neighbours of the same sweep.

    As in the published text, the left neighbour is added last: only that sum and the division wait for it.
    """
    for _ in range(steps):
        for i in range(1, a.shape[0] - 1):
            for j in range(1, a.shape[1] - 1):
                others = (
                    a[i, j] + a[i - 1, j - 1] + a[i - 1, j] + a[i - 1, j + 1]
                    + a[i, j + 1] + a[i + 1, j - 1] + a[i + 1, j] + a[i + 1, j + 1]
                )  # fmt: skip
                a[i, j] = (others + a[i, j - 1]) / 9.0


@port("seidel_2d", "A")
def seidel_2d(TSTEPS, N, A):
    dk.launch(seidel_sweeps, dim=1, inputs=[A, TSTEPS - 1])
    return (A,)


@dk.kernel
def sweep_columns(u, v, p, q, a: dk.float64, b: dk.float64, d: dk.float64):
    """Implicit in the first direction: a tridiagonal system for each column of v, by elimination and substitution."""
    i = dk.tid() + 1
    n = u.shape[0]
    v[0, i] = 1.0
    p[0, i] = 0.0
    q[0, i] = 1.0
    for j in range(1, n - 1):
        pivot = a * p[j - 1, i] + b
        p[j, i] = -a / pivot
        q[j, i] = (-d * u[j, i - 1] + (1.0 + 2.0 * d) * u[j, i] - d * u[j, i + 1] - a * q[j - 1, i]) / pivot
    v[n - 1, i] = 1.0
    for j in range(n - 2, 0, -1):
        v[j, i] = p[j, i] * v[j + 1, i] + q[j, i]


@dk.kernel
def sweep_rows(u, v, p, q, a: dk.float64, d: dk.float64, e: dk.float64):
    """Implicit in the second direction: a tridiagonal system for each row of u."""
    i = dk.tid() + 1
    n = u.shape[0]
    u[i, 0] = 1.0
    p[0, i] = 0.0
    q[0, i] = 1.0
    for j in range(1, n - 1):
        pivot = d * p[j - 1, i] + e
        p[j, i] = -d / pivot
        q[j, i] = (-a * v[i - 1, j] + (1.0 + 2.0 * a) * v[i, j] - a * v[i + 1, j] - d * q[j - 1, i]) / pivot
    u[i, n - 1] = 1.0
    for j in range(n - 2, 0, -1):
        u[i, j] = p[j, i] * u[i, j + 1] + q[j, i]


@port("adi", "u")
def adi(TSTEPS, N, u):
    v, p, q = (dk.zeros_like(u) for _ in range(3))
    mul1, mul2 = 2.0 * N * N / TSTEPS, 1.0 * N * N / TSTEPS
    a, d = -mul1 / 2.0, -mul2 / 2.0
    for _ in range(TSTEPS):
        dk.launch(sweep_columns, dim=N - 2, inputs=[u, v, p, q, a, 1.0 + mul2, d])
        dk.launch(sweep_rows, dim=N - 2, inputs=[u, v, p, q, a, d, 1.0 + mul2])
    return (u,)


@dk.func
def laplacian(f, i, j, k):
    return 4.0 * f[i, j, k] - (f[i + 1, j, k] + f[i - 1, j, k] + f[i, j + 1, k] + f[i, j - 1, k])


@dk.func
def limited(difference, slope):
    """Return a flux that does not steepen the field."""
    return dk.where(difference * slope > 0.0, difference * 0.0, difference)


@dk.kernel
def diffuse(f, coeff, out):
    """Horizontal diffusion with a limiter, all in one pass: Laplacians are computed where they are needed."""
    x, y, k = dk.tid()
    i, j = x + 2, y + 2
    here = f[i, j, k]
    lap = laplacian(f, i, j, k)
    east = limited(laplacian(f, i + 1, j, k) - lap, f[i + 1, j, k] - here)
    west = limited(lap - laplacian(f, i - 1, j, k), here - f[i - 1, j, k])
    north = limited(laplacian(f, i, j + 1, k) - lap, f[i, j + 1, k] - here)
    south = limited(lap - laplacian(f, i, j - 1, k), here - f[i, j - 1, k])
    out[x, y, k] = here - coeff[x, y, k] * (east - west + north - south)


@port("hdiff", "in_field", "coeff")
def hdiff(in_field, out_field, coeff):
    dk.launch(diffuse, dim=out_field.shape, inputs=[in_field, coeff], outputs=[out_field])
    return (out_field,)


@dk.kernel
def advect(tendency, u, wcon, position, given, c, d, dtr: dk.float64):
    """Vertical advection: one tridiagonal system for each column of the atmosphere."""
    i, j = dk.tid()
    n = u.shape[2]
    for k in range(n):
        low = dk.float64(0.0)
        high = dk.float64(0.0)
        change = dk.float64(0.0)
        if k > 0:
            low = -0.125 * (wcon[i + 1, j, k] + wcon[i, j, k])
            change -= low * (u[i, j, k - 1] - u[i, j, k])
        if k < n - 1:
            high = 0.125 * (wcon[i + 1, j, k + 1] + wcon[i, j, k + 1])
            change -= high * (u[i, j, k + 1] - u[i, j, k])
        right = dtr * position[i, j, k] + given[i, j, k] + tendency[i, j, k] + change
        pivot = dtr - low - high
        if k > 0:
            pivot -= c[i, j, k - 1] * low
            right -= d[i, j, k - 1] * low
        c[i, j, k] = high / pivot
        d[i, j, k] = right / pivot
    above = dk.float64(0.0)
    for k in range(n - 1, -1, -1):
        above = d[i, j, k] - c[i, j, k] * above
        tendency[i, j, k] = dtr * (above - position[i, j, k])


@port("vadv", "utens_stage", "u_stage", "wcon", "u_pos", "utens")
def vadv(utens_stage, u_stage, wcon, u_pos, utens, dtr_stage):
    c, d = dk.zeros_like(u_stage), dk.zeros_like(u_stage)
    columns = utens_stage.shape[:2]
    dk.launch(advect, dim=columns, inputs=[utens_stage, u_stage, wcon, u_pos, utens, c, d, dtr_stage])
    return (utens_stage,)
