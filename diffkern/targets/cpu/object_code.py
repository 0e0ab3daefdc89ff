"""The compiler proper: LLVM text to optimised object code for the processor that numba compiles for, or a named one.

The native target is numba's: its triple, processor name and features (which NUMBA_CPU_NAME and NUMBA_CPU_FEATURES set).
The named ones are levels of processors on this operating system. The passes run on a module of our own, so an object
holds the kernel and nothing else: no part of numba's run time, and the same bytes for the same text in any process and
in any order of compilation.
"""

from __future__ import annotations

import functools
import re
import threading
from typing import Any

from llvmlite import binding as llvm

from diffkern.contracts.platforms import NAMED, NATIVE, Level
from diffkern.errors import CompileError
from diffkern.process import llvm_modules
from diffkern.process.dataclass import dataclass
from diffkern.process.forks import free_in_child
from diffkern.process.interrupts import interruptible
from diffkern.targets.cpu.numba_target import numba_target
from diffkern.targets.cpu.uniform import MOST_QUESTIONS
from diffkern.targets.emit.types import Isa
from diffkern.vecmath.masked import PREFIX

VECTORIZE_LIMIT = 2500
"""Kernels of more instructions and literals are compiled without the loop vectoriser, whose time grows with the square
of a loop: 0.6 s at this limit, where the rest of the compilation takes 0.2 s."""

_FULL_WIDTH = frozenset(
    {"sapphirerapids", "emeraldrapids", "graniterapids", "graniterapids-d", "diamondrapids", "znver5"}
)
"""Processors whose 512-bit vectors are worth using. LLVM prefers 256 bits on all of Intel's because the early ones slow
down under wider vectors; these do not: sin and exp over 4M float32 took 6.6 ms instead of 8.9. On AMD's it prefers 512
bits as it is; with Zen 5 an operation on them takes no longer than one on 256, and lanes are up to twice as fast."""

_LONGEST_UNROLLED = 24
"""Some processors are described to LLVM as if loops of hundreds of instructions gained by being unrolled."""

_lock = free_in_child(threading.Lock())


@dataclass(frozen=True, slots=True)
class Machine:
    """The machine that code is compiled for.

    Attributes
    ----------
    llvm
        LLVM's description of it.
    isa
        The facts that the emitter needs.
    """

    llvm: Any
    isa: Isa


@functools.cache
def machine(name: str = NATIVE) -> Machine:
    """Return a machine by the name of its target, made on first use.

    Raises
    ------
    CompileError
        If LLVM here has no such target.
    """
    return interruptible(lambda: _named(NAMED[name]) if name in NAMED else _native())


def _named(level: Level) -> Machine:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    _, _, system = llvm.get_process_triple().partition("-")
    triple = f"{'arm64' if level.machine == 'aarch64' and 'apple' in system else level.machine}-{system}"
    try:
        llvm.Target.from_triple(triple)
    except RuntimeError as error:
        raise CompileError(f"LLVM here cannot compile for {triple}: {error}") from error
    return _machine(triple, level.cpu, "", level.fma)


def _native() -> Machine:
    triple, cpu, features = numba_target()
    # The feature has to be taken back explicitly, as numba's list contains it.
    if cpu in _FULL_WIDTH:
        features += ",-prefer-256-bit"
    return _machine(triple, cpu, features, None)


def _machine(triple: str, cpu: str, features: str, fma: bool | None) -> Machine:
    """Return a machine for code that is loaded into a process."""
    described = llvm.Target.from_triple(triple)
    made = described.create_target_machine(cpu=cpu, features=features, opt=3, jit=True, **_addressing(triple))
    has = features.split(",")
    level = cpu in ("x86-64-v3", "x86-64-v4")
    halves = level or triple.startswith(("aarch64", "arm64")) or "+f16c" in has
    # Lanes fill the widest vectors that the processor runs at full speed.
    wide = "+avx512f" in has and cpu in _FULL_WIDTH
    vector_bytes = 64 if wide else 32 if level or "+avx" in has else 16
    registers = 32 if cpu == "x86-64-v4" or "+avx512vl" in has or triple.startswith(("aarch64", "arm64")) else 16
    isa = Isa(
        triple, str(made.target_data), fma, halves, vector_bytes=vector_bytes, vector_registers=registers,
        longest_unrolled=_LONGEST_UNROLLED,
    )  # fmt: skip
    return Machine(made, isa)


def _addressing(triple: str) -> dict[str, str]:
    """Return LLVM's options of how code reaches its constants and what it calls."""
    if not triple.startswith("x86_64"):
        return {"reloc": "default"}
    if "linux" in triple:
        # The linker puts an object's constants beside its code, and a jump there to each function from elsewhere.
        return {"reloc": "pic", "codemodel": "small"}
    # The code is loaded into this process at a known address, so it need not be position independent.
    return {"reloc": "static"}


def optimised_text(text: str, weight: int, t: Machine, questions: float = 0.0) -> str:
    """Return the result of :func:`optimise` as text."""
    return interruptible(lambda: str(optimise(text, weight, t, questions)))


def optimise(text: str, weight: int, t: Machine, questions: float = 0.0) -> Any:
    """Parse, verify and optimise a module.

    The work is bounded by properties of the module, never by a clock: the same text gives the same code.

    Parameters
    ----------
    text : str
        The module.
    weight : int
        The length of its kernel.
    t : Machine
        The machine that code is compiled for.
    questions : float, optional
        The result of ``uniform_questions``. If there are too many, loops are vectorised but not interleaved.
    """

    def passed() -> Any:
        with _lock:
            vectorise = weight <= VECTORIZE_LIMIT
            module = _passed(text, t, vectorise, interleave=vectorise and questions <= MOST_QUESTIONS)
            # A known LLVM bug moves such loads behind stores (see sunk_loads); the module is compiled again without it.
            if vectorise and has_sunk_loads(module):
                module = _passed(text, t, vectorise=False, interleave=False)
            _inline_masked(module, t)
            return module

    return interruptible(passed)


def _passed(text: str, t: Machine, vectorise: bool, interleave: bool) -> Any:
    module = llvm_modules.parse(text)
    module.verify()
    _run_passes(module, t.llvm, vectorise, interleave)
    return module


def _run_passes(module: Any, machine: Any, vectorise: bool, interleave: bool) -> None:
    options = llvm.create_pipeline_tuning_options(speed_level=3)
    options.loop_vectorization = vectorise
    options.loop_interleaving = interleave
    options.loop_unrolling = True
    # Superword vectorisation of straight-line code costs time and rarely pays for kernels.
    options.slp_vectorization = False
    passes = llvm.create_pass_builder(machine, options)
    llvm_modules.run_passes(passes.getModulePassManager(), module, passes)


def _inline_masked(module: Any, t: Machine) -> None:
    """Inline the vector forms of rare calls where the vectoriser put them, and drop the others."""
    forms = [f for f in module.functions if f.name.startswith(PREFIX) and f.linkage == llvm.Linkage.external]
    if not forms:
        return
    # External until now, so that the vectoriser could call forms it had not inlined.
    for f in forms:
        f.linkage = llvm.Linkage.internal
    after = llvm.create_new_module_pass_manager()
    after.add_always_inliner_pass()
    after.add_global_dead_code_eliminate_pass()
    builder = llvm.create_pass_builder(t.llvm, llvm.create_pipeline_tuning_options(speed_level=3))
    llvm_modules.run_passes(after, module, builder)


def object_code(module: Any, t: Machine) -> bytes:
    """Return the object file of an optimised module."""

    def emitted() -> bytes:
        with _lock:
            return bytes(t.llvm.emit_object(module))

    return interruptible(emitted)


def assembly(text: str, t: Machine) -> str:
    """Return the assembly of an optimised module given as text, with LLVM's comments, which tell spills from stores."""

    def emitted() -> str:
        with _lock:
            t.llvm.set_asm_verbosity(True)
            try:
                return str(t.llvm.emit_assembly(llvm_modules.parse(text)))
            finally:
                t.llvm.set_asm_verbosity(False)

    return interruptible(emitted)


# -- sunk loads --------------------------------------------------------------------------------------------------------
# Detects loads that LLVM 22 moves behind the stores that overwrite their element.
#
# ``has_sunk_loads`` tells whether a masked load of an optimised module may stand behind such a store.
#
# The loop vectoriser turns the loads in a branch into masked loads, and selects by the same mask where branches meet.
# The pass ``instcombine`` merges both into one masked load, which gives the other value where the mask is off, and
# puts it in the place of the selection: a thread that swaps an element under a condition reads its own store
# (llvm/llvm-project#215453, fixed after 22.1). Only that fold makes a masked load give anything but ``poison`` where
# the mask is off; those of lanes give zeros, and are frozen, which keeps the fold away from them.


_LOAD = "llvm.masked.load."
_LABEL = re.compile(r"^[\w.\"-]*vector\.body[\w.\"-]*:")
_LOADED = re.compile(r"^\s*(%[\w.\"-]+) = .*call .*@llvm\.masked\.load\..*[> ](\S+)\)(?:,|$| #)")
_STORES = re.compile(r"^\s*(?:store |.*call .*@llvm\.(?:masked\.(?:store|scatter)|mem(?:set|cpy|move))\.)")
_NOTHING = ("poison", "undef")


def has_sunk_loads(module: Any) -> bool:
    """Return whether a masked load of a vectorised loop gives a selected value and follows a store of its trip."""
    # Most modules have no masked load, and need not be printed.
    if not any(f.is_declaration and f.name.startswith(_LOAD) for f in module.functions):
        return False
    text = str(module)
    stored, suspects = False, []
    for line in text.splitlines():
        # A store counts within one vectorised iteration only.
        if line.startswith(("define ", "}")) or _LABEL.match(line):
            stored = False
        elif _STORES.match(line):
            stored = True
        elif stored and _LOAD in line:
            loaded = _LOADED.match(line)
            if loaded is None or loaded[2] not in _NOTHING:
                suspects.append("" if loaded is None else loaded[1])
    # A frozen load is one of the lanes' own, which the fold cannot have touched.
    return any(not re.search(rf"= freeze <[^>]*> {re.escape(name)}(?![\w.])", text) for name in suspects)
