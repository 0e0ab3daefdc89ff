"""``dk.torch_function``: a kernel as a function of tensors that PyTorch differentiates.

In: a kernel, and which of its parameters are results. Out: a callable. Run eagerly it goes through a function of
autograd (:mod:`~diffkern.interop.torch.eager`); traced by ``torch.compile`` or ``torch.export`` it is a custom operator
(:mod:`~diffkern.interop.torch.operator`). Both make the same calls (:mod:`~diffkern.interop.torch.call`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch

from diffkern.callers import brief
from diffkern.errors import LaunchError
from diffkern.forks import computed_once
from diffkern.interop.spec import ONLY_INPUTS, CallSpec
from diffkern.interop.torch import operator
from diffkern.interop.torch.along import AlongTangents
from diffkern.interop.torch.call import Forward, another_run
from diffkern.interop.torch.eager import Plain, Transformed
from diffkern.interop.torch.kept import Call
from diffkern.interop.torch.observers import (
    IN_GRAPHS,
    has_tangents,
    is_dispatched,
    is_traced,
    is_transformed_in_graphs,
    unseen,
)
from diffkern.interop.torch.place import default_device
from diffkern.interop.torch.types import torch_of
from diffkern.ir.structs import Struct
from diffkern.ir.types import scalar_of
from diffkern.lang.annotations import ArrayAnnotation
from diffkern.runtime.arguments import wrong_count
from diffkern.runtime.launchable import check_kernel
from diffkern.runtime.state import attention, current
from diffkern.runtime.stream import drain

if TYPE_CHECKING:
    from diffkern.batched_kernel import BatchedLaunch
    from diffkern.kernel import Kernel
    from diffkern.runtime.generation import Generation

__all__ = ["TorchFunction"]

_CACHED = 256
_transforming = torch._C._are_functorch_transforms_active


class TorchFunction:
    """A kernel as a function of tensors; made by :func:`diffkern.torch_function`, which says what it takes.

    Attributes
    ----------
    kernel : Kernel
        What it launches.
    spec : CallSpec
        What is passed and what is returned.
    enable_backward : bool
        Whether it can be differentiated.
    """

    def __init__(
        self,
        kernel: Kernel,
        num_outputs: int = 1,
        launch_dims: int | Sequence[int] | None = None,
        output_dims: Any = None,
        in_out_argnames: Sequence[str] | str | None = None,
        enable_backward: bool = True,
    ) -> None:
        check_kernel(kernel)
        self._given = kernel, num_outputs, launch_dims, output_dims, in_out_argnames, enable_backward
        self.kernel = kernel
        self.spec = CallSpec(kernel, num_outputs, launch_dims, output_dims, in_out_argnames, "dk.torch_function")
        self.enable_backward = enable_backward and kernel.enable_backward
        self._count = len(self.spec.inputs)
        self._is_placeless = all(not kernel.parameters[k].is_array for k in self.spec.inputs)
        self._plans: dict[Any, Forward] = {}
        # The name of the kernel of whose calls this makes other runs, for their derivatives.
        self.again: str | None = None
        # Under autocast floating-point tensors are brought to the annotated type, as torch.amp.custom_fwd does.
        self._casts: Mapping[int, torch.dtype] = {
            k: dtype for k in self.spec.inputs if (dtype := _floating(kernel.parameters[k].annotation)) is not None
        }
        self._complex = self.spec.complex_parameters()
        # For batches, by what they launch and what comes out.
        self.batches: dict[Any, TorchFunction] = {}
        # Of a function for batches: that for an example, and which arguments differ.
        self.examples: tuple[TorchFunction, frozenset[int]] | None = None
        self._operator, self.gradient_operator = self._operators()

    def _operators(self) -> tuple[Callable[[tuple[Any, ...]], Any], Callable[..., list[torch.Tensor]]]:
        """Return the operator for graphs, and that of the gradient."""
        return operator.operator_of(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return TorchFunction, self._given

    def __repr__(self) -> str:
        return f"<dk.torch_function {self.kernel.name}>"

    @brief
    def __call__(self, *args: Any) -> Any:
        """Launch the kernel on tensors and numbers, and return its results as new tensors."""
        if len(args) != self._count:
            raise self._wrong_count(len(args))
        if torch.is_autocast_enabled("cpu") or torch.is_autocast_enabled("cuda"):
            args = self._cast(args)
        return self._of_complex(args) if self._complex else self._called(args)

    def _of_complex(self, args: Sequence[Any]) -> Any:
        """Call with complex tensors as pairs, in which PyTorch sees what it differentiates."""
        pairs = [
            torch.view_as_real(a.resolve_conj())
            if k in self._complex and isinstance(a, torch.Tensor) and a.is_complex()
            else a
            for k, a in enumerate(args)
        ]
        found = self._called(tuple(pairs))
        results = found if isinstance(found, tuple) else (found,)
        made = tuple(
            torch.view_as_complex(r) if k in self._complex else r
            for k, r in zip(self.spec.results, results, strict=True)
        )
        return made if len(made) > 1 else made[0]

    def _called(self, args: tuple[Any, ...]) -> Any:
        if torch.compiler.is_compiling() or is_traced():
            if is_transformed_in_graphs():
                raise RuntimeError(IN_GRAPHS)  # torch.compile then runs eagerly what it cannot take
            return self._operator(args)
        if _transforming() or has_tangents(args):
            found = _transformed(self, args)
            return found if len(found) > 1 else found[0]
        if is_dispatched(args):
            return self._operator(args)
        if torch.is_grad_enabled():
            for a in args:
                if isinstance(a, torch.Tensor) and a.requires_grad:
                    return Plain.apply(Call(self), *args)
        results, _ = self.forward_of(args).run(args)
        return results if len(results) > 1 else results[0]

    def run(self, args: Sequence[Any]) -> tuple[torch.Tensor, ...]:
        """Return the results of a call whose derivatives somebody else sees to."""
        if is_dispatched(args):
            found = self._operator(tuple(args))
            return found if isinstance(found, tuple) else (found,)
        return self.forward_of(args).run(args)[0]

    def results_of(self, args: tuple[Any, ...]) -> tuple[torch.Tensor, ...]:
        """Return the results of a call as a tuple, whose complex numbers are pairs as those of `args`."""
        found = self._called(args)
        return found if isinstance(found, tuple) else (found,)

    @computed_once
    def along(self) -> AlongTangents:
        """The function that also takes tangents, and returns those of its results."""
        return AlongTangents(self)

    def with_examples(self, launch: BatchedLaunch, outputs: Mapping[str, tuple[int, ...]]) -> TorchFunction:
        """Return the function that makes a launch for a batch, with the shapes of its pure outputs."""
        spec = self.spec
        changed = [self.kernel.parameters[k].name for k in spec.in_outs]
        dims, count = launch.dims, len(spec.results)
        made = _OfBatches(launch.kernel, count, dims, dict(outputs) or None, changed, self.enable_backward)
        made.again = self.again
        made.examples = self, frozenset(launch.kernel.layer.arguments)
        return made

    def forward_of(self, args: Sequence[Any], generation: Generation | None = None) -> Forward:
        """Return the launch for arguments like these, of what the kernel means now or meant."""
        if attention.word[0]:
            self.check_idle()
        generation = generation or self.kernel.current()
        key: Any = (
            generation.number,
            *[(a.dtype, a.shape, a.stride(), a.device) if isinstance(a, torch.Tensor) else type(a) for a in args],
        )
        if self._is_placeless:
            key = key, default_device()
        found = self._plans.get(key)
        if found is None:
            if len(self._plans) >= _CACHED:
                self._plans.clear()
            made = Forward(self.kernel, self.spec, args, generation)
            if self.again is not None and made.executable.manifest.turn is not None:
                raise another_run(self.again, made.executable.manifest.turn)
            found = self._plans[key] = made
        return found

    def check_idle(self) -> None:
        """Wait for pending work; refuse to run where something of diffkern is recording.

        Raises
        ------
        LaunchError
            If a tape or a sequence records, which would not see this call.
        """
        if current.tape is not None or current.recorder is not None:
            raise LaunchError(
                f"{self!r} was called while a dk.Tape or dk.record() was recording, which would not see it",
                remedy="PyTorch's autograd takes its gradient; call it outside of that block",
            )
        drain()

    def _cast(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(
            [
                a.to(self._casts[k])
                if k in self._casts
                and isinstance(a, torch.Tensor)
                and a.is_floating_point()
                and torch.is_autocast_enabled(a.device.type)
                else a
                for k, a in enumerate(args)
            ]
        )

    def _wrong_count(self, count: int) -> LaunchError:
        wanted = [self.kernel.parameters[k] for k in self.spec.inputs]
        return wrong_count(self.kernel.name, wanted, count, ONLY_INPUTS)


class _OfBatches(TorchFunction):
    """A function for batches, which no graph has: batches of what is traced are calls of examples."""

    def _operators(self) -> tuple[Callable[[tuple[Any, ...]], Any], Callable[..., list[torch.Tensor]]]:
        def refused(*_: Any) -> Any:
            raise RuntimeError(IN_GRAPHS)

        return refused, refused


@unseen
def _transformed(function: TorchFunction, args: tuple[Any, ...]) -> tuple[torch.Tensor, ...]:
    found: tuple[torch.Tensor, ...] = Transformed.apply(function, *args)
    return found


def _floating(annotation: Any) -> torch.dtype | None:
    element = annotation.element if isinstance(annotation, ArrayAnnotation) else annotation
    if element is None or isinstance(element, Struct):
        return None
    scalar = scalar_of(element)
    return torch_of(scalar) if scalar.is_float else None
