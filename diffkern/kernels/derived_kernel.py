"""A kernel derived from another one: the same source, compiled with a transformation applied.

It has other parameters, and follows every later change of the kernel that it is derived from. It is a kernel like any
other: launched, recorded, compiled ahead of time, differentiated in either mode. :class:`BatchedKernel` has an axis of
examples more (the ``vmap`` of a kernel), :class:`TangentKernel` takes tangents (``kernel.jvp``).
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

from diffkern.contracts.manifest import Manifest
from diffkern.contracts.options import JvpLayer, Variant, VmapLayer
from diffkern.errors import MisuseError
from diffkern.ir.structs import Argument, carries_gradient, declared
from diffkern.ir.types import Array, Mat, Scalar, Vec
from diffkern.kernels.kernel import Kernel
from diffkern.lang.annotations import ArrayAnnotation
from diffkern.lang.called import Called
from diffkern.process.forks import cached_property
from diffkern.runtime.arrays.type_keys import is_long, key_of_long, register_type, type_of_key
from diffkern.runtime.launch.arguments import Parameter
from diffkern.runtime.launch.kernel_version import KernelVersion

__all__ = ["BatchedKernel", "BatchedLaunch", "DerivedKernel", "TangentKernel", "batched", "batched_launch"]


class DerivedKernel(Kernel):
    """A kernel derived from another one by a transformation.

    Attributes
    ----------
    of : Kernel
        The kernel that it is derived from.
    """

    def __init__(self, of: Kernel, suffix: str) -> None:
        self.of: Final = of
        self.dialect = of.dialect  # that of the kernel, whose text it is
        self._begin(of.func, of.options, f"{of.name}.{suffix}")

    def _take_over(self, of: DerivedKernel) -> None:
        raise MisuseError(
            f"{of.name} follows the kernel that it is derived from, with its options",
            remedy="give the options to that kernel, and derive this one from it",
        )

    @property
    @abstractmethod
    def layer(self) -> JvpLayer | VmapLayer:
        """The transformation that is applied."""

    @property
    def variant(self) -> Variant:
        """The forward program for the CPU, with the current options and ``dk.config``."""
        # Asked of the other kernel each time, so that its options and settings count as they are now.
        given = self.of.variant
        return replace(given, layers=(*given.layers, self.layer))

    def meant(self, of: KernelVersion) -> KernelVersion:
        """Return what it means where the kernel means, or meant, that."""
        # A launch on a tape may be of an earlier meaning of the other kernel, whose derivative is then made of that
        # meaning.
        if of is self.of.current():
            return self.current()
        made = KernelVersion(of.number, replace(of.variant, layers=(*of.variant.layers, self.layer)), of.library)
        made.meaning, made.function = of.meaning, self.of.function_of(of)
        return made

    @property
    @abstractmethod
    def _for_one_thread(self) -> str:
        """The way for a program that numba compiles."""

    @property
    def thread(self) -> Called:
        """None: numba's programs call a thread of the kernel, or ``f.jvp`` of a func."""
        raise self._no_thread()

    @property
    def thread_adjoint(self) -> Called:
        """None, as `thread`."""
        raise self._no_thread()

    def _no_thread(self) -> MisuseError:
        said = f"one thread of {self.name} cannot be called from programs that numba compiles"
        return MisuseError(said, remedy=self._for_one_thread)


# -- batches -----------------------------------------------------------------------------------------------------------

# Most axes of a launch; the axis of examples takes one of them.
_AXES = 4
_BLOCK_AXES = 3  # most axes where threads work together


class BatchedKernel(DerivedKernel):
    """A kernel with an axis of examples; made by :func:`batched`."""

    def __init__(self, of: Kernel, batch: VmapLayer) -> None:
        self._batch: Final = batch
        super().__init__(of, "batch")

    @property
    def layer(self) -> VmapLayer:
        """The layer that adds the axis of examples."""
        return self._batch

    def __repr__(self) -> str:
        return f"<{self.of!r} for batches of {', '.join(self.of.parameters[k].name for k in self.layer.arguments)}>"

    def __reduce_ex__(self, protocol: Any) -> Any:
        return batched, (self.of, self.layer)

    @cached_property
    def parameters(self) -> tuple[Parameter, ...]:
        """The parameters of the kernel; what differs from example to example has an axis more."""
        wider = frozenset(self.layer.arguments)
        return tuple(
            Parameter(
                self.name,
                p.index,
                p.name,
                _with_axis(p.annotation) if p.index in wider else p.annotation,
                wraps=p.wraps,
            )
            for p in self.of.parameters
        )

    @cached_property
    def _check_generic(self) -> Callable[[Sequence[Argument]], None]:
        """Return the check of argument types of one example against generic parameters."""
        return lambda types: self.of._check_generic(self.layer.own(types))

    @property
    def _for_one_thread(self) -> str:
        return f"call {self.of.name}.thread with one example"


def batched(kernel: Kernel, batch: VmapLayer) -> BatchedKernel:
    """Return a kernel with an axis of examples: the same one for the same arguments."""
    # setdefault is atomic, so that two threads get the same kernel.
    made = kernel.batches.get(batch) or kernel.batches.setdefault(batch, BatchedKernel(kernel, batch))
    assert isinstance(made, BatchedKernel)
    return made


class BatchedLaunch(NamedTuple):
    """A launch for a batch.

    Attributes
    ----------
    kernel
        The kernel that is launched.
    keys
        Types of the arguments.
    dims
        The launch's dimensions.
    """

    kernel: BatchedKernel
    keys: tuple[str, ...]
    dims: tuple[int, ...]


def batched_launch(
    kernel: Kernel,
    keys: Sequence[str],
    manifest: Manifest,
    dims: Sequence[int],
    size: int,
    arguments: Sequence[int],
) -> BatchedLaunch | None:
    """Return the launch that does what a launch for each example does; None where there is no such form.

    Parameters
    ----------
    kernel : Kernel
        The kernel that would be launched for each example.
    keys : sequence of str
        Types of the arguments of one example.
    manifest : Manifest
        The facts about the forward program for one example.
    dims : sequence of int
        The dimensions of the launch for one example.
    size : int
        The number of examples.
    arguments : sequence of int
        The arguments that differ from example to example, in order; those that are written are among them.
    """
    types = [type_of_key(key) for key in keys]
    # Fields of structs have no axis of their own that could be added.
    plain = all(isinstance(t, (Array, Scalar, Vec, Mat)) for t in types)
    differ = not any(isinstance(t, Array) and t.is_null for t in (types[k] for k in arguments))
    variant = kernel.variant
    if not (size and arguments and plain and differ) or variant.is_debug or variant.layout is not None:
        return None
    # Examples that write to a shared array would race, and what is printed would name the wrong threads.
    if manifest.outputs or not set(manifest.writes) <= set(arguments):
        return None
    # Blocks lie along the last axes, and leave no axis for the examples.
    if manifest.blockwise and manifest.tid_arity >= _BLOCK_AXES:
        return None
    threads = math.prod(dims)
    # A kernel that asks for no index runs once for each example.
    single = manifest.tid_arity == 0 and threads <= 1
    batch = VmapLayer(tuple(arguments), tuple(k for k in arguments if not isinstance(types[k], Array)), single)
    if single:
        grid: tuple[int, ...] = (size,)
    elif manifest.tid_arity == 0:
        grid = size, threads
    else:
        # With four axes the examples share the first one: the kernel divides by its extent.
        grid = (size, *dims) if len(dims) < _AXES else (size * dims[0], *dims[1:])
    made = [_wider(key) if k in arguments else key for k, key in enumerate(keys)]
    return BatchedLaunch(batched(kernel, batch), tuple(made), grid)


def _wider(key: str) -> str:
    """The type of an argument that differs, from that of one example."""
    t = type_of_key(key)
    assert isinstance(t, (Array, Scalar, Vec, Mat))
    wider = register_type(replace(t, ndim=t.ndim + 1) if isinstance(t, Array) else Array(t, 1))
    # An extent that does not fit int32 stays one with another axis.
    return key_of_long(wider) if is_long(key) else wider


def _with_axis(annotation: Any) -> Any:
    if annotation is None:
        return None
    if isinstance(annotation, ArrayAnnotation):
        return ArrayAnnotation(annotation.element, annotation.ndim + 1, annotation.kinds, annotation.indexed)
    return ArrayAnnotation(annotation, 1)


# -- tangents ----------------------------------------------------------------------------------------------------------


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
    def _for_one_thread(self) -> str:
        return "write the thread's work as a dk.func f, and call f.jvp there"


def _ordered(of: Kernel, leading: int) -> Any:
    """Rebuild a pickled kernel whose tangents follow its leading arguments."""
    return of.jvp.ordered(leading)  # type: ignore[attr-defined]  # what Kernel.jvp makes


def _can_vary(annotation: Any) -> bool:
    """Return whether a parameter takes arguments that may have tangents."""
    if isinstance(annotation, ArrayAnnotation):
        annotation = annotation.element
    return annotation is None or carries_gradient(annotation)
