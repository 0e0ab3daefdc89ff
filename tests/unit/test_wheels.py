"""NVIDIA's wheels are found where Python finds them, and what was asked for and is not there is an error."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from conftest import require

import diffkern
from diffkern.errors import CompileError
from diffkern.process import wheels
from diffkern.targets.cuda import toolchain

require("cuda.bindings.nvjitlink", "nvidia")

posix_only = pytest.mark.skipif(sys.platform != "linux", reason="links and shared libraries of Linux")
PACKAGES = str(Path(diffkern.__file__).parents[1])


def unpacked(folder: Path, without: str = "-no-such-wheel-") -> Path:
    """A folder as ``pip install --target`` makes it, of links to what is installed here; without one of the wheels."""
    folder.mkdir()
    site = Path(sysconfig.get_paths()["purelib"])
    for entry in site.iterdir():
        if entry.name != "nvidia" and without not in entry.name.lower():
            (folder / entry.name).symlink_to(entry)
    for name in wheels._WHEELS:
        for file in (site / "nvidia").rglob(name):
            # The compiler for products finds its other half beside itself.
            for part in (file, *file.parent.glob("libnvrtc-builtins.*")):
                link = folder / part.relative_to(site)
                if without not in part.name.lower() and not link.exists():
                    link.parent.mkdir(parents=True, exist_ok=True)
                    link.symlink_to(part)
    return folder


PROGRAM = """
import sys
import diffkern as dk
from diffkern.process import wheels
from diffkern.targets.cuda import disassembler, libdevice, mathdx

assert not [p for p in sys.path if p.startswith(sys.argv[2])], sys.path

@dk.kernel
def sine(x: dk.array(dtype=float), y: dk.array(dtype=float)):
    y[dk.tid()] = dk.sin(x[dk.tid()])

made = dk.compile(sine, target="sm_90")
linked = dk.compile(sine, target="sm_90", compiler="numba")
assert len(libdevice.bitcode()) > 100_000 and len(made.cubin) > 1000 and len(linked.cubin) > 1000
assert "EXIT" in made.sass
if sys.argv[3] == "mathdx":
    assert mathdx.version().count(".") == 2 and mathdx.nvrtc_version()[0] >= 12
for name in wheels._WHEELS:
    place = wheels.find(name)
    if place is not None:
        print(name, str(place).startswith(sys.argv[1]))
"""


def run(code: str, folder: Path, tmp_path: Path, *arguments: str, way: str = "PYTHONPATH") -> str:
    """Run a program that finds packages in a folder alone."""
    path = tmp_path / "program.py"
    path.write_text(code)
    dropped = ("CUDA_HOME", "CUDA_PATH", "LD_LIBRARY_PATH", "PYTHONPATH")
    env = {k: v for k, v in os.environ.items() if k not in dropped}
    env["DIFFKERN_CACHE_DIR"] = str(tmp_path / "cache")
    start = "import runpy, sys; sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')"
    if way == "PYTHONPATH":
        env["PYTHONPATH"] = os.pathsep.join([PACKAGES, str(folder)])
    else:
        start = f"import sys; sys.path += [{PACKAGES!r}, {str(folder)!r}]; {start}"
    done = subprocess.run(
        [sys.executable, "-S", "-c", start, path, folder, sysconfig.get_paths()["purelib"], *arguments],
        env=env, cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


@posix_only
@pytest.mark.parametrize("way", ["PYTHONPATH", "sys.path"])
def test_wheels_elsewhere_are_found(tmp_path: Path, way: str) -> None:
    folder = unpacked(tmp_path / "target")
    mathdx = "mathdx" if wheels.find("libmathdx.so.*") and wheels.find("libnvrtc.so.*") else "none"
    found = dict(line.split() for line in run(PROGRAM, folder, tmp_path, mathdx, way=way).splitlines())
    assert {"libnvJitLink.so.*", "libnvvm.so.*", "libdevice.10.bc"} <= found.keys()
    assert set(found.values()) == {"True"}


PRODUCT = """
import diffkern as dk

f2 = dk.array(dtype=float, ndim=2)

@dk.kernel(block_dim=32, enable_mathdx_gemm=True)
def product(a: f2, b: f2, c: f2):
    x = dk.tile_load(a, shape=(16, 16))
    y = dk.tile_load(b, shape=(16, 16))
    dk.tile_store(c, dk.tile_matmul(x, y))

try:
    dk.compile(product, target="sm_90")
except dk.CompileError as error:
    print(error)
"""


@posix_only
def test_a_product_that_is_asked_for_needs_its_library(tmp_path: Path) -> None:
    folder = unpacked(tmp_path / "target", without="mathdx")
    said = run(PRODUCT, folder, tmp_path)
    assert "libmathdx is not installed" in said
    assert 'pip install "diffkern[tiles]"' in said


@posix_only
def test_a_missing_linker_is_named(tmp_path: Path) -> None:
    folder = unpacked(tmp_path / "target", without="nvjitlink")
    said = run(PRODUCT.replace("=True", "=False"), folder, tmp_path)
    assert said.startswith("the CUDA compilers are not installed")
    assert 'pip install "diffkern[cuda]"' in said


def test_files_without_what_describes_them_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library = tmp_path / "nvidia" / "cu13" / "lib" / "libmathdx.so.0"
    library.parent.mkdir(parents=True)
    library.write_bytes(b"")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(wheels, "_WHEELS", {"libmathdx.so.*": ("no-such-wheel",)})
    assert next(wheels.places("libmathdx.so.*")) == library


@posix_only
def test_a_library_is_loaded_once() -> None:
    assert wheels.load("libnvJitLink.so.*")._handle == wheels.load.__wrapped__("libnvJitLink.so.*")._handle


@posix_only
def test_a_library_that_cannot_be_loaded_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = tmp_path / "libnvJitLink.so.99"
    broken.write_bytes(b"no library")
    monkeypatch.setattr(wheels, "find", lambda _: broken)
    monkeypatch.setattr(wheels, "load", wheels.load.__wrapped__)
    with pytest.raises(CompileError, match="CUDA compilers"):
        toolchain.bindings.__wrapped__("nvjitlink")
    with pytest.raises(OSError, match="libnvJitLink"):
        ctypes.CDLL(str(broken))
