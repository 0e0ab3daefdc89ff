"""Ids on all ways into a kernel, beside another id that is an argument: the objects behind both are known to tapes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import diffkern as dk
from diffkern.contracts.manifest import Ids
from diffkern.lang.queries import BVH, HASH_GRID, MESH, TEXTURE, VOLUME
from diffkern.runtime.launch.packed import PackedLaunch

POINTS = np.float32([[1, 2, 3], [4, 5, 6], [7, 8, 10]])
PAIR = dk.types.vector(length=2, dtype=dk.uint64)


def meshes(**options: Any) -> tuple[list[dk.array], list[dk.Mesh]]:
    """Two meshes, and their points."""
    points = [dk.array(POINTS, dtype=dk.vec3, requires_grad=True) for _ in range(2)]
    return points, [dk.Mesh(p, dk.array([0, 1, 2], dtype=int), **options) for p in points]


CAPTURED_POINTS, CAPTURED = meshes()
CAPTURED_ID = CAPTURED[1].id


@dk.struct
class Held:
    mesh: dk.uint64
    factor: float


@dk.struct
class Nested:
    held: Held
    pair: PAIR


@dk.func
def x_of(mesh: dk.uint64):
    return dk.mesh_get_point(mesh, 0)[0]


@dk.func
def chosen(a: dk.uint64, b: dk.uint64, flag: int):
    if flag > 0:
        return b
    return a


@dk.kernel
def captured(a: dk.uint64, unused: dk.uint64, out: dk.array(dtype=float)):
    out[0] = x_of(a) + 2.0 * x_of(dk.uint64(CAPTURED_ID))


@dk.kernel
def where(a: dk.uint64, b: dk.uint64, out: dk.array(dtype=float)):
    out[0] = x_of(a) + 2.0 * x_of(dk.where(b > a or b < a, b, a))


@dk.kernel
def by_func(a: dk.uint64, b: dk.uint64, out: dk.array(dtype=float)):
    out[0] = x_of(a) + 2.0 * x_of(chosen(a, b, out.shape[0]))


@dk.kernel
def carried(a: dk.uint64, b: dk.uint64, out: dk.array(dtype=float)):
    m, other, s = a, b, 0.0
    for k in range(2 * out.shape[0]):
        s += float(k + 1) * x_of(m)
        m, other = other, m
    out[0] = s


@dk.kernel
def in_struct(a: dk.uint64, b: Nested, out: dk.array(dtype=float)):
    out[0] = x_of(a) + 2.0 * x_of(b.held.mesh)


@dk.kernel
def as_int64(a: dk.uint64, b: dk.int64, out: dk.array(dtype=float)):
    out[0] = x_of(a) + 2.0 * x_of(dk.uint64(b))


@dk.kernel
def in_vector_of_struct(a: dk.uint64, b: Nested, out: dk.array(dtype=float)):
    out[0] = x_of(a) + 2.0 * x_of(b.pair[1])


@dk.kernel
def in_vector(a: dk.uint64, b: PAIR, out: dk.array(dtype=float)):
    out[0] = x_of(a) + 2.0 * x_of(b[1])


@dk.kernel
def in_array(a: dk.uint64, b: dk.array(dtype=dk.uint64), out: dk.array(dtype=float)):
    out[0] = x_of(a) + 2.0 * x_of(b[0])


@dk.kernel
def in_array_of_int64(a: dk.uint64, b: dk.array(dtype=dk.int64), out: dk.array(dtype=float)):
    out[0] = x_of(a) + 2.0 * x_of(dk.uint64(b[0]))


@dk.kernel
def in_array_of_vectors(a: dk.uint64, b: dk.array(dtype=PAIR), out: dk.array(dtype=float)):
    out[0] = x_of(a) + 2.0 * x_of(b[0][1])


@dk.kernel
def in_array_of_structs(a: dk.uint64, b: dk.array(dtype=Nested), out: dk.array(dtype=float)):
    out[0] = x_of(a) + 2.0 * x_of(b[0].pair[1])


@dk.kernel
def in_halves(a: dk.uint64, b: dk.array(dtype=dk.uint32), out: dk.array(dtype=float)):
    out[0] = x_of(a) + 2.0 * x_of(dk.uint64(b[0]) | dk.uint64(b[1]) << dk.uint64(32))


@dk.kernel
def in_tile(a: dk.uint64, b: dk.array(dtype=dk.uint64), out: dk.array(dtype=float)):
    ids = dk.tile_load(b, 4)
    out[0] = x_of(a) + 2.0 * x_of(ids[1])


@dk.kernel
def local_vector(a: dk.uint64, b: dk.uint64, out: dk.array(dtype=float)):
    out[0] = x_of(a) + 2.0 * x_of(PAIR(a, b)[out.shape[0]])


@dk.kernel
def computed(a: dk.uint64, b: dk.uint64, out: dk.array(dtype=float)):
    out[0] = x_of(a) + 2.0 * x_of(b + dk.uint64(1))


@dk.kernel
def masked(a: dk.uint64, b: dk.uint64, out: dk.array(dtype=float)):
    out[0] = x_of(a) + 2.0 * x_of(b & dk.uint64(0x7FFFFFFFFFFFFFFF))


def nested(mesh: int) -> Any:
    made = Nested()
    made.held.mesh, made.pair = mesh, PAIR(0, mesh)
    return made


WAYS: dict[Any, Callable[[int], Any]] = {
    captured: lambda b: 0, where: lambda b: b, by_func: lambda b: b, carried: lambda b: b, in_struct: nested,
    as_int64: lambda b: b,
}  # fmt: skip
"""Kernels whose arguments tell a launch all ids, and how to pass one."""

HIDDEN: dict[Any, Callable[[int], Any]] = {
    in_vector_of_struct: nested, in_vector: lambda b: PAIR(0, b),
    in_array: lambda b: dk.array(np.uint64([b]), dtype=dk.uint64),
    in_array_of_int64: lambda b: dk.array(np.int64([b]), dtype=dk.int64),
    in_array_of_vectors: lambda b: dk.array(np.uint64([[0, b]]), dtype=PAIR),
    in_array_of_structs: lambda b: dk.array([nested(b)], dtype=Nested),
    in_halves: lambda b: dk.array(np.uint32([b & 0xFFFFFFFF, b >> 32]), dtype=dk.uint32),
    in_tile: lambda b: dk.array(np.uint64([b] * 4), dtype=dk.uint64), local_vector: lambda b: b,
    computed: lambda b: b - 1, masked: lambda b: b | 1 << 63,
}  # fmt: skip
"""Kernels with ids of which a launch knows nothing."""


LONG = (
    where, by_func, as_int64, in_vector_of_struct, in_array, in_array_of_int64, in_array_of_structs, in_halves,
    in_tile, local_vector,
)  # fmt: skip


@pytest.mark.parametrize(
    "kernel",
    [pytest.param(k, id=k.name, marks=[pytest.mark.full] if k in LONG else []) for k in (*WAYS, *HIDDEN)],
)
def test_a_second_object_has_its_gradient_and_is_found_by_forward_mode(kernel):
    points, (first, second) = meshes()
    given = [first.id, (WAYS | HIDDEN)[kernel](second.id)]
    out = dk.zeros(1, requires_grad=True)
    with dk.Tape() as tape:
        dk.launch(kernel, 1, given, [out])
    tape.backward(grads={out: dk.ones(1)})
    found = CAPTURED_POINTS[1] if kernel is captured else points[1]
    assert (points[0].grad.numpy()[0, 0], found.grad.numpy()[0, 0]) == (1, 2)
    found.grad.zero_()
    points[0].requires_grad = False
    with dk.Tangents({found: dk.full(found.shape, 3.0, dtype=dk.vec3)}) as tangents:
        dk.launch(kernel, 1, given, [out])
    assert tangents[out].numpy().tolist() == [6.0]


def test_what_a_launch_knows_of_ids():
    _, (first, second) = meshes()
    out = dk.zeros(1)
    for kernel, way in (WAYS | HIDDEN).items():
        if kernel in LONG:
            continue
        manifest = PackedLaunch(kernel, 1, [first.id, way(second.id), out]).executable.manifest
        ids, kinds = manifest.ids, manifest.kinds
        place = CAPTURED_ID & (1 << 48) - 1
        known = Ids((0,), (place,)) if kernel is captured else Ids((0, 1))
        assert ids == (None if kernel in HIDDEN else known), kernel.name
        # Numbers that are no kinds may be among them, as of the mask of one kernel.
        assert {*kinds} & {HASH_GRID, BVH, MESH, TEXTURE, VOLUME} == {MESH}, kernel.name


def test_numbers_beside_ids_are_none_and_other_objects_do_not_matter():
    @dk.kernel
    def seeded(mesh: dk.uint64, seed: dk.uint64, seeds: dk.array(dtype=dk.uint64), out: dk.array(dtype=float)):
        out[0] = x_of(mesh) * float(seed + seeds[0]) * out[1]

    mesh = dk.Mesh(dk.array(POINTS, dtype=dk.vec3), dk.array([0, 1, 2], dtype=int))
    y, slope = (dk.array([0.0, 1.0], dtype=float) for _ in range(2))
    _, others = meshes()  # whose points have gradients
    with dk.Tangents({y: slope}) as tangents:
        dk.launch(seeded, 1, [mesh.id, 1, dk.array(np.uint64([2]), dtype=dk.uint64)], [y])
    assert tangents[y].numpy()[0] == 3.0
    assert len(others) == 2


def test_a_number_that_is_no_id_finds_nothing():
    points, (first, _) = meshes()
    out = dk.zeros(1, requires_grad=True)
    with dk.Tape() as tape:
        dk.launch(where, 1, [first.id, 0], [out])
    tape.backward(grads={out: dk.ones(1)})
    assert (out.numpy()[0], points[0].grad.numpy()[0, 0]) == (1.0, 1.0)


@dk.struct
class Row:
    values: dk.array(dtype=float)


def test_arrays_in_elements_are_no_objects():
    @dk.kernel
    def summed(rows: dk.array(dtype=Row), out: dk.array(dtype=float)):
        out[0] = rows[0].values[1] * out[1]

    _, (mesh, _) = meshes()
    row = Row()
    row.values = dk.ones(2)
    rows, out = dk.array([row], dtype=Row), dk.ones(2, requires_grad=True)
    with dk.Tape():
        dk.launch(summed, 1, [rows], [out])
    assert not mesh._resource.content.kept
