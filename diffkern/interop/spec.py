"""A kernel as a function of arrays: the parameters that are passed, the results, and the sizes of the results.

From a kernel whose last parameters are outputs, and the user's dimensions, this module makes a :class:`CallSpec`, which
gives the launch's dimensions and the outputs' shapes from the shapes of the inputs. Shapes are those of elements,
without components; extents are passed on unchanged, so that symbolic ones stay symbolic.
"""

from __future__ import annotations

import copy
import operator
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from diffkern.contracts.extents import several
from diffkern.errors import LaunchError
from diffkern.ir.structs import Struct
from diffkern.ir.types import Element, is_complex
from diffkern.lang.annotations import ArrayAnnotation
from diffkern.runtime.arrays.convert import MAX_NDIM, component_shape
from diffkern.runtime.launch.arguments import Parameter

__all__ = ["ONLY_INPUTS", "CallSpec", "Callee", "Shape", "Sizes", "resolved"]

ONLY_INPUTS = "pass the inputs and in-out arguments; the outputs are returned"
"""The remedy for a wrong number of arguments."""

Shape = tuple[Any, ...]
"""Extents: integers, or the symbolic ones of a framework that traces."""


class Callee(Protocol):
    """The callee: a kernel, or a function that launches kernels."""

    @property
    def name(self) -> str: ...

    @property
    def parameters(self) -> Sequence[Parameter]: ...


class Sizes(NamedTuple):
    """The dimensions of a launch, and the shapes of its pure outputs in their order."""

    dims: Shape
    shapes: tuple[Shape, ...]


def resolved(dims: Any, args: Sequence[Any]) -> Any:
    """Return dimensions for a call with these arguments: callables among them are called."""
    if isinstance(dims, Mapping):
        return {name: resolved(d, args) for name, d in dims.items()}
    return dims(*args) if callable(dims) else dims


def _is_open(dims: Any) -> bool:
    """Return whether dimensions depend on the arguments of a call."""
    return any(map(_is_open, dims.values())) if isinstance(dims, Mapping) else callable(dims)


class CallSpec:
    """The calling convention of a kernel as a function that returns its outputs.

    Parameters
    ----------
    kernel : Callee
        The kernel. Its parameters are inputs, arguments that are both, and outputs, the outputs last.
    num_outputs : int
        Number of results, those that are also inputs included.
    launch_dims : int, sequence of int, callable, or None
        Dimensions of the launch; None for the shape of the first array that is passed.
    output_dims : int, sequence of int, callable, mapping of str to these, or None
        Shape of the outputs, or of each by name; None for the launch's dimensions.
    in_out_argnames : sequence of str
        Arguments that are inputs and results.
    what : str
        Name of the function of the user, for messages.

    Attributes
    ----------
    inputs : tuple of int
        Parameters that the caller passes, in order.
    in_outs, outputs : tuple of int
        Parameters that are passed and returned, and those that are only returned.
    results : tuple of int
        Parameters that are returned, in order.
    launch_dims, output_dims
        The dimensions that are the same in all calls; None if callables give them.
    is_open : bool
        Whether callables give dimensions, from the arguments of each call.

    Raises
    ------
    LaunchError
        If the kernel has no such parameters, or its results are no arrays that could be made.
    """

    def __init__(
        self,
        kernel: Callee,
        num_outputs: int = 1,
        launch_dims: Any = None,
        output_dims: Any = None,
        in_out_argnames: Sequence[str] | str | None = None,
        what: str = "this function",
    ) -> None:
        self.kernel = kernel
        self._what = f"{what}({kernel.name})"
        parameters = kernel.parameters
        names = (in_out_argnames,) if isinstance(in_out_argnames, str) else tuple(in_out_argnames or ())
        known = {p.name: p.index for p in parameters}
        for name in names:
            if name not in known:
                raise self._error(f"there is no parameter {name!r} for in_out_argnames", f"it has {', '.join(known)}")
        self.in_outs = tuple(sorted({known[name] for name in names}))
        if isinstance(num_outputs, bool) or not isinstance(num_outputs, int):
            raise self._error(f"num_outputs is an integer, not {num_outputs!r}")
        fresh = num_outputs - len(self.in_outs)
        if num_outputs < 1 or fresh < 0 or num_outputs > len(parameters):
            raise self._error(
                f"num_outputs={num_outputs} with {len(self.in_outs)} in-out arguments and {len(parameters)} parameters",
                "num_outputs counts the in-out arguments and the last parameters, which are outputs; at least one",
            )
        first = len(parameters) - fresh
        self.outputs = tuple(range(first, len(parameters)))
        self.inputs = tuple(range(first))
        late = [parameters[k].name for k in self.in_outs if k >= first]
        if late:
            raise self._error(
                f"{late[0]!r} is passed as well, so it stands before the pure outputs",
                "move the parameter, or leave out its name",
            )
        self.results = (*self.in_outs, *self.outputs)
        for k in self.results:
            self._check_result(parameters[k], k in self.outputs)
        # As torch.compile traces what makes sizes, that reads plain tuples, no annotations.
        self._forms = tuple(map(_form, parameters))
        self._given = launch_dims, output_dims
        fixed_dims, fixed_outputs = (None if _is_open(dims) else dims for dims in self._given)
        self.launch_dims = None if fixed_dims is None else self.checked_dims(fixed_dims, "launch_dims")
        self.output_dims = self.checked_output_dims(fixed_outputs)
        self.is_open = any(map(_is_open, self._given))

    def _error(self, text: str, remedy: str | None = None) -> LaunchError:
        return LaunchError(f"{self._what}: {text}", remedy=remedy)

    def _check_result(self, parameter: Parameter, is_made: bool) -> None:
        annotation, name = parameter.annotation, parameter.name
        is_array = isinstance(annotation, ArrayAnnotation)
        if is_made and not (isinstance(annotation, ArrayAnnotation) and annotation.element is not None):
            raise self._error(
                f"the output {name!r} has to be annotated as an array with a dtype, so that it can be made",
                f"write {name}: dk.array(dtype=…, ndim=…)",
            )
        if annotation is not None and not is_array:
            raise self._error(f"the in-out argument {name!r} is not an array", "take it out of in_out_argnames")
        if isinstance(annotation, ArrayAnnotation) and isinstance(annotation.element, Struct):
            raise self._error(f"the result {name!r} is an array of structs", "pass the fields as arrays")

    def checked_dims(self, dims: Any, name: str) -> Shape:
        """Return dimensions as a tuple; integers of NumPy become Python's, symbolic ones stay what they are."""
        dims = several(dims)
        given = tuple(dims) if isinstance(dims, Sequence) and not isinstance(dims, str) else (dims,)
        if not 1 <= len(given) <= MAX_NDIM:
            raise self._error(f"{name} has 1 to {MAX_NDIM} extents, not {dims!r}")
        shape = tuple(operator.index(d) if isinstance(d, np.integer) else d for d in given)
        for extent in shape:
            # Symbolic extents are of a framework's own classes: only types that cannot be an extent are refused.
            bad = extent is None or isinstance(extent, (bool, np.bool_, float, np.floating, np.ndarray, str))
            if bad or (isinstance(extent, int) and not 0 <= extent < 2**31):
                raise self._error(f"{name} are integers, at least 0 and less than 2**31, not {dims!r}")
        return shape

    def checked_output_dims(self, dims: Any) -> dict[int, Shape] | None:
        """Return the shapes of outputs by parameter, or None where none are given."""
        if dims is None:
            return None
        if not isinstance(dims, Mapping):
            shape = self.checked_dims(dims, "output_dims")
            return dict.fromkeys(self.outputs, shape)
        names = {self._forms[k][0]: k for k in self.outputs}
        unknown = [name for name in dims if name not in names]
        if unknown:
            raise self._error(f"output_dims names {unknown[0]!r}, which is no pure output", f"those are {[*names]}")
        return {
            names[name]: self.checked_dims(shape, f"output_dims[{name!r}]")
            for name, shape in dims.items()
            if shape is not None
        }

    def sizes(
        self, args: Sequence[Any], tensors: Mapping[int, Shape], launch_dims: Any = None, output_dims: Any = None
    ) -> Sizes:
        """Return the sizes of one call.

        Parameters
        ----------
        args : sequence
            The arguments, which callables are given.
        tensors : mapping of int to tuple
            The shapes of the tensors among them, by parameter.
        launch_dims, output_dims : optional
            Dimensions of this call, instead of those that the function was made with.
        """
        launch_dims = resolved(self._given[0] if launch_dims is None else launch_dims, args)
        output_dims = resolved(self._given[1] if output_dims is None else output_dims, args)
        given = None if launch_dims is None else self.checked_dims(launch_dims, "launch_dims")
        shapes = self.shapes_of(tensors)
        dims = self.dims(shapes, given)
        return Sizes(dims, tuple(self.output_shapes(dims, shapes, self.checked_output_dims(output_dims)).values()))

    def with_sizes(self, sizes: Sizes) -> CallSpec:
        """Return the same convention for calls of these sizes."""
        made = copy.copy(self)
        fixed = dict(zip(self.outputs, sizes.shapes, strict=True))
        made._given = made.launch_dims, made.output_dims = sizes.dims, fixed
        made.is_open = False
        return made

    def element(self, index: int) -> Element:
        """Return the element type of a result."""
        annotation = self.kernel.parameters[index].annotation
        assert isinstance(annotation, ArrayAnnotation)
        assert annotation.element is not None
        assert not isinstance(annotation.element, Struct)
        return annotation.element

    def complex_parameters(self) -> frozenset[int]:
        """Return the parameters that are complex numbers or arrays of them."""
        annotations = [p.annotation for p in self.kernel.parameters]
        elements = [a.element if isinstance(a, ArrayAnnotation) else a for a in annotations]
        return frozenset(k for k, element in enumerate(elements) if is_complex(element))

    def dims(self, shapes: Mapping[int, Shape], launch_dims: Shape | None = None) -> Shape:
        """Return the dimensions of the launch, from the shapes of the arrays that are passed, by parameter."""
        given = self.launch_dims if launch_dims is None else launch_dims
        if given is not None:
            return given
        if not shapes:
            raise self._error("no argument is an array, so the launch dims are not known", "pass launch_dims")
        found = shapes[min(shapes)]
        # Symbolic extents are looked at when they are known.
        large = [n for n in found if isinstance(n, int) and n >= 2**31]
        if large and 0 not in found:
            raise self._error(
                f"the launch dims are the shape of the first array, and an extent of them is {large[0]}; each is less "
                "than 2**31",
                "pass launch_dims, and let each thread take several elements",
            )
        return found

    def shapes_of(self, tensors: Mapping[int, Shape]) -> dict[int, Shape]:
        """Return the shapes of the arrays among the tensors that are passed, by parameter and without components."""
        found: dict[int, Shape] = {}
        # A parameter without an annotation is an array if its tensor has axes.
        for k, shape in tensors.items():
            _, ndim, components = self._forms[k]
            if ndim > 0 or (ndim < 0 and len(shape) > 0):
                found[k] = tuple(shape[: len(shape) - len(components)]) or (1,)
        return found

    def output_shapes(
        self, dims: Shape, shapes: Mapping[int, Shape], output_dims: Mapping[int, Shape] | None = None
    ) -> dict[int, Shape]:
        """Return the shape of each pure output, by parameter, from the dimensions of the launch.

        Where the launch has other axes than an output, that is like the first of the arrays that are passed, if this
        one has as many axes as the output.
        """
        given = self.output_dims if output_dims is None else output_dims
        first = shapes[min(shapes)] if shapes else ()
        found: dict[int, Shape] = {}
        for k in self.outputs:
            shape = dims if given is None or k not in given else given[k]
            name, ndim, components = self._forms[k]
            shape = _of_elements(shape, ndim, components)
            if len(shape) != ndim == len(first) and (given is None or k not in given):
                shape = first
            if len(shape) != ndim:
                raise self._error(
                    f"the output {name!r} has {ndim} axes, its shape would be {shape}",
                    f"pass output_dims={{{name!r}: …}}",
                )
            found[k] = shape
        return found


def _form(parameter: Parameter) -> tuple[str, int, Shape]:
    """Return the name of a parameter, its number of axes and its components: -1 axes if it may be a number too."""
    annotation = parameter.annotation
    if not isinstance(annotation, ArrayAnnotation):
        return parameter.name, -1 if annotation is None else 0, ()
    element = annotation.element
    inner = () if element is None or isinstance(element, Struct) else component_shape(element)
    return parameter.name, annotation.ndim, inner


def _of_elements(shape: Shape, ndim: int, components: Shape) -> Shape:
    """Return a shape without the axes of components, if it has them."""
    return shape[:ndim] if components and len(shape) > ndim and shape[ndim:] == components else shape
