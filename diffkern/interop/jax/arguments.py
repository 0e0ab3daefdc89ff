"""Arguments of a kernel as JAX values: the parameters that are passed, their types and shapes, and the results.

From the parameters of a kernel, or of a function that launches kernels, and JAX values (or tracers) this module makes
one :class:`CallArgument` for each parameter, with its type, its shape and its value; or it raises an error that names
kernel and parameter.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from diffkern.contracts import abi
from diffkern.errors import LaunchError, described
from diffkern.interop.spec import ONLY_INPUTS, Callee, CallSpec, Shape
from diffkern.ir.structs import Struct
from diffkern.ir.types import SCALARS, Array, Element, Mat, Scalar, Vec, is_complex, scalar_of
from diffkern.lang.annotations import ArrayAnnotation
from diffkern.process.dataclass import dataclass
from diffkern.runtime.arrays.type_keys import key_of_long, register_type, type_of_key
from diffkern.runtime.launch.arguments import NO_DEFAULT, Parameter, wrong_count

__all__ = [
    "CallArgument", "CallSignature", "check_numbers", "jax_type", "numbers_of", "outputs_of", "passed",
    "refuse_foreign", "returned", "shape_of", "signature_of", "static_form",
]  # fmt: skip


@dataclass(frozen=True)
class CallSignature:
    """The division of a kernel's parameters into inputs, in-out arguments and outputs."""

    kernel: str
    parameters: tuple[Parameter, ...]
    spec: CallSpec


@dataclass(frozen=True)
class CallArgument:
    """A parameter in a call.

    Attributes
    ----------
    index : int
        Its position.
    name : str
        Its name.
    type : Array, Scalar, Vec or Mat
        Its type in the kernel: an array, or a value.
    shape : tuple
        Its shape in JAX, whose last axes are the components of elements.
    dtype
        Its type in JAX.
    value
        The value that is passed; None for an output. In the description of a call, True if a value is passed.
    is_result : bool
        Whether it is returned.
    """

    index: int
    name: str
    type: Array | Element
    shape: Shape
    dtype: Any
    value: Any = None
    is_result: bool = False

    @property
    def is_array(self) -> bool:
        """True if it is an array."""
        return isinstance(self.type, Array)

    @property
    def is_passed(self) -> bool:
        """True if the caller passes it."""
        return self.value is not None

    def without_value(self, passed: bool | None = None) -> CallArgument:
        """Return its description without the value, with the given flag of whether it is passed; by
        default unchanged.
        """
        return replace(self, value=True if (self.is_passed if passed is None else passed) else None)

    @property
    def extents(self) -> Shape:
        """The shape of an array without the components of its elements."""
        return self.shape[: self.type.ndim] if isinstance(self.type, Array) else ()

    @property
    def is_smooth(self) -> bool:
        """True if JAX has a gradient for it."""
        return bool(jnp.issubdtype(self.dtype, jnp.floating))

    @property
    def key(self) -> str:
        """The key of its type, by which programs are found."""
        key = register_type(self.type)
        # An array with such an extent needs a program whose indices are 64 bits wide. Symbolic extents are taken for
        # short.
        long = self.is_array and any(isinstance(extent, int) and extent >= 2**31 for extent in self.shape)
        return key_of_long(key) if long else key


def signature_of(
    what: str, callee: Callee, num_outputs: int, in_out_argnames: Sequence[str] | str | None
) -> CallSignature:
    """Divide the parameters of a kernel, or of a function that launches kernels; the last ones are the outputs.

    Raises
    ------
    LaunchError
        If there are no such parameters, or they are of types that JAX has no arrays of.
    """
    spec = CallSpec(callee, num_outputs, in_out_argnames=in_out_argnames, what=what)
    for p in callee.parameters:
        element = p.annotation.element if isinstance(p.annotation, ArrayAnnotation) else p.annotation
        if isinstance(element, Struct):
            raise p.error("JAX has no arrays of structs", "pass the fields as arrays")
    return CallSignature(callee.name, tuple(callee.parameters), spec)


def outputs_of(
    signature: CallSignature, dims: Shape, shapes: Mapping[int, Shape], output_dims: Any
) -> list[CallArgument]:
    """Return the parameters that are only returned, of a launch over `dims`; `shapes` are those of what is passed."""
    spec = signature.spec
    made = []
    for k, shape in spec.output_shapes(dims, shapes, spec.checked_output_dims(output_dims)).items():
        element, p = spec.element(k), signature.parameters[k]
        t = Array(element, len(shape))
        made.append(CallArgument(k, p.name, t, shape_of(t, shape), jax_type(scalar_of(element), p), is_result=True))
    return made


def passed(signature: CallSignature, args: Sequence[Any]) -> list[CallArgument]:
    """Return the parameters that the caller passes, with the values in their types.

    Raises
    ------
    LaunchError
        If one does not fit its parameter.
    """
    wanted = [signature.parameters[i] for i in signature.spec.inputs]
    given = list(args)
    # As in a launch: a parameter with a default may be left out at the end.
    given += [p.default for p in wanted[len(given) :] if p.default is not NO_DEFAULT]
    if len(given) != len(wanted):
        raise wrong_count(signature.kernel, wanted, len(args), ONLY_INPUTS)
    out = []
    for p, value in zip(wanted, given, strict=True):
        x, t = _array(p, value) if p.is_array else _value(p, value)
        out.append(CallArgument(p.index, p.name, t, tuple(x.shape), x.dtype, x, p.index in signature.spec.in_outs))
    return out


def _array(p: Parameter, value: Any) -> tuple[Any, Array]:
    annotation = p.annotation
    assert isinstance(annotation, ArrayAnnotation)
    if value is None:
        return _null(p, annotation)
    x = _as_pairs(annotation.element, _as_jax(p, value))
    element = annotation.element if annotation.element is not None else _scalar(p, x.dtype)
    assert not isinstance(element, Struct)
    scalar, inner = scalar_of(element), _components(element)
    if np.dtype(x.dtype) != jax_type(scalar, p):
        raise p.error(f"takes {annotation}, not JAX's array of {x.dtype}", f"convert it with astype({scalar.name!r})")
    if x.ndim != annotation.ndim + len(inner) or tuple(x.shape[annotation.ndim :]) != inner:
        inside = f", the last {len(inner)} of them {inner}" if inner else ""
        raise p.error(
            f"takes {annotation}, which is JAX's array with {annotation.ndim + len(inner)} axes{inside}; "
            f"the argument has shape {tuple(x.shape)}",
            "reshape it",
        )
    return x, Array(element, annotation.ndim)


def _null(p: Parameter, annotation: ArrayAnnotation) -> tuple[Any, Array]:
    """Return None passed instead of an array: for JAX, an array without elements."""
    t = type_of_key(p.convert_leaves(None)[0])
    if not isinstance(t, Array):
        raise p.error("JAX has no arrays of structs", "pass the fields as arrays")
    inner = _components(t.dtype)
    return jnp.zeros((0,) * annotation.ndim + inner, jax_type(scalar_of(t.dtype), p)), t


def _value(p: Parameter, value: Any) -> tuple[Any, Array | Element]:
    x = _as_pairs(p.annotation, _as_jax(p, value))
    element = p.annotation
    if element is None:
        element = _scalar(p, x.dtype)
        if x.ndim:
            return x, Array(element, x.ndim)
    assert not isinstance(element, (Struct, ArrayAnnotation))
    if tuple(x.shape) != _components(element):
        shape = f"of shape {_components(element)}" if _components(element) else "without axes"
        raise p.error(
            f"takes {element} by value, which is JAX's array {shape}, not {tuple(x.shape)}",
            "reshape it, or annotate the parameter as an array",
        )
    passed = abi.passed_type(element)
    target = jax_type(scalar_of(passed), p)
    number = scalar_of(element)
    if jnp.issubdtype(x.dtype, jnp.complexfloating):
        raise p.error(f"takes a real number ({element}), not JAX's {x.dtype}", "pass its real part")
    if jnp.issubdtype(x.dtype, jnp.floating) and not number.is_float:
        raise p.error(f"takes an integer ({element}), not JAX's {x.dtype}", "convert it with astype")
    if np.dtype(x.dtype) == np.bool_ and number.name != "bool":
        raise p.error(f"takes a number ({element}), not a bool", "convert it with astype")
    # A 16-bit float by value is passed as float32, and JAX differentiates the conversion.
    return x.astype(target), element


def _as_jax(p: Parameter, value: Any) -> Any:
    if value is None or isinstance(value, (str, bytes)):
        raise _refusal(p, value)
    try:
        return jnp.asarray(value)
    except TypeError as error:
        raise p.error(str(error), "pass a JAX array, or a number") from None


def _as_pairs(element: Any, x: Any) -> Any:
    """Return complex numbers as pairs: JAX differentiates this step itself, by its own convention."""
    return jnp.stack((jnp.real(x), jnp.imag(x)), axis=-1) if is_complex(element) else x


def returned(signature: CallSignature, results: Sequence[Any]) -> tuple[Any, ...]:
    """Return the results of a launch in the caller's form: pairs as complex numbers."""
    pairs = signature.spec.complex_parameters()
    if not pairs:
        return tuple(results)
    return tuple(
        jax.lax.complex(x[..., 0], x[..., 1]) if k in pairs else x
        for k, x in zip(signature.spec.results, results, strict=True)
    )


def refuse_foreign(signature: CallSignature, args: Sequence[Any]) -> None:
    """Raise an error that names the first argument that :func:`jax.jit` does not take, if there is one."""
    wanted = (signature.parameters[i] for i in signature.spec.inputs)
    for p, value in zip(wanted, args, strict=False):
        # A parameter may be given a nest of arrays, which jit takes apart before it looks at the leaves.
        for leaf in jax.tree.leaves(value):
            if isinstance(leaf, (jax.Array, np.ndarray, np.generic, int, float, complex)):
                continue
            if hasattr(leaf, "__jax_array__"):
                continue
            if hasattr(leaf, "__dlpack__"):
                kind = f"{type(leaf).__module__.partition('.')[0]}.{type(leaf).__qualname__}"
                raise p.error(
                    f"takes JAX arrays and numbers, not a {kind}",
                    "pass jax.dlpack.from_dlpack(x), which shares its memory, or a copy, jax.numpy.array(x.numpy())",
                ) from None
            raise _refusal(p, leaf) from None


def _refusal(p: Parameter, value: Any) -> LaunchError:
    """Return the error for a value that is no JAX value: the one that a launch raises, if it raises one."""
    remedy = "pass a JAX array, or a number for a parameter by value"
    try:
        p.convert_leaves(value)
    except LaunchError as error:
        return LaunchError(error.message, remedy=remedy)
    return p.error(f"takes JAX arrays and numbers, not {described(value)}", remedy)


def numbers_of(signature: CallSignature) -> list[tuple[int, Parameter]]:
    """Return the inputs that are numbers by value, with their positions among the inputs."""
    inputs = [signature.parameters[k] for k in signature.spec.inputs]
    return [(place, p) for place, p in enumerate(inputs) if p.value_key]


def check_numbers(numbers: Sequence[tuple[int, Parameter]], args: Sequence[Any]) -> None:
    """Raise a launch's error for a known number that its parameter does not take; JAX would round or wrap it."""
    for place, p in numbers:
        # Their number is checked elsewhere.
        value = args[place] if place < len(args) else None
        if p.pack is None:
            continue
        if type(value) is not float and type(value) is not int and (value := _plain(p, value)) is None:
            continue
        # Packing is quick, and what it refuses is looked at in detail.
        try:
            p.pack(value)
        except (struct.error, OverflowError, TypeError):
            p.convert(value)


def _plain(p: Parameter, value: Any) -> float | int | None:
    """Return a number of another class as one of Python's; None if it is none, is not known, or fits by its type."""
    if isinstance(value, bool):
        return None
    if isinstance(value, (float, int)):
        return float(value) if isinstance(value, float) else int(value)
    if not isinstance(value, (np.generic, np.ndarray, jax.Array)) or isinstance(value, jax.core.Tracer) or value.ndim:
        return None
    given, element = np.dtype(value.dtype), p.annotation
    if given.kind not in "iuf" or not isinstance(element, Scalar):
        return None
    # What JAX holds on a device is waited for only if its type does not tell.
    fits = np.can_cast(given, jnp.float32 if element.name == "bfloat16" else element.name)
    return None if fits else value.item()


def _scalar(p: Parameter, dtype: Any) -> Scalar:
    found = SCALARS.get(np.dtype(dtype).name)
    if found is None:
        complexes = np.dtype(dtype).kind == "c"
        remedy = f"annotate it as dk.array(dtype=dk.{np.dtype(dtype)})" if complexes else "convert it with astype"
        raise p.error(f"kernels have no type for JAX's {dtype} without an annotation", remedy)
    return found


def jax_type(scalar: Scalar, p: Parameter | None = None) -> Any:
    """Return JAX's type for a scalar; the parameter is for the message if JAX has not enabled it."""
    name: Any = jnp.bfloat16 if scalar.name == "bfloat16" else scalar.name
    dtype = np.dtype(name)
    # Without x64 JAX would silently compute in 32 bits.
    if scalar.bits == 64 and not jax.config.jax_enable_x64:
        error = LaunchError if p is None else p.error
        raise error(f"{scalar} is a type that JAX has not enabled", remedy='jax.config.update("jax_enable_x64", True)')
    return dtype


def _components(element: Element) -> tuple[int, ...]:
    """Return the axes that an element adds to JAX's array."""
    return element.shape if isinstance(element, (Vec, Mat)) else ()


def shape_of(t: Array | Element, extents: Sequence[Any] = ()) -> Shape:
    """Return the shape of JAX's array for an array of `extents`, or for a value."""
    return (*extents, *_components(t.dtype if isinstance(t, Array) else t))


def static_form(dims: Any) -> Any:
    """Return dims in a form that can be hashed and compared."""
    if dims is None:
        return None
    if isinstance(dims, Mapping):
        return tuple(sorted((name, static_form(d)) for name, d in dims.items()))
    return tuple(dims) if isinstance(dims, list) else dims
