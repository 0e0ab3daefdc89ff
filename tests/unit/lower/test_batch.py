"""Kernels with an axis of examples, against a launch for each example: values, gradients, changes along tangents."""

from __future__ import annotations

import os
from dataclasses import replace

import numpy as np
import pytest
from support.lanes import VARIABLE

import diffkern as dk
from diffkern.compiler.specialize import Specialization, load_entry
from diffkern.kernels.derived_kernel import batched_launch
from diffkern.runtime.arrays.type_keys import register_type

B = 3
RNG = np.random.default_rng(11)
Floats = dk.array(dtype=dk.float64)
Table = dk.array(dtype=dk.float64, ndim=2)


def rand(*shape):
    return RNG.uniform(0.5, 1.5, shape)


@dk.kernel
def stencil(x: Floats, a: dk.float64, out: Floats):
    i = dk.tid()
    n = x.shape[0]
    out[i] += dk.sin(a * x[i]) * x[(i + 1) % n] + x[-1] * float(n)


@dk.kernel
def recurrence(x: Floats, scale: dk.float64, out: Floats):
    """One thread."""
    s = scale
    for j in range(x.shape[0]):
        s = s * x[j] + dk.cos(s)
        out[j] = s
    out[0] += s


@dk.kernel
def without_index(count: dk.array(dtype=int), total: Floats, v: dk.vec3d):
    dk.atomic_add(count, 0, 1)
    dk.atomic_add(total, 0, v[0] * v[1])


@dk.kernel
def grid(x: Table, y: Floats, out: Table):
    i, j = dk.tid()
    acc = dk.float64(0.0)
    for k in range(j + 1):
        acc += x[i, k] * y[k]
    out[i, j] = acc


@dk.kernel
def four_axes(x: Floats, out: dk.array(dtype=dk.float64, ndim=3)):
    i, j, k, m = dk.tid()
    if m == 1:
        out[i, j, k] = x[i] * dk.float64(1 + j) - x[k] * x[m] + dk.float64(out.shape[0])


@dk.kernel
def counted(x: Floats, limit: dk.float64, slots: dk.array(dtype=int), found: Floats):
    i = dk.tid()
    if x[i] > limit:
        k = dk.atomic_add(slots, 0, 1)
        dk.atomic_max(found, 0, x[i] + dk.float64(k) * 0.0)


@dk.kernel
def drawn(seed: int, out: Floats):
    i = dk.tid()
    state = dk.rand_init(seed, i)
    out[i] = dk.float64(dk.randf(state))


@dk.kernel
def in_place(x: Floats, a: dk.float64):
    """What is overwritten is read again."""
    i = dk.tid()
    for _ in range(3):
        x[i] = dk.sin(x[i]) * a


@dk.kernel(block_dim=4)
def in_blocks(x: Floats, rounds: int, out: Floats):
    i = dk.tid()
    held = dk.shared_array(shape=4, dtype=dk.float64)
    t = dk.thread_index()
    held[t] = x[i]
    for _ in range(rounds):
        dk.syncthreads()
        v = held[3 - t] + dk.float64(dk.block_index())
        dk.syncthreads()
        held[t] = v * v * 0.25
    out[i] = held[t] * x[i]


@dk.kernel(block_dim=4)
def of_blocks(out: Floats):
    out[dk.block_index() * dk.block_dim() + dk.thread_index()] = dk.float64(dk.block_index()) + 0.5


@dk.kernel
def of_tiles(x: Table, w: Table, out: Table, at: dk.array(dtype=int), total: Table):
    i = dk.tid()
    t = dk.tile_load(x, shape=(2, 4), offset=(2 * i, 0))
    m = dk.tile_load(w, shape=(4, 4))
    found = dk.tile_matmul(t, m)
    dk.tile_store(out, found, offset=(2 * at[i], 0))
    dk.tile_atomic_add(total, found * found, offset=(0, 0))


@dk.kernel(block_dim=4)
def of_many(x: Floats, s: dk.float64, out: Floats, total: Floats):
    i = dk.tid()
    t = dk.tile(x[i] * s)
    out[i] = dk.untile(dk.tile_map(dk.sin, t))
    dk.tile_atomic_add(total, dk.tile_sum(t))


INTS = np.zeros(1, np.int32)
CASES = {
    # kernel, arguments of one example, dims, which arguments differ besides what is written
    "stencil": (stencil, lambda: [rand(6), 0.7, rand(6)], (6,), (0, 1)),
    "alike": (stencil, lambda: [rand(6), 0.7, rand(6)], (6,), (1,)),
    "one thread": (recurrence, lambda: [rand(5), 0.9, np.zeros(5)], (1,), (0, 1)),
    "no index": (without_index, lambda: [INTS, np.zeros(1), rand(3)], (2, 3), (2,)),
    "two axes": (grid, lambda: [rand(3, 4), rand(4), np.zeros((3, 4))], (3, 4), (0,)),
    "four axes": (four_axes, lambda: [rand(3), np.zeros((2, 3, 3))], (2, 3, 3, 2), (0,)),
    "counters": (counted, lambda: [rand(9), 1.0, INTS, np.zeros(1)], (9,), (1,)),
    "random": (drawn, lambda: [int(RNG.integers(99)), np.zeros(8)], (8,), (0,)),
    "in place": (in_place, lambda: [rand(5), 0.8], (5,), ()),
    "blocks": (in_blocks, lambda: [rand(8), int(RNG.integers(1, 4)), np.zeros(8)], (8,), (0, 1)),
    "blocks without index": (of_blocks, lambda: [np.zeros(8)], (8,), ()),
    "tiles of threads": (of_many, lambda: [rand(8), 0.3, np.zeros(8), np.zeros(1)], (8,), (0, 1)),
    "tiles": (
        of_tiles,
        lambda: [rand(4, 4), rand(4, 4), np.zeros((4, 4)), np.array([1, 0], np.int32), np.zeros((2, 4))],
        (2,),
        (0, 3),
    ),
}


def examples(name):
    """Return the kernel, its launch for a batch, the arguments of all examples, and which of them differ."""
    kernel, make, dims, given = CASES[name]
    every = [make() for _ in range(B)]
    keys = tuple(_key(p, a) for p, a in zip(kernel.parameters, every[0], strict=True))
    manifest = kernel.forward(keys).manifest
    differ = sorted({*given, *manifest.writes})
    for one in every:
        for k, a in enumerate(every[0]):
            if k not in differ:
                one[k] = a
    return kernel, batched_launch(kernel, keys, manifest, dims, B, differ), every, differ


def _key(parameter, value):
    a = np.asarray(value)
    return parameter.convert_leaves(a if parameter.is_array else value)[0]


def stacked(every, differ):
    return [_stack([one[k] for one in every]) if k in differ else a for k, a in enumerate(every[0])]


def _stack(values):
    found = np.stack(values)
    return found.astype(np.int32) if found.dtype == np.int64 else found


def launched(kernel, dims, given):
    """Launch on copies; return the arrays afterwards."""
    held = [a.copy() if isinstance(a, np.ndarray) else a for a in given]
    kernel[dims](*held)  # threads, or blocks of tiles
    return held


@pytest.mark.parametrize("name", CASES)
def test_a_batch_is_what_its_examples_are(name):
    kernel, launch, every, differ = examples(name)
    single = [launched(kernel, CASES[name][2], one) for one in every]
    found = launched(launch.kernel, launch.dims, stacked(every, differ))
    # Blocks add to one element in the order in which they come; lanes first add what one example has in a register.
    in_any_order = name == "tiles of threads" or (name == "no index" and os.environ.get(VARIABLE) == "on")
    for k in differ:
        for b in range(B):
            if in_any_order:
                np.testing.assert_array_max_ulp(found[k][b], single[b][k], maxulp=4)
            else:
                np.testing.assert_array_equal(found[k][b], single[b][k])


def gradients(kernel, dims, given, values):
    arrays = [dk.array(a, requires_grad=a.dtype == np.float64) if isinstance(a, np.ndarray) else a for a in given]
    with dk.Tape() as tape:
        kernel[dims](*arrays)
    tape.backward(grads={a: dk.array(values[k]) for k, a in enumerate(arrays) if k in values})
    return {k: a.grad.numpy() for k, a in enumerate(arrays) if isinstance(a, dk.array) and a.requires_grad}


SMOOTH = ("stencil", "one thread", "two axes", "four axes", "in place", "blocks", "tiles")


@pytest.mark.parametrize("name", SMOOTH)
def test_gradients(name):
    kernel, launch, every, differ = examples(name)
    manifest = launch.kernel.forward(launch.keys).manifest
    given = stacked(every, differ)
    values = {k: rand(*given[k].shape) for k in manifest.writes if given[k].dtype == np.float64}
    found = gradients(launch.kernel, launch.dims, given, values)
    single = [
        gradients(kernel, CASES[name][2], one, {k: v[b] for k, v in values.items()}) for b, one in enumerate(every)
    ]
    for k in set(found).intersection(single[0]):
        expected = np.stack([one[k] for one in single])
        np.testing.assert_allclose(found[k], expected if k in differ else expected.sum(0), rtol=1e-12, atol=1e-12)


def test_batches_of_batches():
    keys = tuple(map(register_type, stencil.argument_types()))
    inner = batched_launch(stencil, keys, stencil.forward(keys).manifest, (6,), 2, (0, 2))
    manifest = inner.kernel.forward(inner.keys).manifest
    outer = batched_launch(inner.kernel, inner.keys, manifest, inner.dims, B, (1, 2))
    assert outer.dims == (B, 2, 6)
    x, a, start = rand(2, 6), rand(B), rand(B, 2, 6)
    *_, found = launched(outer.kernel, outer.dims, [x, a, start])
    for b in range(B):
        for i in range(2):
            np.testing.assert_array_equal(found[b, i], launched(stencil, 6, [x[i], a[b], start[b, i]])[2])


@pytest.mark.parametrize("name", ["one thread", "four axes", "blocks", "tiles"])
def test_it_compiles_for_gpus(name):
    _, launch, _, _ = examples(name)
    types = launch.kernel._checked_types(launch.keys)
    entry = load_entry(Specialization(launch.kernel.func, types, launch.kernel.variant).for_arrays_apart(), "sm_90")
    assert entry.manifest.tid_arity == len(launch.dims)


def test_what_has_no_such_form():
    keys = tuple(map(register_type, stencil.argument_types()))
    manifest = stencil.forward(keys).manifest
    assert batched_launch(stencil, keys, manifest, (6,), B, (0,)) is None  # what is written is the same for all
    assert batched_launch(stencil, keys, manifest, (6,), 0, (0, 2)) is None
    cubes = replace(manifest, blockwise=True, tid_arity=3)
    assert batched_launch(stencil, keys, cubes, (6, 1, 1), B, (0, 2)) is None  # blocks have three axes
    checked = dk.kernel(mode="debug")(stencil.func)
    assert batched_launch(checked, keys, manifest, (6,), B, (0, 2)) is None  # its errors name the thread
