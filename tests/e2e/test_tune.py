"""``dk.tune``: what it measures and leaves as it was, the choice it makes of readings, and what the cache keeps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import diffkern as dk
import diffkern.cuda as dc
import diffkern.warp as wp
from diffkern.tuning.trial import Trial

N = 300
RNG = np.random.default_rng(11)
VALUES = RNG.uniform(0.5, 2.0, N).astype(np.float32)
PLACES = RNG.integers(0, 20, N).astype(np.int32)
QUICK: dict[str, Any] = {"seconds": 0.0}


@dk.kernel
def spread(x: dk.array(dtype=float), at: dk.array(dtype=int), y: dk.array(dtype=float)):
    i = dk.tid()
    dk.atomic_add(y, at[i], dk.exp(x[i]))


@dk.kernel
def take_places(counter: dk.array(dtype=int), out: dk.array(dtype=int)):
    i = dk.tid()
    k = dk.atomic_add(counter, 0, 1)
    out[k] = i


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dk.config, "cache_dir", str(tmp_path))


@pytest.fixture
def given() -> tuple[Any, Any, Any]:
    """The arguments of `spread`."""
    return dk.array(VALUES, requires_grad=True), dk.array(PLACES), dk.full(20, 3.0, requires_grad=True)


def _read(monkeypatch: pytest.MonkeyPatch, seconds: Any) -> list[Any]:
    """Give each candidate the time that a function of its options says; return those that run."""
    ran: list[Any] = []

    def run(self: Trial, contents: Any) -> None:
        ran.append(self.kernel.options)
        self.seconds.append(seconds(self.kernel.options))

    monkeypatch.setattr(Trial, "run", run)
    return ran


def test_arrays_hold_afterwards_what_they_held(given):
    x, at, y = given
    y.grad.fill_(2.0)
    x.grad.fill_(5.0)
    for adjoint in (False, True):
        made = dk.tune(spread, N, [x, at], [y], adjoint=adjoint, **QUICK)
        assert min(row.launches for row in made.rows) >= 3
        np.testing.assert_array_equal(y.numpy(), 3.0)
        np.testing.assert_array_equal(y.grad.numpy(), 2.0)
        np.testing.assert_array_equal(x.grad.numpy(), 5.0)


def test_each_launch_begins_with_the_contents_of_the_first():
    # The second launch would write behind the end of `out` if the counter went on.
    counter, out = dk.zeros(1, dtype=int), dk.full(N, -1, dtype=int)
    debug = take_places.with_options(mode="debug")
    made = dk.tune(debug, N, [counter], [out], **QUICK)
    assert counter.numpy()[0] == 0
    assert (out.numpy() == -1).all()
    made.kernel[N](counter, out)
    assert sorted(out.numpy()) == list(range(N))


def test_arrays_of_numpy_are_put_back_too():
    y = np.full(20, 7.0, np.float32)
    dk.tune(spread, N, [VALUES, PLACES], [y], **QUICK)
    assert (y == 7.0).all()


def test_contents_are_put_back_if_a_candidate_fails(given, monkeypatch):
    x, at, y = given
    real = Trial.run

    def failing(self: Trial, contents: Any) -> None:
        real(self, contents)
        if self.kernel.options.lanes:
            raise KeyboardInterrupt

    monkeypatch.setattr(Trial, "run", failing)
    with pytest.raises(KeyboardInterrupt):
        dk.tune(spread, N, [x, at], [y], **QUICK)
    np.testing.assert_array_equal(y.numpy(), 3.0)


@pytest.mark.parametrize(
    ("times", "options"),
    [
        ({True: 1.0, False: 4.0, None: 2.0}, {"lanes": True}),
        ({True: 3.0, False: 1.0, None: 2.0}, {"lanes": False}),
        ({True: 1.95, False: 2.0, None: 2.0}, {}),  # within the noise
    ],
)
def test_the_fastest_is_chosen(given, monkeypatch, times, options):
    x, at, y = given
    _read(monkeypatch, lambda o: times[o.lanes])
    made = dk.tune(spread, N, [x, at], [y], options={"lanes": (True, False)}, **QUICK)
    assert made.options == options
    assert made.kernel.options.lanes == options.get("lanes")
    assert made.speedup == 2.0 / times[options.get("lanes")]
    assert [row.options["lanes"] for row in made.rows[1:]] == [True, False]


def test_options_are_tried_from_what_was_best_before(given, monkeypatch):
    x, at, y = given
    _read(monkeypatch, lambda o: (1.0 if o.lanes else 2.0) * (0.5 if o.private_copies is False else 1.0))
    made = dk.tune(spread, N, [x, at], [y], **QUICK)
    assert made.options == {"lanes": True, "private_copies": False}
    assert made.speedup == 4.0
    assert str(made).splitlines()[0] == "spread: lanes=True, private_copies=False"


def test_a_choice_is_known_the_next_time(given, monkeypatch):
    x, at, y = given
    ran = _read(monkeypatch, lambda o: 1.0 if o.lanes else 2.0)
    tune = dk.tune(spread, N, [x, at], [y], **QUICK)
    count = len(ran)
    again = dk.tune(spread.with_options(), N, [x, at], [y], **QUICK)
    assert len(ran) == count
    assert again.options == tune.options
    assert again.kernel.options.lanes
    assert again.rows == ()
    assert np.isnan(again.speedup)
    assert "known from the cache" in str(again)
    # Other sizes, candidates, directions, options of its own, or the wish for it: measured.
    longer = dk.zeros(21)
    for other in (
        lambda: dk.tune(spread, N - 1, [x, at], [y], **QUICK),
        lambda: dk.tune(spread, N, [x, at], [longer], **QUICK),
        lambda: dk.tune(spread, N, [x, at], [y], options={"lanes": (True,)}, **QUICK),
        lambda: dk.tune(spread, N, [x, at], [y], adjoint=True, **QUICK),
        lambda: dk.tune(spread.with_options(fast_math=True), N, [x, at], [y], **QUICK),
        lambda: dk.tune(spread, N, [x, at], [y], again=True, **QUICK),
    ):
        count = len(ran)
        other()
        assert len(ran) > count


def test_the_tuned_kernel_computes_the_same(given):
    x, at, y = given
    made = dk.tune(spread, N, [x, at], [y], **QUICK).kernel
    expected = np.full(20, 3.0)
    np.add.at(expected, PLACES, np.exp(VALUES.astype(np.float64)))
    for kernel in (spread, made, spread.with_options(private_copies=False), spread.with_options(lanes=True)):
        y.fill_(3.0)
        x.grad.zero_()
        with dk.Tape() as tape:
            kernel[N](x, at, y)
        np.testing.assert_allclose(y.numpy(), expected, rtol=1e-5)
        tape.backward(grads={y: dk.ones(20)})
        np.testing.assert_allclose(x.grad.numpy(), np.exp(VALUES), rtol=1e-6)


def test_without_private_copies_threads_add_atomically():
    @dk.kernel
    def gather(x: dk.array(dtype=float), at: dk.array(dtype=int), y: dk.array(dtype=float)):
        i = dk.tid()
        y[i] = x[at[i]] * x[at[i]]

    types = dk.array(dtype=float), dk.array(dtype=int), dk.array(dtype=float)
    for kernel, expected in ((gather, True), (gather.with_options(private_copies=False), False)):
        keys = tuple(dk.compile(kernel, types, target="cpu", adjoint=True).manifest.params)
        conflicts = [p.conflict.private for p in keys if p.conflict is not None and p.conflict.kind == "general"]
        assert conflicts == [expected]
    for kernel, expected in ((spread, 1), (spread.with_options(private_copies=False), 0)):
        assert len(dk.compile(kernel, types, target="cpu").manifest.added) == expected


def test_kernels_of_other_dialects():
    @wp.kernel
    def double(x: wp.array(dtype=float), y: wp.array(dtype=float)):
        i = wp.tid()
        y[i] = 2.0 * x[i]

    other = double.with_options(lanes=True)
    assert type(other) is type(double)
    assert other.options.lanes
    assert other.module is double.module
    x, y = wp.array(VALUES), wp.zeros(N)
    dk.tune(double, N, [x], [y], **QUICK).kernel[N](x, y)
    np.testing.assert_array_equal(y.numpy(), 2 * VALUES)


@pytest.mark.usefixtures("driver")
def test_on_a_gpu():
    x, at, y = dk.array(VALUES, device="cuda"), dk.array(PLACES, device="cuda"), dk.zeros(20, device="cuda")
    made = dk.tune(spread, N, [x, at], [y], options={"block_dim": (64, 1024), "max_registers": (32,)}, **QUICK)
    assert [row.options.get("block_dim", 256) for row in made.rows[:3]] == [256, 64, 1024]
    assert made.rows[-1].options["max_registers"] == 32
    np.testing.assert_array_equal(y.numpy(), 0.0)
    made.kernel[N](x, at, y)
    assert y.numpy().sum() == pytest.approx(np.exp(VALUES).sum(), rel=1e-5)

    @dk.kernel
    def blocks(y: dk.array(dtype=float)):
        i = dk.tid()
        shared = dk.shared_array(shape=256, dtype=float)
        shared[i % 256] = 1.0
        dk.syncthreads()
        y[i] = shared[255 - i % 256]

    tried = dk.tune(blocks, 256, [], [dk.zeros(256, device="cuda")], **QUICK).rows
    assert all("block_dim" not in row.options for row in tried)


def test_refusals(given):
    x, at, y = given

    @dk.kernel
    def printing(y: dk.array(dtype=float)):
        print(y[0])

    @dc.jit
    def numbas(y):
        y[0] = 1.0

    def tune(kernel: Any = spread, arguments: Any = None, **more: Any) -> None:
        dk.tune(kernel, N, [x, at, y] if arguments is None else arguments, **QUICK, **more)

    with pytest.raises(dk.MisuseError, match="no option 'lane'"):
        tune(options={"lane": (True,)})
    with pytest.raises(dk.MisuseError, match="a sequence, not True"):
        tune(options={"lanes": True})
    with pytest.raises(dk.MisuseError, match="prints"):
        tune(printing, [y])
    with pytest.raises(dk.MisuseError, match="derived"):
        tune(spread.jvp)
    with pytest.raises(dk.MisuseError, match="follows the kernel"):
        spread.jvp.with_options(lanes=True)
    with pytest.raises(dk.MisuseError, match="name their blocks"):
        tune(numbas, [y])
    with pytest.raises(dk.MisuseError, match="no option 'speed'"):
        spread.with_options(speed=1)
    with pytest.raises(dk.LaunchError, match="argument"):
        tune(spread, [x])
    with pytest.raises(dk.LaunchError, match="len"):
        tune(len)
    with dk.Tape(), pytest.raises(dk.MisuseError, match="no tape and no recording"):
        tune()
    with dk.record(), pytest.raises(dk.MisuseError, match="no tape and no recording"):
        tune()
