"""Where a Jacobian or Hessian may differ from zero is found by few sweeps, and what is computed so is all of it."""

from __future__ import annotations

import numpy as np
import pytest

import diffkern as dk
from diffkern.errors import MisuseError
from diffkern.transforms.sparsity import find, is_whole

F64 = dk.float64


@dk.kernel
def neighbours(x: dk.array(dtype=F64), y: dk.array(dtype=F64)):
    i = dk.tid()
    y[i] = x[i] * x[i]
    if i > 0:
        y[i] += dk.sin(x[i - 1]) * x[i]
    if i < x.shape[0] - 1:
        y[i] -= x[i + 1]


@dk.kernel
def sums_of_pairs(x: dk.array(dtype=F64), y: dk.array(dtype=F64)):
    i = dk.tid()
    dk.atomic_add(y, i // 2, x[i] * x[i] * x[i])


@dk.kernel
def everything(x: dk.array(dtype=F64), y: dk.array(dtype=F64)):
    i = dk.tid()
    for j in range(x.shape[0]):
        dk.atomic_add(y, i, dk.cos(x[j] * x[i]))


@dk.kernel
def add_squares(y: dk.array(dtype=F64), s: dk.array(dtype=F64)):
    i = dk.tid()
    dk.atomic_add(s, 0, y[i] * y[i])


class Counted:
    """A function of an array, and how often it was called."""

    def __init__(self, kernel, size):
        self.kernel, self.size, self.calls = kernel, size, 0

    def __call__(self, x):
        self.calls += 1
        y = dk.zeros(self.size, dtype=F64)
        self.kernel[x.size](x, y)
        return y

    def squared(self, x):
        s = dk.zeros(1, dtype=F64)
        add_squares[self.size](self(x), s)
        return s


def point(n):
    return dk.array(np.random.default_rng(n).uniform(0.5, 1.5, n), dtype=F64)


@pytest.mark.parametrize("mode", [None, "forward", "reverse"])
def test_a_band(mode):
    n = 96
    f, x = Counted(neighbours, n), point(n)
    found = dk.jacobian(f, x, sparsity="find", mode=mode)
    if mode == "forward":
        assert f.calls < 40
    np.testing.assert_allclose(found, dk.jacobian(f, x, mode=mode), rtol=1e-13)
    assert np.count_nonzero(found) == 3 * n - 2


@pytest.mark.parametrize(("kernel", "rows"), [(sums_of_pairs, 10), (everything, 20)])
def test_other_patterns(kernel, rows):
    f, x = Counted(kernel, rows), point(20)
    np.testing.assert_allclose(dk.jacobian(f, x, sparsity="find"), dk.jacobian(f, x), rtol=1e-13)


def test_a_hessian():
    n = 64
    f, x = Counted(neighbours, n), point(n)
    expected = dk.hessian(f.squared, x)
    f.calls = 0
    np.testing.assert_allclose(dk.hessian(f.squared, x, sparsity="find"), expected, rtol=1e-13)
    assert f.calls < n


def test_what_hides_nan_is_noticed():
    """Where NaN does not come through, all columns are computed."""

    @dk.func
    def passed(x: F64):
        return x

    @dk.func_grad(passed)
    def adj_passed(x: F64, adj_ret: F64):
        if adj_ret != adj_ret:
            adj_ret = 0.0
        dk.adjoint[x] += adj_ret

    @dk.kernel
    def hides(x: dk.array(dtype=F64), y: dk.array(dtype=F64)):
        i = dk.tid()
        y[i] = passed(x[i]) * 3.0

    f, x = Counted(hides, 8), point(8)
    np.testing.assert_array_equal(dk.jacobian(f, x, sparsity="find", mode="reverse"), 3.0 * np.eye(8))


@pytest.mark.parametrize("shape", [(1, 1), (7, 13), (40, 40)])
def test_patterns_are_found(shape):
    rng = np.random.default_rng(shape)
    for density in (0.0, 0.02, 0.2, 1.0):
        matrix = np.where(rng.uniform(size=shape) < density, rng.uniform(1, 2, shape), 0.0)

        def product(v, matrix=matrix):
            return np.where(((matrix != 0) & np.isnan(v)).any(axis=1), np.nan, matrix @ np.nan_to_num(v))

        pattern = find(product, *shape)
        assert (pattern | (matrix == 0)).all()
        assert pattern.all() or (pattern == (matrix != 0)).all()
        assert is_whole(product, matrix)
        assert density == 0.0 or matrix[0, 0] == 0.0 or not is_whole(product, matrix - np.eye(*shape) * matrix)


def test_what_is_misused():
    with pytest.raises(MisuseError, match="'find'"):
        dk.jacobian(Counted(neighbours, 4), point(4), sparsity="given")
    with pytest.raises(MisuseError, match="'find'"):
        dk.hessian(Counted(neighbours, 4).squared, point(4), sparsity="given")


@pytest.mark.parametrize("mode", ["forward", "reverse"])
def test_what_is_no_array_has_no_jacobian(mode):
    x, chosen = dk.array(np.array([1.0, 2.0, 3.0])), dk.array([0, 2], dtype=int)
    with pytest.raises(MisuseError, match=r"a function that returns an array, not indexedarray"):
        dk.jacobian(lambda x: (x * x)[chosen], x, mode=mode)
    with pytest.raises(MisuseError, match=r"a function that returns an array, not \("):
        dk.jacobian(lambda x: (x * 1.0, x * 2.0), x, mode=mode)
    found = dk.jacobian(lambda x: (x * x)[chosen].contiguous(), x, mode=mode)
    np.testing.assert_allclose(found, [[2.0, 0.0, 0.0], [0.0, 0.0, 6.0]], rtol=1e-13)
