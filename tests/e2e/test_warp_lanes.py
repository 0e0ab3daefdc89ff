"""Texts in C++ whose threads work together in warps: executed PTX, compared with what CUDA says of each lane."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from support.ptx.programs import PtxProgram
from support.seeds import run_seed

import diffkern.warp as wp
from diffkern.compiler.compilation import Compilation
from diffkern.compiler.compiled import compile_for
from diffkern.compiler.specialize import Specialization
from diffkern.contracts.options import Variant, VmapLayer
from diffkern.errors import AutodiffError, KernelTypeError
from diffkern.kernels.derived_kernel import TangentKernel
from diffkern.shipping.ahead import arrays_with_gradients
from diffkern.warp.c.c_text import translated
from diffkern.warp.c.c_types import OtherTextError

LANES = np.arange(32)
WIDTHS = (32, 16, 8, 4, 2, 1)


def on_gpu(
    kernel: Any, arrays: list[np.ndarray[Any, Any]], threads: int | tuple[int, ...], block_dim: int = 64
) -> None:
    """Run a kernel as executed PTX."""
    target = Variant(target="sm_90", block_dim=block_dim)
    fn = Compilation(kernel.func, kernel.argument_types(), target).forward
    PtxProgram(fn, block_dim=block_dim).run(threads if isinstance(threads, tuple) else (threads,), arrays)


def random(seed: int) -> np.random.Generator:
    return np.random.default_rng([run_seed(), seed])


# -- exchanges ---------------------------------------------------------------------------------------------------------


def source(way: str, by: np.ndarray[Any, Any], width: int) -> np.ndarray[Any, Any]:
    """The lane that each lane of a warp reads from, as the description of PTX has it."""
    clamp, segment = (0 if way == "up" else 31), (32 - width) & 31
    found = np.zeros(32, int)
    for lane in range(32):
        b = int(by[lane]) & 31
        last, first = (lane & segment) | (clamp & ~segment), lane & segment
        j, inside = {
            "up": (lane - b, lane - b >= last),
            "down": (lane + b, lane + b <= last),
            "xor": (lane ^ b, (lane ^ b) <= last),
            "": (first | (b & ~segment), (first | (b & ~segment)) <= last),
        }[way]
        found[lane] = j if inside else lane
    return found


def exchange(way: str, kind: str, width: int, with_width: bool = True) -> Any:
    """A kernel in which each thread has what another one has."""
    name = f"__shfl_{way}_sync" if way else "__shfl_sync"
    last = f", {width}" if with_width else ""
    dtype = getattr(wp, kind)

    @wp.func_native(f"return {name}(0xffffffffu, value, by{last});")
    def exchanged(value: dtype, by: int) -> dtype: ...

    @wp.kernel
    def run(x: wp.array(dtype=dtype), by: wp.array(dtype=int), y: wp.array(dtype=dtype)):
        i = wp.tid()
        y[i] = exchanged(x[i], by[i])

    return run


CASES = [(way, "float32", width) for way in ("", "up", "down", "xor") for width in WIDTHS]
CASES += [("xor", kind, 32) for kind in ("int32", "uint32", "int64", "uint64", "float64")]


@pytest.mark.parametrize(("way", "kind", "width"), CASES)
def test_an_exchange(way: str, kind: str, width: int) -> None:
    rng = random(width)
    x = (rng.normal(size=128) * 1e3).astype(kind) if kind != "uint64" else rng.integers(0, 2**63, 128, np.uint64)
    by = rng.integers(0, 40, 128, dtype=np.int32)
    expected = np.concatenate([x[k : k + 32][source(way, by[k : k + 32], width)] for k in range(0, 128, 32)])
    y = np.zeros_like(x)
    on_gpu(exchange(way, kind, width), [x, by, y], 128)
    np.testing.assert_array_equal(y, expected)


def test_without_a_width_it_is_the_whole_warp() -> None:
    x, by, y = np.arange(32, dtype=np.int32), np.full(32, 5, np.int32), np.zeros(32, np.int32)
    on_gpu(exchange("xor", "int32", 32, with_width=False), [x, by, y], 32, 32)
    np.testing.assert_array_equal(y, LANES ^ 5)


SUM = """
#if defined(__CUDA_ARCH__)
    float r = value;
    #pragma unroll
    for (int offset = width / 2; offset > 0; offset >>= 1)
        r += __shfl_xor_sync(0xffffffffu, r, offset, width);
    return r;
#else
    return value;
#endif
"""


@wp.func_native(SUM)
def part_sum(value: wp.float32, width: wp.int32) -> wp.float32: ...


@wp.kernel
def sums(x: wp.array(dtype=float), width: int, y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = part_sum(x[i], width)


@pytest.mark.parametrize("width", [4, 16, 32])
def test_a_sum_over_parts_of_a_warp(width: int) -> None:
    x = random(1).integers(-50, 50, 96).astype(np.float32)
    y = np.zeros_like(x)
    on_gpu(sums, [x, width, y], 96, 32)
    np.testing.assert_array_equal(y, np.repeat(x.reshape(-1, width).sum(1), width))


def test_on_a_processor_the_text_for_it_runs() -> None:
    x = np.arange(8, dtype=np.float32)
    y = wp.zeros(8, dtype=float, device="cpu")
    wp.launch(sums, 8, inputs=[wp.array(x, device="cpu"), 4, y], device="cpu")
    np.testing.assert_array_equal(y.numpy(), x)


# -- votes, under conditions and in loops ------------------------------------------------------------------------------


@wp.func_native("""
const int lane = threadIdx.x & 31;
const int lanes = min(32, count - (index - lane));
const unsigned int mask = lanes == 32 ? 0xffffffffu : (1u << lanes) - 1u;
auto sum = value;
for (int offset = 1; offset < lanes; offset <<= 1) {
    const int other = __shfl_down_sync(mask, key, offset);
    const bool same = lane + offset < lanes && other == key;
    if (!__any_sync(mask, same)) break;
    for (int axis = 0; axis < 3; ++axis) {
        const float part = __shfl_down_sync(mask, sum.c[axis], offset);
        if (same) sum.c[axis] += part;
    }
}
return sum;
""")
def run_sum(value: wp.vec3, key: int, index: int, count: int) -> wp.vec3: ...


@wp.func_native("""
const int lane = threadIdx.x & 31;
const int lanes = min(32, count - (index - lane));
const unsigned int mask = lanes == 32 ? 0xffffffffu : (1u << lanes) - 1u;
const int previous = __shfl_up_sync(mask, key, 1);
return lane == 0 || previous != key;
""")
def begins_run(key: int, index: int, count: int) -> bool: ...


@wp.kernel
def runs(keys: wp.array(dtype=int), x: wp.array(dtype=wp.vec3), y: wp.array(dtype=wp.vec3)):
    i = wp.tid()
    n = keys.shape[0]
    total = run_sum(x[i], keys[i], i, n)
    if begins_run(keys[i], i, n):
        wp.atomic_add(y, keys[i], total)


@pytest.mark.parametrize("count", [64, 50, 33, 31])
def test_sums_over_runs_of_equal_keys_in_a_launch_of_any_size(count: int) -> None:
    rng = random(count)
    keys = np.sort(rng.integers(0, 9, count)).astype(np.int32)
    x = rng.integers(-9, 9, (count, 3)).astype(np.float32)
    y = np.zeros((9, 3), np.float32)
    on_gpu(runs, [keys, x, y], count, 64)
    expected = np.zeros((9, 3), np.float32)
    np.add.at(expected, keys, x)
    np.testing.assert_array_equal(y, expected)


@wp.func_native("""
const int lane = i & 31;
unsigned pending = __ballot_sync(0xffffffffu, x.data[i] > 0);
int slot = 0;
if (lane == 0) slot = atomicAdd(&count.data[0], __popc(pending));
slot = __shfl_sync(0xffffffffu, slot, 0);
const auto twice = [&](int v) {
    if (v < 0) return v;
    return v + x.data[i & ~31];
};
while (pending) {
    const int source = __ffs(pending) - 1;
    pending &= pending - 1u;
    const int value = __shfl_sync(0xffffffffu, x.data[i], source);
    if (lane == source) found.data[slot] = twice(value);
    ++slot;
}
if (__all_sync(0xffffffffu, x.data[i] > -100) && lane == 3) atomicMax(&count.data[1], i);
__syncwarp();
__threadfence();
__syncwarp(0xffffffffu);
""")
def collect(i: int, x: wp.array(dtype=int), count: wp.array(dtype=int), found: wp.array(dtype=int)): ...


@wp.kernel
def collected(x: wp.array(dtype=int), count: wp.array(dtype=int), found: wp.array(dtype=int)):
    collect(wp.tid(), x, count, found)


def test_lanes_of_a_ballot_one_after_the_other() -> None:
    x = random(3).integers(-9, 9, 96).astype(np.int32)
    x[40] = -200
    count, found = np.zeros(2, np.int32), np.full(96, -1, np.int32)
    on_gpu(collected, [x, count, found], 96, 32)
    wanted = [v + x[i & ~31] for i, v in enumerate(x) if v > 0]
    assert count.tolist() == [len(wanted), 67]
    assert sorted(found[: len(wanted)]) == sorted(wanted)
    assert (found[len(wanted) :] == -1).all()


@wp.func_native("""
const unsigned mask = __activemask();
const int leader = (threadIdx.x & 31) & ~(lanes - 1);
int found = 0;
if ((threadIdx.x & (lanes - 1)) == 0) found = value * 10;
return __shfl_sync(mask, found, leader);
""")
def of_leader(value: int, lanes: int) -> int: ...


@wp.kernel
def led(x: wp.array(dtype=int), lanes: int, y: wp.array(dtype=int)):
    i = wp.tid()
    y[i] = of_leader(x[i], lanes)


def test_what_the_first_lane_of_each_part_has_found() -> None:
    x, y = random(4).integers(0, 99, 40).astype(np.int32), np.zeros(40, np.int32)
    on_gpu(led, [x, 8, y], 40, 64)
    np.testing.assert_array_equal(y, 10 * np.repeat(x[::8], 8))


# -- shared memory of a text, and loops that continue ------------------------------------------------------------------


@wp.func_native("""
    __shared__ int totals[32];
    const int lane = thread & 31, warp = thread >> 5;
    const int warps = blockDim.x >> 5;
    int before = 0;
    for (int base = 0; base < n; base += blockDim.x) {
        const int i = base + thread;
        int inclusive = i < n ? x.data[i] : 0;
        const int own = inclusive;
        for (int offset = 1; offset < 32; offset <<= 1) {
            const int below = __shfl_up_sync(0xFFFFFFFF, inclusive, offset);
            if (lane < offset) continue;
            inclusive += below;
        }
        if (warps == 1) {
            if (i < n) y.data[i] = before + inclusive - own;
            before += __shfl_sync(0xFFFFFFFF, inclusive, 31);
            continue;
        }
        if (lane == 31) totals[warp] = inclusive;
        __syncthreads();
        int offset = 0;
        for (int k = 0; k < warps; ++k) {
            if (k < warp) offset += totals[k];
        }
        if (i < n) y.data[i] = before + offset + inclusive - own;
        for (int k = 0; k < warps; ++k) before += totals[k];
        __syncthreads();
    }
""")
def scan(thread: int, n: int, x: wp.array(dtype=int), y: wp.array(dtype=int)): ...


@wp.kernel
def scanned(n: int, x: wp.array(dtype=int), y: wp.array(dtype=int)):
    scan(wp.tid(), n, x, y)


@pytest.mark.parametrize("block_dim", [32, 96])
def test_a_scan_by_the_warps_of_a_block(block_dim: int) -> None:
    x, y = random(5).integers(0, 9, 250).astype(np.int32), np.zeros(250, np.int32)
    on_gpu(scanned, [250, x, y], block_dim, block_dim)
    np.testing.assert_array_equal(y, np.cumsum(x) - x)


# -- atomic updates ----------------------------------------------------------------------------------------------------

NONNEGATIVE = """
#if defined(__CUDA_ARCH__)
    atomicMax(reinterpret_cast<int*>(wp::address(values, index)), __float_as_int(value));
#else
    float* address = wp::address(values, index);
    if (value > *address) *address = value;
#endif
"""


@wp.func_native(NONNEGATIVE)
def larger_bits(values: wp.array(dtype=float), index: int, value: float): ...


@wp.func_native("atomicMin(reinterpret_cast<int*>(&values.data[index]), __float_as_int(value));")
def smaller_bits(values: wp.array(dtype=float), index: int, value: float): ...


@wp.kernel
def extremes(x: wp.array(dtype=float), high: wp.array(dtype=float), low: wp.array(dtype=float)):
    i = wp.tid()
    larger_bits(high, i % 5, x[i])
    smaller_bits(low, i % 5, x[i])


def test_extremes_by_the_bits_of_numbers() -> None:
    x = random(6).normal(size=60).astype(np.float32)
    x[[7, 13]] = -0.0, np.inf
    x[[8, 14]] = -np.inf, np.nan
    start = np.array([0.0, -0.0, np.nan, -np.nan, -1.5], np.float32)
    start.view(np.uint32)[3] |= 0x80000000
    high, low = start.copy(), start.copy()
    on_gpu(extremes, [x, high, low], 60, 32)
    bits = np.concatenate([x.view(np.int32).reshape(-1, 5), start.view(np.int32)[None]])
    np.testing.assert_array_equal(high.view(np.int32), bits.max(0))
    np.testing.assert_array_equal(low.view(np.int32), bits.min(0))


@wp.func_native("""
const int old = atomicCAS(&a.data[0], 7, 100);
atomicSub(&a.data[1], i);
atomicOr(wp::address(a, 2), 1 << i);
atomicAnd(&a.data[3], ~(1 << i));
atomicXor(&a.data[4], i);
const int last = atomicExch(&a.data[5], i + 1);
const float before = atomicAdd(&b.data[i % 2], 0.5f);
if (old == 7) a.data[6] = last >= 0 && before >= 1.0f ? i : -1;
""")
def updates(i: int, a: wp.array(dtype=int), b: wp.array(dtype=float)): ...


@wp.kernel
def updated(a: wp.array(dtype=int), b: wp.array(dtype=float)):
    updates(wp.tid(), a, b)


def test_atomic_updates_and_what_they_return() -> None:
    a, b = np.array([7, 0, 0, -1, 0, 0, -5], np.int32), np.array([1.0, 2.0], np.float32)
    on_gpu(updated, [a, b], 24, 32)
    bits = (1 << 24) - 1
    assert a[:5].tolist() == [100, -sum(range(24)), bits, ~bits, 0]
    assert 1 <= a[5] <= 24
    assert 0 <= a[6] < 24
    assert b.tolist() == [7.0, 8.0]


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("return __shfl_sync(0xffffffffu, x, 0);", "no number"),
        ("const auto f = [&](int k) { n = k; return k; }; return n;", "declared outside of it"),
        ("const auto f = [=](int k) { return k; }; return n;", r"with \[&\] or \[\]"),
        ("__shared__ wp::vec3 v[4]; return n;", "not one of numbers"),
        ("atomicMax(reinterpret_cast<unsigned*>(&a.data[0]), 1u); return n;", "read as uint32"),
        ("return atomicMax(reinterpret_cast<int*>(&a.data[0]), n);", "no number"),
        ("return threadIdx.y;", "threadIdx is not known here"),
    ],
)
def test_texts_for_gpus_that_are_refused(text: str, what: str) -> None:
    with pytest.raises(OtherTextError, match=what):
        translated(text, {"x": "vec3<float32>", "n": "int32", "a": "float32"}, gpu=True, result="int32")


# -- waiting for a block, and tiles ------------------------------------------------------------------------------------


@wp.func_native("""
#if defined(__CUDA_ARCH__)
__syncthreads();
#endif
""")
def wait(): ...


@wp.kernel
def turned_where_asked(asked: wp.array(dtype=int), x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    n = wp.block_dim()
    block = i // n
    if asked[block] == 0:
        return
    y[i] = x[i]
    wait()
    other = block * n + n - 1 - i % n
    found = y[other]
    wait()
    y[i] = found


def test_a_barrier_where_a_whole_block_has_returned() -> None:
    x = random(7).normal(size=256).astype(np.float32)
    y = np.zeros_like(x)
    on_gpu(turned_where_asked, [np.array([1, 0, 1, 0], np.int32), x, y], 256, 64)
    expected = np.where([[1], [0], [1], [0]], x.reshape(4, 64)[:, ::-1], 0).ravel()
    np.testing.assert_array_equal(y, expected)


@wp.kernel
def squares(
    chosen: wp.array(dtype=int),
    x: wp.array2d(dtype=float),
    scratch: wp.array3d(dtype=float),
    y: wp.array3d(dtype=float),
    trace: wp.array(dtype=float),
):
    w, lane = wp.tid()
    if chosen[w] == 0:
        return
    for k in range(lane, 64, 32):
        scratch[w, k // 8, k % 8] = x[w, k]
    wait()
    a = wp.tile_load(scratch[w], shape=(8, 8), storage="shared")
    product = wp.tile_zeros(shape=(8, 8), dtype=float, storage="shared")
    wp.tile_matmul(a, a, product)
    for k in range(lane, 64, 32):
        y[w, k // 8, k % 8] = product[k // 8, k % 8]
    if lane < 8:
        wp.atomic_add(trace, w, product[lane, lane])
    wait()
    if lane == 31:
        y[w, 0, 0] = -y[w, 0, 0]


def test_threads_that_share_tiles_and_wait_for_each_other() -> None:
    x = random(8).integers(-4, 4, (3, 64)).astype(np.float32)
    chosen = np.array([1, 0, 1], np.int32)
    scratch, y, trace = np.zeros((3, 8, 8), np.float32), np.zeros((3, 8, 8), np.float32), np.zeros(3, np.float32)
    on_gpu(squares, [chosen, x, scratch, y, trace], (3, 32), 32)
    a = x.reshape(3, 8, 8) * chosen[:, None, None]
    expected = a @ a
    np.testing.assert_array_equal(trace, np.trace(expected, axis1=1, axis2=2))
    expected[:, 0, 0] *= -1
    np.testing.assert_array_equal(y, expected)


@wp.kernel
def some_of_a_tile(x: wp.array(dtype=float), last: wp.array(dtype=int), y: wp.array(dtype=float)):
    i = wp.tid()
    n = wp.block_dim()
    world = i // n
    lane = i % n
    if last[world] < 0:
        return
    scan = wp.tile_scan_inclusive(wp.tile(x[i]))
    total = wp.tile_sum(wp.tile(x[i]))
    if lane <= last[world]:
        y[i] = wp.untile(scan) + 1000.0 * scan[last[world] - lane]
        if lane == 5:
            y[i] = -total[0]
    again = wp.tile_scan_inclusive(scan)
    if lane == 0:
        y[i] += again[n - 1]


def test_threads_read_elements_of_tiles_in_branches_of_their_own() -> None:
    x = random(9).integers(0, 9, 192).astype(np.float32)
    last, y = np.array([40, -1, 7], np.int32), np.zeros(192, np.float32)
    on_gpu(some_of_a_tile, [x, last, y], 192, 64)
    expected = np.zeros((3, 64), np.float32)
    for w, n in enumerate(last):
        scan = np.cumsum(x[64 * w : 64 * w + 64])
        if n >= 0:
            expected[w, : n + 1] = scan[: n + 1] + 1000 * scan[: n + 1][::-1]
            expected[w, 5] = -scan[-1]
            expected[w, 0] += np.cumsum(scan)[-1]
    np.testing.assert_array_equal(y, expected.ravel())


@wp.kernel
def work_that_some_miss(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    if i % 3 == 0:
        y[i] = wp.tile_sum(wp.tile(x[i]))[0]


def test_work_on_tiles_that_some_threads_miss_is_refused() -> None:
    with pytest.raises(KernelTypeError, match="some threads of a block may miss this work on a tile"):
        on_gpu(work_that_some_miss, [np.zeros(32, np.float32), np.zeros(32, np.float32)], 32, 32)


# -- what has no derivative --------------------------------------------------------------------------------------------


def of_gpu(kernel: Any, **options: Any) -> Any:
    made = Specialization(kernel.func, tuple(kernel.argument_types()), kernel.variant).for_block(32, None)
    return compile_for(made.with_variant(**options), "sm_90")


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (sums, r"part_sum \d+>:5: work of a warp in a text in C\+\+.*\n.*shuffle_xor"),
        (turned_where_asked, "a barrier in a text"),
        (squares, "a barrier in a text"),
    ],
)
def test_a_derivative_on_a_gpu_is_refused(kernel: Any, message: str) -> None:
    active = arrays_with_gradients(kernel.argument_types())
    with pytest.raises(AutodiffError, match=message):
        of_gpu(kernel, active=active)


def test_a_processor_differentiates_the_text_for_it() -> None:
    x = wp.array(np.arange(4, dtype=np.float32), requires_grad=True, device="cpu")
    y = wp.zeros(4, dtype=float, requires_grad=True, device="cpu")
    with wp.Tape() as tape:
        wp.launch(sums, 4, inputs=[x, 4, y], device="cpu")
    tape.backward(grads={y: wp.array(np.array([1, 2, 3, 4], np.float32), device="cpu")})
    np.testing.assert_array_equal(x.grad.numpy(), [1, 2, 3, 4])


def test_forward_mode_and_batches_are_refused() -> None:
    x, n, y = sums.argument_types()
    batch = VmapLayer((0, 2), (), False)
    rows = [replace(t, ndim=2) for t in (x, y)]
    layered = TangentKernel(sums)
    for types, layer in (([*layered.argument_types()], layered.layer), ([rows[0], n, rows[1]], batch)):
        made = Specialization(sums.func, tuple(types), replace(sums.variant, layers=(layer,))).for_block(32, None)
        with pytest.raises(AutodiffError, match="work of a warp in a text"):
            compile_for(made, "sm_90")
