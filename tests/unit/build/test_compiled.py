"""``dk.compile`` with a target: an object that shows what became of a kernel. GPU programs need no GPU."""

from __future__ import annotations

import platform

import pytest
from conftest import require

import diffkern as dk
from diffkern.cache.maintenance import artifacts
from diffkern.compiler import specialize, stores
from diffkern.compiler.specialize import Specialization, load_entry
from diffkern.shipping import ship
from diffkern.targets.cuda import cubin

require("cuda.bindings.nvjitlink", "nvidia")


@dk.kernel
def scale(x: dk.array(dtype=float), y: dk.array(dtype=float), a: float):
    i = dk.tid()
    y[i] = a * x[i] * x[i]


@dk.kernel
def free(x, y, a):
    i = dk.tid()
    y[i] = a * x[i]


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setattr(dk.config, "cache_dir", tmp_path / "cache")
    monkeypatch.setattr(specialize, "_entries", {})
    monkeypatch.setattr(stores, "_directories", [])
    return tmp_path / "cache"


def test_a_gpu_program():
    made = dk.compile(scale, target="sm_90")
    assert (made.kernel, made.target, made.adjoint) == ("scale", "sm_90", False)
    assert made.cubin[:4] == b"\x7fELF"
    assert cubin.architecture(made.cubin) == "sm_90"
    assert f".entry {made.symbol}" in made.ptx
    assert made.symbol.startswith("scale_forward_")
    assert "LDG" in made.sass
    assert sum(n for name, n in made.instructions.items() if name.startswith("STG")) == 1
    assert sum(n for name, n in made.instructions.items() if name.startswith("FMUL")) == 2
    assert 4 <= made.registers <= 40
    assert (made.spill_bytes, made.stack_bytes, made.shared_bytes) == (0, 0, 0)
    assert made.compile_seconds > 0
    assert "def scale" in made.source
    with pytest.raises(AttributeError, match="sm_90 has no asm"):
        _ = made.asm


def test_its_adjoint():
    made = dk.compile(scale, target="sm_80", adjoint=True)
    assert made.adjoint
    assert "adjoint" in made.symbol
    assert made.code.count("load") == 3  # x, ct_y, ct_x
    assert made.code.count("store") == 2  # ct_x, ct_y set to 0
    assert made.code.count("atomic") == 0
    with_a = dk.compile(scale, target="sm_80", adjoint=True, active=["x", "y", "a"])
    assert with_a.code.count("atomic") >= 1


def test_types_and_options():
    floats = dk.array(dtype=float)
    types = (floats, floats, float)
    by_name = dk.compile(free, args=types, target="sm_75")
    assert dk.compile(free, types, target="sm_75").cubin == by_name.cubin
    assert dk.compile((free, *types), target="sm_75").cubin == by_name.cubin
    slow, fast = (dk.compile(sine, target="sm_75", fast_math=f) for f in (False, True))
    assert sum(fast.instructions.values()) < sum(slow.instructions.values())


@dk.kernel
def sine(x: dk.array(dtype=float)):
    i = dk.tid()
    x[i] = dk.sin(x[i]) / x[i]


def test_a_cpu_program():
    made = dk.compile(scale, target="cpu")
    assert made.target == "cpu"
    assert made.symbol in made.asm
    assert "ret" in " ".join(made.instructions)
    assert made.registers > 0
    assert made.shared_bytes == 0
    for name in ("cubin", "ptx", "sass"):
        with pytest.raises(AttributeError, match=f"cpu has no {name}"):
            getattr(made, name)
    level = dk.compile(scale, target="x86-64-v2", adjoint=True)
    assert "ymm" not in level.asm


@dk.kernel
def alone(x: dk.array(dtype=float)):
    x[0] = 2.0 * x[0]


@dk.kernel(lanes=False)
def crowded(x: dk.array(dtype=float, ndim=2), n: int):
    i = dk.tid()
    total = dk.vector(length=40, dtype=float)
    for k in range(40):
        total[k] = x[i, k]
    for _ in range(n):
        for k in range(40):
            total[k] = total[k] * total[(k + 7) % 40] + 1.0
    for k in range(40):
        x[i, k] = total[k]


def test_spilled_bytes_of_a_processor_are_those_of_its_code():
    assert dk.compile(alone, target="cpu").spill_bytes == 0
    made = dk.compile(crowded, target="x86-64-v2" if "x86" in platform.machine() else "cpu")
    assert made.spill_bytes >= 40  # 40 sums in 16 registers (32 on others), and the products beside them
    assert not any(" # " in line or "Spill" in line for line in made._lines)
    assert "# " not in "".join(made.instructions)


def test_mistakes():
    with pytest.raises(TypeError, match=r"no option 'fastmath'; there are .*fast_math"):
        dk.compile(scale, target="sm_90", fastmath=True)
    with pytest.raises(TypeError, match="one kernel, not 2"):
        dk.compile(scale, free, target="sm_90")
    with pytest.raises(TypeError, match="takes kernels"):
        dk.compile(target="sm_90")
    with pytest.raises(TypeError, match="without a target"):
        dk.compile(scale, fast_math=True)
    with pytest.raises(TypeError, match="processes and progress"):
        dk.compile(scale, target="sm_90", processes=2)
    with pytest.raises(dk.CompileError, match="no CUDA target 'sm_91'"):
        dk.compile(scale, target="sm_91")
    with pytest.raises(dk.KernelError, match="has no adjoint"):
        dk.compile(dk.kernel(scale.func, enable_backward=False), target="sm_90", adjoint=True)


def test_the_cache_holds_cubin_and_ptx(cache, monkeypatch):
    made = dk.compile(scale, target="sm_90")
    (artifact,) = artifacts(cache)
    assert artifact.target == "sm_90"
    assert {path.name for path in artifact.place.iterdir()} == {
        "kernel.cubin",
        "kernel.ptx",
        "manifest.json",
        "source.py",
    }
    assert {"nvidia_nvjitlink", "nvidia_nvvm", "llvmlite"} <= set(artifact.ingredients)
    assert "numba" not in artifact.ingredients
    monkeypatch.setattr(specialize, "_entries", {})
    monkeypatch.setattr(specialize, "build_entry", lambda *_: pytest.fail("compiled again"))
    assert dk.compile(scale, target="sm_90").cubin == made.cubin


def test_another_version_of_a_compiler_is_another_key(monkeypatch):
    fields = Specialization(scale.func, scale.argument_types()).fields()
    before = specialize.artifact_key(fields, "sm_90")
    specialize._target_fields.cache_clear()
    monkeypatch.setattr(specialize, "distribution_versions", lambda names: tuple((n, "99") for n in names))
    after = specialize.artifact_key(fields, "sm_90")
    specialize._target_fields.cache_clear()
    assert before != after
    assert specialize.artifact_key(fields, "sm_90", shipped=True) not in (before, after)


@pytest.mark.parametrize(
    ("device", "expected"), [("sm_80", "sm_80"), ("sm_86", "sm_86"), ("sm_89", "sm_86"), ("sm_90", "sm_90")]
)
def test_a_shipped_directory_serves_the_architectures_it_can(tmp_path, monkeypatch, device, expected):
    out = tmp_path / "out"
    ship.compile_ahead([scale], ["sm_80", "sm_86", "sm_90"], out, adjoint=False, processes=1)
    library = dk.load(out)
    assert library.targets == ("sm_80", "sm_86", "sm_90")
    monkeypatch.setattr(specialize, "build_entry", lambda *_: pytest.fail("compiled"))
    monkeypatch.setattr(specialize, "distribution_versions", lambda names: tuple((n, "none") for n in names))
    specialize._target_fields.cache_clear()
    shipped = Specialization(scale.func, scale.argument_types())
    entry = load_entry(shipped.for_arrays_apart(), device)
    assert load_entry(shipped, device).manifest.title == f"{entry.manifest.title}, arrays may overlap"
    specialize._target_fields.cache_clear()
    assert entry.manifest.target == expected
    assert cubin.architecture(entry.object_code) == expected


def test_a_gpu_program_is_the_one_of_usual_launches():
    made, careful = dk.compile(scale, target="sm_90"), dk.compile(scale, target="sm_90", may_alias=True)
    assert (made.may_alias, careful.may_alias) == (False, True)
    assert "LDG.E.CONSTANT" in made.sass
    assert "LDG.E.CONSTANT" not in careful.sass
    launched = Specialization(scale.func, scale.argument_types()).for_arrays_apart()
    assert load_entry(launched, "sm_90").object_code == made.cubin
    assert dk.compile(scale, target="cpu", may_alias=True).object_code == dk.compile(scale, target="cpu").object_code


def test_no_shipped_program_of_another_major_version_or_a_later_minor_one(tmp_path):
    out = tmp_path / "out"
    ship.compile_ahead([scale], ["sm_86", "sm_90"], out, adjoint=False, processes=1)
    dk.load(out)
    for device in ("sm_75", "sm_80", "sm_100"):
        entry = load_entry(Specialization(scale.func, scale.argument_types()), device)
        assert entry.manifest.target == device
