"""Struct classes as kernels see them: names, types and defaults of the fields.

A class decorated with ``@dk.struct`` has a :class:`Definition`, which both the compiler and the run time read. The
decorator itself and the behaviour of instances on the host are in ``diffkern.runtime.arrays.structs``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any, Final

from diffkern.ir import types as T
from diffkern.ir.structs import FieldType, Stored, Struct, StructArray
from diffkern.lang.dialects import NATIVE, Dialect
from diffkern.lang.dtypes import SCALARS, composite_type, resolve_dtype
from diffkern.process.dataclass import dataclass

if TYPE_CHECKING:
    from diffkern.lang.func import Func

__all__ = [
    "DEFINITION",
    "Constant",
    "Definition",
    "array_field",
    "class_of",
    "definition_of",
    "functions_of",
    "is_ambiguous",
    "keep_methods",
    "kept_methods",
    "public_type",
    "register",
    "resolve_type",
]

DEFINITION: Final = "__diffkern_struct__"
_METHODS: Final = "__diffkern_methods__"


@dataclass(frozen=True, eq=False)
class Constant:
    """A struct as the default of a field: the values of its fields in order, numbers, vectors or such structs."""

    type: Struct
    values: tuple[Any, ...]


@dataclass(frozen=True, eq=False)
class Definition:
    """The facts that ``@dk.struct`` found in a class.

    Attributes
    ----------
    type
        Name and fields.
    defaults
        Values of the fields that have one, converted: numbers, vectors, :class:`Constant`.
    dialect
        The dialect in which its methods are written.
    methods, properties
        The funcs of its methods and properties, by name.
    """

    type: Struct
    defaults: Mapping[str, Any]
    dialect: Dialect = NATIVE
    methods: Mapping[str, Any] = field(default_factory=dict)
    properties: Mapping[str, Any] = field(default_factory=dict)

    @property
    def functions(self) -> dict[str, Any]:
        """Methods and properties together."""
        return {**self.methods, **self.properties}


# The class that stands for a struct type on the host: of several that are equal, the one defined last.
_CLASSES: dict[Struct, type] = {}
# How often that has changed: what was derived from it holds until the next change.
GENERATION = [0]
# Types of which there are classes with different methods.
_AMBIGUOUS: set[Struct] = set()


def register(cls: type, definition: Definition) -> None:
    """Make a class known as a struct."""
    before = _CLASSES.get(definition.type)
    # Types are equal by name and fields, so two classes can share one. With the same methods it doesn't matter which is
    # found.
    if before is not None and not _is_redefined(before, cls) and not _have_same_methods(before, definition):
        _AMBIGUOUS.add(definition.type)
    setattr(cls, DEFINITION, definition)
    if before is not cls:
        GENERATION[0] += 1
    _CLASSES[definition.type] = cls


def _is_redefined(before: type, cls: type) -> bool:
    """Return whether a class replaces another: it has the same name in the same module."""
    place = cls.__module__, cls.__qualname__
    # A class inside a function is a new one in each call, and does not replace those of other calls.
    return (before.__module__, before.__qualname__) == place and "<locals>" not in cls.__qualname__


def _have_same_methods(before: type, definition: Definition) -> bool:
    known = vars(before)[DEFINITION].functions
    return known.keys() == definition.functions.keys() and all(
        # By code and closure, not by identity: the same class statement run twice makes new functions.
        f.pyfunc.__code__ == known[name].pyfunc.__code__ and f.pyfunc.__closure__ == known[name].pyfunc.__closure__
        for name, f in definition.functions.items()
    )


def is_ambiguous(struct: Struct) -> bool:
    """Return whether there are classes of this name and with these fields whose methods differ."""
    return struct in _AMBIGUOUS


def functions_of(t: Any) -> Iterator[tuple[str, Any]]:
    """Yield the methods and properties of a struct and of those in it, also of arrays of them: name and func."""
    if isinstance(t, StructArray):
        t = t.dtype
    if not isinstance(t, Struct):
        return
    definition = definition_of(_CLASSES.get(t))
    for name, func in definition.functions.items() if definition is not None else ():
        yield f"{t.name}.{name}", func
    for _, inner in t.fields:
        yield from functions_of(inner)


def keep_methods(pyfunc: Callable[..., Any], methods: Mapping[Callable[..., Any], Func]) -> None:
    """Record, for a kernel's function, the funcs that replaced the methods of structs when the kernel was defined."""
    pyfunc.__dict__[_METHODS] = methods


def kept_methods(pyfunc: Callable[..., Any]) -> Mapping[Callable[..., Any], Func]:
    """Return the recorded funcs of methods of structs for a kernel's function, where they differ from
    the present ones.
    """
    found: Mapping[Callable[..., Any], Func] = pyfunc.__dict__.get(_METHODS, {})
    return found


def definition_of(obj: Any) -> Definition | None:
    """Return the definition of a struct class, or None for anything else."""
    if not isinstance(obj, type):
        return None
    # `vars`, not `getattr`: a class derived from a struct is no struct until it is decorated itself.
    found = vars(obj).get(DEFINITION)
    return found if isinstance(found, Definition) else None


def class_of(struct: Struct) -> type:
    """Return the class whose instances are elements of this type."""
    return _CLASSES[struct]


def public_type(element: Stored) -> Any:
    """Return the public type of an element: a dtype or a struct class."""
    if isinstance(element, Struct):
        return class_of(element)
    return SCALARS[element.name] if isinstance(element, T.Scalar) else composite_type(element)


def resolve_type(obj: Any) -> Stored:
    """Return the type of an element: a struct, or whatever :func:`~diffkern.lang.dtypes.resolve_dtype` takes.

    Raises
    ------
    TypeError
        If it is neither.
    """
    if isinstance(obj, Struct):
        return obj
    definition = definition_of(obj)
    return resolve_dtype(obj) if definition is None else definition.type


def array_field(dtype: T.Element | Struct, ndim: int) -> FieldType:
    """Return the type of an array among the fields."""
    return StructArray(dtype, ndim) if isinstance(dtype, Struct) else T.Array(dtype, ndim)
