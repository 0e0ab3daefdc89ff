"""Graphics: distance fields, rasterising, volumes, curves, images."""

import numpy as np

import diffkern as dk

from .check import natural

F = dk.float64
f1 = dk.array(dtype=F)
f2 = dk.array(dtype=F, ndim=2)
f3 = dk.array(dtype=F, ndim=3)
i1 = dk.array(dtype=int)
v1 = dk.array(dtype=dk.vec3d)
w1 = dk.array(dtype=dk.vec2d)

RNG = np.random.default_rng(7)


def some(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape)


@dk.func
def scene(p: dk.vec3d, centre: v1, radius: f1):
    d = p[1] + 1.0
    for k in range(centre.shape[0]):
        s = dk.length(p - centre[k]) - radius[k]
        h = dk.clamp(0.5 + 0.5 * (s - d) / 0.2, 0.0, 1.0)
        d = d * h + s * (1.0 - h) - 0.2 * h * (1.0 - h)
    return d


@natural((3, 3), centre=np.array([[0.1, 0.2, 0.0], [0.5, -0.3, 0.4]]), radius=np.array([0.6, 0.4]),
         image=np.zeros((3, 3)), steps=12)  # fmt: skip
@dk.kernel
def sdf_render(centre: v1, radius: f1, image: f2, steps: int):
    i, j = dk.tid()
    o = dk.vec3d(0.0, 0.0, -2.5)
    ray = dk.normalize(dk.vec3d(0.3 * F(j) - 0.25, 0.3 * F(i) - 0.25, 1.0))
    t = F(0.0)
    for _ in range(steps):
        t += scene(o + t * ray, centre, radius)
    p = o + t * ray
    e = F(1e-3)
    n = dk.normalize(
        dk.vec3d(
            scene(p + dk.vec3d(e, 0.0, 0.0), centre, radius) - scene(p - dk.vec3d(e, 0.0, 0.0), centre, radius),
            scene(p + dk.vec3d(0.0, e, 0.0), centre, radius) - scene(p - dk.vec3d(0.0, e, 0.0), centre, radius),
            scene(p + dk.vec3d(0.0, 0.0, e), centre, radius) - scene(p - dk.vec3d(0.0, 0.0, e), centre, radius),
        )
    )
    image[i, j] = dk.max(dk.dot(n, dk.normalize(dk.vec3d(0.4, 1.0, -0.7))), 0.0) + 0.1 * t


@natural((3, 3), centre=np.array([[0.1, 0.2, 0.0]]), radius=np.array([0.8]), depth=np.zeros((3, 3)))
@dk.kernel
def sphere_tracing(centre: v1, radius: f1, depth: f2):
    i, j = dk.tid()
    ray = dk.normalize(dk.vec3d(0.3 * F(j) - 0.25, 0.3 * F(i) - 0.25, 1.0))
    t = F(0.0)
    d = F(1.0)
    k = 0
    while d > 1e-9 and k < 40:
        d = scene(dk.vec3d(0.0, 0.0, -2.5) + t * ray, centre, radius)
        t += d
        k += 1
    depth[i, j] = t


@natural((4, 4), a=some(2, 2), b=some(2, 2), c=some(2, 2), colour=some(2), image=np.zeros((4, 4)), sigma=0.3)
@dk.kernel
def soft_rasteriser(a: w1, b: w1, c: w1, colour: f1, image: f2, sigma: F):
    i, j = dk.tid()
    p = dk.vec2d(0.5 * F(j) - 0.8, 0.5 * F(i) - 0.8)
    empty = F(1.0)
    for k in range(a.shape[0]):
        u, v, w = b[k] - a[k], c[k] - b[k], a[k] - c[k]
        e0 = u[0] * (p[1] - a[k][1]) - u[1] * (p[0] - a[k][0])
        e1 = v[0] * (p[1] - b[k][1]) - v[1] * (p[0] - b[k][0])
        e2 = w[0] * (p[1] - c[k][1]) - w[1] * (p[0] - c[k][0])
        inside = 1.0 / (1.0 + dk.exp(-dk.min(e0, dk.min(e1, e2)) / sigma))
        image[i, j] += inside * colour[k] * empty
        empty *= 1.0 - inside


@natural(4, density=RNG.uniform(0, 1, (4, 6)), colour=some(4, 6), out=np.zeros(4), step=0.3)
@dk.kernel
def volume_render(density: f2, colour: f2, out: f1, step: F):
    r = dk.tid()
    through, total = F(1.0), F(0.0)
    for k in range(density.shape[1]):
        alpha = 1.0 - dk.exp(-density[r, k] * step)
        total += through * alpha * colour[r, k]
        through *= 1.0 - alpha
        if through < 0.05:
            break
    out[r] = total


@natural(4, density=RNG.uniform(0, 1, (4, 6)), through=np.ones((4, 7)), step=0.3)
@dk.kernel
def transmittance_in_place(density: f2, through: f2, step: F):
    r = dk.tid()
    for k in range(density.shape[1]):
        through[r, k + 1] = through[r, k] * dk.exp(-density[r, k] * step)


@natural(4, grid=some(3, 3, 3), p=RNG.uniform(0, 1.9, (4, 3)), out=np.zeros(4))
@dk.kernel
def trilinear(grid: f3, p: v1, out: f1):
    k = dk.tid()
    x, y, z = p[k][0], p[k][1], p[k][2]
    i, j, m = int(x), int(y), int(z)
    fx, fy, fz = x - F(i), y - F(j), z - F(m)
    for a in range(2):
        for b in range(2):
            for c in range(2):
                w = (fx if a == 1 else 1.0 - fx) * (fy if b == 1 else 1.0 - fy) * (fz if c == 1 else 1.0 - fz)
                out[k] += w * grid[i + a, j + b, m + c]


@natural(3, c=some(4, 2), t=RNG.uniform(0, 1, 3), work=np.zeros((3, 4, 2)), p=np.zeros((3, 2)))
@dk.kernel
def de_casteljau(c: w1, t: f1, work: dk.array(dtype=dk.vec2d, ndim=2), p: w1):
    k = dk.tid()
    n = c.shape[0]
    for i in range(n):
        work[k, i] = c[i]
    for r in range(1, n):
        for i in range(n - r):
            work[k, i] = (1.0 - t[k]) * work[k, i] + t[k] * work[k, i + 1]
    p[k] = work[k, 0]


@natural(3, knot=np.array([0.0, 0, 0, 0.4, 1, 1, 1]), c=some(4), t=np.array([0.1, 0.5, 0.8]), b=np.zeros((3, 3, 6)),
         out=np.zeros(3))  # fmt: skip
@dk.kernel
def cox_de_boor(knot: f1, c: f1, t: f1, b: f3, out: f1):
    k = dk.tid()
    m = knot.shape[0] - 1
    for i in range(m):
        b[k, 0, i] = 1.0 if knot[i] <= t[k] and t[k] < knot[i + 1] else 0.0
    for p in range(1, 3):
        for i in range(m - p):
            left, right = knot[i + p] - knot[i], knot[i + p + 1] - knot[i + 1]
            total = F(0.0)
            if left > 1e-3:
                total += (t[k] - knot[i]) / left * b[k, p - 1, i]
            if right > 1e-3:
                total += (knot[i + p + 1] - t[k]) / right * b[k, p - 1, i + 1]
            b[k, p, i] = total
    for i in range(c.shape[0]):
        out[k] += c[i] * b[k, 2, i]


@natural((3, 3), image=some(5, 5), out=np.zeros((3, 3)), a=some(2, 2) * 0.2 + np.eye(2), shift=some(1, 2) * 0.2)
@dk.kernel
def warp_image(image: f2, out: f2, a: f2, shift: f2):
    i, j = dk.tid()
    x = a[0, 0] * F(i) + a[0, 1] * F(j) + shift[0, 0] + 1.0
    y = a[1, 0] * F(i) + a[1, 1] * F(j) + shift[0, 1] + 1.0
    k, m = int(dk.floor(x)), int(dk.floor(y))
    if k < 0 or m < 0 or k >= image.shape[0] - 1 or m >= image.shape[1] - 1:
        return
    u, v = x - F(k), y - F(m)
    top = (1.0 - v) * image[k, m] + v * image[k, m + 1]
    bottom = (1.0 - v) * image[k + 1, m] + v * image[k + 1, m + 1]
    out[i, j] = (1.0 - u) * top + u * bottom


@natural(3, centre=RNG.uniform(0, 3, (3, 2)), weight=some(3), image=np.zeros((4, 4)), sigma=0.7)
@dk.kernel
def gaussian_splat(centre: w1, weight: f1, image: f2, sigma: F):
    k = dk.tid()
    for i in range(image.shape[0]):
        for j in range(image.shape[1]):
            d = centre[k] - dk.vec2d(F(i), F(j))
            image[i, j] += weight[k] * dk.exp(-dk.dot(d, d) / (2.0 * sigma * sigma))


@natural(6, pixel=np.array([0, 3, 3, 1, 0, 2]), sample=some(6), weight=RNG.uniform(0.5, 1, 6), image=np.zeros(4),
         total=np.zeros(4))  # fmt: skip
@dk.kernel
def accumulate_image(pixel: i1, sample: f1, weight: f1, image: f1, total: f1):
    k = dk.tid()
    dk.atomic_add(image, pixel[k], weight[k] * sample[k])
    dk.atomic_add(total, pixel[k], weight[k])


@natural(4, normal=some(4, 3), light=some(1, 3), view=some(1, 3), out=np.zeros(4), shine=5.0)
@dk.kernel
def phong(normal: v1, light: v1, view: v1, out: f1, shine: F):
    i = dk.tid()
    n, to, v = dk.normalize(normal[i]), dk.normalize(light[0]), dk.normalize(view[0])
    diffuse = dk.dot(n, to)
    if diffuse > 0.0:
        r = 2.0 * diffuse * n - to
        out[i] = diffuse + dk.pow(dk.max(dk.dot(r, v), 1e-3), shine)


@natural((3, 3), image=some(3, 3), passes=2)
@dk.kernel
def tone_map_in_place(image: f2, passes: int):
    i, j = dk.tid()
    for _ in range(passes):
        image[i, j] = image[i, j] * image[i, j] / (1.0 + image[i, j] * image[i, j])
