"""``wp.print_diagnostics``: the versions and devices that a bug report needs, under Warp's names.

The result is a dictionary, whose contents are also printed. Entries for components of Warp that diffkern does without
are None, or False where Warp has a flag. ``diffkern doctor`` reports more, with remedies.
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterator, Mapping
from importlib import metadata
from typing import Any, Final

from diffkern._version import __version__
from diffkern.runtime.memory.device import Device, get_devices
from diffkern.runtime.observe.config import config
from diffkern.warp import config as settings
from diffkern.warp.devices import get_cuda_driver_version

__all__ = ["print_diagnostics"]

_WITHOUT: Final[Mapping[str, Any]] = {
    "warp_clang": None, "cuda_toolkit": None, "nvrtc": None, "cuda_compatibility": False, "mathdx_enabled": False,
    "libmathdx": None, "cubql_enabled": False, "nanovdb": None, "host_compiler": None, "verify_fp": False,
    "sanitizer": "",
}  # fmt: skip
"""Parts of Warp that diffkern does without."""

_SECTIONS: Final[Mapping[str, Mapping[str, str]]] = {
    "Software": {
        "diffkern": "warp_native", "Warp's interface": "warp_python", "NumPy": "numpy", "numba": "numba",
        "llvmlite": "llvm", "PyTorch": "torch", "JAX": "jax", "jaxlib": "jaxlib", "Python": "python",
        "Platform": "platform",
    },
    "CUDA": {"Enabled": "cuda_enabled", "Driver": "cuda_driver"},
    "Build": {"Debug": "debug", "Fast math": "fast_math"},
    "CPU": {"Model": "cpu_name", "ISA features": "cpu_features"},
}  # fmt: skip
"""The lines under each heading: their labels, and where the values are found."""


def print_diagnostics() -> dict[str, Any]:
    """Print versions, settings and devices.

    Returns
    -------
    dict
        The same, under the names that Warp has for them.
    """
    # This loads LLVM, which only the report needs.
    from diffkern.targets.cpu.numba_target import numba_target

    cpu, driver = numba_target(), get_cuda_driver_version()
    info: dict[str, Any] = {
        "warp_python": vars(settings)["version"],
        "warp_native": __version__,
        "llvm": metadata.version("llvmlite"),
        **_versions("numpy", "numba", "torch", "jax", "jaxlib"),
        "python": sys.version,
        "platform": platform.platform(),
        "cuda_enabled": driver is not None,
        "cuda_driver": None if driver is None else f"{driver[0]}.{driver[1]}",
        "cpu_name": cpu.cpu,
        "cpu_features": sorted(f.removeprefix("+") for f in cpu.features.split(",") if f.startswith("+")),
        "debug": config.mode == "debug",
        "fast_math": vars(settings)["fast_math"],
        "devices": list(map(_device, get_devices())),
        **_WITHOUT,
    }
    print("\n".join(_lines(info)))
    return info


def _versions(*packages: str) -> dict[str, str]:
    # Packages that are not installed are left out, and so are not printed.
    found = {}
    for package in packages:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


def _device(device: Device) -> dict[str, Any]:
    described: dict[str, Any] = {"alias": device.alias, "name": device.name}
    if device.is_cuda:
        described |= {
            "arch": f"sm_{device.arch}",
            "sm_count": device.sm_count,
            "memory_gb": round(device.total_memory / 1024**3, 1),
            "mempool_enabled": device.is_mempool_enabled,
            "pci_bus_id": device.pci_bus_id,
        }
    return described


def _lines(info: Mapping[str, Any]) -> Iterator[str]:
    for heading, fields in _SECTIONS.items():
        yield heading
        for text, name in fields.items():
            if info.get(name) is not None:
                value = info[name]
                yield f"  {text + ':':<20}{len(value) if isinstance(value, list) else value}"
        yield ""
    yield "Devices"
    for device in info["devices"]:
        yield f"  {device['alias']}"
        yield from (f"    {name + ':':<18}{value}" for name, value in device.items() if name != "alias")
