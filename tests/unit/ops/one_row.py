"""What a function of one row can do; run by ``test_one_row`` with a package that has the row of ``exp10``.

``python one_row.py FILE CHECK…`` writes to FILE, as JSON, what went wrong with each check: an empty text if nothing.
"""

from __future__ import annotations

import io
import json
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

import numpy as np
import reference
import typing_stub
from support.simulated import Simulated

import diffkern as dk
from diffkern.ad.rules import RULES
from diffkern.analysis.cuda_plan import finalize_updates
from diffkern.compiler.compilation import Compilation
from diffkern.lang.intrinsics import INTRINSICS
from diffkern.printing import prims
from diffkern.testing import gradcheck
from diffkern.testing.gradcheck import Vjp
from diffkern.testing.programs import Interpreted

CHECKS: dict[str, Callable[[], None]] = {}
LN10 = np.log(10.0)


def check(function: Callable[[], None]) -> Callable[[], None]:
    CHECKS[function.__name__] = function
    return function


@dk.kernel
def powers(x: dk.array(dtype=dk.float64), y: dk.array(dtype=dk.float64)):
    i = dk.tid()
    y[i] = dk.exp10(x[i]) * x[i]


@dk.kernel
def single(x: dk.array(dtype=float), y: dk.array(dtype=float)):
    i = dk.tid()
    y[i] = dk.exp10(x[i])


@dk.kernel
def chosen(x: dk.array(dtype=float), y: dk.array(dtype=float)):
    i = dk.tid()
    t = dk.exp10(x[i])
    y[i] = dk.where(x[i] < 30.0, t, x[i])


@dk.kernel
def literal(y: dk.array(dtype=float)):
    y[dk.tid()] = dk.exp10(2.0)


def _points() -> list[np.ndarray]:
    return [np.array([-1.5, 0.0, 0.25, 1.75]), np.zeros(4)]


@check
def forward() -> None:
    for kernel, dtype, rtol in ((powers, np.float64, 1e-13), (single, np.float32, 1e-6)):
        x, y = dk.array(_points()[0].astype(dtype)), dk.zeros(4, dtype=dtype)
        dk.launch(kernel, dim=4, inputs=[x], outputs=[y])
        expected = 10.0 ** _points()[0] * (_points()[0] if kernel is powers else 1.0)
        np.testing.assert_allclose(y.numpy(), expected, rtol=rtol)


@check
def adjoint_against_central_differences() -> None:
    report = gradcheck(powers, 4, _points())
    assert not report.kinks, report


@check
def nothing_comes_from_an_untaken_branch() -> None:
    x = dk.array(np.array([1.0, 1e5], np.float32), requires_grad=True)  # where the power is infinite
    y = dk.zeros(2, requires_grad=True)
    with dk.Tape() as tape:
        dk.launch(chosen, dim=2, inputs=[x], outputs=[y])
    tape.backward(grads={y: dk.array(np.ones(2, np.float32))})
    np.testing.assert_allclose(x.grad.numpy(), [10.0 * LN10, 1.0], rtol=1e-6)
    tape.zero()
    tape.backward(grads={y: dk.array(np.array([1.0, 0.0], np.float32))})
    assert x.grad.numpy()[1] == 0.0


@check
def host_call() -> None:
    assert dk.exp10(2.0) == 100.0


@check
def literals_are_folded() -> None:
    code = [line for line in literal.source().splitlines() if not line.strip().startswith("#")]
    assert not any("exp10" in line for line in code)
    assert any("100.0" in line for line in code)


def rule_is_a_function() -> None:
    assert RULES["exp10"].__name__ == "_exp10"


CHECKS["rule_is_a_function"] = rule_is_a_function  # of a package with the rule


def _vjp() -> Vjp:
    return Vjp(Compilation(powers.func, powers.argument_types()).forward)


def _agree(primal: type, vjp: Vjp) -> None:
    """A way to run functions gives what compiled code gives."""
    weights = vjp.weights(_points(), np.random.default_rng(0))
    expected = vjp.gradients((4,), _points(), weights)
    compiled, other = _points(), _points()
    vjp.primal_program.run((4,), compiled)
    run = vjp.running(primal, primal)
    run.primal_program.run((4,), other)
    np.testing.assert_allclose(other[1], compiled[1], rtol=1e-13)
    for i, gradient in run.gradients((4,), _points(), weights).items():
        np.testing.assert_allclose(gradient, expected[i], rtol=1e-13)


@check
def readable_source() -> None:
    assert "exp10(x[i])" in powers.source()
    assert "import exp10" in powers.adjoint_source()
    assert prims.exp10(np.float32(1e5)) == np.inf
    assert isinstance(prims.exp10(np.float32(2.0)), np.float32)
    _agree(Interpreted, _vjp())


@check
def cuda_source() -> None:
    assert "exp10(x[i])" in powers.source(target="cuda")
    vjp = _vjp()
    finalize_updates(vjp.adjoint.fn, vjp.adjoint.buffers, vjp.adjoint.conflicts)
    _agree(Simulated, vjp)


@check
def ptx() -> None:
    for adjoint in (False, True):
        text = dk.compile(powers, target="sm_90", adjoint=adjoint).ptx
        assert ".entry" in text
        assert "call" not in text  # libdevice's function is inlined


@check
def documentation() -> None:
    assert ".. py:function:: exp10(x)" in "\n".join(reference.entry(INTRINSICS["exp10"]))
    assert "def exp10(x: float) -> float:" in typing_stub.stub()
    assert str(dk.exp10.__doc__).startswith("exp10(x)\n\n")
    assert "\n>>> dk.exp10(0.5)\n3.16" in str(dk.exp10.__doc__)


def main() -> None:
    wrong = {}
    for name in sys.argv[2:]:
        text = io.StringIO()
        try:
            CHECKS[name]()
        except BaseException:
            traceback.print_exc(file=text)
        wrong[name] = text.getvalue()
    Path(sys.argv[1]).write_text(json.dumps(wrong), encoding="utf-8")


if __name__ == "__main__":
    main()
