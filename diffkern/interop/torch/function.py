"""``dk.torch_function``: a kernel as a function of tensors that PyTorch differentiates.

A kernel, and the choice of its results, give a callable. Run eagerly it goes through a function of autograd
(:mod:`~diffkern.interop.torch.autograd`); traced by ``torch.compile`` or ``torch.export`` it is a custom operator
(:mod:`~diffkern.interop.torch.operator`). Both make the same calls (:mod:`~diffkern.interop.torch.call`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch

from diffkern.errors import LaunchError
from diffkern.interop.spec import ONLY_INPUTS, CallSpec, Sizes
from diffkern.interop.torch import operator
from diffkern.interop.torch.autograd import FunctorchFunction, applied
from diffkern.interop.torch.call import Forward, another_run, shapes_of
from diffkern.interop.torch.forward_mode import AlongTangents
from diffkern.interop.torch.gradient import Wanted, backward_of
from diffkern.interop.torch.observers import (
    IN_GRAPHS,
    has_tangents,
    is_dispatched,
    is_traced,
    is_transformed_in_graphs,
    refusal,
    unseen,
)
from diffkern.interop.torch.place import default_device
from diffkern.interop.torch.saved_for_backward import AutogradCall, disabled
from diffkern.interop.torch.types import torch_of
from diffkern.ir.structs import Struct
from diffkern.ir.types import scalar_of
from diffkern.lang.annotations import ArrayAnnotation
from diffkern.process.forks import cached_property
from diffkern.process.tracebacks import brief
from diffkern.runtime.launch.arguments import wrong_count
from diffkern.runtime.launch.kernel_protocol import check_kernel
from diffkern.runtime.memory.state import is_recorded
from diffkern.runtime.memory.stream import drain
from diffkern.runtime.native.slow_path import slow_path_flags

if TYPE_CHECKING:
    from diffkern.kernels.derived_kernel import BatchedLaunch
    from diffkern.kernels.kernel import Kernel
    from diffkern.runtime.launch.kernel_version import KernelVersion

__all__ = ["TorchFunction"]

_CACHED = 256
_Tensor = torch.Tensor
_transforming = torch._C._are_functorch_transforms_active


class TorchFunction:
    """A kernel as a function of tensors; made by :func:`diffkern.torch_function`, which documents its arguments.

    Attributes
    ----------
    kernel : Kernel
        The kernel that it launches.
    spec : CallSpec
        The arguments and results.
    enable_backward : bool
        Whether it can be differentiated.
    sizes : Sizes or None
        The sizes of one call, if it is for that alone.
    """

    sizes: Sizes | None = None

    def __init__(
        self,
        kernel: Kernel,
        num_outputs: int = 1,
        launch_dims: Any = None,
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
        self._names = {kernel.parameters[k].name: k for k in self.spec.inputs}
        # For batches, by what they launch and what comes out.
        self.batches: dict[Any, TorchFunction] = {}
        # Of a function for batches: that for an example, and which arguments differ.
        self.examples: tuple[TorchFunction, frozenset[int]] | None = None
        # For calls of other sizes, by these.
        self._of_sizes: dict[Sizes, TorchFunction] = {}
        self._operator, self._gradient = self._operators()

    def _operators(self) -> tuple[Callable[..., Any], Callable[..., list[torch.Tensor]]]:
        """Return the operator for graphs, and that of the gradient."""
        return operator.operator_of(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return TorchFunction, self._given

    def __repr__(self) -> str:
        return f"<dk.torch_function {self.kernel.name}>"

    @brief
    def __call__(self, *args: Any, launch_dims: Any = None, output_dims: Any = None) -> Any:
        """Launch the kernel on tensors and numbers, and return its results as new tensors.

        Parameters
        ----------
        *args
            The inputs and in-out arguments, in the order of the kernel's parameters.
        launch_dims, output_dims : optional
            Other dimensions for this call than the function was made with.
        """
        args, sizes = self._taken(args, launch_dims, output_dims)
        found = self._called(self._in_pairs(args, self.spec.inputs), sizes)
        if not self._complex:
            return found
        made = self._of_pairs(found if isinstance(found, tuple) else (found,), self.spec.results)
        return made if len(made) > 1 else made[0]

    @brief
    def value_and_grad(
        self,
        *args: Any,
        argnames: Sequence[str] | str,
        cotangents: Any = None,
        launch_dims: Any = None,
        output_dims: Any = None,
    ) -> tuple[Any, Any]:
        """Return the results of a call and gradients with respect to arguments, which can be differentiated.

        It is one launch of the kernel and one of its adjoint. In a graph of ``torch.compile(fullgraph=True)`` both are
        operators with gradients of their own, so that a loss may depend on the gradient, such as one on forces.

        Parameters
        ----------
        *args
            As in a call.
        argnames : str or sequence of str
            Parameters whose gradients are returned. Their arguments are tensors; they need not require a gradient.
        cotangents : tensor, or sequence of tensor or None, optional
            The gradient with respect to each result. By default ones, for functions of one result of floating-point
            numbers: the gradients are those of its sum.
        launch_dims, output_dims : optional
            Other dimensions for this call than the function was made with.

        Returns
        -------
        tuple
            The results of a call, and a gradient, or a tuple of them if `argnames` is a sequence.
        """
        passed = args
        args, sizes = self._taken(args, launch_dims, output_dims)
        names = (argnames,) if isinstance(argnames, str) else tuple(argnames)
        places = [self._place(name, args) for name in names]
        given = self._in_pairs(args, self.spec.inputs)
        needs = tuple([k in places for k in range(len(given))])
        results, gradients = self._with_gradients(given, sizes, needs, cotangents)
        # A name may be given twice; its gradient is computed once.
        ordered = sorted(set(places))
        made = dict(zip(ordered, self._of_pairs(gradients, ordered), strict=True))
        results = self._of_pairs(results, self.spec.results)
        found = tuple([made[k].to(passed[k].dtype) for k in places])  # of autocast
        return results if len(results) > 1 else results[0], found[0] if isinstance(argnames, str) else found

    def _taken(self, args: tuple[Any, ...], launch_dims: Any, output_dims: Any) -> tuple[tuple[Any, ...], Sizes | None]:
        """Return the arguments of a call, and its sizes if they are not the function's."""
        if len(args) != self._count:
            raise self._wrong_count(len(args))
        # Cheap to ask, and false in nearly every call.
        if torch._C._is_any_autocast_enabled():
            args = self._cast(args)
        # The launch itself then finds its sizes, in the plan for these shapes.
        if not self.spec.is_open and launch_dims is None and output_dims is None:
            return args, None
        return args, self.spec.sizes(args, shapes_of(args), launch_dims, output_dims)

    def _place(self, name: str, args: Sequence[Any]) -> int:
        """Return the position of an argument whose gradient is asked for."""
        place = self._names.get(name)
        if place is None:
            raise refusal(f"{self!r} has no argument {name!r}", remedy=f"it has {', '.join(self._names)}")
        a = args[place]
        if not isinstance(a, torch.Tensor) or not (a.is_floating_point() or a.is_complex()):
            raise refusal(
                f"{self!r}: the gradient for {name!r} is asked for, which is no tensor of floating-point numbers",
                remedy="pass torch.tensor(number), or leave out its name",
            )
        return place

    def _with_gradients(
        self, args: tuple[Any, ...], sizes: Sizes | None, needs: tuple[bool, ...], cotangents: Any
    ) -> tuple[tuple[torch.Tensor, ...], tuple[torch.Tensor, ...]]:
        """Return the results of a call, and the gradients of the arguments that need one."""
        if not self.enable_backward:
            raise disabled(self.kernel.name)
        found = self._called(args, sizes)
        results = found if isinstance(found, tuple) else (found,)
        grads = self._cotangents(results, cotangents)
        if torch.compiler.is_compiling() or is_traced():
            # A graph of torch.jit has no numbers that vary, so its operator is of these sizes only.
            function = self if sizes is None or not is_traced() else self._fixed(sizes)
            return results, tuple(function._gradient(grads, results, needs, args, None if is_traced() else sizes))
        function = self if sizes is None else self.sized(sizes)
        wanted = Wanted(function, self.kernel.current(), needs)
        return results, backward_of(wanted, [*args, *results, *grads])

    def _cotangents(self, results: Sequence[torch.Tensor], given: Any) -> list[Any]:
        """Return the gradient of each result, None for those without."""
        if given is None:
            if len(results) != 1 or self._complex or not results[0].is_floating_point():
                raise refusal(
                    f"{self!r} does not return one tensor of real numbers, so its sum is not what is differentiated",
                    remedy="pass cotangents=, a gradient or None for each result",
                )
            return [torch.ones_like(results[0])]
        several = [given] if isinstance(given, torch.Tensor) else list(given)
        if len(several) != len(results):
            raise refusal(
                f"{self!r} has {len(results)} results, and {len(several)} cotangents were passed",
                remedy="pass a gradient or None for each result",
            )
        grads = self._in_pairs(several, self.spec.results)
        for r, g in zip(results, grads, strict=True):
            if g is not None and (g.shape != r.shape or g.dtype != r.dtype or not r.is_floating_point()):
                raise refusal(
                    f"{self!r}: a cotangent of {g.dtype} with shape {tuple(g.shape)} was passed for a result of "
                    f"{r.dtype} with shape {tuple(r.shape)}",
                    remedy="pass one like the result; None for integers",
                )
        return list(grads)

    def sized(self, sizes: Sizes) -> TorchFunction:
        """Return the same function for calls of these sizes."""
        if any(isinstance(n, torch.Tensor) for shape in (sizes.dims, *sizes.shapes) for n in shape):
            raise LaunchError(f"{self!r}: launch_dims and output_dims are integers, not tensors", remedy="take int(n)")
        # Symbols of a tracer cannot be compared with sizes seen before without adding guards.
        found = self._of_sizes.get(sizes) if (known := _are_known(sizes)) else None
        if found is None:
            found = _Sized(self, sizes)
            # Sizes in a loop that never repeat would fill the memory.
            if known:
                if len(self._of_sizes) >= _CACHED:
                    self._of_sizes.clear()
                self._of_sizes[sizes] = found
        return found

    def _fixed(self, sizes: Sizes) -> TorchFunction:
        """Return the function of one size, for graphs of ``torch.jit``, which know no numbers that vary."""
        spec, names = self.spec, [p.name for p in self.kernel.parameters]
        dims, *shapes = (tuple(map(int, shape)) for shape in (sizes.dims, *sizes.shapes))
        outputs = {names[k]: shape for k, shape in zip(spec.outputs, shapes, strict=True)}
        changed = [names[k] for k in spec.in_outs]
        return TorchFunction(self.kernel, len(spec.results), dims, outputs, changed, self.enable_backward)

    def gradient_operator(
        self, grads: Sequence[Any], results: Sequence[torch.Tensor], needs: Sequence[bool], args: Sequence[Any]
    ) -> list[torch.Tensor]:
        """Call the operator of the gradient."""
        return self._gradient(grads, results, needs, args, self.sizes)

    def _in_pairs(self, args: Sequence[Any], parameters: Sequence[int]) -> tuple[Any, ...]:
        """Return complex tensors as pairs, in which PyTorch sees what it differentiates."""
        if not self._complex:
            return tuple(args)
        return tuple(
            torch.view_as_real(a.resolve_conj())
            if k in self._complex and isinstance(a, torch.Tensor) and a.is_complex()
            else a
            for k, a in zip(parameters, args, strict=True)
        )

    def _of_pairs(self, tensors: Sequence[torch.Tensor], parameters: Sequence[int]) -> tuple[torch.Tensor, ...]:
        """Return pairs as complex tensors."""
        if not self._complex:
            return tuple(tensors)
        return tuple(
            torch.view_as_complex(t) if k in self._complex else t for k, t in zip(parameters, tensors, strict=True)
        )

    def _called(self, args: tuple[Any, ...], sizes: Sizes | None) -> Any:
        if torch.compiler.is_compiling() or is_traced():
            # A graph would record a call without its derivative, and lose it silently.
            if is_transformed_in_graphs():
                raise RuntimeError(IN_GRAPHS)  # torch.compile then runs eagerly what it cannot take
            if sizes is not None and is_traced():
                return self._fixed(sizes)._operator(args)
            return self._operator(args, sizes)
        return (self if sizes is None or sizes is self.sizes else self.sized(sizes))._called_eagerly(args)

    def _called_eagerly(self, args: tuple[Any, ...]) -> Any:
        if _transforming() or has_tangents(args):
            found = _transformed(self, args)
            return found if len(found) > 1 else found[0]
        if is_dispatched(args):
            return self._operator(args, self.sizes)
        if torch.is_grad_enabled():
            # A plain loop: a generator would cost more than the check.
            for a in args:
                if isinstance(a, _Tensor) and a.requires_grad:
                    return applied(AutogradCall(self), args)
        # No gradient is wanted, so nothing has to be kept.
        results, _ = self.forward_of(args).run(args)
        return results if len(results) > 1 else results[0]

    def run(self, args: Sequence[Any]) -> tuple[torch.Tensor, ...]:
        """Return the results of a call whose derivatives are handled by the caller."""
        if is_dispatched(args):
            found = self._operator(tuple(args), self.sizes)
            return found if isinstance(found, tuple) else (found,)
        return self.forward_of(args).run(args)[0]

    def results_of(self, args: tuple[Any, ...]) -> tuple[torch.Tensor, ...]:
        """Return the results of a call as a tuple, with complex numbers as pairs, like those of `args`."""
        found = self._called(args, self.sizes)
        return found if isinstance(found, tuple) else (found,)

    @cached_property
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

    def forward_of(self, args: Sequence[Any], generation: KernelVersion | None = None) -> Forward:
        """Return the launch for arguments like these, of the kernel's present or given version."""
        # One word tells whether anything is pending or recording, so that a call need not ask each of them.
        if slow_path_flags.word[0]:
            self.check_idle()
        generation = generation or self.kernel.current()
        # Everything that a plan was computed from: addresses and values are not part of it.
        key: Any = (
            generation.number,
            *[
                (a.dtype, a.shape, a.stride(), a.device, a.is_neg()) if isinstance(a, _Tensor) else type(a)
                for a in args
            ],
        )
        # Without a tensor that decides, the default device does, and it may change.
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
        """Wait for pending work; refuse to run if a tape or a sequence of diffkern is recording.

        Raises
        ------
        LaunchError
            If a tape or a sequence records, which would not see this call.
        """
        if not slow_path_flags.word[0]:
            return
        if is_recorded():
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


class _Sized(TorchFunction):
    """A function for calls of some sizes, whose operator is that of the function for all sizes."""

    _of: TorchFunction

    def __init__(self, of: TorchFunction, sizes: Sizes) -> None:
        # The plans and batches are of these sizes; the function along tangents is made for them on demand.
        state = {name: held for name, held in of.__dict__.items() if name != "along"}
        self.__dict__.update(state, spec=of.spec.with_sizes(sizes), sizes=sizes, _of=of, _plans={}, batches={})

    def sized(self, sizes: Sizes) -> TorchFunction:
        """Return the function for calls of other sizes."""
        return self._of.sized(sizes)

    @cached_property
    def along(self) -> AlongTangents:
        """The function that also takes tangents, and returns those of its results."""
        assert self.sizes is not None
        return self._of.along.sized(self, self.sizes)


class _OfBatches(TorchFunction):
    """A function for batches, which never occurs in a graph: batches of traced calls are calls of examples."""

    def _operators(self) -> tuple[Callable[..., Any], Callable[..., list[torch.Tensor]]]:
        def refused(*_: Any) -> Any:
            raise RuntimeError(IN_GRAPHS)

        return refused, refused


def _are_known(sizes: Sizes) -> bool:
    """Return whether sizes are numbers, not symbols of a tracer."""
    return all(type(n) is int for shape in (sizes.dims, *sizes.shapes) for n in shape)


@unseen
def _transformed(function: TorchFunction, args: tuple[Any, ...]) -> tuple[torch.Tensor, ...]:
    found: tuple[torch.Tensor, ...] = FunctorchFunction.apply(function, *args)
    return found


def _floating(annotation: Any) -> torch.dtype | None:
    element = annotation.element if isinstance(annotation, ArrayAnnotation) else annotation
    if element is None or isinstance(element, Struct):
        return None
    scalar = scalar_of(element)
    return torch_of(scalar) if scalar.is_float else None
