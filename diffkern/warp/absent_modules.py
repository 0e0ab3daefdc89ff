"""Modules of Warp of which diffkern has only the names: ``warp.fem``, ``warp.sparse``, ``warp.optim.linear``, ….

In: the names of their classes and functions. Out: what a module's ``__getattr__`` returns for them. Programs import
such modules, annotate with their types and derive classes from them; what is made or called is refused.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

from diffkern.warp.opaque import missing, missing_function

__all__ = ["named"]


def named(module: str, classes: str, functions: str, remedy: str) -> Callable[[str], Any]:
    """Return what gets the names of a module that diffkern does not have.

    Parameters
    ----------
    module : str
        The module that shall have them.
    classes, functions : str
        Their names.
    remedy : str
        What to take instead.
    """
    types, callables = frozenset(classes.split()), frozenset(functions.split())
    shown = module.partition(".")[2]

    @functools.cache
    def get(name: str) -> Any:
        if name in types:
            made = missing(name, remedy)
            made.__module__ = module
        elif name in callables:
            made = missing_function(f"{shown}.{name}", remedy)
        elif name == "__all__":
            made = sorted({*types, *callables})
        else:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        setattr(sys.modules[module], name, made)
        return made

    return get
