"""One call of a kernel on tensors, and the part of it that is kept for its gradient.

From a call and its tensors it keeps the values that the adjoint reads, no more, and computes the gradients from them.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch

from diffkern.errors import AutodiffError, LaunchError
from diffkern.interop.torch.call import Backward, Forward, another_run
from diffkern.runtime.launch.resources import check_without_derivative, used

if TYPE_CHECKING:
    from diffkern.contracts.manifest import Log
    from diffkern.interop.torch.function import TorchFunction
    from diffkern.runtime.arrays.array import array
    from diffkern.runtime.arrays.operation import Operation
    from diffkern.runtime.launch.kernel_version import KernelVersion
    from diffkern.runtime.launch.resources import Use

__all__ = ["AutogradCall", "disabled", "traced_call"]

_numbers = itertools.count()
_is_old_batch = torch._C._functorch.is_legacy_batchedtensor


class AutogradCall:
    """One call: the state that autograd carries from the forward to the backward besides tensors.

    Attributes
    ----------
    needs : tuple of bool
        Which arguments need gradients.
    kept : tuple of (bool, int)
        The kept tensors: whether it is a result, and of which parameter.
    given : sequence
        For each argument the shape; the argument itself if it is no tensor.
    log : tuple of array
        Its log.
    searched : Backward or None
        The adjoint that reads what searches have found from the log, if that is what the log has.
    number : int
        The number of the call in this process.
    """

    __slots__ = (
        "_is_marked", "backward", "forward", "function", "given", "kept", "log", "needs", "number", "objects",
        "searched", "values",
    )  # fmt: skip

    def __init__(self, function: TorchFunction) -> None:
        self.function = function
        self.forward: Forward | None = None
        self.needs: tuple[bool, ...] = ()
        self.backward: Backward | None = None
        self.searched: Backward | None = None
        self.values: Mapping[int, bytes] = {}
        self.objects: Sequence[Use] = ()
        self.kept: tuple[tuple[bool, int], ...] = ()
        self.given: Sequence[Any] = ()
        self.log: tuple[array, ...] = ()
        self.number = next(_numbers)
        self._is_marked = False

    def run(self, args: Sequence[Any], needs: tuple[bool, ...]) -> tuple[torch.Tensor, ...]:
        """Launch the kernel; afterwards the call knows its values, and has the log for gradients of some arguments."""
        self.forward = self.function.forward_of(args)
        # Only a launch whose gradient is wanted writes one.
        log = self._log_for(self.forward, needs)
        if log is None:
            results, self.values = self.forward.run(args)
        else:
            results, self.values, self.log = self.forward.run_logged(args, log)
        if self.forward.executable.by_id:
            self.objects = used(self.forward.executable, self.values)
        return results

    def _log_for(self, forward: Forward, needs: tuple[bool, ...]) -> Log | None:
        """Return the log that the launch has to write, if there is one."""
        manifest = forward.executable.manifest
        if not (manifest.log or manifest.searches) or not self.function.enable_backward or not any(needs):
            return None
        found = forward.backward(needs)
        if found is not None and found.of_call is None:
            found = self.searched = forward.searched(needs)
        return None if found is None else found.of_call

    def prepare(
        self, ctx: Any, args: Sequence[Any], results: tuple[torch.Tensor, ...], needs: tuple[bool, ...]
    ) -> None:
        """Keep the values that the backward will need."""
        function = self.function
        ctx.call = self
        # A missing cotangent is None, for which nothing has to be computed; zeros would be.
        ctx.set_materialize_grads(False)
        assert self.forward is not None
        if self.forward.fixed:
            ctx.mark_non_differentiable(*[results[place] for place in self.forward.fixed])
        if not any(needs) or not function.enable_backward:
            return
        # PyTorch saves no more than these tensors, so that memory of other arguments is freed early.
        self.keep(self.forward, args, needs)
        if self.backward is not None:
            if self.objects:
                given = [held for use in self.objects for held in use.content.given.values()]
                check_without_derivative(function.kernel, given, "in a function of PyTorch")
            if self.forward.executable.changes:
                raise LaunchError(
                    f"kernel {function.kernel.name!r} stores to a volume by its id, and in a function of PyTorch no "
                    "derivative goes that way",
                    remedy="store to a tensor that is a parameter",
                )
            ctx.save_for_backward(*self.chosen(args, results), *self._mark())

    def keep(self, forward: Forward, args: Sequence[Any], needs: tuple[bool, ...]) -> None:
        """Record what is needed of the arguments for gradients of some of them."""
        self.forward, self.needs = forward, needs
        given = [*args]
        for k, shape in forward.given_shapes.items():
            given[k] = shape
        self.given = given
        self.backward = found = forward.backward(needs)
        if found is not None:
            self.kept = found.kept

    def chosen(self, args: Sequence[Any], results: Sequence[Any]) -> list[Any]:
        """Return the tensors to keep, of all arguments and results."""
        if self.backward is None:
            return []
        return [results[place] if is_result else args[place] for is_result, place in self.backward.places]

    def _mark(self) -> list[torch.Tensor]:
        """Return the tensor that is kept beside a log: it tells whether the other kept tensors are of
        the same launch.
        """
        # A checkpoint runs the forward again and replaces the saved tensors, but not the log of this object.
        self._is_marked = bool(self.log)
        return [torch.tensor(self.number)] if self._is_marked else []

    def own(self, kept: Sequence[Any]) -> Sequence[Any]:
        """Return the tensors that were chosen.

        Raises
        ------
        AutodiffError
            If they are of another launch than the log.
        """
        if not self._is_marked:
            return kept
        if not self.log:  # given up by an earlier backward of the same call
            return kept[:-1]
        assert self.backward is not None
        if int(kept[-1]) == self.number:
            return kept[:-1]
        if self.backward.of_call is not None:
            raise another_run(self.function.kernel.name, self.backward.of_call)
        # Tensors of another launch come with another search, which runs in the adjoint then.
        self.log, self.searched = (), None
        return kept[:-1]

    def placed(self, kept: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """Return the arguments and the results, as far as they are known from the kept ones; None stands for other
        tensors.
        """
        args = [None if isinstance(g, torch.Size) else g for g in self.given]
        results: list[Any] = [None] * len(self.function.spec.results)
        place = {k: i for i, k in enumerate(self.function.spec.results)}
        for (is_result, k), tensor in zip(self.kept, kept, strict=True):
            if is_result:
                results[place[k]] = tensor
            else:
                args[k] = tensor
        return args, results

    def filled(self, args: Sequence[Any]) -> list[Any]:
        """Return the arguments, with stand-ins for unknown ones, on which no derivative depends."""
        forward = self.forward
        assert forward is not None
        return [
            forward.stand_in(k, given, self.values) if a is None and isinstance(given, torch.Size) else a
            for k, (a, given) in enumerate(zip(args, self.given, strict=True))
        ]

    def gradients(self, kept: Sequence[Any], grads: Sequence[torch.Tensor | None]) -> list[torch.Tensor | None]:
        """Run the adjoint."""
        found = self.searched or self.backward
        if found is None:
            return [None] * len(self.given)
        for g in grads:
            if g is not None and _is_old_batch(g):
                raise self._refused_batch()
        self.function.check_idle()
        tensors = dict(zip(self.kept, kept, strict=True))
        if not self.objects:
            return found.run(tensors, self.values, grads, self.log)
        before, after = self._restored()
        # Undone in any case: an object must not stay in the state of an earlier call.
        found.perform(before)
        try:
            return found.run(tensors, self.values, grads, self.log)
        finally:
            found.perform(after)

    def _refused_batch(self) -> RuntimeError:
        return RuntimeError(
            f"dk.torch_function({self.function.kernel.name}): is_grads_batched=True and vectorize=True pass "
            "gradients in an old form of batches that an adjoint cannot take; use torch.func.jacrev, or "
            "torch.func.vmap over torch.autograd.grad"
        )

    def _restored(self) -> tuple[list[Operation], list[Operation]]:
        """Return operations that restore objects known to the kernel by id to their state at the call, and that undo
        this.
        """
        before: list[Operation] = []
        after: list[Operation] = []
        for use in self.objects:
            first, last = use.around(f"a call of dk.torch_function({self.function.kernel.name})")
            before, after = before + first, last + after
        return before, after


def traced_call(
    function: TorchFunction, generation: KernelVersion, needs: Sequence[bool], args: Sequence[Any]
) -> AutogradCall:
    """Return a call of which only the tensors were kept; `generation` is the version of the kernel at the call.

    Raises
    ------
    AutodiffError
        If more than tensors would have to be kept.
    """
    forward = function.forward_of(args, generation)
    if forward.executable.manifest.by_id:
        raise AutodiffError(
            f"dk.torch_function({function.kernel.name}) looks at an object on the host by its id, and a traced call "
            "does not keep what it held, so it has no gradient",
            remedy="call it outside of torch.compile and torch.func, or launch the kernel under a dk.Tape",
        )
    call = AutogradCall(function)
    call.keep(forward, args, tuple(needs))
    if call.backward is not None:
        if call.backward.of_call is not None:
            raise another_run(function.kernel.name, call.backward.of_call)
        call.values = forward.values_of(args)
    return call


def disabled(name: str) -> RuntimeError:
    """Return the error of a gradient that was switched off."""
    return RuntimeError(
        f"dk.torch_function({name}) was made with enable_backward=False, so it has no gradient; leave that option out, "
        "or call it under torch.no_grad()"
    )
