"""Options of all kernels of a Python module: ``dk.set_module_options``.

A kernel's own option takes precedence over its module's, and that over ``dk.config``.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from types import ModuleType
from typing import Any

from diffkern.contracts.options import checked, names
from diffkern.runtime.observe.config import config

__all__ = ["get_module_options", "module_option", "options_of", "set_module_options", "set_options"]

_options: dict[str, dict[str, Any]] = {}


def set_module_options(options: Mapping[str, Any], module: ModuleType | None = None) -> None:
    """Set options of all kernels of a module, existing and future ones.

    Parameters
    ----------
    options : mapping
        ``enable_backward``, ``mode``, ``deterministic``, ``enable_mathdx_gemm``, ``fuse_fp``, ``race_free`` and
        ``log_searches``, as in :func:`kernel`. Kernels made with one of these options keep their own.
    module : module, optional
        The module; the caller's by default.

    Raises
    ------
    ValueError
        If there is no such option, or the value is invalid.
    """
    set_options(_name(module), options)


def set_options(module: str, options: Mapping[str, Any]) -> None:
    """Set options of all kernels of a module that is given by name; None unsets an option."""
    # All are checked before any is set, so that an error leaves the options as they were.
    for name, value in options.items():
        if name not in names("module"):
            raise ValueError(f"a module has no option {name!r}; it has {', '.join(names('module'))}")
        if value is not None:
            checked(name, value)
    known = _options.setdefault(module, {})
    known.update(options)
    for name in [name for name, value in known.items() if value is None]:
        del known[name]
    config._changes += 1
    # Only these options select among programs; kernels read the others where they matter.
    if options.keys() & {"deterministic", "enable_mathdx_gemm", "fuse_fp", "mode"}:
        config.forget_programs()


def get_module_options(module: ModuleType | None = None) -> dict[str, Any]:
    """Return the options that were set for a module.

    Parameters
    ----------
    module : module, optional
        The module; the caller's by default.

    Returns
    -------
    dict
        Options by name: those of :func:`set_module_options` that were set.
    """
    return options_of(_name(module))


def options_of(module: str) -> dict[str, Any]:
    """Return the options that were set for a module that is given by name."""
    return dict(_options.get(module, {}))


def module_option(module: str, name: str) -> Any:
    """Return an option of a module by the module's name; None where it was not set."""
    return _options.get(module, {}).get(name)


def _name(module: ModuleType | None) -> str:
    return str(sys._getframe(2).f_globals["__name__"]) if module is None else module.__name__
