"""Counters as indices: what atomic updates returned in a launch on a tape is read by its adjoint."""

from dataclasses import replace

import numpy as np
import pytest

import diffkern as dk
from diffkern.compiler.compilation import Compilation

N = 48
FLOATS = dk.array(dtype=dk.float64)
COUNTER = dk.array(dtype=int)


@dk.func
def wave(a: dk.float64):
    return a * a * dk.sin(a)


@dk.func
def next_slot(count: COUNTER):
    return dk.atomic_add(count, 0, 1)


@dk.kernel
def contacts(x: FLOATS, count: COUNTER, out: FLOATS):
    i = dk.tid()
    k = next_slot(count)
    if k < out.shape[0]:
        out[k] = wave(x[i]) * x[(i + 1) % x.shape[0]]


@dk.kernel
def from_both_ends(x: FLOATS, count: COUNTER, out: FLOATS):
    i = dk.tid()
    if x[i] > 1.0:
        k = dk.atomic_add(count, 0, 2)
        j = k + 1
        out[k] = wave(x[i])
        out[j] = x[i]
    else:
        k = dk.atomic_sub(count, 1, 1) - 1
        out[k] = wave(x[i]) * 2.0


@dk.kernel
def exchanged(x: FLOATS, count: COUNTER, out: FLOATS):
    i = dk.tid()
    k = dk.atomic_exch(count, i, -1)
    highest = dk.atomic_max(count, i, 7)
    if dk.atomic_cas(count, i, 7, 0) == 7 and highest == -1:
        out[k] = wave(x[i])


@dk.kernel
def in_constant_loops(x: FLOATS, count: COUNTER, out: FLOATS):
    i = dk.tid()
    s = x[i]
    for a in range(40):
        for b in range(1, 5, 3):
            if (a + b + i) % 29 == 0:
                k = dk.atomic_add(count, 0, 1)
                out[k] = wave(s)
        s += x[i] * 0.1


@dk.kernel
def in_uneven_loops(x: FLOATS, count: COUNTER, out: FLOATS):
    i = dk.tid()
    n = i % 4
    while n > 0:
        if n != 2:
            k = dk.atomic_add(count, 0, 1)
            out[k] = wave(x[i]) * dk.float64(n)
        n -= 1
    for a in range(i % 3):
        for b in range(a + 1):
            k = dk.atomic_add(count, 0, 1)
            out[k] = wave(x[i]) * dk.float64(b + 1)
        last = dk.atomic_sub(count, 1, 1) - 1
        out[last] = x[i]


@dk.kernel
def wide(x: FLOATS, count: dk.array(dtype=dk.uint64), out: FLOATS):
    i, j = dk.tid()
    k = dk.atomic_add(count, 0, dk.uint64(1))
    out[dk.int32(k - dk.uint64(0xFFFFFFFFFFFFFF00))] = wave(x[i] * x[j + 8])


@dk.kernel
def in_blocks(x: FLOATS, count: COUNTER, out: FLOATS):
    i = dk.tid()
    t = dk.thread_index()
    slots = dk.shared_array(16, dtype=int)
    slots[t] = dk.atomic_add(count, 0, 1)
    dk.syncthreads()
    out[slots[(t + 1) % 16]] = wave(x[i])


@dk.kernel
def rounded(x: dk.array(dtype=float), count: COUNTER, out: dk.array(dtype=float)):
    i = dk.tid()
    out[dk.atomic_add(count, 0, 1)] = x[i] * x[i]


@dk.kernel
def sum_of_squares(out: FLOATS, loss: FLOATS):
    dk.atomic_add(loss, 0, out[dk.tid()] ** 2.0)


class Loss:
    """A loss that does not see in which order a kernel's results lie."""

    def __init__(self, kernel, dim=N, count=(0, 4 * N), dtype=np.int32, block_dim=None):
        self.kernel, self.dim, self.block_dim = kernel, dim, block_dim
        self.before = np.array(count, dtype)

    def launch(self, x, loss):
        count = dk.array(self.before)
        out = dk.zeros(4 * N, dtype=dk.float64, requires_grad=True)
        dk.launch(self.kernel, self.dim, [x, count, out], block_dim=self.block_dim)
        dk.launch(sum_of_squares, out.shape[0], [out, loss])

    def at(self, values):
        x, loss = dk.array(values), dk.zeros(1, dtype=dk.float64)
        self.launch(x, loss)
        return loss.numpy()[0]

    def gradient(self, values):
        x = dk.array(values, requires_grad=True)
        loss = dk.zeros(1, dtype=dk.float64, requires_grad=True)
        with dk.Tape() as tape:
            self.launch(x, loss)
        tape.backward(loss)
        return x.grad.numpy()


LOSSES = {
    "contacts": Loss(contacts),
    "from both ends": Loss(from_both_ends),
    "exchanged": Loss(exchanged, count=range(N)[::-1]),
    "in constant loops": Loss(in_constant_loops),
    "in uneven loops": Loss(in_uneven_loops),
    "wide": Loss(wide, (8, 16), [0xFFFFFFFFFFFFFF00], np.uint64),
    "in blocks": Loss(in_blocks, block_dim=16),
}


@pytest.mark.parametrize("mode", ["release", "debug"])
@pytest.mark.parametrize("name", LOSSES)
def test_the_gradient_is_that_of_central_differences(name, mode):
    loss, rng = LOSSES[name], np.random.default_rng(7)
    x, direction = rng.uniform(0.5, 2.0, N), rng.normal(size=N)
    dk.config.mode = mode
    try:
        found = loss.gradient(x) @ direction
        step = 1e-6 * direction
        wanted = (loss.at(x + step) - loss.at(x - step)) / 2e-6
    finally:
        dk.config.mode = "release"
    assert wanted != 0
    assert found == pytest.approx(wanted, rel=1e-6)


def arrays(n=N, size=4 * N):
    x = dk.array(np.random.default_rng(3).uniform(0.5, 2.0, n), requires_grad=True)
    return x, dk.zeros(2, dtype=int), dk.zeros(size, dtype=dk.float64, requires_grad=True)


def test_each_launch_on_a_tape_has_a_log_of_its_own():
    x, count, out = arrays()
    y = dk.clone(x, requires_grad=True)
    loss = dk.zeros(1, dtype=dk.float64, requires_grad=True)
    with dk.Tape() as tape:
        contacts[N](x, count, out)
        contacts[N](y, count, out)
        count.zero_()
        other = dk.zeros(4 * N, dtype=dk.float64, requires_grad=True)
        contacts[N](x, count, other)
        for results in (out, other):
            sum_of_squares[4 * N](results, loss)
    assert count.numpy()[0] == N
    tape.backward(loss)
    once = Loss(contacts).gradient(x.numpy())
    np.testing.assert_allclose(x.grad.numpy(), 2 * once, rtol=1e-12)
    np.testing.assert_allclose(y.grad.numpy(), once, rtol=1e-12)


def test_what_does_not_fit_has_no_gradient():
    x, count, _ = arrays()
    out = dk.zeros(5, dtype=dk.float64, requires_grad=True)
    with dk.Tape() as tape:
        contacts[N](x, count, out)
    tape.backward(grads={out: dk.ones(5, dtype=dk.float64)})
    # Each result has a share in the gradient of two neighbours.
    assert 5 <= np.count_nonzero(x.grad.numpy()) <= 10


def test_a_sequence_replays_with_the_log():
    x, count, out = arrays()
    loss = dk.zeros(1, dtype=dk.float64, requires_grad=True)
    with dk.record() as forward:
        count.zero_()
        loss.zero_()
        dk.launch(contacts, N, [x, count, out])
        dk.launch(sum_of_squares, 4 * N, [out, loss])
    both = forward.adjoint(loss=loss)
    for seed in (1, 2):
        x.assign(np.random.default_rng(seed).uniform(0.5, 2.0, N))
        both.replay()
        np.testing.assert_allclose(x.grad.numpy(), Loss(contacts).gradient(x.numpy()), rtol=1e-12)


def test_a_sequence_counts_before_the_launch():
    """How often a thread comes there follows from its index, so that the log has just the room that is needed."""
    x, count, out = arrays()
    loss = dk.zeros(1, dtype=dk.float64, requires_grad=True)
    with dk.record() as forward:
        count.assign([0, 4 * N])
        loss.zero_()
        dk.launch(in_uneven_loops, N, [x, count, out])
        dk.launch(sum_of_squares, out.shape[0], [out, loss])
    both = forward.adjoint(loss=loss)
    for seed in (1, 2):
        x.assign(np.random.default_rng(seed).uniform(0.5, 2.0, N))
        both.replay()
        np.testing.assert_allclose(x.grad.numpy(), Loss(in_uneven_loops).gradient(x.numpy()), rtol=1e-12)


def test_adjoints_without_a_log_are_refused():
    x, count, out = arrays()
    with pytest.raises(dk.LaunchError, match="what atomic_add returned") as caught:
        dk.launch(contacts, N, [x, count, out], adjoint=True)
    assert "tape.backward(grads=" in str(caught.value.remedy)
    with dk.Tape() as tape:
        contacts[N](x, count, out)
    tape.backward(grads={out: dk.full(out.shape, 2.0, dtype=dk.float64)})
    by_hand, x.grad = x.grad.numpy().copy(), None
    assert np.any(by_hand)
    record = dk.launch(contacts, N, [x, count, out], record_cmd=True)
    with pytest.raises(dk.LaunchError, match="what atomic_add returned"):
        record.adjoint()
    assert caught.value.loc.line == next_slot.pyfunc.__code__.co_firstlineno + 2


@dk.kernel
def queue(x: FLOATS, count: COUNTER, out: FLOATS):
    while True:
        t = dk.atomic_add(count, 0, 1)
        if t >= x.shape[0]:
            break
        out[t] = wave(x[t])


@dk.kernel
def queue_of_few(x: FLOATS, count: COUNTER, out: FLOATS):
    i = dk.tid()
    for _ in range(8):
        t = dk.atomic_add(count, 0, 1)
        if t < x.shape[0]:
            out[t] = wave(x[t]) + 0.0 * x[i]


def test_calls_that_cannot_be_counted_are_refused_and_the_remedy_works():
    x, count, out = arrays()
    with dk.Tape() as tape:
        queue[1](x, count, out)
    with pytest.raises(dk.AutodiffError, match="not known before the launch") as caught:
        tape.backward(grads={out: dk.ones(4 * N, dtype=dk.float64)})
    assert caught.value.loc.line == queue.func.__code__.co_firstlineno + 3
    assert "constant number of trips" in caught.value.remedy
    count.zero_()
    with dk.Tape() as tape:
        queue_of_few[N](x, count, out)
    tape.backward(grads={out: dk.ones(4 * N, dtype=dk.float64)})
    values = x.numpy()
    wanted = 2 * values * np.sin(values) + values**2 * np.cos(values)
    np.testing.assert_allclose(x.grad.numpy(), wanted, rtol=1e-12)


@dk.kernel
def without_an_index(x: FLOATS, count: COUNTER, out: FLOATS):
    k = dk.atomic_add(count, 0, 1)
    out[k] = wave(x[k])


def test_threads_without_an_index_are_refused():
    x, count, out = arrays()
    with dk.Tape():
        without_an_index[1](x, count, out)
        with pytest.raises(dk.LaunchError, match="several threads") as caught:
            without_an_index[2](x, count, out)
    assert "dk.tid()" in caught.value.remedy


@dk.kernel
def compacted(x: FLOATS, count: COUNTER, kept: COUNTER, out: FLOATS):
    i = dk.tid()
    if x[i] > 1.0:
        kept[dk.atomic_add(count, 0, 1)] = i
    out[i] = wave(x[i])


def test_nothing_is_logged_without_need():
    x, count, out = arrays()
    with dk.Tape() as tape:
        compacted[N](x, count, dk.zeros(N, dtype=int), out)
    (launch,) = tape.launches
    assert launch.log is None


@pytest.mark.parametrize("compiler", ["llvm", "numba"])
@pytest.mark.parametrize("kernel", [contacts, in_uneven_loops], ids=["contacts", "in uneven loops"])
def test_programs_for_gpus(kernel, compiler):
    types = kernel.argument_types()
    variant = replace(kernel.variant, target="sm_90", compiler=compiler)
    logs = ["written", "counted"] if kernel is in_uneven_loops else ["written"]
    names = {"written": ["log", "begins"][: len(logs)], "counted": ["counts"]}
    for log in logs:
        made = Compilation(kernel.func, types, replace(variant, log=log)).build("k")
        assert [p.name for p in made.manifest.params if p.role == "log"] == names[log]
    adjoint = Compilation(kernel.func, types, replace(variant, active=frozenset({0, 2}))).build("k")
    assert [p.name for p in adjoint.manifest.params if p.role == "log"] == names["written"]
