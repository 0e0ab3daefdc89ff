"""Kernels whose threads work together on a tape, in debug mode and in many chunks; and what has no gradient."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from block_corpus import BLOCKS
from block_gradients import GRADIENTS

import diffkern as dk
from diffkern.compiler import pipeline
from diffkern.contracts.options import Variant
from diffkern.opt.widen import widen
from diffkern.testing import gradcheck
from diffkern.testing.gradcheck import Vjp

f1, f2 = dk.array(dtype=float), dk.array(dtype=float, ndim=2)


@pytest.mark.parametrize("mode", ["release", "debug"])
def test_many_blocks_on_a_tape(mode: str) -> None:
    """Neighbouring blocks add to one element; blocks run in chunks on several processors."""
    kernel = dk.kernel(GRADIENTS["stencil_with_halo"].function, mode=mode)
    n = 64 * 4096
    x = dk.array(np.random.default_rng(0).uniform(0.5, 1.5, n + 2).astype(np.float32), requires_grad=True)
    y = dk.zeros(n, dtype=float, requires_grad=True)
    with dk.Tape() as tape:
        dk.launch(kernel, dim=n, inputs=[x, y], block_dim=64)
    tape.backward(grads={y: dk.ones_like(y)})
    a = x.numpy().astype(np.float64)
    expected = np.zeros(n + 2)
    expected[:-2] += a[1:-1]
    expected[1:-1] += a[:-2] - 0.5 * a[2:]
    expected[2:] -= 0.5 * a[1:-1]
    np.testing.assert_allclose(x.grad.numpy(), expected, rtol=1e-5, atol=1e-5)


def test_a_number_by_value_and_a_record() -> None:
    kernel = GRADIENTS["vectors"].kernel
    x = dk.array(np.random.default_rng(0).uniform(0.5, 1.5, (6400, 3)), dtype=dk.vec3, requires_grad=True)
    y = dk.zeros(6400, dtype=dk.vec3, requires_grad=True)
    scale = dk.zeros(1, dtype=float)
    y.grad.fill_(1.0)
    dk.launch(kernel, dim=6400, inputs=[x, y, 0.7], block_dim=32)
    record = dk.launch(
        kernel,
        dim=6400,
        inputs=[x, y, 0.7],
        adjoint=True,
        adj_inputs=[None, None, scale],
        block_dim=32,
        record_cmd=True,
    )
    record.launch()

    def total(s: float) -> float:
        z = dk.zeros(6400, dtype=dk.vec3)
        dk.launch(kernel, dim=6400, inputs=[x, z, s], block_dim=32)
        return float(z.numpy().astype(np.float64).sum())

    assert float(scale.numpy()[0]) == pytest.approx((total(0.8) - total(0.6)) / 0.2, rel=1e-3)


def test_gradients_that_are_not_wanted_cost_nothing() -> None:
    """With only one factor active the other one has no shared cotangents."""
    kernel = GRADIENTS["product_of_tiles"].kernel
    fn = widen(pipeline.lower_kernel(kernel.func, kernel.argument_types()))
    vjp = Vjp(fn, lambda fn: None, active=frozenset({1, 2}))  # type: ignore[arg-type,return-value]
    names = {op.result.name for op in vjp.adjoint.fn.body.ops if op.name == "shared_new"}
    assert names == {"left", "ct_right"}


def test_gradcheck_takes_the_size_of_a_block() -> None:
    case = BLOCKS["reversed_in_blocks"]
    report = gradcheck(case.kernel, 12, case.arguments(), block_dim=3)
    assert report.checked == 24
    with pytest.raises(ValueError, match="blocks of 256"):
        gradcheck(case.kernel, 12, case.arguments())


# -- refused -----------------------------------------------------------------------------------------------------------


def refused(function: Any, message: str, line: str, target: str = "native") -> None:
    kernel = dk.kernel(function)
    fn = pipeline.prepare(pipeline.lower_kernel(kernel.func, kernel.argument_types()))
    with pytest.raises(dk.AutodiffError, match=message) as caught:
        pipeline.differentiate(fn, range(len(fn.params)), Variant(target=target))
    assert line in str(caught.value)
    assert "help:" in str(caught.value)


def test_a_loop_of_a_thread_that_overwrites_what_it_read() -> None:
    def overwriting(x: f1, y: f1):
        i, t = dk.tid(), dk.thread_index()
        s = dk.shared_array(64, float)
        s[t] = x[i]
        for k in range(dk.block_dim()):
            s[t] = s[t] * s[t] * float(k)
        y[i] = s[t]

    refused(overwriting, "this value of the shared array s, which the thread overwrites .line", "s[t] = s[t] * s[t]")


def test_the_old_value_of_an_atomic() -> None:
    def numbered(x: f1, y: f1):
        t = dk.thread_index()
        count = dk.shared_array(1, int)
        s = dk.shared_array(64, float)
        if t == 0:
            count[0] = 0
        dk.syncthreads()
        place = dk.atomic_add(count, 0, 1)
        s[place] = x[dk.tid()]
        dk.syncthreads()
        y[dk.tid()] = s[t] * s[t]

    refused(numbered, "the value that atomic_add returned", "dk.atomic_add(count, 0, 1)")


def test_extrema_by_atomics() -> None:
    def largest(x: f1, y: f1):
        t = dk.thread_index()
        s = dk.shared_array(1, float)
        if t == 0:
            s[0] = 0.0
        dk.syncthreads()
        dk.atomic_max(s, 0, x[dk.tid()])
        dk.syncthreads()
        y[dk.tid()] = s[0]

    refused(largest, "atomic_max on a shared array has no derivative", "dk.atomic_max(s, 0, x[dk.tid()])")


def test_a_store_of_all_threads_to_one_element() -> None:
    def everybody(x: f1, y: f1):
        t = dk.thread_index()
        s = dk.shared_array(64, float)
        s[t] = x[dk.tid()]
        dk.syncthreads()
        y[dk.block_index()] = s[0]

    refused(everybody, "all threads of a block store to the same element of y", "y[dk.block_index()] = s[0]")

    def shared(x: f1, y: f1):
        s = dk.shared_array(1, float)
        s[0] = x[0]
        dk.syncthreads()
        y[dk.tid()] = s[0]

    refused(shared, "all threads of a block store to the same element of s", "s[0] = x[0]")


def test_global_memory_as_a_way_between_threads() -> None:
    def through_memory(x: f1, y: f1, z: f1):
        i, t, n = dk.tid(), dk.thread_index(), dk.block_dim()
        y[i] = x[i]
        dk.syncthreads()
        z[i] = y[dk.block_index() * n + (t + 1) % n]

    refused(through_memory, "this reads y, which another thread of the same launch may write", "z[i] = y[")

    def without_index(x: f1, y: f1, z: f1):
        """A kernel that never asks for its index in the launch still has many threads."""
        i = dk.block_index() * dk.block_dim() + dk.thread_index()
        y[i] = x[i]
        dk.syncthreads()
        z[i] = y[i + 1]

    refused(without_index, "this reads y, which another thread of the same launch may write", "z[i] = y[i + 1]")


def test_more_shared_memory_than_a_gpu_has() -> None:
    def large(x: f1, y: f1, n: int):
        i, t = dk.tid(), dk.thread_index()
        s = dk.shared_array(4000, float)
        s[t] = x[i]
        dk.syncthreads()
        for _k in range(n):
            v = dk.sin(s[t + 1])
            dk.syncthreads()
            s[t] = v
            dk.syncthreads()
        y[i] = s[t]

    refused(large, "the adjoint of kernel .*large needs 80000 bytes of shared memory", "def large", target="sm_90")
