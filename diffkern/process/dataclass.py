"""Dataclasses that cost little to define, for modules that every process imports.

The standard decorator writes up to six methods of a class as text and compiles them. That takes half a millisecond, and
a process makes objects of few of the classes that it imports. Here it does what needs no text (fields, slots, the names
for ``match``); comparison, hash and representation are closures, and the initializer is compiled by its first use.
"""

from __future__ import annotations

import dataclasses
import reprlib
import sys
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

__all__ = ["dataclass"]

_Field = dataclasses.Field[Any]
_MISSING: Final = dataclasses.MISSING


def _dataclass(
    cls: type | None = None,
    /,
    *,
    frozen: bool = False,
    eq: bool = True,
    repr: bool = True,
    slots: bool = False,
    kw_only: bool = False,
) -> Any:
    """Make a class a dataclass, as :func:`dataclasses.dataclass` does with the same options.

    The functions of :mod:`dataclasses` work with it. A class with :class:`~dataclasses.InitVar` and an ordered one need
    the standard decorator, and so does one whose base or subclass is made by that and is frozen.
    """
    if cls is None:
        return lambda cls: _dataclass(cls, frozen=frozen, eq=eq, repr=repr, slots=slots, kw_only=kw_only)
    # The standard decorator would write a text from the signature of the initializer, which is not there yet.
    cls.__doc__ = cls.__doc__ or cls.__name__
    made: Any = dataclasses.dataclass(init=False, repr=False, eq=False, slots=slots, kw_only=kw_only)(cls)
    fields = dataclasses.fields(made)
    given = made.__dict__
    methods: dict[str, Any] = {}
    if "__init__" not in given:
        methods["__init__"] = _Initializer(made, fields, frozen)
    if repr and "__repr__" not in given:
        methods["__repr__"] = _representation([f.name for f in fields if f.repr])
    # A class that defines equality alone has None for its hash, by Python's own rule.
    if eq and ("__hash__" not in given or (given["__hash__"] is None and "__eq__" in given)):
        hashed = [f.name for f in fields if (f.compare if f.hash is None else f.hash)]
        methods["__hash__"] = _hash(hashed) if frozen else None
    if eq and "__eq__" not in given:
        methods["__eq__"] = _equality([f.name for f in fields if f.compare])
    if frozen:
        methods["__setattr__"], methods["__delattr__"] = _refusals(made, frozenset(f.name for f in fields))
        if slots and "__setstate__" not in given:
            methods["__getstate__"], methods["__setstate__"] = _state, _set_state
    for name, method in methods.items():
        if method is not None and hasattr(method, "__qualname__"):
            method.__qualname__ = f"{made.__qualname__}.{name}"
        setattr(made, name, method)
    return made


def _values(names: Sequence[str]) -> Callable[[Any], tuple[Any, ...]]:
    """Return a function from an object to the values of some fields."""
    if not names:
        return lambda one: ()
    read = attrgetter(*names)
    return read if len(names) > 1 else lambda one: (read(one),)


def _equality(names: Sequence[str]) -> Callable[..., Any]:
    values = _values(names)

    def __eq__(self: Any, other: object) -> Any:
        return values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented

    return __eq__


def _hash(names: Sequence[str]) -> Callable[..., int]:
    values = _values(names)

    def __hash__(self: Any) -> int:
        return hash(values(self))

    return __hash__


def _representation(names: Sequence[str]) -> Callable[..., str]:
    @reprlib.recursive_repr()
    def __repr__(self: Any) -> str:
        return f"{self.__class__.__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in names)})"

    return __repr__


def _refusals(cls: Any, names: frozenset[str]) -> tuple[Callable[..., None], Callable[..., None]]:
    # A subclass that is no dataclass may have attributes of its own.
    def __setattr__(self: Any, name: str, value: Any) -> None:
        if type(self) is cls or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
        super(cls, self).__setattr__(name, value)

    def __delattr__(self: Any, name: str) -> None:
        if type(self) is cls or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")
        super(cls, self).__delattr__(name)

    return __setattr__, __delattr__


def _state(self: Any) -> list[Any]:
    """Return what a pickle holds of a frozen object with slots."""
    return [getattr(self, field.name) for field in dataclasses.fields(self)]


def _set_state(self: Any, state: Sequence[Any]) -> None:
    for field, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, field.name, value)


class _Factory:
    """Stands for the default of a field that a function makes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "<factory>"


_FACTORY: Final = _Factory()


class _Initializer:
    """Stands in the place of ``__init__`` until it is first looked up, and is replaced by it then.

    Two threads that come at the same time compile two equal functions, and one of them stays.
    """

    __slots__ = ("_cls", "_fields", "_frozen")

    def __init__(self, cls: type, fields: Sequence[_Field], frozen: bool) -> None:
        self._cls, self._fields, self._frozen = cls, fields, frozen

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        function = _initializer(self._cls, self._fields, self._frozen)
        self._cls.__init__ = function  # type: ignore[misc]
        return function.__get__(instance, owner)


def _initializer(cls: type, fields: Sequence[_Field], frozen: bool) -> Any:
    """Compile the initializer of a class."""
    names: dict[str, Any] = {"_set_": object.__setattr__, "_factory_": _FACTORY}
    positional: list[str] = ["self"]
    by_name: list[str] = []
    body: list[str] = []
    for field in fields:
        name, value = field.name, field.name
        default = ""
        if field.default is not _MISSING:
            names[f"_of_{name}"], default = field.default, f"=_of_{name}"
        elif field.default_factory is not _MISSING:
            names[f"_of_{name}"], default = field.default_factory, "=_factory_"
            value = f"_of_{name}() if {name} is _factory_ else {name}" if field.init else f"_of_{name}()"
        if field.init:
            (by_name if field.kw_only else positional).append(name + default)
        elif field.default is not _MISSING:
            value = f"_of_{name}"
        elif not default:  # to be set by __post_init__ or later
            continue
        body.append(f"_set_(self, {name!r}, {value})" if frozen else f"self.{name} = {value}")
    if hasattr(cls, "__post_init__"):
        body.append("self.__post_init__()")
    parameters = ", ".join([*positional, *(["*", *by_name] if by_name else [])])
    lines = "\n".join(f"  {line}" for line in body or ["pass"])
    text = f"def _made_({', '.join(names)}):\n def __init__({parameters}):\n{lines}\n return __init__"
    # Annotations are looked up in the module of the class.
    place: dict[str, Any] = {}
    exec(compile(text, f"<initializer of {cls.__qualname__}>", "exec"), sys.modules[cls.__module__].__dict__, place)
    function = place["_made_"](**names)
    function.__qualname__ = f"{cls.__qualname__}.__init__"
    function.__annotations__ = {**{f.name: f.type for f in fields if f.init}, "return": None}
    return function


if TYPE_CHECKING:
    from dataclasses import dataclass
else:
    dataclass = _dataclass
