"""The hash of a module's programs: :meth:`Module.hash_module`.

The hash covers the kernels of a module and its options. It is a SHA-256, which is the same in each process as long as
sources, constants, functions, types and options are. The position of a kernel in its file does not count.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from diffkern.cache.key import key
from diffkern.errors import KernelError
from diffkern.frontend.syntax.canonical import fingerprint
from diffkern.warp import config

if TYPE_CHECKING:
    from diffkern.warp.modules import Module

__all__ = ["digest_of", "resolved"]

_OF_CONFIG: Final = ("mode", "optimization_level", "fast_math", "max_unroll", "lineinfo")
"""Options of a module that are those of the configuration where they are None."""


def resolved(options: Mapping[str, Any], configured: Any, block_dim: int | None) -> dict[str, Any]:
    """Return the options of a module, with those of a configuration for the options that the module leaves at None."""
    found = dict(options)
    for name in _OF_CONFIG:
        if found[name] is None:
            found[name] = getattr(configured, name, None)
    if block_dim is not None:
        found["block_dim"] = block_dim
    return found


def digest_of(module: Module, block_dim: int | None) -> bytes:
    """Return the hash of a module's programs."""
    return bytes.fromhex(key([*_of_options(module, block_dim), *_of_kernels(module)]))


def _of_options(module: Module, block_dim: int | None) -> Iterator[tuple[str, bytes]]:
    # A setting of the configuration counts where a module leaves an option open, so it is part of the hash.
    configured: Any = config  # whose settings are attributes of the module that stands in its place
    options = resolved(module.options, configured, block_dim)
    yield from ((name, repr(options[name]).encode()) for name in sorted(options))
    yield "verify_fp", repr(bool(configured.verify_fp)).encode()


def _of_kernels(module: Module) -> Iterator[tuple[str, bytes]]:
    # In the order of names: that of declarations may differ from run to run.
    for name, kernel in sorted(module.kernels.items()):
        yield "kernel", name.encode()
        # Overloads are programs of the module too.
        for one in (kernel, *getattr(kernel, "overloads", {}).values()):
            given: Mapping[str, Any] = getattr(one, "given", {})
            yield from ((option, repr(given[option]).encode()) for option in sorted(given))
            try:
                yield from fingerprint(one.func)
            except KernelError as error:  # the launch reports it
                yield "error", str(error).encode()
