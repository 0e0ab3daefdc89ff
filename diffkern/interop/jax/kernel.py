"""``dk.jax_kernel``: a kernel as a differentiable JAX function, which is one launch.

In: a kernel, which of its parameters are outputs, launch dims. Out: a function of JAX arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from diffkern.errors import LaunchError, MisuseError
from diffkern.interop.jax import programs
from diffkern.interop.jax.arguments import outputs_of, passed, signature_of
from diffkern.interop.jax.derivative import LaunchFunction
from diffkern.interop.jax.dispatch import is_static
from diffkern.interop.jax.function import UNSET, JaxFunction
from diffkern.kernel import Kernel
from diffkern.runtime.grid_checks import check_alone, check_axes, check_extents, named

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
            raise MisuseError(f"dk.jax_kernel takes a kernel made by @dk.kernel, not {kernel!r}")
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

    def __call__(
        self, *args: Any, launch_dims: Any = UNSET, output_dims: Any = UNSET, vmap_method: Any = UNSET
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
        before, self._meant = self._meant, self.kernel.current()
        return before is not self._meant

    def _trace(self, launch_dims: Any, output_dims: Any, vmap_method: str, *args: Any) -> tuple[Any, ...]:
        run = self.launch(args, launch_dims, output_dims, vmap_method)
        self._check(run)
        return run()

    def launch(self, args: Sequence[Any], launch_dims: Any, output_dims: Any, vmap_method: str) -> LaunchFunction:
        """Return the launch for these arguments."""
        kernel, spec = self.kernel, self.signature.spec
        given = passed(self.signature, args)
        if callable(launch_dims):
            launch_dims = launch_dims(*(a.value for a in given))
        shapes = {a.index: a.extents for a in given if a.is_array}
        dims = spec.dims(shapes, None if launch_dims is None else spec.checked_dims(launch_dims, "launch_dims"))
        arguments = [*given, *outputs_of(self.signature, dims, output_dims)]
        return LaunchFunction(kernel, kernel.current(), arguments, dims, vmap_method, self.enable_backward)

    def _check(self, run: LaunchFunction) -> None:
        """Refuse a launch whose dims do not fit the kernel and its arrays, as far as they are known."""
        manifest = programs.forward(self.kernel, run.generation, run.keys).plain.manifest
        shapes = {a.index: a.extents for a in run.arguments if a.is_array}
        names = [p.name for p in self.signature.parameters]
        try:
            check_axes(manifest.tid_arity, run.dims)
            if is_static(run.dims):
                check_alone(manifest, run.dims)
                known = {k for k, shape in shapes.items() if is_static(shape)}
                entries = [entry for entry in manifest.accesses if {k for k, _ in entry.shapes} <= known]
                check_extents(entries, names, run.dims, shapes)
        except LaunchError as error:
            raise named(self.kernel.name, error) from None
