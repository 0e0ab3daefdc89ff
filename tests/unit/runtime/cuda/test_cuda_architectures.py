"""Which code a GPU gets: its own, the nearest that runs, or PTX; and which drivers get none."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest
from conftest import require
from runtime_cuda_kernels import square
from support.fake_driver.driver import FakeDriver, fake_cuda

import diffkern as dk
from diffkern.cache.manifest import StoredArtifact
from diffkern.compiler import specialize, stores
from diffkern.compiler.specialize import Specialization, load_entry
from diffkern.contracts.platforms import ARCHITECTURES, platform_named
from diffkern.errors import CompileError
from diffkern.runtime.cuda.images import images, nearest
from diffkern.targets.cuda import toolchain
from diffkern.targets.cuda.cubin import architecture

require("cuda.bindings.nvjitlink", "nvidia")


@dk.kernel
def doubled(x: dk.array(dtype=float), y: dk.array(dtype=float)):
    i = dk.tid()
    y[i] = 2.0 * dk.sin(x[i])


def launched(driver: FakeDriver) -> list[str]:
    """Launch a kernel; return what was loaded for it: an architecture, or ``ptx``."""
    driver.calls.clear()
    x = dk.ones(4, device="cuda:0")
    dk.launch(doubled, 4, inputs=[x, dk.zeros_like(x)])
    dk.synchronize()
    assert len(driver.launches) == 1
    images = [args[0] for name, args in driver.calls if name == "load_module"]
    return [architecture(image) if image[:4] == b"\x7fELF" else "ptx" for image in images]


@pytest.mark.parametrize("number", ARCHITECTURES)
def test_every_architecture_has_code_of_its_own(number: int) -> None:
    target = f"sm_{number}"
    assert nearest(number) == target
    made = dk.compile(doubled, target=target)
    assert architecture(made.cubin) == target
    (given,) = re.findall(r"\.target sm_(\d+)", made.ptx)
    assert int(given) <= number


def test_what_can_be_compiled_for_is_one_table() -> None:
    for number in ARCHITECTURES:
        toolchain.machine(f"sm_{number}")
    assert {f"sm_{n}" for n in ARCHITECTURES} == {*toolchain._FEATURES, *toolchain._BASES}
    with pytest.raises(CompileError, match="there is no CUDA target 'sm_70'") as info:
        dk.compile(doubled, target="sm_70")
    assert "sm_121" in str(info.value)


@pytest.mark.parametrize(
    ("device", "target", "loaded"),
    [
        ("sm_75", "sm_75", ["sm_75"]),
        ("sm_87", "sm_87", ["sm_87"]),
        ("sm_88", "sm_88", ["sm_88"]),
        ("sm_103", "sm_103", ["sm_103"]),
        ("sm_110", "sm_110", ["sm_110"]),
        ("sm_121", "sm_121", ["sm_121"]),
        # Of the same major version: machine code of a lesser one.
        ("sm_106", "sm_103", ["sm_103"]),
        ("sm_125", "sm_121", ["sm_121"]),
        # Of a later one: the driver compiles.
        ("sm_130", "sm_121", ["ptx"]),
        ("sm_200", "sm_121", ["ptx"]),
        # A system on a chip that is not known runs no other machine code, as the driver says.
        ("sm_101", "sm_100", ["sm_100", "ptx"]),
    ],
)
def test_the_nearest_that_runs(device: str, target: str, loaded: list[str]) -> None:
    with fake_cuda(target=device) as driver:
        assert dk.get_device("cuda:0").target == target
        assert launched(driver) == loaded


def test_the_machine_code_of_a_chip_is_for_that_chip() -> None:
    assert "sm_87" not in platform_named("sm_89").runs()
    assert platform_named("sm_87").runs() == ["sm_87"]
    assert platform_named("sm_87").translated() == ["sm_86", "sm_80", "sm_75"]


@pytest.mark.parametrize(
    ("arch", "version", "loaded"),
    [
        ("sm_90", 13000, ["sm_90"]),
        ("sm_90", 13050, ["sm_90"]),
        ("sm_90", 12090, ["ptx"]),
        ("sm_90", 12010, ["ptx"]),
        ("sm_100", 12080, ["ptx"]),
        ("sm_120", 12080, ["ptx"]),
    ],
)
def test_drivers_of_cuda_12_compile_the_ptx(arch: str, version: int, loaded: list[str]) -> None:
    with fake_cuda(target=arch, version=version) as driver:
        assert launched(driver) == loaded


def test_drivers_that_know_too_little_are_refused_before_the_launch() -> None:
    with fake_cuda(target="sm_120", version=12040) as driver:
        with pytest.raises(dk.CudaError, match=r"forward of doubled.*supports CUDA 12\.4.*needs CUDA 12\.8") as info:
            launched(driver)
        assert "install an NVIDIA driver for CUDA 13 (release 580 or later)" in str(info.value)
        assert "load_module" not in driver.names()
    for version in (11080, 12000):
        with fake_cuda(version=version) as driver:
            with pytest.raises(dk.CudaError, match=r"supports CUDA 1\d\.\d, and diffkern needs CUDA 12\.1") as info:
                dk.zeros(4, device="cuda:0")
            assert "release 580" in str(info.value)
            assert driver.calls == []


def test_gpus_that_are_too_old_are_named() -> None:
    with fake_cuda(target="sm_70") as driver:
        assert dk.get_device("cuda:0").arch == 70
        with pytest.raises(dk.CudaError, match=r"fake GPU 0\) has compute capability 7\.0, and diffkern needs 7\.5"):
            dk.zeros(4, device="cuda:0")
        assert driver.calls == []


def program(target: str = "sm_90") -> StoredArtifact:
    return load_entry(Specialization(square.func, square.argument_types()), target)


def test_ptx_that_a_driver_does_not_know_is_not_tried() -> None:
    made = program()
    newer = re.sub(rb"\.version \d\.\d", b".version 9.2", made.more["kernel.ptx"])
    given = dataclasses.replace(made, more={"kernel.ptx": newer})
    assert images(given, 90, 13000) == [made.object_code]
    assert images(given, 90, 13020) == [made.object_code, newer + b"\0"]
    with pytest.raises(dk.CudaError, match=r"supports CUDA 13\.0.*CUDA 13\.2 to be compiled for .* 13\.0"):
        images(given, 130, 13000)
    with pytest.raises(dk.CudaError, match=r"supports CUDA 12\.9, and this program needs CUDA 13\.0"):
        images(given, 90, 12090)


def test_other_failures_of_loading_are_not_covered_up() -> None:
    with fake_cuda(target="sm_90") as driver:
        driver.fail("load_module", code=2)
        with pytest.raises(dk.CudaError, match="OUT_OF_MEMORY"):
            launched(driver)
        driver.fail("load_module", code=209)
        driver.fail("load_module", code=222)
        with pytest.raises(dk.CudaError, match="UNSUPPORTED_PTX_VERSION"):
            launched(driver)


def test_shipped_ptx_serves_where_nothing_can_be_compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from diffkern.shipping.ship import compile_ahead, load_directory

    compile_ahead([doubled], ["sm_80"], tmp_path / "shipped", adjoint=False, processes=1, progress=False)
    monkeypatch.setenv("DIFFKERN_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(specialize, "_entries", {})

    def missing(*_: object) -> StoredArtifact:
        raise CompileError("the CUDA compilers are not installed")

    monkeypatch.setattr(stores, "_directories", [])
    load_directory(tmp_path / "shipped")
    with fake_cuda(target="sm_120") as driver, monkeypatch.context() as patched:
        patched.setattr(specialize, "build_entry", missing)
        assert launched(driver) == ["ptx"]
    # Where there are compilers, they do better.
    monkeypatch.setattr(specialize, "_entries", {})
    with fake_cuda(target="sm_120") as driver:
        assert launched(driver) == ["sm_120"]
