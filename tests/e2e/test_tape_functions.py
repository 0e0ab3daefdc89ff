"""Tapes: functions of the user's in the reverse sweep, scopes, pictures, gradients of structs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import diffkern as dk
from diffkern.errors import LaunchError, MisuseError


@dk.kernel
def double(x: dk.array(dtype=float), y: dk.array(dtype=float)):
    i = dk.tid()
    y[i] = 2.0 * x[i]


@dk.struct
class Inner:
    a: dk.array(dtype=float)


@dk.struct
class Outer:
    inner: Inner
    b: dk.array(dtype=float)
    n: int


@dk.kernel
def multiply(s: Outer, out: dk.array(dtype=float)):
    i = dk.tid()
    out[i] = s.inner.a[i] * s.b[i]


def smooth(*values: float) -> Any:
    return dk.array(np.array(values, dtype=np.float32), requires_grad=True)


def squared(tape: Any, x: Any, y: Any) -> None:
    """Not on the tape: y = x², with its derivative."""
    y.assign(x.numpy() ** 2)

    def backward() -> None:
        x.grad.assign(x.grad.numpy() + 2 * x.numpy() * y.grad.numpy())
        y.grad.zero_()

    tape.record_func(backward, arrays=[x, y])


def test_a_function_takes_part_in_the_sweep_at_its_place() -> None:
    x, y, z, w = smooth(1, 2, 3), smooth(0, 0, 0), smooth(0, 0, 0), smooth(0, 0, 0)
    tape = dk.Tape()
    with tape:
        dk.launch(double, dim=3, inputs=[x, y])
    squared(tape, y, z)
    with tape:
        dk.launch(double, dim=3, inputs=[z, w])
    np.testing.assert_array_equal(w.numpy(), [8, 32, 72])
    for times in (1, 2, 3):
        tape.backward(grads={w: dk.ones(3)})
        np.testing.assert_array_equal(x.grad.numpy(), times * np.array([16, 32, 48]))
    assert len(tape.launches) == 3


def test_a_function_needs_arrays_with_gradients() -> None:
    with pytest.raises(LaunchError, match="has no gradient"):
        dk.Tape().record_func(lambda: None, [dk.zeros(3)])


def test_gradients_of_structs() -> None:
    s = Outer(Inner(smooth(1, 2)), smooth(3, 4), 2)
    out = smooth(0, 0)
    with dk.Tape() as tape:
        dk.launch(multiply, dim=2, inputs=[s, out])
    tape.backward(grads={out: dk.ones(2)})
    np.testing.assert_array_equal(tape.gradients[s].inner.a.numpy(), [3, 4])
    np.testing.assert_array_equal(tape.get_adjoint(s).b.numpy(), [1, 2])
    assert tape.gradients[out] is out.grad
    assert tape.get_adjoint(dk.zeros(2)) is None
    tape.reset()
    np.testing.assert_array_equal(tape.gradients[s].b.numpy(), [0, 0])
    with pytest.raises(MisuseError):
        tape.get_adjoint(3)


def test_pictures(tmp_path: Path) -> None:
    x, y = smooth(1, 2), smooth(0, 0)
    tape = dk.Tape()
    with tape:
        tape.record_scope_begin("steps", {"count": 16})
        for _ in range(16):
            dk.launch(double, dim=2, inputs=[x, y])
        tape.record_scope_end()
        tape.record_scope_begin("nothing")
        tape.record_scope_end()
    text = tape.visualize(tmp_path / "tape.dot", array_labels={x: "the input"}, track_outputs=[y])
    assert text == (tmp_path / "tape.dot").read_text()
    assert text.count("double") == 1
    for part in ("repeated 16x", "steps\\ncount: 16", "the input", "array: dtype=float32", "#f8dcd0"):
        assert part in text
    assert "nothing" not in text
    assert text.count("{") == text.count("}")
    assert tape.visualize(simplify_graph=False, ignore_graph_scopes=True).count('label="double"') == 16
    assert "invis" in tape.visualize(hide_readonly_arrays=True)
    with pytest.raises(RuntimeError, match="no scope"):
        tape.record_scope_end()
