"""Adjoints whose threads gather sums over all pairs, on a GPU: launched, taped, recorded and as graphs."""

from __future__ import annotations

import numpy as np
import pytest
from gather_runs import RUNS, N, attraction, by_hand, gradients, made
from support.fake_driver.driver import fake_cuda

import diffkern as dk
from diffkern.runtime.accumulate.adjoint import AdjointLaunch

G = "cuda:0"


@pytest.mark.parametrize("n", [N, N - 9])
@pytest.mark.parametrize("run", RUNS)
def test_the_same_as_on_the_cpu(driver, run, n):
    for here, there in zip(gradients(run, "cpu", n), gradients(run, G, n), strict=True):
        np.testing.assert_allclose(there, here, rtol=1e-4, atol=1e-5)


def test_the_cotangent_is_cleared_behind_the_launch(driver, monkeypatch):
    ran = []
    execute = AdjointLaunch.execute
    monkeypatch.setattr(AdjointLaunch, "execute", lambda self: (ran.append(self.gathers), execute(self)))
    x, m, a, e = made(G)
    by_hand(x, m, a, e)
    assert ran == [True]
    assert not a.grad.numpy().any()
    assert x.grad.numpy().any()


@pytest.mark.parametrize("native", [True, False])
def test_a_record_clears_the_cotangent(native):
    with fake_cuda(native=native):
        x, m, a, _ = made(G)
        record = dk.launch(attraction, N, inputs=[x, m, N], outputs=[a], record_cmd=True, adjoint=True)
        for _ in range(2):
            a.grad.fill_(1.0)
            record.launch()
            assert not a.grad.numpy().any()
        assert x.grad.numpy().any()


def test_a_recorded_adjoint_follows_the_number_of_trips(driver):
    x, m, a, _ = made(G)
    record = dk.launch(attraction, N, inputs=[x, m, N], outputs=[a], record_cmd=True, adjoint=True)
    for count in (N, N - 9, N):
        for array in (x.grad, m.grad):
            array.zero_()
        a.grad.fill_(1.0)
        record.set_param_by_name("n", count)
        record.launch()
        there = [x.grad.numpy().copy(), m.grad.numpy().copy()]
        y, w, b, e = made("cpu")
        by_hand(y, w, b, e, count)
        for mine, other in zip(there, (y.grad, w.grad), strict=True):
            np.testing.assert_allclose(mine, other.numpy(), rtol=1e-4, atol=1e-5)
