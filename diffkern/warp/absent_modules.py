"""Modules of Warp that exist here by name only: ``warp.fem``, ``warp.optim.linear``, ``warp.render``, ….

Programs may import such a module, annotate with its types and derive classes from them. Constructing or calling
anything of it raises an error. A module's ``__getattr__`` returns the placeholders that are made here.
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
        The replacement.
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
