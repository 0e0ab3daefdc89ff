"""``dk.jax_kernel``: a kernel as a differentiable JAX function, which is one launch.

It is made from a kernel, the division of its parameters into inputs and outputs, and launch dims.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from diffkern.contracts.manifest import Manifest
from diffkern.errors import LaunchError, MisuseError
from diffkern.interop.jax import programs
from diffkern.interop.jax.arguments import outputs_of, passed, returned, signature_of
from diffkern.interop.jax.derivative import ResultsOfLaunch
from diffkern.interop.jax.dispatch import is_static
from diffkern.interop.jax.function import JaxFunction
from diffkern.interop.jax.launch import LaunchFunction
from diffkern.interop.jax.primitive import apply
from diffkern.interop.spec import resolved
from diffkern.kernels.kernel import Kernel
from diffkern.process.tracebacks import brief
from diffkern.runtime.launch.grid_checks import check_alone, check_axes, check_extents, named
from diffkern.runtime.launch.schedule import check_whole_blocks

__all__ = ["JaxKernel"]


class JaxKernel(JaxFunction):
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
    ) -> None:
        if not isinstance(kernel, Kernel):
            raise MisuseError(
                f"dk.jax_kernel takes a kernel made by @dk.kernel, not {kernel!r}",
                remedy="decorate the function with @dk.kernel, or take dk.jax_callable(function)",
            )
        self._given = kernel, num_outputs, launch_dims, output_dims, in_out_argnames, vmap_method, enable_backward
        self.kernel = kernel
        signature = signature_of("dk.jax_kernel", kernel, num_outputs, in_out_argnames)
        backward = enable_backward and kernel.enable_backward
        super().__init__(kernel.func, signature, launch_dims, output_dims, vmap_method, backward)
        # What the kernel meant when the functions were compiled.
        self._meant: Any = None

    def __reduce__(self) -> tuple[Any, ...]:
        return JaxKernel, self._given

    def __repr__(self) -> str:
        return f"<dk.jax_kernel of {self.kernel.name}>"

    @brief
    def __call__(
        self, *args: Any, launch_dims: Any = None, output_dims: Any = None, vmap_method: str | None = None
    ) -> tuple[Any, ...]:
        """Return the outputs: in-out arguments first, then pure outputs.

        Parameters
        ----------
        *args
            The inputs and in-out arguments, in the order of the kernel's parameters.
        launch_dims, output_dims, vmap_method : optional
            Other values for this call than the function was made with.
        """
        return self._run(args, launch_dims, output_dims, vmap_method)

    def _has_changed(self) -> bool:
        # One object stands for each meaning of the kernel: identity tells whether it was redefined.
        before, self._meant = self._meant, self.kernel.current()
        return before is not self._meant

    def _trace(self, launch_dims: Any, output_dims: Any, vmap_method: str, *args: Any) -> tuple[Any, ...]:
        run, values = self.launch(args, launch_dims, output_dims, vmap_method)
        # While JAX traces, so that the error has the user's line; native code could only fail the whole program.
        self._check(run)
        return returned(self.signature, apply(ResultsOfLaunch(run), values))

    def launch(
        self, args: Sequence[Any], launch_dims: Any, output_dims: Any, vmap_method: str
    ) -> tuple[LaunchFunction, list[Any]]:
        """Return the launch for these arguments, and the values of its inputs."""
        kernel, spec = self.kernel, self.signature.spec
        given = passed(self.signature, args)
        launch_dims, output_dims = (resolved(d, [a.value for a in given]) for d in (launch_dims, output_dims))
        shapes = {a.index: a.extents for a in given if a.is_array}
        dims = spec.dims(shapes, None if launch_dims is None else spec.checked_dims(launch_dims, "launch_dims"))
        arguments = [*given, *outputs_of(self.signature, dims, shapes, output_dims)]
        run = LaunchFunction(kernel, kernel.current(), arguments, dims, vmap_method, self.enable_backward)
        return run, [a.value for a in given]

    def _check(self, run: LaunchFunction) -> None:
        """Refuse a launch whose dims do not fit the kernel and its arrays, as far as they are known."""
        manifest = programs.forward(self.kernel, run.generation, run.keys).plain.manifest
        shapes = {a.index: a.extents for a in run.arguments if a.is_array}
        names = [p.name for p in self.signature.parameters]
        try:
            _check_writes(manifest, run, names)
            check_axes(manifest.tid_arity, run.dims)
            if manifest.blockwise:
                _check_blocks(manifest, run.dims, self.kernel.block_dim)
            if is_static(run.dims):
                check_alone(manifest, run.dims)
                # Symbolic extents are known only when the exported program runs.
                known = {k for k, shape in shapes.items() if is_static(shape)}
                entries = [entry for entry in manifest.accesses if {k for k, _ in entry.shapes} <= known]
                check_extents(entries, names, run.dims, shapes)
        except LaunchError as error:
            raise named(self.kernel.name, error) from None


def _check_writes(manifest: Manifest, run: LaunchFunction, names: Sequence[str]) -> None:
    """Refuse a kernel that writes to an array that JAX takes to be unchanged."""
    returned = {a.index for a in run.results}
    lost = [names[k] for k in manifest.writes if k not in returned]
    if lost:
        raise LaunchError(
            f"it writes to {lost[0]!r}, which is passed and not returned, and JAX's arrays do not change",
            remedy="name it in in_out_argnames, and count it in num_outputs; it is returned then",
        )


def _check_blocks(manifest: Manifest, dims: Sequence[Any], block_dim: int) -> None:
    """Refuse a launch of threads that work together in blocks, and that is not whole blocks."""
    if not is_static(dims):
        raise LaunchError(
            "its threads work together in blocks, and whether symbolic launch dims are whole blocks is not known",
            remedy="give the launch dims as numbers",
        )
    try:
        check_whole_blocks(tuple(dims), manifest.tid_arity, block_dim)
    except ValueError as error:
        raise LaunchError(
            str(error), remedy="give the kernel another block_dim, or launch_dims of whole blocks"
        ) from None
