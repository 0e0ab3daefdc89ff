"""Arrays in elements of arrays of structs on a GPU: read, written and differentiated by executed PTX, as on the CPU."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import require
from support.fake_driver.driver import fake_cuda

import diffkern as dk
from diffkern.errors import KernelRuntimeError, LaunchError
from diffkern.ir.types import FLOAT32, Array
from diffkern.manifest import Manifest, Parameter
from diffkern.runtime.block import Layout
from diffkern.runtime.cuda.preconditions import ArrayRules
from diffkern.targets.cuda.kernel import alignment

require("cuda.bindings.nvjitlink", "nvidia")

G = "cuda:0"


@dk.struct
class Part:
    scale: float
    x: dk.array(dtype=float)
    v: dk.array(dtype=dk.vec3d, ndim=2)
    n: dk.array(dtype=dk.int8)


@dk.struct
class Body:
    weight: dk.float64
    part: Part


PARTS, BODIES, F1 = dk.array(dtype=Part), dk.array(dtype=Body, ndim=2), dk.array(dtype=float)


def energy(parts: PARTS, w: F1, y: F1):
    i = dk.tid()
    part = parts[i]
    s = 0.0
    for j in range(part.x.shape[0]):
        s += dk.sin(part.x[j]) * part.x[int(part.n[j])] * w[j]
    if part.v:
        s += float(part.v[1, -1][2] * part.v[0, 1][0])
    y[i] = s * part.scale


def filled(parts: PARTS, w: F1):
    i = dk.tid()
    for j in range(parts[i].x.shape[0]):
        parts[i].x[j] = w[j] * w[j] * parts[i].scale
    if parts[i].v:
        parts[i].v[1, 0][1] = dk.float64(w[0] * w[1])


def nested(bodies: BODIES, y: dk.array(dtype=float, ndim=2)):
    i, j = dk.tid()
    y[i, j] = float(bodies[i, j].weight) * bodies[i, j].part.x[-1]


def parts_on(device: str) -> tuple[dk.array, list[dk.array]]:
    """Two parts and what they hold: strided memory, vectors with two axes, None."""
    rng = np.random.default_rng(5)
    strided = dk.array(rng.uniform(0.5, 1.0, 6).astype(np.float32), device=device, requires_grad=True)
    x = dk.array([0.3, 0.9, 0.6], dtype=float, device=device, requires_grad=True)
    v = dk.array(rng.uniform(0.5, 1.0, (2, 3, 3)), dtype=dk.vec3d, device=device, requires_grad=True)
    n = dk.array([1, 0, 1], dtype=dk.int8, device=device)
    parts = dk.array([Part(1.5, strided[::-2], v, n), Part(2.0, x, None, n)], dtype=Part, device=device)
    return parts, [strided, x, v]


def results(kernel: dk.Kernel, device: str) -> list[np.ndarray]:
    """What a launch and its adjoint leave in all arrays."""
    parts, held = parts_on(device)
    w = dk.array([0.5, 0.25, 2.0], dtype=float, device=device, requires_grad=True)
    y = dk.zeros(2, device=device, requires_grad=True)
    outputs = [y] if len(kernel.parameters) == 3 else []
    with dk.Tape() as tape:
        dk.launch(kernel, 2, [parts, w], outputs)
    rng = np.random.default_rng(7)
    for a in (*outputs, *(() if outputs else held)):
        a.grad.assign(rng.normal(size=a.grad.numpy().shape).astype(a.grad.numpy().dtype))
    tape.backward()
    return [*(a.numpy() for a in (*held, y)), *(a.grad.numpy() for a in (*held, w))]


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
    manifest = Manifest(1, 1.0, (Parameter("x", str(t), "param", 0, 0, align=alignment(t)),), (), ())
    rules = ArrayRules("energy", manifest, Layout(manifest))
    rules.check((0x1000, 2, 64))
    with pytest.raises(LaunchError, match="no multiple of 8"):
        rules.check((0x1004, 2, 64))
