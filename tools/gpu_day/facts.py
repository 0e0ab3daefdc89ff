"""What machine this is: ``python facts.py FILE.json`` writes devices, driver and versions; status 1 without a GPU."""

from __future__ import annotations

import importlib.metadata
import json
import platform
import sys
from pathlib import Path
from typing import Any

import diffkern as dk
from diffkern.runtime.cuda import devices

_PACKAGES = (
    "numpy", "numba", "llvmlite", "numba-cuda", "cuda-bindings", "nvidia-nvjitlink", "nvidia-nvvm",
    "nvidia-libmathdx-cu13", "nvidia-cuda-nvrtc", "torch", "jax", "cupy", "warp-lang",
)  # fmt: skip


def facts() -> dict[str, Any]:
    """Return what a figure or a failure may depend on."""
    driver = devices.active()
    return {
        "system": platform.platform(),
        "python": platform.python_version(),
        "diffkern": dk.__version__,
        "packages": {name: version for name in _PACKAGES if (version := _version(name))},
        "driver": driver.version() if driver else devices.why_not(),
        "devices": [
            {"name": d.name, "arch": d.arch, "target": d.target, "bytes": d.total_memory, "uuid": d.uuid,
             "multiprocessors": d.sm_count}
            for d in dk.get_cuda_devices()
        ],
    }  # fmt: skip


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


if __name__ == "__main__":
    found = facts()
    Path(sys.argv[1]).write_text(json.dumps(found))
    sys.exit(0 if found["devices"] else str(found["driver"]))
