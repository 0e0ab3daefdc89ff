"""A kernel's call as an operator of PyTorch, for graphs that are traced: ``torch.compile``, ``torch.export``.

A function of tensors gives a callable that calls its operator. The operator changes none of its arguments; it is
registered under a name made from the content of the kernel and of the function, once for each content, with the shapes
of its results for fake tensors and with its gradient, an operator of its own.
"""

from __future__ import annotations

import hashlib
import itertools
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch

from diffkern.errors import LaunchError
from diffkern.interop.spec import Sizes
from diffkern.interop.torch.call import home_of, result_type, shapes_of
from diffkern.interop.torch.gradient import Wanted, backward_of_gradient, gradients_of
from diffkern.interop.torch.observers import check_operator
from diffkern.interop.torch.saved_for_backward import disabled
from diffkern.ir.structs import Struct
from diffkern.ir.types import Mat, Vec
from diffkern.lang.annotations import ArrayAnnotation
from diffkern.process.forks import free_in_child

if TYPE_CHECKING:
    from diffkern.interop.torch.function import TorchFunction
    from diffkern.runtime.launch.kernel_version import KernelVersion

__all__ = ["operator_of"]

_NAMESPACE = "diffkern"
# What an operator takes after the arguments: sizes of this call, the shapes of all outputs one after the other.
_SIZES = ("SymInt[]? dims=None", "SymInt[]? shapes=None")
# What the operator of the gradient takes before the arguments.
_GIVEN = ("Tensor[] grads", "int[] given", "Tensor[] results", "int[] needs")
# Of how many calls an operator remembers what the kernel meant.
_REMEMBERED = 4096
_operators: dict[str, Operator] = {}
_lock = free_in_child(threading.Lock())


def operator_of(function: TorchFunction) -> tuple[Callable[..., Any], Callable[..., list[torch.Tensor]]]:
    """Return functions that call the operator of a function, and that of its gradient; registered unless one like it
    is.
    """
    base = f"{_identifier(function.kernel.name)}_{_digest(function)}"
    with _lock:
        name, count = base, 1
        # Kernels of one content share an operator as long as what they captured is still the same.
        while (found := _operators.get(name)) is not None and not found.serves(function):
            count += 1
            name = f"{base}_{count}"
        if found is None:
            found = _operators[name] = Operator(function, name)
    return found.caller(), found.gradient


def _identifier(name: str) -> str:
    return "".join(c if c.isascii() and (c.isalnum() or c == "_") else "_" for c in name)


def _digest(function: TorchFunction) -> str:
    from diffkern.frontend.syntax.canonical import fingerprint

    spec, kernel = function.spec, function.kernel
    # What PyTorch keeps of compiled graphs knows operators by their names alone, so what they take is in the name.
    taken = (*_GIVEN, *_taken(function))
    of_calls = (spec.results, spec.launch_dims, spec.output_dims, spec.is_open, function.enable_backward)
    digest = hashlib.sha256(repr((taken, of_calls, kernel.variant.key())).encode())
    # The source and what it captures: a compiled graph from the disk must not find another kernel under this name.
    for label, content in fingerprint(kernel.func):
        digest.update(f"{label} {len(content)} ".encode() + content)
    return digest.hexdigest()[:16]


class Operator:
    """The operator of a function, and the one of its gradient.

    Each parameter by value is two arguments of the operator: a tensor, or numbers; one of them is None.
    """

    def __init__(self, function: TorchFunction, name: str) -> None:
        self._function = function
        self._generation = function.kernel.generation()
        self._runs = _Runs()
        parameters = function.kernel.parameters
        self._by_value = tuple(not parameters[k].is_array for k in function.spec.inputs)
        arguments = _taken(function)
        count = len(function.spec.results)
        results = "Tensor" if count == 1 else f"({', '.join(['Tensor'] * count)})"
        # A schema is written out: PyTorch would infer it from annotations, which `_run` for any kernel cannot have.
        self._call = torch.library.custom_op(
            f"{_NAMESPACE}::{name}", self._run, mutates_args=(), schema=f"({', '.join(arguments)}) -> {results}"
        )
        self._call.register_fake(self._shapes)
        self._backward = torch.library.custom_op(
            f"{_NAMESPACE}::{name}_backward",
            self._run_backward,
            mutates_args=(),
            schema=f"({', '.join([*_GIVEN, *arguments])}) -> Tensor[]",
        )
        self._backward.register_fake(self._backward_shapes)
        self._backward.register_autograd(self._second, setup_context=self._keep_backward)
        self._call.register_autograd(self._differentiate, setup_context=self._keep)

    def serves(self, function: TorchFunction) -> bool:
        """Return whether calls of another function of this content can use it: not if the kernel's captured values may
        change.
        """
        kernel = self._function.kernel
        return function.kernel is kernel or (kernel.generation() == self._generation and not kernel.may_change)

    def caller(self) -> Callable[..., Any]:
        """Return a function that calls it with the arguments of the function, and sizes if they are
        those of one call.
        """
        by_value, call = self._by_value, self._call

        def run(args: tuple[Any, ...], sizes: Sizes | None = None) -> Any:
            return call(*_flat(by_value, args), *_numbers(sizes))

        return run

    def gradient(
        self,
        grads: Sequence[Any],
        results: Sequence[torch.Tensor],
        needs: Sequence[bool],
        args: Sequence[Any],
        sizes: Sizes | None = None,
    ) -> list[torch.Tensor]:
        """Call the operator of the gradient: for the arguments that need one, from the gradients of the results, or
        None.
        """
        mask = [
            flag for value, needed in zip(self._by_value, needs, strict=True) for flag in (needed, False)[: 1 + value]
        ]
        return self._run_gradient(grads, results, mask, _flat(self._by_value, args), _numbers(sizes))

    def _run_gradient(
        self,
        grads: Sequence[Any],
        results: Sequence[torch.Tensor],
        needs: Sequence[bool],
        flat: Sequence[Any],
        sizes: Sequence[Any],
    ) -> list[torch.Tensor]:
        # A list of tensors has no None in a schema: the given ones, and a flag for each.
        known = [int(g is not None) for g in grads]
        found: list[torch.Tensor] = self._backward(
            [g for g in grads if g is not None], known, list(results), list(map(int, needs)), *flat, *sizes
        )
        return found

    def _parted(self, given: Sequence[Any]) -> tuple[Sequence[Any], Sequence[Any]]:
        """Return arguments and sizes; sizes are None where PyTorch leaves out arguments that have their default."""
        count = len(self._by_value) + sum(self._by_value)
        return given[:count], (*given[count:], None, None)[: len(_SIZES)]

    def _sized(self, dims: Sequence[int] | None, shapes: Sequence[int] | None) -> TorchFunction:
        """Return the function for a call of these sizes."""
        function = self._function
        if dims is None or shapes is None:
            return function
        spec, rest = function.spec, iter(shapes)
        ranks = [function.kernel.parameters[k].annotation.ndim for k in spec.outputs]  # type: ignore[union-attr]
        return function.sized(Sizes(tuple(dims), tuple([tuple(itertools.islice(rest, n)) for n in ranks])))

    def _arguments(self, flat: Sequence[Any]) -> list[Any]:
        """Return the function's arguments from those of the operator."""
        rest, args = iter(flat), []
        for value in self._by_value:
            tensor = next(rest)
            if value:
                number = next(rest)
                args.append(number if tensor is None else tensor)
            else:
                args.append(tensor)
        return args

    # -- the operator ------------------------------------------------------------------------------------------------

    def _run(self, *given: Any) -> Any:
        flat, sizes = self._parted(given)
        args = self._arguments(flat)
        check_operator(repr(self._function), args)
        forward = self._sized(*sizes).forward_of(args)
        results, _ = forward.run(args)
        self._runs.note(results, forward.generation)
        return results if len(results) > 1 else results[0]

    def _shapes(self, *given: Any) -> Any:
        # For fake tensors: shapes and types only, which may be symbolic.
        flat, sizes = self._parted(given)
        args = self._arguments(flat)
        spec, parameters = self._sized(*sizes).spec, self._function.kernel.parameters
        device = home_of(parameters, args)
        results = [torch.empty_like(args[k], memory_format=torch.contiguous_format) for k in spec.in_outs]
        shapes = spec.shapes_of(shapes_of(args))
        for k, shape in spec.output_shapes(spec.dims(shapes), shapes).items():
            dtype, inner = result_type(spec.element(k))
            results.append(torch.empty((*shape, *inner), dtype=dtype, device=device))
        return tuple(results) if len(results) > 1 else results[0]

    # -- its gradient ------------------------------------------------------------------------------------------------

    def _keep(self, ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.set_materialize_grads(False)
        results = output if isinstance(output, tuple) else (output,)
        fixed = [r for r in results if not r.is_floating_point()]
        if fixed:
            ctx.mark_non_differentiable(*fixed)
        flat, ctx.sizes = self._parted(inputs)
        ctx.places = [k for k, a in enumerate(flat) if isinstance(a, torch.Tensor)]
        ctx.others = [None if isinstance(a, torch.Tensor) else a for a in flat]
        ctx.save_for_backward(*[flat[k] for k in ctx.places], *results)

    def _differentiate(self, ctx: Any, *grads: Any) -> Any:
        function = self._function
        if not function.enable_backward:
            raise disabled(function.kernel.name)
        flat = list(ctx.others)
        for k, tensor in zip(ctx.places, ctx.saved_tensors):  # noqa: B905 - the results come after
            flat[k] = tensor
        results = list(ctx.saved_tensors[len(ctx.places) :])
        needs = [
            needed and isinstance(a, torch.Tensor) and a.is_floating_point()
            for needed, a in zip(ctx.needs_input_grad, flat)  # noqa: B905 - sizes come after
        ]
        found = iter(self._run_gradient(grads, results, needs, flat, ctx.sizes))
        return (*[next(found) if needed else None for needed in needs], *[None] * len(_SIZES))

    def _wanted(
        self, results: Sequence[torch.Tensor], needs: Sequence[int], flat: Sequence[Any], sizes: Sequence[Any]
    ) -> tuple[Wanted, list[Any]]:
        """Return the requested gradient, and the function's arguments."""
        function = self._sized(*sizes)
        mask = self._arguments([needed if a is not None else None for needed, a in zip(needs, flat, strict=True)])
        # Only tensors come back from a graph, so the version of the kernel is found by the results.
        generation = self._runs.generation_of(self._function, results)
        return Wanted(function, generation, tuple([bool(needed) for needed in mask])), self._arguments(flat)

    def _run_backward(
        self, grads: list[Any], given: list[int], results: list[Any], needs: list[int], *rest: Any
    ) -> list[torch.Tensor]:
        wanted, args = self._wanted(results, needs, *self._parted(rest))
        return gradients_of(wanted, [*args, *results, *_spread(grads, given)])

    def _backward_shapes(
        self, grads: Any, given: list[int], results: Any, needs: list[int], *rest: Any
    ) -> list[torch.Tensor]:
        flat, _ = self._parted(rest)
        return [
            torch.empty_like(a, memory_format=torch.contiguous_format)
            for needed, a in zip(needs, flat, strict=True)
            if needed
        ]

    # -- the gradient of that -----------------------------------------------------------------------------------------

    def _keep_backward(self, ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        grads, ctx.given, results, ctx.needs, *rest = inputs
        flat, ctx.sizes = self._parted(rest)
        tensors = [a for a in flat if isinstance(a, torch.Tensor)]
        ctx.counts = len(grads), len(results)
        ctx.others = [None if isinstance(a, torch.Tensor) else a for a in flat]
        ctx.places = [k for k, a in enumerate(flat) if isinstance(a, torch.Tensor)]
        ctx.save_for_backward(*grads, *results, *tensors)

    def _second(self, ctx: Any, cotangents: Sequence[Any]) -> tuple[Any, ...]:
        count, middle = ctx.counts[0], sum(ctx.counts)
        saved = list(ctx.saved_tensors)
        grads, results, flat = saved[:count], saved[count:middle], list(ctx.others)
        for k, tensor in zip(ctx.places, saved[middle:], strict=True):
            flat[k] = tensor
        wanted, args = self._wanted(results, ctx.needs, flat, ctx.sizes)
        of_grads, _, _, _, *of_rest = ctx.needs_input_grad
        of_flat = of_rest[: len(flat)]
        without = [None] * (len(of_rest) - len(flat))  # sizes, as far as PyTorch has passed them
        needed = self._arguments([n if a is not None else None for n, a in zip(of_flat, flat, strict=True)])
        found, tangents = backward_of_gradient(
            wanted,
            args,
            _spread(grads, ctx.given),
            cotangents,
            [bool(n) and isinstance(a, torch.Tensor) for n, a in zip(needed, args, strict=True)],
            _spread([bool(n) for n in of_grads], ctx.given, False),
        )
        kept = [t for t, given in zip(tangents, ctx.given, strict=True) if given]
        return (kept, None, [None] * len(results), None, *_flat(self._by_value, found), *without)


class _Runs:
    """The kernel's version behind results, for gradients that are given only tensors."""

    def __init__(self) -> None:
        self._only: KernelVersion | None = None
        self._several = False
        self._by_address: OrderedDict[int, KernelVersion] = OrderedDict()

    def note(self, results: Sequence[torch.Tensor], generation: KernelVersion) -> None:
        """Record the version that produced results."""
        self._several = self._several or self._only not in (None, generation)
        self._only = generation
        if len(self._by_address) >= _REMEMBERED:
            self._by_address.popitem(last=False)
        address = results[0].data_ptr()
        self._by_address[address] = generation
        self._by_address.move_to_end(address)

    def generation_of(self, function: TorchFunction, results: Sequence[torch.Tensor]) -> KernelVersion:
        """Return the version that produced results.

        Raises
        ------
        LaunchError
            If the kernel has had several versions, and these are results of an unknown call.
        """
        # Nearly every kernel has one meaning, and no address has to be known.
        if not self._several:
            return self._only or function.kernel.current()
        found = self._by_address.get(results[0].data_ptr())
        if found is None:
            raise LaunchError(
                f"a value that kernel {function.kernel.name!r} captures was changed, and it is not known whether that "
                "was before or after the call that this gradient belongs to",
                remedy="change it after the gradient was computed, or pass it as an argument",
            )
        return found


def _flat(by_value: Sequence[bool], args: Sequence[Any]) -> list[Any]:
    """Return the arguments of the operator from those of the function."""
    flat: list[Any] = []
    for value, a in zip(by_value, args):  # noqa: B905 - tracers know no keywords here; the count was checked
        if not value:
            flat.append(a)
        elif isinstance(a, torch.Tensor):
            flat += [a, None]
        else:
            flat += [None, a]
    return flat


def _numbers(sizes: Sizes | None) -> tuple[list[Any] | None, list[Any] | None]:
    """Return sizes in the operator's form."""
    return (None, None) if sizes is None else (list(sizes.dims), [n for shape in sizes.shapes for n in shape])


def _spread(found: Sequence[Any], given: Sequence[int], other: Any = None) -> list[Any]:
    """Return the values of the given results at the positions of all results."""
    rest = iter(found)
    return [next(rest) if known else other for known in given]


def _taken(function: TorchFunction) -> list[str]:
    """Return the parameters of the operator's schema."""
    parameters = function.kernel.parameters
    return [*[_argument(k, parameters[k].annotation) for k in function.spec.inputs], *_SIZES]


def _argument(k: int, annotation: Any) -> str:
    if isinstance(annotation, ArrayAnnotation):
        return f"Tensor? a{k}"
    if isinstance(annotation, Struct):
        raise TypeError(f"dk.torch_function takes tensors and numbers, and a parameter is the struct {annotation.name}")
    numbers = "float[]?" if isinstance(annotation, (Vec, Mat)) else "Scalar?"
    return f"Tensor? a{k}, {numbers} v{k}"
