"""The meaning of a kernel's source, as labelled bytes for the cache key.

A Python function gives its syntax tree and those of the funcs it reaches, and the value of everything it captures, in
an encoding of our own: equal for the same program in every process, on every machine and Python version. Comments,
blank lines, docstrings and positions are no part of it; neither are paths, addresses or representations of objects.

The result is kept per function and served again as long as each captured name still means the same.
"""

from __future__ import annotations

import inspect
import os
import weakref
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import field
from functools import partial
from types import CodeType
from typing import Any, Final, cast

from diffkern.frontend.syntax.contents import OPAQUE, contents
from diffkern.frontend.syntax.encoding import encode_object
from diffkern.frontend.syntax.guards import (
    Capture,
    Guard,
    TextGuard,
    annotation_fields,
    check_steady,
    guard_texts,
    look_ups,
    preserved,
    resolve,
)
from diffkern.frontend.syntax.outline import outline_of
from diffkern.frontend.syntax.scope import MISSING, NameScope
from diffkern.frontend.syntax.source import get_source
from diffkern.frontend.syntax.taken import TakenResults
from diffkern.lang import Func
from diffkern.lang.dialects import NATIVE, dialect_of
from diffkern.lang.func import RULES, rules_of
from diffkern.lang.rules import Rule
from diffkern.lang.static import kept_results
from diffkern.process.dataclass import dataclass

__all__ = [
    "ENCODING_VERSION",
    "Meaning",
    "built_ins",
    "captures",
    "fingerprint",
    "may_make_tiles_of_threads",
    "may_multiply_tiles",
    "meaning_of",
    "positions",
]

ENCODING_VERSION: Final = 4


@dataclass(frozen=True, slots=True)
class Meaning:
    """The meaning of a kernel at one time.

    Attributes
    ----------
    fields : list of (str, bytes)
        Its fingerprint.
    guards : list of Guard
        The captured names on which the fingerprint depends.
    texts : list of TextGuard
        The annotations on which it depends.
    codes : list of code
        The code objects of each function, the kernel first.
    reached : list of callable
        The functions it covers besides the kernel (which must stay collectable).
    annotations : list of dict
        For each function, the kernel first, the types that its annotations meant.
    rules : list of tuple
        For each function, the kernel first, the rules that differentiation uses instead of it.
    taken : dict
        For an opaque one, the objects that lowering used, by types of arguments.
    token : str
        A unique token that no other meaning has, in any process.
    """

    fields: list[tuple[str, bytes]]
    guards: list[Guard]
    texts: list[TextGuard]
    codes: list[CodeType]
    reached: list[Callable[..., Any]]
    annotations: list[dict[str, Any]]
    rules: list[tuple[Rule, ...]]
    taken: dict[Hashable, TakenResults] = field(default_factory=dict)
    token: str = field(default_factory=lambda: os.urandom(16).hex())

    @property
    def is_opaque(self) -> bool:
        """True if lowering may look into an object whose contents are not part of the fingerprint."""
        return any(value.startswith(OPAQUE) for _, value in self.fields)

    def holds(self, pyfunc: Callable[..., Any]) -> bool:
        """Return whether everything on which the fingerprint of a kernel depends still means the same."""
        functions = zip((pyfunc, *self.reached), self.codes, self.rules, strict=True)
        if not all(f.__code__ is code and rules_of(f) == rules for f, code, rules in functions):
            return False
        return all(guard.holds() for guard in self.guards) and all(guard.holds() for guard in self.texts)


# A function keeps its own meaning: that leads back to the function, so anything else that kept it would keep both.
_MEANING: Final = "__diffkern_meaning__"


def fingerprint(pyfunc: Callable[..., Any]) -> list[tuple[str, bytes]]:
    """Return labelled fields that distinguish kernels by what they compute.

    Parameters
    ----------
    pyfunc
        The kernel's Python function.

    Returns
    -------
    list of (label, bytes)
        The encoding's version; for the kernel (number 0) and each func it reaches, in the order of first use: its
        tree, the meaning of its annotations and defaults, and each captured name with its value. If these do not
        determine everything that lowering may use, a token is added that no other kernel has, in any process.

    Raises
    ------
    KernelSyntaxError
        If the source of one of the functions cannot be found.
    """
    meaning = meaning_of(pyfunc)
    return [*meaning.fields, *([("token", meaning.token.encode())] if meaning.is_opaque else [])]


def meaning_of(pyfunc: Callable[..., Any], methods: Sequence[Callable[..., Any]] = ()) -> Meaning:
    """Return the present meaning of a kernel, with methods of structs of which it gets instances; errors as of
    :func:`fingerprint`.
    """
    of, kept = pyfunc.__dict__.get(_MEANING, (None, None))
    # What functools.wraps makes has the attributes of another function.
    if not methods and of is not None and of() is pyfunc and kept.holds(pyfunc):
        return cast("Meaning", kept)
    fields: list[tuple[str, bytes]] = [("encoding", b"%d" % ENCODING_VERSION)]
    guards: list[Guard] = []
    texts: dict[tuple[int, str], TextGuard] = {}
    annotations: list[dict[str, Any]] = []
    reached: list[Callable[..., Any]] = [pyfunc, *methods]

    # Funcs are numbered in the order of first use, which is the same in every process; an address is not.
    def number_of(func: Func) -> int:
        if func.pyfunc not in reached:
            reached.append(func.pyfunc)
        return reached.index(func.pyfunc)

    for k, function in enumerate(reached):  # grows while it is walked
        outline = outline_of(function)
        scope = NameScope(function)
        fields.append((f"tree {k}", outline.tree))
        dialect = dialect_of(function)
        if dialect != NATIVE:
            fields.append((f"dialect {k}", dialect.name.encode()))
        if rules := rules_of(function):
            encoded = b",".join(b"%s:%d" % (rule.kind.value.encode(), number_of(rule.func)) for rule in rules)
            fields.append((f"rules {k}", encoded))
        annotations.append({})
        fields.extend(_parameters(k, function, scope, number_of, annotations[k], texts))
        for n, (parameter, text) in enumerate(outline.annotations):
            means = guard_texts(k, scope, text, texts)
            fields.extend(annotation_fields(f"{k} within {n} {parameter}", means, scope, number_of)[1])
        for n, result in enumerate(kept_results(function) or ()):
            fields.append((f"static {k} {n}", contents(result, partial(encode_object, number_of=number_of))))
        for path in outline.captured:
            obj, depth = resolve(scope, path)
            code = encode_object(obj, number_of)
            fields.append((f"captured {k} {'.'.join(path)}", code))
            # With the object itself: a guard first compares by identity, and encodes again only if that fails.
            guards.append(Guard(k, scope, path, depth, preserved(obj), code))
        if dialect.object_attributes:
            check_steady(function, [guard for guard in guards if guard.function == k and guard.depth > 1])
    codes, all_rules = [function.__code__ for function in reached], [rules_of(function) for function in reached]
    made = Meaning(fields, guards, [*texts.values()], codes, reached[1:], annotations, all_rules)
    # With methods the meaning depends on the arguments of a launch, so it is not the function's own.
    if not methods:
        pyfunc.__dict__[_MEANING] = weakref.ref(pyfunc), made
    return made


def may_multiply_tiles(pyfunc: Callable[..., Any]) -> bool:
    """Return whether a kernel or a func it reaches may contain a matrix product of tiles; False if there is certainly
    none.
    """
    values = [value for _, value in fingerprint(pyfunc)]
    # A product needs the built-in or the operator @, and a kernel without any tile has neither.
    if b"builtin:tile_matmul" in values:
        return True
    return any(v.startswith(b"builtin:tile") for v in values) and any(b"(MatMult)" in v for v in values)


_OF_THREADS: Final = frozenset(
    {b"builtin:tile", b"builtin:untile", b"builtin:tile_bvh_query_next", b"builtin:tile_mesh_query_aabb_next"}
)


def may_make_tiles_of_threads(pyfunc: Callable[..., Any]) -> bool:
    """Return whether a kernel or a func it reaches may make a tile of threads' values, or give threads
    elements of one.
    """
    return any(value in _OF_THREADS for _, value in fingerprint(pyfunc))


def built_ins(pyfunc: Callable[..., Any]) -> frozenset[str]:
    """Return the keys of the built-in functions that a kernel or a func it reaches refers to."""
    values = (value for _, value in fingerprint(pyfunc))
    return frozenset(v[8:].decode() for v in values if v.startswith(b"builtin:"))


def positions(pyfunc: Callable[..., Any]) -> list[tuple[str, bytes]]:
    """Return labelled fields with file, line and text of a kernel and the funcs it reaches, for programs that report
    them.
    """
    fields = []
    for k, function in enumerate([pyfunc, *meaning_of(pyfunc).reached]):
        source = get_source(function)
        text = "\n".join((f"{source.file}:{source.first_line}", *source.lines))
        fields.append((f"position {k}", text.encode(errors="surrogatepass")))
    return fields


def captures(meaning: Meaning) -> list[Capture]:
    """Return the names whose change would change the fingerprint: how each is looked up, and its value."""
    of_funcs = (vars(function) for function in meaning.reached)
    rules = [(space.get, RULES, space.get(RULES)) for space in of_funcs]
    return [*look_ups(meaning.guards, meaning.texts), *rules]


def _parameters(
    k: int,
    function: Callable[..., Any],
    scope: NameScope,
    number_of: Callable[[Func], int],
    types: dict[str, Any],
    texts: dict[tuple[int, str], TextGuard],
) -> Iterator[tuple[str, bytes]]:
    """Yield the fields of a function's parameters, and of its result if its annotation is checked.

    The types that their annotations mean are added to ``types``, and the names on which these depend to ``texts``.
    """
    given = inspect.signature(function)
    annotated = {name: parameter.annotation for name, parameter in given.parameters.items()}
    if dialect_of(function).returns_as_annotated and given.return_annotation is not given.empty:
        annotated["return"] = given.return_annotation
    for name, annotation in annotated.items():
        evaluated = guard_texts(k, scope, annotation, texts)
        meant, own = annotation_fields(f"{k} {name}", evaluated, scope, number_of)
        if meant is not MISSING and annotation is not given.empty:
            types[name] = meant
        yield from own
        if name in given.parameters and (default := given.parameters[name].default) is not given.empty:
            yield f"default {k} {name}", encode_object(default, number_of)
