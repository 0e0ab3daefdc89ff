"""Arrays, types and devices of JAX as diffkern's, and back."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import require

jax = require("jax")

import diffkern as dk


def test_an_array_of_jax_without_a_copy():
    theirs = jax.numpy.arange(6, dtype=jax.numpy.float32).reshape(2, 3)
    ours = dk.from_jax(theirs)
    assert ours.shape == (2, 3)
    assert ours.dtype == dk.float32
    assert ours.ptr == theirs.unsafe_buffer_pointer()
    assert dk.from_jax(theirs, dtype=dk.vec3).shape == (2,)


def test_an_array_for_jax():
    ours = dk.array([[1.0, 2.0, 3.0]], dtype=dk.vec3)
    theirs = dk.to_jax(ours)
    assert theirs.dtype == np.float32
    np.testing.assert_array_equal(theirs, [[1.0, 2.0, 3.0]])


@pytest.mark.parametrize("name", ["bool", "int32", "uint8", "float16", "bfloat16", "float32"])
def test_types(name):
    ours = dk.dtype_from_jax(getattr(jax.numpy, name if name != "bool" else "bool_"))
    assert ours.name == name
    assert jax.numpy.zeros(1, dk.dtype_to_jax(ours)).dtype.name == name


def test_types_that_diffkern_does_not_have():
    with pytest.raises(TypeError, match="no type for float8_e5m2"):
        dk.dtype_from_jax(jax.numpy.float8_e5m2)


def test_complex_types():
    assert dk.dtype_from_jax(jax.numpy.complex64) == dk.complex64
    assert dk.dtype_to_jax(dk.complex64) == jax.numpy.complex64


def test_devices():
    cpu = jax.local_devices(backend="cpu")[0]
    assert dk.device_from_jax(cpu) == dk.get_device("cpu")
    assert dk.device_to_jax("cpu") == cpu
