"""diffkern.testing.run_in_python: what compiled code computes, and where the debugger stops."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import diffkern as dk
from diffkern.testing import run_in_python

ROOT = Path(__file__).parents[3]


@dk.kernel
def accumulate(x: dk.array(dtype=float), a: float, y: dk.array(dtype=float)):
    i = dk.tid()
    s = x[i]
    for _ in range(3):
        s = s * s + a
    y[i] = s


X = np.float32([0.25, -0.5, 0.75])


def test_forward_is_that_of_the_compiled_code():
    y = np.zeros(3, np.float32)
    found = run_in_python(accumulate, 3, [X, 0.5], [y])
    np.testing.assert_array_equal(y, 0)
    dk.launch(accumulate, dim=3, inputs=[X, 0.5], outputs=[y])
    np.testing.assert_allclose(found["y"], y, rtol=1e-6)


def test_gradients_are_those_of_the_tape():
    x, y = dk.array(X, requires_grad=True), dk.zeros(3, requires_grad=True)
    with dk.Tape() as tape:
        dk.launch(accumulate, dim=3, inputs=[x, 0.5], outputs=[y])
    tape.backward(grads={y: dk.ones(3)})
    found = run_in_python(accumulate, 3, [x, 0.5], [y], cotangents={"y": np.ones(3)})
    np.testing.assert_allclose(found["x"], x.grad.numpy(), rtol=1e-5)
    assert found["a"] > 0


def test_unknown_cotangent():
    with pytest.raises(ValueError, match="no parameter 'z'; it has x, a, y"):
        run_in_python(accumulate, 3, [X, 0.5], [np.zeros(3, np.float32)], cotangents={"z": 1.0})


def test_a_thread_that_leaves_an_array_is_seen():
    with pytest.raises(IndexError):
        run_in_python(accumulate, 4, [X, 0.5], [np.zeros(4, np.float32)])


def test_debugger_stops_at_the_first_line_of_each_thread(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        "import numpy as np, diffkern as dk\n"
        "from diffkern.testing import run_in_python\n"
        "@dk.kernel\n"
        "def double(x: dk.array(dtype=float), y: dk.array(dtype=float)):\n"
        "    i = dk.tid()\n"
        "    y[i] = 2.0 * x[i]\n"
        "one = np.ones(2, np.float32)\n"
        "print(run_in_python(double, 2, [one], [one], debug=True)['y'])\n"
        "import signal\n"
        "assert signal.getsignal(signal.SIGINT) is signal.default_int_handler\n"
    )
    # A shell that starts this in the background has Ctrl-C ignored; Python then installs no handler.
    command = [
        sys.executable,
        "-c",
        f"import runpy, signal; signal.signal(2, signal.default_int_handler); runpy.run_path({str(program)!r})",
    ]
    done = subprocess.run(
        command,
        input="next\ncontinue\ncontinue\n",
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("-> i = tid[0]") == 2
    assert "-> y[i] = " in done.stdout
    assert done.stdout.rstrip().endswith("[2. 2.]")


def test_breakpoint_enters_the_debugger(monkeypatch):
    stops = []

    @dk.kernel
    def stopping(x: dk.array(dtype=float), y: dk.array(dtype=float)):
        i = dk.tid()
        if x[i] > 1.5:
            breakpoint()  # noqa: T100
        y[i] = 2.0 * x[i]

    monkeypatch.setattr(sys, "breakpointhook", lambda: stops.append(sys._getframe(1).f_locals["i"]))
    x, y = dk.array(np.arange(4.0, dtype=np.float32), requires_grad=True), dk.zeros(4, requires_grad=True)
    assert run_in_python(stopping, 4, [x], [y])["y"].tolist() == [0.0, 2.0, 4.0, 6.0]
    assert stops == [2, 3]
    gradients = run_in_python(stopping, 4, [x], [y], cotangents={"y": np.ones(4)})
    assert gradients["x"].tolist() == [2.0] * 4
    dk.launch(stopping, 4, [x], [y])
    assert stops == [2, 3] * 2


def test_complex_numbers_in_python():
    @dk.kernel
    def squares(z: dk.array(dtype=dk.complex64), s: dk.complex64, out: dk.array(dtype=dk.complex64)):
        i = dk.tid()
        out[i] = s * z[i] * z[i]

    z, out = dk.array([1j, 2.0], dtype=dk.complex64), dk.zeros(2, dtype=dk.complex64)
    assert run_in_python(squares, 2, [z, 2j], [out])["out"].tolist() == [-2j, 8j]
    gradients = run_in_python(squares, 2, [z, 2j], [out], cotangents={"out": [1.0, 1.0]})
    assert gradients["z"].tolist() == [-4 + 0j, -8j]
