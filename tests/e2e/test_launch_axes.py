"""A launch has as many axes as the kernel asks ``tid()`` for, however it is launched."""

import pytest
from conftest import require

import diffkern as dk
from diffkern.testing import gradcheck


@dk.kernel
def line(x: dk.array(dtype=float), y: dk.array(dtype=float)):
    i = dk.tid()
    y[i] = 2.0 * x[i]


@dk.kernel
def sheet(y: dk.array(dtype=float, ndim=2)):
    i, j = dk.tid()
    y[i, j] = 1.0


@dk.kernel
def nobody_asks(count: dk.array(dtype=int)):
    dk.atomic_add(count, 0, 1)


@dk.kernel
def blocks_of_rows(x: dk.array(dtype=float, ndim=2), y: dk.array(dtype=float)):
    i = dk.tid()
    row = dk.tile_load(x, shape=(1, 8), offset=(i, 0))
    dk.tile_store(y, dk.tile_sum(row), offset=i)


TWO = r"dim=\(8, 125\) is a grid of 2 axes, and the kernel asks tid\(\) for 1 axis"


def pair():
    return dk.ones(1000, requires_grad=True), dk.zeros(1000, requires_grad=True)


def launches():
    def brackets(x, y):
        line[8, 125](x, y)

    def plain(x, y):
        dk.launch(line, (8, 125), [x], [y])

    def record(x, y):
        dk.launch(line, [8, 125], [x], [y], record_cmd=True)

    def adjoint(x, y):
        dk.launch(line, (8, 125), [x], [y], adjoint=True)

    def adjoint_record(x, y):
        dk.launch(line, (8, 125), [x], [y], adjoint=True, record_cmd=True)

    def other_dim(x, y):
        dk.launch(line, 1000, [x], [y], record_cmd=True).set_dim((8, 125))

    def tape(x, y):
        with dk.Tape():
            line[8, 125](x, y)

    def sequence(x, y):
        with dk.record():
            line[8, 125](x, y)

    def stream(x, y):
        dk.launch(line, (8, 125), [x], [y], stream=dk.Stream("cpu"))

    return [brackets, plain, record, adjoint, adjoint_record, other_dim, tape, sequence, stream]


@pytest.mark.parametrize("launch", launches(), ids=lambda f: f.__name__)
def test_numbas_blocks_and_threads_are_refused(launch):
    x, y = pair()
    with pytest.raises(dk.LaunchError, match=TWO) as caught:
        launch(x, y)
    dk.synchronize()
    assert not y.numpy().any()
    assert "kernel[1000]" in caught.value.remedy
    assert "i, j = dk.tid()" in caught.value.remedy
    assert "numba" in caught.value.remedy


def test_too_few_axes():
    y = dk.zeros((3, 4))
    with pytest.raises(dk.LaunchError, match="dim=3 is a grid of 1 axis, and the kernel asks tid\\(\\) for 2 axes"):
        sheet[3](y)
    assert not y.numpy().any()
    sheet[3, 4](y)
    assert y.numpy().all()


def test_an_axis_of_one_thread_counts():
    with pytest.raises(dk.LaunchError, match="2 axes"):
        line[1000, 1](*pair())
    with pytest.raises(dk.LaunchError, match="3 axes"):
        sheet[3, 4, 1](dk.zeros((3, 4)))


def test_no_threads_are_checked_too():
    with pytest.raises(dk.LaunchError, match="2 axes"):
        line[0, 0](*pair())


def test_a_record_keeps_its_dimensions():
    x, y = pair()
    record = dk.launch(line, 1000, [x], [y], record_cmd=True)
    with pytest.raises(dk.LaunchError, match=TWO):
        record.set_dim((8, 125))
    assert record.dim == (1000,)
    record.launch()
    assert (y.numpy() == 2).all()


@pytest.mark.parametrize("dim", [6, (6,), (2, 3), (1, 2, 3), (1, 1, 2, 3)])
def test_a_kernel_that_does_not_ask_takes_any_dim(dim):
    count = dk.zeros(1, dtype=int)
    nobody_asks[dim](count)
    assert count.numpy()[0] == 6


def test_blocks_of_tiles():
    x, y = dk.ones((4, 8)), dk.zeros(4)
    with pytest.raises(dk.LaunchError, match=r"dim=\(4, 2\) is a grid of 2 axes"):
        dk.launch_tiled(blocks_of_rows, (4, 2), [x], [y], block_dim=32)
    dk.launch_tiled(blocks_of_rows, [4], [x], [y], block_dim=32)
    assert (y.numpy() == 8).all()


def test_jax():
    jnp = require("jax.numpy")
    f = dk.jax_kernel(line, launch_dims=(8, 125), output_dims=1000)
    with pytest.raises(dk.LaunchError, match=TWO):
        f(jnp.ones(1000))


def test_torch():
    torch = require("torch")
    f = dk.torch_function(line, launch_dims=(8, 125), output_dims=1000)
    with pytest.raises(dk.LaunchError, match=TWO):
        f(torch.ones(1000))


def test_gradcheck():
    with pytest.raises(dk.LaunchError, match="2 axes"):
        gradcheck(line, (2, 3), inputs=[dk.ones(6)], outputs=[dk.zeros(6)])
