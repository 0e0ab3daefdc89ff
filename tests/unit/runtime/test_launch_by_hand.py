"""dk.Launch put together by hand, and adjoint records that take the gradients as parameters."""

import numpy as np
import pytest

import diffkern as dk


@dk.kernel
def fill(out: dk.array(dtype=int)):
    i = dk.tid()
    out[i] = i + 1


@dk.kernel
def scaled(x: dk.array(dtype=float), s: float, v: dk.vec2, y: dk.array(dtype=float)):
    i = dk.tid()
    y[i] = s * x[i] * x[i] + v.x


def test_it_runs_with_what_is_set():
    out = dk.zeros(4, dtype=int)
    cmd = dk.Launch(fill, "cpu")
    cmd.set_dim(2)
    cmd.set_param_by_name("out", out)
    cmd.launch()
    assert out.list() == [1, 2, 0, 0]
    cmd.set_dim(4)
    cmd.launch()
    assert out.list() == [1, 2, 3, 4]
    assert (cmd.kernel, cmd.dim, cmd.is_adjoint, cmd.params) == (fill, (4,), False, (out,))


def test_values_begin_as_zeros():
    x, y = dk.ones(3), dk.ones(3)
    cmd = dk.Launch(scaled)
    cmd.set_params([x, *cmd.params[1:3], y])
    cmd.set_dim(3)
    cmd.launch()
    assert y.list() == [0, 0, 0]
    cmd.set_param_at_index(1, 2.0)
    cmd.set_param_by_name_from_ctype("y", y.__ctype__())
    cmd.set_param_at_index_from_ctype(2, dk.vec2(5.0, 0.0))
    cmd.launch()
    assert y.list() == [7, 7, 7]


def test_an_adjoint_changes_sizes_one_by_one():
    cmd = dk.Launch(scaled, adjoint=True)
    for n in (3, 5):
        x, y = dk.array(np.arange(n, dtype=np.float32), requires_grad=True), dk.zeros(n, requires_grad=True)
        cmd.set_param_at_index(0, x)
        cmd.set_param_at_index(1, 1.5)
        cmd.set_param_at_index(3, y)
        cmd.set_param_at_index(3 + 4, dk.ones(n))  # the gradient of y
        cmd.set_dim(n)
        cmd.launch()
        np.testing.assert_allclose(x.grad.numpy(), 3.0 * np.arange(n))


def test_both_halves_of_an_adjoint_record():
    x, y = dk.ones(3, requires_grad=True), dk.zeros(3, requires_grad=True)
    cmd = dk.launch(scaled, 3, [x, 2.0, dk.vec2()], [y], [None, 0.0, dk.vec2()], adjoint=True, record_cmd=True)
    ct = dk.ones(3)
    cmd.set_params([x, 3.0, dk.vec2(), y, None, 0.0, None, ct])
    cmd.launch()
    assert x.grad.list() == [6, 6, 6]
    cmd.set_param_at_index(4, dk.zeros(3))
    cmd.launch()
    assert x.grad.list() == [6, 6, 6]


def test_a_record_whose_array_is_set_later():
    y = dk.zeros(2)
    cmd = dk.launch(scaled, 2, [dk.ones(2), 2.0, dk.vec2(), None], record_cmd=True)
    cmd.set_param_by_name("y", y)
    cmd.launch()
    assert y.list() == [2, 2]


def test_what_is_refused():
    cmd = dk.Launch(scaled)
    with pytest.raises(dk.LaunchError, match="has no parameter 'z'"):
        cmd.set_param_by_name("z", 1)
    with pytest.raises(dk.LaunchError, match="has parameters 0 to 3"):
        cmd.set_param_at_index(4, 1)
    with pytest.raises(dk.LaunchError, match="takes no gradients"):
        cmd.set_param_at_index(0, dk.ones(3), adjoint=True)
    with pytest.raises(dk.LaunchError, match="takes vec2"):
        cmd.set_param_at_index(2, 1.0)
    cmd.set_dim(1)
    with pytest.raises(dk.KernelError, match="is None in this launch"):
        cmd.launch()


@dk.kernel
def faulty(x: dk.array(dtype=float), y: dk.array(dtype=float)):
    i = dk.tid()
    y[i] = x[i] + "text"


@dk.kernel
def of_any_type(x, y: dk.array(ndim=1)):
    i = dk.tid()
    y[i] = x[i] * undefined  # noqa: F821 - is what this kernel is for


def test_errors_that_have_nothing_to_do_with_none_are_raised_at_once():
    with pytest.raises(dk.KernelError) as caught:
        dk.launch(faulty, 2, [dk.ones(2), None], record_cmd=True)
    assert caught.value.loc.line == faulty.func.__code__.co_firstlineno + 3
    with pytest.raises(dk.LaunchError, match="by value"):
        dk.launch(scaled, 2, [dk.ones(2), dk.ones(2), dk.vec2(), None], record_cmd=True)
    with pytest.raises(dk.LaunchError, match="None"):
        dk.launch(scaled, 2, [dk.ones(2), None, dk.vec2(), dk.ones(2)], record_cmd=True)


def test_errors_that_need_the_missing_types_are_raised_at_the_launch():
    cmd = dk.launch(of_any_type, 2, [dk.ones(2), None], record_cmd=True)
    cmd.set_param_at_index(1, dk.zeros(2))
    with pytest.raises(dk.KernelError, match="undefined") as caught:
        cmd.launch()
    assert caught.value.loc.line == of_any_type.func.__code__.co_firstlineno + 3
    with pytest.raises(dk.LaunchError, match="parameter 'x'"):
        dk.launch(of_any_type, 2, ["text", None], record_cmd=True)


def test_an_adjoint_does_not_lose_a_gradient():
    x, y = dk.ones(3, requires_grad=True), dk.ones(3, requires_grad=True)
    cmd = dk.Launch(scaled, adjoint=True)
    cmd.set_params([x, 2.0, dk.vec2(), y])
    cmd.set_dim(3)
    cmd.launch()
    cmd.set_param_at_index(0, dk.ones(3))
    with pytest.raises(dk.LaunchError, match=r"parameter 'x'.*adds to its gradient, and the array has none"):
        cmd.launch()
    cmd.set_param_at_index(0, ct := dk.zeros(3), adjoint=True)
    y.grad.fill_(1.0)
    cmd.launch()
    assert ct.list() == [4.0] * 3
