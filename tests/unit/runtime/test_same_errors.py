"""Whatever way a kernel is launched, wrong arguments give the same error, and nothing has run."""

from __future__ import annotations

import numpy as np
import pytest
from support.fake_driver.driver import fake_cuda

import diffkern as dk

N = 8


@dk.struct
class Pair:
    a: float
    b: int


@dk.kernel
def scale(x: dk.array(dtype=float), n: int, a: float, y: dk.array(dtype=float)):
    i = dk.tid()
    y[i] = x[i] * a + float(n)


def arguments(**changes):
    return list({"x": dk.ones(N), "n": 3, "a": 2.0, "y": dk.zeros(N), **changes}.values())


def read_only():
    made = np.zeros(N, np.float32)
    made.flags.writeable = False
    return made


PARAMETERS = {  # one parameter that is wrong, and what is said of it
    "dtype": ("x", lambda: dk.ones(N, dtype=dk.float64), "takes array1d<float32>, not array1d<float64>"),
    "dtype of NumPy": ("x", lambda: np.ones(N), "not NumPy's array of float64 with shape (8,)"),
    "axes": ("x", lambda: dk.ones((N, 1)), "takes array1d<float32>, not array2d<float32>"),
    "list": ("x", lambda: [1.0, 2.0], "takes array1d<float32>, not list [1.0, 2.0]"),
    "string": ("x", lambda: "x", "takes array1d<float32>, not str 'x'"),
    "struct": ("x", Pair, "takes array1d<float32>, not Pair(a=0.0, b=0)"),
    "number for an array": ("x", lambda: 1.0, "takes array1d<float32>, not float 1.0"),
    "None for an array": ("x", lambda: None, "x is None in this launch"),
    "array for a number": ("a", lambda: dk.ones(N), "takes float32 by value, not array(shape=(8,), dtype=float32)"),
    "None for a number": ("n", lambda: None, "takes a number (int32), not None"),
    "float for an integer": ("n", lambda: 2.5, "takes an integer (int32), not 2.5"),
    "large integer": ("n", lambda: 2**40, "1099511627776 does not fit int32"),
    "large float": ("a", lambda: 1e300, "1e+300 does not fit float32"),
    "string for a number": ("a", lambda: "2", "takes a number, not '2'"),
    "read-only memory": ("y", read_only, "the kernel writes to it, and the array is read-only"),
    "short array": ("x", lambda: dk.ones(N - 1), "up to index 7 along axis 0 of 'x', outside its shape (7,)"),
    "short output": ("y", lambda: dk.ones(N - 1), "up to index 7 along axis 0 of 'y', outside its shape (7,)"),
}
DIMS = {
    "negative": (-1, "at least 0 and less than 2**31, not -1"),
    "float": (7.5, "an integer or up to four integers, not 7.5"),
    "none": (None, "an integer or up to four integers, not None"),
    "axes of the grid": ((4, 2), "dim=(4, 2) is a grid of 2 axes, and the kernel asks tid() for 1 axis"),
    "five axes": ((1, 1, 1, 1, N), "dim has 1 to 4 extents, not 5"),
    "too many threads": (N + 1, "up to index 8 along axis 0 of 'x', outside its shape (8,)"),
}


def launched(dim, args):
    dk.launch(scale, dim, inputs=args)


def subscripted(dim, args):
    scale[dim](*args)


def on_a_stream(dim, args):
    dk.launch(scale, dim, inputs=args, stream=dk.Stream("cpu"))


def on_a_device(dim, args):
    dk.launch(scale, dim, inputs=args, device="cpu")


def on_a_tape(dim, args):
    with dk.Tape():
        dk.launch(scale, dim, inputs=args)


def recorded(dim, args):
    dk.launch(scale, dim, inputs=args, record_cmd=True).launch()


def by_hand(dim, args):
    made = dk.Launch(scale)
    made.set_dim(dim)
    made.set_params(args)
    made.launch()


def in_a_sequence(dim, args):
    with dk.record():
        dk.launch(scale, dim, inputs=args)


def set_one_by_one(dim, args):
    record = dk.launch(scale, N, inputs=arguments(), record_cmd=True)
    for index, value in enumerate(args):
        record.set_param_at_index(index, value)
    record.set_dim(dim)


def set_at_once(dim, args):
    record = dk.launch(scale, N, inputs=arguments(), record_cmd=True)
    record.set_params(args)
    record.set_dim(dim)


def adjoint(dim, args):
    gradients = [dk.zeros(N), None, None, dk.zeros(N)]
    dk.launch(scale, dim, inputs=args, adjoint=True, adj_inputs=gradients)


WAYS = (
    launched, subscripted, on_a_stream, on_a_device, on_a_tape, recorded, by_hand, in_a_sequence, set_one_by_one,
    set_at_once, adjoint,
)  # fmt: skip


def check(dim, args, said):
    """Run every way, and compare with the first."""
    expected = None
    outputs = np.asarray(args[3]).copy() if isinstance(args[3], dk.array) else None
    for way in WAYS:
        with pytest.raises(dk.KernelError) as caught:
            way(dim, args)
        error = caught.value
        if expected is None:
            expected = (type(error), error.message, error.remedy)
            assert said in str(error)
        assert (type(error), error.message, error.remedy) == expected, way.__name__
        if outputs is not None:
            np.testing.assert_array_equal(args[3].numpy(), outputs, way.__name__)


@pytest.mark.parametrize("case", PARAMETERS)
def test_a_parameter(case):
    name, make, said = PARAMETERS[case]
    check(N, arguments(**{name: make()}), said)


@pytest.mark.parametrize("case", DIMS)
def test_dimensions(case):
    dim, said = DIMS[case]
    check(dim, arguments(), said)


@pytest.mark.parametrize("count", [3, 5])
def test_the_number_of_arguments(count):
    for way in set(WAYS) - {set_one_by_one, adjoint}:
        with pytest.raises(dk.LaunchError) as caught:
            way(N, [*arguments(), 1][:count])
        assert caught.value.message == f"kernel 'scale' takes 4 arguments (x, n, a, y), not {count}", way.__name__


def test_memory_that_overlaps_is_refused_for_each_kind_of_gradient():
    whole = dk.zeros(N + 1, requires_grad=True)
    args = arguments(x=whole[:N], y=whole[1:])

    def tape():
        with dk.Tape():
            dk.launch(scale, N, inputs=args)

    def at_once():
        dk.launch(scale, N, inputs=args, adjoint=True)

    def record():
        dk.launch(scale, N, inputs=args, adjoint=True, record_cmd=True)

    def of_a_record():
        dk.launch(scale, N, inputs=args, record_cmd=True).adjoint()

    def of_a_sequence():
        with dk.record() as sequence:
            dk.launch(scale, N, inputs=args)
        sequence.adjoint()

    messages = set()
    for way in (tape, at_once, record, of_a_record, of_a_sequence):
        with pytest.raises(dk.LaunchError) as caught:
            way()
        messages.add(caught.value.message)
    reason = (
        "share memory and are not the same array, and the kernel writes to 'y': the result would depend on the order"
    )
    assert messages == {f"kernel 'scale': 'x' and 'y' {reason} of the threads"}


def test_arrays_of_two_devices():
    with fake_cuda(devices=2):
        good = {"x": dk.ones(N, device="cuda:0"), "y": dk.zeros(N, device="cuda:0")}
        args = arguments(**{**good, "y": dk.zeros(N, device="cuda:1")})

        def set_one(dim, given):
            dk.launch(scale, dim, inputs=arguments(**good), record_cmd=True).set_param_at_index(3, given[3])

        def set_all(dim, given):
            dk.launch(scale, dim, inputs=arguments(**good), record_cmd=True).set_params(given)

        messages = set()
        for way in (launched, subscripted, on_a_tape, recorded, by_hand, in_a_sequence, set_one, set_all):
            with pytest.raises(dk.LaunchError) as caught:
                way(N, args)
            messages.add(caught.value.message)
    assert messages == {"kernel 'scale', parameter 'y': the array is on cuda:1, that of 'x' on cuda:0"}
