"""LULESH's Lagrange leapfrog step as kernels: a thread for each element or each node of a mesh of hexahedra.

The corners of an element are numbered as in finite elements: 0 to 3 around the bottom, 4 to 7 around the top.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,valid-type"

import diffkern as dk

Corners = dk.types.matrix((8, 3), dk.float64)
vec3 = dk.vec3d

FACES = ((0, 1, 2, 3), (0, 4, 5, 1), (1, 5, 6, 2), (2, 6, 7, 3), (3, 7, 4, 0), (4, 7, 6, 5))
"""Corners of the faces; their normals point inwards, so that a pressure pushes nodes out."""

AROUND = (
    (1, 2, 3, 4, 5, 7), (2, 3, 0, 5, 6, 4), (3, 0, 1, 6, 7, 5), (0, 1, 2, 7, 4, 6),
    (7, 6, 5, 0, 3, 1), (4, 7, 6, 1, 0, 2), (5, 4, 7, 2, 1, 3), (6, 5, 4, 3, 2, 0),
)  # fmt: skip
"""For each corner, the corners that the derivative of the volume with respect to its position depends on."""

OPPOSITE = ((0, 6), (1, 7), (2, 4), (3, 5))
"""Pairs of corners on the same diagonal."""

MODES = (
    (1.0, 1.0, -1.0, -1.0, -1.0, -1.0, 1.0, 1.0),
    (1.0, -1.0, -1.0, 1.0, -1.0, 1.0, 1.0, -1.0),
    (1.0, -1.0, 1.0, -1.0, 1.0, -1.0, 1.0, -1.0),
    (-1.0, 1.0, -1.0, 1.0, 1.0, -1.0, 1.0, -1.0),
)
"""The hourglass modes: velocities of the corners that change neither the volume nor the mean strain."""

TINY = dk.constant(1e-36)
E_CUT, P_CUT, Q_CUT, U_CUT, V_CUT = 1e-7, 1e-7, 1e-7, 1e-7, 1e-10
E_MIN, P_MIN = -1e15, 0.0
V_MIN, V_MAX = 1e-9, 1e9
HOURGLASS = 3.0
MAX_SLOPE, LIMITER, LINEAR_Q, QUADRATIC_Q = 1.0, 2.0, 0.5, 2.0 / 3.0
COURANT_Q, MAX_STRAIN = 2.0, 0.1
DENSITY = 1.0
DT_MAX, STOP_TIME, SLOWEST, FASTEST = 1e-2, 1e-2, 1.1, 1.2
NEVER = 1e20


@dk.func
def corners_of(field, nodes, e):
    """Return the vectors of a field of nodes at the corners of an element."""
    found = Corners()
    for c in range(8):
        found[c] = field[nodes[e, c]]
    return found


@dk.func
def corner_normals(x):
    """Return for each corner a quarter of the normals of its three faces, with their areas as lengths."""
    normals = Corners()
    for a, b, c, d in FACES:
        along = 0.5 * (x[d] + x[c] - x[b] - x[a])
        across = 0.5 * (x[c] + x[b] - x[d] - x[a])
        area = 0.25 * dk.cross(along, across)
        normals[a] += area
        normals[b] += area
        normals[c] += area
        normals[d] += area
    return normals


@dk.func
def volume_of(x):
    """Return the volume of an element: of three tetrahedra-like parts around the diagonal from corner 1 to 7."""
    return (
        dk.dot(x[3] - x[1] + (x[7] - x[2]), dk.cross(x[6] - x[3], x[2] - x[0]))
        + dk.dot(x[4] - x[3] + (x[5] - x[7]), dk.cross(x[6] - x[4], x[7] - x[0]))
        + dk.dot(x[1] - x[4] + (x[2] - x[5]), dk.cross(x[6] - x[1], x[5] - x[0]))
    ) / 12.0


@dk.func
def volume_slopes(x):
    """Return the derivative of the volume with respect to the position of each corner."""
    slopes = Corners()
    for c, (i, j, k, m, n, o) in enumerate(AROUND):
        slopes[c] = (
            dk.cross(x[j] + x[k], x[i] + x[j]) + dk.cross(x[i] + x[n], x[m] + x[n]) - dk.cross(x[k] + x[o], x[m] + x[o])
        ) / 12.0
    return slopes


@dk.kernel
def element_forces(
    x: dk.array(dtype=vec3),
    v: dk.array(dtype=vec3),
    nodes: dk.array2d(dtype=dk.int32),
    p: dk.array(dtype=dk.float64),
    q: dk.array(dtype=dk.float64),
    sound: dk.array(dtype=dk.float64),
    volume: dk.array(dtype=dk.float64),
    volume0: dk.array(dtype=dk.float64),
    mass: dk.array(dtype=dk.float64),
    force: dk.array(dtype=vec3),
):
    """Add the forces of stress and those against hourglass modes (Flanagan and Belytschko) to the nodes."""
    e = dk.tid()
    at, speed = corners_of(x, nodes, e), corners_of(v, nodes, e)
    pull = (p[e] + q[e]) * corner_normals(at)
    now = volume0[e] * volume[e]
    slopes = volume_slopes(at)
    damping = -HOURGLASS * 0.01 * sound[e] * mass[e] / dk.cbrt(now)
    for mode in MODES:
        along = vec3()
        for c in range(8):
            along += mode[c] * at[c]
        shape = slopes @ (along / now)
        moving = vec3()
        for c in range(8):
            moving += (mode[c] - shape[c]) * speed[c]
        for c in range(8):
            pull[c] += damping * (mode[c] - shape[c]) * moving
    for c in range(8):
        force[nodes[e, c]] += pull[c]


@dk.func
def cut(value, least):
    """Return a number, or zero where it is small."""
    return 0.0 if dk.abs(value) < least else value


@dk.kernel
def move_nodes(
    x: dk.array(dtype=vec3),
    v: dk.array(dtype=vec3),
    force: dk.array(dtype=vec3),
    mass: dk.array(dtype=dk.float64),
    free: dk.array(dtype=vec3),
    clock: dk.array(dtype=dk.float64),
):
    """Accelerate the nodes, except across planes of symmetry, and move them."""
    n = dk.tid()
    dt = clock[0]
    new = v[n] + dk.cw_mul(force[n] / mass[n], free[n]) * dt
    new = vec3(cut(new[0], U_CUT), cut(new[1], U_CUT), cut(new[2], U_CUT))
    v[n] = new
    x[n] += new * dt


@dk.func
def face_measure(a, b, c, d):
    """Return sixteen times the squared area of a face."""
    f, g = (c - a) - (d - b), (c - a) + (d - b)
    across = dk.dot(f, g)
    return dk.dot(f, f) * dk.dot(g, g) - across * across


@dk.func
def strain_rate(x, v):
    """Return the trace of the velocity gradient at the centre of an element."""
    a, b, c, d = x[6] - x[0], x[5] - x[3], x[7] - x[1], x[4] - x[2]
    xi, eta, zeta = 0.125 * (a + b - c - d), 0.125 * (a - b + c - d), 0.125 * (a + b + c + d)
    by_xi, by_eta, by_zeta = dk.cross(eta, zeta), dk.cross(zeta, xi), dk.cross(xi, eta)
    rate = dk.dot(-by_xi - by_eta - by_zeta, v[0] - v[6])
    rate += dk.dot(by_xi - by_eta - by_zeta, v[1] - v[7])
    rate += dk.dot(by_xi + by_eta - by_zeta, v[2] - v[4])
    rate += dk.dot(-by_xi + by_eta - by_zeta, v[3] - v[5])
    return rate / (8.0 * dk.dot(eta, by_eta))


@dk.kernel
def kinematics(
    x: dk.array(dtype=vec3),
    v: dk.array(dtype=vec3),
    nodes: dk.array2d(dtype=dk.int32),
    volume: dk.array(dtype=dk.float64),
    volume0: dk.array(dtype=dk.float64),
    clock: dk.array(dtype=dk.float64),
    new_volume: dk.array(dtype=dk.float64),
    change: dk.array(dtype=dk.float64),
    size: dk.array(dtype=dk.float64),
    rate: dk.array(dtype=dk.float64),
    gradient: dk.array(dtype=vec3),
    spacing: dk.array(dtype=vec3),
):
    """Measure an element after the nodes have moved: volume, length, and changes of velocity along its axes."""
    e = dk.tid()
    at, speed = corners_of(x, nodes, e), corners_of(v, nodes, e)
    whole = volume_of(at)
    relative = whole / volume0[e]
    new_volume[e] = relative
    change[e] = relative - volume[e]
    largest = face_measure(at[0], at[1], at[2], at[3])
    largest = dk.max(largest, face_measure(at[4], at[5], at[6], at[7]))
    largest = dk.max(largest, face_measure(at[0], at[1], at[5], at[4]))
    largest = dk.max(largest, face_measure(at[1], at[2], at[6], at[5]))
    largest = dk.max(largest, face_measure(at[2], at[3], at[7], at[6]))
    largest = dk.max(largest, face_measure(at[3], at[0], at[4], at[7]))
    size[e] = 4.0 * whole / dk.sqrt(largest)
    rate[e] = strain_rate(at - 0.5 * clock[0] * speed, speed)

    i = 0.25 * (at[1] + at[2] + at[6] + at[5] - (at[0] + at[3] + at[7] + at[4]))
    j = -0.25 * (at[0] + at[1] + at[5] + at[4] - (at[3] + at[2] + at[6] + at[7]))
    k = 0.25 * (at[4] + at[5] + at[6] + at[7] - (at[0] + at[1] + at[2] + at[3]))
    by_i = 0.25 * (speed[1] + speed[2] + speed[6] + speed[5] - (speed[0] + speed[3] + speed[7] + speed[4]))
    by_j = -0.25 * (speed[0] + speed[1] + speed[5] + speed[4] - (speed[3] + speed[2] + speed[6] + speed[7]))
    by_k = 0.25 * (speed[4] + speed[5] + speed[6] + speed[7] - (speed[0] + speed[1] + speed[2] + speed[3]))
    now = volume0[e] * relative
    jk, ki, ij = dk.cross(j, k), dk.cross(k, i), dk.cross(i, j)
    gradient[e] = vec3(dk.dot(jk, by_i), dk.dot(ki, by_j), dk.dot(ij, by_k)) / (now + TINY)
    spacing[e] = vec3(
        now / dk.sqrt(dk.dot(jk, jk) + TINY), now / dk.sqrt(dk.dot(ki, ki) + TINY), now / dk.sqrt(dk.dot(ij, ij) + TINY)
    )


@dk.func
def limited(own, before, after):
    """Return the limiter of the viscosity from the changes of velocity in an element and in those beside it."""
    scale = 1.0 / (own + TINY)
    a, b = before * scale, after * scale
    phi = 0.5 * (a + b)
    if LIMITER * a < phi:
        phi = LIMITER * a
    if LIMITER * b < phi:
        phi = LIMITER * b
    if phi < 0.0:
        phi = 0.0
    if phi > MAX_SLOPE:
        phi = MAX_SLOPE
    return phi


@dk.func
def pressure(energy, compression, v):
    found = cut(2.0 / 3.0 * (compression + 1.0) * energy, P_CUT)
    if v >= V_MAX:
        found = 0.0
    return dk.max(found, P_MIN)


@dk.func
def sound_speed(energy, p, compression, v):
    squared = (2.0 / 3.0 * energy + v * v * (2.0 / 3.0 * (compression + 1.0)) * p) / DENSITY
    return 0.3333333e-18 if squared <= 0.1111111e-36 else dk.sqrt(squared)


@dk.kernel
def material(
    neighbours: dk.array2d(dtype=dk.int32),
    new_volume: dk.array(dtype=dk.float64),
    change: dk.array(dtype=dk.float64),
    size: dk.array(dtype=dk.float64),
    rate: dk.array(dtype=dk.float64),
    gradient: dk.array(dtype=vec3),
    spacing: dk.array(dtype=vec3),
    volume0: dk.array(dtype=dk.float64),
    mass: dk.array(dtype=dk.float64),
    energy: dk.array(dtype=dk.float64),
    p: dk.array(dtype=dk.float64),
    q: dk.array(dtype=dk.float64),
    volume: dk.array(dtype=dk.float64),
    sound: dk.array(dtype=dk.float64),
    limits: dk.array(dtype=dk.float64),
):
    """Viscosity, equation of state and volume of an element, and the time steps that it allows."""
    e = dk.tid()
    linear, quadratic = 0.0, 0.0
    if rate[e] <= 0.0:
        for k in range(3):
            own = gradient[e][k]
            before, after = neighbours[e, 2 * k], neighbours[e, 2 * k + 1]
            beyond = 0.0
            if after >= 0:
                beyond = gradient[after][k]
            phi = limited(own, gradient[before][k], beyond)
            push = dk.min(own * spacing[e][k], 0.0)
            linear += push * (1.0 - phi)
            quadratic += push * push * (1.0 - phi * phi)
        density = mass[e] / (volume0[e] * new_volume[e])
        linear *= -LINEAR_Q * density
        quadratic *= QUADRATIC_Q * density

    v, dv = dk.clamp(new_volume[e], V_MIN, V_MAX), change[e]
    old_p, old_q = p[e], q[e]
    full = 1.0 / v - 1.0
    half = 1.0 / (v - 0.5 * dv) - 1.0
    if v <= V_MIN:
        half = full
    if v >= V_MAX:
        old_p, full, half = 0.0, 0.0, 0.0

    new_e = dk.max(energy[e] - 0.5 * dv * (old_p + old_q), E_MIN)
    half_p = pressure(new_e, half, v)
    new_q = 0.0
    if dv <= 0.0:
        new_q = sound_speed(new_e, half_p, half, 1.0 / (1.0 + half)) * linear + quadratic
    new_e += 0.5 * dv * (3.0 * (old_p + old_q) - 4.0 * (half_p + new_q))
    new_e = dk.max(cut(new_e, E_CUT), E_MIN)
    new_p = pressure(new_e, full, v)
    trial_q = 0.0
    if dv <= 0.0:
        trial_q = sound_speed(new_e, new_p, full, v) * linear + quadratic
    new_e -= (7.0 * (old_p + old_q) - 8.0 * (half_p + new_q) + (new_p + trial_q)) * dv / 6.0
    new_e = dk.max(cut(new_e, E_CUT), E_MIN)
    new_p = pressure(new_e, full, v)
    new_sound = sound_speed(new_e, new_p, full, v)
    if dv <= 0.0:
        new_q = cut(new_sound * linear + quadratic, Q_CUT)
    energy[e] = new_e
    p[e] = new_p
    q[e] = new_q
    sound[e] = new_sound
    relative = new_volume[e]
    volume[e] = 1.0 if dk.abs(relative - 1.0) < V_CUT else relative

    strain = rate[e]
    if strain != 0.0:
        squared = new_sound * new_sound
        if strain < 0.0:
            squared += 64.0 * COURANT_Q * COURANT_Q * size[e] * size[e] * strain * strain
        dk.atomic_min(limits, 0, size[e] / dk.sqrt(squared))
        dk.atomic_min(limits, 1, MAX_STRAIN / (dk.abs(strain) + 1e-20))


@dk.kernel
def next_time(clock: dk.array(dtype=dk.float64), limits: dk.array(dtype=dk.float64), cycle: int):
    """Choose a time step by what elements allow, and advance the time; the first step is given."""
    dt = clock[0]
    if cycle > 0:
        allowed = NEVER
        if limits[0] < allowed:
            allowed = limits[0] / 2.0
        if limits[1] < allowed:
            allowed = limits[1] * 2.0 / 3.0
        ratio = allowed / dt
        if ratio >= 1.0:
            if ratio < SLOWEST:
                allowed = dt
            elif ratio > FASTEST:
                allowed = dt * FASTEST
        dt = dk.min(allowed, DT_MAX)
    left = STOP_TIME - clock[1]
    # A step that would leave a very small one is made smaller.
    if left > dt and left < 4.0 * dt / 3.0:
        left = 2.0 * dt / 3.0
    dt = dk.min(dt, left)
    clock[0] = dt
    clock[1] += dt
    limits[0] = NEVER
    limits[1] = NEVER
