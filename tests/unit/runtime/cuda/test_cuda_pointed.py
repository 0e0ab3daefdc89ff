"""Arrays in elements of arrays of structs on a GPU: read, written and differentiated by executed PTX, as on the CPU."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import require
from pointed_arrays import Body, Part, energy, filled, nested, parts_on, results
from support.fake_driver.driver import fake_cuda

import diffkern as dk
from diffkern.contracts.argument_block import Layout
from diffkern.contracts.manifest import Manifest, ProgramParameter
from diffkern.errors import KernelRuntimeError, LaunchError
from diffkern.ir.types import FLOAT32, Array
from diffkern.runtime.cuda.preconditions import ArrayRules
from diffkern.targets.cuda.kernel import alignment

require("cuda.bindings.nvjitlink", "nvidia")

G = "cuda:0"


@pytest.mark.parametrize("function", [energy, filled], ids=lambda f: f.__name__)
def test_launches_and_gradients(function):
    kernel = dk.kernel(function)
    here = results(kernel, "cpu")
    with fake_cuda(run="ptx"):
        there = results(kernel, G)
    for found, expected in zip(there, here, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_launches_by_numba_cuda():
    """Its programs read arrays in elements, and do not write to them."""
    require("numba.cuda")

    def launched(kernel: dk.Kernel, device: str) -> np.ndarray:
        parts, _ = parts_on(device)
        y = dk.zeros(2, device=device)
        dk.launch(kernel, 2, [parts, dk.array([0.5, 0.25, 2.0], dtype=float, device=device)], [y])
        return y.numpy()

    with fake_cuda(run="ptx"):
        found = launched(dk.kernel(energy, compiler="numba"), G)
    np.testing.assert_allclose(found, launched(dk.kernel(energy), "cpu"), rtol=1e-5)


def test_elements_with_two_axes_and_records():
    with fake_cuda(run="ptx"):
        parts = [Part(1.0, dk.array([1.0, 2.0 + k], dtype=float, device=G)) for k in range(4)]
        rows = [[Body(2.0, parts[0]), Body(3.0, parts[1])], [Body(4.0, parts[2]), Body(5.0, parts[3])]]
        bodies, y = dk.zeros((2, 2), dtype=Body, device=G), dk.zeros((2, 2), device=G)
        for i in range(2):
            for j in range(2):
                bodies[i, j] = rows[i][j]
        record = dk.launch(dk.kernel(nested), (2, 2), [bodies], [y], record_cmd=True)
        record.launch()
        np.testing.assert_array_equal(y.numpy(), [[4.0, 9.0], [16.0, 25.0]])
        record.set_param_at_index(0, bodies[::-1])
        record.launch()
        np.testing.assert_array_equal(y.numpy(), [[16.0, 25.0], [4.0, 9.0]])


def test_debug_programs():
    kernel = dk.kernel(energy, mode="debug")
    with fake_cuda(run="ptx"):
        x, n = dk.array([1.0, 2.0], dtype=float, device=G), dk.array([0, 2], dtype=dk.int8, device=G)
        w, y = dk.ones(2, device=G), dk.zeros(1, device=G)
        with pytest.raises(KernelRuntimeError, match=r"index 2 is out of bounds for axis 0 of array 'parts\.x'"):
            dk.launch(kernel, 1, [dk.array([Part(1.0, x, None, n)], dtype=Part, device=G), w], [y])


def test_descriptors_are_read_by_words():
    """The launch checks that elements lie where the code takes them to lie, whatever the arrays in them are of."""
    t = Array(FLOAT32, 2, "P1")
    assert alignment(t) == 8
    manifest = Manifest(1, 1.0, (ProgramParameter("x", str(t), "param", 0, 0, align=alignment(t)),), (), ())
    rules = ArrayRules("energy", manifest, Layout(manifest))
    rules.check((0x1000, 2, 64))
    with pytest.raises(LaunchError, match="no multiple of 8"):
        rules.check((0x1004, 2, 64))
