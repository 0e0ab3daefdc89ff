"""Modules that older releases of Warp had, such as ``wp.torch`` and ``wp.context``, and that published programs import.

Their names are names of ``wp`` today. A module of which nothing else is to be said has no file: it stands in a table
here, and is in ``sys.modules``, where ``import`` finds it. Asking for one of its names warns and gives today's object.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from importlib.machinery import ModuleSpec
from types import MappingProxyType, ModuleType
from typing import Any, Final

__all__ = ["OLDER", "Alias", "StructInstance", "install"]

_EXCHANGE: Final = "device_from_{0} device_to_{0} dtype_from_{0} dtype_to_{0} from_{0} to_{0}"

_JAX: Final = "JaxCallableGraphMode=GraphMode clear_jax_callable_graph_cache jax_callable jax_kernel"

OLDER: Final[Mapping[str, str]] = MappingProxyType({
    "codegen": "StructInstance",
    "constants": "E HALF_PI INF LN10 LN2 LOG10E LOG2E NAN PHI PI TAU constant e half_pi inf ln10 ln2 log10e log2e "
    "nan phi pi tau",
    "context": "Device DeviceLike DeviceLike=Devicelike Event Function Graph Kernel Module Stream copy empty "
    "empty_like from_numpy full full_like get_device get_module is_cpu_available is_cuda_available launch ones "
    "synchronize synchronize_device zeros zeros_like",
    "dlpack": "from_dlpack to_dlpack",
    "jax": _EXCHANGE.format("jax"),
    "jax_experimental": _JAX,
    "jax_experimental.custom_call": "jax_kernel",
    "jax_experimental.ffi": _JAX,
    "tape": "Tape",
    "torch": _EXCHANGE.format("torch") + " stream_from_torch stream_to_torch",
})  # fmt: skip
"""The modules, with their names as those of ``wp``; ``now=then`` where a name has changed."""


class Alias(ModuleType):
    """A module without a file, whose names a function looks up.

    Parameters
    ----------
    name
        The whole name of the module, under which ``import`` will find it.
    find
        Returns the object of a name, or raises AttributeError; its docstring becomes that of the module.
    """

    def __init__(self, name: str, find: Callable[[str], Any]) -> None:
        super().__init__(name, find.__doc__)
        self.__spec__ = ModuleSpec(name, None)
        self._find = find
        sys.modules[name] = self

    def __getattr__(self, name: str) -> Any:
        # Python itself asks for names such as __path__, which are not those of the other module.
        if name.startswith("__") and name != "__all__":
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        return self._find(name)

    def __dir__(self) -> list[str]:
        return list(getattr(self, "__all__", ()))


class _Struct(type):
    def __instancecheck__(cls, value: Any) -> bool:
        kinds = importlib.import_module("diffkern.warp.kinds")
        return bool(kinds.is_struct(value))


class StructInstance(metaclass=_Struct):
    """The class that ``isinstance`` takes for the values of all structs."""


def _older(module: str, names: str) -> Alias:
    """Make the module of an older release."""
    now = {then or name: name for name, _, then in (entry.partition("=") for entry in names.split())}
    place = f"wp.{module}"

    def find(name: str) -> Any:
        if name == "__all__":
            return sorted(now)
        if name not in now:
            raise AttributeError(f"{place}, a module of older releases of Warp, has no {name!r} in diffkern.warp")
        if name == "StructInstance":
            return StructInstance
        wp = importlib.import_module("diffkern.warp")
        loggers = importlib.import_module("diffkern.warp.loggers")
        message = f"{place}.{name} is a name of older releases of Warp. Use wp.{now[name]} instead."
        # A caller sees its own line: above this function and the module's __getattr__.
        loggers.log_warning(message, DeprecationWarning, stacklevel=3)
        return getattr(wp, now[name])

    find.__doc__ = f"``{place}`` of older releases of Warp: names that ``wp`` itself has today."
    made = Alias(f"diffkern.warp.{module}", find)
    if any(other.startswith(f"{module}.") for other in OLDER):
        made.__path__ = []  # a package: what is below it is in this table, too
    return made


def install() -> Mapping[str, Alias]:
    """Put the modules where ``import`` finds them, and return those at the top by name."""
    made = {module: _older(module, names) for module, names in OLDER.items()}
    for module, alias in made.items():
        package, _, name = module.rpartition(".")
        if package:
            setattr(made[package], name, alias)
    return {module: alias for module, alias in made.items() if "." not in module}
