"""Mechanics: particles, cloth, contact, rigid bodies, finite elements, material points."""

import numpy as np

import diffkern as dk

from .check import natural

F = dk.float64
f1 = dk.array(dtype=F)
f2 = dk.array(dtype=F, ndim=2)
i1 = dk.array(dtype=int)
i2 = dk.array(dtype=int, ndim=2)
v1 = dk.array(dtype=dk.vec3d)
w1 = dk.array(dtype=dk.vec2d)
m1 = dk.array(dtype=dk.mat22d)

RNG = np.random.default_rng(4)


def some(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape)


@natural(4, x=some(4, 3), v=some(4, 3), f=np.zeros((4, 3)), a=np.array([0, 1, 2, 0]), b=np.array([1, 2, 3, 3]),
         rest=RNG.uniform(0.5, 1, 4), k=20.0, damping=0.3)  # fmt: skip
@dk.kernel
def mass_spring_forces(x: v1, v: v1, f: v1, a: i1, b: i1, rest: f1, k: F, damping: F):
    s = dk.tid()
    i, j = a[s], b[s]
    d = x[j] - x[i]
    length = dk.length(d)
    n = d / length
    force = (k * (length - rest[s]) + damping * dk.dot(v[j] - v[i], n)) * n
    dk.atomic_add(f, i, force)
    dk.atomic_sub(f, j, force)


@natural(4, x=some(4, 3), v=some(4, 3), f=some(4, 3), m=RNG.uniform(1, 2, 4), dt=0.1)
@dk.kernel
def symplectic_euler(x: v1, v: v1, f: v1, m: f1, dt: F):
    i = dk.tid()
    v[i] = v[i] + dt * f[i] / m[i]
    x[i] = x[i] + dt * v[i]


@natural(1, x=some(5), v=some(5), k=RNG.uniform(1, 2, 4), dt=0.1, steps=4)
@dk.kernel
def mass_spring_chain(x: f1, v: f1, k: f1, dt: F, steps: int):
    n = x.shape[0]
    for _ in range(steps):
        for i in range(n - 1):
            stretch = x[i + 1] - x[i] - 1.0
            v[i] = v[i] + dt * k[i] * stretch * (1.0 + stretch * stretch)
            v[i + 1] = v[i + 1] - dt * k[i] * stretch * (1.0 + stretch * stretch)
        for i in range(n):
            x[i] = x[i] + dt * v[i]


@natural(5, x=some(6, 5), v=some(6, 5), k=RNG.uniform(1, 2, 5), launches=[{"t": t} for t in range(5)], t=0, dt=0.1)
@dk.kernel
def mass_spring_in_time(x: f2, v: f2, k: f1, t: int, dt: F):
    i = dk.tid()
    n = k.shape[0]
    f = -k[i] * x[t, i] * x[t, i] * x[t, i]
    if i > 0:
        f += k[i - 1] * (x[t, i - 1] - x[t, i])
    if i < n - 1:
        f += k[i] * (x[t, i + 1] - x[t, i])
    v[t + 1, i] = v[t, i] + dt * f
    x[t + 1, i] = x[t, i] + dt * v[t + 1, i]


@natural((3, 3), x=some(3, 3, 3), v=some(3, 3, 3), k=8.0, rest=1.0, dt=0.05)
@dk.kernel
def cloth(x: dk.array(dtype=dk.vec3d, ndim=2), v: dk.array(dtype=dk.vec3d, ndim=2), k: F, rest: F, dt: F):
    i, j = dk.tid()
    n, m = x.shape[0], x.shape[1]
    f = dk.vec3d(0.0, -9.8, 0.0)
    for di in range(-1, 2):
        for dj in range(-1, 2):
            a, b = i + di, j + dj
            if (di != 0 or dj != 0) and a >= 0 and a < n and b >= 0 and b < m:
                d = x[a, b] - x[i, j]
                length = dk.length(d)
                f += k * (length - rest) * d / length
    v[i, j] += dt * f


@natural(2, x=some(4, 3), tri=np.array([[0, 1, 2], [1, 3, 2]]), energy=np.zeros(1), rest=RNG.uniform(0.5, 1, 2), k=3.0)
@dk.kernel
def cloth_stretch(x: v1, tri: i2, energy: f1, rest: f1, k: F):
    t = dk.tid()
    a, b, c = x[tri[t, 0]], x[tri[t, 1]], x[tri[t, 2]]
    area = 0.5 * dk.length(dk.cross(b - a, c - a))
    energy[0] += 0.5 * k * (area - rest[t]) * (area - rest[t])


@natural(1, x=some(6, 3), hinge=np.array([[0, 1, 2, 3], [2, 1, 4, 5]]), energy=np.zeros(1))
@dk.kernel
def cloth_bending(x: v1, hinge: i2, energy: f1):
    for h in range(hinge.shape[0]):
        edge = x[hinge[h, 1]] - x[hinge[h, 0]]
        n1 = dk.normalize(dk.cross(edge, x[hinge[h, 2]] - x[hinge[h, 0]]))
        n2 = dk.normalize(dk.cross(x[hinge[h, 3]] - x[hinge[h, 0]], edge))
        energy[0] += 1.0 - dk.dot(n1, n2)


@natural(5, x=some(5, 3), v=some(5, 3), f=np.zeros((5, 3)), ke=50.0, kd=2.0, mu=0.5)
@dk.kernel
def ground_contact(x: v1, v: v1, f: v1, ke: F, kd: F, mu: F):
    i = dk.tid()
    depth = x[i][1]
    if depth < 0.0:
        fn = -ke * depth - kd * dk.min(v[i][1], 0.0)
        vt = dk.vec3d(v[i][0], 0.0, v[i][2])
        speed = dk.length(vt)
        f[i] = dk.vec3d(0.0, fn, 0.0) - vt * dk.min(kd, mu * fn / (speed + 1e-6))


@natural(4, x=some(4, 2) * 0.3, f=np.zeros((4, 2)), radius=0.6, k=10.0)
@dk.kernel
def particle_contact(x: w1, f: w1, radius: F, k: F):
    i = dk.tid()
    for j in range(x.shape[0]):
        if j != i:
            d = x[i] - x[j]
            overlap = radius - dk.length(d)
            if overlap > 0.0:
                f[i] += k * overlap * dk.normalize(d)


@natural(1, x=some(4, 3), w=np.array([0.0, 1, 1, 1]), rest=0.7, sweeps=3)
@dk.kernel
def rope_constraints(x: v1, w: f1, rest: F, sweeps: int):
    for _ in range(sweeps):
        for i in range(x.shape[0] - 1):
            d = x[i + 1] - x[i]
            length = dk.length(d)
            push = (length - rest) / (w[i] + w[i + 1]) * d / length
            x[i] = x[i] + w[i] * push
            x[i + 1] = x[i + 1] - w[i + 1] * push


@natural(4, x=some(4, 3), f=np.zeros((4, 3)), m=RNG.uniform(1, 2, 4), eps=0.1)
@dk.kernel
def n_body(x: v1, f: v1, m: f1, eps: F):
    i = dk.tid()
    a = dk.vec3d()
    for j in range(x.shape[0]):
        d = x[j] - x[i]
        r = dk.dot(d, d) + eps
        a += m[j] * d / (r * dk.sqrt(r))
    f[i] = m[i] * a


@natural(5, x=some(5, 2), rho=np.zeros(5), p=np.zeros(5), m=RNG.uniform(1, 2, 5), h=1.5)
@dk.kernel
def sph_density(x: w1, rho: f1, p: f1, m: f1, h: F):
    i = dk.tid()
    total = F(0.0)
    for j in range(x.shape[0]):
        d = x[i] - x[j]
        q = h * h - dk.dot(d, d)
        if q > 0.0:
            total += m[j] * q * q * q
    rho[i] = total
    p[i] = 2.0 * (dk.pow(total / 3.0, 1.4) - 1.0)


@natural(5, x=some(5, 2), v=some(5, 2), rho=RNG.uniform(1, 2, 5), p=some(5), acc=np.zeros((5, 2)), h=1.5, mu=0.3)
@dk.kernel
def sph_forces(x: w1, v: w1, rho: f1, p: f1, acc: w1, h: F, mu: F):
    i = dk.tid()
    for j in range(x.shape[0]):
        if i == j:
            continue
        d = x[i] - x[j]
        r = dk.length(d)
        if r < h:
            w = (h - r) * (h - r)
            acc[i] -= (p[i] / (rho[i] * rho[i]) + p[j] / (rho[j] * rho[j])) * w * d / r
            acc[i] += mu * (v[j] - v[i]) / rho[j] * (h - r)


@natural(3, x=RNG.uniform(1, 3, (3, 2)), v=some(3, 2), c=some(3, 2, 2), m=RNG.uniform(1, 2, 3),
         grid_v=np.zeros((5, 5, 2)), grid_m=np.zeros((5, 5)))  # fmt: skip
@dk.kernel
def mpm_p2g(x: w1, v: w1, c: m1, m: f1, grid_v: dk.array(dtype=dk.vec2d, ndim=2), grid_m: f2):
    p = dk.tid()
    base_i, base_j = int(x[p][0] - 0.5), int(x[p][1] - 0.5)
    fx = x[p] - dk.vec2d(F(base_i), F(base_j))
    wx = dk.vec3d(0.5 * (1.5 - fx[0]) ** 2, 0.75 - (fx[0] - 1.0) ** 2, 0.5 * (fx[0] - 0.5) ** 2)
    wy = dk.vec3d(0.5 * (1.5 - fx[1]) ** 2, 0.75 - (fx[1] - 1.0) ** 2, 0.5 * (fx[1] - 0.5) ** 2)
    for i in range(3):
        for j in range(3):
            dpos = dk.vec2d(F(i), F(j)) - fx
            weight = wx[i] * wy[j]
            dk.atomic_add(grid_v, base_i + i, base_j + j, weight * m[p] * (v[p] + c[p] * dpos))
            dk.atomic_add(grid_m, base_i + i, base_j + j, weight * m[p])


@natural(3, x=RNG.uniform(1, 3, (3, 2)), v=some(3, 2), c=some(3, 2, 2), jac=RNG.uniform(0.9, 1.1, 3),
         grid_v=some(5, 5, 2), dt=0.05)  # fmt: skip
@dk.kernel
def mpm_g2p(x: w1, v: w1, c: m1, jac: f1, grid_v: dk.array(dtype=dk.vec2d, ndim=2), dt: F):
    p = dk.tid()
    base_i, base_j = int(x[p][0] - 0.5), int(x[p][1] - 0.5)
    fx = x[p] - dk.vec2d(F(base_i), F(base_j))
    wx = dk.vec3d(0.5 * (1.5 - fx[0]) ** 2, 0.75 - (fx[0] - 1.0) ** 2, 0.5 * (fx[0] - 0.5) ** 2)
    wy = dk.vec3d(0.5 * (1.5 - fx[1]) ** 2, 0.75 - (fx[1] - 1.0) ** 2, 0.5 * (fx[1] - 0.5) ** 2)
    new_v = dk.vec2d()
    new_c = dk.mat22d()
    for i in range(3):
        for j in range(3):
            dpos = dk.vec2d(F(i), F(j)) - fx
            g = grid_v[base_i + i, base_j + j]
            weight = wx[i] * wy[j]
            new_v += weight * g
            new_c += 4.0 * weight * dk.outer(g, dpos)
    v[p] = new_v
    c[p] = new_c
    jac[p] *= 1.0 + dt * dk.trace(new_c)
    x[p] += dt * new_v


@natural((5, 5), grid_v=some(5, 5, 2), grid_m=RNG.uniform(0, 2, (5, 5)), dt=0.05)
@dk.kernel
def mpm_grid(grid_v: dk.array(dtype=dk.vec2d, ndim=2), grid_m: f2, dt: F):
    i, j = dk.tid()
    if grid_m[i, j] > 0.1:
        grid_v[i, j] /= grid_m[i, j]
        grid_v[i, j] -= dk.vec2d(0.0, 9.8 * dt)
    if i < 2 and grid_v[i, j][0] < 0.0:
        grid_v[i, j] = dk.vec2d(0.0, grid_v[i, j][1])


@natural(2, x=some(4, 3), tet=np.array([[0, 1, 2, 3], [3, 2, 1, 0]]), inverse=some(2, 3, 3) + 2 * np.eye(3),
         energy=np.zeros(1), mu=1.0, la=0.5)  # fmt: skip
@dk.kernel
def neo_hookean(x: v1, tet: i2, inverse: dk.array(dtype=dk.mat33d), energy: f1, mu: F, la: F):
    t = dk.tid()
    o = x[tet[t, 0]]
    a, b, c = x[tet[t, 1]] - o, x[tet[t, 2]] - o, x[tet[t, 3]] - o
    ds = dk.mat33d(a[0], b[0], c[0], a[1], b[1], c[1], a[2], b[2], c[2])
    f = ds * inverse[t]
    j = dk.determinant(f)
    log_j = dk.log(dk.abs(j) + 0.5)
    energy[0] += 0.5 * mu * (dk.ddot(f, f) - 3.0) - mu * log_j + 0.5 * la * log_j * log_j


@natural(2, q=some(2, 4), w=some(2, 3), inertia=RNG.uniform(1, 2, (2, 3)), torque=some(2, 3), dt=0.1)
@dk.kernel
def rigid_body(q: dk.array(dtype=dk.quatd), w: v1, inertia: v1, torque: v1, dt: F):
    i = dk.tid()
    local = dk.quat_rotate_inv(q[i], w[i])
    moment = dk.cw_mul(inertia[i], local)
    change = dk.cw_div(dk.quat_rotate_inv(q[i], torque[i]) - dk.cross(local, moment), inertia[i])
    local += dt * change
    w[i] = dk.quat_rotate(q[i], local)
    spin = dk.quatd(w[i][0], w[i][1], w[i][2], 0.0)
    q[i] = dk.normalize(q[i] + spin * q[i] * (0.5 * dt))


@natural(1, state=np.vstack([[0.3, 0.1, 0.4, -0.2], np.zeros((4, 4))]), dt=0.05, steps=4)
@dk.kernel
def double_pendulum(state: f2, dt: F, steps: int):
    for t in range(steps):
        a, b, p, q = state[t, 0], state[t, 1], state[t, 2], state[t, 3]
        c, s = dk.cos(a - b), dk.sin(a - b)
        det = 2.0 - c * c
        pa = (-s * q * q - 2.0 * 9.8 * dk.sin(a) - c * (s * p * p - 9.8 * dk.sin(b))) / det
        qa = (2.0 * (s * p * p - 9.8 * dk.sin(b)) + c * (s * q * q + 2.0 * 9.8 * dk.sin(a))) / det
        state[t + 1, 2] = p + dt * pa
        state[t + 1, 3] = q + dt * qa
        state[t + 1, 0] = a + dt * state[t + 1, 2]
        state[t + 1, 1] = b + dt * state[t + 1, 3]


@natural(2, angle=some(2, 4), length=RNG.uniform(0.5, 1, 4), tip=np.zeros((2, 2)))
@dk.kernel
def robot_arm(angle: f2, length: f1, tip: w1):
    k = dk.tid()
    total = F(0.0)
    for j in range(angle.shape[1]):
        total += angle[k, j]
        tip[k] += length[j] * dk.vec2d(dk.cos(total), dk.sin(total))
