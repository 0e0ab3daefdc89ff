"""What a kernel's source means, as labelled bytes for the cache key.

In: a Python function. Out: its syntax tree and those of the funcs it reaches, and the value of everything it captures,
in an encoding of our own: equal for the same program in every process, on every machine and Python version. Comments,
blank lines, docstrings and positions are no part of it; neither are paths, addresses or representations of objects.

The result is kept per function and served again as long as each captured name still means the same.
"""

from __future__ import annotations

import copy
import inspect
import uuid
import weakref
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, cast

import numpy as np

from diffkern.frontend.contents import OPAQUE, contents
from diffkern.frontend.encoding import encode_object
from diffkern.frontend.outline import outline_of
from diffkern.frontend.scope import MISSING, Scope
from diffkern.frontend.signature import parameter_type
from diffkern.frontend.source import get_source
from diffkern.frontend.survey import Path
from diffkern.frontend.taken import Taken
from diffkern.lang import ArrayAnnotation, CompositeValue, Func, resolve_dtype
from diffkern.lang.dialects import NATIVE, dialect_of
from diffkern.lang.func import RULES, rules_of
from diffkern.lang.intrinsics import lowering_key
from diffkern.lang.rules import Rule
from diffkern.lang.static import kept_results
from diffkern.lang.structs import functions_of

__all__ = [
    "ENCODING_VERSION",
    "Guard",
    "Meaning",
    "built_ins",
    "captures",
    "fingerprint",
    "may_make_tiles_of_threads",
    "may_multiply_tiles",
    "meaning_of",
    "positions",
]

ENCODING_VERSION: Final = 3


# -- what a function captures ------------------------------------------------------------------------------------------


def _resolve(scope: Scope, path: Path) -> tuple[Any, int]:
    """The object at the end of a chain, as far as it leads through known attributes, and how far that is."""
    obj = scope.lookup(path[0])
    for depth, name in enumerate(path[1:], 1):
        following = scope.attribute(obj, name)
        if following is MISSING:
            return (obj if not inspect.ismodule(obj) and not inspect.isclass(obj) else MISSING), depth
        obj = following
    return obj, len(path)


@dataclass(frozen=True, slots=True)
class Guard:
    """A captured name and what it meant; the fingerprint holds as long as it does.

    Attributes
    ----------
    function : int
        The number of the function that captures it.
    scope, path
        Where it is looked up.
    depth : int
        How many names of the path lead to the object.
    obj
        The object; of one that can be changed in place, a copy.
    code : bytes
        The same as bytes.
    """

    function: int
    scope: Scope
    path: Path
    depth: int
    obj: Any
    code: bytes

    def holds(self) -> bool:
        """Whether the name still means the same."""
        obj, _ = _resolve(self.scope, self.path)
        if obj is self.obj:
            return True
        if isinstance(obj, Func) or isinstance(self.obj, Func):
            return False
        return encode_object(obj, lambda _: -1) == self.code


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a kernel means at one time.

    Attributes
    ----------
    fields : list of (str, bytes)
        Its fingerprint.
    guards : list of Guard
        What the fingerprint rests on.
    reached : list of callable
        The functions it covers besides the kernel (which must stay collectable).
    annotations : list of dict
        For each function, the kernel first, the types that its annotations meant.
    rules : list of tuple
        For each function, the kernel first, what differentiation takes instead of it.
    taken : dict
        Of one that is opaque, what lowering took for types of arguments.
    token : str
        What no other meaning has, in any process.
    """

    fields: list[tuple[str, bytes]]
    guards: list[Guard]
    reached: list[Callable[..., Any]]
    annotations: list[dict[str, Any]]
    rules: list[tuple[Rule, ...]]
    taken: dict[Hashable, Taken] = field(default_factory=dict)
    token: str = field(default_factory=lambda: uuid.uuid4().hex)

    @property
    def is_opaque(self) -> bool:
        """Whether lowering may look into an object whose contents the fingerprint does not tell."""
        return any(value.startswith(OPAQUE) for _, value in self.fields)

    def holds(self, pyfunc: Callable[..., Any]) -> bool:
        """Whether all that the fingerprint of a kernel rests on still means the same."""
        functions = zip((pyfunc, *self.reached), self.rules, strict=True)
        return all(rules_of(f) == kept for f, kept in functions) and all(guard.holds() for guard in self.guards)


# A function keeps its own meaning: that leads back to the function, so anything else that kept it would keep both.
_MEANING: Final = "__diffkern_meaning__"


def fingerprint(pyfunc: Callable[..., Any]) -> list[tuple[str, bytes]]:
    """Labelled fields that distinguish kernels by what they compute.

    Parameters
    ----------
    pyfunc
        The kernel's Python function.

    Returns
    -------
    list of (label, bytes)
        The encoding's version; for the kernel (number 0) and each func it reaches, in the order of first use: its
        tree, the meaning of its annotations and defaults, and each captured name with its value. Where these do not
        say all that lowering may take, a token is added that no other kernel has, in any process.

    Raises
    ------
    KernelSyntaxError
        If the source of one of the functions cannot be found.
    """
    meaning = meaning_of(pyfunc)
    return [*meaning.fields, *([("token", meaning.token.encode())] if meaning.is_opaque else [])]


def meaning_of(pyfunc: Callable[..., Any], methods: Sequence[Callable[..., Any]] = ()) -> Meaning:
    """What a kernel means now, with methods of structs of which it gets instances; errors as of :func:`fingerprint`."""
    of, kept = pyfunc.__dict__.get(_MEANING, (None, None))
    # What functools.wraps makes has the attributes of another function.
    if not methods and of is not None and of() is pyfunc and kept.holds(pyfunc):
        return cast("Meaning", kept)
    fields: list[tuple[str, bytes]] = [("encoding", b"%d" % ENCODING_VERSION)]
    guards: list[Guard] = []
    annotations: list[dict[str, Any]] = []
    reached: list[Callable[..., Any]] = [pyfunc, *methods]

    def number_of(func: Func) -> int:
        if func.pyfunc not in reached:
            reached.append(func.pyfunc)
        return reached.index(func.pyfunc)

    for k, function in enumerate(reached):  # grows while it is walked
        outline = outline_of(function)
        scope = Scope(function)
        fields.append((f"tree {k}", outline.tree))
        if (dialect := dialect_of(function)) != NATIVE:
            fields.append((f"dialect {k}", dialect.name.encode()))
        if rules := rules_of(function):
            encoded = b",".join(b"%s:%d" % (rule.kind.value.encode(), number_of(rule.func)) for rule in rules)
            fields.append((f"rules {k}", encoded))
        annotations.append({})
        fields.extend(_parameters(k, function, scope, number_of, annotations[k]))
        for n, result in enumerate(kept_results(function) or ()):
            fields.append((f"static {k} {n}", contents(result, partial(encode_object, number_of=number_of))))
        for path in outline.captured:
            obj, depth = _resolve(scope, path)
            code = encode_object(obj, number_of)
            fields.append((f"captured {k} {'.'.join(path)}", code))
            guards.append(Guard(k, scope, path, depth, _kept(obj), code))
    made = Meaning(fields, guards, reached[1:], annotations, [rules_of(function) for function in reached])
    if not methods:
        pyfunc.__dict__[_MEANING] = weakref.ref(pyfunc), made
    return made


def _can_change(obj: Any) -> bool:
    """Whether an object is a vector or a table of NumPy's that can be changed in place, or a tuple that holds one."""
    if isinstance(obj, CompositeValue):
        return True
    if isinstance(obj, np.ndarray):
        while isinstance(obj, np.ndarray):  # the memory of a view may be written to by way of its base
            if obj.flags.writeable:
                return True
            obj = obj.base
        return False
    return isinstance(obj, tuple) and any(map(_can_change, obj))


def _kept(obj: Any) -> Any:
    return copy.deepcopy(obj) if _can_change(obj) else obj


def may_multiply_tiles(pyfunc: Callable[..., Any]) -> bool:
    """Whether a kernel or a func it reaches may hold a matrix product of tiles; False where there is certainly none."""
    values = [value for _, value in fingerprint(pyfunc)]
    if b"builtin:tile_matmul" in values:
        return True
    return any(v.startswith(b"builtin:tile") for v in values) and any(b"(MatMult)" in v for v in values)


_OF_THREADS: Final = frozenset(
    {b"builtin:tile", b"builtin:untile", b"builtin:tile_bvh_query_next", b"builtin:tile_mesh_query_aabb_next"}
)


def may_make_tiles_of_threads(pyfunc: Callable[..., Any]) -> bool:
    """Whether a kernel or a func it reaches may make a tile of what threads hold, or give threads elements of one."""
    return any(value in _OF_THREADS for _, value in fingerprint(pyfunc))


def built_ins(pyfunc: Callable[..., Any]) -> frozenset[str]:
    """The keys of the built-in functions that a kernel or a func it reaches refers to."""
    values = (value for _, value in fingerprint(pyfunc))
    return frozenset(v[8:].decode() for v in values if v.startswith(b"builtin:"))


def positions(pyfunc: Callable[..., Any]) -> list[tuple[str, bytes]]:
    """Labelled fields with file, line and text of a kernel and the funcs it reaches, for programs that report them."""
    fields = []
    for k, function in enumerate([pyfunc, *meaning_of(pyfunc).reached]):
        source = get_source(function)
        text = "\n".join((f"{source.file}:{source.first_line}", *source.lines))
        fields.append((f"position {k}", text.encode(errors="surrogatepass")))
    return fields


Capture = tuple[Callable[[str], Any], str, Any]
"""How a captured name is looked up, the name, and what it meant.

The look-ups, which every launch makes, are functions in C. They raise ValueError where a closure variable has no value
any more, AttributeError where a class has no such attribute.
"""


# Modules whose functions and types are not rebound: they are not asked for at every launch.
_LIBRARIES: Final = frozenset({"diffkern", "numba", "numpy", "math"})


def captures(meaning: Meaning) -> list[Capture]:
    """The names whose change would change the fingerprint: how each is looked up, and what it meant.

    A built-in of Python stands as the module's global that would shadow it, which is None as long as there is none.
    What diffkern's own modules, NumPy's and Python's mathematics call theirs is left out. ``look(name) is value`` for
    each tells in a tenth of a microsecond that the fingerprint still holds.
    """
    found: dict[tuple[int, str], Capture] = {}

    def note(place: object, name: str, capture: Capture) -> None:
        look, looked_up, value = capture
        if _can_change(value):
            capture = partial(_is_unchanged, look, value, _elements(value)), looked_up, True
        if value is not MISSING:
            found.setdefault((id(place), name), capture)

    for guard in meaning.guards:
        obj: Any = MISSING
        for depth, name in enumerate(guard.path):
            if depth == 0:
                cell, variables, obj = guard.scope.cell(name), guard.scope.globals, guard.scope.lookup(name)
                if cell is not None:
                    note(cell, name, (cell.__getattribute__, "cell_contents", guard.scope.found(name)))
                else:
                    found_there = guard.scope.found(name) if name in variables else None
                    note(variables, name, (variables.get, name, found_there))
            elif inspect.ismodule(obj):
                library = obj.__name__.partition(".")[0] in _LIBRARIES
                variables, obj = vars(obj), guard.scope.attribute(obj, name)
                if library and (inspect.ismodule(obj) or lowering_key(obj) is not None or _is_type(obj)):
                    continue
                note(variables, name, (variables.get, name, obj))
            elif inspect.isclass(obj):
                cls, obj = obj, guard.scope.attribute(obj, name)
                note(cls, name, (partial(getattr, cls), name, obj))
            elif isinstance(obj, Func):
                variables, obj = vars(obj), guard.scope.attribute(obj, name)
                note(variables, name, (variables.get, name, obj))
            elif (found_there := guard.scope.attribute(obj, name)) is not MISSING:
                owner, obj = obj, found_there
                note(owner, name, (partial(getattr, owner), name, obj))
            else:
                break
    of_funcs = (vars(function) for function in meaning.reached)
    return [*found.values(), *((space.get, RULES, space.get(RULES)) for space in of_funcs)]


def _is_unchanged(look: Callable[[str], Any], value: Any, elements: Any, name: str) -> bool:
    """Whether a name stands for the same object with the same elements."""
    return look(name) is value and bool(_elements(value) == elements)


def _elements(obj: Any) -> Any:
    """What can be changed in place of a captured object, to be compared: this is done at every launch."""
    if isinstance(obj, (np.ndarray, CompositeValue)):
        return obj.tobytes(), obj.shape, obj.dtype
    return tuple(map(_elements, obj)) if isinstance(obj, tuple) else None


def _is_type(obj: Any) -> bool:
    try:
        resolve_dtype(obj)
    except TypeError:
        return False
    return True


def _parameters(
    k: int, function: Callable[..., Any], scope: Scope, number_of: Callable[[Func], int], types: dict[str, Any]
) -> Iterator[tuple[str, bytes]]:
    """The fields of a function's parameters; the types that their annotations mean go into ``types``."""
    for name, parameter in inspect.signature(function).parameters.items():
        try:
            annotation = parameter_type(parameter.annotation, scope, name, function.__name__)
        except TypeError:  # refused when the kernel is lowered
            yield f"annotation {k} {name}", b"invalid"
        else:
            if annotation is not None:
                types[name] = annotation
                yield f"annotation {k} {name}", str(annotation).encode()
                stored = annotation.element if isinstance(annotation, ArrayAnnotation) else annotation
                for method, func in functions_of(stored):
                    yield f"method {k} {name} {method}", b"%d" % number_of(func)
            elif parameter.annotation is not parameter.empty:
                types[name] = Any
        if parameter.default is not parameter.empty:
            yield f"default {k} {name}", encode_object(parameter.default, number_of)
