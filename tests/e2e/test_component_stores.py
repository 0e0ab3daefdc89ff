"""Threads that share a vector but no component of it: each writes its own component, in the forward and the adjoint."""

import re

import numpy as np
import pytest
from support.ptx.programs import PtxProgram

import diffkern as dk
from diffkern.compiler.compilation import Compilation
from diffkern.contracts.options import Variant
from diffkern.ir.builder import Builder
from diffkern.ir.nodes import Function, Region, Value, walk
from diffkern.ir.types import FLOAT32, Array, Vec
from diffkern.lower.component_stores import store_components

VEC3 = Vec(FLOAT32, 3)
N = 96  # three warps, which share no vector; the threads of a warp do


@dk.kernel
def known(x: dk.array(dtype=float), v: dk.array(dtype=dk.vec3)):
    i = dk.tid()
    if i % 3 == 0:
        v[i // 3][0] = 2.0 * x[i]
    elif i % 3 == 1:
        v[i // 3][1] = 2.0 * x[i]
    else:
        v[i // 3].z = 2.0 * x[i]


@dk.kernel
def found(x: dk.array(dtype=float), v: dk.array(dtype=dk.vec3)):
    i = dk.tid()
    v[i // 3][i % 3] = 2.0 * x[i]


@dk.kernel
def from_the_end(x: dk.array(dtype=float), v: dk.array(dtype=dk.vec3)):
    i = dk.tid()
    v[i // 3][i % 3 - 3] = 2.0 * x[i]


@dk.kernel
def entries(x: dk.array(dtype=float), m: dk.array(dtype=dk.mat22)):
    i = dk.tid()
    m[i // 4][i // 2 % 2, i % 2] = 2.0 * x[i]


KERNELS = (known, found, from_the_end, entries)


def numbers() -> np.ndarray:
    return np.random.default_rng(5).uniform(1.0, 2.0, N).astype(np.float32)


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: k.name)
def test_threads_of_a_warp_in_executed_ptx(kernel):
    """They load before any of them stores, so a store of the whole vector would undo what others have written."""
    x, v = numbers(), np.zeros(N, np.float32)
    fn = Compilation(kernel.func, kernel.argument_types(), Variant(target="sm_90", block_dim=32)).forward
    shape = (N // 4, 2, 2) if kernel is entries else (N // 3, 3)
    v = v.reshape(shape)
    PtxProgram(fn, block_dim=32).run((N,), [x, v])
    np.testing.assert_array_equal(v.reshape(-1), 2.0 * x)


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: k.name)
def test_on_a_processor_with_its_gradient(kernel):
    x = dk.array(numbers(), requires_grad=True)
    v = (
        dk.zeros(N // 4, dtype=dk.mat22, requires_grad=True)
        if kernel is entries
        else dk.zeros(N // 3, dtype=dk.vec3, requires_grad=True)
    )
    with dk.Tape() as tape:
        dk.launch(kernel, dim=N, inputs=[x], outputs=[v])
    np.testing.assert_array_equal(v.numpy().reshape(-1), 2.0 * x.numpy())
    seed = np.random.default_rng(6).uniform(1.0, 2.0, v.numpy().shape).astype(np.float32)
    tape.backward(grads={v: dk.array(seed, dtype=v.dtype)})
    np.testing.assert_array_equal(x.grad.numpy(), 2.0 * seed.reshape(-1))


def only(kernel: dk.Kernel) -> list[tuple[int, ...] | None]:
    fn = store_components(Compilation(kernel.func, kernel.argument_types(), Variant()).forward)
    return [op.attrs.get("only") for op in walk(fn.body) if op.name == "store"]


@dk.kernel
def whole(x: dk.array(dtype=float), v: dk.array(dtype=dk.vec3), w: dk.array(dtype=dk.vec3)):
    i = dk.tid()
    v[i] = dk.vec3(x[i], x[i], x[i])
    u = w[i]
    w[i] = dk.vec3(u.x, 2.0 * u.y, x[i])


@dk.kernel
def other_place(v: dk.array(dtype=dk.vec3), w: dk.array(dtype=dk.vec3)):
    i = dk.tid()
    u = v[i]
    u.x = 1.0
    w[i] = u


def test_stores_that_are_marked():
    assert sorted(only(known)) == [(0,), (1,), (2,)]
    assert only(found) == only(from_the_end) == [(0,), (1,), (2,)]
    assert only(entries) == [(k,) for k in range(4)]
    assert only(whole) == [None, None]
    assert only(other_place) == [None]


def test_an_adjoint_sets_cotangents_of_components_to_zero():
    variant = Variant(active=frozenset({0, 1}))
    adjoint = Compilation(found.func, found.argument_types(), variant).adjoint.fn
    stores = [op for op in walk(store_components(adjoint).body) if op.name == "store"]
    assert [op.attrs.get("only") for op in stores] == [(0,), (1,), (2,)]


def test_zeros_that_are_read_in_between_stay():
    """A store of zeros and the sum behind it are one store only if nothing between them has to do with the array."""
    b, body = Builder(), Region()
    array = Value(Array(VEC3, 1), "ct")
    other = Value(Array(VEC3, 1), "other")
    with b.into(body):
        i = b.one("tid", axis=0)
        old = b.one("load", array, i, wrap=(False,))
        zero = b.const(0.0, FLOAT32)
        b.op("store", array, i, b.one("construct", zero, zero, zero, type=VEC3), wrap=(False,))
        b.op("store", other, i, b.one("load", array, i, wrap=(False,)), wrap=(False,))
        b.op("accumulate", array, i, b.one("insert", old, zero, index=1), wrap=(False,), mode="plain")
    fn = store_components(Function("f", (array, other), body))
    assert [op.name for op in walk(fn.body) if op.name in ("store", "accumulate")] == ["store", "store", "accumulate"]


def test_the_printed_source_for_a_gpu_writes_one_component():
    text = known.source(target="cuda")
    assert re.findall(r"v\[at\(\w+\), (\d)\] = ", text) == ["0", "1", "2"]
