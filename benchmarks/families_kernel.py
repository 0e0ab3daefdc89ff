"""One kernel of 300 lines that uses every family of the language: for the benchmark of compile time."""

import diffkern as dk

WEIGHTS = (0.05, 0.25, 0.4, 0.25, 0.05)
STEPS = {"coarse": 3, "fine": 6}


@dk.struct
class Material:
    """What a body is made of."""

    density: float
    stiffness: float
    axis: dk.vec3
    kind: int


@dk.func
def smooth(x: float, width: float = 0.1):
    """A smooth absolute value."""
    return dk.sqrt(x * x + width * width) - width


@dk.func
def both(a: dk.vec3, b: dk.vec3):
    """Two results."""
    return dk.dot(a, b), dk.cross(a, b)


@dk.func
def polynomial(x: float):
    """A polynomial, with a derivative by hand."""
    return ((0.3 * x - 0.5) * x + 1.0) * x


@dk.func_grad(polynomial)
def polynomial_grad(x: float, ct: float):
    """Its derivative."""
    dk.adjoint[x] += ct * ((0.9 * x - 1.0) * x + 1.0)


@dk.kernel
def families(
    x: dk.array(dtype=float),
    grid: dk.array(dtype=float, ndim=2),
    points: dk.array(dtype=dk.vec3),
    rotations: dk.array(dtype=dk.quat),
    frames: dk.array(dtype=dk.transform),
    matrices: dk.array(dtype=dk.mat33),
    index: dk.array(dtype=int),
    material: Material,
    n: int,
    seed: int,
    y: dk.array(dtype=float),
    moved: dk.array(dtype=dk.vec3),
    total: dk.array(dtype=float),
    highest: dk.array(dtype=int),
    counts: dk.array(dtype=int),
):
    i = dk.tid()
    # scalars
    a = x[i]
    b = x[index[i]] + 0.5
    s0 = dk.sin(a) * dk.cos(b)
    s1 = dk.exp(-a * a) + dk.log(1.0 + b * b)
    s2 = dk.tanh(s0 - s1) / (1.0 + dk.abs(a))
    s3 = dk.sqrt(1.0 + s2 * s2)
    s4 = dk.pow(1.5 + s3, 0.7) - dk.cbrt(2.0 + s0)
    s5 = dk.atan2(s1, s3) + dk.asin(0.5 * dk.tanh(a))
    s6 = dk.min(s0, s1) + dk.max(s2, s3)
    s7 = dk.clamp(s4, -2.0, 2.0) * dk.smoothstep(0.0, 1.0, b)
    s8 = dk.lerp(s5, s6, 0.25) + dk.hypot(s7, 1.0)
    s9 = smooth(s8) + smooth(s6, width=0.2) + polynomial(0.1 * s7)
    s10 = dk.erf(0.1 * s9) + dk.expm1(0.01 * s8) - dk.log1p(s3)
    s11 = dk.where(s10 > 0.0, s10, 0.1 * s10)
    s12 = s11 if s9 > s8 else s11 + 0.01 * s8
    result = s12 + 0.1 * s9
    # integers and bits
    k0 = index[i] % 7
    k1 = (k0 << 2) ^ (i & 3)
    k2 = dk.bit_count(k1) + k1 // 3
    k3 = dk.clamp(k2, 0, 4)
    parity = (k0 + k1) % 2 == 0
    if parity and k3 > 1:
        result += 0.1 * float(k3)
    elif k0 == 3 or k1 < 0:
        result -= 0.05
    else:
        result *= 1.01
    # vectors
    p = points[i]
    q = points[index[i]]
    d = q - p
    length = dk.length(d) + 0.1
    along, across = both(p, q)
    n0 = dk.normalize(d + dk.vec3(0.1, 0.2, 0.3))
    v0 = n0 * along + across * 0.1
    v1 = dk.vec3(v0.y, v0.z, v0.x) - 0.5 * p
    v1[1] += 0.3 * a
    v1.z = v1.z + dk.dot(v0, v1) / length
    v2 = dk.cw_mul(v0, v1) + dk.cw_div(v1, dk.vec3(2.0, 3.0, 4.0))
    w4 = dk.vec4(v2.x, v2.y, v2.z, 1.0)
    w2 = dk.vec2(w4[0] - w4[1], w4[2] + w4[3])
    result += 0.01 * (dk.length_sq(v2) + dk.dot(w4, w4) + dk.length(w2 + dk.vec2(1.0, 1.0)))
    own = dk.vector(a, b, s0, s1, s2, length=5)
    own[2] = own[0] * own[1]
    result += 0.1 * dk.dot(own, own) / (1.0 + dk.length_sq(own))
    # matrices
    m = matrices[i]
    mt = dk.transpose(m)
    mm = m @ mt + dk.identity(n=3, dtype=float) * 2.0
    det = dk.determinant(mm)
    inv = dk.inverse(mm)
    v3 = inv @ v2
    v4 = mm[0] + mm[1] * 0.5
    mm[1, 2] = mm[1, 2] + 0.1 * det
    mo = dk.outer(v3, v4) + dk.skew(v3)
    sym = 0.5 * (mo + dk.transpose(mo))
    result += 0.01 * (dk.trace(mm) + dk.ddot(sym, mo) + dk.dot(dk.get_diag(mm), v4))
    m2 = dk.mat22(1.0 + a, 0.1, 0.2, 1.0 + b)
    m2i = dk.inverse(m2)
    result += 0.1 * (m2i[0, 0] + m2i[1, 1])
    m4 = dk.identity(n=4, dtype=float) * (1.0 + 0.1 * a)
    m4[0, 3] = b
    w5 = m4 @ w4
    result += 0.01 * dk.dot(w5, w5) / dk.determinant(m4)
    # quaternions and transforms
    r = dk.normalize(rotations[i])
    turned = dk.quat_rotate(r, v1)
    back = dk.quat_rotate_inv(r, turned + v0)
    r2 = r * dk.quat_from_axis_angle(n0, 0.3 * a)
    axis, angle = dk.quat_to_axis_angle(dk.normalize(r2))
    rot = dk.quat_to_matrix(dk.normalize(r2))
    blended = dk.quat_slerp(r, dk.normalize(r2), 0.25)
    t = frames[i]
    place = dk.transform_get_translation(t)
    heading = dk.normalize(dk.transform_get_rotation(t))
    t2 = dk.transform(place + 0.1 * back, heading)
    t3 = dk.transform_multiply(t2, dk.transform(v3, blended))
    seen = dk.transform_point(dk.transform_inverse(t3), v4)
    felt = dk.transform_vector(t3, axis)
    result += 0.01 * (dk.dot(seen, felt) + angle + dk.trace(rot))
    twist = dk.spatial_vector(seen, felt)
    result += 0.001 * dk.spatial_dot(twist, twist)
    # structs
    other = Material(material.density * 1.1, material.stiffness, material.axis + n0 * 0.1, k3)
    if other.kind == material.kind:
        other.stiffness = other.stiffness * 0.9
    energy = 0.5 * other.stiffness * smooth(length - 1.0) + other.density * dk.dot(other.axis, p)
    result += 0.01 * energy
    # loops whose trips are known, and sequences
    acc = 0.0
    for k in range(5):
        acc += WEIGHTS[k] * x[dk.clamp(i + k - 2, 0, x.shape[0] - 1)]
    for k, weight in enumerate(WEIGHTS):
        acc += weight * float(k) * 0.01
    for left, right in zip((0.1, 0.2, 0.3), (a, b, s0), strict=True):
        acc += left * right
    for component in v2:
        acc += 0.01 * component
    for k in range(dk.static(STEPS["fine"])):
        acc += dk.static(0.5) * dk.sin(acc + float(k))
    for k in reversed(range(3)):
        acc = acc * 0.9 + v3[k] * 0.01
    result += 0.1 * acc
    # loops whose trips are not
    state = a
    velocity = b
    for _ in range(n):
        force = -material.stiffness * state - 0.1 * velocity
        if dk.abs(force) > 10.0:
            force = 10.0 * dk.sign(force)
        velocity += 0.01 * force
        state += 0.01 * velocity
        if state > 50.0:
            break
    result += 0.1 * state + 0.05 * velocity
    guess = 1.0 + dk.abs(a)
    trips = 0
    while trips < 8:
        better = 0.5 * (guess + (1.0 + b * b) / guess)
        if dk.abs(better - guess) < 1.0e-6:
            break
        guess = better
        trips += 1
    result += 0.1 * guess
    row = 0.0
    for j in range(grid.shape[1]):
        if j == i:
            continue
        cell = grid[i, j]
        row += cell * cell / (1.0 + row * row)
        if row > 100.0:
            row = 100.0
    result += 0.01 * row
    far = dk.vec3(0.0, 0.0, 0.0)
    for j in range(points.shape[0]):
        e = points[j] - p
        far += e / (dk.length_sq(e) + 0.1)
    result += 0.01 * dk.length(far + dk.vec3(1.0, 0.0, 0.0))
    spin = m
    for _ in range(4):
        spin = spin @ rot * 0.5
        spin[0, 0] += 0.1
    result += 0.01 * dk.trace(spin)
    # local arrays
    stack = dk.zeros(shape=(8,), dtype=float)
    for k in range(8):
        stack[k] = 0.1 * float(k) * a
    for _ in range(2):
        for k in range(1, 7):
            stack[k] = 0.25 * stack[k - 1] + 0.5 * stack[k] + 0.25 * stack[k + 1]
    result += stack[3] + 0.1 * stack[k3]
    # stencils over rows
    last = grid.shape[1] - 1
    for j in range(1, 4):
        c = dk.min(j, last)
        west = grid[i, dk.max(c - 1, 0)]
        east = grid[i, dk.min(c + 1, last)]
        slope = 0.5 * (east - west)
        curve = east - 2.0 * grid[i, c] + west
        result += 0.01 * (slope * slope + curve)
    # branches
    if result > 4.0:
        if a > 0.0:
            result = 4.0 + dk.log(result - 3.0)
        else:
            result = 4.0 + 0.1 * (result - 4.0)
    elif result < -4.0:
        result = -4.0 - dk.log(-result - 3.0)
    match k3:
        case 0:
            result += 0.1 * s0
        case 1 | 2:
            result += 0.1 * s1
        case _:
            result += 0.1 * s2
    # random numbers and noise
    state_of_random = dk.rand_init(seed, i)
    u0 = dk.randf(state_of_random)
    u1 = dk.randf(state_of_random, -1.0, 1.0)
    g0 = dk.randn(state_of_random)
    kick = dk.sample_unit_sphere(state_of_random)
    result += 0.01 * (u0 * a + u1 * b + g0 * s0 + dk.dot(kick, p))
    field = dk.rand_init(seed)
    result += 0.1 * dk.noise(field, dk.vec3(p.x, p.y, a))
    result += 0.1 * dk.pnoise(field, dk.vec2(p.x, p.y), 4, 4)
    push = dk.curlnoise(field, p)
    # decompositions
    qm, rm = dk.qr3(mm)
    um, sigma, vm = dk.svd3(mm)
    result += 0.01 * (rm[0, 0] + sigma[0] + dk.trace(qm @ um @ dk.transpose(vm)))
    # derivatives in kernels, and what has none
    slope_here = dk.grad(smooth)(a, 0.1)
    result += 0.01 * slope_here[0]
    fixed = dk.stop_gradient(result)
    result += 0.001 * fixed * a
    # half precision and double precision
    narrow = dk.float16(a) * dk.float16(0.5)
    wide = dk.float64(b) * dk.float64(1.25) + dk.float64(s0)
    result += 0.01 * float(narrow) + 0.01 * float(wide)
    # bodies of several points
    rest = dk.vec3(0.5, 0.25, 0.125)
    spread = dk.mat33(0.0)
    centre = dk.vec3(0.0, 0.0, 0.0)
    for k in range(4):
        corner = points[(index[i] + k) % points.shape[0]] - rest
        spread += dk.outer(corner, corner)
        centre += 0.25 * corner
    spread = spread - 4.0 * dk.outer(centre, centre)
    stretch = dk.ddot(spread, spread) + dk.length(centre + rest)
    result += 0.01 * dk.log(1.0 + stretch)
    # a chain of frames
    chain = dk.transform_identity(dtype=float)
    for k in range(3):
        hinge = dk.quat_from_axis_angle(dk.vec3(0.0, 0.0, 1.0), 0.2 * x[(i + k) % x.shape[0]])
        chain = dk.transform_multiply(chain, dk.transform(dk.vec3(0.0, 0.3, 0.0), hinge))
    tip = dk.transform_point(chain, rest)
    result += 0.05 * dk.length(tip - q)
    # results
    y[i] = result
    moved[i] = p + 0.01 * (push + far + turned + seen)
    dk.atomic_add(total, 0, result * result)
    dk.atomic_max(highest, k0, i)
    dk.atomic_add(counts, k3, 1)
