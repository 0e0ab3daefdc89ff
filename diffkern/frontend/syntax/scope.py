"""Names outside of a kernel's own variables, and which objects they refer to.

A :class:`NameScope` looks names up as Python does: closure, module globals, built-ins. Values are read again at each
look-up, so a global that changed is seen.
"""

from __future__ import annotations

import builtins
import enum
import inspect
import sys
from collections.abc import Callable, Iterable, Mapping
from types import CellType
from typing import Any, Final

from diffkern.lang.dialects import dialect_of
from diffkern.lang.dtypes import CompositeType, DType
from diffkern.lang.func import Func
from diffkern.lang.intrinsics import lowering_key
from diffkern.lang.numba_cuda import member, ours

__all__ = [
    "MISSING",
    "NameScope",
    "attribute_names",
    "keep_meant",
    "static_attribute",
    "suggest",
]


class _Missing:
    def __repr__(self) -> str:
        return "<missing>"


MISSING: Final = _Missing()
_KNOWN: Final = frozenset(
    {"builtins", "diffkern", "numba", "numpy", "torch", "jax", "jaxlib", "cupy", "types", "typing"}
)
"""Libraries whose objects have attributes of their own in kernels, or none."""

_MEANT: Final = "__diffkern_meant__"


def keep_meant(pyfunc: Callable[..., Any], meant: Mapping[str, Any]) -> None:
    """Settle what annotations that are text mean in a function."""
    pyfunc.__dict__[_MEANT] = meant


class NameScope:
    """Name look-up in the environment of one function.

    Attributes
    ----------
    meant
        What annotations that are text mean, where that is settled.
    """

    def __init__(self, pyfunc: Callable[..., Any]) -> None:
        self._cells = dict(zip(pyfunc.__code__.co_freevars, pyfunc.__closure__ or (), strict=False))
        self._globals: dict[str, Any] = pyfunc.__globals__
        # On the function rather than here: each lowering makes a scope of its own.
        self.meant: Mapping[str, Any] = pyfunc.__dict__.get(_MEANT, {})
        dialect = dialect_of(pyfunc)
        self._namespace, self._of_objects = dialect.namespace, dialect.object_attributes

    def lookup(self, name: str) -> Any:
        """Return the object a name refers to, or ``MISSING``; of an object of numba what it stands for."""
        return ours(self.found(name))

    def found(self, name: str) -> Any:
        """Return the object that Python finds under a name, or a built-in function that the dialect knows by it."""
        if name in self._cells:
            try:
                return self._cells[name].cell_contents
            except ValueError:  # a closure variable that is not assigned yet
                return MISSING
        if name in self._globals:
            return self._globals[name]
        known = getattr(builtins, name, MISSING)
        # Looked up rather than imported: unless the program has imported the dialect, it has none of its names.
        if known is MISSING and self._namespace in sys.modules:
            found = getattr(sys.modules[self._namespace], name, MISSING)
            known = found if lowering_key(found) is not None or isinstance(found, (CompositeType, DType)) else MISSING
        return known

    def of_program(self, name: str) -> Any:
        """Return the object that the program itself has under a name, or ``MISSING``."""
        return self.found(name) if name in self._cells or name in self._globals else MISSING

    def attribute(self, obj: Any, name: str) -> Any:
        """Return an attribute of an object that a name refers to, or ``MISSING`` if it is no fact for a kernel."""
        return static_attribute(obj, name, self._of_objects)

    def cell(self, name: str) -> CellType | None:
        """Return the closure variable of that name, or None."""
        return self._cells.get(name)

    def names(self) -> list[str]:
        """Return all names that can be looked up, built-ins last."""
        return [*self._cells, *self._globals, *(n for n in dir(builtins) if not n.startswith("_"))]

    def namespace(self) -> dict[str, Any]:
        """Return the closure's variables as a dictionary, for evaluating annotations."""
        found = {name: self.lookup(name) for name in self._cells}
        return {name: value for name, value in found.items() if value is not MISSING}

    @property
    def globals(self) -> dict[str, Any]:
        return self._globals


def static_attribute(obj: Any, name: str, of_objects: bool = False) -> Any:
    """Return an attribute of a module or a class, or a func that is one of a func; else ``MISSING``.

    Attributes of other objects are compile-time facts in some dialects only, and of a program's own objects.
    """
    if isinstance(obj, Func):
        found = vars(obj).get(name)
        return found if isinstance(found, Func) else MISSING
    if of_objects and _is_programs_own(obj):
        return ours(getattr(obj, name, MISSING))
    if inspect.ismodule(obj) or inspect.isclass(obj):
        # Of numba's modules, kernels see the objects that stand for the members.
        known = member(obj, name)
        return ours(getattr(obj, name, MISSING)) if known is None else known
    return MISSING


def _is_programs_own(obj: Any) -> bool:
    """Return whether an object's class is neither Python's nor that of a library whose objects kernels know."""
    if isinstance(obj, (type, enum.Enum)) or inspect.ismodule(obj):
        return False
    return type(obj).__module__.partition(".")[0] not in _KNOWN


def attribute_names(obj: Any) -> list[str]:
    """Return the attributes :func:`static_attribute` finds, for suggestions."""
    if inspect.ismodule(obj) or inspect.isclass(obj):
        return [n for n in dir(obj) if not n.startswith("_")]
    return []


def suggest(name: str, known: Iterable[str]) -> str:
    """Return ``; did you mean …?`` for a name that is close to a known one, else an empty text."""
    import difflib  # for messages alone

    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.7)
    return f"; did you mean {close[0]!r}?" if close else ""
