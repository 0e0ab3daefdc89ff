"""``dk.jax_kernel``: a kernel as a differentiable JAX function.

In: a kernel, which of its parameters are outputs, launch dims. Out: a function of JAX arrays. Tracing it makes a custom
call of the forward program and, for a gradient, one of the adjoint; what the adjoint needs of the forward are its
residuals: the inputs and outputs that it reads, and the entry contents of inputs that the kernel overwrites.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from diffkern.errors import AutodiffError, LaunchError, MisuseError
from diffkern.interop.jax import cuda, programs
from diffkern.interop.jax.arguments import (
    Output,
    Signature,
    bytes_of_value,
    convert,
    refuse_foreign,
    resolve_dims,
    signature_of,
    static_form,
    value_buffer,
)
from diffkern.interop.jax.call import Bound, Buffer, Call, Clear, Copy, Launch, bind_array, buffer_of
from diffkern.interop.jax.dispatch import CustomCall, checked_method, is_static
from diffkern.interop.jax.manual import agree, spread, varying_axes
from diffkern.interop.jax.programs import Program
from diffkern.interop.jax.spelling import array_type, type_of
from diffkern.ir.types import Array, scalar_of
from diffkern.kernel import Kernel
from diffkern.manifest import Manifest, Parameter
from diffkern.runtime.generation import Generation
from diffkern.runtime.grid_checks import check_alone, check_axes, check_extents, named

__all__ = ["JaxKernel"]

_UNSET: Any = object()
_MAX_COMPILED = 256
_MARKS = 16  # inputs that one empty array tells of


class JaxKernel:
    """A kernel as a function of JAX arrays; made by :func:`diffkern.jax_kernel`."""

    def __init__(
        self,
        kernel: Kernel,
        num_outputs: int,
        launch_dims: Any,
        output_dims: Any,
        in_out_argnames: Sequence[str] | str | None,
        vmap_method: str,
        enable_backward: bool,
        of: Generation | None = None,
    ) -> None:
        if not isinstance(kernel, Kernel):
            raise MisuseError(f"dk.jax_kernel takes a kernel made by @dk.kernel, not {kernel!r}")
        self._given = kernel, num_outputs, launch_dims, output_dims, in_out_argnames, vmap_method, enable_backward
        self.kernel = kernel
        self.signature = signature_of("dk.jax_kernel", kernel, num_outputs, in_out_argnames)
        self.enable_backward = enable_backward and kernel.enable_backward
        self._launch_dims = launch_dims
        self._output_dims = output_dims
        self._vmap_method = checked_method(vmap_method)
        self._compiled: dict[Any, Callable[..., Any]] = {}
        # What the kernel is to mean, if not what it means at each call; what it meant when the functions were compiled.
        self._of, self._state = of, of
        functools.update_wrapper(self, kernel.func)

    def __reduce__(self) -> tuple[Any, ...]:
        return JaxKernel, self._given

    def __repr__(self) -> str:
        return f"<dk.jax_kernel of {self.kernel.name}>"

    def __call__(
        self, *args: Any, launch_dims: Any = _UNSET, output_dims: Any = _UNSET, vmap_method: Any = _UNSET
    ) -> tuple[Any, ...]:
        """Return the outputs: in-out arguments first, then pure outputs.

        Parameters
        ----------
        *args
            The inputs and in-out arguments, in the order of the kernel's parameters.
        launch_dims, output_dims, vmap_method : optional
            Other values for this call than the function was made with.
        """
        launch_dims = self._launch_dims if launch_dims is _UNSET else launch_dims
        output_dims = self._output_dims if output_dims is _UNSET else output_dims
        method = self._vmap_method if vmap_method is _UNSET else checked_method(vmap_method)
        generation = self.generation
        if generation is not self._state:
            # What the kernel captured has changed, or the mode: what was compiled is of no use any more.
            self._compiled, self._state = {}, generation
        form = (static_form(launch_dims), static_form(output_dims), method)
        try:
            compiled = self._compiled.get(form)
        except TypeError:  # symbolic dims of a foreign kind, or an unhashable callable
            return self._trace(launch_dims, output_dims, method, *args)
        if compiled is None:
            if len(self._compiled) >= _MAX_COMPILED:
                self._compiled.clear()
            traced = functools.partial(self._trace, launch_dims, output_dims, method)
            traced.__name__ = self.kernel.name  # type: ignore[attr-defined]
            compiled = self._compiled[form] = jax.jit(traced)
        try:
            out: tuple[Any, ...] = compiled(*args)
        except TypeError:
            refuse_foreign(self.signature, args)
            raise
        return out

    @property
    def generation(self) -> Generation:
        """What the kernel means for the calls that are traced now."""
        return self._of or self.kernel.current()

    def _trace(self, launch_dims: Any, output_dims: Any, method: str, *args: Any) -> tuple[Any, ...]:
        plan = _Plan(self, convert(self.signature, args), launch_dims, output_dims, method)
        return plan.function()(*agree(plan.args))


class _Plan:
    """One tracing: arguments of known types and shapes."""

    def __init__(self, owner: JaxKernel, args: Any, launch_dims: Any, output_dims: Any, method: str) -> None:
        self.owner, self.kernel, self.method = owner, owner.kernel, method
        # The derivative may be traced much later; it is that of this program.
        self.generation = owner.generation
        self.signature: Signature = owner.signature
        self.given = args
        self.args: tuple[Any, ...] = args.values
        self.dims = resolve_dims(self.signature, args, launch_dims)
        self.outputs: tuple[Output, ...] = args.outputs(self.dims, output_dims)
        self.keys: tuple[str, ...] = args.keys(self.outputs)
        self.inputs = self.signature.inputs  # positions of the parameters that are passed

    # -- the function and its derivative -------------------------------------------------------------------------------

    def function(self) -> Callable[..., tuple[Any, ...]]:
        """Return the function of the inputs, with its derivative."""

        def primal(*given: Any) -> tuple[Any, ...]:
            return self.forward(given)

        def fwd(*given: Any) -> tuple[Any, Any]:
            perturbed = tuple(i for i, x in zip(self.inputs, given, strict=True) if x.perturbed)
            values = tuple(x.value for x in given)
            self.check_differentiable()
            # The function itself, so that a second derivative meets the adjoint rather than a bare custom call.
            out = run(*values)
            return out, self.residuals(perturbed, values, out)

        run = jax.custom_vjp(primal)
        run.defvjp(fwd, self.backward, symbolic_zeros=True)
        made: Callable[..., tuple[Any, ...]] = run
        return made

    def check_differentiable(self) -> None:
        if not self.owner.enable_backward:
            raise AutodiffError(
                f"kernel {self.kernel.name!r} is not differentiated: it was made with enable_backward=False",
                remedy="leave that option out, or stop the gradient with jax.lax.stop_gradient",
            )

    # -- forward -------------------------------------------------------------------------------------------------------

    def forward(self, given: Sequence[Any]) -> tuple[Any, ...]:
        program = programs.forward(self.kernel, self.generation, self.keys)
        manifest = program.manifest
        self.check_launch(manifest)
        operands = [self.buffer(i) for i in self.inputs]
        results = [self.buffer(o.index) for o in self.outputs]
        place = {i: k for k, i in enumerate(self.inputs)}
        place.update({o.index: len(operands) + k for k, o in enumerate(self.outputs)})
        steps: list[Copy | Clear | Launch] = []
        aliases = []
        for k, o in enumerate(self.outputs):
            goal = len(operands) + k
            if o.is_inout:
                source = self.inputs.index(o.index)
                steps.append(Copy(source, goal))
                aliases.append((source, k))
            else:
                steps.append(Clear(goal, manifest.params[o.index].whole or 0, 0))

        def keep(used: Program, gpu: cuda.Gpu | None = None) -> str:
            params = tuple(self.bound(entry, place[entry.of]) for entry in used.manifest.params)
            launch = Launch(used.identity, "", len(self.dims), params)
            call = Call(self.kernel.name, tuple(operands), tuple(results), (*steps, launch))
            return programs.keep(call, {used.identity: used}, gpu)

        gpu = cuda.present()
        on_gpu = "" if gpu is None else keep(programs.forward(self.kernel, self.generation, self.keys, gpu), gpu)
        types = tuple(jax.ShapeDtypeStruct(o.shape, o.dtype) for o in self.outputs)
        return CustomCall(keep(program), types, (self.dims,), tuple(aliases), self.method, on_gpu)(*given)

    def bound(self, entry: Parameter, place: int) -> Bound:
        """A parameter of a program as a buffer; a value that it takes by reference is an array of one element."""
        t = type_of(entry.type)
        if not isinstance(t, Array):
            return Bound("value", place, bytes_of_value(t))
        if entry.role == "param" and not isinstance(type_of(self.keys[entry.of]), Array):
            return Bound("view", place, 1, t.dtype.itemsize, 0, (1, t.dtype.itemsize))
        return bind_array(entry.type, place)

    def check_launch(self, manifest: Manifest) -> None:
        """Refuse a launch whose dims do not fit the kernel and its arrays, as far as they are known."""
        shapes = {k: self.given.shape(k) for k, axes in enumerate(self.given.axes) if axes >= 0}
        shapes |= {o.index: o.shape[: o.axes] for o in self.outputs}
        names = self.signature.names
        try:
            check_axes(manifest.tid_arity, self.dims)
            if is_static(self.dims):
                check_alone(manifest, self.dims)
                known = {k for k, shape in shapes.items() if is_static(shape)}
                entries = [entry for entry in manifest.accesses if {k for k, _ in entry.shapes} <= known]
                check_extents(entries, names, self.dims, shapes)
        except LaunchError as error:
            raise named(self.kernel.name, error) from None

    def buffer(self, index: int) -> Buffer:
        """The buffer of a parameter of the kernel."""
        return _buffer(self.keys[index])

    # -- backward ------------------------------------------------------------------------------------------------------

    def active(self, perturbed: Sequence[int]) -> frozenset[int]:
        """The parameters with a cotangent: the inputs that are differentiated for, and the outputs."""
        outputs = {o.index for o in self.outputs if jnp.issubdtype(o.dtype, jnp.floating)}
        return frozenset(outputs.union(perturbed))

    def adjoint(self, perturbed: Sequence[int]) -> tuple[Program, Program | None]:
        """The adjoint that accumulates plainly, and the one with atomics where it may be needed."""
        active = self.active(perturbed)
        plain = programs.reverse(self.kernel, self.generation, self.keys, active, "plain")
        conflicts = plain.manifest.conflicts.values()
        apart = len(self.dims) <= plain.manifest.tid_arity
        if apart and not any(conflict.kind == "general" for conflict in conflicts):
            return plain, None
        if all(conflict.kind == "reduce" for conflict in conflicts):
            return plain, None
        return plain, programs.reverse(self.kernel, self.generation, self.keys, active, "atomic")

    def adjoint_on(self, gpu: cuda.Gpu, active: Sequence[int]) -> Program:
        """The adjoint for a GPU, which accumulates atomically wherever threads may meet."""
        chosen = frozenset(active)
        plain = programs.reverse(self.kernel, self.generation, self.keys, chosen, "plain", gpu)
        if len(self.dims) <= plain.manifest.tid_arity:
            return plain
        return programs.reverse(self.kernel, self.generation, self.keys, chosen, "atomic", gpu)

    def needed(self, perturbed: tuple[int, ...]) -> set[tuple[str, int]]:
        """What the adjoint needs of the forward: arrays by role and parameter."""
        if not perturbed:
            return set()
        plain, _ = self.adjoint(perturbed)
        active, read = self.active(perturbed), set(plain.manifest.post)
        names: set[tuple[str, int]] = set()
        for param in plain.manifest.params:
            role, of = param.role, param.of
            # Of an array that is not read the shape is needed all the same; its cotangent has the same one.
            kept = role == "param" and (of in read or of not in active or not _is_array(param))
            if kept or (role == "saved" and of in self.inputs):
                names.add((role, of))
        return names

    def slots(self) -> list[tuple[str, int]]:
        """All that any adjoint could need."""
        params = sorted({*self.inputs, *(o.index for o in self.outputs)})
        return [*(("param", i) for i in params), *(("saved", i) for i in self.inputs)]

    def residuals(self, perturbed: tuple[int, ...], given: Sequence[Any], out: Sequence[Any]) -> tuple[Any, ...]:
        """What the forward leaves for the adjoint: a tuple of the same length for all sets of perturbed inputs.

        JAX keeps the forward's trace for each set of perturbed inputs, but the structure of the residuals for the
        last one only. So the structure must not say anything: which inputs are perturbed is in shapes of empty arrays.
        """
        entry = dict(zip(self.inputs, given, strict=True))
        after = {**entry, **{o.index: y for o, y in zip(self.outputs, out, strict=True)}}
        needed = self.needed(perturbed)
        kept = [
            (entry if slot[0] == "saved" else after)[slot[1]] if slot in needed else jnp.zeros(0, np.int8)
            for slot in self.slots()
        ]
        marks = [i in perturbed for i in self.inputs]
        groups = [marks[k : k + _MARKS] for k in range(0, len(marks), _MARKS)]
        return (*kept, *(jnp.zeros((0, *(1 + m for m in group)), np.int8) for group in groups))

    def backward(self, residuals: tuple[Any, ...], cotangents: Any) -> tuple[Any, ...]:
        """Return the cotangents of the inputs."""
        slots = self.slots()
        marks = [extent == 2 for x in residuals[len(slots) :] for extent in x.shape[1:]]
        perturbed = tuple(i for i, mark in zip(self.inputs, marks, strict=True) if mark)
        if not perturbed:
            return (None,) * len(self.inputs)
        needed = self.needed(perturbed)
        kept = {slot: x for slot, x in zip(slots, residuals, strict=False) if slot in needed}
        plain, atomic = self.adjoint(perturbed)
        given = {
            o.index: _instantiated(ct, o)
            for o, ct in zip(self.outputs, cotangents, strict=True)
            if jnp.issubdtype(o.dtype, jnp.floating)
        }
        run = _AdjointCall(self, plain, atomic, kept, given)
        out, axes = run(), varying_axes(self.args)

        def cotangent(i: int, x: Any) -> Any:
            # Zeros rather than None, which JAX 0.5 does not take in one transposition and not in the next.
            if i in out or not jnp.issubdtype(x.dtype, jnp.floating):
                return out.get(i)
            return spread(jnp.zeros(x.shape, x.dtype), axes)

        return tuple(cotangent(i, x) for i, x in zip(self.inputs, self.args, strict=True))


class _AdjointCall:
    """One custom call of an adjoint."""

    def __init__(
        self,
        plan: _Plan,
        plain: Program,
        atomic: Program | None,
        residuals: Mapping[tuple[str, int], Any],
        cotangents: Mapping[int, Any],
    ) -> None:
        self.plan, self.plain, self.atomic = plan, plain, atomic
        self.cotangents = cotangents
        self.operands: list[Any] = []
        self.buffers: list[Buffer] = []
        self.where: dict[tuple[str, int], int] = {}
        self.types: dict[tuple[str, int], str] = {(p.role, p.of): p.type for p in plain.manifest.params}
        for (role, of), value in sorted(residuals.items(), key=lambda kept: kept[0]):
            self.add(role, of, value)
        for role, of in self.types:
            if role == "saved" and (role, of) not in self.where:
                # A pure output holds zeros when the kernel begins.
                o = next(o for o in plan.outputs if o.index == of)
                self.add(role, of, jnp.zeros(o.shape, o.dtype))
        for of, value in cotangents.items():
            self.add("given", of, value, self.types["cotangent", of])

    def add(self, role: str, of: int, value: Any, spelling: str | None = None) -> None:
        self.where[role, of] = len(self.operands)
        self.operands.append(value)
        self.buffers.append(_buffer(spelling or self.types[role, of]))

    def __call__(self) -> dict[int, Any]:
        plan, count = self.plan, len(self.operands)
        results, shapes, aliases = [], [], []
        steps: list[Copy | Clear | Launch] = []
        owned = [of for role, of in self.types if role == "cotangent"]
        ct_place = {of: count + k for k, of in enumerate(owned)}
        for k, of in enumerate(owned):
            t = array_type(self.types["cotangent", of])
            results.append(buffer_of(t.dtype, t.ndim))
            shapes.append(jax.ShapeDtypeStruct(self.shape(of, t), np.dtype(_jax_name(scalar_of(t).name))))
            if of in self.cotangents:
                source = self.where["given", of]
                steps.append(Copy(source, count + k))
                aliases.append((source, k))
            else:
                steps.append(Clear(count + k, 0, 0))

        def keep(plain: Program, atomic: Program | None, gpu: cuda.Gpu | None = None) -> str:
            params = []
            for param in plain.manifest.params:
                role, of = param.role, param.of
                place = ct_place[of] if role == "cotangent" else self.where.get((role, of), ct_place.get(of, -1))
                params.append(plan.bound(param, place))
            used = [plain] if atomic is None else [plain, atomic]
            launch = Launch(plain.identity, "" if atomic is None else atomic.identity, len(plan.dims), tuple(params))
            name = f"adjoint of {plan.kernel.name}"
            call = Call(name, tuple(self.buffers), tuple(results), (*steps, launch))
            return programs.keep(call, {p.identity: p for p in used}, gpu)

        gpu = cuda.present()
        on_gpu = "" if gpu is None else keep(plan.adjoint_on(gpu, tuple(owned)), None, gpu)
        key = keep(self.plain, self.atomic)
        run = CustomCall(key, tuple(shapes), (plan.dims,), tuple(aliases), plan.method, on_gpu)
        out = _first_order(plan.kernel.name, run)(*self.operands)
        inputs = dict(zip(plan.inputs, plan.args, strict=True))
        return {
            of: ct.reshape(inputs[of].shape).astype(inputs[of].dtype)
            for of, ct in zip(owned, out, strict=True)
            if of in inputs
        }

    def shape(self, of: int, t: Array) -> tuple[Any, ...]:
        """The shape of a cotangent: that of its array, or one element."""
        plan = self.plan
        for o in plan.outputs:
            if o.index == of:
                return o.shape
        value = plan.args[plan.inputs.index(of)]
        if isinstance(type_of(plan.keys[of]), Array):
            return tuple(value.shape)
        return (1, *value.shape)


def _first_order(name: str, run: CustomCall) -> Callable[..., Any]:
    """Return the adjoint as a function that says why it has no derivative of its own."""

    def refuse(primals: Any, tangents: Any) -> Any:
        raise AutodiffError(
            f"the gradient of kernel {name!r} cannot be differentiated again: diffkern has no second derivatives",
            remedy="take differences of the gradient, or keep it out of what is differentiated with stop_gradient",
        )

    adjoint = jax.custom_jvp(run.__call__)
    adjoint.defjvp(refuse)
    once: Callable[..., Any] = adjoint
    return once


def _instantiated(ct: Any, output: Output) -> Any:
    if isinstance(ct, jax.custom_derivatives.SymbolicZero):
        return jnp.zeros(output.shape, output.dtype)
    return ct


def _is_array(param: Parameter) -> bool:
    return isinstance(type_of(param.type), Array)


def _jax_name(name: str) -> Any:
    return jnp.bfloat16 if name == "bfloat16" else name


def _buffer(spelling: str) -> Buffer:
    t = type_of(spelling)
    if isinstance(t, Array):
        return buffer_of(t.dtype, t.ndim)
    return value_buffer(t)
