"""A kernel as a function of arrays: which parameters are passed, which are results, and how large the results are.

In: a kernel whose last parameters are outputs, and what the user says of dimensions. Out: a :class:`CallSpec`, which
gives the launch's dimensions and the outputs' shapes from the shapes of the inputs. Shapes are those of elements,
without components; extents are passed on as they come, so that symbolic ones stay what they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from diffkern.ir.structs import Struct
from diffkern.ir.types import Element
from diffkern.lang.annotations import ArrayAnnotation
from diffkern.runtime.arguments import Parameter

__all__ = ["CallSpec", "Shape"]

Shape = tuple[Any, ...]
"""Extents: integers, or the symbolic ones of a framework that traces."""

MAX_DIMS = 4


class _Kernel(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def parameters(self) -> Sequence[Parameter]: ...


class CallSpec:
    """How a kernel is called as a function that returns its outputs.

    Parameters
    ----------
    kernel : Kernel
        The kernel. Its parameters are inputs, arguments that are both, and outputs, the outputs last.
    num_outputs : int
        Number of results, those that are also inputs included.
    launch_dims : int, sequence of int, or None
        Dimensions of the launch; None for the shape of the first array that is passed.
    output_dims : int, sequence of int, mapping of str to these, or None
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
    """

    def __init__(
        self,
        kernel: _Kernel,
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
                raise ValueError(f"{self._what}: there is no parameter {name!r} for in_out_argnames; there are {known}")
        self.in_outs = tuple(sorted({known[name] for name in names}))
        if isinstance(num_outputs, bool) or not isinstance(num_outputs, int):
            raise TypeError(f"{self._what}: num_outputs is an integer, not {num_outputs!r}")
        fresh = num_outputs - len(self.in_outs)
        if num_outputs < 1 or fresh < 0 or num_outputs > len(parameters):
            raise ValueError(
                f"{self._what}: num_outputs={num_outputs} must be at least 1 and include the {len(self.in_outs)} of "
                f"in_out_argnames; the kernel has {len(parameters)} parameters"
            )
        first = len(parameters) - fresh
        self.outputs = tuple(range(first, len(parameters)))
        self.inputs = tuple(range(first))
        late = [parameters[k].name for k in self.in_outs if k >= first]
        if late:
            raise ValueError(f"{self._what}: {late[0]!r} is passed as well, so it must stand before the pure outputs")
        self.results = (*self.in_outs, *self.outputs)
        for k in self.results:
            self._check_result(parameters[k])
        self.launch_dims = None if launch_dims is None else self.checked_dims(launch_dims, "launch_dims")
        self.output_dims = self.checked_output_dims(output_dims)

    def _check_result(self, parameter: Parameter) -> None:
        annotation = parameter.annotation
        if not isinstance(annotation, ArrayAnnotation) or annotation.dtype is None:
            raise ValueError(
                f"{self._what}: the output {parameter.name!r} has to be annotated as an array with a dtype, as in "
                f"{parameter.name}: dk.array(dtype=float), so that it can be made"
            )
        if isinstance(annotation.dtype, Struct):
            raise ValueError(f"{self._what}: the output {parameter.name!r} is an array of structs, which has no tensor")

    def checked_dims(self, dims: Any, name: str) -> Shape:
        """Return dimensions as a tuple."""
        shape = tuple(dims) if isinstance(dims, Sequence) else (dims,)
        if not 1 <= len(shape) <= MAX_DIMS:
            raise ValueError(f"{self._what}: {name} has 1 to {MAX_DIMS} extents, not {dims!r}")
        for extent in shape:
            if isinstance(extent, (bool, float, str)) or (isinstance(extent, int) and extent < 0):
                raise ValueError(f"{self._what}: {name} are integers that are not negative, not {dims!r}")
        return shape

    def checked_output_dims(self, dims: Any) -> dict[int, Shape] | None:
        """Return the shapes of outputs by parameter, or None where none are given."""
        if dims is None:
            return None
        if not isinstance(dims, Mapping):
            shape = self.checked_dims(dims, "output_dims")
            return dict.fromkeys(self.outputs, shape)
        names = {self.kernel.parameters[k].name: k for k in self.outputs}
        unknown = [name for name in dims if name not in names]
        if unknown:
            raise ValueError(
                f"{self._what}: output_dims names {unknown[0]!r}, which is no pure output; those are {[*names]}"
            )
        return {names[name]: self.checked_dims(shape, f"output_dims[{name!r}]") for name, shape in dims.items()}

    def element(self, index: int) -> Element:
        """Return the element type of a result."""
        annotation = self.kernel.parameters[index].annotation
        assert isinstance(annotation, ArrayAnnotation)
        assert annotation.dtype is not None
        assert not isinstance(annotation.dtype, Struct)
        return annotation.dtype

    def dims(self, shapes: Mapping[int, Shape], launch_dims: Shape | None = None) -> Shape:
        """Return the dimensions of the launch, from the shapes of the arrays that are passed, by parameter."""
        given = self.launch_dims if launch_dims is None else launch_dims
        if given is not None:
            return given
        if not shapes:
            raise ValueError(f"{self._what}: no array is passed, so launch_dims must be given")
        return shapes[min(shapes)]

    def output_shapes(self, dims: Shape, output_dims: Mapping[int, Shape] | None = None) -> dict[int, Shape]:
        """Return the shape of each pure output, by parameter, from the dimensions of the launch."""
        given = self.output_dims if output_dims is None else output_dims
        found: dict[int, Shape] = {}
        for k in self.outputs:
            shape = dims if given is None or k not in given else given[k]
            annotation = self.kernel.parameters[k].annotation
            assert isinstance(annotation, ArrayAnnotation)
            if len(shape) != annotation.ndim:
                name = self.kernel.parameters[k].name
                raise ValueError(
                    f"{self._what}: the output {name!r} has {annotation.ndim} axes, its shape would be {shape}; pass "
                    f"output_dims={{{name!r}: …}}"
                )
            found[k] = shape
        return found
