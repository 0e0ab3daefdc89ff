"""The kernels that are compared, written once for both libraries.

In: a module with Warp's kernel language (``warp`` or ``diffkern``). Out: its kernels, made from the same text.
The annotations are evaluated where the kernel is defined (no ``from __future__ import annotations`` here), because they
name the library through the factory's parameter.
"""
# mypy: disable-error-code="valid-type, no-untyped-def, name-defined, misc, untyped-decorator"

from types import SimpleNamespace
from typing import Any


def make(w: Any) -> SimpleNamespace:
    """Return the kernels of one library."""

    @w.kernel
    def wave(x: w.array(dtype=float), y: w.array(dtype=float), a: float, z: w.array(dtype=float)):
        i = w.tid()
        z[i] = w.sin(a * x[i]) + y[i] * w.exp(-x[i] * x[i])

    @w.kernel
    def wave_in_place(x: w.array(dtype=float), y: w.array(dtype=float), a: float):
        i = w.tid()
        y[i] = w.sin(a * x[i]) + y[i] * w.exp(-x[i] * x[i])

    @w.kernel
    def nbody(position: w.array(dtype=w.vec3), mass: w.array(dtype=float), n: int, acceleration: w.array(dtype=w.vec3)):
        i = w.tid()
        here = position[i]
        total = w.vec3(0.0, 0.0, 0.0)
        for j in range(n):
            d = position[j] - here
            inverse = 1.0 / w.sqrt(w.dot(d, d) + 0.01)
            total += d * (mass[j] * inverse * inverse * inverse)
        acceleration[i] = total

    @w.kernel
    def heat(u: w.array2d(dtype=float), rows: int, columns: int, k: float, out: w.array2d(dtype=float)):
        i, j = w.tid()
        if i > 0 and i < rows - 1 and j > 0 and j < columns - 1:
            out[i, j] = u[i, j] + k * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1] - 4.0 * u[i, j])
        else:
            out[i, j] = u[i, j]

    @w.kernel
    def mesh_area(vertex: w.array(dtype=w.vec3), face: w.array2d(dtype=int), energy: w.array(dtype=float)):
        t = w.tid()
        a = vertex[face[t, 0]]
        b = vertex[face[t, 1]]
        c = vertex[face[t, 2]]
        w.atomic_add(energy, 0, 0.5 * w.length(w.cross(b - a, c - a)))

    @w.kernel
    def four_arrays(a: w.array(dtype=float), b: w.array(dtype=float), c: w.array(dtype=float), d: w.array(dtype=float)):
        i = w.tid()
        d[i] = a[i] * b[i] + c[i]

    return SimpleNamespace(
        wave=wave, wave_in_place=wave_in_place, nbody=nbody, heat=heat, mesh_area=mesh_area, four_arrays=four_arrays
    )
