"""Hand tracking: distances of measured points from a skinned hand model, and their Jacobian.

In: bones with parents, transforms at rest and their inverses, vertices with the bones that move them, and measured
points, each with the vertex or the corners of the triangle to which it belongs. Out: an error of three numbers for each
point and its derivatives with respect to the 26 numbers of the pose (the simple form); where it lies in a triangle (the
complicated one), with respect to its own two coordinates there as well, which come first.

The pose is a rotation and a translation of the whole hand, then two angles for the second bone of each of five fingers
and one for the third and fourth. The bones are the wrist, four of each finger from the wrist on, and the forearm.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from case import Case, Data

import diffkern as dk

REAL = dk.float64
FINGERS, BONES, POSE, NEAREST = 5, 22, 26, 4
FINGER_ANGLES, FINGER_BONES, FOREARM = 4, 4, BONES - 1
Pose = dk.types.vector(POSE, dk.float64)
Rigid = dk.types.matrix((3, 4), dk.float64)


def data(points: int, vertices: int = 544, complicated: bool = False, seed: int = 0) -> Data:
    """A synthetic hand with the suite's bones and pose, and points near it."""
    rng = np.random.default_rng(seed)
    fingers = [0 if joint == 0 else 4 * f + joint for f in range(FINGERS) for joint in range(FINGER_BONES)]
    parents = [-1, *fingers, 0]
    rest = np.array([_rigid(rng) for _ in parents])
    absolute: list[Any] = []
    for parent, own in zip(parents, rest, strict=True):
        absolute.append(own if parent < 0 else absolute[parent] @ own)
    homes = rng.integers(0, BONES, vertices)
    corners = np.array([absolute[b][:3, 3] for b in homes]) + 0.3 * rng.normal(size=(vertices, 3))
    bones = np.array([rng.permutation(np.delete(np.arange(BONES), b))[: NEAREST - 1] for b in homes])
    weights = rng.dirichlet(np.ones(NEAREST), vertices)
    given = {
        "parents": np.array(parents, np.int32),
        "rest": rest,
        "inverse": np.linalg.inv(np.array(absolute)),
        "vertices": np.concatenate([corners, np.ones((vertices, 1))], axis=1),
        "bones": np.concatenate([homes[:, None], bones], axis=1).astype(np.int32),
        "weights": weights,
        "pose": 0.3 * rng.normal(size=POSE),
        "points": corners[rng.integers(0, vertices, points)] + 0.1 * rng.normal(size=(points, 3)),
        "belongs": rng.integers(0, vertices, (points, 3)).astype(np.int32),
    }
    if complicated:
        given["places"] = rng.dirichlet(np.ones(3), points)[:, :2].copy()
    return given


def _rigid(rng: np.random.Generator) -> Any:
    """A small rotation and a translation."""
    turn, _ = np.linalg.qr(np.eye(3) + 0.2 * rng.normal(size=(3, 3)))
    found = np.eye(4)
    found[:3, :3], found[:3, 3] = turn * np.sign(np.linalg.det(turn)), rng.normal(size=3)
    return found


@dk.func
def bend(pose: Pose, bone: int):
    """The rotation of a bone by its angles: about z, y and x, of which y is always 0."""
    x, z = REAL(0.0), REAL(0.0)
    finger, joint = (bone - 2) // 4, (bone - 2) % 4
    if bone >= 2 and joint < 3:
        first = 6 + 4 * finger
        if joint == 0:
            x, z = pose[first], pose[first + 1]
        else:
            x = pose[first + 1 + joint]
    cx, sx, cz, sz = dk.cos(x), dk.sin(x), dk.cos(z), dk.sin(z)
    return dk.mat44d(
        cz, -sz * cx, sz * sx, 0.0,
        sz, cz * cx, -cz * sx, 0.0,
        0.0, sx, cx, 0.0,
        0.0, 0.0, 0.0, 1.0,
    )  # fmt: skip


@dk.func
def below(above: dk.mat44d, pose: Pose, bone: int, rest: dk.array[dk.mat44d]):
    """What the pose does to a bone, from what it does to the bone above it."""
    return above @ rest[bone] @ bend(pose, bone)


@dk.func
def turn(pose: Pose):
    """The rotation of the whole hand, from axis times angle."""
    given = dk.vec3d(pose[0], pose[1], pose[2])
    angle = dk.length(given)
    if angle < 0.0001:
        return dk.identity(n=3, dtype=REAL)
    a = given / angle
    s, c = dk.sin(angle), dk.cos(angle)
    across = dk.mat33d(0.0, -a[2], a[1], a[2], 0.0, -a[0], -a[1], a[0], 0.0)
    return dk.identity(n=3, dtype=REAL) * c + across * s + dk.outer(a, a) * (1.0 - c)


@dk.func
def placed(pose: Pose, rotation: dk.mat33d, bent: dk.vec3d):
    """A point of the bent hand in space."""
    return rotation @ bent + dk.vec3d(pose[3], pose[4], pose[5])


@dk.func
def inside(place: dk.vec2d, a: dk.vec3d, b: dk.vec3d, c: dk.vec3d):
    """A point of a triangle."""
    return a * place[0] + b * place[1] + c * (1.0 - place[0] - place[1])


@dk.func
def at_rest(bone: int, above: dk.mat44d, inverse: dk.array[dk.mat44d]):
    """The same for the bone's points, which are given where they are at rest."""
    return (above @ inverse[bone])[0:3, 0:4]


@dk.kernel
def move(
    pose: dk.array[Pose],
    rest: dk.array[dk.mat44d],
    inverse: dk.array[dk.mat44d],
    moved: dk.array[Rigid],
    rotation: dk.array[dk.mat33d],
):
    """What the pose does to the points of each bone, and to the whole hand. A thread goes down a finger."""
    f = dk.tid()
    above = rest[0]
    for joint in range(FINGER_BONES):
        bone = 1 + FINGER_BONES * f + joint
        above = below(above, pose[0], bone, rest)
        moved[bone] = at_rest(bone, above, inverse)
    if f == 0:
        moved[0] = at_rest(0, rest[0], inverse)
        moved[FOREARM] = at_rest(FOREARM, rest[0] @ rest[FOREARM], inverse)
        rotation[0] = turn(pose[0])


@dk.kernel(lanes=True)
def move_columns(
    pose: dk.array[Pose],
    rest: dk.array[dk.mat44d],
    inverse: dk.array[dk.mat44d],
    columns: dk.array2d[REAL],
    rotation_columns: dk.array3d[REAL],
):
    """The derivatives of errors by the angles, for each bone's points; those of the rotation by its three numbers."""
    f, k = dk.tid()
    along = Pose()
    along[6 + FINGER_ANGLES * f + k] = 1.0
    above, change = rest[0], dk.mat44d()
    turned = turn(pose[0])
    for joint in range(FINGER_BONES):
        bone = 1 + FINGER_BONES * f + joint
        above, change = dk.jvp(below)(above, pose[0], bone, rest, change, along)
        column = turned @ at_rest(bone, change, inverse)
        for r in range(3):
            for c in range(4):
                columns[bone, FINGER_ANGLES * (4 * r + c) + k] = -column[r, c]
    if f == 0 and k < 3:
        turning = Pose()
        turning[k] = 1.0
        spin = dk.jvp(turn)(pose[0], turning)[1]
        for r in range(3):
            for c in range(3):
                rotation_columns[r, c, k] = -spin[r, c]


@dk.func
def bent(
    vertex: int,
    moved: dk.array[Rigid],
    vertices: dk.array[dk.vec4d],
    bones: dk.array2d[int],
    weights: dk.array2d[REAL],
):
    """A vertex between the places where its bones would move it."""
    total = dk.vec3d()
    for k in range(NEAREST):
        total += moved[bones[vertex, k]] @ vertices[vertex] * weights[vertex, k]
    return total


@dk.kernel
def errors(
    pose: dk.array[Pose],
    places: dk.array[dk.vec2d],
    moved: dk.array[Rigid],
    rotation: dk.array[dk.mat33d],
    vertices: dk.array[dk.vec4d],
    bones: dk.array2d[int],
    weights: dk.array2d[REAL],
    points: dk.array[dk.vec3d],
    belongs: dk.array2d[int],
    error: dk.array[dk.vec3d],
):
    """How far a measured point is from its vertex, or from its place in a triangle."""
    i = dk.tid()
    x = bent(belongs[i, 0], moved, vertices, bones, weights)
    if places:
        second = bent(belongs[i, 1], moved, vertices, bones, weights)
        third = bent(belongs[i, 2], moved, vertices, bones, weights)
        x = inside(places[i], x, second, third)
    error[i] = points[i] - placed(pose[0], rotation[0], x)


@dk.func
def bent_and_slopes(
    k: int,
    vertex: int,
    share: REAL,
    moved: dk.array[Rigid],
    columns: dk.array2d[REAL],
    vertices: dk.array[dk.vec4d],
    bones: dk.array2d[int],
    weights: dk.array2d[REAL],
    slopes: dk.array[REAL],
):
    """A bent vertex; what its share of a point contributes to the point's derivatives by an angle of each finger."""
    total = dk.vec3d()
    for n in range(NEAREST):
        bone = bones[vertex, n]
        x = vertices[vertex] * weights[vertex, n]
        total += moved[bone] @ x
        finger = dk.clamp((bone - 1) // FINGER_BONES, 0, FINGERS - 1)  # columns of the wrist and the forearm are 0
        for r in range(3):
            slope = REAL(0.0)
            for c in range(4):
                slope += columns[bone, FINGER_ANGLES * (4 * r + c) + k] * x[c]
            slopes[3 * finger + r] += slope * share
    return total


@dk.kernel
def jacobian(
    pose: dk.array[Pose],
    places: dk.array[dk.vec2d],
    moved: dk.array[Rigid],
    rotation: dk.array[dk.mat33d],
    vertices: dk.array[dk.vec4d],
    bones: dk.array2d[int],
    weights: dk.array2d[REAL],
    points: dk.array[dk.vec3d],
    belongs: dk.array2d[int],
    columns: dk.array2d[REAL],
    rotation_columns: dk.array3d[REAL],
    error: dk.array[dk.vec3d],
    rows: dk.array3d[REAL],
):
    """The error of a point and its rows. A thread has one angle of each finger, and up to three other columns."""
    i, k = dk.tid()
    slopes = dk.zeros(3 * FINGERS, dtype=REAL)
    own = 0
    if places:
        u = places[i]
        last = 1.0 - u[0] - u[1]
        first = bent_and_slopes(k, belongs[i, 0], u[0], moved, columns, vertices, bones, weights, slopes)
        second = bent_and_slopes(k, belongs[i, 1], u[1], moved, columns, vertices, bones, weights, slopes)
        third = bent_and_slopes(k, belongs[i, 2], last, moved, columns, vertices, bones, weights, slopes)
        if k < 2:
            along = dk.vec2d()
            along[k] = 1.0
            change = dk.jvp(inside)(u, first, second, third, along, dk.vec3d(), dk.vec3d(), dk.vec3d())[1]
            column = -(rotation[0] @ change)
            for r in range(3):
                rows[i, r, k] = column[r]
        x = inside(u, first, second, third)
        own = 2
    else:
        x = bent_and_slopes(k, belongs[i, 0], 1.0, moved, columns, vertices, bones, weights, slopes)
    if k == 0:
        error[i] = points[i] - placed(pose[0], rotation[0], x)
    if k < 3:
        for r in range(3):
            slope = REAL(0.0)
            for c in range(3):
                slope += rotation_columns[r, c, k] * x[c]
            rows[i, r, own + k] = slope
            rows[i, r, own + 3 + k] = -1.0 if r == k else 0.0
    for f in range(FINGERS):
        for r in range(3):
            rows[i, r, own + 6 + FINGER_ANGLES * f + k] = slopes[3 * f + r]


def case(given: Data) -> Case:
    """The kernels on given data."""
    count = len(given["points"])
    pose = dk.array(given["pose"][None], dtype=Pose)
    tree = [
        dk.array(given["rest"], dtype=dk.mat44d),
        dk.array(given["inverse"], dtype=dk.mat44d),
    ]
    own = 0 if "places" not in given else 2
    places = dk.array(given["places"], dtype=dk.vec2d) if own else None
    mesh = [
        dk.array(given["vertices"], dtype=dk.vec4d),
        dk.array(given["bones"], dtype=int),
        dk.array(given["weights"], dtype=REAL),
        dk.array(given["points"], dtype=dk.vec3d),
        dk.array(given["belongs"], dtype=int),
    ]
    moved, rotation = dk.zeros(BONES, dtype=Rigid), dk.zeros(1, dtype=dk.mat33d)
    columns, rotation_columns = dk.zeros((BONES, 12 * FINGER_ANGLES), dtype=REAL), dk.zeros((3, 3, 3), dtype=REAL)
    error, rows = dk.zeros(count, dtype=dk.vec3d), dk.zeros((count, 3, own + POSE), dtype=REAL)
    with dk.record() as forward:
        dk.launch(move, FINGERS, [pose, *tree], [moved, rotation])
        dk.launch(errors, count, [pose, places, moved, rotation, *mesh], [error])
    with dk.record() as both:
        dk.launch(move, FINGERS, [pose, *tree], [moved, rotation])
        dk.launch(move_columns, (FINGERS, FINGER_ANGLES), [pose, *tree], [columns, rotation_columns])
        inputs = [pose, places, moved, rotation, *mesh, columns, rotation_columns]
        dk.launch(jacobian, (count, FINGER_ANGLES), inputs, [error, rows])

    def results() -> dict[str, Any]:
        return {"value": error.numpy(), "rows": rows.numpy()}

    return Case("diffkern", forward.replay, both.replay, results)
