"""A kernel's call on tensors: the launch for arguments of given types and shapes, and a fast way to run it.

Tensors and numbers give the results of the launch in new tensors, and gradients from the adjoint. Everything that
depends on types, shapes and strides alone is decided once and kept; a call then joins addresses and numbers to prepared
bytes. Tensors made here share memory with nothing else, so that no argument can overlap the memory that is written.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from diffkern.contracts.argument_block import pack_address, tail_of
from diffkern.contracts.manifest import Log, OrderDependence
from diffkern.contracts.options import ATOMIC, PLAIN, AdjointForm
from diffkern.errors import AutodiffError, LaunchError
from diffkern.interop.spec import CallSpec, Shape
from diffkern.interop.torch.arrays import as_array, laid_out, layout_of
from diffkern.interop.torch.logged import LoggableLaunch
from diffkern.interop.torch.place import default_device, gpu_of, guarded, on_current_stream
from diffkern.interop.torch.types import torch_of
from diffkern.ir.structs import Struct, carries_gradient, is_null
from diffkern.ir.types import Array, Element, Mat, Scalar, Vec, scalar_of
from diffkern.lang.annotations import ArrayAnnotation
from diffkern.runtime.accumulate.accumulation import NOTHING, Candidates, choose
from diffkern.runtime.arrays.array import array
from diffkern.runtime.arrays.convert import component_shape, stored_type
from diffkern.runtime.arrays.operation import Operation, submit
from diffkern.runtime.arrays.type_keys import type_of_key
from diffkern.runtime.launch.arguments import Parameter
from diffkern.runtime.launch.kernel_version import KernelVersion
from diffkern.runtime.launch.packed import PackedLaunch
from diffkern.runtime.launch.program import Executable
from diffkern.runtime.launch.value_bytes import pack_value

if TYPE_CHECKING:
    from diffkern.kernels.kernel import Kernel

__all__ = ["Backward", "Forward", "another_run", "home_of", "is_value", "result_type", "shapes_of"]

_NOWHERE = pack_address(0)


def is_value(parameter: Parameter, given: Any) -> bool:
    """Return whether an argument is passed by value: a number, or a tensor of no axes if the type is not stated."""
    if parameter.annotation is None:
        return not isinstance(given, torch.Tensor) or given.ndim == 0
    return not parameter.is_array


def result_type(element: Element) -> tuple[torch.dtype, tuple[int, ...]]:
    """Return the type of a tensor of elements, and its last axes."""
    return torch_of(scalar_of(element)), component_shape(element)


def home_of(parameters: Sequence[Parameter], args: Sequence[Any]) -> torch.device:
    """Return the device of a call: that of its first array, or PyTorch's default device."""
    for parameter, a in zip(parameters, args):  # noqa: B905 - outputs have no arguments
        if isinstance(a, torch.Tensor) and not is_value(parameter, a):
            return a.device
    return default_device()


def blank(shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """Return a tensor without memory, like which contiguous tensors of a shape are made.

    ``torch.empty_like`` takes about half the time of ``torch.empty``, which reads a size, a type and a device first.
    """
    made = torch.empty(shape, dtype=dtype, device=device)
    made.untyped_storage().resize_(0)
    return made


def own_copy(given: torch.Tensor) -> torch.Tensor:
    """Return a contiguous copy that autograd does not follow."""
    # The plain call takes half the time of the other two.
    if given.is_contiguous() and not given.requires_grad:
        return given.clone()
    return given.detach().clone(memory_format=torch.contiguous_format)


def shapes_of(args: Sequence[Any]) -> dict[int, Shape]:
    """Return the shapes of the tensors among arguments, by parameter."""
    return {k: a.shape for k, a in enumerate(args) if isinstance(a, torch.Tensor)}


class Forward:
    """The launch for arguments of one combination of types, shapes and strides.

    Attributes
    ----------
    keys : tuple of str
        Types of the arguments.
    executable : Executable
        The program.
    device : torch.device
        The device on which it runs.
    generation : Generation
        The version of the kernel at the time of the call.
    given_shapes : dict of int to torch.Size
        The shapes of the arguments that are tensors.
    fixed : list of int
        The places of results that are no floating-point numbers.
    """

    def __init__(self, kernel: Kernel, spec: CallSpec, args: Sequence[Any], generation: KernelVersion) -> None:
        self.kernel = kernel
        self.generation = generation
        self.spec = spec
        self.device = home_of(kernel.parameters, args)
        try:
            self.gpu = gpu_of(self.device)
        except (TypeError, ValueError) as error:
            raise LaunchError(f"kernel {kernel.name!r}: {error}", remedy="pass tensors on the CPU or a GPU") from None
        guarded(self.gpu, lambda: self._bind(args))

    def _bind(self, args: Sequence[Any]) -> None:
        kernel, spec = self.kernel, self.spec
        parameters = kernel.parameters
        # What a kernel changes is a copy, which is contiguous, and no other argument.
        given = [
            a.detach().clone(memory_format=torch.contiguous_format)
            if k in spec.in_outs and isinstance(a, torch.Tensor)
            else a
            for k, a in enumerate(args)
        ]
        bound = [self._bound(p, a) for p, a in zip(parameters, given, strict=False)]
        shapes = {k: a.shape for k, a in enumerate(bound) if isinstance(a, array)}
        dims: Shape = spec.dims(shapes)
        self.made: list[tuple[int, tuple[int, ...], torch.dtype]] = []
        for k, shape in spec.output_shapes(dims, shapes).items():
            dtype, inner = result_type(spec.element(k))
            self.made.append((k, (*shape, *inner), dtype))
            bound.append(as_array(torch.empty((*shape, *inner), dtype=dtype, device=self.device), spec.element(k)))
        launch = PackedLaunch(kernel, dims if len(dims) > 1 else dims[0], bound, of=self.generation)
        if len(launch.parts) != len(launch.keys):
            raise LaunchError(
                f"kernel {kernel.name!r}: a function of tensors takes tensors and numbers, no structs",
                remedy="pass the fields that the kernel needs as parameters of their own",
            )
        self._check_writes(launch)
        self._keep(launch, args, len(dims))
        self.shapes = {k: a.shape for k, a in enumerate(bound) if isinstance(a, array)}
        self.in_outs = spec.in_outs
        self._inputs = [k for k in spec.inputs if self.is_array[k] and k not in spec.in_outs]
        self._backward: dict[tuple[bool, ...], Backward | None] = {}
        self._searched: dict[tuple[bool, ...], Backward | None] = {}

    def _keep(self, launch: PackedLaunch, args: Sequence[Any], axes: int) -> None:
        """Keep what later calls with arguments of these types and shapes need of a launch, given its number of axes."""
        spec = self.spec
        self.keys = launch.keys
        self.executable: Executable = launch.executable
        self.dims: tuple[int, ...] = launch.dims
        self._grid = launch.grid
        # Of an array the bytes behind the address: shape and strides.
        self.tails = [
            b"" if held is None else tail_of(part) for part, held in zip(launch.parts, launch.arrays, strict=True)
        ]
        self.logged = LoggableLaunch(launch, self.tails)
        self.is_array = [held is not None for held in launch.arrays]
        self.types = [type_of_key(key) for key in self.keys]
        self._values = [
            (k, self._element(k), self.kernel.parameters[k])
            for k in spec.inputs
            if not self.is_array[k] and not is_null(self.types[k])
        ]
        # None in the place of an array: all of what stands for it in the block.
        self.nulls = {k: launch.parts[k] for k in spec.inputs if is_null(self.types[k])}
        self.homes = {k: args[k].device for k, _, _ in self._values if isinstance(args[k], torch.Tensor)}
        self.given_shapes = {k: a.shape for k, a in enumerate(args) if isinstance(a, torch.Tensor)}
        self.layouts = {k: layout_of(args[k]) for k in self.given_shapes if self.is_array[k]}
        self.fixed = [place for place, k in enumerate(spec.results) if not self.dtype_of(k).is_floating_point]
        params = self.executable.manifest.params
        # Results whose every element the launch overwrites need not be cleared.
        empty = {
            k
            for k, shape, _ in self.made
            if params[k].fully_overwritten == len(self.dims) and shape[:axes] == self.dims
        }
        self._makers = [
            (k, torch.empty_like if k in empty else torch.zeros_like, blank(shape, dtype, self.device))
            for k, shape, dtype in self.made
        ]

    def _bound(self, parameter: Parameter, given: Any) -> Any:
        if is_value(parameter, given):
            return value_of(parameter, given)
        if given is None:
            return None
        if not isinstance(given, torch.Tensor):
            raise _refusal(parameter, given)
        annotation = parameter.annotation
        element = annotation.element if isinstance(annotation, ArrayAnnotation) else None
        if given.is_complex():
            takes = "numbers without an annotation" if annotation is None else annotation
            raise parameter.error(f"takes {takes}, not a tensor of {given.dtype}", "annotate it as an array of them")
        try:
            made = as_array(given.detach(), element)
        except (TypeError, ValueError) as error:
            shape = tuple(given.shape)
            takes = "an array" if annotation is None else annotation
            text = f"takes {takes}, not a tensor of {given.dtype} with shape {shape}: {error}"
            raise parameter.error(text, "convert it with .to(dtype), or reshape it") from None
        parameter.check_type(made._type)
        return made

    def _check_writes(self, launch: PackedLaunch) -> None:
        for k in launch.executable.writes:
            if k not in self.spec.results:
                raise self.kernel.parameters[k].error(
                    "the kernel writes to it, and it is only passed", "name it in in_out_argnames"
                )

    def _element(self, k: int) -> Element:
        t = self.types[k]
        assert isinstance(t, (Scalar, Vec, Mat))
        return t

    def adjoint(self, active: frozenset[int], form: AdjointForm = PLAIN) -> Executable:
        """Return the adjoint of the program that runs."""
        return self.kernel.adjoint(self.keys, active, form, None, self.generation)

    def run(self, args: Sequence[Any]) -> tuple[tuple[torch.Tensor, ...], dict[int, bytes]]:
        """Return the results, and the bytes of the arguments by value."""
        results, values, parts = self._placed(args)
        block = b"".join(parts)
        if self.gpu is None:
            self.executable.run(self._grid, block)
        else:
            on_current_stream(self.gpu, lambda: self.executable.run(self._grid, block))
        return tuple(results.values()), values

    def run_logged(
        self, args: Sequence[Any], log: Log
    ) -> tuple[tuple[torch.Tensor, ...], dict[int, bytes], tuple[array, ...]]:
        """Return the results, the bytes of the arguments by value, and the arrays of a log."""
        results, values, _ = self._placed(args)
        tensors = {k: args[k] for k in self._inputs} | results
        logs: list[tuple[array, ...]] = []
        on_current_stream(self.gpu, lambda: logs.append(self.logged.run(log, tensors, values)))
        return tuple(results.values()), values, logs[0]

    def _placed(self, args: Sequence[Any]) -> tuple[dict[int, torch.Tensor], dict[int, bytes], list[bytes]]:
        """Return the tensors of the results before the launch, the bytes of values, and those of all arguments."""
        parts: list[bytes] = [*self.tails]
        # Bound to locals: this runs in every call.
        results: dict[int, torch.Tensor] = {}
        values: dict[int, bytes] = {}
        for k in self._inputs:
            parts[k] = pack_address(args[k].data_ptr()) + parts[k]
        for k, null in self.nulls.items():
            parts[k] = values[k] = null
        for k, element, parameter in self._values:
            parts[k] = values[k] = _packed(parameter, element, args[k])
        for k in self.in_outs:
            # PyTorch's arguments stay as they are: in-out arguments are changed in a copy, which is the result.
            changed = args[k].detach().clone(memory_format=torch.contiguous_format)
            parts[k] = pack_address(changed.data_ptr()) + parts[k]
            results[k] = changed
        for k, make, like in self._makers:
            made = make(like)
            parts[k] = pack_address(made.data_ptr()) + parts[k]
            results[k] = made
        return results, values, parts

    def values_of(self, args: Sequence[Any]) -> dict[int, bytes]:
        """Return the bytes of the arguments by value."""
        return self.nulls | {k: _packed(parameter, element, args[k]) for k, element, parameter in self._values}

    def dtype_of(self, k: int) -> torch.dtype:
        """Return the type of tensors for a parameter."""
        t = self.types[k]
        element = t.dtype if isinstance(t, Array) else self._element(k)
        return result_type(element)[0]

    def stand_in(self, k: int, shape: torch.Size, values: Mapping[int, bytes]) -> Any:
        """Return a stand-in for a tensor whose values are known, or do not matter."""
        if self.is_array[k]:
            return torch.ones(shape, dtype=self.dtype_of(k), device=self.device)
        number = np.frombuffer(values[k], stored_type(scalar_of(self._element(k))), count=shape.numel())
        return number.reshape(shape)[()]

    def backward(self, needs: tuple[bool, ...]) -> Backward | None:
        """Return the adjoint for the arguments that need gradients, or None if none of them can have one."""
        try:
            found = self._backward[needs]
        except KeyError:
            found = self._backward[needs] = self._differentiated(needs)
        return found

    def searched(self, needs: tuple[bool, ...]) -> Backward | None:
        """Return the adjoint that reads what searches of the call have found; None if there is none, or it needs more
        tensors than the other one.
        """
        if not self.executable.manifest.searches:
            return None
        if needs not in self._searched:
            plain, found = self.backward(needs), None
            program = None if plain is None else self.logged.searched_adjoint(plain.active)
            if plain is not None and program is not None and program.derivative.log is not None:
                found = Backward(self, plain.active, needs, program)
                if not found.keeps <= plain.keeps:
                    found = None
            self._searched[needs] = found
        return self._searched[needs]

    def _differentiated(self, needs: tuple[bool, ...]) -> Backward | None:
        reads, writes = self.executable.reads, self.executable.writes
        wanted = {
            k
            for k, needed in enumerate(needs)
            # An array that the kernel neither reads nor writes has no gradient, and its adjoint no cotangent for it.
            if needed and carries_gradient(self.types[k]) and (not self.is_array[k] or k in reads or k in writes)
        }
        written = {k for k in writes if carries_gradient(self.types[k])}
        if not wanted or not written:
            return None
        return Backward(self, frozenset(wanted | written), needs)


class Backward:
    """The adjoint of such a launch.

    Attributes
    ----------
    kept_inputs, kept_results : tuple of int
        Parameters whose tensors it reads: as they were passed, and as they were returned.
    kept : tuple of (bool, int)
        These tensors in order: whether it is a result, and of which parameter.
    places : tuple of (bool, int)
        Where they stand: whether among the results, and at which place there or among the arguments.
    of_call : Log or None
        The log that the call itself has to write for it.
    """

    def __init__(
        self, forward: Forward, active: frozenset[int], needs: tuple[bool, ...], searched: Executable | None = None
    ) -> None:
        self._forward = forward
        self.active = active
        self._searched = searched
        self._needs = needs
        self._device = forward.device
        guarded(forward.gpu, self._prepare)

    def _prepare(self) -> None:
        forward, active = self._forward, self.active
        spec = forward.spec
        self._plain: Executable = self._searched or forward.adjoint(active)
        derivative = self._plain.derivative
        self._log = derivative.log
        is_of_call = self._log is not None and (self._log.active is None or self._log.searches)
        self.of_call = self._log if is_of_call else None
        post, outputs = set(derivative.after), spec.outputs
        returned = {k: place for place, k in enumerate(spec.results)}
        before = {k for k in derivative.before if k not in outputs}
        # A log made by a second launch needs everything that the first one read.
        if self._log is not None and self.of_call is None:
            before.update(k for k in spec.inputs if forward.is_array[k])
        self.kept_results = tuple(k for k in spec.results if k in post)
        # Second derivatives launch the kernel's forward mode. It goes the kernel's ways, so it needs what steers it;
        # where the adjoint reads a result in place of what that was computed from, it needs all inputs.
        numbers = {k for k, needed in enumerate(self._needs) if needed and not forward.is_array[k]}
        steering = forward.executable.reads if self.kept_results else derivative.steering
        others = numbers.union(steering).intersection(spec.inputs)
        self.kept_inputs = tuple(sorted(before.union(others, (k for k in post if k not in returned))))
        self._post = post
        self._began_as_zeros = derivative.zeros(outputs)
        shapes = {k: forward.shapes.get(k, (1,)) for k in sorted(active)}
        self._elements: dict[int, Element] = {}
        tails: dict[int, bytes] = {}
        self._cotangents: list[tuple[int, int | None, torch.Tensor]] = []
        for k, shape in shapes.items():
            t = forward.types[k]
            element = t.dtype if isinstance(t, Array) else t
            assert isinstance(element, (Scalar, Vec, Mat))
            self._elements[k] = element
            dtype, inner = result_type(element)
            like = blank((*shape, *inner), dtype, self._device)
            self._cotangents.append((k, returned.get(k), like))
            tails[k] = tail_of(as_array(torch.zeros_like(like), element)._packed)

        def sizes() -> dict[int, int]:
            return {k: like.numel() for k, _, like in self._cotangents}

        atomic = ATOMIC if self._searched is None else ATOMIC._replace(searched=True)
        programs = Candidates(self._plain, lambda: forward.adjoint(active, atomic))
        self._accumulation = choose(programs, forward.dims, tuple(shapes.values()), sizes)
        self._entries = [self._entry(role, k, tails) for role, k in self._accumulation.executable.layout.entries]
        self._find(returned)

    def _find(self, returned: Mapping[int, int]) -> None:
        """Look up where kept tensors come from, and where gradients go."""
        forward, given = self._forward, self._forward.given_shapes
        self.kept = (*[(False, k) for k in self.kept_inputs], *[(True, k) for k in self.kept_results])
        self.places = tuple([(is_result, returned[k] if is_result else k) for is_result, k in self.kept])
        # What the forward launch changed was a contiguous copy, and so is what it began with.
        self._contiguous = [key for key in self.kept if key[1] in returned]
        self._layouts = [
            ((False, k), forward.layouts[k]) for k in self.kept_inputs if k in forward.layouts and k not in returned
        ]
        made = {k: tuple(like.shape) for k, _, like in self._cotangents}
        self._gradients = [
            # A number that was passed as a tensor may have been on another device, and has no axes.
            (k, forward.homes.get(k, self._device), None if made[k] == given[k] else given[k])
            for k, needed in enumerate(self._needs)
            if needed and k in made and k in given
        ]

    def _entry(self, role: str, k: int, tails: Mapping[int, bytes]) -> tuple[str, Any, bytes]:
        """Return one part of the argument block: where its address or its bytes are found, and what follows these."""
        forward = self._forward
        if role == "cotangent":
            return role, k, tails[k]
        if role == "log":
            return role, k - len(forward.keys), b""
        if role == "saved" and k in self._began_as_zeros:
            return "zeros", k, forward.tails[k]
        if role == "saved":
            return "kept", (False, k), forward.tails[k]
        if not forward.is_array[k]:
            return "value", k, b""
        if k not in self._post:
            # The adjoint reads only the shape of this array, so its address may be 0.
            return "bytes", None, _NOWHERE + forward.tails[k]
        return "kept", (k in forward.spec.results, k), forward.tails[k]

    @property
    def keeps(self) -> frozenset[tuple[bool, int]]:
        """The kept tensors: whether it is a result, and of which parameter."""
        return frozenset(self.kept)

    def perform(self, operations: Sequence[Operation]) -> None:
        """Execute operations on the device of the adjoint."""

        def work() -> None:
            for operation in operations:
                submit(operation)

        if operations:
            on_current_stream(self._forward.gpu, work)

    def run(
        self,
        kept: Mapping[tuple[bool, int], torch.Tensor],
        values: Mapping[int, bytes],
        grads: Sequence[torch.Tensor | None],
        log: tuple[array, ...] = (),
    ) -> list[torch.Tensor | None]:
        """Return the gradient of each argument, None for those without.

        Parameters
        ----------
        kept : mapping
            Tensors by (whether it is a result, parameter).
        values : mapping
            Bytes of the arguments by value.
        grads : sequence of tensor or None
            Gradients of the results.
        log : tuple of array
            The log of the call.
        """
        cotangents: dict[int, torch.Tensor] = {}
        for k, place, like in self._cotangents:
            given = None if place is None else grads[place]
            # The adjoint takes it and leaves zeros; what PyTorch passed belongs to others as well.
            cotangents[k] = torch.zeros_like(like) if given is None else own_copy(given)
        # Preconditions of the adjoint that depend on values, which are known only now.
        if self._plain.races is not None:
            tails, name = self._forward.tails, self._forward.kernel.name
            self._plain.races.check(name, self._forward.dims, lambda k: values.get(k) or _NOWHERE + tails[k])
        # A launch of no threads leaves the cotangents as they were given.
        if self._accumulation.grid.n:
            kept = {**kept, **{key: laid_out(kept[key], layout) for key, layout in self._layouts}}
            if self._contiguous:
                kept = {**kept, **{key: kept[key].resolve_neg().contiguous() for key in self._contiguous}}
            zeros = {k: torch.zeros_like(like) for k, _, like in self._cotangents if k in self._began_as_zeros}

            def execute() -> None:
                copied = {k: as_array(cotangents[k], self._elements[k]) for k in self._accumulation.private}
                read = log or self._logged(kept, values)

                def pack(_: object, own: Mapping[int, bytes] = NOTHING) -> bytes:
                    return self._pack(kept, zeros, values, cotangents, own, read)

                self._accumulation.run(copied, pack)

            on_current_stream(self._forward.gpu, execute)
        found: list[torch.Tensor | None] = [None] * len(self._needs)
        for k, home, shape in self._gradients:
            ct = cotangents[k]
            if home != self._device:
                ct = ct.to(home)
            found[k] = ct if shape is None else ct.reshape(shape)
        return found

    def _logged(self, kept: Mapping[tuple[bool, int], torch.Tensor], values: Mapping[int, bytes]) -> tuple[array, ...]:
        """Return the log of overwritten values that the adjoint reads, if it does."""
        if self._log is None:
            return ()
        forward = self._forward
        entry = {k: kept[False, k] for k in forward.spec.inputs if forward.is_array[k]}
        made = {k: torch.zeros(shape, dtype=dtype, device=self._device) for k, shape, dtype in forward.made}
        return forward.logged.again(self._log, entry | made, values)

    def _pack(
        self,
        kept: Mapping[tuple[bool, int], torch.Tensor],
        zeros: Mapping[int, torch.Tensor],
        values: Mapping[int, bytes],
        cotangents: Mapping[int, torch.Tensor],
        own: Mapping[int, bytes],
        log: Sequence[array],
    ) -> bytes:
        """Return the argument block after the header; `own` replaces some of the cotangents."""
        parts = []
        for source, key, tail in self._entries:
            if source == "kept":
                parts.append(pack_address(kept[key].data_ptr()) + tail)
            elif source == "cotangent":
                parts.append(own.get(key) or pack_address(cotangents[key].data_ptr()) + tail)
            elif source == "value":
                parts.append(values[key])
            elif source == "bytes":
                parts.append(tail)
            elif source == "zeros":
                parts.append(pack_address(zeros[key].data_ptr()) + tail)
            else:
                parts.append(log[key]._packed)
        return b"".join(parts)


def another_run(kernel: str, log: Log | OrderDependence) -> AutodiffError:
    """Return the error of a derivative for which another launch would have to repeat what the threads of a call got."""
    return AutodiffError(
        f"dk.torch_function({kernel}) uses {log.what}, which the threads of another launch may get in another order, "
        "and this derivative needs one",
        loc=log.loc,
        remedy="take first derivatives with backward() outside of torch.compile, torch.func and checkpoints, or launch "
        "the kernel under a dk.Tape",
    )


def _packed(parameter: Parameter, element: Element, given: Any) -> bytes:
    """Return the bytes of an argument by value."""
    pack = parameter.pack
    if pack is not None and type(given) is float:
        try:
            return pack(given)
        except struct.error:
            pass  # what follows says what is wrong
    try:
        return pack_value(element, value_of(parameter, given))
    except (TypeError, ValueError, OverflowError) as error:
        raise parameter.error(str(error), "pass a number that its type holds") from None


def _refusal(parameter: Parameter, given: Any) -> LaunchError:
    """Return the error for a value that is no tensor: the one that a launch raises, if it raises one."""
    try:
        parameter.convert_leaves(given)
    except LaunchError as error:
        return LaunchError(error.message, remedy="use torch.as_tensor()")
    takes = "a tensor or a number" if parameter.annotation is None else parameter.annotation
    return parameter.error(f"takes {takes} as a tensor, not {type(given).__name__}", "use torch.as_tensor()")


def value_of(parameter: Parameter, given: Any) -> Any:
    """Return an argument by value as a number or NumPy array."""
    if not isinstance(given, torch.Tensor):
        return given
    annotation = parameter.annotation
    inner = (
        () if annotation is None or isinstance(annotation, (ArrayAnnotation, Struct)) else component_shape(annotation)
    )
    if tuple(given.shape) != inner:
        raise parameter.error(
            f"takes {annotation} by value, not a tensor of shape {tuple(given.shape)}",
            "reshape it, or annotate the parameter as an array",
        )
    if given.dtype in (torch.bfloat16, torch.float16):
        given = given.float()  # kernels take no halves by value
    plain: np.ndarray[Any, Any] = given.detach().resolve_neg().cpu().numpy()
    if not inner:
        number = plain[()]
        if annotation is None:
            return number
        assert isinstance(annotation, Scalar)
        if annotation.is_float != (number.dtype.kind == "f"):
            raise parameter.error(
                f"takes {annotation} by value, not a tensor of {given.dtype}", "convert it with .to(dtype)"
            )
        return number
    return plain
