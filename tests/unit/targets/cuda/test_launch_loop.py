"""The loop over the threads of a launch: every thread exactly once, whatever the grid."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from llvmlite import ir
from on_host import HostCuda, cpu_harness

import diffkern as dk
from diffkern.compiler.compilation import Compilation
from diffkern.contracts import abi
from diffkern.contracts.argument_block import gpu_header
from diffkern.contracts.division import divider
from diffkern.ir.types import INT32, INT64, Array
from diffkern.lower.tiles.block import lower_tiles_for_blocks
from diffkern.runtime.native.loader import load_object
from diffkern.targets.cpu import object_code as target
from diffkern.targets.cuda.division import Dividers
from diffkern.targets.emit.types import I32, TargetModule, i64


def counting(arity: int, count: int):
    """Adds 1 to the element of each index; sums the components' digits to see that they are the right ones."""

    def body(b, hits, total):
        index = cpu_harness.tids(b, arity)
        b.op("atomic", hits, *index, b.const(1, INT32), kind="add", wrap=(False,) * arity)
        digits = b.const(0, INT32)
        for component in index:
            digits = b.add(b.mul(digits, b.const(100, INT32)), component)
        b.op("atomic", total, b.const(0, INT32), b.one("cast", digits, to=INT64), kind="add", wrap=(False,))

    return cpu_harness.kernel({"hits": Array(INT32, arity), "total": Array(INT64, 1)}, body, tid=arity)


@pytest.mark.parametrize("grid", [1, 2, 7, 200])
@pytest.mark.parametrize(
    ("arity", "dims"),
    [
        (1, (13,)),
        (1, (1,)),
        (1, (5, 3)),
        (1, (4, 2, 3, 2)),
        (2, (5, 7)),
        (2, (7, 1)),
        (2, (1, 9)),
        (2, (3, 4, 5)),
        (3, (3, 5, 7)),
        (3, (2, 3, 4, 2)),
        (4, (2, 3, 4, 5)),
        (4, (3, 1, 1, 2)),
    ],
)
def test_every_thread_runs_once(arity: int, dims: tuple[int, ...], grid: int) -> None:
    fn = counting(arity, len(dims))
    own, repeat = dims[:arity], int(np.prod(dims[arity:], dtype=int))
    hits, total = np.zeros(own, np.int32), np.zeros(1, np.int64)
    HostCuda(fn, grid=grid).launch(cpu_harness.pack(fn, [hits, total], dims, 0, 0))
    np.testing.assert_array_equal(hits, repeat)
    digits = sum(index * 100 ** (arity - 1 - k) for k, index in enumerate(np.indices(own)))
    assert total[0] == repeat * digits.sum()


def test_a_kernel_without_thread_index_runs_once_per_thread() -> None:
    def body(b, total):
        b.op("atomic", total, b.const(0, INT32), b.const(1, INT64), kind="add", wrap=(False,))

    fn = cpu_harness.kernel({"total": Array(INT64, 1)}, body, tid=0)
    total = np.zeros(1, np.int64)
    HostCuda(fn, grid=5).launch(cpu_harness.pack(fn, [total], (3, 4, 2), 0, 0))
    assert total[0] == 24


@dk.kernel
def doubled(x: dk.array(dtype=float, ndim=2), y: dk.array(dtype=float, ndim=2), hits: dk.array(dtype=int, ndim=2)):
    i, j = dk.tid()
    t = dk.tile_load(x, shape=(2, 4), offset=(i * 2, j * 4))
    dk.tile_store(y, t + t, offset=(i * 2, j * 4))
    dk.atomic_add(hits, i, j, 1)


@pytest.mark.parametrize("threads", [1, 3, 8, 32])
@pytest.mark.parametrize("grid", [1, 2, 15, 40])
@pytest.mark.parametrize("dims", [(3, 5), (3, 5, 2)])
def test_blocks_of_tiles_run_once(dims: tuple[int, ...], grid: int, threads: int) -> None:
    """A launch counts blocks: each index is that of all threads of one block, which share its elements."""
    fn = lower_tiles_for_blocks(Compilation(doubled.func, doubled.argument_types()).forward)
    x = np.arange(6 * 20, dtype=np.float32).reshape(6, 20)
    y, hits = np.zeros_like(x), np.zeros((3, 5), np.int32)
    HostCuda(fn, grid=grid, threads=threads).launch(cpu_harness.pack(fn, [x, y, hits], dims, 0, 0))
    np.testing.assert_array_equal(hits, np.prod(dims[2:], dtype=int))
    np.testing.assert_array_equal(y, 2 * x)


LARGE = (1, 2, 3, 7, 2**16 - 1, 2**16 + 1, 2**30, 2**31 - 1, 2**31)


def test_extents_divide_by_multiplication() -> None:
    numbers = np.arange(1 << 11, dtype=np.uint64)
    for extent in range(1, 300):
        assert np.array_equal(divided(numbers, extent), numbers // np.uint64(extent)), extent
    rng = np.random.default_rng(3)
    some = (2 ** rng.uniform(0, 31, 2000)).astype(np.uint64).clip(1, 2**31)
    for extent in (*LARGE, *some.tolist()):
        multiples = np.uint64(extent) * rng.integers(0, 2**32 // extent, 8, dtype=np.uint64)
        near = np.concatenate([multiples, multiples + np.uint64(extent - 1), rng.integers(0, 2**32, 8, np.uint64)])
        numbers = np.append(near, np.array([2**31 - 1, 2**31, 2**32 - 1], np.uint64))
        assert np.array_equal(divided(numbers, extent), numbers // np.uint64(extent)), extent
    for extent in (0, 2**31 + 1):
        with pytest.raises(ValueError, match=r"from 1 to 2\*\*31"):
            divider(extent)


def divided(numbers: np.ndarray, extent: int) -> np.ndarray:
    multiplier, shift = divider(extent)
    assert 1 <= multiplier < 2**32
    assert shift < 32
    upper = np.uint64(multiplier) * numbers >> np.uint64(32)
    total = upper + numbers
    assert (total[numbers < 2**31] < 2**32).all()
    return total >> np.uint64(shift)


def test_index_of_numbers_near_the_largest() -> None:
    """What the code makes of the first number of a thread, and of one after a round."""
    module = TargetModule("split", target.machine().isa)
    words = ir.PointerType()
    split = ir.Function(module, ir.FunctionType(ir.VoidType(), [words, words]), "split")
    b = ir.IRBuilder(split.append_basic_block())
    numbers = [b.load(b.gep(split.args[1], [i64(k)], source_etype=I32), typ=I32) for k in range(4)]
    dividers = Dividers(b, split.args[0], 4)
    small, large = dividers.split([None, None, None, numbers[3]], is_large=False), dividers.split(numbers)
    for k, value in enumerate([*small, *large]):
        b.store(value, b.gep(split.args[1], [i64(4 + k)], source_etype=I32))
    b.ret_void()
    machine = target.machine()
    code = target.object_code(target.optimise(str(module), 10**9, machine), machine)
    run = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(load_object(code, ["split"])["split"])
    rng = np.random.default_rng(4)
    for _ in range(1500):
        dims = [int(2 ** rng.uniform(0, 31)) if rng.random() < 0.8 else int(rng.choice(LARGE[:-1])) for _ in range(4)]
        first = int(rng.choice([2**31 - 1, rng.integers(0, 2**31)]))
        found = np.array([0, *[rng.integers(0, n) for n in dims[1:]], *[0] * 8], np.uint32)
        found[3] += min(first, 2**31 - 1)
        start = [int(n) for n in found[:4]]
        found[3] = start[3] & (2**31 - 1)
        run(gpu_header(dims), found.ctypes.data)
        assert found[4:8].tolist() == carried([0, 0, 0, start[3] & (2**31 - 1)], dims)
        found[3] = start[3]
        run(gpu_header(dims), found.ctypes.data)
        assert found[8:].tolist() == carried(start, dims)


def carried(index: list[int], dims: list[int]) -> list[int]:
    out = list(index)
    for k in (3, 2, 1):
        out[k - 1] += out[k] // dims[k]
        out[k] %= dims[k]
    return out


def test_one_round_is_said_only_where_it_is_so() -> None:
    def says(*args: object) -> int:
        return gpu_header(*args)[abi.GPU_BITS]

    assert says((3, 4, 1, 1), 2, 12) == says((3, 4, 1, 1), 2, 256) == says((1, 1, 1, 1), 4, 1) == abi.ONE_ROUND
    assert says((3, 4, 1, 1), 2, 11) == says((3, 4, 2, 1), 2, 256) == says((3, 4, 2, 1), 0) == says((3, 1, 1, 1)) == 0
