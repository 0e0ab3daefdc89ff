"""Arrays over an address within another array: views of it, as those that are made by indexing."""

from __future__ import annotations

import ctypes
import gc
import weakref

import numpy as np
import pytest

import diffkern as dk
import diffkern.warp as wp
from tests.support.seeds import run_seed


@dk.kernel
def cubes(x: dk.array(dtype=float), y: dk.array(dtype=float)):
    i = dk.tid()
    y[i] = x[i] * x[i] * x[i]


@dk.kernel
def cubes_2d(x: dk.array(dtype=float, ndim=2), y: dk.array(dtype=float, ndim=2)):
    i, j = dk.tid()
    y[i, j] = x[i, j] * x[i, j] * x[i, j]


@dk.kernel
def cubes_of_vectors(x: dk.array(dtype=dk.vec3), y: dk.array(dtype=dk.vec3)):
    i = dk.tid()
    y[i] = dk.cw_mul(dk.cw_mul(x[i], x[i]), x[i])


@dk.kernel
def cubes_of_vectors_2d(x: dk.array(dtype=dk.vec3, ndim=2), y: dk.array(dtype=dk.vec3, ndim=2)):
    i, j = dk.tid()
    y[i, j] = dk.cw_mul(dk.cw_mul(x[i, j], x[i, j]), x[i, j])


@dk.kernel
def shifted(x: dk.array(dtype=float), y: dk.array(dtype=float)):
    i = dk.tid()
    y[i] = x[i] * 0.5


@dk.kernel
def add_up(x: dk.array(dtype=float), total: dk.array(dtype=float)):
    dk.atomic_add(total, 0, x[dk.tid()])


@dk.kernel
def as_doubles(x: dk.array(dtype=dk.float64), y: dk.array(dtype=dk.float64)):
    i = dk.tid()
    y[i] = x[i] * x[i]


@dk.kernel
def low_bits(x: dk.array(dtype=int), y: dk.array(dtype=int)):
    i = dk.tid()
    y[i] = x[i] & 255


@dk.kernel
def ones_as_bits(x: dk.array(dtype=int)):
    i = dk.tid()
    x[i] = 1065353216


KERNELS = {
    (1, False): cubes,
    (2, False): cubes_2d,
    (1, True): cubes_of_vectors,
    (2, True): cubes_of_vectors_2d,
}

LAYOUTS = [
    pytest.param(dk.vec3, 0, {"dtype": dk.vec3, "shape": 8}, id="all"),
    pytest.param(dk.vec3, 0, {"dtype": dk.vec3, "shape": (4, 2)}, id="rows of vectors"),
    pytest.param(dk.vec3, 0, {"dtype": float, "shape": 24}, id="numbers"),
    pytest.param(dk.vec3, 28, {"dtype": float, "shape": (2, 5)}, id="some numbers"),
    pytest.param(float, 24, {"dtype": dk.vec3, "shape": (2, 3)}, id="vectors of numbers"),
    pytest.param(float, 4, {"dtype": float, "shape": (3, 4), "strides": (32, 8)}, id="every second number"),
    pytest.param(dk.vec2, 80, {"dtype": float, "shape": 6, "strides": (-8,)}, id="backwards"),
    pytest.param(dk.mat22, 8, {"dtype": dk.vec3, "shape": 2, "strides": (40,)}, id="across matrices"),
]
layouts = pytest.mark.parametrize(("element", "offset", "what"), LAYOUTS)


def _owner(element, requires_grad=True):
    numbers = np.random.default_rng(run_seed()).uniform(-2, 2, 24).astype(np.float32)
    inner = dk.zeros(1, element).numpy().shape[1:]
    return dk.array(numbers.reshape(-1, *inner), dtype=element, requires_grad=requires_grad)


def _numbers_of(view, owner):
    """Which of the owner's numbers a view shows, in its order."""
    data = view._data
    indices = np.lib.stride_tricks.as_strided(np.arange(24, dtype=np.float32), data.shape, data.strides)
    start = (data.ctypes.data - owner.ptr) // 4
    return (indices + start).astype(int) if min(data.strides) > 0 else start - np.arange(data.size) * 2


def _cubes(view, out=None):
    out = dk.zeros(view.shape, view.dtype, requires_grad=True) if out is None else out
    kernel = KERNELS[view.ndim, view.dtype is dk.vec3]
    dk.launch(kernel, view.shape, inputs=[view], outputs=[out])
    return out


def _weights(like):
    return np.random.default_rng(run_seed() + 1).uniform(1, 2, like.numpy().shape).astype(np.float32)


@layouts
def test_values_and_gradients(element, offset, what):
    owner = _owner(element)
    view = dk.array(ptr=int(owner.ptr) + offset, **what)
    at = _numbers_of(view, owner)
    numbers = owner.numpy().reshape(-1)
    assert np.array_equal(view.numpy().reshape(-1), numbers[at].reshape(-1))
    with dk.Tape() as tape:
        out = _cubes(view)
    w = _weights(out)
    tape.backward(grads={out: dk.array(w, dtype=view.dtype)})
    expected = np.zeros(24, np.float32)
    expected[at] = 3 * w.reshape(at.shape) * numbers[at] ** 2
    assert np.allclose(owner.grad.numpy().reshape(-1), expected, rtol=1e-6)
    assert np.allclose(view.grad.numpy().reshape(-1), expected[at].reshape(-1), rtol=1e-6)


@layouts
def test_what_is_written_through_a_view_is_read_from_its_owner(element, offset, what):
    owner = _owner(element, requires_grad=False)  # a temporary, which holds what was there and what the view brings
    view = dk.array(ptr=owner.ptr + offset, **what)
    at = _numbers_of(view, owner)
    x = dk.array(_weights(view), dtype=view.dtype, requires_grad=True)
    all_of_it = dk.array(ptr=owner.ptr, dtype=float, shape=24)
    with dk.Tape() as tape:
        _cubes(x, view)
        out = _cubes(all_of_it)
    tape.backward(grads={out: dk.ones(24)})
    cube = x.numpy().reshape(-1) ** 3
    assert np.allclose(owner.numpy().reshape(-1)[at].reshape(-1), cube, rtol=1e-6)
    expected = 3 * cube**2 * 3 * x.numpy().reshape(-1) ** 2
    assert np.allclose(x.grad.numpy().reshape(-1), expected, rtol=1e-5)


@layouts
def test_derivatives_of_functions(element, offset, what):
    owner = _owner(element, requires_grad=False)

    def loss(x):
        out = _cubes(dk.array(ptr=x.ptr + offset, **what))
        total = dk.zeros(1)
        dk.launch(add_up, out._data.size, inputs=[dk.array(ptr=out.ptr, dtype=float, shape=out._data.size), total])
        return total

    at = _numbers_of(dk.array(ptr=owner.ptr + offset, **what), owner)
    numbers, direction = owner.numpy().reshape(-1), np.linspace(-1, 1, 24, dtype=np.float32)
    along = dk.array(direction.reshape(owner.numpy().shape), dtype=element)
    once, twice = np.zeros(24), np.zeros(24)
    once[at] = 3 * numbers[at] ** 2
    twice[at] = 6 * numbers[at] * direction[at]
    assert np.allclose(dk.grad(loss)(owner).numpy().reshape(-1), once, rtol=1e-5)
    (change,) = dk.jvp(loss, (owner,), (along,))[1].numpy()
    assert np.isclose(change, once @ direction, rtol=1e-4)
    (product,) = dk.hvp(loss, (owner,), (along,))
    assert np.allclose(product.numpy().reshape(-1), twice, rtol=1e-5)


def test_a_view_of_a_view_and_of_a_part():
    owner = dk.array(np.arange(12.0), dtype=float, requires_grad=True)
    part = owner[2:10]
    view = dk.array(ptr=part.ptr + 4, shape=3, dtype=float)
    beyond = dk.array(ptr=view.ptr - 12, shape=12, dtype=float)  # begins before the part, where the owner does
    assert view.numpy().tolist() == [3, 4, 5]
    owner.grad.assign(np.arange(12.0))
    assert view.grad.numpy().tolist() == [3, 4, 5]
    assert beyond.grad.numpy().tolist() == owner.grad.numpy().tolist()
    beyond.grad.fill_(7.0)
    assert owner.grad.numpy().tolist() == [7.0] * 12


@pytest.mark.parametrize("place", ["numpy", "interface", "ctype"])
def test_addresses_that_became_known_otherwise(place):
    owner = dk.array(np.arange(4.0), dtype=float, requires_grad=True)
    address = {
        "numpy": lambda: owner.numpy().ctypes.data,
        "interface": lambda: owner.__array_interface__["data"][0],
        "ctype": lambda: owner.__ctype__().data,
    }[place]()
    assert dk.array(ptr=address + 8, shape=2, dtype=float).grad.ptr == owner.grad.ptr + 8


def test_memory_of_numpy_that_an_array_was_made_over():
    base = np.arange(6.0, dtype=np.float32)
    owner = dk.array(base, copy=False, requires_grad=True)
    with dk.Tape() as tape:
        out = _cubes(dk.array(ptr=base.ctypes.data + 4, shape=2, dtype=float))
    tape.backward(grads={out: dk.ones(2)})
    assert owner.grad.numpy().tolist() == [0, 3, 12, 0, 0, 0]


def test_the_owner_lives_as_long_as_its_views():
    owner = dk.array(np.arange(4.0), dtype=float)
    known = weakref.ref(owner)
    view = dk.array(ptr=owner.ptr + 8, shape=2, dtype=float)
    del owner
    gc.collect()
    assert view.numpy().tolist() == [2, 3]
    assert known() is not None
    del view
    gc.collect()
    assert known() is None


def test_an_array_in_memory_of_nobody_here_is_as_before():
    buffer = (ctypes.c_float * 4)(1, 2, 3, 4)
    a = dk.array(ptr=ctypes.addressof(buffer), shape=4, dtype=float, requires_grad=True)
    with dk.Tape() as tape:
        out = _cubes(a)
    tape.backward(grads={out: dk.ones(4)})
    assert a.grad.numpy().tolist() == [3, 12, 27, 48]
    assert a._parent is None


def test_many_arrays_with_known_addresses():
    held = [dk.array(np.full(3, k), dtype=float) for k in range(200)]
    addresses = [a.ptr for a in held]
    del held[::3]  # what is gone contains nothing
    held = {a.ptr: a for a in held}
    for address in addresses:  # which are not read here
        assert dk.array(ptr=address + 4, shape=2, dtype=float)._parent is held.get(address)


@pytest.mark.parametrize("start", [0, 2])
@pytest.mark.parametrize(
    "what", [{}, {"shape": (3, 2)}, {"shape": 2, "dtype": dk.vec3}], ids=["same", "shape", "dtype"]
)
def test_an_array_of_an_array_without_a_copy(what, start):
    x = dk.array(np.arange(1.0, 10.0), dtype=float, requires_grad=True)
    part = x[start : start + 6]
    view = dk.array(part, copy=False, **what)
    with dk.Tape() as tape:
        out = _cubes(view)
    tape.backward(grads={out: dk.full(out.shape, dk.vec3(1.0) if out.dtype is dk.vec3 else 1.0, dtype=out.dtype)})
    expected = np.zeros(9)
    expected[start : start + 6] = 3 * np.arange(start + 1.0, start + 7) ** 2
    assert np.allclose(x.grad.numpy(), expected)
    every_second = dk.array(x[::2], copy=False)
    every_second.fill_(7.0)
    assert x.numpy()[:3].tolist() == [7, 2, 7]
    assert every_second.grad.numpy().tolist() == expected[::2].tolist()


def test_bytes_that_lie_in_an_array_in_part():
    owner, longer = dk.zeros(4), dk.zeros(100)
    assert longer.ptr
    for ptr, n in [(owner.ptr + 8, 3), (owner.ptr - 4, 2)]:
        with pytest.raises(ValueError, match=r"begin or end within array\(shape=\(4,\)"):
            dk.array(ptr=ptr, shape=n, dtype=float)


@pytest.mark.parametrize("make", ["index", "address"])
@pytest.mark.parametrize(("writes", "overlap"), [(True, True), (False, True), (True, False)])
def test_launches_with_a_view_and_its_owner(make, writes, overlap):
    owner = dk.array(np.arange(8.0), dtype=float)
    start = 2 if overlap else 4
    view = owner[start : start + 4] if make == "index" else dk.array(ptr=owner.ptr + 4 * start, shape=4, dtype=float)
    goal = view if writes else dk.zeros(4)
    source = owner[:4]
    if writes and overlap:
        with pytest.raises(dk.LaunchError, match="'x' and 'y' share memory"):
            dk.launch(shifted, 4, inputs=[source], outputs=[goal])
        return
    dk.launch(shifted, 4, inputs=[source if writes else view], outputs=[goal])
    assert goal.numpy().tolist() == [0.5 * k for k in (range(4) if writes else range(2, 6))]


@pytest.mark.parametrize("dtype", [float, int])
def test_two_views_of_bytes_that_overlap(dtype):
    owner = dk.zeros(8, dtype=dk.vec2)
    numbers = [dk.array(ptr=owner.ptr + 4 * k, shape=6, dtype=dtype) for k in (0, 3)]
    kernel = shifted if dtype is float else low_bits
    with pytest.raises(dk.LaunchError, match="share memory"):
        dk.launch(kernel, 6, inputs=[numbers[0]], outputs=[numbers[1]])


def test_a_tape_sees_what_is_written_through_an_address():
    x = dk.array(np.arange(1.0, 5.0), dtype=float, requires_grad=True)
    with dk.Tape() as tape:
        out = _cubes(x)
        dk.array(ptr=x.ptr + 4, shape=2, dtype=float).fill_(0.5)
        last = _cubes(x)
    tape.backward(grads={out: dk.ones(4), last: dk.full(4, 2.0)})  # of out at what x was, of which two were kept
    assert x.grad.numpy().tolist() == [9, 12, 27, 144]


def _double_view(owner):
    return dk.array(ptr=owner.ptr, shape=2, dtype=dk.float64)


@pytest.mark.parametrize("has_grad", [True, False])
@pytest.mark.parametrize("view", [_double_view, lambda owner: owner.view(dk.float64)], ids=["address", "view"])
def test_no_gradient_goes_through_other_numbers(view, has_grad):
    x = dk.array(np.ones((2, 2)), dtype=dk.vec2, requires_grad=True)
    between = x if has_grad else dk.zeros(2, dtype=dk.vec2)
    numbers = view(between)
    assert numbers.grad is None
    with dk.Tape():
        if not has_grad:
            between.assign(x)
        with pytest.raises(dk.LaunchError, match=r"shows the bytes of .* as other numbers"):
            dk.launch(as_doubles, 2, inputs=[numbers], outputs=[dk.zeros(2, dtype=dk.float64, requires_grad=True)])

    def loss(x):
        y = dk.zeros(1, dtype=dk.float64)
        dk.launch(as_doubles, 1, inputs=[view(x)], outputs=[y])
        return y

    for derivative in (lambda: dk.grad(loss)(x), lambda: dk.jvp(loss, (x,), (x,))):
        with pytest.raises(dk.LaunchError, match="shows the bytes of"):
            derivative()


BITS = [lambda a: a.view(int), lambda a: dk.array(ptr=a.ptr, shape=a.shape, dtype=int)]
CHANGES = {
    "launch": lambda bits: dk.launch(ones_as_bits, 4, inputs=[bits]),
    "fill": lambda bits: bits.fill_(0),
    "copy": lambda bits: dk.copy(bits, dk.zeros(4, dtype=int)),
}


@pytest.mark.parametrize("view", BITS, ids=["view", "address"])
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize("has_grad", [True, False])
def test_integers_written_over_numbers_with_a_derivative(view, change, has_grad):
    x = dk.ones(4, requires_grad=True)
    with dk.Tape():
        y = _cubes(x, dk.zeros(4, requires_grad=has_grad))
        with pytest.raises(dk.LaunchError, match=r"dtype=int32.* shows the bytes of .*float32"):
            change(view(y))

    def loss(x):
        y = _cubes(x, dk.zeros(4))
        change(view(y))
        return y[:1]

    for derivative in (lambda: dk.grad(loss)(x), lambda: dk.jvp(loss, (x,), (x,))):
        with pytest.raises(dk.LaunchError, match="shows the bytes of"):
            derivative()


@pytest.mark.parametrize("view", BITS, ids=["view", "address"])
def test_integers_written_before_the_numbers_are_met(view):
    x = dk.ones(4, requires_grad=True)
    with dk.Tape(), pytest.raises(dk.LaunchError, match="shows the bytes of"):
        dk.launch(ones_as_bits, 2, inputs=[view(x)])


@pytest.mark.parametrize("view", BITS, ids=["view", "address"])
def test_bits_that_are_read_are_constants(view):
    x = dk.array(np.arange(1.0, 5.0), dtype=float, requires_grad=True)
    bits, other = dk.zeros(4, dtype=int), dk.zeros(4)
    with dk.Tape() as tape:
        between = _cubes(x, dk.zeros(4))
        out = _cubes(between)
        dk.launch(low_bits, 4, inputs=[view(x)], outputs=[bits])
        dk.copy(view(other), view(between))
        last = _cubes(other)
    tape.backward(grads={out: dk.ones(4), last: dk.ones(4)})
    assert last.numpy().tolist() == out.numpy().tolist()
    assert x.grad.numpy().tolist() == [9, 9 * 2**8, 9 * 3**8, 9 * 4**8]


def test_elements_that_lie_in_each_other():
    owner = dk.array(np.arange(1.0, 5.0), dtype=float, requires_grad=True)
    windows = dk.array(ptr=owner.ptr, shape=(3, 2), strides=(4, 4), dtype=float)
    assert windows.numpy().tolist() == [[1, 2], [2, 3], [3, 4]]
    assert windows.grad is None
    with dk.Tape(), pytest.raises(dk.LaunchError, match="each of them once"):
        _cubes(windows)


def test_bytes_in_which_arrays_are_laid_out():
    pool = dk.zeros(64, dtype=dk.uint8)
    known = weakref.ref(pool)
    a = wp.array(ptr=pool.ptr, shape=4, dtype=float, requires_grad=True)
    b = wp.array(ptr=pool.ptr + 32, shape=4, dtype=float, requires_grad=True)
    c = wp.array(ptr=pool.ptr + 16, shape=4, dtype=float)
    del pool
    a.fill_(2.0)
    with dk.Tape() as tape:
        _cubes(a, c)
        _cubes(c, b)
    tape.backward(grads={b: dk.ones(4)})
    assert a.grad.numpy().tolist() == [3 * 64 * 12] * 4
    assert known() is not None


def test_an_array_with_a_gradient_of_its_own():
    pool = dk.zeros(8)
    a = wp.array(ptr=pool.ptr, shape=4, dtype=float, requires_grad=True)
    a.grad.fill_(1.0)
    assert pool.grad is None
    owner = dk.zeros(8, requires_grad=True)
    view = wp.array(ptr=owner.ptr, shape=4, dtype=float, requires_grad=True)
    assert view.grad.ptr == owner.grad.ptr


def test_memory_is_checked_against_a_device():
    owner = dk.zeros(4)
    assert wp.array(ptr=owner.ptr, shape=4, dtype=float, device="cpu", copy=False)._parent is owner
    with pytest.raises(ValueError, match="2 strides for 1 axes"):
        dk.array(ptr=owner.ptr, shape=4, strides=(8, 4), dtype=float)
    with pytest.raises(TypeError, match="not aligned"):
        dk.array(ptr=owner.ptr + 2, shape=1, dtype=float)
