"""The inspection of a kernel: its programs as text, the types of its arguments, and the analysis of its threads.

Programs are named by types or by example arguments. Nothing is compiled to machine code but for reports on threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from diffkern.contracts import platforms
from diffkern.contracts.options import Merged, Variant
from diffkern.errors import KernelError, MisuseError
from diffkern.ir.structs import Argument, IndexedArray, Struct, StructArray, flatten
from diffkern.ir.types import Array, is_differentiable
from diffkern.lang.annotations import ArrayAnnotation
from diffkern.lang.structs import array_field, resolve_type
from diffkern.lang.values import CompositeValue
from diffkern.process.tracebacks import compiles
from diffkern.runtime.arrays.array import array, wrap
from diffkern.runtime.arrays.type_keys import type_of_key
from diffkern.runtime.launch.arguments import Parameter
from diffkern.runtime.launch.program import Executable

if TYPE_CHECKING:
    from diffkern.compiler.compilation import Compilation

__all__ = ["Inspection"]


class Inspection:
    """The part of a kernel that answers questions about it without launching it."""

    func: Callable[..., Any]
    name: str
    programs: Mapping[tuple[str, ...], Executable]

    if TYPE_CHECKING:

        @property
        def parameters(self) -> tuple[Parameter, ...]: ...

        @property
        def variant(self) -> Variant: ...

        @property
        def block_dim(self) -> int: ...

    @compiles
    def source(self, *types: Any, target: Literal["cpu", "cuda"] = "cpu") -> str:
        """Return the readable forward program.

        Parameters
        ----------
        *types
            For each parameter a type (``float``, ``dk.vec3``, ``dk.array(dtype=float)``) or an argument of that type.
            May be left out where all parameters are annotated, or after launches with one combination of types.
        target : {"cpu", "cuda"}, optional
            What one thread does, or a numba-cuda kernel, which runs in numba's CUDA simulator as it stands.
        """
        return self._compilation(self.argument_types(*types), target).source()

    def _compilation(
        self,
        types: tuple[Argument, ...],
        target: str = "cpu",
        active: frozenset[int] | None = None,
        merged: Merged = (),
    ) -> Compilation:
        """Return the way of a program that is looked at: for a GPU with the threads of a block."""
        # Only those who look at programs load the compiler.
        from diffkern.compiler.compilation import Compilation

        family = next((f for f in platforms.FAMILIES if f.name == target), None)
        if family is None:
            known = " or ".join(repr(f.name) for f in platforms.FAMILIES)
            raise MisuseError(
                f"source is printed for target {known}, not {target!r}",
                remedy="leave target out, or call dk.compile(kernel, target=...), whose result has the code of any",
            )
        # On a CPU no program depends on the number of threads, so it stays out of the variant.
        threads = self.block_dim if family.platform.counts_threads else None
        variant = replace(self.variant, target=family.printed, active=active, block_dim=threads, merged=merged)
        return Compilation(self.func, types, variant)

    @compiles
    def adjoint_source(self, *types: Any, active: Any = None, target: Literal["cpu", "cuda"] = "cpu") -> str:
        """Return the readable adjoint program.

        Parameters
        ----------
        *types
            As in :meth:`source`.
        active : sequence of str, optional
            Names of the parameters to differentiate for; all that can be by default.
        target : {"cpu", "cuda"}, optional
            As in :meth:`source`.
        """
        known = self.argument_types(*types)
        return self._compilation(known, target, self._active(known, active)).source()

    @compiles
    def adjoint_report(self, *types: Any, active: Any = None) -> str:
        """Return in words what the adjoint stores, copies and synchronises; parameters as in :meth:`source`."""
        known = self.argument_types(*types)
        return self._compilation(known, active=self._active(known, active)).report()

    @compiles
    def report(self, *types: Any, adjoint: bool = False, active: Any = None) -> str:
        """Return in words how threads run on this processor: one by one, or in lanes, and what is masked or gathered.

        Parameters
        ----------
        *types
            As in :meth:`source`.
        adjoint : bool, optional
            Of the adjoint instead of the forward.
        active : sequence of str, optional
            As in :meth:`adjoint_source`.
        """
        known = self.argument_types(*types)
        return self._compilation(known, active=self._active(known, active) if adjoint else None).threads()

    @compiles
    def ir(self, *types: Any, adjoint: bool = False, active: Any = None) -> str:
        """Return the intermediate representation of the kernel or of its adjoint; parameters as above."""
        known = self.argument_types(*types)
        return self._compilation(known, active=self._active(known, active) if adjoint else None).text()

    def argument_types(self, *given: Any) -> tuple[Argument, ...]:
        """Return the types of the arguments; parameters as in :meth:`source`."""
        if not given:
            if all(p.annotation is not None for p in self.parameters):
                given = tuple(p.annotation for p in self.parameters)
            # Without annotations the types of earlier launches count, if these are unambiguous.
            elif len(known := {tuple(type_of_key(key) for key in keys) for keys in list(self.programs)}) == 1:
                return known.pop()
            else:
                names = ", ".join(p.name for p in self.parameters)
                raise KernelError(
                    f"kernel {self.name!r} has parameters without annotations, so its types are not known",
                    remedy=f"pass a type such as dk.array(dtype=float) or float for each of {names}, as in "
                    "kernel.source(type, …), dk.compile((kernel, type, …)), diffkern inspect --types 'array(float)' …",
                )
        if len(given) != len(self.parameters):
            raise KernelError(
                f"kernel {self.name!r} has {len(self.parameters)} parameters, not {len(given)}",
                remedy="give a type for each parameter, in order",
            )
        types = tuple(_type_of(value, p) for value, p in zip(given, self.parameters, strict=True))
        for parameter, t in zip(self.parameters, types, strict=True):
            parameter.check_type(t)
        return types

    def _active(self, types: tuple[Argument, ...], names: Any) -> frozenset[int]:
        leaves = flatten([p.name for p in self.parameters], types)
        if names is None:
            return frozenset(i for i, leaf in enumerate(leaves) if is_differentiable(leaf.type))
        return self.positions(names, types)

    def positions(self, names: Iterable[str], types: Sequence[Argument]) -> frozenset[int]:
        """Return the positions, in the program, of parameters given by name.

        A name stands for the parameter itself, or for all fields of a struct below it: ``s`` and ``s.pos``.
        """
        if not isinstance(names, Iterable):
            raise MisuseError(
                f"active is a list of names of parameters, not {names!r}",
                remedy="write active=['x'], or leave it out for all that have a gradient",
            )
        names = [names] if isinstance(names, str) else list(names)
        leaves = flatten([p.name for p in self.parameters], types)
        # The dots keep `s` from matching `speed`.
        found = {name: [i for i, leaf in enumerate(leaves) if f"{leaf.name}.".startswith(f"{name}.")] for name in names}
        unknown = [name for name, indices in found.items() if not indices]
        if unknown:
            known = ", ".join(leaf.name for leaf in leaves)
            raise KernelError(
                f"kernel {self.name!r} has no parameter {unknown[0]!r}; it has {known}",
                remedy="take one of these names, or leave active out for all that have a gradient",
            )
        return frozenset(i for indices in found.values() for i in indices)


def _type_of(value: Any, parameter: Parameter) -> Argument:
    """Return the type meant by a type, an annotation or an argument."""
    if isinstance(value, ArrayAnnotation):
        if value.element is None:
            raise parameter.error("the annotation takes any dtype, so its type is not known", "pass a type for it")
        if value.indexed and not isinstance(value.element, Struct):  # of which each axis has an index array
            contiguous = Array(value.element, value.ndim)
            return IndexedArray(value.element, value.ndim, contiguous.layout, (contiguous.layout,) * value.ndim)
        return array_field(value.element, value.ndim)
    if isinstance(value, (Array, StructArray, IndexedArray)):
        return value
    if isinstance(value, array):
        return value._type
    if isinstance(value, np.ndarray) and not isinstance(value, CompositeValue):
        element = parameter.annotation.element if isinstance(parameter.annotation, ArrayAnnotation) else None
        try:
            return wrap(value, element)._type
        except (TypeError, ValueError) as error:
            raise parameter.error(str(error), "pass an array of the parameter's type") from None
    try:
        return resolve_type(value)
    except TypeError:
        return type_of_key(parameter.convert_leaves(value)[0])
