"""Fluids: advection, projection, lattice Boltzmann, shallow water, heat."""

import numpy as np

import diffkern as dk

from .check import natural

F = dk.float64
f1 = dk.array(dtype=F)
f2 = dk.array(dtype=F, ndim=2)
f3 = dk.array(dtype=F, ndim=3)
w2 = dk.array(dtype=dk.vec2d, ndim=2)

RNG = np.random.default_rng(5)
N = 4


def some(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape)


@dk.func
def lookup(q: f2, i: int, j: int):
    n, m = q.shape[0], q.shape[1]
    return q[dk.clamp(i, 0, n - 1), dk.clamp(j, 0, m - 1)]


@dk.func
def bilinear(q: f2, x: F, y: F):
    i, j = int(dk.floor(x)), int(dk.floor(y))
    a, b = x - F(i), y - F(j)
    low = (1.0 - b) * lookup(q, i, j) + b * lookup(q, i, j + 1)
    high = (1.0 - b) * lookup(q, i + 1, j) + b * lookup(q, i + 1, j + 1)
    return (1.0 - a) * low + a * high


@natural((N, N), u=some(N, N, 2) * 0.4, q=some(N, N), out=np.zeros((N, N)), dt=0.7)
@dk.kernel
def advect(u: w2, q: f2, out: f2, dt: F):
    i, j = dk.tid()
    out[i, j] = bilinear(q, F(i) - dt * u[i, j][0], F(j) - dt * u[i, j][1])


@natural((N, N), u=some(N, N, 2), div=np.zeros((N, N)))
@dk.kernel
def divergence(u: w2, div: f2):
    i, j = dk.tid()
    if i < u.shape[0] - 1 and j < u.shape[1] - 1:
        div[i, j] = u[i + 1, j][0] - u[i, j][0] + u[i, j + 1][1] - u[i, j][1]


@natural((N, N), p=some(2, N, N), div=some(N, N), launches=[{"k": k % 2} for k in range(4)], k=0)
@dk.kernel
def jacobi_pressure(p: f3, div: f2, k: int):
    i, j = dk.tid()
    n, m = div.shape[0], div.shape[1]
    left, right = p[k, (i - 1 + n) % n, j], p[k, (i + 1) % n, j]
    down, up = p[k, i, (j - 1 + m) % m], p[k, i, (j + 1) % m]
    p[1 - k, i, j] = 0.25 * (left + right + down + up - div[i, j])


@natural((5, 5), p=some(5, 5), div=some(5, 5), launches=[{"colour": k % 2} for k in range(3)], colour=0)
@dk.kernel
def red_black_pressure(p: f2, div: f2, colour: int):
    i, j = dk.tid()
    if i > 0 and j > 0 and i < p.shape[0] - 1 and j < p.shape[1] - 1 and (i + j) % 2 == colour:
        p[i, j] = 0.25 * (p[i - 1, j] + p[i + 1, j] + p[i, j - 1] + p[i, j + 1] - div[i, j] * p[i, j])


@natural((N, N), u=some(N, N, 2), p=some(N, N))
@dk.kernel
def project(u: w2, p: f2):
    i, j = dk.tid()
    if i > 0 and j > 0:
        u[i, j] -= dk.vec2d(p[i, j] - p[i - 1, j], p[i, j] - p[i, j - 1])


@natural(1, p=some(N, N), rhs=some(N, N), sweeps=2)
@dk.kernel
def gauss_seidel_pressure(p: f2, rhs: f2, sweeps: int):
    for _ in range(sweeps):
        for i in range(1, p.shape[0] - 1):
            for j in range(1, p.shape[1] - 1):
                p[i, j] = 0.25 * (p[i - 1, j] + p[i + 1, j] + p[i, j - 1] + p[i, j + 1] - rhs[i, j] * p[i, j])


CX = np.array([0, 1, 0, -1, 0, 1, -1, -1, 1])
CY = np.array([0, 0, 1, 0, -1, 1, 1, -1, -1])
W = np.array([4 / 9, *[1 / 9] * 4, *[1 / 36] * 4])
i1 = dk.array(dtype=int)


@natural((3, 3), f=RNG.uniform(0.5, 1, (9, 3, 3)), out=np.zeros((9, 3, 3)), cx=CX, cy=CY, w=W, tau=0.8)
@dk.kernel
def lattice_boltzmann(f: f3, out: f3, cx: i1, cy: i1, w: f1, tau: F):
    i, j = dk.tid()
    n, m = f.shape[1], f.shape[2]
    rho, ux, uy = F(0.0), F(0.0), F(0.0)
    for k in range(9):
        rho += f[k, i, j]
        ux += F(cx[k]) * f[k, i, j]
        uy += F(cy[k]) * f[k, i, j]
    ux /= rho
    uy /= rho
    for k in range(9):
        cu = 3.0 * (F(cx[k]) * ux + F(cy[k]) * uy)
        eq = w[k] * rho * (1.0 + cu + 0.5 * cu * cu - 1.5 * (ux * ux + uy * uy))
        out[k, (i + cx[k] + n) % n, (j + cy[k] + m) % m] = f[k, i, j] - (f[k, i, j] - eq) / tau


@natural((3, 3), f=RNG.uniform(0.5, 1, (9, 3, 3)), cx=CX, cy=CY, w=W, tau=0.8)
@dk.kernel
def lattice_boltzmann_collide(f: f3, cx: i1, cy: i1, w: f1, tau: F):
    i, j = dk.tid()
    rho, ux, uy = F(0.0), F(0.0), F(0.0)
    for k in range(9):
        rho += f[k, i, j]
        ux += F(cx[k]) * f[k, i, j]
        uy += F(cy[k]) * f[k, i, j]
    ux /= rho
    uy /= rho
    for k in range(9):
        cu = 3.0 * (F(cx[k]) * ux + F(cy[k]) * uy)
        eq = w[k] * rho * (1.0 + cu + 0.5 * cu * cu - 1.5 * (ux * ux + uy * uy))
        f[k, i, j] = f[k, i, j] - (f[k, i, j] - eq) / tau


@natural(5, h=RNG.uniform(1, 2, 5), u=some(5), h_new=np.zeros(5), u_new=np.zeros(5), dt=0.1)
@dk.kernel
def shallow_water(h: f1, u: f1, h_new: f1, u_new: f1, dt: F):
    i = dk.tid()
    n = h.shape[0]
    left, r = (i - 1 + n) % n, (i + 1) % n
    speed = dk.max(dk.abs(u[left]) + dk.sqrt(9.8 * h[left]), dk.abs(u[r]) + dk.sqrt(9.8 * h[r]))
    h_new[i] = 0.5 * (h[left] + h[r]) - 0.5 * dt * (h[r] * u[r] - h[left] * u[left])
    u_new[i] = 0.5 * (u[left] + u[r]) - 0.5 * dt * (9.8 * (h[r] - h[left]) + speed * (u[r] - u[left]))


@natural(5, u=some(4, 5), launches=[{"t": t} for t in range(3)], t=0, dt=0.1)
@dk.kernel
def burgers(u: f2, t: int, dt: F):
    i = dk.tid()
    n = u.shape[1]
    here, left, right = u[t, i], u[t, (i + n - 1) % n], u[t, (i + 1) % n]
    if here > 0.0:
        u[t + 1, i] = here - dt * here * (here - left)
    else:
        u[t + 1, i] = here - dt * here * (right - here)


@natural((N, N), t=some(N, N), out=np.zeros((N, N)), k=RNG.uniform(0.1, 0.2, (N, N)))
@dk.kernel
def heat(t: f2, out: f2, k: f2):
    i, j = dk.tid()
    if i == 0 or j == 0 or i == t.shape[0] - 1 or j == t.shape[1] - 1:
        out[i, j] = t[i, j]
        return
    out[i, j] = t[i, j] + k[i, j] * (t[i - 1, j] + t[i + 1, j] + t[i, j - 1] + t[i, j + 1] - 4.0 * t[i, j])


@natural(16, u=some(16), out=np.zeros(16), n=4)
@dk.kernel
def laplacian_flat(u: f1, out: f1, n: int):
    k = dk.tid()
    i = k // n
    j = k % n
    if i > 0 and i < n - 1 and j > 0 and j < n - 1:
        out[i * n + j] = u[k - n] + u[k + n] + u[k - 1] + u[k + 1] - 4.0 * u[k] * u[k]


@natural((N, N), u=some(N, N, 2), f=np.zeros((N, N, 2)), eps=0.3)
@dk.kernel
def vorticity_confinement(u: w2, f: w2, eps: F):
    i, j = dk.tid()
    if i < 1 or j < 1 or i > u.shape[0] - 2 or j > u.shape[1] - 2:
        return
    curl = u[i + 1, j][1] - u[i - 1, j][1] - u[i, j + 1][0] + u[i, j - 1][0]
    size = dk.sqrt(curl * curl + 1e-3)
    f[i, j] = eps * size * dk.vec2d(curl, -curl)


@natural(1, q=some(6), n=6, rows=2, steps=2)
@dk.kernel
def diffuse_in_place(q: f1, n: int, rows: int, steps: int):
    cols = n // rows
    for _ in range(steps):
        for r in range(rows):
            for c in range(1, cols - 1):
                q[r * cols + c] = 0.5 * q[r * cols + c] + 0.25 * (q[r * cols + c - 1] * q[r * cols + c + 1])
