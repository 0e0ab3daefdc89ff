"""Deterministic programs on a GPU, executed as PTX: the same bytes in any order of threads, and sums rounded once."""

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from conftest import require
from support.fake_driver.driver import FakeDriver, fake_cuda

import diffkern as dk
from diffkern.contracts.exact_sums import DIGITS
from diffkern.errors import CompileError, CudaError

require("cuda.bindings.nvjitlink", "nvidia")

F, D, I1, V3 = dk.array(dtype=float), dk.array(dtype=dk.float64), dk.array(dtype=int), dk.array(dtype=dk.vec3)
ORDERS = 20
GPU = "cuda:0"
N = 96
FORMS = {"float16": (11, 5), "bfloat16": (8, 8), "float32": (24, 8), "float64": (53, 11)}
"""Bits of a number's significand and of its exponent."""


def scatter(at: I1, x: F, h: F):
    i = dk.tid()
    h[at[i]] += x[i]


def gather(at: I1, w: F, x: V3, y: F):
    i = dk.tid()
    v = x[at[i]] + dk.vec3(float(i % 7))
    y[i] = w[0] * dk.dot(v, v) + dk.sin(v[1]) * w[1]


def loss(y: F, total: F):
    i = dk.tid()
    total[0] -= y[i] * y[i]


def deterministic(function: Any, **options: Any) -> dk.Kernel:
    return dk.kernel(deterministic=True, **{"block_dim": 32, **options})(function)


scatters, gathers, losses = map(deterministic, (scatter, gather, loss))


@pytest.fixture(scope="module")
def gpu() -> Iterator[FakeDriver]:
    with fake_cuda(run="ptx") as driver, dk.ScopedDevice(GPU):
        yield driver


def drawn(count: int = N, seed: int = 3) -> np.ndarray:
    """Floats of very different sizes, of which no sum is exact."""
    rng = np.random.default_rng(seed)
    return (rng.normal(size=count) * 10.0 ** rng.integers(-4, 4, count)).astype(np.float32)


def places(count: int = N, most: int = 3) -> np.ndarray:
    return np.random.default_rng(8).integers(0, most, count).astype(np.int32)


def bits_of(value: Fraction, name: str) -> int:
    """The bits of the float that is nearest to a number, of two the even one."""
    precision, exponent = FORMS[name]
    in_units = abs(value) / Fraction(2) ** (3 - (1 << (exponent - 1)) - precision)
    steps = max(math.floor(in_units).bit_length() - precision, 0)
    bits = min((steps << (precision - 1)) + round(in_units / (1 << steps)), ((1 << exponent) - 1) << (precision - 1))
    return bits | (value < 0) << (precision + exponent - 1)


# -- order -------------------------------------------------------------------------------------------------------------


def test_sums_have_the_same_bytes_in_any_order(gpu: FakeDriver) -> None:
    x, at = drawn(), places()
    found: dict[bool, set[bytes]] = {True: set(), False: set()}
    for kernel in (scatters, dk.kernel(scatter, block_dim=32)):
        for _ in range(ORDERS):  # each launch has another one
            h = dk.zeros(3)
            dk.launch(kernel, N, [dk.array(at, dtype=int), dk.array(x)], [h])
            found[kernel is scatters].add(h.numpy().tobytes())
    assert found[True] == {np.array([math.fsum(map(float, x[at == k])) for k in range(3)], np.float32).tobytes()}
    assert len(found[False]) > 3, "the test sees no order"


def gradients(forward: dk.Kernel, objective: dk.Kernel, **options: Any) -> tuple[bytes, ...]:
    rng = np.random.default_rng(4)
    x = dk.array(rng.normal(size=(2, 3)) * 10.0 ** rng.integers(-2, 3, (2, 3)), dtype=dk.vec3, requires_grad=True)
    w = dk.array(rng.normal(size=2), dtype=float, requires_grad=True)
    y, total = dk.zeros(N, requires_grad=True), dk.zeros(1, requires_grad=True)
    with dk.Tape() as tape:
        dk.launch(forward, N, [dk.array(places(most=2), dtype=int), w, x], [y], **options)
        dk.launch(objective, N, [y], [total], **options)
    tape.backward(total)
    return tuple(held.numpy().tobytes() for held in (total, w.grad, x.grad))


def test_gradients_have_the_same_bytes_in_any_order(gpu: FakeDriver) -> None:
    found = {gradients(gathers, losses) for _ in range(ORDERS)}
    assert len(found) == 1
    usual = [dk.kernel(function, block_dim=32) for function in (gather, loss)]
    others = {gradients(*usual) for _ in range(4)}
    assert len(others) > 1, "the test sees no order"
    for ours, theirs in zip(*map(min, (found, others)), strict=True):
        a, b = (np.frombuffer(held, np.float32) for held in (ours, theirs))
        np.testing.assert_allclose(a, b, rtol=1e-5)


def test_grids_have_no_say(gpu: FakeDriver) -> None:
    shapes = [{"block_dim": 64}, {"max_blocks": 1}, {"block_dim": 7, "max_blocks": 2}]
    assert len({gradients(gathers, losses, **shape) for shape in shapes}) == 1


def least(at: I1, x: F, h: F, g: F):
    i = dk.tid()
    dk.atomic_min(h, at[i], x[i])
    dk.atomic_max(g, at[i], x[i])


def test_extrema_have_the_same_bytes_in_any_order(gpu: FakeDriver) -> None:
    x = np.tile(np.array([0.0, -0.0, 2.0, -0.0, 0.0, 2.0], np.float32), 16)
    nans = np.array([0x7FC00001, 0xFFC00002], np.uint32).view(np.float32)
    at = np.where(x == 2.0, 1, 0).astype(np.int32)
    x[at == 1] = np.tile([*nans, 1.0, -1.0], 8)
    found: dict[bool, set[bytes]] = {True: set(), False: set()}
    for kernel in (deterministic(least), dk.kernel(least, block_dim=32)):
        for _ in range(ORDERS):
            h, g = (dk.array(np.array([start, 0.0], np.float32)) for start in (1.0, -1.0))
            dk.launch(kernel, N, [dk.array(at, dtype=int), dk.array(x)], [h, g])
            found[kernel.variant.deterministic].add(h.numpy().tobytes() + g.numpy().tobytes())
    assert found[True] == {np.array([1 << 31, 0x7FC00000, 0, 0x7FC00000], np.uint32).tobytes()}
    assert len(found[False]) > 1, "the test sees no order"


# -- values ------------------------------------------------------------------------------------------------------------


def rows_for(name: str, wide: Any) -> np.ndarray:
    """Floats to be added up in rows: of any size, subnormal, that cancel, are ties, or leave the type's range."""
    rng, precision, columns = np.random.default_rng(6), FORMS[name][0], 5
    size, word = (32, np.uint32) if wide is np.float32 else (64, np.uint64)
    anywhere = rng.integers(0, 2**size - 1, (4, columns), dtype=word, endpoint=True).view(wide)
    anywhere[~np.isfinite(anywhere)] = 1.0
    signs = (np.arange(columns) % 2).astype(word) << word(size - 1)
    subnormal = rng.integers(0, 2**20, (4, columns), dtype=word) | signs
    normal = rng.normal(size=(4, columns)) * 10.0 ** rng.integers(-6, 5, (4, columns))
    cancelling = np.concatenate([normal[:, :2], -normal[:, :2], normal[:, 2:3] * 1e-7], axis=1)
    ties = [
        [s, s * 2.0**-precision, s * below, 0.0, 0.0] for s in (1.0, -1.0) for below in (0.0, 2.0**-90, -(2.0**-90))
    ]
    large = float(np.finfo(np.float16 if name == "float16" else np.float32).max) * (1 - 2.0**-7)
    beyond = [[large] * 5, [-large] * 5, [large, large, -large, -large, 1.0]]
    parts = (anywhere, subnormal.view(wide), normal, cancelling, np.array(ties), np.array(beyond))
    return np.concatenate([np.asarray(part, wide) for part in parts])


@pytest.mark.parametrize("name", FORMS)
def test_sums_are_rounded_once(name: str, gpu: FakeDriver) -> None:
    t, wide = getattr(dk, name), np.float64 if name == "float64" else np.float32
    taken = dk.array(dtype=t if name in ("float32", "float64") else dk.float32, ndim=2)

    @dk.kernel(deterministic=True)
    def sums(x: taken, h: dk.array(dtype=t)):
        i, k = dk.tid()
        h[i] += t(x[i, k])

    x = rows_for(name, wide)
    if name == "float16":
        x = np.clip(x, -65504, 65504)
    if name in ("float16", "bfloat16"):  # what a kernel casts is rounded
        cast = dk.array(x.reshape(-1), dtype=t, device="cpu").numpy()
        x = (cast.astype(np.uint32) << 16).view(np.float32) if name == "bfloat16" else cast.astype(np.float32)
        x = x.reshape(-1, 5)
    old = np.array([0.0, 1.0, -0.5], np.float32)[np.arange(len(x)) % 3]
    h = dk.array(old, dtype=t)
    dk.launch(sums, x.shape, [dk.array(np.ascontiguousarray(x), dtype=taken.dtype)], [h])
    got = h.numpy().view({16: np.uint16, 32: np.uint32, 64: np.uint64}[sum(FORMS[name])])
    # The element is one of the numbers that are added up.
    wanted = [
        bits_of(sum(map(Fraction, map(float, row)), Fraction(float(o))), name) for row, o in zip(x, old, strict=True)
    ]
    assert got.tolist() == wanted


def test_values_without_digits(gpu: FakeDriver) -> None:
    inf, nan = math.inf, math.nan
    x = np.array([[1.0, inf], [-inf, 2.0], [inf, -inf], [nan, 1.0], [0.0, 0.0], [-0.0, 0.0], [0.0, 0.0], [1.0, 1.0]])
    h = np.array([0.0, 0.0, 0.0, inf, -0.0, 0.0, nan, inf], np.float32)
    h[6:7].view(np.uint32)[0] = 0x7FC12345
    at = np.repeat(np.arange(8), 2).astype(np.int32)
    sums = dk.array(h)
    dk.launch(scatters, 16, [dk.array(at, dtype=int), dk.array(x.reshape(-1), dtype=float)], [sums])
    found = sums.numpy()
    np.testing.assert_array_equal(found, np.array([inf, -inf, nan, nan, 0.0, 0.0, nan, inf]))
    # Where nothing but zeros was added an element keeps its bits.
    assert found[4:7].tobytes() == h[4:7].tobytes()


def elements(at: I1, m: dk.array2d(dtype=dk.mat22), v: V3):
    i = dk.tid()
    m[at[i] - 3, i % 2] -= dk.mat22(float(i), 1.0, 0.1, 0.25) * 0.1
    v[at[i]].y += 1.5
    v[at[i]] += dk.vec3(0.1, 0.2, float(i))


def test_elements_of_several_numbers(gpu: FakeDriver) -> None:
    at = places()
    # Every other row of an array, and its columns from the last to the first.
    held, v = dk.zeros((6, 2), dtype=dk.mat22), dk.zeros(3, dtype=dk.vec3)
    dk.launch(deterministic(elements), N, [dk.array(at, dtype=int)], [held[::2, ::-1], v])
    m, w = np.zeros((6, 2, 2, 2)), np.zeros((3, 3))
    for i, k in enumerate(at):
        m[2 * k, 1 - i % 2] -= np.array([[i, 1.0], [0.1, 0.25]]) * 0.1
        w[k] += (0.1, 1.7, i)
    np.testing.assert_allclose(held.numpy(), m, rtol=2e-6)
    np.testing.assert_allclose(v.numpy(), w, rtol=2e-7)


@dk.struct
class Cell:
    mass: float
    momentum: dk.vec3
    count: int


def test_fields_of_structs_and_tiles(gpu: FakeDriver) -> None:
    def cells(at: I1, x: F, cell: dk.array(dtype=Cell)):
        i = dk.tid()
        cell[at[i]].mass += x[i]
        cell[at[i]].momentum += dk.vec3(x[i], 1.0, 2.0)
        cell[at[i]].count += 1

    def blocks(x: F, h: F):
        b = dk.tid()
        dk.tile_atomic_add(h, dk.tile_load(x, shape=32, offset=b * 32), offset=0)

    x, at = drawn(), places()
    cell, h = dk.zeros(3, dtype=Cell), dk.zeros(32)
    dk.launch(deterministic(cells), N, [dk.array(at, dtype=int), dk.array(x)], [cell])
    dk.launch_tiled(deterministic(blocks), [3], [dk.array(x)], [h], block_dim=32)
    found = cell.numpy()
    wanted = np.array([math.fsum(map(float, x[at == k])) for k in range(3)], np.float32)
    assert found["mass"].tobytes() == wanted.tobytes()
    count = np.bincount(at)
    np.testing.assert_array_equal(found["momentum"], np.stack([wanted, count, 2 * count], axis=1))
    np.testing.assert_array_equal(found["count"], count)
    columns = np.array([math.fsum(map(float, column)) for column in x.reshape(3, 32).T], np.float32)
    assert h.numpy().tobytes() == columns.tobytes()


def test_one_number_that_is_several_elements(gpu: FakeDriver) -> None:
    base = dk.zeros(1)
    shared = dk.array(ptr=base.ptr, dtype=float, shape=(3,), strides=(0,), device=GPU)
    x = drawn()
    found = set()
    for _ in range(4):
        base.zero_()
        dk.launch(scatters, N, [dk.array(places(), dtype=int), dk.array(x)], [shared])
        found.add(base.numpy().tobytes())
    assert len(found) == 1
    np.testing.assert_allclose(base.numpy(), x.sum(dtype=np.float64), rtol=1e-6)


def test_a_word_of_a_row_takes_many_additions() -> None:
    for form in DIGITS.values():
        # The most that a digit of one addition is, and the rest of the word's 63 bits.
        assert ((1 << form.bits) - 1) << (63 - form.bits) < 1 << 63
        assert 63 - form.bits >= 36


# -- launches ----------------------------------------------------------------------------------------------------------


def test_records_and_graphs(gpu: FakeDriver) -> None:
    x, at = dk.array(drawn()), dk.array(places(), dtype=int)
    h, other, each = (dk.zeros(3) for _ in range(3))
    for _ in range(2):
        dk.launch(scatters, N, [at, x], [each])
    record = dk.launch(scatters, N, [at, x], [h], record_cmd=True)
    record.launch()
    record.launch()
    assert h.numpy().tobytes() == each.numpy().tobytes()
    record.set_param_by_name("h", other)
    record.launch()
    with dk.ScopedCapture(GPU) as capture:
        dk.launch(scatters, N, [at, x], [other])
        dk.launch(scatters, N, [at, x], [h])
        h.zero_()
        dk.launch(scatters, N, [at, x], [h])
    for _ in range(2):
        dk.capture_launch(capture.graph)
    thrice, once = dk.zeros(3), dk.zeros(3)
    for _ in range(3):
        dk.launch(scatters, N, [at, x], [thrice])
    dk.launch(scatters, N, [at, x], [once])
    assert other.numpy().tobytes() == thrice.numpy().tobytes()
    assert h.numpy().tobytes() == once.numpy().tobytes()


def test_memory_is_taken_for_the_launch_alone(gpu: FakeDriver) -> None:
    at, x, h = dk.array(places(), dtype=int), dk.array(drawn()), dk.zeros(3)
    dk.launch(scatters, N, [at, x], [h])
    before = gpu.names().count("alloc"), gpu.names().count("free")
    dk.launch(scatters, N, [at, x], [h])
    assert (gpu.names().count("alloc"), gpu.names().count("free")) == (before[0] + 1, before[1] + 1)
    # Three rows in two copies: as many as there are warps, rounded down to a power of two.
    nbytes, _ = next(args for name, args in reversed(gpu.calls) if name == "alloc")
    assert nbytes == 2 * 3 * DIGITS["float32"].nbytes
    for _ in range(2):  # it is tried again when what can be freed was freed
        gpu.fail("alloc", code=2)
    with pytest.raises(CudaError, match=r"scatter.* is deterministic, and its exact sums take 576 bytes") as caught:
        dk.launch(scatters, N, [at, x], [h])
    assert "leave deterministic out" in str(caught.value)


def test_debug_programs(gpu: FakeDriver) -> None:
    at, h = places(), dk.zeros(3)
    kernel = deterministic(scatter, mode="debug")
    dk.launch(kernel, N, [dk.array(at, dtype=int), dk.array(drawn())], [h])
    usual = dk.zeros(3)
    dk.launch(scatters, N, [dk.array(at, dtype=int), dk.array(drawn())], [usual])
    assert h.numpy().tobytes() == usual.numpy().tobytes()
    at[5] = 3
    with pytest.raises(dk.KernelRuntimeError, match="index 3"):
        dk.launch(kernel, N, [dk.array(at, dtype=int), dk.array(drawn())], [h])


# -- what stays an error -----------------------------------------------------------------------------------------------


def read_as_well(at: I1, x: F, h: F):
    i = dk.tid()
    h[at[i]] += x[i]
    x[i] = h[i]


def result_used(at: I1, x: F, h: F):
    i = dk.tid()
    x[i] = dk.atomic_add(h, at[i], x[i])


def exchanged(at: I1, x: F, h: F):
    i = dk.tid()
    dk.atomic_exch(h, at[i], x[i])


def both_kinds(at: I1, x: F, h: F):
    i = dk.tid()
    h[at[i]] += x[i]
    dk.atomic_max(h, at[i], x[i])


@pytest.mark.parametrize(
    ("function", "line", "text"),
    [
        (read_as_well, 3, "reads or writes here an array to whose elements threads add"),
        (result_used, 2, "depends on the order in which the threads of a GPU come to this update"),
        (exchanged, 2, "depends on the order in which the threads of a GPU come to this update"),
        (both_kinds, 2, "depends on the order in which the threads of a GPU come to this update"),
    ],
)
def test_what_an_order_decides(function: Any, line: int, text: str, gpu: FakeDriver) -> None:
    with pytest.raises(CompileError, match=text) as caught:
        dk.launch(deterministic(function), N, [dk.array(places(), dtype=int), dk.array(drawn())], [dk.zeros(N)])
    assert f":{function.__code__.co_firstlineno + line}:" in str(caught.value)
    assert "leave deterministic out" in str(caught.value)


def test_one_array_for_what_is_read_and_what_is_added_to(gpu: FakeDriver) -> None:
    x = dk.array(drawn())
    with pytest.raises(CompileError, match="reads or writes here an array"):
        dk.launch(scatters, N, [dk.array(places(), dtype=int), x], [x])


def test_numba_cuda_has_none() -> None:
    with pytest.raises(CompileError, match="is deterministic") as caught:
        dk.compile(deterministic(scatter, compiler="numba"), target="sm_90")
    assert 'take compiler="llvm"' in str(caught.value)
