"""The numba-cuda spelling: golden files, real compilation by numba-cuda, and what it shares with the CUDA plan."""

from __future__ import annotations

import os
import re
import types
from pathlib import Path
from typing import Any

import narrow_atomics
import pytest
from block_corpus import BLOCKS
from conftest import require
from grad.build import values
from grad.corpus import CASES
from support.simulated import cuda_source

import diffkern as dk
from diffkern.compiler.compilation import Compilation
from diffkern.contracts.options import Variant
from diffkern.ir.nodes import Function
from diffkern.ir.types import Array, Scalar, Type, scalar_of, value_type
from diffkern.kernels.kernel import Kernel
from diffkern.printing import prims
from diffkern.printing.executor import load_source
from diffkern.printing.python import function_name
from diffkern.shipping.export import export

require("numba.cuda")

GOLDEN = Path(__file__).parents[2] / "golden" / "cuda_source"
SHOWN = (
    "composites.spring_energy",
    "memory.heat_2d",
    "loops.long_two_slots",
    "memory.scatter_max",
    "composites.matrix_power",
    "branches.break_on_sum",
)
COMPILED = (
    *SHOWN,
    "memory.half_precision_storage",
    "memory.uniform_loss",
    "memory.cube_3d",
    "composites.dynamic_component_store",
    "functions.double_kernel",
    "functions.mixed_precision",
    "functions.abs_at_zero",
    "functions.casts_end_the_chain",
    "functions.modulo",
    "functions.powers",
    "loops.runtime_step_down",
    "loops.nested_three_deep",
    "loops.while_two_slots",
    "composites.vec_carried_two_slots",
)


def compilation(name: str, direction: str) -> Compilation:
    """A case on its way to a program for a GPU."""
    case = CASES[name]
    types = Kernel(case.function).argument_types(*values(case))
    active = None if direction == "forward" else frozenset(range(len(types)))
    return Compilation(case.function, types, Variant(target="sm_90", active=active), **case.options)


def forward(name: str) -> Function:
    return compilation(name, "forward").fn


def adjoint(name: str) -> Function:
    return compilation(name, "adjoint").fn


@pytest.mark.parametrize("name", SHOWN)
def test_golden_source(name: str) -> None:
    """Set DIFFKERN_UPDATE_GOLDEN=1 to accept new text."""
    text = cuda_source(forward(name)) + "\n\n" + cuda_source(adjoint(name))
    path = GOLDEN / f"{name.partition('.')[2]}.txt"
    if os.environ.get("DIFFKERN_UPDATE_GOLDEN"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


def test_the_text_depends_on_the_function_alone() -> None:
    for name in SHOWN:
        assert cuda_source(adjoint(name)) == cuda_source(adjoint(name))


def numba_type(t: Type) -> Any:
    from numba import cuda

    scalar = scalar_of(t if isinstance(t, Array) else value_type(t))  # type: ignore[arg-type]
    element = getattr(cuda.types, {"bool": "boolean", "bfloat16": "uint16"}.get(scalar.name, scalar.name))
    if isinstance(t, Array):
        return cuda.types.Array(element, t.ndim + (not isinstance(t.dtype, Scalar)), "C")
    return element if isinstance(t, Scalar) else cuda.types.UniTuple(element, t.size)  # type: ignore[union-attr]


@pytest.fixture
def without_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    """Functions that a kernel calls are compiled for the current device, which a machine without one does not have."""
    import numba.cuda.dispatcher as dispatcher

    device = types.SimpleNamespace(compute_capability=(9, 0))
    monkeypatch.setattr(dispatcher, "get_current_device", lambda: device)


@pytest.mark.parametrize("make", [forward, adjoint])
@pytest.mark.parametrize("name", COMPILED)
@pytest.mark.usefixtures("without_driver")
def test_numba_cuda_compiles_it(name: str, make: Any) -> None:
    from numba import cuda

    fn = make(name)
    kernel = load_source(cuda_source(fn), function_name(fn))
    signature = (cuda.types.UniTuple(cuda.types.int64, 4), *(numba_type(p.type) for p in fn.params))
    code, _ = cuda.compile(kernel.py_func, signature, device=False, output="ltoir", abi="numba", cc=(9, 0))
    assert len(code) > 1000


@pytest.mark.parametrize("name", ["composites.spring_energy", "functions.powers", "memory.scatter_max"])
@pytest.mark.usefixtures("without_driver")
def test_exported_modules_become_cubins(name: str) -> None:
    from numba import cuda

    from diffkern.targets.cuda.toolchain import assemble

    case = CASES[name]
    text = export(Kernel(case.function), *values(case), adjoint=True)
    for fn in (forward(name), adjoint(name)):
        kernel = load_source(text, fn.name)
        signature = (cuda.types.UniTuple(cuda.types.int64, 4), *(numba_type(p.type) for p in fn.params))
        code, _ = cuda.compile(kernel.py_func, signature, device=False, output="ptx", abi="numba", cc=(9, 0))
        assert len(assemble(code, "sm_90", fn.name)) > 1000


def together(name: str) -> Function:
    kernel = BLOCKS[name].kernel
    return Compilation(kernel.func, kernel.argument_types()).forward


@pytest.mark.parametrize("name", sorted(BLOCKS))
@pytest.mark.usefixtures("without_driver")
def test_numba_cuda_compiles_kernels_whose_threads_work_together(name: str) -> None:
    test_numba_cuda_compiles_it(name, together)


def test_golden_source_with_shared_memory() -> None:
    text = cuda_source(together("sum_by_halves"))
    path = GOLDEN / "sum_by_halves.txt"
    if os.environ.get("DIFFKERN_UPDATE_GOLDEN"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


def test_every_primitive_has_a_device_function() -> None:
    from diffkern.targets.cuda import device_library

    elsewhere = {
        "Stack",
        "accumulate",
        "shape",
        "cast",
        "schedule",
        "block_dim",
        "thread_index",
        "block_index",
        "constant_array",
        "extent",
        "launched_over",
        "output",
        "shared_array",
        "syncthreads",
    }  # spelled by the kernel itself
    composites = {
        "vec", "mat", "extract", "insert", "cw_mul", "cw_div", "dot", "length_sq", "length", "normalize", "cross",
        "matmul", "matvec", "vecmat", "outer", "transpose", "trace", "determinant", "inverse", "quat_mul",
    }  # fmt: skip
    expanded = {"digamma", "polygamma"}  # into arithmetic
    modules = {
        "annotations", "builtins", "contextlib", "math", "np", "Any", "Callable", "Iterator", "Sequence",
        "launched_over",
    }  # fmt: skip
    for name in vars(prims):
        if name.startswith(("_", "atomic_")) or name in elsewhere | composites | modules | expanded:
            continue
        assert hasattr(device_library, name), name


def test_sums_and_atomics_are_those_of_the_plan() -> None:
    energy = cuda_source(forward("composites.spring_energy"))
    assert energy.count("cuda.atomic.add(energy, 0, energy_sum)") == energy.count("cuda.atomic.") == 1
    gradient = cuda_source(adjoint("composites.spring_energy"))
    assert gradient.count("cuda.atomic.add(ct_x,") == 6  # a gather: each end of a spring has three components
    assert "ct_rest[e] -= " in gradient
    assert "cuda.atomic.add(ct_rest" not in gradient
    assert "cuda.atomic" not in cuda_source(adjoint("memory.square_in_place"))
    assert "cuda.atomic.add(ct_x, (i, j), " in cuda_source(adjoint("memory.heat_2d"))  # neighbours meet


def test_a_kernel_prints_either_flavour() -> None:
    kernel = Kernel(CASES["memory.uniform_loss"].function)
    given = tuple(CASES["memory.uniform_loss"].make().values())
    assert "@cuda.jit" in kernel.source(*given, target="cuda")
    assert "@cuda.jit" in kernel.adjoint_source(*given, target="cuda")
    assert "cuda" not in kernel.source(*given).replace("cuda_", "")
    with pytest.raises(ValueError, match="'cpu' or 'cuda', not 'sm_90'"):
        kernel.source(*given, target="sm_90")  # type: ignore[arg-type]


def test_subscripts_say_whether_they_may_count_from_the_end() -> None:
    def indices(x: dk.array(dtype=float), y: dk.array(dtype=float), q: dk.array(dtype=int), n: int):  # type: ignore[valid-type]
        i, j = dk.tid()
        y[i - j] = x[-i] + x[i - 2] + x[i * j]
        m = i
        for k in range(n):
            m = m - j
            y[m] += x[k]
        q[i] = i
        x[x.shape[0] - i] = x[x.shape[0] - 1]

    text = Kernel(indices).source(target="cuda")
    # numba takes the difference of two unsigned integers for one that is not negative.
    assert "y[int64(i - j)] = x[int64(-i)] + x[i - 2] + x[i * j]" in text
    assert "cuda.atomic.add(y, m, x[at(k)])" in text
    assert "x[x.shape[0] - i] = x[x.shape[0] - 1]" in text
    # In one variable with signed integers of 32 bits an unsigned one would make it 64 bits wide.
    assert "m = int32(i)" in text
    assert "m = int32(m - j)" in text


def test_a_kernel_that_does_not_ask_for_its_index_counts_its_threads() -> None:
    def count(n: dk.array(dtype=int)):  # type: ignore[valid-type]
        dk.atomic_add(n, 0, 1)

    text = Kernel(count).source(target="cuda")
    assert "while thread < dim[0] * dim[1] * dim[2] * dim[3]:" in text
    assert "thread += cuda.gridsize(1)" in text


def test_what_a_user_assigns_to_an_index_is_another_variable() -> None:
    def shifted(x: dk.array(dtype=float)):  # type: ignore[valid-type]
        i = dk.tid()
        i = i + 1
        x[i] = 1.0

    text = Kernel(shifted).source(target="cuda")
    assert "x[at(i + 1)] = float32(1.0)" in text or "i_1 = int32(i + 1)" in text
    assert "i = index(i + cuda.gridsize(1))" in text


def test_floats_are_subtracted_by_addition() -> None:
    """numba-cuda would compare and swap."""
    assert "cuda.atomic.sub" not in cuda_source(forward("composites.spring_forces"))


@pytest.mark.parametrize("element", narrow_atomics.ELEMENTS, ids=str)
def test_atomics_that_numba_does_not_have_are_compiled(element: Any) -> None:
    types = Kernel(narrow_atomics.update).argument_types(*narrow_atomics.types(element))
    variant = Variant(target="sm_90", compiler="numba", may_alias=False)
    program = Compilation(narrow_atomics.update, types, variant).build("kernel")
    ptx = program.files["kernel.ptx"].decode()
    # Arrays that are updated are not read past the caches of other threads.
    assert ptx.count("ld.global.nc") == 1
    assert re.search(r"atom\.[\w.]*cas\.b", ptx)


def test_arrays_in_shared_memory_may_be_of_bfloat16() -> None:
    def halves(x: dk.array(dtype=dk.bfloat16), y: dk.array(dtype=dk.float16)):  # type: ignore[valid-type]
        i, t = dk.tid(), dk.thread_index()
        s, r = dk.shared_array(64, dk.bfloat16), dk.shared_array(64, dk.float16)
        s[t] = x[i]
        r[t] = y[i]
        dk.syncthreads()
        x[i] = s[63 - t] + r[t]

    kernel = Kernel(halves)
    text = kernel.source(target="cuda")
    assert "cuda.shared.array(64, uint16)" in text
    assert "cuda.shared.array(64, float16)" in text
    assert "x[i] = to_bfloat16(from_bfloat16(s[63 - t]) + float32(r[t]))" in text
    assert dk.compile(kernel, target="sm_90", compiler="numba").ptx


def test_the_adjoint_is_printed_with_the_memory_of_a_gpu() -> None:
    kernel = Kernel(CASES["loops.product"].function)
    given = tuple(CASES["loops.product"].make().values())
    assert "cuda.local.array(128, float32)" in kernel.adjoint_source(*given, target="cuda")
    assert "cuda.local" not in kernel.source(*given, target="cuda")
