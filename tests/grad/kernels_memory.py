"""Arrays: gathers, scatters, atomics, in-place updates, scratch arrays, recurrences in memory."""

import diffkern as dk

from .cases import case, ints, scalar, signed, spread, values, zeros

f1 = dk.array(dtype=float)
f2 = dk.array(dtype=float, ndim=2)
f3 = dk.array(dtype=float, ndim=3)
i1 = dk.array(dtype=int)
i2 = dk.array(dtype=int, ndim=2)


@case(6, x=signed(6), y=zeros(6))
def stencil(x: f1, y: f1):
    i = dk.tid()
    if i > 0 and i < x.shape[0] - 1:
        y[i] = x[i - 1] * x[i] - 2.0 * x[i] + x[i + 1] * x[i + 1]
    else:
        y[i] = x[i]


@case(5, x=signed(5), y=zeros(5))
def stencil_wrapped(x: f1, y: f1):
    i = dk.tid()
    n = x.shape[0]
    y[i] = x[(i + 1) % n] * x[i] + dk.sin(x[(i + n - 1) % n])


@case(4, x=signed(4), y=zeros(4))
def negative_index(x: f1, y: f1):
    i = dk.tid()
    y[i] = x[i - 1] * x[-1]


@case(6, x=signed(4), idx=ints(0, 3, 3, 1, 0, 3), y=zeros(6))
def gather(x: f1, idx: i1, y: f1):
    i = dk.tid()
    y[i] = x[idx[i]] * x[idx[i]] + x[0]


@case(6, x=signed(6), idx=ints(4, 2, 0, 5, 1, 3), y=zeros(6))
def scatter_permutation(x: f1, idx: i1, y: f1):
    i = dk.tid()
    y[idx[i]] = x[i] * x[i]


@case(6, x=signed(6), idx=ints(0, 2, 2, 1, 0, 2), y=values(3))
def scatter_add(x: f1, idx: i1, y: f1):
    i = dk.tid()
    dk.atomic_add(y, idx[i], x[i] * x[i])


@case(6, x=signed(6), idx=ints(0, 2, 2, 1, 0, 2), y=values(3))
def scatter_sub(x: f1, idx: i1, y: f1):
    i = dk.tid()
    dk.atomic_sub(y, idx[i], dk.sin(x[i]))


@case(6, x=spread(6), idx=ints(0, 2, 2, 1, 0, 2), y=values(3, lo=-0.05, hi=0.05))
def scatter_max(x: f1, idx: i1, y: f1):
    i = dk.tid()
    dk.atomic_max(y, idx[i], 2.0 * x[i])


@case(6, x=spread(6), idx=ints(0, 2, 2, 1, 0, 2), y=values(3, lo=-0.05, hi=0.05))
def scatter_min(x: f1, idx: i1, y: f1):
    i = dk.tid()
    dk.atomic_min(y, idx[i], x[i] * 1.5)


@case(6, x=signed(6), target=scalar(0.4), loss=values(1))
def uniform_loss(x: f1, target: float, loss: f1):
    i = dk.tid()
    d = x[i] - target
    dk.atomic_add(loss, 0, d * d)


@case(6, x=signed(6), a=scalar(0.8), b=scalar(-0.3), y=zeros(6), loss=zeros(1))
def scalar_parameters(x: f1, a: float, b: float, y: f1, loss: f1):
    i = dk.tid()
    v = dk.sin(a * x[i]) + b * b
    y[i] = v
    dk.atomic_add(loss, 0, a * v)


@case(5, y=signed(5))
def square_in_place(y: f1):
    i = dk.tid()
    y[i] = y[i] * y[i]


@case(5, y=signed(5), x=signed(5))
def multiply_in_place(y: f1, x: f1):
    i = dk.tid()
    y[i] *= x[i]


@case(5, y=signed(5), x=signed(5))
def update_twice(y: f1, x: f1):
    i = dk.tid()
    y[i] = y[i] * x[i]
    y[i] = dk.sin(y[i]) + x[i] * y[i]


@case(5, x=signed(5), y=zeros(5))
def two_stores(x: f1, y: f1):
    i = dk.tid()
    y[i] = x[i] * x[i]
    y[i] = dk.exp(x[i])


@case(5, x=signed(5), y=values(5))
def store_under_condition(x: f1, y: f1):
    i = dk.tid()
    if x[i] > 0.0:
        y[i] = y[i] * x[i]
    y[i] = y[i] + y[i] * x[i]


@case(3, x=signed(3, 4), tmp=zeros(3, 4), y=zeros(3), n=4)
def scratch_array(x: f2, tmp: f2, y: f1, n: int):
    i = dk.tid()
    for k in range(n):
        tmp[i, k] = x[i, k] * x[i, k]
    s = 1.0
    for k in range(n):
        s = s * (1.0 + tmp[i, k])
    y[i] = s


@case(3, x=signed(3, 5), y=signed(3, 5), a=scalar(0.6), n=5)
def recurrence_in_array(x: f2, y: f2, a: float, n: int):
    i = dk.tid()
    for k in range(1, n):
        y[i, k] = a * y[i, k - 1] + x[i, k]


@case(3, x=signed(4), y=signed(3), n=4)
def accumulate_in_memory(x: f1, y: f1, n: int):
    i = dk.tid()
    for k in range(n):
        y[i] += x[k] * x[i]


@case(3, x=signed(4), y=signed(3), n=4)
def product_in_memory(x: f1, y: f1, n: int):
    i = dk.tid()
    for k in range(n):
        y[i] = y[i] * x[k]


@case(3, x=signed(4), y=signed(3), n=4)
def iterate_in_memory(x: f1, y: f1, n: int):
    i = dk.tid()
    for k in range(n):
        y[i] = dk.sin(y[i]) + 0.5 * x[k]


@case(3, 4, x=signed(3, 4), y=zeros(3, 4))
def heat_2d(x: f2, y: f2):
    i, j = dk.tid()
    n = x.shape[0]
    m = x.shape[1]
    c = x[i, j]
    s = c
    if i > 0 and j > 0 and i < n - 1 and j < m - 1:
        s = c + 0.1 * (x[i - 1, j] + x[i + 1, j] + x[i, j - 1] + x[i, j + 1] - 4.0 * c) * c
    y[i, j] = s


@case(2, 2, 3, x=signed(2, 2, 3), y=zeros(2, 2, 3))
def cube_3d(x: f3, y: f3):
    i, j, k = dk.tid()
    y[i, j, k] = x[i, j, k] * x[i, 1 - j, k]


@case(2, 3, 4, a=signed(2, 4), b=signed(4, 3), c=zeros(2, 3))
def matmul_atomic(a: f2, b: f2, c: f2):
    i, j, k = dk.tid()
    dk.atomic_add(c, i, j, a[i, k] * b[k, j])


@case(2, 3, a=signed(2, 4), b=signed(4, 3), c=zeros(2, 3))
def matmul_loop(a: f2, b: f2, c: f2):
    i, j = dk.tid()
    s = 0.0
    for k in range(a.shape[1]):
        s += a[i, k] * b[k, j]
    c[i, j] = s


@case(3, x=signed(3, 4), y=zeros(3))
def row_view(x: f2, y: f1):
    i = dk.tid()
    row = x[i]
    s = 1.0
    for k in range(row.shape[0]):
        s = s * row[k] + 0.2
    y[i] = s


@case(2, x=signed(8), y=zeros(2))
def slice_view(x: f1, y: f1):
    i = dk.tid()
    part = x[2:6]
    y[i] = part[i] * part[i + 1] + part[3]


@case(3, x=signed(3, 4), y=zeros(3, 4))
def store_through_view(x: f2, y: f2):
    i = dk.tid()
    row = y[i]
    for k in range(4):
        row[k] = x[i, k] * x[i, 0]


@case(2, x=signed(9), y=zeros(2))
def slice_with_step(x: f1, y: f1):
    i = dk.tid()
    even = x[0:9:2]
    y[i] = even[i] * even[4 - i]


@case(4, x=signed(4), y=zeros(4))
def broadcast_read(x: f1, y: f1):
    i = dk.tid()
    y[i] = x[i] * x[0] + x[2] * x[2]


@case(2, 3, x=signed(3), y=zeros(2, 3))
def one_component_of_tid(x: f1, y: f2):
    i, j = dk.tid()
    y[i, j] = x[j] * x[j] * float(i + 1)


@case(4, x=signed(8), y=zeros(8))
def strided_stores(x: f1, y: f1):
    i = dk.tid()
    y[2 * i] = x[2 * i] * x[2 * i + 1]
    y[2 * i + 1] = x[2 * i] + dk.sin(x[2 * i + 1])


@case(4, x=signed(4), y=zeros(4))
def reversed_index(x: f1, y: f1):
    i = dk.tid()
    y[x.shape[0] - 1 - i] = x[i] * x[i]


@case(
    3,
    tri=lambda rng: __import__("numpy").array([[0, 1, 2], [1, 3, 2], [2, 3, 0]], "int32"),
    px=signed(4),
    py=signed(4),
    area=zeros(1),
)
def triangle_area(tri: i2, px: f1, py: f1, area: f1):
    t = dk.tid()
    a, b, c = tri[t, 0], tri[t, 1], tri[t, 2]
    ux = px[b] - px[a]
    uy = py[b] - py[a]
    vx = px[c] - px[a]
    vy = py[c] - py[a]
    dk.atomic_add(area, 0, 0.5 * (ux * vy - uy * vx) * (ux * vy - uy * vx))


@case(4, x=signed(4), y=zeros(4), n=4)
def all_pairs(x: f1, y: f1, n: int):
    i = dk.tid()
    s = 0.0
    for j in range(n):
        d = x[i] - x[j]
        s += d / (d * d + 0.5)
    y[i] = s


@case(3, x=signed(3, 4), idx=ints(2, 0, 3, 1), y=zeros(3), n=4)
def gather_in_loop(x: f2, idx: i1, y: f1, n: int):
    i = dk.tid()
    p = 1.0
    for k in range(n):
        p = p * x[i, idx[k]] + 0.25 * dk.sin(p)
    y[i] = p


@case(2, x=signed(2, 3), y=values(4), idx=ints(0, 3, 1), n=3)
def atomic_in_loop(x: f2, y: f1, idx: i1, n: int):
    i = dk.tid()
    p = 1.0
    for k in range(n):
        p *= x[i, k]
        dk.atomic_add(y, idx[k], p * p)


@case(3, x=signed(3), y=signed(3, 2), z=zeros(3), k=0)
def maybe_the_same_element(x: f1, y: f2, z: f1, k: int):
    i = dk.tid()
    y[i, 0] = x[i] * x[i]
    y[i, k] = dk.sin(x[i])
    z[i] = y[i, 0] * x[i]


@case(4, x=signed(4), y=values(4), z=zeros(4))
def read_then_overwrite(x: f1, y: f1, z: f1):
    i = dk.tid()
    v = y[i]
    y[i] = x[i]
    z[i] = v * v * y[i]


@case(4, x=signed(4), y=zeros(4), z=zeros(4))
def write_then_read(x: f1, y: f1, z: f1):
    i = dk.tid()
    y[i] = x[i] * x[i]
    z[i] = y[i] * x[i]


@case(3, x=signed(3), y=signed(3, 4), n=4)
def fill_from_carried(x: f1, y: f2, n: int):
    i = dk.tid()
    v = x[i]
    for k in range(n):
        v = dk.sin(v) + x[i]
        y[i, k] = v * y[i, k]


@case(3, x=signed(3), xnew=zeros(3), v=signed(3), m=values(3, lo=1.0), dt=scalar(0.1))
def integrate_particles(x: f1, xnew: f1, v: f1, m: f1, dt: float):
    i = dk.tid()
    f = -dk.sin(x[i]) / m[i]
    v[i] = v[i] + dt * f
    xnew[i] = x[i] + dt * v[i]


@case(4, x=signed(4), y=zeros(4), big=zeros(3))
def unused_output(x: f1, y: f1, big: f1):
    i = dk.tid()
    y[i] = x[i] * 3.0


@case(0, x=signed(3), y=values(3))
def empty_launch(x: f1, y: f1):
    i = dk.tid()
    y[i] = x[i] * x[i]


@case(3, x=signed(3), y=signed(3), n=0)
def in_place_zero_trips(x: f1, y: f1, n: int):
    i = dk.tid()
    for k in range(n):
        y[i] = y[i] * x[i]


@case(1, x=signed(6))
def serial_in_place(x: f1):
    for k in range(1, x.shape[0]):
        x[k] = x[k] * x[k - 1] + 0.5


@case(1, x=signed(6), y=zeros(6))
def serial_cumulative(x: f1, y: f1):
    y[0] = x[0]
    for k in range(1, x.shape[0]):
        y[k] = dk.sin(y[k - 1]) * x[k]


@case(3, s=signed(3, 5), n=4)
def time_steps_in_memory(s: f2, n: int):
    i = dk.tid()
    for k in range(n):
        s[i, k + 1] = s[i, k] * dk.sin(s[i, k]) + s[i, k + 1]


@case(3, s=signed(3, 2), x=signed(3))
def swap_in_memory(s: f2, x: f1):
    i = dk.tid()
    a = s[i, 0]
    s[i, 0] = s[i, 1] * x[i]
    s[i, 1] = a * a


@case(3, x=signed(3), y=values(3))
def while_on_memory(x: f1, y: f1):
    i = dk.tid()
    while y[i] > 0.1:
        y[i] = y[i] * 0.5 * dk.cos(x[i])


@case(3, x=values(3), y=values(3), n=5, m=4)
def nested_loops_on_memory(x: f1, y: f1, n: int, m: int):
    i = dk.tid()
    for k in range(n):
        for j in range(m):
            if y[i] > 1.5:
                break
            y[i] = y[i] * (1.0 + 0.1 * x[i])
        y[i] = y[i] * 0.9


@case(3, x=signed(3), y=signed(3), n=4)
def conditions_on_memory(x: f1, y: f1, n: int):
    i = dk.tid()
    for k in range(n):
        if k % 2 == 0:
            y[i] = y[i] * x[i]
        if y[i] > 0.05:
            y[i] = dk.sin(y[i])


@case(4, x=signed(4), y=signed(4), z=signed(4))
def three_arrays_in_place(x: f1, y: f1, z: f1):
    i = dk.tid()
    y[i] = x[i] * y[i]
    z[i] = y[i] * z[i]
    y[i] = z[i] * y[i]
    x[i] = y[i] + x[i] * z[i]


@case(4, x=signed(8), y=zeros(4))
def the_same_element_spelled_twice(x: f1, y: f1):
    i = dk.tid()
    x[2 * i] = x[2 * i] * x[i * 2 + 1]
    y[i] = x[i + i] * x[i + i]


@case(3, x=signed(3, 4), y=zeros(3, 2))
def accumulate_through_views(x: f2, y: f2):
    i = dk.tid()
    row, out = x[i], y[i]
    out[0] = 1.0
    for k in range(4):
        out[0] = out[0] * row[k]
    out[1] = out[0] * out[0]


@case(4, x=lambda rng: rng.uniform(0.3, 1.2, 4).astype("float16"), y=signed(4), rtol32=2e-3)
def half_precision_storage(x: dk.array(dtype=dk.float16), y: f1):
    i = dk.tid()
    y[i] = x[i] * x[i] * y[i]


@case(6, x=spread(6, 3), idx=ints(0, 2, 2, 1, 0, 2), y=values(3, 3, lo=-0.05, hi=0.05))
def scatter_max_of_components(x: dk.array(dtype=dk.vec3), idx: i1, y: dk.array(dtype=dk.vec3)):
    i = dk.tid()
    dk.atomic_max(y, idx[i], 2.0 * x[i])


@case(6, x=spread(6, 2, 2), idx=ints(0, 2, 2, 1, 0, 2), y=values(3, 2, 2, lo=-0.05, hi=0.05))
def scatter_min_of_matrices(x: dk.array(dtype=dk.mat22), idx: i1, y: dk.array(dtype=dk.mat22)):
    i = dk.tid()
    dk.atomic_min(y, idx[i], x[i] * 1.5)
