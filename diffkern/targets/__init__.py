"""Targets translate the IR to machine code. Nothing else in diffkern imports numba or LLVM's compiler."""

from __future__ import annotations

import functools
from importlib import import_module
from typing import TYPE_CHECKING, cast

from diffkern.contracts.platforms import LLVM, platform_named

if TYPE_CHECKING:
    from diffkern.targets.target import Target

__all__ = ["target_named"]


def target_named(name: str = "native", compiler: str = LLVM) -> Target:
    """Return the target of a name, whose package is imported on first use.

    Parameters
    ----------
    name : str, optional
        As in :data:`diffkern.contracts.platforms.FAMILIES`.
    compiler : str, optional
        The compiler to use, where a family has several.

    Raises
    ------
    KeyError
        If no family in :data:`diffkern.contracts.platforms.FAMILIES` has such a target.
    """
    return _made(platform_named(name).family.compiler(compiler).package, name)


@functools.cache
def _made(package: str, name: str) -> Target:
    return cast("Target", import_module(package).target(name))
