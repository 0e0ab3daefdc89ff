"""A kernel in forward mode: the class of ``kernel.jvp``.

It takes tangents in addition to the kernel's arguments, and applies the kernel's derivative to them. It is a kernel
like any other: launched, recorded, compiled ahead of time, differentiated in either mode.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from diffkern.contracts.options import JvpLayer
from diffkern.errors import MisuseError
from diffkern.ir.structs import Argument, carries_gradient, declared
from diffkern.kernels.derived_kernel import DerivedKernel
from diffkern.kernels.kernel import Kernel
from diffkern.lang.annotations import ArrayAnnotation
from diffkern.lang.called import Called
from diffkern.process.forks import cached_property
from diffkern.runtime.launch.arguments import Parameter

__all__ = ["TangentKernel"]


class TangentKernel(DerivedKernel):
    """A kernel with tangents; made by :attr:`Kernel.jvp`.

    Its parameters are those of the kernel and then a tangent for each parameter that can have one: ``t_x`` for ``x``.
    The tangent of an array is an array like it; of what the kernel writes, the tangent is written. None in the place of
    such an array says that the array is constant, or that its tangent is not wanted.

    Attributes
    ----------
    of : Kernel
        The kernel without tangents.
    leading : int
        How many of the kernel's parameters stand before the first tangents, which are theirs; the tangents of the
        others stand last. All of them, in :attr:`Kernel.jvp`.
    """

    def __init__(self, of: Kernel, leading: int | None = None) -> None:
        self.leading: Final = len(of.parameters) if leading is None else leading
        # Each order of parameters is a program of its own, and is made once.
        self._others: dict[int, TangentKernel] = {}
        super().__init__(of, "jvp")

    def __repr__(self) -> str:
        return f"{self.of!r}.jvp" + ("" if self.leading == len(self.of.parameters) else f".ordered({self.leading})")

    def __reduce_ex__(self, protocol: Any) -> Any:
        return _ordered, (self.of, self.leading)

    def ordered(self, leading: int) -> TangentKernel:
        """Return it with other places of the tangents.

        Parameters
        ----------
        leading : int
            How many of the kernel's parameters stand before the first tangents, which are theirs; the tangents of the
            others stand last. With the number of inputs, the inputs and their tangents stand before the outputs.

        Returns
        -------
        TangentKernel
            The same one for the same number.

        Raises
        ------
        MisuseError
            If the kernel has fewer parameters.
        """
        count = len(self.of.parameters)
        if not 0 <= leading <= count:
            raise MisuseError(
                f"{self.of.name} has {count} parameters, so {leading} of them cannot stand before their tangents",
                remedy=f"give a number from 0 to {count}",
            )
        if leading == self.leading:
            return self
        # The usual order is that of Kernel.jvp, whose programs are shared.
        if leading == count:
            return self.of.jvp  # type: ignore[return-value]  # what Kernel.jvp makes
        usual: Any = self.of.jvp
        made: TangentKernel = usual._others.get(leading) or usual._others.setdefault(
            leading, TangentKernel(self.of, leading)
        )
        return made

    @cached_property
    def with_tangents(self) -> tuple[int, ...]:
        """The parameters of the kernel that have tangents."""
        return tuple(k for k, p in enumerate(self.of.parameters) if _can_vary(p.annotation))

    @property
    def layer(self) -> JvpLayer:
        """The layer of forward mode."""
        return self.along

    @cached_property
    def along(self) -> JvpLayer:
        """The parameters that have tangents, and the positions of these."""
        return JvpLayer(self.with_tangents, self.leading)

    @cached_property
    def parameters(self) -> tuple[Parameter, ...]:
        """The parameters of the kernel, and the tangents."""
        own = [(p.name, p.annotation) for p in self.of.parameters]
        tangents = []
        taken = {name for name, _ in own}
        for k in self.with_tangents:
            name, annotation = own[k]
            name = f"t_{name}"
            # A parameter of the kernel may have the name already.
            while name in taken:
                name = f"t{name}"
            taken.add(name)
            tangents.append((name, annotation))
        whole = self.along.joined(own, tangents)
        wraps = self.dialect.integers_wrap
        return tuple(
            Parameter(self.name, k, name, annotation, wraps=wraps) for k, (name, annotation) in enumerate(whole)
        )

    @cached_property
    def _check_generic(self) -> Callable[[Sequence[Argument]], None]:
        """Return the check that each tangent has the type of its primal."""

        def check(types: Sequence[Argument]) -> None:
            own, tangents = self.along.parted(types)
            self.of._check_generic(own)
            _, parameters = self.along.parted(self.parameters)
            for parameter, t, k in zip(parameters, tangents, self.with_tangents, strict=True):
                # Strides may differ: only the type counts.
                if declared(t) != declared(own[k]):
                    raise parameter.error(
                        f"the tangent of {self.of.parameters[k].name!r} is {declared(own[k])}, not {declared(t)}",
                        "pass a tangent of the type of what it belongs to",
                    )

        return check

    @property
    def thread(self) -> Called:
        """None: numba's programs call ``f.jvp`` of a func."""
        raise self._no_thread()

    @property
    def thread_adjoint(self) -> Called:
        """None: numba's programs call ``f.jvp`` of a func."""
        raise self._no_thread()

    def _no_thread(self) -> MisuseError:
        return MisuseError(
            f"one thread of {self.name} cannot be called from programs that numba compiles",
            remedy="write the thread's work as a dk.func f, and call f.jvp there",
        )


def _ordered(of: Kernel, leading: int) -> Any:
    """Rebuild a pickled kernel whose tangents follow its leading arguments."""
    return of.jvp.ordered(leading)  # type: ignore[attr-defined]  # what Kernel.jvp makes


def _can_vary(annotation: Any) -> bool:
    """Return whether a parameter takes arguments that may have tangents."""
    if isinstance(annotation, ArrayAnnotation):
        annotation = annotation.element
    return annotation is None or carries_gradient(annotation)
