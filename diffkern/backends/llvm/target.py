"""The compiler proper: LLVM text to optimised object code for the processor that numba compiles for.

The target is numba's: its triple, processor name and features (which NUMBA_CPU_NAME and NUMBA_CPU_FEATURES set). The
passes run on a module of our own, so an object holds the kernel and nothing else: no part of numba's run time, and the
same bytes for the same text in any process and in any order of compilation.
"""

from __future__ import annotations

import functools
import threading
from dataclasses import dataclass
from typing import Any

import llvmlite
import numba
from llvmlite import binding as llvm
from numba.core.registry import cpu_target

from diffkern.backends.vecmath.masked import PREFIX

VECTORIZE_LIMIT = 2500
"""Kernels of more instructions and literals are compiled without the loop vectoriser, whose time grows with the square
of a loop: 0.6 s at this limit, where the rest of the compilation takes 0.2 s."""

_FULL_WIDTH = frozenset({"sapphirerapids", "emeraldrapids", "graniterapids", "graniterapids-d", "diamondrapids"})
"""Processors whose 512-bit vectors are worth using. LLVM prefers 256 bits on all of Intel's because the early ones slow
down under wider vectors; these do not: sin and exp over 4M float32 took 6.6 ms instead of 8.9."""

_lock = threading.Lock()


@dataclass(frozen=True, slots=True)
class Target:
    """What code is made for."""

    triple: str
    data_layout: str
    cpu: str
    features: str
    machine: Any


@functools.cache
def target() -> Target:
    """The target of this process, made on first use."""
    triple, cpu, features = cpu_target.target_context.codegen().magic_tuple()
    if cpu in _FULL_WIDTH:
        features += ",-prefer-256-bit"
    machine = llvm.Target.from_triple(triple).create_target_machine(
        cpu=cpu, features=features, opt=3, reloc="static" if triple.startswith("x86_64") else "default", jit=True
    )
    return Target(triple, str(machine.target_data), cpu, features, machine)


def description() -> dict[str, str]:
    """Everything on which the code depends besides the program: target and compiler versions."""
    t = target()
    return {
        "triple": t.triple,
        "cpu": t.cpu,
        "features": t.features,
        "numba": numba.__version__,
        "llvmlite": llvmlite.__version__,
    }


def optimise(text: str, weight: int) -> Any:
    """Parse, verify and optimise a module; ``weight`` is the length of its kernel."""
    with _lock:
        module = llvm.parse_assembly(text)
        module.verify()
        options = llvm.create_pipeline_tuning_options(speed_level=3)
        options.loop_vectorization = weight <= VECTORIZE_LIMIT
        options.loop_interleaving = weight <= VECTORIZE_LIMIT
        options.loop_unrolling = True
        options.slp_vectorization = False
        passes = llvm.create_pass_builder(target().machine, options)
        passes.getModulePassManager().run(module, passes)
        _inline_masked(module, passes)
        return module


def _inline_masked(module: Any, passes: Any) -> None:
    """Inline the vector forms of rare calls where the vectoriser put them, and drop the others."""
    forms = [f for f in module.functions if f.name.startswith(PREFIX) and f.linkage == llvm.Linkage.external]
    if not forms:
        return
    for f in forms:
        f.linkage = llvm.Linkage.internal
    after = llvm.create_new_module_pass_manager()
    after.add_always_inliner_pass()
    after.add_global_dead_code_eliminate_pass()
    after.run(module, passes)


def object_code(module: Any) -> bytes:
    """The object of an optimised module."""
    with _lock:
        return bytes(target().machine.emit_object(module))


def assembly(text: str) -> str:
    """Assembly of an optimised module given as text."""
    with _lock:
        return str(target().machine.emit_assembly(llvm.parse_assembly(text)))
