"""Products of vectors and matrices whose result goes into a root, at points where the root and some factors are zero.

The root's derivative is infinite there; a partial derivative that is exactly zero makes its product zero, in reverse
mode, where the cotangent of the product is infinite, and in forward mode alike.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import diffkern as dk
from diffkern.ad.rules.bilinear import FORMS
from diffkern.ir.ops.composite import BILINEAR, PRODUCTS

from .test_singular import load

SIZES = {"V": 3, "M": 9, "Q": 4}
USES = {
    "cw_mul": ("VV", "dk.cw_mul(a, b)[0]"),
    "dot": ("VV", "dk.dot(a, b)"),
    "ddot": ("MM", "dk.ddot(a, b)"),
    "cross": ("VV", "dk.cross(a, b)[0]"),
    "outer": ("VV", "dk.outer(a, b)[1, 2]"),
    "matmul": ("MM", "(a @ b)[0, 1]"),
    "matvec": ("MV", "(a @ b)[2]"),
    "vecmat": ("VM", "(a @ b)[0]"),
    "quat_mul": ("QQ", "(a * b)[0]"),
    "unscale": ("V", "(a / number(2.0))[0]"),
    "cw_div": ("VV", "dk.cw_div(a, b + V(number(1.5)))[0]"),
    "length_sq": ("V", "dk.length_sq(a)"),
    "normalize": ("V", "dk.normalize(a)[0]"),
    "determinant": ("M", "dk.determinant(a)"),
    "inverse": ("M", "dk.inverse(a + M(2.5, 0.0, 0.0, 0.0, 2.5, 0.0, 0.0, 0.0, 2.5))[0, 1]"),
    "trace": ("M", "dk.trace(a)"),
}
"""The operands and the number that goes into the root."""
WIDTH = max(sum(SIZES[kind] for kind in kinds) for kinds, _ in USES.values())
THREADS = 60


def test_every_product_has_a_form() -> None:
    tiles = {name for name in BILINEAR if name.startswith("tile")}
    assert set(FORMS) == BILINEAR - PRODUCTS - tiles
    assert set(FORMS) <= set(USES)


@pytest.fixture(scope="module", params=["float64", pytest.param("float32", marks=pytest.mark.full)])
def roots(request: pytest.FixtureRequest) -> Any:
    """The roots of all uses as a function of an array, with operands of its own for each."""
    number = getattr(dk, request.param)
    lines = ["def k(x, y):", "    i = dk.tid()"]
    for n, (kinds, text) in enumerate(USES.values()):
        start = 0
        for name, kind in zip("ab", kinds, strict=False):
            parts = ", ".join(f"x[i, {n}, {start + m}]" for m in range(SIZES[kind]))
            lines.append(f"    {name} = {kind}({parts})")
            start += SIZES[kind]
        lines.append(f"    y[i, {n}] = dk.sqrt({text})")
    types = {"V": dk.types.vector(3, number), "M": dk.types.matrix((3, 3), number), "Q": dk.types.quaternion(number)}
    kernel = load(lines, {"number": number, **types})

    def run(x: Any) -> Any:
        y = dk.zeros((x.shape[0], len(USES)), dtype=number, requires_grad=True)
        dk.launch(kernel, dim=x.shape[0], inputs=[x], outputs=[y])
        return y

    return run, number


def _gradient(run: Any, x: np.ndarray, number: Any) -> np.ndarray:
    given = dk.array(x, dtype=number, requires_grad=True)
    with dk.Tape() as tape:
        y = run(given)
    tape.backward(grads={y: dk.array(np.ones(y.shape), dtype=number)})
    return given.grad.numpy()


def test_both_modes_agree_where_the_root_is_zero(roots: Any) -> None:
    run, number = roots
    x = np.random.default_rng(3).integers(-1, 2, (THREADS, len(USES), WIDTH)).astype(float)
    at_zero = run(dk.array(x, dtype=number)).numpy() == 0
    assert at_zero.any(axis=0).all(), "each use has points whose root is zero"
    reverse = _gradient(run, x, number)
    for m in range(WIDTH):
        along = np.zeros_like(x)
        along[:, :, m] = 1.0
        forward = dk.jvp(run, (dk.array(x, dtype=number),), (dk.array(along, dtype=number),))[1].numpy()
        for n, name in enumerate(USES):
            found, right = forward[at_zero[:, n], n], reverse[at_zero[:, n], n, m]
            assert not np.isnan(right).any(), name
            np.testing.assert_array_equal(found, right, err_msg=name)


def test_elsewhere_derivatives_are_the_differences(roots: Any) -> None:
    """Both modes and second order at points without zeros, where nothing is replaced."""
    run, number = roots
    if number is dk.float32:
        pytest.skip("differences need double precision")
    rng = np.random.default_rng(4)
    x = rng.uniform(0.4, 1.0, (THREADS, len(USES), WIDTH))
    along = rng.normal(size=x.shape)
    t = dk.array(along)
    y = run(dk.array(x)).numpy()
    known = np.isfinite(y) & (y > 0.3)
    assert known.any(axis=0).sum() >= len(USES) - 1  # determinants and others may be negative in some threads

    def differences(f: Any) -> np.ndarray:
        return (f(x + 1e-6 * along) - f(x - 1e-6 * along)) / 2e-6

    def tangents(at: Any) -> Any:
        return dk.jvp(run, (at,), (t,))[1]

    first = tangents(dk.array(x)).numpy()
    np.testing.assert_allclose(
        first[known], differences(lambda at: run(dk.array(at)).numpy())[known], rtol=1e-6, atol=1e-7
    )
    reverse = (_gradient(run, x, number) * along).sum(axis=2)
    np.testing.assert_allclose(reverse[known], first[known], rtol=1e-9, atol=1e-12)
    second = dk.jvp(tangents, (dk.array(x),), (t,))[1].numpy()
    np.testing.assert_allclose(
        second[known], differences(lambda at: tangents(dk.array(at)).numpy())[known], rtol=1e-4, atol=1e-5
    )
    ones = dk.array(np.ones(y.shape))
    products = dk.jvp(lambda at: dk.vjp(run, (at,), ones)[1][0], (dk.array(x),), (t,))[1].numpy()
    np.testing.assert_allclose((products * along).sum(axis=2)[known], second[known], rtol=1e-8, atol=1e-9)
