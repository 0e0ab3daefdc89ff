"""Adjoints that add up by sorted destinations: the same gradients, also after every change of the indices."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import diffkern as dk
from diffkern.contracts.options import PLAIN, SORTED
from diffkern.errors import CompileError
from diffkern.runtime.accumulate import sorting
from diffkern.runtime.launch import partition, schedule
from diffkern.runtime.launch.packed import PackedLaunch

N, COUNT = 1003, 211  # no multiple of the lanes


@pytest.fixture(autouse=True)
def atomic_updates(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Launches add atomically, as no copies pay, and small ones may be sorted as well."""
    monkeypatch.setattr(schedule, "_CHUNK_WORK", 200.0)
    monkeypatch.setattr(partition, "_groups", lambda *facts: 1)
    monkeypatch.setattr(sorting, "_FEWEST", 1)
    before = dk.config.num_threads
    dk.config.num_threads = 3
    yield
    dk.config.num_threads = before


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Of each adjoint whose destinations may be sorted, whether they were."""
    found: list[bool] = []
    run = sorting.Sorting.run

    def noted(self: sorting.Sorting, pack: Any) -> bool:
        found.append(run(self, pack))
        return found[-1]

    monkeypatch.setattr(sorting.Sorting, "run", noted)
    return found


@dk.kernel
def area(vertex: dk.array(dtype=dk.vec3), face: dk.array2d(dtype=int), out: dk.array(dtype=float)):
    t = dk.tid()
    a = vertex[face[t, 0]]
    b = vertex[face[t, 1]]
    c = vertex[face[t, 2]]
    out[t] = dk.length(dk.cross(b - a, c - a))


@dk.kernel
def area64(vertex: dk.array(dtype=dk.vec3d), face: dk.array2d(dtype=dk.int64), out: dk.array(dtype=dk.float64)):
    t = dk.tid()
    a = vertex[face[t, 0]]
    b = vertex[face[t, 1]]
    c = vertex[face[t, 2]]
    out[t] = dk.length_sq(dk.cross(b - a, c - a))


@dk.kernel
def flat(x: dk.array(dtype=dk.float64), at: dk.array(dtype=int), out: dk.array(dtype=dk.float64)):
    t = dk.tid()
    out[t] = x[at[3 * t]] * x[at[3 * t + 1]] * dk.sin(x[at[3 * t + 2]])


@dk.kernel
def springs(
    x: dk.array(dtype=dk.vec2d), k: dk.array(dtype=dk.float64), a: dk.array(dtype=int), b: dk.array(dtype=dk.uint16),
    kind: dk.array(dtype=dk.int8), out: dk.array(dtype=dk.float64),
):  # fmt: skip
    t = dk.tid()
    d = x[a[t]] - x[b[t]]
    s = dk.cw_mul(d, x[t])
    out[t] = k[kind[t]] * (s[0] + s[1])


@dk.kernel
def same_twice(x: dk.array(dtype=dk.float64), at: dk.array(dtype=int), out: dk.array(dtype=dk.float64)):
    t = dk.tid()
    total = dk.float64(0.0)
    for j in range(3):
        total += x[at[t]] * x[at[t] + 0] * dk.float64(j + 1)
    out[t] = total


@dk.kernel
def matrices(x: dk.array(dtype=dk.mat33d), at: dk.array(dtype=int), out: dk.array(dtype=dk.float64)):
    t = dk.tid()
    out[t] = dk.determinant(x[at[t]])


@dk.kernel
def looped(x: dk.array(dtype=float), at: dk.array(dtype=int), n: int, out: dk.array(dtype=float)):
    t = dk.tid()
    v = x[at[t]]
    for _ in range(n):
        v = 3.1 * v * (1.0 - v)
    out[t] = v


def indices(shape: tuple[int, ...] | int, dtype: Any = np.int32, count: int = COUNT, seed: int = 0) -> np.ndarray:
    """Indices of which many are equal, some are negative, and some elements have none."""
    rng = np.random.default_rng(seed)
    found = rng.integers(0 if np.dtype(dtype).kind == "u" else -count, count, shape)
    found[np.abs(found) % 7 == 2] = min(5, count - 1)
    return found.astype(dtype)


def reals(*shape: int, dtype: Any = np.float64) -> np.ndarray:
    return np.random.default_rng(1).uniform(0.2, 0.9, shape).astype(dtype)


CASES: dict[str, tuple[Any, list[Any], dict[int, Any]]] = {
    "area": (area, [reals(COUNT, 3, dtype=np.float32), indices((N, 3)), np.zeros(N, np.float32)], {0: dk.vec3}),
    "area64": (area64, [reals(COUNT, 3), indices((N, 3), np.int64), np.zeros(N)], {0: dk.vec3d}),
    "flat": (flat, [reals(COUNT), indices(3 * N), np.zeros(N)], {}),
    "springs": (
        springs,
        [reals(N, 2), reals(3), indices(N, count=N), indices(N, np.uint16), indices(N, np.int8, 3), np.zeros(N)],
        {0: dk.vec2d},
    ),
    "same twice": (same_twice, [reals(COUNT), indices(N), np.zeros(N)], {}),
    "matrices": (matrices, [reals(COUNT, 3, 3), indices(N), np.zeros(N)], {0: dk.mat33d}),
    "looped": (looped, [reals(COUNT, dtype=np.float32), indices(N), 5, np.zeros(N, np.float32)], {}),
}  # fmt: skip


def arguments(values: list[Any], types: dict[int, Any]) -> list[Any]:
    return [
        dk.array(v, dtype=types.get(k), requires_grad=v.dtype.kind == "f") if isinstance(v, np.ndarray) else v
        for k, v in enumerate(values)
    ]


def gradients(kernel: Any, made: list[Any], n: int = N) -> list[np.ndarray]:
    """The gradients of the sum of squares of what a launch computes, which are cleared before."""
    active = [a for a in made if isinstance(a, dk.array) and a.grad is not None]
    for a in active:
        a.grad.zero_()
    with dk.Tape() as tape:
        dk.launch(kernel, dim=n, inputs=made)
    tape.backward(grads={made[-1]: made[-1].numpy().copy()})
    return [a.grad.numpy().copy() for a in active[:-1]]


def plain(monkeypatch: pytest.MonkeyPatch, gradient: Callable[[], list[np.ndarray]]) -> list[np.ndarray]:
    with monkeypatch.context() as patched:
        patched.setattr(sorting.Sorting, "run", lambda self, pack: False)
        return gradient()


def check(found: list[np.ndarray], expected: list[np.ndarray]) -> None:
    for a, b in zip(found, expected, strict=True):
        tolerance = 1e-12 if a.dtype == np.float64 else 2e-5
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance * np.abs(b).max(initial=1.0))


@pytest.mark.parametrize("name", CASES)
def test_the_gradient_is_that_of_the_plain_form(name: str, ran: list[bool], monkeypatch: pytest.MonkeyPatch) -> None:
    kernel, values, types = CASES[name]
    made = arguments(values, types)
    found = [gradients(kernel, made) for _ in range(3)]
    assert ran == [False, True, True]
    expected = plain(monkeypatch, lambda: gradients(kernel, made))
    for one in found:
        check(one, expected)
    for a, b in zip(found[1], found[2], strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("name", ["area64", "flat", "springs", "same twice", "matrices"])
def test_the_gradient_is_that_of_differences(name: str, ran: list[bool]) -> None:
    kernel, values, types = CASES[name]
    made = arguments(values, types)
    gradients(kernel, made)
    found, rng, h = gradients(kernel, made), np.random.default_rng(3), 1e-6
    assert ran[-1]
    active = [k for k, a in enumerate(made[:-1]) if isinstance(a, dk.array) and a.grad is not None]
    directions = [rng.normal(size=values[k].shape) for k in active]

    def energy(step: float) -> float:
        moved = list(values)
        for k, direction in zip(active, directions, strict=True):
            moved[k] = values[k] + step * direction
        args = arguments(moved, types)
        dk.launch(kernel, dim=N, inputs=args)
        return 0.5 * float((args[-1].numpy() ** 2).sum())

    difference = (energy(h) - energy(-h)) / (2 * h)
    product = sum(float((g * d).sum()) for g, d in zip(found, directions, strict=True))
    assert product == pytest.approx(difference, rel=1e-6)


def test_the_same_bits_for_any_number_of_threads(ran: list[bool]) -> None:
    kernel, values, types = CASES["area"]
    made = arguments(values, types)
    gradients(kernel, made)
    found = []
    for threads in (2, 3, 7):
        dk.config.num_threads = threads
        found += gradients(kernel, made)
    assert ran == [False, True, True, True]
    assert all((other == found[0]).all() for other in found)
    dk.config.num_threads = 1  # needs no atomic updates
    check(gradients(kernel, made), found[:1])
    assert len(ran) == 4


def test_launches_without_threads(ran: list[bool]) -> None:
    kernel, values, types = CASES["area"]
    made = arguments(values, types)
    for _ in range(3):
        assert not gradients(kernel, made, 0)[0].any()
    assert not ran


@pytest.mark.parametrize("n", [700, 997, 1003])
def test_other_numbers_of_threads_are_sorted_apart(n: int, ran: list[bool], monkeypatch: pytest.MonkeyPatch) -> None:
    kernel, values, types = CASES["area64"]
    made = arguments(values, types)
    for size in (N, n, N, n):
        check(gradients(kernel, made, size), plain(monkeypatch, lambda size=size: gradients(kernel, made, size)))
    assert any(ran)


# -- changes of the indices --------------------------------------------------------------------------------------------


@dk.kernel
def store(at: dk.array2d(dtype=int), values: dk.array2d(dtype=int)):
    i, j = dk.tid()
    at[i, j] = values[i, j]


@dk.kernel
def move(at: dk.array2d(dtype=int)):
    i, j = dk.tid()
    at[i, j] = (at[i, j] + 7) % 100


NEW = indices((N, 3), seed=9)


def by_launch(at: dk.array) -> None:
    dk.launch(store, dim=(N, 3), inputs=[at, dk.array(NEW)])


def by_record(at: dk.array) -> None:
    record = dk.launch(move, dim=(N, 3), inputs=[at], record_cmd=True)
    record.launch()
    record.launch()


def by_sequence(at: dk.array) -> None:
    with dk.record() as sequence:
        dk.launch(move, dim=(N, 3), inputs=[at])
    for _ in range(3):
        sequence.replay()


def by_stream(at: dk.array) -> None:
    stream = dk.Stream("cpu")
    dk.launch(store, dim=(N, 3), inputs=[at, dk.array(NEW)], stream=stream)


def by_view_given_out(at: dk.array) -> None:
    at.numpy()[:] = NEW


def by_interface(at: dk.array) -> None:
    np.asarray(at)[4:40] = 3


def by_dlpack(at: dk.array) -> None:
    np.from_dlpack(at)[4:40] = 3


def by_pointer(at: dk.array) -> None:
    other = dk.array(ptr=at.ptr, shape=(N, 3), dtype=int)
    other.assign(NEW)


def by_part(at: dk.array) -> None:
    at[10:200].assign(NEW[10:200])


def by_element(at: dk.array) -> None:
    at[3, 1] = 17


CHANGES: dict[str, Callable[[dk.array], Any]] = {
    "launch": by_launch, "record": by_record, "sequence": by_sequence, "stream": by_stream,
    "a view that was given out": by_view_given_out, "NumPy's protocol": by_interface, "DLPack": by_dlpack,
    "address": by_pointer, "a part": by_part, "an element": by_element,
    "assign": lambda at: at.assign(NEW), "fill": lambda at: at.fill_(2), "zero": lambda at: at.zero_(),
    "copy": lambda at: dk.copy(at, dk.array(NEW)),
}  # fmt: skip


@pytest.mark.parametrize("change", CHANGES)
def test_every_change_of_the_indices_is_seen(change: str, ran: list[bool], monkeypatch: pytest.MonkeyPatch) -> None:
    kernel, values, types = CASES["area64"]
    made = arguments([values[0], values[1].astype(np.int32), values[2]], types)
    kernel = same_area
    for _ in range(2):
        for _ in range(3):
            found = gradients(kernel, made)
        assert ran[-1]
        CHANGES[change](made[1])
        expected = plain(monkeypatch, lambda: gradients(kernel, made))
        for _ in range(4):
            found = gradients(kernel, made)
            check(found, expected)


@dk.kernel
def same_area(vertex: dk.array(dtype=dk.vec3d), face: dk.array2d(dtype=int), out: dk.array(dtype=dk.float64)):
    t = dk.tid()
    a = vertex[face[t, 0]]
    b = vertex[face[t, 1]]
    c = vertex[face[t, 2]]
    out[t] = dk.length_sq(dk.cross(b - a, c - a))


def test_a_numpy_view_kept_from_before_may_write_at_any_time(ran: list[bool], monkeypatch: pytest.MonkeyPatch) -> None:
    made = arguments([reals(COUNT, 3), indices((N, 3)), np.zeros(N)], {0: dk.vec3d})
    view = made[1].numpy()
    for step in range(6):
        view[step * 100 : step * 100 + 50] = step
        check(gradients(same_area, made), plain(monkeypatch, lambda: gradients(same_area, made)))
    assert sum(ran) <= 1  # it is not sorted with every launch
    for _ in range(3):
        found = gradients(same_area, made)
    assert ran[-1]
    view[:] = NEW
    expected = plain(monkeypatch, lambda: gradients(same_area, made))
    check(gradients(same_area, made), expected)
    assert not (found[0] == expected[0]).all()


def test_numpy_arrays_as_arguments(ran: list[bool], monkeypatch: pytest.MonkeyPatch) -> None:
    at = indices((N, 3))
    made = arguments([reals(COUNT, 3), at, np.zeros(N)], {0: dk.vec3d})
    made[1] = at
    for step in range(5):
        if step == 3:
            at[:] = NEW
        check(gradients(same_area, made), plain(monkeypatch, lambda: gradients(same_area, made)))
    assert ran[1]
    assert not ran[3]


def test_indices_that_change_with_each_step_are_never_sorted(ran: list[bool]) -> None:
    made = arguments([reals(COUNT, 3), indices((N, 3)), np.zeros(N)], {0: dk.vec3d})
    for seed in range(5):
        made[1].assign(indices((N, 3), seed=seed))
        gradients(same_area, made)
    assert ran == [False] * 5


def test_indices_at_a_place_where_others_were(ran: list[bool], monkeypatch: pytest.MonkeyPatch) -> None:
    values, types = [reals(COUNT, 3), indices((N, 3)), np.zeros(N)], {0: dk.vec3d}
    for seed in range(4):
        made = arguments([values[0], indices((N, 3), seed=seed), values[2]], types)
        for _ in range(2):
            check(gradients(same_area, made), plain(monkeypatch, lambda made=made: gradients(same_area, made)))
        del made
        gc.collect()
    assert ran == [False, True] * 4


# -- where it must not be ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("beyond", [COUNT, -COUNT - 1])
def test_indices_of_elements_that_do_not_exist_are_left_to_the_kernel(beyond: int) -> None:
    place = sorting.Destination(0, ((1, 0),), (False,), True)
    at = indices(N)
    assert sorting._destinations([place], {0: dk.array(at)}, N, COUNT) is not None
    at[17] = beyond
    assert sorting._destinations([place], {0: dk.array(at)}, N, COUNT) is None
    assert sorting._destinations([place], {0: dk.array(at[1:])}, N, COUNT) is None  # read beyond the array


def test_an_array_of_indices_that_the_kernel_writes(ran: list[bool]) -> None:
    @dk.kernel
    def renumber(x: dk.array(dtype=float), at: dk.array(dtype=int), out: dk.array(dtype=float)):
        t = dk.tid()
        out[t] = x[at[t]] * x[at[t]]
        at[t] = 0

    made = arguments([reals(COUNT, dtype=np.float32), indices(N), np.zeros(N, np.float32)], {})
    for _ in range(3):
        made[1].assign(indices(N))
        gradients(renumber, made)
    assert not any(ran)


def test_sums_under_conditions_are_added_atomically(ran: list[bool], monkeypatch: pytest.MonkeyPatch) -> None:
    @dk.kernel
    def chosen(x: dk.array(dtype=dk.float64), at: dk.array(dtype=int), out: dk.array(dtype=dk.float64)):
        t = dk.tid()
        k = at[t]
        total = dk.float64(k)
        if t % 3 == 1:
            total += x[k] * x[k]
        out[t] = total

    made = arguments([reals(COUNT), indices(N), np.ones(N)], {})
    found = [gradients(chosen, made) for _ in range(3)]
    assert not any(ran)
    expected = plain(monkeypatch, lambda: gradients(chosen, made))
    for one in found:
        check(one, expected)


def test_gradients_that_share_memory(ran: list[bool]) -> None:
    @dk.kernel
    def two(x: dk.array(dtype=float), y: dk.array(dtype=float), at: dk.array(dtype=int), out: dk.array(dtype=float)):
        t = dk.tid()
        out[t] = x[at[t]] * y[at[t]]

    x, at = dk.array(reals(COUNT, dtype=np.float32)), dk.array(indices(N))
    ct, out, ct_out = dk.zeros(COUNT, dtype=float), dk.zeros(N, dtype=float), dk.ones(N, dtype=float)
    for _ in range(3):
        ct.zero_()
        ct_out.fill_(1.0)
        dk.launch(two, N, [x, x, at], [out], [ct, ct, None], [ct_out], adjoint=True)
    np.testing.assert_allclose(ct.numpy(), 2 * np.bincount(at.numpy() % COUNT, minlength=COUNT) * x.numpy(), rtol=1e-4)
    assert not any(ran)


def test_a_gradient_with_gaps_is_added_to_atomically(ran: list[bool]) -> None:
    """Sorted sums are written one behind the other."""

    @dk.kernel
    def squares(x: dk.array(dtype=float), at: dk.array(dtype=int), out: dk.array(dtype=float)):
        t = dk.tid()
        out[t] = x[at[t]] * x[at[t]]

    x, at = dk.array(reals(COUNT, dtype=np.float32)), dk.array(indices(N))
    whole, out, ct_out = dk.zeros(2 * COUNT, dtype=float), dk.zeros(N, dtype=float), dk.ones(N, dtype=float)
    for _ in range(3):
        whole.fill_(7.0)
        whole[::2].zero_()
        ct_out.fill_(1.0)
        dk.launch(squares, N, [x, at], [out], [whole[::2], None], [ct_out], adjoint=True)
    expected = 2 * np.bincount(at.numpy() % COUNT, minlength=COUNT) * x.numpy()
    np.testing.assert_allclose(whole.numpy()[::2], expected, rtol=1e-4)
    assert (whole.numpy()[1::2] == 7.0).all()
    assert not any(ran)


def test_a_deterministic_gradient_is_the_same_each_time(ran: list[bool]) -> None:
    @dk.kernel(deterministic=True)
    def chained(x: dk.array(dtype=float), at: dk.array(dtype=int), out: dk.array(dtype=float)):
        t = dk.tid()
        out[t] = x[at[t]] * x[at[t + 1]] * dk.sin(x[at[t]])

    made = arguments([reals(COUNT, dtype=np.float32), indices(N + 1), np.zeros(N, np.float32)], {})
    first = gradients(chained, made)
    for _ in range(3):
        np.testing.assert_array_equal(gradients(chained, made), first)
    assert not ran


def test_too_many_contributions_are_added_atomically(ran: list[bool], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sorting, "_MOST_BYTES", 3 * N * 12 - 1)
    kernel, values, types = CASES["area"]
    made = arguments(values, types)
    for _ in range(3):
        gradients(kernel, made)
    assert not ran


def test_few_contributions_to_many_elements_are_added_atomically(ran: list[bool]) -> None:
    made = arguments([reals(6 * N + 1, 3), indices((N, 3)), np.zeros(N)], {0: dk.vec3d})
    for _ in range(3):
        gradients(same_area, made)
    assert not ran


def test_a_program_that_cannot_be_built_here(ran: list[bool], monkeypatch: pytest.MonkeyPatch) -> None:
    kernel, values, types = CASES["flat"]
    made = arguments(values, types)
    expected, adjoint = gradients(kernel, made), PackedLaunch.adjoint

    def refuse(self: PackedLaunch, active: Any, form: Any = PLAIN) -> Any:
        if form == SORTED:
            raise CompileError("no compiler") from ImportError("llvmlite")
        return adjoint(self, active, form)

    with monkeypatch.context() as patched:
        patched.setattr(PackedLaunch, "adjoint", refuse)
        patched.setattr(sorting, "_entries", weakref.WeakKeyDictionary())
        for _ in range(3):
            check(gradients(kernel, made), expected)
    program = PackedLaunch(kernel, N, made).adjoint(frozenset({0, 2}))
    assert program.sorts is False
    program.sorts = True
    program.fits.clear()  # what was chosen meanwhile for arrays whose places others may have by now
    assert not any(ran)


# -- other ways of a launch --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["by hand", "record", "sequence", "tape again", "stream"])
def test_every_way_of_an_adjoint(way: str, ran: list[bool]) -> None:
    kernel, values, types = CASES["flat"]
    made = arguments(values, types)
    expected = gradients(kernel, made)
    x, at, out = made
    seed = out.numpy().copy()
    tape = dk.Tape()
    if way == "tape again":
        with tape:
            dk.launch(kernel, dim=N, inputs=made)
    adjoint = {"dim": N, "inputs": [x, at], "outputs": [out], "adjoint": True}
    record = dk.launch(kernel, **adjoint, record_cmd=True) if way == "record" else None
    if way == "sequence":
        with dk.record() as sequence:
            dk.launch(kernel, **adjoint)
    for step in range(6):
        x.grad.zero_()
        out.grad.assign(seed)
        if way == "by hand":
            dk.launch(kernel, **adjoint)
        elif way == "stream":
            stream = dk.Stream("cpu")
            dk.launch(kernel, **adjoint, stream=stream)
        elif record is not None:
            record.launch()
        elif way == "sequence":
            sequence.replay()
        else:
            tape.backward(grads={out: seed})
        check([x.grad.numpy()], expected)
        if step == 3:
            at.assign(at.numpy()[::-1].copy())
            dk.launch(kernel, dim=N, inputs=made)
            seed = out.numpy().copy()
            expected = _by_numpy(x.numpy(), at.numpy(), seed)
            if way == "tape again":  # which refuses indices that were changed behind its back
                break
    assert ran[-1]


def _by_numpy(x: np.ndarray, at: np.ndarray, seed: np.ndarray) -> list[np.ndarray]:
    a, b, c = (x[at[k::3]] for k in range(3))
    total = np.zeros_like(x)
    for k, part in enumerate((b * np.sin(c), a * np.sin(c), a * b * np.cos(c))):
        np.add.at(total, at[k::3], part * seed)
    return [total]


# -- memory ------------------------------------------------------------------------------------------------------------


def test_orders_end_with_their_indices(ran: list[bool]) -> None:
    kernel, values, types = CASES["area"]
    gc.collect()
    before = len(sorting._entries)
    made = arguments(values, types)
    for _ in range(3):
        gradients(kernel, made)
    assert ran[-1]
    assert len(sorting._entries) == before + 1
    (entry,) = sorting._entries[made[1]._memory].values()
    places = weakref.ref(entry.order.order.places)
    contributions = weakref.ref(entry.order._free[0]._memory)
    del entry, made
    gc.collect()
    assert len(sorting._entries) == before
    assert places() is None
    assert contributions() is None


def test_contributions_have_the_same_memory_each_time(ran: list[bool]) -> None:
    kernel, values, types = CASES["area"]
    made = arguments(values, types)
    places = set()
    for _ in range(4):
        gradients(kernel, made)
        for entry in sorting._entries[made[1]._memory].values():
            places.update(held.ptr for held in (entry.order._free if entry.order else ()))
    assert ran == [False, True, True, True]
    assert len(places) == 1


def test_few_orders_of_one_array(ran: list[bool]) -> None:
    kernel, values, types = CASES["area"]
    made = arguments(values, types)
    for n in range(N - 10, N):
        gradients(kernel, made, n)
    assert len(sorting._entries[made[1]._memory]) <= 4
    assert not any(ran)
