"""Statistics and estimation: filters, hidden Markov models, clustering, histograms, adjustment, registration."""

import numpy as np

import diffkern as dk

from .check import natural

F = dk.float64
f1 = dk.array(dtype=F)
f2 = dk.array(dtype=F, ndim=2)
i1 = dk.array(dtype=int)
v1 = dk.array(dtype=dk.vec3d)
w1 = dk.array(dtype=dk.vec2d)

RNG = np.random.default_rng(8)


def some(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape)


@natural(2, z=some(2, 5), x=np.zeros((2, 2)), p=np.tile(np.eye(2), (2, 1, 1)), q=0.1, r=0.5, dt=0.3)
@dk.kernel
def kalman_filter(z: f2, x: w1, p: dk.array(dtype=dk.mat22d), q: F, r: F, dt: F):
    k = dk.tid()
    a = dk.mat22d(1.0, dt, 0.0, 1.0)
    for t in range(z.shape[1]):
        x[k] = a * x[k]
        p[k] = a * p[k] * dk.transpose(a) + dk.mat22d(q, 0.0, 0.0, q)
        s = p[k][0, 0] + r
        gain = dk.vec2d(p[k][0, 0] / s, p[k][1, 0] / s)
        x[k] = x[k] + gain * (z[k, t] - x[k][0])
        p[k] = p[k] - dk.outer(gain, dk.vec2d(p[k][0, 0], p[k][0, 1]))


@natural(1, z=some(5), x=np.zeros(6), p=np.array([1.0, 0, 0, 0, 0, 0]), q=0.1, r=0.5, loss=np.zeros(1))
@dk.kernel
def kalman_likelihood(z: f1, x: f1, p: f1, q: F, r: F, loss: f1):
    for t in range(z.shape[0]):
        ahead = p[t] + q
        s = ahead + r
        k = ahead / s
        error = z[t] - 0.9 * x[t]
        loss[0] = loss[0] + 0.5 * (dk.log(s) + error * error / s)
        x[t + 1] = 0.9 * x[t] + k * error
        p[t + 1] = (1.0 - k) * ahead


@natural(1, a=RNG.uniform(0.1, 1, (3, 3)), b=RNG.uniform(0.1, 1, (3, 4)), start=RNG.uniform(0.1, 1, 3),
         seen=np.array([0, 2, 1, 3]), alpha=np.zeros((4, 3)), loss=np.zeros(1))  # fmt: skip
@dk.kernel
def hidden_markov(a: f2, b: f2, start: f1, seen: i1, alpha: f2, loss: f1):
    n, steps = a.shape[0], seen.shape[0]
    for j in range(n):
        alpha[0, j] = start[j] * b[j, seen[0]]
    for t in range(1, steps):
        for j in range(n):
            s = F(0.0)
            for i in range(n):
                s += alpha[t - 1, i] * a[i, j]
            alpha[t, j] = s * b[j, seen[t]]
    total = F(0.0)
    for j in range(n):
        total += alpha[steps - 1, j]
    loss[0] = -dk.log(total)


@natural(1, a=RNG.uniform(0.1, 1, (3, 3)), b=RNG.uniform(0.1, 1, (3, 4)), seen=np.array([0, 2, 1, 3]),
         alpha=RNG.uniform(0.1, 1, 3), next=np.zeros(3), loss=np.zeros(1))  # fmt: skip
@dk.kernel
def hidden_markov_scaled(a: f2, b: f2, seen: i1, alpha: f1, next: f1, loss: f1):
    n = a.shape[0]
    for t in range(seen.shape[0]):
        total = F(0.0)
        for j in range(n):
            next[j] = 0.0
            for i in range(n):
                next[j] += alpha[i] * a[i, j]
            next[j] *= b[j, seen[t]]
            total += next[j]
        for j in range(n):
            alpha[j] = next[j] / total
        loss[0] -= dk.log(total)


@natural(1, score=some(4, 3), change=some(3, 3), best=np.zeros((4, 3)))
@dk.kernel
def viterbi(score: f2, change: f2, best: f2):
    n = change.shape[0]
    for j in range(n):
        best[0, j] = score[0, j]
    for t in range(1, score.shape[0]):
        for j in range(n):
            top = best[t - 1, 0] + change[0, j]
            for i in range(1, n):
                top = dk.max(top, best[t - 1, i] + change[i, j])
            best[t, j] = top + score[t, j]


@natural(6, x=some(6, 2), centre=some(3, 2), total=np.zeros((3, 2)), count=np.zeros(3), loss=np.zeros(1))
@dk.kernel
def k_means(x: w1, centre: w1, total: w1, count: f1, loss: f1):
    i = dk.tid()
    best = 0
    least = dk.dot(x[i] - centre[0], x[i] - centre[0])
    for k in range(1, centre.shape[0]):
        d = dk.dot(x[i] - centre[k], x[i] - centre[k])
        if d < least:
            least = d
            best = k
    dk.atomic_add(total, best, x[i])
    dk.atomic_add(count, best, F(1.0))
    loss[0] += least


@natural(4, x=some(4, 2), centre=some(3, 2), r=np.zeros((4, 3)), loss=np.zeros(1), beta=0.7)
@dk.kernel
def gaussian_mixture(x: w1, centre: w1, r: f2, loss: f1, beta: F):
    i = dk.tid()
    total = F(0.0)
    for k in range(centre.shape[0]):
        d = x[i] - centre[k]
        r[i, k] = dk.exp(-beta * dk.dot(d, d))
        total += r[i, k]
    for k in range(centre.shape[0]):
        r[i, k] = r[i, k] / total
    dk.atomic_sub(loss, 0, dk.log(total))


@natural(6, x=RNG.uniform(0.2, 3.8, 6), h=np.zeros(5))
@dk.kernel
def histogram(x: f1, h: f1):
    i = dk.tid()
    k = int(x[i])
    w = x[i] - F(k)
    h[k] += 1.0 - w
    h[k + 1] += w


@natural(1, x=RNG.uniform(0.2, 3.8, 6), h=np.zeros(5), c=np.zeros(5))
@dk.kernel
def histogram_equalisation(x: f1, h: f1, c: f1):
    n = x.shape[0]
    for i in range(n):
        k = int(x[i])
        h[k] += 1.0 - (x[i] - F(k))
        h[k + 1] += x[i] - F(k)
    c[0] = h[0]
    for k in range(1, h.shape[0]):
        c[k] = c[k - 1] + h[k]
    for i in range(n):
        x[i] = c[int(x[i])] / F(n) * x[i]


@natural(4, at=RNG.uniform(0, 4, 4), x=some(6), out=np.zeros(4), width=0.8)
@dk.kernel
def density_estimate(at: f1, x: f1, out: f1, width: F):
    i = dk.tid()
    for j in range(x.shape[0]):
        u = (at[i] - x[j]) / width
        out[i] += dk.exp(-0.5 * u * u) / (width * F(x.shape[0]))


@natural(4, camera=some(2, 6) * 0.2, point=some(3, 3) + [0, 0, 5.0], cam=np.array([0, 0, 1, 1]),
         pt=np.array([0, 1, 1, 2]), seen=some(4, 2) * 0.1, residual=np.zeros((4, 2)), f=1.2)  # fmt: skip
@dk.kernel
def bundle_adjustment(camera: f2, point: v1, cam: i1, pt: i1, seen: w1, residual: w1, f: F):
    k = dk.tid()
    c, x = cam[k], point[pt[k]]
    w = dk.vec3d(camera[c, 0], camera[c, 1], camera[c, 2])
    angle = dk.sqrt(dk.dot(w, w) + 1e-12)
    n = w / angle
    x = x * dk.cos(angle) + dk.cross(n, x) * dk.sin(angle) + n * dk.dot(n, x) * (1.0 - dk.cos(angle))
    x += dk.vec3d(camera[c, 3], camera[c, 4], camera[c, 5])
    residual[k] = dk.vec2d(f * x[0] / x[2], f * x[1] / x[2]) - seen[k]


@natural(4, source=some(4, 3), target=some(5, 3), normal=some(5, 3), pose=some(6) * 0.2, loss=np.zeros(1))
@dk.kernel
def iterative_closest_point(source: v1, target: v1, normal: v1, pose: f1, loss: f1):
    i = dk.tid()
    w = dk.vec3d(pose[0], pose[1], pose[2])
    p = source[i] + dk.cross(w, source[i]) + dk.vec3d(pose[3], pose[4], pose[5])
    best = 0
    least = F(1.0e30)
    for j in range(target.shape[0]):
        d = dk.length(p - target[j])
        if d < least:
            least = d
            best = j
    e = dk.dot(p - target[best], normal[best])
    dk.atomic_add(loss, 0, e * e / (1.0 + e * e))


@natural(1, r=some(6), v=np.array([0.3, 0, 0, 0, 0, 0, 0]), loss=np.zeros(1), par=np.array([0.1, 0.2, 0.6]))
@dk.kernel
def garch(r: f1, v: f1, loss: f1, par: f1):
    for t in range(r.shape[0]):
        v[t + 1] = par[0] + par[1] * r[t] * r[t] + par[2] * v[t]
        loss[0] += 0.5 * (dk.log(v[t + 1]) + r[t] * r[t] / v[t + 1])


@natural(4, x=some(4, 2), w=RNG.uniform(0.2, 1, 4), z=some(1, 2))
@dk.kernel
def particle_filter(x: w1, w: f1, z: w1):
    i = dk.tid()
    d = x[i] - z[0]
    w[i] = w[i] * dk.exp(-0.5 * dk.dot(d, d))
    x[i] = dk.vec2d(x[i][0] + 0.1 * x[i][1], x[i][1] - 0.1 * dk.sin(x[i][0]))


@natural((4, 4), x=some(4, 2), k=np.zeros((4, 4)), scale=some(1), noise=0.1)
@dk.kernel
def gaussian_process(x: w1, k: f2, scale: f1, noise: F):
    i, j = dk.tid()
    d = x[i] - x[j]
    k[i, j] = dk.exp(-dk.dot(d, d) * scale[0] * scale[0])
    if i == j:
        k[i, j] += noise


@natural(4, x=some(4, 3), y=np.array([1, 0, 1, 1]), w=some(3), loss=np.zeros(1))
@dk.kernel
def logistic_regression(x: f2, y: i1, w: f1, loss: f1):
    i = dk.tid()
    s = F(0.0)
    for j in range(w.shape[0]):
        s += w[j] * x[i, j]
    loss[0] += dk.log(1.0 + dk.exp(-s)) if y[i] == 1 else dk.log(1.0 + dk.exp(s))
