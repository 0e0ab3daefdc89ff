"""dk.checkpoint: gradients of roll-outs are those of a plain tape, bit by bit, with few states and exact counts."""

from __future__ import annotations

import contextlib
import gc
import importlib.util
import random
import sys
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import diffkern as dk
import diffkern.runtime.memory.device as device
from diffkern.errors import LaunchError, MisuseError
from diffkern.runtime.rollouts.rollout import repeated

F64 = dk.float64
N = 7
START = np.linspace(-1.0, 1.0, N)
Step = Callable[[int], object]


def doubles(values: Any, **options: Any) -> Any:
    return dk.array(np.asarray(values, float), dtype=F64, **options)


@dk.kernel
def forces(x: dk.array(dtype=F64), f: dk.array(dtype=F64), k: dk.array(dtype=F64)):
    i = dk.tid()
    n = x.shape[0]
    f[i] = k[0] * (x[(i + n - 1) % n] + x[(i + 1) % n] - 2.0 * x[i]) - dk.sin(x[i])


@dk.kernel
def move(x: dk.array(dtype=F64), v: dk.array(dtype=F64), f: dk.array(dtype=F64), dt: F64):
    i = dk.tid()
    v[i] = v[i] + dt * f[i]
    x[i] = x[i] + dt * v[i]


@dk.kernel
def grow(x: dk.array(dtype=F64), u: dk.array(dtype=F64)):
    i = dk.tid()
    x[i] = dk.sin(x[i]) + u[i] * x[i]


@dk.kernel
def bend(x: dk.array(dtype=F64), y: dk.array(dtype=F64)):
    i = dk.tid()
    y[i] = x[i] * x[i] * 0.5 + x[i]


@dk.kernel
def add_squares(x: dk.array(dtype=F64), s: dk.array(dtype=F64)):
    i = dk.tid()
    dk.atomic_add(s, 0, x[i] * x[i])


class Springs:
    """A chain of springs: x and v are handed on, the forces are made anew."""

    def __init__(self, steps: int, **options: Any) -> None:
        self.x, self.v = doubles(START, requires_grad=True), doubles(np.zeros(N), requires_grad=True)
        self.k, self.f = doubles([2.0], requires_grad=True), doubles(np.zeros(N))
        self.s = doubles([0.0], requires_grad=True)
        self.calls = 0
        with dk.Tape() as self.tape:
            if options:
                dk.checkpoint(self.step, steps, **options)
            else:
                for k in range(steps):
                    self.step(k)
            dk.launch(add_squares, dim=N, inputs=[self.x, self.s])

    def step(self, k: int) -> None:
        self.calls += 1
        dk.launch(forces, dim=N, inputs=[self.x, self.f, self.k])
        dk.launch(move, dim=N, inputs=[self.x, self.v, self.f, 0.05])

    def gradients(self) -> list[np.ndarray]:
        self.tape.zero()
        self.tape.backward(self.s)
        return [a.grad.numpy().copy() for a in (self.x, self.v, self.k)] + [self.x.numpy().copy()]


@pytest.mark.parametrize("steps", [0, 1, 2, 3, 10, 37])
@pytest.mark.parametrize("slots", [1, 2, 4, 50])
def test_gradients_counts_and_memory(steps: int, slots: int, tmp_path: Any) -> None:
    expected = Springs(steps).gradients()
    state = 2 * 8 * N
    for on_disk in (0, 1):
        made = Springs(steps, slots=slots - on_disk, slots_on_disk=on_disk, directory=tmp_path)
        assert made.calls == steps
        kept = min(slots, max(steps - 1, 1)) + (1 < steps) if steps else 0
        assert made.tape.memory() == (kept - (on_disk if steps else 0)) * state
        end = made.f.numpy().copy()
        for again in (False, True):
            made.calls = 0
            for got, want in zip(made.gradients(), expected, strict=True):
                np.testing.assert_array_equal(got, want)
            np.testing.assert_array_equal(made.f.numpy(), end)
            if steps:
                # The first sweep began with what the tape had kept on its way.
                assert made.calls == repeated(steps, slots) + steps - (0 if again else steps - 1)


def test_memory_and_launches_of_the_benchmark(monkeypatch: pytest.MonkeyPatch) -> None:
    """As ``benchmarks/checkpoint.py`` has it, at a small size: bytes of all arrays that are alive at once."""
    monkeypatch.setattr(device, "allocate", device.allocate)
    file = Path(__file__).parents[2] / "benchmarks" / "checkpoint.py"
    spec = importlib.util.spec_from_file_location("checkpoint_benchmark", file)
    assert spec is not None
    assert spec.loader is not None
    benchmark = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, benchmark)
    spec.loader.exec_module(benchmark)
    steps, slots = 300, 50
    chain = benchmark.Chain(200)
    allocated = benchmark.Allocated()
    chain.gradient(lambda: dk.checkpoint(chain.step, steps, slots))
    assert allocated.most <= 1.3 * slots * chain.state
    assert chain.launches == 2 * (steps + repeated(steps, slots) + 1)
    assert chain.stiffness.grad.numpy()[0] != 0.0


def both_ways(maker: Callable[[Any, Any], Step], steps: int = 20, slots: int = 3, after: Any = None) -> None:
    """Compare a roll-out with the same steps on a plain tape; `maker` takes the state and a parameter."""
    found = []
    for plain in (True, False):
        np.random.seed(1)  # noqa: NPY002 - what is tested
        random.seed(1)
        x, u, s = doubles(START, requires_grad=True), doubles(0.1 * START + 0.5, requires_grad=True), None
        s = doubles([0.0], requires_grad=True)
        with dk.Tape() as tape:
            step = maker(x, u)
            if plain:
                for k in range(steps):
                    step(k)
            else:
                dk.checkpoint(step, steps, slots)
            dk.launch(add_squares, dim=N, inputs=[x, s])
            if after is not None:
                after(x, u)
        drawn = random.random(), np.random.rand()  # noqa: NPY002
        tape.backward(s)
        found.append((x.grad.numpy().copy(), u.grad.numpy().copy(), x.numpy().copy(), u.numpy().copy(), drawn))
    for got, want in zip(*found, strict=True):
        np.testing.assert_array_equal(got, want)


def temporaries(x: Any, u: Any) -> Step:
    def step(k: int) -> None:
        t = dk.zeros(N, dtype=F64)
        dk.launch(bend, dim=N, inputs=[x, t])
        y = dk.clone(t)
        dk.launch(grow, dim=N, inputs=[y, u])
        dk.copy(x, y)

    return step


@dk.kernel
def first_half(x: dk.array(dtype=F64), t: dk.array(dtype=F64)):
    i = dk.tid()
    if i < x.shape[0] // 2:
        t[i] = x[i]


@dk.kernel
def back(t: dk.array(dtype=F64), x: dk.array(dtype=F64)):
    i = dk.tid()
    x[i] = dk.where(i < x.shape[0] // 2, 0.9 * t[i], x[i])


def not_initialized(x: Any, u: Any) -> Step:
    """A kernel is given an array of which only a part has been set, and uses that part."""

    def step(k: int) -> None:
        used = dk.full(64, value=1.0 + k, dtype=F64)  # whose memory the next array may get
        del used
        t = dk.empty(N, dtype=F64, requires_grad=True)
        dk.launch(first_half, dim=N, inputs=[x, t])
        dk.launch(back, dim=N, inputs=[t, x])
        dk.launch(back, dim=N, inputs=[dk.empty_like(t), dk.empty(N, dtype=F64)])
        dk.launch(grow, dim=N, inputs=[x, u])

    return step


def noise(x: Any, u: Any) -> Step:
    w = doubles(np.zeros(N))

    def step(k: int) -> None:
        w.assign(0.1 * np.random.rand(N) + 0.1 * random.random())  # noqa: NPY002
        dk.launch(grow, dim=N, inputs=[x, w])
        dk.launch(grow, dim=N, inputs=[x, doubles(0.1 * np.random.rand(N))])  # noqa: NPY002
        dk.launch(grow, dim=N, inputs=[x, u])

    return step


def two_buffers(x: Any, u: Any) -> Step:
    pair = [x, dk.zeros_like(x)]

    def step(k: int) -> None:
        dk.launch(bend, dim=N, inputs=[pair[k % 2], pair[1 - k % 2]])
        dk.launch(grow, dim=N, inputs=[pair[1 - k % 2], u])

    return step


def rows(x: Any, u: Any) -> Step:
    path = dk.zeros((20, N), dtype=F64)

    def step(k: int) -> None:
        dk.launch(grow, dim=N, inputs=[x, u])
        dk.copy(path[k], x)
        if k:
            dk.launch(grow, dim=N, inputs=[x, path[k - 1]])

    return step


def sequence(x: Any, u: Any) -> Step:
    with dk.record(run=False) as recorded:
        dk.launch(grow, dim=N, inputs=[x, u])
        dk.launch(grow, dim=N, inputs=[x, u])
    return lambda k: recorded.replay()


def record(x: Any, u: Any) -> Step:
    launch = dk.launch(grow, dim=N, inputs=[x, u], record_cmd=True)
    return lambda k: launch.launch()


def nested(x: Any, u: Any) -> Step:
    return lambda k: dk.checkpoint(lambda j: dk.launch(grow, dim=N, inputs=[x, u]), 3, 2)


@pytest.mark.parametrize("maker", [temporaries, not_initialized, noise, two_buffers, rows, sequence, record, nested])
def test_what_steps_may_do(maker: Callable[[Any, Any], Step]) -> None:
    both_ways(maker, steps=12)


def test_arrays_that_the_tape_overwrites_afterwards() -> None:
    def after(x: Any, u: Any) -> None:
        u.fill_(3.0)
        x.zero_()
        dk.launch(grow, dim=N, inputs=[x, u])

    both_ways(record, after=after)


def test_several_on_one_tape() -> None:
    found = []
    for plain in (True, False):
        x, u = doubles(START, requires_grad=True), doubles(0.1 * START + 0.5, requires_grad=True)
        s = doubles([0.0], requires_grad=True)
        with dk.Tape() as tape:
            for turn in range(3):
                if plain:
                    for _ in range(10):
                        dk.launch(grow, dim=N, inputs=[x, u])
                else:
                    dk.checkpoint(lambda k: dk.launch(grow, dim=N, inputs=[x, u]), 10, 3)
                dk.launch(add_squares, dim=N, inputs=[x, s])
                x.fill_(0.3 * turn)
                dk.launch(bend, dim=N, inputs=[u, x])
        for _ in range(2):  # gradients add up
            tape.backward(s)
        found.append((x.grad.numpy().copy(), u.grad.numpy().copy()))
    for got, want in zip(*found, strict=True):
        np.testing.assert_array_equal(got, want)


# -- what cannot run again ---------------------------------------------------------------------------------------------


def own_generator(x: Any, u: Any) -> Step:
    rng, w = np.random.default_rng(0), doubles(np.zeros(N))

    def step(k: int) -> None:
        w.assign(rng.random(N))
        dk.launch(grow, dim=N, inputs=[x, w])

    return step


def own_generator_for_new(x: Any, u: Any) -> Step:
    rng = np.random.default_rng(0)
    return lambda k: dk.launch(grow, dim=N, inputs=[x, doubles(rng.random(N))])


def exchanged(x: Any, u: Any) -> Step:
    pair = [x, dk.zeros_like(x)]

    def step(k: int) -> None:
        dk.launch(bend, dim=N, inputs=pair)
        pair.reverse()

    return step


def through_numpy(x: Any, u: Any) -> Step:
    w = doubles(np.zeros(N))

    def step(k: int) -> None:
        w.numpy()[:] = k
        dk.launch(grow, dim=N, inputs=[x, w])

    return step


def unrecorded(x: Any, u: Any) -> Step:
    w = doubles(np.zeros(N))

    def step(k: int) -> None:
        dk.launch(bend, dim=N, inputs=[x, w], record_tape=False)
        dk.launch(grow, dim=N, inputs=[x, w])

    return step


def new_arrays(x: Any, u: Any) -> Step:
    held = [x]

    def step(k: int) -> None:
        y = dk.zeros(N, dtype=F64)
        dk.launch(bend, dim=N, inputs=[held[0], y])
        held[0] = y

    return step


@pytest.mark.parametrize(
    ("maker", "message"),
    [
        (own_generator, r"step 5 of dk\.checkpoint did something else"),
        (own_generator_for_new, r"step 5 of dk\.checkpoint did something else"),
        (exchanged, r"step 5 of dk\.checkpoint did something else"),
        (through_numpy, r"changed in a step of dk\.checkpoint by other means"),
        (unrecorded, r"changed in a step of dk\.checkpoint by other means"),
        (new_arrays, "which an earlier step has made"),
    ],
)
def test_steps_that_would_do_something_else(maker: Callable[[Any, Any], Step], message: str) -> None:
    x, u = doubles(START, requires_grad=True), doubles(START)
    s = doubles([0.0], requires_grad=True)
    end = []

    def run() -> None:
        with dk.Tape() as tape:
            dk.checkpoint(maker(x, u), 6, 2)
            dk.launch(add_squares, dim=N, inputs=[x, s])
        x.grad.fill_(5.0)
        end.append(x.numpy().copy())
        tape.backward(s)

    with pytest.raises(LaunchError, match=message):
        run()
    if end:  # nothing is lost
        np.testing.assert_array_equal(x.numpy(), end[0])
        np.testing.assert_array_equal(x.grad.numpy(), 5.0)


def test_a_parameter_that_was_changed_outside() -> None:
    x, u = doubles(START, requires_grad=True), doubles(START)
    with dk.Tape() as tape:
        dk.checkpoint(record(x, u), 6, 2)
    u.fill_(1.0)
    with pytest.raises(LaunchError, match=r"was changed outside the tape after dk\.checkpoint"):
        tape.backward(grads={x: doubles(np.ones(N))})


@pytest.mark.parametrize("error", [ArithmeticError, KeyboardInterrupt])
def test_an_error_in_a_step_loses_nothing(error: type[BaseException]) -> None:
    x, u, s = (doubles(v, requires_grad=True) for v in (START, 0.1 * START + 0.5, [0.0]))
    fails = {7}

    def step(k: int) -> None:
        dk.launch(grow, dim=N, inputs=[x, u])
        if k in fails:
            raise error
        if k == 3:
            dk.launch(bend, dim=N, inputs=[u, x])

    with dk.Tape() as tape:
        with pytest.raises(error):
            dk.checkpoint(step, 10, 3)
        end = x.numpy().copy()
        dk.launch(add_squares, dim=N, inputs=[x, s])
    fails.add(2)
    with pytest.raises(error):
        tape.backward(s)
    assert not x.grad.numpy().any()
    np.testing.assert_array_equal(x.numpy(), end)
    fails.clear()
    tape.backward(s)
    got = x.grad.numpy().copy(), u.grad.numpy().copy()
    x.assign(START)
    tape.reset()
    with dk.Tape() as tape:
        for k in range(7):
            step(k)
        s.zero_()
        dk.launch(add_squares, dim=N, inputs=[x, s])
    np.testing.assert_array_equal(x.numpy(), end)
    tape.backward(s)
    np.testing.assert_array_equal(got[0], x.grad.numpy())
    np.testing.assert_array_equal(got[1], u.grad.numpy())


def test_what_is_refused() -> None:
    x = doubles(START, requires_grad=True)
    for wrong in ({"steps": -1, "slots": 2}, {"steps": 1, "slots": 0}, {"steps": 1, "slots": 1, "slots_on_disk": -1}):
        with pytest.raises(MisuseError):
            dk.checkpoint(lambda k: None, **wrong)
    with pytest.raises(MisuseError, match="no directory"):
        dk.checkpoint(lambda k: None, 1, 1, slots_on_disk=1, directory="/nowhere/at/all")
    with pytest.raises(MisuseError, match="a function"):
        dk.checkpoint(3, 1, 1)  # type: ignore[arg-type]
    with dk.Tape() as tape, pytest.raises(LaunchError, match="recorded in a step"):
        dk.checkpoint(lambda k: tape.record_func(lambda: None, [x]), 1, 1)
    with dk.record(), dk.Tape(), pytest.raises(LaunchError, match="not recorded in a sequence"):
        dk.checkpoint(lambda k: None, 1, 1)
    y = doubles(START, requires_grad=True)
    with dk.Tape(), pytest.raises(LaunchError, match="its adjoint is launched in a step"):
        dk.checkpoint(lambda k: dk.launch(bend, dim=N, inputs=[x, y], adjoint=True), 1, 1)


def test_a_tape_that_is_reset_lets_go_of_states() -> None:
    made = Springs(20, slots=4)
    steps = weakref.ref(next(step for step in made.tape._steps if hasattr(step, "steps")).steps)
    gc.disable()
    try:
        made.tape.reset()
        assert steps() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("maker", [record, temporaries])
@pytest.mark.parametrize("on_disk", [0, 2])
def test_backward_runs_again_and_again(maker: Callable[[Any, Any], Step], on_disk: int) -> None:
    z, u = doubles(START, requires_grad=True), doubles(0.01 * START - 0.4, requires_grad=True)
    s, found = doubles([0.0], requires_grad=True), []
    with dk.Tape() as tape:
        dk.checkpoint(maker(z, u), 20, 3, slots_on_disk=on_disk)
        dk.launch(add_squares, dim=N, inputs=[z, s])
    for _ in range(4):
        tape.zero()
        tape.backward(s)
        found.append(np.stack([z.grad.numpy(), u.grad.numpy()]))
    for again in found[1:]:
        np.testing.assert_array_equal(again, found[0])


# -- forward mode and objects ------------------------------------------------------------------------------------------


def rolled(slots: int) -> Callable[[Any], Any]:
    def loss(x: Any) -> Any:
        z, u, s = dk.clone(x), doubles(0.1 * START + 0.5), doubles([0.0])
        step = record(z, u)
        if slots:
            dk.checkpoint(step, 10, slots)
        else:
            for k in range(10):
                step(k)
        dk.launch(add_squares, dim=N, inputs=[z, s])
        return s

    return loss


def test_forward_mode_and_second_derivatives() -> None:
    x, way = doubles(START), doubles(np.cos(START))
    for of in (lambda f: dk.jvp(f, (x,), (way,))[1], lambda f: dk.hvp(f, (x,), (way,))[0]):
        np.testing.assert_allclose(of(rolled(3)).numpy(), of(rolled(0)).numpy(), rtol=1e-12)


@pytest.mark.parametrize(("maker", "depth"), [(record, 1), (record, 2), (temporaries, 1)])
def test_few_states_are_kept_along_tangents(maker: Callable[[Any, Any], Step], depth: int) -> None:
    """Reverse mode over forward mode: states with tangents, as many as there are slots; the schedule's steps."""
    steps, slots = 40, 4
    found, kept = [], []
    for checkpointed in (False, True):
        z, u = doubles(START, requires_grad=True), doubles(0.01 * START - 0.4, requires_grad=True)
        s, calls = doubles([0.0], requires_grad=True), []
        inner = maker(z, u)

        def step(k: int) -> None:
            calls.append(k)
            inner(k)

        blocks = [dk.Tangents({z: np.cos((n + 1) * START), u: 0.01 * START}) for n in range(depth)]
        with dk.Tape() as tape, contextlib.ExitStack() as stack:
            for block in blocks:
                stack.enter_context(block)
            if checkpointed:
                dk.checkpoint(step, steps, slots)
            else:
                for k in range(steps):
                    step(k)
            dk.launch(add_squares, dim=N, inputs=[z, s])
            change = s
            for block in reversed(blocks):
                change = block[change]
        kept.append(tape.memory())
        for turn in range(3):
            tape.zero()
            tape.backward(change)
            found.append([z.grad.numpy().copy(), u.grad.numpy().copy()])
            if checkpointed and turn == 0:
                assert len(calls) == repeated(steps, slots) + 1 + steps
    for got in found[1:]:
        for a, b in zip(got, found[0], strict=True):
            np.testing.assert_array_equal(a, b)
    state = START.nbytes * 2**depth
    assert kept[1] <= (slots + 1) * state < kept[0]


@dk.kernel
def pull(g: dk.uint64, p: dk.array(dtype=dk.vec3), q: dk.array(dtype=dk.vec3)):
    i = dk.tid()
    t = dk.vec3(0.0)
    for j in dk.hash_grid_query(g, p[i], 0.5):
        d = p[j] - p[i]
        if dk.length(d) < 0.5:
            t += d * 0.1
    q[i] = t


@dk.kernel
def shift(p: dk.array(dtype=dk.vec3), q: dk.array(dtype=dk.vec3)):
    i = dk.tid()
    p[i] = p[i] + q[i]


@pytest.mark.parametrize("each", [True, False])
def test_grids_that_steps_build_or_find(each: bool) -> None:
    points = np.random.default_rng(0).random((20, 3), np.float32)
    seed = dk.array(np.cos(points), dtype=dk.vec3)
    found = []
    for plain in (True, False):
        p, q = dk.array(points, dtype=dk.vec3, requires_grad=True), dk.zeros(20, dtype=dk.vec3)
        grid = dk.HashGrid(8, 8, 8)
        grid.build(p, 0.5)

        def step(k: int) -> None:
            if each:
                grid.build(p, 0.5)
            dk.launch(pull, dim=20, inputs=[grid.id, p, q])
            dk.launch(shift, dim=20, inputs=[p, q])

        with dk.Tape() as tape:
            if plain:
                for k in range(9):
                    step(k)
            else:
                dk.checkpoint(step, 9, 3)
        grid.build(p, 0.1)
        content = grid._resource.content
        tape.backward(grads={p: seed})
        if not plain:
            assert grid._resource.content is content
        found.append(p.grad.numpy().copy())
    np.testing.assert_allclose(*found, rtol=1e-5, atol=1e-6)


def test_a_grid_of_an_earlier_step_is_refused() -> None:
    p, q = dk.zeros(20, dtype=dk.vec3, requires_grad=True), dk.zeros(20, dtype=dk.vec3)
    grid = dk.HashGrid(8, 8, 8)

    def step(k: int) -> None:
        if k % 2 == 0:
            grid.build(p, 0.5)
        dk.launch(pull, dim=20, inputs=[grid.id, p, q])

    with dk.Tape(), pytest.raises(LaunchError, match="an object that an earlier step built"):
        dk.checkpoint(step, 4, 2)


@pytest.mark.parametrize("fails", [False, True])
def test_generators_go_on_where_they_were(fails):
    """A sweep draws the numbers of the steps again, which nobody else notices."""
    np.random.seed(3)  # noqa: NPY002 - what is tested
    random.seed(3)
    x, u, s = doubles(START, requires_grad=True), doubles(0.1 * START + 0.5), doubles([0.0])
    step, runs = noise(x, u), []

    def counted(k: int) -> None:
        runs.append(k)
        if fails and len(runs) == 20:
            raise RuntimeError("in a sweep")
        step(k)

    with dk.Tape() as tape:
        dk.checkpoint(counted, 8, 2)
        dk.launch(add_squares, dim=N, inputs=[x, s])
    np.random.standard_normal()  # noqa: NPY002 - of two numbers one is left for the next call
    states = np.random.get_state(), random.getstate()  # noqa: NPY002
    for _ in range(2):
        if fails:
            with pytest.raises(RuntimeError, match="in a sweep"):
                tape.backward(s)
            break
        tape.backward(s)
    assert len(runs) >= 20
    for now, before in zip(np.random.get_state(), states[0], strict=True):  # noqa: NPY002
        np.testing.assert_array_equal(now, before)
    assert random.getstate() == states[1]
