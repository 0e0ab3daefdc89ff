"""The processor that kernels are compiled for is numba's, whether numba is imported for that or not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from diffkern.targets.cpu.numba_target import NumbaTarget, _may_lose_avx

_COMPARE = """
import sys
from diffkern.targets.cpu.numba_target import numba_target
{before}
found = numba_target()
imported = "numba" in sys.modules
from numba.core.registry import cpu_target
assert found == tuple(cpu_target.target_context.codegen().magic_tuple()), found
assert found == numba_target()
print(imported, found.cpu)
"""


def _said(folder: Path, before: str = "", **settings: str) -> list[str]:
    """Return whether a process has imported numba, and the processor, which is numba's."""
    root = Path(__file__).parents[3]
    code = _COMPARE.format(before=before)
    environment = {"PATH": "", "PYTHONPATH": str(root), **settings}
    command = [sys.executable, "-W", "ignore", "-c", code]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_it_is_numbas_without_numba(tmp_path: Path) -> None:
    imported, cpu = _said(tmp_path)
    from llvmlite import binding as llvm

    assert cpu == llvm.get_host_cpu_name()
    features = llvm.get_host_cpu_features()
    older = features.get("avx", False) and not features.get("avx2", False)
    assert (imported == "True") == (older or (features.get("avx", False) and cpu in ("nocona", "x86-64")))


@pytest.mark.parametrize(
    ("settings", "before", "cpu"),
    [
        ({"NUMBA_CPU_NAME": "generic"}, "", "generic"),
        ({"NUMBA_CPU_FEATURES": ""}, "", None),
        ({"NUMBA_ENABLE_AVX": "0"}, "", None),
        ({}, "import numba; numba.config.CPU_NAME = 'generic'", "generic"),
        ({}, "open('.numba_config.yaml', 'w').close()", None),
    ],
    ids=["name", "features", "avx", "config", "file"],
)
def test_it_is_what_numba_has_been_told(tmp_path: Path, settings: dict[str, str], before: str, cpu: str | None) -> None:
    imported, found = _said(tmp_path, before, **settings)
    assert imported == "True"
    assert cpu in (None, found)


@pytest.mark.parametrize(
    ("cpu", "features", "may"),
    [
        ("sandybridge", "+avx,-avx2,+sse2", True),
        ("ivybridge", "+avx,+f16c", True),
        ("nocona", "+avx,+avx2", True),
        ("x86-64", "+avx,+avx2,+avx512f", True),
        ("haswell", "+avx,+avx2", False),
        ("znver5", "+avx,+avx2,+avx512f", False),
        ("nehalem", "-avx,-avx2,+sse4.2", False),
        ("nocona", "-avx", False),
        ("apple-m1", "+neon,+fp-armv8", False),
        ("generic", "", False),
    ],
)
def test_processors_on_which_numba_may_not_use_avx(cpu: str, features: str, may: bool) -> None:
    assert _may_lose_avx(NumbaTarget("", cpu, features)) is may
