"""A user's file and its kernels, for the commands that name one.

The functions take a path and return the imported module and the kernels in it, or raise :class:`UsageError`.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

from diffkern.errors import KernelError
from diffkern.kernels.kernel import Kernel

__all__ = ["UsageError", "find_kernel", "import_file", "kernels_of"]


class UsageError(Exception):
    """Something on the command line, or in the file it names, that the user can put right."""


def import_file(path: Path) -> ModuleType:
    """Import a file so that it finds its neighbours as with ``python FILE``, under a name of its own.

    Raises
    ------
    UsageError
        If there is no such file, or it fails.
    """
    if not path.is_file():
        raise UsageError(f"there is no file {path}")
    # A prefix keeps a user's file called types.py from standing in for the standard module.
    name = f"_diffkern_file_{path.stem}"
    # Not by a search on the path, which may find another module of that name.
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise UsageError(f"{path} is not a Python file; its name must end in .py")
    module = importlib.util.module_from_spec(spec)
    # Before it runs: dataclasses and pickle look a class's module up by name.
    sys.modules[name] = module
    sys.path.insert(0, str(path.parent.resolve()))
    try:
        spec.loader.exec_module(module)
    except KernelError:
        # Its message has the source line, and the command prints it.
        raise
    except Exception as error:
        raise UsageError(f"{path} cannot be imported: {type(error).__name__}: {error}") from error
    finally:
        sys.path.pop(0)
    return module


def kernels_of(module: ModuleType) -> dict[str, Kernel]:
    """Return the kernels of a module, by name."""
    return {name: value for name, value in vars(module).items() if isinstance(value, Kernel)}


def find_kernel(module: ModuleType, name: str) -> Kernel:
    """Return a kernel of a module.

    Raises
    ------
    UsageError
        If it has none of that name.
    """
    found = getattr(module, name, None)
    if isinstance(found, Kernel):
        return found
    kernels = sorted(kernels_of(module))
    known = f"its kernels are {', '.join(kernels)}" if kernels else "it has none"
    if found is None:
        raise UsageError(f"{module.__file__} has no kernel {name!r}; {known}")
    raise UsageError(f"{name!r} in {module.__file__} is not a kernel; {known}")
