"""Variables that some path does not set: zero in Warp's dialect, carried through branches and loops; else refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.unset_programs import compiled, expected, program

import diffkern as dk
import diffkern.warp as wp
from diffkern import cuda
from diffkern.errors import KernelRuntimeError, KernelTypeError

A = wp.array(dtype=float)
A2 = wp.array(dtype=float, ndim=2)
X = np.arange(1.0, 9.0, dtype=np.float32)


def run(kernel: Any, *args: Any, x: Any = X, dim: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """What a kernel (x, o, …) writes, and the gradient of the sum of it."""
    given, o = wp.array(x, requires_grad=True), wp.zeros(8, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(kernel, dim, [given, o, *args])
    tape.backward(grads={o: wp.ones(8)})
    return o.numpy(), given.grad.numpy()


# -- programs drawn at random ------------------------------------------------------------------------------------------

_CONDITIONS = np.repeat(np.arange(8, dtype=np.int32), 3)
_TRIPS = np.tile(np.array([0, 1, 4], np.int32), 8)
_POINTS = np.linspace(-1.0, 1.0, 24, dtype=np.float32)


def check(seed: int) -> None:
    """A program's values and derivatives, in lanes and thread by thread."""
    text = program(seed)
    func = compiled(text, wp, f"unset {seed}")

    def each(x: dk.array(dtype=float), c: dk.array(dtype=int), n: dk.array(dtype=int), o: dk.array(dtype=float)):
        i = dk.tid()
        o[i] = func(x[i], c[i], n[i])

    threads = zip(_POINTS, _CONDITIONS, _TRIPS, strict=True)
    values, slopes = zip(*(expected(text, float(x), int(c), int(n)) for x, c, n in threads), strict=True)
    c, n = dk.array(_CONDITIONS), dk.array(_TRIPS)
    for lanes in (False, True):
        kernel = dk.kernel(each, lanes=lanes)
        x, o = dk.array(_POINTS, requires_grad=True), dk.zeros(24, requires_grad=True)
        dk.launch(kernel, 24, [x, c, n], [o])
        o.grad.fill_(1.0)
        dk.launch(kernel, 24, [x, c, n], [o], adjoint=True)
        np.testing.assert_allclose(o.numpy(), values, rtol=1e-4, atol=1e-5, err_msg=text)
        np.testing.assert_allclose(x.grad.numpy(), slopes, rtol=1e-4, atol=1e-5, err_msg=text)
    t_o = dk.zeros(24)
    dk.kernel(each).jvp[24](x, c, n, dk.zeros(24), dk.ones(24), t_o)
    np.testing.assert_allclose(t_o.numpy(), slopes, rtol=1e-4, atol=1e-5, err_msg=text)


@pytest.mark.parametrize("seed", range(4))
def test_random_programs(seed: int) -> None:
    check(seed)


@pytest.mark.full
@pytest.mark.parametrize("seed", range(4, 120))
def test_more_random_programs(seed: int) -> None:
    check(seed)


# -- where a variable is set -------------------------------------------------------------------------------------------


@wp.kernel
def kept(x: A, o: A, n: int):
    for i in range(n):
        if i % 3 == 1:
            s = x[i]
        if i == 4:
            continue
        o[i] = s * 2.0
    o[7] = s


@pytest.mark.parametrize("n", [0, 1, 2, 6])
def test_a_loop_keeps_what_a_trip_has_set(n: int) -> None:
    values, slopes = np.zeros(8), np.zeros(8)
    last: int | None = None
    for i in range(n):
        last = i if i % 3 == 1 else last
        if last is not None and i != 4:
            values[i] = 2 * X[last]
            slopes[last] += 2
    if last is not None:
        values[7] = X[last]
        slopes[last] += 1
    found = run(kept, n)
    np.testing.assert_array_equal(found[0], values)
    np.testing.assert_array_equal(found[1], slopes)


@wp.kernel
def after_a_loop(x: A, o: A, n: int):
    i = int(0)  # noqa: RUF046, UP018 -- a variable in Warp's dialect
    while i < n:
        s = x[i] * x[i]
        i += 1
    o[0] = s
    for k in range(n):
        if k == 2:
            t = x[k]
            break
    o[1] = t * 3.0


def test_what_a_loop_sets_is_zero_without_a_trip() -> None:
    assert [run(after_a_loop, n)[0][:2].tolist() for n in (0, 2, 5)] == [[0, 0], [4, 0], [25, 9]]
    assert run(after_a_loop, 5)[1].tolist() == [0, 0, 3, 0, 10, 0, 0, 0]
    assert not run(after_a_loop, 0)[1].any()


@wp.func
def chosen(x: float, c: int):
    if c == 1:
        s = x
    elif c == 2:
        s = x * x
    return s


@wp.kernel
def each_call_begins_anew(x: A, o: A):
    for i in range(4):
        o[i] = chosen(x[i], i)


def test_a_func_begins_with_zeros_in_each_call() -> None:
    values, slopes = run(each_call_begins_anew)
    assert values.tolist() == [0, 2, 9, 0, 0, 0, 0, 0]
    assert slopes.tolist() == [0, 1, 6, 0, 0, 0, 0, 0]


@wp.kernel
def leaves_before(x: A, o: A, c: int):
    if c == 1:
        s = x[1]
        o[1] = s
        return
    o[0] = s + x[0]


def test_what_is_set_where_control_leaves_is_zero_behind() -> None:
    assert [run(leaves_before, c)[0][:2].tolist() for c in (0, 1)] == [[1, 0], [0, 2]]


@wp.kernel
def trips_one_by_one(x: A, o: A):
    for k in (0, 1, 2):
        if k == 1:
            s = x[k]
        if k > 0:
            o[k] = s


def test_loops_that_are_unrolled() -> None:
    values, slopes = run(trips_one_by_one)
    assert values[:3].tolist() == [0, 2, 2]
    assert slopes[:3].tolist() == [0, 2, 0]


@wp.kernel
def never_taken(x: A, o: A, optional: A):
    n = 0
    if optional:
        n = 1
        s = optional[0]
    if n == 1:
        o[0] = s
    o[1] = s + x[0]


def test_a_branch_that_this_program_never_takes_tells_the_type() -> None:
    assert run(never_taken, None)[0][:2].tolist() == [0, 1]
    assert run(never_taken, wp.array([5.0], dtype=float))[0][:2].tolist() == [5, 6]


# -- of what type ------------------------------------------------------------------------------------------------------


@wp.struct
class Pair:
    a: float
    v: wp.vec3


@wp.kernel
def of_all_types(x: A, o: A, c: int):
    for i in range(4):
        if i == c:
            k = i + 7
            flag = i > 0
            v = wp.vec3(x[i], 1.0, 2.0)
            m = wp.mat22(x[i], 0.0, 0.0, x[i])
            q = wp.quat(0.0, 0.0, x[i], 1.0)
            d = wp.float64(x[i])
            p = Pair(x[i], v)
            both = (x[i], v)
        o[i] = float(k) + v[0] + m[1, 1] + q[2] + float(d) + p.a + p.v[0] + both[0] + both[1][0]
        if flag:
            o[i] += 100.0


def test_zero_of_every_type() -> None:
    for c in range(5):
        values, slopes = run(of_all_types, c)
        assert values[:4].tolist() == [0.0 if i < c else c + 7 + 8 * X[c] + 100.0 * (c > 0) for i in range(4)]
        assert slopes.tolist() == [8.0 * (4 - c) if i == c else 0.0 for i in range(8)]


@wp.kernel
def a_part_is_set(x: A, o: A, c: int):
    if c > 0:
        v = wp.vec2(x[0], x[1])
    v[0] = x[2]
    o[0] = v[0]
    o[1] = v[1]


def test_a_component_is_set_of_what_is_unset() -> None:
    assert [run(a_part_is_set, c)[0][:2].tolist() for c in (0, 1)] == [[3, 0], [3, 2]]


@wp.kernel
def tiles(x: A, o: A, c: int):
    for i in range(3):
        if i == c:
            t = wp.tile_load(x, shape=4, offset=i)
        s = t * 2.0
    wp.tile_store(o, s)


@pytest.mark.parametrize("c", [1, 5])
def test_tiles(c: int) -> None:
    x, o = wp.array(X, requires_grad=True), wp.zeros(8, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch_tiled(tiles, dim=[1], inputs=[x, o, c], block_dim=4)
    tape.backward(grads={o: wp.ones(8)})
    is_set = c < 3
    assert o.numpy()[:4].tolist() == ([4, 6, 8, 10] if is_set else [0, 0, 0, 0])
    assert x.grad.numpy().tolist() == ([0, 2, 2, 2, 2, 0, 0, 0] if is_set else [0] * 8)


def test_one_variable_has_one_type() -> None:
    @wp.kernel
    def both(x: A, o: A, c: int):
        if c > 0:
            s = x[0]
        if c > 1:
            s = wp.vec2(x[0], x[1])
        o[0] = s

    with pytest.raises(KernelTypeError, match="one variable has one type"):
        run(both, 1)


# -- arrays ------------------------------------------------------------------------------------------------------------


@wp.kernel
def whole_arrays(x: A, o: A, c: int):
    if c == 1:
        y = x
    o[0] = float(y.shape[0]) + float(len(y)) + float(y.size)
    if y:
        o[1] = y[3]
    if y is None:
        o[2] = 1.0


def test_an_array_is_null_where_it_is_not_set() -> None:
    assert run(whole_arrays, 0)[0][:3].tolist() == [0, 0, 1]
    values, slopes = run(whole_arrays, 1)
    assert values[:3].tolist() == [24, 4, 0]
    assert slopes.tolist() == [0, 0, 0, 1, 0, 0, 0, 0]


@wp.kernel
def loads_and_stores(x: A, o: A, c: int):
    if c == 1:
        y = x
        z = o
    i = wp.tid()
    if i == 0:
        o[0] = y[3] * 2.0
        z[1] = x[1]


@wp.kernel
def updates(x: A, o: A, c: int):
    if c == 1:
        y = x
        z = o
    z[2] += x[2]
    wp.atomic_add(z, 3, y[wp.tid()])


def test_elements_of_null_are_zero_and_what_is_written_to_it_is_lost() -> None:
    for kernel in (loads_and_stores, updates):
        values, slopes = run(kernel, 0, dim=3)
        assert not values.any()
        assert not slopes.any()
    values, slopes = run(loads_and_stores, 1, dim=3)
    assert values[:4].tolist() == [8, 2, 0, 0]
    assert slopes[:4].tolist() == [0, 1, 0, 2]
    values, slopes = run(updates, 1, dim=3)
    assert values[:4].tolist() == [0, 0, 9, 6]
    assert slopes[:4].tolist() == [1, 1, 4, 0]


@wp.kernel
def rows(x: A2, o: A, c: int):
    for i in range(x.shape[0]):
        if i == c:
            row = x[i]
        if i >= c:
            o[i] = row[1]
        if row:
            o[6] += float(row.shape[0])
    for i in range(x.shape[0]):
        last = x[i]
    o[7] = last[0]


@pytest.mark.parametrize("c", [0, 1, 2])
def test_a_row_of_an_array_is_kept(c: int) -> None:
    values, slopes = run(rows, c, x=X.reshape(4, 2))
    assert values.tolist() == [0.0] * c + [X[2 * c + 1]] * (4 - c) + [0, 0, 2 * (4 - c), 7]
    wanted = np.zeros((4, 2))
    wanted[c, 1] += 4 - c
    wanted[3, 0] += 1
    np.testing.assert_array_equal(slopes, wanted)


@wp.struct
class Holder:
    v: A
    n: int


@wp.func
def made(a: A, c: int):
    s = Holder()
    if c > 0:
        s.v = a
        s.n = 3
    return s


@wp.kernel
def a_field(x: A, o: A, c: int):
    s = made(x, c)
    if s.n == 3:
        o[1] = s.v[0] + s.v[2]
    if s.v:
        o[2] = float(s.v.shape[0])
    held = Holder()
    for i in range(3):
        if i == c:
            held.v = x
        if held.v:
            o[3] += held.v[i]


def test_an_array_of_a_struct_is_set_in_a_branch() -> None:
    values, slopes = run(a_field, 1)
    assert values[:4].tolist() == [0, 4, 8, 5]
    assert slopes.tolist() == [1, 1, 2, 0, 0, 0, 0, 0]
    assert run(a_field, 0)[0][:4].tolist() == [0, 0, 0, 6]
    assert run(a_field, 7)[0][:4].tolist() == [0, 4, 8, 0]


@wp.kernel
def an_own_array(x: A, o: A, c: int):
    if c > 0:
        s = wp.zeros(shape=3, dtype=float)
        s[1] = x[1]
    o[0] = s[1]


@wp.kernel
def slices(x: A, o: A, c: int):
    for i in range(4):
        if i == c:
            s = x[i:]
        o[i] = s[0]


@pytest.mark.parametrize(("kernel", "line"), [(an_own_array, "o[0] = s[1]"), (slices, "o[i] = s[0]")])
def test_arrays_that_cannot_be_carried_are_refused(kernel: Any, line: str) -> None:
    with pytest.raises(KernelTypeError, match="'s' has no value here") as caught:
        run(kernel, 1)
    assert line in caught.value.loc.text


# -- what is refused and reported --------------------------------------------------------------------------------------


@wp.kernel
def before_its_text(x: A, o: A):
    for i in range(4):
        o[i] = s  # noqa: F821
        s = x[i]  # noqa: F841


@wp.kernel
def counts_from_nothing(x: A, o: A):
    for i in range(4):
        total += x[i]  # noqa: F821
    o[0] = total


@wp.kernel
def asks_before(x: A, o: A):
    while s < 3.0:  # noqa: F821
        s = x[0]
    o[0] = s


@pytest.mark.parametrize(
    ("kernel", "line"),
    [(before_its_text, "o[i] = s"), (counts_from_nothing, "total += x[i]"), (asks_before, "while s < 3.0:")],
)
def test_a_variable_is_set_before_in_the_text(kernel: Any, line: str) -> None:
    """As in Warp, which says that such a name is undefined."""
    with pytest.raises(KernelTypeError, match="no value here") as caught:
        run(kernel)
    assert line in caught.value.loc.text


def conditional(x: dk.array(dtype=float), o: dk.array(dtype=float)):
    if x[0] > 0.0:
        s = x[1]
    o[0] = s


def in_a_loop(x: dk.array(dtype=float), o: dk.array(dtype=float)):
    for i in range(4):
        if i == 2:
            s = x[i]
        o[i] = s


@pytest.mark.parametrize("function", [conditional, in_a_loop])
def test_other_dialects_refuse(function: Any) -> None:
    with pytest.raises(KernelTypeError, match="'s' may have no value here") as caught:
        dk.kernel(function).source()
    assert "= s" in caught.value.loc.text
    with pytest.raises(KernelTypeError, match="'s' may have no value here"):
        cuda.jit(function)[1, 1](X, np.zeros(8, np.float32))


def test_a_func_speaks_its_own_dialect() -> None:
    @dk.func
    def native(c: int):
        if c > 0:
            s = 1.0
        return s

    @wp.kernel
    def calls(x: A, o: A, c: int):
        o[0] = native(c)

    with pytest.raises(KernelTypeError, match="'s' may have no value here"):
        run(calls, 1)


@pytest.fixture
def debug():
    before = dk.config.mode
    dk.config.mode = "debug"
    yield
    dk.config.mode = before


def launched(kernel: Any, *args: Any) -> None:
    """Launch a kernel and wait for it."""
    wp.launch(kernel, 1, args)
    wp.synchronize()


@wp.kernel
def read_under_conditions(x: A, o: A, first: int, n: int):
    for i in range(n):
        if i == 2:
            s = x[i]
        if i >= first:
            o[i] = s * 2.0
    if first < 5:
        o[7] = s


@pytest.mark.usefixtures("debug")
def test_a_debug_program_reports_the_read() -> None:
    x, o = wp.array(X), wp.zeros(8)
    for first, n in ((2, 5), (3, 6), (5, 0)):
        launched(read_under_conditions, x, o, first, n)
    assert o.numpy().tolist() == [0, 0, 6, 6, 6, 6, 0, 3]
    for first, n, line in ((1, 3, "o[i] = s * 2.0"), (2, 2, "o[7] = s"), (0, 0, "o[7] = s")):
        with pytest.raises(KernelRuntimeError, match="'s' is read where no path has set it") as caught:
            launched(read_under_conditions, x, o, first, n)
        assert line in str(caught.value)


@pytest.mark.usefixtures("debug")
def test_a_debug_program_reports_the_read_of_a_null_array() -> None:
    @wp.kernel
    def unguarded(x: A, o: A, c: int):
        s = Holder()
        if c > 0:
            s.v = x
        o[0] = s.v[1]

    o = wp.zeros(8)
    launched(unguarded, wp.array(X), o, 1)
    assert o.numpy()[0] == 2
    with pytest.raises(KernelRuntimeError, match="is null here"):
        launched(unguarded, wp.array(X), o, 0)


@wp.struct
class Row:
    a: float
    b: wp.vec3


@wp.struct
class Fields:
    kind: int
    v: A
    m: wp.array(dtype=wp.vec3, ndim=2)
    rows: wp.array(dtype=Row)


@wp.func
def by_kind(g: Fields, i: int) -> float:
    """What a published collision function does: fields are read for kinds that have them."""
    r = 7.0
    if g.kind > 0:
        row = g.rows[i]
        r = g.v[i] + g.m[i, 0][1] + g.m[i][0][1] + g.rows[i].b[1] + row.a
    return r + float(g.v.shape[0]) + float(len(g.rows))


@wp.kernel
def fields_that_stay_unset(x: A, o: A, kinds: wp.array(dtype=int), n: int):
    i = wp.tid()
    g = Fields()
    g.kind = kinds[i]
    if n == 1:
        g.v = x
    for j in range(n):
        g.kind *= j
    other = Fields()
    if kinds[i] > 5:
        g = other
    o[i] = by_kind(g, i) * x[i]


@pytest.mark.parametrize(("n", "factor"), [(0, 7), (1, 15), (2, 7)])
def test_elements_of_fields_that_stay_unset_are_zero_where_no_thread_comes(n: int, factor: int) -> None:
    values, slopes = run(fields_that_stay_unset, wp.zeros(8, dtype=int), n, dim=8)
    assert values.tolist() == (factor * X).tolist()
    assert slopes.tolist() == [factor] * 8


def test_what_is_written_to_fields_that_stay_unset_is_lost() -> None:
    @wp.kernel
    def writes(x: A, o: A, c: int):
        g = Fields()
        if c > 0:
            g.v[0] = 1.0
            g.v[0] += x[0]
            g.m[0, 0] = wp.vec3(1.0)
            g.rows[0] = Row()
            o[1] = wp.atomic_add(g.v, 0, 1.0)
        o[0] = 2.0 * x[0]

    for c in (0, 1):
        values, slopes = run(writes, c)
        assert values[:2].tolist() == [2, 0]
        assert slopes[0] == 2


def test_elements_of_a_field_that_stays_unset_are_refused_where_every_thread_comes() -> None:
    @wp.kernel
    def always(x: A, o: A):
        g = Fields()
        o[0] = g.m[0, 0][1]

    with pytest.raises(KernelTypeError, match=r"the field Fields\.m has not been set") as caught:
        run(always)
    assert "g.m[0, 0][1]" in str(caught.value)

    @dk.kernel
    def native(x: dk.array(dtype=float), o: dk.array(dtype=float), c: int):
        g = Fields()
        if c > 0:
            o[0] = g.v[0]

    with pytest.raises(KernelTypeError, match="cannot be indexed"):
        run(native, 0)


@pytest.mark.usefixtures("debug")
def test_a_debug_program_reports_the_read_of_a_field_that_stays_unset() -> None:
    @wp.kernel
    def guarded(x: A, o: A, c: int):
        g = Fields()
        if c > 0:
            o[0] = g.rows[1].b[2]

    o = wp.zeros(8)
    launched(guarded, wp.array(X), o, 0)
    with pytest.raises(KernelRuntimeError, match=r"the field Fields\.rows has not been set"):
        launched(guarded, wp.array(X), o, 1)
