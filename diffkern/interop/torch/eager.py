"""A kernel's call as a function of PyTorch's autograd.

In: a call and its tensors. Out: results that know how to take their gradients back. The plain function keeps what the
adjoint reads, no more; the one for ``torch.func`` also has a rule for ``vmap``: one call for each example of the batch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch

from diffkern.interop.torch.call import Backward, Forward
from diffkern.interop.torch.observers import forward_mode

if TYPE_CHECKING:
    from diffkern.interop.torch.function import TorchFunction
    from diffkern.runtime.generation import Generation

__all__ = ["Call", "Plain", "Transformed", "disabled", "gradients_of", "second_derivative"]

_is_old_batch = torch._C._functorch.is_legacy_batchedtensor
_transforming = torch._C._are_functorch_transforms_active


class Call:
    """One call: what autograd carries from the forward to the backward besides tensors."""

    __slots__ = ("backward", "forward", "function", "kept", "like", "needs", "values")

    def __init__(self, function: TorchFunction) -> None:
        self.function = function
        self.forward: Forward | None = None
        self.needs: tuple[bool, ...] = ()
        self.backward: Backward | None = None
        self.values: Mapping[int, bytes] = {}
        self.kept: tuple[tuple[bool, int], ...] = ()
        self.like: tuple[torch.Size | None, ...] = ()

    def run(self, args: Sequence[Any]) -> tuple[torch.Tensor, ...]:
        """Launch the kernel; afterwards the call knows its values."""
        self.forward = self.function.forward_of(args)
        results, self.values = self.forward.run(args)
        return results

    def prepare(
        self, ctx: Any, args: Sequence[Any], results: tuple[torch.Tensor, ...], needs: tuple[bool, ...]
    ) -> None:
        """Keep what the backward will need."""
        function = self.function
        ctx.call = self
        ctx.set_materialize_grads(False)
        fixed = [r for r in results if not r.is_floating_point()]
        if fixed:
            ctx.mark_non_differentiable(*fixed)
        if not any(needs) or not function.enable_backward:
            return
        self.needs = needs
        self.like = tuple([a.shape if isinstance(a, torch.Tensor) else None for a in args])
        assert self.forward is not None
        self.backward = found = self.forward.backward(needs)
        if found is None:
            return
        place = {k: i for i, k in enumerate(function.spec.results)}
        tensors = [args[k] for k in found.kept_inputs] + [results[place[k]] for k in found.kept_results]
        self.kept = (*[(False, k) for k in found.kept_inputs], *[(True, k) for k in found.kept_results])
        ctx.save_for_backward(*tensors)

    def gradients(
        self, kept: Sequence[torch.Tensor], grads: Sequence[torch.Tensor | None]
    ) -> list[torch.Tensor | None]:
        """Run the adjoint."""
        found = self.backward
        if found is None:
            return [None] * len(self.like)
        if any(g is not None and _is_old_batch(g) for g in grads):
            raise RuntimeError(
                f"dk.torch_function({self.function.kernel.name}): is_grads_batched=True and vectorize=True pass "
                "gradients in an old form of batches that an adjoint cannot take; use torch.func.jacrev, or "
                "torch.func.vmap over torch.autograd.grad"
            )
        self.function.settle()
        return found.run(dict(zip(self.kept, kept, strict=True)), self.values, grads, self.like)


def second_derivative(name: str) -> RuntimeError:
    """Return the error of a gradient of a gradient."""
    return RuntimeError(
        f"dk.torch_function({name}): its gradient cannot be differentiated again. The gradient is computed by the "
        "kernel's adjoint, and adjoints of adjoints are not offered. Leave out create_graph=True, or, if this gradient "
        "is a constant for what follows, use grad.detach()"
    )


def disabled(name: str) -> RuntimeError:
    """Return the error of a gradient that was switched off."""
    return RuntimeError(
        f"dk.torch_function({name}) was made with enable_backward=False, so it has no gradient; leave that option out, "
        "or call it under torch.no_grad()"
    )


def gradients_of(
    function: TorchFunction,
    generation: Generation,
    needs: Sequence[bool],
    args: Sequence[Any],
    results: Sequence[torch.Tensor],
    grads: Sequence[torch.Tensor | None],
) -> list[torch.Tensor]:
    """Return the gradients of the arguments that need one, from all that a call was given and returned.

    `generation` is what the kernel meant at the time of the call.
    """
    forward = function.forward_of(args, generation)
    call = Call(function)
    call.backward = found = forward.backward(tuple(needs))
    wanted = [k for k, needed in enumerate(needs) if needed]
    if found is None:
        return [torch.zeros_like(args[k], memory_format=torch.contiguous_format) for k in wanted]
    call.like = tuple([a.shape if isinstance(a, torch.Tensor) else None for a in args])
    call.values = forward.values_of(args)
    place = {k: i for i, k in enumerate(function.spec.results)}
    call.kept = (*[(False, k) for k in found.kept_inputs], *[(True, k) for k in found.kept_results])
    kept = [args[k] for k in found.kept_inputs] + [results[place[k]] for k in found.kept_results]
    gradients = call.gradients(kept, grads)
    return [
        torch.zeros_like(args[k], memory_format=torch.contiguous_format) if (g := gradients[k]) is None else g
        for k in wanted
    ]


class Plain(torch.autograd.Function):
    """The call where nothing but autograd looks on."""

    @staticmethod
    def forward(ctx: Any, call: Call, *args: Any) -> Any:
        results = call.run(args)
        call.prepare(ctx, args, results, ctx.needs_input_grad[1:])
        return results if len(results) > 1 else results[0]

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Any, ...]:
        call: Call = ctx.call
        if not call.function.enable_backward:
            raise disabled(call.function.kernel.name)
        kept = ctx.saved_tensors
        if call.backward is not None and (torch.is_grad_enabled() or _transforming()):
            return (None, *_Gradient.apply(call, len(kept), *kept, *grads))
        return (None, *call.gradients(kept, grads))


def _by_example(
    one: Callable[..., Any], info: Any, in_dims: Sequence[Any], args: Sequence[Any]
) -> tuple[tuple[Any, ...], tuple[int | None, ...]]:
    """Call once for each example of a batch, and stack what comes out."""
    if info.batch_size == 0:
        raise RuntimeError("dk.torch_function: vmap over an empty batch; there is no example that says a shape")
    rows = [
        one(*[a if d is None else a.select(d, i) for a, d in zip(args, in_dims, strict=True)])
        for i in range(info.batch_size)
    ]
    stacked = [None if column[0] is None else torch.stack(list(column)) for column in zip(*rows, strict=True)]
    return tuple(stacked), tuple([None if s is None else 0 for s in stacked])


class Transformed(torch.autograd.Function):
    """The call inside torch.func's transformations, which may be several: nothing but tensors is kept."""

    @staticmethod
    def forward(function: TorchFunction, *args: Any) -> tuple[torch.Tensor, ...]:
        return function.forward_of(args).run(args)[0]

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[torch.Tensor, ...]) -> None:
        function, *args = inputs
        ctx.function, ctx.generation = function, function.kernel.current()
        ctx.set_materialize_grads(False)
        fixed = [r for r in output if not r.is_floating_point()]
        if fixed:
            ctx.mark_non_differentiable(*fixed)
        ctx.others = [None if isinstance(a, torch.Tensor) else a for a in args]
        ctx.places = [k for k, a in enumerate(args) if isinstance(a, torch.Tensor)]
        ctx.save_for_backward(*[args[k] for k in ctx.places], *output)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Any, ...]:
        function: TorchFunction = ctx.function
        if not function.enable_backward:
            raise disabled(function.kernel.name)
        args = list(ctx.others)
        for k, tensor in zip(ctx.places, ctx.saved_tensors):  # noqa: B905 - the results come after
            args[k] = tensor
        results = ctx.saved_tensors[len(ctx.places) :]
        needs = tuple(
            [
                needed and isinstance(a, torch.Tensor) and a.is_floating_point()
                for needed, a in zip(ctx.needs_input_grad[1:], args, strict=True)
            ]
        )
        found = iter(_WholeGradient.apply(function, ctx.generation, needs, *args, *results, *grads))
        return (None, *[next(found) if needed else None for needed in needs])

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        """Raise: there is no forward mode."""
        raise forward_mode(repr(ctx.function))

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], function: TorchFunction, *args: Any) -> Any:
        """Call once for each example."""
        return _by_example(lambda *example: Transformed.apply(function, *example), info, in_dims[1:], args)


class _WholeGradient(torch.autograd.Function):
    """The gradient from all arguments and results, for those that need one, where autograd may record it."""

    @staticmethod
    def forward(
        function: TorchFunction, generation: Generation, needs: tuple[bool, ...], *tensors: Any
    ) -> tuple[torch.Tensor, ...]:
        count, end = len(needs), len(needs) + len(function.spec.results)
        return tuple(gradients_of(function, generation, needs, tensors[:count], tensors[count:end], tensors[end:]))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.name = inputs[0].kernel.name

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        raise second_derivative(ctx.name)

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        """Raise: that would be a second derivative."""
        raise second_derivative(ctx.name)

    @staticmethod
    def vmap(
        info: Any, in_dims: Any, function: TorchFunction, generation: Generation, needs: tuple[bool, ...], *tensors: Any
    ) -> Any:
        """Compute the gradient for each example."""
        return _by_example(lambda *e: _WholeGradient.apply(function, generation, needs, *e), info, in_dims[3:], tensors)


class _Gradient(torch.autograd.Function):
    """The gradient of a plain call where autograd records it, or where gradients come in batches."""

    @staticmethod
    def forward(call: Call, count: int, *tensors: Any) -> tuple[torch.Tensor | None, ...]:
        return tuple(call.gradients(tensors[:count], tensors[count:]))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.name = inputs[0].function.kernel.name

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        raise second_derivative(ctx.name)

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], call: Call, count: int, *tensors: Any) -> Any:
        """Compute the gradient for each example."""
        return _by_example(lambda *e: _Gradient.apply(call, count, *e), info, in_dims[2:], tensors)
