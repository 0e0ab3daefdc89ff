"""The same values and gradients as programs that are written by hand, for one thread of a processor.

In: NumPy arrays. Out: values and gradients, in arrays that the caller gives. Each program takes what a careful writer
takes: forward and gradient in one go where the mathematics allows it, columns instead of rows of vectors, a block of
neighbouring elements per register, private buffers, sums in any order (``fastmath``).
"""
# mypy: disable-error-code="no-untyped-def, untyped-decorator"

from __future__ import annotations

import math

import numpy as np
from numba import njit

LANES = 64
"""Elements that go through a loop together: a few registers of them, so that they do not wait for one another."""

_F = np.float32
_fast = njit(fastmath=True, error_model="numpy")  # a test for a divisor of zero would keep a loop from becoming vectors
_inline = njit(fastmath=True, error_model="numpy", inline="always")
_LOG2E, _LN2_HIGH, _LN2_LOW = _F(1.44269504), _F(0.693359375), _F(-2.12194440e-4)
_TWO_OVER_PI = _F(0.63661977)
_HALF_PI = (_F(1.5703125), _F(4.837512969970703e-4), _F(7.549790126e-8))
_ONE, _HALF = _F(1.0), _F(0.5)


@_inline
def _exp(x):
    """The exponential function; between -87 and 88."""
    x = min(max(x, _F(-87.0)), _F(88.0))
    n = math.floor(x * _LOG2E + _HALF)
    r = (x - n * _LN2_HIGH) - n * _LN2_LOW
    p = _F(1.9875691500e-4)
    p = p * r + _F(1.3981999507e-3)
    p = p * r + _F(8.3334519073e-3)
    p = p * r + _F(4.1665795894e-2)
    p = p * r + _F(1.6666665459e-1)
    p = p * r + _F(5.0000001201e-1)
    p = p * r * r + r + _ONE
    return p * np.int32((np.int32(n) + np.int32(127)) << np.int32(23)).view(np.float32)


@njit(error_model="numpy", inline="always")
def _reduced(x):
    """The nearest multiple of half of pi, and what is left."""
    n = math.floor(x * _TWO_OVER_PI + _HALF)
    return np.int32(n), ((x - n * _HALF_PI[0]) - n * _HALF_PI[1]) - n * _HALF_PI[2]


@_inline
def _sin_cos(x):
    """Sine and cosine; for |x| below 1000."""
    n, r = _reduced(x)
    z = r * r
    s = ((_F(-1.9515295891e-4) * z + _F(8.3321608736e-3)) * z + _F(-1.6666654611e-1)) * z * r + r
    c = ((_F(2.443315711809948e-5) * z + _F(-1.388731625493765e-3)) * z + _F(4.166664568298827e-2)) * z * z
    c = c - _HALF * z + _ONE
    odd = (n & np.int32(1)) != np.int32(0)
    sine, cosine = (c, s) if odd else (s, c)
    sine = -sine if (n & np.int32(2)) != np.int32(0) else sine
    cosine = -cosine if ((n + np.int32(1)) & np.int32(2)) != np.int32(0) else cosine
    return sine, cosine


@_inline
def _tanh(x):
    return _ONE - _F(2.0) / (_ONE + _exp(x + x))


@_fast
def elementwise(x, y, a, seed, z, g_x, g_y):
    """Compute z = sin(a x) + y exp(-x x); one exponential function and one reduction serve all."""
    for i in range(len(x)):
        v = x[i]
        s, c = _sin_cos(a * v)
        e = _exp(-v * v)
        z[i] = s + y[i] * e
        g_x[i] = seed[i] * (a * c - _F(2.0) * v * y[i] * e)
        g_y[i] = seed[i] * e


@_fast
def nbody(position, mass, seed, acceleration, g_position, g_mass):
    """Sum over all pairs; what a body's position and mass do to all others is gathered in the same loop."""
    n = len(mass)
    x, y, z = position[:, 0].copy(), position[:, 1].copy(), position[:, 2].copy()
    s_x, s_y, s_z = seed[:, 0].copy(), seed[:, 1].copy(), seed[:, 2].copy()
    for i in range(n):
        p_x, p_y, p_z, p_m = x[i], y[i], z[i], mass[i]
        q_x, q_y, q_z = s_x[i], s_y[i], s_z[i]
        a_x = a_y = a_z = g_x = g_y = g_z = g_m = _F(0.0)
        for j in range(n):
            d_x, d_y, d_z = x[j] - p_x, y[j] - p_y, z[j] - p_z
            inverse = _ONE / math.sqrt(d_x * d_x + d_y * d_y + d_z * d_z + _F(0.01))
            squared = inverse * inverse
            cubed = squared * inverse
            f = mass[j] * cubed
            a_x += f * d_x
            a_y += f * d_y
            a_z += f * d_z
            # d contributes f q - 3 (f / r^2) (q . d) d to j and takes it from i; the pair (j, i) the same for -d
            t_x, t_y, t_z = p_m * s_x[j] - mass[j] * q_x, p_m * s_y[j] - mass[j] * q_y, p_m * s_z[j] - mass[j] * q_z
            along = _F(3.0) * squared * (t_x * d_x + t_y * d_y + t_z * d_z)
            g_x += cubed * (t_x - along * d_x)
            g_y += cubed * (t_y - along * d_y)
            g_z += cubed * (t_z - along * d_z)
            g_m -= cubed * (s_x[j] * d_x + s_y[j] * d_y + s_z[j] * d_z)
        acceleration[i, 0], acceleration[i, 1], acceleration[i, 2] = a_x, a_y, a_z
        g_position[i, 0], g_position[i, 1], g_position[i, 2] = g_x, g_y, g_z
        g_mass[i] = g_m


@_inline
def _pull(x, y, z):
    """The factor of a spring along x, y, z."""
    return _F(200.0) * (_ONE - _F(0.05) / math.sqrt(x * x + y * y + z * z))


@_inline
def _turned(x, y, z, a, b, c):
    """The derivative of a spring's force along x, y, z in the direction a, b, c."""
    inverse = _ONE / math.sqrt(x * x + y * y + z * z)
    f = _F(200.0) * (_ONE - _F(0.05) * inverse)
    k = _F(10.0) * inverse * inverse * inverse * (x * a + y * b + z * c)
    return f * a + k * x, f * b + k * y, f * c + k * z


@_fast
def _cloth_forces(x, y, z, side, f_x, f_y, f_z):
    """Spring forces of a grid, from edge to edge along rows, then across them."""
    for i in range(side):
        for j in range(1, side - 1):
            a_x, a_y, a_z = x[i, j - 1] - x[i, j], y[i, j - 1] - y[i, j], z[i, j - 1] - z[i, j]
            b_x, b_y, b_z = x[i, j + 1] - x[i, j], y[i, j + 1] - y[i, j], z[i, j + 1] - z[i, j]
            a, b = _pull(a_x, a_y, a_z), _pull(b_x, b_y, b_z)
            f_x[i, j], f_y[i, j], f_z[i, j] = a * a_x + b * b_x, a * a_y + b * b_y, a * a_z + b * b_z
        for j, m in ((0, 1), (side - 1, side - 2)):
            a_x, a_y, a_z = x[i, m] - x[i, j], y[i, m] - y[i, j], z[i, m] - z[i, j]
            a = _pull(a_x, a_y, a_z)
            f_x[i, j], f_y[i, j], f_z[i, j] = a * a_x, a * a_y, a * a_z
    for i in range(side - 1):
        for j in range(side):
            a_x, a_y, a_z = x[i + 1, j] - x[i, j], y[i + 1, j] - y[i, j], z[i + 1, j] - z[i, j]
            a = _pull(a_x, a_y, a_z)
            a_x, a_y, a_z = a * a_x, a * a_y, a * a_z
            f_x[i, j] += a_x
            f_y[i, j] += a_y
            f_z[i, j] += a_z
            f_x[i + 1, j] -= a_x
            f_y[i + 1, j] -= a_y
            f_z[i + 1, j] -= a_z


@_fast
def _cloth_turned(x, y, z, q_x, q_y, q_z, side, g_x, g_y, g_z):
    """What cotangents q of the forces say of the positions, added to g."""
    for i in range(side):
        for j in range(1, side - 1):
            a_x, a_y, a_z = _turned(
                x[i, j - 1] - x[i, j], y[i, j - 1] - y[i, j], z[i, j - 1] - z[i, j],
                q_x[i, j - 1] - q_x[i, j], q_y[i, j - 1] - q_y[i, j], q_z[i, j - 1] - q_z[i, j],
            )  # fmt: skip
            b_x, b_y, b_z = _turned(
                x[i, j + 1] - x[i, j], y[i, j + 1] - y[i, j], z[i, j + 1] - z[i, j],
                q_x[i, j + 1] - q_x[i, j], q_y[i, j + 1] - q_y[i, j], q_z[i, j + 1] - q_z[i, j],
            )  # fmt: skip
            g_x[i, j] += a_x + b_x
            g_y[i, j] += a_y + b_y
            g_z[i, j] += a_z + b_z
        for j, m in ((0, 1), (side - 1, side - 2)):
            a_x, a_y, a_z = _turned(
                x[i, m] - x[i, j], y[i, m] - y[i, j], z[i, m] - z[i, j],
                q_x[i, m] - q_x[i, j], q_y[i, m] - q_y[i, j], q_z[i, m] - q_z[i, j],
            )  # fmt: skip
            g_x[i, j] += a_x
            g_y[i, j] += a_y
            g_z[i, j] += a_z
    for i in range(side - 1):
        for j in range(side):
            a_x, a_y, a_z = _turned(
                x[i + 1, j] - x[i, j], y[i + 1, j] - y[i, j], z[i + 1, j] - z[i, j],
                q_x[i + 1, j] - q_x[i, j], q_y[i + 1, j] - q_y[i, j], q_z[i + 1, j] - q_z[i, j],
            )  # fmt: skip
            g_x[i, j] += a_x
            g_y[i, j] += a_y
            g_z[i, j] += a_z
            g_x[i + 1, j] -= a_x
            g_y[i + 1, j] -= a_y
            g_z[i + 1, j] -= a_z


@_fast
def cloth(x0, v0, steps, dt, seed, x_end, g_x0, g_v0):
    """Roll a cloth out, keep its positions, and go back; in columns."""
    side = x0.shape[0]
    x = np.empty((steps + 1, 3, side, side), np.float32)
    v, f = np.empty((3, side, side), np.float32), np.empty((3, side, side), np.float32)
    g, h = np.empty_like(v), np.empty_like(v)
    for c in range(3):
        for i in range(side):
            for j in range(side):
                x[0, c, i, j], v[c, i, j], g[c, i, j], h[c, i, j] = x0[i, j, c], v0[i, j, c], seed[i, j, c], _F(0.0)
    damping = _ONE - _HALF * dt
    for t in range(steps):
        _cloth_forces(x[t, 0], x[t, 1], x[t, 2], side, f[0], f[1], f[2])
        for c in range(3):
            weight = _F(-9.8) * dt if c == 1 else _F(0.0)
            for i in range(side):
                for j in range(side):
                    v[c, i, j] = damping * v[c, i, j] + dt * f[c, i, j] + weight
                    x[t + 1, c, i, j] = x[t, c, i, j] + dt * v[c, i, j]
    for t in range(steps - 1, -1, -1):
        for c in range(3):
            for i in range(side):
                for j in range(side):
                    total = h[c, i, j] + dt * g[c, i, j]
                    f[c, i, j] = dt * total
                    h[c, i, j] = damping * total
        _cloth_turned(x[t, 0], x[t, 1], x[t, 2], f[0], f[1], f[2], side, g[0], g[1], g[2])
    for i in range(side):
        for j in range(side):
            for c in range(3):
                x_end[i, j, c], g_x0[i, j, c], g_v0[i, j, c] = x[steps, c, i, j], g[c, i, j], h[c, i, j]


@_fast
def mesh(vertex, face, seed, g_vertex):
    """Return the area of a mesh, and its gradient, triangle after triangle."""
    energy = _F(0.0)
    g_vertex[:] = _F(0.0)
    for t in range(len(face)):
        a, b, c = face[t, 0], face[t, 1], face[t, 2]
        u_x, u_y, u_z = vertex[b, 0] - vertex[a, 0], vertex[b, 1] - vertex[a, 1], vertex[b, 2] - vertex[a, 2]
        v_x, v_y, v_z = vertex[c, 0] - vertex[a, 0], vertex[c, 1] - vertex[a, 1], vertex[c, 2] - vertex[a, 2]
        n_x, n_y, n_z = u_y * v_z - u_z * v_y, u_z * v_x - u_x * v_z, u_x * v_y - u_y * v_x
        size = math.sqrt(n_x * n_x + n_y * n_y + n_z * n_z)
        energy += _HALF * size
        k = _HALF * seed / size
        n_x, n_y, n_z = k * n_x, k * n_y, k * n_z
        s_x, s_y, s_z = v_y * n_z - v_z * n_y, v_z * n_x - v_x * n_z, v_x * n_y - v_y * n_x
        t_x, t_y, t_z = n_y * u_z - n_z * u_y, n_z * u_x - n_x * u_z, n_x * u_y - n_y * u_x
        g_vertex[b, 0] += s_x
        g_vertex[b, 1] += s_y
        g_vertex[b, 2] += s_z
        g_vertex[c, 0] += t_x
        g_vertex[c, 1] += t_y
        g_vertex[c, 2] += t_z
        g_vertex[a, 0] -= s_x + t_x
        g_vertex[a, 1] -= s_y + t_y
        g_vertex[a, 2] -= s_z + t_z
    return energy


@_fast
def _recurrence_block(x, trips, rate, seed, kept, y, g):
    value = x.copy()
    for k in range(trips):
        row = kept[k]
        for lane in range(LANES):
            row[lane] = value[lane]
            value[lane] = rate * value[lane] * (_ONE - value[lane])
    for lane in range(LANES):
        y[lane], g[lane] = value[lane], seed[lane]
    for k in range(trips - 1, -1, -1):
        row = kept[k]
        for lane in range(LANES):
            g[lane] *= rate - (rate + rate) * row[lane]


@_fast
def recurrence(x, trips, rate, seed, y, g_x):
    """Iterate the logistic recurrence: a block of elements forward, its states kept, and back."""
    kept = np.empty((trips, LANES), np.float32)
    for lo in range(0, len(x) - LANES + 1, LANES):
        part = slice(lo, lo + LANES)
        _recurrence_block(x[part], trips, rate, seed[part], kept, y[part], g_x[part])
    for i in range(len(x) // LANES * LANES, len(x)):
        value = x[i]
        for k in range(trips):
            kept[k, 0] = value
            value = rate * value * (_ONE - value)
        y[i], g_x[i] = value, seed[i]
        for k in range(trips - 1, -1, -1):
            g_x[i] *= rate - (rate + rate) * kept[k, 0]


@_fast
def mlp(x, first, bias, second, seed, y, g_x, g_first, g_bias, g_second):
    """Run a layer of hidden units over a block of samples: values and gradients in one loop over the units."""
    g_first[:] = _F(0.0)
    g_bias[:] = _F(0.0)
    g_second[:] = _F(0.0)
    part = np.empty((8, LANES), np.float32)
    for lo in range(0, len(x), LANES):
        here = min(LANES, len(x) - lo)
        part[:] = _F(0.0)
        p_x, p_y, p_z, s, total, q_x, q_y, q_z = part
        for lane in range(here):
            p_x[lane], p_y[lane], p_z[lane], s[lane] = (
                x[lo + lane, 0],
                x[lo + lane, 1],
                x[lo + lane, 2],
                seed[lo + lane],
            )
        for k in range(len(bias)):
            a, b, c, d, e = first[k, 0], first[k, 1], first[k, 2], bias[k], second[k]
            u_x = u_y = u_z = u_b = u_s = _F(0.0)
            for lane in range(LANES):
                t = _tanh(a * p_x[lane] + b * p_y[lane] + c * p_z[lane] + d)
                total[lane] += e * t
                u_s += s[lane] * t
                g = s[lane] * (_ONE - t * t)
                u_x += g * p_x[lane]
                u_y += g * p_y[lane]
                u_z += g * p_z[lane]
                u_b += g
                q_x[lane] += e * g * a
                q_y[lane] += e * g * b
                q_z[lane] += e * g * c
            g_first[k, 0] += e * u_x
            g_first[k, 1] += e * u_y
            g_first[k, 2] += e * u_z
            g_bias[k] += e * u_b
            g_second[k] += u_s
        for lane in range(here):
            y[lo + lane] = total[lane]
            g_x[lo + lane, 0], g_x[lo + lane, 1], g_x[lo + lane, 2] = q_x[lane], q_y[lane], q_z[lane]


WIDE = 32
"""Points that are iterated together: they wait for the slowest of them."""


@_fast
def _escape_block(c, most, seed, kept_u, kept_v, a, b, u, v, trips, p, q, g_a, g_b, y, g_c):
    n = len(y)  # a constant would be unrolled, and not become vectors
    for lane in range(n):
        a[lane], b[lane], u[lane], v[lane], trips[lane] = c[lane, 0], c[lane, 1], _F(0.0), _F(0.0), _F(0.0)
    made = 0
    while made < most:
        inside = _F(0.0)
        row_u, row_v = kept_u[made], kept_v[made]
        for lane in range(n):
            here_u, here_v = u[lane], v[lane]
            row_u[lane], row_v[lane] = here_u, here_v
            on = here_u * here_u + here_v * here_v < _F(4.0)
            t = here_u * here_u - here_v * here_v + a[lane]
            s = _F(2.0) * here_u * here_v + b[lane]
            u[lane] = t if on else here_u
            v[lane] = s if on else here_v
            count = _ONE if on else _F(0.0)
            trips[lane] += count
            inside += count
        if inside == _F(0.0):
            break
        made += 1
    for lane in range(n):
        y[lane] = u[lane] * u[lane] + v[lane] * v[lane]
        p[lane], q[lane] = _F(2.0) * seed[lane] * u[lane], _F(2.0) * seed[lane] * v[lane]
        g_a[lane], g_b[lane] = _F(0.0), _F(0.0)
    for k in range(made - 1, -1, -1):
        row_u, row_v = kept_u[k], kept_v[k]
        at = _F(k)
        for lane in range(n):
            on = at < trips[lane]
            here_p, here_q = p[lane], q[lane]
            g_a[lane] += here_p if on else _F(0.0)
            g_b[lane] += here_q if on else _F(0.0)
            s = _F(2.0) * (here_p * row_u[lane] + here_q * row_v[lane])
            t = _F(2.0) * (here_q * row_u[lane] - here_p * row_v[lane])
            p[lane] = s if on else here_p
            q[lane] = t if on else here_q
    for lane in range(n):
        g_c[lane, 0], g_c[lane, 1] = g_a[lane], g_b[lane]


@_fast
def escape(c, most, seed, y, g_c):
    """Iterate Mandelbrot's map, a block of points under a mask; their number is a multiple of the block's size."""
    kept_u, kept_v = np.empty((most + 1, WIDE), np.float32), np.empty((most + 1, WIDE), np.float32)
    a, b, u = np.empty(WIDE, np.float32), np.empty(WIDE, np.float32), np.empty(WIDE, np.float32)
    v, trips, p, q, g_a, g_b = a.copy(), a.copy(), a.copy(), a.copy(), a.copy(), a.copy()
    for lo in range(0, len(c), WIDE):
        part = slice(lo, lo + WIDE)
        _escape_block(c[part], most, seed[part], kept_u, kept_v, a, b, u, v, trips, p, q, g_a, g_b, y[part], g_c[part])


@_inline
def _length(x, y, z):
    return math.sqrt(x * x + y * y + z * z)


@_fast
def natural(x, v, neighbour, rest, centre, radius, dt, seed_x, seed_v, x_out, v_out, g_x, g_v):
    """Move points on springs, with drag and contacts, in steps as small as their speed asks for, and go back."""
    g_x[:] = _F(0.0)
    g_v[:] = _F(0.0)
    kept = np.empty((64, 3), np.float32)
    stiff, damping, drag, push = _F(500.0), _F(2.0), _F(0.1), _F(2000.0)
    for i in range(len(x)):
        p_x, p_y, p_z, u_x, u_y, u_z = x[i, 0], x[i, 1], x[i, 2], v[i, 0], v[i, 1], v[i, 2]
        f_x, f_y, f_z = _F(0.0), _F(-9.8), _F(0.0)
        for k in range(4):
            j = neighbour[i, k]
            if j >= 0:
                d_x, d_y, d_z = x[j, 0] - p_x, x[j, 1] - p_y, x[j, 2] - p_z
                inverse = _ONE / _length(d_x, d_y, d_z)
                along = ((v[j, 0] - u_x) * d_x + (v[j, 1] - u_y) * d_y + (v[j, 2] - u_z) * d_z) * inverse
                f = stiff - (stiff * rest - damping * along) * inverse
                f_x += f * d_x
                f_y += f * d_y
                f_z += f * d_z
        w_x, w_y, w_z = _ONE - u_x, -u_y, _HALF - u_z
        wind = _length(w_x, w_y, w_z)
        f_x += drag * wind * w_x
        f_y += drag * wind * w_y
        f_z += drag * wind * w_z
        steps = int(_ONE + _F(2.0) * _length(u_x, u_y, u_z))
        h = dt / _F(steps)
        for s in range(steps):
            kept[s, 0], kept[s, 1], kept[s, 2] = p_x, p_y, p_z
            a_x, a_y, a_z = f_x, f_y, f_z
            for b in range(len(radius)):
                r_x, r_y, r_z = p_x - centre[b, 0], p_y - centre[b, 1], p_z - centre[b, 2]
                squared = r_x * r_x + r_y * r_y + r_z * r_z
                if squared < radius[b] * radius[b]:
                    f = push * (radius[b] / math.sqrt(squared) - _ONE)
                    a_x += f * r_x
                    a_y += f * r_y
                    a_z += f * r_z
            u_x += h * a_x
            u_y += h * a_y
            u_z += h * a_z
            p_x += h * u_x
            p_y += h * u_y
            p_z += h * u_z
        x_out[i, 0], x_out[i, 1], x_out[i, 2] = p_x, p_y, p_z
        v_out[i, 0], v_out[i, 1], v_out[i, 2] = u_x, u_y, u_z
        # back: c is the cotangent of the place, e of the velocity, q of the force
        c_x, c_y, c_z = seed_x[i, 0], seed_x[i, 1], seed_x[i, 2]
        e_x, e_y, e_z = seed_v[i, 0], seed_v[i, 1], seed_v[i, 2]
        q_x = q_y = q_z = _F(0.0)
        for s in range(steps - 1, -1, -1):
            e_x += h * c_x
            e_y += h * c_y
            e_z += h * c_z
            t_x, t_y, t_z = h * e_x, h * e_y, h * e_z
            q_x += t_x
            q_y += t_y
            q_z += t_z
            for b in range(len(radius)):
                r_x, r_y, r_z = kept[s, 0] - centre[b, 0], kept[s, 1] - centre[b, 1], kept[s, 2] - centre[b, 2]
                squared = r_x * r_x + r_y * r_y + r_z * r_z
                if squared < radius[b] * radius[b]:
                    inverse = _ONE / math.sqrt(squared)
                    f = push * (radius[b] * inverse - _ONE)
                    n = push * radius[b] * inverse * inverse * inverse * (t_x * r_x + t_y * r_y + t_z * r_z)
                    c_x += f * t_x - n * r_x
                    c_y += f * t_y - n * r_y
                    c_z += f * t_z - n * r_z
        along = drag * (q_x * w_x + q_y * w_y + q_z * w_z) / wind
        e_x -= drag * wind * q_x + along * w_x
        e_y -= drag * wind * q_y + along * w_y
        e_z -= drag * wind * q_z + along * w_z
        u_x, u_y, u_z = v[i, 0], v[i, 1], v[i, 2]
        for k in range(4):
            j = neighbour[i, k]
            if j >= 0:
                d_x, d_y, d_z = x[j, 0] - x[i, 0], x[j, 1] - x[i, 1], x[j, 2] - x[i, 2]
                m_x, m_y, m_z = v[j, 0] - u_x, v[j, 1] - u_y, v[j, 2] - u_z
                inverse = _ONE / _length(d_x, d_y, d_z)
                squared = inverse * inverse
                moved = m_x * d_x + m_y * d_y + m_z * d_z
                f = stiff - stiff * rest * inverse + damping * moved * squared
                t = q_x * d_x + q_y * d_y + q_z * d_z
                n = (stiff * rest * inverse - _F(2.0) * damping * moved * squared) * squared * t
                o = damping * squared * t
                s_x, s_y, s_z = f * q_x + n * d_x + o * m_x, f * q_y + n * d_y + o * m_y, f * q_z + n * d_z + o * m_z
                g_x[j, 0] += s_x
                g_x[j, 1] += s_y
                g_x[j, 2] += s_z
                c_x -= s_x
                c_y -= s_y
                c_z -= s_z
                g_v[j, 0] += o * d_x
                g_v[j, 1] += o * d_y
                g_v[j, 2] += o * d_z
                e_x -= o * d_x
                e_y -= o * d_y
                e_z -= o * d_z
        g_x[i, 0] += c_x
        g_x[i, 1] += c_y
        g_x[i, 2] += c_z
        g_v[i, 0] += e_x
        g_v[i, 1] += e_y
        g_v[i, 2] += e_z
