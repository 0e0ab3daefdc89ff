"""Tiles: every operation, edges of arrays, tiles carried through loops and changed in place."""

import numpy as np

import diffkern as dk

from .cases import as32, case, ints, scalar, signed, values, zeros

f1 = dk.array(dtype=float)
f2 = dk.array(dtype=float, ndim=2)
f3 = dk.array(dtype=float, ndim=3)
i1 = dk.array(dtype=int)
v1 = dk.array(dtype=dk.vec3)
v2 = dk.array(dtype=dk.vec3, ndim=2)

N = dk.constant(4)


def positive_definite(*shape: int):
    """Symmetric matrices with eigenvalues well above 0."""

    def make(rng: np.random.Generator) -> np.ndarray:
        a = rng.uniform(-0.5, 0.5, shape)
        return as32(a @ np.swapaxes(a, -1, -2) + 2.0 * np.eye(shape[-1]))

    return make


def triangular(n: int, lower: bool = True):
    def make(rng: np.random.Generator) -> np.ndarray:
        a = rng.uniform(-0.6, 0.6, (n, n)) + 2.0 * np.eye(n)
        return as32(np.tril(a) if lower else np.triu(a))

    return make


def apart(*shape: int):
    """Numbers in random order with gaps between them, so that none comes near another."""

    def make(rng: np.random.Generator) -> np.ndarray:
        return as32(rng.permutation(int(np.prod(shape))).reshape(shape) * 0.3 + 0.1)

    return make


@dk.func
def wave(x: float):
    return dk.sin(x) * x


@dk.func
def mixed(x: float, y: float, s: float):
    if x > y:
        return x * y * s
    return x - s * y * y


@dk.func
def root_or_zero(x: float):
    return dk.where(x > 0.0, dk.sqrt(x), 0.0)


@dk.func
def product(a: float, b: float):
    return a * b


@dk.func
def powers(x: float, n: int):
    p = 1.0
    for k in range(n):
        p = p * x + 0.5
    return p


@case(2, x=signed(9), y=zeros(9))
def load_store(x: f1, y: f1):
    i = dk.tid()
    t = dk.tile_load(x, shape=4, offset=i * 4)
    dk.tile_store(y, t * t, offset=i * 4)


@case(2, 2, x=signed(7, 6), y=zeros(7, 6))
def at_the_edges(x: f2, y: f2):
    i, j = dk.tid()
    t = dk.tile_load(x, shape=(N, N), offset=(i * N - 1, j * N))
    dk.tile_store(y, dk.tile_map(dk.sin, t), offset=(i * N - 1, j * N))


@case(1, a=positive_definite(4, 4), d=signed(4), y=signed(4), z=zeros(4, 4), x=zeros(4))
def in_place(a: f2, d: f1, y: f1, z: f2, x: f1):
    t = dk.tile_load(a, shape=(4, 4))
    e = dk.tile_load(d, shape=4)
    t = dk.tile_diag_add(t, e * e)
    dk.tile_add_inplace(t, dk.tile_transpose(t))
    dk.tile_sub_inplace(t, dk.tile_ones(shape=(4, 4), dtype=float) * 0.01)
    dk.tile_store(z, t)
    dk.tile_cholesky_inplace(t)
    right = dk.tile_load(y, shape=4)
    dk.tile_lower_solve_inplace(t, right)
    dk.tile_upper_solve_inplace(dk.tile_transpose(t), right)
    dk.tile_cholesky_solve_inplace(t, right)
    dk.tile_store(x, right)


@case(3, x=signed(3, 5), y=zeros(3, 5))
def row_of_an_array(x: f2, y: f2):
    i = dk.tid()
    t = dk.tile_load(x[i], shape=5)
    dk.tile_store(y[-1 - i], t * 3.0 - t * t)


@case(2, x=signed(8), s=scalar(0.7), y=zeros(8))
def operators(x: f1, s: float, y: f1):
    i = dk.tid()
    t = dk.tile_load(x, shape=4, offset=(i * 4,))
    u = (t + s) * (2.0 - t) / (3.0 + t * t) - s * t
    u += -t
    u *= s
    dk.tile_store(y, u, offset=i * 4)


@case(2, x=signed(8), s=scalar(0.7), y=zeros(8))
def one_of_two(x: f1, s: float, y: f1):
    i = dk.tid()
    t = dk.tile_load(x, shape=4, offset=i * 4)
    u = t * t
    chosen = u if i > 0 else t
    dk.tile_store(y, chosen * s, offset=i * 4)


@case(1, x=signed(6), y=signed(6), s=scalar(0.4), z=zeros(6))
def map_with_branches(x: f1, y: f1, s: float, z: f1):
    a = dk.tile_load(x, shape=6)
    b = dk.tile_load(y, shape=6)
    dk.tile_store(z, dk.tile_map(mixed, a, b, s * s))


@case(1, x=values(5), y=zeros(5))
def map_with_a_loop(x: f1, y: f1):
    dk.tile_store(y, dk.tile_map(powers, dk.tile_load(x, shape=5), 4))


@case(1, x=lambda rng: as32([0.0, 4.0, -1.0, 1.0]), y=zeros(4), numeric=False, expect={"x": [0.0, 0.25, 0.0, 0.5]})
def a_branch_not_taken(x: f1, y: f1):
    dk.tile_store(y, dk.tile_map(root_or_zero, dk.tile_load(x, shape=4)))


@case(1, x=apart(2, 4), y=apart(4, 2), s=scalar(0.4), z=zeros(2, 4))
def choices(x: f2, y: f2, s: float, z: f2):
    a = dk.tile_load(x, shape=(2, 4)) - 1.0
    b = dk.tile_transpose(dk.tile_load(y, shape=(4, 2))) - 1.2
    smaller = a < b
    near = ~(smaller & (a < 0.05)) ^ (b >= 0.35)
    t = dk.where(near, a * b, s * s)
    t += dk.select(smaller, b * b, a * 0.5) * dk.tile_map(dk.where, near | smaller, b, a)
    t[1] = dk.where(dk.tile_arange(8) % 3 == 1, 0.0, dk.tile_reshape(t, shape=8))[::2] * a[0] + t[1]
    dk.tile_store(z, t)


@case(1, x=lambda rng: as32([0.0, 4.0, -1.0, 1.0]), y=zeros(4), numeric=False, expect={"x": [0.0, 0.25, 0.0, 0.5]})
def a_choice_not_taken(x: f1, y: f1):
    t = dk.tile_load(x, shape=4)
    dk.tile_store(y, dk.where(t > 0.0, dk.tile_map(dk.sqrt, t), 0.0))


@case(2, x=signed(8, 3), y=zeros(8, 3), s=scalar(0.3))
def vectors(x: v1, y: v1, s: float):
    i = dk.tid()
    t = dk.tile_load(x, shape=4, offset=i * 4)
    u = dk.tile_map(dk.cross, t, t + t[1] * 2.0) * s
    dk.tile_store(y, u + t, offset=i * 4)


@case(2, x=signed(8), y=zeros(2))
def sum_of_all(x: f1, y: f1):
    i = dk.tid()
    t = dk.tile_load(x, shape=4, offset=i * 4)
    dk.tile_store(y, dk.tile_sum(t * t), offset=i)


@case(1, x=signed(3, 4), y=zeros(4), z=zeros(3))
def sums_along_axes(x: f2, y: f1, z: f1):
    t = dk.tile_load(x, shape=(3, 4))
    dk.tile_store(y, dk.tile_sum(t * t, axis=0))
    dk.tile_store(z, dk.tile_sum(dk.tile_map(wave, t), axis=-1))


@case(1, x=apart(3, 4), y=zeros(2), z=zeros(4), w=zeros(3))
def extrema(x: f2, y: f1, z: f1, w: f1):
    t = dk.tile_load(x, shape=(3, 4))
    dk.tile_store(y, dk.tile_min(t) * dk.tile_max(t))
    dk.tile_store(z, dk.tile_max(t, axis=0))
    dk.tile_store(w, dk.tile_reduce(dk.min, t * t, axis=1))


@case(1, x=apart(2, 5, 3), y=zeros(2, 3), z=zeros(5, 3), w=zeros(2, 3))
def extrema_of_vectors(x: v2, y: v1, z: v1, w: v1):
    """Of each component by itself."""
    t = dk.tile_load(x, shape=(2, 5))
    dk.tile_store(y, dk.tile_reduce(dk.min, t))
    dk.tile_store(y, dk.tile_max(t), offset=1)
    dk.tile_store(z, dk.tile_reduce(dk.max, t, axis=0))
    dk.tile_store(w, dk.tile_min(t + t, axis=-1))


@case(1, x=lambda rng: as32([2.0, 5.0, 5.0, 1.0, 1.0]), y=zeros(2), numeric=False, expect={"x": [0, 1, 0, 1, 0]})
def ties_go_to_the_first(x: f1, y: f1):
    t = dk.tile_load(x, shape=5)
    dk.tile_store(y, dk.tile_max(t))
    dk.tile_store(y, dk.tile_min(t), offset=1)


@case(2, x=values(8), y=zeros(2))
def product_of_all(x: f1, y: f1):
    i = dk.tid()
    t = dk.tile_load(x, shape=4, offset=i * 4)
    dk.tile_store(y, dk.tile_reduce(product, t), offset=i)


@case(1, x=apart(6), y=zeros(6))
def position_of_the_greatest(x: f1, y: f1):
    t = dk.tile_load(x, shape=6)
    k = dk.tile_argmax(t)[0]
    j = dk.tile_argmin(t)[0]
    dk.tile_store(y, t * t[k] + t[j])


@case(1, x=signed(2, 3), y=zeros(2, 3), z=zeros(2, 3))
def scans(x: f2, y: f2, z: f2):
    t = dk.tile_load(x, shape=(2, 3))
    dk.tile_store(y, dk.tile_scan_inclusive(t * t))
    dk.tile_store(z, dk.tile_scan_exclusive(dk.tile_map(dk.sin, t)))


@case(1, x=apart(6), w=signed(6), y=zeros(6), z=zeros(6))
def sorted_by_keys(x: f1, w: f1, y: f1, z: f1):
    keys = dk.tile_load(x, shape=6)
    numbers = dk.tile_load(w, shape=6)
    dk.tile_sort(keys, numbers)
    ramp = dk.tile_arange(6, dtype=float)
    dk.tile_store(y, keys * keys * ramp)
    dk.tile_store(z, numbers * keys)


@dk.func
def after(a: dk.vec2, b: dk.vec2):
    """One linear function after another: the order counts, the grouping does not."""
    return dk.vec2(a[0] * b[0], a[1] * b[0] + b[1])


@case(1, x=signed(11, 2), y=zeros(1, 2))
def functions_one_after_the_other(x: dk.array(dtype=dk.vec2), y: dk.array(dtype=dk.vec2)):
    dk.tile_store(y, dk.tile_reduce(after, dk.tile_load(x, shape=11)))


@case(1, x=apart(5, 9), y=zeros(3), r=zeros(5), c=zeros(9))
def more_than_a_warp(x: f2, y: f1, r: f1, c: f1):
    t = dk.tile_load(x, shape=(5, 9))
    dk.tile_store(y, dk.tile_sum(t * t))
    dk.tile_store(y, dk.tile_max(t), offset=1)
    dk.tile_store(y, t[2, dk.tile_argmin(t)[0] % 9] * dk.tile_min(t), offset=2)
    dk.tile_store(r, dk.tile_sum(t * t * t, axis=1))
    dk.tile_store(c, dk.tile_max(t, axis=0))


@case(1, x=apart(2, 3), w=signed(2, 3), y=zeros(2, 3))
def sorted_with_two_axes(x: f2, w: f2, y: f2):
    keys = dk.tile_load(x, shape=(2, 3))
    numbers = dk.tile_load(w, shape=(2, 3))
    dk.tile_sort(keys, numbers)
    dk.tile_store(y, keys * numbers * numbers)


@case(1, x=signed(4), s=scalar(0.6), y=zeros(4))
def two_results_for_one_variable(x: f1, s: float, y: f1):
    t = dk.tile_load(x, shape=4)
    dk.tile_axpy(s, t, t)
    t = dk.tile_map(dk.tanh, t)
    dk.tile_store(y, t)


@case(1, x=signed(5), y=signed(5), z=zeros(1))
def scalar_product(x: f1, y: f1, z: f1):
    a = dk.tile_load(x, shape=5)
    b = dk.tile_load(y, shape=5)
    dk.tile_store(z, dk.tile_dot(a * a, b))


@case(1, x=signed(5), y=signed(5), s=scalar(0.6), z=zeros(5))
def scaled_sum(x: f1, y: f1, s: float, z: f1):
    a = dk.tile_load(x, shape=5)
    b = dk.tile_load(y, shape=5)
    dk.tile_axpy(s * s, a, b)
    dk.tile_axpy(2.0, b, a)
    dk.tile_store(z, a * b)


@case(1, x=signed(3, 4), y=zeros(4, 3), z=zeros(2, 6), w=zeros(12))
def shapes(x: f2, y: f2, z: f2, w: f1):
    t = dk.tile_load(x, shape=(3, 4))
    dk.tile_store(y, dk.tile_transpose(t * t))
    dk.tile_store(z, dk.tile_reshape(dk.tile_transpose(t), shape=(2, -1)))
    dk.tile_store(w, dk.tile_squeeze(dk.tile_reshape(t * 3.0, shape=(1, 12))))


@case(1, x=signed(4), s=signed(3, 1), y=zeros(3, 4), z=zeros(2, 3, 4))
def broadcasts(x: f1, s: f2, y: f2, z: f3):
    t = dk.tile_load(x, shape=4)
    c = dk.tile_broadcast(dk.tile_load(s, shape=(3, 1)), shape=(3, 4))
    b = dk.tile_broadcast(t, shape=(3, 4))
    dk.tile_store(y, b * c)
    dk.tile_store(z, dk.tile_broadcast(b * b, shape=(2, 3, 4)))


@case(1, x=signed(5, 6), y=zeros(2, 3), z=zeros(6), w=zeros(3, 2))
def views(x: f2, y: f2, z: f1, w: f2):
    t = dk.tile_load(x, shape=(5, 6))
    dk.tile_store(y, dk.tile_view(t, offset=(1, 2), shape=(2, 3)) * 2.0)
    dk.tile_store(z, t[-1] * t[0])
    dk.tile_store(w, t[::2, 5:1:-2] * t[1:4, 0:2])


@case(3, x=signed(6), y=zeros(3, 2))
def view_at_run_time(x: f1, y: f2):
    i = dk.tid()
    t = dk.tile_load(x, shape=6)
    part = dk.tile_view(t, offset=(i * 2,), shape=(2,))
    dk.tile_store(y[i], part * part)


@case(2, x=signed(4, 4), y=signed(2, 2), z=zeros(2, 4, 4))
def parts_replaced(x: f2, y: f2, z: f3):
    i = dk.tid()
    t = dk.tile_load(x, shape=(4, 4))
    u = dk.tile_load(y, shape=(2, 2))
    dk.tile_assign(t, u * u, offset=(i, 1))
    t[3] = t[0] * 2.0
    t[0:2, 3] = 0.5
    t[2, 2] = t[1, 1] * t[2, 2]
    t[i, i] += t[3, 3]
    dk.tile_store(z[i], t * t)


@case(1, x=signed(6), y=zeros(1))
def elements_in_a_loop(x: f1, y: f1):
    t = dk.tile_load(x, shape=6)
    s = 0.0
    for k in range(1, 6):
        s += t[k] * t[k - 1]
    y[0] = s


@case(1, x=signed(6), y=zeros(6), n=5)
def elements_set_in_a_loop(x: f1, y: f1, n: int):
    t = dk.tile_load(x, shape=6)
    for k in range(n):
        t[k + 1] = t[k + 1] * 0.5 + dk.sin(t[k])
    dk.tile_store(y, t)


@case(2, 2, a=signed(7, 6), b=signed(6, 9), c=zeros(7, 9), n=2)
def matrix_product(a: f2, b: f2, c: f2, n: int):
    i, j = dk.tid()
    total = dk.tile_zeros(shape=(4, 5), dtype=float, storage="shared")
    for k in range(n):
        x = dk.tile_load(a, shape=(4, 3), offset=(i * 4, k * 3), storage="shared")
        y = dk.tile_load(b, shape=(3, 5), offset=(k * 3, j * 5))
        dk.tile_matmul(x, y, total)
    dk.tile_store(c, total * total, offset=(i * 4, j * 5))


@case(1, a=signed(3, 4), b=signed(5, 4), c=zeros(3, 5), d=zeros(5, 3))
def products_of_transposed(a: f2, b: f2, c: f2, d: f2):
    x = dk.tile_load(a, shape=(3, 4))
    y = dk.tile_load(b, shape=(5, 4))
    dk.tile_store(c, x @ dk.tile_transpose(y))
    gram = dk.tile_transpose(y) @ y
    dk.tile_store(d, y @ gram @ dk.tile_transpose(x))


@case(1, a=signed(3, 3), b=signed(3, 3), c=signed(3, 3), s=scalar(0.3), y=zeros(3, 3))
def product_with_factors(a: f2, b: f2, c: f2, s: float, y: f2):
    x = dk.tile_load(a, shape=(3, 3))
    z = dk.tile_load(b, shape=(3, 3))
    w = dk.tile_load(c, shape=(3, 3))
    dk.tile_matmul(x, z, w, s, 0.5)
    dk.tile_matmul(w, w * x, z, alpha=2.0, beta=0.0)
    dk.tile_store(y, z + w)


@case(1, a=positive_definite(5, 5), y=zeros(5, 5))
def cholesky(a: f2, y: f2):
    t = dk.tile_load(a, shape=(5, 5))
    dk.tile_store(y, dk.tile_cholesky(t))


@case(1, a=positive_definite(4, 4), y=zeros(4, 4))
def cholesky_upper(a: f2, y: f2):
    t = dk.tile_load(a, shape=(4, 4))
    dk.tile_store(y, dk.tile_cholesky(t * 2.0, fill_mode="upper"))


@case(3, a=positive_definite(3, 4, 4), b=signed(3, 4), x=zeros(3, 4))
def batched_solve(a: f3, b: dk.array(dtype=float, ndim=2), x: f2):
    i = dk.tid()
    factor = dk.tile_cholesky(dk.tile_load(a[i], shape=(4, 4)))
    dk.tile_store(x[i], dk.tile_cholesky_solve(factor, dk.tile_load(b[i], shape=4)))


@case(1, a=triangular(4), u=triangular(3, False), b=signed(4, 2), c=signed(3), x=zeros(4, 2), y=zeros(3))
def triangular_solves(a: f2, u: f2, b: f2, c: f1, x: f2, y: f1):
    t = dk.tile_load(a, shape=(4, 4))
    r = dk.tile_load(b, shape=(4, 2))
    dk.tile_store(x, dk.tile_lower_solve(t, r * r))
    dk.tile_store(y, dk.tile_upper_solve(dk.tile_load(u, shape=(3, 3)), dk.tile_load(c, shape=3)))


@case(1, a=positive_definite(3, 3), b=signed(3, 2), x=zeros(3, 2))
def upper_factor_solve(a: f2, b: f2, x: f2):
    u = dk.tile_cholesky(dk.tile_load(a, shape=(3, 3)), fill_mode="upper")
    dk.tile_store(x, dk.tile_cholesky_solve(u, dk.tile_load(b, shape=(3, 2)), fill_mode="upper"))


@case(2, x=values(8), y=zeros(8), n=3)
def power_in_a_loop(x: f1, y: f1, n: int):
    i = dk.tid()
    t = dk.tile_load(x, shape=4, offset=i * 4)
    p = dk.tile_ones(shape=4, dtype=float)
    for k in range(n):
        p = p * t
    dk.tile_store(y, p, offset=i * 4)


@case(2, a=signed(2, 3, 3), y=zeros(2, 3, 3), n=4)
def matrix_power_in_a_loop(a: f3, y: f3, n: int):
    i = dk.tid()
    t = dk.tile_load(a[i], shape=(3, 3))
    p = t
    for k in range(n):
        p = dk.tile_matmul(p, t)
    dk.tile_store(y[i], p)


@case(1, options={"slots": 2}, a=signed(3, 3), y=zeros(3, 3), n=5)
def few_slots(a: f2, y: f2, n: int):
    t = dk.tile_load(a, shape=(3, 3))
    p = t
    q = t * 0.5
    for k in range(n):
        p, q = q + 0.1 * (p @ t), p * dk.tile_map(dk.sin, q)
    dk.tile_store(y, p + q)


@case(2, x=signed(8), y=zeros(8), n=3)
def branch_in_a_loop(x: f1, y: f1, n: int):
    i = dk.tid()
    t = dk.tile_load(x, shape=4, offset=i * 4)
    u = t * 0.5
    for k in range(n):
        if (k + i) % 2 == 0:
            t = t * u
            u = u + 1.0
        else:
            t, u = u, t + 0.25
    dk.tile_store(y, t * u, offset=i * 4)


@case(2, x=values(8), y=zeros(8))
def while_loop(x: f1, y: f1):
    i = dk.tid()
    t = dk.tile_load(x, shape=4, offset=i * 4)
    k = 0
    while dk.tile_sum(t)[0] < 20.0 and k < 6:
        t = t * 1.5 + t * t
        k += 1
    dk.tile_store(y, t, offset=i * 4)


@case(3, x=signed(3, 4), w=signed(4, 2), y=zeros(3, 2), loss=zeros(1))
def shared_weights(x: f2, w: f2, y: f2, loss: f1):
    i = dk.tid()
    row = dk.tile_load(x, shape=(1, 4), offset=(i, 0))
    out = dk.tile_map(dk.tanh, row @ dk.tile_load(w, shape=(4, 2)))
    dk.tile_store(y, out, offset=(i, 0))
    dk.tile_atomic_add(loss, dk.tile_sum(out * out))


@case(4, x=signed(6), y=zeros(6))
def overlapping_updates(x: f1, y: f1):
    i = dk.tid()
    t = dk.tile_load(x, shape=3, offset=i)
    dk.tile_atomic_add(y, t * t, offset=i)


@case(2, x=signed(8), y=signed(8))
def overwritten(x: f1, y: f1):
    i = dk.tid()
    t = dk.tile_load(y, shape=4, offset=i * 4)
    u = dk.tile_load(x, shape=4, offset=i * 4)
    dk.tile_store(y, t * t * u, offset=i * 4)


@case(6, block_dim=1, x=signed(6), y=zeros(6))
def from_threads(x: f1, y: f1):
    i = dk.tid()
    t = dk.tile(x[i] * x[i])
    y[i] = dk.untile(t * 3.0) + dk.tile_sum(t)[0]


@case(3, block_dim=1, x=signed(3, 3), y=zeros(3, 3), z=zeros(3))
def from_threads_vectors(x: v1, y: v1, z: f1):
    i = dk.tid()
    t = dk.tile(x[i])
    y[i] = dk.untile(t * t) * 2.0
    z[i] = dk.tile_sum(dk.tile(x[i], preserve_type=True))[0][1]


@dk.func
def layer(x, w, b):
    return dk.tile_map(dk.tanh, x @ w + dk.tile_broadcast(b, shape=(2, 3)))


@case(2, x=signed(4, 5), w=signed(5, 3), b=signed(3), y=zeros(4, 3))
def func_of_tiles(x: f2, w: f2, b: f1, y: f2):
    i = dk.tid()
    t = dk.tile_load(x, shape=(2, 5), offset=(i * 2, 0))
    out = layer(t, dk.tile_load(w, shape=(5, 3)), dk.tile_load(b, shape=3))
    dk.tile_store(y, out, offset=(i * 2, 0))


@case(1, x=signed(300), y=zeros(300), z=zeros(1), n=2)
def large_tiles(x: f1, y: f1, z: f1, n: int):
    t = dk.tile_load(x, shape=300)
    u = dk.tile_broadcast(t, shape=(100, 300)) * 0.1
    v = u * u
    for k in range(n):
        v = v * u + 0.5 * u
    w = dk.tile_sum(v * v, axis=0)
    dk.tile_store(y, w)
    dk.tile_store(z, dk.tile_sum(v))


v2 = dk.array(dtype=dk.vec2, ndim=2)


@case(2, x=signed(4, 6), q=ints(1, -1, 1, 3), y=zeros(4, 8), z=zeros(6, 2))
def by_indices(x: f2, q: i1, y: f2, z: f2):
    """Elements outside are 0 and left out; two indices are equal where elements are read or added to."""
    i = dk.tid()
    rows = dk.tile_load(q, shape=4)
    t = dk.tile_load_indexed(x, rows, shape=(4, 2), offset=(0, 2 * i))
    dk.tile_atomic_add_indexed(z, rows, t * t, offset=(2, 0))
    places = dk.tile_arange(2, dtype=int) * 2
    dk.tile_store_indexed(y, places, t * t * t, offset=(0, 4 * i), axis=1)


@case(2, x=signed(8, 3), q=ints(-1, 0, 0), y=zeros(6, 3), z=zeros(12))
def slices_by_indices(x: f2, q: i1, y: f2, z: f1):
    i = dk.tid()
    t = dk.tile_load(x, shape=(4, 3), offset=(4 * i, 0))
    chosen = dk.tile_load(q, shape=3)
    dk.tile_store(y, t[chosen, :] * t[chosen], offset=(3 * i, 0))
    dk.tile_store(z[::2], dk.tile_load(x[1::3, i], shape=3) * 2.0, offset=3 * i)


@case(1, x=apart(9), y=zeros(9), z=zeros(3, 3))
def running_extrema(x: f1, y: f1, z: f2):
    t = dk.tile_load(x, shape=9)
    dk.tile_store(y, dk.tile_scan_max_inclusive(t) * t)
    dk.tile_store(z, dk.tile_scan_min_inclusive(dk.tile_reshape(t, shape=(3, 3))))


@case(1, x=apart(40), y=zeros(40))
def long_running_extrema(x: f1, y: f1):
    t = dk.tile_load(x, shape=40)
    dk.tile_store(y, dk.tile_scan_max_inclusive(t) * dk.tile_scan_min_inclusive(t))


@case(1, x=signed(7), y=zeros(4))
def changed_by_threads(x: f1, y: f1):
    t = dk.tile_load(x, shape=4) * 2.0
    for k in range(6):
        dk.tile_scatter_add(t, k % 4, x[k] * x[k], k != 2)
    dk.tile_scatter_masked(t, 1, x[6] * x[0], x[0] > 100.0)
    dk.tile_scatter_masked(t, 3, x[6] * x[1], True)
    dk.tile_store(y, t * t)


@case(1, x=values(2), y=zeros(2, 3), n=5)
def random_between(x: f1, y: f2, n: int):
    t = dk.tile_randf((2, 3), dk.rand_init(n), -x[0], x[1])
    dk.tile_store(y, t * t)


@case(2, x=signed(12), y=zeros(8), n=6)
def items_of_a_stack(x: f1, y: f1, n: int):
    i = dk.tid()
    s = dk.tile_stack(4, float)
    for k in range(n):
        dk.tile_stack_push(s, x[6 * i + k] * x[6 * i + k], k != 1)
    for k in range(n):
        item, place = dk.tile_stack_pop(s)
        if place >= 0:
            y[4 * i + place] = item * item


@case(1, x=signed(1), y=zeros(2, 3))
def from_one_thread(x: f1, y: f2):
    i = dk.tid()
    dk.tile_store(y, dk.tile_from_thread((2, 3), x[i] * x[i], 0))


@case(1, x=signed(2, 6, 2), y=zeros(2, 6, 2), z=zeros(2, 6, 2))
def fourier_transforms(x: v2, y: v2, z: v2):
    t = dk.tile_load(x, shape=(2, 6))
    dk.tile_fft(t)
    dk.tile_store(y, t)
    t = t + dk.tile_load(x, shape=(2, 6))
    dk.tile_ifft(t)
    dk.tile_store(z, t)


@dk.func
def blended(a: float, b: float):
    return a * 0.5 + b * b


@case(1, x=signed(2, 5, 3), y=zeros(2, 3), z=zeros(2, 5))
def rows_by_a_function(x: f3, y: f2, z: f2):
    t = dk.tile_load(x, shape=(2, 5, 3))
    dk.tile_store(y, dk.tile_reduce(blended, t, axis=1))
    dk.tile_store(z, dk.tile_reduce(blended, t, axis=-1))


@case(1, x=signed(4, 3), y=zeros(4, 3), n=3)
def changed_through_views(x: f2, y: f2, n: int):
    """Rows of a tile from outside of a loop, changed in it."""
    t = dk.tile_load(x, shape=(4, 3))
    out = dk.tile_zeros(shape=(4, 3), dtype=float)
    for i in range(n):
        row = t[i]
        to = out[i]
        dk.tile_assign(to, row * row)
        to += row
        turned = dk.tile_transpose(out)
        turned[2, i] = x[i, 0] * x[i, 1]
    dk.tile_store(y, out)
