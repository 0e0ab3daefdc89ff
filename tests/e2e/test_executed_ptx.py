"""Kernels as a GPU would run them: the PTX of both compilers, executed warp by warp, forward and adjoint.

Results and gradients are those of the CPU, which differences have checked. With ``--full`` the whole corpus runs, in
blocks of 64 threads and in interleaved blocks of 3, for other architectures too.
"""

from __future__ import annotations

import narrow_atomics
import numpy as np
import pytest
from block_corpus import BLOCKS
from conftest import require
from device_checks import check_case
from golden import executed_counts
from grad.build import lower, values
from grad.cases import Case
from grad.corpus import CASES
from support.fake_driver.driver import fake_cuda
from support.ptx import PtxFault, RaceFault
from support.ptx.programs import PtxProgram, execute, vjp_of

import diffkern as dk
from diffkern.compiler.compilation import Compilation
from diffkern.contracts.options import Variant
from diffkern.kernels.kernel import Kernel
from diffkern.testing.gradcheck import Vjp
from diffkern.testing.programs import CompiledFunction

require("cuda.bindings.nvjitlink", "nvidia")

G = "cuda:0"
TARGET = Variant(target="sm_90")

CHOSEN = """
    branches.boolean_carried branches.break_on_sum branches.elif_chain branches.return_in_loop
    branches.while_in_for_in_if branches.where_sqrt
    composites.dynamic_component composites.inverse_determinant composites.n_body composites.rigid_spin
    composites.spring_energy composites.vector_total
    device.convolve device.double_loss device.four_at_once device.four_gathered device.option_price device.softmax_loss
    functions.double_kernel functions.many_functions functions.mixed_precision functions.powers
    loops.halve_until loops.linked_list loops.nested_state loops.product loops.runtime_step loops.while_two_slots
    memory.atomic_in_loop memory.gather memory.half_precision_storage memory.matmul_atomic memory.scatter_add
    memory.scatter_max memory.time_steps_in_memory memory.uniform_loss
    own_arrays.changed_by_a_func tiles.broadcasts tiles.extrema tiles.sums_along_axes
""".split()
"""Cases that a run without ``--full`` has: together they have most of the instructions that occur."""
COUNTED = """
    branches.return_in_loop composites.n_body composites.rigid_spin device.convolve device.double_loss
    device.four_at_once device.option_price device.softmax_loss loops.nested_state loops.product
    memory.gather memory.matmul_atomic memory.scatter_add memory.uniform_loss tiles.sums_along_axes
""".split()
"""Of these the instructions that a warp executes are recorded: ``tests/golden/executed.json``."""
BY_NUMBA = ["device.softmax_loss", "loops.product", "memory.scatter_max", "tiles.broadcasts"]
INTERLEAVED = ["device.softmax_loss", "memory.matmul_atomic", "memory.scatter_max", "memory.uniform_loss"]
TOO_LARGE = {"tiles.large_tiles"}  # for the shared memory of a block
TOO_LONG = {"loops.long_contraction"}
EVERY = sorted(set(CASES) - TOO_LARGE - TOO_LONG)


def check(case: Case, **given: object) -> dict[str, float]:
    """Compare what a kernel and its adjoint leave with what the CPU's do; return what a warp executes of each."""
    here = Vjp(lower(case), **case.options)
    there = vjp_of(lower(case), **case.options, **given)
    point = here.arguments(values(case))
    weights = here.weights(point, np.random.default_rng(3))
    outputs, found = here.arguments(values(case)), here.arguments(values(case))
    here.primal_program.run(case.dim, outputs)
    there.primal_program.run(case.dim, found)
    for name, a, b in zip(here.names, found, outputs, strict=True):
        agrees(name, a, b, case.rtol32)
    expected = here.gradients(case.dim, point, weights)
    for i, gradient in there.gradients(case.dim, point, weights).items():
        agrees(f"the gradient of {here.names[i]}", gradient, expected[i], case.rtol32)
    made = {"forward": there.primal_program, "adjoint": there.adjoint_program}
    return {f"{case.name} {way}": round(program.steps / program.warps, 1) for way, program in made.items()}


def agrees(what: str, found: object, expected: object, rtol: float) -> None:
    found, expected = (np.asarray(a) for a in (found, expected))
    if expected.dtype.kind != "f":
        np.testing.assert_array_equal(found, expected, err_msg=what)
        return
    size = float(np.max(np.abs(expected), initial=0.0, where=np.isfinite(expected)))
    np.testing.assert_allclose(found, expected, rtol=rtol, atol=1e-5 * size, err_msg=what)


@pytest.mark.parametrize("name", CHOSEN)
def test_a_case(name):
    found = check(CASES[name], seed=1)
    if name in COUNTED:
        executed_counts.check(found)


@pytest.mark.parametrize("name", INTERLEAVED)
def test_interleaved_blocks_of_three(name):
    check(CASES[name], arch="sm_80", block_dim=3, seed=2)


@pytest.mark.parametrize("name", BY_NUMBA)
def test_a_case_by_numba_cuda(name):
    require("numba.cuda")
    check(CASES[name], compiler="numba", block_dim=256, seed=3)


@pytest.mark.full
@pytest.mark.parametrize("name", EVERY)
def test_every_case(name):
    check(CASES[name])
    if not name.startswith("tiles."):
        check(CASES[name], block_dim=3)


@pytest.mark.full
@pytest.mark.parametrize(("arch", "block_dim"), [("sm_75", 64), ("sm_80", 256), ("sm_120", 64)])
@pytest.mark.parametrize("name", EVERY)
def test_every_case_on_other_architectures(name, arch, block_dim):
    check(CASES[name], arch=arch, block_dim=block_dim)


@pytest.mark.full
@pytest.mark.parametrize("name", EVERY)
def test_every_case_by_numba_cuda(name):
    require("numba.cuda")
    check(CASES[name], compiler="numba")


BLOCKS_CHOSEN = sorted(BLOCKS)[::4]


def check_blocks(name: str, **given: object) -> None:
    """A kernel whose threads work together, against what NumPy says."""
    case = BLOCKS[name]
    fn = Compilation(case.kernel.func, case.kernel.argument_types(), TARGET).forward
    arguments = case.arguments()
    expected = case.expected(*[np.copy(a) for a in arguments])
    PtxProgram(fn, block_dim=case.block_dim, **given).run(case.dim, arguments)
    for parameter, found, wanted in zip(fn.param_names, arguments, expected, strict=True):
        agrees(parameter, found, wanted, 1e-5)


@pytest.mark.parametrize("name", BLOCKS_CHOSEN)
def test_threads_that_work_together(name):
    check_blocks(name, seed=4)


@pytest.mark.full
@pytest.mark.parametrize("compiler", ["llvm", "numba"])
@pytest.mark.parametrize("name", sorted(BLOCKS))
def test_all_threads_that_work_together(name, compiler):
    check_blocks(name, compiler=compiler)


def test_a_kernel_on_arrays_and_numbers():
    @dk.kernel
    def scaled(x: dk.array(dtype=float, ndim=2), factor: float, y: dk.array(dtype=float, ndim=2)):
        i, j = dk.tid()
        y[i, j] = factor * x[i, -1 - j]

    x, y = np.arange(12, dtype=np.float32).reshape(3, 4), np.zeros((3, 4), np.float32)
    execute(scaled, (3, 4), [x, 2.0, y], block_dim=5)
    np.testing.assert_array_equal(y, 2 * x[:, ::-1])


# -- launches ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["memory.gather", "loops.product", "device.softmax_loss"])
def test_a_launch_runs_what_the_driver_is_given(name):
    with fake_cuda(run="ptx") as driver:
        check_case(CASES[name], G)
        assert driver.launches


@pytest.mark.full
@pytest.mark.parametrize("name", [name for name in EVERY if not CASES[name].options])
def test_every_launch(name):
    with fake_cuda(run="ptx"):
        check_case(CASES[name], G)


def test_a_launch_that_leaves_its_memory_is_noticed():
    @dk.kernel
    def far(x: dk.array(dtype=float), k: int):
        x[dk.tid() + k] = 1.0

    with fake_cuda(run="ptx"):
        x = dk.zeros(8, device=G)
        dk.launch(far, 1, [x[:4], 1 << 24])
        with pytest.raises(PtxFault, match="lies in no allocation"):
            dk.synchronize()


# -- what a wrong compiler would do ------------------------------------------------------------------------------------


@dk.kernel
def turned(x: dk.array(dtype=float), y: dk.array(dtype=float)):
    i, t, n = dk.tid(), dk.thread_index(), dk.block_dim()
    s = dk.shared_array(128, float)
    s[t] = x[i]
    dk.syncthreads()
    y[i] = s[n - 1 - t]


def test_a_missing_barrier_is_noticed():
    fn = Compilation(turned.func, turned.argument_types(), TARGET).forward
    x = np.random.default_rng(1).normal(size=256).astype(np.float32)
    expected = x.reshape(2, 128)[:, ::-1].ravel()
    made = PtxProgram(fn, block_dim=128)
    assert made.text.count("bar.sync") == 2
    right, wrong = 0, 0
    for barrier in (True, False):
        if not barrier:
            made.text = made.text.replace("bar.sync", "bar.warp.sync -1; //")
            with pytest.raises(RaceFault, match=r"(reads|writes) byte \d+ of shared memory"):
                made.run(x.shape, [x, np.zeros_like(x)])
            made.races = False
        for made.seed in range(8):
            y = np.zeros_like(x)
            made.run(x.shape, [x, y])
            right += barrier and np.array_equal(y, expected)
            wrong += not barrier and not np.array_equal(y, expected)
    assert right == 8
    assert wrong >= 7


@dk.kernel
def counted(x: dk.array(dtype=float), sums: dk.array(dtype=float)):
    dk.atomic_add(sums, dk.tid() % 3, x[dk.tid()])


def test_a_plain_sum_in_the_place_of_an_atomic_one_is_noticed():
    fn = Compilation(counted.func, counted.argument_types(), TARGET).forward
    x = np.ones(96, np.float32)
    made = PtxProgram(fn, block_dim=32, lineinfo=True)
    (line,) = [line.strip() for line in made.text.splitlines() if "red.relaxed" in line]
    place, value = line.split(None, 1)[1].rstrip(";").split(", ")
    plain = (
        f"{{ .reg .f32 %old; ld.global.f32 %old, {place}; add.f32 %old, %old, {value}; st.global.f32 {place}, %old; }}"
    )
    for text, is_right in ((made.text, True), (made.text.replace(line, plain), False)):
        made.text = text
        if not is_right:
            with pytest.raises(RaceFault, match=r"byte \d of sums, .*\n.*:\d+: (ld|st)\.global"):
                made.run(x.shape, [x, np.zeros(3, np.float32)])
            made.races = False
        for made.seed in range(4):
            sums = np.zeros(3, np.float32)
            made.run(x.shape, [x, sums])
            assert np.array_equal(sums, [32, 32, 32]) == is_right


# -- what goes wrong on GPUs alone -------------------------------------------------------------------------------------


@dk.kernel
def shifted(x: dk.array(dtype=dk.vec3d), y: dk.array(dtype=dk.vec3d)):
    i = dk.tid()
    y[i] = x[i] + dk.vec3d(x[i][1], x[i][2], x[i][0])


def test_vectors_of_24_bytes_are_not_read_16_bytes_at_a_time():
    """Every other one begins at no multiple of 16."""
    x = np.random.default_rng(2).normal(size=(9, 3))
    with fake_cuda(run="ptx"):
        y = dk.zeros(9, dtype=dk.vec3d, device=G)
        dk.launch(shifted, 9, [dk.array(x, dtype=dk.vec3d, device=G)], [y])
        np.testing.assert_allclose(y.numpy(), x + x[:, [1, 2, 0]])


@pytest.mark.parametrize(
    ("element", "compiler"),
    [*((e, "llvm") for e in narrow_atomics.ELEMENTS), (dk.int8, "numba"), (dk.float16, "numba")],
    ids=str,
)
def test_atomic_updates_stay_inside_odd_arrays(element, compiler):
    """Those of 16 bits in any memory; those of 8 bits in memory of whole words, as diffkern allocates it."""
    if compiler == "numba":
        require("numba.cuda")
    types = Kernel(narrow_atomics.update).argument_types(*narrow_atomics.types(element))
    found, expected = narrow_atomics.arguments(element), narrow_atomics.arguments(element)
    dim = (narrow_atomics.SIZE,)
    CompiledFunction(Compilation(narrow_atomics.update, types, Variant()).fn).run(dim, expected)
    given = [whole_words(a) if a.itemsize == 1 else a for a in found]
    program = PtxProgram(Compilation(narrow_atomics.update, types, TARGET).fn, compiler, block_dim=4)
    program.run(dim, given)
    for name, a, b in zip(narrow_atomics.update.__code__.co_varnames, given, expected, strict=False):
        np.testing.assert_allclose(a[: len(b)], b, rtol=1e-6, err_msg=f"{name} of {element}")


@dk.kernel
def summed_backwards(x, y):
    i = dk.tid()
    dk.atomic_add(y, y.shape[0] - 1 - i // 2, x[i])


@pytest.mark.parametrize("element", [dk.float16, dk.bfloat16], ids=str)
def test_sums_of_halves_stay_inside_odd_arrays(element):
    """They are added in pairs, but for the last one, which has no neighbour."""
    types = (dk.array(dtype=element),) * 2
    fn = Compilation(summed_backwards.func, Kernel(summed_backwards.func).argument_types(*types), TARGET).fn
    one, two = (0x3C00, 0x4000) if element is dk.float16 else (0x3F80, 0x4000)
    x, y = np.full(5, one, np.uint16), np.zeros(3, np.uint16)
    given = [a.view(np.float16) if element is dk.float16 else a for a in (x, y)]
    made = PtxProgram(fn)
    assert "add.noftz" in made.text
    made.run((5,), given)
    assert y.tolist() == [one, two, two]


def whole_words(a: np.ndarray) -> np.ndarray:
    return np.concatenate([a, np.zeros(-len(a) % 4, a.dtype)])


@dk.kernel
def least(x, y):
    i = dk.tid()
    dk.atomic_min(y, y.shape[0] - 1 - i // 2, x[i])


@pytest.mark.parametrize("element", [dk.int8, dk.float16], ids=str)
def test_odd_arrays_in_memory_of_diffkern(element):
    x = np.array([4, 3, 9, 1, 7], np.dtype("int8") if element is dk.int8 else np.float16)
    with fake_cuda(run="ptx"):
        y = dk.full(3, 6, dtype=element, device=G)
        dk.launch(least, 5, [dk.array(x, dtype=element, device=G)], [y])
        assert y.numpy().tolist() == [6, 1, 3]
