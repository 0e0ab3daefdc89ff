"""``a[i] += v`` and its kin: atomic where threads may meet, plain where the element is one thread's own."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import diffkern as dk
from diffkern.runtime.accumulate.adjoint import AdjointLaunch
from diffkern.runtime.launch import schedule
from diffkern.runtime.launch.packed import PackedLaunch
from diffkern.testing import gradcheck

N = 300_000


@dk.kernel
def histogram(at: dk.array(dtype=int), x: dk.array(dtype=float), h: dk.array(dtype=float)):
    i = dk.tid()
    h[at[i]] += x[i]


@dk.kernel
def difference(at: dk.array(dtype=int), x: dk.array(dtype=float), h: dk.array(dtype=float)):
    i = dk.tid()
    h[at[i]] -= 2.0 * x[i]


@dk.kernel
def total(x: dk.array(dtype=float), y: dk.array(dtype=float)):
    i = dk.tid()
    y[0] += x[i] * x[i]


@dk.kernel
def neighbours(x: dk.array(dtype=float), y: dk.array(dtype=float)):
    i = dk.tid()
    y[i] += x[i]
    y[i + 1] += 2.0 * x[i]


@dk.kernel
def with_an_atomic(at: dk.array(dtype=int), x: dk.array(dtype=float), y: dk.array(dtype=float)):
    i = dk.tid()
    y[i] += x[i]
    dk.atomic_add(y, at[i], 1.0)


@dk.kernel
def own(x: dk.array(dtype=float), y: dk.array(dtype=float)):
    i = dk.tid()
    y[i] += x[i]


@dk.kernel
def own_by_a_store(at: dk.array(dtype=int), x: dk.array(dtype=float), y: dk.array(dtype=float)):
    i = dk.tid()
    y[at[i]] = 0.0
    for k in range(3):
        y[at[i]] += x[i]


@dk.kernel
def own_sheet(x: dk.array(dtype=float, ndim=2), y: dk.array(dtype=float, ndim=2)):
    i, j = dk.tid()
    y[i, j] += x[i, j]


@dk.kernel
def columns(x: dk.array(dtype=float, ndim=2), y: dk.array(dtype=float)):
    i, j = dk.tid()
    y[j] += x[i, j]


@dk.kernel
def own_row(x: dk.array(dtype=float), c: dk.array(dtype=float), n: int):
    i = dk.tid()
    for j in range(n):
        c[i * n + j] += x[i] * x[i]


@dk.kernel
def plain_form(at: dk.array(dtype=int), x: dk.array(dtype=float), y: dk.array(dtype=float)):
    i = dk.tid()
    y[at[i]] = y[at[i]] + x[i]


@dk.kernel
def parts(at: dk.array(dtype=int), x: dk.array(dtype=float), v: dk.array(dtype=dk.vec3), m: dk.array(dtype=dk.mat22)):
    i = dk.tid()
    v[at[i]].y += x[i]
    v[at[i]][at[i] % 3] += 1.0
    v[at[i]] -= dk.vec3(0.0, 0.0, x[i])
    m[at[i]][1, 0] -= x[i]
    m[at[i]][0] += dk.vec2(x[i], 2.0)


@dk.struct
class Particle:
    mass: float
    pos: dk.vec3


@dk.kernel
def fields(at: dk.array(dtype=int), x: dk.array(dtype=float), p: dk.array(dtype=Particle)):
    i = dk.tid()
    p[at[i]].mass += x[i]
    p[at[i]].pos.z += 2.0 * x[i]


@dk.kernel
def bits(
    at: dk.array(dtype=int), a: dk.array(dtype=dk.uint32), b: dk.array(dtype=bool), c: dk.array(dtype=dk.uint8),
    d: dk.array(dtype=dk.int64),
):  # fmt: skip
    i = dk.tid()
    a[at[i]] |= dk.uint32(1) << dk.uint32(i % 16)
    b[at[i]] |= i == 7
    c[at[i]] ^= dk.uint8(1)
    d[at[i]] &= dk.int64(i) | dk.int64(12)


@dk.kernel
def nobody_asks(h: dk.array(dtype=float)):
    h[0] += 1.0


@dk.kernel
def running_sum(h: dk.array(dtype=float)):
    for i in range(1, h.shape[0]):
        h[i] += h[i - 1]


@dk.kernel
def doubled_by_all(y: dk.array(dtype=float)):
    i = dk.tid()
    y[0] *= 2.0 + 0.0 * float(i)


@dk.kernel
def read_and_written_by_all(x: dk.array(dtype=float), y: dk.array(dtype=float)):
    i = dk.tid()
    y[0] = dk.max(y[0], x[i])


@dk.kernel
def divided_in_a_loop(y: dk.array(dtype=float)):
    i = dk.tid()
    for k in range(3):
        y[k] /= 2.0 + float(i)


@dk.kernel
def doubled_by_one(y: dk.array(dtype=float)):
    i = dk.tid()
    if i == 0:
        y[0] *= 2.0


@dk.kernel
def read_back(at: dk.array(dtype=int), x: dk.array(dtype=float), h: dk.array(dtype=float), y: dk.array(dtype=float)):
    i = dk.tid()
    h[at[i]] += x[i]
    y[i] = h[at[i]] * x[i]


@dk.kernel
def stored_and_updated(at: dk.array(dtype=int), x: dk.array(dtype=float), h: dk.array(dtype=float)):
    i = dk.tid()
    h[i] = x[i]
    h[at[i]] += x[i]


def drawn(bins=7):
    rng = np.random.default_rng(3)
    at = rng.integers(0, bins, N).astype(np.int32)
    x = rng.integers(-3, 4, N).astype(np.float32)
    return dk.array(at), dk.array(x), at, x


# -- updates that may meet ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kernel", "factor"), [(histogram, 1.0), (difference, -2.0)])
def test_no_update_is_lost(kernel, factor):
    at, x, at_, x_ = drawn()
    h = dk.zeros(7)
    kernel[N](at, x, h)
    assert np.array_equal(h.numpy(), factor * np.bincount(at_, x_, 7).astype(np.float32))


def test_one_element_for_all():
    x, y = dk.ones(N, requires_grad=True), dk.zeros(1, requires_grad=True)
    with dk.Tape() as tape:
        total[N](x, y)
    assert y.numpy()[0] == N
    tape.backward(y)
    assert (x.grad.numpy() == 2).all()


def test_two_updates_that_are_one_to_one_each():
    x, y = dk.ones(N), dk.zeros(N + 1)
    neighbours[N](x, y)
    assert np.array_equal(y.numpy(), np.array([1.0, *[3.0] * (N - 1), 2.0], np.float32))
    assert neighbours.source().count("atomic_add") == 3  # the import, and both updates


def test_an_update_beside_an_atomic():
    at, x, at_, x_ = drawn(N)
    y = dk.zeros(N)
    with_an_atomic[N](at, x, y)
    assert np.array_equal(y.numpy(), (x_ + np.bincount(at_, minlength=N)).astype(np.float32))


def test_components():
    at, x, at_, x_ = drawn()
    v, m = dk.zeros(7, dtype=dk.vec3), dk.zeros(7, dtype=dk.mat22)
    parts[N](at, x, v, m)
    count, total_ = np.bincount(at_, minlength=7), np.bincount(at_, x_, 7)
    expected = np.stack([0 * total_, total_, -total_], 1)
    expected[np.arange(7), np.arange(7) % 3] += count
    assert np.array_equal(v.numpy(), expected.astype(np.float32))
    expected = np.stack([np.stack([total_, 2 * count], 1), np.stack([-total_, 0 * total_], 1)], 1)
    assert np.array_equal(m.numpy(), expected.astype(np.float32))


def test_components_that_are_not_meant_keep_the_sign_of_their_zero():
    v, m = dk.full(1, dk.vec3(-0.0), dtype=dk.vec3), dk.zeros(1, dtype=dk.mat22)
    parts[1](dk.zeros(1, dtype=int), dk.zeros(1), v, m)
    v.assign(np.array([[-0.0, -0.0, -0.0]], np.float32))
    parts[1](dk.zeros(1, dtype=int), dk.ones(1), v, m)
    assert np.array_equal(v.numpy(), [[1.0, 1.0, -1.0]])


def test_fields_of_structs():
    at, x, at_, x_ = drawn()
    p = dk.zeros(7, dtype=Particle)
    fields[N](at, x, p)
    total_ = np.bincount(at_, x_, 7).astype(np.float32)
    assert np.array_equal(p.numpy()["mass"], total_)
    assert np.array_equal(p.numpy()["pos"][:, 2], 2 * total_)
    assert not p.numpy()["pos"][:, :2].any()


def test_bits():
    at, _, at_, _ = drawn()
    a, b = dk.zeros(7, dtype=dk.uint32), dk.zeros(7, dtype=bool)
    c, d = dk.zeros(7, dtype=dk.uint8), dk.full(7, -1, dtype=dk.int64)
    bits[N](at, a, b, c, d)
    assert (a.numpy() == 0xFFFF).all()
    assert np.array_equal(b.numpy(), np.arange(7) == at_[7])
    assert np.array_equal(c.numpy(), np.bincount(at_) % 2)
    assert (d.numpy() == 12).all()


def test_a_sheet_summed_over_its_rows():
    x, y = dk.ones((500, 40)), dk.zeros(40)
    columns[500, 40](x, y)
    assert (y.numpy() == 500).all()


# -- elements of one thread --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", [own, own_sheet, own_by_a_store, own_row, plain_form, doubled_by_one])
def test_what_is_one_threads_own_is_plain(kernel):
    assert "atomic" not in kernel.source()


def test_what_is_one_threads_own_is_compiled_as_written():
    written = own.source().replace("y[i] = y[i] + x[i]", "")
    assert "y[i] = y[i] + x[i]" in own.source()
    assert "atomic" not in written


def test_rows_of_a_flat_array():
    n, m = 100, 30
    x, c = dk.ones(n, requires_grad=True), dk.zeros(n * m, requires_grad=True)
    with dk.Tape() as tape:
        own_row[n](x, c, m)
    tape.backward(grads={c: dk.ones(n * m)})
    assert (c.numpy() == 1).all()
    assert (x.grad.numpy() == 2 * m).all()


# -- gradients ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", [histogram, difference, own_by_a_store])
def test_gradients(kernel):
    at = np.array([3, 0, 2, 1] if kernel is own_by_a_store else [3, 0, 3, 1], np.int32)
    gradcheck(kernel, 4, [dk.array(at), dk.array([1.0, 2.0, 3.0, 4.0], dtype=float)], [dk.ones(4)])


def test_gradients_of_components():
    at = np.array([1, 0, 1, 1], np.int32)
    x = dk.array([1.0, 2.0, 3.0, 4.0], dtype=float)
    gradcheck(parts, 4, [dk.array(at), x], [dk.ones(2, dtype=dk.vec3), dk.ones(2, dtype=dk.mat22)])


def test_an_update_reads_the_cotangent_and_leaves_it():
    at, x = dk.array(np.array([0, 1, 0], np.int32)), dk.ones(3, requires_grad=True)
    h = dk.zeros(2, requires_grad=True)
    h.grad.assign(np.array([5.0, 7.0], np.float32))
    dk.launch(histogram, 3, [at, x], [h], adjoint=True)
    assert x.grad.numpy().tolist() == [5.0, 7.0, 5.0]
    assert h.grad.numpy().tolist() == [5.0, 7.0]


def test_what_threads_add_to_is_not_read_back():
    with pytest.raises(dk.AutodiffError, match="another thread of the same launch may write") as caught:
        read_back.adjoint_source()
    assert "h[k] = h[k] + v" in caught.value.remedy
    assert caught.value.loc.text.strip().startswith("y[i] =")


def test_stores_and_updates_are_not_mixed():
    with pytest.raises(dk.AutodiffError, match="h is stored to and updated atomically") as caught:
        stored_and_updated.adjoint_source()
    assert "h[k] = h[k] + v" in caught.value.remedy


# -- what all threads share --------------------------------------------------------------------------------------------


def test_a_kernel_without_an_index():
    h = dk.zeros(1)
    nobody_asks[1000](h)
    assert h.numpy()[0] == 1000


def test_a_kernel_for_one_thread():
    h = dk.ones(5)
    running_sum[1](h)
    assert h.numpy().tolist() == [1, 2, 3, 4, 5]
    with pytest.raises(dk.LaunchError, match="each of the 2 threads reads the same element of 'h'"):
        running_sum[2](h)


@pytest.mark.parametrize(
    ("kernel", "arrays", "line"),
    [
        (doubled_by_all, ["y"], "y[0] *= 2.0"),
        (read_and_written_by_all, ["x", "y"], "y[0] = dk.max"),
        (divided_in_a_loop, ["y"], "y[k] /= 2.0"),
    ],
)
def test_what_all_threads_read_and_write(kernel, arrays, line):
    held = [dk.ones(4) for _ in arrays]
    kernel[1](*held)
    before = held[-1].numpy().copy()
    with pytest.raises(dk.LaunchError, match="each of the 4 threads reads the same element of 'y'") as caught:
        kernel[4](*held)
    assert caught.value.loc.text.strip().startswith(line)
    assert "if i == 0" in caught.value.remedy
    assert np.array_equal(held[-1].numpy(), before)
    record = dk.launch(kernel, 1, held, record_cmd=True)
    with pytest.raises(dk.LaunchError, match="each of the 4 threads"):
        record.set_dim(4)


def test_what_one_thread_reads_and_writes():
    y = dk.ones(1)
    doubled_by_one[1000](y)
    assert y.numpy()[0] == 2


@dk.kernel
def into_cells(
    x: dk.array(dtype=float), cell: dk.array(dtype=int), total: dk.array(dtype=dk.vec2), most: dk.array(dtype=int)
):
    i = dk.tid()
    dk.atomic_add(total, cell[i], dk.vec2(x[i], 1.0))
    dk.atomic_max(most, cell[i], i)


def _cells(n: int) -> None:
    rng = np.random.default_rng(n)
    x, cell = rng.integers(0, 9, n).astype(np.float32), rng.integers(0, 11, n).astype(np.int32)
    total, most = dk.zeros(11, dtype=dk.vec2), dk.full(11, -1, dtype=int)
    dk.launch(into_cells, dim=n, inputs=[dk.array(x), dk.array(cell)], outputs=[total, most])
    expected = np.stack([np.bincount(cell, x, 11), np.bincount(cell, minlength=11)], 1)
    np.testing.assert_array_equal(total.numpy(), expected)  # whole numbers: in any order
    np.testing.assert_array_equal(most.numpy(), [np.flatnonzero(cell == k).max(initial=-1) for k in range(11)])


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_updates_are_complete_with_any_number_of_threads(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedule, "_CHUNK_WORK", 2000.0)
    before = dk.config.num_threads
    dk.config.num_threads = threads
    try:
        for n in (1, 7, 1000, 60_000, 200_000, 60_000, 200_000):
            _cells(n)
    finally:
        dk.config.num_threads = before


COUNTS_IN_THREADS = """
import threading
import numpy as np
import diffkern as dk

@dk.kernel
def count(total: dk.array(dtype=float), cell: dk.array(dtype=int)):
    dk.atomic_add(total, cell[dk.tid()], 1.0)

n, repeats = 20_000, 60
cell, total = dk.array(np.arange(n, dtype=np.int32) % 3), dk.zeros(3, dtype=float)

def launch():
    for _ in range(repeats):
        dk.launch(count, dim=n, inputs=[total, cell])

launch()  # alone
threads = [threading.Thread(target=launch) for _ in range(3)]
for thread in threads:
    thread.start()
launch()
for thread in threads:
    thread.join()
counts = np.bincount(np.arange(n) % 3) * 5 * repeats
assert (total.numpy() == counts).all(), (total.numpy(), counts)
"""


@pytest.mark.parametrize("threads", [1, 2])
def test_launches_of_several_threads_update_the_same_elements(threads: int, tmp_path: Path) -> None:
    """The first launch of another thread may come while one of the main thread is alone."""
    environment = {**os.environ, "DIFFKERN_NUM_THREADS": str(threads)}
    (tmp_path / "counts.py").write_text(COUNTS_IN_THREADS)
    subprocess.run([sys.executable, tmp_path / "counts.py"], check=True, env=environment, timeout=120)


@dk.kernel
def weigh(
    x: dk.array(dtype=float),
    cell: dk.array(dtype=int),
    sums: dk.array(dtype=dk.vec3d),
    counts: dk.array(dtype=dk.int64),
    total: dk.array(dtype=float),
):
    i = dk.tid()
    v = dk.float64(x[i])
    dk.atomic_add(sums, cell[i], dk.vec3d(v, 2.0 * v, 1.0))
    dk.atomic_sub(counts, cell[i], dk.int64(i))
    dk.atomic_add(total, 0, x[i])


@pytest.fixture
def copied_runs(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Launches are cut finely, and deal out copies as on a machine with 64 processors."""
    monkeypatch.setattr(schedule, "_CHUNK_WORK", 2000.0)
    monkeypatch.setattr(schedule, "processors", lambda: 64)
    before = dk.config.num_threads
    dk.config.num_threads = 3
    yield
    dk.config.num_threads = before


@pytest.mark.parametrize("n", [1, 3000, 100_003])
@pytest.mark.usefixtures("copied_runs")
def test_chunks_add_to_copies_of_their_own(n: int) -> None:
    rng = np.random.default_rng(n)
    x, cell = rng.integers(0, 9, n).astype(np.float32), rng.integers(0, 5, n).astype(np.int32)
    inputs = [dk.array(x), dk.array(cell)]
    outputs = [dk.zeros(5, dtype=dk.vec3d), dk.zeros(5, dtype=dk.int64), dk.zeros(1, dtype=float)]
    record = dk.launch(weigh, dim=n, inputs=inputs, outputs=outputs, record_cmd=True)
    for launches in range(1, 8):
        if launches % 2:
            dk.launch(weigh, dim=n, inputs=inputs, outputs=outputs)
        else:
            record.launch()
        sums, counts, total = (a.numpy() / launches for a in outputs)
        expected = np.bincount(cell, x, 5)
        np.testing.assert_array_equal(sums, np.stack([expected, 2 * expected, np.bincount(cell, minlength=5)], 1))
        np.testing.assert_array_equal(counts, -np.bincount(cell, np.arange(n), 5))
        assert total[0] == x.sum()
    (program,) = weigh.programs.values()
    assert program.manifest.added == (2, 3)
    if n > 100_000:
        assert max(g.count for g in program._grouped.values() if g) >= 32


@dk.kernel
def gather(x: dk.array(dtype=dk.vec2), cell: dk.array(dtype=int), y: dk.array(dtype=float)):
    i = dk.tid()
    y[i] = x[cell[i]][0] * x[cell[i]][1]


@pytest.mark.usefixtures("copied_runs")
def test_an_adjoint_with_copies_is_native_and_the_same_each_time() -> None:
    n, rng = 100_003, np.random.default_rng(8)
    values, cell = rng.random((7, 2)).astype(np.float32), rng.integers(0, 7, n).astype(np.int32)
    x = dk.array(values, dtype=dk.vec2, requires_grad=True)
    at, y = dk.array(cell), dk.zeros(n, dtype=float, requires_grad=True)
    with dk.Tape() as tape:
        dk.launch(gather, dim=n, inputs=[x, at], outputs=[y])
    found = []
    for _ in range(4):  # from the third time on as one native call
        tape.zero()
        tape.backward(grads={y: dk.ones(n, dtype=float)})
        found.append(x.grad.numpy().copy())
    expected = np.bincount(cell, minlength=7)[:, None] * values[:, ::-1].astype(np.float64)
    np.testing.assert_allclose(found[0], expected, rtol=1e-4)
    assert all((other == found[0]).all() for other in found)
    forward = PackedLaunch(gather, n, [x, at, y])
    adjoint = AdjointLaunch(forward, {0: dk.zeros_like(x), 2: dk.ones(n, dtype=float)})
    assert adjoint.accumulation.private == (0,)
    (step,) = adjoint.steps() or ()
    assert step.copied is not None
