"""Structs, hash grids, random numbers, texts, narrow atomics, graphs, second order and numba's spelling on a GPU."""

from __future__ import annotations

import numpy as np
import pytest
from device_kinds import KINDS, TOLD, agree, tell

import diffkern as dk
from diffkern import cuda

pytestmark = pytest.mark.gpu

G = "cuda:0"


@pytest.mark.parametrize("block", [3, 256])
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_results_are_those_of_the_cpu(kind, block):
    agree(kind(G, block), kind("cpu", block))


def test_texts(capsys):
    if dk.config.cuda_compiler == "numba" and dk.get_device(G).target != "native":
        with pytest.raises(dk.CompileError, match="has no form for what"):
            tell(G, 32)
        return
    tell(G, 32)
    assert capsys.readouterr().out.splitlines() == TOLD


@cuda.jit
def turned(x, out):
    held = cuda.shared.array((4, 8), np.float64)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    x0, y0 = cuda.blockIdx.x * cuda.blockDim.x, cuda.blockIdx.y * cuda.blockDim.y
    held[ty, tx] = x[y0 + ty, x0 + tx]
    cuda.syncthreads()
    out[y0 + ty, x0 + tx] = held[3 - ty, 7 - tx]


def test_a_program_in_the_spelling_of_numba_and_its_gradient():
    held = np.random.default_rng(1).random((8, 24))
    x, out = cuda.to_device(held), cuda.device_array((8, 24))
    x.requires_grad = out.requires_grad = True
    with dk.Tape() as tape:
        turned[(3, 2), (8, 4)](x, out)
    tape.backward(grads={out: held})
    expected = held.reshape(2, 4, 3, 8)[:, ::-1, :, ::-1].reshape(8, 24)
    np.testing.assert_array_equal(out.copy_to_host(), expected)
    np.testing.assert_allclose(x.grad.numpy(), expected)
