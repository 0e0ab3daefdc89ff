"""The gradient of a call as a function that PyTorch differentiates in its turn, in both modes and batches.

A call's arguments, its results and the gradients of these give the gradients of the arguments, which know their own
derivatives: those are calls and gradients of the function with tangents, and so on to any order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from diffkern.errors import AutodiffError, LaunchError
from diffkern.interop.torch.batch import Axes, loop_over_batch, move_batch_axis, together
from diffkern.interop.torch.observers import is_dispatched, unseen
from diffkern.interop.torch.saved_for_backward import AutogradCall, traced_call
from diffkern.process.dataclass import dataclass

if TYPE_CHECKING:
    from diffkern.interop.torch.forward_mode import AlongTangents
    from diffkern.interop.torch.function import TorchFunction
    from diffkern.runtime.launch.kernel_version import KernelVersion

__all__ = ["Gradient", "Wanted", "backward_of", "backward_of_gradient", "gradients_of"]


@dataclass(frozen=True, slots=True)
class Wanted:
    """A requested gradient.

    Attributes
    ----------
    function : TorchFunction
        The function that was called.
    generation : Generation
        The version of its kernel at the call.
    needs : tuple of bool
        Which arguments need gradients.
    call : Call or None
        The call, if it kept what the adjoint reads; None if all its arguments are given.
    """

    function: TorchFunction
    generation: KernelVersion
    needs: tuple[bool, ...]
    call: AutogradCall | None = None

    def parted(self, tensors: Sequence[Any]) -> tuple[list[Any], list[Any], list[Any]]:
        """Return the arguments, the results and their gradients."""
        count = len(self.needs)
        end = count + len(self.function.spec.results)
        return list(tensors[:count]), list(tensors[count:end]), list(tensors[end:])

    def spread(self, found: Sequence[Any]) -> list[Any]:
        """Return the values of the arguments that need gradients, at the positions of all arguments."""
        rest = iter(found)
        return [next(rest) if needed else None for needed in self.needs]

    def along(self) -> AlongTangents:
        """Return the function with tangents.

        Raises
        ------
        LaunchError
            If the kernel has been redefined since the call.
        AutodiffError
            If the call depends on more than its arguments.
        """
        function = self.function
        name = function.kernel.name
        if self.call is not None and self.call.forward is not None and self.call.forward.executable.manifest.by_id:
            raise AutodiffError(
                f"dk.torch_function({name}) looks at an object on the host by its id, so its gradient cannot be "
                "differentiated again: the object is kept for the gradient alone",
                remedy="leave out create_graph=True, or take the second derivative with dk.hvp",
            )
        if function.kernel.current() is not self.generation:
            raise LaunchError(
                f"a value that kernel {name!r} captures was changed after the call whose gradient is differentiated",
                remedy="change it after all derivatives were computed, or pass it as an argument",
            )
        return function.along

    def filled(self, args: Sequence[Any]) -> list[Any]:
        """Return arguments with which forward mode can be launched."""
        return list(args) if self.call is None else self.call.filled(args)


def gradients_of(wanted: Wanted, tensors: Sequence[Any]) -> list[torch.Tensor]:
    """Return the gradients of the arguments that need one, from arguments, results (or None) and their gradients."""
    args, results, grads = wanted.parted(tensors)
    function = wanted.function
    call = wanted.call or traced_call(function, wanted.generation, wanted.needs, args)
    forward, found = call.forward, call.backward
    assert forward is not None
    # Only tensors were kept, and the adjoint reads results: the launch is run again for them.
    if found is not None and found.kept_results and all(r is None for r in results):
        results = list(forward.run(args)[0])
    gradients = call.gradients(call.chosen(args, results), grads)
    return [
        # An argument on which no result depends has a gradient of zeros, as PyTorch expects a tensor.
        torch.zeros(call.given[k], dtype=forward.dtype_of(k), device=forward.device)
        if (gradient := gradients[k]) is None
        else gradient
        for k, needed in enumerate(wanted.needs)
        if needed
    ]


class Gradient(torch.autograd.Function):
    """The gradients of the arguments that need one."""

    @staticmethod
    def forward(wanted: Wanted, *tensors: Any) -> tuple[torch.Tensor, ...]:
        # A mode that traces sees operators only, so the gradient has to be one.
        if wanted.call is None and is_dispatched(tensors):
            args, results, grads = wanted.parted(tensors)
            known = wanted.function.run(args) if any(r is None for r in results) else results
            return tuple(wanted.function.gradient_operator(grads, known, wanted.needs, args))
        return tuple(gradients_of(wanted, tensors))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        wanted, *tensors = inputs
        ctx.wanted = wanted
        ctx.set_materialize_grads(False)
        ctx.places = [k for k, t in enumerate(tensors) if isinstance(t, torch.Tensor)]
        ctx.others = [None if isinstance(t, torch.Tensor) else t for t in tensors]
        ctx.save_for_backward(*[tensors[k] for k in ctx.places])
        ctx.save_for_forward(*[tensors[k] for k in ctx.places])

    @staticmethod
    @unseen
    def backward(ctx: Any, *grads: Any) -> tuple[Any, ...]:
        wanted: Wanted = ctx.wanted
        args, results, given = wanted.parted(_saved(ctx))
        needs, _, of_given = wanted.parted(ctx.needs_input_grad[1:])
        of_args, of_grads = backward_of_gradient(wanted, args, given, grads, needs, of_given)
        return (None, *of_args, *[None] * len(results), *of_grads)

    @staticmethod
    def jvp(ctx: Any, _: None, *tangents: Any) -> tuple[torch.Tensor, ...]:
        wanted: Wanted = ctx.wanted
        args, results, given = wanted.parted(_saved(ctx))
        of_args, _results, of_grads = wanted.parted(tangents)
        # The gradient is linear in the cotangents of the results: its change by them is a gradient as well.
        if all(t is None for t in of_args):
            found: tuple[torch.Tensor, ...] = Gradient.apply(wanted, *args, *results, *of_grads)
            return found
        along = wanted.along()
        whole = along.arguments(wanted.filled(args), of_args)
        spread = _of_primals(along, whole, wanted.needs, of_grads, given)
        return tuple([g for g, needed in zip(spread, wanted.needs, strict=True) if needed])

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], wanted: Wanted, *tensors: Any) -> Any:
        """Compute the gradients of all examples in one launch, or that of each."""
        found = _together(wanted, info.batch_size, in_dims[1:], tensors)
        if found is not None:
            return found, (0,) * len(found)
        return loop_over_batch(lambda *example: Gradient.apply(wanted, *example), info.batch_size, in_dims[1:], tensors)


def _together(wanted: Wanted, size: int, axes: Axes, tensors: Sequence[Any]) -> tuple[Any, ...] | None:
    """Return the gradients of all examples of a batch from one launch; None if there is no such launch."""
    if wanted.call is not None or wanted.function.kernel.current() is not wanted.generation:
        return None
    (args, results, grads), (of_args, of_results, of_grads) = wanted.parted(tensors), wanted.parted(axes)
    made = together(wanted.function, size, of_args, args, [k for k, needed in enumerate(wanted.needs) if needed])
    if made is None:
        return None
    function, given = made
    every = range(len(results))
    behind = [*move_batch_axis(size, of_results, results, every), *move_batch_axis(size, of_grads, grads, every)]
    try:
        found: tuple[Any, ...] = Gradient.apply(
            Wanted(function, function.kernel.current(), wanted.needs), *given, *behind
        )
    except AutodiffError:
        return None
    return found


def backward_of(wanted: Wanted, tensors: Sequence[Any]) -> tuple[torch.Tensor, ...]:
    """Return the gradients of a call; for a batch without a gradient as a whole, from those of its examples."""
    function = wanted.function
    try:
        found: tuple[torch.Tensor, ...] = Gradient.apply(wanted, *tensors)
    except AutodiffError:
        # Some kernels have an adjoint only for a launch of one example, such as those whose preconditions depend on
        # shapes.
        if function.examples is None or function.kernel.current() is not wanted.generation:
            raise
    else:
        return found
    of, differ = function.examples
    single = Wanted(of, of.kernel.current(), wanted.needs)
    count = len(wanted.needs)
    axes = [0 if k in differ else None for k in range(count)] + [None if t is None else 0 for t in tensors[count:]]
    size = next(t.shape[0] for t, axis in zip(tensors, axes, strict=True) if axis == 0)
    stacked, _ = loop_over_batch(lambda *example: backward_of(single, example), size, axes, tensors)
    needed = [k for k, is_needed in enumerate(wanted.needs) if is_needed]
    # The gradient of an argument that all examples share is the sum of theirs.
    return tuple(ct if k in differ else ct.sum(0) for k, ct in zip(needed, stacked, strict=True))


def backward_of_gradient(
    wanted: Wanted,
    args: Sequence[Any],
    given: Sequence[Any],
    cotangents: Sequence[Any],
    of_args: Sequence[bool],
    of_given: Sequence[bool],
) -> tuple[list[Any], list[Any]]:
    """Return the gradients of a gradient's inputs: of the arguments, and of the cotangents of the results.

    Parameters
    ----------
    wanted : Wanted
        The gradient.
    args, given : sequence
        The arguments, and the gradients of the results.
    cotangents : sequence of tensor or None
        For each argument that has a gradient, the gradient of that.
    of_args, of_given : sequence of bool
        Which of them are needed.
    """
    found: list[Any] = [None] * len(args)
    tangents: list[Any] = [None] * len(given)
    if all(ct is None for ct in cotangents):
        return found, tangents
    along = wanted.along()
    whole = along.arguments(wanted.filled(args), wanted.spread(cotangents))
    # The gradient of <c, J dx>, which is the second derivative; see :mod:`diffkern.interop.torch.forward_mode`.
    if any(of_args) and any(ct is not None for ct in given):
        found = _of_primals(along, whole, of_args, tangents, given)
    if any(of_given):
        made = along.tangents(along.function.results_of(tuple(whole)))
        tangents = [t if needed else None for t, needed in zip(made, of_given, strict=True)]
    return found, tangents


def _saved(ctx: Any) -> list[Any]:
    """Return the arguments of a function after its first one."""
    tensors = list(ctx.others)
    for k, tensor in zip(ctx.places, ctx.saved_tensors, strict=True):
        tensors[k] = tensor
    return tensors


def _of_primals(
    along: AlongTangents, whole: Sequence[Any], needs: Sequence[bool], of_results: Sequence[Any], given: Sequence[Any]
) -> list[Any]:
    """Return the gradients of a function with tangents for the primal arguments, None for those that need none."""
    function = along.function
    rest = len(whole) - len(needs)
    wanted = Wanted(function, function.kernel.current(), (*needs, *[False] * rest))
    unknown = [None] * len(function.spec.results)
    return wanted.spread(Gradient.apply(wanted, *whole, *unknown, *along.cotangents(of_results, given)))[: len(needs)]
