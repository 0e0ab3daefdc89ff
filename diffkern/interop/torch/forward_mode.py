"""A function of tensors along tangents, from which its forward mode and its second derivatives are made.

A function of tensors gives one that takes a tangent for each of its arguments too, and returns those of its results:
the function of ``kernel.jvp`` with the inputs and their tangents first.

With ``J`` for the derivative of the function it computes ``J(x) t``. The gradient ``J(x)^T c``, as a function of ``x``
and ``c``, changes by ``J(x)^T dc`` and, as second derivatives are symmetric, by the gradient of ``c . J(x) t`` with
respect to ``x`` at ``t = dx``; and that is a gradient of this function here. So derivatives of any order follow.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from diffkern.interop.spec import Sizes
from diffkern.interop.torch.call import is_value
from diffkern.ir.structs import Struct
from diffkern.lang.annotations import ArrayAnnotation
from diffkern.runtime.arrays.convert import component_shape

if TYPE_CHECKING:
    from diffkern.interop.torch.function import TorchFunction
    from diffkern.kernels.derived_kernel import TangentKernel

__all__ = ["AlongTangents"]


class AlongTangents:
    """A function with tangents.

    Attributes
    ----------
    function : TorchFunction
        It takes the arguments and then a tangent for each that can have one.
    """

    def __init__(self, of: TorchFunction) -> None:
        spec = of.spec
        count = len(spec.inputs)
        usual: TangentKernel = of.kernel.jvp  # type: ignore[assignment]  # what Kernel.jvp makes
        # The parameters of the usual jvp kernel alternate; here inputs come first, so that outputs stay the last.
        kernel = usual.ordered(count)
        total = len(of.kernel.parameters)
        joined = kernel.along.joined(range(total), [total + k for k in kernel.with_tangents])
        place = {v: k for k, v in enumerate(joined)}
        names = [p.name for p in kernel.parameters]

        def both(k: int) -> list[str]:
            return [names[place[v]] for v in (k, total + k) if v in place]

        changed = [name for k in spec.in_outs for name in both(k)]
        fresh = sum(len(both(k)) for k in spec.outputs)
        dims = (
            None if spec.output_dims is None else {n: shape for k, shape in spec.output_dims.items() for n in both(k)}
        )
        self._of = of
        self.function = type(of)(kernel, len(changed) + fresh, spec.launch_dims, dims, changed, of.enable_backward)
        # Its derivatives are launches of the original kernel once more: errors name that one.
        self.function.again = of.again or of.kernel.name
        # Where the outputs and their tangents are among the parameters of the function.
        self._places = {k: [place[v] for v in (k, total + k) if v in place] for k in spec.outputs}
        self._varying = [k for k in kernel.with_tangents if k < count]
        order = {k: i for i, k in enumerate(self.function.spec.results)}
        # Where the results are, and their tangents.
        self._results = [order[place[k]] for k in spec.results]
        self._tangents = [order[place[total + k]] if total + k in place else None for k in spec.results]

    def sized(self, of: TorchFunction, sizes: Sizes) -> AlongTangents:
        """Return the same for a function of these sizes."""
        made = copy.copy(self)
        made._of = of
        shapes = dict(zip(of.spec.outputs, sizes.shapes, strict=True))
        of_places = {place: shapes[k] for k, places in self._places.items() for place in places}
        ordered = tuple(of_places[place] for place in self.function.spec.outputs)
        made.function = self.function.sized(Sizes(sizes.dims, ordered))
        return made

    def arguments(self, args: Sequence[Any], tangents: Sequence[Any]) -> list[Any]:
        """Return the values passed for arguments and their tangents, None for a tangent that is zero."""
        return [*args, *[self._tangent(k, args[k], tangents[k]) for k in self._varying]]

    def _tangent(self, k: int, given: Any, tangent: torch.Tensor | None) -> Any:
        if tangent is not None:
            # A tangent may be an expanded or transposed view; kernels take dense arrays without a copy.
            return tangent.contiguous()
        parameter = self._of.kernel.parameters[k]
        annotation = parameter.annotation
        is_known = annotation is not None and not (
            isinstance(annotation, ArrayAnnotation) and annotation.element is None
        )
        # A null array is a zero tangent that costs nothing. The type of a null array must be known, and an array that
        # is changed in place needs room for the tangent of its result.
        if given is None or (is_known and not is_value(parameter, given) and k not in self._of.spec.in_outs):
            return None
        if isinstance(given, torch.Tensor):
            return torch.zeros_like(given, memory_format=torch.contiguous_format)
        if annotation is None or isinstance(annotation, (ArrayAnnotation, Struct)):
            return type(given)(0)
        return np.zeros(component_shape(annotation)).tolist()

    def cotangents(self, of_results: Sequence[Any], of_tangents: Sequence[Any]) -> list[Any]:
        """Return the cotangents of all results of the function with tangents, from those of the results and of their
        tangents.
        """
        found: list[Any] = [None] * len(self.function.spec.results)
        for place, ct in zip(self._results, of_results, strict=True):
            found[place] = ct
        for own, ct in zip(self._tangents, of_tangents, strict=True):
            if own is not None:
                found[own] = ct
        return found

    def tangents(self, results: Sequence[torch.Tensor]) -> list[torch.Tensor | None]:
        """Return the tangents of the results, from all that the function with tangents returned."""
        return [
            None if place is None or not results[place].is_floating_point() else results[place]
            for place in self._tangents
        ]
