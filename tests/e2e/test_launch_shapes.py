"""A launch whose threads leave an array where no condition guards the access is refused before anything runs."""

import numpy as np
import pytest
from conftest import require

import diffkern as dk
from diffkern.contracts.manifest import AxisAccess, IndexStep, Linear
from diffkern.runtime.launch.grid_checks import check_extents


@dk.kernel
def copy(x: dk.array(dtype=float), y: dk.array(dtype=float)):
    i = dk.tid()
    y[i] = 2.0 * x[i]


@dk.kernel
def shifted(x: dk.array(dtype=float), y: dk.array(dtype=float)):
    i = dk.tid()
    y[i] = x[i - 1]


@dk.kernel
def reversed_and_spread(x: dk.array(dtype=float), y: dk.array(dtype=float)):
    i = dk.tid()
    y[2 * i + 1] = x[x.shape[0] - 1 - i]


@dk.kernel
def guarded(x: dk.array(dtype=float), y: dk.array(dtype=float), n: int):
    i = dk.tid()
    if i < n:
        y[i] = x[i]


@dk.kernel
def left_early(x: dk.array(dtype=float), y: dk.array(dtype=float)):
    i = dk.tid()
    if i >= x.shape[0]:
        return
    y[i] = x[i]


@dk.kernel
def chosen(x: dk.array(dtype=float), y: dk.array(dtype=float)):
    i = dk.tid()
    a = x[i] if i < x.shape[0] else 0.0
    b = dk.where(i + 1 < x.shape[0], x[i + 1], 0.0)
    c = float(i < x.shape[0] and x[i] > 0.0)
    y[i] = a + b + c


@dk.kernel
def unused(x: dk.array(dtype=float), y: dk.array(dtype=float)):
    i = dk.tid()
    a = x[i]  # noqa: F841
    y[i] = 1.0


@dk.kernel
def rows(x: dk.array(dtype=float, ndim=2), y: dk.array(dtype=float)):
    i = dk.tid()
    for j in range(x.shape[1]):
        y[i] += x[i, j]


@dk.kernel
def counted(x: dk.array(dtype=float), y: dk.array(dtype=float), n: int):
    i = dk.tid()
    for j in range(n):
        y[i] += x[j]


@dk.kernel
def stencil(x: dk.array(dtype=dk.vec3, ndim=2), y: dk.array(dtype=dk.vec3, ndim=2)):
    i, j = dk.tid()
    for k in range(3):
        y[i, j] += x[i + k, j]


@dk.kernel
def gathered(at: dk.array(dtype=int), x: dk.array(dtype=float), y: dk.array(dtype=float)):
    i = dk.tid()
    y[i] = x[at[i]]


@dk.kernel
def wrapped(x: dk.array(dtype=float), y: dk.array(dtype=float)):
    i = dk.tid()
    y[i] = x[i % x.shape[0]]


@dk.kernel
def total(x: dk.array(dtype=float), y: dk.array(dtype=float)):
    i = dk.tid()
    dk.atomic_add(y, 0, x[i])


@dk.struct
class Both:
    x: dk.array(dtype=float)
    y: dk.array(dtype=float)


@dk.kernel
def in_a_struct(s: Both):
    i = dk.tid()
    s.y[i] = s.x[i]


def ones(*shape, dtype=float):
    return dk.ones(shape, dtype=dtype)


def sheet(*shape):
    return dk.ones(shape, dtype=dk.vec3)


REFUSED = [
    (copy, 40_000_000, (ones(2), ones(2)), "up to index 39999999 along axis 0 of 'x', outside its shape (2,)"),
    (copy, 3, (ones(3), ones(2)), "up to index 2 along axis 0 of 'y', outside its shape (2,)"),
    (shifted, 1, (ones(0), ones(1)), "down to index -1 along axis 0 of 'x', outside its shape (0,)"),
    (shifted, 5, (ones(3), ones(5)), "up to index 3 along axis 0 of 'x'"),
    (reversed_and_spread, 3, (ones(3), ones(5)), "up to index 5 along axis 0 of 'y'"),
    (reversed_and_spread, 7, (ones(3), ones(14)), "down to index -4 along axis 0 of 'x'"),
    (rows, 4, (ones(3, 2), ones(4)), "up to index 3 along axis 0 of 'x', outside its shape (3, 2)"),
    (rows, 4, (ones(4, 2), ones(3)), "up to index 3 along axis 0 of 'y'"),
    (stencil, (4, 5), (sheet(5, 5), sheet(4, 5)), "up to index 5 along axis 0 of 'x'"),
    (stencil, (4, 5), (sheet(6, 4), sheet(4, 5)), "up to index 4 along axis 1 of 'x'"),
    (gathered, 4, (dk.zeros(3, dtype=int), ones(1), ones(4)), "up to index 3 along axis 0 of 'at'"),
    (total, 3, (ones(3), ones(0)), "up to index 0 along axis 0 of 'y', outside its shape (0,)"),
]

LEGAL = [
    (copy, 2, (ones(2), ones(3))),
    (copy, 0, (ones(0), ones(0))),
    (shifted, 3, (ones(3), ones(3))),
    (reversed_and_spread, 6, (ones(3), ones(12))),
    (guarded, 10, (ones(3), ones(3), 3)),
    (left_early, 10, (ones(3), ones(3))),
    (chosen, 10, (ones(3), ones(10))),
    (unused, 10, (ones(3), ones(10))),
    (rows, 4, (ones(3, 0), ones(2))),
    (counted, 4, (ones(3), ones(2), 0)),
    (counted, 4, (ones(3), ones(4), 3)),
    (stencil, (4, 5), (sheet(6, 5), sheet(4, 5))),
    (wrapped, 10, (ones(3), ones(10))),
]


@pytest.mark.parametrize(("kernel", "dim", "args", "message"), REFUSED)
def test_refused(kernel, dim, args, message):
    before = args[-1].numpy().copy()
    with pytest.raises(dk.LaunchError, match=f"kernel '{kernel.name}': its threads go ") as caught:
        dk.launch(kernel, dim, args)
    assert message in str(caught.value)
    assert np.array_equal(args[-1].numpy(), before)


@pytest.mark.parametrize(("kernel", "dim", "args"), LEGAL)
def test_legal(kernel, dim, args):
    dk.launch(kernel, dim, args)


def test_many_shapes_of_one_kernel():
    for n in range(600):
        copy[n](ones(n), ones(n))
        with pytest.raises(dk.LaunchError):
            copy[n + 1](ones(n), ones(n + 1))


@dk.kernel
def scaled_rows(v: dk.vec3, x: dk.array(dtype=float, ndim=2), k: int, y: dk.array(dtype=dk.vec3)):
    i = dk.tid()
    for j in range(x.shape[1]):
        y[i] += v * x[i, j] * float(k)


def test_a_launch_that_passed_says_nothing_of_others():
    x, y = ones(4, 2), dk.zeros(4, dtype=dk.vec3)
    fewer, empty, lower = x[:3], x[:, :0], y[:2]  # over the same memory

    def run(x, y, dim=4, k=1):
        scaled_rows[dim](dk.vec3(1.0, 2.0, 3.0), x, k, y)

    for _ in range(2):
        for k in range(3):
            run(x, y, k=k)
            run(x, y, k=k)
            run(fewer, lower, 2, k)
        run(empty, lower)  # whose loops have no trips
        for refused, name in (
            (lambda: run(fewer, y), "x"),
            (lambda: run(x, lower), "y"),
            (lambda: run(x, y, 5), "y"),
            (lambda: run(fewer, lower, 3, 7), "y"),
        ):
            with pytest.raises(dk.LaunchError, match=f"axis 0 of '{name}'"):
                refused()
    assert y.numpy().tolist() == [[36.0, 72.0, 108.0]] * 2 + [[24.0, 48.0, 72.0]] * 2


def test_fields_of_a_struct():
    s = Both()
    s.x, s.y = ones(3), ones(2)
    with pytest.raises(dk.LaunchError, match=r"axis 0 of 's\.y'"):
        in_a_struct[3](s)


def on_a_tape(x, y):
    with dk.Tape():
        copy[3](x, y)


def in_a_sequence(x, y):
    with dk.record():
        copy[3](x, y)


WAYS = {
    "brackets": copy[3],
    "adjoint": lambda x, y: dk.launch(copy, 3, [x], [y], adjoint=True),
    "record": lambda x, y: dk.launch(copy, 3, [x], [y], record_cmd=True),
    "adjoint record": lambda x, y: dk.launch(copy, 3, [x], [y], adjoint=True, record_cmd=True),
    "stream": lambda x, y: dk.launch(copy, 3, [x], [y], stream=dk.Stream("cpu")),
    "tape": on_a_tape,
    "sequence": in_a_sequence,
}


@pytest.mark.parametrize("way", WAYS)
def test_every_way_to_launch(way):
    x, y = dk.ones(2, requires_grad=True), dk.ones(3, requires_grad=True)
    with pytest.raises(dk.LaunchError, match="axis 0 of 'x', outside its shape"):
        WAYS[way](x, y)
    assert (y.numpy() == 1).all()


def test_records_are_checked_when_they_are_changed():
    x, y = ones(4), ones(4)
    record = dk.launch(copy, 4, [x], [y], record_cmd=True)
    changes = [
        lambda: record.set_param_at_index(0, ones(3)),
        lambda: record.set_param_by_name("y", ones(3)),
        lambda: record.set_params([ones(3), ones(4)]),
        lambda: record.set_dim(5),
    ]
    for _ in range(2):  # the second time after the parameters can be set natively
        for change in changes:
            with pytest.raises(dk.LaunchError, match="outside its shape"):
                change()
        record.set_param_at_index(0, ones(4))
        record.set_param_at_index(1, y)
    assert record.dim == (4,)
    record.launch()
    assert (y.numpy() == 2).all()
    record.set_param_at_index(0, ones(5))
    record.set_params([ones(6), ones(6)])
    record.set_dim(6)
    record.launch()


def test_parameters_that_fit_together_alone():
    record = dk.launch(rows, 4, [ones(4, 3)], [ones(4)], record_cmd=True)
    with pytest.raises(dk.LaunchError):
        record.set_param_at_index(1, ones(2))
    record.set_params([ones(2, 0), ones(2)])
    record.launch()


def test_gradients_of_an_adjoint_record():
    x, y = dk.ones(4, requires_grad=True), dk.ones(4, requires_grad=True)
    record = dk.launch(copy, 4, [x], [y], adjoint=True, record_cmd=True)
    with pytest.raises(dk.LaunchError, match="outside its shape"):
        record.set_params([dk.ones(3, requires_grad=True), y])


def test_debug_programs_look_at_each_access(monkeypatch):
    monkeypatch.setattr(dk.config, "mode", "debug")
    with pytest.raises(dk.KernelRuntimeError, match="thread 2: index 2 is out of bounds"):
        copy[3](ones(2), ones(3))


def test_jax():
    jnp = require("jax.numpy")
    with pytest.raises(dk.LaunchError, match="'x', outside its shape"):
        dk.jax_kernel(copy, launch_dims=5, output_dims=5)(jnp.ones(4))
    with pytest.raises(dk.LaunchError, match="'y', outside its shape"):
        dk.jax_kernel(copy, launch_dims=4, output_dims=3)(jnp.ones(4))


def test_torch():
    torch = require("torch")
    with pytest.raises(dk.LaunchError, match="'x', outside its shape"):
        dk.torch_function(copy, launch_dims=5, output_dims=5)(torch.ones(4))


def test_an_index_beyond_32_bits_is_computed_without_wrapping():
    entry = AxisAccess(0, 0, True, tid=((0, 65536),), low=Linear(0), high=Linear(0), trips=(), shapes=((0, 1),))
    with pytest.raises(dk.LaunchError, match="up to index 2621374464"):
        check_extents([entry], ["x"], (40_000, 1, 1, 1), {0: (8,)})


def test_an_index_that_wraps_around_is_computed_as_threads_compute_it():
    steps = (
        IndexStep("tid", 0),
        IndexStep("wrap", type="int8"),
        IndexStep("const", 3),
        IndexStep("mul"),
        IndexStep("wrap", type="int8"),
    )
    entry = AxisAccess(0, 0, True, (), Linear(0), Linear(0), trips=(), shapes=((0, 1),), steps=steps)
    for threads in (300, 3_000_000):
        check_extents([entry], ["x"], (threads, 1, 1, 1), {0: (128,)})
        with pytest.raises(dk.LaunchError, match="outside its shape"):
            check_extents([entry], ["x"], (threads, 1, 1, 1), {0: (127,)})
