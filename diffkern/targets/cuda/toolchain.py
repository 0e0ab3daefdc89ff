"""The compilers for CUDA; no other module names them.

LLVM's own NVPTX back end (of llvmlite) makes PTX. libNVVM makes LTO code from the modules that numba-cuda makes, and
nvJitLink makes PTX from that and other LTO code. It assembles either PTX to a cubin. No driver is needed.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Sequence
from importlib import import_module
from typing import Any, Literal

from llvmlite import binding as llvm

from diffkern.contracts.platforms import ARCHITECTURES
from diffkern.errors import CompileError
from diffkern.process import llvm_modules, wheels
from diffkern.process.forks import free_in_child
from diffkern.process.interrupts import interruptible
from diffkern.targets.cuda import libdevice

TRIPLE = "nvptx64-nvidia-cuda"
DATA_LAYOUT = "e-p6:32:32-i64:64-i128:128-i256:256-v16:16-v32:32-n16:32:64"

_FEATURES = {"sm_75": "+ptx81", "sm_80": "+ptx81", "sm_86": "+ptx81", "sm_87": "+ptx81", "sm_89": "+ptx81",
             "sm_90": "+ptx81", "sm_100": "+ptx86", "sm_103": "+ptx88", "sm_120": "+ptx87"}  # fmt: skip
"""The architectures that LLVM compiles for, each with an early PTX version that has it, which more drivers accept."""
_BASES = {"sm_88": "sm_86", "sm_110": "sm_100", "sm_121": "sm_120"}
"""Architectures that only the assembler knows, each with the one whose PTX it accepts."""

_lock = free_in_child(threading.Lock())


@functools.cache
def machine(arch: str) -> Any:
    """Return LLVM's description of an architecture.

    Raises
    ------
    CompileError
        If there is no such architecture.
    """
    if arch not in {*_FEATURES, *_BASES}:
        known = ", ".join(f"sm_{number}" for number in ARCHITECTURES)
        raise CompileError(f"there is no CUDA target {arch!r}", remedy=f"take one of {known}")
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    # An architecture that LLVM does not know is compiled as its base; the assembler knows the real one.
    cpu = _BASES.get(arch, arch)
    return llvm.Target.from_triple(TRIPLE).create_target_machine(cpu=cpu, features=_FEATURES[cpu], opt=3)


def optimise(text: str, arch: str, library: tuple[str, ...], public: tuple[str, ...]) -> Any:
    """Parse, verify and optimise a module, with functions of NVIDIA's mathematical library linked in."""
    with _lock:
        target = machine(arch)
        module = llvm_modules.parse(text)
        if library:
            module.link_in(llvm_modules.parse(libdevice.functions(library, TRIPLE, DATA_LAYOUT), beside=module))
        # Everything but the kernel becomes internal, so that unused library functions are dropped after inlining.
        for f in module.functions:
            if not f.is_declaration and f.name not in public:
                f.linkage = llvm.Linkage.internal
                # A hint alone has no effect here: the passes below inline only what must be inlined.
                if any(b"inlinehint" in group for group in f.attributes):
                    f.add_function_attribute("alwaysinline")
        module.verify()
        builder = llvm.create_pass_builder(target, llvm.create_pipeline_tuning_options(speed_level=3))
        llvm_modules.run_passes(_passes(), module, builder)
        return module


def _passes() -> Any:
    """Return the passes that the back end and the assembler, which both optimise too, cannot replace.

    LLVM's usual pipeline takes three times as long for the same machine code. Nothing unrolls here: the assembler does,
    by 4, where a loop has its condition at the end.
    """
    passes = llvm.create_new_module_pass_manager()
    passes.add_always_inliner_pass()
    passes.add_global_dead_code_eliminate_pass()
    passes.add_sroa_pass()
    passes.add_simplify_cfg_pass()
    passes.add_loop_simplify_pass()
    # The condition of a loop moves to its end, which is the form that the assembler unrolls.
    passes.add_loop_rotate_pass()
    passes.add_instruction_combine_pass()
    passes.add_simplify_cfg_pass()
    return passes


@functools.cache
def bindings(name: Literal["nvjitlink", "nvvm"]) -> Any:
    """Return the module of ``cuda.bindings`` for a library, with the library loaded.

    Raises
    ------
    CompileError
        If one of the two is not installed.
    """
    try:
        wheels.load({"nvjitlink": "libnvJitLink.so.*", "nvvm": "libnvvm.so.*"}[name])
        module = import_module(f"cuda.bindings.{name}")
        # Asking for the version fails where the bindings are installed without the library.
        module.version()
    except (ImportError, OSError, RuntimeError) as error:  # RuntimeError: of the search in cuda.pathfinder
        raise libdevice.absent(error) from error
    return module


def warm_up(arch: str) -> None:
    """Load the compilers for an architecture, so that processes forked from this one have them."""
    bindings("nvjitlink")
    interruptible(lambda: (machine(arch), libdevice.load()))


def ptx(module: Any, arch: str) -> str:
    """Return the PTX of an optimised module."""
    with _lock:
        text = str(machine(arch).emit_assembly(module))
    # LLVM takes the widest scope here; a launch is on one device, as for all other atomic operations.
    return (
        text.replace("atom.relaxed.sys.global.cas", "atom.relaxed.gpu.global.cas")
        .replace("ld.relaxed.sys.global", "ld.relaxed.gpu.global")
        .replace("fence.acq_rel.sys", "fence.acq_rel.gpu")
    )


def lto_code(modules: Sequence[str], symbol: str, arch: str, *, fuse: bool = True) -> bytes:
    """Return LTO code of modules in the dialect of libNVVM; `fuse` allows rounding a product and a sum once."""
    nvvm = bindings("nvvm")
    machine(arch)
    number = arch.removeprefix("sm_")
    library = libdevice.bitcode()
    program = nvvm.create_program()
    try:
        for text in modules:
            code = text.encode()
            nvvm.add_module_to_program(program, code, len(code), symbol)
        # Lazily: only the functions of libdevice that are called are compiled.
        nvvm.lazy_add_module_to_program(program, library, len(library), "libdevice")
        options = [f"-arch=compute_{number}", "-opt=3", "-gen-lto", f"-fma={fuse:d}"]
        try:
            nvvm.compile_program(program, len(options), options)
        except nvvm.nvvmError as error:
            log = bytearray(nvvm.get_program_log_size(program))
            nvvm.get_program_log(program, log)
            raise CompileError(f"libNVVM: {_text(log)} ({error})") from error
        out = bytearray(nvvm.get_compiled_result_size(program))
        nvvm.get_compiled_result(program, out)
        return bytes(out)
    finally:
        nvvm.destroy_program(program)


def link(inputs: Sequence[bytes], arch: str, name: str, *, fuse: bool = True) -> str:
    """Return the PTX of pieces of LTO code that are optimised together."""
    # What is linked brings thousands of constants that no kernel reads, with names of hundreds of letters.
    options = [f"-arch={arch}", "-O3", "-lto", "-ptx", "-optimize-unused-variables", f"-fma={fuse:d}"]
    return _text(_nvjitlink(options, "LTOIR", inputs, "linked_ptx", name))


def assemble(text: str, arch: str, name: str, *, lineinfo: bool = False) -> bytes:
    """Return the cubin of a PTX module."""
    options = [f"-arch={arch}", "-O3", *(["-lineinfo"] if lineinfo else [])]
    return bytes(_nvjitlink(options, "PTX", [text.encode()], "linked_cubin", name))


def _nvjitlink(options: list[str], kind: str, inputs: Sequence[bytes], result: str, name: str) -> bytearray:
    """Return nvJitLink's result for inputs of one kind: a ``linked_cubin``, or ``linked_ptx``."""
    nvjitlink = bindings("nvjitlink")
    try:
        handle = nvjitlink.create(len(options), options)
    except nvjitlink.nvJitLinkError as error:
        major, minor = nvjitlink.version()
        raise CompileError(
            f"nvJitLink {major}.{minor} does not take {options[0]} ({error})",
            remedy="install a later nvidia-nvjitlink, or compile for another architecture",
        ) from error
    try:
        try:
            for data in inputs:
                nvjitlink.add_data(handle, getattr(nvjitlink.InputType, kind), data, len(data), name)
            nvjitlink.complete(handle)
        except nvjitlink.nvJitLinkError as error:
            log = bytearray(nvjitlink.get_error_log_size(handle))
            nvjitlink.get_error_log(handle, log)
            raise CompileError(f"nvJitLink: {_text(log)} ({error})") from error
        out = bytearray(getattr(nvjitlink, f"get_{result}_size")(handle))
        getattr(nvjitlink, f"get_{result}")(handle, out)
        return out
    finally:
        nvjitlink.destroy(handle)


def _text(log: bytearray) -> str:
    return log.decode(errors="replace").rstrip("\0").strip()
