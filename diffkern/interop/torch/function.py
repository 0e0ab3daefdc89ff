"""``dk.torch_function``: a kernel as a function of tensors that PyTorch differentiates.

In: a kernel, and which of its parameters are results. Out: a callable. Run eagerly it goes through a function of
autograd (:mod:`~diffkern.interop.torch.eager`); traced by ``torch.compile`` or ``torch.export`` it is a custom operator
(:mod:`~diffkern.interop.torch.operator`). Both make the same calls (:mod:`~diffkern.interop.torch.call`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch

from diffkern.errors import LaunchError
from diffkern.interop.spec import CallSpec
from diffkern.interop.torch import operator
from diffkern.interop.torch.call import Forward
from diffkern.interop.torch.eager import Call, Plain, Transformed
from diffkern.interop.torch.observers import check_tangents, is_traced
from diffkern.interop.torch.place import default_device
from diffkern.interop.torch.types import torch_of
from diffkern.ir.structs import Struct
from diffkern.ir.types import scalar_of
from diffkern.lang.annotations import ArrayAnnotation
from diffkern.runtime.packed import check_kernel
from diffkern.runtime.state import attention, current
from diffkern.runtime.stream import settle

if TYPE_CHECKING:
    from diffkern.kernel import Kernel
    from diffkern.runtime.generation import Generation

__all__ = ["TorchFunction"]

_CACHED = 256
_PLAIN = (torch.Tensor, torch.nn.Parameter)
_transforming = torch._C._are_functorch_transforms_active
_dispatched = torch._C._len_torch_dispatch_stack


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
        # Under autocast floating-point tensors are brought to the annotated type, as torch.amp.custom_fwd does.
        self._casts: Mapping[int, torch.dtype] = {
            k: dtype for k in self.spec.inputs if (dtype := _floating(kernel.parameters[k].annotation)) is not None
        }
        self._operator = operator.operator_of(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return TorchFunction, self._given

    def __repr__(self) -> str:
        return f"<dk.torch_function {self.kernel.name}>"

    def __call__(self, *args: Any) -> Any:
        """Launch the kernel on tensors and numbers, and return its results as new tensors."""
        if len(args) != self._count:
            raise self._wrong_count(len(args))
        if torch.is_autocast_enabled("cpu") or torch.is_autocast_enabled("cuda"):
            args = self._cast(args)
        if torch.compiler.is_compiling() or is_traced():
            return self._operator(args)
        if _transforming():
            found: tuple[torch.Tensor, ...] = Transformed.apply(self, *args)
            return found if len(found) > 1 else found[0]
        if _dispatched() or self._is_special(args):
            return self._operator(args)
        check_tangents(repr(self), args)
        if torch.is_grad_enabled():
            for a in args:
                if isinstance(a, torch.Tensor) and a.requires_grad:
                    return Plain.apply(Call(self), *args)
        results, _ = self.forward_of(args).run(args)
        return results if len(results) > 1 else results[0]

    def forward_of(self, args: Sequence[Any], generation: Generation | None = None) -> Forward:
        """Return the launch for arguments like these, of what the kernel means now or meant."""
        if attention.word[0]:
            self.settle()
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
            found = self._plans[key] = Forward(self.kernel, self.spec, args, generation)
        return found

    def settle(self) -> None:
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
        settle()

    def _is_special(self, args: Sequence[Any]) -> bool:
        """Whether a tensor is of a class that stands for something else, such as a fake tensor while tracing."""
        return any(isinstance(a, torch.Tensor) and type(a) not in _PLAIN for a in args)

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
        names = ", ".join([self.kernel.parameters[k].name for k in self.spec.inputs])
        return LaunchError(
            f"dk.torch_function({self.kernel.name}) takes {self._count} arguments ({names}), not {count}",
            remedy="pass the inputs and in-out arguments; the outputs are returned",
        )


def _floating(annotation: Any) -> torch.dtype | None:
    element = annotation.dtype if isinstance(annotation, ArrayAnnotation) else annotation
    if element is None or isinstance(element, Struct):
        return None
    scalar = scalar_of(element)
    return torch_of(scalar) if scalar.is_float else None
