"""How many threads a block has: what the launch says, else the kernel's option, else 256."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import require

import diffkern as dk

G = "cuda:0"
N = 192


def body(x: dk.array(dtype=float), y: dk.array(dtype=float)):
    i = dk.tid()
    y[i] = x[i] * x[i]


@dk.kernel(block_dim=32)
def turned(x: dk.array(dtype=float), y: dk.array(dtype=float)):
    i = dk.tid()
    shared = dk.shared_array(64, float)
    k, n = dk.thread_index(), dk.block_dim()
    shared[k] = x[i]
    dk.syncthreads()
    y[i] = shared[n - 1 - k]


@dk.kernel(block_dim=64)
def doubled(x: dk.array(dtype=float, ndim=2), y: dk.array(dtype=float, ndim=2)):
    i, j = dk.tid()
    t = dk.tile_load(x, shape=(4, 4), offset=(4 * i, 4 * j))
    dk.tile_store(y, 2.0 * t, offset=(4 * i, 4 * j))


def threads(driver):
    dk.synchronize()
    return [launched.threads for launched in driver.launches]


@pytest.mark.parametrize(
    ("options", "expected"),
    [({}, 256), ({"block_dim": 64}, 64), ({"launch_bounds": 128}, 128), ({"launch_bounds": (512, 2)}, 256),
     ({"launch_bounds": (1024, 1), "block_dim": 512}, 512)],
)  # fmt: skip
def test_every_kind_of_launch_takes_the_kernels_own(driver, options, expected):
    kernel = dk.kernel(body, **options) if not options else dk.kernel(**options)(body)
    assert kernel.block_dim == expected
    x, y = dk.ones(N, device=G, requires_grad=True), dk.zeros(N, device=G, requires_grad=True)
    kernel[N](x, y)
    dk.launch(kernel, N, inputs=[x, y], max_blocks=3)
    record = dk.launch(kernel, N, inputs=[x, y], record_cmd=True)
    record.launch()
    record.set_dim(N // 2)
    record.launch()
    record.adjoint().launch()
    with dk.Tape() as tape:
        dk.launch(kernel, N, inputs=[x, y])
    tape.backward(grads={y: dk.ones(N, device=G)})
    with dk.record(run=False) as sequence:
        dk.launch(kernel, N, inputs=[x, y])
    sequence.capture().launch()
    assert set(threads(driver)) == {expected}
    dk.launch(kernel, N, inputs=[x, y], block_dim=96)
    dk.launch(kernel, N, inputs=[x, y], adj_inputs=[x.grad, y.grad], adjoint=True, block_dim=96)
    assert threads(driver)[-2:] == [96, 96]


def test_more_threads_than_allowed_are_refused(driver):
    kernel = dk.kernel(launch_bounds=128)(body)
    x, y = dk.ones(N, device=G), dk.zeros(N, device=G)
    with pytest.raises(dk.LaunchError, match="from 1 to 128 here, not 256"):
        dk.launch(kernel, N, inputs=[x, y], block_dim=256)
    assert driver.launches == []


@pytest.mark.parametrize("device", ["cpu", G])
def test_threads_that_work_together(driver, device):
    x, y = dk.array(np.arange(N), dtype=float, device=device), dk.zeros(N, device=device)
    wanted = np.arange(N).reshape(-1, 32)[:, ::-1].ravel()
    turned[N](x, y)
    np.testing.assert_array_equal(y.numpy(), wanted)
    dk.launch(turned, N, inputs=[x, y], max_blocks=2)
    np.testing.assert_array_equal(y.numpy(), wanted)
    dk.launch(turned, N, inputs=[x, y], block_dim=64)
    np.testing.assert_array_equal(y.numpy(), np.arange(N).reshape(-1, 64)[:, ::-1].ravel())


def test_kernels_of_tiles(driver):
    x, y = dk.ones((8, 8), device=G), dk.zeros((8, 8), device=G)
    dk.launch_tiled(doubled, (2, 2), inputs=[x, y])
    dk.launch_tiled(doubled, (2, 2), inputs=[x, y], block_dim=32)
    assert (y.numpy() == 2.0).all()
    assert threads(driver) == [64, 32]


def test_options_reach_the_code():
    require("cuda.bindings.nvjitlink")
    bounded = dk.kernel(launch_bounds=(128, 3))(body)
    for adjoint in (False, True):
        made = dk.compile(bounded, target="sm_90", adjoint=adjoint)
        assert ".maxntid 128" in made.ptx
        assert ".minnctapersm 3" in made.ptx
    assert ".maxntid" not in dk.compile(dk.kernel(block_dim=128)(body), target="sm_90").ptx


@pytest.mark.parametrize(
    ("options", "message"),
    [({"block_dim": 0}, "from 1 to 1024, not 0"), ({"block_dim": 2048}, "from 1 to 1024, not 2048"),
     ({"block_dim": 64.0}, "not 64.0"), ({"launch_bounds": (64,)}, "launch_bounds is"),
     ({"launch_bounds": True}, "launch_bounds is"), ({"launch_bounds": (64, -1)}, "launch_bounds is"),
     ({"launch_bounds": 64, "block_dim": 128}, "from 1 to 64, not 128")],
)  # fmt: skip
def test_options_are_checked(options, message):
    with pytest.raises(ValueError, match=message):
        dk.kernel(**options)(body)
