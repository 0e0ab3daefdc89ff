"""Options of all kernels of a Python module: ``dk.set_module_options``.

In: options by name. Out: the same, for a module. A kernel's own option counts more than its module's, and that more
than ``dk.config``.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from types import ModuleType

from diffkern.options import checked, names
from diffkern.runtime.config import config

__all__ = ["get_module_options", "module_option", "set_module_options"]

_options: dict[str, dict[str, bool]] = {}


def set_module_options(options: Mapping[str, bool], module: ModuleType | None = None) -> None:
    """Set options of all kernels of a module, those it has and those it will have.

    Parameters
    ----------
    options : mapping
        ``enable_backward`` and ``enable_mathdx_gemm``, as :func:`kernel` has them. Kernels made with one of these
        options keep their own.
    module : module, optional
        The module; the caller's by default.

    Raises
    ------
    ValueError
        If there is no such option, or its value is not True or False.
    """
    for name, value in options.items():
        if name not in names("module"):
            raise ValueError(f"a module has no option {name!r}; it has {', '.join(names('module'))}")
        checked(name, value)
    _options.setdefault(_name(module), {}).update(options)
    if "enable_mathdx_gemm" in options:
        config.forget_programs()


def get_module_options(module: ModuleType | None = None) -> dict[str, bool]:
    """Return the options that were set for a module.

    Parameters
    ----------
    module : module, optional
        The module; the caller's by default.

    Returns
    -------
    dict
        Options by name: those of :func:`set_module_options`, none that was not set.
    """
    return dict(_options.get(_name(module), {}))


def module_option(module: str, name: str) -> bool | None:
    """Return an option of a module by the module's name; None where it was not set."""
    return _options.get(module, {}).get(name)


def _name(module: ModuleType | None) -> str:
    return str(sys._getframe(2).f_globals["__name__"]) if module is None else module.__name__
