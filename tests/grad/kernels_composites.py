"""Vectors and matrices: named operations, components, composites carried through loops."""

import diffkern as dk

from .cases import as32, case, ints, scalar, signed, values, zeros

f1 = dk.array(dtype=float)
v2 = dk.array(dtype=dk.vec2)
v3 = dk.array(dtype=dk.vec3)
v4 = dk.array(dtype=dk.vec4)
m2 = dk.array(dtype=dk.mat22)
m3 = dk.array(dtype=dk.mat33)
m4 = dk.array(dtype=dk.mat44)


@case(3, p=signed(3, 2), y=zeros(3, 2), c=scalar(0.8), s=scalar(0.6), n=5)
def rotate_in_loop(p: v2, y: v2, c: float, s: float, n: int):
    i = dk.tid()
    v = p[i]
    for k in range(n):
        v = dk.vec2(c * v[0] - s * v[1], s * v[0] + c * v[1])
    y[i] = v


@case(3, a=signed(3, 3), b=signed(3, 3), y=zeros(3))
def dot_cross(a: v3, b: v3, y: f1):
    i = dk.tid()
    y[i] = dk.dot(dk.cross(a[i], b[i]), a[i] + b[i] * 2.0) + dk.dot(a[i], b[i])


@case(3, a=signed(3, 3), y=zeros(3, 3))
def normalize_length(a: v3, y: v3):
    i = dk.tid()
    y[i] = dk.normalize(a[i]) * dk.length(a[i]) * dk.length_sq(a[i])


@case(
    2, a=lambda rng: as32([[0, 0, 0], [3, 0, 4]]), y=zeros(2), numeric=False, expect={"a": [[0, 0, 0], [0.6, 0, 0.8]]}
)
def length_at_zero(a: v3, y: f1):
    i = dk.tid()
    y[i] = dk.length(a[i])


@case(
    2,
    a=lambda rng: as32([[0, 0, 0], [0, 0, 2]]),
    y=zeros(2, 3),
    numeric=False,
    expect={"a": [[0, 0, 0], [0.5, 0.5, 0]]},
)
def normalize_at_zero(a: v3, y: v3):
    i = dk.tid()
    y[i] = dk.normalize(a[i])


@case(2, m=signed(2, 3, 3), v=signed(2, 3), y=zeros(2, 3))
def matvec(m: m3, v: v3, y: v3):
    i = dk.tid()
    y[i] = m[i] * v[i] + dk.transpose(m[i]) * v[i]


@case(2, a=signed(2, 2, 2), b=signed(2, 2, 2), y=zeros(2, 2, 2))
def matmul(a: m2, b: m2, y: m2):
    i = dk.tid()
    y[i] = a[i] * b[i] * dk.transpose(a[i])


@case(2, a=lambda rng: as32(rng.uniform(-0.5, 0.5, (2, 3, 3)) + 2.0 * __import__("numpy").eye(3)), y=zeros(2, 3, 3))
def inverse_determinant(a: m3, y: m3):
    i = dk.tid()
    y[i] = dk.inverse(a[i]) * dk.determinant(a[i])


@case(2, a=lambda rng: as32(rng.uniform(-0.3, 0.3, (2, 4, 4)) + 1.5 * __import__("numpy").eye(4)), y=zeros(2))
def determinant_4(a: m4, y: f1):
    i = dk.tid()
    y[i] = dk.determinant(a[i]) + dk.trace(dk.inverse(a[i]))


@case(2, a=signed(2, 3), b=signed(2, 3), y=zeros(2, 3, 3))
def outer_product(a: v3, b: v3, y: m3):
    i = dk.tid()
    y[i] = dk.outer(a[i], b[i]) + dk.outer(b[i], a[i]) * 0.5


@case(2, m=signed(2, 2, 2), v=signed(2, 2), y=zeros(2, 2), n=4)
def matrix_power(m: m2, v: v2, y: v2, n: int):
    i = dk.tid()
    p = m[i]
    w = v[i]
    for k in range(n):
        p = p * m[i] * 0.5
        w = p * w + v[i]
    y[i] = w


@case(2, x=signed(2, 3), y=zeros(2, 3), n=5, options={"slots": 2})
def vec_carried_two_slots(x: v3, y: v3, n: int):
    i = dk.tid()
    v = x[i]
    for k in range(n):
        v = v + 0.1 * dk.cross(v, x[i]) * dk.length(v)
    y[i] = v


@case(3, x=signed(3, 3), y=zeros(3))
def components(x: v3, y: f1):
    i = dk.tid()
    v = x[i]
    y[i] = v[0] * v[1] - v[2] * v.x


@case(3, x=signed(3, 3), y=zeros(3, 3))
def component_assignment(x: v3, y: v3):
    i = dk.tid()
    v = x[i]
    v[0] = v[1] * v[2]
    v[2] += v[0]
    v[1] *= 2.0
    y[i] = v


@case(2, x=signed(2, 4), y=zeros(2), n=4)
def dynamic_component(x: v4, y: f1, n: int):
    i = dk.tid()
    v = x[i]
    s = 1.0
    for k in range(n):
        s = s * v[k] + 0.1
    y[i] = s


@case(2, x=signed(2, 4), y=zeros(2, 4), n=4)
def dynamic_component_store(x: v4, y: v4, n: int):
    i = dk.tid()
    v = x[i]
    for k in range(1, n):
        v[k] = v[k - 1] * v[k] + 0.3
    y[i] = v


@case(2, m=signed(2, 3, 3), y=zeros(2))
def matrix_components(m: m3, y: f1):
    i = dk.tid()
    a = m[i]
    a[0, 1] = a[1, 2] * a[2, 0]
    y[i] = a[0, 1] * a[1, 1] + a[2, 2]


@case(3, x=signed(4, 3), e0=ints(0, 1, 2), e1=ints(1, 3, 0), rest=values(3), k=scalar(2.5), energy=zeros(1))
def spring_energy(x: v3, e0: dk.array(dtype=int), e1: dk.array(dtype=int), rest: f1, k: float, energy: f1):
    e = dk.tid()
    stretch = dk.length(x[e0[e]] - x[e1[e]]) - rest[e]
    dk.atomic_add(energy, 0, 0.5 * k * stretch * stretch)


@case(3, x=signed(4, 3), e0=ints(0, 1, 2), e1=ints(1, 3, 0), f=zeros(4, 3))
def spring_forces(x: v3, e0: dk.array(dtype=int), e1: dk.array(dtype=int), f: v3):
    e = dk.tid()
    d = x[e0[e]] - x[e1[e]]
    force = d * (dk.length(d) - 0.5)
    dk.atomic_add(f, e0[e], -force)
    dk.atomic_sub(f, e1[e], -force)


@case(4, x=signed(4, 2), y=zeros(4, 2), n=4)
def n_body(x: v2, y: v2, n: int):
    i = dk.tid()
    acc = dk.vec2(0.0, 0.0)
    for j in range(n):
        d = x[j] - x[i]
        r2 = dk.dot(d, d) + 0.3
        acc += d / (r2 * dk.sqrt(r2))
    y[i] = acc


@case(3, x=signed(3, 3), centre=lambda rng: dk.vec3(0.2, -0.4, 0.7), y=zeros(3))
def vector_parameter(x: v3, centre: dk.vec3, y: f1):
    i = dk.tid()
    y[i] = dk.length(x[i] - centre) * centre[1]


@case(3, x=signed(3, 3), b=signed(3, 3), y=zeros(3, 3))
def componentwise(x: v3, b: v3, y: v3):
    i = dk.tid()
    y[i] = dk.cw_mul(x[i], b[i]) + dk.cw_div(x[i], b[i]) - x[i] / 2.0


@case(3, x=signed(3, 3), y=zeros(3, 3))
def vector_branch(x: v3, y: v3):
    i = dk.tid()
    v = x[i]
    if v[0] > 0.0:
        v = dk.normalize(v)
    else:
        v = -v * v[1]
    y[i] = v


@case(3, x=signed(3, 3))
def vector_in_place(x: v3):
    i = dk.tid()
    x[i] = x[i] * dk.dot(x[i], x[i])


@case(2, q=signed(2, 3), w=signed(2, 3), out=zeros(2, 3), dt=scalar(0.1), n=6)
def rigid_spin(q: v3, w: v3, out: v3, dt: float, n: int):
    i = dk.tid()
    d = q[i]
    for k in range(n):
        d = dk.normalize(d + dt * dk.cross(w[i], d))
    out[i] = d


@case(2, a=signed(2, 3, 3), y=zeros(2, 3))
def diagonals(a: m3, y: v3):
    i = dk.tid()
    y[i] = dk.get_diag(a[i] * dk.diag(dk.get_diag(a[i]))) + dk.skew(dk.get_diag(a[i])) * dk.vec3(1.0, 2.0, 3.0)


@case(3, m=signed(3, 3, 3), v=signed(3, 3))
def power_iteration_in_place(m: m3, v: v3):
    i = dk.tid()
    for k in range(4):
        v[i] = dk.normalize(m[i] * v[i])


@case(3, x=signed(3, 4), y=zeros(3))
def accumulate_in_components(x: dk.array(dtype=float, ndim=2), y: f1):
    i = dk.tid()
    acc = dk.vec4(0.0)
    for k in range(4):
        acc[(k * 3) % 4] += x[i, k] * x[i, 0]
    y[i] = acc[0] * acc[1] + acc[2] * acc[3]


@case(
    4, x=signed(4, 2), e=lambda rng: __import__("numpy").array([[0, 1], [1, 2], [2, 3], [3, 0]], "int32"), loss=zeros(1)
)
def edges_as_integer_vectors(x: v2, e: dk.array(dtype=dk.vec2i), loss: f1):
    i = dk.tid()
    pair = e[i]
    dk.atomic_add(loss, 0, dk.length(x[pair[0]] - x[pair[1]]))


@case(5, x=signed(5, 3), m=signed(5, 2, 2), total=zeros(1, 3), product=zeros(1, 2, 2))
def vector_total(x: v3, m: m2, total: v3, product: m2):
    i = dk.tid()
    dk.atomic_add(total, 0, x[i] * dk.length(x[i]))
    dk.atomic_sub(product, 0, m[i] * m[i])
