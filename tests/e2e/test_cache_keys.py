"""Every ingredient that has a say in the result has a say in the key, and the new result is computed."""

from __future__ import annotations

import numpy as np
import pytest

import diffkern as dk
from diffkern.compiler.specialize import Specialization, artifact_key
from diffkern.contracts.options import KernelOptions, Variant
from diffkern.ir.types import FLOAT32, FLOAT64, Array, Mat, Vec

FACTOR = 1.0


@dk.func
def twice(v):
    return 2.0 * v


@dk.func
def thrice(v):
    return 3.0 * v


def keys(kernel, *types, **options):
    """The keys of the forward and of the adjoint."""
    known = kernel.argument_types(*types)
    variants = (Variant(KernelOptions(**options), active=active) for active in (None, frozenset({0})))
    return {artifact_key(Specialization(kernel.func, known, variant).fields(), "native") for variant in variants}


def kernel_of(c):
    @dk.kernel
    def store(y: dk.array(dtype=dk.float64)):
        y[0] = dk.float64(c)

    return store


CONSTANTS = [0.1, 0.1000000001, 5, 5 + 2**32, 0, 0.0, False, -0.0, np.float32(0.1), 1, True]


def test_constants_have_keys_of_their_own():
    every = [keys(kernel_of(c)) for c in CONSTANTS]
    assert len(set.union(*every)) == 2 * len(CONSTANTS)
    assert keys(kernel_of(0.1)) == every[0]


@pytest.mark.parametrize("c", [0.1, 0.1000000001, 5, 5 + 2**32, 0, False])
def test_constants_give_their_results(c):
    y = dk.zeros(1, dtype=dk.float64)
    dk.launch(kernel_of(c), dim=1, inputs=[y])
    assert y.numpy()[0] == c


def calls(f):
    @dk.kernel
    def apply(x: dk.array(dtype=float), y: dk.array(dtype=float)):
        i = dk.tid()
        y[i] = f(x[i])

    return apply


def test_a_called_function_counts():
    assert keys(calls(twice)).isdisjoint(keys(calls(thrice)))
    x, y = dk.ones(1), dk.zeros(1)
    for f, expected in ((twice, 2.0), (thrice, 3.0)):
        dk.launch(calls(f), dim=1, inputs=[x, y])
        assert y.numpy()[0] == expected


def test_options_count():
    kernel = calls(twice)
    assert keys(kernel).isdisjoint(keys(kernel, fast_math=True))
    assert keys(kernel).isdisjoint(keys(kernel, stack_bytes=64))


def test_shapes_of_vectors_and_matrices_count():
    @dk.kernel
    def copy(x, y):
        i = dk.tid()
        y[i] = x[i]

    shapes = [
        *(Mat(FLOAT32, rows, columns) for rows, columns in ((1, 11), (11, 1), (1, 1), (2, 3), (3, 2))),
        *(Vec(FLOAT32, n) for n in (1, 11, 2)),
        Vec(FLOAT64, 2),
    ]
    arrays = [Array(t, ndim, layout) for t in shapes for ndim in (1, 2) for layout in "AC"]
    every = {artifact_key(Specialization(copy.func, (t, t)).fields(), "native") for t in arrays}
    assert len(every) == len(arrays)


def test_a_global_changed_after_the_first_launch_is_noticed(monkeypatch):
    @dk.kernel
    def scale(y: dk.array(dtype=float)):
        y[dk.tid()] = FACTOR

    y = dk.zeros(1)
    for value in (1.0, 2.0, 0.1, 1.0):
        monkeypatch.setitem(globals(), "FACTOR", value)
        dk.launch(scale, dim=1, inputs=[y])
        assert y.numpy()[0] == np.float32(value)


def test_a_closure_variable_changed_after_the_first_launch_is_noticed():
    def make():
        k = 1.0

        def change(value):
            nonlocal k
            k = value

        @dk.kernel
        def scale(y: dk.array(dtype=float)):
            y[dk.tid()] = k

        return scale, change

    scale, change = make()
    y = dk.zeros(1)
    for value in (1.0, 3.0):
        change(value)
        dk.launch(scale, dim=1, inputs=[y])
        assert y.numpy()[0] == value


def test_targets_count():
    fields = Specialization(calls(twice).func, calls(twice).argument_types()).fields()
    assert len({artifact_key(fields, t) for t in ("native", "host", "x86-64-v3", "x86-64-v4", "aarch64")}) == 5
