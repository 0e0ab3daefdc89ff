"""Arrays in elements of arrays of structs: on the host, read in kernels, and what is refused."""

from __future__ import annotations

import copy
import gc
import pickle

import numpy as np
import pytest
from conftest import require

import diffkern as dk
from diffkern.errors import AutodiffError, KernelRuntimeError, KernelTypeError, LaunchError


@dk.struct
class Mesh:
    scale: float
    x: dk.array(dtype=float)
    v: dk.array(dtype=dk.vec3, ndim=2)
    flags: dk.array(dtype=bool)


@dk.struct
class Scene:
    mesh: Mesh
    order: dk.array(dtype=int)


@dk.func
def total(x: dk.array(dtype=float)):
    s = 0.0
    for j in range(x.shape[0]):
        s += x[j]
    return s


@dk.func
def scaled_total(mesh: Mesh):
    return total(mesh.x) * mesh.scale


@dk.kernel
def summed(meshes: dk.array(dtype=Mesh), y: dk.array(dtype=float), n: dk.array(dtype=int)):
    i = dk.tid()
    if meshes[i].x:
        y[i] = scaled_total(meshes[i]) + meshes[i].x[-1]
        n[i] = meshes[i].x.shape[0] + len(meshes[i].x)
        if meshes[i].v is not None:
            row = meshes[i].v[1]
            y[i] += meshes[i].v[0, 1][2] + row[1].y
            n[i] += 10 * int(meshes[i].v.size) + 100 * meshes[i].v.ndim
        if meshes[i].flags and meshes[i].flags[1]:
            y[i] += 1000.0
    else:
        y[i] = -1.0


@dk.kernel
def picked(scenes: dk.array(dtype=Scene), y: dk.array(dtype=float)):
    i = dk.tid()
    y[i] = scenes[i].mesh.x[scenes[i].order[i]]


@dk.kernel
def weighted(meshes: dk.array(dtype=Mesh), w: dk.array(dtype=float), y: dk.array(dtype=float)):
    i = dk.tid()
    y[i] = w[i] * meshes[i].x[0]


@dk.kernel
def scales(meshes: dk.array(dtype=Mesh), y: dk.array(dtype=float)):
    i = dk.tid()
    y[i] = 2.0 * meshes[i].scale


@dk.kernel(mode="debug")
def far(meshes: dk.array(dtype=Mesh), k: int, y: dk.array(dtype=float)):
    i = dk.tid()
    y[i] = meshes[i].x[k]


def floats(*values):
    return dk.array(values, dtype=float)


def meshes():
    x, backwards = floats(1.0, 2.0, 3.0), dk.array(np.arange(10.0, dtype=np.float32))[::-2]
    v = dk.array(np.arange(12.0, dtype=np.float32).reshape(2, 2, 3), dtype=dk.vec3)
    flags = dk.array([False, True], dtype=bool)
    return dk.array([Mesh(2.0, x, v, flags), Mesh(3.0, backwards), Mesh()], dtype=Mesh)


def test_elements_are_read_through_a_func_with_strides_and_null():
    a, y, n = meshes(), dk.zeros(3), dk.zeros(3, dtype=int)
    gc.collect()  # the elements alone keep their arrays alive
    summed[3](a, y, n)
    assert y.numpy().tolist() == [12.0 + 3.0 + 5.0 + 10.0 + 1000.0, 75.0 + 1.0, -1.0]
    assert n.numpy().tolist() == [246, 10, 0]


def test_elements_are_assigned_and_taken_on_the_host():
    a, y, n = dk.zeros(2, dtype=Mesh), dk.zeros(2), dk.zeros(2, dtype=int)
    assert a[0].x is None
    x = floats(4.0)
    a[1] = Mesh(2.0, x)
    assert a[1].x is x
    assert a[1:][0].x is x
    summed[2](a, y, n)
    assert y.numpy().tolist() == [-1.0, 12.0]
    a.fill_(Mesh(1.0, floats(1.0, 1.0)))
    summed[2](a, y, n)
    assert y.numpy().tolist() == [3.0, 3.0]
    a.zero_()
    summed[2](a, y, n)
    assert y.numpy().tolist() == [-1.0, -1.0]
    assert dk.empty(3, dtype=Mesh)[2].x is None


def test_nested_structs_and_records():
    a = dk.array([Scene(Mesh(1.0, floats(1.0, 2.0)), dk.array([1, 0], dtype=int)) for _ in range(2)], dtype=Scene)
    y = dk.zeros(2)
    record = dk.launch(picked, 2, [a], [y], record_cmd=True)
    record.launch()
    assert y.numpy().tolist() == [2.0, 1.0]
    a[0].mesh.x.fill_(5.0)
    a[1] = Scene(Mesh(1.0, floats(7.0, 8.0)), dk.array([1, 1], dtype=int))
    record.launch()
    assert y.numpy().tolist() == [5.0, 8.0]


def test_the_memory_is_not_copied_shared_or_given():
    a = meshes()
    assert not a.numpy().flags.writeable
    assert not np.asarray(a).flags.writeable
    assert a.field("scale").numpy().tolist() == [2.0, 3.0, 0.0]
    for refused in (
        lambda: dk.clone(a),
        lambda: dk.copy(dk.zeros(3, dtype=Mesh), a),
        lambda: copy.deepcopy(a),
        lambda: pickle.dumps(a),
        lambda: dk.array(a.numpy(), dtype=Mesh),
        lambda: dk.array(a),
        lambda: a.assign(a.numpy()),
    ):
        with pytest.raises(TypeError, match=r"point to arrays|from NumPy|made of a list"):
            refused()
    with pytest.raises(AttributeError, match="array of each element"):
        a.field("x")


def test_forward_mode_refuses_arrays_with_a_tangent():
    x, y, n = floats(1.0), dk.zeros(1), dk.zeros(1, dtype=int)
    a = dk.array([Mesh(1.0, x)], dtype=Mesh)
    with dk.Tangents({x: floats(1.0)}), pytest.raises(LaunchError, match="has a tangent"):
        summed[1](a, y, n)
    w = floats(2.0)
    with dk.Tangents({w: floats(1.0)}), pytest.raises(AutodiffError, match="no tangent goes that way"):
        weighted[1](dk.array([Mesh(1.0, floats(3.0))], dtype=Mesh), w, y)


def test_a_launch_does_not_write_to_what_it_reads():
    x = floats(1.0)
    with pytest.raises(LaunchError, match="writes to 'y', which is also an array in an element"):
        summed[1](dk.array([Mesh(1.0, x)], dtype=Mesh), x, dk.zeros(1, dtype=int))


@dk.kernel
def stored(meshes: dk.array(dtype=Mesh)):
    meshes[0] = meshes[1]


@dk.kernel
def pointed_anew(meshes: dk.array(dtype=Mesh), x: dk.array(dtype=float)):
    meshes[0].x = x


@dk.kernel
def taken_together(meshes: dk.array(dtype=Mesh)):
    x = meshes.x  # noqa: F841


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (stored, "assigned on the host"), (pointed_anew, "is assigned as a whole"), (taken_together, "as a whole"),
    ],
)  # fmt: skip
def test_what_changes_pointed_arrays_is_refused_with_its_line(kernel, message):
    args = [meshes(), floats(1.0)] if kernel is pointed_anew else [meshes()]
    with pytest.raises(KernelTypeError, match=message) as error:
        kernel[1](*args)
    assert error.value.loc is not None


def test_debug_mode_reports_null_and_indices_out_of_bounds():
    a, y = meshes(), dk.zeros(3)
    far[2](a, 2, y)
    assert y.numpy().tolist() == [3.0, 5.0, 0.0]
    for threads, k, what in ((3, 0, "is None, or has no elements"), (1, 3, "index 3 is out of bounds")):
        with pytest.raises(KernelRuntimeError, match=what):
            far[threads](a, k, y)
    with pytest.raises(KernelRuntimeError, match=r"index 2 is out of bounds for axis 0 of array 'meshes\.x'"):
        far[3](a[:2], 0, y)


def test_other_elements_are_refused():
    @dk.struct
    class Halves:
        h: dk.array(dtype=dk.float16)

    with pytest.raises(TypeError, match="has the array field 'h' of float16"):
        dk.zeros(2, dtype=Halves)


def test_it_compiles_for_cuda():
    made = dk.compile(summed, target="sm_90")
    assert ".entry" in made.ptx


def test_it_compiles_by_numba_cuda():
    require("numba.cuda")
    assert ".entry" in dk.compile(dk.kernel(compiler="numba")(summed.func), target="sm_90").ptx
