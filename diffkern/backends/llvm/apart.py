"""LLVM's passes, here or in a process of their own that can be ended.

In: a module, and what it is compiled for. Out: the optimised module, as bitcode from the other process; or None if that
did not finish in time. LLVM holds on to a thread until it has done, and nothing but the end of its process stops it.
This file is also the program of that process: it imports llvmlite alone.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from llvmlite import binding as llvm

__all__ = ["create_machine", "optimise_apart", "run_passes"]


# Not as a script: the folder of this file holds modules with names of the standard library's.
_START = "import runpy, sys; sys.path += sys.argv[2:]; runpy.run_path(sys.argv[1], run_name='__main__')"


def create_machine(triple: str, cpu: str, features: str) -> Any:
    """Return LLVM's description of a processor, for code that is loaded into a process."""
    relocation = "static" if triple.startswith("x86_64") else "default"
    target = llvm.Target.from_triple(triple)
    return target.create_target_machine(cpu=cpu, features=features, opt=3, reloc=relocation, jit=True)


def run_passes(module: Any, machine: Any, vectorise: bool) -> None:
    """Optimise a module, with or without its loop vectoriser."""
    options = llvm.create_pipeline_tuning_options(speed_level=3)
    options.loop_vectorization = vectorise
    options.loop_interleaving = vectorise
    options.loop_unrolling = True
    options.slp_vectorization = False
    passes = llvm.create_pass_builder(machine, options)
    passes.getModulePassManager().run(module, passes)


def optimise_apart(text: str, triple: str, cpu: str, features: str, seconds: float) -> bytes | None:
    """Return a module's bitcode after the passes; None if they take longer, or the process cannot be had."""
    order = json.dumps([triple, cpu, features, text]).encode()
    command = [sys.executable, "-I", "-S", "-c", _START, __file__, *filter(None, sys.path)]
    try:
        done = subprocess.run(command, input=order, capture_output=True, timeout=seconds, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 and done.stdout else None


def _main() -> None:
    triple, cpu, features, text = json.load(sys.stdin)
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    module = llvm.parse_assembly(text)
    run_passes(module, create_machine(triple, cpu, features), vectorise=True)
    sys.stdout.buffer.write(module.as_bitcode())


if __name__ == "__main__":
    _main()
