"""Arguments of a kernel as JAX values: which parameters are passed, of what types and shapes, and what comes out.

In: a kernel's parameters and JAX values (or tracers). Out: the values in the types of their parameters, the type keys
by which programs are found, the launch's dims and the shapes of the outputs; or an error that names kernel and
parameter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from diffkern import abi
from diffkern.errors import LaunchError
from diffkern.interop.jax.call import Buffer
from diffkern.interop.spec import Callee, CallSpec, Shape
from diffkern.ir.structs import Struct
from diffkern.ir.types import SCALARS, Array, Element, Mat, Scalar, Vec, scalar_of
from diffkern.lang.annotations import ArrayAnnotation
from diffkern.runtime.arguments import NO_DEFAULT, Parameter
from diffkern.runtime.type_keys import key_of_long, register_type

__all__ = [
    "Arguments", "Callee", "Output", "Signature", "bytes_of_value", "components", "convert", "jax_type",
    "refuse_foreign", "resolve_dims", "signature_of", "static_form", "value_buffer",
]  # fmt: skip


@dataclass(frozen=True)
class Signature:
    """Which parameters of a kernel are inputs, in-out and outputs."""

    kernel: str
    parameters: tuple[Parameter, ...]
    spec: CallSpec

    @property
    def inputs(self) -> tuple[int, ...]:
        """Positions of the parameters that are passed: inputs and in-out."""
        return self.spec.inputs

    @property
    def names(self) -> tuple[str, ...]:
        """The parameters' names."""
        return tuple(p.name for p in self.parameters)


@dataclass(frozen=True)
class Output:
    """An array that is returned: the parameter it is, its type, its shape with the axes of its elements."""

    index: int
    element: Element
    axes: int
    shape: Shape
    dtype: Any
    is_inout: bool


def signature_of(what: str, callee: Callee, num_outputs: int, in_out_argnames: Sequence[str] | str | None) -> Signature:
    """Divide the parameters of a kernel, or of a function that launches kernels; the last ones are the outputs.

    Raises
    ------
    LaunchError
        If there are no such parameters, or they are of types that JAX has no arrays of.
    """
    spec = CallSpec(callee, num_outputs, in_out_argnames=in_out_argnames, what=what)
    for p in callee.parameters:
        element = p.annotation.dtype if isinstance(p.annotation, ArrayAnnotation) else p.annotation
        if isinstance(element, Struct):
            raise p.error("JAX has no arrays of structs", "pass the fields as arrays")
    return Signature(callee.name, tuple(callee.parameters), spec)


@dataclass(frozen=True)
class Arguments:
    """The values passed, and for each its element type and axes (-1 for a value)."""

    signature: Signature
    values: tuple[Any, ...]
    elements: tuple[Element, ...]
    axes: tuple[int, ...]

    def shape(self, k: int) -> Shape:
        """The shape of an array without the axes of its elements."""
        return tuple(self.values[k].shape[: self.axes[k]])

    def outputs(self, dims: Shape, output_dims: Any) -> tuple[Output, ...]:
        """Return what comes out of a launch over `dims`."""
        s, spec = self.signature, self.signature.spec
        out = []
        for k in spec.in_outs:
            value = self.values[k]
            out.append(Output(k, self.elements[k], self.axes[k], tuple(value.shape), value.dtype, True))
        for k, shape in spec.output_shapes(dims, spec.checked_output_dims(output_dims)).items():
            element = spec.element(k)
            dtype = jax_type(scalar_of(element), s.parameters[k])
            out.append(Output(k, element, len(shape), (*shape, *components(element)), dtype, False))
        return tuple(out)

    def keys(self, outputs: Sequence[Output]) -> tuple[str, ...]:
        """Return the type keys of all parameters, in their order."""
        found = {i: (e, n) for i, e, n in zip(self.signature.inputs, self.elements, self.axes, strict=True)}
        found.update({o.index: (o.element, o.axes) for o in outputs})
        types = [found[k] for k in range(len(self.signature.parameters))]
        keys = [register_type(Array(e, n) if n >= 0 else e) for e, n in types]
        shapes = {i: self.values[k].shape for k, i in enumerate(self.signature.inputs) if self.axes[k] >= 0}
        shapes.update({o.index: o.shape for o in outputs})
        for i, shape in shapes.items():
            if any(isinstance(extent, int) and extent >= 2**31 for extent in shape):
                keys[i] = key_of_long(keys[i])
        return tuple(keys)


def convert(signature: Signature, args: Sequence[Any]) -> Arguments:
    """Return the arguments in the types of their parameters.

    Raises
    ------
    LaunchError
        If one does not fit its parameter.
    """
    wanted = [signature.parameters[i] for i in signature.inputs]
    given = list(args)
    given += [p.default for p in wanted[len(given) :] if p.default is not NO_DEFAULT]
    if len(given) != len(wanted):
        names = ", ".join(p.name for p in wanted)
        raise LaunchError(
            f"kernel {signature.kernel!r} takes {len(wanted)} arguments ({names}), not {len(args)}",
            remedy="pass the inputs and in-out arguments; the outputs are returned",
        )
    values, elements, axes = [], [], []
    for p, value in zip(wanted, given, strict=True):
        x, element, n = _array(p, value) if p.is_array else _value(p, value)
        values.append(x)
        elements.append(element)
        axes.append(n)
    return Arguments(signature, tuple(values), tuple(elements), tuple(axes))


def _array(p: Parameter, value: Any) -> tuple[Any, Element, int]:
    annotation = p.annotation
    assert isinstance(annotation, ArrayAnnotation)
    x = _as_jax(p, value)
    element = annotation.dtype if annotation.dtype is not None else _scalar(p, x.dtype)
    assert not isinstance(element, Struct)
    scalar, inner = scalar_of(element), components(element)
    if np.dtype(x.dtype) != jax_type(scalar, p):
        raise p.error(f"takes {annotation}, not JAX's array of {x.dtype}", f"convert it with astype({scalar.name!r})")
    if x.ndim != annotation.ndim + len(inner) or tuple(x.shape[annotation.ndim :]) != inner:
        inside = f", the last {len(inner)} of them {inner}" if inner else ""
        raise p.error(
            f"takes {annotation}, which is JAX's array with {annotation.ndim + len(inner)} axes{inside}; "
            f"the argument has shape {tuple(x.shape)}",
            "reshape it",
        )
    return x, element, annotation.ndim


def _value(p: Parameter, value: Any) -> tuple[Any, Element, int]:
    x = _as_jax(p, value)
    element = p.annotation
    if element is None:
        element = _scalar(p, x.dtype)
        if x.ndim:
            return x, element, x.ndim
    assert not isinstance(element, (Struct, ArrayAnnotation))
    if tuple(x.shape) != components(element):
        shape = f"of shape {components(element)}" if components(element) else "without axes"
        raise p.error(f"takes {element} by value, which is JAX's array {shape}, not {tuple(x.shape)}")
    passed = abi.passed_type(element)
    target = jax_type(scalar_of(passed), p)
    number = scalar_of(element)
    if jnp.issubdtype(x.dtype, jnp.floating) and not number.is_float:
        raise p.error(f"takes an integer ({element}), not JAX's {x.dtype}", "convert it with astype")
    if np.dtype(x.dtype) == np.bool_ and number.name != "bool":
        raise p.error(f"takes a number ({element}), not a bool")
    return x.astype(target), element, -1


def _as_jax(p: Parameter, value: Any) -> Any:
    if value is None or isinstance(value, (str, bytes)):
        raise p.error(f"takes JAX arrays and numbers, not {value!r}")
    try:
        return jnp.asarray(value)
    except TypeError as error:
        raise p.error(str(error), "pass a JAX array, or a number") from None


def refuse_foreign(signature: Signature, args: Sequence[Any]) -> None:
    """Raise an error that names the first argument which :func:`jax.jit` does not take, if there is one."""
    wanted = (signature.parameters[i] for i in signature.inputs)
    for p, value in zip(wanted, args, strict=False):
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
            raise p.error(f"takes JAX arrays and numbers, not {leaf!r}") from None


def _scalar(p: Parameter, dtype: Any) -> Scalar:
    found = SCALARS.get(np.dtype(dtype).name)
    if found is None:
        raise p.error(f"kernels have no type for JAX's {dtype}", "convert it with astype")
    return found


def jax_type(scalar: Scalar, p: Parameter | None = None) -> Any:
    """Return JAX's type for a scalar; the parameter is for the message where JAX has not enabled it."""
    name: Any = jnp.bfloat16 if scalar.name == "bfloat16" else scalar.name
    dtype = np.dtype(name)
    if scalar.bits == 64 and not jax.config.jax_enable_x64:
        error = LaunchError if p is None else p.error
        raise error(f"{scalar} is a type that JAX has not enabled", remedy='jax.config.update("jax_enable_x64", True)')
    return dtype


def components(element: Element) -> tuple[int, ...]:
    """Return the axes that an element adds to JAX's array."""
    return element.shape if isinstance(element, (Vec, Mat)) else ()


def bytes_of_value(t: Element) -> int:
    """Return the bytes of a parameter by value, as it is passed."""
    passed = abi.passed_type(t)
    assert isinstance(passed, (Scalar, Vec, Mat))
    return passed.itemsize


def value_buffer(t: Element) -> Buffer:
    """Return the buffer of a parameter by value."""
    passed = abi.passed_type(t)
    assert isinstance(passed, (Scalar, Vec, Mat))
    scalar = scalar_of(passed)
    return Buffer(scalar.name, len(components(passed)), scalar.itemsize)


# -- dims --------------------------------------------------------------------------------------------------------------


def resolve_dims(signature: Signature, args: Arguments, launch_dims: Any) -> Shape:
    """Return the dims of the launch: those given, else the shape of the first array.

    Raises
    ------
    LaunchError
        If there are none, or too many.
    """
    if callable(launch_dims):
        launch_dims = launch_dims(*args.values)
    spec = signature.spec
    shapes = {k: args.shape(k) for k, n in enumerate(args.axes) if n >= 0}
    return spec.dims(shapes, None if launch_dims is None else spec.checked_dims(launch_dims, "launch_dims"))


def static_form(dims: Any) -> Any:
    """Return dims in a form that can be hashed and compared."""
    if isinstance(dims, Mapping):
        return tuple(sorted((name, static_form(d)) for name, d in dims.items()))
    return tuple(dims) if isinstance(dims, list) else dims
