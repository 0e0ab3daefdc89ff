"""Where a number first becomes infinite or NaN: kernel or adjoint, thread, line, variable."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import diffkern as dk
from diffkern.compiler.compilation import Compilation
from diffkern.contracts.options import Variant
from diffkern.testing import assert_finite, find_nonfinite


@dk.func
def logit(p: float):
    return dk.log(p / (1.0 - p))


@dk.kernel
def logits(x: dk.array(dtype=float), y: dk.array(dtype=float)):
    i = dk.tid()
    p = x[i]
    v = logit(p)
    y[i] = v * 2.0


@dk.kernel
def roots(x: dk.array(dtype=float), y: dk.array(dtype=float)):
    i = dk.tid()
    r = dk.sqrt(x[i])
    y[i] = r


@dk.kernel
def growth(x: dk.array(dtype=float), n: int, y: dk.array(dtype=float)):
    i = dk.tid()
    v = x[i]
    for _ in range(n):
        v = v * v
    y[i] = v


@dk.kernel
def directions(x: dk.array(dtype=dk.vec3), y: dk.array(dtype=dk.vec3)):
    i = dk.tid()
    d = x[i] / dk.length(x[i])
    y[i] = d


@dk.kernel
def shortest(x: dk.array(dtype=float), y: dk.array(dtype=float)):
    i = dk.tid()
    best = dk.inf
    for k in range(3):
        best = dk.min(best, x[i] + float(k))
    y[i] = dk.min(y[i], best)


@dk.kernel
def shared(x: dk.array(dtype=float), y: dk.array(dtype=float)):
    i = dk.tid()
    s = dk.shared_array(4, dtype=float)
    k = dk.thread_index()
    s[k] = 1.0 / x[i]
    dk.syncthreads()
    y[i] = s[3 - k]


def _zeros(n: int, dtype=float) -> dk.array:
    return dk.zeros(n, dtype=dtype)


def _x(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


def _line(function, text: str) -> int:
    lines, first = inspect.getsourcelines(function)
    return first + next(k for k, line in enumerate(lines) if text in line)


@pytest.mark.parametrize(
    ("kernel", "inputs", "outputs", "thread", "text", "line"),
    [
        (logits, [_x(0.5, 0.2, 1.0)], [_zeros(3)], (2,), "the quotient becomes infinite", None),
        (logits, [_x(0.5, 0.0, 1.0)], [_zeros(3)], (1,), "v becomes infinite", None),
        (logits, [_x(0.5, np.nan)], [_zeros(2)], (1,), "p is nan where it is read", "p = x[i]"),
        (roots, [_x(1.0, -1.0)], [_zeros(2)], (1,), "r becomes nan", "dk.sqrt"),
        (growth, [_x(1.0, 1e5), 4], [_zeros(2)], (1,), "v becomes infinite", "v * v"),
        (directions, [np.eye(3, 3, 1, dtype=np.float32)], [_zeros(3, dk.vec3)], (2,), "component 0 of d", "d ="),
    ],
)
def test_the_kernel_itself(kernel, inputs, outputs, thread, text, line) -> None:
    found = find_nonfinite(kernel, outputs[0].size, inputs, outputs)
    assert found is not None
    assert (found.kernel, found.is_adjoint, found.thread) == (kernel.name, False, thread)
    assert text in found.text
    expected = _line(logit.pyfunc if line is None else kernel.func, line or "dk.log")
    assert found.loc is not None
    assert found.loc.line == expected


def test_the_adjoint() -> None:
    found = find_nonfinite(roots, 2, [_x(1.0, 0.0)], [_zeros(2)])
    assert found is not None
    assert (found.kernel, found.is_adjoint, found.thread) == ("roots", True, (1,))
    assert "adjoint of kernel 'roots', thread 1: " in str(found)
    assert found.loc is not None
    assert found.loc.line == _line(roots.func, "dk.sqrt")
    assert find_nonfinite(roots, 2, [_x(1.0, 0.0)], [_zeros(2)], adjoint=False) is None


def test_threads_of_a_block() -> None:
    found = find_nonfinite(shared, 8, [_x(*range(6, -2, -1))], [_zeros(8)], block_dim=4)
    assert found is not None
    assert (found.thread, found.text) == ((6,), "the quotient becomes infinite")
    assert found.loc is not None
    assert found.loc.line == _line(shared.func, "s[k] =")


def test_infinities_that_are_meant() -> None:
    y = dk.array(_x(np.inf, np.inf))
    assert find_nonfinite(shortest, 2, [_x(1.0, 2.0)], [y]) is None
    np.testing.assert_array_equal(y.numpy(), [np.inf, np.inf])


def test_as_an_assertion() -> None:
    assert_finite(roots, 2, [_x(1.0, 2.0)], [_zeros(2)])
    with pytest.raises(AssertionError, match=r"(?s)kernel 'roots', thread 0: r becomes nan.*dk\.sqrt"):
        assert_finite(roots, 1, [_x(-1.0)], [_zeros(1)])


def test_a_program_of_several_launches() -> None:
    def program() -> None:
        x, y = dk.array(_x(0.5, 0.5), requires_grad=True), dk.zeros(2, dtype=float, requires_grad=True)
        z = dk.zeros(2, dtype=float, requires_grad=True)
        with dk.Tape() as tape:
            dk.launch(logits, dim=2, inputs=[x, y])  # 0
            dk.launch(roots, dim=2, inputs=[y, z])
        tape.backward(grads={z: dk.ones(2, dtype=float)})

    found = find_nonfinite(program)
    assert found is not None
    assert (found.kernel, found.is_adjoint) == ("roots", True)


def test_a_block_and_the_mode_after_it() -> None:
    x, y = dk.array(_x(-1.0)), _zeros(1)
    with pytest.raises(dk.NonFiniteError, match="r becomes nan"), dk.detect_anomaly():
        dk.launch(roots, dim=1, inputs=[x, y])
    assert dk.config.mode == "release"
    dk.launch(roots, dim=1, inputs=[x, y])
    assert np.isnan(y.numpy()[0])


def test_arguments_that_do_not_fit() -> None:
    with pytest.raises(dk.MisuseError, match="pass dim"):
        find_nonfinite(roots, None, [_x(1.0)], [_zeros(1)])
    with pytest.raises(dk.MisuseError, match="a function without arguments"):
        find_nonfinite(print, 3)


@pytest.mark.parametrize("compiler", ["llvm", "numba"])
@pytest.mark.parametrize("active", [None, frozenset({0, 1})])
def test_programs_for_a_gpu(compiler, active) -> None:
    types = roots.argument_types(_x(1.0), _x(1.0))
    variant = Variant(mode="finite", target="sm_90", compiler=compiler, active=active)
    program = Compilation(roots.func, types, variant).build("roots")
    assert program.manifest.checks is not None
    said = {site.assertion for site in program.manifest.checks.sites if site.number}
    assert "r becomes nan" in said
    assert ("the quotient becomes infinite" in said) is (active is not None)
