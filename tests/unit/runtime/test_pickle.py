"""pickle, copy and multiprocessing of what a program holds: arrays, kernels, types, structs; and what refuses."""

from __future__ import annotations

import copy
import multiprocessing
import pickle
import subprocess
import sys

import numpy as np
import pytest

import diffkern as dk


@dk.struct
class Particle:
    pos: dk.vec3
    mass: float
    half: dk.bfloat16


@dk.struct
class Bundle:
    data: dk.array(dtype=float)
    k: int


@dk.func
def doubled(x: float):
    return 2.0 * x


@dk.kernel(enable_backward=True)
def scale(x: dk.array(dtype=float), y: dk.array(dtype=float)):
    i = dk.tid()
    y[i] = doubled(x[i])


class Shelf:
    @dk.kernel
    def inner(y: dk.array(dtype=float)):
        y[dk.tid()] = 3.0


def _pickled(value):
    return pickle.loads(pickle.dumps(value))


PROTOCOLS = range(pickle.HIGHEST_PROTOCOL + 1)
WAYS = {
    "pickle": _pickled,
    "pickle 2": lambda value: pickle.loads(pickle.dumps(value, 2)),
    "deepcopy": copy.deepcopy,
    "copy": copy.copy,
}
INDEPENDENT = [way for way in WAYS if way != "copy"]


def _arrays():
    whole = dk.array(np.arange(24, dtype=np.float32).reshape(4, 6))
    return {
        "float": whole,
        "row": whole[2],
        "column": whole[:, 1],
        "reversed": whole[::-1, ::2],
        "int": dk.array([1, 2, 3], dtype=dk.int8),
        "bool": dk.array([True, False]),
        "float16": dk.array([1.5, 2.5], dtype=dk.float16),
        "bfloat16": dk.array([1.5, 2.5], dtype=dk.bfloat16),
        "vec3": dk.array([[1, 2, 3], [4, 5, 6]], dtype=dk.vec3),
        "mat22": dk.ones((2, 3), dtype=dk.mat22d),
        "empty": dk.zeros((0, 3), dtype=dk.vec2),
        "read-only": dk.array(np.broadcast_to(np.float32(2), (3,)), copy=False),
        "numpy's": dk.array(np.float64([1, 2]), copy=False),
        "structs": dk.array([Particle(dk.vec3(1.0, 2.0, 3.0), 4.0, 0.5)] * 2, dtype=Particle),
        "field": dk.array([Particle(dk.vec3(1.0, 2.0, 3.0), 4.0, 0.5)] * 2, dtype=Particle).field("pos"),
    }


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("which", _arrays())
def test_array(which, way):
    a = _arrays()[which]
    b = WAYS[way](a)
    assert type(b) is type(a)
    assert b.shape == a.shape
    assert b.dtype == a.dtype
    assert b.device == a.device
    assert not b.requires_grad
    np.testing.assert_array_equal(b.numpy(), a.numpy())
    if a.size and b._writable:
        before = a.numpy().copy()
        b.zero_()
        assert np.array_equal(a.numpy(), before) == (way != "copy")


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_array_under_every_protocol(protocol):
    a = dk.array([1.0, 2.0], requires_grad=True)
    b = pickle.loads(pickle.dumps(a, protocol))
    assert b.list() == [1.0, 2.0]
    assert b.grad.list() == [0.0, 0.0]


def test_buffers_out_of_band():
    a = dk.array(np.arange(1000.0))
    buffers = []
    data = pickle.dumps(a, 5, buffer_callback=buffers.append)
    assert len(data) < 1000
    assert pickle.loads(data, buffers=buffers).list() == a.list()


def test_gradients_are_kept_as_by_pytorch():
    a = dk.array([1.0, 2.0], requires_grad=True)
    a.grad.assign([3.0, 4.0])
    assert _pickled(a).grad.list() == [0.0, 0.0]
    deep = copy.deepcopy(a)
    assert deep.grad.list() == [3.0, 4.0]
    deep.grad.zero_()
    assert a.grad.list() == [3.0, 4.0]
    shallow = copy.copy(a)
    assert shallow.grad is a.grad
    both = copy.deepcopy([a, a.grad])
    assert both[0].grad is both[1]
    part = copy.deepcopy(a[1:])
    assert (part.list(), part.grad.list()) == ([2.0], [4.0])


def test_shallow_and_deep_copies_on_a_tape():
    x, y, z = (dk.array([1.0, 2.0], dtype=float, requires_grad=True) for _ in range(3))
    with dk.Tape() as tape:
        scale[2](copy.copy(x), y)
        scale[2](copy.deepcopy(y), z)
    tape.backward(grads={z: np.ones(2, np.float32)})
    assert x.grad.list() == [4.0, 4.0]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    "value",
    [scale, doubled, Shelf.inner, Particle, dk.float32, dk.bfloat16, dk.bool, dk.vec3, dk.mat44d, dk.ANY, dk.sin,
     dk.atomic_add, dk.get_device("cpu")],
    ids=str,
)  # fmt: skip
def test_it_is_itself(value, way):
    assert WAYS[way](value) is value


@pytest.mark.parametrize("way", WAYS)
def test_values_and_annotations(way):
    v = WAYS[way](dk.vec3(1.0, 2.0, 3.0))
    assert v.composite == dk.vec3
    assert (v.x, v.z) == (1.0, 3.0)
    m = WAYS[way](dk.mat22d(1.0, 2.0, 3.0, 4.0))
    assert m.composite == dk.mat22d
    assert m.tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert WAYS[way](v + v) == dk.vec3(2.0, 4.0, 6.0)
    assert WAYS[way](v + np.ones(3)).tolist() == [2.0, 3.0, 4.0]
    for annotation in (dk.array(dtype=dk.vec3, ndim=2), dk.array2d(), dk.array(dtype=Particle)):
        assert WAYS[way](annotation) == annotation


@pytest.mark.parametrize("way", WAYS)
def test_struct_instances(way):
    p = Particle(dk.vec3(1.0, 2.0, 3.0), 4.0, 0.5)
    q = WAYS[way](p)
    assert q == p
    q.pos[0] = 9.0
    assert p.pos[0] == 1.0
    b = Bundle(data=dk.array([1.0], dtype=float, requires_grad=True), k=2)
    c = WAYS[way](b)
    assert c.k == 2
    assert c.data.list() == [1.0]
    assert c.data.requires_grad
    assert (c.data is b.data) == (way == "copy")


def test_a_kernel_that_no_path_leads_to():
    @dk.kernel
    def local(y: dk.array(dtype=float)):
        y[dk.tid()] = 1.0

    assert copy.deepcopy([local])[0] is local
    with pytest.raises(pickle.PicklingError, match=r"local> cannot be pickled: .*define it at the top level"):
        pickle.dumps(local)
    with pytest.raises(pickle.PicklingError, match="is something else"):
        pickle.dumps(dk.kernel(scale.func))


def _not_copied():
    x, y = dk.zeros(2, requires_grad=True), dk.zeros(2)
    record = dk.launch(scale, dim=2, inputs=[x, y], record_cmd=True)
    with dk.record() as sequence:
        scale[2](x, y)
    with dk.Tape() as tape:
        scale[2](x, y)
    return {"Launch": record, "Sequence": sequence, "Tape": tape, "Stream": dk.Stream(), "Event": dk.Event()}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", ["Launch", "Sequence", "Tape", "Stream", "Event"])
def test_what_belongs_to_the_process_refuses(name, way):
    with pytest.raises(TypeError, match=f"a dk.{name} can be neither pickled nor copied"):
        WAYS[way](_not_copied()[name])
    with pytest.raises(TypeError, match="neither pickled nor copied"):
        WAYS[way](dk.ScopedStream(dk.Stream())) if way != "copy" else copy.copy(dk.Stream())


def _in_child(kernel, x, p):
    y = dk.zeros(x.shape)
    kernel[x.size](x, y)
    return y, p, x.requires_grad


@pytest.mark.parametrize("method", ["spawn", "forkserver"] if sys.platform != "win32" else ["spawn"])
def test_other_processes(method):
    x = dk.array([1.0, 2.0, 3.0], dtype=float, requires_grad=True)
    with multiprocessing.get_context(method).Pool(1) as pool:
        y, p, graded = pool.apply(_in_child, (scale, x[1:], Particle(dk.vec3(1.0, 2.0, 3.0), 4.0, 0.5)))
    assert y.list() == [4.0, 6.0]
    assert p == Particle(dk.vec3(1.0, 2.0, 3.0), 4.0, 0.5)
    assert graded


def test_arrays_are_read_by_a_process_that_has_imported_nothing(tmp_path):
    (tmp_path / "a.pickle").write_bytes(pickle.dumps({"x": dk.array([1.0, 2.0], dtype=dk.float64)}))
    code = "import pickle, sys; print(pickle.load(open(sys.argv[1], 'rb'))['x'])"
    out = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "a.pickle")], capture_output=True, text=True, check=True
    )
    assert out.stdout.strip() == "[1. 2.]"


def test_memory_given_away_without_a_copy_is_read_only():
    """Tapes and records rely on nobody else writing to it."""
    held, buffers = dk.array(np.arange(100.0), requires_grad=True), []
    text = pickle.dumps(held, protocol=5, buffer_callback=buffers.append)
    assert buffers
    assert all(buffer.raw().readonly for buffer in buffers)
    made = pickle.loads(text, buffers=buffers)
    made.fill_(1.0)
    np.testing.assert_array_equal(held.numpy(), np.arange(100.0))
    assert made.requires_grad
