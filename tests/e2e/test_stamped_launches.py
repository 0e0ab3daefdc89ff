"""Launches of which only a look tells that no two threads race: gradients where none do, else both threads named."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from support.fake_driver.driver import fake_cuda

import diffkern as dk
from diffkern.contracts.options import Variant
from diffkern.errors import AutodiffError, LaunchError
from diffkern.kernels.kernel import Kernel
from diffkern.runtime.launch import stamps
from diffkern.runtime.launch.packed import PackedLaunch

F = dk.float64
I1, X1 = dk.array(dtype=dk.int32), dk.array(dtype=F)


@dk.kernel
def stored(begin: I1, to: I1, of: I1, x: X1, y: X1):
    """Each thread has a row of the tables, and reads what it has written before."""
    t = dk.tid()
    for k in range(begin[t], begin[t + 1]):
        y[to[k]] = dk.sin(y[of[k]]) + x[to[k]]


@dk.kernel
def added(begin: I1, to: I1, of: I1, x: X1, y: X1):
    t = dk.tid()
    for k in range(begin[t], begin[t + 1]):
        dk.atomic_add(y, to[k], dk.sin(y[of[k]]) * x[to[k]])


SIZE = 8
RNG = np.random.default_rng(11)
X, Y, WEIGHTS = (RNG.uniform(0.2, 1.2, SIZE) for _ in range(3))


def integers(values: Any) -> Any:
    return dk.array(np.array(values, np.int32), dtype=dk.int32)


@dataclass
class Rows:
    """What the threads do: for each one pairs (to, of), one after the other."""

    threads: list[list[tuple[int, int]]]

    def tables(self) -> list[Any]:
        begin = [0, *itertools.accumulate(len(row) for row in self.threads)]
        pairs = [pair for row in self.threads for pair in row]
        return [integers(begin), integers([a for a, _ in pairs]), integers([b for _, b in pairs])]

    def run(self, kernel: Any, x: Any, y: Any, schedule: Iterator[int] | None = None) -> Any:
        """Run the loads and writes one by one, thread by thread or by a schedule, in NumPy."""
        y = y.copy()
        steps = [list(self._steps(kernel is added, row, x, y)) for row in self.threads]
        if schedule is None:
            for row in steps:
                for step in row:
                    step()
            return y
        for t in schedule:
            steps[t].pop(0)()
        return y

    def _steps(self, adds: bool, row: list[tuple[int, int]], x: Any, y: Any) -> Iterator[Callable[[], None]]:
        register = [0.0]

        def load(of: int) -> None:
            register[0] = y[of]

        def write(to: int) -> None:
            y[to] = y[to] + np.sin(register[0]) * x[to] if adds else np.sin(register[0]) + x[to]

        for to, of in row:
            yield lambda of=of: load(of)
            yield lambda to=to: write(to)

    def depends_on_order(self, kernel: Any, rng: np.random.Generator) -> bool:
        """Whether some of many schedules gives another result."""
        turns = np.repeat(np.arange(len(self.threads)), [2 * len(row) for row in self.threads])
        found = [self.run(kernel, X, Y, iter(rng.permutation(turns))) for _ in range(60)]
        return not all(np.allclose(one, found[0], rtol=1e-12, atol=0) for one in found)

    def is_race(self, kernel: Any) -> bool:
        """Whether two threads access one element, one of them writing: with `added`, one of them reading."""
        reads = [{of for _, of in row} for row in self.threads]
        writes = [{to for to, _ in row} for row in self.threads]
        for one, other in itertools.permutations(range(len(self.threads)), 2):
            if writes[one] & (reads[other] if kernel is added else reads[other] | writes[other]):
                return True
        return False


def gradients(kernel: Any, rows: Rows) -> tuple[Any, Any]:
    """Of the weighted sum of y afterwards, with respect to x and to y before."""
    x, y, before = (dk.array(v, dtype=F, requires_grad=True) for v in (X, Y, Y))
    with dk.Tape() as tape:
        dk.copy(y, before)
        dk.launch(kernel, len(rows.threads), inputs=[*rows.tables(), x, y])
    tape.backward(grads={y: dk.array(WEIGHTS, dtype=F)})
    assert np.allclose(y.numpy(), rows.run(kernel, X, Y))
    return x.grad.numpy(), before.grad.numpy()


def differences(kernel: Any, rows: Rows) -> tuple[Any, Any]:
    h, found = 1e-6, []
    for place in (0, 1):
        row = []
        for e in np.eye(SIZE) * h:
            ends = [rows.run(kernel, *(v + s * e if k == place else v for k, v in enumerate((X, Y)))) for s in (1, -1)]
            row.append(WEIGHTS @ (ends[0] - ends[1]) / (2 * h))
        found.append(np.array(row))
    return found[0], found[1]


def check(kernel: Any, rows: Rows) -> None:
    for found, wanted in zip(gradients(kernel, rows), differences(kernel, rows), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-8)


APART = Rows([[(1, 0), (2, 1)], [(5, 4), (6, 5)], []])
TOGETHER = Rows([[(0, 7), (1, 0), (2, 1)], [(0, 7), (1, 0), (3, 1)], [(0, 7), (4, 0), (5, 0)]])
"""Threads that compute the same values for elements 0 and 1, and go on with them."""
OWN_SUMS = Rows([[(1, 0), (1, 1), (2, 1)], [(5, 4), (5, 5)]])
SHARED_SUMS = Rows([[(1, 0), (2, 4)], [(1, 0), (1, 4)]])


@pytest.mark.parametrize(
    ("kernel", "rows"),
    [(stored, APART), (stored, TOGETHER), (added, APART), (added, OWN_SUMS), (added, SHARED_SUMS)],
    ids=["apart", "the same values", "sums apart", "own sums", "shared sums"],
)
def test_gradients_where_no_threads_race(kernel: Any, rows: Rows) -> None:
    check(kernel, rows)


@pytest.mark.parametrize(
    ("kernel", "rows", "said"),
    [
        (
            stored,
            [[(1, 0), (2, 1)], [(5, 4), (6, 2)]],
            r"thread 1 reads y\[2\] here, which thread 0 writes \(line {line}\)",
        ),
        (stored, [[(1, 2)], [(2, 4)]], r"thread 0 reads y\[2\] here, which thread 1 writes \(line {line}\)"),
        (stored, [[(0, 7)], [(3, 0), (0, 7)]], r"thread 1 reads y\[0\] here, which thread 0 writes"),
        (stored, [[(0, 7)], [(0, 7)], [(3, 0)]], r"thread 2 reads y\[0\] here, which thread [01] writes"),
        (stored, [[(0, 7)], [(0, 6)]], r"thread 0 writes y\[0\] here, and thread 1 another value \(line {line}\)"),
        (stored, [[(0, 7), (0, 6)], [(0, 7), (0, 6)]], r"thread 0 writes y\[0\] here, and thread 1 another value"),
        (added, [[(1, 0)], [(2, 1)]], r"thread 1 reads y\[1\] here, which thread 0 updates atomically \(line {line}\)"),
        (added, [[(1, 1)], [(1, 0)]], r"thread 0 reads y\[1\] here, which thread 1 updates atomically \(line {line}\)"),
    ],
)
def test_races_are_named(kernel: Any, rows: list[list[tuple[int, int]]], said: str) -> None:
    line = kernel.func.__code__.co_firstlineno + (4 if kernel is added else 5)
    assert Rows(rows).is_race(kernel)
    with pytest.raises(AutodiffError, match=said.format(line=line)) as caught:
        gradients(kernel, Rows(rows))
    assert caught.value.loc is not None
    assert caught.value.loc.line == line


@dk.kernel
def made_positive(to: I1, of: I1, y: X1):
    t = dk.tid()
    y[to[t]] = dk.abs(y[to[t]]) + 0.0 * y[of[t]]


def test_threads_that_store_one_value_do_not_read_the_old_one() -> None:
    """The second thread would go on from what the first one stored: the same number, with another derivative."""

    def gradient(to: list[int]) -> Any:
        y, before = (dk.array(-Y, dtype=F, requires_grad=True) for _ in range(2))
        with dk.Tape() as tape:
            dk.copy(y, before)
            dk.launch(made_positive, 2, inputs=[integers(to), integers([4, 5]), y])
        tape.backward(grads={y: dk.array(WEIGHTS, dtype=F)})
        return before.grad.numpy()

    np.testing.assert_allclose(gradient([0, 1])[:2], -WEIGHTS[:2])
    with pytest.raises(AutodiffError, match=r"thread 1 reads y\[0\] here, which thread 0 writes"):
        gradient([0, 0])


def random_rows(rng: np.random.Generator) -> Rows:
    """Threads that go along chains of their own, of which some are copied, and some disturbed."""
    count, places = rng.integers(2, 4), rng.permutation(SIZE)
    share = SIZE // int(count)
    rows = []
    for t in range(int(count)):
        own = places[t * share : (t + 1) * share]
        rows.append([tuple(int(v) for v in rng.choice(own, 2)) for _ in range(rng.integers(0, 4))])
    if rng.random() < 0.4:
        first = rows[0]
        rows[1] = [*first, *rows[1]] if rng.random() < 0.5 else list(first)
    if rng.random() < 0.4:
        row = rows[int(rng.integers(count))]
        row.insert(int(rng.integers(len(row) + 1)), tuple(int(v) for v in rng.integers(0, SIZE, 2)))
    return Rows(rows)


def test_random_launches_are_right_or_refused(request: pytest.FixtureRequest) -> None:
    """What is accepted has one result in every order and the gradient of that; what is refused does race."""
    rng = np.random.default_rng(20)
    counts = {"right": 0, "refused": 0}
    for k in range(600 if request.config.getoption("--full") else 80):
        rows, kernel = random_rows(rng), (stored, added)[k % 2]
        try:
            check(kernel, rows)
        except AutodiffError:
            assert rows.is_race(kernel), rows
            counts["refused"] += 1
            continue
        assert not rows.depends_on_order(kernel, rng), rows
        counts["right"] += 1
    assert min(counts.values()) >= 20, counts


# -- what decides is what is looked at -------------------------------------------------------------------------------


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The launches that were run with stamps."""
    found: list[str] = []
    original = PackedLaunch.stamping

    def noted(launch: PackedLaunch, arrays: Any) -> Any:
        made = original(launch, arrays)

        def execute() -> None:
            found.append(launch.kernel.name)
            type(made[0]).execute(made[0])

        monkeypatch.setattr(
            stamps, "submit", lambda operation: execute() if operation is made[0] else operation.execute()
        )
        return made

    monkeypatch.setattr(PackedLaunch, "stamping", noted)
    return found


def test_a_launch_is_looked_at_until_nothing_changes_that_decides(looks: list[str]) -> None:
    tables, x = APART.tables(), dk.array(X, dtype=F, requires_grad=True)

    def taped() -> None:
        y = dk.array(Y, dtype=F, requires_grad=True)
        with dk.Tape() as tape:
            dk.launch(stored, 3, inputs=[*tables, x, y])
        tape.backward(grads={y: dk.array(WEIGHTS, dtype=F)})

    taped()
    taped()
    x.fill_(0.5)
    taped()
    assert len(looks) == 1
    tables[2].assign(np.array([0, 1, 4, 2], np.int32))  # the second thread now reads what the first one writes
    with pytest.raises(AutodiffError, match="thread 1 reads"):
        taped()
    tables[2].assign(np.array([0, 1, 4, 5], np.int32))
    taped()
    taped()
    assert len(looks) == 3


def test_the_same_values_are_looked_at_each_time(looks: list[str]) -> None:
    tables = TOGETHER.tables()
    x = dk.array(X, dtype=F, requires_grad=True)
    for _ in range(2):
        y = dk.array(Y, dtype=F, requires_grad=True)
        with dk.Tape() as tape:
            dk.launch(stored, 3, inputs=[*tables, x, y])
        tape.backward(grads={y: dk.array(WEIGHTS, dtype=F)})
    assert len(looks) == 2


# -- arrays that are stored to and updated -----------------------------------------------------------------------------


@dk.kernel
def stored_and_updated(begin: I1, to: I1, of: I1, x: X1, y: X1):
    """The first element of a pair is stored to and then updated, the second one only updated."""
    t = dk.tid()
    for k in range(begin[t], begin[t + 1]):
        y[to[k]] = dk.sin(y[to[k]]) * x[of[k]]
        y[to[k]] += x[to[k]] * x[to[k]]
        dk.atomic_sub(y, of[k], dk.cos(x[of[k]]))


def weighed(rows: Rows, x: Any, y: Any) -> Any:
    y = y.copy()
    for row in rows.threads:
        for to, of in row:
            y[to] = np.sin(y[to]) * x[of] + x[to] ** 2
            y[of] -= np.cos(x[of])
    return WEIGHTS @ y


@pytest.mark.parametrize(
    "threads",
    [[[(1, 0), (2, 1), (1, 0)], [(5, 4), (6, 5)], []], [[(1, 0), (1, 7)], [(3, 0), (3, 7)]], [[(1, 1)], [(2, 2)]]],
    ids=["apart", "shared sums", "the same element"],
)
def test_a_thread_may_store_and_update_its_own_elements(threads: Any) -> None:
    rows = Rows(threads)
    x, y, before = (dk.array(v, dtype=F, requires_grad=True) for v in (X, Y, Y))
    with dk.Tape() as tape:
        dk.copy(y, before)
        dk.launch(stored_and_updated, len(threads), inputs=[*rows.tables(), x, y])
    tape.backward(grads={y: dk.array(WEIGHTS, dtype=F)})
    assert WEIGHTS @ y.numpy() == pytest.approx(weighed(rows, X, Y))
    h, shifts = 1e-6, np.eye(SIZE) * 1e-6
    of_x = [(weighed(rows, X + e, Y) - weighed(rows, X - e, Y)) / (2 * h) for e in shifts]
    of_y = [(weighed(rows, X, Y + e) - weighed(rows, X, Y - e)) / (2 * h) for e in shifts]
    np.testing.assert_allclose(x.grad.numpy(), of_x, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(before.grad.numpy(), of_y, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("threads", [[[(1, 0)], [(2, 1)]], [[(2, 1)], [(3, 3)], [(1, 0)]]])
def test_what_one_thread_stores_and_another_one_updates_is_a_race(threads: Any) -> None:
    x, y = (dk.array(v, dtype=F, requires_grad=True) for v in (X, Y))
    with dk.Tape() as tape:
        dk.launch(stored_and_updated, len(threads), inputs=[*Rows(threads).tables(), x, y])
    with pytest.raises(AutodiffError, match=r"thread \d reads y\[1\] here, which thread \d updates atomically"):
        tape.backward(grads={y: dk.array(WEIGHTS, dtype=F)})


@dk.kernel
def set_and_updated(begin: I1, to: I1, of: I1, x: X1, y: X1):
    """Like the other one, but nobody reads what is stored to."""
    t = dk.tid()
    for k in range(begin[t], begin[t + 1]):
        y[to[k]] = x[of[k]]
        dk.atomic_add(y, of[k], x[to[k]])


def test_a_race_without_a_load_is_named_by_the_store_and_the_update() -> None:
    x, y = (dk.array(v, dtype=F, requires_grad=True) for v in (X, Y))
    for threads, is_race in (([[(1, 0)], [(2, 3)]], False), ([[(1, 0)], [(2, 1)]], True)):
        with dk.Tape() as tape:
            dk.launch(set_and_updated, 2, inputs=[*Rows(threads).tables(), x, y])
        if not is_race:
            tape.backward(grads={y: dk.array(WEIGHTS, dtype=F)})
            wanted = np.zeros(SIZE)
            for to, of in (row[0] for row in threads):
                wanted[of] += WEIGHTS[to]
                wanted[to] += WEIGHTS[of]
            np.testing.assert_allclose(x.grad.numpy(), wanted)
            continue
        said = r"thread 0 stores to y\[1\] here, which thread 1 updates atomically \(line \d+\)"
        with pytest.raises(AutodiffError, match=said):
            tape.backward(grads={y: dk.array(WEIGHTS, dtype=F)})


@dk.kernel
def through_flags(flags: I1, to: I1, x: X1, y: X1):
    """Which branch is taken, and so what is read, an array says."""
    i = dk.tid()
    if flags[i] > 0:
        y[i] = x[i] * y[to[i]]
    else:
        y[i] = x[i]


def test_branches_that_are_not_taken_do_not_count(looks: list[str]) -> None:
    x, to = dk.array(X, dtype=F, requires_grad=True), integers(np.roll(np.arange(SIZE), 1))

    def taped(flags: Any) -> Any:
        y = dk.array(Y, dtype=F, requires_grad=True)
        with dk.Tape() as tape:
            dk.launch(through_flags, SIZE, inputs=[flags, to, x, y])
        x.grad.zero_()
        tape.backward(grads={y: dk.array(WEIGHTS, dtype=F)})
        return x.grad.numpy().copy()

    np.testing.assert_allclose(taped(integers(np.zeros(SIZE))), WEIGHTS)
    with pytest.raises(AutodiffError, match=r"thread 3 reads y\[2\] here, which thread 2 writes"):
        taped(integers(np.arange(SIZE) == 3))


@dk.kernel
def by_numbers(x: X1, y: X1, k: int):
    """The launch's numbers say what could be read, and a table whether it is."""
    i = dk.tid()
    if x[i] > 1000.0:
        y[i] = y[i + k]
    else:
        y[i] = x[i] * x[i]


def test_what_numbers_do_not_exclude_is_looked_at(looks: list[str]) -> None:
    x, y = dk.array(X, dtype=F, requires_grad=True), dk.zeros(SIZE + 1, dtype=F, requires_grad=True)
    with dk.Tape() as tape:
        dk.launch(by_numbers, SIZE, inputs=[x, y, 1])
    tape.backward(grads={y: dk.ones(SIZE + 1, dtype=F)})
    np.testing.assert_allclose(x.grad.numpy(), 2 * X)
    assert looks == ["by_numbers"]


# -- arrays ----------------------------------------------------------------------------------------------------------


@dk.kernel
def of_vectors(to: I1, of: I1, p: dk.array(dtype=dk.vec3f, ndim=2), q: dk.array(dtype=dk.vec3f, ndim=2)):
    r, i = dk.tid()
    for k in range(2):
        q[r, to[2 * i + k]] = dk.cross(q[r, of[2 * i + k]], p[r, i])


TO, OF = np.array([0, 1, -2, -1]), np.array([2, 0, 3, -2])
"""Columns of a row of six: the first thread goes from 2 to 0 and on to 1, the second one from 3 to 4 and on to 5."""


@pytest.mark.parametrize("gap", [1, 2])
def test_elements_are_told_apart(gap: int) -> None:
    """Rows, vectors, negative indices, arrays with gaps."""
    rng = np.random.default_rng(3)
    values, start = rng.normal(size=(2, 2, 3)), rng.normal(size=(2, 6, 3))
    weights = rng.normal(size=(2, 6, 3)).astype(np.float32)

    def loss(p: Any) -> float:
        q = start.copy()
        for r, i, k in np.ndindex(2, 2, 2):
            q[r, TO[2 * i + k]] = np.cross(q[r, OF[2 * i + k]], p[r, i])
        return float((q * weights).sum())

    def taped(of: Any) -> Any:
        p = dk.array(values.astype(np.float32), dtype=dk.vec3f, requires_grad=True)
        whole = dk.zeros((2, 6 * gap), dtype=dk.vec3f, requires_grad=True)
        whole[:, ::gap].assign(start.astype(np.float32))
        seed = np.zeros((2, 6 * gap, 3), np.float32)
        seed[:, ::gap] = weights
        with dk.Tape() as tape:
            dk.launch(of_vectors, (2, 2), inputs=[integers(TO), integers(of), p, whole[:, ::gap]])
        tape.backward(grads={whole: dk.array(seed, dtype=dk.vec3f)})
        return p.grad.numpy()

    wanted = np.zeros((2, 2, 3))
    for place in np.ndindex(2, 2, 3):
        step = np.zeros((2, 2, 3))
        step[place] = 1e-5
        wanted[place] = (loss(values + step) - loss(values - step)) / 2e-5
    np.testing.assert_allclose(taped(OF), wanted, rtol=1e-4, atol=1e-5)
    with pytest.raises(AutodiffError, match=r"thread \(0, 0\) reads q\[0, 4\] here, which thread \(0, 1\) writes"):
        taped([2, 4, 3, -2])


def test_two_names_of_one_array() -> None:
    @dk.kernel
    def copied(at: I1, a: X1, b: X1):
        i = dk.tid()
        b[i] = 3.0 * a[at[i]]

    def gradient(at: Any) -> Any:
        y, before = (dk.array(Y, dtype=F, requires_grad=True) for _ in range(2))
        with dk.Tape() as tape:
            dk.copy(y, before)
            dk.launch(copied, 4, inputs=[integers(at), y, y])
        tape.backward(grads={y: dk.array(WEIGHTS, dtype=F)})
        return before.grad.numpy()

    np.testing.assert_allclose(gradient([4, 5, 6, 7]), [0, 0, 0, 0, *(WEIGHTS[4:] + 3 * WEIGHTS[:4])])
    with pytest.raises(AutodiffError, match=r"thread 0 reads a\[1\] here, which thread 1 writes"):
        gradient([1, 5, 6, 7])


TYPES = [
    dk.float64, dk.float32, dk.float16, dk.bfloat16, dk.vec2d, dk.vec3f, dk.vec4h, dk.mat22d, dk.mat33f, dk.quatd,
]  # fmt: skip


@pytest.mark.parametrize("rows", [APART, TOGETHER], ids=["apart", "the same values"])
@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_types_of_elements(dtype: Any, rows: Rows) -> None:
    @dk.kernel
    def doubled(begin: I1, to: I1, of: I1, x, y):  # which take the types of the arrays
        t = dk.tid()
        for k in range(begin[t], begin[t + 1]):
            y[to[k]] = y[of[k]] + y[of[k]] + x[to[k]]

    shape = dk.zeros(SIZE, dtype=dtype).numpy().shape
    x, y, seed = (dk.array(np.ones(shape), dtype=dtype, requires_grad=True) for _ in range(3))
    with dk.Tape() as tape:
        dk.launch(doubled, len(rows.threads), inputs=[*rows.tables(), x, y])
    tape.backward(grads={y: seed})
    wanted, cotangent = np.zeros(SIZE), np.ones(SIZE)  # small integers, which every type holds
    for to, of in (pair for row in rows.threads for pair in reversed(row)):
        wanted[to] += cotangent[to]
        cotangent[of] += 2 * cotangent[to]
        cotangent[to] = 0
    found = x.grad.numpy()
    if dtype is dk.bfloat16:  # which comes as its bits
        found = (found.astype(np.uint32) << 16).view(np.float32)
    np.testing.assert_array_equal(found, np.repeat(wanted, int(np.prod(shape[1:]))).reshape(shape))


def test_elements_that_share_memory_stay_refused() -> None:
    """Their indices do not tell elements apart."""
    rows = np.lib.stride_tricks.as_strided(np.ones(SIZE), (SIZE, 2), (8, 0))

    @dk.kernel
    def beside(to: I1, of: I1, x: X1, y: dk.array(dtype=F, ndim=2)):
        i = dk.tid()
        y[to[i], 0] = x[i] * y[of[i], 0]

    @dk.kernel
    def first(y: dk.array(dtype=F, ndim=2), z: X1):
        z[dk.tid()] = y[dk.tid(), 0]

    x, y = dk.array(X, dtype=F, requires_grad=True), dk.array(rows, dtype=F, copy=False)
    y.requires_grad, z = True, dk.zeros(SIZE, dtype=F, requires_grad=True)
    with dk.Tape() as tape:
        dk.launch(beside, 2, inputs=[integers([0, 1]), integers([4, 5]), x, y])
        dk.launch(first, SIZE, inputs=[y, z])
    with pytest.raises(AutodiffError, match="reads an element of y here that thread 0 writes"):
        tape.backward(grads={z: dk.ones(SIZE, dtype=F)})


@dk.kernel
def by_counter(count: I1, x: X1, y: X1):
    place = dk.atomic_add(count, 0, 1)
    i = dk.tid()
    y[place] = x[i] * y[place + SIZE]


def test_places_that_depend_on_the_order_stay_refused() -> None:
    x, y = dk.array(X, dtype=F, requires_grad=True), dk.zeros(2 * SIZE, dtype=F, requires_grad=True)
    with dk.Tape() as tape:
        dk.launch(by_counter, SIZE, inputs=[integers([0]), x, y])
    with pytest.raises(AutodiffError, match="atomic_add returned"):
        tape.backward(grads={y: dk.ones(2 * SIZE, dtype=F)})


# -- elsewhere -------------------------------------------------------------------------------------------------------


def test_nothing_is_run_where_no_gradient_is_kept(looks: list[str]) -> None:
    rows = Rows([[(1, 0), (2, 1)], [(5, 4), (6, 2)]])
    x, y = dk.array(X, dtype=F), dk.array(Y, dtype=F)
    dk.launch(stored, 2, inputs=[*rows.tables(), x, y])
    with dk.Tape():
        dk.launch(stored, 2, inputs=[*rows.tables(), x, y])
    assert looks == []


def test_a_refused_adjoint_is_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each launch on a tape asks for the adjoint that needs no look, and keeps the error as its own."""
    kernel, rows = dk.kernel(stored.func), Rows([[(1, 0), (2, 1)], [(5, 4), (6, 2)]])
    compiled: list[Variant] = []
    load = Kernel._load
    monkeypatch.setattr(Kernel, "_load", lambda self, *args: compiled.append(args[1]) or load(self, *args))
    errors = []
    for _ in range(3):
        with pytest.raises(AutodiffError, match="thread 1 reads") as caught:
            gradients(kernel, rows)
        errors.append(caught.value)
    assert sum(v.active is not None and not v.form.stamped for v in compiled) == 1
    assert len({id(error) for error in errors}) == len({str(error) for error in errors}) + 2


def test_a_race_is_an_error_only_of_a_gradient_that_passes_it() -> None:
    rows = Rows([[(1, 0), (2, 1)], [(5, 4), (6, 2)]])
    x, y, z = (dk.array(v, dtype=F, requires_grad=True) for v in (X, Y, Y))
    with dk.Tape() as tape:
        dk.launch(stored, 2, inputs=[*rows.tables(), x, y])
        dk.copy(z, x)
    tape.backward(grads={z: dk.array(WEIGHTS, dtype=F)})
    np.testing.assert_allclose(x.grad.numpy(), WEIGHTS)


@pytest.mark.parametrize("rows", [APART, Rows([[(1, 0), (2, 1)], [(5, 4), (6, 2)]])], ids=["right", "racing"])
def test_a_kernel_that_is_trusted_is_not_looked_at(rows: Rows, looks: list[str]) -> None:
    trusted = dk.kernel(race_free=True)(stored.func)
    x, y, before = (dk.array(v, dtype=F, requires_grad=True) for v in (X, Y, Y))
    with dk.Tape() as tape:
        dk.copy(y, before)
        dk.launch(trusted, len(rows.threads), inputs=[*rows.tables(), x, y])
    tape.backward(grads={y: dk.array(WEIGHTS, dtype=F)})
    assert looks == []
    if rows is APART:
        np.testing.assert_allclose(x.grad.numpy(), differences(stored, rows)[0], rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("options", [{"mode": "debug"}, {"mode": "finite"}, {"deterministic": True}, {"lanes": True}])
def test_options_of_kernels(options: dict[str, Any]) -> None:
    kernel = dk.kernel(**options)(stored.func)
    # Programs that check stores refuse two threads that store to one element, of one value or not.
    for rows in [APART] if "mode" in options else [APART, TOGETHER]:
        for found, wanted in zip(gradients(kernel, rows), differences(stored, rows), strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-8)
    with pytest.raises(AutodiffError, match=r"thread 1 reads y\[2\] here"):
        gradients(kernel, Rows([[(1, 0), (2, 1)], [(5, 4), (6, 2)]]))


def test_many_threads_that_store_the_same_values() -> None:
    """More than run in one register, and more than one chunk of them."""
    row = [(0, 7), (1, 0), (2, 1)]
    for one, other in zip(gradients(stored, Rows([row] * 5000)), differences(stored, Rows([row])), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-8)


def taped(x: Any, y: Any) -> dk.Tape:
    with dk.Tape() as tape:
        dk.launch(stored, 3, inputs=[*APART.tables(), x, y])
    return tape


def test_a_sequence_does_not_repeat_what_was_seen_once() -> None:
    x, y, seed = (dk.array(v, dtype=F, requires_grad=True) for v in (X, Y, WEIGHTS))
    tape = taped(x, y)
    with pytest.raises(LaunchError, match="would repeat its adjoint"), dk.record():
        tape.backward(grads={y: seed})

    def recorded() -> None:
        with dk.record():
            taped(x, y).backward(grads={y: seed})

    with pytest.raises(AutodiffError, match="another thread of the same launch may write"):
        recorded()


@dk.kernel
def total(y: X1, s: X1):
    s[0] += y[dk.tid()]


@pytest.mark.parametrize("rows", [APART, TOGETHER], ids=["apart", "the same values"])
def test_second_derivatives(rows: Rows) -> None:
    tables = rows.tables()

    def loss(x: Any) -> Any:
        y, s = dk.array(Y, dtype=F, requires_grad=True), dk.zeros(1, dtype=F, requires_grad=True)
        dk.launch(stored, 3, inputs=[*tables, x, y])
        dk.launch(total, SIZE, inputs=[y, s])
        return s

    def gradient(values: Any) -> Any:
        return dk.grad(loss)(dk.array(values, dtype=F)).numpy()

    h = 1e-6
    wanted = (gradient(X + h * WEIGHTS) - gradient(X - h * WEIGHTS)) / (2 * h)
    (found,) = dk.hvp(loss, [dk.array(X, dtype=F)], [dk.array(WEIGHTS, dtype=F)])
    assert np.abs(wanted).max() > 0.1
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-6, atol=1e-8)


def test_steps_of_a_checkpoint_are_looked_at(looks: list[str]) -> None:
    tables = APART.tables()
    x, y, before = (dk.array(v, dtype=F, requires_grad=True) for v in (X, Y, Y))
    with dk.Tape() as tape:
        dk.copy(y, before)
        dk.checkpoint(lambda _: dk.launch(stored, 3, inputs=[*tables, x, y]), 4, 2)
    tape.backward(grads={y: dk.array(WEIGHTS, dtype=F)})
    twice = Rows([row * 4 for row in APART.threads])  # a thread's row ends where it began, four times
    np.testing.assert_allclose(x.grad.numpy(), differences(stored, twice)[0], rtol=1e-6, atol=1e-8)
    assert len(looks) == 1


# -- devices, blocks and lanes ---------------------------------------------------------------------------------------


def on_device(kernel: Any, rows: Rows) -> Any:
    x, y = (dk.array(v, dtype=F, requires_grad=True, device="cuda:0") for v in (X, Y))
    with dk.Tape() as tape:
        dk.launch(kernel, len(rows.threads), inputs=[*(a.to("cuda:0") for a in rows.tables()), x, y])
    tape.backward(grads={y: dk.array(WEIGHTS, dtype=F, device="cuda:0")})
    return x.grad.numpy()


@pytest.mark.parametrize("kernel", [stored, added])
def test_launches_on_a_gpu_are_looked_at_there(kernel: Any) -> None:
    with fake_cuda(run="ptx", races=False):  # the second launch has one, which diffkern tells
        np.testing.assert_allclose(on_device(kernel, APART), differences(kernel, APART)[0], rtol=1e-6, atol=1e-8)
        with pytest.raises(AutodiffError, match=r"thread 1 reads y\[2\] here, which thread 0"):
            on_device(kernel, Rows([[(1, 0), (2, 1)], [(5, 4), (6, 2)]]))


def test_threads_of_a_gpu_that_write_the_same_values_do_not_read_them() -> None:
    """In which order they read and write is not seen there."""
    apart, together = Rows([[(0, 7), (2, 6)], [(0, 7), (3, 6)]]), TOGETHER
    with fake_cuda(run="ptx", races=False):  # the second launch has one, which diffkern tells
        np.testing.assert_allclose(on_device(stored, apart), differences(stored, apart)[0], rtol=1e-6, atol=1e-8)
        with pytest.raises(AutodiffError, match=r"thread \d reads y\[0\] here, which thread \d writes"):
            on_device(stored, together)


# -- how often a thread goes round -------------------------------------------------------------------------------------


@dk.kernel
def grown(at: I1, of: I1, limit: X1, y: X1):
    """What a thread reads of its element says how often it goes round, and what is written there is needed."""
    t = dk.tid()
    k = at[t]
    while y[k] < limit[t] + 0.01 * y[of[t]]:
        y[k] = y[k] * y[k] + 0.3


def grown_gradient(at: list[int], of: list[int]) -> tuple[Any, Any]:
    y = dk.array(Y, dtype=F, requires_grad=True)
    before = dk.array(Y, dtype=F, requires_grad=True)
    with dk.Tape() as tape:
        dk.copy(y, before)
        dk.launch(grown, len(at), inputs=[integers(at), integers(of), dk.array(LIMITS[: len(at)], dtype=F), y])
    tape.backward(grads={y: dk.array(WEIGHTS, dtype=F)})
    return y.numpy(), before.grad.numpy()


LIMITS = np.linspace(0.4, 3.0, SIZE)


def test_rounds_that_depend_on_what_the_thread_itself_has_written() -> None:
    at = np.random.default_rng(12).permutation(SIZE).tolist()
    values, slopes, rounds = Y.copy(), np.ones(SIZE), set()
    for k, limit in zip(at, LIMITS, strict=True):
        n = 0
        while values[k] < limit + 0.01 * values[k]:
            slopes[k] *= 2.0 * values[k]
            values[k] = values[k] ** 2 + 0.3
            n += 1
        rounds.add(n)
    found, gradient = grown_gradient(at, at)
    assert len(rounds) > 2
    np.testing.assert_allclose(found, values, rtol=1e-14)
    np.testing.assert_allclose(gradient, WEIGHTS * slopes, rtol=1e-12)


def test_rounds_that_depend_on_another_thread_are_refused() -> None:
    with pytest.raises(AutodiffError, match=r"thread \d (reads|writes) y\[\d\] here, which thread \d (reads|writes)"):
        grown_gradient([0, 1, 2], [0, 2, 2])
    with pytest.raises(AutodiffError, match=r"thread \d (reads|writes) y\[1\] here, which thread \d (reads|writes)"):
        grown_gradient([0, 1, 1], [0, 1, 1])
