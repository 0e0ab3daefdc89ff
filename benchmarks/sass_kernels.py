"""The kernels whose machine code is compared, written once for both libraries.

In: a module with Warp's kernel language (``warp`` or ``diffkern``). Out: its kernels, made from the same text. They
were chosen before anything was measured: maps, stencils, loops, gathers, and scatters as simulations have them. The
annotations are evaluated where the kernel is defined (no ``from __future__ import annotations`` here), because they
name the library through the factory's parameter.
"""
# ruff: noqa: UP018  (Warp needs float(0.0) for what a loop changes)
# mypy: disable-error-code="valid-type, no-untyped-def, name-defined, misc, untyped-decorator"

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Facts:
    """What a kernel is an example of.

    Attributes
    ----------
    kinds
        Some of ``map``, ``stencil``, ``loop``, ``gather``, ``scatter``.
    loads
        Of a kernel with a loop: numbers read from global memory in one trip.
    """

    kinds: tuple[str, ...]
    loads: int = 0


KERNELS: dict[str, Facts] = {
    "wave": Facts(("map",)),
    "particles": Facts(("map",)),
    "price": Facts(("map",)),
    "rotate": Facts(("map",)),
    "heat": Facts(("stencil",)),
    "n_body": Facts(("loop",), 4),
    "matmul": Facts(("loop",), 2),
    "log_sum_exp": Facts(("loop",), 1),
    "convolve": Facts(("loop",), 2),
    "all_pairs": Facts(("loop",), 1),
    "sparse": Facts(("loop", "gather"), 3),
    "mesh_area": Facts(("gather",)),
    "spring_energy": Facts(("gather",)),
    "bilinear": Facts(("gather",)),
    "spring_forces": Facts(("gather", "scatter")),
    "laplacian": Facts(("gather", "scatter")),
}


def make(w: Any) -> dict[str, Any]:
    """Return the kernels of one library, by name."""
    f1 = w.array(dtype=float)
    f2 = w.array2d(dtype=float)
    i1 = w.array(dtype=int)
    i2 = w.array2d(dtype=int)
    v3 = w.array(dtype=w.vec3)
    m3 = w.array(dtype=w.mat33)

    @w.kernel
    def wave(x: f1, y: f1, a: float, z: f1):
        i = w.tid()
        z[i] = w.sin(a * x[i]) + y[i] * w.exp(-x[i] * x[i])

    @w.kernel
    def particles(x: v3, v: v3, inv_mass: f1, gravity: w.vec3, dt: float, x_new: v3, v_new: v3):
        i = w.tid()
        speed = v[i] + (gravity - 0.5 * v[i]) * (inv_mass[i] * dt)
        v_new[i] = speed
        x_new[i] = x[i] + speed * dt

    @w.kernel
    def price(spot: f1, strike: f1, rate: float, vol: float, years: float, out: f1):
        i = w.tid()
        spread = vol * w.sqrt(years)
        d1 = (w.log(spot[i] / strike[i]) + (rate + 0.5 * vol * vol) * years) / spread
        d2 = d1 - spread
        n1 = 1.0 / (1.0 + w.exp(-1.702 * d1))
        n2 = 1.0 / (1.0 + w.exp(-1.702 * d2))
        out[i] = spot[i] * n1 - strike[i] * w.exp(-rate * years) * n2

    @w.kernel
    def rotate(m: m3, x: v3, y: v3):
        i = w.tid()
        y[i] = m[i] * x[i]

    @w.kernel
    def heat(u: f2, k: float, out: f2):
        i, j = w.tid()
        rows = u.shape[0]
        columns = u.shape[1]
        if i > 0 and i < rows - 1 and j > 0 and j < columns - 1:
            out[i, j] = u[i, j] + k * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1] - 4.0 * u[i, j])
        else:
            out[i, j] = u[i, j]

    @w.kernel
    def n_body(position: v3, mass: f1, n: int, acceleration: v3):
        i = w.tid()
        here = position[i]
        total = w.vec3(0.0, 0.0, 0.0)
        for j in range(n):
            d = position[j] - here
            inverse = 1.0 / w.sqrt(w.dot(d, d) + 0.01)
            total += d * (mass[j] * inverse * inverse * inverse)
        acceleration[i] = total

    @w.kernel
    def matmul(a: f2, b: f2, n: int, c: f2):
        i, j = w.tid()
        total = float(0.0)
        for k in range(n):
            total += a[i, k] * b[k, j]
        c[i, j] = total

    @w.kernel
    def log_sum_exp(x: f2, n: int, out: f1):
        i = w.tid()
        total = float(0.0)
        for k in range(n):
            total += w.exp(x[i, k])
        out[i] = w.log(total)

    @w.kernel
    def convolve(x: f1, taps: f1, n: int, y: f1):
        i = w.tid()
        total = float(0.0)
        for k in range(n):
            total += x[i + k] * taps[k]
        y[i] = total

    @w.kernel
    def all_pairs(x: f1, n: int, y: f1):
        i = w.tid()
        total = float(0.0)
        for j in range(n):
            d = x[i] - x[j]
            total += d / (d * d + 0.5)
        y[i] = total

    @w.kernel
    def sparse(start: i1, column: i1, value: f1, x: f1, y: f1):
        i = w.tid()
        total = float(0.0)
        for k in range(start[i], start[i + 1]):
            total += value[k] * x[column[k]]
        y[i] = total

    @w.kernel
    def mesh_area(vertex: v3, face: i2, energy: f1):
        t = w.tid()
        a = vertex[face[t, 0]]
        b = vertex[face[t, 1]]
        c = vertex[face[t, 2]]
        w.atomic_add(energy, 0, 0.5 * w.length(w.cross(b - a, c - a)))

    @w.kernel
    def spring_energy(x: v3, left: i1, right: i1, rest: f1, k: float, energy: f1):
        e = w.tid()
        stretch = w.length(x[left[e]] - x[right[e]]) - rest[e]
        w.atomic_add(energy, 0, 0.5 * k * stretch * stretch)

    @w.kernel
    def bilinear(image: f2, px: f1, py: f1, out: f1):
        i = w.tid()
        fx = w.floor(px[i])
        fy = w.floor(py[i])
        a = int(fx)
        b = int(fy)
        u = px[i] - fx
        v = py[i] - fy
        low = image[b, a] * (1.0 - u) + image[b, a + 1] * u
        high = image[b + 1, a] * (1.0 - u) + image[b + 1, a + 1] * u
        out[i] = low * (1.0 - v) + high * v

    @w.kernel
    def spring_forces(x: v3, left: i1, right: i1, rest: f1, k: float, force: v3):
        e = w.tid()
        d = x[left[e]] - x[right[e]]
        size = w.length(d)
        f = d * (k * (size - rest[e]) / size)
        w.atomic_sub(force, left[e], f)
        w.atomic_add(force, right[e], f)

    @w.kernel
    def laplacian(u: f1, left: i1, right: i1, weight: f1, out: f1):
        e = w.tid()
        a = left[e]
        b = right[e]
        flow = weight[e] * (u[b] - u[a])
        w.atomic_add(out, a, flow)
        w.atomic_sub(out, b, flow)

    found = dict(locals())
    return {name: found[name] for name in KERNELS}
