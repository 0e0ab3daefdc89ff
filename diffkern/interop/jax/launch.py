"""One launch as functions of JAX arrays: the launch itself, the launch along tangents, and its adjoint.

From a launch, and the types and shapes of its arguments, this module makes its results, those of its adjoint, and the
launch of the kernel with tangents, which is a launch like any other; each runs as one custom call. The adjoint reads
its residuals alone: the inputs and outputs that it needs, and the entry contents of inputs that the kernel overwrites.
:mod:`~diffkern.interop.jax.derivative` makes JAX differentiate them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import jax.numpy as jnp

from diffkern.contracts.manifest import Manifest, ProgramParameter
from diffkern.contracts.race_search import needed
from diffkern.errors import AutodiffError
from diffkern.interop.jax import cuda, programs
from diffkern.interop.jax.arguments import CallArgument, jax_type, shape_of
from diffkern.interop.jax.builder import BufferPart, CallBuilder, Number, Operand
from diffkern.interop.jax.dispatch import is_static
from diffkern.interop.jax.forward import forward
from diffkern.interop.jax.logged import LoggedLaunch
from diffkern.interop.jax.recording import Launched, Recording
from diffkern.ir.structs import null_of
from diffkern.ir.types import Array, parse_type, scalar_of
from diffkern.kernels.kernel import Kernel
from diffkern.process.dataclass import dataclass
from diffkern.process.forks import cached_property
from diffkern.runtime.launch.kernel_version import KernelVersion
from diffkern.runtime.launch.race_checks import check_races

__all__ = ["LaunchFunction", "TangentLaunch"]

Slot = tuple[str, int]
"""A parameter of an adjoint: its role, and the kernel's parameter that it belongs to."""


class LaunchFunction:
    """One launch, as functions of the arguments that are passed.

    Parameters
    ----------
    kernel, generation
        The kernel, and its version; the derivative may be traced much later, and is that of this version.
    arguments : sequence of Argument
        All parameters in order. One that is neither passed nor returned is null, or zero.
    dims : tuple
        The launch's dims.
    vmap_method : str
        As for ``jax.ffi.ffi_call``.
    enable_backward : bool
        Whether it may be differentiated.
    sequential : bool, optional
        Whether its threads run one after the other, so that another launch gets the same from atomic updates.

    Attributes
    ----------
    inputs, results : list of Argument
        The arguments that are passed, and those that are returned.
    """

    def __init__(
        self,
        kernel: Kernel,
        generation: KernelVersion,
        arguments: Sequence[CallArgument],
        dims: tuple[Any, ...],
        vmap_method: str,
        enable_backward: bool,
        sequential: bool = False,
    ) -> None:
        self.kernel, self.dims, self.vmap_method, self.enable_backward = kernel, dims, vmap_method, enable_backward
        self.generation, self.keys, self.sequential = generation, tuple(a.key for a in arguments), sequential
        self.run_as = kernel.sequential(generation) if sequential else generation
        operands = tuple(BufferPart(a.index) if a.is_array else Number(a.index) for a in arguments)
        writes = tuple(a.index for a in arguments if a.is_result)
        launch = Launched(kernel, self.run_as, self.keys, dims, operands, writes)
        # A plan outlives the trace that it was made in, so it holds no values.
        described = [a.without_value() for a in arguments]
        self.recording = Recording(kernel.name, described, len(described), [launch])
        self.arguments = self.recording.buffers
        self.inputs, self.results = self.recording.passed, self.recording.results
        # Kept, so that JAX sees one act for one derivative and compiles it once.
        self._along: dict[frozenset[int], TangentLaunch] = {}

    def __repr__(self) -> str:
        return f"launch of {self.kernel.name}"

    @property
    def smooth(self) -> tuple[int, ...]:
        """The results that have tangents and cotangents."""
        return tuple(a.index for a in self.results if a.is_smooth)

    def run(self, *given: Any) -> tuple[Any, ...]:
        """Return the results for the inputs."""
        return forward(self.recording, given, self.vmap_method)

    @cached_property
    def repeatable(self) -> LaunchFunction:
        """The launch as its derivatives repeat it: its threads one by one, if its results depend on their order.

        Raises
        ------
        AutodiffError
            If they do, and the order cannot be fixed.
        """
        manifest = self.kernel.forward(self.keys, of=self.generation).manifest
        if manifest.turn is None or self.sequential:
            return self
        why = "on a GPU" if cuda.present() is not None else "of a block together" if manifest.blockwise else None
        if why is not None:
            raise AutodiffError(
                f"kernel {self.kernel.name!r} uses {manifest.turn.what}, which the threads of another launch may get "
                f"in another order, and its derivatives under JAX launch it again; the order is not fixed {why}",
                loc=manifest.turn.loc,
                remedy="launch the kernel under a dk.Tape",
            )
        args = (self.kernel, self.generation, self.arguments, self.dims, self.vmap_method, self.enable_backward)
        return LaunchFunction(*args, sequential=True)

    # -- along tangents ------------------------------------------------------------------------------------------------

    def along(self, perturbed: frozenset[int]) -> TangentLaunch:
        """Return the launch of the kernel with tangents of these inputs."""
        if perturbed not in self._along:
            self._along[perturbed] = self._made(perturbed)
        return self._along[perturbed]

    def _made(self, perturbed: frozenset[int]) -> TangentLaunch:
        kernel: Any = self.kernel.jvp
        every = [(a.index, False) for a in self.arguments]
        # Tangents of parameters that are not perturbed are null: the kernel's signature is the same for every set.
        roles = tuple(kernel.along.joined(every, [(k, True) for k in kernel.with_tangents]))
        arguments = []
        for index, (k, is_tangent) in enumerate(roles):
            a = replace(self.arguments[k], index=index)
            arguments.append(_tangent(a, k in perturbed) if is_tangent else a)
        generation = kernel.meant(self.generation)
        args = (kernel, generation, arguments, self.dims, self.vmap_method, self.enable_backward)
        return TangentLaunch(LaunchFunction(*args, sequential=self.sequential), roles)

    # -- the adjoint ---------------------------------------------------------------------------------------------------

    def check_differentiable(self) -> None:
        if not self.enable_backward:
            raise AutodiffError(
                f"kernel {self.kernel.name!r} is not differentiated: it was made with enable_backward=False",
                remedy="leave that option out, or stop the gradient with jax.lax.stop_gradient",
            )
        if self.kernel.forward(self.keys, of=self.generation).manifest.by_id:
            raise AutodiffError(
                f"kernel {self.kernel.name!r} looks at an object on the host by its id, which may be another one when "
                "JAX runs the adjoint",
                remedy="launch it under a dk.Tape, or stop the gradient with jax.lax.stop_gradient",
            )

    def adjoint(self, perturbed: Sequence[int]) -> programs.Programs:
        """Return the adjoint's programs; cotangents have the inputs that are differentiated for, and the outputs."""
        # Results are active as well as the perturbed inputs: cotangents come in by them.
        active = frozenset(a.index for a in self.results if a.is_smooth).union(perturbed)
        found = programs.reverse(self.kernel, self.generation, self.keys, active, len(self.dims))
        if found.plain.manifest.races:
            self.check_races(found.plain.manifest)
        return found

    def check_races(self, manifest: Manifest) -> None:
        """Check the preconditions of the adjoint, of which JAX knows dimensions and shapes only."""
        places = needed(manifest.races)
        shapes = {(k, axis): self.arguments[k].extents[axis] for k, axis in places if axis >= 0}
        values = [self.arguments[k].name for k, axis in places if axis < 0]
        if values or not is_static((*self.dims, *shapes.values())):
            of = f"on {values[0]!r}, whose value" if values else "on shapes, which"
            raise AutodiffError(
                f"whether the gradient of kernel {self.kernel.name!r} is right depends {of} JAX does not know when it "
                "traces",
                loc=manifest.races[0].load.loc,
                remedy="make it a constant of the kernel, a number of the function that encloses it, or read from "
                "another array than the kernel writes to",
            )
        names = [a.name for a in self.arguments]
        check_races(self.kernel.name, manifest.races, names, self.dims, shapes)

    def pulled(
        self,
        wanted: Sequence[int],
        entry: Mapping[int, Any],
        results: Mapping[int, Any],
        cotangents: Mapping[int, Any],
    ) -> tuple[Any, ...]:
        """Return the cotangents of inputs.

        Parameters
        ----------
        wanted : sequence of int
            The inputs.
        entry, results : mapping of int to array
            All inputs, as they were before the launch, and all results. Only those that the adjoint reads become
            operands.
        cotangents : mapping of int to array
            Those of results; the others' are zero.
        """
        # Residuals that no adjoint reads don't become operands, so that XLA need not keep them.
        made = self.adjoint(wanted)
        kept = {(role, k): self.value(role, k, entry, results) for role, k in self.needed(made)}
        # Overwritten values, or old values of atomic updates, come from one more launch, on copies.
        log = made.derivative.log
        if log is not None:
            relaunch = LoggedLaunch(self.kernel, self.run_as, self.keys, self.arguments, self.dims, log)
            before = {a.index: self.value("saved", a.index, entry, results) for a in self.arguments}
            found = relaunch(before, self.vmap_method)
            kept |= {("log", len(self.arguments) + k): x for k, x in enumerate(found)}
        out = self.run_adjoint(made, kept, cotangents)

        def cotangent(a: CallArgument) -> Any:
            return out[a.index].reshape(a.shape).astype(a.dtype) if a.index in out else jnp.zeros(a.shape, a.dtype)

        return tuple(cotangent(self.arguments[k]) for k in wanted)

    def needed(self, made: programs.Programs) -> list[Slot]:
        """Return the residuals of the adjoint: arrays by role and parameter."""
        plan = made.derivative
        names: list[Slot] = []
        for param in made.plain.manifest.params:
            role, of = param.role, param.of
            # Of an array that is not read the shape is needed all the same; its cotangent has the same one.
            is_array = isinstance(parse_type(param.type), Array)
            is_read = of in plan.after or of not in plan.active or not is_array
            if role == "saved" or (role == "param" and is_read):
                names.append((role, of))
        return sorted(names)

    def value(self, role: str, k: int, entry: Mapping[int, Any], results: Mapping[int, Any]) -> Any:
        """Return an argument as it was before the launch (``saved``), or as it was afterwards."""
        if role == "param" and k in results:
            return results[k]
        # What is not passed began as zeros.
        return entry[k] if k in entry else jnp.zeros(self.arguments[k].shape, self.arguments[k].dtype)

    def run_adjoint(
        self, made: programs.Programs, residuals: Mapping[Slot, Any], given: Mapping[int, Any]
    ) -> dict[int, Any]:
        """Run the adjoint in one custom call; return all cotangents, those of values with a leading axis of one."""
        call = CallBuilder(f"adjoint of {self.kernel.name}")
        types: dict[Slot, Any] = {(p.role, p.of): parse_type(p.type) for p in made.plain.manifest.params}
        where = {slot: call.operand(x, types[slot]) for slot, x in residuals.items()}
        sources = {k: call.operand(ct, types["cotangent", k]) for k, ct in given.items() if ("cotangent", k) in types}
        owned = [of for role, of in types if role == "cotangent"]
        # The adjoint accumulates into all its cotangents, so each begins with the given one or zeros.
        for k in owned:
            goal = where["cotangent", k] = self.begin(call, k, types["cotangent", k])
            if k in sources:
                call.take_over(sources[k], goal)
            else:
                call.clear(goal)

        def operand(p: ProgramParameter) -> Operand:
            slot = p.role, p.of
            is_value = slot[0] == "param" and not self.arguments[slot[1]].is_array
            # Where only its shape is read, the cotangent stands in for an array.
            return (
                Number(where[slot]) if is_value else BufferPart(where.get(slot, where.get(("cotangent", slot[1]), -1)))
            )

        call.launch(made, self.dims, operand)
        return dict(zip(owned, call.run(self.vmap_method), strict=True))

    def begin(self, call: CallBuilder, k: int, t: Any) -> int:
        """Add a cotangent to the results: of the shape of its array, or of one element."""
        a = self.arguments[k]
        return call.result(t, a.shape if a.is_array else (1, *a.shape), jax_type(scalar_of(t)))


@dataclass(frozen=True)
class TangentLaunch:
    """A launch of a kernel with tangents, and the meaning of its parameters for the kernel.

    Attributes
    ----------
    launch : LaunchFunction
        The launch.
    roles : tuple of (int, bool)
        For each of its parameters that of the kernel, and whether it is the tangent of that.
    """

    launch: LaunchFunction
    roles: tuple[tuple[int, bool], ...]

    def place(self, k: int, is_tangent: bool = False) -> int:
        """Return the parameter for a parameter of the kernel, or for its tangent."""
        return self.roles.index((k, is_tangent))

    def inputs(self, own: Mapping[int, Any], tangents: Mapping[int, Any]) -> list[Any]:
        """Return the values given for parameters of the kernel, in the order of the inputs, None where
        there is none.
        """
        return self._chosen(self.launch.inputs, own, tangents)

    def operands(self, own: Mapping[int, Any], tangents: Mapping[int, Any]) -> list[Any]:
        """Return the inputs. An array that is changed in place has a tangent here, zero if none is given."""
        given = self.inputs(own, tangents)
        return [jnp.zeros(a.shape, a.dtype) if x is None else x for a, x in zip(self.launch.inputs, given, strict=True)]

    def results(self, own: Mapping[int, Any], tangents: Mapping[int, Any]) -> list[Any]:
        """Return the results."""
        return self._chosen(self.launch.results, own, tangents)

    def _chosen(self, among: Sequence[CallArgument], own: Mapping[int, Any], tangents: Mapping[int, Any]) -> list[Any]:
        roles = (self.roles[a.index] for a in among)
        return [(tangents if is_tangent else own).get(k) for k, is_tangent in roles]

    def own(self, results: Sequence[Any]) -> list[Any]:
        """Return the kernel's results among the results, in their order."""
        return self._sorted(results, False)

    def changes(self, results: Sequence[Any]) -> list[Any]:
        """Return the tangents among the results, in the order of the kernel's results."""
        return self._sorted(results, True)

    def _sorted(self, results: Sequence[Any], are_tangents: bool) -> list[Any]:
        found = {self.roles[a.index]: y for a, y in zip(self.launch.results, results, strict=True)}
        return [found[k] for k in sorted(found) if k[1] is are_tangents]


def _tangent(a: CallArgument, is_perturbed: bool) -> CallArgument:
    """Return the tangent of an argument: an argument like it, or null or zero if it has none."""
    is_result = a.is_result and a.is_smooth
    if is_perturbed or is_result:
        # What is changed in place is passed, and so is its tangent.
        return replace(a.without_value(passed=is_perturbed or a.is_passed), name=f"t_{a.name}", is_result=is_result)
    absent = replace(a.without_value(passed=False), name=f"t_{a.name}", is_result=False)
    if not isinstance(a.type, Array):
        return absent
    null = null_of(a.type)
    assert isinstance(null, Array)
    return replace(absent, type=null, shape=shape_of(null, (0,) * null.ndim))
