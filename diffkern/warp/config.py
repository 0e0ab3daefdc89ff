"""``wp.config``: settings under Warp's names.

Some are settings of :data:`diffkern.config` and have its effects: ``mode``, ``verbose``, ``quiet``,
``enable_backward``, ``enable_mathdx_gemm``, ``kernel_cache_dir``, and ``deterministic``, for which anything but
``DeterministicMode.NOT_GUARANTEED`` is True. ``enable_backward = "always"`` gives gradients to kernels of packages that
switch them off. ``print_launches`` prints each launch, ``verify_fp``
checks what a launch wrote. The others are kept, and have nothing to do here.
"""

from __future__ import annotations

import difflib
import enum
import os
import sys
import warnings
from collections.abc import Mapping
from types import ModuleType
from typing import Any, Final

from diffkern.runtime.observe.config import config

__all__ = ["DeterministicMode", "LaunchArrayAccessMode"]


class LaunchArrayAccessMode(enum.IntEnum):
    """The checks that launches make of their arrays' devices; diffkern always makes them."""

    RELAXED = 0
    CHECKED = 1
    STRICT = 2


class DeterministicMode(enum.IntEnum):
    """The scope within which launches give bit-identical results."""

    NOT_GUARANTEED = 0
    RUN_TO_RUN = 1
    GPU_TO_GPU = 2


_SAME: Final = frozenset({"enable_backward", "enable_mathdx_gemm", "mode", "quiet", "verbose"})
"""Settings that :data:`diffkern.config` has under the same name."""

_SWITCHES: Final = frozenset({"enable_backward", "quiet", "verbose"})
"""Those of them that are True or False, which Warp's programs give as numbers as well."""

_KEPT: Final[Mapping[str, Any]] = {
    "block_dim": 256,
    "cache_kernels": True,
    "compile_time_trace": False,
    "cpu_compiler_flags": None,
    "cuda_arch_suffix": None,
    "cuda_output": None,
    "default_grid_stride": True,
    "deterministic": DeterministicMode.NOT_GUARANTEED,
    "deterministic_debug": False,
    "deterministic_max_records": 0,
    "enable_cpu_blocks": False,
    "enable_graph_capture_module_load_by_default": True,
    "enable_mathdx_fft": True,
    "enable_mathdx_solver": True,
    "enable_mempools_at_init": True,
    "enable_tiles_in_stack_memory": True,
    "enable_vector_component_overwrites": False,
    "fast_math": False,
    "launch_array_access_mode": LaunchArrayAccessMode.RELAXED,
    "legacy_cpu_linker": False,
    "legacy_scalar_return_types": False,
    "line_directives": True,
    "lineinfo": False,
    "llvm_cuda": False,
    "load_module_max_workers": 0,
    "log_level": 20,
    "max_unroll": 16,
    "optimization_level": None,
    "print_launches": False,
    "ptx_target_arch": None,
    "track_memory": False,
    "use_precompiled_headers": True,
    "verbose_warnings": False,
    "verify_autograd_array_access": False,
    "verify_cuda": False,
    "verify_fp": False,
    "version": "1.19.0",
}
"""Other settings, with their values at the start."""


# A module's attributes can only be intercepted by a class of its own, which `wp.config.mode = ...` goes through.
class _Settings(ModuleType):
    def __getattr__(self, name: str) -> Any:
        # Not stored here: the native configuration is the only owner of a shared setting.
        if name in _SAME:
            return getattr(config, name)
        if name == "kernel_cache_dir":
            return None if config.cache_dir is None else os.fspath(config.cache_dir)
        raise AttributeError(_unknown(name))

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _SAME:
            setattr(config, name, bool(value) if name in _SWITCHES and not isinstance(value, str) else value)
        elif name == "deterministic":
            # Native launches know only on and off; the value itself is kept, so that it reads back as it was set.
            config.deterministic = bool(value)
            super().__setattr__(name, value)
        elif name == "kernel_cache_dir":
            config.cache_dir = value
        elif name in _KEPT or name.startswith("__"):
            if name == "enable_cpu_blocks" and value:
                warnings.warn(
                    "wp.config.enable_cpu_blocks has no effect: blocks on the CPU have one thread, so that "
                    "wp.block_dim() is 1 there and tiles of values of threads have one element",
                    stacklevel=2,
                )
            super().__setattr__(name, value)
        else:
            raise AttributeError(_unknown(name))

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *_SAME, *_KEPT, "kernel_cache_dir"})


def _unknown(name: str) -> str:
    # A misspelled setting would otherwise be silently without effect.
    close = difflib.get_close_matches(name, [*_SAME, *_KEPT, "kernel_cache_dir"], n=1)
    return f"wp.config has no setting {name!r}" + (f"; did you mean {close[0]!r}?" if close else "")


# Written into the module's dictionary, past __setattr__: these are defaults, which nobody has set.
globals().update(_KEPT)
sys.modules[__name__].__class__ = _Settings
