"""Kernels of the launches that the model is checked on, beside those of the other benchmarks."""

import diffkern as dk

Floats = dk.array(dtype=float)
Ints = dk.array(dtype=int)
N = dk.constant(32)


@dk.kernel
def lookup(at: Ints, table: Floats, y: Floats):
    i = dk.tid()
    v = table[at[i]]
    y[i] = v * v + 1.0


@dk.kernel(enable_backward=False)
def histogram(x: Floats, bins: int, counts: Floats):
    i = dk.tid()
    dk.atomic_add(counts, int(x[i] * float(bins)), 1.0)


@dk.kernel
def dot(x: Floats, y: Floats, total: Floats):
    i = dk.tid()
    dk.atomic_add(total, 0, x[i] * y[i])


@dk.kernel
def products(x: dk.array3d(dtype=float), y: dk.array3d(dtype=float), z: dk.array3d(dtype=float)):
    i = dk.tid()
    a = dk.tile_load(x[i], shape=(N, N))
    b = dk.tile_load(y[i], shape=(N, N))
    dk.tile_store(z[i], dk.tile_matmul(a, b))


@dk.func
def weight(f: float, k: int):
    if k == 0:
        return 0.5 * (1.5 - f) * (1.5 - f)
    if k == 1:
        return 0.75 - (f - 1.0) * (f - 1.0)
    return 0.5 * (f - 0.5) * (f - 0.5)


@dk.kernel
def particles_to_grid(x: dk.array(dtype=dk.vec2), v: dk.array(dtype=dk.vec2), cells: int, mass: dk.array2d(dtype=float),
                      momentum: dk.array2d(dtype=dk.vec2)):  # fmt: skip
    p = dk.tid()
    here = x[p] * float(cells)
    i = int(here[0] - 0.5)
    j = int(here[1] - 0.5)
    f = here - dk.vec2(float(i), float(j))
    for a in range(3):
        for b in range(3):
            w = weight(f[0], a) * weight(f[1], b)
            dk.atomic_add(mass, i + a, j + b, w)
            dk.atomic_add(momentum, i + a, j + b, w * v[p])


@dk.kernel
def grid_to_particles(x: dk.array(dtype=dk.vec2), cells: int, velocity: dk.array2d(dtype=dk.vec2),
                      v: dk.array(dtype=dk.vec2)):  # fmt: skip
    p = dk.tid()
    here = x[p] * float(cells)
    i = int(here[0] - 0.5)
    j = int(here[1] - 0.5)
    f = here - dk.vec2(float(i), float(j))
    total = dk.vec2(0.0, 0.0)
    for a in range(3):
        for b in range(3):
            total += weight(f[0], a) * weight(f[1], b) * velocity[i + a, j + b]
    v[p] = total


@dk.kernel
def escape(c: dk.array(dtype=dk.vec2), most: int, y: Floats):
    i = dk.tid()
    a, b = c[i][0], c[i][1]
    u, v = 0.0, 0.0
    trips = 0
    while trips < most and u * u + v * v < 4.0:
        u, v = u * u - v * v + a, 2.0 * u * v + b
        trips += 1
    y[i] = u * u + v * v


@dk.kernel
def recurrence(x: Floats, trips: int, rate: float, y: Floats):
    i = dk.tid()
    value = x[i]
    for _ in range(trips):
        value = rate * value * (1.0 - value)
    y[i] = value


@dk.func
def pull(d: dk.vec3, stiffness: float, rest: float):
    return d * (stiffness * (1.0 - rest / dk.length(d)))


Points = dk.array2d(dtype=dk.vec3)


@dk.kernel
def cloth(x: Points, v: Points, side: int, dt: float, x_out: Points, v_out: Points):
    i, j = dk.tid()
    here = x[i, j]
    force = dk.vec3(0.0, -9.8, 0.0) - 0.5 * v[i, j]
    if i > 0:
        force += pull(x[i - 1, j] - here, 200.0, 0.05)
    if i < side - 1:
        force += pull(x[i + 1, j] - here, 200.0, 0.05)
    if j > 0:
        force += pull(x[i, j - 1] - here, 200.0, 0.05)
    if j < side - 1:
        force += pull(x[i, j + 1] - here, 200.0, 0.05)
    new = v[i, j] + dt * force
    v_out[i, j] = new
    x_out[i, j] = here + dt * new
