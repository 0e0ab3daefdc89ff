"""Parameters of a kernel and the conversion of arguments to what the kernel takes.

From a parameter's annotation and an argument come the argument's type as a short key, its bytes in the argument block,
and the array it is, if it is one. What a parameter cannot take raises a :class:`LaunchError` that names kernel and
parameter, before anything has run.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from diffkern.errors import LaunchError
from diffkern.ir.structs import (
    Argument,
    IndexedArray,
    Stored,
    Struct,
    StructArray,
    declared,
    holds_memory,
    is_null,
)
from diffkern.ir.types import (
    BOOL,
    FLOAT32,
    FLOAT64,
    INT32,
    NULL,
    STORAGE_ONLY,
    Array,
    Mat,
    Scalar,
    Vec,
    scalar_of,
    value_type,
)
from diffkern.lang.annotations import ArrayAnnotation
from diffkern.lang.dtypes import composite_type, element_of_value
from diffkern.lang.structs import definition_of
from diffkern.lang.values import CompositeValue
from diffkern.runtime.arrays.array import array
from diffkern.runtime.arrays.array_protocols import ArrayC
from diffkern.runtime.arrays.convert import wrapped
from diffkern.runtime.arrays.create import Untyped
from diffkern.runtime.arrays.foreign import adopt
from diffkern.runtime.arrays.indexed import SeenThrough
from diffkern.runtime.arrays.placeholder import Placeholder
from diffkern.runtime.arrays.structured import StructuredArray
from diffkern.runtime.arrays.type_keys import array_type, type_of_key
from diffkern.runtime.launch.struct_arguments import (
    SeveralDevicesError,
    StructPacking,
    leaves_of,
    null_bytes,
    null_leaf,
    packing_of,
)
from diffkern.runtime.launch.value_bytes import pack_value, packer, short

__all__ = [
    "NO_DEFAULT", "Bound", "Parameter", "bind", "device_of_keys", "leaves_of", "wrong_count",
]  # fmt: skip

NO_DEFAULT = object()
_METHOD = "a launch passes no self: write @staticmethod above @dk.kernel, and pass what the kernel needs of the object"
_ALL = "inputs and outputs together are the arguments, in the order of the parameters"

# What binding gives: the key of each argument's type; for each leaf (an argument, or a field of a struct) its bytes,
# and the array it is or None.
Bound = tuple[tuple[str, ...], "list[bytes]", "list[array | None]"]


class Parameter:
    """One parameter of a kernel.

    Parameters
    ----------
    kernel : str
        The kernel's name, for messages.
    index : int
        Its position.
    name : str
        Its name.
    annotation : ArrayAnnotation, element type, or None
        The annotation; None takes the type of the argument.
    default
        The value where none is passed; :data:`NO_DEFAULT` if one has to be passed.
    wraps : bool
        Whether an integer that its type does not hold is wrapped around; else it is an error.
    wide : bool
        Whether Python's numbers have 64 bits where there is no annotation, as in numba; else 32.
    """

    __slots__ = (
        "annotation", "composite", "composite_key", "default", "index", "is_array", "kernel", "name", "pack",
        "padding", "struct", "value_key", "wide", "wraps",
    )  # fmt: skip

    def __init__(
        self,
        kernel: str,
        index: int,
        name: str,
        annotation: ArrayAnnotation | Stored | None,
        default: Any = NO_DEFAULT,
        wraps: bool = False,
        wide: bool = False,
    ) -> None:
        self.default = default
        self.wide = wide
        self.wraps = wraps
        self.kernel = kernel
        self.index = index
        self.name = name
        if isinstance(annotation, (Scalar, Vec, Mat)):
            annotation = value_type(annotation)  # what is passed; the kernel rounds
        self.annotation = annotation
        self.is_array = isinstance(annotation, ArrayAnnotation)
        # For the common case, a Python number for a scalar parameter, key and bytes are one look-up and one call.
        self.value_key = str(annotation) if isinstance(annotation, Scalar) and annotation != BOOL else ""
        self.pack: Callable[[Any], bytes] | None = packer(annotation) if isinstance(annotation, Scalar) else None
        # Likewise a vector or matrix of the very type.
        self.composite: Vec | Mat | None = None
        if isinstance(annotation, (Vec, Mat)) and annotation.dtype not in STORAGE_ONLY:
            # The very type of the class of its values, which a comparison of identities finds.
            self.composite = composite_type(annotation).ir
        self.composite_key = "" if self.composite is None else str(annotation)
        self.padding = b"" if self.composite is None else bytes(-self.composite.itemsize % 8)
        # And an instance of the struct class that was passed last. Both are set at once: other threads read them.
        self.struct: tuple[type | None, StructPacking | None] = None, None

    def error(self, message: str, remedy: str | None = None) -> LaunchError:
        """Return an error about this parameter."""
        return LaunchError(f"kernel {self.kernel!r}, parameter {self.name!r}: {message}", remedy=remedy)

    def _misfit(self, takes: object, value: Any, remedy: str, kind: str = "") -> LaunchError:
        """Return the error for a value other than what the parameter takes."""
        return self.error(f"takes {takes}, not {kind}{short(value)}", remedy)

    def convert_leaves(self, value: Any) -> tuple[str, list[bytes], list[array | None]]:
        """Return the type key of an argument, and the bytes and arrays of its leaves."""
        if isinstance(value, ArrayC):
            value = value.array
        if type(value) is Untyped and isinstance(self.annotation, ArrayAnnotation):
            made = value.taken_by(self.annotation)
            return made._key, [made._packed], [made]
        if isinstance(value, Placeholder):
            self._check_placeholder(value)
            value = None
        definition = definition_of(type(value))
        if definition is not None:
            wanted = self.annotation
            if wanted is not None and wanted != definition.type:
                raise self._misfit(_named(wanted), value, f"pass {_named(wanted)}")
            packing = packing_of(definition.type)
            self.struct = type(value), packing
            return self.convert_struct(value, packing)
        if isinstance(self.annotation, Struct):
            raise self._misfit(self.annotation.name, value, "make one, and set its fields")
        if isinstance(value, SeenThrough):
            try:
                key, arrays = value.passed
            except TypeError as error:
                raise self.error(str(error), "pass a copy of it, as contiguous() makes one") from None
            self.check_type(type_of_key(key))
            return key, [held._packed for held in arrays], list(arrays)
        # What is no struct has one leaf, unless it stands for an array of structs, which has one for each field.
        key, packed, held = self.convert(value)
        if value is None:
            return _repeated(key)
        if isinstance(held, StructuredArray):
            fields = held._leaves()
            return key, [field._packed for field in fields], list(fields)
        return key, [packed], [held]

    def _check_placeholder(self, value: Placeholder) -> None:
        """Raise unless the parameter takes arrays of the type that an array annotation passed as a value stands for."""
        wanted = self.annotation
        if not isinstance(wanted, ArrayAnnotation) or wanted.ndim != value.ndim:
            takes = "an array or a number" if wanted is None else _named(wanted)
            raise self.error(f"takes {takes}, not {value}", "pass an array")
        if None not in (wanted.element, value.element) and wanted.element != value.element:
            raise self.error(f"takes {wanted}, not {value}", "pass an array of this dtype, or None")

    def convert_struct(self, value: Any, packing: StructPacking) -> tuple[str, list[bytes], list[array | None]]:
        """Return the type key of an instance of a struct, and the bytes and arrays of its leaves."""
        try:
            return packing.packed(value)
        except SeveralDevicesError as error:
            raise self.error(
                f"the struct holds arrays of several devices ({error})", "copy them to one with .to()"
            ) from None

    def convert(self, value: Any) -> tuple[str, bytes, array | None]:
        """Return the type key, bytes in the argument block and array (or None) of an argument that is no struct."""
        if isinstance(value, array):
            return self._convert_array(value)
        if self.is_array:
            return self._null() if value is None else self._convert_array(self._wrapped(value))
        element = self.annotation
        if element is None:
            if value is None:
                raise self.error("None was passed", "pass an array or a number")
            if self.wide and type(value) in (int, float):
                value = self._widened(value)
            element = element_of_value(value)
            if element is None:
                return self._convert_array(self._wrapped(value))
            element = value_type(element)
        assert not isinstance(element, (ArrayAnnotation, Struct))
        if self.wraps:
            value = wrapped(value, scalar_of(element))
        try:
            return str(element), pack_value(element, value), None
        except (TypeError, ValueError, OverflowError) as error:
            raise self.error(str(error), f"pass a value of type {_named(element)}") from None

    def _widened(self, value: float) -> np.generic[Any]:
        """Return a number of Python as one of 64 bits."""
        if type(value) is float:
            return np.float64(value)
        if not -(2**63) <= value < 2**64:
            raise self.error(f"{value} does not fit an integer of 64 bits", "pass a float")
        return np.int64(value) if value < 2**63 else np.uint64(value)

    def _null(self) -> tuple[str, bytes, array | None]:
        """Return what None stands for in place of an array: an array of the parameter's type without memory."""
        annotation = self.annotation
        assert isinstance(annotation, ArrayAnnotation)
        _, key, _ = array_type(FLOAT32 if annotation.element is None else annotation.element, annotation.ndim, NULL)
        return key, null_bytes(annotation.ndim), None

    def check_type(self, t: Argument) -> None:
        """Raise unless an argument of this type may be passed."""
        annotation = self.annotation
        if isinstance(t, (Scalar, Vec, Mat)):
            t = value_type(t)
        if isinstance(annotation, ArrayAnnotation):
            if not isinstance(t, (Array, StructArray, IndexedArray)) or not annotation.accepts(t):
                raise self.error(f"takes {annotation}, not {_type_text(t)}", _fitting(annotation, t))
        elif annotation is not None and declared(t) != annotation:
            raise self.error(
                f"takes {_named(annotation)} by value, not {_type_text(t)}", f"pass {_named(annotation)}, or convert it"
            )

    def _convert_array(self, value: array) -> tuple[str, bytes, array | None]:
        if self.annotation is not None and not self.is_array:
            raise self._misfit(f"{_named(self.annotation)} by value", value, "pass a number, or annotate an array")
        return value._key, value._packed, value

    def _wrapped(self, value: Any) -> array:
        """Return an array over the memory of any object that can be shared without a copy."""
        annotation = self.annotation
        takes = annotation if annotation is not None else "an array or a number"
        if value is None:
            raise self.error(f"takes {takes}, not None", "pass an array, or annotate the parameter as one")
        if isinstance(value, type):
            raise self.error(f"takes {takes}, not the class {value.__name__}", "pass an array, or state its dtype")
        element = annotation.element if isinstance(annotation, ArrayAnnotation) else None
        try:
            made = adopt(value, element)
        except (TypeError, ValueError, BufferError) as error:
            given = f"{type(value).__name__} of {getattr(value, 'dtype', 'bytes')}"
            shape = f" with shape {tuple(value.shape)}" if hasattr(value, "shape") else ""
            library = "NumPy's array" if isinstance(value, np.ndarray) else type(value).__module__.partition(".")[0]
            shown = given.replace("ndarray", library) if isinstance(value, np.ndarray) else f"{library}'s {given}"
            raise self.error(
                f"takes {takes}, not {shown}{shape}: {error}",
                "convert it with astype() or numpy.ascontiguousarray()" if isinstance(value, np.ndarray) else None,
            ) from None
        if made is None:
            raise self._misfit(
                takes,
                value,
                "pass an array, of diffkern, NumPy or a library with DLPack, or a number for a parameter by value",
                f"{type(value).__name__} ",
            )
        return made


def _repeated(key: str) -> tuple[str, list[bytes], list[array | None]]:
    """Return the leaves of None in place of an array: for an array of structs, one null for each field."""
    leaves = leaves_of(("",), (key,))
    return key, [*map(null_leaf, leaves)], [None] * len(leaves)


def device_of_keys(kernel: str, parameters: Sequence[Parameter], keys: Sequence[str]) -> str | None:
    """Return the name of the GPU that all arrays among the arguments are on, None for the CPU.

    Raises
    ------
    LaunchError
        If they are on several devices.
    """
    # A kernel without parameters has no array to tell its device, which its one key then names (:func:`keys_on`).
    if not parameters and keys:
        return keys[0][1:]
    first: tuple[str, str] | None = None
    for parameter, key in zip(parameters, keys, strict=True):
        alias = key.partition("@")[2]
        t = type_of_key(key)
        # A null array lies nowhere, and goes with any device.
        if is_null(t):
            continue
        if not alias and not (
            isinstance(t, (Array, StructArray, IndexedArray)) or (isinstance(t, Struct) and holds_memory(t))
        ):
            continue
        here = alias or "cpu"
        if first is None:
            first = parameter.name, here
        elif first[1] != here:
            raise LaunchError(
                f"kernel {kernel!r}, parameter {parameter.name!r}: the array is on {here}, that of {first[0]!r} on "
                f"{first[1]}",
                remedy="copy one of them with array.to(device), so that all are on one device",
            )
    return None if first is None or first[1] == "cpu" else first[1]


def keys_on(alias: str) -> tuple[str, ...]:
    """Return the keys under which a kernel without parameters has its program for a GPU."""
    return (f"@{alias}",)


def wrong_count(kernel: str, parameters: Sequence[Parameter], given: int, remedy: str | None = None) -> LaunchError:
    """Return the error for a number of arguments that does not match the parameters."""
    names = ", ".join(p.name for p in parameters)
    noun = "argument" if len(parameters) == 1 else "arguments"
    return LaunchError(f"kernel {kernel!r} takes {len(parameters)} {noun} ({names}), not {given}", remedy=remedy)


_OF_NUMPY: Final[dict[type, tuple[str, Callable[[Any], bytes]]]] = {
    np.float32: (str(FLOAT32), packer(FLOAT32)),
    np.float64: (str(FLOAT64), packer(FLOAT64)),
}
"""By the types of NumPy's numbers that a parameter of any type takes as they are: key and packing."""


def bind(kernel: str, parameters: Sequence[Parameter], args: Sequence[Any]) -> Bound:
    """Return the types, bytes and arrays of the arguments of a launch.

    Raises
    ------
    LaunchError
        If their number is wrong or one of them is nothing that its parameter could take.
    """
    if len(args) != len(parameters):
        args = (*args, *(p.default for p in parameters[len(args) :] if p.default is not NO_DEFAULT))
    if len(args) != len(parameters):
        is_method = bool(parameters) and parameters[0].name == "self"
        raise wrong_count(kernel, parameters, len(args), _METHOD if is_method else _ALL)
    keys: list[str] = []
    parts: list[bytes] = []
    held: list[array | None] = []
    # This loop is most of the Python cost of a launch: arrays, numbers and vectors of the very type are converted in
    # line, in the order of how common they are. Everything else goes through `convert_leaves`.
    for parameter, value in zip(parameters, args):  # noqa: B905 - the lengths were compared above
        kind = type(value)
        if kind is array and (parameter.is_array or parameter.annotation is None):
            keys.append(value._key)
            parts.append(value._packed)
            held.append(value)
            continue
        key = parameter.value_key
        if key and (kind is float or kind is int):
            try:
                parts.append(parameter.pack(value))  # type: ignore[misc]
            except (struct.error, OverflowError):
                parts.append(parameter.convert(value)[1])  # or it says what is wrong
            keys.append(key)
            held.append(None)
            continue
        if kind in _OF_NUMPY and parameter.annotation is None:
            key, pack = _OF_NUMPY[kind]
            keys.append(key)
            parts.append(pack(value))
            held.append(None)
            continue
        wanted = parameter.composite
        if wanted is not None and isinstance(value, CompositeValue) and value.ir is wanted:
            keys.append(parameter.composite_key)
            parts.append(value.tobytes() + parameter.padding)
            held.append(None)
            continue
        of, packing = parameter.struct
        if packing is not None and kind is of:
            key, packed, made = parameter.convert_struct(value, packing)
        else:
            key, packed, made = parameter.convert_leaves(value)
        keys.append(key)
        parts += packed
        held += made
    return tuple(keys), parts, held


def _named(t: ArrayAnnotation | Stored) -> str:
    return t.name if isinstance(t, Struct) else str(t)


def _fitting(annotation: ArrayAnnotation, t: Argument) -> str:
    """Return what to pass for an array parameter in place of an argument of some type."""
    wanted, remedy = annotation.element, "pass an array of this dtype and ndim"
    if not (isinstance(t, Array) and isinstance(wanted, Scalar) and isinstance(t.dtype, Scalar)):
        return remedy
    if t.dtype == wanted or t.ndim != annotation.ndim:
        return remedy
    # Lists of numbers become float64 and int64 as in NumPy, where an annotation's float and int have 32 bits.
    name = {FLOAT32: "float", INT32: "int"}.get(wanted, f"dk.{wanted.name}")
    return f"make the array with dtype={name}, as in dk.array(values, dtype={name}), or convert it: a.astype({name})"


def _type_text(t: Argument) -> str:
    if isinstance(t, Struct):
        return f"the struct {t.name}"
    if isinstance(t, StructArray):
        return f"array{t.ndim}d<{t.dtype.name}>"
    if isinstance(t, IndexedArray):
        return f"indexedarray{t.ndim}d<{t.dtype}>"
    return f"array{t.ndim}d<{t.dtype}>" if isinstance(t, Array) else str(t)
