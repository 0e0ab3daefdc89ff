"""Warp's modules: named groups of kernels that share options and are compiled ahead of launches.

A :class:`Module` is named after a Python module, or freely. The unit of compilation is the kernel, so a kernel that
cannot be compiled does not affect the others of its module.
"""

from __future__ import annotations

import enum
import itertools
import sys
import weakref
from collections.abc import Iterator, Mapping, MutableMapping
from types import ModuleType
from typing import Any, Final

import numpy as np

from diffkern.contracts.options import names
from diffkern.errors import KernelError, MisuseError, raise_all
from diffkern.kernels.kernel import Kernel
from diffkern.runtime.launch.module_options import module_option, set_options
from diffkern.runtime.memory.device import Device, get_device
from diffkern.runtime.observe.config import config
from diffkern.warp.config import DeterministicMode
from diffkern.warp.fingerprints import digest_of, resolved

__all__ = [
    "Module", "as_native", "check_option", "force_load", "get_module", "get_module_options", "load_module",
    "module_of", "note_options", "registered", "set_module_options",
]  # fmt: skip

_DEFAULTS: Final[Mapping[str, Any]] = {
    "block_dim": 256,
    "compile_time_trace": False,
    "cpu_compiler_flags": None,
    "cuda_output": None,
    "default_grid_stride": None,
    "deterministic": DeterministicMode.NOT_GUARANTEED,
    "deterministic_max_records": 0,
    "enable_backward": True,
    "enable_mathdx_fft": None,
    "enable_mathdx_gemm": None,
    "enable_mathdx_solver": None,
    "extra_build_options": None,
    "fast_math": False,
    "fuse_fp": True,
    "lineinfo": False,
    "max_unroll": 16,
    "mode": None,
    "optimization_level": None,
    "strip_hash": False,
}
"""The options of a module, with what they are until they are set."""

registered: Final[dict[str, Module]] = {}
"""The modules by name."""
_numbers: Final = itertools.count(1)


_BOOLEANS: Final = frozenset(
    {"deterministic", "enable_backward", "enable_mathdx_gemm", "fast_math", "fuse_fp", "lineinfo"}
)
"""Options that are True or False here; Warp's programs give some as numbers and as enumerations."""


def as_native(name: str, value: Any) -> Any:
    """Return the value of an option as diffkern has it."""
    return bool(value) if name in _BOOLEANS and isinstance(value, (int, np.bool_)) else value


def check_option(name: str, value: Any) -> None:
    """Raise unless a module has an option of this name, which can have this value.

    Raises
    ------
    ValueError
        If there is no such option, or the value is out of range.
    TypeError
        If the value is of another type.
    """
    if name not in _DEFAULTS:
        raise ValueError(f"a module has no option {name!r}; it has {', '.join(_DEFAULTS)}")
    if name == "deterministic_max_records":
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
            raise TypeError(f"{name} is a number of records, not {value!r}")
        if value < 0:
            raise ValueError(f"{name} is a number of records, 0 for as many as there are, not {value!r}")


class _Options(MutableMapping[str, Any]):
    """The options of a module by name. What has no meaning here is kept."""

    def __init__(self, module: str) -> None:
        self._module = module
        self._kept: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in _DEFAULTS:
            raise KeyError(name)
        # A kept value is one as the program gave it, for example an enumeration that is a boolean natively.
        if name in self._kept or name not in names("module"):
            return self._kept.get(name, _DEFAULTS[name])
        # Not set on the module: the configuration's value counts, then the default.
        found = module_option(self._module, name)
        return (
            found
            if found is not None
            else bool(config.enable_backward)
            if name == "enable_backward"
            else _DEFAULTS[name]
        )

    def __setitem__(self, name: str, value: Any) -> None:
        check_option(name, value)
        if name in names("module"):
            set_options(self._module, {name: as_native(name, value)})
        # Reading an option gives back the object that was set, so enumerations are kept besides their native value.
        if name not in names("module") or isinstance(value, enum.Enum):
            self._kept[name] = value
        else:
            self._kept.pop(name, None)

    def note(self, options: Mapping[str, Any]) -> None:
        """Keep the options that a kernel was given itself."""
        self._kept.update((name, value) for name, value in options.items() if name in _DEFAULTS)

    def __delitem__(self, name: str) -> None:
        self._kept.pop(name, None)
        # None makes a native option unset; the mapping itself always has all options.
        self[name] = None if name in names("module") else _DEFAULTS[name]

    def __iter__(self) -> Iterator[str]:
        return iter(_DEFAULTS)

    def __len__(self) -> int:
        return len(_DEFAULTS)

    def __repr__(self) -> str:
        return repr(dict(self))


class Module:
    """A group of kernels that share options.

    Parameters
    ----------
    name : str
        The name of a Python module, or any other.

    Attributes
    ----------
    name : str
        As given.
    options : mapping
        Options by name; may be changed. Those that have no meaning here are kept.
    kernels : mapping
        The kernels by name, of several with one name the last.
    execs : mapping
        What it was loaded for: None for the CPU and the threads of a block, and itself.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.options: MutableMapping[str, Any] = _Options(name)
        self.kernels: dict[str, Kernel] = {}
        self.execs: dict[tuple[None, int], Module] = {}
        self._tried: weakref.WeakSet[Kernel] = weakref.WeakSet()

    def load(self, device: Any = None, block_dim: int | None = None) -> Module:
        """Compile its kernels whose parameters are annotated; what cannot be compiled fails when it is launched.

        Parameters
        ----------
        device : optional
            The device that they will run on: kernels for a GPU are compiled when they are launched.
        block_dim : int, optional
            Accepted; it has no effect.

        Returns
        -------
        Module
        """
        self._compile(device, block_dim)
        return self

    def _compile(self, device: Any, block_dim: int | None = None) -> list[KernelError]:
        # Here, as importing the build takes time that programs which only launch do not need.
        from diffkern.shipping.ahead import compile_kernels, is_annotated

        errors: list[KernelError] = []
        # Kernels for a GPU are compiled at their first launch, whose block size they depend on.
        if get_device(device).is_cuda:
            return errors
        self.execs[None, block_dim or self.options["block_dim"]] = self
        # A copy of the values, as compiling may define instances of generic kernels.
        for kernel in list(self.kernels.values()):
            if kernel in self._tried:
                continue
            # Noted before it is compiled: a kernel that fails is not tried at each load, but fails when it is launched.
            self._tried.add(kernel)
            try:
                # Generic kernels have no types before their first launch. Adjoints are compiled when a tape asks for
                # them.
                if is_annotated(kernel):
                    compile_kernels(kernel, adjoint=False)
            except KernelError as error:
                errors.append(error)
        return errors

    def unload(self) -> None:
        """Forget the programs of its kernels: they are loaded again when they are launched."""
        self._tried.clear()
        self.execs.clear()
        for kernel in list(self.kernels.values()):
            kernel.forget_programs()

    def hash_module(self) -> bytes:
        """Return bytes that are the same as long as its kernels, what they capture, and its options are.

        They are the same in each process. They change with the text of a kernel and of what it calls, with the values
        of constants, and with options; not with the place of a text.
        """
        return digest_of(self, None)

    def get_module_hash(self, block_dim: int | None = None) -> bytes:
        """Return the bytes of :meth:`hash_module` for a number of threads of a block.

        Parameters
        ----------
        block_dim : int, optional
            The number; that of the module's options by default.
        """
        return digest_of(self, block_dim)

    def resolve_options(self, configured: Any, block_dim: int | None = None) -> dict[str, Any]:
        """Return its options, with those of a configuration where it has none of its own.

        Parameters
        ----------
        configured
            The configuration, as ``wp.config``.
        block_dim : int, optional
            Threads of a block; that of the options by default.
        """
        return resolved(self.options, configured, block_dim)

    def mark_modified(self) -> None:
        """Make its kernels load their programs again at the next launch."""
        self.unload()

    def __repr__(self) -> str:
        return f"<wp.Module {self.name}>"


def note_options(module: Module, options: Mapping[str, Any]) -> None:
    """Let the module of a single kernel show the options that the kernel was given."""
    assert isinstance(module.options, _Options)
    module.options.note(options)


def get_module(name: str) -> Module:
    """Return the module of a name, which is made if there is none.

    Parameters
    ----------
    name : str
        The name of a Python module, or any other.
    """
    found = registered.get(name)
    if found is None:
        found = registered[name] = Module(name)
    return found


def module_of(function: Any, given: Module | ModuleType | str | None) -> Module:
    """Return the module that a kernel gets for what its decorator was given: "unique" is one of its own."""
    if isinstance(given, Module):
        return given
    if given == "unique":
        # Not registered: its options concern one kernel only, and its name can never be asked for.
        return Module(f"{function.__module__}.{function.__qualname__}.{next(_numbers)}")
    return get_module(_name_of(given) if given is not None else function.__module__)


def _name_of(given: Module | ModuleType | str) -> str:
    if isinstance(given, str):
        return given
    if not isinstance(given, (Module, ModuleType)):
        raise MisuseError(
            f"a module, or the name of one, is needed here, not {given!r}",
            remedy="import the module first, and pass it",
        )
    return given.name if isinstance(given, Module) else given.__name__


def load_module(
    module: Module | ModuleType | str | None = None,
    device: Device | str | list[Any] | None = None,
    recursive: bool = False,
    block_dim: int | None = None,
    max_workers: int | None = None,
) -> None:
    """Compile the kernels of a module whose parameters are annotated.

    Parameters
    ----------
    module : Module, module or str, optional
        The module or its name; the caller's by default.
    device : optional
        The device that they will run on, or a list; all by default. Kernels for a GPU are compiled when launched.
    recursive : bool, optional
        Whether the modules below it are loaded as well.
    block_dim, max_workers : int, optional
        Accepted; they have no effect.

    Raises
    ------
    KernelError
        If a kernel cannot be compiled; the others are compiled all the same.
    """
    # The frame of the caller, so this must stay in the public function itself.
    name = str(sys._getframe(1).f_globals["__name__"]) if module is None else _name_of(module)
    found = [module] if isinstance(module, Module) else [get_module(name)]
    if recursive:
        found += [m for key, m in list(registered.items()) if key.startswith(name + ".")]
    _load(device, found)


def force_load(
    device: Device | str | list[Any] | None = None,
    modules: list[Module] | None = None,
    block_dim: int | None = None,
    max_workers: int | None = None,
) -> None:
    """Compile the kernels of modules whose parameters are annotated.

    Parameters
    ----------
    device : optional
        The device that they will run on, or a list; all by default. Kernels for a GPU are compiled when launched.
    modules : list of Module, optional
        The modules; all by default.
    block_dim, max_workers : int, optional
        Accepted; they have no effect.

    Raises
    ------
    KernelError
        If a kernel cannot be compiled; the others are compiled all the same.
    """
    _load(device, list(registered.values()) if modules is None else modules)


def _load(device: Any, modules: list[Module]) -> None:
    devices = list(device) if isinstance(device, (list, tuple)) else ["cpu" if device is None else device]
    # All kernels are compiled before the first error is raised.
    raise_all([error for module in modules for one in devices for error in module._compile(one)])


def set_module_options(options: Mapping[str, Any], module: Any = None) -> None:
    """Set options of all kernels of a module, those it has and those it will have.

    Parameters
    ----------
    options : mapping
        Options by name. ``enable_backward``, ``mode`` and ``enable_mathdx_gemm`` have an effect, the others are kept.
    module : Module, module or str, optional
        The module or its name; the caller's by default.

    Raises
    ------
    ValueError
        If there is no such option, or its value is none that it has.
    """
    name = str(sys._getframe(1).f_globals["__name__"]) if module is None else _name_of(module)
    chosen = module if isinstance(module, Module) else get_module(name)
    # All are checked before the first is set, so that an error changes nothing.
    for key, value in options.items():
        check_option(key, value)
    chosen.options.update(options)


def get_module_options(module: Any = None) -> dict[str, Any]:
    """Return the options of a module.

    Parameters
    ----------
    module : Module, module or str, optional
        The module or its name; the caller's by default.

    Returns
    -------
    dict
        All options by name.
    """
    name = str(sys._getframe(1).f_globals["__name__"]) if module is None else _name_of(module)
    return dict((module if isinstance(module, Module) else get_module(name)).options)
