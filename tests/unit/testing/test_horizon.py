"""``dk.testing.horizon``: norms and cosines against closed forms, and what it refuses."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import diffkern as dk
from diffkern.errors import LaunchError, MisuseError


@dk.kernel
def scale(x: dk.array(dtype=dk.float64), rate: dk.array(dtype=dk.float64)):
    i = dk.tid()
    x[i] = rate[0] * x[i]


@dk.kernel
def jump(x: dk.array(dtype=dk.float64), rate: dk.array(dtype=dk.float64)):
    i = dk.tid()
    x[i] = rate[0] * x[i] + dk.floor(x[i] * dk.float64(1e7)) * dk.float64(1e-7)


@dk.func
def squared(v: dk.float64):
    return v * v


@dk.func_grad(squared)
def adj_squared(v: dk.float64, adj_ret: dk.float64):
    dk.adjoint[v] += -adj_ret * v


@dk.kernel
def wrong(x: dk.array(dtype=dk.float64), rate: dk.array(dtype=dk.float64)):
    i = dk.tid()
    x[i] = rate[0] * squared(x[i]) + x[i]


@dk.kernel
def add(x: dk.array(dtype=dk.float64), loss: dk.array(dtype=dk.float64)):
    dk.atomic_add(loss, 0, x[dk.tid()])


@dk.struct
class Nested:
    values: dk.array(dtype=dk.float64)


@dk.struct
class Pair:
    first: float
    second: float


@dk.kernel
def fill(held: dk.array(dtype=Nested)):
    held[0].values[dk.tid()] = dk.float64(1.0)


def inputs(n: int = 3, factor: float = 1.1) -> tuple[dk.array, dk.array, dk.array]:
    x = dk.array(np.linspace(0.5, 1.5, n), dtype=dk.float64, requires_grad=True)
    rate = dk.array([factor], dtype=dk.float64, requires_grad=True)
    return x, rate, dk.zeros(1, dtype=dk.float64, requires_grad=True)


@pytest.mark.parametrize("slots", [None, 2])
def test_norm_growth_and_state(slots: int | None) -> None:
    x, rate, loss = inputs()
    x.grad.fill_(7.0)
    start = x.numpy().copy()

    def total() -> dk.array:
        dk.launch(add, dim=3, inputs=[x, loss])
        return loss

    report = dk.testing.horizon(
        lambda k: dk.launch(scale, dim=3, inputs=[x, rate]),
        10,
        loss=total,
        inputs=[x, rate],
        horizons=[1, 3, 10],
        slots=slots,
    )
    assert [row.steps for row in report.rows] == [1, 3, 10]
    before = None
    for row in report.rows:
        n = row.steps
        assert row.loss == pytest.approx(1.1**n * start.sum(), rel=1e-12)
        norm = np.sqrt(3 * 1.1 ** (2 * n) + (n * 1.1 ** (n - 1) * start.sum()) ** 2)
        assert row.norm == pytest.approx(norm, rel=1e-12)
        assert row.cosine == pytest.approx(1.0, abs=1e-6)
        assert row.error < 1e-5
        assert row.disagreement < 1e-3
        if before is not None:
            assert row.growth == pytest.approx((row.norm / before.norm) ** (1 / (n - before.steps)), rel=1e-12)
        before = row
    assert report.trusted() == 10
    assert report.rows[0].memory <= report.rows[-1].memory
    # What the steps and the tapes changed is as it was.
    assert np.array_equal(x.numpy(), start)
    assert loss.numpy()[0] == 0.0
    assert np.array_equal(x.grad.numpy(), np.full(3, 7.0))
    assert rate.grad.numpy()[0] == 0.0


def test_a_wrong_gradient_has_no_cosine_of_one() -> None:
    x, rate, loss = inputs(3, 0.3)

    def total() -> dk.array:
        dk.launch(add, dim=3, inputs=[x, loss])
        return loss

    report = dk.testing.horizon(lambda k: dk.launch(wrong, dim=3, inputs=[x, rate]), 4, loss=total, inputs=[x, rate])
    assert report.rows[0].disagreement < 1e-4
    assert all(row.error > 0.3 for row in report.rows)
    assert report.trusted() == 0


def test_where_a_loss_jumps_differences_disagree() -> None:
    x, rate, _ = inputs(1)
    report = dk.testing.horizon(lambda k: dk.launch(jump, dim=1, inputs=[x, rate]), 2, loss=lambda: x, inputs=[x])
    # Wide steps see the slope of the stairs, which the derivative does not have.
    assert report.rows[0].error > 0.3


def test_float32_vectors() -> None:
    @dk.kernel
    def turn(p: dk.array(dtype=dk.vec2), angle: dk.array(dtype=float)):
        i = dk.tid()
        c, s = dk.cos(angle[0]), dk.sin(angle[0])
        p[i] = dk.vec2(c * p[i][0] - s * p[i][1], s * p[i][0] + c * p[i][1])

    @dk.kernel
    def along(p: dk.array(dtype=dk.vec2), loss: dk.array(dtype=float)):
        dk.atomic_add(loss, 0, p[dk.tid()][0])

    p = dk.array([(1.0, 0.0)] * 4, dtype=dk.vec2, requires_grad=True)
    angle, loss = dk.array([0.3], dtype=float, requires_grad=True), dk.zeros(1, requires_grad=True)

    def total() -> dk.array:
        dk.launch(along, dim=4, inputs=[p, loss])
        return loss

    report = dk.testing.horizon(
        lambda k: dk.launch(turn, dim=4, inputs=[p, angle]), 8, loss=total, inputs=[angle], directions=1
    )
    for row in report.rows:
        assert row.norm == pytest.approx(abs(4 * row.steps * np.sin(0.3 * row.steps)), rel=1e-4)
        assert row.cosine == 1.0
        assert row.error < 1e-2


def test_random_numbers_are_drawn_again() -> None:
    x, rate, _ = inputs(1)
    held = dk.zeros(1, dtype=dk.float64)

    def step(k: int) -> None:
        held.assign(np.random.rand(1))  # noqa: NPY002 - the global generator is what is put back
        dk.launch(add, dim=1, inputs=[held, x])
        dk.launch(scale, dim=1, inputs=[x, rate])

    report = dk.testing.horizon(step, 4, loss=lambda: x, inputs=[rate])
    assert report.trusted() == 4


def test_refusals() -> None:
    x, rate, loss = inputs()
    plain = dk.zeros(3, dtype=dk.float64)
    calls = []

    def step(k: int) -> None:
        dk.launch(scale, dim=3, inputs=[x, rate])

    def hidden(k: int) -> None:
        calls.append(k)
        plain.fill_(float(len(calls)))
        dk.launch(add, dim=3, inputs=[plain, loss])

    with pytest.raises(MisuseError, match=r"(?s)no number of steps from 1 to 0.*help: "):
        dk.testing.horizon(step, 0, loss=lambda: loss, inputs=[x])
    with pytest.raises(MisuseError, match=r"(?s)no number of steps.*help: "):
        dk.testing.horizon(step, 4, loss=lambda: loss, inputs=[x], horizons=[0, 2])
    with pytest.raises(MisuseError, match=r"(?s)arrays with gradients.*help: "):
        dk.testing.horizon(step, 4, loss=lambda: loss, inputs=[plain])
    with pytest.raises(MisuseError, match="no inputs"):
        dk.testing.horizon(step, 4, loss=lambda: loss, inputs=[])
    with pytest.raises(MisuseError, match="one direction"):
        dk.testing.horizon(step, 4, loss=lambda: loss, inputs=[x], directions=0)
    with pytest.raises(MisuseError, match="one element"):
        dk.testing.horizon(step, 4, loss=lambda: x, inputs=[x])
    with pytest.raises(MisuseError, match="from the same start"):
        dk.testing.horizon(hidden, 4, loss=lambda: loss, inputs=[x])
    with dk.Tape(), pytest.raises(MisuseError, match="a tape already"):
        dk.testing.horizon(step, 4, loss=lambda: loss, inputs=[x])
    # After an error everything is as it was.
    assert np.array_equal(x.numpy(), np.linspace(0.5, 1.5, 3))
    assert loss.numpy()[0] == 0.0


def test_arrays_in_elements_are_refused() -> None:
    x, _, loss = inputs()
    one = Nested()
    one.values = x
    held = dk.array([one], dtype=Nested)
    with pytest.raises(LaunchError, match=r"(?s)'fill' writes to arrays in elements.*help: "):
        dk.testing.horizon(lambda k: dk.launch(fill, dim=3, inputs=[held]), 2, loss=lambda: loss, inputs=[x])


def test_report_as_text_and_figure(tmp_path: Path) -> None:
    x, rate, _ = inputs(1)
    report = dk.testing.horizon(lambda k: dk.launch(scale, dim=1, inputs=[x, rate]), 2, loss=lambda: x, inputs=[x])
    lines = str(report).splitlines()
    assert len(lines) == 3
    assert lines[0].split()[:3] == ["steps", "loss", "norm"]
    assert lines[2].split()[0] == "2"
    report.plot(str(tmp_path / "horizon.png"))
    assert (tmp_path / "horizon.png").stat().st_size > 1000


def test_gradients_of_all_arrays_are_put_back_and_do_not_count() -> None:
    x, rate, loss = inputs()
    for held, value in ((x, 7.0), (rate, 3.0), (loss, 5.0)):
        held.grad.fill_(value)

    def total() -> dk.array:
        loss.zero_()
        dk.launch(add, dim=3, inputs=[x, loss])
        return loss

    for given in ([rate], [rate, x[1:]]):
        report = dk.testing.horizon(
            lambda k: dk.launch(scale, dim=3, inputs=[x, rate]), 2, loss=total, inputs=given, horizons=[2]
        )
        # d/d rate of rate**2 * 3, and rate**2 for each element
        expected = np.sqrt((2 * 1.1 * 3.0) ** 2 + (2 * 1.1**4 if len(given) > 1 else 0.0))
        assert report.rows[0].norm == pytest.approx(expected)
        assert report.rows[0].cosine == pytest.approx(1.0)
        assert [*x.grad.numpy(), *rate.grad.numpy(), *loss.grad.numpy()] == [7.0, 7.0, 7.0, 3.0, 5.0]


def test_steps_that_rounding_swallows_are_not_taken() -> None:
    @dk.kernel
    def square(p: dk.array(dtype=dk.float16), q: dk.array(dtype=dk.float16)):
        q[0] = p[0] * p[0]

    p = dk.array([1.5], dtype=dk.float16, requires_grad=True)
    q = dk.zeros(1, dtype=dk.float16, requires_grad=True)
    row = dk.testing.horizon(lambda k: dk.launch(square, dim=1, inputs=[p, q]), 1, loss=lambda: q, inputs=[p]).rows[0]
    assert row.norm == 3.0
    assert row.cosine == 1.0
    assert row.error < 0.01


def test_inputs_of_complex_numbers_and_structs_are_refused() -> None:
    loss = dk.zeros(1, dtype=dk.float64, requires_grad=True)
    for dtype in (dk.complex128, Pair):
        held = dk.zeros(2, dtype=dtype, requires_grad=True)
        with pytest.raises(MisuseError, match="inputs of floats"):
            dk.testing.horizon(lambda k: None, 1, loss=lambda: loss, inputs=[held])
