"""Functions of JAX arrays and of tensors refuse what a launch refuses, in the words of a launch."""

from __future__ import annotations

import pytest
from conftest import require

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


VALUES = {
    "string": ("x", "x"),
    "struct": ("x", Pair()),
    "None for a number": ("n", None),
    "float for an integer": ("n", 2.5),
    "large integer": ("n", 2**40),
    "large float": ("a", 1e300),
    "string for a number": ("a", "2"),
}
ARRAYS = {  # of elements, along axes, for a parameter
    "dtype": ("x", (N,), "int32"),
    "axes": ("x", (N, 1), "float32"),
    "array for a number": ("a", (N,), "float32"),
}


def jax_way():
    require("jax")
    import jax.numpy as jnp

    return dk.jax_kernel(scale, num_outputs=1), jnp.ones


def torch_way():
    require("torch")
    import torch

    return dk.torch_function(scale, num_outputs=1), lambda shape, dtype: torch.ones(shape, dtype=getattr(torch, dtype))


@pytest.fixture(params=[jax_way, torch_way], ids=["jax", "torch"])
def way(request):
    return request.param()


def error_of(call, *args):
    with pytest.raises(dk.LaunchError) as caught:
        call(*args)
    assert caught.value.remedy
    return caught.value.message


def launched(args):
    dk.launch(scale, N, inputs=[*args, dk.zeros(N)])


@pytest.mark.parametrize("case", VALUES)
def test_values(way, case):
    function, ones = way
    name, value = VALUES[case]
    own = {"x": dk.ones(N), "n": 3, "a": 2.0, name: value}
    theirs = {"x": ones((N,), "float32"), "n": 3, "a": 2.0, name: value}
    assert error_of(function, *theirs.values()) == error_of(launched, own.values())


@pytest.mark.parametrize("case", ARRAYS)
def test_arrays(way, case):
    function, ones = way
    name, shape, dtype = ARRAYS[case]
    own = {"x": dk.ones(N), "n": 3, "a": 2.0, name: dk.ones(shape, dtype=getattr(dk, dtype))}
    theirs = {"x": ones((N,), "float32"), "n": 3, "a": 2.0, name: ones(shape, dtype)}
    # How a library names what was passed is its own.
    start, _, _ = error_of(launched, own.values()).partition(" not ")
    assert error_of(function, *theirs.values()).startswith(start.rstrip(","))


@pytest.mark.parametrize("count", [2, 4])
def test_the_number_of_arguments(way, count):
    function, ones = way
    args = [ones((N,), "float32"), 3, 2.0, 1.0]
    assert error_of(function, *args[:count]) == f"kernel 'scale' takes 3 arguments (x, n, a), not {count}"
