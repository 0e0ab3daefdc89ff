"""Elementwise programs, sums over pairs, transforms and integer programs."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call"

import diffkern as dk

from .ports import port
from .products import F


@dk.func
def arc(theta_1, phi_1, theta_2, phi_2):
    s, t = dk.sin((theta_2 - theta_1) / 2.0), dk.sin((phi_2 - phi_1) / 2.0)
    h = s * s + dk.cos(theta_1) * dk.cos(theta_2) * t * t
    return 2.0 * dk.atan2(dk.sqrt(h), dk.sqrt(1.0 - h))


@port("arc_distance", "theta_1", "phi_1", "theta_2", "phi_2")
def arc_distance(theta_1, phi_1, theta_2, phi_2):
    return (dk.map(arc, theta_1, phi_1, theta_2, phi_2),)


@dk.kernel
def diagonal_sum(a, s):
    i = dk.tid()
    s[0] += dk.tanh(a[i, i])


@port("go_fast", "a")
def go_fast(a):
    s = dk.zeros(1, dtype=a.dtype)
    dk.launch(diagonal_sum, dim=a.shape[0], inputs=[a], outputs=[s])
    return (dk.map(dk.add, a, s),)


@dk.func
def clipped(x, y, a: dk.int64, b: dk.int64, c: dk.int64):
    return dk.clamp(x, dk.int64(2), dk.int64(10)) * a + y * b + c


@port("compute")
def compute(array_1, array_2, a, b, c):
    return (dk.map(clipped, array_1, array_2, dk.int64(a), dk.int64(b), dk.int64(c)),)


POLYNOMIAL = dk.constant(0x8408)


@dk.kernel
def checksum(data, out):
    crc = dk.uint32(0xFFFF)
    for i in range(data.shape[0]):
        byte = dk.uint32(data[i])
        for _ in range(8):
            if ((crc ^ byte) & dk.uint32(1)) != dk.uint32(0):
                crc = (crc >> dk.uint32(1)) ^ dk.uint32(POLYNOMIAL)
            else:
                crc = crc >> dk.uint32(1)
            byte = byte >> dk.uint32(1)
    crc = ~crc & dk.uint32(0xFFFF)
    out[0] = dk.int64(((crc << dk.uint32(8)) | (crc >> dk.uint32(8))) & dk.uint32(0xFFFF))


@port("crc16")
def crc16(data):
    out = dk.zeros(1, dtype=dk.int64)
    dk.launch(checksum, dim=1, inputs=[data], outputs=[out])
    return (out,)


@dk.kernel
def shorter(path, k: int):
    i, j = dk.tid()
    path[i, j] = dk.min(path[i, j], path[i, k] + path[k, j])


@dk.kernel
def shortest_paths(path):
    n = path.shape[0]
    for k in range(n):
        for i in range(n):
            first = path[i, k]
            for j in range(n):
                path[i, j] = dk.min(path[i, j], first + path[k, j])


@port("floyd_warshall")
def floyd_warshall(path):
    dk.launch(shortest_paths, dim=1, inputs=[path])
    return (path,)


@dk.kernel
def fold(seq, table):
    """The best pairing of each stretch of a sequence, shorter stretches first."""
    n = seq.shape[0]
    for i in range(n - 1, -1, -1):
        for j in range(i + 1, n):
            best = dk.max(table[i, j - 1], table[i + 1, j])
            pair = dk.where(seq[i] + seq[j] == 3 and i < j - 1, 1, 0)
            best = dk.max(best, table[i + 1, j - 1] + pair)
            for k in range(i + 1, j):
                best = dk.max(best, table[i, k] + table[k + 1, j])
            table[i, j] = best


@port("nussinov")
def nussinov(N, seq):
    table = dk.zeros((N, N), dtype=dk.int32)
    dk.launch(fold, dim=1, inputs=[seq], outputs=[table])
    return (table,)


@dk.kernel
def escape(z, n, xmin: F, ymin: F, dx: F, dy: F, steps: int, horizon: F):
    """The last step at which the number is within the horizon, 0 if it always is."""
    j, i = dk.tid()
    c = dk.complex(xmin + F(i) * dx, ymin + F(j) * dy)
    w = dk.complex128(0.0)
    last = 0
    k = 0
    while k < steps and w.real * w.real + w.imag * w.imag < horizon * horizon:
        last = k
        w = w * w + c
        k += 1
    z[j, i] = w
    n[j, i] = dk.int64(dk.where(last == steps - 1, 0, last))


@port("mandelbrot1")
def mandelbrot1(xmin, xmax, ymin, ymax, XN, YN, maxiter, horizon):
    z, n = dk.zeros((YN, XN), dtype=dk.complex128), dk.zeros((YN, XN), dtype=dk.int64)
    dx, dy = (xmax - xmin) / (XN - 1), (ymax - ymin) / (YN - 1)
    dk.launch(escape, dim=(YN, XN), inputs=[z, n, xmin, ymin, dx, dy, maxiter, horizon])
    return z, n


@dk.kernel
def escaped(z, n, xmin: F, ymin: F, dx: F, dy: F, steps: int, horizon: F):
    """The step at which the number leaves the horizon, and the number; 0 where it stays."""
    j, i = dk.tid()
    c = dk.complex(xmin + F(i) * dx, ymin + F(j) * dy)
    w = dk.complex128(0.0)
    out = False
    k = 0
    while k < steps and not out:
        w = w * w + c
        k += 1
        out = w.real * w.real + w.imag * w.imag > horizon * horizon
    if out:
        z[j, i] = w
        n[j, i] = dk.int64(k)


@port("mandelbrot2")
def mandelbrot2(xmin, xmax, ymin, ymax, XN, YN, maxiter, horizon):
    z, n = dk.zeros((YN, XN), dtype=dk.complex128), dk.zeros((YN, XN), dtype=dk.int64)
    dx, dy = (xmax - xmin) / (XN - 1), (ymax - ymin) / (YN - 1)
    dk.launch(escaped, dim=(YN, XN), inputs=[z, n, xmin, ymin, dx, dy, maxiter, horizon])
    return z, n


@dk.kernel
def roots_of_one(roots):
    i = dk.tid()
    angle = -6.283185307179586 * F(i) / F(roots.shape[0])
    roots[i] = dk.complex(dk.cos(angle), dk.sin(angle))


@dk.kernel
def butterfly(x, y, roots, count: int, radix: int, rest: int):
    """One stage of a Stockham transform, from the order (block, digit, rest) to (digit, block, rest)."""
    d, b, r = dk.tid()
    s = dk.complex128(0.0)
    turn = (d * count + b) * rest
    for m in range(radix):
        s += roots[m * turn % (count * radix * rest)] * x[(b * radix + m) * rest + r]
    y[(d * count + b) * rest + r] = s


@port("stockham_fft", "x")
def stockham_fft(N, R, K, x, y):
    source, roots = x, dk.zeros(N, dtype=y.dtype)
    dk.launch(roots_of_one, dim=N, inputs=[roots])
    for i in range(K):
        target = y if i == K - 1 else dk.zeros_like(y)
        count, rest = R**i, R ** (K - i - 1)
        dk.launch(butterfly, dim=(R, count, rest), inputs=[source, target, roots, count, R, rest])
        source = target
    return (y,)


@dk.kernel
def to_centre_of_mass(mass, pos, vel):
    n = mass.shape[0]
    total = F(0.0)
    for i in range(n):
        total += mass[i, 0]
    for c in range(3):
        s = F(0.0)
        for i in range(n):
            s += mass[i, 0] * vel[i, c]
        for i in range(n):
            vel[i, c] -= s / total


@dk.kernel
def kick_and_drift(pos, vel, acc, dt: F):
    i, c = dk.tid()
    vel[i, c] += acc[i, c] * dt / 2.0
    pos[i, c] += vel[i, c] * dt


@dk.kernel
def pull(mass, pos, acc, pe, step: int, g: F, softening: F):
    """Accelerations by all others, and each pair's energy once."""
    i = dk.tid()
    x, y, z = pos[i, 0], pos[i, 1], pos[i, 2]
    ax, ay, az, energy = F(0.0), F(0.0), F(0.0), F(0.0)
    for j in range(mass.shape[0]):
        dx, dy, dz = pos[j, 0] - x, pos[j, 1] - y, pos[j, 2] - z
        square = dx * dx + dy * dy + dz * dz
        soft = square + softening * softening
        w = mass[j, 0] / (soft * dk.sqrt(soft))
        ax += dx * w
        ay += dy * w
        az += dz * w
        if j > i:
            energy -= mass[j, 0] / dk.sqrt(square)
    acc[i, 0] = g * ax
    acc[i, 1] = g * ay
    acc[i, 2] = g * az
    pe[step] += g * mass[i, 0] * energy


@dk.kernel
def kick(mass, vel, acc, ke, step: int, dt: F):
    i = dk.tid()
    s = F(0.0)
    for c in range(3):
        v = vel[i, c] + acc[i, c] * dt / 2.0
        vel[i, c] = v
        s += v * v
    ke[step] += 0.5 * mass[i, 0] * s


@port("nbody", "mass", "pos", "vel", check={"tEnd": 0.5})
def nbody(mass, pos, vel, N, Nt, dt, G, softening):
    acc, ke, pe = dk.zeros((N, 3), dtype=F), dk.zeros(Nt + 1, dtype=F), dk.zeros(Nt + 1, dtype=F)
    dk.launch(to_centre_of_mass, dim=1, inputs=[mass, pos, vel])
    dk.launch(pull, dim=N, inputs=[mass, pos, acc, pe, 0, G, softening])
    dk.launch(kick, dim=N, inputs=[mass, vel, acc, ke, 0, 0.0])
    for step in range(1, Nt + 1):
        dk.launch(kick_and_drift, dim=(N, 3), inputs=[pos, vel, acc, dt])
        dk.launch(pull, dim=N, inputs=[mass, pos, acc, pe, step, G, softening])
        dk.launch(kick, dim=N, inputs=[mass, vel, acc, ke, step, dt])
    return ke, pe
