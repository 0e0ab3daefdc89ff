"""Arrays on a GPU: contents, views, copies, other libraries, and how long memory lives."""

from __future__ import annotations

import copy
import gc
import pickle

import numpy as np
import pytest
from runtime_cuda_kernels import square

import diffkern as dk

G = "cuda:0"


@dk.struct
class Particle:
    pos: dk.vec3
    mass: float
    kind: int


def test_round_trip(driver):
    for dtype, values in [
        (float, [1.5, -2.0, 3.0]),
        (dk.float64, [1.5, -2.0, 3.0]),
        (int, [1, -2, 3]),
        (dk.uint8, [1, 2, 250]),
        (dk.float16, [1.0, 0.5, -4.0]),
        (dk.bool, [True, False, True]),
        (dk.vec3, [[1, 2, 3], [4, 5, 6]]),
        (dk.mat22, [[[1, 2], [3, 4]]]),
    ]:
        there = dk.array(values, dtype=dtype, device=G)
        here = dk.array(values, dtype=dtype)
        assert there.device == G
        np.testing.assert_array_equal(there.numpy(), here.numpy())
        assert there.list() == here.list()
        assert there.dtype is here.dtype
        assert there.shape == here.shape
        np.testing.assert_array_equal(there.to("cpu").numpy(), here.numpy())
        assert there.to(G) is there


def test_numpy_is_a_copy(driver):
    x = dk.zeros(3, device=G)
    x.numpy()[:] = 7.0
    assert x.list() == [0.0, 0.0, 0.0]
    assert np.asarray(x).sum() == 0.0
    assert np.asarray(x, dtype=np.float64).dtype == np.float64
    assert not hasattr(x, "__array_interface__")


def test_a_view_as_elements_of_another_type(driver):
    bits = dk.array([1.0, -2.0, 0.5, 4.0], dtype=float, device=G)
    np.testing.assert_array_equal(bits.view(dk.uint32).numpy(), bits.numpy().view(np.uint32))
    np.testing.assert_array_equal(bits[::2].view(int).numpy(), bits.numpy()[::2].copy().view(np.int32))
    whole = dk.array([[1.0, 2.0], [3.0, 4.0]], dtype=dk.vec2, device=G)
    whole.view(dk.int64).zero_()
    assert whole.numpy().tolist() == [[0.0, 0.0], [0.0, 0.0]]
    with pytest.raises(ValueError, match="not of the same size"):
        bits.view(dk.float64)


def test_constructors(driver):
    assert dk.full(3, 2.5, device=G).list() == [2.5] * 3
    assert dk.ones((2, 2), dtype=int, device=G).list() == [[1, 1], [1, 1]]
    x = dk.full(2, dk.vec3(1.0, 2.0, 3.0), device=G)
    assert x.list() == [[1.0, 2.0, 3.0]] * 2
    for like in (dk.zeros_like(x), dk.empty_like(x), dk.ones_like(x), dk.full_like(x, 3.0), dk.clone(x)):
        assert like.device == G
        assert like.shape == x.shape
    assert dk.zeros_like(x, device="cpu").device == "cpu"
    assert dk.from_numpy(np.arange(3.0), device=G).list() == [0.0, 1.0, 2.0]
    assert dk.zeros(0, device=G).numpy().shape == (0,)


@pytest.mark.parametrize("value", [0.0, 1.0, -1.0, 0.1])
@pytest.mark.parametrize("dtype", [float, dk.float64, dk.float16, dk.bfloat16])
def test_fill(driver, dtype, value):
    there, here = dk.empty((3, 700), dtype=dtype, device=G), dk.empty((3, 700), dtype=dtype)
    for a in (there, here):
        a.fill_(1.0)
        a[1:, ::2].fill_(value)
        a[0].fill_(value)
    np.testing.assert_array_equal(there.numpy(), here.numpy())


def test_empty_holds_garbage(driver):
    assert np.isfinite(dk.zeros(4, device=G).numpy()).all()
    assert (dk.empty(4, dtype=dk.uint8, device=G).numpy() == 0xA5).all()


def test_views(driver):
    values = np.arange(24, dtype=np.float32).reshape(4, 6)
    a = dk.array(values, device=G)
    np.testing.assert_array_equal(a[1].numpy(), values[1])
    np.testing.assert_array_equal(a[::2, 1:].numpy(), values[::2, 1:])
    np.testing.assert_array_equal(a[::-1].numpy(), values[::-1])
    np.testing.assert_array_equal(a.reshape(2, 12).numpy(), values.reshape(2, 12))
    assert a[2, 3] == values[2, 3]
    a[1] = 5.0
    a[2, 1:3] = np.array([8.0, 9.0], np.float32)
    a[3] = a[0]
    values[1], values[2, 1:3], values[3] = 5.0, [8.0, 9.0], values[0]
    np.testing.assert_array_equal(a.numpy(), values)
    a[0:3] = a[1:4]
    values[0:3] = values[1:4].copy()
    np.testing.assert_array_equal(a.numpy(), values)
    with pytest.raises(IndexError):
        a[1, 2, 3]


def test_wide_views_are_packed_on_the_device(driver):
    a = dk.array(np.arange(40_000, dtype=np.float32).reshape(200, 200), device=G)
    driver.calls.clear()
    np.testing.assert_array_equal(a[:, 3].numpy(), np.arange(3, 40_000, 200))
    moved = [args[2] for name, args in driver.calls if name == "copy_to_host"]
    assert moved == [800]


def test_structs(driver):
    particles = [Particle(dk.vec3(1.0, 2.0, 3.0), 4.0, 5), Particle(dk.vec3(6.0, 7.0, 8.0), 9.0, 10)]
    there = dk.array(particles, dtype=Particle, device=G)
    assert there.device == G
    assert there[1] == particles[1]
    np.testing.assert_array_equal(there.field("mass").numpy(), [4.0, 9.0])
    there.field("pos").fill_(1.0)
    assert there[0] == Particle(dk.vec3(1.0, 1.0, 1.0), 4.0, 5)


def test_copies(two_devices):
    x = dk.array(np.arange(6, dtype=np.float32))
    a, b = dk.zeros(6, device="cuda:0"), dk.zeros(6, device="cuda:1")
    dk.copy(a, x)
    dk.copy(b, a)
    assert b.list() == x.list()
    assert "copy_peer" in two_devices.names()
    dk.copy(b[::2], a[3:])
    assert b.list() == [3.0, 1.0, 4.0, 3.0, 5.0, 5.0]
    dk.copy(x, b, dest_offset=1, src_offset=2, count=2)
    assert x.list() == [0.0, 4.0, 3.0, 3.0, 4.0, 5.0]
    assert b.to("cuda:0").device == "cuda:0"
    assert dk.array(b, device="cuda:0").list() == b.list()
    dk.copy(x[::2], b[:3])
    assert x.list()[::2] == b.list()[:3]


def test_gradients(driver):
    x = dk.zeros(4, device=G, requires_grad=True)
    assert x.grad.device == G
    assert x[1:3].grad.shape == (2,)
    assert dk.clone(x, device="cpu").grad.device == "cpu"
    assert x.to("cpu").requires_grad
    with pytest.raises(ValueError, match=r"the gradient .* lies on cpu"):
        x.grad = np.zeros(4, np.float32)
    x.grad = dk.ones(4, device=G)
    assert x.grad.list() == [1.0] * 4


def test_pinned(driver):
    x = dk.array(np.arange(4, dtype=np.float32), pinned=True)
    assert x.pinned
    assert x.device == "cpu"
    a = dk.empty(4, device=G)
    dk.copy(a, x)
    assert driver.pending  # nothing has waited
    x.fill_(9.0)  # waits: the copy reads the old values
    assert a.list() == [0.0, 1.0, 2.0, 3.0]
    back = dk.zeros(4, pinned=True)
    dk.copy(back, a)
    assert driver.pending
    assert back.list() == [0.0, 1.0, 2.0, 3.0]  # looking waits as well
    view = back.numpy()
    del back
    gc.collect()
    assert view.sum() == 6.0
    assert "free_host" not in driver.names()
    del view
    gc.collect()
    assert "free_host" in driver.names()
    with pytest.raises(ValueError, match="pinned memory is the host's"):
        dk.zeros(3, device=G, pinned=True)
    assert not dk.zeros(3).pinned


def test_ordinary_host_memory_may_change_at_once(driver):
    values = np.arange(4, dtype=np.float32)
    a = dk.empty(4, device=G)
    a.assign(values)
    values[:] = 0.0
    assert a.list() == [0.0, 1.0, 2.0, 3.0]


def test_memory_is_freed_with_its_last_view(driver):
    a = dk.zeros(100, device=G)
    view = a[10:20]
    del a
    gc.collect()
    assert driver.live_bytes == 400
    del view
    gc.collect()
    assert driver.live_bytes == 0


def test_cuda_array_interface_out(driver):
    a = dk.zeros((3, 4), dtype=dk.vec3, device=G)
    given = a.__cuda_array_interface__
    assert given["shape"] == (3, 4, 3)
    assert given["typestr"] == "<f4"
    assert given["strides"] == (48, 12, 4)
    assert given["data"] == (a.ptr, False)
    assert (given["version"], given["stream"]) == (3, 1)
    with dk.ScopedStream(dk.Stream(G)) as stream:
        assert a.__cuda_array_interface__["stream"] == stream.cuda_stream
    assert not hasattr(dk.zeros(3), "__cuda_array_interface__")


class Foreign:
    """An array of another library."""

    def __init__(self, held, stream=None, **changes):
        self._held = held
        self.__cuda_array_interface__ = {**held.__cuda_array_interface__, "stream": stream, **changes}


def test_cuda_array_interface_in(driver):
    held = dk.array(np.arange(6, dtype=np.float32), device=G)
    a = dk.array(Foreign(held), copy=False)
    assert a.device == G
    assert a.ptr == held.ptr
    a[0] = 9.0
    assert held[0] == 9.0
    b = dk.array(Foreign(held))
    b.fill_(1.0)
    assert held[0] == 9.0
    read_only = dk.array(Foreign(held, data=(held.ptr, True)), copy=False)
    with pytest.raises(ValueError, match="read-only"):
        read_only.fill_(1.0)
    with pytest.raises(TypeError, match="mask"):
        dk.array(Foreign(held, mask=held), copy=False)
    with pytest.raises(TypeError, match="no element type"):
        dk.array(Foreign(held, typestr="<c8"), copy=False)
    with pytest.raises(TypeError, match="components"):
        dk.array(Foreign(held), dtype=dk.vec3, copy=False)


def test_foreign_memory_keeps_its_owner(driver):
    held = dk.zeros(6, device=G)
    a = dk.array(Foreign(held), copy=False)
    again = dk.array(Foreign(held), copy=False)
    assert a._memory is again._memory
    del held
    gc.collect()
    assert driver.live_bytes == 24
    del a, again
    gc.collect()
    assert driver.live_bytes == 0


def test_foreign_streams_are_waited_for(driver):
    theirs = dk.Stream(G)
    held = dk.zeros(4, device=G)
    with dk.ScopedStream(theirs):
        held.fill_(3.0)
    mine = dk.Stream(G)
    with dk.ScopedStream(mine, sync_enter=False):
        a = dk.array(Foreign(held, theirs.cuda_stream), copy=False)
        copied = dk.clone(a)
    mine.synchronize()
    assert copied.list() == [3.0] * 4


def test_contents_cannot_be_touched_by_accident(driver):
    a = dk.zeros(3, device=G)
    with pytest.raises(TypeError, match="lies on a GPU"):
        np.asarray(a._data)


def test_overlapping_copies(driver):
    values = np.arange(20, dtype=np.float32).reshape(5, 4)
    for s, t in [
        ((slice(None, None, 2), slice(None)), (slice(0, 3), slice(None))),
        ((slice(1, None), slice(1, None)), (slice(None, -1), slice(None, -1))),
        ((slice(None, None, -1), slice(None)), (slice(None), slice(None, None, -1))),
    ]:
        there = dk.array(values, device=G)
        expected = values.copy()
        expected[s] = values[t].copy()
        dk.copy(there[s], there[t])
        np.testing.assert_array_equal(there.numpy(), expected)


def test_a_write_by_others_after_the_tape_is_an_error(driver):
    x, y = dk.array([1.0, 2.0, 3.0], float, device=G, requires_grad=True), dk.zeros(3, device=G, requires_grad=True)
    with dk.Tape() as tape:
        dk.launch(square, dim=3, inputs=[x, y, 1.0])
    print(x.numpy(), y)
    other = dk.from_dlpack(x)
    tape.backward(grads={y: np.ones(3, np.float32)})
    assert x.grad.list() == [2.0, 4.0, 6.0]
    dk.copy(other, dk.full(3, 5.0, dtype=float))
    with pytest.raises(dk.LaunchError, match="changed outside the tape"):
        tape.backward(grads={y: np.ones(3, np.float32)})


def test_pickled_and_copied(driver):
    x = dk.array([1.0, 2.0, 3.0], device=G, requires_grad=True)
    x.grad.fill_(4.0)
    for made, grad in [(pickle.loads(pickle.dumps(x[1:])), 0.0), (copy.deepcopy(x[1:]), 4.0), (copy.copy(x[1:]), 4.0)]:
        assert made.device == G
        assert made.list() == [2.0, 3.0]
        assert made.grad.list() == [grad] * 2
    assert copy.deepcopy(x.device) is pickle.loads(pickle.dumps(x.device)) is x.device
