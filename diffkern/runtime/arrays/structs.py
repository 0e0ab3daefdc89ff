"""``@dk.struct``: classes of structs, and their instances on the host.

A class with annotated fields is changed so that its instances check and convert what is assigned to a field, and
kernels take them by value and as elements of arrays. An instance holds numbers as Python numbers of the field's
precision, vectors and matrices as values such as ``dk.vec3(…)``, structs by value.
"""

from __future__ import annotations

import copy
import ctypes
import functools
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from types import FrameType, FunctionType
from typing import Any, Final, TypeVar

import numpy as np

from diffkern.errors import KernelTypeError, Loc, MisuseError, described
from diffkern.ir.structs import FieldType, Struct, StructArray
from diffkern.ir.types import BFLOAT16, BOOL, FLOAT32, FLOAT64, Array, Mat, Scalar, Vec, scalar_of, value_type
from diffkern.lang.annotations import ArrayAnnotation
from diffkern.lang.dialects import NATIVE, Dialect
from diffkern.lang.dtypes import SCALARS, bfloat16_bits, bfloat16_values, composite_type
from diffkern.lang.func import Func
from diffkern.lang.lazy_annotations import stated_annotations
from diffkern.lang.structs import (
    GENERATION,
    Constant,
    Definition,
    array_field,
    class_of,
    definition_of,
    register,
    resolve_type,
)
from diffkern.lang.values import CompositeValue, InC
from diffkern.process.dataclass import dataclass
from diffkern.process.tracebacks import Entrance
from diffkern.process.uncopied import Uncopied
from diffkern.runtime.arrays.array import array, wrap
from diffkern.runtime.arrays.complexes import as_parts
from diffkern.runtime.arrays.convert import (
    as_numpy,
    component_shape,
    convert,
    stored_type,
    wrapped,
)
from diffkern.runtime.arrays.placeholder import Placeholder

__all__ = ["arrays_in", "declared", "element_values", "from_element", "struct"]

_Class = TypeVar("_Class", bound=type)
_PLAN: Final = "__diffkern_plan__"


def struct(cls: _Class) -> _Class:
    """Make a class of structs: ``@dk.struct`` over a class with annotated fields.

    A field is a number, a vector or matrix, an array (``dk.array(dtype=…, ndim=…)``) or another struct. A field may
    have a default; without one it is zero, or None for an array. ``S(1.0, name=2.0)`` sets fields in order or by name.
    Methods and properties may be used in kernels as on the host; in kernels they cannot change ``self``, which is a
    value.

    Parameters
    ----------
    cls : type
        The class. It is changed in place and returned.

    Returns
    -------
    type
        The class that was given.

    Raises
    ------
    KernelTypeError
        For a field that no struct can have, with its line.
    """
    with Entrance("@dk.struct", cls):
        return declared(cls, sys._getframe(1))


def declared(cls: _Class, frame: FrameType, dialect: Dialect = NATIVE, base: type = object) -> _Class:
    """Make a class of structs; annotations as text mean names of its module and of the frame that defines it.

    A class of diffkern's own may have a base, whose methods are the host's alone.
    """
    if not isinstance(cls, type):
        raise MisuseError(
            f"@dk.struct decorates a class, not {cls!r}",
            remedy="write @dk.struct above class S: with a type for each field",
        )
    if cls.__bases__ != (base,):
        raise _error(cls, None, f"the struct {cls.__name__} is derived from another class", "nest the other struct")
    fields: list[tuple[str, FieldType]] = []
    defaults: dict[str, Any] = {}
    for name, annotation in stated_annotations(cls).items():
        meant = _annotation(cls, name, annotation, frame)
        fields.append((name, _field_type(cls, name, meant)))
        nested = definition_of(meant)
        if not dialect.struct_defaults:
            continue  # a value in the class remains an attribute of it, which an instance's field hides
        if name in vars(cls):
            defaults[name] = _default(cls, name, fields[-1][1], vars(cls)[name])
            delattr(cls, name)
        elif nested is not None and nested.defaults:
            defaults[name] = _usual(nested.type, nested.defaults)
    found = Struct(cls.__name__, tuple(fields))
    methods = {name: Func(f, dialect) for name, f in vars(cls).items() if _is_method(name, f)}
    properties = {name: Func(p.fget, dialect) for name, p in vars(cls).items() if isinstance(p, property) and p.fget}
    cls.__init__ = _init  # type: ignore[misc]
    cls.__setattr__ = _set  # type: ignore[method-assign,assignment]
    cls.__delattr__ = _delete  # type: ignore[method-assign,assignment]
    cls.__repr__ = _repr  # type: ignore[method-assign,assignment]
    cls.__eq__ = _equal  # type: ignore[method-assign,assignment]
    # Instances are mutable and compare by value, so that they must not be hashed.
    cls.__hash__ = None  # type: ignore[assignment]
    cls.__copy__ = copied  # type: ignore[attr-defined]
    for name, method in _METHODS.items():
        if name not in found.names and name not in vars(cls):
            setattr(cls, name, method)
    register(cls, Definition(found, defaults, dialect, methods, properties))
    return cls


def _is_method(name: str, value: Any) -> bool:
    return isinstance(value, FunctionType) and not name.startswith("__")


# -- the class ---------------------------------------------------------------------------------------------------------


def _error(cls: type, field: str | None, message: str, remedy: str) -> KernelTypeError:
    """Return an error that points to a field, or to the class."""
    try:
        lines, first = inspect.getsourcelines(cls)
        path = inspect.getsourcefile(cls) or "?"
    except (OSError, TypeError):  # typed at a prompt
        return KernelTypeError(message, remedy=remedy)
    for k, line in enumerate(lines):
        text = line.lstrip()
        if text.startswith("class ") if field is None else text.partition(":")[0].strip() == field:
            loc = Loc(path, first + k, len(line) - len(text), text=line.rstrip("\n"))
            return KernelTypeError(message, loc=loc, remedy=remedy)
    return KernelTypeError(message, loc=Loc(path, first, 0), remedy=remedy)


def _annotation(cls: type, name: str, annotation: Any, frame: FrameType) -> Any:
    """Return the meaning of an annotation, which may be text."""
    where = f"the field {name} of {cls.__name__}"
    if name.startswith("_"):
        raise _error(cls, name, f"{where} begins with an underscore", "choose another name")
    for _ in range(2):  # text in text, where annotations are text already
        if isinstance(annotation, str):
            if annotation.strip("'\"") == cls.__name__:
                raise _error(cls, name, f"{where} is a {cls.__name__} itself", "hold an index into an array instead")
            try:
                # A module that is run from its file without being imported is not among the modules.
                module = sys.modules.get(cls.__module__)
                annotation = eval(annotation, frame.f_globals if module is None else vars(module), frame.f_locals)
            except Exception as error:
                message = f"the annotation {annotation!r} of {where} cannot be evaluated: {error}"
                raise _error(cls, name, message, "define before it what it names") from error
    return annotation


def _field_type(cls: type, name: str, annotation: Any) -> FieldType:
    where = f"the field {name} of {cls.__name__}"
    if isinstance(annotation, ArrayAnnotation):
        if annotation.element is None:
            raise _error(cls, name, f"{where} is an array of any dtype", "state one, as in dk.array(dtype=float)")
        return array_field(annotation.element, annotation.ndim)
    try:
        return resolve_type(annotation)
    except TypeError as error:
        raise _error(
            cls, name, f"{where} has no kernel type: {error}", "use a dtype, dk.array(dtype=...), or another struct"
        ) from error


def _default(cls: type, name: str, t: FieldType, value: Any) -> Any:
    where = f"the default of the field {name} of {cls.__name__}"
    if isinstance(t, (Array, StructArray)):
        raise _error(cls, name, f"{where} is an array, which can have none", "assign it to each instance")
    try:
        return _constant(t, _as_field(t, value, where))
    except (TypeError, ValueError, OverflowError) as error:
        raise _error(cls, name, str(error), "give a value of the field's type") from error


def _usual(struct: Struct, defaults: Mapping[str, Any]) -> Constant:
    """Return the default of a nested struct with defaults of its own; its other fields are zero."""
    return Constant(struct, tuple(defaults[n] if n in defaults else _no_value(t) for n, t in struct.fields))


def _no_value(t: FieldType) -> Any:
    if isinstance(t, Struct):
        return Constant(t, tuple(_no_value(inner) for _, inner in t.fields))
    return _constant(t, _zero(t))


def _constant(t: FieldType, value: Any) -> Any:
    """Return a default in the form that the compiler takes: with an explicit type, and immutable."""
    if isinstance(t, Struct):
        values = tuple(_constant(inner, getattr(value, name)) for name, inner in t.fields)
        if any(v is None for v in values):
            raise TypeError(f"a {t.name} with arrays cannot be a default")
        return Constant(t, values)
    if isinstance(t, (Array, StructArray)):
        return None
    if isinstance(t, Scalar):
        return bool(value) if t == BOOL else SCALARS[str(value_type(t))].numpy.type(value)
    return composite_type(t)(value)


# -- instances ---------------------------------------------------------------------------------------------------------


def _definition(instance: object) -> Definition:
    return _definition_of(type(instance))


def _definition_of(cls: type) -> Definition:
    found = definition_of(cls)
    if found is None:
        raise TypeError(f"{cls.__name__} is derived from a struct, which cannot be extended")
    return found


@dataclass(frozen=True, slots=True)
class _InstancePlan:
    """The beginning of instances of a class, and the values that its fields take as they are.

    Attributes
    ----------
    generation
        Of the classes that stand for struct types, for which it holds.
    fixed
        Values of all fields, those that a new instance needs for itself as None.
    composites, structs, others
        Functions that make vectors and matrices, classes of structs without a default, and other defaults: by field.
    exact
        The types of values that are taken quickly, with a function that does it, by field.
    """

    generation: int
    fixed: dict[str, Any]
    composites: list[tuple[str, Callable[[], CompositeValue]]]
    structs: list[tuple[str, type]]
    others: list[tuple[str, FieldType, Any]]
    exact: dict[str, tuple[type, Callable[[Any], Any]]]


def _plan(cls: type) -> _InstancePlan:
    """Return the plan of a class, made when it is first needed."""
    found: _InstancePlan | None = cls.__dict__.get(_PLAN)
    if found is not None and found.generation == GENERATION[0]:
        return found
    definition = _definition_of(cls)
    plan = _InstancePlan(GENERATION[0], {}, [], [], [], {})
    for name, t in definition.type.fields:
        default = definition.defaults.get(name)
        plan.fixed[name] = None
        if isinstance(default, Constant):
            plan.others.append((name, t, default))
        elif isinstance(t, Struct):
            plan.structs.append((name, class_of(t)))
        else:
            value = _zero(t) if default is None else _from_constant(t, default)
            if isinstance(value, CompositeValue):
                maker = _maker(type(value))
                plan.composites.append((name, value.copy if maker is None else functools.partial(maker, bytes(value))))
            else:
                plan.fixed[name] = value
        if (kind := _exact(t)) is not None:
            plan.exact[name] = kind
    setattr(cls, _PLAN, plan)
    return plan


def _exact(t: FieldType) -> tuple[type, Callable[[Any], Any]] | None:
    """Return the type of values that a field takes without a conversion, and a function that returns what it holds.

    The function returns ``_REFUSED`` for values that have to be looked at.
    """
    if isinstance(t, Array):
        return array, lambda a: a if a._element == t.dtype and a.ndim == t.ndim else _REFUSED
    if isinstance(t, (Struct, StructArray)) or scalar_of(t) in (BFLOAT16, BOOL):
        return None
    if not isinstance(t, Scalar):
        kind = composite_type(t)
        maker = _maker(kind)
        return kind, copy.copy if maker is None else lambda value: maker(bytes(value))
    if t == FLOAT64:
        return float, float
    if t == FLOAT32:
        # A number that overflows, or is none, goes the long way.
        return float, lambda x: float(np.float32(x)) if abs(x) < _LARGE else _REFUSED
    # Of larger integers the type decides: they wrap around, or are an error.
    return None if t.is_float else (int, lambda x: x if 0 <= x < _SMALL else _REFUSED)


def _maker(kind: type) -> Callable[[bytes], Any] | None:
    """Return the function that makes a vector or matrix of its bytes, if one is at hand that takes less than a copy."""
    return functools.partial(_of_bytes, kind) if issubclass(kind, InC) else None


_of_bytes: Final[Callable[[type, bytes], Any]] = type(ctypes.Array).from_buffer_copy
_REFUSED: Final = object()
_LARGE, _SMALL = 3e38, 128


_new, _assign = object.__new__, object.__setattr__


def _blank(cls: type) -> dict[str, Any]:
    """Return the values of a new instance."""
    plan = _plan(cls)
    made = plan.fixed.copy()
    for name, make in plan.composites:
        made[name] = make()
    for name, inner in plan.structs:
        nested: Any = _new(inner)
        made[name] = nested
        _assign(nested, "__dict__", _blank(inner))
    for name, t, default in plan.others:
        made[name] = _from_constant(t, default)
    return made


def _init(self: Any, *args: Any, **kwargs: Any) -> None:
    if not args and not kwargs:
        _assign(self, "__dict__", _blank(type(self)))
        return
    definition = _definition(self)
    fields = definition.type.fields
    name = definition.type.name
    if len(args) > len(fields):
        raise TypeError(f"{name} has {len(fields)} fields, not {len(args)}")
    given = dict(zip(definition.type.names, args, strict=False))
    for key, value in kwargs.items():
        if key in given:
            raise TypeError(f"{name} gets the field {key!r} twice")
        given[key] = value
    for key, t in fields:
        if key not in given:
            default = definition.defaults.get(key)
            # Zeros and defaults are of the right type already, and skip the check of assignments.
            vars(self)[key] = _zero(t) if default is None else _from_constant(t, default)
    for key, value in given.items():
        setattr(self, key, value)


def _zero(t: FieldType) -> Any:
    if isinstance(t, (Array, StructArray)):
        return None
    if isinstance(t, Struct):
        made: Any = object.__new__(class_of(t))
        vars(made).update((name, _zero(inner)) for name, inner in t.fields)
        return made
    if isinstance(t, Scalar):
        return bool(0) if t == BOOL else 0.0 if t.is_float else 0
    return composite_type(t)(0)


def _from_constant(t: FieldType, value: Any) -> Any:
    if isinstance(value, Constant):
        made: Any = object.__new__(class_of(value.type))
        for (name, inner), item in zip(value.type.fields, value.values, strict=True):
            vars(made)[name] = _from_constant(inner, item)
        return made
    return _as_field(t, value, "a default")


def _set(self: Any, name: str, value: Any) -> None:
    exact = _plan(type(self)).exact.get(name)
    if exact is not None and type(value) is exact[0] and (quick := exact[1](value)) is not _REFUSED:
        vars(self)[name] = quick
        return
    definition = _definition(self)
    for known, t in definition.type.fields:
        if known == name:
            if definition.dialect.integers_wrap and isinstance(t, (Scalar, Vec, Mat)):
                value = wrapped(value, scalar_of(t))
            vars(self)[name] = _as_field(t, value, f"the field {name} of {definition.type.name}")
            return
    fields = ", ".join(definition.type.names)
    raise AttributeError(f"{definition.type.name} has no field {name!r}; its fields are {fields}")


def _delete(self: Any, name: str) -> None:
    raise AttributeError(f"a field of {type(self).__name__} cannot be deleted")


def _as_field(t: FieldType, value: Any, what: str) -> Any:
    """Return a value converted for a field."""
    if isinstance(t, (Array, StructArray)):
        return _as_array(t, value, what)
    if isinstance(t, Struct):
        found = definition_of(type(value))
        if found is None or found.type != t:
            raise TypeError(f"{what} takes a {t.name}, not {type(value).__name__} {described(value)}")
        # Structs are values: a later change of the assigned object must not change the field.
        return copied(value)
    numbers, _ = as_parts(as_numpy(value), t)
    if isinstance(t, Mat) and numbers.shape == (t.rows * t.cols,):  # row by row
        numbers = numbers.reshape(t.shape)
    if numbers.shape != component_shape(t):
        raise TypeError(f"{what} takes {t}, not {described(value)}")
    scalar = scalar_of(t)
    try:
        stored = convert(numbers, scalar)
    except (TypeError, OverflowError) as error:
        raise type(error)(f"{what} takes {t}, not {described(value)}: {error}") from None
    if scalar == BFLOAT16:
        # The host shows the number that kernels compute with.
        stored = bfloat16_values(bfloat16_bits(numbers))
    if isinstance(t, Scalar):
        return stored.item()
    return composite_type(t).wrap(np.array(stored))


def _as_array(t: Array | StructArray, value: Any, what: str) -> array | None:
    if value is None:
        return None
    if isinstance(value, Placeholder):
        if (value.element, value.ndim) != (t.dtype, t.ndim):
            raise TypeError(f"{what} takes {_type_text(t)}, not {value}")
        return None
    if not isinstance(value, array):
        if not isinstance(value, np.ndarray):
            raise TypeError(f"{what} takes {_type_text(t)}, not {type(value).__name__}")
        value = wrap(value, t.dtype)
    held: array = value
    if held._element != t.dtype or held.ndim != t.ndim:
        raise TypeError(f"{what} takes {_type_text(t)}, not {described(value)}")
    return held


def _type_text(t: Array | StructArray) -> str:
    return f"array{t.ndim}d<{t.dtype.name if isinstance(t.dtype, Struct) else t.dtype}>"


def copied(instance: Any) -> Any:
    """Return a struct with the same values; arrays and textures are the same ones."""
    if isinstance(instance, Uncopied):
        return instance
    definition = _definition(instance)
    made = object.__new__(type(instance))
    for name, t in definition.type.fields:
        value = vars(instance)[name]
        if isinstance(t, Struct):
            value = copied(value)
        elif isinstance(value, CompositeValue):
            value = value.copy()
        vars(made)[name] = value
    return made


def _numpy_dtype(cls: type) -> np.dtype[Any]:
    """Return the structured NumPy type of elements of arrays of this struct."""
    definition = definition_of(cls)
    assert definition is not None
    return stored_type(definition.type)


def _numpy_value(self: Any) -> Any:
    """Return the struct as an element of NumPy's structured arrays."""
    return np.array([element_values(self)], stored_type(_definition(self).type))[0]


def _to(self: Any, device: Any) -> Any:
    """Return a struct with the same values whose arrays lie on a device."""
    made = copied(self)
    for name, value in vars(made).items():
        if isinstance(value, array) or definition_of(type(value)) is not None:
            vars(made)[name] = value.to(device) if isinstance(value, array) else _to(value, device)
    return made


_METHODS: Final[dict[str, Any]] = {"numpy_dtype": classmethod(_numpy_dtype), "numpy_value": _numpy_value, "to": _to}
"""Attributes of struct classes, unless a field has the name."""


def _repr(self: Any) -> str:
    inside = ", ".join(f"{name}={described(vars(self)[name])}" for name in _definition(self).type.names)
    return f"{type(self).__name__}({inside})"


def _equal(self: Any, other: object) -> Any:
    if type(other) is not type(self):
        return NotImplemented
    pairs = [(vars(self)[name], vars(other)[name]) for name in _definition(self).type.names]
    # Arrays compare element by element, which is no truth value; the same array is what counts here.
    return all(a is b if isinstance(a, array) or isinstance(b, array) else a == b for a, b in pairs)


# -- elements of arrays ------------------------------------------------------------------------------------------------


def element_values(instance: Any) -> tuple[Any, ...]:
    """Return the fields of a struct as NumPy stores them in an element."""
    out: list[Any] = []
    for name, t in _definition(instance).type.fields:
        value = vars(instance)[name]
        if isinstance(t, Struct):
            value = element_values(value)
        elif isinstance(t, Array):
            # An array in an element is its descriptor: address, extents and strides, all zero for None.
            value = np.zeros(1 + 2 * t.ndim, np.uint64) if value is None else np.frombuffer(value._packed, np.uint64)
        elif not isinstance(t, (Array, StructArray)) and scalar_of(t) == BFLOAT16:
            value = bfloat16_bits(np.asarray(value))
        out.append(value)
    return tuple(out)


def arrays_in(instance: Any) -> Iterator[array]:
    """Yield the arrays among the fields of a struct."""
    for value in vars(instance).values():
        if isinstance(value, array):
            yield value
        elif definition_of(type(value)) is not None:
            yield from arrays_in(value)


def from_element(t: Struct, element: Any, pointed: Mapping[bytes, array]) -> Any:
    """Return an element of an array as a struct of its own; `pointed` are the arrays that its fields may be."""
    made: Any = object.__new__(class_of(t))
    for name, inner in t.fields:
        value = element[name]
        if isinstance(inner, Struct):
            vars(made)[name] = from_element(inner, value, pointed)
        elif isinstance(inner, Array):
            vars(made)[name] = pointed.get(value.tobytes())
        else:
            assert not isinstance(inner, StructArray)
            numbers = bfloat16_values(np.asarray(value)) if scalar_of(inner) == BFLOAT16 else np.asarray(value)
            vars(made)[name] = (
                numbers.item() if isinstance(inner, Scalar) else composite_type(inner).wrap(numbers.copy())
            )
    return made
