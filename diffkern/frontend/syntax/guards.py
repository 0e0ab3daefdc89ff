"""The dependencies of a fingerprint: names and annotations of a function, and their values.

Guards tell whether chains of names, and annotations that are text, still mean the same in the scope of a function;
look-ups tell it in a tenth of a microsecond, before every launch.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterable
from functools import partial
from types import BuiltinFunctionType, ModuleType
from typing import Any, Final

import numpy as np

from diffkern.errors import KernelTypeError, Loc
from diffkern.frontend.syntax.encoding import encode_object
from diffkern.frontend.syntax.scope import MISSING, NameScope
from diffkern.frontend.syntax.signature import parameter_type
from diffkern.frontend.syntax.source import shown_path
from diffkern.frontend.syntax.survey import Path
from diffkern.frontend.syntax.text_annotations import evaluate_annotation, read_annotation, texts_in
from diffkern.lang import ArrayAnnotation, CompositeValue, Func, resolve_dtype
from diffkern.lang.annotations import Reference
from diffkern.lang.intrinsics import lowering_key
from diffkern.lang.structs import functions_of
from diffkern.process.dataclass import dataclass

__all__ = [
    "Capture",
    "Guard",
    "TextGuard",
    "annotation_fields",
    "check_steady",
    "guard_texts",
    "look_ups",
    "preserved",
    "resolve",
]


def resolve(scope: NameScope, path: Path) -> tuple[Any, int]:
    """Return the object at the end of a chain, as far as it leads through known attributes, and how far that is."""
    obj = scope.lookup(path[0])
    for depth, name in enumerate(path[1:], 1):
        following = scope.attribute(obj, name)
        if following is MISSING:
            return (obj if not inspect.ismodule(obj) and not inspect.isclass(obj) else MISSING), depth
        obj = following
    return obj, len(path)


def check_steady(function: Callable[..., Any], guards: Iterable[Guard]) -> None:
    """Raise if an attribute of an object gives another value when it is read again, as lowering does."""
    for guard in guards:
        # Attributes of modules, classes and funcs are plain look-ups; only those of other objects run code.
        if isinstance(guard.scope.lookup(guard.path[0]), (ModuleType, type, Func)) or isinstance(guard.obj, Func):
            continue
        if guard.holds():
            continue
        code = function.__code__
        raise KernelTypeError(
            f"{'.'.join(guard.path)} in {function.__name__} gives another value each time that it is read",
            loc=Loc(shown_path(code.co_filename), code.co_firstlineno, 0),
            remedy="keep its value under a name, or pass it as an argument",
        )


@dataclass(frozen=True, slots=True)
class Guard:
    """A captured name and its value; the fingerprint is valid as long as it is unchanged.

    Attributes
    ----------
    function : int
        The number of the function that captures it.
    scope, path
        The scope and the names by which it is looked up.
    depth : int
        How many names of the path lead to the object.
    obj
        The object; a copy if it can be changed in place.
    code : bytes
        The object as bytes.
    """

    function: int
    scope: NameScope
    path: Path
    depth: int
    obj: Any
    code: bytes

    def holds(self) -> bool:
        """Return whether the name still means the same."""
        obj, _ = resolve(self.scope, self.path)
        # The usual case, without encoding anything.
        if obj is self.obj:
            return True
        # A redefined func may have the same number in the encoding, and another source.
        if isinstance(obj, Func) or isinstance(self.obj, Func):
            return False
        return encode_object(obj, lambda _: -1) == self.code


@dataclass(frozen=True, slots=True)
class TextGuard:
    """An annotation that is text, and its value; the fingerprint is valid as long as it is unchanged.

    Attributes
    ----------
    function : int
        The number of the function that has it.
    scope, text
        The scope and the text that is evaluated.
    obj
        The value; ``MISSING`` if it is no type of a kernel.
    """

    function: int
    scope: NameScope
    text: str
    obj: Any

    def holds(self, text: str = "") -> bool:
        """Return whether the text still means the same."""
        obj, before = _evaluated(self.text, self.scope), self.obj
        if obj is before:
            return True
        # Annotations are made again by each evaluation, so they are compared by their contents.
        if isinstance(obj, ArrayAnnotation) and isinstance(before, ArrayAnnotation) and obj.element is before.element:
            return obj == before
        return annotation_fields("", obj, self.scope, id)[1] == annotation_fields("", before, self.scope, id)[1]

    def is_decided_by_names(self) -> bool:
        """Return whether the text means the same as long as the names in it do, so that it need not be evaluated."""
        try:
            read = read_annotation(self.text)
        except (SyntaxError, ValueError):
            return True
        if not read.is_plain or any(resolve(self.scope, path)[1] < len(path) for path in read.paths):
            return False
        return all(_is_of_library(resolve(self.scope, path)[0]) for path in read.called)

    def paths(self) -> tuple[Path, ...]:
        """Return the names that the text reads."""
        try:
            return read_annotation(self.text).paths
        except (SyntaxError, ValueError):
            return ()


def guard_texts(function: int, scope: NameScope, annotation: Any, guards: dict[tuple[int, str], TextGuard]) -> Any:
    """Return the present meaning of an annotation; the guards of its texts, by function and text, go
    into ``guards``.
    """
    for text in texts_in(annotation):
        if (function, text) not in guards:
            made = guards[function, text] = TextGuard(function, scope, text, _evaluated(text, scope))
            # The evaluated annotation may hold text again, as in a list of forward references.
            if not isinstance(made.obj, str):
                guard_texts(function, scope, made.obj, guards)
    return guards[function, annotation].obj if isinstance(annotation, str) else annotation


def _evaluated(text: str, scope: NameScope) -> Any:
    try:
        return evaluate_annotation(text, scope)
    except Exception:  # lowering says which
        return MISSING


def _is_of_library(obj: Any) -> bool:
    """Return whether calls and items of an object depend on nothing that may change."""
    if isinstance(obj, (type, BuiltinFunctionType)) and obj.__module__ in ("builtins", "typing"):
        return True
    return (getattr(obj, "__module__", None) or type(obj).__module__).partition(".")[0] in (*_LIBRARIES, "typing")


def annotation_fields(
    label: str, annotation: Any, scope: NameScope, number_of: Callable[[Func], int]
) -> tuple[Any, list[tuple[str, bytes]]]:
    """Return the meaning of a parameter's annotation, ``MISSING`` if it has none, and its fields."""
    try:
        meant = parameter_type(annotation, scope, "", "")
    except TypeError:  # refused when the kernel is lowered
        return MISSING, [(f"annotation {label}", b"invalid")]
    if meant is None:
        return Any, []
    stored = meant.element if isinstance(meant, ArrayAnnotation) else meant
    # A reference changes the calling convention of the func, which the type alone does not tell.
    said = str(meant) if not isinstance(annotation, Reference) else f"a variable of the caller: {meant}"
    methods = [(f"method {label} {name}", b"%d" % number_of(func)) for name, func in functions_of(stored)]
    return meant, [(f"annotation {label}", said.encode()), *methods]


def _can_change(obj: Any) -> bool:
    """Return whether an object is a vector or a NumPy array that can be changed in place, or a tuple that holds one."""
    if isinstance(obj, CompositeValue):
        return True
    if isinstance(obj, np.ndarray):
        while isinstance(obj, np.ndarray):  # the memory of a view may be written to by way of its base
            if obj.flags.writeable:
                return True
            obj = obj.base
        return False
    return isinstance(obj, tuple) and any(map(_can_change, obj))


def preserved(obj: Any) -> Any:
    return copy.deepcopy(obj) if _can_change(obj) else obj


# -- what every launch looks up ----------------------------------------------------------------------------------------

Capture = tuple[Callable[[str], Any], str, Any]
"""The look-up of a captured name, the name, and its meaning. The look-ups, which every launch makes, are C functions.
They raise ValueError where a closure variable has no value any more, AttributeError where a class has no such
attribute."""


# Modules whose functions and types are not rebound: they are not asked for at every launch.
_LIBRARIES: Final = frozenset({"diffkern", "numba", "numpy", "math"})


def look_ups(guards: Iterable[Guard], texts: Iterable[TextGuard]) -> list[Capture]:
    """Return the names whose change would change the guarded values: how each is looked up, and its value.

    A built-in of Python is represented by the module's global that would shadow it, which is None as long as there is
    none. The names in diffkern's own modules, NumPy's and Python's mathematics are left out. ``look(name) is value``
    for each tells in a tenth of a microsecond that the fingerprint is still valid.
    """
    found: dict[tuple[int, str], Capture] = {}

    def note(place: object, name: str, capture: Capture) -> None:
        look, looked_up, value = capture
        # A bound comparison by contents: identity does not notice a change in place.
        if _can_change(value):
            capture = partial(_is_unchanged, look, value, _elements(value)), looked_up, True
        if value is not MISSING:
            found.setdefault((id(place), name), capture)

    for guard in guards:
        _note_path(guard.scope, guard.path, note)
    evaluated: list[Capture] = []
    for text in texts:
        if text.is_decided_by_names():
            for path in text.paths():
                _note_path(text.scope, path, note)
        else:
            evaluated.append((text.holds, text.text, True))
    return [*found.values(), *evaluated]


def _note_path(scope: NameScope, path: Path, note: Callable[[object, str, Capture], None]) -> None:
    """Record how each name of a chain is looked up."""
    obj: Any = MISSING
    for depth, name in enumerate(path):
        if depth == 0:
            cell, variables, obj = scope.cell(name), scope.globals, scope.lookup(name)
            if cell is not None:
                note(cell, name, (cell.__getattribute__, "cell_contents", scope.found(name)))
            else:
                found_there = scope.found(name) if name in variables else None
                note(variables, name, (variables.get, name, found_there))
        elif inspect.ismodule(obj):
            library = obj.__name__.partition(".")[0] in _LIBRARIES
            variables, obj = vars(obj), scope.attribute(obj, name)
            fixed = inspect.ismodule(obj) or inspect.isclass(obj) or lowering_key(obj) is not None or _is_type(obj)
            # Functions and types of these modules are never rebound; their data may be, such as `dk.config`.
            if library and fixed:
                continue
            note(variables, name, (variables.get, name, obj))
        elif inspect.isclass(obj):
            cls, obj = obj, scope.attribute(obj, name)
            note(cls, name, (partial(getattr, cls), name, obj))
        elif isinstance(obj, Func):
            variables, obj = vars(obj), scope.attribute(obj, name)
            note(variables, name, (variables.get, name, obj))
        elif (found_there := scope.attribute(obj, name)) is not MISSING:
            owner, obj = obj, found_there
            note(owner, name, (partial(getattr, owner), name, obj))
        else:
            break


def _is_unchanged(look: Callable[[str], Any], value: Any, elements: Any, name: str) -> bool:
    """Return whether a name stands for the same object with the same elements."""
    return look(name) is value and bool(_elements(value) == elements)


def _elements(obj: Any) -> Any:
    """Return the parts of a captured object that can change in place, to be compared at every launch."""
    if isinstance(obj, (np.ndarray, CompositeValue)):
        return obj.tobytes(), obj.shape, obj.dtype
    return tuple(map(_elements, obj)) if isinstance(obj, tuple) else None


def _is_type(obj: Any) -> bool:
    try:
        resolve_dtype(obj)
    except TypeError:
        return False
    return True
