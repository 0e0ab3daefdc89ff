"""Arrays in elements of arrays of structs: what kernels write there, and gradients through them."""

from __future__ import annotations

import numpy as np
import pytest

import diffkern as dk
from diffkern.errors import KernelRuntimeError, LaunchError

F = dk.float64
V = dk.types.vector(3, F)


@dk.struct
class Part:
    scale: F
    x: dk.array(dtype=F)
    v: dk.array(dtype=V, ndim=2)
    n: dk.array(dtype=int)


@dk.struct
class Body:
    part: Part
    out: dk.array(dtype=F)


PARTS, BODIES, D1 = dk.array(dtype=Part), dk.array(dtype=Body), dk.array(dtype=F)


@dk.func
def norm(v: dk.array(dtype=V)):
    s = F(0.0)
    for k in range(v.shape[0]):
        s += dk.dot(v[k], v[k]) * v[-1][1]
    return s


@dk.kernel
def energy(parts: PARTS, w: D1, y: D1):
    i = dk.tid()
    part = parts[i]
    s = F(0.0)
    for j in range(part.x.shape[0]):
        s += dk.sin(part.x[j]) * part.x[part.n[j]] * w[j]
    if part.v:
        s += norm(part.v[1]) + part.v[0, 1][2] ** F(3.0)
    y[i] = s * part.scale


@dk.kernel
def filled(parts: PARTS, w: D1):
    i = dk.tid()
    for j in range(parts[i].x.shape[0]):
        parts[i].x[j] = w[j] * w[j] * parts[i].scale
    parts[i].v[0, 0] = V(w[0], w[1], F(2.0)) * w[1]
    parts[i].v[1, 0][1] = w[0]


@dk.kernel
def added(parts: PARTS, w: D1):
    i = dk.tid()
    parts[i].x[-1] += dk.sin(w[0])
    dk.atomic_add(parts[0].x, 1, w[1] * w[i])


@dk.kernel
def relaxed(parts: PARTS):
    """What the gradient needs is overwritten."""
    i = dk.tid()
    for j in range(parts[i].x.shape[0] - 1):
        parts[i].x[j] = parts[i].x[j] * parts[i].x[j + 1]


@dk.kernel
def copied(bodies: BODIES):
    i = dk.tid()
    for j in range(bodies[i].out.shape[0]):
        bodies[i].out[j] = bodies[i].part.x[j] * bodies[i].part.x[j] * bodies[i].part.scale


@dk.kernel(mode="debug")
def far(parts: PARTS, k: int):
    parts[dk.tid()].x[k] = F(1.0)


def floats(*values, grad=True):
    return dk.array(values, dtype=F, requires_grad=grad)


def made(grad=True):
    """Two parts: strided memory, vectors with two axes, and None."""
    rng = np.random.default_rng(5)
    strided = dk.array(rng.uniform(0.5, 1.0, 6), dtype=F, requires_grad=grad)
    v = dk.array(rng.uniform(0.5, 1.0, (2, 3, 3)), dtype=V, requires_grad=grad)
    return [strided, floats(0.3, 0.9, 0.6, grad=grad), v]


def parts_of(leaves, scale=1.5, grad=False):
    strided, x, v = leaves
    n = dk.array([1, 0, 1], dtype=int)
    first = Part(scale, strided[::-2], v, n)
    second = Part(2.0, x, dk.zeros((2, 1), dtype=V), n)
    return dk.array([first, second], dtype=Part, requires_grad=grad)


def differences(loss, arrays, h=1e-6):
    """Central differences of a loss for each element of each array."""
    found = []
    for a in arrays:
        start = a.numpy().copy()
        slope = np.zeros_like(start)
        for at in np.ndindex(start.shape):
            ends = []
            for step in (h, -h):
                moved = start.copy()
                moved[at] += step
                a.assign(moved)
                ends.append(loss())
            slope[at] = (ends[0] - ends[1]) / (2 * h)
        a.assign(start)
        found.append(slope)
    return found


def test_what_is_read_has_its_gradient():
    leaves, w, y = made(), floats(0.2, 0.5, 0.8), dk.zeros(2, dtype=F, requires_grad=True)
    parts = parts_of(leaves, grad=True)
    with dk.Tape() as tape:
        energy[2](parts, w, y)
        leaves[1].fill_(7.0)  # the adjoint reads what was there
    tape.backward(grads={y: dk.array([1.0, -2.0], dtype=F)})
    again, scale = made(), [1.5]

    def loss():
        energy[2](parts_of(again, scale[0]), w, y)
        return float(y.numpy() @ np.array([1.0, -2.0]))

    expected = differences(loss, [*again, w])
    for a, slope in zip([*leaves, w], expected, strict=True):
        np.testing.assert_allclose(a.grad.numpy(), slope, rtol=1e-6, atol=1e-8)
    value = loss()
    scale[0] = 2.5
    np.testing.assert_allclose(parts.grad.numpy()["scale"][0], loss() - value)


def test_elements_may_hold_one_array_that_is_read():
    x, w, y = floats(0.3, 0.9, 0.6), floats(0.2, 0.5, 0.8), dk.zeros(512, dtype=F, requires_grad=True)
    n = dk.array([1, 0, 1], dtype=int)
    parts = dk.array([Part(float(k), x, None, n) for k in range(512)], dtype=Part)
    for _ in range(2):
        x.grad.zero_()
        with dk.Tape() as tape:
            energy[512](parts, w, y)
        tape.backward(grads={y: dk.ones(512, dtype=F)})
        one = np.array([0.3, 0.9, 0.6])
        weights = np.array([0.2, 0.5, 0.8])
        slope = np.cos(one) * one[[1, 0, 1]] * weights
        np.add.at(slope, [1, 0, 1], np.sin(one) * weights)
        np.testing.assert_allclose(x.grad.numpy(), slope * sum(range(512)), rtol=1e-9)


def test_tables_of_elements_are_no_arrays_of_the_tape():
    """They are freed behind a launch, and others may come to lie there."""
    x, y = floats(0.3, 0.9, 0.6), dk.zeros(2, dtype=F, requires_grad=True)
    parts = dk.array([Part(1.0, x, None, dk.array([1, 0, 1], dtype=int))] * 2, dtype=Part)
    with dk.Tape() as tape:
        energy[2](parts, floats(0.2, 0.5, 0.8), y)
    assert len(tape._steps) == 1
    assert not any(memory.foreign for memory in tape._versions)


def run_filled(leaves, w, scale=1.5):
    parts = parts_of(leaves, scale)
    filled[2](parts, w)
    added[2](parts, w)
    return leaves


def test_what_is_written_passes_its_gradient_on():
    leaves, w = made(), floats(0.2, 0.5, 0.8)
    seeds = [np.random.default_rng(7).normal(size=a.numpy().shape) for a in leaves]
    with dk.Tape() as tape:
        run_filled(leaves, w)
    tape.backward(grads={a: dk.array(s, dtype=a.dtype) for a, s in zip(leaves, seeds, strict=True)})

    def loss():
        done = run_filled(made(), w)
        return sum(float((a.numpy() * s).sum()) for a, s in zip(done, seeds, strict=True))

    np.testing.assert_allclose(w.grad.numpy(), differences(loss, [w])[0], rtol=1e-6)
    found = leaves[2].grad.numpy()
    assert not found[0, 0].any()  # what was there has no influence
    assert found[1, 0, 1] == 0.0
    np.testing.assert_allclose(found[1, 0, [0, 2]], seeds[2][1, 0, [0, 2]])


def test_what_is_overwritten_is_kept():
    leaves, start = made(), made()
    with dk.Tape() as tape:
        relaxed[2](parts_of(leaves))
        relaxed[2](parts_of(leaves))
    seeds = [np.random.default_rng(7).normal(size=a.numpy().shape) for a in leaves[:2]]
    tape.backward(grads={a: dk.array(s, dtype=F) for a, s in zip(leaves, seeds, strict=False)})

    def loss():
        now = [dk.array(a.numpy(), dtype=a.dtype) for a in start]
        for _ in range(2):
            relaxed[2](parts_of(now))
        return sum(float((a.numpy() * s).sum()) for a, s in zip(now, seeds, strict=False))

    for a, slope in zip(leaves, differences(loss, start[:2]), strict=False):
        np.testing.assert_allclose(a.grad.numpy(), slope, rtol=1e-6, atol=1e-9)


def test_a_chain_of_launches_and_arrays_without_gradients_of_their_own():
    x, middle, y = floats(0.3, 0.9), dk.zeros(2, dtype=F), dk.zeros(2, dtype=F)
    bodies = [dk.array([Body(Part(3.0, a, None, None), b)], dtype=Body) for a, b in ((x, middle), (middle, y))]
    total = dk.zeros(1, dtype=F, requires_grad=True)
    with dk.Tape() as tape:
        for one in bodies:
            copied[1](one)
        dk.launch(summed, 2, [y], [total])
    for _ in range(2):
        x.grad.zero_()
        tape.backward(total)
        np.testing.assert_allclose(x.grad.numpy(), 4 * 27 * x.numpy() ** 3)
        total.grad.zero_()


@dk.kernel
def summed(y: D1, total: D1):
    dk.atomic_add(total, 0, y[dk.tid()])


def test_numpy_memory_that_changes_behind_the_tape_is_not_used():
    own = np.array([0.3, 0.9])
    x = dk.from_numpy(own, dtype=F, requires_grad=True) if hasattr(dk, "from_numpy") else floats(0.3, 0.9)
    y = dk.zeros(2, dtype=F, requires_grad=True)
    with dk.Tape() as tape:
        copied[1](dk.array([Body(Part(3.0, x, None, None), y)], dtype=Body))
    x.numpy()[:] = 5.0
    tape.backward(grads={y: dk.ones(2, dtype=F)})
    np.testing.assert_allclose(x.grad.numpy(), [6 * 0.3, 6 * 0.9])


def test_overlaps_are_refused_where_something_is_written():
    x, w = floats(1.0, 2.0, 3.0), floats(0.2, 0.5, 0.8)
    twice = dk.array([Part(1.0, x, dk.zeros((2, 1), dtype=V), None)] * 2, dtype=Part)
    once = dk.array([Part(1.0, x, dk.zeros((2, 1), dtype=V), None)], dtype=Part)
    with pytest.raises(LaunchError, match="two elements hold arrays that share memory"):
        filled[2](twice, w)
    with pytest.raises(LaunchError, match="shares memory with another array"):
        filled[1](once, x)
    both = dk.array([Body(Part(1.0, x, None, None), x[1:])], dtype=Body)
    with pytest.raises(LaunchError, match="shares memory with another array"):
        copied[1](both)
    with dk.Tape(), pytest.raises(LaunchError, match="cannot be differentiated") as error:
        energy[1](once, x, dk.zeros(1, dtype=F, requires_grad=True))
    assert error.value.loc is not None


def test_what_has_no_way_is_refused_with_a_remedy():
    x, y = floats(1.0, 2.0), dk.zeros(2, dtype=F, requires_grad=True)
    bodies = dk.array([Body(Part(1.0, x, None, None), y)], dtype=Body)
    with pytest.raises(LaunchError, match="launched by hand") as error:
        dk.launch(copied, 1, [bodies], adjoint=True, adj_inputs=[bodies])
    assert "dk.Tape" in str(error.value.remedy)
    with pytest.raises(LaunchError, match="looked for at each launch") as error:
        dk.launch(copied, 1, [bodies], record_cmd=True)
    assert error.value.loc is not None
    with dk.record(), pytest.raises(LaunchError, match="looked for at each launch"):
        copied[1](bodies)


def test_debug_launches_check_what_is_written():
    parts = parts_of(made())
    far[2](parts, 2)
    with pytest.raises(
        KernelRuntimeError, match=r"index 3 is out of bounds for axis 0 of array 'parts\.x' of an element"
    ):
        far[2](parts, 3)


def test_programs_for_gpus():
    for kernel in (energy, filled, added, relaxed):
        for adjoint in (False, True):
            assert ".entry" in dk.compile(kernel, target="sm_90", adjoint=adjoint).ptx


@dk.kernel
def guarded(parts: PARTS, y: D1):
    i = dk.tid()
    y[i] = F(1.0)
    if parts:
        y[i] = parts[i].x[0]


def test_no_array_of_structs_at_all():
    y = dk.zeros(2, dtype=F)
    guarded[2](None, y)
    assert y.numpy().tolist() == [1.0, 1.0]
    guarded[2](parts_of(made()), y)
    assert y.numpy()[1] == 0.3


@dk.kernel
def products(parts: PARTS, w: D1, y: D1):
    i = dk.tid()
    y[i] = parts[0].x[i] * parts[1].x[i] * w[i] * w[i]


@pytest.mark.parametrize("with_gradient", [False, True])
def test_arrays_in_elements_are_constants_of_functions_or_refused(with_gradient):
    first, second, w = (dk.array(a, dtype=F) for a in ([1.0, 2.0], [3.0, 5.0], [0.5, 2.0]))
    first.requires_grad = with_gradient
    parts = dk.array([Part(1.0, first, None, None), Part(1.0, second, None, None)], dtype=Part)

    def loss(w: dk.array) -> dk.array:
        y = dk.zeros(2, dtype=F)
        dk.launch(products, 2, [parts, w], [y])
        return y.sum()

    np.testing.assert_allclose(dk.grad(loss)(w).numpy(), [3.0, 40.0])

    def rolled_out(_: dk.array) -> dk.array:
        y = dk.clone(w)
        dk.checkpoint(lambda _: dk.launch(products, 2, [parts, w], [y]), 2, 1)
        return y.sum()

    # No gradient of a function goes to arrays that are no parameters, alone and as what is differentiated again.
    twice = dk.grad(lambda _: (dk.grad(loss)(w) * w).sum())
    for function in (dk.grad(lambda _: loss(w)), twice, dk.grad(rolled_out)):
        for held in (first, second):
            with pytest.raises(LaunchError, match="through an element of an array, and it has a gradient"):
                function(held)
    with pytest.raises(LaunchError, match="through an element of an array, and it has a gradient"):
        dk.jvp(lambda _: dk.grad(loss)(w), (second,), (dk.ones_like(second),))
