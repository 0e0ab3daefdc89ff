"""Reads a checkout of NPBench: parameters, inputs, and the functions of each framework."""

from __future__ import annotations

import importlib.util
import inspect
import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

REPOSITORY = "https://github.com/spcl/npbench"


@dataclass(frozen=True)
class Published:
    """One program of a checkout.

    Attributes
    ----------
    info
        The content of its file in ``bench_info``.
    folder
        Where its modules are.
    """

    info: dict[str, Any]
    folder: Path

    def inputs(self, preset: str, changed: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the arguments of the program, by name, for a preset's parameters or changed ones."""
        values = {**self.info["parameters"][preset], **(changed or {})}
        init = self.info.get("init")
        if init:
            initialize = getattr(self.module(""), init["func_name"])
            found = initialize(*(values[name] for name in init["input_args"]))
            found = found if isinstance(found, tuple) else (found,)
            values.update(zip(init["output_args"], found, strict=True))
        return {name: values[name] for name in self.info["input_args"]}

    def module(self, suffix: str) -> ModuleType:
        """Import one of the program's modules from its file."""
        path = self.folder / f"{self.info['module_name']}{suffix}.py"
        if not path.exists():
            raise FileNotFoundError(f"NPBench has no {path.name}")
        spec = importlib.util.spec_from_file_location(f"published_{path.stem}", path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
        return module

    def function(self, suffix: str) -> Callable[..., Any]:
        """Return the program in one framework: ``_numpy``, ``_numba_n``, ``_numba_np``, ``_jax``."""
        found: Callable[..., Any] = getattr(self.module(suffix), self.info["func_name"])
        return found

    def results(self, function: Callable[..., Any], inputs: dict[str, Any]) -> list[np.ndarray[Any, Any]]:
        """Run a version on copies of the inputs; return what it returns, then what it overwrites.

        What counts as overwritten are the published results, or, if it changes none of these, all arguments that it
        changes.
        """
        arguments = {name: v.copy() if isinstance(v, np.ndarray) else v for name, v in inputs.items()}
        returned = function(*arguments.values())
        values = [] if returned is None else list(returned) if isinstance(returned, tuple) else [returned]
        changed = [n for n, v in inputs.items() if isinstance(v, np.ndarray) and not np.array_equal(v, arguments[n])]
        published = [name for name in self.info["output_args"] if name in arguments]
        values += [arguments[name] for name in published if not changed or set(published) & set(changed)]
        values = values or [arguments[name] for name in changed]
        distinct: list[Any] = []
        for value in values:
            if not any(value is other for other in distinct):
                distinct.append(value)
        return [np.asarray(value) for value in distinct]


def published(source: Path, name: str) -> Published:
    """Return one program of a checkout."""
    info = json.loads((source / "bench_info" / f"{name}.json").read_text(encoding="utf-8"))["benchmark"]
    return Published(info, source / "npbench" / "benchmarks" / info["relative_path"])


def names(source: Path) -> list[str]:
    """Return the names of all programs of a checkout."""
    return sorted(path.stem for path in (source / "bench_info").glob("*.json"))


def revision(source: Path) -> str:
    """Return the repository and the commit of a checkout."""
    found = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=source, capture_output=True, text=True, check=False
    )
    return f"{REPOSITORY} at {found.stdout.strip() or 'an unknown commit'}"


def without_jit(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the Python function of one that ``jax.jit`` has wrapped, so that integers stay constants of the loops."""
    return inspect.unwrap(function)
