"""``diffkern doctor``: an inventory of this machine: what is missing, and how to install it.

It prints a report on standard output, as text or JSON, and has exit status 1 if kernels cannot be compiled and run on
the CPU. A missing optional part is no fault: its line names the package to install.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from difflib import get_close_matches
from importlib import metadata
from typing import Any, Literal

from diffkern._version import __version__
from diffkern.errors import KernelError
from diffkern.process.dataclass import dataclass

__all__ = ["VARIABLES", "Finding", "add_doctor_command", "examine"]

VARIABLES = (
    "DIFFKERN_CACHE_DIR",
    "DIFFKERN_CUDA_COMPILER",
    "DIFFKERN_DETERMINISTIC",
    "DIFFKERN_ENABLE_BACKWARD",
    "DIFFKERN_ENABLE_MATHDX_GEMM",
    "DIFFKERN_FULL_TRACEBACK",
    "DIFFKERN_LOG_LAUNCHES",
    "DIFFKERN_MODE",
    "DIFFKERN_NUM_THREADS",
    "DIFFKERN_NVRTC",
    "DIFFKERN_NVTX",
    "DIFFKERN_PERF_MAP",
    "DIFFKERN_VERBOSE",
    "DIFFKERN_VERIFY_IR",
)
"""The environment variables that diffkern reads."""

_OPTIONAL = {
    "jax": ("jax", "kernels in JAX programs"),
    "torch": ("torch", "kernels in PyTorch programs"),
    "numba-cuda": ("cuda", "programs for GPUs"),
    "matplotlib": ("plot", "the figures of the demo and the examples"),
}
"""Packages that are not needed: the extra that brings each, and what it is for."""

_MEGABYTE = 1e6
_LITTLE_SPACE = 200 * _MEGABYTE


@dataclass(frozen=True)
class Finding:
    """One line of the report.

    Attributes
    ----------
    area
        The heading under which it is shown.
    name
        The object that was examined.
    state
        ``"ok"``; ``"absent"`` for an optional part; ``"warning"``; ``"fault"`` if kernels cannot run.
    text
        The finding.
    remedy
        The remedy, if there is one.
    """

    area: str
    name: str
    state: Literal["ok", "absent", "warning", "fault"]
    text: str
    remedy: str = ""


def add_doctor_command(commands: Any) -> None:
    """Add ``doctor`` to the commands of the parser."""
    text = "show versions, devices, compilers and settings, and what is missing"
    parser = commands.add_parser("doctor", help=text, description=text)
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    findings = []
    area = ""
    for finding in examine():
        findings.append(finding)
        if options.json:
            continue
        if finding.area != area:
            print(("\n" if area else "") + finding.area)
            area = finding.area
        mark = {"ok": " ", "absent": "-", "warning": "!", "fault": "X"}[finding.state]
        print(f"{mark} {finding.name:18} {finding.text}", flush=True)
        if finding.remedy:
            print(f"{'':21}{finding.remedy}")
    faults = sum(f.state == "fault" for f in findings)
    if options.json:
        print(json.dumps([asdict(f) for f in findings], indent=2))
    else:
        print("\n" + ("kernels cannot run on this machine, see X" if faults else "kernels run on this machine"))
    return int(bool(faults))


def examine() -> Iterator[Finding]:
    """Examine everything, one thing after the other.

    Yields
    ------
    Finding
        One for each thing, in the order of the report.
    """
    for look in (_python, _processor, _cache, _self_test, _optional, _gpu_compilers, _driver, _settings):
        yield from look()


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _python() -> Iterator[Finding]:
    area = "Python"
    yield Finding(area, "python", "ok", f"{platform.python_version()} at {sys.executable}")
    yield Finding(area, "system", "ok", platform.platform())
    yield Finding(area, "diffkern", "ok", __version__)
    for package in ("numpy", "numba", "llvmlite"):
        found = _version(package)
        if found is None:
            yield Finding(area, package, "fault", "not installed", f"pip install {package}")
        else:
            yield Finding(area, package, "ok", found)


def _processor() -> Iterator[Finding]:
    area = "Processor"
    try:
        from diffkern.targets.cpu.numba_target import numba_target

        found = numba_target()
    except Exception as error:  # whatever is wrong with an installation of numba is worth a line
        yield Finding(area, "code for", "fault", f"numba cannot tell: {error}", "pip install --force-reinstall numba")
        return
    # As LLVM calls the features of a processor.
    wide = "512" if "+avx512f" in found.features else "256" if "+avx2" in found.features else "128"
    yield Finding(area, "code for", "ok", f"{found.cpu} ({found.triple}), vectors of up to {wide} bits")
    from diffkern.runtime.observe.config import config

    yield Finding(area, "threads", "ok", f"{config.num_threads} of {os.cpu_count()} processors")


def _cache() -> Iterator[Finding]:
    from diffkern.cache.maintenance import artifacts
    from diffkern.cache.store import NoDirectoryError
    from diffkern.compiler.stores import cache_directory

    area, remedy = (
        "Cache",
        "set DIFFKERN_CACHE_DIR to a writable directory; until then every process recompiles its kernels",
    )
    try:
        directory = cache_directory()
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = artifacts(directory)  # unless others can write to it
        # Permissions alone don't tell: a file system may be full or mounted read-only.
        with tempfile.TemporaryFile(dir=directory):
            pass
    except (NoDirectoryError, OSError) as error:
        yield Finding(area, "directory", "warning", str(error), remedy)
        return
    yield Finding(area, "directory", "ok", str(directory))
    size = sum(artifact.size for artifact in found)
    yield Finding(area, "programs", "ok", f"{len(found)}, {size / _MEGABYTE:.1f} MB")
    free = shutil.disk_usage(directory).free
    if free < _LITTLE_SPACE:
        yield Finding(area, "free", "warning", f"{free / _MEGABYTE:.0f} MB", "diffkern cache prune --size 100MB")


def _self_test() -> Iterator[Finding]:
    """Compile a kernel and its adjoint in a cache of their own, and check the gradient."""
    area, name = "Kernels", "gradient"
    begin = time.perf_counter()
    try:
        error = _wrong_by()
    except Exception as problem:  # anything that goes wrong here is what this command is asked for
        remedy = "run it with DIFFKERN_FULL_TRACEBACK=1 and report this" if isinstance(problem, KernelError) else ""
        yield Finding(area, name, "fault", f"{type(problem).__name__}: {problem}", remedy)
        return
    took = time.perf_counter() - begin
    if error > 1e-12:
        yield Finding(
            area, name, "fault", f"off by {error:.1e}", "report this, with the output of diffkern doctor --json"
        )
    else:
        yield Finding(area, name, "ok", f"a kernel and its adjoint compiled, run and checked in {took:.1f} s")


def _wrong_by() -> float:
    import numpy as np

    import diffkern as dk
    from diffkern.cli.own_kernels import energy
    from diffkern.runtime.observe.config import config

    # A cache of its own, so that the compilers are tested and not a program from an earlier run.
    before = config.cache_dir
    with tempfile.TemporaryDirectory(prefix="diffkern-doctor-") as directory:
        config.cache_dir = directory
        try:
            x = dk.array(np.linspace(0.1, 2.0, 1000), dtype=dk.float64, requires_grad=True)
            total = dk.zeros(1, dtype=dk.float64, requires_grad=True)
            with dk.Tape() as tape:
                dk.launch(energy, dim=1000, inputs=[x], outputs=[total])
            tape.backward(total)
        finally:
            config.cache_dir = before
        return float(np.abs(x.grad.numpy() - np.cos(x.numpy())).max())


def _optional() -> Iterator[Finding]:
    for package, (extra, purpose) in _OPTIONAL.items():
        found = _version(package)
        if found is None:
            yield Finding(
                "Optional packages", package, "absent", f"not installed: {purpose}", f'pip install "diffkern[{extra}]"'
            )
        else:
            yield Finding("Optional packages", package, "ok", found)


def _gpu_compilers() -> Iterator[Finding]:
    area = "Compilers for GPUs"

    def cubins() -> str:
        from diffkern.targets.cuda import libdevice, toolchain

        toolchain.bindings("nvjitlink")
        libdevice.bitcode()
        return "nvJitLink and libdevice found"

    def machine_code() -> str:
        from diffkern.targets.cuda.disassembler import find_disassembler

        return " ".join(find_disassembler())

    def products() -> str:
        from diffkern.targets.cuda import mathdx

        nvrtc = mathdx.nvrtc_version()
        return f"libmathdx {mathdx.version()}, NVRTC " + (".".join(map(str, nvrtc)) if nvrtc else "not found")

    # Each by itself: a part that is missing says nothing about the others.
    looks: tuple[tuple[str, Callable[[], str]], ...] = (
        ("cubins", cubins),
        ("machine code", machine_code),
        ("matrix products", products),
    )
    for name, look in looks:
        try:
            yield Finding(area, name, "ok", look())
        except KernelError as error:
            yield Finding(area, name, "absent", error.message, error.remedy or "")


def _driver() -> Iterator[Finding]:
    from diffkern.runtime.cuda import devices
    from diffkern.runtime.memory.device import get_cuda_devices

    area = "GPUs"
    try:
        found = get_cuda_devices()
    except KernelError as error:
        yield Finding(area, "driver", "warning", error.message, error.remedy or "")
        return
    # Not a warning: a machine without a GPU is complete.
    if not found:
        yield Finding(area, "devices", "absent", devices.why_not(), "everything runs on the CPU without one")
    for device in found:
        memory = f"{device.total_memory / 2**30:.0f} GiB"
        yield Finding(area, device.alias, "ok", f"{device.name}, sm_{device.arch}, {memory}")


def _settings() -> Iterator[Finding]:
    area = "Settings"
    # Unknown names are the point: a misspelled variable has no effect and no other symptom.
    for name in sorted(n for n in os.environ if n.startswith("DIFFKERN_")):
        if name in VARIABLES:
            yield Finding(area, name, "ok", os.environ[name])
        else:
            near = get_close_matches(name, VARIABLES, n=1) or ["one of " + ", ".join(VARIABLES)]
            yield Finding(area, name, "warning", "not a variable that diffkern reads", f"did you mean {near[0]}?")
