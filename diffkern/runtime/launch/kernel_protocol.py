"""The interface of kernels to the launch path, and the errors for objects that are no kernels."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from diffkern.contracts.options import PLAIN, AdjointForm, LogKind, Merged
from diffkern.errors import Loc, MisuseError
from diffkern.lang.dialects import Dialect
from diffkern.runtime.launch.arguments import Parameter
from diffkern.runtime.launch.kernel_version import KernelVersion
from diffkern.runtime.launch.program import Executable

__all__ = ["KernelProtocol", "check_kernel", "refusal"]


class KernelProtocol(Protocol):
    """The properties and programs of a kernel that the launch path needs."""

    @property
    def name(self) -> str: ...

    @property
    def func(self) -> Callable[..., Any]: ...

    @property
    def dialect(self) -> Dialect: ...

    @property
    def parameters(self) -> Sequence[Parameter]: ...

    @property
    def enable_backward(self) -> bool: ...

    @property
    def race_free(self) -> bool: ...

    @property
    def log_searches(self) -> bool: ...

    @property
    def programs(self) -> Mapping[tuple[str, ...], Executable]:
        """Forward programs by the keys of the argument types."""
        ...

    def generation(self) -> int:
        """Return a number that grows when something the kernel captured changed; programs are current after it."""
        ...

    def current(self) -> KernelVersion:
        """Return the kernel's present generation."""
        ...

    def forward(
        self, keys: tuple[str, ...], block_dim: int | None = None, of: KernelVersion | None = None
    ) -> Executable:
        """Return the forward program for argument types, built if need be; without `block_dim` for the usual one."""
        ...

    def merged_forward(
        self,
        keys: tuple[str, ...],
        merged: Merged,
        block_dim: int | None = None,
        of: KernelVersion | None = None,
    ) -> Executable:
        """Return the forward program for launches that give several parameters one array, built if need be.

        `merged` are parameters that are given the array of another one, each with that one.
        """
        ...

    def check_types(self, keys: tuple[str, ...]) -> None:
        """Raise unless arguments of these types may be passed; nothing is built."""
        ...

    def logged(
        self,
        keys: tuple[str, ...],
        log: LogKind,
        active: tuple[int, ...] | None,
        block_dim: int | None = None,
        of: KernelVersion | None = None,
        merged: Merged = (),
        stamped: bool = False,
    ) -> Executable:
        """Return the forward program that writes a log, counts its slots, or stamps elements of arrays."""
        ...

    def update_of_all_threads(self, program: Executable) -> Loc | None:
        """Return the place where all threads of a program change one element that they have read, or None."""
        ...

    def adjoint(
        self,
        keys: tuple[str, ...],
        active: frozenset[int],
        form: AdjointForm = PLAIN,
        block_dim: int | None = None,
        of: KernelVersion | None = None,
        merged: Merged = (),
    ) -> Executable:
        """Return an adjoint program for argument types and active parameters, built if need be.

        `merged` are parameters that are given the array of another one, each with that one.
        """
        ...


def check_kernel(obj: Any) -> None:
    """Raise if an object is no kernel."""
    refused = refusal(obj)
    if refused is not None:
        raise refused


def refusal(obj: Any) -> MisuseError | None:
    """Return the error for an object that is no kernel, None for a kernel."""
    try:
        if hasattr(obj, "programs"):
            return None
    except Exception:  # of an attribute that is computed
        obj = type(obj)
    name = getattr(obj, "__name__", None)
    what = f"{name} ({type(obj).__name__})" if isinstance(name, str) else f"a value of type {type(obj).__name__}"
    return MisuseError(f"{what} is no kernel, so it cannot be launched", remedy="decorate a function with @dk.kernel")
