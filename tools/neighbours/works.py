"""What the process of a piece does: import modules, compile kernels, or run a program step by step.

Each is made once in a process and called with requests; it yields replies that can be written as JSON.
"""

from __future__ import annotations

import gc
import importlib
import importlib.util
import os
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

__all__ = ["WORKS", "first_line"]

Reply = dict[str, Any]
_LONGEST = 240
"""Characters of a message."""


def first_line(error: BaseException) -> str:
    """Return the kind of an error and the first line of its message."""
    lines = [line for line in str(error).splitlines() if line.strip()] or [""]
    if re.fullmatch(r"\d+ errors", lines[0]):  # of which each has its own message
        lines = lines[1:]
    return f"{type(error).__name__}: {lines[0].strip()}"[:_LONGEST]


class Modules:
    """Imports modules one after the other."""

    def __call__(self, request: Reply) -> Iterator[Reply]:
        for name in request["names"]:
            yield {"started": name}
            begin = time.process_time()
            try:
                importlib.import_module(name)
                error = None
            except BaseException as caught:
                error = first_line(caught)
            yield {"name": name, "error": error, "seconds": time.process_time() - begin}


class Kernels:
    """Compiles the kernels that are there when modules are imported; only under ``diffkern``."""

    def __call__(self, request: Reply) -> Iterator[Reply]:
        for name in request["names"]:
            if name not in sys.modules:
                try:
                    importlib.import_module(name)
                except BaseException as caught:
                    yield {"module": name, "error": first_line(caught)}
        yield from compiled(set(request["names"]), request["targets"], frozenset(request["done"]))


class Program:
    """Runs a program."""

    def __init__(self) -> None:
        self.program: Any = None

    def __call__(self, request: Reply) -> Iterator[Reply]:
        yield getattr(self, request["do"])(**request.get("with", {}))

    def first(self, path: str) -> Reply:
        """Import the program, and do its first step; the time is that of the whole process so far."""
        name = Path(path).stem
        sys.path.append(str(Path(path).parent))  # where it finds what it has in common with others
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        module = sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        self.program = module.begin()
        self.program.step()
        return {"seconds": sum(os.times()[:4])}

    def steps(self, count: int) -> Reply:
        """Do steps."""
        begin = time.process_time()
        for _ in range(count):
            self.program.step()
        return {"seconds": time.process_time() - begin}

    def outputs(self, to: str) -> Reply:
        """Write the outputs, and what they are to be by other means where the program has that."""
        import numpy as np

        found = {f"output {name}": value for name, value in self.program.outputs().items()}
        if hasattr(self.program, "reference"):
            found |= {f"reference {name}": value for name, value in self.program.reference().items()}
        arrays: dict[str, Any] = {name: np.asarray(value) for name, value in found.items()}
        np.savez(to, **arrays)
        return {"names": sorted(found)}


class KernelsOfProgram(Program):
    """Runs a program, and compiles the kernels that it has launched; only under ``diffkern``."""

    def __call__(self, request: Reply) -> Iterator[Reply]:
        if self.program is None:
            self.first(request["program"])
        yield from compiled(None, request["targets"], frozenset(request["done"]), request["prefix"])


WORKS = {"modules": Modules, "kernels": Kernels, "program": Program, "launched": KernelsOfProgram}


# -- kernels -----------------------------------------------------------------------------------------------------------


def compiled(modules: set[str] | None, targets: list[str], done: frozenset[str], prefix: str = "") -> Iterator[Reply]:
    """Compile kernels that are in use, forward and for all arrays with gradients.

    Parameters
    ----------
    modules : set of str, optional
        Modules of the kernels that are taken by their annotations; None for those that were launched, by their
        arguments.
    targets : list of str
        ``cpu``, ``sm_90``.
    done : frozenset of str
        Names of kernels that are left out.
    prefix : str
        How modules of launched kernels begin.
    """
    from diffkern.kernels.kernel import Kernel

    found = [one for one in gc.get_objects() if isinstance(one, Kernel)]
    for kernel in sorted(found, key=lambda one: (one.func.__module__, one.name)):
        module = kernel.func.__module__
        if module not in modules if modules is not None else not module.startswith(prefix):
            continue
        for name, types, error in _signatures(kernel, launched=modules is None):
            if name not in done:
                yield {"started": name}
                yield {"name": name, **(_tried(kernel, types, targets) if error is None else {"unknown": error})}


def _signatures(kernel: Any, launched: bool) -> Iterator[tuple[str, Any, str | None]]:
    """Yield a name and the types for each signature of a kernel, or why there is none."""
    from diffkern.runtime.arrays.type_keys import type_of_key
    from diffkern.shipping.ahead import is_annotated

    base = f"{kernel.func.__module__}.{kernel.func.__qualname__}"
    if launched:
        for keys in kernel.programs:
            types = [type_of_key(key) for key in keys[: len(kernel.parameters)]]
            yield f"{base}({', '.join(map(str, types))})", types, None
        return
    try:
        if not is_annotated(kernel):
            yield base, None, "generic: its types are known when it is launched"
            return
        types = kernel.argument_types()
    except Exception as caught:
        yield base, None, first_line(caught)
        return
    yield f"{base}({', '.join(map(str, types))})", types, None


def _tried(kernel: Any, types: Any, targets: list[str]) -> Reply:
    from diffkern.compiler.specialize import Specialization
    from diffkern.shipping.ahead import arrays_with_gradients

    forward = Specialization(kernel.func, tuple(types), kernel.variant)
    begin = time.process_time()
    reply: Reply = {"forward": {target: _said(_error(forward, target)) for target in targets}}
    active = arrays_with_gradients(forward.types)
    if kernel.enable_backward and active:
        errors = {target: _error(forward.with_variant(active=active), target) for target in targets}
        looked = {target for target, error in errors.items() if getattr(error, "is_race", False)}
        errors |= {target: _error_where_looked_at(forward, active, target) for target in looked}
        reply["adjoint"] = {target: _said(error) for target, error in errors.items()}
        reply["looked at"] = sorted(target for target in looked if errors[target] is None)
    return {**reply, "seconds": time.process_time() - begin}


def _said(error: Exception | None) -> str | None:
    return None if error is None else first_line(error)


def _error(specialization: Any, target: str) -> Exception | None:
    """Return why a program cannot be made for a target, None if it can."""
    try:
        _program(specialization, target)
    except Exception as caught:
        return caught
    return None


def _program(specialization: Any, target: str) -> Any:
    from diffkern.compiler.compiled import compile_for
    from diffkern.compiler.specialize import load

    return load(specialization) if target == "cpu" else compile_for(specialization.for_block(256, None), target)


def _error_where_looked_at(forward: Any, active: Any, target: str) -> Exception | None:
    """Return why an adjoint cannot be made for launches that a tape looks at, or what looks at them."""
    from diffkern.contracts.options import AdjointForm

    try:
        program = _program(forward.with_variant(active=active, form=AdjointForm(stamped=True)), target)
        arrays = frozenset(pair.array for pair in program.manifest.unproved)
        if arrays:
            _program(forward.with_variant(log="stamped", log_for=arrays), target)
    except Exception as caught:
        return caught
    return None
