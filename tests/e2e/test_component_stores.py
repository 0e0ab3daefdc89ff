"""Threads that share a vector but no component of it: each writes its own component, in the forward and the adjoint."""

import re

import numpy as np
import pytest
from support.ptx.programs import PtxProgram

import diffkern as dk
from diffkern.compiler.compilation import Compilation
from diffkern.contracts.options import Variant
from diffkern.ir.nodes import walk
from diffkern.ir.types import FLOAT32, Vec
from diffkern.lower.component_loads import load_components
from diffkern.lower.component_stores import store_components

VEC3 = Vec(FLOAT32, 3)
N = 96  # three warps, which share no vector; the threads of a warp do


@dk.kernel
def known(x: dk.array(dtype=float), v: dk.array(dtype=dk.vec3)):
    i = dk.tid()
    if i % 3 == 0:
        v[i // 3][0] = 2.0 * x[i]
    elif i % 3 == 1:
        v[i // 3][1] = 2.0 * x[i]
    else:
        v[i // 3].z = 2.0 * x[i]


@dk.kernel
def found(x: dk.array(dtype=float), v: dk.array(dtype=dk.vec3)):
    i = dk.tid()
    v[i // 3][i % 3] = 2.0 * x[i]


@dk.kernel
def from_the_end(x: dk.array(dtype=float), v: dk.array(dtype=dk.vec3)):
    i = dk.tid()
    v[i // 3][i % 3 - 3] = 2.0 * x[i]


@dk.kernel
def entries(x: dk.array(dtype=float), m: dk.array(dtype=dk.mat22)):
    i = dk.tid()
    m[i // 4][i // 2 % 2, i % 2] = 2.0 * x[i]


@dk.kernel
def in_pairs(x: dk.array(dtype=float), v: dk.array(dtype=dk.vec4)):
    i = dk.tid()
    k = 2 * (i % 2)
    v[i // 2][k] = 2.0 * x[2 * i]
    v[i // 2][k + 1] = 2.0 * x[2 * i + 1]


@dk.kernel
def behind_a_whole(x: dk.array(dtype=float), v: dk.array(dtype=dk.vec4)):
    i = dk.tid()
    v[i] = dk.vec4(x[4 * i], x[4 * i + 1], x[4 * i + 2], x[4 * i + 3])
    v[i][i % 4] = 2.0 * v[i][i % 4]
    v[i] = 2.0 * v[i]
    v[i][i % 4] = 0.5 * v[i][i % 4]


CASES = {known: (N // 3, 3), found: (N // 3, 3), from_the_end: (N // 3, 3), entries: (N // 4, 2, 2)}
CASES |= {in_pairs: (N // 4, 4), behind_a_whole: (N // 4, 4)}
DTYPES = {(3,): dk.vec3, (4,): dk.vec4, (2, 2): dk.mat22}


def threads(kernel: dk.Kernel) -> int:
    return {in_pairs: N // 2, behind_a_whole: N // 4}.get(kernel, N)


def numbers() -> np.ndarray:
    return np.random.default_rng(5).uniform(1.0, 2.0, N).astype(np.float32)


@pytest.mark.parametrize("kernel", CASES, ids=lambda k: k.name)
def test_threads_of_a_warp_in_executed_ptx(kernel):
    """They load before any of them stores, so a store of the whole vector would undo what others have written."""
    x, v = numbers(), np.zeros(CASES[kernel], np.float32)
    fn = Compilation(kernel.func, kernel.argument_types(), Variant(target="sm_90", block_dim=32)).forward
    PtxProgram(fn, block_dim=32).run((threads(kernel),), [x, v])
    np.testing.assert_array_equal(v.reshape(-1), 2.0 * x)


@pytest.mark.parametrize("kernel", CASES, ids=lambda k: k.name)
def test_on_a_processor_with_its_gradient(kernel):
    x = dk.array(numbers(), requires_grad=True)
    shape = CASES[kernel]
    v = dk.zeros(shape[0], dtype=DTYPES[shape[1:]], requires_grad=True)
    with dk.Tape() as tape:
        dk.launch(kernel, dim=threads(kernel), inputs=[x], outputs=[v])
    np.testing.assert_array_equal(v.numpy().reshape(-1), 2.0 * x.numpy())
    seed = np.random.default_rng(6).uniform(1.0, 2.0, shape).astype(np.float32)
    tape.backward(grads={v: dk.array(seed, dtype=v.dtype)})
    np.testing.assert_array_equal(x.grad.numpy(), 2.0 * seed.reshape(-1))


@pytest.mark.parametrize("kernel", [found, from_the_end, entries, in_pairs], ids=lambda k: k.name)
def test_adjoints_of_a_warp_in_executed_ptx(kernel):
    """The cotangents end at zero, each taken once; those of components that no thread sets stay."""
    types = kernel.argument_types()
    variant = Variant(target="sm_90", block_dim=32, active=frozenset({0, 1}))
    fn = Compilation(kernel.func, types, variant).adjoint.fn
    x, v, ct_x = numbers(), np.zeros(CASES[kernel], np.float32), np.zeros(N, np.float32)
    seed = np.random.default_rng(6).uniform(1.0, 2.0, CASES[kernel]).astype(np.float32)
    ct_v = seed.copy()
    given = {"x": x, "v": v, "m": v, "ct_x": ct_x, "ct_v": ct_v, "ct_m": ct_v}
    count = threads(kernel) - threads(kernel) % 3 - 3  # the last vectors keep theirs
    # Other components of the vectors are set to zero by their threads meanwhile: none is read.
    PtxProgram(fn, block_dim=32).run((count,), [given[p.name] for p in fn.params])
    done = count * N // threads(kernel)
    np.testing.assert_array_equal(ct_x, 2.0 * np.where(np.arange(N) < done, seed.reshape(-1), 0.0))
    np.testing.assert_array_equal(ct_v.reshape(-1), np.where(np.arange(N) < done, 0.0, seed.reshape(-1)))


def test_what_is_scaled_in_place_has_its_gradient_in_any_order():
    """The cotangent of the old component is set by the thread that has it, beside those of other threads."""

    @dk.kernel
    def scaled(x: dk.array(dtype=dk.float64), v: dk.array(dtype=dk.vec3d), y: dk.array(dtype=dk.vec3d)):
        i = dk.tid()
        v[i // 3][i % 3] = v[i // 3][i % 3] * x[i]
        y[i // 3][i % 3] = v[i // 3][i % 3] * x[i]

    rng = np.random.default_rng(7)
    at, start, seed = rng.uniform(0.5, 2.0, N), rng.uniform(0.5, 2.0, N), rng.uniform(0.5, 2.0, N)
    x = dk.array(at, requires_grad=True)
    v = dk.array(start.reshape(-1, 3), dtype=dk.vec3d, requires_grad=True)
    y = dk.zeros(N // 3, dtype=dk.vec3d, requires_grad=True)
    with dk.Tape() as tape:
        first = dk.clone(v)
        dk.launch(scaled, dim=N, inputs=[x, first], outputs=[y])
    tape.backward(grads={y: dk.array(seed.reshape(-1, 3), dtype=dk.vec3d)})
    np.testing.assert_allclose(y.numpy().reshape(-1), start * at * at, rtol=1e-14)
    np.testing.assert_allclose(x.grad.numpy(), 2.0 * seed * start * at, rtol=1e-14)
    np.testing.assert_allclose(v.grad.numpy().reshape(-1), seed * at * at, rtol=1e-14)


def gradients(kernel, n: int, x0: np.ndarray, v0: np.ndarray, weights: np.ndarray, more=()) -> tuple:
    """The gradients of weighted components, by a tape and by differences."""

    def value(x, v) -> tuple[dk.array, float]:
        changed = dk.clone(v)
        dk.launch(kernel, dim=n, inputs=[x, *more], outputs=[changed])
        return changed, float((changed.numpy() * weights).sum())

    x, v = dk.array(x0, requires_grad=True), dk.array(v0, dtype=dk.vec3d, requires_grad=True)
    with dk.Tape() as tape:
        changed, _ = value(x, v)
    tape.backward(grads={changed: dk.array(weights, dtype=dk.vec3d)})
    found = []
    for given in (x0, v0):
        slope = np.zeros_like(given)
        for k in np.ndindex(*given.shape):
            ends = []
            for step in (1e-6, -1e-6):
                before, given[k] = given[k], given[k] + step
                ends.append(value(dk.array(x0), dk.array(v0, dtype=dk.vec3d))[1])
                given[k] = before
            slope[k] = (ends[0] - ends[1]) / 2e-6
        found.append(slope)
    return (x.grad.numpy(), v.grad.numpy()), tuple(found)


def test_components_that_are_set_twice():
    """By one index known now and one found at run time, by two at run time, and in a branch."""

    @dk.kernel
    def twice(x: dk.array(dtype=dk.float64), v: dk.array(dtype=dk.vec3d)):
        i = dk.tid()
        j = int(x[i] * 2.0) % 3
        u = v[i]
        u[0] = x[i] * x[i]
        u[j] = u[0] * x[i]
        u[(j + i) % 3] = u[j] + u[2]
        v[i] = u
        if x[i] > 1.0:
            v[i][1] = v[i][j] * x[i]

    rng = np.random.default_rng(8)
    x, v, weights = rng.uniform(0.2, 2.0, 8), rng.uniform(0.5, 1.5, (8, 3)), rng.uniform(-1.0, 1.0, (8, 3))
    for got, wanted in zip(*gradients(twice, 8, x, v, weights), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-6, atol=1e-7)


def test_an_index_in_the_element_itself():
    """Which component it names is not known where the element is loaded."""

    @dk.kernel
    def by_content(x: dk.array(dtype=dk.float64), at: dk.array(dtype=int), v: dk.array(dtype=dk.vec3d)):
        i = dk.tid()
        k = int(v[at[i]][0])
        v[at[i]][k] = v[at[i]][k] * x[i]

    rng = np.random.default_rng(9)
    x, v, weights = rng.uniform(0.5, 1.5, 6), rng.uniform(0.5, 1.5, (6, 3)), rng.uniform(-1.0, 1.0, (6, 3))
    v[:, 0] = [1.25, 2.5, 1.5, 2.25, 1.75, 2.75]
    at = dk.array([3, 1, 5, 0, 2, 4], dtype=int)
    for got, wanted in zip(*gradients(by_content, 6, x, v, weights, [at]), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-6, atol=1e-7)


def only(kernel: dk.Kernel) -> list[tuple[int, ...] | None]:
    fn = store_components(Compilation(kernel.func, kernel.argument_types(), Variant()).forward)
    return [op.attrs.get("only") for op in walk(fn.body) if op.name == "store"]


@dk.kernel
def whole(x: dk.array(dtype=float), v: dk.array(dtype=dk.vec3), w: dk.array(dtype=dk.vec3)):
    i = dk.tid()
    v[i] = dk.vec3(x[i], x[i], x[i])
    u = w[i]
    w[i] = dk.vec3(u.x, 2.0 * u.y, x[i])


@dk.kernel
def other_place(v: dk.array(dtype=dk.vec3), w: dk.array(dtype=dk.vec3)):
    i = dk.tid()
    u = v[i]
    u.x = 1.0
    w[i] = u


def test_stores_that_are_marked():
    assert sorted(only(known)) == [(0,), (1,), (2,)]
    assert only(found) == only(from_the_end) == [(0,), (1,), (2,)]
    assert only(entries) == [(k,) for k in range(4)]
    assert only(whole) == [None, None]
    assert only(other_place) == [None]
    assert only(in_pairs) == [(k,) for k in range(4)] * 2


def test_an_adjoint_sets_cotangents_of_components_to_zero():
    variant = Variant(active=frozenset({0, 1}))
    adjoint = Compilation(found.func, found.argument_types(), variant).adjoint.fn
    stores = [op for op in walk(store_components(adjoint).body) if op.name == "store"]
    assert [op.attrs.get("only") for op in stores] == [(0,), (1,), (2,)]


def test_the_printed_source_for_a_gpu_writes_one_component():
    text = known.source(target="cuda")
    assert re.findall(r"v\[at\(\w+\), (\d)\] = ", text) == ["0", "1", "2"]


def test_a_component_is_loaded_alone():
    """Where the kernel sets components of the array, and not where it only reads them, or uses all of an element."""

    def loads(kernel: dk.Kernel, **given) -> list[tuple[int, ...] | None]:
        made = Compilation(kernel.func, kernel.argument_types(), Variant(target="sm_90", **given))
        fn = load_components(made.adjoint.fn if given else made.forward)
        return [op.attrs.get("only") for op in walk(fn.body) if op.name == "load" and isinstance(op.result.type, Vec)]

    @dk.kernel
    def read(v: dk.array(dtype=dk.vec3), at: dk.array(dtype=int), y: dk.array(dtype=float)):
        i = dk.tid()
        y[i] = v[i][at[i]]

    @dk.kernel
    def used(v: dk.array(dtype=dk.vec3), at: dk.array(dtype=int), y: dk.array(dtype=float)):
        i = dk.tid()
        u = v[i]
        y[i] = u[at[i]] + dk.length(u)
        v[i][at[i]] = 1.0

    assert sorted(loads(found, active=frozenset({0, 1})), key=str) == [(0,), (1,), (2,), None]
    assert loads(read) == [None]
    assert set(loads(used)) == {None}
