"""Parts of a program that run if a number in an array is not 0, or as long as it is not: when they look at it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from support.fake_driver.driver import fake_cuda

import diffkern as dk

G = "cuda:0"


@pytest.fixture(params=["cpu", G])
def device(request: pytest.FixtureRequest) -> Iterator[str]:
    if request.param == "cpu":
        yield "cpu"
        return
    with fake_cuda():
        yield G


@dk.kernel
def set_flag(flag: dk.array(dtype=int), value: int):
    flag[0] = value


@dk.kernel
def is_below(x: dk.array(dtype=float), bound: float, flag: dk.array(dtype=int)):
    flag[0] = dk.where(x[0] < bound, 1, 0)


@dk.kernel
def double(x: dk.array(dtype=float)):
    i = dk.tid()
    x[i] = 2.0 * x[i]


def at_once(program: Callable[[], None], device: str) -> Callable[[], None]:
    return program


def replayed(program: Callable[[], None], device: str) -> Callable[[], None]:
    with dk.record(run=False) as sequence:
        program()
    return sequence.replay


def launched(program: Callable[[], None], device: str) -> Callable[[], None]:
    with dk.ScopedCapture(device) as capture:
        program()
    return capture.graph.launch


def of_a_sequence(program: Callable[[], None], device: str) -> Callable[[], None]:
    with dk.record(run=False) as sequence:
        program()
    return sequence.capture().launch


def on_a_stream(program: Callable[[], None], device: str) -> Callable[[], None]:
    def run() -> None:
        stream = dk.Stream(device)
        with dk.ScopedStream(stream):
            program()
        stream.synchronize()

    return run


WAYS = [at_once, replayed, launched, of_a_sequence, on_a_stream]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("begin", [0, 1, -3])
def test_the_condition_is_read_once(device, way, begin):
    """Each side changes the number so that the other would run too."""
    flag, x, y = dk.zeros(1, dtype=int, device=device), dk.zeros(2, device=device), dk.zeros(2, device=device)

    def on_true():
        dk.launch(set_flag, 1, [flag, 0])
        x.fill_(1.0)

    def on_false():
        flag.fill_(5)
        y.fill_(2.0)

    run = way(lambda: dk.capture_if(flag, on_true, on_false), device)
    flag.fill_(begin)
    run()
    expected = ([1.0, 1.0], [0.0, 0.0], [0]) if begin else ([0.0, 0.0], [2.0, 2.0], [5])
    assert (x.list(), y.list(), flag.list()) == expected


@pytest.mark.parametrize("way", WAYS)
def test_one_side_alone(device, way):
    flag, x = dk.zeros(1, dtype=int, device=device), dk.zeros(1, device=device)
    run = way(lambda: dk.capture_if(flag, None, lambda: (x.fill_(3.0), flag.fill_(1))), device)
    run()
    assert x.list() == [3.0]
    x.zero_()
    run()
    assert x.list() == [0.0]


@pytest.mark.parametrize("way", WAYS[:4])
def test_conditions_in_each_other(device, way):
    """An inner condition is what the outer side has made of it; the outer one is what it was."""
    outer, inner = dk.ones(1, dtype=int, device=device), dk.zeros(1, dtype=int, device=device)
    rounds, found = dk.full(1, 3, dtype=int, device=device), dk.ones(3, device=device)

    def on_true():
        outer.zero_()
        inner.fill_(1)
        dk.capture_if(inner, lambda: (inner.zero_(), found[0:1].fill_(7.0)), lambda: found[1:2].fill_(7.0))
        dk.capture_while(rounds, lambda: (dk.launch(double, 1, [found[2:3]]), dk.launch(count_down, 1, [rounds])))

    run = way(lambda: dk.capture_if(outer, on_true, lambda: found.fill_(-1.0)), device)
    run()
    assert found.list() == [7.0, 1.0, 8.0]
    run()
    assert found.list() == [-1.0] * 3


@dk.kernel
def count_down(left: dk.array(dtype=int)):
    left[0] = left[0] - 1


@pytest.mark.parametrize("way", WAYS[:4])
def test_a_loop_reads_it_before_each_round(device, way):
    x, flag = dk.zeros(1, device=device), dk.zeros(1, dtype=int, device=device)

    def program():
        dk.launch(is_below, 1, [x, 10.0, flag])
        dk.capture_while(flag, lambda: (dk.launch(double, 1, [x]), dk.launch(is_below, 1, [x, 10.0, flag])))

    run = way(program, device)
    for begin, end in ((1.0, 16.0), (3.0, 12.0), (11.0, 11.0)):
        x.fill_(begin)
        run()
        assert x.list() == [end]


@pytest.mark.parametrize("begin", [0, 1])
def test_versions_say_that_either_side_may_have_run(begin):
    flag, x, y = dk.full(1, begin, dtype=int), dk.zeros(1), dk.zeros(1)
    before = x._memory.now, y._memory.now
    dk.capture_if(flag, lambda: x.fill_(1.0), lambda: y.fill_(1.0))
    assert x._memory.now > before[0]
    assert y._memory.now > before[1]


def test_a_condition_stays_behind_what_sets_it():
    flag, x, y = dk.zeros(1, dtype=int), dk.zeros(1), dk.zeros(1)
    with dk.record(run=False) as sequence:
        y.fill_(1.0)
        dk.launch(set_flag, 1, [flag, 1])
        dk.capture_if(flag, lambda: x.fill_(1.0), lambda: x.fill_(2.0))
        flag.zero_()
    assert sequence.dependencies()[2] == {1}
    assert sequence.dependencies()[3] == {1, 2}
    for order in ([0, 2, 1, 3], [0, 1, 3, 2]):
        with pytest.raises(ValueError, match="must stay behind"):
            sequence.reorder(order)
    sequence.reorder([1, 2, 0, 3]).replay()
    assert x.list() == [1.0]


def test_a_graph_runs_a_condition_behind_what_sets_it():
    for seed in range(5):
        with fake_cuda(seed=seed):  # runs what may run in any order
            flag, x, y = dk.zeros(1, dtype=int, device=G), dk.zeros(1, device=G), dk.zeros(1, device=G)
            with dk.ScopedCapture(G) as capture:
                dk.launch(set_flag, 1, [flag, 1])
                dk.capture_if(flag, lambda x=x: x.fill_(1.0), lambda x=x: x.fill_(2.0))
                dk.launch(set_flag, 1, [flag, 0])
                dk.copy(y, x)
            capture.graph.launch()
            assert (x.list(), y.list(), flag.list()) == ([1.0], [1.0], [0])


@dk.kernel
def grow(x: dk.array(dtype=float), rate: dk.array(dtype=float)):
    i = dk.tid()
    x[i] = x[i] + rate[0] * x[i] * x[i]


@dk.kernel
def total(x: dk.array(dtype=float), loss: dk.array(dtype=float)):
    loss[0] += x[dk.tid()]


def grown(start: dk.array, rate: dk.array, bound: float, device: str) -> dk.array:
    """The sum of numbers that grow in rounds until the first one has reached a bound, and once more if it is large."""
    flag, x = dk.ones(1, dtype=int, device=device), dk.clone(start)
    loss = dk.zeros(1, dtype=float, device=device, requires_grad=True)

    def one_round() -> None:
        dk.launch(grow, len(x), [x, rate])
        dk.launch(is_below, 1, [x, bound, flag])

    dk.capture_while(flag, one_round)
    dk.launch(set_flag, 1, [flag, int(bound > 2.0)])
    dk.capture_if(flag, lambda: dk.launch(grow, len(x), [x, rate]), lambda: dk.launch(double, len(x), [x]))
    dk.launch(total, len(x), [x, loss])
    return loss


def expected(start: list[float], rate: float, bound: float) -> tuple[float, list[float], float, int]:
    """The sum, its derivatives with respect to the numbers at the start and the rate, and the number of rounds."""
    x, by_start, by_rate, rounds = list(start), [1.0] * len(start), [0.0] * len(start), 0
    while rounds == 0 or x[0] < bound or rounds < 0:
        by_rate = [(1.0 + 2.0 * rate * v) * d + v * v for v, d in zip(x, by_rate, strict=True)]
        by_start = [(1.0 + 2.0 * rate * v) * d for v, d in zip(x, by_start, strict=True)]
        x = [v + rate * v * v for v in x]
        rounds += 1
    if bound > 2.0:
        by_rate = [(1.0 + 2.0 * rate * v) * d + v * v for v, d in zip(x, by_rate, strict=True)]
        by_start = [(1.0 + 2.0 * rate * v) * d for v, d in zip(x, by_start, strict=True)]
        x = [v + rate * v * v for v in x]
    else:
        by_rate, by_start, x = ([2.0 * v for v in of] for of in (by_rate, by_start, x))
    return sum(x), by_start, sum(by_rate), rounds


@pytest.mark.parametrize("bound", [0.1, 1.0, 2.5])
def test_each_round_on_a_tape_is_differentiated(bound, device):
    start = [0.5, 0.3, -0.2]
    value, by_start, by_rate, _ = expected(start, 0.25, bound)
    x = dk.array(start, dtype=float, device=device, requires_grad=True)
    rate = dk.array([0.25], dtype=float, device=device, requires_grad=True)
    with dk.Tape() as tape:
        loss = grown(x, rate, bound, device)
    tape.backward(loss)
    assert loss.list() == pytest.approx([value], rel=1e-5)
    assert x.grad.list() == pytest.approx(by_start, rel=1e-5)
    assert rate.grad.list() == pytest.approx([by_rate], rel=1e-5)


def test_a_graph_whose_rounds_are_differentiated(device):
    x = dk.array([0.5, 0.3], dtype=float, device=device, requires_grad=True)
    rate, flag = dk.array([0.25], dtype=float, device=device, requires_grad=True), dk.ones(1, dtype=int, device=device)
    with dk.ScopedCapture(device) as capture:
        dk.launch(grow, len(x), [x, rate])
        dk.launch(is_below, 1, [x, 1.0, flag])
    with dk.Tape() as tape:
        dk.capture_while(flag, capture.graph)
    seed = dk.ones_like(x)
    tape.backward(grads={x: seed})
    values, by_start, by_rate = [0.5, 0.3], [1.0, 1.0], [0.0, 0.0]
    while values[0] < 1.0:
        by_rate = [(1.0 + 0.5 * v) * d + v * v for v, d in zip(values, by_rate, strict=True)]
        by_start = [(1.0 + 0.5 * v) * d for v, d in zip(values, by_start, strict=True)]
        values = [v + 0.25 * v * v for v in values]
    assert x.list() == pytest.approx(values, rel=1e-5)
    assert x.grad.list() == pytest.approx(by_start, rel=1e-5)
    assert rate.grad.list() == pytest.approx([sum(by_rate)], rel=1e-5)


def test_each_round_of_a_function_is_differentiated(device):
    start = [0.5, 0.3, -0.2]
    value, by_start, by_rate, rounds = expected(start, 0.25, 1.5)
    assert rounds > 3
    x = dk.array(start, dtype=float, device=device)
    rate = dk.array([0.25], dtype=float, device=device)
    gradients = dk.grad(lambda x, rate: grown(x, rate, 1.5, device))(x, rate)
    assert gradients[0].list() == pytest.approx(by_start, rel=1e-5)
    assert gradients[1].list() == pytest.approx([by_rate], rel=1e-5)
    out, tangent = dk.jvp(lambda rate: grown(x, rate, 1.5, device), [rate], [dk.ones_like(rate)])
    assert (out.list(), tangent.list()) == (pytest.approx([value], rel=1e-5), pytest.approx([by_rate], rel=1e-5))


@pytest.mark.parametrize("condition", [dk.capture_if, dk.capture_while])
def test_derivatives_of_a_recording_are_refused_before_anything_is_recorded(condition):
    flag, x = dk.ones(1, dtype=int), dk.ones(1, requires_grad=True)
    called: list[int] = []
    with dk.Tape(), dk.record(), pytest.raises(dk.LaunchError, match="has no adjoint"):
        condition(flag, lambda: called.append(dk.launch(double, 1, [x]) or 1))
    assert not called
    assert x.list() == [1.0]


def test_a_sequence_with_a_condition_has_no_adjoint():
    flag, x = dk.ones(1, dtype=int), dk.ones(1, requires_grad=True)
    with dk.record(run=False) as sequence:
        dk.capture_if(flag, lambda: dk.launch(double, 1, [x]))
    with pytest.raises(dk.LaunchError, match="has no adjoint"):
        sequence.adjoint(x)
