"""A kernel with an additional leading axis of examples: the ``vmap`` of a kernel.

It is made of a kernel and the arguments that differ from example to example, and one launch of it does the work of a
launch of the kernel for each example. It is a kernel like any other: launched, compiled, differentiated.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

from diffkern.contracts.manifest import Manifest
from diffkern.contracts.options import VmapLayer
from diffkern.errors import MisuseError
from diffkern.ir.structs import Argument
from diffkern.ir.types import Array, Mat, Scalar, Vec
from diffkern.kernels.derived_kernel import DerivedKernel
from diffkern.kernels.kernel import Kernel
from diffkern.lang.annotations import ArrayAnnotation
from diffkern.lang.called import Called
from diffkern.process.forks import cached_property
from diffkern.runtime.arrays.type_keys import is_long, key_of_long, register_type, type_of_key
from diffkern.runtime.launch.arguments import Parameter

__all__ = ["BatchedKernel", "BatchedLaunch", "batched", "batched_launch"]

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
    def thread(self) -> Called:
        """None: numba's programs call a thread of the kernel."""
        raise self._no_thread()

    @property
    def thread_adjoint(self) -> Called:
        """None: numba's programs call a thread of the kernel."""
        raise self._no_thread()

    def _no_thread(self) -> MisuseError:
        return MisuseError(
            f"one thread of {self.name} cannot be called from programs that numba compiles",
            remedy=f"call {self.of.name}.thread with one example",
        )


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
