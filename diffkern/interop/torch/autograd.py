"""A kernel's call as a function of PyTorch's autograd.

A call and its tensors give results that carry their gradients' backward function. The plain function keeps what the
adjoint reads, no more; the one for ``torch.func`` and tensors with tangents also has rules for forward mode and for
``vmap``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.autograd import forward_ad

from diffkern.interop.torch.batch import loop_over_batch, together
from diffkern.interop.torch.gradient import Gradient, Wanted, backward_of
from diffkern.interop.torch.observers import unseen
from diffkern.interop.torch.saved_for_backward import AutogradCall, disabled

if TYPE_CHECKING:
    from diffkern.interop.torch.function import TorchFunction

__all__ = ["AutogradFunction", "FunctorchFunction", "applied"]

_transforming = torch._C._are_functorch_transforms_active
_is_wrapped = torch._C._functorch.is_functorch_wrapped_tensor


class AutogradFunction(torch.autograd.Function):
    """The call if autograd is the only observer."""

    @staticmethod
    def forward(ctx: Any, call: AutogradCall, *args: Any) -> Any:
        needs = ctx.needs_input_grad[1:]
        results = call.run(args, needs)
        call.prepare(ctx, args, results, needs)
        return results if len(results) > 1 else results[0]

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Any, ...]:
        call: AutogradCall = ctx.call
        if not call.function.enable_backward:
            raise disabled(call.function.kernel.name)
        kept = call.own(ctx.saved_tensors)
        looked_on = torch.is_grad_enabled() or _transforming() or forward_ad._current_level >= 0
        # Without an observer the gradients are computed at once; otherwise they are a call of a function that can
        # itself be differentiated, traced or batched.
        if call.forward is None or call.backward is None or not looked_on:
            return (None, *call.gradients(kept, grads))
        wanted = Wanted(call.function, call.forward.generation, call.needs, call)
        args, results = call.placed(kept)
        return (None, *wanted.spread(Gradient.apply(wanted, *args, *results, *grads)))


_apply = super(torch.autograd.Function, AutogradFunction).apply


def applied(call: AutogradCall, args: tuple[Any, ...]) -> Any:
    """Return the results of a call outside of ``torch.func``; autograd follows them."""
    # What PyTorch's own `apply` does before: it unwraps tensors that have left a transformation, of which there are
    # hardly ever any, and to find none takes it a third of the time of an empty function.
    for a in args:
        if isinstance(a, torch.Tensor) and _is_wrapped(a):
            return AutogradFunction.apply(call, *args)
    return _apply(call, *args)


class FunctorchFunction(torch.autograd.Function):
    """The call inside torch.func's transformations, which may be several: only tensors are kept."""

    @staticmethod
    def forward(function: TorchFunction, *args: Any) -> tuple[torch.Tensor, ...]:
        return function.run(args)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[torch.Tensor, ...]) -> None:
        function, *args = inputs
        ctx.function, ctx.generation = function, function.kernel.current()
        ctx.set_materialize_grads(False)
        # Integers have no gradient, and PyTorch would ask for zeros of their type.
        fixed = [r for r in output if not r.is_floating_point()]
        if fixed:
            ctx.mark_non_differentiable(*fixed)
        ctx.others = [None if isinstance(a, torch.Tensor) else a for a in args]
        ctx.places = [k for k, a in enumerate(args) if isinstance(a, torch.Tensor)]
        tensors = [args[k] for k in ctx.places]
        ctx.save_for_backward(*tensors, *output)
        ctx.save_for_forward(*tensors)

    @staticmethod
    def _arguments(ctx: Any) -> tuple[list[Any], list[torch.Tensor]]:
        """Return the arguments, and the results if they were kept."""
        function: TorchFunction = ctx.function
        if not function.enable_backward:
            raise disabled(function.kernel.name)
        args, count = list(ctx.others), len(ctx.places)
        for k, tensor in zip(ctx.places, ctx.saved_tensors[:count], strict=True):
            args[k] = tensor
        return args, list(ctx.saved_tensors[count:])

    @staticmethod
    @unseen
    def backward(ctx: Any, *grads: Any) -> tuple[Any, ...]:
        args, results = FunctorchFunction._arguments(ctx)
        needs = [
            needed and isinstance(a, torch.Tensor) and a.is_floating_point()
            for needed, a in zip(ctx.needs_input_grad[1:], args, strict=True)
        ]
        wanted = Wanted(ctx.function, ctx.generation, tuple(needs))
        return (None, *wanted.spread(backward_of(wanted, [*args, *results, *grads])))

    @staticmethod
    def jvp(ctx: Any, _: None, *tangents: Any) -> tuple[torch.Tensor | None, ...]:
        args, _results = FunctorchFunction._arguments(ctx)
        along = ctx.function.along
        return tuple(along.tangents(along.function.results_of(tuple(along.arguments(args, tangents)))))

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], function: TorchFunction, *args: Any) -> Any:
        """Make one launch for all examples, or one for each."""
        size, axes = info.batch_size, in_dims[1:]
        made = together(function, size, axes, args)
        if made is None:
            return loop_over_batch(lambda *example: FunctorchFunction.apply(function, *example), size, axes, args)
        results = FunctorchFunction.apply(made[0], *made[1])
        return results, (0,) * len(results)
