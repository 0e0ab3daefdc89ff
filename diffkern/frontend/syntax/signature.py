"""A kernel's parameters: what their annotations say, and which types they get for given arguments.

Arguments are matched with the parameters of a Python function; an error names the parameter that does not fit.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

from diffkern.errors import KernelSyntaxError, KernelTypeError, Loc
from diffkern.frontend.syntax.scope import NameScope
from diffkern.frontend.syntax.text_annotations import evaluate_annotation
from diffkern.ir import types as T
from diffkern.ir.structs import Argument, IndexedArray, Stored, Struct, StructArray, declared
from diffkern.lang import ArrayAnnotation, resolve_type
from diffkern.lang.annotations import Reference, TileAnnotation
from diffkern.lang.dtypes import object_shown
from diffkern.lang.func import Func
from diffkern.lang.patterns import Pattern, TupleOf, is_callable, pattern_of, tuple_items
from diffkern.process.dataclass import dataclass

__all__ = [
    "Annotation",
    "Signature",
    "SignatureParameter",
    "parameter_type",
    "references",
    "references_of",
    "signature",
]

Annotation: TypeAlias = Stored | ArrayAnnotation | TileAnnotation | Pattern | TupleOf | None
"""The meaning of an annotation; None stands for any type."""

_PASSED_AS_IS: Final = (T.Array, T.Stack, Struct, StructArray, IndexedArray)


@dataclass(frozen=True, slots=True)
class SignatureParameter:
    """One parameter.

    Attributes
    ----------
    annotation
        An element type, an array annotation, or None: any type.
    default
        The default value, or ``inspect.Parameter.empty``.
    pattern
        Which types it takes, if the annotation does not decide.
    """

    name: str
    annotation: Stored | ArrayAnnotation | None
    default: Any = inspect.Parameter.empty
    pattern: Pattern | None = None

    @property
    def has_default(self) -> bool:
        return self.default is not inspect.Parameter.empty


@dataclass(frozen=True, slots=True)
class Signature:
    """The parameters of a kernel, in order."""

    kernel: str
    params: tuple[SignatureParameter, ...]

    @property
    def is_generic(self) -> bool:
        """True if some parameter takes any type, so that the arguments decide."""
        return any(
            p.annotation is None or (isinstance(p.annotation, ArrayAnnotation) and p.annotation.element is None)
            for p in self.params
        )

    def match(self, args: Sequence[Argument]) -> list[Argument]:
        """Return the parameter types for arguments of the given types.

        A float parameter takes any number; an integer parameter takes any integer; an array parameter takes an array of
        its element type and number of axes, in any layout.

        Raises
        ------
        KernelTypeError
            Naming the parameter that does not fit.

        A float parameter takes any number; an integer parameter takes any integer; an array parameter takes an array
        of its element type and number of axes, in any layout.

        Raises
        ------
        KernelTypeError
            Naming the parameter that does not fit.
        """
        if len(args) != len(self.params):
            names = ", ".join(p.name for p in self.params)
            raise KernelTypeError(
                f"{self.kernel} takes {len(self.params)} arguments ({names}), not {len(args)}",
                remedy="pass one argument for each parameter, in order",
            )
        found = [self._one(p, t) for p, t in zip(self.params, args, strict=True)]
        # That the arguments fit each for itself says nothing yet about type variables that several share.
        self.check_generic(found)
        return found

    def check_generic(self, args: Sequence[Argument]) -> None:
        """Refuse arguments that are not of the kinds that generic parameters take.

        Raises
        ------
        KernelTypeError
            Naming the parameter that does not fit, or two for which one type variable would stand for two types.
        """
        for p, t in zip(self.params, args, strict=True):
            what = f"the parameter {p.name} of {self.kernel}"
            kinds = p.annotation.kinds if isinstance(p.annotation, ArrayAnnotation) else None
            # Of an array, the pattern is about its elements.
            element = declared(
                t.dtype if kinds is not None and isinstance(t, (T.Array, StructArray, IndexedArray)) else t
            )
            pattern = kinds or p.pattern
            if pattern is None:
                continue
            # An array is no number, whatever its elements are.
            if isinstance(element, (T.Array, T.Stack, StructArray, IndexedArray)) or not pattern.accepts(element):
                raise KernelTypeError(
                    f"{what} takes {pattern if kinds is None else p.annotation}, not {_type_text(t)}",
                    remedy="pass a type that it takes, or write another annotation",
                )
        self._check_variables(args)

    def _check_variables(self, args: Sequence[Argument]) -> None:
        """Refuse arguments for which one type variable would stand for two types."""
        known: dict[Any, tuple[str, Any]] = {}
        for p, t in zip(self.params, args, strict=True):
            pattern = p.annotation.kinds if isinstance(p.annotation, ArrayAnnotation) else p.pattern
            if pattern is None or pattern.variable is None:
                continue
            element = declared(t.dtype if isinstance(t, (T.Array, StructArray, IndexedArray)) else t)
            # A type variable of vectors of any length stands for the component's type.
            element = element.dtype if isinstance(element, (T.Vec, T.Mat)) and pattern.shape else element
            first, before = known.setdefault(pattern.variable, (p.name, element))
            if before != element:
                raise KernelTypeError(
                    f"{pattern.variable.__name__} is {_type_text(before)} for the parameter {first} of {self.kernel} "
                    f"and {_type_text(element)} for {p.name}",
                    remedy="pass arguments of one type, or annotate them with different type variables",
                )

    def _one(self, parameter: SignatureParameter, given: Argument) -> Argument:
        want = parameter.annotation
        what = f"the parameter {parameter.name} of {self.kernel}"
        if want is None:
            return given if isinstance(given, _PASSED_AS_IS) else T.value_type(given)
        if isinstance(want, ArrayAnnotation):
            if isinstance(given, (T.Array, StructArray, IndexedArray)) and want.accepts(given):
                return given
            raise KernelTypeError(f"{what} takes {want}, not {_type_text(given)}", remedy=_array_hint(want, given))
        if isinstance(want, Struct):
            if declared(given) == want:
                return given
            raise KernelTypeError(f"{what} takes {want.name}, not {_type_text(given)}", remedy=f"pass a {want.name}")
        if isinstance(given, _PASSED_AS_IS):
            raise KernelTypeError(f"{what} takes {want}, not {_type_text(given)}", remedy="pass a single value")
        if not _converts(given, want):
            remedy = "convert it with int(...)" if T.scalar_of(want).is_integer else None
            raise KernelTypeError(f"{what} takes {want}, not {_type_text(given)}", remedy=remedy)
        return T.value_type(want)


def _converts(given: T.Element, want: T.Element) -> bool:
    if given == want:
        return True
    # A vector of another length, or a number instead of a vector, is never converted.
    if T.with_scalar(given, T.BOOL) != T.with_scalar(want, T.BOOL):
        return False
    source, target = T.scalar_of(given), T.scalar_of(want)
    if source == T.BOOL:
        return True
    # From float to integer would lose something, and bool from a number is likely a mistake.
    return (target.is_float or source.is_integer) and target != T.BOOL


def _type_text(t: Argument) -> str:
    if isinstance(t, Struct):
        return f"the struct {t.name}"
    if not isinstance(t, (T.Array, StructArray, IndexedArray)):
        return str(t)
    return f"an array of {t.dtype} with {t.ndim} {'axis' if t.ndim == 1 else 'axes'}"


def _array_hint(want: ArrayAnnotation, given: Argument) -> str:
    if not isinstance(given, (T.Array, StructArray)):
        return "pass an array"
    if given.ndim != want.ndim:
        return f"pass an array with {want.ndim} axes, or change ndim in the annotation"
    return f"convert the array to {want.element}, or change dtype in the annotation"


def signature(pyfunc: Callable[..., Any]) -> Signature:
    """Return the signature of a kernel's Python function.

    Raises
    ------
    KernelSyntaxError
        For ``*args`` or ``**kwargs``.
    KernelTypeError
        For an annotation that means nothing to a kernel.
    """
    code = pyfunc.__code__
    # Annotations have no position of their own at run time.
    loc = Loc(code.co_filename, code.co_firstlineno, 0)
    scope, changed = NameScope(pyfunc), references(pyfunc)
    params = []
    for name, p in inspect.signature(pyfunc).parameters.items():
        if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD):
            raise KernelSyntaxError(
                f"{pyfunc.__name__} has a variable number of parameters", loc=loc, remedy="name each parameter"
            )
        try:
            annotation = parameter_type(p.annotation, scope, name, pyfunc.__name__)
            if isinstance(annotation, TileAnnotation):
                raise TypeError(f"{name} of {pyfunc.__name__} is a tile: those are parameters of funcs alone")
            if p.annotation is tuple:
                raise TypeError(f"{name} of {pyfunc.__name__} is a tuple: those are parameters of funcs alone")
            if name in changed:
                raise TypeError(f"{name} of {pyfunc.__name__} is a reference: those are parameters of funcs alone")
        except TypeError as error:
            from diffkern.frontend.syntax import advice  # for messages alone

            remedy = advice.for_annotation(_evaluated(p.annotation, scope))
            raise KernelTypeError(str(error), loc=loc, remedy=remedy) from None
        if isinstance(annotation, TupleOf):
            raise KernelTypeError(
                f"the parameter {name} of {pyfunc.__name__} is a tuple, which a launch does not take",
                loc=loc,
                remedy="pass its items one by one, a vector, or a struct; a @dk.func takes tuples",
            )
        pattern = annotation if isinstance(annotation, Pattern) else None
        params.append(
            SignatureParameter(name, None if isinstance(annotation, Pattern) else annotation, p.default, pattern)
        )
    return Signature(pyfunc.__name__, tuple(params))


def references(pyfunc: Callable[..., Any]) -> dict[str, int]:
    """Return the parameters of a func that stand for variables of the caller, which it may change, and their places."""
    if not hasattr(pyfunc, "__wrapped__") and not any(map(_may_refer, inspect.get_annotations(pyfunc).values())):
        return {}
    found = {}
    for place, (name, parameter) in enumerate(inspect.signature(pyfunc).parameters.items()):
        annotation = parameter.annotation
        # Most annotations have no reference; evaluating text that is wrong would be an error in the wrong place.
        if isinstance(annotation, str) and "ref" in annotation:
            with contextlib.suppress(Exception):  # which is an error where the parameter's type is asked for
                annotation = evaluate_annotation(annotation, NameScope(pyfunc))
        if isinstance(annotation, Reference) and annotation.is_changed:
            found[name] = place
    return found


def _may_refer(annotation: Any) -> bool:
    return isinstance(annotation, (str, Reference))


def references_of(func: Func) -> dict[str, int]:
    """Return those of all overloads of a func."""
    found: dict[str, int] = {}
    # Which overload is called is known later, so whatever one of them may change counts.
    for overload in func.overloads or (func,):
        found |= references(overload.pyfunc)
    return found


def _evaluated(annotation: Any, scope: NameScope) -> Any:
    """Return what an annotation in text form stands for; the text if it cannot be evaluated."""
    try:
        return evaluate_annotation(annotation, scope) if isinstance(annotation, str) else annotation
    except Exception:
        return annotation


def parameter_type(annotation: Any, scope: NameScope, name: str, owner: str) -> Annotation:
    """Return what a parameter's annotation means; None without one.

    Raises
    ------
    TypeError
        If it means nothing to a kernel.
    """
    if annotation is inspect.Parameter.empty or annotation is Any:
        return None
    if isinstance(annotation, str):
        try:
            annotation = evaluate_annotation(annotation, scope)
        except Exception as error:
            why = str(error).partition("\n")[0]
            raise TypeError(f"the annotation {annotation!r} of {name} cannot be evaluated: {why}") from None
        if annotation is Any:
            return None
    if isinstance(annotation, Reference):
        # Whether it may be changed is asked for by :func:`references`.
        return parameter_type(annotation.dtype, scope, name, owner)
    if isinstance(annotation, (ArrayAnnotation, TileAnnotation, TupleOf)):
        return annotation
    items = tuple_items(annotation)
    if items is not None:
        return TupleOf(tuple(parameter_type(item, scope, name, owner) for item in items[0]), items[1])
    # Of a function or a tuple of any items, the argument says everything.
    if annotation is tuple or annotation is Func or is_callable(annotation):
        return None
    try:
        return pattern_of(annotation) or resolve_type(annotation)
    except TypeError:
        shown = getattr(annotation, "__qualname__", None) or object_shown(annotation)
        raise TypeError(f"the annotation of {name} in {owner} is no kernel type: {shown}") from None
