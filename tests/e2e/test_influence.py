"""A result that depends on no argument is an error in every form of derivative, and a zero that is meant stays zero."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import diffkern as dk
import diffkern.warp as wp
from diffkern.errors import LaunchError

F = dk.float64
f1 = dk.array(dtype=F)
X = np.array([1.0, 2.0, 3.0])
ONES = np.ones(3)


@dk.kernel
def add_squares(x: f1, s: f1):
    dk.atomic_add(s, 0, x[dk.tid()] * x[dk.tid()])


@dk.kernel
def add_up(x: f1, s: f1):
    dk.atomic_add(s, 0, 2.0 * x[dk.tid()])


@dk.kernel
def whole_parts(x: f1, n: dk.array(dtype=int)):
    i = dk.tid()
    n[i] = int(x[i])


@dk.kernel
def add_numbers(n: dk.array(dtype=int), s: f1):
    dk.atomic_add(s, 0, F(n[dk.tid()]))


@dk.kernel
def scale(x: f1, by: F):
    i = dk.tid()
    x[i] = by * x[i]


@dk.kernel
def stopped(x: f1, s: f1):
    dk.atomic_add(s, 0, dk.stop_gradient(x[dk.tid()]))


def total(kernel: Any, x: Any, **options: Any) -> Any:
    s = dk.zeros(1, dtype=F)
    dk.launch(kernel, x.size, [x], [s], **options)
    return s


def squares(x):
    return total(add_squares, x)


# -- forms -------------------------------------------------------------------------------------------------------------


def by_tape(f):
    x = dk.array(X, requires_grad=True)
    with dk.Tape() as tape:
        y = f(x)
    tape.backward(y)
    return x.grad.numpy()


def by_jvp(f):
    (_, change) = dk.jvp(f, (dk.array(X),), (ONES,))
    return change.numpy() * ONES / 3.0


def twice(f):
    """A gradient of a gradient of what is linear in the inner one."""
    return dk.grad(lambda x: total(add_up, dk.grad(f)(x)))(dk.array(X)).numpy()


FIRST: dict[str, Callable[[Any], Any]] = {
    "tape": by_tape,
    "grad": lambda f: dk.grad(f)(dk.array(X)).numpy(),
    "value_and_grad": lambda f: dk.value_and_grad(f)(dk.array(X))[1].numpy(),
    "vjp": lambda f: dk.vjp(f, (dk.array(X),), [1.0])[1][0].numpy(),
    "jacobian": lambda f: dk.jacobian(f, dk.array(X)),
    "reverse": lambda f: dk.jacobian(f, dk.array(X), mode="reverse"),
    "found": lambda f: dk.jacobian(f, dk.array(X), sparsity="find"),
    "jvp": by_jvp,
}
SECOND: dict[str, Callable[[Any], Any]] = {
    "hvp": lambda f: dk.hvp(f, (dk.array(X),), (ONES,))[0].numpy(),
    "hessian": lambda f: dk.hessian(f, dk.array(X)),
    "twice": twice,
    "forward over reverse": lambda f: dk.jvp(dk.grad(f), (dk.array(X),), (ONES,))[1].numpy(),
    "reverse over forward": lambda f: dk.grad(lambda x: dk.jvp(f, (x,), (dk.array(ONES),))[1])(dk.array(X)).numpy(),
    "forward over forward": lambda f: dk.jvp(lambda x: dk.jvp(f, (x,), (dk.array(ONES),))[1], (dk.array(X),), (ONES,))[
        1
    ].numpy(),
}
FORMS = FIRST | SECOND


# -- functions ---------------------------------------------------------------------------------------------------------


def through_numpy(x):
    return squares(dk.array(2.0 * x.numpy()))


def through_a_solve(x):
    return squares(dk.array(np.linalg.solve(np.eye(3) + 1.0, x.numpy())))


def through_an_assignment(x):
    y = dk.zeros(3, dtype=F)
    y.assign(2.0 * x.numpy())
    return squares(y)


def through_a_number(x):
    y = dk.ones(3, dtype=F)
    scale[3](y, float(squares(x)))
    return squares(y)


def through_a_list(x):
    return dk.array(x.list(), dtype=F)[0:1]


def through_dlpack(x):
    return squares(dk.array(np.from_dlpack(x) * 1.0))


def through_another_type(x):
    return squares(dk.array(dk.array(x, dtype=dk.float32), dtype=F))


def in_place(x):
    y = dk.clone(x)
    y.numpy()[:] = 2.0 * x.numpy()
    z = dk.array(y.numpy())
    return squares(z)


def in_steps(x):
    y = dk.zeros(3, dtype=F)
    dk.checkpoint(lambda k: y.assign(x.numpy() * (k + 1.0)), 3, 2)
    return squares(y)


def of_nothing(x):
    return squares(dk.ones(3, dtype=F))


def into_another_array(x):
    squares(x)
    return dk.zeros(1, dtype=F)


LOST = [
    through_numpy, through_a_solve, through_an_assignment, through_a_number, through_a_list, through_dlpack,
    through_another_type, in_place, in_steps, of_nothing, into_another_array,
]  # fmt: skip


@pytest.mark.parametrize("function", LOST, ids=lambda f: f.__name__)
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_a_lost_dependence_is_an_error(form, function):
    with pytest.raises(LaunchError, match=r"depends on no|no array on this tape|does not occur on the tape"):
        form(function)


def test_the_error_says_what_to_do():
    with pytest.raises(LaunchError, match="what the function returned depends on none of its arguments") as error:
        dk.grad(through_numpy)(dk.array(X))
    assert "a.numpy()" in error.value.remedy
    assert "dk.no_grad()" in error.value.remedy


def without_tape(x):
    with dk.no_grad():
        y = dk.clone(x)
        scale[3](y, 2.0)
    return squares(y)


def all_without_tape(x):
    with dk.no_grad(), dk.no_grad():
        return squares(x)


def in_a_kernel(x):
    return total(stopped, x)


def through_integers(x):
    n = dk.zeros(3, dtype=int)
    whole_parts[3](x, n)
    return total(add_numbers, n)


ZERO = [without_tape, all_without_tape, in_a_kernel, through_integers]


@pytest.mark.parametrize("function", ZERO, ids=lambda f: f.__name__)
@pytest.mark.parametrize("name", FORMS)
def test_a_zero_that_is_meant_is_zero(name, function):
    if name == "tape" and function is all_without_tape:
        with pytest.raises(LaunchError, match="does not occur on the tape"):
            by_tape(function)
        return
    assert not FORMS[name](function).any()


def unrecorded(x):
    return total(add_squares, x, record_tape=False)


@pytest.mark.parametrize("form", [f for name, f in FORMS.items() if name != "tape"])
def test_a_launch_that_is_left_out_gives_zero(form):
    assert not form(unrecorded).any()


def linear(x):
    return total(add_up, x)


def copied(x):
    return dk.clone(x)[0:1]


def printed(x):
    """What is read, and constants behind that, have no part in what is returned."""
    y = dk.clone(x)
    for _ in range(2):
        if float(squares(y)) > 0.0:
            scale[3](y, 1.0)
    dk.array(y.numpy())
    return linear(y)


@pytest.mark.parametrize(("function", "expected"), [(linear, [2.0] * 3), (copied, [1.0, 0, 0]), (printed, [2.0] * 3)])
def test_constant_derivatives_are_results(function, expected):
    for form in FIRST.values():
        found = form(function)
        if form is by_jvp:
            expected_along = [np.sum(expected) / 3.0] * 3
            np.testing.assert_allclose(found, expected_along)
        else:
            np.testing.assert_allclose(np.ravel(found), expected)
    for form in SECOND.values():
        assert not form(function).any()


def test_an_argument_without_a_part_has_a_zero_gradient():
    x, y = dk.array(X), dk.array(X)
    first, second = dk.grad(lambda x, y: squares(x))(x, y)
    assert first.numpy().any()
    assert not second.numpy().any()
    _, change = dk.jvp(lambda x, y: squares(x), (x, y), (None, ONES))
    assert change.list() == [0.0]


def test_one_of_several_results_went_through_numpy():
    x = dk.array(X)

    def function(x):
        return squares(x), through_numpy(x)

    with pytest.raises(LaunchError, match="depends on none"):
        dk.vjp(function, (x,), ([1.0], [1.0]))
    dk.vjp(function, (x,), ([1.0], None))
    with pytest.raises(LaunchError, match="depends on no"):
        dk.jvp(function, (x,), (ONES,))
    given = dk.array(X, requires_grad=True)
    with dk.Tape() as tape:
        y, z = function(given)
    with pytest.raises(LaunchError, match="depends on no array of this tape"):
        tape.backward(grads={y: [1.0], z: [1.0]})
    assert not given.grad.numpy().any()


def test_a_constant_result_beside_another_is_no_mistake():
    x, constant = dk.array(X), squares(dk.ones(3, dtype=F))
    _, (gradient,) = dk.vjp(lambda x: (squares(x), constant), (x,), ([1.0], [1.0]))
    assert gradient.list() == [2.0, 4.0, 6.0]
    _, (_, along) = dk.jvp(lambda x: (squares(x), constant), (x,), (ONES,))
    assert along.list() == [0.0]


def test_tangents_of_what_was_read():
    x, before, constant = dk.array(X), dk.zeros(3, dtype=F), dk.ones(3, dtype=F)
    with dk.Tangents({x: ONES}) as tangents:
        before.fill_(2.0)
        y = dk.clone(x)
        numbers = y.numpy()
        assert not tangents[before].numpy().any()
        assert not tangents[constant].numpy().any()
        z = dk.array(numbers)
        with pytest.raises(LaunchError, match="depends on no array that has a tangent"):
            tangents[z]
        before.fill_(float(numbers[0]))
        with pytest.raises(LaunchError, match="depends on no array that has a tangent"):
            tangents[before]
        with dk.no_grad():
            meant = dk.clone(x)
        assert not tangents[meant].numpy().any()
        assert tangents[y].list() == [1.0] * 3


def test_a_step_of_a_roll_out_that_is_left_out():
    def function(x):
        y = dk.clone(x)
        dk.checkpoint(lambda k: scale[3](y, 2.0), 3, 2)
        return squares(y)

    np.testing.assert_allclose(FORMS["grad"](function), 128.0 * X)
    np.testing.assert_allclose(FORMS["hessian"](function), 128.0 * np.eye(3))


def test_one_of_several_results_went_through_numpy_in_steps():
    def lost(x):
        y, z = dk.clone(x), dk.zeros(3, dtype=F)
        dk.checkpoint(lambda k: (scale[3](y, 2.0), z.assign(y.numpy())), 2, 1)
        return squares(y), squares(z)

    with pytest.raises(LaunchError, match="depends on none"):
        dk.vjp(lost, (dk.array(X),), ([1.0], [1.0]))


@wp.kernel
def add_squares_wp(x: wp.array(dtype=wp.float64), s: wp.array(dtype=wp.float64)):
    wp.atomic_add(s, 0, x[wp.tid()] * x[wp.tid()])


def test_in_warp_programs_it_is_a_warning():
    def function(x):
        return total(add_squares_wp, dk.array(x.numpy()))

    with pytest.warns(RuntimeWarning, match="depends on none of its arguments"):
        gradient = dk.grad(function)(dk.array(X))
    assert not gradient.numpy().any()
