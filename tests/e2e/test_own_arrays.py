"""Arrays of a thread: what kernels may do with them beyond the corpus of gradients, and what is refused."""

import numpy as np
import pytest

import diffkern as dk
from diffkern.compiler.compilation import Compilation
from diffkern.contracts.options import Variant

F1 = dk.array(dtype=float)
F2 = dk.array(dtype=float, ndim=2)
N = dk.constant(4)


@dk.func
def largest(a: F1):
    best = a[0]
    for k in range(1, len(a)):
        best = dk.max(best, a[k])
    return best


@dk.func
def counts(n: int):
    made = dk.zeros(shape=(N, 2), dtype=int)
    for k in range(n):
        made[k % N, k % 2] += k
    return made


@dk.kernel
def mixed(x: F2, y: F1):
    i = dk.tid()
    a = dk.empty(N, dtype=float)
    for k in range(N):
        a[k] = x[i, k]
    table = counts(i + 3)
    flags = dk.zeros(N, dtype=dk.bool)
    flags[i % N] = True
    inside = a[1:3]
    inside[0] = 10.0
    total = 0
    for row in range(table.shape[0]):
        total += table[row, 0] + table[row, 1]
        if flags[row]:
            total += 100
    y[i] = largest(a) + float(total) + float(a.size + table.ndim)


def test_elements_of_every_kind_views_and_funcs() -> None:
    x = np.random.default_rng(0).uniform(0, 1, (5, 4)).astype(np.float32)
    y = dk.zeros(5)
    dk.launch(mixed, 5, [x, y])
    expected = [10.0 + sum(range(i + 3)) + 100 + 6 for i in range(5)]
    np.testing.assert_array_equal(y.numpy(), np.float32(expected))


def test_threads_are_not_blocks() -> None:
    """A kernel with arrays of threads is launched over threads, and each begins with its own elements."""

    @dk.kernel
    def fill(y: F1):
        a = dk.zeros(2, dtype=float)
        i = dk.tid()
        if i % 2 == 0:
            a[0] = 1.0
        y[i] = a[0]

    y = dk.zeros(1000)
    dk.launch(fill, 1000, [y])
    assert y.numpy().sum() == 500.0
    manifest = Compilation(fill.func, fill.argument_types(), Variant(target="sm_90")).build("fill").manifest
    assert not manifest.tiled
    assert manifest.gpu is not None
    assert manifest.gpu.shared_bytes == 0


def test_beside_tiles() -> None:
    @dk.kernel
    def beside(x: F2, y: F2, z: F1):
        i = dk.tid()
        t = dk.tile_load(x[i], shape=4)
        a = dk.zeros(3, dtype=float)
        for k in range(3):
            a[k] = z[k] * z[k]
        dk.tile_store(y[i], t * (a[0] + a[1] * a[2]))

    x, z = np.ones((2, 4), np.float32), np.float32([1, 2, 3])
    held, out = dk.array(z, requires_grad=True), dk.zeros((2, 4), requires_grad=True)
    with dk.Tape() as tape:
        dk.launch_tiled(beside, [2], [x, out, held], block_dim=32)
    np.testing.assert_array_equal(out.numpy(), 37.0)
    tape.backward(grads={out: np.ones((2, 4), np.float32)})
    np.testing.assert_array_equal(held.grad.numpy(), 8 * np.float32([2, 4 * 9, 6 * 4]))
    source = beside.source(target="cuda")
    assert "cuda.local.array(3, " in source
    assert "cuda.shared.array" in beside.adjoint_source(target="cuda") or "cuda.shared.array" in source


def test_a_large_array_compiles_as_a_loop() -> None:
    @dk.kernel
    def large(x: F1, y: F1):
        i = dk.tid()
        a = dk.zeros(4096, dtype=float)
        for k in range(4096):
            a[k] = x[i] * float(k % 7)
        for k in range(1, 4096):
            a[k] += 0.5 * a[k - 1]
        y[i] = a[4095]

    x, y = dk.full(2, 1.5, requires_grad=True), dk.zeros(2, requires_grad=True)
    with dk.Tape() as tape:
        dk.launch(large, 2, [x, y])
    tape.backward(grads={y: np.ones(2, np.float32)})
    np.testing.assert_allclose(x.grad.numpy() * 1.5, y.numpy(), rtol=1e-6)
    assert len(large.adjoint_source().splitlines()) < 100


def _refused(kernel: dk.Kernel, message: str, *arguments: object) -> None:
    with pytest.raises(dk.KernelError, match=message):
        dk.launch(kernel, 2, list(arguments) or [dk.zeros(2)])


def test_what_is_refused() -> None:
    @dk.func
    def change(a: F1):
        a[0] = 2.0
        return a[0]

    @dk.kernel
    def by_length(y: F1):
        a = dk.zeros(y.shape[0], dtype=float)
        y[0] = a[0]

    @dk.kernel
    def conditional(y: F1):
        a = dk.zeros(2, dtype=float)
        while change(a) > 1.0:
            y[dk.tid()] = 0.0

    @dk.kernel
    def beyond(y: F1):
        a = dk.zeros((1000, 1000), dtype=float)
        y[dk.tid()] = a[1, 2]

    @dk.kernel
    def waiting(y: F1):
        a = dk.zeros(100, dtype=float)
        a[1] = y[dk.tid()]
        dk.syncthreads()
        y[dk.tid()] = a[1]

    @dk.kernel
    def either(y: F1):
        if y[dk.tid()] > 0.0:
            a = dk.zeros(2, dtype=float)
        else:
            a = dk.zeros(2, dtype=float)
        y[dk.tid()] = a[0]

    _refused(by_length, "known when the kernel is compiled")
    _refused(conditional, "changed where it depends on a condition")
    _refused(beyond, "takes 4000000 bytes")
    _refused(waiting, "an array of 100 numbers; 64 are the most")
    _refused(either, "different arrays on different paths")


def test_an_index_outside_is_reported_in_debug_mode() -> None:
    @dk.kernel(mode="debug")
    def beyond(y: F1, k: int):
        i = dk.tid()
        window = dk.zeros((2, 3), dtype=float)
        window[1, k + i] = 1.0
        y[i] = window[1, 2]

    y = dk.zeros(2, dtype=float)
    dk.launch(beyond, 2, [y, 0])
    with pytest.raises(dk.KernelRuntimeError) as caught:
        dk.launch(beyond, 2, [y, 2])
    text = str(caught.value)
    assert "an index is out of bounds for axis 1 of array 'window' with shape (2, 3)" in text
    assert "thread 1" in text
    assert "beyond" in text
    assert f"{__file__.rpartition('/')[2]}:" in text
