"""Funcs whose paths do not all return: zero of the type in Warp's dialect; else refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import diffkern as dk
import diffkern.warp as wp
from diffkern.errors import KernelRuntimeError, KernelTypeError

A = wp.array(dtype=float)
X = np.array([0.5, 2.0, -2.0, 3.0], np.float32)


def run(kernel: Any, dim: int = 4) -> tuple[np.ndarray, np.ndarray]:
    """What a kernel (x, o) writes, and the gradient of the sum of it."""
    x, o = wp.array(X, requires_grad=True), wp.zeros(dim, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(kernel, dim, [x, o])
    tape.backward(grads={o: wp.ones(dim)})
    return o.numpy(), x.grad.numpy()


@wp.func
def in_branches(x: float) -> float:
    if x > 1.0:
        return x * x
    if x < -1.0:
        return -x


@wp.func
def in_a_loop(x: float):
    for k in range(3):
        if float(k) > x:
            return wp.vec2(x, float(k))
        if k == 2 and x == 2.0:
            break
    y = x  # noqa: F841


@wp.func
def by_else(x: float):
    if x > 1.0:
        if x > 2.0:
            return 1
        else:
            x = x + 1.0
    elif x < 0.0:
        return 2


@wp.func
def for_one_branch_of_nothing(x: float):
    if wp.static(False):
        return x


@wp.kernel
def values_of_funcs(x: A, o: A):
    i = wp.tid()
    v = in_a_loop(x[i])
    o[i] = in_branches(x[i]) + v[0] + 10.0 * v[1] + 100.0 * float(by_else(x[i]))


def test_the_value_is_zero_where_no_path_returns() -> None:
    values, slopes = run(values_of_funcs)
    assert values.tolist() == [10.5, 4.0, 2.0 - 2.0 + 200.0, 9.0 + 100.0]
    assert slopes.tolist() == [1.0, 4.0, 0.0, 6.0]


@wp.struct
class Held:
    a: A
    b: float


@wp.func
def struct_or_nothing(x: float, z: A):
    if x > 1.0:
        held = Held()
        held.a = z
        held.b = x
        return held


@wp.func
def array_or_nothing(x: float, z: A):
    while x > 1.0:
        return z


@wp.kernel
def structs_and_arrays(x: A, o: A):
    i = wp.tid()
    held = struct_or_nothing(x[i], x)
    z = array_or_nothing(x[i], x)
    o[i] = held.b
    if held.a:
        o[i] += held.a[0]
    if z:
        o[i] += z[1]


def test_structs_are_zero_and_arrays_null() -> None:
    values, slopes = run(structs_and_arrays)
    assert values.tolist() == [0.0, 4.5, 0.0, 5.5]
    assert slopes.tolist() == [2.0, 3.0, 0.0, 1.0]


@wp.kernel
def within_loops(x: A, o: A):
    i = wp.tid()
    total = float(0.0)  # noqa: UP018 -- a variable in Warp's dialect
    for k in range(4):
        total += in_branches(x[k])
    o[i] = total


def test_each_call_begins_with_zero() -> None:
    values, slopes = run(within_loops)
    assert values.tolist() == [15.0] * 4
    assert slopes.tolist() == [0.0, 16.0, -4.0, 24.0]


@wp.func
def decided_by_the_caller(x: float, takes: bool):
    if takes:
        return wp.vec3(x, x, x)


@wp.kernel
def never_returns(x: A, o: A):
    i = wp.tid()
    o[i] = x[i] + decided_by_the_caller(x[i], False)[1]


def test_the_type_is_known_where_this_program_returns_nothing() -> None:
    values, slopes = run(never_returns)
    assert values.tolist() == X.tolist()
    assert slopes.tolist() == [1.0] * 4


def test_a_debug_program_reports_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dk.config, "mode", "debug")
    o = wp.zeros(4)
    wp.launch(values_of_funcs, 1, [wp.array([-1.5], dtype=float), o])
    assert o.numpy()[0] == 200.0
    for x, name in ((0.0, "in_branches"), (2.5, "in_a_loop")):
        with pytest.raises(KernelRuntimeError, match=f"{name} ends without a value here, which is zero"):
            wp.launch(values_of_funcs, 1, [wp.array([x], dtype=float), o])


def refused(kernel: Any) -> str:
    with pytest.raises(KernelTypeError, match="ends without a value on some path") as caught:
        dk.launch(kernel, 1, [wp.array(X), wp.zeros(1)])
    return str(caught.value)


@wp.func
def two_values(x: float):
    if x > 1.0:
        return x, x


@wp.kernel
def call_two_values(x: A, o: A):
    a, b = two_values(x[0])
    o[0] = a + b


@wp.func
def changes_and_returns(x: float, y: wp.ref[float]):
    y = x  # noqa: F841 -- the caller's variable
    if x > 1.0:
        return x


@wp.kernel
def call_changes_and_returns(x: A, o: A):
    y = float(3.0)  # noqa: UP018 -- a variable in Warp's dialect
    z = changes_and_returns(x[0], y)
    o[0] = y + z


@dk.func
def native(x):
    if x > 1.0:
        return x


@dk.kernel
def call_native(x: dk.array(dtype=float), o: dk.array(dtype=float)):
    o[0] = native(x[0])


@pytest.mark.parametrize("kernel", [call_two_values, call_changes_and_returns, call_native])
def test_several_values_and_other_dialects_are_refused(kernel: Any) -> None:
    assert "end every path with return" in refused(kernel)
