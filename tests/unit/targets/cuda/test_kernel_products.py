"""Which products kernels have made and linked: only those that are wanted, each once.

Instead of libmathdx a stand-in makes code, so that it costs nothing to count; the real one is in the last test.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from conftest import require
from support.fake_driver.driver import fake_cuda

import diffkern as dk
from diffkern.cache import environment
from diffkern.compiler import products, specialize
from diffkern.runtime.launch import module_options
from diffkern.shipping.ship import compile_ahead
from diffkern.targets.cuda import toolchain
from diffkern.targets.cuda.mathdx import Product
from diffkern.targets.numba_cuda.compiler import COMPILED_FOR

require("cuda.bindings.nvjitlink", "nvidia", "numba_cuda")

T = 16
FORWARD = Product(T, T, T, "float16", "float16", "float32", threads=32, arch="sm_90")
OF_A = replace(FORWARD, a="tf32", b="tf32", columns_b=True)
OF_B = replace(FORWARD, a="tf32", b="tf32", columns_a=True)
half = dk.array(dtype=dk.float16, ndim=2)
f2 = dk.array(dtype=float, ndim=2)
double = dk.array(dtype=dk.float64, ndim=2)


def product(a: half, b: half, c: f2):
    i, j = dk.tid()
    total = dk.tile_zeros(shape=(T, T), dtype=float)
    for k in range(a.shape[1] // T):
        x = dk.tile_load(a, shape=(T, T), offset=(i * T, k * T))
        y = dk.tile_load(b, shape=(T, T), offset=(k * T, j * T))
        dk.tile_matmul(x, y, total)
    dk.tile_store(c, total, offset=(i * T, j * T))


NOTHING = """\
target triple = "nvptx64-nvidia-cuda"
target datalayout = "e-p:64:64:64-i1:8:8-i8:8:8-i16:16:16-i32:32:32-i64:64:64-i128:128:128-f32:32:32-f64:64:64-\
v16:16:16-v32:32:32-v64:64:64-v128:128:128-n16:32:64"
define void @{symbol}(i8* %a, i8* %b, i8* %c, i8* %d, i8* %e) {{
  ret void
}}
@llvm.used = appending global [1 x i8*]
  [i8* bitcast (void (i8*, i8*, i8*, i8*, i8*)* @{symbol} to i8*)], section "llvm.metadata"
!nvvmir.version = !{{!0}}
!0 = !{{i32 2, i32 0, i32 3, i32 1}}
"""


@functools.cache
def stand_in(p: Product) -> bytes:
    """Code that defines the function of a product, which does nothing."""
    return toolchain.lto_code([NOTHING.format(symbol=p.symbol)], p.symbol, COMPILED_FOR)


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Product]]:
    """An empty cache, and the products that are made for it."""
    asked: list[Product] = []

    def command(p: Product) -> list[str]:
        asked.append(p)
        code = tmp_path / p.symbol
        code.write_bytes(stand_in(p))
        write = f"import sys; sys.stdout.buffer.write(open({str(code)!r}, 'rb').read())"
        return [sys.executable, "-S", "-c", write]

    monkeypatch.setattr(products, "_command", command)
    monkeypatch.setattr(specialize, "_entries", {})
    before = dk.config.cache_dir, products.generated()
    dk.config.cache_dir = tmp_path / "cache"
    yield asked
    assert products.generated() - before[1] == len(asked)
    dk.config.cache_dir = before[0]
    dk.config.enable_mathdx_gemm, dk.config.enable_backward = False, True
    module_options._options.pop(__name__, None)


def compiled(kernel: dk.Kernel, active: str | None = None, **options: Any) -> Any:
    own = {"block_dim": 32, "enable_mathdx_gemm": True, **options}
    if active is None:
        return dk.compile(kernel, target="sm_90", **own)
    return dk.compile(kernel, target="sm_90", adjoint=True, active=active.split(), **own)


@pytest.mark.parametrize(
    ("active", "wanted"),
    [(None, [FORWARD]), ("a b c", [OF_A, OF_B]), ("a c", [OF_A]), ("b c", [OF_B])],
    ids=["forward", "both", "B inactive", "A inactive"],
)
@pytest.mark.parametrize("compiler", ["llvm", "numba"])
def test_products_are_those_that_are_wanted(
    made: list[Product], compiler: str, active: str | None, wanted: list[Product]
) -> None:
    require("numba_cuda")
    program = compiled(dk.kernel(product), active, compiler=compiler)
    assert set(made) == set(wanted)
    assert set(program.manifest.resources.products) == {p.symbol for p in wanted}
    assert (program.manifest.block_dim, program.manifest.block_dim_fixed) == (32, True)
    calls = [line for line in program.sass.splitlines() if "CALL" in line]
    # Numba divides integers of 64 bits, for which the assembler has a function.
    assert all(compiler == "numba" and "__cuda_sm20_div_s64" in line for line in calls)
    assert toolchain.assemble(program.ptx, "sm_90", program.symbol) == program.cubin


@pytest.mark.parametrize("who", ["kernel", "module", "config"])
def test_without_backward_there_is_one_product(made: list[Product], tmp_path: Path, who: str) -> None:
    kernel = dk.kernel(product, enable_mathdx_gemm=True, enable_backward=False if who == "kernel" else None)
    if who == "module":
        dk.set_module_options({"enable_backward": False}, sys.modules[__name__])
    dk.config.enable_backward = who != "config"
    with pytest.raises(dk.CompileError, match="has no adjoint"):
        compiled(kernel, "a b c")
    if who == "kernel":
        count = compile_ahead([kernel], ["sm_90"], tmp_path / "out", programs="least", block_dim=32, processes=1)
        assert (count, made) == (1, [FORWARD])
    assert made == ([FORWARD] if who == "kernel" else [])


def test_kernels_share_products(made: list[Product]) -> None:
    @dk.kernel
    def twice(a: half, b: half, c: f2):
        x, y = dk.tile_load(a, shape=(T, T)), dk.tile_load(b, shape=(T, T))
        total = dk.tile_zeros(shape=(T, T), dtype=float)
        dk.tile_matmul(x, y, total)
        dk.tile_matmul(x, y, total)
        dk.tile_store(c, total)

    for kernel in (dk.kernel(product), twice):
        assert compiled(kernel).manifest.resources.products == (FORWARD.symbol,)
    assert made == [FORWARD]


@pytest.mark.parametrize("own", [None, True, False])
@pytest.mark.parametrize("module", [None, True, False])
@pytest.mark.parametrize("everywhere", [None, True, False])
def test_the_nearest_says_it(made: list[Product], own: bool | None, module: bool | None, everywhere: bool) -> None:
    dk.config.enable_mathdx_gemm = everywhere
    if module is not None:
        dk.set_module_options({"enable_mathdx_gemm": module}, sys.modules[__name__])
    kernel = dk.kernel(product, enable_mathdx_gemm=own)
    assert kernel.enable_mathdx_gemm is next((x for x in (own, module) if x is not None), everywhere)


def test_a_kernel_s_programs_are_chosen_anew_when_it_is_said(made: list[Product]) -> None:
    kernel = dk.kernel(product)
    for change in (
        lambda: setattr(dk.config, "enable_mathdx_gemm", True),
        lambda: dk.set_module_options({"enable_mathdx_gemm": True}, sys.modules[__name__]),
    ):
        kernel.programs[()] = None  # type: ignore[index, assignment]
        change()
        assert kernel.programs == {}
    with pytest.raises(ValueError, match="True, False or None"):
        dk.config.enable_mathdx_gemm = 1  # type: ignore[assignment]


def test_loops_can_be_chosen(made: list[Product]) -> None:
    program = compiled(dk.kernel(product), enable_mathdx_gemm=False)
    assert (made, program.manifest.resources.products, program.manifest.block_dim_fixed) == ([], (), False)


def test_a_product_that_has_to_be_the_library_s_and_is_not_is_an_error(made: list[Product]) -> None:
    with pytest.raises(dk.CompileError, match="whole warps"):
        compiled(dk.kernel(product), block_dim=48)


def test_a_sum_that_the_library_does_not_have_is_an_error_where_it_has_to_be_the_library_s(made: list[Product]) -> None:
    def rounded(a: double, b: double, c: f2):
        total = dk.tile_zeros(shape=(T, T), dtype=float)
        dk.tile_matmul(dk.tile_load(a, shape=(T, T)), dk.tile_load(b, shape=(T, T)), total)
        dk.tile_store(c, total)

    with pytest.raises(dk.CompileError, match=r"(?s)summed in float32.*sum in float64"):
        compiled(dk.kernel(rounded))
    assert compiled(dk.kernel(rounded), enable_mathdx_gemm=False).manifest.resources.products == ()
    assert made == []


@pytest.mark.parametrize("block_dim", [32, 48])
def test_products_are_the_library_s_where_it_can(
    made: list[Product], monkeypatch: pytest.MonkeyPatch, block_dim: int
) -> None:
    monkeypatch.setattr(specialize, "has_mathdx", lambda: True)
    dk.config.enable_mathdx_gemm = None
    program = dk.compile(dk.kernel(product), target="sm_90", block_dim=block_dim)
    assert len(program.manifest.resources.products) == len(made) == (1 if block_dim == 32 else 0)


@pytest.mark.parametrize(("arch", "mode"), [("sm_80", "release"), ("sm_100", "debug")])
def test_products_stand_beside_everything_else(made: list[Product], arch: str, mode: str) -> None:
    @dk.kernel
    def much(a: half, c: f2, total: dk.array(dtype=float), count: dk.array(dtype=dk.int16)):
        i = dk.tid()
        x = dk.tile_load(a, shape=(T, T), offset=(i * T, 0))
        y = dk.tile_scan_inclusive(dk.tile_astype(x @ dk.tile_transpose(x), dtype=float))
        dk.tile_atomic_add(c, y)
        total[0] += dk.tile_sum(y)[0]
        dk.atomic_add(count, 0, dk.int16(1))
        dk.tile_store(a, dk.tile_astype(dk.tile_map(dk.exp, y), dtype=dk.float16), offset=(i * T, 0))

    program = dk.compile(much, target=arch, mode=mode, block_dim=64, enable_mathdx_gemm=True)
    assert made == [replace(FORWARD, threads=64, arch=arch, columns_b=True)]
    assert program.manifest.resources.products == (made[0].symbol,)


def test_kernels_without_products_of_tiles_are_for_any_block(made: list[Product]) -> None:
    @dk.kernel
    def rotated(m: dk.array(dtype=dk.mat22), v: dk.array(dtype=dk.vec2)):
        i = dk.tid()
        v[i] = m[i] @ v[i]

    programs = [compiled(rotated, block_dim=n) for n in (32, 64)]
    assert programs[0].symbol == programs[1].symbol
    assert not programs[0].manifest.block_dim_fixed


def test_launches_choose_the_program_by_their_block(made: list[Product]) -> None:
    kernel = dk.kernel(product, enable_mathdx_gemm=True)
    with fake_cuda(target="sm_90") as driver:
        a, b = (dk.zeros((T, T), dtype=dk.float16, device="cuda:0") for _ in range(2))
        c = dk.zeros((T, T), dtype=float, device="cuda:0")
        for threads in (32, 64, 32):
            dk.launch_tiled(kernel, dim=(1, 1), inputs=[a, b], outputs=[c], block_dim=threads)
        with dk.Tape() as tape:
            a.requires_grad = c.requires_grad = True
            dk.launch_tiled(kernel, dim=(1, 1), inputs=[a, b], outputs=[c], block_dim=64)
        tape.backward(grads={c: dk.ones((T, T), dtype=float, device="cuda:0")})
        dk.synchronize()
        found = [launched.threads for launched in driver.launches]
    assert [n for n in found if n in (32, 64)] == [32, 64, 32, 64, 64]
    assert made == [FORWARD, replace(FORWARD, threads=64), replace(OF_A, threads=64)]


def test_the_installed_compiler_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DIFFKERN_NVRTC", raising=False)

    def found(library: str, compiler: str) -> bool:
        versions = (("nvidia_libmathdx_cu13", library), ("nvidia_cuda_nvrtc", compiler))
        monkeypatch.setattr(environment, "distribution_versions", lambda names: versions)
        return environment.has_mathdx()

    assert [found("0.4.1", v) for v in ("13.4.37", "13.5.1", "none")] == [True, False, False]
    assert [found("none", "13.4.37"), found("0.5.0", "13.5.1")] == [False, True]
    monkeypatch.setenv("DIFFKERN_NVRTC", "libnvrtc.so")
    assert [found("0.4.1", "13.5.1"), found("none", "13.5.1")] == [True, False]
